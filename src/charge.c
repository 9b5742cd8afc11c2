/*
 * charge.c
 *		What a yes takes: from buckets, in permits, in the journal.
 *
 * A call that meets only rates is charged in the journal, merged per
 * bucket, and leaves no permit.  Any other is charged in the parts of a permit,
 * which the journal holds by a chain.  Of a batch, concurrency is charged once, in a
 * permit of its own.
 *
 * Everything here runs under the plan's slot locks, in the section that decided,
 * and neither allocates nor throws: journal_reserve() was called before.
 */
#include "charge.h"

#include "asker.h"
#include "enforce.h"
#include "floor.h"
#include "journal.h"
#include "learn.h"
#include "mark.h"
#include "permit.h"
#include "spread.h"
#include "worker.h"

/* Of a permit whose call met no limit with a lifetime. */
#define DEFAULT_LIFETIME_NS (60 * QUOTA_NS_PER_S)

/* The permit of the batch is charged for the term, not that of the job. */
static bool
is_of_batch(const QuotaTerm *term, const QuotaAsk *ask)
{
	return ask->batch != QUOTA_BATCH_NONE && term->kind == QUOTA_CONCURRENCY;
}

/*
 * The limit wants to know when the call ends, or writes what it holds; *needs: and
 * it can't do without.  A call beyond a soft limit of concurrency must not take the
 * last permits from those that have room: then it goes on uncounted.
 */
static bool
term_wants_permit(const QuotaTerm *term, const TermState *s, bool *needs)
{
	if (s->cost == 0 || quota_is_rate(term->kind) ||
		term->kind == QUOTA_BREAKER || quota_term_is_shadow(term))
		return false;
	*needs |= term->kind == QUOTA_ALLOWANCE || !s->over;
	return true;
}

/* There is something to settle later; *needs as above. */
static bool
wants_permit(const QuotaPlan *plan, const TermState *states,
			 const QuotaAsk *ask, bool *needs)
{
	bool		wants = ask->units != NULL;

	*needs = false;
	if (!wants && !plan->gives_permit)
		return false;
	for (int i = 0; i < plan->nterms; i++)
		if (!is_of_batch(&plan->terms[i], ask))
			wants |= term_wants_permit(&plan->terms[i], &states[i], needs);
	return wants;
}

/* The longest lifetime of the limits met, so that none is freed too early. */
static int64
permit_lifetime(const QuotaPlan *plan, const TermState *states,
				const QuotaAsk *ask)
{
	int64		lifetime = ask->lifetime_ns;

	if (lifetime > 0)
		return lifetime;
	for (int i = 0; i < plan->nterms; i++)
		if (states[i].charged && !quota_term_is_shadow(&plan->terms[i]))
			lifetime = Max(lifetime, plan->terms[i].lifetime_ns);
	return lifetime > 0 ? lifetime : DEFAULT_LIFETIME_NS;
}

/*
 * The permit of a new batch, if some limit wants one; false when the table is full.
 */
static bool
take_batch(const QuotaPlan *plan, const TermState *states,
		   const QuotaAsk *ask, int64 now_ns, QuotaVerdict *v)
{
	bool		wanted = false;

	for (int i = 0; ask->batch == QUOTA_BATCH_FIRST && i < plan->nterms; i++)
		wanted |= states[i].charged && is_of_batch(&plan->terms[i], ask) &&
			!quota_term_is_shadow(&plan->terms[i]);
	if (!wanted)
		return true;
	v->batch_index = permit_take(plan->slot, plan->tenant_index, 0, now_ns,
								 permit_lifetime(plan, states, ask), false);
	if (v->batch_index == QUOTA_NO_INDEX)
		return false;
	permit_batch_start(v->batch_index);
	v->batch = quota_permits[v->batch_index].id;
	quota_work_due(plan->database_slot, quota_permits[v->batch_index].expires_ns);
	return true;
}

/*
 * Charges one term for n calls, to the permit unless that is QUOTA_NO_INDEX; alone as
 * in journal_take().  False when it does not count them: a shadow that would not have
 * admitted them, and concurrency without a permit, as nothing would tell their end.
 */
static bool
charge_term(const QuotaTerm *term, const TermState *s, uint32 permit, int n,
			bool alone)
{
	int64		units = enforce_charge(term, s, n);

	if (units < 0)
		return false;
	if (permit != QUOTA_NO_INDEX)
		permit_add_part(permit, term, s->bucket, s->portion, units);
	else if (quota_is_rate(term->kind))
		journal_take(s->bucket, s->portion, units, alone);
	else if (term->kind == QUOTA_ALLOWANCE)
		journal_shadow(s->bucket, units, alone);
	else
		return false;
	return true;
}

/* n first attempts: retries that wait for some may be in the budget now. */
static void
count_first(uint32 bucket, int n, bool alone)
{
	journal_first(bucket, n, alone);
	if (meter_level(&quota_buckets[bucket].meter) > 0)
		asker_wake(bucket);
}

/* The names of a direct call. */
static QuotaCallNames
names_of(const QuotaPlan *plan, const QuotaAsk *ask)
{
	QuotaCallNames names = plan->names;

	names.user = quota_name_hash(ask->user);
	names.connection = quota_name_hash(ask->connection);
	names.resource = quota_name_hash(ask->resource);
	return names;
}

/* See charge.h. */
bool
quota_charge(QuotaPlan *plan, const TermState *states, const QuotaAsk *ask, int n,
			 int64 now_ns, QuotaVerdict *v)
{
	bool		alone = ask->is_job || ask->batch != QUOTA_BATCH_NONE;
	bool		needs;
	uint32		permit = QUOTA_NO_INDEX;
	bool		recorded;

	if (!take_batch(plan, states, ask, now_ns, v))
		return false;
	if (wants_permit(plan, states, ask, &needs) &&
		(alone || !permit_has_part(plan->tenant_index)))
		permit = permit_take(plan->slot, plan->tenant_index, n, now_ns,
							 permit_lifetime(plan, states, ask), !needs);
	if (permit == QUOTA_NO_INDEX && needs)
		return false;
	recorded = permit == QUOTA_NO_INDEX && !alone;
	if (recorded)
		journal_call_begin();
	for (int i = 0; i < plan->nterms; i++)
	{
		const QuotaTerm *term = &plan->terms[i];
		const TermState *s = &states[i];

		if (s->is_first)
			count_first(s->bucket, n, alone);
		if (term->kind == QUOTA_BREAKER && s->charged)
		{
			learn_took(s->bucket, permit, n, now_ns);
			continue;
		}
		if (!s->charged || s->is_first || (s->cost == 0 && permit == QUOTA_NO_INDEX))
			continue;
		if (!charge_term(term, s, is_of_batch(term, ask) ? v->batch_index : permit,
						 is_of_batch(term, ask) ? 1 : n, alone))
			continue;
		floor_taken(plan, term, s, is_of_batch(term, ask) ? 1 : n, now_ns);
		quota_buckets[s->bucket].admitted += s->cost * n;
		learn_charged(&quota_buckets[s->bucket], s->cost * n, now_ns);
		spread_end(&quota_buckets[s->bucket]);
		if (unlikely(term->slow))
			mark_wants_worker(plan->database_slot, s->bucket);
	}
	if (recorded)
	{
		const QuotaCallNames names = names_of(plan, ask);

		journal_call_end(&names);
	}
	if (permit != QUOTA_NO_INDEX)
	{
		quota_work_due(plan->database_slot, quota_permits[permit].expires_ns);
		if (plan->endpoint)
			strlcpy(quota_permits[permit].endpoint, plan->endpoint, QUOTA_NAME_LEN);
		v->permit = quota_permits[permit].id;
		v->permit_index = permit;
		v->has_hold = quota_permits[permit].has_hold;
		quota_permits[permit].refunds = plan->lost_refunds;
	}
	return true;
}
