/*
 * latency.h
 *		How long attempts take, and what follows for numbers of workers and for
 *		queues (Little's law: in flight = rate x latency).  Pure arithmetic in
 *		nanoseconds; whoever keeps a Latency in shared memory says what protects it.
 */
#ifndef QUOTA_LATENCY_H
#define QUOTA_LATENCY_H

#include <stdint.h>

/* The last attempts that are remembered. */
#define LATENCY_SAMPLES 256

/* All zero: nothing was measured yet. */
typedef struct Latency
{
	uint32_t	n;				/* samples in use */
	uint32_t	next;			/* the one to be replaced next */
	int64_t		ns[LATENCY_SAMPLES];
} Latency;

#define LATENCY_NEVER INT64_MAX
/* Percentiles are given in millionths. */
#define LATENCY_WHOLE 1000000

/* An attempt took so long; less than nothing is nothing. */
extern void latency_add(Latency *latency, int64_t ns);

/*
 * The least sample such that at least this part (1 to LATENCY_WHOLE millionths) of
 * all is no longer.  Sorts the copy it is given.  -1 when nothing was measured.
 */
extern int64_t latency_percentile(Latency *copy, int64_t millionths);

/* The mean, rounded up; -1 when nothing was measured. */
extern int64_t latency_mean(const Latency *latency);

/*
 * Workers that keep num/den units a nanosecond busy, at cost >= 1 units a call:
 * rounded up, 1 to INT32_MAX.
 */
extern int32_t little_workers(int64_t num, int64_t den, int64_t cost,
							  int64_t latency_ns);

/*
 * How long until the last of so many jobs begins, with places >= 1 for them at the
 * same time: rounded up, at most LATENCY_NEVER.
 */
extern int64_t little_drain(int64_t jobs, int64_t places, int64_t latency_ns);

/* n x (jobs + extra) / jobs, rounded up, at most INT64_MAX; jobs >= 1 */
extern int64_t little_scale(int64_t n, int64_t jobs, int64_t extra);

#endif							/* QUOTA_LATENCY_H */
