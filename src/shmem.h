/*
 * shmem.h
 *		Everything that lives in shared memory, and who may touch it.
 *
 * Objects live in fixed arrays and refer to each other by array index; an
 * index of an object never changes while the object is in use.
 *
 *	slot		one provider of one database (or, with an empty provider name,
 *				the database itself: limits across providers, load state of the
 *				queue).  Owns a lock.
 *	bucket		the state of one limit for one key; owned by one slot
 *	permit		an admitted call that has something to settle; owned by one slot
 *	portion		what one tenant has of a bucket that several share
 *	grant		units of an allowance that expire; of one bucket, and goes with it
 *	tenant		a tenant at one provider: counters, current weight
 *	share		a tenant within one class: its place in the fair order
 *	flow		ready work of one share and endpoint
 *	line		flows that wait for the same shared limits, in order
 *	far gate	who waits in one provider's slot for a bucket of the database's
 *	pause		what must not be asked of a provider for some time
 *
 * LOCKING
 *
 * QuotaSlot.lock protects every field of the slot and of the objects it owns,
 * unless the field says otherwise.  "quota_shared->directory" protects the hash
 * chains, free lists and the fields key, chain, used and owner of all objects;
 * an owner's lock is held as well whenever an object it owns is inserted or
 * removed, so holding either is enough to rely on (owner, key) of an object.
 * A slot, which owns itself, is made under the directory lock alone, before
 * anybody can find it.
 *
 * Order: a database slot's lock, a provider slot's lock, directory, events_lock,
 * notices_lock, recount_lock or pause_lock (see pause.c); never two of one kind.
 * permit_expire() alone asks for a database slot's lock while it has a provider
 * slot's, and does not wait for it.
 * While any of these is held: no allocation, no error, no catalog access, no
 * I/O, no wait except for a lock further right in this order.
 *
 * A backend may remember an index across transactions if it verifies, under
 * the slot's lock, that owner and key still match (quota_bucket_is()).  To rely
 * on it without verifying it must hold a pin (field pins), as the journal, permits
 * and objects that name another one do: a pinned object is never removed.
 */
#ifndef QUOTA_SHMEM_H
#define QUOTA_SHMEM_H

#include "quota.h"

#include "feedback.h"
#include "latency.h"
#include "shmem_limit.h"
#include "shmem_queue.h"
#include "storage/condition_variable.h"
#include "storage/lwlock.h"

/* How far the worker's rows of what is over are; see ledger_fold.c. */
typedef struct LedgerWalks
{
	TimestampTz closed_us;		/* periods that end before were closed, */
	uint8		closed_account[16]; /* and of this instant those up to it */
	TimestampTz expired_us;		/* grants that expire before have their row, */
	int64		expired_id;		/* and of this instant those up to it */
} LedgerWalks;

typedef struct QuotaSlot
{
	LWLock		lock;
	QuotaEntry	entry;
	Oid			database;
	Oid			extension;
	char		provider[QUOTA_NAME_LEN];	/* "" = the database itself */

	pairingheap permits;		/* OPEN and LIVE permits by expiry */
	QuotaClass	classes[QUOTA_MAX_CLASSES];
	ClassOrder	order;			/* between the classes, by the same index */
	uint32		nshares;		/* of all classes */
	uint64		shares_made;	/* moves with every new share; starts anywhere */
	QuotaPlaces places;			/* of all tenants */
	pairingheap timers;			/* flows by wake_ns */
	pairingheap gates;			/* QuotaGate by opens_ns */
	uint64		lines_made;		/* so far */
	dlist_head	idle_lines;		/* longest idle first */
	dlist_head	blocked;		/* flows that wait for an event, in the order
								 * of their parking, as in the tenants' lists */
	Latency		latency;		/* of the attempts that ended last */
	QuotaClosed closed;
	uint64		answers[FEEDBACK_N_CLASSES];	/* seen, by FeedbackClass */
	uint64		headers_ignored;	/* what headers said and was not understood */
	int64		exhausted_told_ns;	/* when an event last told that the account is; 0 =
									 * never */
	/* sessions that wait for something to claim; see waiter.c */
	dlist_head	waiters;		/* QuotaWaitPlace, by arrival */
	uint64		wakes;			/* times one of them was woken */
	int64		woken_ns;		/* when that was last; real time */
	pg_atomic_uint32 coming;	/* woken, and have not claimed yet; no lock
								 * needed */
	int64		look_ns;		/* when the last in the list will look; real time,
								 * nothing while the list is empty */
	dlist_head	askers;			/* QuotaWaiter, by arrival; see asker.c */
	int64		wall_ahead_us;	/* of steady time, when due times of scheduled
								 * jobs were last reckoned anew */
	uint32		database_slot;	/* of the queue its flows belong to, set before
								 * there are any; else QUOTA_NO_INDEX */
	int64		notices_lost;	/* found no room in the ring, not told of yet */
	/* what job_refresh.c has to read again: everything, while these differ */
	uint64		stale_all;		/* times that everything became stale */
	uint64		refreshed;		/* stale_all when everything was last read */
	uint64		stale_rules;	/* the same for all but weights */
	uint64		refreshed_rules;
	uint32		stale_tenants;	/* list of tenants whose rows changed */
	pg_atomic_uint32 pauses;	/* that it owns; changed under pause_lock, no lock
								 * needed to read */

	/* database slot only */
	pg_atomic_uint32 pauses_read;	/* 1 = rows of pauses are in memory */
	uint8		queue_load;		/* QuotaLoad of all flows of the database */
	bool		counting;		/* somebody counts its jobs, */
	pg_atomic_uint32 following;	/* and commits have to heed that; recount.c */
	ConditionVariable load_cv;	/* loads of this slot's objects, or a count,
								 * finished */
	pg_atomic_uint64 work_due_ns;	/* when a background worker is wanted */
	int			worker_pid;		/* 0 = none; protected by lock */
	pg_atomic_uint32 worker_runs;	/* that did all they had to */
	pg_atomic_uint64 marks_due_ns;	/* when it is to look after marks */
	pg_atomic_uint32 rules_wanted;	/* it is to renew buckets; rules.c */
	int64		trim_position;	/* last job id looked at by the trimming of
								 * history; the running worker's alone */
	/* ledger_fold.c and ledger_horizon.c; the running worker's alone */
	uint64		fold_seen_xid;	/* no transaction had this number */
	TimestampTz fold_seen_us;	/* at this instant; 0 = nothing noted */
	TimestampTz fold_complete_us;	/* nothing open is from before this instant */
	LedgerWalks fold_walks;		/* how far its rows are, that are committed */
	/* job_deadline.h; all but the first are the running worker's alone */
	pg_atomic_uint64 deadline_low;	/* a TimestampTz: lowered to since the last
									 * walk began; DT_NOEND = not at all */
	TimestampTz deadline_at;	/* the mark: a start_before, */
	int64		deadline_id;	/* and a job with that */
	bool		deadline_walking;	/* a walk is under way */
	TimestampTz deadline_again; /* where to look again, DT_NOEND = nowhere, */
	int64		deadline_again_ns;	/* and when */
} QuotaSlot;

/* Change counters, hashed by database and tenant; see change_count.c. */
#define QUOTA_N_GENERATIONS 1024

typedef struct QuotaGeneration
{
	pg_atomic_uint64 number;
	pg_atomic_uint64 deleted_ns;	/* last commit that deleted rows */
} QuotaGeneration;

/* How the clocks run. */
typedef struct QuotaClock
{
	bool		frozen;
	int64		quota_ns;		/* frozen: the quota clock; running: what to
								 * add to CLOCK_MONOTONIC */
	int64		wall_us;		/* frozen: the wall clock */
} QuotaClock;

typedef struct QuotaTable
{
	uint32		free;			/* free list of objects */
	uint32		n_used;
	uint32		reach;			/* objects from here on were never used */
	uint32		size;			/* objects */
	uint32		mask;			/* number of heads - 1 */
} QuotaTable;

typedef struct QuotaEvent
{
	Oid			database;
	int64		at_us;
	char		kind[32];
	char		provider[QUOTA_NAME_LEN];
	char		tenant[QUOTA_NAME_LEN];
	char		detail[256];
} QuotaEvent;

#define QUOTA_EVENT_RING 1024

/* An answer of a provider that is not written yet; see seen.h. */
typedef struct QuotaSeen
{
	Oid			database;
	int64		at_us;
	char		provider[QUOTA_NAME_LEN];
	char		tenant[QUOTA_NAME_LEN]; /* "" = not said, as for the next two */
	char		endpoint[QUOTA_NAME_LEN];
	char		reason[QUOTA_NAME_LEN];
	char		headers[512];	/* a JSON object of those that told something */
	uint8		outcome;		/* FeedbackClass */
	uint8		scope;			/* FeedbackScope */
	bool		has_level;
	int			status;			/* -1 = not said */
	int			attempt;		/* 0 = not said */
	int64		retry_after_us; /* -1 = not said, as for the next two */
	int64		latency_us;
	int64		in_flight;		/* calls */
	int64		level;			/* units, if has_level */
} QuotaSeen;

#define QUOTA_SEEN_RING 512

typedef struct QuotaShared
{
	LWLock	   *directory;		/* see LOCKING above */
	LWLock	   *events_lock;
	LWLock	   *notices_lock;
	LWLock	   *recount_lock;	/* see recount.c */
	LWLock	   *pause_lock;		/* see pause.c */

	uint8		secret[32];		/* key of all QuotaKeys */
	int64		crash_epoch;	/* random; rows born in it start full */
	pg_atomic_uint64 active_since_ns;	/* first decision of this crash epoch;
										 * 0 = none yet */
	ClockStamp	active_at;		/* the same instant; set before that, then fixed */
	pg_atomic_uint64 permit_serial;
	QuotaHand	bucket_hand;	/* where idle buckets are looked for */
	pg_atomic_uint64 parkings;	/* of flows, so far, closings of slots included */

	/* clock.c; writers hold the directory lock, readers none */
	pg_atomic_uint32 clock_version; /* clocks[clock_version % 2] counts */
	QuotaClock	clocks[2];
	TimestampTz steady_base_us; /* steady time minus the quota clock; fixed */

	QuotaTable	slot_table;
	QuotaTable	bucket_table;
	QuotaTable	tenant_table;
	QuotaTable	portion_table;
	QuotaTable	share_table;
	QuotaTable	flow_table;
	QuotaTable	line_table;
	QuotaTable	far_gate_table;
	uint32		grant_free;
	uint32		permit_free;
	uint32		permits_used;
	uint32		permit_aliases; /* permits with an alias */
	uint32		pause_free;		/* list, and how many are used; under pause_lock */
	int			pauses_used;
	pg_atomic_uint64 pause_serial;	/* starts anywhere */

	/* events ring, under events_lock; absolute positions */
	uint64		event_head;
	uint64		event_tail;
	uint64		events_lost;

	/* ring of answers, the same */
	uint64		seen_head;
	uint64		seen_tail;
	uint64		seen_lost;

	/* notices ring, under notices_lock; the same */
	uint64		notice_head;
	uint64		notice_tail;

	Latch	   *launcher_latch; /* NULL = not running */
	QuotaGeneration generations[QUOTA_N_GENERATIONS];
	QuotaEvent	events[QUOTA_EVENT_RING];
	QuotaSeen	seen[QUOTA_SEEN_RING];
	QuotaNotice notices[QUOTA_NOTICE_RING];
} QuotaShared;

extern PGDLLIMPORT QuotaShared *quota_shared;
extern PGDLLIMPORT QuotaSlot *quota_slots;
extern PGDLLIMPORT QuotaBucket *quota_buckets;
extern PGDLLIMPORT QuotaTenant *quota_tenants;
extern PGDLLIMPORT QuotaGrant *quota_grants;
extern PGDLLIMPORT QuotaPortion *quota_portions;
extern PGDLLIMPORT QuotaShare *quota_shares;
extern PGDLLIMPORT QuotaFlow *quota_flows;
extern PGDLLIMPORT QuotaLine *quota_lines;
extern PGDLLIMPORT QuotaFarGate *quota_far_gates;
extern PGDLLIMPORT QuotaPermit *quota_permits;
extern PGDLLIMPORT QuotaWaiter *quota_waiters;
extern PGDLLIMPORT QuotaWriter *quota_writers;	/* by backend */
/* By slot, close together: how much in it waits for the database's; flow_across.c */
extern PGDLLIMPORT pg_atomic_uint32 *quota_far_waits;

/* What a flow, a share or a bucket, and any object belongs to. */
#define share_of(flow)		(&quota_shares[(flow)->share])
#define tenant_of(share)	(&quota_tenants[(share)->tenant])
#define class_of(share)		(&slot_of(share)->classes[(share)->class_index])
#define slot_of(object)		(&quota_slots[(object)->entry.owner])

/* shmem.c */
extern void quota_shmem_init(void);
/* Takes a slot's lock for changes. */
extern void quota_lock(LWLock *lock);

/*
 * directory.c: find or create by key.  The caller holds the owner's lock and
 * not the directory's.  Creation returns QUOTA_NO_INDEX when the table is full.
 * A created object is zeroed except for its entry.
 */
extern uint32 quota_find_bucket(const QuotaKey *key, uint32 owner);
extern uint32 quota_create_bucket(const QuotaKey *key, uint32 owner);
extern uint32 quota_find_tenant(const QuotaKey *key, uint32 owner);
extern uint32 quota_create_tenant(const QuotaKey *key, uint32 owner);
extern uint32 quota_find_portion(const QuotaKey *key, uint32 owner);
extern uint32 quota_create_portion(const QuotaKey *key, uint32 owner);
extern uint32 quota_find_share(const QuotaKey *key, uint32 owner);
extern uint32 quota_create_share(const QuotaKey *key, uint32 owner);
extern uint32 quota_find_flow(const QuotaKey *key, uint32 owner);
extern uint32 quota_create_flow(const QuotaKey *key, uint32 owner);
extern uint32 quota_find_line(const QuotaKey *key, uint32 owner);
extern uint32 quota_create_line(const QuotaKey *key, uint32 owner);
extern uint32 quota_find_far_gate(const QuotaKey *key, uint32 owner);
extern uint32 quota_create_far_gate(const QuotaKey *key, uint32 owner);
extern void quota_remove_bucket(uint32 index);
extern void quota_remove_tenant(uint32 index);
extern void quota_remove_portion(uint32 index);
extern void quota_remove_share(uint32 index);
extern void quota_remove_flow(uint32 index);
extern void quota_remove_line(uint32 index);
extern void quota_remove_far_gate(uint32 index);
/* a bucket that nothing pins, and its tenant's charge for its place; reclaim.c */
extern void quota_drop_bucket(uint32 index);
/* a slot that owns nothing any more; its lock is held */
extern void quota_remove_slot(uint32 index);

/*
 * QUOTA_NO_INDEX when the table is full; an optional permit leaves a quarter of
 * it to calls that can't do without.
 */
extern uint32 quota_alloc_permit(bool optional);
extern void quota_alias_permit(uint32 index, int64 alias);
/* the free permit at this place, false when it is in use */
extern bool quota_alloc_permit_at(uint32 index);
extern void quota_free_permit(uint32 index);

/*
 * Finds or creates the slot of a provider ("" = the database); takes the
 * directory lock itself, so the caller holds no lock.  Throws 53400 when full.
 */
extern uint32 quota_slot(Oid database, Oid extension, const char *provider);
/* The same with the key known; QUOTA_NO_INDEX when full. Hashes nothing. */
extern uint32 quota_slot_restore(const QuotaKey *key, Oid database,
								 Oid extension, const char *provider);

/*
 * Makes room: forgets idle full buckets, lost permits, idle flows, and everything
 * of databases and extensions that are gone.  In a transaction; the caller holds
 * no lock; may throw.  True if anything was freed.
 */
extern bool quota_reclaim(void);

/*
 * Forgets some idle full buckets of the tenant (QUOTA_NO_INDEX = of all), which may
 * be another's by now; but none of those to be kept, which a call has just found or
 * made.  The caller holds no lock; may throw.  True if any was freed; false: none is
 * idle, or very few are.
 */
extern bool quota_reclaim_buckets(uint32 tenant, const uint32 *keep, int nkeep);

/* reports that a table is full; 53400, hint names the setting */
pg_noreturn extern void quota_table_full(const char *what, const char *setting, int size);

/* Portions: two limits that tenants share for each pair of tenant and provider. */
static inline int
quota_max_portions(void)
{
	return 2 * quota_max_tenants;
}

/* Grants that expire: one for every four buckets. */
static inline int
quota_max_grants(void)
{
	return Max(quota_max_buckets / 4, EXPIRING_MAX);
}

/* The object is in use and the slot's. */
static inline bool
quota_owned(const QuotaEntry *entry, uint32 slot)
{
	return entry->used && entry->owner == slot;
}

/* The index still names the bucket with this key; the owner's lock is held. */
static inline bool
quota_bucket_is(uint32 index, uint32 owner, const QuotaKey *key)
{
	QuotaBucket *b;

	if (index >= (uint32) quota_max_buckets)
		return false;
	b = &quota_buckets[index];
	return quota_owned(&b->entry, owner) && quota_key_equal(&b->entry.key, key);
}

#endif							/* QUOTA_SHMEM_H */
