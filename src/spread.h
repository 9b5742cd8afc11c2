/*
 * spread.h
 *		Between decide.c and spread.c.
 */
#ifndef QUOTA_SPREAD_H
#define QUOTA_SPREAD_H

#include "decide.h"

/*
 * A direct call was refused by a rate: tells it when to ask again, so that not all
 * come at once.  The plan's locks are held; doesn't throw.
 */
extern void spread_refusal(const QuotaTerm *term, const TermState *s, int n,
						   int64 now_ns, QuotaVerdict *v);

/* The bucket has admitted a call.  The same. */
static inline void
spread_end(QuotaBucket *b)
{
	b->spread_units = 0;
}

#endif							/* QUOTA_SPREAD_H */
