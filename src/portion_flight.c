/*
 * portion_flight.c
 *		Fair portions of calls in flight.
 *
 * CALLS IN FLIGHT have no rate.  A share is the capacity by weight over the weights
 * of who asked within the window or has calls in flight.  Who is within its share
 * may take what is free, anybody else while nobody with less in flight by weight
 * has a claim.  As places are given back, that gives them to who lacks them; what a
 * tenant wants no more is free for others when its claim has lapsed.
 */
#include "portion_active.h"
#include "portion_claims.h"

#include <stddef.h>

/* See portion.h. */
PortionStand
portion_flight_stand(const Portions *ps, const Portion *p, int64_t weight_milli,
					 const PortionRules *rules, int64_t capacity, int64_t cost,
					 int64_t n, int64_t now_ns)
{
	PortionStand s = {.within = INT64_MAX, .until_ns = INT64_MIN};
	int64_t		in_flight = p == NULL ? 0 : p->in_flight;
	fair_time	room = (fair_time) capacity * weight_milli /
		portions_weight(ps, p, weight_milli) - in_flight;
	int64_t		within = room > 0 ? (int64_t) (room / cost) : 0;
	ClaimsBefore before;

	s.share = portions_share(ps, p, weight_milli);
	s.over = n > within;
	if (rules->reserve == 0)
		return s;
	before = claims_before(ps, by_weight(in_flight, weight_milli));
	if (before.units == 0)
		return s;
	s.within = within;
	if (s.over)
		s.until_ns = (before.lasting > 0 ? now_ns : before.newest_ns) + rules->window_ns;
	return s;
}

/* See portion.h. */
int64_t
portion_flight_until(const Portions *ps, const Portion *p, const PortionStand *s,
					 const PortionRules *rules, int64_t now_ns)
{
	const Portion *all = ps->claims;
	int64_t		own = p != NULL && p->claims ? p->claim : 0;

	if (!s->over || rules->reserve == 0 || all == NULL || all->sum <= own)
		return INT64_MIN;
	return (all->lasting > 0 ? now_ns : all->newest_ns) + rules->window_ns;
}

/* Its turn, by what it has in flight. */
static void
set_flight(Portion *p, int64_t in_flight)
{
	p->in_flight = in_flight;
	p->turn = by_weight(in_flight, p->weight_milli);
}

/* See portion.h. */
void
portion_flight_refuse(Portions *ps, Portion *p, int64_t weight_milli,
					  int64_t units, int64_t now_ns)
{
	portions_ask(ps, p, weight_milli, now_ns);
	set_flight(p, p->in_flight);
	portions_claim(ps, p, units, now_ns);
}

/* See portion.h. */
void
portion_flight_take(Portions *ps, Portion *p, int64_t weight_milli,
					int64_t units, int64_t now_ns)
{
	portions_ask(ps, p, weight_milli, now_ns);
	set_flight(p, p->in_flight + units);
	portions_claim(ps, p, 0, now_ns);
}

/* So many units are in flight no more. */
void
portion_flight_end(Portions *ps, Portion *p, int64_t units)
{
	bool		claimed = p->claims;
	int64_t		claim = p->claim;
	int64_t		claim_ns = p->claim_ns;

	claims_remove(ps, p);
	set_flight(p, p->in_flight - units);
	if (claimed)
		claims_add(ps, p, claim, claim_ns);
	if (p->in_flight == 0 && !p->listed)
		portions_set_weight(ps, p, p->weight_milli, false);
}
