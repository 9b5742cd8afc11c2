/*
 * notify.h
 *		NOTIFY for jobs that have finished (quota.providers.notify_channel).
 *
 * When a job has reached succeeded, failed or cancelled and that has committed, the
 * journal puts a notice into a ring in shared memory, which a background worker
 * sends.  The session that finishes the job never notifies itself: NOTIFY makes all
 * transactions of a cluster that use it commit one after the other.
 *
 * The ring is shared by all databases and works like that of events (event.c): of
 * [notice_tail, notice_head) some may be done, which the tail passes in time.  When
 * it is full the new notice is lost, which is counted at the provider and told in
 * one notification.  A notice is taken out of the ring after the worker has
 * committed: if it dies in between, that notice is sent twice.  A restart of the
 * server loses what is in the ring.
 */
#ifndef QUOTA_NOTIFY_H
#define QUOTA_NOTIFY_H

#include "job.h"

/*
 * The job is about to be written as over, in this state: if its provider has a
 * channel, that will be told when we commit.  No lock held; throws as job_note().
 */
extern void notify_note(TupleTableSlot *job, const char *state);

/* For the journal: the slot lock of the job's flow is held.  Never throws. */
extern void notify_push(uint32 flow, int64 job, uint8 state);

/* ---- for the worker ---- */

/* What one transaction of it has sent. */
typedef struct NoticeBatch
{
	int			n;
	uint64		end;			/* position behind the last notice */
	int64	   *lost;			/* told of, by provider slot; NULL = none yet */
} NoticeBatch;

/* Sends up to a batch in the open transaction; true when more are left. */
extern bool notify_send(NoticeBatch *batch);
/* That has committed.  Never throws. */
extern void notify_done(const NoticeBatch *batch);
/* Nobody will send this database's any more. */
extern void notify_forget(Oid database);

#endif							/* QUOTA_NOTIFY_H */
