/*
 * feedback_limit.c
 *		What a reading says of a limit of quota: see feedback.h.
 *
 * What the provider says is left may only lower a bucket.  It is a look at one
 * moment, and calls that are on their way are not in it yet: so the level becomes
 * the lesser of ours and theirs.  It is never lowered by more than what the provider
 * has counted of its own limit: where a header is of another limit than the bucket (a
 * minute's, while the bucket is a day's), that is little of the bucket.
 */
#include "feedback.h"

#include <stddef.h>
#include <string.h>

/* How well a limit fits a reading: 0 = not at all. */
static int
fit(const FeedbackReading *reading, const FeedbackLimit *limit)
{
	if (reading->limit_name != NULL)
		return strcmp(reading->limit_name, limit->name) == 0 ? 1 : 0;
	if (!limit->external || !feedback_counts(reading, limit->unit))
		return 0;
	if (strcmp(reading->of, limit->name) == 0)
		return 3;
	return reading->window_us == limit->period_us ? 2 : 1;
}

/* See feedback.h. */
int
feedback_limit_of(const FeedbackReading *reading, const FeedbackLimit *limits,
				  int n)
{
	int			best = -1;
	int			best_fit = 0;

	for (int i = 0; i < n; i++)
	{
		int			f = fit(reading, &limits[i]);

		if (f > best_fit || (f > 0 && f == best_fit &&
							 limits[i].period_us < limits[best].period_us))
		{
			best = i;
			best_fit = f;
		}
	}
	return best;
}

/* See feedback.h. */
int64_t
feedback_excess(const FeedbackReading *reading, const FeedbackLimit *limit)
{
	int64_t		least = reading->remaining;

	if (reading->remaining == FEEDBACK_NOT_TOLD)
		return 0;
	if (reading->limit != FEEDBACK_NOT_TOLD)
	{
		int64_t		used = reading->limit > reading->remaining
			? reading->limit - reading->remaining : 0;

		if (limit->capacity - used > least)
			least = limit->capacity - used;
	}
	return limit->level > least ? limit->level - least : 0;
}
