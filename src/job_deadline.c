/*
 * job_deadline.c
 *		Jobs that were not started in time; the protocol is told in job_deadline.h.
 */
#include "job_deadline.h"

#include "catalog.h"
#include "catalog/pg_type.h"
#include "clock.h"
#include "commands/trigger.h"
#include "event.h"
#include "job_held.h"
#include "job_history.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "row_role.h"
#include "subxact.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/fmgroids.h"
#include "utils/json.h"
#include "utils/timestamp.h"
#include "worker.h"

/* Rows looked at in one transaction. */
#define CHUNK 1000

/* In case the wall clock was set. */
#define RECHECK_US (60 * USECS_PER_SEC)
/* Look again at a job that somebody has locked, */
#define LOCKED_RETRY_NS (1 * QUOTA_NS_PER_S)
/* that could not be failed, or that no worker may fail. */
#define FAILED_RETRY_NS (10 * QUOTA_NS_PER_S)

/* ---- a job ---- */

/* It has not been started; for a row whose start_before is not null. */
static bool
waits_for_start(TupleTableSlot *job)
{
	return row_int32(job, JOB_ATTEMPT) == 0 &&
		(job_state_is(job, "queued") || job_state_is(job, "scheduled"));
}

/* See job_deadline.h. */
bool
job_is_late(TupleTableSlot *job, TimestampTz wall_us)
{
	bool		isnull;
	Datum		start_before = slot_getattr(job, JOB_START_BEFORE, &isnull);

	return !isnull && DatumGetTimestampTz(start_before) <= wall_us &&
		waits_for_start(job);
}

/* See job_deadline.h. */
void
job_write_late(RowTable *jobs, TupleTableSlot *job)
{
	RowValues	change = row_values(jobs);
	JobHappening happened = {.state = HAPPENED_MISSED};
	char		at[MAXDATELEN + 1];
	const int	utc = 0;

	JsonEncodeDateTime(at, TimestampTzGetDatum(row_int64(job, JOB_START_BEFORE)),
					   TIMESTAMPTZOID, &utc);
	happened.error = psprintf("not started before %s", at);
	job_history_add(job, &change, &happened);
	row_set(&change, JOB_ERROR, CStringGetTextDatum(happened.error));
	job_write_over(jobs, job, "failed", &change);
}

/* ---- the mark ---- */

/* When to look, by the quota clock. */
static int64
due_ns(TimestampTz start_before)
{
	int64		now_ns = quota_now_ns();
	TimestampTz wall_us = quota_wall_us();

	if (start_before <= wall_us)
		return now_ns;
	return now_ns + QUOTA_NS_PER_US * Min(start_before - wall_us, RECHECK_US);
}

/* See job_deadline.h. */
void
job_deadline_note(TimestampTz start_before, bool on_commit, bool on_abort)
{
	if (start_before == DT_NOEND)
		return;
	journal_reserve(1);
	journal_deadline(job_database_slot(), start_before, on_commit, on_abort);
}

/* See job_deadline.h. */
void
job_deadline_touched(TupleTableSlot *job)
{
	bool		isnull;
	Datum		start_before = slot_getattr(job, JOB_START_BEFORE, &isnull);

	if (!isnull && row_int32(job, JOB_ATTEMPT) == 0)
		job_deadline_note(DatumGetTimestampTz(start_before), false, true);
}

/* See job_deadline.h. */
void
deadline_lower(uint32 database_slot, TimestampTz start_before)
{
	pg_atomic_uint64 *low = &quota_slots[database_slot].deadline_low;
	uint64		old = pg_atomic_read_u64(low);

	while (start_before < (TimestampTz) old &&
		   !pg_atomic_compare_exchange_u64(low, &old, (uint64) start_before))
		;
	quota_work_due(database_slot, due_ns(start_before));
}

/* ---- a chunk of the walk ---- */

typedef struct Walk
{
	QuotaSlot  *slot;
	RowTable   *jobs;
	RowTable   *leases;
	TupleTableSlot *job;
	TupleTableSlot *lease;
	TimestampTz wall_us;
	TimestampTz at;				/* the mark: rows up to here were looked at */
	int64		id;
	int			looked;			/* rows looked at, and rows ahead */
	int			looked_ahead;
	bool		over;			/* all that is late was looked at */
	int64		next_ns;		/* when something will be late */
	int			n;
	struct
	{
		int64		id;
		TimestampTz at;
	}			late[CHUNK];
	bool		told;			/* of a job that could not be failed */
} Walk;

/* A subtransaction has to open tables of its own. */
static void
open_tables(Walk *w)
{
	w->jobs = row_open(QUOTA_REL_JOBS);
	w->leases = row_open(QUOTA_REL_LEASES);
	w->job = row_slot(w->jobs);
	w->lease = row_slot(w->leases);
}

/* Their locks stay. */
static void
close_tables(Walk *w)
{
	row_close(w->leases);
	row_close(w->jobs);
}

/* The walk has to come back here after a pause. */
static void
come_back(Walk *w, TimestampTz at, int64 pause_ns)
{
	int64		at_ns = quota_now_ns() + pause_ns;

	w->slot->deadline_again = Min(w->slot->deadline_again, at);
	w->slot->deadline_again_ns = Min(w->slot->deadline_again_ns, at_ns);
}

/* Begins a new walk, unless one is under way. */
static void
begin(QuotaSlot *slot)
{
	TimestampTz low;

	if (slot->deadline_walking)
		return;
	/* nothing may come between these two */
	low = (TimestampTz) pg_atomic_exchange_u64(&slot->deadline_low,
											   (uint64) DT_NOEND);
	if (slot->deadline_again_ns <= quota_now_ns())
	{
		low = Min(low, slot->deadline_again);
		slot->deadline_again = DT_NOEND;
		slot->deadline_again_ns = QUOTA_NEVER;
	}
	if (low <= slot->deadline_at)
	{
		slot->deadline_at = low;
		slot->deadline_id = 0;
	}
	slot->deadline_walking = true;
}

/* A row that is not late yet; false when it says when to look next. */
static bool
look_ahead(Walk *w, TimestampTz at, bool in_progress)
{
	/* who writes it asks for us when he is done */
	if ((in_progress || !waits_for_start(w->job)) && ++w->looked_ahead < CHUNK)
		return true;
	w->next_ns = due_ns(at);
	return false;
}

/* One row of the index; false when the chunk ends before it. */
static bool
look_at(Walk *w, bool in_progress)
{
	TimestampTz at = row_int64(w->job, JOB_START_BEFORE);

	if (at > w->wall_us)
	{
		w->over = true;
		return look_ahead(w, at, in_progress);
	}
	w->at = at;
	w->id = row_int64(w->job, JOB_ID);
	if (!in_progress && job_is_late(w->job, w->wall_us))
	{
		w->late[w->n].id = w->id;
		w->late[w->n++].at = at;
	}
	return ++w->looked < CHUNK;
}

/* Reads on with these keys of the index; true when no row was left. */
static bool
read_rows(Walk *w, int nkeys, ScanKey keys)
{
	RowScan    *scan = row_scan_begin(w->jobs, QUOTA_REL_JOBS_DEADLINE, nkeys,
									  keys);
	bool		in_progress;
	bool		more = true;
	bool		left = false;

	while (more && (left = row_scan_next(scan, w->job, &in_progress)))
		more = look_at(w, in_progress);
	row_scan_end(scan);
	return !left;
}

/*
 * Looks at the next rows behind the mark, which it moves: first at those with the
 * mark's own start_before.
 */
static void
look(Walk *w)
{
	TimestampTz mark = w->at;
	ScanKeyData keys[2];

	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_TIMESTAMPTZ_EQ,
				TimestampTzGetDatum(mark));
	ScanKeyInit(&keys[1], 2, BTGreaterStrategyNumber, F_INT8GT,
				Int64GetDatum(w->id));
	if (!read_rows(w, 2, keys))
		return;
	ScanKeyInit(&keys[0], 1, BTGreaterStrategyNumber, F_TIMESTAMPTZ_GT,
				TimestampTzGetDatum(mark));
	w->over |= read_rows(w, 1, keys);
}

/* Tells the flow of the locked job, before and after its row is written. */
static void
tell_flow(Walk *w, bool scheduled)
{
	JournalNote before = job_empty_note(true);
	JournalNote after = job_empty_note(false);
	JobNames	names;

	job_names_of(w->job, &names);
	if (scheduled)
	{
		before.due_ns = quota_now_ns();
		before.place = row_int64(w->lease, LEASE_READY_AT);
		before.gone = true;
	}
	else
		before.lo = before.hi = row_int64(w->job, JOB_ID);
	job_note(&names, &before);
	after.depth = -1;
	job_note(&names, &after);
}

/* Locks a late job and, if it has one, its row in quota.leases. */
static RowOutcome
lock_late(Walk *w, int64 id, bool *scheduled)
{
	RowOutcome	outcome;

	if (job_find(w->jobs, QUOTA_REL_JOBS_PKEY, id, w->job) != JOB_FOUND ||
		!job_is_late(w->job, w->wall_us))
		return ROW_CHANGED;
	*scheduled = job_state_is(w->job, "scheduled");
	if (*scheduled)
	{
		if (job_find(w->leases, QUOTA_REL_LEASES_PKEY, id, w->lease) != JOB_FOUND)
			return ROW_BUSY;
		outcome = row_lock(w->leases, w->lease);
		if (outcome != ROW_LOCKED)
			return outcome;
	}
	outcome = row_lock(w->jobs, w->job);
	if (outcome == ROW_LOCKED && !job_is_late(w->job, w->wall_us))
		return ROW_CHANGED;
	return outcome;
}

/* Some of the late jobs. */
typedef struct Late
{
	Walk	   *walk;
	int			first;
	int			n;
} Late;

/*
 * Fails those that are late and in nobody's hands.  Those that somebody has
 * changed were or will be lowered for.  For subxact_try().
 */
static void
fail_late(void *arg)
{
	const Late *late = arg;
	Walk	   *w = late->walk;

	open_tables(w);
	for (int i = late->first; i < late->first + late->n; i++)
	{
		bool		scheduled = false;
		RowOutcome	outcome = lock_late(w, w->late[i].id, &scheduled);

		if (outcome == ROW_BUSY)
			come_back(w, w->late[i].at, LOCKED_RETRY_NS);
		if (outcome != ROW_LOCKED)
			continue;
		tell_flow(w, scheduled);
		if (scheduled)
			row_delete(w->leases, w->lease);
		job_write_late(w->jobs, w->job);
	}
	close_tables(w);
}

/* Tells once why a job could not be failed. */
static void
tell_failure(Walk *w, int64 id, const ErrorData *error)
{
	if (!w->told)
		ereport(LOG,
				(errcode(error->sqlerrcode),
				 errmsg("job %lld, which was not started in time, could not be failed, nor perhaps others",
						(long long) id),
				 errdetail("%s", error->message),
				 errhint("It will be tried again.")));
	w->told = true;
}

/* One by one, at least one of them; what fails is tried again later. */
static void
fail_each(Walk *w, int64 until_ns)
{
	for (int i = 0; i < w->n; i++)
	{
		Late		one = {w, i, 1};
		ErrorData  *error = subxact_try(fail_late, &one);

		CHECK_FOR_INTERRUPTS();
		if (error)
		{
			tell_failure(w, w->late[i].id, error);
			come_back(w, w->late[i].at, FAILED_RETRY_NS);
		}
		if (quota_raw_ns() >= until_ns && i + 1 < w->n)
		{
			w->at = w->late[i].at;
			w->id = w->late[i].id;
			w->over = false;
			return;
		}
	}
}

/* Fails what was found. */
static void
fail_found(Walk *w, int64 until_ns)
{
	Late		all = {w, 0, w->n};

	/* not in the subtransactions: what they leave, come_back() is told */
	job_deadline_note(w->late[0].at, false, true);
	/* so that each error is of the row that made it */
	AfterTriggerSetState(makeNode(ConstraintsSetStmt));
	if (subxact_try(fail_late, &all) != NULL)
		fail_each(w, until_ns);
}

/* Tells why nothing is failed in the background. */
static void
refused(Walk *w)
{
	come_back(w, w->late[0].at, FAILED_RETRY_NS);
	quota_event(MyDatabaseId, "deadline_refused", NULL, NULL,
				"jobs that were not started in time are failed by quota_dequeue alone: their table has triggers with arguments or conditions, or triggers and foreign keys of several roles");
}

/* Moves the mark; whatever ends the transaction now, its records lower it. */
static void
keep(const Walk *w)
{
	w->slot->deadline_at = w->at;
	w->slot->deadline_id = w->id;
	w->slot->deadline_walking = !w->over;
}

/* See job_deadline.h. */
int64
job_deadline_walk(uint32 database_slot, int64 until_ns)
{
	Walk	   *w = palloc0(sizeof(Walk));
	bool		allowed;

	job_load();
	w->slot = &quota_slots[database_slot];
	begin(w->slot);
	w->at = w->slot->deadline_at;
	w->id = w->slot->deadline_id;
	w->wall_us = quota_wall_us();
	w->next_ns = QUOTA_NEVER;
	open_tables(w);
	look(w);
	allowed = row_role_allows(row_relation(w->jobs), CMD_UPDATE);
	close_tables(w);
	if (w->n > 0 && !allowed)
		refused(w);
	else if (w->n > 0)
		fail_found(w, until_ns);
	keep(w);
	return w->over ? Min(w->next_ns, w->slot->deadline_again_ns) : quota_now_ns();
}
