/*
 * job_refresh.c
 *		Weights and ranks in shared memory follow the configuration tables.
 *
 * A commit leaves marks on the slot (change.c): a list of tenants, or stale_all.
 * The next dequeue takes a mark away first and reads the rows afterwards, with a
 * latest snapshot; so a commit in between leaves a new mark, and nothing gets
 * lost.  Names are copied in chunks under the lock and read without it; what was
 * read is used only if the change counters have not moved meanwhile, so that it
 * can't overwrite what a later reader has put there.
 */
#include "job_refresh.h"

#include "catalog.h"
#include "change.h"
#include "flow.h"
#include "miscadmin.h"
#include "policy.h"
#include "shmem.h"

#define CHUNK 64

/* Rounds of one call; marks that are left then are for the next one. */
#define MAX_ROUNDS 1000

typedef struct Stale
{
	uint32		tenant;
	QuotaKey	key;
	char		name[QUOTA_NAME_LEN];
	uint32		generation;
	uint64		number;			/* of the tenant's counter before reading */
	uint64		global_number;
	int64		weight_milli;
} Stale;

/* How often what this counter stands for has changed. */
static uint64
counter(uint32 generation)
{
	return pg_atomic_read_u64(&quota_shared->generations[generation].number);
}

/* Copies what is needed without the lock; slot lock held. */
static void
copy_tenant(Stale *stale, uint32 index)
{
	stale->tenant = index;
	stale->key = quota_tenants[index].entry.key;
	strlcpy(stale->name, quota_tenants[index].name, QUOTA_NAME_LEN);
}

/* Takes tenants off the slot's list. */
static int
take_marked(uint32 slot, Stale *stale)
{
	QuotaSlot  *s = &quota_slots[slot];
	int			n = 0;

	LWLockAcquire(&s->lock, LW_EXCLUSIVE);
	while (n < CHUNK && s->stale_tenants != QUOTA_NO_INDEX)
	{
		uint32		index = s->stale_tenants;

		s->stale_tenants = quota_tenants[index].stale_next;
		quota_tenants[index].stale = false;
		copy_tenant(&stale[n++], index);
	}
	LWLockRelease(&s->lock);
	return n;
}

/* Tenants of the slot from *next on, which is moved. */
static int
take_any(uint32 slot, Stale *stale, uint32 *next)
{
	int			n = 0;

	LWLockAcquire(&quota_slots[slot].lock, LW_EXCLUSIVE);
	for (; n < CHUNK && *next < (uint32) quota_max_tenants; (*next)++)
	{
		const QuotaEntry *entry = &quota_tenants[*next].entry;

		if (entry->used && entry->owner == slot)
			copy_tenant(&stale[n++], *next);
	}
	LWLockRelease(&quota_slots[slot].lock);
	return n;
}

/* Reads the tenant's weight. */
static void
read_weight(Stale *stale, Oid extension, uint32 global)
{
	stale->generation = change_tenant_generation(extension, stale->name);
	stale->number = counter(stale->generation);
	stale->global_number = counter(global);
	pg_memory_barrier();
	stale->weight_milli = quota_tenant_weight(stale->name);
}

/* Uses what was read, or marks the tenant again; slot lock held. */
static void
set_weight(uint32 slot, const Stale *stale, uint32 global)
{
	QuotaTenant *t = &quota_tenants[stale->tenant];

	if (!t->entry.used || t->entry.owner != slot ||
		!quota_key_equal(&t->entry.key, &stale->key))
		return;
	if (counter(stale->generation) == stale->number &&
		counter(global) == stale->global_number)
	{
		if (stale->weight_milli > 0)
			flow_set_weight(slot, stale->tenant, stale->weight_milli);
		flow_unpark_tenant(slot, stale->tenant);
	}
	else if (!t->stale)
	{
		t->stale = true;
		t->stale_next = quota_slots[slot].stale_tenants;
		quota_slots[slot].stale_tenants = stale->tenant;
	}
}

/* Reads the weights of the tenants and puts them into shared memory. */
static void
refresh_tenants(uint32 slot, Stale *stale, int n)
{
	Oid			extension = quota_catalog()->extension;
	uint32		global = change_global_generation(extension);

	for (int i = 0; i < n; i++)
		read_weight(&stale[i], extension, global);
	LWLockAcquire(&quota_slots[slot].lock, LW_EXCLUSIVE);
	for (int i = 0; i < n; i++)
		set_weight(slot, &stale[i], global);
	LWLockRelease(&quota_slots[slot].lock);
}

/* Reads the ranks of all classes of the slot. */
static void
refresh_classes(uint32 slot)
{
	QuotaSlot  *s = &quota_slots[slot];
	char		names[QUOTA_MAX_CLASSES][QUOTA_NAME_LEN];
	int			ranks[QUOTA_MAX_CLASSES];
	uint32		global = change_global_generation(quota_catalog()->extension);
	uint64		number = counter(global);

	LWLockAcquire(&s->lock, LW_EXCLUSIVE);
	for (int i = 0; i < QUOTA_MAX_CLASSES; i++)
		strlcpy(names[i], s->classes[i].used ? s->classes[i].name : "",
				QUOTA_NAME_LEN);
	LWLockRelease(&s->lock);
	for (int i = 0; i < QUOTA_MAX_CLASSES; i++)
		ranks[i] = names[i][0] ? quota_class_rank(names[i]) : -1;
	LWLockAcquire(&s->lock, LW_EXCLUSIVE);
	s->stale_all |= counter(global) != number;
	for (int i = 0; i < QUOTA_MAX_CLASSES && !s->stale_all; i++)
		if (ranks[i] >= 0 && strcmp(s->classes[i].name, names[i]) == 0)
			flow_set_rank(slot, i, ranks[i]);
	LWLockRelease(&s->lock);
}

/* Everything of the slot. */
static void
refresh_all(uint32 slot)
{
	Stale		stale[CHUNK];
	uint32		next = 0;
	int			n;

	refresh_classes(slot);
	while ((n = take_any(slot, stale, &next)) > 0)
		refresh_tenants(slot, stale, n);
	LWLockAcquire(&quota_slots[slot].lock, LW_EXCLUSIVE);
	flow_unpark_all(slot);
	LWLockRelease(&quota_slots[slot].lock);
}

/* Takes away stale_all; was it set? */
static bool
take_stale_all(uint32 slot)
{
	QuotaSlot  *s = &quota_slots[slot];
	bool		was;

	LWLockAcquire(&s->lock, LW_EXCLUSIVE);
	was = s->stale_all;
	s->stale_all = false;
	LWLockRelease(&s->lock);
	return was;
}

/* See job_refresh.h. */
void
job_refresh(uint32 slot)
{
	QuotaSlot  *s = &quota_slots[slot];
	Stale		stale[CHUNK];
	int			n = 1;

	/* a mark is set before the COMMIT that left it returns */
	if (!s->stale_all && s->stale_tenants == QUOTA_NO_INDEX)
		return;
	PG_TRY();
	{
		if (take_stale_all(slot))
			refresh_all(slot);
		for (int round = 0; n > 0 && round < MAX_ROUNDS; round++)
		{
			CHECK_FOR_INTERRUPTS();
			n = take_marked(slot, stale);
			refresh_tenants(slot, stale, n);
		}
	}
	PG_CATCH();
	{
		/* cancelled half way: what was taken away is as stale as before */
		LWLockAcquire(&s->lock, LW_EXCLUSIVE);
		s->stale_all = true;
		LWLockRelease(&s->lock);
		PG_RE_THROW();
	}
	PG_END_TRY();
}
