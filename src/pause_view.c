/*
 * pause_view.c
 *		The function under quota.stat_pauses.  See view.c.
 */
#include "view.h"

#include "pause_table.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(quota_stat_pauses);

/* A pause of this database that is in force. */
static bool
copy_pause(const View *view, uint32 index, QuotaPause *copy)
{
	QuotaPause *p = &quota_pauses[index];
	bool		shown;

	LWLockAcquire(quota_shared->pause_lock, LW_SHARED);
	shown = p->used && view_slot_is_ours(view, p->owner) &&
		pause_is_on(p, view->now_ns, view->wall_us);
	*copy = *p;
	LWLockRelease(quota_shared->pause_lock);
	return shown;
}

/* The row of one pause. */
static void
put_pause(View *view, const QuotaPause *p)
{
	char		scope[PAUSE_SCOPE_LEN];
	TimestampTz until_us = pause_end_us(p, view->now_ns, view->wall_us);
	Interval   *age = palloc0(sizeof(Interval));

	pause_words(p, scope);
	age->time = Max(view->now_ns - p->since_ns, 0) / QUOTA_NS_PER_US;
	view_put_text(view, scope);
	view_put_text(view, p->of == PAUSE_OF_ACCOUNT ? p->subject : "");
	view_put_text(view, quota_slots[p->owner].provider);
	view_put_text(view, p->tenant);
	view_put_text(view, p->endpoint);
	view_put_text(view, p->connection);
	view_put_text(view, p->of == PAUSE_OF_LIMIT ? p->subject : "");
	view_put(view, TimestampTzGetDatum(p->since_us), false);
	view_put(view, IntervalPGetDatum(age), false);
	view_put(view, TimestampTzGetDatum(until_us), until_us == DT_NOEND);
	view_put_text(view, p->reason);
	view_put(view, BoolGetDatum(p->reported), false);
	view_put_text(view, p->set_by);
	view_put(view, BoolGetDatum(!p->open), false);
	view_put(view, Int64GetDatum(p->id), false);
	view_put_row(view);
}

/* Rows of quota.stat_pauses. */
Datum
quota_stat_pauses(PG_FUNCTION_ARGS)
{
	View		view;
	QuotaPause	pause;

	if (!view_begin(&view, fcinfo))
		PG_RETURN_NULL();
	pause_load();
	for (uint32 i = 0; i < (uint32) pause_places(); i++)
		if (copy_pause(&view, i, &pause))
			put_pause(&view, &pause);
	return (Datum) 0;
}
