/*
 * enforce.c
 *		Limits that do not refuse, and how deep a bucket may be in debt: see
 *		enforce.h.
 */
#include "enforce.h"

#include "credit.h"

/*
 * A bucket that keeps crossing its limit and coming back is told of no more often
 * than this; allowances once in a period.
 */
#define TELL_AGAIN_NS (60 * QUOTA_NS_PER_S)

/* As good as if the limit had never been crossed. */
static bool
has_recovered(const QuotaBucket *b, const QuotaTerm *term)
{
	return b->kind == QUOTA_CONCURRENCY ? b->used < term->capacity
		: meter_spent(&b->meter) == 0;
}

/* See enforce.h. */
void
enforce_refresh(QuotaBucket *b, const QuotaTerm *term, int64 now_ns)
{
	b->enforcement = term->enforcement;
	/* a closed limit goes on owing what it did */
	if (term->capacity > 0)
		b->most_debt = term->most_debt;
	if (term->enforcement != QUOTA_SHADOW)
		b->shadow_used = 0;
	if (b->soft_told_ns != 0 && b->kind != QUOTA_ALLOWANCE &&
		now_ns - b->soft_told_ns >= TELL_AGAIN_NS && has_recovered(b, term))
		b->soft_told_ns = 0;
}

/* See enforce.h. */
void
enforce_relax(const QuotaTerm *term, TermState *s)
{
	s->would = s->reason;
	s->would_fit = s->fit;
	if (quota_term_binds(term))
		return;
	s->reason = QUOTA_OK;
	s->fit = QUOTA_NEVER;
}

/* The soft term names the admission: of several the one that opens last. */
static void
name_soft(int i, const TermState *s, QuotaVerdict *v)
{
	if (v->limiting >= 0 && s->not_before_us <= v->not_before_us)
		return;
	v->reason = QUOTA_SOFT_LIMIT;
	v->limiting = i;
	v->not_before_us = s->not_before_us;
}

/* See enforce.h. */
void
enforce_judge(const QuotaPlan *plan, TermState *states, int granted, int asked,
			  QuotaVerdict *v)
{
	int			n = granted > 0 ? granted : asked;

	for (int i = 0; i < plan->nterms; i++)
	{
		TermState  *s = &states[i];

		if (quota_term_binds(&plan->terms[i]) || s->cost == 0)
			continue;
		s->over = s->would_fit < n;
		if (s->over && granted > 0 && plan->terms[i].enforcement == QUOTA_SOFT)
			name_soft(i, s, v);
	}
}

/* See enforce.h. */
int64
enforce_room(const QuotaBucket *b)
{
	return Max(meter_level(&b->meter) + b->most_debt, 0);
}

/* Units that a soft limit can be charged at most. */
static int64
soft_room(const QuotaBucket *b)
{
	if (quota_is_rate(b->kind))
		return enforce_room(b);
	return b->kind == QUOTA_ALLOWANCE ? Max(CREDIT_MAX_USED - b->used, 0)
		: PG_INT64_MAX;
}

/* See enforce.h. */
int64
enforce_charge(const QuotaTerm *term, const TermState *s, int n)
{
	int64		units = s->cost * n;
	int64		room;

	if (!s->over)
		return units;
	if (quota_term_is_shadow(term))
		return -1;
	room = soft_room(&quota_buckets[s->bucket]);
	return Min(units, room);
}
