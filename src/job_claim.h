/*
 * job_claim.h
 *		Between the files that claim jobs: job_dequeue.c (the SQL functions),
 *		job_claim.c (the search), job_take.c (what is written), job_bury.c (what is
 *		written instead for a job that will not run).
 */
#ifndef QUOTA_JOB_CLAIM_H
#define QUOTA_JOB_CLAIM_H

#include "job_turn.h"

/* ---- job_claim.c ---- */

/*
 * Claims one job of c->slot and adds it to c->out; false when none can be had.
 * context is empty, and emptied again.  No lock held; throws.
 */
extern bool claim_one(Claimer *c, MemoryContext context);
/* The same without claiming: true when one could be had. */
extern bool claim_look(Claimer *c, MemoryContext context);

/*
 * The same for a batch of at most max_jobs; false when none can be had.
 */
extern bool claim_batch(Claimer *c, int max_jobs, MemoryContext context);

/* ---- job_take.c: the locked candidate of c->lanes ---- */

/* Its expired attempt, if it had one, lets go of its permit. */
extern void claim_end_permit(const JobLanes *lanes);
/* Claims it, charged as c->verdict says. */
extern Step claim_take(Claimer *c);

/* ---- job_bury.c: the same ---- */

/* It will not run, and is to be buried; need not be locked. */
extern bool claim_is_dead(const JobLanes *lanes);
/* Ends it, for the reason that it will not run. */
extern Step claim_bury(Claimer *c);
/* Adds to its history that the lease of its attempt has expired. */
extern void claim_note_expired(Claimer *c, RowValues *change, const char *state);

#endif							/* QUOTA_JOB_CLAIM_H */
