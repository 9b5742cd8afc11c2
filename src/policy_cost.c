/*
 * policy_cost.c
 *		What calls cost by quota.costs: a row of the call's endpoint, else the row of
 *		all endpoints, else 1 "request" and nothing of any other unit.  Endpoints are
 *		names here, not patterns.
 *
 * What a call says itself of the units that it measures comes before all that; it is
 * looked at with every decision (examine.c), not when a plan is made.
 */
#include "policy_cost.h"

/* Same endpoint, or a row for all of them if "all"? */
static bool
cost_applies(const PolicyCost *c, const char *endpoint, bool all)
{
	if (all)
		return c->endpoint == NULL;
	return c->endpoint != NULL && endpoint != NULL &&
		strcmp(c->endpoint, endpoint) == 0;
}

/* See policy_cost.h. */
int64
policy_cost_of(const PolicySource *s, const char *unit)
{
	for (int all = 0; all <= 1; all++)
	{
		ListCell   *lc;

		foreach(lc, s->provider->costs)
		{
			const PolicyCost *c = lfirst(lc);

			if (strcmp(c->unit, unit) == 0 &&
				cost_applies(c, s->call->endpoint, all))
				return c->cost;
		}
	}
	return strcmp(unit, "request") == 0 ? 1 : 0;
}

/* See policy_cost.h. */
bool
policy_ever_free(const PolicyProvider *provider, const char *unit)
{
	ListCell   *lc;

	if (strcmp(unit, "request") != 0)
		return true;
	foreach(lc, provider->costs)
	{
		const PolicyCost *c = lfirst(lc);

		if (c->cost == 0 && strcmp(c->unit, unit) == 0)
			return true;
	}
	return false;
}

/* The most that a call of the provider costs by quota.costs, 0 = not known. */
static int64
dearest_at(const PolicyProvider *provider, const char *unit)
{
	int64		dearest = strcmp(unit, "request") == 0 ? 1 : 0;
	ListCell   *lc;

	foreach(lc, provider->costs)
	{
		const PolicyCost *c = lfirst(lc);

		if (strcmp(c->unit, unit) == 0)
			dearest = Max(dearest, c->cost);
	}
	return dearest;
}

/* See policy_cost.h. */
int64
policy_dearest_of(const PolicySource *s, const PolicyLimit *limit)
{
	int64		dearest = 0;
	bool		known = true;
	HASH_SEQ_STATUS status;
	PolicyProvider *provider;

	if (limit->provider)
		return dearest_at(s->provider, limit->unit);
	hash_seq_init(&status, s->rules->providers);
	while ((provider = hash_seq_search(&status)) != NULL)
	{
		int64		here = dearest_at(provider, limit->unit);

		known &= here > 0;
		dearest = Max(dearest, here);
	}
	return known ? dearest : 0;
}
