/*
 * drain_time.c
 *		quota_drain_time(): how long until all that waits has been dispatched.
 *
 * By the limits alone: the jobs of each flow cost what the cost map says, and
 * what they cost is added up for every bucket they meet.  A rate is through when
 * what its level lacks has come back; a concurrency limit when its places
 * have been given back often enough (Little's law, with the mean latency measured);
 * an allowance when enough periods have begun.  The bucket that takes longest
 * decides.
 *
 * Jobs of suspended tenants don't count: they go on when an administrator says so.
 * What is paused begins when the pause ends, of an empty bucket where that leaves one.
 */
#include "flow_list.h"

#include "args.h"
#include "catalog.h"
#include "common/int.h"
#include "decide.h"
#include "job.h"
#include "latency.h"
#include "miscadmin.h"
#include "pause.h"
#include "utils/hsearch.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(quota_drain_time);

/* What has to go through one bucket. */
typedef struct Load
{
	QuotaKey	key;			/* hash key */
	uint8		kind;			/* QuotaKind */
	int64		capacity;
	int64		level;			/* units free now */
	Meter		meter;			/* of a rate */
	Calendar	calendar;		/* of an allowance, */
	int64		period_end_us;	/* and the end of its period */
	int64		cost;			/* of all jobs, at most INT64_MAX */
	int64		jobs;
	int64		from_ns;		/* all of them are paused until then; */
	bool		empty;			/* and then all that was saved up is gone */
	bool		impossible;		/* some job needs more than it ever holds */
} Load;

typedef struct Drain
{
	const char *provider;
	HTAB	   *loads;
	int64		jobs;			/* that count */
	int64		latency_ns;		/* mean, -1 = nothing measured */
	int64		now_ns;
	TimestampTz wall_us;
	int64		wait_ns;		/* the answer, QUOTA_NEVER = it never ends */
} Drain;

/* a + b x c, at most INT64_MAX; none is negative */
static int64
add_product(int64 a, int64 b, int64 c)
{
	int64		product;

	if (pg_mul_s64_overflow(b, c, &product) ||
		pg_add_s64_overflow(a, product, &a))
		return PG_INT64_MAX;
	return a;
}

/* What the bucket holds; a bucket that isn't there is full. */
static void
read_bucket(const Drain *d, Load *load, const QuotaTerm *term)
{
	QuotaBucket b;
	uint32		index;

	quota_lock(&quota_slots[term->slot].lock);
	index = quota_find_bucket(&term->key, term->slot);
	if (index != QUOTA_NO_INDEX)
		b = quota_buckets[index];
	LWLockRelease(&quota_slots[term->slot].lock);

	load->level = load->capacity;
	load->calendar = term->calendar;
	if (term->kind == QUOTA_ALLOWANCE)
		load->period_end_us = calendar_later(&load->calendar, d->wall_us, 1);
	if (quota_is_rate(term->kind))
		meter_init_full(&load->meter, &term->meter, d->now_ns, d->wall_us);
	if (index == QUOTA_NO_INDEX)
		return;
	load->level = load->capacity - b.used;
	if (term->kind == QUOTA_ALLOWANCE)
		load->period_end_us = b.period_end_us;
	if (quota_is_rate(term->kind))
		load->meter = b.meter;
	else if (term->kind == QUOTA_CONCURRENCY && b.unknown_until_ns > d->now_ns)
		load->level = 0;
}

/* So many calls, each at this cost, none of them before from_ns. */
static void
add_load(Drain *d, const QuotaTerm *term, int64 cost, int64 n, int64 from_ns, bool empty)
{
	bool		found;
	Load	   *load;

	if (cost == 0 || term->kind == QUOTA_BREAKER || !quota_term_binds(term))
		return;
	load = hash_search(d->loads, &term->key, HASH_ENTER, &found);
	if (!found)
	{
		memset((char *) load + sizeof(QuotaKey), 0,
			   sizeof(Load) - sizeof(QuotaKey));
		load->kind = term->kind;
		load->capacity = term->capacity;
		load->from_ns = QUOTA_NEVER;
		read_bucket(d, load, term);
	}
	load->from_ns = Min(load->from_ns, from_ns);
	load->empty |= empty;
	load->cost = add_product(load->cost, n, cost);
	load->jobs += n;
	load->impossible |= quota_is_rate(term->kind)
		? !meter_holds(&term->meter, cost, 1) : cost > term->capacity;
}

/* It ends no sooner than that. */
static void
not_before(Drain *d, int64 wait_ns)
{
	d->wait_ns = Max(d->wait_ns, wait_ns);
}

/* So many calls; false when they are not configured. */
static bool
add_flow(Drain *d, const QuotaCall *call, int64 n, bool *suspended)
{
	QuotaAsk	one = {0};
	TermState	states[QUOTA_MAX_TERMS];
	QuotaVerdict verdict;
	int64		from_ns;
	QuotaPlan  *plan = quota_plan(call, true);

	if (plan == NULL)
		return false;
	*suspended = plan->suspended;
	if (plan->suspended)
		return true;
	one.n = 1;
	one.dry = true;
	/* brings the buckets to now; what the plan costs is in its terms, too */
	plan = quota_examine(call, &one, states, &verdict);
	from_ns = verdict.npaused == 0 ? d->now_ns : pause_seen.hits[pause_seen.last].end_ns;
	not_before(d, from_ns == QUOTA_NEVER ? from_ns : from_ns - d->now_ns);
	for (int i = 0; i < plan->nterms; i++)
		add_load(d, &plan->terms[i], states[i].cost, n, from_ns, verdict.npaused > 0 &&
				 pause_seen.ends_ns[i] != PG_INT64_MIN);
	return true;
}

/* The jobs of one flow. */
static void
count_flow(Drain *d, const FlowInfo *info)
{
	QuotaCall	call = flow_info_call(info, d->provider);
	bool		suspended = false;

	if (!add_flow(d, &call, info->depth, &suspended))
		not_before(d, QUOTA_NEVER);
	if (suspended)
		return;
	d->jobs += info->depth;
	/* nothing in it is ready before */
	if (info->state == QUOTA_FLOW_PARKED && !info->blocked)
		not_before(d, info->at_ns == QUOTA_NEVER ? 0 : info->at_ns - d->now_ns);
}

/* ---- what one bucket takes ---- */

/* Until so many units have been taken of it, one after another. */
static int64
rate_wait(const Drain *d, const Load *load, int64 cost)
{
	Meter		meter = load->meter;
	int64		from_ns = Max(load->from_ns, d->now_ns);
	int64		wait_ns;

	if (from_ns == QUOTA_NEVER)
		return QUOTA_NEVER;
	meter_settle(&meter, from_ns,
				 d->wall_us + (from_ns - d->now_ns) / QUOTA_NS_PER_US);
	if (load->empty)
		meter_empty(&meter, from_ns);
	wait_ns = meter_drain(&meter, cost);
	return wait_ns >= QUOTA_NEVER - from_ns ? QUOTA_NEVER : from_ns - d->now_ns + wait_ns;
}

/* Until the last of so many jobs has its place. */
static int64
place_wait(const Drain *d, const Load *load, int64 jobs)
{
	int64		each = Max(load->cost / load->jobs, 1);
	int64		free_places = Max(load->level, 0) / each;

	if (jobs <= free_places || d->latency_ns < 0)
		return 0;
	return little_drain(jobs - free_places, Max(load->capacity / each, 1),
						d->latency_ns);
}

/* Until enough periods have begun. */
static int64
period_wait(const Drain *d, const Load *load, int64 cost)
{
	int64		more = cost - Max(load->level, 0);
	int64		periods = more / load->capacity + (more % load->capacity > 0);
	int64		until_us = load->period_end_us;
	int64		wait_ns;

	if (cost <= load->level)
		return 0;
	if (periods > 1)
		until_us = calendar_later(&load->calendar, until_us, periods - 1);
	if (until_us == CALENDAR_NEVER ||
		pg_mul_s64_overflow(until_us - d->wall_us, QUOTA_NS_PER_US, &wait_ns))
		return QUOTA_NEVER;
	return wait_ns;
}

/* Until all this, and its part of the extra jobs, has gone through. */
static int64
wait_of(const Drain *d, const Load *load, int64 extra)
{
	int64		cost = load->cost;
	int64		jobs = load->jobs;

	if (load->impossible)
		return QUOTA_NEVER;
	if (d->jobs > 0)
	{
		cost = little_scale(cost, d->jobs, extra);
		jobs = little_scale(jobs, d->jobs, extra);
	}
	if (quota_is_rate(load->kind))
		return rate_wait(d, load, cost);
	if (load->kind == QUOTA_CONCURRENCY)
		return place_wait(d, load, jobs);
	return period_wait(d, load, cost);
}

/* ---- the call ---- */

/* An empty table of loads. */
static HTAB *
make_loads(void)
{
	HASHCTL		control;

	control.keysize = sizeof(QuotaKey);
	control.entrysize = sizeof(Load);
	control.hcxt = CurrentMemoryContext;
	return hash_create("quota drain", 64, &control,
					   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

/* So many calls of nobody in particular, to no endpoint: limits all calls meet. */
static void
add_anybody(Drain *d, int64 n)
{
	QuotaCall	call = {0};
	QuotaPlan  *plan;

	call.provider = d->provider;
	plan = quota_plan_unchecked(&call);
	if (plan == NULL)
		return;
	for (int i = 0; i < plan->nterms; i++)
		if (plan->terms[i].wide)
			add_load(d, &plan->terms[i], plan->terms[i].cost, n, d->now_ns, false);
}

/* Adds up all that waits, and the extra jobs. */
static void
count_all(Drain *d, uint32 slot, int64 extra)
{
	FlowList	list;

	flow_list(slot, &list);
	d->now_ns = list.now_ns;
	d->wall_us = list.wall_us;
	for (int i = 0; i < list.n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		count_flow(d, &list.flow[i]);
	}
	/* like the average job that waits; else like a call to no endpoint */
	if (d->jobs == 0 && extra > 0)
		add_anybody(d, extra);
}

/* The mean latency of the slot. */
static int64
mean_latency(uint32 slot)
{
	Latency		latency;

	LWLockAcquire(&quota_slots[slot].lock, LW_SHARED);
	latency = quota_slots[slot].latency;
	LWLockRelease(&quota_slots[slot].lock);
	return latency_mean(&latency);
}

/* quota_drain_time(provider, extra_jobs): see its COMMENT. */
Datum
quota_drain_time(PG_FUNCTION_ARGS)
{
	Drain		d = {0};
	int32		extra;
	uint32		slot;
	HASH_SEQ_STATUS status;
	Load	   *load;
	Interval   *result;

	quota_enter_primary("quota_drain_time()");
	d.provider = quota_arg_provider(fcinfo, 0);
	extra = quota_arg_int32(fcinfo, 1, "extra_jobs", 0, PG_INT32_MAX);
	(void) job_load_counts();
	slot = quota_slot(MyDatabaseId, quota_catalog()->extension, d.provider);
	d.loads = make_loads();
	d.latency_ns = mean_latency(slot);
	count_all(&d, slot, extra);
	hash_seq_init(&status, d.loads);
	while ((load = hash_seq_search(&status)) != NULL)
		not_before(&d, wait_of(&d, load, extra));
	if (d.wait_ns == QUOTA_NEVER)
		PG_RETURN_NULL();
	result = palloc0(sizeof(Interval));
	result->time = quota_us_up(d.wait_ns);
	PG_RETURN_INTERVAL_P(result);
}
