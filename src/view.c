/*
 * view.c
 *		What shared memory holds of this database, as tables: the functions
 *		under the views quota.stat_*.
 *
 * Each object is copied under its owner's lock, for a moment, so that looking
 * does not hold up decisions; a row is consistent, the table as a whole need not
 * be.  What depends on the time is computed for now: buckets are refilled in the
 * copy; parts of permits whose lifetime is over are taken off for good, as the
 * next decision would do.  Capacities, rates and weights are those of the last
 * decision.
 *
 * This file makes tables; the rows are in view_limits.c and view_callers.c.
 *
 * On a standby there is nothing to see, as nothing is decided there (G15).
 */
#include "view.h"

#include "access/xlog.h"
#include "commands/extension.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"

/* ---- the table ---- */

/* See view.h. */
bool
view_begin(View *view, FunctionCallInfo fcinfo)
{
	quota_enter();
	memset(view, 0, sizeof(*view));
	InitMaterializedSRF(fcinfo, 0);
	view->result = (ReturnSetInfo *) fcinfo->resultinfo;
	view->extension = get_extension_oid("quota", true);
	view->now_ns = quota_now_ns();
	view->wall_us = quota_wall_us();
	return !RecoveryInProgress() && OidIsValid(view->extension);
}

/* The next column of the row. */
void
view_put(View *view, Datum value, bool isnull)
{
	Assert(view->n < VIEW_MAX_COLUMNS);
	view->values[view->n] = value;
	view->nulls[view->n++] = isnull;
}

/* The same, a number. */
void
view_put_int64(View *view, int64 value)
{
	view_put(view, Int64GetDatum(value), false);
}

/* See view.h. */
void
view_put_fraction(View *view, int64 value, int decimals)
{
	view_put(view, NumericGetDatum(int64_div_fast_to_numeric(value, decimals)),
			 false);
}

/* The same, a name; "" means NULL. */
void
view_put_text(View *view, const char *value)
{
	if (value == NULL || value[0] == '\0')
		view_put(view, (Datum) 0, true);
	else
		view_put(view, CStringGetTextDatum(value), false);
}

/* The same, null. */
void
view_put_null(View *view)
{
	view_put(view, (Datum) 0, true);
}

/* An instant of the quota clock, as the wall clock will show it. */
void
view_put_instant(View *view, int64 at_ns)
{
	TimestampTz at_us = view->wall_us +
		(at_ns - view->now_ns) / QUOTA_NS_PER_US;

	view_put(view, TimestampTzGetDatum(at_us), at_ns == QUOTA_NEVER);
}

/* Adds the row to the table and begins the next one. */
void
view_put_row(View *view)
{
	Assert(view->n == view->result->setDesc->natts);
	tuplestore_putvalues(view->result->setResult, view->result->setDesc,
						 view->values, view->nulls);
	view->n = 0;
}

/* ---- objects ---- */

/* See view.h. */
bool
view_slot_is_ours(const View *view, uint32 slot)
{
	return slot < (uint32) quota_max_providers &&
		quota_slots[slot].database == MyDatabaseId &&
		quota_slots[slot].extension == view->extension;
}

/* See view.h.  The first look, without the lock, only saves taking it. */
QuotaSlot *
view_lock_owner(const View *view, const QuotaEntry *entry, LWLockMode mode)
{
	uint32		owner = *(const volatile uint32 *) &entry->owner;
	QuotaSlot  *slot;

	if (!entry->used || !view_slot_is_ours(view, owner))
		return NULL;
	slot = &quota_slots[owner];
	LWLockAcquire(&slot->lock, mode);
	if (entry->used && entry->owner == owner && view_slot_is_ours(view, owner))
		return slot;
	LWLockRelease(&slot->lock);
	return NULL;
}
