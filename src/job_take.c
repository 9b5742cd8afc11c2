/*
 * job_take.c
 *		What a claim writes: the job's rows, and the row of the result.
 *
 * The candidate is locked.  The flow is told under the slot's lock before the rows
 * are written, so that others don't meet the job while it still looks ready.
 */
#include "job_claim.h"

#include "credit.h"
#include "job_batch.h"
#include "job_deadline.h"
#include "job_history.h"
#include "job_where.h"
#include "permit.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

/* See job_claim.h. */
void
claim_end_permit(const JobLanes *lanes)
{
	if (lanes->was_running)
		batch_end_lost(lanes->lease);
}

/* When its lease ends; all jobs of a batch have the end of the first. */
static void
set_end(Claimer *c)
{
	if (c->role == QUOTA_BATCH_NEXT)
		return;
	c->lease_end = quota_steady_of(c->now_ns + c->lease_ns);
	c->lease_until = c->wall_us + c->lease_ns / QUOTA_NS_PER_US;
}

/* The claimed candidate is a job of a batch; slot lock held. */
static void
join_batch(Claimer *c)
{
	if (c->role == QUOTA_BATCH_FIRST)
	{
		c->batch = c->verdict.batch;
		c->batch_index = c->verdict.batch_index;
	}
	if (c->role != QUOTA_BATCH_NONE && c->batch != 0)
		permit_batch_join(c->batch_index);
}

/* The locked candidate is ours: tells the flow, before others meet the row. */
static void
take_place(Claimer *c)
{
	JobLanes   *lanes = &c->lanes;
	JournalNote note = job_empty_note(false);
	int64		since_ns = turn_since(c);

	note.place = c->lease_end;
	note.due_ns = quota_ns_of_steady(note.place);
	journal_reserve(1);
	quota_lock(&quota_slots[c->slot].lock);
	journal_claim_job(lanes->id, lanes->returned, lanes->was_running,
					  lanes->returned ? lanes->due_ns : QUOTA_NEVER,
					  lanes->ready_at, since_ns);
	flow_scan_taken(&c->scan, lanes->returned ? 0 : lanes->id);
	if (c->verdict.permit != 0)
		quota_permits[c->verdict.permit_index].job = lanes->id;
	join_batch(c);
	journal_note(c->flow, &note);
	LWLockRelease(&quota_slots[c->slot].lock);
}

/* Adds the job, as it will be, to the result; the columns of quota_job. */
static void
put_result(Claimer *c)
{
	static const int columns[] = {JOB_ID, JOB_ATTEMPT, JOB_TENANT, JOB_PROVIDER,
		JOB_ENDPOINT, JOB_CLASS, JOB_PAYLOAD, JOB_UNITS, JOB_USER, JOB_CONNECTION,
	JOB_RESOURCE};
	Datum		values[lengthof(columns) + 4];
	bool		nulls[lengthof(columns) + 4];
	int			n = 0;

	for (; n < lengthof(columns); n++)
		values[n] = slot_getattr(c->lanes.job, columns[n], &nulls[n]);
	values[1] = Int32GetDatum(row_int32(c->lanes.job, JOB_ATTEMPT) + 1);
	values[n] = TimestampTzGetDatum(c->lease_until);
	nulls[n++] = false;
	values[n] = Int64GetDatum(c->verdict.permit);
	nulls[n++] = c->verdict.permit == 0;
	values[n] = BoolGetDatum(false);	/* cancel_requested */
	nulls[n++] = false;
	values[n] = Int64GetDatum(c->same_as);
	nulls[n++] = c->same_as == 0;
	tuplestore_putvalues(c->out->setResult, c->out->setDesc, values, nulls);
}

/* Writes the lease of the locked candidate. */
static void
write_lease(Claimer *c)
{
	JobLanes   *lanes = &c->lanes;
	RowValues	lease = row_values(c->leases);

	row_set(&lease, LEASE_READY_AT, TimestampTzGetDatum(c->lease_end));
	row_set(&lease, LEASE_STATE, CharGetDatum(LEASE_RUNNING));
	row_set(&lease, LEASE_CLAIMED_AT,
			TimestampTzGetDatum(quota_steady_of(c->now_ns)));
	row_set(&lease, LEASE_ATTEMPT,
			Int32GetDatum(row_int32(lanes->job, JOB_ATTEMPT) + 1));
	row_set_nonzero(&lease, LEASE_PERMIT, c->verdict.permit);
	row_set_nonzero(&lease, LEASE_BATCH,
					c->role == QUOTA_BATCH_NONE ? 0 : c->batch);
	if (c->has_worker)
		row_set(&lease, LEASE_WORKER, c->worker);
	else
		row_set_null(&lease, LEASE_WORKER);
	if (lanes->returned)
	{
		row_update(c->leases, lanes->lease, &lease);
		return;
	}
	row_set(&lease, LEASE_JOB_ID, Int64GetDatum(lanes->id));
	row_set(&lease, LEASE_FLOW, Int64GetDatum(c->names.hash));
	row_set(&lease, LEASE_ORIGINAL_AT,
			TimestampTzGetDatum(row_int64(lanes->job, JOB_CREATED_AT)));
	row_set(&lease, LEASE_CANCEL_REQUESTED, BoolGetDatum(false));
	row_insert(c->leases, &lease);
}

/* See job_claim.h. */
Step
claim_take(Claimer *c)
{
	JobLanes   *lanes = &c->lanes;
	RowValues	change = row_values(c->jobs);

	set_end(c);
	if (c->role == QUOTA_BATCH_FIRST)
		batch_begin(c);
	if (c->role != QUOTA_BATCH_NONE && c->same_as == 0)
		batch_add_call(c);
	take_place(c);
	put_result(c);
	claim_end_permit(lanes);
	if (lanes->was_running)
		claim_note_expired(c, &change, HAPPENED_EXPIRED);
	job_deadline_touched(lanes->job);
	write_lease(c);
	row_set(&change, JOB_STATE, CStringGetTextDatum("running"));
	row_set(&change, JOB_ATTEMPT,
			Int32GetDatum(row_int32(lanes->job, JOB_ATTEMPT) + 1));
	row_set(&change, JOB_STARTED_AT, TimestampTzGetDatum(c->wall_us));
	job_write(c->jobs, lanes->job, &change);
	where_claimed(lanes->id, row_written_at(c->jobs), row_written_at(c->leases));
	if (c->verdict.has_hold)
		credit_hold(c->plan, &c->verdict, lanes->id);
	return STEP_CLAIMED;
}
