/*
 * worker_database.c
 *		What the launcher, which is connected to no database, can learn of one: from
 *		pg_database, and from locks.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "storage/lock.h"
#include "utils/snapmgr.h"
#include "worker.h"

/* See worker.h. */
void
quota_each_database(void (*look) (Oid database, bool is_template, bool open,
								  void *arg), void *arg)
{
	Relation	rel;
	TableScanDesc scan;
	HeapTuple	tuple;

	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	rel = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(rel, 0, NULL);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		Form_pg_database form = (Form_pg_database) GETSTRUCT(tuple);

		look(form->oid, form->datistemplate,
			 form->datallowconn && form->datconnlimit >= -1, arg);
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	CommitTransactionCommand();
}

/* What is asked of one database. */
typedef struct Look
{
	Oid			database;
	DatabaseState state;
} Look;

/* Is it this one? */
static void
look_at(Oid database, bool is_template, bool open, void *arg)
{
	Look	   *l = arg;

	if (database == l->database)
		l->state = open ? DATABASE_OPEN : DATABASE_CLOSED;
}

/* See worker.h. */
bool
quota_database_is_locked(Oid database)
{
	LOCKTAG		tag;

	/* that of whoever connects, who would wait */
	SET_LOCKTAG_OBJECT(tag, InvalidOid, DatabaseRelationId, database, 0);
	if (LockAcquire(&tag, RowExclusiveLock, true, true) == LOCKACQUIRE_NOT_AVAIL)
		return true;
	LockRelease(&tag, RowExclusiveLock, true);
	return false;
}

/* See worker.h. */
DatabaseState
quota_database_state(Oid database)
{
	Look		l = {database, DATABASE_GONE};

	quota_each_database(look_at, &l);
	if (l.state == DATABASE_OPEN && quota_database_is_locked(database))
		return DATABASE_LOCKED;
	return l.state;
}
