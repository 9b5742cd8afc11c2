/*
 * recount.c
 *		Counting the unfinished jobs of a database while they change.
 *
 * After a start of the server the flows can be used long before somebody has read
 * all rows of quota.jobs.  Whoever reads them uses a snapshot, while others claim,
 * finish and enqueue.  What is wanted is, for each flow,
 *
 *		depth = ready or scheduled by the rows of the snapshot
 *				+ what was committed later - claims of open transactions
 *
 * and in_flight likewise.  So for every commit it must be known whether the
 * snapshot shows it.
 *
 * PROTOCOL
 *
 * A transaction announces itself (its xid, in a place of its backend's) before it
 * commits, and stays announced until its commit callback has told all flows.
 *
 * Who counts sets "following" in the database's slot, takes the snapshot, and marks
 * all who are announced and committed by the snapshot; the last two under
 * recount_lock.  It has set the flows' "later" counts to 0 before.
 *
 * A commit callback that changes a flow's counts looks, under the flow's lock,
 * whether the database is following; if so it takes recount_lock, and looks for
 * its mark:
 *
 *		not following	counts as ever
 *		marked			leaves the counts alone: the snapshot has it
 *		not marked		counts as ever, and in the flow's "later" too
 *
 * When the rows are read the flows' counts are set, one by one, under their lock;
 * then, when nobody who is marked is announced any more, "following" ends.
 *
 * WHY IT IS RIGHT.  Let T be a transaction, B the snapshot.
 *
 * - T's callback does not see "following".  That was set before B was taken, so T
 *	 had ended before: B shows it.  Its change of the flow, in the same section in
 *	 which it looked, comes before the flow's counts are set from B's rows.
 * - T's callback sees "following", T ended before B: it was announced when B was
 *	 taken, and is marked before the callback gets recount_lock.  Until the counts
 *	 are set it does not matter what it does to them, and then it must do nothing.
 *	 "Following" does not end before its callback has.
 * - T's callback sees "following", and T ended after B: no snapshot of this
 *	 database has shown it while it was announced, so it is not marked.  If it comes
 *	 before the flow's counts are set they get it as "later", else directly.
 * - A mark may be one of an earlier count that failed: T had ended then, so later
 *	 snapshots show it too.  A backend's next transaction has another xid.
 *
 * CLAIMS count from the moment they are made.  The flow knows how many of its
 * claims belong to transactions that have not ended ("open"); their rows are not
 * in any snapshot of others.  A claim that commits is first undone as an open one
 * and then counted as a commit.
 *
 * WHO COUNTS must not see rows that it has written itself and not committed: the
 * snapshot is one of the beginning of its transaction in that respect.
 *
 * IF IT FAILS the journal calls recount_abandon(); the counts are as unknown as
 * before, and anybody may count again.  A "later" count that is wrong since then
 * is set to 0 by the next one before it follows.
 *
 * recount_lock is the last in the order of locks of ours; the server's lock of the
 * process array is taken below it.
 */
#include "recount.h"

#include "access/transam.h"
#include "access/xact.h"
#include "journal.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "utils/snapmgr.h"

/* How often to look whether somebody has ended. */
#define DRAIN_PAUSE_US 200

/* ---- for commits ---- */

/* The place of this backend. */
static QuotaWriter *
my_place(void)
{
	return &quota_writers[QUOTA_PROC_NUMBER];
}

/* See recount.h. */
void
recount_announce(void)
{
	QuotaWriter *writer = my_place();

	writer->database = MyDatabaseId;
	pg_write_barrier();
	writer->xid = GetTopTransactionIdIfAny();
}

/* See recount.h. */
void
recount_forget(void)
{
	my_place()->xid = InvalidTransactionId;
}

/* See recount.h. */
RecountSide
recount_side(uint32 slot)
{
	uint32		database_slot = quota_slots[slot].database_slot;
	RecountSide side;

	if (database_slot == QUOTA_NO_INDEX ||
		pg_atomic_read_u32(&quota_slots[database_slot].following) == 0)
		return RECOUNT_NONE;
	LWLockAcquire(quota_shared->recount_lock, LW_SHARED);
	side = TransactionIdIsValid(my_place()->xid) &&
		my_place()->seen == my_place()->xid ? RECOUNT_SEEN : RECOUNT_LATER;
	LWLockRelease(quota_shared->recount_lock);
	return side;
}

/* ---- for who counts ---- */

/* See recount.h. */
bool
recount_claim(uint32 database_slot)
{
	QuotaSlot  *slot = &quota_slots[database_slot];
	bool		ours;

	journal_reserve(1);
	quota_lock(&slot->lock);
	ours = slot->queue_load == QUOTA_LOAD_USABLE && !slot->counting;
	if (ours)
	{
		slot->counting = true;
		journal_counting_queue(database_slot);
	}
	LWLockRelease(&slot->lock);
	return ours;
}

/* The snapshot shows what the transaction, which is none of ours, has committed. */
static bool
is_seen(TransactionId xid, Snapshot snapshot)
{
	if (!TransactionIdPrecedes(xid, snapshot->xmax))
		return false;
	for (uint32 i = 0; i < snapshot->xcnt; i++)
		if (TransactionIdEquals(xid, snapshot->xip[i]))
			return false;
	return true;
}

/* Marks whom the snapshot shows; recount_lock held. */
static void
mark_seen(Snapshot snapshot)
{
	for (int i = 0; i < MaxBackends; i++)
	{
		QuotaWriter *writer = &quota_writers[i];
		TransactionId xid = writer->xid;

		pg_read_barrier();
		if (TransactionIdIsValid(xid) && writer->database == MyDatabaseId &&
			is_seen(xid, snapshot))
			writer->seen = xid;
	}
}

/* See recount.h. */
Snapshot
recount_snapshot(uint32 database_slot)
{
	Snapshot	snapshot;

	/* the first one of a backend allocates what the second one uses */
	(void) GetLatestSnapshot();
	LWLockAcquire(quota_shared->recount_lock, LW_EXCLUSIVE);
	pg_atomic_write_u32(&quota_slots[database_slot].following, 1);
	snapshot = GetLatestSnapshot();
	mark_seen(snapshot);
	LWLockRelease(quota_shared->recount_lock);
	snapshot->curcid = FirstCommandId;
	return RegisterSnapshot(snapshot);
}

/* See recount.h. */
void
recount_drain(void)
{
	for (int i = 0; i < MaxBackends; i++)
	{
		volatile QuotaWriter *writer = &quota_writers[i];

		while (TransactionIdIsValid(writer->xid) && writer->xid == writer->seen &&
			   writer->database == MyDatabaseId)
		{
			CHECK_FOR_INTERRUPTS();
			pg_usleep(DRAIN_PAUSE_US);
		}
	}
}

/* Nobody counts; database slot's lock held. */
static void
stop_counting(QuotaSlot *slot)
{
	pg_atomic_write_u32(&slot->following, 0);
	slot->counting = false;
}

/* See recount.h. */
void
recount_finish(uint32 database_slot)
{
	QuotaSlot  *slot = &quota_slots[database_slot];

	quota_lock(&slot->lock);
	stop_counting(slot);
	slot->queue_load = QUOTA_LOAD_READY;
	journal_loaded();
	LWLockRelease(&slot->lock);
	ConditionVariableBroadcast(&slot->load_cv);
}

/* See recount.h. */
void
recount_abandon(uint32 database_slot)
{
	QuotaSlot  *slot = &quota_slots[database_slot];

	quota_lock(&slot->lock);
	stop_counting(slot);
	LWLockRelease(&slot->lock);
	ConditionVariableBroadcast(&slot->load_cv);
}
