/*
 * config_event.c
 *		Changes of tenants that people will ask about later, kept in quota.events
 *		by the transaction that makes them: another tier, suspended, resumed.
 */
#include "event.h"

#include "executor/spi.h"
#include "trigger.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(quota_tenant_event);

/* Text of a column in the old or the new row. */
static char *
column(TriggerData *td, HeapTuple row, const char *name)
{
	TupleDesc	desc = RelationGetDescr(td->tg_relation);

	return SPI_getvalue(row, desc, SPI_fnumber(desc, name));
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
	char	   *old_tier;
	char	   *new_tier;
	char	   *suspended;
	char	   *tenant;

	SPI_connect();
	tenant = column(td, td->tg_newtuple, "tenant");
	old_tier = column(td, td->tg_trigtuple, "tier");
	new_tier = column(td, td->tg_newtuple, "tier");
	suspended = column(td, td->tg_newtuple, "suspended");
	if (strcmp(old_tier, new_tier) != 0)
		event_insert(quota_wall_us(), "tier_changed", NULL, tenant,
					 psprintf("%s -> %s", old_tier, new_tier));
	if (strcmp(suspended, column(td, td->tg_trigtuple, "suspended")) != 0)
		event_insert(quota_wall_us(),
					 suspended[0] == 't' ? "suspended" : "resumed", NULL, tenant,
					 NULL);
	SPI_finish();
	return PointerGetDatum(NULL);
}
