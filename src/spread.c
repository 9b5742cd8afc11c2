/*
 * spread.c
 *		When those that a rate refuses are told to ask again.
 *
 * If all were told the instant at which the next call fits, all would come then and
 * all but one in vain.  So only the first is told that; each of the next is told to
 * come one call's refill later than the one before, which is when it would be
 * admitted if they all came; of windows, in which units come back together, when
 * the window has room for all those before as well.  That goes on up to one refill
 * of the bucket's capacity, or of the call's cost when that is more, and then begins
 * anew: nobody is told to wait longer than that beyond the instant at which it can
 * succeed, and never less.
 *
 * What was told is forgotten when the bucket admits a call, and when the first could
 * have come: then it has room, or others took it.  A bucket remembers two numbers for
 * that, which nothing else depends on.
 *
 * Only not_before of the decision is moved.  What the list of limits says, and what
 * jobs, peek and explain are told, is exact.
 */
#include "spread.h"

/* See spread.h. */
void
spread_refusal(const QuotaTerm *term, const TermState *s, int n, int64 now_ns,
			   QuotaVerdict *v)
{
	QuotaBucket *b = &quota_buckets[s->bucket];
	int64		needed = s->cost * n;
	int64		later_ns;

	if (!quota_is_rate(term->kind) || term->kind == QUOTA_RETRIES ||
		s->wake_ns == QUOTA_NEVER)
		return;
	if (b->spread_units == 0 || now_ns >= b->spread_ns ||
		b->spread_units + needed > Max(term->capacity, needed))
	{
		b->spread_units = 0;
		b->spread_ns = s->wake_ns;
	}
	later_ns = bucket_refill_ns(term->meter.rate, b->spread_units);
	b->spread_units += needed;
	if (term->kind == QUOTA_FIXED_WINDOW || term->kind == QUOTA_SLIDING_WINDOW)
		later_ns = now_ns + meter_wait(&b->meter, b->spread_units, 1, 0) - s->wake_ns;
	if (later_ns < QUOTA_NEVER - s->wake_ns)
		v->not_before_us += quota_us_up(s->wake_ns + later_ns - now_ns) -
			quota_us_up(s->wake_ns - now_ns);
}
