/*
 * ledger_period.c
 *		The end of a calendar period: one row of quota.ledger_periods for each period
 *		of an account that had entries.
 *
 * Nothing is decided by these rows: a new period begins with nothing used, for
 * whoever touches its bucket first (credit_period.c), whether or not there is a row
 * of the old one.  Holds that are open at its end, and what becomes of them later,
 * stay in the old period, whose row is not changed by that: it says up to which
 * transaction it counts.
 *
 * There is one writer, the worker of the database; a unique key sees to the rest.
 * Periods of an account are closed in the order of time and do not overlap: after a
 * change of its calendar the first one starts where the last one has ended.  None is
 * left out, however many have ended since: whoever closes one closes all before it,
 * found by the first entry that is charged after the last row's end.
 *
 * CHARGED AFTER ALL
 *
 * When a period is over is told by the wall clock, and that may be set back.  Then a
 * period may have its row when a transaction is open that was in it, or begins and
 * takes of it as if it was not over; so may a call, whatever the clock does, that took
 * just before the end and had no transaction number yet.  No look at a clock or at
 * transactions excludes all of that, but the entries tell of it: a row lacks a charge
 * (a hold, grant or adjustment, which counts when it was decided) that is in its
 * period and whose transaction is not older than its upto.
 *
 * Such a row is written anew (count_again), with what it says counted up to the
 * horizon.  Who folds an account looks for that among the entries that are not folded
 * yet, in one subtransaction with the fold.  So there is never a fold with a charge in
 * it that the row of its period has not, if there is a row:
 *
 *	- A row is written with the horizon of then as its upto, and a fold, too; a horizon
 *	  only moves forward.  A charge that is below the upto of a row was visible when that
 *	  was written, and is in it.  One that is not is in no fold that was there then, so
 *	  one of those to come finds it among its entries, with the row.
 *	- Whoever rolls back, by a savepoint or a crash, leaves no entry that is read.
 *	- What the worker rolls back, or a crash takes, is the fold and the row.  Then, and
 *	  when an account fails alone, of which a warning tells, the charge is still in no
 *	  fold, and is found when the account is met next (ledger_fold.c).
 *	- Doing it twice changes nothing: the row's upto is above the charge then.
 *
 * A period of which nothing had been committed has no row; if a later one has, the
 * charge is in a gap between rows, and gets a row that fills it as far as the calendar
 * says.  A row that was restored knows no transactions and stays as it is.
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

/* The account that is being closed. */
typedef struct Closing
{
	RowTable   *periods;
	TupleTableSlot *slot;		/* of a row of those */
	const uint8 *account;
	const CreditLimit *limit;
	const LedgerHorizon *horizon;
	const LedgerEntry *entry;	/* one of the account; NULL = not read yet */
	LedgerPeriod known;			/* its row was looked at, */
	uint64		known_upto;		/* and counts up to here */
} Closing;

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

/* The entry to name the account by. */
static const LedgerEntry *
entry_of(Closing *c)
{
	if (c->entry == NULL)
		c->entry = any_entry(c->account);
	return c->entry;
}

/* What the period comes to by the horizon. */
static void
set_counted(Closing *c, RowValues *row, const LedgerPeriod *period)
{
	uint64		upto = c->horizon->xid;
	bool		open = false;
	LedgerSum	sum = ledger_sum(c->account, period->start, period->end, upto, &open);
	LedgerGrants *grants = ledger_grants(c->account, period->start, period->end, upto);
	int64		amount;

	if (find_amount(entry_of(c), c->limit, &amount))
		row_set(row, PERIODS_AMOUNT, Int64GetDatum(amount));
	row_set(row, PERIODS_POSTED, Int64GetDatum(sum.used - sum.held));
	row_set(row, PERIODS_HELD, Int64GetDatum(sum.held));
	row_set(row, PERIODS_GIVEN, Int64GetDatum(sum.given));
	row_set(row, PERIODS_UPTO, FullTransactionIdGetDatum(FullTransactionIdFromU64(upto)));
	row_set(row, PERIODS_CREATED_AT, TimestampTzGetDatum(quota_wall_us()));
	row_set(row, PERIODS_EXPIRED,
			Int64GetDatum(ledger_grants_gone(grants, period->end - 1)));
}

/* Writes the row of a period. */
static void
insert_period(Closing *c, const LedgerPeriod *period)
{
	const LedgerEntry *entry = entry_of(c);
	const LedgerAccount account = account_of(entry);
	RowValues	row = row_values(c->periods);

	row_set(&row, PERIODS_ACCOUNT, PointerGetDatum(c->account));
	row_set(&row, PERIODS_START, TimestampTzGetDatum(period->start));
	row_set(&row, PERIODS_END, TimestampTzGetDatum(period->end));
	row_set_text(&row, PERIODS_PROVIDER, entry->provider);
	row_set_text(&row, PERIODS_LIMIT_NAME, entry->limit_name);
	row_set_text(&row, PERIODS_TENANT,
				 ledger_account_tenant(&account, c->limit->per_tenant));
	row_set_text(&row, PERIODS_UNIT, entry->unit);
	set_counted(c, &row, period);
	ledger_write(c->periods, NULL, &row);
}

/*
 * The row whose period starts first after the instant, or, before, last up to it; in
 * the slot.
 */
static bool
find_row(const Closing *c, TimestampTz at, bool before)
{
	ScanKeyData keys[2];
	RowScan    *scan;
	bool		in_progress;
	bool		found;

	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_UUID_EQ,
				PointerGetDatum(c->account));
	if (before)
		ScanKeyInit(&keys[1], 2, BTLessEqualStrategyNumber, F_TIMESTAMPTZ_LE,
					TimestampTzGetDatum(at));
	else
		ScanKeyInit(&keys[1], 2, BTGreaterStrategyNumber, F_TIMESTAMPTZ_GT,
					TimestampTzGetDatum(at));
	scan = row_scan_begin(c->periods, QUOTA_REL_PERIODS_PKEY, 2, keys);
	found = before ? row_scan_back(scan, c->slot, &in_progress) :
		row_scan_next(scan, c->slot, &in_progress);
	row_scan_end(scan);
	return found;
}

/* ---- charged after all ---- */

/* Writes the period's row, which is in the slot, anew.  Throws 55P03 when it is locked. */
static void
count_again(Closing *c, const LedgerPeriod *period)
{
	RowValues	row = row_values(c->periods);

	set_counted(c, &row, period);
	if (row_lock(c->periods, c->slot) != ROW_LOCKED)
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("a row of quota.ledger_periods is locked by another transaction"),
				 errhint("The period is counted again when that has ended and the account has another entry.")));
	ledger_write(c->periods, c->slot, &row);
}

/* Up to which transaction the row in the slot counts. */
static uint64
counted_upto(const Closing *c)
{
	bool		isnull;
	Datum		upto = slot_getattr(c->slot, PERIODS_UPTO, &isnull);

	/* one that was restored is not ours to judge */
	return isnull ? LEDGER_ALL_XIDS :
		U64FromFullTransactionId(DatumGetFullTransactionId(upto));
}

/* Writes a row for the instant, which is in a gap between rows that begins at "from". */
static void
fill_gap(Closing *c, TimestampTz at, TimestampTz from)
{
	calendar_period(&c->limit->calendar, at, &c->known.start, &c->known.end);
	c->known.start = Max(c->known.start, from);
	if (find_row(c, at, false))
		c->known.end = Min(c->known.end, row_int64(c->slot, PERIODS_START));
	insert_period(c, &c->known);
	c->known_upto = c->horizon->xid;
}

/*
 * A transaction has charged something at the instant, before the end of the last closed
 * period: sees to it that a row has it.
 */
static void
close_again(Closing *c, TimestampTz at, uint64 xid)
{
	TimestampTz ended = DT_NOBEGIN;

	if (at >= c->known.start && at < c->known.end && xid < c->known_upto)
		return;
	if (find_row(c, at, true))
		ended = row_int64(c->slot, PERIODS_END);
	if (at >= ended)
	{
		fill_gap(c, at, ended);
		return;
	}
	c->known.start = row_int64(c->slot, PERIODS_START);
	c->known.end = ended;
	c->known_upto = counted_upto(c);
	if (c->known_upto <= xid)
	{
		count_again(c, &c->known);
		c->known_upto = c->horizon->xid;
	}
}

/* Looks for charges that closed periods lack. */
static void
close_news(Closing *c, const LedgerNews *news, TimestampTz until)
{
	RowTable   *ledger = row_open(QUOTA_REL_LEDGER);
	TupleTableSlot *slot = row_slot(ledger);
	RowScan    *scan = ledger_scan_xids(ledger, c->account, news->since, c->horizon->xid);
	bool		in_progress;

	while (row_scan_next(scan, slot, &in_progress))
	{
		TimestampTz at = row_int64(slot, LEDGER_CHARGED_AT);

		CHECK_FOR_INTERRUPTS();
		if (at < until && ledger_is_charge(slot))
			close_again(c, at, ledger_xid(slot));
	}
	row_scan_end(scan);
	row_close(ledger);
}

/* See credit.h. */
void
ledger_close(const uint8 *account, const CreditLimit *limit,
			 const LedgerNews *news, const LedgerHorizon *horizon)
{
	RowTable   *periods = row_open(QUOTA_REL_PERIODS);
	Closing		c = {.periods = periods,.slot = row_slot(periods),.account = account,
	.limit = limit,.horizon = horizon};
	TimestampTz until = DT_NOBEGIN;
	TimestampTz charged_at;

	if (find_row(&c, DT_NOEND, true))
		until = row_int64(c.slot, PERIODS_END);
	if (news && news->first_us < until)
		close_news(&c, news, until);
	while ((charged_at = ledger_next_charged(account, until)) < horizon->complete_us)
	{
		LedgerPeriod period;

		CHECK_FOR_INTERRUPTS();
		calendar_period(&limit->calendar, charged_at, &period.start, &period.end);
		if (period.end > horizon->complete_us)
			break;
		period.start = Max(period.start, until);
		insert_period(&c, &period);
		until = period.end;
	}
	row_close(periods);
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
