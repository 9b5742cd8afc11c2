/*
 * calendar.c
 *		Calendar periods in a time zone: see calendar.h.
 *
 * THE RULE
 *
 * Let L(k) be the local time k periods after the anchor, and T(k) the first instant
 * at which clocks in the zone show L(k) or later.  Period k is [T(k), T(k + 1)).
 *
 * L(k) is computed from the anchor itself: k * n months after the 31st is the 31st,
 * or the last day of a shorter month.  L grows with k, and so T never decreases:
 * periods follow one another without gap or overlap, whatever clocks do.  An
 * ordinary day has one reset if it has 23, 24 or 25 hours.  A reset at a local time
 * that is skipped is at the end of the gap; one at a time that comes twice is at its
 * first occurrence.  Where a whole day is skipped two resets fall on one instant: the
 * period between them is empty and no instant is in it.
 *
 * Periods of hours, minutes and seconds have the same length always: T(k) = anchor +
 * k * n.
 *
 * WHEN THE RULES OF A ZONE CHANGE
 *
 * A period that has begun keeps its start.  What differs is when the next one
 * begins, and that is looked at when the end that was known is reached
 * (calendar_step()): by new rules the period may last longer; then nothing is reset.
 */
#include "calendar.h"

#include <stddef.h>

#include "wide.h"

#define US_PER_S	INT64_C(1000000)
#define US_PER_DAY	(INT64_C(86400) * US_PER_S)
#define MAX_MONTHS	(INT64_MAX / US_PER_DAY)

/* Quotient rounded down. */
static wide
floor_div(wide a, int64_t b)
{
	wide		q = a / b;

	return a % b < 0 ? q - 1 : q;
}

/* ---- months ---- */

/* Days from 2000-03-01 to the first of a month; month 0 is March of the year. */
static int64_t
days_to_month(int64_t year, int month)
{
	int64_t		y = year - 2000;

	return y * 365 + (int64_t) (floor_div(y, 4) - floor_div(y, 100) + floor_div(y, 400)) +
		(153 * month + 2) / 5;
}

/* The same for months counted from January of year 0, from 2000-01-01 on. */
static int64_t
days_to(int64_t months)
{
	int64_t		since_march = months - 2;
	int64_t		year = (int64_t) floor_div(since_march, 12);

	return 60 + days_to_month(year, (int) (since_march - year * 12));
}

/* The month of a local time, counted as above. */
static int64_t
month_of(int64_t local_us)
{
	int64_t		day = (int64_t) floor_div(local_us, US_PER_DAY);
	/* never too late, and at most two too early */
	int64_t		month = INT64_C(2000) * 12 + (int64_t) floor_div(day * 4800, 146097) - 1;

	while (days_to(month + 1) <= day)
		month++;
	return month;
}

/* The anchor moved by some months; the ends of time when out of range. */
static int64_t
add_months(int64_t anchor_us, int64_t n)
{
	int64_t		from = month_of(anchor_us);
	int64_t		to = from + n;
	wide		within = anchor_us - (wide) days_to(from) * US_PER_DAY;
	int64_t		day = (int64_t) floor_div(within, US_PER_DAY);
	int64_t		last = days_to(to + 1) - days_to(to) - 1;

	if (day > last)
		within -= (wide) (day - last) * US_PER_DAY;
	return wide_clamp((wide) days_to(to) * US_PER_DAY + within);
}

/* ---- zones ---- */

/* See calendar.h. */
int64_t
calendar_local(const struct pg_tz *zone, int64_t at_us)
{
	int64_t		offset_s;
	int64_t		until_s;

	if (zone == NULL)
		return at_us;
	calendar_zone_stretch(zone, (int64_t) floor_div(at_us, US_PER_S), &offset_s,
						  &until_s);
	return wide_clamp((wide) at_us + offset_s * US_PER_S);
}

/* See calendar.h. */
int64_t
calendar_instant(const struct pg_tz *zone, int64_t local_us)
{
	int64_t		at_s;

	if (zone == NULL || local_us == CALENDAR_EVER || local_us == CALENDAR_NEVER)
		return local_us;
	/* before that, no clock in the world shows as much */
	at_s = (int64_t) floor_div(local_us, US_PER_S) - CALENDAR_MAX_OFFSET_S;
	for (;;)
	{
		int64_t		offset_s;
		int64_t		until_s;
		wide		at_us;

		calendar_zone_stretch(zone, at_s, &offset_s, &until_s);
		at_us = (wide) local_us - offset_s * US_PER_S;
		if (at_us < (wide) at_s * US_PER_S)
			at_us = (wide) at_s * US_PER_S;
		if (until_s == CALENDAR_NEVER || at_us < (wide) until_s * US_PER_S)
			return wide_clamp(at_us);
		at_s = until_s;
	}
}

/* ---- periods ---- */

/* When period k starts. */
static int64_t
period_start(const Calendar *c, wide k)
{
	switch (c->unit)
	{
		case CALENDAR_TIME:
			return wide_clamp(c->anchor_us + k * c->count);
		case CALENDAR_DAYS:
			return calendar_instant(c->zone,
									wide_clamp(c->anchor_us + k * c->count * US_PER_DAY));
		case CALENDAR_MONTHS:
			return calendar_instant(c->zone,
									add_months(c->anchor_us, (int64_t) (k * c->count)));
	}
	return CALENDAR_EVER;
}

/* The period of an instant, or one nearby. */
static wide
period_near(const Calendar *c, int64_t at_us)
{
	int64_t		local_us;

	if (c->unit == CALENDAR_TIME)
		return floor_div((wide) at_us - c->anchor_us, c->count);
	local_us = calendar_local(c->zone, at_us);
	if (c->unit == CALENDAR_DAYS)
		return floor_div(floor_div((wide) local_us - c->anchor_us, US_PER_DAY),
						 c->count);
	return floor_div(month_of(local_us) - month_of(c->anchor_us), c->count);
}

/* Which period contains the instant, and what calendar_period() says of it. */
static wide
find_period(const Calendar *calendar, int64_t at_us, int64_t *start_us,
			int64_t *end_us)
{
	wide		k = period_near(calendar, at_us);

	/* the same month, but before the anchor's day; or clocks were put back */
	*start_us = period_start(calendar, k);
	while (*start_us > at_us)
		*start_us = period_start(calendar, --k);
	*end_us = period_start(calendar, k + 1);
	while (*end_us <= at_us && *end_us != CALENDAR_NEVER)
	{
		*start_us = *end_us;
		*end_us = period_start(calendar, ++k + 1);
	}
	return k;
}

/* See calendar.h. */
void
calendar_period(const Calendar *calendar, int64_t at_us,
				int64_t *start_us, int64_t *end_us)
{
	(void) find_period(calendar, at_us, start_us, end_us);
}

/* See calendar.h. */
int64_t
calendar_later(const Calendar *calendar, int64_t at_us, int64_t n)
{
	int64_t		start_us;
	int64_t		end_us;
	wide		k = find_period(calendar, at_us, &start_us, &end_us) + n;

	/* as many months are out of range, as are days */
	if (calendar->unit == CALENDAR_MONTHS && k * calendar->count > MAX_MONTHS)
		return CALENDAR_NEVER;
	return period_start(calendar, k);
}

/* See calendar.h. */
CalendarStep
calendar_step(const Calendar *calendar, bool known, bool pinned, int64_t now_us,
			  int64_t *start_us, int64_t *end_us)
{
	int64_t		start;
	int64_t		end;

	if (!known && !pinned)
		return CALENDAR_RELOADS;
	/* also when the wall clock was set back: no period comes back */
	if (now_us < *end_us)
		return CALENDAR_STAYS;
	calendar_period(calendar, now_us, &start, &end);
	if (known && start < *end_us)
	{
		/* by other rules of the zone than those that gave the end */
		if (start > *start_us && !pinned)
			return CALENDAR_RELOADS;
		*end_us = end;
		return CALENDAR_STAYS;
	}
	/* what was charged before counts in the period that was */
	*start_us = start > *end_us ? start : *end_us;
	*end_us = end;
	return CALENDAR_ROLLS;
}
