/*
 * policy_load.c
 *		Reads rows of the configuration tables into the structures of
 *		policy_load.h.
 *
 * All rules are read together, under one snapshot: there are few of them, and
 * they change seldom.  Tenants are many and are read one at a time.  Rows that
 * don't belong together (a limit of a provider without a row, an override of a
 * tier without one) are skipped: there are no foreign keys.
 */
#include "policy_load.h"

#include "config.h"
#include "policy_amount.h"
#include "policy_answer.h"
#include "policy_limit.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

bool		policy_committed_only = false;

/* An empty hash table whose entries start with a name. */
static HTAB *
name_table(const char *what, Size entry_size, MemoryContext context)
{
	HASHCTL		ctl;

	ctl.keysize = QUOTA_NAME_LEN;
	ctl.entrysize = entry_size;
	ctl.hcxt = context;
	return hash_create(what, 32, &ctl, HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
}

/* The override of a limit, NULL if there is none. */
const PolicyOverride *
policy_find_override(const List *overrides, const PolicyLimit *limit)
{
	ListCell   *lc;

	foreach(lc, overrides)
	{
		const PolicyOverride *o = lfirst(lc);

		if (strcmp(o->name, limit->name) == 0 &&
			config_same_name(o->provider, limit->provider))
			return o;
	}
	return NULL;
}

/* What is committed now, and what this transaction has done, if that counts. */
static Snapshot
latest_snapshot(void)
{
	Snapshot	snapshot = GetLatestSnapshot();

	/* before its first command */
	if (policy_committed_only)
		snapshot->curcid = FirstCommandId;
	return RegisterSnapshot(snapshot);
}

/* ---- rows ---- */

/* An interval, 0 for NULL. */
static int64
span_ns(const ConfigScan *scan, int column)
{
	return scan->nulls[column - 1] ? 0 : config_interval_ns(scan, column);
}

/* A row of quota.providers. */
static void
read_provider(PolicyRules *rules, const ConfigScan *scan)
{
	PolicyProvider *p;

	p = hash_search(rules->providers, config_text(scan, PROVIDERS_PROVIDER),
					HASH_ENTER, NULL);
	p->account = config_text(scan, PROVIDERS_ACCOUNT);
	if (p->account == NULL)
		p->account = p->name;
	p->safety = config_numeric(scan, PROVIDERS_SAFETY);
	p->share_unit = config_text(scan, PROVIDERS_SHARE_UNIT);
	p->retry_base_ns = config_interval_ns(scan, PROVIDERS_RETRY_BASE);
	p->retry_max_ns = config_interval_ns(scan, PROVIDERS_RETRY_MAX);
	p->lease_ns = config_interval_ns(scan, PROVIDERS_LEASE);
	p->max_queued = config_int32(scan, PROVIDERS_MAX_QUEUED, -1);
	p->max_attempts = config_int32(scan, PROVIDERS_MAX_ATTEMPTS, 1);
	p->notify_channel = config_text(scan, PROVIDERS_NOTIFY_CHANNEL);
	rules->notifies |= p->notify_channel != NULL;
	p->burst_milli = policy_times_1000(config_numeric(scan, PROVIDERS_BURST_MULTIPLIER), 2000);
	p->share_reserve_milli = policy_times_1000(config_numeric(scan, PROVIDERS_SHARE_RESERVE), 500);
	p->active_window_ns = span_ns(scan, PROVIDERS_ACTIVE_WINDOW);
	p->retry_share_milli = policy_times_1000(config_numeric(scan, PROVIDERS_RETRY_SHARE), -1);
	p->retry_floor = config_int32(scan, PROVIDERS_RETRY_FLOOR, 1);
	p->cooldown_ns = config_interval_ns(scan, PROVIDERS_COOLDOWN);
	p->lost_refunds = strcmp(config_text(scan, PROVIDERS_LOST_PERMIT),
							 "refund") == 0;
	p->young = config_is_young(scan, PROVIDERS_CREATED_EPOCH);
	p->changed_ns = config_changed_ns(scan, PROVIDERS_CHANGED_EPOCH);
	p->remade_ns = config_remade_ns(scan, PROVIDERS_CHANGED_EPOCH);
	p->limits = NIL;
	p->costs = NIL;
	p->breakers = NIL;
	p->learns = false;
}

/* A row of quota.tiers. */
static void
read_tier(PolicyRules *rules, const ConfigScan *scan)
{
	PolicyTier *t;

	t = hash_search(rules->tiers, config_text(scan, TIERS_TIER),
					HASH_ENTER, NULL);
	t->weight_milli = policy_times_1000(config_numeric(scan, TIERS_WEIGHT), 1000);
	t->max_in_flight = config_int32(scan, TIERS_MAX_IN_FLIGHT, -1);
	t->max_queued = config_int32(scan, TIERS_MAX_QUEUED, -1);
	t->overrides = NIL;
}

/* A row of quota.classes. */
static void
read_class(PolicyRules *rules, const ConfigScan *scan)
{
	PolicyClass *c;

	c = hash_search(rules->classes, config_text(scan, CLASSES_CLASS),
					HASH_ENTER, NULL);
	c->rank = config_int32(scan, CLASSES_RANK, 0);
	c->reserve_milli = policy_times_1000(config_numeric(scan, CLASSES_RESERVE), 0);
	c->max_fill_milli = policy_times_1000(config_numeric(scan, CLASSES_MAX_FILL), 1000);
	c->fails_exhausted = strcmp(config_text(scan, CLASSES_ON_EXHAUSTED), "fail") == 0;
	c->headroom_milli = policy_times_1000(config_numeric(scan, CLASSES_HEADROOM), 0);
	c->max_wait_ns = span_ns(scan, CLASSES_MAX_WAIT);
	c->start_within_ns = span_ns(scan, CLASSES_START_WITHIN);
	c->retry_base_ns = span_ns(scan, CLASSES_RETRY_BASE);
	c->retry_max_ns = span_ns(scan, CLASSES_RETRY_MAX);
	c->max_attempts = config_int32(scan, CLASSES_MAX_ATTEMPTS, 0);
}

/* A row of quota.costs. */
static void
read_cost(PolicyRules *rules, const ConfigScan *scan)
{
	PolicyProvider *p;
	PolicyCost *c;

	p = hash_search(rules->providers, config_text(scan, COSTS_PROVIDER),
					HASH_FIND, NULL);
	if (p == NULL)
		return;
	c = palloc(sizeof(PolicyCost));
	c->endpoint = config_text(scan, COSTS_ENDPOINT);
	c->unit = config_text(scan, COSTS_UNIT);
	c->cost = config_int64(scan, COSTS_COST, 0);
	p->costs = lappend(p->costs, c);
}

/* A row of quota.breakers. */
static void
read_breaker(PolicyRules *rules, const ConfigScan *scan)
{
	PolicyProvider *p = hash_search(rules->providers,
									config_text(scan, BREAKERS_PROVIDER),
									HASH_FIND, NULL);
	PolicyBreaker *b;

	if (p == NULL)
		return;
	b = palloc0(sizeof(PolicyBreaker));
	b->endpoint = config_text(scan, BREAKERS_ENDPOINT);
	b->name = b->endpoint ? psprintf("breaker %s", b->endpoint) : "breaker";
	b->rules.window_ns = config_interval_ns(scan, BREAKERS_WINDOW_TIME);
	b->rules.open_ns = config_interval_ns(scan, BREAKERS_OPEN_TIME);
	b->rules.probe_ns = config_interval_ns(scan, BREAKERS_PROBE_TIMEOUT);
	b->rules.failure_milli =
		(int32) policy_times_1000(config_numeric(scan, BREAKERS_FAILURE_RATIO), 1000);
	b->rules.min_calls = config_int32(scan, BREAKERS_MIN_CALLS, 1);
	b->rules.window_calls = config_int32(scan, BREAKERS_WINDOW_CALLS, 0);
	b->rules.probes = config_int32(scan, BREAKERS_PROBES, 1);
	p->breakers = lappend(p->breakers, b);
	p->learns = true;
}

/* A row of tier_limits or tenant_limits. */
static PolicyOverride *
read_override(const ConfigScan *scan)
{
	PolicyOverride *o = palloc(sizeof(PolicyOverride));

	o->provider = config_text(scan, OVERRIDES_PROVIDER);
	o->name = config_text(scan, OVERRIDES_NAME);
	o->amount = config_numeric(scan, OVERRIDES_AMOUNT);
	o->multiplier = config_numeric(scan, OVERRIDES_MULTIPLIER);
	o->burst = config_int64(scan, OVERRIDES_BURST, -1);
	o->exempt = o->amount == NULL && o->multiplier == NULL && o->burst < 0;
	o->changed_ns = config_changed_ns(scan, OVERRIDES_CHANGED_EPOCH);
	return o;
}

/* Remembers at its limit that somebody is exempt. */
static void
note_exempt(PolicyRules *rules, const PolicyOverride *o)
{
	List	   *limits = rules->across;
	ListCell   *lc;

	if (o->provider)
	{
		PolicyProvider *p = hash_search(rules->providers, o->provider,
										HASH_FIND, NULL);

		limits = p ? p->limits : NIL;
	}
	foreach(lc, limits)
	{
		PolicyLimit *l = lfirst(lc);

		if (strcmp(l->name, o->name) == 0)
			l->has_exempt = true;
	}
}

/* A row of quota.tier_limits. */
static void
read_tier_limit(PolicyRules *rules, const ConfigScan *scan)
{
	PolicyOverride *o = read_override(scan);
	PolicyTier *t = hash_search(rules->tiers,
								config_text(scan, OVERRIDES_OWNER),
								HASH_FIND, NULL);

	if (t == NULL)
		return;
	t->overrides = lappend(t->overrides, o);
	if (o->exempt)
		note_exempt(rules, o);
}

/* A row of quota.tenant_limits that exempts. */
static void
read_tenant_exempt(PolicyRules *rules, const ConfigScan *scan)
{
	note_exempt(rules, read_override(scan));
}

/* ---- whole tables ---- */

typedef void (*RowReader) (PolicyRules *rules, const ConfigScan *scan);

/* Gives every row of a table, or of an index of it, to the reader. */
static void
read_all(PolicyRules *rules, QuotaRelation rel, QuotaRelation index,
		 Snapshot snapshot, RowReader reader)
{
	ConfigScan	scan;

	config_scan_begin(&scan, rel, index, NULL, snapshot);
	while (config_scan_next(&scan))
		reader(rules, &scan);
	config_scan_end(&scan);
}

/* Limits come after providers, overrides after limits. */
static void
read_tables(PolicyRules *rules, Snapshot snapshot)
{
	const QuotaRelation none = QUOTA_N_RELATIONS;

	read_all(rules, QUOTA_REL_CLASSES, none, snapshot, read_class);
	read_all(rules, QUOTA_REL_TIERS, none, snapshot, read_tier);
	read_all(rules, QUOTA_REL_PROVIDERS, none, snapshot, read_provider);
	read_all(rules, QUOTA_REL_LIMITS, none, snapshot, policy_read_limit);
	read_all(rules, QUOTA_REL_COSTS, none, snapshot, read_cost);
	read_all(rules, QUOTA_REL_ANSWERS, none, snapshot, policy_read_answer);
	read_all(rules, QUOTA_REL_BREAKERS, none, snapshot, read_breaker);
	read_all(rules, QUOTA_REL_TIER_LIMITS, none, snapshot, read_tier_limit);
	read_all(rules, QUOTA_REL_TENANT_LIMITS, QUOTA_REL_TENANT_LIMITS_EXEMPT,
			 snapshot, read_tenant_exempt);
}

/*
 * All rules.  The result is in a context of its own below parent, which it
 * joins only when complete: an error leaves nothing behind.  The caller fills
 * in what identifies it.
 */
PolicyRules *
policy_load_rules(MemoryContext parent)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "quota rules",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(context);
	Snapshot	snapshot = latest_snapshot();
	PolicyRules *rules = palloc0(sizeof(PolicyRules));

	rules->context = context;
	rules->providers = name_table("quota providers", sizeof(PolicyProvider),
								  context);
	rules->tiers = name_table("quota tiers", sizeof(PolicyTier), context);
	rules->classes = name_table("quota classes", sizeof(PolicyClass), context);
	read_tables(rules, snapshot);

	UnregisterSnapshot(snapshot);
	MemoryContextSwitchTo(caller);
	MemoryContextSetParent(context, parent);
	return rules;
}

/* ---- one tenant ---- */

/* A row of quota.tenants. */
static void
read_tenant(PolicyTenant *t, const ConfigScan *scan)
{
	t->exists = true;
	t->suspended = config_bool(scan, TENANTS_SUSPENDED, false);
	t->young = config_is_young(scan, TENANTS_CREATED_EPOCH);
	strlcpy(t->tier, config_text(scan, TENANTS_TIER), QUOTA_NAME_LEN);
	t->seats = config_int32(scan, TENANTS_SEATS, 1);
	t->weight_milli = policy_times_1000(config_numeric(scan, TENANTS_WEIGHT), -1);
	t->max_in_flight = config_int32(scan, TENANTS_MAX_IN_FLIGHT, -1);
	t->max_queued = config_int32(scan, TENANTS_MAX_QUEUED, -1);
	t->changed_ns = config_changed_ns(scan, TENANTS_CHANGED_EPOCH);
	t->remade_ns = config_remade_ns(scan, TENANTS_CHANGED_EPOCH);
}

/* Reads the tenant's overrides into a context of their own. */
static void
read_tenant_limits(PolicyTenant *t, const char *name, Snapshot snapshot)
{
	ConfigScan	scan;

	config_scan_begin(&scan, QUOTA_REL_TENANT_LIMITS,
					  QUOTA_REL_TENANT_LIMITS_KEY, name, snapshot);
	while (config_scan_next(&scan))
	{
		MemoryContext caller;

		if (t->context == NULL)
			t->context = AllocSetContextCreate(CurrentMemoryContext,
											   "quota tenant",
											   ALLOCSET_SMALL_SIZES);
		caller = MemoryContextSwitchTo(t->context);
		t->overrides = lappend(t->overrides, read_override(&scan));
		MemoryContextSwitchTo(caller);
	}
	config_scan_end(&scan);
}

/*
 * One tenant; exists is false if it has no row.  As above, an error leaves
 * nothing behind.
 */
void
policy_load_tenant(MemoryContext parent, const char *name,
				   PolicyTenant *tenant)
{
	Snapshot	snapshot = latest_snapshot();
	ConfigScan	scan;

	memset(tenant, 0, sizeof(*tenant));
	config_scan_begin(&scan, QUOTA_REL_TENANTS, QUOTA_REL_TENANTS_PKEY, name,
					  snapshot);
	if (config_scan_next(&scan))
		read_tenant(tenant, &scan);
	config_scan_end(&scan);
	if (tenant->exists)
		read_tenant_limits(tenant, name, snapshot);

	UnregisterSnapshot(snapshot);
	if (tenant->context)
		MemoryContextSetParent(tenant->context, parent);
}

/* See policy_load.h. */
void
policy_read_tenants(PolicyTenantReader reader, void *arg)
{
	Snapshot	snapshot = latest_snapshot();
	MemoryContext row = AllocSetContextCreate(CurrentMemoryContext,
											  "quota tenant row",
											  ALLOCSET_SMALL_SIZES);
	ConfigScan	scan;

	config_scan_begin(&scan, QUOTA_REL_TENANTS, QUOTA_N_RELATIONS, NULL,
					  snapshot);
	while (config_scan_next(&scan))
	{
		MemoryContext caller = MemoryContextSwitchTo(row);

		reader(config_text(&scan, TENANTS_TENANT), config_text(&scan, TENANTS_TIER),
			   policy_times_1000(config_numeric(&scan, TENANTS_WEIGHT), -1), arg);
		MemoryContextSwitchTo(caller);
		MemoryContextReset(row);
	}
	config_scan_end(&scan);
	MemoryContextDelete(row);
	UnregisterSnapshot(snapshot);
}
