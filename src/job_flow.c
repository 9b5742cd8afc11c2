/*
 * job_flow.c
 *		From the names in a job row to its flow in shared memory.
 *
 * Writers of rows don't need a plan: they may run while their own transaction
 * has changed the configuration, and for tenants that don't exist yet (restore).
 * So they find or create the flow by names alone; flow_get() marks a tenant or
 * class that is new as stale, and the next dequeue reads its weight and rank.
 */
#include "job.h"

#include "catalog.h"
#include "flow.h"
#include "miscadmin.h"

/* Scheduled jobs are looked at again after this, be it just to be sure. */
#define SCHEDULED_RECHECK_US USECS_PER_DAY

/* Where the flow of the last names was; a bulk load asks for it every row. */
typedef struct FlowPlace
{
	bool		valid;
	Oid			extension;
	JobNames	names;
	uint32		slot;
	QuotaKey	slot_key;
	uint32		flow;
	QuotaPlan	plan;			/* names and keys only */
} FlowPlace;

static FlowPlace last;

/* The slot of this database.  Throws 53400 when all slots are used. */
uint32
job_database_slot(void)
{
	static uint32 index = QUOTA_NO_INDEX;
	static QuotaKey key;
	static Oid	extension;
	Oid			current = quota_catalog()->extension;

	if (index == QUOTA_NO_INDEX || extension != current ||
		!quota_key_equal(&quota_slots[index].entry.key, &key))
	{
		index = quota_slot(MyDatabaseId, current, "");
		key = quota_slots[index].entry.key;
		extension = current;
	}
	return index;
}

/* Compares the hash first: it nearly always tells. */
static bool
names_equal(const JobNames *a, const JobNames *b)
{
	return a->hash == b->hash && strcmp(a->tenant, b->tenant) == 0 &&
		strcmp(a->class_name, b->class_name) == 0 &&
		strcmp(a->endpoint, b->endpoint) == 0 &&
		strcmp(a->provider, b->provider) == 0;
}

/* Fills "last" for these names.  Throws. */
static void
resolve(const JobNames *names)
{
	Oid			extension = quota_catalog()->extension;
	QuotaPlan  *plan = &last.plan;

	if (last.valid && last.extension == extension &&
		names_equal(&last.names, names) &&
		quota_key_equal(&quota_slots[last.slot].entry.key, &last.slot_key))
		return;
	last.valid = false;
	last.names = *names;
	last.extension = extension;
	last.slot = quota_slot(MyDatabaseId, extension, last.names.provider);
	last.slot_key = quota_slots[last.slot].entry.key;
	last.flow = QUOTA_NO_INDEX;

	memset(plan, 0, sizeof(*plan));
	plan->tenant = last.names.tenant;
	plan->provider = last.names.provider;
	plan->class_name = last.names.class_name;
	plan->endpoint = last.names.endpoint[0] ? last.names.endpoint : NULL;
	plan->extension = extension;
	plan->slot = last.slot;
	plan->tenant_index = QUOTA_NO_INDEX;
	plan->weight_milli = 1000;
	quota_plan_identify(plan);
	last.valid = true;
}

/* The flow of "last", found or created; slot lock held. */
static uint32
find_flow(void)
{
	if (last.flow < (uint32) quota_max_flows)
	{
		const QuotaEntry *entry = &quota_flows[last.flow].entry;

		if (entry->used && entry->owner == last.slot &&
			quota_key_equal(&entry->key, &last.plan.flow_key))
			return last.flow;
	}
	last.flow = flow_get(last.slot, &last.plan, last.names.hash);
	return last.flow;
}

/* 53400: jobs of too many classes are unfinished */
static void
error_classes_full(const char *provider)
{
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("no room for another work class of provider \"%s\"", provider),
			 errdetail("Jobs of %d classes are unfinished.", QUOTA_MAX_CLASSES),
			 errhint("Finish or cancel the jobs of classes that are no longer in quota.classes.")));
}

/*
 * The flow of these names, created when it is new; *slot's lock is held on
 * return.  Throws 53400 when a table is full.
 */
uint32
job_lock_flow(const JobNames *names, uint32 *slot)
{
	bool		class_room = true;

	resolve(names);
	*slot = last.slot;
	for (int attempt = 0; attempt < 2; attempt++)
	{
		uint32		flow;

		LWLockAcquire(&quota_slots[last.slot].lock, LW_EXCLUSIVE);
		flow = find_flow();
		if (flow != QUOTA_NO_INDEX)
			return flow;
		class_room = flow_has_class_room(last.slot, &last.plan);
		LWLockRelease(&quota_slots[last.slot].lock);
		if (!quota_reclaim())
			break;
	}
	if (!class_room)
		error_classes_full(names->provider);
	quota_table_full("flow", "quota.max_flows", quota_max_flows);
}

/* Notes what the flow of these names will learn.  No lock held; throws. */
void
job_note(const JobNames *names, const JournalNote *note)
{
	uint32		slot;
	uint32		flow;

	journal_reserve(1);
	flow = job_lock_flow(names, &slot);
	journal_note(flow, note);
	LWLockRelease(&quota_slots[slot].lock);
}

/* When to look at a row of quota.leases, in quota clock; now_ns = it is due. */
int64
job_due_ns(char lease_state, TimestampTz ready_at, int64 now_ns,
		   TimestampTz wall_us)
{
	if (lease_state != LEASE_SCHEDULED)
		return Max(quota_ns_of_steady(ready_at), now_ns);
	if (ready_at <= wall_us)
		return now_ns;
	return now_ns + QUOTA_NS_PER_US * Min(ready_at - wall_us,
										  SCHEDULED_RECHECK_US);
}
