/*
 * waiter.c
 *		Sessions that wait until something may be claimed: who is woken, and who
 *		watches the clock.
 *
 * A waiter stands in the list of every slot it waits for, the longest waiting
 * first.  The slot's lock protects its list; a waiter who stands in several is
 * taken by one of those who would wake it, by changing its state from WAITING to
 * WOKEN; who finds it taken takes the next.  So one event wakes one waiter, with
 * no lock but the one that the event happens under.
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
 * in vain.  For the same reason a waiter searches before it gets its places.
 *
 * TIME.  The last in each list, the newest, sleeps no longer than until time
 * makes something claimable (flow_next_ns()); slot->look_ns says until when.  Who
 * comes later takes that over, looking before it sleeps; who is woken first is the
 * one it concerns last.  If the last leaves, the one before it is told.  What
 * brings the next time forward tells the last, by waiter_due().
 *
 * WHO NEVER COMES.  A client may be woken and die, or never claim.  So a wake-up
 * counts for WAKE_GRACE_NS of real time: if something is claimable after that,
 * the last in the list wakes another.  This timer runs only after a wake-up.
 *
 * WHAT CANNOT GO WRONG
 *
 * - Something becomes claimable between the look that found nothing and the
 *	 place in the list: both are one section under the slot's lock.
 * - With several slots: it is woken by the first while it looks at the second.
 *	 Its state says so before it sleeps; the latch is reset before that is read.
 * - A waiter is woken and cancelled: who leaves by an error after it was woken
 *	 looks again at its slots, and wakes the next.
 * - A dequeue dies after it made flows READY by time and told nobody: its abort
 *	 releases what it held.
 * - The extension is dropped: the waiter holds no lock that could keep it.  The
 *	 commit of the DROP tells all waiters of the database, which look into
 *	 pg_extension; so does a waiter after it has got its places, for a DROP that
 *	 committed just before.  A slot that is swept lets its waiters go.
 * - The clock is moved: all look again.
 *
 * Waits follow real time, what they wait for the quota clock.
 */
#include "waiter.h"

#include "catalog.h"
#include "clock.h"
#include "flow.h"
#include "miscadmin.h"
#include "permit.h"
#include "storage/ipc.h"
#include "storage/proc.h"

/* A wake-up nobody followed is repeated after this (real time). */
#define WAKE_GRACE_NS QUOTA_NS_PER_S

/* Slots one transaction remembers to wake a waiter of; others are woken at once. */
#define MAX_HELD 64

typedef enum WaiterState
{
	WAITER_GONE,				/* it stands in no list, or is about to leave */
	WAITER_WAITING,
	WAITER_WOKEN
} WaiterState;

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

/* The place that came last; the list is not empty. */
static QuotaWaitPlace *
last_place(QuotaSlot *slot)
{
	return dlist_tail_element(QuotaWaitPlace, node, &slot->waiters);
}

/* Tells the last in the list, if there is one, that it has to look. */
static void
tell_last(QuotaSlot *slot)
{
	if (!dlist_is_empty(&slot->waiters))
		SetLatch(quota_waiters[last_place(slot)->waiter].latch);
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
			tell_last(slot);
		}
		return &quota_waiters[place->waiter];
	}
	return NULL;
}

/* Wakes the waiter that came first. */
static void
wake_first(QuotaSlot *slot)
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
		wake_first(s);
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
	tell_last(s);
}

/* See waiter.h. */
void
waiter_hold(void)
{
	holding = true;
}

/* One of those who were woken for the slot has claimed, or can't come any more. */
static void
came(uint32 slot)
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
		came(slot);
}

/*
 * Wakes one waiter of the slot if something is claimable; unless another one has
 * been woken since the slot had seen so many wakes, and is still coming.
 */
static void
wake_one(uint32 slot, uint64 wakes)
{
	QuotaSlot  *s = &quota_slots[slot];
	QuotaWaiter *waiter = NULL;

	if (!waiter_is_there(slot))
		return;
	LWLockAcquire(&s->lock, LW_EXCLUSIVE);
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
			came(held[n_held].slot);
		wake_one(held[n_held].slot, rest ? 0 : held[n_held].wakes);
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
		wake_first(&quota_slots[slot]);
}

/* ---- looking; slot lock held ---- */

/*
 * Accounts for the time that has passed, as a claim would.  True when that has
 * made something ready.
 */
static bool
pass_time(uint32 slot, int64 now_ns)
{
	QuotaSlot  *s = &quota_slots[slot];
	bool		ready = false;

	noticed = &ready;
	permit_expire(slot, now_ns);
	flow_follow_wall(slot, now_ns, quota_wall_us());
	flow_wake(slot, now_ns);
	noticed = NULL;
	if (s->closed.flow != QUOTA_NO_INDEX && s->closed.until_ns <= now_ns)
	{
		ready = true;
		flow_open(slot);
	}
	return ready;
}

/*
 * The place is the last one: wakes who has to be woken because of the time.
 * Returns the real time when it has to look again.
 */
static int64
watch(QuotaSlot *slot)
{
	uint32		index = (uint32) (slot - quota_slots);
	int64		now_ns = quota_now_ns();
	int64		next_ns = QUOTA_NEVER;
	bool		ready;

	/* so that it isn't told of what it is looking at */
	slot->look_ns = PG_INT64_MIN;
	ready = pass_time(index, now_ns);
	if (flow_may_claim(index, now_ns))
	{
		if (quota_raw_ns() >= slot->woken_ns + WAKE_GRACE_NS)
		{
			pg_atomic_write_u32(&slot->coming, 0);
			ready = true;
		}
		if (ready)
			wake_first(slot);
		next_ns = slot->woken_ns + WAKE_GRACE_NS;
	}
	slot->look_ns = Min(next_ns, quota_raw_of(flow_next_ns(index)));
	return slot->look_ns;
}

/* The slot is the one that had this key. */
static bool
is_same(uint32 slot, const QuotaKey *key)
{
	return quota_slots[slot].entry.used &&
		quota_key_equal(&quota_slots[slot].entry.key, key);
}

/*
 * Gets a place in the slot's list, unless something is claimable already; false
 * when that is so.
 */
static bool
get_place(uint32 slot, QuotaWaitPlace *place)
{
	QuotaSlot  *s = &quota_slots[slot];
	int64		now_ns = quota_now_ns();

	pass_time(slot, now_ns);
	if (flow_may_claim(slot, now_ns))
	{
		s->woken_ns = quota_raw_ns();
		return false;
	}
	dlist_push_tail(&s->waiters, &place->node);
	place->linked = true;
	s->look_ns = PG_INT64_MAX;	/* it is going to look */
	return true;
}

/* Lets go of the place.  The slot may be another one's by now. */
static void
leave_place(uint32 slot, QuotaWaitPlace *place)
{
	QuotaSlot  *s = &quota_slots[slot];

	LWLockAcquire(&s->lock, LW_EXCLUSIVE);
	if (place->linked)
	{
		bool		last = last_place(s) == place;

		dlist_delete(&place->node);
		place->linked = false;
		if (last)
			tell_last(s);
	}
	LWLockRelease(&s->lock);
}

/* ---- waiting ---- */

/* A wait under way. */
typedef struct Wait
{
	QuotaWaiter *waiter;
	const uint32 *slots;
	const QuotaKey *keys;
	int			n;
	int			nplaces;		/* got so far */
	int64		until_ns;		/* real time */
	Oid			extension;
} Wait;

/* Leaves all lists.  True when somebody had woken it. */
static bool
leave(Wait *wait)
{
	bool		woken;

	for (int i = 0; i < wait->nplaces; i++)
		leave_place(wait->slots[i], &wait->waiter->places[i]);
	woken = pg_atomic_read_u32(&wait->waiter->state) == WAITER_WOKEN;
	pg_atomic_write_u32(&wait->waiter->state, WAITER_GONE);
	return woken;
}

/* At an error: who was woken in vain hands it on.  Never throws. */
static void
leave_by_error(int code, Datum arg)
{
	Wait	   *wait = (Wait *) DatumGetPointer(arg);

	if (leave(wait))
		for (int i = 0; i < wait->nplaces; i++)
		{
			came(wait->slots[i]);
			wake_one(wait->slots[i], PG_UINT64_MAX);
		}
}

/* Gets all places.  WAIT_TIMEOUT: it has to wait. */
static WaitOutcome
get_places(Wait *wait)
{
	WaitOutcome outcome = WAIT_TIMEOUT;

	for (int i = 0; i < wait->n && outcome == WAIT_TIMEOUT; i++)
	{
		QuotaSlot  *slot = &quota_slots[wait->slots[i]];
		QuotaWaitPlace *place = &wait->waiter->places[i];

		place->waiter = (uint32) (wait->waiter - quota_waiters);
		place->linked = false;
		LWLockAcquire(&slot->lock, LW_EXCLUSIVE);
		if (!is_same(wait->slots[i], &wait->keys[i]))
			outcome = WAIT_GONE;
		else if (!get_place(wait->slots[i], place))
			outcome = WAIT_CLAIMABLE;
		else
			wait->nplaces = i + 1;
		LWLockRelease(&slot->lock);
	}
	return outcome;
}

/* Looks after what it is the last one of; when it has to do so again. */
static int64
look(Wait *wait)
{
	int64		look_ns = QUOTA_NEVER;

	for (int i = 0; i < wait->nplaces; i++)
	{
		QuotaSlot  *slot = &quota_slots[wait->slots[i]];
		QuotaWaitPlace *place = &wait->waiter->places[i];

		LWLockAcquire(&slot->lock, LW_EXCLUSIVE);
		if (place->linked && last_place(slot) == place)
			look_ns = Min(look_ns, watch(slot));
		LWLockRelease(&slot->lock);
	}
	return look_ns;
}

/* Sleeps until the latch is set, at most until then. */
static void
sleep_until(int64 until_ns)
{
	static uint32 wait_event = 0;
	int64		ms = (until_ns - quota_raw_ns()) / 1000000 + 1;

	if (wait_event == 0)
		wait_event = quota_wait_event("QuotaWait");
	if (ms > 0)
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 Min(ms, PG_INT32_MAX), wait_event);
}

/* The wait itself; may throw. */
static WaitOutcome
sleep_and_look(Wait *wait)
{
	QuotaWaiter *waiter = wait->waiter;

	for (;;)
	{
		int64		look_ns;

		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (pg_atomic_exchange_u32(&waiter->check, 0) != 0 &&
			quota_catalog_look() != wait->extension)
			return WAIT_GONE;
		look_ns = look(wait);
		if (pg_atomic_read_u32(&waiter->state) != WAITER_WAITING)
			return WAIT_CLAIMABLE;
		if (quota_raw_ns() >= wait->until_ns)
			return WAIT_TIMEOUT;
		sleep_until(Min(look_ns, wait->until_ns));
	}
}

/* See waiter.h. */
WaitOutcome
waiter_wait(const uint32 *slots, const QuotaKey *keys, int n, int64 until_ns)
{
	QuotaWaiter *waiter = &quota_waiters[QUOTA_PROC_NUMBER];
	Wait		wait = {waiter, slots, keys, n, 0, until_ns, InvalidOid};
	volatile WaitOutcome outcome;

	wait.extension = quota_slots[slots[0]].extension;
	waiter->database = MyDatabaseId;
	waiter->latch = MyLatch;
	pg_atomic_write_u32(&waiter->check, 1);
	pg_atomic_exchange_u32(&waiter->state, WAITER_WAITING);	/* full barrier */
	PG_ENSURE_ERROR_CLEANUP(leave_by_error, PointerGetDatum(&wait));
	{
		outcome = get_places(&wait);
		if (outcome == WAIT_TIMEOUT)
			outcome = sleep_and_look(&wait);
	}
	PG_END_ENSURE_ERROR_CLEANUP(leave_by_error, PointerGetDatum(&wait));
	if (leave(&wait) && outcome == WAIT_TIMEOUT)
		outcome = WAIT_CLAIMABLE;
	return outcome;
}
