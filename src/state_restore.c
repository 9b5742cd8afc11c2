/*
 * state_restore.c
 *		Puts what the state file holds back into empty shared memory.
 *
 * Objects find new places, except for permits, whose ids name theirs; maps lead
 * from old indexes to new ones.  Pins and what open permits count for are not
 * taken from the file but counted again, so that they agree with what was
 * restored.  Runs in the postmaster when nobody else is attached: locks are
 * taken only for functions that expect them.
 */
#include "postgres.h"

#include "permit.h"
#include "credit.h"
#include "state_file.h"

/* Room for a map from old indexes to new ones, up to the highest there is. */
static uint32 *
make_map(const State *state, int kind)
{
	uint32		size = 0;

	for (uint32 i = 0; i < state->header->count[kind]; i++)
	{
		uint32		index;

		memcpy(&index, state->records[kind] + (Size) i * state_record_size[kind],
			   sizeof(index));
		size = Max(size, index + 1);
	}
	return MemoryContextAllocHuge(CurrentMemoryContext,
								  ((Size) size + 1) * sizeof(uint32));
}

/* Copies a record out: it need not be aligned in the file. */
static void
get(const State *state, int kind, uint32 i, void *record)
{
	memcpy(record, state->records[kind] + (Size) i * state_record_size[kind],
		   state_record_size[kind]);
}

/* First, as everything else is owned by a slot. */
static void
restore_slots(State *state)
{
	state->slots = make_map(state, SAVED_SLOTS);
	for (uint32 i = 0; i < state->header->count[SAVED_SLOTS]; i++)
	{
		SavedSlot	saved;

		get(state, SAVED_SLOTS, i, &saved);
		state->slots[saved.index] =
			quota_slot_restore(&saved.key, saved.database, saved.extension,
							   saved.provider);
	}
}

/* Name, weight and counters; what leads to shares and flows is loaded anew. */
static void
restore_tenants(State *state)
{
	state->tenants = make_map(state, SAVED_TENANTS);
	for (uint32 i = 0; i < state->header->count[SAVED_TENANTS]; i++)
	{
		SavedTenant saved;
		QuotaTenant *tenant;
		uint32		index;

		get(state, SAVED_TENANTS, i, &saved);
		index = quota_create_tenant(&saved.tenant.entry.key,
									state->slots[saved.tenant.entry.owner]);
		state->tenants[saved.index] = index;
		tenant = &quota_tenants[index];
		pg_atomic_init_u32(&tenant->pins, 0);
		pg_atomic_init_u32(&tenant->npermits, 0);
		pg_atomic_init_u32(&tenant->nbuckets, 0);
		tenant->weight_milli = saved.tenant.weight_milli;
		tenant->stale_next = QUOTA_NO_INDEX;
		tenant->admitted = saved.tenant.admitted;
		memcpy(tenant->refused, saved.tenant.refused, sizeof(tenant->refused));
		tenant->completed = saved.tenant.completed;
		tenant->shed = saved.tenant.shed;
		memcpy(tenant->name, saved.tenant.name, sizeof(tenant->name));
	}
}

/* Lets the bucket count for its tenant again. */
static void
restore_charged_tenant(const State *state, QuotaBucket *bucket)
{
	if (bucket->tenant == QUOTA_NO_INDEX)
		return;
	bucket->tenant = state->tenants[bucket->tenant];
	pg_atomic_fetch_add_u32(&quota_tenants[bucket->tenant].pins, 1);
	pg_atomic_fetch_add_u32(&quota_tenants[bucket->tenant].nbuckets, 1);
}

/* As they were; what permits count for in them is added by restore_parts(). */
static void
restore_buckets(State *state)
{
	state->buckets = make_map(state, SAVED_BUCKETS);
	for (uint32 i = 0; i < state->header->count[SAVED_BUCKETS]; i++)
	{
		SavedBucket saved;
		QuotaBucket *bucket;
		uint32		owner;
		uint32		index;

		get(state, SAVED_BUCKETS, i, &saved);
		owner = state->slots[saved.bucket.entry.owner];
		index = quota_create_bucket(&saved.bucket.entry.key, owner);
		state->buckets[saved.index] = index;
		bucket = &quota_buckets[index];
		saved.bucket.entry = bucket->entry;
		memcpy(bucket, &saved.bucket, sizeof(*bucket));
		pg_atomic_init_u32(&bucket->pins, 0);
		permit_bucket_init(bucket);
		/* grants that expire are in rows only */
		if (bucket->load == QUOTA_LOAD_LOADING || bucket->grants != QUOTA_NO_INDEX)
			bucket->load = QUOTA_LOAD_EMPTY;
		bucket->grants = QUOTA_NO_INDEX;
		/* counted again from the permits that are restored; the others have ended */
		bucket->loose += bucket->held;
		bucket->held = 0;
		credit_look_again(bucket, true);
		bucket->giving = 0;
		bucket->mark.database_slot = QUOTA_NO_INDEX;
		if (bucket->kind == QUOTA_CONCURRENCY)
			bucket->used = 0;
		restore_charged_tenant(state, bucket);
	}
}

/* A permit that has no place any more: its concurrency is unknown until it ends. */
static void
forget_permit(const State *state, const QuotaPermit *permit)
{
	for (int i = 0; i < permit->nparts; i++)
	{
		const QuotaPart *part = &permit->parts[i];
		QuotaBucket *bucket = &quota_buckets[state->buckets[part->bucket]];

		if (part->kind == QUOTA_CONCURRENCY && part->linked)
			bucket->unknown_until_ns = Max(bucket->unknown_until_ns,
										   permit->expires_ns);
	}
}

/* Its parts pin and count again. */
static void
restore_parts(const State *state, QuotaPermit *permit)
{
	for (int i = 0; i < permit->nparts; i++)
	{
		QuotaPart  *part = &permit->parts[i];
		QuotaBucket *bucket;

		part->bucket = state->buckets[part->bucket];
		part->portion = QUOTA_NO_INDEX;
		bucket = &quota_buckets[part->bucket];
		pg_atomic_fetch_add_u32(&bucket->pins, 1);
		if (part->linked && part->kind == QUOTA_CONCURRENCY)
			bucket->used += part->amount;
		else if (part->linked)
		{
			bucket->held += part->amount;
			bucket->loose -= part->amount;
		}
	}
}

/* Puts a permit into its place, which was taken off the free list. */
static void
restore_permit(const State *state, uint32 index, const QuotaPermit *saved)
{
	QuotaPermit *permit = &quota_permits[index];
	QuotaSlot  *slot;

	memcpy(permit, saved, sizeof(*permit));
	permit->owner = state->slots[saved->owner];
	if (saved->database_slot != QUOTA_NO_INDEX)
		permit->database_slot = state->slots[saved->database_slot];
	if (saved->tenant != QUOTA_NO_INDEX)
	{
		permit->tenant = state->tenants[saved->tenant];
		pg_atomic_fetch_add_u32(&quota_tenants[permit->tenant].pins, 1);
		pg_atomic_fetch_add_u32(&quota_tenants[permit->tenant].npermits, 1);
	}
	permit->taken = false;
	if (permit->alias != 0)
		quota_shared->permit_aliases++;
	permit->marked = false;
	permit->giving = 0;
	restore_parts(state, permit);

	slot = &quota_slots[permit->owner];
	quota_lock(&slot->lock);
	permit_relink(index);
	LWLockRelease(&slot->lock);
}

/* Each goes to the place its id names. */
static void
restore_permits(const State *state)
{
	for (uint32 i = 0; i < state->header->count[SAVED_PERMITS]; i++)
	{
		SavedPermit saved;

		get(state, SAVED_PERMITS, i, &saved);
		if (saved.index < (uint32) quota_max_permits &&
			quota_alloc_permit_at(saved.index))
			restore_permit(state, saved.index, &saved.permit);
		else
			forget_permit(state, &saved.permit);
	}
}

/* From the start of the ring. */
static void
restore_events(const State *state)
{
	for (uint32 i = 0; i < state->header->count[SAVED_EVENTS]; i++)
		get(state, SAVED_EVENTS, i, &quota_shared->events[i]);
	quota_shared->event_tail = 0;
	quota_shared->event_head = state->header->count[SAVED_EVENTS];
	quota_shared->events_lost = state->header->events_lost;
}

/* The same. */
static void
restore_seen(const State *state)
{
	for (uint32 i = 0; i < state->header->count[SAVED_SEEN]; i++)
		get(state, SAVED_SEEN, i, &quota_shared->seen[i]);
	quota_shared->seen_tail = 0;
	quota_shared->seen_head = state->header->count[SAVED_SEEN];
	quota_shared->seen_lost = state->header->seen_lost;
}

/* Puts the pauses back. */
static void
restore_pauses(const State *state)
{
	for (uint32 i = 0; i < state->header->count[SAVED_PAUSES]; i++)
	{
		QuotaPause	saved;

		get(state, SAVED_PAUSES, i, &saved);
		saved.owner = state->slots[saved.owner];
		saved.database_slot = state->slots[saved.database_slot];
		pause_restore(&saved);
	}
}

/* See state_file.h. */
void
state_restore(State *state)
{
	const StateHeader *header = state->header;

	memcpy(quota_shared->secret, header->secret, sizeof(header->secret));
	quota_shared->crash_epoch = header->crash_epoch;
	pg_atomic_init_u64(&quota_shared->active_since_ns, header->active_since_ns);
	quota_shared->active_at = header->active_at;
	pg_atomic_init_u64(&quota_shared->permit_serial, header->permit_serial);
	for (int i = 0; i < QUOTA_N_GENERATIONS; i++)
	{
		QuotaGeneration *g = &quota_shared->generations[i];

		pg_atomic_write_u64(&g->number, header->number[i]);
		pg_atomic_write_u64(&g->deleted_ns, header->deleted_ns[i]);
	}
	quota_clock_start(&header->clock);

	restore_slots(state);
	restore_tenants(state);
	restore_buckets(state);
	restore_permits(state);
	restore_pauses(state);
	restore_events(state);
	restore_seen(state);
	pfree(state->slots);
	pfree(state->tenants);
	pfree(state->buckets);
}
