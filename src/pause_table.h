/*
 * pause_table.h
 *		The pauses in shared memory: between the pause*.c files.
 */
#ifndef QUOTA_PAUSE_TABLE_H
#define QUOTA_PAUSE_TABLE_H

#include "pause.h"

#include "catalog.h"

/* What a pause is of, beside the names it gives. */
typedef enum PauseOf
{
	PAUSE_OF_CALLS = 'C',		/* to a provider */
	PAUSE_OF_LIMIT = 'L',
	PAUSE_OF_ACCOUNT = 'A'
} PauseOf;

typedef struct QuotaPause
{
	bool		used;
	bool		open;			/* its transaction has not committed */
	bool		reported;		/* by an answer of the provider, else by hand */
	bool		unwritten;		/* a worker has to write its row */
	bool		told;			/* that it is over */
	bool		resumed;		/* before its time */
	char		of;				/* PauseOf */
	uint32		chain;			/* next of the same hash, or free */
	uint32		owner;			/* slot of the provider, or of the database */
	uint32		database_slot;
	int64		id;				/* of its row */
	uint64		version;		/* moves with every report of it */
	PauseEnd	end;
	TimestampTz since_us;		/* wall clock */
	int64		since_ns;		/* quota clock */
	pg_atomic_uint64 seen_ns;	/* it was in force then, for sure */
	pg_atomic_uint64 over_ns;	/* it is over since then; 0 = not yet */
	char		subject[QUOTA_NAME_LEN];	/* account or limit; "" = none, as for
											 * the others */
	char		tenant[QUOTA_NAME_LEN];
	char		endpoint[QUOTA_NAME_LEN];
	char		connection[QUOTA_NAME_LEN];
	char		reason[QUOTA_NAME_LEN];
	char		set_by[NAMEDATALEN];	/* role */
} QuotaPause;

/*
 * Buckets that a pause has emptied, which refill within a minute, are full again when
 * it has been over for so long: then it may be forgotten.
 */
#define PAUSE_LINGER_NS		(60 * QUOTA_NS_PER_S)

extern PGDLLIMPORT QuotaPause *quota_pauses;
extern PGDLLIMPORT uint32 *quota_pause_heads;

/* ---- pause.c; quota_shared->pause_lock is held unless it says otherwise ---- */

/* Places, and without those that only pauses of providers and accounts may have. */
extern int	pause_places(void);
extern int	pause_narrow_places(void);
extern int	pause_heads(void);

/* A scope of which the names are checked, and where it is found. */
typedef struct PausePlace
{
	char		of;
	uint32		owner;
	uint32		database_slot;
	const char *subject;		/* "" = none, as for the others */
	const char *tenant;
	const char *endpoint;
	const char *connection;
} PausePlace;

/* No lock held.  May make a slot; throws 53400. */
extern PausePlace pause_place(const PauseScope *scope);

/* The first pause that may be of the place, and the next; QUOTA_NO_INDEX. */
extern uint32 pause_first(const PausePlace *place);
extern bool pause_is_of(const QuotaPause *p, const PausePlace *place);

/* The pause with this id of the place; QUOTA_NO_INDEX. */
extern uint32 pause_find(const PausePlace *place, int64 id);

/* A new one, which has the place and nothing else; QUOTA_NO_INDEX = full. */
extern uint32 pause_make(const PausePlace *place, int64 now_ns);
extern void pause_free(uint32 index);

/* Enters one that was saved by a clean shutdown; its slots are those of today. */
extern void pause_restore(const QuotaPause *saved);

/* An id that no other pause has. */
extern int64 pause_new_id(void);

/* Copies as much of a text as fits, in whole characters; NULL becomes "". */
extern void pause_copy(char *target, const char *source);

/* It is in force.  What has been over once stays so. */
extern bool pause_is_on(QuotaPause *p, int64 now_ns, TimestampTz wall_us);
/* When it ends, or ended, by the quota clock; QUOTA_NEVER. */
extern int64 pause_end_ns(const QuotaPause *p, int64 now_ns, TimestampTz wall_us);
/* The same for people: by the wall clock; DT_NOEND. */
extern TimestampTz pause_end_us(const QuotaPause *p, int64 now_ns,
								TimestampTz wall_us);

/* What it is of, in words; the buffer has PAUSE_SCOPE_LEN bytes. */
#define PAUSE_SCOPE_LEN (4 * QUOTA_NAME_LEN)
extern void pause_words(const QuotaPause *p, char *buffer);

/* ---- pause_row.c ---- */

/* Attribute numbers of quota.pauses */
enum PauseColumn
{
	PAUSES_ID = 1,
	PAUSES_ACCOUNT,
	PAUSES_PROVIDER,
	PAUSES_TENANT,
	PAUSES_ENDPOINT,
	PAUSES_CONNECTION,
	PAUSES_LIMIT_NAME,
	PAUSES_SINCE,
	PAUSES_UNTIL,
	PAUSES_LASTS_UNTIL,
	PAUSES_REASON,
	PAUSES_REPORTED,
	PAUSES_SET_BY
};

/* The rows have been read; if not yet, by this call.  No lock held; throws. */
extern void pause_load(void);

/*
 * Keeps others from writing rows, but those who insert pauses by hand: the worker for as
 * long as its transaction lasts, a resume until pause_rows_unlock().  No lock held; waits,
 * can be cancelled, throws.
 */
extern void pause_rows_lock(bool worker);
extern void pause_rows_unlock(void);

/* The background worker updates a row. */
extern bool pause_is_writing;

#endif							/* QUOTA_PAUSE_TABLE_H */
