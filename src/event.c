/*
 * event.c
 *		The ring of events that wait for a background worker to write them.
 *
 * Positions rise for ever; position p is in place p % QUOTA_EVENT_RING, and
 * [event_tail, event_head) are in use.  All databases share the ring, so an
 * event in its middle may be done: its database is then InvalidOid, and the
 * tail passes it as soon as it gets there.  When the ring is full, the new event
 * is dropped and counted: what came first tells more.
 *
 * Everything is protected by quota_shared->events_lock, which is taken with slot
 * locks held and never the other way round.
 */
#include "event.h"

#include "mb/pg_wchar.h"
#include "worker.h"

/* The place of a position; lock held. */
static inline QuotaEvent *
event_at(uint64 position)
{
	return &quota_shared->events[position % QUOTA_EVENT_RING];
}

/* Copies what fits of source, in whole characters; NULL becomes "". */
static void
copy_clipped(char *target, size_t size, const char *source)
{
	int			length = 0;

	if (source != NULL)
	{
		length = pg_mbcliplen(source, strlen(source), (int) size - 1);
		memcpy(target, source, length);
	}
	target[length] = '\0';
}

/* See event.h. */
void
quota_event(Oid database, const char *kind, const char *provider,
			const char *tenant, const char *detail)
{
	TimestampTz now_us = quota_wall_us();

	LWLockAcquire(quota_shared->events_lock, LW_EXCLUSIVE);
	if (quota_shared->event_head - quota_shared->event_tail == QUOTA_EVENT_RING)
		quota_shared->events_lost++;
	else
	{
		QuotaEvent *event = event_at(quota_shared->event_head);

		event->database = database;
		event->at_us = now_us;
		copy_clipped(event->kind, sizeof(event->kind), kind);
		copy_clipped(event->provider, sizeof(event->provider), provider);
		copy_clipped(event->tenant, sizeof(event->tenant), tenant);
		copy_clipped(event->detail, sizeof(event->detail), detail);
		quota_shared->event_head++;
	}
	LWLockRelease(quota_shared->events_lock);
	quota_worker_wake();
}

/* Does the ring hold events of this database?  Never throws. */
bool
quota_events_pending(Oid database)
{
	bool		found = false;

	LWLockAcquire(quota_shared->events_lock, LW_SHARED);
	for (uint64 i = quota_shared->event_tail;
		 i < quota_shared->event_head && !found; i++)
		found = event_at(i)->database == database;
	LWLockRelease(quota_shared->events_lock);
	return found;
}

/* Copies up to max events of this database.  Never throws. */
void
quota_events_copy(Oid database, QuotaEvent *events, int max, EventBatch *batch)
{
	batch->n = 0;
	LWLockAcquire(quota_shared->events_lock, LW_SHARED);
	batch->end = quota_shared->event_tail;
	batch->lost = quota_shared->events_lost;
	while (batch->end < quota_shared->event_head && batch->n < max)
	{
		QuotaEvent *event = event_at(batch->end++);

		if (event->database == database)
			events[batch->n++] = *event;
	}
	LWLockRelease(quota_shared->events_lock);
}

/* Marks this database's events before "end" as done; lock held. */
static void
mark_done(Oid database, uint64 end)
{
	for (uint64 i = quota_shared->event_tail; i < end; i++)
		if (event_at(i)->database == database)
			event_at(i)->database = InvalidOid;
	while (quota_shared->event_tail < quota_shared->event_head &&
		   event_at(quota_shared->event_tail)->database == InvalidOid)
		quota_shared->event_tail++;
}

/* See event.h. */
void
quota_events_done(Oid database, const EventBatch *batch)
{
	LWLockAcquire(quota_shared->events_lock, LW_EXCLUSIVE);
	mark_done(database, batch->end);
	/* another database's worker may have told of them at the same time */
	quota_shared->events_lost -= Min(batch->lost, quota_shared->events_lost);
	LWLockRelease(quota_shared->events_lock);
}

/* See event.h. */
void
quota_events_forget(Oid database)
{
	LWLockAcquire(quota_shared->events_lock, LW_EXCLUSIVE);
	mark_done(database, quota_shared->event_head);
	LWLockRelease(quota_shared->events_lock);
}
