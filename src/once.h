/*
 * once.h
 *		Idempotency keys: an operation that is asked for again with the same key is done
 *		once, and answers the same.
 */
#ifndef QUOTA_ONCE_H
#define QUOTA_ONCE_H

#include "acquire.h"

/* Attribute numbers of quota.keys */
enum KeysColumn
{
	KEYS_OPERATION = 1,
	KEYS_TENANT,
	KEYS_PROVIDER,
	KEYS_KEY,
	KEYS_ARGUMENTS,
	KEYS_GRANTED,
	KEYS_REASON,
	KEYS_LIMIT_NAME,
	KEYS_REMAINING,
	KEYS_PERMIT,
	KEYS_EXHAUSTED,
	KEYS_CREATED_AT
};

#define ONCE_MAX_ARGUMENTS 10

/* An argument that a later call with the key must repeat. */
typedef struct OnceArgument
{
	const char *name;
	JsonbValue	value;			/* jbvNull = not given */
} OnceArgument;

/* An operation, and the key it is done under. */
typedef struct OnceCall
{
	const char *operation;
	const char *tenant;			/* NULL = of none, as the next */
	const char *provider;
	const char *key;			/* NULL: it is done whenever it is asked for */
	int			n;
	OnceArgument arguments[ONCE_MAX_ARGUMENTS];
} OnceCall;

/* The key in argument i, NULL for NULL.  22023 */
extern char *once_key_arg(FunctionCallInfo fcinfo, int i);

/* Adds an argument; a text or jsonb that was not given is NULL. */
extern void once_text(OnceCall *call, const char *name, const char *value);
extern void once_int64(OnceCall *call, const char *name, int64 value);
extern void once_bool(OnceCall *call, const char *name, bool value);
extern void once_jsonb(OnceCall *call, const char *name, Jsonb *value);

/*
 * The key is ours until once_release(), or the subtransaction ends.  55P03 when an
 * open transaction has used it.  True when it was used before: nothing is to be done, and
 * the answer is filled in, if the operation has one; 23505 when that was for other
 * arguments.  All three do nothing without a key.
 */
extern bool once_take(const OnceCall *call, AcquireAnswer *answer);
/* It was done; answer: NULL, or its values are filled in.  The key is ours. */
extern void once_store(const OnceCall *call, const AcquireAnswer *answer);
extern void once_release(const OnceCall *call);

#endif							/* QUOTA_ONCE_H */
