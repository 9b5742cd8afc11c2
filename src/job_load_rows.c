/*
 * job_load_rows.c
 *		What a loader reads: enough for flows to be usable.
 *
 * A small table of jobs is read as a whole.  Of a large one it is found out by the
 * index (flow, id) which flows there are: for each the last row, by one descent.
 * If that is an unfinished job there is a flow.  If it is finished, probably all
 * jobs of the flow are, as they are claimed in order; the count will tell.  So
 * neither history nor flows that have only history cost much, and as the count
 * finds everything, the search may end when it has taken long enough.
 *
 * quota.leases has a row for each job of the returned lanes, but for none that is
 * finished.  It is read as a whole: flows need the least due times, and limits of
 * concurrency the permits of running jobs.
 *
 * All this while the queue is LOADING, when nobody writes.  So what is committed
 * needs no snapshot: SnapshotSelf says it, and takes no predicate locks in a
 * serializable transaction.
 */
#include "job_load.h"

#include "access/genam.h"
#include "access/tableam.h"
#include "catalog.h"
#include "clock.h"
#include "job_batch.h"
#include "miscadmin.h"
#include "permit.h"
#include "storage/bufmgr.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* Up to so many blocks of quota.jobs are read by the loader: some milliseconds. */
#define SMALL_BLOCKS 1024
/* How long to look for flows. */
#define SEARCH_NS (50 * 1000 * QUOTA_NS_PER_US)

/* The earliest due time in all flows of a hash. */
typedef struct HashDue
{
	int64		hash;			/* hash key */
	int64		due_ns;
	int64		job;			/* the job of one of them */
} HashDue;

typedef struct Load
{
	JobSums		sums;
	HTAB	   *due;			/* of HashDue */
	HTAB	   *batches;
	Relation	jobs;
	TupleTableSlot *job;
	TimestampTz wall_us;
} Load;

/* ---- rows by index ---- */

/* The first row in this direction into load->job; false when there is none. */
static bool
first_row(Load *load, QuotaRelation index, ScanKey key, ScanDirection direction)
{
	Relation	rel = index_open(quota_relation(index), AccessShareLock);
	IndexScanDesc scan = compat_index_beginscan(load->jobs, rel, SnapshotSelf, 1);
	bool		found;

	index_rescan(scan, key, 1, NULL, 0);
	found = index_getnext_slot(scan, direction, load->job);
	index_endscan(scan);
	index_close(rel, AccessShareLock);
	return found;
}

/* The job with this id into load->job; false when there is none. */
static bool
find_job(Load *load, int64 id)
{
	ScanKeyData key;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(id));
	return first_row(load, QUOTA_REL_JOBS_PKEY, &key, ForwardScanDirection);
}

/* Finds flows with jobs, from the greatest hash down, until it takes too long. */
static void
find_flows(Load *load)
{
	int64		until_ns = quota_raw_ns() + SEARCH_NS;
	int64		below = PG_INT64_MAX;
	ScanKeyData key;

	do
	{
		CHECK_FOR_INTERRUPTS();
		ScanKeyInit(&key, 1, below == PG_INT64_MAX ? BTLessEqualStrategyNumber
					: BTLessStrategyNumber,
					below == PG_INT64_MAX ? F_INT8LE : F_INT8LT,
					Int64GetDatum(below));
		if (!first_row(load, QUOTA_REL_JOBS_FLOW, &key, BackwardScanDirection))
			return;
		below = row_int64(load->job, JOB_FLOW);
		if (job_standing(load->job) != STANDING_OVER)
			(void) sums_of_job(&load->sums, load->job);
	} while (quota_raw_ns() < until_ns);
}

/* ---- quota.leases ---- */

/* A running job: what it has in flight. */
static void
add_running(Load *load, TupleTableSlot *lease, int64 due_ns)
{
	PermitRecord permit = {
		.id = row_int64_or_0(lease, LEASE_PERMIT),
		.job = row_int64(lease, LEASE_JOB_ID),
		.in_batch = row_int64_or_0(lease, LEASE_BATCH) != 0,
		.expires_ns = due_ns
	};
	bool		has_permit = permit.id != 0 && due_ns > load->sums.now_ns;
	JobNames   *names;
	QuotaCall	call;

	if (!has_permit && !permit.in_batch)
		return;
	if (!find_job(load, permit.job) ||
		job_standing(load->job) != STANDING_RUNNING)
		return;
	/* a batch keeps what the call points to */
	names = palloc0(sizeof(JobNames));
	job_names_of(load->job, names);
	call = job_call_with_names(load->job, names);
	batch_load_add(load->batches, lease, &call);
	if (has_permit)
		permit_restore(&call, &permit);
}

/* One row of quota.leases. */
static void
add_lease(Load *load, TupleTableSlot *lease)
{
	int64		hash = row_int64(lease, LEASE_FLOW);
	char		state = row_char(lease, LEASE_STATE);
	int64		due_ns = job_due_ns(state, row_int64(lease, LEASE_READY_AT),
									load->sums.now_ns, load->wall_us);
	bool		found;
	HashDue    *due = hash_search(load->due, &hash, HASH_ENTER, &found);

	due->due_ns = found ? Min(due->due_ns, due_ns) : due_ns;
	due->job = row_int64(lease, LEASE_JOB_ID);
	if (state == LEASE_RUNNING)
		add_running(load, lease, due_ns);
}

/* All of them. */
static void
read_leases(Load *load, Relation leases)
{
	TupleTableSlot *slot = table_slot_create(leases, NULL);
	TableScanDesc scan = table_beginscan(leases, SnapshotSelf, 0, NULL);

	load->batches = batch_load_begin();
	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		CHECK_FOR_INTERRUPTS();
		add_lease(load, slot);
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	batch_load_end(load->batches);
}

/* Gives the due times to the flows, and adds those that have only such jobs. */
static void
give_due_times(Load *load)
{
	HASH_SEQ_STATUS status;
	HashDue    *due;

	hash_seq_init(&status, load->due);
	while ((due = hash_seq_search(&status)) != NULL)
	{
		FlowSum    *sum;

		CHECK_FOR_INTERRUPTS();
		if (sums_find(&load->sums, due->hash, 0) == NULL &&
			find_job(load, due->job))
			(void) sums_of_job(&load->sums, load->job);
		for (int n = 0; (sum = sums_find(&load->sums, due->hash, n)) != NULL; n++)
			sum->rows.due_ns = due->due_ns;
	}
}

/* ---- all of it ---- */

/* Nothing is known of the flows but when something is due. */
static void
raise_flows(Load *load)
{
	HASH_SEQ_STATUS status;
	FlowSum    *sum;

	hash_seq_init(&status, load->sums.flows);
	while ((sum = hash_seq_search(&status)) != NULL)
	{
		uint32		slot;
		uint32		flow = job_lock_flow(&sum->names, &slot);

		flow_raise_all(flow, sum->rows.due_ns, load->sums.now_ns);
		LWLockRelease(&quota_slots[slot].lock);
		CHECK_FOR_INTERRUPTS();
	}
}

/* An empty table of due times in the current memory context. */
static HTAB *
make_due_table(void)
{
	HASHCTL		control;

	control.keysize = sizeof(int64);
	control.entrysize = sizeof(HashDue);
	control.hcxt = CurrentMemoryContext;
	return hash_create("quota due times", 1024, &control,
					   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

/* See job_load.h. */
bool
load_rows(Relation jobs, Relation leases)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "quota queue load",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	bool		small = RelationGetNumberOfBlocks(jobs) <= SMALL_BLOCKS;
	Load		load;

	sums_init(&load.sums);
	load.due = make_due_table();
	load.jobs = jobs;
	load.job = table_slot_create(jobs, NULL);
	load.wall_us = quota_wall_us();
	if (small)
		sums_read(&load.sums, jobs, SnapshotSelf);
	else
		find_flows(&load);
	read_leases(&load, leases);
	give_due_times(&load);
	if (small)
		sums_publish(&load.sums);
	else
		raise_flows(&load);
	ExecDropSingleTupleTableSlot(load.job);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return small;
}
