/*
 * shed.c
 *		What full queues have refused; see shed.h.
 */
#include "shed.h"

#include "event.h"
#include "miscadmin.h"
#include "worker.h"

/* An event of one tenant and provider at most so often. */
#define SHED_EVENT_NS (60 * QUOTA_NS_PER_S)

/* Tells what no event has told.  Slot lock held. */
static void
tell(QuotaTenant *tenant, int64 now_ns)
{
	const QuotaSlot *slot = slot_of(tenant);
	char		detail[256];

	snprintf(detail, sizeof(detail),
			 "class %s: limit of the %s is " INT64_FORMAT "; " INT64_FORMAT
			 " refused since the last such event",
			 slot->classes[tenant->shed_class].name, tenant->shed_limit,
			 tenant->shed_most, tenant->shed_untold);
	quota_event(slot->database, "shed", slot->provider, tenant->name, detail);
	tenant->shed_told_ns = now_ns;
	tenant->shed_untold = 0;
}

/* When an event may tell of the tenant. */
static int64
due_ns(const QuotaTenant *tenant)
{
	return tenant->shed_told_ns == 0 ? 0 : tenant->shed_told_ns + SHED_EVENT_NS;
}

/* See shed.h. */
void
shed_note(uint32 flow, const PlaceRefusal *refusal, int64 now_ns)
{
	const QuotaShare *share = share_of(&quota_flows[flow]);
	QuotaTenant *tenant = tenant_of(share);
	const QuotaSlot *slot = slot_of(tenant);

	tenant->shed++;
	tenant->shed_untold++;
	tenant->shed_class = share->class_index;
	tenant->shed_most = refusal->most;
	strlcpy(tenant->shed_limit, refusal->limit_name, sizeof(tenant->shed_limit));
	if (due_ns(tenant) <= now_ns)
		tell(tenant, now_ns);
	else if (tenant->shed_untold == 1 && slot->database_slot != QUOTA_NO_INDEX)
		quota_work_due(slot->database_slot, due_ns(tenant));
}

/* See shed.h. */
bool
shed_needs(const QuotaShare *share)
{
	const QuotaTenant *tenant = tenant_of(share);

	return tenant->shed_untold > 0 && tenant->shed_class == share->class_index;
}

/* See shed.h. */
int64
shed_tell(Oid database, int64 now_ns)
{
	int64		next_ns = QUOTA_NEVER;

	for (uint32 i = 0; i < (uint32) quota_max_tenants; i++)
	{
		QuotaTenant *tenant = &quota_tenants[i];
		uint32		owner = tenant->entry.owner;
		QuotaSlot  *slot;

		/* who refuses a job after this look asks for us again */
		if (!tenant->entry.used || tenant->shed_untold == 0 ||
			owner >= (uint32) quota_max_providers)
			continue;
		slot = &quota_slots[owner];
		quota_lock(&slot->lock);
		if (quota_owned(&tenant->entry, owner) && slot->database == database &&
			tenant->shed_untold > 0)
		{
			if (due_ns(tenant) <= now_ns)
				tell(tenant, now_ns);
			else
				next_ns = Min(next_ns, due_ns(tenant));
		}
		LWLockRelease(&slot->lock);
	}
	return next_ns;
}

/* See shed.h. */
void
shed_tell_all(void)
{
	for (int i = 0; i < quota_max_tenants; i++)
		if (quota_tenants[i].entry.used && quota_tenants[i].shed_untold > 0)
			tell(&quota_tenants[i], quota_now_ns());
}
