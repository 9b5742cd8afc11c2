/*-------------------------------------------------------------------------
 *
 * test_window.c
 *	  Fixed windows: examples, and random histories with steps of the wall clock,
 *	  clocks that are not read at the same instant, changes of configuration and
 *	  takes that are rolled back, against a slow model that keeps everything.
 *
 * Copyright (c) 2026, the quota authors
 *
 *-------------------------------------------------------------------------
 */
#include "unit.h"
#include "random.h"
#include "bucket.h"
#include "window.h"

__extension__ typedef __int128 wide;

#define US		INT64_C(1000)
#define MS		INT64_C(1000000)
#define SEC		INT64_C(1000000000)
#define DAY		(86400 * SEC)

#define HISTORIES	4000
#define EVENTS		150

/* A window of ten units in ten seconds at a time that is no border. */
static Window
tens(int64_t now_ns, int64_t wall_s)
{
	Window		w;

	window_init_full(&w, 10, 10 * SEC, 0, now_ns, wall_s * 1000000);
	return w;
}

static bool
admit(Window *w, WindowTake *t, int64_t n)
{
	WindowTake	none = {0, 0};

	if (window_level(w) < n)
		return false;
	window_take(w, t ? t : &none, n);
	return true;
}

/* ---------- examples ---------- */

UNIT_TEST(windows_begin_where_the_wall_clock_says)
{
	Window		w = tens(0, 1003);

	CHECK_EQ(w.begin_ns, -3 * SEC);
	CHECK_EQ(w.end_ns, 7 * SEC);
	CHECK(admit(&w, NULL, 10));
	CHECK(!admit(&w, NULL, 1));
	CHECK_EQ(window_wait(&w, 1), 7 * SEC);
	CHECK_EQ(window_wait(&w, 10), 7 * SEC);
	CHECK_EQ(window_wait(&w, 11), BUCKET_NEVER);
	window_settle(&w, 7 * SEC - 1, 1010 * 1000000 - 1);
	CHECK_EQ(window_level(&w), 0);
	window_settle(&w, 7 * SEC, 1010 * 1000000);
	CHECK_EQ(window_level(&w), 10);
	CHECK_EQ(w.end_ns, 17 * SEC);
}

UNIT_TEST(an_anchor_and_times_before_it)
{
	Window		w;

	/* a border 3 s after the epoch, seen 1 s and long before */
	window_init_full(&w, 1, 10 * SEC, 3000000, 0, 2000000);
	CHECK_EQ(w.end_ns, SEC);
	window_init_full(&w, 1, 10 * SEC, 3000000, 0, 3000000);
	CHECK_EQ(w.end_ns, 10 * SEC);
	window_init_full(&w, 1, 10 * SEC, 3000000, 0, -20000000);
	CHECK_EQ(w.end_ns, 3 * SEC);
}

UNIT_TEST(a_step_of_the_wall_clock_never_shortens_a_window)
{
	Window		w = tens(0, 1000);

	CHECK(admit(&w, NULL, 10));
	/* forward by an hour and 4 s, in the window: nothing happens */
	window_settle(&w, 5 * SEC, (1000 + 5 + 3604) * INT64_C(1000000));
	CHECK_EQ(window_level(&w), 0);
	CHECK_EQ(w.end_ns, 10 * SEC);
	/* the next one lasts to the second border by the new time */
	window_settle(&w, 10 * SEC, (1000 + 10 + 3604) * INT64_C(1000000));
	CHECK_EQ(window_level(&w), 10);
	CHECK_EQ(w.end_ns, 26 * SEC);
	window_settle(&w, 26 * SEC, (1000 + 26 + 3604) * INT64_C(1000000));
	CHECK_EQ(w.end_ns, 36 * SEC);

	/* back by 4 s: 14 s long */
	w = tens(0, 1000);
	window_settle(&w, 10 * SEC, (1000 + 10 - 4) * INT64_C(1000000));
	CHECK_EQ(w.end_ns, 24 * SEC);
}

UNIT_TEST(an_early_reading_is_no_step)
{
	Window		w = tens(0, 1000);

	/* 20 ms passed between the two clocks */
	window_settle(&w, 10 * SEC, 1010 * INT64_C(1000000) + 20000);
	CHECK_EQ(w.end_ns, 20 * SEC);
	/* and at the next border none, or it was behind */
	window_settle(&w, 20 * SEC, 1020 * INT64_C(1000000));
	CHECK_EQ(w.end_ns, 30 * SEC);
	window_settle(&w, 30 * SEC, 1030 * INT64_C(1000000) - 20000);
	CHECK_EQ(w.end_ns, 40 * SEC + 20 * MS);
	window_settle(&w, 40 * SEC + 20 * MS, 1040 * INT64_C(1000000) + 20000);
	CHECK_EQ(w.end_ns, 50 * SEC + 20 * MS);
	/* after more than a window of rest it is where the clock says again */
	window_settle(&w, 65 * SEC, 1065 * INT64_C(1000000));
	CHECK_EQ(w.end_ns, 70 * SEC);
	/* beyond the tolerance it is a step */
	window_settle(&w, 70 * SEC, 1070 * INT64_C(1000000) + 100001);
	CHECK_EQ(w.end_ns, 90 * SEC - 100001 * US);
}

UNIT_TEST(returns_go_to_their_own_window_only)
{
	Window		w = tens(0, 1000);
	WindowTake	t = {0, 0};
	WindowTake	u = {0, 0};

	CHECK(admit(&w, &t, 6));
	CHECK(window_take_joins(&w, &t));
	CHECK(admit(&w, &t, 3));
	window_take_return(&w, &t, 2);
	CHECK_EQ(window_level(&w), 3);
	CHECK_EQ(t.n, 7);
	window_settle(&w, 10 * SEC, 1010 * 1000000);
	CHECK(!window_take_joins(&w, &t));
	CHECK(admit(&w, &u, 10));
	window_take_return(&w, &t, INT64_MAX);
	CHECK_EQ(window_level(&w), 0);
	window_take_return(&w, &u, INT64_MAX);
	window_take_return(&w, &u, INT64_MAX);
	CHECK_EQ(window_level(&w), 10);
}

UNIT_TEST(g9_changes_of_capacity_keep_what_was_taken)
{
	Window		w = tens(0, 1000);

	CHECK(admit(&w, NULL, 8));
	window_configure(&w, 5, 10 * SEC, 0, SEC, SEC, 1001 * 1000000);
	CHECK_EQ(window_level(&w), -3);
	CHECK_EQ(window_wait(&w, 5), 9 * SEC);
	window_configure(&w, 12, 10 * SEC, 0, SEC, SEC, 1001 * 1000000);
	CHECK_EQ(window_level(&w), 4);
	window_configure(&w, 0, 10 * SEC, 0, SEC, SEC, 1001 * 1000000);
	CHECK_EQ(window_wait(&w, 1), BUCKET_NEVER);
	CHECK_EQ(window_drain(&w, 1), BUCKET_NEVER);
}

UNIT_TEST(g9_changes_of_the_borders_never_shorten_a_window)
{
	Window		w = tens(0, 1000);

	CHECK(admit(&w, NULL, 10));
	/* borders at 1 s after the old ones: this window gets 11 s */
	window_configure(&w, 10, 10 * SEC, 1000000, 0, SEC / 2, 1000500000);
	CHECK_EQ(w.end_ns, 11 * SEC);
	CHECK_EQ(window_level(&w), 0);
	/* and 10 again */
	window_configure(&w, 10, 10 * SEC, 0, SEC, SEC, 1001 * 1000000);
	CHECK_EQ(w.end_ns, 10 * SEC);
	/* a period of 2 s: it has lasted that already */
	window_configure(&w, 10, 2 * SEC, 0, 5 * SEC, 5 * SEC, 1005 * 1000000);
	CHECK_EQ(window_level(&w), 0);
	CHECK_EQ(w.end_ns, 6 * SEC);
	window_settle(&w, 6 * SEC, 1006 * 1000000);
	CHECK_EQ(window_level(&w), 10);
}

UNIT_TEST(g9_a_change_acts_from_when_it_was_made)
{
	Window		w = tens(0, 1000);

	CHECK(admit(&w, NULL, 10));
	/* 2 s windows since 3 s, seen at 5 s: the one of 4 s has begun */
	window_configure(&w, 10, 2 * SEC, 0, 3 * SEC, 5 * SEC, 1005 * 1000000);
	CHECK_EQ(window_level(&w), 10);
	CHECK_EQ(w.begin_ns, 4 * SEC);
	CHECK_EQ(w.end_ns, 6 * SEC);
}

UNIT_TEST(g14_a_window_that_may_be_older_counts_as_used_up)
{
	Window		w;

	/* since 2 s before now; the window began 3 s before */
	window_init_drained(&w, 10, 10 * SEC, 0, -2 * SEC, 0, 1003 * 1000000);
	CHECK_EQ(window_level(&w), 0);
	CHECK_EQ(window_wait(&w, 1), 7 * SEC);
	/* it began then; or later */
	window_init_drained(&w, 10, 10 * SEC, 0, -3 * SEC, 0, 1003 * 1000000);
	CHECK_EQ(window_level(&w), 10);
	CHECK(!window_is_full(&w));
	window_init_drained(&w, 10, 10 * SEC, 0, -20 * SEC, 0, 1003 * 1000000);
	CHECK_EQ(window_level(&w), 10);
	CHECK(window_is_full(&w));
	/* an instant to come is now */
	window_init_drained(&w, 10, 10 * SEC, 0, SEC, 0, 1003 * 1000000);
	CHECK_EQ(window_level(&w), 0);
}

UNIT_TEST(it_is_forgotten_only_a_period_after_its_last_take)
{
	Window		w = tens(0, 1000);

	CHECK(window_is_full(&w));
	CHECK(admit(&w, NULL, 1));
	CHECK(!window_is_full(&w));
	window_settle(&w, 10 * SEC, 1010 * 1000000);
	CHECK(!window_is_full(&w));
	window_settle(&w, 20 * SEC, 1020 * 1000000);
	CHECK(window_is_full(&w));
	CHECK(admit(&w, NULL, 1));
	window_settle(&w, 40 * SEC, 1040 * 1000000);
	CHECK(window_is_full(&w));
}

UNIT_TEST(draining_takes_whole_windows)
{
	Window		w = tens(0, 1003);

	CHECK(admit(&w, NULL, 6));
	CHECK_EQ(window_drain(&w, 0), 0);
	CHECK_EQ(window_drain(&w, 4), 0);
	CHECK_EQ(window_drain(&w, 5), 7 * SEC);
	CHECK_EQ(window_drain(&w, 14), 7 * SEC);
	CHECK_EQ(window_drain(&w, 15), 17 * SEC);
	window_take(&w, &(WindowTake) {0, 0}, 100);
	CHECK_EQ(window_drain(&w, 1), 7 * SEC);
	CHECK_EQ(window_drain(&w, INT64_MAX), BUCKET_NEVER);
}

UNIT_TEST(extremes_overflow_nothing)
{
	Window		w;
	WindowTake	t = {0, 0};

	window_init_full(&w, INT64_MAX, 1, INT64_MIN, INT64_MIN, INT64_MAX);
	window_take(&w, &t, INT64_MAX);
	window_take(&w, &t, INT64_MAX);
	CHECK_EQ(window_level(&w), 0);
	window_settle(&w, INT64_MAX, INT64_MIN);
	window_configure(&w, 0, INT64_MAX, INT64_MAX, INT64_MIN, INT64_MAX,
					 INT64_MIN);
	CHECK_EQ(window_level(&w), 0);
	window_init_drained(&w, 1, INT64_MAX, INT64_MAX, INT64_MIN, INT64_MAX,
						INT64_MIN);
	CHECK(w.end_ns > w.begin_ns);
}

/* ---------- random histories ---------- */

#define TAKES	4

/* What was taken, for ever; and what was given back of it. */
typedef struct Taken
{
	int64_t		at_ns;
	int64_t		n;
	int64_t		number;			/* of its window, by the model */
	int64_t		capacity;		/* in force */
	int64_t		period_ns;		/* in force */
	bool		forced;			/* whether it was there or not */
} Taken;

typedef struct World
{
	Window		w;
	int64_t		now;
	int64_t		ahead;			/* of the wall clock, in nanoseconds */
	int64_t		late;			/* how much later it is read, at most */
	bool		changed;		/* period or anchor, ever */
	/* the model: everything taken, and where its window lies */
	int64_t		begin;
	int64_t		end;
	int64_t		number;
	int			n;
	Taken		log[EVENTS];
	/* of each transaction: what it took is log[i] for these i */
	WindowTake	take[TAKES];
	bool		mine[TAKES][EVENTS];
} World;

/* The wall clock in microseconds, read a bit after the monotonic one. */
static int64_t
read_wall(const World *h)
{
	return (h->now + h->ahead + (h->late > 0 ? random_below(h->late) : 0)) / 1000;
}

/*
 * The rule of window.h, word by word: at the first border that is not before a
 * period (less the tolerance) has passed since the window began.
 */
static int64_t
model_end(const Window *w, int64_t begin, int64_t now, int64_t wall_us)
{
	int64_t		tolerance = w->period_ns / 8 < 100 * MS ? w->period_ns / 8 : 100 * MS;
	wide		offset = (wide) now - (wide) wall_us * 1000;	/* wall to now */
	wide		border = (wide) w->anchor_us * 1000 + offset;

	border += ((wide) now - border) / w->period_ns * w->period_ns;
	border -= 2 * (wide) w->period_ns;
	while (border <= now || border < (wide) begin + w->period_ns - tolerance)
		border += w->period_ns;
	if (border < (wide) begin + w->period_ns)
		border = (wide) begin + w->period_ns;
	return (int64_t) border;
}

/* When the window of now began by the wall clock. */
static int64_t
model_border(const Window *w, int64_t now, int64_t wall_us)
{
	wide		border = (wide) w->anchor_us * 1000 + now - (wide) wall_us * 1000;

	border += ((wide) now - border) / w->period_ns * w->period_ns;
	while (border > now)
		border -= w->period_ns;
	while (border + w->period_ns <= now)
		border += w->period_ns;
	return (int64_t) border;
}

/* The window has ended and another one lasts. */
static void
model_settle(World *h, int64_t now, int64_t wall_us)
{
	int64_t		border;

	if (now < h->end)
		return;
	border = model_border(&h->w, now, wall_us);
	h->begin = border > h->end ? border : h->end;
	CHECK(model_end(&h->w, h->begin, now, wall_us) - h->end >= h->w.period_ns);
	h->end = model_end(&h->w, h->begin, now, wall_us);
	h->number++;
}

/* What is used of the window by the log. */
static int64_t
model_used(const World *h)
{
	int64_t		used = 0;

	for (int i = 0; i < h->n; i++)
		if (h->log[i].number == h->number)
			used += h->log[i].n;
	return used;
}

static void
check_same(const World *h)
{
	const Window *w = &h->w;

	CHECK_EQ(w->begin_ns, h->begin);
	CHECK_EQ(w->end_ns, h->end);
	CHECK_EQ(w->used, model_used(h));
	CHECK_EQ(window_level(w), w->capacity - model_used(h));
	CHECK(w->end_ns - w->begin_ns >= w->period_ns);
	/* a window whose period was made shorter has lasted for as long as it had */
	CHECK(h->changed || w->end_ns - w->begin_ns < 2 * w->period_ns);
	CHECK(w->end_ns > h->now);
}

static void
random_world(World *h)
{
	static const int64_t periods[] = {MS, SEC, 7 * SEC, 3600 * SEC, DAY};
	static const World none;
	int64_t		wall_us;

	*h = none;
	h->now = random_magnitude(1000 * DAY) - random_magnitude(DAY);
	h->ahead = random_magnitude(10000 * DAY) - random_magnitude(10000 * DAY);
	wall_us = read_wall(h);
	window_init_full(&h->w, random_magnitude(20), periods[random_below(5)],
					 random_magnitude(DAY / US) - random_magnitude(DAY / US),
					 h->now, wall_us);
	h->late = random_below(2) * (h->w.period_ns / 16 < 50 * MS ? h->w.period_ns / 16 : 50 * MS);
	h->begin = model_border(&h->w, h->now, wall_us);
	h->end = model_end(&h->w, h->begin, h->now, wall_us);
	h->number = 1;
}

/* Time goes on, a bit or for some windows; now and then the wall clock jumps. */
static void
step_time(World *h)
{
	int64_t		wall_us;

	switch (random_below(6))
	{
		case 0:
			h->now = h->w.end_ns - random_below(2);
			break;
		case 1:
			h->now += random_below(3 * h->w.period_ns);
			break;
		default:
			h->now += random_magnitude(h->w.period_ns);
	}
	if (random_below(10) == 0)
		h->ahead += random_magnitude(3 * h->w.period_ns) - random_magnitude(3 * h->w.period_ns);
	wall_us = read_wall(h);
	window_settle(&h->w, h->now, wall_us);
	model_settle(h, h->now, wall_us);
	if (random_below(20) == 0)
		window_settle(&h->w, h->now - random_magnitude(DAY), wall_us);
}

static void
step_take(World *h)
{
	int			i = (int) random_below(TAKES);
	WindowTake	none = {0, 0};
	bool		force = random_below(10) == 0;
	int64_t		level = window_level(&h->w);
	int64_t		n = force ? random_below(5)
		: level > 0 ? 1 + random_below(level) : 0;
	bool		noted = random_below(3) > 0;

	if (n == 0)
		return;
	if (noted && !window_take_joins(&h->w, &h->take[i]))
	{
		h->take[i] = none;		/* a record of its own: that one is final */
		for (int k = 0; k < h->n; k++)
			h->mine[i][k] = false;
	}
	window_take(&h->w, noted ? &h->take[i] : &none, n);
	h->log[h->n].at_ns = h->now;
	h->log[h->n].n = n;
	h->log[h->n].number = h->number;
	h->log[h->n].capacity = h->w.capacity;
	h->log[h->n].period_ns = h->w.period_ns;
	h->log[h->n].forced = force && n > level;
	h->mine[i][h->n] = noted;
	h->n++;
}

/* Gives back all, or the newest, of a transaction, or lets it commit. */
static void
step_return(World *h)
{
	int			i = (int) random_below(TAKES);
	WindowTake	none = {0, 0};
	int64_t		n = random_below(3) == 0 ? 1 + random_below(5) : INT64_MAX;

	if (random_below(3) > 0)
	{
		window_take_return(&h->w, &h->take[i], n);
		for (int k = h->n - 1; k >= 0; k--)
			if (h->mine[i][k] && n > 0)
			{
				int64_t		back = h->log[k].n < n ? h->log[k].n : n;

				h->log[k].n -= back;
				n -= back;
			}
		if (n > 0 || h->take[i].n > 0)
			return;
	}
	h->take[i] = none;
	for (int k = 0; k < h->n; k++)
		h->mine[i][k] = false;
}

/* Another capacity, period or anchor, since an instant that has passed. */
static void
step_configure(World *h)
{
	static const int64_t factors[] = {1, 1, 2, 3};
	Window	   *w = &h->w;
	int64_t		capacity = random_below(2) == 0 ? w->capacity : random_magnitude(20);
	int64_t		period = w->period_ns;
	int64_t		anchor = random_below(2) == 0 ? w->anchor_us : random_magnitude(DAY / US);
	int64_t		then;
	int64_t		wall_us;
	int64_t		late;

	period = random_below(2) == 0 ? period * factors[random_below(4)]
		: period / factors[random_below(4)];
	if (period < 1000 || period > 1000 * DAY)
		period = SEC;
	then = h->now + random_magnitude(3 * w->period_ns);
	late = random_below(2) * random_magnitude(3 * period);
	h->now = then + late;
	wall_us = read_wall(h);
	if (period != w->period_ns || anchor != w->anchor_us)
	{
		/* to the instant of the change by the old rules, on by the new ones */
		Window		by = *w;
		wide		then_us = (wide) wall_us * 1000 - late;

		h->changed = true;
		/* the model tells the wall clock in whole microseconds only */
		if (late % 1000 != 0)
		{
			h->now -= late % 1000;
			late -= late % 1000;
			then_us = (wide) wall_us * 1000 - late;
		}
		model_settle(h, then, (int64_t) (then_us / 1000));
		by.period_ns = period;
		by.anchor_us = anchor;
		h->end = model_end(&by, h->begin, then, (int64_t) (then_us / 1000));
	}
	window_configure(w, capacity, period, anchor, then, h->now, wall_us);
	model_settle(h, h->now, wall_us);
}

static void
step_wait(World *h)
{
	int64_t		n = 1 + random_below(22);
	int64_t		wait = window_wait(&h->w, n);
	Window		later = h->w;
	Window		sooner = h->w;

	if (n > h->w.capacity)
		CHECK_EQ(wait, BUCKET_NEVER);
	else if (wait == 0)
		CHECK(window_level(&h->w) >= n);
	else
	{
		window_settle(&later, h->now + wait, (h->now + wait + h->ahead) / 1000);
		CHECK(window_level(&later) >= n);
		window_settle(&sooner, h->now + wait - 1, (h->now + wait - 1 + h->ahead) / 1000);
		CHECK(window_level(&sooner) < n);
	}
}

/* Of any two takes: what was taken from one to the other, both included. */
static bool
g1_holds(const World *h)
{
	for (int i = 0; i < h->n; i++)
	{
		int64_t		sum = 0;
		int64_t		capacity = 0;
		int64_t		period = INT64_MAX;

		for (int k = i; k < h->n; k++)
		{
			const Taken *t = &h->log[k];

			/* what was forced is no admission, but what it leaves counts */
			sum += t->forced ? 0 : t->n;
			capacity = t->capacity > capacity ? t->capacity : capacity;
			period = t->period_ns < period ? t->period_ns : period;
			if (sum > (wide) capacity * ((t->at_ns - h->log[i].at_ns) / period + 2))
				return false;
		}
	}
	return true;
}

UNIT_TEST(random_histories_equal_the_model_and_keep_g1)
{
	static World h;

	for (int history = 0; history < HISTORIES; history++)
	{
		bool		changes = random_below(2) == 0;

		random_world(&h);
		for (int i = 0; i < EVENTS; i++)
		{
			int64_t		what = random_below(100);

			if (what < 40)
				step_time(&h);
			else if (what < 70)
				step_take(&h);
			else if (what < 85)
				step_return(&h);
			else if (what < 95 || !changes)
				step_wait(&h);
			else
				step_configure(&h);
			check_same(&h);
		}
		CHECK(g1_holds(&h));
	}
}

/* Clocks that don't step: every window begins at a border, give or take. */
UNIT_TEST(without_steps_windows_follow_the_wall_clock)
{
	static World h;

	for (int history = 0; history < HISTORIES; history++)
	{
		random_world(&h);
		for (int i = 0; i < EVENTS; i++)
		{
			int64_t		off;
			int64_t		wall_us;

			h.now += random_below(3) == 0 ? random_magnitude(5 * h.w.period_ns)
				: random_below(h.w.period_ns);
			wall_us = read_wall(&h);
			window_settle(&h.w, h.now, wall_us);
			off = h.w.end_ns - model_border(&h.w, h.w.end_ns, (h.w.end_ns + h.ahead) / 1000);
			if (off > h.w.period_ns / 2)
				off -= h.w.period_ns;
			CHECK(off >= -h.late - 1000 && off <= 1000);
		}
	}
}

int
main(void)
{
	UNIT_RUN(windows_begin_where_the_wall_clock_says);
	UNIT_RUN(an_anchor_and_times_before_it);
	UNIT_RUN(a_step_of_the_wall_clock_never_shortens_a_window);
	UNIT_RUN(an_early_reading_is_no_step);
	UNIT_RUN(returns_go_to_their_own_window_only);
	UNIT_RUN(g9_changes_of_capacity_keep_what_was_taken);
	UNIT_RUN(g9_changes_of_the_borders_never_shorten_a_window);
	UNIT_RUN(g9_a_change_acts_from_when_it_was_made);
	UNIT_RUN(g14_a_window_that_may_be_older_counts_as_used_up);
	UNIT_RUN(it_is_forgotten_only_a_period_after_its_last_take);
	UNIT_RUN(draining_takes_whole_windows);
	UNIT_RUN(extremes_overflow_nothing);
	UNIT_RUN(random_histories_equal_the_model_and_keep_g1);
	UNIT_RUN(without_steps_windows_follow_the_wall_clock);
	UNIT_MAIN_END();
}
