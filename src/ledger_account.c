/*
 * ledger_account.c
 *		quota.ledger_accounts: whose the accounts with running balances are, so that
 *		those of one tenant are found without reading those of all.
 *
 * The one worker of the database writes the row with the first fold of an account, and
 * with a later one should somebody have removed it.
 */
#include "ledger.h"

#include "policy_plan.h"
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

/* The id is that of the limit's account of this tenant, NULL = of all. */
static bool
is_of(const LedgerAccount *account, const char *tenant)
{
	uint8		id[QUOTA_ACCOUNT_LEN];

	policy_account(account->provider, account->limit_name, tenant, id);
	return memcmp(id, account->id, QUOTA_ACCOUNT_LEN) == 0;
}

/* See ledger.h. */
bool
ledger_account_is_shared(const LedgerAccount *account)
{
	return is_of(account, NULL);
}

/* See ledger.h. */
bool
ledger_account_is_own(const LedgerAccount *account)
{
	return is_of(account, account->tenant);
}

/* See ledger.h. */
const char *
ledger_account_tenant(const LedgerAccount *account, bool per_tenant)
{
	if (ledger_account_is_shared(account))
		return NULL;
	return per_tenant || ledger_account_is_own(account) ? account->tenant : NULL;
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
		row_set_text(&row, ACCOUNTS_TENANT, ledger_account_tenant(account, per_tenant));
		row_insert(accounts, &row);
	}
	row_close(accounts);
}
