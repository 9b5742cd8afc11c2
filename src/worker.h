/*
 * worker.h
 *		Background work: when it is wanted, and who does it.
 */
#ifndef QUOTA_WORKER_H
#define QUOTA_WORKER_H

#include "quota.h"

#include "postmaster/bgworker.h"

/* While preloading: registers the launcher, except in a binary upgrade. */
extern void quota_worker_register(void);

/*
 * A background worker is wanted for a database at an instant of the quota
 * clock.  Never throws, takes no lock, may be called with locks held.
 */
extern void quota_work_due(uint32 database_slot, int64 at_ns);

/* Lets the launcher look now what is due.  As quota_work_due(). */
extern void quota_worker_wake(void);

/*
 * sweep.c: frees everything in shared memory of a database, or of one
 * extension in it (InvalidOid = of any), that nothing is pinned by.  Caller
 * holds no lock.  Never throws.  True if nothing is left.
 */
extern bool quota_sweep(Oid database, Oid extension);

/*
 * The same for every database that was dropped, and for extensions that were
 * dropped in this one.  In a transaction; may throw.  True if anything was
 * freed.
 */
extern bool quota_sweep_gone(void);

/* What the server starts; named by their strings. */
extern PGDLLEXPORT void quota_launcher_main(Datum arg);
extern PGDLLEXPORT void quota_worker_main(Datum arg);
extern PGDLLEXPORT void quota_finder_main(Datum arg);

/* ---- worker.c: between the parts of the launcher ---- */

/*
 * Starts a process named by its type and the database that runs this function of
 * ours.  It finds a copy of extra in its bgw_extra, and its end wakes us.  NULL when
 * none can be had now; the caller pfrees the handle.
 */
extern BackgroundWorkerHandle *quota_start_process(const char *type,
												   const char *function,
												   Oid database,
												   const void *extra, Size size);

/* ---- worker_database.c: what the launcher can learn of a database ---- */

typedef enum DatabaseState
{
	DATABASE_GONE,
	DATABASE_CLOSED,			/* takes no connections now */
	DATABASE_LOCKED,			/* quota_database_is_locked() */
	DATABASE_OPEN
} DatabaseState;

/* Shows every database to look(); open: it takes connections.  May throw. */
extern void quota_each_database(void (*look) (Oid database, bool is_template,
											  bool open, void *arg), void *arg);
/* May throw. */
extern DatabaseState quota_database_state(Oid database);
/*
 * Somebody wants it for himself: DROP DATABASE, ALTER DATABASE RENAME or SET
 * TABLESPACE, CREATE DATABASE from it.
 */
extern bool quota_database_is_locked(Oid database);

/* ---- worker_find.c: for the launcher ---- */

/* Lists the databases there are.  May throw. */
extern void quota_find_begin(void);
/*
 * Goes on looking into those that nobody knows; false when there is nothing left to
 * do.  The end of a worker of its wakes the launcher.
 */
extern bool quota_find_next(void);

/* ---- worker_chores.c ---- */

/*
 * Does everything there is to do in the database this process is connected to,
 * each in transactions of its own, and says when a worker is wanted next on the
 * quota clock.  False when something failed, and was reported.
 */
extern bool quota_chores(uint32 database_slot, Oid extension, int64 *next_ns);

#endif							/* QUOTA_WORKER_H */
