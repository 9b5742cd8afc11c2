/*
 * mark_table.c
 *		quota.marks as a table: what it has to be like when rows are written in place
 *		(mark_page.c), and a guard against everybody else.
 */
#include "postgres.h"

#include "mark_page.h"

#include "access/table.h"
#include "catalog.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "commands/trigger.h"
#include "fmgr.h"
#include "mark_row.h"
#include "storage/lmgr.h"
#include "trigger.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(quota_marks_guard);

/* Throws when rows of ours would not be what they have to be. */
static Relation
check_table(Relation rel)
{
	if (rel->rd_rel->relam != HEAP_TABLE_AM_OID ||
		RelationGetNumberOfAttributes(rel) != MARK_COLUMNS)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("table \"quota.marks\" has been altered"),
				 errhint("It must be as CREATE EXTENSION has made it.")));
	if (rel->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT ||
		compat_has_new_file(rel))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("slow limits cannot be used while table \"quota.marks\" is being altered or is not logged"),
				 errhint("Commit first, or run ALTER TABLE quota.marks SET LOGGED.")));
	return rel;
}

/* See mark_page.h. */
Relation
mark_open(void)
{
	return check_table(table_open(quota_relation(QUOTA_REL_MARKS),
								  RowExclusiveLock));
}

/* See mark_page.h. */
Relation
mark_try_open(void)
{
	Oid			relid = quota_relation(QUOTA_REL_MARKS);

	if (!ConditionalLockRelationOid(relid, RowExclusiveLock))
		return NULL;
	return check_table(table_open(relid, NoLock));
}

/* What was written is for good: others need not wait for our transaction. */
void
mark_close(Relation rel)
{
	table_close(rel, RowExclusiveLock);
}

/* BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE, for each statement. */
Datum
quota_marks_guard(PG_FUNCTION_ARGS)
{
	static const TriggerShape shape = {
		.function = "marks_guard",
		.tables = TRIGGER_TABLE(QUOTA_REL_MARKS),.before = true,
		.statement = TRIGGER_ON_INSERT | TRIGGER_ON_UPDATE | TRIGGER_ON_DELETE |
		TRIGGER_ON_TRUNCATE
	};

	(void) quota_trigger(fcinfo, &shape);
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot write to quota.marks"),
			 errdetail("It says what may be spent of slow limits, for the time after a crash."),
			 errhint("A row is used again once its bucket is full.")));
	return PointerGetDatum(NULL);
}
