/*
 * calendar_zone.h
 *		Calendars out of rows of quota.limits: what calendar.h needs of the server.
 */
#ifndef QUOTA_CALENDAR_ZONE_H
#define QUOTA_CALENDAR_ZONE_H

#include "quota.h"

#include "calendar.h"
#include "datatype/timestamp.h"

/* The columns of quota.limits that make a calendar. */
typedef struct CalendarRow
{
	Interval	period;
	bool		anchored;
	TimestampTz anchor_us;
	const char *time_zone;		/* NULL = UTC */
} CalendarRow;

/*
 * A time zone of the server, by a name that SET timezone takes, or NULL; good as long
 * as the backend lives.  May read files, and throws when out of memory.
 */
extern const struct pg_tz *calendar_zone(const char *name);

/*
 * The calendar of a row of the limit of that name.  Throws 55000 when the server has
 * no such time zone.
 */
extern Calendar calendar_make(const CalendarRow *row, const char *limit_name);

#endif							/* QUOTA_CALENDAR_ZONE_H */
