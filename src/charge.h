/*
 * charge.h
 *		Between decide.c and charge.c.
 */
#ifndef QUOTA_CHARGE_H
#define QUOTA_CHARGE_H

#include "decide.h"

/*
 * Charges n calls that fit, as states says, and fills in what of the verdict is about
 * permits.  False when a permit is needed and the table is full: the caller undoes
 * what was taken by then.  The plan's slot locks are held; doesn't throw.
 */
extern bool quota_charge(QuotaPlan *plan, const TermState *states, const QuotaAsk *ask,
						 int n, int64 now_ns, QuotaVerdict *v);

#endif							/* QUOTA_CHARGE_H */
