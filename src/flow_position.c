/*
 * flow_position.c
 *		Where a flow's next job may be: the protocol of position.c, applied to
 *		flows and their states.
 *
 * THE INVARIANT that scans and callbacks keep between them: whenever the
 * slot's lock is free, every committed job of a flow that nobody is writing
 *
 * - is unsettled if it is in the fresh lane, or its due time is not before
 *	 next_due if it is in the returned lane, and
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
 *					the old and the new due time
 *
 * WHAT A RAISE DOES, besides unsettling what it names: a flow that is empty or
 * waiting becomes READY, or gets a timer for what is due later.  A blocked
 * flow stays blocked, unless what was raised may go before the head that is
 * blocked (an older id, or a returned job that is due): that one may be
 * allowed to run.  Flows blocked before their head was looked at are caught by
 * this rule now and then without need; it costs them one more try.
 *
 * WHEN A FLOW IS EMPTY
 *
 * A scan that found nothing may say so only if nothing was raised since it
 * began: epoch unchanged.  Then, by the argument in position.c, no id is
 * ready, gaps included.  A row that is locked by somebody who does not write
 * it raises nothing when it is unlocked, so a flow with such a row waits for a
 * moment only.
 *
 * A flow that is empty has nothing ready below a raised id either, so its
 * cursor jumps to it: after a start, when cursors are 0, nobody walks over
 * history.
 */
#include "flow.h"

/* Look again at rows that were locked. */
#define LOCKED_RETRY_NS (20 * 1000 * QUOTA_NS_PER_US)

/* ---- raising ---- */

/* Fresh ids lo to hi (none when lo > hi) and a due time may be ready now. */
static void
raise_work(QuotaFlow *flow, int64 lo, int64 hi, int64 due_ns, int64 now_ns)
{
	bool		fresh = lo <= hi;
	bool		may_be_head;

	if (!fresh && due_ns == QUOTA_NEVER)
		return;
	if (fresh && flow->state == QUOTA_FLOW_IDLE)
		position_jump(&flow->position, lo - 1);
	may_be_head = due_ns <= now_ns ||
		(fresh && (!flow->blocked || lo <= flow->position.cursor));
	position_raise(&flow->position, lo, hi, due_ns);

	if (flow->state == QUOTA_FLOW_READY)
		flow_resift(flow);
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

	if (committed)
	{
		f->depth += note->depth;
		f->in_flight += note->in_flight;
		quota_tenants[quota_shares[f->share].tenant].completed += note->completed;
	}
	else if (!note->on_abort)
		return;
	raise_work(f, note->lo, note->hi, note->due_ns, now_ns);
}

/* A job of the flow is being claimed. */
void
flow_apply_claim(const JournalClaim *claim)
{
	quota_flows[claim->flow].depth--;
	quota_flows[claim->flow].in_flight++;
}

/* It is known which: an expired lease's job has been in flight all along. */
void
flow_apply_claim_job(const JournalClaim *claim)
{
	if (!claim->was_running)
		return;
	quota_flows[claim->flow].depth++;
	quota_flows[claim->flow].in_flight--;
}

/* As if it had never been claimed. */
void
flow_apply_unclaim(const JournalClaim *claim, int64 now_ns)
{
	QuotaFlow  *flow = &quota_flows[claim->flow];
	QuotaShare *share = &quota_shares[flow->share];

	flow_share_unlink(share);
	fair_undo(&share->tag, &claim->charge);
	flow_share_relink(share);
	share->served -= claim->charge.cost;

	if (claim->job == 0 || !claim->was_running)
	{
		flow->depth++;
		flow->in_flight--;
	}
	if (claim->job == 0)
		return;
	if (claim->returned_lane)
		raise_work(flow, 1, 0, claim->due_ns, now_ns);
	else
		raise_work(flow, claim->job, claim->job, QUOTA_NEVER, now_ns);
}

/* ---- searching ---- */

/* See flow.h. */
void
flow_scan_begin(uint32 flow, int64 now_ns, FlowScan *scan)
{
	scan->flow = flow;
	scan->now_ns = now_ns;
	scan->look_returned = quota_flows[flow].position.next_due <= now_ns;
	position_begin(&quota_flows[flow].position, &scan->position);
}

/* See flow.h. */
void
flow_scan_returned(const FlowScan *scan, int64 next_due_ns)
{
	QuotaFlow  *flow = &quota_flows[scan->flow];

	position_settle_due(&flow->position, &scan->position, next_due_ns);
	flow->due = false;			/* its timer says so again if it is */
	flow_resift(flow);
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
flow_scan_claimed(const FlowScan *scan, int64 id)
{
	QuotaFlow  *flow = &quota_flows[scan->flow];

	position_settle(&flow->position, &scan->position, id);
	flow_resift(flow);
}

/* See flow.h. */
bool
flow_scan_blocked(const FlowScan *scan, int64 id, QuotaReason reason,
				  int64 wake_ns)
{
	QuotaFlow  *flow = &quota_flows[scan->flow];
	int64		fresh = position_news(&flow->position,
									  scan->position.epoch).id;
	int64		due = position_news(&flow->position,
									scan->position.due_epoch).due;

	if (id > 0)
		position_settle(&flow->position, &scan->position, id - 1);
	flow_resift(flow);
	if (due <= scan->now_ns || (id > 0 ? fresh < id : fresh != POSITION_NONE))
		return false;

	/* what comes due later may be another head */
	if (flow->position.next_due > scan->now_ns)
		wake_ns = Min(wake_ns, flow->position.next_due);
	flow_park(scan->flow, reason, Min(wake_ns, due));
	return true;
}

/* See flow.h. */
void
flow_scan_empty(const FlowScan *scan, int64 last_id)
{
	QuotaFlow  *flow = &quota_flows[scan->flow];
	Position   *position = &flow->position;
	int64		wake_ns = position->next_due;

	/* it looked at all gaps too, whatever the cursor is by now */
	position_settle(position, &scan->position, Max(last_id, position->cursor));
	if (position->epoch != scan->position.epoch || wake_ns <= scan->now_ns)
	{
		flow_resift(flow);
		return;
	}
	if (scan->position.skipped.n > 0)
		wake_ns = Min(wake_ns, scan->now_ns + LOCKED_RETRY_NS);
	flow_set_waiting(flow, wake_ns);
}
