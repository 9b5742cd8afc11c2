/*
 * job_requeue.c
 *		quota_requeue(): a job that failed or was cancelled waits again.
 *
 * Attempts go on to be counted, so that what is left of an old one stays stale.  A
 * job that was never started goes to the fresh lane, whose scans its id may be
 * behind of: the note raises it at commit, as that of a claim that was rolled back.
 * Any other goes to the returned lane, due at once, in the order as of now.
 *
 * Until the commit the row is over or being written, so no scan needs to be told
 * of a rollback.
 */
#include "job_held.h"

#include "args.h"
#include "job_dedupe.h"
#include "job_history.h"
#include "place.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(quota_requeue);

/* Takes the dedupe key of the locked job, if it has one.  Throws 23505. */
static void
take_key(Held *h)
{
	bool		isnull;
	Datum		key = slot_getattr(h->job, JOB_DEDUPE_KEY, &isnull);

	if (!isnull)
		dedupe_take(slot_getattr(h->job, JOB_PROVIDER, &isnull), key, h->id);
}

/* Puts the locked job into its lane; returns its state there. */
static const char *
enter_lane(Held *h, JournalNote *note)
{
	TimestampTz wall_us = quota_wall_us();
	bool		isnull;
	Datum		run_at = slot_getattr(h->job, JOB_RUN_AT, &isnull);
	JobLease	lease = {
		.id = h->id,.flow = h->names.hash,
		.attempt = row_int32(h->job, JOB_ATTEMPT)
	};

	if (lease.attempt > 0)
	{
		lease.state = LEASE_RETRY;
		lease.ready_at = quota_steady_of(h->now_ns);
		lease.original_at = wall_us;
		job_insert_lease(h->leases, &lease, h->now_ns, note);
		return "queued";
	}
	if (!isnull && DatumGetTimestampTz(run_at) > wall_us)
	{
		lease.state = LEASE_SCHEDULED;
		lease.ready_at = lease.original_at = DatumGetTimestampTz(run_at);
		job_insert_lease(h->leases, &lease, h->now_ns, note);
		return "scheduled";
	}
	note->lo = note->hi = h->id;
	return "queued";
}

/* The locked job, which is over, waits again, for so many more attempts. */
static void
requeue(Held *h, int32 attempts)
{
	RowValues	change = row_values(h->jobs);
	JournalNote note = job_empty_note(false);
	JobHappening happened = {.state = HAPPENED_REQUEUED};
	PlaceRefusal refusal;

	if (!place_take(&h->names, &refusal))
		place_error(&h->names, &refusal);
	take_key(h);
	job_history_add(h->job, &change, &happened);
	row_set(&change, JOB_STATE, CStringGetTextDatum(enter_lane(h, &note)));
	row_set(&change, JOB_MAX_ATTEMPTS,
			Int32GetDatum(row_int32(h->job, JOB_ATTEMPT) + attempts));
	row_set_null(&change, JOB_FINISHED_AT);
	row_set_null(&change, JOB_START_BEFORE);
	job_write(h->jobs, h->job, &change);
	note.depth = 1;
	job_note(&h->names, &note);
}

/* How many attempts the job gets.  Throws 22023. */
static int32
budget(FunctionCallInfo fcinfo, Held *h)
{
	int32		most = PG_INT32_MAX - row_int32(h->job, JOB_ATTEMPT);

	if (!PG_ARGISNULL(1))
		return quota_arg_int32(fcinfo, 1, "max_attempts", 1, most);
	return Min(quota_job_policy(h->names.provider,
								h->names.class_name).max_attempts, most);
}

/* quota_requeue(id, max_attempts): see its COMMENT. */
Datum
quota_requeue(PG_FUNCTION_ARGS)
{
	Held		h;
	int64		id;
	int32		attempts;
	bool		over;

	quota_enter_write("quota_requeue()");
	id = quota_arg_int64(fcinfo, 0, "id", PG_INT64_MIN, PG_INT64_MAX);
	held_open(&h);
	held_find_job(&h, id);
	h.now_ns = quota_now_ns();
	attempts = budget(fcinfo, &h);
	over = job_state_is(h.job, "failed") || job_state_is(h.job, "cancelled");
	/* else the lock would be in the way of the worker that has it */
	if (over)
	{
		held_lock_row(h.jobs, h.job, id);
		requeue(&h, attempts);
	}
	held_close(&h);
	PG_RETURN_BOOL(over);
}
