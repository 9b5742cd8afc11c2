/*
 * policy_cache.c
 *		The backend's copy of the configuration: all rules, and the tenants met.
 *
 * Each is kept with the change counters it was loaded under and with the
 * serial of this transaction's own changes (change.h), and is valid while none
 * of them has moved.  Counters are read before the snapshot is taken, so what
 * is loaded is at least as new as they say.  Nothing here is shared; cached
 * things are replaced only when somebody asks, never in a callback.
 *
 * The cache belongs to one extension OID: after DROP and CREATE EXTENSION it
 * starts anew.
 */
#include "policy_cache.h"

#include "catalog.h"
#include "change.h"
#include "config.h"
#include "utils/memutils.h"

/* Tenants one backend keeps. */
#define MAX_TENANTS 16384

/* What was loaded without rows of this transaction; no serial gets that far. */
#define COMMITTED_SERIAL PG_UINT64_MAX

static MemoryContext cache_context = NULL;	/* of everything below */
static Oid	cache_extension = InvalidOid;
static uint32 cache_generation; /* counter of what concerns everybody in it */
static PolicyRules *cached_rules = NULL;
static HTAB *cached_tenants = NULL;

/* ---- the cache as a whole ---- */

/* An empty cache of tenants. */
static HTAB *
make_tenant_cache(void)
{
	HASHCTL		ctl;

	ctl.keysize = QUOTA_NAME_LEN;
	ctl.entrysize = sizeof(CachedTenant);
	ctl.hcxt = cache_context;
	return hash_create("quota tenants", 64, &ctl,
					   HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
}

/* Starts anew, for this extension. */
static void
reset_cache(Oid extension)
{
	cache_extension = InvalidOid;
	cached_rules = NULL;
	cached_tenants = NULL;
	if (cache_context == NULL)
		cache_context = AllocSetContextCreate(CacheMemoryContext,
											  "quota policy",
											  ALLOCSET_DEFAULT_SIZES);
	else
		MemoryContextReset(cache_context);
	cached_tenants = make_tenant_cache();
	cache_generation = change_global_generation(extension);
	cache_extension = extension;
}

/* Our extension, with a cache that belongs to it.  Throws 55000 without one. */
static Oid
current_extension(void)
{
	Oid			extension = quota_catalog()->extension;

	if (extension != cache_extension)
		reset_cache(extension);
	return extension;
}

/* ---- what of this transaction counts ---- */

/* See policy.h. */
bool
quota_policy_committed(bool only)
{
	bool		before = policy_committed_only;

	policy_committed_only = only;
	return before;
}

/* See policy_cache.h. */
uint64
policy_serial(void)
{
	return policy_committed_only ? COMMITTED_SERIAL : change_serial();
}

/* The same for rows that are to be loaded now. */
static uint64
load_serial(void)
{
	return policy_committed_only ? COMMITTED_SERIAL : change_load_serial();
}

/* ---- rules and tenants ---- */

/* See policy_cache.h. */
const PolicyRules *
policy_rules(void)
{
	Oid			extension = current_extension();
	uint64		number = change_count(cache_generation);
	uint64		serial;
	PolicyRules *old = cached_rules;

	if (old && old->number == number && old->serial == policy_serial())
		return old;

	pg_memory_barrier();		/* the counter first, the rows after */
	serial = load_serial();
	cached_rules = policy_load_rules(cache_context);
	cached_rules->extension = extension;
	cached_rules->number = number;
	cached_rules->serial = serial;
	if (old)
		MemoryContextDelete(old->context);
	return cached_rules;
}

/* Place for a tenant in the cache; an overfull cache is emptied first. */
static CachedTenant *
enter_tenant(const PolicyRules *rules, const char *name)
{
	CachedTenant *c;
	bool		found;

	if (hash_get_num_entries(cached_tenants) >= MAX_TENANTS &&
		!hash_search(cached_tenants, name, HASH_FIND, NULL))
	{
		HASH_SEQ_STATUS status;

		hash_seq_init(&status, cached_tenants);
		while ((c = hash_seq_search(&status)) != NULL)
		{
			if (c->tenant.context)
				MemoryContextDelete(c->tenant.context);
		}
		hash_destroy(cached_tenants);
		cache_extension = InvalidOid;	/* should the next line fail */
		cached_tenants = make_tenant_cache();
		cache_extension = rules->extension;
	}
	c = hash_search(cached_tenants, name, HASH_ENTER, &found);
	if (!found)
	{
		c->serial = 0;
		c->tenant.context = NULL;
	}
	return c;
}

/* See policy_cache.h. */
const CachedTenant *
policy_tenant(const PolicyRules *rules, const char *name)
{
	uint64		number = change_count(change_tenant_generation(rules->extension,
																	name));
	CachedTenant *c = enter_tenant(rules, name);
	uint64		serial;

	if (c->serial == policy_serial() && c->number == number &&
		c->global_number == rules->number)
		return c;

	pg_memory_barrier();
	serial = load_serial();
	c->serial = 0;				/* should loading fail */
	if (c->tenant.context)
		MemoryContextDelete(c->tenant.context);
	c->tenant.context = NULL;
	policy_load_tenant(cache_context, name, &c->tenant);
	c->number = number;
	c->global_number = rules->number;
	c->serial = serial;
	return c;
}

/* See policy_cache.h. */
const void *
policy_find(HTAB *table, const char *name)
{
	if (strlen(name) >= QUOTA_NAME_LEN)
		return NULL;
	return hash_search(table, name, HASH_FIND, NULL);
}

/* ---- single facts ---- */

/* See policy.h. */
int64
quota_tenant_weight(const char *tenant)
{
	const PolicyRules *rules = policy_rules();
	const PolicyTenant *t;
	const PolicyTier *tier;

	if (strlen(tenant) >= QUOTA_NAME_LEN)
		return 0;
	t = &policy_tenant(rules, tenant)->tenant;
	if (!t->exists)
		return 0;
	if (t->weight_milli > 0)
		return t->weight_milli;
	tier = policy_find(rules->tiers, t->tier);
	return tier ? tier->weight_milli : 1000;
}

/* See policy.h. */
bool
quota_class_rules(const char *class_name, QuotaClassRules *rules)
{
	const PolicyClass *c = policy_find(policy_rules()->classes, class_name);

	if (c == NULL)
		return false;
	rules->rank = c->rank;
	rules->reserve_milli = (int) c->reserve_milli;
	rules->max_wait_ns = c->max_wait_ns;
	return true;
}

/* See policy.h. */
QuotaSettleRules
quota_settle_rules(const char *provider, const char *limit_name)
{
	QuotaSettleRules found = {SETTLE_DEBT, false};
	const PolicyRules *rules = policy_rules();
	const PolicyProvider *p = provider ? policy_find(rules->providers, provider) : NULL;
	const List *limits = provider == NULL ? rules->across : p ? p->limits : NIL;
	ListCell   *cell;

	foreach(cell, limits)
	{
		const PolicyLimit *limit = lfirst(cell);

		if (strcmp(limit->name, limit_name) != 0)
			continue;
		found.over = limit->settle_over;
		found.late_charges = limit->late_charges;
	}
	return found;
}

/* See policy.h. */
bool
quota_tenant_exists(const char *tenant)
{
	const PolicyRules *rules = policy_rules();

	return (strlen(tenant) < QUOTA_NAME_LEN &&
			policy_tenant(rules, tenant)->tenant.exists) ||
		!config_any_row(QUOTA_REL_TENANTS);
}

/* See policy.h. */
bool
quota_provider_exists(const char *provider)
{
	const PolicyRules *rules = policy_rules();

	return policy_find(rules->providers, provider) ||
		hash_get_num_entries(rules->providers) == 0;
}
