/*
 * meter.h
 *		What one limit on a rate has spent, whatever its shape.  Pure, like
 *		bucket.h: no server headers, no locks, no clock, no errors.
 *
 *		METER_BUCKET	bucket.h	refills steadily, up to a burst
 *		METER_PACED		paced.h		lets calls pass evenly
 *		METER_WINDOW	window.h	so much in each fixed window
 *		METER_SLIDING	sliding.h	so much in any interval of one period
 *		METER_RETRIES	retry_budget.h	a share of the first attempts; what is taken
 *									are retries, what it holds at least the floor
 *
 * The bound that each guarantees (G1) heads its file.
 *
 * Callers settle a meter to now before they ask it or change it, pass both clocks
 * (now_ns is monotonic, wall_us counts from 2000-01-01 00:00 UTC; whoever reads them
 * one after the other reads that first), and hold whatever lock protects the meter.
 * The shape of a meter never changes.
 */
#ifndef QUOTA_METER_H
#define QUOTA_METER_H

#include "bucket.h"
#include "paced.h"
#include "retry_budget.h"
#include "sliding.h"
#include "window.h"

/* The same order as that of the kinds of limits. */
typedef enum MeterShape
{
	METER_BUCKET,
	METER_PACED,
	METER_WINDOW,
	METER_SLIDING,
	METER_RETRIES
} MeterShape;

/* What configuration says of a meter. */
typedef struct MeterRules
{
	uint8_t		shape;			/* MeterShape */
	int64_t		capacity;		/* units that can be there at once, >= 0 */
	BucketRate	rate;			/* in the long run */
	int64_t		period_ns;		/* window, sliding */
	int64_t		anchor_us;		/* window: one begins then */
	int64_t		largest;		/* paced: no call costs more than this and the
								 * capacity; */
	int64_t		dearest;		/* what calls are known to cost at most */
	int64_t		share_milli;	/* retries: of 1000 first attempts */
} MeterRules;

typedef struct Meter
{
	uint8_t		shape;			/* MeterShape */
	union
	{
		Bucket		bucket;		/* also the first member of paced */
		Paced		paced;
		Window		window;
		Sliding		sliding;
		RetryBudget retries;
	}			u;
} Meter;

/*
 * What was taken from one meter and may have to be returned: all zero to begin
 * with.  It returns its newest units first; what may be returned alone needs its
 * own.
 */
typedef struct MeterTake
{
	union
	{
		BucketTake	bucket;		/* and paced */
		WindowTake	window;
		SlidingTake sliding;
		RetryTake	retries;
	}			u;
} MeterTake;

/* A meter of which nothing was ever taken. */
extern void meter_init_full(Meter *m, const MeterRules *rules, int64_t now_ns,
							int64_t wall_us);
/*
 * One of which as much as ever could had been taken at that instant, or at now if
 * that is still to come.
 */
extern void meter_init_drained(Meter *m, const MeterRules *rules,
							   int64_t drained_ns, int64_t now_ns,
							   int64_t wall_us);

/* Accounts for what has come back up to now; never for less than before. */
extern void meter_settle(Meter *m, int64_t now_ns, int64_t wall_us);
/*
 * Settles, with new rules from switch_ns on, though never from before the last
 * settlement nor after now.  What was spent stays spent (G9).
 */
extern void meter_configure(Meter *m, const MeterRules *rules,
							int64_t switch_ns, int64_t now_ns,
							int64_t wall_us);
/*
 * A token or leaky bucket holds no more than if it had been empty at that instant, or
 * at the settled one if that is sooner; of others nothing changes.
 */
extern void meter_empty(Meter *m, int64_t at_ns);
/* Is it a token bucket that goes by the rules already, so that to settle it will do? */
static inline bool
meter_goes_by(const Meter *m, const MeterRules *rules)
{
	return m->shape == METER_BUCKET &&
		m->u.bucket.rate.num == rules->rate.num &&
		m->u.bucket.rate.den == rules->rate.den &&
		m->u.bucket.capacity == rules->capacity;
}

/* Does more come back by the rules than by those in force? */
extern bool meter_is_slower(const Meter *m, const MeterRules *rules);

/* Units left; negative: a debt.  And those that are spent, by how it counts. */
extern int64_t meter_level(const Meter *m);
extern int64_t meter_spent(const Meter *m);
/*
 * Units, at most, that would have come back by now if each had been counted alone,
 * as a sliding window does not.
 */
extern int64_t meter_late(const Meter *m);
/* The window it counts in; false if it has none. */
extern bool meter_window(const Meter *m, int64_t *begin_ns, int64_t *end_ns);

/*
 * Calls of so many units each (>= 1) that may be taken now, one after another.
 * Each finds "leave" units (>= 0) more than it needs.
 */
extern int64_t meter_fit(const Meter *m, int64_t cost, int64_t leave);
/*
 * Nanoseconds from the settled instant until n such calls fit if nobody takes
 * any meanwhile: then they do, and one nanosecond earlier they don't.
 * BUCKET_NEVER if they never do.
 */
extern int64_t meter_wait(const Meter *m, int64_t cost, int64_t n,
						  int64_t leave);
/* Do n such calls ever fit at once by these rules? */
extern bool meter_holds(const MeterRules *rules, int64_t cost, int64_t n);
/*
 * Nanoseconds until so many units have been taken in calls that come one after
 * another, each as soon as it fits; about that where it depends on their size.
 */
extern int64_t meter_drain(const Meter *m, int64_t units);

/* Would a take now be noted in t as well as in one that is all zero? */
extern bool meter_take_joins(const Meter *m, const MeterTake *t);
/* Takes n units, whether or not they are there; notes it in t, which joins. */
extern void meter_take(Meter *m, MeterTake *t, int64_t n);
/* The same for n first attempts, which retries are a share of. */
extern void meter_first(Meter *m, MeterTake *t, int64_t n);
/*
 * Returns up to n units of t, the newest first: INT64_MAX for all of it.  What
 * has come back meanwhile does not come back a second time.
 */
extern void meter_take_return(Meter *m, MeterTake *t, int64_t n);

/*
 * Moves it to another clock: what was the instant t of the one that it was settled
 * by is t + by_ns of the other.  Nothing taken before can be returned any more.
 */
extern void meter_shift(Meter *m, int64_t by_ns);

/* The instant that it is settled to. */
extern int64_t meter_settled(const Meter *m);

/* Is it as good as new? */
extern bool meter_is_full(const Meter *m);

#endif							/* QUOTA_METER_H */
