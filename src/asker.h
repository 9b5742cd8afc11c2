/*
 * asker.h
 *		Sessions in quota_acquire_wait(), which wait until their call may be
 *		admitted; see asker.c.
 */
#ifndef QUOTA_ASKER_H
#define QUOTA_ASKER_H

#include "decide.h"

/* Of a new slot, whose lock is held. */
extern void asker_slot_init(uint32 slot);

/* ---- waking; slot lock held, nothing throws ---- */

/* Something came back to the bucket: whoever waits for it first asks again. */
extern void asker_wake(uint32 bucket);
/* Everybody who stands at the slot asks again, in turn: other rules hold now. */
extern void asker_call_roll(uint32 slot);
/* The slot goes: nobody stands there any more. */
extern void asker_dismiss(uint32 slot);

/* ---- this session; no lock held ---- */

/* It is going to wait; what it sleeps through reaches it from now on. */
extern void asker_begin(void);

/* Forgets wake-ups, for what is asked now; throws what interrupts do, and 55000. */
extern void asker_reset(Oid extension);

/*
 * The call was refused.  False when it did not stand where that was already: something
 * may have come back meanwhile, so it is to ask again.
 */
extern bool asker_stand(const QuotaPlan *plan, const QuotaVerdict *v);

/*
 * Sleeps until it is woken and its turn, or until until_ns of real time; if it is the
 * first in its line, or in none, not beyond at_ns of the quota clock.  Throws as
 * asker_reset().
 */
extern void asker_sleep(Oid extension, int64 at_ns, int64 until_ns);

/*
 * It does not wait any more, as it was admitted or for some other reason.  Harmless
 * when it does not; doesn't throw.
 */
extern void asker_end(bool admitted);

#endif							/* QUOTA_ASKER_H */
