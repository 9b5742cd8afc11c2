/*
 * flow_recount.c
 *		Flows of which not everything is known yet: after a start of the server,
 *		until somebody has read all rows of quota.jobs (job_load.c, recount.c).
 *
 * COUNTS.  depth and in_flight are what the rows said at the last count, changed by
 * everything since; before the first count they are changes alone, and may be
 * negative.  So no flow is forgotten for having no jobs before its queue is READY.
 *
 * POSITIONS.  In a queue that is not READY "guess" says what a flow's position is
 * worth:
 *
 *		0				the invariant of flow_position.c holds; the loader has
 *						made it so by raising all ids
 *		id				it holds but for fresh ids below that: nobody has looked
 *						there, because the flow's first ready job seemed to be
 *						this one (job_guess.c)
 *		POSITION_NONE	nothing is known but what was raised: a writer made the
 *						flow, of which there may be older jobs
 *		-1				the count has been here: it holds
 *
 * The count knows the least fresh id of the flow in its snapshot.  Where the
 * invariant holds, that settles what is below, by rule 4 of position.c: the count is
 * a scan that began when the flow's epoch was copied, before the snapshot.  A row
 * that a transaction was writing when the snapshot was taken looks to it as before;
 * if it was fresh it is not settled, and if it becomes ready that is raised, as for
 * any scan.  Where the invariant does not hold what the count has found is raised,
 * which makes it hold.
 *
 * A guess may come late: flow_scan_guess() finds the count's mark then, and leaves
 * the position alone.
 */
#include "flow.h"

#include "recount.h"

#define GUESS_NONE		0
#define GUESS_COUNTED	(-1)

/* ---- what is known of the queue ---- */

/* See flow.h. */
bool
flow_queue_is_usable(uint32 database_slot)
{
	volatile uint8 *state = &quota_slots[database_slot].queue_load;

	return *state == QUOTA_LOAD_READY || *state == QUOTA_LOAD_USABLE;
}

/* See flow.h. */
bool
flow_queue_is_counted(uint32 slot)
{
	uint32		database_slot = quota_slots[slot].database_slot;
	const QuotaSlot *database;

	if (database_slot == QUOTA_NO_INDEX)
		return true;
	database = &quota_slots[database_slot];
	/* flows of an extension that was dropped are nobody's */
	if (database->database != quota_slots[slot].database ||
		database->extension != quota_slots[slot].extension)
		return true;
	return *(volatile const uint8 *) &database->queue_load == QUOTA_LOAD_READY;
}

/* See flow.h. */
void
flow_mark_new(uint32 flow)
{
	QuotaFlow  *f = &quota_flows[flow];

	f->guess = flow_queue_is_counted(f->entry.owner) ? GUESS_NONE : POSITION_NONE;
}

/* ---- counting ---- */

/* See flow.h. */
void
flow_count_claim(QuotaFlow *flow, int n)
{
	flow->open += n;
	flow_count(flow, -n, n);
}

/* See flow.h. */
void
flow_count_committed(QuotaFlow *flow, int64 depth, int64 in_flight)
{
	RecountSide side;

	if (depth == 0 && in_flight == 0)
		return;
	side = recount_side(flow->entry.owner);
	if (side == RECOUNT_SEEN)
		return;
	if (side == RECOUNT_LATER)
	{
		flow->later_depth += depth;
		flow->later_in_flight += in_flight;
	}
	flow_count(flow, depth, in_flight);
}

/* See flow.h. */
uint64
flow_recount_begin(uint32 flow)
{
	quota_flows[flow].later_depth = 0;
	quota_flows[flow].later_in_flight = 0;
	return quota_flows[flow].position.epoch;
}

/* Its counts become what the rows said and what came later. */
static void
set_counts(QuotaFlow *flow, const FlowRows *rows)
{
	int64		depth = rows->depth + flow->later_depth - flow->open;
	int64		in_flight = rows->in_flight + flow->later_in_flight + flow->open;

	flow_set_count(flow, depth, in_flight);
	if (flow->state != QUOTA_FLOW_READY && !flow->blocked)
		flow->reason = depth > 0 ? QUOTA_SCHEDULED : QUOTA_EMPTY;
}

/* What the rows said is raised. */
static void
raise_rows(uint32 flow, const FlowRows *rows, int64 now_ns)
{
	JournalNote note = {0};

	note.lo = rows->lowest;
	note.hi = rows->highest;
	note.due_ns = rows->due_ns;
	note.place = DT_NOBEGIN;
	flow_apply_note(flow, &note, true, now_ns);
}

/* What the rows said settles ids; upto: the greatest id of all flows. */
static void
settle_rows(QuotaFlow *flow, const FlowRows *rows, int64 upto)
{
	PositionScan scan = {0};

	scan.epoch = rows->epoch;
	position_settle(&flow->position, &scan,
					rows->lowest <= rows->highest ? rows->lowest - 1 : upto);
	flow_resift(flow);
}

/* See flow.h. */
void
flow_recount_end(uint32 flow, const FlowRows *rows, int64 upto, int64 now_ns)
{
	QuotaFlow  *f = &quota_flows[flow];

	set_counts(f, rows);
	if (!rows->known || f->guess == POSITION_NONE)
		raise_rows(flow, rows, now_ns);
	else if (rows->lowest >= f->guess)
		settle_rows(f, rows, upto);
	else
	{
		FlowRows	missed = *rows;

		missed.highest = Min(missed.highest, f->guess - 1);
		missed.due_ns = QUOTA_NEVER;
		raise_rows(flow, &missed, now_ns);
	}
	f->guess = GUESS_COUNTED;
}

/* See flow.h. */
bool
flow_was_recounted(uint32 flow)
{
	return quota_flows[flow].guess == GUESS_COUNTED;
}

/* ---- before the count ---- */

/* See flow.h. */
void
flow_raise_all(uint32 flow, int64 due_ns, int64 now_ns)
{
	FlowRows	rows = {0};

	rows.lowest = 1;
	rows.highest = POSITION_NONE - 1;
	rows.due_ns = due_ns;
	raise_rows(flow, &rows, now_ns);
	quota_flows[flow].guess = GUESS_NONE;
}

/* See flow.h. */
bool
flow_may_guess(const FlowScan *scan)
{
	const QuotaFlow *flow = &quota_flows[scan->flow];

	return scan->position.cursor == 0 && flow->guess == GUESS_NONE &&
		!flow_queue_is_counted(flow->entry.owner);
}

/* See flow.h. */
void
flow_scan_guess(FlowScan *scan, int64 id)
{
	QuotaFlow  *flow = &quota_flows[scan->flow];

	if (flow->guess != GUESS_NONE)
		return;
	flow->guess = id;
	flow_scan_passed(scan, id - 1);
}
