/*
 * policy_term.c
 *		What a term of a plan says of its limit: how much it allows, since when, to
 *		whom, and how tenants share it.  Which limits a call meets is in policy_plan.c.
 */
#include "policy_plan.h"

#include "config.h"
#include "feedback.h"
#include "policy_amount.h"
#include "policy_cost.h"
#include "policy_slow.h"

/* See policy_plan.h. */
void
policy_init_term(QuotaTerm *t)
{
	memset(t, 0, sizeof(*t));
	t->bucket = QUOTA_NO_INDEX;
	t->portion = QUOTA_NO_INDEX;
	t->meter.rate.den = 1;
}

/* The override that holds: on a shared limit only exemptions count. */
static const PolicyOverride *
applicable(const List *overrides, const PolicyLimit *limit)
{
	const PolicyOverride *o = policy_find_override(overrides, limit);

	if (o && !o->exempt && (limit->per & PER_TENANT) == 0)
		return NULL;
	return o;
}

/* From when on the rate of a limit applies; changed_ns is what its own rows say. */
static void
fill_since(QuotaTerm *t, const PolicySource *s, const PolicyLimit *limit,
		   int64 changed_ns)
{
	if (limit->external)
		changed_ns = Max(changed_ns, limit->safety_changed_ns);
	if (limit->per & PER_TENANT)
		changed_ns = Max(changed_ns, s->tenant->changed_ns);
	t->changed_ns = t->deleted_ns = changed_ns;
	/* a provider may have left the account, with the safety that held */
	if (limit->external && limit->account)
		t->deleted_ns = Max(changed_ns, s->global_deleted_ns);
	if (limit->per & PER_TENANT)
		t->deleted_ns = Max(changed_ns, Max(s->global_deleted_ns,
											s->tenant_deleted_ns));
}

/* Is the bucket younger than the last crash, whatever happened before? */
static bool
starts_full(const PolicySource *s, const PolicyLimit *limit)
{
	return limit->young || (limit->provider && s->provider->young) ||
		((limit->per & PER_TENANT) && s->tenant->young);
}

/* Every call to the provider meets it, whoever makes it. */
static bool
is_wide(const PolicySource *s, const PolicyLimit *limit)
{
	if (limit->per != 0 || limit->endpoint != NULL || limit->has_exempt ||
		limit->enforcement != QUOTA_HARD)
		return false;
	return limit->kind == QUOTA_CONCURRENCY || limit->kind == QUOTA_BREAKER ||
		!policy_ever_free(s->provider, limit->unit);
}

/* Longest, and shortest unless it is given, window of active tenants. */
#define WINDOW_MAX_NS	(60 * QUOTA_NS_PER_S)
#define WINDOW_MIN_NS	QUOTA_NS_PER_S

/*
 * See policy_plan.h.  A user, a connection or a resource is one tenant's, so a bucket
 * for each of those is taken to be as well.
 */
void
policy_fill_portions(QuotaTerm *t, const PolicySource *s, const PolicyLimit *limit)
{
	const PolicyProvider *p = s->provider;
	const int	owned = PER_TENANT | PER_USER | PER_CONNECTION | PER_RESOURCE;
	int64		window_ns = Max(limit->period_ns, WINDOW_MIN_NS);
	double		ahead = (double) t->meter.rate.num * limit->period_ns /
		t->meter.rate.den * p->burst_milli / 1000;

	t->is_portioned = limit->provider != NULL && (limit->per & owned) == 0 &&
		limit->kind != QUOTA_ALLOWANCE && quota_term_binds(t) && p->share_reserve_milli > 0;
	t->portions.window_ns = p->active_window_ns > 0 ? p->active_window_ns
		: Min(window_ns, WINDOW_MAX_NS);
	t->portions.reserve = (t->capacity * p->share_reserve_milli + 999) / 1000;
	t->portions.spares = limit->kind != QUOTA_FIXED_WINDOW;
	t->portions.ahead = (int64) Min(ahead, (double) QUOTA_MAX_AMOUNT);
}

/* See policy_plan.h. */
void
policy_fill_term(QuotaTerm *t, const PolicySource *s, const PolicyLimit *limit)
{
	t->slot = limit->provider ? s->slot : s->database_slot;
	t->kind = limit->kind;
	t->enforcement = limit->enforcement;
	t->external = limit->external;
	t->wide = is_wide(s, limit);
	t->starts_full = starts_full(s, limit);
	t->name = limit->name;
	t->unit = limit->unit;
	t->pattern = limit->endpoint;
	t->of_account = limit->account;
	t->unit_hash = quota_unit_hash(limit->unit);
	t->lifetime_ns = limit->lifetime_ns;
	t->nwarnings = limit->nwarnings;
	memcpy(t->warn_milli, limit->warn_milli, sizeof(t->warn_milli));
	if (limit->kind == QUOTA_ALLOWANCE)
		t->calendar = calendar_make(&limit->calendar, limit->name);
	t->period_ns = limit->period_ns;
	t->per = (uint8) limit->per;
	t->named = (limit->per & POLICY_NAMED) != 0;
	if (t->named)
		t->label = "";			/* until policy_bind() */
	else
		policy_identify(t, s->call, s->extension, limit->provider,
						palloc(QUOTA_LABEL_LEN));
}

/* What the limit says of its meter. */
static void
fill_meter(QuotaTerm *t, const PolicySource *s, const PolicyLimit *limit,
		   const PolicyAmount *amount)
{
	MeterRules *rules = &t->meter;

	rules->shape = (MeterShape) limit->kind;
	rules->capacity = amount->capacity;
	rules->rate = amount->rate;
	rules->period_ns = limit->period_ns;
	rules->anchor_us = limit->anchor_us;
	if (limit->kind != QUOTA_LEAKY_BUCKET)
		return;
	rules->largest = amount->per_period;
	rules->dearest = policy_dearest_of(s, limit);
	/* a call that measures its units itself may cost all that one may */
	if (rules->dearest == 0 || rules->dearest > amount->per_period)
		rules->dearest = amount->per_period;
}

/* Windows in which an adaptive limit is watched; of calls in flight the first. */
#define ADAPT_FLIGHT_NS		QUOTA_NS_PER_S
#define ADAPT_MIN_NS		(100 * 1000 * QUOTA_NS_PER_US)
#define ADAPT_MAX_NS		(60 * QUOTA_NS_PER_S)

/* Of which an adaptive limit uses a part. */
static void
fill_adaptive(QuotaTerm *t, const PolicyLimit *limit)
{
	AdaptiveRules *r = &t->adaptation;
	const int	unit = ADAPTIVE_WHOLE / 1000;

	t->adaptive = limit->adaptive && t->capacity > 0;
	t->whole_capacity = t->capacity;
	t->whole_amount = t->amount;
	t->whole_rate = t->meter.rate;
	r->window_ns = limit->kind == QUOTA_CONCURRENCY ? ADAPT_FLIGHT_NS
		: Min(Max(limit->period_ns, ADAPT_MIN_NS), ADAPT_MAX_NS);
	r->cooldown_ns = r->window_ns / 10;
	r->whole_units = limit->kind == QUOTA_CONCURRENCY ? 0
		: (int64) ((int128) t->amount * r->window_ns / limit->period_ns);
	r->floor = limit->adaptive_floor_milli * unit;
	r->start = Max(r->floor, ADAPTIVE_WHOLE / 2);
	r->step = limit->adaptive_step_milli * unit;
	r->decrease = ADAPTIVE_WHOLE * 7 / 10;
}

/* Whom an answer means when it means those that the limit is kept by. */
static FeedbackScope
meant_by(const PolicyLimit *limit)
{
	bool		endpoint = limit->endpoint != NULL || (limit->per & PER_ENDPOINT);

	if (limit->per & PER_CONNECTION)
		return FEEDBACK_CONNECTION;
	if (limit->per & (PER_TENANT | PER_USER | PER_RESOURCE))
		return endpoint ? FEEDBACK_TENANT_ENDPOINT : FEEDBACK_TENANT;
	if (endpoint)
		return FEEDBACK_ENDPOINT;
	return limit->provider ? FEEDBACK_PROVIDER : FEEDBACK_ACCOUNT;
}

/* See policy_plan.h. */
bool
policy_fill_rules(QuotaTerm *t, const PolicySource *s, const PolicyLimit *limit)
{
	const PolicyOverride *tier = s->tier ? applicable(s->tier->overrides, limit) : NULL;
	const PolicyOverride *tenant = applicable(s->tenant->overrides, limit);
	PolicyAmount amount = policy_amount(limit, tier, tenant, s->tenant->seats);

	policy_init_term(t);
	if (!amount.limited)
		return false;
	t->own = (limit->per & PER_TENANT) != 0;
	t->slow = quota_is_rate(limit->kind) &&
		policy_is_slow(s, limit, tier, tenant);
	t->capacity = amount.capacity;
	t->most_debt = Max(amount.capacity, amount.per_period);
	t->amount = amount.per_period;
	if (quota_is_rate(limit->kind))
		fill_meter(t, s, limit, &amount);
	fill_since(t, s, limit, amount.changed_ns);
	t->emptied_ns = policy_emptied_ns(s, limit, amount.remade_ns);
	if (limit->adaptive)
		fill_adaptive(t, limit);
	t->meant_by = (uint8) meant_by(limit);
	return true;
}
