/*
 * rows.c
 *		Reading and locking rows of our own tables without the planner and
 *		independent of the caller's snapshot; see rows.h for what holds.
 *
 * Scans use a dirty snapshot: rows are judged by the state of the transactions
 * that wrote them at that instant.  The scan itself never decides anything:
 * whoever wants to act on a row locks it first, and row_lock() reports anything
 * that happened in between.
 *
 * Nothing here touches shared memory of ours, and everything may throw: callers
 * hold no lock of it.
 */
#include "rows.h"

#include "row_table.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_am.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/procarray.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* A page with less free space is tidied up before a row of it is updated. */
#define LITTLE_ROOM (BLCKSZ / 5)

struct RowScan
{
	RowTable   *table;
	QuotaRelation rel;
	Relation	index;
	int			nkeys;
	bool		idle;			/* it has ended, and waits to be used again */
	IndexScanDesc scan;
	SnapshotData snapshot;
	int			entries_left;	/* to look at; < 0 = all */

	/* of a walk */
	bool		over;
	bool		has_entry;		/* that was not asked for yet: */
	int64		at;				/* its id */
};

/* ---- tables ---- */

/* Opens a table of ours.  Throws when it is missing or not a heap. */
static RowTable *
open_with(QuotaRelation rel, LOCKMODE lock)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "quota rows",
												  ALLOCSET_SMALL_SIZES);
	RowTable   *table = MemoryContextAllocZero(context, sizeof(RowTable));

	Assert(ActiveSnapshotSet());
	table->context = context;
	table->rel = rel;
	table->relation = table_open(quota_relation(rel), lock);
	if (table->relation->rd_rel->relam != HEAP_TABLE_AM_OID)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("table \"%s\" must use the heap access method",
						RelationGetRelationName(table->relation))));
	table->lock_mode = rel == QUOTA_REL_JOBS ?
		LockTupleNoKeyExclusive : LockTupleExclusive;
	return table;
}

/* See rows.h. */
RowTable *
row_open(QuotaRelation rel)
{
	return open_with(rel, RowExclusiveLock);
}

/* See rows.h. */
RowTable *
row_open_to_read(QuotaRelation rel)
{
	return open_with(rel, AccessShareLock);
}

/* See rows.h. */
void
row_will_delete(RowTable *table)
{
	table->lock_mode = LockTupleExclusive;
}

/* The table, for its descriptor. */
Relation
row_relation(RowTable *table)
{
	return table->relation;
}

/* A slot for rows of the table.  Throws when out of memory. */
TupleTableSlot *
row_slot(RowTable *table)
{
	MemoryContext old = MemoryContextSwitchTo(table->context);
	TupleTableSlot *slot = table_slot_create(table->relation, NULL);

	table->slots = lappend(table->slots, slot);
	MemoryContextSwitchTo(old);
	return slot;
}

/* Frees what was opened; the lock on the table stays. */
void
row_close(RowTable *table)
{
	ListCell   *cell;

	row_writer_end(table);
	foreach(cell, table->scans)
	{
		RowScan    *scan = lfirst(cell);

		index_endscan(scan->scan);
		index_close(scan->index, AccessShareLock);
	}
	foreach(cell, table->slots)
		ExecDropSingleTupleTableSlot(lfirst(cell));
	table_close(table->relation, NoLock);
	MemoryContextDelete(table->context);
}

/* ---- scans ---- */

/* A scan of this index that has ended, NULL = none. */
static RowScan *
find_idle(RowTable *table, QuotaRelation index, int nkeys)
{
	ListCell   *cell;

	foreach(cell, table->scans)
	{
		RowScan    *scan = lfirst(cell);

		if (scan->idle && scan->rel == index && scan->nkeys == nkeys)
			return scan;
	}
	return NULL;
}

/* A new one.  Throws when the index is missing. */
static RowScan *
new_scan(RowTable *table, QuotaRelation index, int nkeys)
{
	MemoryContext old = MemoryContextSwitchTo(table->context);
	RowScan    *scan = palloc(sizeof(RowScan));

	scan->table = table;
	scan->rel = index;
	scan->nkeys = nkeys;
	scan->index = index_open(quota_relation(index), AccessShareLock);
	InitDirtySnapshot(scan->snapshot);
	scan->scan = compat_index_beginscan(table->relation, scan->index,
										&scan->snapshot, nkeys);
	table->scans = lappend(table->scans, scan);
	MemoryContextSwitchTo(old);
	return scan;
}

/* Begins it; a walk, say, wants the entries themselves. */
static RowScan *
begin(RowTable *table, QuotaRelation index, int nkeys, ScanKey keys, bool entries)
{
	RowScan    *scan = find_idle(table, index, nkeys);
	MemoryContext old;

	if (scan == NULL)
		scan = new_scan(table, index, nkeys);
	for (int i = 0; i < nkeys; i++)
		keys[i].sk_collation =
			scan->index->rd_indcollation[keys[i].sk_attno - 1];
	scan->scan->xs_want_itup = entries;
	old = MemoryContextSwitchTo(table->context);
	index_rescan(scan->scan, keys, nkeys, NULL, 0);
	MemoryContextSwitchTo(old);
	scan->entries_left = -1;
	scan->over = false;
	scan->has_entry = false;
	scan->idle = false;
	return scan;
}

/* See rows.h.  Throws when the index is missing. */
RowScan *
row_scan_begin(RowTable *table, QuotaRelation index, int nkeys, ScanKey keys)
{
	return begin(table, index, nkeys, keys, false);
}

/* See rows.h.  Throws when the index is missing. */
RowScan *
row_scan_begin_entries(RowTable *table, QuotaRelation index, int nkeys, ScanKey keys)
{
	return begin(table, index, nkeys, keys, true);
}

/* See rows.h. */
RowScan *
row_scan_id(RowTable *table, QuotaRelation index, int64 id)
{
	ScanKeyData key;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(id));
	return row_scan_begin(table, index, 1, &key);
}

/* See rows.h. */
void
row_scan_limit(RowScan *scan, int entries)
{
	scan->entries_left = entries;
}

/* See rows.h. */
bool
row_scan_gave_up(const RowScan *scan)
{
	return scan->entries_left == 0;
}

/* The next entry; what the access method keeps of it lasts as long as the scan. */
static bool
get_next_tid(RowScan *scan, ScanDirection direction)
{
	MemoryContext old = MemoryContextSwitchTo(scan->table->context);
	bool		found = index_getnext_tid(scan->scan, direction) != NULL;

	MemoryContextSwitchTo(old);
	return found;
}

/* This column of the entry the scan is at. */
static int64
value_of_entry(const RowScan *scan, int column)
{
	bool		isnull;

	return DatumGetInt64(index_getattr(scan->scan->xs_itup, column,
									   scan->scan->xs_itupdesc, &isnull));
}

/* See rows.h. */
bool
row_scan_entry(RowScan *scan, int column, int64 *value, ItemPointerData *tid)
{
	if (!get_next_tid(scan, ForwardScanDirection))
		return false;
	*value = value_of_entry(scan, column);
	*tid = scan->scan->xs_heaptid;
	return true;
}

/* index_getnext_slot(), which passes over entries without a row it may show. */
static bool
next_entry(RowScan *scan, ScanDirection direction, TupleTableSlot *slot)
{
	do
	{
		if (!scan->scan->xs_heap_continue)
		{
			if (row_scan_gave_up(scan) ||
				!get_next_tid(scan, direction))
				return false;
			if (scan->entries_left > 0)
				scan->entries_left--;
		}
	} while (!index_fetch_heap(scan->scan, slot));
	return true;
}

/* One step of a scan; see row_scan_next() in rows.h. */
static bool
scan_step(RowScan *scan, ScanDirection direction, TupleTableSlot *slot,
		  bool *in_progress)
{
	CHECK_FOR_INTERRUPTS();
	if (!next_entry(scan, direction, slot))
		return false;

	/* the visibility check leaves who is inserting or deleting it here */
	*in_progress = TransactionIdIsValid(scan->snapshot.xmin) ||
		TransactionIdIsValid(scan->snapshot.xmax);
	return true;
}

/* See rows.h. */
bool
row_scan_next(RowScan *scan, TupleTableSlot *slot, bool *in_progress)
{
	return scan_step(scan, ForwardScanDirection, slot, in_progress);
}

/* See rows.h. */
bool
row_scan_is_insert(const RowScan *scan)
{
	return TransactionIdIsValid(scan->snapshot.xmin);
}

/* See rows.h. */
bool
row_scan_back(RowScan *scan, TupleTableSlot *slot, bool *in_progress)
{
	return scan_step(scan, BackwardScanDirection, slot, in_progress);
}

/* ---- walks ---- */

/* See rows.h.  Throws when the index is missing. */
RowScan *
row_walk_begin(RowTable *table, QuotaRelation index, int64 lo, int64 hi)
{
	ScanKeyData keys[2];

	ScanKeyInit(&keys[0], 1, BTGreaterEqualStrategyNumber, F_INT8GE,
				Int64GetDatum(lo));
	ScanKeyInit(&keys[1], 1, BTLessEqualStrategyNumber, F_INT8LE,
				Int64GetDatum(hi));
	return begin(table, index, 2, keys, true);
}

/* Moves to the next entry, unless one is there already. */
static bool
walk_on(RowScan *walk)
{
	if (walk->over || walk->has_entry)
		return walk->has_entry;
	CHECK_FOR_INTERRUPTS();
	walk->has_entry = get_next_tid(walk, ForwardScanDirection);
	if (walk->has_entry)
		walk->at = value_of_entry(walk, 1);
	else
		walk->over = true;
	return walk->has_entry;
}

/* See rows.h. */
bool
row_walk_to(RowScan *walk, int64 id, TupleTableSlot *slot)
{
	while (walk_on(walk) && walk->at <= id)
	{
		walk->has_entry = false;
		if (walk->at == id && index_fetch_heap(walk->scan, slot))
			return !TransactionIdIsValid(walk->snapshot.xmin) &&
				!TransactionIdIsValid(walk->snapshot.xmax);
	}
	return false;
}

/* ---- ends of both ---- */

/*
 * Ends the scan, and keeps it for another one of the same kind: a batch makes a scan
 * for each job, and opening one is a third of the work.  It holds no page meanwhile;
 * the lock on its index goes with the table.
 */
void
row_scan_end(RowScan *scan)
{
	index_rescan(scan->scan, NULL, scan->nkeys, NULL, 0);
	scan->idle = true;
}

/* ---- without an index ---- */

/*
 * Makes room on the page for a new version of a row, if there is hardly any.  A scan
 * does so as soon as the fillfactor is passed, which for a row at a time is a good part
 * of its work.
 */
static void
make_room(RowTable *table, BlockNumber block)
{
	Buffer		buffer = ReadBuffer(table->relation, block);

	if (PageGetHeapFreeSpace(BufferGetPage(buffer)) < LITTLE_ROOM)
		heap_page_prune_opt(table->relation, buffer);
	ReleaseBuffer(buffer);
}

/* The slot has the page already, for the row that it had last, and there is room. */
static bool
has_room(TupleTableSlot *slot, BlockNumber block)
{
	Buffer		buffer = ((BufferHeapTupleTableSlot *) slot)->buffer;

	return !TTS_EMPTY(slot) && BufferIsValid(buffer) &&
		BufferGetBlockNumber(buffer) == block &&
		PageGetHeapFreeSpace(BufferGetPage(buffer)) >= LITTLE_ROOM;
}

/* See rows.h. */
bool
row_at(RowTable *table, ItemPointerData tid, int64 id, TupleTableSlot *slot)
{
	SnapshotData snapshot;

	/* nobody makes the table shorter while we have it open */
	if (table->nblocks == 0)
		table->nblocks = RelationGetNumberOfBlocks(table->relation);
	if (!ItemPointerIsValid(&tid) ||
		ItemPointerGetBlockNumber(&tid) >= table->nblocks)
		return false;
	if (!has_room(slot, ItemPointerGetBlockNumber(&tid)))
	{
		ExecClearTuple(slot);	/* its page may be the same */
		make_room(table, ItemPointerGetBlockNumber(&tid));
	}
	InitDirtySnapshot(snapshot);
	if (!table_tuple_fetch_row_version(table->relation, &tid, &snapshot, slot) ||
		TransactionIdIsValid(snapshot.xmin) ||
		TransactionIdIsValid(snapshot.xmax))
		return false;
	slot_getsomeattrs(slot, 1);
	return DatumGetInt64(slot->tts_values[0]) == id;
}

/* See rows.h. */
bool
row_is_ours(TupleTableSlot *slot)
{
	bool		isnull;
	Datum		xmin = slot_getsysattr(slot, MinTransactionIdAttributeNumber,
									   &isnull);

	return TransactionIdIsCurrentTransactionId(DatumGetTransactionId(xmin));
}

/* ---- locking ---- */

/*
 * Why a row could not be locked at once: true when its updater or deleter is
 * still at work or has committed, so that its commit or abort callback is yet to
 * run; false when there are only lockers, whatever an aborted updater left.
 */
static bool
is_being_changed(TupleTableSlot *slot)
{
	BufferHeapTupleTableSlot *heap = (BufferHeapTupleTableSlot *) slot;
	HeapTupleHeaderData header;
	TransactionId xmax;

	LockBuffer(heap->buffer, BUFFER_LOCK_SHARE);
	memcpy(&header, heap->base.tupdata.t_data, SizeofHeapTupleHeader);
	LockBuffer(heap->buffer, BUFFER_LOCK_UNLOCK);

	if ((header.t_infomask & HEAP_XMAX_INVALID) ||
		HEAP_XMAX_IS_LOCKED_ONLY(header.t_infomask))
		return false;
	xmax = HeapTupleHeaderGetUpdateXid(&header);
	return TransactionIdIsInProgress(xmax) || TransactionIdDidCommit(xmax);
}

/* Never throws but for I/O errors; assigns a transaction id. */
RowOutcome
row_lock(RowTable *table, TupleTableSlot *slot)
{
	ItemPointerData tid = slot->tts_tid;
	TM_FailureData failure;

	switch (table_tuple_lock(table->relation, &tid, GetActiveSnapshot(), slot,
							 GetCurrentCommandId(false), table->lock_mode,
							 LockWaitSkip, 0, &failure))
	{
		case TM_Ok:
			slot_getallattrs(slot);
			return ROW_LOCKED;
		case TM_WouldBlock:
			return is_being_changed(slot) ? ROW_CHANGED : ROW_BUSY;
		default:

			/*
			 * Updated, deleted, or changed by ourselves since it was scanned;
			 * or inserted by a command of ours that is still running.
			 */
			return ROW_CHANGED;
	}
}
