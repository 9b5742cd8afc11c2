/*
 * calendar.h
 *		Calendar periods: n months, n days or n microseconds, counted from an anchor.
 *		Pure arithmetic; nothing here allocates, throws or looks anything up.
 *
 * Instants and local times are microseconds since 2000-01-01 00:00, of UTC and of a
 * time zone.
 */
#ifndef QUOTA_CALENDAR_H
#define QUOTA_CALENDAR_H

#include <stdbool.h>
#include <stdint.h>

/* The ends of time, as those of timestamptz. */
#define CALENDAR_EVER	INT64_MIN
#define CALENDAR_NEVER	INT64_MAX

typedef enum CalendarUnit
{
	CALENDAR_TIME,				/* microseconds that pass, whatever clocks show */
	CALENDAR_DAYS,				/* of local time, as are */
	CALENDAR_MONTHS
} CalendarUnit;

struct pg_tz;					/* the server's own */

typedef struct Calendar
{
	CalendarUnit unit;
	int64_t		count;			/* units in a period, > 0 */
	int64_t		anchor_us;		/* a period starts here: a local time, but an
								 * instant of CALENDAR_TIME */
	const struct pg_tz *zone;	/* NULL = UTC */
	uint64_t	id;				/* two that differ in what they were made of differ
								 * here */
} Calendar;

/* The local time in a zone (NULL = UTC) at an instant. */
extern int64_t calendar_local(const struct pg_tz *zone, int64_t at_us);

/*
 * The first instant at which clocks in the zone show the local time or a later one:
 * of a time that is skipped the end of the gap, of one that comes twice the first.
 */
extern int64_t calendar_instant(const struct pg_tz *zone, int64_t local_us);

/* Start and end of the period that contains the instant: start <= at < end. */
extern void calendar_period(const Calendar *calendar, int64_t at_us,
							int64_t *start_us, int64_t *end_us);

/*
 * When the nth period after the one that contains the instant starts, n >= 0;
 * CALENDAR_NEVER if that is out of range.
 */
extern int64_t calendar_later(const Calendar *calendar, int64_t at_us, int64_t n);

/* What time has done to the period that a sum is kept for. */
typedef enum CalendarStep
{
	CALENDAR_STAYS,				/* it is not over, or lasts longer than was known */
	CALENDAR_ROLLS,				/* another one has begun, with nothing in it */
	CALENDAR_RELOADS			/* another one is to be summed from rows */
} CalendarStep;

/*
 * Brings the period *start_us, *end_us to now, which may be before it.  known: it was
 * made by the same calendar (id).  pinned: it can't be summed from rows now.
 */
extern CalendarStep calendar_step(const Calendar *calendar, bool known, bool pinned,
								  int64_t now_us, int64_t *start_us,
								  int64_t *end_us);

/*
 * Provided by calendar_zone.c, in unit tests by the test: how far local time is ahead
 * of UTC at some second, and until which second (not included) it stays so;
 * CALENDAR_NEVER = for ever.  An offset is less than CALENDAR_MAX_OFFSET_S.
 */
#define CALENDAR_MAX_OFFSET_S	(7 * 24 * 3600)
extern void calendar_zone_stretch(const struct pg_tz *zone, int64_t at_s,
								  int64_t *offset_s, int64_t *until_s);

#endif							/* QUOTA_CALENDAR_H */
