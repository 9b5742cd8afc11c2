/*
 * change.c
 *		Configuration changes of the open transaction: what must happen in
 *		shared memory when it commits, and what it may not do before.
 *
 * The triggers note changes in a list in TopTransactionContext.  Every entry
 * bears its subtransaction; those of one subtransaction and its committed
 * children are always at the end, so that rolling it back cuts a suffix.
 *
 * At COMMIT the rows are visible to new snapshots, and COMMIT has not returned
 * yet.  The callback first moves the change counters, then leaves marks for
 * the scheduler (slot->stale_all, slot->stale_tenants) under each slot's lock.
 * No mark can get lost: whoever puts a tenant with what its rows say into
 * shared memory holds the slot's lock and has seen under it that its plan is
 * current.  If that was before the counter moved, the callback gets the lock
 * later and finds the tenant; if it was after, the plan has seen our rows.
 *
 * Keys of tenants can't be hashed in the callback, since that may fail.  They
 * are hashed when a change is noted, for each slot of this database there was
 * at the transaction's first change.  A slot that came later, or more changes
 * than KEYED_CHANGES, get stale_all instead: more work, the same effect.
 * What is no tenant's own leaves stale_rules, or stale_all if weights hang on it.
 *
 * A change of rates finds every bucket with the rules of the change before it, or
 * with later ones: the transaction sees to that right before it commits (rules.c).
 *
 * Within the transaction its own rows count for what it loads from now on
 * (enqueue does that, decisions are refused), and never again once they are
 * rolled back: change_serial() moves with every change noted and undone.
 */
#include "change.h"

#include "access/xact.h"
#include "asker.h"
#include "catalog.h"
#include "error.h"
#include "key.h"
#include "miscadmin.h"
#include "rules.h"
#include "shmem.h"
#include "utils/memutils.h"
#include "waiter.h"

/* Tenants of one transaction that are marked one by one. */
#define KEYED_CHANGES		256

typedef struct Change
{
	SubTransactionId sub;
	int32		older;			/* with the same counter; -1 = none */
	uint16		generation;
	uint8		kind;			/* ChangeKind */
	bool		existing;		/* no decision for this tenant any more */
	uint8		rate;			/* ChangeRate */
	char	   *tenant;
	QuotaKey   *keys;			/* one for each of slots[], or NULL */
} Change;

/* A slot of this database when the first change was noted. */
typedef struct SeenSlot
{
	uint32		index;
	QuotaKey	key;
	char		provider[QUOTA_NAME_LEN];
} SeenSlot;

/* All in TopTransactionContext; NULL and 0 outside of it. */
static Change *changes = NULL;
static int	n_changes = 0;
static int	max_changes = 0;
static int32 *newest = NULL;	/* by counter: index into changes, or -1 */
static SeenSlot *slots = NULL;	/* by rising index */
static int	n_slots = 0;

static int	n_refusing = 0;		/* changes that is_refusing() */
static int	n_existing = 0;		/* changes of existing tenants */
static int	n_keyed = 0;
static int	n_rules = 0;		/* changes that is_rule() */
static int	n_rates = 0;		/* changes of rates */
static CommandId newest_command = 0;
static uint64 serial = 1;

/* ---- noting ---- */

/* Counts the slots of this database; directory lock held. */
static int
count_slots(void)
{
	int			n = 0;

	for (int i = 0; i < quota_max_providers; i++)
		n += quota_slots[i].entry.used &&
			quota_slots[i].database == MyDatabaseId;
	return n;
}

/* Remembers which slots there are. */
static void
see_slots(void)
{
	SeenSlot   *seen;
	int			room;
	int			n = 0;

	LWLockAcquire(quota_shared->directory, LW_SHARED);
	room = count_slots();
	LWLockRelease(quota_shared->directory);

	seen = MemoryContextAlloc(TopTransactionContext,
							  Max(room, 1) * sizeof(SeenSlot));
	LWLockAcquire(quota_shared->directory, LW_SHARED);
	for (int i = 0; i < quota_max_providers && n < room; i++)
	{
		if (!quota_slots[i].entry.used ||
			quota_slots[i].database != MyDatabaseId)
			continue;
		seen[n].index = i;
		seen[n].key = quota_slots[i].entry.key;
		strlcpy(seen[n].provider, quota_slots[i].provider, QUOTA_NAME_LEN);
		n++;
	}
	LWLockRelease(quota_shared->directory);
	slots = seen;
	n_slots = n;
}

/* Gets what the list needs: throws before anything is noted, or not at all. */
static void
make_room(void)
{
	if (newest == NULL)
	{
		int32	   *heads = MemoryContextAlloc(TopTransactionContext,
											   QUOTA_N_GENERATIONS * sizeof(int32));

		for (int i = 0; i < QUOTA_N_GENERATIONS; i++)
			heads[i] = -1;
		newest = heads;
	}
	if (slots == NULL)
		see_slots();
	if (changes == NULL)
	{
		changes = MemoryContextAlloc(TopTransactionContext,
									 64 * sizeof(Change));
		max_changes = 64;
	}
	else if (n_changes == max_changes)
	{
		changes = repalloc_huge(changes,
								(Size) max_changes * 2 * sizeof(Change));
		max_changes *= 2;
	}
}

/* The tenant's keys at all slots seen. */
static QuotaKey *
make_keys(Oid extension, const char *tenant)
{
	QuotaKey   *keys = MemoryContextAlloc(TopTransactionContext,
										  Max(n_slots, 1) * sizeof(QuotaKey));

	for (int i = 0; i < n_slots; i++)
	{
		const char *parts[] = {slots[i].provider, tenant};

		keys[i] = quota_key(MyDatabaseId, extension, QUOTA_SPACE_TENANT,
							lengthof(parts), parts);
	}
	return keys;
}

/* Same tenant, or both for everybody? */
static bool
same_subject(const Change *c, ChangeKind kind, const char *tenant)
{
	if (c->kind != kind)
		return false;
	return tenant == NULL || strcmp(c->tenant, tenant) == 0;
}

/* A statement over many rows repeats itself: merge with the newest entry. */
static bool
merge_note(ChangeKind kind, const char *tenant, bool existing,
		   ChangeRate rate)
{
	Change	   *c = n_changes > 0 ? &changes[n_changes - 1] : NULL;

	if (c == NULL || c->sub != GetCurrentSubTransactionId() ||
		!same_subject(c, kind, tenant))
		return false;
	n_rates += c->rate == CHANGE_NO_RATE && rate != CHANGE_NO_RATE;
	c->rate = Max(c->rate, rate);
	if (existing && !c->existing)
	{
		c->existing = true;
		n_existing++;
	}
	return true;
}

/* No decision any more in this transaction. */
static bool
is_refusing(ChangeKind kind)
{
	return kind == CHANGE_GLOBAL || kind == CHANGE_WEIGHTS;
}

/* It is no tenant's, and no weights hang on it: it leaves stale_rules. */
static bool
is_rule(const Change *c)
{
	return c->tenant == NULL && c->kind != CHANGE_WEIGHTS;
}

/* See change.h. */
void
change_note(ChangeKind kind, const char *tenant, bool existing,
			ChangeRate rate)
{
	Oid			extension = quota_catalog()->extension;
	Change		c;

	serial++;
	newest_command = GetCurrentCommandId(false);
	if (merge_note(kind, tenant, existing, rate))
		return;

	make_room();
	memset(&c, 0, sizeof(c));
	c.sub = GetCurrentSubTransactionId();
	c.kind = kind;
	c.existing = existing;
	c.rate = rate;
	c.generation = tenant ? change_tenant_generation(extension, tenant)
		: change_global_generation(extension);
	if (tenant)
		c.tenant = MemoryContextStrdup(TopTransactionContext, tenant);
	if (tenant && n_keyed < KEYED_CHANGES)
		c.keys = make_keys(extension, tenant);
	c.older = newest[c.generation];

	/* nothing throws from here on */
	newest[c.generation] = n_changes;
	changes[n_changes++] = c;
	n_refusing += is_refusing(kind);
	n_existing += existing;
	n_keyed += c.keys != NULL;
	n_rules += is_rule(&c);
	n_rates += c.rate != CHANGE_NO_RATE;
}

/* Takes the newest entry off the list. */
static void
pop_change(void)
{
	Change	   *c = &changes[--n_changes];

	newest[c->generation] = c->older;
	n_refusing -= is_refusing(c->kind);
	n_existing -= c->existing;
	n_keyed -= c->keys != NULL;
	n_rules -= is_rule(c);
	n_rates -= c->rate != CHANGE_NO_RATE;
}

/* ---- asking ---- */

/* The newest change of the tenant for which "existing" is as given. */
static const Change *
find_change(const char *tenant, bool existing)
{
	int32		i;

	if (n_changes == 0)
		return NULL;
	i = newest[change_tenant_generation(quota_catalog()->extension, tenant)];
	for (; i >= 0; i = changes[i].older)
	{
		if (changes[i].existing == existing &&
			(existing || changes[i].kind == CHANGE_TENANT_NEW) &&
			strcmp(changes[i].tenant, tenant) == 0)
			return &changes[i];
	}
	return NULL;
}

/* See change.h. */
bool
change_is_new(const char *tenant)
{
	return find_change(tenant, false) != NULL;
}

/*
 * May this transaction decide for the tenant, or, if NULL, for whichever
 * tenant's turn it is?  55000 if it changed what the decision depends on.
 */
void
quota_change_check_decide(const char *tenant)
{
	if (n_refusing > 0)
		quota_error_commit_first("the configuration");
	if (n_existing == 0)
		return;
	if (tenant == NULL)
		quota_error_commit_first("existing tenants");
	if (find_change(tenant, true))
		quota_error_commit_first(psprintf("tenant \"%s\"", tenant));
}

/* Did this transaction change any configuration? */
bool
quota_change_pending(void)
{
	return n_changes > 0;
}

/* See change.h. */
uint64
change_serial(void)
{
	return serial;
}

/*
 * See change.h.  Rows of a command that is still running can't be seen yet, so
 * nothing loaded meanwhile may be kept: 0 is no serial.
 */
uint64
change_load_serial(void)
{
	if (n_changes > 0 && GetCurrentCommandId(false) <= newest_command)
		return 0;
	return serial;
}

/* ---- callbacks: from here on nothing allocates or throws ---- */

/* The transaction is over; its memory goes by itself. */
static void
forget_changes(void)
{
	if (n_changes > 0)
		serial++;
	changes = NULL;
	n_changes = max_changes = 0;
	newest = NULL;
	slots = NULL;
	n_slots = 0;
	n_refusing = n_existing = n_keyed = n_rules = n_rates = 0;
}

/* Moves the change counters.  A full barrier each. */
static void
move_counters(void)
{
	uint64		now_ns = (uint64) quota_now_ns();

	for (int i = 0; i < n_changes; i++)
	{
		QuotaGeneration *g = &quota_shared->generations[changes[i].generation];

		if (changes[i].rate == CHANGE_RATE_DROPPED)
			pg_atomic_write_u64(&g->deleted_ns, now_ns);
		pg_atomic_fetch_add_u64(&g->number, 1);
	}
}

/* Puts a tenant on its slot's list; the slot's lock is held. */
static void
mark_tenant(uint32 slot, const QuotaKey *key)
{
	uint32		index = quota_find_tenant(key, slot);

	if (index == QUOTA_NO_INDEX || quota_tenants[index].stale)
		return;
	quota_tenants[index].stale = true;
	quota_tenants[index].stale_next = quota_slots[slot].stale_tenants;
	quota_slots[slot].stale_tenants = index;
}

/* Marks of one slot; seen is its place in slots[], -1 when it is newer. */
static void
mark_slot(uint32 slot, int seen)
{
	quota_lock(&quota_slots[slot].lock);
	if (n_keyed + n_rules < n_changes || seen < 0 ||
		!quota_key_equal(&quota_slots[slot].entry.key, &slots[seen].key))
		quota_slots[slot].stale_all++;
	else
	{
		if (n_rules > 0)
			quota_slots[slot].stale_rules++;
		for (int i = 0; i < n_changes; i++)
			if (changes[i].keys)
				mark_tenant(slot, &changes[i].keys[seen]);
	}
	waiter_wake(slot);
	asker_call_roll(slot);
	LWLockRelease(&quota_slots[slot].lock);
}

/*
 * Marks of all slots of this database.  A slot that is just being made may be
 * missed: there is nothing in it yet that could be stale.
 */
static void
mark_slots(void)
{
	int			seen = 0;

	for (int i = 0; i < quota_max_providers; i++)
	{
		bool		known;

		while (seen < n_slots && slots[seen].index < i)
			seen++;
		known = seen < n_slots && slots[seen].index == i;
		if (quota_slots[i].entry.used &&
			quota_slots[i].database == MyDatabaseId)
			mark_slot(i, known ? seen : -1);
	}
}

/* Before the commit, where it may still fail. */
void
quota_change_before_commit(void)
{
	if (n_rates > 0)
		rules_before_change();
}

/* COMMIT callback. */
void
quota_change_commit(void)
{
	if (n_changes > 0)
	{
		move_counters();
		mark_slots();
	}
	forget_changes();
}

/* ABORT callback. */
void
quota_change_abort(void)
{
	forget_changes();
}

/* A subtransaction rolls back: its changes never were. */
void
quota_change_subabort(SubTransactionId sub)
{
	while (n_changes > 0 && changes[n_changes - 1].sub == sub)
	{
		pop_change();
		serial++;
	}
}

/* A subtransaction is part of its parent now. */
void
quota_change_subcommit(SubTransactionId sub, SubTransactionId parent)
{
	for (int i = n_changes - 1; i >= 0 && changes[i].sub == sub; i--)
		changes[i].sub = parent;
}
