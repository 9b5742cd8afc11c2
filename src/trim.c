/*
 * trim.c
 *		Forgetting history in the background: finished jobs, events and keys of
 *		calls that were kept long enough.
 *
 * Keys of calls (quota.keys) are deleted oldest first.  Rows of the others are
 * walked by id.  Those that somebody is writing or has locked are left
 * for the next walk, and so are those that can't be deleted: a foreign key of the
 * user's own may refer to a job, or a trigger refuse.  A batch is deleted in one
 * subtransaction; if that fails, its rows are tried one by one, and the walk goes
 * on behind those that fail.
 *
 * As whom rows are deleted, and when they are not: row_role.c.
 */
#include "trim.h"

#include "once.h"
#include "clock.h"
#include "commands/trigger.h"
#include "event.h"
#include "job.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "permit.h"
#include "row_role.h"
#include "subxact.h"
#include "utils/fmgroids.h"
#include "utils/timestamp.h"

#define BATCH			1000	/* rows looked at in one transaction */
#define KEPT_EVENTS		100000	/* rows of quota.events and of quota.feedback, each */

#define MIN_INTERVAL_NS	(10 * QUOTA_NS_PER_S)
#define MAX_INTERVAL_NS	(3600 * QUOTA_NS_PER_S)

/* Rows of one transaction. */
typedef struct Batch
{
	QuotaRelation rel;
	QuotaRelation pkey;
	TimestampTz cutoff;			/* what ended before is old */
	int64		surplus;		/* rows up to this id are too many */
	int			looked;			/* rows looked at */
	bool		met_old;		/* jobs: one of them was created before cutoff */
	int64		last;			/* id of the last row looked at */
	int			n;
	int64		ids[BATCH];		/* of rows to be deleted */
} Batch;

/* How often history is trimmed: often enough for how long it is kept. */
static int64
next_walk(void)
{
	int64		interval = quota_job_retention * QUOTA_NS_PER_S / 100;

	return quota_now_ns() +
		Min(Max(interval, MIN_INTERVAL_NS), MAX_INTERVAL_NS);
}

/* An empty batch for a table. */
static Batch *
new_batch(QuotaRelation rel, QuotaRelation pkey)
{
	Batch	   *batch = palloc0(sizeof(Batch));

	batch->rel = rel;
	batch->pkey = pkey;
	batch->cutoff = quota_wall_us() - quota_job_retention * USECS_PER_SEC;
	return batch;
}

/* ---- which rows ---- */

/* A job that has finished, long enough ago. */
static bool
is_old_job(const Batch *batch, TupleTableSlot *job)
{
	bool		isnull;
	TimestampTz finished =
		DatumGetTimestampTz(slot_getattr(job, JOB_FINISHED_AT, &isnull));

	return !isnull && finished < batch->cutoff &&
		(job_state_is(job, "succeeded") || job_state_is(job, "failed") ||
		 job_state_is(job, "cancelled"));
}

/* The row is to be deleted. */
static bool
is_doomed(const Batch *batch, TupleTableSlot *row)
{
	if (batch->rel == QUOTA_REL_JOBS)
		return is_old_job(batch, row);
	return row_int64(row, EVENT_AT) < batch->cutoff ||
		row_int64(row, EVENT_ID) <= batch->surplus;
}

/* Looks at the next rows behind an id. */
static void
look(Batch *batch, RowTable *table, int64 position)
{
	TupleTableSlot *slot = row_slot(table);
	ScanKeyData key;
	RowScan    *scan;
	bool		in_progress;

	batch->last = position;
	ScanKeyInit(&key, 1, BTGreaterStrategyNumber, F_INT8GT,
				Int64GetDatum(position));
	scan = row_scan_begin(table, batch->pkey, 1, &key);
	while (batch->looked < BATCH && row_scan_next(scan, slot, &in_progress))
	{
		batch->looked++;
		batch->last = row_int64(slot, 1);
		if (batch->rel == QUOTA_REL_JOBS)
			batch->met_old |= row_int64(slot, JOB_CREATED_AT) < batch->cutoff;
		if (!in_progress && is_doomed(batch, slot))
			batch->ids[batch->n++] = batch->last;
	}
	row_scan_end(scan);
}

/* Id of the newest row, 0 = none. */
static int64
newest(RowTable *table, QuotaRelation pkey)
{
	TupleTableSlot *slot = row_slot(table);
	RowScan    *scan = row_scan_begin(table, pkey, 0, NULL);
	bool		in_progress;
	int64		id = 0;

	if (row_scan_back(scan, slot, &in_progress))
		id = row_int64(slot, EVENT_ID);
	row_scan_end(scan);
	return id;
}

/* ---- deleting ---- */

/* Some rows of a batch. */
typedef struct Rows
{
	const Batch *batch;
	const int64 *ids;
	int			n;
} Rows;

/*
 * Deletes rows that still are what they were; throws what triggers throw.  For
 * subxact_try().
 */
static void
delete_rows(void *arg)
{
	const Rows *rows = arg;
	const Batch *batch = rows->batch;
	RowTable   *table = row_open(batch->rel);
	TupleTableSlot *slot = row_slot(table);

	row_will_delete(table);
	for (int i = 0; i < rows->n; i++)
		if (job_find(table, batch->pkey, rows->ids[i], slot) == JOB_FOUND &&
			row_lock(table, slot) == ROW_LOCKED && is_doomed(batch, slot))
			row_delete(table, slot);
	row_close(table);
}

/* One by one, at least one of them; what fails stays. */
static void
delete_each(Batch *batch, int64 until_ns)
{
	bool		told = false;

	for (int i = 0; i < batch->n; i++)
	{
		Rows		one = {batch, &batch->ids[i], 1};
		ErrorData  *error = subxact_try(delete_rows, &one);

		CHECK_FOR_INTERRUPTS();
		if (error && !told)
			ereport(LOG,
					(errcode(error->sqlerrcode),
					 errmsg("finished job %lld could not be deleted, nor perhaps others",
							(long long) batch->ids[i]),
					 errdetail("%s", error->message),
					 errhint("It will be tried again.")));
		told |= error != NULL;
		if (quota_raw_ns() >= until_ns && i + 1 < batch->n)
		{
			batch->last = batch->ids[i];
			return;
		}
	}
}

/* Deletes what can be deleted; false when something can't. */
static bool
delete_batch(Batch *batch, int64 until_ns)
{
	Rows		all = {batch, batch->ids, batch->n};

	/* so that each error is of the row that made it */
	AfterTriggerSetState(makeNode(ConstraintsSetStmt));
	if (batch->n == 0 || subxact_try(delete_rows, &all) == NULL)
		return true;
	delete_each(batch, until_ns);
	return false;
}

/* Nobody may delete rows of the table in the background; tells why. */
static bool
is_refused(RowTable *table, const char *what)
{
	if (row_role_allows(row_relation(table), CMD_DELETE))
		return false;
	quota_event(MyDatabaseId, "trim_refused", NULL, NULL,
				psprintf("%s are not deleted: their table has triggers with arguments or conditions, or triggers and foreign keys of several roles",
						 what));
	return true;
}

/* ---- the chores ---- */

/*
 * See trim.h.  The walk is over when it meets no job any more that is old enough
 * to have been kept that long: later ids are younger.
 */
int64
trim_jobs(int64 *position, int64 until_ns)
{
	Batch	   *batch = new_batch(QUOTA_REL_JOBS, QUOTA_REL_JOBS_PKEY);
	RowTable   *jobs = row_open(QUOTA_REL_JOBS);
	bool		refused;

	look(batch, jobs, *position);
	refused = batch->n > 0 && is_refused(jobs, "finished jobs");
	row_close(jobs);
	if (!refused)
		(void) delete_batch(batch, until_ns);
	if (refused || !batch->met_old)
	{
		*position = 0;
		return next_walk();
	}
	*position = batch->last;
	return quota_now_ns();
}

/* Of a table of what happened, whose first columns are those of quota.events. */
static int64
trim_happenings(QuotaRelation rel, QuotaRelation pkey, const char *what,
				int64 until_ns)
{
	Batch	   *batch = new_batch(rel, pkey);
	RowTable   *table = row_open(rel);
	bool		refused;

	batch->surplus = newest(table, pkey) - KEPT_EVENTS;
	look(batch, table, 0);
	refused = batch->n > 0 && is_refused(table, what);
	row_close(table);
	if (batch->n == 0 || refused || !delete_batch(batch, until_ns))
		return next_walk();
	return quota_now_ns();
}

/* See trim.h. */
int64
trim_events(int64 until_ns)
{
	return trim_happenings(QUOTA_REL_EVENTS, QUOTA_REL_EVENTS_PKEY, "events",
						   until_ns);
}

/* See trim.h. */
int64
trim_feedback(int64 until_ns)
{
	return trim_happenings(QUOTA_REL_FEEDBACK, QUOTA_REL_FEEDBACK_PKEY,
						   "answers of providers", until_ns);
}

/* A key that nobody needs any more; so long as its permit is open it is kept. */
static bool
is_old_key(TupleTableSlot *row, TimestampTz cutoff)
{
	int64		permit = row_int64_or_0(row, KEYS_PERMIT);

	return row_int64(row, KEYS_CREATED_AT) < cutoff &&
		(permit == 0 || !permit_is_known(permit));
}

/* See trim.h. */
int64
trim_old_keys(int64 until_ns)
{
	TimestampTz cutoff = quota_wall_us() - quota_job_retention * USECS_PER_SEC;
	RowTable   *acquired = row_open(QUOTA_REL_KEYS);
	TupleTableSlot *row = row_slot(acquired);
	ScanKeyData key;
	RowScan    *scan;
	bool		in_progress;
	int			n = 0;

	ScanKeyInit(&key, 1, BTLessStrategyNumber, F_TIMESTAMPTZ_LT,
				TimestampTzGetDatum(cutoff));
	scan = row_scan_begin(acquired, QUOTA_REL_KEYS_CREATED, 1, &key);
	while (n < BATCH && quota_raw_ns() < until_ns &&
		   row_scan_next(scan, row, &in_progress))
	{
		if (in_progress || !is_old_key(row, cutoff))
			continue;
		if (n == 0 && is_refused(acquired, "keys of calls"))
			break;
		if (row_lock(acquired, row) == ROW_LOCKED)
			row_delete(acquired, row);
		n++;
	}
	row_scan_end(scan);
	row_close(acquired);
	return n < BATCH ? next_walk() : quota_now_ns();
}
