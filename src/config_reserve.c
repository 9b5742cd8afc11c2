/*
 * config_reserve.c
 *		Triggers that keep the reserves of all classes together at 1 or less.
 *
 * PROTOCOL
 *
 * A statement that writes quota.classes first takes a lock of its own kind, in a
 * BEFORE STATEMENT trigger, and keeps it until its transaction ends; so no two open
 * transactions have written the table, and the sum that the AFTER STATEMENT trigger
 * sees, committed rows and its own, is what will be true at COMMIT.
 *
 * The lock is taken before the statement has locked a row, and conflicts with
 * nothing else.  So two statements, whatever rows they write and in whatever order,
 * never wait for each other in a circle: the second has nothing yet that the first
 * may want.  A stronger lock on the table itself would not do, since both already
 * hold a weaker one; a lock taken in a row trigger would not either, since the row
 * is locked by then.  Readers, and so all decisions and claims, take no notice.
 */
#include "quota.h"

#include "catalog/pg_class.h"
#include "config.h"
#include "config_reserve.h"
#include "storage/lmgr.h"
#include "trigger.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

PG_FUNCTION_INFO_V1(quota_config_reserve_lock);
PG_FUNCTION_INFO_V1(quota_config_reserve_check);

/* See config_reserve.h. */
bool		config_reserve_later = false;

/* What makes the lock differ from others on the table. */
#define LOCK_SUBOBJECT 1

/* BEFORE INSERT OR UPDATE FOR EACH STATEMENT. */
Datum
quota_config_reserve_lock(PG_FUNCTION_ARGS)
{
	static const TriggerShape shape = {
		.function = "config_reserve_lock",
		.tables = TRIGGER_TABLE(QUOTA_REL_CLASSES),.before = true,
		.statement = TRIGGER_ON_INSERT | TRIGGER_ON_UPDATE
	};
	TriggerData *td = quota_trigger(fcinfo, &shape);

	LockDatabaseObject(RelationRelationId, RelationGetRelid(td->tg_relation),
					   LOCK_SUBOBJECT, ExclusiveLock);
	return PointerGetDatum(NULL);
}

/* The sum over all rows, those that the running command wrote too. */
static Numeric
sum_of_reserves(void)
{
	Numeric		sum = int64_to_numeric(0);
	ConfigScan	scan;

	config_scan_begin(&scan, QUOTA_REL_CLASSES, QUOTA_N_RELATIONS, NULL,
					  SnapshotSelf);
	while (config_scan_next(&scan))
		sum = DatumGetNumeric(DirectFunctionCall2(numeric_add,
												  NumericGetDatum(sum),
												  NumericGetDatum(config_numeric(&scan, CLASSES_RESERVE))));
	config_scan_end(&scan);
	return sum;
}

/* AFTER INSERT OR UPDATE FOR EACH STATEMENT.  23514. */
Datum
quota_config_reserve_check(PG_FUNCTION_ARGS)
{
	static const TriggerShape shape = {
		.function = "config_reserve_check",
		.tables = TRIGGER_TABLE(QUOTA_REL_CLASSES),
		.statement = TRIGGER_ON_INSERT | TRIGGER_ON_UPDATE
	};
	Numeric		sum;

	quota_trigger(fcinfo, &shape);
	if (config_reserve_later)
		return PointerGetDatum(NULL);
	sum = sum_of_reserves();
	if (DatumGetBool(DirectFunctionCall2(numeric_gt, NumericGetDatum(sum),
										 NumericGetDatum(int64_to_numeric(1)))))
		ereport(ERROR,
				(errcode(ERRCODE_CHECK_VIOLATION),
				 errmsg("reserves of classes exceed 1"),
				 errdetail("They would add up to %s.",
						   DatumGetCString(DirectFunctionCall1(numeric_out,
															   NumericGetDatum(sum)))),
				 errhint("Lower the reserve of another class first.")));
	return PointerGetDatum(NULL);
}
