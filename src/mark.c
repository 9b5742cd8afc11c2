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
 *									the worker does.
 *
 * NO ROW means that nothing was taken since the limit became slow.  That is since it
 * was made, or since a row of the configuration that takes part in its rate last
 * changed: term->emptied_ns, by which the bucket may have been drained.  Overrides
 * that are deleted leave no trace; therefore a limit counts as slow if it would be
 * with any of the overrides that apply left out.
 *
 * TIME.  A row says when it was written by all clocks (ClockStamp).  Rows of earlier
 * epochs are placed before this epoch's first instant (active_at) by what passed
 * for sure in between.  Changes of configuration that happened after the row was
 * written, before the crash: nothing refilled before the last of them, as it is not
 * known which rules applied.  Their rows say an epoch and its quota clock: what that
 * is today follows from a row of quota.marks for each epoch (mark_instant()).
 */
#include "postgres.h"

#include "mark.h"

#include "access/xact.h"
#include "access/xlog.h"
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

/* See mark.h. */
void
mark_apply(QuotaBucket *b, const QuotaTerm *term)
{
	if (likely(!term->slow && !b->mark.slow))
		return;
	/* while there is a row it must stay true, whatever applies now */
	if (!b->mark.slow)
		b->mark.database_slot = QUOTA_NO_INDEX;
	b->mark.slow = term->slow || b->mark.place.offset != 0;
	memcpy(b->mark.id, term->mark_id, MARK_ID_LEN);
	if (b->mark.capacity == term->capacity &&
		b->mark.rate.num == term->meter.rate.num &&
		b->mark.rate.den == term->meter.rate.den)
		return;
	b->mark.capacity = term->capacity;
	b->mark.rate = term->meter.rate;
	b->mark.changes++;
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

	LWLockAcquire(lock, LW_EXCLUSIVE);
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

	LWLockAcquire(lock, LW_EXCLUSIVE);
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
bool
mark_is_pending(void)
{
	return npending > 0;
}

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

/* ---- first contents ---- */

/* What was read last. */
static struct
{
	QuotaKey	key;
	bool		valid;
	bool		found;
	MarkPlace	place;
	MarkRow		row;
}			loaded;

/* See mark.h. */
void
mark_load(const QuotaTerm *term)
{
	Relation	rel = mark_open();

	loaded.valid = false;
	loaded.found = mark_find(rel, term->mark_id, &loaded.place, &loaded.row);
	mark_close(rel);
	loaded.key = term->key;
	loaded.valid = true;
}

/* See mark.h. */
bool
mark_is_loaded(const QuotaTerm *term)
{
	return loaded.valid && quota_key_equal(&loaded.key, &term->key);
}

/* An instant of an earlier epoch, on the present quota clock, or later. */
static int64
placed(const ClockStamp *at)
{
	const ClockStamp *first = &quota_shared->active_at;

	return first->now_ns - quota_clock_between(at, first);
}

/* What a row says of the bucket now. */
static void
restore(Meter *meter, const MarkRow *row, const QuotaTerm *term, int64 now_ns,
		TimestampTz wall_us)
{
	bool		same_epoch = row->image.epoch == quota_shared->crash_epoch;
	/* nothing was taken after this */
	int64		last_ns = same_epoch ? now_ns : quota_shared->active_at.now_ns;
	int64		at_ns = same_epoch ? row->image.at.now_ns
		: placed(&row->image.at);
	TimestampTz last_us = wall_us - (now_ns - last_ns) / QUOTA_NS_PER_US;
	MeterTake	ahead;

	at_ns = Max(at_ns, Min(term->changed_ns, last_ns));
	*meter = row->image.meter;
	meter_shift(meter, at_ns - row->image.at.now_ns);
	/* of two rates the slower one is taken to have applied before the crash */
	if (meter_is_slower(meter, &term->meter))
		meter_settle(meter, last_ns, last_us);
	else
		meter_configure(meter, &term->meter, at_ns, last_ns, last_us);
	memset(&ahead, 0, sizeof(ahead));
	meter_take(meter, &ahead, row->ahead);
	meter_configure(meter, &term->meter, Max(last_ns, term->deleted_ns), now_ns,
					wall_us);
}

/* What there is when no row says anything. */
static void
restore_unknown(Meter *meter, const QuotaTerm *term, int64 now_ns,
				TimestampTz wall_us)
{
	int64		since = quota_shared->active_at.now_ns;

	if (term->starts_full || term->emptied_ns == PG_INT64_MIN)
		meter_init_full(meter, &term->meter, now_ns, wall_us);
	else
		meter_init_drained(meter, &term->meter, term->deleted_ns > since ?
						   term->deleted_ns : Min(term->emptied_ns, since),
						   now_ns, wall_us);
}

/* See mark.h. */
void
mark_fill(QuotaBucket *b, const QuotaTerm *term, int64 now_ns,
		  TimestampTz wall_us)
{
	memset(&b->mark, 0, sizeof(b->mark));
	b->mark.slow = true;
	memcpy(b->mark.id, term->mark_id, MARK_ID_LEN);
	b->mark.database_slot = QUOTA_NO_INDEX;
	b->mark.capacity = term->capacity;
	b->mark.rate = term->meter.rate;
	if (loaded.found)
	{
		restore(&b->meter, &loaded.row, term, now_ns, wall_us);
		b->mark.place = loaded.place;
	}
	else
		restore_unknown(&b->meter, term, now_ns, wall_us);
	loaded.valid = false;
}

/* What is to be added to the quota clock of an epoch; of those asked for last. */
#define KNOWN_EPOCHS	8

typedef struct KnownEpoch
{
	int64		epoch;
	bool		found;			/* else nothing is known of it, and never will be */
	int64		add_ns;
} KnownEpoch;

static KnownEpoch known_epochs[KNOWN_EPOCHS];

/* Looks an earlier epoch up; may throw. */
static const KnownEpoch *
know_epoch(int64 epoch)
{
	static int	next = 0;
	KnownEpoch *known;
	MarkRow		row;
	bool		found;

	for (int i = 0; i < KNOWN_EPOCHS; i++)
		if (known_epochs[i].epoch == epoch)
			return &known_epochs[i];
	found = mark_find_epoch(epoch, &row);
	known = &known_epochs[next++ % KNOWN_EPOCHS];
	known->epoch = epoch;
	known->found = found;
	known->add_ns = found ? placed(&row.image.at) - row.image.at.now_ns : 0;
	return known;
}

/* See mark.h. */
int64
mark_instant(int64 epoch, int64 ns)
{
	const KnownEpoch *known;
	int64		first_ns;

	if (epoch == quota_shared->crash_epoch)
		return ns;
	/* on a standby: it happened before we know of it */
	if (pg_atomic_read_u64(&quota_shared->active_since_ns) == 0)
		return quota_now_ns();
	pg_read_barrier();
	first_ns = quota_shared->active_at.now_ns;
	known = know_epoch(epoch);
	return known->found ? Min(ns + known->add_ns, first_ns) : first_ns;
}
