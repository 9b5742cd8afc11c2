/*
 * credit.c
 *		What a call does to credits: holding the estimate when it is admitted,
 *		resolving the hold once when it is settled or released.
 *
 * The decision has charged the counters and pinned the buckets (by the parts of
 * the permit) before credit_hold() writes the entries, in the same transaction.
 * Resolving deletes the hold's row, which only one transaction can, and writes
 * one entry per account with the difference between what was used and what was
 * held.  The counters learn the difference from the parts of the marked permit,
 * or, when the permit is gone from shared memory (its lifetime is over, the
 * server crashed), from credit_charge().
 *
 * Settling more than was held takes the difference at once, into debt if the
 * allowance has no room: the provider has billed it.
 *
 * credit_counter.c has the protocol that keeps counters and rows equal.
 */
#include "credit.h"

#include "access/xact.h"
#include "error.h"
#include "miscadmin.h"
#include "permit.h"
#include "utils/guc.h"
#include "worker.h"

/* ---- holding ---- */

/* What is charged must not be lost in a crash that the caller survives. */
static void
make_durable(void)
{
	if (synchronous_commit < SYNCHRONOUS_COMMIT_ON)
		set_config_option("synchronous_commit", "on", PGC_USERSET,
						  PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0, false);
}

/* An instant of now within the period that a part was charged in. */
static TimestampTz
charge_time(const QuotaPart *part, TimestampTz wall_us)
{
	const QuotaBucket *b = &quota_buckets[part->bucket];

	if (b->period_start_us != part->period_us ||
		wall_us < b->period_start_us || wall_us >= b->period_end_us)
		return part->period_us;
	return wall_us;
}

/* The term that the part was charged for; NULL = none. */
static const QuotaTerm *
term_of_part(const QuotaPlan *plan, const QuotaPart *part)
{
	for (int i = 0; i < plan->nterms; i++)
		if (quota_key_equal(&plan->terms[i].key,
							&quota_buckets[part->bucket].entry.key))
			return &plan->terms[i];
	return NULL;
}

/*
 * The entries of a permit's allowance parts; how many, for how many calls, and
 * when the permit expires.
 */
static int
collect_parts(const QuotaPlan *plan, int64 permit, LedgerEntry *entries,
			  int32 *calls, int64 *expires_ns)
{
	TimestampTz wall_us = quota_wall_us();
	uint32		index = permit_lock(permit, MyDatabaseId,
									quota_catalog()->extension);
	int			n = 0;

	if (index == QUOTA_NO_INDEX)
		return 0;
	*calls = quota_permits[index].n;
	*expires_ns = quota_permits[index].expires_ns;
	for (int i = 0; i < quota_permits[index].nparts; i++)
	{
		const QuotaPart *part = &quota_permits[index].parts[i];
		const QuotaTerm *term = term_of_part(plan, part);
		LedgerEntry *entry = &entries[n];

		if (part->kind != QUOTA_ALLOWANCE || part->shadow || term == NULL)
			continue;
		memset(entry, 0, sizeof(*entry));
		memcpy(entry->account, term->account, QUOTA_ACCOUNT_LEN);
		entry->provider = term->slot == plan->slot ? plan->provider : NULL;
		entry->limit_name = term->name;
		entry->unit = term->unit;
		entry->amount = part->amount;
		entry->held = part->amount;
		entry->charged_at = charge_time(part, wall_us);
		n++;
	}
	permit_unlock(index);
	return n;
}

/* See credit.h. */
void
credit_hold(const QuotaPlan *plan, const QuotaVerdict *verdict, int64 job)
{
	LedgerEntry entries[QUOTA_MAX_TERMS];
	HoldRow		hold = {.permit = verdict->permit, .tenant = plan->tenant,
	.provider = plan->provider, .job = job};
	int64		expires_ns = 0;
	RowTable   *ledger;
	int			n = collect_parts(plan, verdict->permit, entries, &hold.calls,
								  &expires_ns);

	if (n == 0)
		elog(ERROR, "permit " INT64_FORMAT " holds no credits",
			 verdict->permit);
	make_durable();
	hold.created_at = quota_wall_us();
	hold.expires_at = quota_steady_of(expires_ns);

	ledger = row_open(QUOTA_REL_LEDGER);
	for (int i = 0; i < n; i++)
	{
		entries[i].tenant = plan->tenant;
		entries[i].kind = "hold";
		entries[i].permit = verdict->permit;
		entries[i].job = job;
		entries[i].created_at = hold.created_at;
		ledger_append(ledger, &entries[i]);
	}
	row_close(ledger);
	hold_insert(&hold);
	quota_work_due(plan->database_slot, expires_ns);
}

/* ---- resolving ---- */

/* The accounts that a marked permit carries the difference of. */
typedef struct Carried
{
	int			n;
	QuotaKey	keys[QUOTA_MAX_TERMS];
} Carried;

/* The accounts of the permit's allowance parts; none when it is gone. */
static void
collect_carried(int64 permit, Carried *carried)
{
	uint32		index = permit_lock(permit, MyDatabaseId,
									quota_catalog()->extension);

	if (index == QUOTA_NO_INDEX)
		return;
	for (int i = 0; i < quota_permits[index].nparts; i++)
	{
		const QuotaPart *part = &quota_permits[index].parts[i];

		if (part->kind == QUOTA_ALLOWANCE && !part->shadow)
			carried->keys[carried->n++] = quota_buckets[part->bucket].entry.key;
	}
	permit_unlock(index);
}

/* False also for a permit that was restored after a crash without its credits. */
static bool
is_carried(const Carried *carried, const LedgerEntry *entry)
{
	QuotaKey	key = quota_account_key(MyDatabaseId,
										quota_catalog()->extension,
										entry->account);

	for (int i = 0; i < carried->n; i++)
		if (quota_key_equal(&carried->keys[i], &key))
			return true;
	return false;
}

/*
 * Units of one account that a hold of so many calls stays charged: the same as
 * settle.c tells the parts of the permit.
 */
static int64
final_amount(const LedgerEntry *entry, int32 calls, bool billed,
			 const QuotaUnits *units)
{
	int64		given = quota_units_of(units, entry->unit);

	if (!billed)
		return 0;
	return given >= 0 ? given * calls : entry->amount;
}

/*
 * What is held of each account: the sum of its entries of the hold, those of calls
 * given back included.
 */
static List *
held_entries(RowTable *ledger, int64 permit, TimestampTz created_at)
{
	List	   *held = NIL;
	ListCell   *cell;

	foreach(cell, ledger_of_permit(ledger, permit))
	{
		LedgerEntry *entry = lfirst(cell);
		LedgerEntry *sum = NULL;
		ListCell   *known;

		/* an old permit of the same number has another time */
		if (entry->created_at != created_at ||
			(strcmp(entry->kind, "hold") != 0 && strcmp(entry->kind, "release") != 0))
			continue;
		foreach(known, held)
			if (memcmp(((LedgerEntry *) lfirst(known))->account, entry->account,
					   QUOTA_ACCOUNT_LEN) == 0)
				sum = lfirst(known);
		if (sum)
			sum->amount += entry->amount;
		else
			held = lappend(held, entry);
	}
	return held;
}

/* Writes the entry that resolves one account's part of a hold. */
static void
resolve_entry(RowTable *ledger, LedgerEntry *entry, const char *kind,
			  int64 final, const char *reason, const Carried *carried)
{
	int64		diff = final - entry->amount;
	bool		is_counted = is_carried(carried, entry);

	if (diff > 0)
		make_durable();
	if (diff > 0 && is_counted)
		credit_check_range(entry);
	if (diff != 0 && !is_counted)
		credit_charge(entry, NULL, diff, &entry->charged_at);
	entry->kind = kind;
	entry->held = -entry->amount;
	entry->amount = diff;
	entry->created_at = quota_wall_us();
	entry->reason = reason;
	ledger_append(ledger, entry);
}

/* See credit.h. */
HoldOutcome
credit_finish(int64 permit, const char *kind, bool billed,
			  const QuotaUnits *units, bool marked)
{
	Carried		carried = {0};
	HoldRow		hold;
	HoldOutcome outcome = hold_delete(permit, &hold);

	if (outcome == HOLD_TAKEN)
	{
		RowTable   *ledger = row_open(QUOTA_REL_LEDGER);
		ListCell   *cell;

		if (marked)
			collect_carried(permit, &carried);
		foreach(cell, held_entries(ledger, permit, hold.created_at))
		{
			LedgerEntry *entry = lfirst(cell);

			resolve_entry(ledger, entry, kind,
						  final_amount(entry, hold.calls, billed, units),
						  billed ? NULL : "not billed", &carried);
		}
		row_close(ledger);
	}
	return outcome;
}

/* See credit.h. */
bool
credit_resolve(int64 permit, bool billed, const QuotaUnits *units, bool marked)
{
	HoldOutcome outcome = credit_finish(permit, "settle", billed, units,
										marked);

	if (outcome == HOLD_BUSY)
		quota_error_permit_busy(permit);
	return outcome == HOLD_TAKEN;
}

/* See credit.h. */
bool
credit_give_back(int64 permit, int32 n, bool marked)
{
	Carried		carried = {0};
	HoldRow		hold;
	HoldOutcome outcome = hold_shrink(permit, n, &hold);
	RowTable   *ledger;
	ListCell   *cell;

	if (outcome == HOLD_BUSY)
		quota_error_permit_busy(permit);
	if (outcome == HOLD_NONE)
		return false;
	if (n > hold.calls)
		quota_error_range("n", n, 1, hold.calls);
	if (n == hold.calls)
		return credit_resolve(permit, false, NULL, false);
	if (marked)
		collect_carried(permit, &carried);
	ledger = row_open(QUOTA_REL_LEDGER);
	foreach(cell, held_entries(ledger, permit, hold.created_at))
	{
		LedgerEntry *entry = lfirst(cell);

		entry->amount = -(entry->amount / hold.calls * n);
		if (entry->amount != 0 && !is_carried(&carried, entry))
			credit_charge(entry, NULL, entry->amount, &entry->charged_at);
		entry->held = entry->amount;
		entry->kind = "release";
		ledger_append(ledger, entry);
	}
	row_close(ledger);
	return true;
}
