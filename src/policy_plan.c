/*
 * policy_plan.c
 *		Compiles the plan of a call: which limits match it, what it costs in each
 *		of them, what each allows, and the identities of everything involved.
 *
 * A limit matches when its provider or account and its endpoint pattern do, when
 * the call names the user, connection and resource it is kept by, when the tenant is
 * not exempt, and when the call costs something in its unit.  Calls may name
 * measured units themselves, so a limit of another unit than "request" stays in
 * the plan with cost 0.
 *
 * Terms are in the order of locking: those of the database slot first, then
 * by name, which makes it the same in every backend.
 *
 * What a term says of its limit is in policy_term.c, what calls cost in policy_cost.c,
 * amounts in policy_amount.c, what buckets are known by in policy_identity.c.
 */
#include "policy_plan.h"

#include "config.h"
#include "error.h"
#include "match.h"
#include "policy_cost.h"
#include "utils/memutils.h"

/* The limit that max_in_flight of a tenant or tier stands for. */
#define IN_FLIGHT_NAME		"max_in_flight"
#define IN_FLIGHT_LIFETIME	(60 * QUOTA_NS_PER_S)

/* What retry_share of a provider stands for. */
#define RETRY_NAME			"retry_budget"
#define TENANT_RETRY_NAME	"tenant_retry_budget"

/* A plan in the making. */
typedef struct Draft
{
	const PolicySource *source;
	int			n;
	QuotaTerm	terms[QUOTA_MAX_TERMS];
} Draft;

/* ---- terms ---- */

/* Does the limit's pattern take the call's endpoint?  None counts as "". */
static bool
endpoint_matches(const PolicyLimit *limit, const QuotaCall *call)
{
	return limit->endpoint == NULL ||
		match_glob(limit->endpoint, call->endpoint ? call->endpoint : "");
}

/* Is the call's provider of the limit's account, if it has one? */
static bool
account_matches(const PolicyLimit *limit, const PolicyProvider *provider)
{
	return limit->account == NULL || strcmp(limit->account, provider->account) == 0;
}

/* Does the call name what the limit is kept by? */
static bool
per_matches(const PolicyLimit *limit, const QuotaCall *call)
{
	return ((limit->per & PER_TENANT) == 0 || call->tenant) &&
		((limit->per & PER_USER) == 0 || call->user) &&
		((limit->per & PER_CONNECTION) == 0 || call->connection) &&
		((limit->per & PER_RESOURCE) == 0 || call->resource);
}

/* One more term.  Throws 54000. */
static void
add_term(Draft *d, const QuotaTerm *t)
{
	if (d->n == QUOTA_MAX_TERMS)
		quota_error_too_many_terms(d->source->call->tenant,
								   d->source->call->provider);
	d->terms[d->n++] = *t;
}

/* Adds the term of a limit, if it matches. */
static void
add_limit(Draft *d, const PolicyLimit *limit)
{
	const PolicySource *s = d->source;
	QuotaTerm	t;
	int64		cost;

	if (!account_matches(limit, s->provider) || !endpoint_matches(limit, s->call) ||
		!per_matches(limit, s->call))
		return;
	cost = limit->kind == QUOTA_CONCURRENCY ? 1 : policy_cost_of(s, limit->unit);
	if (cost == 0 && strcmp(limit->unit, "request") == 0)
		return;
	if (!policy_fill_rules(&t, s, limit))
		return;
	policy_fill_term(&t, s, limit);
	t.cost = cost;
	policy_fill_portions(&t, s, limit);
	t.whole_reserve = t.portions.reserve;
	add_term(d, &t);
}

/* Adds the term for max_in_flight of the tenant or, failing that, its tier. */
static void
add_in_flight(Draft *d)
{
	const PolicySource *s = d->source;
	int32		most = s->tenant->max_in_flight;
	PolicyLimit limit = {0};
	QuotaTerm	t;

	if (most < 0 && s->tier)
		most = s->tier->max_in_flight;
	if (most < 0 || s->call->tenant == NULL)
		return;
	limit.provider = s->provider->name;
	limit.name = IN_FLIGHT_NAME;
	limit.per = PER_TENANT;
	limit.unit = "request";
	limit.kind = QUOTA_CONCURRENCY;
	limit.lifetime_ns = IN_FLIGHT_LIFETIME;

	policy_init_term(&t);
	t.own = true;
	policy_fill_term(&t, s, &limit);
	t.cost = 1;
	t.capacity = t.amount = most;
	add_term(d, &t);
}

/* Adds the term of a retry budget: of the provider, or PER_TENANT. */
static void
add_retry_budget(Draft *d, const char *name, int per)
{
	const PolicySource *s = d->source;
	PolicyLimit limit = {0};
	QuotaTerm	t;

	limit.provider = s->provider->name;
	limit.name = name;
	limit.per = per;
	limit.unit = "retry";
	limit.kind = QUOTA_RETRIES;

	policy_init_term(&t);
	t.own = (per & PER_TENANT) != 0;
	policy_fill_term(&t, s, &limit);
	t.wide = false;				/* first attempts go on without it */
	t.unit_hash = 0;			/* nobody's: it is not settled by unit */
	t.capacity = t.amount = s->provider->retry_floor;
	t.period_ns = RETRY_SLOTS * RETRY_SLOT_NS;
	t.meter.shape = METER_RETRIES;
	t.meter.capacity = t.capacity;
	t.meter.share_milli = s->provider->retry_share_milli;
	add_term(d, &t);
}

/* Adds those of the provider and of the tenant. */
static void
add_retry_budgets(Draft *d)
{
	if (d->source->provider->retry_share_milli < 0 || d->source->call->tenant == NULL)
		return;
	add_retry_budget(d, RETRY_NAME, 0);
	add_retry_budget(d, TENANT_RETRY_NAME, PER_TENANT);
}

/* Adds the term of a circuit breaker, if it matches. */
static void
add_breaker(Draft *d, const PolicyBreaker *breaker)
{
	const PolicySource *s = d->source;
	PolicyLimit limit = {0};
	QuotaTerm	t;

	limit.provider = s->provider->name;
	limit.name = breaker->name;
	limit.endpoint = breaker->endpoint;
	limit.unit = "call";
	limit.kind = QUOTA_BREAKER;
	if (!endpoint_matches(&limit, s->call))
		return;

	policy_init_term(&t);
	policy_fill_term(&t, s, &limit);
	t.unit_hash = 0;			/* nobody's: it is not settled by unit */
	t.cost = 1;
	t.capacity = t.amount = breaker->rules.probes;
	t.period_ns = breaker->rules.window_ns;
	t.breaker = breaker->rules;
	add_term(d, &t);
}

/* qsort comparator: the order of locking, then by name. */
static int
compare_terms(const void *a, const void *b, void *database_slot)
{
	const QuotaTerm *x = a;
	const QuotaTerm *y = b;
	bool		x_across = x->slot == *(uint32 *) database_slot;
	bool		y_across = y->slot == *(uint32 *) database_slot;

	if (x_across != y_across)
		return x_across ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* All terms, sorted. */
static void
draft_terms(Draft *d)
{
	uint32		database_slot = d->source->database_slot;
	ListCell   *lc;

	foreach(lc, d->source->rules->across)
		add_limit(d, lfirst(lc));
	foreach(lc, d->source->provider->limits)
		add_limit(d, lfirst(lc));
	add_in_flight(d);
	add_retry_budgets(d);
	foreach(lc, d->source->provider->breakers)
		add_breaker(d, lfirst(lc));
	qsort_arg(d->terms, d->n, sizeof(QuotaTerm), compare_terms,
			  &database_slot);
}

/* ---- the plan ---- */

/* Room for a string in the plan's chunk; NULL needs none. */
static Size
string_size(const char *string)
{
	return string ? strlen(string) + 1 : 0;
}

/* Copies a string to *end and moves that on. */
static const char *
pack_string(char **end, const char *string)
{
	char	   *copy = *end;

	if (string == NULL)
		return NULL;
	*end = stpcpy(copy, string) + 1;
	return copy;
}

/* Of a permit it gives; a shadow gives none. */
static int64
permit_lifetime(const PolicyLimit *limit)
{
	return limit->enforcement == QUOTA_SHADOW ? 0 : limit->lifetime_ns;
}

/* The longest lifetime a permit of this provider may have been given. */
static int64
longest_lifetime(const PolicySource *s)
{
	int64		longest = IN_FLIGHT_LIFETIME;
	ListCell   *lc;

	foreach(lc, s->rules->across)
		longest = Max(longest, permit_lifetime(lfirst(lc)));
	foreach(lc, s->provider->limits)
		longest = Max(longest, permit_lifetime(lfirst(lc)));
	return longest;
}

/* Everything of a plan but terms, strings and keys. */
static void
fill_plan(QuotaPlan *plan, const PolicySource *s)
{
	const PolicyTenant *tenant = s->tenant;

	plan->extension = s->extension;
	plan->slot = s->slot;
	plan->database_slot = s->database_slot;
	plan->tenant_index = QUOTA_NO_INDEX;
	plan->share_index = QUOTA_NO_INDEX;
	plan->lead_hint = QUOTA_NO_INDEX;
	plan->suspended = tenant->suspended;
	plan->weight_milli = tenant->weight_milli > 0 ? tenant->weight_milli
		: s->tier ? s->tier->weight_milli : 1000;
	plan->rank = s->rank;
	plan->headroom_milli = s->headroom_milli;
	plan->fails_exhausted = s->fails_exhausted;
	plan->max_lifetime_ns = longest_lifetime(s);
	plan->share_cost = Max(policy_cost_of(s, s->provider->share_unit), 1);
	plan->lease_ns = s->provider->lease_ns;
	plan->lost_refunds = s->provider->lost_refunds;
}

/* Bytes of a plan with all its strings. */
static Size
plan_size(const Draft *d)
{
	const QuotaCall *call = d->source->call;
	Size		size = offsetof(QuotaPlan, terms) + d->n * sizeof(QuotaTerm);

	size += string_size(call->tenant) + string_size(call->provider) +
		string_size(call->endpoint) + string_size(call->class_name) +
		string_size(d->source->provider->share_unit) +
		string_size(d->source->provider->account);
	for (int i = 0; i < d->n; i++)
		size += string_size(d->terms[i].name) +
			string_size(d->terms[i].unit) + string_size(d->terms[i].label) +
			string_size(d->terms[i].pattern) + string_size(d->terms[i].of_account);
	return size;
}

/* The finished plan, in one chunk. */
static QuotaPlan *
pack(const Draft *d, MemoryContext context)
{
	const QuotaCall *call = d->source->call;
	QuotaPlan  *plan = MemoryContextAllocZero(context, plan_size(d));
	char	   *end = (char *) &plan->terms[d->n];

	fill_plan(plan, d->source);
	plan->tenant = pack_string(&end, call->tenant);
	plan->provider = pack_string(&end, call->provider);
	plan->endpoint = pack_string(&end, call->endpoint);
	plan->class_name = pack_string(&end, call->class_name);
	plan->share_unit = pack_string(&end, d->source->provider->share_unit);
	plan->account = pack_string(&end, d->source->provider->account);
	quota_plan_identify(plan);
	plan->nterms = d->n;
	for (int i = 0; i < d->n; i++)
	{
		QuotaTerm  *t = &plan->terms[i];

		*t = d->terms[i];
		t->name = pack_string(&end, t->name);
		t->unit = pack_string(&end, t->unit);
		t->label = pack_string(&end, t->label);
		t->pattern = pack_string(&end, t->pattern);
		t->of_account = pack_string(&end, t->of_account);
		plan->across |= t->slot == plan->database_slot;
		plan->nnamed += t->named;
		plan->lenient |= !quota_term_binds(t) || t->nwarnings > 0;
		plan->budgets_retries |= t->kind == QUOTA_RETRIES;
		plan->learns |= t->kind == QUOTA_BREAKER || t->adaptive;
		plan->gives_permit |= t->cost > 0 && !quota_is_rate(t->kind) &&
			t->kind != QUOTA_BREAKER && !quota_term_is_shadow(t);
	}
	return plan;
}

/* See policy_plan.h. */
QuotaPlan *
policy_compile(const PolicySource *source, MemoryContext context)
{
	MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext,
												  "quota plan",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(scratch);
	Draft	   *draft = palloc(sizeof(Draft));
	QuotaPlan  *plan;

	draft->source = source;
	draft->n = 0;
	draft_terms(draft);
	plan = pack(draft, context);
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(scratch);
	return plan;
}
