/*
 * shmem_limit.h
 *		What limits keep in shared memory: buckets and permits.  See shmem.h for
 *		who may touch them.
 */
#ifndef QUOTA_SHMEM_LIMIT_H
#define QUOTA_SHMEM_LIMIT_H

#include "quota.h"

#include "adaptive.h"
#include "breaker.h"
#include "expiring.h"
#include "lib/ilist.h"
#include "lib/pairingheap.h"
#include "meter.h"
#include "portion.h"
#include "port/atomics.h"
#include "stamp.h"

/* Head of every object that is found by key (directory.c). */
typedef struct QuotaEntry
{
	QuotaKey	key;
	uint32		chain;			/* next in hash chain or free list */
	uint32		owner;			/* index of the owning slot */
	bool		used;
} QuotaEntry;

/*
 * EMPTY -> LOADING -> READY; LOADING falls back to EMPTY when its loader fails.
 * A large queue is USABLE before it is READY: see job_load.c.
 */
typedef enum QuotaLoad
{
	QUOTA_LOAD_EMPTY,
	QUOTA_LOAD_LOADING,
	QUOTA_LOAD_READY,
	QUOTA_LOAD_USABLE			/* flows can be used; what they count is not
								 * known yet */
} QuotaLoad;

/* Whom a bucket serves: whose flows an event on it may set free. */
typedef enum QuotaScope
{
	QUOTA_SCOPE_OWN,			/* one tenant */
	QUOTA_SCOPE_SHARED,			/* several */
	QUOTA_SCOPE_WIDE			/* every call to the provider */
} QuotaScope;

/* Who waits, in one provider's slot, for one bucket; see gate.c and flow_gate.c. */
typedef struct QuotaGate
{
	dlist_head	lines;			/* closed at the bucket, first closed first */
	dlist_head	blocked;		/* flows that stand in no line, in the order of
								 * their parking */
	pairingheap_node node;		/* in slot->gates when timed */
	int64		opens_ns;		/* timed: the lines look again then */
	uint32		slot;			/* of those who wait */
	bool		timed;
	bool		far;			/* the bucket is of the database's slot */
	uint8		kept;			/* far: somebody is walking its lists */
} QuotaGate;

/*
 * A gate for a bucket of the database's slot, by the bucket's key and the slot of
 * those who wait, which owns it; it is there while somebody does.
 */
typedef struct QuotaFarGate
{
	QuotaEntry	entry;
	QuotaGate	gate;
} QuotaFarGate;

/* Where a row of quota.marks is; an offset of 0: nowhere. */
typedef struct MarkPlace
{
	uint32		block;
	uint16		offset;
} MarkPlace;

/*
 * Of a slow limit's bucket: what its row in quota.marks allows for.  See mark.c.
 */
typedef struct QuotaMark
{
	bool		slow;			/* nothing may be taken that the row doesn't say */
	uint8		id[16];			/* of the row: a stable hash of the key */
	MarkPlace	place;			/* of the row, where it was last */
	int64		taken;			/* units taken so far; returns don't lower it */
	int64		covered;		/* taken may rise to this, says the row, */
	int64		marked_ns;		/* written then */
	int64		returned;		/* units, since: the row says too much */
	uint32		database_slot;	/* whose worker may be told, or QUOTA_NO_INDEX */
	int64		capacity;		/* the rules as of the last decision */
	BucketRate	rate;
	int64		anchor_us;
	uint32		changes;		/* of these, so far */
	uint32		marked_changes; /* when the row was written */
} QuotaMark;

/*
 * What every decision touches comes first, and what it touches of a limit that tenants
 * share is together: a bucket that many sessions use goes from one processor's cache
 * to another's line by line.
 */
typedef struct QuotaBucket
{
	QuotaEntry	entry;
	uint8		kind;			/* QuotaKind, fixed at creation */
	uint8		load;			/* QuotaLoad; only allowances leave READY */
	uint8		enforcement;	/* QuotaEnforcement, as of the last decision */
	uint8		scope;			/* QuotaScope, the same */
	pg_atomic_uint32 pins;		/* journal records, permit parts, flows that wait
								 * for it; raised under the owner's lock, lowered
								 * without */
	uint32		tenant;			/* the tenant charged for this entry, or
								 * QUOTA_NO_INDEX */
	int64		capacity;		/* as of the last decision; for views */
	int64		most_debt;		/* units it may owe, of a rate; the same */
	int64		used;			/* concurrency: units of permits out;
								 * allowance: net units of this period */
	int64		unknown_until_ns;	/* concurrency after a crash: until then all
									 * of the capacity counts as in flight */
	int64		shadow_used;	/* allowance: units that calls would have used of
								 * it, were it not a shadow */
	int64		soft_told_ns;	/* when it was told that a call was admitted all the
								 * same; 0 = tell the next one; */
	int64		soft_told_us;	/* of an allowance the period in which */
	int64		spread_units;	/* a rate: told to those it has refused, since it
								 * admitted one; see spread.c */
	int64		spread_ns;		/* and the first of them is to come then */
	int64		admitted;		/* units */
	QuotaStamp	rules;			/* what the rules of a rate were made of; see rules.c */

	union
	{
		Meter		meter;		/* of a rate */
		Breaker		breaker;
	};
	Adaptive	adaptive;		/* how much of it is used */
	QuotaMark	mark;			/* of a slow one */
	/* what calls must leave; see floor.c */
	Portions	portions;		/* of the tenants that share it */
	dlist_head	portion_list;	/* all QuotaPortions of it */
	PortionRules portion_rules; /* as of the last decision, */
	BucketRate	portion_rate;	/* like this */
	int64		urgent_ns;		/* a call of the class with this headroom was */
	int			urgent_milli;	/* refused then */
	uint8		meant_by;		/* by which FeedbackScope such limits are meant */

	int64		held;			/* allowance: units of linked parts */
	int64		loose;			/* allowance: units of other holds of this period
								 * that no entry has resolved: their permits have
								 * expired, or were lost in a crash; */
	int64		overdue;		/* of these units that are known to stay spent */
	int64		giving;			/* allowance: units that open transactions
								 * give when they commit */
	pairingheap parts;			/* permit parts by expiry, not of rates; */
	int64		last_end_ns;	/* none of them ends later */
	int64		period_start_us;	/* allowance: [start, end) */
	int64		period_end_us;
	/* allowance: holds that were lost and return; see credit_lapse.c */
	int64		lapsed;			/* units of those that used has still, */
	uint64		lapse_version;	/* moves when these may have become others, */
	bool		lapse_look;		/* and this says so until they are read again; */
	int64		lapse_look_ns;	/* they are then, too */
	/* allowance: grants that expire; see credit_grant.c */
	int64		seen_us;		/* what it is charged counts then or later */
	uint32		grants;			/* the newest one of the period, or QUOTA_NO_INDEX */
	int64		gone;			/* units of those that have expired; used has them */
	int64		gone_until_us;	/* the last one of these did then, */
	int64		gone_next_us;	/* and the next one does; or: this is to be found out */
	int64		told_us;		/* allowance: the period whose exhaustion was
								 * told as an event */
	int64		warned_us;		/* allowance: the period in which use was told */
	int32		warned_milli;	/* up to this fraction, of 1000 */
	uint64		calendar;		/* allowance: id of the calendar that applied */

	QuotaGate	gate;			/* who waits for it; of a database slot: unused */
	pg_atomic_uint32 waiting_pins;	/* flows and lines among the pins */

	int64		refused;		/* calls */
	int64		would_refuse;	/* calls, if it were hard */
	char		limit_name[QUOTA_NAME_LEN];
	char		label[QUOTA_LABEL_LEN];
} QuotaBucket;

/*
 * A grant that expires; see credit_grant.c.  In use it is under the lock of its
 * bucket's owner, in the free list under the directory's.
 */
typedef struct QuotaGrant
{
	Expiring	expiring;
	uint32		next;			/* older one of its bucket, or in the free list */
} QuotaGrant;

/* Where the search for idle buckets goes on; see reclaim.c. */
typedef struct QuotaHand
{
	pg_atomic_uint32 next;		/* place of the table */
	pg_atomic_uint64 idle_ns;	/* none was idle when all were looked at, or will be
								 * before then by time alone */
} QuotaHand;

/* No call was refused. */
#define QUOTA_NOT_URGENT PG_INT32_MAX

/* What one tenant has of a bucket that several share. */
typedef struct QuotaPortion
{
	QuotaEntry	entry;			/* the key is made of bucket and tenant */
	pg_atomic_uint32 pins;		/* journal records and permit parts */
	uint32		bucket;			/* goes last */
	uint32		tenant;			/* pinned */
	dlist_node	bucket_node;	/* in bucket->portion_list */
	Portion		portion;
} QuotaPortion;

/* What one permit took from one bucket. */
typedef struct QuotaPart
{
	pairingheap_node node;		/* in bucket->parts when linked */
	uint32		bucket;			/* pinned */
	uint32		permit;			/* index of the permit this is part of */
	uint32		portion;		/* pinned, or QUOTA_NO_INDEX */
	uint8		kind;
	bool		shadow;			/* allowance: counted in bucket->shadow_used */
	uint64		unit_hash;		/* unit charged; settling names it */
	bool		linked;			/* in bucket->parts; for concurrency: counted
								 * in bucket->used, for allowance: in held */
	int64		amount;			/* units charged */
	int64		each;			/* of them for each call of the permit */
	int64		final;			/* once marked: units that stay charged */
	int64		period_us;		/* allowance: start of the period charged, */
	int64		charged_us;		/* and the instant */
	MeterTake	take;			/* of a rate: for returns */
} QuotaPart;

typedef enum QuotaPermitState
{
	QUOTA_PERMIT_FREE,
	QUOTA_PERMIT_OPEN,			/* its transaction has not committed */
	QUOTA_PERMIT_LIVE,
	QUOTA_PERMIT_EXPIRED		/* lifetime over, kept only because a
								 * transaction's chain leads through it */
} QuotaPermitState;

/*
 * id = serial * 2^20 + index.  The serial rises by one with every permit and
 * starts at a random point in every crash epoch, so an old id does not name a
 * stranger's permit.
 */
#define QUOTA_PERMIT_INDEX_BITS 20

typedef struct QuotaPermit
{
	int64		id;
	int64		alias;			/* id before a crash, when its place was taken;
								 * else 0 */
	uint32		chain;			/* free list, both ways; under the directory
								 * lock, as is state while FREE */
	uint32		chain_back;
	uint32		owner;			/* provider slot */
	uint32		database_slot;	/* owner of some parts' buckets, or
								 * QUOTA_NO_INDEX */
	uint8		state;			/* QuotaPermitState */
	bool		taken;			/* in the chain of the transaction that took it */
	bool		marked;			/* in the chain of one that settles it */
	bool		has_hold;		/* a row of quota.holds belongs to it, */
	bool		refunds;		/* whose credits return if it is lost */
	bool		ended;			/* marked because its lease was over: the hold's
								 * row stays */
	bool		restored;		/* after a crash: it may have such a row */
	bool		spent;			/* its call went out: rate tokens stay spent
								 * even if the taking transaction aborts */
	bool		is_batch;		/* of the jobs of a batch; see permit_batch.c */
	int			nparts;
	int32		n;				/* calls covered; batch: jobs that have not
								 * ended */
	int32		giving;			/* of n: given back when giver_pid commits; see */
	int			giver_pid;		/* permit_lease.c */
	int64		expires_ns;
	int64		lifetime_ns;	/* as given; bounds quota_extend() */
	int64		asked_ns;		/* batch: the latest end asked for that did not
								 * move expires_ns; */
	int			extender_pid;	/* who moved it last, 0 = that was undone */
	int64		job;			/* job id, or 0 */
	uint32		tenant;			/* pinned */
	char		endpoint[QUOTA_NAME_LEN];	/* of its call; "" = none, or not known */
	pairingheap_node node;		/* in slot->permits while OPEN or LIVE */
	/* chains of the transaction that took or marks it; newest first */
	uint32		taken_next;
	uint32		marked_next;
	int			taker_pid;		/* OPEN: backend whose transaction took it */
	SubTransactionId taken_sub;
	SubTransactionId marked_sub;
	QuotaPart	parts[QUOTA_MAX_TERMS];
} QuotaPermit;

#endif							/* QUOTA_SHMEM_LIMIT_H */
