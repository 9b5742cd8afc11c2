/*
 * pace.h
 *		How fast places of a queue get free: a moving estimate of the time from one
 *		to the next.  Pure arithmetic in nanoseconds of one clock that never runs
 *		backward; whoever keeps a Pace in shared memory says what protects it.
 */
#ifndef QUOTA_PACE_H
#define QUOTA_PACE_H

#include <stdint.h>

/* All zero: nothing has got free yet. */
typedef struct Pace
{
	int64_t		freed;			/* places that got free, so far */
	int64_t		last_ns;		/* when the last one did */
	int64_t		gap_ns;			/* from one to the next; known once freed > 1 */
} Pace;

/* What is assumed while nothing is known. */
#define PACE_UNKNOWN_NS INT64_C(1000000000)
/* Bounds of pace_wait(), for one place or many. */
#define PACE_MIN_NS INT64_C(1000000)
#define PACE_MAX_NS (INT64_C(24) * 3600 * 1000000000)

/* n > 0 places have got free at this time. */
extern void pace_freed(Pace *pace, int64_t n, int64_t now_ns);

/*
 * In how many nanoseconds n > 0 more places can be expected to be free:
 * PACE_MIN_NS to PACE_MAX_NS.
 */
extern int64_t pace_wait(const Pace *pace, int64_t n, int64_t now_ns);

#endif							/* QUOTA_PACE_H */
