/*
 * job_load.c
 *		Building the flows of a database from its rows: after a start of the
 *		server, and never again.
 *
 * PROTOCOL
 *
 * The database slot's queue_load goes EMPTY -> LOADING -> USABLE -> READY.
 *
 * LOADING: one session reads what flows need to be usable (job_load_rows.c); all
 * others wait for it.  Every writer of quota.jobs and quota.leases calls job_load()
 * before it writes its first row.  So while the queue is LOADING nobody writes:
 *
 * - A transaction that found USABLE or READY writes after the load, which has seen
 *	 none of its rows; its notes tell the flows of them.
 * - A transaction that found EMPTY becomes the loader, one that found LOADING
 *	 waits; both write after that, as above.
 * - A transaction cannot have written before LOADING was published: it would have
 *	 needed USABLE for that, which never goes back while the server runs.  None
 *	 survives the crash or restart that made the slot EMPTY: prepared transactions
 *	 are refused.
 *
 * For the same reason a loader never sees rows of its own.  Configuration that it
 * has changed itself counts as it was before.
 *
 * USABLE: claims find jobs, limits of concurrency know what is running, but a flow
 * with ready jobs may be missing, and nothing is counted.  A background worker is
 * called; it, or whoever needs to know sooner, counts (job_count.c).  A claim that
 * finds nothing needs to know: it must not say that there is no job.
 *
 * READY: everything is known.  A small queue becomes READY at once.
 *
 * WAITS.  Waiters wait for the loader alone, on a condition variable, where the
 * server detects no deadlock.  So the loader must wait for nobody who may be a
 * waiter: it gets the locks of all it is going to read, configuration included,
 * before it publishes LOADING.  If it fails, the journal sets EMPTY again and wakes
 * them.
 */
#include "job_load.h"

#include "access/table.h"
#include "catalog.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/rel.h"
#include "worker.h"

/* EMPTY becomes LOADING by us; false when it was not EMPTY. */
static bool
start_loading(uint32 database_slot)
{
	QuotaSlot  *slot = &quota_slots[database_slot];
	bool		ours;

	journal_reserve(1);
	quota_lock(&slot->lock);
	ours = slot->queue_load == QUOTA_LOAD_EMPTY;
	if (ours)
	{
		slot->queue_load = QUOTA_LOAD_LOADING;
		journal_loading_queue(database_slot);
	}
	LWLockRelease(&slot->lock);
	return ours;
}

/* LOADING becomes READY, or USABLE and somebody is wanted to count. */
static void
finish_loading(uint32 database_slot, bool counted)
{
	QuotaSlot  *slot = &quota_slots[database_slot];

	quota_lock(&slot->lock);
	slot->queue_load = counted ? QUOTA_LOAD_READY : QUOTA_LOAD_USABLE;
	journal_loaded();
	LWLockRelease(&slot->lock);
	ConditionVariableBroadcast(&slot->load_cv);
	if (!counted)
		quota_work_due(database_slot, quota_now_ns());
}

/* See job_load.h. */
void
load_wait(uint32 database_slot, bool counts)
{
	static uint32 wait_event = 0;
	QuotaSlot  *slot = &quota_slots[database_slot];
	bool		busy = true;

	if (wait_event == 0)
		wait_event = quota_wait_event("QuotaLoad");
	ConditionVariablePrepareToSleep(&slot->load_cv);
	for (;;)
	{
		LWLockAcquire(&slot->lock, LW_SHARED);
		busy = counts ? slot->counting : slot->queue_load == QUOTA_LOAD_LOADING;
		LWLockRelease(&slot->lock);
		if (!busy)
			break;
		ConditionVariableSleep(&slot->load_cv, wait_event);
	}
	ConditionVariableCancelSleep();
}

/* ---- locks ---- */

/* What is read, these two first, tables before their indexes. */
static const QuotaRelation read_relations[] = {
	QUOTA_REL_JOBS, QUOTA_REL_LEASES, QUOTA_REL_TIERS, QUOTA_REL_TENANTS,
	QUOTA_REL_TENANTS_PKEY, QUOTA_REL_PROVIDERS, QUOTA_REL_CLASSES,
	QUOTA_REL_LIMITS, QUOTA_REL_TIER_LIMITS, QUOTA_REL_TENANT_LIMITS,
	QUOTA_REL_TENANT_LIMITS_KEY, QUOTA_REL_TENANT_LIMITS_EXEMPT, QUOTA_REL_COSTS,
	QUOTA_REL_BREAKERS
};

/* See job_load.h; and their index. */
void
load_lock_toast(Relation table)
{
	Relation	toast;
	ListCell   *cell;

	if (!OidIsValid(table->rd_rel->reltoastrelid))
		return;
	toast = table_open(table->rd_rel->reltoastrelid, AccessShareLock);
	foreach(cell, RelationGetIndexList(toast))
		LockRelationOid(lfirst_oid(cell), AccessShareLock);
	table_close(toast, NoLock);
}

/* Waits for locks on all of it; throws like any statement. */
static void
lock_all(Oid relids[])
{
	for (int i = 0; i < lengthof(read_relations); i++)
	{
		relids[i] = quota_relation(read_relations[i]);
		LockRelationOid(relids[i], AccessShareLock);
	}
}

/* Configuration can be altered again; what the caller will write stays locked. */
static void
unlock_configuration(const Oid relids[])
{
	for (int i = 0; i < lengthof(read_relations); i++)
		if (read_relations[i] != QUOTA_REL_JOBS &&
			read_relations[i] != QUOTA_REL_LEASES)
			UnlockRelationOid(relids[i], AccessShareLock);
}

/* The load, by configuration that all sessions see. */
static bool
load_for_all(Relation jobs, Relation leases)
{
	bool		before = quota_policy_committed(quota_change_pending());
	bool		counted = false;

	PG_TRY();
	{
		counted = load_rows(jobs, leases);
	}
	PG_FINALLY();
	{
		quota_policy_committed(before);
	}
	PG_END_TRY();
	return counted;
}

/* One try, or the wait for another session's. */
static void
load_or_wait(uint32 database_slot)
{
	Oid			relids[lengthof(read_relations)];
	Relation	jobs;
	Relation	leases;
	bool		ours;

	lock_all(relids);
	jobs = table_open(relids[0], NoLock);
	leases = table_open(relids[1], NoLock);
	load_lock_toast(jobs);
	ours = start_loading(database_slot);
	if (ours)
		finish_loading(database_slot, load_for_all(jobs, leases));
	table_close(leases, NoLock);
	table_close(jobs, NoLock);
	unlock_configuration(relids);
	if (!ours)
		load_wait(database_slot, false);
}

/* See job.h. */
void
job_load(void)
{
	uint32		database_slot = job_database_slot();

	/* it stays so, and what follows takes the locks of the flows it uses */
	while (!flow_queue_is_usable(database_slot))
		load_or_wait(database_slot);
}
