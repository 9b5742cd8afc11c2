/*
 * job_dedupe.c
 *		Dedupe keys of unfinished jobs; see job_dedupe.h.
 *
 * The primary key of quota.dedupe decides between sessions.  quota.jobs says the
 * same, so a restore makes the rows anew.
 */
#include "job_dedupe.h"

#include "error.h"
#include "row_write.h"
#include "utils/fmgroids.h"

/* Attribute numbers of quota.dedupe */
enum DedupeColumn
{
	DEDUPE_PROVIDER = 1,
	DEDUPE_KEY,
	DEDUPE_JOB_ID
};

/* Begins a scan for the row of the key. */
static RowScan *
scan_key(RowTable *dedupe, Datum provider, Datum key)
{
	ScanKeyData keys[2];

	ScanKeyInit(&keys[0], DEDUPE_PROVIDER, BTEqualStrategyNumber, F_TEXTEQ,
				provider);
	ScanKeyInit(&keys[1], DEDUPE_KEY, BTEqualStrategyNumber, F_TEXTEQ, key);
	return row_scan_begin(dedupe, QUOTA_REL_DEDUPE_PKEY, 2, keys);
}

/* See job_dedupe.h. */
bool
dedupe_find(Datum provider, Datum key, int64 *id)
{
	RowTable   *dedupe = row_open(QUOTA_REL_DEDUPE);
	TupleTableSlot *slot = row_slot(dedupe);
	RowScan    *scan = scan_key(dedupe, provider, key);
	bool		in_progress;
	bool		found = false;

	while (!found && row_scan_next(scan, slot, &in_progress))
	{
		if (in_progress)
			continue;
		*id = row_int64(slot, DEDUPE_JOB_ID);
		found = true;
	}
	row_scan_end(scan);
	row_close(dedupe);
	return found;
}

/* See job_dedupe.h. */
void
dedupe_take(Datum provider, Datum key, int64 id)
{
	RowTable   *dedupe = row_open(QUOTA_REL_DEDUPE);
	RowValues	row = row_values(dedupe);

	row_set(&row, DEDUPE_PROVIDER, provider);
	row_set(&row, DEDUPE_KEY, key);
	row_set(&row, DEDUPE_JOB_ID, Int64GetDatum(id));
	row_insert(dedupe, &row);
	row_close(dedupe);
}

/* See job_dedupe.h. */
void
dedupe_forget(Datum provider, Datum key, int64 id)
{
	RowTable   *dedupe = row_open(QUOTA_REL_DEDUPE);
	TupleTableSlot *slot = row_slot(dedupe);
	RowScan    *scan = scan_key(dedupe, provider, key);
	bool		in_progress;

	while (row_scan_next(scan, slot, &in_progress))
	{
		if (in_progress || row_int64(slot, DEDUPE_JOB_ID) != id)
			continue;
		if (row_lock(dedupe, slot) != ROW_LOCKED)
			quota_error_job_busy(id);
		row_delete(dedupe, slot);
		break;
	}
	row_scan_end(scan);
	row_close(dedupe);
}
