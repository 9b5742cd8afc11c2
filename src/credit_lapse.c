/*
 * credit_lapse.c
 *		Holds that were lost and whose credits return (lost_permit = refund): from the
 *		instant they expire they count as returned, whether or not a background worker
 *		has written so.
 *
 * PROTOCOL
 *
 * The rows stay the authority.  "used" of an allowance's bucket goes on to be the sum
 * of its entries, which know nothing of the clock.  Beside it "lapsed" is the part of
 * it that is of holds which have expired and return, but whose rows do not say so yet;
 * free is what is not used, and what has lapsed.
 *
 * A decision that would refuse by the bucket, and who asks for the balance, read
 * lapsed from the rows first, if they may say more than is known: credit_lapse_due().
 * They may
 *
 *	- once a permit has ended without being settled, whatever was in the way before:
 *	  the hooks in permit.c and permit_end.c call credit_look_again();
 *	- when the bucket was loaded or has rolled over: nothing is known, all open holds
 *	  are read, and those that no permit in shared memory stands for, as they were
 *	  opened before a crash, say when to read again.
 *
 * Who reads does it without a lock, and waits for nobody: the version of the bucket is
 * noted before and must be the same when the sum is put down.  Whoever resolves such a
 * hold has its credits as a record in the journal, which at commit lowers used and
 * lapsed in one section and moves the version.
 *
 * lapsed may be too low, never too high: a hold is counted only while used has it.
 *
 *	- A hold is read, then resolved, then the sum is put down: the version has moved,
 *	  or else the callback has yet to run, and it will lower both.
 *	- A hold is resolved, but the callback has not run: it is not in the sum, and the
 *	  callback takes it from the others there.  Too low, and the version says so:
 *	  the next refusal reads again.
 *	- A row that is being deleted counts, as nobody knows how that ends, and its
 *	  commit lowers both; one that is being inserted does not.
 *	- A permit that somebody is settling, or gives back calls of, was marked before it
 *	  expired: it is not lost until that has ended; if it is rolled back a hook says so.
 *	- A hold whose permit was extended is judged by the permit, the row may be older;
 *	  that of a job whose permit is not known yet after a crash, by its lease.  When
 *	  that ends nobody tells, so such a hold is looked at every second.
 */
#include "credit.h"

#include "catalog.h"
#include "job.h"
#include "miscadmin.h"
#include "permit.h"
#include "utils/fmgroids.h"
#include "utils/timestamp.h"

/*
 * A hold whose permit's end nobody will tell of, and that lives longer than its row
 * says, as its job has a lease, is looked at again after this.
 */
#define LOOK_AGAIN_US USECS_PER_SEC

/* See credit.h. */
void
credit_look_again(QuotaBucket *b, bool all)
{
	b->lapse_look = true;
	b->lapse_version++;
	if (all)
		b->lapse_look_ns = PG_INT64_MIN;
}

/* See credit.h. */
bool
credit_lapse_due(const QuotaBucket *b, int64 now_ns)
{
	return b->kind == QUOTA_ALLOWANCE &&
		(b->lapse_look || b->lapse_look_ns <= now_ns);
}

/* See credit.h. */
void
credit_lapse_settle(QuotaBucket *b, int64 n, TimestampTz at_us)
{
	b->lapsed = Max(b->lapsed - n, 0);
	credit_count_lapsed(b, at_us, -n);
	credit_look_again(b, false);
}

/* ---- which holds are lost ---- */

/* The job's worker has its lease, with this permit. */
static bool
has_lease(int64 job, int64 permit, TimestampTz now_us)
{
	RowTable   *leases = row_open_to_read(QUOTA_REL_LEASES);
	TupleTableSlot *slot = row_slot(leases);
	RowScan    *scan = row_scan_id(leases, QUOTA_REL_LEASES_PKEY, job);
	bool		in_progress;
	bool		found = false;

	while (!found && row_scan_next(scan, slot, &in_progress))
		found = row_int64_or_0(slot, LEASE_PERMIT) == permit &&
			row_int64(slot, LEASE_READY_AT) > now_us;
	row_scan_end(scan);
	row_close(leases);
	return found;
}

/* See credit.h. */
bool
credit_is_lost(int64 permit, int64 job)
{
	uint32		index = permit_lock(permit, MyDatabaseId,
									quota_catalog()->extension);
	bool		lives;

	if (index == QUOTA_NO_INDEX)
		return job == 0 || !has_lease(job, permit, quota_steady_us());
	lives = !permit_is_idle(&quota_permits[index]) ||
		quota_permits[index].expires_ns > quota_now_ns();
	permit_unlock(index);
	return !lives;
}

/* See credit.h. */
bool
credit_hold_is_lost(const HoldRow *hold)
{
	return hold->expires_at <= quota_steady_us() &&
		credit_is_lost(hold->permit, hold->job);
}

/* The end of the permit will be noticed, as it has the hold in shared memory. */
static bool
is_watched(int64 permit)
{
	uint32		index = permit_lock(permit, MyDatabaseId,
									quota_catalog()->extension);
	bool		watched;

	if (index == QUOTA_NO_INDEX)
		return false;
	watched = quota_permits[index].has_hold;
	permit_unlock(index);
	return watched;
}

/* ---- reading ---- */

/* What a read is about, and what it has found. */
typedef struct Lapse
{
	uint64		version;
	bool		all;			/* not only holds that have expired */
	int64		start_us;		/* the period of the bucket */
	int64		end_us;
	List	   *holds;			/* of LapsedHold */
	TimestampTz next_us;		/* when an unwatched hold expires; DT_NOEND */
} Lapse;

/* What a lost hold has of the account. */
typedef struct LapsedHold
{
	TimestampTz charged_at;
	int64		amount;
} LapsedHold;

/* What there is to be read for the bucket; false when there is nothing. */
static bool
begin(const QuotaTerm *term, Lapse *lapse)
{
	QuotaSlot  *slot = &quota_slots[term->slot];
	const QuotaBucket *b;
	uint32		index;
	bool		due = false;

	memset(lapse, 0, sizeof(*lapse));
	lapse->next_us = DT_NOEND;
	LWLockAcquire(&slot->lock, LW_SHARED);
	index = quota_find_bucket(&term->key, term->slot);
	if (index != QUOTA_NO_INDEX)
	{
		b = &quota_buckets[index];
		due = b->load == QUOTA_LOAD_READY && credit_lapse_due(b, quota_now_ns());
		lapse->version = b->lapse_version;
		lapse->all = b->lapse_look_ns <= quota_now_ns();
		lapse->start_us = b->period_start_us;
		lapse->end_us = b->period_end_us;
	}
	LWLockRelease(&slot->lock);
	return due;
}

/* Puts down what was found, unless something has changed: then it is to be read again. */
static void
put_down(const QuotaTerm *term, const Lapse *lapse)
{
	QuotaSlot  *slot = &quota_slots[term->slot];
	uint32		index;
	QuotaBucket *b;
	ListCell   *cell;

	quota_lock(&slot->lock);
	index = quota_find_bucket(&term->key, term->slot);
	b = index == QUOTA_NO_INDEX ? NULL : &quota_buckets[index];
	if (b && b->load == QUOTA_LOAD_READY && b->lapse_version == lapse->version &&
		b->period_start_us == lapse->start_us)
	{
		b->lapsed = 0;
		credit_clear_lapsed(b);
		foreach(cell, lapse->holds)
		{
			const LapsedHold *hold = lfirst(cell);

			b->lapsed += hold->amount;
			credit_count_lapsed(b, hold->charged_at, hold->amount);
		}
		b->lapse_look = false;
		if (lapse->all)
			b->lapse_look_ns = QUOTA_NEVER;
		if (lapse->next_us != DT_NOEND)
			b->lapse_look_ns = Min(b->lapse_look_ns, quota_ns_of_steady(lapse->next_us));
	}
	LWLockRelease(&slot->lock);
}

/* Notes what the hold has of the term's account in the period. */
static void
note_lapsed(RowTable *ledger, const QuotaTerm *term, const HoldRow *row, Lapse *lapse)
{
	ListCell   *cell;

	foreach(cell, credit_held(ledger, row->permit, row->created_at))
	{
		const LedgerEntry *entry = lfirst(cell);
		LapsedHold *hold;

		if (memcmp(entry->account, term->account, QUOTA_ACCOUNT_LEN) != 0 ||
			entry->charged_at < lapse->start_us || entry->charged_at >= lapse->end_us)
			continue;
		hold = palloc(sizeof(LapsedHold));
		hold->charged_at = entry->charged_at;
		hold->amount = entry->amount;
		lapse->holds = lappend(lapse->holds, hold);
	}
}

/* Looks at one open hold that returns; false: those behind it do not matter. */
static bool
look_at(RowTable *ledger, const QuotaTerm *term, const HoldRow *hold,
		TimestampTz now_us, Lapse *lapse)
{
	TimestampTz again_us = now_us + LOOK_AGAIN_US;

	if (hold->expires_at <= now_us && credit_is_lost(hold->permit, hold->job))
		note_lapsed(ledger, term, hold, lapse);
	else if (!is_watched(hold->permit))
	{
		if (hold->expires_at > now_us)
			again_us = hold->expires_at;
		lapse->next_us = Min(lapse->next_us, again_us);
		return hold->expires_at <= now_us;
	}
	return true;
}

/* See credit.h. */
void
credit_lapse_read(const QuotaTerm *term)
{
	Lapse		lapse;
	RowTable   *ledger;
	HoldWalk   *walk;
	HoldRow		hold;
	TimestampTz now_us;

	if (!begin(term, &lapse))
		return;
	now_us = quota_steady_us();
	ledger = row_open_to_read(QUOTA_REL_LEDGER);
	walk = hold_walk_begin(lapse.all ? DT_NOEND : now_us);
	while (hold_walk_next(walk, &hold) &&
		   look_at(ledger, term, &hold, now_us, &lapse))
		;
	hold_walk_end(walk);
	row_close(ledger);
	put_down(term, &lapse);
}
