/*
 * mark.h
 *		Slow limits: what was spent of them is known after a crash (G14).  See
 *		mark.c.
 */
#ifndef QUOTA_MARK_H
#define QUOTA_MARK_H

#include "policy.h"
#include "shmem.h"

/* Limits that need longer than this to refill are slow. */
#define MARK_SLOW_NS		(60 * QUOTA_NS_PER_S)

/* What is logged ahead: one part in so many of the capacity, rounded down. */
#define MARK_SLICES			32

/* ---- taking; the owner slot's lock is held ---- */

/* Room for n more takes.  No lock held; throws when out of memory. */
extern void mark_reserve(int n);
/* So many units of a slow bucket were just taken, or returned. */
extern void mark_note(uint32 bucket, int64 n);
extern void mark_note_return(uint32 bucket, int64 n);
/* So many units of a bucket were just taken. */
static inline void
mark_take(uint32 bucket, int64 n)
{
	if (unlikely(quota_buckets[bucket].mark.slow))
		mark_note(bucket, n);
}
/* As meter_take_return(), for the bucket's meter; it has been settled. */
static inline void
mark_return(uint32 bucket, MeterTake *take, int64 n)
{
	Meter	   *m = &quota_buckets[bucket].meter;
	int64		before = meter_level(m);

	meter_take_return(m, take, n);
	if (unlikely(quota_buckets[bucket].mark.slow))
		mark_note_return(bucket, meter_level(m) - before);
}
/* The term applies to its bucket from now on: before its meter learns that. */
extern void mark_apply(uint32 database_slot, uint32 bucket, const QuotaTerm *term);
/* The same where no decision meets it: of a term that says only what its rules are. */
extern void mark_renew(uint32 bucket, const QuotaTerm *term);
/* Most of what was logged ahead has been taken. */
extern bool mark_is_low(const QuotaBucket *b);

/* ---- answering; no lock held ---- */

/*
 * What this transaction took of slow limits is known for good when this returns:
 * before anybody is told that it was granted.  May throw, and wait for the disk.
 */
extern void mark_secure(void);
/* Takes since the subtransaction began need not be known any more. */
extern void mark_forget(SubTransactionId sub);

/* ---- mark_restore.c: first contents of a bucket ---- */

/* Reads what is known of a slow term's bucket, for the next decision.  May throw. */
extern void mark_load(const QuotaTerm *term);
extern bool mark_is_loaded(const QuotaTerm *term);
/* Fills a new bucket of a slow term with what was loaded; its slot's lock is held. */
extern void mark_fill(QuotaBucket *b, const QuotaTerm *term, int64 now_ns,
					  TimestampTz wall_us);

/*
 * The present quota clock's instant of something that happened at ns of the quota
 * clock of an epoch, or a later one, but not after this epoch began.  May throw.
 */
extern int64 mark_instant(int64 epoch, int64 ns);

/*
 * Does memory alone know of units taken of limits of this name (provider NULL: of one
 * across providers)?  No lock held; throws what interrupts do.
 */
extern bool mark_limit_is_used(const char *provider, const char *name);

/* ---- mark_chore.c ---- */

/* Lets the worker look after a slow bucket just taken of.  May be called locked. */
extern void mark_wants_worker(uint32 database_slot, uint32 bucket);

/* Frees rows of full buckets of this database.  In a transaction; may throw. */
extern void mark_free_rows(void);

/*
 * Logs ahead for this database's buckets that need it, and frees rows of those that
 * are full.  In a transaction; until real time until_ns at most.  Returns when it is
 * wanted again.
 */
extern int64 mark_walk_buckets(uint32 database_slot, int64 until_ns);

#endif							/* QUOTA_MARK_H */
