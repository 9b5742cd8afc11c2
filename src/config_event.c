/*
 * config_event.c
 *		Changes of tenants that people will ask about later, kept in quota.events
 *		by the transaction that makes them: another tier, suspended, resumed.
 */
#include "catalog.h"

#include "commands/trigger.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(quota_tenant_event);

/* Writes one event, with the rights of the extension's owner. */
static void
insert_event(const char *kind, const char *tenant, const char *detail)
{
	Oid			types[] = {TIMESTAMPTZOID, TEXTOID, TEXTOID, TEXTOID};
	Datum		values[4];
	QuotaOwner	saved = quota_become_owner();

	values[0] = TimestampTzGetDatum(quota_wall_us());
	values[1] = CStringGetTextDatum(kind);
	values[2] = CStringGetTextDatum(tenant);
	values[3] = detail ? CStringGetTextDatum(detail) : (Datum) 0;
	if (SPI_execute_with_args("INSERT INTO quota.events (at, kind, tenant, detail)"
							  " VALUES ($1, $2, $3, $4)",
							  lengthof(types), types, values,
							  detail ? "    " : "   n",
							  false, 0) != SPI_OK_INSERT)
		elog(ERROR, "could not write an event");
	quota_become_caller(saved);
}

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
	TriggerData *td = (TriggerData *) fcinfo->context;
	char	   *old_tier;
	char	   *new_tier;
	char	   *suspended;
	char	   *tenant;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function must be called by a trigger")));
	SPI_connect();
	tenant = column(td, td->tg_newtuple, "tenant");
	old_tier = column(td, td->tg_trigtuple, "tier");
	new_tier = column(td, td->tg_newtuple, "tier");
	suspended = column(td, td->tg_newtuple, "suspended");
	if (strcmp(old_tier, new_tier) != 0)
		insert_event("tier_changed", tenant,
					 psprintf("%s -> %s", old_tier, new_tier));
	if (strcmp(suspended, column(td, td->tg_trigtuple, "suspended")) != 0)
		insert_event(suspended[0] == 't' ? "suspended" : "resumed", tenant, NULL);
	SPI_finish();
	return PointerGetDatum(NULL);
}
