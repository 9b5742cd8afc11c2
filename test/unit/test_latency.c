/*-------------------------------------------------------------------------
 *
 * test_latency.c
 *	  Percentiles of samples, and Little's law.
 *
 *-------------------------------------------------------------------------
 */
#include "unit.h"

#include "latency.h"

#include <string.h>

#define MS INT64_C(1000000)
#define S INT64_C(1000000000)

/* Adds from, from + 1, ..., to milliseconds. */
static void
add_range(Latency *l, int from, int to)
{
	for (int i = from; i <= to; i++)
		latency_add(l, i * MS);
}

/* The percentile, without touching the samples. */
static int64_t
percentile(const Latency *l, int64_t millionths)
{
	Latency		copy = *l;

	return latency_percentile(&copy, millionths);
}

UNIT_TEST(nothing_measured)
{
	Latency		l = {0};

	CHECK_EQ(percentile(&l, 950000), -1);
	CHECK_EQ(latency_mean(&l), -1);
}

UNIT_TEST(percentile_is_a_sample)
{
	Latency		l = {0};

	add_range(&l, 1, 100);
	CHECK_EQ(percentile(&l, 950000), 95 * MS);
	CHECK_EQ(percentile(&l, 950001), 96 * MS);
	CHECK_EQ(percentile(&l, 1000000), 100 * MS);
	CHECK_EQ(percentile(&l, 500000), 50 * MS);
	CHECK_EQ(percentile(&l, 1), 1 * MS);
	CHECK_EQ(latency_mean(&l), 50500000);
}

UNIT_TEST(one_sample)
{
	Latency		l = {0};

	latency_add(&l, -5);
	CHECK_EQ(percentile(&l, 1), 0);
	latency_add(&l, 7);
	CHECK_EQ(percentile(&l, 500000), 0);
	CHECK_EQ(percentile(&l, 500001), 7);
	CHECK_EQ(latency_mean(&l), 4);
}

UNIT_TEST(the_last_256_count)
{
	Latency		l = {0};

	add_range(&l, 1000, 2000);
	add_range(&l, 1, 256);
	CHECK_EQ(l.n, 256);
	CHECK_EQ(percentile(&l, 1000000), 256 * MS);
	CHECK_EQ(percentile(&l, 1), 1 * MS);
	latency_add(&l, 9 * S);
	CHECK_EQ(percentile(&l, 1000000), 9 * S);
	CHECK_EQ(percentile(&l, 1), 2 * MS);
}

UNIT_TEST(workers)
{
	/* 3 calls a second */
	CHECK_EQ(little_workers(3, S, 1, 600 * MS), 2);
	CHECK_EQ(little_workers(3, S, 1, 2500 * MS), 8);
	CHECK_EQ(little_workers(3, S, 1, 2000 * MS), 6);
	CHECK_EQ(little_workers(3, S, 1, 2000 * MS + 1), 7);
	CHECK_EQ(little_workers(3, S, 1, 0), 1);
	CHECK_EQ(little_workers(0, 1, 1, S), 1);
	CHECK_EQ(little_workers(30, S, 10, 2500 * MS), 8);
	CHECK_EQ(little_workers(INT64_MAX, 1, 1, INT64_MAX), INT32_MAX);
}

UNIT_TEST(drain)
{
	CHECK_EQ(little_drain(0, 5, S), 0);
	CHECK_EQ(little_drain(10, 5, S), 2 * S);
	CHECK_EQ(little_drain(1, 3, 1), 1);
	CHECK_EQ(little_drain(INT64_MAX, 1, INT64_MAX), LATENCY_NEVER);
	CHECK_EQ(little_scale(10, 4, 0), 10);
	CHECK_EQ(little_scale(10, 4, 1), 13);
	CHECK_EQ(little_scale(10, 4, 4), 20);
	CHECK_EQ(little_scale(INT64_MAX, 1, 1), INT64_MAX);
}

int
main(void)
{
	UNIT_RUN(nothing_measured);
	UNIT_RUN(percentile_is_a_sample);
	UNIT_RUN(one_sample);
	UNIT_RUN(the_last_256_count);
	UNIT_RUN(workers);
	UNIT_RUN(drain);
	UNIT_MAIN_END();
}
