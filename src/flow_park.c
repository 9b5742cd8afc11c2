/*
 * flow_park.c
 *		Flows that can't run: blocked until an event or a time, and the timers of
 *		all flows.
 *
 * A blocked flow is in the lists of its tenant and its slot.  It waits for one
 * bucket, the one that opens last of those that refused it, or for none (its tenant
 * is suspended, or has no row).  flow_gate.c tells what an event on a bucket does.
 * Parkings are numbered: see there what for.
 */
#include "flow_gate.h"
#include "match.h"
#include "permit.h"
#include "waiter.h"

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
	if (wake_ns == QUOTA_NEVER)
		return;
	pairingheap_add(timers, &flow->timer);
	waiter_due(flow->entry.owner, wake_ns);
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

/* Makes ready what time has made ready. */
static void
wake(uint32 slot, int64 now_ns)
{
	QuotaFlow  *flow;

	while ((flow = first_timer(&quota_slots[slot])) != NULL &&
		   flow->wake_ns <= now_ns)
	{
		/* what was parked and has a job due comes here twice */
		if (flow->state == QUOTA_FLOW_READY)
		{
			flow->due = true;
			flow_set_since(flow, FLOW_SINCE_UNKNOWN, false);
			flow_reopen(flow);
			flow_resift(flow);
			waiter_wake(slot);
			continue;
		}
		if (!flow->blocked)
			flow_set_since(flow, FLOW_SINCE_UNKNOWN, false);
		flow_set_ready(flow);
	}
	flow_gates_wake(slot, now_ns);
}

/* See flow.h. */
void
flow_pass_time(uint32 slot, int64 now_ns, TimestampTz wall_us, int64 wake_ns)
{
	permit_expire(slot, now_ns);
	flow_follow_wall(slot, now_ns, wall_us);
	wake(slot, wake_ns);
}

/* See flow.h. */
int64
flow_first_wake_ns(const QuotaSlot *slot)
{
	int64		first_ns = QUOTA_NEVER;

	if (!pairingheap_is_empty(&slot->timers))
		first_ns = pairingheap_container(QuotaFlow, timer,
										 pairingheap_first((pairingheap *) &slot->timers))->wake_ns;
	if (!pairingheap_is_empty(&slot->gates))
		first_ns = Min(first_ns,
					   pairingheap_container(QuotaGate, node,
											 pairingheap_first((pairingheap *) &slot->gates))->opens_ns);
	return first_ns;
}

/* ---- blocked flows ---- */

/* Leaves all that it waits in; its state is still what it was. */
void
flow_park_leave(QuotaFlow *flow)
{
	flow_gate_leave(flow);
	if (!flow->blocked)
		return;
	dlist_delete(&flow->tenant_node);
	dlist_delete(&flow->slot_node);
	flow->blocked = false;
}

/* See flow.h. */
void
flow_park(uint32 flow, QuotaReason reason, uint32 bucket, int64 wake_ns)
{
	QuotaFlow  *f = &quota_flows[flow];

	if (f->state == QUOTA_FLOW_IDLE)
		return;					/* somebody found out that it is empty */
	flow_leave_state(f);
	f->state = QUOTA_FLOW_PARKED;
	f->reason = reason;
	f->blocked = true;
	f->parking = flow_next_parking();
	dlist_push_tail(&tenant_of(share_of(f))->blocked, &f->tenant_node);
	dlist_push_tail(&slot_of(f)->blocked, &f->slot_node);
	if (bucket != QUOTA_NO_INDEX)
		flow_wait_for(f, bucket);
	flow_share_update(share_of(f));
	flow_set_timer(f, wake_ns);
}

/* See flow.h. */
void
flow_unpark_tenant(uint32 tenant)
{
	dlist_head *blocked = &quota_tenants[tenant].blocked;

	waiter_together(true);
	while (!dlist_is_empty(blocked))
		flow_set_ready(dlist_head_element(QuotaFlow, tenant_node, blocked));
	waiter_together(false);
}

/* See flow.h. */
void
flow_unpark_all(uint32 slot)
{
	dlist_head *blocked = &quota_slots[slot].blocked;

	waiter_together(true);
	while (!dlist_is_empty(blocked))
		flow_set_ready(dlist_head_element(QuotaFlow, slot_node, blocked));
	waiter_together(false);
}

/* See flow.h.  What a pause has blocked waits for no bucket, in no line. */
void
flow_unpark_paused(uint32 slot, const char *tenant, const char *endpoint)
{
	QuotaSlot  *s = &quota_slots[slot];
	dlist_mutable_iter iter;

	waiter_together(true);
	if (s->closed.flow != QUOTA_NO_INDEX && s->closed.reason == QUOTA_PAUSED)
		flow_open(slot);
	dlist_foreach_modify(iter, &s->blocked)
	{
		QuotaFlow  *flow = dlist_container(QuotaFlow, slot_node, iter.cur);

		if (flow->reason == QUOTA_PAUSED &&
			(tenant[0] == '\0' || strcmp(tenant_of(share_of(flow))->name, tenant) == 0) &&
			(endpoint[0] == '\0' || match_glob(endpoint, flow->endpoint)))
			flow_set_ready(flow);
	}
	waiter_together(false);
}
