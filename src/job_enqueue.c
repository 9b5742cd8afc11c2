/*
 * job_enqueue.c
 *		quota_enqueue(): an INSERT into quota.jobs that answers instead of failing
 *		when the dedupe key has an unfinished job or the queue is full.
 *
 * The key is looked up first, without waiting.  If it is free the job is
 * inserted in a subtransaction, where quota.dedupe's primary key decides between
 * sessions: it waits for an open transaction that has just used the key.
 *
 * Where the queue is bounded the place is taken before anything is written, so
 * that a refusal leaves nothing behind, not even a transaction id.
 *
 * To call it is enough: whoever does needs no right to the table.  The row is
 * written as the caller, since users' triggers on quota.jobs run with it.
 */
#include "job.h"

#include "access/htup_details.h"
#include "args.h"
#include "catalog.h"
#include "funcapi.h"
#include "job_dedupe.h"
#include "miscadmin.h"
#include "place.h"
#include "subxact.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(quota_enqueue);

/* Rounds of looking and inserting; each time another job came and went. */
#define MAX_ROUNDS 100

/* Columns of the arguments, in their order. */
static const int columns[] = {
	JOB_TENANT, JOB_PROVIDER, JOB_PAYLOAD, JOB_ENDPOINT, JOB_CLASS, JOB_UNITS,
	JOB_RUN_AT, JOB_START_BEFORE, JOB_DEDUPE_KEY, JOB_USER, JOB_CONNECTION,
	JOB_RESOURCE, JOB_MAX_ATTEMPTS
};
#define ENQUEUE_DEDUPE 8		/* position of dedupe_key, */
#define ENQUEUE_MAX_ATTEMPTS 12 /* and of max_attempts */

/* A call, and what came of it. */
typedef struct Enqueue
{
	FunctionCallInfo fcinfo;
	JobNames	names;
	int64		id;
	const char *reason;			/* of quota_enqueued */
	PlaceRefusal refusal;		/* queue_full */
} Enqueue;

/* Inserts the job; no rights are asked.  Throws what the triggers throw. */
static void
insert_job(void *arg)
{
	Enqueue    *e = arg;
	FunctionCallInfo fcinfo = e->fcinfo;
	RowTable   *jobs = row_open(QUOTA_REL_JOBS);
	RowValues	job = row_values(jobs);

	for (int i = 0; i < lengthof(columns); i++)
		if (!PG_ARGISNULL(i))
			row_set(&job, columns[i], PG_GETARG_DATUM(i));
	row_fill_defaults(jobs, &job);
	e->id = DatumGetInt64(job.values[JOB_ID - 1]);
	row_insert(jobs, &job);
	row_close(jobs);
	e->reason = "ok";
}

/* Inserts the job, unless the queue is full. */
static void
enqueue(void *arg)
{
	Enqueue    *e = arg;
	const QuotaJobRules *rules = known_rules(known_flow_of(&e->names));

	/* the trigger will say what is missing */
	if (rules->missing || !rules->bounded)
		insert_job(e);
	else if (place_take(&e->names, &e->refusal))
		place_insert(&e->names, insert_job, e);
	else
		e->reason = "queue_full";
}

/*
 * The same in a subtransaction; false when another session's job with the same key
 * got in first, after waiting for that session if need be.
 */
static bool
try_enqueue(Enqueue *e)
{
	ErrorData  *error = subxact_try(enqueue, e);

	if (error && (error->sqlerrcode != ERRCODE_UNIQUE_VIOLATION ||
				  error->constraint_name == NULL ||
				  strcmp(error->constraint_name, "dedupe_pkey") != 0))
		ReThrowError(error);
	return error == NULL;
}

/* The job of the key, which is inserted unless it exists. */
static void
enqueue_once(Enqueue *e)
{
	FunctionCallInfo fcinfo = e->fcinfo;

	for (int round = 0; round < MAX_ROUNDS; round++)
	{
		if (dedupe_find(PG_GETARG_DATUM(1), PG_GETARG_DATUM(ENQUEUE_DEDUPE), &e->id))
		{
			e->reason = "duplicate";
			return;
		}
		if (try_enqueue(e))
			return;
		CHECK_FOR_INTERRUPTS();
	}
	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("dedupe key is in constant use by other sessions")));
}

/* Reads the names.  Throws 22004, 22023. */
static void
read_names(Enqueue *e)
{
	FunctionCallInfo fcinfo = e->fcinfo;
	const char *endpoint = quota_arg_name(fcinfo, 3, "endpoint", false);
	const char *class_name = quota_arg_name(fcinfo, 4, "class", false);

	strlcpy(e->names.tenant, quota_arg_name(fcinfo, 0, "tenant", true),
			QUOTA_NAME_LEN);
	strlcpy(e->names.provider, quota_arg_name(fcinfo, 1, "provider", true),
			QUOTA_NAME_LEN);
	strlcpy(e->names.endpoint, endpoint ? endpoint : "", QUOTA_NAME_LEN);
	strlcpy(e->names.class_name,
			class_name ? class_name : "event", QUOTA_NAME_LEN);
}

/* The row of quota_enqueued. */
static Datum
answer(const Enqueue *e, TupleDesc desc)
{
	bool		full = strcmp(e->reason, "queue_full") == 0;
	bool		closed = full && e->refusal.wait_ns == QUOTA_NEVER;
	Datum		values[5] = {0};
	bool		nulls[5] = {full, false, false, !full, !full || closed};

	values[0] = Int64GetDatum(e->id);
	values[1] = BoolGetDatum(strcmp(e->reason, "ok") == 0);
	values[2] = CStringGetTextDatum(e->reason);
	if (full)
		values[3] = CStringGetTextDatum(e->refusal.limit_name);
	if (full && !closed)
		values[4] = TimestampTzGetDatum(place_not_before(&e->refusal));
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

/* quota_enqueue(...) RETURNS quota_enqueued; see the SQL comment. */
Datum
quota_enqueue(PG_FUNCTION_ARGS)
{
	Enqueue		e = {.fcinfo = fcinfo};
	TupleDesc	desc;

	quota_enter_write("quota_enqueue()");
	read_names(&e);
	if (!PG_ARGISNULL(ENQUEUE_MAX_ATTEMPTS))
		(void) quota_arg_int32(fcinfo, ENQUEUE_MAX_ATTEMPTS, "max_attempts", 1, PG_INT32_MAX);
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	job_load();
	if (PG_ARGISNULL(ENQUEUE_DEDUPE))
		enqueue(&e);
	else
		enqueue_once(&e);
	PG_RETURN_DATUM(answer(&e, desc));
}
