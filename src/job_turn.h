/*
 * job_turn.h
 *		Whose turn it is, and whether it may: the part of a claim that decides.
 */
#ifndef QUOTA_JOB_TURN_H
#define QUOTA_JOB_TURN_H

#include "decide.h"
#include "job_lanes.h"

#include "funcapi.h"

/* How a try, or a part of it, ended. */
typedef enum Step
{
	STEP_GO_ON,					/* charged: search for the job */
	STEP_CLAIMED,
	STEP_NOTHING,				/* no job of the provider can run now */
	STEP_LEFT,					/* a flow or a job is out of the way */
	STEP_RACED
} Step;

typedef struct Claimer
{
	uint32		slot;
	const char *provider;
	bool		has_worker;
	Datum		worker;
	int64		asked_lease_ns; /* 0 = the provider's */
	RowTable   *jobs;
	RowTable   *leases;
	JobLanes	lanes;
	ReturnSetInfo *out;
	int			reclaims;		/* of full tables, for the present job */

	/* of the present try */
	JobNames	names;
	uint32		flow;
	QuotaKey	key;
	QuotaPlan  *plan;
	JournalMark start;			/* before the flow was pinned by a note */
	JournalMark mark;			/* before anything was taken */
	int64		now_ns;
	TimestampTz wall_us;
	int64		lease_ns;
	QuotaVerdict verdict;
	FlowScan	scan;
} Claimer;

/* Whose turn is it?  False when no flow is ready. */
extern bool turn_pick(Claimer *c);

/*
 * Decides for the flow picked, if it still is its turn, and charges it.
 * STEP_GO_ON: it may run, c->scan says where to search.
 */
extern Step turn_charge(Claimer *c);

/*
 * Decides anew for the units and connection of the candidate, or by the cost map
 * when the candidate is no more; what was charged before is returned first.
 */
extern Step turn_charge_again(Claimer *c, bool by_candidate);

/* Returns what a try without a claim has taken, and lets go of the flow. */
extern void turn_end(Claimer *c);

#endif							/* QUOTA_JOB_TURN_H */
