/*
 * row_check.h
 *		CHECK constraints of our tables and conditions of their triggers, compiled
 *		once per backend.
 */
#ifndef QUOTA_ROW_CHECK_H
#define QUOTA_ROW_CHECK_H

#include "catalog.h"

#include "nodes/execnodes.h"

/*
 * Gives the writer of an open and locked table of ours its compiled CHECK
 * constraints and conditions of triggers, until the memory of estate is freed; or
 * nothing, and the executor compiles them itself.  updated: all columns that change,
 * triggers and generated ones included; NULL = unknown, or rows are inserted.  Called
 * in the memory of estate.  Throws what compiling throws.
 */
extern void row_check_lend(QuotaRelation rel, ResultRelInfo *result,
						   EState *estate, const Bitmapset *updated);

#endif							/* QUOTA_ROW_CHECK_H */
