/*
 * acquire_key.c
 *		Idempotency keys: the answer to a call that was admitted is a row of
 *		quota.acquired, and asking again with the same key gives it again.
 *
 * The row is written in the transaction that was admitted, so they end together: a
 * key whose use was rolled back is free.  A refusal leaves nothing.
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
#include "acquire.h"

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

/* The fourth field of our lock tags; pg_advisory_lock() uses 1 and 2. */
#define KEY_LOCK 81

/* What is kept of an answer, and where. */
static const struct
{
	Decision	attribute;
	int			column;
}			kept[] = {
	{DECISION_GRANTED, ACQUIRED_GRANTED},
	{DECISION_REASON, ACQUIRED_REASON},
	{DECISION_LIMIT_NAME, ACQUIRED_LIMIT_NAME},
	{DECISION_REMAINING, ACQUIRED_REMAINING},
	{DECISION_PERMIT, ACQUIRED_PERMIT},
	{DECISION_EXHAUSTED, ACQUIRED_EXHAUSTED},
};

/* ---- arguments ---- */

/* Adds an argument. */
static void
push_value(JsonbParseState **state, const char *name, JsonbValue *value)
{
	JsonbValue	key = acquire_json_string(name);

	pushJsonbValue(state, WJB_KEY, &key);
	pushJsonbValue(state, WJB_VALUE, value);
}

/* The same, a text, if it was given. */
static void
push_text(JsonbParseState **state, const char *name, const char *value)
{
	JsonbValue	v;

	if (value == NULL)
		return;
	v = acquire_json_string(value);
	push_value(state, name, &v);
}

/* What a later call with the key must repeat; what was not given is left out. */
static Jsonb *
arguments_of(const AcquireArgs *args)
{
	JsonbParseState *state = NULL;
	JsonbValue	v;

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	push_text(&state, "endpoint", args->call.endpoint);
	v.type = jbvNumeric;
	v.val.numeric = int64_to_numeric(args->ask.n);
	push_value(&state, "n", &v);
	if (args->units)
	{
		JsonbToJsonbValue(args->units, &v);
		push_value(&state, "units", &v);
	}
	push_text(&state, "class", args->call.class_name);
	push_text(&state, "user", args->call.user);
	push_text(&state, "connection", args->call.connection);
	push_text(&state, "resource", args->call.resource);
	v.type = jbvBool;
	v.val.boolean = args->ask.partial;
	push_value(&state, "partial", &v);
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
refuse_other_call(const AcquireArgs *args, Jsonb *before, Jsonb *now)
{
	static const char *const names[] = {"endpoint", "n", "units", "class", "user",
	"connection", "resource", "partial"};
	int			i = 0;

	while (i < lengthof(names) - 1 &&
		   strcmp(member(before, names[i]), member(now, names[i])) == 0)
		i++;
	ereport(ERROR,
			(errcode(ERRCODE_UNIQUE_VIOLATION),
			 errmsg("key \"%s\" was used for another call", args->key),
			 errdetail("Argument \"%s\" was %s and is %s now.", names[i],
					   member(before, names[i]), member(now, names[i])),
			 errhint("Use a new key for a new call.")));
}

/* ---- the lock ---- */

/* The lock of the key. */
static LOCKTAG
lock_of(const AcquireArgs *args)
{
	const char *parts[] = {args->call.tenant, args->call.provider, args->key};
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
key_is_busy(const AcquireArgs *args)
{
	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("key \"%s\" is in use by an open transaction", args->key),
			 errhint("Ask again when it has ended, or has been answered.")));
}

/* See acquire.h. */
void
key_release(const AcquireArgs *args)
{
	LOCKTAG		tag = lock_of(args);

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
find(const AcquireArgs *args, Jsonb **arguments, AcquireAnswer *answer, bool *busy)
{
	RowTable   *acquired = row_open(QUOTA_REL_ACQUIRED);
	TupleTableSlot *row = row_slot(acquired);
	ScanKeyData keys[3];
	RowScan    *scan;
	bool		found;
	bool		isnull;

	ScanKeyInit(&keys[0], ACQUIRED_TENANT, BTEqualStrategyNumber, F_TEXTEQ,
				CStringGetTextDatum(args->call.tenant));
	ScanKeyInit(&keys[1], ACQUIRED_PROVIDER, BTEqualStrategyNumber, F_TEXTEQ,
				CStringGetTextDatum(args->call.provider));
	ScanKeyInit(&keys[2], ACQUIRED_KEY, BTEqualStrategyNumber, F_TEXTEQ,
				CStringGetTextDatum(args->key));
	scan = row_scan_begin(acquired, QUOTA_REL_ACQUIRED_PKEY, 3, keys);
	found = row_scan_next(scan, row, busy);
	if (found && !*busy)
	{
		*arguments = DatumGetJsonbPCopy(slot_getattr(row, ACQUIRED_ARGUMENTS,
													 &isnull));
		read_answer(row, answer);
	}
	row_scan_end(scan);
	row_close(acquired);
	return found;
}

/* See acquire.h. */
bool
key_take(const AcquireArgs *args, AcquireAnswer *answer)
{
	LOCKTAG		tag = lock_of(args);
	Jsonb	   *before = NULL;
	Jsonb	   *now;
	bool		busy = false;

	if (LockAcquire(&tag, ExclusiveLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
		key_is_busy(args);
	if (!find(args, &before, answer, &busy))
		return false;
	if (busy)
		key_is_busy(args);
	now = arguments_of(args);
	if (compareJsonbContainers(&before->root, &now->root) != 0)
		refuse_other_call(args, before, now);
	key_release(args);
	return true;
}

/* See acquire.h. */
void
key_store(const AcquireArgs *args, const AcquireAnswer *answer)
{
	RowTable   *acquired = row_open(QUOTA_REL_ACQUIRED);
	RowValues	row = row_values(acquired);

	row_set_text(&row, ACQUIRED_TENANT, args->call.tenant);
	row_set_text(&row, ACQUIRED_PROVIDER, args->call.provider);
	row_set_text(&row, ACQUIRED_KEY, args->key);
	row_set(&row, ACQUIRED_ARGUMENTS, JsonbPGetDatum(arguments_of(args)));
	for (int i = 0; i < lengthof(kept); i++)
		if (!answer->nulls[kept[i].attribute])
			row_set(&row, kept[i].column, answer->values[kept[i].attribute]);
	row_set(&row, ACQUIRED_CREATED_AT, TimestampTzGetDatum(quota_wall_us()));
	row_insert(acquired, &row);
	row_close(acquired);
}
