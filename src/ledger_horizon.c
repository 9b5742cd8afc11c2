/*
 * ledger_horizon.c
 *		Up to where the ledger is final.
 *
 * THE ORDER OF ENTRIES
 *
 * An entry bears the number of its transaction (xid).  The entries of an account are
 * in order by xid, then id.  Once every transaction older than some number has ended
 * (a snapshot's xmin says which), the entries of those are all there, and none can
 * come before or between them: their order, hence the sequence number of each and the
 * balance after it, is final.  Nobody waits for that, and nothing is written into an
 * entry.  An entry that is restored from a dump gets the number of the transaction
 * that inserts it, so it comes after everything that was folded before.
 *
 * INSTANTS
 *
 * An instant counts as complete when all transactions that were open then have ended:
 * the worker notes an instant and then which numbers have been given out, and waits
 * for the horizon to get there.  So month's end waits for open transactions, and no
 * one else does.
 *
 * What is noted is in the slot of the database (slot->fold_...): only its one running
 * worker reads and writes that, without a lock.  Periods and grants that are over are
 * walked by that instant, then by account or id: at month's end there are as many of one
 * instant as there are accounts, and some get no row.
 */
#include "credit.h"

#include "access/transam.h"
#include "utils/snapmgr.h"

/* All transactions older than this have ended. */
static uint64
oldest_xid(void)
{
	TransactionId xmin = GetLatestSnapshot()->xmin;
	FullTransactionId next = ReadNextFullTransactionId();
	uint32		epoch = EpochFromFullTransactionId(next);

	if (xmin > XidFromFullTransactionId(next))
		epoch--;
	return U64FromFullTransactionId(FullTransactionIdFromEpochAndXid(epoch, xmin));
}

/* See credit.h. */
LedgerHorizon
ledger_look(QuotaSlot *slot)
{
	LedgerHorizon horizon;

	if (slot->fold_seen_us == 0)
	{
		slot->fold_seen_us = quota_wall_us();
		slot->fold_seen_xid = U64FromFullTransactionId(ReadNextFullTransactionId());
	}
	horizon.xid = oldest_xid();
	if (horizon.xid >= slot->fold_seen_xid)
	{
		slot->fold_complete_us = slot->fold_seen_us;
		slot->fold_seen_us = 0;
	}
	horizon.complete_us = Min(slot->fold_complete_us, quota_wall_us());
	/* the clock was set back */
	if (slot->fold_walks.closed_us > horizon.complete_us + 1)
		ledger_close_from(&slot->fold_walks, horizon.complete_us + 1);
	if (slot->fold_walks.expired_us > horizon.complete_us + 1)
		ledger_expire_from(&slot->fold_walks, horizon.complete_us + 1);
	return horizon;
}

/* See credit.h. */
void
ledger_close_from(LedgerWalks *walks, TimestampTz at)
{
	walks->closed_us = at;
	memset(walks->closed_account, 0, sizeof(walks->closed_account));
}

/* See credit.h. */
void
ledger_expire_from(LedgerWalks *walks, TimestampTz at)
{
	walks->expired_us = at;
	walks->expired_id = 0;
}
