/*
 * flow_list.c
 *		Copies the flows of a provider in which jobs wait.
 *
 * The lock is held for a chunk of the table at a time, so that looking holds up
 * nobody.  Memory for a whole chunk is there before the lock is taken.
 */
#include "flow_list.h"

#include "flow_gate.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "waiter.h"

/* Places of the table looked at under one lock. */
#define CHUNK 256

/* What is due is READY, as a claim would find it. */
static void
pass_time(uint32 slot, FlowList *list)
{
	QuotaSlot  *s = &quota_slots[slot];

	waiter_hold();
	quota_lock(&s->lock);
	list->now_ns = quota_now_ns();
	list->wall_us = quota_wall_us();
	flow_pass_time(slot, list->now_ns, list->wall_us, list->now_ns);
	LWLockRelease(&s->lock);
	across_tell();
	waiter_release(false);
}

/* Why a READY flow is not claimed from: what stops all of them. */
static void
say_closed(const QuotaSlot *slot, FlowInfo *info)
{
	info->reason = slot->closed.reason;
	info->at_ns = slot->closed.until_ns;
	strlcpy(info->limit_name, slot->closed.limit_name, QUOTA_NAME_LEN);
}

/* One flow; slot lock held. */
static void
copy_flow(const QuotaSlot *slot, const QuotaFlow *flow, bool closed,
		  int64 now_ns, FlowInfo *info)
{
	const QuotaShare *share = share_of(flow);

	memset(info, 0, sizeof(*info));
	strlcpy(info->tenant, tenant_of(share)->name, QUOTA_NAME_LEN);
	strlcpy(info->class_name, slot->classes[share->class_index].name,
			QUOTA_NAME_LEN);
	strlcpy(info->endpoint, flow->endpoint, QUOTA_NAME_LEN);
	info->depth = flow->depth;
	info->in_flight = flow->in_flight;
	info->state = flow->state;
	info->blocked = flow->blocked;
	info->reason = flow->reason;
	info->at_ns = flow_opens_ns(flow);
	/* a bucket has the name of its limit for life, and this one is pinned */
	if (flow->waits_for != QUOTA_NO_INDEX)
		strlcpy(info->limit_name, quota_buckets[flow->waits_for].limit_name,
				QUOTA_NAME_LEN);
	if (flow->state != QUOTA_FLOW_READY)
		return;
	info->reason = QUOTA_OK;
	info->at_ns = now_ns;
	if (closed)
		say_closed(slot, info);
}

/* The flows among CHUNK places of the table, from first on. */
static void
copy_chunk(uint32 slot, uint32 first, FlowList *list)
{
	QuotaSlot  *s = &quota_slots[slot];
	uint32		end = Min(first + CHUNK, (uint32) quota_max_flows);
	bool		closed;

	quota_lock(&s->lock);
	closed = flow_all_stopped(slot, list->now_ns);
	for (uint32 i = first; i < end; i++)
		if (quota_owned(&quota_flows[i].entry, slot) && quota_flows[i].depth > 0)
			copy_flow(s, &quota_flows[i], closed, list->now_ns,
					  &list->flow[list->n++]);
	LWLockRelease(&s->lock);
}

/* See flow_list.h. */
void
flow_list(uint32 slot, FlowList *list)
{
	int			room = 4 * CHUNK;

	list->n = 0;
	list->flow = palloc(room * sizeof(FlowInfo));
	pass_time(slot, list);
	for (uint32 first = 0; first < (uint32) quota_max_flows; first += CHUNK)
	{
		CHECK_FOR_INTERRUPTS();
		if (list->n + CHUNK > room)
		{
			room *= 2;
			list->flow = repalloc_huge(list->flow, (Size) room * sizeof(FlowInfo));
		}
		copy_chunk(slot, first, list);
	}
}

/* See flow_list.h. */
QuotaCall
flow_info_call(const FlowInfo *info, const char *provider)
{
	QuotaCall	call = {0};

	call.tenant = info->tenant;
	call.provider = provider;
	call.class_name = info->class_name;
	call.endpoint = info->endpoint[0] ? info->endpoint : NULL;
	return call;
}
