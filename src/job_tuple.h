/*
 * job_tuple.h
 *		A row of quota.jobs in a heap tuple.
 */
#ifndef QUOTA_JOB_TUPLE_H
#define QUOTA_JOB_TUPLE_H

#include "job.h"

#include "access/htup.h"

/* What the state of a row means for the queue. */
typedef enum Standing
{
	STANDING_FRESH,
	STANDING_SCHEDULED,
	STANDING_RETRY,
	STANDING_RUNNING,
	STANDING_OVER
} Standing;

extern Standing job_tuple_standing(HeapTuple row, TupleDesc desc);

/* Throws 22023 when a name is too long. */
extern void job_tuple_name(HeapTuple row, TupleDesc desc, int column,
						   const char *argument, char out[QUOTA_NAME_LEN]);
extern void job_tuple_names(HeapTuple row, TupleDesc desc, JobNames *names);

/* A column that is never null. */
extern int64 job_tuple_int64(HeapTuple row, TupleDesc desc, int column);

#endif							/* QUOTA_JOB_TUPLE_H */
