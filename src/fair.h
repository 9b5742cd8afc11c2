/*
 * fair.h
 *		Start-time fair queueing by cost over current weight (Goyal, Vin and
 *		Cheng, SIGCOMM 1996): pure tag arithmetic.  No server headers, no
 *		locks, no heap: callers keep the tags ordered by fair_precedes() and
 *		hold whatever lock protects them.
 *
 * A tag's start is v_at + cost_at / weight.  The debt of the last charge is
 * kept as cost, not as a finished tag, so that a new weight reprices it at
 * once.
 *
 * The bound (G7): while two tenants are both busy, what they are served,
 * divided by weight, differs by at most c_i/w_i + c_j/w_j over any interval,
 * c being a tenant's dearest job; (D+1) times that when up to D charges are
 * open or undone.
 */
#ifndef QUOTA_FAIR_H
#define QUOTA_FAIR_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Virtual time: cost / weight in units of 2^-48, so that even cost 1 at the
 * greatest weight is a long step and rounding shows after 10^8 charges only.
 * As the server does with its int128, aligned like other 8-byte values: memory
 * from palloc is no better aligned than that.
 */
typedef __int128 fair_time __attribute__((aligned(8)));

/* Virtual time of one class: the greatest start dispatched so far. */
typedef struct FairClock
{
	fair_time	now;
} FairClock;

/* Place of one tenant within a class; all zero but for weight when new. */
typedef struct FairTag
{
	fair_time	v_at;			/* start at its last charge */
	fair_time	start;			/* v_at + cost_at / weight: the order */
	int64_t		cost_at;		/* cost charged at v_at; may be negative after
								 * undoing an older charge */
	int64_t		weight_milli;	/* > 0, current weight times 1000 */
} FairTag;

/* What fair_charge did, for an exact undo. */
typedef struct FairCharge
{
	fair_time	v_before;
	int64_t		cost_before;
	fair_time	v_after;		/* v_at right after the charge */
	int64_t		cost;
	bool		added;			/* to an earlier charge, by fair_add() */
} FairCharge;

/*
 * What calls beside the order have moved a tag by, for an undo; all zero when new.
 * Several may be kept in one.
 */
typedef struct FairLead
{
	fair_time	moved;			/* start, at most by one call */
	fair_time	v_before;		/* before the first of them */
	int64_t		cost_before;
	fair_time	v_after;		/* right after the last */
	int64_t		cost;			/* of the last */
} FairLead;

extern void fair_set_weight(FairTag *tag, int64_t weight_milli);
extern void fair_reweigh(FairTag *tag, const FairClock *clock,
						 int64_t weight_milli);
extern void fair_join(FairTag *tag, const FairClock *clock);
extern FairCharge fair_charge(FairTag *tag, FairClock *clock, int64_t cost);
extern FairCharge fair_add(FairTag *tag, int64_t cost);
extern void fair_undo(FairTag *tag, const FairCharge *charge);
extern void fair_correct(FairTag *tag, int64_t difference);
extern bool fair_may_lead(const FairTag *tag, const FairClock *clock,
						  int64_t cost);
extern void fair_lead(FairTag *tag, const FairClock *clock, int64_t cost,
					  FairLead *lead);
extern void fair_unlead(FairTag *tag, const FairLead *lead);
extern bool fair_precedes(const FairTag *a, const FairTag *b);

#endif							/* QUOTA_FAIR_H */
