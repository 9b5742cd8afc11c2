/*
 * credit_expire.c
 *		Holds whose permit's lifetime is over and which nobody settled: resolved
 *		in the background, as the provider says (lost_permit).
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

/* The permit lives: it was extended since its hold row was written. */
static bool
permit_lives(int64 permit)
{
	uint32		index = permit_lock(permit, MyDatabaseId,
									quota_catalog()->extension);
	bool		lives;

	if (index == QUOTA_NO_INDEX)
		return false;
	lives = quota_permits[index].marked ||
		(quota_permits[index].state != QUOTA_PERMIT_EXPIRED &&
		 quota_permits[index].expires_ns > quota_now_ns());
	permit_unlock(index);
	return lives;
}

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
			"SELECT h.permit, h.expires_at,"
			" (SELECT p.lost_permit OPERATOR(pg_catalog.=) 'refund'"
			" FROM quota.providers AS p"
			" WHERE p.provider OPERATOR(pg_catalog.=) h.provider)"
			" FROM quota.holds AS h"
			" WHERE h.expires_at OPERATOR(pg_catalog.<=) $1"
			" AND ROW(h.expires_at, h.permit) OPERATOR(pg_catalog.>) ROW($2, $3)"
			" ORDER BY h.expires_at, h.permit LIMIT $4",
			lengthof(types), types, values, NULL, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read quota.holds");
	quota_become_caller(caller);
	return SPI_tuptable;
}

/* A hold to be resolved. */
typedef struct LostHold
{
	int64		permit;
	bool		refund;			/* its credits return */
} LostHold;

/* Resolves a hold; for subxact_try(). */
static void
resolve(void *arg)
{
	const LostHold *hold = arg;

	(void) credit_finish(hold->permit, "expire", !hold->refund, NULL, false);
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
		bool		refund = DatumGetBool(SPI_getbinval(row, desc, 3, &isnull)) &&
			!isnull;
		LostHold	hold = {permit, refund};
		ErrorData  *error = permit_lives(permit) ? NULL :
			subxact_try(resolve, &hold);

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
