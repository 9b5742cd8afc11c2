/*
 * row_write.c
 *		Writing rows of our own tables without the planner; see row_write.h for
 *		what holds.
 *
 * Writing needs what the executor would set up for an INSERT or UPDATE of this
 * table (an EState with a range table of one entry, a ResultRelInfo with open
 * indexes).  That is made with the first write and kept until row_close(): the
 * "writer".  Which columns an update sets is part of that state (triggers on
 * columns and generated columns look at it), so a different set of columns gets
 * a new writer.
 *
 * Indexes are opened with the first write that has an entry for them: no delete has,
 * and an update only when the new version finds no room on its page (else it is HOT).
 *
 * A row is locked before it is written, as neither write may wait.  A delete can do
 * without, where nothing has to be known between the two: heap_delete() can be told not
 * to wait, and answers instead (row_try_delete()).  heap_update() can't: what it would
 * do about lockers it does only if it may wait.
 *
 * Some triggers of ours look at what others write, and let pass whatever we write
 * (catalog.h).  Where a table has no others that fire, they are not called at all.
 *
 * Nothing here touches shared memory of ours, and everything may throw: callers
 * hold no lock of it.
 */
#include "row_write.h"

#include "row_expr.h"
#include "row_role.h"
#include "row_table.h"

#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_trigger.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "executor/nodeModifyTable.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_relation.h"
#include "rewrite/rewriteHandler.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

struct RowWriter
{
	EState	   *estate;
	ResultRelInfo *result;
	EPQState	epq;
	RowExprs   *exprs;			/* lent; NULL = none */
	TupleTableSlot *new_row;	/* the version to be written */
	bool		has_indexes;	/* they are open */
	bool		inserts_watched;	/* triggers do something on an insert of ours, */
	bool		updates_watched;	/* or an update */
	bool		for_insert;		/* all constraints are evaluated */
};

/* ---- the writer ---- */

/* The trigger is one that lets pass whatever we write. */
static bool
is_idle(const Trigger *trigger, const QuotaCatalog *ours)
{
	for (int i = 0; i < QUOTA_N_IDLE_TRIGGERS; i++)
		if (trigger->tgfoid == ours->idle_triggers[i])
			return true;
	return false;
}

/*
 * Rows that we insert (TRIGGER_TYPE_INSERT), or update, meet a trigger that does
 * something with them.
 */
static bool
is_watched(const RowTable *table, int16 event)
{
	const int16 wanted = TRIGGER_TYPE_ROW | event;
	/* a look-up may replace what the relcache has, so it comes first */
	const QuotaCatalog *ours = quota_catalog();
	const TriggerDesc *triggers = table->relation->trigdesc;

	for (int i = 0; triggers && i < triggers->numtriggers; i++)
		if ((triggers->triggers[i].tgtype & wanted) == wanted &&
			!is_idle(&triggers->triggers[i], ours))
			return true;
	return false;
}

/* It has columns that follow from others. */
static bool
has_generated(const RowTable *table)
{
	const TupleConstr *constraints = RelationGetDescr(table->relation)->constr;

	return constraints && constraints->has_generated_stored;
}

/* Opens the indexes of the writer's table, unless they are. */
static void
need_indexes(RowWriter *writer)
{
	MemoryContext old;

	if (writer->has_indexes)
		return;
	old = MemoryContextSwitchTo(writer->estate->es_query_cxt);
	if (writer->exprs)
		row_expr_open_indexes(writer->exprs, writer->result);
	else
		ExecOpenIndices(writer->result, false);
	MemoryContextSwitchTo(old);
	writer->has_indexes = true;
}

/* See row_table.h. */
void
row_writer_end(RowTable *table)
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

/* The table has a writer, and it will do. */
static bool
has_writer(const RowTable *table, CmdType operation, const bool *given)
{
	if (table->writer == NULL)
		return false;
	switch (operation)
	{
		case CMD_INSERT:
			return table->writer->for_insert;
		case CMD_UPDATE:
			return table->updated &&
				memcmp(given, table->updated,
					   RelationGetNumberOfAttributes(table->relation)) == 0;
		default:
			return true;
	}
}

/* The columns given, as the executor numbers them. */
static Bitmapset *
updated_columns(const RowTable *table, const bool *given)
{
	Bitmapset  *columns = NULL;

	for (int i = 0; given && i < RelationGetNumberOfAttributes(table->relation); i++)
	{
		if (given[i])
			columns = bms_add_member(columns, i + 1 -
									 FirstLowInvalidHeapAttributeNumber);
	}
	return columns;
}

/* Remembers the columns that the writer is made for, NULL = it is for no update. */
static void
remember_updated(RowTable *table, const bool *given)
{
	int			natts = RelationGetNumberOfAttributes(table->relation);

	if (table->updated)
		pfree(table->updated);
	table->updated = NULL;
	if (given)
		table->updated = memcpy(palloc(natts * sizeof(bool)), given,
								natts * sizeof(bool));
}

/* The table's writer; given: the columns that an update sets, as in RowValues. */
static RowWriter *
writer_for(RowTable *table, CmdType operation, const bool *given)
{
	MemoryContext old;
	RowWriter  *writer;
	RangeTblEntry *rte;
	Bitmapset  *updated;

	if (has_writer(table, operation, given))
		return table->writer;
	row_writer_end(table);

	old = MemoryContextSwitchTo(table->context);
	writer = palloc0(sizeof(RowWriter));
	remember_updated(table, given);
	writer->estate = CreateExecutorState();
	MemoryContextSwitchTo(writer->estate->es_query_cxt);
	updated = updated_columns(table, given);

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
	writer->inserts_watched = is_watched(table, TRIGGER_TYPE_INSERT);
	writer->updates_watched = is_watched(table, TRIGGER_TYPE_UPDATE);
	if (writer->updates_watched || has_generated(table))
		updated = NULL;			/* others change, too */
	writer->for_insert = updated == NULL;
	writer->exprs = row_expr_lend(table->rel, writer->result, writer->estate, updated);
	compat_epq_init(&writer->epq, writer->estate);
	writer->new_row = ExecInitExtraTupleSlot(writer->estate,
											 RelationGetDescr(table->relation),
											 &TTSOpsVirtual);
	MemoryContextSwitchTo(old);
	table->writer = writer;
	return writer;
}

/* ---- one write ---- */

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

/* Throws 23502 or 23514 for what the table, or what it is a partition of, refuses. */
static void
check_constraints(RowTable *table, TupleTableSlot *slot)
{
	RowWriter  *writer = table->writer;

	if (RelationGetDescr(table->relation)->constr)
		ExecConstraints(writer->result, slot, writer->estate);
	if (table->relation->rd_rel->relispartition)
		ExecPartitionCheck(writer->result, slot, writer->estate, true);
}

/* ExecSimpleRelationInsert() without triggers. */
static void
insert_unwatched(RowTable *table, TupleTableSlot *slot)
{
	RowWriter  *writer = table->writer;
	ResultRelInfo *result = writer->result;

	if (has_generated(table))
		ExecComputeStoredGenerated(result, writer->estate, slot, CMD_INSERT);
	check_constraints(table, slot);
	simple_table_tuple_insert(table->relation, slot);
	if (result->ri_NumIndices > 0)
		compat_insert_entries(result, slot, writer->estate, false, compat_all_entries);
}

/* See row_write.h. */
void
row_insert(RowTable *table, const RowValues *row)
{
	RowWriter  *writer = writer_for(table, CMD_INSERT, NULL);
	WriteBegin	begin = write_begin(table, CMD_INSERT);
	int			natts = RelationGetNumberOfAttributes(table->relation);
	TupleTableSlot *slot = writer->new_row;

	memcpy(slot->tts_values, row->values, natts * sizeof(Datum));
	memcpy(slot->tts_isnull, row->nulls, natts * sizeof(bool));
	ExecStoreVirtualTuple(slot);
	slot->tts_tableOid = RelationGetRelid(table->relation);
	need_indexes(writer);
	if (writer->inserts_watched)
	{
		ExecSimpleRelationInsert(writer->result, writer->estate, slot);
		check_written(table);
	}
	else
		insert_unwatched(table, slot);
	table->written = slot->tts_tid;
	write_end(table, begin);
}

/*
 * See row_write.h.  A trigger before the write has our slot of the new version, one after
 * it has its place.
 */
bool
row_is_written(const RowTable *table, const TriggerData *trigger)
{
	bool		updates = TRIGGER_FIRED_BY_UPDATE(trigger->tg_event);
	ItemPointerData written = table->written;

	if (RelationGetRelid(trigger->tg_relation) != RelationGetRelid(table->relation) ||
		(!updates && !TRIGGER_FIRED_BY_INSERT(trigger->tg_event)))
		return false;
	if (TRIGGER_FIRED_BEFORE(trigger->tg_event))
		return table->writer != NULL && table->writer->new_row ==
			(updates ? trigger->tg_newslot : trigger->tg_trigslot);
	return ItemPointerIsValid(&written) &&
		ItemPointerEquals(&(updates ? trigger->tg_newtuple : trigger->tg_trigtuple)->t_self,
						  &written);
}

/* See row_write.h. */
ItemPointerData
row_written_at(const RowTable *table)
{
	return table->written;
}

/* See row_write.h. */
void
row_fill_defaults(RowTable *table, RowValues *row)
{
	TupleDesc	desc = RelationGetDescr(table->relation);
	ExprContext *context = CreateStandaloneExprContext();

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(desc, i);
		Expr	   *expr;

		if (row->given[i] || attribute->attisdropped || attribute->attgenerated)
			continue;
		expr = (Expr *) build_column_default(table->relation, i + 1);
		if (expr != NULL)
			row->values[i] = ExecEvalExpr(ExecInitExpr(expression_planner(expr), NULL),
										  context, &row->nulls[i]);
	}
}

/*
 * ExecSimpleRelationUpdate() without triggers and, most of the time, without indexes.
 */
static void
update_unwatched(RowTable *table, TupleTableSlot *slot)
{
	RowWriter  *writer = table->writer;
	ResultRelInfo *result = writer->result;
	Relation	relation = table->relation;
	compat_index_update indexes;

	CheckCmdReplicaIdentity(relation, CMD_UPDATE);
	if (has_generated(table))
		ExecComputeStoredGenerated(result, writer->estate, writer->new_row,
								   CMD_UPDATE);
	check_constraints(table, writer->new_row);
	simple_table_tuple_update(relation, &slot->tts_tid, writer->new_row,
							  writer->estate->es_snapshot, &indexes);
	if (compat_has_entries(indexes))
	{
		need_indexes(writer);
		compat_insert_entries(result, writer->new_row, writer->estate, true, indexes);
	}
}

/* See row_write.h. */
void
row_update(RowTable *table, TupleTableSlot *slot, const RowValues *row)
{
	RowWriter  *writer = writer_for(table, CMD_UPDATE, row->given);
	WriteBegin	begin = write_begin(table, CMD_UPDATE);
	TupleTableSlot *new_row = writer->new_row;
	int			natts = RelationGetNumberOfAttributes(table->relation);

	slot_getallattrs(slot);
	memcpy(new_row->tts_values, slot->tts_values, natts * sizeof(Datum));
	memcpy(new_row->tts_isnull, slot->tts_isnull, natts * sizeof(bool));
	for (int i = 0; i < natts; i++)
	{
		if (!row->given[i])
			continue;
		new_row->tts_values[i] = row->values[i];
		new_row->tts_isnull[i] = row->nulls[i];
	}
	ExecStoreVirtualTuple(new_row);
	new_row->tts_tableOid = RelationGetRelid(table->relation);
	if (writer->updates_watched)
	{
		need_indexes(writer);
		EvalPlanQualSetSlot(&writer->epq, new_row);
		ExecSimpleRelationUpdate(writer->result, writer->estate, &writer->epq,
								 slot, new_row);
		check_written(table);
	}
	else
		update_unwatched(table, slot);
	table->written = new_row->tts_tid;
	write_end(table, begin);
}

/* Throws 27000 if the row that was deleted is still there. */
static void
check_deleted(RowTable *table, const TupleTableSlot *deleted)
{
	ItemPointerData tid = deleted->tts_tid;
	TupleTableSlot *left = table_slot_create(table->relation, NULL);
	bool		found = table_tuple_fetch_row_version(table->relation, &tid, SnapshotSelf, left);

	ExecDropSingleTupleTableSlot(left);
	if (found)
		write_suppressed(table);
}

/* See row_write.h. */
void
row_delete(RowTable *table, TupleTableSlot *slot)
{
	RowWriter  *writer = writer_for(table, CMD_DELETE, NULL);
	WriteBegin	begin = write_begin(table, CMD_DELETE);
	TriggerDesc *triggers = writer->result->ri_TrigDesc;

	EvalPlanQualSetSlot(&writer->epq, writer->new_row);
	ExecSimpleRelationDelete(writer->result, writer->estate, &writer->epq,
							 slot);
	write_end(table, begin);

	if (triggers != NULL && triggers->trig_delete_before_row)
		check_deleted(table, slot);
}

/* See row_write.h. */
bool
row_try_delete(RowTable *table, TupleTableSlot *slot)
{
	const TriggerDesc *triggers = table->relation->trigdesc;
	TM_FailureData failure;
	bool		deleted;

	if (triggers != NULL &&
		(triggers->trig_delete_before_row || triggers->trig_delete_after_row))
		return false;
	CheckCmdReplicaIdentity(table->relation, CMD_DELETE);
	deleted = table_tuple_delete(table->relation, &slot->tts_tid,
								 GetCurrentCommandId(true), GetActiveSnapshot(),
								 InvalidSnapshot, false, &failure, false) == TM_Ok;
	CommandCounterIncrement();
	return deleted;
}
