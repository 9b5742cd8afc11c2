/*
 * position.c
 *		Where in a flow the next ready job may be.
 *
 * A flow's fresh jobs are found by an index scan over ids, without any lock,
 * while others insert, commit, claim and roll back.  A position says which ids
 * such a scan may leave out.  It is only ever read and written under its lock;
 * scans work on a copy and report back.
 *
 * WORDS
 *
 * An id is ready when a scan that looks at it now could claim it.  An id is
 * settled when it is <= cursor and in no gap; scans leave settled ids out.
 * A raise is the news "these ids may have become ready": position_raise().
 *
 * THE INVARIANT
 *
 * Whenever nobody holds the lock, every ready id is unsettled, or the
 * transaction that made it ready has still to raise it.
 *
 * THE RULES
 *
 * 1. Whoever makes an id ready raises it, after it can be seen as ready: an
 *	  inserter or updater when it has committed, a claimer when it has rolled
 *	  back, an updater also when it has rolled back (others skipped the row
 *	  while it was being updated).
 *
 * 2. A raise unsettles its ids: what of them is <= cursor becomes a gap.  It
 *	  counts up the epoch and leaves its least id in the news.
 *
 * 3. A scan copies epoch, cursor and gaps (position_begin), and only then
 *	  begins to read.  It looks at the unsettled ids in rising order.  A row
 *	  that another transaction is writing is passed over: its writer claims it
 *	  or raises it, by rule 1.  A row that is ready but locked by somebody who
 *	  does not write it raises nothing when unlocked: the scan remembers it
 *	  (position_skip).
 *
 * 4. A scan that has looked at everything up to some id and left nothing ready
 *	  behind settles it (position_settle), up to but not including the least id
 *	  raised since it began.  What it skipped becomes a gap again.
 *
 * WHY THE INVARIANT HOLDS
 *
 * Only rule 4 settles ids, so take an id x it settles.  If x was ready when
 * the scan began, x was unsettled then (or is raised later: below) and the
 * scan came to it.  It then was claimed by the scan; or skipped, and is a gap
 * again; or being written or written already by a transaction that ended or
 * will end after the scan began, whose raise, if it makes x ready again, is
 * either among the news since the scan began, so that x was not settled, or
 * still to come.  If x was not ready when the scan began but is now, somebody
 * made it ready since and the same holds for his raise.  Settling never needs
 * to know of other scans.
 *
 * WHY WALKS STAY SHORT
 *
 * "The least id raised since epoch e" is kept for blocks of 1, 4, 16, ...
 * raises, so the answer may include up to eight times as many raises as were
 * asked for, but no older ones: what is raised far behind stops delaying the
 * cursor soon.  A scan during which more raises came than the largest block
 * holds settles nothing; so a long walk settles in stretches (position_pass),
 * each of which begins behind the one before.  What the stretches before have
 * left unsettled, because it was skipped or raised meanwhile, counts as skipped
 * from then on: the scan does not come back to it, so that it ends, whatever
 * others do.
 *
 * THE RETURNED LANE has two bounds, each kept by the same rules as the fresh
 * lane's cursor but without gaps.  next_due is a lower bound of the due times of
 * its ready rows: when to look.  place is one of their places in the order of
 * the lane's index, where nobody needs to look before; it is INT64_MIN when
 * somebody who raised a row did not know its place.  Many rows may have the same
 * place, which are in the order of their ids: place_id says from which one on.  A
 * raise names none, so it goes back to the first.
 */
#include "position.h"

#define Min2(a, b) ((a) < (b) ? (a) : (b))
#define Max2(a, b) ((a) > (b) ? (a) : (b))

static const PositionNews no_news = {POSITION_NONE, POSITION_NONE, POSITION_NONE};

/* The least of both, each by itself. */
static PositionNews
least_news(PositionNews a, PositionNews b)
{
	a.id = Min2(a.id, b.id);
	a.due = Min2(a.due, b.due);
	a.place = Min2(a.place, b.place);
	return a;
}

/* ---- gaps ---- */

/* Makes one gap of the two neighbours with the fewest ids between them. */
static void
merge_nearest(PositionGap *gap, int n)
{
	int			best = 0;

	for (int i = 1; i < n - 1; i++)
		if (gap[i + 1].lo - gap[i].hi < gap[best + 1].lo - gap[best].hi)
			best = i;
	gap[best].hi = gap[best + 1].hi;
	for (int i = best + 1; i < n - 1; i++)
		gap[i] = gap[i + 1];
}

/* Adds [lo, hi]; when there are too many gaps, also what lies between two. */
static void
add_gap(PositionGaps *gaps, int64_t lo, int64_t hi)
{
	PositionGap gap[POSITION_MAX_GAPS + 1];
	int			n = 0;
	int			i = 0;

	while (i < gaps->n && gaps->gap[i].hi < lo - 1)
		gap[n++] = gaps->gap[i++];
	for (; i < gaps->n && gaps->gap[i].lo - 1 <= hi; i++)
	{
		lo = Min2(lo, gaps->gap[i].lo);
		hi = Max2(hi, gaps->gap[i].hi);
	}
	gap[n].lo = lo;
	gap[n++].hi = hi;
	while (i < gaps->n)
		gap[n++] = gaps->gap[i++];

	if (n > POSITION_MAX_GAPS)
		merge_nearest(gap, n--);
	gaps->n = n;
	for (i = 0; i < n; i++)
		gaps->gap[i] = gap[i];
}

/* Takes away all ids up to upto. */
static void
trim_gaps(PositionGaps *gaps, int64_t upto)
{
	int			n = 0;

	for (int i = 0; i < gaps->n; i++)
	{
		if (gaps->gap[i].hi <= upto)
			continue;
		gaps->gap[n].lo = Max2(gaps->gap[i].lo, upto + 1);
		gaps->gap[n++].hi = gaps->gap[i].hi;
	}
	gaps->n = n;
}

/* ---- raises ---- */

/* Nothing settled, nothing raised, nothing due. */
void
position_init(Position *p)
{
	p->epoch = 0;
	p->cursor = 0;
	p->gaps.n = 0;
	p->next_due = POSITION_NONE;
	p->place = POSITION_NONE;
	p->place_id = 0;
	for (int i = 0; i < POSITION_LEVELS; i++)
		p->block[i] = p->block_before[i] = no_news;
}

/*
 * Fresh ids lo to hi (none when lo > hi) may have become ready, and a returned
 * job be due at due, at that place of the lane or behind it (POSITION_NONE for
 * both = none, INT64_MIN = somewhere).
 */
void
position_raise(Position *p, int64_t lo, int64_t hi, int64_t due, int64_t place)
{
	PositionNews news;
	uint64_t	size = 1;

	news.id = lo <= hi ? lo : POSITION_NONE;
	news.due = due;
	news.place = place;
	p->epoch++;
	for (int i = 0; i < POSITION_LEVELS; i++, size *= 4)
	{
		if (p->epoch % size == 0)
		{
			p->block_before[i] = p->block[i];
			p->block[i] = no_news;
		}
		p->block[i] = least_news(p->block[i], news);
	}

	if (news.id <= p->cursor)
		add_gap(&p->gaps, lo, Min2(hi, p->cursor));
	p->next_due = Min2(p->next_due, due);
	if (place <= p->place)
	{
		p->place = place;
		p->place_id = 0;
	}
}

/*
 * Nothing up to id is ready: for a flow known to be empty, so that the next
 * scan begins where work is.
 */
void
position_jump(Position *p, int64_t id)
{
	p->gaps.n = 0;
	p->cursor = Max2(p->cursor, id);
}

/* No fresh id before this is ready: the order of flows within a share. */
int64_t
position_head(const Position *p)
{
	return p->gaps.n > 0 ? p->gaps.gap[0].lo : p->cursor + 1;
}

/*
 * The least id, due time and place raised since that epoch, or less; all
 * INT64_MIN when that was too many raises ago.
 */
PositionNews
position_news(const Position *p, uint64_t epoch)
{
	const PositionNews anything = {INT64_MIN, INT64_MIN, INT64_MIN};
	uint64_t	raises = p->epoch - epoch;
	uint64_t	size = 1;

	if (raises == 0)
		return no_news;
	for (int i = 0; i < POSITION_LEVELS; i++, size *= 4)
	{
		if (raises <= p->epoch % size + 1)
			return p->block[i];
		if (raises <= size)
			return least_news(p->block[i], p->block_before[i]);
	}
	return anything;
}

/* ---- scans ---- */

/* To be called before the scan reads anything. */
void
position_begin(const Position *p, PositionScan *scan)
{
	scan->began = p->epoch;
	scan->epoch = p->epoch;
	scan->passed = 0;
	scan->cursor = p->cursor;
	scan->gaps = p->gaps;
	scan->skipped.n = 0;
	scan->place = p->place;
	scan->place_id = p->place_id;
}

/*
 * The unsettled ids that the scan has not passed, ascending; returns how many
 * ranges, the last one open.
 */
int
position_ranges(const PositionScan *scan,
				PositionGap ranges[POSITION_MAX_GAPS + 1])
{
	PositionGaps gaps = scan->gaps;

	trim_gaps(&gaps, scan->passed);
	for (int i = 0; i < gaps.n; i++)
		ranges[i] = gaps.gap[i];
	ranges[gaps.n].lo = Max2(scan->cursor, scan->passed) + 1;
	ranges[gaps.n].hi = INT64_MAX;
	return gaps.n + 1;
}

/* The scan met a ready row that it could not lock. */
void
position_skip(PositionScan *scan, int64_t id)
{
	add_gap(&scan->skipped, id, id);
}

/*
 * The scan looked at everything up to upto and left nothing ready there but
 * what it skipped.
 */
void
position_settle(Position *p, const PositionScan *scan, int64_t upto)
{
	int64_t		raised = position_news(p, scan->epoch).id;

	if (upto >= raised)
		upto = raised == INT64_MIN ? raised : raised - 1;
	trim_gaps(&p->gaps, upto);
	p->cursor = Max2(p->cursor, upto);
	for (int i = 0; i < scan->skipped.n; i++)
	{
		PositionGap skipped = scan->skipped.gap[i];

		if (skipped.lo <= upto)
			add_gap(&p->gaps, skipped.lo, Min2(skipped.hi, upto));
	}
}

/*
 * Settles what the scan has passed, and begins its next stretch.  What is still
 * unsettled there is left to later scans.
 */
void
position_pass(Position *p, PositionScan *scan, int64_t upto)
{
	position_settle(p, scan, upto);
	scan->epoch = p->epoch;
	scan->passed = upto;
	scan->cursor = p->cursor;
	scan->gaps = p->gaps;
	scan->skipped.n = 0;
	for (int i = 0; i < p->gaps.n && p->gaps.gap[i].lo <= upto; i++)
		add_gap(&scan->skipped, p->gaps.gap[i].lo,
				Min2(p->gaps.gap[i].hi, upto));
	if (p->cursor < upto)
		add_gap(&scan->skipped, p->cursor + 1, upto);
}

/*
 * The scan read the returned lane; next_due is the due time of the first row
 * it left there, not counting rows being written (POSITION_NONE = none).
 */
void
position_settle_due(Position *p, const PositionScan *scan, int64_t next_due)
{
	int64_t		raised = position_news(p, scan->began).due;

	if (raised != INT64_MIN)
		p->next_due = Min2(next_due, raised);
}

/*
 * The scan looked at everything in the returned lane before that place and left
 * nothing ready there.
 */
void
position_settle_place(Position *p, const PositionScan *scan, int64_t place,
					  int64_t id)
{
	int64_t		raised = position_news(p, scan->began).place;

	if (raised <= place)
	{
		place = raised;
		id = 0;
	}
	if (place < p->place || (place == p->place && id <= p->place_id))
		return;
	p->place = place;
	p->place_id = id;
}
