/*
 * journal_end.c
 *		What happens to the journal at the ends of transactions and
 *		subtransactions, and when a call of ours undoes what it has just taken.
 *		The protocol is told in journal.c; what becomes of each record, and the locks
 *		for that, are in journal_record_end.c.
 *
 * Everything here runs in callbacks, or may: no allocation, no error, no
 * look-up; but for what comes before the commit (PRE_COMMIT, PRE_PREPARE).
 */
#include "journal_records.h"

#include "access/xact.h"
#include "error.h"
#include "mark.h"
#include "permit.h"
#include "place.h"
#include "recount.h"
#include "waiter.h"

/* Undoes records and taken permits back to the mark. */
static void
undo_to(JournalMark mark)
{
	while (journal_nrecords > mark.nrecords)
		journal_undo_record(&journal_records[--journal_nrecords], mark.parkings);
	while (journal_taken_head != mark.taken_head)
	{
		uint32		index = journal_taken_head;

		journal_taken_head = quota_permits[index].taken_next;
		journal_lock_permit(index);
		permit_undo_taken(index, mark.parkings, quota_now_ns());
	}
	journal_unlock();
}

/* See journal.h. */
void
journal_undo(JournalMark mark)
{
	undo_to(mark);
}

/* Unmarks permits of one subtransaction (InvalidSubTransactionId: of all). */
static void
unmark(SubTransactionId sub)
{
	while (journal_marked_head != QUOTA_NO_INDEX &&
		   (sub == InvalidSubTransactionId ||
			quota_permits[journal_marked_head].marked_sub == sub))
	{
		uint32		index = journal_marked_head;

		journal_marked_head = quota_permits[index].marked_next;
		journal_lock_permit(index);
		permit_undo_marked(index);
	}
	journal_unlock();
}

/* Undoes everything of the subtransaction and its committed children. */
static void
at_subabort(SubTransactionId sub)
{
	JournalMark mark = journal_mark();

	waiter_hold();
	journal_forget_locks();
	unmark(sub);
	while (mark.nrecords > 0 && journal_records[mark.nrecords - 1].sub == sub)
		mark.nrecords--;
	while (mark.taken_head != QUOTA_NO_INDEX &&
		   quota_permits[mark.taken_head].taken_sub == sub)
		mark.taken_head = quota_permits[mark.taken_head].taken_next;
	undo_to(mark);
	waiter_release(false);
}

/* What was the child's is the parent's. */
static void
at_subcommit(SubTransactionId sub, SubTransactionId parent)
{
	uint32		i;

	for (int n = journal_nrecords; n > 0 && journal_records[n - 1].sub == sub; n--)
		journal_records[n - 1].sub = parent;
	for (i = journal_taken_head;
		 i != QUOTA_NO_INDEX && quota_permits[i].taken_sub == sub;
		 i = quota_permits[i].taken_next)
		quota_permits[i].taken_sub = parent;
	for (i = journal_marked_head;
		 i != QUOTA_NO_INDEX && quota_permits[i].marked_sub == sub;
		 i = quota_permits[i].marked_next)
		quota_permits[i].marked_sub = parent;
}

/* Everything is final. */
static void
at_commit(void)
{
	for (int i = 0; i < journal_nrecords; i++)
		journal_commit_record(&journal_records[i]);
	for (int i = 0; i < journal_nrecords; i++)
		if (journal_records[i].type == RECORD_NOTE)
			journal_give_up_places(&journal_records[i]);
	journal_nrecords = 0;
	/* taken before marked: a permit may be in both chains */
	while (journal_taken_head != QUOTA_NO_INDEX)
	{
		uint32		index = journal_taken_head;

		journal_taken_head = quota_permits[index].taken_next;
		journal_lock_permit(index);
		permit_commit_taken(index);
	}
	while (journal_marked_head != QUOTA_NO_INDEX)
	{
		uint32		index = journal_marked_head;

		journal_marked_head = quota_permits[index].marked_next;
		journal_lock_permit(index);
		permit_commit_marked(index, quota_now_ns());
	}
	journal_unlock();
}

/* Undoes everything. */
static void
at_abort(void)
{
	const JournalMark beginning = {0, QUOTA_NO_INDEX, 0};

	waiter_hold();
	journal_forget_locks();
	unmark(InvalidSubTransactionId);
	undo_to(beginning);
	waiter_release(false);
}

/* Transaction callback. */
static void
on_xact(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_PREPARE:
			/* who only asked, reported, or found nothing to do leaves nothing to do */
			if (!journal_is_empty() || quota_change_pending())
				quota_error_prepare();
			break;
		case XACT_EVENT_PRE_COMMIT:
			quota_change_before_commit();
			mark_secure();
			if (journal_nrecords > 0)
				recount_announce();
			break;
		case XACT_EVENT_COMMIT:
			waiter_hold();
			quota_change_commit();
			at_commit();
			place_forget(InvalidSubTransactionId);
			recount_forget();
			waiter_release(false);
			journal_clear();
			break;
		case XACT_EVENT_ABORT:
			quota_change_abort();
			place_forget(InvalidSubTransactionId);
			mark_forget(InvalidSubTransactionId);
			at_abort();
			recount_forget();
			journal_clear();
			break;
		default:
			break;
	}
}

/* Subtransaction callback. */
static void
on_subxact(SubXactEvent event, SubTransactionId sub,
		   SubTransactionId parent, void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		quota_change_subabort(sub);
		place_forget(sub);
		mark_forget(sub);
		at_subabort(sub);
	}
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		quota_change_subcommit(sub, parent);
		at_subcommit(sub, parent);
	}
}

/* Registers the callbacks, once, in the postmaster; children inherit them. */
void
journal_init(void)
{
	RegisterXactCallback(on_xact, NULL);
	RegisterSubXactCallback(on_subxact, NULL);
}
