/*-------------------------------------------------------------------------
 *
 * test_meter_fuzz.c
 *	  Meters of all shapes under numbers without any sense, for a few seconds, so
 *	  that the sanitizers see what overflows and the assertions what does not add
 *	  up.
 *
 * Every run takes other numbers, which it names; QUOTA_FUZZ_SEED repeats a run,
 * QUOTA_FUZZ_SECONDS makes it longer or shorter.
 *
 * Copyright (c) 2026, the quota authors
 *
 *-------------------------------------------------------------------------
 */
#include "unit.h"
#include "random.h"
#include "meter.h"

#include <stdlib.h>
#include <time.h>

#define SECONDS		2
#define STEPS		300
#define TAKES		3

/* A number that is near something where arithmetic breaks, or just any. */
static int64_t
odd_number(void)
{
	static const int64_t corners[] = {
		INT64_MIN, INT64_MIN / 2, -1000000000, -1, 0, 1, 2, 7, 15, 16, 17,
		1000, 1000000000, INT64_C(86400000000000), INT64_C(1000000000000000),
		INT64_C(3155760000000000000), INT64_MAX / 1000, INT64_MAX / 2, INT64_MAX
	};
	int64_t		x = corners[random_below(sizeof(corners) / sizeof(corners[0]))];

	switch (random_below(4))
	{
		case 0:
			return (int64_t) random64();
		case 1:
			return random_magnitude(INT64_MAX);
		default:
			return (int64_t) ((uint64_t) x + (uint64_t) random_below(5) - 2);
	}
}

/* The same, not below least. */
static int64_t
odd_from(int64_t least)
{
	int64_t		x = odd_number();

	return x < least ? least : x;
}

static MeterRules
odd_rules(MeterShape shape)
{
	MeterRules	rules = {0};

	rules.shape = shape;
	rules.capacity = odd_from(0);
	rules.period_ns = odd_from(1);
	rules.anchor_us = odd_number();
	rules.largest = odd_from(0);
	rules.dearest = odd_from(0);
	rules.rate.num = 0;
	rules.rate.den = 1;
	(void) bucket_rate_make(&rules.rate, odd_from(0), (int) random_below(19),
							odd_from(1));
	return rules;
}

/* What must hold of any meter, whatever was done to it. */
static void
check_meter(const Meter *m, const MeterRules *rules)
{
	int64_t		cost = odd_from(1);
	int64_t		n = 1 + random_magnitude(INT64_C(1) << 31);
	int64_t		fit = meter_fit(m, cost, 0);
	int64_t		wait = meter_wait(m, cost, n, 0);
	int64_t		begin;
	int64_t		end;

	CHECK(meter_level(m) <= rules->capacity);
	CHECK(meter_spent(m) >= 0);
	CHECK(fit >= 0 && wait >= 0 && meter_drain(m, odd_number()) >= 0);
	if (cost <= INT64_MAX / n)
	{
		CHECK((wait == 0) == (fit >= n));
		CHECK(fit < n || meter_holds(rules, cost, n));
		CHECK(wait == BUCKET_NEVER || meter_holds(rules, cost, n));
	}
	CHECK(meter_fit(m, cost, odd_from(0)) <= fit);
	CHECK(!meter_is_full(m) || meter_spent(m) == 0);
	if (meter_window(m, &begin, &end))
		CHECK(begin <= end);
}

static void
fuzz(MeterShape shape)
{
	Meter		m;
	MeterRules	rules = odd_rules(shape);
	MeterTake	take[TAKES] = {0};
	MeterTake	none = {0};
	int64_t		now = odd_number();

	if (random_below(2) == 0)
		meter_init_full(&m, &rules, now, odd_number());
	else
		meter_init_drained(&m, &rules, odd_number(), now, odd_number());
	for (int i = 0; i < STEPS; i++)
	{
		int			k = (int) random_below(TAKES);

		switch (random_below(8))
		{
			case 0:
				now = random_below(4) == 0 ? odd_number()
					: now < INT64_MAX - 1000000 ? now + random_magnitude(1000000) : now;
				meter_settle(&m, now, odd_number());
				break;
			case 1:
				if (random_below(10) > 0)
					break;
				rules = odd_rules(shape);
				meter_configure(&m, &rules, odd_number(), now, odd_number());
				(void) meter_is_slower(&m, &rules);
				break;
			case 2:
				meter_take_return(&m, &take[k], odd_number());
				break;
			case 3:
				take[k] = none;
				break;
			default:
				if (!meter_take_joins(&m, &take[k]))
					take[k] = none;
				meter_take(&m, &take[k], random_below(3) == 0 ? odd_from(0)
						   : random_magnitude(1000000));
		}
		check_meter(&m, &rules);
	}
}

UNIT_TEST(meters_stand_any_numbers)
{
	const char *seconds = getenv("QUOTA_FUZZ_SECONDS");
	clock_t		end = clock() + (seconds ? atoi(seconds) : SECONDS) * CLOCKS_PER_SEC;
	long		runs = 0;

	while (clock() < end)
	{
		fuzz((MeterShape) (runs % (METER_SLIDING + 1)));
		runs++;
	}
	printf("# %ld meters, %ld steps\n", runs, runs * STEPS);
}

int
main(void)
{
	const char *seed = getenv("QUOTA_FUZZ_SEED");

	random_state = seed ? strtoull(seed, NULL, 10)
		: (uint64_t) time(NULL) * UINT64_C(2654435761) + 1;
	printf("# QUOTA_FUZZ_SEED=%llu\n", (unsigned long long) random_state);
	fflush(stdout);
	UNIT_RUN(meters_stand_any_numbers);
	UNIT_MAIN_END();
}
