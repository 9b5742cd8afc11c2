/*
 * job_turn.c
 *		Whose turn it is, and whether it may: steps 1 to 3 of a claim; see
 *		job_claim.c.
 *
 * Several sessions may pick the same flow.  Only the one that finds it still to
 * be next under the lock charges it; the others pick again.
 */
#include "job_turn.h"

#include "catalog.h"
#include "flow.h"
#include "miscadmin.h"
#include "permit.h"
#include "utils/jsonb.h"

/* The wall clock, which calendars follow, may step: look again after this. */
#define CALENDAR_RECHECK_NS (60 * QUOTA_NS_PER_S)
/* A flow without configuration is looked at again after this. */
#define UNCONFIGURED_RECHECK_NS (10 * QUOTA_NS_PER_S)

/* Copies what names the flow; slot lock held. */
static void
copy_flow(Claimer *c)
{
	const QuotaFlow *flow = &quota_flows[c->flow];
	const QuotaShare *share = &quota_shares[flow->share];

	c->key = flow->entry.key;
	c->names.hash = flow->hash;
	strlcpy(c->names.provider, c->provider, QUOTA_NAME_LEN);
	strlcpy(c->names.tenant, quota_tenants[share->tenant].name, QUOTA_NAME_LEN);
	strlcpy(c->names.endpoint, flow->endpoint, QUOTA_NAME_LEN);
	strlcpy(c->names.class_name,
			quota_slots[c->slot].classes[share->class_index].name,
			QUOTA_NAME_LEN);
}

/* See job_turn.h. */
bool
turn_pick(Claimer *c)
{
	QuotaSlot  *slot = &quota_slots[c->slot];
	int64		now_ns;

	LWLockAcquire(&slot->lock, LW_EXCLUSIVE);
	now_ns = quota_now_ns();
	permit_expire(c->slot, now_ns);
	flow_wake(c->slot, now_ns);
	c->flow = flow_pick(c->slot);
	if (c->flow != QUOTA_NO_INDEX)
		copy_flow(c);
	LWLockRelease(&slot->lock);
	return c->flow != QUOTA_NO_INDEX;
}

/* The index still is the flow that was picked; slot lock held. */
static bool
flow_is_same(const Claimer *c)
{
	const QuotaEntry *entry = &quota_flows[c->flow].entry;

	return entry->used && entry->owner == c->slot &&
		quota_key_equal(&entry->key, &c->key);
}

/* The plan of the flow; NULL when its tenant, provider or class has no row. */
static QuotaPlan *
plan_of(const Claimer *c, const char *connection)
{
	QuotaCall	call = job_call_of(&c->names);

	call.connection = connection;
	return quota_plan(&call, true);
}

/* The flow's tenant, provider or class has no row. */
static Step
park_unconfigured(Claimer *c)
{
	QuotaSlot  *slot = &quota_slots[c->slot];
	bool		same;

	LWLockAcquire(&slot->lock, LW_EXCLUSIVE);
	same = flow_pick(c->slot) == c->flow && flow_is_same(c);
	if (same)
		flow_park(c->flow, QUOTA_UNCONFIGURED,
				  quota_now_ns() + UNCONFIGURED_RECHECK_NS);
	LWLockRelease(&slot->lock);
	return same ? STEP_LEFT : STEP_RACED;
}

/*
 * Some limit that every call meets is short for the flow whose turn it is, but
 * will have room: others may not overtake, or a dear call would wait for ever.
 */
static bool
stops_everybody(const QuotaPlan *plan, const QuotaVerdict *v)
{
	for (int i = 0; i < v->nexhausted; i++)
	{
		const QuotaExhausted *e = &v->exhausted[i];

		if (plan->terms[e->term].wide &&
			(e->reason == QUOTA_RATE_LIMITED ||
			 e->reason == QUOTA_CONCURRENCY_LIMITED))
			return true;
	}
	return false;
}

/*
 * The decision was no; locks held.  "first": it was made right after the pick,
 * else for the candidate of a search.
 */
static Step
refused(Claimer *c, bool first)
{
	QuotaVerdict *v = &c->verdict;
	int64		wake_ns = v->wake_ns;

	if (stops_everybody(c->plan, v))
	{
		quota_flows[c->flow].reason = v->reason;
		return STEP_NOTHING;
	}
	if (v->reason == QUOTA_QUOTA_EXHAUSTED)
		wake_ns = Min(wake_ns, c->now_ns + CALENDAR_RECHECK_NS);
	if (first)
		flow_park(c->flow, v->reason, wake_ns);
	else if (!flow_scan_blocked(&c->scan, c->lanes.returned ? 0 : c->lanes.id,
								v->reason, wake_ns))
		return STEP_RACED;
	return STEP_LEFT;
}

/* The decision was yes; locks held. */
static Step
admitted(Claimer *c, const QuotaUnits *units)
{
	JournalClaim claim = {0};
	int64		cost = quota_units_of(units, c->plan->share_unit);

	claim.flow = c->flow;
	claim.due_ns = QUOTA_NEVER;
	claim.charge = flow_charge(c->flow, cost >= 0 ? cost : c->plan->share_cost);
	journal_claim(&claim, c->mark);
	return STEP_GO_ON;
}

/* Takes of a claim are undone one by one: no other call may share records. */
static void
forget_hints(QuotaPlan *plan)
{
	for (int i = 0; i < plan->nterms; i++)
		plan->terms[i].journal_hint = UINT32_MAX;
}

/* The weight the flow is ordered by is the tenant's current one; locks held. */
static bool
has_current_weight(Claimer *c)
{
	uint32		tenant = quota_shares[quota_flows[c->flow].share].tenant;

	if (!quota_plan_is_current(c->plan) ||
		quota_tenants[tenant].weight_milli == c->plan->weight_milli)
		return true;
	flow_set_weight(c->slot, tenant, c->plan->weight_milli);
	return false;
}

/* It still is the flow's turn; locks held. */
static bool
is_next(Claimer *c)
{
	return flow_pick(c->slot) == c->flow && flow_is_same(c) &&
		has_current_weight(c);
}

/*
 * It is the flow's turn: pins it, so that it can be searched and told the
 * outcome even while nothing else of it is in the journal.
 */
static void
pin_flow(Claimer *c)
{
	JournalNote nothing = job_empty_note(false);

	journal_note(c->flow, &nothing);
	c->mark = journal_mark();
}

/* The decision; locks held. */
static Step
decide(Claimer *c, const QuotaUnits *units, bool first, DecideResult *result,
	   int *what)
{
	QuotaAsk	ask = {0};

	ask.n = 1;
	ask.units = units;
	ask.lifetime_ns = c->lease_ns;
	*result = quota_decide_locked(c->plan, &ask, c->now_ns, c->wall_us,
								  &c->verdict, what);
	if (*result != DECIDE_DONE)
		return STEP_RACED;
	if (c->verdict.granted == 0)
		return refused(c, first);
	if (first)
		flow_scan_begin(c->flow, c->now_ns, &c->scan);
	return admitted(c, units);
}

/*
 * Decides and charges by c->plan.  "first": only if it is the flow's turn, and
 * begins a search of it.
 */
static Step
try_charge(Claimer *c, const QuotaUnits *units, bool first)
{
	DecideResult result = DECIDE_STALE;
	Step		step = STEP_RACED;
	int			what = 0;

	c->lease_ns = c->asked_lease_ns > 0 ? c->asked_lease_ns : c->plan->lease_ns;
	journal_reserve(QUOTA_MAX_TERMS + 3);
	c->mark = journal_mark();
	if (first)
		c->start = c->mark;
	forget_hints(c->plan);
	quota_lock_plan(c->plan);
	c->now_ns = quota_now_ns();
	c->wall_us = quota_wall_us();
	if (!first || is_next(c))
	{
		if (first)
			pin_flow(c);
		step = decide(c, units, first, &result, &what);
	}
	quota_unlock_plan(c->plan);
	forget_hints(c->plan);
	if (step != STEP_GO_ON)
		turn_end(c);
	if (result != DECIDE_DONE && result != DECIDE_STALE)
		quota_decide_help(result, c->plan, what, &c->reclaims);
	return step;
}

/* See job_turn.h. */
void
turn_end(Claimer *c)
{
	journal_undo(c->start);
}

/* See job_turn.h. */
Step
turn_charge(Claimer *c)
{
	c->plan = plan_of(c, NULL);
	if (c->plan == NULL)
		return park_unconfigured(c);
	return try_charge(c, NULL, true);
}

/* See job_turn.h. */
Step
turn_charge_again(Claimer *c, bool by_candidate)
{
	QuotaUnits *units = NULL;
	char	   *connection = NULL;
	bool		isnull = true;
	Datum		value = (Datum) 0;

	journal_undo(c->mark);
	if (by_candidate)
	{
		value = slot_getattr(c->lanes.job, JOB_UNITS, &isnull);
		connection = job_text(c->lanes.job, JOB_CONNECTION);
	}
	if (!isnull)
		units = quota_units_parse(DatumGetJsonbP(value));
	c->plan = plan_of(c, connection);
	if (c->plan == NULL)
	{
		turn_end(c);
		return STEP_RACED;
	}
	return try_charge(c, units, false);
}
