/*
 * outcome.c
 *		What statistics and events tell of a decision: how many calls of the tenant
 *		were admitted or refused, and why; which buckets refused or, soft or shadow,
 *		would have; that an allowance is exhausted or a soft limit crossed.
 *
 * Events are told once: of an allowance once in its period, of other soft limits again
 * when they have recovered (enforce.c).  Each bucket remembers what was told.
 *
 * Everything here runs under the plan's slot locks and neither allocates nor throws.
 */
#include "outcome.h"

#include "credit.h"
#include "event.h"
#include "miscadmin.h"

/* The event: the bucket had so many units left for a call that needed more. */
static void
tell(const QuotaPlan *plan, const char *kind, const QuotaBucket *b, int64 needed,
	 int64 left)
{
	char		detail[QUOTA_NAME_LEN + 128];

	snprintf(detail, sizeof(detail),
			 "limit %s: " INT64_FORMAT " needed, " INT64_FORMAT " of " INT64_FORMAT " left",
			 b->limit_name, needed, left, b->capacity);
	quota_event(MyDatabaseId, kind, plan->provider, plan->tenant, detail);
}

/* The first refusal of an allowance in a period is an event. */
static void
tell_exhausted(const QuotaPlan *plan, const QuotaExhausted *e, QuotaBucket *b)
{
	if (b->told_us == b->period_start_us)
		return;
	b->told_us = b->period_start_us;
	tell(plan, "exhausted", b, e->needed, e->remaining);
}

/* A soft limit is crossed: an event, unless it was told. */
static void
tell_soft(const QuotaPlan *plan, const TermState *s, int granted, int64 now_ns)
{
	QuotaBucket *b = &quota_buckets[s->bucket];

	if (b->kind == QUOTA_ALLOWANCE ? b->soft_told_us == b->period_start_us
		: b->soft_told_ns != 0)
		return;
	b->soft_told_us = b->period_start_us;
	b->soft_told_ns = Max(now_ns, 1);
	tell(plan, "soft_limit", b, s->cost * granted, Max(s->level, 0));
}

/* The call was refused: by whom. */
static void
count_refusal(const QuotaPlan *plan, const TermState *states, const QuotaVerdict *v)
{
	for (int i = 0; i < v->nexhausted; i++)
	{
		const QuotaExhausted *e = &v->exhausted[i];
		QuotaBucket *b = &quota_buckets[states[e->term].bucket];

		b->refused++;
		if (b->adaptive.on)
			adaptive_want(&b->adaptive);
		if (e->reason == QUOTA_QUOTA_EXHAUSTED)
			tell_exhausted(plan, e, b);
	}
}

/* Who would have refused it, were he hard: see enforce_judge(). */
static void
count_would_refuse(const QuotaPlan *plan, const TermState *states,
				   const QuotaVerdict *v, int64 now_ns)
{
	for (int i = 0; i < plan->nterms; i++)
	{
		if (!states[i].over)
			continue;
		quota_buckets[states[i].bucket].would_refuse++;
		if (v->granted > 0 && plan->terms[i].enforcement == QUOTA_SOFT)
			tell_soft(plan, &states[i], v->granted, now_ns);
	}
}

/* A fraction of an allowance is used: an event, once in a period. */
static void
tell_reached(const QuotaPlan *plan, QuotaBucket *b, int milli)
{
	char		detail[QUOTA_NAME_LEN + 128];

	snprintf(detail, sizeof(detail),
			 "limit %s: " INT64_FORMAT " of " INT64_FORMAT " used, %d.%03d of it reached",
			 b->limit_name, b->used - b->lapsed + b->gone, b->capacity, milli / 1000, milli % 1000);
	quota_event(MyDatabaseId, "budget_reached", plan->provider, plan->tenant, detail);
}

/* Tells what an allowance's use has reached since that was told last. */
static void
warn(const QuotaPlan *plan, const QuotaTerm *term, QuotaBucket *b)
{
	int128		used = (int128) (b->used - b->lapsed + b->gone) * 1000;
	int32		reached;

	if (b->warned_us != b->period_start_us)
		b->warned_milli = 0;
	b->warned_us = b->period_start_us;
	reached = b->warned_milli;
	for (int i = 0; i < term->nwarnings; i++)
	{
		int32		milli = term->warn_milli[i];

		if (milli <= b->warned_milli || used < (int128) milli * b->capacity)
			continue;
		tell_reached(plan, b, milli);
		reached = Max(reached, milli);
	}
	b->warned_milli = reached;
}

/* The same for all that the call has drawn on. */
static void
warn_all(const QuotaPlan *plan, const TermState *states)
{
	for (int i = 0; i < plan->nterms; i++)
		if (plan->terms[i].nwarnings > 0 && states[i].charged &&
			!quota_term_is_shadow(&plan->terms[i]))
			warn(plan, &plan->terms[i], &quota_buckets[states[i].bucket]);
}

/* See outcome.h. */
void
outcome_count(const QuotaPlan *plan, const TermState *states,
			  const QuotaVerdict *v, int64 now_ns)
{
	QuotaTenant *t = &quota_tenants[plan->tenant_index];

	if (v->granted > 0)
	{
		t->admitted += v->granted;
		if (plan->lenient)
			warn_all(plan, states);
	}
	else
	{
		t->refused[v->reason]++;
		count_refusal(plan, states, v);
	}
	if (plan->lenient)
		count_would_refuse(plan, states, v, now_ns);
}
