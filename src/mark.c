/*
 * mark.c
 *		Slow limits over a crash: a mark that says what may have been spent.
 *
 * A limit that needs more than a minute to refill must not start drained after a
 * crash, as others do.  So what was taken of its bucket is known by a row of
 * quota.marks (mark_page.c), as the value of a sequence is: logged ahead, so that
 * mostly there is nothing to write.
 *
 *	  A row holds the bucket's meter as it was at an instant, and "ahead": units that
 *	  may have been taken since without another note.
 *
 * PROTOCOL
 *
 *	1. A decision takes units in shared memory as ever, under the slot's lock, and
 *	   counts them in mark.taken.  As long as that is not above mark.covered the row
 *	   knows of them already: nothing else is done.
 *	2. Otherwise the take is pending, in this backend.  mark_secure(), which comes
 *	   before anybody is told of the grant and again before COMMIT, writes a row that
 *	   covers it and waits until the log is on disk; only then it raises
 *	   mark.covered.
 *	3. After a crash the bucket starts as the row's meter, refilled for the time that
 *	   has passed for sure, less all of "ahead".
 *
 * Why nothing is admitted twice.  At any moment let C be mark.covered and M the row
 * that was on disk when it was raised to C.  Every unit that anybody was told of is
 * within C, as (2) waits, and every unit within C is in M's meter or its "ahead".
 * The row is rewritten under its page's lock, with what the meter is at that moment
 * and an "ahead" of at least what is left up to C: so the new row, too, covers
 * everything up to C from the moment it exists, and more once it is on disk.
 * Returns (rolled back calls, settling) lower the meter, never mark.taken: the row
 * says more than is true.
 *
 * What is lost is what the row says too much: of "ahead" at most, a slice, and what
 * has refilled or was returned since it was written; the background worker writes it
 * again when that may be another slice.  Capacities below MARK_SLICES are never
 * logged ahead: every take of theirs writes, nothing is lost.
 *
 * INTERLEAVINGS
 *
 *	crash between take and row		nobody was told of the take.
 *	crash between row and flush		the same; the row may have survived.
 *	the taking transaction aborts	units return in memory; the row stays.
 *	error or cancel in (2)			the transaction aborts; covered was not raised.
 *	two overtake together			one row is written at a time for a bucket, under a
 *									lock of the lock manager; who comes second finds
 *									its take covered, or writes another one.
 *	worker and decision				as two decisions.
 *	the bucket is forgotten			only once it is full, unpinned and its row freed:
 *									so a bucket that is not in memory and has no row
 *									is full (but see below).
 *	the row's limit is gone			its meter refills all the same; then it is freed.
 *	other rules apply				the next take writes a row, covered or not; else
 *									the worker does, at once when a decision has met
 *									them, be it a refusal, or others follow them
 *									(rules.c).
 *
 * What a row says after a crash, and what it means that there is none, is in
 * mark_restore.c.
 */
#include "postgres.h"

#include "mark.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "clock.h"
#include "mark_page.h"
#include "mark_write.h"
#include "miscadmin.h"
#include "rules.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/memutils.h"
#include "utils/rel.h"

/* A take that no row covers yet. */
typedef struct Pending
{
	uint32		bucket;
	uint32		owner;
	QuotaKey	key;
	int64		taken;			/* mark.taken after it */
	SubTransactionId sub;
} Pending;

static Pending *pending;
static int	npending;
static int	max_pending;

/* ---- taking ---- */

/* See mark.h. */
void
mark_reserve(int n)
{
	int			size = Max(npending + n, 2 * max_pending);

	if (npending + n <= max_pending)
		return;
	if (pending == NULL)
		pending = MemoryContextAllocHuge(TopMemoryContext,
										 sizeof(Pending) * (Size) size);
	else
		pending = repalloc_huge(pending, sizeof(Pending) * (Size) size);
	max_pending = size;
}

/* Units logged ahead at a time. */
static int64
slice(const QuotaBucket *b)
{
	return b->capacity / MARK_SLICES;
}

/* The newest pending take of a bucket, if it is among the last few; NULL if not. */
static Pending *
last_pending(uint32 bucket, SubTransactionId sub)
{
	int			from = Max(npending - QUOTA_MAX_TERMS, 0);

	for (int i = npending - 1; i >= from; i--)
		if (pending[i].bucket == bucket && pending[i].sub == sub)
			return &pending[i];
	return NULL;
}

/* See mark.h. */
void
mark_note(uint32 bucket, int64 n)
{
	QuotaBucket *b = &quota_buckets[bucket];
	SubTransactionId sub = GetCurrentSubTransactionId();
	Pending    *p;

	b->mark.taken += n;
	if (b->mark.taken <= b->mark.covered &&
		b->mark.changes == b->mark.marked_changes)
		return;
	p = last_pending(bucket, sub);
	if (p == NULL)
	{
		/* to go on would be to admit what a crash forgets */
		if (unlikely(npending == max_pending))
			elog(PANIC, "quota has no room for a pending mark");
		p = &pending[npending++];
	}
	p->bucket = bucket;
	p->owner = b->entry.owner;
	p->key = b->entry.key;
	p->taken = b->mark.taken;
	p->sub = sub;
}

/* See mark.h. */
bool
mark_is_low(const QuotaBucket *b)
{
	int64		ahead = slice(b);

	return b->mark.slow && ahead > 1 && b->mark.place.offset != 0 &&
		b->mark.covered - b->mark.taken < ahead / 2;
}

/* See mark.h. */
void
mark_note_return(uint32 bucket, int64 n)
{
	QuotaBucket *b = &quota_buckets[bucket];

	if (b->mark.place.offset == 0)
		return;
	b->mark.returned += n;
	if (mark_says_too_much(b))
		mark_wants_worker(b->mark.database_slot, bucket);
}

/* See mark_write.h. */
bool
mark_says_too_much(const QuotaBucket *b)
{
	return b->mark.returned > 0 && b->mark.returned >= slice(b);
}

/* The rules are those that applied last. */
static bool
same_rules(const QuotaMark *mark, const QuotaTerm *term)
{
	return mark->capacity == term->capacity &&
		mark->rate.num == term->meter.rate.num &&
		mark->rate.den == term->meter.rate.den &&
		mark->anchor_us == term->meter.anchor_us;
}

/*
 * The term's rules apply to a slow bucket from now on.  If nobody takes anything by
 * them, they leave no other trace than its row.
 */
static void
note_rules(uint32 bucket, const QuotaTerm *term)
{
	QuotaBucket *b = &quota_buckets[bucket];

	if (same_rules(&b->mark, term))
		return;
	b->mark.capacity = term->capacity;
	b->mark.rate = term->meter.rate;
	b->mark.anchor_us = term->meter.anchor_us;
	b->mark.changes++;
	if (b->mark.place.offset != 0)
		mark_wants_worker(b->mark.database_slot, bucket);
}

/* See mark.h. */
void
mark_apply(uint32 database_slot, uint32 bucket, const QuotaTerm *term)
{
	QuotaBucket *b = &quota_buckets[bucket];

	if (likely(!term->slow && !b->mark.slow))
		return;
	b->mark.database_slot = database_slot;
	/* while there is a row it must stay true, whatever applies now */
	b->mark.slow = term->slow || b->mark.place.offset != 0;
	if (term->slow)
		memcpy(b->mark.id, term->mark_id, MARK_ID_LEN);
	note_rules(bucket, term);
}

/* See mark.h. */
void
mark_renew(uint32 bucket, const QuotaTerm *term)
{
	if (quota_buckets[bucket].mark.slow)
		note_rules(bucket, term);
}

/* ---- writing a row ---- */

/* MarkFill: the bucket as it is now. */
static bool
fill_row(MarkRow *row, void *arg)
{
	MarkWriting *w = arg;
	LWLock	   *lock = &quota_slots[w->owner].lock;
	QuotaBucket *b = &quota_buckets[w->bucket];
	bool		wanted;

	quota_lock(lock);
	wanted = quota_bucket_is(w->bucket, w->owner, &w->key) && b->mark.slow &&
		(w->taken > b->mark.covered || b->mark.changes != b->mark.marked_changes);
	if (wanted)
	{
		quota_clock_stamp(&row->image.at);
		rules_settle(b, row->image.at.now_ns, quota_wall_us());
		memcpy(row->id, b->mark.id, MARK_ID_LEN);
		row->ahead = Max(slice(b), b->mark.covered - b->mark.taken);
		row->image.database = MyDatabaseId;
		row->image.epoch = quota_shared->crash_epoch;
		row->image.meter = b->meter;
		/* of a stale bucket: what has come back since is not known */
		meter_shift(&row->image.meter,
					Max(row->image.at.now_ns - meter_settled(&b->meter), 0));
		w->covers = b->mark.taken + row->ahead;
		w->returned = b->mark.returned;
		w->changes = b->mark.changes;
		w->written_ns = row->image.at.now_ns;
	}
	LWLockRelease(lock);
	return wanted;
}

/* The row is on disk: more may be taken. */
static void
publish(const MarkWriting *w, MarkPlace place)
{
	LWLock	   *lock = &quota_slots[w->owner].lock;
	QuotaBucket *b = &quota_buckets[w->bucket];

	quota_lock(lock);
	if (quota_bucket_is(w->bucket, w->owner, &w->key))
	{
		b->mark.covered = w->covers;
		b->mark.returned -= w->returned;
		b->mark.marked_changes = w->changes;
		b->mark.marked_ns = w->written_ns;
		b->mark.place = place;
	}
	LWLockRelease(lock);
}

/* Is a row still wanted?  Then, its id and where it was last. */
static bool
look(const MarkWriting *w, uint8 *id, MarkPlace *place)
{
	LWLock	   *lock = &quota_slots[w->owner].lock;
	QuotaBucket *b = &quota_buckets[w->bucket];
	bool		wanted;

	LWLockAcquire(lock, LW_SHARED);
	wanted = quota_bucket_is(w->bucket, w->owner, &w->key) && b->mark.slow &&
		(w->taken > b->mark.covered || b->mark.changes != b->mark.marked_changes);
	memcpy(id, b->mark.id, MARK_ID_LEN);
	*place = b->mark.place;
	LWLockRelease(lock);
	return wanted;
}

/* One row of a bucket is written at a time; it is told by the bucket's index. */
void
mark_lock_bucket(Relation rel, uint32 bucket, LOCKTAG *tag)
{
	SET_LOCKTAG_OBJECT(*tag, MyDatabaseId, RelationGetRelid(rel), bucket, 0);
	(void) LockAcquire(tag, ExclusiveLock, false, false);
}

/* See mark_write.h. */
void
mark_write_bucket(Relation rel, MarkWriting *w)
{
	MarkWritten written = MARK_NOT_WANTED;
	uint8		id[MARK_ID_LEN];
	MarkPlace	place;
	XLogRecPtr	lsn;
	LOCKTAG		tag;

	mark_lock_bucket(rel, w->bucket, &tag);
	if (look(w, id, &place))
		written = mark_write(rel, id, &place, fill_row, w, &lsn);
	if (written == MARK_WRITTEN)
	{
		XLogFlush(lsn);
		publish(w, place);
	}
	LockRelease(&tag, ExclusiveLock, false);
	if (written == MARK_NO_ROOM)
		quota_table_full("mark", "quota.max_buckets", quota_max_buckets);
}

/* MarkFill */
static bool
fill_epoch(MarkRow *row, void *arg)
{
	mark_epoch_id(quota_shared->crash_epoch, row->id);
	row->image.database = MyDatabaseId;
	row->image.epoch = quota_shared->crash_epoch;
	quota_clock_stamp(&row->image.at);
	return true;
}

/* See mark_write.h. */
void
mark_note_epoch(Relation rel)
{
	static Oid	noted = InvalidOid;

	if (RelationGetRelid(rel) == noted)
		return;
	mark_write_epoch(rel, fill_epoch, NULL);
	noted = RelationGetRelid(rel);
}

/* ---- answering ---- */

/* See mark.h. */
void
mark_secure(void)
{
	Relation	rel;

	if (likely(npending == 0))
		return;
	rel = mark_open();
	mark_note_epoch(rel);
	while (npending > 0)
	{
		Pending    *p = &pending[npending - 1];
		MarkWriting w = {
			.bucket = p->bucket,.owner = p->owner,.key = p->key,.taken = p->taken
		};

		mark_write_bucket(rel, &w);
		npending--;
	}
	mark_close(rel);
}

/* See mark.h: those of the subtransactions in it have higher numbers. */
void
mark_forget(SubTransactionId sub)
{
	while (npending > 0 && pending[npending - 1].sub >= sub)
		npending--;
}
