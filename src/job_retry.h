/*
 * job_retry.h
 *		When a failed attempt is repeated.
 */
#ifndef QUOTA_JOB_RETRY_H
#define QUOTA_JOB_RETRY_H

#include "job_finish.h"

/*
 * Nanoseconds until the attempt after "attempt": random within the back-off of
 * the job's class, else its provider; above 0, and not before the provider's answer
 * asks for it.  May throw.
 */
extern int64 job_retry_delay(const JobNames *names, int32 attempt,
							 const Failure *failure);

#endif							/* QUOTA_JOB_RETRY_H */
