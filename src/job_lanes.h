/*
 * job_lanes.h
 *		The ready jobs of one flow, in order, out of its two lanes.
 */
#ifndef QUOTA_JOB_LANES_H
#define QUOTA_JOB_LANES_H

#include "flow.h"
#include "job.h"

/* In the order of the returned lane. */
typedef struct LanePlace
{
	TimestampTz at;				/* ready_at */
	int64		id;
} LanePlace;

typedef struct JobAhead JobAhead;
typedef struct JobAheads JobAheads;

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
	bool		charged;		/* a job that costs what the cost map says may
								 * run */

	/* the candidate, after lanes_next() */
	int64		id;
	bool		returned;		/* it comes from quota.leases */
	bool		was_running;	/* by an expired lease */
	int64		due_ns;			/* returned: when to look at it, */
	TimestampTz ready_at;		/* and ready_at of its row */
	TupleTableSlot *job;
	TupleTableSlot *lease;

	/* what the search has learned; of the returned lane: in scan */
	int64		last_id;		/* fresh ids up to here were looked at, 0 = none */
	int64		fresh_id;		/* the first ready fresh job, the candidate or
								 * not; POSITION_NONE = none */

	/* private */
	RowScan    *fresh_scan;
	TupleTableSlot *fresh;
	bool		have_fresh;
	PositionGap ranges[POSITION_MAX_GAPS + 1];
	int			nranges;
	int			range;
	int			first_entries;	/* to read at first; 0 = that was done */
	int64		range_lo;		/* where the present range begins */
	JobAheads  *aheads;			/* of this call; NULL = it wants but one job */
	JobAhead   *kept;			/* what the one before has left; NULL = nothing */
	int			passed;			/* rows since the position was told */
	RowScan    *returned_scan;
	bool		have_returned;
	ScanKeyData from[2];		/* where it began */
	bool		ahead;			/* it ends LOOK_AHEAD_US from now */
	bool		ahead_ended;	/* and has, with nothing due */
	LanePlace	left;			/* the first one left in the returned lane */
	TupleTableSlot *job_of_lease;
} JobLanes;

/* tables are open; slots are made by lanes_init() and freed with the tables */
extern void lanes_init(JobLanes *lanes, RowTable *jobs, RowTable *leases);
extern void lanes_open(JobLanes *lanes, uint32 slot, const JobNames *names,
					   FlowScan *scan, TimestampTz wall_us, bool charged);
/* From here on searches leave to the next ones of their flow what they have read. */
extern void lanes_read_ahead(JobLanes *lanes);
/* Right after flow_scan_begin(), with the slot's lock. */
extern void lanes_begin(JobLanes *lanes, const FlowScan *scan);
/* The next ready job, oldest first; false when there is none left. */
extern bool lanes_next(JobLanes *lanes);
/*
 * The candidate is a retry, and these are not to be had before due_ns: goes on without.
 */
extern void lanes_leave_retries(JobLanes *lanes, int64 due_ns);
/* Locks the candidate; false when it is not to be had. */
extern bool lanes_lock(JobLanes *lanes);
/* claimed: the search has claimed the candidate, so the flow is pinned. */
extern void lanes_close(JobLanes *lanes, bool claimed);

#endif							/* QUOTA_JOB_LANES_H */
