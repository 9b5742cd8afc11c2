/*
 * ledger_account.c
 *		quota.ledger_accounts: whose the accounts with running balances are, so that
 *		those of one tenant are found without reading those of all.
 *
 * The one worker of the database writes the row with the first fold of an account, and
 * with a later one should somebody have removed it.
 */
#include "ledger.h"

#include "row_write.h"
#include "utils/fmgroids.h"
#include "utils/uuid.h"

/* The account has a row. */
static bool
is_known(RowTable *accounts, const uint8 *account)
{
	TupleTableSlot *slot = row_slot(accounts);
	ScanKeyData key;
	RowScan    *scan;
	bool		in_progress;
	bool		known;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_UUID_EQ,
				PointerGetDatum(account));
	scan = row_scan_begin(accounts, QUOTA_REL_ACCOUNTS_PKEY, 1, &key);
	known = row_scan_next(scan, slot, &in_progress);
	row_scan_end(scan);
	return known;
}

/* See ledger.h. */
void
ledger_account_known(const LedgerAccount *account, bool per_tenant)
{
	RowTable   *accounts = row_open(QUOTA_REL_ACCOUNTS);

	if (!is_known(accounts, account->id))
	{
		RowValues	row = row_values(accounts);

		row_set(&row, ACCOUNTS_ACCOUNT, PointerGetDatum(account->id));
		row_set_text(&row, ACCOUNTS_PROVIDER, account->provider);
		row_set_text(&row, ACCOUNTS_LIMIT_NAME, account->limit_name);
		row_set_text(&row, ACCOUNTS_TENANT, per_tenant ? account->tenant : NULL);
		row_insert(accounts, &row);
	}
	row_close(accounts);
}
