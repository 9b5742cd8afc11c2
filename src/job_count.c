/*
 * job_count.c
 *		Counting the jobs of a queue that is USABLE, which makes it READY.
 *		recount.c tells how commits are told apart, flow_recount.c what the count
 *		does to flows.
 *
 * One session at a time counts, whoever needs the counts first; normally that is
 * the background worker, right after it has loaded the queue.  Others wait for it
 * on a condition variable, where the server detects no deadlock; so who counts
 * gets his locks before, and waits for nobody afterwards but for commits that are
 * being told to the flows, which wait for nobody.
 */
#include "job_load.h"

#include "access/table.h"
#include "catalog.h"
#include "miscadmin.h"
#include "recount.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/*
 * Locks the slot of the database's next flow from *index on; false when there is
 * none.
 */
static bool
lock_next_flow(uint32 database_slot, uint32 *index)
{
	for (; *index < (uint32) quota_max_flows; ++*index)
	{
		QuotaEntry *entry = &quota_flows[*index].entry;
		uint32		owner = *(volatile uint32 *) &entry->owner;

		if (!entry->used || owner >= (uint32) quota_max_providers ||
			quota_slots[owner].database_slot != database_slot)
			continue;
		quota_lock(&quota_slots[owner].lock);
		if (quota_owned(entry, owner) &&
			quota_slots[owner].database == MyDatabaseId)
			return true;
		LWLockRelease(&quota_slots[owner].lock);
	}
	return false;
}

/* Releases it. */
static void
unlock_flow(uint32 index)
{
	LWLockRelease(&slot_of(&quota_flows[index])->lock);
}

/* The flows that there are, before the snapshot. */
static void
begin_flows(JobSums *sums, uint32 database_slot)
{
	for (uint32 i = 0; lock_next_flow(database_slot, &i); i++)
	{
		JobNames	names;
		uint64		epoch;
		FlowSum    *sum;

		job_names_of_flow(i, &names);
		epoch = flow_recount_begin(i);
		unlock_flow(i);
		sum = sums_of_names(sums, &names);
		sum->rows.known = true;
		sum->rows.epoch = epoch;
		CHECK_FOR_INTERRUPTS();
	}
}

/* Flows that came later and have no job that the snapshot shows. */
static void
end_new_flows(JobSums *sums, uint32 database_slot)
{
	const FlowRows nothing = {.lowest = POSITION_NONE,.due_ns = QUOTA_NEVER};

	for (uint32 i = 0; lock_next_flow(database_slot, &i); i++)
	{
		if (!flow_was_recounted(i))
			flow_recount_end(i, &nothing, sums->last_id, sums->now_ns);
		unlock_flow(i);
		CHECK_FOR_INTERRUPTS();
	}
}

/* A test may stop the count here: pg_advisory_lock(1903521652, 1668248942). */
static void
wait_for_test(void)
{
	LOCKTAG		tag;

	if (!quota_testing)
		return;
	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, 0x71756f74, 0x636f756e, 2);
	(void) LockAcquire(&tag, ShareLock, false, false);
	LockRelease(&tag, ShareLock, false);
}

/* The whole count, which is ours. */
static void
count(Relation jobs, uint32 database_slot)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "quota queue count",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	JobSums		sums;
	Snapshot	snapshot;

	sums_init(&sums);
	begin_flows(&sums, database_slot);
	snapshot = recount_snapshot(database_slot);
	wait_for_test();
	sums_read(&sums, jobs, snapshot);
	UnregisterSnapshot(snapshot);
	sums_publish(&sums);
	end_new_flows(&sums, database_slot);
	recount_drain();
	recount_finish(database_slot);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

/* One try, or the wait for another session's. */
static void
count_or_wait(uint32 database_slot)
{
	Relation	jobs = table_open(quota_relation(QUOTA_REL_JOBS), AccessShareLock);
	bool		ours;

	load_lock_toast(jobs);
	ours = recount_claim(database_slot);
	if (ours)
		count(jobs, database_slot);
	table_close(jobs, NoLock);
	if (!ours)
		load_wait(database_slot, true);
}

/* See job.h. */
bool
job_load_counts(void)
{
	uint32		database_slot = job_database_slot();

	if (flow_queue_is_counted(database_slot))
		return false;
	job_load();
	while (!flow_queue_is_counted(database_slot))
		count_or_wait(database_slot);
	return true;
}
