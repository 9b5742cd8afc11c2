/*
 * job_history.h
 *		quota.jobs.history: what happened to a job that did not simply run and
 *		succeed.
 */
#ifndef QUOTA_JOB_HISTORY_H
#define QUOTA_JOB_HISTORY_H

#include "job.h"

/* Entries kept, the newest; named in the column's COMMENT. */
#define JOB_HISTORY_ENTRIES	50
/* Bytes kept of an error, in whole characters; so is this. */
#define JOB_HISTORY_ERROR	1000

/* Values of "state" in an entry */
#define HAPPENED_FAILED		"failed"	/* the attempt failed */
#define HAPPENED_EXPIRED	"expired"	/* its lease ended first */
#define HAPPENED_CANCELLED	"cancelled"
#define HAPPENED_MISSED		"missed"	/* it was not started in time */
#define HAPPENED_REQUEUED	"requeued"

/* Error of a job or an attempt that ended so. */
#define JOB_LEASE_EXPIRED	"lease expired"

/* One entry.  What is not known is left out of it. */
typedef struct JobHappening
{
	const char *state;			/* one of the above */
	bool		has_status;
	int32		status;
	const char *error;			/* NULL = not known, as for the next */
	const char *worker;
} JobHappening;

/*
 * Adds an entry to what the change makes of the job's history, with its present
 * attempt and the wall clock.  The job is as it was before the change.  Allocates
 * in the current context; throws only when out of memory.
 */
extern void job_history_add(TupleTableSlot *job, RowValues *change,
							const JobHappening *happened);

#endif							/* QUOTA_JOB_HISTORY_H */
