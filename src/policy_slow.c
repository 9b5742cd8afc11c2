/*
 * policy_slow.c
 *		Which limits are slow, and since when they have been: for mark.c, which
 *		says why it matters.
 */
#include "policy_slow.h"

#include "config.h"
#include "mark.h"
#include "policy_amount.h"

/* Does what is drained need longer than MARK_SLOW_NS to refill? */
static bool
takes_long(const PolicyAmount *amount)
{
	return amount->limited && amount->rate.num > 0 &&
		(long double) amount->capacity * amount->rate.den >
		(long double) MARK_SLOW_NS * amount->rate.num;
}

/* See policy_slow.h. */
bool
policy_is_slow(const PolicySource *s, const PolicyLimit *limit,
			   const PolicyOverride *tier, const PolicyOverride *tenant)
{
	for (int i = 0; i < 4; i++)
	{
		const PolicyOverride *a = i & 1 ? tier : NULL;
		const PolicyOverride *b = i & 2 ? tenant : NULL;
		PolicyAmount amount;

		/* the same as before */
		if (((i & 1) && a == NULL) || ((i & 2) && b == NULL))
			continue;
		amount = policy_amount(limit, a, b, s->tenant->seats);
		if (takes_long(&amount))
			return true;
	}
	return false;
}

/* See policy_slow.h. */
int64
policy_emptied_ns(const PolicySource *s, const PolicyLimit *limit,
				  int64 remade_ns)
{
	/* of an account it is not kept which provider's safety has changed */
	if (limit->external)
		remade_ns = Max(remade_ns, limit->account ? limit->safety_changed_ns
						: s->provider->remade_ns);
	if (limit->per & PER_TENANT)
		remade_ns = Max(remade_ns, s->tenant->remade_ns);
	return remade_ns;
}
