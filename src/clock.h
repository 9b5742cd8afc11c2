/*
 * clock.h
 *		How the clocks start, stop and continue; telling the time is in quota.h.
 */
#ifndef QUOTA_CLOCK_H
#define QUOTA_CLOCK_H

#include "shmem.h"

/* What a clean shutdown keeps of the clocks. */
typedef struct QuotaClockSave
{
	ClockStamp	at;
	TimestampTz steady_base_us;
	QuotaClock	clock;
} QuotaClockSave;

/* In the postmaster, when nobody else runs; saved = NULL starts anew. */
extern void quota_clock_start(const QuotaClockSave *saved);
extern void quota_clock_save(QuotaClockSave *save);

/* Notes that this crash epoch is in use, from now on.  No lock held. */
extern void quota_activate(void);

/* This instant; may be called with locks held. */
extern void quota_clock_stamp(ClockStamp *stamp);
/* How much time passed for sure from an instant to a later one. */
extern int64 quota_clock_between(const ClockStamp *from, const ClockStamp *to);

/* Nanoseconds that pass even while the quota clock is frozen. */
extern int64 quota_raw_ns(void);

/*
 * When the quota clock will be there, in quota_raw_ns(): QUOTA_NEVER also when
 * the clock stands and is not there yet.
 */
extern int64 quota_raw_of(int64 at_ns);

#endif							/* QUOTA_CLOCK_H */
