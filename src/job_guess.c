/*
 * job_guess.c
 *		Where the first ready job of a flow seems to be, when nobody has counted
 *		its jobs yet and its position knows nothing.
 *
 * Jobs of the fresh lane are claimed in the order of their ids, so a flow's finished
 * jobs are followed by its ready ones, with few exceptions.  By that the first ready
 * one is found by halving the range of ids, in about twenty looks, where a walk might
 * pass millions of finished jobs.  The exceptions, jobs that are ready but were
 * passed by, wait for the count; flow_recount.c tells how it finds them.
 */
#include "job_lane.h"

#include "utils/fmgroids.h"

/*
 * The flow's first row with an id from lo on, or the last one, into lanes->fresh;
 * false = none.
 */
static bool
look(const JobLanes *lanes, int64 lo, bool last)
{
	ScanKeyData keys[2];
	RowScan    *scan;
	bool		in_progress;
	bool		found;

	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(lanes->names.hash));
	ScanKeyInit(&keys[1], 2, BTGreaterEqualStrategyNumber, F_INT8GE,
				Int64GetDatum(lo));
	scan = row_scan_begin(lanes->jobs, QUOTA_REL_JOBS_FLOW, 2, keys);
	found = last ? row_scan_back(scan, lanes->fresh, &in_progress)
		: row_scan_next(scan, lanes->fresh, &in_progress);
	row_scan_end(scan);
	return found;
}

/* The id of the first ready job, 0 when there is nothing to go by. */
static int64
guess_first(const JobLanes *lanes)
{
	int64		lo = 1;
	int64		hi;				/* this one is fresh */
	int64		upto;			/* look for others below */

	if (!look(lanes, lo, true) || !job_is_fresh(lanes->fresh))
		return 0;
	upto = hi = row_int64(lanes->fresh, JOB_ID);
	while (lo < upto)
	{
		int64		middle = lo + (upto - lo) / 2;

		if (!look(lanes, middle, false))
			return 0;			/* somebody has deleted them */
		if (job_is_fresh(lanes->fresh))
		{
			hi = Min(hi, row_int64(lanes->fresh, JOB_ID));
			upto = middle;
		}
		else
			lo = row_int64(lanes->fresh, JOB_ID) + 1;
	}
	return hi;
}

/* See job_lane.h. */
void
fresh_guess(JobLanes *lanes)
{
	int64		id = guess_first(lanes);

	if (id <= 1)
		return;
	quota_lock(&quota_slots[lanes->slot].lock);
	flow_scan_guess(lanes->scan, id);
	LWLockRelease(&quota_slots[lanes->slot].lock);
}
