/*
 * portion_active.h
 *		Between the portion*.c files: who is active at a limit.
 */
#ifndef QUOTA_PORTION_ACTIVE_H
#define QUOTA_PORTION_ACTIVE_H

#include "portion.h"
#include "portion_claims.h"

#define PORTION_SCALE (((fair_time) 1000) << 48)

/* Shares grow by so many eighths of the rate while there is less than the reserve. */
#define PORTION_GUARANTEED 7

/* Of Portions.ample_ns: not known. */
#define PORTION_UNKNOWN 0

/* What divisions left of what shares grew by at this rate, in 1/den. */
static inline int64_t
portions_part(const Portions *ps, BucketRate rate)
{
	return ps->part_den == rate.den ? ps->part : 0;
}

/* Share or service of one tenant, by its weight. */
static inline fair_time
by_weight(int64_t units, int64_t weight_milli)
{
	return units * PORTION_SCALE / weight_milli;
}

/* It asks now.  Who comes back starts with one call. */
extern void portions_ask(Portions *ps, Portion *p, int64_t weight_milli,
						 int64_t now_ns);
/* Its claim: to what it was refused, or what a session of its waits for. */
extern void portions_claim(Portions *ps, Portion *p, int64_t units, int64_t now_ns);
/* It asked, or waited, at this instant, which is the latest. */
extern void portions_renew(Portions *ps, Portion *p, int64_t now_ns);
/* It has not asked within the window. */
extern void portions_leave(Portions *ps, Portion *p);
/* It counts in the weights, or no longer. */
extern void portions_set_weight(Portions *ps, Portion *p, int64_t weight_milli,
								bool weighs);
/* The weights, with the tenant's; and its part of all, of 1000000. */
extern int64_t portions_weight(const Portions *ps, const Portion *p,
							   int64_t weight_milli);
extern int64_t portions_share(const Portions *ps, const Portion *p,
							  int64_t weight_milli);
/* Shares grow up to an instant; from ample_ns on the limit holds the reserve. */
extern void portions_grow(Portions *ps, BucketRate rate, int64_t ample_ns,
						  int64_t until_ns);
/* So much unused share counts, besides one call. */
extern fair_time portions_saved(const Portions *ps, const Portion *p,
								int64_t weight_milli, const PortionRules *rules,
								int64_t cost);
/* What who is within its share leaves to those that wake. */
extern int64_t portions_spare(const Portion *p, const PortionRules *rules, int64_t cost);
/* Claims of those whose turn is sooner; who has been passed joins at turn_now. */
extern ClaimsBefore portions_sooner(const Portions *ps, const Portion *p);
/*
 * A limit that is full refills no more, so one call less than that is as much as
 * anybody must leave.
 */
extern int64_t portions_most_left(int64_t capacity, int64_t cost, int64_t n);
/* The stand of n calls that must leave so much, and what is claimed before them. */
extern PortionStand portions_stand(const ClaimsBefore *before, int64_t reserve,
								   BucketRate rate, int64_t capacity, int64_t cost,
								   int64_t n, int64_t now_ns);
/* The turn of a call made now. */
extern fair_time portions_turn(const Portions *ps, const Portion *p);
/* It was refused: who else asks has to heed its share. */
extern void portions_note_refused(Portions *ps, const Portion *p, int64_t now_ns);
/* When the last other tenant was refused; INT64_MIN = none within the window. */
extern int64_t portions_refused_ns(const Portions *ps, const Portion *p,
								   int64_t window_ns, int64_t now_ns);

#endif							/* QUOTA_PORTION_ACTIVE_H */
