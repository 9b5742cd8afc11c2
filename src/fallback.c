/*
 * fallback.c
 *		quota_fallback(): what each worker may do by itself while the database is out
 *		of reach.
 *
 * Nobody counts for all then, so each worker gets its part of what the provider allows
 * and keeps to it in any interval of one period: all of them together make no more
 * calls in any such interval than the limit lets through.  Parts are rounded down; what
 * is too little to be divided is nothing.  A limit across providers is divided between
 * these as well.  Of an adaptive limit only the floor is sure, and credits need the
 * ledger.
 *
 * Limits kept by tenant are not the provider's; they are left out.
 */
#include "args.h"

#include "adaptive.h"
#include "catalog/pg_type.h"
#include "config.h"
#include "funcapi.h"
#include "policy_amount.h"
#include "policy_cache.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(quota_fallback);

#define N_COLUMNS 7

/* The words of "per", in the order of ConfigPer. */
static const char *const per_words[N_PER] = {
	"tenant", "user", "connection", "resource", "endpoint", "class"
};

/* The words as an array. */
static Datum
per_array(int per)
{
	Datum		words[N_PER];
	int			n = 0;

	for (int i = 0; i < N_PER; i++)
		if (per & (1 << i))
			words[n++] = CStringGetTextDatum(per_words[i]);
	return PointerGetDatum(construct_array(words, n, TEXTOID, -1, false,
										   TYPALIGN_INT));
}

/* Providers that draw on the limit. */
static int64
count_providers(const PolicyRules *rules, const PolicyLimit *limit)
{
	HASH_SEQ_STATUS status;
	const PolicyProvider *p;
	int64		n = 0;

	hash_seq_init(&status, rules->providers);
	while ((p = hash_seq_search(&status)) != NULL)
		n += limit->account == NULL || strcmp(limit->account, p->account) == 0;
	return Max(n, 1);
}

/* The row of one limit, in parts of so many; none when it does not limit. */
static void
put_limit(ReturnSetInfo *result, const PolicyLimit *limit, int64 parts)
{
	PolicyAmount amount = policy_amount(limit, NULL, NULL, 1);
	Datum		values[N_COLUMNS] = {0};
	bool		nulls[N_COLUMNS] = {false};
	Interval   *period;

	if (!amount.limited || (limit->per & PER_TENANT) ||
		limit->enforcement != QUOTA_HARD)
		return;
	if (limit->adaptive)
		amount.per_period = amount.per_period * limit->adaptive_floor_milli / 1000;
	if (limit->kind == QUOTA_ALLOWANCE)
		amount.per_period = 0;
	values[0] = CStringGetTextDatum(limit->name);
	nulls[1] = limit->endpoint == NULL;
	if (limit->endpoint)
		values[1] = CStringGetTextDatum(limit->endpoint);
	values[2] = per_array(limit->per);
	values[3] = CStringGetTextDatum(limit->unit);
	values[4] = CStringGetTextDatum(quota_kind_name(limit->kind));
	values[5] = Int64GetDatum(amount.per_period / parts);
	nulls[6] = !quota_is_rate(limit->kind);
	period = palloc0(sizeof(Interval));
	period->time = quota_us_up(limit->period_ns);
	values[6] = IntervalPGetDatum(period);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/* quota_fallback(provider, workers): see its COMMENT. */
Datum
quota_fallback(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	char	   *name;
	int64		workers;
	const PolicyRules *rules;
	const PolicyProvider *provider;
	ListCell   *lc;

	quota_enter_primary("quota_fallback()");
	name = quota_arg_provider(fcinfo, 0);
	workers = quota_arg_int32(fcinfo, 1, "workers", 1, PG_INT32_MAX);
	InitMaterializedSRF(fcinfo, 0);
	rules = policy_rules();
	provider = policy_find(rules->providers, name);
	if (provider == NULL)
		return (Datum) 0;
	foreach(lc, rules->across)
	{
		const PolicyLimit *limit = lfirst(lc);

		if (limit->account == NULL || strcmp(limit->account, provider->account) == 0)
			put_limit(result, limit, workers * count_providers(rules, limit));
	}
	foreach(lc, provider->limits)
		put_limit(result, lfirst(lc), workers);
	return (Datum) 0;
}
