/*
 * settle.c
 *		What happens to a permit after the call: quota_settle(), quota_release(),
 *		quota_extend().
 *
 * Settling marks the permit at once, so that no other session can settle it too,
 * and gives back at commit; see permit.c.  The row of an open hold is resolved in
 * the caller's transaction (credit.c) and is what makes it once only over
 * crashes.
 */
#include "decide.h"

#include "args.h"
#include "catalog.h"
#include "credit.h"
#include "error.h"
#include "journal.h"
#include "mark.h"
#include "miscadmin.h"
#include "permit.h"
#include "report.h"
#include "rules.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(quota_settle);
PG_FUNCTION_INFO_V1(quota_release);
PG_FUNCTION_INFO_V1(quota_extend);

/* Buckets of one permit that are renewed before it is settled: each a few times. */
#define MAX_RENEWALS (4 * QUOTA_MAX_TERMS)

/* How much of its charge a settled call keeps. */
typedef enum Keep
{
	KEEP_ALL,					/* as estimated, or as units say */
	KEEP_RATE,					/* not billed: credits return */
	KEEP_NOTHING				/* never sent */
} Keep;

/* Units of one part that stay charged. */
static int64
final_amount(const QuotaPermit *p, const QuotaPart *part, Keep keep,
			 const QuotaUnits *units)
{
	if (keep == KEEP_NOTHING ||
		(keep == KEEP_RATE && part->kind == QUOTA_ALLOWANCE))
		return 0;
	for (int i = 0; units && i < units->n; i++)
		if (quota_unit_hash(units->u[i].unit) == part->unit_hash)
			return units->u[i].amount * permit_calls(p);
	return permit_left(p, part);
}

/*
 * Says of every part what stays charged, but of concurrency, and of allowances, which
 * credit_resolve() says; lock held.
 */
static void
set_finals(uint32 index, Keep keep, const QuotaUnits *units, int64 now_ns)
{
	QuotaPermit *p = &quota_permits[index];

	for (int i = 0; i < p->nparts; i++)
		if (p->parts[i].kind != QUOTA_CONCURRENCY && !permit_is_credit(&p->parts[i]))
			permit_set_final(index, i, final_amount(p, &p->parts[i], keep, units),
							 now_ns);
}

/*
 * As permit_lock(); when units are told its buckets have the rules of today, as what
 * they are charged beyond the estimate must be taken now.  May throw.
 */
static uint32
lock_renewed(int64 permit, const QuotaUnits *units)
{
	for (int renewals = 0;; renewals++)
	{
		uint32		index = permit_lock(permit, MyDatabaseId, quota_catalog()->extension);
		uint32		stale = index == QUOTA_NO_INDEX || units == NULL ? QUOTA_NO_INDEX
			: permit_stale_bucket(index);

		if (stale == QUOTA_NO_INDEX || renewals == MAX_RENEWALS)
			return index;
		permit_unlock(index);
		(void) rules_renew(stale);
	}
}

/*
 * Marks the permit and sets what stays charged.  False when it is not open, which
 * leaves the row of its hold, if any, to decide.  Throws 55P03.
 */
static bool
mark(int64 permit, Keep keep, const QuotaUnits *units, bool *has_hold,
	 bool *restored)
{
	int64		now_ns;
	PermitMark	result;
	uint32		index;

	*has_hold = false;
	*restored = false;

	journal_reserve(QUOTA_MAX_TERMS);
	index = lock_renewed(permit, units);
	if (index == QUOTA_NO_INDEX)
		return false;
	now_ns = quota_now_ns();	/* under the lock: nobody is ahead of us */
	result = permit_mark(index, now_ns);
	*has_hold = quota_permits[index].has_hold;
	*restored = quota_permits[index].restored;
	if (result == PERMIT_MARKED)
	{
		set_finals(index, keep, units, now_ns);
		if (keep != KEEP_NOTHING && permit_is_ours(index))
			journal_permit_spent(index);
	}
	permit_unlock(index);
	if (result == PERMIT_BUSY)
		quota_error_permit_busy(permit);
	mark_secure();
	return result == PERMIT_MARKED;
}

/* False when there is neither an open permit nor an open hold. */
static bool
finish(int64 permit, Keep keep, const QuotaUnits *units)
{
	bool		has_hold;
	bool		restored;
	bool		marked = mark(permit, keep, units, &has_hold, &restored);

	if (marked && !has_hold && !restored)
		return true;
	/* credits only return with the row that says they were held */
	return credit_resolve(permit, keep == KEEP_ALL, units, marked) ||
		(marked && !has_hold);
}

/* See decide.h. */
bool
quota_settle_permit(int64 permit, bool billed, const QuotaUnits *units)
{
	return finish(permit, billed ? KEEP_ALL : KEEP_RATE, units);
}

/* Whose call it was. */
typedef struct Caller
{
	char		provider[QUOTA_NAME_LEN];
	char		tenant[QUOTA_NAME_LEN];
	char		endpoint[QUOTA_NAME_LEN];
} Caller;

/* Looks at the permit; false when nothing is known of its call. */
static bool
find_caller(int64 permit, Caller *caller)
{
	uint32		index = permit_lock(permit, MyDatabaseId, quota_catalog()->extension);
	const QuotaPermit *p;
	bool		known;

	if (index == QUOTA_NO_INDEX)
		return false;
	p = &quota_permits[index];
	known = p->tenant != QUOTA_NO_INDEX;
	if (known)
	{
		strlcpy(caller->provider, quota_slots[p->owner].provider, QUOTA_NAME_LEN);
		strlcpy(caller->tenant, quota_tenants[p->tenant].name, QUOTA_NAME_LEN);
		strlcpy(caller->endpoint, p->endpoint, QUOTA_NAME_LEN);
	}
	permit_unlock(index);
	return known;
}

/* quota_settle(permit, billed, units, status, headers, latency): see its COMMENT. */
Datum
quota_settle(PG_FUNCTION_ARGS)
{
	int64		permit;
	bool		billed;
	QuotaUnits *units;
	Report		report;
	Caller		caller;
	bool		tells;

	quota_enter_write("quota_settle()");
	memset(&report, 0, sizeof(report));
	billed = quota_arg_bool(fcinfo, 1, "billed");
	units = quota_arg_units(fcinfo, 2);
	report.status = quota_arg_status(fcinfo, 3);
	report.headers = PG_ARGISNULL(4) ? NULL : PG_GETARG_JSONB_P(4);
	report.latency_us = quota_arg_latency(fcinfo, 5);
	if (PG_ARGISNULL(0))		/* the call had nothing to settle */
		PG_RETURN_VOID();
	permit = PG_GETARG_INT64(0);
	tells = report_says_anything(&report) && find_caller(permit, &caller);
	if (!quota_settle_permit(permit, billed, units) &&
		!credit_settled_alike(permit, billed, units))
		quota_error_permit(permit);
	if (tells)
	{
		report.permit = permit;
		report.call.provider = caller.provider;
		report.call.tenant = caller.tenant;
		report.call.endpoint = caller.endpoint[0] ? caller.endpoint : NULL;
		(void) report_try(&report);
	}
	PG_RETURN_VOID();
}

/*
 * Gives back n calls of a permit at commit.  The row of its hold, if any, decides
 * where that is gone from memory.  False when neither is open; throws 55P03, 22023.
 */
static bool
give_back(int64 permit, int32 n)
{
	uint32		index;
	int32		calls;
	bool		may_hold;
	PermitMark	result = PERMIT_MARKED;

	journal_reserve(1);
	index = permit_lock(permit, MyDatabaseId, quota_catalog()->extension);
	if (index == QUOTA_NO_INDEX)
		return credit_give_back(permit, n, false);
	calls = permit_calls(&quota_permits[index]);
	may_hold = quota_permits[index].has_hold || quota_permits[index].restored;
	if (n < calls)
		result = permit_give(index, n, quota_now_ns());
	else if (quota_permits[index].expires_ns <= quota_now_ns())
		result = PERMIT_OVER;
	permit_unlock(index);
	if (result == PERMIT_BUSY)
		quota_error_permit_busy(permit);
	if (n > calls)
		quota_error_range("n", n, 1, calls);
	if (n == calls && !(may_hold && result == PERMIT_OVER))
		return finish(permit, KEEP_NOTHING, NULL);
	if (may_hold)
		return credit_give_back(permit, n, result == PERMIT_MARKED);
	return result == PERMIT_MARKED;
}

/* quota_release(permit, n): see its COMMENT. */
Datum
quota_release(PG_FUNCTION_ARGS)
{
	int64		permit;
	bool		done;

	quota_enter_write("quota_release()");
	if (PG_ARGISNULL(0))
		PG_RETURN_VOID();
	permit = PG_GETARG_INT64(0);
	if (PG_ARGISNULL(1))
		done = finish(permit, KEEP_NOTHING, NULL) ||
			credit_settled_alike(permit, false, NULL);
	else
		done = give_back(permit, quota_arg_int32(fcinfo, 1, "n", 1, PG_INT32_MAX));
	if (!done)
		quota_error_permit(permit);
	PG_RETURN_VOID();
}

/*
 * Moves the end of an open permit to now + by.  At most its own lifetime ahead,
 * because after a crash calls in flight are forgotten after one lifetime (G14).
 */
static int64
extend(int64 permit, int64 by_ns)
{
	uint32		index;
	QuotaPermit *p;
	bool		busy;
	bool		over = false;
	bool		may_hold;
	int64		lifetime_ns;
	int64		now_ns;
	int64		end_ns;

	journal_reserve(1);
	index = permit_lock(permit, MyDatabaseId, quota_catalog()->extension);
	if (index == QUOTA_NO_INDEX)
		quota_error_permit(permit);
	p = &quota_permits[index];
	busy = permit_is_taken(index);
	now_ns = quota_now_ns();
	lifetime_ns = p->lifetime_ns;
	if (!busy && by_ns <= lifetime_ns)
		over = !permit_extend(index, Max(p->expires_ns, now_ns + by_ns), now_ns);
	end_ns = p->expires_ns;
	may_hold = p->has_hold || p->restored;
	permit_unlock(index);
	if (busy)
		quota_error_permit_busy(permit);
	if (over)
		quota_error_permit(permit);
	if (by_ns > lifetime_ns)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"by\" exceeds the permit's lifetime"),
				 errdetail("The lifetime is %lld milliseconds.",
						   (long long) (lifetime_ns / 1000000)),
				 errhint("Extend repeatedly, or raise quota.limits.permit_lifetime.")));
	/* so that after a crash nobody takes it for lost earlier */
	if (may_hold &&
		hold_extend(permit, quota_steady_of(end_ns)) == HOLD_BUSY)
		quota_error_permit_busy(permit);
	return end_ns;
}

/* quota_extend(permit, by): see its COMMENT. */
Datum
quota_extend(PG_FUNCTION_ARGS)
{
	int64		permit;
	int64		by_ns;
	int64		end_ns;

	quota_enter_write("quota_extend()");
	permit = quota_arg_int64(fcinfo, 0, "permit", PG_INT64_MIN, PG_INT64_MAX);
	by_ns = quota_arg_interval(fcinfo, 1, "by");
	end_ns = extend(permit, by_ns);
	PG_RETURN_TIMESTAMPTZ(quota_wall_us() +
						  (end_ns - quota_now_ns()) / QUOTA_NS_PER_US);
}
