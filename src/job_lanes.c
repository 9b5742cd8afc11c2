/*
 * job_lanes.c
 *		Searching one flow for its oldest ready job.
 *
 * The fresh lane is the index (flow, id) of quota.jobs, read where the flow's
 * position says that something may be ready.  The returned lane is the index
 * (flow, ready_at, job_id) of quota.leases, read only when a row of it may be due,
 * and from the place where the first ready one may be: what was claimed and
 * finished there long ago, and maybe can't be vacuumed yet, is not met again.
 * Behind what is due stand the leases of all that runs and, while an old snapshot
 * is held, of all that ran lately.  Who only wants to know that nothing more is due
 * does not walk over all of them: he looks LOOK_AHEAD_US far, which tells that there
 * is nothing to do in the returned lane for as long, and at a few more.
 * Of the two heads the one with the older original time goes first, so a retry
 * goes before the backlog it came from.
 *
 * Scans see rows as of the moment they read them.  What another transaction is
 * writing is passed over: when that transaction ends, its callback raises the
 * row or has claimed it.  Rows this transaction wrote are passed over too; they
 * are raised when it commits.  A ready row that is merely locked raises nothing
 * when it is unlocked: it is skipped, and looked at again.  A candidate is
 * checked once more when it is locked.
 */
#include "job_lanes.h"

#include "catalog/pg_type.h"
#include "utils/fmgroids.h"
#include "utils/timestamp.h"

/* Look again at a returned job that somebody has locked. */
#define LOCKED_RETRY_NS (100 * 1000 * QUOTA_NS_PER_US)
/* ... and at a row of quota.leases that doesn't fit its job. */
#define ORPHAN_RETRY_NS (60 * QUOTA_NS_PER_S)
/* How far behind what is due to look for what will be. */
#define LOOK_AHEAD_US USECS_PER_SEC
/* ... and how many more entries of the index to look at when it isn't needed. */
#define LOOK_AHEAD_ENTRIES 256

static const LanePlace nowhere = {DT_NOEND, PG_INT64_MAX};

/*
 * An index scan compares all entries of its first page, but a claim needs one.  So
 * the fresh lane is read a few entries far at first.  How far apart the ids of a
 * flow's ready jobs are is a guess, by flow, from where the last ones were; what
 * it gets wrong costs one more descent, or some entries.
 */
#define FIRST_ENTRIES 8
#define MAX_SPACING (INT64CONST(1) << 32)
static int64 spacings[256];

/* The guess for this flow. */
static int64 *
spacing_of(const JobLanes *lanes)
{
	return &spacings[(uint64) lanes->names.hash % lengthof(spacings)];
}

/* A ready job was found so many ids behind where the search began. */
static void
learn_spacing(const JobLanes *lanes, int64 distance)
{
	int64	   *spacing = spacing_of(lanes);

	*spacing = (3 * *spacing + Min(distance, MAX_SPACING)) / 4;
}

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
	if (flow_may_guess(scan))
		lanes_guess(lanes);
	lanes->nranges = position_ranges(&scan->position, lanes->ranges);
	lanes->range = 0;
	lanes->passed = 0;
	lanes->near = true;
	lanes->fresh_scan = NULL;
	lanes->have_fresh = false;
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

/* Ends a scan that may have ended already. */
static void
end_scan(RowScan **scan)
{
	if (*scan)
		row_scan_end(*scan);
	*scan = NULL;
}

/* Ends the search. */
void
lanes_close(JobLanes *lanes)
{
	end_scan(&lanes->fresh_scan);
	end_scan(&lanes->returned_scan);
}

/* ---- the fresh lane ---- */

/* The row is a ready job of the fresh lane of this very flow. */
static bool
is_fresh(const JobLanes *lanes, TupleTableSlot *job)
{
	return job_is_fresh(job) && job_has_names(job, &lanes->names);
}

/*
 * The ids to read next: an unsettled range, or first only those near its
 * beginning.
 */
static PositionGap
next_range(JobLanes *lanes)
{
	PositionGap *rest = &lanes->ranges[lanes->range];
	PositionGap range = *rest;
	int64		near = FIRST_ENTRIES * (*spacing_of(lanes) + 1);

	if (lanes->near && range.hi - range.lo > near)
	{
		range.hi = range.lo + near;
		rest->lo = range.hi + 1;
	}
	else
		lanes->range++;
	lanes->near = false;
	lanes->range_lo = range.lo;
	return range;
}

/* Begins to read the next range. */
static void
begin_range(JobLanes *lanes)
{
	PositionGap range = next_range(lanes);
	ScanKeyData keys[3];

	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(lanes->names.hash));
	ScanKeyInit(&keys[1], 2, BTGreaterEqualStrategyNumber, F_INT8GE,
				Int64GetDatum(range.lo));
	ScanKeyInit(&keys[2], 2, BTLessEqualStrategyNumber, F_INT8LE,
				Int64GetDatum(range.hi));
	lanes->fresh_scan = row_scan_begin(lanes->jobs, QUOTA_REL_JOBS_FLOW, 3, keys);
}

/*
 * After a long walk over rows that are not ready: others need not walk over them
 * again.  Goes on behind them with a new index scan.
 */
static void
settle_passed(JobLanes *lanes)
{
	end_scan(&lanes->fresh_scan);
	LWLockAcquire(&quota_slots[lanes->slot].lock, LW_EXCLUSIVE);
	flow_scan_passed(lanes->scan, lanes->last_id);
	LWLockRelease(&quota_slots[lanes->slot].lock);
	lanes->nranges = position_ranges(&lanes->scan->position, lanes->ranges);
	lanes->range = 0;
	lanes->passed = 0;
}

/* Reads on in the present range until a job that may be ready. */
static bool
read_range(JobLanes *lanes)
{
	bool		in_progress;

	while (row_scan_next(lanes->fresh_scan, lanes->fresh, &in_progress))
	{
		lanes->last_id = job_int64(lanes->fresh, JOB_ID);
		if (!in_progress && is_fresh(lanes, lanes->fresh) &&
			!row_is_ours(lanes->fresh))
		{
			learn_spacing(lanes, lanes->last_id - lanes->range_lo);
			return true;
		}
		if (++lanes->passed >= FLOW_SCAN_CHUNK)
		{
			settle_passed(lanes);
			return false;
		}
	}
	end_scan(&lanes->fresh_scan);
	return false;
}

/* Moves to the next fresh job that may be ready. */
static void
advance_fresh(JobLanes *lanes)
{
	while (!lanes->have_fresh)
	{
		if (lanes->fresh_scan == NULL && lanes->range >= lanes->nranges)
			return;
		if (lanes->fresh_scan == NULL)
			begin_range(lanes);
		lanes->have_fresh = read_range(lanes);
	}
}

/* ---- the returned lane ---- */

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
	LanePlace	place = {lanes->ready_at, job_int64(lanes->lease, LEASE_JOB_ID)};

	return place;
}

/* The row read last stays in the returned lane, to be looked at then. */
static void
due_again(JobLanes *lanes, int64 due_ns)
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
	int64		id = job_int64(lanes->lease, LEASE_JOB_ID);

	switch (job_find(lanes->jobs, QUOTA_REL_JOBS_PKEY, id, lanes->job_of_lease))
	{
		case JOB_FOUND:
			return job_has_names(lanes->job_of_lease, &lanes->names);
		case JOB_IN_PROGRESS:
			return false;
		case JOB_NONE:
			due_again(lanes, lanes->now_ns + ORPHAN_RETRY_NS);
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

	due_again(lanes, lanes->due_ns);
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

/* Moves to the next due row that may be ready. */
static void
advance_returned(JobLanes *lanes)
{
	bool		in_progress;
	bool		met_end = false;

	while (lanes->returned_scan && !met_end &&
		   row_scan_next(lanes->returned_scan, lanes->lease, &in_progress))
	{
		if (in_progress || row_is_ours(lanes->lease))
			continue;
		lanes->ready_at = job_int64(lanes->lease, LEASE_READY_AT);
		lanes->due_ns = job_due_ns(job_char(lanes->lease, LEASE_STATE),
								   lanes->ready_at, lanes->now_ns,
								   lanes->wall_us);
		if (lanes->due_ns > lanes->now_ns)
		{
			met_end = is_end_of_due(lanes);
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
	end_scan(&lanes->returned_scan);
	if (lanes->ahead && !met_end)
		lanes->ahead_ended = true;
	else
		all_due_read(lanes);
}

/*
 * Nothing is due, nor will be for LOOK_AHEAD_US: looks for what will be first.  That
 * is nice to know for who goes on with a fresh job that may run, so he looks at a
 * few entries only; a flow that is going to wait, or to be refused, must know.
 */
static void
look_further(JobLanes *lanes)
{
	LanePlace	behind = {later_now(lanes) + LOOK_AHEAD_US, PG_INT64_MAX};

	lanes->ahead_ended = false;
	begin_returned(lanes, behind, false);
	if (lanes->have_fresh && lanes->charged &&
		!job_has_own_terms(lanes->fresh))
		row_scan_limit(lanes->returned_scan, LOOK_AHEAD_ENTRIES);
	advance_returned(lanes);
}

/* ---- both ---- */

/* The returned head is older than the fresh one, or the only one. */
static bool
returned_goes_first(JobLanes *lanes)
{
	TimestampTz returned_at;
	TimestampTz fresh_at;

	if (!lanes->have_fresh || !lanes->have_returned)
		return lanes->have_returned;
	returned_at = job_int64(lanes->lease, LEASE_ORIGINAL_AT);
	fresh_at = job_int64(lanes->fresh, JOB_CREATED_AT);
	if (returned_at != fresh_at)
		return returned_at < fresh_at;
	return job_int64(lanes->lease, LEASE_JOB_ID) < job_int64(lanes->fresh, JOB_ID);
}

/* See job_lanes.h. */
bool
lanes_next(JobLanes *lanes)
{
	if (!lanes->have_returned)
		advance_returned(lanes);
	if (!lanes->have_fresh)
		advance_fresh(lanes);
	if (lanes->ahead_ended)
		look_further(lanes);
	if (!lanes->have_returned && !lanes->have_fresh)
		return false;
	lanes->fresh_id = lanes->have_fresh ? job_int64(lanes->fresh, JOB_ID)
		: POSITION_NONE;
	lanes->returned = returned_goes_first(lanes);
	lanes->job = lanes->returned ? lanes->job_of_lease : lanes->fresh;
	lanes->id = job_int64(lanes->job, JOB_ID);
	lanes->was_running = lanes->returned &&
		job_char(lanes->lease, LEASE_STATE) == LEASE_RUNNING;
	/* it is used up: the next call moves on */
	if (lanes->returned)
		lanes->have_returned = false;
	else
		lanes->have_fresh = false;
	return true;
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
	char		state = job_char(lanes->lease, LEASE_STATE);

	if (job_due_ns(state, job_int64(lanes->lease, LEASE_READY_AT),
				   lanes->now_ns, lanes->wall_us) > lanes->now_ns)
		return false;
	for (int i = 0; i < lengthof(expected); i++)
		if (expected[i].lease == state)
			return job_state_is(lanes->job, expected[i].job) &&
				job_int32(lanes->job, JOB_ATTEMPT) ==
				job_int32(lanes->lease, LEASE_ATTEMPT);
	return false;
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
		due_again(lanes, lanes->now_ns + LOCKED_RETRY_NS);
	else if (outcome == ROW_BUSY)
		flow_scan_skip(lanes->scan, lanes->id);
	if (outcome != ROW_LOCKED)
		return false;
	if (!lanes->returned)
		return is_fresh(lanes, lanes->job);
	if (is_still_due(lanes))
		return true;
	due_again(lanes, lanes->now_ns + ORPHAN_RETRY_NS);
	return false;
}
