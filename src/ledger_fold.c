/*
 * ledger_fold.c
 *		Running balances of accounts, written in the background.  Their order,
 *		and which of them are final, is in ledger_horizon.c.
 *
 * FOLDS
 *
 * A row of quota.ledger_folds says, for an account and such a number (upto), how many
 * entries there are of transactions older than that, and what those of them come to
 * that are charged in the latest period.  It is true for ever, so rows are only added,
 * by the one worker of the database, and readers need no lock: whichever one they
 * see, they add the entries of transactions that are not older.
 *
 * A fold is written when an account has 64 entries or more that are in none, or
 * entries of another period than its newest fold is of.  So reading a balance costs
 * one fold, and the entries since: those less than 64, those that came since the
 * worker ran, and all that came since the oldest open transaction began.  A
 * transaction that stays open delays folds and nothing else.
 *
 * WHICH ACCOUNTS
 *
 * The worker reads the ledger by id, from where it has come to, to the first entry
 * that is not final, and folds the accounts it meets, each up to the horizon and
 * whatever the ids.  Ids are not in the order of transactions: an entry that becomes
 * visible behind the position is folded when its account is met next, a hold when it
 * ends at the latest.  The position is kept in a sequence (quota.ledger_folded): that is
 * as good as a row, without leaving dead ones, and after a crash or a failed transaction
 * it may well be too far.
 *
 * PERIODS
 *
 * When a period of an account is over, ledger_period.c closes it: at once where a fold
 * meets entries of it, else when the time has come (close_due).  Each fold also has it
 * look for entries that a closed period lacks, among those that are about to be folded.
 *
 * After the periods ledger_expire.c writes what has expired of grants.  How far both
 * have come is kept in the slot (LedgerWalks), from the commit of their rows on: what is
 * rolled back is done again.  Only the worker reads and writes that.
 */
#include "ledger.h"

#include "catalog/pg_type.h"
#include "config.h"
#include "credit.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "permit.h"
#include "row_write.h"
#include "subxact.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"
#include "utils/xid8.h"

#define FOLD_ENTRIES	64		/* in no fold: write one */
#define MAX_LOOKED		2000	/* entries in one transaction */
#define MAX_CLOSED		500		/* accounts in one transaction */
#define MAX_WAIT_US		(24 * 3600 * INT64CONST(1000000))

/* One transaction of the worker. */
typedef struct Walk
{
	LedgerHorizon horizon;
	LedgerWalks *walks;			/* how far they have come */
	HTAB	   *accounts;
	List	   *limits;			/* of KnownLimit */
	bool		waits;			/* there are entries that are not final */
	bool		more;			/* there are others that were not looked at */
	bool		reported;		/* that something failed */
} Walk;

/* What was looked up of a limit. */
typedef struct KnownLimit
{
	const char *provider;
	const char *name;
	bool		found;
	CreditLimit limit;
} KnownLimit;

/* What is being done to one account; for subxact_try(). */
typedef struct Task
{
	Walk	   *walk;
	const LedgerAccount *account;
} Task;

/* ---- which accounts ---- */

/* Notes the account of an entry. */
static void
note_account(Walk *walk, TupleTableSlot *slot)
{
	bool		isnull;
	bool		known;
	TimestampTz expires_at = row_int64_or_0(slot, LEDGER_EXPIRES_AT);
	LedgerAccount *account =
		hash_search(walk->accounts,
					DatumGetUUIDP(slot_getattr(slot, LEDGER_ACCOUNT, &isnull))->data,
					HASH_ENTER, &known);

	if (expires_at != 0 && expires_at <= walk->walks->expired_us)
		ledger_expire_from(walk->walks, expires_at);
	if (known)
		return;
	account->provider = row_text(slot, LEDGER_PROVIDER);
	account->limit_name = row_text(slot, LEDGER_LIMIT_NAME);
	account->tenant = row_text(slot, LEDGER_TENANT);
}

/* The id that the ledger was looked at up to. */
static int64
read_position(void)
{
	QuotaOwner	caller = quota_become_owner();
	int64		position;
	bool		isnull;

	SPI_connect();
	if (SPI_execute("SELECT CASE WHEN is_called THEN last_value ELSE 0 END"
					" FROM quota.ledger_folded", true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read quota.ledger_folded");
	position = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0],
										   SPI_tuptable->tupdesc, 1, &isnull));
	SPI_finish();
	quota_become_caller(caller);
	return position;
}

/* Notes the accounts of the next entries; returns the id of the last of them. */
static int64
find_accounts(Walk *walk, int64 position)
{
	RowTable   *ledger = row_open(QUOTA_REL_LEDGER);
	TupleTableSlot *slot = row_slot(ledger);
	int			looked = 0;
	ScanKeyData key;
	RowScan    *scan;
	bool		in_progress;

	ScanKeyInit(&key, 1, BTGreaterStrategyNumber, F_INT8GT,
				Int64GetDatum(position));
	scan = row_scan_begin(ledger, QUOTA_REL_LEDGER_PKEY, 1, &key);
	while (looked < MAX_LOOKED && row_scan_next(scan, slot, &in_progress))
	{
		walk->waits = in_progress || ledger_xid(slot) >= walk->horizon.xid;
		if (walk->waits)
			break;
		note_account(walk, slot);
		position = row_int64(slot, LEDGER_ID);
		looked++;
	}
	walk->more = looked == MAX_LOOKED;
	row_scan_end(scan);
	row_close(ledger);
	return position;
}

/* ---- folding ---- */

/* The limit of an account; NULL when there is no such limit any more. */
static const CreditLimit *
limit_of(Walk *walk, const LedgerAccount *account)
{
	KnownLimit *known;
	ListCell   *cell;

	foreach(cell, walk->limits)
	{
		known = lfirst(cell);
		if (config_same_name(known->provider, account->provider) &&
			config_same_name(known->name, account->limit_name))
			return known->found ? &known->limit : NULL;
	}
	known = palloc(sizeof(KnownLimit));
	known->provider = account->provider;
	known->name = account->limit_name;
	known->found = credit_find_limit(known->provider, known->name, &known->limit);
	walk->limits = lappend(walk->limits, known);
	return known->found ? &known->limit : NULL;
}

/*
 * Reads what is not in the account's last fold, and counts it in fold.  Returns the
 * first instant that something of it is charged at.
 */
static TimestampTz
read_new(const Task *task, LedgerFold *fold)
{
	RowTable   *ledger = row_open(QUOTA_REL_LEDGER);
	TupleTableSlot *slot = row_slot(ledger);
	RowScan    *scan = ledger_scan_xids(ledger, task->account->id, fold->upto,
										task->walk->horizon.xid);
	TimestampTz first = DT_NOEND;
	bool		in_progress;

	while (row_scan_next(scan, slot, &in_progress))
	{
		TimestampTz at = row_int64(slot, LEDGER_CHARGED_AT);

		fold->entries++;
		fold->charged_at = Max(fold->charged_at, at);
		first = Min(first, at);
	}
	row_scan_end(scan);
	row_close(ledger);
	return first;
}

/* Writes the row. */
static void
insert_fold(const uint8 *account, const LedgerFold *fold)
{
	RowTable   *folds = row_open(QUOTA_REL_FOLDS);
	RowValues	row = row_values(folds);

	row_set(&row, FOLDS_ACCOUNT, PointerGetDatum(account));
	row_set(&row, FOLDS_UPTO, FullTransactionIdGetDatum(
				FullTransactionIdFromU64(fold->upto)));
	row_set(&row, FOLDS_ENTRIES, Int64GetDatum(fold->entries));
	row_set(&row, FOLDS_CHARGED_AT, TimestampTzGetDatum(fold->charged_at));
	row_set(&row, FOLDS_PERIOD_START, TimestampTzGetDatum(fold->period_start));
	row_set(&row, FOLDS_PERIOD_END, TimestampTzGetDatum(fold->period_end));
	row_set(&row, FOLDS_POSTED, Int64GetDatum(fold->sum.used - fold->sum.held));
	row_set(&row, FOLDS_HELD, Int64GetDatum(fold->sum.held));
	row_set(&row, FOLDS_GIVEN, Int64GetDatum(fold->sum.given));
	row_insert(folds, &row);
	row_close(folds);
}

/* Folds an account, if that is worth it, and closes periods; for subxact_try(). */
static void
fold_account(void *arg)
{
	const Task *task = arg;
	const uint8 *account = task->account->id;
	const CreditLimit *limit = limit_of(task->walk, task->account);
	LedgerFold	last;
	LedgerFold	fold;
	LedgerNews	news;
	bool		open = false;

	if (limit == NULL)
		return;
	last = ledger_newest_fold(account);
	fold = last;
	news.since = last.upto;
	news.first_us = read_new(task, &fold);
	if (fold.entries == last.entries)
		return;
	fold.upto = task->walk->horizon.xid;
	calendar_period(&limit->calendar, fold.charged_at, &fold.period_start,
					&fold.period_end);
	if (fold.entries - last.entries >= FOLD_ENTRIES ||
		fold.period_start != last.period_start ||
		fold.period_end != last.period_end)
	{
		fold.sum = ledger_sum(account, fold.period_start, fold.period_end,
							  fold.upto, &open);
		insert_fold(account, &fold);
		ledger_account_known(task->account, limit->per_tenant);
	}
	ledger_close(account, limit, &news, &task->walk->horizon);
}

/* Tells of the first account that failed. */
static void
report(Walk *walk, const LedgerAccount *account, const ErrorData *error)
{
	if (!walk->reported)
		ereport(WARNING,
				(errcode(error->sqlerrcode),
				 errmsg("could not fold an account of limit \"%s\", nor perhaps others",
						account->limit_name),
				 errdetail("%s", error->message),
				 errhint("Its balance is read from its entries meanwhile.")));
	walk->reported = true;
}

/* Folds what was met. */
static void
fold_accounts(Walk *walk)
{
	Task		task = {.walk = walk};
	HASH_SEQ_STATUS status;
	LedgerAccount *account;

	hash_seq_init(&status, walk->accounts);
	while ((account = hash_seq_search(&status)) != NULL)
	{
		ErrorData  *error;

		task.account = account;
		error = subxact_try(fold_account, &task);
		if (error)
			report(walk, account, error);
	}
}

/* ---- closing ---- */

/* Closes periods that nothing was written in since; for subxact_try(). */
static void
close_account(void *arg)
{
	Task	   *task = arg;
	const CreditLimit *limit = limit_of(task->walk, task->account);

	if (limit != NULL)
		ledger_close(task->account->id, limit, NULL, &task->walk->horizon);
}

/* Periods of folds that have ended, and are not closed, in the order of the walk; SPI's. */
static SPITupleTable *
periods_due(const Walk *walk)
{
	Oid			types[] = {TIMESTAMPTZOID, UUIDOID, TIMESTAMPTZOID, INT4OID};
	Datum		values[4];

	values[0] = TimestampTzGetDatum(walk->walks->closed_us);
	values[1] = PointerGetDatum(walk->walks->closed_account);
	values[2] = TimestampTzGetDatum(walk->horizon.complete_us);
	values[3] = Int32GetDatum(MAX_CLOSED);
	if (SPI_execute_with_args(
			"SELECT f.account, f.period_end, a.provider, a.limit_name"
			" FROM quota.ledger_folds AS f JOIN quota.ledger_accounts AS a"
			" ON a.account OPERATOR(pg_catalog.=) f.account"
			" WHERE f.period_end OPERATOR(pg_catalog.>=) $1"
			" AND ROW(f.period_end, f.account) OPERATOR(pg_catalog.>) ROW($1, $2)"
			" AND f.period_end OPERATOR(pg_catalog.<=) $3"
			" AND NOT EXISTS (SELECT FROM quota.ledger_periods AS p"
			" WHERE p.account OPERATOR(pg_catalog.=) f.account"
			" AND p.period_end OPERATOR(pg_catalog.>=) f.period_end)"
			" ORDER BY f.period_end, f.account LIMIT $4",
			lengthof(types), types, values, NULL, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read quota.ledger_folds");
	return SPI_tuptable;
}

/* Closes the periods of accounts that nobody touches any more. */
static void
close_due(Walk *walk)
{
	SPITupleTable *table;
	QuotaOwner	caller;
	bool		failed = false;

	if (walk->horizon.complete_us < walk->walks->closed_us)
		return;
	caller = quota_become_owner();
	SPI_connect();
	table = periods_due(walk);
	quota_become_caller(caller);
	for (uint64 i = 0; i < table->numvals; i++)
	{
		HeapTuple	row = table->vals[i];
		TupleDesc	desc = table->tupdesc;
		bool		isnull;
		LedgerAccount account;
		Task		task = {.walk = walk,.account = &account};
		ErrorData  *error;

		memcpy(account.id, DatumGetUUIDP(SPI_getbinval(row, desc, 1, &isnull))->data,
			   QUOTA_ACCOUNT_LEN);
		account.provider = SPI_getvalue(row, desc, 3);
		account.limit_name = SPI_getvalue(row, desc, 4);
		error = subxact_try(close_account, &task);
		if (error)
			report(walk, &account, error);
		failed |= error != NULL;
		/* the first that fails is tried again, a while later */
		if (failed)
			continue;
		walk->walks->closed_us = DatumGetTimestampTz(SPI_getbinval(row, desc, 2, &isnull));
		memcpy(walk->walks->closed_account, account.id, QUOTA_ACCOUNT_LEN);
	}
	if (table->numvals < MAX_CLOSED && !failed)
		ledger_close_from(walk->walks, walk->horizon.complete_us + 1);
	walk->more |= table->numvals == MAX_CLOSED && !failed;
	SPI_finish();
}

/* When to be there for an instant, on the quota clock. */
static int64
wanted_at(TimestampTz at)
{
	TimestampTz now_us = quota_wall_us();

	if (at == DT_NOEND)
		return QUOTA_NEVER;
	/* one that is over waits for a transaction */
	return quota_now_ns() + (at <= now_us ? LEDGER_FOLD_NS :
							 Min(at - now_us, MAX_WAIT_US) * QUOTA_NS_PER_US);
}

/* The instant that a query finds, which has these arguments; DT_NOEND = none. */
static TimestampTz
find_instant(const char *query, int n, Oid *types, Datum *values)
{
	QuotaOwner	caller = quota_become_owner();
	TimestampTz at = DT_NOEND;
	bool		isnull;

	SPI_connect();
	if (SPI_execute_with_args(query, n, types, values, NULL, false, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not find out what is over next");
	if (SPI_processed > 0)
		at = DatumGetTimestampTz(SPI_getbinval(SPI_tuptable->vals[0],
											   SPI_tuptable->tupdesc, 1, &isnull));
	SPI_finish();
	quota_become_caller(caller);
	return at;
}

/* When the next period ends that is not closed, or grant expires that may need a row. */
static TimestampTz
next_over(const LedgerWalks *walks)
{
	Oid			types[] = {TIMESTAMPTZOID, INT8OID};
	Datum		ends[] = {TimestampTzGetDatum(walks->closed_us)};
	Datum		expires[] = {TimestampTzGetDatum(walks->expired_us),
	Int64GetDatum(walks->expired_id)};
	TimestampTz end = find_instant("SELECT period_end FROM quota.ledger_folds"
								   " WHERE period_end OPERATOR(pg_catalog.>=) $1"
								   " ORDER BY period_end LIMIT 1", 1, types, ends);
	TimestampTz expiry = find_instant("SELECT expires_at FROM quota.ledger"
									  " WHERE expires_at OPERATOR(pg_catalog.>=) $1"
									  " AND ROW(expires_at, id) OPERATOR(pg_catalog.>) ROW($1, $2)"
									  " ORDER BY expires_at LIMIT 1", 2, types, expires);

	return Min(end, expiry);
}

/* See credit.h. */
void
ledger_fold_done(uint32 database_slot, const LedgerWalks *reached)
{
	quota_slots[database_slot].fold_walks = *reached;
}

/* See credit.h. */
int64
ledger_fold(uint32 database_slot, LedgerWalks *reached)
{
	QuotaSlot  *slot = &quota_slots[database_slot];
	Walk		walk = {.walks = reached};
	HASHCTL		ctl = {.keysize = QUOTA_ACCOUNT_LEN,.entrysize = sizeof(LedgerAccount),
	.hcxt = CurrentMemoryContext};
	int64		position = read_position();
	int64		last;

	ledger_take_locks();
	walk.horizon = ledger_look(slot);
	*reached = slot->fold_walks;
	walk.accounts = hash_create("quota accounts", 256, &ctl,
								HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	last = find_accounts(&walk, position);
	fold_accounts(&walk);
	close_due(&walk);
	if (ledger_expire(reached, &walk.horizon))
		walk.more = true;
	if (last != position)
		DirectFunctionCall2(setval_oid,
							ObjectIdGetDatum(quota_relation(QUOTA_REL_FOLDED)),
							Int64GetDatum(last));
	if (walk.more)
		return quota_now_ns();
	return Min(walk.waits ? quota_now_ns() + LEDGER_FOLD_NS : QUOTA_NEVER,
			   wanted_at(next_over(reached)));
}
