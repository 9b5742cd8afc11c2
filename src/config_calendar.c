/*
 * config_calendar.c
 *		The calendar of an allowance: read from a row of quota.limits, and refused
 *		when it is none.
 *
 * A period is of months, of days, or of time: what a month and a day make together
 * depends on which comes first, so a mixture is refused.
 *
 * Rows come here before the constraints of their tables: what those will refuse is
 * left to them.
 */
#include "config_calendar.h"

#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

/* See config_calendar.h. */
CalendarRow
config_calendar(const ConfigScan *scan)
{
	CalendarRow row = {
		.period = *DatumGetIntervalP(scan->values[LIMITS_PERIOD - 1]),
		.anchored = !scan->nulls[LIMITS_ANCHOR - 1],
		.anchor_us = config_int64(scan, LIMITS_ANCHOR, 0),
		.time_zone = config_text(scan, LIMITS_TIME_ZONE)
	};

	return row;
}

/* 22023 */
static void
check_period(const ConfigScan *row, const char *limit_name)
{
	Datum		datum = row->values[LIMITS_PERIOD - 1];
	const Interval *period = DatumGetIntervalP(datum);

	if ((period->month != 0) + (period->day != 0) + (period->time != 0) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("period of allowance \"%s\" is a mixture", limit_name),
				 errdetail("The period is \"%s\".",
						   DatumGetCString(DirectFunctionCall1(interval_out, datum))),
				 errhint("Use months (years) alone, days (weeks) alone, or hours, minutes and seconds alone.")));
}

/* 22023 */
static void
check_zone(const char *zone, const char *limit_name)
{
	if (calendar_zone(zone) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("time zone \"%s\" of limit \"%s\" is not known to this server",
						zone, limit_name),
				 errhint("Use one of the names in pg_timezone_names.")));
}

/* See config_calendar.h. */
void
config_check_calendar(TupleDesc desc, HeapTuple tuple)
{
	ConfigScan	row;
	const char *name;

	config_decode(&row, desc, tuple);
	name = config_text(&row, LIMITS_NAME);
	if (name == NULL || !config_same_name(config_text(&row, LIMITS_KIND), "allowance"))
		return;
	if (!row.nulls[LIMITS_PERIOD - 1])
		check_period(&row, name);
	if (!row.nulls[LIMITS_TIME_ZONE - 1])
		check_zone(config_text(&row, LIMITS_TIME_ZONE), name);
}
