/*
 * job_deadline.h
 *		quota.jobs.start_before: a job that was not started by then fails.
 *
 * Met by a claim, such a job is failed instead of claimed (job_bury.c); if none
 * comes by, a background worker fails it in time.
 *
 * THE PROTOCOL
 *
 * The worker finds the jobs by an index on (start_before, id), whose columns never
 * change while a job waits.  It walks from a mark to the present, in chunks of one
 * transaction each.  The mark of a database is a place in that index:
 *
 *		Whenever the worker has come to the end of a walk, every committed job
 *		before the mark that waits for its first attempt was lowered for
 *		(deadline_lower(), below), or is about to be in the callback of a
 *		transaction that has ended; or the worker itself has noted to come back.
 *
 * Whoever writes such a job's row has a record of it in the journal before he
 * does, for the walk passes over what is being written, in the trust that the
 * record's callback comes after the transaction has ended:
 *
 *		insert				lowers on commit
 *		a write of ours		lowers when rolled back: it takes the job out of those
 *							that wait (claim, cancel, burial, the worker itself)
 *		a user's update		lowers either way
 *		a user's delete		lowers either way, of which only the one matters
 *
 * Lowering is an atomic minimum, and asks for the worker.  A walk begins by taking
 * what was lowered since the last one began, and only then reads.  So a row that
 * became visible behind the reading place is lowered for after that, and the next
 * walk begins no later than there: it cannot be lost to a walk that is under way.
 * A walk that is under way goes on to its end first, or somebody who lowers again
 * and again would keep it at the beginning of a long history for ever.
 *
 * Two kinds of rows the worker has to come back to by itself, after a pause: those
 * that somebody has merely locked, which tells nobody when it is unlocked, and
 * those that a user's trigger would not let fail.
 *
 * The worker is one of those who write: if its transaction rolls back, its record
 * lowers.  If it dies between two chunks the mark is where it was.
 * After a start of the server the mark is at the beginning, and all is read again.
 *
 * start_before is of the wall clock, the worker is called by the quota clock: while
 * a deadline is open it is called at least every minute, in case the wall clock was
 * set.
 */
#ifndef QUOTA_JOB_DEADLINE_H
#define QUOTA_JOB_DEADLINE_H

#include "job.h"

/* The job waits for its first attempt, and should have had it by now. */
extern bool job_is_late(TupleTableSlot *job, TimestampTz wall_us);

/* Fails the locked job, which is late; its flow has been told.  Throws. */
extern void job_write_late(RowTable *jobs, TupleTableSlot *job);

/*
 * Records that a job with this start_before is inserted or touched, and when to
 * lower the mark.  No lock held; throws when out of memory.
 */
extern void job_deadline_note(TimestampTz start_before, bool on_commit,
							  bool on_abort);

/* The same for a locked job that a write of ours takes out of those that wait. */
extern void job_deadline_touched(TupleTableSlot *job);

/* For the journal's callbacks: never throws, takes no lock. */
extern void deadline_lower(uint32 database_slot, TimestampTz start_before);

/*
 * A chunk of the worker's walk, in its transaction; says when it is wanted next on
 * the quota clock.
 */
extern int64 job_deadline_walk(uint32 database_slot, int64 until_ns);

#endif							/* QUOTA_JOB_DEADLINE_H */
