/*
 * config_guard.c
 *		Triggers that refuse what the constraints of the configuration tables
 *		can't: renaming, deleting what is in use, and rows that contradict
 *		rows of other tables.
 *
 * These tables have no foreign keys, so that they can be restored in any
 * order and nobody waits for a row lock.  Checks look at what is committed, and
 * at this transaction's own rows; two transactions at the same time may get
 * past them.  Then the rows that don't belong together have no effect.
 */
#include "quota.h"

#include "catalog.h"
#include "config_calendar.h"
#include "config_rate.h"
#include "config_reserve.h"
#include "config_retry.h"
#include "error.h"
#include "executor/spi.h"
#include "trigger.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

PG_FUNCTION_INFO_V1(quota_config_guard);
PG_FUNCTION_INFO_V1(quota_config_guard_delete);

/* Classes that come with the extension; a NULL class means one of them. */
static const char *const shipped_classes[] = {"interactive", "event", "batch"};

/* ---- rows ---- */

typedef bool (*RowFilter) (const ConfigScan *scan, void *arg);

/* Is there a row whose first column is the key, and which passes the filter? */
static bool
any_row(QuotaRelation rel, QuotaRelation index, const char *key,
		RowFilter filter, void *arg)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	ConfigScan	scan;
	bool		found = false;

	config_scan_begin(&scan, rel, index, key, snapshot);
	while (!found && config_scan_next(&scan))
		found = filter == NULL || filter(&scan, arg);
	config_scan_end(&scan);
	UnregisterSnapshot(snapshot);
	return found;
}

/* ---- renaming ---- */

/* 0A000 when the UPDATE changes one of the first n columns. */
static void
refuse_rename(TriggerData *td, const char *kind, int n, int name_column)
{
	for (int column = 1; column <= n; column++)
	{
		if (config_same_name(trigger_text(td, td->tg_trigtuple, column),
				 trigger_text(td, td->tg_newtuple, column)))
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot rename %s \"%s\"", kind,
						trigger_text(td, td->tg_trigtuple, name_column)),
				 errdetail("Counters, jobs and credits are kept by its name."),
				 errhint("Insert a new row, and delete the old one when nothing uses it any more.")));
	}
}

/* ---- tenants ---- */

/* 42704 for a tier that does not exist, unless there are no tiers at all yet. */
static void
check_tier(TriggerData *td, HeapTuple row)
{
	char	   *tier = trigger_text(td, row, TENANTS_TIER);

	/* in this order: a restore may commit all tiers between the two looks */
	if (tier && config_any_row(QUOTA_REL_TIERS) &&
		!any_row(QUOTA_REL_TIERS, QUOTA_REL_TIERS_PKEY, tier, NULL, NULL))
		quota_error_no_such("tier", tier);
}

/* ---- overrides ---- */

/* RowFilter: the limit of this provider and name, kept for all tenants. */
static bool
is_shared_limit(const ConfigScan *scan, void *arg)
{
	char	  **key = arg;

	return config_same_name(config_text(scan, LIMITS_PROVIDER), key[0]) &&
		config_same_name(config_text(scan, LIMITS_NAME), key[1]) &&
		(config_per(scan, LIMITS_PER) & PER_TENANT) == 0;
}

/*
 * 23514 for an amount of one tenant or tier of a bucket that all share: they
 * can only be exempt.
 */
static void
check_override(TriggerData *td, HeapTuple row)
{
	char	   *key[2] = {trigger_text(td, row, OVERRIDES_PROVIDER),
	trigger_text(td, row, OVERRIDES_NAME)};

	if (config_exempts(row, RelationGetDescr(td->tg_relation)))
		return;
	if (any_row(QUOTA_REL_LIMITS, QUOTA_N_RELATIONS, NULL, is_shared_limit, key))
		ereport(ERROR,
				(errcode(ERRCODE_CHECK_VIOLATION),
				 errmsg("limit \"%s\" cannot differ by %s", key[1],
						RelationGetRelid(td->tg_relation) ==
						quota_relation(QUOTA_REL_TIER_LIMITS) ? "tier" : "tenant"),
				 errdetail("All tenants share its buckets: its \"per\" does not include tenant."),
				 errhint("Leave amount, burst and multiplier null to exempt from the limit.")));
}

/* ---- classes ---- */

/* Does the class come with the extension? */
static bool
is_shipped(const char *class_name)
{
	for (int i = 0; i < lengthof(shipped_classes); i++)
	{
		if (config_same_name(class_name, shipped_classes[i]))
			return true;
	}
	return false;
}

/* 55000 */
static void
refuse_shipped(const char *class_name)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot delete class \"%s\"", class_name),
			 errdetail("It is one of the classes that come with the extension."),
			 errhint("Change its rank instead.")));
}

/*
 * 54000 when there is no place for another class.  Rows that the running
 * command has inserted count too.
 */
static void
check_class_count(void)
{
	ConfigScan	scan;
	int			n = 0;

	config_scan_begin(&scan, QUOTA_REL_CLASSES, QUOTA_N_RELATIONS, NULL,
					  SnapshotSelf);
	while (config_scan_next(&scan))
		n++;
	config_scan_end(&scan);
	if (n >= QUOTA_MAX_CLASSES)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("cannot have more than %d classes", QUOTA_MAX_CLASSES)));
}

/* Gives a class the values of a row; false when it isn't there. */
static bool
update_class(Oid *types, Datum *values, const char *flags)
{
	bool		updated;

	SPI_connect();
	if (SPI_execute_with_args("UPDATE quota.classes SET rank = $2, reserve = $3,"
							  " max_wait = $4, start_within = $5, max_fill = $6,"
							  " max_attempts = $7, retry_base = $8, retry_max = $9,"
							  " headroom = $10, on_exhausted = $11"
							  " WHERE class OPERATOR(pg_catalog.=) $1",
							  N_CLASSES_COLUMNS, types, values, flags, false,
							  0) != SPI_OK_UPDATE)
		elog(ERROR, "could not update class");
	updated = SPI_processed > 0;
	SPI_finish();
	return updated;
}

/*
 * An INSERT of a shipped class updates the row that is there, so that a dump
 * can be restored.  True when it did.  As the caller, who needs the right to.
 */
static bool
update_shipped(TriggerData *td)
{
	TupleDesc	desc = RelationGetDescr(td->tg_relation);
	Oid			types[N_CLASSES_COLUMNS];
	Datum		values[N_CLASSES_COLUMNS];
	bool		nulls[N_CLASSES_COLUMNS];
	char		flags[N_CLASSES_COLUMNS];
	volatile bool updated = false;

	for (int i = 0; i < N_CLASSES_COLUMNS; i++)
	{
		types[i] = TupleDescAttr(desc, i)->atttypid;
		values[i] = heap_getattr(td->tg_trigtuple, i + 1, desc, &nulls[i]);
		flags[i] = nulls[i] ? 'n' : ' ';
	}
	config_reserve_later = true;
	PG_TRY();
	{
		updated = update_class(types, values, flags);
	}
	PG_FINALLY();
	{
		config_reserve_later = false;
	}
	PG_END_TRY();
	return updated;
}

/* Row to go on with, or NULL to leave it out. */
static HeapTuple
guard_class(TriggerData *td, HeapTuple row)
{
	char	   *class_name = trigger_text(td, row, CLASSES_CLASS);

	if (TRIGGER_FIRED_BY_DELETE(td->tg_event) && is_shipped(class_name))
		refuse_shipped(class_name);
	if (TRIGGER_FIRED_BY_UPDATE(td->tg_event))
		refuse_rename(td, "class", 1, CLASSES_CLASS);
	if (TRIGGER_FIRED_BY_INSERT(td->tg_event))
	{
		if (is_shipped(class_name) && update_shipped(td))
			return NULL;
		check_class_count();
	}
	if (!TRIGGER_FIRED_BY_DELETE(td->tg_event))
		config_check_retry(QUOTA_REL_CLASSES,
						   RelationGetDescr(td->tg_relation), row);
	return row;
}

/* ---- entry points ---- */

/* Checks a row that is inserted, or updated: then row is the new version. */
static void
guard_row(TriggerData *td, HeapTuple row)
{
	TupleDesc	desc = RelationGetDescr(td->tg_relation);
	Oid			relid = RelationGetRelid(td->tg_relation);
	bool		update = TRIGGER_FIRED_BY_UPDATE(td->tg_event);

	if (relid == quota_relation(QUOTA_REL_TENANTS))
	{
		if (update)
			refuse_rename(td, "tenant", 1, TENANTS_TENANT);
		check_tier(td, row);
	}
	else if (relid == quota_relation(QUOTA_REL_PROVIDERS))
	{
		if (update)
			refuse_rename(td, "provider", 1, PROVIDERS_PROVIDER);
		config_check_rate(QUOTA_REL_PROVIDERS, desc, row);
		config_check_retry(QUOTA_REL_PROVIDERS, desc, row);
	}
	else if (relid == quota_relation(QUOTA_REL_TIERS) && update)
		refuse_rename(td, "tier", 1, TIERS_TIER);
	else if (relid == quota_relation(QUOTA_REL_LIMITS))
	{
		if (update)
			refuse_rename(td, "limit", 2, LIMITS_NAME);
		config_check_rate(QUOTA_REL_LIMITS, desc, row);
		config_check_calendar(desc, row);
	}
	else if (relid == quota_relation(QUOTA_REL_TIER_LIMITS) ||
			 relid == quota_relation(QUOTA_REL_TENANT_LIMITS))
	{
		check_override(td, row);
		config_check_rate(QUOTA_REL_TENANT_LIMITS, desc, row);
	}
}

/* BEFORE INSERT OR UPDATE, and on quota.classes also DELETE, FOR EACH ROW. */
Datum
quota_config_guard(PG_FUNCTION_ARGS)
{
	static const TriggerShape shape = {
		.function = "config_guard",.tables = CONFIG_TABLES,.before = true,
		.row = TRIGGER_ON_INSERT | TRIGGER_ON_UPDATE | TRIGGER_ON_DELETE
	};
	TriggerData *td = quota_trigger(fcinfo, &shape);
	HeapTuple	row;

	row = TRIGGER_FIRED_BY_UPDATE(td->tg_event) ? td->tg_newtuple
		: td->tg_trigtuple;
	if (RelationGetRelid(td->tg_relation) == quota_relation(QUOTA_REL_CLASSES))
		row = guard_class(td, row);
	else if (!TRIGGER_FIRED_BY_DELETE(td->tg_event))
		guard_row(td, row);
	return PointerGetDatum(row);
}

/* What still uses a row that was deleted. */
typedef struct Use
{
	QuotaRelation rel;			/* the row's table */
	const char *kind;			/* also the column with its name, unless ... */
	const char *column;			/* ... another is given */
	const char *what;
	const char *hint;
	const char *query;			/* rows of that table, "u", that count */
} Use;

#define UNFINISHED \
	"OPERATOR(pg_catalog.=) ANY ('{queued,scheduled,running}'::pg_catalog.text[])"
#define JOBS_QUERY \
	"FROM quota.jobs u WHERE u.state " UNFINISHED
#define JOBS_HINT "Wait for them, or cancel them by quota_cancel()."

/* a limit's key has its provider, "" standing for none */
#define SAME_PROVIDER \
	" AND coalesce(g.provider, '') OPERATOR(pg_catalog.=) coalesce(u.provider, '')"

static const Use uses[] = {
	{QUOTA_REL_TENANTS, "tenant", NULL, "unfinished jobs", JOBS_HINT,
	JOBS_QUERY},
	{QUOTA_REL_PROVIDERS, "provider", NULL, "unfinished jobs", JOBS_HINT,
	JOBS_QUERY},
	{QUOTA_REL_CLASSES, "class", NULL, "unfinished jobs", JOBS_HINT,
	JOBS_QUERY},
	{QUOTA_REL_TENANTS, "tenant", NULL, "open holds",
		"Settle or release them first.",
	"FROM quota.holds u WHERE true"},
	{QUOTA_REL_PROVIDERS, "provider", NULL, "open holds",
		"Settle or release them first.",
	"FROM quota.holds u WHERE true"},
	{QUOTA_REL_LIMITS, "limit", "name", "open holds",
		"Settle or release them first.",
	"FROM (SELECT l.limit_name AS name, l.provider"
	" FROM quota.holds h JOIN quota.ledger l"
	" ON l.permit OPERATOR(pg_catalog.=) h.permit) u WHERE true"},
	{QUOTA_REL_TIERS, "tier", NULL, "tenants",
		"Give them another tier first.",
	"FROM quota.tenants u WHERE true"},
};

/* 55000 */
static void
refuse_delete(const Use *use, const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot delete %s \"%s\"", use->kind, name),
			 errdetail("It has %s.", use->what),
			 errhint("%s", use->hint)));
}

/*
 * Looks for a deleted row that is in use; after a TRUNCATE all were deleted.
 * One pass over the table that uses it, whatever the number of rows deleted:
 * there is no index for this, since deleting a tenant or provider is rare and
 * jobs are many.
 * Called as the extension's owner, within SPI.
 */
static void
check_use(TriggerData *td, const Use *use)
{
	const char *column = use->column ? use->column : use->kind;
	StringInfoData query;
	SPIPlanPtr	plan;

	initStringInfo(&query);
	appendStringInfo(&query, "SELECT u.%s %s", column, use->query);
	if (!TRIGGER_FIRED_BY_TRUNCATE(td->tg_event))
		appendStringInfo(&query, " AND EXISTS (SELECT FROM gone g"
						 " WHERE g.%s OPERATOR(pg_catalog.=) u.%s%s)",
						 column, column,
						 use->rel == QUOTA_REL_LIMITS ? SAME_PROVIDER : "");
	plan = SPI_prepare(query.data, 0, NULL);
	if (plan == NULL ||
		SPI_execute_snapshot(plan, NULL, NULL, GetLatestSnapshot(),
							 InvalidSnapshot, true, false, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not look for %s", use->what);
	if (SPI_processed > 0)
		refuse_delete(use, SPI_getvalue(SPI_tuptable->vals[0],
										SPI_tuptable->tupdesc, 1));
}

/*
 * AFTER DELETE FOR EACH STATEMENT, with the transition table "gone", and AFTER
 * TRUNCATE: after, so that what was deleted by the same command is not in use.
 */
Datum
quota_config_guard_delete(PG_FUNCTION_ARGS)
{
	static const TriggerShape shape = {
		.function = "config_guard_delete",.tables = CONFIG_TABLES,
		.statement = TRIGGER_ON_DELETE | TRIGGER_ON_TRUNCATE
	};
	TriggerData *td = quota_trigger(fcinfo, &shape);
	Oid			relid;
	QuotaOwner	caller;

	relid = RelationGetRelid(td->tg_relation);
	if (TRIGGER_FIRED_BY_TRUNCATE(td->tg_event) &&
		relid == quota_relation(QUOTA_REL_CLASSES))
		refuse_shipped(shipped_classes[0]);

	if (TRIGGER_FIRED_BY_DELETE(td->tg_event) &&
		tuplestore_tuple_count(td->tg_oldtable) == 0)
		return PointerGetDatum(NULL);

	caller = quota_become_owner();
	SPI_connect();
	if (SPI_register_trigger_data(td) < 0)
		elog(ERROR, "could not register transition table");
	for (int i = 0; i < lengthof(uses); i++)
	{
		if (relid == quota_relation(uses[i].rel))
			check_use(td, &uses[i]);
	}
	SPI_finish();
	quota_become_caller(caller);
	return PointerGetDatum(NULL);
}
