/*
 * ledger_expire.c
 *		Grants that have expired: one row of quota.ledger_expired for each, of what was
 *		left of it.
 *
 * Nothing is decided by these rows: at its instant what is left of a grant is gone,
 * whether or not there is a row (credit_grant.c).  It is written by the one worker of
 * the database once no transaction is open that was when the grant expired, and
 * never changed; a unique key sees to it that there is one.  It counts the entries of
 * transactions older than a number which it bears.  What a call of before changes
 * later, by being settled or refunded, is not in it: readers add the difference.
 *
 * A grant that expires as its period ends, or whose period ends sooner by a calendar of
 * now, goes with the period, whose row has it.
 *
 * expired_us and expired_id of LedgerWalks say up to which instant of expiry, and
 * entry of it, all have their row, or can't have one.  A grant that becomes visible
 * with an earlier one (a restore) takes it back when the worker meets its entry
 * (ledger_fold.c).
 */
#include "credit.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "row_write.h"
#include "subxact.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"
#include "utils/xid8.h"

#define MAX_EXPIRED		500		/* in one transaction */

/* A grant whose row is due; for subxact_try(). */
typedef struct Due
{
	const LedgerHorizon *horizon;
	int64		id;
	uint8		account[QUOTA_ACCOUNT_LEN];
	const char *provider;
	const char *limit_name;
	TimestampTz charged_at;
	TimestampTz expires_at;
} Due;

/* Writes the row. */
static void
insert_expired(const Due *due, TimestampTz start, TimestampTz end, int64 amount)
{
	RowTable   *table = row_open(QUOTA_REL_EXPIRED);
	RowValues	row = row_values(table);

	row_set(&row, EXPIRED_ENTRY, Int64GetDatum(due->id));
	row_set(&row, EXPIRED_ACCOUNT, PointerGetDatum(due->account));
	row_set(&row, EXPIRED_PERIOD_START, TimestampTzGetDatum(start));
	row_set(&row, EXPIRED_PERIOD_END, TimestampTzGetDatum(end));
	row_set(&row, EXPIRED_EXPIRES_AT, TimestampTzGetDatum(due->expires_at));
	row_set(&row, EXPIRED_AMOUNT, Int64GetDatum(amount));
	row_set(&row, EXPIRED_UPTO, FullTransactionIdGetDatum(
				FullTransactionIdFromU64(due->horizon->xid)));
	row_set(&row, EXPIRED_CREATED_AT, TimestampTzGetDatum(quota_wall_us()));
	row_set(&row, EXPIRED_XID, FullTransactionIdGetDatum(GetTopFullTransactionId()));
	ledger_write(table, NULL, &row);
	row_close(table);
}

/* Finds out what was left of it; for subxact_try(). */
static void
expire(void *arg)
{
	const Due  *due = arg;
	CreditLimit limit;
	TimestampTz start;
	TimestampTz end;
	LedgerGrants *grants;
	int64		left[EXPIRING_MAX];

	if (!credit_find_limit(due->provider, due->limit_name, &limit))
		return;
	calendar_period(&limit.calendar, due->charged_at, &start, &end);
	if (due->expires_at >= end)
		return;
	grants = ledger_grants(due->account, start, end, due->horizon->xid);
	ledger_grants_left(grants, left);
	for (int i = 0; i < grants->n; i++)
		if (grants->id[i] == due->id)
			insert_expired(due, start, end, left[i]);
}

/* The next grants whose row is due, the first to expire first; SPI's. */
static SPITupleTable *
find_due(const LedgerWalks *walks, const LedgerHorizon *horizon)
{
	Oid			types[] = {TIMESTAMPTZOID, INT8OID, TIMESTAMPTZOID, INT4OID};
	Datum		values[4];

	values[0] = TimestampTzGetDatum(walks->expired_us);
	values[1] = Int64GetDatum(walks->expired_id);
	values[2] = TimestampTzGetDatum(horizon->complete_us);
	values[3] = Int32GetDatum(MAX_EXPIRED);
	if (SPI_execute_with_args(
			"SELECT l.id, l.account, l.provider, l.limit_name, l.charged_at, l.expires_at"
			" FROM quota.ledger AS l"
			" WHERE l.expires_at OPERATOR(pg_catalog.>=) $1"
			" AND ROW(l.expires_at, l.id) OPERATOR(pg_catalog.>) ROW($1, $2)"
			" AND l.expires_at OPERATOR(pg_catalog.<=) $3"
			" AND NOT EXISTS (SELECT FROM quota.ledger_expired AS x"
			" WHERE x.entry OPERATOR(pg_catalog.=) l.id)"
			" ORDER BY l.expires_at, l.id LIMIT $4",
			lengthof(types), types, values, NULL, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read quota.ledger");
	return SPI_tuptable;
}

/* What the row says. */
static Due
read_due(HeapTuple row, TupleDesc desc, const LedgerHorizon *horizon)
{
	Due			due = {.horizon = horizon};
	bool		isnull;

	due.id = DatumGetInt64(SPI_getbinval(row, desc, 1, &isnull));
	memcpy(due.account, DatumGetUUIDP(SPI_getbinval(row, desc, 2, &isnull))->data,
		   QUOTA_ACCOUNT_LEN);
	due.provider = SPI_getvalue(row, desc, 3);
	due.limit_name = SPI_getvalue(row, desc, 4);
	due.charged_at = DatumGetTimestampTz(SPI_getbinval(row, desc, 5, &isnull));
	due.expires_at = DatumGetTimestampTz(SPI_getbinval(row, desc, 6, &isnull));
	return due;
}

/* See credit.h. */
bool
ledger_expire(LedgerWalks *walks, const LedgerHorizon *horizon)
{
	SPITupleTable *table;
	QuotaOwner	caller;
	bool		failed = false;
	bool		more;

	if (horizon->complete_us < walks->expired_us)
		return false;
	caller = quota_become_owner();
	SPI_connect();
	table = find_due(walks, horizon);
	quota_become_caller(caller);
	for (uint64 i = 0; i < table->numvals; i++)
	{
		Due			due = read_due(table->vals[i], table->tupdesc, horizon);
		ErrorData  *error = subxact_try(expire, &due);

		if (error && !failed)
			ereport(WARNING,
					(errcode(error->sqlerrcode),
					 errmsg("could not write what has expired of grant %lld, nor perhaps of others",
							(long long) due.id),
					 errdetail("%s", error->message),
					 errhint("They have expired all the same; it will be tried again.")));
		failed |= error != NULL;
		/* the first that fails is tried again, a while later */
		if (!failed)
		{
			walks->expired_us = due.expires_at;
			walks->expired_id = due.id;
		}
	}
	more = table->numvals == MAX_EXPIRED && !failed;
	if (!more && !failed)
		ledger_expire_from(walks, horizon->complete_us + 1);
	SPI_finish();
	return more;
}
