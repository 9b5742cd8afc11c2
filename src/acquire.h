/*
 * acquire.h
 *		One call, asked once: between quota_acquire(), quota_acquire_wait() and the
 *		answers kept by key.
 */
#ifndef QUOTA_ACQUIRE_H
#define QUOTA_ACQUIRE_H

#include "decide.h"

#include "access/tupdesc.h"

/* Attributes of quota_decision. */
typedef enum Decision
{
	DECISION_ADMITTED,
	DECISION_GRANTED,
	DECISION_REASON,
	DECISION_LIMIT_NAME,
	DECISION_NOT_BEFORE,
	DECISION_REMAINING,
	DECISION_PERMIT,
	DECISION_EXHAUSTED,
	N_DECISION
} Decision;

/* Arguments of quota_acquire(), with which those of quota_acquire_wait() begin. */
enum
{
	ARG_TENANT,
	ARG_PROVIDER,
	ARG_ENDPOINT,
	ARG_N,
	ARG_UNITS,
	ARG_CLASS,
	ARG_USER,
	ARG_CONNECTION,
	ARG_RESOURCE,
	ARG_ATTEMPT,
	ARG_PARTIAL,
	ARG_KEY,
	N_ACQUIRE_ARGS
};

typedef struct AcquireArgs
{
	QuotaCall	call;
	QuotaAsk	ask;
	char	   *key;			/* NULL = none */
	Jsonb	   *units;			/* as given */
} AcquireArgs;

typedef struct AcquireAnswer
{
	bool		stored;			/* an earlier call with this key was admitted: */
	Datum		values[N_DECISION]; /* its answer */
	bool		nulls[N_DECISION];
	QuotaPlan  *plan;			/* else: what was decided just now */
	QuotaVerdict verdict;
} AcquireAnswer;

/* 22023, 22004 */
extern void acquire_read_args(FunctionCallInfo fcinfo, AcquireArgs *args);

/*
 * Decides, or finds the answer of the key; writes what belongs to an admission.
 * Throws what quota_acquire()'s COMMENT says.  No lock held.
 */
extern void acquire_ask(const AcquireArgs *args, AcquireAnswer *answer);

/* The row type of the running function, a quota_decision; looked up once per call site. */
extern TupleDesc acquire_desc(FunctionCallInfo fcinfo);

/* The answer as a quota_decision, of which desc is. */
extern Datum acquire_datum(TupleDesc desc, AcquireAnswer *answer);

/* The verdict's values, for keeping them. */
extern void acquire_fill_values(AcquireAnswer *answer);

#endif							/* QUOTA_ACQUIRE_H */
