/*
 * enforce.h
 *		Limits that do not refuse: soft and shadow.
 *
 * SOFT.  A call that the limit has no room for is admitted and charged; the decision
 * says so (reason soft_limit), and one event tells of it.  What was let through is a
 * debt, so that the limit recovers as if it had been hard and had waited.  A debt is
 * bounded, and what goes beyond is not charged:
 *
 *	rates			what the limit allows in one period, or its capacity if that is
 *					more: nobody is kept out for longer than one period by what was
 *					let through in an hour of need, or by one wrong report to
 *					quota_settle(), which keeps to the same bound (of hard limits,
 *					too).  A provider that counts by that period has forgotten the
 *					rest by then.
 *	concurrency		calls in flight that have a permit; the last quarter of the
 *					table of permits is for calls that limits have room for, and
 *					then what is let through goes uncounted
 *	allowance		it is in the ledger, exactly, and ends with the period; at most
 *					CREDIT_MAX_USED units
 *
 * SHADOW.  The limit counts what it would have refused and changes nothing.  It plays
 * its own part: its bucket is charged with calls that were admitted and that it would
 * have admitted.  It gives no permit; where the call has one for other reasons, what
 * it was charged returns or is corrected with that.  So a shadow of concurrency only
 * sees calls with a permit, since nothing tells it when others end.  An allowance
 * writes no entries: what it counts (shadow_used) is on top of what the ledger says
 * was used in the period, in memory only; it is forgotten in a crash, when idle
 * buckets make room for others, and when the limit is made hard or soft.  Where no
 * place is left for its bucket it counts nothing.
 *
 * Both count the calls that they would have refused, were they hard, refused by
 * others or not: would_refuse is what refused would be.
 *
 * Neither parks a flow, closes a provider, or makes a line: for those the term has
 * no reason to refuse.
 *
 * All of it runs under the plan's slot locks; nothing allocates or throws.
 */
#ifndef QUOTA_ENFORCE_H
#define QUOTA_ENFORCE_H

#include "decide.h"

/* The bucket, brought to now, as the plan's term has it. */
extern void enforce_refresh(QuotaBucket *b, const QuotaTerm *term, int64 now_ns);

/*
 * A term that is not hard does not refuse and fits all calls; s->would and would_fit
 * keep what it would say.
 */
extern void enforce_relax(const QuotaTerm *term, TermState *s);

/*
 * After it is known how many calls are granted (0: refused by others, n asked for):
 * which terms would not have, and for soft ones the verdict's reason.
 */
extern void enforce_judge(const QuotaPlan *plan, TermState *states, int granted,
						  int asked, QuotaVerdict *v);

/* Units that n admitted calls are charged; -1 = the term takes no part. */
extern int64 enforce_charge(const QuotaTerm *term, const TermState *s, int n);

/* Units that a bucket of a rate may still be charged, its debt included. */
extern int64 enforce_room(const QuotaBucket *b);

#endif							/* QUOTA_ENFORCE_H */
