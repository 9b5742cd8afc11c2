/*
 * learn.c
 *		What follows from how calls end: see learn.h.
 *
 * A breaker is a term of the plans of the calls that it matches, and its state is in
 * the term's bucket, under the lock of the provider's slot (breaker.c is the state
 * machine).  So a call meets it as it meets a limit: its refusal is listed and
 * explained, flows stand in line for it and one of them tries when probes may go, and
 * a claim or call that is rolled back returns its probe.
 *
 * An adaptive limit is one of which the decision sees a part: the factor is in the
 * bucket (adaptive.c), and brings the term's amounts to that part before the call is
 * judged.  The part is never above the whole, so what the whole guarantees holds (G1);
 * a change is like one of the amount: it keeps what was spent, and is never
 * retroactive.
 *
 * An outcome finds both by the plan of the call that it is of.  The section that
 * changes the state also tells who waits.  Every change is an event.
 */
#include "learn.h"

#include "decide.h"
#include "event.h"
#include "journal.h"
#include "miscadmin.h"
#include "permit.h"
#include "rules.h"

/* How a call ended. */
typedef struct Lesson
{
	FeedbackClass class;
	FeedbackScope scope;		/* of an answer that says to wait: whom it means, */
	bool		scope_said;		/* as a row says; else the narrowest that may be */
	const char *limit_name;		/* FEEDBACK_LIMIT: which limit; else NULL */
	int64		latency_ns;		/* the call took so long; -1 = not known */
	int64		paused_ns;		/* calls are paused for so long */
} Lesson;

/* ---- breakers ---- */

/* What it says of the dependency's health. */
static BreakerOutcome
breaker_outcome(const Lesson *lesson)
{
	switch (lesson->class)
	{
		case FEEDBACK_SUCCESS:
		case FEEDBACK_REJECTED:
			return BREAKER_SUCCESS;
		case FEEDBACK_OVERLOADED:
		case FEEDBACK_FAILURE:
			return BREAKER_FAILURE;
		case FEEDBACK_UNKNOWN:
		case FEEDBACK_RATE_LIMITED:
		case FEEDBACK_EXHAUSTED:
			break;
	}
	return BREAKER_NO_VERDICT;
}

/* The event of a transition. */
static void
tell_breaker(const QuotaBucket *b)
{
	static const char *const kinds[] = {
		[BREAKER_CLOSED] = "breaker_closed",
		[BREAKER_OPEN] = "breaker_opened",
		[BREAKER_HALF_OPEN] = "breaker_half_open"
	};
	const QuotaSlot *slot = slot_of(b);
	char		detail[QUOTA_NAME_LEN + 128];

	if (b->breaker.state == BREAKER_HALF_OPEN)
		snprintf(detail, sizeof(detail), "%s: %d probes may go", b->limit_name,
				 b->breaker.rules.probes);
	else
		snprintf(detail, sizeof(detail),
				 "%s: " INT64_FORMAT " of " INT64_FORMAT " %s failed", b->limit_name,
				 b->breaker.led_failures, b->breaker.led_calls,
				 b->breaker.opened == 1 ? "calls" : "probes");
	quota_event(slot->database, kinds[b->breaker.state], slot->provider, "", detail);
}

/* Brings it to now. */
static void
settle_breaker(QuotaBucket *b, int64 now_ns)
{
	if (breaker_settle(&b->breaker, now_ns))
		tell_breaker(b);
}

/* A call that met the breaker has ended. */
static void
teach_breaker(uint32 bucket, const Lesson *lesson, int64 now_ns)
{
	QuotaBucket *b = &quota_buckets[bucket];
	BreakerOutcome outcome = breaker_outcome(lesson);
	int64		began_ns = lesson->latency_ns < 0 ? PG_INT64_MIN
		: now_ns - lesson->latency_ns;
	bool		probing;

	settle_breaker(b, now_ns);
	probing = b->breaker.state == BREAKER_HALF_OPEN;
	if (breaker_report(&b->breaker, outcome, began_ns, now_ns))
		tell_breaker(b);
	/* a probe has ended, or all may go */
	if (probing)
		permit_bucket_opened(bucket, 0);
}

/* See learn.h. */
void
learn_refresh(uint32 bucket, const QuotaTerm *term, int64 now_ns)
{
	QuotaBucket *b = &quota_buckets[bucket];

	breaker_configure(&b->breaker, &term->breaker, now_ns);
	settle_breaker(b, now_ns);
}

/* See learn.h. */
void
learn_took(uint32 bucket, uint32 permit, int n, int64 now_ns)
{
	QuotaBucket *b = &quota_buckets[bucket];
	int64		until_ns = breaker_take(&b->breaker, n, now_ns);

	b->admitted += n;
	if (until_ns > 0)
		journal_probe(bucket, permit, n, until_ns);
}

/* ---- adaptive limits ---- */

/* What has been learned is kept for so long without a change. */
#define KEEP_NS		(3600 * QUOTA_NS_PER_S)

/* So much of a rate; rounded down where it does not fit. */
static BucketRate
part_of_rate(BucketRate rate, int32 factor)
{
	int128		num = (int128) rate.num * factor;
	int128		den = (int128) rate.den * ADAPTIVE_WHOLE;
	int128		a = num;
	int128		b = den;

	while (b != 0)
	{
		int128		rest = a % b;

		a = b;
		b = rest;
	}
	num /= a;
	den /= a;
	while (num > PG_INT64_MAX || den > PG_INT64_MAX)
	{
		num /= 2;
		den = (den + 1) / 2;
	}
	rate.num = (int64) num;
	rate.den = (int64) den;
	return rate;
}

/*
 * The term's amounts as the factor says.  One call that fits the whole limit must fit
 * what is used of it.
 */
static void
scale(QuotaTerm *term, int32 factor, int64 cost)
{
	int64		part = adaptive_part(term->whole_capacity, factor);

	term->capacity = Max(part, Min(cost, term->whole_capacity));
	term->amount = adaptive_part(term->whole_amount, factor);
	term->portions.reserve = Min(adaptive_part(term->whole_reserve, factor),
								 term->whole_reserve);
	if (!quota_is_rate(term->kind))
		return;
	term->meter.capacity = term->capacity;
	term->meter.rate = part_of_rate(term->whole_rate, factor);
}

/* The event of a change. */
static void
tell_adaptive(const QuotaBucket *b, int32 before, AdaptiveWhy why)
{
	static const char *const reasons[] = {
		[ADAPTIVE_SAME] = "",
		[ADAPTIVE_STABLE] = "nothing said against it",
		[ADAPTIVE_PROBE] = "to see whether more is possible again",
		[ADAPTIVE_LIMITED] = "the provider limits",
		[ADAPTIVE_BACK] = "the provider limits, back to what had worked",
		[ADAPTIVE_SLOW] = "calls take too long"
	};
	const QuotaSlot *slot = slot_of(b);
	bool		own = b->scope == QUOTA_SCOPE_OWN && b->tenant != QUOTA_NO_INDEX;
	char		detail[QUOTA_NAME_LEN + QUOTA_LABEL_LEN + 128];
	const int	percent = ADAPTIVE_WHOLE / 100;

	snprintf(detail, sizeof(detail), "limit %s%s%s: %d.%02d %% instead of %d.%02d %%, %s",
			 b->limit_name, b->label[0] ? " of " : "", b->label,
			 b->adaptive.factor / percent, b->adaptive.factor % percent,
			 before / percent, before % percent, reasons[why]);
	quota_event(slot->database, "adapted", slot->provider,
				own ? tenant_of(b)->name : "", detail);
}

/* See learn.h. */
void
learn_scale(const QuotaBucket *b, QuotaTerm *term, int64 cost)
{
	if (term->adaptive && b->adaptive.on)
		scale(term, b->adaptive.factor, cost);
}

/* See learn.h. */
void
learn_adapt(QuotaBucket *b, QuotaTerm *term, int64 cost, int64 now_ns)
{
	if (!term->adaptive)
		memset(&b->adaptive, 0, sizeof(b->adaptive));
	else if (!b->adaptive.on)
		adaptive_init(&b->adaptive, &term->adaptation, term->key.w[0], now_ns);
	b->meant_by = term->meant_by;
	learn_scale(b, term, cost);
}

/* See learn.h. */
bool
learn_watch(uint32 bucket, QuotaTerm *term, int64 cost, int64 now_ns)
{
	QuotaBucket *b = &quota_buckets[bucket];
	int32		before = b->adaptive.factor;
	AdaptiveWhy why = adaptive_configure(&b->adaptive, &term->adaptation, now_ns);

	if (b->adaptive.factor == before)
		return false;
	learn_scale(b, term, cost);
	tell_adaptive(b, before, why);
	if (b->adaptive.factor > before)
		permit_bucket_opened(bucket, 0);
	return true;
}

/* See learn.h. */
bool
learn_needs(const QuotaBucket *b, int64 now_ns)
{
	return b->adaptive.on && !adaptive_is_new(&b->adaptive) &&
		now_ns - b->adaptive.changed_ns < KEEP_NS;
}

/* The provider limits calls that met the bucket. */
static void
limit_bucket(uint32 bucket, int64 began_ns, int64 paused_ns, int64 now_ns,
			 TimestampTz wall_us)
{
	QuotaBucket *b = &quota_buckets[bucket];
	int32		before = b->adaptive.factor;
	AdaptiveWhy why;
	MeterTake	take;

	/* up to now by what was used, from now on by what will be, and from nothing */
	rules_settle(b, now_ns, wall_us);
	why = adaptive_limited(&b->adaptive, began_ns, paused_ns, now_ns);
	if (why == ADAPTIVE_SAME)
		return;
	tell_adaptive(b, before, why);
	if (!quota_is_rate(b->kind) || b->mark.slow || meter_level(&b->meter) <= 0)
		return;
	memset(&take, 0, sizeof(take));
	meter_take(&b->meter, &take, meter_level(&b->meter));
}

/* ---- outcomes ---- */

/*
 * The answer means calls of this limit; one of which nobody says whom it means, may mean
 * those of wider ones as well.
 */
static bool
is_meant(const QuotaBucket *b, const Lesson *lesson)
{
	if (lesson->scope == FEEDBACK_LIMIT)
		return lesson->limit_name != NULL && strcmp(lesson->limit_name, b->limit_name) == 0;
	if (lesson->scope_said)
		return b->meant_by == lesson->scope;
	return lesson->scope != FEEDBACK_CALL && b->meant_by >= lesson->scope;
}

/* What an answer says to an adaptive limit: that the provider limits it. */
static bool
is_sign(const QuotaBucket *b, const Lesson *lesson)
{
	if (b->kind == QUOTA_CONCURRENCY && lesson->class == FEEDBACK_OVERLOADED)
		return true;
	return lesson->class == FEEDBACK_RATE_LIMITED && is_meant(b, lesson) &&
		(quota_is_rate(b->kind) || lesson->scope == FEEDBACK_LIMIT);
}

/*
 * A call that met these buckets has ended; their locks are held.  Of rates that an
 * answer may mean those with the narrowest scope are meant.
 */
static void
teach(const uint32 *buckets, int n, const Lesson *lesson, int64 now_ns,
	  TimestampTz wall_us)
{
	int64		began_ns = lesson->latency_ns < 0 ? PG_INT64_MIN
		: now_ns - lesson->latency_ns;
	int			narrowest = FEEDBACK_N_SCOPES;

	for (int i = 0; i < n; i++)
	{
		const QuotaBucket *b = &quota_buckets[buckets[i]];

		if (b->adaptive.on && quota_is_rate(b->kind) && is_sign(b, lesson))
			narrowest = Min(narrowest, b->meant_by);
	}
	for (int i = 0; i < n; i++)
	{
		QuotaBucket *b = &quota_buckets[buckets[i]];

		if (b->kind == QUOTA_BREAKER)
			teach_breaker(buckets[i], lesson, now_ns);
		else if (b->adaptive.on && is_sign(b, lesson))
		{
			if (!quota_is_rate(b->kind) || b->meant_by == narrowest)
				limit_bucket(buckets[i], began_ns, lesson->paused_ns, now_ns, wall_us);
		}
		else if (b->adaptive.on && b->kind == QUOTA_CONCURRENCY &&
				 lesson->class == FEEDBACK_SUCCESS && lesson->latency_ns >= 0)
			adaptive_latency(&b->adaptive, lesson->latency_ns);
	}
}

/*
 * The bucket of a term that learns; QUOTA_NO_INDEX when there is none, or no place for
 * it, as then for calls.  A breaker's is made if the plan is as all have it: it may have
 * been forgotten since the call met it.
 */
static uint32
bucket_of(const QuotaPlan *plan, const QuotaTerm *term, int64 now_ns,
		  TimestampTz wall_us)
{
	uint32		bucket;

	if (term->kind != QUOTA_BREAKER && !term->adaptive)
		return QUOTA_NO_INDEX;
	if (term->kind != QUOTA_BREAKER || plan->provisional || !quota_plan_is_current(plan))
		return quota_find_bucket(&term->key, term->slot);
	bucket = quota_term_bucket(plan, term, now_ns, wall_us);
	if (bucket != QUOTA_NO_INDEX)
		learn_refresh(bucket, term, now_ns);
	return bucket;
}

/* The plan's slot is the provider's still. */
static bool
has_its_slot(const QuotaPlan *plan)
{
	const QuotaSlot *slot = &quota_slots[plan->slot];

	return slot->entry.used && slot->database == MyDatabaseId &&
		slot->extension == plan->extension &&
		strcmp(slot->provider, plan->provider) == 0;
}

/* See learn.h. */
void
learn(QuotaPlan *plan, const FeedbackOutcome *outcome, int64 latency_us,
	  int64 paused_ns)
{
	Lesson		lesson;
	uint32		buckets[QUOTA_MAX_TERMS];
	int			n = 0;
	int64		now_ns;
	TimestampTz wall_us;

	lesson.class = outcome->class;
	lesson.scope = outcome->scope;
	lesson.scope_said = outcome->scope_said;
	lesson.paused_ns = paused_ns;
	lesson.limit_name = outcome->limit_name;
	lesson.latency_ns = latency_us < 0 ? -1 : latency_us * QUOTA_NS_PER_US;
	if (!plan->learns)
		return;
	quota_lock_plan(plan);
	now_ns = quota_now_ns();
	wall_us = quota_wall_us();
	for (int i = 0; i < plan->nterms && has_its_slot(plan); i++)
	{
		buckets[n] = bucket_of(plan, &plan->terms[i], now_ns, wall_us);
		n += buckets[n] != QUOTA_NO_INDEX;
	}
	teach(buckets, n, &lesson, now_ns, wall_us);
	quota_unlock_plan(plan);
}
