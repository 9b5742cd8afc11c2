/*
 * job_row.c
 *		Reading and writing rows of quota.jobs and quota.leases.
 *
 * Rows are written as the caller, not as the extension's owner: no rights are
 * checked on this path, and a user's own trigger on quota.jobs must not run with
 * the owner's.
 */
#include "job.h"

#include "args.h"
#include "error.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

/* A row that can't be found may be moving: a dirty scan is repeated. */
#define FIND_TRIES 3

/* Longest lease: a dead worker's job is not kept from others for longer. */
#define MAX_LEASE_NS (24 * 3600 * QUOTA_NS_PER_S)

/* The row that job_write() is about to update; change NULL = none. */
typedef struct Writing
{
	int64		id;
	const RowValues *change;
} Writing;

static Writing writing;

/* ---- columns ---- */

/* The job is in this state. */
bool
job_state_is(TupleTableSlot *job, const char *state)
{
	return row_text_is(job, JOB_STATE, state);
}

/* The job waits for its first attempt, and for nothing else. */
bool
job_is_fresh(TupleTableSlot *job)
{
	return job_state_is(job, "queued") && row_int32(job, JOB_ATTEMPT) == 0;
}

/* A name into a fixed buffer, "" for null.  Not by row_text(), which allocates. */
static void
copy_name(TupleTableSlot *job, int column, char out[QUOTA_NAME_LEN])
{
	bool		isnull;
	Datum		value = slot_getattr(job, column, &isnull);

	if (isnull)
		out[0] = '\0';
	else
		text_to_cstring_buffer(DatumGetTextPP(value), out, QUOTA_NAME_LEN);
}

/* What flow the job belongs to. */
void
job_names_of(TupleTableSlot *job, JobNames *names)
{
	copy_name(job, JOB_TENANT, names->tenant);
	copy_name(job, JOB_PROVIDER, names->provider);
	copy_name(job, JOB_ENDPOINT, names->endpoint);
	copy_name(job, JOB_CLASS, names->class_name);
	names->hash = row_int64(job, JOB_FLOW);
}

/* The call that a job of these names makes. */
QuotaCall
job_call_of(const JobNames *names)
{
	QuotaCall	call = {0};

	call.tenant = names->tenant;
	call.provider = names->provider;
	call.endpoint = names->endpoint[0] ? names->endpoint : NULL;
	call.class_name = names->class_name;
	return call;
}

/* The call of this very job: also for limits by what it alone names. */
QuotaCall
job_call_with_names(TupleTableSlot *job, const JobNames *names)
{
	QuotaCall	call = job_call_of(names);

	call.user = row_text(job, JOB_USER);
	call.connection = row_text(job, JOB_CONNECTION);
	call.resource = row_text(job, JOB_RESOURCE);
	return call;
}

/* It has units of its own, or names what its flow does not. */
bool
job_has_own_terms(TupleTableSlot *job)
{
	return !slot_attisnull(job, JOB_UNITS) ||
		!slot_attisnull(job, JOB_USER) ||
		!slot_attisnull(job, JOB_CONNECTION) ||
		!slot_attisnull(job, JOB_RESOURCE);
}

/* False for a job of another flow whose hash happens to be the same. */
bool
job_has_names(TupleTableSlot *job, const JobNames *names)
{
	return row_text_is(job, JOB_TENANT, names->tenant) &&
		row_text_is(job, JOB_ENDPOINT, names->endpoint) &&
		row_text_is(job, JOB_CLASS, names->class_name) &&
		row_text_is(job, JOB_PROVIDER, names->provider);
}

/* ---- finding ---- */

/* Puts the row with this id into slot.  Never waits. */
JobFind
job_find(RowTable *table, QuotaRelation pkey, int64 id, TupleTableSlot *slot)
{
	for (int try = 0; try < FIND_TRIES; try++)
	{
		RowScan    *scan = row_scan_id(table, pkey, id);
		bool		in_progress = false;
		bool		seen = false;
		bool		found = false;

		while (!found && row_scan_next(scan, slot, &in_progress))
		{
			seen = true;
			found = !in_progress;
		}
		row_scan_end(scan);
		if (found)
			return JOB_FOUND;
		if (seen)
			return JOB_IN_PROGRESS;
	}
	return JOB_NONE;
}

/* 55000: a running job can't be taken from its worker */
void
job_error_running(int64 id)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("job %lld is running", (long long) id),
			 errhint("Its worker ends it with quota_complete or quota_fail, or its lease runs out.")));
	pg_unreachable();
}

/* ---- writing ---- */

/*
 * Our trigger's question about an UPDATE of the job: what job_write() changes, if
 * it comes from there, else NULL.  Lets one row pass: what other triggers do to
 * the job meanwhile is not ours.
 */
const RowValues *
job_write_take(int64 id)
{
	const RowValues *change = writing.id == id ? writing.change : NULL;

	if (change)
		writing.change = NULL;
	return change;
}

/* Updates a job row that row_lock() has locked.  Throws what triggers throw. */
void
job_write(RowTable *jobs, TupleTableSlot *job, const RowValues *change)
{
	Writing		outer = writing;	/* a trigger of its may have called us */

	writing.id = row_int64(job, JOB_ID);
	writing.change = change;
	PG_TRY();
	{
		row_update(jobs, job, change);
	}
	PG_FINALLY();
	{
		writing = outer;
	}
	PG_END_TRY();
}

/* Inserts the row of quota.leases; says in the note when to look at it. */
void
job_insert_lease(RowTable *leases, const JobLease *lease, int64 now_ns,
				 JournalNote *note)
{
	RowValues	row = row_values(leases);

	row_set(&row, LEASE_JOB_ID, Int64GetDatum(lease->id));
	row_set(&row, LEASE_FLOW, Int64GetDatum(lease->flow));
	row_set(&row, LEASE_READY_AT, TimestampTzGetDatum(lease->ready_at));
	row_set(&row, LEASE_STATE, CharGetDatum(lease->state));
	row_set(&row, LEASE_ATTEMPT, Int32GetDatum(lease->attempt));
	row_set(&row, LEASE_ORIGINAL_AT, TimestampTzGetDatum(lease->original_at));
	row_set(&row, LEASE_CANCEL_REQUESTED, BoolGetDatum(false));
	row_insert(leases, &row);
	note->place = lease->ready_at;
	note->due_ns = job_due_ns(lease->state, lease->ready_at, now_ns,
							  quota_wall_us());
}

/* The length of a lease in nanoseconds.  Throws 22004, 22023. */
int64
job_lease_arg(FunctionCallInfo fcinfo, int i, const char *name)
{
	int64		ns = quota_arg_interval(fcinfo, i, name);

	if (ns > MAX_LEASE_NS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" is out of range", name),
				 errdetail("A lease is at most 24 hours long."),
				 errhint("Extend it with quota_extend_job.")));
	return ns;
}
