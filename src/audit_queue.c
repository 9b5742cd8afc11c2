/*
 * audit_queue.c
 *		The part of quota_audit() that compares counts of unfinished jobs: of flows
 *		with the rows, of tenants and providers with their flows.
 *
 * Others work meanwhile.  A flow is compared only if no open transaction has it in
 * its journal, neither before the snapshot that shows the rows nor after they were
 * read, and if nobody has counted anything in it in between (QuotaFlow.counted).
 * Then every transaction that has written rows of it had told it before the first
 * look, and is shown by the snapshot, or has not committed when the snapshot was
 * taken.  So a difference is a drift, and a busy flow is left to the next audit.
 *
 * What tenants and providers count changes with their flows, in one section under
 * the slot's lock.
 *
 * While the queue is being counted after a start there is nothing to compare.
 */
#include "audit.h"

#include "access/table.h"
#include "catalog.h"
#include "job_sums.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* A flow at the first look. */
typedef struct Seen
{
	uint32		flow;
	uint32		slot;
	QuotaKey	key;
	uint64		counted;
} Seen;

/* One row of the result. */
static void
report(ReturnSetInfo *result, const char *provider, const char *tenant,
	   const char *detail, int64 expected, int64 actual)
{
	Datum		values[N_AUDIT] = {0};
	bool		nulls[N_AUDIT] = {false};

	values[AUDIT_PROBLEM] = CStringGetTextDatum("counter differs");
	values[AUDIT_PROVIDER] = CStringGetTextDatum(provider);
	nulls[AUDIT_LIMIT_NAME] = true;
	nulls[AUDIT_TENANT] = tenant == NULL;
	if (tenant)
		values[AUDIT_TENANT] = CStringGetTextDatum(tenant);
	nulls[AUDIT_PERMIT] = true;
	values[AUDIT_DETAIL] = CStringGetTextDatum(detail);
	values[AUDIT_EXPECTED] = Int64GetDatum(expected);
	values[AUDIT_ACTUAL] = Int64GetDatum(actual);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/* The slot is a provider's of this database; lock held. */
static bool
is_provider(const QuotaSlot *slot)
{
	return slot->entry.used && slot->database == MyDatabaseId &&
		slot->extension == quota_catalog()->extension &&
		slot->provider[0] != '\0';
}

/* ---- tenants and providers ---- */

/* What the slot's flows add up to: in all, and by tenant (which was 0); lock held. */
static int64
add_up(uint32 slot, int64 *by_tenant)
{
	int64		sum = 0;

	for (uint32 i = 0; i < (uint32) quota_max_flows; i++)
	{
		const QuotaFlow *flow = &quota_flows[i];

		if (!quota_owned(&flow->entry, slot))
			continue;
		by_tenant[share_of(flow)->tenant] += flow->depth + flow->in_flight;
		sum += flow->depth + flow->in_flight;
	}
	return sum;
}

/* A tenant whose count is wrong. */
typedef struct Wrong
{
	char		tenant[QUOTA_NAME_LEN];
	int64		expected;
	int64		actual;
} Wrong;

/* The first one; false when there is none.  Sets what was added up to 0; lock held. */
static bool
find_wrong(uint32 slot, int64 *by_tenant, Wrong *wrong)
{
	bool		found = false;

	for (uint32 i = 0; i < (uint32) quota_max_tenants; i++)
	{
		const QuotaTenant *tenant = &quota_tenants[i];

		if (!found && quota_owned(&tenant->entry, slot) &&
			tenant->places.unfinished != by_tenant[i])
		{
			strlcpy(wrong->tenant, tenant->name, sizeof(wrong->tenant));
			wrong->expected = by_tenant[i];
			wrong->actual = tenant->places.unfinished;
			found = true;
		}
		by_tenant[i] = 0;
	}
	return found;
}

/* Compares what tenants and providers count with their flows. */
static void
check_places(ReturnSetInfo *result)
{
	int64	   *by_tenant = MemoryContextAllocExtended(CurrentMemoryContext,
													   sizeof(int64) * (Size) quota_max_tenants,
													   MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);

	for (uint32 i = 0; i < (uint32) quota_max_providers; i++)
	{
		QuotaSlot  *slot = &quota_slots[i];
		bool		wrong_tenant = false;
		Wrong		wrong;
		int64		sum = 0;
		int64		unfinished = 0;
		char		provider[QUOTA_NAME_LEN];

		LWLockAcquire(&slot->lock, LW_SHARED);
		if (is_provider(slot))
		{
			sum = add_up(i, by_tenant);
			unfinished = slot->places.unfinished;
			wrong_tenant = find_wrong(i, by_tenant, &wrong);
			strlcpy(provider, slot->provider, sizeof(provider));
		}
		LWLockRelease(&slot->lock);
		if (sum != unfinished)
			report(result, provider, NULL,
				   "unfinished jobs of the provider differ from those of its flows",
				   sum, unfinished);
		if (wrong_tenant)
			report(result, provider, wrong.tenant,
				   "unfinished jobs of the tenant differ from those of its flows",
				   wrong.expected, wrong.actual);
		CHECK_FOR_INTERRUPTS();
	}
	pfree(by_tenant);
}

/* ---- flows ---- */

/* No open transaction has anything of the flow; lock held. */
static bool
is_quiet(QuotaFlow *flow)
{
	return pg_atomic_read_u32(&flow->pins) == 0;
}

/* Notes all flows of providers of this database that are quiet; how many. */
static int
look(Seen *seen)
{
	int			n = 0;

	for (uint32 i = 0; i < (uint32) quota_max_flows; i++)
	{
		QuotaFlow  *flow = &quota_flows[i];
		uint32		owner = flow->entry.owner;

		if (!flow->entry.used || owner >= (uint32) quota_max_providers)
			continue;
		LWLockAcquire(&quota_slots[owner].lock, LW_SHARED);
		if (quota_owned(&flow->entry, owner) && is_provider(&quota_slots[owner]) &&
			is_quiet(flow))
		{
			seen[n].flow = i;
			seen[n].slot = owner;
			seen[n].key = flow->entry.key;
			seen[n++].counted = flow->counted;
		}
		LWLockRelease(&quota_slots[owner].lock);
		CHECK_FOR_INTERRUPTS();
	}
	return n;
}

/* Compares a flow, if nothing has happened to it since. */
static void
compare(ReturnSetInfo *result, const Seen *seen, JobSums *sums)
{
	QuotaFlow  *flow = &quota_flows[seen->flow];
	JobNames	names;
	FlowSum    *sum;
	int64		depth = 0;
	int64		in_flight = 0;
	bool		same;

	LWLockAcquire(&quota_slots[seen->slot].lock, LW_SHARED);
	same = quota_owned(&flow->entry, seen->slot) &&
		quota_key_equal(&flow->entry.key, &seen->key) &&
		is_quiet(flow) && flow->counted == seen->counted;
	if (same)
	{
		job_names_of_flow(seen->flow, &names);
		depth = flow->depth;
		in_flight = flow->in_flight;
	}
	LWLockRelease(&quota_slots[seen->slot].lock);
	if (!same)
		return;
	sum = sums_of_names(sums, &names);
	if (sum->rows.depth != depth)
		report(result, names.provider, names.tenant,
			   psprintf("jobs that wait differ from the rows; class \"%s\", endpoint \"%s\"",
						names.class_name, names.endpoint),
			   sum->rows.depth, depth);
	if (sum->rows.in_flight != in_flight)
		report(result, names.provider, names.tenant,
			   psprintf("jobs in flight differ from the rows; class \"%s\", endpoint \"%s\"",
						names.class_name, names.endpoint),
			   sum->rows.in_flight, in_flight);
}

/* Compares flows with the rows of quota.jobs. */
static void
check_flows(ReturnSetInfo *result)
{
	Relation	jobs = table_open(quota_relation(QUOTA_REL_JOBS), AccessShareLock);
	Seen	   *seen = MemoryContextAllocHuge(CurrentMemoryContext,
											  sizeof(Seen) * (Size) quota_max_flows);
	int			n = look(seen);
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	JobSums		sums;

	sums_init(&sums);
	sums_read(&sums, jobs, snapshot);
	UnregisterSnapshot(snapshot);
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		compare(result, &seen[i], &sums);
	}
	hash_destroy(sums.flows);
	pfree(seen);
	table_close(jobs, AccessShareLock);
}

/* See audit.h. */
void
audit_queue(ReturnSetInfo *result)
{
	if (!flow_queue_is_counted(job_database_slot()))
		return;
	check_places(result);
	check_flows(result);
}
