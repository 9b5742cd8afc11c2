/*
 * job_cancel.c
 *		quota_cancel(): a job that is not wanted any more.
 */
#include "job_hold.h"

#include "args.h"
#include "error.h"
#include "permit.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(quota_cancel);

/* Locks the row in quota.leases of a waiting job; 55000 when it is running. */
static void
hold_waiting(Held *h)
{
	if (job_find(h->leases, QUOTA_REL_LEASES_PKEY, h->id, h->lease) != JOB_FOUND)
		quota_error_job_busy(h->id);
	held_lock_row(h->leases, h->lease, h->id);
	if (job_char(h->lease, LEASE_STATE) == LEASE_RUNNING &&
		job_int64(h->lease, LEASE_READY_AT) > quota_steady_of(h->now_ns))
		job_error_running(h->id);
	held_note_lease(h);
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
	held_write_over(h, "cancelled", &change);
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
	held_lock_job(&h, id);
	h.now_ns = quota_now_ns();
	waiting = job_state_is(h.job, "queued") ||
		job_state_is(h.job, "scheduled") || job_state_is(h.job, "running");
	if (waiting)
		cancel(&h);
	held_close(&h);
	PG_RETURN_BOOL(waiting);
}
