/*-------------------------------------------------------------------------
 *
 * test_bucket.c
 *	  The arithmetic of a token bucket.
 *
 * Three parts: examples whose numbers are known (many from the test suites of
 * other limiters); random histories against a model in exact rationals; and
 * the bound G1 checked directly, over every pair of instants of what was
 * admitted in random histories with rollbacks and reconfiguration.
 *
 * Copyright (c) 2026, the quota authors
 *
 *-------------------------------------------------------------------------
 */
#include "unit.h"
#include "random.h"
#include "bucket.h"

__extension__ typedef __int128 wide;

#define US		INT64_C(1000)
#define MS		INT64_C(1000000)
#define SEC		INT64_C(1000000000)
#define DAY		(86400 * SEC)
#define MONTH	(30 * DAY)
#define YEAR	(365 * DAY)

#define BILLION	INT64_C(1000000000)
#define ALL		INT64_MAX

/* how many: millions of steps, and still a few seconds when sanitized */
#define MODEL_EPISODES	8000
#define MODEL_STEPS		500
#define G1_HISTORIES	20000
#define G1_EVENTS		200

/* unscaled * 10^-scale per period, which must be possible */
static BucketRate
rate_of(int64_t unscaled, int scale, int64_t period_ns)
{
	BucketRate	rate = {0, 1};

	CHECK(bucket_rate_make(&rate, unscaled, scale, period_ns));
	return rate;
}

static BucketRate
per_second(int64_t n)
{
	return rate_of(n, 0, SEC);
}

static Bucket
full(BucketRate rate, int64_t capacity, int64_t now_ns)
{
	Bucket		b;

	bucket_init_full(&b, rate, capacity, now_ns);
	return b;
}

static Bucket
drained(BucketRate rate, int64_t capacity, int64_t now_ns)
{
	Bucket		b;

	bucket_init_drained(&b, rate, capacity, now_ns, now_ns);
	return b;
}

/* Decides one call: takes n if they are there. */
static bool
admit(Bucket *b, int64_t n, int64_t now_ns)
{
	bucket_settle(b, now_ns);
	if (bucket_level(b) < n)
		return false;
	bucket_take(b, n);
	return true;
}

/* The same, inside a transaction. */
static bool
admit_noted(Bucket *b, BucketTake *t, int64_t n, int64_t now_ns)
{
	if (!admit(b, n, now_ns))
		return false;
	bucket_take_note(t, b, n);
	return true;
}

/* Returns all that a transaction took. */
static void
roll_back(Bucket *b, BucketTake *t, int64_t now_ns)
{
	bucket_settle(b, now_ns);
	bucket_take_return(b, t, ALL);
}

/* The level after settling. */
static int64_t
level_at(Bucket *b, int64_t now_ns)
{
	bucket_settle(b, now_ns);
	return bucket_level(b);
}

/* bucket_wait(n) is the first instant at which n are there. */
static void
check_wait_is_exact(const Bucket *b, int64_t n)
{
	int64_t		wait = bucket_wait(b, n);
	Bucket		at = *b;
	Bucket		before = *b;

	if (n <= 0 || wait == BUCKET_NEVER)
		return;
	bucket_settle(&at, b->settled_ns + wait);
	CHECK(bucket_level(&at) >= n);
	if (wait > 0)
	{
		bucket_settle(&before, b->settled_ns + wait - 1);
		CHECK(bucket_level(&before) < n);
	}
}

/* ---------- examples: rates ---------- */

UNIT_TEST(rates_are_in_lowest_terms)
{
	BucketRate	rate;

	rate = rate_of(100, 0, 1000);
	CHECK_EQ(rate.num, 1);
	CHECK_EQ(rate.den, 10);
	rate = rate_of(900, 3, SEC);	/* 0.900 per second */
	CHECK_EQ(rate.num, 9);
	CHECK_EQ(rate.den, 10 * BILLION);
	rate = rate_of(0, 18, INT64_MAX);
	CHECK_EQ(rate.num, 0);
	CHECK_EQ(rate.den, 1);
}

UNIT_TEST(rates_without_sense_are_refused)
{
	BucketRate	rate = {42, 43};

	CHECK(!bucket_rate_make(&rate, -1, 0, SEC));
	CHECK(!bucket_rate_make(&rate, 1, -1, SEC));
	CHECK(!bucket_rate_make(&rate, 1, 19, SEC));
	CHECK(!bucket_rate_make(&rate, 1, 0, 0));
	CHECK(!bucket_rate_make(&rate, 1, 0, -SEC));
	CHECK(!bucket_rate_make(&rate, 1, 18, SEC));	/* 10^-27 per ns */
	CHECK_EQ(rate.num, 42);
	CHECK_EQ(rate.den, 43);
}

UNIT_TEST(rates_compare_exactly)
{
	BucketRate	big = {INT64_MAX, INT64_MAX - 1};
	BucketRate	bigger = {INT64_MAX - 1, INT64_MAX - 2};
	BucketRate	none = {0, 1};

	CHECK(bucket_rate_above(bigger, big));
	CHECK(!bucket_rate_above(big, bigger));
	CHECK(!bucket_rate_above(big, big));
	CHECK(bucket_rate_above(big, none));
	CHECK(!bucket_rate_above(none, none));
}

UNIT_TEST(one_per_month_to_1e9_per_second)
{
	static const int64_t periods[] = {1, US, SEC, 60 * SEC, 3600 * SEC};
	BucketRate	rate;
	int			i;

	/* six decimals up to an hour, five for a day, three for a month */
	for (i = 0; i < 5; i++)
	{
		rate = rate_of(1000001, 6, periods[i]);
		CHECK_EQ(rate.num, 1000001);
		CHECK_EQ(rate.den, 1000000 * periods[i]);
	}
	rate = rate_of(100001, 5, DAY);
	CHECK_EQ(rate.den, 100000 * DAY);
	rate = rate_of(1001, 3, 31 * DAY);
	CHECK_EQ(rate.den, 1000 * 31 * DAY);

	rate = rate_of(BILLION * 1000000 + 1, 6, SEC);
	CHECK_EQ(rate.num, BILLION * 1000000 + 1);
	rate = rate_of(INT64_MAX, 0, 1);
	CHECK_EQ(rate.num, INT64_MAX);
	rate = rate_of(1, 0, INT64_MAX);
	CHECK_EQ(rate.den, INT64_MAX);
}

/* Three answers from a full bucket, then the time until the next one. */
static void
check_first_answers(BucketRate rate, int64_t capacity, int64_t wait_ns)
{
	Bucket		b = full(rate, capacity, 0);
	int			i;

	for (i = 0; i < 3; i++)
	{
		CHECK_EQ(bucket_level(&b), i < capacity ? capacity - i : 0);
		CHECK_EQ(admit(&b, 1, 0), i < capacity);
	}
	bucket_take(&b, bucket_level(&b));
	CHECK_EQ(bucket_wait(&b, 1), wait_ns);
	check_wait_is_exact(&b, 1);
}

UNIT_TEST(extreme_rates_answer_right)
{
	check_first_answers(rate_of(1, 0, DAY), 200000, DAY);
	check_first_answers(per_second(8000), 8000, 125 * US);
	check_first_answers(rate_of(1000, 0, 60 * SEC), 1000, 60 * MS);
	check_first_answers(rate_of(1, 0, MONTH), 1, MONTH);
	check_first_answers(per_second(BILLION), BILLION, 1);
	check_first_answers(rate_of(3, 0, 1), 5, 1);
	check_first_answers(rate_of(1, 0, 7), 2, 7);
}

/* ---------- examples: levels and waits ---------- */

UNIT_TEST(gcra_table)
{
	Bucket		b = full(per_second(1), 5, 0);
	int			i;

	CHECK(!admit(&b, 6, 0));
	CHECK_EQ(bucket_level(&b), 5);
	CHECK_EQ(bucket_wait(&b, 6), BUCKET_NEVER);
	for (i = 4; i >= 0; i--)
	{
		CHECK(admit(&b, 1, 0));
		CHECK_EQ(bucket_level(&b), i);
	}
	CHECK(!admit(&b, 1, 0));
	CHECK_EQ(bucket_wait(&b, 1), SEC);

	CHECK(admit(&b, 1, 3000 * MS));
	CHECK_EQ(bucket_level(&b), 2);
	CHECK(admit(&b, 1, 3100 * MS));
	CHECK_EQ(bucket_level(&b), 1);
	CHECK_EQ(bucket_wait(&b, 5), 3900 * MS);
	CHECK(admit(&b, 1, 4000 * MS));
	CHECK_EQ(bucket_level(&b), 1);
	CHECK(admit(&b, 1, 8000 * MS));
	CHECK_EQ(bucket_level(&b), 4);
	CHECK(admit(&b, 1, 9500 * MS));
	CHECK_EQ(bucket_level(&b), 4);
	CHECK_EQ(bucket_wait(&b, 5), SEC);

	CHECK(admit(&b, 0, 9500 * MS));
	CHECK_EQ(bucket_level(&b), 4);
	CHECK(admit(&b, 2, 9500 * MS));
	CHECK_EQ(bucket_level(&b), 2);
	CHECK(!admit(&b, 5, 9500 * MS));
	CHECK_EQ(bucket_level(&b), 2);
	CHECK_EQ(bucket_wait(&b, 5), 3 * SEC);
}

UNIT_TEST(the_remainder_is_carried)
{
	BucketRate	rate = rate_of(100, 0, 1000);
	Bucket		b = drained(rate, 100, 0);

	CHECK_EQ(level_at(&b, 3), 0);
	CHECK_EQ(b.part, 3);		/* of 10 */

	b = full(rate, 100, 0);
	bucket_take(&b, 10);
	CHECK_EQ(level_at(&b, 17), 91);
	CHECK_EQ(b.part, 7);
}

UNIT_TEST(a_million_polls_equal_one_jump)
{
	BucketRate	rate = rate_of(314159, 3, SEC);
	Bucket		polled = drained(rate, 1000, 0);
	Bucket		jumped = polled;
	int64_t		now;

	for (now = 1; now <= 1000000; now++)
		bucket_settle(&polled, now);
	bucket_settle(&jumped, 1000000);
	CHECK_EQ(bucket_level(&polled), 0);
	CHECK_EQ(polled.spent, jumped.spent);
	CHECK_EQ(polled.part, jumped.part);
	CHECK_EQ(polled.accrued.whole, jumped.accrued.whole);
	CHECK_EQ(polled.accrued.part, jumped.accrued.part);
	CHECK(jumped.part > 0);
}

UNIT_TEST(no_drift_over_a_billion_units)
{
	Bucket		b = drained(rate_of(1000000007, 0, 3600 * SEC), 11, 0);
	int64_t		taken = 0;
	int64_t		now = 0;

	while (now < 3600 * SEC)
	{
		now += bucket_wait(&b, 10);
		if (now > 3600 * SEC || taken > 10000000)
			break;
		CHECK(admit(&b, 10, now));
		taken += 10;
	}
	/* the nth ten is there exactly n * 10 / rate after the start, rounded */
	CHECK_EQ(taken, 10000010);
	CHECK_EQ(b.settled_ns, (int64_t)
			 (((wide) taken * 3600 * SEC + 1000000006) / 1000000007));
}

UNIT_TEST(wait_is_exact_to_the_nanosecond)
{
	Bucket		b = full(rate_of(10, 0, 100), 10, 0);

	bucket_take(&b, 6);
	CHECK_EQ(bucket_wait(&b, 7), 30);
	check_wait_is_exact(&b, 7);

	/* a debt of 23 */
	b = full(rate_of(2, 0, 100), 10, 0);
	bucket_take(&b, 33);
	CHECK_EQ(bucket_level(&b), -23);
	CHECK_EQ(bucket_wait(&b, 10), 1650);
	check_wait_is_exact(&b, 10);

	/* a partial unit */
	b = drained(per_second(1), 1, 0);
	CHECK_EQ(level_at(&b, 200 * MS), 0);
	CHECK_EQ(bucket_wait(&b, 1), 800 * MS);
	CHECK(!admit(&b, 1, SEC - 1));
	CHECK(admit(&b, 1, SEC));

	/* one third of a unit per nanosecond and back */
	b = drained(rate_of(1, 0, 3), 100, 0);
	check_wait_is_exact(&b, 1);
	b = drained(rate_of(3, 0, 1), 100, 0);
	CHECK_EQ(bucket_wait(&b, 4), 2);
	check_wait_is_exact(&b, 4);
}

UNIT_TEST(wait_says_never_only_when_it_is_never)
{
	Bucket		b = full(rate_of(0, 0, SEC), 3, 0);
	int			i;

	CHECK_EQ(bucket_wait(&b, 3), 0);
	CHECK_EQ(bucket_wait(&b, 4), BUCKET_NEVER);
	for (i = 0; i < 3; i++)
		CHECK(admit(&b, 1, 0));
	CHECK_EQ(bucket_wait(&b, 1), BUCKET_NEVER);
	CHECK(!admit(&b, 1, 100 * YEAR));
	CHECK_EQ(bucket_wait(&b, 0), 0);
	CHECK_EQ(bucket_wait(&b, -1), 0);

	/* closed */
	b = full(rate_of(0, 0, SEC), 0, 0);
	CHECK_EQ(bucket_level(&b), 0);
	CHECK_EQ(bucket_wait(&b, 1), BUCKET_NEVER);

	/* longer than 292 years can't be said, but must not wrap */
	b = drained(rate_of(1, 0, INT64_MAX), INT64_MAX, 0);
	CHECK_EQ(bucket_wait(&b, INT64_MAX), BUCKET_NEVER);
}

UNIT_TEST(refusals_leave_no_mark)
{
	Bucket		b = full(per_second(1), 5, 0);
	Bucket		before;
	int			i;

	bucket_take(&b, 3);
	before = b;
	for (i = 0; i < 1000; i++)
		CHECK(!admit(&b, 5, 0));
	CHECK_EQ(bucket_level(&b), 2);
	CHECK_EQ(b.spent, before.spent);
	CHECK_EQ(b.part, before.part);
}

/* ---------- examples: time ---------- */

UNIT_TEST(clock_steps_back_change_nothing)
{
	Bucket		b = full(per_second(10), 10, 10000);
	BucketTake	t = {0};

	CHECK(admit_noted(&b, &t, 10, 10000));
	CHECK_EQ(level_at(&b, 9999), 0);
	CHECK_EQ(level_at(&b, INT64_MIN), 0);
	CHECK_EQ(b.settled_ns, 10000);
	bucket_configure(&b, per_second(1), 10, -5, 3);
	CHECK_EQ(b.settled_ns, 10000);
	CHECK_EQ(bucket_level(&b), 0);
	CHECK_EQ(level_at(&b, 10000 + SEC), 1);
}

UNIT_TEST(ten_years_idle_is_exactly_full)
{
	Bucket		b = drained(per_second(BILLION), BILLION, 0);

	CHECK_EQ(level_at(&b, 10 * YEAR), BILLION);
	CHECK(bucket_is_full(&b));
	CHECK_EQ(b.accrued.whole, 10 * YEAR);

	b = drained(rate_of(1, 0, MONTH), 1000, 0);
	CHECK_EQ(level_at(&b, 10 * YEAR), 121);
	CHECK_EQ(bucket_wait(&b, 122), 122 * MONTH - 10 * YEAR);
}

UNIT_TEST(idle_for_ever_overflows_nothing)
{
	Bucket		b = drained(rate_of(INT64_MAX, 0, 1), INT64_MAX, INT64_MIN);

	CHECK_EQ(bucket_wait(&b, INT64_MAX), 1);
	CHECK_EQ(level_at(&b, INT64_MAX), INT64_MAX);
	CHECK_EQ(b.accrued.whole, INT64_MAX);
	CHECK_EQ(b.accrued.part, 0);
	bucket_take(&b, INT64_MAX);
	bucket_take(&b, INT64_MAX);
	CHECK_EQ(bucket_level(&b), 0);

	b = drained(rate_of(INT64_MAX, 0, INT64_MAX - 1), 7, INT64_MIN);
	CHECK_EQ(level_at(&b, INT64_MAX), 7);
}

UNIT_TEST(after_300_years_returns_are_refused_not_wrong)
{
	Bucket		b = full(per_second(BILLION), 10, INT64_MIN);
	BucketTake	old = {0};
	BucketTake	fresh = {0};
	int64_t		now = INT64_MAX - SEC;

	CHECK(admit_noted(&b, &old, 10, INT64_MIN));
	CHECK_EQ(level_at(&b, now), 10);
	CHECK_EQ(b.accrued.whole, INT64_MAX);

	CHECK(admit_noted(&b, &fresh, 4, now));
	roll_back(&b, &old, now);
	roll_back(&b, &fresh, now);
	CHECK_EQ(bucket_level(&b), 6);
	CHECK_EQ(level_at(&b, now + 4), 10);

	/* it stays that way through a change of the denominator */
	bucket_configure(&b, rate_of(1, 0, 7), 10, now + 4, now + 5);
	CHECK_EQ(b.accrued.whole, INT64_MAX);
	CHECK_EQ(b.accrued.part, 0);
}

UNIT_TEST(drained_refills_from_when_it_was_drained)
{
	Bucket		b;

	bucket_init_drained(&b, per_second(1), 10, 2 * SEC, 5 * SEC);
	CHECK_EQ(bucket_level(&b), 3);
	bucket_init_drained(&b, per_second(1), 10, 9 * SEC, 5 * SEC);
	CHECK_EQ(bucket_level(&b), 0);
	CHECK_EQ(b.settled_ns, 5 * SEC);
	bucket_init_drained(&b, per_second(1), 10, 0, 50 * SEC);
	CHECK(bucket_is_full(&b));
}

/* What counts of what was spent, in 1/den. */
static wide
counted(const Bucket *b)
{
	return (wide) (b->spent - b->excess) * b->rate.den - b->part + b->excess_part;
}

UNIT_TEST(emptied_holds_the_less_of_both)
{
	for (int i = 0; i < 100000; i++)
	{
		BucketRate	rate = rate_of(1 + random_below(9), 0, 1 + random_below(9));
		int64_t		now = 100 + random_below(50);
		Bucket		b = full(rate, 1 + random_below(30), 0);
		Bucket		drained;
		Bucket		before;
		wide		most;
		int64_t		at;

		bucket_take(&b, random_below(60));
		bucket_configure(&b, rate_of(1 + random_below(9), 0, 1 + random_below(9)),
						 1 + random_below(30), random_below(9), random_below(9));
		bucket_settle(&b, now);
		before = b;
		at = 90 + random_below(70);
		bucket_init_drained(&drained, b.rate, b.capacity, at, now);
		most = counted(&drained) > counted(&b) ? counted(&drained) : counted(&b);
		bucket_empty(&b, b.capacity, at);
		CHECK(counted(&b) == most);
		CHECK_EQ(b.excess, before.excess);
		CHECK_EQ(b.excess_part, before.excess_part);
		bucket_settle(&b, now + 1000);
		CHECK(bucket_is_full(&b));
	}
}

/* ---------- examples: returns ---------- */

UNIT_TEST(a_return_at_once_is_as_if_never_taken)
{
	Bucket		b = full(rate_of(1, 0, 3), 10, 0);
	Bucket		before;
	BucketTake	t = {0};

	bucket_take(&b, 5);
	bucket_settle(&b, 4);
	before = b;
	CHECK(admit_noted(&b, &t, 2, 4));
	CHECK(admit_noted(&b, &t, 3, 4));
	CHECK(admit_noted(&b, &t, 1, 4));
	CHECK_EQ(bucket_level(&b), 0);
	roll_back(&b, &t, 4);
	CHECK_EQ(b.spent, before.spent);
	CHECK_EQ(b.part, before.part);
	CHECK_EQ(t.n, 0);
	roll_back(&b, &t, 4);
	CHECK_EQ(b.spent, before.spent);
}

UNIT_TEST(g1_take_refill_take_abort_take)
{
	Bucket		b = full(per_second(1), 10, 0);
	BucketTake	first = {0};

	CHECK(admit_noted(&b, &first, 10, 0));
	CHECK(admit(&b, 10, 10 * SEC));
	roll_back(&b, &first, 10 * SEC);
	CHECK_EQ(bucket_level(&b), 0);
	CHECK(!admit(&b, 1, 10 * SEC));
}

UNIT_TEST(returns_decay_by_what_would_have_refilled)
{
	Bucket		b = full(per_second(1), 10, 0);
	BucketTake	t = {0};

	CHECK(admit_noted(&b, &t, 10, 0));
	CHECK(admit(&b, 3, 3500 * MS));
	/* 3.5 of the 10 are back already, 6.5 come back; 3 were spent since */
	roll_back(&b, &t, 3500 * MS);
	CHECK_EQ(bucket_level(&b), 7);
	CHECK_EQ(bucket_wait(&b, 8), SEC);

	/* it is the fraction that decides: 0.25 left of 1 after 0.75 s */
	b = full(per_second(1), 10, 0);
	CHECK(admit_noted(&b, &t, 1, 0));
	CHECK(admit(&b, 9, 0));
	roll_back(&b, &t, 750 * MS);
	CHECK_EQ(bucket_level(&b), 1);
	CHECK_EQ(bucket_wait(&b, 2), SEC);
}

UNIT_TEST(takes_at_different_times_merge_exactly)
{
	Bucket		b = full(per_second(1), 10, 0);
	BucketTake	t = {0};

	/* 4 at 0 decay to 2.7 at 1.3; 3 more; 5.7 decay to 5.2 at 1.8 */
	CHECK(admit_noted(&b, &t, 4, 0));
	CHECK(admit_noted(&b, &t, 3, 1300 * MS));
	bucket_settle(&b, 1800 * MS);
	CHECK_EQ(b.spent, 6);		/* 5.2 */
	bucket_take(&b, 4);
	bucket_take_return(&b, &t, ALL);
	CHECK_EQ(b.spent, 4);
	CHECK_EQ(b.part, 0);

	/* what decayed to nothing does not eat what comes after */
	CHECK(admit_noted(&b, &t, 1, 10 * SEC));
	CHECK(admit_noted(&b, &t, 5, 20 * SEC));
	CHECK_EQ(t.n, 5);
	roll_back(&b, &t, 20 * SEC);
	CHECK(bucket_is_full(&b));
}

UNIT_TEST(subtransactions_merge_as_if_noted_together)
{
	Bucket		b = full(per_second(1), 20, 0);
	BucketTake	outer = {0};
	BucketTake	inner = {0};
	BucketTake	together = {0};
	BucketTake	untouched = {0};

	CHECK(admit_noted(&b, &outer, 4, 0));
	bucket_take_note(&together, &b, 4);
	CHECK(admit_noted(&b, &inner, 3, 1300 * MS));
	bucket_take_note(&together, &b, 3);
	CHECK(admit_noted(&b, &inner, 2, 1700 * MS));
	bucket_take_note(&together, &b, 2);

	bucket_take_merge(&outer, &inner);
	bucket_take_merge(&outer, &untouched);
	CHECK_EQ(outer.n, together.n);
	CHECK_EQ(outer.mark.whole, together.mark.whole);
	CHECK_EQ(outer.mark.part, together.mark.part);

	bucket_take_merge(&untouched, &inner);
	CHECK_EQ(untouched.n, 5);
}

UNIT_TEST(a_partial_return_leaves_the_rest)
{
	Bucket		b = full(per_second(1), 10, 0);
	BucketTake	t = {0};

	CHECK(admit_noted(&b, &t, 8, 0));
	bucket_take_return(&b, &t, 3);
	CHECK_EQ(bucket_level(&b), 5);
	CHECK_EQ(t.n, 5);
	bucket_take_return(&b, &t, 0);
	bucket_take_return(&b, &t, -1);
	CHECK_EQ(t.n, 5);

	/* 1.5 of the other 5 decay; 2 and then no more than 1.5 come back */
	bucket_settle(&b, 1500 * MS);
	bucket_take(&b, 4);
	CHECK_EQ(b.spent, 8);		/* 7.5 */
	bucket_take_return(&b, &t, 2);
	CHECK_EQ(b.spent, 6);
	CHECK_EQ(b.part, SEC / 2);
	bucket_take_return(&b, &t, 2);
	CHECK_EQ(b.spent, 4);
	CHECK_EQ(b.part, 0);
	CHECK_EQ(t.n, 0);
}

UNIT_TEST(a_refund_fills_no_more_than_the_bucket)
{
	Bucket		b = full(per_second(1), 2, 0);
	BucketTake	t = {0};

	CHECK(admit_noted(&b, &t, 1, 0));
	bucket_take_return(&b, &t, 1);
	bucket_take_return(&b, &t, 1);
	CHECK_EQ(bucket_level(&b), 2);
	CHECK_EQ(b.spent, 0);
}

UNIT_TEST(a_mark_ahead_of_the_bucket_returns_nothing)
{
	Bucket		b = drained(per_second(1), 10, 0);
	BucketTake	t = {0};

	CHECK(admit_noted(&b, &t, 5, 8 * SEC));
	/* a bucket that began anew meanwhile owes nothing */
	b = drained(per_second(1), 10, 0);
	roll_back(&b, &t, 2 * SEC);
	CHECK_EQ(bucket_level(&b), 2);
}

/* ---------- examples: configuration ---------- */

UNIT_TEST(an_upgrade_gives_its_difference_at_once)
{
	static const int64_t capacity[] = {100, 100, 10, 10, 200};
	static const int64_t left[] = {99, 98, 7, 6, 195};
	BucketRate	rate = rate_of(1, 0, DAY);
	Bucket		b = full(rate, 100, 0);
	int			i;

	for (i = 0; i < 5; i++)
	{
		bucket_configure(&b, rate, capacity[i], 0, 0);
		CHECK(admit(&b, 1, 0));
		CHECK_EQ(bucket_level(&b), left[i]);
	}

	b = full(rate, 100, 0);
	bucket_take(&b, 60);
	bucket_configure(&b, rate, 200, 0, 0);
	CHECK_EQ(bucket_level(&b), 140);
	bucket_configure(&b, rate, 20, 0, 0);
	CHECK_EQ(bucket_level(&b), 0);
}

UNIT_TEST(g9_toggling_capacity_gains_nothing)
{
	BucketRate	rate = per_second(1);
	Bucket		b = full(rate, 100, 0);
	Bucket		untouched;
	int64_t		i;

	bucket_take(&b, 90);
	untouched = b;
	for (i = 1; i <= 50; i++)
	{
		bucket_configure(&b, rate, 5, i * 100 * MS, i * 100 * MS);
		CHECK(bucket_level(&b) <= 5);
		CHECK(bucket_level(&b) <= level_at(&untouched, i * 100 * MS));
		bucket_configure(&b, rate, 100, i * 100 * MS, i * 100 * MS);
		CHECK_EQ(bucket_level(&b), level_at(&untouched, i * 100 * MS));
	}

	/* what refilled while it was low is not counted again */
	bucket_configure(&b, rate, 5, 5 * SEC, 5 * SEC);
	CHECK_EQ(bucket_level(&b), 0);
	CHECK_EQ(level_at(&b, 8 * SEC), 3);
	CHECK_EQ(level_at(&b, 30 * SEC), 5);
	bucket_configure(&b, rate, 100, 30 * SEC, 30 * SEC);
	CHECK_EQ(bucket_level(&b), level_at(&untouched, 30 * SEC));
}

UNIT_TEST(g9_toggling_forgives_no_debt)
{
	BucketRate	rate = per_second(1);
	Bucket		b = full(rate, 10, 0);

	bucket_take(&b, 15);
	bucket_configure(&b, rate, 9, 0, 0);
	CHECK_EQ(bucket_level(&b), -5);
	bucket_configure(&b, rate, 10, 0, 0);
	CHECK_EQ(bucket_level(&b), -5);
}

UNIT_TEST(g9_a_small_change_keeps_the_level)
{
	BucketRate	rate = per_second(1);
	Bucket		b = full(rate, 1000, 0);

	/* far down, then refilled: 900 of 1000 are forgiven, none count */
	bucket_take(&b, 1000);
	bucket_configure(&b, rate, 100, 0, 0);
	CHECK_EQ(level_at(&b, 100 * SEC), 100);
	CHECK(!bucket_is_full(&b));

	bucket_configure(&b, rate, 90, 100 * SEC, 100 * SEC);
	CHECK_EQ(bucket_level(&b), 90);
	bucket_configure(&b, rate, 95, 100 * SEC, 100 * SEC);
	CHECK_EQ(bucket_level(&b), 90);
	CHECK_EQ(level_at(&b, 105 * SEC), 95);
	CHECK_EQ(level_at(&b, 1000 * SEC), 95);
	CHECK(bucket_is_full(&b));
}

UNIT_TEST(what_is_forgiven_refills_although_all_the_rest_is_taken)
{
	BucketRate	rate = per_second(1);
	Bucket		b = full(rate, 100, 0);
	int64_t		i;

	bucket_take(&b, 100);
	bucket_configure(&b, rate, 1, 0, 0);

	/* one each 1.5 s leaves half a unit for the forgiven ones each time */
	for (i = 1; i <= 100; i++)
		CHECK(admit(&b, 1, i * 1500 * MS));
	bucket_configure(&b, rate, 100, 150 * SEC, 150 * SEC);
	CHECK_EQ(b.spent, 50);
	CHECK_EQ(bucket_level(&b), 50);
}

UNIT_TEST(g1_forgiven_units_are_not_returned_again)
{
	BucketRate	rate = per_second(1);
	Bucket		b = full(rate, 10, 0);
	BucketTake	t = {0};

	CHECK(admit_noted(&b, &t, 10, 0));
	bucket_configure(&b, rate, 5, 0, 0);
	CHECK(admit(&b, 5, 5 * SEC));
	roll_back(&b, &t, 5 * SEC);
	CHECK_EQ(bucket_level(&b), 0);

	b = full(rate, 10, 0);
	CHECK(admit(&b, 5, 0));
	CHECK(admit_noted(&b, &t, 5, 0));
	bucket_configure(&b, rate, 5, 0, 0);
	roll_back(&b, &t, 0);
	CHECK_EQ(bucket_level(&b), 0);
}

UNIT_TEST(a_rollback_restores_the_level_while_some_is_forgiven)
{
	BucketRate	rate = per_second(1);
	Bucket		b = full(rate, 100, 0);
	BucketTake	t = {0};

	bucket_take(&b, 100);
	bucket_configure(&b, rate, 10, 0, 0);
	CHECK(admit_noted(&b, &t, 10, 20 * SEC));
	roll_back(&b, &t, 20 * SEC);
	CHECK_EQ(bucket_level(&b), 10);
	bucket_configure(&b, rate, 100, 20 * SEC, 20 * SEC);
	CHECK_EQ(bucket_level(&b), 20);
}

UNIT_TEST(a_new_rate_is_never_retroactive)
{
	Bucket		b = drained(per_second(1), 100, 0);

	/* changed at 10 s, seen at 20 s: 10 at 1/s, 10 at 3/s */
	bucket_configure(&b, per_second(3), 100, 10 * SEC, 20 * SEC);
	CHECK_EQ(bucket_level(&b), 40);
	/* a change from before the last settlement acts from there on */
	bucket_configure(&b, per_second(1), 100, 5 * SEC, 21 * SEC);
	CHECK_EQ(bucket_level(&b), 41);
	/* and one from the future from now on */
	bucket_configure(&b, per_second(5), 100, 90 * SEC, 22 * SEC);
	CHECK_EQ(bucket_level(&b), 42);
	CHECK_EQ(level_at(&b, 23 * SEC), 47);
}

UNIT_TEST(a_new_rate_carries_the_fraction)
{
	Bucket		b = drained(rate_of(1, 0, 10), 10, 0);

	bucket_settle(&b, 7);
	bucket_configure(&b, rate_of(1, 0, 3), 10, 7, 7);
	CHECK_EQ(b.part, 2);		/* 0.7, rounded down */
	CHECK_EQ(bucket_wait(&b, 1), 1);
	CHECK_EQ(b.accrued.den, 3);
	CHECK_EQ(b.accrued.whole, 1);	/* 0.7, rounded up */
	CHECK_EQ(b.accrued.part, 0);
}

UNIT_TEST(the_same_configuration_is_just_a_settlement)
{
	Bucket		b = drained(per_second(7), 10, 0);
	Bucket		settled = b;

	bucket_configure(&b, per_second(7), 10, 1, 333 * MS);
	bucket_settle(&settled, 333 * MS);
	CHECK_EQ(b.spent, settled.spent);
	CHECK_EQ(b.part, settled.part);
	CHECK_EQ(b.accrued.part, settled.accrued.part);
	CHECK_EQ(b.settled_ns, settled.settled_ns);
}

/* ---------- random histories ---------- */

/*
 * Every denominator that random_rate makes divides GRID, so everything exact
 * is a multiple of 1/GRID.
 */
#define GRID	((wide) 7 * 1000 * MONTH)

static BucketRate
random_rate(void)
{
	static const int64_t periods[] = {
		1, 7, 10, 1000, MS, SEC, 7 * SEC, 60 * SEC, 3600 * SEC, DAY, MONTH
	};
	int			which = (int) random_below(11);

	return rate_of(random_magnitude(which < 3 ? 10 : 1000000),
				   (int) random_below(4), periods[which]);
}

/*
 * A time in which about n units refill, give or take; or just any, but not
 * so long that the sums overflow.
 */
static int64_t
random_duration(BucketRate rate, int64_t n)
{
	wide		unit = rate.num == 0 ? DAY : (wide) rate.den / rate.num + 1;
	int64_t		longest = 1000 * DAY;

	if (unit < 1000)
		longest = (int64_t) (DAY * unit);
	switch (random_below(8))
	{
		case 0:
			return random_below(3);
		case 1:
			return random_magnitude(longest);
		case 2:
			n = 1;
			break;
		default:
			break;
	}
	if (unit * (n + 1) < longest)
		longest = (int64_t) (unit * (n + 1));
	return random_below(longest + 1);
}

/* ---------- the bucket against a model in exact rationals ---------- */

/*
 * Everything in 1/GRID units.  It says the same differently: what counts is
 * kept instead of what is forgiven, and for a take the point up to which it
 * decays.
 */
typedef struct Model
{
	wide		spent;
	wide		counted;		/* of it, against the capacity */
	wide		accrued;
	int64_t		capacity;
	int64_t		settled_ns;
	BucketRate	rate;
} Model;

#define OPEN_TAKES	6

typedef struct World
{
	Bucket		b;
	Model		m;
	int64_t		now;
	BucketTake	take[OPEN_TAKES];
	wide		until[OPEN_TAKES];	/* returns are what accrued lacks to it */
} World;

/* One earned step of this rate: 1/den. */
static wide
step_of(BucketRate rate)
{
	return GRID / rate.den;
}

/* The next multiple of step, for x not negative. */
static wide
round_down(wide x, wide step)
{
	return x - x % step;
}

static wide
round_up(wide x, wide step)
{
	return x % step == 0 ? x : x - x % step + step;
}

static wide
no_less_than_zero(wide x)
{
	return x > 0 ? x : 0;
}

/* What bucket_settle is to do. */
static void
model_settle(Model *m, int64_t now_ns)
{
	wide		refill;

	if (now_ns <= m->settled_ns)
		return;
	refill = (wide) (now_ns - m->settled_ns) * m->rate.num * step_of(m->rate);
	m->spent = no_less_than_zero(m->spent - refill);
	m->counted = no_less_than_zero(m->counted - refill);
	m->accrued += refill;
	m->settled_ns = now_ns;
}

/* Only here the model rounds, as bucket.c promises to. */
static void
model_set_rate(Model *m, BucketRate rate)
{
	wide		forgiven = m->spent - m->counted;
	wide		step = step_of(rate);

	m->rate = rate;
	m->spent = round_up(m->spent, step);
	if (m->counted % GRID != 0)
		m->counted = m->spent - round_down(forgiven, step);
	m->accrued = round_up(m->accrued, step);
}

/* Down: clamps, though no deeper than the difference; up: the opposite. */
static void
model_set_capacity(Model *m, int64_t capacity)
{
	wide		difference = (capacity - m->capacity) * GRID;
	wide		beyond = no_less_than_zero(m->counted - capacity * GRID);

	if (difference > 0)
	{
		m->counted += difference;
		if (m->counted > m->spent)
			m->counted = m->spent;
	}
	else
	{
		if (beyond > -difference)
			beyond = -difference;
		m->counted -= beyond;
		m->accrued += beyond;
	}
	m->capacity = capacity;
}

/* What bucket_configure is to do. */
static void
model_configure(Model *m, BucketRate rate, int64_t capacity,
				int64_t switch_ns, int64_t now_ns)
{
	if (rate.num != m->rate.num || rate.den != m->rate.den ||
		capacity != m->capacity)
	{
		model_settle(m, switch_ns < now_ns ? switch_ns : now_ns);
		model_set_rate(m, rate);
		model_set_capacity(m, capacity);
	}
	model_settle(m, now_ns);
}

/* What bucket_take_note is to do. */
static void
model_note(const Model *m, wide *until, int64_t n)
{
	if (round_down(*until, step_of(m->rate)) <= m->accrued)
		*until = m->accrued;
	*until += n * GRID;
}

/* What bucket_take_return is to do. */
static void
model_return(Model *m, wide *until, int64_t n)
{
	wide		back = no_less_than_zero(round_down(*until, step_of(m->rate))
										 - m->accrued);

	if (back > n * GRID)
	{
		back = n * GRID;
		*until -= back;
	}
	else
		*until = 0;
	m->spent = no_less_than_zero(m->spent - back);
	m->counted = no_less_than_zero(m->counted - back);
}

/* The first instant at which n are there, by the model alone. */
static int64_t
model_wait(const Model *m, int64_t n)
{
	wide		missing = m->counted - (m->capacity - n) * GRID;
	wide		speed = m->rate.num * step_of(m->rate);

	if (n <= 0 || missing <= 0)
		return 0;
	if (n > m->capacity || speed == 0 || missing / speed >= INT64_MAX)
		return BUCKET_NEVER;
	return (int64_t) ((missing + speed - 1) / speed);
}

/* Bucket and model say the same, and every field is within its range. */
static void
check_same(const World *w)
{
	const Bucket *b = &w->b;
	const Model *m = &w->m;
	wide		step = step_of(b->rate);
	wide		spent = b->spent * GRID - b->part * step;
	wide		forgiven = b->excess * GRID - b->excess_part * step;

	CHECK(b->part >= 0 && b->part < b->rate.den);
	CHECK(b->excess_part >= 0 && b->excess_part < b->rate.den);
	CHECK(b->spent >= 0 && b->excess >= 0 && b->excess <= b->spent);
	CHECK(spent == m->spent);
	CHECK(spent - forgiven == m->counted);
	CHECK(b->accrued.den == b->rate.den);
	CHECK(b->accrued.whole * GRID + b->accrued.part * step == m->accrued);
	CHECK_EQ(b->settled_ns, m->settled_ns);
	CHECK_EQ(bucket_level(b),
			 m->capacity - (int64_t) (round_up(m->counted, GRID) / GRID));
	CHECK(bucket_is_full(b) == (m->spent == 0));
}

/* A full bucket of any rate and capacity, at any time. */
static void
random_world(World *w)
{
	World		fresh = {0};
	Bucket	   *b = &fresh.b;

	fresh.now = random_magnitude(YEAR) - random_magnitude(YEAR);
	bucket_init_full(b, random_rate(), random_magnitude(BILLION), fresh.now);
	fresh.m.capacity = b->capacity;
	fresh.m.settled_ns = fresh.now;
	fresh.m.rate = b->rate;
	*w = fresh;
}

/* Time goes on, or now and then back. */
static void
step_time(World *w)
{
	if (random_below(10) == 0)
		w->now -= random_duration(w->b.rate, w->b.capacity);
	else
		w->now += random_duration(w->b.rate, w->b.capacity);
	bucket_settle(&w->b, w->now);
	model_settle(&w->m, w->now);
}

/* Takes what is there, or now and then more, in a transaction or not. */
static void
step_take(World *w)
{
	int			i = (int) random_below(OPEN_TAKES);
	int64_t		level = bucket_level(&w->b);
	int64_t		n;

	if (random_below(20) == 0)
		n = random_magnitude(BILLION + 1);	/* whether it is there or not */
	else
		n = level > 0 ? random_magnitude(level + 1) : 0;

	bucket_take(&w->b, n);
	w->m.spent += n * GRID;
	w->m.counted += n * GRID;
	if (n > 0 && random_below(3) > 0)
	{
		bucket_take_note(&w->take[i], &w->b, n);
		model_note(&w->m, &w->until[i], n);
	}
}

/* Ends a transaction or returns a part of it. */
static void
step_return(World *w)
{
	int			i = (int) random_below(OPEN_TAKES);
	BucketTake	none = {0};
	int64_t		n;

	switch (random_below(4))
	{
		case 0:					/* commit */
			w->take[i] = none;
			w->until[i] = 0;
			break;
		case 1:					/* a part */
			n = random_magnitude(w->take[i].n + 2);
			if (n == 0)
				break;
			bucket_take_return(&w->b, &w->take[i], n);
			model_return(&w->m, &w->until[i], n);
			break;
		default:				/* roll back */
			bucket_take_return(&w->b, &w->take[i], ALL);
			model_return(&w->m, &w->until[i], ALL);
			break;
	}
}

/* Changes rate, capacity or both, a little or a lot, some time ago. */
static void
step_configure(World *w)
{
	BucketRate	rate = w->b.rate;
	int64_t		capacity = w->b.capacity;
	int64_t		was = w->now;
	int64_t		switch_ns;

	if (random_below(2) == 0)
		rate = random_rate();
	if (random_below(3) == 0)
		capacity = random_magnitude(BILLION);
	else if (random_below(2) == 0)
		capacity = capacity * (random_below(20) + 90) / 100;
	w->now += random_duration(rate.num > 0 ? rate : w->b.rate, capacity) % DAY;
	switch_ns = was - 2 + random_below(w->now - was + 5);

	bucket_configure(&w->b, rate, capacity, switch_ns, w->now);
	model_configure(&w->m, rate, capacity, switch_ns, w->now);
}

/* Asks for a wait and tries whether it is true. */
static void
step_wait(World *w)
{
	int64_t		n = random_magnitude(w->b.capacity + 2);

	CHECK_EQ(bucket_wait(&w->b, n), model_wait(&w->m, n));
	if (bucket_wait(&w->b, n) < YEAR)
		check_wait_is_exact(&w->b, n);
}

UNIT_TEST(random_histories_equal_the_exact_model)
{
	World		w;
	int			episode;
	int			i;

	for (episode = 0; episode < MODEL_EPISODES; episode++)
	{
		random_world(&w);
		for (i = 0; i < MODEL_STEPS; i++)
		{
			int64_t		what = random_below(100);

			if (what < 35)
				step_time(&w);
			else if (what < 65)
				step_take(&w);
			else if (what < 85)
				step_return(&w);
			else if (what < 95)
				step_wait(&w);
			else
				step_configure(&w);
			check_same(&w);
		}
	}
}

/* ---------- the bound G1, over all pairs of instants ---------- */

/*
 * One bucket, its transactions and what they were admitted.  A transaction is
 * a stack of subtransactions, each with a take of its own.
 */
#define SESSIONS	3
#define DEPTH		3

typedef struct Admission
{
	int64_t		n;				/* 0: a change of configuration */
	int64_t		capacity;		/* in force from here on */
	wide		refill;			/* what the rates add up to until then */
	int			session;		/* or -1: final */
	int			depth;
} Admission;

typedef struct History
{
	Bucket		b;
	int64_t		now;
	wide		refill;
	int			depth[SESSIONS];	/* of the innermost subtransaction */
	BucketTake	take[SESSIONS][DEPTH];
	int			n;
	Admission	log[G1_EVENTS];
} History;

/* Notes an admission, or with n = 0 a change of configuration. */
static void
history_log(History *h, int64_t n, int session)
{
	Admission  *a = &h->log[h->n++];

	a->n = n;
	a->capacity = h->b.capacity;
	a->refill = h->refill;
	a->session = session;
	a->depth = session < 0 ? 0 : h->depth[session];
}

/* Every interval that ends with the newest admission keeps to the bound. */
static bool
history_is_within_bound(const History *h)
{
	const Admission *last = &h->log[h->n - 1];
	int64_t		capacity = 0;
	wide		admitted = 0;
	int			i;

	for (i = h->n - 1; i >= 0; i--)
	{
		const Admission *first = &h->log[i];

		admitted += first->n;
		if (capacity < first->capacity)
			capacity = first->capacity;
		if (admitted * GRID > capacity * GRID + last->refill - first->refill)
			return false;
	}
	return true;
}

/* Advances the clock, adding to the sum of the rates. */
static void
history_wait(History *h)
{
	int64_t		duration = random_duration(h->b.rate, h->b.capacity);

	h->now += duration;
	h->refill += (wide) duration * h->b.rate.num * step_of(h->b.rate);
	bucket_settle(&h->b, h->now);
}

/* Takes some of what is there, often all. */
static void
history_admit(History *h)
{
	int			session = (int) random_below(SESSIONS + 1) - 1;
	int64_t		level = bucket_level(&h->b);
	int64_t		n;

	if (level <= 0)
		return;
	n = random_below(2) == 0 ? level : 1 + random_below(level);
	bucket_take(&h->b, n);
	if (session >= 0)
		bucket_take_note(&h->take[session][h->depth[session]], &h->b, n);
	history_log(h, n, session);
}

/*
 * What was rolled back was never admitted: the n newest units of the
 * innermost subtransaction.
 */
static void
history_forget(History *h, int session, int64_t n)
{
	int			i;

	for (i = h->n - 1; i >= 0 && n > 0; i--)
	{
		Admission  *a = &h->log[i];
		int64_t		less = a->n < n ? a->n : n;

		if (a->session == session && a->depth == h->depth[session])
		{
			a->n -= less;
			n -= less;
		}
	}
}

/* Ends the innermost subtransaction, or the transaction if there is none. */
static void
history_end(History *h, int session, bool commit)
{
	BucketTake	none = {0};
	int			depth = h->depth[session];
	BucketTake *take = &h->take[session][depth];
	int			i;

	if (!commit)
	{
		bucket_take_return(&h->b, take, ALL);
		history_forget(h, session, ALL);
	}
	else if (depth > 0)
		bucket_take_merge(&h->take[session][depth - 1], take);
	*take = none;

	for (i = 0; commit && i < h->n; i++)
	{
		Admission  *a = &h->log[i];

		if (a->session == session && a->depth == depth)
		{
			a->session = depth > 0 ? session : -1;
			a->depth = depth > 0 ? depth - 1 : 0;
		}
	}
	if (depth > 0)
		h->depth[session]--;
}

/* Gives back some of what a transaction took last. */
static void
history_release(History *h, int session)
{
	int64_t		n = 1 + random_below(4);

	bucket_take_return(&h->b, &h->take[session][h->depth[session]], n);
	history_forget(h, session, n);
}

/* Changes rate and capacity, some time between the last event and now. */
static void
history_configure(History *h)
{
	BucketRate	old = h->b.rate;
	BucketRate	rate = random_below(2) == 0 ? old : random_rate();
	int64_t		capacity = random_below(3) == 0 ? h->b.capacity
		: random_below(20);
	int64_t		before = random_duration(old, 3);
	int64_t		after = random_below(2) == 0 ? 0 : random_duration(rate, 3);
	int64_t		switch_ns = h->now + before;

	h->now += before + after;
	h->refill += (wide) before * old.num * step_of(old)
		+ (wide) after * rate.num * step_of(rate);
	bucket_configure(&h->b, rate, capacity, switch_ns, h->now);
	history_log(h, 0, -1);
}

/* One random event. */
static void
history_step(History *h)
{
	int			session = (int) random_below(SESSIONS);
	int64_t		what = random_below(100);

	if (what < 30)
		history_wait(h);
	else if (what < 65)
		history_admit(h);
	else if (what < 82)
		history_end(h, session, random_below(3) == 0);
	else if (what < 90)
	{
		if (h->depth[session] < DEPTH - 1)
			h->depth[session]++;
	}
	else if (what < 95)
		history_release(h, session);
	else
		history_configure(h);
}

UNIT_TEST(g1_holds_over_every_interval_of_random_histories)
{
	static History h;
	static const History none;
	int			history;
	int			i;

	for (history = 0; history < G1_HISTORIES; history++)
	{
		bool		ok = true;

		h = none;
		bucket_init_full(&h.b, random_rate(), random_below(20), 0);
		history_log(&h, 0, -1);
		for (i = 1; i < G1_EVENTS && ok; i++)
		{
			history_step(&h);
			ok = history_is_within_bound(&h);
		}
		CHECK(ok);
	}
}

int
main(void)
{
	UNIT_RUN(rates_are_in_lowest_terms);
	UNIT_RUN(rates_without_sense_are_refused);
	UNIT_RUN(rates_compare_exactly);
	UNIT_RUN(one_per_month_to_1e9_per_second);
	UNIT_RUN(extreme_rates_answer_right);
	UNIT_RUN(gcra_table);
	UNIT_RUN(the_remainder_is_carried);
	UNIT_RUN(a_million_polls_equal_one_jump);
	UNIT_RUN(no_drift_over_a_billion_units);
	UNIT_RUN(wait_is_exact_to_the_nanosecond);
	UNIT_RUN(wait_says_never_only_when_it_is_never);
	UNIT_RUN(refusals_leave_no_mark);
	UNIT_RUN(clock_steps_back_change_nothing);
	UNIT_RUN(ten_years_idle_is_exactly_full);
	UNIT_RUN(idle_for_ever_overflows_nothing);
	UNIT_RUN(after_300_years_returns_are_refused_not_wrong);
	UNIT_RUN(drained_refills_from_when_it_was_drained);
	UNIT_RUN(emptied_holds_the_less_of_both);
	UNIT_RUN(a_return_at_once_is_as_if_never_taken);
	UNIT_RUN(g1_take_refill_take_abort_take);
	UNIT_RUN(returns_decay_by_what_would_have_refilled);
	UNIT_RUN(takes_at_different_times_merge_exactly);
	UNIT_RUN(subtransactions_merge_as_if_noted_together);
	UNIT_RUN(a_partial_return_leaves_the_rest);
	UNIT_RUN(a_refund_fills_no_more_than_the_bucket);
	UNIT_RUN(a_mark_ahead_of_the_bucket_returns_nothing);
	UNIT_RUN(an_upgrade_gives_its_difference_at_once);
	UNIT_RUN(g9_toggling_capacity_gains_nothing);
	UNIT_RUN(g9_toggling_forgives_no_debt);
	UNIT_RUN(g9_a_small_change_keeps_the_level);
	UNIT_RUN(what_is_forgiven_refills_although_all_the_rest_is_taken);
	UNIT_RUN(g1_forgiven_units_are_not_returned_again);
	UNIT_RUN(a_rollback_restores_the_level_while_some_is_forgiven);
	UNIT_RUN(a_new_rate_is_never_retroactive);
	UNIT_RUN(a_new_rate_carries_the_fraction);
	UNIT_RUN(the_same_configuration_is_just_a_settlement);
	UNIT_RUN(random_histories_equal_the_exact_model);
	UNIT_RUN(g1_holds_over_every_interval_of_random_histories);
	UNIT_MAIN_END();
}
