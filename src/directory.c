/*
 * directory.c
 *		Finding shared objects by key: one chained hash per kind over a fixed
 *		array, with a free list.  Keys are uniform (hashes), so their low bits
 *		are the hash.
 *
 * Locking: see shmem.h.  quota_shared->directory protects chains, free lists and
 * the entry of every object; it is the innermost lock and is held for a few
 * instructions only.
 */
#include "directory.h"

#include "credit.h"
#include "flow.h"
#include "key.h"
#include "permit.h"
#include "port/pg_bitutils.h"
#include "shmem.h"
#include "worker.h"

/* Where the objects of one kind are. */
typedef struct Kind
{
	QuotaTable *table;
	char	   *objects;
	Size		stride;
	uint32	   *heads;
} Kind;

static uint32 *slot_heads;
static uint32 *bucket_heads;
static uint32 *tenant_heads;
static uint32 *portion_heads;
static uint32 *share_heads;
static uint32 *flow_heads;
static uint32 *line_heads;
static uint32 *far_gate_heads;

#define KIND(name, objects_) \
	{&quota_shared->name##_table, (char *) (objects_), sizeof(*(objects_)), \
		name##_heads}

/* Number of hash heads for a table of "size" objects: a power of two. */
static uint32
heads_for(int size)
{
	return pg_nextpower2_32((uint32) size);
}

/* Bytes of all hash heads. */
Size
quota_directory_size(void)
{
	Size		n = heads_for(quota_max_providers);

	n += heads_for(quota_max_buckets);
	n += heads_for(quota_max_tenants);
	n += heads_for(quota_max_portions());
	n += 4 * (Size) heads_for(quota_max_flows);
	return CACHELINEALIGN(n * sizeof(uint32));
}

/* Points the heads into the block. */
void
quota_directory_attach(char *block)
{
	slot_heads = (uint32 *) block;
	bucket_heads = slot_heads + heads_for(quota_max_providers);
	tenant_heads = bucket_heads + heads_for(quota_max_buckets);
	portion_heads = tenant_heads + heads_for(quota_max_tenants);
	share_heads = portion_heads + heads_for(quota_max_portions());
	flow_heads = share_heads + heads_for(quota_max_flows);
	line_heads = flow_heads + heads_for(quota_max_flows);
	far_gate_heads = line_heads + heads_for(quota_max_flows);
}

/* The entry of an object; in a slot it is not the first field. */
static QuotaEntry *
entry_of(const Kind *kind, uint32 index)
{
	return (QuotaEntry *) (kind->objects + kind->stride * index +
						   (kind->objects == (char *) quota_slots
							? offsetof(QuotaSlot, entry) : 0));
}

/* Empties one table: all objects on the free list, lowest index first. */
static void
table_init(const Kind *kind, int size)
{
	kind->table->size = (uint32) size;
	kind->table->mask = heads_for(size) - 1;
	kind->table->n_used = kind->table->reach = 0;
	kind->table->free = 0;
	for (uint32 i = 0; i <= kind->table->mask; i++)
		kind->heads[i] = QUOTA_NO_INDEX;
	for (int i = 0; i < size; i++)
		entry_of(kind, i)->chain = i + 1 < size ? (uint32) i + 1 : QUOTA_NO_INDEX;
}

/* Empties all tables of a zeroed block. */
void
quota_directory_init(void)
{
	table_init(&(Kind) KIND(slot, quota_slots), quota_max_providers);
	table_init(&(Kind) KIND(bucket, quota_buckets), quota_max_buckets);
	table_init(&(Kind) KIND(tenant, quota_tenants), quota_max_tenants);
	table_init(&(Kind) KIND(portion, quota_portions), quota_max_portions());
	table_init(&(Kind) KIND(share, quota_shares), quota_max_flows);
	table_init(&(Kind) KIND(flow, quota_flows), quota_max_flows);
	table_init(&(Kind) KIND(line, quota_lines), quota_max_flows);
	table_init(&(Kind) KIND(far_gate, quota_far_gates), quota_max_flows);

	quota_shared->grant_free = 0;
	for (int i = 0; i < quota_max_grants(); i++)
		quota_grants[i].next =
			i + 1 < quota_max_grants() ? (uint32) i + 1 : QUOTA_NO_INDEX;
	quota_shared->permit_free = 0;
	for (int i = 0; i < quota_max_permits; i++)
	{
		quota_permits[i].chain =
			i + 1 < quota_max_permits ? (uint32) i + 1 : QUOTA_NO_INDEX;
		quota_permits[i].chain_back = i > 0 ? (uint32) i - 1 : QUOTA_NO_INDEX;
	}
}

/* Where the chain of a key begins. */
static uint32 *
head_of(const Kind *kind, const QuotaKey *key)
{
	return &kind->heads[key->w[0] & kind->table->mask];
}

/* The object with this key and owner; directory lock held. */
static uint32
table_search(const Kind *kind, const QuotaKey *key, uint32 owner)
{
	uint32		index = *head_of(kind, key);

	while (index != QUOTA_NO_INDEX)
	{
		QuotaEntry *entry = entry_of(kind, index);

		if (entry->owner == owner && quota_key_equal(&entry->key, key))
			break;
		index = entry->chain;
	}
	return index;
}

/* Takes an object off the free list and enters it; directory lock held. */
static uint32
table_insert(const Kind *kind, const QuotaKey *key, uint32 owner)
{
	uint32		index = kind->table->free;
	QuotaEntry *entry;
	uint32	   *head = head_of(kind, key);

	if (index == QUOTA_NO_INDEX)
		return index;
	entry = entry_of(kind, index);
	kind->table->free = entry->chain;
	kind->table->n_used++;
	kind->table->reach = Max(kind->table->reach, index + 1);
	entry->key = *key;
	entry->owner = owner;
	entry->used = true;
	entry->chain = *head;
	*head = index;
	return index;
}

/* table_search() under the directory lock; QUOTA_NO_INDEX = none. */
static uint32
table_find(const Kind *kind, const QuotaKey *key, uint32 owner)
{
	uint32		index;

	LWLockAcquire(quota_shared->directory, LW_SHARED);
	index = table_search(kind, key, owner);
	LWLockRelease(quota_shared->directory);
	return index;
}

/* A new, zeroed object; QUOTA_NO_INDEX when the table is full. */
static uint32
table_create(const Kind *kind, const QuotaKey *key, uint32 owner)
{
	uint32		index;

	LWLockAcquire(quota_shared->directory, LW_EXCLUSIVE);
	index = table_insert(kind, key, owner);
	LWLockRelease(quota_shared->directory);
	if (index != QUOTA_NO_INDEX)
		memset(kind->objects + kind->stride * index + sizeof(QuotaEntry), 0,
			   kind->stride - sizeof(QuotaEntry));
	return index;
}

/* Puts an object back on the free list. */
static void
table_remove(const Kind *kind, uint32 index)
{
	QuotaEntry *entry = entry_of(kind, index);
	uint32	   *link;

	LWLockAcquire(quota_shared->directory, LW_EXCLUSIVE);
	link = head_of(kind, &entry->key);
	while (*link != index)
		link = &entry_of(kind, *link)->chain;
	*link = entry->chain;
	entry->used = false;
	entry->owner = QUOTA_NO_INDEX;
	memset(&entry->key, 0, sizeof(entry->key));
	entry->chain = kind->table->free;
	kind->table->free = index;
	kind->table->n_used--;
	LWLockRelease(quota_shared->directory);
}

/* Find, create and remove for one kind; see shmem.h for the promises. */
#define DEFINE_KIND(name, objects) \
uint32 \
quota_find_##name(const QuotaKey *key, uint32 owner) \
{ \
	Kind		kind = KIND(name, objects); \
	return table_find(&kind, key, owner); \
} \
uint32 \
quota_create_##name(const QuotaKey *key, uint32 owner) \
{ \
	Kind		kind = KIND(name, objects); \
	return table_create(&kind, key, owner); \
} \
void \
quota_remove_##name(uint32 index) \
{ \
	Kind		kind = KIND(name, objects); \
	table_remove(&kind, index); \
}

DEFINE_KIND(bucket, quota_buckets)
DEFINE_KIND(tenant, quota_tenants)
DEFINE_KIND(portion, quota_portions)
DEFINE_KIND(share, quota_shares)
DEFINE_KIND(flow, quota_flows)
DEFINE_KIND(line, quota_lines)
DEFINE_KIND(far_gate, quota_far_gates)

/* A new slot's contents, except what lasts for the life of the server. */
static void
slot_fill(uint32 index, Oid database, Oid extension, const char *provider)
{
	QuotaSlot  *slot = &quota_slots[index];

	slot->database = database;
	slot->extension = extension;
	strlcpy(slot->provider, provider, sizeof(slot->provider));
	slot->stale_all = slot->refreshed = 0;
	slot->stale_rules = slot->refreshed_rules = 0;
	slot->stale_tenants = QUOTA_NO_INDEX;
	slot->database_slot = provider[0] == '\0' ? index : QUOTA_NO_INDEX;
	slot->queue_load = QUOTA_LOAD_EMPTY;
	slot->counting = false;
	slot->fold_seen_us = slot->fold_complete_us = 0;
	ledger_close_from(&slot->fold_walks, 0);
	ledger_expire_from(&slot->fold_walks, 0);
	pg_atomic_write_u32(&slot->following, 0);
	slot->worker_pid = 0;
	/* a database's first work is to read its queue */
	pg_atomic_write_u64(&slot->work_due_ns,
						(uint64) (provider[0] == '\0' ? 0 : QUOTA_NEVER));
	pg_atomic_write_u64(&slot->marks_due_ns, 0);
	pg_atomic_write_u32(&slot->rules_wanted, 0);
	slot->notices_lost = 0;
	pg_atomic_write_u64(&slot->deadline_low, (uint64) DT_NOEND);
	slot->deadline_at = DT_NOBEGIN;
	slot->deadline_id = 0;
	slot->deadline_walking = false;
	slot->deadline_again = DT_NOEND;
	slot->deadline_again_ns = QUOTA_NEVER;
	permit_slot_init(index);
	flow_slot_init(index);
}

/* See shmem.h. */
uint32
quota_slot_restore(const QuotaKey *key, Oid database, Oid extension,
				   const char *provider)
{
	Kind		kind = KIND(slot, quota_slots);
	bool		created = false;
	uint32		index;

	LWLockAcquire(quota_shared->directory, LW_EXCLUSIVE);
	/* a slot owns itself, so any owner of that key is the right one */
	index = *head_of(&kind, key);
	while (index != QUOTA_NO_INDEX &&
		   !quota_key_equal(&quota_slots[index].entry.key, key))
		index = quota_slots[index].entry.chain;
	if (index == QUOTA_NO_INDEX && kind.table->free != QUOTA_NO_INDEX)
	{
		/* filled first: who has only its lock may look as soon as it is in use */
		slot_fill(kind.table->free, database, extension, provider);
		pg_write_barrier();
		index = table_insert(&kind, key, kind.table->free);
		created = true;
	}
	LWLockRelease(quota_shared->directory);
	if (created && provider[0] == '\0')
		quota_worker_wake();
	return index;
}

/* Where this backend last found a slot. */
typedef struct SlotPlace
{
	Oid			database;
	Oid			extension;
	uint32		index;
	QuotaKey	key;
	char		provider[QUOTA_NAME_LEN];
} SlotPlace;

/* It still is there; seen without a lock, as the answer is used without one. */
static bool
slot_is_at(const SlotPlace *place, Oid database, Oid extension,
		   const char *provider)
{
	return place->database == database && place->extension == extension &&
		strcmp(place->provider, provider) == 0 &&
		quota_key_equal(&quota_slots[place->index].entry.key, &place->key);
}

/* See shmem.h.  Throws 53400 when all slots are used, even after reclaiming. */
uint32
quota_slot(Oid database, Oid extension, const char *provider)
{
	static SlotPlace places[2]; /* of the database's slot, of a provider's */
	SlotPlace  *place = &places[provider[0] != '\0'];
	const char *parts[] = {provider};
	QuotaKey	key;

	if (slot_is_at(place, database, extension, provider))
		return place->index;
	key = quota_key(database, extension, QUOTA_SPACE_SLOT, 1, parts);
	for (int attempt = 0; attempt < 2; attempt++)
	{
		uint32		index = quota_slot_restore(&key, database, extension,
											   provider);

		if (index != QUOTA_NO_INDEX)
		{
			place->database = database;
			place->extension = extension;
			place->index = index;
			place->key = key;
			strlcpy(place->provider, provider, QUOTA_NAME_LEN);
			return index;
		}
		if (!quota_reclaim())
			break;
	}
	quota_table_full("provider", "quota.max_providers", quota_max_providers);
}

/* See shmem.h. */
void
quota_remove_slot(uint32 index)
{
	Kind		kind = KIND(slot, quota_slots);

	table_remove(&kind, index);
}

/* Takes a free permit out of the free list; directory lock held. */
static void
unlink_free_permit(uint32 index)
{
	QuotaPermit *p = &quota_permits[index];

	if (p->chain_back == QUOTA_NO_INDEX)
		quota_shared->permit_free = p->chain;
	else
		quota_permits[p->chain_back].chain = p->chain;
	if (p->chain != QUOTA_NO_INDEX)
		quota_permits[p->chain].chain_back = p->chain_back;
	p->state = QUOTA_PERMIT_OPEN;
	quota_shared->permits_used++;
}

/* See shmem.h. */
uint32
quota_alloc_permit(bool optional)
{
	uint32		index = QUOTA_NO_INDEX;

	LWLockAcquire(quota_shared->directory, LW_EXCLUSIVE);
	if (!optional ||
		quota_shared->permits_used < (uint32) quota_max_permits / 4 * 3)
		index = quota_shared->permit_free;
	if (index != QUOTA_NO_INDEX)
		unlink_free_permit(index);
	LWLockRelease(quota_shared->directory);
	return index;
}

/* See shmem.h. */
bool
quota_alloc_permit_at(uint32 index)
{
	bool		found;

	LWLockAcquire(quota_shared->directory, LW_EXCLUSIVE);
	found = quota_permits[index].state == QUOTA_PERMIT_FREE;
	if (found)
		unlink_free_permit(index);
	LWLockRelease(quota_shared->directory);
	return found;
}

/* The permit also goes by the id it had before a crash. */
void
quota_alias_permit(uint32 index, int64 alias)
{
	LWLockAcquire(quota_shared->directory, LW_EXCLUSIVE);
	quota_permits[index].alias = alias;
	quota_shared->permit_aliases++;
	LWLockRelease(quota_shared->directory);
}

/* Back to the free list; the caller has unlinked and unpinned its parts. */
void
quota_free_permit(uint32 index)
{
	QuotaPermit *p = &quota_permits[index];

	LWLockAcquire(quota_shared->directory, LW_EXCLUSIVE);
	p->state = QUOTA_PERMIT_FREE;
	p->id = 0;
	if (p->alias != 0)
		quota_shared->permit_aliases--;
	p->alias = 0;
	p->chain_back = QUOTA_NO_INDEX;
	p->chain = quota_shared->permit_free;
	if (p->chain != QUOTA_NO_INDEX)
		quota_permits[p->chain].chain_back = index;
	quota_shared->permit_free = index;
	quota_shared->permits_used--;
	LWLockRelease(quota_shared->directory);
}
