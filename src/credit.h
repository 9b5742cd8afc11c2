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

/*
 * Brings a READY bucket to the period of now; may make it EMPTY when the term's
 * calendar has changed.  Lock held; never throws.
 */
extern void credit_roll(QuotaBucket *b, const QuotaTerm *term,
						TimestampTz wall_us);

/* What is asked of a row of quota.limits, whatever the call. */
typedef struct CreditLimit
{
	Calendar	calendar;
	bool		per_tenant;
	const char *endpoint;		/* a pattern, NULL = all */
} CreditLimit;

/*
 * Reads the row of an allowance, palloc'd.  False when there is no such limit any
 * more.  Throws 55000 when its time zone is not known.
 */
extern bool credit_find_limit(const char *provider, const char *name,
							  CreditLimit *limit);

/* ---- ledger_horizon.c ---- */

/* What the worker may rely on when it folds. */
typedef struct LedgerHorizon
{
	uint64		xid;			/* all older transactions have ended, */
	TimestampTz complete_us;	/* and all that were open at this instant */
} LedgerHorizon;

/*
 * Looks at it, and at what that says of an instant noted earlier in the slot of the
 * database.  For its worker.
 */
extern LedgerHorizon ledger_look(QuotaSlot *database_slot);
/* The walks over what is over go on with this instant. */
extern void ledger_close_from(LedgerWalks *walks, TimestampTz at);
extern void ledger_expire_from(LedgerWalks *walks, TimestampTz at);

/* ---- ledger_period.c ---- */

/* Entries of an account that are in no fold. */
typedef struct LedgerNews
{
	uint64		since;			/* their transactions are not older, */
	TimestampTz first_us;		/* nor are they charged at an earlier instant */
} LedgerNews;

/*
 * Writes the roll-over rows of all periods of an account that are over by the horizon,
 * have entries, and have none.  news: those that are about to be folded, which a row
 * that was written earlier may lack; NULL = there are none.
 */
extern void ledger_close(const uint8 *account, const CreditLimit *limit,
						 const LedgerNews *news, const LedgerHorizon *horizon);

/* ---- ledger_fold.c ---- */

/*
 * Folds what has been written, and closes periods that are over, for the worker of a
 * database.  Returns when it is wanted next on the quota clock.  When that has been
 * committed, ledger_fold_done() is to be told what was reached.
 */
extern int64 ledger_fold(uint32 database_slot, LedgerWalks *reached);
extern void ledger_fold_done(uint32 database_slot, const LedgerWalks *reached);

/* How long entries may wait for that. */
#define LEDGER_FOLD_NS	(10 * INT64CONST(1000000000))

/* ---- ledger_expire.c ---- */

/* Writes rows of grants that have expired by the horizon.  True: there are more. */
extern bool ledger_expire(LedgerWalks *walks, const LedgerHorizon *horizon);

/* ---- credit_counter.c ---- */

/* Units that one period of an account may use, or be given, in total. */
#define CREDIT_MAX_USED		INT64CONST(4000000000000000000)

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
 * entry is written.  No lock held; throws, 22003 beyond CREDIT_MAX_USED.
 */
extern void credit_charge(const LedgerEntry *entry, const QuotaTerm *term,
						  int64 diff, TimestampTz *charged_at);

/*
 * n units of a hold that is not in shared memory, or no longer, are resolved when we
 * commit, and diff is charged; lost: what returns of them may have lapsed.
 */
extern void credit_end_loose(LedgerEntry *hold, int64 n, int64 diff, bool lost);

/*
 * 22003 when what a permit was just charged beyond its hold brought the entry's
 * account there.  No lock held.
 */
extern void credit_check_range(const LedgerEntry *entry);

/*
 * The owner's lock of the term's bucket, with the bucket READY and brought to
 * now: for reading.  Throws.
 */
extern uint32 credit_lock_ready(const QuotaTerm *term);
extern void credit_unlock(uint32 bucket);
/* Loads the bucket of an entry, unless it is or its limit is gone.  No lock held; throws. */
extern void credit_make_ready(const LedgerEntry *entry);

/* Would diff more units leave the account's range?  Lock held. */
extern bool credit_leaves_range(const QuotaBucket *b, int64 diff);
/* 22003; no lock held. */
pg_noreturn extern void credit_error_range(const LedgerEntry *entry);

/*
 * ---- credit_grant.c: lock held, and never throwing, but for the last ----
 *
 * The instant that what is charged now counts at.
 */
extern TimestampTz credit_instant(QuotaBucket *b, TimestampTz wall_us);

/* What is charged at the instant is of the bucket's period. */
static inline bool
credit_is_current(const QuotaBucket *b, TimestampTz at_us)
{
	return at_us >= b->period_start_us && at_us < b->period_end_us;
}

/*
 * n more units are used (< 0: fewer), which count at the instant, of its period;
 * DT_NOBEGIN: nothing was used at any.
 */
extern void credit_count(QuotaBucket *b, TimestampTz at_us, int64 n);
/* The same of lost holds; and none is known any more. */
extern void credit_count_lapsed(QuotaBucket *b, TimestampTz at_us, int64 n);
extern void credit_clear_lapsed(QuotaBucket *b);

/* What is gone of its grants by now. */
extern int64 credit_grants_gone(const QuotaBucket *b, TimestampTz wall_us);
/* Brings b->gone to now. */
extern void credit_grants_look(QuotaBucket *b, TimestampTz wall_us);

/* Units of grants that expire next, if they are not used by then. */
typedef struct CreditExpiring
{
	int64		units;			/* 0 = there are none */
	TimestampTz until_us;
} CreditExpiring;
extern CreditExpiring credit_grants_next(const QuotaBucket *b);

/* One more; false when the table is full. */
extern bool credit_grant_add(QuotaBucket *b, const Expiring *grant);
/* The grant of that instant is given, or was rolled back. */
extern void credit_grant_end(QuotaBucket *b, TimestampTz grant_us, bool commit);
extern void credit_grants_drop(QuotaBucket *b);

/*
 * As credit_charge() for the entry of a grant that expires, which learns when it
 * counts.  No lock held; throws 22023, 53400, 22003.
 */
extern void credit_charge_grant(LedgerEntry *entry, const QuotaTerm *term);

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
 * Resolves the hold of a permit, exactly once: deletes its row, counts and writes
 * what differs from the estimate.  units NULL = as held; billed false = everything
 * returns.  marked = the permit is in shared memory and marked by this transaction:
 * its parts carry the difference.  False when there is no open hold; 55P03 when another
 * transaction has it, 55000 when it has expired, 22023 when its limits want no more
 * than was held.
 */
extern bool credit_resolve(int64 permit, bool billed, const QuotaUnits *units,
						   bool marked);

/*
 * Units of one account that a hold of so many calls and so much stays charged.  Throws
 * 22023.
 */
extern int64 credit_final(const LedgerEntry *entry, int64 held, int32 calls,
						  bool billed, const QuotaUnits *units);

/* What is charged must not be lost in a crash that the caller survives. */
extern void credit_make_durable(void);

/*
 * Gives back n of the calls that a hold is for: all of them resolve it.  Of those that
 * the permit in shared memory has credits of, permit_give() has seen to the counters if
 * it has marked them.  False when there is no open hold; 55P03, 22023 for more than
 * there are.
 */
extern bool credit_give_back(int64 permit, int32 n, bool marked);

/*
 * Resolves a hold that is lost, as it said when it was opened: its credits return, or
 * stay spent.  Throws 55000 when its entries are not there.
 */
extern HoldOutcome credit_lose(int64 permit);

/*
 * What is held of each account by a hold: the sum of its entries, those of calls
 * given back included.
 */
extern List *credit_held(RowTable *ledger, int64 permit, TimestampTz created_at);

/* ---- credit_late.c ---- */

/*
 * Settles a permit whose lifetime is over, if its limits allow it (settle_late), once.
 * False when it is not over, or has no hold.  Throws 55000 when they do not, or it was
 * settled otherwise; 55P03, 22023.
 */
extern bool credit_settle_late(int64 permit, bool billed, const QuotaUnits *units);

/*
 * The permit had a hold, which was settled, and settling it now would charge the same.
 * False when it had none; throws 55000 when it would charge anything else.
 */
extern bool credit_settled_alike(int64 permit, bool billed, const QuotaUnits *units);

/* ---- credit_lapse.c ---- */

/*
 * Lost holds of the bucket may have become others; all: those without a permit in
 * shared memory, too.  Lock held; never throws, as the next two.
 */
extern void credit_look_again(QuotaBucket *b, bool all);
/* Units of a lost hold are no longer used, nor lapsed. */
extern void credit_lapse_settle(QuotaBucket *b, int64 n, TimestampTz at_us);
/* What has lapsed is to be read before the bucket refuses. */
extern bool credit_lapse_due(const QuotaBucket *b, int64 now_ns);
/* Reads it, if it is due still.  No lock held; throws.  The caller decides again. */
extern void credit_lapse_read(const QuotaTerm *term);
/*
 * Nobody will settle the open hold, whose row says that it has expired; job 0 = of
 * none.  No lock held; throws.
 */
extern bool credit_is_lost(int64 permit, int64 job);
/* The clock says that an open hold is over, and nobody has it any more. */
extern bool credit_hold_is_lost(const HoldRow *hold);

/* ---- credit_sql.c ---- */

/* Names of all providers, in order, palloc'd. */
extern List *credit_providers(void);
/* Lets the worker fold what was written. */
extern void credit_fold_soon(void);

/* ---- credit_expire.c ---- */

/* A walk over holds that nobody settled; all zero but until_ns to begin with. */
typedef struct CreditWalk
{
	int64		until_ns;		/* real time, when to stop */
	TimestampTz expires_at;		/* of the hold looked at last */
	int64		permit;
	bool		over;			/* there is no further one */
	bool		reported;		/* that some could not be resolved */
} CreditWalk;

/*
 * Resolves some more holds whose permit's lifetime is over, and leaves out those
 * that fail.  For the
 * worker, which commits in between: a transaction can only resolve as many as
 * it can pin buckets.
 */
extern void credit_expire(CreditWalk *walk);

#endif							/* QUOTA_CREDIT_H */
