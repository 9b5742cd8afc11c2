/*
 * job_load.c
 *		Building the flows of a database from its rows: after a start of the
 *		server, and never again.
 *
 * PROTOCOL
 *
 * The database slot's queue_load goes EMPTY -> LOADING -> READY.  The loader
 * reads after LOADING is published, and counts the unfinished rows that are
 * committed.  Every writer of quota.jobs and quota.leases calls job_load() before
 * it writes its first row, and tells the flow what it did at commit, by the
 * journal.  So each row is counted once:
 *
 * - A transaction that found READY wrote after the load, which saw none of its
 *   rows; its notes count them.
 * - A transaction that found EMPTY becomes the loader, one that found LOADING
 *   waits; both write after READY, as above.
 * - A transaction cannot have written before LOADING was published: it would
 *   have needed READY for that, and READY never goes back while the server runs.
 *   None survives the crash or restart that made the slot EMPTY: prepared
 *   transactions are refused.
 *
 * For the same reason a loader never sees rows of its own.  Configuration that it
 * has changed itself counts as it was before.
 *
 * Flows can't change meanwhile: dequeue and finish call job_load() too.  Nor can
 * unfinished rows, which so need no snapshot: SnapshotSelf says what is committed,
 * and takes no predicate locks in a serializable transaction.
 *
 * Waiters wait for the loader alone, on a condition variable, where the server
 * detects no deadlock.  So the loader must wait for nobody who may be a waiter: it
 * gets the locks of all it is going to read, configuration included, before it
 * publishes LOADING.  If it fails, the journal sets EMPTY again and wakes them.
 */
#include "job.h"

#include "access/table.h"
#include "access/tableam.h"
#include "catalog.h"
#include "decide.h"
#include "flow.h"
#include "job_batch.h"
#include "miscadmin.h"
#include "permit.h"
#include "storage/lmgr.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* Flows are found by hash; the few whose hashes collide are numbered. */
typedef struct FlowTag
{
	int64		hash;
	int64		number;
} FlowTag;

/* What the rows say of a flow. */
typedef struct FlowSum
{
	FlowTag		tag;			/* hash key */
	JobNames	names;
	int64		lowest;			/* of its waiting fresh jobs; none when lowest >
								 * highest */
	int64		highest;
	int64		depth;
	int64		in_flight;
	int64		due_ns;
} FlowSum;

/* A job that is not in the fresh lane. */
typedef struct ReturnedJob
{
	int64		id;				/* hash key */
	FlowSum    *flow;
	char	   *connection;		/* of a running job, NULL = none */
} ReturnedJob;

typedef struct Load
{
	HTAB	   *flows;
	HTAB	   *returned;
	HTAB	   *batches;
	int64		now_ns;
	TimestampTz wall_us;
} Load;

/* An empty hash table in the current memory context. */
static HTAB *
make_table(const char *name, Size key, Size entry)
{
	HASHCTL		control;

	control.keysize = key;
	control.entrysize = entry;
	control.hcxt = CurrentMemoryContext;
	return hash_create(name, 1024, &control,
					   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

/* The sum of the job's flow, made when it is the first. */
static FlowSum *
sum_of(Load *load, TupleTableSlot *job)
{
	FlowTag		tag = {job_int64(job, JOB_FLOW), 0};

	for (;; tag.number++)
	{
		bool		found;
		FlowSum    *sum = hash_search(load->flows, &tag, HASH_ENTER, &found);

		if (found && job_has_names(job, &sum->names))
			return sum;
		if (found)
			continue;
		memset(&sum->names, 0, sizeof(sum->names));
		job_names_of(job, &sum->names);
		sum->lowest = 1;
		sum->highest = 0;
		sum->depth = 0;
		sum->in_flight = 0;
		sum->due_ns = QUOTA_NEVER;
		return sum;
	}
}

/* A job that waits in the fresh lane. */
static void
add_fresh(FlowSum *sum, int64 id)
{
	bool		first = sum->lowest > sum->highest;

	sum->lowest = first ? id : Min(sum->lowest, id);
	sum->highest = first ? id : Max(sum->highest, id);
	sum->depth++;
}

/* One row of quota.jobs. */
static void
add_job(Load *load, TupleTableSlot *job)
{
	bool		queued = job_state_is(job, "queued");
	bool		running = !queued && job_state_is(job, "running");
	int64		id = job_int64(job, JOB_ID);
	FlowSum    *sum;
	ReturnedJob *returned;

	if (!queued && !running && !job_state_is(job, "scheduled"))
		return;
	sum = sum_of(load, job);
	if (queued && job_int32(job, JOB_ATTEMPT) == 0)
	{
		add_fresh(sum, id);
		return;
	}
	if (running)
		sum->in_flight++;
	else
		sum->depth++;
	returned = hash_search(load->returned, &id, HASH_ENTER, NULL);
	returned->flow = sum;
	returned->connection = running ? job_text(job, JOB_CONNECTION) : NULL;
}

/* The permit of a running job, unless it is there (clean restart). */
static void
restore_permit(Load *load, const ReturnedJob *job, TupleTableSlot *lease)
{
	int64		permit = job_permit(lease);
	int64		expires_ns = quota_ns_of_steady(job_int64(lease, LEASE_READY_AT));
	QuotaCall	call = job_call_of(&job->flow->names);
	QuotaPlan  *plan;

	call.connection = job->connection;
	batch_load_add(load->batches, lease, &call);
	if (permit == 0 || expires_ns <= load->now_ns)
		return;
	plan = quota_plan_unchecked(&call);
	for (int try = 0; plan && try < 2; try++)
	{
		bool		done;

		quota_lock_plan(plan);
		done = permit_restore(permit, plan, job->id, batch_of(lease) == 0,
							  expires_ns, quota_now_ns());
		quota_unlock_plan(plan);
		if (done)
			return;
		if (!quota_reclaim())
			break;
	}
	if (plan)
		quota_table_full("permit", "quota.max_permits", quota_max_permits);
}

/* One row of quota.leases. */
static void
add_lease(Load *load, TupleTableSlot *lease)
{
	int64		id = job_int64(lease, LEASE_JOB_ID);
	char		state = job_char(lease, LEASE_STATE);
	ReturnedJob *returned = hash_search(load->returned, &id, HASH_FIND, NULL);

	if (returned == NULL)
		return;
	returned->flow->due_ns = Min(returned->flow->due_ns,
								 job_due_ns(state,
											job_int64(lease, LEASE_READY_AT),
											load->now_ns, load->wall_us));
	if (state == LEASE_RUNNING)
		restore_permit(load, returned, lease);
}

/* Calls add for every row that is committed. */
static void
read_table(Load *load, Relation table,
		   void (*add) (Load *load, TupleTableSlot *row))
{
	TupleTableSlot *slot = table_slot_create(table, NULL);
	TableScanDesc scan = table_beginscan(table, SnapshotSelf, 0, NULL);

	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		CHECK_FOR_INTERRUPTS();
		add(load, slot);
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
}

/* Puts the sums into shared memory.  Throws 53400 when a table is full. */
static void
publish(Load *load)
{
	HASH_SEQ_STATUS status;
	FlowSum    *sum;

	hash_seq_init(&status, load->flows);
	while ((sum = hash_seq_search(&status)) != NULL)
	{
		JournalNote note = job_empty_note(false);
		uint32		slot;
		uint32		flow = job_lock_flow(&sum->names, &slot);

		note.lo = sum->lowest;
		note.hi = sum->highest;
		note.due_ns = sum->due_ns;
		/* set, not added: a load that failed half way may have been here */
		flow_count(&quota_flows[flow], sum->depth - quota_flows[flow].depth,
				   sum->in_flight - quota_flows[flow].in_flight);
		flow_apply_note(flow, &note, true, load->now_ns);
		LWLockRelease(&quota_slots[slot].lock);
	}
}

/* The whole load; LOADING was published. */
static void
load_rows(Relation jobs, Relation leases)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "quota queue load",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	Load		load;

	load.flows = make_table("quota flows", sizeof(FlowTag), sizeof(FlowSum));
	load.returned = make_table("quota returned jobs", sizeof(int64),
							   sizeof(ReturnedJob));
	load.batches = batch_load_begin();
	load.now_ns = quota_now_ns();
	load.wall_us = quota_wall_us();
	read_table(&load, jobs, add_job);
	read_table(&load, leases, add_lease);
	batch_load_end(load.batches);
	publish(&load);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

/* EMPTY becomes LOADING by us; false when it was not EMPTY. */
static bool
start_loading(uint32 database_slot)
{
	QuotaSlot  *slot = &quota_slots[database_slot];
	bool		ours;

	journal_reserve(1);
	LWLockAcquire(&slot->lock, LW_EXCLUSIVE);
	ours = slot->queue_load == QUOTA_LOAD_EMPTY;
	if (ours)
	{
		slot->queue_load = QUOTA_LOAD_LOADING;
		journal_loading_queue(database_slot);
	}
	LWLockRelease(&slot->lock);
	return ours;
}

/* LOADING becomes READY. */
static void
finish_loading(uint32 database_slot)
{
	QuotaSlot  *slot = &quota_slots[database_slot];

	LWLockAcquire(&slot->lock, LW_EXCLUSIVE);
	slot->queue_load = QUOTA_LOAD_READY;
	journal_loaded();
	LWLockRelease(&slot->lock);
	ConditionVariableBroadcast(&slot->load_cv);
}

/* Until the loader has succeeded or failed. */
static void
wait_for_loader(uint32 database_slot)
{
	static uint32 wait_event = 0;
	QuotaSlot  *slot = &quota_slots[database_slot];

	if (wait_event == 0)
		wait_event = quota_wait_event("QuotaLoad");
	ConditionVariablePrepareToSleep(&slot->load_cv);
	for (;;)
	{
		uint8		state;

		LWLockAcquire(&slot->lock, LW_SHARED);
		state = slot->queue_load;
		LWLockRelease(&slot->lock);
		if (state != QUOTA_LOAD_LOADING)
			break;
		ConditionVariableSleep(&slot->load_cv, wait_event);
	}
	ConditionVariableCancelSleep();
}

/* ---- locks ---- */

/* What load_rows() reads, these two first, tables before their indexes. */
static const QuotaRelation read_relations[] = {
	QUOTA_REL_JOBS, QUOTA_REL_LEASES, QUOTA_REL_TIERS, QUOTA_REL_TENANTS,
	QUOTA_REL_TENANTS_PKEY, QUOTA_REL_PROVIDERS, QUOTA_REL_CLASSES,
	QUOTA_REL_LIMITS, QUOTA_REL_TIER_LIMITS, QUOTA_REL_TENANT_LIMITS,
	QUOTA_REL_TENANT_LIMITS_KEY, QUOTA_REL_TENANT_LIMITS_EXEMPT, QUOTA_REL_COSTS
};

/* The table's, and its indexes', where long values are. */
static void
lock_toast(Relation table)
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
static void
load_for_all(Relation jobs, Relation leases)
{
	bool		before = quota_policy_committed(quota_change_pending());

	PG_TRY();
	{
		load_rows(jobs, leases);
	}
	PG_FINALLY();
	{
		quota_policy_committed(before);
	}
	PG_END_TRY();
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
	lock_toast(jobs);
	ours = start_loading(database_slot);
	if (ours)
	{
		load_for_all(jobs, leases);
		finish_loading(database_slot);
	}
	table_close(leases, NoLock);
	table_close(jobs, NoLock);
	unlock_configuration(relids);
	if (!ours)
		wait_for_loader(database_slot);
}

/* See job.h. */
void
job_load(void)
{
	uint32		database_slot = job_database_slot();
	volatile uint8 *state = &quota_slots[database_slot].queue_load;

	/* READY stays, and what follows takes the locks of the flows it uses */
	while (*state != QUOTA_LOAD_READY)
		load_or_wait(database_slot);
}
