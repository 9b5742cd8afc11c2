/*
 * job_lanes.h
 *		The ready jobs of one flow, in order, out of its two lanes.
 */
#ifndef QUOTA_JOB_LANES_H
#define QUOTA_JOB_LANES_H

#include "flow.h"
#include "job.h"

typedef struct JobLanes
{
	/* given to lanes_open() */
	RowTable   *jobs;
	RowTable   *leases;
	uint32		slot;
	JobNames	names;
	FlowScan   *scan;
	int64		now_ns;
	TimestampTz wall_us;

	/* the candidate, after lanes_next() */
	int64		id;
	bool		returned;		/* it comes from quota.leases */
	bool		was_running;	/* by an expired lease */
	int64		due_ns;			/* returned: when to look at it */
	TupleTableSlot *job;
	TupleTableSlot *lease;

	/* what the search has learned */
	int64		last_id;		/* fresh ids up to here were looked at, 0 = none */
	bool		returned_done;	/* all of the returned lane was looked at; */
	int64		next_due_ns;	/* the first due time of what is left there */

	/* private */
	RowScan    *fresh_scan;
	TupleTableSlot *fresh;
	bool		have_fresh;
	PositionGap ranges[POSITION_MAX_GAPS + 1];
	int			nranges;
	int			range;
	int			passed;			/* rows since the position was told */
	RowScan    *returned_scan;
	bool		have_returned;
	TupleTableSlot *job_of_lease;
} JobLanes;

/* tables are open; slots are made by lanes_init() and freed with the tables */
extern void lanes_init(JobLanes *lanes, RowTable *jobs, RowTable *leases);
extern void lanes_open(JobLanes *lanes, uint32 slot, const JobNames *names,
					   FlowScan *scan, TimestampTz wall_us);
/* The next ready job, oldest first; false when there is none left. */
extern bool lanes_next(JobLanes *lanes);
/* Locks the candidate; false when it is not to be had. */
extern bool lanes_lock(JobLanes *lanes);
extern void lanes_close(JobLanes *lanes);

#endif							/* QUOTA_JOB_LANES_H */
