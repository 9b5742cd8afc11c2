/*
 * job_flow.c
 *		Flows for those who write rows of jobs: the flow of some names, what it is
 *		to learn, and when a row is due.
 */
#include "job.h"

#include "catalog.h"
#include "job_known.h"
#include "miscadmin.h"

/* Scheduled jobs are looked at again after this, be it just to be sure. */
#define SCHEDULED_RECHECK_US USECS_PER_DAY

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

/* The flow of these names; see known_lock(). */
uint32
job_lock_flow(const JobNames *names, uint32 *slot)
{
	KnownFlow  *known = known_flow_of(names);
	uint32		flow = known_lock(known);

	*slot = known->slot;
	return flow;
}

/* See job.h. */
void
job_names_of_flow(uint32 flow, JobNames *names)
{
	const QuotaFlow *f = &quota_flows[flow];
	const QuotaShare *share = share_of(f);
	const QuotaSlot *slot = slot_of(f);

	memset(names, 0, sizeof(*names));
	strlcpy(names->provider, slot->provider, QUOTA_NAME_LEN);
	strlcpy(names->tenant, tenant_of(share)->name, QUOTA_NAME_LEN);
	strlcpy(names->endpoint, f->endpoint, QUOTA_NAME_LEN);
	strlcpy(names->class_name, slot->classes[share->class_index].name,
			QUOTA_NAME_LEN);
	names->hash = f->hash;
}

/* Notes what the flow of these names will learn.  No lock held; throws. */
void
job_note(const JobNames *names, const JournalNote *note)
{
	job_note_ended(names, note, -1);
}

/*
 * The same at the end of an attempt that took so long (below 0: nobody knows),
 * which is remembered whether this transaction commits or not.
 */
void
job_note_ended(const JobNames *names, const JournalNote *note,
			   int64 latency_ns)
{
	uint32		slot;
	uint32		flow;

	journal_reserve(1);
	flow = job_lock_flow(names, &slot);
	journal_note(flow, note);
	if (latency_ns >= 0)
		latency_add(&quota_slots[slot].latency, latency_ns);
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
