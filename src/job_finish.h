/*
 * job_finish.h
 *		How an attempt ends, once it is held: the core of quota_complete() and
 *		quota_fail(), for one job or for each of an array.
 */
#ifndef QUOTA_JOB_FINISH_H
#define QUOTA_JOB_FINISH_H

#include "job_held.h"

/* What quota_fail() was told; strings and headers in the caller's memory. */
typedef struct Failure
{
	const char *error;
	bool		has_status;
	int32		status;			/* of the provider */
	Jsonb	   *headers;		/* NULL = none */
	bool		billed;
	bool		retry;
} Failure;

/* The held attempt has succeeded; units NULL = as estimated. */
extern void finish_complete(Held *h, bool has_result, Datum result,
							const QuotaUnits *units);

/* The held attempt has failed; returns the job's new state. */
extern const char *finish_fail(Held *h, int32 attempt, const Failure *failure);

#endif							/* QUOTA_JOB_FINISH_H */
