/*
 * credit_expire.c
 *		Holds whose permit's lifetime is over and which nobody settled: resolved in
 *		the background.  Since they expired they count as if they were, see
 *		credit_lapse.c; that comes into the rows here.
 *
 * Every hold is resolved in a subtransaction, so that one that fails leaves the
 * others alone; the walk goes on behind it, and the next walk tries it again.
 * Resolving pins the buckets it charges until the transaction ends: when there
 * is no room for more of them, the walk stops before that hold, and the next
 * transaction goes on with it.
 */
#include "credit.h"

#include "catalog/pg_type.h"
#include "clock.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "permit.h"
#include "storage/lmgr.h"
#include "subxact.h"
#include "utils/timestamp.h"

/* Holds of one transaction, which all fit the cache of subtransactions. */
#define MAX_BATCH 64

/* The next holds behind the walk; the result is SPI's. */
static SPITupleTable *
next_holds(const CreditWalk *walk, int max)
{
	Oid			types[] = {TIMESTAMPTZOID, TIMESTAMPTZOID, INT8OID, INT4OID};
	Datum		values[4];
	QuotaOwner	caller = quota_become_owner();

	values[0] = TimestampTzGetDatum(quota_steady_us());
	values[1] = TimestampTzGetDatum(walk->permit == 0 ? DT_NOBEGIN :
									walk->expires_at);
	values[2] = Int64GetDatum(walk->permit);
	values[3] = Int32GetDatum(max);
	if (SPI_execute_with_args(
			"SELECT h.permit, h.expires_at, coalesce(h.job, 0)"
			" FROM quota.holds AS h"
			" WHERE h.expires_at OPERATOR(pg_catalog.<=) $1"
			" AND ROW(h.expires_at, h.permit) OPERATOR(pg_catalog.>) ROW($2, $3)"
			" ORDER BY h.expires_at, h.permit LIMIT $4",
			lengthof(types), types, values, NULL, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read quota.holds");
	quota_become_caller(caller);
	return SPI_tuptable;
}

/* Resolves a hold; for subxact_try(). */
static void
resolve(void *arg)
{
	(void) credit_lose(*(const int64 *) arg);
}

/* Tells of the first hold of a walk that failed. */
static void
report(CreditWalk *walk, int64 permit, const ErrorData *error)
{
	if (!walk->reported)
		ereport(WARNING,
				(errcode(error->sqlerrcode),
				 errmsg("could not resolve hold %lld, nor perhaps others",
						(long long) permit),
				 errdetail("%s", error->message),
				 errhint("It will be tried again.")));
	walk->reported = true;
}

/* See credit.h. */
void
credit_expire(CreditWalk *walk)
{
	int			max = Min(MAX_BATCH, Max(quota_max_buckets / 4, 1));
	SPITupleTable *table;
	bool		stopped = false;
	int			done = 0;

	/* now, as waiting for them in each subtransaction would take too long */
	LockRelationOid(quota_relation(QUOTA_REL_HOLDS), RowExclusiveLock);
	ledger_take_locks();
	SPI_connect();
	table = next_holds(walk, max);
	for (uint64 i = 0; i < table->numvals && !stopped; i++)
	{
		HeapTuple	row = table->vals[i];
		TupleDesc	desc = table->tupdesc;
		bool		isnull;
		int64		permit = DatumGetInt64(SPI_getbinval(row, desc, 1, &isnull));
		TimestampTz expires_at =
			DatumGetTimestampTz(SPI_getbinval(row, desc, 2, &isnull));
		int64		job = DatumGetInt64(SPI_getbinval(row, desc, 3, &isnull));
		ErrorData  *error = credit_is_lost(permit, job) ?
			subxact_try(resolve, &permit) : NULL;

		/* it may fit when these are committed */
		stopped = error && done > 0 &&
			error->sqlerrcode == ERRCODE_CONFIGURATION_LIMIT_EXCEEDED;
		if (stopped)
			break;
		if (error)
			report(walk, permit, error);
		done += error == NULL;
		walk->expires_at = expires_at;
		walk->permit = permit;
		stopped = quota_raw_ns() >= walk->until_ns;
	}
	walk->over = !stopped && table->numvals < max;
	SPI_finish();
}
