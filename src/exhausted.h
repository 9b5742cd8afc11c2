/*
 * exhausted.h
 *		What said no to a call, as its answer lists it.
 */
#ifndef QUOTA_EXHAUSTED_H
#define QUOTA_EXHAUSTED_H

#include "decide.h"

/*
 * Every pause and limit that said no in the last decision of this backend, pauses first:
 * a jsonb array of objects, palloc'd.
 */
extern Datum exhausted_datum(const QuotaPlan *plan, const QuotaVerdict *verdict);

#endif							/* QUOTA_EXHAUSTED_H */
