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
 *	while the limit holds less than the reserve.  Whether it did is judged by what it
 *	holds when they are brought to now; or, once somebody was told when to come again
 *	(portion_wait.c), by the instant from which it will, until something is taken.
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
 * What nobody uses of a fixed window is lost, so there the reserve is for what is left
 * of it: it shrinks to nothing at the end.
 *
 * Calls in flight: portion_flight.c.  When who is refused may come: portion_wait.c.
 *
 * What limits the error: times are in whole nanoseconds, shares in 2^-48 units for
 * a weight of 1, and what a division leaves is carried.
 */
#include "portion.h"

#include "portion_active.h"
#include "portion_claims.h"
#include "wide.h"

#include <stddef.h>

/* More than any limit refills by within a window is no limit. */
#define EARNED_MAX ((fair_time) 1 << 60)

/* See next_turn(). */
#define LEAD_MOST 4

/* ---- shares ---- */

/* See portion.h. */
void
portion_rules_at(PortionRules *rules, const Meter *meter, int64_t now_ns)
{
	int64_t		begins_ns;
	int64_t		ends_ns;

	rules->reserve = rules->whole;
	rules->begins_ns = rules->ends_ns = 0;
	if (!meter_window(meter, &begins_ns, &ends_ns) || now_ns > ends_ns)
		return;
	rules->begins_ns = begins_ns;
	rules->ends_ns = ends_ns;
	rules->reserve = (int64_t)
		(((fair_time) rules->whole * (ends_ns - now_ns) + (ends_ns - begins_ns) - 1) /
		 (ends_ns - begins_ns));
}

/*
 * Shares grow by so many eighths of the rate, up to an instant.  What a division leaves
 * is carried, so that settling in between changes nothing.
 */
static void
grow(Portions *ps, BucketRate rate, int eighths, int64_t until_ns)
{
	fair_time	whole;
	fair_time	rest;
	int64_t		part;
	fair_time	earned;
	fair_time	each;

	if (until_ns <= ps->settled_ns)
		return;
	whole = wide_mul_div(until_ns - ps->settled_ns, rate.num, rate.den, &part);
	ps->settled_ns = until_ns;
	if (ps->weight <= 0)
		return;
	rest = part * PORTION_SCALE + portions_part(ps, rate);
	earned = rest / rate.den;
	ps->part = (int64_t) (rest - earned * rate.den);
	ps->part_den = rate.den;
	earned += (whole < EARNED_MAX ? whole : EARNED_MAX) * PORTION_SCALE;
	earned = earned * eighths + ps->carry;
	each = earned / (8 * (fair_time) ps->weight);
	ps->share_now += each;
	ps->carry = earned - each * 8 * ps->weight;
}

/* See portion_active.h. */
void
portions_grow(Portions *ps, BucketRate rate, int64_t ample_ns, int64_t until_ns)
{
	grow(ps, rate, PORTION_GUARANTEED, ample_ns < until_ns ? ample_ns : until_ns);
	grow(ps, rate, 8, until_ns);
}

/* Brings it to now; level is what the limit holds. */
void
portions_settle(Portions *ps, const PortionRules *rules, BucketRate rate,
				int64_t level, int64_t now_ns)
{
	int64_t		ample_ns = ps->ample_ns;

	if (ample_ns == PORTION_UNKNOWN)
		ample_ns = level < rules->reserve ? INT64_MAX : INT64_MIN;
	while (ps->oldest != NULL &&
		   now_ns - ps->oldest->asked_ns >= rules->window_ns)
	{
		portions_grow(ps, rate, ample_ns, ps->oldest->asked_ns + rules->window_ns);
		if (ps->oldest->waits > 0)
			portions_renew(ps, ps->oldest, now_ns);
		else
			portions_leave(ps, ps->oldest);
	}
	portions_grow(ps, rate, ample_ns, now_ns);
}

/* See portion_active.h. */
fair_time
portions_saved(const Portions *ps, const Portion *p, int64_t weight_milli,
			   const PortionRules *rules, int64_t cost)
{
	fair_time	saved = by_weight(rules->ahead, portions_weight(ps, p, weight_milli)) -
		by_weight(cost, weight_milli);

	return saved > 0 ? saved : 0;
}

/* Share used, as far as it still counts: not all that was left unused does. */
static fair_time
share_used(const Portions *ps, const Portion *p, int64_t weight_milli,
		   const PortionRules *rules, int64_t cost)
{
	fair_time	least;

	if (p == NULL || (!p->weighs && p->used < ps->share_now))
		return ps->share_now;
	if (p->used >= ps->share_now)
		return p->used;
	least = ps->share_now - portions_saved(ps, p, weight_milli, rules, cost);
	return p->used < least ? least : p->used;
}

/* So many calls of it are within its share. */
static int64_t
calls_within(const Portions *ps, const Portion *p, int64_t weight_milli,
			 const PortionRules *rules, int64_t cost)
{
	fair_time	left = ps->share_now - share_used(ps, p, weight_milli, rules, cost);
	fair_time	more;

	if (left < 0)
		return 0;
	more = left / by_weight(cost, weight_milli);
	return more < INT64_MAX ? (int64_t) more + 1 : INT64_MAX;
}

/* ---- turns ---- */

/* See portion_active.h. */
ClaimsBefore
portions_sooner(const Portions *ps, const Portion *p)
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

/* See portion_active.h. */
int64_t
portions_most_left(int64_t capacity, int64_t cost, int64_t n)
{
	int64_t		room = capacity - cost * (n + 1);

	return room > 0 ? room : 0;
}

/* See portion_active.h. */
PortionStand
portions_stand(const ClaimsBefore *before, int64_t reserve, BucketRate rate,
			   int64_t capacity, int64_t cost, int64_t n, int64_t now_ns)
{
	PortionStand s = {.leave = reserve, .until_ns = INT64_MIN};
	int64_t		room = portions_most_left(capacity, cost, n);
	int64_t		waited_ns;

	s.leave += before->units;
	if (s.leave <= room)
		return s;
	s.leave = room;
	if (before->newest_ns != INT64_MIN)
		s.until_ns = before->newest_ns + portion_refill_ns(rate, cost) + 1;
	/* those that wait will come for all of it */
	if (before->lasting > 0)
	{
		waited_ns = now_ns + portion_refill_ns(rate, before->lasting) + 1;
		if (waited_ns > s.until_ns)
			s.until_ns = waited_ns;
	}
	if (s.until_ns <= now_ns)
		s.until_ns = INT64_MIN;
	return s;
}

/* See portion_active.h. */
int64_t
portions_spare(const Portion *p, const PortionRules *rules, int64_t cost)
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
	ClaimsBefore before = portions_sooner(ps, p);
	PortionStand s = portions_stand(&before, over ? rules->reserve
									: wanted ? portions_spare(p, rules, cost) : 0,
									rate, capacity, cost, n, now_ns);

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
	ClaimsBefore before = portions_sooner(ps, p);

	return portions_stand(&before, rules->reserve, rate, capacity, cost, n,
						  now_ns).leave;
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
	fair_time	service = by_weight(cost * n, weight_milli);
	int64_t		within;

	ps->ample_ns = PORTION_UNKNOWN;
	portions_ask(ps, p, weight_milli, now_ns);
	p->used = share_used(ps, p, weight_milli, rules, cost);
	/* calls beyond the share use none of it */
	within = n == 1 ? p->used <= ps->share_now
		: calls_within(ps, p, weight_milli, rules, cost);
	p->used += n <= within ? service : by_weight(cost * within, weight_milli);
	p->served = true;
	if (s->first > ps->turn_now)
		ps->turn_now = s->first;
	p->turn = next_turn(ps, turn, service, s->first < turn);
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

	ps->ample_ns = PORTION_UNKNOWN;
	claims_remove(ps, p);
	p->turn -= by_weight(units, p->weight_milli);
	if (claimed)
		claims_add(ps, p, claim, claim_ns);
}
