/*
 * job_refresh.c
 *		Weights and classes in shared memory follow the configuration tables.
 *
 * A commit leaves marks on the slot (change.c): a list of tenants; one more in
 * stale_all, when weights of many may have changed; or in stale_rules, when only
 * classes, limits or prices have.  The next dequeue reads the rows again before it
 * picks.
 *
 * A mark stays until what it asks for has been applied: while it is there, every
 * session that picks reads the rows first, so that none goes by what was true
 * before a COMMIT that has returned, and a session that dies takes no mark with
 * it.  Several may read the same; that does no harm.  Names are copied in chunks
 * under the lock and read without it, with a latest snapshot.  What was read is
 * applied, and its mark removed, in one section under the lock, and only if
 * nothing has changed meanwhile: the change counters have not moved, stale_all
 * has not grown.  A commit moves them before it leaves marks, so what it changes
 * later is marked later.
 *
 * Rows that only this transaction sees count for nothing here.
 */
#include "job_refresh.h"

#include "catalog.h"
#include "change.h"
#include "flow.h"
#include "miscadmin.h"
#include "policy.h"
#include "shmem.h"

/* Tenants dealt with in one section under the lock, and places looked at. */
#define CHUNK 64
#define LOOK_AT 1024

/*
 * Rounds of one call that may come to nothing because the configuration changes
 * all the time; marks that are left then are for the next call.
 */
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

/* Copies what is needed without the lock; slot lock held. */
static void
copy_tenant(Stale *stale, uint32 index)
{
	stale->tenant = index;
	stale->key = quota_tenants[index].entry.key;
	strlcpy(stale->name, quota_tenants[index].name, QUOTA_NAME_LEN);
}

/* The first tenants of the slot's list. */
static int
copy_marked(uint32 slot, Stale *stale)
{
	QuotaSlot  *s = &quota_slots[slot];
	int			n = 0;

	LWLockAcquire(&s->lock, LW_SHARED);
	for (uint32 index = s->stale_tenants; n < CHUNK && index != QUOTA_NO_INDEX;
		 index = quota_tenants[index].stale_next)
		copy_tenant(&stale[n++], index);
	LWLockRelease(&s->lock);
	return n;
}

/* All tenants of the slot, in a new array; *n of them. */
static Stale *
copy_all(uint32 slot, int *n)
{
	Stale	   *stale = MemoryContextAllocHuge(CurrentMemoryContext,
											   sizeof(Stale) * (Size) quota_max_tenants);
	uint32		next = 0;

	*n = 0;
	while (next < (uint32) quota_max_tenants)
	{
		LWLockAcquire(&quota_slots[slot].lock, LW_SHARED);
		for (int i = 0; i < LOOK_AT && next < (uint32) quota_max_tenants; i++, next++)
			if (quota_owned(&quota_tenants[next].entry, slot))
				copy_tenant(&stale[(*n)++], next);
		LWLockRelease(&quota_slots[slot].lock);
	}
	return stale;
}

/* Reads the weights of the tenants; the counters first, the rows after. */
static void
read_weights(Stale *stale, int n, Oid extension, uint32 global)
{
	QuotaTenantWeight *weights = palloc(sizeof(QuotaTenantWeight) * (Size) n);
	uint64		global_number = change_count(global);

	for (int i = 0; i < n; i++)
	{
		stale[i].generation = change_tenant_generation(extension, stale[i].name);
		stale[i].number = change_count(stale[i].generation);
		stale[i].global_number = global_number;
		weights[i].tenant = stale[i].name;
	}
	pg_memory_barrier();
	quota_tenant_weights(weights, n);
	for (int i = 0; i < n; i++)
		stale[i].weight_milli = change_is_new(stale[i].name) ? 0
			: weights[i].weight_milli;
	pfree(weights);
}

/*
 * Applies what was read; if it may be old by now the tenant is marked instead.
 * True when that has made a mark superfluous.  Slot lock held.
 */
static bool
set_weight(uint32 slot, const Stale *stale, uint32 global)
{
	QuotaTenant *t = &quota_tenants[stale->tenant];
	bool		was_stale = t->stale;

	if (!t->entry.used || t->entry.owner != slot ||
		!quota_key_equal(&t->entry.key, &stale->key))
		return false;
	t->stale = change_count(stale->generation) != stale->number ||
		change_count(global) != stale->global_number;
	if (t->stale)
	{
		if (!was_stale)
		{
			t->stale_next = quota_slots[slot].stale_tenants;
			quota_slots[slot].stale_tenants = stale->tenant;
		}
		return false;
	}
	if (stale->weight_milli > 0)
		flow_set_weight(stale->tenant, stale->weight_milli);
	flow_unpark_tenant(stale->tenant);
	return was_stale;
}

/* Takes n tenants that are stale no more off the slot's list; lock held. */
static void
unlink_fresh(uint32 slot, int n)
{
	uint32	   *link = &quota_slots[slot].stale_tenants;

	while (n > 0 && *link != QUOTA_NO_INDEX)
	{
		QuotaTenant *t = &quota_tenants[*link];

		if (t->stale)
		{
			link = &t->stale_next;
			continue;
		}
		*link = t->stale_next;
		n--;
	}
}

/* Puts weights that were read into shared memory. */
static void
apply_weights(uint32 slot, const Stale *stale, int n, uint32 global)
{
	int			fresh = 0;

	quota_lock(&quota_slots[slot].lock);
	for (int i = 0; i < n; i++)
		fresh += set_weight(slot, &stale[i], global);
	unlink_fresh(slot, fresh);
	LWLockRelease(&quota_slots[slot].lock);
}

/* Reads the weights of the tenants and applies them, a chunk at a time. */
static void
refresh_tenants(uint32 slot, Stale *stale, int n)
{
	Oid			extension = quota_catalog()->extension;
	uint32		global = change_global_generation(extension);

	read_weights(stale, n, extension, global);
	for (int i = 0; i < n; i += CHUNK)
		apply_weights(slot, stale + i, Min(CHUNK, n - i), global);
}

/* Reads the rows of all classes of the slot; false when they may be old. */
static bool
refresh_classes(uint32 slot)
{
	QuotaSlot  *s = &quota_slots[slot];
	char		names[QUOTA_MAX_CLASSES][QUOTA_NAME_LEN];
	bool		found[QUOTA_MAX_CLASSES];
	QuotaClassRules rules[QUOTA_MAX_CLASSES];
	uint32		global = change_global_generation(quota_catalog()->extension);
	uint64		number = change_count(global);
	bool		current;

	LWLockAcquire(&s->lock, LW_SHARED);
	for (int i = 0; i < QUOTA_MAX_CLASSES; i++)
		strlcpy(names[i], s->classes[i].used ? s->classes[i].name : "",
				QUOTA_NAME_LEN);
	LWLockRelease(&s->lock);
	for (int i = 0; i < QUOTA_MAX_CLASSES; i++)
		found[i] = names[i][0] && quota_class_rules(names[i], &rules[i]);
	quota_lock(&s->lock);
	current = change_count(global) == number;
	for (int i = 0; i < QUOTA_MAX_CLASSES && current; i++)
		if (found[i] && s->classes[i].used &&
			strcmp(s->classes[i].name, names[i]) == 0)
			flow_set_class(slot, i, &rules[i]);
	LWLockRelease(&s->lock);
	return current;
}

/* What parked by the old configuration may run; "number" marks are dealt with. */
static void
refreshed(uint32 slot, uint64 *mark, uint64 number)
{
	quota_lock(&quota_slots[slot].lock);
	flow_unpark_all(slot);
	flow_open(slot);
	*mark = Max(*mark, number);
	LWLockRelease(&quota_slots[slot].lock);
}

/* A mark counter. */
static uint64
read_mark(uint32 slot, const uint64 *mark)
{
	uint64		number;

	LWLockAcquire(&quota_slots[slot].lock, LW_SHARED);
	number = *mark;
	LWLockRelease(&quota_slots[slot].lock);
	return number;
}

/* Everything that stale_rules has said so far. */
static void
refresh_rules(uint32 slot)
{
	QuotaSlot  *s = &quota_slots[slot];
	uint64		number = read_mark(slot, &s->stale_rules);

	if (refresh_classes(slot))
		refreshed(slot, &s->refreshed_rules, number);
}

/* Everything of the slot that stale_all has said so far. */
static void
refresh_all(uint32 slot)
{
	QuotaSlot  *s = &quota_slots[slot];
	uint64		number = read_mark(slot, &s->stale_all);
	Stale	   *stale;
	int			n;

	if (!refresh_classes(slot))
		return;
	stale = copy_all(slot, &n);
	refresh_tenants(slot, stale, n);
	pfree(stale);
	refreshed(slot, &s->refreshed, number);
}

/* See job_refresh.h. */
void
job_refresh(uint32 slot)
{
	QuotaSlot  *s = &quota_slots[slot];
	int			rounds = MAX_ROUNDS + quota_max_tenants / CHUNK;

	/* without the lock: a mark is set before the COMMIT that left it returns */
	for (int round = 0; round < rounds; round++)
	{
		Stale		stale[CHUNK];

		CHECK_FOR_INTERRUPTS();
		if (s->stale_all != s->refreshed)
			refresh_all(slot);
		else if (s->stale_rules != s->refreshed_rules)
			refresh_rules(slot);
		else if (s->stale_tenants != QUOTA_NO_INDEX)
			refresh_tenants(slot, stale, copy_marked(slot, stale));
		else
			return;
	}
}
