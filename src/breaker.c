/*
 * breaker.c
 *		A circuit breaker: see breaker.h for what it promises.
 */
#include "breaker.h"

#include <string.h>

#ifdef QUOTA_UNIT
#include <assert.h>
#define BREAKER_ASSERT(cond) assert(cond)
#else
#define BREAKER_ASSERT(cond) ((void) 0)
#endif

/* ---- the window ---- */

/* The tenth of the window that now is in; they are numbered since the transition. */
static int64_t
part_of_ns(const Breaker *b, int64_t now_ns)
{
	return now_ns <= b->since_ns ? 0
		: (now_ns - b->since_ns) / (b->rules.window_ns / BREAKER_PARTS);
}

/* Where the counts of a tenth are. */
static int
place_of(int64_t part)
{
	return (int) (part % BREAKER_PARTS);
}

/* Nothing has ended yet. */
static void
clear_window(Breaker *b, int64_t now_ns)
{
	b->part = part_of_ns(b, now_ns);
	memset(b->calls, 0, sizeof(b->calls));
	memset(b->failures, 0, sizeof(b->failures));
	b->newest = b->n = 0;
}

/* The i-th last call, 0 = the newest. */
static int32_t *
last_call(Breaker *b, int i)
{
	return &b->last[(b->newest + BREAKER_MAX_CALLS - i) % BREAKER_MAX_CALLS];
}

/* Forgets what ended too long ago. */
static void
pass_time(Breaker *b, int64_t now_ns)
{
	int64_t		part = part_of_ns(b, now_ns);

	if (part - b->part >= BREAKER_PARTS)
		clear_window(b, now_ns);
	while (b->part < part)
	{
		int			place = place_of(++b->part);

		b->n -= b->calls[place];
		b->calls[place] = b->failures[place] = 0;
	}
	BREAKER_ASSERT(b->n >= 0);
}

/*
 * The newest call has pushed another one out of a window by calls: of what is counted
 * by tenths, that is one of the oldest.
 */
static void
forget_oldest(Breaker *b)
{
	int32_t		oldest = *last_call(b, b->n - 1);
	int			place = oldest / 2;

	b->calls[place]--;
	b->failures[place] -= oldest % 2;
	b->n--;
	BREAKER_ASSERT(b->calls[place] >= 0 && b->failures[place] >= 0);
}

/* A call has ended. */
static void
count(Breaker *b, bool failed)
{
	int			place = place_of(b->part);
	int32_t		most = b->rules.window_calls;

	if (most > 0 && b->n >= most)
		forget_oldest(b);
	if (b->calls[place] == INT32_MAX / BREAKER_PARTS)
		return;
	b->newest = (b->newest + 1) % BREAKER_MAX_CALLS;
	b->last[b->newest] = place * 2 + failed;
	b->calls[place]++;
	b->failures[place] += failed;
	b->n++;
}

/* See breaker.h. */
int64_t
breaker_calls(const Breaker *b)
{
	return b->n;
}

/* See breaker.h. */
int64_t
breaker_failures(const Breaker *b)
{
	int64_t		n = 0;

	for (int i = 0; i < BREAKER_PARTS; i++)
		n += b->failures[i];
	return n;
}

/* ---- states ---- */

/* Enters a state. */
static void
enter(Breaker *b, BreakerState state, int64_t now_ns)
{
	b->state = state;
	b->since_ns = now_ns;
	b->n_out = b->succeeded = b->failed = 0;
	b->moves++;
	clear_window(b, now_ns);
	if (state == BREAKER_CLOSED)
		b->opened = 0;
	if (state != BREAKER_OPEN)
		return;
	b->opened++;
	b->until_ns = now_ns < INT64_MAX - b->rules.open_ns ? now_ns + b->rules.open_ns
		: INT64_MAX;
}

/* So many of so many failures are too many. */
static bool
is_too_many(const Breaker *b, int64_t failures, int64_t calls)
{
	return failures > 0 && failures * 1000 >= calls * b->rules.failure_milli;
}

/* See breaker.h. */
void
breaker_init(Breaker *b, const BreakerRules *rules, int64_t now_ns)
{
	memset(b, 0, sizeof(*b));
	b->rules = *rules;
	enter(b, BREAKER_CLOSED, now_ns);
	b->moves = 0;
}

/*
 * See breaker.h.  Tenths of another length are others, so what was counted counts as
 * if it had ended in the newest; of a window by calls that has become shorter the
 * oldest go.
 */
void
breaker_configure(Breaker *b, const BreakerRules *rules, int64_t now_ns)
{
	bool		other_parts = rules->window_ns != b->rules.window_ns;

	if (memcmp(rules, &b->rules, sizeof(*rules)) == 0)
		return;
	if (other_parts || rules->window_calls != b->rules.window_calls)
	{
		int32_t		calls = (int32_t) breaker_calls(b);
		int32_t		failures = (int32_t) breaker_failures(b);

		b->rules = *rules;
		clear_window(b, now_ns);
		for (int32_t i = 0; i < calls && i < BREAKER_MAX_CALLS; i++)
			count(b, (int64_t) (i + 1) * failures / calls > (int64_t) i * failures / calls);
	}
	b->rules = *rules;
	if (b->state == BREAKER_OPEN && b->until_ns > b->since_ns + rules->open_ns)
		b->until_ns = b->since_ns + rules->open_ns;
}

/* Probes that nobody reported are given back. */
static void
end_probes(Breaker *b, int64_t now_ns)
{
	int			ended = 0;

	while (ended < b->n_out && b->out_until_ns[ended] <= now_ns)
		ended++;
	b->n_out -= ended;
	memmove(b->out_until_ns, b->out_until_ns + ended,
			sizeof(b->out_until_ns[0]) * b->n_out);
}

/* See breaker.h. */
bool
breaker_settle(Breaker *b, int64_t now_ns)
{
	pass_time(b, now_ns);
	if (b->state == BREAKER_HALF_OPEN)
		end_probes(b, now_ns);
	if (b->state != BREAKER_OPEN || now_ns < b->until_ns)
		return false;
	enter(b, BREAKER_HALF_OPEN, now_ns);
	return true;
}

/* See breaker.h. */
int64_t
breaker_fit(const Breaker *b)
{
	switch ((BreakerState) b->state)
	{
		case BREAKER_CLOSED:
			return INT64_MAX;
		case BREAKER_OPEN:
			return 0;
		case BREAKER_HALF_OPEN:
			return b->rules.probes > b->n_out ? b->rules.probes - b->n_out : 0;
	}
	return 0;
}

/* See breaker.h. */
int64_t
breaker_opens_ns(const Breaker *b, int64_t n)
{
	if (n <= breaker_fit(b))
		return INT64_MIN;
	if (n > b->rules.probes)
		return BREAKER_NEVER;
	if (b->state == BREAKER_OPEN)
		return b->until_ns;
	/* more may be out than may go, if there are fewer probes by now */
	return b->out_until_ns[n + b->n_out - b->rules.probes - 1];
}

/* See breaker.h. */
int64_t
breaker_take(Breaker *b, int64_t n, int64_t now_ns)
{
	int64_t		until_ns = now_ns < INT64_MAX - b->rules.probe_ns
		? now_ns + b->rules.probe_ns : INT64_MAX;
	int			place;

	if (b->state != BREAKER_HALF_OPEN)
		return 0;
	BREAKER_ASSERT(n <= breaker_fit(b));
	for (; n > 0 && b->n_out < BREAKER_MAX_PROBES; n--)
	{
		/* rules may have changed: who came later may end sooner */
		for (place = b->n_out++; place > 0 && b->out_until_ns[place - 1] > until_ns; place--)
			b->out_until_ns[place] = b->out_until_ns[place - 1];
		b->out_until_ns[place] = until_ns;
	}
	return until_ns;
}

/* See breaker.h. */
void
breaker_return(Breaker *b, int64_t n, int64_t until_ns)
{
	for (int i = 0; i < b->n_out && n > 0;)
	{
		if (b->out_until_ns[i] != until_ns)
		{
			i++;
			continue;
		}
		b->n_out--;
		memmove(b->out_until_ns + i, b->out_until_ns + i + 1,
				sizeof(b->out_until_ns[0]) * (b->n_out - i));
		n--;
	}
}

/* A call that went while it is half open has ended: maybe that decides. */
static bool
report_probe(Breaker *b, BreakerOutcome outcome, int64_t now_ns)
{
	int32_t		probes = b->rules.probes;

	if (b->n_out > 0)
		breaker_return(b, 1, b->out_until_ns[0]);
	b->succeeded += outcome == BREAKER_SUCCESS;
	b->failed += outcome == BREAKER_FAILURE;
	b->led_calls = b->succeeded + b->failed;
	b->led_failures = b->failed;
	if (is_too_many(b, b->failed, probes))
		enter(b, BREAKER_OPEN, now_ns);
	else if (b->succeeded + b->failed >= probes)
		enter(b, BREAKER_CLOSED, now_ns);
	return b->state != BREAKER_HALF_OPEN;
}

/* See breaker.h. */
bool
breaker_report(Breaker *b, BreakerOutcome outcome, int64_t began_ns, int64_t now_ns)
{
	if (began_ns != INT64_MIN && began_ns < b->since_ns && b->moves > 0)
		return false;
	if (b->state == BREAKER_HALF_OPEN)
		return report_probe(b, outcome, now_ns);
	if (b->state == BREAKER_OPEN || outcome == BREAKER_NO_VERDICT)
		return false;
	count(b, outcome == BREAKER_FAILURE);
	b->led_calls = b->n;
	b->led_failures = breaker_failures(b);
	if (b->n < b->rules.min_calls || !is_too_many(b, b->led_failures, b->n))
		return false;
	enter(b, BREAKER_OPEN, now_ns);
	return true;
}

/* See breaker.h. */
bool
breaker_is_idle(const Breaker *b)
{
	return b->state == BREAKER_CLOSED && b->n == 0;
}
