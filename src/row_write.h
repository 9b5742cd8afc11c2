/*
 * row_write.h
 *		Writing rows that rows.h has reached: through the table access method, with
 *		indexes, constraints and row triggers.
 *
 * Every write is a command of its own: later commands and later calls of rows.h
 * see it, so that a claim and its completion may stand in one statement.  Its AFTER
 * ROW triggers have fired when the function returns; statement triggers don't fire.
 *
 * Rights: none are checked here, so nobody takes on another role to write.  Row
 * triggers, which users may have made, run as whoever called us; in a background
 * worker as row_role.c says.
 *
 * Waiting: nothing here waits for another transaction, with two exceptions that
 * come with the operations: a unique key that an open transaction is inserting
 * too, and row_delete() on quota.jobs while a foreign key check holds the row,
 * unless row_will_delete() was called.
 *
 * Isolation: in REPEATABLE READ nothing here fails with 40001.  In SERIALIZABLE a
 * write counts as a conflict with transactions that read the same row through SQL.
 */
#ifndef QUOTA_ROW_WRITE_H
#define QUOTA_ROW_WRITE_H

#include "row_values.h"

#include "commands/trigger.h"

/*
 * slot was locked by row_lock() and is stale afterwards, but what row_delete() deleted
 * can still be read in it.  row_update() leaves columns that were not given as they are;
 * row_insert() evaluates no defaults for them, though generated columns are computed.  A
 * CHECK constraint that holds whatever an update changes is not evaluated again.  All
 * throw what constraints and triggers throw, and 27000 when a BEFORE trigger suppresses
 * the write.
 */
extern void row_update(RowTable *table, TupleTableSlot *slot,
					   const RowValues *row);
extern void row_delete(RowTable *table, TupleTableSlot *slot);
extern void row_insert(RowTable *table, const RowValues *row);
/*
 * Deletes the row in slot, the version that was read and is not locked, unless it is in
 * anybody's hands, ours included, or is not the latest any more, or has row triggers on
 * DELETE: false, and nothing has happened.  Never waits; the slot stays as it was read.
 */
extern bool row_try_delete(RowTable *table, TupleTableSlot *slot);
/*
 * The trigger fires for the row that is being written into the table by these functions,
 * and not for one that some trigger or expression writes meanwhile.
 */
extern bool row_is_written(const RowTable *table, const TriggerData *trigger);
/* Where the version is that was written last, for row_at(). */
extern ItemPointerData row_written_at(const RowTable *table);

/* Gives columns that were not given their defaults, identity included. */
extern void row_fill_defaults(RowTable *table, RowValues *row);

#endif							/* QUOTA_ROW_WRITE_H */
