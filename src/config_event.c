/*
 * config_event.c
 *		Changes of tenants that people will ask about later, kept in quota.events
 *		by the transaction that makes them: another tier, suspended, resumed.
 */
#include "event.h"

#include "access/htup_details.h"
#include "config.h"
#include "trigger.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(quota_tenant_event);

/* The tenant is suspended by this row. */
static bool
is_suspended(const TriggerData *td, HeapTuple row)
{
	bool		isnull;

	return DatumGetBool(heap_getattr(row, TENANTS_SUSPENDED,
									 RelationGetDescr(td->tg_relation), &isnull));
}

/* AFTER UPDATE OF tier, suspended ON quota.tenants, for each row. */
Datum
quota_tenant_event(PG_FUNCTION_ARGS)
{
	static const TriggerShape shape = {
		.function = "tenant_event",.tables = TRIGGER_TABLE(QUOTA_REL_TENANTS),
		.row = TRIGGER_ON_UPDATE
	};
	TriggerData *td = quota_trigger(fcinfo, &shape);
	char	   *tenant = trigger_text(td, td->tg_newtuple, TENANTS_TENANT);
	char	   *old_tier = trigger_text(td, td->tg_trigtuple, TENANTS_TIER);
	char	   *new_tier = trigger_text(td, td->tg_newtuple, TENANTS_TIER);
	bool		suspended = is_suspended(td, td->tg_newtuple);

	if (strcmp(old_tier, new_tier) != 0)
		event_insert(quota_wall_us(), "tier_changed", NULL, tenant,
					 psprintf("%s -> %s", old_tier, new_tier));
	if (suspended != is_suspended(td, td->tg_trigtuple))
		event_insert(quota_wall_us(), suspended ? "suspended" : "resumed", NULL,
					 tenant, NULL);
	return PointerGetDatum(NULL);
}
