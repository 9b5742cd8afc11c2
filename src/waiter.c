/*
 * waiter.c
 *		Sessions that wait until something may be claimed: who of them is woken.
 *		How one waits is in waiter_wait.c.
 *
 * A waiter stands in the list of every slot it waits for, the longest waiting
 * first.  The slot's lock protects its list and what stands next to it; a waiter
 * who stands in several is taken by one of those who would wake it, by changing
 * its state from WAITING to WOKEN; who finds it taken takes the next.  So one event
 * wakes one waiter, with no lock but the one that the event happens under.  Nothing
 * here waits but for the lock of a slot, and nothing throws.
 *
 * WHO WAKES.  What makes something claimable calls waiter_wake() in the same
 * section under the slot's lock: flow_set_ready() and raise_work() (a commit, a
 * rollback, a release, a grant, a resume), flow_open_since() (room in a limit that
 * every call meets), mark_slot() (a change of configuration).  A transaction that
 * ends makes many such calls; it holds them, and wakes one waiter per slot at its
 * end, if something still is claimable then, and unless somebody else has woken
 * one for it meanwhile.
 *
 * CHAIN.  One waiter is woken for a hundred jobs.  quota_dequeue() holds its
 * calls too, being itself somebody who came to claim; when it is done, or has
 * failed, it looks whether it left something, and wakes the next, unless another
 * one that was woken has not claimed yet (slot->coming): that one will do the same.
 * Where somebody waits it searches for that (claim_look()): most flows are READY
 * because nobody has looked yet, and each that is not worth it would wake a waiter
 * in vain.  A dequeue that dies after it made flows READY by time and told nobody
 * releases at its abort what it held.
 */
#include "waiter_list.h"

#include "clock.h"
#include "flow.h"
#include "miscadmin.h"

/* Slots one transaction remembers to wake a waiter of; others are woken at once. */
#define MAX_HELD 64

static bool holding = false;
static struct
{
	uint32		slot;
	uint64		wakes;			/* of the slot, when it was noted last */
	bool		claims;			/* who holds it may be one that was woken */
}			held[MAX_HELD];
static int	n_held = 0;

/* Set while time is being accounted for: who does that wakes for himself. */
static bool *noticed = NULL;

/* Set while several calls for one slot are one: that slot, once there was one. */
static bool together = false;
static uint32 together_slot = QUOTA_NO_INDEX;

/* ---- shared memory ---- */

/* See waiter.h. */
int
waiter_count(void)
{
	return MaxBackends;
}

/* See waiter.h. */
void
waiter_shmem_init(void)
{
	for (int i = 0; i < waiter_count(); i++)
	{
		pg_atomic_init_u32(&quota_waiters[i].state, WAITER_GONE);
		pg_atomic_init_u32(&quota_waiters[i].check, 0);
	}
}

/* See waiter_list.h. */
void
waiter_tell_last(QuotaSlot *slot)
{
	if (!dlist_is_empty(&slot->waiters))
		SetLatch(quota_waiters[waiter_last_place(slot)->waiter].latch);
}

/* ---- waking; slot lock held ---- */

/* It is woken by us, and by nobody else. */
static bool
take_waiter(QuotaWaiter *waiter)
{
	uint32		waiting = WAITER_WAITING;

	return pg_atomic_compare_exchange_u32(&waiter->state, &waiting,
										  WAITER_WOKEN);
}

/*
 * Takes the waiter that came first out of the list; its latch is still to be
 * set.  NULL when there is none.
 */
static QuotaWaiter *
take_first(QuotaSlot *slot)
{
	while (!dlist_is_empty(&slot->waiters))
	{
		QuotaWaitPlace *place = dlist_container(QuotaWaitPlace, node,
												dlist_pop_head_node(&slot->waiters));

		place->linked = false;
		if (!take_waiter(&quota_waiters[place->waiter]))
			continue;
		pg_atomic_fetch_add_u32(&slot->coming, 1);
		slot->wakes++;
		slot->woken_ns = quota_raw_ns();
		if (slot->woken_ns + WAKE_GRACE_NS < slot->look_ns)
		{
			slot->look_ns = slot->woken_ns + WAKE_GRACE_NS;
			waiter_tell_last(slot);
		}
		return &quota_waiters[place->waiter];
	}
	return NULL;
}

/* See waiter_list.h. */
void
waiter_wake_first(QuotaSlot *slot)
{
	QuotaWaiter *waiter = take_first(slot);

	if (waiter)
		SetLatch(waiter->latch);
}

/* Remembers the slot; its place in held, -1 when there is no room. */
static int
hold(uint32 slot)
{
	int			i = 0;

	while (i < n_held && held[i].slot != slot)
		i++;
	if (i == MAX_HELD)
		return -1;
	if (i == n_held)
	{
		held[i].slot = slot;
		held[i].claims = false;
		n_held++;
	}
	held[i].wakes = quota_slots[slot].wakes;
	return i;
}

/* See waiter.h. */
void
waiter_wake(uint32 slot)
{
	QuotaSlot  *s = &quota_slots[slot];

	if (noticed)
		*noticed = true;
	else if (together)
		together_slot = slot;
	else if (waiter_is_there(slot) && !(holding && hold(slot) >= 0) &&
			 flow_may_claim(slot, quota_now_ns()))
		waiter_wake_first(s);
}

/* See waiter_list.h. */
void
waiter_notice(bool *ready)
{
	noticed = ready;
}

/* See waiter.h. */
void
waiter_together(bool begin)
{
	uint32		slot = together_slot;

	together = begin;
	together_slot = QUOTA_NO_INDEX;
	if (slot != QUOTA_NO_INDEX)
		waiter_wake(slot);
}

/* See waiter.h. */
void
waiter_due(uint32 slot, int64 at_ns)
{
	QuotaSlot  *s = &quota_slots[slot];
	int64		look_ns;

	if (dlist_is_empty(&s->waiters))
		return;
	look_ns = quota_raw_of(at_ns);
	if (look_ns >= s->look_ns)
		return;
	s->look_ns = look_ns;
	waiter_tell_last(s);
}

/* See waiter.h. */
void
waiter_hold(void)
{
	holding = true;
}

/* See waiter_list.h. */
void
waiter_came(uint32 slot)
{
	pg_atomic_uint32 *coming = &quota_slots[slot].coming;
	uint32		n = pg_atomic_read_u32(coming);

	while (n > 0 && !pg_atomic_compare_exchange_u32(coming, &n, n - 1))
		;
}

/* See waiter.h. */
void
waiter_hold_for(uint32 slot)
{
	int			i = hold(slot);

	holding = true;
	if (i >= 0)
		held[i].claims = true;
	else
		waiter_came(slot);
}

/* See waiter_list.h. */
void
waiter_wake_one(uint32 slot, uint64 wakes)
{
	QuotaSlot  *s = &quota_slots[slot];
	QuotaWaiter *waiter = NULL;

	if (!waiter_is_there(slot))
		return;
	quota_lock(&s->lock);
	if (s->entry.used && (s->wakes <= wakes ||
						  pg_atomic_read_u32(&s->coming) == 0) &&
		flow_may_claim(slot, quota_now_ns()))
		waiter = take_first(s);
	LWLockRelease(&s->lock);
	if (waiter)
		SetLatch(waiter->latch);
}

/* See waiter.h. */
void
waiter_release(bool rest)
{
	holding = false;
	while (n_held > 0)
	{
		n_held--;
		if (held[n_held].claims)
			waiter_came(held[n_held].slot);
		waiter_wake_one(held[n_held].slot, rest ? 0 : held[n_held].wakes);
	}
}

/* ---- telling all ---- */

/* See waiter.h. */
void
waiter_look_all(void)
{
	for (int i = 0; i < waiter_count(); i++)
		if (pg_atomic_read_u32(&quota_waiters[i].state) == WAITER_WAITING)
			SetLatch(quota_waiters[i].latch);
}

/* See waiter.h. */
void
waiter_check_all(Oid database)
{
	pg_memory_barrier();
	for (int i = 0; i < waiter_count(); i++)
	{
		QuotaWaiter *waiter = &quota_waiters[i];

		if (pg_atomic_read_u32(&waiter->state) != WAITER_WAITING ||
			waiter->database != database)
			continue;
		pg_atomic_write_u32(&waiter->check, 1);
		SetLatch(waiter->latch);
	}
}

/* See waiter.h. */
void
waiter_dismiss(uint32 slot)
{
	while (!dlist_is_empty(&quota_slots[slot].waiters))
		waiter_wake_first(&quota_slots[slot]);
}
