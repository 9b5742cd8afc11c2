/*
 * pause.h
 *		Pauses: no call to a provider, or of some of its calls, until an instant.
 *
 * For who decides, who reports what a provider said, and who pauses by hand.  See
 * pause.c for the protocol.
 */
#ifndef QUOTA_PAUSE_H
#define QUOTA_PAUSE_H

#include "policy.h"
#include "shmem.h"

/*
 * What is paused.  One of
 *
 *	  account alone			all calls to the providers of the account
 *	  limit_name			all calls that cost something of the limit; of the
 *							provider or, without one, across providers
 *	  provider and any of tenant, endpoint (a name or a pattern as in
 *	  quota.limits) and connection
 *							calls to the provider that all of these are true of
 *
 * NULL where not given; names shorter than QUOTA_NAME_LEN.
 */
typedef struct PauseScope
{
	const char *account;
	const char *provider;
	const char *tenant;
	const char *endpoint;
	const char *connection;
	const char *limit_name;
} PauseScope;

/* When a pause ends. */
typedef struct PauseEnd
{
	bool		lasts;			/* a time from now: at_us is steady time, which
								 * never steps; else wall clock */
	TimestampTz at_us;			/* DT_NOEND = when somebody says so */
} PauseEnd;

/* At an instant from outside; after a time; never by itself. */
extern PauseEnd pause_until(TimestampTz wall_us);
extern PauseEnd pause_for(int64 ns);
extern PauseEnd pause_open_ended(void);

/* The cooldown of the provider, for an answer that names no time.  May throw. */
extern int64 pause_cooldown_ns(const char *provider);

/*
 * A provider's answer asks for a pause: it holds for every decision that begins after
 * this has returned, whatever becomes of the transaction, and a background worker
 * writes its row.  A pause of the same scope that was reported before and ends later
 * stays; else it becomes longer and has this reason.  Where there is no room it is
 * one of the next wider scope.  The reason is clipped to 127 bytes; NULL = none.
 *
 * The caller holds no lock.  Throws, having done nothing, when out of memory, when
 * cancelled, or when the provider finds no slot (53400).
 */
extern void pause_report(const PauseScope *scope, PauseEnd end, const char *reason);

/* ---- deciding: pause_decide.c ---- */

/* One pause that holds a call back. */
typedef struct PauseHit
{
	int			term;			/* of a limit: the plan's, else -1 */
	bool		of_flow;		/* it holds every job of the flow back */
	bool		wide;			/* every call to the provider */
	bool		reported;
	int64		end_ns;
	TimestampTz until_us;		/* DT_NOEND = open-ended */
	TimestampTz since_us;
	char		scope[4 * QUOTA_NAME_LEN];	/* in words */
	char		reason[QUOTA_NAME_LEN];
	char		set_by[NAMEDATALEN];
} PauseHit;

/* Pauses that one decision tells of, those that end last. */
#define PAUSE_MAX_HITS 8

/* What the last decision of this backend has found. */
typedef struct PauseLook
{
	bool		any;			/* the rest means something */
	int			n;
	int			last;			/* of hits: that ends last */
	PauseHit	hits[PAUSE_MAX_HITS];
	/* by term; PG_INT64_MIN = none: the end of a pause that empties its bucket */
	int64		ended_ns[QUOTA_MAX_TERMS];	/* of one that is over, */
	int64		ends_ns[QUOTA_MAX_TERMS];	/* of one that is not */
} PauseLook;

extern PauseLook pause_seen;

struct QuotaAsk;
struct QuotaVerdict;
struct TermState;

extern void pause_search(const QuotaPlan *plan, const char *connection, int64 now_ns,
						 TimestampTz wall_us);

/*
 * Looks for pauses that concern the call; the plan's locks are held, the rows have been
 * read.  Doesn't throw, as all of these.
 */
static inline void
pause_look(const QuotaPlan *plan, const char *connection, int64 now_ns,
		   TimestampTz wall_us)
{
	pause_seen.any = false;
	if (unlikely(pg_atomic_read_u32(&quota_slots[plan->slot].pauses) != 0 ||
				 pg_atomic_read_u32(&quota_slots[plan->database_slot].pauses) != 0))
		pause_search(plan, connection, now_ns, wall_us);
}

/* Empties the bucket of the i-th term of what it saved up during a pause. */
extern void pause_empty(int i, QuotaBucket *b);

/* The terms have been examined: is the call paused?  Forgets what does not count. */
extern bool pause_holds(const struct TermState *states);

/*
 * The call is paused, and refused by what the verdict says of its terms: it is told so
 * if the pause ends later.
 */
extern void pause_refuse(const QuotaPlan *plan, const struct QuotaAsk *ask,
						 const struct TermState *states, int n, int64 now_ns,
						 TimestampTz wall_us, struct QuotaVerdict *v);

/* A refused direct call by a pause alone is told to come behind those before it. */
extern void pause_spread(const QuotaPlan *plan, const struct TermState *states, int n,
						 int64 now_ns, struct QuotaVerdict *v);

/* ---- shared memory: pause.c ---- */

extern void pause_shmem_init(void);
/* The slot goes.  Its lock is held. */
extern void pause_sweep(uint32 slot);

/* ---- the ends of transactions: pause_end.c ---- */

/* What a record of the journal says of a pause. */
typedef enum PauseAct
{
	PAUSE_TAKEN,				/* by hand; an abort takes it back */
	PAUSE_ENDED,				/* at COMMIT */
	PAUSE_WRITTEN,				/* its row, by the worker */
	PAUSE_TOLD					/* its end was told as an event */
} PauseAct;

/* No lock held. */
extern void pause_undo_take(uint32 index, int64 id);
extern void pause_commit(uint32 index, int64 id, uint8 act, uint64 version);

/* The worker's part; returns when it is wanted again. */
extern int64 pause_chore(uint32 database_slot, int64 until_ns);

#endif							/* QUOTA_PAUSE_H */
