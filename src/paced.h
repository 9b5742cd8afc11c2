/*
 * paced.h
 *		A leaky bucket: calls at an even pace, however much each costs.  Pure, like
 *		bucket.h, whose arithmetic it uses.
 *
 * A call is admitted as soon as what it costs fits into the burst, which is mostly
 * one unit, or all of the burst if it costs more: what it costs beyond that becomes
 * a debt, which leaks before the next call.  So a dear call goes out when the pace
 * allows a call, and those after it wait for as long as it is worth.  Several calls
 * go at once only as far as the burst allows those after the first.
 *
 * The bound (G1): in any interval of length d at most the burst or, if that is more,
 * the dearest call, plus rate x d; where these changed, the highest burst in force,
 * plus what the rates in force add up to.  For let the last call of the interval
 * cost c: at most burst + rate x d - min(c, burst) was taken before it, as min(c,
 * burst) was left.
 *
 * A change of the burst touches nothing that was spent.
 */
#ifndef QUOTA_PACED_H
#define QUOTA_PACED_H

#include "bucket.h"

typedef struct Paced
{
	Bucket		bucket;			/* what was spent and has not leaked; its
								 * capacity means nothing */
	int64_t		burst;			/* units, >= 0 */
	int64_t		largest;		/* a call of more than this and of more than the
								 * burst is never admitted */
} Paced;

extern void paced_init_full(Paced *p, BucketRate rate, int64_t burst,
							int64_t largest, int64_t now_ns);
/*
 * Drained as by a call of so many units, if that is more than the burst: after a
 * crash the debt of a dearer one is not known.
 */
extern void paced_init_drained(Paced *p, BucketRate rate, int64_t burst,
							   int64_t largest, int64_t dearest,
							   int64_t drained_ns, int64_t now_ns);
extern void paced_configure(Paced *p, BucketRate rate, int64_t burst,
							int64_t largest, int64_t switch_ns,
							int64_t now_ns);
extern void paced_empty(Paced *p, int64_t at_ns);
extern int64_t paced_level(const Paced *p);
extern int64_t paced_fit(const Paced *p, int64_t cost, int64_t leave);
extern int64_t paced_wait(const Paced *p, int64_t cost, int64_t n,
						  int64_t leave);
extern int64_t paced_drain(const Paced *p, int64_t n);
extern bool paced_holds(int64_t burst, int64_t largest, int64_t cost,
						int64_t n);

#endif							/* QUOTA_PACED_H */
