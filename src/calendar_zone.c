/*
 * calendar_zone.c
 *		Calendars out of rows of quota.limits, and PostgreSQL's time zones as
 *		calendar.c wants them.
 *
 * A zone is looked up, which may read files, when a plan is made.  What decides
 * under a lock only searches the transitions that were read then.  A backend keeps a
 * zone as it was when it first used it: it learns of other time zone data when it is
 * started anew.
 */
#include "calendar_zone.h"

#include "common/hashfn.h"
#include "error.h"
#include "pgtime.h"
#include "utils/timestamp.h"

#define EPOCH_S ((int64) (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * SECS_PER_DAY)

/* See calendar_zone.h. */
const struct pg_tz *
calendar_zone(const char *name)
{
	pg_tz	   *zone = pg_tzset(name);

	return zone && pg_tz_acceptable(zone) ? zone : NULL;
}

/* See calendar.h. */
void
calendar_zone_stretch(const struct pg_tz *zone, int64_t at_s, int64_t *offset_s,
					  int64_t *until_s)
{
	pg_time_t	at = at_s + EPOCH_S;
	pg_time_t	boundary;
	long int	before = 0;
	long int	after;
	int			before_isdst;
	int			after_isdst;

	*until_s = CALENDAR_NEVER;
	if (pg_next_dst_boundary(&at, &before, &before_isdst, &boundary, &after,
							 &after_isdst, zone) == 1)
		*until_s = boundary - EPOCH_S;
	*offset_s = before;
}

/* Differs when a column does, but for another spelling of the zone. */
static uint64
calendar_id(const CalendarRow *row, const char *zone)
{
	struct
	{
		int64		time;
		int64		anchor_us;
		int32		day;
		int32		month;
		int64		anchored;
	}			facts = {
		row->period.time, row->anchored ? row->anchor_us : 0,
		row->period.day, row->period.month, row->anchored
	};
	uint64		seed = zone == NULL ? 0 :
		hash_bytes_extended((const unsigned char *) zone, (int) strlen(zone), 1);

	return hash_bytes_extended((const unsigned char *) &facts, sizeof(facts), seed);
}

/* See calendar_zone.h. */
Calendar
calendar_make(const CalendarRow *row, const char *limit_name)
{
	Calendar	c = {0};
	const char *zone_name = NULL;

	if (row->time_zone)
	{
		c.zone = calendar_zone(row->time_zone);
		if (c.zone == NULL)
			quota_error_no_zone(limit_name, row->time_zone);
		zone_name = pg_get_timezone_name(unconstify(pg_tz *, c.zone));
	}
	c.unit = row->period.month != 0 ? CALENDAR_MONTHS :
		row->period.day != 0 ? CALENDAR_DAYS : CALENDAR_TIME;
	c.count = row->period.month != 0 ? row->period.month :
		row->period.day != 0 ? row->period.day : row->period.time;
	/* without an anchor 2000-01-01 00:00 local time, which is 0 */
	if (c.unit == CALENDAR_TIME)
		c.anchor_us = row->anchored ? row->anchor_us : calendar_instant(c.zone, 0);
	else if (row->anchored)
		c.anchor_us = calendar_local(c.zone, row->anchor_us);
	c.id = calendar_id(row, zone_name);
	return c;
}
