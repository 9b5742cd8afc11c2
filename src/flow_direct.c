/*
 * flow_direct.c
 *		Direct calls (quota_acquire) in the order of jobs; and the cost of jobs that
 *		turned out to be another.
 *
 * A tenant that calls a provider directly, beside the jobs it has queued there,
 * has that much less to ask of the queue: its share in the call's class is moved
 * as by a dispatch, but never further than one call ahead of virtual time.  It
 * would not do to count in full: direct calls ask nobody whose turn it is, so a
 * tenant could make a thousand, and its jobs would then wait for a thousand of
 * everybody else's.  Virtual time itself stays, since nothing was dispatched.
 *
 * What a call has moved is in the journal, merged for each share and
 * subtransaction, and a rollback takes back at most one call's worth, as that is
 * all that may be left of it.  The record pins the share.
 *
 * Only shares that exist count: who has no jobs at the provider has no place to
 * lose.  A plan remembers where its share is, or that there was none when so many
 * shares had been made; so a direct call to a provider without a queue costs one
 * look at a counter, and any other a comparison of keys.
 */
#include "flow_gate.h"

/* The plan's share, QUOTA_NO_INDEX = none; slot lock held. */
static uint32
find_share(QuotaPlan *plan)
{
	const QuotaSlot *slot = &quota_slots[plan->slot];
	uint32		index = plan->share_index;

	if (index != QUOTA_NO_INDEX &&
		quota_owned(&quota_shares[index].entry, plan->slot) &&
		quota_key_equal(&quota_shares[index].entry.key, &plan->share_key))
		return index;
	if (plan->shares_seen == slot->shares_made)
		return QUOTA_NO_INDEX;
	plan->shares_seen = slot->shares_made;
	plan->share_index = quota_find_share(&plan->share_key, plan->slot);
	return plan->share_index;
}

/* See flow.h. */
void
flow_direct(QuotaPlan *plan, int64 cost)
{
	uint32		index;
	QuotaShare *share;
	const FairClock *clock;

	if (quota_slots[plan->slot].nshares == 0)
		return;
	index = find_share(plan);
	if (index == QUOTA_NO_INDEX)
		return;
	share = &quota_shares[index];
	clock = &quota_slots[plan->slot].classes[share->class_index].clock;
	if (!fair_may_lead(&share->tag, clock, cost))
		return;
	flow_share_unlink(share);
	fair_lead(&share->tag, clock, cost,
			  journal_lead(index, &plan->lead_hint));
	flow_share_relink(share);
	flow_gate_served(share);
}

/* See flow.h. */
void
flow_apply_unlead(uint32 index, const FairLead *lead)
{
	QuotaShare *share = &quota_shares[index];

	flow_share_unlink(share);
	fair_unlead(&share->tag, lead);
	flow_share_relink(share);
	flow_line_fell(share);
}

/* See flow.h. */
void
flow_correct(QuotaFlow *flow, int64 difference)
{
	QuotaShare *share = share_of(flow);

	flow_share_unlink(share);
	fair_correct(&share->tag, difference);
	flow_share_relink(share);
	if (difference > 0)
		flow_gate_served(share);
	else
		flow_line_fell(share);
}
