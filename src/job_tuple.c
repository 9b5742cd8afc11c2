/*
 * job_tuple.c
 *		Reading a row of quota.jobs as triggers get it, in a heap tuple.
 */
#include "job_tuple.h"

#include "access/htup_details.h"
#include "error.h"
#include "key.h"

/* A name of at most QUOTA_NAME_LEN - 1 bytes into out, "" for null. */
void
job_tuple_name(HeapTuple row, TupleDesc desc, int column, const char *argument,
			   char out[QUOTA_NAME_LEN])
{
	bool		isnull;
	Datum		value = heap_getattr(row, column, desc, &isnull);
	text	   *t;
	int			length;

	out[0] = '\0';
	if (isnull)
		return;
	t = DatumGetTextPP(value);
	length = VARSIZE_ANY_EXHDR(t);
	if (length >= QUOTA_NAME_LEN)
		quota_error_too_long(argument, length);
	memcpy(out, VARDATA_ANY(t), length);
	out[length] = '\0';
}

/* Names of the job in the row, with their hash. */
void
job_tuple_names(HeapTuple row, TupleDesc desc, JobNames *names)
{
	static JobNames newest;		/* hashed last */

	memset(names, 0, sizeof(*names));
	job_tuple_name(row, desc, JOB_TENANT, "tenant", names->tenant);
	job_tuple_name(row, desc, JOB_PROVIDER, "provider", names->provider);
	job_tuple_name(row, desc, JOB_ENDPOINT, "endpoint", names->endpoint);
	job_tuple_name(row, desc, JOB_CLASS, "class", names->class_name);
	if (names->class_name[0] == '\0')
		strlcpy(names->class_name, "event", QUOTA_NAME_LEN);
	if (strcmp(names->tenant, newest.tenant) != 0 ||
		strcmp(names->provider, newest.provider) != 0 ||
		strcmp(names->endpoint, newest.endpoint) != 0 ||
		strcmp(names->class_name, newest.class_name) != 0)
	{
		newest = *names;
		newest.hash = quota_flow_hash(names->provider, names->tenant,
									  names->class_name,
									  names->endpoint[0] ? names->endpoint : NULL);
	}
	names->hash = newest.hash;
}

/* Compares a text column without copying it; null equals nothing. */
static bool
text_is(HeapTuple row, TupleDesc desc, int column, const char *expected)
{
	bool		isnull;
	Datum		value = heap_getattr(row, column, desc, &isnull);
	text	   *t;

	if (isnull)
		return false;
	t = DatumGetTextPP(value);
	return VARSIZE_ANY_EXHDR(t) == strlen(expected) &&
		memcmp(VARDATA_ANY(t), expected, strlen(expected)) == 0;
}

/* A column that is never null. */
int64
job_tuple_int64(HeapTuple row, TupleDesc desc, int column)
{
	bool		isnull;

	return DatumGetInt64(heap_getattr(row, column, desc, &isnull));
}

/* Where the row belongs. */
Standing
job_tuple_standing(HeapTuple row, TupleDesc desc)
{
	bool		isnull;

	if (text_is(row, desc, JOB_STATE, "queued"))
		return DatumGetInt32(heap_getattr(row, JOB_ATTEMPT, desc, &isnull)) == 0
			? STANDING_FRESH : STANDING_RETRY;
	if (text_is(row, desc, JOB_STATE, "scheduled"))
		return STANDING_SCHEDULED;
	if (text_is(row, desc, JOB_STATE, "running"))
		return STANDING_RUNNING;
	return STANDING_OVER;
}
