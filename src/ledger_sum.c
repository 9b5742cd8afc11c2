/*
 * ledger_sum.c
 *		What the entries of an account come to.
 *
 * The newest fold of the account (ledger_fold.c) says what all entries of older
 * transactions come to in the latest period they are charged in; only the entries
 * of transactions that are not older are read.  So it does not matter how many
 * entries an account has.
 *
 * A fold serves for the very period it is of, and for later ones, in which it has
 * nothing.  Another period's entries are all read, by the time they are charged at:
 * that is one which is over, or the first one of a limit whose calendar was changed.
 *
 * Folds are not needed: without one everything is read.  One that becomes visible
 * while an account is read is as good as the one before it with the entries that
 * both don't have in common, as no entry ever changes.
 */
#include "ledger.h"

#include "storage/lmgr.h"
#include "utils/fmgroids.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"
#include "utils/xid8.h"

/* See ledger.h. */
void
ledger_take_locks(void)
{
	LockRelationOid(quota_relation(QUOTA_REL_LEDGER), RowExclusiveLock);
	LockRelationOid(quota_relation(QUOTA_REL_LEDGER_ACCOUNT), AccessShareLock);
	LockRelationOid(quota_relation(QUOTA_REL_LEDGER_ORDER), AccessShareLock);
	LockRelationOid(quota_relation(QUOTA_REL_LEDGER_EXPIRING), AccessShareLock);
	LockRelationOid(quota_relation(QUOTA_REL_EXPIRED), AccessShareLock);
	LockRelationOid(quota_relation(QUOTA_REL_EXPIRED_PKEY), AccessShareLock);
	LockRelationOid(quota_relation(QUOTA_REL_FOLDS), RowExclusiveLock);
	LockRelationOid(quota_relation(QUOTA_REL_FOLDS_PKEY), AccessShareLock);
}

/* An entry that counts once its transaction has committed, and may yet not. */
static bool
is_open(TupleTableSlot *slot, bool in_progress)
{
	return (in_progress || row_is_ours(slot)) &&
		row_int64(slot, LEDGER_AMOUNT) != 0;
}

/* The fold in a row. */
static LedgerFold
read_fold(TupleTableSlot *slot)
{
	LedgerFold	fold;
	bool		isnull;

	fold.upto = U64FromFullTransactionId(
		DatumGetFullTransactionId(slot_getattr(slot, FOLDS_UPTO, &isnull)));
	fold.entries = row_int64(slot, FOLDS_ENTRIES);
	fold.charged_at = row_int64(slot, FOLDS_CHARGED_AT);
	fold.period_start = row_int64(slot, FOLDS_PERIOD_START);
	fold.period_end = row_int64(slot, FOLDS_PERIOD_END);
	fold.sum.held = row_int64(slot, FOLDS_HELD);
	fold.sum.used = row_int64(slot, FOLDS_POSTED) + fold.sum.held;
	fold.sum.given = row_int64(slot, FOLDS_GIVEN);
	return fold;
}

/* See ledger.h. */
LedgerFold
ledger_newest_fold(const uint8 *account)
{
	LedgerFold	fold = {.charged_at = DT_NOBEGIN};
	RowTable   *folds = row_open(QUOTA_REL_FOLDS);
	TupleTableSlot *slot = row_slot(folds);
	ScanKeyData key;
	RowScan    *scan;
	bool		in_progress = true;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_UUID_EQ,
				PointerGetDatum(account));
	scan = row_scan_begin(folds, QUOTA_REL_FOLDS_PKEY, 1, &key);
	while (in_progress && row_scan_back(scan, slot, &in_progress))
		if (!in_progress)
			fold = read_fold(slot);
	row_scan_end(scan);
	row_close(folds);
	return fold;
}

/* See ledger.h. */
RowScan *
ledger_scan_xids(RowTable *ledger, const uint8 *account, uint64 from,
				 uint64 below)
{
	ScanKeyData keys[3];

	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_UUID_EQ,
				PointerGetDatum(account));
	ScanKeyInit(&keys[1], 2, BTGreaterEqualStrategyNumber, F_XID8GE,
				FullTransactionIdGetDatum(FullTransactionIdFromU64(from)));
	ScanKeyInit(&keys[2], 2, BTLessStrategyNumber, F_XID8LT,
				FullTransactionIdGetDatum(FullTransactionIdFromU64(below)));
	return row_scan_begin(ledger, QUOTA_REL_LEDGER_ORDER, 3, keys);
}

/* See ledger.h. */
RowScan *
ledger_scan_charged(RowTable *ledger, QuotaRelation index, const uint8 *account,
					TimestampTz start, TimestampTz end)
{
	ScanKeyData keys[3];

	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_UUID_EQ,
				PointerGetDatum(account));
	ScanKeyInit(&keys[1], 2, BTGreaterEqualStrategyNumber, F_TIMESTAMPTZ_GE,
				TimestampTzGetDatum(start));
	ScanKeyInit(&keys[2], 2, BTLessStrategyNumber, F_TIMESTAMPTZ_LT,
				TimestampTzGetDatum(end));
	return row_scan_begin(ledger, index, 3, keys);
}

/* See ledger.h. */
TimestampTz
ledger_next_charged(const uint8 *account, TimestampTz from)
{
	RowTable   *ledger = row_open(QUOTA_REL_LEDGER);
	TupleTableSlot *slot = row_slot(ledger);
	RowScan    *scan = ledger_scan_charged(ledger, QUOTA_REL_LEDGER_ACCOUNT, account,
											   from, DT_NOEND);
	TimestampTz charged_at = DT_NOEND;
	bool		in_progress;

	while (charged_at == DT_NOEND && row_scan_next(scan, slot, &in_progress))
		if (!in_progress)
			charged_at = row_int64(slot, LEDGER_CHARGED_AT);
	row_scan_end(scan);
	row_close(ledger);
	return charged_at;
}

/* 22003 for one that does not fit. */
static int64
checked(int128 sum)
{
	if (sum < PG_INT64_MIN || sum > PG_INT64_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("sum of ledger entries is out of range")));
	return (int64) sum;
}

/*
 * The fold to begin with for a period, NULL = none will do.  Changes its sum to that
 * of the period.
 */
static const LedgerFold *
usable(LedgerFold *fold, TimestampTz start, TimestampTz end, uint64 below)
{
	if (fold->upto == 0 || fold->upto > below)
		return NULL;
	if (fold->period_start == start && fold->period_end == end)
		return fold;
	if (fold->charged_at >= start)
		return NULL;
	memset(&fold->sum, 0, sizeof(fold->sum));
	return fold;
}

/* The sum of entries that are not in the fold (NULL: of all), and what is in it. */
static LedgerSum
sum_entries(const uint8 *account, TimestampTz start, TimestampTz end,
			uint64 below, const LedgerFold *fold, bool *open)
{
	RowTable   *ledger = row_open(QUOTA_REL_LEDGER);
	TupleTableSlot *slot = row_slot(ledger);
	RowScan    *scan = fold ?
		ledger_scan_xids(ledger, account, fold->upto, below) :
		ledger_scan_charged(ledger, QUOTA_REL_LEDGER_ACCOUNT, account, start, end);
	int128		used = fold ? fold->sum.used : 0;
	int128		held = fold ? fold->sum.held : 0;
	int128		given = fold ? fold->sum.given : 0;
	bool		in_progress;
	LedgerSum	sum;

	while (row_scan_next(scan, slot, &in_progress))
	{
		TimestampTz at = row_int64(slot, LEDGER_CHARGED_AT);

		if (at < start || at >= end || ledger_xid(slot) >= below)
			continue;
		if (is_open(slot, in_progress))
			*open = true;
		else if (!in_progress)
		{
			used += row_int64(slot, LEDGER_AMOUNT);
			held += row_int64(slot, LEDGER_HELD);
			if (row_int64_or_0(slot, LEDGER_PERMIT) == 0)
				given -= row_int64(slot, LEDGER_AMOUNT);
		}
	}
	row_scan_end(scan);
	row_close(ledger);
	sum.used = checked(used);
	sum.held = checked(held);
	sum.given = checked(given);
	return sum;
}

/* See ledger.h. */
LedgerSum
ledger_sum(const uint8 *account, TimestampTz start, TimestampTz end,
		   uint64 below, bool *open)
{
	LedgerFold	newest = ledger_newest_fold(account);

	return sum_entries(account, start, end, below,
					   usable(&newest, start, end, below), open);
}

/* See ledger.h. */
LedgerSum
ledger_sum_entries(const uint8 *account, TimestampTz start, TimestampTz end,
				   bool *open)
{
	return sum_entries(account, start, end, LEDGER_ALL_XIDS, NULL, open);
}

/* See ledger.h. */
TimestampTz
ledger_newest(const uint8 *account, bool *open)
{
	RowTable   *ledger = row_open(QUOTA_REL_LEDGER);
	TupleTableSlot *slot = row_slot(ledger);
	ScanKeyData key;
	RowScan    *scan;
	TimestampTz newest = DT_NOBEGIN;
	bool		in_progress;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_UUID_EQ,
				PointerGetDatum(account));
	scan = row_scan_begin(ledger, QUOTA_REL_LEDGER_ACCOUNT, 1, &key);
	while (newest == DT_NOBEGIN && row_scan_back(scan, slot, &in_progress))
	{
		if (is_open(slot, in_progress))
			*open = true;
		else
			newest = row_int64(slot, LEDGER_CHARGED_AT);
	}
	row_scan_end(scan);
	row_close(ledger);
	return newest;
}
