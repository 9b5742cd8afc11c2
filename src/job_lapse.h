/*
 * job_lapse.h
 *		Running jobs that somebody has asked to cancel, and whose lease has run out:
 *		their worker will not answer any more.
 */
#ifndef QUOTA_JOB_LAPSE_H
#define QUOTA_JOB_LAPSE_H

#include "job_held.h"

/*
 * Writes the locked job, whose lease is locked and over, as cancelled: the attempt
 * had no answer.  For whoever ends it, so that it does not matter who is faster.
 */
extern void job_lapse_write(Held *h);

/* Leases with a request that end then; the request has been written.  Never throws. */
extern void job_lapse_due(uint32 database_slot, TimestampTz ready_at);

/*
 * For the background worker, in its transaction: ends them as cancelled.  Says when
 * it is wanted next on the quota clock.
 */
extern int64 job_lapse_walk(int64 until_ns);

#endif							/* QUOTA_JOB_LAPSE_H */
