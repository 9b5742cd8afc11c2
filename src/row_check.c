/*
 * row_check.c
 *		CHECK constraints of the tables that row_write.c writes, and conditions of
 *		their triggers, compiled once per backend instead of once per write.
 *
 * The executor reads and compiles the constraints of a table for every statement
 * that writes it, and the conditions (WHEN) of its triggers.  For a job that is more
 * work than the update itself.  What is kept here is what the executor would make:
 * every constraint and condition of the table, those that users have added included.
 *
 * A set is kept for one role, whose right to call functions was checked when it was
 * compiled, until
 *
 * - one of our relations changes (quota_catalog_age());
 * - any function or type changes: planning may have put its body, or that it has no
 *	 constraints, into the expression.
 *
 * An update evaluates only constraints that the columns it changes may break: one that
 * is valid, and goes by nothing but other columns (it is immutable), holds already.
 *
 * A compiled expression has room for one evaluation at a time, and a constraint may
 * call a function that writes the same table.  So a set is lent to one writer at a
 * time; another one that comes meanwhile gets none.  A writer may end by an error:
 * what gives the set back is that its memory is freed.
 */
#include "row_check.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "rewrite/prs2lock.h"
#include "rewrite/rewriteHandler.h"
#include "rewrite/rewriteManip.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"

/* The constraints and conditions of one table. */
typedef struct Checks
{
	MemoryContext context;		/* NULL = none are kept */
	int			nexprs;
	ExprState **exprs;
	Bitmapset **columns;		/* that each goes by; NULL = who knows */
	int			ntriggers;
	ExprState **conditions;		/* one for each trigger, NULL = it has none */
	Oid			relation;
	Oid			role;
	uint64		age;
	bool		lent;
} Checks;

static Checks kept[QUOTA_N_RELATIONS];
static uint64 code_age = 0;		/* moves when a function or type changes */

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

/* Compiles the constraints of the table into c.  Throws. */
static void
compile_constraints(Checks *c, Relation table)
{
	TupleConstr *constraints = table->rd_att->constr;
	int			n = constraints->num_check;

	c->nexprs = n;
	c->exprs = palloc0(n * sizeof(ExprState *));
	c->columns = palloc0(n * sizeof(Bitmapset *));
	for (int i = 0; i < n; i++)
	{
		Expr	   *expr = compat_check_expr(table, &constraints->check[i]);

		if (expr == NULL)
			continue;
		expr = expression_planner(expr);
		c->exprs[i] = ExecInitExpr(expr, NULL);
		c->columns[i] = columns_of(&constraints->check[i], expr);
	}
}

/* The condition of a trigger, as the executor wants it.  Throws. */
static ExprState *
compile_condition(Relation table, const char *condition)
{
	Node	   *expr = compat_trigger_expr(table, condition);

	ChangeVarNodes(expr, PRS2_OLD_VARNO, INNER_VAR, 0);
	ChangeVarNodes(expr, PRS2_NEW_VARNO, OUTER_VAR, 0);
	expr = (Node *) expression_planner((Expr *) make_ands_implicit((Expr *) expr));
	return ExecInitQual((List *) expr, NULL);
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
compile(Checks *c, Relation table, const TriggerDesc *triggers)
{
	uint64		age = current_age();
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "quota checks",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);

	compile_constraints(c, table);
	c->conditions = compile_conditions(table, triggers);
	c->ntriggers = triggers ? triggers->numtriggers : 0;
	MemoryContextSwitchTo(old);
	MemoryContextSetParent(context, CacheMemoryContext);
	c->context = context;
	c->relation = RelationGetRelid(table);
	c->role = GetUserId();
	c->age = age;
}

/* Forgets what is kept unless it is what compile() would make now. */
static void
forget_old(Checks *c, Relation table)
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
	((Checks *) arg)->lent = false;
}

/* Those constraints that an update of these columns may break. */
static ExprState **
choose(const Checks *c, const Bitmapset *updated)
{
	ExprState **chosen = palloc0(c->nexprs * sizeof(ExprState *));

	for (int i = 0; i < c->nexprs; i++)
		if (c->columns[i] == NULL || bms_overlap(c->columns[i], updated))
			chosen[i] = c->exprs[i];
	return chosen;
}

/* See row_check.h. */
void
row_check_lend(QuotaRelation rel, ResultRelInfo *result, EState *estate,
			   const Bitmapset *updated)
{
	Relation	table = result->ri_RelationDesc;
	Checks	   *c = &kept[rel];
	MemoryContextCallback *callback;

	if (table->rd_att->constr == NULL ||
		table->rd_att->constr->num_check == 0 || c->lent)
		return;
	forget_old(c, table);
	if (c->context == NULL)
		compile(c, table, result->ri_TrigDesc);
	callback = MemoryContextAlloc(estate->es_query_cxt, sizeof(*callback));
	callback->func = give_back;
	callback->arg = c;
	MemoryContextRegisterResetCallback(estate->es_query_cxt, callback);
	c->lent = true;
	compat_check_exprs(result) = updated ? choose(c, updated) : c->exprs;
	for (int i = 0; i < c->ntriggers; i++)
		result->ri_TrigWhenExprs[i] = c->conditions[i];
}
