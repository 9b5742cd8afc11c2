/*
 * report_limits.c
 *		What an answer says is left, applied to buckets: see report.h.
 *
 * Only buckets that are there are lowered: one that is missing has nothing spent that
 * we know of, and to make it would need room that a report must not fail for.  Keys of
 * buckets do not depend on amounts, so a plan that is not current finds the right ones.
 * Nobody but a decision settles a bucket whose rules are stale (rules.c), so those are
 * renewed first; one that can't be is left alone.
 *
 * What is taken off is as spent as by a call: it refills, survives restarts, is
 * written to the marks of slow limits, and no rollback returns it.
 */
#include "report.h"

#include "decide.h"
#include "journal.h"
#include "mark.h"
#include "rules.h"
#include "shmem.h"

/* Buckets that are renewed for one answer: each a few times. */
#define MAX_RENEWALS (4 * QUOTA_MAX_TERMS)

/* A limit of the call that counts a rate, and its bucket. */
typedef struct Rate
{
	uint32		bucket;
	const QuotaTerm *term;
} Rate;

/* The bucket of a term if it is there; its slot is locked. */
static uint32
bucket_of(const QuotaTerm *term)
{
	if (quota_bucket_is(term->bucket, term->slot, &term->key))
		return term->bucket;
	return quota_find_bucket(&term->key, term->slot);
}

/* The limit counts a rate that an answer may tell of. */
static bool
is_told_of(const QuotaTerm *term)
{
	return quota_is_rate(term->kind) && term->kind != QUOTA_RETRIES &&
		!quota_term_is_shadow(term);
}

/* A bucket whose rules are stale, QUOTA_NO_INDEX = none; locks held. */
static uint32
find_stale(const QuotaPlan *plan)
{
	for (int i = 0; i < plan->nterms; i++)
	{
		uint32		bucket = bucket_of(&plan->terms[i]);

		if (bucket != QUOTA_NO_INDEX && is_told_of(&plan->terms[i]) &&
			!rules_are_current(&quota_buckets[bucket]))
			return bucket;
	}
	return QUOTA_NO_INDEX;
}

/* Locks the plan when its buckets have the rules of today, as far as can be had. */
static void
lock_renewed(const QuotaPlan *plan)
{
	for (int i = 0;; i++)
	{
		uint32		stale;

		quota_lock_plan(plan);
		stale = find_stale(plan);
		if (stale == QUOTA_NO_INDEX || i == MAX_RENEWALS)
			return;
		quota_unlock_plan(plan);
		(void) rules_renew(stale);
	}
}

/* The rates of the plan whose buckets are there, settled to now; locks held. */
static int
find_rates(const QuotaPlan *plan, Rate *rates, FeedbackLimit *limits)
{
	int64		now_ns = quota_now_ns();
	TimestampTz wall_us = quota_wall_us();
	int			n = 0;

	for (int i = 0; i < plan->nterms; i++)
	{
		const QuotaTerm *term = &plan->terms[i];
		uint32		bucket = bucket_of(term);
		QuotaBucket *b = &quota_buckets[bucket];

		if (bucket == QUOTA_NO_INDEX || !is_told_of(term) || !rules_are_current(b))
			continue;
		rules_settle(b, now_ns, wall_us);
		rates[n].bucket = bucket;
		rates[n].term = term;
		limits[n].name = term->name;
		limits[n].unit = term->unit;
		limits[n].external = term->external;
		limits[n].period_us = term->period_ns / QUOTA_NS_PER_US;
		limits[n].capacity = b->capacity;
		limits[n++].level = meter_level(&b->meter);
	}
	return n;
}

/* Where they stand; locks held. */
static ReportLevels
look(const QuotaPlan *plan, const FeedbackLimit *limits, int n)
{
	ReportLevels levels = {-1, false, 0};

	for (int i = 0; i < plan->nterms; i++)
	{
		uint32		bucket = bucket_of(&plan->terms[i]);

		if (plan->terms[i].kind == QUOTA_CONCURRENCY && bucket != QUOTA_NO_INDEX)
			levels.in_flight = Max(levels.in_flight, quota_buckets[bucket].used);
	}
	for (int i = 0; i < n; i++)
		if (limits[i].external && strcmp(limits[i].unit, "request") == 0 &&
			(!levels.has_level || limits[i].level < levels.level))
		{
			levels.has_level = true;
			levels.level = limits[i].level;
		}
	return levels;
}

/* Lowers what the readings are about; locks held. */
static void
lower(const FeedbackOutcome *outcome, const Rate *rates, FeedbackLimit *limits,
	  int n)
{
	for (int i = 0; i < outcome->nreadings; i++)
	{
		const FeedbackReading *reading = &outcome->readings[i];
		int			which = feedback_limit_of(reading, limits, n);
		int64		excess = which < 0 ? 0 : feedback_excess(reading, &limits[which]);
		MeterTake	take;

		if (excess == 0)
			continue;
		memset(&take, 0, sizeof(take));
		meter_take(&quota_buckets[rates[which].bucket].meter, &take, excess);
		mark_take(rates[which].bucket, excess);
		limits[which].level -= excess;
	}
}

/* See report.h. */
ReportLevels
report_limits(QuotaPlan *plan, const FeedbackOutcome *outcome)
{
	Rate		rates[QUOTA_MAX_TERMS];
	FeedbackLimit limits[QUOTA_MAX_TERMS];
	ReportLevels levels;
	int			n;

	mark_reserve(FEEDBACK_MAX_READINGS);
	lock_renewed(plan);
	n = find_rates(plan, rates, limits);
	levels = look(plan, limits, n);
	lower(outcome, rates, limits, n);
	quota_unlock_plan(plan);
	mark_secure();
	return levels;
}
