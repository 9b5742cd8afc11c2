/*
 * floor.c
 *		What a call must leave in a limit.
 *
 * CLASS HEADROOM.  A class leaves its headroom, a part of the capacity, in every
 * limit but allowances and retry budgets, to classes that have less.  Jobs and direct calls alike.  A
 * limit that holds less than two calls can leave nothing: there a call waits while
 * one of a class with less headroom was refused within a refill of one call.
 *
 * SHARES.  Of a limit of the provider that tenants share, each has a portion
 * (portion.c).  Direct calls leave what that says.  Jobs are in order already, so it
 * refuses none; but what they take counts as their tenant's, and those that are
 * refused want their share like anybody.
 *
 * A portion is an object of the bucket's slot, found by bucket and tenant.  It pins
 * the tenant; journal records and parts of permits that may return something pin the
 * portion.  It is forgotten with its bucket, or when it is inactive and its place is
 * wanted.  Nothing of it survives a restart: shares start anew, with one call for
 * everybody, and calls that were in flight then count for the limit, but in nobody's
 * share.
 *
 * Who was refused for something else as well, that is its own, does not compete for
 * the limit, and is not heeded.
 */
#include "floor.h"

#include "permit.h"
#include "rules.h"

/* Concurrency has no refill: so long a refusal counts. */
#define URGENT_NS	QUOTA_NS_PER_S

/* The tenant's portion; NULL = it has none yet. */
static Portion *
portion_at(uint32 index)
{
	return index == QUOTA_NO_INDEX ? NULL : &quota_portions[index].portion;
}

/* The term is shared out, and the call costs something of it. */
static bool
is_shared_out(const QuotaTerm *term, const TermState *s)
{
	return term->is_portioned && s->cost > 0;
}

/* ---- portions as objects ---- */

/* The index still names the portion with this key. */
static bool
portion_is(uint32 index, uint32 owner, const QuotaKey *key)
{
	return index < (uint32) quota_max_portions() &&
		quota_owned(&quota_portions[index].entry, owner) &&
		quota_key_equal(&quota_portions[index].entry.key, key);
}

/* A new portion of the bucket. */
static uint32
portion_create(const QuotaPlan *plan, const QuotaKey *key, uint32 bucket)
{
	QuotaBucket *b = &quota_buckets[bucket];
	uint32		index = quota_create_portion(key, b->entry.owner);
	QuotaPortion *p = &quota_portions[index];

	if (index == QUOTA_NO_INDEX)
		return index;
	p->bucket = bucket;
	p->tenant = plan->tenant_index;
	pg_atomic_fetch_add_u32(&quota_tenants[p->tenant].pins, 1);
	dlist_push_tail(&b->portion_list, &p->bucket_node);
	return index;
}

/* See floor.h. */
bool
floor_resolve(const QuotaPlan *plan, QuotaTerm *term, const QuotaAsk *ask,
			  TermState *s)
{
	QuotaKey	key;

	s->portion = QUOTA_NO_INDEX;
	if (!is_shared_out(term, s))
		return true;
	key = term->key;
	quota_key_mix(&key, &plan->tenant_key);
	if (!portion_is(term->portion, term->slot, &key))
		term->portion = quota_find_portion(&key, term->slot);
	if (term->portion == QUOTA_NO_INDEX && (!ask->dry || ask->is_job))
	{
		term->portion = portion_create(plan, &key, s->bucket);
		if (term->portion == QUOTA_NO_INDEX)
			return false;
	}
	s->portion = term->portion;
	return true;
}

/* It is in use no more. */
static void
portion_drop(uint32 index)
{
	QuotaPortion *p = &quota_portions[index];

	dlist_delete(&p->bucket_node);
	pg_atomic_fetch_sub_u32(&quota_tenants[p->tenant].pins, 1);
	quota_remove_portion(index);
}

/* See floor.h. */
void
floor_bucket_init(QuotaBucket *b)
{
	memset(&b->portions, 0, sizeof(b->portions));
	dlist_init(&b->portion_list);
	b->urgent_ns = 0;
	b->urgent_milli = QUOTA_NOT_URGENT;
}

/* See floor.h. */
void
floor_bucket_drop(QuotaBucket *b)
{
	while (!dlist_is_empty(&b->portion_list))
		portion_drop((uint32) (dlist_head_element(QuotaPortion, bucket_node,
												  &b->portion_list) -
							   quota_portions));
}

/* See floor.h. */
void
floor_settle(QuotaBucket *b, int64 now_ns, TimestampTz wall_us)
{
	BucketRate	none = {0, 1};

	if (!rules_are_current(b))
		return;
	rules_settle(b, now_ns, wall_us);
	if (quota_is_rate(b->kind))
		portion_rules_at(&b->portion_rules, &b->meter, now_ns);
	portions_settle(&b->portions, &b->portion_rules,
					quota_is_rate(b->kind) ? b->portion_rate : none,
					quota_is_rate(b->kind) ? meter_level(&b->meter) : 0, now_ns);
}

/* See floor.h. */
bool
floor_reclaim(uint32 portion, int64 now_ns)
{
	QuotaPortion *p = &quota_portions[portion];
	QuotaBucket *b = &quota_buckets[p->bucket];

	if (pg_atomic_read_u32(&p->pins) > 0 || p->portion.in_flight > 0 ||
		p->portion.waits > 0 ||
		(p->portion.listed &&
		 now_ns - p->portion.asked_ns < b->portion_rules.window_ns))
		return false;
	portion_forget(&b->portions, &p->portion);
	portion_drop(portion);
	return true;
}

/* See floor.h. */
void
floor_pin(uint32 portion)
{
	if (portion != QUOTA_NO_INDEX)
		pg_atomic_fetch_add_u32(&quota_portions[portion].pins, 1);
}

/* See floor.h. */
void
floor_unpin(uint32 portion)
{
	if (portion != QUOTA_NO_INDEX)
		pg_atomic_fetch_sub_u32(&quota_portions[portion].pins, 1);
}

/* ---- headroom ---- */

/* Classes have headroom in the limit, and the plan's leaves some. */
static bool
has_headroom(const QuotaPlan *plan, const QuotaTerm *term)
{
	return plan->headroom_milli > 0 && quota_term_binds(term) &&
		term->kind != QUOTA_RETRIES && term->kind != QUOTA_BREAKER;
}

/* Units of the limit that the class leaves behind n calls. */
static int64
headroom(const QuotaPlan *plan, const QuotaTerm *term, int64 units)
{
	int64		leave = (term->capacity * plan->headroom_milli + 999) / 1000;

	return Max(Min(leave, term->capacity - units), 0);
}

/*
 * Until when a class with headroom must wait where nothing can be left; PG_INT64_MIN
 * = it need not.
 */
static int64
headroom_until(const QuotaPlan *plan, const QuotaTerm *term, const TermState *s)
{
	const QuotaBucket *b = &quota_buckets[s->bucket];
	int64		refill_ns = URGENT_NS;

	if (b->urgent_milli >= plan->headroom_milli || term->capacity >= 2 * s->cost)
		return PG_INT64_MIN;
	if (quota_is_rate(term->kind))
		refill_ns = portion_refill_ns(term->meter.rate, s->cost);
	return b->urgent_ns + refill_ns + 1;
}

/* A call of the class was refused by the bucket. */
static void
note_urgent(const QuotaPlan *plan, QuotaBucket *b, int64 now_ns)
{
	/* who has least headroom is remembered for a while */
	if (plan->headroom_milli > b->urgent_milli &&
		now_ns - b->urgent_ns < URGENT_NS)
		return;
	b->urgent_milli = plan->headroom_milli;
	b->urgent_ns = now_ns;
}

/* ---- in a decision ---- */

/* The term's rules now, as its bucket stands. */
static PortionRules
rules_now(const QuotaTerm *term, const QuotaBucket *b, int64 now_ns)
{
	PortionRules rules = term->portions;

	rules.whole = rules.reserve;
	if (quota_is_rate(b->kind))
		portion_rules_at(&rules, &b->meter, now_ns);
	return rules;
}

/* Where the tenant stands; the bucket has been settled. */
static void
look_at_portion(const QuotaPlan *plan, const QuotaTerm *term, TermState *s,
				int n, int64 now_ns)
{
	QuotaBucket *b = &quota_buckets[s->bucket];
	const Portion *p = portion_at(s->portion);
	BucketRate	none = {0, 1};
	bool		rate = quota_is_rate(term->kind);

	b->portion_rules = rules_now(term, b, now_ns);
	b->portion_rate = term->meter.rate;
	portions_settle(&b->portions, &b->portion_rules,
					rate ? term->meter.rate : none, s->level, now_ns);
	s->stand = rate
		? portion_stand(&b->portions, p, plan->weight_milli, &b->portion_rules,
						term->meter.rate, term->capacity, s->cost, n, now_ns)
		: portion_flight_stand(&b->portions, p, plan->weight_milli,
							   &b->portion_rules, term->capacity, s->cost, n,
							   now_ns);
}

/* See floor.h. */
void
floor_look(const QuotaPlan *plan, const QuotaTerm *term, const QuotaAsk *ask,
		   TermState *s, int n, int64 now_ns)
{
	s->until_ns = PG_INT64_MIN;
	s->floor_reason = QUOTA_CLASS_RESERVED;
	if (s->cost == 0 || term->kind == QUOTA_ALLOWANCE || !quota_term_binds(term))
		return;
	if (has_headroom(plan, term))
	{
		s->leave = headroom(plan, term, s->cost * n);
		s->until_ns = headroom_until(plan, term, s);
		if (s->until_ns <= now_ns)
			s->until_ns = PG_INT64_MIN;
	}
	if (!is_shared_out(term, s))
		return;
	look_at_portion(plan, term, s, n, now_ns);
	if (ask->is_job || ask->batch == QUOTA_BATCH_NEXT)
		return;
	if (s->stand.leave > s->leave || s->stand.until_ns > Max(s->until_ns, now_ns))
		s->floor_reason = QUOTA_SHARE_EXCEEDED;
	s->within = s->stand.within;
	s->leave = Max(s->leave, s->stand.leave);
	s->until_ns = Max(s->until_ns, s->stand.until_ns);
}

/* See floor.h. */
int64
floor_leave_over(const QuotaPlan *plan, const QuotaTerm *term, const TermState *s,
				 int n, int64 now_ns)
{
	const QuotaBucket *b = &quota_buckets[s->bucket];

	if (!quota_is_rate(term->kind))
		return term->capacity;
	return Max(s->leave, portion_leave_over(&b->portions, portion_at(s->portion),
											&b->portion_rules, term->meter.rate,
											term->capacity, s->cost, n, now_ns));
}

/*
 * The same for the term's tenants by their shares: a call that its class keeps from it
 * does not want its share (floor_refused()).
 */
static int64
wait_for_share(const QuotaPlan *plan, const QuotaTerm *term, const QuotaAsk *ask,
			   const TermState *s, int n, int64 from_ns, int64 now_ns,
			   TimestampTz wall_us)
{
	QuotaBucket *b = &quota_buckets[s->bucket];
	PortionRules rules = rules_now(term, b, now_ns);
	PortionCall call = {
		.weight_milli = plan->weight_milli,
		.rules = &rules,
		.meter = &b->meter,
		.rate = term->meter.rate,
		.capacity = term->capacity,
		.cost = s->cost,
		.n = n,
		.leave = has_headroom(plan, term) ? headroom(plan, term, s->cost * n) : 0,
		.from_ns = from_ns,
		.asks = !ask->dry && (s->floor_reason == QUOTA_SHARE_EXCEEDED ||
							  meter_fit(&b->meter, s->cost, 0) < n),
		.now_ns = now_ns,
		.wall_us = wall_us
	};

	return portion_wait(&b->portions, portion_at(s->portion), &call);
}

/* See floor.h. */
int64
floor_wait(const QuotaPlan *plan, const QuotaTerm *term, const QuotaAsk *ask,
		   const TermState *s, int n, int64 now_ns, TimestampTz wall_us)
{
	const QuotaBucket *b = &quota_buckets[s->bucket];
	bool		job = ask->is_job || ask->batch == QUOTA_BATCH_NEXT;
	int64		from_ns = has_headroom(plan, term) ? headroom_until(plan, term, s)
		: PG_INT64_MIN;
	int64		wait_ns;

	if (is_shared_out(term, s) && !job)
		return wait_for_share(plan, term, ask, s, n, from_ns, now_ns, wall_us);
	wait_ns = meter_wait(&b->meter, s->cost, n, has_headroom(plan, term)
						 ? headroom(plan, term, s->cost * n) : 0);
	return from_ns > now_ns ? Max(wait_ns, from_ns - now_ns) : wait_ns;
}

/* See floor.h. */
int64
floor_flight_until(const QuotaTerm *term, const TermState *s, int64 now_ns)
{
	const QuotaBucket *b = &quota_buckets[s->bucket];

	if (!is_shared_out(term, s))
		return PG_INT64_MIN;
	return portion_flight_until(&b->portions, portion_at(s->portion), &s->stand,
								&b->portion_rules, now_ns);
}

/* A call refused by this wants its share of what refused it. */
static bool
wants_share(QuotaReason reason)
{
	return reason == QUOTA_RATE_LIMITED || reason == QUOTA_CONCURRENCY_LIMITED ||
		reason == QUOTA_SHARE_EXCEEDED;
}

/* Something that is its own keeps it, or it can never be admitted. */
static bool
is_kept_otherwise(const QuotaPlan *plan, const TermState *states)
{
	for (int i = 0; i < plan->nterms; i++)
		if (states[i].reason != QUOTA_OK &&
			(plan->terms[i].own || states[i].behind ||
			 !(wants_share(states[i].reason) ||
			   states[i].reason == QUOTA_CLASS_RESERVED)))
			return true;
	return false;
}

/* See floor.h. */
void
floor_refused(const QuotaPlan *plan, const TermState *states, int n,
			  int64 now_ns)
{
	bool		otherwise = is_kept_otherwise(plan, states);

	for (int i = 0; i < plan->nterms; i++)
	{
		const TermState *s = &states[i];
		QuotaBucket *b = &quota_buckets[s->bucket];

		if (s->reason == QUOTA_OK || plan->terms[i].kind == QUOTA_ALLOWANCE ||
			s->reason == QUOTA_EXCEEDS_CAPACITY)
			continue;
		note_urgent(plan, b, now_ns);
		if (otherwise || s->portion == QUOTA_NO_INDEX || !wants_share(s->reason))
			continue;
		if (quota_is_rate(b->kind))
			portion_refuse(&b->portions, portion_at(s->portion),
						   plan->weight_milli, s->cost * n, now_ns);
		else
			portion_flight_refuse(&b->portions, portion_at(s->portion),
								  plan->weight_milli, s->cost * n, now_ns);
	}
}

/* See floor.h. */
uint32
floor_portion(const QuotaPlan *plan, const QuotaTerm *term, QuotaReason reason)
{
	QuotaKey	key = term->key;

	if (!term->is_portioned || !wants_share(reason))
		return QUOTA_NO_INDEX;
	quota_key_mix(&key, &plan->tenant_key);
	return quota_find_portion(&key, term->slot);
}

/* See floor.h. */
void
floor_await(uint32 portion, int64 units)
{
	const QuotaPortion *p = &quota_portions[portion];

	if (portion != QUOTA_NO_INDEX)
		portion_await(&quota_buckets[p->bucket].portions, portion_at(portion),
					  quota_tenants[p->tenant].weight_milli, units);
}

/* See floor.h. */
void
floor_taken(const QuotaPlan *plan, const QuotaTerm *term, const TermState *s,
			int n, int64 now_ns)
{
	QuotaBucket *b = &quota_buckets[s->bucket];

	if (s->portion == QUOTA_NO_INDEX)
		return;
	if (quota_is_rate(term->kind))
		portion_take(&b->portions, portion_at(s->portion), plan->weight_milli,
					 &term->portions, &s->stand, s->cost, n, now_ns);
	else
		portion_flight_take(&b->portions, portion_at(s->portion),
							plan->weight_milli, s->cost * n, now_ns);
}

/* ---- what becomes of it ---- */

/* See floor.h. */
void
floor_returned(uint32 portion, int64 units)
{
	if (portion != QUOTA_NO_INDEX)
		portion_return(&quota_buckets[quota_portions[portion].bucket].portions,
					   portion_at(portion), units);
}

/* See floor.h. */
void
floor_landed(uint32 portion, int64 units)
{
	if (portion != QUOTA_NO_INDEX)
		portion_flight_end(&quota_buckets[quota_portions[portion].bucket].portions,
						   portion_at(portion), units);
}
