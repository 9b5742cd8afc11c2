/*
 * pause_chore.c
 *		The background worker's part in pauses: it writes the rows of reported ones,
 *		tells the end of each as an event, and removes rows and entries of those that have
 *		been over long enough.  See pause.c.
 *
 * What it has done counts when its transaction commits: records of the journal say so
 * (PauseAct).  No decision depends on it.
 */
#include "pause_table.h"

#include "event.h"
#include "journal.h"
#include "miscadmin.h"
#include "row_write.h"
#include "utils/timestamp.h"

/* Entries dealt with in one transaction. */
#define BATCH 100

#define AGAIN_NS (1 * QUOTA_NS_PER_S)	/* a row that somebody has locked */

/* An entry to deal with, as it was looked at. */
typedef struct Todo
{
	uint32		index;
	QuotaPause	pause;
	char		provider[QUOTA_NAME_LEN];	/* "" = none */
} Todo;

/* What there is to do for the database. */
typedef struct Work
{
	uint32		database_slot;
	int64		now_ns;
	TimestampTz wall_us;
	int64		next_ns;		/* when it is wanted again */
	int			n_write;		/* these come first, */
	int			n_tell;			/* then those */
	Todo		todo[BATCH];
} Work;

/* When there is something to do for the entry; now: there is; the lock is held. */
static int64
due_ns(const Work *w, QuotaPause *p)
{
	bool		on = pause_is_on(p, w->now_ns, w->wall_us);
	int64		end_ns = pause_end_ns(p, w->now_ns, w->wall_us);

	if (p->open)
		return QUOTA_NEVER;
	if (on)
		return p->unwritten ? w->now_ns : end_ns;
	return p->told ? Max(end_ns + PAUSE_LINGER_NS, w->now_ns) : w->now_ns;
}

/* Copies the entry. */
static void
add_todo(Work *w, uint32 index)
{
	Todo	   *todo = &w->todo[w->n_write + w->n_tell];
	const QuotaPause *p = &quota_pauses[index];

	todo->index = index;
	todo->pause = *p;
	strlcpy(todo->provider, quota_slots[p->owner].provider, QUOTA_NAME_LEN);
}

/* Entries of the database that are on, or over, and need something. */
static void
look(Work *w, bool on)
{
	for (uint32 i = 0; i < (uint32) pause_places(); i++)
	{
		QuotaPause *p = &quota_pauses[i];
		int64		at_ns;

		if (!p->used || p->database_slot != w->database_slot)
			continue;
		at_ns = due_ns(w, p);
		if (pause_is_on(p, w->now_ns, w->wall_us) != on)
			continue;
		if (at_ns <= w->now_ns && !on && p->told)
		{
			pause_free(i);
			continue;
		}
		if (at_ns <= w->now_ns && w->n_write + w->n_tell < BATCH)
		{
			add_todo(w, i);
			*(on ? &w->n_write : &w->n_tell) += 1;
		}
		w->next_ns = Min(w->next_ns, at_ns);
	}
}

/* What the row of an entry says. */
static RowValues
values_of(RowTable *pauses, const Todo *todo, const Work *w)
{
	const QuotaPause *p = &todo->pause;
	RowValues	row = row_values(pauses);
	TimestampTz until_us = pause_end_us(p, w->now_ns, w->wall_us);

	row_set_null(&row, PAUSES_UNTIL);
	if (until_us != DT_NOEND)
		row_set(&row, PAUSES_UNTIL, TimestampTzGetDatum(until_us));
	row_set_null(&row, PAUSES_LASTS_UNTIL);
	if (p->end.lasts)
		row_set(&row, PAUSES_LASTS_UNTIL, TimestampTzGetDatum(p->end.at_us));
	row_set(&row, PAUSES_SINCE, TimestampTzGetDatum(p->since_us));
	row_set_text(&row, PAUSES_REASON, p->reason[0] ? p->reason : NULL);
	row_set_text(&row, PAUSES_SET_BY, p->set_by);
	return row;
}

/* A name that may not be given. */
static void
set_name(RowValues *row, int column, const char *name)
{
	row_set_text(row, column, name[0] ? name : NULL);
}

/* Inserts the row of an entry that has none. */
static void
insert_row(RowTable *pauses, const Todo *todo, RowValues *row)
{
	const QuotaPause *p = &todo->pause;

	row_set(row, PAUSES_ID, Int64GetDatum(p->id));
	set_name(row, PAUSES_ACCOUNT, p->of == PAUSE_OF_ACCOUNT ? p->subject : "");
	set_name(row, PAUSES_PROVIDER, todo->provider);
	set_name(row, PAUSES_TENANT, p->tenant);
	set_name(row, PAUSES_ENDPOINT, p->endpoint);
	set_name(row, PAUSES_CONNECTION, p->connection);
	set_name(row, PAUSES_LIMIT_NAME, p->of == PAUSE_OF_LIMIT ? p->subject : "");
	row_set(row, PAUSES_REPORTED, BoolGetDatum(true));
	row_insert(pauses, row);
}

/* The version that was looked at has got as far as act says, when we commit. */
static void
record(const Todo *todo, PauseAct act)
{
	journal_reserve(1);
	LWLockAcquire(quota_shared->pause_lock, LW_EXCLUSIVE);
	journal_pause(todo->index, todo->pause.id, act, todo->pause.version);
	LWLockRelease(quota_shared->pause_lock);
}

/* Writes the row of a reported pause; false when somebody is in the way. */
static bool
write_row(RowTable *pauses, const Todo *todo, const Work *w)
{
	TupleTableSlot *slot = row_slot(pauses);
	RowScan    *scan = row_scan_id(pauses, QUOTA_REL_PAUSES_PKEY, todo->pause.id);
	RowValues	row = values_of(pauses, todo, w);
	bool		in_progress = false;
	bool		found = row_scan_next(scan, slot, &in_progress);

	row_scan_end(scan);
	if (found && (in_progress || row_lock(pauses, slot) != ROW_LOCKED))
		return false;
	if (found)
	{
		pause_is_writing = true;
		row_update(pauses, slot, &row);
		pause_is_writing = false;
	}
	else
		insert_row(pauses, todo, &row);
	record(todo, PAUSE_WRITTEN);
	return true;
}

/* Writes the event of an end that time has brought. */
static void
tell_end(const Todo *todo)
{
	const QuotaPause *p = &todo->pause;
	char		scope[PAUSE_SCOPE_LEN];

	pause_words(p, scope);
	event_insert(pause_end_us(p, quota_now_ns(), quota_wall_us()), "pause_ended",
				 todo->provider, p->tenant,
				 psprintf("%s, as its time is over", scope));
	record(todo, PAUSE_TOLD);
}

/* The row says that the pause was over long ago. */
static bool
says_past(TupleTableSlot *row, const Work *w)
{
	bool		isnull;
	TimestampTz end_us = DatumGetTimestampTz(slot_getattr(row, PAUSES_LASTS_UNTIL, &isnull));
	TimestampTz now_us = isnull ? w->wall_us : quota_steady_of(w->now_ns);

	if (isnull)
		end_us = DatumGetTimestampTz(slot_getattr(row, PAUSES_UNTIL, &isnull));
	return !isnull && end_us <= now_us - PAUSE_LINGER_NS / QUOTA_NS_PER_US;
}

/* The pause of this id, QUOTA_NO_INDEX = there is none; the lock is held. */
static uint32
find_entry(int64 id, const Work *w)
{
	for (uint32 i = 0; i < (uint32) pause_places(); i++)
		if (quota_pauses[i].used && quota_pauses[i].id == id &&
			quota_pauses[i].database_slot == w->database_slot)
			return i;
	return QUOTA_NO_INDEX;
}

/*
 * The row of a pause that was over long ago and was not prolonged since, or that was
 * resumed while its row was being written.
 */
static bool
is_past(TupleTableSlot *row, const Work *w)
{
	bool		past = says_past(row, w);
	uint32		index;

	LWLockAcquire(quota_shared->pause_lock, LW_SHARED);
	index = find_entry(row_int64(row, PAUSES_ID), w);
	if (index != QUOTA_NO_INDEX)
		past = quota_pauses[index].resumed;
	LWLockRelease(quota_shared->pause_lock);
	return past;
}

/* Deletes rows that no entry belongs to any more; one that is locked, later. */
static void
delete_past(RowTable *pauses, Work *w)
{
	TupleTableSlot *slot = row_slot(pauses);
	RowScan    *scan = row_scan_begin(pauses, QUOTA_REL_PAUSES_PKEY, 0, NULL);
	bool		in_progress;

	row_will_delete(pauses);
	while (row_scan_next(scan, slot, &in_progress))
	{
		if (!is_past(slot, w))
			continue;
		if (!in_progress && row_lock(pauses, slot) == ROW_LOCKED)
			row_delete(pauses, slot);
		else
			w->next_ns = Min(w->next_ns, w->now_ns + AGAIN_NS);
	}
	row_scan_end(scan);
}

/* See pause.h. */
int64
pause_chore(uint32 database_slot, int64 until_ns)
{
	Work	   *w = palloc0(sizeof(Work));
	RowTable   *pauses;

	pause_load();
	w->database_slot = database_slot;
	w->now_ns = quota_now_ns();
	w->wall_us = quota_wall_us();
	w->next_ns = QUOTA_NEVER;
	LWLockAcquire(quota_shared->pause_lock, LW_EXCLUSIVE);
	look(w, true);
	look(w, false);
	LWLockRelease(quota_shared->pause_lock);

	pause_rows_lock(true);
	pauses = row_open(QUOTA_REL_PAUSES);
	for (int i = 0; i < w->n_write; i++)
		if (!write_row(pauses, &w->todo[i], w))
			w->next_ns = Max(w->next_ns, w->now_ns + AGAIN_NS);
	for (int i = 0; i < w->n_tell; i++)
		tell_end(&w->todo[w->n_write + i]);
	delete_past(pauses, w);
	row_close(pauses);
	return w->next_ns;
}
