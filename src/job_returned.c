/*
 * job_returned.c
 *		The returned lane of one flow: jobs that are ready by a time, for another
 *		try, as scheduled or because a lease ended.
 *
 * It is the index (flow, ready_at, job_id) of quota.leases, read only when a row of
 * it may be due, and from the place where the first ready one may be: what was
 * claimed and finished there long ago, and maybe can't be vacuumed yet, is not met
 * again.  Behind what is due stand the leases of all that runs and, while an old
 * snapshot is held, of all that ran lately.  Who only wants to know that nothing more
 * is due does not walk over all of them: he looks LOOK_AHEAD_US far, which tells that
 * there is nothing to do in the returned lane for as long, and at a few more.
 *
 * What is learned of the lane (when to look again, and from which place) is in the
 * FlowScan; no lock of shared memory is taken.
 */
#include "job_lane.h"

#include "catalog/pg_type.h"
#include "utils/fmgroids.h"
#include "utils/timestamp.h"

/* Look again at a row of quota.leases that doesn't fit its job. */
#define ORPHAN_RETRY_NS (60 * QUOTA_NS_PER_S)
/* How far behind what is due to look for what will be. */
#define LOOK_AHEAD_US USECS_PER_SEC
/* ... and how many more entries of the index to look at when it isn't needed. */
#define LOOK_AHEAD_ENTRIES 256

static const LanePlace nowhere = {DT_NOEND, PG_INT64_MAX};

/* Now, by the later of the two clocks that ready_at is read by. */
static TimestampTz
later_now(const JobLanes *lanes)
{
	return Max(lanes->wall_us, quota_steady_of(lanes->now_ns));
}

/*
 * Begins to read the returned lane at a place, up to LOOK_AHEAD_US from now or to
 * its end.
 */
static void
begin_returned(JobLanes *lanes, LanePlace from, bool ahead)
{
	ScanKeyData *place = lanes->from;	/* the scan goes on to refer to it */
	ScanKeyData keys[3];

	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(lanes->names.hash));
	/* (ready_at, job_id) >= from; a row comparison has functions that compare */
	ScanKeyEntryInitialize(&place[0], SK_ROW_MEMBER, 2,
						   BTGreaterEqualStrategyNumber, TIMESTAMPTZOID,
						   InvalidOid, F_TIMESTAMPTZ_CMP,
						   TimestampTzGetDatum(from.at));
	ScanKeyEntryInitialize(&place[1], SK_ROW_MEMBER | SK_ROW_END, 3,
						   BTGreaterEqualStrategyNumber, INT8OID,
						   InvalidOid, F_BTINT8CMP, Int64GetDatum(from.id));
	memset(&keys[1], 0, sizeof(keys[1]));
	keys[1].sk_flags = SK_ROW_HEADER;
	keys[1].sk_attno = 2;
	keys[1].sk_strategy = BTGreaterEqualStrategyNumber;
	keys[1].sk_argument = PointerGetDatum(place);
	ScanKeyInit(&keys[2], 2, BTLessEqualStrategyNumber, F_TIMESTAMPTZ_LE,
				TimestampTzGetDatum(later_now(lanes) + LOOK_AHEAD_US));
	lanes->returned_scan = row_scan_begin(lanes->leases, QUOTA_REL_LEASES_DUE,
										  ahead ? 3 : 2, keys);
	lanes->ahead = ahead;
}

/* See job_lane.h. */
void
returned_open(JobLanes *lanes)
{
	const FlowScan *scan = lanes->scan;

	lanes->returned_scan = NULL;
	lanes->have_returned = false;
	lanes->left = nowhere;
	lanes->ahead_ended = false;
	if (scan->look_returned)
	{
		LanePlace	from = {scan->position.place, scan->position.place_id};

		begin_returned(lanes, from, true);
	}
}

/* The earlier one. */
static LanePlace
place_min(LanePlace a, LanePlace b)
{
	if (a.at != b.at)
		return a.at < b.at ? a : b;
	return a.id < b.id ? a : b;
}

/* Nothing was left in the returned lane before this place. */
static void
set_place(JobLanes *lanes, LanePlace place)
{
	lanes->scan->place = place.at;
	lanes->scan->place_id = place.id;
}

/* Of the row read last. */
static LanePlace
place_of_lease(const JobLanes *lanes)
{
	LanePlace	place = {lanes->ready_at, row_int64(lanes->lease, LEASE_JOB_ID)};

	return place;
}

/* See job_lane.h. */
void
returned_due_again(JobLanes *lanes, int64 due_ns)
{
	FlowScan   *scan = lanes->scan;
	LanePlace	place = {scan->place, scan->place_id};

	scan->next_due_ns = Min(scan->next_due_ns, due_ns);
	lanes->left = place_min(lanes->left, place_of_lease(lanes));
	set_place(lanes, place_min(place, lanes->left));
}

/* Puts the job of the lease into job_of_lease; false when it is not to be had. */
static bool
find_job_of_lease(JobLanes *lanes)
{
	int64		id = row_int64(lanes->lease, LEASE_JOB_ID);

	switch (job_find(lanes->jobs, QUOTA_REL_JOBS_PKEY, id, lanes->job_of_lease))
	{
		case JOB_FOUND:
			return job_has_names(lanes->job_of_lease, &lanes->names);
		case JOB_IN_PROGRESS:
			return false;
		case JOB_NONE:
			returned_due_again(lanes, lanes->now_ns + ORPHAN_RETRY_NS);
			return false;
	}
	return false;
}

/*
 * The row is not due.  Rows come by rising ready_at, but that is read by two
 * clocks, so the lane is at its end only when neither can be due sooner.
 */
static bool
is_end_of_due(JobLanes *lanes)
{
	TimestampTz later = later_now(lanes);

	returned_due_again(lanes, lanes->due_ns);
	return lanes->ready_at > later && lanes->ready_at - later >=
		(lanes->scan->next_due_ns - lanes->now_ns) / QUOTA_NS_PER_US;
}

/* All that is due was looked at, and what was left is known. */
static void
all_due_read(JobLanes *lanes)
{
	lanes->scan->returned_done = true;
	set_place(lanes, lanes->left);
}

/* What is behind LOOK_AHEAD_US was not looked at. */
static void
leave_the_rest(JobLanes *lanes)
{
	FlowScan   *scan = lanes->scan;
	LanePlace	behind = {later_now(lanes) + LOOK_AHEAD_US, PG_INT64_MAX};

	scan->next_due_ns = Min(scan->next_due_ns, lanes->now_ns +
							LOOK_AHEAD_US * QUOTA_NS_PER_US);
	lanes->left = place_min(lanes->left, behind);
}

/* See job_lane.h. */
void
returned_advance(JobLanes *lanes)
{
	bool		in_progress;
	bool		met_end = false;

	while (lanes->returned_scan && !met_end &&
		   row_scan_next(lanes->returned_scan, lanes->lease, &in_progress))
	{
		if (in_progress || row_is_ours(lanes->lease))
			continue;
		lanes->ready_at = row_int64(lanes->lease, LEASE_READY_AT);
		lanes->due_ns = job_due_ns(row_char(lanes->lease, LEASE_STATE),
								   lanes->ready_at, lanes->now_ns,
								   lanes->wall_us);
		if (lanes->due_ns > lanes->now_ns)
		{
			met_end = is_end_of_due(lanes);
			continue;
		}
		if (lanes->scan->retries_ns > 0 && row_int32(lanes->lease, LEASE_ATTEMPT) > 0)
		{
			returned_due_again(lanes, lanes->scan->retries_ns);
			continue;
		}
		if (find_job_of_lease(lanes))
		{
			lanes->have_returned = true;
			set_place(lanes, place_min(lanes->left, place_of_lease(lanes)));
			return;
		}
	}
	if (lanes->returned_scan == NULL)
		return;
	if (!met_end && row_scan_gave_up(lanes->returned_scan))
		leave_the_rest(lanes);
	lane_end_scan(&lanes->returned_scan);
	if (lanes->ahead && !met_end)
		lanes->ahead_ended = true;
	else
		all_due_read(lanes);
}

/*
 * See job_lane.h.  That is nice to know for who goes on with a fresh job that may
 * run, so he looks at a few entries only; a flow that is going to wait, or to be
 * refused, must know.
 */
void
returned_look_further(JobLanes *lanes)
{
	LanePlace	behind = {later_now(lanes) + LOOK_AHEAD_US, PG_INT64_MAX};

	lanes->ahead_ended = false;
	begin_returned(lanes, behind, false);
	if (lanes->have_fresh && lanes->charged &&
		!job_has_own_terms(lanes->fresh))
		row_scan_limit(lanes->returned_scan, LOOK_AHEAD_ENTRIES);
	returned_advance(lanes);
}

/* The locked rows still say what made the job a candidate. */
static bool
is_still_due(JobLanes *lanes)
{
	static const struct
	{
		char		lease;
		const char *job;
	}			expected[] = {
		{LEASE_RUNNING, "running"}, {LEASE_RETRY, "queued"},
		{LEASE_SCHEDULED, "scheduled"}
	};
	char		state = row_char(lanes->lease, LEASE_STATE);

	if (job_due_ns(state, row_int64(lanes->lease, LEASE_READY_AT),
				   lanes->now_ns, lanes->wall_us) > lanes->now_ns)
		return false;
	for (int i = 0; i < lengthof(expected); i++)
		if (expected[i].lease == state)
			return job_state_is(lanes->job, expected[i].job) &&
				row_int32(lanes->job, JOB_ATTEMPT) ==
				row_int32(lanes->lease, LEASE_ATTEMPT);
	return false;
}

/* See job_lane.h. */
bool
returned_is_still(JobLanes *lanes)
{
	if (is_still_due(lanes))
		return true;
	returned_due_again(lanes, lanes->now_ns + ORPHAN_RETRY_NS);
	return false;
}
