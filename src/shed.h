/*
 * shed.h
 *		Jobs that a full queue has refused: counted, and told as events.
 *
 * A tenant at a provider counts them (quota.stat_tenants.shed) and what of them no
 * event has told yet.  The first refusal is told at once, then at most one event a
 * minute says how many there were and why the last one was refused: by the first
 * refusal after the minute, or by a background worker when none comes.  A clean
 * shutdown tells what is left.  A crash loses the counts, and of what was to be told
 * at most the last minute.
 *
 * The slot's lock protects all of it.  A share that an event will name is kept, and
 * so is its tenant.
 */
#ifndef QUOTA_SHED_H
#define QUOTA_SHED_H

#include "place.h"

/* A job of the flow was refused.  Slot lock held; never throws. */
extern void shed_note(uint32 flow, const PlaceRefusal *refusal, int64 now_ns);

/* An event will name the share's class.  Slot lock held. */
extern bool shed_needs(const QuotaShare *share);

/*
 * Tells what is due of this database; when the next is, or QUOTA_NEVER.  No lock
 * held; never throws.
 */
extern int64 shed_tell(Oid database, int64 now_ns);

/* Tells everything: the server has shut down.  In the postmaster, alone. */
extern void shed_tell_all(void);

#endif							/* QUOTA_SHED_H */
