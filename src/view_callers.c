/*
 * view_callers.c
 *		Who calls and waits, as shared memory holds it: the functions under
 *		quota.stat_tenants, quota.stat_flows and quota.stat_permits.  See view.c.
 */
#include "view.h"

#include "flow_gate.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "permit.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"

PG_FUNCTION_INFO_V1(quota_stat_tenants);
PG_FUNCTION_INFO_V1(quota_stat_flows);
PG_FUNCTION_INFO_V1(quota_stat_permits);

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
		QuotaSlot  *slot = view_lock_owner(&view, &quota_tenants[i].entry, LW_SHARED);
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
		view_put_text(&view, provider);
		view_put_text(&view, tenant.name);
		view_put_fraction(&view, tenant.weight_milli, 3);
		view_put_int64(&view, tenant.admitted);
		view_put_int64(&view, refused);
		view_put(&view, refused_by_reason(&tenant), false);
		view_put_int64(&view, tenant.completed);
		view_put_int64(&view, tenant.places.unfinished);
		view_put_int64(&view, tenant.places.open);
		view_put_int64(&view, tenant.shed);
		view_put_int64(&view, pg_atomic_read_u32(&tenant.nbuckets));
		view_put_row(&view);
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
	QuotaSlot  *slot = view_lock_owner(view, &flow->entry, LW_SHARED);
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
		view_put_text(&view, row->provider);
		view_put_text(&view, row->tenant);
		view_put_text(&view, row->class);
		view_put_text(&view, row->flow.endpoint);
		view_put_text(&view, states[row->flow.state]);
		view_put_text(&view, row->flow.state == QUOTA_FLOW_READY ? NULL :
					  row->flow.state == QUOTA_FLOW_IDLE ?
					  quota_reason_name(QUOTA_EMPTY) :
					  quota_reason_name(row->flow.reason));
		if (row->flow.state == QUOTA_FLOW_PARKED)
			view_put_instant(&view, row->opens_ns);
		else
			view_put_null(&view);
		view_put(&view, Int64GetDatum(row->flow.depth), !row->counted);
		view_put(&view, Int64GetDatum(row->flow.in_flight), !row->counted);
		view_put_row(&view);
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

	if (permit->state == QUOTA_PERMIT_FREE || !view_slot_is_ours(view, owner))
		return false;
	slot = &quota_slots[owner];
	LWLockAcquire(&slot->lock, LW_SHARED);
	found = permit->owner == owner && view_slot_is_ours(view, owner) &&
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
		view_put_int64(&view, row.id);
		view_put_text(&view, row.provider);
		view_put_text(&view, row.tenant);
		view_put(&view, Int64GetDatum(row.job), row.job == 0);
		view_put(&view, Int32GetDatum(row.n), false);
		view_put_text(&view, row.marked ? "settling" :
					  row.state == QUOTA_PERMIT_OPEN ? "open" : "live");
		view_put(&view, BoolGetDatum(row.has_hold), false);
		view_put_instant(&view, row.expires_ns);
		view_put_row(&view);
	}
	PG_RETURN_NULL();
}
