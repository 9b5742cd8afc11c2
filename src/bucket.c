/*
 * bucket.c
 *		Exact integer arithmetic of a token bucket: see bucket.h for what it
 *		promises.  Pure: no server headers, no memory, no clock, no errors.
 *
 * Three real numbers are kept, each as a whole number and a fraction over
 * the denominator of the rate:
 *
 *		R = spent - part/den			what was spent and has not refilled
 *		X = excess - excess_part/den	what lowered capacities forgive of it
 *		A = accrued						potential refill, plus all forgiven
 *
 * Time lowers R by rate * time, not below 0, and raises A by the same without
 * any floor.  E = R - X is what counts against the capacity: 0 <= X <= R, so
 * E is never negative either.  Rounding happens in one place only, set_rate,
 * and upwards for R, E and A.
 *
 * Why the bound holds.  Call V the same history in real numbers, without the
 * transactions that were rolled back so far; the claim is that R and E never
 * fall below V's.  Every step is monotone and rounds up, so it keeps the
 * claim, except a return.  Leaving out a take of n makes V's R and E smaller
 * by n at first; that difference shrinks only by refill which one of the two
 * histories could not use, and by what was forgiven.  A grows by at least as
 * much, hence at least n - (A - A at the take) of the difference is left, and
 * that is what a return gives back.  V itself keeps to the bound.
 */
#include "bucket.h"

#include "wide.h"

/* whole + part/den, where -den < part < den and den is the bucket's */
typedef struct Units
{
	int64_t		whole;
	int64_t		part;
} Units;

#ifdef QUOTA_UNIT
#include <assert.h>
#define BUCKET_ASSERT(cond) assert(cond)

/* Is every field within its range, and X <= R? */
static bool
sane(const Bucket *b)
{
	int64_t		den = b->rate.den;

	return b->rate.num >= 0 && den >= 1 && b->capacity >= 0 &&
		b->part >= 0 && b->part < den && b->spent >= (b->part > 0) &&
		b->excess_part >= 0 && b->excess_part < den &&
		b->excess >= (b->excess_part > 0) &&
		(b->excess < b->spent ||
		 (b->excess == b->spent && b->excess_part >= b->part)) &&
		b->accrued.den == den && b->accrued.whole >= 0 &&
		b->accrued.part >= 0 && b->accrued.part < den;
}
#else
#define BUCKET_ASSERT(cond) ((void) 0)
#endif

/* The sum of two numbers that are not negative, at most INT64_MAX. */
static int64_t
add_saturating(int64_t a, int64_t b)
{
	return a > INT64_MAX - b ? INT64_MAX : a + b;
}

/* part/from as a multiple of 1/to, rounded down: below to if part < from. */
static int64_t
rescale_down(int64_t part, int64_t from, int64_t to)
{
	return from == to ? part : (int64_t) ((wide) part * to / from);
}

/* part/from as a multiple of 1/to, rounded up: may reach to. */
static int64_t
rescale_up(int64_t part, int64_t from, int64_t to)
{
	return from == to ? part :
		(int64_t) (((wide) part * to + from - 1) / from);
}

/* More than nothing? */
static bool
positive(Units u)
{
	return u.whole > 0 || (u.whole == 0 && u.part > 0);
}

/* What the rate earns between two instants: exact, or INT64_MAX if more. */
static Units
earned(BucketRate rate, int64_t from_ns, int64_t to_ns)
{
	int64_t		part;
	wide		whole = wide_mul_div((wide) to_ns - from_ns, rate.num, rate.den, &part);
	Units		u = {INT64_MAX, 0};

	if (whole < INT64_MAX)
	{
		u.whole = (int64_t) whole;
		u.part = part;
	}
	return u;
}

/* Moves the mark on by u, or to INT64_MAX for good. */
static void
advance(BucketMark *mark, Units u)
{
	wide		whole = (wide) mark->whole + u.whole;
	wide		part = (wide) mark->part + u.part;

	if (part >= mark->den)
	{
		part -= mark->den;
		whole++;
	}
	else if (part < 0)
	{
		part += mark->den;
		whole--;
	}
	mark->whole = wide_clamp(whole);
	mark->part = whole < INT64_MAX ? (int64_t) part : 0;
}

/* Lowers R by u, not below 0; X follows once nothing else is left of R. */
static void
unspend(Bucket *b, Units u)
{
	wide		whole = (wide) b->spent - u.whole;
	wide		part = (wide) b->part + u.part;

	if (part >= b->rate.den)
	{
		part -= b->rate.den;
		whole--;
	}
	else if (part < 0)
	{
		part += b->rate.den;
		whole++;
	}
	b->spent = whole > 0 ? (int64_t) whole : 0;
	b->part = whole > 0 ? (int64_t) part : 0;

	if (b->excess > b->spent ||
		(b->excess == b->spent && b->excess_part < b->part))
	{
		b->excess = b->spent;
		b->excess_part = b->part;
	}
}

/* E in whole units, rounded up. */
static int64_t
effective(const Bucket *b)
{
	return b->spent - b->excess + (b->excess_part > b->part);
}

/* A bucket of which nothing was ever spent. */
void
bucket_init_full(Bucket *b, BucketRate rate, int64_t capacity, int64_t now_ns)
{
	Bucket		fresh = {0};

	fresh.capacity = capacity;
	fresh.rate = rate;
	fresh.accrued.den = rate.den;
	fresh.settled_ns = now_ns;
	*b = fresh;
	BUCKET_ASSERT(sane(b));
}

/*
 * A bucket that was drained at that instant, or now if that is still to come,
 * and has refilled since.
 */
void
bucket_init_drained(Bucket *b, BucketRate rate, int64_t capacity,
					int64_t drained_ns, int64_t now_ns)
{
	bucket_init_full(b, rate, capacity,
					 drained_ns < now_ns ? drained_ns : now_ns);
	b->spent = capacity;
	bucket_settle(b, now_ns);
}

/*
 * Accounts for the refill up to now.  Any number of calls on the way give
 * what one call gives; a clock that went back changes nothing.
 */
void
bucket_settle(Bucket *b, int64_t now_ns)
{
	Units		refill;

	if (now_ns <= b->settled_ns)
		return;

	refill = earned(b->rate, b->settled_ns, now_ns);
	if (b->spent > 0)
		unspend(b, refill);
	advance(&b->accrued, refill);
	b->settled_ns = now_ns;
	BUCKET_ASSERT(sane(b));
}

/*
 * Holds no more than if just so many units had been spent at that instant, or at the
 * settled one if that is sooner, and had refilled since.  What is forgiven stays so.
 */
void
bucket_empty(Bucket *b, int64_t units, int64_t at_ns)
{
	Bucket		emptied;
	wide		more;

	bucket_init_drained(&emptied, b->rate, units, at_ns, b->settled_ns);
	more = (wide) (emptied.spent - (b->spent - b->excess)) * b->rate.den -
		emptied.part + (b->part - b->excess_part);
	if (more <= 0)
		return;
	b->spent = b->excess + emptied.spent;
	b->part = b->excess_part + emptied.part;
	if (b->part >= b->rate.den)
	{
		b->part -= b->rate.den;
		b->spent--;
	}
	BUCKET_ASSERT(sane(b));
}

/*
 * Changes the rate from the settled instant on.  If that changes the
 * denominator, R and A are rounded up and X down, by less than 1/den each.
 * A whole E stays as it is, so that a full bucket stays full.
 */
static void
set_rate(Bucket *b, BucketRate rate)
{
	int64_t		old = b->rate.den;
	bool		whole = b->excess_part == b->part;
	Units		none = {0, 0};

	b->rate = rate;
	if (rate.den == old)
		return;

	b->part = rescale_down(b->part, old, rate.den);
	b->excess_part = whole ? b->part :
		rescale_up(b->excess_part, old, rate.den);
	if (b->excess_part == rate.den)
	{
		b->excess--;
		b->excess_part = 0;
	}

	b->accrued.part = rescale_up(b->accrued.part, old, rate.den);
	b->accrued.den = rate.den;
	advance(&b->accrued, none); /* carry */
}

/*
 * Forgives what is spent beyond a lower capacity, but no more than the
 * difference: a debt stays as deep as it was.
 */
static void
forgive(Bucket *b, int64_t capacity)
{
	int64_t		excess = b->excess;
	int64_t		excess_part = b->excess_part;
	Units		forgiven;

	if (effective(b) <= capacity)
		return;

	if (effective(b) > b->capacity)
		b->excess += b->capacity - capacity;
	else
	{
		b->excess = b->spent - capacity;
		b->excess_part = b->part;
	}

	/* what is forgiven must not be returned a second time */
	forgiven.whole = b->excess - excess;
	forgiven.part = excess_part - b->excess_part;
	advance(&b->accrued, forgiven);
}

/* Counts again what was forgiven, up to the gain of a higher capacity. */
static void
unforgive(Bucket *b, int64_t difference)
{
	if (b->excess > difference)
		b->excess -= difference;
	else
		b->excess = b->excess_part = 0;
}

/*
 * Settles, with a new rate and capacity from switch_ns on, though never from
 * before the last settlement nor after now.  What was spent stays spent:
 * lowering the capacity clamps what counts to it, raising it counts again
 * what was clamped and has not refilled, so going down and up gains nothing.
 */
void
bucket_configure(Bucket *b, BucketRate rate, int64_t capacity,
				 int64_t switch_ns, int64_t now_ns)
{
	if (rate.num != b->rate.num || rate.den != b->rate.den ||
		capacity != b->capacity)
	{
		bucket_settle(b, switch_ns < now_ns ? switch_ns : now_ns);
		set_rate(b, rate);
		if (capacity < b->capacity)
			forgive(b, capacity);
		else
			unforgive(b, capacity - b->capacity);
		b->capacity = capacity;
		BUCKET_ASSERT(sane(b));
	}
	bucket_settle(b, now_ns);
}

/* Whole units that may be taken at the settled instant; negative: a debt. */
int64_t
bucket_level(const Bucket *b)
{
	return b->capacity - effective(b);
}

/*
 * Nanoseconds from the settled instant until n units may be taken if nobody
 * takes any meanwhile: then they can, and one nanosecond earlier they cannot.
 */
int64_t
bucket_wait(const Bucket *b, int64_t n)
{
	wide		missing;

	if (n <= 0 || bucket_level(b) >= n)
		return 0;
	if (n > b->capacity || b->rate.num == 0)
		return BUCKET_NEVER;

	/* E - (capacity - n), in 1/den */
	missing = (wide) (b->spent - b->excess - (b->capacity - n)) * b->rate.den
		+ b->excess_part - b->part;
	return wide_clamp(wide_div_up(missing, b->rate.num));
}

/* Spends n units, whether or not they are there. */
void
bucket_take(Bucket *b, int64_t n)
{
	BUCKET_ASSERT(n >= 0);
	if (n > 0)
		b->spent = add_saturating(b->spent, n);
}

/* Nanoseconds until n units have been taken, each as soon as it is there. */
int64_t
bucket_drain(const Bucket *b, int64_t n)
{
	Bucket		after = *b;

	if (n <= 0)
		return 0;
	bucket_take(&after, n - 1);
	return bucket_wait(&after, 1);
}

/*
 * What is left to return of t when the bucket stands at now: t->n less what
 * accrued since the mark, exactly, or rounded down if the denominator changed
 * since.  Nothing if that can't be told any more.
 */
static Units
returnable(const BucketTake *t, const BucketMark *now)
{
	Units		left = {0, 0};

	if (t->n <= 0 || now->whole == INT64_MAX || now->whole < t->mark.whole)
		return left;

	left.whole = t->n - (now->whole - t->mark.whole);
	left.part = rescale_down(t->mark.part, t->mark.den, now->den) - now->part;
	BUCKET_ASSERT(left.whole < t->n || left.part <= 0);
	return left;
}

/*
 * Adds n units that were taken at this mark, later than all of t.
 *
 * As long as something of t is left, all of it decays together, so only n
 * grows and the mark stays: n - (accrued - mark) remains exact.  Once nothing
 * is left, t starts anew.
 */
static void
note(BucketTake *t, int64_t n, const BucketMark *mark)
{
	if (n <= 0)
		return;
	if (positive(returnable(t, mark)))
		t->n = add_saturating(t->n, n);
	else
	{
		t->n = n;
		t->mark = *mark;
	}
}

/*
 * Notes that n units are taken at the settled instant, before or after the
 * take itself, on top of what t holds (nothing if it is zeroed).
 */
void
bucket_take_note(BucketTake *t, const Bucket *b, int64_t n)
{
	note(t, n, &b->accrued);
}

/*
 * Adds to t what was taken later from the same bucket, as if all of it had
 * been noted in t.
 */
void
bucket_take_merge(BucketTake *t, const BucketTake *newer)
{
	note(t, newer->n, &newer->mark);
}

/*
 * Returns up to n units of t, the newest first, to a bucket that is settled
 * to now: INT64_MAX for all of it.  What would have refilled meanwhile does
 * not come back a second time.
 */
void
bucket_take_return(Bucket *b, BucketTake *t, int64_t n)
{
	Units		back = returnable(t, &b->accrued);

	if (n <= 0)
		return;

	if (back.whole > n || (back.whole == n && back.part > 0))
	{
		back.whole = n;
		back.part = 0;
		t->n -= n;
	}
	else
		t->n = 0;

	if (positive(back))
		unspend(b, back);
	BUCKET_ASSERT(sane(b));
}

/* Nothing spent and nothing forgiven: as good as new. */
bool
bucket_is_full(const Bucket *b)
{
	return b->spent == 0;
}
