/*
 * report_pause.c
 *		The pause that an answer asks for: see report.h.
 *
 *	  rate_limited		until it says, else for the provider's cooldown
 *	  exhausted			until it says, else until somebody resumes it
 *	  overloaded		until it says; else there is no pause: what overload there is
 *						shows in how many calls fail, and how long they take
 */
#include "report.h"

#include "pause.h"
#include "policy_cache.h"

/* The limit is one of the provider's, not one across providers. */
static bool
is_of_provider(const PolicyProvider *p, const char *limit_name)
{
	ListCell   *lc;

	foreach(lc, p ? p->limits : NIL)
	{
		const PolicyLimit *limit = lfirst(lc);

		if (strcmp(limit->name, limit_name) == 0)
			return true;
	}
	return false;
}

/* What is paused; the strings are the report's, the outcome's or new. */
static PauseScope
scope_of(const Report *report, const FeedbackOutcome *outcome)
{
	const QuotaCall *call = &report->call;
	const PolicyProvider *p = policy_find(policy_rules()->providers, call->provider);
	PauseScope	scope = {0};

	scope.provider = call->provider;
	switch (outcome->scope)
	{
		case FEEDBACK_LIMIT:
			scope.limit_name = outcome->limit_name;
			if (!is_of_provider(p, outcome->limit_name))
				scope.provider = NULL;
			break;
		case FEEDBACK_TENANT_ENDPOINT:
			scope.endpoint = call->endpoint;
			scope.tenant = call->tenant;
			break;
		case FEEDBACK_CONNECTION:
			scope.connection = call->connection;
			scope.tenant = call->tenant;
			break;
		case FEEDBACK_TENANT:
			scope.tenant = call->tenant;
			break;
		case FEEDBACK_ENDPOINT:
			scope.endpoint = call->endpoint;
			break;
		case FEEDBACK_ACCOUNT:
			scope.account = pstrdup(p ? p->account : call->provider);
			scope.provider = NULL;
			break;
		default:
			break;
	}
	return scope;
}

/* For how long the answer says to pause; 0 = not at all, QUOTA_NEVER = open-ended. */
static int64
pause_of(const Report *report, const FeedbackOutcome *outcome)
{
	if (!feedback_says_wait(outcome->class))
		return 0;
	if (outcome->retry_after_us > 0)
		return outcome->retry_after_us * QUOTA_NS_PER_US;
	if (outcome->class == FEEDBACK_EXHAUSTED)
		return QUOTA_NEVER;
	if (outcome->class == FEEDBACK_RATE_LIMITED &&
		outcome->retry_after_us == FEEDBACK_NOT_TOLD)
		return pause_cooldown_ns(report->call.provider);
	return 0;
}

/* See report.h. */
int64
report_pause(const Report *report, const FeedbackOutcome *outcome)
{
	int64		ns = pause_of(report, outcome);
	PauseScope	scope;

	if (ns == 0)
		return 0;
	scope = scope_of(report, outcome);
	pause_report(&scope, ns == QUOTA_NEVER ? pause_open_ended() : pause_for(ns),
				 outcome->reason);
	return ns;
}
