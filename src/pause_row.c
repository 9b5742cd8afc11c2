/*
 * pause_row.c
 *		Rows of quota.pauses: read into memory once after a start, and what their
 *		triggers do.  See pause.c.
 *
 * LOADING.  One session at a time reads the rows, under a lock of the lock manager, with
 * a snapshot taken then and without what its own transaction has done; the others wait
 * for it.  If it fails, the next one does.  Decisions and all who delete rows come here
 * first.
 *
 * WRITING.  A worker that writes rows of reported pauses and a resume that deletes rows
 * keep each other out by a second lock of that kind (pause_rows_lock).
 */
#include "pause_table.h"

#include "access/xact.h"
#include "catalog/pg_class.h"
#include "config.h"
#include "journal.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "trigger.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "worker.h"

PG_FUNCTION_INFO_V1(quota_pauses_changed);
PG_FUNCTION_INFO_V1(quota_pauses_guard);

/* A row, decoded. */
typedef struct PauseRow
{
	int64		id;
	PauseScope	scope;
	PauseEnd	end;
	TimestampTz since_us;
	const char *reason;
	bool		reported;
	const char *set_by;
} PauseRow;

/* Reads it into the current memory context. */
static PauseRow
read_row(const ConfigScan *scan)
{
	PauseRow	row = {0};

	row.id = config_int64(scan, PAUSES_ID, 0);
	row.scope.account = config_text(scan, PAUSES_ACCOUNT);
	row.scope.provider = config_text(scan, PAUSES_PROVIDER);
	row.scope.tenant = config_text(scan, PAUSES_TENANT);
	row.scope.endpoint = config_text(scan, PAUSES_ENDPOINT);
	row.scope.connection = config_text(scan, PAUSES_CONNECTION);
	row.scope.limit_name = config_text(scan, PAUSES_LIMIT_NAME);
	row.since_us = config_int64(scan, PAUSES_SINCE, 0);
	row.end.lasts = !scan->nulls[PAUSES_LASTS_UNTIL - 1];
	row.end.at_us = row.end.lasts ? config_int64(scan, PAUSES_LASTS_UNTIL, 0)
		: config_int64(scan, PAUSES_UNTIL, DT_NOEND);
	row.reason = config_text(scan, PAUSES_REASON);
	row.reported = config_bool(scan, PAUSES_REPORTED, false);
	row.set_by = config_text(scan, PAUSES_SET_BY);
	return row;
}

/* Its entry, unless there is one; the lock is held.  QUOTA_NO_INDEX = full. */
static uint32
enter(const PausePlace *place, const PauseRow *row, bool *was_there)
{
	uint32		index = pause_find(place, row->id);
	QuotaPause *p;

	*was_there = index != QUOTA_NO_INDEX;
	if (*was_there)
		return index;
	index = pause_make(place, quota_now_ns());
	if (index == QUOTA_NO_INDEX)
		return index;
	p = &quota_pauses[index];
	p->id = row->id;
	p->end = row->end;
	p->since_us = row->since_us;
	p->reported = row->reported;
	pause_copy(p->reason, row->reason);
	strlcpy(p->set_by, row->set_by ? row->set_by : "", sizeof(p->set_by));
	return index;
}

/* What of the table may be locked. */
enum
{
	LOCK_LOADING = 1,
	LOCK_WRITING
};

/* That lock. */
static LOCKTAG
lock_of_rows(int what)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, RelationRelationId,
					   quota_relation(QUOTA_REL_PAUSES), what);
	return tag;
}

/* ---- loading ---- */

/* The committed row is in memory. */
static void
load_row(const ConfigScan *scan)
{
	PauseRow	row = read_row(scan);
	PausePlace	place = pause_place(&row.scope);
	bool		was_there;
	uint32		index;

	LWLockAcquire(quota_shared->pause_lock, LW_EXCLUSIVE);
	index = enter(&place, &row, &was_there);
	LWLockRelease(quota_shared->pause_lock);
	if (index == QUOTA_NO_INDEX)
		quota_table_full("pause", "quota.max_tenants", pause_places());
}

/* All rows that are committed. */
static void
load_rows(void)
{
	Snapshot	snapshot = GetLatestSnapshot();
	ConfigScan	scan;

	/* before the first command of this transaction */
	snapshot->curcid = FirstCommandId;
	snapshot = RegisterSnapshot(snapshot);
	config_scan_begin(&scan, QUOTA_REL_PAUSES, QUOTA_N_RELATIONS, NULL, snapshot);
	while (config_scan_next(&scan))
		load_row(&scan);
	config_scan_end(&scan);
	UnregisterSnapshot(snapshot);
}

/* See pause_table.h. */
void
pause_load(void)
{
	uint32		slot = quota_slot(MyDatabaseId, quota_catalog()->extension, "");
	pg_atomic_uint32 *read = &quota_slots[slot].pauses_read;
	LOCKTAG		tag;

	if (pg_atomic_read_u32(read) != 0)
		return;
	tag = lock_of_rows(LOCK_LOADING);
	(void) LockAcquire(&tag, ExclusiveLock, false, false);
	if (pg_atomic_read_u32(read) == 0)
	{
		load_rows();
		quota_work_due(slot, quota_now_ns());
		pg_atomic_exchange_u32(read, 1);	/* a full barrier */
	}
	LockRelease(&tag, ExclusiveLock, false);
}

/* ---- writing ---- */

/* See pause_table.h. */
void
pause_rows_lock(bool worker)
{
	LOCKTAG		tag = lock_of_rows(LOCK_WRITING);

	(void) LockAcquire(&tag, worker ? ExclusiveLock : ShareLock, false, false);
}

/* See pause_table.h. */
void
pause_rows_unlock(void)
{
	LOCKTAG		tag = lock_of_rows(LOCK_WRITING);

	LockRelease(&tag, ShareLock, false);
}

/* ---- triggers ---- */

/* The row was inserted: it holds from now on, and is as good as gone on abort. */
static void
begin(const PauseRow *row)
{
	PausePlace	place = pause_place(&row->scope);
	bool		was_there;
	uint32		index;

	journal_reserve(1);
	LWLockAcquire(quota_shared->pause_lock, LW_EXCLUSIVE);
	index = enter(&place, row, &was_there);
	if (index != QUOTA_NO_INDEX && !was_there)
	{
		quota_pauses[index].open = true;
		journal_pause(index, row->id, PAUSE_TAKEN, 0);
	}
	LWLockRelease(quota_shared->pause_lock);
	if (index == QUOTA_NO_INDEX)
		quota_table_full("pause", "quota.max_tenants", pause_places());
}

/* The row was deleted: it is over when we commit. */
static void
end(const PauseRow *row)
{
	PausePlace	place = pause_place(&row->scope);
	uint32		index;

	journal_reserve(1);
	LWLockAcquire(quota_shared->pause_lock, LW_EXCLUSIVE);
	index = pause_find(&place, row->id);
	if (index != QUOTA_NO_INDEX)
		journal_pause(index, row->id, PAUSE_ENDED, quota_pauses[index].version);
	LWLockRelease(quota_shared->pause_lock);
}

/* AFTER INSERT OR DELETE FOR EACH ROW. */
Datum
quota_pauses_changed(PG_FUNCTION_ARGS)
{
	static const TriggerShape shape = {
		.function = "pauses_changed",.tables = TRIGGER_TABLE(QUOTA_REL_PAUSES),
		.row = TRIGGER_ON_INSERT | TRIGGER_ON_DELETE
	};
	TriggerData *td = quota_trigger(fcinfo, &shape);
	ConfigScan	scan;
	PauseRow	row;

	config_decode(&scan, RelationGetDescr(td->tg_relation), td->tg_trigtuple);
	row = read_row(&scan);
	pause_load();
	if (TRIGGER_FIRED_BY_INSERT(td->tg_event))
		begin(&row);
	else
		end(&row);
	return PointerGetDatum(NULL);
}

/* The worker is about to update a row. */
bool		pause_is_writing = false;

/* BEFORE UPDATE FOR EACH ROW, BEFORE TRUNCATE FOR EACH STATEMENT. */
Datum
quota_pauses_guard(PG_FUNCTION_ARGS)
{
	static const TriggerShape shape = {
		.function = "pauses_guard",.tables = TRIGGER_TABLE(QUOTA_REL_PAUSES),
		.before = true,.row = TRIGGER_ON_UPDATE,.statement = TRIGGER_ON_TRUNCATE
	};
	TriggerData *td = quota_trigger(fcinfo, &shape);

	if (!pause_is_writing)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("%s of \"quota.pauses\" is not supported",
						TRIGGER_FIRED_BY_UPDATE(td->tg_event) ? "UPDATE" : "TRUNCATE"),
				 errhint("Use quota_pause() and quota_resume(), or DELETE.")));
	return PointerGetDatum(TRIGGER_FIRED_BY_UPDATE(td->tg_event)
						   ? td->tg_newtuple : NULL);
}
