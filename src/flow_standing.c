/*
 * flow_standing.c
 *		Where shares stand in the lines that they have waited in.
 *
 * A line has a virtual time of its own, and a share a standing in it: a tag by the
 * cost it was served there over its current weight, as in fair.c.  A standing is
 * one for all flows of a share, so endpoints do not multiply it.
 *
 * A share has QUOTA_MAX_STANDINGS of them.  One whose start the line's time has
 * passed says nothing and is replaced, but not while the share has the turn there:
 * to be charged provisionally, perhaps in another line, would make it the last that
 * came here, so that two shares could let each other go first for ever.  A share that
 * waits in more lines than that goes without in the others: there it joins as if it
 * had just been served, so forgetting gains nothing.
 */
#include "flow_gate.h"

/* See flow_gate.h. */
int
standing_compare(fair_time start_a, uint64 since_a, fair_time start_b, uint64 since_b)
{
	if (start_a != start_b)
		return start_a < start_b ? -1 : 1;
	if (since_a != since_b)
		return since_a < since_b ? -1 : 1;
	return 0;
}

/* The standing is one in this line. */
static bool
is_in(const QuotaStanding *s, uint32 line, uint32 slot)
{
	return s->serial != 0 && s->line == line &&
		quota_owned(&quota_lines[line].entry, slot) &&
		quota_lines[line].serial == s->serial;
}

/* Forgetting the standing changes nothing. */
static bool
is_over(const QuotaStanding *s, uint32 slot)
{
	return s->serial == 0 || !is_in(s, s->line, slot) ||
		(s->nwaiting == 0 && !s->has_turn &&
		 s->tag.start <= quota_lines[s->line].clock.now);
}

/* See flow_gate.h. */
QuotaStanding *
standing_find(QuotaShare *share, uint32 line)
{
	for (int i = 0; i < QUOTA_MAX_STANDINGS; i++)
		if (is_in(&share->standings[i], line, share->entry.owner))
			return &share->standings[i];
	return NULL;
}

/* See flow_gate.h. */
uint32
standing_line(const QuotaShare *share, int i)
{
	const QuotaStanding *s = &share->standings[i];

	return is_in(s, s->line, share->entry.owner) ? s->line : QUOTA_NO_INDEX;
}

/* A place for a new standing; NULL = none. */
static QuotaStanding *
find_room(QuotaShare *share)
{
	for (int i = 0; i < QUOTA_MAX_STANDINGS; i++)
		if (is_over(&share->standings[i], share->entry.owner))
			return &share->standings[i];
	return NULL;
}

/* See flow_gate.h. */
void
standing_reprice(QuotaStanding *s, const QuotaShare *share)
{
	if (s->tag.weight_milli != share->tag.weight_milli)
		fair_set_weight(&s->tag, share->tag.weight_milli);
}

/* See flow_gate.h. */
QuotaStanding *
standing_join(QuotaShare *share, uint32 line)
{
	QuotaLine  *l = &quota_lines[line];
	QuotaStanding *s = standing_find(share, line);
	bool		is_new = s == NULL;

	if (is_new && (s = find_room(share)) == NULL)
		return NULL;
	if (is_new)
	{
		memset(s, 0, sizeof(*s));
		s->line = line;
		s->serial = l->serial;
	}
	standing_reprice(s, share);
	if (is_new || s->tag.start < l->clock.now)
		s->since = flow_parkings();
	fair_join(&s->tag, &l->clock);
	return s;
}

/* See flow_gate.h. */
Stand
standing_now(QuotaShare *share, uint32 line)
{
	const QuotaLine *l = &quota_lines[line];
	QuotaStanding *s = standing_find(share, line);
	Stand		stand = {l->clock.now, PG_UINT64_MAX};
	FairTag		tag;

	if (s != NULL)
	{
		standing_reprice(s, share);
		if (s->tag.start >= stand.start)
		{
			stand.start = s->tag.start;
			stand.since = s->since;
		}
	}
	else if (find_room(share) == NULL)
	{
		memset(&tag, 0, sizeof(tag));
		tag.v_at = l->clock.now;
		tag.cost_at = Max(share->tag.cost_at, 1);
		fair_set_weight(&tag, share->tag.weight_milli);
		stand.start = tag.start;
	}
	return stand;
}
