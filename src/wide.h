/*
 * wide.h
 *		128-bit integers, in which sums and products of 64-bit ones are exact.  Pure,
 *		like bucket.h.
 */
#ifndef QUOTA_WIDE_H
#define QUOTA_WIDE_H

#include <stdint.h>

#ifndef __SIZEOF_INT128__
#error "quota needs 128-bit integers: gcc or clang on a 64-bit platform"
#endif

__extension__ typedef __int128 wide;

/* x, or the end of 64 bits that is nearer to it. */
static inline int64_t
wide_clamp(wide x)
{
	return x > INT64_MAX ? INT64_MAX : x < INT64_MIN ? INT64_MIN : (int64_t) x;
}

/* a * b / c for c > 0, towards zero, and what is left: a short division if that will do. */
static inline wide
wide_mul_div(wide a, int64_t b, int64_t c, int64_t *left)
{
	int64_t		product;
	wide		quotient;

	if (a == (int64_t) a && !__builtin_mul_overflow((int64_t) a, b, &product))
	{
		*left = product % c;
		return product / c;
	}
	quotient = a * b / c;
	*left = (int64_t) (a * b - quotient * c);
	return quotient;
}

/* (a + b - 1) / b for b > 0, towards zero: what a >= 0 is in units of b, rounded up. */
static inline wide
wide_div_up(wide a, int64_t b)
{
	if (a >= INT64_MIN && a <= INT64_MAX - b)
		return ((int64_t) a + b - 1) / b;
	return (a + b - 1) / b;
}

#endif							/* QUOTA_WIDE_H */
