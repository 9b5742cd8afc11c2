/*
 * http_date.h
 *		Instants as HTTP headers write them.  Pure: no server headers.
 *
 * The server's own parser is not asked, because it takes too much for a header: it
 * reads "tomorrow", "infinity" and dates without a year, and goes by DateStyle and
 * the session's time zone.
 */
#ifndef QUOTA_HTTP_DATE_H
#define QUOTA_HTTP_DATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The whole text is one of the three dates of RFC 9110 section 5.6.7
 * ("Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT",
 * "Sun Nov  6 08:49:37 1994") or one of RFC 3339 ("1994-11-06T08:49:37Z", with a
 * fraction or an offset; seconds may be left out).  Microseconds since 2000-01-01
 * 00:00 UTC.  A year of two digits is the one within 50 years after now_us, or else
 * before.
 */
extern bool http_date(const char *text, size_t length, int64_t now_us,
					  int64_t *at_us);

#endif							/* QUOTA_HTTP_DATE_H */
