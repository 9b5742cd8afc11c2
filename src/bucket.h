/*
 * bucket.h
 *		Exact integer arithmetic of a token bucket.  No server headers, no
 *		locks, no clock: callers pass the time and hold whatever lock protects
 *		the structure.
 *
 * A bucket stores what was spent, not what is left, so that a change of
 * capacity touches nothing stored (O'Neil, "The Escrow Transactional Method",
 * TODS 11(4), 1986, for the idea of counting what is out).  Rates are exact
 * fractions; what was earned towards the next unit is carried, so there is no
 * drift over any number of calls.
 *
 * The bound (G1): in every interval of length d at most capacity + rate * d
 * units are admitted, through any mix of takes, returns and reconfiguration;
 * where these changed, the highest capacity in force in the interval, plus
 * what the rates in force add up to.  The proof heads bucket.c.
 */
#ifndef QUOTA_BUCKET_H
#define QUOTA_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

/* "never", as a duration */
#define BUCKET_NEVER INT64_MAX

/* num units per den nanoseconds, in lowest terms; num = 0 never refills */
typedef struct BucketRate
{
	int64_t		num;			/* >= 0 */
	int64_t		den;			/* >= 1 */
} BucketRate;

/*
 * How much a bucket could have refilled up to an instant, had it never been
 * full, plus all that lowered capacities forgave: the measure by which
 * returns decay.  At INT64_MAX it stops, and nothing is returned any more.
 */
typedef struct BucketMark
{
	int64_t		whole;			/* units */
	int64_t		part;			/* 0 .. den - 1, in 1/den units */
	int64_t		den;			/* denominator in force when marked */
} BucketMark;

typedef struct Bucket
{
	int64_t		spent;			/* units spent and not refilled, >= 0 */
	int64_t		excess;			/* share of spent that a lowered capacity
								 * forgives while it lasts, 0 .. spent */
	int64_t		excess_part;	/* refilled of it, in 1/rate.den units */
	int64_t		part;			/* earned towards the next unit, in
								 * 1/rate.den units; 0 when spent = 0 */
	int64_t		capacity;		/* units, >= 0 */
	BucketMark	accrued;		/* since creation */
	int64_t		settled_ns;		/* refill is accounted up to here */
	BucketRate	rate;
} Bucket;

/*
 * What one transaction took from a bucket and may have to return: at any
 * later instant n - (accrued - mark) units, if that is more than nothing.
 * All zero to begin with.  It can return its newest units first, but not
 * older ones before newer: what may be released alone needs its own.
 */
typedef struct BucketTake
{
	int64_t		n;				/* units noted since the mark */
	BucketMark	mark;			/* accrued when nothing else was returnable */
} BucketTake;

/* ---- bucket_rate.c ---- */

extern bool bucket_rate_make(BucketRate *rate, int64_t unscaled, int scale,
							 int64_t period_ns);
extern bool bucket_rate_above(BucketRate a, BucketRate b);
extern int64_t bucket_refill_ns(BucketRate rate, int64_t n);

/* ---- bucket.c ---- */

extern void bucket_init_full(Bucket *b, BucketRate rate, int64_t capacity,
							 int64_t now_ns);
extern void bucket_init_drained(Bucket *b, BucketRate rate, int64_t capacity,
								int64_t drained_ns, int64_t now_ns);
extern void bucket_settle(Bucket *b, int64_t now_ns);
extern void bucket_empty(Bucket *b, int64_t units, int64_t at_ns);
extern void bucket_configure(Bucket *b, BucketRate rate, int64_t capacity,
							 int64_t switch_ns, int64_t now_ns);
extern int64_t bucket_level(const Bucket *b);
extern int64_t bucket_wait(const Bucket *b, int64_t n);
extern int64_t bucket_drain(const Bucket *b, int64_t n);
extern void bucket_take(Bucket *b, int64_t n);
extern void bucket_take_note(BucketTake *t, const Bucket *b, int64_t n);
extern void bucket_take_merge(BucketTake *t, const BucketTake *newer);
extern void bucket_take_return(Bucket *b, BucketTake *t, int64_t n);
extern bool bucket_is_full(const Bucket *b);

#endif							/* QUOTA_BUCKET_H */
