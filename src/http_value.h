/*
 * http_value.h
 *		Values of headers that tell of limits: how long to wait, how many.  Pure: no
 *		server headers, no memory, no errors; what is no such value is false.
 */
#ifndef QUOTA_HTTP_VALUE_H
#define QUOTA_HTTP_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_DAY_US		INT64_C(86400000000)

/* Who asks for a longer wait is not believed: it counts as this. */
#define HTTP_MAX_WAIT_US	(366 * HTTP_DAY_US)

/* More is counted as this. */
#define HTTP_MAX_COUNT	INT64_C(1000000000000000)

/* A part of a header. */
typedef struct HttpText
{
	const char *at;
	size_t		length;
} HttpText;

extern HttpText http_text(const char *text);
/* Without spaces and tabs at both ends. */
extern HttpText http_trim(HttpText text);
/* The same bytes, letters in any case; word is in lower case. */
extern bool http_is(HttpText text, const char *word);
/* Takes off the part before the next separator, which is not in it; false: none left. */
extern bool http_next(HttpText *rest, char separator, HttpText *part);

/* What a number without a unit counts. */
typedef enum HttpUnit
{
	HTTP_SECONDS,
	HTTP_MILLISECONDS
} HttpUnit;

/*
 * How long to wait from now_us (microseconds since 2000-01-01 00:00 UTC), 0 to
 * HTTP_MAX_WAIT_US, rounded up: a number of seconds (or milliseconds), also with a
 * fraction; a duration such as 1m30s, 350ms, 2m59.56s; an instant as http_date()
 * reads it, or as a number since 1970: seconds from 1e9 to below 1e11, milliseconds
 * to below 1e14, microseconds to below 1e17, nanoseconds.  An instant that is past is
 * 0.  Nothing negative.
 */
extern bool http_wait(HttpText text, HttpUnit unit, int64_t now_us,
					  int64_t *wait_us);

/* A count, 0 to HTTP_MAX_COUNT; a fraction is cut off. */
extern bool http_count(HttpText text, int64_t *count);

#endif							/* QUOTA_HTTP_VALUE_H */
