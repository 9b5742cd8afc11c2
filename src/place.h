/*
 * place.h
 *		Places in bounded queues: taken before a job is inserted, so that no more
 *		are unfinished than the bounds allow; see place.c.
 */
#ifndef QUOTA_PLACE_H
#define QUOTA_PLACE_H

#include "job_known.h"

/* Why there is no place. */
typedef struct PlaceRefusal
{
	const char *limit_name;		/* "tenant", "provider" or "class": the bound
								 * that was reached */
	int64		most;			/* what it is */
	int64		unfinished;		/* jobs that count against it, committed */
	int64		open;			/* and being enqueued */
	int64		provider_most;	/* "class": the bound it is a part of */
	int64		wait_ns;		/* estimate: so long until there is a place */
} PlaceRefusal;

/*
 * Takes a place for a job of these names that is about to become unfinished; the
 * caller notes its depth afterwards.  False when there is none, which is counted
 * and told as an event.  No lock held; throws as known_lock() does.
 */
extern bool place_take(const JobNames *names, PlaceRefusal *refusal);

/* 53Q00: what place_take() said, as an error. */
pg_noreturn extern void place_error(const JobNames *names,
									const PlaceRefusal *refusal);
/* Not before then does it make sense to try again; wall clock. */
extern TimestampTz place_not_before(const PlaceRefusal *refusal);

/*
 * Runs insert(arg), whose row of these names has got its place already, by
 * place_take(); throws what it throws.
 */
extern void place_insert(const JobNames *names, void (*insert) (void *arg),
						 void *arg);

/*
 * BEFORE INSERT: takes a place for the row, or throws 53Q00.  AFTER INSERT: the
 * row is there; true when it has a place.
 */
extern void place_take_for_row(KnownFlow *known);
extern bool place_confirm(uint32 flow);

/*
 * The subtransaction (InvalidSubTransactionId: the transaction) is ending; what it
 * took is left to the journal.  Never throws.
 */
extern void place_forget(SubTransactionId sub);

#endif							/* QUOTA_PLACE_H */
