/*
 * class_order.c
 *		Which class goes next.
 *
 * Three rules, the first that names a class decides:
 *
 *	1	RESERVE.  A class that is behind the part of all dispatched cost that is
 *		reserved for it goes first; of several the one due longest.
 *	2	AGE.  A class whose oldest job has waited too long goes before classes of
 *		lower rank, but what is dispatched for this reason is at most one fifth of
 *		everything: a flood of old work can't turn the ranks around.
 *	3	RANK.  Lowest first; classes of equal rank share by cost.
 *
 * What may run at all is no business of this file: a class is "ready" while it
 * has something that may.
 *
 * RESERVE is the reservation of mClock (Gulati, Merchant and Varman, OSDI 2010),
 * with the cost dispatched so far ("total") in the place of real time, since what
 * is shared is whatever the provider gives at the moment.  "due" is the total at
 * which the class's next job must go; a job of cost c moves it on by c / reserve.
 *
 * - Dispatched when due: due += c / reserve, from where it was, so that a class
 *	 that had to wait for somebody's dear job catches up.
 * - Dispatched before it is due, by rank or age: due is c / reserve from now, or
 *	 stays if it is later.  So a reserve is a floor and no extra; and as due is
 *	 never further away than one job, who ran alone for long isn't punished.
 * - Several dispatched at once (a batch): their costs count as one.
 * - Not ready for a while, for whatever reason: due from now on.  Nothing is
 *	 saved up.
 *
 * While reserves add up to 1 at most, a class that is ready all the time gets, over
 * every interval, its part of what is dispatched less a few of the dearest jobs.
 *
 * AGE is the same arithmetic with one due for all classes and a reserve of one
 * fifth; but here it is a ceiling.  It begins anew when some class becomes too old
 * after none was.  A class that would go by rank anyway does so.
 *
 * EQUAL RANKS: start-time fair queueing with equal weights (Goyal, Vin and Cheng,
 * SIGCOMM 1996; see fair.c).  Virtual time is the greatest start dispatched of a
 * class of the same rank; a class that becomes ready joins there.
 *
 * An undone dispatch is taken off the total, due, turn and age_due exactly, in
 * whatever order dispatches are undone.  What others owe by a total that counted it
 * is too late by that one job.  Virtual time stays (see fair.c).
 */
#include "class_order.h"

/* Totals are cost in units of 2^-32. */
#define SCALE ((fair_time) 1 << 32)

/* Total of which this cost is the reserved part; reserve > 0. */
static fair_time
step_of(int64_t cost, int reserve_milli)
{
	return (fair_time) cost * 1000 * SCALE / reserve_milli;
}

/* The greatest start dispatched among classes of this rank. */
static fair_time
virtual_time(const ClassOrder *order, int rank)
{
	fair_time	v = 0;

	for (int i = 0; i < CLASS_ORDER_MAX; i++)
		if (order->place[i].used && order->place[i].rank == rank &&
			order->place[i].dispatched > v)
			v = order->place[i].dispatched;
	return v;
}

/* The class is configured so from now on; what it owes is priced anew. */
void
class_set(ClassOrder *order, int i, int rank, int reserve_milli)
{
	ClassPlace *p = &order->place[i];

	if (!p->used || p->rank != rank)
	{
		p->rank = rank;
		p->dispatched = 0;
		p->turn = p->dispatched = virtual_time(order, rank);
	}
	p->used = true;
	if (reserve_milli == p->reserve_milli)
		return;
	if (p->reserve_milli == 0)
		p->due = order->total;
	else if (reserve_milli > 0)
		p->due = order->total +
			(p->due - order->total) * p->reserve_milli / reserve_milli;
	p->reserve_milli = reserve_milli;
}

/* Its place is free for another class. */
void
class_forget(ClassOrder *order, int i)
{
	static const ClassPlace empty;

	order->place[i] = empty;
}

/* The class has something to dispatch. */
void
class_join(ClassOrder *order, int i)
{
	ClassPlace *p = &order->place[i];
	fair_time	v = virtual_time(order, p->rank);

	if (p->ready)
		return;
	p->ready = true;
	if (p->due < order->total)
		p->due = order->total;
	if (p->turn < v)
		p->turn = v;
}

/* It has nothing any more. */
void
class_leave(ClassOrder *order, int i)
{
	order->place[i].ready = false;
}

/* The class due longest by reserve, -1 = none. */
static int
pick_by_reserve(const ClassOrder *order)
{
	int			best = -1;

	for (int i = 0; i < CLASS_ORDER_MAX; i++)
	{
		const ClassPlace *p = &order->place[i];

		if (p->ready && p->reserve_milli > 0 && p->due <= order->total &&
			(best < 0 || p->due < order->place[best].due))
			best = i;
	}
	return best;
}

/* Does class a go before class b by rank, or as the one of equals further behind? */
bool
class_precedes(const ClassOrder *order, int a, int b)
{
	const ClassPlace *x = &order->place[a];
	const ClassPlace *y = &order->place[b];

	return x->rank < y->rank || (x->rank == y->rank && x->turn < y->turn);
}

/* The class of the lowest rank, of equals the one furthest behind; -1 = none. */
static int
pick_by_rank(const ClassOrder *order)
{
	int			best = -1;

	for (int i = 0; i < CLASS_ORDER_MAX; i++)
		if (order->place[i].ready &&
			(best < 0 || class_precedes(order, i, best)))
			best = i;
	return best;
}

/* Of the classes that rank passes over the one too old for longest; -1 = none. */
static int
pick_by_age(const ClassOrder *order, int64_t now_ns, int rank)
{
	int			best = -1;

	for (int i = 0; i < CLASS_ORDER_MAX; i++)
	{
		const ClassPlace *p = &order->place[i];

		if (p->ready && p->rank > rank && p->deadline_ns <= now_ns &&
			(best < 0 || p->deadline_ns < order->place[best].deadline_ns))
			best = i;
	}
	return best;
}

/*
 * The class whose turn it is, -1 when none is ready.  Deadlines of the ready ones
 * are up to date.
 */
int
class_pick(ClassOrder *order, int64_t now_ns, ClassWhy *why)
{
	int			reserved = pick_by_reserve(order);
	int			ranked = pick_by_rank(order);
	int			aged;

	*why = CLASS_BY_RANK;
	if (ranked < 0)
		return ranked;
	aged = pick_by_age(order, now_ns, order->place[ranked].rank);
	if (aged >= 0 && !order->ageing && order->age_due < order->total)
		order->age_due = order->total;
	order->ageing = aged >= 0;
	if (reserved >= 0)
	{
		*why = CLASS_BY_RESERVE;
		return reserved;
	}
	if (aged >= 0 && order->age_due <= order->total)
	{
		*why = CLASS_BY_AGE;
		return aged;
	}
	return ranked;
}

/* By how much a dispatch of this cost moves due. */
static fair_time
move_of(const ClassOrder *order, const ClassPlace *p, int64_t cost, bool more)
{
	fair_time	step = step_of(cost, p->reserve_milli);
	fair_time	late = order->total - p->due;

	if (more || late >= 0)
		return step;
	return step > -late ? step + late : 0;
}

/*
 * A job of the class is dispatched, for this reason.  "more": together with the one
 * dispatched last, so that their costs count as one.
 */
ClassCharge
class_charge(ClassOrder *order, int i, int64_t cost, ClassWhy why, bool more)
{
	ClassPlace *p = &order->place[i];
	ClassCharge charge = {0, cost, p->reserve_milli, why == CLASS_BY_AGE};

	if (p->reserve_milli > 0)
		charge.moved = move_of(order, p, cost, more);
	p->due += charge.moved;
	if (!more && p->turn > p->dispatched)
		p->dispatched = p->turn;
	p->turn += cost;
	if (charge.aged)
		order->age_due += (fair_time) cost * CLASS_AGE_PARTS * SCALE;
	order->total += (fair_time) cost * SCALE;
	return charge;
}

/* As if it had not been. */
void
class_undo(ClassOrder *order, int i, const ClassCharge *charge)
{
	ClassPlace *p = &order->place[i];

	if (charge->reserve_milli == p->reserve_milli)
		p->due -= charge->moved;
	else if (charge->reserve_milli > 0 && p->reserve_milli > 0)
		p->due -= charge->moved * charge->reserve_milli / p->reserve_milli;
	p->turn -= charge->cost;
	if (charge->aged)
		order->age_due -= (fair_time) charge->cost * CLASS_AGE_PARTS * SCALE;
	order->total -= (fair_time) charge->cost * SCALE;
}
