/*
 * feedback.c
 *		What a provider's answer means: see feedback.h.
 *
 * Rows of quota.answers go first, the most specific one: of the provider before of
 * all, then one that looks at a value, at a header, at the status.  Where no row says
 * anything, standards do, and only those: what 402 or 403 mean differs from provider
 * to provider.
 */
#include "feedback.h"

#include "http_date.h"
#include "http_value.h"
#include "match.h"

#include <stddef.h>

/* ---- rules ---- */

/* Which rule counts when several match; of equal ones the graver. */
static int
rank(const FeedbackRule *rule)
{
	static const int gravity[FEEDBACK_N_CLASSES] = {
		[FEEDBACK_SUCCESS] = 1,[FEEDBACK_REJECTED] = 2,[FEEDBACK_FAILURE] = 3,
		[FEEDBACK_RATE_LIMITED] = 4,[FEEDBACK_OVERLOADED] = 5,
		[FEEDBACK_EXHAUSTED] = 6
	};

	return (rule->own ? 64 : 0) + (rule->value ? 32 : 0) +
		(rule->header ? 16 : 0) + (rule->status >= 0 ? 8 : 0) +
		gravity[rule->class];
}

/* The header is the rule's, and so is its value. */
static bool
matches_header(const FeedbackRule *rule, const FeedbackHeader *header)
{
	return http_is(http_text(header->name), rule->header) &&
		(rule->value == NULL || match_glob(rule->value, header->value));
}

/* The rule is about an answer like this. */
static bool
matches(const FeedbackRule *rule, const FeedbackAnswer *answer,
		const char *reason)
{
	if (rule->status >= 0 && rule->status != answer->status)
		return false;
	if (rule->header == NULL)
		return rule->value == NULL ||
			(reason != NULL && match_glob(rule->value, reason));
	for (int i = 0; i < answer->nheaders; i++)
		if (matches_header(rule, &answer->headers[i]))
			return true;
	return false;
}

/* The better one; best may be NULL. */
static const FeedbackRule *
better(const FeedbackRule *best, const FeedbackRule *rule)
{
	return best == NULL || rank(rule) > rank(best) ? rule : best;
}

/* ---- headers ---- */

/* What a rule says of this header alone, NULL = none does. */
static const FeedbackRule *
rule_of_header(const FeedbackHeader *header, int status,
			   const FeedbackRule *rules, int nrules)
{
	const FeedbackRule *best = NULL;

	for (int i = 0; i < nrules; i++)
	{
		const FeedbackRule *rule = &rules[i];

		if (rule->means != MEANS_CLASS && rule->header != NULL &&
			(rule->status < 0 || rule->status == status) &&
			matches_header(rule, header))
			best = better(best, rule);
	}
	return best;
}

/* The i-th header told something. */
static void
mark_told(FeedbackOutcome *out, int i)
{
	if (i < 64)
		out->told_by |= UINT64_C(1) << i;
}

/*
 * Instants in headers are by the provider's clock: what that is the answer's Date says
 * (RFC 9110 section 6.6.1).  One that is further than a day from ours is none.
 */
static int64_t
provider_now(const FeedbackAnswer *answer, const FeedbackRule *rules, int nrules,
			 int64_t now_us)
{
	for (int i = 0; i < answer->nheaders; i++)
	{
		const FeedbackHeader *header = &answer->headers[i];
		HttpText	value = http_trim(http_text(header->value));
		int64_t		at_us;

		if (http_is(http_text(header->name), "date") &&
			rule_of_header(header, answer->status, rules, nrules) == NULL &&
			http_date(value.at, value.length, now_us, &at_us) &&
			at_us >= now_us - HTTP_DAY_US && at_us <= now_us + HTTP_DAY_US)
			return at_us;
	}
	return now_us;
}

/* Reads all headers. */
static void
read_headers(const FeedbackAnswer *answer, const FeedbackRule *rules, int nrules,
			 int64_t now_us, FeedbackOutcome *out)
{
	for (int i = 0; i < answer->nheaders; i++)
	{
		const FeedbackHeader *header = &answer->headers[i];
		const FeedbackRule *rule = rule_of_header(header, answer->status, rules,
												  nrules);

		if (rule == NULL && !feedback_read(header, now_us, out))
			continue;
		if (rule != NULL && rule->means == MEANS_NOTHING)
			continue;
		if (rule != NULL)
			feedback_read_as(header, rule, now_us, out);
		mark_told(out, i);
	}
	for (int i = 0; i < out->nreadings; i++)
	{
		FeedbackReading *r = &out->readings[i];

		if (r->remaining == FEEDBACK_NOT_TOLD && r->used != FEEDBACK_NOT_TOLD &&
			r->limit != FEEDBACK_NOT_TOLD)
			r->remaining = r->used < r->limit ? r->limit - r->used : 0;
	}
}

/* ---- class and scope ---- */

/* What standards say of a status. */
static FeedbackClass
class_of_status(int status)
{
	switch (status)
	{
		case FEEDBACK_NO_ANSWER:
		case 408:				/* Request Timeout: it did not come through */
			return FEEDBACK_FAILURE;
		case 429:
			return FEEDBACK_RATE_LIMITED;
		case 503:
		case 529:				/* no standard, but nothing else is meant by it */
			return FEEDBACK_OVERLOADED;
	}
	if (status >= 200 && status < 400)
		return FEEDBACK_SUCCESS;
	if (status >= 400 && status < 500)
		return FEEDBACK_REJECTED;
	if (status >= 500 && status < 600)
		return FEEDBACK_FAILURE;
	return FEEDBACK_UNKNOWN;
}

/* The narrowest scope that does what the class asks for. */
static FeedbackScope
scope_of_class(FeedbackClass class, const FeedbackAnswer *answer)
{
	FeedbackScope all = answer->has_endpoint ? FEEDBACK_ENDPOINT : FEEDBACK_PROVIDER;

	switch (class)
	{
		case FEEDBACK_RATE_LIMITED:
			return answer->has_tenant ? FEEDBACK_TENANT_ENDPOINT : all;
		case FEEDBACK_EXHAUSTED:
			return FEEDBACK_ACCOUNT;
		case FEEDBACK_OVERLOADED:
			return all;
		default:
			return FEEDBACK_CALL;
	}
}

/* The answer can be said to concern this scope. */
static bool
scope_is_known(const FeedbackRule *rule, const FeedbackAnswer *answer)
{
	switch (rule->scope)
	{
		case FEEDBACK_LIMIT:
			return rule->limit_name != NULL;
		case FEEDBACK_TENANT_ENDPOINT:
		case FEEDBACK_TENANT:
			return answer->has_tenant;
		case FEEDBACK_CONNECTION:
			return answer->has_connection;
		case FEEDBACK_ENDPOINT:
			return answer->has_endpoint;
		case FEEDBACK_PROVIDER:
		case FEEDBACK_ACCOUNT:
			return true;
		default:				/* not said */
			return false;
	}
}

/* Puts the class and the scope of the answer. */
static void
say_class(const FeedbackAnswer *answer, const FeedbackRule *rules, int nrules,
		  FeedbackOutcome *out)
{
	const FeedbackRule *best = NULL;

	for (int i = 0; i < nrules; i++)
		if (rules[i].means == MEANS_CLASS && matches(&rules[i], answer, out->reason))
			best = better(best, &rules[i]);
	for (int i = 0; i < answer->nheaders && best && best->header; i++)
		if (matches_header(best, &answer->headers[i]))
			mark_told(out, i);
	out->class = best ? best->class : class_of_status(answer->status);
	out->limit_name = best ? best->limit_name : NULL;
	out->scope_said = best && scope_is_known(best, answer);
	out->scope = out->scope_said ? best->scope : scope_of_class(out->class, answer);
}

/*
 * When what has nothing left is reset, of an answer that says to wait; a reset
 * without a word of what is left is meant to be that.
 */
static void
wait_for_reset(FeedbackOutcome *out)
{
	if (out->retry_after_us != FEEDBACK_NOT_TOLD || !feedback_says_wait(out->class))
		return;
	for (int i = 0; i < out->nreadings; i++)
	{
		const FeedbackReading *r = &out->readings[i];

		if (r->remaining <= 0 && r->reset_us > out->retry_after_us)
			out->retry_after_us = r->reset_us;
	}
}

/* See feedback.h. */
void
feedback_classify(const FeedbackAnswer *answer, const FeedbackRule *rules,
				  int nrules, int64_t now_us, FeedbackOutcome *outcome)
{
	outcome->retry_after_us = FEEDBACK_NOT_TOLD;
	outcome->nreadings = 0;
	outcome->reason = NULL;
	outcome->ignored = 0;
	outcome->told_by = 0;
	read_headers(answer, rules, nrules,
				 provider_now(answer, rules, nrules, now_us), outcome);
	if (outcome->reason == NULL)
		outcome->reason = answer->reason;
	say_class(answer, rules, nrules, outcome);
	wait_for_reset(outcome);
}

/* ---- names ---- */

/* See feedback.h. */
const char *
feedback_class_name(FeedbackClass class)
{
	static const char *const names[] = {
		[FEEDBACK_UNKNOWN] = "unknown",[FEEDBACK_SUCCESS] = "success",
		[FEEDBACK_REJECTED] = "rejected",
		[FEEDBACK_RATE_LIMITED] = "rate_limited",
		[FEEDBACK_EXHAUSTED] = "exhausted",
		[FEEDBACK_OVERLOADED] = "overloaded",[FEEDBACK_FAILURE] = "failure"
	};

	return names[class];
}

/* See feedback.h. */
const char *
feedback_scope_name(FeedbackScope scope)
{
	static const char *const names[] = {
		[FEEDBACK_CALL] = "call",[FEEDBACK_LIMIT] = "limit",
		[FEEDBACK_TENANT_ENDPOINT] = "tenant_endpoint",
		[FEEDBACK_CONNECTION] = "connection",[FEEDBACK_TENANT] = "tenant",
		[FEEDBACK_ENDPOINT] = "endpoint",[FEEDBACK_PROVIDER] = "provider",
		[FEEDBACK_ACCOUNT] = "account"
	};

	return names[scope];
}
