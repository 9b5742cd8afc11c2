/*
 * ledger_grant.c
 *		Grants that expire, out of rows: what an account was given of them in a period,
 *		and what it has spent of that (expiring.h).
 *
 * An account without any costs one look into an index that has nothing but such
 * grants.  With some, what was charged since the first of them is read, however much
 * that is: folds say nothing of instants.
 */
#include "ledger.h"

#include "funcapi.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"
#include "utils/xid8.h"

PG_FUNCTION_INFO_V1(quota_account_grants);

/* 53400 */
pg_noreturn static void
error_too_many(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("an account has too many grants that expire in one period"),
			 errdetail("Entries in quota.ledger give it more than %d of them.", EXPIRING_MAX),
			 errhint("quota_grant() gives no more: restore the entries of the dump and no others.")));
}

/* Reads the grants. */
static void
read_grants(RowTable *ledger, const uint8 *account, TimestampTz start,
			TimestampTz end, uint64 below, LedgerGrants *grants)
{
	TupleTableSlot *slot = row_slot(ledger);
	RowScan    *scan = ledger_scan_charged(ledger, QUOTA_REL_LEDGER_EXPIRING,
										   account, start, end);
	bool		in_progress;

	while (row_scan_next(scan, slot, &in_progress))
	{
		Expiring   *grant = &grants->grant[grants->n];

		if (in_progress || ledger_xid(slot) >= below)
			continue;
		if (grants->n == EXPIRING_MAX)
			error_too_many();
		grants->id[grants->n++] = row_int64(slot, LEDGER_ID);
		grant->at_us = row_int64(slot, LEDGER_CHARGED_AT);
		grant->until_us = row_int64(slot, LEDGER_EXPIRES_AT);
		grant->amount = -row_int64(slot, LEDGER_AMOUNT);
		grant->given = true;
	}
	row_scan_end(scan);
}

/* Where they are, for expiring.h. */
static void
point(LedgerGrants *grants, Expiring *list[EXPIRING_MAX])
{
	for (int i = 0; i < grants->n; i++)
		list[i] = &grants->grant[i];
}

/* Counts what calls and adjustments have used since the first of them. */
static void
read_spent(RowTable *ledger, const uint8 *account, TimestampTz end, uint64 below,
		   LedgerGrants *grants)
{
	Expiring   *list[EXPIRING_MAX];
	TupleTableSlot *slot = row_slot(ledger);
	RowScan    *scan = ledger_scan_charged(ledger, QUOTA_REL_LEDGER_ACCOUNT, account,
										   grants->grant[0].at_us, end);
	bool		in_progress;

	point(grants, list);
	while (row_scan_next(scan, slot, &in_progress))
	{
		int64		amount = row_int64(slot, LEDGER_AMOUNT);
		ExpiringSpan *span;

		if (in_progress || ledger_xid(slot) >= below ||
			(amount <= 0 && row_int64_or_0(slot, LEDGER_PERMIT) == 0))
			continue;
		span = expiring_span(list, grants->n, row_int64(slot, LEDGER_CHARGED_AT));
		if (span != NULL)
			span->spent += amount;
	}
	row_scan_end(scan);
}

/* See ledger.h. */
LedgerGrants *
ledger_grants(const uint8 *account, TimestampTz start, TimestampTz end, uint64 below)
{
	RowTable   *ledger = row_open_to_read(QUOTA_REL_LEDGER);
	LedgerGrants *grants = palloc0(sizeof(LedgerGrants));

	read_grants(ledger, account, start, end, below, grants);
	if (grants->n > 0)
		read_spent(ledger, account, end, below, grants);
	row_close(ledger);
	return grants;
}

/* See ledger.h. */
TimestampTz
ledger_grants_seen(const LedgerGrants *grants)
{
	TimestampTz seen = DT_NOBEGIN;
	RowTable   *expired;
	TupleTableSlot *slot;

	if (grants->n == 0)
		return seen;
	expired = row_open_to_read(QUOTA_REL_EXPIRED);
	slot = row_slot(expired);
	for (int i = 0; i < grants->n; i++)
	{
		RowScan    *scan = row_scan_id(expired, QUOTA_REL_EXPIRED_PKEY, grants->id[i]);
		bool		in_progress;

		if (row_scan_next(scan, slot, &in_progress))
			seen = Max(seen, grants->grant[i].until_us);
		row_scan_end(scan);
	}
	row_close(expired);
	return seen;
}

/* See ledger.h. */
void
ledger_grants_left(LedgerGrants *grants, int64 *left)
{
	Expiring   *list[EXPIRING_MAX];

	point(grants, list);
	expiring_left(list, grants->n, left);
}

/* See ledger.h. */
int64
ledger_grants_gone(LedgerGrants *grants, TimestampTz now)
{
	Expiring   *list[EXPIRING_MAX];
	int64		next_us;

	point(grants, list);
	return expiring_gone(list, grants->n, now, &next_us);
}

/* quota.account_grants(account, period_start, period_end, upto): see its COMMENT. */
Datum
quota_account_grants(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	uint64		below = PG_ARGISNULL(3) ? LEDGER_ALL_XIDS :
		U64FromFullTransactionId(PG_GETARG_FULLTRANSACTIONID(3));
	LedgerGrants *grants;
	int64		left[EXPIRING_MAX];

	quota_enter();
	InitMaterializedSRF(fcinfo, 0);
	if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_ARGISNULL(2))
		return (Datum) 0;
	grants = ledger_grants(PG_GETARG_UUID_P(0)->data, PG_GETARG_TIMESTAMPTZ(1),
						   PG_GETARG_TIMESTAMPTZ(2), below);
	ledger_grants_left(grants, left);
	for (int i = 0; i < grants->n; i++)
	{
		const Expiring *grant = &grants->grant[i];
		Datum		values[] = {Int64GetDatum(grants->id[i]),
		TimestampTzGetDatum(grant->until_us), Int64GetDatum(grant->amount),
		Int64GetDatum(left[i])};
		bool		nulls[lengthof(values)] = {false};

		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}
