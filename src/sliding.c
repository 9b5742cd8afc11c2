/*
 * sliding.c
 *		A sliding window: see sliding.h for what it promises, and meter.h for what
 *		each function does.
 *
 * Why entries are not late by more than 1/7 of a period: let none be wider, and one
 * more be needed than there are.  They all lie within 8/7 of a period, and
 * of 17 there are eight pairs of neighbours that have none in common, so one pair
 * is not wider than 1/7.
 */
#include "sliding.h"

#include <string.h>

#include "bucket.h"
#include "wide.h"

#ifdef QUOTA_UNIT
#include <assert.h>
#define SLIDING_ASSERT(cond) assert(cond)

/* Are the entries in order, and does their sum agree? */
static bool
sane(const Sliding *s)
{
	int64_t		sum = 0;
	bool		ok = s->n >= 0 && s->n <= SLIDING_SIZE && s->capacity >= 0;

	for (int i = 0; i < s->n; i++)
	{
		const SlidingEntry *e = &s->entry[i];

		ok = ok && e->units >= 1 && e->first_ns <= e->last_ns &&
			e->last_ns <= s->settled_ns &&
			(i == 0 || e->first_ns > s->entry[i - 1].last_ns);
		sum += e->units;
	}
	return ok && sum == s->used;
}
#else
#define SLIDING_ASSERT(cond) ((void) 0)
#endif

/* From one instant to a later one. */
static int64_t
elapsed(int64_t from_ns, int64_t to_ns)
{
	return wide_clamp((wide) to_ns - from_ns);
}

/* How wide an entry may get. */
static int64_t
width(const Sliding *s)
{
	if (s->capacity <= SLIDING_SIZE)
		return 0;
	return (s->period_ns - 1) / (SLIDING_SIZE - 1) + 1;
}

/* The ith entry is no more. */
static void
remove_entry(Sliding *s, int i)
{
	s->n--;
	memmove(&s->entry[i], &s->entry[i + 1], (s->n - i) * sizeof(SlidingEntry));
}

/* A sliding window in which nothing was taken. */
void
sliding_init_full(Sliding *s, int64_t capacity, int64_t period_ns,
				  int64_t now_ns)
{
	memset(s, 0, sizeof(*s));
	s->capacity = capacity;
	s->period_ns = period_ns;
	s->settled_ns = now_ns;
}

/* See sliding.h; now if that is still to come. */
void
sliding_init_drained(Sliding *s, int64_t capacity, int64_t period_ns,
					 int64_t drained_ns, int64_t now_ns)
{
	SlidingTake none = {0, 0};

	sliding_init_full(s, capacity, period_ns,
					  drained_ns < now_ns ? drained_ns : now_ns);
	sliding_take(s, &none, capacity);
	sliding_settle(s, now_ns);
}

/* Forgets entries that don't count any more. */
static void
forget(Sliding *s)
{
	int			over = 0;

	while (over < s->n &&
		   elapsed(s->entry[over].last_ns, s->settled_ns) >= s->period_ns)
		s->used -= s->entry[over++].units;
	if (over == 0)
		return;
	s->n -= over;
	memmove(s->entry, &s->entry[over], s->n * sizeof(SlidingEntry));
	SLIDING_ASSERT(sane(s));
}

/* Forgets what is over by now; a clock that went back changes nothing. */
void
sliding_settle(Sliding *s, int64_t now_ns)
{
	if (now_ns <= s->settled_ns)
		return;
	s->settled_ns = now_ns;
	forget(s);
}

/* See meter.h. */
void
sliding_configure(Sliding *s, int64_t capacity, int64_t period_ns,
				  int64_t switch_ns, int64_t now_ns)
{
	if (period_ns != s->period_ns)
	{
		sliding_settle(s, switch_ns < now_ns ? switch_ns : now_ns);
		s->period_ns = period_ns;
		forget(s);
	}
	s->capacity = capacity;
	sliding_settle(s, now_ns);
}

/* Units left; negative: more was taken than may be. */
int64_t
sliding_level(const Sliding *s)
{
	return s->capacity - s->used;
}

/* See sliding.h. */
int64_t
sliding_late(const Sliding *s)
{
	int64_t		late = 0;

	for (int i = 0; i < s->n; i++)
		if (elapsed(s->entry[i].first_ns, s->settled_ns) >= s->period_ns)
			late += s->entry[i].units;
	return late;
}

/* Until n units are left at once. */
int64_t
sliding_wait(const Sliding *s, int64_t n)
{
	wide		missing = (wide) n - sliding_level(s);
	int			i = 0;

	if (n <= 0 || missing <= 0)
		return 0;
	if (n > s->capacity)
		return BUCKET_NEVER;
	/* n is at most the capacity, so what is missing is not above what is used */
	while ((missing -= s->entry[i].units) > 0)
		i++;
	return s->period_ns - elapsed(s->entry[i].last_ns, s->settled_ns);
}

/*
 * Until n units have been taken, each as soon as it is there: what was taken of a
 * whole capacity is there again a period later.
 */
int64_t
sliding_drain(const Sliding *s, int64_t n)
{
	int64_t		rounds;

	if (n <= 0)
		return 0;
	if (s->capacity == 0)
		return BUCKET_NEVER;
	rounds = (n - 1) / s->capacity;
	return wide_clamp((wide) rounds * s->period_ns +
					  sliding_wait(s, n - rounds * s->capacity));
}

/* Does a take now belong to the newest entry? */
static bool
joins_newest(const Sliding *s)
{
	const SlidingEntry *newest = &s->entry[s->n - 1];

	return s->n > 0 &&
		(newest->last_ns == s->settled_ns ||
		 elapsed(newest->first_ns, s->settled_ns) <= width(s));
}

/* Is t of the entry that a take now belongs to, or of none? */
bool
sliding_take_joins(const Sliding *s, const SlidingTake *t)
{
	return t->n == 0 ||
		(joins_newest(s) && t->at_ns >= s->entry[s->n - 1].first_ns);
}

/* The ith entry becomes one with the next. */
static void
merge_with_next(Sliding *s, int i)
{
	s->entry[i].last_ns = s->entry[i + 1].last_ns;
	s->entry[i].units += s->entry[i + 1].units;
	remove_entry(s, i + 1);
}

/* Makes room for a new entry now, all being used; false: the newest is it. */
static bool
make_room(Sliding *s)
{
	const SlidingEntry *newest = &s->entry[s->n - 1];
	int64_t		least = elapsed(newest->first_ns, s->settled_ns);
	int			closest = -1;

	for (int i = 0; i < s->n - 1; i++)
	{
		int64_t		span = elapsed(s->entry[i].first_ns, s->entry[i + 1].last_ns);

		if (span <= least)
		{
			least = span;
			closest = i;
		}
	}
	if (closest >= 0)
		merge_with_next(s, closest);
	return closest >= 0;
}

/* Takes n units, whether or not they are there, and notes it in t. */
void
sliding_take(Sliding *s, SlidingTake *t, int64_t n)
{
	SlidingEntry *e;

	SLIDING_ASSERT(n >= 0 && sliding_take_joins(s, t));
	if (n > INT64_MAX - s->used)
		n = INT64_MAX - s->used;
	if (n == 0)
		return;
	if (!joins_newest(s) && (s->n < SLIDING_SIZE || make_room(s)))
	{
		e = &s->entry[s->n++];
		e->first_ns = s->settled_ns;
		e->units = 0;
	}
	e = &s->entry[s->n - 1];
	e->last_ns = s->settled_ns;
	e->units += n;
	s->used += n;
	if (t->n == 0)
		t->at_ns = s->settled_ns;
	t->n += n;
	SLIDING_ASSERT(sane(s));
}

/* Returns up to n units of t, if they still count. */
void
sliding_take_return(Sliding *s, SlidingTake *t, int64_t n)
{
	int			i = 0;

	if (n > t->n)
		n = t->n;
	if (n <= 0)
		return;
	t->n -= n;
	while (i < s->n && s->entry[i].last_ns < t->at_ns)
		i++;
	if (i == s->n || s->entry[i].first_ns > t->at_ns)
		return;
	SLIDING_ASSERT(s->entry[i].units >= n);
	s->used -= n;
	s->entry[i].units -= n;
	if (s->entry[i].units == 0)
		remove_entry(s, i);
	SLIDING_ASSERT(sane(s));
}

/* Nothing taken in the last period. */
bool
sliding_is_full(const Sliding *s)
{
	return s->n == 0;
}

/* See meter.h. */
void
sliding_shift(Sliding *s, int64_t by_ns)
{
	s->settled_ns += by_ns;
	for (int i = 0; i < s->n; i++)
	{
		s->entry[i].first_ns += by_ns;
		s->entry[i].last_ns += by_ns;
	}
}
