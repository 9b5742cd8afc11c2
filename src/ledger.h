/*
 * ledger.h
 *		Rows of quota.ledger and quota.holds, without any notion of counters.
 *		All throw, as rows.h does; callers hold no lock of shared memory.
 */
#ifndef QUOTA_LEDGER_H
#define QUOTA_LEDGER_H

#include "expiring.h"
#include "row_values.h"

#include "datatype/timestamp.h"
#include "nodes/pg_list.h"

#define QUOTA_ACCOUNT_LEN 16	/* bytes of quota.ledger.account */

/* Attribute numbers of quota.ledger */
enum
{
	LEDGER_ID = 1,
	LEDGER_ACCOUNT,
	LEDGER_PROVIDER,
	LEDGER_LIMIT_NAME,
	LEDGER_TENANT,
	LEDGER_UNIT,
	LEDGER_KIND,
	LEDGER_AMOUNT,
	LEDGER_PERMIT,
	LEDGER_JOB,
	LEDGER_CHARGED_AT,
	LEDGER_CREATED_AT,
	LEDGER_REASON,
	LEDGER_HELD,
	LEDGER_XID,
	LEDGER_CALLS,
	LEDGER_PERIOD_START,
	LEDGER_ALLOWANCE,
	LEDGER_EXPIRES_AT
};

/* One row of quota.ledger; NULL and 0 where it has none. */
typedef struct LedgerEntry
{
	uint8		account[QUOTA_ACCOUNT_LEN];
	const char *provider;
	const char *limit_name;
	const char *tenant;
	const char *unit;
	const char *kind;
	int64		amount;			/* change of what is used */
	int64		held;			/* change of what open holds hold */
	int64		permit;
	int64		job;
	TimestampTz charged_at;		/* decides the period it counts in */
	TimestampTz created_at;
	const char *reason;
	int32		calls;			/* of settle and expire */
	/* of hold: the period it is charged in, and what its limit allowed then; -1 = any */
	TimestampTz period_start;
	int64		allowance;
	TimestampTz expires_at;		/* of a grant; 0 = it does not */
} LedgerEntry;

extern void ledger_append(RowTable *ledger, const LedgerEntry *entry);
/* The transaction that wrote the entry in a row. */
extern uint64 ledger_xid(TupleTableSlot *slot);
/*
 * Writes a row of one of the tables that are final for everybody else: a new one, or in
 * place of old, which was locked by row_lock().  As row_insert() and row_update().
 */
extern void ledger_write(RowTable *table, TupleTableSlot *old, const RowValues *row);
/*
 * The entry in a row (a hold, grant or adjustment) counts at the instant when it was
 * decided; the others say what becomes of a hold, and count where that does.
 */
extern bool ledger_is_charge(TupleTableSlot *slot);
/* The entry in a row, palloc'd, without its reason. */
extern LedgerEntry *ledger_read(TupleTableSlot *slot);
extern List *ledger_of_permit(RowTable *ledger, int64 permit);
extern bool ledger_lock_permit(RowTable *ledger, int64 permit);

/* ---- ledger_sum.c ---- */

/*
 * Takes the locks that reading an account needs, until the transaction ends: the
 * two functions below wait for no lock afterwards.
 */
extern void ledger_take_locks(void);

/* No transaction has such a number. */
#define LEDGER_ALL_XIDS PG_UINT64_MAX

/* What the entries of an account that are charged in a period come to. */
typedef struct LedgerSum
{
	int64		used;			/* units: posted and held */
	int64		held;			/* by open holds */
	int64		given;			/* by entries that belong to no call, less taken */
} LedgerSum;

/*
 * The sum of an account over [start, end), of transactions older than below.  *open
 * is set, never cleared, when an entry of an open transaction, ours included, was met
 * whose amount is not 0; it is not in the sum then.  Others change not what is used,
 * however their transaction ends.  Throws 22003 when a sum does not fit.
 */
extern LedgerSum ledger_sum(const uint8 *account, TimestampTz start,
							TimestampTz end, uint64 below, bool *open);

/* The latest charged_at of an account, DT_NOBEGIN for none; *open as above. */
extern TimestampTz ledger_newest(const uint8 *account, bool *open);

/* ---- ledger_grant.c ---- */

/* The grants of an account in a period that expire, with what was charged between. */
typedef struct LedgerGrants
{
	int			n;
	Expiring	grant[EXPIRING_MAX];
	int64		id[EXPIRING_MAX];	/* of their entries */
} LedgerGrants;

/*
 * Those of transactions older than below that have committed, palloc'd; of the period
 * [start, end).  Throws 53400 when there are more.
 */
extern LedgerGrants *ledger_grants(const uint8 *account, TimestampTz start,
								   TimestampTz end, uint64 below);
/* The last instant at which one of them expired that has a row of quota.ledger_expired. */
extern TimestampTz ledger_grants_seen(const LedgerGrants *grants);
/* What is left of each, or was when it expired. */
extern void ledger_grants_left(LedgerGrants *grants, int64 *left);
/* What is gone of them at an instant. */
extern int64 ledger_grants_gone(LedgerGrants *grants, TimestampTz now);

/* Attribute numbers of quota.ledger_expired */
enum
{
	EXPIRED_ENTRY = 1,
	EXPIRED_ACCOUNT,
	EXPIRED_PERIOD_START,
	EXPIRED_PERIOD_END,
	EXPIRED_EXPIRES_AT,
	EXPIRED_AMOUNT,
	EXPIRED_UPTO,
	EXPIRED_CREATED_AT,
	EXPIRED_XID
};

/* Attribute numbers of quota.ledger_periods */
enum
{
	PERIODS_ACCOUNT = 1,
	PERIODS_START,
	PERIODS_END,
	PERIODS_PROVIDER,
	PERIODS_LIMIT_NAME,
	PERIODS_TENANT,
	PERIODS_UNIT,
	PERIODS_AMOUNT,
	PERIODS_POSTED,
	PERIODS_HELD,
	PERIODS_GIVEN,
	PERIODS_UPTO,
	PERIODS_CREATED_AT,
	PERIODS_EXPIRED
};

/* The same from all entries of the period, for the audit. */
extern LedgerSum ledger_sum_entries(const uint8 *account, TimestampTz start,
									TimestampTz end, bool *open);

/* A row of quota.ledger_folds; see ledger_fold.c. */
typedef struct LedgerFold
{
	uint64		upto;			/* entries of older transactions are in it */
	int64		entries;		/* how many */
	TimestampTz charged_at;		/* the latest of theirs */
	TimestampTz period_start;	/* the period of that */
	TimestampTz period_end;
	LedgerSum	sum;			/* of it */
} LedgerFold;

/* Attribute numbers of quota.ledger_accounts */
enum
{
	ACCOUNTS_ACCOUNT = 1,
	ACCOUNTS_PROVIDER,
	ACCOUNTS_LIMIT_NAME,
	ACCOUNTS_TENANT
};

/* Attribute numbers of quota.ledger_folds */
enum
{
	FOLDS_ACCOUNT = 1,
	FOLDS_UPTO,
	FOLDS_ENTRIES,
	FOLDS_CHARGED_AT,
	FOLDS_PERIOD_START,
	FOLDS_PERIOD_END,
	FOLDS_POSTED,
	FOLDS_HELD,
	FOLDS_GIVEN
};

/* The newest fold of an account, all zero (and no period) when there is none. */
extern LedgerFold ledger_newest_fold(const uint8 *account);

/*
 * The first instant, from this one on, that a committed entry of the account is charged
 * at; DT_NOEND if there is none.
 */
extern TimestampTz ledger_next_charged(const uint8 *account, TimestampTz from);

/*
 * Begins a scan over the entries of an account, from the oldest transaction that is
 * not older than from, to those older than below.
 */
extern RowScan *ledger_scan_xids(RowTable *ledger, const uint8 *account,
								 uint64 from, uint64 below);

/*
 * Begins a scan over the entries of an account that are charged in [start, end), by
 * an index of account and charged_at.
 */
extern RowScan *ledger_scan_charged(RowTable *ledger, QuotaRelation index,
									const uint8 *account, TimestampTz start,
									TimestampTz end);

/* ---- ledger_account.c ---- */

/* An account with new entries, as one of them has it. */
typedef struct LedgerAccount
{
	uint8		id[QUOTA_ACCOUNT_LEN];
	const char *provider;
	const char *limit_name;
	const char *tenant;
} LedgerAccount;

/*
 * The id of an account that is told by nothing but the limit and perhaps the tenant is
 * that of all tenants, or of this one.
 */
extern bool ledger_account_is_shared(const LedgerAccount *account);
extern bool ledger_account_is_own(const LedgerAccount *account);
/*
 * Whose the account is, NULL = tenants share it: of one that is told by other names as
 * well as its limit has it now.
 */
extern const char *ledger_account_tenant(const LedgerAccount *account, bool per_tenant);
/* Sees to it that the account has a row. */
extern void ledger_account_known(const LedgerAccount *account, bool per_tenant);

/* ---- hold_row.c ---- */

typedef struct HoldRow
{
	int64		permit;
	const char *tenant;
	const char *provider;
	int64		job;			/* 0 = none */
	int32		calls;			/* admitted by one permit */
	TimestampTz created_at;		/* as in its entries */
	TimestampTz expires_at;		/* steady time, see clock.c */
	bool		refund;			/* when it is lost, its credits return */
} HoldRow;

typedef enum HoldOutcome
{
	HOLD_TAKEN,					/* its row is deleted by this transaction */
	HOLD_BUSY,					/* another transaction inserts or deletes it */
	HOLD_NONE
} HoldOutcome;

extern void hold_insert(const HoldRow *hold);
extern HoldOutcome hold_delete(int64 permit, HoldRow *hold);
extern HoldOutcome hold_extend(int64 permit, TimestampTz expires_at);
extern HoldOutcome hold_shrink(int64 permit, int32 n, HoldRow *hold);
/* Fills in all but the names; HOLD_TAKEN: it is open. */
extern HoldOutcome hold_look(int64 permit, HoldRow *hold);

/*
 * A walk over the open holds that return when they are lost, by expires_at, up to an
 * instant of steady time: those of other transactions that have committed, or are
 * being written to.  Names are not filled in.
 */
typedef struct HoldWalk HoldWalk;
extern HoldWalk *hold_walk_begin(TimestampTz until);
extern bool hold_walk_next(HoldWalk *walk, HoldRow *hold);
extern void hold_walk_end(HoldWalk *walk);

#endif							/* QUOTA_LEDGER_H */
