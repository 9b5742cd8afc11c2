/*
 * permit_settle.c
 *		Finding a permit by its id, and what is done with it while its call is
 *		under way or over: marking it for settling, extending it.  States and locks
 *		are told in permit.c.
 */
#include "permit.h"

#include "catalog.h"
#include "credit.h"
#include "floor.h"
#include "enforce.h"
#include "journal.h"
#include "mark.h"
#include "miscadmin.h"
#include "rules.h"

/* Locks in the order of shmem.h; database_slot may be QUOTA_NO_INDEX. */
static void
lock_slots(uint32 owner, uint32 database_slot)
{
	if (database_slot != QUOTA_NO_INDEX)
		quota_lock(&quota_slots[database_slot].lock);
	quota_lock(&quota_slots[owner].lock);
}

/* The reverse. */
static void
unlock_slots(uint32 owner, uint32 database_slot)
{
	LWLockRelease(&quota_slots[owner].lock);
	if (database_slot != QUOTA_NO_INDEX)
		LWLockRelease(&quota_slots[database_slot].lock);
}

/*
 * The permit's place: where its id says, or, for one that came back after a crash
 * when that was taken, wherever it has this alias.  To be verified.
 */
static uint32
find(int64 id)
{
	uint32		index = (uint32) (id & ((1 << QUOTA_PERMIT_INDEX_BITS) - 1));

	if (id <= 0)
		return QUOTA_NO_INDEX;
	if (index < (uint32) quota_max_permits && quota_permits[index].id == id)
		return index;
	if (quota_shared->permit_aliases == 0)
		return QUOTA_NO_INDEX;
	for (uint32 i = 0; i < (uint32) quota_max_permits; i++)
		if (quota_permits[i].alias == id)
			return i;
	return QUOTA_NO_INDEX;
}

/* True when some permit has this id or alias; without a lock, for restoring. */
bool
permit_is_known(int64 id)
{
	return find(id) != QUOTA_NO_INDEX;
}

/* The id names this permit. */
static bool
goes_by(const QuotaPermit *p, int64 id)
{
	return p->id == id || (p->alias == id && p->id != 0);
}

/* See permit.h. */
uint32
permit_lock(int64 id, Oid database, Oid extension)
{
	uint32		index = find(id);
	QuotaPermit *p;

	if (index == QUOTA_NO_INDEX)
		return index;
	p = &quota_permits[index];

	/* Which locks is known for sure only once they are held. */
	for (;;)
	{
		bool		same = goes_by(p, id);
		uint32		owner;
		uint32		across;

		pg_read_barrier();
		owner = p->owner;
		across = p->database_slot;
		if (!same || owner >= (uint32) quota_max_providers ||
			(across != QUOTA_NO_INDEX &&
			 across >= (uint32) quota_max_providers))
			return QUOTA_NO_INDEX;
		lock_slots(owner, across);
		if (goes_by(p, id) && p->owner == owner && p->database_slot == across)
			break;
		unlock_slots(owner, across);
	}
	if (quota_slots[p->owner].database == database &&
		quota_slots[p->owner].extension == extension)
		return index;
	unlock_slots(p->owner, p->database_slot);
	return QUOTA_NO_INDEX;
}

/* Releases what permit_lock() took. */
void
permit_unlock(uint32 index)
{
	unlock_slots(quota_permits[index].owner, quota_permits[index].database_slot);
}

/* True when the permit was taken by this backend's open transaction. */
bool
permit_is_ours(uint32 index)
{
	return quota_permits[index].state == QUOTA_PERMIT_OPEN &&
		quota_permits[index].taker_pid == MyProcPid;
}

/* See permit.h. */
bool
permit_is_taken(uint32 index)
{
	return quota_permits[index].marked ||
		permit_is_given_by_other(&quota_permits[index]) ||
		(quota_permits[index].state == QUOTA_PERMIT_OPEN && !permit_is_ours(index));
}

/* See permit.h. */
bool
permit_is_busy(int64 id)
{
	uint32		index = permit_lock(id, MyDatabaseId, quota_catalog()->extension);
	bool		busy;

	if (index == QUOTA_NO_INDEX)
		return false;
	busy = permit_is_taken(index);
	permit_unlock(index);
	return busy;
}

/* See permit.h. */
PermitMark
permit_mark(uint32 index, int64 now_ns)
{
	QuotaPermit *p = &quota_permits[index];

	if (permit_is_taken(index))
		return PERMIT_BUSY;
	if (p->state == QUOTA_PERMIT_EXPIRED || p->expires_ns <= now_ns)
		return PERMIT_OVER;
	p->marked = true;
	for (int i = 0; i < p->nparts; i++)
		p->parts[i].final = p->parts[i].kind == QUOTA_CONCURRENCY
			? 0 : permit_left(p, &p->parts[i]);
	journal_permit_marked(index);
	return PERMIT_MARKED;
}

/*
 * Takes what the call of this very transaction cost beyond its estimate: with the
 * estimate it stays spent, whatever becomes of the transaction.
 */
static void
take_more(QuotaPart *part, int64 more)
{
	Meter	   *meter = &quota_buckets[part->bucket].meter;
	MeterTake	apart;

	memset(&apart, 0, sizeof(apart));
	meter_take(meter, meter_take_joins(meter, &part->take) ? &part->take : &apart,
			   more);
	mark_take(part->bucket, more);
	part->amount += more;
	part->final = permit_left(&quota_permits[part->permit], part);
}

/* See permit.h. */
uint32
permit_stale_bucket(uint32 index)
{
	const QuotaPermit *p = &quota_permits[index];

	for (int i = 0; i < p->nparts; i++)
		if (!rules_are_current(&quota_buckets[p->parts[i].bucket]))
			return p->parts[i].bucket;
	return QUOTA_NO_INDEX;
}

/* See permit.h. */
void
permit_set_final(uint32 index, int part, int64 final, int64 now_ns)
{
	QuotaPart  *q = &quota_permits[index].parts[part];
	QuotaBucket *b = &quota_buckets[q->bucket];
	int64		left = permit_left(&quota_permits[index], q);
	int64		more = final - left;
	int64		room;

	q->final = Min(final, left);
	if (more <= 0)
		return;
	if (q->kind == QUOTA_ALLOWANCE && !credit_is_current(b, q->charged_us))
		return;
	if (q->shadow)
		journal_shadow(q->bucket, more, true);
	else if (q->kind == QUOTA_ALLOWANCE)
		journal_adjust(q->bucket, more, q->charged_us);
	else if (quota_is_rate(q->kind))
	{
		meter_settle(&b->meter, now_ns, quota_wall_us());
		room = enforce_room(b);
		more = Min(more, room);
		floor_returned(q->portion, -more);
		if (permit_is_ours(index))
			take_more(q, more);
		else
			journal_take(q->bucket, q->portion, more, true);
	}
}

/* Which of its parts has credits of the bucket; -1 = none.  Locked. */
static int
find_credits(const QuotaPermit *p, const QuotaKey *bucket)
{
	for (int i = 0; i < p->nparts; i++)
		if (permit_is_credit(&p->parts[i]) &&
			quota_key_equal(&quota_buckets[p->parts[i].bucket].entry.key, bucket))
			return i;
	return -1;
}

/* See permit.h. */
bool
permit_has_credits(int64 id, const QuotaKey *bucket)
{
	uint32		index = permit_lock(id, MyDatabaseId, quota_catalog()->extension);
	bool		has;

	if (index == QUOTA_NO_INDEX)
		return false;
	has = find_credits(&quota_permits[index], bucket) >= 0;
	permit_unlock(index);
	return has;
}

/* See permit.h. */
bool
permit_set_credits(int64 id, const QuotaKey *bucket, int64 final)
{
	uint32		index = permit_lock(id, MyDatabaseId, quota_catalog()->extension);
	int			part;

	if (index == QUOTA_NO_INDEX)
		return false;
	part = find_credits(&quota_permits[index], bucket);
	if (part >= 0)
		permit_set_final(index, part, final, quota_now_ns());
	permit_unlock(index);
	return part >= 0;
}

/* Its lifetime ends at another time. */
void
permit_move_end(QuotaPermit *p, int64 expires_ns)
{
	bool		linked[QUOTA_MAX_TERMS];

	/* heaps are ordered by the expiry that changes */
	pairingheap_remove(&quota_slots[p->owner].permits, &p->node);
	for (int i = 0; i < p->nparts; i++)
	{
		linked[i] = p->parts[i].linked;
		if (linked[i])
			pairingheap_remove(&quota_buckets[p->parts[i].bucket].parts,
							   &p->parts[i].node);
	}
	p->expires_ns = expires_ns;
	pairingheap_add(&quota_slots[p->owner].permits, &p->node);
	for (int i = 0; i < p->nparts; i++)
		if (linked[i])
			permit_order_part(&p->parts[i]);
}

/* See permit.h. */
bool
permit_extend(uint32 index, int64 expires_ns, int64 now_ns)
{
	QuotaPermit *p = &quota_permits[index];
	int64		before_ns = p->expires_ns;

	/* others may have taken off its parts from the moment it ended */
	if (p->state == QUOTA_PERMIT_EXPIRED || before_ns <= now_ns)
		return false;
	if (expires_ns != before_ns)
	{
		permit_move_end(p, expires_ns);
		journal_permit_extended(index, before_ns);
	}
	return true;
}

/* See permit.h. */
void
permit_end(int64 id)
{
	uint32		index = permit_lock(id, MyDatabaseId,
									quota_catalog()->extension);

	if (index == QUOTA_NO_INDEX)
		return;
	/* not if it is over, or another transaction is settling it */
	if (permit_mark(index, quota_now_ns()) == PERMIT_MARKED)
		quota_permits[index].ended = true;
	permit_unlock(index);
}
