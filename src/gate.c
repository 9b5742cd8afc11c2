/*
 * gate.c
 *		Gates: who waits for a bucket, and when it opens by time.
 *
 * Every flow or line that waits for a bucket is in the lists of a gate of its own
 * provider's slot, under that slot's lock alone.  A bucket of the same slot contains
 * its gate.  A bucket of the database's slot, of a limit across providers, is waited
 * for in many: there each slot has a far gate, found by the bucket's key, which is
 * made when the first one waits and removed with the last.
 *
 * Of a far gate at least one flow waits, alone or in a line that is closed there, and
 * a flow waits once; so the table, which has as many places as that of flows, has
 * room whenever a flow is to be parked.
 *
 * A far gate may be removed by what happens while its lists are walked: a line that
 * opens makes a flow READY, which leaves all that it waited in.  Its place is
 * anybody's then, also another slot's.  Who walks keeps it, and removes it in the end.
 */
#include "flow_gate.h"

#include "waiter.h"

/* Gates of a slot by opens_ns: positive when a is to be on top. */
static int
compare_gates(const pairingheap_node *a, const pairingheap_node *b, void *arg)
{
	const QuotaGate *x = pairingheap_const_container(QuotaGate, node, a);
	const QuotaGate *y = pairingheap_const_container(QuotaGate, node, b);

	if (x->opens_ns == y->opens_ns)
		return 0;
	return x->opens_ns < y->opens_ns ? 1 : -1;
}

/* See flow_gate.h. */
void
gate_slot_init(uint32 slot)
{
	QuotaSlot  *s = &quota_slots[slot];

	memset(&s->gates, 0, sizeof(s->gates));
	s->gates.ph_compare = compare_gates;
}

/* An empty gate. */
static void
gate_init(QuotaGate *gate, uint32 slot, bool far)
{
	memset(gate, 0, sizeof(*gate));
	dlist_init(&gate->lines);
	dlist_init(&gate->blocked);
	gate->slot = slot;
	gate->far = far;
}

/* See flow_gate.h. */
void
gate_bucket_init(QuotaBucket *bucket)
{
	gate_init(&bucket->gate, bucket->entry.owner, false);
	pg_atomic_init_u32(&bucket->waiting_pins, 0);
}

/* See flow_gate.h. */
QuotaGate *
gate_find_far(const QuotaKey *key, uint32 slot)
{
	uint32		index = quota_find_far_gate(key, slot);

	return index == QUOTA_NO_INDEX ? NULL : &quota_far_gates[index].gate;
}

/* See flow_gate.h. */
QuotaGate *
gate_find(uint32 bucket, uint32 slot)
{
	QuotaBucket *b = &quota_buckets[bucket];

	if (b->entry.owner == slot)
		return &b->gate;
	return gate_find_far(&b->entry.key, slot);
}

/* See flow_gate.h. */
QuotaGate *
gate_get(uint32 bucket, uint32 slot)
{
	QuotaGate  *gate = gate_find(bucket, slot);
	uint32		index;

	if (gate)
		return gate;
	index = quota_create_far_gate(&quota_buckets[bucket].entry.key, slot);
	/* would lose a flow; see above why it cannot be */
	if (unlikely(index == QUOTA_NO_INDEX))
		elog(PANIC, "no room for a gate of quota");
	gate = &quota_far_gates[index].gate;
	gate_init(gate, slot, true);
	pg_atomic_fetch_add_u32(&quota_far_waits[slot], 1);
	return gate;
}

/* See flow_gate.h. */
void
gate_drop(QuotaGate *gate)
{
	QuotaFarGate *far;

	if (!gate->far || gate->kept > 0 || !dlist_is_empty(&gate->lines) ||
		!dlist_is_empty(&gate->blocked))
		return;
	gate_clear_time(gate);
	pg_atomic_fetch_sub_u32(&quota_far_waits[gate->slot], 1);
	far = (QuotaFarGate *) ((char *) gate - offsetof(QuotaFarGate, gate));
	quota_remove_far_gate((uint32) (far - quota_far_gates));
}

/* See flow_gate.h. */
void
gate_set_time(QuotaGate *gate, int64 opens_ns)
{
	pairingheap *gates = &quota_slots[gate->slot].gates;

	if (opens_ns == QUOTA_NEVER || (gate->timed && gate->opens_ns <= opens_ns))
		return;
	if (gate->timed)
		pairingheap_remove(gates, &gate->node);
	gate->opens_ns = opens_ns;
	gate->timed = true;
	pairingheap_add(gates, &gate->node);
	waiter_due(gate->slot, opens_ns);
}

/* See flow_gate.h. */
void
gate_clear_time(QuotaGate *gate)
{
	if (gate->timed)
		pairingheap_remove(&quota_slots[gate->slot].gates, &gate->node);
	gate->timed = false;
}

/* See flow_gate.h. */
void
gate_pin(uint32 bucket)
{
	pg_atomic_fetch_add_u32(&quota_buckets[bucket].pins, 1);
	pg_atomic_fetch_add_u32(&quota_buckets[bucket].waiting_pins, 1);
}

/* See flow_gate.h. */
void
gate_unpin(uint32 bucket)
{
	pg_atomic_fetch_sub_u32(&quota_buckets[bucket].waiting_pins, 1);
	pg_atomic_fetch_sub_u32(&quota_buckets[bucket].pins, 1);
}
