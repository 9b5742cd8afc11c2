/*
 * job_finish.c
 *		How an attempt ends: quota_complete(), quota_fail().  The fence and the
 *		order of locks and notes are those of job_held.h.
 */
#include "job_finish.h"

#include "args.h"
#include "job_history.h"
#include "job_retry.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

/* What a completed job's call was answered. */
#define HTTP_OK 200

PG_FUNCTION_INFO_V1(quota_complete);
PG_FUNCTION_INFO_V1(quota_fail);

/* See job_finish.h. */
void
finish_read_report(FunctionCallInfo fcinfo, int status, int headers, int latency,
				   Report *report)
{
	memset(report, 0, sizeof(*report));
	report->status = status < 0 ? -1 : quota_arg_status(fcinfo, status);
	report->headers = PG_ARGISNULL(headers) ? NULL : PG_GETARG_JSONB_P(headers);
	report->latency_us = quota_arg_latency(fcinfo, latency);
	/* a call that went well, if it says so by its headers */
	if (status < 0 && report_says_anything(report))
		report->status = HTTP_OK;
}

/* See job_finish.h. */
int64
finish_report(Held *h, int32 attempt, Report *report)
{
	/* a success is told where something is learned from that */
	if (!report_says_anything(report) && report->went_well &&
		quota_learns(h->names.provider))
		report->status = HTTP_OK;
	if (!report_says_anything(report))
		return 0;
	report->call.tenant = h->names.tenant;
	report->call.provider = h->names.provider;
	report->call.endpoint = h->names.endpoint[0] ? h->names.endpoint : NULL;
	report->call.class_name = h->names.class_name;
	report->call.user = row_text(h->job, JOB_USER);
	report->call.connection = row_text(h->job, JOB_CONNECTION);
	report->call.resource = row_text(h->job, JOB_RESOURCE);
	report->attempt = attempt;
	return report_try(report);
}

/* ---- complete ---- */

/* See job_finish.h. */
void
finish_complete(Held *h, bool has_result, Datum result,
				const QuotaUnits *units)
{
	RowValues	change = row_values(h->jobs);

	held_give_back(h, true, units, 0, QUOTA_NEVER, 1);
	if (has_result)
		row_set(&change, JOB_RESULT, result);
	job_write_over(h->jobs, h->job, "succeeded", &change);
}

/* quota_complete(id, attempt, result, units, headers, latency): see its COMMENT. */
Datum
quota_complete(PG_FUNCTION_ARGS)
{
	Held		h;
	int64		id;
	int32		attempt;
	QuotaUnits *units;
	Report		report;

	quota_enter_write("quota_complete()");
	finish_read_report(fcinfo, -1, 4, 5, &report);
	report.went_well = true;
	id = quota_arg_int64(fcinfo, 0, "id", PG_INT64_MIN, PG_INT64_MAX);
	attempt = quota_arg_int32(fcinfo, 1, "attempt", PG_INT32_MIN, PG_INT32_MAX);
	units = quota_arg_units(fcinfo, 3);
	held_open(&h);
	held_end(&h, id, attempt);
	(void) finish_report(&h, attempt, &report);
	finish_complete(&h, !PG_ARGISNULL(2), PG_GETARG_DATUM(2), units);
	held_close(&h);
	PG_RETURN_VOID();
}

/* ---- fail ---- */

/* The job waits for its next attempt. */
static void
write_retry(Held *h, int64 delay_ns, RowValues *change)
{
	RowValues	lease = row_values(h->leases);

	row_set(&lease, LEASE_STATE, CharGetDatum(LEASE_RETRY));
	row_set(&lease, LEASE_READY_AT,
			TimestampTzGetDatum(quota_steady_of(h->now_ns + delay_ns)));
	row_set_null(&lease, LEASE_PERMIT);
	row_set_null(&lease, LEASE_WORKER);
	row_set_null(&lease, LEASE_BATCH);
	row_update(h->leases, h->lease, &lease);
	row_set(change, JOB_STATE, CStringGetTextDatum("queued"));
	job_write(h->jobs, h->job, change);
}

/* What the end of this attempt makes of the job. */
static const char *
state_after(Held *h, int32 attempt, const Failure *failure)
{
	if (held_cancel_requested(h))
		return "cancelled";
	if (!failure->retry || attempt >= row_int32(h->job, JOB_MAX_ATTEMPTS))
		return "failed";
	return "queued";
}

/* What the failure says of the job, for its row. */
static RowValues
failure_change(Held *h, const Failure *failure)
{
	RowValues	change = row_values(h->jobs);
	JobHappening happened = {.state = HAPPENED_FAILED};

	row_set(&change, JOB_ERROR, CStringGetTextDatum(failure->error));
	if (failure->has_status)
		row_set(&change, JOB_STATUS, Int32GetDatum(failure->status));
	if (held_cancel_requested(h))
		happened.state = HAPPENED_CANCELLED;
	happened.has_status = failure->has_status;
	happened.status = failure->status;
	happened.error = failure->error;
	happened.worker = held_worker(h);
	job_history_add(h->job, &change, &happened);
	return change;
}

/* See job_finish.h. */
const char *
finish_fail(Held *h, int32 attempt, const Failure *failure)
{
	RowValues	change = failure_change(h, failure);
	const char *state = state_after(h, attempt, failure);
	int64		delay_ns;

	if (strcmp(state, "queued") != 0)
	{
		held_give_back(h, failure->billed, NULL, 0, QUOTA_NEVER, 0);
		row_delete(h->leases, h->lease);
		job_write_over(h->jobs, h->job, state, &change);
		return state;
	}
	delay_ns = job_retry_delay(&h->names, attempt, failure->wait_us);
	held_give_back(h, failure->billed, NULL, 1,
				   quota_ns_of_steady(quota_steady_of(h->now_ns + delay_ns)), 0);
	write_retry(h, delay_ns, &change);
	return state;
}

/* quota_fail(id, attempt, error, status, headers, billed, retry, latency): see its
 * COMMENT. */
Datum
quota_fail(PG_FUNCTION_ARGS)
{
	Held		h;
	Failure		failure = {0};
	int64		id;
	int32		attempt;
	const char *state;
	Report		report;

	quota_enter_write("quota_fail()");
	finish_read_report(fcinfo, 3, 4, 7, &report);
	id = quota_arg_int64(fcinfo, 0, "id", PG_INT64_MIN, PG_INT64_MAX);
	attempt = quota_arg_int32(fcinfo, 1, "attempt", PG_INT32_MIN, PG_INT32_MAX);
	failure.error = quota_arg_text(fcinfo, 2, "error", true);
	failure.has_status = !PG_ARGISNULL(3);
	failure.status = report.status;
	report.reason = failure.error;
	failure.billed = quota_arg_bool(fcinfo, 5, "billed");
	failure.retry = quota_arg_bool(fcinfo, 6, "retry");
	held_open(&h);
	held_running(&h, id, attempt);
	failure.wait_us = finish_report(&h, attempt, &report);
	state = finish_fail(&h, attempt, &failure);
	held_close(&h);
	PG_RETURN_TEXT_P(cstring_to_text(state));
}
