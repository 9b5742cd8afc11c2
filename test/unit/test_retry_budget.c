/*-------------------------------------------------------------------------
 *
 * test_retry_budget.c
 *	  Retry budgets: examples, random histories with calls that are undone and
 *	  changes of the rules against a model that keeps every call, and the bound on
 *	  retries over every interval.
 *
 * Copyright (c) 2026, the quota authors
 *
 *-------------------------------------------------------------------------
 */
#include "unit.h"
#include "random.h"
#include "bucket.h"
#include "retry_budget.h"

#include <string.h>

#define SEC			RETRY_SLOT_NS
#define HISTORIES	3000
#define EVENTS		150

static const RetryTake nothing;

/* A budget of one fifth and a floor of two, at an instant within a second. */
static RetryBudget
fifth(void)
{
	RetryBudget b;

	retry_init_full(&b, 2, 200, 100 * SEC);
	return b;
}

static bool
retry(RetryBudget *b, int64_t n)
{
	RetryTake	t = nothing;

	if (retry_level(b) < n)
		return false;
	retry_take(b, &t, n);
	return true;
}

static void
first(RetryBudget *b, int64_t n)
{
	RetryTake	t = nothing;

	retry_first(b, &t, n);
}

/* ---------- examples ---------- */

UNIT_TEST(the_floor_is_there_without_first_attempts)
{
	RetryBudget b = fifth();

	CHECK(retry_is_full(&b));
	CHECK_EQ(retry_level(&b), 2);
	CHECK(retry(&b, 1));
	CHECK(retry(&b, 1));
	CHECK(!retry(&b, 1));
	CHECK(!retry_is_full(&b));
	CHECK_EQ(retry_wait(&b, 1), 10 * SEC);
	retry_settle(&b, 100 * SEC + 300);
	CHECK_EQ(retry_wait(&b, 1), 10 * SEC - 300);
	CHECK_EQ(retry_wait(&b, 2), 10 * SEC - 300);
	CHECK_EQ(retry_wait(&b, 3), BUCKET_NEVER);
	retry_settle(&b, 110 * SEC - 1);
	CHECK_EQ(retry_level(&b), 0);
	CHECK_EQ(retry_wait(&b, 1), 1);
	retry_settle(&b, 110 * SEC);
	CHECK_EQ(retry_level(&b), 2);
	CHECK(retry_is_full(&b));
}

UNIT_TEST(first_attempts_bring_their_share)
{
	RetryBudget b = fifth();

	first(&b, 4);
	CHECK_EQ(retry_level(&b), 2);	/* 0.8, rounded down */
	first(&b, 1);
	CHECK_EQ(retry_level(&b), 3);
	first(&b, 1000000);
	CHECK_EQ(retry_level(&b), 2 + 1000005 / 5);
	CHECK_EQ(retry_firsts(&b), 1000005);
	CHECK_EQ(retry_retries(&b), 0);
}

/* What is left sinks when first attempts are forgotten, and rises with retries. */
UNIT_TEST(seconds_take_both_with_them)
{
	RetryBudget b = fifth();

	first(&b, 50);				/* second 100 */
	retry_settle(&b, 103 * SEC);
	CHECK(retry(&b, 12));
	CHECK_EQ(retry_level(&b), 0);
	retry_settle(&b, 110 * SEC);
	CHECK_EQ(retry_level(&b), -10);
	CHECK_EQ(retry_wait(&b, 1), 3 * SEC);
	retry_settle(&b, 113 * SEC);
	CHECK_EQ(retry_level(&b), 2);
}

UNIT_TEST(a_long_silence_forgets_all)
{
	RetryBudget b = fifth();

	first(&b, 50);
	CHECK(retry(&b, 12));
	retry_settle(&b, 1000000 * SEC);
	CHECK_EQ(retry_level(&b), 2);
	CHECK(retry_is_full(&b));
	retry_settle(&b, 5);		/* a clock that went back changes nothing */
	CHECK_EQ(b.settled_ns, 1000000 * SEC);
	/* seconds begin where it is used again */
	retry_settle(&b, 2000000 * SEC + 400);
	CHECK(retry(&b, 2));
	CHECK_EQ(retry_wait(&b, 1), 10 * SEC);
}

UNIT_TEST(what_is_undone_was_never_counted)
{
	RetryBudget b = fifth();
	RetryTake	a = nothing;
	RetryTake	c = nothing;

	CHECK(retry_take_joins(&b, &a));
	retry_first(&b, &a, 10);
	retry_take(&b, &a, 3);
	CHECK_EQ(retry_level(&b), 1);
	retry_settle(&b, 101 * SEC);
	CHECK(!retry_take_joins(&b, &a));
	CHECK(retry_take_joins(&b, &c));
	retry_take(&b, &c, 1);
	retry_take_return(&b, &a, 2);	/* so many retries, no first attempts */
	CHECK_EQ(retry_level(&b), 2);
	CHECK_EQ(retry_firsts(&b), 10);
	retry_take_return(&b, &a, INT64_MAX);
	CHECK_EQ(retry_firsts(&b), 0);
	CHECK_EQ(retry_level(&b), 1);
	retry_settle(&b, 111 * SEC);
	retry_take_return(&b, &c, INT64_MAX);	/* forgotten by now */
	CHECK_EQ(retry_level(&b), 2);
	CHECK_EQ(c.retries, 0);
}

UNIT_TEST(after_a_crash_the_floor_counts_as_used)
{
	RetryBudget b;

	retry_init_drained(&b, 7, 200, 95 * SEC, 100 * SEC);
	CHECK_EQ(retry_level(&b), 0);
	CHECK_EQ(retry_wait(&b, 7), 5 * SEC);
	retry_init_drained(&b, 7, 200, 90 * SEC, 100 * SEC);
	CHECK_EQ(retry_level(&b), 7);
	retry_init_drained(&b, 7, 200, 900 * SEC, 100 * SEC);
	CHECK_EQ(retry_wait(&b, 1), 10 * SEC);
}

UNIT_TEST(no_share_and_no_floor)
{
	RetryBudget b;

	retry_init_full(&b, 0, 0, 0);
	first(&b, 1000);
	CHECK_EQ(retry_level(&b), 0);
	CHECK_EQ(retry_wait(&b, 1), BUCKET_NEVER);
	retry_configure(&b, 0, 1000, 0);
	CHECK_EQ(retry_level(&b), 1000);
	retry_configure(&b, 5, 0, 0);
	CHECK_EQ(retry_level(&b), 5);
}

UNIT_TEST(amounts_and_instants_at_their_bounds)
{
	RetryBudget b;
	RetryTake	t = nothing;

	retry_init_full(&b, INT64_C(1000000000000000), 1000, -5 * SEC - 1);
	for (int i = 0; i < 3; i++)
		retry_first(&b, &t, RETRY_MOST / 2 + 1);
	CHECK_EQ(retry_firsts(&b), RETRY_MOST);
	CHECK_EQ(retry_level(&b), INT64_C(1000000000000000) + RETRY_MOST);
	retry_take_return(&b, &t, INT64_MAX);
	CHECK_EQ(retry_firsts(&b), 0);
	first(&b, 10);
	retry_settle(&b, 5 * SEC - 2);
	CHECK_EQ(retry_firsts(&b), 10);
	retry_settle(&b, 5 * SEC - 1);
	CHECK_EQ(retry_firsts(&b), 0);
}

UNIT_TEST(another_clock)
{
	RetryBudget b = fifth();

	first(&b, 100);
	retry_settle(&b, 103 * SEC);
	CHECK(retry(&b, 20));
	retry_shift(&b, -50 * SEC);
	CHECK_EQ(retry_level(&b), 2);
	retry_settle(&b, 60 * SEC);
	CHECK_EQ(retry_firsts(&b), 0);
	CHECK_EQ(retry_retries(&b), 20);
	retry_settle(&b, 63 * SEC);
	CHECK_EQ(retry_retries(&b), 0);
}

/* ---------- histories ---------- */

/* One call, or several. */
typedef struct Call
{
	int64_t		second;
	int64_t		firsts;
	int64_t		retries;
	int64_t		budget;			/* retries allowed, by the model, when it came */
	RetryTake	take;
} Call;

typedef struct Model
{
	int64_t		origin_ns;		/* seconds are counted from here */
	int64_t		floor;
	int64_t		share_milli;
	int			n;
	Call		calls[EVENTS];
} Model;

/* What the model has left at an instant, if nobody calls before. */
static int64_t
model_level(const Model *m, int64_t at_ns)
{
	int64_t		second = (at_ns - m->origin_ns) / SEC;
	int64_t		firsts = 0;
	int64_t		retries = 0;

	for (int i = 0; i < m->n; i++)
		if (m->calls[i].second > second - RETRY_SLOTS)
		{
			firsts += m->calls[i].firsts;
			retries += m->calls[i].retries;
		}
	return m->floor + firsts * m->share_milli / 1000 - retries;
}

/* Until when n retries have to wait: second by second. */
static int64_t
model_wait(const Model *m, int64_t n, int64_t now_ns)
{
	if (n <= model_level(m, now_ns))
		return 0;
	for (int64_t at_ns = now_ns + SEC - (now_ns - m->origin_ns) % SEC;
		 at_ns <= now_ns + 20 * SEC; at_ns += SEC)
		if (n <= model_level(m, at_ns))
			return at_ns - now_ns;
	return BUCKET_NEVER;
}

/* A call comes: a first attempt, or a retry if it is in the budget. */
static void
call(RetryBudget *b, Model *m, int64_t now_ns)
{
	Call	   *c = &m->calls[m->n];
	int64_t		n = 1 + random_magnitude(30);

	memset(c, 0, sizeof(*c));
	c->second = (now_ns - m->origin_ns) / SEC;
	if (random_below(2) == 0)
		retry_first(b, &c->take, c->firsts = n);
	else if (n <= retry_level(b))
		retry_take(b, &c->take, c->retries = n);
	else
		CHECK(n > model_level(m, now_ns));
	m->n++;
}

/* One that was made rolls back, or a part of its retries returns. */
static void
undo(RetryBudget *b, Model *m)
{
	Call	   *c = &m->calls[random_below(m->n)];
	int64_t		part = random_below(4);

	if (random_below(2) == 0)
	{
		retry_take_return(b, &c->take, INT64_MAX);
		c->firsts = c->retries = 0;
	}
	else
	{
		retry_take_return(b, &c->take, part);
		c->retries -= part < c->retries ? part : c->retries;
	}
}

UNIT_TEST(any_history_is_as_the_model_says)
{
	for (int i = 0; i < HISTORIES; i++)
	{
		int64_t		now_ns = random_below(30 * SEC);
		Model		m = {now_ns, random_below(5), 100 * random_below(11), 0, {{0}}};
		RetryBudget b;

		retry_init_full(&b, m.floor, m.share_milli, now_ns);
		for (int e = 0; e < EVENTS; e++)
		{
			int64_t		n = 1 + random_below(6);

			now_ns += random_magnitude(5 * SEC);
			retry_settle(&b, now_ns);
			if (random_below(40) == 0)
			{
				m.floor = random_below(5);
				m.share_milli = 100 * random_below(11);
				retry_configure(&b, m.floor, m.share_milli, now_ns);
			}
			CHECK_EQ(retry_level(&b), model_level(&m, now_ns));
			CHECK_EQ(retry_wait(&b, n), model_wait(&m, n, now_ns));
			if (m.n > 0 && random_below(5) == 0)
				undo(&b, &m);
			else
				call(&b, &m, now_ns);
		}
	}
}

/* First attempts made and retries admitted in these seconds, both included. */
static int64_t
sum(const Model *m, int64_t from, int64_t to, bool retries)
{
	int64_t		n = 0;

	for (int i = 0; i < m->n; i++)
		if (m->calls[i].second >= from && m->calls[i].second <= to)
			n += retries ? m->calls[i].retries : m->calls[i].firsts;
	return n;
}

/* Retries that take all there is, against the bound in every interval. */
UNIT_TEST(g1_no_interval_has_more_retries_than_its_share)
{
	for (int i = 0; i < HISTORIES / 3; i++)
	{
		Model		m = {0, random_below(5), 100 * random_below(11), 0, {{0}}};
		int64_t		now_ns = 0;
		RetryBudget b;

		retry_init_full(&b, m.floor, m.share_milli, now_ns);
		while (m.n < 60)
		{
			Call	   *c = &m.calls[m.n++];

			now_ns += random_magnitude(4 * SEC);
			retry_settle(&b, now_ns);
			memset(c, 0, sizeof(*c));
			c->second = now_ns / SEC;
			if (random_below(3) == 0)
				retry_first(&b, &c->take, c->firsts = 1 + random_magnitude(40));
			else if (retry_level(&b) > 0)
			{
				c->retries = 1 + random_below(retry_level(&b));
				retry_take(&b, &c->take, c->retries);
			}
		}
		for (int64_t from = 0; from <= now_ns / SEC; from++)
			for (int64_t to = from; to <= now_ns / SEC; to++)
			{
				int64_t		tens = (to - from + 1 + RETRY_SLOTS - 1) / RETRY_SLOTS;

				CHECK(sum(&m, from, to, true) <= m.floor * tens +
					  sum(&m, from - RETRY_SLOTS + 1, to, false) * m.share_milli / 1000);
			}
	}
}

int
main(void)
{
	UNIT_RUN(the_floor_is_there_without_first_attempts);
	UNIT_RUN(first_attempts_bring_their_share);
	UNIT_RUN(seconds_take_both_with_them);
	UNIT_RUN(a_long_silence_forgets_all);
	UNIT_RUN(what_is_undone_was_never_counted);
	UNIT_RUN(after_a_crash_the_floor_counts_as_used);
	UNIT_RUN(no_share_and_no_floor);
	UNIT_RUN(amounts_and_instants_at_their_bounds);
	UNIT_RUN(another_clock);
	UNIT_RUN(any_history_is_as_the_model_says);
	UNIT_RUN(g1_no_interval_has_more_retries_than_its_share);
	UNIT_MAIN_END();
}
