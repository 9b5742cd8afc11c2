/*
 * job_claim.c
 *		Claiming one job: which runs next, and whether it may.
 *
 * One claim goes like this:
 *
 *	1	Under the provider's lock: whose turn is it (flow_pick)?
 *	2	Without a lock: the plan of that flow, from the backend's cache.
 *	3	Under the plan's locks, if it is still that flow's turn: decide by the
 *		cost map, charge the limits and the flow, and copy its position.
 *	4	Without a lock: search the flow for its oldest ready job, lock the row.
 *		A job with units, a user, a connection or a resource of its own is decided
 *		again for those; so is any job when the cost map was refused, but without
 *		having been charged for before: what the head costs is known only now.
 *	5	Under the lock: the flow's position moves past the job, so that others
 *		don't meet it.  Without: the rows are written.
 *
 * From 3 on everything taken is in the journal, so an error anywhere returns it.
 * A try may also end without a claim: the flow was refused (it is parked, or, when
 * the limit that refused is met by every call, nothing can run at all), it had no
 * ready job (it leaves the order until one is raised), or another session was
 * faster.  The first two take a flow out of the order, so there are as many of
 * them as flows; races are counted, and a call gives up after MAX_RACES.
 *
 * A retry that its budget refuses keeps nobody but other retries: the search goes on
 * without these, and the flow waits only if it finds nothing else.
 *
 * The flow may also have been picked only for a look at its head (flow_order.c):
 * then nothing is decided in 3, and the try ends when 4 has found the head.
 *
 * A job that will not run any more (job_bury.c) is buried by who finds it, and the
 * try is repeated.  Burying is not what the caller asked for, so after MAX_BURIALS
 * in one call a flow that needs more waits for the next call, and this one goes on
 * with others.
 */
#include "job_claim.h"

#include "flow.h"
#include "job_batch.h"
#include "job_refresh.h"
#include "miscadmin.h"
#include "permit.h"
#include "utils/memutils.h"

/* Races one claim may lose. */
#define MAX_RACES 64

#define MAX_BURIALS 100

/* ---- the job ---- */

/* The search found nothing; the flow leaves the order unless it was raised. */
static Step
nothing_found(Claimer *c)
{
	QuotaSlot  *slot = &quota_slots[c->slot];
	bool		left;

	journal_undo(c->mark);
	quota_lock(&slot->lock);
	flow_scan_empty(&c->scan, c->lanes.last_id);
	left = quota_flows[c->flow].state != QUOTA_FLOW_READY;
	LWLockRelease(&slot->lock);
	turn_end(c);
	return left ? STEP_LEFT : STEP_RACED;
}

/* This call has buried enough: the flow waits for the next one. */
static Step
rest(Claimer *c)
{
	QuotaSlot  *slot = &quota_slots[c->slot];

	turn_uncharge(c);
	c->asleep_ns = Min(c->asleep_ns, c->now_ns);
	quota_lock(&slot->lock);
	flow_scan_rested(&c->scan, c->asleep_ns);
	LWLockRelease(&slot->lock);
	turn_end(c);
	return STEP_LEFT;
}

/*
 * An allowance has nothing left for the candidate, whose class does not wait for more:
 * it fails.  Who only looks has found something to do.
 */
static Step
fail_exhausted(Claimer *c)
{
	if (c->looking)
	{
		turn_end(c);
		return STEP_CLAIMED;
	}
	if (c->buried >= MAX_BURIALS)
		return rest(c);
	return lanes_lock(&c->lanes) ? claim_bury(c) : STEP_GO_ON;
}

/* Locks and claims the candidate; STEP_GO_ON when it is not to be had. */
static Step
try_candidate(Claimer *c)
{
	JobLanes   *lanes = &c->lanes;
	bool		own = turn_has_own_terms(c);
	bool		dead = claim_is_dead(lanes);

	c->exhausted = false;
	if (dead && !c->looking && c->buried >= MAX_BURIALS)
		return rest(c);
	/* to be buried it need not be allowed to run */
	c->same_as = dead ? 0 : batch_find_twin(c);
	if (c->same_as != 0)
		turn_ride(c);
	else if (!dead && (own || !c->charged))
	{
		Step		step = turn_charge_candidate(c);

		if (step != STEP_GO_ON)
			return step;
		if (c->exhausted)
			return fail_exhausted(c);
		if (!c->charged)
		{
			lanes_leave_retries(lanes, c->retry_ns);
			return STEP_GO_ON;
		}
	}
	if (c->looking)
	{
		turn_end(c);
		return STEP_CLAIMED;
	}
	if (lanes_lock(lanes))
		return dead ? claim_bury(c) : claim_take(c);
	if (own || c->same_as != 0)
		turn_uncharge(c);
	return STEP_GO_ON;
}

/* Searches the flow and claims its oldest ready job. */
static Step
claim_head(Claimer *c)
{
	while (lanes_next(&c->lanes))
	{
		Step		step = c->turn.look ? turn_looked(c) : try_candidate(c);

		CHECK_FOR_INTERRUPTS();
		if (step != STEP_GO_ON)
			return step;
	}
	return nothing_found(c);
}

/* ---- tries ---- */

/* Searches the flow, as c->scan says where. */
static Step
search(Claimer *c)
{
	Step		step;

	lanes_open(&c->lanes, c->slot, &c->names, &c->scan, c->wall_us,
			   c->charged);
	step = claim_head(c);
	lanes_close(&c->lanes, step == STEP_CLAIMED && !c->looking);
	return step;
}

/* One try. */
static Step
try_claim(Claimer *c)
{
	Step		step;

	job_refresh(c->slot);
	if (!turn_pick(c))
		return STEP_NOTHING;
	step = turn_charge(c);
	return step == STEP_GO_ON ? search(c) : step;
}

/* See job_claim.h. */
bool
claim_look(Claimer *c, MemoryContext context)
{
	bool		found;

	c->looking = true;
	c->role = QUOTA_BATCH_NONE;
	found = claim_one(c, context);
	c->looking = false;
	return found;
}

/* See job_claim.h. */
bool
claim_one(Claimer *c, MemoryContext context)
{
	/* each flow may have to leave the order once, and once more for a burial */
	int			may_leave = (int) quota_shared->flow_table.n_used + MAX_BURIALS;
	int			races = 0;
	int			left = 0;

	c->reclaims = 0;
	c->looks = 0;
	while (races < MAX_RACES && left <= may_leave)
	{
		MemoryContext old = MemoryContextSwitchTo(context);
		Step		step = try_claim(c);

		MemoryContextSwitchTo(old);
		MemoryContextReset(context);
		CHECK_FOR_INTERRUPTS();
		if (step == STEP_CLAIMED || step == STEP_NOTHING)
			return step == STEP_CLAIMED;
		races += step == STEP_RACED;
		left += step == STEP_LEFT;
	}
	return false;
}

/* ---- batches ---- */

/* Claims the next job of the batch; false when it has all it may have. */
static bool
claim_next(Claimer *c, MemoryContext context)
{
	int			races = 0;

	c->reclaims = 0;
	while (races < MAX_RACES)
	{
		int			buried = c->buried;
		MemoryContext old = MemoryContextSwitchTo(context);
		Step		step = turn_continue(c) ? search(c) : STEP_NOTHING;

		MemoryContextSwitchTo(old);
		MemoryContextReset(context);
		CHECK_FOR_INTERRUPTS();
		if (step == STEP_CLAIMED || step == STEP_NOTHING)
			return step == STEP_CLAIMED;
		if (step == STEP_LEFT && c->buried == buried)
			return false;
		races += step == STEP_RACED;
	}
	return false;
}

/* See job_claim.h. */
bool
claim_batch(Claimer *c, int max_jobs, MemoryContext context)
{
	c->role = QUOTA_BATCH_FIRST;
	c->batch = 0;
	if (!claim_one(c, context))
		return false;
	c->role = QUOTA_BATCH_NEXT;
	for (int n = 1; n < max_jobs; n++)
		if (!claim_next(c, context))
			break;
	return true;
}
