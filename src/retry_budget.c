/*
 * retry_budget.c
 *		How many calls may be retries: see retry_budget.h for what it promises, and
 *		meter.h for what the functions that all meters have do.
 */
#include "retry_budget.h"

#include "bucket.h"

#include <string.h>

#ifdef QUOTA_UNIT
#include <assert.h>
#define RETRY_ASSERT(cond) assert(cond)
#else
#define RETRY_ASSERT(cond) ((void) 0)
#endif

/* The second that an instant is in. */
static int64_t
slot_of_ns(const RetryBudget *b, int64_t at_ns)
{
	int64_t		since_ns = at_ns - b->origin_ns;
	int64_t		slot = since_ns / RETRY_SLOT_NS;

	return since_ns % RETRY_SLOT_NS < 0 ? slot - 1 : slot;
}

/* Where the counts of a second are. */
static int
place_of(int64_t slot)
{
	int			place = (int) (slot % RETRY_SLOTS);

	return place < 0 ? place + RETRY_SLOTS : place;
}

/* The second's counts are still there. */
static bool
is_counted(const RetryBudget *b, int64_t slot)
{
	return slot <= b->slot && slot > b->slot - RETRY_SLOTS;
}

/* What is left once all seconds before this one are forgotten. */
static int64_t
level_from(const RetryBudget *b, int64_t from)
{
	int64_t		firsts = 0;
	int64_t		retries = 0;

	for (int64_t slot = b->slot; slot >= from && is_counted(b, slot); slot--)
	{
		firsts += b->firsts[place_of(slot)];
		retries += b->retries[place_of(slot)];
	}
	return b->floor + firsts / 1000 * b->share_milli +
		firsts % 1000 * b->share_milli / 1000 - retries;
}

/* See retry_budget.h. */
void
retry_init_full(RetryBudget *b, int64_t floor, int64_t share_milli, int64_t now_ns)
{
	memset(b, 0, sizeof(*b));
	b->floor = floor;
	b->share_milli = share_milli;
	b->settled_ns = now_ns;
	b->origin_ns = now_ns;
}

/* See retry_budget.h. */
void
retry_init_drained(RetryBudget *b, int64_t floor, int64_t share_milli,
				   int64_t drained_ns, int64_t now_ns)
{
	int64_t		slot;

	retry_init_full(b, floor, share_milli, now_ns);
	slot = slot_of_ns(b, drained_ns < now_ns ? drained_ns : now_ns);
	if (is_counted(b, slot))
		b->retries[place_of(slot)] = floor < RETRY_MOST ? floor : RETRY_MOST;
}

/* Forgets the seconds that are too long ago. */
void
retry_settle(RetryBudget *b, int64_t now_ns)
{
	int64_t		slot;

	if (now_ns <= b->settled_ns)
		return;
	b->settled_ns = now_ns;
	slot = slot_of_ns(b, now_ns);
	if (slot - b->slot >= RETRY_SLOTS)
	{
		memset(b->firsts, 0, sizeof(b->firsts));
		memset(b->retries, 0, sizeof(b->retries));
		/* the numbers go on: what was noted before belongs to none of these */
		b->slot = slot;
		b->origin_ns = now_ns - slot * RETRY_SLOT_NS;
	}
	while (b->slot < slot)
	{
		int			place = place_of(++b->slot);

		b->firsts[place] = b->retries[place] = 0;
	}
}

/* See retry_budget.h. */
void
retry_configure(RetryBudget *b, int64_t floor, int64_t share_milli, int64_t now_ns)
{
	b->floor = floor;
	b->share_milli = share_milli;
	retry_settle(b, now_ns);
}

/* See retry_budget.h. */
int64_t
retry_level(const RetryBudget *b)
{
	return level_from(b, b->slot - RETRY_SLOTS + 1);
}

/* See retry_budget.h. */
int64_t
retry_firsts(const RetryBudget *b)
{
	int64_t		n = 0;

	for (int i = 0; i < RETRY_SLOTS; i++)
		n += b->firsts[i];
	return n;
}

/* See retry_budget.h. */
int64_t
retry_retries(const RetryBudget *b)
{
	int64_t		n = 0;

	for (int i = 0; i < RETRY_SLOTS; i++)
		n += b->retries[i];
	return n;
}

/*
 * See retry_budget.h.  Seconds take both kinds of calls with them, so what is left
 * may sink before it rises.
 */
int64_t
retry_wait(const RetryBudget *b, int64_t n)
{
	if (n <= 0 || n <= retry_level(b))
		return 0;
	for (int k = 1; k <= RETRY_SLOTS; k++)
		if (n <= level_from(b, b->slot - RETRY_SLOTS + 1 + k))
			return b->origin_ns + (b->slot + k) * RETRY_SLOT_NS - b->settled_ns;
	return BUCKET_NEVER;
}

/* See retry_budget.h. */
bool
retry_take_joins(const RetryBudget *b, const RetryTake *t)
{
	return (t->firsts == 0 && t->retries == 0) || t->slot == b->slot;
}

/* Counts n at the present second and in the note. */
static void
count(const RetryBudget *b, RetryTake *t, int64_t *counted, int64_t *noted, int64_t n)
{
	RETRY_ASSERT(n >= 0 && retry_take_joins(b, t));
	if (n > RETRY_MOST - *counted)
		n = RETRY_MOST - *counted;
	*counted += n;
	*noted += n;
	t->slot = b->slot;
}

/* See retry_budget.h. */
void
retry_first(RetryBudget *b, RetryTake *t, int64_t n)
{
	count(b, t, &b->firsts[place_of(b->slot)], &t->firsts, n);
}

/* See retry_budget.h. */
void
retry_take(RetryBudget *b, RetryTake *t, int64_t n)
{
	count(b, t, &b->retries[place_of(b->slot)], &t->retries, n);
}

/* See retry_budget.h. */
void
retry_take_return(RetryBudget *b, RetryTake *t, int64_t n)
{
	int64_t		retries = n < t->retries ? n : t->retries;
	int64_t		firsts = n == INT64_MAX ? t->firsts : 0;

	t->retries -= retries;
	t->firsts -= firsts;
	if (!is_counted(b, t->slot))
		return;
	b->retries[place_of(t->slot)] -= retries;
	b->firsts[place_of(t->slot)] -= firsts;
	RETRY_ASSERT(b->retries[place_of(t->slot)] >= 0);
	RETRY_ASSERT(b->firsts[place_of(t->slot)] >= 0);
}

/* See meter.h. */
void
retry_shift(RetryBudget *b, int64_t by_ns)
{
	b->settled_ns += by_ns;
	b->origin_ns += by_ns;
}

/* See retry_budget.h. */
bool
retry_is_full(const RetryBudget *b)
{
	return retry_firsts(b) == 0 && retry_retries(b) == 0;
}
