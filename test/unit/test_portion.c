/*-------------------------------------------------------------------------
 *
 * test_portion.c
 *	  What fair portions of one limit promise: simulations in which tenants
 *	  ask whenever they like, and a plain model of the claims.
 *
 *-------------------------------------------------------------------------
 */
#include "unit.h"

#include "portion.h"
#include "portion_claims.h"

#include <stdlib.h>
#include <string.h>

#define SECOND INT64_C(1000000000)

static uint64_t random_state;

static uint32_t
random_below(uint32_t n)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t) ((random_state >> 33) % n);
}

/* ---- a limit, and tenants that ask for it ---- */

#define MAX_TENANTS 64

typedef struct Tenant
{
	Portion		portion;
	int64_t		weight_milli;
	int64_t		gap_ns;			/* between two times it asks, about */
	double		wants;			/* units a second; 0 = as much as it can get */
	int64_t		from_ns;		/* it asks between these */
	int64_t		to_ns;
	bool		regular;		/* gap_ns exactly */
	int			burst;			/* calls it asks for at once, one by one */
	int64_t		next_ns;
	double		backlog;
	int64_t		last_ns;
	int64_t		got;			/* units */
	int64_t		first_ns;		/* when it asked first, -1 = not yet, */
	bool		first_admitted;	/* and what it was told */
} Tenant;

static Tenant tenants[MAX_TENANTS];
static int	ntenants;
static Portions portions;
static PortionRules rules;
static MeterRules meter_rules;
static Meter meter;
static int64_t all_got;

/* "amount" units a second, of which the limit holds "capacity". */
static void
begin(int64_t amount, int64_t capacity)
{
	memset(tenants, 0, sizeof(tenants));
	memset(&portions, 0, sizeof(portions));
	ntenants = 0;
	all_got = 0;
	random_state = 7;
	meter_rules.shape = METER_BUCKET;
	meter_rules.capacity = capacity;
	CHECK(bucket_rate_make(&meter_rules.rate, amount, 0, SECOND));
	meter_init_full(&meter, &meter_rules, 0, 0);
	rules.reserve = rules.whole = (capacity + 1) / 2;
	rules.ahead = 2 * amount;
	rules.window_ns = SECOND;
	rules.spares = true;
}

/* One that asks so often a second. */
static Tenant *
add_tenant(int64_t weight, double wants, int64_t asks)
{
	Tenant	   *t = &tenants[ntenants++];

	t->weight_milli = weight * 1000;
	t->wants = wants;
	t->gap_ns = SECOND / asks;
	t->to_ns = INT64_MAX;
	t->burst = 1;
	t->first_ns = -1;
	t->next_ns = -1;
	return t;
}

static PortionStand
stand_of(const Tenant *t, int64_t cost, int64_t n, int64_t now_ns)
{
	return portion_stand(&portions, t->weight_milli == 0 ? NULL : &t->portion,
						 t->weight_milli, &rules, meter_rules.rate,
						 meter_rules.capacity, cost, n, now_ns);
}

static void
settle(int64_t now_ns)
{
	meter_settle(&meter, now_ns, now_ns / 1000);
	portions_settle(&portions, &rules, meter_rules.rate, meter_level(&meter),
					now_ns);
}

/* n calls of so much: all or none. */
static bool
take(Tenant *t, int64_t cost, int64_t n, int64_t now_ns)
{
	PortionStand s;
	MeterTake	noted = {0};

	settle(now_ns);
	s = stand_of(t, cost, n, now_ns);
	if (s.until_ns > now_ns || meter_fit(&meter, cost, s.leave) < n)
	{
		portion_refuse(&portions, &t->portion, t->weight_milli, cost * n, now_ns);
		return false;
	}
	meter_take(&meter, &noted, cost * n);
	portion_take(&portions, &t->portion, t->weight_milli, &rules, &s, cost, n,
				 now_ns);
	return true;
}

/* The tenant's time has come: it asks, if it wants anything. */
static void
act(Tenant *t, int64_t now_ns, bool counts)
{
	if (t->wants > 0)
	{
		t->backlog += t->wants * (double) (now_ns - t->last_ns) / (double) SECOND;
		t->last_ns = now_ns;
		if (t->backlog > (t->wants > 1 ? t->wants : 1))
			t->backlog = t->wants > 1 ? t->wants : 1;
	}
	for (int i = 0; i < t->burst; i++)
	{
		bool		admitted;

		if (now_ns > t->to_ns || (t->wants > 0 && t->backlog < 1))
			return;
		admitted = take(t, 1, 1, now_ns);
		if (t->first_ns < 0)
		{
			t->first_ns = now_ns;
			t->first_admitted = admitted;
		}
		if (!admitted)
			return;
		t->backlog -= 1;
		t->got += counts;
		all_got += counts;
	}
}

/* Lets them ask until then; what they get before "counted" does not count. */
static void
run(int64_t counted_ns, int64_t end_ns)
{
	for (int i = 0; i < ntenants; i++)
		if (tenants[i].next_ns < 0)
			tenants[i].next_ns = tenants[i].last_ns = tenants[i].from_ns +
				(tenants[i].regular ? 0 :
				 random_below((uint32_t) tenants[i].gap_ns));
	for (;;)
	{
		Tenant	   *t = &tenants[0];
		int64_t		gap;

		for (int i = 1; i < ntenants; i++)
			if (tenants[i].next_ns < t->next_ns)
				t = &tenants[i];
		if (t->next_ns > end_ns)
			return;
		act(t, t->next_ns, t->next_ns >= counted_ns);
		gap = t->gap_ns;
		if (!t->regular)
			gap = gap / 2 + random_below((uint32_t) gap);
		t->next_ns += gap > 0 ? gap : 1;
	}
}

/* Within a part of a hundred, or so many units, of what it should have got. */
static bool
is_about(const Tenant *t, double per_second, double seconds, double percent,
		 double units)
{
	double		should = per_second * seconds;
	double		off = (double) t->got - should;
	double		allowed = should * percent / 100;

	allowed = allowed > units ? allowed : units;
	if (off < 0)
		off = -off;
	if (off > allowed)
		printf("#   tenant %d got %lld, not %.1f\n", (int) (t - tenants),
			   (long long) t->got, should);
	return off <= allowed;
}

/* ---- a lone tenant ---- */

UNIT_TEST(lone_tenant_gets_everything)
{
	Tenant	   *t;

	begin(100, 50);
	t = add_tenant(3, 0, 1000);
	for (int i = 0; i < 50; i++)
		CHECK(take(t, 1, 1, 0));
	CHECK(!take(t, 1, 1, 0));
	/* and the next one as soon as it is there */
	CHECK(!take(t, 1, 1, SECOND / 100 - 1));
	CHECK(take(t, 1, 1, SECOND / 100));
	run(2 * SECOND, 12 * SECOND);
	CHECK(is_about(t, 100, 10, 0, 1));
}

/* ---- scenario 13 (Doorman), whoever asks more often ---- */

static const int64_t asks[][3] = {
	{1000, 1000, 1000}, {5000, 1000, 2000}, {1000, 20000, 1000}, {20000, 1000, 1000}
};

static void
doorman(int64_t amount, int64_t capacity, const int64_t *weights,
		const double *wants, const double *should)
{
	for (int k = 0; k < 4; k++)
	{
		begin(amount, capacity);
		for (int i = 0; i < 3; i++)
			add_tenant(weights[i], wants[i], asks[k][i] * amount / 120);
		run(3 * SECOND, 8 * SECOND);
		for (int i = 0; i < 3; i++)
			CHECK(is_about(&tenants[i], should[i], 5, 5, 2));
		CHECK(all_got <= 5 * amount + capacity);
		CHECK(all_got >= 5 * amount * 97 / 100);
	}
}

UNIT_TEST(s13_what_is_left_is_divided_too)
{
	static const int64_t equal[] = {1, 1, 1};
	static const int64_t weights[] = {6, 4, 2};
	static const int64_t third[] = {10, 10, 30};

	for (int64_t capacity = 10; capacity <= 120; capacity *= 3)
	{
		doorman(120, capacity, equal, (double[]) {1000, 50, 10},
				(double[]) {60, 50, 10});
		doorman(120, capacity, equal, (double[]) {1000, 60, 10},
				(double[]) {55, 55, 10});
		doorman(120, capacity, weights, (double[]) {1000, 1000, 1000},
				(double[]) {60, 40, 20});
		doorman(1000, capacity, third, (double[]) {2000, 500, 700},
				(double[]) {200, 200, 600});
	}
}

/* ---- greedy ones ---- */

/* Ten of weights 1 to 4, of which some ask "times" as often. */
static void
add_ten_greedy(int64_t times)
{
	for (int i = 0; i < 10; i++)
		add_tenant(i % 4 + 1, 0, i % 2 == 0 || (times > 100 && i != 3) ? 500 : 500 * times);
}

static void
ten_greedy(int64_t capacity, int64_t times)
{
	begin(100, capacity);
	add_ten_greedy(times);
}

UNIT_TEST(ten_greedy_settle_on_their_weights_in_two_seconds)
{
	for (int64_t capacity = 1; capacity <= 300; capacity = capacity * 3 + 1)
		for (int64_t times = 1; times <= 1000; times *= 1000)
		{
			ten_greedy(capacity, times);
			run(2 * SECOND, 5 * SECOND);
			for (int i = 0; i < 10; i++)
				CHECK(is_about(&tenants[i],
							   (double) all_got / 3 * (i % 4 + 1) / 23, 3, 5, 1.5));
			CHECK(all_got <= 300 + capacity);
			CHECK(all_got >= 262);	/* an eighth may fill up the reserve */
		}
}

UNIT_TEST(nothing_is_left_unused)
{
	for (int64_t capacity = 3; capacity <= 300; capacity = capacity * 3 + 1)
	{
		ten_greedy(capacity, 10);
		run(30 * SECOND, 50 * SECOND);
		/* but for what it holds more at the end than at the beginning */
		CHECK(all_got >= 1985);
	}
}

UNIT_TEST(who_wakes_is_admitted_at_once)
{
	for (int64_t capacity = 3; capacity <= 300; capacity = capacity * 3 / 2 + 1)
	{
		ten_greedy(capacity, 100);
		/* a refill apart is enough */
		for (int i = 0; i < 50; i++)
		{
			Tenant	   *t = add_tenant(1, 0, 1);

			t->regular = true;
			t->from_ns = 5 * SECOND + i * SECOND / 97;
			t->to_ns = t->from_ns + SECOND / 2;
		}
		run(0, 7 * SECOND);
		for (int i = 10; i < 60; i++)
			CHECK(tenants[i].first_admitted);
	}
}

/* Of a limit that holds one call, who wakes gets one of the next. */
UNIT_TEST(f_capacity_one_acts_in_time)
{
	for (int k = 0; k < 20; k++)
	{
		Tenant	   *t;

		ten_greedy(1, 100);
		t = add_tenant(1, 0, 1000);
		t->from_ns = 5 * SECOND + k * 1234567;
		/* one of each whose turn is the same may be first; its share is half a call */
		run(0, t->from_ns + SECOND / 8);
		CHECK(t->got >= 1);
	}
}

/* Who asks in bursts has its share saved up. */
UNIT_TEST(bursts_find_their_share)
{
	Tenant	   *t;

	begin(100, 100);
	for (int i = 0; i < 3; i++)
		add_tenant(1, 0, 10000);
	t = add_tenant(1, 0, 2);
	t->regular = true;
	t->burst = 50;
	run(5 * SECOND, 25 * SECOND);
	for (int i = 0; i < 4; i++)
		CHECK(is_about(&tenants[i], 25, 20, 10, 1));
}

/* What was saved up and is used is no debt: the others get no more than their share. */
UNIT_TEST(saved_shares_are_no_debt)
{
	begin(120, 60);
	add_tenant(1, 10, 100);
	add_tenant(1, 0, 1000);
	add_tenant(1, 0, 1000);
	run(0, 4 * SECOND);
	tenants[0].wants = 0;
	tenants[0].gap_ns = SECOND / 1000;
	for (int i = 0; i < 3; i++)
		tenants[i].got = 0;
	/* two periods' share, and two at the usual rate */
	run(4 * SECOND, 6 * SECOND);
	CHECK(is_about(&tenants[0], 60, 2, 15, 2));
	for (int i = 0; i < 3; i++)
		tenants[i].got = 0;
	run(9 * SECOND, 14 * SECOND);
	for (int i = 0; i < 3; i++)
		CHECK(is_about(&tenants[i], 40, 5, 5, 1));
}

/* Drop what any of them asked for once, and it is forgotten within the window. */
UNIT_TEST(who_is_gone_holds_nothing_up)
{
	Tenant	   *t;

	begin(100, 40);
	t = add_tenant(1, 0, 1000);
	for (int i = 0; i < 20; i++)
		add_tenant(1, 0, 1000)->to_ns = SECOND;
	run(3 * SECOND, 5 * SECOND);
	CHECK(is_about(t, 100, 2, 0, 1));
	settle(6 * SECOND);
	CHECK_EQ(portions.weight, 0);
	CHECK(portions.claims == NULL);
	CHECK(portions.oldest == NULL);
}

/* ---- sessions that wait ---- */

/*
 * Of three greedy ones one waits instead of asking: it is told when to come, and asks
 * then and, as one that was served, at once.  It has its share; also of a limit that
 * holds one call.
 */
UNIT_TEST(who_waits_has_its_share)
{
	for (int64_t capacity = 1; capacity <= 100; capacity *= 10)
	{
		Tenant	   *t;
		int64_t		asked = 0;

		begin(100, capacity);
		add_tenant(1, 0, 5000);
		add_tenant(2, 0, 1000);
		t = add_tenant(1, 0, 1);
		t->to_ns = -1;			/* by itself it does not ask */
		for (int64_t now_ns = 0; now_ns < 6 * SECOND;)
		{
			bool		admitted;

			if (now_ns < 2 * SECOND)
				t->got = asked = 0;
			admitted = take(t, 1, 1, now_ns);
			asked++;
			t->got += admitted;
			portion_await(&portions, &t->portion, t->weight_milli, 1);
			if (!admitted)
				now_ns += portion_wait(&portions, &t->portion, &(PortionCall) {
					.weight_milli = t->weight_milli, .rules = &rules, .meter = &meter,
					.rate = meter_rules.rate, .capacity = capacity, .cost = 1, .n = 1,
					.asks = true, .now_ns = now_ns, .wall_us = now_ns / 1000
				});
			run(2 * SECOND, now_ns);
		}
		CHECK(is_about(t, 25, 4, 5, 2));
		/* it is woken a few times for each call, not again and again */
		CHECK(asked < 8 * t->got);
		portion_await(&portions, &t->portion, t->weight_milli, 0);
		CHECK(!t->portion.claims);
		CHECK_EQ(portions.waiting, 0);
	}
}

/* It does not lapse; and is gone at once. */
UNIT_TEST(who_waits_keeps_its_claim)
{
	Tenant	   *a;
	Tenant	   *b;

	begin(1, 1);
	a = add_tenant(1, 0, 1);
	b = add_tenant(1, 0, 1);
	CHECK(take(a, 1, 1, 0));
	CHECK(!take(b, 1, 1, 0));
	portion_await(&portions, &b->portion, b->weight_milli, 1);
	for (int i = 1; i < 100; i++)
		CHECK(!take(a, 1, 1, i * 10 * SECOND));
	portion_await(&portions, &b->portion, b->weight_milli, 0);
	CHECK(take(a, 1, 1, 1000 * SECOND));
	settle(1002 * SECOND);
	CHECK_EQ(portions.weight, 0);
}

/*
 * A lone tenant has drained the limit; then all come at once and ask for all they
 * get, which is nothing but their shares.  These leave an eighth, by which the
 * reserve is there again after a while, for who wakes.
 */
UNIT_TEST(a_drained_limit_gets_its_reserve_back)
{
	Tenant	   *t;

	begin(100, 40);
	t = add_tenant(1, 0, 1000);
	while (take(t, 1, 1, 0))
		;
	add_ten_greedy(1);
	run(0, 3 * SECOND);
	settle(3 * SECOND);
	CHECK(meter_level(&meter) >= rules.reserve / 2);
	t = add_tenant(1, 0, 1);
	CHECK(take(t, 1, 1, 3 * SECOND));
}

/* ---- undoing, weights ---- */

UNIT_TEST(aborted_calls_do_not_count)
{
	Tenant	   *a;
	Tenant	   *b;

	begin(100, 10);
	a = add_tenant(1, 0, 1000);
	b = add_tenant(1, 0, 1000);
	run(0, 2 * SECOND);
	/* of a hundred calls at once its turn would be a second late */
	portion_take(&portions, &a->portion, 1000, &rules,
				 &(PortionStand) {0}, 1, 100, 2 * SECOND);
	portion_return(&portions, &a->portion, 100);
	a->got = b->got = 0;
	run(2 * SECOND, 3 * SECOND);
	CHECK(is_about(a, 50, 1, 5, 3));
	CHECK(is_about(b, 50, 1, 5, 3));
}

UNIT_TEST(a_new_weight_acts_at_once)
{
	begin(100, 20);
	add_tenant(1, 0, 1000);
	add_tenant(1, 0, 1000);
	run(0, 2 * SECOND);
	tenants[0].got = tenants[1].got = 0;
	tenants[1].weight_milli = 4000;
	run(2 * SECOND + SECOND / 10, 4 * SECOND + SECOND / 10);
	CHECK(is_about(&tenants[0], 20, 2, 5, 2));
	CHECK(is_about(&tenants[1], 80, 2, 5, 2));
}

/* ---- claims ---- */

/* Against a plain sum. */
UNIT_TEST(claims_before_a_turn)
{
	static Portion node[40];
	Portions	ps;

	memset(node, 0, sizeof(node));
	memset(&ps, 0, sizeof(ps));
	for (int step = 0; step < 200000; step++)
	{
		Portion    *p = &node[random_below(40)];
		fair_time	turn = random_below(20);
		ClaimsBefore found = claims_before(&ps, turn);
		int64_t		sum = 0;
		int64_t		newest = INT64_MIN;

		for (int i = 0; i < 40; i++)
			if (node[i].claims && node[i].turn < turn)
			{
				sum += node[i].claim;
				if (node[i].claim_ns > newest)
					newest = node[i].claim_ns;
			}
		CHECK_EQ(found.units, sum);
		CHECK_EQ(found.newest_ns, newest);
		claims_remove(&ps, p);
		if (random_below(3) > 0)
		{
			p->turn = random_below(20);
			claims_add(&ps, p, 1 + random_below(9), step);
		}
	}
}

/* ---- in flight: scenario 14 ---- */

static bool
fly(Tenant *t, int64_t *free_places, int64_t now_ns)
{
	PortionStand s;

	portions_settle(&portions, &rules, (BucketRate) {0, 1}, 0, now_ns);
	s = portion_flight_stand(&portions, &t->portion, t->weight_milli, &rules,
							 10, 1, 1, now_ns);
	if (*free_places < 1 || s.until_ns > now_ns)
	{
		portion_flight_refuse(&portions, &t->portion, t->weight_milli, 1, now_ns);
		return false;
	}
	portion_flight_take(&portions, &t->portion, t->weight_milli, 1, now_ns);
	--*free_places;
	return true;
}

static void
land(Tenant *t, int64_t *free_places)
{
	portion_flight_end(&portions, &t->portion, 1);
	++*free_places;
}

UNIT_TEST(s14_borrowed_places_are_given_up)
{
	int64_t		places = 10;
	int64_t		now_ns = 0;
	Tenant	   *live;
	Tenant	   *batch;

	begin(1, 10);
	live = add_tenant(7, 0, 1);
	batch = add_tenant(3, 0, 1);
	for (int i = 0; i < 10; i++)
		CHECK(fly(batch, &places, now_ns));
	for (int i = 0; i < 7; i++)
		CHECK(!fly(live, &places, now_ns));
	/* whoever asks first, and however many places come back at once */
	for (int i = 0; i < 4; i++)
		land(batch, &places);
	for (int i = 0; i < 4; i++)
		CHECK(!fly(batch, &places, now_ns));
	for (int i = 0; i < 4; i++)
		CHECK(fly(live, &places, now_ns));
	for (int i = 0; i < 6; i++)
	{
		CHECK(!fly(live, &places, now_ns));
		land(batch, &places);
		if (i < 3)
			CHECK(!fly(batch, &places, now_ns));
		CHECK(fly(i < 3 ? live : batch, &places, now_ns));
	}
	CHECK_EQ(live->portion.in_flight, 7);
	CHECK_EQ(batch->portion.in_flight, 3);
	/* live wants no more: its places are lent out when its claim has lapsed */
	CHECK(!fly(live, &places, now_ns));
	for (int i = 0; i < 7; i++)
		land(live, &places);
	CHECK(!fly(batch, &places, now_ns));
	now_ns += SECOND;
	for (int i = 0; i < 7; i++)
		CHECK(fly(batch, &places, now_ns));
	CHECK_EQ(places, 0);
}

/* Any number of tenants that want all they can get have their shares in the end. */
UNIT_TEST(places_settle_on_weights)
{
	for (int round = 0; round < 200; round++)
	{
		int64_t		places = 10;
		int64_t		now_ns = 0;
		int64_t		weight = 0;
		int64_t		sum[MAX_TENANTS] = {0};

		begin(1, 10);
		random_state = (uint64_t) round;
		for (int i = 0; i < 2 + (int) random_below(4); i++)
			add_tenant(1 + random_below(4), 0, 1);
		for (int step = 0; step < 4000; step++)
		{
			Tenant	   *t = &tenants[random_below((uint32_t) ntenants)];

			now_ns += SECOND / 1000;
			if (random_below(8) == 0 && t->portion.in_flight > 0)
				land(t, &places);
			else
				fly(t, &places, now_ns);
			CHECK(places >= 0);
			for (int i = 0; i < ntenants && step >= 1000; i++)
				sum[i] += tenants[i].portion.in_flight;
		}
		for (int i = 0; i < ntenants; i++)
			weight += tenants[i].weight_milli;
		for (int i = 0; i < ntenants; i++)
		{
			double		off = (double) sum[i] / 3000 -
				10.0 * (double) tenants[i].weight_milli / (double) weight;

			CHECK(off < 1 && off > -1.5);
		}
	}
}

/* ---- random tenants, weights and wants ---- */

/* Fills up by weight what each wants: the fair division of so much. */
static void
divide(double amount, double *should)
{
	bool		full[MAX_TENANTS] = {false};

	for (;;)
	{
		double		weight = 0;
		double		left = amount;
		bool		more = false;

		for (int i = 0; i < ntenants; i++)
			if (full[i])
				left -= tenants[i].wants;
			else
				weight += (double) tenants[i].weight_milli;
		for (int i = 0; i < ntenants; i++)
		{
			if (full[i])
				continue;
			should[i] = left * (double) tenants[i].weight_milli / weight;
			if (tenants[i].wants > 0 && tenants[i].wants < should[i])
			{
				full[i] = more = true;
				should[i] = tenants[i].wants;
			}
		}
		if (!more)
			return;
	}
}

UNIT_TEST(random_tenants_are_served_fairly)
{
	for (int round = 0; round < 15; round++)
	{
		double		should[MAX_TENANTS];
		double		sum = 0;
		int64_t		capacity;

		random_state = (uint64_t) round * 77;
		capacity = 20 + random_below(200);
		begin(200, capacity);
		random_state = (uint64_t) round * 77 + 1;
		for (int i = 0; i < 2 + (int) random_below(6); i++)
			add_tenant(1 + random_below(4),
					   random_below(2) == 0 ? 0 : 1 + random_below(200),
					   1000 + random_below(3) * 3000);
		divide(200, should);
		run(5 * SECOND, 15 * SECOND);
		for (int i = 0; i < ntenants; i++)
		{
			sum += should[i];
			CHECK(is_about(&tenants[i], should[i], 10, 5, 15));
		}
		CHECK((double) all_got <= 10 * sum * 1.01 + (double) capacity);
		CHECK((double) all_got >= 10 * sum * 0.98 - 20);
	}
}

int
main(void)
{
	UNIT_RUN(lone_tenant_gets_everything);
	UNIT_RUN(s13_what_is_left_is_divided_too);
	UNIT_RUN(ten_greedy_settle_on_their_weights_in_two_seconds);
	UNIT_RUN(nothing_is_left_unused);
	UNIT_RUN(who_wakes_is_admitted_at_once);
	UNIT_RUN(f_capacity_one_acts_in_time);
	UNIT_RUN(bursts_find_their_share);
	UNIT_RUN(saved_shares_are_no_debt);
	UNIT_RUN(who_is_gone_holds_nothing_up);
	UNIT_RUN(who_waits_has_its_share);
	UNIT_RUN(who_waits_keeps_its_claim);
	UNIT_RUN(a_drained_limit_gets_its_reserve_back);
	UNIT_RUN(aborted_calls_do_not_count);
	UNIT_RUN(a_new_weight_acts_at_once);
	UNIT_RUN(claims_before_a_turn);
	UNIT_RUN(s14_borrowed_places_are_given_up);
	UNIT_RUN(places_settle_on_weights);
	UNIT_RUN(random_tenants_are_served_fairly);
	UNIT_MAIN_END();
}
