/*
 * stamp.h
 *		Which state of the configuration something was made of: the change counters
 *		(change_count.c) as they were when its rows were read.
 */
#ifndef QUOTA_STAMP_H
#define QUOTA_STAMP_H

#include "quota.h"

typedef struct QuotaStamp
{
	uint64		global_number;	/* of what concerns all tenants */
	uint64		tenant_number;	/* of one tenant's own rows */
	uint32		global;			/* indexes of these counters; tenant: QUOTA_NO_INDEX */
	uint32		tenant;			/* = depends on no tenant */
} QuotaStamp;

/* Nothing has changed since.  Two atomic reads. */
extern bool quota_stamp_is_current(const QuotaStamp *stamp);

#endif							/* QUOTA_STAMP_H */
