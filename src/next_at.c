/*
 * next_at.c
 *		quota_next_at(): when jobs go on, and why not now.
 *
 * Of a flow that was refused the answer is in shared memory.  Of one that is READY
 * nobody has asked since, and of one that is paused it tells too little; so it is
 * decided for, by the cost map, as quota_peek()
 * would.  A job with units of its own may meet something else.
 */
#include "flow_list.h"

#include "catalog.h"
#include "decide.h"
#include "args.h"
#include "funcapi.h"
#include "job.h"
#include "job_refresh.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(quota_next_at);

/* Columns of the result */
enum
{
	NEXT_TENANT,
	NEXT_CLASS,
	NEXT_ENDPOINT,
	NEXT_QUEUED,
	NEXT_IN_FLIGHT,
	NEXT_REASON,
	NEXT_LIMIT_NAME,
	NEXT_AT,
	N_NEXT
};

/* The instant of the quota clock, as the wall clock will show it, rounded up. */
static TimestampTz
wall_of(const FlowList *list, int64 at_ns)
{
	if (at_ns == QUOTA_NEVER)
		return DT_NOEND;
	return list->wall_us + quota_us_up(Max(at_ns - list->now_ns, 0));
}

/* What a call of the flow would be told; sets reason and time, returns the limit. */
static const char *
ask(const char *provider, FlowInfo *info, TimestampTz *at_us)
{
	QuotaCall	call = flow_info_call(info, provider);
	QuotaAsk	one = {0};
	TermState	states[QUOTA_MAX_TERMS];
	QuotaVerdict verdict;
	QuotaPlan  *plan;

	if (quota_plan(&call, true) == NULL)
	{
		info->reason = QUOTA_UNCONFIGURED;
		*at_us = DT_NOEND;
		return NULL;
	}
	one.n = 1;
	one.dry = true;
	plan = quota_examine(&call, &one, states, &verdict);
	if (verdict.granted > 0)
		return NULL;
	info->reason = verdict.reason;
	*at_us = verdict.not_before_us;
	return quota_limiting_name(plan, &verdict);
}

/* A flow that is held back: by a pause, perhaps, and until when, buckets included. */
static void
ask_paused(const char *provider, FlowInfo *info, const char **limit_name,
		   TimestampTz *at_us)
{
	FlowInfo	asked = *info;
	const char *name;
	TimestampTz paused_us = *at_us;

	asked.reason = QUOTA_OK;
	name = ask(provider, &asked, &paused_us);
	if (info->reason != QUOTA_PAUSED && asked.reason != QUOTA_PAUSED)
		return;
	info->reason = asked.reason;
	*limit_name = name;
	*at_us = paused_us;
}

/* Adds the flow to the result. */
static void
put_flow(ReturnSetInfo *result, const FlowInfo *info, const char *limit_name,
		 TimestampTz at_us)
{
	Datum		values[N_NEXT];
	bool		nulls[N_NEXT] = {false};

	values[NEXT_TENANT] = CStringGetTextDatum(info->tenant);
	values[NEXT_CLASS] = CStringGetTextDatum(info->class_name);
	values[NEXT_ENDPOINT] = CStringGetTextDatum(info->endpoint);
	nulls[NEXT_ENDPOINT] = info->endpoint[0] == '\0';
	values[NEXT_QUEUED] = Int64GetDatum(info->depth);
	values[NEXT_IN_FLIGHT] = Int64GetDatum(info->in_flight);
	values[NEXT_REASON] = CStringGetTextDatum(quota_reason_name(info->reason));
	nulls[NEXT_LIMIT_NAME] = limit_name == NULL;
	if (limit_name)
		values[NEXT_LIMIT_NAME] = CStringGetTextDatum(limit_name);
	values[NEXT_AT] = TimestampTzGetDatum(at_us);
	nulls[NEXT_AT] = at_us == DT_NOEND;
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/* quota_next_at(provider): see its COMMENT. */
Datum
quota_next_at(PG_FUNCTION_ARGS)
{
	char	   *provider;
	uint32		slot;
	FlowList	list;

	quota_enter_primary("quota_next_at()");
	InitMaterializedSRF(fcinfo, 0);
	provider = quota_arg_provider(fcinfo, 0);
	(void) job_load_counts();
	slot = quota_slot(MyDatabaseId, quota_catalog()->extension, provider);
	/* what a limit said that has changed since is no reason any more */
	job_refresh(slot);
	flow_list(slot, &list);
	for (int i = 0; i < list.n; i++)
	{
		FlowInfo   *info = &list.flow[i];
		TimestampTz at_us = wall_of(&list, info->at_ns);
		const char *limit_name = info->limit_name[0] ? info->limit_name : NULL;

		CHECK_FOR_INTERRUPTS();
		if (info->reason == QUOTA_OK)
			limit_name = ask(provider, info, &at_us);
		else if (info->blocked)
			ask_paused(provider, info, &limit_name, &at_us);
		put_flow((ReturnSetInfo *) fcinfo->resultinfo, info, limit_name, at_us);
	}
	return (Datum) 0;
}
