/*
 * job_held.h
 *		A job and its lease, both locked by one transaction: how it leaves the
 *		hands of its worker.
 *
 * (id, attempt) is the fence.  The row in quota.leases says whether that attempt
 * still runs; it is locked first, then the job, never waiting: a row in another
 * transaction's hands is 55P03.  A lease whose end has passed is over even if
 * nobody has claimed the job yet.
 *
 * Who ends an attempt for good (held_try_end()) deletes its lease, which is a lock as
 * well.  So there the lease is at first only read; then the job is locked and read, and the
 * lease deleted as it was read, all without waiting.  What may come in between:
 *
 *	- Whoever else ends, extends or cancels the attempt locks the job, too, or has
 *	  locked it: one of the two is told that it is busy, or both, as each may have the
 *	  row that the other one comes to next.  If he has ended before our lock, then the
 *	  job says so (it runs no more, or in another attempt), or the lease has moved and
 *	  the delete fails: it is found, looked at and locked again.
 *	- Who claims the job as the lease has run out meanwhile locks the lease, then the
 *	  job, neither waiting: if we have the job he looks again later; if he has the lease
 *	  we are told that it is busy.
 *	- A stranger's lock of the lease: busy.
 *
 * Who is told so may have locked the job before, until his transaction ends, and
 * meanwhile others are told that it is busy: a row lock can't be given back.
 *
 * The job's lock can't be spared as well: one row must be ours before the other one is
 * written, as who is told "busy" must have written nothing.
 *
 * Every function notes the flow before it writes, for the case of a rollback: a
 * scan may have passed the lease while it was in our hands.  What the job gives
 * back (its place in flight, its permit) acts at commit.
 */
#ifndef QUOTA_JOB_HELD_H
#define QUOTA_JOB_HELD_H

#include "decide.h"
#include "job.h"

/* A job and its lease, both locked. */
typedef struct Held
{
	RowTable   *jobs;
	RowTable   *leases;
	TupleTableSlot *job;
	TupleTableSlot *lease;
	int64		id;
	JobNames	names;
	int64		now_ns;

	/* see held_walk() */
	RowScan    *jobs_walk;		/* NULL = none */
	RowScan    *leases_walk;
} Held;

typedef enum HeldOutcome
{
	HELD_RUNNING,				/* the attempt runs and is ours to end */
	HELD_STALE,					/* it doesn't run, or there is no such job */
	HELD_BUSY					/* another transaction has a row of it */
} HeldOutcome;

/* Opens the tables.  Throws. */
extern void held_open(Held *h);

/*
 * held_try_running() or held_try_end() will be called for many jobs from lo to hi, with
 * rising ids: it finds their rows by a walk.
 */
extern void held_walk(Held *h, int64 lo, int64 hi);

/* Closes them; locks stay until the transaction ends. */
extern void held_close(Held *h);

/* Locks the row found, or throws 55P03. */
extern void held_lock_row(RowTable *table, TupleTableSlot *slot, int64 id);

/* Finds the job, which others may change until it is locked; 42704, 55P03. */
extern void held_find_job(Held *h, int64 id);

/* Finds and locks the job; 42704 or 55P03. */
extern void held_lock_job(Held *h, int64 id);

/*
 * Notes what a scan may miss until this transaction has ended.  "gone": if it
 * commits the lease is gone, or has got a later end; else the row stays where it is.
 */
extern void held_note_lease(Held *h, bool gone);

/*
 * Locks a running attempt; throws nothing for one that is stale or busy.  Unless
 * it is HELD_RUNNING nothing was noted, and of a stale one at most the job is locked.
 */
extern HeldOutcome held_try_running(Held *h, int64 id, int32 attempt);

/* The same, or throws 42704, 55000, 55P03. */
extern void held_running(Held *h, int64 id, int32 attempt);

/*
 * As these, for an attempt that ends for good: its lease is deleted, and stays in h.
 * Whatever the outcome, the lease may have been noted, which costs a scan one look.
 */
extern HeldOutcome held_try_end(Held *h, int64 id, int32 attempt);
extern void held_end(Held *h, int64 id, int32 attempt);

/* Somebody has asked to cancel the running job. */
extern bool held_cancel_requested(Held *h);

/* What the worker calls itself; NULL when it did not say. */
extern char *held_worker(Held *h);

/* What the attempt held is settled; at commit it is in flight no more. */
extern void held_give_back(Held *h, bool billed, const QuotaUnits *units,
						   int64 depth, int64 due_ns, int64 completed);

/*
 * Writes the final state of a locked job, beside what the change says; its dedupe
 * key is free.  Everybody who ends a job does it by this.
 */
extern void job_write_over(RowTable *jobs, TupleTableSlot *job,
						   const char *state, RowValues *change);

#endif							/* QUOTA_JOB_HELD_H */
