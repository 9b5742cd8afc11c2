/*
 * flow_position.c
 *		Where a flow's next job may be: the protocol of position.c, applied to
 *		flows and their states.
 *
 * THE INVARIANT that scans and callbacks keep between them: whenever the
 * slot's lock is free, every committed job of a flow that nobody is writing
 *
 * - is unsettled if it is in the fresh lane; if it is in the returned lane, its
 *	 due time is not before next_due, nor its place in the order of that lane's
 *	 index before (place, place_id); and
 * - if it is ready, the flow is READY or blocked, or a timer will make it so;
 *
 * or a transaction that has ended has still to raise it, in a callback that is
 * about to take the lock.
 *
 * WHO RAISES
 *
 * Every transaction that writes a job's row of either lane has a record of it
 * in the journal before it writes: a claim, or a note.  Others pass over what
 * is being written, in the trust that the record's callback comes after the
 * transaction has ended:
 *
 *		insert		note, on commit: ids [lo, hi], or a due time
 *		claim		rolled back: the job's id or due time; committed: a note
 *					with the due time of its lease
 *		others		note with on_abort, either way: the id, or the earlier of
 *					the old and the new due time; what leaves the returned lane
 *					for good or for a later place ("gone") only when rolled back
 *
 * WHAT A RAISE DOES, besides unsettling what it names: a flow that is empty or
 * waiting becomes READY, or gets a timer for what is due later.  A blocked
 * flow stays blocked, unless the raise may mean another head (below).
 *
 * THE HEAD OF A BLOCKED FLOW
 *
 * A job may cost something else than the cost map says, so a flow is refused for
 * its head, by name, and not before somebody has looked at it.  "head" says up to
 * which id a raise may change what the head is: the id of the head itself when it
 * is a fresh job (it may have been cancelled, deleted or made cheaper); when it is
 * a job of the returned lane, that of the first fresh job, which may have to go
 * before it.  The other ways in which a head may go:
 *
 * - Something in the returned lane is due: those rows are raised or have a timer.
 * - Somebody claims or buries it, having decided before it was refused: he counts
 *	 up "moves" and frees the flow.  Who is refused compares moves with what it was
 *	 when his search began: a head that was taken meanwhile blocks nobody.
 * - A row before it was locked by a stranger when it was looked at: the flow is
 *	 looked at again after a moment.
 *
 * head_plain saves the look when the flow is picked again: as long as nothing of
 * this has happened, the head is that job, and costs what the cost map says.
 *
 * WHEN A FLOW IS EMPTY
 *
 * A scan that found nothing may say so only if no fresh id was raised since it
 * began and nothing is due.  Then, by the argument in position.c, no id is ready,
 * gaps included.  A row that is locked by somebody who does not write it raises
 * nothing when it is unlocked, so a flow with such a row waits for a moment only.
 *
 * A flow that is empty has nothing ready below a raised id either, so its
 * cursor jumps to it: after a start, when cursors are 0, nobody walks over
 * history.
 *
 * SCHEDULED JOBS follow the wall clock, timers the quota clock.  When the wall
 * clock has been set forward, every flow that waits for something is looked at
 * (flow_follow_wall); when it has been set back, timers are early, which is as
 * good.
 */
#include "flow_gate.h"
#include "waiter.h"

/* Look again at rows that were locked. */
#define LOCKED_RETRY_NS (20 * 1000 * QUOTA_NS_PER_US)

/* The wall clock may be read so much later than the quota clock. */
#define WALL_TOLERANCE_US INT64CONST(100000)

/* ---- raising ---- */

/*
 * Fresh ids lo to hi (none when lo > hi) and a row of the returned lane, at that
 * place or behind it, may be ready now or at due_ns.
 */
static void
raise_work(QuotaFlow *flow, int64 lo, int64 hi, int64 due_ns,
		   TimestampTz place, int64 now_ns)
{
	bool		fresh = lo <= hi;
	bool		idle = flow->state == QUOTA_FLOW_IDLE;
	bool		may_be_head;

	if (!fresh && due_ns == QUOTA_NEVER)
		return;
	if (fresh && idle)
		position_jump(&flow->position, lo - 1);
	may_be_head = due_ns <= now_ns ||
		(fresh && (!flow->blocked || lo <= flow->head));
	position_raise(&flow->position, lo, hi, due_ns,
				   due_ns == QUOTA_NEVER ? POSITION_NONE : place);
	/* what is due may be of any age, and so may what it waits for */
	if (due_ns <= now_ns || (fresh && !idle && flow->state != QUOTA_FLOW_READY &&
							 !flow->blocked))
		flow_set_since(flow, FLOW_SINCE_UNKNOWN, false);
	else if (fresh && idle)
		flow_set_since(flow, now_ns, false);

	if (flow->state == QUOTA_FLOW_READY)
	{
		if (due_ns <= now_ns || (fresh && lo <= flow->head))
			flow_reopen(flow);
		flow_resift(flow);
		if (may_be_head)
			waiter_wake(flow->entry.owner);
	}
	else if (may_be_head)
		flow_set_ready(flow);
	else if (flow->blocked)
		flow_set_timer(flow, Min(flow->wake_ns, due_ns));
	else
		flow_set_waiting(flow, Min(flow->wake_ns, due_ns));
}

/* What a transaction has to say of a flow; see journal.h. */
void
flow_apply_note(uint32 flow, const JournalNote *note, bool committed,
				int64 now_ns)
{
	QuotaFlow  *f = &quota_flows[flow];
	bool		gone = committed && note->gone;

	/* the head that was seen may be gone */
	if (note->on_abort)
		f->since_seen = false;

	if (committed)
	{
		flow_count_committed(f, note->depth, note->in_flight);
		tenant_of(share_of(f))->completed += note->completed;
		if (note->cost != 0)
			flow_correct(f, note->cost);
	}
	else if (!note->on_abort)
		return;
	raise_work(f, note->lo, note->hi, gone ? QUOTA_NEVER : note->due_ns,
			   note->place, now_ns);
	/* the row that has gone may have been the head */
	if (gone && note->due_ns <= now_ns && f->blocked && f->head > 0)
		flow_set_ready(f);
}

/* A job of the flow is being claimed. */
void
flow_apply_claim(const JournalClaim *claim)
{
	flow_count_claim(&quota_flows[claim->flow], 1);
}

/* It is known which: an expired lease's job has been in flight all along. */
void
flow_apply_claim_job(const JournalClaim *claim)
{
	QuotaFlow  *flow = &quota_flows[claim->flow];

	/* what comes next is hardly older */
	flow_set_since(flow, claim->since_ns, false);
	if (!claim->was_running)
		return;
	flow_count_claim(flow, -1);
}

/* It is final. */
void
flow_apply_claimed(const JournalClaim *claim)
{
	QuotaFlow  *flow = &quota_flows[claim->flow];

	if (claim->was_running)
		return;
	flow_count_claim(flow, -1);
	flow_count_committed(flow, -1, 1);
}

/* As if it had never been claimed. */
void
flow_apply_unclaim(const JournalClaim *claim, int64 now_ns)
{
	QuotaFlow  *flow = &quota_flows[claim->flow];
	QuotaShare *share = share_of(flow);

	flow_share_unlink(share);
	fair_undo(&share->tag, &claim->charge);
	flow_share_relink(share);
	class_undo(&slot_of(flow)->order, share->class_index, &claim->class_charge);
	flow_line_undo(claim->flow, &claim->line);
	flow_line_fell(share);

	if (claim->job == 0 || !claim->was_running)
		flow_count_claim(flow, -1);
	if (claim->job == 0)
		return;
	if (claim->returned_lane)
		raise_work(flow, 1, 0, claim->due_ns, claim->place, now_ns);
	else
		raise_work(flow, claim->job, claim->job, QUOTA_NEVER, DT_NOBEGIN,
				   now_ns);
	if (claim->since_ns < flow->since_ns)
		flow_set_since(flow, claim->since_ns, false);
}

/* See flow.h. */
void
flow_follow_wall(uint32 slot, int64 now_ns, TimestampTz wall_us)
{
	QuotaSlot  *s = &quota_slots[slot];
	int64		ahead_us = wall_us - quota_steady_of(now_ns);
	int64		step_us = ahead_us - s->wall_ahead_us;

	if (step_us > -WALL_TOLERANCE_US && step_us < WALL_TOLERANCE_US)
		return;
	s->wall_ahead_us = ahead_us;
	for (uint32 i = 0; step_us > 0 && i < (uint32) quota_max_flows; i++)
	{
		QuotaFlow  *flow = &quota_flows[i];

		if (flow->entry.used && flow->entry.owner == slot &&
			flow->position.next_due != POSITION_NONE)
			raise_work(flow, 1, 0, now_ns, POSITION_NONE, now_ns);
	}
	/* pauses end by it, too */
	if (step_us > 0)
		flow_unpark_paused(slot, "", "");
}

/* ---- searching ---- */

/* See flow.h. */
void
flow_scan_begin(uint32 flow, int64 now_ns, FlowScan *scan)
{
	scan->flow = flow;
	scan->now_ns = now_ns;
	scan->moves = quota_flows[flow].moves;
	scan->look_returned = quota_flows[flow].position.next_due <= now_ns;
	position_begin(&quota_flows[flow].position, &scan->position);
	scan->returned_done = false;
	scan->retries_ns = 0;
	scan->next_due_ns = QUOTA_NEVER;
	scan->place = DT_NOBEGIN;
	scan->place_id = 0;
}

/* See flow.h. */
int64
flow_scan_raised(uint32 flow, uint64 epoch)
{
	return position_news(&quota_flows[flow].position, epoch).id;
}

/* Settles what the search has learned of the returned lane. */
static void
settle_returned(QuotaFlow *flow, const FlowScan *scan)
{
	if (!scan->look_returned)
		return;
	if (scan->retries_ns > 0)
		flow->retries_ns = scan->retries_ns;
	position_settle_place(&flow->position, &scan->position, scan->place,
						  scan->place_id);
	if (!scan->returned_done)
		return;
	position_settle_due(&flow->position, &scan->position, scan->next_due_ns);
	flow->due = false;			/* its timer says so again if it is */
}

/* See flow.h. */
void
flow_scan_passed(FlowScan *scan, int64 id)
{
	QuotaFlow  *flow = &quota_flows[scan->flow];

	position_pass(&flow->position, &scan->position, id);
	flow_resift(flow);
}

/* See flow.h. */
void
flow_scan_taken(const FlowScan *scan, int64 id)
{
	QuotaFlow  *flow = &quota_flows[scan->flow];

	settle_returned(flow, scan);
	if (id > 0)
		position_settle(&flow->position, &scan->position, id);
	flow->moves++;
	flow->head_plain = false;
	flow_reopen(flow);
	if (flow->blocked && flow->head > 0)
		flow_set_ready(flow);
	else
		flow_resift(flow);
}

/* See flow.h. */
bool
flow_scan_refused(const FlowScan *scan, int64 fresh, bool plain)
{
	QuotaFlow  *flow = &quota_flows[scan->flow];
	PositionNews news = position_news(&flow->position, scan->position.began);

	settle_returned(flow, scan);
	if (fresh != POSITION_NONE)
		position_settle(&flow->position, &scan->position, fresh - 1);
	flow_resift(flow);
	if (flow->moves != scan->moves || news.due <= scan->now_ns ||
		(news.id != POSITION_NONE && news.id <= fresh))
		return false;
	flow->head = fresh;
	flow->head_epoch = scan->position.began;
	flow->head_plain = plain && scan->position.skipped.n == 0;
	return true;
}

/* See flow.h. */
bool
flow_scan_seen(const FlowScan *scan, int64 since_ns)
{
	QuotaFlow  *flow = &quota_flows[scan->flow];

	if (flow->moves != scan->moves)
		return false;
	flow_set_since(flow, since_ns, true);
	return true;
}

/* See flow.h. */
int64
flow_scan_look_ns(const FlowScan *scan)
{
	int64		next_due_ns = quota_flows[scan->flow].position.next_due;
	int64		look_ns = QUOTA_NEVER;

	if (scan->position.skipped.n > 0)
		look_ns = scan->now_ns + LOCKED_RETRY_NS;
	if (scan->look_returned)
		look_ns = Min(look_ns, scan->next_due_ns);
	/* else it is the head that is due, or what comes behind it */
	if (next_due_ns > scan->now_ns)
		look_ns = Min(look_ns, next_due_ns);
	return look_ns;
}

/* See flow.h. */
void
flow_scan_rested(const FlowScan *scan, int64 wake_ns)
{
	QuotaFlow  *flow = &quota_flows[scan->flow];

	settle_returned(flow, scan);
	flow_set_waiting(flow, wake_ns);
}

/* See flow.h. */
void
flow_scan_empty(const FlowScan *scan, int64 last_id)
{
	QuotaFlow  *flow = &quota_flows[scan->flow];
	Position   *position = &flow->position;
	int64		wake_ns;

	settle_returned(flow, scan);
	/* it looked at all gaps too, whatever the cursor is by now */
	position_settle(position, &scan->position, Max(last_id, position->cursor));
	wake_ns = position->next_due;
	if (wake_ns <= scan->now_ns ||
		position_news(position, scan->position.began).id != POSITION_NONE)
	{
		flow_resift(flow);
		return;
	}
	if (scan->position.skipped.n > 0)
		wake_ns = Min(wake_ns, scan->now_ns + LOCKED_RETRY_NS);
	flow_set_waiting(flow, wake_ns);
	if (flow->retries_ns > scan->now_ns)
		flow->reason = QUOTA_RETRY_BUDGET;
}

/* See flow.h. */
bool
flow_head_is_plain(uint32 flow, int64 now_ns)
{
	const QuotaFlow *f = &quota_flows[flow];

	return f->head_plain && f->position.next_due > now_ns &&
		position_news(&f->position, f->head_epoch).id > f->head;
}
