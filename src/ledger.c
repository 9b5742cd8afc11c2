/*
 * ledger.c
 *		Rows of the ledger, which is append-only: nothing here edits an entry, and
 *		triggers refuse anybody else who tries.
 *
 * ROWS OF OURS
 *
 * The same triggers are on what is derived from entries and kept for ever (LEDGER_TABLES),
 * and there a row of quota.ledger_periods may be replaced by us (ledger_period.c).  They
 * know our own writes by "writing", which ledger_write() sets for as long as one takes;
 * triggers of users that it fires remain strangers.
 *
 * INSERTING DIRECTLY
 *
 * Rows get into the ledger in two ways: by ledger_append(), whose callers see to
 * the shared counters first, and by an INSERT or COPY, which is how a dump is
 * restored.  The latter is allowed only while the account has no shared counter:
 * the trigger quota_ledger_restored() runs after the row is in the index and
 * refuses when the counter exists and is not EMPTY; a loader publishes LOADING
 * before it scans the index, and refuses to load when it meets a row of an open
 * transaction.  Whichever comes first, the other one notices.
 */
#include "ledger.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "commands/sequence.h"
#include "credit.h"
#include "miscadmin.h"
#include "row_write.h"
#include "shmem.h"
#include "trigger.h"
#include "utils/rel.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"
#include "utils/xid8.h"

PG_FUNCTION_INFO_V1(quota_ledger_refuse);
PG_FUNCTION_INFO_V1(quota_ledger_restored);
PG_FUNCTION_INFO_V1(quota_ledger_stamp);

/* The table that ledger_write() is writing; NULL = none. */
static const RowTable *writing = NULL;

/* ---- entries ---- */

/* The next number of an entry. */
static int64
next_id(Relation ledger)
{
	static Oid	sequence = InvalidOid;
	static uint64 age = 0;

	/* looking it up costs a scan of pg_depend */
	if (!OidIsValid(sequence) || age != quota_catalog_age())
	{
		age = quota_catalog_age();
		sequence = compat_identity_sequence(ledger, LEDGER_ID);
	}
	return nextval_internal(sequence, false);
}

/* See ledger.h. */
void
ledger_write(RowTable *table, TupleTableSlot *old, const RowValues *row)
{
	const RowTable *outer = writing;

	writing = table;
	PG_TRY();
	{
		if (old)
			row_update(table, old, row);
		else
			row_insert(table, row);
	}
	PG_FINALLY();
	{
		writing = outer;
	}
	PG_END_TRY();
}

/* Adds one entry.  The bucket of its account is pinned, see credit_counter.c. */
void
ledger_append(RowTable *ledger, const LedgerEntry *entry)
{
	RowValues	row = row_values(ledger);

	row_set(&row, LEDGER_ID, Int64GetDatum(next_id(row_relation(ledger))));
	row_set(&row, LEDGER_ACCOUNT, PointerGetDatum(entry->account));
	row_set_text(&row, LEDGER_PROVIDER, entry->provider);
	row_set_text(&row, LEDGER_LIMIT_NAME, entry->limit_name);
	row_set_text(&row, LEDGER_TENANT, entry->tenant);
	row_set_text(&row, LEDGER_UNIT, entry->unit);
	row_set_text(&row, LEDGER_KIND, entry->kind);
	row_set(&row, LEDGER_AMOUNT, Int64GetDatum(entry->amount));
	row_set_nonzero(&row, LEDGER_PERMIT, entry->permit);
	row_set_nonzero(&row, LEDGER_JOB, entry->job);
	row_set(&row, LEDGER_CHARGED_AT, TimestampTzGetDatum(entry->charged_at));
	row_set(&row, LEDGER_CREATED_AT, TimestampTzGetDatum(entry->created_at));
	row_set_text(&row, LEDGER_REASON, entry->reason);
	row_set(&row, LEDGER_HELD, Int64GetDatum(entry->held));
	row_set(&row, LEDGER_XID,
			FullTransactionIdGetDatum(GetTopFullTransactionId()));
	if (entry->calls > 0)
		row_set(&row, LEDGER_CALLS, Int32GetDatum(entry->calls));
	row_set_nonzero(&row, LEDGER_EXPIRES_AT, entry->expires_at);
	if (strcmp(entry->kind, "hold") == 0)
	{
		row_set(&row, LEDGER_PERIOD_START, TimestampTzGetDatum(entry->period_start));
		if (entry->allowance >= 0)
			row_set(&row, LEDGER_ALLOWANCE, Int64GetDatum(entry->allowance));
	}
	ledger_write(ledger, NULL, &row);
}

/* See ledger.h. */
uint64
ledger_xid(TupleTableSlot *slot)
{
	bool		isnull;

	return U64FromFullTransactionId(
		DatumGetFullTransactionId(slot_getattr(slot, LEDGER_XID, &isnull)));
}

/* See ledger.h. */
bool
ledger_is_charge(TupleTableSlot *slot)
{
	return row_text_is(slot, LEDGER_KIND, "hold") ||
		row_text_is(slot, LEDGER_KIND, "grant") ||
		row_text_is(slot, LEDGER_KIND, "adjust");
}

/* See ledger.h. */
LedgerEntry *
ledger_read(TupleTableSlot *slot)
{
	LedgerEntry *entry = palloc0(sizeof(LedgerEntry));
	bool		isnull;
	Datum		calls;

	memcpy(entry->account,
		   DatumGetUUIDP(slot_getattr(slot, LEDGER_ACCOUNT, &isnull))->data,
		   QUOTA_ACCOUNT_LEN);
	entry->provider = row_text(slot, LEDGER_PROVIDER);
	entry->limit_name = row_text(slot, LEDGER_LIMIT_NAME);
	entry->tenant = row_text(slot, LEDGER_TENANT);
	entry->unit = row_text(slot, LEDGER_UNIT);
	entry->kind = row_text(slot, LEDGER_KIND);
	entry->amount = row_int64_or_0(slot, LEDGER_AMOUNT);
	entry->held = row_int64_or_0(slot, LEDGER_HELD);
	entry->permit = row_int64_or_0(slot, LEDGER_PERMIT);
	entry->job = row_int64_or_0(slot, LEDGER_JOB);
	entry->charged_at = row_int64_or_0(slot, LEDGER_CHARGED_AT);
	entry->created_at = row_int64_or_0(slot, LEDGER_CREATED_AT);
	calls = slot_getattr(slot, LEDGER_CALLS, &isnull);
	entry->calls = isnull ? 0 : DatumGetInt32(calls);
	return entry;
}

/* All entries of a permit that are committed or our own, oldest first. */
List *
ledger_of_permit(RowTable *ledger, int64 permit)
{
	TupleTableSlot *slot = row_slot(ledger);
	RowScan    *scan = row_scan_id(ledger, QUOTA_REL_LEDGER_PERMIT, permit);
	List	   *entries = NIL;
	bool		in_progress;

	while (row_scan_next(scan, slot, &in_progress))
		if (!in_progress)
			entries = lappend(entries, ledger_read(slot));
	row_scan_end(scan);
	return entries;
}

/*
 * Locks the first hold entry of a permit, so that one transaction at a time
 * writes entries that refer to it.  No more of that kind are ever added and
 * entries don't move, so it is the same one for all.  False when another
 * transaction has it, or there is none.
 */
bool
ledger_lock_permit(RowTable *ledger, int64 permit)
{
	TupleTableSlot *slot = row_slot(ledger);
	RowScan    *scan = row_scan_id(ledger, QUOTA_REL_LEDGER_PERMIT, permit);
	bool		in_progress;
	bool		locked = false;

	while (row_scan_next(scan, slot, &in_progress))
	{
		if (in_progress || strcmp(row_text(slot, LEDGER_KIND), "hold") != 0)
			continue;
		locked = row_lock(ledger, slot) == ROW_LOCKED;
		break;
	}
	row_scan_end(scan);
	return locked;
}

/* ---- triggers ---- */

#define LEDGER_TABLES \
	(TRIGGER_TABLE(QUOTA_REL_LEDGER) | TRIGGER_TABLE(QUOTA_REL_PERIODS) | \
	 TRIGGER_TABLE(QUOTA_REL_EXPIRED))

/* The trigger fires for the row that ledger_write() writes. */
static bool
writes_ours(const TriggerData *trigger)
{
	return writing != NULL && row_is_written(writing, trigger);
}

/* BEFORE UPDATE, DELETE or TRUNCATE. */
Datum
quota_ledger_refuse(PG_FUNCTION_ARGS)
{
	static const TriggerShape shape = {
		.function = "ledger_refuse",.tables = LEDGER_TABLES,
		.before = true,.row = TRIGGER_ON_UPDATE | TRIGGER_ON_DELETE,
		.statement = TRIGGER_ON_TRUNCATE
	};
	TriggerData *trigger = quota_trigger(fcinfo, &shape);

	if (writes_ours(trigger))
		return PointerGetDatum(trigger->tg_newtuple);
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot change entries of quota.%s",
					RelationGetRelationName(trigger->tg_relation)),
			 errdetail("Entries are final: what was granted and spent can be explained only from all of them."),
			 errhint("Write another entry with quota_adjust() or quota_refund().")));
}

/* The row with another value in a column. */
static Datum
set_xid(const TriggerData *trigger, int column, Datum xid, bool isnull)
{
	return PointerGetDatum(heap_modify_tuple_by_cols(trigger->tg_trigtuple,
													 RelationGetDescr(trigger->tg_relation),
													 1, &column, &xid, &isnull));
}

/* BEFORE INSERT FOR EACH ROW. */
Datum
quota_ledger_stamp(PG_FUNCTION_ARGS)
{
	static const TriggerShape shape = {
		.function = "ledger_stamp",.tables = LEDGER_TABLES,
		.before = true,.row = TRIGGER_ON_INSERT
	};
	TriggerData *trigger = quota_trigger(fcinfo, &shape);
	Oid			table = RelationGetRelid(trigger->tg_relation);
	Datum		xid;

	if (writes_ours(trigger))
		return PointerGetDatum(trigger->tg_trigtuple);
	xid = FullTransactionIdGetDatum(GetTopFullTransactionId());
	if (table == quota_relation(QUOTA_REL_LEDGER))
		return set_xid(trigger, LEDGER_XID, xid, false);
	if (table == quota_relation(QUOTA_REL_PERIODS))
		return set_xid(trigger, PERIODS_UPTO, 0, true);
	trigger->tg_trigtuple = (HeapTuple) DatumGetPointer(set_xid(trigger, EXPIRED_UPTO, 0, true));
	return set_xid(trigger, EXPIRED_XID, xid, false);
}

/* The counter of an account exists and was, or is being, loaded. */
static bool
is_loaded(const uint8 *account, const char *provider)
{
	Oid			extension = quota_catalog()->extension;
	QuotaKey	key = quota_account_key(MyDatabaseId, extension, account);
	uint32		slot = quota_slot(MyDatabaseId, extension,
								  provider ? provider : "");
	uint32		bucket;
	bool		loaded;

	LWLockAcquire(&quota_slots[slot].lock, LW_SHARED);
	bucket = quota_find_bucket(&key, slot);
	loaded = bucket != QUOTA_NO_INDEX &&
		quota_buckets[bucket].load != QUOTA_LOAD_EMPTY;
	LWLockRelease(&quota_slots[slot].lock);
	return loaded;
}

/* AFTER INSERT FOR EACH ROW. */
Datum
quota_ledger_restored(PG_FUNCTION_ARGS)
{
	static const TriggerShape shape = {
		.function = "ledger_restored",.tables = TRIGGER_TABLE(QUOTA_REL_LEDGER),
		.row = TRIGGER_ON_INSERT
	};
	TriggerData *trigger = quota_trigger(fcinfo, &shape);
	LedgerEntry *entry;

	if (writes_ours(trigger))
		return PointerGetDatum(NULL);

	entry = ledger_read(trigger->tg_trigslot);
	if (is_loaded(entry->account, entry->provider))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot insert entries of limit \"%s\" directly",
						entry->limit_name),
				 errdetail("Its balance is already kept in shared memory; direct inserts are for restoring a dump."),
				 errhint("Use quota_grant() or quota_adjust().")));
	return PointerGetDatum(NULL);
}
