/*
 * job_finish.h
 *		How an attempt ends, once it is held: the core of quota_complete() and
 *		quota_fail(), for one job or for each of an array.
 */
#ifndef QUOTA_JOB_FINISH_H
#define QUOTA_JOB_FINISH_H

#include "job_held.h"
#include "report.h"

/* What quota_fail() was told; strings and headers in the caller's memory. */
typedef struct Failure
{
	const char *error;
	bool		has_status;
	int32		status;			/* of the provider */
	int64		wait_us;		/* it asked to wait so long, 0 = it didn't */
	bool		billed;
	bool		retry;
} Failure;

/*
 * Reads the arguments of these numbers; status -1: there is none, and what is told is
 * of a success.  Throws 22023.
 */
extern void finish_read_report(FunctionCallInfo fcinfo, int status, int headers,
							   int latency, Report *report);
/*
 * What a provider answered to a job's call: status, headers and latency are set.
 * Takes it in, if it says anything, and returns the microseconds it asks to wait.
 */
extern int64 finish_report(Held *h, int32 attempt, Report *report);

/* The attempt has succeeded, held by held_end(); units NULL = as estimated. */
extern void finish_complete(Held *h, bool has_result, Datum result,
							const QuotaUnits *units);

/* The held attempt has failed; returns the job's new state. */
extern const char *finish_fail(Held *h, int32 attempt, const Failure *failure);

#endif							/* QUOTA_JOB_FINISH_H */
