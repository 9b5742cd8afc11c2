/*
 * worker.c
 *		The processes that do background work, and when they run.
 *
 * A launcher waits until something is due and then starts a short-lived worker
 * in the database concerned: a permanent connection would block DROP DATABASE,
 * RENAME and its use as a template.  The launcher itself is connected to no
 * database, and sees only shared catalogs: so it can tell a database that was
 * dropped, or takes no connections, from one that it may start a worker in.
 *
 *	  work_due_ns of a database slot
 *			says when a worker is wanted, on the quota clock.  quota_work_due()
 *			only lowers it.  A worker takes it (sets it to never) before it
 *			looks for work, and lowers it again for what is left when it is done
 *			or has failed: so nothing that becomes due meanwhile is forgotten.
 *	  worker_pid
 *			whoever works in the database, claimed under the slot's lock: a new
 *			launcher does not know the workers of one that died.
 *	  worker_runs
 *			counts runs that did all there was.  A worker that ends without
 *			raising it has failed, and the launcher waits longer and longer
 *			before it starts the next one there.
 *
 * Databases in which work is due are served in turn, so that none has to wait for
 * more than one run of each other one, however busy they are.
 *
 * Who wants a database for himself (DROP DATABASE, RENAME, a copy of it) locks it and
 * then waits 5 seconds for others to leave.  The launcher looks for that lock while
 * workers run, and ends a worker that is in the way; its work stays due, and no other
 * one starts there before the lock is gone.
 *
 * Both waits and back-off follow real time: they go on while a test has stopped
 * the quota clock.
 *
 * No decision depends on any of this having run.
 */
#include "postgres.h"

#include "clock.h"
#include "event.h"
#include "seen.h"
#include "miscadmin.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "worker.h"

/* Not to use up max_worker_processes, whose default is 8. */
#define MAX_WORKERS			2

#define RESTART_S			10	/* of the launcher */
#define MIN_PAUSE_NS		(1 * QUOTA_NS_PER_S)	/* between two runs */
#define FIRST_BACKOFF_NS	(10 * QUOTA_NS_PER_S)
#define MAX_BACKOFF_NS		(120 * QUOTA_NS_PER_S)
#define CLOSED_PAUSE_NS		(60 * QUOTA_NS_PER_S)	/* database without access */
#define LOCKED_PAUSE_NS		(1 * QUOTA_NS_PER_S)	/* somebody wants it for himself */
#define WATCH_NS			(QUOTA_NS_PER_S / 5)	/* how often to look for that */
#define MAX_SLEEP_NS		(60 * QUOTA_NS_PER_S)
#define FIND_PAUSE_NS		(1 * QUOTA_NS_PER_S)	/* while looking for databases */

/* What the launcher knows of the workers of one database slot. */
typedef struct Place
{
	BackgroundWorkerHandle *handle; /* NULL = none is running */
	bool		ended;			/* by us */
	Oid			database;
	uint32		runs;			/* worker_runs when it was started */
	int			failures;		/* in a row */
	int64		not_before_ns;	/* real time; no start earlier */
} Place;

/* What a worker is told; passed in bgw_extra. */
typedef struct Order
{
	uint32		slot;
	Oid			database;
	Oid			extension;
} Order;

/* ---- asking for work ---- */

/* See worker.h. */
void
quota_worker_wake(void)
{
	Latch	   *latch = *(Latch *volatile *) &quota_shared->launcher_latch;

	if (latch != NULL)
		SetLatch(latch);
}

/* See worker.h. */
void
quota_work_due(uint32 database_slot, int64 at_ns)
{
	pg_atomic_uint64 *due = &quota_slots[database_slot].work_due_ns;
	uint64		old = pg_atomic_read_u64(due);

	while (at_ns < (int64) old)
		if (pg_atomic_compare_exchange_u64(due, &old, (uint64) at_ns))
		{
			quota_worker_wake();
			return;
		}
}

/* ---- the launcher ---- */

static Place *places;
static int	n_running;
static uint32 first_place;		/* whose turn it is to be served first */

/* The next start waits, the longer the more failed. */
static void
back_off(Place *place)
{
	int64		pause = FIRST_BACKOFF_NS << Min(place->failures, 4);

	place->failures++;
	place->not_before_ns = quota_raw_ns() + Min(pause, MAX_BACKOFF_NS);
}

/* Has the place's worker ended, and how? */
static void
reap(uint32 slot)
{
	Place	   *place = &places[slot];
	pid_t		pid;

	if (place->handle == NULL ||
		GetBackgroundWorkerPid(place->handle, &pid) != BGWH_STOPPED)
		return;
	pfree(place->handle);
	place->handle = NULL;
	n_running--;
	if (place->ended)
		place->not_before_ns = quota_raw_ns() + LOCKED_PAUSE_NS;
	else if (pg_atomic_read_u32(&quota_slots[slot].worker_runs) == place->runs)
		back_off(place);
	else
	{
		place->failures = 0;
		place->not_before_ns = quota_raw_ns() + MIN_PAUSE_NS;
	}
}

/*
 * When a worker is wanted, on the quota clock, and for whom; QUOTA_NEVER when
 * this is not the slot of a database.
 */
static int64
wanted_at(uint32 index, int64 now_ns, Order *order)
{
	QuotaSlot  *slot = &quota_slots[index];
	int64		at_ns = QUOTA_NEVER;
	bool		is_database;

	LWLockAcquire(&slot->lock, LW_SHARED);
	is_database = slot->entry.used && slot->provider[0] == '\0';
	if (is_database)
	{
		at_ns = (int64) pg_atomic_read_u64(&slot->work_due_ns);
		order->slot = index;
		order->database = slot->database;
		order->extension = slot->extension;
	}
	LWLockRelease(&slot->lock);
	if (is_database && at_ns > now_ns &&
		(quota_events_pending(order->database) || seen_pending(order->database)))
		at_ns = now_ns;
	return at_ns;
}

/* A process that runs this function of ours, connected to some database. */
static BackgroundWorker
describe_process(const char *type, const char *function)
{
	BackgroundWorker worker;

	memset(&worker, 0, sizeof(worker));
	strlcpy(worker.bgw_name, type, BGW_MAXLEN);
	strlcpy(worker.bgw_type, type, BGW_MAXLEN);
	strlcpy(worker.bgw_library_name, "quota", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, function, BGW_MAXLEN);
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS |
		BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	return worker;
}

/* See worker.h. */
BackgroundWorkerHandle *
quota_start_process(const char *type, const char *function, Oid database,
					const void *extra, Size size)
{
	BackgroundWorker worker = describe_process(type, function);
	BackgroundWorkerHandle *handle;
	MemoryContext turn;
	bool		started;

	snprintf(worker.bgw_name, BGW_MAXLEN, "%s for database %u", type, database);
	worker.bgw_notify_pid = MyProcPid;
	memcpy(worker.bgw_extra, extra, size);
	/* the handle outlives this turn */
	turn = MemoryContextSwitchTo(TopMemoryContext);
	started = RegisterDynamicBackgroundWorker(&worker, &handle);
	MemoryContextSwitchTo(turn);
	return started ? handle : NULL;
}

/* Ends the place's worker if somebody wants its database for himself. */
static void
make_way(Place *place)
{
	if (place->ended || !quota_database_is_locked(place->database))
		return;
	ereport(LOG,
			(errmsg("ending background worker of quota in database %u",
					place->database),
			 errdetail("Somebody wants to drop, rename or copy the database.")));
	TerminateBackgroundWorker(place->handle);
	place->ended = true;
}

/* Starts a worker, or makes the place wait. */
static void
start_worker(Place *place, const Order *order)
{
	place->runs = pg_atomic_read_u32(&quota_slots[order->slot].worker_runs);
	place->database = order->database;
	place->ended = false;
	place->handle = quota_start_process("quota worker", "quota_worker_main",
										order->database, order, sizeof(*order));
	if (place->handle != NULL)
	{
		n_running++;
		return;
	}
	if (place->failures == 0)
		ereport(LOG,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("could not start background worker of quota"),
				 errhint("Consider raising max_worker_processes.")));
	back_off(place);
}

/* Something is due in the database: start a worker if that is possible. */
static void
serve(Place *place, const Order *order)
{
	switch (quota_database_state(order->database))
	{
		case DATABASE_OPEN:
			start_worker(place, order);
			break;
		case DATABASE_LOCKED:
			place->not_before_ns = quota_raw_ns() + LOCKED_PAUSE_NS;
			break;
		case DATABASE_CLOSED:
			place->not_before_ns = quota_raw_ns() + CLOSED_PAUSE_NS;
			break;
		case DATABASE_GONE:
			if (!quota_sweep(order->database, InvalidOid))
				place->not_before_ns = quota_raw_ns() + CLOSED_PAUSE_NS;
			break;
	}
}

/*
 * One look at the place, whose worker has not ended.  Returns for how long nothing
 * will be due; true in *served when a worker was started.
 */
static int64
look_after(uint32 index, bool *served)
{
	Place	   *place = &places[index];
	int64		now_ns = quota_now_ns();
	int64		wait_ns;
	int64		at_ns;
	Order		order;

	if (place->handle != NULL)
	{
		make_way(place);
		return WATCH_NS;
	}
	if (!quota_slots[index].entry.used)
		return QUOTA_NEVER;
	at_ns = wanted_at(index, now_ns, &order);
	if (at_ns == QUOTA_NEVER)
		return QUOTA_NEVER;
	if (place->database != order.database)
		memset(place, 0, sizeof(*place));
	wait_ns = Max(at_ns - now_ns, place->not_before_ns - quota_raw_ns());
	if (wait_ns > 0)
		return wait_ns;
	/* the end of a worker wakes us */
	if (n_running == MAX_WORKERS)
		return QUOTA_NEVER;
	serve(place, &order);
	*served = place->handle != NULL;
	return *served ? WATCH_NS : place->not_before_ns - quota_raw_ns();
}

/* One look at all databases.  Returns for how long nothing will be due. */
static int64
launch(void)
{
	int64		sleep_ns = quota_find_next() ? FIND_PAUSE_NS : MAX_SLEEP_NS;
	uint32		n = (uint32) quota_max_providers;
	uint32		first = first_place;

	for (uint32 i = 0; i < n; i++)
		reap(i);
	for (uint32 i = 0; i < n; i++)
	{
		uint32		index = (first + i) % n;
		bool		served = false;
		int64		idle_ns = look_after(index, &served);

		sleep_ns = Min(sleep_ns, idle_ns);
		/* who comes after him is next, when he is due again */
		if (served)
			first_place = (index + 1) % n;
	}
	return Max(sleep_ns, 0);
}

/* before_shmem_exit callback */
static void
launcher_exit(int code, Datum arg)
{
	quota_shared->launcher_latch = NULL;
}

/* Main function of the launcher. */
void
quota_launcher_main(Datum arg)
{
	MemoryContext turn;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	quota_activate();

	places = MemoryContextAllocHuge(TopMemoryContext,
									quota_max_providers * sizeof(Place));
	memset(places, 0, quota_max_providers * sizeof(Place));
	turn = AllocSetContextCreate(TopMemoryContext, "quota launcher",
								 ALLOCSET_DEFAULT_SIZES);
	before_shmem_exit(launcher_exit, (Datum) 0);
	quota_shared->launcher_latch = MyLatch;
	quota_find_begin();

	while (!ShutdownRequestPending)
	{
		int64		sleep_ns;

		MemoryContextSwitchTo(turn);
		sleep_ns = launch();
		MemoryContextReset(turn);

		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 sleep_ns / (QUOTA_NS_PER_S / 1000) + 1,
						 quota_wait_event("QuotaLauncher"));
		ResetLatch(MyLatch);
		/* also lets DROP DATABASE go on, which waits for every process */
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
	}
	/* 0 would mean: never again */
	proc_exit(1);
}

/* ---- a worker ---- */

static Order my_order;
static bool claimed;
static bool finished;

/*
 * before_shmem_exit callback: the database has no worker any more; one that
 * failed leaves its work to the next.
 */
static void
worker_exit(int code, Datum arg)
{
	QuotaSlot  *slot = &quota_slots[my_order.slot];
	bool		mine;

	quota_lock(&slot->lock);
	mine = claimed && slot->worker_pid == MyProcPid;
	if (mine)
		slot->worker_pid = 0;
	LWLockRelease(&slot->lock);
	if (mine && !finished)
		quota_work_due(my_order.slot, quota_now_ns());
}

/* False when the slot serves another database now, or has its worker. */
static bool
claim(void)
{
	QuotaSlot  *slot = &quota_slots[my_order.slot];

	quota_lock(&slot->lock);
	claimed = slot->entry.used && slot->provider[0] == '\0' &&
		slot->database == my_order.database &&
		slot->extension == my_order.extension && slot->worker_pid == 0;
	if (claimed)
		slot->worker_pid = MyProcPid;
	LWLockRelease(&slot->lock);
	return claimed;
}

/*
 * Housekeeping neither waits for standbys, so that a shutdown need not wait for
 * it, nor for locks, nor lets stale statistics mislead it.
 */
static void
set_options(void)
{
	static const char *const options[][2] = {
		{"synchronous_commit", "local"},
		{"lock_timeout", "300ms"},
		{"search_path", "pg_catalog, pg_temp"},
		{"default_transaction_isolation", "read committed"},
		{"default_transaction_read_only", "off"},
		{"enable_seqscan", "off"},
		{"enable_hashjoin", "off"},
		{"enable_mergejoin", "off"},
	};

	for (int i = 0; i < lengthof(options); i++)
		SetConfigOption(options[i][0], options[i][1], PGC_SUSET, PGC_S_OVERRIDE);
}

/* Main function of a worker. */
void
quota_worker_main(Datum arg)
{
	QuotaSlot  *slot;
	int64		next_ns;
	bool		well;

	memcpy(&my_order, MyBgworkerEntry->bgw_extra, sizeof(my_order));
	slot = &quota_slots[my_order.slot];
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();

	before_shmem_exit(worker_exit, (Datum) 0);
	if (!claim())
		proc_exit(0);
	BackgroundWorkerInitializeConnectionByOid(my_order.database, InvalidOid, 0);
	set_options();

	pg_atomic_write_u64(&slot->work_due_ns, (uint64) QUOTA_NEVER);
	pg_memory_barrier();
	well = quota_chores(my_order.slot, my_order.extension, &next_ns);
	quota_work_due(my_order.slot, next_ns);
	finished = true;
	if (well)
		pg_atomic_fetch_add_u32(&slot->worker_runs, 1);
	proc_exit(0);
}

/* See worker.h. */
void
quota_worker_register(void)
{
	BackgroundWorker worker = describe_process("quota launcher",
											   "quota_launcher_main");

	worker.bgw_restart_time = RESTART_S;
	RegisterBackgroundWorker(&worker);
}
