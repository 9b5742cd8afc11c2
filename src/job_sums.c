/*
 * job_sums.c
 *		What rows of quota.jobs say of the flows they belong to.
 *
 * All rows of the table are read in its own order.  Most may be history: of those
 * nothing is looked at but their state.
 *
 * A serializable transaction must not be blamed for what it reads here, which is
 * no part of its work; so it reads all row versions, for which the server keeps no
 * predicate locks, and looks itself at which the snapshot shows.
 */
#include "job_sums.h"

#include "access/heapam.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* See job_sums.h. */
void
sums_init(JobSums *sums)
{
	HASHCTL		control;

	control.keysize = sizeof(FlowTag);
	control.entrysize = sizeof(FlowSum);
	control.hcxt = CurrentMemoryContext;
	sums->flows = hash_create("quota flows", 1024, &control,
							  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	sums->last_id = 0;
	sums->now_ns = quota_now_ns();
}

/* See job_sums.h. */
FlowSum *
sums_find(const JobSums *sums, int64 hash, int64 number)
{
	FlowTag		tag = {hash, number};

	return hash_search(sums->flows, &tag, HASH_FIND, NULL);
}

/* A sum of nothing. */
static FlowSum *
add_sum(JobSums *sums, FlowTag tag)
{
	FlowSum    *sum = hash_search(sums->flows, &tag, HASH_ENTER, NULL);

	memset(&sum->names, 0, sizeof(sum->names));
	memset(&sum->rows, 0, sizeof(sum->rows));
	sum->rows.lowest = POSITION_NONE;
	sum->rows.due_ns = QUOTA_NEVER;
	return sum;
}

/* See job_sums.h. */
FlowSum *
sums_of_names(JobSums *sums, const JobNames *names)
{
	FlowTag		tag = {names->hash, 0};
	FlowSum    *sum;

	for (; (sum = sums_find(sums, tag.hash, tag.number)) != NULL; tag.number++)
		if (memcmp(&sum->names, names, sizeof(*names)) == 0)
			return sum;
	sum = add_sum(sums, tag);
	sum->names = *names;
	return sum;
}

/* See job_sums.h. */
FlowSum *
sums_of_job(JobSums *sums, TupleTableSlot *job)
{
	FlowTag		tag = {row_int64(job, JOB_FLOW), 0};
	FlowSum    *sum;

	for (; (sum = sums_find(sums, tag.hash, tag.number)) != NULL; tag.number++)
		if (job_has_names(job, &sum->names))
			return sum;
	sum = add_sum(sums, tag);
	job_names_of(job, &sum->names);
	return sum;
}

/* ---- rows ---- */

/* Adds a job. */
static void
add_job(JobSums *sums, TupleTableSlot *job, Standing standing)
{
	FlowRows   *rows = &sums_of_job(sums, job)->rows;
	int64		id = row_int64(job, JOB_ID);

	if (standing == STANDING_RUNNING)
		rows->in_flight++;
	else
		rows->depth++;
	if (standing != STANDING_FRESH)
	{
		rows->due_ns = sums->now_ns;
		return;
	}
	rows->lowest = Min(rows->lowest, id);
	rows->highest = Max(rows->highest, id);
}

/* The row in the slot, of whatever time, is one that the snapshot shows. */
static bool
is_shown(TupleTableSlot *slot, Snapshot snapshot)
{
	BufferHeapTupleTableSlot *heap = (BufferHeapTupleTableSlot *) slot;
	bool		shown;

	LockBuffer(heap->buffer, BUFFER_LOCK_SHARE);
	shown = HeapTupleSatisfiesVisibility(heap->base.tuple, snapshot, heap->buffer);
	LockBuffer(heap->buffer, BUFFER_LOCK_UNLOCK);
	return shown;
}

/* See job_sums.h. */
void
sums_read(JobSums *sums, Relation jobs, Snapshot snapshot)
{
	bool		any = IsolationIsSerializable();
	TupleTableSlot *slot = table_slot_create(jobs, NULL);
	TableScanDesc scan = table_beginscan(jobs, any ? SnapshotAny : snapshot, 0,
										 NULL);

	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		Standing	standing;

		CHECK_FOR_INTERRUPTS();
		if (any && !is_shown(slot, snapshot))
			continue;
		sums->last_id = Max(sums->last_id, row_int64(slot, JOB_ID));
		standing = job_standing(slot);
		if (standing != STANDING_OVER)
			add_job(sums, slot, standing);
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
}

/* ---- flows ---- */

/* See job_sums.h. */
void
sums_publish(JobSums *sums)
{
	HASH_SEQ_STATUS status;
	FlowSum    *sum;

	hash_seq_init(&status, sums->flows);
	while ((sum = hash_seq_search(&status)) != NULL)
	{
		uint32		slot;
		uint32		flow = job_lock_flow(&sum->names, &slot);

		flow_recount_end(flow, &sum->rows, sums->last_id, sums->now_ns);
		LWLockRelease(&quota_slots[slot].lock);
		CHECK_FOR_INTERRUPTS();
	}
}
