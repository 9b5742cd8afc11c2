/*
 * job_turn.c
 *		Whose turn it is, and whether it may: steps 1 to 3 of a claim; see
 *		job_claim.c.
 *
 * Several sessions may pick the same flow.  Only the one that finds it still to
 * be next under the lock charges it; the others pick again.
 *
 * The first decision goes by the cost map, before anybody has looked at a job, so
 * that the flow is charged in the section that found it to be next.  A job may
 * have units, a user, a connection or a resource of its own, though, that any limit
 * may go by.  So a yes is provisional until the head is known; and a no says only
 * that somebody has to look at the head without having charged for it.  What a no
 * that holds leads to is in job_refuse.c.
 *
 * RETRIES.  A job that has used an attempt is decided for as a retry, which a retry
 * budget may refuse.  That keeps no others of its flow: the search goes on without
 * retries, which are looked at again when the budget has room, or after a second,
 * as first attempts may have brought some.
 *
 * The decision, the charge and the flow's place in the orders are one section under
 * the locks of its plan.  Everything taken in it is in the journal, behind c->mark.
 */
#include "job_turn.h"

#include "change.h"
#include "common/int.h"
#include "flow_gate.h"
#include "job_batch.h"
#include "job_refuse.h"
#include "utils/jsonb.h"

/* Jobs older than that are all the same: max_wait is less. */
#define MAX_AGE_US (2 * 366 * USECS_PER_DAY)

/* A retry that its budget refuses is looked at again after this. */
#define RETRY_RECHECK_NS QUOTA_NS_PER_S

/* Looks at heads that one claim may make before it goes by what is known. */
#define MAX_LOOKS 8

/* The flow whose turn it is, and how; slot lock held. */
static uint32
pick(const Claimer *c, int64 now_ns, FlowTurn *turn)
{
	return flow_pick(c->slot, now_ns, c->looks < MAX_LOOKS, turn);
}

/* See job_turn.h. */
bool
turn_pick(Claimer *c)
{
	QuotaSlot  *slot = &quota_slots[c->slot];
	int64		now_ns;

	quota_lock(&slot->lock);
	now_ns = quota_now_ns();
	flow_pass_time(c->slot, now_ns, quota_wall_us(),
				   Min(now_ns, c->asleep_ns - 1));
	c->flow = pick(c, now_ns, &c->turn);
	if (c->flow != QUOTA_NO_INDEX)
	{
		c->key = quota_flows[c->flow].entry.key;
		job_names_of_flow(c->flow, &c->names);
	}
	LWLockRelease(&slot->lock);
	across_tell();
	return c->flow != QUOTA_NO_INDEX;
}

/* See job_refuse.h. */
bool
turn_is_still(const Claimer *c, int64 now_ns, FlowTurn *turn)
{
	const QuotaEntry *entry = &quota_flows[c->flow].entry;

	return pick(c, now_ns, turn) == c->flow &&
		quota_owned(entry, c->slot) && quota_key_equal(&entry->key, &c->key);
}

/*
 * The plan of the flow; NULL when its tenant, provider or class has no row, or
 * none that others see: the flow is theirs too.
 */
static QuotaPlan *
plan_of(const Claimer *c, const QuotaCall *call)
{
	return change_is_new(c->names.tenant) ? NULL : quota_plan(call, true);
}

/* See job_refuse.h. */
QuotaPlan *
turn_plan_of_flow(const Claimer *c)
{
	QuotaCall	call = job_call_of(&c->names);

	return plan_of(c, &call);
}

/* Charges the flow's place in the orders it takes part in; locks held. */
static void
charge_order(Claimer *c, JournalClaim *claim, int64 cost)
{
	bool		more = c->role == QUOTA_BATCH_NEXT;

	if (!more)
	{
		c->in_line = c->verdict.meets_shared;
		c->line_key = c->verdict.line_key;
	}
	flow_charge(claim, cost, c->turn.why, more);
	if (c->in_line)
		claim->line = flow_line_charge(c->flow, &c->line_key, cost, more);
	if (!more)
		flow_gate_charged(c->flow);
}

/* A claim of the flow, of which neither the job nor what it costs is known yet. */
static JournalClaim
claim_of_flow(uint32 flow)
{
	JournalClaim claim = {.flow = flow,.due_ns = QUOTA_NEVER,.place = DT_NOBEGIN};

	return claim;
}

/* The decision was yes; locks held. */
static Step
admitted(Claimer *c, const QuotaUnits *units)
{
	JournalClaim claim = claim_of_flow(c->flow);
	int64		cost = quota_units_of(units, c->plan->share_unit);

	/* nobody is served for nothing, or others of the class would wait for ever */
	cost = cost >= 0 ? Max(cost, 1) : c->plan->share_cost;
	charge_order(c, &claim, cost);
	journal_claim(&claim, c->mark);
	return STEP_GO_ON;
}

/* The weight the flow is ordered by is the tenant's current one; locks held. */
static bool
has_current_weight(Claimer *c)
{
	uint32		tenant = quota_shares[quota_flows[c->flow].share].tenant;

	if (!quota_plan_is_current(c->plan) ||
		quota_tenants[tenant].weight_milli == c->plan->weight_milli)
		return true;
	flow_set_weight(tenant, c->plan->weight_milli);
	return false;
}

/* It still is the flow's turn; locks held. */
static bool
is_next(Claimer *c)
{
	return turn_is_still(c, c->now_ns, &c->turn) && has_current_weight(c);
}

/* What is taken from here on returns by an undo to c->mark; locks held. */
static void
mark_takes(Claimer *c)
{
	c->mark = journal_mark();
	c->mark.parkings = flow_parkings();
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
	mark_takes(c);
}

/* The candidate has used an attempt. */
static bool
is_retry(const Claimer *c)
{
	return row_int32(c->lanes.job, JOB_ATTEMPT) > 0;
}

/* A retry budget is among those that refuse it: notes until when. */
static bool
is_over_budget(Claimer *c)
{
	const QuotaVerdict *v = &c->verdict;
	int64		wake_ns = 0;

	for (int i = 0; i < v->nexhausted; i++)
		if (v->exhausted[i].reason == QUOTA_RETRY_BUDGET)
			wake_ns = Max(wake_ns, v->exhausted[i].wake_ns);
	c->retry_ns = Min(wake_ns, c->now_ns + RETRY_RECHECK_NS);
	return wake_ns > 0;
}

/* The job is not to wait for the next period of an allowance; locks held. */
static bool
must_fail(Claimer *c)
{
	const QuotaExhausted *e = c->plan->fails_exhausted
		? quota_spent_limit(&c->verdict) : NULL;

	if (e == NULL)
		return false;
	c->exhausted = true;
	strlcpy(c->exhausted_by, c->plan->terms[e->term].name, QUOTA_NAME_LEN);
	c->exhausted_until = e->not_before_us;
	return true;
}

/* Begins the search of the flow; locks held. */
static void
begin_search(Claimer *c)
{
	flow_scan_begin(c->flow, c->now_ns, &c->scan);
	lanes_begin(&c->lanes, &c->scan);
}

/* The decision; locks held. */
static Step
decide(Claimer *c, const QuotaUnits *units, bool first, DecideResult *result,
	   int *what)
{
	QuotaAsk	ask = {0};

	ask.n = 1;
	ask.units = units;
	ask.retry = !first && is_retry(c);
	ask.lifetime_ns = c->lease_ns;
	ask.batch = c->role;
	/* the others of a batch had their turn with its first */
	ask.is_job = c->role != QUOTA_BATCH_NEXT;
	ask.flow = c->flow;
	ask.dry = c->looking;
	ask.connection = first ? NULL : c->connection;
	ask.provisional = first && (c->plan->fails_exhausted ||
								!flow_head_is_plain(c->flow, c->now_ns));
	*result = quota_decide_locked(c->plan, &ask, c->now_ns, c->wall_us,
								  &c->verdict, what);
	if (*result != DECIDE_DONE)
		return STEP_RACED;
	if (first)
		begin_search(c);
	c->charged = c->verdict.granted > 0;
	if (c->charged)
		return c->looking ? STEP_GO_ON : admitted(c, units);
	if (ask.provisional && !c->verdict.of_flow)
		return STEP_GO_ON;
	if (!c->verdict.of_flow && is_over_budget(c))
		return STEP_GO_ON;
	/* it ends the batch; whether the flow has to wait is seen at its next turn */
	if (c->role == QUOTA_BATCH_NEXT)
		return STEP_LEFT;
	if (must_fail(c))
		return STEP_GO_ON;
	return turn_refused(c, first);
}

/* Nothing is decided: only the head's age is wanted; locks held. */
static Step
look(Claimer *c)
{
	begin_search(c);
	c->charged = false;
	return STEP_GO_ON;
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
	quota_lock_plan(c->plan);
	mark_takes(c);
	if (first)
		c->start = c->mark;
	c->now_ns = quota_now_ns();
	c->wall_us = quota_wall_us();
	if (!first || is_next(c))
	{
		if (first)
			pin_flow(c);
		if (first && c->turn.look)
			step = look(c);
		else
			step = decide(c, units, first, &result, &what);
	}
	quota_unlock_plan(c->plan);
	if (step != STEP_GO_ON)
		turn_end(c);
	/* a batch makes do with what it has */
	if (result == DECIDE_FULL && c->role == QUOTA_BATCH_NEXT)
		return STEP_NOTHING;
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
	c->plan = turn_plan_of_flow(c);
	if (c->plan == NULL)
		return turn_unconfigured(c);
	return try_charge(c, NULL, true);
}

/* See job_turn.h. */
int64
turn_since(const Claimer *c)
{
	const JobLanes *lanes = &c->lanes;
	TimestampTz since_us = lanes->returned
		? row_int64(lanes->lease, LEASE_ORIGINAL_AT)
		: row_int64(lanes->job, JOB_CREATED_AT);
	int64		waited_us;

	if (pg_sub_s64_overflow(c->wall_us, since_us, &waited_us) ||
		waited_us > MAX_AGE_US)
		waited_us = MAX_AGE_US;
	return c->now_ns - Max(waited_us, 0) * QUOTA_NS_PER_US;
}

/* See job_turn.h. */
Step
turn_looked(Claimer *c)
{
	QuotaSlot  *slot = &quota_slots[c->slot];
	int64		since_ns = turn_since(c);
	bool		seen;

	quota_lock(&slot->lock);
	seen = flow_scan_seen(&c->scan, since_ns);
	LWLockRelease(&slot->lock);
	turn_end(c);
	c->looks++;
	return seen ? STEP_LEFT : STEP_RACED;
}

/* See job_turn.h. */
bool
turn_continue(Claimer *c)
{
	QuotaSlot  *slot = &quota_slots[c->slot];
	const QuotaFlow *flow = &quota_flows[c->flow];	/* pinned by the claims so far */
	bool		more;

	quota_lock(&slot->lock);
	mark_takes(c);
	c->start = c->mark;
	c->charged = false;
	c->now_ns = quota_now_ns();
	c->wall_us = quota_wall_us();
	more = flow->state == QUOTA_FLOW_READY || flow->blocked;
	if (more)
		begin_search(c);
	LWLockRelease(&slot->lock);
	return more;
}

/* See job_turn.h. */
void
turn_ride(Claimer *c)
{
	QuotaSlot  *slot = &quota_slots[c->slot];
	JournalClaim claim = claim_of_flow(c->flow);

	turn_uncharge(c);
	journal_reserve(1);
	quota_lock(&slot->lock);
	journal_claim(&claim, c->mark);
	LWLockRelease(&slot->lock);
	c->verdict.permit = 0;
	c->verdict.has_hold = false;
	c->charged = true;
}

/* See job_turn.h. */
void
turn_uncharge(Claimer *c)
{
	journal_undo(c->mark);
	c->charged = false;
}

/* See job_turn.h. */
bool
turn_has_own_terms(const Claimer *c)
{
	return job_has_own_terms(c->lanes.job) ||
		(c->plan->budgets_retries && is_retry(c));
}

/* See job_turn.h. */
Step
turn_charge_candidate(Claimer *c)
{
	QuotaUnits *units = NULL;
	QuotaCall	call;
	bool		isnull;
	Datum		value = slot_getattr(c->lanes.job, JOB_UNITS, &isnull);

	turn_uncharge(c);
	if (!isnull)
		units = quota_units_parse(DatumGetJsonbP(value));
	call = job_call_with_names(c->lanes.job, &c->names);
	c->connection = call.connection;
	c->plan = plan_of(c, &call);
	if (c->plan == NULL)
	{
		turn_end(c);
		return STEP_RACED;
	}
	if (c->role == QUOTA_BATCH_NEXT && !batch_fits(c, c->plan))
	{
		turn_end(c);
		return STEP_NOTHING;
	}
	return try_charge(c, units, false);
}
