/*-------------------------------------------------------------------------
 *
 * random.h
 *	  Random numbers for unit tests, the same ones in every run.
 *
 * Copyright (c) 2026, the quota authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNIT_RANDOM_H
#define UNIT_RANDOM_H

#include <stdint.h>

static uint64_t random_state = 20260101;

static inline uint64_t
random64(void)
{
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return random_state * UINT64_C(2685821657736338717);
}

/* from 0 to n - 1 */
static inline int64_t
random_below(int64_t n)
{
	return (int64_t) (random64() % (uint64_t) n);
}

/* from 0 to n - 1, of any magnitude */
static inline int64_t
random_magnitude(int64_t n)
{
	int			bits = 0;

	while (bits < 62 && (INT64_C(1) << bits) < n)
		bits++;
	return random_below(INT64_C(1) << random_below(bits + 1)) % n;
}

#endif							/* UNIT_RANDOM_H */
