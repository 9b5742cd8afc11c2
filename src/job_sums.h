/*
 * job_sums.h
 *		What rows of quota.jobs say of the flows they belong to; private to the
 *		files that load and count a queue.
 */
#ifndef QUOTA_JOB_SUMS_H
#define QUOTA_JOB_SUMS_H

#include "flow.h"
#include "job_tuple.h"

#include "utils/hsearch.h"
#include "utils/snapshot.h"

/* Flows are found by hash; the few whose hashes collide are numbered from 0. */
typedef struct FlowTag
{
	int64		hash;
	int64		number;
} FlowTag;

typedef struct FlowSum
{
	FlowTag		tag;			/* hash key */
	JobNames	names;
	FlowRows	rows;
} FlowSum;

typedef struct JobSums
{
	HTAB	   *flows;			/* of FlowSum */
	int64		last_id;		/* the greatest that was read */
	int64		now_ns;
} JobSums;

/* No sums; in the current memory context. */
extern void sums_init(JobSums *sums);
/* NULL when there are not so many flows with this hash. */
extern FlowSum *sums_find(const JobSums *sums, int64 hash, int64 number);
/* The sum of a flow, made when it is the first; here by names, there by a row. */
extern FlowSum *sums_of_names(JobSums *sums, const JobNames *names);
extern FlowSum *sums_of_job(JobSums *sums, TupleTableSlot *job);

/*
 * Adds the unfinished jobs that the snapshot shows, and says of each flow with one
 * in the returned lane that something is due now.
 */
extern void sums_read(JobSums *sums, Relation jobs, Snapshot snapshot);
/* Tells the flows; makes those that are missing.  Throws 53400. */
extern void sums_publish(JobSums *sums);

#endif							/* QUOTA_JOB_SUMS_H */
