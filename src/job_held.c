/*
 * job_held.c
 *		A job and its lease in the hands of one transaction; see job_held.h.
 */
#include "job_held.h"

#include "error.h"
#include "notify.h"
#include "job_batch.h"
#include "job_dedupe.h"
#include "job_where.h"
#include "permit.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

/* See job_held.h. */
void
held_open(Held *h)
{
	job_load();
	h->jobs = row_open(QUOTA_REL_JOBS);
	h->leases = row_open(QUOTA_REL_LEASES);
	h->job = row_slot(h->jobs);
	h->lease = row_slot(h->leases);
	h->jobs_walk = NULL;
	h->leases_walk = NULL;
}

/* See job_held.h. */
void
held_walk(Held *h, int64 lo, int64 hi)
{
	if (h->jobs_walk)
	{
		row_scan_end(h->jobs_walk);
		row_scan_end(h->leases_walk);
	}
	h->jobs_walk = row_walk_begin(h->jobs, QUOTA_REL_JOBS_PKEY, lo, hi);
	h->leases_walk = row_walk_begin(h->leases, QUOTA_REL_LEASES_PKEY, lo, hi);
}

/* See job_held.h. */
void
held_close(Held *h)
{
	row_close(h->leases);
	row_close(h->jobs);
}

/* 42704 for a job that isn't there, else 55000. */
static void
no_lease(Held *h, int64 id, int32 attempt)
{
	if (job_find(h->jobs, QUOTA_REL_JOBS_PKEY, id, h->job) == JOB_NONE)
		quota_error_no_such("job", psprintf("%lld", (long long) id));
	quota_error_stale_lease(id, attempt);
}

/* See job_held.h. */
void
held_lock_row(RowTable *table, TupleTableSlot *slot, int64 id)
{
	if (row_lock(table, slot) != ROW_LOCKED)
		quota_error_job_busy(id);
}

/* See job_held.h. */
void
held_find_job(Held *h, int64 id)
{
	switch (job_find(h->jobs, QUOTA_REL_JOBS_PKEY, id, h->job))
	{
		case JOB_NONE:
			quota_error_no_such("job", psprintf("%lld", (long long) id));
			break;
		case JOB_IN_PROGRESS:
			quota_error_job_busy(id);
			break;
		case JOB_FOUND:
			break;
	}
	h->id = id;
	job_names_of(h->job, &h->names);
}

/* See job_held.h. */
void
held_lock_job(Held *h, int64 id)
{
	held_find_job(h, id);
	held_lock_row(h->jobs, h->job, id);
}

/* See job_held.h. */
void
held_note_lease(Held *h, bool gone)
{
	JournalNote note = job_empty_note(true);

	note.place = row_int64(h->lease, LEASE_READY_AT);
	note.due_ns = job_due_ns(row_char(h->lease, LEASE_STATE), note.place,
							 h->now_ns, quota_wall_us());
	note.gone = gone;
	job_note(&h->names, &note);
}

/*
 * Finds the row without throwing; HELD_RUNNING = it is there.  It may be at *tid.
 */
static HeldOutcome
find_row(RowTable *table, QuotaRelation pkey, const ItemPointerData *tid,
		 RowScan *walk, int64 id, TupleTableSlot *slot)
{
	if (tid && row_at(table, *tid, id, slot))
		return HELD_RUNNING;
	if (walk && row_walk_to(walk, id, slot))
		return HELD_RUNNING;
	switch (job_find(table, pkey, id, slot))
	{
		case JOB_NONE:
			return HELD_STALE;
		case JOB_IN_PROGRESS:
			return HELD_BUSY;
		case JOB_FOUND:
			break;
	}
	return HELD_RUNNING;
}

/* The lease in the slot is that of the attempt, and is not over. */
static bool
has_lease(const Held *h, int32 attempt)
{
	return row_char(h->lease, LEASE_STATE) == LEASE_RUNNING &&
		row_int32(h->lease, LEASE_ATTEMPT) == attempt &&
		row_int64(h->lease, LEASE_READY_AT) > quota_steady_of(h->now_ns);
}

/*
 * Finds the lease of the attempt.  Who is stale goes no further: a lock of his would be
 * in the way of the holder until his transaction ends.
 */
static HeldOutcome
find_lease(Held *h, const JobWhere *where, int64 id, int32 attempt)
{
	HeldOutcome outcome = find_row(h->leases, QUOTA_REL_LEASES_PKEY,
								   where ? &where->lease : NULL,
								   h->leases_walk, id, h->lease);

	if (outcome != HELD_RUNNING)
		return outcome;
	slot_getallattrs(h->lease); /* once is cheaper than one by one */
	return has_lease(h, attempt) ? HELD_RUNNING : HELD_STALE;
}

/* Locks the job of the lease that was found, if it is still that. */
static HeldOutcome
lock_job(Held *h, const JobWhere *where, int64 id, int32 attempt)
{
	HeldOutcome outcome = find_row(h->jobs, QUOTA_REL_JOBS_PKEY,
								   where ? &where->job : NULL,
								   h->jobs_walk, id, h->job);
	int64		permit;

	if (outcome != HELD_RUNNING)
		return outcome;
	if (row_lock(h->jobs, h->job) != ROW_LOCKED)
		return HELD_BUSY;
	if (!job_state_is(h->job, "running") ||
		row_int32(h->job, JOB_ATTEMPT) != attempt)
		return HELD_STALE;
	/* who has just committed or rolled back shows it in rows first */
	permit = row_int64_or_0(h->lease, LEASE_PERMIT);
	if (permit != 0 && permit_is_busy(permit))
		return HELD_BUSY;
	h->id = id;
	job_names_of(h->job, &h->names);
	return HELD_RUNNING;
}

/* See job_held.h. */
HeldOutcome
held_try_running(Held *h, int64 id, int32 attempt)
{
	const JobWhere *where = where_is(id);
	HeldOutcome outcome;

	h->now_ns = quota_now_ns();
	outcome = find_lease(h, where, id, attempt);
	if (outcome == HELD_RUNNING && row_lock(h->leases, h->lease) != ROW_LOCKED)
		outcome = HELD_BUSY;
	if (outcome == HELD_RUNNING)
		outcome = lock_job(h, where, id, attempt);
	if (outcome == HELD_RUNNING)
		held_note_lease(h, true);
	return outcome;
}

/*
 * Deletes the lease of the locked job.  The note comes first; when there turns out to
 * be nothing to delete it has a scan look once more than it would have to.
 */
static HeldOutcome
delete_lease(Held *h, int64 id, int32 attempt)
{
	HeldOutcome outcome;

	held_note_lease(h, true);
	if (row_try_delete(h->leases, h->lease))
		return HELD_RUNNING;
	/* just moved by who extends it, or locked, perhaps by ourselves */
	outcome = find_lease(h, NULL, id, attempt);
	if (outcome != HELD_RUNNING)
		return outcome;
	if (row_lock(h->leases, h->lease) != ROW_LOCKED)
		return HELD_BUSY;
	/* its place may be another one now */
	held_note_lease(h, true);
	row_delete(h->leases, h->lease);
	return HELD_RUNNING;
}

/* See job_held.h. */
HeldOutcome
held_try_end(Held *h, int64 id, int32 attempt)
{
	const JobWhere *where = where_is(id);
	HeldOutcome outcome;

	h->now_ns = quota_now_ns();
	outcome = find_lease(h, where, id, attempt);
	if (outcome == HELD_RUNNING)
		outcome = lock_job(h, where, id, attempt);
	if (outcome == HELD_RUNNING)
		outcome = delete_lease(h, id, attempt);
	return outcome;
}

/* Throws what the outcome of an attempt to hold the job says, unless it is held. */
static void
must_be_held(Held *h, HeldOutcome outcome, int64 id, int32 attempt)
{
	switch (outcome)
	{
		case HELD_RUNNING:
			break;
		case HELD_STALE:
			no_lease(h, id, attempt);
			break;
		case HELD_BUSY:
			quota_error_job_busy(id);
			break;
	}
}

/* See job_held.h. */
void
held_running(Held *h, int64 id, int32 attempt)
{
	must_be_held(h, held_try_running(h, id, attempt), id, attempt);
}

/* See job_held.h. */
void
held_end(Held *h, int64 id, int32 attempt)
{
	must_be_held(h, held_try_end(h, id, attempt), id, attempt);
}

/* See job_held.h. */
bool
held_cancel_requested(Held *h)
{
	return row_bool(h->lease, LEASE_CANCEL_REQUESTED);
}

/* See job_held.h. */
char *
held_worker(Held *h)
{
	return row_text(h->lease, LEASE_WORKER);
}

/*
 * What the job has cost more, in the unit that shares go by, than it was charged
 * when it was claimed; by the cost map of now, if it had no units of its own.
 */
static int64
cost_difference(Held *h, const QuotaUnits *units)
{
	QuotaCall	call = job_call_of(&h->names);
	QuotaPlan  *plan = quota_plan_unchecked(&call);
	int64		actual = plan ? quota_units_of(units, plan->share_unit) : -1;
	int64		own = -1;
	bool		isnull;
	Datum		value = slot_getattr(h->job, JOB_UNITS, &isnull);

	if (actual < 0)
		return 0;
	if (!isnull)
		own = quota_units_of(quota_units_parse(DatumGetJsonbP(value)),
							 plan->share_unit);
	return Max(actual, 1) - (own >= 0 ? Max(own, 1) : plan->share_cost);
}

/* What the attempt has come to is known now; -1 when its beginning is not. */
static int64
latency_of(Held *h)
{
	bool		isnull;
	Datum		claimed_at = slot_getattr(h->lease, LEASE_CLAIMED_AT, &isnull);

	if (isnull)
		return -1;
	return h->now_ns - quota_ns_of_steady(DatumGetTimestampTz(claimed_at));
}

/* See job_held.h. */
void
held_give_back(Held *h, bool billed, const QuotaUnits *units, int64 depth,
			   int64 due_ns, int64 completed)
{
	JournalNote note = job_empty_note(false);
	int64		permit = row_int64_or_0(h->lease, LEASE_PERMIT);

	note.depth = depth;
	note.in_flight = -1;
	note.due_ns = due_ns;
	if (due_ns != QUOTA_NEVER)
		note.place = quota_steady_of(due_ns);
	note.completed = completed;
	if (units)
		note.cost = cost_difference(h, units);
	if (permit != 0)
		quota_settle_permit(permit, billed, units);
	batch_leave(h->lease);
	if (row_is_ours(h->lease))
		journal_claim_spent(h->id);
	job_note_ended(&h->names, &note, latency_of(h));
}

/* Its dedupe key, if it has one, is free. */
static void
forget_key(TupleTableSlot *job)
{
	bool		isnull;
	Datum		key = slot_getattr(job, JOB_DEDUPE_KEY, &isnull);

	if (!isnull)
		dedupe_forget(slot_getattr(job, JOB_PROVIDER, &isnull), key,
					  row_int64(job, JOB_ID));
}

/* See job_held.h. */
void
job_write_over(RowTable *jobs, TupleTableSlot *job, const char *state,
			   RowValues *change)
{
	row_set(change, JOB_STATE, CStringGetTextDatum(state));
	row_set(change, JOB_FINISHED_AT, TimestampTzGetDatum(quota_wall_us()));
	forget_key(job);
	notify_note(job, state);
	job_write(jobs, job, change);
}
