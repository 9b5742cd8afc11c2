/*
 * window.c
 *		Fixed windows: see window.h for what they promise, and meter.h for what each
 *		function does.
 *
 * Why no two windows are within one period: place() never lets a window end
 * sooner than a period after it began, and one that follows begins no sooner than
 * the one before ended.
 */
#include "window.h"

#include "bucket.h"
#include "wide.h"

#ifdef QUOTA_UNIT
#include <assert.h>
#define WINDOW_ASSERT(cond) assert(cond)
#else
#define WINDOW_ASSERT(cond) ((void) 0)
#endif

/* Of a clock that read early: what still is the same border. */
static int64_t
tolerance(int64_t period_ns)
{
	return period_ns / 8 < WINDOW_JITTER_NS ? period_ns / 8 : WINDOW_JITTER_NS;
}

/* How long ago the last border was, by the wall clock in nanoseconds. */
static int64_t
since_border(const Window *w, wide wall_ns)
{
	wide		since = (wall_ns - (wide) w->anchor_us * 1000) % w->period_ns;

	return (int64_t) (since < 0 ? since + w->period_ns : since);
}

/*
 * Says when the window ends that has begun: at the first border after now, or
 * after the next period if it would be shorter than one.
 */
static void
place(Window *w, int64_t now_ns, wide wall_ns)
{
	wide		least = (wide) w->begin_ns + w->period_ns;
	wide		border = (wide) now_ns - since_border(w, wall_ns) + w->period_ns;

	if (border < least - tolerance(w->period_ns))
		border += w->period_ns;
	w->end_ns = wide_clamp(border > least ? border : least);
	WINDOW_ASSERT(w->begin_ns <= now_ns);
	WINDOW_ASSERT(w->end_ns > now_ns || w->end_ns == INT64_MAX);
}

/* The next window, in which now is, begins. */
static void
open_next(Window *w, int64_t now_ns, wide wall_ns)
{
	wide		border = (wide) now_ns - since_border(w, wall_ns);

	w->fresh = w->used == 0 || (wide) w->end_ns + w->period_ns <= now_ns;
	w->used = 0;
	w->number++;
	w->begin_ns = border > w->end_ns ? (int64_t) border : w->end_ns;
	place(w, now_ns, wall_ns);
}

/* The same as window_settle(), with more of the wall clock. */
static void
settle(Window *w, int64_t now_ns, wide wall_ns)
{
	if (now_ns <= w->settled_ns)
		return;
	w->settled_ns = now_ns;
	if (now_ns >= w->end_ns && w->end_ns < INT64_MAX)
		open_next(w, now_ns, wall_ns);
}

/* Nothing taken yet of the window that the wall clock says. */
void
window_init_full(Window *w, int64_t capacity, int64_t period_ns,
				 int64_t anchor_us, int64_t now_ns, int64_t wall_us)
{
	Window		fresh = {0};

	fresh.capacity = capacity;
	fresh.period_ns = period_ns;
	fresh.anchor_us = anchor_us;
	fresh.settled_ns = now_ns;
	fresh.number = 1;
	fresh.fresh = true;
	fresh.begin_ns = wide_clamp((wide) now_ns -
								since_border(&fresh, (wide) wall_us * 1000));
	*w = fresh;
	place(w, now_ns, (wide) wall_us * 1000);
}

/* See window.h. */
void
window_init_drained(Window *w, int64_t capacity, int64_t period_ns,
					int64_t anchor_us, int64_t drained_ns, int64_t now_ns,
					int64_t wall_us)
{
	window_init_full(w, capacity, period_ns, anchor_us, now_ns, wall_us);
	if (drained_ns > w->begin_ns)
		w->used = capacity;
	w->fresh = (wide) w->begin_ns - drained_ns >= period_ns;
}

/* Lets windows end and begin up to now; a clock that went back changes nothing. */
void
window_settle(Window *w, int64_t now_ns, int64_t wall_us)
{
	settle(w, now_ns, (wide) wall_us * 1000);
}

/* See meter.h: what becomes of the present window is told in window.h. */
void
window_configure(Window *w, int64_t capacity, int64_t period_ns,
				 int64_t anchor_us, int64_t switch_ns, int64_t now_ns,
				 int64_t wall_us)
{
	wide		wall_ns = (wide) wall_us * 1000;

	if (period_ns != w->period_ns || anchor_us != w->anchor_us)
	{
		if (switch_ns > now_ns)
			switch_ns = now_ns;
		if (switch_ns < w->settled_ns)
			switch_ns = w->settled_ns;
		wall_ns -= (wide) now_ns - switch_ns;
		settle(w, switch_ns, wall_ns);
		w->period_ns = period_ns;
		w->anchor_us = anchor_us;
		place(w, switch_ns, wall_ns);
	}
	w->capacity = capacity;
	window_settle(w, now_ns, wall_us);
}

/* Units left of the window; negative: more was taken. */
int64_t
window_level(const Window *w)
{
	return w->capacity - w->used;
}

/* Until n units are left at once. */
int64_t
window_wait(const Window *w, int64_t n)
{
	if (n <= window_level(w) || n <= 0)
		return 0;
	if (n > w->capacity || w->end_ns == INT64_MAX)
		return BUCKET_NEVER;
	return wide_clamp((wide) w->end_ns - w->settled_ns);
}

/* Until n units have been taken, each as soon as it is there. */
int64_t
window_drain(const Window *w, int64_t n)
{
	int64_t		level = window_level(w);
	int64_t		windows;

	if (n <= 0 || n <= level)
		return 0;
	if (w->capacity == 0)
		return BUCKET_NEVER;
	n -= level > 0 ? level : 0;
	windows = n / w->capacity + (n % w->capacity > 0);
	return wide_clamp((wide) w->end_ns - w->settled_ns +
					  (wide) (windows - 1) * w->period_ns);
}

/* Is t of this window, or of none? */
bool
window_take_joins(const Window *w, const WindowTake *t)
{
	return t->n == 0 || t->number == w->number;
}

/* Takes n units, whether or not they are there, and notes it in t. */
void
window_take(Window *w, WindowTake *t, int64_t n)
{
	WINDOW_ASSERT(n >= 0 && window_take_joins(w, t));
	if (n > INT64_MAX - w->used)
		n = INT64_MAX - w->used;
	w->used += n;
	t->number = w->number;
	t->n += n;
}

/* Returns up to n units of t, if the window has not ended. */
void
window_take_return(Window *w, WindowTake *t, int64_t n)
{
	if (n > t->n)
		n = t->n;
	if (n <= 0)
		return;
	t->n -= n;
	if (t->number == w->number)
		w->used -= n;
	WINDOW_ASSERT(w->used >= 0);
}

/* Would a new one be the same, and never end too soon after one before? */
bool
window_is_full(const Window *w)
{
	return w->used == 0 && w->fresh;
}

/* See meter.h. */
void
window_shift(Window *w, int64_t by_ns)
{
	w->begin_ns += by_ns;
	if (w->end_ns != INT64_MAX)
		w->end_ns += by_ns;
	w->settled_ns += by_ns;
}
