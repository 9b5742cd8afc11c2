/*
 * paced.c
 *		A leaky bucket: see paced.h for what it promises, and meter.h for what each
 *		function does.
 */
#include "paced.h"

#include "wide.h"

/*
 * Capacity of the bucket: as it never changes, the bucket forgives nothing.  No
 * burst is above it.
 */
#define ROOM (INT64_MAX / 2)

/* The smaller one. */
static int64_t
least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* What must be there for n calls at once, and be left by them. */
static wide
needed(int64_t burst, int64_t cost, int64_t n, int64_t leave)
{
	return (wide) cost * (n - 1) + least(cost, burst) + leave;
}

/* A call of this cost is taken at some time. */
static bool
takes(int64_t burst, int64_t largest, int64_t cost)
{
	return cost <= largest || cost <= burst;
}

/* Nothing was ever spent. */
void
paced_init_full(Paced *p, BucketRate rate, int64_t burst, int64_t largest,
				int64_t now_ns)
{
	bucket_init_full(&p->bucket, rate, ROOM, now_ns);
	p->burst = least(burst, ROOM);
	p->largest = largest;
}

/* See paced.h. */
void
paced_init_drained(Paced *p, BucketRate rate, int64_t burst, int64_t largest,
				   int64_t dearest, int64_t drained_ns, int64_t now_ns)
{
	paced_init_full(p, rate, burst, largest, least(drained_ns, now_ns));
	bucket_take(&p->bucket, dearest > burst ? dearest : burst);
	bucket_settle(&p->bucket, now_ns);
}

/* See meter.h. */
void
paced_configure(Paced *p, BucketRate rate, int64_t burst, int64_t largest,
				int64_t switch_ns, int64_t now_ns)
{
	bucket_configure(&p->bucket, rate, ROOM, switch_ns, now_ns);
	p->burst = least(burst, ROOM);
	p->largest = largest;
}

/* See meter.h. */
void
paced_empty(Paced *p, int64_t at_ns)
{
	bucket_empty(&p->bucket, p->burst, at_ns);
}

/* Units of the burst that are left; negative: a debt. */
int64_t
paced_level(const Paced *p)
{
	return p->burst - ROOM + bucket_level(&p->bucket);
}

/* See meter.h. */
int64_t
paced_fit(const Paced *p, int64_t cost, int64_t leave)
{
	wide		more = paced_level(p) - needed(p->burst, cost, 1, leave);

	if (more < 0 || !takes(p->burst, p->largest, cost))
		return 0;
	return (int64_t) (more / cost) + 1;
}

/* See meter.h. */
int64_t
paced_wait(const Paced *p, int64_t cost, int64_t n, int64_t leave)
{
	wide		units = needed(p->burst, cost, n, leave);

	if (units > p->burst || !takes(p->burst, p->largest, cost))
		return BUCKET_NEVER;
	return bucket_wait(&p->bucket, ROOM - p->burst + (int64_t) units);
}

/* Until n units have been taken, each as soon as it is there. */
int64_t
paced_drain(const Paced *p, int64_t n)
{
	Bucket		b = p->bucket;

	if (n <= 0)
		return 0;
	if (p->burst == 0)
		return BUCKET_NEVER;
	bucket_take(&b, n - 1);
	return bucket_wait(&b, ROOM - p->burst + 1);
}

/* See meter.h. */
bool
paced_holds(int64_t burst, int64_t largest, int64_t cost, int64_t n)
{
	return takes(burst, largest, cost) && needed(burst, cost, n, 0) <= burst;
}
