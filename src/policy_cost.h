/*
 * policy_cost.h
 *		What calls cost by quota.costs, as loaded.  Nothing here throws.
 */
#ifndef QUOTA_POLICY_COST_H
#define QUOTA_POLICY_COST_H

#include "policy_plan.h"

/* Of one call of the source's, in a unit. */
extern int64 policy_cost_of(const PolicySource *source, const char *unit);

/* May the unit cost nothing at some endpoint of the provider? */
extern bool policy_ever_free(const PolicyProvider *provider, const char *unit);

/*
 * The most that a call costs which the limit may count; 0 = not known, which is so if
 * it is not at one of its providers.
 */
extern int64 policy_dearest_of(const PolicySource *source,
							   const PolicyLimit *limit);

#endif							/* QUOTA_POLICY_COST_H */
