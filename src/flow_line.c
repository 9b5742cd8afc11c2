/*
 * flow_line.c
 *		The order of flows that wait for the same shared limits.
 *
 * A line is where flows of one class wait whose calls meet the same set of
 * buckets of the provider that several tenants share.  They are alike: when the
 * first of them is refused by one of these buckets, those behind it would be too.
 * So one at a time may try; flow_gate.c says who and when.
 *
 * FAIR.  The order is by the share's standing in the line (flow_standing.c) plus
 * its lead: by how much its tag is ahead of the virtual time of its class.  The tag
 * alone would not do: where other work makes the time of the class run fast,
 * everybody who waits here has fallen behind it, and all that their class's order
 * would say is whose turn was last.  The standing alone would not do either: who has
 * just had a dear job elsewhere is not picked before others have caught up, and
 * would keep the turn all that time.  As both are virtual times by the same weight,
 * a share that is far ahead lets others go first until they have been served as
 * much more here, or have caught up.
 *
 * KEYS.  Equal sums go by when the standing was reached (who has waited longer goes
 * first), then by the flow's own order.  A waiting flow keeps the key that it was
 * sorted by.  As all leads shrink alike, those who have one are in a heap of their
 * own ("ahead"), by standing plus tag, until the time of the class has passed them.
 * Keys rise when the share is served: who comes on top with an old key is sorted
 * anew then.  They fall when a charge is undone or a weight changes: then the flows
 * of the share are sorted anew at once, unless all were sorted below the new start
 * anyway ("high", "ahead_high").
 *
 * A line that nobody waits in stays as it is, for it knows who was served; its
 * place goes to a new line when the table is full.
 */
#include "flow_gate.h"

/* ---- orders: positive when a is to be on top ---- */

/* Waiting flows of a line. */
static int
compare_waiters(const pairingheap_node *a, const pairingheap_node *b, void *arg)
{
	const QuotaFlow *x = pairingheap_const_container(QuotaFlow, node, a);
	const QuotaFlow *y = pairingheap_const_container(QuotaFlow, node, b);
	int			result = standing_compare(x->line_start, x->line_since,
										y->line_start, y->line_since);

	return result != 0 ? -result : flow_compare_flows(a, b, arg);
}

/* Those whose share is ahead: the lead counts as if it had been served here. */
static int
compare_ahead(const pairingheap_node *a, const pairingheap_node *b, void *arg)
{
	const QuotaFlow *x = pairingheap_const_container(QuotaFlow, node, a);
	const QuotaFlow *y = pairingheap_const_container(QuotaFlow, node, b);
	int			result = standing_compare(x->line_start + x->line_tag, x->line_since,
										y->line_start + y->line_tag, y->line_since);

	return result != 0 ? -result : flow_compare_flows(a, b, arg);
}

/* ---- lines ---- */

/* Whether the line is idle may have changed. */
void
flow_line_update(uint32 line)
{
	QuotaLine  *l = &quota_lines[line];
	bool		idle = pairingheap_is_empty(&l->waiters) &&
		pairingheap_is_empty(&l->ahead) && l->holder == QUOTA_NO_INDEX && l->bucket == QUOTA_NO_INDEX;

	if (idle && !l->idle)
		dlist_push_tail(&slot_of(l)->idle_lines, &l->idle_node);
	else if (!idle && l->idle)
		dlist_delete(&l->idle_node);
	l->idle = idle;
}

/* Forgets the line that has been idle for longest; false when there is none. */
static bool
forget_one(uint32 slot)
{
	QuotaSlot  *s = &quota_slots[slot];
	QuotaLine  *l;

	if (dlist_is_empty(&s->idle_lines))
		return false;
	l = dlist_head_element(QuotaLine, idle_node, &s->idle_lines);
	dlist_delete(&l->idle_node);
	quota_remove_line((uint32) (l - quota_lines));
	return true;
}

/* See flow_gate.h. */
int
flow_line_reclaim(uint32 slot)
{
	int			n = 0;

	while (forget_one(slot))
		n++;
	return n;
}

/* See flow_gate.h. */
uint32
flow_line_get(uint32 slot, const QuotaKey *key, uint32 class_index)
{
	uint32		index = quota_find_line(key, slot);
	QuotaLine  *l;

	if (index != QUOTA_NO_INDEX)
		return index;
	index = quota_create_line(key, slot);
	if (index == QUOTA_NO_INDEX && forget_one(slot))
		index = quota_create_line(key, slot);
	if (index == QUOTA_NO_INDEX)
		return index;
	l = &quota_lines[index];
	l->serial = ++quota_slots[slot].lines_made;
	l->class_index = class_index;
	l->holder = QUOTA_NO_INDEX;
	l->bucket = QUOTA_NO_INDEX;
	l->waiters.ph_compare = compare_waiters;
	l->ahead.ph_compare = compare_ahead;
	flow_line_update(index);
	return index;
}

/* The share has been served more than is its part, by the time of its class. */
static bool
is_ahead(const QuotaShare *share)
{
	return share->tag.start >
		slot_of(share)->classes[share->class_index].clock.now;
}

/* By how much, plus that time: the same for all who are not ahead. */
static fair_time
class_time(const QuotaShare *share)
{
	return is_ahead(share) ? share->tag.start
		: slot_of(share)->classes[share->class_index].clock.now;
}

/* ---- waiting ---- */

/* Into the heap where it belongs. */
static void
push(QuotaFlow *flow)
{
	QuotaLine  *l = &quota_lines[flow->line];
	QuotaShare *share = share_of(flow);

	flow->line_tag = share->tag.start;
	flow->ahead = is_ahead(share);
	if (flow->ahead)
		share->ahead_high = share->nahead++ == 0 ? flow->line_tag
			: Max(share->ahead_high, flow->line_tag);
	pairingheap_add(flow->ahead ? &l->ahead : &l->waiters, &flow->node);
}

/* Out of it. */
static void
pull(QuotaFlow *flow)
{
	QuotaLine  *l = &quota_lines[flow->line];

	share_of(flow)->nahead -= flow->ahead;
	pairingheap_remove(flow->ahead ? &l->ahead : &l->waiters, &flow->node);
}

/* The flow is sorted by this from now on. */
static void
set_key(QuotaFlow *flow, QuotaStanding *s)
{
	flow->line_start = s->tag.start;
	flow->line_since = s->since;
	s->high = Max(s->high, s->tag.start);
}

/* flow->parking is set. */
void
flow_line_add(QuotaFlow *flow, uint32 line)
{
	QuotaStanding *s = standing_join(share_of(flow), line);

	flow->line = line;
	flow->waiting = true;
	if (s == NULL)
	{
		flow->line_start = standing_now(share_of(flow), line).start;
		flow->line_since = flow->parking;
	}
	else
	{
		if (s->nwaiting++ == 0)
			s->high = s->tag.start;
		set_key(flow, s);
	}
	push(flow);
	flow_line_update(line);
}

/* It waits no more; its line is still named. */
void
flow_line_remove(QuotaFlow *flow)
{
	QuotaStanding *s = standing_find(share_of(flow), flow->line);

	pull(flow);
	flow->waiting = false;
	if (s != NULL && s->nwaiting > 0)
		s->nwaiting--;
	flow_line_update(flow->line);
}

/* See flow_gate.h. */
void
flow_line_set_holder(uint32 line, uint32 holder)
{
	QuotaLine  *l = &quota_lines[line];
	uint32		flow = holder == QUOTA_NO_INDEX ? l->holder : holder;
	QuotaStanding *s = standing_find(share_of(&quota_flows[flow]), line);

	if (s != NULL)
		s->has_turn = holder != QUOTA_NO_INDEX;
	l->holder = holder;
	flow_line_update(line);
}

/* Sorts a waiting flow by what its standing and lead are now; false when it was. */
static bool
sort_anew(QuotaFlow *flow)
{
	QuotaShare *share = share_of(flow);
	QuotaStanding *s = standing_find(share, flow->line);
	bool		moved = flow->ahead != is_ahead(share) ||
		(flow->ahead && flow->line_tag != share->tag.start);

	if (s != NULL)
	{
		standing_reprice(s, share);
		moved |= standing_compare(flow->line_start, flow->line_since,
								s->tag.start, s->since) != 0;
	}
	if (!moved)
		return false;
	pull(flow);
	if (s != NULL)
		set_key(flow, s);
	push(flow);
	return true;
}

/* Who is on top of one of the line's heaps with its true key; NULL = nobody. */
static QuotaFlow *
top(pairingheap *heap)
{
	QuotaFlow  *flow;

	do
	{
		if (pairingheap_is_empty(heap))
			return NULL;
		flow = pairingheap_container(QuotaFlow, node, pairingheap_first(heap));
	} while (sort_anew(flow));
	return flow;
}

/* See flow_gate.h. */
QuotaFlow *
flow_line_first(uint32 line)
{
	QuotaLine  *l = &quota_lines[line];
	QuotaFlow  *flow;
	QuotaFlow  *ahead;

	/* each may put flows into the other heap, but the first one only once */
	(void) top(&l->ahead);
	flow = top(&l->waiters);
	ahead = top(&l->ahead);
	if (flow == NULL || ahead == NULL)
		return flow ? flow : ahead;
	return flow_line_precedes(line, ahead, flow) ? ahead : flow;
}

/* See flow_gate.h. */
bool
flow_line_precedes(uint32 line, const QuotaFlow *a, const QuotaFlow *b)
{
	Stand		x = standing_now(share_of(a), line);
	Stand		y = standing_now(share_of(b), line);
	int			result;

	/* what waits without a standing has a key all the same */
	if (a->waiting && a->line == line)
	{
		x.start = a->line_start;
		x.since = a->line_since;
	}
	if (b->waiting && b->line == line)
	{
		y.start = b->line_start;
		y.since = b->line_since;
	}
	result = standing_compare(x.start + class_time(share_of(a)), x.since,
							y.start + class_time(share_of(b)), y.since);
	if (result == 0 && a->share == b->share)
		return a->order < b->order;
	return result < 0;
}

/* ---- what is served ---- */

/* See flow_gate.h. */
FlowLineCharge
flow_line_charge(uint32 flow, const QuotaKey *key, int64 cost, bool more)
{
	QuotaFlow  *f = &quota_flows[flow];
	uint32		line = quota_find_line(key, f->entry.owner);
	FlowLineCharge charge = {0};
	QuotaStanding *s;

	/* where nobody has waited nobody is owed anything */
	if (line == QUOTA_NO_INDEX || (s = standing_join(share_of(f), line)) == NULL)
		return charge;
	charge.line = line;
	charge.serial = s->serial;
	charge.charge = more ? fair_add(&s->tag, cost)
		: fair_charge(&s->tag, &quota_lines[line].clock, cost);
	charge.since_before = s->since;
	charge.since_after = s->since = flow_parkings();
	flow_line_recheck(line);
	return charge;
}

/* Sorts the waiting flows of a tenant anew. */
static void
sort_tenant(uint32 tenant)
{
	dlist_iter	iter;

	dlist_foreach(iter, &quota_tenants[tenant].blocked)
	{
		QuotaFlow  *flow = dlist_container(QuotaFlow, tenant_node, iter.cur);

		if (flow->waiting)
			sort_anew(flow);
	}
}

/* Who goes first where the share's flows wait may be another one. */
static void
recheck_lines(const QuotaShare *share)
{
	for (int i = 0; i < QUOTA_MAX_STANDINGS; i++)
		if (share->standings[i].nwaiting > 0)
			flow_line_recheck(share->standings[i].line);
}

/* See flow_gate.h. */
void
flow_line_fell(QuotaShare *share)
{
	if (share->nahead == 0 || share->tag.start >= share->ahead_high)
		return;
	share->ahead_high = share->tag.start;
	sort_tenant(share->tenant);
	recheck_lines(share);
}

/* See flow_gate.h. */
void
flow_line_undo(uint32 flow, const FlowLineCharge *charge)
{
	QuotaShare *share = share_of(&quota_flows[flow]);
	QuotaStanding *s = charge->serial == 0 ? NULL
		: standing_find(share, charge->line);

	if (s == NULL || s->serial != charge->serial)
		return;
	standing_reprice(s, share);
	fair_undo(&s->tag, &charge->charge);
	if (s->since == charge->since_after)
		s->since = charge->since_before;
	if (s->nwaiting == 0 || s->tag.start > s->high)
		return;
	s->high = s->tag.start;
	sort_tenant(share->tenant);
	flow_line_recheck(charge->line);
}

/* See flow_gate.h. */
void
flow_line_reweigh(uint32 tenant)
{
	dlist_iter	iter;

	dlist_foreach(iter, &quota_tenants[tenant].shares)
	{
		QuotaShare *share = dlist_container(QuotaShare, tenant_node, iter.cur);

		for (int i = 0; i < QUOTA_MAX_STANDINGS; i++)
			if (share->standings[i].serial != 0)
				standing_reprice(&share->standings[i], share);
	}
	sort_tenant(tenant);
	dlist_foreach(iter, &quota_tenants[tenant].shares)
		recheck_lines(dlist_container(QuotaShare, tenant_node, iter.cur));
}
