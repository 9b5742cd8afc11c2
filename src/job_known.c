/*
 * job_known.c
 *		From the names in a job row to its hash, its rules and its flow in shared
 *		memory.
 *
 * Writers of rows don't need a plan: they may run while their own transaction
 * has changed the configuration, and for tenants that don't exist yet (restore).
 * So they find or create the flow by names alone; flow_get() marks a tenant or
 * class that is new as stale, and the next dequeue reads its weight and rank.
 *
 * The cache is a table of fixed size.  A flow may be in one of WAYS places next to
 * each other; a new one that finds them all taken replaces the last.  What is
 * cached says itself whether it is still good: the rules by the change counters,
 * the place in shared memory by its key.
 */
#include "job_known.h"

#include "catalog.h"
#include "common/hashfn.h"
#include "error.h"
#include "flow.h"
#include "key.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#define TABLE_SIZE	16384		/* a power of 2 */
#define WAYS		4

static KnownFlow **table;
static KnownFlow *newest;		/* answered last */

/* ---- finding ---- */

/* Hash of all names. */
static uint32
hash_parts(const NamePart parts[N_PARTS])
{
	uint32		hash = 0;

	for (int i = 0; i < N_PARTS; i++)
		hash = hash_combine(hash,
							hash_bytes((const unsigned char *) parts[i].bytes,
									   parts[i].length));
	return hash;
}

/* The terminated name is this one. */
static inline bool
is_name(const char *name, const NamePart *part)
{
	return memcmp(name, part->bytes, part->length) == 0 &&
		name[part->length] == '\0';
}

/* It is the flow of these names. */
static bool
has_names(const KnownFlow *known, const NamePart parts[N_PARTS])
{
	return known->met && is_name(known->names.tenant, &parts[PART_TENANT]) &&
		is_name(known->names.class_name, &parts[PART_CLASS]) &&
		is_name(known->names.endpoint, &parts[PART_ENDPOINT]) &&
		is_name(known->names.provider, &parts[PART_PROVIDER]);
}

/* Copies a name. */
static void
copy_part(char *name, const NamePart *part)
{
	memcpy(name, part->bytes, part->length);
	name[part->length] = '\0';
}

/* Fills the place with a flow that has not been met.  Throws, and leaves it then. */
static void
meet(KnownFlow *known, const NamePart parts[N_PARTS], uint32 hash)
{
	JobNames	names;

	memset(&names, 0, sizeof(names));
	copy_part(names.tenant, &parts[PART_TENANT]);
	copy_part(names.provider, &parts[PART_PROVIDER]);
	copy_part(names.endpoint, &parts[PART_ENDPOINT]);
	copy_part(names.class_name, &parts[PART_CLASS]);
	names.hash = quota_flow_hash(names.provider, names.tenant, names.class_name,
								 names.endpoint[0] ? names.endpoint : NULL);
	memset(known, 0, sizeof(*known));
	known->names = names;
	known->name_hash = hash;
	known->met = true;
}

/* See job_known.h. */
KnownFlow *
known_flow(const NamePart parts[N_PARTS])
{
	uint32		hash;
	KnownFlow **place;

	if (newest && has_names(newest, parts))
		return newest;
	if (table == NULL)
		table = MemoryContextAllocZero(TopMemoryContext,
									   TABLE_SIZE * sizeof(KnownFlow *));
	hash = hash_parts(parts);
	for (int way = 0; way < WAYS; way++)
	{
		place = &table[(hash + way) % TABLE_SIZE];
		if (*place == NULL)
			break;
		if ((*place)->name_hash == hash && has_names(*place, parts))
			return newest = *place;
	}
	if (*place == NULL)
		*place = MemoryContextAllocZero(TopMemoryContext, sizeof(KnownFlow));
	meet(*place, parts, hash);
	return newest = *place;
}

/* See job_known.h. */
KnownFlow *
known_flow_of(const JobNames *names)
{
	const char *const strings[N_PARTS] = {
		[PART_TENANT] = names->tenant,
		[PART_PROVIDER] = names->provider,
		[PART_ENDPOINT] = names->endpoint,
		[PART_CLASS] = names->class_name
	};
	NamePart	parts[N_PARTS];

	for (int i = 0; i < N_PARTS; i++)
	{
		parts[i].bytes = strings[i];
		parts[i].length = (int) strlen(strings[i]);
	}
	return known_flow(parts);
}

/* ---- rules ---- */

/* See job_known.h. */
const QuotaJobRules *
known_rules(KnownFlow *known)
{
	if (!quota_job_rules_are_current(&known->rules))
		quota_job_rules(known->names.tenant, known->names.provider,
						known->names.class_name, &known->rules);
	return &known->rules;
}

/* ---- shared memory ---- */

/* Fills in the keys and the slot.  Throws. */
static void
identify(KnownFlow *known)
{
	Oid			extension = quota_catalog()->extension;
	QuotaPlan  *plan = &known->plan;

	if (known->identified && known->extension == extension &&
		quota_key_equal(&quota_slots[known->slot].entry.key, &known->slot_key))
		return;
	known->identified = false;
	known->extension = extension;
	known->database_slot = job_database_slot();
	known->slot = quota_slot(MyDatabaseId, extension, known->names.provider);
	known->slot_key = quota_slots[known->slot].entry.key;
	known->flow = QUOTA_NO_INDEX;

	memset(plan, 0, sizeof(*plan));
	plan->tenant = known->names.tenant;
	plan->provider = known->names.provider;
	plan->class_name = known->names.class_name;
	plan->endpoint = known->names.endpoint[0] ? known->names.endpoint : NULL;
	plan->extension = extension;
	plan->slot = known->slot;
	plan->tenant_index = QUOTA_NO_INDEX;
	plan->weight_milli = 1000;
	quota_plan_identify_known(plan);
	known->identified = true;
}

/* Finds or creates the flow; slot lock held. */
static uint32
find_flow(KnownFlow *known)
{
	if (known->flow < (uint32) quota_max_flows)
	{
		const QuotaEntry *entry = &quota_flows[known->flow].entry;

		if (quota_owned(entry, known->slot) &&
			quota_key_equal(&entry->key, &known->plan.flow_key))
			return known->flow;
	}
	quota_slots[known->slot].database_slot = known->database_slot;
	known->flow = flow_get(known->slot, &known->plan, known->names.hash);
	return known->flow;
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

/* See job_known.h. */
uint32
known_lock(KnownFlow *known)
{
	bool		class_room = true;

	identify(known);
	for (int attempt = 0; attempt < 2; attempt++)
	{
		uint32		flow;

		quota_lock(&quota_slots[known->slot].lock);
		flow = find_flow(known);
		if (flow != QUOTA_NO_INDEX)
			return flow;
		class_room = flow_has_class_room(known->slot, &known->plan);
		LWLockRelease(&quota_slots[known->slot].lock);
		if (!quota_reclaim())
			break;
	}
	if (!class_room)
		error_classes_full(known->names.provider);
	quota_table_full("flow", "quota.max_flows", quota_max_flows);
}
