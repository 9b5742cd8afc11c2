/*
 * job_enqueue.c
 *		quota_enqueue(): an INSERT into quota.jobs that finds the unfinished job
 *		of a dedupe key instead of failing.
 *
 * The key is looked up first, without waiting.  If it is free the job is
 * inserted in a subtransaction, where quota.dedupe's primary key decides between
 * sessions: it waits for an open transaction that has just used the key.
 *
 * To call it is enough: whoever does needs no right to the table.  The row is
 * written as the caller, since users' triggers on quota.jobs run with it.
 */
#include "job.h"

#include "access/htup_details.h"
#include "args.h"
#include "catalog.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "subxact.h"
#include "utils/fmgroids.h"

PG_FUNCTION_INFO_V1(quota_enqueue);

/* Rounds of looking and inserting; each time another job came and went. */
#define MAX_ROUNDS 100

#define ENQUEUE_NARGS 10
#define ENQUEUE_DEDUPE 7		/* position of dedupe_key */

/* The unfinished job with this key; false when there is none (yet). */
static bool
find_key(Datum provider, Datum dedupe_key, int64 *id)
{
	RowTable   *dedupe = row_open(QUOTA_REL_DEDUPE);
	TupleTableSlot *slot = row_slot(dedupe);
	ScanKeyData keys[2];
	RowScan    *scan;
	bool		in_progress;
	bool		found = false;

	ScanKeyInit(&keys[0], DEDUPE_PROVIDER, BTEqualStrategyNumber, F_TEXTEQ,
				provider);
	ScanKeyInit(&keys[1], DEDUPE_KEY, BTEqualStrategyNumber, F_TEXTEQ,
				dedupe_key);
	scan = row_scan_begin(dedupe, QUOTA_REL_DEDUPE_PKEY, 2, keys);
	while (!found && row_scan_next(scan, slot, &in_progress))
	{
		if (in_progress)
			continue;
		*id = job_int64(slot, DEDUPE_JOB_ID);
		found = true;
	}
	row_scan_end(scan);
	row_close(dedupe);
	return found;
}

/* Inserts the job; no rights are asked.  Throws what the triggers throw. */
static int64
insert_job(FunctionCallInfo fcinfo)
{
	static const int columns[ENQUEUE_NARGS] = {
		JOB_TENANT, JOB_PROVIDER, JOB_PAYLOAD, JOB_ENDPOINT, JOB_CLASS, JOB_UNITS,
	JOB_RUN_AT, JOB_DEDUPE_KEY, JOB_CONNECTION, JOB_MAX_ATTEMPTS};
	RowTable   *jobs = row_open(QUOTA_REL_JOBS);
	JobChange	job = job_change(jobs);
	int64		id;

	for (int i = 0; i < ENQUEUE_NARGS; i++)
		if (!PG_ARGISNULL(i))
			job_set(&job, columns[i], PG_GETARG_DATUM(i));
	row_fill_defaults(jobs, job.values, job.nulls, job.replace);
	id = DatumGetInt64(job.values[JOB_ID - 1]);
	row_insert(jobs, job.values, job.nulls);
	row_close(jobs);
	return id;
}

/* A call of quota_enqueue(), and the job it made. */
typedef struct Insertion
{
	FunctionCallInfo fcinfo;
	int64		id;
} Insertion;

/* Inserts the job; for subxact_try(). */
static void
insert(void *arg)
{
	Insertion  *insertion = arg;

	insertion->id = insert_job(insertion->fcinfo);
}

/*
 * Inserts the job in a subtransaction; false when another session's job with
 * the same key got in first, after waiting for that session if need be.
 */
static bool
try_insert_job(FunctionCallInfo fcinfo, int64 *id)
{
	Insertion	insertion = {fcinfo, 0};
	ErrorData  *error = subxact_try(insert, &insertion);

	if (error && (error->sqlerrcode != ERRCODE_UNIQUE_VIOLATION ||
				  error->constraint_name == NULL ||
				  strcmp(error->constraint_name, "dedupe_pkey") != 0))
		ReThrowError(error);
	*id = insertion.id;
	return error == NULL;
}

/* The job of the key, which is inserted unless it exists. */
static int64
enqueue_once(FunctionCallInfo fcinfo, bool *created)
{
	for (int round = 0; round < MAX_ROUNDS; round++)
	{
		int64		id;

		*created = false;
		if (find_key(PG_GETARG_DATUM(1), PG_GETARG_DATUM(ENQUEUE_DEDUPE), &id))
			return id;
		*created = true;
		if (try_insert_job(fcinfo, &id))
			return id;
		CHECK_FOR_INTERRUPTS();
	}
	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("dedupe key is in constant use by other sessions")));
	return 0;
}

/* quota_enqueue(...) RETURNS quota_enqueued; see the SQL comment. */
Datum
quota_enqueue(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	Datum		values[2];
	bool		nulls[2] = {false, false};
	bool		created = true;
	int64		id;

	quota_enter_write("quota_enqueue()");
	quota_arg_name(fcinfo, 0, "tenant", true);
	quota_arg_name(fcinfo, 1, "provider", true);
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	job_load();

	if (PG_ARGISNULL(ENQUEUE_DEDUPE))
		id = insert_job(fcinfo);
	else
		id = enqueue_once(fcinfo, &created);
	values[0] = Int64GetDatum(id);
	values[1] = BoolGetDatum(created);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}
