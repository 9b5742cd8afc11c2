/*
 * rows.h
 *		Reaching rows of our own tables as logical replication apply does: index
 *		scan under a dirty snapshot, lock with SKIP, recheck; then write as
 *		row_write.h says.  So neither the caller's isolation level nor the planner
 *		matters, and no scan takes predicate locks.
 *
 * The caller has an active snapshot (any SQL function has), which keeps row
 * versions it was shown from being recycled before it locks them.  The tables are
 * heaps.
 *
 * Rights: none are checked.
 *
 * Waiting: nothing here waits for another transaction, but for a table under
 * ACCESS EXCLUSIVE.
 *
 * Isolation: in REPEATABLE READ nothing here fails with 40001.  In SERIALIZABLE
 * reading takes no predicate locks and meets none.
 */
#ifndef QUOTA_ROWS_H
#define QUOTA_ROWS_H

#include "catalog.h"

#include "access/skey.h"
#include "executor/tuptable.h"
#include "utils/relcache.h"

typedef struct RowTable RowTable;	/* an open table with what writing needs */
typedef struct RowScan RowScan;

typedef enum RowOutcome
{
	ROW_LOCKED,					/* slot holds the latest version, locked */
	ROW_BUSY,					/* somebody else has it locked, not updated */
	ROW_CHANGED					/* updated or deleted since the scan, or just
								 * being so: that transaction's callback has
								 * yet to run or ran after the scan began */
} RowOutcome;

/* Takes ROW EXCLUSIVE, which stays until the transaction ends. */
extern RowTable *row_open(QuotaRelation rel);
/* For scans alone: takes ACCESS SHARE, so that no other lock is in its way. */
extern RowTable *row_open_to_read(QuotaRelation rel);
extern void row_close(RowTable *table);
/* From here on row_lock() locks for a row_delete(), in quota.jobs too. */
extern void row_will_delete(RowTable *table);
extern Relation row_relation(RowTable *table);
extern TupleTableSlot *row_slot(RowTable *table);	/* a new slot, freed by close */

/*
 * Keys are of the index's columns, forward in index order; collations are
 * filled in.
 */
extern RowScan *row_scan_begin(RowTable *table, QuotaRelation index,
							   int nkeys, ScanKey keys);

/* The same for rows with this bigint in the first column of the index. */
extern RowScan *row_scan_id(RowTable *table, QuotaRelation index, int64 id);

/*
 * Next row version that is committed or our own, or whose insert, update or
 * delete by another transaction is in progress (*in_progress = true then: skip
 * it).  A row that we update during the scan may come again in its new version.
 */
extern bool row_scan_next(RowScan *scan, TupleTableSlot *slot,
						  bool *in_progress);
/* The same backward: the first call gives the last row in index order. */
extern bool row_scan_back(RowScan *scan, TupleTableSlot *slot,
						  bool *in_progress);
/* The version it gave last is being inserted, if only by an update, by another one. */
extern bool row_scan_is_insert(const RowScan *scan);
extern void row_scan_end(RowScan *scan);

/*
 * A scan that can be asked for entries of the index too: row_scan_entry() moves on
 * without looking at the row, and gives the entry's bigint in that column and where
 * the row is, or an older version of it.
 */
extern RowScan *row_scan_begin_entries(RowTable *table, QuotaRelation index,
									   int nkeys, ScanKey keys);
extern bool row_scan_entry(RowScan *scan, int column, int64 *value,
						   ItemPointerData *tid);

/*
 * A walk finds rows by ids that rise from lo to hi, in an index of one bigint, without
 * a descent for each.  It reads entries of many ids at a time, so what it finds is
 * what a scan would, but if it finds none, or one that is in progress (both false),
 * there may be another since: then ask a scan.  Ended by row_scan_end().
 */
extern RowScan *row_walk_begin(RowTable *table, QuotaRelation index,
							   int64 lo, int64 hi);
extern bool row_walk_to(RowScan *walk, int64 id, TupleTableSlot *slot);

/*
 * The row version that once was here, as a scan would give it, if it is the one whose
 * first column has this id.  False when it is not, or is in progress: then ask a scan.
 */
extern bool row_at(RowTable *table, ItemPointerData tid, int64 id,
				   TupleTableSlot *slot);

/*
 * The scan ends after so many entries of the index, those of dead rows included;
 * then it gave up.
 */
extern void row_scan_limit(RowScan *scan, int entries);
extern bool row_scan_gave_up(const RowScan *scan);

/* the version in slot, as scanned or locked, was written by this transaction */
extern bool row_is_ours(TupleTableSlot *slot);

/*
 * Locks the row in slot, never waits: as an update of no key column does in
 * quota.jobs, so that foreign keys to it don't matter, as a delete does
 * elsewhere.  Unless the answer is ROW_LOCKED the slot's contents are stale.
 */
extern RowOutcome row_lock(RowTable *table, TupleTableSlot *slot);

#endif							/* QUOTA_ROWS_H */
