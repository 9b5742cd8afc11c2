/*
 * acquire.c
 *		quota_acquire() and quota_peek(): one call, one decision, an answer at
 *		once.
 */
#include "decide.h"

#include "access/htup_details.h"
#include "args.h"
#include "credit.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/json.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(quota_acquire);
PG_FUNCTION_INFO_V1(quota_peek);

/* Attributes of quota_decision. */
enum
{
	DECISION_ADMITTED,
	DECISION_GRANTED,
	DECISION_REASON,
	DECISION_LIMIT_NAME,
	DECISION_NOT_BEFORE,
	DECISION_REMAINING,
	DECISION_PERMIT,
	DECISION_EXHAUSTED,
	N_DECISION
};

/* Arguments of quota_acquire, quota_peek and quota_explain. */
enum
{
	ARG_TENANT,
	ARG_PROVIDER,
	ARG_ENDPOINT,
	ARG_N,
	ARG_UNITS,
	ARG_CLASS,
	ARG_USER,
	ARG_CONNECTION,
	ARG_RESOURCE,
	ARG_PARTIAL
};

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
	call->user = quota_arg_text(fcinfo, ARG_USER, "user", false);
	call->connection = quota_arg_text(fcinfo, ARG_CONNECTION, "connection", false);
	call->resource = quota_arg_text(fcinfo, ARG_RESOURCE, "resource", false);
	ask->partial = quota_arg_bool(fcinfo, ARG_PARTIAL, "partial");
}

static void
push_string(JsonbParseState **state, const char *key, const char *value)
{
	JsonbValue	v;

	v.type = jbvString;
	v.val.string.val = unconstify(char *, key);
	v.val.string.len = (int) strlen(key);
	pushJsonbValue(state, WJB_KEY, &v);
	if (value)
	{
		v.val.string.val = unconstify(char *, value);
		v.val.string.len = (int) strlen(value);
	}
	else
		v.type = jbvNull;
	pushJsonbValue(state, WJB_VALUE, &v);
}

static void
push_number(JsonbParseState **state, const char *key, int64 value)
{
	JsonbValue	v;

	v.type = jbvString;
	v.val.string.val = unconstify(char *, key);
	v.val.string.len = (int) strlen(key);
	pushJsonbValue(state, WJB_KEY, &v);
	v.type = jbvNumeric;
	v.val.numeric = int64_to_numeric(value);
	pushJsonbValue(state, WJB_VALUE, &v);
}

static void
push_exhausted(JsonbParseState **state, const QuotaPlan *plan,
			   const QuotaExhausted *e)
{
	char		buffer[MAXDATELEN + 1];
	const char *not_before = NULL;

	if (e->not_before_us != DT_NOEND)
		not_before = JsonEncodeDateTime(buffer,
										TimestampTzGetDatum(e->not_before_us),
										TIMESTAMPTZOID, NULL);
	/* in the order of a jsonb, which then has nothing to sort */
	pushJsonbValue(state, WJB_BEGIN_OBJECT, NULL);
	push_string(state, "name", plan->terms[e->term].name);
	push_string(state, "unit", plan->terms[e->term].unit);
	push_number(state, "needed", e->needed);
	push_string(state, "reason", quota_reason_name(e->reason));
	push_number(state, "remaining", e->remaining);
	push_string(state, "not_before", not_before);
	pushJsonbValue(state, WJB_END_OBJECT, NULL);
}

/* Every limit that said no, as a jsonb array. */
static Datum
exhausted_datum(const QuotaPlan *plan, const QuotaVerdict *verdict)
{
	JsonbParseState *state = NULL;

	pushJsonbValue(&state, WJB_BEGIN_ARRAY, NULL);
	for (int i = 0; i < verdict->nexhausted; i++)
		push_exhausted(&state, plan, &verdict->exhausted[i]);
	return JsonbPGetDatum(JsonbValueToJsonb(pushJsonbValue(&state,
														   WJB_END_ARRAY, NULL)));
}

/* The row type of quota_decision, looked up once per call site. */
static TupleDesc
decision_desc(FunctionCallInfo fcinfo)
{
	TupleDesc	desc = fcinfo->flinfo->fn_extra;
	MemoryContext old;

	if (desc)
		return desc;
	old = MemoryContextSwitchTo(fcinfo->flinfo->fn_mcxt);
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	desc = BlessTupleDesc(CreateTupleDescCopy(desc));
	fcinfo->flinfo->fn_extra = desc;
	MemoryContextSwitchTo(old);
	return desc;
}

/* See decide.h. */
Datum
quota_decision_datum(FunctionCallInfo fcinfo, const QuotaPlan *plan,
					 const QuotaVerdict *verdict)
{
	bool		admitted = verdict->granted > 0;
	Datum		values[N_DECISION] = {0};
	bool		nulls[N_DECISION] = {false};

	values[DECISION_ADMITTED] = BoolGetDatum(admitted);
	values[DECISION_GRANTED] = Int32GetDatum(verdict->granted);
	values[DECISION_REASON] =
		CStringGetTextDatum(quota_reason_name(verdict->reason));
	nulls[DECISION_LIMIT_NAME] = verdict->limiting < 0;
	if (verdict->limiting >= 0)
		values[DECISION_LIMIT_NAME] =
			CStringGetTextDatum(plan->terms[verdict->limiting].name);
	nulls[DECISION_NOT_BEFORE] = admitted || verdict->not_before_us == DT_NOEND;
	values[DECISION_NOT_BEFORE] = TimestampTzGetDatum(verdict->not_before_us);
	nulls[DECISION_REMAINING] = verdict->remaining == QUOTA_NEVER;
	values[DECISION_REMAINING] = Int64GetDatum(verdict->remaining);
	nulls[DECISION_PERMIT] = verdict->permit == 0;
	values[DECISION_PERMIT] = Int64GetDatum(verdict->permit);
	nulls[DECISION_EXHAUSTED] = verdict->nexhausted == 0;
	if (verdict->nexhausted > 0)
		values[DECISION_EXHAUSTED] = exhausted_datum(plan, verdict);
	return HeapTupleGetDatum(heap_form_tuple(decision_desc(fcinfo),
											 values, nulls));
}

/*
 * quota_acquire(tenant, provider, endpoint, n, units, class, user, connection,
 * resource, partial): see its COMMENT.
 */
Datum
quota_acquire(PG_FUNCTION_ARGS)
{
	QuotaCall	call;
	QuotaAsk	ask;
	QuotaVerdict verdict;
	QuotaPlan  *plan;

	quota_enter_write("quota_acquire()");
	quota_read_call(fcinfo, &call, &ask);
	plan = quota_decide(&call, &ask, &verdict);
	if (verdict.has_hold)
		credit_hold(plan, &verdict, 0);
	return quota_decision_datum(fcinfo, plan, &verdict);
}

/* quota_peek(): what quota_acquire() would answer now; charges nothing. */
Datum
quota_peek(PG_FUNCTION_ARGS)
{
	QuotaCall	call;
	QuotaAsk	ask;
	QuotaVerdict verdict;
	QuotaPlan  *plan;

	quota_enter_write("quota_peek()");
	quota_read_call(fcinfo, &call, &ask);
	ask.dry = true;
	plan = quota_decide(&call, &ask, &verdict);
	return quota_decision_datum(fcinfo, plan, &verdict);
}
