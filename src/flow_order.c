/*
 * flow_order.c
 *		Whose turn it is.
 *
 * Three steps: the class of the lowest rank that has a READY flow; in it the
 * share with the least tag (fair.c); in it the flow with the oldest head.
 * Classes of equal rank take turns by the age of their heads.
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
 * first in its share.
 *
 * EVENTS.  What opens a bucket frees the flows parked for it.  A try that takes,
 * finds that the job costs something else and returns what it took is no event
 * for flows that had parked before: they don't wait for that.  Were they freed,
 * two flows whose jobs are too dear could free each other for ever.  So parkings
 * are numbered, and an undo within a call frees only those that came later.
 *
 * A share that leaves its heap keeps its tag.  When it comes back, after
 * whatever absence, it joins behind what was dispatched meanwhile (fair_join).
 *
 * Heaps are intrusive and have a comparison function in shared memory; see
 * shmem.c.  A node whose key is to change leaves its heap first.  Ties are
 * broken by name, so that the order does not depend on hashes or addresses.
 */
#include "flow.h"

#define share_of(flow)		(&quota_shares[(flow)->share])
#define tenant_of(share)	(&quota_tenants[(share)->tenant])
#define slot_of(object)		(&quota_slots[(object)->entry.owner])
#define class_of(share)		(&slot_of(share)->classes[(share)->class_index])

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

/* Flows of a slot by wake_ns. */
int
flow_compare_timers(const pairingheap_node *a, const pairingheap_node *b,
					void *arg)
{
	const QuotaFlow *x = pairingheap_const_container(QuotaFlow, timer, a);
	const QuotaFlow *y = pairingheap_const_container(QuotaFlow, timer, b);

	if (x->wake_ns == y->wake_ns)
		return 0;
	return x->wake_ns < y->wake_ns ? 1 : -1;
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

/* The share has a READY flow again, or none any more. */
static void
share_update(QuotaShare *share)
{
	bool		ready = !pairingheap_is_empty(&share->flows);

	if (ready == share->queued)
		return;
	if (ready)
	{
		fair_join(&share->tag, &class_of(share)->clock);
		share->queued = true;
		flow_share_relink(share);
	}
	else
	{
		flow_share_unlink(share);
		share->queued = false;
	}
}

/* ---- states ---- */

/* wake_ns QUOTA_NEVER: no timer. */
void
flow_set_timer(QuotaFlow *flow, int64 wake_ns)
{
	pairingheap *timers = &slot_of(flow)->timers;

	if (flow->wake_ns == wake_ns)
		return;
	if (flow->wake_ns != QUOTA_NEVER)
		pairingheap_remove(timers, &flow->timer);
	flow->wake_ns = wake_ns;
	if (wake_ns != QUOTA_NEVER)
		pairingheap_add(timers, &flow->timer);
}

/* Leaves heap and lists of its state; the caller sets a new state. */
static void
leave_state(QuotaFlow *flow)
{
	if (flow->state == QUOTA_FLOW_READY)
		pairingheap_remove(&share_of(flow)->flows, &flow->node);
	if (flow->blocked)
	{
		dlist_delete(&flow->tenant_node);
		dlist_delete(&flow->slot_node);
		flow->blocked = false;
	}
}

/* A job may be ready. */
void
flow_set_ready(QuotaFlow *flow)
{
	leave_state(flow);
	flow->state = QUOTA_FLOW_READY;
	flow->reason = QUOTA_OK;
	flow->order = order_of(flow);
	pairingheap_add(&share_of(flow)->flows, &flow->node);
	share_update(share_of(flow));
	flow_set_timer(flow, flow->due ? QUOTA_NEVER : flow->position.next_due);
}

/* No job is ready before wake_ns. */
void
flow_set_waiting(QuotaFlow *flow, int64 wake_ns)
{
	leave_state(flow);
	flow->state = wake_ns == QUOTA_NEVER ? QUOTA_FLOW_IDLE : QUOTA_FLOW_PARKED;
	flow->reason = flow->depth > 0 ? QUOTA_SCHEDULED : QUOTA_EMPTY;
	share_update(share_of(flow));
	flow_set_timer(flow, wake_ns);
}

/* See flow.h. */
void
flow_park(uint32 flow, QuotaReason reason, int64 wake_ns)
{
	QuotaFlow  *f = &quota_flows[flow];

	if (f->state == QUOTA_FLOW_IDLE)
		return;					/* somebody found out that it is empty */
	leave_state(f);
	f->state = QUOTA_FLOW_PARKED;
	f->reason = reason;
	f->blocked = true;
	f->parking = ++slot_of(f)->parkings;
	dlist_push_tail(&tenant_of(share_of(f))->blocked, &f->tenant_node);
	dlist_push_tail(&slot_of(f)->blocked, &f->slot_node);
	share_update(share_of(f));
	flow_set_timer(f, wake_ns);
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

/* ---- time and events ---- */

/* The flow whose timer is next, NULL = none. */
static QuotaFlow *
first_timer(QuotaSlot *slot)
{
	if (pairingheap_is_empty(&slot->timers))
		return NULL;
	return pairingheap_container(QuotaFlow, timer,
								 pairingheap_first(&slot->timers));
}

/* See flow.h. */
void
flow_wake(uint32 slot, int64 now_ns)
{
	QuotaFlow  *flow;

	while ((flow = first_timer(&quota_slots[slot])) != NULL &&
		   flow->wake_ns <= now_ns)
	{
		/* what was parked and has a job due comes here twice */
		if (flow->state == QUOTA_FLOW_READY)
		{
			flow->due = true;
			flow_resift(flow);
		}
		else
			flow_set_ready(flow);
	}
}

/* The flow of the list that parked last, NULL when it is empty. */
static QuotaFlow *
last_parked(uint32 slot, uint32 tenant)
{
	if (tenant == QUOTA_NO_INDEX)
		return dlist_is_empty(&quota_slots[slot].blocked) ? NULL
			: dlist_tail_element(QuotaFlow, slot_node, &quota_slots[slot].blocked);
	return dlist_is_empty(&quota_tenants[tenant].blocked) ? NULL
		: dlist_tail_element(QuotaFlow, tenant_node, &quota_tenants[tenant].blocked);
}

/* See flow.h. */
void
flow_unpark_since(uint32 slot, uint32 tenant, uint64 parkings)
{
	QuotaFlow  *flow;

	while ((flow = last_parked(slot, tenant)) != NULL &&
		   flow->parking > parkings)
		flow_set_ready(flow);
}

/* See flow.h. */
void
flow_unpark_tenant(uint32 slot, uint32 tenant)
{
	flow_unpark_since(slot, tenant, 0);
}

/* See flow.h. */
void
flow_unpark_all(uint32 slot)
{
	flow_unpark_since(slot, QUOTA_NO_INDEX, 0);
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
flow_pick(uint32 slot)
{
	QuotaClass *best = NULL;
	QuotaFlow  *flow = NULL;

	for (int i = 0; i < QUOTA_MAX_CLASSES; i++)
	{
		QuotaClass *class = &quota_slots[slot].classes[i];
		QuotaFlow  *first;

		if (pairingheap_is_empty(&class->heap))
			continue;
		first = first_of_class(class);
		if (best && class->rank > best->rank)
			continue;
		if (best && class->rank == best->rank && first->order >= flow->order)
			continue;
		best = class;
		flow = first;
	}
	return flow ? (uint32) (flow - quota_flows) : QUOTA_NO_INDEX;
}

/* A job of the flow is dispatched. */
FairCharge
flow_charge(uint32 flow, int64 cost)
{
	QuotaShare *share = share_of(&quota_flows[flow]);
	FairCharge	charge;

	flow_share_unlink(share);
	charge = fair_charge(&share->tag, &class_of(share)->clock, cost);
	flow_share_relink(share);
	share->served += cost;
	return charge;
}
