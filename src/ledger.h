/*
 * ledger.h
 *		Rows of quota.ledger and quota.holds, without any notion of counters.
 *		All throw, as rows.h does; callers hold no lock of shared memory.
 */
#ifndef QUOTA_LEDGER_H
#define QUOTA_LEDGER_H

#include "rows.h"

#include "nodes/pg_list.h"

#define QUOTA_ACCOUNT_LEN 16	/* bytes of quota.ledger.account */

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
	int32		calls;			/* of expire */
} LedgerEntry;

extern void ledger_append(RowTable *ledger, const LedgerEntry *entry);
extern List *ledger_of_permit(RowTable *ledger, int64 permit);
extern bool ledger_lock_permit(RowTable *ledger, int64 permit);

/*
 * Takes the locks that reading an account needs, until the transaction ends: the
 * two functions below wait for no lock afterwards.
 */
extern void ledger_take_locks(void);

/*
 * Sum of an account over [start, end).  *open is set, never cleared, when an
 * entry of an open transaction, ours included, was met that is not 0; it is not
 * in the sum then.  Entries of 0 change no sum, however their transaction ends.
 */
extern int64 ledger_sum(const uint8 *account, TimestampTz start,
						TimestampTz end, bool *open);

/* The latest charged_at of an account, DT_NOBEGIN for none; *open as above. */
extern TimestampTz ledger_newest(const uint8 *account, bool *open);

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
