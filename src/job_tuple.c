/*
 * job_tuple.c
 *		Reading a row of quota.jobs as triggers get it, in a heap tuple.
 */
#include "job_tuple.h"

#include "access/detoast.h"
#include "access/htup_details.h"
#include "error.h"
#include "utils/jsonb.h"

#define MAX_KEY 1024			/* bytes of a dedupe key */

/* Takes the row apart, in the current memory context. */
void
job_row_read(JobRow *row, HeapTuple tuple, TupleDesc desc)
{
	row->desc = desc;
	row->values = row->values_space;
	row->nulls = row->nulls_space;
	if (desc->natts > JOB_ROW_SPACE)
	{
		row->values = palloc(desc->natts * sizeof(Datum));
		row->nulls = palloc(desc->natts * sizeof(bool));
	}
	heap_deform_tuple(tuple, desc, row->values, row->nulls);
}

/* A name; throws 22023 when it is too long. */
static NamePart
get_name(const JobRow *row, int column, const char *argument)
{
	NamePart	part = {"", 0};
	text	   *t;

	if (job_row_isnull(row, column))
		return part;
	t = DatumGetTextPP(job_row_get(row, column));
	part.bytes = VARDATA_ANY(t);
	part.length = VARSIZE_ANY_EXHDR(t);
	if (part.length >= QUOTA_NAME_LEN)
		quota_error_too_long(argument, part.length);
	return part;
}

/* 22023: the index of quota.dedupe takes no longer ones. */
static void
check_key(const JobRow *row)
{
	int			length;

	if (job_row_isnull(row, JOB_DEDUPE_KEY))
		return;
	length = (int) toast_raw_datum_size(job_row_get(row, JOB_DEDUPE_KEY)) - VARHDRSZ;
	if (length <= MAX_KEY)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("argument \"dedupe_key\" is too long"),
			 errdetail("It has %d bytes, at most %d are allowed.", length, MAX_KEY),
			 errhint("Use a hash of it.")));
}

/* See job_tuple.h. */
void
job_row_check(const JobRow *row)
{
	check_key(row);
	(void) get_name(row, JOB_USER, "user");
	(void) get_name(row, JOB_CONNECTION, "connection");
	(void) get_name(row, JOB_RESOURCE, "resource");
	if (!job_row_isnull(row, JOB_UNITS))
		pfree(quota_units_parse(DatumGetJsonbP(job_row_get(row, JOB_UNITS))));
}

/* See job_tuple.h. */
KnownFlow *
job_row_flow(const JobRow *row)
{
	static const NamePart event = {"event", 5};
	NamePart	parts[N_PARTS];

	parts[PART_TENANT] = get_name(row, JOB_TENANT, "tenant");
	parts[PART_PROVIDER] = get_name(row, JOB_PROVIDER, "provider");
	parts[PART_ENDPOINT] = get_name(row, JOB_ENDPOINT, "endpoint");
	parts[PART_CLASS] = get_name(row, JOB_CLASS, "class");
	if (job_row_isnull(row, JOB_CLASS))
		parts[PART_CLASS] = event;
	return known_flow(parts);
}

/* Where the row belongs. */
Standing
job_row_standing(const JobRow *row)
{
	text	   *state;
	const char *s;
	int			n;

	if (job_row_isnull(row, JOB_STATE))
		return STANDING_OVER;	/* a constraint will refuse it */
	state = DatumGetTextPP(job_row_get(row, JOB_STATE));
	s = VARDATA_ANY(state);
	n = VARSIZE_ANY_EXHDR(state);
	if (n == 6 && memcmp(s, "queued", 6) == 0)
		return DatumGetInt32(job_row_get(row, JOB_ATTEMPT)) == 0
			? STANDING_FRESH : STANDING_RETRY;
	if (n == 9 && memcmp(s, "scheduled", 9) == 0)
		return STANDING_SCHEDULED;
	if (n == 7 && memcmp(s, "running", 7) == 0)
		return STANDING_RUNNING;
	return STANDING_OVER;
}

/* The same for a row in a slot. */
Standing
job_standing(TupleTableSlot *job)
{
	if (job_state_is(job, "queued"))
		return row_int32(job, JOB_ATTEMPT) == 0 ? STANDING_FRESH : STANDING_RETRY;
	if (job_state_is(job, "scheduled"))
		return STANDING_SCHEDULED;
	return job_state_is(job, "running") ? STANDING_RUNNING : STANDING_OVER;
}
