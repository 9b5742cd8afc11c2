/*
 * sliding.h
 *		A sliding window: in any interval of one period at most so many units.
 *		Pure, like bucket.h.
 *
 * What was taken in the last period is kept in SLIDING_SIZE entries, each with the
 * instants of its first and last take.  An entry counts until a period after its
 * LAST take, so that the bound holds however much is in one entry; what was taken
 * before that comes back late.  As long as the capacity is at most SLIDING_SIZE
 * every admission at an instant of its own has an entry, and nothing is late.  Of a
 * larger capacity an entry is no wider than period / (SLIDING_SIZE - 1), rounded
 * up, which is how late units come back at most.  Only when more takes than the
 * capacity allows (settled beyond the estimate) or a change of rules leave no entry
 * free, the two that are closest to each other become one, and units may come back
 * up to 1/7 of the longest period in force meanwhile late.
 *
 * The bound (G1): in any interval that is not longer than the shortest period in
 * force in it, at most the highest capacity in force in it.
 *
 * A change of capacity keeps what was taken.  A new period applies to all entries
 * that count at the switch; those that don't any more are forgotten.
 */
#ifndef QUOTA_SLIDING_H
#define QUOTA_SLIDING_H

#include <stdbool.h>
#include <stdint.h>

#define SLIDING_SIZE 16

typedef struct SlidingEntry
{
	int64_t		first_ns;
	int64_t		last_ns;		/* >= first_ns */
	int64_t		units;			/* >= 1 */
} SlidingEntry;

typedef struct Sliding
{
	int64_t		capacity;		/* >= 0 */
	int64_t		period_ns;		/* >= 1 */
	int64_t		used;			/* units of all entries */
	int64_t		settled_ns;
	int			n;				/* entries */
	/* the oldest first; each begins after the one before has ended */
	SlidingEntry entry[SLIDING_SIZE];
} Sliding;

/* What was taken and may have to be returned, of one entry; all zero: nothing. */
typedef struct SlidingTake
{
	int64_t		n;
	int64_t		at_ns;			/* in the entry that has it, while it counts */
} SlidingTake;

extern void sliding_init_full(Sliding *s, int64_t capacity,
							  int64_t period_ns, int64_t now_ns);
/* All of the capacity was taken at that instant. */
extern void sliding_init_drained(Sliding *s, int64_t capacity,
								 int64_t period_ns, int64_t drained_ns,
								 int64_t now_ns);
extern void sliding_settle(Sliding *s, int64_t now_ns);
extern void sliding_configure(Sliding *s, int64_t capacity,
							  int64_t period_ns, int64_t switch_ns,
							  int64_t now_ns);
extern int64_t sliding_level(const Sliding *s);
/* Units that may count only because later ones share their entry. */
extern int64_t sliding_late(const Sliding *s);
extern int64_t sliding_wait(const Sliding *s, int64_t n);
extern int64_t sliding_drain(const Sliding *s, int64_t n);
extern bool sliding_take_joins(const Sliding *s, const SlidingTake *t);
extern void sliding_take(Sliding *s, SlidingTake *t, int64_t n);
extern void sliding_take_return(Sliding *s, SlidingTake *t, int64_t n);
extern void sliding_shift(Sliding *s, int64_t by_ns);
extern bool sliding_is_full(const Sliding *s);

#endif							/* QUOTA_SLIDING_H */
