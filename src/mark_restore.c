/*
 * mark_restore.c
 *		What a bucket of a slow limit holds after a crash: by its row in quota.marks
 *		(mark.c), or by there being none.
 *
 * NO ROW means that nothing was taken since the limit became slow.  That is since it
 * was made, or since a row of the configuration that takes part in its rate last
 * changed: term->emptied_ns, by which the bucket may have been drained.  A limit that
 * is made under the name of one that was deleted, and was not slow, has changed if
 * its buckets know of anything taken: mark_limit_is_used().  Overrides
 * that are deleted leave no trace; therefore a limit counts as slow if it would be
 * with any of the overrides that apply left out.
 *
 * TIME.  A row says when it was written by all clocks (ClockStamp).  Rows of earlier
 * epochs are placed before this epoch's first instant (active_at) by what passed
 * for sure in between.  Changes of configuration that happened after the row was
 * written, before the crash: nothing refilled before the last of them, as it is not
 * known which rules applied.  Their rows say an epoch and its quota clock: what that
 * is today follows from a row of quota.marks for each epoch (mark_instant()).  Nor is
 * it known which rules applied between the crash and the last change after it: to a
 * bucket that nobody has asked for since, nothing refilled meanwhile.
 */
#include "postgres.h"

#include "mark.h"

#include "clock.h"
#include "mark_write.h"
#include "miscadmin.h"

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
	loaded.place.offset = 0;	/* not known */
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

/* When units may have been taken that the row knows of: from, and up to. */
static void
span(const MarkRow *row, int64 now_ns, int64 *from_ns, int64 *to_ns)
{
	bool		same_epoch = row->image.epoch == quota_shared->crash_epoch;

	*from_ns = same_epoch ? row->image.at.now_ns : placed(&row->image.at);
	*to_ns = same_epoch ? now_ns : quota_shared->active_at.now_ns;
}

/* The wall clock at an instant of the quota clock, by what both are now. */
static TimestampTz
wall_at(int64 at_ns, int64 now_ns, TimestampTz wall_us)
{
	return wall_us - (now_ns - at_ns) / QUOTA_NS_PER_US;
}

/* Takes what was logged ahead. */
static void
take_ahead(Meter *meter, const MarkRow *row)
{
	MeterTake	ahead;

	memset(&ahead, 0, sizeof(ahead));
	meter_take(meter, &ahead, row->ahead);
}

/* What a row says of the bucket now, by the term's rules. */
static void
restore(Meter *meter, const MarkRow *row, const QuotaTerm *term, int64 now_ns,
		TimestampTz wall_us)
{
	int64		at_ns;
	int64		last_ns;
	int64		since_ns;
	TimestampTz last_us;

	span(row, now_ns, &at_ns, &last_ns);
	last_us = wall_at(last_ns, now_ns, wall_us);
	at_ns = Max(at_ns, Min(term->changed_ns, last_ns));
	*meter = row->image.meter;
	meter_shift(meter, at_ns - row->image.at.now_ns);
	/* of two rates the slower one is taken to have applied before the crash */
	if (meter_is_slower(meter, &term->meter))
		meter_settle(meter, last_ns, last_us);
	else
		meter_configure(meter, &term->meter, at_ns, last_ns, last_us);
	take_ahead(meter, row);
	/* nor is it known by which rules it went while nobody had asked since */
	since_ns = Max(last_ns, Min(term->deleted_ns, now_ns));
	meter_shift(meter, since_ns - last_ns);
	meter_configure(meter, &term->meter, since_ns, now_ns, wall_us);
}

/* See mark_write.h. */
void
mark_says(const MarkRow *row, Meter *meter, int64 now_ns, TimestampTz wall_us)
{
	int64		at_ns;
	int64		last_ns;

	span(row, now_ns, &at_ns, &last_ns);
	*meter = row->image.meter;
	meter_shift(meter, at_ns - row->image.at.now_ns);
	meter_settle(meter, last_ns, wall_at(last_ns, now_ns, wall_us));
	take_ahead(meter, row);
	meter_settle(meter, now_ns, wall_us);
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
	b->mark.anchor_us = term->meter.anchor_us;
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

/* ---- limits made again ---- */

/* Something of it is taken, or may be, and no row says so; its slot's lock is held. */
static bool
is_used(QuotaBucket *b)
{
	Meter		meter = b->meter;

	if (!quota_is_rate(b->kind) || b->mark.place.offset != 0)
		return false;
	meter_settle(&meter, quota_now_ns(), quota_wall_us());
	return pg_atomic_read_u32(&b->pins) > 0 || !meter_is_full(&meter);
}

/* See mark.h. */
bool
mark_limit_is_used(const char *provider, const char *name)
{
	uint32		left = quota_shared->bucket_table.n_used;
	bool		used = false;

	for (uint32 i = 0; i < (uint32) quota_max_buckets && left > 0 && !used; i++)
	{
		QuotaBucket *b = &quota_buckets[i];
		uint32		owner = b->entry.owner;
		QuotaSlot  *slot = &quota_slots[owner];

		left -= b->entry.used;
		if (!b->entry.used || owner >= (uint32) quota_max_providers ||
			slot->database != MyDatabaseId)
			continue;
		LWLockAcquire(&slot->lock, LW_SHARED);
		used = quota_owned(&b->entry, owner) && slot->database == MyDatabaseId &&
			strcmp(slot->provider, provider ? provider : "") == 0 &&
			strcmp(b->limit_name, name) == 0 && is_used(b);
		LWLockRelease(&slot->lock);
		CHECK_FOR_INTERRUPTS();
	}
	return used;
}
