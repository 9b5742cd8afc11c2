/*
 * job_cancel.c
 *		quota_cancel(): a job that is not wanted any more.
 *
 * A job that waits, or whose attempt's lease is over, is cancelled at once.  One
 * that runs cannot be taken from its worker, who may be in the middle of the call:
 * its lease is marked, the worker is told when it extends, and the job ends as
 * cancelled when the attempt fails (quota_fail) or its lease runs out (by a background
 * worker, job_lapse.c, or a quota_dequeue that meets it before).  If the worker
 * completes it first it has succeeded.
 */
#include "job_held.h"

#include "args.h"
#include "error.h"
#include "job_deadline.h"
#include "job_history.h"
#include "job_lapse.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(quota_cancel);

/*
 * Locks the row in quota.leases of the locked job, or throws 55P03; false when it is
 * not there yet, as the statement that inserts the job has not ended.
 */
static bool
lock_lease(Held *h)
{
	JobFind		find = job_find(h->leases, QUOTA_REL_LEASES_PKEY, h->id, h->lease);

	if (find == JOB_NONE && row_is_ours(h->job))
		return false;
	if (find != JOB_FOUND)
		quota_error_job_busy(h->id);
	held_lock_row(h->leases, h->lease, h->id);
	return true;
}

/* Asks whoever runs the locked job to stop. */
static void
request(Held *h)
{
	RowValues	lease = row_values(h->leases);
	TimestampTz ready_at;

	if (held_cancel_requested(h))
		return;
	held_note_lease(h, false);
	row_set(&lease, LEASE_CANCEL_REQUESTED, BoolGetDatum(true));
	ready_at = row_int64(h->lease, LEASE_READY_AT);
	row_update(h->leases, h->lease, &lease);
	job_lapse_due(job_database_slot(), ready_at);
}

/* Writes the locked job, which waits. */
static void
write_cancelled(Held *h)
{
	RowValues	change = row_values(h->jobs);
	JobHappening happened = {.state = HAPPENED_CANCELLED};
	JournalNote note = job_empty_note(false);

	job_deadline_touched(h->job);
	job_history_add(h->job, &change, &happened);
	job_write_over(h->jobs, h->job, "cancelled", &change);
	note.depth = -1;
	job_note(&h->names, &note);
}

/* A job that has never been in quota.leases. */
static void
cancel_fresh(Held *h)
{
	JournalNote note = job_empty_note(true);

	note.lo = note.hi = h->id;
	job_note(&h->names, &note);
	write_cancelled(h);
}

/* A job with a row there; false when it runs, and was only asked to stop. */
static bool
cancel_returned(Held *h)
{
	bool		running;

	if (!lock_lease(h))
	{
		write_cancelled(h);
		return true;
	}
	running = row_char(h->lease, LEASE_STATE) == LEASE_RUNNING;
	if (running && row_int64(h->lease, LEASE_READY_AT) > quota_steady_of(h->now_ns))
	{
		request(h);
		return false;
	}
	if (running)
	{
		job_lapse_write(h);
		return true;
	}
	held_note_lease(h, true);
	row_delete(h->leases, h->lease);
	write_cancelled(h);
	return true;
}

/* What has become of the locked job, by us or before; as a constant. */
static const char *
cancel(Held *h)
{
	static const char *const over[] = {"succeeded", "failed", "cancelled"};

	for (int i = 0; i < lengthof(over); i++)
		if (job_state_is(h->job, over[i]))
			return over[i];
	if (job_is_fresh(h->job))
		cancel_fresh(h);
	else if (!cancel_returned(h))
		return "requested";
	return "cancelled";
}

/* quota_cancel(id): see its COMMENT. */
Datum
quota_cancel(PG_FUNCTION_ARGS)
{
	Held		h;
	int64		id;
	const char *outcome;

	quota_enter_write("quota_cancel()");
	id = quota_arg_int64(fcinfo, 0, "id", PG_INT64_MIN, PG_INT64_MAX);
	held_open(&h);
	held_lock_job(&h, id);
	h.now_ns = quota_now_ns();
	outcome = cancel(&h);
	held_close(&h);
	PG_RETURN_TEXT_P(cstring_to_text(outcome));
}
