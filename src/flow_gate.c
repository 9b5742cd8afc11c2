/*
 * flow_gate.c
 *		Who may try when a limit is short that several tenants share.
 *
 * Ten thousand tenants may wait for one endpoint limit.  If each were woken at
 * every refill, each claim would pick, refuse and park nearly all of them again.
 * So flows that such a bucket refuses stand in a line (flow_line.c), and one flow
 * of the line at a time may try.
 *
 * WHO STANDS IN LINE.  A flow whose refusal opens last at a rate or concurrency
 * bucket that is neither its tenant's alone nor met by every call (for those:
 * job_turn.c).  Not: who waits for credits, for a job too dear for what is left must
 * not hold cheaper ones back until the period ends; who needs more than the bucket
 * ever holds.  These are parked one by one, in a list of the bucket's gate (gate.c),
 * and all of them may try when that opens.
 *
 * A limit across providers has a gate in each provider's slot, and lines there;
 * flow_across.c tells how an event on its bucket comes to all of them.
 *
 * A LINE IS
 *
 *	held		some flow has the turn: it is READY, and the line's holder
 *	closed		at one bucket, which refused the flow that goes first
 *	both		somebody who goes before the holder was refused
 *	idle		nobody waits
 *
 * THE INVARIANT, whenever the slot's lock is free: a line in which somebody waits
 * is held, or closed at a bucket that either opens by time (gate_ns) no later than
 * it has room for who goes first, or is where another line is closed for which that
 * is so and which goes before this one.  settle() restores the first half at the
 * end of every change: if the line is neither held nor closed, who goes first gets
 * the turn.
 *
 * WHAT HAPPENS
 *
 *	A bucket opens, by time or by an event on it (a permit has ended, a take was
 *	returned): all lines closed at it are open, so each gets a holder.  There are
 *	as many lines as sets of limits and classes, not as tenants.  Among holders
 *	the order of picks decides, as among any READY flows, so reserves and ages of
 *	classes are obeyed.
 *
 *	A holder is charged, or its share is, for another flow or a direct call: the next
 *	one gets the turn.  The share of such a holder had the choice, and has older work
 *	elsewhere, or is ahead of others now; the holder stays READY, as a newcomer.
 *
 *	A holder is refused for these limits: it stands in line again, first, and
 *	closes the line at the bucket that refused it.
 *
 *	A holder leaves the READY flows in any other way (it is empty, its tenant is
 *	suspended, its own limit refuses it): the next one gets the turn.
 *
 *	Who closed a line leaves it otherwise (its job was cancelled, its own timer has
 *	come), or is not the first any more (another's weight has changed, its share was
 *	served): the bucket is opened, for who goes first now may need less, and so may
 *	other lines that stood behind.
 *
 *	A session that has picked the holder dies: the turn is state of the flow, which
 *	is still READY, and the next claim picks it.  A holder whose claim is rolled
 *	back has passed the turn on when it was charged; what it took comes back as an
 *	event on the bucket.
 *
 * NO OVERTAKING.  A newcomer that meets a line whose holder or first waiter goes
 * before it stands in line without trying: else a dear job would wait for ever
 * while cheap ones take every unit.  Between lines: one closed at a bucket that the
 * newcomer meets goes before it if its class does, or in the same class if its
 * share does; then the newcomer's line is closed there too, "behind", and needs no
 * time of its own.  A line that is only held stops nobody: its holder is READY, and
 * picks are in order already.  Direct calls (quota_acquire) stand in no line: what
 * they take, who waits does not get.
 *
 * A RETURN THAT IS NO EVENT.  A try that takes, finds that the job costs something
 * else and returns what it took tells so with the number of parkings at its
 * beginning.  Were that an event for who had been refused before, two lines whose
 * jobs are too dear could open each other for ever.  So the bucket stays closed
 * unless somebody closed a line at it since.
 *
 * INTERLEAVINGS that were thought through; h is a holder, a bucket is b:
 *
 *	1	h is charged provisionally; the next one, n, gets the turn and is charged in
 *		another session; h's own job is too dear: h is refused, closes the line, and
 *		n was served before it.  One job out of order for each claim in the air.
 *	2	h is charged; n is refused because of it and closes the line; h's charge is
 *		undone: n parked since, so b opens.
 *	3	h, picked, is searched without a lock; b opens meanwhile: the line is held,
 *		nothing to do.  h's last decision is made under the lock and sees it.
 *	4	h is searched, and found empty in the same moment as a job is raised: it
 *		leaves and passes the turn, or stays READY and keeps it.
 *	5	x, a newcomer that goes before h, is refused by b: the line is held and
 *		closed.  h tries, finds x before it, stands behind; b opens, x has the turn.
 *	6	The weight of a waiting flow falls behind the holder's, or rises before: the
 *		order among those that wait is made anew; the holder keeps the turn.
 *
 * LIMITS.  A limit per user, connection or resource makes a line for each of those
 * that jobs name; when they all wait at an endpoint's bucket too, one of each tries
 * whenever that opens.
 *
 * A flow that meets two short buckets waits for the one that opens last,
 * and may find the other short then; nothing is set aside for it meanwhile.  When
 * the table of lines is full (as large as that of flows), flows wait one by one.
 */
#include "flow_gate.h"

#include "waiter.h"

/* See flow_gate.h. */
void
flow_gate_slot_init(uint32 slot)
{
	gate_slot_init(slot);
	dlist_init(&quota_slots[slot].idle_lines);
}

/* ---- opening and closing ---- */

/* Who goes first gets the turn, unless somebody has it or the line is closed. */
static void
settle(QuotaLine *l)
{
	QuotaFlow  *flow;

	if (l->holder != QUOTA_NO_INDEX || l->bucket != QUOTA_NO_INDEX ||
		(flow = flow_line_first((uint32) (l - quota_lines))) == NULL)
		return;
	flow_line_remove(flow);
	flow_line_set_holder((uint32) (l - quota_lines), (uint32) (flow - quota_flows));
	flow_set_ready(flow);
}

/* The line is closed at no bucket. */
static void
unclose(QuotaLine *l)
{
	dlist_delete(&l->bucket_node);
	gate_unpin(l->bucket);
	l->bucket = QUOTA_NO_INDEX;
	flow_line_update((uint32) (l - quota_lines));
}

/* All lines closed at the gate are open. */
static void
open_lines(QuotaGate *gate)
{
	gate->kept++;
	gate_clear_time(gate);
	while (!dlist_is_empty(&gate->lines))
	{
		QuotaLine  *l = dlist_head_element(QuotaLine, bucket_node, &gate->lines);

		unclose(l);
		settle(l);
	}
	gate->kept--;
	gate_drop(gate);
}

/* The gate where the line is closed. */
static QuotaGate *
gate_of(const QuotaLine *l)
{
	return gate_find(l->bucket, l->entry.owner);
}

/* Who goes first was refused by the bucket, or is behind another line there. */
static void
close_line(QuotaLine *l, uint32 bucket, const QuotaFlow *closer, int64 opens_ns)
{
	QuotaGate  *gate = gate_get(bucket, l->entry.owner);
	QuotaGate  *before = l->bucket == QUOTA_NO_INDEX ? NULL : gate_of(l);

	gate_pin(bucket);
	if (before)
		unclose(l);
	l->bucket = bucket;
	l->closer = (uint32) (closer - quota_flows);
	l->closed = closer->parking;
	dlist_push_tail(&gate->lines, &l->bucket_node);
	flow_line_update((uint32) (l - quota_lines));
	gate_set_time(gate, opens_ns);
	/* other lines may have stood behind this one there */
	if (before && before != gate)
		open_lines(before);
}

/* ---- who goes first ---- */

/* See flow_gate.h. */
bool
flow_line_is_before(uint32 line, uint32 flow)
{
	const QuotaFlow *f = &quota_flows[flow];
	uint32		holder = quota_lines[line].holder;
	const QuotaFlow *first = flow_line_first(line);

	if (holder != QUOTA_NO_INDEX && holder != flow &&
		flow_line_precedes(line, &quota_flows[holder], f))
		return true;
	return first != NULL && flow_line_precedes(line, first, f);
}

/* Is the closed line's first flow to be picked before f, were it READY? */
static bool
line_precedes(QuotaLine *l, const QuotaFlow *f)
{
	const QuotaFlow *first = flow_line_first((uint32) (l - quota_lines));
	const QuotaShare *share = share_of(f);

	if (first == NULL)
		return false;
	/* who leaves headroom to others does not hold them back meanwhile */
	if (l->class_index != share->class_index)
		return first->reason != QUOTA_CLASS_RESERVED &&
			class_precedes(&slot_of(l)->order, (int) l->class_index,
							  (int) share->class_index);
	if (first->share == f->share)
		return first->order < f->order;
	return !fair_precedes(&share->tag, &share_of(first)->tag);
}

/* See flow_gate.h. */
bool
flow_gate_is_before(uint32 bucket, uint32 line, uint32 flow)
{
	QuotaGate  *gate = gate_find(bucket, quota_flows[flow].entry.owner);
	dlist_iter	iter;

	if (gate == NULL)
		return false;
	dlist_foreach(iter, &gate->lines)
	{
		QuotaLine  *l = dlist_container(QuotaLine, bucket_node, iter.cur);

		if ((uint32) (l - quota_lines) != line &&
			line_precedes(l, &quota_flows[flow]))
			return true;
	}
	return false;
}

/* ---- coming and going ---- */

/* See flow_gate.h. */
void
flow_line_recheck(uint32 line)
{
	QuotaLine  *l = &quota_lines[line];
	const QuotaFlow *first;

	if (l->bucket == QUOTA_NO_INDEX)
		return;
	first = flow_line_first(line);
	if (first == NULL || (uint32) (first - quota_flows) != l->closer)
		open_lines(gate_of(l));
}

/* See flow_gate.h. */
void
flow_wait_for(QuotaFlow *flow, uint32 bucket)
{
	flow->waits_for = bucket;
	gate_pin(bucket);
	flow->listed = !flow->waiting;
	if (flow->listed)
		dlist_push_tail(&gate_get(bucket, flow->entry.owner)->blocked,
						&flow->bucket_node);
}

/* It waits for no bucket. */
static void
wait_no_more(QuotaFlow *flow)
{
	if (flow->waits_for == QUOTA_NO_INDEX)
		return;
	if (flow->listed)
	{
		dlist_delete(&flow->bucket_node);
		gate_drop(gate_find(flow->waits_for, flow->entry.owner));
	}
	gate_unpin(flow->waits_for);
	flow->listed = false;
	flow->waits_for = QUOTA_NO_INDEX;
}

/* A waiting flow leaves its line, and not because it has the turn. */
static void
leave_line(QuotaFlow *flow)
{
	uint32		line = flow->line;

	flow_line_remove(flow);
	flow->line = QUOTA_NO_INDEX;
	flow_line_recheck(line);
	settle(&quota_lines[line]);
}

/* A READY flow has the turn no longer. */
static void
drop_turn(QuotaFlow *flow)
{
	uint32		line = flow->line;

	flow->line = QUOTA_NO_INDEX;
	flow_line_set_holder(line, QUOTA_NO_INDEX);
}

/* The READY flow gives its turn to the next one. */
static void
pass_turn(QuotaFlow *flow)
{
	QuotaLine  *l = &quota_lines[flow->line];

	drop_turn(flow);
	settle(l);
}

/* The READY flow has the turn of a line. */
static bool
has_turn(const QuotaFlow *flow)
{
	return flow->line != QUOTA_NO_INDEX && !flow->waiting;
}

/* See flow_gate.h. */
void
flow_gate_leave(QuotaFlow *flow)
{
	wait_no_more(flow);
	if (flow->waiting)
		leave_line(flow);
	/* who has just got the turn is not READY yet */
	else if (has_turn(flow) && flow->state == QUOTA_FLOW_READY)
		pass_turn(flow);
}

/* See flow_gate.h. */
void
flow_gate_served(QuotaShare *share)
{
	for (int i = 0; i < QUOTA_MAX_STANDINGS; i++)
	{
		uint32		line = standing_line(share, i);
		uint32		holder = line == QUOTA_NO_INDEX ? line
			: quota_lines[line].holder;

		if (holder != QUOTA_NO_INDEX &&
			quota_flows[holder].share == (uint32) (share - quota_shares) &&
			flow_line_first(line) != NULL)
			pass_turn(&quota_flows[holder]);
	}
}

/* See flow_gate.h. */
void
flow_gate_charged(uint32 flow)
{
	QuotaFlow  *f = &quota_flows[flow];

	if (has_turn(f))
		pass_turn(f);
	flow_gate_served(share_of(f));
}

/* There is no place for a line. */
static void
park_alone(uint32 flow, const FlowRefusal *refusal)
{
	const QuotaGate *gate = gate_find(refusal->bucket, quota_flows[flow].entry.owner);
	int64		wake_ns = Min(refusal->opens_ns, refusal->look_ns);

	if (gate && gate->timed)
		wake_ns = Min(wake_ns, gate->opens_ns);
	flow_park(flow, refusal->reason, refusal->bucket, wake_ns);
}

/* See flow_gate.h. */
void
flow_park_in_line(uint32 flow, const QuotaKey *key, const FlowRefusal *refusal)
{
	QuotaFlow  *f = &quota_flows[flow];
	uint32		line;

	if (f->state != QUOTA_FLOW_READY)
		return;
	line = flow_line_get(f->entry.owner, key, share_of(f)->class_index);
	if (line == QUOTA_NO_INDEX)
	{
		park_alone(flow, refusal);
		return;
	}
	/* it stands in line again before the next one is looked for */
	if (f->line == line)
		drop_turn(f);
	flow_park(flow, refusal->reason, QUOTA_NO_INDEX, refusal->look_ns);
	flow_line_add(f, line);
	flow_wait_for(f, refusal->bucket);
	if (!refusal->own_line && flow_line_first(line) == f)
		close_line(&quota_lines[line], refusal->bucket, f, refusal->opens_ns);
	settle(&quota_lines[line]);
}

/* ---- time and events ---- */

/* See flow_gate.h. */
void
flow_gate_opened(QuotaGate *gate, uint64 parkings)
{
	gate->kept++;
	if (!dlist_is_empty(&gate->lines) &&
		dlist_tail_element(QuotaLine, bucket_node, &gate->lines)->closed > parkings)
		open_lines(gate);
	while (!dlist_is_empty(&gate->blocked))
	{
		QuotaFlow  *flow = dlist_tail_element(QuotaFlow, bucket_node, &gate->blocked);

		if (flow->parking <= parkings)
			break;
		flow_set_ready(flow);
	}
	gate->kept--;
	gate_drop(gate);
}

/* See flow_gate.h. */
void
flow_gates_wake(uint32 slot, int64 now_ns)
{
	pairingheap *gates = &quota_slots[slot].gates;

	while (!pairingheap_is_empty(gates))
	{
		QuotaGate  *gate = pairingheap_container(QuotaGate, node,
												 pairingheap_first(gates));

		if (gate->opens_ns > now_ns)
			break;
		open_lines(gate);
	}
}

/* See flow_gate.h. */
int64
flow_opens_ns(const QuotaFlow *flow)
{
	const QuotaGate *gate;

	if (!flow->waiting || quota_lines[flow->line].bucket == QUOTA_NO_INDEX)
		return flow->wake_ns;
	gate = gate_of(&quota_lines[flow->line]);
	return gate->timed ? Min(flow->wake_ns, gate->opens_ns) : flow->wake_ns;
}
