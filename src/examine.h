/*
 * examine.h
 *		Between decide.c and examine.c.
 */
#ifndef QUOTA_EXAMINE_H
#define QUOTA_EXAMINE_H

#include "decide.h"

/*
 * A tenant may charge this many bucket places at one provider (G11): an eighth
 * of the table, and no more than are still free, so that some always stay free
 * whatever the number of providers (dynamic thresholds, Choudhury and Hahne,
 * IEEE/ACM ToN 6(2), 1998).
 */
#define QUOTA_TENANT_CEILING Max(quota_max_buckets / 8, QUOTA_MAX_TERMS)

/* The index still names the plan's tenant. */
extern bool quota_tenant_is(uint32 index, const QuotaPlan *plan);

/* Fills the state of plan->terms[i] for the calls asked for. */
extern DecideResult quota_examine_term(QuotaPlan *plan, int i,
									   const QuotaAsk *ask, int64 now_ns,
									   TimestampTz wall_us, TermState *s,
									   int *what);

#endif							/* QUOTA_EXAMINE_H */
