/*
 * adaptive.c
 *		How much of a limit's amount is used: see adaptive.h.
 */
#include "adaptive.h"

#include "wide.h"

#include <string.h>

/* What is left between what works and what does not may be such a part of it. */
#define CLOSE_ENOUGH	50
/* A rise is at most such a part of the factor. */
#define MOST_RISE		10
#define CAREFUL_RISE	20		/* from the third one after a decrease on */
/* A first sign takes such a part of what had worked. */
#define ACCIDENT		20
/* So much slower than on average is a sign. */
#define SLOW			2
/* It rises to what may be a sign after so many times what the last one cost. */
#define COSTS			10
#define MOST_COST		1000000
/* What a probe waits for is doubled so many times at most. */
#define MOST_DOUBLINGS	3
/* The longest that it waits for; more windows need not be counted. */
#define MOST_WAITED		(MOST_COST << MOST_DOUBLINGS)
/* It waits so many times as long for each rise to what may be one. */
#define PATIENCE		3
/* Such a part of what a window allows may be left over. */
#define UNUSED			2
/* What a window counts in the long average of latencies. */
#define LONG_PART		8

/* The smaller of two. */
static int32_t
min32(int32_t a, int32_t b)
{
	return a < b ? a : b;
}

/* The larger of two. */
static int32_t
max32(int32_t a, int32_t b)
{
	return a > b ? a : b;
}

/* Up to a quarter of it, at random. */
static int64_t
jitter(Adaptive *a, int64_t ns)
{
	a->random ^= a->random << 13;
	a->random ^= a->random >> 7;
	a->random ^= a->random << 17;
	return (int64_t) ((wide) ns * (int64_t) (a->random % 1024) / 4096);
}

/* What a window has seen begins. */
static void
begin_window(Adaptive *a, int64_t at_ns)
{
	a->window_ns = at_ns;
	a->took = 0;
	a->wanted = false;
	a->sum_ns = 0;
	a->samples = 0;
}

/* The window is over; the next one begins with a call, and not before then. */
static void
end_window(Adaptive *a, int64_t rests_ns)
{
	begin_window(a, ADAPTIVE_NEVER);
	a->rests_ns = rests_ns;
}

/* Another factor from now on. */
static void
set_factor(Adaptive *a, int32_t factor, int64_t now_ns)
{
	a->factor = max32(min32(factor, ADAPTIVE_WHOLE), a->rules.floor);
	a->changed_ns = now_ns;
}

/* See adaptive.h. */
void
adaptive_init(Adaptive *a, const AdaptiveRules *rules, uint64_t seed, int64_t now_ns)
{
	memset(a, 0, sizeof(*a));
	a->rules = *rules;
	a->on = true;
	a->random = seed | 1;
	set_factor(a, rules->start, now_ns);
	a->cool_ns = now_ns;
	end_window(a, now_ns);
}

/* See adaptive.h. */
AdaptiveWhy
adaptive_configure(Adaptive *a, const AdaptiveRules *rules, int64_t now_ns)
{
	if (memcmp(rules, &a->rules, sizeof(*rules)) != 0)
	{
		a->rules = *rules;
		if (a->factor < rules->floor)
			set_factor(a, rules->floor, now_ns);
	}
	return adaptive_settle(a, now_ns);
}

/* ---- up ---- */

/* In the window so much was used that it says something of the factor. */
static bool
is_used(const Adaptive *a)
{
	wide		whole = (wide) a->rules.whole_units * a->factor / ADAPTIVE_WHOLE;

	return a->took >= whole - whole / UNUSED;
}

/* By how much it rises now; 0 = not yet. */
static int32_t
rise(const Adaptive *a)
{
	int32_t		part = a->patience > PATIENCE ? CAREFUL_RISE : MOST_RISE;
	int32_t		most = min32(a->rules.step, max32(a->factor / part, 1));
	int32_t		gap = a->bad - a->factor;

	if (a->bad == 0)
		return a->slowly > 0 ? min32(most, 2 * a->slowly) : most;
	if (gap > max32(a->bad / CLOSE_ENOUGH, 1))
		return min32(most, gap / 2);
	return 0;
}

/* The windows that must have passed before it tries beyond what has not worked. */
static int32_t
probe_after(const Adaptive *a)
{
	return max32(ADAPTIVE_PROBE_WINDOWS, a->cost) << a->failed;
}

/* A window has passed in which nothing spoke against the factor. */
static AdaptiveWhy
go_up(Adaptive *a, int64_t now_ns)
{
	int32_t		more = rise(a);

	if (a->factor >= a->bad)
	{
		a->bad = 0;				/* what has not worked does now */
		a->failed = 0;
		more = rise(a);
	}
	if (a->bad == 0 && a->slowly > 0)
		a->slowly = more;
	a->good = a->factor;
	a->waited = min32(a->waited + 1, MOST_WAITED);
	if (a->factor == ADAPTIVE_WHOLE)
		return ADAPTIVE_SAME;
	if (more > 0)
	{
		if (a->bad > 0 && a->waited < a->patience)
			return ADAPTIVE_SAME;
		a->waited = 0;
		a->patience = min32(PATIENCE * a->patience, max32(a->cost, 1));
		set_factor(a, a->factor + more, now_ns);
		return ADAPTIVE_STABLE;
	}
	if (a->waited < probe_after(a))
		return ADAPTIVE_SAME;
	a->waited = 0;
	set_factor(a, a->bad + max32(a->bad / CLOSE_ENOUGH, 1), now_ns);
	return ADAPTIVE_PROBE;
}

/* ---- down ---- */

/* A decrease: what follows waits for the cool-down. */
static void
cool_down(Adaptive *a, int64_t now_ns)
{
	a->slowly = max32(a->factor / CLOSE_ENOUGH / 2, 1);
	a->waited = 0;
	a->cool_ns = now_ns + a->rules.cooldown_ns + jitter(a, a->rules.cooldown_ns);
	end_window(a, a->cool_ns);
}

/* Down by a part that is new, to what nothing is known of. */
static void
go_down(Adaptive *a, int32_t part, int64_t now_ns)
{
	a->bad = a->factor;
	a->good = 0;
	a->failed = 0;
	a->patience = 1;
	set_factor(a, (int32_t) ((int64_t) a->factor * part / ADAPTIVE_WHOLE), now_ns);
	cool_down(a, now_ns);
}

/* See adaptive.h. */
AdaptiveWhy
adaptive_limited(Adaptive *a, int64_t began_ns, int64_t paused_ns, int64_t now_ns)
{
	int32_t		before = a->factor;
	wide		cost = (wide) paused_ns * COSTS / a->rules.window_ns;

	if (began_ns != INT64_MIN && began_ns < a->changed_ns)
		return ADAPTIVE_SAME;
	if (now_ns < a->cool_ns)
		return ADAPTIVE_SAME;
	a->cost = (int32_t) (cost > MOST_COST ? MOST_COST : cost);
	if (a->good > 0 && a->good < a->factor)
	{
		/* a probe beyond what had not worked does not make that better */
		if (a->bad > 0 && a->bad < a->factor)
			a->failed = min32(a->failed + 1, MOST_DOUBLINGS);
		else
			a->bad = a->factor;
		set_factor(a, a->good, now_ns);
		cool_down(a, now_ns);
		a->patience = max32(a->cost, 1);
		return ADAPTIVE_BACK;
	}
	if (a->good == a->factor && a->good > 0)
	{
		go_down(a, ADAPTIVE_WHOLE - ADAPTIVE_WHOLE / ACCIDENT, now_ns);
		a->patience = max32(a->cost, 1);
	}
	else
		go_down(a, a->rules.decrease, now_ns);
	return a->factor < before ? ADAPTIVE_LIMITED : ADAPTIVE_SAME;
}

/* See adaptive.h. */
void
adaptive_latency(Adaptive *a, int64_t latency_ns)
{
	if (a->samples == INT32_MAX || latency_ns > INT64_MAX / 2 - a->sum_ns)
		return;
	a->sum_ns += latency_ns;
	a->samples++;
}

/*
 * The window's latencies join the long average, slowly, but quickly when they are
 * shorter.  True when they are too long: how much is left of the factor.
 */
static bool
is_slow(Adaptive *a, int32_t *part)
{
	int64_t		mean_ns;
	bool		slow;

	if (a->samples < ADAPTIVE_MIN_SAMPLES)
		return false;
	mean_ns = a->sum_ns / a->samples;
	slow = a->long_ns > 0 && mean_ns / SLOW >= a->long_ns;
	if (slow)
		*part = max32((int32_t) ((wide) ADAPTIVE_WHOLE * SLOW * a->long_ns / mean_ns),
					  ADAPTIVE_WHOLE / 2);
	if (a->long_ns == 0)
		a->long_ns = mean_ns;
	else
		a->long_ns += (mean_ns - a->long_ns) / (mean_ns < a->long_ns ? 2 : LONG_PART);
	return slow;
}

/* ---- time ---- */

/* See adaptive.h.  However long ago a window has ended, it was one. */
AdaptiveWhy
adaptive_settle(Adaptive *a, int64_t now_ns)
{
	AdaptiveWhy why = ADAPTIVE_SAME;
	int32_t		part = ADAPTIVE_WHOLE;
	int32_t		before = a->factor;

	if (now_ns < a->window_ns || now_ns - a->window_ns < a->rules.window_ns)
		return why;
	if (is_slow(a, &part))
	{
		if (part == ADAPTIVE_WHOLE)
			part = ADAPTIVE_WHOLE - ADAPTIVE_WHOLE / MOST_RISE;
		go_down(a, part, now_ns);
		return a->factor < before ? ADAPTIVE_SLOW : ADAPTIVE_SAME;
	}
	if (a->wanted && is_used(a))
		why = go_up(a, now_ns);
	end_window(a, now_ns);
	return why;
}

/* See adaptive.h. */
void
adaptive_took(Adaptive *a, int64_t units, int64_t now_ns)
{
	if (a->window_ns == ADAPTIVE_NEVER && now_ns >= a->rests_ns)
		begin_window(a, now_ns);
	if (a->took < INT64_MAX - units)
		a->took += units;
}

/* See adaptive.h. */
void
adaptive_want(Adaptive *a)
{
	a->wanted = true;
}

/* See adaptive.h. */
bool
adaptive_is_new(const Adaptive *a)
{
	return !a->on || (a->factor == a->rules.start && a->bad == 0 && a->long_ns == 0);
}

/* See adaptive.h. */
int64_t
adaptive_part(int64_t amount, int32_t factor)
{
	int64_t		part = (int64_t) ((wide) amount * factor / ADAPTIVE_WHOLE);

	return part < 1 && amount > 0 ? 1 : part;
}
