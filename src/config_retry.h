/*
 * config_retry.h
 *		A class's retry_base under the retry_max of a provider.
 */
#ifndef QUOTA_CONFIG_RETRY_H
#define QUOTA_CONFIG_RETRY_H

#include "config.h"

/*
 * Throws 23514 when the row, of quota.classes or quota.providers, and some row of
 * the other table make a retry_base that is above the retry_max which goes with it.
 */
extern void config_check_retry(QuotaRelation rel, TupleDesc desc, HeapTuple row);

#endif							/* QUOTA_CONFIG_RETRY_H */
