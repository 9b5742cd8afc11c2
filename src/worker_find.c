/*
 * worker_find.c
 *		Finding the databases whose queue has to be loaded.
 *
 * After a crash or a promotion nothing in shared memory says which databases have
 * jobs, and nobody but a session there would find out: the launcher sees only
 * shared catalogs.  So when it starts it sends a short-lived worker to each database
 * it knows nothing of, one after the other.  That one looks whether there are any
 * jobs and, if so, makes the database's slot, whose first work is to load the queue.
 * Nobody has to wait for this: whoever comes first loads what he needs.
 *
 * Templates are left out: nobody works there, and they must not be disturbed while
 * they are being copied.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "shmem.h"
#include "storage/bufmgr.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "worker.h"

/* ---- in the launcher ---- */

/* Room in the list at first. */
#define FIRST_SIZE 64

static Oid *unknown;			/* databases to look into, from the last on */
static int	n_unknown;
static BackgroundWorkerHandle *finder;	/* NULL = none is running */

/* For quota_each_database(): it is to be looked into; arg: room in the list. */
static void
note_database(Oid database, bool is_template, bool open, void *arg)
{
	int		   *size = arg;

	if (!open || is_template)
		return;
	if (n_unknown == *size)
		unknown = repalloc(unknown, (*size *= 2) * sizeof(Oid));
	unknown[n_unknown++] = database;
}

/* See worker.h. */
void
quota_find_begin(void)
{
	int			size = FIRST_SIZE;

	unknown = MemoryContextAlloc(TopMemoryContext, size * sizeof(Oid));
	quota_each_database(note_database, &size);
}

/* Some slot belongs to the database; may miss one that is just being made. */
static bool
is_known(Oid database)
{
	for (int i = 0; i < quota_max_providers; i++)
		if (quota_slots[i].entry.used && quota_slots[i].database == database &&
			quota_slots[i].provider[0] == '\0')
			return true;
	return false;
}

/* Sends a worker to the database; false when none can be had now. */
static bool
start_finder(Oid database)
{
	finder = quota_start_process("quota finder", "quota_finder_main", database,
								 &database, sizeof(database));
	return finder != NULL;
}

/* See worker.h. */
bool
quota_find_next(void)
{
	pid_t		pid;

	if (finder != NULL)
	{
		if (GetBackgroundWorkerPid(finder, &pid) != BGWH_STOPPED)
			return true;
		pfree(finder);
		finder = NULL;
	}
	while (n_unknown > 0)
	{
		Oid			database = unknown[n_unknown - 1];

		if (!is_known(database) && !start_finder(database))
			return true;
		n_unknown--;
		if (finder != NULL)
			return true;
	}
	return false;
}

/* ---- the worker ---- */

/* The database has jobs, finished or not. */
static bool
has_jobs(void)
{
	Relation	jobs = table_open(quota_relation(QUOTA_REL_JOBS), AccessShareLock);
	bool		any = RelationGetNumberOfBlocks(jobs) > 0;

	table_close(jobs, AccessShareLock);
	return any;
}

/* Main function of the worker. */
void
quota_finder_main(Datum arg)
{
	Oid			database;
	Oid			extension;

	memcpy(&database, MyBgworkerEntry->bgw_extra, sizeof(database));
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(database, InvalidOid, 0);
	SetConfigOption("lock_timeout", "300ms", PGC_SUSET, PGC_S_OVERRIDE);

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	extension = get_extension_oid("quota", true);
	if (OidIsValid(extension) && has_jobs())
		(void) quota_slot(MyDatabaseId, extension, "");
	PopActiveSnapshot();
	CommitTransactionCommand();
	proc_exit(0);
}
