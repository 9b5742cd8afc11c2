/*
 * fair.c
 *		Start-time fair queueing: the arithmetic of tags.
 *
 * Every tenant of a class has a tag; the one with the least start goes next,
 * is charged, and the class's virtual time V moves up to the start it had.
 *
 * V never goes back.  An undone charge may leave a tenant with a start below
 * V; were V to follow it down, a tenant joining then would be placed before
 * everybody else who has waited since.
 *
 * A call that a tenant makes beside the order puts its start one call ahead of V,
 * if it isn't there already: it counts as if the tenant had just been served, but
 * however many there are, they never count as more than one.
 *
 * A tenant that comes back after having had nothing to run, for whatever
 * reason, joins at V or at its own start, whichever is later: it keeps its
 * debt (else one that drains and refills would beat a steady backlog) but gets
 * no credit for the time it was away.  A credit of even one job would break
 * the bound: with equal weights and costs the returning tenant would run three
 * jobs in a row.
 */
#include "fair.h"

#define FAIR_SCALE (((fair_time) 1000) << 48)

/* Virtual time of a cost at this weight; towards zero: the same everywhere. */
static fair_time
span_of(int64_t cost, int64_t weight_milli)
{
	return cost * FAIR_SCALE / weight_milli;
}

/* The start follows whatever else of the tag has changed. */
static void
settle_start(FairTag *tag)
{
	tag->start = tag->v_at + span_of(tag->cost_at, tag->weight_milli);
}

/* The weight of a tag that is in no order yet. */
void
fair_set_weight(FairTag *tag, int64_t weight_milli)
{
	tag->weight_milli = weight_milli;
	settle_start(tag);
}

/*
 * A new weight reprices the debt; the caller puts the tag to its new place in the
 * order.  The start goes no further back than V: what was dispatched since the last
 * charge was shared by the old weight, and is not made up for.
 */
void
fair_reweigh(FairTag *tag, const FairClock *clock, int64_t weight_milli)
{
	fair_time	least = tag->start < clock->now ? tag->start : clock->now;

	fair_set_weight(tag, weight_milli);
	if (tag->start >= least)
		return;
	tag->v_at = least;
	tag->cost_at = 0;
	settle_start(tag);
}

/* The tenant has something to run again. */
void
fair_join(FairTag *tag, const FairClock *clock)
{
	if (tag->start >= clock->now)
		return;
	tag->v_at = clock->now;
	tag->cost_at = 0;
	settle_start(tag);
}

/* One job of the tenant is dispatched. */
FairCharge
fair_charge(FairTag *tag, FairClock *clock, int64_t cost)
{
	FairCharge	charge;

	charge.v_before = tag->v_at;
	charge.cost_before = tag->cost_at;
	charge.v_after = tag->start;
	charge.cost = cost;
	charge.added = false;

	if (tag->start > clock->now)
		clock->now = tag->start;
	tag->v_at = tag->start;
	tag->cost_at = cost;
	settle_start(tag);
	return charge;
}

/*
 * What was dispatched last costs so much more: a batch grows.  It still is one
 * dispatch, so virtual time stays.
 */
FairCharge
fair_add(FairTag *tag, int64_t cost)
{
	FairCharge	charge;

	charge.v_before = tag->v_at;
	charge.cost_before = tag->cost_at;
	charge.v_after = tag->v_at;
	charge.cost = cost;
	charge.added = true;

	tag->cost_at += cost;
	settle_start(tag);
	return charge;
}

/*
 * The job was not dispatched after all.  Exactly as if it had never been when
 * nothing happened to the tag since, else by giving back its cost: later
 * charges have built on the start this one led to, and cost_at may become
 * negative.
 */
void
fair_undo(FairTag *tag, const FairCharge *charge)
{
	if (!charge->added && tag->v_at == charge->v_after &&
		tag->cost_at == charge->cost)
	{
		tag->v_at = charge->v_before;
		tag->cost_at = charge->cost_before;
	}
	else
		tag->cost_at -= charge->cost;
	settle_start(tag);
}

/* What was charged before turned out to cost so much more; negative: less. */
void
fair_correct(FairTag *tag, int64_t difference)
{
	tag->cost_at += difference;
	settle_start(tag);
}

/* Would a call beside the order move the tag? */
bool
fair_may_lead(const FairTag *tag, const FairClock *clock, int64_t cost)
{
	return clock->now + span_of(cost, tag->weight_milli) > tag->start;
}

/*
 * The tenant makes a call beside the order: its start goes ahead of virtual time by
 * that call, unless it is there already.  For calls that fair_may_lead().
 */
void
fair_lead(FairTag *tag, const FairClock *clock, int64_t cost, FairLead *lead)
{
	fair_time	before = tag->start;
	fair_time	call = span_of(cost, tag->weight_milli);

	if (lead->moved == 0)
	{
		lead->v_before = tag->v_at;
		lead->cost_before = tag->cost_at;
	}
	tag->v_at = clock->now;
	tag->cost_at = cost;
	settle_start(tag);
	lead->moved += tag->start - before;
	if (lead->moved > call)
		lead->moved = call;
	lead->v_after = tag->v_at;
	lead->cost = cost;
}

/*
 * The calls were not made after all.  Exactly so when nothing happened to the tag
 * since, and they have moved it by no more than one of them; else that much is
 * given back.
 */
void
fair_unlead(FairTag *tag, const FairLead *lead)
{
	FairTag		before = *tag;

	before.v_at = lead->v_before;
	before.cost_at = lead->cost_before;
	settle_start(&before);
	if (tag->v_at == lead->v_after && tag->cost_at == lead->cost &&
		tag->start - before.start <= lead->moved)
		*tag = before;
	else
		tag->v_at -= lead->moved;
	settle_start(tag);
}

/* Does a go before b?  Neither when equal: the caller breaks ties. */
bool
fair_precedes(const FairTag *a, const FairTag *b)
{
	return a->start < b->start;
}
