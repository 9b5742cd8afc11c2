/*
 * pace.c
 *		How fast places of a queue get free.
 *
 * The gap is an exponential average: a place that gets free moves it an eighth of
 * the way to the time since the one before.  n that get free together, as a
 * batch does at its commit, count as n gaps of an n-th each, and move it by
 * n eighths, all the way at most.
 *
 * Whoever asks when nothing has got free for longer than the gap is told what the
 * gap would be if one did now, so that an estimate made in busy times fades when
 * the workers stop.
 */
#include "pace.h"

#define AVERAGED 8

/* The gap, if n places had got free at now_ns. */
static int64_t
gap_after(const Pace *pace, int64_t n, int64_t now_ns)
{
	int64_t		each = (now_ns - pace->last_ns) / n;

	if (pace->freed < 2)
		return each;
	return pace->gap_ns +
		(each - pace->gap_ns) / AVERAGED * (n < AVERAGED ? n : AVERAGED);
}

/* See pace.h. */
void
pace_freed(Pace *pace, int64_t n, int64_t now_ns)
{
	if (pace->freed > 0)
		pace->gap_ns = gap_after(pace, n, now_ns);
	pace->freed += pace->freed > 0 ? n : 1;
	pace->last_ns = now_ns;
}

/* See pace.h. */
int64_t
pace_wait(const Pace *pace, int64_t n, int64_t now_ns)
{
	int64_t		gap = PACE_UNKNOWN_NS;

	if (pace->freed >= 2)
		gap = now_ns - pace->last_ns > pace->gap_ns ? gap_after(pace, 1, now_ns)
			: pace->gap_ns;
	if (gap > PACE_MAX_NS / n)
		return PACE_MAX_NS;
	return gap * n < PACE_MIN_NS ? PACE_MIN_NS : gap * n;
}
