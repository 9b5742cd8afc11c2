/*
 * row_expr.c
 *		Expressions of the tables that row_write.c writes, compiled once per backend
 *		instead of once per write: CHECK constraints, conditions of triggers, and
 *		predicates of indexes.
 *
 * The executor reads and compiles the constraints of a table for every statement
 * that writes it, the conditions (WHEN) of its triggers, and the predicates of its
 * indexes.  For a job that is more work than the update itself.  What is kept here is
 * what the executor would make: every constraint, condition and index of the table,
 * those that users have added included.
 *
 * A set is kept for one role, whose right to call functions was checked when it was
 * compiled, until
 *
 * - one of our relations changes (quota_catalog_age());
 * - any function or type changes: planning may have put its body, or that it has no
 *	 constraints, into the expression; or what roles are members of.
 *
 * Kept are expressions of columns and built-in functions.  Others may keep something of
 * the statement when they are evaluated (what a row looks like), or of an error in the
 * middle (functions in SQL): they are compiled for each writer.
 *
 * An update evaluates only constraints that the columns it changes may break: one that
 * is valid, and goes by nothing but other columns (it is immutable), holds already.
 *
 * Indexes are opened and locked for every writer as ever: only what says how to fill
 * them is kept, of b-trees of columns (other access methods may keep something of a
 * statement in it) that take entries: CREATE INDEX CONCURRENTLY has some that do not yet.
 *
 * A compiled expression has room for one evaluation at a time, and a constraint may
 * call a function that writes the same table.  So a set is lent to one writer at a
 * time; another one that comes meanwhile gets none.  A writer may end by an error:
 * what gives the set back is that its memory is freed.
 */
#include "row_expr.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "catalog/index.h"
#include "catalog/pg_am.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "rewrite/prs2lock.h"
#include "rewrite/rewriteHandler.h"
#include "rewrite/rewriteManip.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"

/* Those of one table. */
struct RowExprs
{
	MemoryContext context;		/* NULL = none are kept */
	int			nexprs;
	ExprState **exprs;			/* NULL = not kept, or not enforced */
	Bitmapset **columns;		/* that each goes by; NULL = who knows */
	int			ntriggers;
	ExprState **conditions;		/* one for each trigger, NULL = not kept, or none */
	List	   *indexes;		/* KeptIndex, of those that were opened */
	Oid			relation;
	Oid			role;
	uint64		age;
	bool		lent;
};

typedef struct KeptIndex
{
	Oid			index;
	IndexInfo  *info;
} KeptIndex;

static RowExprs kept[QUOTA_N_RELATIONS];
static uint64 code_age = 0;		/* moves when a function, type or membership changes */

/* Syscache callback: may run at any moment. */
static void
code_changed(Datum arg, int cache, uint32 hash)
{
	code_age++;
}

/* What the constraints depend on moves one of these; both only grow. */
static uint64
current_age(void)
{
	static bool registered = false;

	if (!registered)
	{
		CacheRegisterSyscacheCallback(PROCOID, code_changed, (Datum) 0);
		CacheRegisterSyscacheCallback(TYPEOID, code_changed, (Datum) 0);
		CacheRegisterSyscacheCallback(AUTHMEMROLEMEM, code_changed, (Datum) 0);
		registered = true;
	}
	return quota_catalog_age() + code_age;
}

/* The columns that the constraint goes by; NULL when it may be broken by others. */
static Bitmapset *
columns_of(const ConstrCheck *check, Expr *expr)
{
	Bitmapset  *columns = NULL;

	if (!check->ccvalid || contain_mutable_functions((Node *) expr))
		return NULL;
	pull_varattnos((Node *) expr, 1, &columns);
	if (bms_is_member(0 - FirstLowInvalidHeapAttributeNumber, columns))
		return NULL;			/* the whole row */
	return columns;
}

/* For check_functions_in_node(): it may keep something of a statement, or call back. */
static bool
is_foreign(Oid function, void *context)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	Form_pg_proc form;
	bool		foreign;

	if (!HeapTupleIsValid(tuple))
		return true;
	form = (Form_pg_proc) GETSTRUCT(tuple);
	foreign = form->prolang != INTERNALlanguageId || form->prosecdef ||
		!heap_attisnull(tuple, Anum_pg_proc_proconfig, NULL);
	ReleaseSysCache(tuple);
	return foreign;
}

/*
 * True for what must be compiled for every writer, as what is compiled keeps something
 * in memory of the statement, or of a function: rows, types of rows, functions that are
 * not built in.  A list of what is known to be good: all others are not.
 */
static bool
is_special(Node *node, void *context)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Var:
			return ((Var *) node)->varattno == 0;
		case T_NullTest:
			if (((NullTest *) node)->argisrow)
				return true;
			break;
		case T_ScalarArrayOpExpr:
			if (OidIsValid(((ScalarArrayOpExpr *) node)->hashfuncid))
				return true;
			break;
		case T_List:
		case T_Const:
		case T_RelabelType:
		case T_CollateExpr:
		case T_BoolExpr:
		case T_BooleanTest:
		case T_CaseExpr:
		case T_CaseWhen:
		case T_CaseTestExpr:
		case T_CoalesceExpr:
		case T_MinMaxExpr:
		case T_FuncExpr:
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
			break;
		default:
			return true;
	}
	if (check_functions_in_node(node, is_foreign, NULL))
		return true;
	return expression_tree_walker(node, is_special, NULL);
}

/* A constraint as planned; NULL when it is not enforced.  Throws. */
static Expr *
plan_constraint(Relation table, int i)
{
	Expr	   *expr = compat_check_expr(table, &table->rd_att->constr->check[i]);

	return expr ? expression_planner(expr) : NULL;
}

/* Compiles the constraints of the table into c.  Throws. */
static void
compile_constraints(RowExprs *c, Relation table)
{
	TupleConstr *constraints = table->rd_att->constr;
	int			n = constraints ? constraints->num_check : 0;

	c->nexprs = n;
	c->exprs = palloc0(n * sizeof(ExprState *));
	c->columns = palloc0(n * sizeof(Bitmapset *));
	for (int i = 0; i < n; i++)
	{
		Expr	   *expr = plan_constraint(table, i);

		if (expr == NULL)
			continue;
		if (!is_special((Node *) expr, NULL))
			c->exprs[i] = ExecInitExpr(expr, NULL);
		c->columns[i] = columns_of(&constraints->check[i], expr);
	}
}

/* The condition of a trigger, as the executor wants it; NULL = not kept.  Throws. */
static ExprState *
compile_condition(Relation table, const char *condition)
{
	Node	   *expr = compat_trigger_expr(table, condition);

	ChangeVarNodes(expr, PRS2_OLD_VARNO, INNER_VAR, 0);
	ChangeVarNodes(expr, PRS2_NEW_VARNO, OUTER_VAR, 0);
	expr = (Node *) expression_planner((Expr *) make_ands_implicit((Expr *) expr));
	return is_special(expr, NULL) ? NULL : ExecInitQual((List *) expr, NULL);
}

/* Those of all triggers.  Throws. */
static ExprState **
compile_conditions(Relation table, const TriggerDesc *triggers)
{
	ExprState **exprs;

	if (triggers == NULL)
		return NULL;
	exprs = palloc0(triggers->numtriggers * sizeof(ExprState *));
	for (int i = 0; i < triggers->numtriggers; i++)
		if (triggers->triggers[i].tgqual != NULL)
			exprs[i] = compile_condition(table, triggers->triggers[i].tgqual);
	return exprs;
}

/* Compiles all of the table into c.  Throws. */
static void
compile(RowExprs *c, Relation table, const TriggerDesc *triggers)
{
	uint64		age = current_age();
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "quota expressions",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);

	compile_constraints(c, table);
	c->conditions = compile_conditions(table, triggers);
	c->ntriggers = triggers ? triggers->numtriggers : 0;
	c->indexes = NIL;
	MemoryContextSwitchTo(old);
	MemoryContextSetParent(context, CacheMemoryContext);
	c->context = context;
	c->relation = RelationGetRelid(table);
	c->role = GetUserId();
	c->age = age;
}

/* Forgets what is kept unless it is what compile() would make now. */
static void
forget_old(RowExprs *c, Relation table)
{
	if (c->context == NULL ||
		(c->relation == RelationGetRelid(table) && c->role == GetUserId() &&
		 c->age == current_age()))
		return;
	MemoryContextDelete(c->context);
	c->context = NULL;
}

/* Memory callback: the borrower is gone. */
static void
give_back(void *arg)
{
	((RowExprs *) arg)->lent = false;
}

/* Those constraints that an update of these columns may break; NULL = an insert. */
static ExprState **
choose(const RowExprs *c, Relation table, const Bitmapset *updated)
{
	ExprState **chosen = palloc0(c->nexprs * sizeof(ExprState *));

	for (int i = 0; i < c->nexprs; i++)
	{
		Expr	   *expr;

		if (updated && c->columns[i] && !bms_overlap(c->columns[i], updated))
			continue;
		chosen[i] = c->exprs[i];
		if (chosen[i] == NULL && (expr = plan_constraint(table, i)) != NULL)
			chosen[i] = ExecInitExpr(expr, NULL);
	}
	return chosen;
}

/* See row_expr.h. */
RowExprs *
row_expr_lend(QuotaRelation rel, ResultRelInfo *result, EState *estate,
			  const Bitmapset *updated)
{
	Relation	table = result->ri_RelationDesc;
	RowExprs   *c = &kept[rel];
	MemoryContextCallback *callback;

	if (c->lent)
		return NULL;
	forget_old(c, table);
	if (c->context == NULL)
		compile(c, table, result->ri_TrigDesc);
	callback = MemoryContextAlloc(estate->es_query_cxt, sizeof(*callback));
	callback->func = give_back;
	callback->arg = c;
	MemoryContextRegisterResetCallback(estate->es_query_cxt, callback);
	c->lent = true;
	if (c->nexprs > 0)
		compat_check_exprs(result) = choose(c, table, updated);
	for (int i = 0; i < c->ntriggers; i++)
		result->ri_TrigWhenExprs[i] = c->conditions[i];
	return c;
}

/* ---- indexes ---- */

/*
 * What the executor makes of an open index may be kept.  Expressions it compiles, and
 * looks at the right to call their functions, only when the predicate is true.
 */
static bool
may_keep(const IndexInfo *info, Relation index)
{
	return info->ii_Expressions == NIL && info->ii_ReadyForInserts &&
		index->rd_rel->relam == BTREE_AM_OID &&
		!is_special((Node *) info->ii_Predicate, NULL);	/* as planned */
}

/* One that is kept; NULL = none. */
static IndexInfo *
find_index(const RowExprs *c, Oid index)
{
	ListCell   *cell;

	foreach(cell, c->indexes)
	{
		const KeptIndex *k = lfirst(cell);

		if (k->index == index)
			return k->info;
	}
	return NULL;
}

/* Keeps what the executor makes of an index, its predicate compiled.  Throws. */
static IndexInfo *
keep_index(RowExprs *c, Relation index)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "quota index", ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	KeptIndex  *k = palloc(sizeof(KeptIndex));

	k->index = RelationGetRelid(index);
	k->info = BuildIndexInfo(index);
	if (k->info->ii_Predicate != NIL)
		k->info->ii_PredicateState =
			ExecInitQual((List *) expression_planner((Expr *) k->info->ii_Predicate), NULL);
	MemoryContextSwitchTo(c->context);
	c->indexes = lappend(c->indexes, k);
	MemoryContextSwitchTo(old);
	MemoryContextSetParent(context, c->context);
	return k->info;
}

/* What the executor makes of an open index.  Throws. */
static IndexInfo *
index_info(RowExprs *c, Relation index)
{
	IndexInfo  *info = find_index(c, RelationGetRelid(index));

	if (info != NULL)
	{
		/* what an update of other columns has found out */
		info->ii_CheckedUnchanged = false;
		info->ii_IndexUnchanged = false;
		return info;
	}
	info = BuildIndexInfo(index);
	return may_keep(info, index) ? keep_index(c, index) : info;
}

/* See row_expr.h. */
void
row_expr_open_indexes(RowExprs *lent, ResultRelInfo *result)
{
	List	   *oids = RelationGetIndexList(result->ri_RelationDesc);
	int			n = list_length(oids);

	result->ri_NumIndices = 0;
	result->ri_IndexRelationDescs = palloc(n * sizeof(Relation));
	result->ri_IndexRelationInfo = palloc(n * sizeof(IndexInfo *));
	for (int i = 0; i < n; i++)
	{
		Relation	index = index_open(list_nth_oid(oids, i), RowExclusiveLock);

		result->ri_IndexRelationDescs[i] = index;
		result->ri_IndexRelationInfo[i] = index_info(lent, index);
		result->ri_NumIndices = i + 1;
	}
	list_free(oids);
}
