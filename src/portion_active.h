/*
 * portion_active.h
 *		Between the portion*.c files: who is active at a limit.
 */
#ifndef QUOTA_PORTION_ACTIVE_H
#define QUOTA_PORTION_ACTIVE_H

#include "portion.h"

#define PORTION_SCALE (((fair_time) 1000) << 48)

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
/* The turn of a call made now. */
extern fair_time portions_turn(const Portions *ps, const Portion *p);
/* It was refused: who else asks has to heed its share. */
extern void portions_note_refused(Portions *ps, const Portion *p, int64_t now_ns);
/* When the last other tenant was refused; INT64_MIN = none within the window. */
extern int64_t portions_refused_ns(const Portions *ps, const Portion *p,
								   int64_t window_ns, int64_t now_ns);

#endif							/* QUOTA_PORTION_ACTIVE_H */
