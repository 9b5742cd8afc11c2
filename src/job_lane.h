/*
 * job_lane.h
 *		One lane of a flow: between job_lanes.c, which has the older of the two
 *		heads, and the files that read them.  Nobody holds a lock of shared memory;
 *		all throw, as rows.h does.
 */
#ifndef QUOTA_JOB_LANE_H
#define QUOTA_JOB_LANE_H

#include "job_lanes.h"

/* Ends a scan that may have ended already. */
static inline void
lane_end_scan(RowScan **scan)
{
	if (*scan)
		row_scan_end(*scan);
	*scan = NULL;
}

/* ---- job_fresh.c ---- */

extern void fresh_open(JobLanes *lanes);
/* Moves to the next fresh job that may be ready; have_fresh = false: none. */
extern void fresh_advance(JobLanes *lanes);
/* The row just read is a ready job of this very flow, which we did not write. */
extern bool fresh_is_ready(const JobLanes *lanes);

/* ---- job_ahead.c ---- */

/*
 * Moves to the next job of lanes->kept that may be ready, into lanes->fresh; false:
 * there is none, and what is left to be read is in lanes->ranges.
 */
extern bool ahead_advance(JobLanes *lanes);
/* The search has claimed a job: keeps what it knows of those behind for the next one. */
extern void ahead_keep(JobLanes *lanes);

/* ---- job_guess.c ---- */

/* Lets the search begin where the first ready job seems to be. */
extern void fresh_guess(JobLanes *lanes);

/* ---- job_returned.c ---- */

extern void returned_open(JobLanes *lanes);
/*
 * Moves to the next due row that may be ready; have_returned = false: none.
 * ahead_ended: and there won't be for a while.
 */
extern void returned_advance(JobLanes *lanes);
/* After ahead_ended: looks for what will be due first. */
extern void returned_look_further(JobLanes *lanes);
/* The row read last stays in the returned lane, to be looked at then. */
extern void returned_due_again(JobLanes *lanes, int64 due_ns);
/*
 * The locked rows still say what made the job a candidate; if not, they are looked
 * at again, later.
 */
extern bool returned_is_still(JobLanes *lanes);

#endif							/* QUOTA_JOB_LANE_H */
