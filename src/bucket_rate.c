/*
 * bucket_rate.c
 *		Rates as exact fractions: see bucket.h.  Pure, as bucket.c is.
 */
#include "bucket.h"

#include "wide.h"

/* The greatest common divisor; a must not be 0. */
static int64_t
gcd(int64_t a, int64_t b)
{
	while (b != 0)
	{
		int64_t		rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/*
 * Makes the exact rate of unscaled * 10^-scale units per period, in lowest
 * terms.  False, and nothing is changed, if it does not fit or makes no sense.
 */
bool
bucket_rate_make(BucketRate *rate, int64_t unscaled, int scale,
				 int64_t period_ns)
{
	wide		den = period_ns;
	int64_t		common;

	if (unscaled < 0 || scale < 0 || scale > 18 || period_ns <= 0)
		return false;
	while (scale-- > 0)
		den *= 10;				/* below 10^37 */

	/* gcd(0, den) is den, whatever its size */
	if (unscaled == 0)
		den = 1;
	common = unscaled == 0 ? 1 : gcd(unscaled, (int64_t) (den % unscaled));
	if (den / common > INT64_MAX)
		return false;

	rate->num = unscaled / common;
	rate->den = (int64_t) (den / common);
	return true;
}

/* Is a more than b? */
bool
bucket_rate_above(BucketRate a, BucketRate b)
{
	return (wide) a.num * b.den > (wide) b.num * a.den;
}

/* Nanoseconds in which n units refill, rounded up; BUCKET_NEVER if that is too long. */
int64_t
bucket_refill_ns(BucketRate rate, int64_t n)
{
	if (rate.num == 0)
		return BUCKET_NEVER;
	return wide_clamp(wide_div_up((wide) n * rate.den, rate.num));
}
