/*
 * job_retry.c
 *		When a failed attempt is repeated: exponential back-off with full jitter
 *		(random in (0, base * 2^(attempt - 1)], so that jobs that failed together
 *		don't come back together), never before what the provider asked for.
 */
#include "job_retry.h"

#include "common/pg_prng.h"

/* base * 2^(attempt - 1), at most max, at least 1. */
static int64
backoff_ns(int64 base_ns, int64 max_ns, int32 attempt)
{
	int64		ns = Max(base_ns, 1);

	for (int32 i = 1; i < attempt && ns < max_ns; i++)
		ns = Min(ns, PG_INT64_MAX / 2) * 2;
	return Max(Min(ns, max_ns), 1);
}

/* See job_retry.h. */
int64
job_retry_delay(const JobNames *names, int32 attempt, int64 wait_us)
{
	QuotaJobPolicy policy = quota_job_policy(names->provider,
											 names->class_name);
	int64		most = backoff_ns(policy.retry_base_ns, policy.retry_max_ns,
								  attempt);

	return Max((int64) pg_prng_uint64_range(&pg_global_prng_state, 1,
											(uint64) most),
			   wait_us * QUOTA_NS_PER_US);
}
