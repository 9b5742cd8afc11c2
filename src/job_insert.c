/*
 * job_insert.c
 *		Triggers of quota.jobs for new rows: what makes a row in the table work in
 *		the queue.
 *
 * A job is in one of two lanes while it waits.  Fresh: state queued, attempt 0,
 * found by id.  Returned: it has a row in quota.leases that says when it is
 * ready; scheduled and retried jobs, and running ones, whose lease may end.
 * quota.leases and quota.dedupe follow from quota.jobs, so the insert trigger
 * makes their rows for whatever state a row arrives in: a restore fires it too.
 *
 * Flows learn of a job at COMMIT, by the journal.  Before a row is written the
 * queue must be loaded; see job_load.c for why.  Where the queue is bounded, the
 * row gets a place in it before it is written (place.c).
 *
 * These run for every row of a bulk load.  What is the same for all rows of a
 * statement is done for the first; a row is taken apart and put together once; what
 * follows from its names is remembered (job_known.c); and the AFTER trigger is not
 * queued for rows that do without (job_written.c).
 */
#include "job.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_trigger.h"
#include "error.h"
#include "job_deadline.h"
#include "job_dedupe.h"
#include "job_written.h"
#include "place.h"
#include "trigger.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

/* Of a row that comes in; a claim that could not count it would fail for ever. */
#define MAX_ATTEMPT 1000000000

PG_FUNCTION_INFO_V1(quota_jobs_before_insert);
PG_FUNCTION_INFO_V1(quota_jobs_after_insert);

/* What a statement notes with the trigger function. */
static char checked;			/* it was called by its trigger */
static char checked_last;		/* and no other trigger can change the row after it */

/* Triggers before an insert fire in the order of their names: is it the last one? */
static bool
is_last(const TriggerData *data)
{
	const TriggerDesc *triggers = data->tg_relation->trigdesc;

	for (int i = 0; i < triggers->numtriggers; i++)
	{
		const Trigger *other = &triggers->triggers[i];

		if (TRIGGER_TYPE_MATCHES(other->tgtype, TRIGGER_TYPE_ROW,
								 TRIGGER_TYPE_BEFORE, TRIGGER_TYPE_INSERT) &&
			strcmp(other->tgname, data->tg_trigger->tgname) > 0)
			return false;
	}
	return true;
}

/*
 * The trigger call; throws as quota_trigger() and quota_enter_write() do.  The
 * executor looks the function up once for a statement, so what is noted with it
 * lasts as long.
 */
static TriggerData *
insert_trigger(FunctionCallInfo fcinfo, const char *function, bool before)
{
	TriggerData *data = (TriggerData *) fcinfo->context;
	TriggerShape shape = {
		.function = function,.tables = TRIGGER_TABLE(QUOTA_REL_JOBS),
		.before = before,.row = TRIGGER_ON_INSERT
	};

	if (fcinfo->flinfo->fn_extra == NULL)
	{
		quota_trigger(fcinfo, &shape);
		quota_enter_write("a change of quota.jobs");
		job_load();
		fcinfo->flinfo->fn_extra = is_last(data) ? &checked_last : &checked;
	}
	return data;
}

/* ---- before ---- */

/* A row that knows its flow is from a dump, whose tables come in any order. */
static bool
knows_flow(const JobRow *row, const KnownFlow *known)
{
	return !job_row_isnull(row, JOB_FLOW) &&
		job_row_int64(row, JOB_FLOW) == known->names.hash;
}

/*
 * 42704 for names without a row; not while their table is empty, since a restore
 * may load the jobs first.
 */
static void
check_names(KnownFlow *known)
{
	const char *missing = known_rules(known)->missing;

	if (missing == NULL)
		return;
	quota_error_no_such(missing,
						strcmp(missing, "tenant") == 0 ? known->names.tenant :
						strcmp(missing, "provider") == 0 ? known->names.provider :
						known->names.class_name);
}

/* 22023 for a new job that claims to have been worked on. */
static void
check_new(const JobRow *row)
{
	if (job_row_standing(row) == STANDING_FRESH &&
		job_row_isnull(row, JOB_HISTORY))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("a new job must be queued, with attempt 0 and no history"),
			 errdetail("Other states come about only by working on it, or by restoring a dump."),
			 errhint("Leave out state, attempt and history; give run_at for a job that is to wait.")));
}

/* 22023 for a job from a dump whose attempts could not be counted on. */
static void
check_dumped(const JobRow *row)
{
	int32		attempt = DatumGetInt32(job_row_get(row, JOB_ATTEMPT));

	if (!job_row_isnull(row, JOB_ATTEMPT) && attempt > MAX_ATTEMPT)
		quota_error_range("attempt", attempt, 0, MAX_ATTEMPT);
}

/* A queued job whose time has not come waits as scheduled. */
static bool
is_for_later(const JobRow *row)
{
	return !job_row_isnull(row, JOB_RUN_AT) &&
		job_row_standing(row) == STANDING_FRESH &&
		DatumGetTimestampTz(job_row_get(row, JOB_RUN_AT)) > quota_wall_us();
}

/*
 * What class and provider say of a job that does not; a row from a dump has it
 * already, or has lost its start_before for good.
 */
static void
fill_policy(JobRow *row, const QuotaJobPolicy *policy, bool dumped)
{
	TimestampTz from;

	if (job_row_isnull(row, JOB_MAX_ATTEMPTS))
		job_row_set(row, JOB_MAX_ATTEMPTS, Int32GetDatum(policy->max_attempts));
	if (dumped || policy->start_within_ns == 0 ||
		!job_row_isnull(row, JOB_START_BEFORE))
		return;
	from = DatumGetTimestampTz(job_row_get(row, JOB_CREATED_AT));
	if (!job_row_isnull(row, JOB_RUN_AT))
		from = Max(from, DatumGetTimestampTz(job_row_get(row, JOB_RUN_AT)));
	if (!TIMESTAMP_NOT_FINITE(from))
		from += policy->start_within_ns / QUOTA_NS_PER_US;
	if (!IS_VALID_TIMESTAMP(from) && from != DT_NOBEGIN)
		from = DT_NOEND;		/* later than a time can be written */
	job_row_set(row, JOB_START_BEFORE, TimestampTzGetDatum(from));
}

/* Gives columns that the user leaves to us their values. */
static void
fill_in(JobRow *row, KnownFlow *known, bool dumped)
{
	job_row_set(row, JOB_FLOW, Int64GetDatum(known->names.hash));
	if (job_row_isnull(row, JOB_CLASS))
		job_row_set(row, JOB_CLASS, CStringGetTextDatum(known->names.class_name));
	if (job_row_isnull(row, JOB_CREATED_AT))
		job_row_set(row, JOB_CREATED_AT, TimestampTzGetDatum(quota_wall_us()));
	if (is_for_later(row))
		job_row_set(row, JOB_STATE, CStringGetTextDatum("scheduled"));
	fill_policy(row, &known_rules(known)->policy, dumped);
}

/* All that is to be done when the row has been written is to note it. */
static bool
needs_note_only(const JobRow *row)
{
	return job_row_standing(row) == STANDING_FRESH &&
		job_row_isnull(row, JOB_DEDUPE_KEY);
}

/*
 * BEFORE INSERT: checks the row, fills in what it leaves out, and takes a place in
 * the queue.  Throws 53Q00 when that is full.
 */
Datum
quota_jobs_before_insert(PG_FUNCTION_ARGS)
{
	TriggerData *data = insert_trigger(fcinfo, "jobs_before_insert", true);
	KnownFlow  *known;
	JobRow		row;
	HeapTuple	result;
	bool		dumped;

	job_written_none();
	job_row_read(&row, data->tg_trigtuple, RelationGetDescr(data->tg_relation));
	job_row_check(&row);
	known = job_row_flow(&row);
	if (known_rules(known)->bounded && job_load_counts())
		known = job_row_flow(&row);
	dumped = knows_flow(&row, known);
	if (dumped)
		check_dumped(&row);
	else
	{
		check_names(known);
		check_new(&row);
	}
	fill_in(&row, known, dumped);
	if (!dumped && known->rules.bounded)
		place_take_for_row(known);
	if (fcinfo->flinfo->fn_extra == &checked_last && needs_note_only(&row))
		job_written_expect(&row, known);
	result = heap_form_tuple(row.desc, row.values, row.nulls);
	result->t_tableOid = RelationGetRelid(data->tg_relation);
	return PointerGetDatum(result);
}

/* ---- after ---- */

/* The row of quota.leases for a job that did not come as a fresh one. */
static void
insert_lease(const JobRow *row, Standing standing, JournalNote *note)
{
	RowTable   *leases = row_open(QUOTA_REL_LEASES);
	int64		now_ns = quota_now_ns();
	JobLease	lease = {
		.id = job_row_int64(row, JOB_ID),.flow = job_row_int64(row, JOB_FLOW),
		.attempt = DatumGetInt32(job_row_get(row, JOB_ATTEMPT)),
		.state = LEASE_RETRY,.ready_at = quota_steady_of(now_ns),
		.original_at = job_row_int64(row, JOB_CREATED_AT)
	};

	if (standing == STANDING_RUNNING)
	{
		/* restored: its worker may still be at it */
		lease.state = LEASE_RUNNING;
		lease.ready_at += JOB_DEFAULT_LEASE_NS / QUOTA_NS_PER_US;
	}
	else if (standing == STANDING_SCHEDULED)
	{
		lease.state = LEASE_SCHEDULED;
		lease.ready_at = job_row_isnull(row, JOB_RUN_AT) ? quota_wall_us()
			: job_row_int64(row, JOB_RUN_AT);
		lease.original_at = lease.ready_at;
	}
	job_insert_lease(leases, &lease, now_ns, note);
	row_close(leases);
}

/* 39P01: it is no job of the flow its row says. */
static void
error_changed(const JobRow *row)
{
	ereport(ERROR,
			(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
			 errmsg("a later trigger changed whose job %lld is",
					(long long) job_row_int64(row, JOB_ID)),
			 errhint("Triggers that change tenant, provider, endpoint or class must fire before \"zz_quota_before_insert\".")));
}

/*
 * This transaction has already changed or deleted the row that it inserted: a
 * trigger did, or a function in the statement, before we were told.
 */
static bool
is_superseded(HeapTuple tuple)
{
	HeapTupleHeader header = tuple->t_data;

	return (header->t_infomask & HEAP_XMAX_INVALID) == 0 &&
		!HEAP_XMAX_IS_LOCKED_ONLY(header->t_infomask) &&
		TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetUpdateXid(header));
}

/* The job waits no more. */
static bool
is_over_already(const JobRow *row)
{
	RowTable   *jobs = row_open(QUOTA_REL_JOBS);
	TupleTableSlot *slot = row_slot(jobs);
	bool		over;

	over = job_find(jobs, QUOTA_REL_JOBS_PKEY, job_row_int64(row, JOB_ID),
					slot) != JOB_FOUND || job_standing(slot) == STANDING_OVER;
	row_close(jobs);
	return over;
}

/* Other rows that belong to the job, and where its flow finds it. */
static void
make_rows(const JobRow *row, Standing standing, JournalNote *note)
{
	if (standing == STANDING_FRESH)
		note->lo = note->hi = job_row_int64(row, JOB_ID);
	else
		insert_lease(row, standing, note);
	if (!job_row_isnull(row, JOB_DEDUPE_KEY))
		dedupe_take(job_row_get(row, JOB_PROVIDER),
					job_row_get(row, JOB_DEDUPE_KEY), job_row_int64(row, JOB_ID));
	if (!job_row_isnull(row, JOB_START_BEFORE))
		job_deadline_note(DatumGetTimestampTz(job_row_get(row, JOB_START_BEFORE)),
						  true, false);
}

/*
 * AFTER INSERT: other rows that belong to it, and what its flow must know.  Does not
 * fire for rows that need no more than a note; see job_written.c.
 */
Datum
quota_jobs_after_insert(PG_FUNCTION_ARGS)
{
	TriggerData *data = insert_trigger(fcinfo, "jobs_after_insert", false);
	JournalNote note = job_empty_note(false);
	Standing	standing;
	JobRow		row;

	job_row_read(&row, data->tg_trigtuple, RelationGetDescr(data->tg_relation));
	standing = job_row_standing(&row);
	if (standing == STANDING_OVER)
		return PointerGetDatum(NULL);
	if (job_row_flow(&row)->names.hash != job_row_int64(&row, JOB_FLOW))
		error_changed(&row);

	if (standing == STANDING_RUNNING)
		note.in_flight = 1;
	else
		note.depth = 1;
	/* who deleted or cancelled it has noted that it is one less */
	if (!is_superseded(data->tg_trigtuple) || !is_over_already(&row))
		make_rows(&row, standing, &note);
	job_written_note(job_row_flow(&row), &note);
	return PointerGetDatum(NULL);
}
