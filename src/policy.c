/*
 * policy.c
 *		The backend's cache of plans.
 *
 * A plan is kept with the change counters it was made under and with the serial
 * of this transaction's own changes (change.h), and is valid while none of them
 * has moved, as the rules and tenants are that it is made of (policy_cache.c).
 * Nothing here is shared; plans are replaced only from quota_plan() and its kin,
 * never in a callback.
 *
 * The user, the connection and the resource of a call make keys of buckets, and
 * nothing else of its plan: so a plan is kept for calls that name the same of them,
 * whoever that is, and bound to each call's where a limit asks for them.  The last binding is kept with it; so
 * what the cache takes does not grow with the users, nor does the time of a decision.
 *
 * A plan that is replaced or evicted may still be in a caller's hands.  It is
 * retired: freed by the first request of a later transaction, or after
 * QUOTA_PLAN_GRACE more were retired.
 */
#include "policy.h"

#include "change.h"
#include "common/hashfn.h"
#include "config.h"
#include "error.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "policy_cache.h"
#include "policy_plan.h"
#include "shmem.h"
#include "storage/proc.h"
#include "utils/memutils.h"

/* Plans one backend keeps. */
#define MAX_PLANS	16384

#define DEFAULT_CLASS "event"

/*
 * What a plan depends on: four names, each preceded by a byte with its length
 * plus 1, 0 standing for NULL, and a byte that says which of the others are given.
 * What it is bound to: those three names.
 */
typedef struct PlanKey
{
	const char *bytes;
	int			len;
} PlanKey;
#define MAX_PLAN_KEY (4 * QUOTA_NAME_LEN + 1)
#define MAX_NAMES_KEY (3 * QUOTA_NAME_LEN)

typedef struct CachedPlan
{
	PlanKey		key;			/* hash key */
	dlist_node	node;			/* in plans_by_use */
	uint64		serial;
	int			per;			/* ConfigPer bits of its terms: names they ask for */
	QuotaPlan  *plan;			/* never NULL between calls */
	QuotaPlan  *bound;			/* NULL = to nobody yet; */
	PlanKey		names;			/* else to these; room for MAX_NAMES_KEY */
} CachedPlan;

static MemoryContext cache_context = NULL;	/* of everything below */
static Oid	cache_extension = InvalidOid;	/* whose plans these are */
static HTAB *cached_plans = NULL;
static dlist_head plans_by_use; /* latest first */

static QuotaPlan **retired = NULL;	/* ring of QUOTA_PLAN_GRACE */
static int	retired_next = 0;
static uint32 retired_lxid = 0; /* transaction they were retired in */

/* ---- the cache as a whole ---- */

/* Hash of a PlanKey. */
static uint32
plan_key_hash(const void *key, Size size)
{
	const PlanKey *k = key;

	return hash_bytes((const unsigned char *) k->bytes, k->len);
}

/* 0 when two PlanKeys are equal. */
static int
plan_key_compare(const void *a, const void *b, Size size)
{
	const PlanKey *x = a;
	const PlanKey *y = b;

	if (x->len != y->len)
		return 1;
	return memcmp(x->bytes, y->bytes, x->len);
}

/* An empty cache of plans. */
static HTAB *
make_plan_cache(void)
{
	HASHCTL		ctl;

	ctl.keysize = sizeof(PlanKey);
	ctl.entrysize = sizeof(CachedPlan);
	ctl.hash = plan_key_hash;
	ctl.match = plan_key_compare;
	ctl.hcxt = cache_context;
	return hash_create("quota plans", 64, &ctl, HASH_ELEM | HASH_FUNCTION |
					   HASH_COMPARE | HASH_CONTEXT);
}

/* Starts anew, for this extension. */
static void
reset_cache(Oid extension)
{
	cache_extension = InvalidOid;
	cached_plans = NULL;
	retired = NULL;
	retired_next = 0;
	dlist_init(&plans_by_use);
	if (cache_context == NULL)
		cache_context = AllocSetContextCreate(CacheMemoryContext,
											  "quota plans",
											  ALLOCSET_DEFAULT_SIZES);
	else
		MemoryContextReset(cache_context);
	cached_plans = make_plan_cache();
	retired = MemoryContextAllocZero(cache_context,
									 QUOTA_PLAN_GRACE * sizeof(QuotaPlan *));
	cache_extension = extension;
}

/* ---- plans ---- */

/* Makes the ring empty when a new transaction begins. */
static void
free_retired(void)
{
	if (retired_lxid == QUOTA_LXID)
		return;
	retired_lxid = QUOTA_LXID;
	for (int i = 0; i < QUOTA_PLAN_GRACE && retired[i]; i++)
	{
		pfree(retired[i]);
		retired[i] = NULL;
	}
	retired_next = 0;
}

/* Frees a plan, but not yet. */
static void
retire(QuotaPlan *plan)
{
	if (retired[retired_next])
		pfree(retired[retired_next]);
	retired[retired_next] = plan;
	retired_next = (retired_next + 1) % QUOTA_PLAN_GRACE;
}

/* Frees what is there, but not yet; the strings of a binding are its plan's. */
static void
retire_plans(CachedPlan *c)
{
	if (c->bound)
		retire(c->bound);
	if (c->plan)
		retire(c->plan);
	c->plan = c->bound = NULL;
}

/* Takes a plan out of the cache. */
static void
evict(CachedPlan *c)
{
	char	   *bytes = unconstify(char *, c->key.bytes);

	dlist_delete(&c->node);
	retire_plans(c);
	if (c->names.bytes)
		pfree(unconstify(char *, c->names.bytes));
	hash_search(cached_plans, &c->key, HASH_REMOVE, NULL);
	pfree(bytes);
}

/*
 * Appends one name to a key, or NULL for a name that is not used.  Throws 22023 when
 * it is too long.
 */
static void
append_name(PlanKey *key, const char *what, const char *name, bool used)
{
	char	   *end = unconstify(char *, key->bytes) + key->len;
	int			n = name ? (int) strlen(name) : -1;

	if (n >= QUOTA_NAME_LEN)
		quota_error_too_long(what, n);
	if (!used)
		n = -1;
	*end = (char) (n + 1);
	if (n > 0)
		memcpy(end + 1, name, n);
	key->len += 1 + Max(n, 0);
}

/* What a plan for the call depends on.  Throws 22023. */
static PlanKey
make_plan_key(const QuotaCall *call, char *bytes)
{
	PlanKey		key = {bytes, 0};
	int			given = (call->user ? PER_USER : 0) |
		(call->connection ? PER_CONNECTION : 0) |
		(call->resource ? PER_RESOURCE : 0);

	append_name(&key, "tenant", call->tenant, true);
	append_name(&key, "provider", call->provider, true);
	append_name(&key, "endpoint", call->endpoint, true);
	append_name(&key, "class", call->class_name, true);
	bytes[key.len++] = (char) given;
	return key;
}

/* What it is bound to, of the names it asks for.  Throws 22023. */
static PlanKey
make_names_key(const QuotaCall *call, int per, char *bytes)
{
	PlanKey		key = {bytes, 0};

	append_name(&key, "user", call->user, per & PER_USER);
	append_name(&key, "connection", call->connection, per & PER_CONNECTION);
	append_name(&key, "resource", call->resource, per & PER_RESOURCE);
	return key;
}

/* The plan for the names of the call.  Throws 22023. */
static QuotaPlan *
bind_plan(CachedPlan *c, const QuotaCall *call)
{
	char		bytes[MAX_NAMES_KEY];
	PlanKey		names;
	QuotaPlan  *bound;

	if (c->plan->nnamed == 0)
		return c->plan;
	names = make_names_key(call, c->per, bytes);
	if (c->bound && plan_key_compare(&c->names, &names, sizeof(PlanKey)) == 0)
		return c->bound;
	if (c->names.bytes == NULL)
		c->names.bytes = MemoryContextAlloc(cache_context, MAX_NAMES_KEY);
	/* what the last one has found of all others is good for the next */
	bound = policy_bind(c->bound ? c->bound : c->plan, call, cache_context);
	if (c->bound)
		retire(c->bound);
	c->bound = bound;
	memcpy(unconstify(char *, c->names.bytes), names.bytes, names.len);
	c->names.len = names.len;
	return bound;
}

/*
 * The plan in the cache, NULL = none; it is the latest used.  Most calls are like the
 * one before.
 */
static CachedPlan *
find_cached(const PlanKey *key)
{
	CachedPlan *c;

	if (!dlist_is_empty(&plans_by_use))
	{
		c = dlist_head_element(CachedPlan, node, &plans_by_use);
		if (plan_key_compare(&c->key, key, sizeof(PlanKey)) == 0)
			return c;
	}
	c = hash_search(cached_plans, key, HASH_FIND, NULL);
	if (c)
		dlist_move_head(&plans_by_use, &c->node);
	return c;
}

/* The place of a plan in the cache, made when needed; it is the latest used. */
static CachedPlan *
enter_plan(PlanKey key)
{
	CachedPlan *c = find_cached(&key);
	char	   *bytes;

	if (c)
		return c;
	if (hash_get_num_entries(cached_plans) >= MAX_PLANS)
		evict(dlist_tail_element(CachedPlan, node, &plans_by_use));
	bytes = MemoryContextAlloc(cache_context, key.len);
	memcpy(bytes, key.bytes, key.len);
	c = hash_search(cached_plans, &key, HASH_ENTER, NULL);
	c->key.bytes = bytes;
	c->plan = c->bound = NULL;
	c->names.bytes = NULL;
	c->serial = 0;
	dlist_push_head(&plans_by_use, &c->node);
	return c;
}

/* What the rules of limits are made of; provider NULL: those of none. */
static PolicySource
make_source(const QuotaCall *call, const PolicyRules *rules,
			const PolicyProvider *provider, const CachedTenant *tenant,
			const QuotaStamp *stamp)
{
	PolicySource source = {
		.call = call,.extension = rules->extension,.rules = rules,
		.provider = provider,.tenant = &tenant->tenant
	};

	source.tier = policy_find(rules->tiers, tenant->tenant.tier);
	source.global_deleted_ns = (int64)
		pg_atomic_read_u64(&quota_shared->generations[stamp->global].deleted_ns);
	source.tenant_deleted_ns = (int64)
		pg_atomic_read_u64(&quota_shared->generations[stamp->tenant].deleted_ns);
	return source;
}

/*
 * Makes the plan of the call.  It is as new as the rules and the tenant it is
 * made of: when these turn out to be older than the counters now, the caller's
 * quota_plan_is_current() finds out.
 */
static QuotaPlan *
make_plan(const QuotaCall *call, const PolicyRules *rules,
		  const PolicyProvider *provider, const CachedTenant *tenant,
		  const PolicyClass *class_row)
{
	QuotaStamp	stamp = change_stamp(rules->extension, call->tenant ? call->tenant : "",
									 rules->number, tenant->number);
	PolicySource source = make_source(call, rules, provider, tenant, &stamp);
	QuotaPlan  *plan;

	source.rank = class_row->rank;
	source.headroom_milli = class_row->headroom_milli;
	source.fails_exhausted = class_row->fails_exhausted;
	source.slot = quota_slot(MyDatabaseId, rules->extension, call->provider);
	source.database_slot = quota_slot(MyDatabaseId, rules->extension, "");

	plan = policy_compile(&source, cache_context);
	plan->stamp = stamp;
	plan->provisional = quota_change_pending();
	return plan;
}

/*
 * The plan of a call that is not in the cache, or not current.  NULL when a
 * row is missing and that is all right.
 */
static CachedPlan *
renew_plan(const QuotaCall *call, const PolicyRules *rules, bool missing_ok)
{
	const PolicyProvider *provider = policy_find(rules->providers, call->provider);
	/* nobody is called "", so there are no rows of it */
	const CachedTenant *tenant = policy_tenant(rules, call->tenant ?
												call->tenant : "");
	const PolicyClass *class_row = policy_find(rules->classes, call->class_name);
	bool		no_tenant = call->tenant && !tenant->tenant.exists;
	char		bytes[MAX_PLAN_KEY];
	QuotaPlan  *plan;
	CachedPlan *c;

	if (no_tenant || provider == NULL || class_row == NULL)
	{
		if (missing_ok)
			return NULL;
		if (no_tenant)
			quota_error_no_such("tenant", call->tenant);
		if (provider == NULL)
			quota_error_no_such("provider", call->provider);
		quota_error_no_such("class", call->class_name);
	}
	plan = make_plan(call, rules, provider, tenant, class_row);
	c = enter_plan(make_plan_key(call, bytes));
	retire_plans(c);
	c->plan = plan;
	c->per = 0;
	for (int i = 0; i < plan->nterms; i++)
		c->per |= plan->terms[i].per;
	c->serial = tenant->serial == rules->serial ? rules->serial : 0;
	return c;
}

/* See quota_plan(); the tenant may be NULL here.  Throws also 22004, 22023. */
static QuotaPlan *
find_plan(const QuotaCall *given, bool missing_ok)
{
	QuotaCall	call = *given;
	const PolicyRules *rules = policy_rules();
	char		bytes[MAX_PLAN_KEY];
	PlanKey		key;
	CachedPlan *c;

	if (call.provider == NULL)
		quota_error_null("provider");
	if (rules->extension != cache_extension)
		reset_cache(rules->extension);
	free_retired();
	if (call.class_name == NULL)
		call.class_name = DEFAULT_CLASS;
	key = make_plan_key(&call, bytes);
	c = find_cached(&key);
	if (c == NULL || c->serial != policy_serial() || !quota_plan_is_current(c->plan))
		c = renew_plan(&call, rules, missing_ok);
	return c ? bind_plan(c, &call) : NULL;
}

/* See policy.h.  Keys follow from names alone, so it does not matter how old that plan is. */
void
quota_plan_identify_known(QuotaPlan *plan)
{
	const QuotaCall call = {.tenant = plan->tenant,.provider = plan->provider,
	.endpoint = plan->endpoint,.class_name = plan->class_name};
	CachedPlan *c = NULL;
	char		bytes[MAX_PLAN_KEY];

	if (cached_plans != NULL && cache_extension == plan->extension)
	{
		PlanKey		key = make_plan_key(&call, bytes);

		c = hash_search(cached_plans, &key, HASH_FIND, NULL);
	}
	if (c == NULL)
	{
		quota_plan_identify(plan);
		return;
	}
	plan->tenant_key = c->plan->tenant_key;
	plan->share_key = c->plan->share_key;
	plan->flow_key = c->plan->flow_key;
	plan->names = c->plan->names;
}

/* See policy.h. */
QuotaPlan *
quota_plan(const QuotaCall *call, bool missing_ok)
{
	if (call->tenant == NULL)
		quota_error_null("tenant");
	quota_change_check_decide(call->tenant);
	return find_plan(call, missing_ok);
}

/* See policy.h. */
QuotaPlan *
quota_plan_unchecked(const QuotaCall *call)
{
	return find_plan(call, true);
}

/* See policy.h. */
bool
quota_plan_is_current(const QuotaPlan *plan)
{
	return quota_stamp_is_current(&plan->stamp);
}

/* The limit of that name in a list; NULL = none. */
static const PolicyLimit *
find_limit(const List *limits, const char *name)
{
	ListCell   *lc;

	foreach(lc, limits)
		if (strcmp(((const PolicyLimit *) lfirst(lc))->name, name) == 0)
			return lfirst(lc);
	return NULL;
}

/* See policy.h. */
bool
quota_limit_rules(const char *provider, const char *limit_name, QuotaKind kind,
				  const char *tenant, QuotaTerm *term, QuotaStamp *stamp)
{
	const QuotaCall call = {.tenant = tenant,.provider = provider};
	const PolicyRules *rules = policy_rules();
	const CachedTenant *cached = policy_tenant(rules, tenant);
	const PolicyProvider *p = policy_find(rules->providers, provider);
	const PolicyLimit *limit = find_limit(provider[0] == '\0' ? rules->across
										  : p ? p->limits : NIL, limit_name);
	PolicySource source;

	*stamp = change_stamp(rules->extension, tenant, rules->number, cached->number);
	if (limit == NULL || limit->kind != kind ||
		((limit->per & PER_TENANT) && !cached->tenant.exists))
		return false;
	source = make_source(&call, rules, p, cached, stamp);
	return policy_fill_rules(term, &source, limit);
}
