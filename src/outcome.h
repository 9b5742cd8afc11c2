/*
 * outcome.h
 *		Between decide.c and outcome.c.
 */
#ifndef QUOTA_OUTCOME_H
#define QUOTA_OUTCOME_H

#include "decide.h"

/*
 * Counts a decision that is one for the statistics, and tells what is an event.  The
 * plan's locks are held; doesn't throw.
 */
extern void outcome_count(const QuotaPlan *plan, const TermState *states,
						  const QuotaVerdict *v, int64 now_ns);

#endif							/* QUOTA_OUTCOME_H */
