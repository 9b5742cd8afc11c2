/*
 * http_date.c
 *		Instants as HTTP headers write them: see http_date.h.
 *
 * The name of the weekday must be one, but need not be the right one: the date says
 * the same without it.
 */
#include "http_date.h"

#include <string.h>

#define US_PER_S INT64_C(1000000)

/* What is left to read. */
typedef struct Reader
{
	const char *at;
	const char *end;
} Reader;

/* A date and a time of day, UTC. */
typedef struct Civil
{
	int			year;
	int			month;			/* from 1 */
	int			day;			/* from 1 */
	int			hour;
	int			minute;
	int			second;
} Civil;

static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
"Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
static const char *const weekdays[] = {"Monday", "Tuesday", "Wednesday",
"Thursday", "Friday", "Saturday", "Sunday"};

/* ---- the calendar ---- */

/* Days from 2000-01-01, in the Gregorian calendar, of years from 1. */
static int64_t
days_of(int year, int month, int day)
{
	/* years begin in March, so that a leap day is the last day of one */
	int64_t		y = month > 2 ? year : year - 1;
	int64_t		of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;

	return y * 365 + y / 4 - y / 100 + y / 400 + of_year - 730425;
}

/* Days of a month, 1 to 12. */
static int
days_in(int year, int month)
{
	static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	bool		leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

	return days[month - 1] + (month == 2 && leap);
}

/* A leap second counts as the next one. */
static bool
civil_us(const Civil *c, int64_t *at_us)
{
	if (c->year < 1 || c->year > 9999 || c->month < 1 || c->month > 12 || c->day < 1 ||
		c->day > days_in(c->year, c->month) ||
		c->hour > 23 || c->minute > 59 || c->second > 60)
		return false;
	*at_us = (days_of(c->year, c->month, c->day) * 86400 +
			  (c->hour * 60 + c->minute) * 60 + c->second) * US_PER_S;
	return true;
}

/* ---- reading ---- */

/* Exactly this many digits. */
static bool
digits(Reader *r, int n, int *number)
{
	*number = 0;
	for (int i = 0; i < n; i++, r->at++)
	{
		if (r->at == r->end || *r->at < '0' || *r->at > '9')
			return false;
		*number = *number * 10 + (*r->at - '0');
	}
	return true;
}

/* Exactly this text. */
static bool
literal(Reader *r, const char *text)
{
	size_t		n = strlen(text);

	if ((size_t) (r->end - r->at) < n || memcmp(r->at, text, n) != 0)
		return false;
	r->at += n;
	return true;
}

/* Takes "Jan" to "Dec"; *month is 1 to 12. */
static bool
month_name(Reader *r, int *month)
{
	for (*month = 1; *month <= 12; ++*month)
		if (literal(r, months[*month - 1]))
			return true;
	return false;
}

/* A weekday's name in full, or its first three letters. */
static bool
weekday_name(Reader *r, bool full)
{
	for (int i = 0; i < 7; i++)
	{
		char		name[10];

		strcpy(name, weekdays[i]);
		if (!full)
			name[3] = '\0';
		if (literal(r, name))
			return true;
	}
	return false;
}

/* Takes "08:49:37"; whether there is such a time is not looked at. */
static bool
time_of_day(Reader *r, Civil *c)
{
	return digits(r, 2, &c->hour) && literal(r, ":") &&
		digits(r, 2, &c->minute) && literal(r, ":") && digits(r, 2, &c->second);
}

/* ---- the forms; each reads all or is false ---- */

/* Sun, 06 Nov 1994 08:49:37 GMT */
static bool
imf_fixdate(Reader r, Civil *c)
{
	return weekday_name(&r, false) && literal(&r, ", ") &&
		digits(&r, 2, &c->day) && literal(&r, " ") && month_name(&r, &c->month) &&
		literal(&r, " ") && digits(&r, 4, &c->year) && literal(&r, " ") &&
		time_of_day(&r, c) && literal(&r, " GMT") && r.at == r.end;
}

/* Sunday, 06-Nov-94 08:49:37 GMT, with the two digits as the year */
static bool
rfc850_date(Reader r, Civil *c)
{
	return weekday_name(&r, true) && literal(&r, ", ") &&
		digits(&r, 2, &c->day) && literal(&r, "-") && month_name(&r, &c->month) &&
		literal(&r, "-") && digits(&r, 2, &c->year) && literal(&r, " ") &&
		time_of_day(&r, c) && literal(&r, " GMT") && r.at == r.end;
}

/* Sun Nov  6 08:49:37 1994 */
static bool
asctime_date(Reader r, Civil *c)
{
	return weekday_name(&r, false) && literal(&r, " ") &&
		month_name(&r, &c->month) && literal(&r, " ") &&
		(literal(&r, " ") ? digits(&r, 1, &c->day) : digits(&r, 2, &c->day)) &&
		literal(&r, " ") && time_of_day(&r, c) && literal(&r, " ") &&
		digits(&r, 4, &c->year) && r.at == r.end;
}

/* ".5" and the like, rounded up to a microsecond; nothing is 0. */
static bool
fraction(Reader *r, int64_t *us)
{
	int64_t		unit = US_PER_S;
	bool		more = false;
	const char *first;

	*us = 0;
	if (!literal(r, "."))
		return true;
	first = r->at;
	for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
	{
		unit /= 10;
		*us += (*r->at - '0') * unit;
		more |= unit == 0 && *r->at > '0';
	}
	*us += more;
	return r->at > first;
}

/* Z, +01:00 and the like: seconds east of UTC */
static bool
offset(Reader *r, int64_t *seconds)
{
	bool		west;
	int			hours;
	int			minutes;

	*seconds = 0;
	if (literal(r, "Z") || literal(r, "z"))
		return true;
	west = literal(r, "-");
	if ((!west && !literal(r, "+")) || !digits(r, 2, &hours) ||
		!literal(r, ":") || !digits(r, 2, &minutes) || hours > 23 || minutes > 59)
		return false;
	*seconds = (hours * 60 + minutes) * 60 * (west ? -1 : 1);
	return true;
}

/* 1994-11-06T08:49:37.5Z */
static bool
rfc3339_date(Reader r, int64_t *at_us)
{
	Civil		c = {0};
	int64_t		us = 0;
	int64_t		east;

	if (!digits(&r, 4, &c.year) || !literal(&r, "-") ||
		!digits(&r, 2, &c.month) || !literal(&r, "-") ||
		!digits(&r, 2, &c.day) ||
		!(literal(&r, "T") || literal(&r, "t") || literal(&r, " ")) ||
		!digits(&r, 2, &c.hour) || !literal(&r, ":") || !digits(&r, 2, &c.minute))
		return false;
	if (literal(&r, ":") && (!digits(&r, 2, &c.second) || !fraction(&r, &us)))
		return false;
	if (!offset(&r, &east) || r.at != r.end || !civil_us(&c, at_us))
		return false;
	*at_us += us - east * US_PER_S;
	return true;
}

/* The date in the year that ends in these two digits, as RFC 9110 has it. */
static bool
two_digit_year(Civil c, int64_t now_us, int64_t *at_us)
{
	int			two = c.year;
	int64_t		days_now = (now_us / US_PER_S) / 86400;
	int			year_now = 2000 + (int) (days_now / 365.2425);

	c.year = year_now - year_now % 100 + 100 + two;
	while (c.year > year_now + 50)
		c.year -= 100;
	return civil_us(&c, at_us);
}

/* See http_date.h. */
bool
http_date(const char *text, size_t length, int64_t now_us, int64_t *at_us)
{
	Reader		r = {text, text + length};
	Civil		c = {0};

	if (rfc850_date(r, &c))
		return two_digit_year(c, now_us, at_us);
	if (imf_fixdate(r, &c) || asctime_date(r, &c))
		return civil_us(&c, at_us);
	return rfc3339_date(r, at_us);
}
