/*
 * job_where.h
 *		Where the rows of jobs are that this session has claimed.
 */
#ifndef QUOTA_JOB_WHERE_H
#define QUOTA_JOB_WHERE_H

#include "postgres.h"

#include "storage/itemptr.h"

typedef struct JobWhere
{
	int64		id;				/* 0 = none */
	ItemPointerData job;		/* for row_at() */
	ItemPointerData lease;
} JobWhere;

extern void where_claimed(int64 id, ItemPointerData job, ItemPointerData lease);
/* NULL = not known; a guess, as the rows may have moved. */
extern const JobWhere *where_is(int64 id);

#endif							/* QUOTA_JOB_WHERE_H */
