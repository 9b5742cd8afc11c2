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
	STEP_GO_ON,					/* charged, or refused by the cost map, which
								 * the head may not go by: search for it */
	STEP_CLAIMED,
	STEP_NOTHING,				/* no job of the provider can run now */
	STEP_LEFT,					/* a flow or a job is out of the way */
	STEP_RACED
} Step;

typedef struct BatchState BatchState;

typedef struct Claimer
{
	uint32		slot;
	const char *provider;
	bool		has_worker;
	Datum		worker;
	int64		asked_lease_ns; /* 0 = the provider's */
	bool		looking;		/* nothing is taken: "charged" means that it
								 * could be, STEP_CLAIMED that a job could */
	RowTable   *jobs;
	RowTable   *leases;
	JobLanes	lanes;
	ReturnSetInfo *out;
	bool		merge_equal;	/* jobs of a batch that make equal calls */
	MemoryContext batch_context;	/* of batch_state; NULL when no batch */
	int			reclaims;		/* of full tables, for the present job */
	int			buried;			/* by this call */
	int			looks;			/* at heads, for the present job */
	int64		asleep_ns;		/* flows with a timer of then or later stay as
								 * they are for the rest of this call */

	/* of the present batch, from its first job on */
	QuotaBatchRole role;		/* of the job that is claimed next */
	BatchState *batch_state; /* job_batch.c */
	int64		batch;			/* its permit, 0 = none */
	uint32		batch_index;
	bool		in_line;		/* its first job met limits that tenants share: */
	QuotaKey	line_key;		/* of the line where it stood for them */
	TimestampTz lease_end;		/* of all its jobs, steady time */
	TimestampTz lease_until;	/* the same for people */

	/* of the present try */
	JobNames	names;
	uint32		flow;
	FlowTurn	turn;			/* how it was picked */
	QuotaKey	key;
	QuotaPlan  *plan;
	JournalMark start;			/* before the flow was pinned by a note */
	JournalMark mark;			/* before anything was taken */
	int64		now_ns;
	TimestampTz wall_us;
	int64		lease_ns;
	bool		charged;		/* for the candidate, or by the cost map */
	bool		exhausted;		/* it is to fail for want of credits, which */
	char		exhausted_by[QUOTA_NAME_LEN];	/* this limit has no more of */
	TimestampTz exhausted_until;	/* before then */
	int64		retry_ns;		/* refused for its retry budget only: retries
								 * are looked at again then; 0 = it was not */
	const char *connection;		/* of the candidate; NULL = none, or not known */
	int64		same_as;		/* the job whose call serves the candidate, 0 =
								 * its own */
	QuotaVerdict verdict;
	FlowScan	scan;
} Claimer;

/* Whose turn is it?  False when no flow is ready. */
extern bool turn_pick(Claimer *c);

/*
 * Decides by the cost map for the flow picked, if it still is its turn, and
 * charges it.  STEP_GO_ON: c->scan says where to search for its head; c->charged
 * whether that may run if it costs what the cost map says.
 */
extern Step turn_charge(Claimer *c);

/*
 * Decides for the candidate, by its own units and names if it has some, and as a
 * retry if it is one.  What was charged before is returned first.  STEP_GO_ON: it was
 * charged; or not, and c->retry_ns says so: the search is to go on without retries.
 */
extern Step turn_charge_candidate(Claimer *c);

/*
 * Begins the search for the next job of a batch: nothing is charged yet.  False
 * when the flow has none.
 */
extern bool turn_continue(Claimer *c);

/* Charges nothing for the candidate, which rides on another job's call. */
extern void turn_ride(Claimer *c);

/* The candidate is the head that c->turn asked to look at: says how old it is. */
extern Step turn_looked(Claimer *c);

/* The candidate waits since then (quota clock). */
extern int64 turn_since(const Claimer *c);

/* Returns what was charged for a candidate that was lost; no lock held. */
extern void turn_uncharge(Claimer *c);

/* The candidate needs a decision of its own. */
extern bool turn_has_own_terms(const Claimer *c);

/* Returns what a try without a claim has taken, and lets go of the flow. */
extern void turn_end(Claimer *c);

#endif							/* QUOTA_JOB_TURN_H */
