/*
 * once.c
 *		Idempotency keys: what was done under a key is a row of quota.keys, and asking
 *		again with the same key gives the same answer.
 *
 * The row is written in the transaction that did it, so they end together: a key whose
 * use was rolled back is free.  A refusal leaves nothing.
 *
 * A key belongs to an operation, a tenant and a provider ('' for none).  The row has the
 * arguments, so that another call with that key is told which one differs; they are
 * compared as jsonb, which is as good as a hash and can be read.
 *
 * NOBODY WAITS.  Who uses a key takes a lock on it, without waiting, before he looks
 * for its row, and lets go of it when he has written one, or will not.  So between
 * the look that finds no row and the INSERT nobody else inserts one, for which the
 * unique index would make him wait.  After that the row itself tells: while its
 * transaction is open the scan meets it in progress.  Either way the key is in use by
 * an open transaction, 55P03.
 *
 * The lock is an advisory one (pg_locks: objsubid 81) that no user function takes.
 * Two keys of one hash lock each other for that short time; rows are found by name.
 */
#include "once.h"

#include "args.h"
#include "catalog.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "row_write.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/numeric.h"

#define MAX_KEY 1024			/* bytes of a key */

/* The fourth field of our lock tags; pg_advisory_lock() uses 1 and 2. */
#define KEY_LOCK 81

/* What is kept of an answer, and where. */
static const struct
{
	Decision	attribute;
	int			column;
}			kept[] = {
	{DECISION_GRANTED, KEYS_GRANTED},
	{DECISION_REASON, KEYS_REASON},
	{DECISION_LIMIT_NAME, KEYS_LIMIT_NAME},
	{DECISION_REMAINING, KEYS_REMAINING},
	{DECISION_PERMIT, KEYS_PERMIT},
	{DECISION_EXHAUSTED, KEYS_EXHAUSTED},
};

/* ---- arguments ---- */

/* See once.h. */
char *
once_key_arg(FunctionCallInfo fcinfo, int i)
{
	char	   *key = quota_arg_text(fcinfo, i, "key", false);

	if (key && (key[0] == '\0' || strlen(key) > MAX_KEY))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"key\" is too %s", key[0] ? "long" : "short"),
				 errdetail("It has %d bytes, 1 to %d are allowed.",
						   (int) strlen(key), MAX_KEY),
				 errhint("Use an id of the request, such as a UUID.")));
	return key;
}

/* A string, or null for NULL, without copying it. */
static JsonbValue
json_string(const char *string)
{
	JsonbValue	v;

	v.type = string ? jbvString : jbvNull;
	if (string)
	{
		v.val.string.val = unconstify(char *, string);
		v.val.string.len = (int) strlen(string);
	}
	return v;
}

/* A new argument. */
static JsonbValue *
add(OnceCall *call, const char *name)
{
	OnceArgument *argument = &call->arguments[call->n++];

	Assert(call->n <= ONCE_MAX_ARGUMENTS);
	argument->name = name;
	return &argument->value;
}

/* See once.h. */
void
once_text(OnceCall *call, const char *name, const char *value)
{
	*add(call, name) = json_string(value);
}

/* See once.h. */
void
once_int64(OnceCall *call, const char *name, int64 value)
{
	JsonbValue *v = add(call, name);

	v->type = jbvNumeric;
	v->val.numeric = int64_to_numeric(value);
}

/* See once.h. */
void
once_bool(OnceCall *call, const char *name, bool value)
{
	JsonbValue *v = add(call, name);

	v->type = jbvBool;
	v->val.boolean = value;
}

/* See once.h. */
void
once_jsonb(OnceCall *call, const char *name, Jsonb *value)
{
	JsonbValue *v = add(call, name);

	if (value)
		JsonbToJsonbValue(value, v);
	else
		v->type = jbvNull;
}

/* What a later call with the key must repeat; what was not given is left out. */
static Jsonb *
arguments_of(const OnceCall *call)
{
	JsonbParseState *state = NULL;

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	for (int i = 0; i < call->n; i++)
	{
		JsonbValue	name = json_string(call->arguments[i].name);
		JsonbValue	value = call->arguments[i].value;

		if (value.type == jbvNull)
			continue;
		pushJsonbValue(&state, WJB_KEY, &name);
		pushJsonbValue(&state, WJB_VALUE, &value);
	}
	return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
}

/* A member of the object, as text; "null" when it has none. */
static char *
member(Jsonb *object, const char *name)
{
	JsonbValue *v = getKeyJsonValueFromContainer(&object->root, name,
												 (int) strlen(name), NULL);
	Jsonb	   *json;

	if (v == NULL)
		return "null";
	json = JsonbValueToJsonb(v);
	return JsonbToCString(NULL, &json->root, VARSIZE(json));
}

/* 23505: the key was used for another call. */
pg_noreturn static void
refuse_other_call(const OnceCall *call, Jsonb *before, Jsonb *now)
{
	int			i = 0;

	while (i < call->n - 1 &&
		   strcmp(member(before, call->arguments[i].name),
				  member(now, call->arguments[i].name)) == 0)
		i++;
	ereport(ERROR,
			(errcode(ERRCODE_UNIQUE_VIOLATION),
			 errmsg("key \"%s\" was used for another call", call->key),
			 errdetail("Argument \"%s\" was %s and is %s now.",
					   call->arguments[i].name,
					   member(before, call->arguments[i].name),
					   member(now, call->arguments[i].name)),
			 errhint("Use a new key for a new call.")));
}

/* ---- the lock ---- */

/* Nobody and nothing is called "". */
static const char *
name_of(const char *name)
{
	return name ? name : "";
}

/* The lock of the key. */
static LOCKTAG
lock_of(const OnceCall *call)
{
	const char *parts[] = {call->operation, name_of(call->tenant),
	name_of(call->provider), call->key};
	uint64		hash = quota_catalog()->extension;
	LOCKTAG		tag;

	for (int i = 0; i < lengthof(parts); i++)
		hash = hash_combine64(hash, hash_bytes_extended((const unsigned char *) parts[i],
														(int) strlen(parts[i]), 0));
	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, (uint32) (hash >> 32), (uint32) hash,
						 KEY_LOCK);
	return tag;
}

/* 55P03 */
pg_noreturn static void
key_is_busy(const OnceCall *call)
{
	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("key \"%s\" is in use by an open transaction", call->key),
			 errhint("Ask again when it has ended, or has been answered.")));
}

/* See once.h. */
void
once_release(const OnceCall *call)
{
	LOCKTAG		tag;

	if (call->key == NULL)
		return;
	tag = lock_of(call);
	LockRelease(&tag, ExclusiveLock, false);
}

/* ---- rows ---- */

/* The answer that the row keeps, in the present memory context. */
static void
read_answer(TupleTableSlot *row, AcquireAnswer *answer)
{
	TupleDesc	desc = row->tts_tupleDescriptor;

	answer->stored = true;
	memset(answer->nulls, true, sizeof(answer->nulls));
	answer->nulls[DECISION_ADMITTED] = false;
	answer->values[DECISION_ADMITTED] = BoolGetDatum(true);
	for (int i = 0; i < lengthof(kept); i++)
	{
		bool		isnull;
		Datum		value = slot_getattr(row, kept[i].column, &isnull);
		Form_pg_attribute att = TupleDescAttr(desc, kept[i].column - 1);

		answer->nulls[kept[i].attribute] = isnull;
		if (!isnull)
			answer->values[kept[i].attribute] =
				datumCopy(value, att->attbyval, att->attlen);
	}
}

/* Looks for the key's row; true when there is one, which busy says is open. */
static bool
find(const OnceCall *call, Jsonb **arguments, AcquireAnswer *answer, bool *busy)
{
	RowTable   *table = row_open(QUOTA_REL_KEYS);
	TupleTableSlot *row = row_slot(table);
	const char *names[] = {call->operation, name_of(call->tenant),
	name_of(call->provider), call->key};
	ScanKeyData keys[lengthof(names)];
	RowScan    *scan;
	bool		found;
	bool		isnull;

	for (int i = 0; i < lengthof(names); i++)
		ScanKeyInit(&keys[i], KEYS_OPERATION + i, BTEqualStrategyNumber, F_TEXTEQ,
					CStringGetTextDatum(names[i]));
	scan = row_scan_begin(table, QUOTA_REL_KEYS_PKEY, lengthof(names), keys);
	found = row_scan_next(scan, row, busy);
	if (found && !*busy)
	{
		*arguments = DatumGetJsonbPCopy(slot_getattr(row, KEYS_ARGUMENTS,
													 &isnull));
		if (answer)
			read_answer(row, answer);
	}
	row_scan_end(scan);
	row_close(table);
	return found;
}

/* See once.h. */
bool
once_take(const OnceCall *call, AcquireAnswer *answer)
{
	LOCKTAG		tag;
	Jsonb	   *before = NULL;
	Jsonb	   *now;
	bool		busy = false;

	if (call->key == NULL)
		return false;
	tag = lock_of(call);
	if (LockAcquire(&tag, ExclusiveLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
		key_is_busy(call);
	if (!find(call, &before, answer, &busy))
		return false;
	if (busy)
		key_is_busy(call);
	now = arguments_of(call);
	if (compareJsonbContainers(&before->root, &now->root) != 0)
		refuse_other_call(call, before, now);
	once_release(call);
	return true;
}

/* See once.h. */
void
once_store(const OnceCall *call, const AcquireAnswer *answer)
{
	RowTable   *keys;
	RowValues	row;

	if (call->key == NULL)
		return;
	keys = row_open(QUOTA_REL_KEYS);
	row = row_values(keys);
	row_set_text(&row, KEYS_OPERATION, call->operation);
	row_set_text(&row, KEYS_TENANT, name_of(call->tenant));
	row_set_text(&row, KEYS_PROVIDER, name_of(call->provider));
	row_set_text(&row, KEYS_KEY, call->key);
	row_set(&row, KEYS_ARGUMENTS, JsonbPGetDatum(arguments_of(call)));
	for (int i = 0; answer && i < lengthof(kept); i++)
		if (!answer->nulls[kept[i].attribute])
			row_set(&row, kept[i].column, answer->values[kept[i].attribute]);
	row_set(&row, KEYS_CREATED_AT, TimestampTzGetDatum(quota_wall_us()));
	row_insert(keys, &row);
	row_close(keys);
}
