/*
 * mark_chore.c
 *		The background worker's part in marks: it logs ahead before a decision has
 *		to, keeps rows from getting old, and frees those that are not needed.
 *
 * A row is written again
 *
 *	- when most of its slice has been taken, or as much was returned;
 *	- when other rules apply than the row's;
 *	- when it is so old that a slice has refilled since: its bucket loses as much if
 *	  the machine, whose clock stops then, restarts.
 *
 * A row is freed when its bucket is full and nothing pins it.  Bucket and page are
 * locked while it is decided; from then on a take has to write a row, for which it
 * waits until this one is free.  It need not be on disk: without that the row says
 * more than is true.  Rows of earlier epochs, whose bucket nobody has asked for
 * since the crash, are freed by what they say themselves.
 *
 * None of this is needed for a decision to be right.
 */
#include "postgres.h"

#include "mark.h"

#include "access/xlog.h"
#include "clock.h"
#include "mark_write.h"
#include "miscadmin.h"
#include "rules.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "worker.h"

#define BUSY_NS			(10 * QUOTA_NS_PER_S)	/* somebody has locked the table */
#define LEAST_AGE_NS	(60 * QUOTA_NS_PER_S)
#define OLD_ROWS_NS		(600 * QUOTA_NS_PER_S)	/* between looks at all rows */

typedef enum Action
{
	ACT_NOTHING,
	ACT_WRITE,
	ACT_FREE
} Action;

/* One bucket, as it was looked at. */
typedef struct Look
{
	Action		action;
	int64		again_ns;		/* when to look again */
	uint8		id[MARK_ID_LEN];
	MarkPlace	place;
	MarkWriting writing;
} Look;

/* ---- one bucket ---- */

/* How long a slice and a unit take to refill, at least a minute. */
static int64
slice_ns(const QuotaBucket *b)
{
	BucketRate	rate = b->mark.rate;
	double		ns;

	if (rate.num == 0)
		return QUOTA_NEVER / 4;
	ns = (double) (b->capacity / MARK_SLICES + 1) * (double) rate.den / (double) rate.num;
	return ns < (double) (QUOTA_NEVER / 4) ? Max((int64) ns, LEAST_AGE_NS)
		: QUOTA_NEVER / 4;
}

/* Nothing is out, nothing was spent; locked. */
static bool
is_full(QuotaBucket *b, int64 now_ns)
{
	if (pg_atomic_read_u32(&b->pins) > 0)
		return false;
	rules_settle(b, now_ns, quota_wall_us());
	return meter_is_full(&b->meter);
}

/* What to do with a bucket that has a row; locked. */
static Action
choose(QuotaBucket *b, int64 now_ns, int64 *again_ns)
{
	int64		age_ns = slice_ns(b);
	bool		old = now_ns - b->mark.marked_ns >= age_ns;

	*again_ns = QUOTA_NEVER;
	if (is_full(b, now_ns))
		return ACT_FREE;
	if (mark_is_low(b) || mark_says_too_much(b) || old ||
		b->mark.changes != b->mark.marked_changes)
	{
		*again_ns = now_ns + age_ns;
		return ACT_WRITE;
	}
	*again_ns = b->mark.marked_ns + age_ns;
	return ACT_NOTHING;
}

/*
 * A slow bucket of this database that has a row; false for any other.  May throw.
 * database_slot: whose worker looks, if one does.
 */
static bool
look_at(uint32 index, uint32 database_slot, Look *look)
{
	QuotaBucket *b = &quota_buckets[index];
	uint32		owner = b->entry.owner;
	QuotaSlot  *slot = &quota_slots[owner];
	bool		ours;

	if (!b->entry.used || !b->mark.slow || owner >= (uint32) quota_max_providers ||
		slot->database != MyDatabaseId)
		return false;
	if (!rules_are_current(b))	/* else it is never settled, nor full; looked at again locked */
		(void) rules_renew(index);
	quota_lock(&slot->lock);
	ours = quota_owned(&b->entry, owner) && slot->database == MyDatabaseId &&
		b->mark.slow && b->mark.place.offset != 0;
	if (ours)
	{
		if (database_slot != QUOTA_NO_INDEX)
			b->mark.database_slot = database_slot;
		look->action = choose(b, quota_now_ns(), &look->again_ns);
		memcpy(look->id, b->mark.id, MARK_ID_LEN);
		look->place = b->mark.place;
		memset(&look->writing, 0, sizeof(look->writing));
		look->writing.bucket = index;
		look->writing.owner = owner;
		look->writing.key = b->entry.key;
		look->writing.taken = PG_INT64_MAX;
	}
	LWLockRelease(&slot->lock);
	return ours;
}

/* MarkFill: a free row, if the bucket is still full; then takes have to wait. */
static bool
fill_free(MarkRow *row, void *arg)
{
	const MarkWriting *w = arg;
	LWLock	   *lock = &quota_slots[w->owner].lock;
	QuotaBucket *b = &quota_buckets[w->bucket];
	bool		wanted;

	quota_lock(lock);
	wanted = quota_bucket_is(w->bucket, w->owner, &w->key) && b->mark.slow &&
		is_full(b, quota_now_ns());
	if (wanted)
		b->mark.covered = b->mark.taken;
	LWLockRelease(lock);
	return wanted;
}

/* Frees the row of a full bucket. */
static void
free_row(Relation rel, const Look *look)
{
	MarkWriting w = look->writing;
	QuotaBucket *b = &quota_buckets[w.bucket];
	LWLock	   *lock = &quota_slots[w.owner].lock;
	XLogRecPtr	lsn;
	LOCKTAG		tag;

	mark_lock_bucket(rel, w.bucket, &tag);
	if (mark_rewrite(rel, look->id, look->place, fill_free, &w, &lsn))
	{
		quota_lock(lock);
		if (quota_bucket_is(w.bucket, w.owner, &w.key))
			b->mark.place.offset = 0;
		LWLockRelease(lock);
	}
	LockRelease(&tag, ExclusiveLock, false);
}

/* ---- rows of earlier epochs ---- */

/* A walk over everything. */
typedef struct Walk
{
	Relation	rel;
	HTAB	   *claimed;		/* ids whose bucket is in memory, and has a row */
	int			rows;			/* not free */
} Walk;

/* MarkFill: a free row. */
static bool
fill_zero(MarkRow *row, void *arg)
{
	return true;
}

/* Nothing is missing any more by what the row says. */
static bool
has_refilled(const MarkRow *row)
{
	int64		now_ns = quota_now_ns();
	Meter		meter;

	mark_says(row, &meter, now_ns, quota_wall_us());
	return meter_is_full(&meter);
}

/* MarkReader: frees it, if it is of an earlier epoch and nobody needs it. */
static void
free_old(const MarkRow *row, MarkPlace place, void *arg)
{
	Walk	   *walk = arg;
	XLogRecPtr	lsn;

	if (row->image.epoch == quota_shared->crash_epoch ||
		hash_search(walk->claimed, row->id, HASH_FIND, NULL) != NULL ||
		!has_refilled(row) ||
		!mark_rewrite(walk->rel, row->id, place, fill_zero, NULL, &lsn))
		walk->rows++;
}

/* ---- the chore ---- */

/* The worker is to come by then. */
static void
mark_due(uint32 database_slot, int64 at_ns)
{
	pg_atomic_uint64 *due = &quota_slots[database_slot].marks_due_ns;
	uint64		old = pg_atomic_read_u64(due);

	while (at_ns < (int64) old)
		if (pg_atomic_compare_exchange_u64(due, &old, (uint64) at_ns))
		{
			quota_work_due(database_slot, at_ns);
			return;
		}
}

/* See mark.h. */
void
mark_wants_worker(uint32 database_slot, uint32 bucket)
{
	QuotaBucket *b = &quota_buckets[bucket];
	int64		at_ns = quota_now_ns();

	if (database_slot == QUOTA_NO_INDEX)
		return;
	b->mark.database_slot = database_slot;
	if (!mark_is_low(b) && !mark_says_too_much(b) &&
		b->mark.changes == b->mark.marked_changes)
		at_ns += OLD_ROWS_NS;
	mark_due(database_slot, at_ns);
}

/* Does what one bucket needs; returns when it is to be looked at again. */
static int64
look_after(Relation rel, Look *look, int64 until_ns)
{
	if (quota_raw_ns() > until_ns)
		return quota_now_ns();
	if (look->action == ACT_WRITE)
		mark_write_bucket(rel, &look->writing);
	else if (look->action == ACT_FREE)
		free_row(rel, look);
	return look->again_ns;
}

/* See mark.h. */
int64
mark_walk_buckets(uint32 database_slot, int64 until_ns)
{
	HASHCTL		control = {
		.keysize = MARK_ID_LEN,.entrysize = MARK_ID_LEN,.hcxt = CurrentMemoryContext
	};
	pg_atomic_uint64 *due = &quota_slots[database_slot].marks_due_ns;
	int64		next_ns = QUOTA_NEVER;
	Walk		walk = {0};

	if ((int64) pg_atomic_read_u64(due) > quota_now_ns())
		return (int64) pg_atomic_read_u64(due);
	walk.rel = mark_try_open();
	if (walk.rel == NULL)
		return quota_now_ns() + BUSY_NS;
	mark_note_epoch(walk.rel);
	pg_atomic_write_u64(due, (uint64) QUOTA_NEVER);
	pg_memory_barrier();
	walk.claimed = hash_create("quota marked buckets", 64, &control,
							   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	for (uint32 i = 0; i < (uint32) quota_max_buckets; i++)
	{
		Look		look;
		int64		again_ns;

		if (!look_at(i, database_slot, &look))
			continue;
		CHECK_FOR_INTERRUPTS();
		(void) hash_search(walk.claimed, look.id, HASH_ENTER, NULL);
		again_ns = look_after(walk.rel, &look, until_ns);
		next_ns = Min(next_ns, again_ns);
	}
	mark_walk(walk.rel, free_old, &walk);
	mark_close(walk.rel);
	hash_destroy(walk.claimed);
	if (walk.rows > 0)
		next_ns = Min(next_ns, quota_now_ns() + OLD_ROWS_NS);
	mark_due(database_slot, next_ns);
	return (int64) pg_atomic_read_u64(due);
}

/* See mark.h. */
void
mark_free_rows(void)
{
	Relation	rel = NULL;

	for (uint32 i = 0; i < (uint32) quota_max_buckets; i++)
	{
		Look		look;

		if (!look_at(i, QUOTA_NO_INDEX, &look) || look.action != ACT_FREE)
			continue;
		CHECK_FOR_INTERRUPTS();
		if (rel == NULL && (rel = mark_try_open()) == NULL)
			return;
		free_row(rel, &look);
	}
	if (rel != NULL)
		mark_close(rel);
}
