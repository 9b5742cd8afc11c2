/*
 * window.h
 *		Fixed windows: so many units in each, and all of them anew in the next.
 *		Pure, like bucket.h.
 *
 * Windows begin where the wall clock says: at the anchor and every period before
 * and after it.  A window that has begun ends by the monotonic clock, when as much
 * of that has passed as was missing to the border (G12).  So steps of the wall
 * clock act on the next window only, and they make it longer, never shorter: a
 * window ends a period or more after the one before has, at the first border that
 * allows it, hence less than two periods after.  Only a border that is early by
 * no more than WINDOW_JITTER_NS (of a short period: an eighth of it) does not
 * count as a step, as the two clocks can't be read at the same instant: the window
 * then lasts just a period.
 *
 * The bound (G1): no window admits more than the highest capacity in force in it;
 * so an interval of length d admits at most capacity x the number of windows it
 * touches, which is not above d / period, rounded down, plus 2.
 *
 * A change of capacity keeps what was taken.  A change of period or anchor keeps it
 * too, and the beginning of the window: the window ends at the first border of the
 * new rules that is at least a new period after it began, so that each window
 * lasts at least the period in force at its end, whatever is changed how often.
 */
#ifndef QUOTA_WINDOW_H
#define QUOTA_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#define WINDOW_JITTER_NS	INT64_C(100000000)

typedef struct Window
{
	int64_t		capacity;		/* units of each window, >= 0 */
	int64_t		period_ns;		/* >= 1 */
	int64_t		anchor_us;		/* a border by the wall clock */
	int64_t		used;			/* taken in this window, >= 0 */
	int64_t		begin_ns;		/* it lasts from here, */
	int64_t		end_ns;			/* to before here */
	int64_t		settled_ns;
	int64_t		number;			/* rises with every window */
	bool		fresh;			/* nothing was taken for a period before it */
} Window;

/* What was taken and may have to be returned, of one window; all zero: nothing. */
typedef struct WindowTake
{
	int64_t		n;
	int64_t		number;			/* the window's */
} WindowTake;

extern void window_init_full(Window *w, int64_t capacity, int64_t period_ns,
							 int64_t anchor_us, int64_t now_ns,
							 int64_t wall_us);
/* A window that may have begun before that instant counts as used up. */
extern void window_init_drained(Window *w, int64_t capacity,
								int64_t period_ns, int64_t anchor_us,
								int64_t drained_ns, int64_t now_ns,
								int64_t wall_us);
extern void window_settle(Window *w, int64_t now_ns, int64_t wall_us);
extern void window_configure(Window *w, int64_t capacity, int64_t period_ns,
							 int64_t anchor_us, int64_t switch_ns,
							 int64_t now_ns, int64_t wall_us);
extern int64_t window_level(const Window *w);
extern int64_t window_wait(const Window *w, int64_t n);
extern int64_t window_drain(const Window *w, int64_t n);
extern bool window_take_joins(const Window *w, const WindowTake *t);
extern void window_take(Window *w, WindowTake *t, int64_t n);
extern void window_take_return(Window *w, WindowTake *t, int64_t n);
extern void window_shift(Window *w, int64_t by_ns);
extern bool window_is_full(const Window *w);

#endif							/* QUOTA_WINDOW_H */
