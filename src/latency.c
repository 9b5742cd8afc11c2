/*
 * latency.c
 *		Samples of latency, and Little's law.  See latency.h.
 */
#include "latency.h"

#include <stdlib.h>

#include "wide.h"

/* n / d rounded up, at most max; neither is negative, d >= 1. */
static int64_t
divide_up(wide n, wide d, int64_t max)
{
	wide		q = n / d + (n % d > 0);

	return q < max ? (int64_t) q : max;
}

/* See latency.h. */
void
latency_add(Latency *latency, int64_t ns)
{
	latency->ns[latency->next] = ns > 0 ? ns : 0;
	latency->next = (latency->next + 1) % LATENCY_SAMPLES;
	if (latency->n < LATENCY_SAMPLES)
		latency->n++;
}

/* For qsort(). */
static int
compare(const void *a, const void *b)
{
	int64_t		x = *(const int64_t *) a;
	int64_t		y = *(const int64_t *) b;

	return x < y ? -1 : x > y;
}

/* See latency.h. */
int64_t
latency_percentile(Latency *copy, int64_t millionths)
{
	int64_t		rank;

	if (copy->n == 0)
		return -1;
	qsort(copy->ns, copy->n, sizeof(int64_t), compare);
	rank = divide_up((wide) copy->n * millionths, LATENCY_WHOLE, copy->n);
	return copy->ns[rank > 0 ? rank - 1 : 0];
}

/* See latency.h. */
int64_t
latency_mean(const Latency *latency)
{
	wide		sum = 0;

	if (latency->n == 0)
		return -1;
	for (uint32_t i = 0; i < latency->n; i++)
		sum += latency->ns[i];
	return divide_up(sum, latency->n, LATENCY_NEVER);
}

/* See latency.h. */
int32_t
little_workers(int64_t num, int64_t den, int64_t cost, int64_t latency_ns)
{
	wide		busy = (wide) num * latency_ns;
	int64_t		n = divide_up(busy, (wide) den * cost, INT32_MAX);

	return n > 1 ? (int32_t) n : 1;
}

/* See latency.h. */
int64_t
little_drain(int64_t jobs, int64_t places, int64_t latency_ns)
{
	return divide_up((wide) jobs * latency_ns, places, LATENCY_NEVER);
}

/* See latency.h. */
int64_t
little_scale(int64_t n, int64_t jobs, int64_t extra)
{
	return divide_up((wide) n * ((wide) jobs + extra), jobs, INT64_MAX);
}
