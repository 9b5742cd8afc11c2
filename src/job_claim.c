/*
 * job_claim.c
 *		quota_dequeue(): which job runs next, and whether it may.
 *
 * One claim goes like this:
 *
 *	1	Under the provider's lock: whose turn is it (flow_pick)?
 *	2	Without a lock: the plan of that flow, from the backend's cache.
 *	3	Under the plan's locks, if it is still that flow's turn: decide by the
 *		cost map, charge the limits and the flow, and copy its position.
 *	4	Without a lock: search the flow for its oldest ready job, lock the row.
 *		A job with units or a connection of its own is decided again for those;
 *		so is any job when the cost map was refused, but without having been
 *		charged for before: what the head costs is known only now.
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
 * A job whose lease has expired and that has no attempt left is buried by who
 * finds it, and the try is repeated.  Burying is not what the caller asked for, so
 * after MAX_BURIALS in one call a flow that needs more waits for the next call,
 * and this one goes on with others.
 */
#include "job.h"

#include "args.h"
#include "catalog.h"
#include "credit.h"
#include "error.h"
#include "flow.h"
#include "funcapi.h"
#include "job_refresh.h"
#include "job_turn.h"
#include "miscadmin.h"
#include "permit.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(quota_dequeue);

/* Races one claim may lose. */
#define MAX_RACES 64

#define MAX_JOBS 1000
#define MAX_BURIALS 100

/* ---- the job ---- */

/* The search found nothing; the flow leaves the order unless it was raised. */
static Step
nothing_found(Claimer *c)
{
	QuotaSlot  *slot = &quota_slots[c->slot];
	bool		left;

	journal_undo(c->mark);
	LWLockAcquire(&slot->lock, LW_EXCLUSIVE);
	flow_scan_empty(&c->scan, c->lanes.last_id);
	left = quota_flows[c->flow].state != QUOTA_FLOW_READY;
	LWLockRelease(&slot->lock);
	turn_end(c);
	return left ? STEP_LEFT : STEP_RACED;
}

/* The candidate's lease has expired and it has no attempt left. */
static bool
is_worn_out(const JobLanes *lanes)
{
	return lanes->was_running &&
		job_int32(lanes->job, JOB_ATTEMPT) >=
		job_int32(lanes->job, JOB_MAX_ATTEMPTS);
}

/* This call has buried enough: the flow waits for the next one. */
static Step
rest(Claimer *c)
{
	QuotaSlot  *slot = &quota_slots[c->slot];

	turn_uncharge(c);
	c->asleep_ns = Min(c->asleep_ns, c->now_ns);
	LWLockAcquire(&slot->lock, LW_EXCLUSIVE);
	flow_scan_rested(&c->scan, c->asleep_ns);
	LWLockRelease(&slot->lock);
	turn_end(c);
	return STEP_LEFT;
}

/* The expired attempt of the locked candidate lets go of its permit. */
static void
end_permit(const JobLanes *lanes)
{
	int64		permit = lanes->was_running ? job_permit(lanes->lease) : 0;

	if (permit != 0)
		permit_end(permit);
}

/* Fails the locked candidate for good. */
static Step
bury(Claimer *c)
{
	QuotaSlot  *slot = &quota_slots[c->slot];
	JobLanes   *lanes = &c->lanes;
	JobChange	change = job_change(c->jobs);
	JournalNote note = job_empty_note(true);

	turn_uncharge(c);
	c->buried++;
	note.due_ns = c->now_ns;
	note.place = lanes->ready_at;
	note.gone = true;
	journal_reserve(1);
	LWLockAcquire(&slot->lock, LW_EXCLUSIVE);
	journal_note(c->flow, &note);
	flow_scan_taken(&c->scan, 0);
	LWLockRelease(&slot->lock);
	job_set(&change, JOB_STATE, CStringGetTextDatum("failed"));
	job_set(&change, JOB_ERROR, CStringGetTextDatum("lease expired"));
	job_set(&change, JOB_FINISHED_AT, TimestampTzGetDatum(c->wall_us));
	job_forget_key(lanes->job);
	end_permit(lanes);
	row_delete(c->leases, lanes->lease);
	job_write(c->jobs, lanes->job, &change);
	note.due_ns = QUOTA_NEVER;
	note.in_flight = -1;
	note.on_abort = note.gone = false;
	job_note(&c->names, &note);
	return STEP_LEFT;
}

/* The locked candidate is ours: tells the flow, before others meet the row. */
static void
take_place(Claimer *c)
{
	JobLanes   *lanes = &c->lanes;
	JournalNote note = job_empty_note(false);

	note.place = quota_steady_of(c->now_ns + c->lease_ns);
	note.due_ns = quota_ns_of_steady(note.place);
	journal_reserve(1);
	LWLockAcquire(&quota_slots[c->slot].lock, LW_EXCLUSIVE);
	journal_claim_job(lanes->id, lanes->returned, lanes->was_running,
					  lanes->returned ? lanes->due_ns : QUOTA_NEVER,
					  lanes->ready_at);
	flow_scan_taken(&c->scan, lanes->returned ? 0 : lanes->id);
	if (c->verdict.permit != 0)
		quota_permits[c->verdict.permit_index].job = lanes->id;
	journal_note(c->flow, &note);
	LWLockRelease(&quota_slots[c->slot].lock);
}

/* Adds the job, as it will be, to the result. */
static void
put_result(Claimer *c)
{
	static const int columns[] = {JOB_ID, JOB_ATTEMPT, JOB_TENANT, JOB_PROVIDER,
	JOB_ENDPOINT, JOB_CLASS, JOB_PAYLOAD, JOB_UNITS, JOB_CONNECTION};
	Datum		values[lengthof(columns) + 2];
	bool		nulls[lengthof(columns) + 2];
	int			n = 0;

	for (; n < lengthof(columns); n++)
		values[n] = slot_getattr(c->lanes.job, columns[n], &nulls[n]);
	values[1] = Int32GetDatum(job_int32(c->lanes.job, JOB_ATTEMPT) + 1);
	values[n] = TimestampTzGetDatum(c->wall_us + c->lease_ns / QUOTA_NS_PER_US);
	nulls[n++] = false;
	values[n] = Int64GetDatum(c->verdict.permit);
	nulls[n] = c->verdict.permit == 0;
	tuplestore_putvalues(c->out->setResult, c->out->setDesc, values, nulls);
}

/* Writes the lease of the locked candidate. */
static void
write_lease(Claimer *c)
{
	JobLanes   *lanes = &c->lanes;
	JobChange	lease = job_change(c->leases);

	job_set(&lease, LEASE_READY_AT,
			TimestampTzGetDatum(quota_steady_of(c->now_ns + c->lease_ns)));
	job_set(&lease, LEASE_STATE, CharGetDatum(LEASE_RUNNING));
	job_set(&lease, LEASE_ATTEMPT,
			Int32GetDatum(job_int32(lanes->job, JOB_ATTEMPT) + 1));
	job_set_null(&lease, LEASE_PERMIT);
	job_set_null(&lease, LEASE_WORKER);
	if (c->verdict.permit != 0)
		job_set(&lease, LEASE_PERMIT, Int64GetDatum(c->verdict.permit));
	if (c->has_worker)
		job_set(&lease, LEASE_WORKER, c->worker);
	if (lanes->returned)
	{
		row_update(c->leases, lanes->lease, lease.values, lease.nulls,
				   lease.replace);
		return;
	}
	job_set(&lease, LEASE_JOB_ID, Int64GetDatum(lanes->id));
	job_set(&lease, LEASE_FLOW, Int64GetDatum(c->names.hash));
	job_set(&lease, LEASE_ORIGINAL_AT,
			TimestampTzGetDatum(job_int64(lanes->job, JOB_CREATED_AT)));
	job_set(&lease, LEASE_CANCEL_REQUESTED, BoolGetDatum(false));
	row_insert(c->leases, lease.values, lease.nulls);
}

/* The locked candidate is claimed. */
static Step
take(Claimer *c)
{
	JobLanes   *lanes = &c->lanes;
	JobChange	change = job_change(c->jobs);

	take_place(c);
	put_result(c);
	end_permit(lanes);
	write_lease(c);
	job_set(&change, JOB_STATE, CStringGetTextDatum("running"));
	job_set(&change, JOB_ATTEMPT,
			Int32GetDatum(job_int32(lanes->job, JOB_ATTEMPT) + 1));
	job_set(&change, JOB_STARTED_AT, TimestampTzGetDatum(c->wall_us));
	job_write(c->jobs, lanes->job, &change);
	if (c->verdict.has_hold)
		credit_hold(c->plan, &c->verdict, lanes->id);
	return STEP_CLAIMED;
}

/* Locks and claims the candidate; STEP_GO_ON when it is not to be had. */
static Step
try_candidate(Claimer *c)
{
	JobLanes   *lanes = &c->lanes;
	bool		own = turn_has_own_terms(c);

	if (is_worn_out(lanes) && c->buried >= MAX_BURIALS)
		return rest(c);
	/* to be buried it need not be allowed to run */
	if ((own || !c->charged) && !is_worn_out(lanes))
	{
		Step		step = turn_charge_candidate(c);

		if (step != STEP_GO_ON)
			return step;
	}
	if (lanes_lock(lanes))
		return is_worn_out(lanes) ? bury(c) : take(c);
	if (own)
		turn_uncharge(c);
	return STEP_GO_ON;
}

/* Searches the flow and claims its oldest ready job. */
static Step
claim_head(Claimer *c)
{
	while (lanes_next(&c->lanes))
	{
		Step		step = try_candidate(c);

		CHECK_FOR_INTERRUPTS();
		if (step != STEP_GO_ON)
			return step;
	}
	return nothing_found(c);
}

/* ---- the call ---- */

/* One try. */
static Step
try_claim(Claimer *c)
{
	Step		step;

	job_refresh(c->slot);
	if (!turn_pick(c))
		return STEP_NOTHING;
	step = turn_charge(c);
	if (step != STEP_GO_ON)
		return step;
	lanes_open(&c->lanes, c->slot, &c->names, &c->scan, c->wall_us);
	step = claim_head(c);
	lanes_close(&c->lanes);
	return step;
}

/* Claims one job; false when none can be had. */
static bool
claim_one(Claimer *c, MemoryContext context)
{
	/* each flow may have to leave the order once, and once more for a burial */
	int			may_leave = (int) quota_shared->flow_table.n_used + MAX_BURIALS;
	int			races = 0;
	int			left = 0;

	c->reclaims = 0;
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

/* Reads the arguments.  Throws 22004, 22023, 42704. */
static int32
read_arguments(FunctionCallInfo fcinfo, Claimer *c)
{
	int32		max_jobs;

	memset(c, 0, sizeof(*c));
	c->asleep_ns = QUOTA_NEVER;
	c->provider = quota_arg_name(fcinfo, 0, "provider", true);
	max_jobs = quota_arg_int32(fcinfo, 1, "max_jobs", 1, MAX_JOBS);
	c->has_worker = !PG_ARGISNULL(2);
	if (c->has_worker)
		c->worker = PG_GETARG_DATUM(2);
	if (!PG_ARGISNULL(3))
		c->asked_lease_ns = job_lease_arg(fcinfo, 3, "lease");
	if (!quota_provider_exists(c->provider))
		quota_error_no_such("provider", c->provider);
	return max_jobs;
}

/* quota_dequeue(provider, max_jobs, worker, lease): see its COMMENT. */
Datum
quota_dequeue(PG_FUNCTION_ARGS)
{
	Claimer		c;
	int32		max_jobs;
	MemoryContext context;

	quota_enter_write("quota_dequeue()");
	InitMaterializedSRF(fcinfo, 0);
	max_jobs = read_arguments(fcinfo, &c);
	quota_change_check_decide(NULL);
	job_load();

	c.out = (ReturnSetInfo *) fcinfo->resultinfo;
	c.slot = quota_slot(MyDatabaseId, quota_catalog()->extension, c.provider);
	c.jobs = row_open(QUOTA_REL_JOBS);
	c.leases = row_open(QUOTA_REL_LEASES);
	lanes_init(&c.lanes, c.jobs, c.leases);
	context = AllocSetContextCreate(CurrentMemoryContext, "quota claim",
									ALLOCSET_DEFAULT_SIZES);
	for (int i = 0; i < max_jobs; i++)
		if (!claim_one(&c, context))
			break;
	MemoryContextDelete(context);
	row_close(c.leases);
	row_close(c.jobs);
	return (Datum) 0;
}
