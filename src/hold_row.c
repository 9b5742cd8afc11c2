/*
 * hold_row.c
 *		Rows of open holds.
 *
 * An open hold is one row of quota.holds; what it holds of which account are its
 * entries of kind 'hold' in the ledger, and of kind 'release' for calls given back,
 * which carry the same permit and created_at.
 * Deleting the row resolves the hold: two transactions can't both delete it, so it
 * happens once.
 */
#include "ledger.h"

#include "row_write.h"
#include "utils/fmgroids.h"
#include "utils/timestamp.h"

/* Attribute numbers of quota.holds */
enum
{
	HOLDS_PERMIT = 1,
	HOLDS_TENANT,
	HOLDS_PROVIDER,
	HOLDS_JOB,
	HOLDS_CALLS,
	HOLDS_CREATED_AT,
	HOLDS_EXPIRES_AT,
	HOLDS_REFUND
};

/* Opens the hold; throws 23505 when it is open already. */
void
hold_insert(const HoldRow *hold)
{
	RowTable   *holds = row_open(QUOTA_REL_HOLDS);
	RowValues	row = row_values(holds);

	row_set_nonzero(&row, HOLDS_PERMIT, hold->permit);
	row_set_text(&row, HOLDS_TENANT, hold->tenant);
	row_set_text(&row, HOLDS_PROVIDER, hold->provider);
	row_set_nonzero(&row, HOLDS_JOB, hold->job);
	row_set(&row, HOLDS_CALLS, Int32GetDatum(hold->calls));
	row_set(&row, HOLDS_CREATED_AT, TimestampTzGetDatum(hold->created_at));
	row_set(&row, HOLDS_EXPIRES_AT, TimestampTzGetDatum(hold->expires_at));
	row_set(&row, HOLDS_REFUND, BoolGetDatum(hold->refund));
	row_insert(holds, &row);
	row_close(holds);
}

/* What the row says, but for names. */
static void
read_hold(TupleTableSlot *slot, HoldRow *hold)
{
	memset(hold, 0, sizeof(*hold));
	hold->permit = row_int64(slot, HOLDS_PERMIT);
	hold->job = row_int64_or_0(slot, HOLDS_JOB);
	hold->calls = row_int32(slot, HOLDS_CALLS);
	hold->created_at = row_int64(slot, HOLDS_CREATED_AT);
	hold->expires_at = row_int64(slot, HOLDS_EXPIRES_AT);
	hold->refund = row_bool(slot, HOLDS_REFUND);
}

/* Finds the row of a hold into slot; HOLD_TAKEN = it is there and settled. */
static HoldOutcome
find_hold(RowTable *holds, int64 permit, TupleTableSlot *slot)
{
	RowScan    *scan = row_scan_id(holds, QUOTA_REL_HOLDS_PKEY, permit);
	bool		in_progress = false;
	bool		found = row_scan_next(scan, slot, &in_progress);

	row_scan_end(scan);
	return !found ? HOLD_NONE : in_progress ? HOLD_BUSY : HOLD_TAKEN;
}

/* The same to write to it: its row is locked, or another transaction has it. */
static HoldOutcome
lock_hold(RowTable *holds, int64 permit, TupleTableSlot *slot)
{
	HoldOutcome outcome = find_hold(holds, permit, slot);

	if (outcome == HOLD_TAKEN && row_lock(holds, slot) != ROW_LOCKED)
		outcome = HOLD_BUSY;
	return outcome;
}

/*
 * Deletes the row of a hold: from here on this transaction resolves it.  Fills in all
 * but the names.
 */
HoldOutcome
hold_delete(int64 permit, HoldRow *hold)
{
	RowTable   *holds = row_open(QUOTA_REL_HOLDS);
	TupleTableSlot *slot = row_slot(holds);
	HoldOutcome outcome = lock_hold(holds, permit, slot);

	if (outcome == HOLD_TAKEN)
	{
		read_hold(slot, hold);
		row_delete(holds, slot);
	}
	row_close(holds);
	return outcome;
}

/*
 * Moves the end of an open hold, so that a worker after a crash waits for it.
 * HOLD_TAKEN: moved.
 */
HoldOutcome
hold_extend(int64 permit, TimestampTz expires_at)
{
	RowTable   *holds = row_open(QUOTA_REL_HOLDS);
	TupleTableSlot *slot = row_slot(holds);
	HoldOutcome outcome = lock_hold(holds, permit, slot);
	RowValues	row = row_values(holds);

	if (outcome == HOLD_TAKEN)
	{
		row_set(&row, HOLDS_EXPIRES_AT, TimestampTzGetDatum(expires_at));
		row_update(holds, slot, &row);
	}
	row_close(holds);
	return outcome;
}

/*
 * The hold is for n calls less, if it is for more than that.  Fills in all but the
 * names, calls as they were before.
 */
HoldOutcome
hold_shrink(int64 permit, int32 n, HoldRow *hold)
{
	RowTable   *holds = row_open(QUOTA_REL_HOLDS);
	TupleTableSlot *slot = row_slot(holds);
	HoldOutcome outcome = lock_hold(holds, permit, slot);
	RowValues	row = row_values(holds);

	if (outcome == HOLD_TAKEN)
	{
		read_hold(slot, hold);
		row_set(&row, HOLDS_CALLS, Int32GetDatum(hold->calls - n));
		if (n < hold->calls)
			row_update(holds, slot, &row);
	}
	row_close(holds);
	return outcome;
}

/* See ledger.h. */
HoldOutcome
hold_look(int64 permit, HoldRow *hold)
{
	RowTable   *holds = row_open(QUOTA_REL_HOLDS);
	TupleTableSlot *slot = row_slot(holds);
	HoldOutcome outcome = find_hold(holds, permit, slot);

	if (outcome == HOLD_TAKEN)
		read_hold(slot, hold);
	row_close(holds);
	return outcome;
}

/* ---- walking over those that return ---- */

struct HoldWalk
{
	RowTable   *holds;
	TupleTableSlot *slot;
	RowScan    *scan;
};

/* See ledger.h. */
HoldWalk *
hold_walk_begin(TimestampTz until)
{
	HoldWalk   *walk = palloc(sizeof(HoldWalk));
	ScanKeyData key;

	ScanKeyInit(&key, 1, BTLessEqualStrategyNumber, F_TIMESTAMPTZ_LE,
				TimestampTzGetDatum(until));
	walk->holds = row_open_to_read(QUOTA_REL_HOLDS);
	walk->slot = row_slot(walk->holds);
	walk->scan = row_scan_begin(walk->holds, QUOTA_REL_HOLDS_REFUND, 1, &key);
	return walk;
}

/* See ledger.h. */
bool
hold_walk_next(HoldWalk *walk, HoldRow *hold)
{
	bool		in_progress;

	while (row_scan_next(walk->scan, walk->slot, &in_progress))
	{
		if (row_is_ours(walk->slot) || row_scan_is_insert(walk->scan))
			continue;
		read_hold(walk->slot, hold);
		return true;
	}
	return false;
}

/* See ledger.h. */
void
hold_walk_end(HoldWalk *walk)
{
	row_scan_end(walk->scan);
	row_close(walk->holds);
	pfree(walk);
}
