/*
 * job_fresh.c
 *		The fresh lane of one flow: jobs that nobody has claimed yet, by id.
 *
 * It is the index (flow, id) of quota.jobs, read where the flow's position says
 * that something may be ready, or where that seems to be (job_guess.c).  What an
 * earlier search of the same call has read already comes first (job_ahead.c).
 *
 * The slot's lock is taken for what is told to the flow meanwhile, and not held
 * while rows are read.
 */
#include "job_lane.h"

#include "utils/fmgroids.h"

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

/* See job_lane.h. */
void
fresh_open(JobLanes *lanes)
{
	if (lanes->kept == NULL && flow_may_guess(lanes->scan))
		fresh_guess(lanes);
	lanes->nranges = position_ranges(&lanes->scan->position, lanes->ranges);
	lanes->range = 0;
	lanes->passed = 0;
	lanes->first_entries = FIRST_ENTRIES;
	lanes->fresh_scan = NULL;
	lanes->have_fresh = false;
}

/* See job_lane.h. */
bool
fresh_is_ready(const JobLanes *lanes)
{
	return job_is_fresh(lanes->fresh) &&
		job_has_names(lanes->fresh, &lanes->names) && !row_is_ours(lanes->fresh);
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
	int64		near = lanes->first_entries * (*spacing_of(lanes) + 1);

	if (near > 0 && range.hi - range.lo > near)
	{
		range.hi = range.lo + near;
		rest->lo = range.hi + 1;
	}
	else
		lanes->range++;
	lanes->first_entries = 0;
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
	lanes->fresh_scan = lanes->aheads
		? row_scan_begin_entries(lanes->jobs, QUOTA_REL_JOBS_FLOW, 3, keys)
		: row_scan_begin(lanes->jobs, QUOTA_REL_JOBS_FLOW, 3, keys);
}

/*
 * After a long walk over rows that are not ready: others need not walk over them
 * again.  Goes on behind them with a new index scan.
 */
static void
settle_passed(JobLanes *lanes)
{
	lane_end_scan(&lanes->fresh_scan);
	quota_lock(&quota_slots[lanes->slot].lock);
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
		lanes->last_id = row_int64(lanes->fresh, JOB_ID);
		if (!in_progress && fresh_is_ready(lanes))
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
	lane_end_scan(&lanes->fresh_scan);
	return false;
}

/* See job_lane.h. */
void
fresh_advance(JobLanes *lanes)
{
	lanes->have_fresh = lanes->kept && ahead_advance(lanes);
	while (!lanes->have_fresh)
	{
		if (lanes->fresh_scan == NULL && lanes->range >= lanes->nranges)
			return;
		if (lanes->fresh_scan == NULL)
			begin_range(lanes);
		lanes->have_fresh = read_range(lanes);
	}
}
