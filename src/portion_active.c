/*
 * portion_active.c
 *		Which tenants a limit is shared out among: those that asked within the
 *		window, wait, or have calls in flight, by weight; and who of them was refused
 *		last.
 *
 * WHO WAITS.  A session that sleeps until its call may be admitted (asker.c) does
 * not ask meanwhile, but wants its share like those that do.  While one of a tenant's
 * waits (portion_await()), the tenant has a claim that does not lapse: it is active,
 * others count as refused for its sake at any time, and its claim is as good as one
 * just made.  It stays when the tenant is served another call, at its new turn, and
 * is gone with the last session that waits.
 */
#include "portion_active.h"

#include "portion_claims.h"

#include <stddef.h>

/* See portion_active.h. */
void
portions_set_weight(Portions *ps, Portion *p, int64_t weight_milli, bool weighs)
{
	if (p->weighs)
		ps->weight -= p->weight_milli;
	p->weight_milli = weight_milli;
	p->weighs = weighs;
	if (weighs)
		ps->weight += weight_milli;
}

/* Out of the order of asking. */
static void
unlist(Portions *ps, Portion *p)
{
	if (!p->listed)
		return;
	*(p->older ? &p->older->newer : &ps->oldest) = p->newer;
	*(p->newer ? &p->newer->older : &ps->newest) = p->older;
	p->older = p->newer = NULL;
	p->listed = false;
}

/* See portion_active.h. */
void
portions_leave(Portions *ps, Portion *p)
{
	claims_remove(ps, p);
	unlist(ps, p);
	p->served = false;
	for (int i = 0; i < 2; i++)
		if (ps->refused[i] == p)
			ps->refused[i] = NULL;
	if (p->in_flight == 0)
		portions_set_weight(ps, p, p->weight_milli, false);
}

/* See portion_active.h. */
void
portions_renew(Portions *ps, Portion *p, int64_t now_ns)
{
	p->asked_ns = now_ns;
	if (ps->newest == p)
		return;
	unlist(ps, p);
	p->older = ps->newest;
	*(ps->newest ? &ps->newest->newer : &ps->oldest) = p;
	ps->newest = p;
	p->listed = true;
}

/* See portion_active.h. */
void
portions_ask(Portions *ps, Portion *p, int64_t weight_milli, int64_t now_ns)
{
	claims_remove(ps, p);
	if (!p->weighs && p->used < ps->share_now)
		p->used = ps->share_now;
	portions_set_weight(ps, p, weight_milli, true);
	portions_renew(ps, p, now_ns);
}

/* See portion_active.h. */
void
portions_claim(Portions *ps, Portion *p, int64_t units, int64_t now_ns)
{
	units = p->waits > 0 ? p->waits : units;
	if (units > 0)
		claims_add(ps, p, units, now_ns);
}

/* See portion.h. */
void
portion_await(Portions *ps, Portion *p, int64_t weight_milli, int64_t units)
{
	ps->waiting += (units > 0) - (p->waits > 0);
	p->waits = units;
	claims_remove(ps, p);
	if (units == 0)
		return;
	if (!p->listed)
		portions_ask(ps, p, weight_milli, ps->settled_ns);
	p->turn = portions_turn(ps, p);
	portions_claim(ps, p, units, p->asked_ns);
}

/* See portion_active.h. */
void
portions_note_refused(Portions *ps, const Portion *p, int64_t now_ns)
{
	if (ps->refused[0] != p)
	{
		ps->refused[1] = ps->refused[0];
		ps->refused_ns[1] = ps->refused_ns[0];
		ps->refused[0] = p;
	}
	ps->refused_ns[0] = now_ns;
}

/* See portion_active.h. */
int64_t
portions_refused_ns(const Portions *ps, const Portion *p, int64_t window_ns,
					int64_t now_ns)
{
	if (ps->waiting > (p != NULL && p->waits > 0))
		return now_ns;
	for (int i = 0; i < 2; i++)
		if (ps->refused[i] != NULL && ps->refused[i] != p &&
			now_ns - ps->refused_ns[i] < window_ns)
			return ps->refused_ns[i];
	return INT64_MIN;
}

/* See portion_active.h. */
fair_time
portions_turn(const Portions *ps, const Portion *p)
{
	return p == NULL || p->turn < ps->turn_now ? ps->turn_now : p->turn;
}

/* See portion_active.h. */
int64_t
portions_weight(const Portions *ps, const Portion *p, int64_t weight_milli)
{
	return ps->weight + weight_milli -
		(p != NULL && p->weighs ? p->weight_milli : 0);
}

/* See portion_active.h. */
int64_t
portions_share(const Portions *ps, const Portion *p, int64_t weight_milli)
{
	return (int64_t) ((fair_time) weight_milli * 1000000 /
					  portions_weight(ps, p, weight_milli));
}

/* See portion.h. */
void
portion_forget(Portions *ps, Portion *p)
{
	p->in_flight = 0;
	portions_leave(ps, p);
}
