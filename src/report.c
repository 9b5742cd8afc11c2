/*
 * report.c
 *		What a provider's answer does here: quota_report(), and what quota_settle(),
 *		quota_complete() and quota_fail() are told of it.
 *
 *	  headers, status		->	feedback.c: what kind of answer, whom it concerns
 *	  what it asks to pause	->	report_pause.c
 *	  whose permit it was	->	report_permit.c: the buckets it was charged in
 *	  what it says is left	->	report_limits.c: buckets are lowered
 *	  class, scope, latency	->	learn.c: circuit breakers and adaptive limits
 *	  what was seen			->	counters of the provider; all but successes go to the
 *								ring of quota.feedback (seen.c)
 *
 * An answer is evidence: it acts at once, in shared memory, and no rollback of the
 * transaction that reports it undoes that.  A background worker writes the rows.
 * Counters are under the slot's lock; what throws or allocates comes before or after.
 */
#include "report.h"

#include "args.h"
#include "catalog.h"
#include "error.h"
#include "event.h"
#include "feedback_headers.h"
#include "journal.h"
#include "learn.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "policy_answer.h"
#include "seen.h"
#include "subxact.h"
#include "utils/builtins.h"
#include "utils/json.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(quota_report);

/* An event that an account is exhausted, at most so often for a provider. */
#define TELL_AGAIN_NS (60 * QUOTA_NS_PER_S)

/* ---- what was seen ---- */

/* Copies what fits, in whole characters; NULL becomes "". */
static void
copy_clipped(char *target, Size size, const char *source)
{
	int			length = source == NULL ? 0
		: pg_mbcliplen(source, strlen(source), (int) size - 1);

	if (length > 0)
		memcpy(target, source, length);
	target[length] = '\0';
}

/* The headers that told something, as many as fit, as a JSON object. */
static void
copy_headers(const FeedbackAnswer *answer, const FeedbackOutcome *outcome,
			 char *target, Size size)
{
	StringInfoData json;

	initStringInfo(&json);
	appendStringInfoChar(&json, '{');
	for (int i = 0; i < Min(answer->nheaders, 64); i++)
	{
		int			before = json.len;

		if ((outcome->told_by & (UINT64CONST(1) << i)) == 0)
			continue;
		if (json.len > 1)
			appendStringInfoString(&json, ", ");
		escape_json(&json, answer->headers[i].name);
		appendStringInfoString(&json, ": ");
		escape_json(&json, answer->headers[i].value);
		if (json.len + 2 > size)
		{
			json.len = before;
			json.data[before] = '\0';
		}
	}
	appendStringInfoChar(&json, '}');
	strlcpy(target, json.data, size);
}

/* Counts the answer; true when an event is to tell that the account is exhausted. */
static bool
count(uint32 slot, const FeedbackOutcome *outcome)
{
	QuotaSlot  *s = &quota_slots[slot];
	int64		now_ns;
	bool		tell = false;

	quota_lock(&s->lock);
	now_ns = quota_now_ns();
	s->answers[outcome->class]++;
	s->headers_ignored += outcome->ignored;
	if (outcome->class == FEEDBACK_EXHAUSTED &&
		(s->exhausted_told_ns == 0 || s->exhausted_told_ns + TELL_AGAIN_NS <= now_ns))
	{
		s->exhausted_told_ns = Max(now_ns, 1);
		tell = true;
	}
	LWLockRelease(&s->lock);
	return tell;
}

/* Keeps it for quota.feedback. */
static void
keep(const Report *report, const FeedbackAnswer *answer,
	 const FeedbackOutcome *outcome, const ReportLevels *levels)
{
	QuotaSeen  *seen = palloc0(sizeof(QuotaSeen));

	seen->database = MyDatabaseId;
	seen->at_us = quota_wall_us();
	copy_clipped(seen->provider, sizeof(seen->provider), report->call.provider);
	copy_clipped(seen->tenant, sizeof(seen->tenant), report->call.tenant);
	copy_clipped(seen->endpoint, sizeof(seen->endpoint), report->call.endpoint);
	copy_clipped(seen->reason, sizeof(seen->reason), outcome->reason);
	copy_headers(answer, outcome, seen->headers, sizeof(seen->headers));
	seen->outcome = outcome->class;
	seen->scope = outcome->scope;
	seen->status = report->status;
	seen->attempt = report->attempt;
	seen->retry_after_us = outcome->retry_after_us;
	seen->latency_us = report->latency_us;
	seen->in_flight = levels->in_flight;
	seen->has_level = levels->has_level;
	seen->level = levels->level;
	seen_note(seen);
	pfree(seen);
}

/* ---- taking it in ---- */

/*
 * Takes it in, for all and whatever becomes of this transaction, and says what it means.
 * No lock held.  Nothing in the headers is an error; may throw when out of memory.
 */
static void
take(const Report *report, FeedbackOutcome *outcome)
{
	FeedbackAnswer answer = {0};
	FeedbackRule *rules;
	int			nrules;
	QuotaPlan  *plan = NULL;
	ReportLevels levels = {-1, false, 0};
	int64		paused_ns;

	answer.status = report->status;
	answer.reason = report->reason;
	answer.has_endpoint = report->call.endpoint != NULL;
	answer.has_tenant = report->call.tenant != NULL;
	answer.has_connection = report->call.connection != NULL;
	feedback_headers(report->headers, &answer);
	rules = policy_answer_rules(report->call.provider, &nrules);
	feedback_classify(&answer, rules, nrules, quota_wall_us(), outcome);

	/* first what spares others the same answer */
	paused_ns = report_pause(report, outcome);
	/* the background worker is found by the database's slot */
	(void) quota_slot(MyDatabaseId, quota_catalog()->extension, "");
	plan = quota_plan_unchecked(&report->call);
	if (plan != NULL && report->permit != 0)
		plan = report_permit_plan(plan, report->permit);
	if (plan != NULL && report->call.tenant != NULL)
		levels = report_limits(plan, outcome);
	if (plan != NULL)
		learn(plan, outcome, report->latency_us, paused_ns);
	if (count(quota_slot(MyDatabaseId, quota_catalog()->extension,
						 report->call.provider), outcome))
		quota_event(MyDatabaseId, "account_exhausted", report->call.provider,
					report->call.tenant, outcome->reason);
	if (outcome->class != FEEDBACK_SUCCESS)
		keep(report, &answer, outcome, &levels);
}

/* One that must not fail. */
typedef struct ReportTry
{
	const Report *report;
	FeedbackOutcome outcome;
} ReportTry;

/* For subxact_try(). */
static void
take_in(void *arg)
{
	ReportTry  *try = arg;

	take(try->report, &try->outcome);
}

/* See report.h. */
int64
report_try(const Report *report)
{
	ReportTry	try;
	ErrorData  *error;

	try.report = report;
	try.outcome.retry_after_us = FEEDBACK_NOT_TOLD;
	error = subxact_try(take_in, &try);
	if (error)
		ereport(WARNING,
				(errcode(error->sqlerrcode),
				 errmsg("the answer of provider \"%s\" was not taken in",
						report->call.provider),
				 errdetail("%s", error->message)));
	return Max(try.outcome.retry_after_us, 0);
}

/* ---- quota_report ---- */

/* quota_report(provider, status, tenant, endpoint, ...): see its COMMENT. */
Datum
quota_report(PG_FUNCTION_ARGS)
{
	Report		report;
	FeedbackOutcome outcome;

	quota_enter_write("quota_report()");
	memset(&report, 0, sizeof(report));
	report.call.provider = quota_arg_provider(fcinfo, 0);
	report.status = quota_arg_status(fcinfo, 1);
	report.call.tenant = quota_arg_name(fcinfo, 2, "tenant", false);
	report.call.endpoint = quota_arg_name(fcinfo, 3, "endpoint", false);
	report.headers = PG_ARGISNULL(4) ? NULL : PG_GETARG_JSONB_P(4);
	report.latency_us = quota_arg_latency(fcinfo, 5);
	report.reason = quota_arg_text(fcinfo, 6, "reason", false);
	report.call.class_name = quota_arg_name(fcinfo, 7, "class", false);
	report.call.user = quota_arg_name(fcinfo, 8, "user", false);
	report.call.connection = quota_arg_name(fcinfo, 9, "connection", false);
	report.call.resource = quota_arg_name(fcinfo, 10, "resource", false);
	report.attempt = quota_arg_int32(fcinfo, 11, "attempt", 1, PG_INT32_MAX);
	if (report.call.tenant && !quota_tenant_exists(report.call.tenant))
		quota_error_no_such("tenant", report.call.tenant);
	journal_call_answered(&report.call);
	take(&report, &outcome);
	PG_RETURN_TEXT_P(cstring_to_text(feedback_class_name(outcome.class)));
}
