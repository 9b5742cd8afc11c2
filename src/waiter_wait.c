/*
 * waiter_wait.c
 *		How a session waits until something may be claimed: its places in the
 *		lists of waiter.c, and who of those in a list watches the clock.
 *
 * A waiter gets its places one after the other, each under the lock of that slot,
 * and leaves them the same way; it never has two locks, and none while it sleeps.
 * Before that its caller searches (job_may_claim()): most flows are READY because
 * nobody has looked yet, and none of those would let it wait.
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
 * - The extension is dropped: the waiter holds no lock that could keep it.  The
 *	 commit of the DROP tells all waiters of the database, which look into
 *	 pg_extension; so does a waiter after it has got its places, for a DROP that
 *	 committed just before.  A slot that is swept lets its waiters go.
 * - The clock is moved: all look again.
 *
 * Waits follow real time, what they wait for the quota clock.
 */
#include "waiter_list.h"

#include "catalog.h"
#include "clock.h"
#include "flow.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/proc.h"

/* ---- places; slot lock held ---- */

/*
 * Accounts for the time that has passed, as a claim would.  True when that has
 * made something ready.
 */
static bool
pass_time(uint32 slot, int64 now_ns)
{
	QuotaSlot  *s = &quota_slots[slot];
	bool		ready = false;

	waiter_notice(&ready);
	flow_pass_time(slot, now_ns, quota_wall_us(), now_ns);
	waiter_notice(NULL);
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
	int64		flows_ns;
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
			waiter_wake_first(slot);
		next_ns = slot->woken_ns + WAKE_GRACE_NS;
	}
	flows_ns = quota_raw_of(flow_next_ns(index));
	slot->look_ns = Min(next_ns, flows_ns);
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

/* ---- waiting; no lock held ---- */

/* Lets go of the place.  The slot may be another one's by now. */
static void
leave_place(uint32 slot, QuotaWaitPlace *place)
{
	QuotaSlot  *s = &quota_slots[slot];

	quota_lock(&s->lock);
	if (place->linked)
	{
		bool		last = waiter_last_place(s) == place;

		dlist_delete(&place->node);
		place->linked = false;
		if (last)
			waiter_tell_last(s);
	}
	LWLockRelease(&s->lock);
}

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
			waiter_came(wait->slots[i]);
			waiter_wake_one(wait->slots[i], PG_UINT64_MAX);
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
		quota_lock(&slot->lock);
		if (!is_same(wait->slots[i], &wait->keys[i]))
			outcome = WAIT_GONE;
		else if (!get_place(wait->slots[i], place))
			outcome = WAIT_CLAIMABLE;
		else
			wait->nplaces = i + 1;
		LWLockRelease(&slot->lock);
		across_tell();
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
		int64		slot_ns = QUOTA_NEVER;

		quota_lock(&slot->lock);
		if (place->linked && waiter_last_place(slot) == place)
			slot_ns = watch(slot);
		look_ns = Min(look_ns, slot_ns);
		LWLockRelease(&slot->lock);
		across_tell();
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
