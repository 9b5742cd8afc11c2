/*
 * credit_sql.c
 *		Credits by hand: quota_grant(), quota_adjust() and quota_balance(); quota_refund()
 *		is in credit_refund.c, quota_hold() in hold_sql.c.
 *
 * All of them name an allowance by tenant, provider and limit, as a call would:
 * the plan of such a call says which account that is.  Tenant NULL names an
 * account that all tenants share, provider NULL a limit across providers.
 */
#include "credit.h"

#include "args.h"
#include "catalog/pg_type.h"
#include "error.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "once.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/json.h"
#include "utils/timestamp.h"
#include "worker.h"

PG_FUNCTION_INFO_V1(quota_grant);
PG_FUNCTION_INFO_V1(quota_adjust);
PG_FUNCTION_INFO_V1(quota_balance);

/* ---- naming an account ---- */

/* See credit.h. */
List *
credit_providers(void)
{
	MemoryContext context = CurrentMemoryContext;
	QuotaOwner	caller = quota_become_owner();
	List	   *names = NIL;

	SPI_connect();
	if (SPI_execute("SELECT provider FROM quota.providers ORDER BY provider",
					true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read quota.providers");
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		char	   *name = SPI_getvalue(SPI_tuptable->vals[i],
										SPI_tuptable->tupdesc, 1);
		MemoryContext spi = MemoryContextSwitchTo(context);

		names = lappend(names, pstrdup(name));
		MemoryContextSwitchTo(spi);
	}
	SPI_finish();
	quota_become_caller(caller);
	return names;
}

/* The plan of a call; it is known that the tenant exists or is not needed. */
static QuotaPlan *
plan_of(const char *tenant, const char *provider, const char *endpoint)
{
	QuotaCall	call = {.tenant = tenant, .provider = provider,
	.endpoint = endpoint};
	QuotaPlan  *plan = quota_plan_unchecked(&call);

	if (plan == NULL && tenant && !quota_tenant_exists(tenant))
		quota_error_no_such("tenant", tenant);
	if (plan == NULL)
		quota_error_no_such("provider", provider);
	return plan;
}

/* The term is of a limit across providers. */
static bool
is_across(const QuotaPlan *plan, const QuotaTerm *term)
{
	return term->slot != plan->slot;
}

/* The plan's allowance of that name, of the provider or across providers. */
static QuotaTerm *
find_allowance(QuotaPlan *plan, const char *name, bool across)
{
	for (int i = 0; i < plan->nterms; i++)
	{
		QuotaTerm  *term = &plan->terms[i];

		if (term->kind == QUOTA_ALLOWANCE && strcmp(term->name, name) == 0 &&
			is_across(plan, term) == across)
			return term;
	}
	return NULL;
}

/*
 * The allowance that the arguments name, and an entry of its account without
 * kind and amount.  Throws 42704 when there is none.
 */
static QuotaTerm *
named_allowance(const char *tenant, const char *provider, const char *name,
				const char *endpoint, LedgerEntry *entry)
{
	List	   *providers = provider ? list_make1((void *) provider) :
		credit_providers();
	QuotaTerm  *term = NULL;
	ListCell   *cell;

	foreach(cell, providers)
	{
		QuotaPlan  *plan = plan_of(tenant, lfirst(cell), endpoint);

		term = find_allowance(plan, name, provider == NULL);
		if (term != NULL)
			break;
	}
	if (term == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("no allowance \"%s\" applies here", name),
				 errdetail("It must be a limit of kind allowance that a call with this tenant, provider and endpoint meets, with an amount that is not null."),
				 errhint("Limits across providers or of an account are named with provider null.")));
	memset(entry, 0, sizeof(*entry));
	memcpy(entry->account, term->account, QUOTA_ACCOUNT_LEN);
	entry->provider = provider;
	entry->limit_name = term->name;
	entry->tenant = tenant;
	entry->unit = term->unit;
	return term;
}

/* ---- entries by hand ---- */

/* See credit.h. */
void
credit_fold_soon(void)
{
	quota_work_due(quota_slot(MyDatabaseId, quota_catalog()->extension, ""),
				   quota_now_ns() + LEDGER_FOLD_NS);
}

/* Counts the entry, then writes it. */
static void
enter(LedgerEntry *entry, const QuotaTerm *term)
{
	RowTable   *ledger;

	entry->charged_at = DT_NOBEGIN;
	entry->created_at = quota_wall_us();
	if (entry->expires_at != 0)
		credit_charge_grant(entry, term);
	else
		credit_charge(entry, term, entry->amount, &entry->charged_at);
	ledger = row_open(QUOTA_REL_LEDGER);
	ledger_append(ledger, entry);
	row_close(ledger);
	credit_fold_soon();
}

/* The same whatever the session's time zone and DateStyle; NULL for 0. */
static char *
utc_text(TimestampTz at)
{
	char		shown[MAXDATELEN + 1];
	int			utc = 0;

	if (at == 0)
		return NULL;
	return pstrdup(JsonEncodeDateTime(shown, TimestampTzGetDatum(at), TIMESTAMPTZOID, &utc));
}

/* Arguments tenant, provider, name, amount, reason, endpoint, key. */
static void
enter_by_hand(FunctionCallInfo fcinfo, const char *kind, int64 min, int sign,
			  TimestampTz expires_at)
{
	char	   *tenant = quota_arg_name(fcinfo, 0, "tenant", false);
	char	   *provider = quota_arg_name(fcinfo, 1, "provider", false);
	char	   *name = quota_arg_name(fcinfo, 2, "name", true);
	int64		amount = quota_arg_int64(fcinfo, 3, "amount", min,
										 QUOTA_MAX_AMOUNT);
	char	   *reason = quota_arg_text(fcinfo, 4, "reason", false);
	char	   *endpoint = quota_arg_name(fcinfo, 5, "endpoint", false);
	OnceCall	once = {.operation = kind,.tenant = tenant,.provider = provider,
	.key = once_key_arg(fcinfo, 6)};
	LedgerEntry entry;
	QuotaTerm  *term;

	once_text(&once, "name", name);
	once_int64(&once, "amount", amount);
	once_text(&once, "reason", reason);
	once_text(&once, "endpoint", endpoint);
	if (strcmp(kind, "grant") == 0)
		once_text(&once, "expires_at", utc_text(expires_at));
	if (once_take(&once, NULL))
		return;
	term = named_allowance(tenant, provider, name, endpoint, &entry);
	entry.kind = kind;
	entry.amount = sign * amount;
	entry.reason = reason;
	entry.expires_at = expires_at;
	enter(&entry, term);
	once_store(&once, NULL);
	once_release(&once);
}

/*
 * quota_grant(tenant, provider, name, amount, reason, endpoint, key, expires_at): see
 * its COMMENT.
 */
Datum
quota_grant(PG_FUNCTION_ARGS)
{
	TimestampTz expires_at = PG_ARGISNULL(7) ? 0 : PG_GETARG_TIMESTAMPTZ(7);

	quota_enter_write("quota_grant()");
	/* 0 says that it does not expire, and is as far in the past */
	if (!PG_ARGISNULL(7) && expires_at == 0)
		expires_at = -1;
	enter_by_hand(fcinfo, "grant", 1, -1, expires_at);
	PG_RETURN_VOID();
}

/* quota_adjust(tenant, provider, name, amount, reason, endpoint, key): see its COMMENT. */
Datum
quota_adjust(PG_FUNCTION_ARGS)
{
	quota_enter_write("quota_adjust()");
	enter_by_hand(fcinfo, "adjust", -QUOTA_MAX_AMOUNT, 1, 0);
	PG_RETURN_VOID();
}

/* ---- balances ---- */

enum
{
	BALANCE_PROVIDER,
	BALANCE_LIMIT_NAME,
	BALANCE_UNIT,
	BALANCE_AMOUNT,
	BALANCE_USED,
	BALANCE_POSTED,
	BALANCE_HELD,
	BALANCE_REMAINING,
	BALANCE_PERIOD_START,
	BALANCE_PERIOD_END,
	BALANCE_EXPIRING,
	BALANCE_EXPIRES_AT,
	N_BALANCE
};

/* As credit_lock_ready(); what has lapsed is known. */
static uint32
lock_for_reading(const QuotaTerm *term)
{
	for (;;)
	{
		uint32		index = credit_lock_ready(term);

		if (!credit_lapse_due(&quota_buckets[index], quota_now_ns()))
			return index;
		credit_unlock(index);
		credit_lapse_read(term);
	}
}

/* Units of holds that are open, as far as that is known without reading their rows. */
static int64
held_by_open(const QuotaBucket *b)
{
	return b->held + Max(b->loose - b->overdue - b->lapsed, 0);
}

/* One row: the counter as it is now, what is taken by others included. */
static void
put_balance(ReturnSetInfo *result, const char *provider, const QuotaTerm *term)
{
	Datum		values[N_BALANCE];
	bool		nulls[N_BALANCE] = {false};
	uint32		index = lock_for_reading(term);
	int64		used = quota_buckets[index].used - quota_buckets[index].lapsed +
		quota_buckets[index].gone;
	int64		held = held_by_open(&quota_buckets[index]);
	TimestampTz start_us = quota_buckets[index].period_start_us;
	TimestampTz end_us = quota_buckets[index].period_end_us;
	CreditExpiring expiring = credit_grants_next(&quota_buckets[index]);

	credit_unlock(index);
	nulls[BALANCE_PROVIDER] = provider == NULL;
	values[BALANCE_PROVIDER] = provider ? CStringGetTextDatum(provider) : 0;
	values[BALANCE_LIMIT_NAME] = CStringGetTextDatum(term->name);
	values[BALANCE_UNIT] = CStringGetTextDatum(term->unit);
	values[BALANCE_AMOUNT] = Int64GetDatum(term->capacity);
	values[BALANCE_USED] = Int64GetDatum(used);
	values[BALANCE_POSTED] = Int64GetDatum(term->capacity - used + held);
	values[BALANCE_HELD] = Int64GetDatum(held);
	values[BALANCE_REMAINING] = Int64GetDatum(term->capacity - used);
	values[BALANCE_PERIOD_START] = TimestampTzGetDatum(start_us);
	values[BALANCE_PERIOD_END] = TimestampTzGetDatum(end_us);
	values[BALANCE_EXPIRING] = Int64GetDatum(expiring.units);
	values[BALANCE_EXPIRES_AT] = TimestampTzGetDatum(expiring.until_us);
	nulls[BALANCE_EXPIRES_AT] = expiring.units == 0;
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/* An account across providers turns up in the plan of each of them. */
static bool
seen_before(List **seen, const QuotaTerm *term)
{
	ListCell   *cell;

	foreach(cell, *seen)
		if (memcmp(lfirst(cell), term->account, QUOTA_ACCOUNT_LEN) == 0)
			return true;
	*seen = lappend(*seen, (void *) term->account);
	return false;
}

/* quota_balance(tenant, provider, endpoint): see its COMMENT. */
Datum
quota_balance(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	char	   *tenant;
	char	   *provider;
	char	   *endpoint;
	List	   *seen = NIL;
	ListCell   *cell;

	quota_enter_primary("quota_balance()");
	tenant = quota_arg_name(fcinfo, 0, "tenant", false);
	provider = quota_arg_name(fcinfo, 1, "provider", false);
	endpoint = quota_arg_name(fcinfo, 2, "endpoint", false);
	InitMaterializedSRF(fcinfo, 0);
	if (RecoveryInProgress())	/* no shared state on a standby */
		return (Datum) 0;

	foreach(cell, provider ? list_make1(provider) : credit_providers())
	{
		QuotaPlan  *plan = plan_of(tenant, lfirst(cell), endpoint);

		for (int i = 0; i < plan->nterms; i++)
		{
			const QuotaTerm *term = &plan->terms[i];

			if (term->kind == QUOTA_ALLOWANCE && !seen_before(&seen, term))
				put_balance(result, is_across(plan, term) ? NULL : lfirst(cell),
							term);
		}
	}
	return (Datum) 0;
}
