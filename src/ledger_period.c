/*
 * ledger_period.c
 *		The end of a calendar period: one row of quota.ledger_periods for each period
 *		of an account that had entries.
 *
 * Nothing is decided by these rows: a new period begins with nothing used, for
 * whoever touches its bucket first (credit_period.c), whether or not there is a row
 * of the old one.  Holds that are open at its end, and what is written later about
 * it, stay in the old period, whose row is not changed: it says up to which
 * transaction it counts.
 *
 * There is one writer, the worker of the database; a unique key sees to the rest.
 * Periods of an account are closed in the order of time and do not overlap: after a
 * change of its calendar the first one starts where the last one has ended.  None is
 * left out, however many have ended since: whoever closes one closes all before it,
 * found by the first entry that is charged after the last row's end.
 */
#include "credit.h"

#include "access/xlog.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "row_write.h"
#include "utils/fmgroids.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"
#include "utils/xid8.h"

PG_FUNCTION_INFO_V1(quota_account_amount);

typedef struct LedgerPeriod
{
	TimestampTz start;
	TimestampTz end;
} LedgerPeriod;

/* Up to when the account's periods are closed. */
static TimestampTz
closed_until(RowTable *periods, const uint8 *account)
{
	TupleTableSlot *slot = row_slot(periods);
	TimestampTz until = DT_NOBEGIN;
	ScanKeyData key;
	RowScan    *scan;
	bool		in_progress;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_UUID_EQ,
				PointerGetDatum(account));
	scan = row_scan_begin(periods, QUOTA_REL_PERIODS_PKEY, 1, &key);
	if (row_scan_back(scan, slot, &in_progress))
		until = row_int64(slot, PERIODS_END);
	row_scan_end(scan);
	return until;
}

/* The newest entry of the account, which has one. */
static LedgerEntry *
any_entry(const uint8 *account)
{
	RowTable   *ledger = row_open(QUOTA_REL_LEDGER);
	TupleTableSlot *slot = row_slot(ledger);
	LedgerEntry *entry = NULL;
	ScanKeyData key;
	RowScan    *scan;
	bool		in_progress;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_UUID_EQ,
				PointerGetDatum(account));
	scan = row_scan_begin(ledger, QUOTA_REL_LEDGER_ACCOUNT, 1, &key);
	while (entry == NULL && row_scan_back(scan, slot, &in_progress))
		if (!in_progress)
			entry = ledger_read(slot);
	row_scan_end(scan);
	row_close(ledger);
	return entry;
}

/* The account of an entry, as that has it. */
static LedgerAccount
account_of(const LedgerEntry *entry)
{
	LedgerAccount account = {.provider = entry->provider,
	.limit_name = entry->limit_name,.tenant = entry->tenant};

	memcpy(account.id, entry->account, QUOTA_ACCOUNT_LEN);
	return account;
}

/*
 * The term is of the limit that the account is of, and kept by the same words.  Of
 * accounts that users and the like tell apart any will do.
 */
static bool
is_of_account(const QuotaTerm *term, const LedgerAccount *account)
{
	LedgerAccount other = *account;

	if (term->kind != QUOTA_ALLOWANCE || strcmp(term->name, account->limit_name) != 0)
		return false;
	memcpy(other.id, term->account, QUOTA_ACCOUNT_LEN);
	if (memcmp(other.id, account->id, QUOTA_ACCOUNT_LEN) == 0)
		return true;
	return !ledger_account_is_shared(account) && !ledger_account_is_own(account) &&
		!ledger_account_is_shared(&other) && !ledger_account_is_own(&other);
}

/*
 * What the limit of an entry allows the tenant that it names, now.  False when no
 * call of that tenant meets it, or other accounts of it since its "per" has changed.
 */
static bool
find_amount(const LedgerEntry *entry, const CreditLimit *limit, int64 *amount)
{
	const LedgerAccount account = account_of(entry);
	List	   *providers = entry->provider ? list_make1((void *) entry->provider) :
		credit_providers();
	ListCell   *cell;

	foreach(cell, providers)
	{
		/* a pattern matches itself; of users and the like anyone will do */
		QuotaCall	call = {.tenant = entry->tenant,.provider = lfirst(cell),
		.endpoint = limit->endpoint,.user = "-",.connection = "-",.resource = "-"};
		const QuotaPlan *plan = quota_plan_unchecked(&call);

		for (int i = 0; plan && i < plan->nterms; i++)
		{
			const QuotaTerm *term = &plan->terms[i];

			*amount = term->capacity;
			if ((term->slot == plan->slot) == (entry->provider != NULL) &&
				is_of_account(term, &account))
				return true;
		}
	}
	return false;
}

/* Writes the row of a period. */
static void
insert_period(RowTable *periods, const LedgerEntry *entry,
			  const CreditLimit *limit, const LedgerPeriod *period,
			  const LedgerHorizon *horizon)
{
	RowValues	row = row_values(periods);
	bool		open = false;
	LedgerSum	sum = ledger_sum(entry->account, period->start, period->end,
								 horizon->xid, &open);
	const LedgerAccount account = account_of(entry);
	LedgerGrants *grants = ledger_grants(entry->account, period->start, period->end,
										 horizon->xid);
	int64		amount;

	row_set(&row, PERIODS_ACCOUNT, PointerGetDatum(entry->account));
	row_set(&row, PERIODS_START, TimestampTzGetDatum(period->start));
	row_set(&row, PERIODS_END, TimestampTzGetDatum(period->end));
	row_set_text(&row, PERIODS_PROVIDER, entry->provider);
	row_set_text(&row, PERIODS_LIMIT_NAME, entry->limit_name);
	row_set_text(&row, PERIODS_TENANT, ledger_account_tenant(&account, limit->per_tenant));
	row_set_text(&row, PERIODS_UNIT, entry->unit);
	if (find_amount(entry, limit, &amount))
		row_set(&row, PERIODS_AMOUNT, Int64GetDatum(amount));
	row_set(&row, PERIODS_POSTED, Int64GetDatum(sum.used - sum.held));
	row_set(&row, PERIODS_HELD, Int64GetDatum(sum.held));
	row_set(&row, PERIODS_GIVEN, Int64GetDatum(sum.given));
	row_set(&row, PERIODS_UPTO, FullTransactionIdGetDatum(
				FullTransactionIdFromU64(horizon->xid)));
	row_set(&row, PERIODS_CREATED_AT, TimestampTzGetDatum(quota_wall_us()));
	row_set(&row, PERIODS_EXPIRED,
			Int64GetDatum(ledger_grants_gone(grants, period->end - 1)));
	ledger_write(periods, &row);
}

/* See credit.h. */
void
ledger_close(const uint8 *account, const CreditLimit *limit,
			 const LedgerHorizon *horizon)
{
	RowTable   *table = row_open(QUOTA_REL_PERIODS);
	TimestampTz until = closed_until(table, account);
	TimestampTz charged_at;
	const LedgerEntry *entry = NULL;

	while ((charged_at = ledger_next_charged(account, until)) < horizon->complete_us)
	{
		LedgerPeriod period;

		CHECK_FOR_INTERRUPTS();
		calendar_period(&limit->calendar, charged_at, &period.start, &period.end);
		if (period.end > horizon->complete_us)
			break;
		period.start = Max(period.start, until);
		if (entry == NULL)
			entry = any_entry(account);
		insert_period(table, entry, limit, &period, horizon);
		until = period.end;
	}
	row_close(table);
}

/* quota.account_amount(account): see its COMMENT. */
Datum
quota_account_amount(PG_FUNCTION_ARGS)
{
	const LedgerEntry *entry;
	CreditLimit limit;
	int64		amount;

	quota_enter();
	if (RecoveryInProgress())	/* no configuration is kept there */
		PG_RETURN_NULL();
	entry = any_entry(PG_GETARG_UUID_P(0)->data);
	if (entry == NULL ||
		!credit_find_limit(entry->provider, entry->limit_name, &limit) ||
		!find_amount(entry, &limit, &amount))
		PG_RETURN_NULL();
	PG_RETURN_INT64(amount);
}
