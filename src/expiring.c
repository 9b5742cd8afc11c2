/*
 * expiring.c
 *		What is left of grants that expire: see expiring.h for the rule.
 *
 * Within a span the same grants are there, so its sum can be spent as if all of it
 * were used at once.
 */
#include "expiring.h"

#include <stddef.h>

/* An instant that begins a span. */
typedef struct Bound
{
	int64_t		us;
	int64_t		net;			/* units spent in the span, and not lapsed */
} Bound;

/* The later one of two spans that contain an instant, or begin with the same. */
static void
choose(ExpiringSpan *span, int64_t from_us, int64_t at_us, ExpiringSpan **chosen,
	   int64_t *chosen_us)
{
	if (from_us > at_us || (*chosen != NULL && from_us <= *chosen_us))
		return;
	*chosen = span;
	*chosen_us = from_us;
}

/* See expiring.h.  Of spans that begin with the same instant always the same one. */
ExpiringSpan *
expiring_span(Expiring *const *grants, int n, int64_t at_us)
{
	ExpiringSpan *span = NULL;
	int64_t		span_us = 0;

	for (int i = 0; i < n; i++)
	{
		choose(&grants[i]->from_at, grants[i]->at_us, at_us, &span, &span_us);
		choose(&grants[i]->from_until, grants[i]->until_us, at_us, &span, &span_us);
	}
	return span;
}

/* Adds a bound in order of time. */
static void
add_bound(Bound *bounds, int n, int64_t us, const ExpiringSpan *span)
{
	int			i = n;

	for (; i > 0 && bounds[i - 1].us > us; i--)
		bounds[i] = bounds[i - 1];
	bounds[i].us = us;
	bounds[i].net = span->spent - span->lapsed;
}

/* The grant to spend of first at an instant; -1 = none has anything. */
static int
soonest(Expiring *const *grants, int n, const int64_t *left, int64_t at_us)
{
	int			best = -1;

	for (int i = 0; i < n; i++)
	{
		const Expiring *g = grants[i];

		if (left[i] == 0 || g->at_us > at_us || g->until_us <= at_us)
			continue;
		if (best < 0 || g->until_us < grants[best]->until_us ||
			(g->until_us == grants[best]->until_us && g->at_us < grants[best]->at_us))
			best = i;
	}
	return best;
}

/* See expiring.h. */
void
expiring_left(Expiring *const *grants, int n, int64_t *left)
{
	Bound		bounds[2 * EXPIRING_MAX];
	int			nbounds = 0;

	for (int i = 0; i < n; i++)
	{
		left[i] = grants[i]->given ? grants[i]->amount : 0;
		add_bound(bounds, nbounds++, grants[i]->at_us, &grants[i]->from_at);
		add_bound(bounds, nbounds++, grants[i]->until_us, &grants[i]->from_until);
	}
	for (int k = 0; k < nbounds; k++)
	{
		int64_t		net = bounds[k].net;
		int			i;

		while (net > 0 && (i = soonest(grants, n, left, bounds[k].us)) >= 0)
		{
			int64_t		part = net < left[i] ? net : left[i];

			left[i] -= part;
			net -= part;
		}
	}
}

/* See expiring.h. */
int64_t
expiring_gone(Expiring *const *grants, int n, int64_t now_us, int64_t *next_us)
{
	int64_t		left[EXPIRING_MAX];
	int64_t		gone = 0;

	*next_us = EXPIRING_NEVER;
	expiring_left(grants, n, left);
	for (int i = 0; i < n; i++)
	{
		if (grants[i]->until_us <= now_us)
			gone += left[i];
		else if (grants[i]->given && grants[i]->until_us < *next_us)
			*next_us = grants[i]->until_us;
	}
	return gone;
}

/* Adds the sums of a span to the one that its beginning is in without it. */
static void
merge(Expiring *const *grants, int n, int64_t from_us, const ExpiringSpan *span)
{
	ExpiringSpan *into = expiring_span(grants, n, from_us);

	if (into == NULL)
		return;
	into->spent += span->spent;
	into->lapsed += span->lapsed;
}

/* See expiring.h. */
void
expiring_remove_last(Expiring *const *grants, int n)
{
	const Expiring *last = grants[n - 1];

	merge(grants, n - 1, last->at_us, &last->from_at);
	merge(grants, n - 1, last->until_us, &last->from_until);
}
