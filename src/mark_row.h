/*
 * mark_row.h
 *		Rows and pages of quota.marks: between mark_table.c, mark_row.c, mark_page.c
 *		and mark_epoch.c.  Pages are locked by the caller.
 */
#ifndef QUOTA_MARK_ROW_H
#define QUOTA_MARK_ROW_H

#include "mark_page.h"

#include "access/htup.h"
#include "storage/block.h"
#include "storage/buf.h"
#include "storage/bufpage.h"

#define MARK_COLUMNS		4	/* of the table */
#define MARK_EPOCH_BLOCK	0	/* has the rows of epochs, others those of buckets */

/* Of a free row. */
extern const uint8 mark_no_id[MARK_ID_LEN];

/* ---- mark_row.c ---- */

/* The row as a tuple: visible to everybody, whatever happens. */
extern HeapTuple mark_row_form(Relation rel, const MarkRow *row);
/* The length of every row. */
extern Size mark_row_length(Relation rel);
/* The row at a place; NULL when there is none of ours. */
extern HeapTupleHeader mark_row_at(Relation rel, Page page, OffsetNumber offset);
/* The row at a place has this id. */
extern bool mark_row_is_at(Relation rel, Page page, OffsetNumber offset,
						   const uint8 *id);
/* Its id: the first column. */
extern const uint8 *mark_row_id(HeapTupleHeader row);
/* Copies a row off its page. */
extern void mark_row_read(HeapTupleHeader data, MarkRow *row);
/* A block, locked. */
extern Buffer mark_lock_block(Relation rel, BlockNumber block, int mode);
/* Shows the rows of one block that are not free; its lock is not held meanwhile. */
extern void mark_walk_block(Relation rel, BlockNumber block, MarkReader reader,
							void *arg);

/* ---- mark_page.c ---- */

/* A free row of the page, or InvalidOffsetNumber for a new one; false: full. */
extern bool mark_has_room(Relation rel, Page page, OffsetNumber *offset);
/* One more block, locked; all zero until something is written. */
extern Buffer mark_extend(Relation rel);
/*
 * Writes what fill() says to the place on this locked block, and lets go of that.
 * False when nothing was to be written.
 */
extern bool mark_write_locked(Relation rel, Buffer buffer, MarkPlace *place,
							  MarkFill fill, void *arg, XLogRecPtr *lsn);

/* ---- mark_epoch.c ---- */

/* The row is of an epoch: no hash of a bucket begins with so many zeros. */
extern bool mark_is_epoch(const uint8 *id);

#endif							/* QUOTA_MARK_ROW_H */
