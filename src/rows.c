/*
 * rows.c
 *		Reading, locking and writing rows of our own tables without the planner
 *		and independent of the caller's snapshot; see rows.h for what holds.
 *
 * Scans use a dirty snapshot: rows are judged by the state of the transactions
 * that wrote them at that instant.  The scan itself never decides anything:
 * whoever wants to act on a row locks it first, and row_lock() reports anything
 * that happened in between.
 *
 * Writing needs what the executor would set up for an INSERT or UPDATE of this
 * table (an EState with a range table of one entry, a ResultRelInfo with open
 * indexes).  That is made with the first write and kept until row_close(): the
 * "writer".  Which columns an update sets is part of that state (triggers on
 * columns and generated columns look at it), so a different set of columns gets
 * a new writer.
 */
#include "rows.h"

#include "row_check.h"
#include "row_role.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_am.h"
#include "catalog/pg_trigger.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_relation.h"
#include "rewrite/rewriteHandler.h"
#include "storage/bufmgr.h"
#include "storage/procarray.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

typedef struct RowWriter
{
	EState	   *estate;
	ResultRelInfo *result;
	EPQState	epq;
	TupleTableSlot *new_row;	/* the version to be written */
} RowWriter;

struct RowTable
{
	MemoryContext context;		/* everything about the table is in here */
	QuotaRelation rel;
	Relation	relation;
	LockTupleMode lock_mode;
	List	   *slots;			/* handed out by row_slot() */
	RowWriter  *writer;			/* NULL until the first write */
	Bitmapset  *updated;		/* columns the writer was made to update */
};

struct RowScan
{
	Relation	index;
	IndexScanDesc scan;
	SnapshotData snapshot;
	int			entries_left;	/* to look at; < 0 = all */
};

/* ---- tables ---- */

/* Opens a table of ours.  Throws when it is missing or not a heap. */
RowTable *
row_open(QuotaRelation rel)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "quota rows",
												  ALLOCSET_SMALL_SIZES);
	RowTable   *table = MemoryContextAllocZero(context, sizeof(RowTable));

	Assert(ActiveSnapshotSet());
	table->context = context;
	table->rel = rel;
	table->relation = table_open(quota_relation(rel), RowExclusiveLock);
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

/* Ends and frees the writer, if there is one. */
static void
writer_end(RowTable *table)
{
	RowWriter  *writer = table->writer;

	if (writer == NULL)
		return;
	ExecCloseIndices(writer->result);
	EvalPlanQualEnd(&writer->epq);
	ExecResetTupleTable(writer->estate->es_tupleTable, false);
	FreeExecutorState(writer->estate);
	table->writer = NULL;
}

/* Frees what was opened; the lock on the table stays. */
void
row_close(RowTable *table)
{
	ListCell   *cell;

	writer_end(table);
	foreach(cell, table->slots)
		ExecDropSingleTupleTableSlot(lfirst(cell));
	table_close(table->relation, NoLock);
	MemoryContextDelete(table->context);
}

/* ---- scans ---- */

/* See rows.h.  Throws when the index is missing. */
RowScan *
row_scan_begin(RowTable *table, QuotaRelation index, int nkeys, ScanKey keys)
{
	MemoryContext old = MemoryContextSwitchTo(table->context);
	RowScan    *scan = palloc(sizeof(RowScan));

	scan->index = index_open(quota_relation(index), AccessShareLock);
	InitDirtySnapshot(scan->snapshot);
	for (int i = 0; i < nkeys; i++)
		keys[i].sk_collation =
			scan->index->rd_indcollation[keys[i].sk_attno - 1];
	scan->scan = compat_index_beginscan(table->relation, scan->index,
										&scan->snapshot, nkeys);
	index_rescan(scan->scan, keys, nkeys, NULL, 0);
	scan->entries_left = -1;
	MemoryContextSwitchTo(old);
	return scan;
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

/* index_getnext_slot(), which passes over entries without a row it may show. */
static bool
next_entry(RowScan *scan, ScanDirection direction, TupleTableSlot *slot)
{
	do
	{
		if (!scan->scan->xs_heap_continue)
		{
			if (row_scan_gave_up(scan) ||
				index_getnext_tid(scan->scan, direction) == NULL)
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
row_scan_back(RowScan *scan, TupleTableSlot *slot, bool *in_progress)
{
	return scan_step(scan, BackwardScanDirection, slot, in_progress);
}

/* Ends the scan; the lock on its index goes too. */
void
row_scan_end(RowScan *scan)
{
	index_endscan(scan->scan);
	index_close(scan->index, AccessShareLock);
	pfree(scan);
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

/* ---- writing ---- */

/*
 * An update that we make has no row trigger but our own one before it, which
 * checks what others change.
 */
static bool
is_update_unwatched(const RowTable *table)
{
	const TriggerDesc *triggers = table->relation->trigdesc;
	Oid			ours = quota_catalog()->update_trigger;

	if (triggers == NULL || !OidIsValid(ours))
		return false;
	for (int i = 0; i < triggers->numtriggers; i++)
	{
		const Trigger *trigger = &triggers->triggers[i];

		if (TRIGGER_FOR_ROW(trigger->tgtype) &&
			TRIGGER_FOR_UPDATE(trigger->tgtype) && trigger->tgfoid != ours)
			return false;
	}
	return true;
}

/*
 * The table's writer, for an update of the given columns or (NULL) an insert or
 * delete.
 */
static RowWriter *
writer_for(RowTable *table, Bitmapset *updated)
{
	MemoryContext old;
	RowWriter  *writer = table->writer;
	RangeTblEntry *rte;

	if (writer != NULL && (updated == NULL || bms_equal(updated, table->updated)))
		return writer;
	writer_end(table);

	old = MemoryContextSwitchTo(table->context);
	writer = palloc0(sizeof(RowWriter));
	table->updated = bms_copy(updated);
	writer->estate = CreateExecutorState();
	MemoryContextSwitchTo(writer->estate->es_query_cxt);

	rte = makeNode(RangeTblEntry);
	rte->rtekind = RTE_RELATION;
	rte->relid = RelationGetRelid(table->relation);
	rte->relkind = table->relation->rd_rel->relkind;
	rte->rellockmode = RowExclusiveLock;
	compat_init_range_table(writer->estate, rte, bms_copy(updated));

	writer->result = makeNode(ResultRelInfo);
	InitResultRelInfo(writer->result, table->relation, 1, NULL, 0);
	/* where the executor of triggers looks for it */
	writer->estate->es_opened_result_relations = list_make1(writer->result);
	ExecOpenIndices(writer->result, false);
	row_check_lend(table->rel, writer->result, writer->estate);
	if (is_update_unwatched(table))
		writer->result->ri_TrigDesc->trig_update_before_row = false;
	compat_epq_init(&writer->epq, writer->estate);
	writer->new_row = ExecInitExtraTupleSlot(writer->estate,
											 RelationGetDescr(table->relation),
											 &TTSOpsVirtual);
	MemoryContextSwitchTo(old);
	table->writer = writer;
	return writer;
}

/* Where a write began. */
typedef struct WriteBegin
{
	MemoryContext context;
	QuotaOwner	user;
} WriteBegin;

/* Starts a write: a command with its own queue of AFTER triggers. */
static WriteBegin
write_begin(RowTable *table, CmdType operation)
{
	EState	   *estate = table->writer->estate;
	WriteBegin	begin;

	begin.user = row_role_enter(table->relation, operation);
	estate->es_output_cid = GetCurrentCommandId(true);
	AfterTriggerBeginQuery();
	begin.context = MemoryContextSwitchTo(GetPerTupleMemoryContext(estate));
	return begin;
}

/* Ends a write: its triggers fire, its rows become visible to us. */
static void
write_end(RowTable *table, WriteBegin begin)
{
	RowWriter  *writer = table->writer;

	CommandCounterIncrement();
	AfterTriggerEndQuery(writer->estate);
	ExecClearTuple(writer->new_row);
	MemoryContextSwitchTo(begin.context);
	ResetPerTupleExprContext(writer->estate);
	row_role_leave(begin.user);
}

/* 27000 */
static void
write_suppressed(RowTable *table)
{
	ereport(ERROR,
			(errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
			 errmsg("a trigger on table \"%s\" suppressed a row that quota wrote",
					RelationGetRelationName(table->relation)),
			 errhint("BEFORE triggers on the tables of quota must not return NULL.")));
}

/* The written slot knows its place unless a BEFORE trigger prevented it. */
static void
check_written(RowTable *table)
{
	if (!ItemPointerIsValid(&table->writer->new_row->tts_tid))
		write_suppressed(table);
}

/* See rows.h. */
void
row_insert(RowTable *table, const Datum *values, const bool *nulls)
{
	RowWriter  *writer = writer_for(table, NULL);
	WriteBegin	begin = write_begin(table, CMD_INSERT);
	int			natts = RelationGetNumberOfAttributes(table->relation);
	TupleTableSlot *slot = writer->new_row;

	memcpy(slot->tts_values, values, natts * sizeof(Datum));
	memcpy(slot->tts_isnull, nulls, natts * sizeof(bool));
	ExecStoreVirtualTuple(slot);
	ExecSimpleRelationInsert(writer->result, writer->estate, slot);
	check_written(table);
	write_end(table, begin);
}

/* See rows.h. */
void
row_fill_defaults(RowTable *table, Datum *values, bool *nulls,
				  const bool *given)
{
	TupleDesc	desc = RelationGetDescr(table->relation);
	ExprContext *context = CreateStandaloneExprContext();

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(desc, i);
		Expr	   *expr;

		if (given[i] || attribute->attisdropped || attribute->attgenerated)
			continue;
		expr = (Expr *) build_column_default(table->relation, i + 1);
		if (expr != NULL)
			values[i] = ExecEvalExpr(ExecInitExpr(expression_planner(expr), NULL),
									 context, &nulls[i]);
	}
}

/* The columns marked in replace, as the executor numbers them. */
static Bitmapset *
updated_columns(RowTable *table, const bool *replace)
{
	Bitmapset  *columns = NULL;

	for (int i = 0; i < RelationGetNumberOfAttributes(table->relation); i++)
	{
		if (replace[i])
			columns = bms_add_member(columns, i + 1 -
									 FirstLowInvalidHeapAttributeNumber);
	}
	return columns;
}

/* See rows.h. */
void
row_update(RowTable *table, TupleTableSlot *slot, const Datum *values,
		   const bool *nulls, const bool *replace)
{
	Bitmapset  *columns = updated_columns(table, replace);
	RowWriter  *writer = writer_for(table, columns);
	WriteBegin	begin = write_begin(table, CMD_UPDATE);
	TupleTableSlot *new_row = writer->new_row;

	slot_getallattrs(slot);
	for (int i = 0; i < RelationGetNumberOfAttributes(table->relation); i++)
	{
		new_row->tts_values[i] = replace[i] ? values[i] : slot->tts_values[i];
		new_row->tts_isnull[i] = replace[i] ? nulls[i] : slot->tts_isnull[i];
	}
	ExecStoreVirtualTuple(new_row);
	EvalPlanQualSetSlot(&writer->epq, new_row);
	ExecSimpleRelationUpdate(writer->result, writer->estate, &writer->epq,
							 slot, new_row);
	check_written(table);
	write_end(table, begin);
	bms_free(columns);
}

/* See rows.h. */
void
row_delete(RowTable *table, TupleTableSlot *slot)
{
	RowWriter  *writer = writer_for(table, NULL);
	WriteBegin	begin = write_begin(table, CMD_DELETE);
	TriggerDesc *triggers = writer->result->ri_TrigDesc;

	EvalPlanQualSetSlot(&writer->epq, writer->new_row);
	ExecSimpleRelationDelete(writer->result, writer->estate, &writer->epq,
							 slot);
	write_end(table, begin);

	if (triggers != NULL && triggers->trig_delete_before_row)
	{
		ItemPointerData tid = slot->tts_tid;

		if (table_tuple_fetch_row_version(table->relation, &tid, SnapshotSelf,
										  slot))
			write_suppressed(table);
	}
}
