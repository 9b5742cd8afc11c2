/*
 * view_feedback.c
 *		What is learned from calls and their answers, as shared memory holds it: the
 *		functions under quota.stat_retries, quota.stat_breakers and
 *		quota.stat_adaptive.  See view.c.
 */
#include "view.h"

#include "miscadmin.h"

PG_FUNCTION_INFO_V1(quota_stat_retries);
PG_FUNCTION_INFO_V1(quota_stat_breakers);
PG_FUNCTION_INFO_V1(quota_stat_adaptive);

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

/* What a row of quota.stat_breakers needs. */
typedef struct BreakerRow
{
	Breaker		breaker;
	int64		admitted;
	int64		refused;
	char		provider[QUOTA_NAME_LEN];
	char		name[QUOTA_NAME_LEN];
} BreakerRow;

/* Copies one breaker; false when it is none of ours. */
static bool
copy_breaker(const View *view, uint32 index, BreakerRow *row)
{
	const QuotaBucket *b = &quota_buckets[index];
	QuotaSlot  *slot = view_lock_owner(view, &b->entry, LW_SHARED);
	bool		is_one = slot != NULL && b->kind == QUOTA_BREAKER;

	if (is_one)
	{
		row->breaker = b->breaker;
		row->admitted = b->admitted;
		row->refused = b->refused;
		strlcpy(row->provider, slot->provider, sizeof(row->provider));
		strlcpy(row->name, b->limit_name, sizeof(row->name));
	}
	if (slot != NULL)
		LWLockRelease(&slot->lock);
	return is_one;
}

/* Columns state, since, until, probes, calls, failures. */
static void
put_breaker(View *view, Breaker *b)
{
	static const char *const states[] = {
		[BREAKER_CLOSED] = "closed",
		[BREAKER_OPEN] = "open",
		[BREAKER_HALF_OPEN] = "half_open"
	};
	bool		probing;

	breaker_settle(b, view->now_ns);
	probing = b->state == BREAKER_HALF_OPEN;
	view_put_text(view, states[b->state]);
	view_put_instant(view, b->since_ns);
	view_put_instant(view, b->state == BREAKER_OPEN ? b->until_ns : QUOTA_NEVER);
	view_put(view, Int32GetDatum(b->n_out), !probing);
	view_put_int64(view, probing ? b->succeeded + b->failed : breaker_calls(b));
	view_put_int64(view, probing ? b->failed : breaker_failures(b));
}

/* Rows of quota.stat_breakers. */
Datum
quota_stat_breakers(PG_FUNCTION_ARGS)
{
	View		view;
	BreakerRow	row;

	if (!view_begin(&view, fcinfo))
		PG_RETURN_NULL();
	for (uint32 i = 0; i < (uint32) quota_max_buckets; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (!copy_breaker(&view, i, &row))
			continue;
		view_put_text(&view, row.provider);
		view_put_text(&view, row.name);
		put_breaker(&view, &row.breaker);
		view_put_int64(&view, row.admitted);
		view_put_int64(&view, row.refused);
		view_put_row(&view);
	}
	PG_RETURN_NULL();
}

/* What a row of quota.stat_adaptive needs. */
typedef struct AdaptiveRow
{
	Adaptive	adaptive;
	int64		capacity;
	char		provider[QUOTA_NAME_LEN];
	char		limit_name[QUOTA_NAME_LEN];
	char		label[QUOTA_LABEL_LEN];
} AdaptiveRow;

/* Copies what one bucket has learned; false when it is none of ours. */
static bool
copy_adaptive(const View *view, uint32 index, AdaptiveRow *row)
{
	const QuotaBucket *b = &quota_buckets[index];
	QuotaSlot  *slot = view_lock_owner(view, &b->entry, LW_SHARED);
	bool		is_one = slot != NULL && b->adaptive.on;

	if (is_one)
	{
		row->adaptive = b->adaptive;
		row->capacity = b->capacity;
		strlcpy(row->provider, slot->provider, sizeof(row->provider));
		strlcpy(row->limit_name, b->limit_name, sizeof(row->limit_name));
		strlcpy(row->label, b->label, sizeof(row->label));
	}
	if (slot != NULL)
		LWLockRelease(&slot->lock);
	return is_one;
}

/* A part of the whole; 0 = null. */
static void
put_part(View *view, int32 part)
{
	if (part == 0)
		view_put_null(view);
	else
		view_put_fraction(view, part, 4);
}

/* Rows of quota.stat_adaptive. */
Datum
quota_stat_adaptive(PG_FUNCTION_ARGS)
{
	View		view;
	AdaptiveRow row;

	StaticAssertStmt(ADAPTIVE_WHOLE == 10000, "four decimals");
	if (!view_begin(&view, fcinfo))
		PG_RETURN_NULL();
	for (uint32 i = 0; i < (uint32) quota_max_buckets; i++)
	{
		const Adaptive *a = &row.adaptive;

		CHECK_FOR_INTERRUPTS();
		if (!copy_adaptive(&view, i, &row))
			continue;
		view_put_text(&view, row.provider);
		view_put_text(&view, row.limit_name);
		view_put_text(&view, row.label);
		put_part(&view, a->factor);
		put_part(&view, a->good);
		put_part(&view, a->bad);
		view_put_instant(&view, a->changed_ns);
		view_put_instant(&view, a->cool_ns > view.now_ns ? a->cool_ns : QUOTA_NEVER);
		view_put_row(&view);
	}
	PG_RETURN_NULL();
}
