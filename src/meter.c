/*
 * meter.c
 *		Limits on a rate, by shape: see meter.h for what each function promises,
 *		and the file of each shape for what it does.
 */
#include "meter.h"

#include <string.h>

__extension__ typedef __int128 wide;

/* n calls of this cost, at most INT64_MAX. */
static int64_t
units_of(int64_t cost, int64_t n)
{
	wide		units = (wide) cost * n;

	return units < INT64_MAX ? (int64_t) units : INT64_MAX;
}

/* a + b, at most INT64_MAX; none is negative. */
static int64_t
sum_of(int64_t a, int64_t b)
{
	return a > INT64_MAX - b ? INT64_MAX : a + b;
}

/* See meter.h. */
void
meter_init_full(Meter *m, const MeterRules *rules, int64_t now_ns,
				int64_t wall_us)
{
	memset(m, 0, sizeof(*m));
	m->shape = rules->shape;
	bucket_init_full(&m->u.bucket, rules->rate, rules->capacity, now_ns);
}

/* See meter.h. */
void
meter_init_drained(Meter *m, const MeterRules *rules, int64_t drained_ns,
				   int64_t now_ns, int64_t wall_us)
{
	memset(m, 0, sizeof(*m));
	m->shape = rules->shape;
	bucket_init_drained(&m->u.bucket, rules->rate, rules->capacity,
						drained_ns, now_ns);
}

/* See meter.h. */
void
meter_settle(Meter *m, int64_t now_ns, int64_t wall_us)
{
	bucket_settle(&m->u.bucket, now_ns);
}

/* See meter.h. */
void
meter_configure(Meter *m, const MeterRules *rules, int64_t switch_ns,
				int64_t now_ns, int64_t wall_us)
{
	bucket_configure(&m->u.bucket, rules->rate, rules->capacity, switch_ns,
					 now_ns);
}

/* See meter.h. */
bool
meter_is_slower(const Meter *m, const MeterRules *rules)
{
	return bucket_rate_above(rules->rate, m->u.bucket.rate);
}

/* See meter.h. */
int64_t
meter_level(const Meter *m)
{
	return bucket_level(&m->u.bucket);
}

/* See meter.h. */
int64_t
meter_spent(const Meter *m)
{
	return m->u.bucket.spent;
}

/* See meter.h. */
int64_t
meter_fit(const Meter *m, int64_t cost, int64_t leave)
{
	int64_t		level = meter_level(m);

	return level > leave ? (level - leave) / cost : 0;
}

/* See meter.h. */
int64_t
meter_wait(const Meter *m, int64_t cost, int64_t n, int64_t leave)
{
	return bucket_wait(&m->u.bucket, sum_of(units_of(cost, n), leave));
}

/* See meter.h. */
bool
meter_holds(const MeterRules *rules, int64_t cost, int64_t n)
{
	return units_of(cost, n) <= rules->capacity;
}

/* See meter.h. */
int64_t
meter_drain(const Meter *m, int64_t units)
{
	Bucket		b = m->u.bucket;

	if (units <= 0)
		return 0;
	bucket_take(&b, units - 1);
	return bucket_wait(&b, 1);
}

/* See meter.h. */
bool
meter_take_joins(const Meter *m, const MeterTake *t)
{
	return true;
}

/* See meter.h. */
void
meter_take(Meter *m, MeterTake *t, int64_t n)
{
	bucket_take(&m->u.bucket, n);
	bucket_take_note(&t->u.bucket, &m->u.bucket, n);
}

/* See meter.h. */
void
meter_take_return(Meter *m, MeterTake *t, int64_t n)
{
	bucket_take_return(&m->u.bucket, &t->u.bucket, n);
}

/* See meter.h. */
bool
meter_is_full(const Meter *m)
{
	return bucket_is_full(&m->u.bucket);
}
