/*
 * credit_refund.c
 *		quota_refund(): giving back what a settled call has spent, by an entry of its
 *		own in the period that it was spent in.
 */
#include "credit.h"

#include "args.h"
#include "error.h"
#include "once.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(quota_refund);

/* One account's entries of a permit, summed: what of it can be refunded. */
static List *
add_to_account(List *sums, LedgerEntry *entry)
{
	ListCell   *cell;

	foreach(cell, sums)
	{
		LedgerEntry *sum = lfirst(cell);

		if (memcmp(sum->account, entry->account, QUOTA_ACCOUNT_LEN) == 0)
		{
			sum->amount += entry->amount;
			return sums;
		}
	}
	return lappend(sums, entry);
}

/*
 * What was committed of a permit and not refunded, by account; the permit stays
 * locked against other refunds.  Throws when it is open or unknown.
 */
static List *
refundable(RowTable *ledger, int64 permit)
{
	HoldRow		row;
	HoldOutcome hold = hold_look(permit, &row);
	List	   *sums = NIL;
	ListCell   *cell;

	/* the clock has settled it */
	if (hold == HOLD_TAKEN && credit_hold_is_lost(&row))
		hold = credit_lose(permit) == HOLD_TAKEN ? HOLD_NONE : HOLD_BUSY;
	if (hold == HOLD_BUSY)
		quota_error_permit_busy(permit);
	if (hold == HOLD_TAKEN)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("permit %lld is open", (long long) permit),
				 errdetail("Its credits are held since %s and not spent yet.",
						   timestamptz_to_str(row.created_at)),
				 errhint("Settle it with quota_settle() first.")));
	if (ledger_of_permit(ledger, permit) == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("no credits were spent by permit %lld",
						(long long) permit),
				 errdetail("Table quota.ledger has no entries of it."),
				 errhint("Pass the permit of a call that has drawn on an allowance.")));
	if (!ledger_lock_permit(ledger, permit))
		quota_error_permit_busy(permit);
	/* read again what the lock now protects */
	foreach(cell, ledger_of_permit(ledger, permit))
		sums = add_to_account(sums, lfirst(cell));
	return sums;
}

/* Refunds amount, or with 0 what is left, to one account; throws 22023. */
static void
refund_account(RowTable *ledger, LedgerEntry *sum, int64 amount,
			   const char *reason)
{
	if (amount > sum->amount)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("cannot refund more than was spent"),
				 errdetail("Of limit \"%s\" permit %lld has %lld left to refund.",
						   sum->limit_name, (long long) sum->permit,
						   (long long) sum->amount),
				 errhint("Pass no more than that, or null for all that is left.")));
	if (amount == 0)
		amount = sum->amount;
	if (amount <= 0)
		return;
	sum->kind = "refund";
	sum->amount = -amount;
	sum->held = 0;
	sum->reason = reason;
	sum->created_at = quota_wall_us();
	credit_charge(sum, NULL, sum->amount, &sum->charged_at);
	ledger_append(ledger, sum);
	credit_fold_soon();
}

/* The units that the permit spent, for people to read. */
static const char *
list_units(const List *sums)
{
	StringInfoData list;
	ListCell   *cell;

	initStringInfo(&list);
	foreach(cell, sums)
	{
		const char *unit = quote_literal_cstr(((LedgerEntry *) lfirst(cell))->unit);

		if (strstr(list.data, unit) == NULL)
			appendStringInfo(&list, "%s%s", list.len > 0 ? ", " : "", unit);
	}
	return list.data;
}

/* 42704 for a unit of which the permit spent nothing. */
static void
check_unit(const List *sums, int64 permit, const char *unit)
{
	ListCell   *cell;

	foreach(cell, sums)
		if (strcmp(((LedgerEntry *) lfirst(cell))->unit, unit) == 0)
			return;
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("permit %lld spent no credits of unit \"%s\"",
					(long long) permit, unit),
			 errdetail("It spent units %s.", list_units(sums)),
			 errhint("Name one of these, or none.")));
}

/* An amount means something only for one unit. */
static void
check_one_unit(const List *sums)
{
	const char *unit = NULL;
	ListCell   *cell;

	foreach(cell, sums)
	{
		const LedgerEntry *sum = lfirst(cell);

		if (unit && strcmp(sum->unit, unit) != 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("argument \"unit\" is needed"),
					 errdetail("The permit spent units %s.", list_units(sums)),
					 errhint("Say of which of these the amount is.")));
		unit = sum->unit;
	}
}

/* What quota_refund() is asked. */
typedef struct Refund
{
	int64		permit;
	int64		amount;			/* 0 = all that is left */
	char	   *reason;
	char	   *unit;			/* NULL = all */
} Refund;

/* Refunds it.  Throws. */
static void
refund(RowTable *ledger, const Refund *r)
{
	List	   *sums = refundable(ledger, r->permit);
	ListCell   *cell;

	if (r->unit)
		check_unit(sums, r->permit, r->unit);
	else if (r->amount > 0)
		check_one_unit(sums);
	foreach(cell, sums)
	{
		LedgerEntry *sum = lfirst(cell);

		if (r->unit == NULL || strcmp(r->unit, sum->unit) == 0)
			refund_account(ledger, sum, r->amount, r->reason);
	}
}

/* The key is of the permit's tenant and provider; without entries of neither. */
static OnceCall
once_of_refund(RowTable *ledger, const Refund *r, const char *key)
{
	OnceCall	once = {.operation = "refund",.key = key};
	List	   *entries = key ? ledger_of_permit(ledger, r->permit) : NIL;

	if (entries != NIL)
	{
		once.tenant = ((LedgerEntry *) linitial(entries))->tenant;
		once.provider = ((LedgerEntry *) linitial(entries))->provider;
	}
	once_int64(&once, "permit", r->permit);
	if (r->amount > 0)
		once_int64(&once, "amount", r->amount);
	else
		once_text(&once, "amount", NULL);
	once_text(&once, "reason", r->reason);
	once_text(&once, "unit", r->unit);
	return once;
}

/* quota_refund(permit, amount, reason, unit, key): see its COMMENT. */
Datum
quota_refund(PG_FUNCTION_ARGS)
{
	Refund		r = {0};
	OnceCall	once;
	RowTable   *ledger;

	quota_enter_write("quota_refund()");
	r.permit = quota_arg_int64(fcinfo, 0, "permit", 1, PG_INT64_MAX);
	if (!PG_ARGISNULL(1))
		r.amount = quota_arg_int64(fcinfo, 1, "amount", 1, QUOTA_MAX_AMOUNT);
	r.reason = quota_arg_text(fcinfo, 2, "reason", false);
	r.unit = quota_arg_text(fcinfo, 3, "unit", false);

	ledger = row_open(QUOTA_REL_LEDGER);
	once = once_of_refund(ledger, &r, once_key_arg(fcinfo, 4));
	if (!once_take(&once, NULL))
	{
		refund(ledger, &r);
		once_store(&once, NULL);
		once_release(&once);
	}
	row_close(ledger);
	PG_RETURN_VOID();
}
