/*
 * sweep.c
 *		Frees what shared memory holds of databases and extensions that are gone.
 *
 * Nothing tells the library of a DROP: objects of a dropped database just stay,
 * keyed by an OID nobody will use, until their room is wanted.  Whoever finds
 * that the owner is gone calls quota_sweep().
 *
 * A slot is freed as a whole or not at all: only when no transaction that is
 * still open has anything of it in its journal.  A dropped database has none; an
 * extension may be dropped by one session while another is in the middle of a
 * transaction.  As the whole slot goes, heaps are not taken apart but reset.
 *
 * Each slot is checked and freed under its lock.  The database's slot goes before
 * those of its providers, and if it cannot, they stay as well.
 */
#include "postgres.h"

#include "asker.h"
#include "catalog/pg_extension.h"
#include "commands/extension.h"
#include "event.h"
#include "seen.h"
#include "flow.h"
#include "miscadmin.h"
#include "pause.h"
#include "permit.h"
#include "storage/lock.h"
#include "utils/syscache.h"
#include "waiter.h"
#include "worker.h"

/* Does an open transaction still need anything of the slot?  Lock held. */
static bool
in_use(uint32 slot)
{
	for (int i = 0; i < quota_max_permits; i++)
		if (quota_permits[i].state != QUOTA_PERMIT_FREE &&
			quota_permits[i].owner == slot)
			return true;
	for (int i = 0; i < quota_max_buckets; i++)
		if (quota_owned(&quota_buckets[i].entry, slot) &&
			pg_atomic_read_u32(&quota_buckets[i].pins) > 0)
			return true;
	for (int i = 0; i < quota_max_flows; i++)
		if (quota_owned(&quota_flows[i].entry, slot) &&
			pg_atomic_read_u32(&quota_flows[i].pins) > 0)
			return true;
	for (int i = 0; i < quota_max_flows; i++)
		if (quota_owned(&quota_shares[i].entry, slot) &&
			pg_atomic_read_u32(&quota_shares[i].pins) > 0)
			return true;
	return quota_slots[slot].queue_load == QUOTA_LOAD_LOADING ||
		quota_slots[slot].counting ||
		(quota_slots[slot].worker_pid != 0 &&
		 quota_slots[slot].worker_pid != MyProcPid);
}

/* Removes all objects of the slot; lock held, nothing is in use. */
static void
remove_objects(uint32 slot)
{
	for (int i = 0; i < quota_max_flows; i++)
		if (quota_owned(&quota_flows[i].entry, slot))
			quota_remove_flow((uint32) i);
	for (int i = 0; i < quota_max_flows; i++)
		if (quota_owned(&quota_lines[i].entry, slot))
			quota_remove_line((uint32) i);
	for (int i = 0; i < quota_max_flows; i++)
		if (quota_owned(&quota_shares[i].entry, slot))
			quota_remove_share((uint32) i);
	for (int i = 0; i < quota_max_buckets; i++)
		if (quota_owned(&quota_buckets[i].entry, slot))
			quota_drop_bucket((uint32) i);
	for (int i = 0; i < quota_max_tenants; i++)
		if (quota_owned(&quota_tenants[i].entry, slot))
			quota_remove_tenant((uint32) i);
	pause_sweep(slot);
	flow_slot_init(slot);
	quota_slots[slot].stale_tenants = QUOTA_NO_INDEX;
}

/* The steps of a sweep, in this order. */
typedef enum Step
{
	END_PERMITS,				/* they pin buckets of the database's slot */
	SWEEP_DATABASE,				/* its buckets pin tenants of providers */
	SWEEP_PROVIDERS
} Step;

/* One step for one slot; false when it is in use. */
static bool
sweep_slot(uint32 index, Step step)
{
	bool		is_database = quota_slots[index].provider[0] == '\0';

	if (step == END_PERMITS)
	{
		/* the time of every permit that no transaction holds up is over */
		permit_expire(index, QUOTA_NEVER);
		/* flows that wait pin buckets, of the database's slot too */
		flow_unpark_all(index);
		flow_open(index);
		return true;
	}
	if (is_database != (step == SWEEP_DATABASE))
		return true;
	if (in_use(index))
		return false;
	waiter_dismiss(index);
	asker_dismiss(index);
	remove_objects(index);
	quota_remove_slot(index);
	return true;
}

/* See worker.h. */
bool
quota_sweep(Oid database, Oid extension)
{
	bool		all = true;

	for (Step step = END_PERMITS; step <= SWEEP_PROVIDERS && all; step++)
		for (int i = 0; i < quota_max_providers; i++)
		{
			QuotaSlot  *slot = &quota_slots[i];

			if (!slot->entry.used || slot->database != database)
				continue;
			quota_lock(&slot->lock);
			if (slot->entry.used && slot->database == database &&
				(!OidIsValid(extension) || slot->extension == extension))
				all = sweep_slot((uint32) i, step) && all;
			LWLockRelease(&slot->lock);
			across_tell();
		}
	if (all && !OidIsValid(extension))
	{
		quota_events_forget(database);
		seen_forget(database);
	}
	return all;
}

/*
 * Was the extension of this database dropped, and is that final?  As long as this
 * session's own DROP may roll back, the session has its lock.
 */
static bool
extension_is_gone(Oid extension)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, ExtensionRelationId, extension, 0);
	return get_extension_oid("quota", true) != extension &&
		!compat_lock_held_by_me(&tag, AccessExclusiveLock);
}

/*
 * Whose is the slot, if it belongs to a database or extension that does not exist
 * any more?  May throw.
 */
static bool
slot_is_gone(uint32 index, Oid *database, Oid *extension)
{
	QuotaSlot  *slot = &quota_slots[index];

	LWLockAcquire(&slot->lock, LW_SHARED);
	*database = slot->entry.used ? slot->database : InvalidOid;
	*extension = slot->extension;
	LWLockRelease(&slot->lock);
	if (!OidIsValid(*database))
		return false;
	if (*database == MyDatabaseId)
		return extension_is_gone(*extension);
	return !SearchSysCacheExists1(DATABASEOID, ObjectIdGetDatum(*database));
}

/* See worker.h. */
bool
quota_sweep_gone(void)
{
	uint32		used = quota_shared->slot_table.n_used;
	bool		swept = false;

	for (int i = 0; i < quota_max_providers; i++)
	{
		Oid			database;
		Oid			extension;

		if (quota_slots[i].entry.used &&
			slot_is_gone((uint32) i, &database, &extension))
			swept = quota_sweep(database, extension) || swept;
	}
	/* one slot may be in use while others of the same extension went */
	return swept || quota_shared->slot_table.n_used < used;
}
