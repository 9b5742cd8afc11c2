/*
 * job_finish.c
 *		How a job leaves the hands of its worker: quota_complete(), quota_fail(),
 *		quota_extend_job(); and quota_cancel().
 *
 * (id, attempt) is the fence.  The row in quota.leases says whether that attempt
 * still runs; it is locked first, then the job, never waiting: a row in another
 * transaction's hands is 55P03.  A lease whose end has passed is over even if
 * nobody has claimed the job yet.
 *
 * Every function notes the flow before it writes, for the case of a rollback: a
 * scan may have passed the lease while it was in our hands.  What the job gives
 * back (its place in flight, its permit) acts at commit.
 */
#include "job.h"

#include "args.h"
#include "catalog.h"
#include "catalog/pg_type.h"
#include "decide.h"
#include "error.h"
#include "job_retry.h"
#include "miscadmin.h"
#include "permit.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(quota_complete);
PG_FUNCTION_INFO_V1(quota_complete_many);
PG_FUNCTION_INFO_V1(quota_fail);
PG_FUNCTION_INFO_V1(quota_extend_job);
PG_FUNCTION_INFO_V1(quota_cancel);

/* A job and its lease, both locked. */
typedef struct Held
{
	RowTable   *jobs;
	RowTable   *leases;
	TupleTableSlot *job;
	TupleTableSlot *lease;
	int64		id;
	JobNames	names;
	int64		now_ns;
} Held;

/* Opens the tables.  Throws. */
static void
held_open(Held *h)
{
	job_load();
	h->jobs = row_open(QUOTA_REL_JOBS);
	h->leases = row_open(QUOTA_REL_LEASES);
	h->job = row_slot(h->jobs);
	h->lease = row_slot(h->leases);
}

/* Closes them; locks stay until the transaction ends. */
static void
held_close(Held *h)
{
	row_close(h->leases);
	row_close(h->jobs);
}

/* 42704 for a job that isn't there, else 55000. */
static void
no_lease(Held *h, int64 id, int32 attempt)
{
	if (job_find(h->jobs, QUOTA_REL_JOBS_PKEY, id, h->job) == JOB_NONE)
		quota_error_no_such("job", psprintf("%lld", (long long) id));
	quota_error_stale_lease(id, attempt);
}

/* Locks the row found, or throws 55P03. */
static void
lock_row(RowTable *table, TupleTableSlot *slot, int64 id)
{
	if (row_lock(table, slot) != ROW_LOCKED)
		quota_error_job_busy(id);
}

/* Finds and locks the job; 42704 or 55P03. */
static void
lock_job(Held *h, int64 id)
{
	switch (job_find(h->jobs, QUOTA_REL_JOBS_PKEY, id, h->job))
	{
		case JOB_NONE:
			quota_error_no_such("job", psprintf("%lld", (long long) id));
			break;
		case JOB_IN_PROGRESS:
			quota_error_job_busy(id);
			break;
		case JOB_FOUND:
			break;
	}
	lock_row(h->jobs, h->job, id);
	h->id = id;
	job_names_of(h->job, &h->names);
}

/*
 * Notes what a scan may miss until this transaction has ended: if it commits the
 * lease is gone, or has got a later end.
 */
static void
note_lease(Held *h)
{
	JournalNote note = job_empty_note(true);

	note.place = job_int64(h->lease, LEASE_READY_AT);
	note.due_ns = job_due_ns(job_char(h->lease, LEASE_STATE), note.place,
							 h->now_ns, quota_wall_us());
	note.gone = true;
	job_note(&h->names, &note);
}

/* Locks a running attempt, or throws 42704, 55000, 55P03. */
static void
hold_running(Held *h, int64 id, int32 attempt)
{
	switch (job_find(h->leases, QUOTA_REL_LEASES_PKEY, id, h->lease))
	{
		case JOB_NONE:
			no_lease(h, id, attempt);
			break;
		case JOB_IN_PROGRESS:
			quota_error_job_busy(id);
			break;
		case JOB_FOUND:
			break;
	}
	lock_row(h->leases, h->lease, id);
	h->now_ns = quota_now_ns();
	if (job_char(h->lease, LEASE_STATE) != LEASE_RUNNING ||
		job_int32(h->lease, LEASE_ATTEMPT) != attempt ||
		job_int64(h->lease, LEASE_READY_AT) <= quota_steady_of(h->now_ns))
		quota_error_stale_lease(id, attempt);
	lock_job(h, id);
	if (!job_state_is(h->job, "running") ||
		job_int32(h->job, JOB_ATTEMPT) != attempt)
		quota_error_stale_lease(id, attempt);
	note_lease(h);
}

/* What the attempt held is settled; at commit it is in flight no more. */
static void
give_back(Held *h, bool billed, const QuotaUnits *units, int64 depth,
		  int64 due_ns, int64 completed)
{
	JournalNote note = job_empty_note(false);
	int64		permit = job_permit(h->lease);

	note.depth = depth;
	note.in_flight = -1;
	note.due_ns = due_ns;
	if (due_ns != QUOTA_NEVER)
		note.place = quota_steady_of(due_ns);
	note.completed = completed;
	if (permit != 0)
		quota_settle_permit(permit, billed, units);
	if (row_is_ours(h->lease))
		journal_claim_spent(h->id);
	job_note(&h->names, &note);
}

/* The final state of the job. */
static void
write_over(Held *h, const char *state, JobChange *change)
{
	job_set(change, JOB_STATE, CStringGetTextDatum(state));
	job_set(change, JOB_FINISHED_AT, TimestampTzGetDatum(quota_wall_us()));
	job_forget_key(h->job);
	job_write(h->jobs, h->job, change);
}

/* ---- complete ---- */

/* The attempt has succeeded.  Throws as hold_running() does. */
static void
complete(Held *h, int64 id, int32 attempt, bool has_result, Datum result,
		 const QuotaUnits *units)
{
	JobChange	change = job_change(h->jobs);

	hold_running(h, id, attempt);
	give_back(h, true, units, 0, QUOTA_NEVER, 1);
	if (has_result)
		job_set(&change, JOB_RESULT, result);
	row_delete(h->leases, h->lease);
	write_over(h, "succeeded", &change);
}

/* quota_complete(id, attempt, result, units): see its COMMENT. */
Datum
quota_complete(PG_FUNCTION_ARGS)
{
	Held		h;
	int64		id;
	int32		attempt;
	QuotaUnits *units;

	quota_enter_write("quota_complete()");
	id = quota_arg_int64(fcinfo, 0, "id", PG_INT64_MIN, PG_INT64_MAX);
	attempt = quota_arg_int32(fcinfo, 1, "attempt", PG_INT32_MIN, PG_INT32_MAX);
	units = quota_arg_units(fcinfo, 3);
	held_open(&h);
	complete(&h, id, attempt, !PG_ARGISNULL(2), PG_GETARG_DATUM(2), units);
	held_close(&h);
	PG_RETURN_VOID();
}

/* Elements of an array argument; throws for NULL and for NULLs in it. */
static int
array_arg(FunctionCallInfo fcinfo, int i, const char *name, Oid type,
		  int16 size, Datum **elements)
{
	bool	   *nulls;
	int			n;

	if (PG_ARGISNULL(i))
		quota_error_null(name);
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(i), type, size, true,
					  size == 8 ? TYPALIGN_DOUBLE : TYPALIGN_INT,
					  elements, &nulls, &n);
	for (int k = 0; k < n; k++)
		if (nulls[k])
			quota_error_null(name);
	return n;
}

/* quota_complete_many(ids, attempts): see its COMMENT. */
Datum
quota_complete_many(PG_FUNCTION_ARGS)
{
	Held		h;
	Datum	   *ids;
	Datum	   *attempts;
	int			n;
	MemoryContext context;
	MemoryContext old;

	quota_enter_write("quota_complete_many()");
	n = array_arg(fcinfo, 0, "ids", INT8OID, 8, &ids);
	if (array_arg(fcinfo, 1, "attempts", INT4OID, 4, &attempts) != n)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("arguments \"ids\" and \"attempts\" must have the same number of elements")));
	held_open(&h);
	context = AllocSetContextCreate(CurrentMemoryContext, "quota complete",
									ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(context);
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		complete(&h, DatumGetInt64(ids[i]), DatumGetInt32(attempts[i]), false,
				 (Datum) 0, NULL);
		MemoryContextReset(context);
	}
	MemoryContextSwitchTo(old);
	held_close(&h);
	PG_RETURN_VOID();
}

/* ---- fail ---- */

/* The job waits for its next attempt. */
static void
write_retry(Held *h, int64 delay_ns, JobChange *change)
{
	JobChange	lease = job_change(h->leases);

	job_set(&lease, LEASE_STATE, CharGetDatum(LEASE_RETRY));
	job_set(&lease, LEASE_READY_AT,
			TimestampTzGetDatum(quota_steady_of(h->now_ns + delay_ns)));
	job_set_null(&lease, LEASE_PERMIT);
	job_set_null(&lease, LEASE_WORKER);
	row_update(h->leases, h->lease, lease.values, lease.nulls, lease.replace);
	job_set(change, JOB_STATE, CStringGetTextDatum("queued"));
	job_write(h->jobs, h->job, change);
}

/* quota_fail(id, attempt, error, status, headers, billed, retry): see its
 * COMMENT. */
Datum
quota_fail(PG_FUNCTION_ARGS)
{
	Held		h;
	JobChange	change;
	int64		id;
	int32		attempt;
	bool		billed;
	bool		retry;
	char	   *error;
	int64		delay_ns;

	quota_enter_write("quota_fail()");
	id = quota_arg_int64(fcinfo, 0, "id", PG_INT64_MIN, PG_INT64_MAX);
	attempt = quota_arg_int32(fcinfo, 1, "attempt", PG_INT32_MIN, PG_INT32_MAX);
	error = quota_arg_text(fcinfo, 2, "error", true);
	billed = quota_arg_bool(fcinfo, 5, "billed");
	retry = quota_arg_bool(fcinfo, 6, "retry");
	held_open(&h);
	hold_running(&h, id, attempt);

	change = job_change(h.jobs);
	job_set(&change, JOB_ERROR, CStringGetTextDatum(error));
	if (!PG_ARGISNULL(3))
		job_set(&change, JOB_STATUS, PG_GETARG_DATUM(3));
	retry = retry && attempt < job_int32(h.job, JOB_MAX_ATTEMPTS);
	if (retry)
	{
		QuotaCall	call = job_call_of(&h.names);

		delay_ns = job_retry_delay(&call, attempt,
								   PG_ARGISNULL(4) ? NULL : PG_GETARG_JSONB_P(4));
		give_back(&h, billed, NULL, 1,
				  quota_ns_of_steady(quota_steady_of(h.now_ns + delay_ns)), 0);
		write_retry(&h, delay_ns, &change);
	}
	else
	{
		give_back(&h, billed, NULL, 0, QUOTA_NEVER, 0);
		row_delete(h.leases, h.lease);
		write_over(&h, "failed", &change);
	}
	held_close(&h);
	PG_RETURN_TEXT_P(cstring_to_text(retry ? "queued" : "failed"));
}

/* ---- extend ---- */

/* The permit lives as long as the lease. */
static void
extend_permit(Held *h, int64 expires_ns)
{
	int64		permit = job_permit(h->lease);
	uint32		index;

	if (permit == 0)
		return;
	journal_reserve(1);
	index = permit_lock(permit, MyDatabaseId, quota_catalog()->extension);
	if (index == QUOTA_NO_INDEX)
		return;
	permit_extend(index, expires_ns, quota_now_ns());
	permit_unlock(index);
}

/* quota_extend_job(id, attempt, by): see its COMMENT. */
Datum
quota_extend_job(PG_FUNCTION_ARGS)
{
	Held		h;
	int64		id;
	int32		attempt;
	int64		end_ns;
	JournalNote note = job_empty_note(false);

	quota_enter_write("quota_extend_job()");
	id = quota_arg_int64(fcinfo, 0, "id", PG_INT64_MIN, PG_INT64_MAX);
	attempt = quota_arg_int32(fcinfo, 1, "attempt", PG_INT32_MIN, PG_INT32_MAX);
	end_ns = job_lease_arg(fcinfo, 2, "by");
	held_open(&h);
	hold_running(&h, id, attempt);

	end_ns = Max(h.now_ns + end_ns,
				 quota_ns_of_steady(job_int64(h.lease, LEASE_READY_AT)));
	end_ns = quota_ns_of_steady(quota_steady_of(end_ns));
	note.due_ns = end_ns;
	note.place = quota_steady_of(end_ns);
	extend_permit(&h, end_ns);
	{
		JobChange	lease = job_change(h.leases);

		job_set(&lease, LEASE_READY_AT,
				TimestampTzGetDatum(quota_steady_of(end_ns)));
		row_update(h.leases, h.lease, lease.values, lease.nulls, lease.replace);
	}
	job_note(&h.names, &note);
	held_close(&h);
	/* rounded up, as lease_until of the claim was */
	PG_RETURN_TIMESTAMPTZ(quota_wall_us() +
						  (end_ns - h.now_ns + QUOTA_NS_PER_US - 1) / QUOTA_NS_PER_US);
}

/* ---- cancel ---- */

/* Locks the row in quota.leases of a waiting job; 55000 when it is running. */
static void
hold_waiting(Held *h)
{
	if (job_find(h->leases, QUOTA_REL_LEASES_PKEY, h->id, h->lease) != JOB_FOUND)
		quota_error_job_busy(h->id);
	lock_row(h->leases, h->lease, h->id);
	if (job_char(h->lease, LEASE_STATE) == LEASE_RUNNING &&
		job_int64(h->lease, LEASE_READY_AT) > quota_steady_of(h->now_ns))
		job_error_running(h->id);
	note_lease(h);
}

/* What the attempt of an expired lease held. */
static void
end_permit(Held *h)
{
	int64		permit = job_permit(h->lease);

	if (permit != 0)
		permit_end(permit);
}

/* Takes the locked job out of the queue. */
static void
cancel(Held *h)
{
	bool		fresh = job_state_is(h->job, "queued") &&
		job_int32(h->job, JOB_ATTEMPT) == 0;
	bool		running = job_state_is(h->job, "running");
	JobChange	change = job_change(h->jobs);
	JournalNote note = job_empty_note(true);

	if (fresh)
	{
		note.lo = note.hi = h->id;
		job_note(&h->names, &note);
	}
	else
	{
		hold_waiting(h);
		end_permit(h);
		row_delete(h->leases, h->lease);
	}
	write_over(h, "cancelled", &change);
	note.lo = 1;
	note.hi = 0;
	note.on_abort = false;
	note.depth = running ? 0 : -1;
	note.in_flight = running ? -1 : 0;
	job_note(&h->names, &note);
}

/* quota_cancel(id): see its COMMENT. */
Datum
quota_cancel(PG_FUNCTION_ARGS)
{
	Held		h;
	int64		id;
	bool		waiting;

	quota_enter_write("quota_cancel()");
	id = quota_arg_int64(fcinfo, 0, "id", PG_INT64_MIN, PG_INT64_MAX);
	held_open(&h);
	lock_job(&h, id);
	h.now_ns = quota_now_ns();
	waiting = job_state_is(h.job, "queued") ||
		job_state_is(h.job, "scheduled") || job_state_is(h.job, "running");
	if (waiting)
		cancel(&h);
	held_close(&h);
	PG_RETURN_BOOL(waiting);
}
