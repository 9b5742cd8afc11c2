/*
 * waiter.h
 *		Sessions that wait until something may be claimed; see waiter.c.
 */
#ifndef QUOTA_WAITER_H
#define QUOTA_WAITER_H

#include "shmem.h"

/* In the postmaster, while shared memory is being filled. */
extern void waiter_shmem_init(void);

/* How many waiters there may be: one for each backend. */
extern int	waiter_count(void);

/*
 * Something of the slot may be claimable now: one waiter is to look.  Slot lock
 * held.  Between waiter_hold() and waiter_release() several calls for one slot
 * wake one waiter, and only if something still is claimable at the end.
 */
extern void waiter_wake(uint32 slot);
/* Calls for one slot from true to false are one.  Its lock is held all the time. */
extern void waiter_together(bool begin);
/* Something may become claimable then, by the quota clock.  Slot lock held. */
extern void waiter_due(uint32 slot, int64 at_ns);

/* Somebody waits for the slot; no lock needed: who just comes looks himself. */
static inline bool
waiter_is_there(uint32 slot)
{
	return !dlist_is_empty(&quota_slots[slot].waiters);
}

/* No lock held; neither throws.  What an error leaves held its abort releases. */
extern void waiter_hold(void);
extern void waiter_release(bool rest);	/* rest: see below */
/*
 * Somebody came to claim from the slot: as waiter_hold(), and the slot is looked
 * at in any case.  waiter_release(true) wakes one for what is left over, unless
 * somebody who was woken has still to come.
 */
extern void waiter_hold_for(uint32 slot);

/* All of them look again: the clock was moved.  No lock needed. */
extern void waiter_look_all(void);
/* ... of this database, whether the extension is still there. */
extern void waiter_check_all(Oid database);
/* The slot goes: nobody waits for it any more.  Slot lock held. */
extern void waiter_dismiss(uint32 slot);

/* ---- waiter_wait.c ---- */

typedef enum WaitOutcome
{
	WAIT_CLAIMABLE,				/* something may be claimable */
	WAIT_TIMEOUT,
	WAIT_GONE					/* the extension or a slot is not the same */
} WaitOutcome;

/*
 * Waits until something of one of the slots may be claimable, or until the real
 * time until_ns (quota_raw_ns()).  The slots differ from each other; keys are
 * theirs.  No lock, no snapshot.  Throws what interrupts do.
 */
extern WaitOutcome waiter_wait(const uint32 *slots, const QuotaKey *keys,
							   int n, int64 until_ns);

#endif							/* QUOTA_WAITER_H */
