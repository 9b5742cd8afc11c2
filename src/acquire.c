/*
 * acquire.c
 *		quota_acquire() and quota_peek(): one call, one decision, an answer at
 *		once.
 */
#include "acquire.h"

#include "access/htup_details.h"
#include "args.h"
#include "credit.h"
#include "exhausted.h"
#include "funcapi.h"
#include "once.h"
#include "pause.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

PG_FUNCTION_INFO_V1(quota_acquire);
PG_FUNCTION_INFO_V1(quota_peek);

/* Reads what the three functions are asked; throws for nonsense. */
void
quota_read_call(FunctionCallInfo fcinfo, QuotaCall *call, QuotaAsk *ask)
{
	memset(ask, 0, sizeof(*ask));
	call->tenant = quota_arg_name(fcinfo, ARG_TENANT, "tenant", true);
	call->provider = quota_arg_name(fcinfo, ARG_PROVIDER, "provider", true);
	call->endpoint = quota_arg_name(fcinfo, ARG_ENDPOINT, "endpoint", false);
	ask->n = quota_arg_int32(fcinfo, ARG_N, "n", 1, 1000000);
	ask->units = quota_arg_units(fcinfo, ARG_UNITS);
	call->class_name = quota_arg_name(fcinfo, ARG_CLASS, "class", false);
	call->user = quota_arg_name(fcinfo, ARG_USER, "user", false);
	call->connection = quota_arg_name(fcinfo, ARG_CONNECTION, "connection", false);
	call->resource = quota_arg_name(fcinfo, ARG_RESOURCE, "resource", false);
	ask->retry = quota_arg_int32(fcinfo, ARG_ATTEMPT, "attempt", 1, PG_INT32_MAX) > 1;
	ask->partial = quota_arg_bool(fcinfo, ARG_PARTIAL, "partial");
}

/* See acquire.h. */
TupleDesc
acquire_desc(FunctionCallInfo fcinfo)
{
	TupleDesc	desc = fcinfo->flinfo->fn_extra;
	MemoryContext old;
	Oid			type;

	if (desc)
		return desc;
	type = get_fn_expr_rettype(fcinfo->flinfo);
	old = MemoryContextSwitchTo(fcinfo->flinfo->fn_mcxt);
	/* who calls by an expression, as nearly all do, need not read pg_proc */
	if (OidIsValid(type))
		desc = lookup_rowtype_tupdesc_copy(type, -1);
	else if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	fcinfo->flinfo->fn_extra = desc;
	MemoryContextSwitchTo(old);
	return desc;
}

/* See decide.h. */
const char *
quota_limiting_name(const QuotaPlan *plan, const QuotaVerdict *verdict)
{
	if (verdict->reason == QUOTA_PAUSED)
		return pause_seen.hits[pause_seen.last].scope;
	return verdict->limiting < 0 ? NULL : plan->terms[verdict->limiting].name;
}

/* See acquire.h. */
void
acquire_fill_values(AcquireAnswer *a)
{
	const QuotaVerdict *verdict = &a->verdict;
	bool		admitted = verdict->granted > 0;
	Datum	   *values = a->values;
	bool	   *nulls = a->nulls;

	memset(nulls, 0, sizeof(a->nulls));
	memset(values, 0, sizeof(a->values));
	values[DECISION_ADMITTED] = BoolGetDatum(admitted);
	values[DECISION_GRANTED] = Int32GetDatum(verdict->granted);
	values[DECISION_REASON] =
		CStringGetTextDatum(quota_reason_name(verdict->reason));
	nulls[DECISION_LIMIT_NAME] = quota_limiting_name(a->plan, verdict) == NULL;
	if (!nulls[DECISION_LIMIT_NAME])
		values[DECISION_LIMIT_NAME] =
			CStringGetTextDatum(quota_limiting_name(a->plan, verdict));
	nulls[DECISION_NOT_BEFORE] = admitted || verdict->not_before_us == DT_NOEND;
	values[DECISION_NOT_BEFORE] = TimestampTzGetDatum(verdict->not_before_us);
	nulls[DECISION_REMAINING] = verdict->remaining == QUOTA_NEVER;
	values[DECISION_REMAINING] = Int64GetDatum(verdict->remaining);
	nulls[DECISION_PERMIT] = verdict->permit == 0;
	values[DECISION_PERMIT] = Int64GetDatum(verdict->permit);
	nulls[DECISION_EXHAUSTED] = verdict->npaused + verdict->nexhausted == 0;
	if (!nulls[DECISION_EXHAUSTED])
		values[DECISION_EXHAUSTED] = exhausted_datum(a->plan, verdict);
}

/* See acquire.h. */
Datum
acquire_datum(TupleDesc desc, AcquireAnswer *answer)
{
	if (!answer->stored)
		acquire_fill_values(answer);
	return HeapTupleGetDatum(heap_form_tuple(desc, answer->values, answer->nulls));
}

/* See decide.h. */
Datum
quota_decision_datum(FunctionCallInfo fcinfo, QuotaPlan *plan,
					 const QuotaVerdict *verdict)
{
	AcquireAnswer answer = {.plan = plan,.verdict = *verdict};

	return acquire_datum(acquire_desc(fcinfo), &answer);
}

/* See acquire.h. */
void
acquire_read_args(FunctionCallInfo fcinfo, AcquireArgs *args)
{
	quota_read_call(fcinfo, &args->call, &args->ask);
	args->key = once_key_arg(fcinfo, ARG_KEY);
	args->units = PG_ARGISNULL(ARG_UNITS) ? NULL : PG_GETARG_JSONB_P(ARG_UNITS);
}

/* Decides, and writes what an admission by credits writes. */
static void
decide(const AcquireArgs *args, AcquireAnswer *answer)
{
	answer->stored = false;
	answer->plan = quota_decide(&args->call, &args->ask, &answer->verdict);
	if (answer->verdict.has_hold)
		credit_hold(answer->plan, &answer->verdict, 0);
}

/* The call as one that is done once. */
static OnceCall
once_of(const AcquireArgs *args)
{
	OnceCall	call = {.operation = "acquire",.tenant = args->call.tenant,
	.provider = args->call.provider,.key = args->key};

	once_text(&call, "endpoint", args->call.endpoint);
	once_int64(&call, "n", args->ask.n);
	once_jsonb(&call, "units", args->units);
	once_text(&call, "class", args->call.class_name);
	once_text(&call, "user", args->call.user);
	once_text(&call, "connection", args->call.connection);
	once_text(&call, "resource", args->call.resource);
	once_bool(&call, "partial", args->ask.partial);
	return call;
}

/* See acquire.h. */
void
acquire_ask(const AcquireArgs *args, AcquireAnswer *answer)
{
	OnceCall	call;

	if (args->key == NULL)
	{
		decide(args, answer);
		return;
	}
	call = once_of(args);
	if (once_take(&call, answer))
		return;
	decide(args, answer);
	if (answer->verdict.granted > 0)
	{
		acquire_fill_values(answer);
		once_store(&call, answer);
	}
	once_release(&call);
}

/* quota_acquire(tenant, provider, ..., key): see its COMMENT. */
Datum
quota_acquire(PG_FUNCTION_ARGS)
{
	AcquireArgs args;
	AcquireAnswer answer;

	quota_enter_write("quota_acquire()");
	acquire_read_args(fcinfo, &args);
	acquire_ask(&args, &answer);
	PG_RETURN_DATUM(acquire_datum(acquire_desc(fcinfo), &answer));
}

/* quota_peek(): what quota_acquire() would answer now; charges nothing. */
Datum
quota_peek(PG_FUNCTION_ARGS)
{
	QuotaCall	call;
	QuotaAsk	ask;
	QuotaVerdict verdict;
	QuotaPlan  *plan;

	quota_enter_primary("quota_peek()");
	quota_read_call(fcinfo, &call, &ask);
	ask.dry = true;
	plan = quota_decide(&call, &ask, &verdict);
	return quota_decision_datum(fcinfo, plan, &verdict);
}
