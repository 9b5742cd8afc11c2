/*
 * mark_page.h
 *		quota.marks: rows that are written in place, at once and for good.
 */
#ifndef QUOTA_MARK_PAGE_H
#define QUOTA_MARK_PAGE_H

#include "shmem.h"

#include "access/xlogdefs.h"
#include "utils/relcache.h"

#define MARK_ID_LEN			16

/* What column "image" holds. */
typedef struct MarkImage
{
	Oid			database;		/* where it was written: a copy is another one */
	int64		epoch;			/* crash epoch it was written in */
	ClockStamp	at;				/* when */
	Meter		meter;			/* what had been taken by then; settled to it */
} MarkImage;

typedef struct MarkRow
{
	uint8		id[MARK_ID_LEN];	/* of the bucket; all zero: the row is free */
	int64		ahead;			/* units that may have been taken since */
	MarkImage	image;
} MarkRow;

/*
 * Fills in the row to be written; false when nothing is to be written after all.
 * The page is locked meanwhile: it may lock a slot, but neither allocate, throw nor
 * wait for anything else.
 */
typedef bool (*MarkFill) (MarkRow *row, void *arg);
typedef void (*MarkReader) (const MarkRow *row, MarkPlace place, void *arg);

/*
 * Opens the table for writing.  Throws 55000 when what is written would not be for
 * good, 0A000 when the table is not as it was made.  mark_try_open(): NULL when
 * somebody has locked it.
 */
extern Relation mark_open(void);
extern Relation mark_try_open(void);
extern void mark_close(Relation rel);

/*
 * The row with this id, found at *place or elsewhere: where it is, and a copy; false
 * when there is none.
 */
extern bool mark_find(Relation rel, const uint8 *id, MarkPlace *place,
					  MarkRow *row);

typedef enum MarkWritten
{
	MARK_WRITTEN,
	MARK_NOT_WANTED,			/* so said fill() */
	MARK_NO_ROOM
} MarkWritten;

/*
 * Writes the row with this id, found at *place or elsewhere, or a new one, whose
 * place it fills in.  *lsn: as far as the log has to be flushed before anybody may
 * rely on it.
 */
extern MarkWritten mark_write(Relation rel, const uint8 *id, MarkPlace *place,
							  MarkFill fill, void *arg, XLogRecPtr *lsn);
/* The same, but only if the row is at that place. */
extern bool mark_rewrite(Relation rel, const uint8 *id, MarkPlace place,
						 MarkFill fill, void *arg, XLogRecPtr *lsn);

/* Shows every row that is not free, but those of epochs. */
extern void mark_walk(Relation rel, MarkReader reader, void *arg);

/* The row of an epoch. */
extern void mark_epoch_id(int64 epoch, uint8 *id);
extern void mark_write_epoch(Relation rel, MarkFill fill, void *arg);
extern bool mark_find_epoch(int64 epoch, MarkRow *row);

#endif							/* QUOTA_MARK_PAGE_H */
