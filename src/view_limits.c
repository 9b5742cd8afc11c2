/*
 * view_limits.c
 *		Limits as shared memory holds them: the functions under quota.stat_buckets
 *		and quota.stat_shares.  See view.c.
 */
#include "view.h"

#include "credit.h"
#include "floor.h"
#include "flow_gate.h"
#include "miscadmin.h"
#include "permit.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(quota_stat_buckets);
PG_FUNCTION_INFO_V1(quota_stat_shares);

/* What a row of quota.stat_buckets needs. */
typedef struct BucketRow
{
	QuotaBucket bucket;
	bool		busy;
	char		provider[QUOTA_NAME_LEN];
	char		tenant[QUOTA_NAME_LEN];
} BucketRow;

/* Copies one bucket as it is now; false when it is not ours, or a breaker's. */
static bool
copy_bucket(const View *view, uint32 index, BucketRow *row)
{
	QuotaBucket *b = &quota_buckets[index];
	QuotaSlot  *slot = view_lock_owner(view, &b->entry, LW_EXCLUSIVE);

	if (slot == NULL)
		return false;
	if (b->kind == QUOTA_BREAKER)
	{
		LWLockRelease(&slot->lock);
		return false;
	}
	permit_bucket_expire(index, view->now_ns);
	row->bucket = *b;
	row->bucket.gone = credit_grants_gone(b, view->wall_us);
	row->busy = pg_atomic_read_u32(&b->pins) > pg_atomic_read_u32(&b->waiting_pins);
	strlcpy(row->provider, slot->provider, sizeof(row->provider));
	row->tenant[0] = '\0';
	/* of a bucket that several share, it is only the first who needed it */
	if (b->tenant != QUOTA_NO_INDEX && b->scope == QUOTA_SCOPE_OWN)
		strlcpy(row->tenant, tenant_of(b)->name, sizeof(row->tenant));
	LWLockRelease(&slot->lock);
	across_tell();

	if (quota_is_rate(row->bucket.kind))
		meter_settle(&row->bucket.meter, view->now_ns, view->wall_us);
	return true;
}

/* Columns period_start and period_end; calendar: it has a period of one. */
static void
put_period(View *view, const QuotaBucket *b, bool calendar)
{
	int64		begin_ns;
	int64		end_ns;

	if (quota_is_rate(b->kind) && meter_window(&b->meter, &begin_ns, &end_ns))
	{
		view_put_instant(view, begin_ns);
		view_put_instant(view, end_ns);
		return;
	}
	view_put(view, TimestampTzGetDatum(b->period_start_us), !calendar);
	view_put(view, TimestampTzGetDatum(b->period_end_us), !calendar);
}

/* Columns capacity, used, level, held, period_start, period_end. */
static void
put_amounts(View *view, const QuotaBucket *b)
{
	bool		allowance = b->kind == QUOTA_ALLOWANCE;
	bool		loaded = !allowance || b->load == QUOTA_LOAD_READY;
	bool		over = allowance && view->wall_us >= b->period_end_us;
	int64		used = quota_is_rate(b->kind) ? meter_spent(&b->meter) :
		over ? 0 : b->used + b->shadow_used - b->lapsed + b->gone;
	int64		level = quota_is_rate(b->kind) ? meter_level(&b->meter) :
		b->unknown_until_ns > view->now_ns ? 0 : Max(b->capacity - used, 0);

	view_put_int64(view, b->capacity);
	view_put(view, Int64GetDatum(used), !loaded);
	view_put(view, Int64GetDatum(level), !loaded);
	view_put(view, Int64GetDatum(b->held), !loaded || !allowance);
	put_period(view, b, loaded && allowance && !over);
}

/* Rows of quota.stat_buckets. */
Datum
quota_stat_buckets(PG_FUNCTION_ARGS)
{
	View		view;
	BucketRow  *row = palloc(sizeof(BucketRow));

	if (!view_begin(&view, fcinfo))
		PG_RETURN_NULL();
	for (uint32 i = 0; i < (uint32) quota_max_buckets; i++)
	{
		const QuotaBucket *b = &row->bucket;

		CHECK_FOR_INTERRUPTS();
		if (!copy_bucket(&view, i, row))
			continue;
		view_put_text(&view, row->provider);
		view_put_text(&view, b->limit_name);
		view_put_text(&view, b->label);
		view_put_text(&view, row->tenant);
		view_put_text(&view, quota_kind_name(b->kind));
		put_amounts(&view, b);
		if (b->unknown_until_ns > view.now_ns)
			view_put_instant(&view, b->unknown_until_ns);
		else
			view_put_null(&view);
		view_put_int64(&view, b->admitted);
		view_put_int64(&view, b->refused);
		view_put_text(&view, quota_enforcement_name(b->enforcement));
		view_put_int64(&view, b->would_refuse);
		view_put(&view, BoolGetDatum(row->busy), false);
		view_put_row(&view);
	}
	PG_RETURN_NULL();
}

/* What a row of quota.stat_shares needs. */
typedef struct ShareRow
{
	Portion		portion;
	int64		weight;			/* of all that are active */
	uint8		kind;
	char		provider[QUOTA_NAME_LEN];
	char		limit_name[QUOTA_NAME_LEN];
	char		bucket[QUOTA_LABEL_LEN];
	char		tenant[QUOTA_NAME_LEN];
} ShareRow;

/* Copies one portion as it is now; false when it is not ours. */
static bool
copy_portion(const View *view, uint32 index, ShareRow *row)
{
	QuotaPortion *p = &quota_portions[index];
	QuotaSlot  *slot = view_lock_owner(view, &p->entry, LW_EXCLUSIVE);
	QuotaBucket *b;

	if (slot == NULL)
		return false;
	b = &quota_buckets[p->bucket];
	permit_bucket_expire(p->bucket, view->now_ns);
	floor_settle(b, view->now_ns, view->wall_us);
	row->portion = p->portion;
	row->weight = b->portions.weight;
	row->kind = b->kind;
	strlcpy(row->provider, slot->provider, sizeof(row->provider));
	strlcpy(row->limit_name, b->limit_name, sizeof(row->limit_name));
	strlcpy(row->bucket, b->label, sizeof(row->bucket));
	strlcpy(row->tenant, quota_tenants[p->tenant].name, sizeof(row->tenant));
	LWLockRelease(&slot->lock);
	return true;
}

/* Rows of quota.stat_shares. */
Datum
quota_stat_shares(PG_FUNCTION_ARGS)
{
	View		view;
	ShareRow   *row = palloc(sizeof(ShareRow));

	if (!view_begin(&view, fcinfo))
		PG_RETURN_NULL();
	for (uint32 i = 0; i < (uint32) quota_max_portions(); i++)
	{
		const Portion *p = &row->portion;

		CHECK_FOR_INTERRUPTS();
		if (!copy_portion(&view, i, row) || !p->weighs)
			continue;
		view_put_text(&view, row->provider);
		view_put_text(&view, row->limit_name);
		view_put_text(&view, row->bucket);
		view_put_text(&view, row->tenant);
		view_put_fraction(&view, p->weight_milli, 3);
		view_put_fraction(&view, (int64) ((double) p->weight_milli * 10000 /
										  row->weight + 0.5), 4);
		view_put(&view, Int64GetDatum(p->in_flight), row->kind != QUOTA_CONCURRENCY);
		view_put(&view, BoolGetDatum(p->claims), false);
		view_put_row(&view);
	}
	PG_RETURN_NULL();
}
