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
 * LINES.  Those of one tenant that one bucket refuses because it is short are a line;
 * where tenants have no shares of it, those of all tenants are.  Only the first in a
 * line asks, when its time has come or something came back.  It leaves the line when
 * it was admitted, gives up, or another bucket is what it waits for, and that wakes
 * the next.  So a dear call is not overtaken by cheap ones that came later, as far as
 * they wait here.  Whoever is refused for what it is (class_reserved) is in no line:
 * it does not keep those away who may, and watches the time itself.
 *
 * CLAIMS.  Which tenant is served first is not for the line to say but for their
 * shares (portion.c).  While somebody stands in a tenant's line the tenant has a claim
 * on the bucket, of what the first in the line was refused, which does not lapse
 * (floor_await()): so it gets its share beside those that ask again and again.  The
 * claim begins when the first one takes its stand, after a refusal by that bucket;
 * whoever is first from then on has it; and it ends when the last one leaves, which
 * every session does that is admitted, whose time is over, or that is cancelled or
 * terminated.  (One that is killed takes all of shared memory with it.)  Whose time is
 * over leaves before it asks for the last time, so that this refusal leaves a claim as
 * any other does.  A line exists as long as its claim: neither portion nor bucket is
 * reclaimed, and where the slot goes all are dismissed before.
 *
 * TURNS.  What comes back may be anybody's, so the first of all lines are told.  They
 * ask one after the other, by the order of shares: who has asked and was refused
 * passes it on.  Where calls in flight end that goes on until one is refused because
 * too little is free; the others would be as well.  So a release wakes one session,
 * or as many as it serves, and one in vain.  What a rate gets back makes the time
 * of each earlier, so all of them ask.  The same happens when one gives up, as it has
 * claimed what others may have now.  When one is admitted by a rate the others' times
 * stay as they are: they had left that to it.
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
#include "floor.h"
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

/* The first in the line, NULL = nobody. */
static QuotaWaiter *
first_in_line(uint32 slot, uint32 bucket, uint32 portion)
{
	dlist_iter	iter;

	dlist_foreach(iter, &quota_slots[slot].askers)
	{
		QuotaWaiter *w = dlist_container(QuotaWaiter, asker_node, iter.cur);

		if (w->asks_bucket == bucket && w->asks_portion == portion && w->in_line)
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

/* By what its tenant has had of the bucket. */
static fair_time
turn_of(const QuotaWaiter *w)
{
	return w->asks_portion == QUOTA_NO_INDEX ? 0
		: quota_portions[w->asks_portion].portion.turn;
}

/* Of those that were told it is the turn of one, whose line has been told with it. */
static void
pass_on(uint32 slot, uint32 bucket)
{
	QuotaWaiter *next = NULL;
	dlist_iter	iter;

	dlist_foreach(iter, &quota_slots[slot].askers)
	{
		QuotaWaiter *w = dlist_container(QuotaWaiter, asker_node, iter.cur);

		if (w->told && w->asks_bucket == bucket &&
			(next == NULL || turn_of(w) < turn_of(next)))
			next = w;
	}
	if (next == NULL)
		return;
	dlist_foreach(iter, &quota_slots[slot].askers)
	{
		QuotaWaiter *w = dlist_container(QuotaWaiter, asker_node, iter.cur);

		if (w->asks_bucket == bucket && w->asks_portion == next->asks_portion)
			w->told = false;
	}
	next->asking = true;
	wake(next);
}

/* All in the lines of the bucket have something to ask for, or not any more. */
static void
tell(uint32 slot, uint32 bucket, bool told)
{
	dlist_iter	iter;

	dlist_foreach(iter, &quota_slots[slot].askers)
	{
		QuotaWaiter *w = dlist_container(QuotaWaiter, asker_node, iter.cur);

		if (w->asks_bucket == bucket)
			w->told = told && w->in_line;
	}
}

/* See asker.h. */
void
asker_wake(uint32 bucket)
{
	uint32		slot = quota_buckets[bucket].entry.owner;
	dlist_iter	iter;

	if (dlist_is_empty(&quota_slots[slot].askers))
		return;
	dlist_foreach(iter, &quota_slots[slot].askers)
	{
		QuotaWaiter *w = dlist_container(QuotaWaiter, asker_node, iter.cur);

		if (w->asks_bucket == bucket && !w->in_line)
			wake(w);
	}
	tell(slot, bucket, true);
	pass_on(slot, bucket);
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

/* What the line claims is what its first one was refused. */
static void
claim(uint32 slot, uint32 bucket, uint32 portion)
{
	QuotaWaiter *first = first_in_line(slot, bucket, portion);

	floor_await(portion, first ? first->asks_units : 0);
}

/*
 * It waits for the bucket no more: the next in its line is the first now.  Others may
 * have what it claimed, unless it has got that; of calls in flight more may be free.
 */
static void
leave_line(QuotaWaiter *w, bool admitted)
{
	uint32		bucket = w->asks_bucket;

	if (!w->in_line)
		return;
	w->in_line = w->told = false;
	claim(w->asks_slot, bucket, w->asks_portion);
	wake(first_in_line(w->asks_slot, bucket, w->asks_portion));
	if (w->asks_portion != QUOTA_NO_INDEX &&
		(!admitted || quota_buckets[bucket].kind == QUOTA_CONCURRENCY))
		asker_wake(bucket);
	else if (w->asking)
		pass_on(w->asks_slot, bucket);
	w->asking = false;
}

/* It has asked for what came back, and was refused. */
static void
answer_told(QuotaWaiter *w, QuotaReason reason)
{
	if (!w->asking)
		return;
	w->asking = false;
	if (reason == QUOTA_CONCURRENCY_LIMITED)
		tell(w->asks_slot, w->asks_bucket, false);
	else
		pass_on(w->asks_slot, w->asks_bucket);
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
		first_in_line(w->asks_slot, w->asks_bucket, w->asks_portion) == w ||
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
	w->asks = w->in_line = false;
	w->called = w->answering = w->told = w->asking = false;
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
	quota_lock(&quota_slots[w->asks_slot].lock);
	w->answering |= w->called;
	w->called = false;
	LWLockRelease(&quota_slots[w->asks_slot].lock);
}

/* Out of the list it stands in. */
static void
leave(QuotaWaiter *w, bool admitted)
{
	LWLock	   *lock;

	if (w->asks_slot == QUOTA_NO_INDEX)
		return;
	lock = &quota_slots[w->asks_slot].lock;
	quota_lock(lock);
	if (w->asks)
	{
		leave_line(w, admitted);
		dlist_delete(&w->asker_node);
		w->asks = w->called = false;
		answer_roll(w);
	}
	LWLockRelease(lock);
	w->asks_slot = QUOTA_NO_INDEX;
}

/* The bucket is short; nothing else is wrong with the call. */
static bool
is_short(QuotaReason reason)
{
	return reason == QUOTA_RATE_LIMITED || reason == QUOTA_CONCURRENCY_LIMITED ||
		reason == QUOTA_RETRY_BUDGET || reason == QUOTA_QUOTA_EXHAUSTED;
}

/* What the term that opens last was asked for. */
static int64
units_refused(const QuotaVerdict *v)
{
	for (int i = 0; i < v->nexhausted; i++)
		if (v->exhausted[i].term == v->limiting)
			return v->exhausted[i].needed;
	return 0;
}

/* Takes its stand where it was refused, at the end of the list unless it is in it. */
static void
take_stand(QuotaWaiter *w, uint32 slot, uint32 bucket, uint32 portion, bool in_line)
{
	if (w->asks)
		leave_line(w, false);
	else
		dlist_push_tail(&quota_slots[slot].askers, &w->asker_node);
	w->asks = true;
	w->asks_slot = slot;
	w->asks_bucket = bucket;
	w->asks_portion = portion;
	w->in_line = in_line;
}

/* See asker.h.  Who is paused is in no line: the end of a pause calls the roll. */
bool
asker_stand(const QuotaPlan *plan, const QuotaVerdict *v)
{
	QuotaWaiter *w = self();
	const QuotaTerm *term = v->limiting < 0 ? NULL : &plan->terms[v->limiting];
	uint32		slot = term ? term->slot : plan->slot;
	uint32		bucket = term ? term->bucket : QUOTA_NO_INDEX;
	QuotaSlot  *s = &quota_slots[slot];
	uint32		portion;
	bool		in_line;
	bool		stood;

	if (w->asks_slot != slot)
		leave(w, false);
	quota_lock(&s->lock);
	portion = term ? floor_portion(plan, term, v->reason) : QUOTA_NO_INDEX;
	in_line = portion != QUOTA_NO_INDEX || is_short(v->reason);
	stood = w->asks && w->asks_bucket == bucket &&
		w->asks_portion == portion && w->in_line == in_line;
	/* a slot that was swept meanwhile has no list */
	if (!stood && s->entry.used && s->extension == plan->extension)
		take_stand(w, slot, bucket, portion, in_line);
	if (w->asks)
	{
		w->asks_units = units_refused(v);
		if (w->in_line)
			claim(slot, bucket, portion);
		answer_told(w, v->reason);
		answer_roll(w);
	}
	LWLockRelease(&s->lock);
	return stood;
}

/* is_its_turn(), taking the lock. */
static bool
may_ask(QuotaWaiter *w)
{
	LWLock	   *lock = &quota_slots[w->asks_slot].lock;
	bool		may;

	quota_lock(lock);
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
asker_end(bool admitted)
{
	QuotaWaiter *w = self();

	leave(w, admitted);
	pg_atomic_write_u32(&w->state, WAITER_GONE);
}
