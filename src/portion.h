/*
 * portion.h
 *		Fair portions of one limit that tenants share, for calls that ask nobody
 *		whose turn it is.  Pure: no server headers, no locks, no clock.
 *
 * A Portions belongs to a limit, a Portion to one tenant at it.  Callers keep both
 * where they stay, hold what protects the limit, and settle before they ask.  What
 * the rule is, and why, heads portion.c.
 */
#ifndef QUOTA_PORTION_H
#define QUOTA_PORTION_H

#include "fair.h"
#include "meter.h"

/* What configuration says of a limit's portions. */
typedef struct PortionRules
{
	int64_t		reserve;		/* units left by who is over its share; 0: the limit
								 * is not shared out; as of portion_rules_at(): */
	int64_t		whole;			/* the same at the beginning of a window */
	int64_t		begins_ns;		/* the window, at whose end nothing is kept: */
	int64_t		ends_ns;		/* the reserve shrinks; both 0 = there is none */
	int64_t		ahead;			/* units of unused share that all tenants together
								 * may save up */
	int64_t		window_ns;		/* who asked within it is active */
	bool		spares;			/* who was served leaves one call to who was not */
} PortionRules;

typedef struct Portion Portion;

/* All zero but for its memory when new. */
struct Portion
{
	int64_t		weight_milli;	/* as it counts in Portions.weight */
	bool		weighs;			/* it does */
	bool		listed;			/* asked within the window */
	Portion    *older;			/* in the order of asking */
	Portion    *newer;
	int64_t		asked_ns;
	fair_time	used;			/* share used up to here, in Portions.share_now */
	fair_time	turn;			/* the less the sooner: service by weight */
	bool		served;			/* since it became active */
	int64_t		in_flight;		/* concurrency: units */

	int64_t		waits;			/* units that a session of its waits for; 0 = none
								 * does */

	/* its claim: it was refused when it asked last, or waits */
	bool		claims;
	bool		lasts;			/* as it waits */
	int64_t		claim;			/* units it asked for */
	int64_t		claim_ns;		/* when that was */
	uint32_t	priority;		/* in the tree of claims, by turn: */
	Portion    *left;
	Portion    *right;
	int64_t		sum;			/* units claimed below, itself included, */
	int64_t		lasting;		/* and those of them by who waits */
	int64_t		newest_ns;		/* the latest claim_ns below of the others */
};

/* All zero when new. */
typedef struct Portions
{
	int64_t		weight;			/* of the active, times 1000 */
	Portion    *oldest;			/* active ones, by when they asked last */
	Portion    *newest;
	int64_t		settled_ns;
	fair_time	share_now;		/* what one of weight 1 was due up to now */
	fair_time	carry;			/* what divisions left of that, in eighths, */
	int64_t		part;			/* and before, in 1/part_den */
	int64_t		part_den;
	int64_t		ample_ns;		/* the limit will hold the reserve from then on if
								 * nobody asks; PORTION_UNKNOWN */
	fair_time	turn_now;		/* turn of who was served last in order */
	Portion    *claims;			/* root of the tree */
	uint32_t	seed;			/* of its priorities */
	int			waiting;		/* portions that wait */
	/* two that were refused last, and when */
	const Portion *refused[2];
	int64_t		refused_ns[2];
} Portions;

/* Where a tenant stands that asks for n calls. */
typedef struct PortionStand
{
	int64_t		share;			/* its part of the limit, of 1000000 */
	bool		over;			/* beyond its share, while others want theirs */
	fair_time	first;			/* turn of who is first, of it and those that wait */
	int64_t		leave;			/* units the last of the calls must leave */
	int64_t		within;			/* so many calls are within its share */
	int64_t		until_ns;		/* it isn't admitted before that; INT64_MIN = now */
} PortionStand;

/* n calls that are refused now, both clocks being read. */
typedef struct PortionCall
{
	int64_t		weight_milli;
	const PortionRules *rules;
	const Meter *meter;			/* settled to now */
	BucketRate	rate;
	int64_t		capacity;
	int64_t		cost;
	int64_t		n;
	int64_t		leave;			/* units that they leave whatever the shares say */
	int64_t		from_ns;		/* they wait until then anyway */
	bool		asks;			/* portion_refuse() follows: it is active, else its
								 * standing stays as it is */
	int64_t		now_ns;
	int64_t		wall_us;
} PortionCall;

/* Their reserve at an instant to which the meter is settled, of the whole one. */
extern void portion_rules_at(PortionRules *rules, const Meter *meter, int64_t now_ns);
extern void portions_settle(Portions *ps, const PortionRules *rules,
							BucketRate rate, int64_t level, int64_t now_ns);
/* p is NULL for a tenant that was never seen. */
extern PortionStand portion_stand(const Portions *ps, const Portion *p,
								  int64_t weight_milli,
								  const PortionRules *rules, BucketRate rate,
								  int64_t capacity, int64_t cost, int64_t n,
								  int64_t now_ns);
/* Units that the last of the calls must leave if it is beyond the share. */
extern int64_t portion_leave_over(const Portions *ps, const Portion *p,
								  const PortionRules *rules, BucketRate rate,
								  int64_t capacity, int64_t cost, int64_t n,
								  int64_t now_ns);
/*
 * Nanoseconds until the calls are admitted if nobody asks meanwhile; BUCKET_NEVER.
 * See portion_wait.c.
 */
extern int64_t portion_wait(Portions *ps, const Portion *p, const PortionCall *call);
/* It asked, and was refused for want of so many units of this limit. */
extern void portion_refuse(Portions *ps, Portion *p, int64_t weight_milli,
						   int64_t units, int64_t now_ns);
/* It asked, and takes so many; stand is what was said of it. */
extern void portion_take(Portions *ps, Portion *p, int64_t weight_milli,
						 const PortionRules *rules, const PortionStand *stand,
						 int64_t cost, int64_t n, int64_t now_ns);
/*
 * A session of it waits for so many units from now on, which it was refused; 0: none
 * does any more.
 */
extern void portion_await(Portions *ps, Portion *p, int64_t weight_milli,
						  int64_t units);
/* So many units that it took were returned. */
extern void portion_return(Portions *ps, Portion *p, int64_t units);
/* Nothing points to it any more. */
extern void portion_forget(Portions *ps, Portion *p);
/* As bucket_refill_ns(), at most INT64_MAX / 4, so that it can be added to a time. */
extern int64_t portion_refill_ns(BucketRate rate, int64_t units);

/* ---- the same for calls in flight ---- */

/* until_ns when it must wait for others, leave is 0. */
extern PortionStand portion_flight_stand(const Portions *ps, const Portion *p,
										 int64_t weight_milli,
										 const PortionRules *rules,
										 int64_t capacity, int64_t cost,
										 int64_t n, int64_t now_ns);
/*
 * When nobody else has a claim any more, if who stands so has to wait for claims at
 * all: any of them may be before it by then, as calls end.  INT64_MIN = it has not.
 */
extern int64_t portion_flight_until(const Portions *ps, const Portion *p,
									const PortionStand *s, const PortionRules *rules,
									int64_t now_ns);
extern void portion_flight_refuse(Portions *ps, Portion *p,
								  int64_t weight_milli, int64_t units,
								  int64_t now_ns);
extern void portion_flight_take(Portions *ps, Portion *p,
								int64_t weight_milli, int64_t units,
								int64_t now_ns);
extern void portion_flight_end(Portions *ps, Portion *p, int64_t units);

#endif							/* QUOTA_PORTION_H */
