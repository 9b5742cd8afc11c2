/*-------------------------------------------------------------------------
 *
 * test_position.c
 *	  Positions of flows: gaps, news, and the protocol against a model of a
 *	  table that many transactions work on.
 *
 * The model takes every step of an index scan, a row lock, a commit and a
 * transaction callback apart, and lets a random one of many actors take the
 * next step.  After every step it checks the invariant of position.c, and in
 * the end that every job was claimed.
 *
 *-------------------------------------------------------------------------
 */
#include "unit.h"

#include "position.h"

#include <string.h>

/* ---- small cases ---- */

UNIT_TEST(raise_ahead_of_the_cursor_needs_no_gap)
{
	Position	p;

	position_init(&p);
	position_jump(&p, 10);
	position_raise(&p, 11, 20, POSITION_NONE, POSITION_NONE);
	CHECK_EQ(p.gaps.n, 0);
	CHECK_EQ(position_head(&p), 11);
}

UNIT_TEST(raise_behind_the_cursor_becomes_a_gap)
{
	Position	p;

	position_init(&p);
	position_jump(&p, 10);
	position_raise(&p, 7, 15, POSITION_NONE, POSITION_NONE);
	CHECK_EQ(p.gaps.n, 1);
	CHECK_EQ(p.gaps.gap[0].lo, 7);
	CHECK_EQ(p.gaps.gap[0].hi, 10);
	CHECK_EQ(position_head(&p), 7);
}

UNIT_TEST(touching_gaps_become_one)
{
	Position	p;

	position_init(&p);
	position_jump(&p, 100);
	position_raise(&p, 5, 5, POSITION_NONE, POSITION_NONE);
	position_raise(&p, 7, 7, POSITION_NONE, POSITION_NONE);
	CHECK_EQ(p.gaps.n, 2);
	position_raise(&p, 6, 6, POSITION_NONE, POSITION_NONE);
	CHECK_EQ(p.gaps.n, 1);
	position_raise(&p, 2, 9, POSITION_NONE, POSITION_NONE);
	CHECK_EQ(p.gaps.n, 1);
	CHECK_EQ(p.gaps.gap[0].lo, 2);
	CHECK_EQ(p.gaps.gap[0].hi, 9);
}

UNIT_TEST(too_many_gaps_merge_the_nearest)
{
	Position	p;

	position_init(&p);
	position_jump(&p, 1000);
	position_raise(&p, 100, 100, POSITION_NONE, POSITION_NONE);
	position_raise(&p, 900, 900, POSITION_NONE, POSITION_NONE);
	position_raise(&p, 500, 500, POSITION_NONE, POSITION_NONE);
	position_raise(&p, 300, 300, POSITION_NONE, POSITION_NONE);
	position_raise(&p, 520, 520, POSITION_NONE, POSITION_NONE);
	CHECK_EQ(p.gaps.n, POSITION_MAX_GAPS);
	CHECK_EQ(p.gaps.gap[2].lo, 500);
	CHECK_EQ(p.gaps.gap[2].hi, 520);
	CHECK_EQ(p.gaps.gap[3].lo, 900);
}

UNIT_TEST(settling_stops_before_what_was_raised_meanwhile)
{
	Position	p;
	PositionScan scan;

	position_init(&p);
	position_begin(&p, &scan);
	position_raise(&p, 30, 40, POSITION_NONE, POSITION_NONE);
	position_settle(&p, &scan, 50);
	CHECK_EQ(p.cursor, 29);
	position_begin(&p, &scan);
	position_settle(&p, &scan, 50);
	CHECK_EQ(p.cursor, 50);
	CHECK_EQ(p.gaps.n, 0);
}

UNIT_TEST(skipped_rows_stay_unsettled)
{
	Position	p;
	PositionScan scan;

	position_init(&p);
	position_begin(&p, &scan);
	position_skip(&scan, 3);
	position_skip(&scan, 8);
	position_settle(&p, &scan, 5);
	CHECK_EQ(p.cursor, 5);
	CHECK_EQ(p.gaps.n, 1);
	CHECK_EQ(p.gaps.gap[0].lo, 3);
	CHECK_EQ(p.gaps.gap[0].hi, 3);
	position_settle(&p, &scan, 9);
	CHECK_EQ(p.gaps.n, 2);
	CHECK_EQ(p.gaps.gap[1].lo, 8);
}

/* News never leave out a raise since, and look back at most eightfold. */
UNIT_TEST(news_cover_what_was_asked_and_not_much_more)
{
	Position	p;
	const int64_t n = 3000;

	position_init(&p);
	for (int64_t i = 1; i <= n; i++)
	{
		/* the further back the smaller */
		position_raise(&p, i, i, i, i);
		for (int64_t back = 0; back <= 400 && back <= i; back += 1 + back / 8)
		{
			PositionNews news = position_news(&p,
											  p.epoch - (uint64_t) back);

			if (back == 0)
				CHECK_EQ(news.id, POSITION_NONE);
			else if (back <= 256)
			{
				CHECK(news.id <= i - back + 1);
				CHECK(news.id > i - 8 * back);
				CHECK_EQ(news.due, news.id);
				CHECK_EQ(news.place, news.id);
			}
			else
				CHECK_EQ(news.id, INT64_MIN);
		}
	}
}

UNIT_TEST(due_times_raised_meanwhile_are_kept)
{
	Position	p;
	PositionScan scan;

	position_init(&p);
	position_raise(&p, 1, 0, 700, INT64_MIN);
	CHECK_EQ(p.next_due, 700);
	position_begin(&p, &scan);
	position_raise(&p, 1, 0, 800, 80);
	position_settle_due(&p, &scan, 900);
	CHECK_EQ(p.next_due, 800);
	position_begin(&p, &scan);
	position_settle_due(&p, &scan, POSITION_NONE);
	CHECK_EQ(p.next_due, POSITION_NONE);
}

UNIT_TEST(the_returned_lane_is_read_from_where_something_may_be)
{
	Position	p;
	PositionScan scan;

	position_init(&p);
	position_begin(&p, &scan);
	CHECK_EQ(scan.place, POSITION_NONE);
	position_raise(&p, 1, 0, 7, 70);
	position_settle_place(&p, &scan, 90, 0);
	CHECK_EQ(p.place, 70);
	position_begin(&p, &scan);
	position_settle_place(&p, &scan, 90, 0);
	CHECK_EQ(p.place, 90);
	/* what was learned later by others is as true */
	position_settle_place(&p, &scan, 80, 0);
	CHECK_EQ(p.place, 90);
	position_raise(&p, 1, 0, 6, 60);
	CHECK_EQ(p.place, 60);
	position_raise(&p, 5, 5, POSITION_NONE, POSITION_NONE);
	CHECK_EQ(p.place, 60);
	/* of many rows with one place those before an id; a raise may mean any */
	position_begin(&p, &scan);
	CHECK_EQ(scan.place_id, 0);
	position_raise(&p, 1, 0, 6, 60);
	position_settle_place(&p, &scan, 60, 5);
	CHECK_EQ(p.place, 60);
	CHECK_EQ(p.place_id, 0);
	position_begin(&p, &scan);
	position_settle_place(&p, &scan, 60, 5);
	CHECK_EQ(p.place_id, 5);
	position_settle_place(&p, &scan, 60, 4);
	CHECK_EQ(p.place_id, 5);
	position_begin(&p, &scan);
	CHECK_EQ(scan.place_id, 5);
	position_settle_place(&p, &scan, 61, 3);
	CHECK_EQ(p.place, 61);
	CHECK_EQ(p.place_id, 3);
	position_raise(&p, 1, 0, 8, 61);
	CHECK_EQ(p.place_id, 0);
	position_raise(&p, 1, 0, 8, INT64_MIN);
	CHECK_EQ(p.place, INT64_MIN);
}

/*
 * More rows that somebody else has locked than there are gaps, far apart: the
 * scan settles in stretches, and ends.
 */
UNIT_TEST(stretches_go_on_behind_what_was_skipped)
{
	Position	p;
	PositionScan scan;
	PositionGap ranges[POSITION_MAX_GAPS + 1];
	const int64_t n = 20000;
	int64_t		at = 0;
	int64_t		looked = 0;

	position_init(&p);
	position_jump(&p, n);
	position_raise(&p, 1, n, POSITION_NONE, POSITION_NONE);
	position_begin(&p, &scan);
	for (int stretch = 0; at < n && stretch < 100; stretch++)
	{
		int			k = 0;
		int			nranges = position_ranges(&scan, ranges);

		CHECK(ranges[0].lo > at);
		for (int range = 0; range < nranges && k < 1000; range++)
			for (at = ranges[range].lo; at <= ranges[range].hi && at <= n; at++)
			{
				looked++;
				if (at % 2500 == 1)
					position_skip(&scan, at);
				if (++k == 1000)
					break;
			}
		if (at == 7000)
			position_raise(&p, 6500, 6600, POSITION_NONE, POSITION_NONE);
		position_pass(&p, &scan, at < n ? at : n);
	}
	CHECK_EQ(looked, n);
	position_settle(&p, &scan, n);
	/* nothing that was skipped, or raised behind the scan, is settled */
	for (int64_t id = 1; id <= n; id++)
	{
		bool		unsettled = id > p.cursor;

		for (int i = 0; i < p.gaps.n; i++)
			unsettled |= id >= p.gaps.gap[i].lo && id <= p.gaps.gap[i].hi;
		CHECK(unsettled || (id % 2500 != 1 && (id < 6500 || id > 6600)));
	}
	CHECK_EQ(position_news(&p, scan.began).id, 6500);
}

/* ---- the model ---- */

static uint64_t random_state;

static uint32_t
random_below(uint32_t n)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t) ((random_state >> 33) % n);
}

static bool
percent(uint32_t n)
{
	return random_below(100) < n;
}

typedef enum RowState
{
	ROW_ABSENT,					/* no row, rolled back, or another flow's id */
	ROW_READY,					/* in the lane it is in */
	ROW_LOCKED,					/* ready, and locked by somebody who may or may
								 * not write it */
	ROW_WRITTEN,				/* insert, update or claim in progress */
	ROW_DONE
} RowState;

typedef struct Row
{
	RowState	state;
	int			version;		/* index entries of older ones are dead */
	bool		returned;		/* lane */
	int64_t		due;
	int			owed;			/* transactions that made it ready, have ended,
								 * and have still to raise it */
	int			claims;			/* that committed */
} Row;

#define MAX_ROWS 6000
static Row	rows[MAX_ROWS + 1];
static int64_t last_id;

static Position pos;
static bool idle;				/* no claimer will look before a raise */
static int64_t now;

/* what a test wants to happen, in percent */
typedef struct Mix
{
	int			njobs;
	int			nclaimers;
	int			nenqueuers;
	int			rollbacks;
	int			retries;
	int			strangers;		/* row locks that write nothing */
	int			updates;
	int			page;			/* index entries a scan reads at once */
	int			chunk;			/* rows walked before settling in between */
	int			burst;			/* most rows of one insert */
} Mix;

static Mix mix;

static int64_t walked;			/* rows looked at */
static int64_t claimed;			/* commits of claims */
static int64_t longest;			/* most rows looked at for one claim */

/* Flow state: what flow_position.c does with a raise. */
static void
raise(int64_t lo, int64_t hi, int64_t due)
{
	int64_t		place = due != POSITION_NONE && percent(20) ? INT64_MIN : due;

	if (idle && lo <= hi)
		position_jump(&pos, lo - 1);
	position_raise(&pos, lo, hi, due, place);
	idle = false;
}

static bool
is_settled(int64_t id)
{
	if (id > pos.cursor)
		return false;
	for (int i = 0; i < pos.gaps.n; i++)
		if (id >= pos.gaps.gap[i].lo && id <= pos.gaps.gap[i].hi)
			return false;
	return true;
}

/* The invariant of position.c. */
static bool
all_is_well(void)
{
	for (int64_t id = 1; id <= last_id; id++)
	{
		Row		   *r = &rows[id];

		if ((r->state != ROW_READY && r->state != ROW_LOCKED) || r->owed > 0)
			continue;
		if (idle || (r->returned ? pos.next_due > r->due || pos.place > r->due ||
					 (pos.place == r->due && pos.place_id > id)
					 : is_settled(id)))
		{
			printf("#   job %lld is lost (cursor %lld, idle %d)\n",
				   (long long) id, (long long) pos.cursor, idle);
			return false;
		}
	}
	for (int i = 1; i < pos.gaps.n; i++)
		if (pos.gaps.gap[i].lo <= pos.gaps.gap[i - 1].hi + 1)
			return false;
	return pos.gaps.n == 0 || pos.gaps.gap[pos.gaps.n - 1].hi <= pos.cursor;
}

/* ---- inserting transactions ---- */

typedef struct Enqueuer
{
	int			left;			/* rows still to insert; 0 = none begun */
	bool		open;
	bool		owes;			/* committed, callback to come */
	int64_t		lo;
	int64_t		hi;
	uint8_t		mine[MAX_ROWS + 1];
} Enqueuer;

#define MAX_ACTORS 24
static Enqueuer enqueuers[MAX_ACTORS];
static int	inserted;

static void
insert_row(Enqueuer *e)
{
	int64_t		id = ++last_id;

	e->left--;
	if (percent(25))
		return;					/* somebody else's flow took that id */
	rows[id].state = ROW_WRITTEN;
	e->mine[id] = 1;
	if (e->lo == 0)
		e->lo = id;
	e->hi = id;
}

static void
end_insert(Enqueuer *e)
{
	bool		commit = !percent((uint32_t) mix.rollbacks);

	for (int64_t id = e->lo; id > 0 && id <= e->hi; id++)
	{
		if (!e->mine[id])
			continue;
		rows[id].state = commit ? ROW_READY : ROW_ABSENT;
		rows[id].owed += commit;
		inserted += commit;
	}
	e->open = false;
	e->owes = commit && e->lo > 0;
}

static void
insert_callback(Enqueuer *e)
{
	for (int64_t id = e->lo; id <= e->hi; id++)
		rows[id].owed -= e->mine[id];
	raise(e->lo, e->hi, POSITION_NONE);
	e->owes = false;
}

static void
step_enqueuer(Enqueuer *e)
{
	if (e->owes)
		insert_callback(e);
	else if (!e->open && inserted < mix.njobs &&
			 last_id + mix.burst < MAX_ROWS)
	{
		memset(e, 0, sizeof(*e));
		e->open = true;
		e->left = 1 + (int) random_below((uint32_t) mix.burst);
	}
	else if (e->open && e->left > 0)
		insert_row(e);
	else if (e->open && percent(30))
		end_insert(e);
}

/* ---- others that touch ready rows: lock, or update and commit or not ---- */

typedef struct Other
{
	int64_t		id;				/* 0 = nothing */
	bool		writes;
	bool		owes;
} Other;

static Other others[MAX_ACTORS];

static void
end_other(Other *o)
{
	Row		   *r = &rows[o->id];

	r->state = ROW_READY;
	if (!o->writes)
	{
		o->id = 0;
		return;
	}
	if (!percent((uint32_t) mix.rollbacks))
		r->version++;
	r->owed++;					/* on commit as on rollback */
	o->owes = true;
}

static void
step_other(Other *o)
{
	int64_t		id;

	if (o->owes)
	{
		rows[o->id].owed--;
		raise(o->id, o->id, POSITION_NONE);
		o->owes = false;
		o->id = 0;
	}
	else if (o->id > 0)
	{
		if (percent(10))
			end_other(o);
	}
	else if (last_id > 0)
	{
		id = 1 + random_below((uint32_t) last_id);
		if (rows[id].state != ROW_READY || rows[id].returned)
			return;
		o->writes = percent((uint32_t) mix.updates);
		if (!o->writes && !percent((uint32_t) mix.strangers))
			return;
		o->id = id;
		rows[id].state = o->writes ? ROW_WRITTEN : ROW_LOCKED;
	}
}

/* ---- claimers ---- */

typedef struct Entry
{
	int64_t		id;
	int			version;
} Entry;

#define MAX_PAGE 64

typedef enum ClaimerState
{
	CLAIMER_IDLE,
	CLAIMER_RETURNED,			/* reading the returned lane */
	CLAIMER_FRESH,				/* reading the fresh lane */
	CLAIMER_LOCKED,				/* has locked a row */
	CLAIMER_WRITTEN,			/* has claimed it */
	CLAIMER_OPEN,				/* has reported; its transaction is open */
	CLAIMER_ENDED				/* ended; its callback is to come */
} ClaimerState;

typedef struct Claimer
{
	ClaimerState state;
	PositionScan scan;
	PositionGap ranges[POSITION_MAX_GAPS + 1];
	int			nranges;
	int			range;
	int64_t		at;				/* last id read of this range */
	Entry		page[MAX_PAGE];
	int			npage;
	int			next;
	bool		looked_returned;
	bool		returned_done;	/* to the end of what is due */
	int64_t		next_due;
	int64_t		place;			/* all before was looked at and is not ready */
	int64_t		place_id;
	int64_t		job;
	int64_t		last_seen;
	int64_t		walk;
	int			chunk;
	int			end;			/* 0 done, 1 rollback, 2 retry */
} Claimer;

static Claimer claimers[MAX_ACTORS];

static void
begin_ranges(Claimer *c)
{
	c->nranges = position_ranges(&c->scan, c->ranges);
	c->range = 0;
	c->at = c->ranges[0].lo - 1;
	c->npage = c->next = 0;
	c->chunk = 0;
}

/* Rows of the returned lane that are due or will be, by due time. */
static void
read_returned(Claimer *c)
{
	c->npage = c->next = 0;
	for (int64_t id = 1; id <= last_id && c->npage < MAX_PAGE; id++)
	{
		int			i = c->npage;

		if (!rows[id].returned || rows[id].state == ROW_DONE ||
			rows[id].due < c->scan.place ||
			(rows[id].due == c->scan.place && id < c->scan.place_id))
			continue;
		while (i > 0 && rows[c->page[i - 1].id].due > rows[id].due)
		{
			c->page[i] = c->page[i - 1];
			i--;
		}
		c->page[i].id = id;
		c->page[i].version = rows[id].version;
		c->npage++;
	}
}

static void
begin_scan(Claimer *c)
{
	memset(c, 0, sizeof(*c));
	position_begin(&pos, &c->scan);
	begin_ranges(c);
	c->next_due = c->place = POSITION_NONE;
	c->place_id = 0;
	c->looked_returned = pos.next_due <= now;
	c->state = c->looked_returned ? CLAIMER_RETURNED : CLAIMER_FRESH;
	if (c->looked_returned)
		read_returned(c);
}

static void
step_returned(Claimer *c)
{
	Entry	   *e = &c->page[c->next];
	Row		   *r = &rows[e->id];

	if (c->next >= c->npage || c->next_due != POSITION_NONE ||
		(c->job > 0 && percent(50)))
	{
		c->returned_done = c->next >= c->npage || c->next_due != POSITION_NONE;
		c->npage = c->next = 0;
		c->state = c->job > 0 ? CLAIMER_LOCKED : CLAIMER_FRESH;
		return;
	}
	c->next++;
	if (r->version != e->version || !r->returned)
		return;
	if (r->state == ROW_READY && r->due <= now && c->job == 0)
	{
		c->job = e->id;
		r->state = ROW_LOCKED;
		c->place = r->due;
		c->place_id = e->id;
	}
	else if (r->state == ROW_READY || r->state == ROW_LOCKED)
	{
		c->next_due = r->due;
		if (r->due < c->place || (r->due == c->place && e->id < c->place_id))
		{
			c->place = r->due;
			c->place_id = e->id;
		}
	}
}

/* Reads the next entries of the index; false at the end of all ranges. */
static bool
read_page(Claimer *c)
{
	c->npage = c->next = 0;
	while (c->range < c->nranges)
	{
		int64_t		hi = c->ranges[c->range].hi;

		while (c->npage < mix.page && c->at < hi && c->at < last_id)
		{
			c->at++;
			if (rows[c->at].state == ROW_ABSENT)
				continue;
			c->page[c->npage].id = c->at;
			c->page[c->npage++].version = rows[c->at].version;
		}
		if (c->npage > 0)
			return true;
		if (++c->range < c->nranges)
			c->at = c->ranges[c->range].lo - 1;
	}
	return false;
}

static void
report_due(Claimer *c)
{
	if (c->looked_returned && c->returned_done)
		position_settle_due(&pos, &c->scan, c->next_due);
	if (c->looked_returned)
		position_settle_place(&pos, &c->scan, c->place, c->place_id);
	c->looked_returned = false;
}

static void
report_empty(Claimer *c)
{
	int64_t		upto = c->last_seen > pos.cursor ? c->last_seen : pos.cursor;

	report_due(c);
	position_settle(&pos, &c->scan, upto);
	if (position_news(&pos, c->scan.began).id == POSITION_NONE &&
		c->scan.skipped.n == 0 && pos.next_due == POSITION_NONE)
		idle = true;
	c->state = CLAIMER_IDLE;
}

static void
look_at(Claimer *c, const Entry *e)
{
	Row		   *r = &rows[e->id];

	walked++;
	c->walk++;
	c->chunk++;
	c->last_seen = e->id;
	if (r->returned || r->version != e->version)
		return;
	if (r->state == ROW_LOCKED)
		position_skip(&c->scan, e->id);
	else if (r->state == ROW_READY)
	{
		r->state = ROW_LOCKED;
		c->job = e->id;
		c->state = CLAIMER_LOCKED;
	}
}

static void
step_fresh(Claimer *c)
{
	if (c->chunk >= mix.chunk)
	{
		position_pass(&pos, &c->scan, c->last_seen);
		begin_ranges(c);
	}
	else if (c->next < c->npage || read_page(c))
		look_at(c, &c->page[c->next++]);
	else
		report_empty(c);
}

static void
report_claimed(Claimer *c)
{
	report_due(c);
	if (!rows[c->job].returned)
		position_settle(&pos, &c->scan, c->job);
	if (c->walk > longest)
		longest = c->walk;
	c->state = CLAIMER_OPEN;
}

static void
end_claim(Claimer *c)
{
	Row		   *r = &rows[c->job];

	c->end = percent((uint32_t) mix.rollbacks) ? 1 :
		percent((uint32_t) mix.retries) ? 2 : 0;
	c->state = CLAIMER_ENDED;
	if (c->end == 0)
	{
		r->state = ROW_DONE;
		r->claims++;
		claimed++;
		return;
	}
	r->state = ROW_READY;
	r->owed++;
	if (c->end == 2)
	{
		r->returned = true;
		r->version++;
		r->due = now + random_below(300);
	}
}

static void
claim_callback(Claimer *c)
{
	Row		   *r = &rows[c->job];

	c->state = CLAIMER_IDLE;
	if (c->end == 0)
		return;
	r->owed--;
	if (r->returned)
		raise(1, 0, r->due);
	else
		raise(c->job, c->job, POSITION_NONE);
}

static void
step_claimer(Claimer *c)
{
	switch (c->state)
	{
		case CLAIMER_IDLE:
			if (!idle)
				begin_scan(c);
			break;
		case CLAIMER_RETURNED:
			step_returned(c);
			break;
		case CLAIMER_FRESH:
			step_fresh(c);
			break;
		case CLAIMER_LOCKED:
			if (percent(3))		/* an error before it is recorded */
			{
				rows[c->job].state = ROW_READY;
				c->state = CLAIMER_IDLE;
				break;
			}
			rows[c->job].state = ROW_WRITTEN;
			c->state = CLAIMER_WRITTEN;
			break;
		case CLAIMER_WRITTEN:
			if (percent(3))		/* an error before it reports */
				end_claim(c);
			else
				report_claimed(c);
			break;
		case CLAIMER_OPEN:
			if (percent(20))
				end_claim(c);
			break;
		case CLAIMER_ENDED:
			claim_callback(c);
			break;
	}
}

/* ---- runs ---- */

static void
step_anybody(void)
{
	int			n = mix.nclaimers + mix.nenqueuers + 3;
	uint32_t	who = random_below((uint32_t) n);

	now++;
	if (who < (uint32_t) mix.nclaimers)
		step_claimer(&claimers[who]);
	else if (who < (uint32_t) (mix.nclaimers + mix.nenqueuers))
		step_enqueuer(&enqueuers[who - (uint32_t) mix.nclaimers]);
	else
		step_other(&others[random_below(4)]);
}

static bool
everything_is_done(void)
{
	if (inserted < mix.njobs && last_id + mix.burst < MAX_ROWS)
		return false;
	for (int64_t id = 1; id <= last_id; id++)
		if (rows[id].state != ROW_DONE && rows[id].state != ROW_ABSENT)
			return false;
	return idle;
}

static void
run_model(uint64_t seed, Mix m)
{
	int64_t		steps = 0;
	int			check_every = m.njobs > 500 ? 97 : 1;

	memset(rows, 0, sizeof(rows));
	memset(enqueuers, 0, sizeof(enqueuers));
	memset(claimers, 0, sizeof(claimers));
	memset(others, 0, sizeof(others));
	last_id = inserted = 0;
	walked = claimed = longest = now = 0;
	idle = true;
	position_init(&pos);
	random_state = seed * 7919 + 1;
	mix = m;

	while (!everything_is_done() && steps < 20000000)
	{
		step_anybody();
		if (steps++ % check_every == 0 && !all_is_well())
		{
			CHECK(!"the invariant holds");
			return;
		}
	}
	CHECK(everything_is_done());
	CHECK_EQ(claimed, inserted);
	for (int64_t id = 1; id <= last_id; id++)
		CHECK(rows[id].claims == (rows[id].state == ROW_DONE));
}

/* Everything at once, small and often; checked after every step. */
UNIT_TEST(nothing_is_lost_in_any_interleaving)
{
	for (uint64_t seed = 1; seed <= 400; seed++)
	{
		Mix			m = {.njobs = 60, .nclaimers = 1 + (int) (seed % 7),
			.nenqueuers = 1 + (int) (seed % 5), .rollbacks = 25,
			.retries = 15, .strangers = 50, .updates = 30,
			.page = 1 + (int) (seed % 9), .chunk = 3 + (int) (seed % 30),
		.burst = 1 + (int) (seed % 6)};

		run_model(seed, m);
	}
}

/* Walks do not grow with the number of jobs dealt with. */
UNIT_TEST(walks_stay_short)
{
	for (uint64_t seed = 1; seed <= 6; seed++)
	{
		Mix			m = {.njobs = 3000, .nclaimers = 16, .nenqueuers = 16,
			.rollbacks = seed % 2 ? 0 : 20, .strangers = 10, .updates = 20,
		.page = 8, .chunk = 1000, .burst = 1 + (int) (seed / 3) * 4};

		run_model(seed, m);
		printf("#   %.1f rows looked at per claim, at most %lld\n",
			   (double) walked / (double) claimed, (long long) longest);
		CHECK(walked < 40 * claimed);
		CHECK(longest < 500);
	}
}

int
main(void)
{
	UNIT_RUN(raise_ahead_of_the_cursor_needs_no_gap);
	UNIT_RUN(raise_behind_the_cursor_becomes_a_gap);
	UNIT_RUN(touching_gaps_become_one);
	UNIT_RUN(too_many_gaps_merge_the_nearest);
	UNIT_RUN(settling_stops_before_what_was_raised_meanwhile);
	UNIT_RUN(skipped_rows_stay_unsettled);
	UNIT_RUN(news_cover_what_was_asked_and_not_much_more);
	UNIT_RUN(due_times_raised_meanwhile_are_kept);
	UNIT_RUN(the_returned_lane_is_read_from_where_something_may_be);
	UNIT_RUN(stretches_go_on_behind_what_was_skipped);
	UNIT_RUN(nothing_is_lost_in_any_interleaving);
	UNIT_RUN(walks_stay_short);
	UNIT_MAIN_END();
}
