/*
 * portion_claims.h
 *		Between portion.c and portion_claims.c: who was refused, by turn.
 */
#ifndef QUOTA_PORTION_CLAIMS_H
#define QUOTA_PORTION_CLAIMS_H

#include "portion.h"

/* What claims there are of a lesser turn. */
typedef struct ClaimsBefore
{
	int64_t		units;			/* their sum, 0 = none */
	int64_t		lasting;		/* of those that wait */
	int64_t		newest_ns;		/* when one of the others was made last; INT64_MIN =
								 * there is none */
} ClaimsBefore;

/* Made at claim_ns, or lasting while it waits. */
extern void claims_add(Portions *ps, Portion *p, int64_t units, int64_t claim_ns);
/* Does nothing when it has none. */
extern void claims_remove(Portions *ps, Portion *p);
extern ClaimsBefore claims_before(const Portions *ps, fair_time turn);
/* Whose turn is the soonest of claims made since then, or lasting; NULL = nobody's. */
extern const Portion *claims_soonest(const Portions *ps, int64_t since_ns);

#endif							/* QUOTA_PORTION_CLAIMS_H */
