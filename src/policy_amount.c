/*
 * policy_amount.c
 *		Effective amounts, in numeric arithmetic, which is exact:
 *
 *		amount of the limit
 *			-> replaced and multiplied by what the tier's row says
 *			-> replaced and multiplied by what the tenant's row says
 *			x seats, if per_seat			= the documented amount
 *			x safety, if external			= the effective amount
 *
 * A row with neither amount, multiplier nor burst exempts: no limit, unless a
 * more specific row gives an amount again.  A multiplier alone, or a burst
 * alone, keeps the amount it finds; no limit stays no limit.
 *
 * Rates stay exact as far as 64 bits can hold their fraction; config_rate.c
 * refuses rows that ask for more.  What slips through, since it takes several
 * rows together, is rounded down.  Capacities are rounded down to whole units.
 */
#include "policy_amount.h"

#include "utils/builtins.h"
#include "utils/fmgrprotos.h"

/* Decimal digits that always fit an int64. */
#define SAFE_DIGITS 18

/* See policy_amount.h. */
Numeric
policy_product(Numeric a, Numeric b)
{
	return DatumGetNumeric(DirectFunctionCall2(numeric_mul,
											   NumericGetDatum(a),
											   NumericGetDatum(b)));
}

/* a * n, exactly. */
static Numeric
times(Numeric a, int64 n)
{
	return policy_product(a, int64_to_numeric(n));
}

/* See policy_amount.h. */
int64
policy_times_1000(Numeric number, int64 otherwise)
{
	Numeric		milli;

	if (number == NULL)
		return otherwise;
	milli = times(number, 1000);
	return DatumGetInt64(DirectFunctionCall1(numeric_int8,
											 NumericGetDatum(milli)));
}

/* See policy_amount.h. */
Numeric
policy_smaller(Numeric a, Numeric b)
{
	return DatumGetNumeric(DirectFunctionCall2(numeric_smaller,
											   NumericGetDatum(a),
											   NumericGetDatum(b)));
}

/* The smaller of a and n. */
static Numeric
at_most(Numeric a, int64 n)
{
	return policy_smaller(a, int64_to_numeric(n));
}

/* Whole units, at least 1 and at most what we can count. */
static int64
whole_units(Numeric a)
{
	Datum		whole;

	whole = DirectFunctionCall1(numeric_floor,
								NumericGetDatum(at_most(a, QUOTA_MAX_AMOUNT)));
	return Max(DatumGetInt64(DirectFunctionCall1(numeric_int8, whole)), 1);
}

/* The amount after one more level of overrides; NULL = no limit. */
static Numeric
override_amount(Numeric amount, const PolicyOverride *o)
{
	if (o == NULL)
		return amount;
	if (o->exempt)
		return NULL;
	if (o->amount)
		amount = o->amount;
	if (amount && o->multiplier)
		amount = policy_product(amount, o->multiplier);
	return amount;
}

/*
 * amount = *unscaled / 10^*scale, rounded down to SAFE_DIGITS digits; false when
 * that made a difference.  It has at most 16 digits before the point.
 */
static bool
split_amount(Numeric amount, int64 *unscaled, int *scale)
{
	char	   *digits = DatumGetCString(DirectFunctionCall1(numeric_out,
															 NumericGetDatum(amount)));
	bool		fraction = false;
	bool		exact;
	char	   *c = digits;
	int			n = 0;

	*unscaled = 0;
	*scale = 0;
	for (; *c != '\0' && n < SAFE_DIGITS; c++)
	{
		if (*c == '.')
			fraction = true;
		else
		{
			*unscaled = *unscaled * 10 + (*c - '0');
			*scale += fraction;
			n += *unscaled > 0;
		}
	}
	exact = strspn(c, "0.") == strlen(c);
	while (*scale > 0 && *unscaled % 10 == 0)
	{
		*unscaled /= 10;
		--*scale;
	}
	pfree(digits);
	return exact;
}

/* See policy_amount.h. */
bool
policy_rate_is_exact(Numeric amount, int64 period_ns)
{
	BucketRate	rate;
	int64		unscaled;
	int			scale;

	return split_amount(at_most(amount, QUOTA_MAX_AMOUNT), &unscaled, &scale) &&
		bucket_rate_make(&rate, unscaled, scale, period_ns);
}

/* The amount per period as a fraction, exact if it fits, else a bit less. */
static BucketRate
make_rate(Numeric amount, int64 period_ns)
{
	BucketRate	rate;
	int64		unscaled;
	int			scale;

	(void) split_amount(at_most(amount, QUOTA_MAX_AMOUNT), &unscaled, &scale);
	while (!bucket_rate_make(&rate, unscaled, scale, period_ns))
	{
		/* with scale 0 the denominator is at most the period, which fits */
		if (scale == 0)
			elog(ERROR, "could not express rate");
		unscaled /= 10;
		scale--;
	}
	return rate;
}

/*
 * What a token bucket of an external limit holds when nothing else is said: half of
 * the safety margin, the other half being for calls that arrive late.
 */
static int64
external_burst(Numeric documented, Numeric safety)
{
	Datum		margin;
	Datum		half;

	margin = DirectFunctionCall2(numeric_sub,
								 NumericGetDatum(int64_to_numeric(1)),
								 NumericGetDatum(safety));
	half = DirectFunctionCall2(numeric_mul,
							   NumericGetDatum(policy_product(documented, DatumGetNumeric(margin))),
							   DirectFunctionCall3(numeric_in, CStringGetDatum("0.5"),
												   ObjectIdGetDatum(InvalidOid),
												   Int32GetDatum(-1)));
	return whole_units(DatumGetNumeric(half));
}

/* Burst of the most specific row that gives one, -1 if none does. */
static int64
given_burst(const PolicyLimit *limit, const PolicyOverride *tier,
			const PolicyOverride *tenant)
{
	if (tenant && tenant->burst >= 0)
		return tenant->burst;
	if (tier && tier->burst >= 0)
		return tier->burst;
	return limit->burst;
}

/* Is the amount 0? */
static bool
is_zero(Numeric a)
{
	return DatumGetBool(DirectFunctionCall2(numeric_eq, NumericGetDatum(a),
											NumericGetDatum(int64_to_numeric(0))));
}

/* Capacity and rate of a limit that is neither absent nor closed. */
static void
fill_amount(PolicyAmount *result, const PolicyLimit *limit,
			Numeric documented, int64 burst)
{
	Numeric		effective = documented;

	if (limit->safety)
		effective = policy_product(documented, limit->safety);
	result->capacity = whole_units(effective);
	result->per_period = result->capacity;
	if (quota_is_rate(limit->kind))
		result->rate = make_rate(effective, limit->period_ns);
	if (limit->kind != QUOTA_TOKEN_BUCKET && limit->kind != QUOTA_LEAKY_BUCKET)
		return;
	if (burst >= 0)
		result->capacity = Min(burst, QUOTA_MAX_AMOUNT);
	else if (limit->kind == QUOTA_LEAKY_BUCKET)
		result->capacity = 1;
	else if (limit->safety)
		result->capacity = external_burst(documented, limit->safety);
}

/*
 * The effective amount.  Allocates in the current context; throws only when
 * out of memory.
 */
PolicyAmount
policy_amount(const PolicyLimit *limit, const PolicyOverride *tier,
			  const PolicyOverride *tenant, int32 seats)
{
	PolicyAmount result = {0};
	Numeric		documented;

	result.rate.den = 1;
	result.changed_ns = limit->changed_ns;
	result.remade_ns = limit->remade_ns;
	if (tier)
	{
		result.changed_ns = Max(result.changed_ns, tier->changed_ns);
		result.remade_ns = Max(result.remade_ns, tier->changed_ns);
	}
	if (tenant)
	{
		result.changed_ns = Max(result.changed_ns, tenant->changed_ns);
		result.remade_ns = Max(result.remade_ns, tenant->changed_ns);
	}

	documented = override_amount(limit->amount, tier);
	documented = override_amount(documented, tenant);
	if (documented == NULL)
		return result;
	result.limited = true;
	if (limit->per_seat)
		documented = times(documented, seats);
	if (!is_zero(documented))
		fill_amount(&result, limit, documented,
					given_burst(limit, tier, tenant));
	return result;
}
