/*
 * compat.h
 *		Every difference between the server versions 15 to 18 that this code
 *		meets.  No other file tests PG_VERSION_NUM.
 */
#ifndef QUOTA_COMPAT_H
#define QUOTA_COMPAT_H

#include "postgres.h"

#if PG_VERSION_NUM < 150000
#error "quota needs PostgreSQL 15 or later"
#endif

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/*
 * Only what the server looks up by name is visible outside of the library: no other
 * library's function of the same name is called instead of ours, and calls among ours
 * are cheaper.  From 16 on the server's own headers and build see to that.
 */
#if PG_VERSION_NUM < 160000
#include "fmgr.h"

#undef PGDLLEXPORT
#define PGDLLEXPORT __attribute__((visibility("default")))
#undef PG_FUNCTION_INFO_V1
#define PG_FUNCTION_INFO_V1(name) \
	extern PGDLLEXPORT Datum name(PG_FUNCTION_ARGS); \
	extern PGDLLEXPORT const Pg_finfo_record *CppConcat(pg_finfo_, name)(void); \
	const Pg_finfo_record * \
	CppConcat(pg_finfo_, name)(void) \
	{ \
		static const Pg_finfo_record version_1 = {1}; \
		return &version_1; \
	} \
	extern int no_such_variable
#endif

/* A number no other transaction of this backend has; needs storage/proc.h. */
#if PG_VERSION_NUM >= 170000
#define QUOTA_LXID (MyProc->vxid.lxid)
#else
#define QUOTA_LXID (MyProc->lxid)
#endif

/* Which PGPROC is ours, below MaxBackends; needs storage/proc.h. */
#if PG_VERSION_NUM >= 170000
#define QUOTA_PROC_NUMBER MyProcNumber
#else
#define QUOTA_PROC_NUMBER (MyProc->pgprocno)
#endif

#include "utils/wait_event.h"

/* How views name a wait of ours; up to 16 all are "Extension". */
#if PG_VERSION_NUM >= 170000
#define quota_wait_event(name) WaitEventExtensionNew(name)
#else
#define quota_wait_event(name) PG_WAIT_EXTENSION
#endif

/* Needs storage/lock.h. */
#if PG_VERSION_NUM >= 170000
#define compat_lock_held_by_me(tag, mode) LockHeldByMe(tag, mode, false)
#else
#define compat_lock_held_by_me(tag, mode) LockHeldByMe(tag, mode)
#endif

/* a prefix from 18 on, before that a suffix that may also be a prefix */
#if PG_VERSION_NUM < 180000
#define pg_noreturn pg_attribute_noreturn()
#endif

#ifndef HAVE_INT128
#error "quota needs a compiler with 128-bit integers"
#endif

/*
 * What rows.c and row_write.c need to scan and write a table as logical
 * replication does.  Macros, so that the headers they need are included only there.
 */
#if PG_VERSION_NUM >= 180000
#define compat_index_beginscan(heap, index, snapshot, nkeys) \
	index_beginscan(heap, index, snapshot, NULL, nkeys, 0)
#else
#define compat_index_beginscan(heap, index, snapshot, nkeys) \
	index_beginscan(heap, index, snapshot, nkeys, 0)
#endif

#if PG_VERSION_NUM >= 180000
#define compat_exec_init_range_table(estate, rte, perms) \
	ExecInitRangeTable(estate, list_make1(rte), perms, bms_make_singleton(1))
#elif PG_VERSION_NUM >= 160000
#define compat_exec_init_range_table(estate, rte, perms) \
	ExecInitRangeTable(estate, list_make1(rte), perms)
#endif

/* A range table of one entry that updates the given columns. */
#if PG_VERSION_NUM >= 160000
#define compat_init_range_table(estate, rte, updated) \
	do { \
		List	   *perms_ = NIL; \
		addRTEPermissionInfo(&perms_, rte)->updatedCols = (updated); \
		compat_exec_init_range_table(estate, rte, perms_); \
	} while (0)
#define compat_epq_init(epq, estate) \
	EvalPlanQualInit(epq, estate, NULL, NIL, -1, NIL)
#else
#define compat_init_range_table(estate, rte, updated) \
	do { \
		(rte)->updatedCols = (updated); \
		ExecInitRangeTable(estate, list_make1(rte)); \
	} while (0)
#define compat_epq_init(epq, estate) \
	EvalPlanQualInit(epq, estate, NULL, NIL, -1)
#endif

/*
 * What an update says of indexes: whether the new version has entries in them, and
 * how these are made.
 */
#if PG_VERSION_NUM >= 160000
#define compat_index_update TU_UpdateIndexes
#define compat_has_entries(indexes) ((indexes) != TU_None)
#define compat_all_entries TU_All
#define compat_insert_entries(result, slot, estate, update, indexes) \
	list_free(ExecInsertIndexTuples(result, slot, estate, update, false, NULL, NIL, \
									(indexes) == TU_Summarizing))
#else
#define compat_index_update bool
#define compat_has_entries(indexes) (indexes)
#define compat_all_entries true
#define compat_insert_entries(result, slot, estate, update, indexes) \
	list_free(ExecInsertIndexTuples(result, slot, estate, update, false, NULL, NIL))
#endif

/*
 * A CHECK constraint as the executor compiles it, NULL for one that isn't
 * enforced, and where it keeps what it has compiled; the condition of a trigger.
 */
#if PG_VERSION_NUM >= 180000
#define compat_check_expr(relation, check) \
	((check)->ccenforced ? (Expr *) \
	 expand_generated_columns_in_expr(stringToNode((check)->ccbin), relation, 1) : \
	 NULL)
#define compat_check_exprs(result) ((result)->ri_CheckConstraintExprs)
#define compat_trigger_expr(relation, condition) \
	expand_generated_columns_in_expr( \
		expand_generated_columns_in_expr(stringToNode(condition), relation, \
										 PRS2_OLD_VARNO), \
		relation, PRS2_NEW_VARNO)
#else
#define compat_check_expr(relation, check) \
	((Expr *) stringToNode((check)->ccbin))
#define compat_check_exprs(result) ((result)->ri_ConstraintExprs)
#define compat_trigger_expr(relation, condition) \
	((Node *) stringToNode(condition))
#endif

/* This transaction has given a table of before another file; needs utils/rel.h. */
#if PG_VERSION_NUM >= 160000
#define compat_has_new_file(relation) \
	((relation)->rd_newRelfilelocatorSubid != InvalidSubTransactionId)
#else
#define compat_has_new_file(relation) \
	((relation)->rd_newRelfilenodeSubid != InvalidSubTransactionId)
#endif

/* The sequence behind an identity column. */
#if PG_VERSION_NUM >= 170000
#define compat_identity_sequence(relation, attnum) \
	getIdentitySequence(relation, attnum, false)
#else
#define compat_identity_sequence(relation, attnum) \
	getIdentitySequence(RelationGetRelid(relation), attnum, false)
#endif

#endif							/* QUOTA_COMPAT_H */
