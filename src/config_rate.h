/*
 * config_rate.h
 *		Refusing rates that can't be kept exactly.
 */
#ifndef QUOTA_CONFIG_RATE_H
#define QUOTA_CONFIG_RATE_H

#include "config.h"

/*
 * A row of the table that a BEFORE trigger is about to let in; its constraints
 * have not been checked.  22023 when a rate it gives, by itself or with the rows
 * it refers to, is no fraction of 64 bits.
 */
extern void config_check_rate(QuotaRelation rel, TupleDesc desc, HeapTuple row);

#endif							/* QUOTA_CONFIG_RATE_H */
