/*
 * job_batch.h
 *		What the jobs of one batch share, and how they leave it.
 */
#ifndef QUOTA_JOB_BATCH_H
#define QUOTA_JOB_BATCH_H

#include "job_turn.h"

#include "utils/hsearch.h"

/* Most jobs of one batch. */
#define QUOTA_MAX_BATCH 200

/* ---- while a batch is claimed ---- */

/* The candidate has been claimed as first of the batch; c->plan charged it. */
extern void batch_begin(Claimer *c);

/* The call of this plan is counted in the same concurrency as the batch. */
extern bool batch_fits(const Claimer *c, const QuotaPlan *plan);

/*
 * merge_equal: the job of the batch that makes the candidate's very call, 0 = none.
 */
extern int64 batch_find_twin(const Claimer *c);
/* The candidate was claimed and makes a call of its own. */
extern void batch_add_call(Claimer *c);

/* ---- when an attempt ends: what its row of quota.leases, locked, names ---- */

/* The job leaves its batch, if it is in one, at commit.  No lock held. */
extern void batch_leave(TupleTableSlot *lease);
/* The lease is over: ends its permit as a lost one, and leaves the batch. */
extern void batch_end_lost(TupleTableSlot *lease);
/* The permit, and that of the batch, live to expires_ns at least. */
extern void batch_extend(TupleTableSlot *lease, int64 expires_ns);

/* ---- after a crash, by the loader of the queue ---- */

/* Collects the batches of running jobs in the current memory context. */
extern HTAB *batch_load_begin(void);
/* call, with all it points to, must live until batch_load_end() */
extern void batch_load_add(HTAB *batches, TupleTableSlot *lease,
						   const QuotaCall *call);
/* Restores their permits.  Throws 53400. */
extern void batch_load_end(HTAB *batches);

#endif							/* QUOTA_JOB_BATCH_H */
