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
 * Weights and what the rows of classes say are kept as of the last look at them.
 * Whoever changes a row marks what it concerns as stale at commit; whoever picks
 * reads what is stale first, and calls flow_set_weight() or flow_set_class().
 */
#include "asker.h"
#include "flow_gate.h"

#include "shed.h"

/* Weight of a tenant whose row has not been read yet */
#define UNKNOWN_WEIGHT_MILLI 1000

/* See flow.h. */
void
flow_slot_init(uint32 slot)
{
	QuotaSlot  *s = &quota_slots[slot];

	memset(s->classes, 0, sizeof(s->classes));
	for (int i = 0; i < QUOTA_MAX_CLASSES; i++)
	{
		s->classes[i].heap.ph_compare = flow_compare_shares;
		s->classes[i].ages.ph_compare = flow_compare_ages;
	}
	memset(&s->order, 0, sizeof(s->order));
	s->nshares = 0;
	pg_atomic_write_u32(&s->pauses, 0);
	pg_atomic_write_u32(&s->pauses_read, 0);
	/* plans that knew another slot in this place must not match by chance */
	s->shares_made = (uint64) quota_now_ns();
	memset(&s->places, 0, sizeof(s->places));
	memset(&s->timers, 0, sizeof(s->timers));
	s->timers.ph_compare = flow_compare_timers;
	dlist_init(&s->blocked);
	flow_gate_slot_init(slot);
	flow_open(slot);
	dlist_init(&s->waiters);
	asker_slot_init(slot);
	memset(&s->latency, 0, sizeof(s->latency));
}

/* Index of the class in slot->classes, of a free place, or -1. */
static int
find_class(const QuotaSlot *s, const char *name)
{
	int			free = -1;

	for (int i = 0; i < QUOTA_MAX_CLASSES; i++)
	{
		if (!s->classes[i].used)
			free = free < 0 ? i : free;
		else if (strcmp(s->classes[i].name, name) == 0)
			return i;
	}
	return free;
}

/* Index of the class in slot->classes, -1 when all places are used. */
static int
get_class(uint32 slot, const char *name, int rank)
{
	QuotaSlot  *s = &quota_slots[slot];
	int			i = find_class(s, name);

	if (i < 0 || s->classes[i].used)
		return i;
	s->classes[i].used = true;
	class_set(&s->order, i, rank, 0);
	strlcpy(s->classes[i].name, name, QUOTA_NAME_LEN);
	s->stale_rules++;
	return i;
}

/* See flow.h. */
bool
flow_has_class_room(uint32 slot, const QuotaPlan *plan)
{
	return find_class(&quota_slots[slot], plan->class_name) >= 0;
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
	quota_slots[slot].classes[class_index].nshares++;
	quota_slots[slot].nshares++;
	quota_slots[slot].shares_made++;
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
	flow->waits_for = QUOTA_NO_INDEX;
	flow->line = QUOTA_NO_INDEX;
	flow->since_ns = FLOW_SINCE_UNKNOWN;
	position_init(&flow->position);
	/* a scan of a forgotten flow in this place must not match by chance */
	flow->position.epoch = (uint64) quota_now_ns();
	if (plan->endpoint)
		strlcpy(flow->endpoint, plan->endpoint, QUOTA_NAME_LEN);
	quota_shares[share].nflows++;
	flow_mark_new(index);
	return index;
}

/* n jobs more, or less, are unfinished. */
static void
count_unfinished(QuotaPlaces *places, int64 n)
{
	places->unfinished += n;
	if (n < 0)
		pace_freed(&places->pace, -n, quota_now_ns());
}

/* See flow.h. */
void
flow_count(QuotaFlow *flow, int64 depth, int64 in_flight)
{
	int64		n = depth + in_flight;

	flow->depth += depth;
	flow->in_flight += in_flight;
	flow->counted++;
	if (n == 0)
		return;
	count_unfinished(&tenant_of(share_of(flow))->places, n);
	count_unfinished(&slot_of(flow)->places, n);
}

/* See flow.h. */
void
flow_add_places(QuotaFlow *flow, int64 n)
{
	tenant_of(share_of(flow))->places.open += n;
	slot_of(flow)->places.open += n;
}

/* See flow.h. */
void
flow_set_count(QuotaFlow *flow, int64 depth, int64 in_flight)
{
	int64		n = depth + in_flight - flow->depth - flow->in_flight;

	flow->depth = depth;
	flow->in_flight = in_flight;
	flow->counted++;
	tenant_of(share_of(flow))->places.unfinished += n;
	slot_of(flow)->places.unfinished += n;
}

/* The tenant's weight has changed: reprices its place in every class. */
void
flow_set_weight(uint32 tenant, int64 weight_milli)
{
	dlist_iter	iter;

	quota_tenants[tenant].weight_milli = weight_milli;
	dlist_foreach(iter, &quota_tenants[tenant].shares)
	{
		QuotaShare *share = dlist_container(QuotaShare, tenant_node, iter.cur);

		flow_share_unlink(share);
		fair_reweigh(&share->tag, &class_of(share)->clock, weight_milli);
		flow_share_relink(share);
	}
	flow_line_reweigh(tenant);
}

/* What the row of a class says now. */
void
flow_set_class(uint32 slot, int class_index, const QuotaClassRules *rules)
{
	QuotaSlot  *s = &quota_slots[slot];

	class_set(&s->order, class_index, rules->rank, rules->reserve_milli);
	s->classes[class_index].max_wait_ns = rules->max_wait_ns;
}

/* ---- forgetting ---- */

/* It has no unfinished job, and no open transaction gives it one. */
static bool
flow_is_forgettable(QuotaFlow *flow)
{
	return flow->depth == 0 && flow->in_flight == 0 &&
		pg_atomic_read_u32(&flow->pins) == 0;
}

/*
 * Its tag says nothing any more: joining would set it to the clock anyway, or
 * its class has no flows, so that nobody is ahead of anybody.
 */
static bool
share_is_forgettable(QuotaShare *share, const QuotaClass *class,
					 bool class_is_busy)
{
	return share->nflows == 0 && pg_atomic_read_u32(&share->pins) == 0 &&
		!shed_needs(share) && (!class_is_busy || share->tag.start <= class->clock.now);
}

/* Nobody names it, it pays for no bucket, and it is in no list. */
static bool
tenant_is_forgettable(QuotaTenant *tenant)
{
	return !tenant->stale && pg_atomic_read_u32(&tenant->nbuckets) == 0 &&
		pg_atomic_read_u32(&tenant->pins) == 0;
}

/* Removes what flow_is_forgettable(); how many. */
static int
reclaim_flows(uint32 slot)
{
	int			n = 0;

	for (uint32 i = 0; i < (uint32) quota_max_flows; i++)
	{
		QuotaFlow  *flow = &quota_flows[i];

		if (!quota_owned(&flow->entry, slot) || !flow_is_forgettable(flow))
			continue;
		flow_set_waiting(flow, QUOTA_NEVER);
		share_of(flow)->nflows--;
		quota_remove_flow(i);
		n++;
	}
	return n;
}

/* Removes what share_is_forgettable(); how many. */
static int
reclaim_shares(uint32 slot)
{
	QuotaClass *classes = quota_slots[slot].classes;
	bool		busy[QUOTA_MAX_CLASSES] = {false};
	int			n = 0;

	for (uint32 i = 0; i < (uint32) quota_max_flows; i++)
		if (quota_owned(&quota_shares[i].entry, slot) && quota_shares[i].nflows > 0)
			busy[quota_shares[i].class_index] = true;
	for (uint32 i = 0; i < (uint32) quota_max_flows; i++)
	{
		QuotaShare *share = &quota_shares[i];
		uint32		class = share->class_index;

		if (!quota_owned(&share->entry, slot) ||
			!share_is_forgettable(share, &classes[class], busy[class]))
			continue;
		dlist_delete(&share->tenant_node);
		pg_atomic_fetch_sub_u32(&tenant_of(share)->pins, 1);
		classes[class].nshares--;
		quota_slots[slot].nshares--;
		quota_remove_share(i);
		n++;
	}
	return n;
}

/* Frees places of classes without shares; how many. */
static int
reclaim_classes(uint32 slot)
{
	int			n = 0;

	for (int i = 0; i < QUOTA_MAX_CLASSES; i++)
	{
		QuotaClass *class = &quota_slots[slot].classes[i];

		if (!class->used || class->nshares > 0)
			continue;
		memset(&class->clock, 0, sizeof(class->clock));
		class_forget(&quota_slots[slot].order, i);
		class->max_wait_ns = 0;
		class->used = false;
		n++;
	}
	return n;
}

/* Removes what tenant_is_forgettable(); how many. */
static int
reclaim_tenants(uint32 slot)
{
	int			n = 0;

	for (uint32 i = 0; i < (uint32) quota_max_tenants; i++)
	{
		if (!quota_owned(&quota_tenants[i].entry, slot) ||
			!tenant_is_forgettable(&quota_tenants[i]))
			continue;
		quota_remove_tenant(i);
		n++;
	}
	return n;
}

/* See flow.h. */
int
flow_reclaim(uint32 slot)
{
	int			n = flow_queue_is_counted(slot) ? reclaim_flows(slot) : 0;

	n += reclaim_shares(slot) + flow_line_reclaim(slot);
	n += reclaim_classes(slot);
	return n + reclaim_tenants(slot);
}
