/*
 * meter.c
 *		Limits on a rate, by shape: see meter.h for what each function promises,
 *		and the file of each shape for what it does.
 */
#include "meter.h"

#include <string.h>

#include "wide.h"

/* n calls of this cost and what they leave, at most INT64_MAX. */
static int64_t
units_of(int64_t cost, int64_t n, int64_t leave)
{
	return wide_clamp((wide) cost * n + leave);
}

/* See meter.h. */
void
meter_init_full(Meter *m, const MeterRules *rules, int64_t now_ns,
				int64_t wall_us)
{
	memset(m, 0, sizeof(*m));
	m->shape = rules->shape;
	switch ((MeterShape) m->shape)
	{
		case METER_BUCKET:
			bucket_init_full(&m->u.bucket, rules->rate, rules->capacity,
							 now_ns);
			break;
		case METER_PACED:
			paced_init_full(&m->u.paced, rules->rate, rules->capacity,
							rules->largest, now_ns);
			break;
		case METER_WINDOW:
			window_init_full(&m->u.window, rules->capacity, rules->period_ns,
							 rules->anchor_us, now_ns, wall_us);
			break;
		case METER_SLIDING:
			sliding_init_full(&m->u.sliding, rules->capacity,
							  rules->period_ns, now_ns);
			break;
		case METER_RETRIES:
			retry_init_full(&m->u.retries, rules->capacity,
							rules->share_milli, now_ns);
			break;
	}
}

/* See meter.h. */
void
meter_init_drained(Meter *m, const MeterRules *rules, int64_t drained_ns,
				   int64_t now_ns, int64_t wall_us)
{
	memset(m, 0, sizeof(*m));
	m->shape = rules->shape;
	switch ((MeterShape) m->shape)
	{
		case METER_BUCKET:
			bucket_init_drained(&m->u.bucket, rules->rate, rules->capacity,
								drained_ns, now_ns);
			break;
		case METER_PACED:
			paced_init_drained(&m->u.paced, rules->rate, rules->capacity,
							   rules->largest, rules->dearest, drained_ns,
							   now_ns);
			break;
		case METER_WINDOW:
			window_init_drained(&m->u.window, rules->capacity,
								rules->period_ns, rules->anchor_us,
								drained_ns, now_ns, wall_us);
			break;
		case METER_SLIDING:
			sliding_init_drained(&m->u.sliding, rules->capacity,
								 rules->period_ns, drained_ns, now_ns);
			break;
		case METER_RETRIES:
			retry_init_drained(&m->u.retries, rules->capacity,
							   rules->share_milli, drained_ns, now_ns);
			break;
	}
}

/* See meter.h. */
void
meter_settle(Meter *m, int64_t now_ns, int64_t wall_us)
{
	switch ((MeterShape) m->shape)
	{
		case METER_BUCKET:
		case METER_PACED:
			bucket_settle(&m->u.bucket, now_ns);
			break;
		case METER_WINDOW:
			window_settle(&m->u.window, now_ns, wall_us);
			break;
		case METER_SLIDING:
			sliding_settle(&m->u.sliding, now_ns);
			break;
		case METER_RETRIES:
			retry_settle(&m->u.retries, now_ns);
			break;
	}
}

/* See meter.h. */
void
meter_configure(Meter *m, const MeterRules *rules, int64_t switch_ns,
				int64_t now_ns, int64_t wall_us)
{
	switch ((MeterShape) m->shape)
	{
		case METER_BUCKET:
			bucket_configure(&m->u.bucket, rules->rate, rules->capacity,
							 switch_ns, now_ns);
			break;
		case METER_PACED:
			paced_configure(&m->u.paced, rules->rate, rules->capacity,
							rules->largest, switch_ns, now_ns);
			break;
		case METER_WINDOW:
			window_configure(&m->u.window, rules->capacity, rules->period_ns,
							 rules->anchor_us, switch_ns, now_ns, wall_us);
			break;
		case METER_SLIDING:
			sliding_configure(&m->u.sliding, rules->capacity,
							  rules->period_ns, switch_ns, now_ns);
			break;
		case METER_RETRIES:
			retry_configure(&m->u.retries, rules->capacity,
							rules->share_milli, now_ns);
			break;
	}
}

/* See meter.h. */
void
meter_empty(Meter *m, int64_t at_ns)
{
	switch ((MeterShape) m->shape)
	{
		case METER_BUCKET:
			bucket_empty(&m->u.bucket, m->u.bucket.capacity, at_ns);
			break;
		case METER_PACED:
			paced_empty(&m->u.paced, at_ns);
			break;
		case METER_WINDOW:
		case METER_SLIDING:
		case METER_RETRIES:
			break;
	}
}

/* See meter.h; of windows that is so if they are shorter. */
bool
meter_is_slower(const Meter *m, const MeterRules *rules)
{
	switch ((MeterShape) m->shape)
	{
		case METER_BUCKET:
		case METER_PACED:
			return bucket_rate_above(rules->rate, m->u.bucket.rate);
		case METER_WINDOW:
			return rules->period_ns < m->u.window.period_ns;
		case METER_SLIDING:
			return rules->period_ns < m->u.sliding.period_ns;
		case METER_RETRIES:
			return false;
	}
	return false;
}

/* See meter.h. */
int64_t
meter_level(const Meter *m)
{
	switch ((MeterShape) m->shape)
	{
		case METER_BUCKET:
			return bucket_level(&m->u.bucket);
		case METER_PACED:
			return paced_level(&m->u.paced);
		case METER_WINDOW:
			return window_level(&m->u.window);
		case METER_SLIDING:
			return sliding_level(&m->u.sliding);
		case METER_RETRIES:
			return retry_level(&m->u.retries);
	}
	return 0;
}

/* See meter.h. */
int64_t
meter_spent(const Meter *m)
{
	switch ((MeterShape) m->shape)
	{
		case METER_BUCKET:
		case METER_PACED:
			return m->u.bucket.spent;
		case METER_WINDOW:
			return m->u.window.used;
		case METER_SLIDING:
			return m->u.sliding.used;
		case METER_RETRIES:
			return retry_retries(&m->u.retries);
	}
	return 0;
}

/* See meter.h. */
int64_t
meter_late(const Meter *m)
{
	return m->shape == METER_SLIDING ? sliding_late(&m->u.sliding) : 0;
}

/* See meter.h. */
bool
meter_window(const Meter *m, int64_t *begin_ns, int64_t *end_ns)
{
	if (m->shape != METER_WINDOW)
		return false;
	*begin_ns = m->u.window.begin_ns;
	*end_ns = m->u.window.end_ns;
	return true;
}

/* See meter.h. */
int64_t
meter_fit(const Meter *m, int64_t cost, int64_t leave)
{
	int64_t		level = meter_level(m);

	if (m->shape == METER_PACED)
		return paced_fit(&m->u.paced, cost, leave);
	return level > leave ? (level - leave) / cost : 0;
}

/* See meter.h. */
int64_t
meter_wait(const Meter *m, int64_t cost, int64_t n, int64_t leave)
{
	int64_t		units = units_of(cost, n, leave);

	switch ((MeterShape) m->shape)
	{
		case METER_BUCKET:
			return bucket_wait(&m->u.bucket, units);
		case METER_PACED:
			return paced_wait(&m->u.paced, cost, n, leave);
		case METER_WINDOW:
			return window_wait(&m->u.window, units);
		case METER_SLIDING:
			return sliding_wait(&m->u.sliding, units);
		case METER_RETRIES:
			return retry_wait(&m->u.retries, units);
	}
	return BUCKET_NEVER;
}

/* See meter.h. */
bool
meter_holds(const MeterRules *rules, int64_t cost, int64_t n)
{
	if (rules->shape == METER_PACED)
		return paced_holds(rules->capacity, rules->largest, cost, n);
	/* first attempts may bring any number */
	if (rules->shape == METER_RETRIES && rules->share_milli > 0)
		return true;
	return units_of(cost, n, 0) <= rules->capacity;
}

/* See meter.h. */
int64_t
meter_drain(const Meter *m, int64_t units)
{
	switch ((MeterShape) m->shape)
	{
		case METER_BUCKET:
			return bucket_drain(&m->u.bucket, units);
		case METER_PACED:
			return paced_drain(&m->u.paced, units);
		case METER_WINDOW:
			return window_drain(&m->u.window, units);
		case METER_SLIDING:
			return sliding_drain(&m->u.sliding, units);
		case METER_RETRIES:
			return retry_wait(&m->u.retries, units);
	}
	return BUCKET_NEVER;
}

/* See meter.h. */
bool
meter_take_joins(const Meter *m, const MeterTake *t)
{
	switch ((MeterShape) m->shape)
	{
		case METER_BUCKET:
		case METER_PACED:
			return true;
		case METER_WINDOW:
			return window_take_joins(&m->u.window, &t->u.window);
		case METER_SLIDING:
			return sliding_take_joins(&m->u.sliding, &t->u.sliding);
		case METER_RETRIES:
			return retry_take_joins(&m->u.retries, &t->u.retries);
	}
	return false;
}

/* See meter.h. */
void
meter_take(Meter *m, MeterTake *t, int64_t n)
{
	switch ((MeterShape) m->shape)
	{
		case METER_BUCKET:
		case METER_PACED:
			bucket_take(&m->u.bucket, n);
			bucket_take_note(&t->u.bucket, &m->u.bucket, n);
			break;
		case METER_WINDOW:
			window_take(&m->u.window, &t->u.window, n);
			break;
		case METER_SLIDING:
			sliding_take(&m->u.sliding, &t->u.sliding, n);
			break;
		case METER_RETRIES:
			retry_take(&m->u.retries, &t->u.retries, n);
			break;
	}
}

/* See meter.h. */
void
meter_first(Meter *m, MeterTake *t, int64_t n)
{
	if (m->shape == METER_RETRIES)
		retry_first(&m->u.retries, &t->u.retries, n);
}

/* See meter.h. */
void
meter_take_return(Meter *m, MeterTake *t, int64_t n)
{
	switch ((MeterShape) m->shape)
	{
		case METER_BUCKET:
		case METER_PACED:
			bucket_take_return(&m->u.bucket, &t->u.bucket, n);
			break;
		case METER_WINDOW:
			window_take_return(&m->u.window, &t->u.window, n);
			break;
		case METER_SLIDING:
			sliding_take_return(&m->u.sliding, &t->u.sliding, n);
			break;
		case METER_RETRIES:
			retry_take_return(&m->u.retries, &t->u.retries, n);
			break;
	}
}

/* See meter.h. */
bool
meter_is_full(const Meter *m)
{
	switch ((MeterShape) m->shape)
	{
		case METER_BUCKET:
		case METER_PACED:
			return bucket_is_full(&m->u.bucket);
		case METER_WINDOW:
			return window_is_full(&m->u.window);
		case METER_SLIDING:
			return sliding_is_full(&m->u.sliding);
		case METER_RETRIES:
			return retry_is_full(&m->u.retries);
	}
	return false;
}

/* See meter.h. */
void
meter_shift(Meter *m, int64_t by_ns)
{
	switch ((MeterShape) m->shape)
	{
		case METER_BUCKET:
		case METER_PACED:
			m->u.bucket.settled_ns += by_ns;
			break;
		case METER_WINDOW:
			window_shift(&m->u.window, by_ns);
			break;
		case METER_SLIDING:
			sliding_shift(&m->u.sliding, by_ns);
			break;
		case METER_RETRIES:
			retry_shift(&m->u.retries, by_ns);
			break;
	}
}

/* See meter.h. */
int64_t
meter_settled(const Meter *m)
{
	switch ((MeterShape) m->shape)
	{
		case METER_BUCKET:
		case METER_PACED:
			return m->u.bucket.settled_ns;
		case METER_WINDOW:
			return m->u.window.settled_ns;
		case METER_SLIDING:
			return m->u.sliding.settled_ns;
		case METER_RETRIES:
			return m->u.retries.settled_ns;
	}
	return 0;
}
