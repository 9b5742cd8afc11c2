/*
 * job_history.c
 *		Adding an entry to quota.jobs.history; see job_history.h.
 */
#include "job_history.h"

#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "utils/datetime.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"

/* Adds a key and its value to the object that is being built. */
static void
add_pair(JsonbParseState **state, const char *key, JsonbValue *value)
{
	JsonbValue	name;

	name.type = jbvString;
	name.val.string.val = unconstify(char *, key);
	name.val.string.len = (int) strlen(key);
	pushJsonbValue(state, WJB_KEY, &name);
	pushJsonbValue(state, WJB_VALUE, value);
}

/* The same with a text of at most max bytes; nothing for NULL. */
static void
add_text(JsonbParseState **state, const char *key, const char *words, int max)
{
	JsonbValue	value;
	int			length;

	if (words == NULL)
		return;
	length = (int) strlen(words);
	value.type = jbvString;
	value.val.string.val = unconstify(char *, words);
	value.val.string.len = length <= max ? length : pg_mbcliplen(words, length, max);
	add_pair(state, key, &value);
}

/* The same with a number. */
static void
add_number(JsonbParseState **state, const char *key, int32 number)
{
	JsonbValue	value;

	value.type = jbvNumeric;
	value.val.numeric = int64_to_numeric(number);
	add_pair(state, key, &value);
}

/* The new entry as an object, which becomes an element of the array. */
static void
add_entry(JsonbParseState **state, int32 attempt, const JobHappening *happened)
{
	char		at[MAXDATELEN + 1];
	const int	utc = 0;

	JsonEncodeDateTime(at, TimestampTzGetDatum(quota_wall_us()), TIMESTAMPTZOID,
					   &utc);
	pushJsonbValue(state, WJB_BEGIN_OBJECT, NULL);
	add_number(state, "attempt", attempt);
	add_text(state, "at", at, MAXDATELEN);
	add_text(state, "state", happened->state, JOB_HISTORY_ERROR);
	if (happened->has_status)
		add_number(state, "status", happened->status);
	add_text(state, "error", happened->error, JOB_HISTORY_ERROR);
	add_text(state, "worker", happened->worker, JOB_HISTORY_ERROR);
	pushJsonbValue(state, WJB_END_OBJECT, NULL);
}

/* Adds the newest entries of before, room being left for one more. */
static void
add_old_entries(JsonbParseState **state, Jsonb *before)
{
	uint32		n = JB_ROOT_IS_ARRAY(before) && !JB_ROOT_IS_SCALAR(before) ?
		JB_ROOT_COUNT(before) : 0;

	for (uint32 i = n < JOB_HISTORY_ENTRIES ? 0 : n - JOB_HISTORY_ENTRIES + 1;
		 i < n; i++)
		pushJsonbValue(state, WJB_ELEM,
					   getIthJsonbValueFromContainer(&before->root, i));
}

/* See job_history.h. */
void
job_history_add(TupleTableSlot *job, RowValues *change,
				const JobHappening *happened)
{
	JsonbParseState *state = NULL;
	bool		isnull;
	Datum		before = slot_getattr(job, JOB_HISTORY, &isnull);

	pushJsonbValue(&state, WJB_BEGIN_ARRAY, NULL);
	if (!isnull)
		add_old_entries(&state, DatumGetJsonbP(before));
	add_entry(&state, row_int32(job, JOB_ATTEMPT), happened);
	row_set(change, JOB_HISTORY,
			JsonbPGetDatum(JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_ARRAY,
															NULL))));
}
