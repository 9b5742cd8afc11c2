/*
 * adaptive.h
 *		How much of a limit's amount is used, by what the provider says: a factor
 *		between a floor and the whole.  Pure, like bucket.h.
 *
 * Additive increase, multiplicative decrease (Chiu and Jain, 1989; AIMDLimit of
 * Netflix's concurrency-limits), with a memory of what has worked, as TCP CUBIC has
 * (RFC 9438), so that it does not swing around a limit that stays:
 *
 *	 - It starts at start.  A window begins with a call, so no pause is in it.  When it
 *	   has passed without a sign that the provider limits, and somebody was refused in
 *	   it by the limit as it is, and half of what the factor allows was used (else it
 *	   says nothing of all of that, and of more), the factor rises by step, though not
 *	   by more than a tenth of itself, and after a sign at first by a fiftieth.
 *	 - A sign at a factor that was reached by such a rise: back to what had worked.
 *	   Between what has worked and what has not it then rises by halves, until a
 *	   fiftieth is left; and after PROBE_WINDOWS windows, each time twice as many, up
 *	   to 8 times, it tries just above what had not.
 *	 - A sign at a factor that had worked for a window: a twentieth less, as it may be
 *	   an accident.
 *	 - A sign at any other factor: x decrease, never below floor.
 *
 * A sign may pause all calls for much longer than a window, so what a rise may cost
 * counts: while something is known not to have worked, it waits for the next rise, or
 * the next try above that, ten times as long as the last sign has paused.  Then no more
 * than about a tenth of the time is lost to pauses.  Only after a decrease by that part
 * the first rises come after 1, 3, 9 windows and so on, up to that time.  From the third
 * on they are by no more than a twentieth.
 *
 * Signs of calls that began before the last change are of what was before, and left
 * out; if it is not known when a call began, those within the cool-down are.  After a
 * decrease no window begins before the cool-down, lengthened by up to a quarter at
 * random, is over; there is no second one within it.
 *
 * LATENCY, where it counts (calls in flight; Gradient2Limit of the same library): of
 * each window the mean is compared with a long average.  Twice as slow, or more, is a
 * sign as well; the factor goes down by the ratio, at most to half.
 */
#ifndef QUOTA_ADAPTIVE_H
#define QUOTA_ADAPTIVE_H

#include <stdbool.h>
#include <stdint.h>

#define ADAPTIVE_NEVER			INT64_MAX
#define ADAPTIVE_WHOLE			10000	/* a factor that means all */
#define ADAPTIVE_PROBE_WINDOWS	10
#define ADAPTIVE_MIN_SAMPLES	10	/* latencies that make a mean */

typedef struct AdaptiveRules
{
	int64_t		window_ns;		/* >= 1 */
	int64_t		cooldown_ns;	/* >= 0 */
	int64_t		whole_units;	/* of a rate: what all of it allows in a window; else 0 */
	/* of ADAPTIVE_WHOLE: */
	int32_t		start;			/* floor .. ADAPTIVE_WHOLE */
	int32_t		floor;			/* 1 .. ADAPTIVE_WHOLE */
	int32_t		step;			/* 1 .. ADAPTIVE_WHOLE */
	int32_t		decrease;		/* 1 .. ADAPTIVE_WHOLE - 1 */
} AdaptiveRules;

/* Why the factor has changed. */
typedef enum AdaptiveWhy
{
	ADAPTIVE_SAME,				/* it has not */
	ADAPTIVE_STABLE,			/* up: nothing was said against it */
	ADAPTIVE_PROBE,				/* up: beyond what had not worked */
	ADAPTIVE_LIMITED,			/* down: the provider limits */
	ADAPTIVE_BACK,				/* down: to what had worked */
	ADAPTIVE_SLOW				/* down: calls take too long */
} AdaptiveWhy;

typedef struct Adaptive
{
	AdaptiveRules rules;
	bool		wanted;			/* in this window more was wanted than there is */
	int32_t		factor;
	int32_t		good;			/* the highest that has worked since the last sign;
								 * 0 = none */
	int32_t		bad;			/* the lowest that has not; 0 = none */
	int32_t		failed;			/* probes, one after another; counted as far as it matters */
	int32_t		waited;			/* windows, since it rose or fell; */
	int32_t		patience;		/* while something has not worked it rises again after
								 * so many */
	int32_t		cost;			/* what the last sign cost, in windows */
	int32_t		slowly;			/* a rise beyond what has worked is at most twice as
								 * much as the one before, this; 0 = any */
	int64_t		changed_ns;		/* factor, */
	int64_t		cool_ns;		/* and after a decrease: cool since then */
	int64_t		rests_ns;		/* the next window does not begin before, */
	int64_t		window_ns;		/* and began then; ADAPTIVE_NEVER = it has not */
	int64_t		took;			/* units, in it */
	uint64_t	random;
	/* latencies */
	int64_t		sum_ns;			/* of the window */
	int32_t		samples;
	int64_t		long_ns;		/* the long average, 0 = none */
	bool		on;				/* else nothing of this means anything */
} Adaptive;

/* seed: for the random part of cool-downs. */
extern void adaptive_init(Adaptive *a, const AdaptiveRules *rules, uint64_t seed,
						  int64_t now_ns);
/* Rules from now on; the factor stays, within them. */
extern AdaptiveWhy adaptive_configure(Adaptive *a, const AdaptiveRules *rules,
									  int64_t now_ns);
/* Accounts for the time up to now. */
extern AdaptiveWhy adaptive_settle(Adaptive *a, int64_t now_ns);

/* ---- settled ---- */

/* Calls that cost so much were admitted. */
extern void adaptive_took(Adaptive *a, int64_t units, int64_t now_ns);
/* A call was refused for want of more. */
extern void adaptive_want(Adaptive *a);
/*
 * A call that began then (INT64_MIN = not known) has ended in a sign that the provider
 * limits, which pauses calls for so long.
 */
extern AdaptiveWhy adaptive_limited(Adaptive *a, int64_t began_ns, int64_t paused_ns,
									int64_t now_ns);
/* A call has succeeded, in so long. */
extern void adaptive_latency(Adaptive *a, int64_t latency_ns);

/* Is it as good as new? */
extern bool adaptive_is_new(const Adaptive *a);
/* So much of an amount, rounded down, but at least 1 of 1 or more. */
extern int64_t adaptive_part(int64_t amount, int32_t factor);

#endif							/* QUOTA_ADAPTIVE_H */
