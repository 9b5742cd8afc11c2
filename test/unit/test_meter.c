/*-------------------------------------------------------------------------
 *
 * test_meter.c
 *	  The leaky bucket, and what meters of all shapes have in common.
 *
 * Copyright (c) 2026, the quota authors
 *
 *-------------------------------------------------------------------------
 */
#include "unit.h"
#include "random.h"
#include "meter.h"

__extension__ typedef __int128 wide;

#define US		INT64_C(1000)
#define MS		INT64_C(1000000)
#define SEC		INT64_C(1000000000)
#define DAY		(86400 * SEC)
#define N_SHAPES (METER_SLIDING + 1)

/* per period, with another burst than the amount if that is not -1 */
static MeterRules
rules_of(MeterShape shape, int64_t amount, int64_t period_ns, int64_t burst)
{
	MeterRules	rules = {0};

	rules.shape = shape;
	rules.capacity = burst >= 0 ? burst : amount;
	CHECK(bucket_rate_make(&rules.rate, amount, 0, period_ns));
	rules.period_ns = period_ns;
	rules.largest = rules.dearest = amount;
	return rules;
}

/* The wall clock that a test without steps has. */
static int64_t
wall_of(int64_t now_ns)
{
	return (now_ns >= 0 ? now_ns : now_ns - US + 1) / US;
}

static void
settle(Meter *m, int64_t now_ns)
{
	meter_settle(m, now_ns, wall_of(now_ns));
}

static Meter
full(const MeterRules *rules, int64_t now_ns)
{
	Meter		m;

	meter_init_full(&m, rules, now_ns, wall_of(now_ns));
	return m;
}

/* Decides one call. */
static bool
admit(Meter *m, int64_t cost, int64_t now_ns)
{
	MeterTake	none = {0};

	settle(m, now_ns);
	if (meter_fit(m, cost, 0) < 1)
		return false;
	meter_take(m, &none, cost);
	return true;
}

/* ---------- the leaky bucket ---------- */

UNIT_TEST(a_leaky_bucket_paces_evenly)
{
	MeterRules	rules = rules_of(METER_PACED, 60, 60 * SEC, 1);
	Meter		m = full(&rules, 0);

	CHECK(admit(&m, 1, 0));
	CHECK(!admit(&m, 1, SEC - 1));
	CHECK_EQ(meter_wait(&m, 1, 1, 0), 1);
	CHECK(admit(&m, 1, SEC));
	/* a pause is not made up for */
	CHECK(admit(&m, 1, 10 * SEC));
	CHECK(!admit(&m, 1, 11 * SEC - 1));
	/* two never go at once */
	CHECK_EQ(meter_wait(&m, 1, 2, 0), BUCKET_NEVER);
	CHECK(!meter_holds(&rules, 1, 2));
	CHECK(meter_holds(&rules, 1, 1));
}

UNIT_TEST(a_dear_call_goes_when_one_may_and_those_after_it_wait)
{
	MeterRules	rules = rules_of(METER_PACED, 60, 60 * SEC, 1);
	Meter		m = full(&rules, 0);

	CHECK(admit(&m, 5, 0));
	CHECK_EQ(meter_level(&m), -4);
	CHECK_EQ(meter_wait(&m, 1, 1, 0), 5 * SEC);
	CHECK_EQ(meter_wait(&m, 60, 1, 0), 5 * SEC);
	CHECK(admit(&m, 60, 5 * SEC));
	CHECK(!admit(&m, 1, 65 * SEC - 1));
	/* more than a whole period never goes */
	CHECK(!admit(&m, 61, 200 * SEC));
	CHECK_EQ(meter_wait(&m, 61, 1, 0), BUCKET_NEVER);
	CHECK(!meter_holds(&rules, 61, 1));
	CHECK(meter_holds(&rules, 60, 1));
}

UNIT_TEST(burst_is_how_early_calls_may_be)
{
	MeterRules	rules = rules_of(METER_PACED, 60, 60 * SEC, 5);
	Meter		m = full(&rules, 0);

	CHECK_EQ(meter_fit(&m, 1, 0), 5);
	CHECK_EQ(meter_fit(&m, 2, 0), 2);
	CHECK_EQ(meter_fit(&m, 4, 0), 1);
	CHECK_EQ(meter_fit(&m, 9, 0), 1);
	CHECK_EQ(meter_fit(&m, 1, 2), 3);
	CHECK_EQ(meter_fit(&m, 5, 1), 0);
	CHECK(meter_holds(&rules, 2, 2));
	CHECK(!meter_holds(&rules, 3, 2));
	CHECK(admit(&m, 3, 0));
	CHECK_EQ(meter_wait(&m, 9, 1, 0), 3 * SEC);
	CHECK_EQ(meter_wait(&m, 2, 2, 0), 2 * SEC);
	/* a burst beyond the amount may be taken by one call */
	rules = rules_of(METER_PACED, 2, 60 * SEC, 5);
	m = full(&rules, 0);
	CHECK_EQ(meter_fit(&m, 5, 0), 1);
	CHECK_EQ(meter_fit(&m, 6, 0), 0);
}

UNIT_TEST(a_closed_leaky_bucket_lets_nothing_through)
{
	MeterRules	rules = rules_of(METER_PACED, 0, SEC, 0);
	Meter		m = full(&rules, 0);

	CHECK_EQ(meter_fit(&m, 1, 0), 0);
	CHECK_EQ(meter_wait(&m, 1, 1, 0), BUCKET_NEVER);
	CHECK(!meter_holds(&rules, 1, 1));
}

UNIT_TEST(g14_after_a_crash_the_dearest_call_may_just_have_gone)
{
	MeterRules	rules = rules_of(METER_PACED, 60, 60 * SEC, 1);
	Meter		m;

	rules.dearest = 7;
	meter_init_drained(&m, &rules, 0, 2 * SEC, 2 * SEC / US);
	CHECK_EQ(meter_wait(&m, 1, 1, 0), 5 * SEC);
	rules.dearest = 1;
	meter_init_drained(&m, &rules, 0, 0, 0);
	CHECK_EQ(meter_wait(&m, 1, 1, 0), SEC);
}

UNIT_TEST(g9_a_leaky_bucket_keeps_its_debt)
{
	MeterRules	rules = rules_of(METER_PACED, 60, 60 * SEC, 1);
	Meter		m = full(&rules, 0);

	CHECK(admit(&m, 10, 0));
	for (int i = 0; i < 3; i++)
	{
		rules.capacity = 5;
		meter_configure(&m, &rules, 0, 0, 0);
		CHECK_EQ(meter_level(&m), -5);
		rules.capacity = 1;
		meter_configure(&m, &rules, 0, 0, 0);
		CHECK_EQ(meter_level(&m), -9);
	}
	rules = rules_of(METER_PACED, 120, 60 * SEC, 1);
	meter_configure(&m, &rules, 2 * SEC, 4 * SEC, 4 * SEC / US);
	/* 2 s at 1, 2 s at 2 per second */
	CHECK_EQ(meter_level(&m), -3);
	CHECK(!meter_holds(&rules, 121, 1));
	CHECK_EQ(meter_wait(&m, 120, 1, 0), 2 * SEC);
}

/* ---------- random histories of all shapes ---------- */

#define HISTORIES	3000
#define EVENTS		150
#define TAKES		4

typedef struct Taken
{
	int64_t		at_ns;
	int64_t		n;
	int64_t		dearest;		/* as admitted */
	int64_t		capacity;		/* in force */
	wide		refill;			/* what the rates add up to until then */
} Taken;

typedef struct World
{
	Meter		m;
	MeterRules	rules;
	int64_t		now;
	wide		refill;			/* in 1/GRID */
	int			n;
	Taken		log[EVENTS];
	MeterTake	take[TAKES];
	bool		mine[TAKES][EVENTS];
} World;

/* Every period divides it. */
#define GRID	((wide) 7 * 3600 * 24 * SEC)

static MeterRules
random_rules(MeterShape shape)
{
	static const int64_t periods[] = {MS, SEC, 7 * SEC, 3600 * SEC, DAY};
	MeterRules	rules = rules_of(shape, random_magnitude(40),
								 periods[random_below(5)], -1);

	rules.anchor_us = random_magnitude(DAY / US);
	if ((shape == METER_PACED || shape == METER_BUCKET) && rules.capacity > 0)
		rules.capacity = 1 + random_magnitude(rules.capacity);
	return rules;
}

static void
random_world(World *h, MeterShape shape)
{
	static const World none;

	*h = none;
	h->now = random_magnitude(1000 * DAY);
	h->rules = random_rules(shape);
	h->m = full(&h->rules, h->now);
}

/* Adds to the sum of the rates. */
static void
refill(World *h, int64_t ns)
{
	h->refill += (wide) ns * h->rules.rate.num * (GRID / h->rules.rate.den);
}

static void
step_time(World *h)
{
	int64_t		ns = random_below(3) == 0 ? random_below(h->rules.period_ns + 1)
		: random_magnitude(h->rules.period_ns);

	h->now += ns;
	refill(h, ns);
	settle(&h->m, h->now);
}

/* The transaction is final. */
static void
forget_take(World *h, int i)
{
	MeterTake	none = {0};

	h->take[i] = none;
	for (int k = 0; k < h->n; k++)
		h->mine[i][k] = false;
}

static void
step_take(World *h)
{
	int			i = (int) random_below(TAKES);
	MeterTake	none = {0};
	int64_t		cost = 1 + random_magnitude(h->rules.largest + 3);
	int64_t		fit = meter_fit(&h->m, cost, 0);
	int64_t		n = fit > 0 ? 1 + random_below(fit) : 0;
	bool		noted = random_below(3) > 0;

	if (n == 0)
		return;
	if (noted && !meter_take_joins(&h->m, &h->take[i]))
		forget_take(h, i);
	meter_take(&h->m, noted ? &h->take[i] : &none, cost * n);
	h->log[h->n].at_ns = h->now;
	h->log[h->n].n = cost * n;
	h->log[h->n].dearest = cost;
	h->log[h->n].capacity = h->rules.capacity;
	h->log[h->n].refill = h->refill;
	h->mine[i][h->n] = noted;
	h->n++;
}

/* Rolls a transaction back, or lets it commit. */
static void
step_end(World *h)
{
	int			i = (int) random_below(TAKES);

	if (random_below(2) == 0)
	{
		meter_take_return(&h->m, &h->take[i], INT64_MAX);
		for (int k = 0; k < h->n; k++)
			if (h->mine[i][k])
				h->log[k].n = 0;
	}
	forget_take(h, i);
}

static void
step_configure(World *h)
{
	MeterRules	rules = random_rules(h->rules.shape);
	int64_t		before = random_magnitude(h->rules.period_ns);
	int64_t		after = random_magnitude(rules.period_ns);

	refill(h, before);
	h->rules = rules;
	refill(h, after);
	meter_configure(&h->m, &rules, h->now + before, h->now + before + after,
					wall_of(h->now + before + after));
	h->now += before + after;
}

/* meter_fit() is how many calls fit one after another. */
static void
check_fit(const World *h)
{
	Meter		m = h->m;
	int64_t		cost = 1 + random_magnitude(h->rules.largest + 3);
	int64_t		fit = meter_fit(&m, cost, 0);

	for (int64_t i = 0; i < fit; i++)
		CHECK(admit(&m, cost, h->now));
	CHECK(!admit(&m, cost, h->now));
}

/* meter_wait() is exact, and says never just when they never fit. */
static void
check_wait(const World *h)
{
	int64_t		cost = 1 + random_magnitude(h->rules.largest + 3);
	int64_t		n = 1 + random_magnitude(4);
	int64_t		wait = meter_wait(&h->m, cost, n, 0);
	Meter		at = h->m;
	Meter		before = h->m;

	CHECK((wait == BUCKET_NEVER) == !meter_holds(&h->rules, cost, n));
	if (wait == BUCKET_NEVER)
		return;
	settle(&at, h->now + wait);
	CHECK(meter_fit(&at, cost, 0) >= n);
	if (wait == 0)
		return;
	settle(&before, h->now + wait - 1);
	CHECK(meter_fit(&before, cost, 0) < n);
}

/* Rolled back in the same instant, a take has never been. */
static void
check_return(const World *h)
{
	Meter		m = h->m;
	MeterTake	t = {0};

	for (int i = 0; i < 3; i++)
		if (meter_take_joins(&m, &t))
			meter_take(&m, &t, random_below(10));
	meter_take_return(&m, &t, INT64_MAX);
	CHECK_EQ(meter_level(&m), meter_level(&h->m));
	CHECK(meter_is_full(&m) == meter_is_full(&h->m));
}

/*
 * After a crash at this instant never more is there than what would have been,
 * however one waits; what is as good as new is so.
 */
static void
check_others(const World *h)
{
	Meter		m = h->m;
	Meter		after;
	Meter		fresh = full(&h->rules, h->now);
	bool		is_full = meter_is_full(&h->m);
	int64_t		now = h->now;

	meter_init_drained(&after, &h->rules, now, now, wall_of(now));
	for (int i = 0; i < 4; i++)
	{
		int64_t		cost = 1 + random_magnitude(h->rules.largest + 3);

		CHECK(meter_fit(&after, cost, 0) <= meter_fit(&m, cost, 0));
		if (is_full)
		{
			CHECK_EQ(meter_fit(&fresh, cost, 0), meter_fit(&m, cost, 0));
			CHECK_EQ(meter_wait(&fresh, cost, 1, 0), meter_wait(&m, cost, 1, 0));
		}
		now += random_magnitude(2 * h->rules.period_ns);
		settle(&m, now);
		settle(&after, now);
		settle(&fresh, now);
	}
}

/* The bound of paced.h, over every interval that ends with the newest take. */
static bool
paced_bound_holds(const World *h)
{
	const Taken *last = &h->log[h->n - 1];
	int64_t		most = 0;
	wide		sum = 0;

	for (int i = h->n - 1; i >= 0; i--)
	{
		const Taken *t = &h->log[i];

		sum += t->n;
		if (t->n > 0 && most < t->dearest)
			most = t->dearest;
		most = most < t->capacity ? t->capacity : most;
		if (sum * GRID > most * GRID + last->refill - t->refill)
			return false;
	}
	return true;
}

static void
random_history(MeterShape shape)
{
	static World h;
	bool		changes = random_below(2) == 0;
	bool		ok = true;

	random_world(&h, shape);
	for (int i = 0; i < EVENTS && ok; i++)
	{
		int64_t		what = random_below(100);

		if (what < 35)
			step_time(&h);
		else if (what < 65)
		{
			step_take(&h);
			ok = shape != METER_PACED || h.n == 0 || paced_bound_holds(&h);
		}
		else if (what < 80)
			step_end(&h);
		else if (what < 84)
			check_fit(&h);
		else if (what < 90)
			check_wait(&h);
		else if (what < 92)
			check_return(&h);
		else if (what < 95 && !changes)
			check_others(&h);
		else if (changes)
			step_configure(&h);
	}
	CHECK(ok);
}

UNIT_TEST(random_histories_of_all_shapes)
{
	for (int history = 0; history < HISTORIES; history++)
		for (int shape = 0; shape < N_SHAPES; shape++)
			random_history((MeterShape) shape);
}

/* ---------- the same as exact fractions, for the leaky bucket ---------- */

/*
 * The debt in 1/GRID units is all there is to it; amounts that are admitted are
 * told by the rule of paced.h.
 */
UNIT_TEST(leaky_buckets_equal_exact_fractions)
{
	for (int history = 0; history < 3000; history++)
	{
		MeterRules	rules = random_rules(METER_PACED);
		Meter		m = full(&rules, 0);
		wide		spent = 0;
		int64_t		now = 0;

		for (int i = 0; i < EVENTS; i++)
		{
			int64_t		ns = random_magnitude(rules.period_ns);
			int64_t		cost = 1 + random_magnitude(rules.largest + 3);
			int64_t		first = cost < rules.capacity ? cost : rules.capacity;
			bool		fits;

			now += ns;
			spent -= (wide) ns * rules.rate.num * (GRID / rules.rate.den);
			if (spent < 0)
				spent = 0;
			fits = spent <= (rules.capacity - first) * GRID &&
				(cost <= rules.largest || cost <= rules.capacity);
			CHECK(admit(&m, cost, now) == fits);
			if (fits)
				spent += cost * GRID;
		}
	}
}

/* Calls of one unit, each as soon as it fits, need as long as was foretold. */
UNIT_TEST(draining_takes_as_long_as_foretold)
{
	for (int history = 0; history < 4000; history++)
	{
		MeterShape	shape = (MeterShape) random_below(N_SHAPES);
		MeterRules	rules = rules_of(shape, 1 + random_below(16), SEC,
									 shape == METER_PACED ? 1 : -1);
		Meter		m = full(&rules, 123);
		int64_t		now = 123;
		int64_t		n = 1 + random_below(50);
		int64_t		end;

		for (int i = 0; i < 10; i++)
		{
			now += random_magnitude(SEC);
			(void) admit(&m, 1, now);
		}
		settle(&m, now);
		end = now + meter_drain(&m, n);
		while (n-- > 0)
		{
			now += meter_wait(&m, 1, 1, 0);
			CHECK(admit(&m, 1, now));
		}
		/* what is earned within a nanosecond may be lost to a full bucket */
		CHECK(now >= end && now < end + 50);
	}
}

int
main(void)
{
	UNIT_RUN(a_leaky_bucket_paces_evenly);
	UNIT_RUN(a_dear_call_goes_when_one_may_and_those_after_it_wait);
	UNIT_RUN(burst_is_how_early_calls_may_be);
	UNIT_RUN(a_closed_leaky_bucket_lets_nothing_through);
	UNIT_RUN(g14_after_a_crash_the_dearest_call_may_just_have_gone);
	UNIT_RUN(g9_a_leaky_bucket_keeps_its_debt);
	UNIT_RUN(random_histories_of_all_shapes);
	UNIT_RUN(leaky_buckets_equal_exact_fractions);
	UNIT_RUN(draining_takes_as_long_as_foretold);
	UNIT_MAIN_END();
}
