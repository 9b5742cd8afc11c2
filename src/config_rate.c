/*
 * config_rate.c
 *		The rate of a token or leaky bucket is a fraction of two 64-bit numbers.
 *		Almost every rate is one; an amount with many decimals over a long period may
 *		not be.  It is refused where a row of configuration gives it: a limit, an
 *		override, the safety of a provider.
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
	const char *account;
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
	limit->account = config_text(scan, LIMITS_ACCOUNT);
	limit->name = config_text(scan, LIMITS_NAME);
	limit->amount = usable(scan, LIMITS_AMOUNT, QUOTA_MAX_AMOUNT);
	limit->external = (limit->provider || limit->account) &&
		config_bool(scan, LIMITS_EXTERNAL,
					(config_per(scan, LIMITS_PER) & PER_TENANT) == 0);
	return limit->period_ns > 0 && limit->name;
}

/* What a row of quota.providers says of limits. */
typedef struct ProviderRow
{
	const char *provider;
	const char *account;
	Numeric		safety;			/* NULL = nonsense */
} ProviderRow;

/* What the row says, constraints met or not. */
static ProviderRow
read_provider(const ConfigScan *scan)
{
	ProviderRow row;

	row.provider = config_text(scan, PROVIDERS_PROVIDER);
	row.account = config_text(scan, PROVIDERS_ACCOUNT);
	if (row.account == NULL)
		row.account = row.provider;
	row.safety = usable(scan, PROVIDERS_SAFETY, 1);
	return row;
}

/* The row is one of those that an external limit goes by. */
static bool
goes_by(const RateRow *limit, const ProviderRow *row)
{
	return limit->provider ? config_same_name(row->provider, limit->provider)
		: limit->account && config_same_name(row->account, limit->account);
}

/*
 * The lowest safety of the providers that an external limit is for, one of which
 * (NULL = none) is about to be what "now" says; NULL when there are none.
 */
static Numeric
safety_of(const RateRow *limit, const ProviderRow *now)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	ConfigScan	scan;
	Numeric		safety = now && goes_by(limit, now) ? now->safety : NULL;

	config_scan_begin(&scan, QUOTA_REL_PROVIDERS, QUOTA_N_RELATIONS, NULL,
					  snapshot);
	while (config_scan_next(&scan))
	{
		ProviderRow row = read_provider(&scan);

		if (row.safety == NULL || !goes_by(limit, &row) ||
			(now && config_same_name(now->provider, row.provider)))
			continue;
		safety = safety ? policy_smaller(safety, row.safety) : row.safety;
	}
	config_scan_end(&scan);
	UnregisterSnapshot(snapshot);
	return safety;
}

/* 22023; amount may be NULL, now as above. */
static void
check(const RateRow *limit, Numeric amount, const ProviderRow *now)
{
	Numeric		safety = amount && limit->external ? safety_of(limit, now) : NULL;

	if (safety)
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

/* A row of quota.limits, with the safety of its provider or account; 22023. */
static void
check_limit(const ConfigScan *row)
{
	RateRow		limit;

	if (read_limit(row, &limit))
		check(&limit, limit.amount, NULL);
}

/* The external limits that go by a provider, with its row as it will be; 22023. */
static void
check_provider(const ConfigScan *row)
{
	ProviderRow now = read_provider(row);
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	ConfigScan	scan;

	config_scan_begin(&scan, QUOTA_REL_LIMITS, QUOTA_N_RELATIONS, NULL,
					  snapshot);
	while (config_scan_next(&scan))
	{
		RateRow		limit;

		if (read_limit(&scan, &limit) && limit.external && goes_by(&limit, &now))
			check(&limit, limit.amount, &now);
	}
	config_scan_end(&scan);
	UnregisterSnapshot(snapshot);
}

/* The limit of a provider (NULL = none) and name with an override; 22023. */
static void
check_override(const char *provider, const char *name, Numeric amount,
			   Numeric multiplier)
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
			!config_same_name(config_text(&scan, LIMITS_NAME), name) ||
			!read_limit(&scan, &limit))
			continue;
		effective = amount ? amount : limit.amount;
		if (effective && multiplier)
			effective = policy_product(effective, multiplier);
		check(&limit, effective, NULL);
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
		check_provider(&row);
	else
	{
		Numeric		amount = usable(&row, OVERRIDES_AMOUNT, QUOTA_MAX_AMOUNT);
		Numeric		multiplier = usable(&row, OVERRIDES_MULTIPLIER, 1000000);

		if ((amount || multiplier) && !row.nulls[OVERRIDES_NAME - 1])
			check_override(config_text(&row, OVERRIDES_PROVIDER),
						   config_text(&row, OVERRIDES_NAME), amount, multiplier);
	}
}
