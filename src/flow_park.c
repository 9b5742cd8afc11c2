/*
 * flow_park.c
 *		Flows that can't run: blocked until an event or a time, and the timers of
 *		all flows.
 *
 * EVENTS.  What opens a bucket frees the flows parked for it.  A try that takes,
 * finds that the job costs something else and returns what it took is no event
 * for flows that had parked before: they don't wait for that.  Were they freed,
 * two flows whose jobs are too dear could free each other for ever.  So parkings
 * are numbered, and an undo within a call frees only those that came later.
 */
#include "flow.h"

#define share_of(flow)		(&quota_shares[(flow)->share])
#define tenant_of(share)	(&quota_tenants[(share)->tenant])
#define slot_of(object)		(&quota_slots[(object)->entry.owner])

/* ---- timers ---- */

/* Flows of a slot by wake_ns: positive when a is to be on top. */
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

/* ---- blocked flows ---- */

/* Leaves the lists of blocked flows, if it is there. */
void
flow_park_leave(QuotaFlow *flow)
{
	if (!flow->blocked)
		return;
	dlist_delete(&flow->tenant_node);
	dlist_delete(&flow->slot_node);
	flow->blocked = false;
}

/* See flow.h. */
void
flow_park(uint32 flow, QuotaReason reason, int64 wake_ns)
{
	QuotaFlow  *f = &quota_flows[flow];

	if (f->state == QUOTA_FLOW_IDLE)
		return;					/* somebody found out that it is empty */
	flow_leave_state(f);
	f->state = QUOTA_FLOW_PARKED;
	f->reason = reason;
	f->blocked = true;
	f->parking = ++slot_of(f)->parkings;
	dlist_push_tail(&tenant_of(share_of(f))->blocked, &f->tenant_node);
	dlist_push_tail(&slot_of(f)->blocked, &f->slot_node);
	flow_share_update(share_of(f));
	flow_set_timer(f, wake_ns);
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
