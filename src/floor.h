/*
 * floor.h
 *		What a call must leave in a limit: for classes with less headroom, and for
 *		tenants that want their share.  The limit's owner is locked; nothing here
 *		allocates or throws.
 */
#ifndef QUOTA_FLOOR_H
#define QUOTA_FLOOR_H

#include "decide.h"

/* ---- in a decision ---- */

/*
 * Finds the tenant's portion of the term's bucket, and makes it unless the call is
 * only looked at; false when there is no place for it.
 */
extern bool floor_resolve(const QuotaPlan *plan, QuotaTerm *term,
						  const QuotaAsk *ask, TermState *s);
/* Fills in what n calls must leave, and until when they must wait anyway. */
extern void floor_look(const QuotaPlan *plan, const QuotaTerm *term,
					   const QuotaAsk *ask, TermState *s, int n, int64 now_ns);
/* What n calls must leave when the last is beyond the tenant's share. */
extern int64 floor_leave_over(const QuotaPlan *plan, const QuotaTerm *term,
							  const TermState *s, int n, int64 now_ns);
/* How long n calls of a rate are refused if nobody asks meanwhile: see portion_wait.c. */
extern int64 floor_wait(const QuotaPlan *plan, const QuotaTerm *term,
						const QuotaAsk *ask, const TermState *s, int n,
						int64 now_ns, TimestampTz wall_us);
/* When others keep n calls of concurrency no more, at the latest; floor_look() has looked. */
extern int64 floor_flight_until(const QuotaTerm *term, const TermState *s, int64 now_ns);
/* The calls were refused: by what others go. */
extern void floor_refused(const QuotaPlan *plan, const TermState *states,
						  int n, int64 now_ns);
/*
 * The tenant's portion of what the term keeps, as far as a call that it has refused
 * for this reason wants its share of that; QUOTA_NO_INDEX: of nothing.
 */
extern uint32 floor_portion(const QuotaPlan *plan, const QuotaTerm *term,
							QuotaReason reason);
/* n calls are charged to the term. */
extern void floor_taken(const QuotaPlan *plan, const QuotaTerm *term,
						const TermState *s, int n, int64 now_ns);

/* ---- what becomes of it; "portion" may be QUOTA_NO_INDEX ---- */

/* So many units of a rate came back; negative: more were taken. */
extern void floor_returned(uint32 portion, int64 units);
/* So many units are in flight no more. */
extern void floor_landed(uint32 portion, int64 units);
/*
 * The first session of the tenant that waits for it was refused so many; 0: none waits
 * any more.  While one does, neither portion nor bucket is forgotten.
 */
extern void floor_await(uint32 portion, int64 units);
extern void floor_pin(uint32 portion);
extern void floor_unpin(uint32 portion);	/* no lock needed */

/* ---- buckets ---- */

/* Who has not asked within the window, as of the last decision, is not active. */
extern void floor_settle(QuotaBucket *b, int64 now_ns, TimestampTz wall_us);

extern void floor_bucket_init(QuotaBucket *b);
/* The bucket is forgotten, and with it what tenants have of it. */
extern void floor_bucket_drop(QuotaBucket *b);
/* Forgets the portion unless it is needed. */
extern bool floor_reclaim(uint32 portion, int64 now_ns);

#endif							/* QUOTA_FLOOR_H */
