/*
 * job_retry.h
 *		When a failed attempt is repeated.
 */
#ifndef QUOTA_JOB_RETRY_H
#define QUOTA_JOB_RETRY_H

#include "job.h"

/*
 * Nanoseconds until the attempt after "attempt": random within the back-off of
 * the job's class, else its provider; above 0, and at least as long as the provider
 * asks to wait.  May throw.
 */
extern int64 job_retry_delay(const JobNames *names, int32 attempt,
							 int64 wait_us);

#endif							/* QUOTA_JOB_RETRY_H */
