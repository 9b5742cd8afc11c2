/*
 * mark_write.h
 *		Writing the row of one bucket, and what it says: between mark.c,
 *		mark_restore.c, mark_chore.c and mark_audit.c.
 */
#ifndef QUOTA_MARK_WRITE_H
#define QUOTA_MARK_WRITE_H

#include "mark_page.h"

#include "storage/lock.h"

typedef struct MarkWriting
{
	uint32		bucket;
	uint32		owner;
	QuotaKey	key;
	int64		taken;			/* to be covered; PG_INT64_MAX = write anyway */
	/* once filled in */
	int64		covers;
	uint32		changes;
	int64		returned;
	int64		written_ns;
} MarkWriting;

/*
 * Makes the bucket's row cover what is said, unless it does, and waits until that
 * is on disk.  Throws 53400.
 */
extern void mark_write_bucket(Relation rel, MarkWriting *w);

/* Keeps others from writing the bucket's row until the lock is released. */
extern void mark_lock_bucket(Relation rel, uint32 bucket, LOCKTAG *tag);

/* So much was returned that the row should be written again. */
extern bool mark_says_too_much(const QuotaBucket *b);

/*
 * What is left by what the row says, and by the rules that held when it was written:
 * all that may have been taken since is taken.
 */
extern void mark_says(const MarkRow *row, Meter *meter, int64 now_ns,
					  TimestampTz wall_us);

/* This epoch has a row. */
extern void mark_note_epoch(Relation rel);

#endif							/* QUOTA_MARK_WRITE_H */
