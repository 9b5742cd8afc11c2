/*
 * job_claim.h
 *		Between the files that claim jobs: job_dequeue.c (the SQL functions),
 *		job_claim.c (the search), job_take.c (what is written).
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

/* ---- job_take.c: the locked candidate of c->lanes ---- */

/* Its lease has expired and it has no attempt left; need not be locked. */
extern bool claim_is_worn_out(const JobLanes *lanes);
/* Fails it for good. */
extern Step claim_bury(Claimer *c);
/* Claims it, charged as c->verdict says. */
extern Step claim_take(Claimer *c);

#endif							/* QUOTA_JOB_CLAIM_H */
