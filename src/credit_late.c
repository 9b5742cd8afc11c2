/*
 * credit_late.c
 *		Settling a call whose hold is over: it has expired, but the work was done all
 *		the same, and the provider may have billed it; or it was settled before.
 *
 * TOO LATE.  By default that is refused.  Where all limits that the call has drawn on say
 * charge_now, the hold is first resolved as lost, if nobody has done so (entry of kind
 * expire), so that entries are the same whether a background worker was there before or
 * not.  Then what the call used is charged at once, without asking, less what it stayed
 * charged when it expired (kind late).  Both count in the period it was admitted in.
 *
 * That happens once.  Who finds the hold open resolves it, which only one transaction
 * can.  Who finds it resolved locks its first entry, as refunds do, and looks for a
 * late one.  Of two that come together one gets 55P03, whichever way they find it:
 * while the first one is open its deletion of the hold's row is in progress, or it
 * has the lock.
 *
 * AGAIN.  Who did not learn whether he had settled a call may do so again: what that
 * would charge is compared with what the entries say was charged.  If it is the same
 * all is well, and nothing is done; else it is a conflict, as a hold is resolved once.
 */
#include "credit.h"

#include "error.h"
#include "utils/timestamp.h"

/* One account of the call, summed over its entries. */
typedef struct LateAccount
{
	LedgerEntry *entry;			/* its first one */
	int64		held;			/* when it expired, */
	int64		charged;		/* and what it stayed charged then */
	int64		refunded;
	int32		calls;			/* when it was resolved */
	bool		settled;		/* which was in time, */
	bool		expired;		/* or not, */
	bool		late;			/* and it was settled since */
} LateAccount;

/* The sums of this account; new when it is the first entry of it. */
static LateAccount *
account_of(List **accounts, LedgerEntry *entry)
{
	ListCell   *cell;
	LateAccount *account;

	foreach(cell, *accounts)
	{
		account = lfirst(cell);
		if (memcmp(account->entry->account, entry->account, QUOTA_ACCOUNT_LEN) == 0)
			return account;
	}
	account = palloc0(sizeof(LateAccount));
	account->entry = entry;
	*accounts = lappend(*accounts, account);
	return account;
}

/* The accounts of a permit, of each what its entries say. */
static List *
read_accounts(RowTable *ledger, int64 permit)
{
	List	   *accounts = NIL;
	ListCell   *cell;

	foreach(cell, ledger_of_permit(ledger, permit))
	{
		LedgerEntry *entry = lfirst(cell);
		LateAccount *account = account_of(&accounts, entry);

		if (strcmp(entry->kind, "refund") == 0)
			account->refunded -= entry->amount;
		else
			account->charged += entry->amount;
		if (strcmp(entry->kind, "hold") == 0 || strcmp(entry->kind, "release") == 0)
			account->held += entry->amount;
		else if (entry->calls > 0)
			account->calls = entry->calls;
		account->settled |= strcmp(entry->kind, "settle") == 0;
		account->expired |= strcmp(entry->kind, "expire") == 0;
		account->late |= strcmp(entry->kind, "late") == 0;
	}
	return accounts;
}

/* The account's limit charges calls that come late. */
static bool
wants(const LateAccount *account)
{
	return quota_settle_rules(account->entry->provider,
							  account->entry->limit_name).late_charges;
}

/* All limits do that the hold had anything of. */
static bool
is_allowed(const List *accounts)
{
	ListCell   *cell;

	foreach(cell, accounts)
	{
		const LateAccount *account = lfirst(cell);

		if (account->held > 0 && !wants(account))
			return false;
	}
	return true;
}

/* Charges one account what the call used. */
static void
charge_late(RowTable *ledger, const LateAccount *account, bool billed,
	   const QuotaUnits *units)
{
	LedgerEntry *entry = account->entry;
	int64		used = credit_final(entry, account->held, account->calls, billed, units);
	/* what was refunded is given */
	int64		diff = Max(used, account->refunded) - account->charged;

	if (diff > 0)
		credit_make_durable();
	if (diff != 0)
		credit_charge(entry, NULL, diff, &entry->charged_at);
	entry->kind = "late";
	entry->amount = diff;
	entry->held = 0;
	entry->created_at = quota_wall_us();
	entry->reason = billed ? NULL : "not billed";
	ledger_append(ledger, entry);
}

/* What entries say of a hold. */
typedef struct LateState
{
	bool		expired;
	bool		returned;		/* what was held has, then */
	bool		settled;		/* in time or late */
} LateState;

/* Of all accounts together. */
static LateState
state_of(const List *accounts)
{
	LateState	state = {.returned = true};
	ListCell   *cell;

	foreach(cell, accounts)
	{
		const LateAccount *account = lfirst(cell);

		state.expired |= account->expired;
		state.returned &= account->charged == 0;
		state.settled |= account->settled || account->late;
	}
	return state;
}

/* 55000: it was settled, and as another amount */
pg_noreturn static void
refuse_other(int64 permit, const LateAccount *account, int64 used)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("permit %lld was settled otherwise", (long long) permit),
			 errdetail("It was charged %lld of limit \"%s\", and would be charged %lld now.",
					   (long long) account->charged, account->entry->limit_name,
					   (long long) used),
			 errhint("A call is settled once; correct it with quota_refund() or quota_adjust().")));
}

/*
 * Throws unless settling now would charge all accounts what they were charged.  One
 * that was settled late may have been charged more, as that much had been refunded.
 */
static void
compare_all(int64 permit, const List *accounts, bool billed, const QuotaUnits *units)
{
	ListCell   *cell;

	foreach(cell, accounts)
	{
		const LateAccount *account = lfirst(cell);
		int64		used;

		if (!account->settled && !account->late)
			continue;
		used = credit_final(account->entry, account->held, account->calls, billed, units);
		if (used != account->charged &&
			!(account->late && used < account->charged &&
			  account->charged <= account->refunded))
			refuse_other(permit, account, used);
	}
}

/*
 * Resolves the open hold as lost, or makes sure that we alone settle it late.  55P03.
 */
static void
take(RowTable *ledger, int64 permit, HoldOutcome hold)
{
	bool		taken = hold == HOLD_TAKEN ? credit_lose(permit) == HOLD_TAKEN
		: ledger_lock_permit(ledger, permit);

	if (!taken)
		quota_error_permit_busy(permit);
}

/* See credit.h. */
bool
credit_settle_late(int64 permit, bool billed, const QuotaUnits *units)
{
	HoldRow		row;
	HoldOutcome hold = hold_look(permit, &row);
	LateState	state;
	RowTable   *ledger;
	List	   *accounts;
	ListCell   *cell;

	if (hold == HOLD_BUSY || (hold == HOLD_TAKEN && !credit_hold_is_lost(&row)))
		return false;
	ledger = row_open(QUOTA_REL_LEDGER);
	accounts = read_accounts(ledger, permit);
	state = state_of(accounts);
	if (hold == HOLD_NONE && !state.expired)
	{
		row_close(ledger);
		return false;
	}
	if (!is_allowed(accounts))
		quota_error_permit_expired(permit, hold == HOLD_TAKEN ? row.refund : state.returned);
	take(ledger, permit, hold);
	accounts = read_accounts(ledger, permit);
	if (state_of(accounts).settled)
		compare_all(permit, accounts, billed, units);
	else
		foreach(cell, accounts)
			if (wants(lfirst(cell)))
				charge_late(ledger, lfirst(cell), billed, units);
	row_close(ledger);
	return true;
}

/* See credit.h. */
bool
credit_settled_alike(int64 permit, bool billed, const QuotaUnits *units)
{
	RowTable   *ledger = row_open_to_read(QUOTA_REL_LEDGER);
	List	   *accounts = read_accounts(ledger, permit);
	bool		settled = state_of(accounts).settled;

	row_close(ledger);
	if (settled)
		compare_all(permit, accounts, billed, units);
	return settled;
}
