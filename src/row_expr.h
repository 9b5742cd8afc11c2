/*
 * row_expr.h
 *		Expressions of our tables, compiled once per backend: CHECK constraints,
 *		conditions of triggers, predicates of indexes.
 */
#ifndef QUOTA_ROW_EXPR_H
#define QUOTA_ROW_EXPR_H

#include "catalog.h"

#include "nodes/execnodes.h"

typedef struct RowExprs RowExprs;

/*
 * Gives the writer of an open and locked table of ours its compiled CHECK
 * constraints and conditions of triggers, until the memory of estate is freed; or
 * nothing (NULL), and the executor compiles them itself.  updated: all columns that
 * change, triggers and generated ones included; NULL = unknown, or rows are inserted.
 * Called in the memory of estate.  Throws what compiling throws.
 */
extern RowExprs *row_expr_lend(QuotaRelation rel, ResultRelInfo *result,
							   EState *estate, const Bitmapset *updated);

/*
 * ExecOpenIndices() for a writer that they were lent to, in the memory of its estate.
 * Ended by ExecCloseIndices().  Throws what opening and compiling throws.
 */
extern void row_expr_open_indexes(RowExprs *lent, ResultRelInfo *result);

#endif							/* QUOTA_ROW_EXPR_H */
