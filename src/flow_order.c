/*
 * flow_order.c
 *		Whose turn it is.
 *
 * Three steps: among the classes that have a READY flow, by reserve, age and rank
 * (class_order.c); in the class the share with the least tag (fair.c); in it the
 * flow with the oldest head.
 *
 * STATES.  A flow is in its share's heap exactly while it is READY, a share in
 * its class's heap exactly while it has a READY flow, so that a pick costs
 * O(log of what can run), whatever else there is.
 *
 *		IDLE	no job is ready and none is known to become ready by time
 *		READY	a job may be ready
 *		PARKED	waiting: no job is ready before wake_ns (leases that end,
 *				retries, scheduled jobs); or blocked: a limit, pause or the like
 *				forbids it before wake_ns or an event
 *
 * A READY flow may have a timer too: when a returned job comes due, it goes
 * first in its share.  flow_park.c blocks flows and wakes them again.
 *
 * A share that leaves its heap keeps its tag.  When it comes back, after
 * whatever absence, it joins behind what was dispatched meanwhile (fair_join).
 *
 * AGE decides between classes only, and only by heads that somebody has seen.  A
 * flow keeps a time since when its oldest job waits: exact when its head was looked
 * at or refused, a guess after a claim, a raise or an undo.  When a class would go
 * first by a guess, that flow is picked for a look at its head, nothing else; the
 * pick is repeated with what was seen.  A session that has looked often enough goes
 * by what is known.  When age does decide, the job dispatched is the one whose turn
 * it is in the class, old or not.
 *
 * Heaps are intrusive and have a comparison function in shared memory; see
 * shmem.c.  A node whose key is to change leaves its heap first.  Ties are
 * broken by name, so that the order does not depend on hashes or addresses.
 */
#include "flow.h"
#include "waiter.h"

/* ---- orders: positive when a is to be on top ---- */

/* Shares of a class: least tag first. */
int
flow_compare_shares(const pairingheap_node *a, const pairingheap_node *b,
					void *arg)
{
	const QuotaShare *x = pairingheap_const_container(QuotaShare, node, a);
	const QuotaShare *y = pairingheap_const_container(QuotaShare, node, b);

	if (fair_precedes(&x->tag, &y->tag))
		return 1;
	if (fair_precedes(&y->tag, &x->tag))
		return -1;
	return strcmp(tenant_of(y)->name, tenant_of(x)->name);
}

/* Flows of a share: what is due first, then the oldest head. */
int
flow_compare_flows(const pairingheap_node *a, const pairingheap_node *b,
				   void *arg)
{
	const QuotaFlow *x = pairingheap_const_container(QuotaFlow, node, a);
	const QuotaFlow *y = pairingheap_const_container(QuotaFlow, node, b);

	if (x->order != y->order)
		return x->order < y->order ? 1 : -1;
	return strcmp(y->endpoint, x->endpoint);
}

/* READY flows of a class: what waits longest first. */
int
flow_compare_ages(const pairingheap_node *a, const pairingheap_node *b,
				  void *arg)
{
	const QuotaFlow *x = pairingheap_const_container(QuotaFlow, age_node, a);
	const QuotaFlow *y = pairingheap_const_container(QuotaFlow, age_node, b);

	if (x->age_key == y->age_key)
		return 0;
	return x->age_key < y->age_key ? 1 : -1;
}

/* Due times are below all ids, the longest due lowest. */
static int64
order_of(const QuotaFlow *flow)
{
	return flow->due ? flow->position.next_due - PG_INT64_MAX
		: position_head(&flow->position);
}

/* ---- shares ---- */

/* Takes the share out of the order, for a change of its tag. */
void
flow_share_unlink(QuotaShare *share)
{
	if (share->queued)
		pairingheap_remove(&class_of(share)->heap, &share->node);
}

/* The other half. */
void
flow_share_relink(QuotaShare *share)
{
	if (share->queued)
		pairingheap_add(&class_of(share)->heap, &share->node);
}

/* The share has a READY flow again, or none any more; so may its class. */
void
flow_share_update(QuotaShare *share)
{
	ClassOrder *order = &slot_of(share)->order;
	bool		ready = !pairingheap_is_empty(&share->flows);

	if (ready == share->queued)
		return;
	if (ready)
	{
		fair_join(&share->tag, &class_of(share)->clock);
		share->queued = true;
		flow_share_relink(share);
		class_join(order, (int) share->class_index);
	}
	else
	{
		flow_share_unlink(share);
		share->queued = false;
		if (pairingheap_is_empty(&class_of(share)->heap))
			class_leave(order, (int) share->class_index);
	}
}

/* ---- states ---- */

/* Leaves heap and lists of its state; the caller sets a new state. */
void
flow_leave_state(QuotaFlow *flow)
{
	bool		ready = flow->state == QUOTA_FLOW_READY;

	/* its turn may make others READY, so the heaps it is in stay whole till then */
	if (ready)
		flow_reopen(flow);
	flow_park_leave(flow);
	if (!ready)
		return;
	pairingheap_remove(&share_of(flow)->flows, &flow->node);
	pairingheap_remove(&class_of(share_of(flow))->ages, &flow->age_node);
}

/* A job may be ready. */
void
flow_set_ready(QuotaFlow *flow)
{
	flow_leave_state(flow);
	flow->state = QUOTA_FLOW_READY;
	flow->reason = QUOTA_OK;
	flow->order = order_of(flow);
	pairingheap_add(&share_of(flow)->flows, &flow->node);
	flow->age_key = flow->since_ns;
	pairingheap_add(&class_of(share_of(flow))->ages, &flow->age_node);
	flow_share_update(share_of(flow));
	flow_set_timer(flow, flow->due ? QUOTA_NEVER : flow->position.next_due);
	waiter_wake(flow->entry.owner);
}

/* No job is ready before wake_ns. */
void
flow_set_waiting(QuotaFlow *flow, int64 wake_ns)
{
	flow_leave_state(flow);
	flow->state = wake_ns == QUOTA_NEVER ? QUOTA_FLOW_IDLE : QUOTA_FLOW_PARKED;
	flow->reason = flow->depth > 0 ? QUOTA_SCHEDULED : QUOTA_EMPTY;
	flow_share_update(share_of(flow));
	flow_set_timer(flow, wake_ns);
}

/* A READY flow whose position has changed takes its new place. */
void
flow_resift(QuotaFlow *flow)
{
	if (flow->state != QUOTA_FLOW_READY)
		return;
	if (flow->order != order_of(flow))
	{
		pairingheap_remove(&share_of(flow)->flows, &flow->node);
		flow->order = order_of(flow);
		pairingheap_add(&share_of(flow)->flows, &flow->node);
	}
	flow_set_timer(flow, flow->due ? QUOTA_NEVER : flow->position.next_due);
}

/* ---- ages ---- */

/* See flow.h. */
void
flow_set_since(QuotaFlow *flow, int64 since_ns, bool seen)
{
	flow->since_ns = since_ns;
	flow->since_seen = seen;
	/* a key may be too low, but not too high */
	if (flow->state != QUOTA_FLOW_READY || since_ns >= flow->age_key)
		return;
	pairingheap_remove(&class_of(share_of(flow))->ages, &flow->age_node);
	flow->age_key = since_ns;
	pairingheap_add(&class_of(share_of(flow))->ages, &flow->age_node);
}

/*
 * The READY flow of the class whose oldest job waits longest, as far as is known;
 * there is one.  Every flow that was on top with too low a key goes to its place, so
 * this costs a step for each time that since_ns was raised.
 */
static QuotaFlow *
oldest_of_class(QuotaClass *class)
{
	for (;;)
	{
		QuotaFlow  *flow = pairingheap_container(QuotaFlow, age_node,
												 pairingheap_first(&class->ages));

		if (flow->age_key == flow->since_ns)
			return flow;
		pairingheap_remove(&class->ages, &flow->age_node);
		flow->age_key = flow->since_ns;
		pairingheap_add(&class->ages, &flow->age_node);
	}
}

/* When the class becomes too old, CLASS_NO_DEADLINE = never. */
static int64
deadline_of(QuotaClass *class, bool may_look)
{
	const QuotaFlow *flow;

	if (class->max_wait_ns == 0)
		return CLASS_NO_DEADLINE;
	flow = oldest_of_class(class);
	if (!may_look && !flow->since_seen)
		return CLASS_NO_DEADLINE;
	if (flow->since_ns == FLOW_SINCE_UNKNOWN)
		return PG_INT64_MIN;
	return flow->since_ns + class->max_wait_ns;
}

/* ---- picking ---- */

/* The class's next flow; its heap is not empty. */
static QuotaFlow *
first_of_class(QuotaClass *class)
{
	QuotaShare *share = pairingheap_container(QuotaShare, node,
											  pairingheap_first(&class->heap));

	return pairingheap_container(QuotaFlow, node,
								 pairingheap_first(&share->flows));
}

/* See flow.h. */
uint32
flow_pick(uint32 slot, int64 now_ns, bool may_look, FlowTurn *turn)
{
	QuotaSlot  *s = &quota_slots[slot];
	QuotaFlow  *flow;
	int			i;

	turn->look = false;
	for (i = 0; i < QUOTA_MAX_CLASSES; i++)
		if (s->order.place[i].ready)
			s->order.place[i].deadline_ns = deadline_of(&s->classes[i], may_look);
	i = class_pick(&s->order, now_ns, &turn->why);
	if (i < 0)
		return QUOTA_NO_INDEX;
	flow = first_of_class(&s->classes[i]);
	if (turn->why == CLASS_BY_AGE)
	{
		QuotaFlow  *oldest = oldest_of_class(&s->classes[i]);

		turn->look = !oldest->since_seen;
		flow = turn->look ? oldest : flow;
	}
	return (uint32) (flow - quota_flows);
}

/* See flow.h. */
void
flow_charge(JournalClaim *claim, int64 cost, ClassWhy why, bool more)
{
	QuotaShare *share = share_of(&quota_flows[claim->flow]);

	flow_share_unlink(share);
	claim->charge = more ? fair_add(&share->tag, cost)
		: fair_charge(&share->tag, &class_of(share)->clock, cost);
	flow_share_relink(share);
	claim->class_charge = class_charge(&slot_of(share)->order,
									   (int) share->class_index, cost, why, more);
}
