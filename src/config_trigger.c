/*
 * config_trigger.c
 *		Triggers that every configuration table has: one stamps rows with when
 *		they were made and changed, one notes the change for the end of the
 *		transaction (change.c).
 *
 * Both are ENABLE ALWAYS: rows that come by logical replication count as any
 * others, and get stamps of this cluster.
 *
 * Stamps.  created_epoch is the crash epoch a row was inserted in, changed_ns
 * and changed_epoch say when a column that takes part in a rate last changed;
 * these columns are the arguments of the stamping trigger.  Where both are kept,
 * changed_ns is negative as long as the row has not changed since it was made; a limit
 * that is made again under its name has changed (mark_restore.c).
 */
#include "change.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "config.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "mark.h"
#include "shmem.h"
#include "trigger.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

PG_FUNCTION_INFO_V1(quota_config_stamp);
PG_FUNCTION_INFO_V1(quota_config_changed);

/* ---- comparing ---- */

/* Columns that users don't set. */
static bool
is_internal(const char *name)
{
	return strcmp(name, "created_epoch") == 0 ||
		strcmp(name, "changed_epoch") == 0 ||
		strcmp(name, "changed_ns") == 0;
}

/* Is one column the same in both rows?  Byte for byte: 1.0 is not 1.00. */
static bool
same_column(TupleDesc desc, int column, HeapTuple a, HeapTuple b)
{
	Form_pg_attribute att = TupleDescAttr(desc, column - 1);
	bool		a_null;
	bool		b_null;
	Datum		a_value = heap_getattr(a, column, desc, &a_null);
	Datum		b_value = heap_getattr(b, column, desc, &b_null);

	if (a_null || b_null)
		return a_null && b_null;
	return datum_image_eq(a_value, b_value, att->attbyval, att->attlen);
}

/* Did the UPDATE change anything a user can set? */
static bool
row_changed(TriggerData *td)
{
	TupleDesc	desc = RelationGetDescr(td->tg_relation);

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped && !is_internal(NameStr(att->attname)) &&
			!same_column(desc, i + 1, td->tg_trigtuple, td->tg_newtuple))
			return true;
	}
	return false;
}

/* Did the UPDATE change one of the columns named in the trigger? */
static bool
argument_changed(TriggerData *td)
{
	TupleDesc	desc = RelationGetDescr(td->tg_relation);

	for (int i = 0; i < td->tg_trigger->tgnargs; i++)
	{
		int			column = SPI_fnumber(desc, td->tg_trigger->tgargs[i]);

		if (column <= 0)
			elog(ERROR, "column \"%s\" does not exist",
				 td->tg_trigger->tgargs[i]);
		if (!same_column(desc, column, td->tg_trigtuple, td->tg_newtuple))
			return true;
	}
	return false;
}

/* ---- stamping ---- */

/* Columns to replace in a row. */
typedef struct Stamps
{
	int			n;
	int			columns[3];
	Datum		values[3];
	bool		nulls[3];
} Stamps;

/* Sets a column to a value, or, if old is given, to what it was there. */
static void
stamp(Stamps *stamps, TupleDesc desc, const char *name, int64 value,
	  HeapTuple old)
{
	int			column = SPI_fnumber(desc, name);
	int			i = stamps->n;

	if (column <= 0)
		return;
	stamps->columns[i] = column;
	stamps->values[i] = Int64GetDatum(value);
	stamps->nulls[i] = false;
	if (old)
		stamps->values[i] = heap_getattr(old, column, desc, &stamps->nulls[i]);
	stamps->n++;
}

/* A new row is of a limit whose buckets know one of that name, and what it spent. */
static bool
is_made_again(TriggerData *td)
{
	HeapTuple	row = td->tg_trigtuple;
	char	   *name;

	if (RelationGetRelid(td->tg_relation) != quota_relation(QUOTA_REL_LIMITS))
		return false;
	name = trigger_text(td, row, LIMITS_NAME);
	return name != NULL &&
		mark_limit_is_used(trigger_text(td, row, LIMITS_PROVIDER), name);
}

/* BEFORE INSERT OR UPDATE FOR EACH ROW. */
Datum
quota_config_stamp(PG_FUNCTION_ARGS)
{
	static const TriggerShape shape = {
		.function = "config_stamp",.tables = CONFIG_TABLES,.before = true,
		.row = TRIGGER_ON_INSERT | TRIGGER_ON_UPDATE
	};
	TriggerData *td = quota_trigger(fcinfo, &shape);
	Stamps		stamps = {0};
	HeapTuple	old = NULL;
	HeapTuple	row;
	HeapTuple	unchanged;
	TupleDesc	desc;
	int64		now_ns = quota_now_ns();

	desc = RelationGetDescr(td->tg_relation);
	row = td->tg_trigtuple;
	if (TRIGGER_FIRED_BY_UPDATE(td->tg_event))
	{
		old = td->tg_trigtuple;
		row = td->tg_newtuple;
	}
	unchanged = old && !argument_changed(td) ? old : NULL;
	if (old == NULL && SPI_fnumber(desc, "created_epoch") > 0 && !is_made_again(td))
		now_ns = -now_ns;
	stamp(&stamps, desc, "created_epoch", quota_shared->crash_epoch, old);
	stamp(&stamps, desc, "changed_epoch", quota_shared->crash_epoch, unchanged);
	stamp(&stamps, desc, "changed_ns", now_ns, unchanged);
	if (stamps.n > 0)
		row = heap_modify_tuple_by_cols(row, desc, stamps.n, stamps.columns,
										stamps.values, stamps.nulls);
	return PointerGetDatum(row);
}

/* ---- noting ---- */

/*
 * Did somebody else see this row, or an older version of it?  A row written by
 * this transaction may have replaced one that others see, unless it inserted
 * the tenant itself.
 */
static bool
row_existed(HeapTuple row, const char *tenant)
{
	TransactionId xmin = HeapTupleHeaderGetXmin(row->t_data);

	return !TransactionIdIsCurrentTransactionId(xmin) ||
		!change_is_new(tenant);
}

/* Has the tenant a row that others see? */
static bool
tenant_existed(const char *tenant)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	ConfigScan	scan;
	bool		existed;

	config_scan_begin(&scan, QUOTA_REL_TENANTS, QUOTA_REL_TENANTS_PKEY, tenant,
					  snapshot);
	existed = config_scan_next(&scan) && row_existed(scan.tuple, tenant);
	config_scan_end(&scan);
	UnregisterSnapshot(snapshot);
	return existed;
}

/* Has a column changed that takes part in a rate?  It was stamped then. */
static ChangeRate
changed_rate(TriggerData *td)
{
	TupleDesc	desc = RelationGetDescr(td->tg_relation);
	int			stamp = SPI_fnumber(desc, "changed_ns");

	return stamp > 0 && !same_column(desc, stamp, td->tg_trigtuple, td->tg_newtuple)
		? CHANGE_RATE : CHANGE_NO_RATE;
}

/*
 * A row of quota.tenants; renaming is refused, so one name is enough.  A new tenant
 * has no buckets, and nothing limits one that is deleted.
 */
static void
note_tenant(TriggerData *td)
{
	HeapTuple	row = td->tg_trigtuple;
	char	   *tenant = trigger_text(td, row, TENANTS_TENANT);

	if (TRIGGER_FIRED_BY_INSERT(td->tg_event))
		change_note(CHANGE_TENANT_NEW, tenant, false, CHANGE_NO_RATE);
	else
		change_note(CHANGE_TENANT, tenant, row_existed(row, tenant),
					TRIGGER_FIRED_BY_UPDATE(td->tg_event) ? changed_rate(td)
					: CHANGE_RATE);
}

/* One version of a row of quota.tenant_limits. */
static void
note_tenant_limit(TriggerData *td, HeapTuple row, ChangeRate rate)
{
	char	   *tenant = trigger_text(td, row, OVERRIDES_OWNER);

	change_note(CHANGE_TENANT, tenant, tenant_existed(tenant), rate);
	if (config_exempts(row, RelationGetDescr(td->tg_relation)))
		change_note(CHANGE_HINT, NULL, false, CHANGE_NO_RATE);	/* has_exempt */
}

/* Does the row, or its old version, no longer override what it did? */
static bool
override_dropped(TriggerData *td)
{
	TupleDesc	desc = RelationGetDescr(td->tg_relation);

	if (TRIGGER_FIRED_BY_DELETE(td->tg_event))
		return true;
	if (!TRIGGER_FIRED_BY_UPDATE(td->tg_event))
		return false;
	for (int column = OVERRIDES_OWNER; column <= OVERRIDES_NAME; column++)
	{
		if (!same_column(desc, column, td->tg_trigtuple, td->tg_newtuple))
			return true;
	}
	return false;
}

/* Has an account lost the provider, and maybe the lowest safety of its own? */
static bool
account_left(TriggerData *td)
{
	return TRIGGER_FIRED_BY_DELETE(td->tg_event) ||
		(TRIGGER_FIRED_BY_UPDATE(td->tg_event) &&
		 !same_column(RelationGetDescr(td->tg_relation), PROVIDERS_ACCOUNT,
					  td->tg_trigtuple, td->tg_newtuple));
}

/* What a row that concerns everybody does to rates. */
static ChangeRate
rate_of(TriggerData *td, Oid relid)
{
	if ((relid == quota_relation(QUOTA_REL_TIER_LIMITS) && override_dropped(td)) ||
		(relid == quota_relation(QUOTA_REL_PROVIDERS) && account_left(td)))
		return CHANGE_RATE_DROPPED;
	if (TRIGGER_FIRED_BY_UPDATE(td->tg_event))
		return changed_rate(td);
	return relid == quota_relation(QUOTA_REL_TIERS) ||
		relid == quota_relation(QUOTA_REL_LIMITS) ||
		relid == quota_relation(QUOTA_REL_TIER_LIMITS) ||
		relid == quota_relation(QUOTA_REL_PROVIDERS) ? CHANGE_RATE : CHANGE_NO_RATE;
}

/* Notes the change of one row. */
static void
note_row(TriggerData *td)
{
	Oid			relid = RelationGetRelid(td->tg_relation);

	if (relid == quota_relation(QUOTA_REL_TENANTS))
		note_tenant(td);
	else if (relid == quota_relation(QUOTA_REL_TENANT_LIMITS))
	{
		note_tenant_limit(td, td->tg_trigtuple, override_dropped(td)
						  ? CHANGE_RATE_DROPPED : CHANGE_RATE);
		if (TRIGGER_FIRED_BY_UPDATE(td->tg_event))
			note_tenant_limit(td, td->tg_newtuple, CHANGE_RATE);
	}
	else
		change_note(relid == quota_relation(QUOTA_REL_TIERS) ? CHANGE_WEIGHTS
					: CHANGE_GLOBAL, NULL, false, rate_of(td, relid));
}

/*
 * AFTER INSERT OR UPDATE OR DELETE FOR EACH ROW, and AFTER TRUNCATE, which
 * concerns everybody whatever the table is.
 */
Datum
quota_config_changed(PG_FUNCTION_ARGS)
{
	static const TriggerShape shape = {
		.function = "config_changed",.tables = CONFIG_TABLES,
		.row = TRIGGER_ON_INSERT | TRIGGER_ON_UPDATE | TRIGGER_ON_DELETE,
		.statement = TRIGGER_ON_TRUNCATE
	};
	TriggerData *td = quota_trigger(fcinfo, &shape);

	if (TRIGGER_FIRED_BY_TRUNCATE(td->tg_event))
		change_note(CHANGE_WEIGHTS, NULL, false, CHANGE_RATE_DROPPED);
	else if (!TRIGGER_FIRED_BY_UPDATE(td->tg_event) || row_changed(td))
		note_row(td);
	return PointerGetDatum(NULL);
}
