/*
 * learn.h
 *		What follows from how calls end: circuit breakers, and how much is used of
 *		adaptive limits.
 *
 * Who learns of a call's end tells it here.  It acts at once, for everybody, and no
 * rollback undoes it: the call has ended so.  Nothing here allocates or throws.
 */
#ifndef QUOTA_LEARN_H
#define QUOTA_LEARN_H

#include "policy.h"
#include "shmem.h"

#include "feedback.h"

/*
 * A call has ended so, after so many microseconds (-1 = not known), which pauses calls
 * for so long: by its plan, which need not be current.  No lock held.
 */
extern void learn(QuotaPlan *plan, const FeedbackOutcome *outcome, int64 latency_us,
				  int64 paused_ns);

/* ---- in a decision ---- */

/*
 * The term's amounts become the part that is used of an adaptive limit; a call costs so
 * much.  learn_adapt() is for a decision, that has found the bucket: for one whose limit
 * has become adaptive, or is so no more.
 */
extern void learn_scale(const QuotaBucket *b, QuotaTerm *term, int64 cost);
extern void learn_adapt(QuotaBucket *b, QuotaTerm *term, int64 cost, int64 now_ns);
/*
 * Once the bucket is at now by that part: true when it is another one from now on, of
 * which are the term's amounts then.
 */
extern bool learn_watch(uint32 bucket, QuotaTerm *term, int64 cost, int64 now_ns);
/* Calls that cost so much of it were admitted; no rollback takes that back. */
static inline void
learn_charged(QuotaBucket *b, int64 units, int64 now_ns)
{
	if (b->adaptive.on)
		adaptive_took(&b->adaptive, units, now_ns);
}
/* The bucket knows something that is not to be forgotten yet. */
extern bool learn_needs(const QuotaBucket *b, int64 now_ns);

/* Brings a breaker to now and to the plan's rules. */
extern void learn_refresh(uint32 bucket, const QuotaTerm *term, int64 now_ns);
/*
 * n calls were admitted past a breaker, with this permit (QUOTA_NO_INDEX = none), in a
 * section for which a record of the journal was reserved.
 */
extern void learn_took(uint32 bucket, uint32 permit, int n, int64 now_ns);

#endif							/* QUOTA_LEARN_H */
