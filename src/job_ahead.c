/*
 * job_ahead.c
 *		What one search of a flow's fresh lane leaves to the next one of the same call.
 *
 * A call for many jobs goes round the tenants, so it searches the same flow again
 * and again, each time a few entries of the index further on.  A search that has
 * claimed a job therefore notes the entries behind it: ids, and where their rows are.
 * The next search takes its candidates from there, without a descent of the index.
 *
 * THE LIST of a flow says, from an epoch of its position on:
 *
 *		Of the fresh ids up to "upto" none is ready but those in the list, and those
 *		that the transaction which made them ready has raised since the epoch, or has
 *		still to raise.
 *
 * MADE when a search ends by a claim, with the index scan it has open.  Its epoch is
 * that of the scan's present stretch, which was copied before the scan read anything.
 * An id up to the last entry noted is
 *
 * - settled then: the invariant of position.c is what the list says; or
 * - looked at and passed, or claimed: by rule 4 of position.c it might be settled up
 *	 to the raises since the epoch, which is the same.  Not so a row that was locked by
 *	 somebody who does not write it, as nobody will raise that: a search that has
 *	 skipped one leaves no list; or
 * - the head, when a job of the returned lane went before it: it is in the list; or
 * - behind that, and in the list, or not in the index when that was read: then it was
 *	 inserted later, by a transaction that raises it after the epoch.
 *
 * USED by a search that begins when nothing up to "upto" was raised since the epoch.
 * That is looked up under the lock, in the section that copies the position; so the
 * list holds from the copied epoch on, too, and what the search learns by it may
 * settle ids like what it reads in the index.  Whatever was raised, be it by a late
 * commit, a claim rolled back or somebody's update: the list is dropped, and the index
 * is read as ever.  It is kept on only if this search claims a job, too: a head that
 * was refused has been read, and is still there.
 *
 * READ in its order, which is that of the ids; what the copied position says to be
 * settled is left out.  A row is read where the entry says (row_at()), must have the
 * id, and is judged as any row of the lane.  If it is not there, for whatever reason
 * (claimed, being written, updated on its page, deleted, its place another's), the
 * index is asked from this id on.  Behind "upto" so it is, too.
 *
 * The list belongs to one call, so no transaction or subtransaction of ours ends
 * while there is one.  The flow is pinned by the claim, so it stays what it is.
 *
 * LIMITS.  A call keeps lists of AHEAD_FLOWS flows, by their numbers modulo that: one
 * forgets another.  Each has at most AHEAD_JOBS jobs.
 */
#include "job_lane.h"

#include "utils/memutils.h"

#define AHEAD_FLOWS 64
#define AHEAD_JOBS 32

typedef struct AheadJob
{
	int64		id;
	ItemPointerData tid;
} AheadJob;

struct JobAhead
{
	uint32		flow;			/* QUOTA_NO_INDEX = there is no list */
	uint64		epoch;
	int64		upto;
	int			next;			/* those before it were looked at */
	int			n;
	AheadJob	jobs[AHEAD_JOBS];
};

struct JobAheads
{
	MemoryContext context;		/* of the call */
	JobAhead   *of[AHEAD_FLOWS];	/* NULL = not used yet */
};

/* See job_lanes.h. */
void
lanes_read_ahead(JobLanes *lanes)
{
	lanes->aheads = palloc0(sizeof(JobAheads));
	lanes->aheads->context = CurrentMemoryContext;
}

/* Where the list of this flow would be. */
static JobAhead **
place_of(const JobLanes *lanes, uint32 flow)
{
	return &lanes->aheads->of[flow % AHEAD_FLOWS];
}

/* See job_lanes.h. */
void
lanes_begin(JobLanes *lanes, const FlowScan *scan)
{
	JobAhead   *ahead = lanes->aheads ? *place_of(lanes, scan->flow) : NULL;

	lanes->kept = NULL;
	if (ahead == NULL || ahead->flow != scan->flow)
		return;
	/* the search puts it back if it claims a job */
	ahead->flow = QUOTA_NO_INDEX;
	if (flow_scan_raised(scan->flow, ahead->epoch) > ahead->upto)
		lanes->kept = ahead;
}

/* ---- reading ---- */

/* The list is at its end: the index is to be read from this id on. */
static void
go_on_at(JobLanes *lanes, int64 id)
{
	while (lanes->ranges[lanes->range].hi < id)
		lanes->range++;			/* the last one is open */
	lanes->ranges[lanes->range].lo = Max(lanes->ranges[lanes->range].lo, id);
	lanes->kept = NULL;
}

/* Nobody has settled the id; those asked for rise. */
static bool
is_unsettled(JobLanes *lanes, int64 id)
{
	while (lanes->ranges[lanes->range].hi < id)
		lanes->range++;
	return lanes->ranges[lanes->range].lo <= id;
}

/* See job_lane.h. */
bool
ahead_advance(JobLanes *lanes)
{
	JobAhead   *ahead = lanes->kept;

	while (ahead->next < ahead->n)
	{
		const AheadJob *job = &ahead->jobs[ahead->next++];

		if (!is_unsettled(lanes, job->id))
			continue;
		if (!row_at(lanes->jobs, job->tid, job->id, lanes->fresh))
		{
			go_on_at(lanes, job->id);
			return false;
		}
		lanes->last_id = job->id;
		if (fresh_is_ready(lanes))
			return true;
	}
	/* a call that has used up a list may want as many again */
	lanes->first_entries = AHEAD_JOBS;
	go_on_at(lanes, ahead->upto + 1);
	return false;
}

/* ---- keeping ---- */

/* An empty list of the flow, instead of what was there. */
static JobAhead *
make_list(JobLanes *lanes)
{
	JobAhead  **place = place_of(lanes, lanes->scan->flow);

	if (*place == NULL)
		*place = MemoryContextAlloc(lanes->aheads->context, sizeof(JobAhead));
	(*place)->flow = lanes->scan->flow;
	(*place)->epoch = lanes->scan->position.epoch;
	(*place)->upto = lanes->last_id;
	(*place)->next = 0;
	(*place)->n = 0;
	return *place;
}

/* Notes what the index scan has next. */
static void
note_entries(JobLanes *lanes)
{
	JobAhead   *ahead = make_list(lanes);
	AheadJob   *job = ahead->jobs;

	if (lanes->have_fresh)
	{
		job->id = lanes->last_id;
		job->tid = lanes->fresh->tts_tid;
		job++;
	}
	while (job < ahead->jobs + AHEAD_JOBS &&
		   row_scan_entry(lanes->fresh_scan, 2, &job->id, &job->tid))
		ahead->upto = (job++)->id;
	ahead->n = (int) (job - ahead->jobs);
}

/* See job_lane.h. */
void
ahead_keep(JobLanes *lanes)
{
	JobAhead   *ahead = lanes->kept;

	/* nobody will raise what was skipped: see MADE */
	if (lanes->aheads == NULL || lanes->scan->position.skipped.n > 0)
		return;
	if (ahead)
	{
		/* a job of the returned lane went before the head */
		ahead->next -= lanes->have_fresh;
		ahead->flow = lanes->scan->flow;
		ahead->epoch = lanes->scan->position.epoch;
	}
	else if (lanes->fresh_scan)
		note_entries(lanes);
}
