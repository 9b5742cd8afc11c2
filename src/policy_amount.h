/*
 * policy_amount.h
 *		The effective amount of a limit for one tenant.
 */
#ifndef QUOTA_POLICY_AMOUNT_H
#define QUOTA_POLICY_AMOUNT_H

#include "policy_load.h"

typedef struct PolicyAmount
{
	bool		limited;		/* false: the limit does not apply at all */
	int64		capacity;
	int64		per_period;		/* whole units, without burst */
	BucketRate	rate;			/* of a rate */
	int64		changed_ns;		/* the latest change of rows that took part */
	int64		remade_ns;		/* but for the making of the limit */
} PolicyAmount;

/* tier and tenant are the overrides found, or NULL */
extern PolicyAmount policy_amount(const PolicyLimit *limit,
								  const PolicyOverride *tier,
								  const PolicyOverride *tenant,
								  int32 seats);

/* a * b, exactly; the smaller of two */
extern Numeric policy_product(Numeric a, Numeric b);
extern Numeric policy_smaller(Numeric a, Numeric b);

/* A number of at most three decimals times 1000; "otherwise" for NULL. */
extern int64 policy_times_1000(Numeric number, int64 otherwise);

/* Can the rate of a positive amount be kept without rounding? */
extern bool policy_rate_is_exact(Numeric amount, int64 period_ns);

#endif							/* QUOTA_POLICY_AMOUNT_H */
