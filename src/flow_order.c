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
 * first in its share.  flow_park.c blocks flows and wakes them again.
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
void
flow_share_update(QuotaShare *share)
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

/* Leaves heap and lists of its state; the caller sets a new state. */
void
flow_leave_state(QuotaFlow *flow)
{
	if (flow->state == QUOTA_FLOW_READY)
		pairingheap_remove(&share_of(flow)->flows, &flow->node);
	flow_park_leave(flow);
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
	flow_share_update(share_of(flow));
	flow_set_timer(flow, flow->due ? QUOTA_NEVER : flow->position.next_due);
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

/* See flow.h. */
FairCharge
flow_charge_more(uint32 flow, int64 cost)
{
	QuotaShare *share = share_of(&quota_flows[flow]);
	FairCharge	charge;

	flow_share_unlink(share);
	charge = fair_add(&share->tag, cost);
	flow_share_relink(share);
	share->served += cost;
	return charge;
}
