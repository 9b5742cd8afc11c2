/*
 * job_retry.h
 *		When a failed attempt is repeated.
 */
#ifndef QUOTA_JOB_RETRY_H
#define QUOTA_JOB_RETRY_H

#include "policy.h"

#include "utils/jsonb.h"

/*
 * Nanoseconds until the attempt after "attempt": random within the provider's
 * back-off, not before the Retry-After of headers (NULL = none).  May throw.
 */
extern int64 job_retry_delay(const QuotaCall *call, int32 attempt,
							 Jsonb *headers);

#endif							/* QUOTA_JOB_RETRY_H */
