/*
 * portion.c
 *		Fair portions of one limit: who may take of it now, of tenants that all ask
 *		whenever they like.
 *
 * There is no queue: whoever is refused goes away, and nobody knows whether it will
 * come back.  Two things are kept of a tenant that asks.
 *
 * ITS SHARE.  The limit's rate is divided among the tenants that asked within the
 * window, by weight: share_now says what one of weight 1 has been due so far.  A
 * tenant with used <= share_now is within its share and may take the last unit.
 * Any other is over it: it may take as well, but while others want theirs it leaves
 * the reserve (trunk reservation: one comparison).  So the limit never holds less
 * than the reserve for those whose turn comes, and nothing is left unused, as a
 * limit that holds the reserve refills as fast as an empty one.
 *
 *	Who asks for the first time, or for the first time within the window, may take
 *	one call at once.  Who asks for less than its share saves it up, but all
 *	together no more than "ahead".  Taking over the share is no debt.
 *
 *	Those who are within their share may all come at once, and more of them than the
 *	limit holds calls.  So who was served since it became active leaves one call to
 *	who was not: one that wakes finds it, unless another one woke within the time in
 *	which a call refills.  A limit that holds less than three calls can't do that.
 *	What is left of a fixed window does not refill, so there nobody does it.
 *
 *	A lone tenant may have drained the limit, and then nobody would be refused for
 *	lack of anything but the rate.  So shares grow by no more than 7/8 of the rate
 *	while the limit holds less than the reserve.
 *
 * ITS TURN.  What is over is divided again, by start-time fair queueing (fair.h):
 * who is served moves on by cost over weight, who has been away joins at turn_now, the turn
 * of who is first of those that wait.
 * Who is refused leaves a claim until it asks again or the window is over.  A call
 * leaves as much as all claims of a lesser turn ask for.  So it does not matter who
 * asks more often.
 *
 *	That does not fit a limit that holds too little, one call at worst.  There it
 *	acts in time: nobody is served while one whose turn is sooner was refused within
 *	the time in which the limit refills by this call.  A slow tenant's claim costs
 *	that time at most, unless the limit is full by then.
 *
 *	Those who are within their share are ordered by turn as well: their shares may
 *	have been saved up while they were away.
 *
 * Nobody else has been refused within the window: then shares say nothing, and a
 * lone tenant gets everything, all that the limit holds included.  Whoever wakes
 * then finds it as empty as it is.
 *
 * Calls in flight: portion_flight.c.
 *
 * What limits the error: times are in whole nanoseconds, shares in 2^-48 units for
 * a weight of 1, and what a division leaves is carried.
 */
#include "portion.h"

#include "portion_active.h"
#include "portion_claims.h"

#include <stddef.h>

/* More than any limit refills by within a window is no limit. */
#define EARNED_MAX ((fair_time) 1 << 60)

/* Shares grow by so many eighths of the rate while there is less than the reserve. */
#define GUARANTEED 7

/* See next_turn(). */
#define LEAD_MOST 4

/* ---- shares ---- */

/* Shares grow up to an instant. */
static void
grow(Portions *ps, BucketRate rate, bool scarce, int64_t now_ns)
{
	fair_time	total;
	fair_time	earned;

	if (now_ns <= ps->settled_ns)
		return;
	total = (fair_time) rate.num * (now_ns - ps->settled_ns);
	ps->settled_ns = now_ns;
	if (ps->weight <= 0)
		return;
	earned = total / rate.den;
	earned = earned >= EARNED_MAX ? EARNED_MAX * PORTION_SCALE
		: earned * PORTION_SCALE + total % rate.den * PORTION_SCALE / rate.den;
	earned = scarce ? earned / 8 * GUARANTEED : earned;
	earned += ps->carry;
	ps->share_now += earned / ps->weight;
	ps->carry = earned % ps->weight;
}

/* Brings it to now; level is what the limit holds. */
void
portions_settle(Portions *ps, const PortionRules *rules, BucketRate rate,
				int64_t level, int64_t now_ns)
{
	bool		scarce = level < rules->reserve;

	while (ps->oldest != NULL &&
		   now_ns - ps->oldest->asked_ns >= rules->window_ns)
	{
		grow(ps, rate, scarce, ps->oldest->asked_ns + rules->window_ns);
		if (ps->oldest->waits > 0)
			portions_renew(ps, ps->oldest, now_ns);
		else
			portions_leave(ps, ps->oldest);
	}
	grow(ps, rate, scarce, now_ns);
}

/* Share used, as far as it still counts: not all that was left unused does. */
static fair_time
share_used(const Portions *ps, const Portion *p, int64_t weight_milli,
		   const PortionRules *rules, int64_t cost)
{
	fair_time	saved = by_weight(rules->ahead, portions_weight(ps, p, weight_milli)) -
		by_weight(cost, weight_milli);
	fair_time	least = ps->share_now - (saved > 0 ? saved : 0);

	if (p == NULL || (!p->weighs && p->used < ps->share_now))
		return ps->share_now;
	return p->used < least ? least : p->used;
}

/* How far n calls of it are over its share; not positive: they are within. */
static fair_time
over_share(const Portions *ps, const Portion *p, int64_t weight_milli,
		   const PortionRules *rules, int64_t cost, int64_t n)
{
	return share_used(ps, p, weight_milli, rules, cost) +
		by_weight(cost * (n - 1), weight_milli) - ps->share_now;
}

/* So many calls of it are within its share. */
static int64_t
calls_within(const Portions *ps, const Portion *p, int64_t weight_milli,
			 const PortionRules *rules, int64_t cost)
{
	fair_time	left = -over_share(ps, p, weight_milli, rules, cost, 1);
	fair_time	more = left / by_weight(cost, weight_milli);

	if (left < 0)
		return 0;
	return more < INT64_MAX ? (int64_t) more + 1 : INT64_MAX;
}

/* ---- turns ---- */

/* Claims of those whose turn is sooner; who has been passed joins at turn_now. */
static ClaimsBefore
sooner(const Portions *ps, const Portion *p)
{
	ClaimsBefore none = {0, 0, INT64_MIN};

	return p == NULL || p->turn <= ps->turn_now ? none
		: claims_before(ps, p->turn);
}

/*
 * The turn of who is first, of a call and the claims made within the time in which
 * the limit refills by all of them: whoever could use its share asks as often.
 */
static fair_time
first_turn(const Portions *ps, const Portion *p, BucketRate rate, int64_t cost,
		   int64_t now_ns)
{
	fair_time	turn = portions_turn(ps, p);
	int64_t		round_ns;
	const Portion *first;

	if (ps->claims == NULL)
		return turn;
	round_ns = portion_refill_ns(rate, ps->claims->sum + cost);
	first = claims_soonest(ps, now_ns - round_ns - 1);
	return first == NULL || first == p || first->turn > turn ? turn : first->turn;
}

/* See portion.h. */
int64_t
portion_refill_ns(BucketRate rate, int64_t units)
{
	int64_t		ns = bucket_refill_ns(rate, units);

	return ns < INT64_MAX / 4 ? ns : INT64_MAX / 4;
}

/* ---- asking, for a rate ---- */

/* The later of two instants. */
static int64_t
later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/*
 * The stand of n calls that must leave the reserve, or need not.  A limit that is
 * full refills no more, so one call less than that is as much as anybody must leave.
 */
static PortionStand
stand(const Portions *ps, const Portion *p, int64_t reserve, BucketRate rate,
	  int64_t capacity, int64_t cost, int64_t n, int64_t now_ns)
{
	PortionStand s = {.leave = reserve, .until_ns = INT64_MIN};
	ClaimsBefore before = sooner(ps, p);
	int64_t		room = capacity - cost * (n + 1);

	room = room > 0 ? room : 0;
	s.leave += before.units;
	if (s.leave <= room)
		return s;
	s.leave = room;
	if (before.newest_ns != INT64_MIN)
		s.until_ns = before.newest_ns + portion_refill_ns(rate, cost) + 1;
	/* those that wait will come for all of it */
	if (before.lasting > 0)
		s.until_ns = later(s.until_ns,
						   now_ns + portion_refill_ns(rate, before.lasting) + 1);
	if (s.until_ns <= now_ns)
		s.until_ns = INT64_MIN;
	return s;
}

/* What who is within its share leaves to those that wake. */
static int64_t
spare(const Portion *p, const PortionRules *rules, int64_t cost)
{
	if (p == NULL || !p->served || !rules->spares)
		return 0;
	return cost < rules->reserve ? cost : rules->reserve;
}

/* See portion.h. */
PortionStand
portion_stand(const Portions *ps, const Portion *p, int64_t weight_milli,
			  const PortionRules *rules, BucketRate rate, int64_t capacity,
			  int64_t cost, int64_t n, int64_t now_ns)
{
	bool		wanted = portions_refused_ns(ps, p, rules->window_ns, now_ns) != INT64_MIN;
	int64_t		within = wanted
		? calls_within(ps, p, weight_milli, rules, cost) : INT64_MAX;
	bool		over = n > within;
	PortionStand s = stand(ps, p, over ? rules->reserve
						   : wanted ? spare(p, rules, cost) : 0, rate, capacity, cost,
						   n, now_ns);

	s.over = over;
	s.within = within;
	s.share = portions_share(ps, p, weight_milli);
	s.first = first_turn(ps, p, rate, cost, now_ns);
	return s;
}

/* See portion.h. */
int64_t
portion_leave_over(const Portions *ps, const Portion *p, const PortionRules *rules,
				   BucketRate rate, int64_t capacity, int64_t cost, int64_t n,
				   int64_t now_ns)
{
	return stand(ps, p, rules->reserve, rate, capacity, cost, n, now_ns).leave;
}

/* Until n calls fit that leave so much, and s allows; "from" ns from now at least. */
static int64_t
wait_from(const PortionStand *s, const Meter *meter, int64_t cost, int64_t n,
		  int64_t leave_units, int64_t from, int64_t now_ns)
{
	int64_t		wait = meter_wait(meter, cost, n, s->leave > leave_units
								  ? s->leave : leave_units);

	if (s->until_ns != INT64_MIN && s->until_ns - now_ns > from)
		from = s->until_ns - now_ns;
	return wait > from ? wait : from;
}

/* Until it is within its share, at the latest. */
static int64_t
share_wait(fair_time over, int64_t weight, BucketRate rate)
{
	double		ns;

	if (rate.num == 0)
		return BUCKET_NEVER;
	ns = (double) over / (double) PORTION_SCALE * (double) weight *
		(double) rate.den / (double) rate.num * 8 / GUARANTEED;
	ns = ns * (1 + 1e-9) + 1;
	return ns < (double) (INT64_MAX / 4) ? (int64_t) ns + 1 : BUCKET_NEVER;
}

/* See portion.h. */
int64_t
portion_wait(const Portions *ps, const Portion *p, int64_t weight_milli,
			 const PortionRules *rules, const Meter *meter, BucketRate rate,
			 int64_t capacity, int64_t cost, int64_t n, int64_t leave_units,
			 int64_t now_ns)
{
	fair_time	over = over_share(ps, p, weight_milli, rules, cost, n);
	int64_t		others_ns = portions_refused_ns(ps, p, rules->window_ns, now_ns);
	PortionStand within = stand(ps, p, others_ns == INT64_MIN ? 0
								: spare(p, rules, cost), rate, capacity, cost, n,
								now_ns);
	PortionStand beyond = stand(ps, p, rules->reserve, rate, capacity, cost, n,
								now_ns);
	int64_t		from = 0;
	int64_t		wait;
	int64_t		other;

	if (over > 0 && others_ns != INT64_MIN)
	{
		/* it comes within its share, or nobody else wants theirs any more */
		from = share_wait(over, portions_weight(ps, p, weight_milli), rate);
		other = others_ns + rules->window_ns - now_ns;
		from = from < other ? from : other;
	}
	wait = wait_from(&within, meter, cost, n, leave_units, from, now_ns);
	other = wait_from(&beyond, meter, cost, n, leave_units, 0, now_ns);
	return wait < other ? wait : other;
}

/* See portion.h. */
void
portion_refuse(Portions *ps, Portion *p, int64_t weight_milli, int64_t units,
			   int64_t now_ns)
{
	portions_ask(ps, p, weight_milli, now_ns);
	p->turn = portions_turn(ps, p);
	portions_claim(ps, p, units, now_ns);
	portions_note_refused(ps, p, now_ns);
}

/*
 * The turn after one that is used.  Who is served although others are before it
 * uses what it saved of its share, or what they leave: it owes them no more for that
 * than LEAD_MOST calls.
 */
static fair_time
next_turn(const Portions *ps, fair_time turn, fair_time service, bool out_of_turn)
{
	fair_time	most = ps->turn_now + LEAD_MOST * service;

	if (!out_of_turn || turn + service <= most)
		return turn + service;
	return turn > most ? turn : most;
}

/* See portion.h. */
void
portion_take(Portions *ps, Portion *p, int64_t weight_milli,
			 const PortionRules *rules, const PortionStand *s, int64_t cost,
			 int64_t n, int64_t now_ns)
{
	fair_time	turn = portions_turn(ps, p);
	fair_time	used;
	int64_t		within;

	portions_ask(ps, p, weight_milli, now_ns);
	used = share_used(ps, p, weight_milli, rules, cost);
	within = calls_within(ps, p, weight_milli, rules, cost);
	p->served = true;
	p->used = used + by_weight(cost * (n < within ? n : within), weight_milli);
	if (s->first > ps->turn_now)
		ps->turn_now = s->first;
	p->turn = next_turn(ps, turn, by_weight(cost * n, weight_milli), s->first < turn);
	portions_claim(ps, p, 0, now_ns);
}

/*
 * See portion.h.  Of the share that was used nothing is given back: it is less than
 * was asked for at once, and grows back.
 */
void
portion_return(Portions *ps, Portion *p, int64_t units)
{
	bool		claimed = p->claims;
	int64_t		claim = p->claim;
	int64_t		claim_ns = p->claim_ns;

	claims_remove(ps, p);
	p->turn -= by_weight(units, p->weight_milli);
	if (claimed)
		claims_add(ps, p, claim, claim_ns);
}
