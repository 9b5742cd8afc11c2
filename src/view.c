/*
 * view.c
 *		What shared memory holds of this database, as tables: the functions
 *		under the views quota.stat_*.
 *
 * Each object is copied under its owner's lock, for a moment, so that looking
 * does not hold up decisions; a row is consistent, the table as a whole need not
 * be.  What depends on the time is computed for now: buckets are refilled in the
 * copy; parts of permits whose lifetime is over are taken off for good, as the
 * next decision would do.  Capacities, rates and weights are those of the last
 * decision.
 *
 * On a standby there is nothing to see, as nothing is decided there (G15).
 */
#include "postgres.h"

#include "access/xlog.h"
#include "commands/extension.h"
#include "floor.h"
#include "flow.h"
#include "flow_gate.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "permit.h"
#include "shmem.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(quota_stat_buckets);
PG_FUNCTION_INFO_V1(quota_stat_shares);
PG_FUNCTION_INFO_V1(quota_stat_tenants);
PG_FUNCTION_INFO_V1(quota_stat_flows);
PG_FUNCTION_INFO_V1(quota_stat_permits);

#define MAX_COLUMNS 20

/* A table in the making. */
typedef struct View
{
	ReturnSetInfo *result;
	Oid			extension;
	int64		now_ns;
	TimestampTz wall_us;
	/* the row in the making */
	int			n;
	Datum		values[MAX_COLUMNS];
	bool		nulls[MAX_COLUMNS];
} View;

/* ---- the table ---- */

/* False when it stays empty. */
static bool
view_begin(View *view, FunctionCallInfo fcinfo)
{
	quota_enter();
	memset(view, 0, sizeof(*view));
	InitMaterializedSRF(fcinfo, 0);
	view->result = (ReturnSetInfo *) fcinfo->resultinfo;
	view->extension = get_extension_oid("quota", true);
	view->now_ns = quota_now_ns();
	view->wall_us = quota_wall_us();
	return !RecoveryInProgress() && OidIsValid(view->extension);
}

/* The next column of the row. */
static void
put(View *view, Datum value, bool isnull)
{
	Assert(view->n < MAX_COLUMNS);
	view->values[view->n] = value;
	view->nulls[view->n++] = isnull;
}

/* The same, a number. */
static void
put_int64(View *view, int64 value)
{
	put(view, Int64GetDatum(value), false);
}

/* "" means NULL */
static void
put_text(View *view, const char *value)
{
	if (value == NULL || value[0] == '\0')
		put(view, (Datum) 0, true);
	else
		put(view, CStringGetTextDatum(value), false);
}

/* The same, null. */
static void
put_null(View *view)
{
	put(view, (Datum) 0, true);
}

/* An instant of the quota clock, as the wall clock will show it. */
static void
put_instant(View *view, int64 at_ns)
{
	TimestampTz at_us = view->wall_us +
		(at_ns - view->now_ns) / QUOTA_NS_PER_US;

	put(view, TimestampTzGetDatum(at_us), at_ns == QUOTA_NEVER);
}

/* Adds the row to the table and begins the next one. */
static void
put_row(View *view)
{
	Assert(view->n == view->result->setDesc->natts);
	tuplestore_putvalues(view->result->setResult, view->result->setDesc,
						 view->values, view->nulls);
	view->n = 0;
}

/* ---- objects ---- */

/* Is the slot one of this database's extension?  Its lock may be held or not. */
static inline bool
is_ours(const View *view, uint32 slot)
{
	return slot < (uint32) quota_max_providers &&
		quota_slots[slot].database == MyDatabaseId &&
		quota_slots[slot].extension == view->extension;
}

/*
 * Locks the owner of an object if both are ours; the first look, without the
 * lock, only saves taking it.
 */
static QuotaSlot *
lock_owner(const View *view, const QuotaEntry *entry, LWLockMode mode)
{
	uint32		owner = *(const volatile uint32 *) &entry->owner;
	QuotaSlot  *slot;

	if (!entry->used || !is_ours(view, owner))
		return NULL;
	slot = &quota_slots[owner];
	LWLockAcquire(&slot->lock, mode);
	if (entry->used && entry->owner == owner && is_ours(view, owner))
		return slot;
	LWLockRelease(&slot->lock);
	return NULL;
}

/* What a row of quota.stat_buckets needs. */
typedef struct BucketRow
{
	QuotaBucket bucket;
	bool		busy;
	char		provider[QUOTA_NAME_LEN];
	char		tenant[QUOTA_NAME_LEN];
} BucketRow;

/* Copies one bucket as it is now; false when it is not ours. */
static bool
copy_bucket(const View *view, uint32 index, BucketRow *row)
{
	QuotaBucket *b = &quota_buckets[index];
	QuotaSlot  *slot = lock_owner(view, &b->entry, LW_EXCLUSIVE);

	if (slot == NULL)
		return false;
	permit_bucket_expire(index, view->now_ns);
	row->bucket = *b;
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
		put_instant(view, begin_ns);
		put_instant(view, end_ns);
		return;
	}
	put(view, TimestampTzGetDatum(b->period_start_us), !calendar);
	put(view, TimestampTzGetDatum(b->period_end_us), !calendar);
}

/* Columns capacity, used, level, held, period_start, period_end. */
static void
put_amounts(View *view, const QuotaBucket *b)
{
	bool		allowance = b->kind == QUOTA_ALLOWANCE;
	bool		loaded = !allowance || b->load == QUOTA_LOAD_READY;
	bool		over = allowance && view->wall_us >= b->period_end_us;
	int64		used = quota_is_rate(b->kind) ? meter_spent(&b->meter) :
		over ? 0 : b->used + b->shadow_used;
	int64		level = quota_is_rate(b->kind) ? meter_level(&b->meter) :
		b->unknown_until_ns > view->now_ns ? 0 : Max(b->capacity - used, 0);

	put_int64(view, b->capacity);
	put(view, Int64GetDatum(used), !loaded);
	put(view, Int64GetDatum(level), !loaded);
	put(view, Int64GetDatum(b->held), !loaded || !allowance);
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
		put_text(&view, row->provider);
		put_text(&view, b->limit_name);
		put_text(&view, b->label);
		put_text(&view, row->tenant);
		put_text(&view, quota_kind_name(b->kind));
		put_amounts(&view, b);
		if (b->unknown_until_ns > view.now_ns)
			put_instant(&view, b->unknown_until_ns);
		else
			put_null(&view);
		put_int64(&view, b->admitted);
		put_int64(&view, b->refused);
		put_text(&view, quota_enforcement_name(b->enforcement));
		put_int64(&view, b->would_refuse);
		put(&view, BoolGetDatum(row->busy), false);
		put_row(&view);
	}
	PG_RETURN_NULL();
}

/* {"rate_limited": 3, ...}, without the reasons that did not occur */
static Datum
refused_by_reason(const QuotaTenant *tenant)
{
	StringInfoData json;

	initStringInfo(&json);
	for (int i = 0; i < QUOTA_N_REASONS; i++)
		if (tenant->refused[i] > 0)
			appendStringInfo(&json, "%s\"%s\": " INT64_FORMAT,
							 json.len > 0 ? ", " : "{",
							 quota_reason_name(i), tenant->refused[i]);
	appendStringInfoString(&json, json.len > 0 ? "}" : "{}");
	return DirectFunctionCall1(jsonb_in, CStringGetDatum(json.data));
}

/* Rows of quota.stat_tenants. */
Datum
quota_stat_tenants(PG_FUNCTION_ARGS)
{
	View		view;

	if (!view_begin(&view, fcinfo))
		PG_RETURN_NULL();
	for (int i = 0; i < quota_max_tenants; i++)
	{
		QuotaSlot  *slot = lock_owner(&view, &quota_tenants[i].entry, LW_SHARED);
		QuotaTenant tenant;
		char		provider[QUOTA_NAME_LEN];
		int64		refused = 0;

		CHECK_FOR_INTERRUPTS();
		if (slot == NULL)
			continue;
		tenant = quota_tenants[i];
		strlcpy(provider, slot->provider, sizeof(provider));
		LWLockRelease(&slot->lock);

		for (int r = 0; r < QUOTA_N_REASONS; r++)
			refused += tenant.refused[r];
		put_text(&view, provider);
		put_text(&view, tenant.name);
		put(&view, NumericGetDatum(int64_div_fast_to_numeric(tenant.weight_milli,
															 3)), false);
		put_int64(&view, tenant.admitted);
		put_int64(&view, refused);
		put(&view, refused_by_reason(&tenant), false);
		put_int64(&view, tenant.completed);
		put_int64(&view, tenant.places.unfinished);
		put_int64(&view, tenant.places.open);
		put_int64(&view, tenant.shed);
		put_int64(&view, pg_atomic_read_u32(&tenant.nbuckets));
		put_row(&view);
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
	QuotaSlot  *slot = lock_owner(view, &p->entry, LW_EXCLUSIVE);
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
		put_text(&view, row->provider);
		put_text(&view, row->limit_name);
		put_text(&view, row->bucket);
		put_text(&view, row->tenant);
		put(&view, NumericGetDatum(int64_div_fast_to_numeric(p->weight_milli, 3)),
			false);
		put(&view, NumericGetDatum(int64_div_fast_to_numeric(
									   (int64) ((double) p->weight_milli * 10000 /
												row->weight + 0.5), 4)), false);
		put(&view, Int64GetDatum(p->in_flight), row->kind != QUOTA_CONCURRENCY);
		put(&view, BoolGetDatum(p->claims), false);
		put_row(&view);
	}
	PG_RETURN_NULL();
}

/* What a row of quota.stat_flows needs. */
typedef struct FlowRow
{
	QuotaFlow	flow;
	int64		opens_ns;
	bool		counted;		/* depth and in_flight are right */
	char		provider[QUOTA_NAME_LEN];
	char		tenant[QUOTA_NAME_LEN];
	char		class[QUOTA_NAME_LEN];
} FlowRow;

/* Copies one flow; false when it is not ours. */
static bool
copy_flow(const View *view, uint32 index, FlowRow *row)
{
	QuotaFlow  *flow = &quota_flows[index];
	QuotaSlot  *slot = lock_owner(view, &flow->entry, LW_SHARED);
	QuotaShare *share;

	if (slot == NULL)
		return false;
	share = share_of(flow);
	row->flow = *flow;
	row->opens_ns = flow_opens_ns(flow);
	row->counted = flow_queue_is_counted(flow->entry.owner);
	strlcpy(row->provider, slot->provider, sizeof(row->provider));
	strlcpy(row->tenant, tenant_of(share)->name, sizeof(row->tenant));
	strlcpy(row->class, slot->classes[share->class_index].name,
			sizeof(row->class));
	LWLockRelease(&slot->lock);
	return true;
}

/* Rows of quota.stat_flows. */
Datum
quota_stat_flows(PG_FUNCTION_ARGS)
{
	static const char *const states[] = {
		[QUOTA_FLOW_IDLE] = "idle",
		[QUOTA_FLOW_READY] = "ready",
		[QUOTA_FLOW_PARKED] = "parked",
	};
	View		view;
	FlowRow    *row = palloc(sizeof(FlowRow));

	if (!view_begin(&view, fcinfo))
		PG_RETURN_NULL();
	for (uint32 i = 0; i < (uint32) quota_max_flows; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (!copy_flow(&view, i, row))
			continue;
		put_text(&view, row->provider);
		put_text(&view, row->tenant);
		put_text(&view, row->class);
		put_text(&view, row->flow.endpoint);
		put_text(&view, states[row->flow.state]);
		put_text(&view, row->flow.state == QUOTA_FLOW_READY ? NULL :
				 row->flow.state == QUOTA_FLOW_IDLE ?
				 quota_reason_name(QUOTA_EMPTY) :
				 quota_reason_name(row->flow.reason));
		if (row->flow.state == QUOTA_FLOW_PARKED)
			put_instant(&view, row->opens_ns);
		else
			put_null(&view);
		put(&view, Int64GetDatum(row->flow.depth), !row->counted);
		put(&view, Int64GetDatum(row->flow.in_flight), !row->counted);
		put_row(&view);
	}
	PG_RETURN_NULL();
}

/* What a row of quota.stat_permits needs. */
typedef struct PermitRow
{
	int64		id;
	int64		job;
	int64		expires_ns;
	int32		n;
	uint8		state;
	bool		marked;
	bool		has_hold;
	char		provider[QUOTA_NAME_LEN];
	char		tenant[QUOTA_NAME_LEN];
} PermitRow;

/* Copies one permit; false when it is not open in this database. */
static bool
copy_permit(const View *view, const QuotaPermit *permit, PermitRow *row)
{
	uint32		owner = *(const volatile uint32 *) &permit->owner;
	QuotaSlot  *slot;
	bool		found;

	if (permit->state == QUOTA_PERMIT_FREE || !is_ours(view, owner))
		return false;
	slot = &quota_slots[owner];
	LWLockAcquire(&slot->lock, LW_SHARED);
	found = permit->owner == owner && is_ours(view, owner) &&
		permit->expires_ns > view->now_ns &&
		(permit->state == QUOTA_PERMIT_OPEN ||
		 permit->state == QUOTA_PERMIT_LIVE);
	row->id = permit->id;
	row->job = permit->job;
	row->expires_ns = permit->expires_ns;
	row->n = permit->n;
	row->state = permit->state;
	row->marked = permit->marked;
	row->has_hold = permit->has_hold;
	strlcpy(row->provider, slot->provider, sizeof(row->provider));
	row->tenant[0] = '\0';
	if (found && permit->tenant != QUOTA_NO_INDEX)
		strlcpy(row->tenant, tenant_of(permit)->name, sizeof(row->tenant));
	LWLockRelease(&slot->lock);
	return found;
}

/* Rows of quota.stat_permits. */
Datum
quota_stat_permits(PG_FUNCTION_ARGS)
{
	View		view;
	PermitRow	row;

	if (!view_begin(&view, fcinfo))
		PG_RETURN_NULL();
	for (int i = 0; i < quota_max_permits; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (!copy_permit(&view, &quota_permits[i], &row))
			continue;
		put_int64(&view, row.id);
		put_text(&view, row.provider);
		put_text(&view, row.tenant);
		put(&view, Int64GetDatum(row.job), row.job == 0);
		put(&view, Int32GetDatum(row.n), false);
		put_text(&view, row.marked ? "settling" :
				 row.state == QUOTA_PERMIT_OPEN ? "open" : "live");
		put(&view, BoolGetDatum(row.has_hold), false);
		put_instant(&view, row.expires_ns);
		put_row(&view);
	}
	PG_RETURN_NULL();
}
