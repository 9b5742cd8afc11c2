/*
 * trim.h
 *		Forgetting history in the background: finished jobs, events, keys
 *		of calls.
 */
#ifndef QUOTA_TRIM_H
#define QUOTA_TRIM_H

#include "quota.h"

/*
 * One transaction's part of the work; returns when it is wanted next on the quota
 * clock.  It stops at until_ns of real time.  Throws.
 *
 * Jobs are walked by id from *position on, which is where the next transaction
 * goes on.
 */
extern int64 trim_jobs(int64 *position, int64 until_ns);
extern int64 trim_events(int64 until_ns);
/* of answers of providers, as of events */
extern int64 trim_feedback(int64 until_ns);
/* keys of calls that are old, and whose permit is not open */
extern int64 trim_old_keys(int64 until_ns);

#endif							/* QUOTA_TRIM_H */
