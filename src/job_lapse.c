/*
 * job_lapse.c
 *		Ending jobs whose cancel was requested while they ran and whose lease has run
 *		out.  A claim that meets one ends it as well (job_bury.c), but none may come:
 *		nobody waits for a job that nobody wants.
 *
 * An index has the leases with a request, in the order of their ends; there are few.
 * quota_cancel() asks for the worker at the end of the lease after it has written
 * the request, so the worker meets at least a row in progress.  As long as there is
 * such a lease the worker says when it comes back: at its end, or soon while
 * somebody is writing it.  After a start of the server the worker's first run finds
 * what there is.
 *
 * As in job_held.h, the lease is locked first, never waiting, and the flow is told
 * before and after the rows are written.
 */
#include "job_lapse.h"

#include "catalog.h"
#include "clock.h"
#include "commands/trigger.h"
#include "event.h"
#include "job_batch.h"
#include "job_history.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "row_role.h"
#include "subxact.h"
#include "utils/builtins.h"
#include "worker.h"

/* Jobs of one transaction. */
#define CHUNK 100

/* Look again at a row that somebody is writing or has locked, */
#define BUSY_RETRY_NS (1 * QUOTA_NS_PER_S)
/* at a job that a user's trigger would not let end, */
#define FAILED_RETRY_NS (10 * QUOTA_NS_PER_S)
/* at all that no worker may end. */
#define REFUSED_RETRY_NS (600 * QUOTA_NS_PER_S)

typedef struct Walk
{
	int64		now_ns;
	int64		next_ns;		/* when to look again */
	int			n;
	int64		ids[CHUNK];		/* of jobs to be ended */
} Walk;

/* See job_lapse.h. */
void
job_lapse_due(uint32 database_slot, TimestampTz ready_at)
{
	quota_work_due(database_slot, quota_ns_of_steady(ready_at));
}

/* The walk has to look again then. */
static void
come_back(Walk *w, int64 at_ns)
{
	w->next_ns = Min(w->next_ns, at_ns);
}

/* ---- finding them ---- */

/* Finds leases with a request that are over. */
static void
find(Walk *w)
{
	RowTable   *leases = row_open(QUOTA_REL_LEASES);
	TupleTableSlot *lease = row_slot(leases);
	RowScan    *scan = row_scan_begin(leases, QUOTA_REL_LEASES_CANCEL, 0, NULL);
	bool		in_progress;

	while (row_scan_next(scan, lease, &in_progress))
	{
		int64		end_ns = quota_ns_of_steady(row_int64(lease, LEASE_READY_AT));

		if (end_ns > w->now_ns || w->n == CHUNK)
		{
			come_back(w, end_ns);
			break;
		}
		if (in_progress)
			come_back(w, w->now_ns + BUSY_RETRY_NS);
		else
			w->ids[w->n++] = row_int64(lease, LEASE_JOB_ID);
	}
	row_scan_end(scan);
	row_close(leases);
}

/* ---- ending one ---- */

/* It runs, but its lease is over, and somebody has asked to cancel it. */
static bool
has_lapsed(Held *h)
{
	return row_char(h->lease, LEASE_STATE) == LEASE_RUNNING &&
		row_int64(h->lease, LEASE_READY_AT) <= quota_steady_of(h->now_ns) &&
		held_cancel_requested(h);
}

/* Locks the job's rows; ROW_CHANGED also when there is nothing to do any more. */
static RowOutcome
lock_rows(Held *h, int64 id)
{
	RowOutcome	outcome;

	if (job_find(h->leases, QUOTA_REL_LEASES_PKEY, id, h->lease) != JOB_FOUND)
		return ROW_CHANGED;
	outcome = row_lock(h->leases, h->lease);
	if (outcome != ROW_LOCKED)
		return outcome;
	if (!has_lapsed(h) ||
		job_find(h->jobs, QUOTA_REL_JOBS_PKEY, id, h->job) != JOB_FOUND)
		return ROW_CHANGED;
	return row_lock(h->jobs, h->job);
}

/* See job_lapse.h; a claim that meets it writes the same (job_bury.c). */
void
job_lapse_write(Held *h)
{
	RowValues	change = row_values(h->jobs);
	JobHappening happened = {.state = HAPPENED_CANCELLED};
	JournalNote note = job_empty_note(false);

	happened.error = JOB_LEASE_EXPIRED;
	happened.worker = held_worker(h);
	held_note_lease(h, true);
	batch_end_lost(h->lease);
	row_delete(h->leases, h->lease);
	job_history_add(h->job, &change, &happened);
	row_set(&change, JOB_ERROR, CStringGetTextDatum(JOB_LEASE_EXPIRED));
	job_write_over(h->jobs, h->job, "cancelled", &change);
	note.in_flight = -1;
	job_note(&h->names, &note);
}

/* A job of the walk. */
typedef struct One
{
	Walk	   *walk;
	int64		id;
} One;

/* Ends it, unless it is in somebody's hands.  For subxact_try(). */
static void
end_one(void *arg)
{
	const One  *one = arg;
	RowOutcome	outcome;
	Held		h;

	held_open(&h);
	h.id = one->id;
	h.now_ns = one->walk->now_ns;
	outcome = lock_rows(&h, one->id);
	if (outcome == ROW_LOCKED)
	{
		job_names_of(h.job, &h.names);
		job_lapse_write(&h);
	}
	else
		come_back(one->walk, h.now_ns + BUSY_RETRY_NS);
	held_close(&h);
}

/* Ends those that were found; one by one, as triggers of users may fail. */
static void
end_found(Walk *w, int64 until_ns)
{
	/* so that each error is of the row that made it */
	AfterTriggerSetState(makeNode(ConstraintsSetStmt));
	for (int i = 0; i < w->n; i++)
	{
		One			one = {w, w->ids[i]};
		ErrorData  *error;

		CHECK_FOR_INTERRUPTS();
		if (i > 0 && quota_raw_ns() >= until_ns)
		{
			come_back(w, w->now_ns);
			return;
		}
		error = subxact_try(end_one, &one);
		if (error == NULL)
			continue;
		come_back(w, w->now_ns + FAILED_RETRY_NS);
		ereport(LOG,
				(errcode(error->sqlerrcode),
				 errmsg("job %lld, which was cancelled and whose lease is over, could not be ended",
						(long long) one.id),
				 errdetail("%s", error->message),
				 errhint("It will be tried again.")));
	}
}

/* False when rows of jobs may not be written in the background, which is told. */
static bool
may_write(Walk *w)
{
	RowTable   *jobs = row_open(QUOTA_REL_JOBS);
	bool		allowed = row_role_allows(row_relation(jobs), CMD_UPDATE);

	row_close(jobs);
	if (allowed)
		return true;
	w->next_ns = w->now_ns + REFUSED_RETRY_NS;
	quota_event(MyDatabaseId, "cancel_refused", NULL, NULL,
				"cancelled jobs whose lease is over are ended by quota_dequeue alone: their table has triggers with arguments or conditions, or triggers and foreign keys of several roles");
	return false;
}

/* See job_lapse.h. */
int64
job_lapse_walk(int64 until_ns)
{
	Walk	   *w = palloc0(sizeof(Walk));

	job_load();
	w->now_ns = quota_now_ns();
	w->next_ns = QUOTA_NEVER;
	find(w);
	if (w->n > 0 && may_write(w))
		end_found(w, until_ns);
	return w->next_ns;
}
