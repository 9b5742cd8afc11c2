/*
 * reclaim.c
 *		Makes room in the fixed tables: what is idle and would be created again
 *		in the same state is forgotten (G13).
 *
 * A full meter, a concurrency bucket with nothing in flight, an allowance
 * (its rows know it) and an idle flow can go, if no journal record or permit pins
 * them.  Only the owner's lock is needed: pins are raised under it.
 */
#include "flow.h"
#include "miscadmin.h"
#include "permit.h"
#include "shmem.h"
#include "worker.h"

/* Forgetting the bucket loses nothing. */
static bool
is_idle(QuotaBucket *b, int64 now_ns)
{
	if (pg_atomic_read_u32(&b->pins) > 0)
		return false;
	if (quota_is_rate(b->kind))
	{
		meter_settle(&b->meter, now_ns, quota_wall_us());
		return meter_is_full(&b->meter);
	}
	if (b->kind == QUOTA_CONCURRENCY)
		return b->used == 0 && b->unknown_until_ns <= now_ns;
	return b->load != QUOTA_LOAD_LOADING;
}

/* See shmem.h. */
void
quota_drop_bucket(uint32 index)
{
	QuotaBucket *b = &quota_buckets[index];

	if (b->tenant != QUOTA_NO_INDEX)
	{
		pg_atomic_fetch_sub_u32(&quota_tenants[b->tenant].nbuckets, 1);
		pg_atomic_fetch_sub_u32(&quota_tenants[b->tenant].pins, 1);
	}
	quota_remove_bucket(index);
}

/* Lost permits and idle flows of every slot. */
static int
reclaim_slots(void)
{
	int			freed = 0;

	for (uint32 i = 0; i < (uint32) quota_max_providers; i++)
	{
		QuotaSlot  *slot = &quota_slots[i];
		uint32		permits = quota_shared->permits_used;

		if (!slot->entry.used)
			continue;
		LWLockAcquire(&slot->lock, LW_EXCLUSIVE);
		if (slot->entry.used)
		{
			permit_expire(i, quota_now_ns());
			freed += flow_reclaim(i);
		}
		LWLockRelease(&slot->lock);
		across_tell();
		freed += quota_shared->permits_used < permits;
		CHECK_FOR_INTERRUPTS();
	}
	return freed;
}

/* Idle buckets, one look at each. */
static int
reclaim_buckets(void)
{
	int			freed = 0;

	for (uint32 i = 0; i < (uint32) quota_max_buckets; i++)
	{
		QuotaEntry *entry = &quota_buckets[i].entry;
		uint32		owner = entry->owner;

		if (!entry->used || owner >= (uint32) quota_max_providers)
			continue;
		LWLockAcquire(&quota_slots[owner].lock, LW_EXCLUSIVE);
		if (quota_owned(entry, owner) &&
			is_idle(&quota_buckets[i], quota_now_ns()))
		{
			quota_drop_bucket(i);
			freed++;
		}
		LWLockRelease(&quota_slots[owner].lock);
		CHECK_FOR_INTERRUPTS();
	}
	return freed;
}

/* See shmem.h. */
bool
quota_reclaim(void)
{
	int			freed = quota_sweep_gone() ? 1 : 0;

	freed += reclaim_buckets();
	return freed + reclaim_slots() > 0;
}
