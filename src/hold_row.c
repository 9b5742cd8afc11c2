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
	HOLDS_EXPIRES_AT
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
	row_insert(holds, &row);
	row_close(holds);
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
 * Deletes the row of a hold: from here on this transaction resolves it.  Fills
 * in what resolving needs, calls and created_at.
 */
HoldOutcome
hold_delete(int64 permit, HoldRow *hold)
{
	RowTable   *holds = row_open(QUOTA_REL_HOLDS);
	TupleTableSlot *slot = row_slot(holds);
	HoldOutcome outcome = lock_hold(holds, permit, slot);

	if (outcome == HOLD_TAKEN)
	{
		hold->calls = row_int32(slot, HOLDS_CALLS);
		hold->created_at = row_int64(slot, HOLDS_CREATED_AT);
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
 * The hold is for n calls less, if it is for more than that.  Fills in calls, as they
 * were before, and created_at.
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
		hold->calls = row_int32(slot, HOLDS_CALLS);
		hold->created_at = row_int64(slot, HOLDS_CREATED_AT);
		row_set(&row, HOLDS_CALLS, Int32GetDatum(hold->calls - n));
		if (n < hold->calls)
			row_update(holds, slot, &row);
	}
	row_close(holds);
	return outcome;
}

/* Is the hold open?  HOLD_TAKEN says yes here. */
HoldOutcome
hold_look(int64 permit)
{
	RowTable   *holds = row_open(QUOTA_REL_HOLDS);
	HoldOutcome outcome = find_hold(holds, permit, row_slot(holds));

	row_close(holds);
	return outcome;
}
