/*
 * test_calendar.c
 *	  Calendar periods against their definition, in time zones made up here.
 *
 * The model knows nothing but the definition: the first instant at which clocks show
 * some local time or a later one, found by looking at every half minute: zones here
 * change at random half minutes, by any number of them up to a day.  Dates are checked
 * against a count of single days.
 */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "calendar.c"

#define MAX_CHANGES 8

/* Offset before the first change, and after each. */
struct pg_tz
{
	int			n;
	int64_t		at_s[MAX_CHANGES];
	int64_t		offset_s[MAX_CHANGES + 1];
};

/* See calendar.h. */
void
calendar_zone_stretch(const struct pg_tz *zone, int64_t at_s, int64_t *offset_s,
					  int64_t *until_s)
{
	int			i = 0;

	while (i < zone->n && zone->at_s[i] <= at_s)
		i++;
	*offset_s = zone->offset_s[i];
	*until_s = i < zone->n ? zone->at_s[i] : CALENDAR_NEVER;
}

#define STEP	INT64_C(30)
#define HOUR	INT64_C(3600)
#define DAY		(24 * HOUR)

static int64_t
random_below(int64_t n)
{
	return (((int64_t) rand() << 31) | rand()) % n;
}

static int64_t
random_steps(int64_t n)
{
	return random_below(n / STEP) * STEP;
}

/* ---- dates ---- */

static int
length_of_month(int64_t year, int month)
{
	static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	bool		leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

	return days[month] + (leap && month == 1);
}

/* Days from 2000-01-01, month 0 being January: counted one by one. */
static int64_t
date(int64_t year, int month, int day)
{
	int64_t		days = day - 1;

	for (int64_t y = 2000; y < year; y++)
		for (int m = 0; m < 12; m++)
			days += length_of_month(y, m);
	for (int64_t y = year; y < 2000; y++)
		for (int m = 0; m < 12; m++)
			days -= length_of_month(y, m);
	for (int m = 0; m < month; m++)
		days += length_of_month(year, m);
	return days;
}

/* an anchor on any day of a month comes back to it, or to the month's last day */
UNIT_TEST(months_clamp)
{
	int64_t		to = 12 * INT64_C(1600);

	for (int64_t year = 1600; year < 2450; year++)
		for (int month = 0; month < 12; month++, to++)
		{
			int			last = length_of_month(year, month);
			int64_t		first = date(year, month, 1);

			CHECK_EQ(days_to(to), first);
			for (int day = 28; day <= 31; day++)
			{
				/* the day of January 2000, at a quarter past noon */
				int64_t		noon = 49 * DAY / 96 * US_PER_S;
				int64_t		anchor = (day - 1) * US_PER_DAY + noon;
				int64_t		moved = add_months(anchor, to - 12 * INT64_C(2000));

				CHECK_EQ(moved, (first + (day < last ? day : last) - 1) * US_PER_DAY + noon);
				CHECK_EQ(month_of(moved), to);
			}
			CHECK_EQ(month_of(first * US_PER_DAY), to);
			CHECK_EQ(month_of((first + last) * US_PER_DAY - 1), to);
		}
}

UNIT_TEST(months_at_the_ends_of_time)
{
	Calendar	c = {.unit = CALENDAR_MONTHS,.count = 1200};
	int64_t		start;
	int64_t		end;

	/* the last instant and the first of timestamptz */
	calendar_period(&c, INT64_C(9223371331199999999), &start, &end);
	CHECK_EQ(start, INT64_C(9220941417600000000));	/* 294200-01-01 */
	CHECK_EQ(end, CALENDAR_NEVER);
	calendar_period(&c, INT64_C(-211813488000000000), &start, &end);
	CHECK(start <= INT64_C(-211813488000000000) && end > INT64_C(-211813488000000000));
	c.unit = CALENDAR_TIME;
	c.count = 1;
	c.anchor_us = INT64_C(9223371331199999999);
	calendar_period(&c, INT64_C(-211813488000000000), &start, &end);
	CHECK_EQ(start, INT64_C(-211813488000000000));
	CHECK_EQ(end, start + 1);
}

/* ---- zones ---- */

/* Some changes within a few days, each by less than a day; often by an hour. */
static struct pg_tz
random_zone(void)
{
	struct pg_tz zone = {.n = (int) random_below(MAX_CHANGES + 1)};
	int64_t		at = -4 * DAY;

	zone.offset_s[0] = random_steps(DAY) - DAY / 2;
	for (int i = 0; i < zone.n; i++)
	{
		int64_t		by = random_below(3) == 0 ? random_steps(2 * DAY) - DAY :
			(random_below(5) - 2) * HOUR / 2;

		at += STEP + random_steps(2 * DAY);
		zone.at_s[i] = at;
		zone.offset_s[i + 1] = zone.offset_s[i] + by;
	}
	return zone;
}

/* The definition: the first instant whose local time is as late; whole steps. */
static int64_t
slow_instant(const struct pg_tz *zone, int64_t local_s)
{
	/* no zone here is ahead of UTC by more than this */
	for (int64_t at = local_s - 7 * DAY;; at += STEP)
	{
		int64_t		offset;
		int64_t		until;

		calendar_zone_stretch(zone, at, &offset, &until);
		if (at + offset >= local_s)
			return at;
	}
}

/* the zone keeps within what the model and calendar.h say */
static bool
is_usable(const struct pg_tz *zone)
{
	for (int i = 0; i <= zone->n; i++)
		if (llabs(zone->offset_s[i]) >= 6 * DAY)
			return false;
	return true;
}

UNIT_TEST(the_first_instant_that_shows_a_local_time)
{
	for (int i = 0; i < 3000; i++)
	{
		struct pg_tz zone = random_zone();
		int64_t		local = random_steps(20 * DAY) - 10 * DAY;

		/* close to a change, more often than not */
		if (zone.n > 0 && random_below(4) > 0)
		{
			int			c = (int) random_below(zone.n);

			local = zone.at_s[c] + zone.offset_s[c + random_below(2)] +
				(random_below(3) - 1) * STEP;
		}
		if (!is_usable(&zone))
			continue;
		CHECK_EQ(calendar_instant(&zone, local * US_PER_S),
				 slow_instant(&zone, local) * US_PER_S);
		/* fractions: the same, unless it is the end of a gap */
		CHECK(calendar_instant(&zone, local * US_PER_S - 1) ==
			  calendar_instant(&zone, local * US_PER_S) - 1 ||
			  calendar_local(&zone, calendar_instant(&zone, local * US_PER_S)) >
			  local * US_PER_S - 1);
	}
}

/* ---- periods ---- */

/* Start of period k of n days, by the definition. */
static int64_t
slow_start(const Calendar *c, int64_t k)
{
	if (c->unit == CALENDAR_TIME)
		return c->anchor_us + k * c->count;
	return slow_instant(c->zone, (c->anchor_us / US_PER_S) + k * c->count * DAY) *
		US_PER_S;
}

/* every instant is in one period, which starts and ends where the definition says */
UNIT_TEST(periods_of_days)
{
	for (int i = 0; i < 1000; i++)
	{
		struct pg_tz zone = random_zone();
		Calendar	c = {.unit = CALENDAR_DAYS,.count = 1 + random_below(3),
		.anchor_us = random_steps(DAY) * US_PER_S,.zone = &zone};
		int64_t		at = (random_below(12 * DAY) - 6 * DAY) * US_PER_S;
		int64_t		start;
		int64_t		end;
		int64_t		k;

		if (!is_usable(&zone))
			continue;
		calendar_period(&c, at, &start, &end);
		CHECK(start <= at && at < end);
		/* the last that has started */
		for (k = -20; slow_start(&c, k + 1) <= at; k++)
			;
		CHECK_EQ(start, slow_start(&c, k));
		CHECK_EQ(end, slow_start(&c, k + 1));
	}
}

/* one ends where the next starts, from any instant of it */
UNIT_TEST(periods_tile_time)
{
	for (int i = 0; i < 20000; i++)
	{
		struct pg_tz zone = random_zone();
		Calendar	c = {.unit = (CalendarUnit) random_below(3),.zone = &zone};
		int64_t		at = (random_below(12 * DAY) - 6 * DAY) * US_PER_S + random_below(US_PER_S);
		int64_t		start;
		int64_t		end;
		int64_t		other_start;
		int64_t		other_end;

		if (!is_usable(&zone))
			continue;
		c.count = c.unit == CALENDAR_TIME ? 1 + random_below(3 * US_PER_DAY) : 1 + random_below(3);
		c.anchor_us = random_below(800 * US_PER_DAY) - 400 * US_PER_DAY;
		calendar_period(&c, at, &start, &end);
		CHECK(start <= at && at < end);
		calendar_period(&c, end, &other_start, &other_end);
		CHECK_EQ(other_start, end);
		calendar_period(&c, end - 1, &other_start, &other_end);
		CHECK_EQ(other_start, start);
		CHECK_EQ(other_end, end);
		calendar_period(&c, start, &other_start, &other_end);
		CHECK_EQ(other_start, start);
		CHECK_EQ(other_end, end);
	}
}

/* two resets of days fall on one instant where a day is skipped */
UNIT_TEST(a_skipped_day)
{
	/* at midnight after day 9 clocks go on to midnight after day 10 */
	struct pg_tz zone = {.n = 1,.at_s = {10 * DAY + 10 * HOUR},
	.offset_s = {-10 * HOUR, 14 * HOUR}};
	Calendar	c = {.unit = CALENDAR_DAYS,.count = 1,.zone = &zone};
	int64_t		start;
	int64_t		end;

	calendar_period(&c, zone.at_s[0] * US_PER_S - 1, &start, &end);
	CHECK_EQ(end - start, US_PER_DAY);
	CHECK_EQ(end, zone.at_s[0] * US_PER_S);
	calendar_period(&c, zone.at_s[0] * US_PER_S, &start, &end);
	CHECK_EQ(start, zone.at_s[0] * US_PER_S);
	CHECK_EQ(end - start, US_PER_DAY);
}

/* ---- steps of a kept period ---- */

UNIT_TEST(a_period_rolls_at_its_end_and_never_back)
{
	Calendar	c = {.unit = CALENDAR_DAYS,.count = 1};
	int64_t		start = 0;
	int64_t		end = US_PER_DAY;

	CHECK_EQ(calendar_step(&c, true, true, end - 1, &start, &end), CALENDAR_STAYS);
	CHECK_EQ(calendar_step(&c, true, true, -5 * US_PER_DAY, &start, &end), CALENDAR_STAYS);
	CHECK_EQ(start, 0);
	CHECK_EQ(calendar_step(&c, true, true, end, &start, &end), CALENDAR_ROLLS);
	CHECK_EQ(start, US_PER_DAY);
	CHECK_EQ(end, 2 * US_PER_DAY);
	CHECK_EQ(calendar_step(&c, true, false, 7 * US_PER_DAY + 1, &start, &end), CALENDAR_ROLLS);
	CHECK_EQ(start, 7 * US_PER_DAY);
	CHECK_EQ(end, 8 * US_PER_DAY);
}

/* another calendar: from rows, or when the old period is over */
UNIT_TEST(another_calendar)
{
	Calendar	c = {.unit = CALENDAR_DAYS,.count = 1,.anchor_us = US_PER_DAY / 4};
	int64_t		start = 0;
	int64_t		end = US_PER_DAY;

	CHECK_EQ(calendar_step(&c, false, false, 5, &start, &end), CALENDAR_RELOADS);
	CHECK_EQ(calendar_step(&c, false, true, US_PER_DAY - 1, &start, &end), CALENDAR_STAYS);
	CHECK_EQ(calendar_step(&c, false, true, US_PER_DAY, &start, &end), CALENDAR_ROLLS);
	CHECK_EQ(start, US_PER_DAY);
	CHECK_EQ(end, US_PER_DAY + US_PER_DAY / 4);
}

/* by other rules the period goes on, or was over before the end that was known */
UNIT_TEST(an_end_that_other_rules_gave)
{
	Calendar	c = {.unit = CALENDAR_DAYS,.count = 1};
	int64_t		start = 0;
	int64_t		end = US_PER_DAY - 7;

	CHECK_EQ(calendar_step(&c, true, false, end, &start, &end), CALENDAR_STAYS);
	CHECK_EQ(start, 0);
	CHECK_EQ(end, US_PER_DAY);
	end = US_PER_DAY + 7;
	CHECK_EQ(calendar_step(&c, true, false, end, &start, &end), CALENDAR_RELOADS);
	/* what is held keeps it together with what went before */
	CHECK_EQ(calendar_step(&c, true, true, end, &start, &end), CALENDAR_STAYS);
	CHECK_EQ(start, 0);
	CHECK_EQ(end, 2 * US_PER_DAY);
}

/*
 * Sessions with old and new rules of one zone, charging one bucket at random: in no
 * period of the new rules that began after the rules were known to all is a sum
 * started twice, and what the kept period has covers what rows have of it.
 */
UNIT_TEST(other_rules_of_the_zone)
{
	for (int i = 0; i < 3000; i++)
	{
		struct pg_tz old = random_zone();
		struct pg_tz new = old;
		Calendar	c[2] = {{.unit = CALENDAR_DAYS,.count = 1,.zone = &old},
		{.unit = CALENDAR_DAYS,.count = 1,.zone = &new}};
		int64_t		start;
		int64_t		end;
		int64_t		change = random_below(2 * DAY) * US_PER_S;
		int64_t		at = -6 * DAY * US_PER_S;
		int64_t		begun = CALENDAR_EVER;	/* when a sum last started at 0 */

		if (new.n > 0)
			new.offset_s[new.n] += (random_below(5) - 2) * HOUR;
		if (!is_usable(&old) || !is_usable(&new))
			continue;
		calendar_period(&c[0], at, &start, &end);
		for (; at < 8 * DAY * US_PER_S; at += random_below(6 * HOUR) * US_PER_S)
		{
			const Calendar *mine = &c[at >= change];
			int64_t		before = start;
			CalendarStep step = calendar_step(mine, true, random_below(2) == 0, at,
											  &start, &end);

			if (step == CALENDAR_RELOADS)
				calendar_period(mine, at, &start, &end);
			CHECK(start <= at && at < end);
			CHECK(start >= before);
			if (step == CALENDAR_ROLLS)
			{
				int64_t		mine_start;
				int64_t		mine_end;

				/* nothing of this period was charged before it */
				calendar_period(mine, at, &mine_start, &mine_end);
				CHECK_EQ(start, mine_start);
				CHECK_EQ(end, mine_end);
				CHECK(begun < start);
				begun = start;
			}
		}
	}
}

/* the nth period after one is found as by going through all of them */
UNIT_TEST(later_periods)
{
	for (int i = 0; i < 2000; i++)
	{
		Calendar	c = {0};
		int64_t		at = random_below(400 * 365 * DAY) * US_PER_S - 200 * 365 * US_PER_DAY;
		int64_t		start;
		int64_t		end;

		c.unit = (CalendarUnit) (i % 3);
		c.count = 1 + random_below(40);
		if (c.unit == CALENDAR_TIME)
			c.count *= US_PER_DAY;
		c.anchor_us = random_below(365 * DAY) * US_PER_S;
		calendar_period(&c, at, &start, &end);
		CHECK_EQ(start, calendar_later(&c, at, 0));
		for (int n = 1; n < 20; n++)
		{
			CHECK_EQ(end, calendar_later(&c, at, n));
			calendar_period(&c, end, &start, &end);
		}
		CHECK_EQ(CALENDAR_NEVER, calendar_later(&c, at, INT64_MAX));
	}
}

int
main(void)
{
	srand(20261130);
	UNIT_RUN(months_clamp);
	UNIT_RUN(months_at_the_ends_of_time);
	UNIT_RUN(the_first_instant_that_shows_a_local_time);
	UNIT_RUN(periods_of_days);
	UNIT_RUN(periods_tile_time);
	UNIT_RUN(a_skipped_day);
	UNIT_RUN(a_period_rolls_at_its_end_and_never_back);
	UNIT_RUN(another_calendar);
	UNIT_RUN(later_periods);
	UNIT_RUN(an_end_that_other_rules_gave);
	UNIT_RUN(other_rules_of_the_zone);
	UNIT_MAIN_END();
}
