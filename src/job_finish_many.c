/*
 * job_finish_many.c
 *		The array forms of quota_complete() and quota_fail(): one call for the jobs
 *		of a batch, with an answer for each.
 *
 * Items are worked on in the order of their ids, whatever the order of the
 * arrays, and no row lock is waited for, so that no two calls can deadlock.  What
 * can happen to one item without fault of the caller is its answer: "stale", its
 * lease is over or somebody has finished it, perhaps an earlier element of the
 * same array; "busy", another transaction has a row of it.  Everything else is an
 * error, and all of the call is undone with its transaction.
 *
 * Memory of an item is given back before the next one, and the journal merges
 * what it notes, so that an array may have as many elements as an array can.
 */
#include "job_finish.h"

#include "catalog/pg_type.h"
#include "job_many.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(quota_complete_array);
PG_FUNCTION_INFO_V1(quota_fail_array);

/* What one call works on. */
typedef struct Many
{
	int			n;
	ManyItem   *items;			/* by id and attempt */
	Held		held;
	int			read_until;		/* many_read_ahead() */
	/* of quota_complete() */
	QuotaArray	results;
	QuotaArray	units;
	/* of quota_fail() */
	Failure		failure;
	QuotaArray	errors;
	QuotaArray	statuses;
	/* the answer to all of them */
	Report		report;
	int			status;			/* of quota_complete(): what is said of all */
	bool		reported;		/* of this flow and with this status: once for all */
	int			reported_status;
	JobNames	reported_names;
	int64		wait_us;
} Many;

/* How an item is held, and ended; says what became of it. */
typedef struct Finish
{
	HeldOutcome (*hold) (Held *held, int64 id, int32 attempt);
	const char *(*end) (Many *many, const ManyItem *item);
} Finish;

/* ---- the items ---- */

/* The element is there and not null. */
static bool
has_element(const QuotaArray *array, int i)
{
	return i < array->n && !array->nulls[i];
}

/* Ends one item, or says why not. */
static const char *
finish_item(Many *many, const ManyItem *item, const Finish *finish)
{
	switch (finish->hold(&many->held, item->id, item->attempt))
	{
		case HELD_STALE:
			return "stale";
		case HELD_BUSY:
			return "busy";
		case HELD_RUNNING:
			break;
	}
	return finish->end(many, item);
}

/* Ends all items; their answers in the order of the arrays. */
static ArrayType *
finish_all(Many *many, const Finish *finish)
{
	Datum	   *answers = palloc(sizeof(Datum) * Max(many->n, 1));
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext context = AllocSetContextCreate(caller, "quota finish",
												  ALLOCSET_DEFAULT_SIZES);

	held_open(&many->held);
	many->read_until = 0;
	for (int i = 0; i < many->n; i++)
	{
		const char *answer;

		CHECK_FOR_INTERRUPTS();
		MemoryContextSwitchTo(context);
		many_read_ahead(many->items, many->n, i, &many->held, &many->read_until);
		answer = finish_item(many, &many->items[i], finish);
		MemoryContextSwitchTo(caller);
		MemoryContextReset(context);
		answers[many->items[i].place] = CStringGetTextDatum(answer);
	}
	held_close(&many->held);
	MemoryContextDelete(context);
	return construct_array(answers, many->n, TEXTOID, -1, false, TYPALIGN_INT);
}

/* Are they jobs of one tenant, provider, endpoint and class? */
static bool
same_names(const JobNames *a, const JobNames *b)
{
	return a->hash == b->hash && strcmp(a->tenant, b->tenant) == 0 &&
		strcmp(a->provider, b->provider) == 0 &&
		strcmp(a->endpoint, b->endpoint) == 0 &&
		strcmp(a->class_name, b->class_name) == 0;
}

/* Takes the answer in, once for equal items that follow one another. */
static int64
report_item(Many *many, const ManyItem *item, int status, const char *reason)
{
	Report	   *report = &many->report;

	if (many->reported && many->reported_status == status &&
		same_names(&many->reported_names, &many->held.names))
		return many->wait_us;
	report->status = status;
	report->reason = reason;
	many->wait_us = finish_report(&many->held, item->attempt, report);
	many->reported = true;
	many->reported_status = status;
	many->reported_names = many->held.names;
	return many->wait_us;
}

/* The held item has succeeded. */
static const char *
complete_item(Many *many, const ManyItem *item)
{
	bool		has_result = has_element(&many->results, item->place);
	QuotaUnits *units = NULL;

	if (has_element(&many->units, item->place))
		units = quota_units_parse(DatumGetJsonbP(many->units.values[item->place]));
	(void) report_item(many, item, many->status, NULL);
	finish_complete(&many->held, has_result,
					has_result ? many->results.values[item->place] : (Datum) 0,
					units);
	return "succeeded";
}

/* The held item has failed. */
static const char *
fail_item(Many *many, const ManyItem *item)
{
	Failure    *failure = &many->failure;

	failure->error = TextDatumGetCString(many->errors.values[item->place]);
	failure->has_status = has_element(&many->statuses, item->place);
	if (failure->has_status)
		failure->status = DatumGetInt32(many->statuses.values[item->place]);
	failure->wait_us = report_item(many, item, failure->has_status ? failure->status : -1,
								   failure->error);
	return finish_fail(&many->held, item->attempt, failure);
}

static const Finish complete = {held_try_end, complete_item};
static const Finish fail = {held_try_running, fail_item};

/* ---- the functions ---- */

/* quota_complete(ids, attempts, results, units, headers, latency): see its COMMENT. */
Datum
quota_complete_array(PG_FUNCTION_ARGS)
{
	Many		many;

	quota_enter_write("quota_complete()");
	memset(&many, 0, sizeof(many));
	many.items = many_read(fcinfo, &many.n);
	finish_read_report(fcinfo, -1, 4, 5, &many.report);
	many.report.went_well = true;
	many.status = many.report.status;
	many.results = many_optional(fcinfo, 2, "results", JSONBOID, many.n);
	many.units = many_optional(fcinfo, 3, "units", JSONBOID, many.n);
	PG_RETURN_ARRAYTYPE_P(finish_all(&many, &complete));
}

/* quota_fail(ids, attempts, errors, statuses, headers, billed, retry, latency): see
 * its COMMENT. */
Datum
quota_fail_array(PG_FUNCTION_ARGS)
{
	Many		many;

	quota_enter_write("quota_fail()");
	memset(&many, 0, sizeof(many));
	many.items = many_read(fcinfo, &many.n);
	many.errors = quota_arg_array(fcinfo, 2, "errors", TEXTOID, false);
	many_check_length(&many.errors, "errors", many.n);
	many.statuses = many_optional(fcinfo, 3, "statuses", INT4OID, many.n);
	finish_read_report(fcinfo, -1, 4, 7, &many.report);
	many.failure.billed = quota_arg_bool(fcinfo, 5, "billed");
	many.failure.retry = quota_arg_bool(fcinfo, 6, "retry");
	PG_RETURN_ARRAYTYPE_P(finish_all(&many, &fail));
}
