/*
 * permit.c
 *		The permit table: admitted calls that still have something to settle.
 *
 * STATES
 *
 *		FREE -> OPEN		permit_take(), in a decision
 *		FREE -> LIVE		permit_restore(), or from the state file
 *		OPEN -> LIVE		the taking transaction commits
 *		OPEN -> FREE		it aborts: everything returns
 *		LIVE -> FREE		a settling transaction commits, or lifetime over
 *		any -> EXPIRED		lifetime over while a transaction's chain still leads
 *							through the permit; that transaction frees it
 *
 * "marked" says that an open transaction will settle it; abort clears the mark.
 *
 * Expiry is a predicate on the clock: permit_expire() runs at the head of every
 * decision, under the lock, and takes off everything that is due, so nothing
 * depends on a worker.  At expiry concurrency returns, whoever marked it; rate
 * tokens and credits do not.
 *
 * A part pins its bucket, the permit pins its tenant, so the indexes in a permit
 * stay good.
 *
 * LOCKS
 *
 * The fields of a permit are protected by its owner slot's lock; "linked", "node"
 * and the counting of a part by the lock of the bucket's owner, which is either
 * the same slot or, for a limit across providers, the database slot
 * (permit.database_slot is set then).  permit_lock() and the journal take both,
 * database slot first.  permit_expire() may be entered with the provider's lock
 * alone: there it tries the database slot's lock without waiting, and leaves the
 * permit for later when it can't have it; permit_bucket_expire(), called on every
 * bucket a decision looks at, has taken the due parts off by then anyway.
 */
#include "permit.h"

#include "asker.h"
#include "credit.h"
#include "event.h"
#include "floor.h"
#include "flow_gate.h"
#include "journal.h"
#include "mark.h"
#include "miscadmin.h"
#include "waiter.h"

/* Heap order: the first is the one that expires first. */
static int
later(int64 a, int64 b)
{
	return a < b ? 1 : a > b ? -1 : 0;
}

/* Permits of a slot: the first to end on top. */
static int
compare_permits(const pairingheap_node *a, const pairingheap_node *b,
				void *arg)
{
	return later(pairingheap_const_container(QuotaPermit, node, a)->expires_ns,
				 pairingheap_const_container(QuotaPermit, node, b)->expires_ns);
}

/* When the permit of a part ends. */
static int64
part_expires(const pairingheap_node *node)
{
	return quota_permits[pairingheap_const_container(QuotaPart, node,
													 node)->permit].expires_ns;
}

/* Parts in a bucket: the first to end on top. */
static int
compare_parts(const pairingheap_node *a, const pairingheap_node *b, void *arg)
{
	return later(part_expires(a), part_expires(b));
}

/* An empty heap. */
static void
heap_init(pairingheap *heap, pairingheap_comparator compare)
{
	heap->ph_compare = compare;
	heap->ph_arg = NULL;
	heap->ph_root = NULL;
}

/* See permit.h. */
void
permit_slot_init(uint32 slot)
{
	heap_init(&quota_slots[slot].permits, compare_permits);
}

/* See permit.h. */
void
permit_bucket_init(QuotaBucket *bucket)
{
	heap_init(&bucket->parts, compare_parts);
	floor_bucket_init(bucket);
	gate_bucket_init(bucket);
}

/* ---- parts ---- */

/* See permit.h. */
void
permit_order_part(QuotaPart *part)
{
	QuotaBucket *b = &quota_buckets[part->bucket];
	int64		end_ns = quota_permits[part->permit].expires_ns;

	b->last_end_ns = pairingheap_is_empty(&b->parts) ? end_ns : Max(b->last_end_ns, end_ns);
	pairingheap_add(&b->parts, &part->node);
}

/* The part is in flight or held, if its bucket counts such. */
void
permit_link_part(QuotaPart *part)
{
	if (quota_is_rate(part->kind) || part->shadow)
		return;
	part->linked = true;
	permit_order_part(part);
}

/* The part is no longer in flight, or no longer held. */
static void
unlink_part(QuotaPart *part)
{
	QuotaBucket *b = &quota_buckets[part->bucket];

	if (!part->linked)
		return;
	part->linked = false;
	pairingheap_remove(&b->parts, &part->node);
	if (part->kind == QUOTA_ALLOWANCE)
		b->held -= part->amount;
	else
	{
		b->used -= part->amount;
		floor_landed(part->portion, part->amount);
	}
}

/* The permit has expired, and its hold is open until an entry resolves it. */
static void
loosen_part(QuotaPart *part)
{
	QuotaBucket *b = &quota_buckets[part->bucket];

	if (part->linked && part->kind == QUOTA_ALLOWANCE)
	{
		b->loose += part->amount;
		if (!quota_permits[part->permit].refunds)
			b->overdue += part->amount;
	}
	unlink_part(part);
}

/* See permit.h. */
void
permit_loose_resolved(QuotaBucket *b, int64 n, bool overdue)
{
	b->loose -= n;
	/* of one that was loose from the beginning it was not known */
	if (overdue)
		b->overdue = Max(b->overdue - n, 0);
}

/* n units of what an expired permit held are resolved. */
void
permit_end_loose(const QuotaPart *part, int64 n)
{
	QuotaBucket *b = &quota_buckets[part->bucket];

	if (!part->linked && permit_is_credit(part) &&
		b->period_start_us == part->period_us)
		permit_loose_resolved(b, n, !quota_permits[part->permit].refunds);
}

/* Takes off what is due; called on every bucket a decision looks at. */
void
permit_bucket_expire(uint32 bucket, int64 now_ns)
{
	pairingheap *parts = &quota_buckets[bucket].parts;

	while (!pairingheap_is_empty(parts) &&
		   part_expires(pairingheap_first(parts)) <= now_ns)
	{
		QuotaPart  *part = pairingheap_container(QuotaPart, node,
												 pairingheap_first(parts));

		loosen_part(part);
		if (quota_buckets[bucket].kind == QUOTA_CONCURRENCY)
			permit_bucket_opened(bucket, 0);
		else if (quota_permits[part->permit].refunds)
			credit_look_again(&quota_buckets[bucket], false);
	}
}

/* A new period: what was held in the old one is no part of it. */
void
permit_bucket_roll(uint32 bucket)
{
	pairingheap *parts = &quota_buckets[bucket].parts;

	while (!pairingheap_is_empty(parts))
		unlink_part(pairingheap_container(QuotaPart, node,
										  pairingheap_first(parts)));
}

/* When the first part in flight or held ends; QUOTA_NEVER when there is none. */
int64
permit_bucket_first_end(const QuotaBucket *bucket)
{
	if (pairingheap_is_empty(&bucket->parts))
		return QUOTA_NEVER;
	return part_expires(pairingheap_first((pairingheap *) &bucket->parts));
}

/* See permit.h. */
void
permit_bucket_opened(uint32 bucket, uint64 parkings)
{
	QuotaBucket *b = &quota_buckets[bucket];
	uint32		slot = b->entry.owner;

	asker_wake(bucket);
	if (quota_slots[slot].provider[0] == '\0')
	{
		across_note(bucket, parkings);
		return;
	}
	/* For a wide limit flows wait READY, but for classes with headroom. */
	if (b->scope == QUOTA_SCOPE_WIDE && b->kind != QUOTA_ALLOWANCE)
		flow_open_since(slot, bucket, parkings);
	waiter_together(true);
	flow_gate_opened(&b->gate, parkings);
	waiter_together(false);
}

/* ---- life of a permit ---- */

/* Back to the free list. */
void
permit_free(uint32 index)
{
	QuotaPermit *p = &quota_permits[index];

	for (int i = 0; i < p->nparts; i++)
	{
		floor_unpin(p->parts[i].portion);
		pg_atomic_fetch_sub_u32(&quota_buckets[p->parts[i].bucket].pins, 1);
	}
	if (p->tenant != QUOTA_NO_INDEX)
	{
		pg_atomic_fetch_sub_u32(&quota_tenants[p->tenant].npermits, 1);
		pg_atomic_fetch_sub_u32(&quota_tenants[p->tenant].pins, 1);
	}
	quota_free_permit(index);
}

/*
 * Out of the order of expiry, with all its parts.  What was held of an allowance
 * stays used: returning it is another thing.  resolved: an entry has ended its hold,
 * or will never have been; else that stays open.
 */
void
permit_unlink(QuotaPermit *p, uint64 parkings, bool resolved)
{
	if (p->state != QUOTA_PERMIT_EXPIRED)
		pairingheap_remove(&quota_slots[p->owner].permits, &p->node);
	for (int i = 0; i < p->nparts; i++)
	{
		if (resolved)
			permit_end_loose(&p->parts[i], p->parts[i].amount);
		if (!p->parts[i].linked)
			continue;
		if (resolved)
			unlink_part(&p->parts[i]);
		else
			loosen_part(&p->parts[i]);
		if (p->parts[i].kind == QUOTA_CONCURRENCY)
			permit_bucket_opened(p->parts[i].bucket, parkings);
		else					/* who hopes that it returns learns otherwise */
			asker_wake(p->parts[i].bucket);
	}
}

/* Its lifetime is over. */
static void
expire(uint32 index)
{
	QuotaPermit *p = &quota_permits[index];
	QuotaSlot  *slot = &quota_slots[p->owner];
	char		detail[64];

	permit_unlink(p, 0, false);
	if (permit_is_idle(p))
	{
		snprintf(detail, sizeof(detail), "permit " INT64_FORMAT, p->id);
		permit_lapsed(p);
		quota_event(slot->database, "lost_permit", slot->provider,
					p->tenant == QUOTA_NO_INDEX ? ""
					: quota_tenants[p->tenant].name, detail);
		permit_free(index);
		return;
	}
	p->state = QUOTA_PERMIT_EXPIRED;
}

/* See permit.h. */
void
permit_expire(uint32 slot, int64 now_ns)
{
	pairingheap *permits = &quota_slots[slot].permits;

	while (!pairingheap_is_empty(permits))
	{
		QuotaPermit *p = pairingheap_container(QuotaPermit, node,
											   pairingheap_first(permits));
		LWLock	   *also = p->database_slot == QUOTA_NO_INDEX ? NULL
			: &quota_slots[p->database_slot].lock;

		if (p->expires_ns > now_ns)
			break;
		if (also && LWLockHeldByMe(also))
			also = NULL;
		if (also && !LWLockConditionalAcquire(also, LW_EXCLUSIVE))
			break;
		expire((uint32) (p - quota_permits));
		if (also)
			LWLockRelease(also);
	}
}

/* An id that no other permit has, or will have before the serial wraps. */
int64
permit_new_id(uint32 index)
{
	uint64		serial = pg_atomic_fetch_add_u64(&quota_shared->permit_serial, 1);
	const int	serial_bits = 63 - QUOTA_PERMIT_INDEX_BITS;

	serial &= (UINT64CONST(1) << serial_bits) - 1;
	return (int64) ((serial << QUOTA_PERMIT_INDEX_BITS) | index);
}

/* See permit.h. */
void
permit_start(uint32 index, int64 id, QuotaPermitState state, uint32 slot,
			 uint32 tenant, int64 now_ns, int64 lifetime_ns)
{
	QuotaPermit *p = &quota_permits[index];

	p->owner = slot;
	p->database_slot = QUOTA_NO_INDEX;
	p->alias = 0;
	p->state = state;
	p->taken = state == QUOTA_PERMIT_OPEN;
	p->marked = false;
	p->has_hold = false;
	p->refunds = false;
	p->ended = false;
	p->restored = false;
	p->spent = false;
	p->is_batch = false;
	p->asked_ns = 0;
	p->nparts = 0;
	p->n = 1;
	p->giving = 0;
	p->job = 0;
	p->expires_ns = now_ns + lifetime_ns;
	p->lifetime_ns = lifetime_ns;
	p->tenant = tenant;
	p->endpoint[0] = '\0';
	p->taker_pid = MyProcPid;
	if (tenant != QUOTA_NO_INDEX)
	{
		pg_atomic_fetch_add_u32(&quota_tenants[tenant].pins, 1);
		pg_atomic_fetch_add_u32(&quota_tenants[tenant].npermits, 1);
	}
	pairingheap_add(&quota_slots[slot].permits, &p->node);
	/* who reads the id without a lock must find the owner already there */
	pg_write_barrier();
	p->id = id;
}

/* See permit.h; racy reads will do. */
bool
permit_has_part(uint32 tenant)
{
	uint32		size = (uint32) quota_max_permits;
	uint32		in_use = quota_shared->permits_used;

	return in_use >= size / 4 * 3 && in_use < size &&
		pg_atomic_read_u32(&quota_tenants[tenant].npermits) >= size - in_use;
}

/* See permit.h. */
uint32
permit_take(uint32 slot, uint32 tenant, int32 n, int64 now_ns,
			int64 lifetime_ns, bool optional)
{
	uint32		index = quota_alloc_permit(optional);

	if (index == QUOTA_NO_INDEX)
		return index;
	permit_start(index, permit_new_id(index), QUOTA_PERMIT_OPEN, slot, tenant, now_ns,
				 lifetime_ns);
	quota_permits[index].n = n;
	journal_permit_taken(index);
	return index;
}

/* See permit.h. */
void
permit_add_part(uint32 permit, const QuotaTerm *term, uint32 bucket,
				uint32 portion, int64 amount)
{
	QuotaPermit *p = &quota_permits[permit];
	QuotaBucket *b = &quota_buckets[bucket];
	QuotaPart  *part = &p->parts[p->nparts++];

	memset(part, 0, sizeof(*part));
	part->bucket = bucket;
	part->permit = permit;
	part->portion = portion;
	floor_pin(portion);
	part->kind = b->kind;
	part->shadow = b->kind == QUOTA_ALLOWANCE && quota_term_is_shadow(term);
	part->amount = amount;
	part->each = p->is_batch ? amount : amount / Max(p->n, 1);
	part->unit_hash = term->unit_hash;
	part->final = amount;
	pg_atomic_fetch_add_u32(&b->pins, 1);
	if (b->entry.owner != p->owner)
		p->database_slot = b->entry.owner;
	if (quota_is_rate(b->kind))
	{
		meter_take(&b->meter, &part->take, amount);
		mark_take(bucket, amount);
	}
	else if (part->shadow)
		b->shadow_used += amount;
	else if (b->kind == QUOTA_CONCURRENCY)
		b->used += amount;
	/* a grant must not expire between the decision's look and the charge */
	if (b->kind == QUOTA_ALLOWANCE)
		part->charged_us = credit_instant(b, b->grants != QUOTA_NO_INDEX ? b->seen_us
										  : quota_wall_us());
	part->period_us = b->period_start_us;
	if (permit_is_credit(part))
	{
		credit_count(b, part->charged_us, amount);
		b->held += amount;
		p->has_hold = true;
	}
	permit_link_part(part);
}
