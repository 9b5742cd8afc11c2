/*
 * view_feedback.c
 *		What is learned from calls and their answers, as shared memory holds it: the
 *		function under quota.stat_retries.  See view.c.
 */
#include "view.h"

#include "miscadmin.h"

PG_FUNCTION_INFO_V1(quota_stat_retries);

/* What a row of quota.stat_retries needs. */
typedef struct RetryRow
{
	RetryBudget budget;
	bool		own;			/* a tenant's */
	int64		refused;
	char		provider[QUOTA_NAME_LEN];
	char		tenant[QUOTA_NAME_LEN];
} RetryRow;

/* Copies one retry budget as it is now; false when it is none of ours. */
static bool
copy_budget(const View *view, uint32 index, RetryRow *row)
{
	const QuotaBucket *b = &quota_buckets[index];
	QuotaSlot  *slot = view_lock_owner(view, &b->entry, LW_SHARED);
	bool		is_one = slot != NULL && b->kind == QUOTA_RETRIES;

	if (is_one)
	{
		row->budget = b->meter.u.retries;
		row->own = b->scope == QUOTA_SCOPE_OWN;
		row->refused = b->refused;
		strlcpy(row->provider, slot->provider, sizeof(row->provider));
		row->tenant[0] = '\0';
		if (row->own && b->tenant != QUOTA_NO_INDEX)
			strlcpy(row->tenant, tenant_of(b)->name, sizeof(row->tenant));
	}
	if (slot != NULL)
		LWLockRelease(&slot->lock);
	retry_settle(&row->budget, view->now_ns);
	return is_one;
}

/* Rows of quota.stat_retries. */
Datum
quota_stat_retries(PG_FUNCTION_ARGS)
{
	View		view;
	RetryRow	row;

	memset(&row, 0, sizeof(row));
	if (!view_begin(&view, fcinfo))
		PG_RETURN_NULL();
	for (uint32 i = 0; i < (uint32) quota_max_buckets; i++)
	{
		int64		firsts;
		int64		retries;

		CHECK_FOR_INTERRUPTS();
		if (!copy_budget(&view, i, &row))
			continue;
		firsts = retry_firsts(&row.budget);
		retries = retry_retries(&row.budget);
		view_put_text(&view, row.provider);
		view_put_text(&view, row.tenant);
		view_put_int64(&view, firsts);
		view_put_int64(&view, retries);
		if (firsts + retries > 0)
			view_put_fraction(&view, (int64) ((double) retries * 10000 /
											  (firsts + retries) + 0.5), 4);
		else
			view_put_null(&view);
		view_put_int64(&view, Max(retry_level(&row.budget), 0));
		view_put_int64(&view, row.refused);
		view_put_row(&view);
	}
	PG_RETURN_NULL();
}
