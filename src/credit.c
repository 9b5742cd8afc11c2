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
 * or, when the permit is gone from shared memory (the server crashed), from
 * credit_charge().
 *
 * What a call stays charged is decided here, once, by what its entries hold and its
 * limit says (settle_over): more than was held is taken at once, into debt if the
 * allowance has no room, as the provider has billed it; or capped, or refused.
 * Permits that have expired are in credit_late.c.
 *
 * credit_counter.c has the protocol that keeps counters and rows equal.
 */
#include "credit.h"

#include "access/xact.h"
#include "error.h"
#include "journal.h"
#include "miscadmin.h"
#include "permit.h"
#include "utils/guc.h"
#include "worker.h"

/* ---- holding ---- */

/* See credit.h. */
void
credit_make_durable(void)
{
	if (synchronous_commit < SYNCHRONOUS_COMMIT_ON)
		set_config_option("synchronous_commit", "on", PGC_USERSET,
						  PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0, false);
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

		if (!permit_is_credit(part) || term == NULL)
			continue;
		memset(entry, 0, sizeof(*entry));
		memcpy(entry->account, term->account, QUOTA_ACCOUNT_LEN);
		entry->provider = term->slot == plan->slot ? plan->provider : NULL;
		entry->limit_name = term->name;
		entry->unit = term->unit;
		entry->amount = part->amount;
		entry->held = part->amount;
		entry->charged_at = part->charged_us;
		entry->period_start = part->period_us;
		entry->allowance = quota_term_binds(term) ? term->capacity : -1;
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
	.provider = plan->provider, .job = job, .refund = plan->lost_refunds};
	int64		expires_ns = 0;
	RowTable   *ledger;
	int			n = collect_parts(plan, verdict->permit, entries, &hold.calls,
								  &expires_ns);

	if (n == 0)
		elog(ERROR, "permit " INT64_FORMAT " holds no credits",
			 verdict->permit);
	credit_make_durable();
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
	quota_work_due(plan->database_slot,
				   Min(expires_ns, quota_now_ns() + LEDGER_FOLD_NS));
}

/* ---- resolving ---- */

/* See credit.h. */
List *
credit_held(RowTable *ledger, int64 permit, TimestampTz created_at)
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

/* Writes the entry that ends the hold of one account: amount is what that changes. */
static void
write_entry(RowTable *ledger, LedgerEntry *entry, const char *kind, int64 amount,
			const char *reason)
{
	entry->kind = kind;
	entry->held = -entry->amount;
	entry->amount = amount;
	entry->created_at = quota_wall_us();
	entry->reason = reason;
	ledger_append(ledger, entry);
}

/* 22023: the limit does not want it */
pg_noreturn static void
refuse_more(const LedgerEntry *entry, int64 held, int64 used)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("cannot settle more than was held of limit \"%s\"",
					entry->limit_name),
			 errdetail("Held are %lld of unit \"%s\", used were %lld.",
					   (long long) held, entry->unit, (long long) used),
			 errhint("Settle with what was held, or set quota.limits.settle_over to debt or cap.")));
}

/* See credit.h. */
int64
credit_final(const LedgerEntry *entry, int64 held, int32 calls, bool billed,
			 const QuotaUnits *units)
{
	int64		given = quota_units_of(units, entry->unit);
	int64		used = given >= 0 ? given * calls : held;

	if (!billed)
		return 0;
	if (used <= held)
		return used;
	switch (quota_settle_rules(entry->provider, entry->limit_name).over)
	{
		case SETTLE_DEBT:
			return used;
		case SETTLE_CAP:
			return held;
		case SETTLE_REFUSE:
			break;
	}
	refuse_more(entry, held, used);
}

/* The bucket of the entry's account. */
static QuotaKey
bucket_key(const LedgerEntry *entry)
{
	return quota_account_key(MyDatabaseId, quota_catalog()->extension, entry->account);
}

/*
 * Counts what an account of the hold is charged from now on, diff more than was held:
 * in the permit that is marked, or else in its bucket.
 */
static void
count_final(int64 permit, LedgerEntry *entry, int64 diff, bool marked)
{
	QuotaKey	key = bucket_key(entry);

	if (diff > 0)
		credit_make_durable();
	if (marked)
		credit_make_ready(entry);
	journal_reserve(1);
	if (!marked || !permit_set_credits(permit, &key, entry->amount + diff))
	{
		/* a permit that was restored after a crash has no credits */
		if (diff != 0 || entry->amount != 0)
			credit_end_loose(entry, entry->amount, diff, false);
	}
	else if (diff > 0)
		credit_check_range(entry);
}

/* credit_resolve() of a hold that nobody can be too late for. */
static bool
resolve(int64 permit, bool billed, const QuotaUnits *units, bool marked)
{
	HoldRow		hold;
	HoldOutcome outcome = hold_delete(permit, &hold);
	RowTable   *ledger;
	ListCell   *cell;

	if (outcome == HOLD_BUSY)
		quota_error_permit_busy(permit);
	if (outcome == HOLD_NONE)
		return false;
	ledger = row_open(QUOTA_REL_LEDGER);
	foreach(cell, credit_held(ledger, permit, hold.created_at))
	{
		LedgerEntry *entry = lfirst(cell);
		int64		diff = credit_final(entry, entry->amount, hold.calls, billed, units) -
			entry->amount;

		count_final(permit, entry, diff, marked);
		entry->calls = hold.calls;
		write_entry(ledger, entry, "settle", diff, billed ? NULL : "not billed");
	}
	row_close(ledger);
	return true;
}

/* See credit.h. */
bool
credit_resolve(int64 permit, bool billed, const QuotaUnits *units, bool marked)
{
	if (!marked && credit_settle_late(permit, billed, units))
		return true;
	return resolve(permit, billed, units, marked);
}

/* See credit.h. */
HoldOutcome
credit_lose(int64 permit)
{
	HoldRow		hold;
	HoldOutcome outcome = hold_delete(permit, &hold);
	RowTable   *ledger;
	List	   *held;
	ListCell   *cell;

	if (outcome != HOLD_TAKEN)
		return outcome;
	ledger = row_open(QUOTA_REL_LEDGER);
	held = credit_held(ledger, permit, hold.created_at);
	if (held == NIL)			/* a restore may bring the hold first */
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("hold %lld has no entries", (long long) permit),
				 errdetail("No entry of kind \"hold\" in quota.ledger bears its permit and created_at."),
				 errhint("If the database is being restored, they come with the rest of it.")));
	foreach(cell, held)
	{
		LedgerEntry *entry = lfirst(cell);
		int64		returns = hold.refund ? entry->amount : 0;

		if (entry->amount > 0)
			credit_end_loose(entry, entry->amount, -returns, true);
		entry->calls = hold.calls;
		write_entry(ledger, entry, "expire", -returns, hold.refund ? "not billed" : NULL);
	}
	row_close(ledger);
	return outcome;
}

/* See credit.h. */
bool
credit_give_back(int64 permit, int32 n, bool marked)
{
	HoldRow		hold;
	HoldOutcome outcome;
	RowTable   *ledger;
	ListCell   *cell;

	if (!marked && hold_look(permit, &hold) == HOLD_TAKEN && credit_hold_is_lost(&hold))
		quota_error_permit_expired(permit, hold.refund);
	outcome = hold_shrink(permit, n, &hold);
	if (outcome == HOLD_BUSY)
		quota_error_permit_busy(permit);
	if (outcome == HOLD_NONE)
		return false;
	if (n > hold.calls)
		quota_error_range("n", n, 1, hold.calls);
	if (n == hold.calls)
		return resolve(permit, false, NULL, false);
	ledger = row_open(QUOTA_REL_LEDGER);
	foreach(cell, credit_held(ledger, permit, hold.created_at))
	{
		LedgerEntry *entry = lfirst(cell);
		QuotaKey	key;

		entry->amount = -(entry->amount / hold.calls * n);
		key = bucket_key(entry);
		if (marked)
			credit_make_ready(entry);
		if (entry->amount != 0 && !(marked && permit_has_credits(permit, &key)))
			credit_end_loose(entry, -entry->amount, entry->amount, false);
		entry->held = entry->amount;
		entry->kind = "release";
		ledger_append(ledger, entry);
	}
	row_close(ledger);
	return true;
}
