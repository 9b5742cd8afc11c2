/*-------------------------------------------------------------------------
 *
 * test_adaptive.c
 *	  Adaptive limits: examples of every change, invariants over random histories, and
 *	  a closed loop with a provider whose hidden limit drops to half and comes back.
 *
 * Copyright (c) 2026, the quota authors
 *
 *-------------------------------------------------------------------------
 */
#include "unit.h"
#include "random.h"
#include "adaptive.h"
#include "bucket.h"

#include <string.h>

#define MS		INT64_C(1000000)
#define SEC		INT64_C(1000000000)
#define UNKNOWN	INT64_MIN

#define AMOUNT	100				/* of the limit, in a window */

/* from half up by 5 %, x 0.7, not below a tenth; windows of a second */
static const AdaptiveRules rules = {SEC, SEC / 10, AMOUNT, 5000, 1000, 500, 7000};

static Adaptive
fresh(void)
{
	Adaptive	a;

	adaptive_init(&a, &rules, 7, 0);
	return a;
}

/* A window passes in which so much was used, and more wanted. */
static AdaptiveWhy
window_of(Adaptive *a, int64_t units)
{
	int64_t		begin_ns = a->rests_ns;

	adaptive_took(a, units, begin_ns);
	adaptive_want(a);
	return adaptive_settle(a, begin_ns + rules.window_ns);
}

/* The same, and all was used. */
static AdaptiveWhy
window(Adaptive *a)
{
	return window_of(a, AMOUNT);
}

/* A sign of a call that began after the last change, that pauses for so long. */
static AdaptiveWhy
limited_for(Adaptive *a, int64_t paused_ns)
{
	return adaptive_limited(a, a->rests_ns, paused_ns, a->rests_ns);
}

/* The same, that pauses nothing. */
static AdaptiveWhy
limited(Adaptive *a)
{
	return limited_for(a, 0);
}

/* ---------- examples ---------- */

UNIT_TEST(starts_low_and_rises_by_steps)
{
	Adaptive	a = fresh();

	CHECK_EQ(a.factor, 5000);
	CHECK(adaptive_is_new(&a));
	CHECK_EQ(adaptive_settle(&a, SEC - 1), ADAPTIVE_SAME);
	CHECK_EQ(window(&a), ADAPTIVE_STABLE);
	CHECK_EQ(a.factor, 5500);
	for (int i = 0; i < 20; i++)
		window(&a);
	CHECK_EQ(a.factor, ADAPTIVE_WHOLE);
}

UNIT_TEST(what_nobody_wants_does_not_rise)
{
	Adaptive	a = fresh();

	for (int i = 1; i < 20; i++)
	{
		adaptive_took(&a, AMOUNT, i * SEC);
		CHECK_EQ(adaptive_settle(&a, (i + 1) * SEC), ADAPTIVE_SAME);
	}
	CHECK_EQ(a.factor, 5000);
	/* a long silence is one window */
	adaptive_took(&a, AMOUNT, 20 * SEC);
	adaptive_want(&a);
	CHECK_EQ(adaptive_settle(&a, 1000 * SEC), ADAPTIVE_STABLE);
	CHECK_EQ(a.factor, 5500);
}

/* what is refused now and then, while most of it is left, says nothing of all of it */
UNIT_TEST(what_is_not_used_does_not_rise)
{
	Adaptive	a = fresh();

	CHECK_EQ(window_of(&a, 24), ADAPTIVE_SAME);
	CHECK_EQ(a.good, 0);
	CHECK_EQ(window_of(&a, 25), ADAPTIVE_STABLE);
	CHECK_EQ(a.good, 5000);
	CHECK_EQ(a.factor, 5500);
}

/* windows are counted as far as anything waits for them: 8 times the dearest sign */
UNIT_TEST(a_limit_that_lasts_for_ever_overflows_nothing)
{
	Adaptive	a = fresh();

	for (int i = 0; i < 8000100; i++)
		window(&a);
	CHECK_EQ(a.factor, ADAPTIVE_WHOLE);
	CHECK_EQ(a.waited, 8000000);
	for (int i = 0; i < 100; i++)
	{
		limited_for(&a, 1000000 * SEC);
		CHECK(a.failed <= 3);
	}
	CHECK_EQ(a.waited, 0);
}

/* while calls are paused nothing speaks against the factor, and nothing for it */
UNIT_TEST(a_window_begins_with_a_call)
{
	Adaptive	a = fresh();

	limited(&a);
	for (int i = 1; i < 20; i++)
	{
		adaptive_want(&a);
		CHECK_EQ(adaptive_settle(&a, i * SEC), ADAPTIVE_SAME);
	}
	CHECK_EQ(a.good, 0);
	adaptive_took(&a, AMOUNT, 20 * SEC);
	adaptive_want(&a);
	CHECK_EQ(adaptive_settle(&a, 21 * SEC - 1), ADAPTIVE_SAME);
	CHECK_EQ(adaptive_settle(&a, 21 * SEC), ADAPTIVE_STABLE);
	CHECK_EQ(a.good, 3500);
}

/*
 * The first rises after a part was taken come soon, the next ones later and later; a
 * rise that may be a sign not before ten times what the last one cost.
 */
UNIT_TEST(the_dearer_a_sign_the_longer_it_waits)
{
	Adaptive	a = fresh();
	int			waits[4] = {0};

	CHECK_EQ(limited_for(&a, 2 * SEC), ADAPTIVE_LIMITED);
	a.bad = ADAPTIVE_WHOLE;
	for (int i = 0; i < 4; i++)
		do
			waits[i]++;
		while (window(&a) != ADAPTIVE_STABLE);
	CHECK_EQ(waits[0], 1);
	CHECK_EQ(waits[1], 3);
	CHECK_EQ(waits[2], 9);
	CHECK_EQ(waits[3], 20);
	CHECK_EQ(limited_for(&a, 2 * SEC), ADAPTIVE_BACK);
	for (int i = 1; i < 20; i++)
		CHECK_EQ(window(&a), ADAPTIVE_SAME);
	CHECK_EQ(window(&a), ADAPTIVE_STABLE);
	/* one that pauses longer than anybody counts */
	limited_for(&a, INT64_MAX);
	CHECK_EQ(a.cost, 1000000);
	CHECK_EQ(a.patience, 1000000);
}

UNIT_TEST(rises_after_a_decrease_get_smaller)
{
	Adaptive	a = fresh();

	limited_for(&a, 2 * SEC);
	a.bad = ADAPTIVE_WHOLE;
	CHECK_EQ(a.factor, 3500);
	while (window(&a) != ADAPTIVE_STABLE)
		;
	CHECK_EQ(a.factor, 3850);
	while (window(&a) != ADAPTIVE_STABLE)
		;
	CHECK_EQ(a.factor, 4235);
	while (window(&a) != ADAPTIVE_STABLE)
		;
	CHECK_EQ(a.factor, 4446);
}

UNIT_TEST(a_probe_waits_for_what_a_sign_costs)
{
	Adaptive	a = fresh();
	int			windows = 1;

	a.good = a.factor = 4950;
	a.bad = 5100;
	CHECK_EQ(limited_for(&a, 3 * SEC), ADAPTIVE_LIMITED);
	a.good = a.factor = 4950;
	a.bad = 5000;
	while (window(&a) != ADAPTIVE_PROBE)
		windows++;
	CHECK_EQ(windows, 30);
}

UNIT_TEST(a_sign_at_what_is_new_takes_a_part)
{
	Adaptive	a = fresh();

	CHECK_EQ(limited(&a), ADAPTIVE_LIMITED);
	CHECK_EQ(a.factor, 3500);
	CHECK_EQ(a.bad, 5000);
	for (int i = 0; i < 20; i++)
		limited(&a);
	CHECK_EQ(a.factor, rules.floor);
	CHECK_EQ(limited(&a), ADAPTIVE_SAME);
}

UNIT_TEST(a_sign_after_a_rise_goes_back)
{
	Adaptive	a = fresh();

	window(&a);
	CHECK_EQ(limited(&a), ADAPTIVE_BACK);
	CHECK_EQ(a.factor, 5000);
	CHECK_EQ(a.good, 5000);
	CHECK_EQ(a.bad, 5500);
	/* and then rises by halves */
	CHECK_EQ(window(&a), ADAPTIVE_STABLE);
	CHECK_EQ(a.factor, 5250);
	CHECK_EQ(window(&a), ADAPTIVE_STABLE);
	CHECK_EQ(a.factor, 5375);
	CHECK_EQ(limited(&a), ADAPTIVE_BACK);
	CHECK_EQ(a.factor, 5250);
	CHECK_EQ(window(&a), ADAPTIVE_STABLE);
	CHECK_EQ(a.factor, 5312);
	CHECK_EQ(window(&a), ADAPTIVE_SAME);
}

UNIT_TEST(what_has_worked_may_have_an_accident)
{
	Adaptive	a = fresh();

	a.good = a.factor;
	CHECK_EQ(limited(&a), ADAPTIVE_LIMITED);
	CHECK_EQ(a.factor, 4750);
	CHECK_EQ(limited(&a), ADAPTIVE_LIMITED);
	CHECK_EQ(a.factor, 3325);
}

UNIT_TEST(signs_of_what_was_before_are_left_out)
{
	Adaptive	a = fresh();

	CHECK_EQ(adaptive_limited(&a, SEC, 0, 2 * SEC), ADAPTIVE_LIMITED);
	CHECK_EQ(adaptive_limited(&a, 2 * SEC - 1, 0, 3 * SEC), ADAPTIVE_SAME);
	/* in the cool-down none counts, though it is not known when the call began */
	CHECK_EQ(adaptive_limited(&a, UNKNOWN, 0, 2 * SEC + rules.cooldown_ns - 1), ADAPTIVE_SAME);
	CHECK(a.cool_ns >= 2 * SEC + rules.cooldown_ns);
	CHECK(a.cool_ns <= 2 * SEC + rules.cooldown_ns * 5 / 4);
	CHECK_EQ(adaptive_limited(&a, UNKNOWN, 0, a.cool_ns), ADAPTIVE_LIMITED);
	CHECK_EQ(a.factor, 2450);
}

/* no window begins before the cool-down is over */
UNIT_TEST(after_a_decrease_it_rests)
{
	Adaptive	a = fresh();
	int64_t		cool_ns;

	limited(&a);
	cool_ns = a.cool_ns;
	adaptive_took(&a, AMOUNT, cool_ns - 1);
	adaptive_took(&a, AMOUNT, cool_ns);
	adaptive_want(&a);
	CHECK_EQ(adaptive_settle(&a, cool_ns + SEC - 1), ADAPTIVE_SAME);
	CHECK_EQ(adaptive_settle(&a, cool_ns + SEC), ADAPTIVE_STABLE);
}

UNIT_TEST(a_limit_that_stays_is_probed_ever_more_seldom)
{
	Adaptive	a = fresh();
	int			probes = 0;
	int			at[8];

	a.good = 4950;
	a.factor = 4950;
	a.bad = 5000;
	for (int i = 0; i < 400 && probes < 5; i++)
		if (window(&a) == ADAPTIVE_PROBE)
		{
			at[probes++] = i;
			CHECK_EQ(a.factor, 5100);
			CHECK_EQ(limited(&a), ADAPTIVE_BACK);
			CHECK_EQ(a.factor, 4950);
			CHECK_EQ(a.bad, 5000);
		}
	CHECK_EQ(probes, 5);
	CHECK_EQ(at[1] - at[0], 20);
	CHECK_EQ(at[2] - at[1], 40);
	CHECK_EQ(at[3] - at[2], 80);
	CHECK_EQ(at[4] - at[3], 80);
}

UNIT_TEST(a_limit_that_comes_back_is_found)
{
	Adaptive	a = fresh();

	a.good = a.factor = 4950;
	a.bad = 5000;
	for (int i = 0; i < 40; i++)
		window(&a);
	CHECK_EQ(a.factor, ADAPTIVE_WHOLE);
	CHECK_EQ(a.bad, 0);
}

UNIT_TEST(calls_that_take_twice_as_long_are_a_sign)
{
	Adaptive	a = fresh();

	for (int w = 0; w < 3; w++)
	{
		adaptive_took(&a, AMOUNT, w * SEC);
		for (int i = 0; i < 20; i++)
			adaptive_latency(&a, 100 * MS);
		CHECK_EQ(adaptive_settle(&a, (w + 1) * SEC), ADAPTIVE_SAME);
	}
	CHECK_EQ(a.long_ns, 100 * MS);
	adaptive_took(&a, AMOUNT, 3 * SEC);
	for (int i = 0; i < 20; i++)
		adaptive_latency(&a, 199 * MS);
	CHECK_EQ(adaptive_settle(&a, 4 * SEC), ADAPTIVE_SAME);
	adaptive_took(&a, AMOUNT, 4 * SEC);
	for (int i = 0; i < 20; i++)
		adaptive_latency(&a, 400 * MS);
	CHECK_EQ(adaptive_settle(&a, 5 * SEC), ADAPTIVE_SLOW);
	CHECK(a.factor >= 2500 && a.factor < 3000);
	/* a few say nothing */
	adaptive_took(&a, AMOUNT, 6 * SEC);
	for (int i = 0; i < ADAPTIVE_MIN_SAMPLES - 1; i++)
		adaptive_latency(&a, 10 * SEC);
	CHECK_EQ(adaptive_settle(&a, 10 * SEC), ADAPTIVE_SAME);
	/* shorter ones are the new measure soon */
	adaptive_took(&a, AMOUNT, 10 * SEC);
	for (int i = 0; i < 20; i++)
		adaptive_latency(&a, 20 * MS);
	adaptive_settle(&a, 12 * SEC);
	CHECK(a.long_ns < 90 * MS);
}

UNIT_TEST(parts_of_amounts)
{
	CHECK_EQ(adaptive_part(0, 5000), 0);
	CHECK_EQ(adaptive_part(1, 1), 1);
	CHECK_EQ(adaptive_part(3, 5000), 1);
	CHECK_EQ(adaptive_part(100, 4999), 49);
	CHECK_EQ(adaptive_part(INT64_C(1000000000000000), ADAPTIVE_WHOLE), INT64_C(1000000000000000));
}

/* ---------- any history ---------- */

UNIT_TEST(the_factor_stays_in_its_bounds_and_changes_for_a_reason)
{
	for (int h = 0; h < 2000; h++)
	{
		AdaptiveRules r = {1 + random_magnitude(60 * SEC), random_magnitude(10 * SEC),
		random_magnitude(1000), 0, 0, (int32_t) (1 + random_below(5000)), (int32_t) (1 + random_below(9999))};
		Adaptive	a;
		int64_t		now_ns = random_magnitude(SEC);

		r.floor = (int32_t) (1 + random_below(ADAPTIVE_WHOLE));
		r.start = (int32_t) (r.floor + random_below(ADAPTIVE_WHOLE - r.floor + 1));
		adaptive_init(&a, &r, random64(), now_ns);
		for (int e = 0; e < 200; e++)
		{
			int32_t		before = a.factor;
			AdaptiveWhy why = ADAPTIVE_SAME;
			int64_t		cool_ns = a.cool_ns;

			now_ns += random_magnitude(r.window_ns * 2);
			if (random_below(3) == 0)
				adaptive_want(&a);
			if (random_below(2) == 0)
				adaptive_took(&a, random_magnitude(1000), now_ns);
			if (random_below(3) == 0)
				adaptive_latency(&a, random_magnitude(SEC));
			if (random_below(3) > 0)
				why = adaptive_settle(&a, now_ns);
			else
				why = adaptive_limited(&a, random_below(2) == 0 ? UNKNOWN
									   : now_ns - random_magnitude(SEC),
									   random_magnitude(INT64_MAX), now_ns);
			CHECK(a.factor >= r.floor && a.factor <= ADAPTIVE_WHOLE);
			CHECK_EQ(a.factor > before, why == ADAPTIVE_STABLE || why == ADAPTIVE_PROBE);
			CHECK_EQ(a.factor < before, why == ADAPTIVE_LIMITED || why == ADAPTIVE_BACK ||
					 why == ADAPTIVE_SLOW);
			/* one decrease by signs in a cool-down */
			if (why == ADAPTIVE_LIMITED || why == ADAPTIVE_BACK)
				CHECK(now_ns >= cool_ns);
			CHECK(a.good == 0 || a.good <= a.factor);
		}
	}
}

/* ---------- a closed loop ---------- */

#define WORKERS		20
#define STEP		MS

/* What became of one run. */
typedef struct Run
{
	int			limited;		/* 429s since the drop */
	int			changes;		/* down, since then */
	double		used;			/* of the hidden limit, from 10 to 60 periods after it */
	int32_t		low;			/* factors, the same */
	int32_t		high;
	int			late;			/* 429s, the same */
} Run;

typedef struct Call
{
	bool		out;
	int64_t		began_ns;
	int64_t		arrives_ns;
	int64_t		ends_ns;
	bool		decided;
	bool		admitted;
} Call;

static BucketRate
per_second(int64_t n)
{
	BucketRate	rate;

	bucket_rate_make(&rate, n, 0, SEC);
	return rate;
}

/* The limiter's bucket by the factor. */
static void
apply(Bucket *own, const Adaptive *a, int64_t now_ns)
{
	BucketRate	rate = {AMOUNT * (int64_t) a->factor, ADAPTIVE_WHOLE * SEC};

	bucket_configure(own, rate, adaptive_part(AMOUNT / 20, a->factor), now_ns, now_ns);
}

/* How long a refusal pauses everybody. */
typedef enum Pause
{
	NOT_AT_ALL,
	EXACTLY,					/* until the next call fits */
	SECONDS						/* the same in whole seconds, as Retry-After says it */
} Pause;

/* hidden before and after the drop */
static Run
run(int hidden, int after, Pause pause)
{
	Run			r = {0, 0, 0, ADAPTIVE_WHOLE, 0, 0};
	Adaptive	a;
	Bucket		own;
	Bucket		theirs;
	BucketTake	none;
	Call		calls[WORKERS] = {{0}};
	int64_t		paused_ns = 0;
	int64_t		drop_ns = 60 * SEC;
	int			passed = 0;

	adaptive_init(&a, &rules, random64(), 0);
	bucket_init_full(&own, per_second(AMOUNT), AMOUNT / 20, 0);
	bucket_init_full(&theirs, per_second(hidden), hidden / 10, 0);
	for (int64_t now_ns = 0; now_ns < drop_ns + 60 * SEC; now_ns += STEP)
	{
		bool		counts = now_ns >= drop_ns + 10 * SEC;

		if (now_ns == drop_ns)
			bucket_configure(&theirs, per_second(after), after / 10, now_ns, now_ns);
		bucket_settle(&theirs, now_ns);
		if (adaptive_settle(&a, now_ns) != ADAPTIVE_SAME)
			apply(&own, &a, now_ns);
		bucket_settle(&own, now_ns);
		for (int i = 0; i < WORKERS; i++)
		{
			Call	   *c = &calls[i];

			memset(&none, 0, sizeof(none));
			if (c->out && !c->decided && now_ns >= c->arrives_ns)
			{
				c->decided = true;
				c->admitted = bucket_level(&theirs) >= 1;
				if (c->admitted)
					bucket_take(&theirs, 1);
				passed += c->admitted && counts;
			}
			if (c->out && now_ns >= c->ends_ns)
			{
				c->out = false;
				if (!c->admitted)
				{
					int64_t		wait_ns = bucket_wait(&theirs, 1);
					AdaptiveWhy why;

					if (pause == SECONDS)
						wait_ns = wait_ns / SEC * SEC + SEC;
					else if (pause == NOT_AT_ALL)
						wait_ns = 0;
					why = adaptive_limited(&a, c->began_ns, wait_ns, now_ns);

					r.limited += now_ns >= drop_ns;
					r.late += counts;
					r.changes += now_ns >= drop_ns && why != ADAPTIVE_SAME;
					apply(&own, &a, now_ns);
					/* nothing until then, and from nothing */
					if (now_ns + wait_ns > paused_ns)
						paused_ns = now_ns + wait_ns;
					if (bucket_level(&own) > 0)
						bucket_take(&own, bucket_level(&own));
				}
			}
			if (c->out || now_ns < paused_ns)
				continue;
			if (now_ns == paused_ns && bucket_level(&own) > 0)
				bucket_take(&own, bucket_level(&own));
			if (bucket_level(&own) < 1)
			{
				adaptive_want(&a);
				continue;
			}
			bucket_take(&own, 1);
			adaptive_took(&a, 1, now_ns);
			c->out = true;
			c->decided = false;
			c->began_ns = now_ns;
			c->arrives_ns = now_ns + 10 * MS + random_below(40 * MS);
			c->ends_ns = c->arrives_ns + 10 * MS + random_below(40 * MS);
		}
		if (counts && a.factor < r.low)
			r.low = a.factor;
		if (counts && a.factor > r.high)
			r.high = a.factor;
	}
	r.used = (double) passed / (50 * after);
	return r;
}

static void
check_run(const char *what, Run r, int after)
{
	printf("#   %s: %d limited, %d decreases, used %.3f, factor %d to %d, %d late\n",
		   what, r.limited, r.changes, r.used, r.low, r.high, r.late);
	CHECK(r.limited <= WORKERS + r.changes + 2);
	CHECK(r.used >= 0.9);
	CHECK(r.high * AMOUNT <= after * 11 * (ADAPTIVE_WHOLE / 10));
	CHECK(r.low * AMOUNT >= after * 9 * (ADAPTIVE_WHOLE / 10));
}

UNIT_TEST(closed_loop_when_the_hidden_limit_halves)
{
	static const char *const what[] = {
		[NOT_AT_ALL] = "100 -> 50, no pauses",[EXACTLY] = "100 -> 50, exact pauses",
		[SECONDS] = "100 -> 50, pauses of a second"
	};

	for (int pause = NOT_AT_ALL; pause <= SECONDS; pause++)
		for (int seed = 1; seed <= 5; seed++)
		{
			random_state = (uint64_t) seed * 7919;
			check_run(what[pause], run(100, 50, pause), 50);
		}
}

UNIT_TEST(closed_loop_whatever_it_drops_to)
{
	for (int after = 25; after <= 95; after += 10)
	{
		random_state = (uint64_t) after;
		check_run("100 -> other, exact pauses", run(100, after, EXACTLY), after);
		/* a quarter takes longer to find, when each refusal on the way costs a second */
		if (after == 25)
			continue;
		random_state = (uint64_t) after;
		check_run("100 -> other, pauses of a second", run(100, after, SECONDS), after);
	}
}

int
main(void)
{
	UNIT_RUN(starts_low_and_rises_by_steps);
	UNIT_RUN(what_nobody_wants_does_not_rise);
	UNIT_RUN(what_is_not_used_does_not_rise);
	UNIT_RUN(a_limit_that_lasts_for_ever_overflows_nothing);
	UNIT_RUN(a_window_begins_with_a_call);
	UNIT_RUN(the_dearer_a_sign_the_longer_it_waits);
	UNIT_RUN(rises_after_a_decrease_get_smaller);
	UNIT_RUN(a_probe_waits_for_what_a_sign_costs);
	UNIT_RUN(a_sign_at_what_is_new_takes_a_part);
	UNIT_RUN(a_sign_after_a_rise_goes_back);
	UNIT_RUN(what_has_worked_may_have_an_accident);
	UNIT_RUN(signs_of_what_was_before_are_left_out);
	UNIT_RUN(after_a_decrease_it_rests);
	UNIT_RUN(a_limit_that_stays_is_probed_ever_more_seldom);
	UNIT_RUN(a_limit_that_comes_back_is_found);
	UNIT_RUN(calls_that_take_twice_as_long_are_a_sign);
	UNIT_RUN(parts_of_amounts);
	UNIT_RUN(the_factor_stays_in_its_bounds_and_changes_for_a_reason);
	UNIT_RUN(closed_loop_when_the_hidden_limit_halves);
	UNIT_RUN(closed_loop_whatever_it_drops_to);
	UNIT_MAIN_END();
}
