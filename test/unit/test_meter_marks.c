/*-------------------------------------------------------------------------
 *
 * test_meter_marks.c
 *	  What the marks of slow limits (mark.c) rely on: a meter can be moved to another
 *	  clock, and one of which everything was taken that may have been leaves no more
 *	  than there is.
 *
 * Copyright (c) 2026, the quota authors
 *
 *-------------------------------------------------------------------------
 */
#include "unit.h"
#include "random.h"
#include "meter.h"

#define US		INT64_C(1000)
#define SEC		INT64_C(1000000000)
#define HOUR	(3600 * SEC)
#define DAY		(24 * HOUR)
#define N_SHAPES (METER_SLIDING + 1)

/* A meter, and the same one by a clock that is ahead of the first. */
typedef struct Pair
{
	MeterRules	rules;
	Meter		here;
	Meter		there;
	int64_t		ahead_ns;
	int64_t		now_ns;			/* here */
} Pair;

static MeterRules
rules_of(MeterShape shape, int64_t amount, int64_t period_ns, int64_t burst)
{
	MeterRules	rules = {0};

	rules.shape = shape;
	rules.capacity = burst;
	CHECK(bucket_rate_make(&rules.rate, amount, 0, period_ns));
	rules.period_ns = period_ns;
	rules.largest = rules.dearest = amount;
	return rules;
}

/* The wall clock, which is the same for both; whole microseconds are exact. */
static int64_t
wall_of(int64_t now_ns)
{
	return (now_ns >= 0 ? now_ns : now_ns - US + 1) / US;
}

static void
settle(Pair *p, int64_t now_ns)
{
	p->now_ns = now_ns;
	meter_settle(&p->here, now_ns, wall_of(now_ns));
	meter_settle(&p->there, now_ns + p->ahead_ns, wall_of(now_ns));
}

/* A full one. */
static Pair
pair_of(MeterRules rules, int64_t now_ns)
{
	Pair		p = {.rules = rules,.now_ns = now_ns};

	meter_init_full(&p.here, &rules, now_ns, wall_of(now_ns));
	p.there = p.here;
	return p;
}

/* Moves the second clock. */
static void
shift(Pair *p, int64_t by_ns)
{
	p->ahead_ns += by_ns;
	meter_shift(&p->there, by_ns);
}

static void
take(Pair *p, int64_t n)
{
	MeterTake	here = {0};
	MeterTake	there = {0};

	meter_take(&p->here, &here, n);
	meter_take(&p->there, &there, n);
}

/* Whatever may be asked of both has the same answer. */
static void
check_same(const Pair *p)
{
	int64_t		begin[2] = {0, 0};
	int64_t		end[2] = {0, 0};
	int64_t		most = p->rules.capacity + 1;

	CHECK_EQ(meter_level(&p->there), meter_level(&p->here));
	CHECK_EQ(meter_spent(&p->there), meter_spent(&p->here));
	CHECK_EQ(meter_late(&p->there), meter_late(&p->here));
	CHECK_EQ(meter_is_full(&p->there), meter_is_full(&p->here));
	CHECK_EQ(meter_drain(&p->there, most), meter_drain(&p->here, most));
	for (int64_t n = 1; n <= most; n = 2 * n + 1)
	{
		CHECK_EQ(meter_fit(&p->there, n, 0), meter_fit(&p->here, n, 0));
		CHECK_EQ(meter_wait(&p->there, n, 1, 0), meter_wait(&p->here, n, 1, 0));
	}
	CHECK_EQ(meter_window(&p->there, &begin[1], &end[1]),
			 meter_window(&p->here, &begin[0], &end[0]));
	if (p->here.shape != METER_WINDOW)
		return;
	CHECK_EQ(begin[1] - p->ahead_ns, begin[0]);
	CHECK_EQ(end[0] == INT64_MAX ? end[1] : end[1] - p->ahead_ns, end[0]);
}

/* ---------- each shape ---------- */

UNIT_TEST(g14_a_token_bucket_refills_from_where_it_was)
{
	Pair		p = pair_of(rules_of(METER_BUCKET, 24, DAY, 24), 5 * DAY);

	take(&p, 24);
	settle(&p, 5 * DAY + HOUR / 2);
	shift(&p, -5 * DAY);
	CHECK_EQ(p.there.u.bucket.settled_ns, HOUR / 2);
	meter_settle(&p.there, HOUR - 1, 0);
	CHECK_EQ(meter_level(&p.there), 0);
	meter_settle(&p.there, HOUR, 0);
	CHECK_EQ(meter_level(&p.there), 1);
	/* what is before the last settlement brings nothing */
	meter_settle(&p.there, -DAY, 0);
	CHECK_EQ(meter_level(&p.there), 1);
}

UNIT_TEST(g14_a_leaky_bucket_keeps_its_debt)
{
	Pair		p = pair_of(rules_of(METER_PACED, 24, DAY, 1), 0);

	take(&p, 6);
	shift(&p, 100 * DAY);
	CHECK_EQ(meter_level(&p.there), -5);
	CHECK_EQ(meter_wait(&p.there, 1, 1, 0), 6 * HOUR);
	meter_settle(&p.there, 100 * DAY + 6 * HOUR - 1, 0);
	CHECK_EQ(meter_level(&p.there), 0);
	meter_settle(&p.there, 100 * DAY + 6 * HOUR, 0);
	CHECK(meter_is_full(&p.there));
}

UNIT_TEST(g14_a_fixed_window_ends_when_it_would_have)
{
	Pair		p = pair_of(rules_of(METER_WINDOW, 10, DAY, 10), 9 * DAY + 6 * HOUR);

	take(&p, 10);
	shift(&p, -9 * DAY);
	meter_settle(&p.there, DAY - 1, wall_of(10 * DAY));
	CHECK_EQ(meter_level(&p.there), 0);
	CHECK_EQ(meter_wait(&p.there, 10, 1, 0), 1);
	meter_settle(&p.there, DAY, wall_of(10 * DAY));
	CHECK_EQ(meter_level(&p.there), 10);
	settle(&p, 10 * DAY);
	check_same(&p);
}

UNIT_TEST(g14_a_window_without_end_has_none_on_any_clock)
{
	Pair		p = pair_of(rules_of(METER_WINDOW, 1, INT64_MAX, 1), DAY);

	CHECK_EQ(p.here.u.window.end_ns, INT64_MAX);
	take(&p, 1);
	shift(&p, -DAY);
	CHECK_EQ(p.there.u.window.end_ns, INT64_MAX);
	shift(&p, 3 * DAY);
	CHECK_EQ(p.there.u.window.end_ns, INT64_MAX);
	CHECK_EQ(meter_wait(&p.there, 1, 1, 0), BUCKET_NEVER);
}

UNIT_TEST(g14_each_entry_of_a_sliding_window_counts_for_a_period)
{
	Pair		p = pair_of(rules_of(METER_SLIDING, 10, HOUR, 10), 0);

	take(&p, 3);
	settle(&p, HOUR / 3);
	take(&p, 4);
	shift(&p, 50 * DAY);
	CHECK_EQ(meter_wait(&p.there, 4, 1, 0), 2 * (HOUR / 3));
	meter_settle(&p.there, 50 * DAY + HOUR - 1, 0);
	CHECK_EQ(meter_level(&p.there), 3);
	meter_settle(&p.there, 50 * DAY + HOUR, 0);
	CHECK_EQ(meter_level(&p.there), 6);
	meter_settle(&p.there, 50 * DAY + HOUR + HOUR / 3, 0);
	CHECK(meter_is_full(&p.there));
}

/* 10 were taken so soon after 100 that these come back with them. */
UNIT_TEST(units_of_a_shared_entry_may_be_late)
{
	Pair		p = pair_of(rules_of(METER_SLIDING, 320, HOUR, 320), 0);
	MeterTake	none = {0};

	take(&p, 100);
	settle(&p, 200 * SEC);
	meter_take(&p.here, &none, 10);
	settle(&p, HOUR - 1);
	CHECK_EQ(meter_late(&p.here), 0);
	settle(&p, HOUR);
	CHECK_EQ(meter_level(&p.there), 320);
	CHECK_EQ(meter_level(&p.here), 210);
	CHECK_EQ(meter_late(&p.here), 110);
	settle(&p, HOUR + 200 * SEC);
	CHECK_EQ(meter_late(&p.here), 0);
	CHECK(meter_is_full(&p.here));
}

/* ---------- all of them ---------- */

static MeterRules
random_rules(MeterShape shape)
{
	static const int64_t periods[] = {61 * SEC, HOUR, DAY, 30 * DAY};
	int64_t		amount = 1 + random_magnitude(1000);
	MeterRules	rules = rules_of(shape, amount, periods[random_below(4)], amount);

	rules.anchor_us = random_magnitude(DAY / US);
	if (shape == METER_BUCKET || shape == METER_PACED)
		rules.capacity = 1 + random_magnitude(amount);
	return rules;
}

/* Something happens to both. */
static void
step(Pair *p)
{
	int64_t		what = random_below(10);
	int64_t		ns = random_magnitude(2 * p->rules.period_ns) / US * US;

	if (what < 4)
		settle(p, p->now_ns + ns);
	else if (what < 8)
		take(p, random_magnitude(p->rules.capacity + 3));
	else if (what < 9)
		shift(p, (random_below(2) ? 1 : -1) * random_magnitude(1000 * DAY));
	else
	{
		p->rules = random_rules((MeterShape) p->rules.shape);
		p->now_ns += ns;
		meter_configure(&p->here, &p->rules, p->now_ns - ns / 3, p->now_ns,
						wall_of(p->now_ns));
		meter_configure(&p->there, &p->rules, p->now_ns - ns / 3 + p->ahead_ns,
						p->now_ns + p->ahead_ns, wall_of(p->now_ns));
	}
}

UNIT_TEST(a_shifted_meter_goes_on_as_if_nothing_had_happened)
{
	for (int history = 0; history < 4000; history++)
	{
		MeterRules	rules = random_rules((MeterShape) (history % N_SHAPES));
		Pair		p = pair_of(rules, random_magnitude(1000 * DAY) / US * US);

		for (int i = 0; i < 40; i++)
		{
			step(&p);
			check_same(&p);
		}
	}
}

/* Some are within an entry of a sliding window, some are not. */
static int64_t
random_pause(int64_t period_ns)
{
	return random_below(3) > 0 ? random_magnitude(period_ns / 15)
		: random_below(period_ns / 2);
}

/*
 * A row is written, units are taken within what it says was logged ahead, some of them
 * are returned: at no time does the row leave more than there is, but for what is
 * late.
 */
UNIT_TEST(g14_a_mark_leaves_no_more_than_there_is)
{
	for (int history = 0; history < 20000; history++)
	{
		MeterRules	rules = random_rules((MeterShape) (history % N_SHAPES));
		Pair		p = pair_of(rules, random_magnitude(1000 * DAY) / US * US);
		int64_t		ahead = random_magnitude(rules.capacity + 1);
		int64_t		left = ahead;

		for (int i = 0; i < 8; i++)
		{
			settle(&p, p.now_ns + random_pause(rules.period_ns));
			take(&p, random_magnitude(rules.capacity + 3));
		}
		p.there = p.here;
		for (int i = 0; i < 8; i++)
		{
			MeterTake	none = {0};
			MeterTake	t = {0};
			Meter		said = p.there;
			int64_t		n = random_below(left + 1);

			settle(&p, p.now_ns + random_pause(rules.period_ns));
			left -= n;
			meter_take(&p.here, &t, n);
			if (random_below(4) == 0)
				meter_take_return(&p.here, &t, random_below(n + 1));
			meter_settle(&said, p.now_ns, wall_of(p.now_ns));
			meter_take(&said, &none, ahead);
			CHECK(meter_level(&said) <= meter_level(&p.here) + meter_late(&p.here));
		}
	}
}

int
main(void)
{
	UNIT_RUN(g14_a_token_bucket_refills_from_where_it_was);
	UNIT_RUN(g14_a_leaky_bucket_keeps_its_debt);
	UNIT_RUN(g14_a_fixed_window_ends_when_it_would_have);
	UNIT_RUN(g14_a_window_without_end_has_none_on_any_clock);
	UNIT_RUN(g14_each_entry_of_a_sliding_window_counts_for_a_period);
	UNIT_RUN(units_of_a_shared_entry_may_be_late);
	UNIT_RUN(a_shifted_meter_goes_on_as_if_nothing_had_happened);
	UNIT_RUN(g14_a_mark_leaves_no_more_than_there_is);
	UNIT_MAIN_END();
}
