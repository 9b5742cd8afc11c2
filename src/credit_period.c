/*
 * credit_period.c
 *		The period that a bucket of an allowance is in; calendar.c says what periods
 *		are.
 *
 * A bucket's period only moves forward: when the wall clock is set back the
 * bucket stays in the period it has reached (G12).
 */
#include "credit.h"

#include "calendar_zone.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "permit.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

/*
 * At the end of a period the next one begins with nothing used: whatever is
 * charged in it goes through this bucket.
 *
 * Another calendar needs another sum, which only rows know.  That is loaded when
 * nothing is pinned; while transactions and permits have charges here that could
 * still return, the old period goes on until it ends, and the new calendar's
 * first period starts there.
 *
 * The same calendar may turn out to have other periods, when a session that was
 * started later knows other rules of the time zone.  That is found out where the
 * period would end.  If the period lasts longer by them, it does, so that nothing is
 * given twice; if it has been over for a while, the sum of the one that has begun
 * is in the rows.
 */
void
credit_roll(QuotaBucket *b, const QuotaTerm *term, TimestampTz wall_us)
{
	switch (calendar_step(&term->calendar, b->calendar == term->calendar.id,
						  pg_atomic_read_u32(&b->pins) > 0, wall_us,
						  &b->period_start_us, &b->period_end_us))
	{
		case CALENDAR_STAYS:
			break;
		case CALENDAR_RELOADS:
			b->load = QUOTA_LOAD_EMPTY;
			break;
		case CALENDAR_ROLLS:
			b->calendar = term->calendar.id;
			b->used = 0;
			b->loose = 0;
			b->overdue = 0;
			b->shadow_used = 0;
			b->lapsed = 0;
			credit_look_again(b, true);
			credit_grants_drop(b);
			permit_bucket_roll((uint32) (b - quota_buckets));
			break;
	}
	credit_grants_look(b, wall_us);
}

/* The first row of SPI's result. */
static void
read_limit(const char *name, CreditLimit *limit)
{
	HeapTuple	row = SPI_tuptable->vals[0];
	TupleDesc	desc = SPI_tuptable->tupdesc;
	CalendarRow calendar;
	char	   *endpoint = SPI_getvalue(row, desc, 5);
	bool		isnull;

	calendar.period = *DatumGetIntervalP(SPI_getbinval(row, desc, 1, &isnull));
	calendar.anchor_us = DatumGetTimestampTz(SPI_getbinval(row, desc, 2, &isnull));
	calendar.anchored = !isnull;
	calendar.time_zone = SPI_getvalue(row, desc, 3);
	limit->calendar = calendar_make(&calendar, name);
	limit->per_tenant = DatumGetBool(SPI_getbinval(row, desc, 4, &isnull));
	limit->endpoint = endpoint ? SPI_palloc(strlen(endpoint) + 1) : NULL;
	if (endpoint)
		strcpy(unconstify(char *, limit->endpoint), endpoint);
}

/* See credit.h. */
bool
credit_find_limit(const char *provider, const char *name, CreditLimit *limit)
{
	Oid			types[2] = {TEXTOID, TEXTOID};
	Datum		values[2];
	char		nulls[2] = {provider ? ' ' : 'n', ' '};
	QuotaOwner	caller = quota_become_owner();
	bool		found;

	values[0] = provider ? CStringGetTextDatum(provider) : 0;
	values[1] = CStringGetTextDatum(name);
	SPI_connect();
	if (SPI_execute_with_args(
			"SELECT period, anchor, time_zone,"
			" 'tenant' OPERATOR(pg_catalog.=) ANY (per), endpoint FROM quota.limits"
			" WHERE name OPERATOR(pg_catalog.=) $2"
			" AND kind OPERATOR(pg_catalog.=) 'allowance'"
			" AND CASE WHEN $1 IS NULL THEN provider IS NULL"
			" ELSE provider OPERATOR(pg_catalog.=) $1 END",
			2, types, values, nulls, false, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not read quota.limits");
	found = SPI_processed > 0;
	if (found)
		read_limit(name, limit);
	SPI_finish();
	quota_become_caller(caller);
	return found;
}
