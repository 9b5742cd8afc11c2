/*
 * name.c
 *		Names of reasons and kinds: the same words in SQL, views, messages and
 *		README.
 */
#include "quota.h"

static const char *const reason_names[] = {
	[QUOTA_OK] = "ok",
	[QUOTA_SOFT_LIMIT] = "soft_limit",
	[QUOTA_RATE_LIMITED] = "rate_limited",
	[QUOTA_CONCURRENCY_LIMITED] = "concurrency_limited",
	[QUOTA_QUOTA_EXHAUSTED] = "quota_exhausted",
	[QUOTA_SUSPENDED] = "suspended",
	[QUOTA_EXCEEDS_CAPACITY] = "exceeds_capacity",
	[QUOTA_SHARE_EXCEEDED] = "share_exceeded",
	[QUOTA_CLASS_RESERVED] = "class_reserved",
	[QUOTA_RETRY_BUDGET] = "retry_budget",
	[QUOTA_PAUSED] = "paused",
	[QUOTA_BREAKER_OPEN] = "breaker_open",
	[QUOTA_EMPTY] = "empty",
	[QUOTA_SCHEDULED] = "scheduled",
	[QUOTA_UNCONFIGURED] = "unconfigured",
};

static const char *const kind_names[] = {
	[QUOTA_TOKEN_BUCKET] = "token_bucket",
	[QUOTA_LEAKY_BUCKET] = "leaky_bucket",
	[QUOTA_FIXED_WINDOW] = "fixed_window",
	[QUOTA_SLIDING_WINDOW] = "sliding_window",
	[QUOTA_RETRIES] = "retry_budget",
	[QUOTA_CONCURRENCY] = "concurrency",
	[QUOTA_ALLOWANCE] = "allowance",
	[QUOTA_BREAKER] = "breaker",
};

static const char *const enforcement_names[] = {
	[QUOTA_HARD] = "hard",
	[QUOTA_SOFT] = "soft",
	[QUOTA_SHADOW] = "shadow",
};

/* The name users see; never fails. */
const char *
quota_reason_name(QuotaReason reason)
{
	Assert((int) reason < (int) lengthof(reason_names));
	return reason_names[reason];
}

/* The name users see; never fails. */
const char *
quota_kind_name(QuotaKind kind)
{
	Assert((int) kind < (int) lengthof(kind_names));
	return kind_names[kind];
}

/* The name users see; never fails. */
const char *
quota_enforcement_name(QuotaEnforcement enforcement)
{
	Assert((int) enforcement < (int) lengthof(enforcement_names));
	return enforcement_names[enforcement];
}
