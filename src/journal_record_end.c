/*
 * journal_record_end.c
 *		What becomes of one record of the journal when it is undone, or final.  The
 *		protocol is told in journal.c.
 *
 * Everything here runs in callbacks, or may: no allocation, no error, no
 * look-up.  Slot locks are taken one at a time, in any order (a database slot's
 * before a provider's where a permit has parts in both), and the directory under
 * them.  A lock is kept until another one is needed, as records of one slot follow
 * one another, and until journal_unlock() in the end.
 */
#include "journal_records.h"

#include "credit.h"
#include "floor.h"
#include "flow.h"
#include "job_deadline.h"
#include "mark.h"
#include "miscadmin.h"
#include "notify.h"
#include "pause.h"
#include "permit.h"
#include "recount.h"
#include "rules.h"
#include "worker.h"
static uint32 locked_slot = QUOTA_NO_INDEX;
static uint32 locked_database = QUOTA_NO_INDEX;

/* See journal_records.h. */
void
journal_unlock(void)
{
	if (locked_slot != QUOTA_NO_INDEX)
		LWLockRelease(&quota_slots[locked_slot].lock);
	if (locked_database != QUOTA_NO_INDEX)
		LWLockRelease(&quota_slots[locked_database].lock);
	locked_slot = QUOTA_NO_INDEX;
	locked_database = QUOTA_NO_INDEX;
	across_tell();
}

/* Holds the slot's lock, and no other slot's, until journal_unlock(). */
static void
lock(uint32 slot)
{
	if (locked_slot == slot)
		return;
	journal_unlock();
	quota_lock(&quota_slots[slot].lock);
	locked_slot = slot;
}

/* See journal_records.h. */
void
journal_lock_permit(uint32 index)
{
	QuotaPermit *p = &quota_permits[index];

	if (p->database_slot == QUOTA_NO_INDEX)
	{
		lock(p->owner);
		return;
	}
	journal_unlock();
	quota_lock(&quota_slots[p->database_slot].lock);
	locked_database = p->database_slot;
	quota_lock(&quota_slots[p->owner].lock);
	locked_slot = p->owner;
}

/* See journal_records.h. */
void
journal_forget_locks(void)
{
	locked_slot = QUOTA_NO_INDEX;
	locked_database = QUOTA_NO_INDEX;
}

/* Locks the owner of a pinned bucket. */
static QuotaBucket *
lock_bucket(uint32 bucket)
{
	lock(quota_buckets[bucket].entry.owner);
	return &quota_buckets[bucket];
}

/* A load that failed: others may try. */
static void
undo_load(uint8 *state, uint32 slot)
{
	lock(slot);
	*state = QUOTA_LOAD_EMPTY;
	journal_unlock();
	ConditionVariableBroadcast(&quota_slots[slot].load_cv);
}

/* Returns what was taken of a rate, less what has come back. */
static void
undo_take(JournalRecord *r, uint64 parkings)
{
	QuotaBucket *b = lock_bucket(r->object);

	rules_settle(b, quota_now_ns(), quota_wall_us());
	mark_return(r->object, &r->u.rate.take,
				r->type == RECORD_FIRST ? PG_INT64_MAX
				: r->u.rate.units - r->u.rate.kept);
	floor_returned(r->u.rate.portion, r->u.rate.units - r->u.rate.kept);
	floor_unpin(r->u.rate.portion);
	permit_bucket_opened(r->object, parkings);
	pg_atomic_fetch_sub_u32(&b->pins, 1);
}

/* The probes of a breaker may go, unless their call went out. */
static void
undo_probe(JournalRecord *r, uint64 parkings)
{
	QuotaBucket *b = lock_bucket(r->object);
	const QuotaPermit *p = &quota_permits[r->u.probe.permit &
										  ((1 << QUOTA_PERMIT_INDEX_BITS) - 1)];

	if (r->u.probe.permit == 0 || p->id != r->u.probe.permit || !p->spent)
		breaker_return(&b->breaker, r->u.probe.n, r->u.probe.until_ns);
	permit_bucket_opened(r->object, parkings);
	pg_atomic_fetch_sub_u32(&b->pins, 1);
}

/* After the period has rolled nothing returns to the new one. */
static void
give_back(QuotaBucket *b, const JournalRecord *r, int64 n)
{
	if (b->period_start_us == r->u.adjust.period_us)
		credit_count(b, r->u.adjust.at_us, -n);
}

/* A grant that expires is given now, or was none. */
static void
end_grant(QuotaBucket *b, const JournalRecord *r, bool commit)
{
	if (r->u.adjust.grant_us != DT_NOBEGIN &&
		b->period_start_us == r->u.adjust.period_us)
		credit_grant_end(b, r->u.adjust.grant_us, commit);
}

/* What was adjusted of lost holds: they are resolved, or else as they were. */
static void
end_lapsed(QuotaBucket *b, const JournalRecord *r, bool commit)
{
	if (r->u.adjust.lapsed == 0 || b->period_start_us != r->u.adjust.period_us)
		return;
	credit_lapse_settle(b, commit ? r->u.adjust.lapsed : 0, r->u.adjust.at_us);
}

/* Holds what protects a permit that may have ended since; QUOTA_NO_INDEX if so. */
static uint32
lock_permit_if_there(int64 id, Oid extension)
{
	uint32		index;

	journal_unlock();
	index = permit_lock(id, MyDatabaseId, extension);
	if (index != QUOTA_NO_INDEX)
	{
		locked_slot = quota_permits[index].owner;
		locked_database = quota_permits[index].database_slot;
	}
	return index;
}

/* The permit ends when it did, unless it is gone or was extended again. */
static void
undo_extend(JournalRecord *r)
{
	uint32		index = lock_permit_if_there(r->u.extend.id,
											 r->u.extend.extension);

	if (index != QUOTA_NO_INDEX)
		permit_undo_extended(index, r->u.extend.after_ns, r->u.extend.before_ns);
}

/* Calls of a permit are given back, or not. */
static void
end_give(JournalRecord *r, bool commit)
{
	uint32		index = lock_permit_if_there(r->u.leave.id, r->u.leave.extension);

	if (index == QUOTA_NO_INDEX)
		return;
	if (commit)
		permit_commit_given(index, r->u.leave.n, quota_now_ns());
	else
		permit_undo_given(index, r->u.leave.n);
}

/* Jobs leave their batch, if its permit is still there. */
static void
commit_leave(JournalRecord *r)
{
	uint32		index = lock_permit_if_there(r->u.leave.id, r->u.leave.extension);

	if (index != QUOTA_NO_INDEX)
		permit_batch_leave(index, r->u.leave.n);
}

/* What it gives counts from now on; what it took has counted before. */
static void
commit_adjust(JournalRecord *r)
{
	QuotaBucket *b = &quota_buckets[r->object];

	if (r->u.adjust.given > 0 || r->u.adjust.loose != 0)
	{
		lock_bucket(r->object);
		b->giving -= r->u.adjust.given;
		give_back(b, r, r->u.adjust.given);
		if (b->period_start_us == r->u.adjust.period_us)
			permit_loose_resolved(b, r->u.adjust.loose, r->u.adjust.overdue);
		end_lapsed(b, r, true);
		end_grant(b, r, true);
	}
	if (r->u.adjust.given > 0)
		permit_bucket_opened(r->object, 0);
	pg_atomic_fetch_sub_u32(&b->pins, 1);
}

/* Takes a settlement back. */
static void
undo_adjust(JournalRecord *r, uint64 parkings)
{
	QuotaBucket *b = lock_bucket(r->object);

	b->giving -= r->u.adjust.given;
	give_back(b, r, r->u.adjust.taken);
	end_lapsed(b, r, false);
	end_grant(b, r, false);
	permit_bucket_opened(r->object, parkings);
	pg_atomic_fetch_sub_u32(&b->pins, 1);
}

/* See journal_records.h. */
void
journal_undo_record(JournalRecord *r, uint64 parkings)
{
	QuotaFlow  *flow;
	QuotaBucket *b;

	switch ((JournalRecordType) r->type)
	{
		case RECORD_TAKE:
		case RECORD_FIRST:
			undo_take(r, parkings);
			break;
		case RECORD_CALL:
			break;
		case RECORD_ADJUST:
			undo_adjust(r, parkings);
			break;
		case RECORD_SHADOW:
			b = lock_bucket(r->object);
			if (b->period_start_us == r->u.shadow.period_us)
				b->shadow_used = Max(b->shadow_used - r->u.shadow.n, 0);
			pg_atomic_fetch_sub_u32(&b->pins, 1);
			break;
		case RECORD_PROBE:
			undo_probe(r, parkings);
			break;
		case RECORD_LEAD:
			lock(quota_shares[r->object].entry.owner);
			flow_apply_unlead(r->object, &r->u.lead);
			pg_atomic_fetch_sub_u32(&quota_shares[r->object].pins, 1);
			break;
		case RECORD_CLAIM:
			flow = &quota_flows[r->object];
			lock(flow->entry.owner);
			flow_apply_unclaim(&r->u.c.claim, quota_now_ns());
			pg_atomic_fetch_sub_u32(&flow->pins, 1);
			break;
		case RECORD_EXTEND:
			undo_extend(r);
			break;
		case RECORD_GIVE:
			end_give(r, false);
			break;
		case RECORD_NOTE:
			flow = &quota_flows[r->object];
			if (r->u.note.on_abort || r->u.note.places != 0)
			{
				lock(flow->entry.owner);
				flow_add_places(flow, -r->u.note.places);
				flow_apply_note(r->object, &r->u.note, false, quota_now_ns());
			}
			pg_atomic_fetch_sub_u32(&flow->pins, 1);
			break;
		case RECORD_LEAVE:
			break;
		case RECORD_FINISHED:
			pg_atomic_fetch_sub_u32(&quota_flows[r->object].pins, 1);
			break;
		case RECORD_DEADLINE:
			if (r->u.deadline.on_abort)
				deadline_lower(r->object, r->u.deadline.start_before);
			break;
		case RECORD_PAUSE:
			journal_unlock();
			if (r->u.pause.act == PAUSE_TAKEN)
				pause_undo_take(r->object, r->u.pause.id);
			break;
		case RECORD_LOAD_BUCKET:
			b = &quota_buckets[r->object];
			undo_load(&b->load, b->entry.owner);
			pg_atomic_fetch_sub_u32(&b->pins, 1);
			break;
		case RECORD_LOAD_QUEUE:
			undo_load(&quota_slots[r->object].queue_load, r->object);
			break;
		case RECORD_COUNT_QUEUE:
			journal_unlock();
			recount_abandon(r->object);
			break;
	}
}

/* A worker tells of the job. */
static void
commit_finished(JournalRecord *r)
{
	QuotaFlow  *flow = &quota_flows[r->object];

	lock(flow->entry.owner);
	notify_push(r->object, r->u.finished.job, r->u.finished.state);
	pg_atomic_fetch_sub_u32(&flow->pins, 1);
	quota_work_due(r->u.finished.database_slot, quota_now_ns());
}

/* See journal_records.h. */
void
journal_commit_record(JournalRecord *r)
{
	QuotaFlow  *flow;

	switch ((JournalRecordType) r->type)
	{
		case RECORD_CALL:
			break;
		case RECORD_TAKE:
		case RECORD_FIRST:
			floor_unpin(r->u.rate.portion);
			pg_atomic_fetch_sub_u32(&quota_buckets[r->object].pins, 1);
			break;
		case RECORD_SHADOW:
		case RECORD_PROBE:
			pg_atomic_fetch_sub_u32(&quota_buckets[r->object].pins, 1);
			break;
		case RECORD_ADJUST:
			commit_adjust(r);
			break;
		case RECORD_LEAD:
			pg_atomic_fetch_sub_u32(&quota_shares[r->object].pins, 1);
			break;
		case RECORD_CLAIM:
			flow = &quota_flows[r->object];
			lock(flow->entry.owner);
			flow_apply_claimed(&r->u.c.claim);
			pg_atomic_fetch_sub_u32(&flow->pins, 1);
			break;
		case RECORD_EXTEND:
			break;
		case RECORD_GIVE:
			end_give(r, true);
			break;
		case RECORD_NOTE:
			/* stays pinned until journal_give_up_places() */
			lock(quota_flows[r->object].entry.owner);
			flow_apply_note(r->object, &r->u.note, true, quota_now_ns());
			break;
		case RECORD_LEAVE:
			commit_leave(r);
			break;
		case RECORD_FINISHED:
			commit_finished(r);
			break;
		case RECORD_DEADLINE:
			if (r->u.deadline.on_commit)
				deadline_lower(r->object, r->u.deadline.start_before);
			break;
		case RECORD_PAUSE:
			journal_unlock();
			pause_commit(r->object, r->u.pause.id, r->u.pause.act,
						 r->u.pause.version);
			break;
		case RECORD_LOAD_BUCKET:
		case RECORD_LOAD_QUEUE:
		case RECORD_COUNT_QUEUE:
			journal_undo_record(r, 0);	/* not reached: loads end in their call */
			break;
	}
}

/* See journal_records.h. */
void
journal_give_up_places(const JournalRecord *r)
{
	QuotaFlow  *flow = &quota_flows[r->object];

	if (r->u.note.places != 0)
	{
		lock(flow->entry.owner);
		flow_add_places(flow, -r->u.note.places);
	}
	pg_atomic_fetch_sub_u32(&flow->pins, 1);
}
