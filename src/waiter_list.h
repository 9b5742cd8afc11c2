/*
 * waiter_list.h
 *		The lists of waiters: between waiter.c, which wakes who stands in them, and
 *		waiter_wait.c, whose sessions do.
 */
#ifndef QUOTA_WAITER_LIST_H
#define QUOTA_WAITER_LIST_H

#include "waiter.h"

/* A wake-up nobody followed is repeated after this (real time). */
#define WAKE_GRACE_NS QUOTA_NS_PER_S

typedef enum WaiterState
{
	WAITER_GONE,				/* it stands in no list, or is about to leave */
	WAITER_WAITING,
	WAITER_WOKEN
} WaiterState;

/* The place that came last; the list is not empty.  Slot lock held. */
static inline QuotaWaitPlace *
waiter_last_place(QuotaSlot *slot)
{
	return dlist_tail_element(QuotaWaitPlace, node, &slot->waiters);
}

/* Tells the last in the list, if there is one, that it has to look.  The same. */
extern void waiter_tell_last(QuotaSlot *slot);

/* Wakes the waiter that came first.  The same. */
extern void waiter_wake_first(QuotaSlot *slot);

/*
 * Until it is called with NULL, what would wake a waiter is noted there instead:
 * who accounts for the time that has passed wakes for himself.
 */
extern void waiter_notice(bool *ready);

/* One of those who were woken for the slot has claimed, or can't come any more. */
extern void waiter_came(uint32 slot);

/*
 * Wakes one waiter of the slot if something is claimable; unless another one has
 * been woken since the slot had seen so many wakes, and is still coming.  No lock
 * held; doesn't throw.
 */
extern void waiter_wake_one(uint32 slot, uint64 wakes);

#endif							/* QUOTA_WAITER_LIST_H */
