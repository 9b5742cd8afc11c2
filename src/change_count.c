/*
 * change_count.c
 *		The change counters: how often configuration has changed, and whether what
 *		was made of it is still current.
 *
 * quota_shared->generations is an array of atomic counters, hashed by database and
 * tenant, so two of them may share one: then more is read again than has changed.
 * There is no lock.  change.c moves them at COMMIT, before it leaves its marks.
 */
#include "change.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "shmem.h"

/* Counters before this one are for what concerns all tenants of a database. */
#define GLOBAL_GENERATIONS	64

/* See change.h. */
uint32
change_global_generation(Oid extension)
{
	return hash_combine(murmurhash32(MyDatabaseId), murmurhash32(extension)) %
		GLOBAL_GENERATIONS;
}

/* See change.h. */
uint32
change_tenant_generation(Oid extension, const char *tenant)
{
	uint32		hash = hash_bytes((const unsigned char *) tenant,
								  strlen(tenant));

	hash = hash_combine(hash, murmurhash32(MyDatabaseId));
	hash = hash_combine(hash, murmurhash32(extension));
	return GLOBAL_GENERATIONS +
		hash % (QUOTA_N_GENERATIONS - GLOBAL_GENERATIONS);
}

/* See change.h. */
uint64
change_count(uint32 generation)
{
	return pg_atomic_read_u64(&quota_shared->generations[generation].number);
}

/* See change.h. */
QuotaStamp
change_stamp(Oid extension, const char *tenant, uint64 global_number,
			 uint64 tenant_number)
{
	QuotaStamp	stamp = {
		.global_number = global_number,.tenant_number = tenant_number,
		.global = change_global_generation(extension),
		.tenant = change_tenant_generation(extension, tenant)
	};

	return stamp;
}

/* See stamp.h. */
bool
quota_stamp_is_current(const QuotaStamp *stamp)
{
	return change_count(stamp->global) == stamp->global_number &&
		(stamp->tenant == QUOTA_NO_INDEX ||
		 change_count(stamp->tenant) == stamp->tenant_number);
}
