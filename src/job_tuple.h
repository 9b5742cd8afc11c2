/*
 * job_tuple.h
 *		A row of quota.jobs as triggers get it.
 */
#ifndef QUOTA_JOB_TUPLE_H
#define QUOTA_JOB_TUPLE_H

#include "job_known.h"

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

/* Columns of the table, with some that users may have added. */
#define JOB_ROW_SPACE 40

/* Columns of a row, taken apart once.  Not to be copied. */
typedef struct JobRow
{
	TupleDesc	desc;
	Datum	   *values;
	bool	   *nulls;
	/* where they are, unless users have added more */
	Datum		values_space[JOB_ROW_SPACE];
	bool		nulls_space[JOB_ROW_SPACE];
} JobRow;

extern void job_row_read(JobRow *row, HeapTuple tuple, TupleDesc desc);
extern Standing job_row_standing(const JobRow *row);
extern Standing job_standing(TupleTableSlot *job);

/* The flow its names say; see known_flow().  Throws 22023 when one is too long. */
extern KnownFlow *job_row_flow(const JobRow *row);

/*
 * Throws 22023 for what a claim could not go by: measured units that can't be
 * charged, names that are too long; and for a dedupe key that is.
 */
extern void job_row_check(const JobRow *row);

/* A column that is not null. */
static inline Datum
job_row_get(const JobRow *row, int column)
{
	return row->values[column - 1];
}

/* The column has no value. */
static inline bool
job_row_isnull(const JobRow *row, int column)
{
	return row->nulls[column - 1];
}

/* A bigint or time that is not null. */
static inline int64
job_row_int64(const JobRow *row, int column)
{
	return DatumGetInt64(row->values[column - 1]);
}

/* Gives a column a value. */
static inline void
job_row_set(JobRow *row, int column, Datum value)
{
	row->values[column - 1] = value;
	row->nulls[column - 1] = false;
}

#endif							/* QUOTA_JOB_TUPLE_H */
