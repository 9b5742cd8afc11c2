/*
 * decide_help.c
 *		What a decision needs that cannot be had under its locks: rows that must be
 *		read first, or room in a table of shared memory.  No lock is held here.
 */
#include "decide.h"

#include "credit.h"
#include "error.h"
#include "examine.h"
#include "floor.h"
#include "job.h"
#include "mark.h"
#include "pause_table.h"
#include "permit.h"

/* Reclaims one call may need before it gives up. */
#define MAX_RECLAIMS 2

/* Throws 53400 for the table, or the ceiling, that has no place left. */
static void
table_is_full(const QuotaPlan *plan, DecideTable table)
{
	switch (table)
	{
		case DECIDE_TABLE_TENANT_BUCKETS:
			quota_error_tenant_buckets(plan->tenant, QUOTA_TENANT_CEILING);
			break;
		case DECIDE_TABLE_BUCKETS:
			quota_table_full("bucket", "quota.max_buckets", quota_max_buckets);
			break;
		case DECIDE_TABLE_TENANTS:
			quota_table_full("tenant", "quota.max_tenants", quota_max_tenants);
			break;
		case DECIDE_TABLE_PORTIONS:
			quota_table_full("portion", "quota.max_tenants", quota_max_portions());
			break;
		case DECIDE_TABLE_PERMITS:
			if (permit_has_part(plan->tenant_index))
				quota_error_tenant_permits(plan->tenant);
			quota_table_full("permit", "quota.max_permits", quota_max_permits);
			break;
	}
}

/* The tenant has all places of buckets that it may ever have, whatever is free. */
static bool
is_at_ceiling(const QuotaPlan *plan, DecideTable table)
{
	return table == DECIDE_TABLE_TENANT_BUCKETS &&
		pg_atomic_read_u32(&quota_tenants[plan->tenant_index].nbuckets) >=
		(uint32) QUOTA_TENANT_CEILING;
}

/* Forgets idle buckets: the tenant's own first.  False when that has made no room. */
static bool
make_bucket_room(const QuotaPlan *plan, DecideTable table)
{
	uint32		keep[QUOTA_MAX_TERMS];

	if (table != DECIDE_TABLE_BUCKETS && table != DECIDE_TABLE_TENANT_BUCKETS)
		return false;
	/* new ones are full, too: one would make room for the next, and so on */
	for (int i = 0; i < plan->nterms; i++)
		keep[i] = plan->terms[i].bucket;
	return quota_reclaim_buckets(plan->tenant_index, keep, plan->nterms) ||
		(!is_at_ceiling(plan, table) &&
		 quota_reclaim_buckets(QUOTA_NO_INDEX, keep, plan->nterms));
}

/* See decide.h. */
void
quota_decide_help(DecideResult result, QuotaPlan *plan, int what,
				  int *reclaims)
{
	if (result == DECIDE_LOAD)
		credit_load(plan, what);
	else if (result == DECIDE_READ_LAPSED)
		credit_lapse_read(&plan->terms[what]);
	else if (result == DECIDE_LOAD_MARK)
		mark_load(&plan->terms[what]);
	else if (result == DECIDE_LOAD_QUEUE)
		job_load();
	else if (result == DECIDE_LOAD_PAUSES)
		pause_load();
	else if (!make_bucket_room(plan, (DecideTable) what) &&
			 (is_at_ceiling(plan, (DecideTable) what) ||
			  (*reclaims)++ >= MAX_RECLAIMS || !quota_reclaim()))
		table_is_full(plan, (DecideTable) what);
}
