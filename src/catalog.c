/*
 * catalog.c
 *		OIDs of the extension's own objects, looked up once per backend.
 *
 * The relcache callback may run at any moment, also while a transaction
 * aborts, so it does nothing but clear a flag and count.  The same message
 * comes when a transaction that created the extension rolls back, so OIDs of
 * objects that never were do not stay.
 *
 * While the install script runs some relations do not exist yet.  Such an
 * incomplete catalog is usable, but it is looked up again every time.
 */
#include "catalog.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_proc.h"
#include "error.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

static const char *const relation_names[QUOTA_N_RELATIONS] = {
	[QUOTA_REL_TIERS] = "tiers",
	[QUOTA_REL_TENANTS] = "tenants",
	[QUOTA_REL_TENANTS_PKEY] = "tenants_pkey",
	[QUOTA_REL_PROVIDERS] = "providers",
	[QUOTA_REL_CLASSES] = "classes",
	[QUOTA_REL_LIMITS] = "limits",
	[QUOTA_REL_TIER_LIMITS] = "tier_limits",
	[QUOTA_REL_TENANT_LIMITS] = "tenant_limits",
	[QUOTA_REL_TENANT_LIMITS_KEY] = "tenant_limits_key",
	[QUOTA_REL_TENANT_LIMITS_EXEMPT] = "tenant_limits_exempt",
	[QUOTA_REL_TIERS_PKEY] = "tiers_pkey",
	[QUOTA_REL_COSTS] = "costs",
	[QUOTA_REL_ANSWERS] = "answers",
	[QUOTA_REL_KEYS] = "keys",
	[QUOTA_REL_KEYS_PKEY] = "keys_pkey",
	[QUOTA_REL_KEYS_CREATED] = "keys_created",
	[QUOTA_REL_BREAKERS] = "breakers",
	[QUOTA_REL_JOBS] = "jobs",
	[QUOTA_REL_JOBS_PKEY] = "jobs_pkey",
	[QUOTA_REL_JOBS_FLOW] = "jobs_flow",
	[QUOTA_REL_JOBS_DEADLINE] = "jobs_deadline",
	[QUOTA_REL_LEASES] = "leases",
	[QUOTA_REL_LEASES_PKEY] = "leases_pkey",
	[QUOTA_REL_LEASES_DUE] = "leases_due",
	[QUOTA_REL_LEASES_CANCEL] = "leases_cancel",
	[QUOTA_REL_DEDUPE] = "dedupe",
	[QUOTA_REL_DEDUPE_PKEY] = "dedupe_pkey",
	[QUOTA_REL_LEDGER] = "ledger",
	[QUOTA_REL_LEDGER_ACCOUNT] = "ledger_account",
	[QUOTA_REL_LEDGER_PKEY] = "ledger_pkey",
	[QUOTA_REL_LEDGER_PERMIT] = "ledger_permit",
	[QUOTA_REL_LEDGER_ORDER] = "ledger_order",
	[QUOTA_REL_LEDGER_EXPIRING] = "ledger_expiring",
	[QUOTA_REL_ACCOUNTS] = "ledger_accounts",
	[QUOTA_REL_ACCOUNTS_PKEY] = "ledger_accounts_pkey",
	[QUOTA_REL_EXPIRED] = "ledger_expired",
	[QUOTA_REL_EXPIRED_PKEY] = "ledger_expired_pkey",
	[QUOTA_REL_FOLDED] = "ledger_folded",
	[QUOTA_REL_FOLDS] = "ledger_folds",
	[QUOTA_REL_FOLDS_PKEY] = "ledger_folds_pkey",
	[QUOTA_REL_PERIODS] = "ledger_periods",
	[QUOTA_REL_PERIODS_PKEY] = "ledger_periods_pkey",
	[QUOTA_REL_HOLDS] = "holds",
	[QUOTA_REL_HOLDS_PKEY] = "holds_pkey",
	[QUOTA_REL_HOLDS_REFUND] = "holds_refund",
	[QUOTA_REL_EVENTS] = "events",
	[QUOTA_REL_EVENTS_PKEY] = "events_pkey",
	[QUOTA_REL_FEEDBACK] = "feedback",
	[QUOTA_REL_FEEDBACK_PKEY] = "feedback_pkey",
	[QUOTA_REL_MARKS] = "marks",
	[QUOTA_REL_PAUSES] = "pauses",
	[QUOTA_REL_PAUSES_PKEY] = "pauses_pkey",
};

static const char *const idle_trigger_names[QUOTA_N_IDLE_TRIGGERS] = {
	"jobs_before_update", "ledger_stamp", "ledger_restored", "ledger_refuse"
};

static QuotaCatalog catalog;
static bool catalog_valid = false;
static uint64 catalog_age = 0;	/* also lets a lookup notice that it was
								 * overtaken by an invalidation */

/* Relcache callback: relid is InvalidOid for "everything". */
static void
forget(Datum arg, Oid relid)
{
	if (!catalog_valid)
	{
		catalog_age++;
		return;
	}
	for (int i = 0; i < QUOTA_N_RELATIONS; i++)
	{
		if (!OidIsValid(relid) || catalog.relations[i] == relid)
		{
			catalog_valid = false;
			catalog_age++;
			return;
		}
	}
}

/* Registers the callback; once per backend, or once for all by preloading. */
void
quota_catalog_init(void)
{
	CacheRegisterRelcacheCallback(forget, (Datum) 0);
}

/* The extension and its owner.  False when it does not exist here. */
static bool
find_extension(Oid *extension, Oid *owner)
{
	Relation	rel = table_open(ExtensionRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		found;

	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber,
				F_NAMEEQ, CStringGetDatum("quota"));
	scan = systable_beginscan(rel, ExtensionNameIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	found = HeapTupleIsValid(tuple);
	if (found)
	{
		Form_pg_extension form = (Form_pg_extension) GETSTRUCT(tuple);

		*extension = form->oid;
		*owner = form->extowner;
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return found;
}

/* A trigger function in the schema, InvalidOid when it is not there. */
static Oid
find_trigger_function(Oid schema, const char *name)
{
	oidvector  *no_arguments = buildoidvector(NULL, 0);

	return GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid,
						   CStringGetDatum(name),
						   PointerGetDatum(no_arguments),
						   ObjectIdGetDatum(schema));
}

/* Fills the catalog; throws 55000 when there is no extension. */
static void
look_up(void)
{
	uint64		age = catalog_age;
	bool		complete = true;
	Oid			schema;

	catalog_valid = false;
	if (!find_extension(&catalog.extension, &catalog.owner))
		quota_error_no_extension();
	schema = get_namespace_oid("quota", true);
	for (int i = 0; i < QUOTA_N_RELATIONS; i++)
	{
		catalog.relations[i] = OidIsValid(schema) ?
			get_relname_relid(relation_names[i], schema) : InvalidOid;
		if (!OidIsValid(catalog.relations[i]))
			complete = false;
	}
	for (int i = 0; i < QUOTA_N_IDLE_TRIGGERS; i++)
		catalog.idle_triggers[i] = OidIsValid(schema) ?
			find_trigger_function(schema, idle_trigger_names[i]) : InvalidOid;
	catalog_valid = complete && age == catalog_age;
}

/* Our objects.  Throws 55000 when the extension does not exist here. */
const QuotaCatalog *
quota_catalog(void)
{
	if (!catalog_valid)
		look_up();
	return &catalog;
}

/* See catalog.h. */
Oid
quota_catalog_look(void)
{
	Oid			extension = InvalidOid;
	Oid			owner;

	InvalidateCatalogSnapshot();
	if (!find_extension(&extension, &owner))
		extension = InvalidOid;
	InvalidateCatalogSnapshot();
	return extension;
}

/* One of our tables or indexes.  Throws 55000 when it does not exist. */
Oid
quota_relation(QuotaRelation rel)
{
	Oid			relid = quota_catalog()->relations[rel];

	if (!OidIsValid(relid))
		quota_error_no_extension();
	return relid;
}

/* See catalog.h. */
uint64
quota_catalog_age(void)
{
	return catalog_age;
}

/* Goes on as the extension's owner.  Throws as quota_catalog() does. */
QuotaOwner
quota_become_owner(void)
{
	Oid			owner = quota_catalog()->owner;
	QuotaOwner	saved;

	GetUserIdAndSecContext(&saved.user, &saved.context);
	SetUserIdAndSecContext(owner, saved.context |
						   SECURITY_LOCAL_USERID_CHANGE |
						   SECURITY_NOFORCE_RLS);
	return saved;
}

/* Goes on as before quota_become_owner(). */
void
quota_become_caller(QuotaOwner saved)
{
	SetUserIdAndSecContext(saved.user, saved.context);
}
