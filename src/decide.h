/*
 * decide.h
 *		One decision: check every matching limit, charge all or none.
 */
#ifndef QUOTA_DECIDE_H
#define QUOTA_DECIDE_H

#include "policy.h"
#include "shmem.h"

#include "fmgr.h"

typedef struct QuotaExhausted
{
	int			term;			/* index into plan->terms */
	QuotaReason reason;
	int64		needed;			/* units */
	int64		remaining;		/* units */
	int64		window_ns;		/* in which the term's amount counts, 0 = none */
	TimestampTz not_before_us;	/* DT_NOEND = never by itself */
	int64		wake_ns;		/* when to ask again, by the quota clock */
	bool		may_end_sooner; /* by the end of other calls */
} QuotaExhausted;

/* Jobs of one batch count once in concurrency, each in everything else. */
typedef enum QuotaBatchRole
{
	QUOTA_BATCH_NONE,
	QUOTA_BATCH_FIRST,			/* concurrency goes to a permit of the batch */
	QUOTA_BATCH_NEXT			/* it is paid for */
} QuotaBatchRole;

typedef struct QuotaVerdict
{
	QuotaReason reason;
	int			granted;		/* calls */
	int			limiting;		/* term that opens last, -1 = none, or a pause */
	int			npaused;		/* hits of pause_seen that said no */
	TimestampTz not_before_us;	/* DT_NOEND = never by itself */
	int64		wake_ns;		/* when a parked flow should ask again */
	int64		opens_ns;		/* when the limiting term does */
	bool		stops_all;		/* a job is refused by nothing but limits that
								 * every call meets, or by a pause of them all */
	bool		of_flow;		/* whatever the job is: all of its flow are */
	bool		across;			/* a limit across providers refuses */
	bool		meets_shared;	/* a job that meets limits which tenants share: */
	QuotaKey	line_key;		/* of the line where it stands for them; */
	bool		shared;			/* refused: the limiting term is such a limit, */
	bool		behind;			/* and would fit, but a flow that waits goes first, */
	bool		own_line;		/* and that one is of the same line */
	int64		remaining;		/* further equal calls possible now;
								 * QUOTA_NEVER = no limit */
	int64		permit;			/* 0 = none */
	uint32		permit_index;
	int64		batch;			/* QUOTA_BATCH_FIRST: permit of the batch, 0 = no
								 * limit of concurrency was met */
	uint32		batch_index;
	bool		has_hold;		/* credits were charged: entries to be written */
	int			nexhausted;
	QuotaExhausted exhausted[QUOTA_MAX_TERMS];
} QuotaVerdict;

/* The first limit that has nothing left in its period, whatever comes back; NULL = none. */
static inline const QuotaExhausted *
quota_spent_limit(const QuotaVerdict *v)
{
	for (int i = 0; i < v->nexhausted; i++)
		if (v->exhausted[i].reason == QUOTA_QUOTA_EXHAUSTED &&
			!v->exhausted[i].may_end_sooner)
			return &v->exhausted[i];
	return NULL;
}

/* What is asked for. */
typedef struct QuotaAsk
{
	int			n;				/* calls, >= 1 */
	bool		partial;
	bool		retry;			/* not the first attempt */
	const QuotaUnits *units;	/* NULL = the cost map */
	int64		lifetime_ns;	/* of the permit; 0 = the limits' own */
	QuotaBatchRole batch;
	bool		dry;			/* peek: charge nothing; the refusal of a job is
								 * one all the same, as it parks its flow */
	bool		provisional;	/* a refusal by limits is not the last word: it
								 * isn't counted */
	bool		is_job;			/* of this flow, which may have to stand in line
								 * for limits that several tenants share */
	uint32		flow;
	const char *only_unit;		/* decide by allowances of this unit alone
								 * (quota_hold); NULL = by all limits */
	const char *connection;		/* of the call; NULL = none */
	const char *user;			/* the same, of a direct one */
	const char *resource;
} QuotaAsk;

typedef enum DecideResult
{
	DECIDE_DONE,
	DECIDE_STALE,				/* plan is not current: get a new one */
	DECIDE_LOAD,				/* bucket of plan->terms[*what] must be loaded */
	DECIDE_READ_LAPSED,			/* what has lapsed of it must be read */
	DECIDE_LOAD_MARK,			/* what is known of that of plan->terms[*what] */
	DECIDE_LOAD_QUEUE,			/* the queue, whose jobs may be in flight */
	DECIDE_LOAD_PAUSES,
	DECIDE_FULL					/* a table is full: *what is a DecideTable */
} DecideResult;

typedef enum DecideTable
{
	DECIDE_TABLE_BUCKETS,
	DECIDE_TABLE_TENANT_BUCKETS,	/* the tenant's own ceiling */
	DECIDE_TABLE_TENANTS,
	DECIDE_TABLE_PORTIONS,
	DECIDE_TABLE_PERMITS
} DecideTable;

/* Where one term stands: for explain, and within a decision. */
typedef struct TermState
{
	uint32		bucket;
	uint32		portion;		/* the tenant's, QUOTA_NO_INDEX = none */
	bool		charged;		/* takes part in the charge */
	bool		is_first;		/* of a retry budget: a first attempt, to be
								 * counted there */
	int64		cost;			/* units one call costs */
	int64		level;			/* units free; negative = debt */
	int64		fit;			/* calls that fit now; QUOTA_NEVER = any number */
	int64		within;			/* so many are within the tenant's share; for others
								 * see floor_leave_over() */
	int64		leave;			/* units that calls must leave, and until when */
	int64		until_ns;		/* they must wait anyway; PG_INT64_MIN = not: */
	QuotaReason floor_reason;	/* for this */
	PortionStand stand;
	QuotaReason reason;			/* why n calls do not fit, or QUOTA_OK */
	QuotaReason would;			/* the same before enforcement, see enforce.h; */
	int64		would_fit;		/* as well */
	bool		over;			/* not hard, and the calls don't fit */
	TimestampTz not_before_us;
	int64		wake_ns;
	bool		may_end_sooner; /* refused until then, unless other calls end */
	bool		behind;			/* it would fit, but a flow that waits goes first */
	bool		own_line;		/* one of the same line */
} TermState;

/*
 * With the slot locks of the plan held, and journal_reserve(QUOTA_MAX_TERMS)
 * called before.  Never throws.
 */
extern DecideResult quota_decide_locked(QuotaPlan *plan, const QuotaAsk *ask,
										int64 now_ns, TimestampTz wall_us,
										QuotaVerdict *verdict, int *what);

/* Locks, decides, unlocks; loads and reclaims as needed.  May throw. */
extern QuotaPlan *quota_decide(const QuotaCall *call, const QuotaAsk *ask,
							   QuotaVerdict *verdict);

/*
 * The state of every term, as a decision would see it, without charging.
 * states has QUOTA_MAX_TERMS places.  May throw.
 */
extern QuotaPlan *quota_examine(const QuotaCall *call, const QuotaAsk *ask,
								TermState *states, QuotaVerdict *verdict);

extern void quota_lock_plan(const QuotaPlan *plan);
extern void quota_unlock_plan(const QuotaPlan *plan);

/*
 * After DECIDE_LOAD..., DECIDE_LOAD_QUEUE or DECIDE_FULL, no lock held: loads, or
 * makes room, or throws 53400.  *reclaims starts as 0.
 */
extern void quota_decide_help(DecideResult result, QuotaPlan *plan, int what,
							  int *reclaims);

/*
 * The bucket of a term, created when it is new; locks held.  QUOTA_NO_INDEX when
 * the table is full.
 */
extern uint32 quota_term_bucket(const QuotaPlan *plan, const QuotaTerm *term,
								int64 now_ns, TimestampTz wall_us);

/* ---- acquire.c ---- */

/*
 * What names the refusal, or the soft admission: a limit, or of a pause what is paused;
 * NULL = nothing.  Of the last decision of this backend.
 */
extern const char *quota_limiting_name(const QuotaPlan *plan,
									   const QuotaVerdict *verdict);

/* Reads the arguments of quota_acquire, quota_peek and quota_explain. */
extern void quota_read_call(FunctionCallInfo fcinfo, QuotaCall *call,
							QuotaAsk *ask);

/* The verdict as a quota_decision, the result type of the running function. */
extern Datum quota_decision_datum(FunctionCallInfo fcinfo, QuotaPlan *plan,
								  const QuotaVerdict *verdict);

/* ---- settle.c ---- */

/*
 * Settles a permit when this transaction commits: the core of quota_settle().
 * units NULL = as estimated; billed false = credits return.  False when the
 * permit is not open and has no open hold.  Throws 55P03 when another
 * transaction settles it.
 */
extern bool quota_settle_permit(int64 permit, bool billed,
								const QuotaUnits *units);

#endif							/* QUOTA_DECIDE_H */
