/*
 * flow.c
 *		Tenants, shares and flows in shared memory: creating, finding and
 *		forgetting them.
 *
 * A flow is the ready work of one tenant, class and endpoint; the flows of one
 * tenant and class make up a share, and shares are what is fair between
 * (flow_order.c).  A flow remembers where its next job may be
 * (flow_position.c), never a job.
 *
 * OWNERSHIP.  A share pins its tenant; flows keep their share by its count
 * nflows; the journal pins flows.  Everything belongs to one slot and is
 * protected by its lock.
 *
 * Weights and ranks are kept as of the last look at the rows.  Whoever changes
 * a row marks what it concerns as stale at commit; whoever picks reads what is
 * stale first, and calls flow_set_weight() or flow_set_rank().
 */
#include "flow.h"

/* Weight of a tenant whose row has not been read yet */
#define UNKNOWN_WEIGHT_MILLI 1000

/* See flow.h. */
void
flow_slot_init(uint32 slot)
{
	QuotaSlot  *s = &quota_slots[slot];

	memset(s->classes, 0, sizeof(s->classes));
	for (int i = 0; i < QUOTA_MAX_CLASSES; i++)
		s->classes[i].heap.ph_compare = flow_compare_shares;
	memset(&s->timers, 0, sizeof(s->timers));
	s->timers.ph_compare = flow_compare_timers;
	dlist_init(&s->blocked);
}

/* Index of the class in slot->classes, -1 when all places are used. */
static int
get_class(uint32 slot, const char *name, int rank)
{
	QuotaSlot  *s = &quota_slots[slot];
	int			i;

	for (i = 0; i < QUOTA_MAX_CLASSES && s->classes[i].used; i++)
		if (strcmp(s->classes[i].name, name) == 0)
			return i;
	if (i == QUOTA_MAX_CLASSES)
		return -1;
	s->classes[i].used = true;
	s->classes[i].rank = rank;
	strlcpy(s->classes[i].name, name, QUOTA_NAME_LEN);
	s->stale_all = true;
	return i;
}

/* The tenant at this provider; QUOTA_NO_INDEX when the table is full. */
static uint32
get_tenant(uint32 slot, const QuotaPlan *plan)
{
	uint32		index = quota_find_tenant(&plan->tenant_key, slot);
	QuotaTenant *t;

	if (index != QUOTA_NO_INDEX)
		return index;
	index = quota_create_tenant(&plan->tenant_key, slot);
	if (index == QUOTA_NO_INDEX)
		return index;
	t = &quota_tenants[index];
	strlcpy(t->name, plan->tenant, QUOTA_NAME_LEN);
	t->weight_milli = plan->weight_milli;
	t->stale = true;
	t->stale_next = quota_slots[slot].stale_tenants;
	quota_slots[slot].stale_tenants = index;
	return index;
}

/* The tenant's share in the class; QUOTA_NO_INDEX when a table is full. */
static uint32
get_share(uint32 slot, const QuotaPlan *plan)
{
	uint32		index = quota_find_share(&plan->share_key, slot);
	int			class_index;
	uint32		tenant;
	QuotaShare *share;
	int64		weight;

	if (index != QUOTA_NO_INDEX)
		return index;
	class_index = get_class(slot, plan->class_name, plan->rank);
	tenant = get_tenant(slot, plan);
	if (class_index < 0 || tenant == QUOTA_NO_INDEX)
		return QUOTA_NO_INDEX;
	index = quota_create_share(&plan->share_key, slot);
	if (index == QUOTA_NO_INDEX)
		return index;
	share = &quota_shares[index];
	share->tenant = tenant;
	share->class_index = (uint32) class_index;
	share->flows.ph_compare = flow_compare_flows;
	weight = quota_tenants[tenant].weight_milli;
	fair_set_weight(&share->tag, weight > 0 ? weight : UNKNOWN_WEIGHT_MILLI);
	dlist_push_tail(&quota_tenants[tenant].shares, &share->tenant_node);
	pg_atomic_fetch_add_u32(&quota_tenants[tenant].pins, 1);
	return index;
}

/* See flow.h. */
uint32
flow_get(uint32 slot, const QuotaPlan *plan, int64 hash)
{
	uint32		index = quota_find_flow(&plan->flow_key, slot);
	uint32		share;
	QuotaFlow  *flow;

	if (index != QUOTA_NO_INDEX)
		return index;
	share = get_share(slot, plan);
	if (share == QUOTA_NO_INDEX)
		return share;
	index = quota_create_flow(&plan->flow_key, slot);
	if (index == QUOTA_NO_INDEX)
		return index;
	flow = &quota_flows[index];
	flow->share = share;
	flow->hash = hash;
	flow->state = QUOTA_FLOW_IDLE;
	flow->reason = QUOTA_EMPTY;
	flow->wake_ns = QUOTA_NEVER;
	position_init(&flow->position);
	/* a scan of a forgotten flow in this place must not match by chance */
	flow->position.epoch = (uint64) quota_now_ns();
	if (plan->endpoint)
		strlcpy(flow->endpoint, plan->endpoint, QUOTA_NAME_LEN);
	quota_shares[share].nflows++;
	return index;
}

/* The tenant's weight has changed: reprices its place in every class. */
void
flow_set_weight(uint32 slot, uint32 tenant, int64 weight_milli)
{
	dlist_iter	iter;

	quota_tenants[tenant].weight_milli = weight_milli;
	dlist_foreach(iter, &quota_tenants[tenant].shares)
	{
		QuotaShare *share = dlist_container(QuotaShare, tenant_node, iter.cur);

		flow_share_unlink(share);
		fair_set_weight(&share->tag, weight_milli);
		flow_share_relink(share);
	}
}

/* The rank of a class has changed. */
void
flow_set_rank(uint32 slot, int class_index, int rank)
{
	quota_slots[slot].classes[class_index].rank = rank;
}

/* ---- forgetting ---- */

static bool
flow_is_forgettable(QuotaFlow *flow)
{
	return flow->state == QUOTA_FLOW_IDLE && flow->depth == 0 &&
		flow->in_flight == 0 &&
		pg_atomic_read_u32(&flow->pins) == 0;
}

/* Its tag says nothing any more: joining would set it to the clock anyway. */
static bool
share_is_forgettable(const QuotaSlot *slot, const QuotaShare *share)
{
	return share->nflows == 0 &&
		share->tag.start <= slot->classes[share->class_index].clock.now;
}

static bool
tenant_is_forgettable(QuotaTenant *tenant)
{
	return !tenant->stale && pg_atomic_read_u32(&tenant->nbuckets) == 0 &&
		pg_atomic_read_u32(&tenant->pins) == 0;
}

/* See flow.h. */
int
flow_reclaim(uint32 slot)
{
	int			n = 0;

	for (uint32 i = 0; i < (uint32) quota_max_flows; i++)
	{
		QuotaFlow  *flow = &quota_flows[i];

		if (!flow->entry.used || flow->entry.owner != slot ||
			!flow_is_forgettable(flow))
			continue;
		quota_shares[flow->share].nflows--;
		quota_remove_flow(i);
		n++;
	}
	for (uint32 i = 0; i < (uint32) quota_max_flows; i++)
	{
		QuotaShare *share = &quota_shares[i];

		if (!share->entry.used || share->entry.owner != slot ||
			!share_is_forgettable(&quota_slots[slot], share))
			continue;
		dlist_delete(&share->tenant_node);
		pg_atomic_fetch_sub_u32(&quota_tenants[share->tenant].pins, 1);
		quota_remove_share(i);
		n++;
	}
	for (uint32 i = 0; i < (uint32) quota_max_tenants; i++)
	{
		QuotaTenant *tenant = &quota_tenants[i];

		if (!tenant->entry.used || tenant->entry.owner != slot ||
			!tenant_is_forgettable(tenant))
			continue;
		quota_remove_tenant(i);
		n++;
	}
	return n;
}
