/*
 * credit_period.c
 *		Calendar periods of allowances: n days or n months, counted from an
 *		anchor, half-open [start, end), in UTC.
 *
 * The k-th period starts at anchor + k * n months, each computed from the anchor
 * itself, so that an anchor on the 31st gives the last day of short months and
 * comes back to the 31st.
 *
 * A bucket's period only moves forward: when the wall clock is set back the
 * bucket stays in the period it has reached (G12).
 */
#include "credit.h"

#include "permit.h"

#include "utils/datetime.h"
#include "utils/timestamp.h"

/* Longer periods (100000 years) would not fit the arithmetic. */
#define MAX_DAYS 36525000

/* Quotient rounded down. */
static int64
floor_div(int64 a, int64 b)
{
	int64		q = a / b;

	return a % b < 0 ? q - 1 : q;
}

/* Months since year 0 of an instant, its day of month and time of day. */
static int64
split_month(TimestampTz at_us, int *day, int64 *time_us)
{
	int64		date = floor_div(at_us, USECS_PER_DAY);
	int			year;
	int			month;

	*time_us = at_us - date * USECS_PER_DAY;
	j2date((int) (date + POSTGRES_EPOCH_JDATE), &year, &month, day);
	return (int64) year * MONTHS_PER_YEAR + month - 1;
}

/* The anchor moved by some months; the ends of time when out of range. */
static int64
add_months(TimestampTz anchor_us, int64 n)
{
	int			day;
	int64		time_us;
	int64		total = split_month(anchor_us, &day, &time_us) + n;
	int64		year = floor_div(total, MONTHS_PER_YEAR);
	int			month = (int) (total - year * MONTHS_PER_YEAR);
	int64		date;

	if (year < -4000)
		return DT_NOBEGIN;
	if (year > 290000)
		return DT_NOEND;
	day = Min(day, day_tab[isleap((int) year)][month]);
	date = date2j((int) year, month + 1, day) - POSTGRES_EPOCH_JDATE;
	return date * USECS_PER_DAY + time_us;
}

/* The same of n months. */
static void
month_period(const QuotaTerm *term, TimestampTz wall_us,
			 int64 *start_us, int64 *end_us)
{
	int			day;
	int64		time_us;
	int64		apart = split_month(wall_us, &day, &time_us) -
		split_month(term->anchor_us, &day, &time_us);
	int64		k = floor_div(apart, term->period_count);

	/* same month, but before the anchor's day and time */
	if (add_months(term->anchor_us, k * term->period_count) > wall_us)
		k--;
	*start_us = add_months(term->anchor_us, k * term->period_count);
	*end_us = add_months(term->anchor_us, (k + 1) * term->period_count);
}

/* The period of n days that contains wall_us. */
static void
day_period(const QuotaTerm *term, TimestampTz wall_us,
		   int64 *start_us, int64 *end_us)
{
	int64		length = Min(term->period_count, MAX_DAYS) * USECS_PER_DAY;
	int64		k = floor_div(wall_us - term->anchor_us, length);

	*start_us = term->anchor_us + k * length;
	*end_us = *start_us + length;
}

/* See credit.h. */
void
credit_period(const QuotaTerm *term, TimestampTz wall_us,
			  int64 *start_us, int64 *end_us)
{
	if (term->monthly)
		month_period(term, wall_us, start_us, end_us);
	else
		day_period(term, wall_us, start_us, end_us);
}

/* The bucket's period is of the term's calendar. */
static bool
same_calendar(const QuotaBucket *b, const QuotaTerm *term)
{
	return b->period_monthly == term->monthly &&
		b->period_count == term->period_count &&
		b->anchor_us == term->anchor_us;
}

/*
 * At the end of a period the next one begins with nothing used: whatever is
 * charged in it goes through this bucket.
 *
 * Another calendar needs another sum, which only rows know.  That is loaded when
 * nothing is pinned; while transactions and permits have charges here that could
 * still return, the old period goes on until it ends, and the new calendar's
 * first period starts there.
 */
void
credit_roll(QuotaBucket *b, const QuotaTerm *term, TimestampTz wall_us)
{
	bool		same = same_calendar(b, term);
	int64		old_end = b->period_end_us;

	if (!same && pg_atomic_read_u32(&b->pins) == 0)
	{
		b->load = QUOTA_LOAD_EMPTY;
		return;
	}
	if (wall_us < old_end)
		return;
	credit_period(term, wall_us, &b->period_start_us, &b->period_end_us);
	if (!same)
		b->period_start_us = old_end;
	b->period_monthly = term->monthly;
	b->period_count = term->period_count;
	b->anchor_us = term->anchor_us;
	b->used = 0;
	b->shadow_used = 0;
	permit_bucket_roll((uint32) (b - quota_buckets));
}
