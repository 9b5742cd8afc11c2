/*-------------------------------------------------------------------------
 *
 * test_breaker.c
 *	  Circuit breakers: every transition of the state machine, and random histories
 *	  against a model that keeps every call and every probe.
 *
 * Copyright (c) 2026, the quota authors
 *
 *-------------------------------------------------------------------------
 */
#include "unit.h"
#include "random.h"
#include "breaker.h"

#include <string.h>

#define SEC			INT64_C(1000000000)
#define UNKNOWN		INT64_MIN
#define HISTORIES	4000
#define EVENTS		300

/* Half of at least four calls within ten seconds; open for five; two probes. */
static const BreakerRules half = {10 * SEC, 5 * SEC, 60 * SEC, 500, 4, 0, 2};

static Breaker
closed(int64_t now_ns)
{
	Breaker		b;

	breaker_init(&b, &half, now_ns);
	return b;
}

/* n calls end now; true when the state changes by the last of them */
static bool
ends(Breaker *b, BreakerOutcome outcome, int n, int64_t now_ns)
{
	bool		moved = false;

	while (n-- > 0)
		moved = breaker_report(b, outcome, UNKNOWN, now_ns);
	return moved;
}

/* open since that instant */
static Breaker
open_since(int64_t at_ns)
{
	Breaker		b = closed(0);

	breaker_settle(&b, at_ns);
	CHECK(ends(&b, BREAKER_FAILURE, 4, at_ns));
	CHECK_EQ(b.state, BREAKER_OPEN);
	return b;
}

/* half open since second 5, with so many probes out */
static Breaker
half_open(int probes)
{
	Breaker		b = open_since(0);

	CHECK(breaker_settle(&b, 5 * SEC));
	CHECK_EQ(b.state, BREAKER_HALF_OPEN);
	for (int i = 0; i < probes; i++)
		CHECK_EQ(breaker_take(&b, 1, 5 * SEC), 65 * SEC);
	return b;
}

/* ---------- closed ---------- */

UNIT_TEST(closed_stays_closed_below_the_least_number_of_calls)
{
	Breaker		b = closed(0);

	CHECK_EQ(breaker_fit(&b), INT64_MAX);
	CHECK_EQ(breaker_opens_ns(&b, 1000), INT64_MIN);
	CHECK_EQ(breaker_take(&b, 1000, 0), 0);
	CHECK(!ends(&b, BREAKER_FAILURE, 3, 0));
	CHECK_EQ(b.state, BREAKER_CLOSED);
	CHECK_EQ(breaker_failures(&b), 3);
}

UNIT_TEST(closed_opens_at_the_ratio)
{
	Breaker		b = closed(0);

	CHECK(!ends(&b, BREAKER_SUCCESS, 4, 0));
	CHECK(!ends(&b, BREAKER_FAILURE, 3, SEC));
	CHECK_EQ(b.state, BREAKER_CLOSED);
	CHECK(ends(&b, BREAKER_FAILURE, 1, SEC));
	CHECK_EQ(b.state, BREAKER_OPEN);
	CHECK_EQ(b.until_ns, 6 * SEC);
	CHECK_EQ(b.opened, 1);
}

/* a success may also be what completes the least number of calls */
UNIT_TEST(closed_opens_with_the_call_that_completes_the_number)
{
	Breaker		b = closed(0);

	CHECK(!ends(&b, BREAKER_FAILURE, 3, 0));
	CHECK(ends(&b, BREAKER_SUCCESS, 1, 0));
	CHECK_EQ(b.state, BREAKER_OPEN);
}

UNIT_TEST(closed_forgets_what_is_older_than_the_window)
{
	Breaker		b = closed(0);

	ends(&b, BREAKER_FAILURE, 3, 0);
	breaker_settle(&b, 10 * SEC - 1);
	CHECK_EQ(breaker_calls(&b), 3);
	breaker_settle(&b, 10 * SEC);
	CHECK_EQ(breaker_calls(&b), 0);
	CHECK(breaker_is_idle(&b));
	CHECK(!ends(&b, BREAKER_FAILURE, 3, 10 * SEC));
	breaker_settle(&b, INT64_C(1) << 60);
	CHECK(breaker_is_idle(&b));
}

UNIT_TEST(closed_counts_no_more_than_the_last_calls)
{
	BreakerRules last = half;
	Breaker		b;

	last.window_calls = 4;
	breaker_init(&b, &last, 0);
	ends(&b, BREAKER_SUCCESS, 50, 0);
	CHECK_EQ(breaker_calls(&b), 4);
	CHECK(!ends(&b, BREAKER_FAILURE, 1, SEC));
	CHECK(ends(&b, BREAKER_FAILURE, 1, SEC));
	CHECK_EQ(b.state, BREAKER_OPEN);
}

UNIT_TEST(closed_ignores_what_says_nothing)
{
	Breaker		b = closed(0);

	CHECK(!ends(&b, BREAKER_NO_VERDICT, 100, 0));
	CHECK(breaker_is_idle(&b));
}

/* ---------- open ---------- */

UNIT_TEST(open_admits_nothing_until_its_time)
{
	Breaker		b = open_since(SEC);

	CHECK_EQ(breaker_fit(&b), 0);
	CHECK_EQ(breaker_opens_ns(&b, 2), 6 * SEC);
	CHECK_EQ(breaker_opens_ns(&b, 3), BREAKER_NEVER);
	CHECK(!breaker_settle(&b, 6 * SEC - 1));
	CHECK_EQ(b.state, BREAKER_OPEN);
	CHECK(breaker_settle(&b, 6 * SEC));
	CHECK_EQ(b.state, BREAKER_HALF_OPEN);
	CHECK(!breaker_is_idle(&b));
}

UNIT_TEST(open_learns_nothing_of_calls_that_were_under_way)
{
	Breaker		b = open_since(0);

	CHECK(!ends(&b, BREAKER_SUCCESS, 50, SEC));
	CHECK(!ends(&b, BREAKER_FAILURE, 50, SEC));
	CHECK_EQ(b.state, BREAKER_OPEN);
	CHECK_EQ(b.until_ns, 5 * SEC);
}

/* ---------- half open ---------- */

UNIT_TEST(half_open_lets_so_many_probes_go)
{
	Breaker		b = half_open(0);

	CHECK_EQ(breaker_fit(&b), 2);
	CHECK_EQ(breaker_take(&b, 1, 5 * SEC), 65 * SEC);
	CHECK_EQ(breaker_fit(&b), 1);
	CHECK_EQ(breaker_opens_ns(&b, 2), 65 * SEC);
	CHECK_EQ(breaker_take(&b, 1, 6 * SEC), 66 * SEC);
	CHECK_EQ(breaker_fit(&b), 0);
	CHECK_EQ(breaker_opens_ns(&b, 1), 65 * SEC);
	CHECK_EQ(breaker_opens_ns(&b, 2), 66 * SEC);
	CHECK_EQ(breaker_opens_ns(&b, 3), BREAKER_NEVER);
}

UNIT_TEST(half_open_closes_when_all_probes_succeed)
{
	Breaker		b = half_open(2);

	CHECK(!breaker_report(&b, BREAKER_SUCCESS, 5 * SEC, 6 * SEC));
	CHECK_EQ(b.state, BREAKER_HALF_OPEN);
	CHECK_EQ(breaker_fit(&b), 1);
	CHECK(breaker_report(&b, BREAKER_SUCCESS, 5 * SEC, 6 * SEC));
	CHECK_EQ(b.state, BREAKER_CLOSED);
	CHECK_EQ(b.opened, 0);
	CHECK(breaker_is_idle(&b));
}

/* one of two is half of them, and no other outcome can change that */
UNIT_TEST(half_open_opens_again_as_soon_as_that_is_sure)
{
	Breaker		b = half_open(2);

	CHECK(breaker_report(&b, BREAKER_FAILURE, 5 * SEC, 7 * SEC));
	CHECK_EQ(b.state, BREAKER_OPEN);
	CHECK_EQ(b.until_ns, 12 * SEC);
	CHECK_EQ(b.opened, 2);
	CHECK(breaker_settle(&b, 12 * SEC));
	CHECK_EQ(breaker_fit(&b), 2);
}

UNIT_TEST(half_open_closes_with_fewer_failures_than_the_ratio)
{
	BreakerRules three = half;
	Breaker		b = half_open(0);

	three.probes = 3;
	breaker_configure(&b, &three, 5 * SEC);
	CHECK(!ends(&b, BREAKER_FAILURE, 1, 6 * SEC));
	CHECK(!ends(&b, BREAKER_SUCCESS, 1, 6 * SEC));
	CHECK(ends(&b, BREAKER_SUCCESS, 1, 6 * SEC));
	CHECK_EQ(b.state, BREAKER_CLOSED);
}

UNIT_TEST(half_open_gives_lost_probes_back)
{
	Breaker		b = half_open(2);

	CHECK(!breaker_settle(&b, 65 * SEC - 1));
	CHECK_EQ(breaker_fit(&b), 0);
	CHECK(!breaker_settle(&b, 65 * SEC));
	CHECK_EQ(breaker_fit(&b), 2);
	CHECK_EQ(b.state, BREAKER_HALF_OPEN);
}

UNIT_TEST(half_open_gives_probes_back_that_were_never_sent)
{
	Breaker		b = half_open(1);

	CHECK_EQ(breaker_take(&b, 1, 6 * SEC), 66 * SEC);
	breaker_return(&b, 1, 65 * SEC);
	breaker_return(&b, 1, 65 * SEC);	/* gone already */
	CHECK_EQ(breaker_fit(&b), 1);
	CHECK_EQ(breaker_opens_ns(&b, 2), 66 * SEC);
	breaker_return(&b, 1, 66 * SEC);
	CHECK_EQ(breaker_fit(&b), 2);
}

UNIT_TEST(half_open_heeds_no_call_from_before)
{
	Breaker		b = half_open(2);

	CHECK(!breaker_report(&b, BREAKER_FAILURE, 5 * SEC - 1, 6 * SEC));
	CHECK_EQ(breaker_fit(&b), 0);
	CHECK_EQ(b.state, BREAKER_HALF_OPEN);
}

/* it answers, but not whether it is well: another probe may go */
UNIT_TEST(half_open_probe_without_a_verdict)
{
	Breaker		b = half_open(2);

	CHECK(!ends(&b, BREAKER_NO_VERDICT, 2, 6 * SEC));
	CHECK_EQ(b.state, BREAKER_HALF_OPEN);
	CHECK_EQ(breaker_fit(&b), 2);
}

/* ---------- rules ---------- */

UNIT_TEST(rules_change_in_every_state)
{
	BreakerRules other = half;
	Breaker		b = closed(0);

	ends(&b, BREAKER_SUCCESS, 4, 0);
	ends(&b, BREAKER_FAILURE, 2, SEC);
	other.window_ns = 100 * SEC;
	breaker_configure(&b, &other, 2 * SEC);
	CHECK_EQ(breaker_calls(&b), 6);
	CHECK_EQ(breaker_failures(&b), 2);
	breaker_settle(&b, 50 * SEC);
	CHECK_EQ(breaker_calls(&b), 6);
	other.window_calls = 4;
	breaker_configure(&b, &other, 50 * SEC);
	CHECK_EQ(breaker_calls(&b), 4);
	CHECK(breaker_failures(&b) <= 2);

	b = open_since(0);
	other.open_ns = SEC;
	breaker_configure(&b, &other, 0);
	CHECK(breaker_settle(&b, SEC));

	b = half_open(2);
	other.probes = 1;
	breaker_configure(&b, &other, 5 * SEC);
	CHECK_EQ(breaker_fit(&b), 0);
	CHECK(ends(&b, BREAKER_SUCCESS, 1, 6 * SEC));
	CHECK_EQ(b.state, BREAKER_CLOSED);

	/* more are out than there are probes now: both must end */
	b = half_open(1);
	CHECK_EQ(breaker_take(&b, 1, 6 * SEC), 66 * SEC);
	breaker_configure(&b, &other, 6 * SEC);
	CHECK_EQ(breaker_opens_ns(&b, 1), 66 * SEC);
	breaker_settle(&b, 66 * SEC - 1);
	CHECK_EQ(breaker_fit(&b), 0);
	breaker_settle(&b, 66 * SEC);
	CHECK_EQ(breaker_fit(&b), 1);
}

/* ---------- histories ---------- */

typedef struct Ended
{
	int64_t		part;
	bool		failed;
} Ended;

/* Everything since the last transition, in lists. */
typedef struct Model
{
	BreakerRules rules;
	BreakerState state;
	int64_t		since_ns;
	int			n;
	Ended		ended[EVENTS];
	int			n_out;
	int64_t		out[EVENTS];
	int			good;
	int			bad;
	bool		moved;			/* ever */
} Model;

static void
model_enter(Model *m, BreakerState state, int64_t now_ns)
{
	m->state = state;
	m->since_ns = now_ns;
	m->n = m->n_out = m->good = m->bad = 0;
	m->moved = true;
}

/* Calls of the window, and how many of them failed. */
static int
model_calls(const Model *m, int64_t now_ns, int *failed)
{
	int64_t		part = (now_ns - m->since_ns) / (m->rules.window_ns / BREAKER_PARTS);
	int			n = 0;

	*failed = 0;
	for (int i = m->n - 1; i >= 0; i--)
	{
		if (m->ended[i].part <= part - BREAKER_PARTS ||
			(m->rules.window_calls > 0 && n == m->rules.window_calls))
			break;
		n++;
		*failed += m->ended[i].failed;
	}
	return n;
}

static void
model_settle(Model *m, int64_t now_ns)
{
	int			left = 0;

	for (int i = 0; i < m->n_out; i++)
		if (m->out[i] > now_ns)
			m->out[left++] = m->out[i];
	m->n_out = left;
	if (m->state == BREAKER_OPEN && now_ns >= m->since_ns + m->rules.open_ns)
		model_enter(m, BREAKER_HALF_OPEN, now_ns);
}

/* Takes the probe out that ends then, or the first to end. */
static void
model_drop(Model *m, int64_t until_ns)
{
	int			which = -1;

	for (int i = 0; i < m->n_out; i++)
		if (until_ns == 0 ? which < 0 || m->out[i] < m->out[which]
			: m->out[i] == until_ns && which < 0)
			which = i;
	if (which >= 0)
		m->out[which] = m->out[--m->n_out];
}

static void
model_report(Model *m, BreakerOutcome outcome, int64_t began_ns, int64_t now_ns)
{
	int			failed;
	int			n;

	if (m->moved && began_ns != UNKNOWN && began_ns < m->since_ns)
		return;
	if (m->state == BREAKER_HALF_OPEN)
	{
		model_drop(m, 0);
		m->good += outcome == BREAKER_SUCCESS;
		m->bad += outcome == BREAKER_FAILURE;
		if (m->bad > 0 && m->bad * 1000 >= m->rules.probes * m->rules.failure_milli)
			model_enter(m, BREAKER_OPEN, now_ns);
		else if (m->good + m->bad >= m->rules.probes)
			model_enter(m, BREAKER_CLOSED, now_ns);
	}
	else if (m->state == BREAKER_CLOSED && outcome != BREAKER_NO_VERDICT)
	{
		m->ended[m->n].part = (now_ns - m->since_ns) / (m->rules.window_ns / BREAKER_PARTS);
		m->ended[m->n++].failed = outcome == BREAKER_FAILURE;
		n = model_calls(m, now_ns, &failed);
		if (n >= m->rules.min_calls && failed > 0 &&
			failed * 1000 >= n * m->rules.failure_milli)
			model_enter(m, BREAKER_OPEN, now_ns);
	}
}

static int64_t
model_fit(const Model *m)
{
	if (m->state == BREAKER_CLOSED)
		return INT64_MAX;
	return m->state == BREAKER_OPEN ? 0 : m->rules.probes - m->n_out;
}

static BreakerRules
random_rules(void)
{
	BreakerRules r = {0};

	r.window_ns = 10 * (1 + random_magnitude(3 * SEC));
	r.open_ns = 1 + random_magnitude(10 * SEC);
	r.probe_ns = 1 + random_magnitude(10 * SEC);
	r.failure_milli = (int32_t) (1 + random_below(1000));
	r.min_calls = (int32_t) (1 + random_below(12));
	r.window_calls = random_below(2) == 0 ? 0
		: (int32_t) (r.min_calls + random_below(BREAKER_MAX_CALLS - r.min_calls + 1));
	r.probes = (int32_t) (1 + random_below(BREAKER_MAX_PROBES));
	return r;
}

/* how often each of them was seen to follow the other */
static int	seen[3][3];

UNIT_TEST(any_history_is_as_the_model_says)
{
	static Model m;

	for (int h = 0; h < HISTORIES; h++)
	{
		int			ill = (int) random_below(101);
		int64_t		now_ns = random_magnitude(1000 * SEC);
		Breaker		b;

		memset(&m, 0, sizeof(m));
		m.rules = random_rules();
		m.since_ns = now_ns;
		breaker_init(&b, &m.rules, now_ns);
		for (int e = 0; e < EVENTS; e++)
		{
			BreakerState before = m.state;
			bool		moved = false;
			int			failed;

			if (random_below(4) == 0)
				now_ns += random_magnitude(8 * SEC);
			moved |= breaker_settle(&b, now_ns);
			model_settle(&m, now_ns);
			CHECK_EQ(moved, m.state != before);
			before = m.state;
			CHECK_EQ(breaker_fit(&b), model_fit(&m));
			if (random_below(3) == 0 && breaker_fit(&b) > 0)
			{
				int64_t		until_ns = breaker_take(&b, 1, now_ns);

				CHECK_EQ(until_ns, m.state == BREAKER_HALF_OPEN
						 ? now_ns + m.rules.probe_ns : 0);
				if (until_ns > 0)
					m.out[m.n_out++] = until_ns;
				if (until_ns > 0 && random_below(4) == 0)
				{
					breaker_return(&b, 1, until_ns);
					model_drop(&m, until_ns);
				}
			}
			else
			{
				BreakerOutcome outcome = random_below(20) == 0 ? BREAKER_NO_VERDICT
					: random_below(101) < ill ? BREAKER_FAILURE : BREAKER_SUCCESS;
				int64_t		began_ns = random_below(2) == 0 ? UNKNOWN
					: now_ns - random_magnitude(4 * SEC);

				moved = breaker_report(&b, outcome, began_ns, now_ns);
				model_report(&m, outcome, began_ns, now_ns);
				CHECK_EQ(moved, m.state != before);
			}
			seen[before][m.state]++;
			CHECK_EQ(b.state, m.state);
			CHECK_EQ(b.since_ns, m.since_ns);
			CHECK_EQ(breaker_calls(&b), model_calls(&m, now_ns, &failed));
			CHECK_EQ(breaker_failures(&b), failed);
			CHECK_EQ(b.n_out, m.n_out);
		}
	}
	/* and all of it was seen */
	CHECK(seen[BREAKER_CLOSED][BREAKER_OPEN] > 1000);
	CHECK(seen[BREAKER_HALF_OPEN][BREAKER_OPEN] > 1000);
	CHECK(seen[BREAKER_HALF_OPEN][BREAKER_CLOSED] > 1000);
	CHECK_EQ(seen[BREAKER_OPEN][BREAKER_CLOSED], 0);
	CHECK_EQ(seen[BREAKER_CLOSED][BREAKER_HALF_OPEN], 0);
}

int
main(void)
{
	UNIT_RUN(closed_stays_closed_below_the_least_number_of_calls);
	UNIT_RUN(closed_opens_at_the_ratio);
	UNIT_RUN(closed_opens_with_the_call_that_completes_the_number);
	UNIT_RUN(closed_forgets_what_is_older_than_the_window);
	UNIT_RUN(closed_counts_no_more_than_the_last_calls);
	UNIT_RUN(closed_ignores_what_says_nothing);
	UNIT_RUN(open_admits_nothing_until_its_time);
	UNIT_RUN(open_learns_nothing_of_calls_that_were_under_way);
	UNIT_RUN(half_open_lets_so_many_probes_go);
	UNIT_RUN(half_open_closes_when_all_probes_succeed);
	UNIT_RUN(half_open_opens_again_as_soon_as_that_is_sure);
	UNIT_RUN(half_open_closes_with_fewer_failures_than_the_ratio);
	UNIT_RUN(half_open_gives_lost_probes_back);
	UNIT_RUN(half_open_gives_probes_back_that_were_never_sent);
	UNIT_RUN(half_open_heeds_no_call_from_before);
	UNIT_RUN(half_open_probe_without_a_verdict);
	UNIT_RUN(rules_change_in_every_state);
	UNIT_RUN(any_history_is_as_the_model_says);
	UNIT_MAIN_END();
}
