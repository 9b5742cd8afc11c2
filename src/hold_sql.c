/*
 * hold_sql.c
 *		quota_hold(): credits set aside without a call.  It is a decision by the
 *		allowances of one unit, and asks no other limit.
 */
#include "credit.h"

#include "args.h"
#include "error.h"
#include "once.h"

PG_FUNCTION_INFO_V1(quota_hold);

/* 42704 when the plan has no allowance of the unit. */
static void
check_has_allowance(const QuotaPlan *plan, const char *unit)
{
	for (int i = 0; i < plan->nterms; i++)
		if (plan->terms[i].kind == QUOTA_ALLOWANCE &&
			strcmp(plan->terms[i].unit, unit) == 0)
			return;
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("no allowance of unit \"%s\" applies to tenant \"%s\" at provider \"%s\"",
					unit, plan->tenant, plan->provider),
			 errhint("Insert a limit of kind allowance into quota.limits first.")));
}

/* What quota_hold() is asked. */
typedef struct Hold
{
	QuotaCall	call;
	QuotaAsk	ask;
	QuotaUnits	units;
	char	   *unit;
	OnceCall	once;
} Hold;

/* 22004, 22023 */
static void
read_hold(FunctionCallInfo fcinfo, Hold *h)
{
	memset(h, 0, sizeof(*h));
	h->call.tenant = quota_arg_name(fcinfo, 0, "tenant", true);
	h->call.provider = quota_arg_name(fcinfo, 1, "provider", true);
	h->unit = quota_arg_name(fcinfo, 2, "unit", true);
	h->units.n = 1;
	/* as for a call, and as settling it allows */
	h->units.u[0].amount = quota_arg_int64(fcinfo, 3, "amount", 1, QUOTA_MAX_COST);
	if (!PG_ARGISNULL(4))
		h->ask.lifetime_ns = quota_arg_interval(fcinfo, 4, "lifetime");
	h->call.endpoint = quota_arg_name(fcinfo, 5, "endpoint", false);
	strlcpy(h->units.u[0].unit, h->unit, QUOTA_NAME_LEN);
	h->ask.n = 1;
	h->ask.units = &h->units;
	h->ask.only_unit = h->unit;
}

/* The call as one that is done once. */
static void
read_once(FunctionCallInfo fcinfo, Hold *h)
{
	h->once.operation = "hold";
	h->once.tenant = h->call.tenant;
	h->once.provider = h->call.provider;
	h->once.key = once_key_arg(fcinfo, 6);
	once_text(&h->once, "unit", h->unit);
	once_int64(&h->once, "amount", h->units.u[0].amount);
	if (h->ask.lifetime_ns > 0)
		once_int64(&h->once, "lifetime", h->ask.lifetime_ns / QUOTA_NS_PER_US);
	else
		once_text(&h->once, "lifetime", NULL);
	once_text(&h->once, "endpoint", h->call.endpoint);
}

/* quota_hold(tenant, provider, unit, amount, lifetime, endpoint, key): see its
 * COMMENT. */
Datum
quota_hold(PG_FUNCTION_ARGS)
{
	Hold		h;
	AcquireAnswer answer;

	quota_enter_write("quota_hold()");
	read_hold(fcinfo, &h);
	read_once(fcinfo, &h);
	if (!once_take(&h.once, &answer))
	{
		answer.stored = false;
		check_has_allowance(quota_plan(&h.call, false), h.unit);
		answer.plan = quota_decide(&h.call, &h.ask, &answer.verdict);
		if (answer.verdict.has_hold)
			credit_hold(answer.plan, &answer.verdict, 0);
		if (h.once.key && answer.verdict.granted > 0)
		{
			acquire_fill_values(&answer);
			once_store(&h.once, &answer);
		}
		once_release(&h.once);
	}
	PG_RETURN_DATUM(acquire_datum(acquire_desc(fcinfo), &answer));
}
