/*
 * examine.c
 *		Where one limit stands for one call: its bucket, brought to now and to the
 *		plan's parameters, what is free in it, and why and until when it would
 *		refuse.  Everything here runs under the plan's slot locks and neither
 *		allocates nor throws.
 */
#include "examine.h"

#include "credit.h"
#include "enforce.h"
#include "floor.h"
#include "flow.h"
#include "learn.h"
#include "mark.h"
#include "pause.h"
#include "permit.h"
#include "rules.h"

/* See examine.h. */
bool
quota_tenant_is(uint32 index, const QuotaPlan *plan)
{
	return index < (uint32) quota_max_tenants &&
		quota_tenants[index].entry.used &&
		quota_tenants[index].entry.owner == plan->slot &&
		quota_key_equal(&quota_tenants[index].entry.key, &plan->tenant_key);
}

/*
 * The tenant pays for the bucket's place.  Buckets made for nobody, by a grant,
 * are adopted by the first tenant that decides by them.
 */
static void
charge_place(QuotaBucket *b, const QuotaPlan *plan)
{
	if (b->tenant != QUOTA_NO_INDEX ||
		!quota_tenant_is(plan->tenant_index, plan))
		return;
	b->tenant = plan->tenant_index;
	pg_atomic_fetch_add_u32(&quota_tenants[b->tenant].pins, 1);
	pg_atomic_fetch_add_u32(&quota_tenants[b->tenant].nbuckets, 1);
}

/* First contents of a bucket (G14: older than the crash means drained). */
static void
fill_bucket(QuotaBucket *b, const QuotaPlan *plan, const QuotaTerm *term,
			int64 now_ns, TimestampTz wall_us)
{
	int64		since = (int64) pg_atomic_read_u64(&quota_shared->active_since_ns);

	b->kind = term->kind;
	b->grants = QUOTA_NO_INDEX;
	b->load = term->kind == QUOTA_ALLOWANCE ? QUOTA_LOAD_EMPTY : QUOTA_LOAD_READY;
	b->tenant = QUOTA_NO_INDEX;
	charge_place(b, plan);
	permit_bucket_init(b);
	strlcpy(b->limit_name, term->name, sizeof(b->limit_name));
	strlcpy(b->label, term->label, sizeof(b->label));
	if (term->slow && mark_is_loaded(term))
		mark_fill(b, term, now_ns, wall_us);
	else if (quota_is_rate(term->kind) && term->starts_full)
		meter_init_full(&b->meter, &term->meter, now_ns, wall_us);
	else if (quota_is_rate(term->kind))
		meter_init_drained(&b->meter, &term->meter,
						   Max(since, term->deleted_ns), now_ns, wall_us);
	else if (term->kind == QUOTA_BREAKER)
		breaker_init(&b->breaker, &term->breaker, now_ns);
	else if (term->kind == QUOTA_CONCURRENCY && !term->starts_full)
		b->unknown_until_ns = since + plan->max_lifetime_ns;
}

/* A new bucket; QUOTA_NO_INDEX when the table is full. */
static uint32
make_bucket(const QuotaPlan *plan, const QuotaTerm *term, int64 now_ns,
			TimestampTz wall_us)
{
	uint32		index = quota_create_bucket(&term->key, term->slot);

	if (index != QUOTA_NO_INDEX)
		fill_bucket(&quota_buckets[index], plan, term, now_ns, wall_us);
	return index;
}

/* See decide.h. */
uint32
quota_term_bucket(const QuotaPlan *plan, const QuotaTerm *term, int64 now_ns,
				  TimestampTz wall_us)
{
	uint32		index = term->bucket;

	if (quota_bucket_is(index, term->slot, &term->key))
		return index;
	index = quota_find_bucket(&term->key, term->slot);
	return index != QUOTA_NO_INDEX ? index
		: make_bucket(plan, term, now_ns, wall_us);
}

/* The tenant has as many bucket places as it may; racy reads will do. */
static bool
at_ceiling(const QuotaPlan *plan)
{
	uint32		charged =
		pg_atomic_read_u32(&quota_tenants[plan->tenant_index].nbuckets);
	uint32		in_use = quota_shared->bucket_table.n_used;

	return charged >= (uint32) QUOTA_TENANT_CEILING ||
		(charged > QUOTA_MAX_TERMS && charged >= (uint32) quota_max_buckets - in_use &&
		 in_use < (uint32) quota_max_buckets);
}

/* Finds or makes the term's bucket; DECIDE_FULL says which table. */
static DecideResult
resolve_bucket(QuotaPlan *plan, QuotaTerm *term, int64 now_ns,
			   TimestampTz wall_us, int *what)
{
	if (quota_bucket_is(term->bucket, term->slot, &term->key))
		return DECIDE_DONE;
	term->bucket = quota_find_bucket(&term->key, term->slot);
	if (term->bucket != QUOTA_NO_INDEX)
		return DECIDE_DONE;
	*what = DECIDE_TABLE_TENANT_BUCKETS;
	if (at_ceiling(plan))
		return DECIDE_FULL;
	*what = DECIDE_TABLE_BUCKETS;
	/* before the mark is read: one is kept at a time, and a shadow goes on without */
	if (quota_shared->bucket_table.n_used >= (uint32) quota_max_buckets)
		return DECIDE_FULL;
	if (term->slow && !mark_is_loaded(term))
		return DECIDE_LOAD_MARK;
	term->bucket = make_bucket(plan, term, now_ns, wall_us);
	return term->bucket == QUOTA_NO_INDEX ? DECIDE_FULL : DECIDE_DONE;
}

/*
 * Brings the bucket to now and to the plan's parameters, and the term to what is used of
 * an adaptive limit; a call costs so much.
 */
static DecideResult
refresh_bucket(const QuotaPlan *plan, QuotaTerm *term, int64 cost, int64 now_ns,
			   TimestampTz wall_us)
{
	QuotaBucket *b = &quota_buckets[term->bucket];

	charge_place(b, plan);
	if (term->adaptive || b->adaptive.on)
		learn_adapt(b, term, cost, now_ns);
	b->capacity = term->capacity;
	b->scope = term->own ? QUOTA_SCOPE_OWN
		: term->wide ? QUOTA_SCOPE_WIDE : QUOTA_SCOPE_SHARED;
	mark_apply(plan->database_slot, term->bucket, term);
	if (quota_is_rate(b->kind))
		rules_apply(b, term, &plan->stamp, now_ns, wall_us);
	else if (b->kind == QUOTA_BREAKER)
		learn_refresh(term->bucket, term, now_ns);
	else
		permit_bucket_expire(term->bucket, now_ns);
	/* from now on by another part of it; up to now it was by the one before */
	if (term->adaptive && learn_watch(term->bucket, term, cost, now_ns))
	{
		b->capacity = term->capacity;
		if (quota_is_rate(b->kind))
			rules_apply(b, term, &plan->stamp, now_ns, wall_us);
	}
	/* after a crash the running jobs' permits come with the queue */
	if (b->unknown_until_ns > 0 && !flow_queue_is_usable(plan->database_slot))
		return DECIDE_LOAD_QUEUE;
	if (b->kind == QUOTA_ALLOWANCE && b->load == QUOTA_LOAD_READY)
		credit_roll(b, term, wall_us);
	enforce_refresh(b, term, now_ns);
	return b->load == QUOTA_LOAD_READY ? DECIDE_DONE : DECIDE_LOAD;
}

/* Units that one call costs, by what the caller says or the cost map. */
static int64
term_cost(const QuotaTerm *term, const QuotaAsk *ask)
{
	int64		given;

	if (ask->only_unit && (term->kind != QUOTA_ALLOWANCE ||
						   strcmp(term->unit, ask->only_unit) != 0))
		return 0;
	if (term->kind == QUOTA_RETRIES)
		return ask->retry ? 1 : 0;
	/* a call in flight is one call, whatever it measures */
	if (term->kind == QUOTA_CONCURRENCY || term->kind == QUOTA_BREAKER)
		return ask->batch == QUOTA_BATCH_NEXT ? 0 : term->cost;
	if (ask->units == NULL)
		return term->cost;
	given = quota_units_of(ask->units, term->unit);
	return given >= 0 ? given : term->cost;
}

/*
 * A unit of which the call costs nothing known: settling may charge it.  Of credits
 * only when the call measures, as they need rows, which it must not pay for otherwise.
 */
static bool
is_measured_later(const QuotaPlan *plan, const QuotaTerm *term, const QuotaAsk *ask)
{
	if (ask->only_unit != NULL || term->kind == QUOTA_CONCURRENCY ||
		term->kind == QUOTA_RETRIES || term->kind == QUOTA_BREAKER)
		return false;
	return ask->units != NULL || (plan->gives_permit && quota_is_rate(term->kind));
}

/* Units free; negative = debt. */
static int64
term_level(const QuotaBucket *b, const QuotaTerm *term, int64 now_ns)
{
	if (quota_is_rate(b->kind))
		return meter_level(&b->meter);
	if (b->kind == QUOTA_BREAKER)
		return Min(breaker_fit(&b->breaker), term->capacity);
	if (now_ns < b->unknown_until_ns)
		return Min(0, term->capacity - b->used);
	return term->capacity - b->used - b->shadow_used + b->lapsed - b->gone;
}

/* Calls that fit the term alone and leave so much; it has been settled. */
static int64
calls_that_fit(const QuotaBucket *b, const TermState *s, int64 leave)
{
	if (quota_is_rate(b->kind))
		return meter_fit(&b->meter, s->cost, leave);
	if (b->kind == QUOTA_BREAKER)
		return breaker_fit(&b->breaker);
	return Max(s->level - leave, 0) / s->cost;
}

/* The same of what it may take now of n calls, of a term that costs something. */
static int64
calls_admitted(const QuotaPlan *plan, const QuotaTerm *term, const TermState *s,
			   int n, int64 now_ns)
{
	const QuotaBucket *b = &quota_buckets[s->bucket];
	int64		fit;
	int64		over;

	if (s->until_ns > now_ns)
		return 0;
	fit = calls_that_fit(b, s, s->leave);
	if (fit <= s->within)
		return fit;
	over = calls_that_fit(b, s, floor_leave_over(plan, term, s, n, now_ns));
	return Max(s->within, over);
}

/* Quota clock to wall clock. */
static TimestampTz
wall_of(int64 at_ns, int64 now_ns, TimestampTz wall_us)
{
	if (at_ns == QUOTA_NEVER)
		return DT_NOEND;
	/* rounded up: asking then succeeds */
	return wall_us + quota_us_up(at_ns - now_ns);
}

/* Until when n calls exceed a rate. */
static void
wait_for_rate(const QuotaPlan *plan, const QuotaTerm *term, const QuotaAsk *ask,
			  TermState *s, int n, int64 now_ns, TimestampTz wall_us)
{
	int64		wait_ns = floor_wait(plan, term, ask, s, n, now_ns, wall_us);

	s->reason = term->kind == QUOTA_RETRIES ? QUOTA_RETRY_BUDGET : QUOTA_RATE_LIMITED;
	if (wait_ns < QUOTA_NEVER - now_ns)
		s->wake_ns = now_ns + wait_ns;
}

/* The same for a breaker: until probes may go. */
static void
wait_for_breaker(const Breaker *breaker, TermState *s, int n, int64 now_ns,
				 TimestampTz wall_us)
{
	int64		opens_ns = breaker_opens_ns(breaker, n);

	s->reason = QUOTA_BREAKER_OPEN;
	s->wake_ns = opens_ns == BREAKER_NEVER ? QUOTA_NEVER : opens_ns;
	s->not_before_us = wall_of(s->wake_ns, now_ns, wall_us);
	/* the next outcome may close it */
	s->may_end_sooner = breaker->state == BREAKER_HALF_OPEN;
}

/* The same for an allowance: until its period ends, or what is held. */
static void
wait_for_allowance(const QuotaBucket *b, TermState *s, int n, int64 now_ns,
				   TimestampTz wall_us)
{
	s->reason = QUOTA_QUOTA_EXHAUSTED;
	s->not_before_us = b->period_end_us;
	s->wake_ns = now_ns + (b->period_end_us - wall_us) * QUOTA_NS_PER_US;
	if (b->used + b->shadow_used - b->lapsed + b->gone - b->held + s->cost * n <= b->capacity)
	{
		s->wake_ns = permit_bucket_first_end(b);
		s->not_before_us = wall_of(s->wake_ns, now_ns, wall_us);
		s->may_end_sooner = true;
	}
}

/*
 * The same for calls in flight: until enough of them have ended, at the latest.  A job
 * looks again when the first has.
 */
static void
wait_for_flight(const QuotaTerm *term, const QuotaAsk *ask, TermState *s, int n,
				int64 now_ns)
{
	const QuotaBucket *b = &quota_buckets[s->bucket];
	int64		missing = s->cost * n + s->leave - (b->capacity - b->used);

	s->may_end_sooner = true;
	s->wake_ns = s->until_ns;
	if (!ask->is_job && ask->batch != QUOTA_BATCH_NEXT)
		s->wake_ns = Max(s->wake_ns, floor_flight_until(term, s, now_ns));
	if (s->level - s->leave >= s->cost * n)
		return;
	if (now_ns < b->unknown_until_ns)
		s->wake_ns = Max(s->wake_ns, b->unknown_until_ns);
	if (ask->is_job && missing > 0)
		s->wake_ns = Max(s->wake_ns, permit_bucket_first_end(b));
	else if (missing > 0)
		s->wake_ns = Max(s->wake_ns, permit_bucket_end_of(b, missing));
}

/* So many calls never fit at once, whatever is used of an adaptive limit. */
static bool
is_never(const QuotaTerm *term, int64 cost, int n)
{
	MeterRules	whole = term->meter;

	if (!quota_is_rate(term->kind))
		return cost * n > (term->adaptive ? term->whole_capacity : term->capacity);
	if (term->adaptive)
		whole.capacity = term->whole_capacity;
	return !meter_holds(&whole, cost, n);
}

/* Why and until when n calls don't fit. */
static void
explain_refusal(const QuotaPlan *plan, const QuotaTerm *term,
				const QuotaAsk *ask, TermState *s, int n, int64 now_ns,
				TimestampTz wall_us)
{
	const QuotaBucket *b = &quota_buckets[s->bucket];
	bool		never = is_never(term, s->cost, n);

	s->wake_ns = QUOTA_NEVER;
	s->not_before_us = DT_NOEND;
	if (term->kind == QUOTA_BREAKER)
	{
		wait_for_breaker(&b->breaker, s, n, now_ns, wall_us);
		return;
	}
	if (quota_is_rate(term->kind))
		wait_for_rate(plan, term, ask, s, n, now_ns, wall_us);
	else if (term->kind == QUOTA_CONCURRENCY)
	{
		s->reason = QUOTA_CONCURRENCY_LIMITED;
		if (!never)
			wait_for_flight(term, ask, s, n, now_ns);
	}
	else if (never)
		s->reason = QUOTA_QUOTA_EXHAUSTED;
	else
		wait_for_allowance(b, s, n, now_ns, wall_us);
	if (term->kind != QUOTA_ALLOWANCE)
		s->not_before_us = wall_of(s->wake_ns, now_ns, wall_us);
	if (never && term->capacity > 0)
		s->reason = QUOTA_EXCEEDS_CAPACITY;
	else if (term->kind != QUOTA_ALLOWANCE && calls_that_fit(b, s, 0) >= n)
		s->reason = s->floor_reason;
	/* others may not come, or first attempts may */
	s->may_end_sooner |= s->reason == QUOTA_SHARE_EXCEEDED ||
		s->reason == QUOTA_RETRY_BUDGET;
}

/*
 * Nothing is known of the term yet.  Field by field: to clear so long a struct takes a
 * third of the time in which a limit is examined.
 */
static void
state_init(TermState *s)
{
	s->bucket = 0;
	s->portion = QUOTA_NO_INDEX;
	s->charged = s->is_first = false;
	s->cost = s->level = s->leave = s->until_ns = 0;
	s->fit = s->within = QUOTA_NEVER;
	s->would_fit = 0;
	s->reason = s->floor_reason = s->would = QUOTA_OK;
	s->over = s->may_end_sooner = s->behind = s->own_line = false;
	memset(&s->stand, 0, sizeof(s->stand));
	s->not_before_us = 0;
	s->wake_ns = 0;
}

/* See examine.h. */
DecideResult
quota_examine_term(QuotaPlan *plan, int i, const QuotaAsk *ask, int64 now_ns,
				   TimestampTz wall_us, TermState *s, int *what)
{
	QuotaTerm  *term = &plan->terms[i];
	DecideResult result;
	int			n = ask->partial ? 1 : ask->n;

	state_init(s);
	s->cost = term_cost(term, ask);
	s->is_first = term->kind == QUOTA_RETRIES && !ask->retry && ask->only_unit == NULL;
	s->charged = s->cost > 0 || s->is_first || is_measured_later(plan, term, ask);
	if (!s->charged)
		return DECIDE_DONE;
	result = resolve_bucket(plan, term, now_ns, wall_us, what);
	/* where there is no place for what it counts, it counts nothing */
	if (result == DECIDE_FULL && (quota_term_is_shadow(term) || s->is_first))
	{
		s->cost = 0;
		s->charged = s->is_first = false;
		return DECIDE_DONE;
	}
	if (result == DECIDE_DONE)
		result = refresh_bucket(plan, term, s->cost, now_ns, wall_us);
	if (result == DECIDE_LOAD || result == DECIDE_LOAD_MARK)
		*what = i;
	if (result != DECIDE_DONE)
		return result;
	s->bucket = term->bucket;
	if (unlikely(pause_seen.any))
		pause_empty(i, &quota_buckets[s->bucket]);
	s->level = term_level(&quota_buckets[s->bucket], term, now_ns);
	*what = DECIDE_TABLE_PORTIONS;
	if (!floor_resolve(plan, term, ask, s))
		return DECIDE_FULL;
	floor_look(plan, term, ask, s, n, now_ns);
	if (s->cost > 0)
		s->fit = calls_admitted(plan, term, s, n, now_ns);
	if ((s->fit < ask->n || ask->dry) &&
		credit_lapse_due(&quota_buckets[s->bucket], now_ns))
	{
		*what = i;
		return DECIDE_READ_LAPSED;
	}
	if (s->fit < n)
		explain_refusal(plan, term, ask, s, n, now_ns, wall_us);
	enforce_relax(term, s);
	return DECIDE_DONE;
}

