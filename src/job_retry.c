/*
 * job_retry.c
 *		When a failed attempt is repeated: exponential back-off with full jitter
 *		(random in (0, base * 2^(attempt - 1)], so that jobs that failed together
 *		don't come back together), never before what the provider asked for.
 */
#include "job_retry.h"

#include <math.h>

#include "common/pg_prng.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"

/* Asking for more is not believed. */
#define MAX_RETRY_AFTER_US (366 * USECS_PER_DAY)

/* ---- the back-off ---- */

/* base * 2^(attempt - 1), at most max, at least 1. */
static int64
backoff_ns(int64 base_ns, int64 max_ns, int32 attempt)
{
	int64		ns = Max(base_ns, 1);

	for (int32 i = 1; i < attempt && ns < max_ns; i++)
		ns = Min(ns, PG_INT64_MAX / 2) * 2;
	return Max(Min(ns, max_ns), 1);
}

/* ---- Retry-After ---- */

/*
 * An HTTP date such as "Sun, 06 Nov 1994 08:49:37 GMT"; the two obsolete forms
 * are not understood.
 */
static bool
parse_http_date(const char *value, TimestampTz *at_us)
{
	static const char *const names[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
	"Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
	char		name[4];
	int			day;
	int			year;
	int			hour;
	int			minute;
	int			second;

	if (sscanf(value, "%*3[A-Za-z], %2d %3s %4d %2d:%2d:%2d GMT",
			   &day, name, &year, &hour, &minute, &second) != 6)
		return false;
	if (day < 1 || day > 31 || year < 1970 || hour < 0 || hour > 23 ||
		minute < 0 || minute > 59 || second < 0 || second > 60)
		return false;
	for (int month = 1; month <= lengthof(names); month++)
	{
		if (strcmp(name, names[month - 1]) != 0)
			continue;
		*at_us = (date2j(year, month, day) - POSTGRES_EPOCH_JDATE) * USECS_PER_DAY +
			((hour * 60 + minute) * 60 + second) * USECS_PER_SEC;
		return true;
	}
	return false;
}

/* Seconds, or a date, as microseconds from now; 0 for anything else. */
static int64
parse_retry_after(const char *value)
{
	char	   *end;
	double		seconds = strtod(value, &end);
	TimestampTz at_us;
	int64		ahead_us;

	if (end != value && *end == '\0')
		return seconds > 0 && seconds < MAX_RETRY_AFTER_US / USECS_PER_SEC
			? (int64) ceil(seconds * USECS_PER_SEC)
			: seconds > 0 ? MAX_RETRY_AFTER_US : 0;
	if (!parse_http_date(value, &at_us))
		return 0;
	ahead_us = at_us - quota_wall_us();
	return Min(Max(ahead_us, 0), MAX_RETRY_AFTER_US);
}

/* A string or number as text; NULL for anything else. */
static char *
value_text(const JsonbValue *value)
{
	if (value->type == jbvString)
		return pnstrdup(value->val.string.val, value->val.string.len);
	if (value->type == jbvNumeric)
		return DatumGetCString(DirectFunctionCall1(numeric_out,
												   NumericGetDatum(value->val.numeric)));
	return NULL;
}

/*
 * How long the headers ask to wait.  They come from outside: what is not
 * understood is ignored.  Names of headers may be written in any case.
 */
static int64
retry_after_us(Jsonb *headers)
{
	JsonbIterator *it;
	JsonbValue	v;
	JsonbIteratorToken token;
	bool		matches = false;
	int64		us = 0;

	if (headers == NULL || !JB_ROOT_IS_OBJECT(headers))
		return 0;
	it = JsonbIteratorInit(&headers->root);
	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		if (token == WJB_KEY)
			matches = v.val.string.len == strlen("retry-after") &&
				pg_strncasecmp(v.val.string.val, "retry-after",
							   v.val.string.len) == 0;
		else if (token == WJB_VALUE && matches && value_text(&v))
			us = Max(us, parse_retry_after(value_text(&v)));
	}
	return us;
}

/* See job_retry.h. */
int64
job_retry_delay(const JobNames *names, int32 attempt, Jsonb *headers)
{
	QuotaJobPolicy policy = quota_job_policy(names->provider,
											 names->class_name);
	int64		most = backoff_ns(policy.retry_base_ns, policy.retry_max_ns,
								  attempt);

	return Max((int64) pg_prng_uint64_range(&pg_global_prng_state, 1,
											(uint64) most),
			   retry_after_us(headers) * QUOTA_NS_PER_US);
}
