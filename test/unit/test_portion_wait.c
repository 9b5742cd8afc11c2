/*-------------------------------------------------------------------------
 *
 * test_portion_wait.c
 *	  When who is refused for the sake of others is told to come again: against
 *	  asking at any instant, in random states of all kinds of rates.
 *
 *-------------------------------------------------------------------------
 */
#include "unit.h"

#include "portion.h"
#include "portion_active.h"
#include "random.h"

#include <string.h>

#define SECOND INT64_C(1000000000)
#define MAX_TENANTS 80

/* All there is, so that it can be put back: what it points to is in it. */
typedef struct State
{
	Portions	portions;
	Portion		portion[MAX_TENANTS];
	PortionRules rules;
	Meter		meter;
} State;

static State state;
static State kept;
static int64_t weight_milli[MAX_TENANTS];
static int	ntenants;
static MeterRules meter_rules;
static int64_t now_ns;

/* A call, and what its class leaves and waits for besides. */
typedef struct Asked
{
	int			tenant;
	int64_t		cost;
	int64_t		n;
	int64_t		leave;
	int64_t		from_ns;
} Asked;

/* ---- a limit ---- */

/* Both clocks go in whole microseconds, in which not_before is told. */
static void
settle(int64_t at_ns)
{
	at_ns -= at_ns % 1000;
	now_ns = at_ns;
	meter_settle(&state.meter, at_ns, at_ns / 1000);
	portion_rules_at(&state.rules, &state.meter, at_ns);
	portions_settle(&state.portions, &state.rules, meter_rules.rate,
					meter_level(&state.meter), at_ns);
}

static PortionStand
stand_of(const Asked *a)
{
	return portion_stand(&state.portions, &state.portion[a->tenant],
						 weight_milli[a->tenant], &state.rules, meter_rules.rate,
						 meter_rules.capacity, a->cost, a->n, now_ns);
}

/* As decisions do. */
static bool
is_admitted(const Asked *a, const PortionStand *s)
{
	return s->until_ns <= now_ns && a->from_ns <= now_ns &&
		meter_fit(&state.meter, a->cost,
				  s->leave > a->leave ? s->leave : a->leave) >= a->n;
}

static void
refuse(const Asked *a)
{
	portion_refuse(&state.portions, &state.portion[a->tenant], weight_milli[a->tenant],
				   a->cost * a->n, now_ns);
}

static bool
ask(const Asked *a)
{
	PortionStand s = stand_of(a);
	MeterTake	noted = {0};

	if (!is_admitted(a, &s))
	{
		refuse(a);
		return false;
	}
	meter_take(&state.meter, &noted, a->cost * a->n);
	portion_take(&state.portions, &state.portion[a->tenant], weight_milli[a->tenant],
				 &state.rules, &s, a->cost, a->n, now_ns);
	return true;
}

/* Asked then, of the state that was kept, after some have looked. */
static bool
would_be_admitted(const Asked *a, int64_t at_ns, int looks)
{
	int64_t		from_ns = now_ns;
	PortionStand s;
	bool		admitted;

	for (int i = 1; i <= looks; i++)
		settle(from_ns + (int64_t) ((__int128) (at_ns - from_ns) * i / (looks + 1)));
	settle(at_ns);
	s = stand_of(a);
	admitted = is_admitted(a, &s);
	state = kept;
	now_ns = from_ns;
	return admitted;
}

static int64_t
told(const Asked *a, bool asks)
{
	PortionCall call = {
		.weight_milli = weight_milli[a->tenant],
		.rules = &state.rules,
		.meter = &state.meter,
		.rate = meter_rules.rate,
		.capacity = meter_rules.capacity,
		.cost = a->cost,
		.n = a->n,
		.leave = a->leave,
		.from_ns = a->from_ns,
		.asks = asks,
		.now_ns = now_ns,
		.wall_us = now_ns / 1000
	};

	int64_t		wait = portion_wait(&state.portions, &state.portion[a->tenant], &call);

	return wait == BUCKET_NEVER ? wait : (wait + 999) / 1000 * 1000;
}

/* ---- random ones ---- */

static int64_t
later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static void
make_limit(MeterShape shape)
{
	int64_t		amount = 1 + random_below(random_below(2) == 0 ? 8 : 60);
	int64_t		period_ns = SECOND / (1 + random_below(3));

	memset(&state, 0, sizeof(state));
	memset(&meter_rules, 0, sizeof(meter_rules));
	meter_rules.shape = shape;
	meter_rules.capacity = shape == METER_BUCKET || shape == METER_PACED
		? 1 + random_below(2 * amount) : amount;
	meter_rules.period_ns = period_ns;
	meter_rules.anchor_us = random_below(1000000);
	meter_rules.largest = meter_rules.dearest = meter_rules.capacity;
	CHECK(bucket_rate_make(&meter_rules.rate, amount, 0, period_ns));
	now_ns = (SECOND + random_below(SECOND)) / 1000 * 1000;
	meter_init_full(&state.meter, &meter_rules, now_ns, now_ns / 1000);
	state.rules.whole = (meter_rules.capacity * (1 + random_below(9)) + 9) / 10;
	state.rules.ahead = (1 + random_below(3)) * amount;
	state.rules.window_ns = period_ns / 4 + random_below(3 * SECOND);
	state.rules.spares = shape != METER_WINDOW;
	settle(now_ns);
}

static Asked
random_call(void)
{
	Asked		a = {.tenant = (int) random_below(ntenants)};
	int64_t		most = meter_rules.capacity;

	a.cost = 1 + random_below(random_below(3) == 0 ? most : 1 + most / 8);
	a.n = 1 + (random_below(3) == 0 ? random_below(most / a.cost) : 0);
	a.leave = random_below(4) == 0 ? random_below(1 + most - a.cost * a.n) : 0;
	a.from_ns = random_below(8) == 0 ? now_ns + random_below(250000) * 1000 : INT64_MIN;
	return a;
}

static void
make_history(int tenants)
{
	ntenants = tenants;
	for (int i = 0; i < ntenants; i++)
		weight_milli[i] = 1000 * (1 + random_below(4));
	for (int i = 0; i < 10 + 2 * tenants; i++)
	{
		Asked		a = random_call();

		settle(now_ns + random_below(SECOND / (1 + 10 * random_below(8))));
		a.from_ns = INT64_MIN;
		(void) ask(&a);
		if (random_below(12) == 0)
			portion_await(&state.portions, &state.portion[a.tenant],
						  weight_milli[a.tenant], a.cost);
		else if (state.portion[a.tenant].waits > 0 && random_below(2) == 0)
			portion_await(&state.portions, &state.portion[a.tenant],
						  weight_milli[a.tenant], 0);
	}
	settle(now_ns + random_below(SECOND / (random_below(2) == 0 ? 2 : 50)));
	/* just before a window ends, where much begins anew */
	if (state.rules.ends_ns > 0 && random_below(2) == 0)
		settle(later(now_ns, state.rules.ends_ns -
					 random_below((state.rules.ends_ns - state.rules.begins_ns) / 8)));
}

/* No instant of some before it is told is early enough, as they may not be in order. */
static void
check_none_before(const Asked *a, int64_t wait)
{
	for (int i = 0; i < 40 && wait > 0; i++)
		CHECK(!would_be_admitted(a, now_ns + random_below(wait), i % 3));
	for (int i = 0; i < ntenants; i++)
		for (int k = -1; k <= 1; k++)
		{
			int64_t		at_ns = state.portion[i].asked_ns + state.rules.window_ns +
				k * 1000;

			if (at_ns >= now_ns && at_ns < now_ns + wait)
				CHECK(!would_be_admitted(a, at_ns, 0));
		}
}

static int	nexact;

/* One that is refused: when told it is admitted, and a microsecond sooner it is not. */
static void
check_told(bool asks)
{
	Asked		a = random_call();
	PortionStand s = stand_of(&a);
	ClaimsBefore before = portions_sooner(&state.portions, &state.portion[a.tenant]);
	int64_t		wait;

	/* what those that wait will do is a guess */
	if (is_admitted(&a, &s) || before.lasting > 0)
		return;
	wait = told(&a, asks);
	if (asks)
		refuse(&a);
	kept = state;
	if (wait == BUCKET_NEVER)
	{
		CHECK(a.n > 1);
		CHECK(!would_be_admitted(&a, now_ns + 1000 * SECOND, 0));
		return;
	}
	CHECK(wait > 0);
	for (int looks = 0; looks < 3; looks++)
		CHECK(would_be_admitted(&a, now_ns + wait, looks));
	nexact++;
	CHECK(!would_be_admitted(&a, now_ns + wait - 1000, 0));
	CHECK(!would_be_admitted(&a, now_ns + wait - 1000, 2));
	check_none_before(&a, wait);
}

static void
check_kind(MeterShape shape)
{
	nexact = 0;
	for (int round = 0; round < 12000; round++)
	{
		make_limit(shape);
		make_history(2 + (int) random_below(7));
		check_told(round % 4 != 0);
	}
	CHECK(nexact > 4000);
}

UNIT_TEST(told_times_are_exact_for_token_buckets)
{
	check_kind(METER_BUCKET);
}

UNIT_TEST(told_times_are_exact_for_leaky_buckets)
{
	check_kind(METER_PACED);
}

UNIT_TEST(told_times_are_exact_for_fixed_windows)
{
	check_kind(METER_WINDOW);
}

UNIT_TEST(told_times_are_exact_for_sliding_windows)
{
	check_kind(METER_SLIDING);
}

/*
 * Of the next window its reserve is whole, so that a claim keeps a call which fitted
 * at the end of the one before, until there is room for both.
 */
UNIT_TEST(told_times_heed_the_reserve_of_the_next_window)
{
	Asked		a = {.tenant = 0, .cost = 1, .n = 15, .from_ns = INT64_MIN};
	Asked		b = {.tenant = 1, .cost = 1, .n = 1, .from_ns = INT64_MIN};

	make_limit(METER_WINDOW);
	meter_rules.capacity = 16;
	meter_rules.period_ns = SECOND;
	meter_rules.anchor_us = 0;
	CHECK(bucket_rate_make(&meter_rules.rate, 16, 0, SECOND));
	meter_init_full(&state.meter, &meter_rules, SECOND, SECOND / 1000);
	state.rules.whole = 12;
	state.rules.ahead = 0;
	state.rules.window_ns = 3 * SECOND;
	weight_milli[0] = weight_milli[1] = 1000;
	settle(SECOND);
	CHECK(ask(&a));
	settle(2 * SECOND - SECOND / 100);
	a.n = 1;
	CHECK(ask(&a));
	CHECK(!ask(&b));
	settle(now_ns + SECOND / 1000);
	/* of 16 two and what two more would need may be kept from it, and 13 would be */
	a.cost = 2;
	CHECK(!ask(&a));
	kept = state;
	CHECK_EQ(now_ns + told(&a, true), 2 * SECOND + 83334000);
	CHECK(!would_be_admitted(&a, 2 * SECOND, 0));
	CHECK(!would_be_admitted(&a, 2 * SECOND + 83333000, 0));
	CHECK(would_be_admitted(&a, 2 * SECOND + 83334000, 0));
}

/*
 * Of those who leave 32 are looked at; from there on it is told at the latest, which is
 * when the last claim has lapsed.
 */
UNIT_TEST(told_times_are_never_early_when_many_leave)
{
	for (int claims = 20; claims < 79; claims++)
	{
		Asked		a = {.tenant = 0, .cost = 1, .n = 1, .from_ns = INT64_MIN};
		int64_t		wait;
		int64_t		last_ns = 0;

		make_limit(METER_SLIDING);
		meter_rules.capacity = 100;
		meter_rules.period_ns = 60 * SECOND;
		CHECK(bucket_rate_make(&meter_rules.rate, 100, 0, 60 * SECOND));
		meter_init_full(&state.meter, &meter_rules, now_ns, 0);
		state.rules.whole = 50;
		state.rules.window_ns = 2 * SECOND;
		for (int i = 0; i <= claims; i++)
			weight_milli[i] = 1000;
		/* it is served, so its turn is later than theirs; ten are left */
		a.n = 90;
		CHECK(ask(&a));
		a.n = 1;
		settle(now_ns + 3 * SECOND / 2);
		for (int i = 1; i <= claims; i++)
		{
			settle(now_ns + 7000000);
			a.tenant = i;
			refuse(&a);
			last_ns = now_ns;
		}
		a.tenant = 0;
		ntenants = claims + 1;
		CHECK(!is_admitted(&a, &(PortionStand) {.leave = stand_of(&a).leave}));
		wait = told(&a, true);
		refuse(&a);
		kept = state;
		CHECK(would_be_admitted(&a, now_ns + wait, 1));
		CHECK(would_be_admitted(&a, now_ns + wait - 1000, 0) == (claims - 8 > 32));
		CHECK(now_ns + wait <= last_ns + 2 * SECOND);
	}
}

/* ---- shares ---- */

/* Whoever looks when: shares are the same, also while the limit fills up. */
UNIT_TEST(looks_change_no_share)
{
	for (int round = 0; round < 500; round++)
	{
		Asked		a;
		State		once;
		int64_t		from_ns;
		int64_t		at_ns;

		make_limit((MeterShape) (round % 4));
		make_history(5);
		a = random_call();
		(void) told(&a, true);
		refuse(&a);
		kept = state;
		from_ns = now_ns;
		at_ns = now_ns + random_below(3 * SECOND);
		settle(at_ns);
		once = state;
		state = kept;
		now_ns = from_ns;
		for (int i = 0; i < 50; i++)
			settle(now_ns + random_below((at_ns - now_ns) / 4 + 1));
		settle(at_ns);
		CHECK(state.portions.share_now == once.portions.share_now);
		CHECK(state.portions.carry == once.portions.carry);
		CHECK_EQ(state.portions.part, once.portions.part);
	}
}

int
main(void)
{
	UNIT_RUN(told_times_are_exact_for_token_buckets);
	UNIT_RUN(told_times_are_exact_for_leaky_buckets);
	UNIT_RUN(told_times_are_exact_for_fixed_windows);
	UNIT_RUN(told_times_are_exact_for_sliding_windows);
	UNIT_RUN(told_times_heed_the_reserve_of_the_next_window);
	UNIT_RUN(told_times_are_never_early_when_many_leave);
	UNIT_RUN(looks_change_no_share);
	UNIT_MAIN_END();
}
