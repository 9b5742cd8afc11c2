/*
 * recount.h
 *		Counting the unfinished jobs of a database from its rows while they
 *		change; recount.c tells the protocol.
 */
#ifndef QUOTA_RECOUNT_H
#define QUOTA_RECOUNT_H

#include "shmem.h"

#include "utils/snapshot.h"

/* Where a commit stands to the count that is going on. */
typedef enum RecountSide
{
	RECOUNT_NONE,				/* there is no count */
	RECOUNT_SEEN,				/* the rows that are counted show it */
	RECOUNT_LATER				/* they don't */
} RecountSide;

/* ---- called by the journal; never allocate, never throw ---- */

/* Before the transaction commits; no lock held. */
extern void recount_announce(void);
/* After its callback has done everything. */
extern void recount_forget(void);
/* In its callback, the slot's lock held. */
extern RecountSide recount_side(uint32 slot);
/* A count that failed. */
extern void recount_abandon(uint32 database_slot);

/* ---- called by who counts (job_count.c); no lock held ---- */

/* The count is ours, and in the journal; false when it is somebody else's or done. */
extern bool recount_claim(uint32 database_slot);
/* What is to be counted: a registered snapshot.  May throw. */
extern Snapshot recount_snapshot(uint32 database_slot);
/* Waits until every transaction that the snapshot shows has told its flows. */
extern void recount_drain(void);
/* The counts are set: the queue is READY. */
extern void recount_finish(uint32 database_slot);

#endif							/* QUOTA_RECOUNT_H */
