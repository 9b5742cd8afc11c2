/*
 * asker.c
 *		Sessions that wait until their call may be admitted: where they stand, and
 *		who of them is woken.
 *
 * A session that was refused stands in the list of the slot that owns the bucket
 * which opens last for it (slot->askers, by arrival, under the slot's lock), and
 * names that bucket.  It stands in one list at a time; the list has as many entries
 * at most as there are backends, so it is searched from the front.
 *
 * LINES.  Those that one bucket refuses because it is short are a line: only the
 * first in it asks, when its time has come or something came back.  It leaves the
 * line when it was admitted, gives up, or another bucket is what it waits for, and
 * that wakes the next.  So a release wakes one session, or as many as it serves, and
 * a dear call is not overtaken by cheap ones that came later, as far as they wait
 * here.  Whoever is refused for what it is (anything but a bucket that is short) is
 * in no line: it does not keep those away who may, and watches the time itself.
 *
 * NOTHING IS MISSED.  A session asks, stands, and asks again; it sleeps only when
 * it was refused while it stood there for the very bucket that refused it.  What
 * comes back after that (asker_wake(), under the lock that the decision had) sets
 * its latch, which it has reset before it asked.
 *
 * A change of configuration may serve any of them, so it calls the roll: all are
 * marked, and ask in the order they came, each waking the next when it has.  Who asks
 * takes its mark off before; one that is set while it asks makes it ask again.
 *
 * A clock that is moved and a DROP EXTENSION wake all (waiter.c: their state says
 * that they wait); who is not the first in its line goes on sleeping.
 *
 * Sleeping, a session holds no lock and no snapshot.  The state of a session is in
 * its QuotaWaiter, which it does not use for quota_wait() at the same time.
 */
#include "asker.h"

#include "catalog.h"
#include "clock.h"
#include "error.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "waiter_list.h"

/* ---- lists; slot lock held ---- */

/* See asker.h. */
void
asker_slot_init(uint32 slot)
{
	dlist_init(&quota_slots[slot].askers);
}

/* The first in the line of the bucket, NULL = nobody. */
static QuotaWaiter *
first_in_line(uint32 slot, uint32 bucket)
{
	dlist_iter	iter;

	dlist_foreach(iter, &quota_slots[slot].askers)
	{
		QuotaWaiter *w = dlist_container(QuotaWaiter, asker_node, iter.cur);

		if (w->asks_bucket == bucket && w->in_line)
			return w;
	}
	return NULL;
}

/* See asker.h. */
void
asker_wake(uint32 bucket)
{
	uint32		slot = quota_buckets[bucket].entry.owner;
	bool		told = false;
	dlist_iter	iter;

	dlist_foreach(iter, &quota_slots[slot].askers)
	{
		QuotaWaiter *w = dlist_container(QuotaWaiter, asker_node, iter.cur);

		if (w->asks_bucket != bucket || (w->in_line && told))
			continue;
		told |= w->in_line;
		SetLatch(w->latch);
	}
}

/* The first of those who have still to answer a roll-call, NULL = nobody. */
static QuotaWaiter *
first_called(uint32 slot)
{
	dlist_iter	iter;

	dlist_foreach(iter, &quota_slots[slot].askers)
	{
		QuotaWaiter *w = dlist_container(QuotaWaiter, asker_node, iter.cur);

		if (w->called)
			return w;
	}
	return NULL;
}

/* Wakes one. */
static void
wake(QuotaWaiter *w)
{
	if (w)
		SetLatch(w->latch);
}

/* See asker.h. */
void
asker_call_roll(uint32 slot)
{
	dlist_iter	iter;

	dlist_foreach(iter, &quota_slots[slot].askers)
		dlist_container(QuotaWaiter, asker_node, iter.cur)->called = true;
	wake(first_called(slot));
}

/* See asker.h. */
void
asker_dismiss(uint32 slot)
{
	while (!dlist_is_empty(&quota_slots[slot].askers))
	{
		QuotaWaiter *w = dlist_container(QuotaWaiter, asker_node,
										 dlist_pop_head_node(&quota_slots[slot].askers));

		w->asks = false;
		SetLatch(w->latch);
	}
}

/* It waits for the bucket no more: the next in its line is the first now. */
static void
leave_line(QuotaWaiter *w)
{
	if (!w->in_line)
		return;
	w->in_line = false;
	wake(first_in_line(w->asks_slot, w->asks_bucket));
}

/* It has asked: if that was for a roll-call, it is the turn of the next. */
static void
answer_roll(QuotaWaiter *w)
{
	if (!w->answering)
		return;
	w->answering = false;
	wake(first_called(w->asks_slot));
}

/* It may ask now: nobody goes before it. */
static bool
is_its_turn(QuotaWaiter *w)
{
	return !w->asks || !w->in_line ||
		first_in_line(w->asks_slot, w->asks_bucket) == w ||
		first_called(w->asks_slot) == w;
}

/* ---- this session; no lock held ---- */

/* The session's own. */
static QuotaWaiter *
self(void)
{
	return &quota_waiters[QUOTA_PROC_NUMBER];
}

/* See asker.h. */
void
asker_begin(void)
{
	QuotaWaiter *w = self();

	w->database = MyDatabaseId;
	w->latch = MyLatch;
	w->asks = w->in_line = w->called = w->answering = false;
	w->asks_slot = QUOTA_NO_INDEX;
	pg_atomic_write_u32(&w->check, 1);
	pg_atomic_exchange_u32(&w->state, WAITER_WAITING);	/* full barrier */
}

/* Forgets wake-ups; throws what interrupts do, and 55000. */
static void
reset(QuotaWaiter *w, Oid extension)
{
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	if (pg_atomic_exchange_u32(&w->check, 0) != 0 &&
		quota_catalog_look() != extension)
		quota_error_no_extension();
}

/* See asker.h. */
void
asker_reset(Oid extension)
{
	QuotaWaiter *w = self();

	reset(w, extension);
	if (w->asks_slot == QUOTA_NO_INDEX)
		return;
	LWLockAcquire(&quota_slots[w->asks_slot].lock, LW_EXCLUSIVE);
	w->answering |= w->called;
	w->called = false;
	LWLockRelease(&quota_slots[w->asks_slot].lock);
}

/* Out of the list it stands in. */
static void
leave(QuotaWaiter *w)
{
	LWLock	   *lock;

	if (w->asks_slot == QUOTA_NO_INDEX)
		return;
	lock = &quota_slots[w->asks_slot].lock;
	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (w->asks)
	{
		leave_line(w);
		dlist_delete(&w->asker_node);
		w->asks = w->called = false;
		answer_roll(w);
	}
	LWLockRelease(lock);
	w->asks_slot = QUOTA_NO_INDEX;
}

/* See asker.h. */
bool
asker_stand(uint32 slot, Oid extension, uint32 bucket, bool in_line)
{
	QuotaWaiter *w = self();
	QuotaSlot  *s = &quota_slots[slot];
	bool		stood;

	if (w->asks_slot != slot)
		leave(w);
	LWLockAcquire(&s->lock, LW_EXCLUSIVE);
	stood = w->asks && w->asks_bucket == bucket && w->in_line == in_line;
	/* a slot that was swept meanwhile has no list */
	if (!stood && s->entry.used && s->extension == extension)
	{
		if (w->asks)
			leave_line(w);
		else
			dlist_push_tail(&s->askers, &w->asker_node);
		w->asks = true;
		w->asks_slot = slot;
		w->asks_bucket = bucket;
		w->in_line = in_line;
	}
	if (w->asks)
		answer_roll(w);
	LWLockRelease(&s->lock);
	return stood;
}

/* is_its_turn(), taking the lock. */
static bool
may_ask(QuotaWaiter *w)
{
	LWLock	   *lock = &quota_slots[w->asks_slot].lock;
	bool		may;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	may = is_its_turn(w);
	LWLockRelease(lock);
	return may;
}

/* Sleeps until the latch is set, true, or until then, false. */
static bool
sleep_until(int64 until_ns)
{
	static uint32 wait_event = 0;
	int64		ms = (until_ns - quota_raw_ns()) / 1000000 + 1;

	if (wait_event == 0)
		wait_event = quota_wait_event("QuotaAcquireWait");
	if (ms <= 0)
		return false;
	return WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 Min(ms, PG_INT32_MAX), wait_event) & WL_LATCH_SET;
}

/* See asker.h. */
void
asker_sleep(Oid extension, int64 at_ns, int64 until_ns)
{
	QuotaWaiter *w = self();
	bool		woken = true;

	while (woken)
	{
		int64		at_raw_ns = may_ask(w) ? quota_raw_of(at_ns) : QUOTA_NEVER;

		woken = sleep_until(Min(at_raw_ns, until_ns));
		if (may_ask(w))
			break;
		if (woken)
			reset(w, extension);
	}
}

/* See asker.h. */
void
asker_end(void)
{
	QuotaWaiter *w = self();

	leave(w);
	pg_atomic_write_u32(&w->state, WAITER_GONE);
}
