/*
 * job_lanes.c
 *		Searching one flow for its oldest ready job, out of its two lanes
 *		(job_fresh.c with job_ahead.c, job_returned.c).
 *
 * Of the two heads the one with the older original time goes first, so a retry
 * goes before the backlog it came from.
 *
 * Scans see rows as of the moment they read them.  What another transaction is
 * writing is passed over: when that transaction ends, its callback raises the
 * row or has claimed it.  Rows this transaction wrote are passed over too; they
 * are raised when it commits.  A ready row that is merely locked raises nothing
 * when it is unlocked: it is skipped, and looked at again.  A candidate is locked
 * in the version that was read, or not at all.
 *
 * A search holds no lock of shared memory: it goes by a copy of the flow's position
 * (FlowScan), and what it learns is told by flow_scan_...(), most of it at its end,
 * by who holds the slot's lock then.
 */
#include "job_lane.h"

/* Look again at a returned job that somebody has locked. */
#define LOCKED_RETRY_NS (100 * 1000 * QUOTA_NS_PER_US)

/* Makes the slots. */
void
lanes_init(JobLanes *lanes, RowTable *jobs, RowTable *leases)
{
	lanes->jobs = jobs;
	lanes->leases = leases;
	lanes->fresh = row_slot(jobs);
	lanes->job_of_lease = row_slot(jobs);
	lanes->lease = row_slot(leases);
}

/* Starts a search. */
void
lanes_open(JobLanes *lanes, uint32 slot, const JobNames *names,
		   FlowScan *scan, TimestampTz wall_us, bool charged)
{
	lanes->slot = slot;
	lanes->names = *names;
	lanes->scan = scan;
	lanes->now_ns = scan->now_ns;
	lanes->wall_us = wall_us;
	lanes->charged = charged;
	lanes->last_id = 0;
	lanes->fresh_id = POSITION_NONE;
	fresh_open(lanes);
	returned_open(lanes);
}

/* Ends the search; see job_lanes.h. */
void
lanes_close(JobLanes *lanes, bool claimed)
{
	if (claimed)
		ahead_keep(lanes);
	lane_end_scan(&lanes->fresh_scan);
	lane_end_scan(&lanes->returned_scan);
}

/* The returned head is older than the fresh one, or the only one. */
static bool
returned_goes_first(JobLanes *lanes)
{
	TimestampTz returned_at;
	TimestampTz fresh_at;

	if (!lanes->have_fresh || !lanes->have_returned)
		return lanes->have_returned;
	returned_at = row_int64(lanes->lease, LEASE_ORIGINAL_AT);
	fresh_at = row_int64(lanes->fresh, JOB_CREATED_AT);
	if (returned_at != fresh_at)
		return returned_at < fresh_at;
	return row_int64(lanes->lease, LEASE_JOB_ID) < row_int64(lanes->fresh, JOB_ID);
}

/* See job_lanes.h. */
bool
lanes_next(JobLanes *lanes)
{
	if (!lanes->have_returned)
		returned_advance(lanes);
	if (!lanes->have_fresh)
		fresh_advance(lanes);
	if (lanes->ahead_ended)
		returned_look_further(lanes);
	if (!lanes->have_returned && !lanes->have_fresh)
		return false;
	lanes->fresh_id = lanes->have_fresh ? row_int64(lanes->fresh, JOB_ID)
		: POSITION_NONE;
	lanes->returned = returned_goes_first(lanes);
	lanes->job = lanes->returned ? lanes->job_of_lease : lanes->fresh;
	lanes->id = row_int64(lanes->job, JOB_ID);
	lanes->was_running = lanes->returned &&
		row_char(lanes->lease, LEASE_STATE) == LEASE_RUNNING;
	/* it is used up: the next call moves on */
	if (lanes->returned)
		lanes->have_returned = false;
	else
		lanes->have_fresh = false;
	return true;
}

/* See job_lanes.h. */
void
lanes_leave_retries(JobLanes *lanes, int64 due_ns)
{
	lanes->scan->retries_ns = due_ns;
	returned_due_again(lanes, due_ns);
}

/* See job_lanes.h. */
bool
lanes_lock(JobLanes *lanes)
{
	RowOutcome	outcome = ROW_LOCKED;

	/*
	 * The lease first: it was read before its job, so while it is the same
	 * nobody has claimed that.  The other way round a job that somebody else
	 * has just claimed would stay locked, to our end, for its holder.
	 */
	if (lanes->returned)
		outcome = row_lock(lanes->leases, lanes->lease);
	if (outcome == ROW_LOCKED)
		outcome = row_lock(lanes->jobs, lanes->job);
	if (outcome == ROW_BUSY && lanes->returned)
		returned_due_again(lanes, lanes->now_ns + LOCKED_RETRY_NS);
	else if (outcome == ROW_BUSY)
		flow_scan_skip(lanes->scan, lanes->id);
	if (outcome != ROW_LOCKED)
		return false;
	/* what was locked is the version that was read: one row says what it said */
	return !lanes->returned || returned_is_still(lanes);
}
