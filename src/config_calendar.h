/*
 * config_calendar.h
 *		The calendar of an allowance, as its row of quota.limits gives it.
 */
#ifndef QUOTA_CONFIG_CALENDAR_H
#define QUOTA_CONFIG_CALENDAR_H

#include "calendar_zone.h"
#include "config.h"

/* Of the current row, which has a period; what is not copied is in its memory. */
extern CalendarRow config_calendar(const ConfigScan *scan);

/*
 * Throws 22023 when the row of quota.limits is of an allowance whose period mixes
 * months, days and time, or whose time zone the server does not know.
 */
extern void config_check_calendar(TupleDesc desc, HeapTuple row);

#endif							/* QUOTA_CONFIG_CALENDAR_H */
