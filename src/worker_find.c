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
 *
 * A slot that a database has got it keeps.  So databases are looked into only until
 * half of the slots are taken: the others are for those who come to use a database,
 * who make its slot and need more for its providers.  How many databases were left
 * out is told in the server's log.
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

/* No more slots than these are given to databases that nobody has asked for. */
static bool
is_half_full(void)
{
	return quota_shared->slot_table.n_used >= quota_shared->slot_table.size / 2;
}

/* The rest of the list is not looked into. */
static void
leave_out(void)
{
	int			n = 0;

	for (; n_unknown > 0; n_unknown--)
		n += !is_known(unknown[n_unknown - 1]);
	if (n > 0)
		ereport(LOG,
				(errmsg_plural("quota does no background work in %d database until somebody uses it there",
							   "quota does no background work in %d databases until somebody uses it there",
							   n, n),
				 errdetail("Half of the %u places of quota.max_providers are taken.",
						   quota_shared->slot_table.size),
				 errhint("Raise quota.max_providers: every provider and every database needs a place.")));
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
	if (is_half_full())
		leave_out();
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
