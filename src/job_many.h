/*
 * job_many.h
 *		The arrays "ids" and "attempts" of calls for many jobs.
 */
#ifndef QUOTA_JOB_MANY_H
#define QUOTA_JOB_MANY_H

#include "args.h"
#include "job_held.h"

/* One element of the arrays. */
typedef struct ManyItem
{
	int64		id;
	int32		attempt;
	int			place;			/* its index there */
} ManyItem;

/*
 * The first two arguments as n items in the order of ids and attempts, which is the
 * order to lock them in.  Throws 22004, 2202E.
 */
extern ManyItem *many_read(FunctionCallInfo fcinfo, int *n);

/*
 * Before item i, one after the other: when several have ids close to each other, their
 * rows are read together, unless this session knows where they are.  *until: an item
 * for which nothing is to be done yet, 0 at first.
 */
extern void many_read_ahead(const ManyItem *items, int n, int i, Held *h,
							int *until);

/* 2202E unless the array has one element for each id. */
extern void many_check_length(const QuotaArray *array, const char *name, int n);

/* An array that may be left out; else the same. */
extern QuotaArray many_optional(FunctionCallInfo fcinfo, int i,
								const char *name, Oid type, int n);

#endif							/* QUOTA_JOB_MANY_H */
