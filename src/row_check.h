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
 * nothing, and the executor compiles them itself.  Throws what compiling throws.
 */
extern void row_check_lend(QuotaRelation rel, ResultRelInfo *result,
						   EState *estate);

#endif							/* QUOTA_ROW_CHECK_H */
