/*
 * credit.h
 *		Credits: what keeps the ledger and the shared counters of allowances
 *		equal.  See credit_counter.c for the protocol.
 */
#ifndef QUOTA_CREDIT_H
#define QUOTA_CREDIT_H

#include "decide.h"
#include "ledger.h"

/* ---- credit_period.c ---- */

/* Start and end of the calendar period that contains wall_us; never throws. */
extern void credit_period(const QuotaTerm *term, TimestampTz wall_us,
						  int64 *start_us, int64 *end_us);

/*
 * Brings a READY bucket to the period of now; may make it EMPTY when the term's
 * calendar has changed.  Lock held; never throws.
 */
extern void credit_roll(QuotaBucket *b, const QuotaTerm *term,
						TimestampTz wall_us);

/* ---- credit_counter.c ---- */

/* The bucket of an account: the same from a term as from a ledger entry. */
extern QuotaKey quota_account_key(Oid database, Oid extension,
								  const uint8 *account);

/*
 * After a decision found the bucket of a term not READY: loads it, or waits for
 * who does.  No lock held; throws.  The caller decides again.
 */
extern void credit_load(QuotaPlan *plan, int term);

/*
 * Charges diff units (< 0: gives, at commit) to the account of an entry in the
 * period that contains *charged_at, or with DT_NOBEGIN now, and says when that
 * was.  term NULL: whatever the entry's limit is now.  To be called before the
 * entry is written.  No lock held; throws.
 */
extern void credit_charge(const LedgerEntry *entry, const QuotaTerm *term,
						  int64 diff, TimestampTz *charged_at);

/*
 * The owner's lock of the term's bucket, with the bucket READY and brought to
 * now: for reading.  Throws.
 */
extern uint32 credit_lock_ready(const QuotaTerm *term);
extern void credit_unlock(uint32 bucket);

/* ---- credit.c ---- */

/*
 * Writes the entries and the hold row of an admitted call whose permit charged
 * allowances (verdict->has_hold), and raises synchronous_commit to at least on.
 * The decision can't be undone afterwards but by rolling back.  No lock held;
 * throws.
 */
extern void credit_hold(const QuotaPlan *plan, const QuotaVerdict *verdict,
						int64 job);

/*
 * Resolves the hold of a permit, exactly once: deletes its row and writes what
 * differs from the estimate.  units NULL = as held; billed false = everything
 * returns.  marked = the permit is in shared memory and marked by this
 * transaction: its parts carry the difference, which permit_set_final() was told.
 * False when there is no open hold; 55P03 when another transaction has it.
 */
extern bool credit_resolve(int64 permit, bool billed, const QuotaUnits *units,
						   bool marked);

/*
 * Resolves holds whose permit's lifetime is over, at most max, as
 * quota.providers.lost_permit says; how many it did.  For the worker.
 */
extern int	credit_expire(int max);

#endif							/* QUOTA_CREDIT_H */
