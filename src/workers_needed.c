/*
 * workers_needed.c
 *		quota_workers_needed(): how many workers keep a provider busy.
 *
 * Little's law: as many calls are in flight as begin in the time that one takes.
 * The rate is that of the narrowest rate limit that every call meets, at what a call
 * to no endpoint costs; the time a high percentile of what was measured, so that
 * slow calls don't leave the limit unused.
 */
#include "quota.h"

#include "args.h"
#include "catalog.h"
#include "error.h"
#include "job.h"
#include "latency.h"
#include "miscadmin.h"
#include "policy.h"
#include "utils/fmgrprotos.h"
#include "utils/numeric.h"

PG_FUNCTION_INFO_V1(quota_workers_needed);

/* The argument in millionths, rounded up.  Throws 22004, 22023. */
static int64
percentile_arg(FunctionCallInfo fcinfo, int i)
{
	Datum		millionths;
	int64		n;

	if (PG_ARGISNULL(i))
		quota_error_null("percentile");
	millionths = DirectFunctionCall2(numeric_mul, PG_GETARG_DATUM(i),
									 NumericGetDatum(int64_to_numeric(LATENCY_WHOLE)));
	if (numeric_is_nan(DatumGetNumeric(millionths)) ||
		numeric_is_inf(DatumGetNumeric(millionths)) ||
		DatumGetBool(DirectFunctionCall2(numeric_le, millionths,
										 NumericGetDatum(int64_to_numeric(0)))) ||
		DatumGetBool(DirectFunctionCall2(numeric_gt, millionths,
										 NumericGetDatum(int64_to_numeric(LATENCY_WHOLE)))))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"percentile\" is out of range"),
				 errdetail("Allowed is more than 0 and at most 1."),
				 errhint("Pass a part such as 0.95.")));
	millionths = DirectFunctionCall1(numeric_ceil, millionths);
	n = DatumGetInt64(DirectFunctionCall1(numeric_int8, millionths));
	return n;
}

/* The percentile of what was measured at the slot, -1 = nothing. */
static int64
measured(uint32 slot, int64 millionths)
{
	Latency		latency;

	LWLockAcquire(&quota_slots[slot].lock, LW_SHARED);
	latency = quota_slots[slot].latency;
	LWLockRelease(&quota_slots[slot].lock);
	return latency_percentile(&latency, millionths);
}

/* a allows fewer calls than b, which may be NULL; both at cost >= 1 */
static bool
is_narrower(const QuotaTerm *a, const QuotaTerm *b)
{
	return b == NULL ||
		(long double) a->meter.rate.num / a->meter.rate.den / a->cost <
		(long double) b->meter.rate.num / b->meter.rate.den / b->cost;
}

/* Most calls at a time, by limits that every call meets. */
static int32
most_places(const QuotaPlan *plan)
{
	int64		most = PG_INT32_MAX;

	for (int i = 0; i < plan->nterms; i++)
		if (plan->terms[i].wide && plan->terms[i].kind == QUOTA_CONCURRENCY &&
			plan->terms[i].cost > 0)
			most = Min(most, plan->terms[i].capacity / plan->terms[i].cost);
	return (int32) Max(most, 1);
}

/* The rate limit that every call meets and that allows the fewest; NULL = none. */
static const QuotaTerm *
narrowest(const QuotaPlan *plan)
{
	const QuotaTerm *term = NULL;

	for (int i = 0; i < plan->nterms; i++)
		if (plan->terms[i].wide && quota_is_rate(plan->terms[i].kind) &&
			plan->terms[i].cost > 0 && is_narrower(&plan->terms[i], term))
			term = &plan->terms[i];
	return term;
}

/* quota_workers_needed(provider, percentile): see its COMMENT. */
Datum
quota_workers_needed(PG_FUNCTION_ARGS)
{
	QuotaCall	call = {0};
	int64		millionths;
	int64		latency_ns;
	const QuotaTerm *term;
	QuotaPlan  *plan;
	int32		n;

	quota_enter_primary("quota_workers_needed()");
	call.provider = quota_arg_provider(fcinfo, 0);
	millionths = percentile_arg(fcinfo, 1);
	latency_ns = measured(quota_slot(MyDatabaseId, quota_catalog()->extension,
									 call.provider), millionths);
	plan = quota_plan_unchecked(&call);
	term = plan ? narrowest(plan) : NULL;
	if (term == NULL || latency_ns < 0)
		PG_RETURN_NULL();
	n = little_workers(term->meter.rate.num, term->meter.rate.den, term->cost,
					   latency_ns);
	PG_RETURN_INT32(Min(n, most_places(plan)));
}
