/*
 * subxact.h
 *		Trying something that may fail without losing the transaction.
 */
#ifndef QUOTA_SUBXACT_H
#define QUOTA_SUBXACT_H

#include "postgres.h"

/*
 * Calls action(arg) in a subtransaction.  NULL when that went well; else what went
 * wrong, palloc'd, and the subtransaction is rolled back.  A cancel is passed on.
 */
extern ErrorData *subxact_try(void (*action) (void *arg), void *arg);

#endif							/* QUOTA_SUBXACT_H */
