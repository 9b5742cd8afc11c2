/*
 * credit_counter.c
 *		Shared counters of allowances: loading them from the ledger, and charging
 *		them without a decision, so that counters and rows are always equal.
 *
 * INVARIANT
 *
 * The counter "used" of a READY bucket is the sum of the ledger's entries of its
 * account that are charged in its period, of committed transactions and of open
 * ones as far as they take (G3, G4).
 *
 * What open holds hold of that is in two counters: "held", of permits in shared memory
 * (the parts that are linked), and "loose", of all others.  A load finds nothing linked,
 * as parts pin, so everything its entries hold is loose; a part whose permit expires
 * becomes loose, while its hold stays open (permit.c).  Who resolves a hold that is loose
 * says so by the same record that pins the bucket, and loose falls at commit.  So held +
 * loose is what the entries of the period hold, and in an unpinned bucket loose is.
 *
 * WRITERS AND LOADERS
 *
 * A writer changes the counter and pins the bucket, in one section under the
 * lock, before it writes its first entry: by the parts of its permit, or by
 * journal_adjust().  The pin stays until its commit or abort callback has run
 * (permits: and longer), and callbacks run after the transaction has left the
 * list of running ones.  Only a READY bucket can be pinned like that; who finds
 * it EMPTY loads it first, who finds it LOADING waits for the loader, never for
 * a transaction: a loader has its table locks before it publishes LOADING.
 *
 * A loader publishes LOADING, which it can only do on an EMPTY bucket, and then
 * reads the entries.  Buckets become EMPTY by being created or, unpinned, under
 * the lock.  So at that moment no writer has an entry of this account that is
 * not settled, and until READY is published none can begin one: every entry is
 * either committed or dead, whatever the order of reading, and none is missed or
 * counted twice.  The loader's own transaction is no exception: had it written
 * an entry, the bucket would be pinned and READY.  Hence a dirty scan (no
 * predicate locks in a serializable transaction) is as good as a snapshot.  The
 * only rows of open transactions that can turn up are those of a restore
 * (ledger.c), and then the load fails; and entries that change nothing, as a call
 * leaves that is settled late with what it stayed charged: they may be read at any
 * time.
 *
 * One bucket may be EMPTY and pinned: that of an account with grants that expire, by
 * permits that came back after a restart.  Who settles one of them loads it first
 * (credit_make_ready).
 *
 * PERIODS
 *
 * Every entry that refers to a hold bears the hold's charged_at, so what a
 * period has spent never moves to another one: that is an instant, and a hold and
 * what resolves it stay together whatever calendar, or rules of a time zone, there
 * are by then.  A charge or return in a period that the bucket has left changes rows
 * only; it pins the bucket all the same, as another calendar's first load might take
 * in that period.
 *
 * The period that is loaded is that of the wall clock or of the account's newest
 * entry, whichever is later: a wall clock that was set back while the bucket was
 * not in memory brings no period back (G12).
 *
 * RANGE
 *
 * used stays within +-2 * CREDIT_MAX_USED, which fits: takes are refused above
 * it and gains, those of open transactions (giving) included, below its
 * negative; a take that is returned meanwhile can add as much once more.
 */
#include "credit.h"

#include "flow.h"
#include "journal.h"
#include "key.h"
#include "miscadmin.h"
#include "permit.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

/* Makes buckets that are charged to no tenant's table entry. */
static const QuotaPlan nobody = {
	.slot = QUOTA_NO_INDEX,
	.tenant_index = QUOTA_NO_INDEX
};

/*
 * See credit.h.  Throws when out of memory.  A call asks for the key of the same account
 * several times, so the last one is kept.
 */
QuotaKey
quota_account_key(Oid database, Oid extension, const uint8 *account)
{
	static uint8 last[QUOTA_ACCOUNT_LEN];
	static Oid	last_database = InvalidOid;
	static Oid	last_extension = InvalidOid;
	static QuotaKey key;
	char		hex[2 * QUOTA_ACCOUNT_LEN + 1];
	const char *part = hex;

	if (database == last_database && extension == last_extension &&
		memcmp(account, last, QUOTA_ACCOUNT_LEN) == 0)
		return key;
	hex_encode((const char *) account, QUOTA_ACCOUNT_LEN, hex);
	hex[2 * QUOTA_ACCOUNT_LEN] = '\0';
	key = quota_key(database, extension, QUOTA_SPACE_BUCKET, 1, &part);
	memcpy(last, account, QUOTA_ACCOUNT_LEN);
	last_database = database;
	last_extension = extension;
	return key;
}

/* ---- loading ---- */

/* Waits until the bucket is no longer LOADING, or no longer there. */
static void
wait_loaded(uint32 index, const QuotaTerm *term)
{
	static uint32 wait_event = 0;
	QuotaSlot  *slot = &quota_slots[term->slot];
	bool		loading;

	if (wait_event == 0)
		wait_event = quota_wait_event("QuotaLoad");
	ConditionVariablePrepareToSleep(&slot->load_cv);
	for (;;)
	{
		LWLockAcquire(&slot->lock, LW_SHARED);
		loading = quota_bucket_is(index, term->slot, &term->key) &&
			quota_buckets[index].load == QUOTA_LOAD_LOADING;
		LWLockRelease(&slot->lock);
		if (!loading)
			break;
		ConditionVariableSleep(&slot->load_cv, wait_event);
	}
	ConditionVariableCancelSleep();
}

/* Publishes LOADING if the bucket is EMPTY; says what it was. */
static QuotaLoad
begin_load(uint32 index, const QuotaTerm *term)
{
	QuotaSlot  *slot = &quota_slots[term->slot];
	QuotaLoad	load = QUOTA_LOAD_READY;

	journal_reserve(1);
	quota_lock(&slot->lock);
	if (quota_bucket_is(index, term->slot, &term->key))
		load = quota_buckets[index].load;
	if (load == QUOTA_LOAD_EMPTY)
	{
		journal_loading_bucket(index);
		quota_buckets[index].load = QUOTA_LOAD_LOADING;
	}
	LWLockRelease(&slot->lock);
	return load;
}

/* What rows say of an account. */
typedef struct Loaded
{
	TimestampTz newest_us;		/* its latest entry */
	int64		start_us;		/* the period it is in */
	int64		end_us;
	LedgerSum	sum;			/* of that */
	LedgerGrants *grants;
	TimestampTz seen_us;		/* one of them had expired then */
} Loaded;

/* Reads it.  Throws when that can't be known now. */
static Loaded
read_account(const QuotaTerm *term)
{
	bool		open = false;
	Loaded		l = {.newest_us = ledger_newest(term->account, &open)};
	TimestampTz now_us = quota_wall_us();

	calendar_period(&term->calendar, Max(now_us, l.newest_us), &l.start_us, &l.end_us);
	l.sum = ledger_sum(term->account, l.start_us, l.end_us, LEDGER_ALL_XIDS, &open);
	if (open)
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("balance of limit \"%s\" is being restored",
						term->name),
				 errdetail("A transaction that inserted entries into quota.ledger directly has not ended."),
				 errhint("Try again when the restore has finished.")));
	l.grants = ledger_grants(term->account, l.start_us, l.end_us, LEDGER_ALL_XIDS);
	l.seen_us = ledger_grants_seen(l.grants);
	return l;
}

/* The bucket gets the grants that were read; false when the table is full. */
static bool
set_grants(QuotaBucket *b, const Loaded *l)
{
	TimestampTz seen_us = Max(Max(b->seen_us, l->newest_us), l->seen_us);

	credit_grants_drop(b);
	for (int i = 0; i < l->grants->n; i++)
		if (!credit_grant_add(b, &l->grants->grant[i]))
			return false;
	/* the first charge may be at the start */
	b->seen_us = Min(Max(seen_us, l->start_us - 1), l->end_us - 1);
	return true;
}

/* The bucket, LOADING by us, has what was read; false when its grants do not fit. */
static bool
make_ready(QuotaBucket *b, QuotaSlot *slot, const QuotaTerm *term, const Loaded *l)
{
	bool		fits;

	quota_lock(&slot->lock);
	b->used = l->sum.used;
	/* after a restart open permits may be there, and linked */
	b->loose = l->sum.held - b->held;
	b->overdue = 0;
	b->shadow_used = 0;
	b->period_start_us = l->start_us;
	b->period_end_us = l->end_us;
	b->calendar = term->calendar.id;
	b->lapsed = 0;
	credit_look_again(b, true);
	fits = set_grants(b, l);
	if (fits)
	{
		b->load = QUOTA_LOAD_READY;
		journal_loaded();
	}
	LWLockRelease(&slot->lock);
	return fits;
}

/*
 * Loads the bucket, or waits for who does; nothing when it is READY or gone.
 * No lock held.  When it throws, the journal makes the bucket EMPTY again.
 */
static void
load_or_wait(uint32 index, const QuotaTerm *term)
{
	QuotaSlot  *slot = &quota_slots[term->slot];
	QuotaBucket *b = &quota_buckets[index];
	QuotaLoad	load;
	Loaded		l;

	/* before others can wait for us, lest we wait for them */
	ledger_take_locks();
	load = begin_load(index, term);
	if (load == QUOTA_LOAD_LOADING)
		wait_loaded(index, term);
	if (load != QUOTA_LOAD_EMPTY)
		return;
	l = read_account(term);
	while (!make_ready(b, slot, term, &l))
		if (!quota_reclaim())
			quota_table_full("grant", "quota.max_buckets", quota_max_grants());
	ConditionVariableBroadcast(&slot->load_cv);
}

/* See credit.h. */
void
credit_load(QuotaPlan *plan, int term)
{
	load_or_wait(plan->terms[term].bucket, &plan->terms[term]);
}

/* ---- charging an account without a decision ---- */

/* See credit.h. */
uint32
credit_lock_ready(const QuotaTerm *term)
{
	QuotaSlot  *slot = &quota_slots[term->slot];

	for (;;)
	{
		int64		now_ns;
		uint32		index;

		CHECK_FOR_INTERRUPTS();
		quota_lock(&slot->lock);
		now_ns = quota_now_ns();
		permit_expire(term->slot, now_ns);
		index = quota_term_bucket(&nobody, term, now_ns,
								  quota_wall_us());
		if (index != QUOTA_NO_INDEX &&
			quota_buckets[index].load == QUOTA_LOAD_READY)
		{
			permit_bucket_expire(index, now_ns);
			credit_roll(&quota_buckets[index], term, quota_wall_us());
			if (quota_buckets[index].load == QUOTA_LOAD_READY)
				return index;
		}
		LWLockRelease(&slot->lock);
		across_tell();
		if (index != QUOTA_NO_INDEX)
			load_or_wait(index, term);
		else if (!quota_reclaim())
			quota_table_full("bucket", "quota.max_buckets", quota_max_buckets);
	}
}

/* See credit.h. */
void
credit_unlock(uint32 bucket)
{
	LWLockRelease(&quota_slots[quota_buckets[bucket].entry.owner].lock);
	across_tell();
}

/* The bucket of an entry, described as a term of no plan. */
static void
entry_term(const LedgerEntry *entry, QuotaTerm *term)
{
	Oid			extension = quota_catalog()->extension;

	memset(term, 0, sizeof(*term));
	memcpy(term->account, entry->account, QUOTA_ACCOUNT_LEN);
	term->key = quota_account_key(MyDatabaseId, extension, entry->account);
	term->slot = quota_slot(MyDatabaseId, extension,
							entry->provider ? entry->provider : "");
	term->bucket = QUOTA_NO_INDEX;
	term->kind = QUOTA_ALLOWANCE;
	term->name = entry->limit_name;
	term->unit = entry->unit;
	term->label = "";
}

/*
 * As credit_lock_ready() for the bucket of an entry whose limit may be gone.
 * Without a limit nobody decides by it, so a bucket that is not loaded need not
 * be: QUOTA_NO_INDEX, and no lock.
 */
static uint32
lock_entry_bucket(const LedgerEntry *entry)
{
	QuotaTerm	term;
	QuotaSlot  *slot;
	CreditLimit limit;

	entry_term(entry, &term);
	slot = &quota_slots[term.slot];
	for (;;)
	{
		uint32		index;
		QuotaLoad	load = QUOTA_LOAD_EMPTY;

		quota_lock(&slot->lock);
		index = quota_find_bucket(&term.key, term.slot);
		if (index != QUOTA_NO_INDEX)
			load = quota_buckets[index].load;
		if (load == QUOTA_LOAD_READY)
			return index;
		LWLockRelease(&slot->lock);
		if (load == QUOTA_LOAD_EMPTY)
			break;
		wait_loaded(index, &term);
	}
	if (!credit_find_limit(entry->provider, entry->limit_name, &limit))
		return QUOTA_NO_INDEX;
	term.calendar = limit.calendar;
	return credit_lock_ready(&term);
}

/* See credit.h. */
void
credit_make_ready(const LedgerEntry *entry)
{
	uint32		index = lock_entry_bucket(entry);

	if (index != QUOTA_NO_INDEX)
		credit_unlock(index);
}

/* See credit.h. */
bool
credit_leaves_range(const QuotaBucket *b, int64 diff)
{
	return diff > 0 ? b->used > CREDIT_MAX_USED - diff :
		b->used - b->giving < -CREDIT_MAX_USED - diff;
}

/* See credit.h. */
void
credit_error_range(const LedgerEntry *entry)
{
	ereport(ERROR,
			(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
			 errmsg("balance of limit \"%s\" is out of range",
					entry->limit_name),
			 errdetail("What one period uses or is given must stay within %lld units.",
					   (long long) CREDIT_MAX_USED)));
}

/* See credit.h. */
void
credit_check_range(const LedgerEntry *entry)
{
	QuotaTerm	term;
	uint32		index;
	bool		out = false;

	entry_term(entry, &term);
	LWLockAcquire(&quota_slots[term.slot].lock, LW_SHARED);
	index = quota_find_bucket(&term.key, term.slot);
	if (index != QUOTA_NO_INDEX)
		out = quota_buckets[index].used > CREDIT_MAX_USED;
	LWLockRelease(&quota_slots[term.slot].lock);
	if (out)
		credit_error_range(entry);
}

/* credit_charge() and credit_end_loose(). */
static void
charge_account(const LedgerEntry *entry, const QuotaTerm *term, int64 diff,
			   int64 loose, bool lost, TimestampTz *charged_at)
{
	uint32		index;
	QuotaBucket *b;
	bool		counts;
	bool		out;

	journal_reserve(2);			/* a load's record is gone before ours */
	index = term ? credit_lock_ready(term) : lock_entry_bucket(entry);
	if (index == QUOTA_NO_INDEX)
		return;
	b = &quota_buckets[index];
	if (*charged_at == DT_NOBEGIN)
		*charged_at = credit_instant(b, quota_wall_us());
	counts = credit_is_current(b, *charged_at);
	out = counts && credit_leaves_range(b, diff);
	if (!out && counts && lost)
		journal_return_lapsed(index, -diff, *charged_at);
	else if (!out)
		journal_adjust(index, counts ? diff : 0,
					   entry->permit != 0 || diff > 0 ? *charged_at : DT_NOBEGIN);
	if (!out && counts)
		journal_resolve_loose(loose, lost && diff == 0);
	credit_unlock(index);
	if (out)
		credit_error_range(entry);
}

/* See credit.h. */
void
credit_charge(const LedgerEntry *entry, const QuotaTerm *term, int64 diff,
			  TimestampTz *charged_at)
{
	charge_account(entry, term, diff, 0, false, charged_at);
}

/* See credit.h. */
void
credit_end_loose(LedgerEntry *hold, int64 n, int64 diff, bool lost)
{
	charge_account(hold, NULL, diff, n, lost, &hold->charged_at);
}
