/*
 * portion_wait.c
 *		When calls of a rate that were refused for the sake of others are admitted, if
 *		nobody asks meanwhile: asked then they are, a nanosecond before they are not.
 *
 * Nothing but time passes until then.  So what portion_stand() would say can be told
 * of any instant, in stretches within which it changes in one direction only: shares
 * grow, the limit refills, the reserve of a window shrinks, so calls that are admitted
 * in a stretch are so to its end.  A stretch ends when
 *
 *	- somebody who has not asked within the active window leaves: the shares of the
 *	  others grow faster, and its claim is gone;
 *	- nobody was refused within the active window any more, so that shares say nothing;
 *	- a window of the meter ends: what it holds and its reserve are whole again.
 *
 * In each stretch the first instant is calculated at which the calls are within their
 * share and fit, or fit with the reserve left, whichever is sooner; the first stretch
 * in which there is one has the answer.
 *
 * For that the shares must be at any instant what they would be had nobody looked in
 * between.  They grow slower until the limit holds the reserve; so the instant of that
 * is kept in Portions.ample_ns, by which they grow until something is taken.
 *
 * LIMITS.  Of those who leave the first LEAVE_MOST are looked at, so that a refusal's
 * cost is bounded; from there on it is told at the latest, as if the others kept their
 * shares, and their claims until the last of them lapses.  A session that waits will
 * come as well: where what waiting sessions of sooner turns claim keeps calls, they are
 * told when that has refilled, which is a guess.  The next window of the meter is that
 * which begins if the wall clock is not set meanwhile.
 */
#include "portion_active.h"

#include <stddef.h>

/* See the file's head. */
#define LEAVE_MOST 32

/* Windows of the meter that end before calls are admitted; see first_beyond(). */
#define WINDOWS_MOST 2

/* What will be at an instant, which is ps.settled_ns. */
typedef struct Outlook
{
	const PortionCall *call;
	const Portion *caller;		/* as it is, NULL = it has nothing yet */
	Portion		self;			/* and as it will be; in no list */
	Portions	ps;				/* but for what it points to */
	int64_t		ample_ns;
	ClaimsBefore before;
	int64_t		wanted_ns;		/* others want their share until then */
	const Portion *next;		/* who leaves next */
	int			left;			/* so many have left */
	const Meter *meter;
	Meter		later;			/* it, in a later window */
	int64_t		fits_ns;		/* whatever others want, the calls don't before that */
	PortionRules rules;
	int			windows;		/* so many have ended */
} Outlook;

/* ---- arithmetic ---- */

/* The later one, and the sooner one, of two instants. */
static int64_t
later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t
sooner(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* An instant that long after another one, at most INT64_MAX. */
static int64_t
after(int64_t at_ns, fair_time wait_ns)
{
	return wait_ns > INT64_MAX - at_ns ? INT64_MAX : at_ns + (int64_t) wait_ns;
}

/* a / b, rounded up; b is positive. */
static fair_time
divide_up(fair_time a, fair_time b)
{
	return a > 0 ? (a + b - 1) / b : a / b;
}

/* When a share that grows by so many eighths of the rate has grown to this: grow(). */
static int64_t
grown_ns(const Portions *ps, BucketRate rate, int eighths, fair_time share)
{
	fair_time	need;			/* of earned there, in 1/PORTION_SCALE units */
	fair_time	units;
	fair_time	rest;

	if (share <= ps->share_now)
		return ps->settled_ns;
	if (rate.num == 0 || ps->weight <= 0 ||
		__builtin_mul_overflow(share - ps->share_now, 8 * (fair_time) ps->weight, &need))
		return INT64_MAX;
	need = divide_up(need - ps->carry, eighths);
	units = need / PORTION_SCALE;
	if (units >= (fair_time) 1 << 60)
		return INT64_MAX;
	rest = (need - units * PORTION_SCALE) * rate.den - portions_part(ps, rate);
	return after(ps->settled_ns,
				 divide_up(units * rate.den + divide_up(rest, PORTION_SCALE), rate.num));
}

/* When the window's reserve has shrunk to so many units; INT64_MAX if there is none. */
static int64_t
shrunk_ns(const PortionRules *rules, int64_t units)
{
	int64_t		length_ns = rules->ends_ns - rules->begins_ns;

	if (length_ns <= 0 || units < 0)
		return INT64_MAX;
	if (units >= rules->whole)
		return rules->begins_ns;
	return rules->ends_ns - (int64_t) ((fair_time) units * length_ns / rules->whole);
}

/* When calls fit that leave so much. */
static int64_t
fit_ns(const Meter *meter, int64_t cost, int64_t n, int64_t leave)
{
	int64_t		wait = meter_wait(meter, cost, n, leave);

	return wait == 0 ? INT64_MIN : wait == BUCKET_NEVER ? INT64_MAX
		: after(meter_settled(meter), wait);
}

/* When the limit holds its reserve. */
static int64_t
holds_reserve_ns(const PortionCall *call)
{
	int64_t		level = meter_level(call->meter);

	if (level >= call->rules->reserve)
		return INT64_MIN;
	return sooner(shrunk_ns(call->rules, level),
				  fit_ns(call->meter, 1, call->rules->whole, 0));
}

/* Nobody else is to have any of the limit, nor will want it before the calls fit. */
static bool
is_alone(const Portions *ps, const Portion *p, const PortionCall *call)
{
	return call->rules->ends_ns == 0 &&
		portions_refused_ns(ps, p, call->rules->window_ns, call->now_ns) == INT64_MIN &&
		portions_sooner(ps, p).units == 0;
}

/* ---- what comes ---- */

/* When it leaves unless it asks; it is listed. */
static int64_t
leaves_ns(const Outlook *o, const Portion *p)
{
	return after(p->asked_ns, o->rules.window_ns);
}

/* Past those who don't leave, as they wait, and past the caller. */
static const Portion *
leaving(const Outlook *o, const Portion *p)
{
	while (p != NULL && (p->waits > 0 || p == o->caller))
		p = p->newer;
	return p;
}

/* When the caller leaves, INT64_MAX if it does not. */
static int64_t
caller_leaves_ns(const Outlook *o)
{
	return o->self.listed && o->self.waits == 0 ? leaves_ns(o, &o->self) : INT64_MAX;
}

/* What is now, and as if the call had been refused. */
static void
look(Outlook *o, Portions *ps, const Portion *p, const PortionCall *call)
{
	int64_t		others_ns = portions_refused_ns(ps, p, call->rules->window_ns,
												call->now_ns);
	bool		waited_for = ps->waiting > (p != NULL && p->waits > 0);

	*o = (Outlook) {.call = call, .caller = p, .ps = *ps};
	if (p != NULL)
		o->self = *p;
	if (call->asks)
	{
		if (!o->self.weighs && o->self.used < ps->share_now)
			o->self.used = ps->share_now;
		o->ps.weight = portions_weight(ps, p, call->weight_milli);
		o->self.weight_milli = call->weight_milli;
		o->self.weighs = o->self.listed = true;
		o->self.asked_ns = call->now_ns;
	}
	o->rules = *call->rules;
	o->meter = call->meter;
	o->fits_ns = fit_ns(o->meter, call->cost, call->n, call->leave);
	o->ample_ns = ps->ample_ns;
	o->before = portions_sooner(ps, p);
	o->wanted_ns = waited_for ? INT64_MAX : others_ns == INT64_MIN ? INT64_MIN
		: after(others_ns, o->rules.window_ns);
	o->next = leaving(o, ps->oldest);
}

/* The next one leaves. */
static void
leave(Outlook *o)
{
	const Portion *p = o->next;

	o->next = leaving(o, p->newer);
	o->left++;
	if (p->weighs && p->in_flight == 0)
		o->ps.weight -= p->weight_milli;
	if (!p->claims || o->before.units == 0 || p->turn >= o->self.turn)
		return;
	o->before.units -= p->claim;
}

/* When the last of the claims before it lapses; INT64_MAX: there is none that does. */
static int64_t
claims_lapse_ns(const Outlook *o)
{
	return o->before.newest_ns == INT64_MIN ? INT64_MAX
		: after(o->before.newest_ns, o->rules.window_ns);
}

/* So does the caller. */
static void
leave_itself(Outlook *o)
{
	o->ps.weight -= o->self.weight_milli;
	o->self.listed = o->self.weighs = o->self.served = false;
}

/* The next window of the meter begins: whole, and of those after the next no more is told. */
static void
open_window(Outlook *o)
{
	int64_t		begins_ns = o->rules.ends_ns;

	if (o->windows++ == 0)
		o->later = *o->meter;
	o->meter = &o->later;
	meter_settle(&o->later, begins_ns,
				 o->call->wall_us + (begins_ns - o->call->now_ns) / 1000);
	portion_rules_at(&o->rules, &o->later, begins_ns);
	if (o->windows == WINDOWS_MOST)
		o->rules.begins_ns = o->rules.ends_ns = 0;
}

/* When the stretch ends that begins at o->ps.settled_ns. */
static int64_t
stretch_end(const Outlook *o)
{
	int64_t		end_ns = INT64_MAX;

	if (o->rules.ends_ns > 0)
		end_ns = o->rules.ends_ns;
	if (o->wanted_ns > o->ps.settled_ns)
		end_ns = sooner(end_ns, o->wanted_ns);
	if (o->left < LEAVE_MOST && o->next != NULL)
		end_ns = sooner(end_ns, leaves_ns(o, o->next));
	return sooner(end_ns, sooner(claims_lapse_ns(o), caller_leaves_ns(o)));
}

/* On to its end. */
static void
pass(Outlook *o, int64_t end_ns)
{
	portions_grow(&o->ps, o->call->rate, o->ample_ns, end_ns);
	while (o->left < LEAVE_MOST && o->next != NULL && leaves_ns(o, o->next) <= end_ns)
		leave(o);
	if (claims_lapse_ns(o) <= end_ns)
	{
		o->before.units = o->before.lasting;
		o->before.newest_ns = INT64_MIN;
	}
	if (caller_leaves_ns(o) <= end_ns)
		leave_itself(o);
	if (o->rules.ends_ns > 0 && end_ns >= o->rules.ends_ns)
		open_window(o);
}

/* ---- within a stretch ---- */

/* When the last of the calls is within its share; INT64_MAX: not while this lasts. */
static int64_t
share_ns(const Outlook *o)
{
	const PortionCall *call = o->call;
	const Portion *self = &o->self;
	fair_time	more = by_weight(call->cost * (call->n - 1), call->weight_milli);
	fair_time	share = self->used + more;
	Portions	ample;
	int64_t		grown;

	/* more calls than it can have saved up for are never within it */
	if (more > (!self->weighs ? 0 :
				portions_saved(&o->ps, self, call->weight_milli, &o->rules, call->cost)))
		return INT64_MAX;
	grown = grown_ns(&o->ps, call->rate, PORTION_GUARANTEED, share);
	if (grown <= o->ample_ns)
		return grown;
	ample = o->ps;
	portions_grow(&ample, call->rate, o->ample_ns, o->ample_ns);
	return grown_ns(&ample, call->rate, 8, share);
}

/* When the calls fit that leave so much, and are let go. */
static int64_t
free_ns(const Outlook *o, int64_t reserve)
{
	const PortionCall *call = o->call;
	PortionStand s = portions_stand(&o->before, reserve, call->rate, call->capacity,
									call->cost, call->n, call->now_ns);

	return later(s.until_ns, fit_ns(o->meter, call->cost, call->n,
									s.leave > call->leave ? s.leave : call->leave));
}

/* When they are within their share, and fit. */
static int64_t
first_within(const Outlook *o)
{
	if (o->ps.settled_ns >= o->wanted_ns)
		return free_ns(o, 0);
	return later(share_ns(o),
				 free_ns(o, portions_spare(&o->self, &o->rules, o->call->cost)));
}

/*
 * When they fit with the reserve left: the whole one, or as much as anybody must leave;
 * or what it has shrunk to, besides what is claimed before them.  At the second end of a
 * window at the latest, as claims that act in time do so for one refill of a call.
 */
static int64_t
first_beyond(const Outlook *o)
{
	const PortionCall *call = o->call;
	int64_t		behind = meter_level(o->meter) - call->cost * call->n;
	int64_t		most = portions_most_left(call->capacity, call->cost, call->n);
	int64_t		whole_ns = free_ns(o, o->rules.whole);

	if (behind < call->leave)
		return whole_ns;
	return sooner(whole_ns, shrunk_ns(&o->rules, sooner(behind, most) -
									  o->before.units));
}

/* The first instant of the stretch from which on they are admitted. */
static int64_t
first_ns(const Outlook *o)
{
	return later(later(o->ps.settled_ns, o->call->from_ns),
				 sooner(first_within(o), first_beyond(o)));
}

/* The first instant of all stretches; INT64_MAX: they never are. */
static int64_t
first_of_all(Portions *ps, const Portion *p, const PortionCall *call)
{
	Outlook		o;
	int64_t		end_ns;
	int64_t		at_ns;

	look(&o, ps, p, call);
	for (;;)
	{
		end_ns = stretch_end(&o);
		at_ns = o.fits_ns < end_ns ? first_ns(&o) : INT64_MAX;
		if (at_ns < end_ns || end_ns == INT64_MAX)
			return at_ns;
		pass(&o, end_ns);
	}
}

/* See portion.h. */
int64_t
portion_wait(Portions *ps, const Portion *p, const PortionCall *call)
{
	int64_t		at_ns;
	int64_t		ample_ns = holds_reserve_ns(call);

	ps->ample_ns = ample_ns > call->now_ns ? ample_ns : PORTION_UNKNOWN;
	at_ns = is_alone(ps, p, call)
		? later(call->from_ns, fit_ns(call->meter, call->cost, call->n, call->leave))
		: first_of_all(ps, p, call);
	return at_ns == INT64_MAX ? BUCKET_NEVER
		: at_ns > call->now_ns ? at_ns - call->now_ns : 0;
}
