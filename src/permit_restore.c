/*
 * permit_restore.c
 *		Permits that outlive the memory they were in: those of running jobs after
 *		a crash (their rows of quota.leases say so), and all of them after a clean
 *		restart (the state file says so).  Locks as in permit.c.
 */
#include "permit.h"

#include "decide.h"

/* See permit.h. */
void
permit_relink(uint32 index)
{
	QuotaPermit *p = &quota_permits[index];

	pairingheap_add(&quota_slots[p->owner].permits, &p->node);
	for (int i = 0; i < p->nparts; i++)
	{
		QuotaBucket *b = &quota_buckets[p->parts[i].bucket];

		if (b->parts.ph_compare == NULL)
			permit_bucket_init(b);
		if (p->parts[i].linked)
			permit_link_part(&p->parts[i]);
	}
}

/* Buckets of the plan's concurrency terms; -1 when the table is full. */
static int
find_buckets(const QuotaPlan *plan, int64 now_ns, uint32 *buckets,
			 const QuotaTerm **terms)
{
	int			n = 0;

	for (int i = 0; i < plan->nterms; i++)
	{
		const QuotaTerm *term = &plan->terms[i];

		if (term->kind != QUOTA_CONCURRENCY || term->cost == 0 ||
			quota_term_is_shadow(term))
			continue;
		buckets[n] = quota_term_bucket(plan, term, now_ns, quota_wall_us());
		if (buckets[n] == QUOTA_NO_INDEX)
			return -1;
		terms[n++] = term;
	}
	return n;
}

/*
 * Recreates the permit, at the place its id names or elsewhere with that id as an
 * alias, unless it is there or over.  The plan's locks are held; false when a table
 * is full.
 */
static bool
restore(const QuotaPlan *plan, const PermitRecord *record, int64 now_ns)
{
	int64		id = record->id;
	uint32		index = (uint32) (id & ((1 << QUOTA_PERMIT_INDEX_BITS) - 1));
	bool		in_place;
	uint32		buckets[QUOTA_MAX_TERMS];
	const QuotaTerm *terms[QUOTA_MAX_TERMS];
	int			n;

	if (record->expires_ns <= now_ns || permit_is_known(id))
		return true;
	n = record->in_batch ? 0 : find_buckets(plan, now_ns, buckets, terms);
	if (n < 0)
		return false;
	in_place = index < (uint32) quota_max_permits &&
		quota_alloc_permit_at(index);
	if (!in_place)
		index = quota_alloc_permit(false);
	if (index == QUOTA_NO_INDEX)
		return false;
	permit_start(index, in_place ? id : permit_new_id(index),
				 QUOTA_PERMIT_LIVE, plan->slot, QUOTA_NO_INDEX, now_ns,
				 record->expires_ns - now_ns);
	if (!in_place)
		quota_alias_permit(index, id);
	quota_permits[index].job = record->job;
	quota_permits[index].restored = record->members == 0;
	if (record->members > 0)
	{
		permit_batch_start(index);
		quota_permits[index].n = record->members;
	}
	for (int i = 0; i < n; i++)
		permit_add_part(index, terms[i], buckets[i], QUOTA_NO_INDEX,
						terms[i]->cost);
	return true;
}

/* See permit.h; whatever the capacity is now, the call is in flight. */
void
permit_restore(const QuotaCall *call, const PermitRecord *record)
{
	QuotaPlan  *plan = quota_plan_unchecked(call);

	for (int try = 0; plan && try < 2; try++)
	{
		bool		done;

		quota_lock_plan(plan);
		done = restore(plan, record, quota_now_ns());
		quota_unlock_plan(plan);
		if (done)
			return;
		if (!quota_reclaim())
			break;
	}
	if (plan)
		quota_table_full("permit", "quota.max_permits", quota_max_permits);
}
