/*
 * retry_budget.h
 *		How many calls may be retries: a share of the first attempts made lately, and
 *		a few in any case.  Pure, like bucket.h.
 *
 * The shape is that of Finagle's RetryBudget and of tower's and gRPC's (deposits by
 * first attempts that expire after ten seconds, withdrawals by retries, a floor),
 * but in whole numbers.  Calls are counted by second, from the first one after a
 * silence on, in RETRY_SLOTS slots, the present second and those before; a retry is in the budget while
 *
 *		retries in the slots <= floor + share x first attempts in the slots
 *
 * after it, rounded down.
 *
 * The bound (G1): in any interval that touches d such seconds, at
 * most floor x (d / RETRY_SLOTS, rounded up) + share x the first attempts made in
 * it and in the RETRY_SLOTS - 1 seconds before.  First attempts that are undone
 * later had counted until then.
 *
 * Why: a retry stays in the slots at least as long as any first attempt that was
 * there when it came.  So what a first attempt adds to the budget is used once; and
 * so is the floor in any RETRY_SLOTS seconds.
 */
#ifndef QUOTA_RETRY_BUDGET_H
#define QUOTA_RETRY_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#define RETRY_SLOTS		10
#define RETRY_SLOT_NS	INT64_C(1000000000)

typedef struct RetryBudget
{
	int64_t		floor;			/* retries, >= 0 */
	int64_t		share_milli;	/* of 1000 first attempts, 0 .. 1000 */
	int64_t		settled_ns;
	int64_t		origin_ns;		/* seconds are counted from here: */
	int64_t		slot;			/* number of the one that settled_ns is in */
	/* of the second s at s modulo RETRY_SLOTS, at most RETRY_MOST each */
	int64_t		firsts[RETRY_SLOTS];
	int64_t		retries[RETRY_SLOTS];
} RetryBudget;

/* More calls than that in one second are not counted. */
#define RETRY_MOST	INT64_C(100000000000000)

/* What was counted and may have to be undone, of one second; all zero: nothing. */
typedef struct RetryTake
{
	int64_t		slot;
	int64_t		firsts;
	int64_t		retries;
} RetryTake;

extern void retry_init_full(RetryBudget *b, int64_t floor, int64_t share_milli,
							int64_t now_ns);
/* All that the floor allows was used at that instant. */
extern void retry_init_drained(RetryBudget *b, int64_t floor, int64_t share_milli,
							   int64_t drained_ns, int64_t now_ns);
extern void retry_settle(RetryBudget *b, int64_t now_ns);
/* What was counted stays counted. */
extern void retry_configure(RetryBudget *b, int64_t floor, int64_t share_milli,
							int64_t now_ns);

/* Retries left; negative: more were made than the first attempts that are left allow. */
extern int64_t retry_level(const RetryBudget *b);
/* Calls counted in the slots. */
extern int64_t retry_firsts(const RetryBudget *b);
extern int64_t retry_retries(const RetryBudget *b);
/*
 * Nanoseconds until n retries are left if nobody calls meanwhile; BUCKET_NEVER when
 * only first attempts can bring that about.
 */
extern int64_t retry_wait(const RetryBudget *b, int64_t n);

/* Would what is counted now be noted in t as well as in one that is all zero? */
extern bool retry_take_joins(const RetryBudget *b, const RetryTake *t);
/* Counts n calls; notes it in t, which joins. */
extern void retry_first(RetryBudget *b, RetryTake *t, int64_t n);
extern void retry_take(RetryBudget *b, RetryTake *t, int64_t n);
/* Undoes up to n retries of t; INT64_MAX: all of it, first attempts as well. */
extern void retry_take_return(RetryBudget *b, RetryTake *t, int64_t n);

extern void retry_shift(RetryBudget *b, int64_t by_ns);
/* Is it as good as new? */
extern bool retry_is_full(const RetryBudget *b);

#endif							/* QUOTA_RETRY_BUDGET_H */
