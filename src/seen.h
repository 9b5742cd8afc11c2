/*
 * seen.h
 *		Answers that were seen, for quota.feedback: a ring in shared memory that a
 *		background worker writes to the table.
 */
#ifndef QUOTA_SEEN_H
#define QUOTA_SEEN_H

#include "shmem.h"

/* Notes an answer.  Never throws, never waits but for a short lock. */
extern void seen_note(const QuotaSeen *answer);

/* ---- for the worker ---- */

/* A batch of one database's answers, oldest first. */
typedef struct SeenBatch
{
	uint64		end;			/* position behind the last one */
	uint64		lost;			/* answers of any database that found no room */
} SeenBatch;

/*
 * Writes the next of this database's answers into the table, as part of this
 * transaction; true when there may be more.  Needs an active snapshot; throws.
 */
extern bool seen_write(SeenBatch *batch);
/* They are written, forget them.  Never throws. */
extern void seen_done(Oid database, const SeenBatch *batch);
extern bool seen_pending(Oid database);
/* Nobody will write them any more. */
extern void seen_forget(Oid database);

/* Attribute numbers of quota.feedback; the first two as of quota.events */
enum SeenColumn
{
	SEEN_ID = 1,
	SEEN_AT,
	SEEN_PROVIDER,
	SEEN_TENANT,
	SEEN_ENDPOINT,
	SEEN_OUTCOME,
	SEEN_SCOPE,
	SEEN_STATUS,
	SEEN_REASON,
	SEEN_RETRY_AFTER,
	SEEN_HEADERS,
	SEEN_IN_FLIGHT,
	SEEN_LEVEL,
	SEEN_ATTEMPT,
	SEEN_LATENCY
};

#endif							/* QUOTA_SEEN_H */
