/*
 * job_bury.c
 *		Ending a job that a claim has found and that will not run any more: its
 *		lease has expired, and no attempt is left, or somebody has asked to cancel
 *		it; or it was not started in time; or an allowance has nothing left for it,
 *		and its class does not wait (on_exhausted).
 *
 * As in job_take.c, the candidate is locked, and the flow is told before the rows
 * are written.
 */
#include "job_claim.h"

#include "catalog/pg_type.h"
#include "flow.h"
#include "job_deadline.h"
#include "job_held.h"
#include "job_history.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/json.h"

/* Somebody has asked to cancel the attempt that was running. */
static bool
is_unwanted(const JobLanes *lanes)
{
	return lanes->was_running && row_bool(lanes->lease, LEASE_CANCEL_REQUESTED);
}

/* Its lease has expired and it has no attempt left. */
static bool
is_worn_out(const JobLanes *lanes)
{
	return lanes->was_running &&
		row_int32(lanes->job, JOB_ATTEMPT) >=
		row_int32(lanes->job, JOB_MAX_ATTEMPTS);
}

/* See job_claim.h. */
bool
claim_is_dead(const JobLanes *lanes)
{
	return is_worn_out(lanes) || is_unwanted(lanes) ||
		job_is_late(lanes->job, lanes->wall_us);
}

/* See job_claim.h. */
void
claim_note_expired(Claimer *c, RowValues *change, const char *state)
{
	JobHappening happened = {.state = state};

	happened.error = JOB_LEASE_EXPIRED;
	happened.worker = row_text(c->lanes.lease, LEASE_WORKER);
	job_history_add(c->lanes.job, change, &happened);
}

/* Tells the flow, before others meet the row. */
static void
leave_place(Claimer *c)
{
	QuotaSlot  *slot = &quota_slots[c->slot];
	JobLanes   *lanes = &c->lanes;
	JournalNote note = job_empty_note(true);

	if (lanes->returned)
	{
		note.due_ns = c->now_ns;
		note.place = lanes->ready_at;
		note.gone = true;
	}
	else
		note.lo = note.hi = lanes->id;
	journal_reserve(1);
	quota_lock(&slot->lock);
	journal_note(c->flow, &note);
	flow_scan_taken(&c->scan, lanes->returned ? 0 : lanes->id);
	LWLockRelease(&slot->lock);
}

/* A job whose lease has expired. */
static void
bury_expired(Claimer *c)
{
	JobLanes   *lanes = &c->lanes;
	RowValues	change = row_values(c->jobs);
	bool		unwanted = is_unwanted(lanes);

	claim_note_expired(c, &change,
					   unwanted ? HAPPENED_CANCELLED : HAPPENED_EXPIRED);
	row_set(&change, JOB_ERROR, CStringGetTextDatum(JOB_LEASE_EXPIRED));
	claim_end_permit(lanes);
	row_delete(c->leases, lanes->lease);
	job_write_over(c->jobs, lanes->job, unwanted ? "cancelled" : "failed",
				   &change);
}

/* A job that was not started in time. */
static void
bury_late(Claimer *c)
{
	JobLanes   *lanes = &c->lanes;

	job_deadline_touched(lanes->job);
	if (lanes->returned)
		row_delete(c->leases, lanes->lease);
	job_write_late(c->jobs, lanes->job);
}

/* A job for which an allowance has nothing left. */
static void
bury_exhausted(Claimer *c)
{
	JobLanes   *lanes = &c->lanes;
	RowValues	change = row_values(c->jobs);
	char	   *until = JsonEncodeDateTime(palloc(MAXDATELEN + 1),
										   TimestampTzGetDatum(c->exhausted_until),
										   TIMESTAMPTZOID, NULL);

	if (lanes->was_running)
	{
		claim_note_expired(c, &change, HAPPENED_EXPIRED);
		claim_end_permit(lanes);
	}
	else
		job_deadline_touched(lanes->job);
	if (lanes->returned)
		row_delete(c->leases, lanes->lease);
	row_set(&change, JOB_ERROR,
			CStringGetTextDatum(psprintf("%s: limit \"%s\" has nothing left until %s",
										 quota_reason_name(QUOTA_QUOTA_EXHAUSTED),
										 c->exhausted_by, until)));
	job_write_over(c->jobs, lanes->job, "failed", &change);
}

/* See job_claim.h. */
Step
claim_bury(Claimer *c)
{
	bool		was_running = c->lanes.was_running;
	JournalNote note = job_empty_note(false);

	turn_uncharge(c);
	c->buried++;
	leave_place(c);
	if (c->exhausted)
		bury_exhausted(c);
	else if (was_running)
		bury_expired(c);
	else
		bury_late(c);
	note.depth = was_running ? 0 : -1;
	note.in_flight = was_running ? -1 : 0;
	job_note(&c->names, &note);
	return STEP_LEFT;
}
