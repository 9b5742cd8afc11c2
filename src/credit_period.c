/*
 * credit_period.c
 *		The period that a bucket of an allowance is in; calendar.c says what periods
 *		are.
 *
 * A bucket's period only moves forward: when the wall clock is set back the
 * bucket stays in the period it has reached (G12).
 */
#include "credit.h"

#include "permit.h"

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
			b->shadow_used = 0;
			b->lapsed = 0;
			credit_look_again(b, true);
			permit_bucket_roll((uint32) (b - quota_buckets));
			break;
	}
}
