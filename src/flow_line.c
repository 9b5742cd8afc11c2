/*
 * flow_line.c
 *		The order of flows that wait for the same shared limits.
 *
 * A line is where flows of one class wait whose calls meet the same set of
 * buckets of the provider that several tenants share.  They are alike: when the
 * first of them is refused by one of these buckets, those behind it would be too.
 * So one at a time may try; flow_gate.c says who and when.
 *
 * FAIR.  A line has a virtual time of its own, and a share a standing in it: a tag
 * by the cost it was served there over its current weight, as in fair.c.  The
 * share's tag in its class would not do: where other work makes the time of the
 * class run fast, everybody who waits here has fallen behind it, and all that
 * their class's order would say is whose turn was last.  A standing is one for all
 * flows of a share, so endpoints do not multiply it.
 *
 * A share has QUOTA_MAX_STANDINGS of them.  One whose start the line's time has
 * passed says nothing and is replaced, but not while the share has the turn there:
 * to be charged provisionally, perhaps in another line, would make it the last that
 * came here, so that two shares could let each other go first for ever.  A share that waits in more lines than that
 * goes without in the others: there it joins as if it had just been served, so
 * forgetting gains nothing.
 *
 * KEYS.  The order is by the start of the standing, then by when that was reached
 * (who has waited longer goes first), then by the flow's own order.  A waiting
 * flow keeps the key that it was sorted by.  Starts rise when the share is served
 * elsewhere in the line: who comes on top with an old key is sorted anew then.
 * They fall when a charge is undone or a weight changes: then the flows of the
 * share are sorted anew at once, unless all were sorted below the new start
 * anyway ("high").
 *
 * A line that nobody waits in stays as it is, for it knows who was served; its
 * place goes to a new line when the table is full.
 */
#include "flow_gate.h"

/* Where a share stands in a line. */
typedef struct Stand
{
	fair_time	start;
	uint64		since;
} Stand;

/* ---- orders: positive when a is to be on top ---- */

/* Later stands are greater. */
static int
compare_stands(fair_time start_a, uint64 since_a, fair_time start_b, uint64 since_b)
{
	if (start_a != start_b)
		return start_a < start_b ? -1 : 1;
	if (since_a != since_b)
		return since_a < since_b ? -1 : 1;
	return 0;
}

/* Waiting flows of a line. */
static int
compare_waiters(const pairingheap_node *a, const pairingheap_node *b, void *arg)
{
	const QuotaFlow *x = pairingheap_const_container(QuotaFlow, node, a);
	const QuotaFlow *y = pairingheap_const_container(QuotaFlow, node, b);
	int			result = compare_stands(x->line_start, x->line_since,
										y->line_start, y->line_since);

	return result != 0 ? -result : flow_compare_flows(a, b, arg);
}

/* ---- lines ---- */

/* Whether the line is idle may have changed. */
void
flow_line_update(uint32 line)
{
	QuotaLine  *l = &quota_lines[line];
	bool		idle = pairingheap_is_empty(&l->waiters) &&
		l->holder == QUOTA_NO_INDEX && l->bucket == QUOTA_NO_INDEX;

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
	flow_line_update(index);
	return index;
}

/* ---- standings ---- */

/* The standing is one in this line. */
static bool
is_in(const QuotaStanding *s, uint32 line, uint32 slot)
{
	return s->serial != 0 && s->line == line &&
		quota_owned(&quota_lines[line].entry, slot) &&
		quota_lines[line].serial == s->serial;
}

/* Forgetting the standing changes nothing. */
static bool
is_over(const QuotaStanding *s, uint32 slot)
{
	return s->serial == 0 || !is_in(s, s->line, slot) ||
		(s->nwaiting == 0 && !s->has_turn &&
		 s->tag.start <= quota_lines[s->line].clock.now);
}

/* The share's standing in the line; NULL = none. */
static QuotaStanding *
find_standing(QuotaShare *share, uint32 line)
{
	for (int i = 0; i < QUOTA_MAX_STANDINGS; i++)
		if (is_in(&share->standings[i], line, share->entry.owner))
			return &share->standings[i];
	return NULL;
}

/* A place for a new standing; NULL = none. */
static QuotaStanding *
find_room(QuotaShare *share)
{
	for (int i = 0; i < QUOTA_MAX_STANDINGS; i++)
		if (is_over(&share->standings[i], share->entry.owner))
			return &share->standings[i];
	return NULL;
}

/* The tag follows the share's weight. */
static void
reprice(QuotaStanding *s, const QuotaShare *share)
{
	if (s->tag.weight_milli != share->tag.weight_milli)
		fair_set_weight(&s->tag, share->tag.weight_milli);
}

/* The share's standing, made if need be and brought to the line's time. */
static QuotaStanding *
join(QuotaShare *share, uint32 line)
{
	QuotaLine  *l = &quota_lines[line];
	QuotaStanding *s = find_standing(share, line);
	bool		is_new = s == NULL;

	if (is_new && (s = find_room(share)) == NULL)
		return NULL;
	if (is_new)
	{
		memset(s, 0, sizeof(*s));
		s->line = line;
		s->serial = l->serial;
	}
	reprice(s, share);
	if (is_new || s->tag.start < l->clock.now)
		s->since = slot_of(l)->parkings;
	fair_join(&s->tag, &l->clock);
	return s;
}

/* Where the share stands, or would if it came to the line now. */
static Stand
stand_of(QuotaShare *share, uint32 line)
{
	const QuotaLine *l = &quota_lines[line];
	QuotaStanding *s = find_standing(share, line);
	Stand		stand = {l->clock.now, PG_UINT64_MAX};
	FairTag		tag;

	if (s != NULL)
	{
		reprice(s, share);
		if (s->tag.start >= stand.start)
		{
			stand.start = s->tag.start;
			stand.since = s->since;
		}
	}
	else if (find_room(share) == NULL)
	{
		memset(&tag, 0, sizeof(tag));
		tag.v_at = l->clock.now;
		tag.cost_at = Max(share->tag.cost_at, 1);
		fair_set_weight(&tag, share->tag.weight_milli);
		stand.start = tag.start;
	}
	return stand;
}

/* ---- waiting ---- */

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
	QuotaStanding *s = join(share_of(flow), line);

	flow->line = line;
	flow->waiting = true;
	if (s == NULL)
	{
		flow->line_start = stand_of(share_of(flow), line).start;
		flow->line_since = flow->parking;
	}
	else
	{
		if (s->nwaiting++ == 0)
			s->high = s->tag.start;
		set_key(flow, s);
	}
	pairingheap_add(&quota_lines[line].waiters, &flow->node);
	flow_line_update(line);
}

/* It waits no more; its line is still named. */
void
flow_line_remove(QuotaFlow *flow)
{
	QuotaStanding *s = find_standing(share_of(flow), flow->line);

	pairingheap_remove(&quota_lines[flow->line].waiters, &flow->node);
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
	QuotaStanding *s = find_standing(share_of(&quota_flows[flow]), line);

	if (s != NULL)
		s->has_turn = holder != QUOTA_NO_INDEX;
	l->holder = holder;
	flow_line_update(line);
}

/* Sorts a waiting flow by what its standing is now; false when it was. */
static bool
sort_anew(QuotaFlow *flow)
{
	QuotaStanding *s = find_standing(share_of(flow), flow->line);
	pairingheap *waiters = &quota_lines[flow->line].waiters;

	if (s == NULL)
		return false;
	reprice(s, share_of(flow));
	if (compare_stands(flow->line_start, flow->line_since,
					   s->tag.start, s->since) == 0)
		return false;
	pairingheap_remove(waiters, &flow->node);
	set_key(flow, s);
	pairingheap_add(waiters, &flow->node);
	return true;
}

/* See flow_gate.h. */
QuotaFlow *
flow_line_first(uint32 line)
{
	pairingheap *waiters = &quota_lines[line].waiters;
	QuotaFlow  *flow;

	do
	{
		if (pairingheap_is_empty(waiters))
			return NULL;
		flow = pairingheap_container(QuotaFlow, node, pairingheap_first(waiters));
	} while (sort_anew(flow));
	return flow;
}

/* See flow_gate.h. */
bool
flow_line_precedes(uint32 line, const QuotaFlow *a, const QuotaFlow *b)
{
	Stand		x = stand_of(share_of(a), line);
	Stand		y = stand_of(share_of(b), line);
	int			result;

	/* what waits without a standing has a key all the same */
	if (a->waiting && a->line == line)
	{
		x.start = a->line_start;
		x.since = a->line_since;
	}
	result = compare_stands(x.start, x.since, y.start, y.since);
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
	if (line == QUOTA_NO_INDEX || (s = join(share_of(f), line)) == NULL)
		return charge;
	charge.line = line;
	charge.serial = s->serial;
	charge.charge = more ? fair_add(&s->tag, cost)
		: fair_charge(&s->tag, &quota_lines[line].clock, cost);
	charge.since_before = s->since;
	charge.since_after = s->since = slot_of(f)->parkings;
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

/* See flow_gate.h. */
void
flow_line_undo(uint32 flow, const FlowLineCharge *charge)
{
	QuotaShare *share = share_of(&quota_flows[flow]);
	QuotaStanding *s = charge->serial == 0 ? NULL
		: find_standing(share, charge->line);

	if (s == NULL || s->serial != charge->serial)
		return;
	reprice(s, share);
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
				reprice(&share->standings[i], share);
	}
	sort_tenant(tenant);
	dlist_foreach(iter, &quota_tenants[tenant].shares)
	{
		QuotaShare *share = dlist_container(QuotaShare, tenant_node, iter.cur);

		for (int i = 0; i < QUOTA_MAX_STANDINGS; i++)
			if (share->standings[i].nwaiting > 0)
				flow_line_recheck(share->standings[i].line);
	}
}
