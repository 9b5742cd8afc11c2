/*
 * pause.h
 *		Pauses: no call to a provider, or of some of its calls, until an instant.
 *
 * For who decides, who reports what a provider said, and who pauses by hand.  See
 * pause.c for the protocol.
 */
#ifndef QUOTA_PAUSE_H
#define QUOTA_PAUSE_H

#include "policy.h"
#include "shmem.h"

/*
 * What is paused.  One of
 *
 *	  account alone			all calls to the providers of the account
 *	  limit_name			all calls that cost something of the limit; of the
 *							provider or, without one, across providers
 *	  provider and any of tenant, endpoint (a name or a pattern as in
 *	  quota.limits) and connection
 *							calls to the provider that all of these are true of
 *
 * NULL where not given; names shorter than QUOTA_NAME_LEN.
 */
typedef struct PauseScope
{
	const char *account;
	const char *provider;
	const char *tenant;
	const char *endpoint;
	const char *connection;
	const char *limit_name;
} PauseScope;

/* When a pause ends. */
typedef struct PauseEnd
{
	bool		lasts;			/* a time from now: at_us is steady time, which
								 * never steps; else wall clock */
	TimestampTz at_us;			/* DT_NOEND = when somebody says so */
} PauseEnd;

/* At an instant from outside; after a time; never by itself. */
extern PauseEnd pause_until(TimestampTz wall_us);
extern PauseEnd pause_for(int64 ns);
extern PauseEnd pause_open_ended(void);

/*
 * After the cooldown of the provider, for an answer that names no time.  May throw.
 */
extern PauseEnd pause_cooldown(const char *provider);

/*
 * A provider's answer asks for a pause: it holds for every decision that begins after
 * this has returned, whatever becomes of the transaction, and a background worker
 * writes its row.  A pause of the same scope that was reported before and ends later
 * stays; else it becomes longer and has this reason.  Where there is no room it is
 * one of the next wider scope.  The reason is clipped to 127 bytes; NULL = none.
 *
 * The caller holds no lock.  Throws, having done nothing, when out of memory, when
 * cancelled, or when the provider finds no slot (53400).
 */
extern void pause_report(const PauseScope *scope, PauseEnd end, const char *reason);

#endif							/* QUOTA_PAUSE_H */
