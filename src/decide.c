/*
 * decide.c
 *		The decision: one section under the slot's lock that checks every limit
 *		of the plan and then charges all of them or none (G2).
 *
 * Order inside the section: is the plan current (G9), expire permits, examine
 * every term, and only when all fit charge every term.  The clock is read under
 * the lock, so that no decision sees a time before the bucket's last one.
 * Nothing here allocates or throws; a bucket that must be loaded from rows, or a
 * full table, is reported to the caller, who helps without the lock
 * (decide_help.c) and asks again.
 *
 * What a limit says for itself is in examine.c, what a yes takes in charge.c, what
 * statistics and events tell of the outcome in outcome.c.
 */
#include "decide.h"

#include "charge.h"
#include "enforce.h"
#include "examine.h"
#include "floor.h"
#include "flow_gate.h"
#include "journal.h"
#include "mark.h"
#include "miscadmin.h"
#include "outcome.h"
#include "pause.h"
#include "permit.h"
#include "spread.h"
#include "utils/inval.h"

/* Loads one call may need before it gives up. */
#define MAX_ROUNDS 1000

/* Database slot first: see the lock order in shmem.h. */
void
quota_lock_plan(const QuotaPlan *plan)
{
	if (plan->across)
		quota_lock(&quota_slots[plan->database_slot].lock);
	quota_lock(&quota_slots[plan->slot].lock);
}

/* The reverse. */
void
quota_unlock_plan(const QuotaPlan *plan)
{
	LWLockRelease(&quota_slots[plan->slot].lock);
	if (plan->across)
		LWLockRelease(&quota_slots[plan->database_slot].lock);
	across_tell();
}

/* The tenant's counters at this provider; QUOTA_NO_INDEX when full. */
static uint32
plan_tenant(QuotaPlan *plan)
{
	uint32		index = plan->tenant_index;

	if (quota_tenant_is(index, plan))
		return index;
	index = quota_find_tenant(&plan->tenant_key, plan->slot);
	if (index == QUOTA_NO_INDEX)
	{
		index = quota_create_tenant(&plan->tenant_key, plan->slot);
		if (index == QUOTA_NO_INDEX)
			return index;
		strlcpy(quota_tenants[index].name, plan->tenant, QUOTA_NAME_LEN);
		quota_tenants[index].weight_milli = plan->weight_milli;
		quota_tenants[index].stale_next = QUOTA_NO_INDEX;
	}
	plan->tenant_index = index;
	return index;
}

/* Calls that fit all terms; QUOTA_NEVER when nothing limits them. */
static int64
calls_that_fit(const QuotaPlan *plan, const TermState *states)
{
	int64		fit = QUOTA_NEVER;

	for (int i = 0; i < plan->nterms; i++)
		fit = Min(fit, states[i].fit);
	return fit;
}

/* ---- standing in line ---- */

/*
 * Every call meets the term, and is as good as any other.  Classes with headroom
 * are not: others may go on while they wait.
 */
static bool
is_wide(const QuotaPlan *plan, int i)
{
	return plan->terms[i].wide && plan->headroom_milli == 0;
}

/*
 * Is the term, for this call, a limit for which flows stand in line?  See
 * flow_gate.c.
 */
static bool
meets_shared(const QuotaPlan *plan, int i, const TermState *s)
{
	const QuotaTerm *term = &plan->terms[i];

	return s->cost > 0 && !term->own && !is_wide(plan, i) &&
		term->kind != QUOTA_ALLOWANCE && term->kind != QUOTA_RETRIES &&
		quota_term_binds(term);
}

/* Names the line of calls that meet the same shared buckets as this one. */
static void
name_line(const QuotaPlan *plan, const TermState *states, const QuotaAsk *ask,
		  QuotaVerdict *v)
{
	v->line_key.w[0] = v->line_key.w[1] =
		1 + quota_shares[quota_flows[ask->flow].share].class_index;
	for (int i = 0; i < plan->nterms; i++)
		if (meets_shared(plan, i, &states[i]))
		{
			quota_key_mix(&v->line_key, &plan->terms[i].key);
			v->meets_shared = true;
		}
}

/* The term fits, but others go first. */
static void
stand_behind(const QuotaTerm *term, TermState *s, bool own_line)
{
	s->reason = quota_is_rate(term->kind) ? QUOTA_RATE_LIMITED
		: term->kind == QUOTA_BREAKER ? QUOTA_BREAKER_OPEN
		: QUOTA_CONCURRENCY_LIMITED;
	s->level = 0;
	s->fit = 0;
	s->not_before_us = DT_NOEND;
	s->wake_ns = QUOTA_NEVER;
	s->behind = true;
	s->own_line = own_line;
}

/* A job must not take of a shared limit what a flow that waits is to have. */
static void
stand_in_line(const QuotaPlan *plan, TermState *states, const QuotaAsk *ask,
			  QuotaVerdict *v)
{
	uint32		line;
	bool		own;

	name_line(plan, states, ask, v);
	if (!v->meets_shared)
		return;
	line = quota_find_line(&v->line_key, plan->slot);
	own = line != QUOTA_NO_INDEX && flow_line_is_before(line, ask->flow);
	for (int i = 0; i < plan->nterms; i++)
	{
		TermState  *s = &states[i];

		if (s->reason == QUOTA_OK && meets_shared(plan, i, s) &&
			(own || flow_gate_is_before(s->bucket, line, ask->flow)))
			stand_behind(&plan->terms[i], s, own);
	}
}

/* ---- refusing ---- */

/*
 * A limit that every call meets is short, and will have room.  Others must not
 * overtake a job that waits for nothing else, or a dear one would wait for ever.
 */
static bool
stops_all(const QuotaPlan *plan, int i, const TermState *s)
{
	return is_wide(plan, i) && (s->reason == QUOTA_RATE_LIMITED ||
								   s->reason == QUOTA_CONCURRENCY_LIMITED ||
								   s->reason == QUOTA_BREAKER_OPEN);
}

/* The call is a job that something else keeps, which does not stop others. */
static bool
is_kept_alone(const QuotaPlan *plan, const TermState *states, const QuotaAsk *ask)
{
	if (!ask->is_job)
		return false;
	for (int i = 0; i < plan->nterms; i++)
		if (states[i].reason != QUOTA_OK && !stops_all(plan, i, &states[i]))
			return true;
	return false;
}

/* The term names the refusal: it opens later than those before. */
static void
limit_by(const QuotaPlan *plan, int i, const TermState *s, QuotaVerdict *v)
{
	if (v->limiting >= 0 && s->not_before_us <= v->not_before_us)
		return;
	v->limiting = i;
	v->reason = s->reason;
	v->not_before_us = s->not_before_us;
	v->opens_ns = s->wake_ns;
	v->shared = meets_shared(plan, i, s);
	v->behind = s->behind;
	v->own_line = s->own_line;
}

/* The time in which the term's amount may be used up; 0 for calls in flight. */
static int64
term_window(const QuotaTerm *term, const QuotaBucket *b)
{
	return term->kind == QUOTA_ALLOWANCE
		? (b->period_end_us - b->period_start_us) * QUOTA_NS_PER_US
		: term->period_ns;
}

/*
 * Lists the terms that said no; the one that opens last names the refusal, of those
 * that keep the job alone if there are any.
 */
static void
refuse(const QuotaPlan *plan, const TermState *states, const QuotaAsk *ask,
	   QuotaVerdict *v)
{
	int64		n = ask->partial ? 1 : ask->n;
	bool		alone = is_kept_alone(plan, states, ask);

	v->stops_all = ask->is_job && !alone;
	for (int i = 0; i < plan->nterms; i++)
	{
		const TermState *s = &states[i];
		QuotaExhausted *e = &v->exhausted[v->nexhausted];

		if (s->reason == QUOTA_OK)
			continue;
		v->nexhausted++;
		e->term = i;
		e->reason = s->reason;
		e->needed = s->cost * n;
		e->remaining = Max(s->level, 0);
		e->window_ns = term_window(&plan->terms[i], &quota_buckets[s->bucket]);
		e->not_before_us = s->not_before_us;
		e->wake_ns = s->wake_ns;
		e->may_end_sooner = s->may_end_sooner;
		v->across |= plan->terms[i].slot != plan->slot;
		if (alone && stops_all(plan, i, s))
			continue;
		limit_by(plan, i, s, v);
		v->wake_ns = Max(v->wake_ns, e->wake_ns);
	}
}

/* ---- the outcome ---- */

/* A direct call was admitted: it counts in the tenant's share of jobs. */
static void
count_direct(QuotaPlan *plan, const QuotaAsk *ask)
{
	int64		cost = quota_units_of(ask->units, plan->share_unit);

	flow_direct(plan, cost >= 0 ? Max(cost, 1) : plan->share_cost);
}

/* A verdict that says nothing yet. */
static void
verdict_init(QuotaVerdict *v)
{
	v->reason = QUOTA_OK;
	v->granted = 0;
	v->limiting = -1;
	v->not_before_us = DT_NOBEGIN;
	v->wake_ns = 0;
	v->opens_ns = QUOTA_NEVER;
	v->stops_all = false;
	v->of_flow = false;
	v->npaused = 0;
	v->across = false;
	v->meets_shared = false;
	v->shared = false;
	v->behind = false;
	v->own_line = false;
	v->remaining = 0;
	v->permit = 0;
	v->permit_index = QUOTA_NO_INDEX;
	v->batch = 0;
	v->batch_index = QUOTA_NO_INDEX;
	v->has_hold = false;
	v->nexhausted = 0;
}

/* Nothing the plan was made from has changed, its slots included. */
static bool
plan_is_usable(const QuotaPlan *plan)
{
	const QuotaSlot *slot = &quota_slots[plan->slot];
	const QuotaSlot *database = &quota_slots[plan->database_slot];

	return slot->entry.used && slot->database == MyDatabaseId &&
		slot->extension == plan->extension &&
		strcmp(slot->provider, plan->provider) == 0 &&
		database->entry.used && database->database == MyDatabaseId &&
		database->extension == plan->extension &&
		quota_plan_is_current(plan);
}

/* It is not only looked at. */
static bool
is_asked(const QuotaAsk *ask)
{
	return !ask->dry || ask->is_job;
}

/* The verdict is one for the statistics. */
static bool
is_counted(const QuotaAsk *ask, const QuotaVerdict *v)
{
	if (v->granted > 0)
		return !ask->dry;
	return is_asked(ask) &&
		(!ask->provisional || (ask->is_job && v->of_flow) ||
		 v->reason == QUOTA_SUSPENDED);
}

/* Examines all terms into states and, unless dry, charges. */
static DecideResult
decide(QuotaPlan *plan, const QuotaAsk *ask, int64 now_ns,
	   TimestampTz wall_us, TermState *states, QuotaVerdict *v, int *what)
{
	int			least = ask->partial ? 1 : ask->n;
	int64		possible;
	int			fit;
	bool		paused;

	verdict_init(v);
	if (!plan_is_usable(plan))
		return DECIDE_STALE;
	if (unlikely(pg_atomic_read_u32(&quota_slots[plan->database_slot].pauses_read) == 0))
		return DECIDE_LOAD_PAUSES;
	*what = DECIDE_TABLE_TENANTS;
	if (plan_tenant(plan) == QUOTA_NO_INDEX)
		return DECIDE_FULL;
	permit_expire(plan->slot, now_ns);

	pause_look(plan, ask->connection, now_ns, wall_us);
	for (int i = 0; i < plan->nterms; i++)
	{
		DecideResult result = quota_examine_term(plan, i, ask, now_ns,
												 wall_us, &states[i],
												 what);

		if (result != DECIDE_DONE)
			return result;
	}
	paused = pause_holds(states);
	if (ask->is_job && !paused)
		stand_in_line(plan, states, ask, v);
	possible = paused ? 0 : calls_that_fit(plan, states);
	fit = (int) Min(possible, ask->n);
	if (plan->suspended)
	{
		v->reason = QUOTA_SUSPENDED;
		v->of_flow = true;
		v->not_before_us = DT_NOEND;
		v->wake_ns = QUOTA_NEVER;
	}
	else
	{
		v->granted = fit < least ? 0 : fit;
		if (plan->lenient)
			enforce_judge(plan, states, v->granted, least, v);
		if (v->granted == 0)
		{
			refuse(plan, states, ask, v);
			if (paused)
				pause_refuse(plan, ask, states, least, now_ns, wall_us, v);
		}
		else if (!ask->dry && !quota_charge(plan, states, ask, fit, now_ns, v))
		{
			*what = DECIDE_TABLE_PERMITS;
			return DECIDE_FULL;
		}
	}
	v->remaining = plan->suspended ? 0
		: possible == QUOTA_NEVER ? QUOTA_NEVER : possible - v->granted;
	if (v->granted == 0 && !plan->suspended && !paused && is_asked(ask))
		floor_refused(plan, states, least, now_ns);
	if (is_counted(ask, v))
	{
		outcome_count(plan, states, v, now_ns);
		if (v->limiting >= 0 && v->granted == 0 && !ask->is_job)
			spread_refusal(&plan->terms[v->limiting], &states[v->limiting],
						   least, now_ns, v);
		else if (v->reason == QUOTA_PAUSED && !ask->is_job)
			pause_spread(plan, states, least, now_ns, v);
	}
	if (v->granted > 0 && !ask->dry && !ask->is_job &&
		ask->batch == QUOTA_BATCH_NONE && ask->only_unit == NULL)
		count_direct(plan, ask);
	return DECIDE_DONE;
}

/* See decide.h. */
DecideResult
quota_decide_locked(QuotaPlan *plan, const QuotaAsk *ask, int64 now_ns,
					TimestampTz wall_us, QuotaVerdict *verdict, int *what)
{
	TermState	states[QUOTA_MAX_TERMS];

	return decide(plan, ask, now_ns, wall_us, states, verdict, what);
}

/* See decide.h. */
QuotaPlan *
quota_examine(const QuotaCall *call, const QuotaAsk *ask, TermState *states,
			  QuotaVerdict *verdict)
{
	QuotaAsk	asked = *ask;
	int			reclaims = 0;

	asked.connection = call->connection;
	asked.user = call->user;
	asked.resource = call->resource;
	for (int round = 0; round < MAX_ROUNDS; round++)
	{
		QuotaPlan  *plan = quota_plan(call, false);
		DecideResult result;
		int64		now_ns;
		TimestampTz wall_us;
		int			what = 0;

		journal_reserve(QUOTA_MAX_TERMS + 2);
		quota_lock_plan(plan);
		now_ns = quota_now(&wall_us);
		result = decide(plan, &asked, now_ns, wall_us, states, verdict, &what);
		quota_unlock_plan(plan);
		if (result == DECIDE_DONE)
		{
			mark_secure();
			return plan;
		}
		if (result != DECIDE_STALE)
			quota_decide_help(result, plan, what, &reclaims);
		else
			AcceptInvalidationMessages();
		CHECK_FOR_INTERRUPTS();
	}
	elog(ERROR, "decision did not settle in %d rounds", MAX_ROUNDS);
}

/* See decide.h. */
QuotaPlan *
quota_decide(const QuotaCall *call, const QuotaAsk *ask,
			 QuotaVerdict *verdict)
{
	TermState	states[QUOTA_MAX_TERMS];

	return quota_examine(call, ask, states, verdict);
}
