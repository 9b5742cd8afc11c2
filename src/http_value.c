/*
 * http_value.c
 *		Values of headers that tell of limits: see http_value.h.
 *
 * Numbers are read as whole part and millionths, saturating, so that nothing
 * overflows however many digits there are.
 */
#include "http_value.h"

#include "http_date.h"

#include <string.h>

/* 1970-01-01 in microseconds since 2000-01-01 */
#define UNIX_EPOCH_US	(INT64_C(-10957) * HTTP_DAY_US)

/* Whole parts stop here, above all that means anything. */
#define MAX_WHOLE		INT64_C(9000000000000000000)

/* A number that is not negative. */
typedef struct Decimal
{
	int64_t		whole;			/* at most MAX_WHOLE */
	int64_t		micro;			/* millionths, rounded up: to 1000000 */
} Decimal;

/* ---- texts ---- */

/* See http_value.h. */
HttpText
http_text(const char *text)
{
	HttpText	whole = {text, strlen(text)};

	return whole;
}

/* A space or a tab. */
static bool
is_space(char c)
{
	return c == ' ' || c == '\t';
}

/* A digit of ASCII. */
static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* See http_value.h. */
HttpText
http_trim(HttpText text)
{
	while (text.length > 0 && is_space(text.at[0]))
	{
		text.at++;
		text.length--;
	}
	while (text.length > 0 && is_space(text.at[text.length - 1]))
		text.length--;
	return text;
}

/* See http_value.h. */
bool
http_is(HttpText text, const char *word)
{
	if (strlen(word) != text.length)
		return false;
	for (size_t i = 0; i < text.length; i++)
	{
		char		c = text.at[i];

		if (c >= 'A' && c <= 'Z')
			c += 'a' - 'A';
		if (c != word[i])
			return false;
	}
	return true;
}

/* See http_value.h. */
bool
http_next(HttpText *rest, char separator, HttpText *part)
{
	const char *end;

	if (rest->at == NULL)
		return false;
	part->at = rest->at;
	end = memchr(rest->at, separator, rest->length);
	if (end == NULL)
	{
		part->length = rest->length;
		rest->at = NULL;
		rest->length = 0;
		return true;
	}
	part->length = (size_t) (end - rest->at);
	rest->length -= part->length + 1;
	rest->at = end + 1;
	return true;
}

/* ---- numbers ---- */

/* Takes "12" or "12.5" off the front. */
static bool
take_decimal(HttpText *text, Decimal *d)
{
	int64_t		unit = 1000000;
	bool		more = false;
	size_t		i = 0;

	d->whole = 0;
	d->micro = 0;
	for (; i < text->length && is_digit(text->at[i]); i++)
		if (d->whole < MAX_WHOLE / 10)
			d->whole = d->whole * 10 + (text->at[i] - '0');
		else
			d->whole = MAX_WHOLE;
	if (i == 0)
		return false;
	if (i + 1 < text->length && text->at[i] == '.' && is_digit(text->at[i + 1]))
		for (i++; i < text->length && is_digit(text->at[i]); i++)
		{
			unit /= 10;
			d->micro += (text->at[i] - '0') * unit;
			more |= unit == 0 && text->at[i] > '0';
		}
	d->micro += more;
	text->at += i;
	text->length -= i;
	return true;
}

/* As microseconds, of which each unit has so many; saturating. */
static int64_t
scaled(const Decimal *d, int64_t us_per_unit)
{
	if (d->whole >= INT64_MAX / 4 / us_per_unit)
		return INT64_MAX / 4;
	return d->whole * us_per_unit +
		(d->micro * us_per_unit + 999999) / 1000000;
}

/* ---- waits ---- */

/* From now to an instant. */
static int64_t
until(int64_t at_us, int64_t now_us)
{
	if (at_us <= now_us)
		return 0;
	/* now_us may be anything */
	return now_us < at_us - HTTP_MAX_WAIT_US ? HTTP_MAX_WAIT_US : at_us - now_us;
}

/* A number alone: a time from now, or an instant since 1970. */
static int64_t
number_wait(const Decimal *d, HttpUnit unit, int64_t now_us)
{
	int64_t		us;

	if (d->whole < INT64_C(1000000000))
		us = scaled(d, unit == HTTP_SECONDS ? 1000000 : 1000);
	else if (d->whole < INT64_C(100000000000))
		return until(UNIX_EPOCH_US + scaled(d, 1000000), now_us);
	else if (d->whole < INT64_C(100000000000000))
		return until(UNIX_EPOCH_US + scaled(d, 1000), now_us);
	else if (d->whole < INT64_C(100000000000000000))
		return until(UNIX_EPOCH_US + scaled(d, 1), now_us);
	else
		return until(UNIX_EPOCH_US + d->whole / 1000 + 1, now_us);
	return us < HTTP_MAX_WAIT_US ? us : HTTP_MAX_WAIT_US;
}

/* Takes a unit of a duration off the front: its microseconds, 0 = there is none. */
static int64_t
take_unit(HttpText *text)
{
	static const struct
	{
		const char *name;
		int64_t		us;
	}			units[] = {
		{"ms", 1000}, {"us", 1}, {"s", 1000000}, {"m", 60000000},
		{"h", INT64_C(3600000000)}, {"d", HTTP_DAY_US}
	};

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
	{
		size_t		n = strlen(units[i].name);

		if (text->length >= n && memcmp(text->at, units[i].name, n) == 0)
		{
			text->at += n;
			text->length -= n;
			return units[i].us;
		}
	}
	return 0;
}

/* 1h2m3.5s: units from the largest down, each once. */
static bool
duration(HttpText text, int64_t *wait_us)
{
	int64_t		smallest = INT64_MAX;

	*wait_us = 0;
	do
	{
		Decimal		d;
		int64_t		unit;

		if (!take_decimal(&text, &d))
			return false;
		unit = take_unit(&text);
		if (unit == 0 || unit >= smallest)
			return false;
		smallest = unit;
		*wait_us += scaled(&d, unit) < HTTP_MAX_WAIT_US
			? scaled(&d, unit) : HTTP_MAX_WAIT_US;
	} while (text.length > 0);
	if (*wait_us > HTTP_MAX_WAIT_US)
		*wait_us = HTTP_MAX_WAIT_US;
	return true;
}

/* See http_value.h. */
bool
http_wait(HttpText text, HttpUnit unit, int64_t now_us, int64_t *wait_us)
{
	HttpText	rest;
	Decimal		d;
	int64_t		at_us;

	text = http_trim(text);
	rest = text;
	if (take_decimal(&rest, &d) && rest.length == 0)
	{
		*wait_us = number_wait(&d, unit, now_us);
		return true;
	}
	if (duration(text, wait_us))
		return true;
	if (!http_date(text.at, text.length, now_us, &at_us))
		return false;
	*wait_us = until(at_us, now_us);
	return true;
}

/* See http_value.h. */
bool
http_count(HttpText text, int64_t *count)
{
	Decimal		d;

	text = http_trim(text);
	if (!take_decimal(&text, &d) || text.length > 0)
		return false;
	*count = d.whole < HTTP_MAX_COUNT ? d.whole : HTTP_MAX_COUNT;
	return true;
}
