/*-------------------------------------------------------------------------
 *
 * test_sliding.c
 *	  The sliding window: examples, and random histories with changes of
 *	  configuration and takes that are rolled back, against a log of everything.
 *
 * Copyright (c) 2026, the quota authors
 *
 *-------------------------------------------------------------------------
 */
#include "unit.h"
#include "random.h"
#include "bucket.h"
#include "sliding.h"

__extension__ typedef __int128 wide;

#define MS		INT64_C(1000000)
#define SEC		INT64_C(1000000000)
#define DAY		(86400 * SEC)

#define HISTORIES	3000
#define EVENTS		250

static Sliding
sliding(int64_t capacity, int64_t period_ns)
{
	Sliding		s;

	sliding_init_full(&s, capacity, period_ns, 0);
	return s;
}

static bool
admit(Sliding *s, SlidingTake *t, int64_t n, int64_t now_ns)
{
	SlidingTake none = {0, 0};

	sliding_settle(s, now_ns);
	if (sliding_level(s) < n)
		return false;
	sliding_take(s, t ? t : &none, n);
	return true;
}

/* sliding_wait(n) is the first instant at which n are there. */
static void
check_wait(const Sliding *s, int64_t n)
{
	int64_t		wait = sliding_wait(s, n);
	Sliding		at = *s;
	Sliding		before = *s;

	if (n > s->capacity)
	{
		CHECK_EQ(wait, BUCKET_NEVER);
		return;
	}
	sliding_settle(&at, s->settled_ns + wait);
	CHECK(sliding_level(&at) >= n);
	if (wait > 0)
	{
		sliding_settle(&before, s->settled_ns + wait - 1);
		CHECK(sliding_level(&before) < n);
	}
}

/* ---------- examples ---------- */

UNIT_TEST(up_to_sixteen_it_is_an_exact_log)
{
	Sliding		s = sliding(16, 60 * SEC);

	for (int i = 0; i < 16; i++)
		CHECK(admit(&s, NULL, 1, i * SEC));
	CHECK(!admit(&s, NULL, 1, 16 * SEC));
	CHECK_EQ(sliding_wait(&s, 1), 44 * SEC);
	CHECK_EQ(sliding_wait(&s, 3), 46 * SEC);
	CHECK_EQ(sliding_wait(&s, 16), 59 * SEC);
	CHECK_EQ(sliding_wait(&s, 17), BUCKET_NEVER);
	CHECK(!admit(&s, NULL, 1, 60 * SEC - 1));
	CHECK(admit(&s, NULL, 1, 60 * SEC));
	CHECK(!admit(&s, NULL, 1, 61 * SEC - 1));
	CHECK(admit(&s, NULL, 1, 61 * SEC));
}

UNIT_TEST(a_larger_amount_comes_back_a_fifteenth_late)
{
	Sliding		s = sliding(100, 60 * SEC);

	/* 4 s an entry: the one of 0 lasts to 4, the next one begins after it */
	CHECK(admit(&s, NULL, 40, 0));
	CHECK(admit(&s, NULL, 40, 4 * SEC));
	CHECK(admit(&s, NULL, 20, 4 * SEC + 1));
	CHECK_EQ(s.n, 2);
	CHECK_EQ(sliding_wait(&s, 1), 60 * SEC - 1);
	CHECK(!admit(&s, NULL, 1, 64 * SEC - 1));
	sliding_settle(&s, 64 * SEC);
	CHECK_EQ(sliding_level(&s), 80);
	sliding_settle(&s, 64 * SEC + 1);
	CHECK_EQ(sliding_level(&s), 100);
	CHECK(sliding_is_full(&s));
}

UNIT_TEST(an_entry_lasts_until_a_period_after_its_last_take)
{
	Sliding		s = sliding(20, 15 * SEC);

	CHECK(admit(&s, NULL, 10, 0));
	CHECK(admit(&s, NULL, 10, SEC));
	/* if it ended with its first, 20 more at 15 s would be 30 in 14 s */
	CHECK(!admit(&s, NULL, 1, 15 * SEC));
	CHECK(admit(&s, NULL, 20, 16 * SEC));
}

UNIT_TEST(returns_go_to_their_own_entry)
{
	Sliding		s = sliding(10, 10 * SEC);
	SlidingTake t = {0, 0};
	SlidingTake u = {0, 0};

	CHECK(admit(&s, &t, 3, 0));
	CHECK(sliding_take_joins(&s, &t));
	CHECK(admit(&s, &t, 1, 0));
	sliding_settle(&s, SEC);
	CHECK(!sliding_take_joins(&s, &t));
	CHECK(admit(&s, &u, 5, SEC));
	sliding_take_return(&s, &t, 2);
	CHECK_EQ(sliding_level(&s), 3);
	CHECK_EQ(sliding_wait(&s, 4), 9 * SEC);
	CHECK_EQ(sliding_wait(&s, 6), 10 * SEC);
	/* the first entry is over, what is left of it has come back */
	CHECK(admit(&s, NULL, 5, 10 * SEC));
	sliding_take_return(&s, &t, INT64_MAX);
	CHECK_EQ(sliding_level(&s), 0);
	sliding_take_return(&s, &u, INT64_MAX);
	sliding_take_return(&s, &u, INT64_MAX);
	CHECK_EQ(sliding_level(&s), 5);
}

UNIT_TEST(g9_changes_of_capacity_keep_what_was_taken)
{
	Sliding		s = sliding(10, 10 * SEC);

	CHECK(admit(&s, NULL, 8, 0));
	sliding_configure(&s, 5, 10 * SEC, SEC, SEC);
	CHECK_EQ(sliding_level(&s), -3);
	CHECK_EQ(sliding_wait(&s, 5), 9 * SEC);
	sliding_configure(&s, 12, 10 * SEC, SEC, SEC);
	CHECK_EQ(sliding_level(&s), 4);
	sliding_configure(&s, 0, 10 * SEC, SEC, SEC);
	CHECK_EQ(sliding_wait(&s, 1), BUCKET_NEVER);
	CHECK_EQ(sliding_drain(&s, 1), BUCKET_NEVER);
}

UNIT_TEST(g9_a_new_period_acts_from_when_it_was_made)
{
	Sliding		s = sliding(10, 10 * SEC);

	CHECK(admit(&s, NULL, 4, 0));
	CHECK(admit(&s, NULL, 6, 2 * SEC));
	/* 3 s since 4 s, seen at 4.5 s: what was taken at 0 is over */
	sliding_configure(&s, 10, 3 * SEC, 4 * SEC, 4500 * MS);
	CHECK_EQ(sliding_level(&s), 4);
	CHECK_EQ(sliding_wait(&s, 10), 500 * MS);
	/* 20 s again: the rest counts until 22 s, what was over is not back */
	sliding_configure(&s, 10, 20 * SEC, 4600 * MS, 4700 * MS);
	CHECK_EQ(sliding_level(&s), 4);
	sliding_settle(&s, 22 * SEC - 1);
	CHECK_EQ(sliding_level(&s), 4);
	sliding_settle(&s, 22 * SEC);
	CHECK_EQ(sliding_level(&s), 10);
}

UNIT_TEST(g14_drained_means_all_at_once)
{
	Sliding		s;

	sliding_init_drained(&s, 100, 60 * SEC, 0, 10 * SEC);
	CHECK_EQ(sliding_level(&s), 0);
	CHECK_EQ(sliding_wait(&s, 1), 50 * SEC);
	sliding_init_drained(&s, 100, 60 * SEC, 20 * SEC, 10 * SEC);
	CHECK_EQ(sliding_wait(&s, 100), 60 * SEC);
	sliding_init_drained(&s, 100, 60 * SEC, 0, 60 * SEC);
	CHECK(sliding_is_full(&s));
}

UNIT_TEST(draining_repeats_every_period)
{
	Sliding		s = sliding(4, 10 * SEC);

	CHECK(admit(&s, NULL, 1, 0));
	CHECK(admit(&s, NULL, 2, 3 * SEC));
	CHECK_EQ(sliding_drain(&s, 0), 0);
	CHECK_EQ(sliding_drain(&s, 1), 0);
	CHECK_EQ(sliding_drain(&s, 2), 7 * SEC);
	CHECK_EQ(sliding_drain(&s, 4), 10 * SEC);
	CHECK_EQ(sliding_drain(&s, 5), 10 * SEC);
	CHECK_EQ(sliding_drain(&s, 6), 17 * SEC);
	CHECK_EQ(sliding_drain(&s, 9), 20 * SEC);
	CHECK_EQ(sliding_drain(&s, INT64_MAX), BUCKET_NEVER);
}

/* More entries than there are: 16 together, one more later. */
UNIT_TEST(a_full_ring_merges_the_closest)
{
	Sliding		s = sliding(16, 70 * SEC);
	SlidingTake none = {0, 0};

	for (int i = 0; i < 16; i++)
		CHECK(admit(&s, NULL, 1, i * MS));
	sliding_configure(&s, 100, 70 * SEC, 35 * SEC, 35 * SEC);
	CHECK(admit(&s, NULL, 1, 35 * SEC));
	CHECK_EQ(s.n, 16);
	sliding_settle(&s, 70 * SEC + 15 * MS);
	CHECK_EQ(sliding_level(&s), 99);
	/* what is forced needs entries, too */
	s = sliding(1, 70 * SEC);
	for (int i = 0; i < 17; i++)
	{
		sliding_settle(&s, i * 2 * SEC);
		sliding_take(&s, &none, 1);
		none.n = 0;
	}
	CHECK_EQ(s.n, 16);
	CHECK_EQ(sliding_level(&s), -16);
}

UNIT_TEST(extremes_overflow_nothing)
{
	Sliding		s;
	SlidingTake t = {0, 0};

	sliding_init_full(&s, INT64_MAX, INT64_MAX, INT64_MIN);
	sliding_take(&s, &t, INT64_MAX);
	sliding_take(&s, &t, INT64_MAX);
	CHECK_EQ(sliding_level(&s), 0);
	CHECK(sliding_wait(&s, INT64_MAX) > 0);
	CHECK(sliding_drain(&s, INT64_MAX) > 0);
	sliding_settle(&s, INT64_MAX);
	CHECK_EQ(sliding_level(&s), INT64_MAX);
	sliding_configure(&s, 0, 1, INT64_MIN, INT64_MAX);
	sliding_init_drained(&s, INT64_MAX, 1, INT64_MIN, INT64_MAX);
	CHECK(sliding_is_full(&s));
}

/* ---------- random histories ---------- */

#define TAKES	4

typedef struct Taken
{
	int64_t		at_ns;
	int64_t		n;
	int64_t		capacity;		/* in force */
	int64_t		period_ns;		/* the shortest in force until the next */
	bool		forced;			/* whether it was there or not */
	bool		over;			/* by some period in force since */
} Taken;

typedef struct World
{
	Sliding		s;
	int64_t		now;
	bool		plain;			/* no change, nothing forced */
	int64_t		longest_ns;		/* period in force, ever */
	int			n;
	Taken		log[EVENTS];
	SlidingTake take[TAKES];
	bool		mine[TAKES][EVENTS];
} World;

/* What is over at this instant by the period in force stays over. */
static void
model_settle(World *h, int64_t at_ns, int64_t period_ns)
{
	for (int i = 0; i < h->n; i++)
		if (at_ns - h->log[i].at_ns >= period_ns)
			h->log[i].over = true;
	if (h->n > 0 && h->log[h->n - 1].period_ns > period_ns)
		h->log[h->n - 1].period_ns = period_ns;
}

/* What was taken after that instant and not given back. */
static int64_t
taken_since(const World *h, int64_t since_ns)
{
	int64_t		sum = 0;

	for (int i = 0; i < h->n; i++)
		if (h->log[i].at_ns > since_ns)
			sum += h->log[i].n;
	return sum;
}

/* Never less than what counts; never more than what counted lately. */
static void
check_bounds(const World *h)
{
	const Sliding *s = &h->s;
	int64_t		counts = 0;
	int64_t		late = h->plain && s->capacity <= SLIDING_SIZE ? 0
		: h->plain ? (s->period_ns + SLIDING_SIZE - 2) / (SLIDING_SIZE - 1)
		: h->longest_ns / 7 + 1;

	for (int i = 0; i < h->n; i++)
		counts += h->log[i].over ? 0 : h->log[i].n;
	CHECK(s->used >= counts);
	CHECK(s->used <= taken_since(h, h->now - s->period_ns - late));
	for (int i = 0; i < s->n; i++)
		CHECK(s->entry[i].last_ns - s->entry[i].first_ns <= late);
	CHECK(sliding_is_full(s) == (s->used == 0));
}

static void
random_world(World *h)
{
	static const int64_t periods[] = {16, MS, SEC, 7 * SEC, 3600 * SEC, DAY};
	static const World none;

	*h = none;
	h->now = random_magnitude(1000 * DAY) - random_magnitude(DAY);
	sliding_init_full(&h->s, random_magnitude(40), periods[random_below(6)], h->now);
	h->plain = true;
	h->longest_ns = h->s.period_ns;
}

static void
step_time(World *h)
{
	int64_t		period = h->s.period_ns;

	switch (random_below(8))
	{
		case 0:					/* to the end of the first entry, or just not */
			if (h->s.n > 0)
				h->now = h->s.entry[0].last_ns + period - random_below(2);
			break;
		case 1:
			h->now += random_below(2 * period);
			break;
		case 2:
		case 3:
			h->now += random_below(period / 8);
			break;
		case 4:
			h->now += random_below(period / 14 + 1);
			break;
		default:
			h->now += random_magnitude(period);
	}
	if (h->now < h->s.settled_ns)
		h->now = h->s.settled_ns;
	model_settle(h, h->now, period);
	sliding_settle(&h->s, h->now);
	if (random_below(20) == 0)
		sliding_settle(&h->s, h->now - random_magnitude(DAY));
}

/* The transaction's takes are final. */
static void
forget_take(World *h, int i)
{
	SlidingTake none = {0, 0};

	h->take[i] = none;
	for (int k = 0; k < h->n; k++)
		h->mine[i][k] = false;
}

static void
step_take(World *h, bool force)
{
	int			i = (int) random_below(TAKES);
	SlidingTake none = {0, 0};
	int64_t		level = sliding_level(&h->s);
	int64_t		n = force || level > 0 ? 1 + random_below(2) : 0;
	bool		noted = random_below(3) > 0;

	if (n > level && !force)
		n = level;
	if (n <= 0)
		return;
	if (random_below(4) == 0 && level > n)
		n = level;
	if (noted && !sliding_take_joins(&h->s, &h->take[i]))
		forget_take(h, i);
	sliding_take(&h->s, noted ? &h->take[i] : &none, n);
	h->log[h->n].at_ns = h->now;
	h->log[h->n].n = n;
	h->log[h->n].capacity = h->s.capacity;
	h->log[h->n].period_ns = h->s.period_ns;
	h->log[h->n].forced = n > level;
	h->mine[i][h->n] = noted;
	h->plain &= n <= level;
	h->n++;
}

/* Gives back all, or the newest, of a transaction, or lets it commit. */
static void
step_return(World *h)
{
	int			i = (int) random_below(TAKES);
	int64_t		n = random_below(3) == 0 ? 1 + random_below(3) : INT64_MAX;

	if (random_below(3) == 0)
	{
		forget_take(h, i);
		return;
	}
	sliding_take_return(&h->s, &h->take[i], n);
	for (int k = h->n - 1; k >= 0; k--)
		if (h->mine[i][k] && n > 0)
		{
			int64_t		back = h->log[k].n < n ? h->log[k].n : n;

			h->log[k].n -= back;
			n -= back;
		}
	if (h->take[i].n == 0)
		forget_take(h, i);
}

static void
step_configure(World *h)
{
	Sliding    *s = &h->s;
	int64_t		capacity = random_below(3) == 0 ? s->capacity : random_magnitude(40);
	int64_t		period = random_below(2) == 0 ? s->period_ns
		: 16 + random_magnitude(2 * s->period_ns);
	int64_t		then = h->now + random_magnitude(s->period_ns);

	h->now = then + random_below(2) * random_magnitude(s->period_ns);
	model_settle(h, then, s->period_ns);
	if (period != s->period_ns)
		model_settle(h, then, period);
	model_settle(h, h->now, period);
	sliding_configure(s, capacity, period, then, h->now);
	h->plain = false;
	if (period > h->longest_ns)
		h->longest_ns = period;
}

/* Of any two takes that are less than every period in force apart. */
static bool
g1_holds(const World *h)
{
	for (int i = 0; i < h->n; i++)
	{
		int64_t		sum = 0;
		int64_t		capacity = 0;
		int64_t		shortest = INT64_MAX;

		for (int k = i; k < h->n; k++)
		{
			const Taken *t = &h->log[k];

			if (t->at_ns - h->log[i].at_ns >= shortest)
				break;
			sum += t->forced ? 0 : t->n;
			capacity = t->capacity > capacity ? t->capacity : capacity;
			shortest = t->period_ns < shortest ? t->period_ns : shortest;
			if (sum > capacity)
				return false;
		}
	}
	return true;
}

UNIT_TEST(random_histories_keep_g1_and_are_hardly_late)
{
	static World h;

	for (int history = 0; history < HISTORIES; history++)
	{
		bool		changes = random_below(3) == 0;
		bool		force = random_below(3) == 0;

		random_world(&h);
		for (int i = 0; i < EVENTS; i++)
		{
			int64_t		what = random_below(100);

			if (what < 35)
				step_time(&h);
			else if (what < 75)
				step_take(&h, force && random_below(8) == 0);
			else if (what < 87)
				step_return(&h);
			else if (what < 96 || !changes)
				check_wait(&h.s, 1 + random_below(h.s.capacity + 2));
			else
				step_configure(&h);
			check_bounds(&h);
		}
		CHECK(g1_holds(&h));
	}
}

/* Calls of one unit, each as soon as it fits, need as long as was foretold. */
UNIT_TEST(draining_takes_as_long_as_foretold)
{
	for (int history = 0; history < 2000; history++)
	{
		Sliding		s = sliding(1 + random_below(16), 1 + random_magnitude(DAY));
		int64_t		n = 1 + random_below(50);
		int64_t		drain;

		for (int i = 0; i < 10; i++)
			(void) admit(&s, NULL, 1, s.settled_ns + random_magnitude(s.period_ns));
		drain = s.settled_ns + sliding_drain(&s, n);
		while (n-- > 0)
			CHECK(admit(&s, NULL, 1, s.settled_ns + sliding_wait(&s, 1)));
		CHECK_EQ(s.settled_ns, drain);
	}
}

int
main(void)
{
	UNIT_RUN(up_to_sixteen_it_is_an_exact_log);
	UNIT_RUN(a_larger_amount_comes_back_a_fifteenth_late);
	UNIT_RUN(an_entry_lasts_until_a_period_after_its_last_take);
	UNIT_RUN(returns_go_to_their_own_entry);
	UNIT_RUN(g9_changes_of_capacity_keep_what_was_taken);
	UNIT_RUN(g9_a_new_period_acts_from_when_it_was_made);
	UNIT_RUN(g14_drained_means_all_at_once);
	UNIT_RUN(draining_repeats_every_period);
	UNIT_RUN(a_full_ring_merges_the_closest);
	UNIT_RUN(extremes_overflow_nothing);
	UNIT_RUN(random_histories_keep_g1_and_are_hardly_late);
	UNIT_RUN(draining_takes_as_long_as_foretold);
	UNIT_MAIN_END();
}
