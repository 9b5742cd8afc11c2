/*-------------------------------------------------------------------------
 *
 * test_class_order.c
 *	  The class step: reserves, ageing, rank, and what they promise.
 *
 *-------------------------------------------------------------------------
 */
#include "unit.h"

#include "class_order.h"

#include <string.h>

static uint64_t random_state;

static uint32_t
random_below(uint32_t n)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t) ((random_state >> 33) % n);
}

/* ---- a provider with some classes ---- */

static ClassOrder order;
static int64_t served[CLASS_ORDER_MAX];
static int64_t served_by[3];	/* by ClassWhy */
static int64_t now_ns;

static void
begin(void)
{
	memset(&order, 0, sizeof(order));
	memset(served, 0, sizeof(served));
	memset(served_by, 0, sizeof(served_by));
	now_ns = 0;
}

static void
add(int i, int rank, int reserve_milli)
{
	class_set(&order, i, rank, reserve_milli);
	order.place[i].deadline_ns = CLASS_NO_DEADLINE;
	class_join(&order, i);
}

static int
dispatch(int64_t cost)
{
	ClassWhy	why;
	int			i = class_pick(&order, now_ns, &why);

	if (i < 0)
		return i;
	class_charge(&order, i, cost, why, false);
	served[i] += cost;
	served_by[why] += cost;
	return i;
}

/* ---- rank ---- */

UNIT_TEST(lowest_rank_first)
{
	begin();
	add(0, 3, 0);
	add(1, 1, 0);
	add(2, 2, 0);
	CHECK_EQ(dispatch(1), 1);
	class_leave(&order, 1);
	CHECK_EQ(dispatch(1), 2);
	class_leave(&order, 2);
	CHECK_EQ(dispatch(1), 0);
	class_leave(&order, 0);
	CHECK_EQ(dispatch(1), -1);
}

/* Classes of equal rank share by cost, one that comes later as well. */
UNIT_TEST(equal_ranks_share_by_cost)
{
	begin();
	add(0, 1, 0);
	add(1, 1, 0);
	for (int n = 0; n < 1000; n++)
	{
		ClassWhy	why;

		dispatch(class_pick(&order, 0, &why) == 0 ? 7 : 1);
	}
	CHECK(served[0] - served[1] <= 7 && served[1] - served[0] <= 7);
	add(2, 1, 0);
	served[0] = served[1] = 0;
	for (int n = 0; n < 300; n++)
		dispatch(1);
	for (int i = 0; i < 3; i++)
		CHECK(served[i] >= 96 && served[i] <= 104);
	/* what comes to a rank takes its place there, not its past */
	add(3, 2, 0);
	class_set(&order, 0, 2, 0);
	class_leave(&order, 1);
	class_leave(&order, 2);
	memset(served, 0, sizeof(served));
	for (int n = 0; n < 100; n++)
		dispatch(1);
	CHECK_EQ(served[0], 50);
	CHECK_EQ(served[3], 50);
}

/* ---- reserves ---- */

UNIT_TEST(reserve_is_met_and_no_extra)
{
	begin();
	add(0, 1, 0);
	add(1, 2, 50);
	for (int window = 0; window < 100; window++)
	{
		int64_t		before = served[1];

		for (int n = 0; n < 100; n++)
			dispatch(1);
		CHECK_EQ(served[1] - before, 5);
	}
}

/* The floor: least of served - reserve * total over every interval. */
typedef struct Floor
{
	double		high;			/* greatest so far */
	double		drop;			/* deepest fall from it */
} Floor;

static void
see(Floor *f, double value)
{
	if (value > f->high)
		f->high = value;
	if (f->high - value > f->drop)
		f->drop = f->high - value;
}

/*
 * Random reserves that add up to 1 at most and random costs; a class without one
 * floods.  Over every interval each class gets its part less a few dear jobs.
 */
UNIT_TEST(reserves_hold_over_every_interval)
{
	double		worst = 0;

	for (uint64_t seed = 1; seed <= 50; seed++)
	{
		Floor		floors[6] = {{0, 0}};
		int			left = 1000;
		int64_t		total = 0;
		int64_t		dearest = 0;

		begin();
		random_state = seed;
		add(0, 0, 0);
		for (int i = 1; i < 6; i++)
		{
			int			reserve = seed % 5 == 0 ? 200
				: (int) random_below((uint32_t) left / 2);

			left -= reserve;
			add(i, (int) random_below(3), reserve);
		}
		for (int n = 0; n < 4000; n++)
		{
			int64_t		cost = seed % 2 ? 1 + random_below(500) :
				random_below(20) == 0 ? 1000 : 1;

			dispatch(cost);
			total += cost;
			if (cost > dearest)
				dearest = cost;
			for (int i = 1; i < 6; i++)
				see(&floors[i], (double) served[i] - (double) total *
					order.place[i].reserve_milli / 1000);
		}
		for (int i = 1; i < 6; i++)
			if (order.place[i].reserve_milli > 0 &&
				floors[i].drop / (double) dearest > worst)
				worst = floors[i].drop / (double) dearest;
	}
	printf("#   worst class %.2f dearest jobs below its part\n", worst);
	CHECK(worst <= 2.0);
}

/* A batch counts as one cost: no class gets more of its reserve by batches. */
UNIT_TEST(batches_count_in_full)
{
	begin();
	add(0, 1, 0);
	add(1, 2, 50);
	for (int n = 0; n < 10000; n++)
	{
		ClassWhy	why;
		int			i = class_pick(&order, 0, &why);

		for (int k = 0; k < (i == 1 ? 20 : 1); k++)
		{
			class_charge(&order, i, 1, why, k > 0);
			served[i]++;
		}
	}
	CHECK_EQ((served[1] * 100 + 10) / (served[0] + served[1]), 5);
}

/* Who ran alone for long is not punished, who was away has saved up nothing. */
UNIT_TEST(reserve_has_no_memory)
{
	int			first = 0;
	int			row = 0;

	begin();
	add(0, 1, 0);
	add(1, 2, 100);
	class_leave(&order, 0);
	for (int n = 0; n < 1000; n++)
		dispatch(1);
	class_join(&order, 0);
	while (first < 1000 && dispatch(1) == 0)
		first++;
	CHECK(first <= 10);

	class_leave(&order, 1);
	for (int n = 0; n < 1000; n++)
		dispatch(1);
	class_join(&order, 1);
	while (row < 1000 && dispatch(1) == 1)
		row++;
	CHECK(row <= 1);
	memset(served, 0, sizeof(served));
	for (int n = 0; n < 1000; n++)
		dispatch(1);
	CHECK(served[1] >= 99 && served[1] <= 101);
}

/* A class that gets more than its reserve by rank gets nothing on top. */
UNIT_TEST(service_by_rank_counts)
{
	begin();
	add(0, 1, 500);
	add(1, 2, 0);
	add(2, 3, 100);
	for (int n = 0; n < 1000; n++)
		dispatch(1);
	CHECK_EQ(served[1], 0);
	CHECK(served[2] >= 99 && served[2] <= 101);
	CHECK_EQ(served[0] + served[2], 1000);
}

/* A new reserve counts at once, whatever was owed under the old one. */
UNIT_TEST(new_reserve_acts_at_once)
{
	int			first = 0;

	begin();
	add(0, 1, 0);
	add(1, 2, 1);
	for (int n = 0; n < 10; n++)
		dispatch(1);
	class_set(&order, 1, 2, 500);
	while (first < 1000 && dispatch(1) == 0)
		first++;
	CHECK(first <= 2);
	class_set(&order, 1, 2, 0);
	for (int n = 0; n < 100; n++)
		CHECK_EQ(dispatch(1), 0);
	class_set(&order, 1, 2, 1000);
	CHECK_EQ(dispatch(1), 1);
	CHECK_EQ(dispatch(1), 1);
}

/* ---- age ---- */

UNIT_TEST(age_goes_first_within_its_fifth)
{
	int64_t		window[5] = {0};

	begin();
	add(0, 1, 0);
	add(1, 2, 0);
	add(2, 3, 0);
	order.place[1].deadline_ns = 1000;
	order.place[2].deadline_ns = 999;
	for (int n = 0; n < 10; n++)
		CHECK_EQ(dispatch(1), 0);
	now_ns = 1000;
	CHECK_EQ(dispatch(1), 2);	/* the older one, at once */
	order.place[2].deadline_ns = CLASS_NO_DEADLINE;
	for (int n = 0; n < 1000; n++)
	{
		int			i = dispatch(1);

		CHECK(i != 2);
		window[n % 5] = i;
		if (n >= 4)
			CHECK_EQ(window[0] + window[1] + window[2] + window[3] + window[4], 1);
	}
}

/* Not only one in five jobs, but a fifth of the cost. */
UNIT_TEST(age_takes_a_fifth_of_the_cost)
{
	begin();
	random_state = 7;
	add(0, 1, 0);
	add(1, 2, 0);
	order.place[1].deadline_ns = 0;
	for (int n = 0; n < 10000; n++)
	{
		int64_t		before = served[1] * CLASS_AGE_PARTS - served[0] - served[1];

		dispatch(1 + random_below(500));
		CHECK(served[1] * CLASS_AGE_PARTS - served[0] - served[1] <= 2500);
		CHECK(before <= 2500);
	}
	CHECK(served[1] * CLASS_AGE_PARTS - served[0] - served[1] >= -2500);
	CHECK_EQ(served_by[CLASS_BY_AGE], served[1]);
}

/* A time without old work saves up nothing. */
UNIT_TEST(age_saves_up_nothing)
{
	int			row = 0;

	begin();
	add(0, 1, 0);
	add(1, 2, 0);
	order.place[1].deadline_ns = 1;
	for (int n = 0; n < 1000; n++)
		dispatch(1);
	now_ns = 1;
	while (row < 1000 && dispatch(1) == 1)
		row++;
	CHECK_EQ(row, 1);
}

/* Who goes by rank anyway does not use up what is there for age. */
UNIT_TEST(rank_is_not_age)
{
	begin();
	add(0, 1, 0);
	add(1, 2, 0);
	order.place[0].deadline_ns = 0;
	order.place[1].deadline_ns = 0;
	for (int n = 0; n < 1000; n++)
		dispatch(1);
	CHECK_EQ(served[1], 200);
	CHECK_EQ(served_by[CLASS_BY_AGE], 200);
}

/* What is served by age counts towards the reserve, which is a floor. */
UNIT_TEST(age_counts_towards_the_reserve)
{
	begin();
	add(0, 1, 0);
	add(1, 2, 50);
	order.place[1].deadline_ns = 0;
	for (int n = 0; n < 10000; n++)
		dispatch(1);
	CHECK(served[1] >= 1999 && served[1] <= 2002);
	/* and a reserve above a fifth is met */
	begin();
	add(0, 1, 0);
	add(1, 2, 300);
	order.place[1].deadline_ns = 0;
	for (int n = 0; n < 10000; n++)
		dispatch(1);
	CHECK(served[1] >= 2999 && served[1] <= 4001);
	CHECK(served[0] >= 5999);
}

/* ---- undo ---- */

/* Every order of undoing returns to where it was. */
UNIT_TEST(undo_is_exact)
{
	for (uint64_t seed = 1; seed <= 200; seed++)
	{
		ClassCharge charges[8];
		ClassPlace	before;
		fair_time	age_due;
		fair_time	total;

		begin();
		random_state = seed;
		add(0, 1, 0);
		add(1, 2, 1 + (int) random_below(900));
		order.place[1].deadline_ns = 0;
		for (uint32_t n = random_below(20); n > 0; n--)
			dispatch(1 + random_below(500));
		before = order.place[1];
		age_due = order.age_due;
		total = order.total;
		for (int n = 0; n < 8; n++)
			charges[n] = class_charge(&order, 1, 1 + random_below(500),
									  (ClassWhy) random_below(3),
									  n > 0 && random_below(2) == 0);
		for (int n = 8; n > 0; n--)
		{
			int			k = (int) random_below((uint32_t) n);

			class_undo(&order, 1, &charges[k]);
			charges[k] = charges[n - 1];
		}
		CHECK(order.place[1].due == before.due);
		CHECK(order.place[1].turn == before.turn);
		CHECK(order.age_due == age_due);
		CHECK(order.total == total);
	}
}

/* 30 % rolled back, up to 16 open: the reserve is met in what stays. */
UNIT_TEST(reserve_holds_over_rollbacks)
{
	for (uint64_t seed = 1; seed <= 50; seed++)
	{
		struct
		{
			int			class;
			ClassCharge charge;
		}			open[16];
		int			nopen = 0;
		Floor		floor = {0, 0};

		begin();
		random_state = seed;
		add(0, 1, 0);
		add(1, 2, 100);
		for (int n = 0; n < 10000; n++)
		{
			ClassWhy	why;
			int			k;

			open[nopen].class = class_pick(&order, 0, &why);
			open[nopen].charge = class_charge(&order, open[nopen].class,
											  1 + random_below(10), why,
											  false);
			nopen++;
			if (nopen < 16)
				continue;
			k = (int) random_below(16);
			if (random_below(100) < 30)
				class_undo(&order, open[k].class, &open[k].charge);
			else
			{
				served[open[k].class] += open[k].charge.cost;
				see(&floor, (double) served[1] -
					(double) (served[0] + served[1]) * 0.1);
			}
			open[k] = open[--nopen];
		}
		/* a burst of open ones may all be of the other class */
		CHECK(floor.drop <= 17 * 10);
	}
}

/* A thousand claims rolled back oldest first leave no credit behind. */
UNIT_TEST(undone_service_by_rank_is_no_credit)
{
	ClassCharge charges[1000];
	int			row = 0;

	begin();
	add(0, 1, 0);
	add(1, 2, 50);
	class_leave(&order, 0);
	dispatch(1);
	for (int n = 0; n < 1000; n++)
		charges[n] = class_charge(&order, 1, 1, CLASS_BY_RANK, false);
	for (int n = 0; n < 1000; n++)
		class_undo(&order, 1, &charges[n]);
	class_join(&order, 0);
	while (row < 1000 && dispatch(1) == 1)
		row++;
	CHECK(row <= 1);
}

/* The dearest jobs at the least reserve: no overflow, no drift. */
UNIT_TEST(great_costs_do_not_overflow)
{
	begin();
	add(0, 1, 0);
	add(1, 2, 1);
	for (int n = 0; n < 1000000; n++)
		dispatch(1000000000);
	CHECK_EQ(served[1], INT64_C(1000) * 1000000000);
}

int
main(void)
{
	UNIT_RUN(lowest_rank_first);
	UNIT_RUN(equal_ranks_share_by_cost);
	UNIT_RUN(reserve_is_met_and_no_extra);
	UNIT_RUN(reserves_hold_over_every_interval);
	UNIT_RUN(batches_count_in_full);
	UNIT_RUN(reserve_has_no_memory);
	UNIT_RUN(service_by_rank_counts);
	UNIT_RUN(new_reserve_acts_at_once);
	UNIT_RUN(age_goes_first_within_its_fifth);
	UNIT_RUN(age_takes_a_fifth_of_the_cost);
	UNIT_RUN(age_saves_up_nothing);
	UNIT_RUN(rank_is_not_age);
	UNIT_RUN(age_counts_towards_the_reserve);
	UNIT_RUN(undo_is_exact);
	UNIT_RUN(reserve_holds_over_rollbacks);
	UNIT_RUN(undone_service_by_rank_is_no_credit);
	UNIT_RUN(great_costs_do_not_overflow);
	UNIT_MAIN_END();
}
