/*
 * event.h
 *		What happened, for quota.events: a ring in shared memory that a
 *		background worker writes to the table.
 */
#ifndef QUOTA_EVENT_H
#define QUOTA_EVENT_H

#include "shmem.h"

/*
 * Notes an event; provider, tenant and detail may be NULL.  Never throws, never
 * waits but for a short lock; may be called with slot locks held.
 */
extern void quota_event(Oid database, const char *kind, const char *provider,
						const char *tenant, const char *detail);

/* ---- event_row.c ---- */

/* Attribute numbers of quota.events */
enum EventColumn
{
	EVENT_ID = 1,
	EVENT_AT,
	EVENT_KIND,
	EVENT_PROVIDER,
	EVENT_TENANT,
	EVENT_DETAIL
};

/*
 * Writes an event into the table, as part of this transaction; provider, tenant
 * and detail may be NULL or "".  Needs an active snapshot; throws.
 */
extern void event_insert(TimestampTz at_us, const char *kind,
						 const char *provider, const char *tenant,
						 const char *detail);

/* ---- for the worker ---- */

/* A batch of one database's events, oldest first. */
typedef struct EventBatch
{
	int			n;
	uint64		end;			/* position behind the last one */
	uint64		lost;			/* events of any database that found no room */
} EventBatch;

extern bool quota_events_pending(Oid database);
extern void quota_events_copy(Oid database, QuotaEvent *events, int max,
							  EventBatch *batch);
/* These are written, forget them.  Never throws. */
extern void quota_events_done(Oid database, const EventBatch *batch);
/* Nobody will write them any more. */
extern void quota_events_forget(Oid database);

#endif							/* QUOTA_EVENT_H */
