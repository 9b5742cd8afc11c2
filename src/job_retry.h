/*
 * job_retry.h
 *		When a failed attempt is repeated.
 */
#ifndef QUOTA_JOB_RETRY_H
#define QUOTA_JOB_RETRY_H

#include "job.h"

#include "utils/jsonb.h"

/*
 * Nanoseconds until the attempt after "attempt": random within the back-off of
 * the job's class, else its provider; above 0, and not before the Retry-After of
 * headers (NULL = none).  May throw.
 */
extern int64 job_retry_delay(const JobNames *names, int32 attempt,
							 Jsonb *headers);

#endif							/* QUOTA_JOB_RETRY_H */
