/*
 * config_retry.c
 *		A class that has a retry_base and no retry_max goes by the retry_max of each
 *		provider.  One that is below would make the retry_base mean nothing, so the
 *		row that brings them together is refused, be it the class's or the
 *		provider's.  Where two transactions at the same time get past this, the
 *		retry_max holds (job_retry.c).
 *
 * A class with a retry_max of its own goes by that everywhere, also where it is
 * below the retry_base of a provider: it is the more specific of the two.
 *
 * Rows come here before the constraints of their tables: what those will refuse is
 * left to them.
 */
#include "config_retry.h"

#include "access/htup_details.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

/* A row that has an interval which counts here. */
typedef struct RetryRow
{
	char	   *name;			/* NULL = none has */
	Interval   *span;
} RetryRow;

/* Of a class: its retry_base, if it has to go by the retry_max of providers. */
static RetryRow
base_of_class(Datum *values, bool *nulls)
{
	RetryRow	row = {NULL, NULL};

	if (nulls[CLASSES_CLASS - 1] || nulls[CLASSES_RETRY_BASE - 1] ||
		!nulls[CLASSES_RETRY_MAX - 1])
		return row;
	row.name = TextDatumGetCString(values[CLASSES_CLASS - 1]);
	row.span = DatumGetIntervalP(values[CLASSES_RETRY_BASE - 1]);
	return row;
}

/* Of a provider: its retry_max. */
static RetryRow
max_of_provider(Datum *values, bool *nulls)
{
	RetryRow	row = {NULL, NULL};

	if (nulls[PROVIDERS_PROVIDER - 1] || nulls[PROVIDERS_RETRY_MAX - 1])
		return row;
	row.name = TextDatumGetCString(values[PROVIDERS_PROVIDER - 1]);
	row.span = DatumGetIntervalP(values[PROVIDERS_RETRY_MAX - 1]);
	return row;
}

/* An interval in words. */
static char *
words(Interval *span)
{
	return DatumGetCString(DirectFunctionCall1(interval_out,
											   IntervalPGetDatum(span)));
}

/* 23514 when these two, neither of them missing, don't go together. */
static void
check_pair(const RetryRow *class_row, const RetryRow *provider)
{
	if (!DatumGetBool(DirectFunctionCall2(interval_gt,
										  IntervalPGetDatum(class_row->span),
										  IntervalPGetDatum(provider->span))))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_CHECK_VIOLATION),
			 errmsg("retry_base of class \"%s\" exceeds retry_max of provider \"%s\"",
					class_row->name, provider->name),
			 errdetail("retry_base: %s; retry_max: %s.",
					   words(class_row->span), words(provider->span)),
			 errhint("Give the class a retry_max of its own, or change one of these.")));
}

/* The row with all rows of the other table. */
static void
check_others(bool is_class, const RetryRow *row)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	ConfigScan	scan;

	config_scan_begin(&scan, is_class ? QUOTA_REL_PROVIDERS : QUOTA_REL_CLASSES,
					  QUOTA_N_RELATIONS, NULL, snapshot);
	while (config_scan_next(&scan))
	{
		RetryRow	other = is_class ? max_of_provider(scan.values, scan.nulls)
			: base_of_class(scan.values, scan.nulls);

		if (other.name)
			check_pair(is_class ? row : &other, is_class ? &other : row);
	}
	config_scan_end(&scan);
	UnregisterSnapshot(snapshot);
}

/* See config_retry.h. */
void
config_check_retry(QuotaRelation rel, TupleDesc desc, HeapTuple row)
{
	Datum	   *values = palloc(desc->natts * sizeof(Datum));
	bool	   *nulls = palloc(desc->natts * sizeof(bool));
	bool		is_class = rel == QUOTA_REL_CLASSES;
	RetryRow	own;

	heap_deform_tuple(row, desc, values, nulls);
	own = is_class ? base_of_class(values, nulls) : max_of_provider(values, nulls);
	if (own.name)
		check_others(is_class, &own);
	pfree(values);
	pfree(nulls);
}
