/*
 * config_rate.c
 *		The rate of a token or leaky bucket is a fraction of two 64-bit numbers.  Almost every
 *		rate is one; an amount with many decimals over a long period may not be.
 *		It is refused where a row of configuration gives it: a limit, an override,
 *		the safety of a provider.
 *
 * A row is checked with the rows it refers to, as they are now.  Where more of
 * them come together (the multipliers of a tier and a tenant), or change later,
 * what does not fit is rounded down (policy_amount.c), never up.
 *
 * Rows come here before the constraints of their tables: what those will refuse
 * is left to them.
 */
#include "config_rate.h"

#include "policy_amount.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

/* What a row of quota.limits says of a rate. */
typedef struct RateRow
{
	const char *provider;
	const char *name;
	Numeric		amount;			/* NULL = none */
	int64		period_ns;
	bool		external;
} RateRow;

/* A numeric column above 0 and not above most; NULL otherwise. */
static Numeric
usable(const ConfigScan *scan, int column, int64 most)
{
	Numeric		value = config_numeric(scan, column);

	if (value == NULL ||
		!DatumGetBool(DirectFunctionCall2(numeric_gt, NumericGetDatum(value),
										  NumericGetDatum(int64_to_numeric(0)))) ||
		!DatumGetBool(DirectFunctionCall2(numeric_le, NumericGetDatum(value),
										  NumericGetDatum(int64_to_numeric(most)))))
		return NULL;
	return value;
}

/* False when the row gives no rate, or nonsense. */
static bool
read_limit(const ConfigScan *scan, RateRow *limit)
{
	const char *kind = config_text(scan, LIMITS_KIND);
	const Interval *period;
	int64		days;

	if (scan->nulls[LIMITS_PERIOD - 1] ||
		(!config_same_name(kind, quota_kind_name(QUOTA_TOKEN_BUCKET)) &&
		 !config_same_name(kind, quota_kind_name(QUOTA_LEAKY_BUCKET))))
		return false;
	period = DatumGetIntervalP(scan->values[LIMITS_PERIOD - 1]);
	days = (int64) period->month * DAYS_PER_MONTH + period->day +
		period->time / USECS_PER_DAY;
	if (days < 0 || days > 36600)
		return false;
	limit->period_ns = config_interval_ns(scan, LIMITS_PERIOD);
	limit->provider = config_text(scan, LIMITS_PROVIDER);
	limit->name = config_text(scan, LIMITS_NAME);
	limit->amount = usable(scan, LIMITS_AMOUNT, QUOTA_MAX_AMOUNT);
	limit->external = limit->provider &&
		config_bool(scan, LIMITS_EXTERNAL,
					(config_per(scan, LIMITS_PER) & PER_TENANT) == 0);
	return limit->period_ns > 0 && limit->name;
}

/* Safety of a provider; NULL when it has no row. */
static Numeric
safety_of(const char *provider)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	ConfigScan	scan;
	Numeric		safety = NULL;

	config_scan_begin(&scan, QUOTA_REL_PROVIDERS, QUOTA_N_RELATIONS, NULL,
					  snapshot);
	while (safety == NULL && config_scan_next(&scan))
		if (config_same_name(config_text(&scan, PROVIDERS_PROVIDER), provider))
			safety = config_numeric(&scan, PROVIDERS_SAFETY);
	config_scan_end(&scan);
	UnregisterSnapshot(snapshot);
	return safety;
}

/* 22023; amount or safety may be NULL. */
static void
check(const RateRow *limit, Numeric amount, Numeric safety)
{
	if (amount && safety && limit->external)
		amount = policy_product(amount, safety);
	if (amount == NULL || policy_rate_is_exact(amount, limit->period_ns))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("rate of limit \"%s\" cannot be kept exactly", limit->name),
			 errdetail("%s units in %lld seconds, safety and multiplier included, are no fraction of 64-bit numbers of units and nanoseconds.",
					   DatumGetCString(DirectFunctionCall1(numeric_out,
														   NumericGetDatum(amount))),
					   (long long) (limit->period_ns / QUOTA_NS_PER_S)),
			 errhint("Use fewer decimals (six fit up to an hour, five a day, three a month), or a shorter period and the amount that belongs to it.")));
}

/* A row of quota.limits, with the safety of its provider; 22023. */
static void
check_limit(const ConfigScan *row)
{
	RateRow		limit;

	if (read_limit(row, &limit) && limit.amount)
		check(&limit, limit.amount,
			  limit.external ? safety_of(limit.provider) : NULL);
}

/* All limits of a provider with its new safety, or one with an override. */
static void
check_limits(const char *provider, const char *name, Numeric safety,
			 Numeric amount, Numeric multiplier)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	ConfigScan	scan;

	config_scan_begin(&scan, QUOTA_REL_LIMITS, QUOTA_N_RELATIONS, NULL,
					  snapshot);
	while (config_scan_next(&scan))
	{
		RateRow		limit;
		Numeric		effective;

		if (!config_same_name(config_text(&scan, LIMITS_PROVIDER), provider) ||
			(name && !config_same_name(config_text(&scan, LIMITS_NAME), name)) ||
			!read_limit(&scan, &limit))
			continue;
		effective = amount ? amount : limit.amount;
		if (effective && multiplier)
			effective = policy_product(effective, multiplier);
		check(&limit, effective, safety);
	}
	config_scan_end(&scan);
	UnregisterSnapshot(snapshot);
}

/* See config_rate.h. */
void
config_check_rate(QuotaRelation rel, TupleDesc desc, HeapTuple tuple)
{
	ConfigScan	row;

	config_decode(&row, desc, tuple);
	if (rel == QUOTA_REL_LIMITS)
		check_limit(&row);
	else if (rel == QUOTA_REL_PROVIDERS)
		check_limits(config_text(&row, PROVIDERS_PROVIDER), NULL,
					 usable(&row, PROVIDERS_SAFETY, 1), NULL, NULL);
	else
	{
		const char *provider = config_text(&row, OVERRIDES_PROVIDER);
		Numeric		amount = usable(&row, OVERRIDES_AMOUNT, QUOTA_MAX_AMOUNT);
		Numeric		multiplier = usable(&row, OVERRIDES_MULTIPLIER, 1000000);

		if ((amount || multiplier) && !row.nulls[OVERRIDES_NAME - 1])
			check_limits(provider, config_text(&row, OVERRIDES_NAME),
						 provider ? safety_of(provider) : NULL, amount,
						 multiplier);
	}
}
