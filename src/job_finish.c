/*
 * job_finish.c
 *		How an attempt ends: quota_complete(), quota_fail().  The fence and the
 *		order of locks and notes are those of job_hold.h.
 */
#include "job_hold.h"

#include "args.h"
#include "catalog/pg_type.h"
#include "error.h"
#include "job_retry.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(quota_complete);
PG_FUNCTION_INFO_V1(quota_complete_many);
PG_FUNCTION_INFO_V1(quota_fail);

/* ---- complete ---- */

/* The attempt has succeeded.  Throws as held_running() does. */
static void
complete(Held *h, int64 id, int32 attempt, bool has_result, Datum result,
		 const QuotaUnits *units)
{
	JobChange	change = job_change(h->jobs);

	held_running(h, id, attempt);
	held_give_back(h, true, units, 0, QUOTA_NEVER, 1);
	if (has_result)
		job_set(&change, JOB_RESULT, result);
	row_delete(h->leases, h->lease);
	held_write_over(h, "succeeded", &change);
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
	held_running(&h, id, attempt);

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
		held_give_back(&h, billed, NULL, 1,
				  quota_ns_of_steady(quota_steady_of(h.now_ns + delay_ns)), 0);
		write_retry(&h, delay_ns, &change);
	}
	else
	{
		held_give_back(&h, billed, NULL, 0, QUOTA_NEVER, 0);
		row_delete(h.leases, h.lease);
		held_write_over(&h, "failed", &change);
	}
	held_close(&h);
	PG_RETURN_TEXT_P(cstring_to_text(retry ? "queued" : "failed"));
}
