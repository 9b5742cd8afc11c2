/*
 * flow_close.c
 *		Whether anything of a provider may be claimed now: flows that are READY,
 *		and what stops all of them.
 *
 * A limit that every call meets, and that is short for the flow whose turn it
 * is, stops the flows behind it too, unless something else keeps that flow from
 * running anyway (job_refuse.c).  They stay READY, and the slot is closed:
 * slot->closed says for which flow, why and until when.  Claims don't ask for it,
 * they decide anew; it tells waiters (waiter.c) and views that a claim would be in
 * vain.  So it may be lost at any time, but it must not stay when a claim could
 * succeed:
 *
 * - Its time is over, or it is another flow's turn: flow_may_claim() compares.
 * - Something came back to a limit that every call meets: permit_bucket_opened(),
 *	 or across_tell() for one across providers, in the other slots too.
 *	 If one limit alone was short, what comes back to others changes nothing: each
 *	 finished job gives back its place, also while all wait for a rate.
 *	 An undo within a call opens only what was closed since what it returns was
 *	 taken; closings are numbered with the parkings of flow_park.c.
 * - The flow may have another head: it was raised up to its head, a returned job
 *	 came due, or it left the order: flow_reopen().
 * - The configuration was read again: flow_open().
 *
 * A mark that configuration has to be read again (job_refresh.c) may mean
 * anything for what is there, so with such a mark a claim is worth trying.
 */
#include "flow_gate.h"
#include "waiter.h"

/* See flow.h. */
void
flow_close(uint32 flow, QuotaReason reason, uint32 bucket, bool across,
		   int64 until_ns, const char *limit_name)
{
	uint32		slot = quota_flows[flow].entry.owner;
	QuotaSlot  *s = &quota_slots[slot];

	flow_open(slot);
	if (across)
		pg_atomic_fetch_add_u32(&quota_far_waits[slot], 1);
	s->closed.across = across;
	s->closed.flow = flow;
	s->closed.reason = reason;
	s->closed.bucket = bucket;
	s->closed.until_ns = until_ns;
	s->closed.number = flow_next_parking();
	strlcpy(s->closed.limit_name, limit_name, sizeof(s->closed.limit_name));
	waiter_due(slot, until_ns);
}

/* See flow.h. */
void
flow_open(uint32 slot)
{
	QuotaClosed *closed = &quota_slots[slot].closed;

	if (closed->across)
		pg_atomic_fetch_sub_u32(&quota_far_waits[slot], 1);
	closed->across = false;
	closed->flow = QUOTA_NO_INDEX;
}

/* See flow.h. */
void
flow_open_since(uint32 slot, uint32 bucket, uint64 parkings)
{
	QuotaSlot  *s = &quota_slots[slot];

	if (s->closed.flow == QUOTA_NO_INDEX || s->closed.number <= parkings)
		return;
	if (s->closed.bucket != QUOTA_NO_INDEX && s->closed.bucket != bucket)
		return;
	flow_open(slot);
	waiter_wake(slot);
}

/* The flow may have another head, or is READY no more. */
void
flow_reopen(const QuotaFlow *flow)
{
	QuotaSlot  *s = slot_of(flow);

	if (s->closed.flow == (uint32) (flow - quota_flows))
		flow_open(flow->entry.owner);
}

/* It is closed for this flow, whose turn it is. */
static bool
is_closed(uint32 slot, uint32 flow, int64 now_ns)
{
	const QuotaClosed *closed = &quota_slots[slot].closed;

	return closed->flow == flow && flow != QUOTA_NO_INDEX &&
		closed->until_ns > now_ns;
}

/*
 * Whose turn it is, by what is known, as a claim sees it that has done its looks.
 * Looking changes nothing.
 */
static uint32
whose_turn(uint32 slot, int64 now_ns)
{
	ClassOrder *order = &quota_slots[slot].order;
	ClassOrder	before = *order;
	FlowTurn	turn;
	uint32		flow = flow_pick(slot, now_ns, false, &turn);

	*order = before;
	return flow;
}

/* See flow.h. */
bool
flow_all_stopped(uint32 slot, int64 now_ns)
{
	return is_closed(slot, whose_turn(slot, now_ns), now_ns);
}

/* See flow.h. */
bool
flow_may_claim(uint32 slot, int64 now_ns)
{
	QuotaSlot  *s = &quota_slots[slot];
	bool		stale = s->stale_all != s->refreshed ||
		s->stale_rules != s->refreshed_rules ||
		s->stale_tenants != QUOTA_NO_INDEX;
	uint32		flow = whose_turn(slot, now_ns);

	if (flow == QUOTA_NO_INDEX)
		return stale && !dlist_is_empty(&s->blocked);
	return stale || !is_closed(slot, flow, now_ns);
}

/* See flow.h. */
int64
flow_next_ns(uint32 slot)
{
	const QuotaSlot *s = &quota_slots[slot];
	int64		next_ns = flow_first_wake_ns(s);

	if (s->closed.flow != QUOTA_NO_INDEX)
		next_ns = Min(next_ns, s->closed.until_ns);
	return next_ns;
}
