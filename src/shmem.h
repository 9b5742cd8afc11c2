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
 *	tenant		a tenant at one provider: counters, current weight
 *	share		a tenant within one class: its place in the fair order
 *	flow		ready work of one share and endpoint
 *	line		flows that wait for the same shared limits, in order
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
 * notices_lock or recount_lock; never two of one kind.  permit_expire() alone asks for a database
 * slot's lock while it has a provider slot's, and does not wait for it.
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

#include "bucket.h"
#include "class_order.h"
#include "fair.h"
#include "lib/ilist.h"
#include "lib/pairingheap.h"
#include "latency.h"
#include "pace.h"
#include "port/atomics.h"
#include "position.h"
#include "storage/condition_variable.h"
#include "storage/latch.h"
#include "storage/lwlock.h"

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

typedef struct QuotaBucket
{
	QuotaEntry	entry;
	uint8		kind;			/* QuotaKind, fixed at creation */
	uint8		load;			/* QuotaLoad; only allowances leave READY */
	pg_atomic_uint32 pins;		/* journal records, permit parts, flows that wait
								 * for it; raised under the owner's lock, lowered
								 * without */
	uint32		tenant;			/* the tenant charged for this entry, or
								 * QUOTA_NO_INDEX */

	Bucket		rate;			/* token_bucket */

	int64		used;			/* concurrency: units of permits out;
								 * allowance: net units of this period */
	int64		capacity;		/* as of the last decision; for views */
	int64		held;			/* allowance: units of linked parts */
	int64		giving;			/* allowance: units that open transactions
								 * give when they commit */
	int64		unknown_until_ns;	/* concurrency after a crash: until then all
									 * of the capacity counts as in flight */
	pairingheap parts;			/* permit parts by expiry, not token_bucket */
	int64		period_start_us;	/* allowance: [start, end) */
	int64		period_end_us;
	int64		told_us;		/* allowance: the period whose exhaustion was
								 * told as an event */
	int64		anchor_us;		/* allowance: the calendar that applied */
	int32		period_count;
	bool		period_monthly;
	uint8		scope;			/* QuotaScope, as of the last decision */

	/* who waits for it; see flow_gate.c */
	dlist_head	lines;			/* closed at this bucket, first closed first */
	dlist_head	blocked;		/* flows that stand in no line, in the order of
								 * their parking; of a database slot: unused */
	pairingheap_node gate_node; /* in slot->gates when timed */
	int64		gate_ns;		/* timed: the lines look again then */
	bool		timed;
	pg_atomic_uint32 waiting_pins;	/* flows and lines among the pins */

	int64		admitted;		/* units */
	int64		refused;		/* calls */
	char		limit_name[QUOTA_NAME_LEN];
	char		label[QUOTA_LABEL_LEN];
} QuotaBucket;

/* What one permit took from one bucket. */
typedef struct QuotaPart
{
	pairingheap_node node;		/* in bucket->parts when linked */
	uint32		bucket;			/* pinned */
	uint32		permit;			/* index of the permit this is part of */
	uint8		kind;
	uint64		unit_hash;		/* unit charged; settling names it */
	bool		linked;			/* in bucket->parts; for concurrency: counted
								 * in bucket->used, for allowance: in held */
	int64		amount;			/* units charged */
	int64		final;			/* once marked: units that stay charged */
	int64		period_us;		/* allowance: start of the period charged */
	BucketTake	take;			/* token_bucket: for returns */
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
	bool		has_hold;		/* a row of quota.holds belongs to it */
	bool		restored;		/* after a crash: it may have such a row */
	bool		spent;			/* its call went out: rate tokens stay spent
								 * even if the taking transaction aborts */
	bool		is_batch;		/* of the jobs of a batch; see permit_batch.c */
	int			nparts;
	int32		n;				/* calls covered; batch: jobs that have not
								 * ended */
	int64		expires_ns;
	int64		lifetime_ns;	/* as given; bounds quota_extend() */
	int64		asked_ns;		/* batch: the latest end asked for that did not
								 * move expires_ns; */
	int			extender_pid;	/* who moved it last, 0 = that was undone */
	int64		job;			/* job id, or 0 */
	uint32		tenant;			/* pinned */
	pairingheap_node node;		/* in slot->permits while OPEN or LIVE */
	/* chains of the transaction that took or marks it; newest first */
	uint32		taken_next;
	uint32		marked_next;
	int			taker_pid;		/* OPEN: backend whose transaction took it */
	SubTransactionId taken_sub;
	SubTransactionId marked_sub;
	QuotaPart	parts[QUOTA_MAX_TERMS];
} QuotaPermit;

/*
 * Room in a queue: of a tenant at this provider, or of the whole provider.  What
 * bounds it is unfinished + open; see place.c.
 */
typedef struct QuotaPlaces
{
	int64		unfinished;		/* waiting or running jobs, committed; the sum
								 * of depth and in_flight of its flows */
	int64		open;			/* places taken by open transactions */
	Pace		pace;			/* at which places get free */
} QuotaPlaces;

typedef struct QuotaTenant
{
	QuotaEntry	entry;
	pg_atomic_uint32 pins;		/* buckets, shares and permits that name it */
	pg_atomic_uint32 nbuckets;	/* bucket places charged to it (G11 ceiling) */
	int64		weight_milli;	/* as of the last look at its rows */
	bool		stale;			/* rows changed; weight must be read again */
	uint32		stale_next;
	int64		admitted;		/* calls, direct and claimed */
	int64		refused[QUOTA_N_REASONS];	/* calls */
	int64		completed;		/* jobs */
	QuotaPlaces places;
	int64		shed;			/* jobs refused because a queue was full, */
	int64		shed_untold;	/* and since the last event told of them, */
	int64		shed_told_ns;	/* which was then; 0 = never */
	dlist_head	shares;
	dlist_head	blocked;		/* its flows that wait for an event */
	char		name[QUOTA_NAME_LEN];
} QuotaTenant;

/*
 * Where flows of one class wait that meet the same limits of the provider which
 * several tenants share; see flow_line.c.
 */
typedef struct QuotaLine
{
	QuotaEntry	entry;			/* the key is made of the buckets and the class */
	uint64		serial;			/* tells it from lines that were here before */
	uint32		class_index;
	uint32		holder;			/* the READY flow whose turn it is here, or
								 * QUOTA_NO_INDEX */
	uint32		bucket;			/* pinned: closed at this one, or QUOTA_NO_INDEX */
	dlist_node	bucket_node;	/* in bucket->lines when closed */
	uint32		closer;			/* the flow that did it, */
	uint64		closed;			/* and its parking */
	dlist_node	idle_node;		/* in slot->idle_lines when idle: */
	bool		idle;			/* nobody waits, nobody's turn, not closed */
	pairingheap waiters;		/* PARKED flows, who goes first on top */
	FairClock	clock;			/* virtual time of this line */
} QuotaLine;

/* How a share stands in a line that it has waited in. */
typedef struct QuotaStanding
{
	uint32		line;			/* if the serial is this one's */
	uint32		nwaiting;		/* flows of the share that wait there */
	uint64		serial;			/* 0 = unused */
	uint64		since;			/* number of the parking, when tag.start was set */
	FairTag		tag;
	fair_time	high;			/* no start known to a waiting flow is above */
} QuotaStanding;

#define QUOTA_MAX_STANDINGS 4

typedef struct QuotaShare
{
	QuotaEntry	entry;
	uint32		tenant;			/* pinned */
	dlist_node	tenant_node;	/* in tenant->shares */
	uint32		class_index;
	uint32		nflows;
	pg_atomic_uint32 pins;		/* journal records that name it */
	FairTag		tag;			/* place in the fair order */
	bool		queued;			/* node is in slot->classes[].heap */
	pairingheap_node node;
	pairingheap flows;			/* READY flows, oldest head first */
	int64		served;			/* cost in share units, committed or open */
	QuotaStanding standings[QUOTA_MAX_STANDINGS];
} QuotaShare;

typedef enum QuotaFlowState
{
	QUOTA_FLOW_IDLE,			/* nothing known to be there */
	QUOTA_FLOW_READY,			/* in share->flows */
	QUOTA_FLOW_PARKED			/* has work that can't run before wake_ns */
} QuotaFlowState;

typedef struct QuotaFlow
{
	QuotaEntry	entry;
	uint32		share;
	int64		hash;			/* quota.jobs.flow and quota.leases.flow */
	uint8		state;			/* QuotaFlowState */
	uint8		reason;			/* QuotaReason it is not running for */
	bool		since_seen;		/* since_ns is that of its head, which was seen
								 * there; else only a guess */
	pg_atomic_uint32 pins;		/* journal records that name it */
	pairingheap_node node;		/* in share->flows when READY, in line->waiters
								 * when waiting there */
	int64		order;			/* its key there */
	pairingheap_node timer;		/* in slot->timers unless wake_ns is NEVER */
	int64		since_ns;		/* its oldest job waits since then (quota
								 * clock); FLOW_SINCE_UNKNOWN = look at it */
	int64		age_key;		/* its key among the READY flows of its class,
								 * at most since_ns */
	pairingheap_node age_node;	/* in class->ages when READY */
	int64		wake_ns;		/* PARKED: when it may run again; READY: when a
								 * returned job comes due */
	bool		due;			/* READY: one is due, so it goes first */
	/* PARKED by anything but a lack of ready jobs: an event may free it */
	bool		blocked;
	dlist_node	tenant_node;	/* in tenant->blocked */
	dlist_node	slot_node;		/* in slot->blocked */
	uint32		waits_for;		/* blocked: the bucket it is parked for, pinned;
								 * QUOTA_NO_INDEX = none */
	bool		listed;			/* bucket_node is in that one's list */
	dlist_node	bucket_node;
	uint32		line;			/* it waits there or, READY, is its holder;
								 * QUOTA_NO_INDEX = neither */
	bool		waiting;		/* node is in line->waiters, by: */
	fair_time	line_start;		/* the share's standing, as last seen */
	uint64		line_since;

	Position	position;		/* where its next job may be */
	/* the job that was refused last; see flow_position.c */
	int64		head;			/* what is raised up to this id may go before
								 * it; 0 = no job was refused */
	bool		head_plain;		/* it was this fresh job, which costs what the
								 * cost map says; */
	uint64		head_epoch;		/* as of this epoch of the position */
	uint64		moves;			/* times that its head was taken away */
	uint64		parking;		/* blocked: number of its parking */
	int64		depth;			/* ready or scheduled jobs, committed */
	int64		in_flight;		/* claimed jobs, committed or open */
	/* for counting while they change; see recount.c */
	int64		open;			/* claims among them that are open */
	int64		later_depth;	/* committed since the snapshot of the count */
	int64		later_in_flight;
	int64		guess;			/* see flow_recount.c */
	char		endpoint[QUOTA_NAME_LEN];	/* "" = no endpoint */
} QuotaFlow;

typedef struct QuotaClass
{
	char		name[QUOTA_NAME_LEN];
	bool		used;
	uint32		nshares;		/* that name it */
	int64		max_wait_ns;	/* 0 = none; as of the last look at its row */
	FairClock	clock;			/* virtual time */
	pairingheap heap;			/* shares with READY flows, least tag first */
	pairingheap ages;			/* READY flows, least age_key first */
} QuotaClass;

StaticAssertDecl(CLASS_ORDER_MAX == QUOTA_MAX_CLASSES,
				 "every class has a place in the order");

/* What stops every READY flow of a slot; see flow_close.c. */
typedef struct QuotaClosed
{
	uint32		flow;			/* whose turn it was, QUOTA_NO_INDEX = open */
	uint8		reason;			/* QuotaReason of its refusal */
	int64		until_ns;
	uint64		number;			/* among the slot's parkings */
	char		limit_name[QUOTA_NAME_LEN];
} QuotaClosed;

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
	pairingheap gates;			/* buckets by gate_ns */
	uint64		lines_made;		/* so far */
	dlist_head	idle_lines;		/* longest idle first */
	dlist_head	blocked;		/* flows that wait for an event, in the order
								 * of their parking, as in the tenants' lists */
	Latency		latency;		/* of the attempts that ended last */
	uint64		parkings;		/* so far, closings included */
	QuotaClosed closed;
	/* sessions that wait for something to claim; see waiter.c */
	dlist_head	waiters;		/* QuotaWaitPlace, by arrival */
	uint64		wakes;			/* times one of them was woken */
	int64		woken_ns;		/* when that was last; real time */
	pg_atomic_uint32 coming;	/* woken, and has not come to claim yet; no
								 * lock needed */
	int64		look_ns;		/* when the last in the list will look; real time,
								 * nothing while the list is empty */
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

	/* database slot only */
	uint8		queue_load;		/* QuotaLoad of all flows of the database */
	bool		counting;		/* somebody counts its jobs, */
	pg_atomic_uint32 following;	/* and commits have to heed that; recount.c */
	ConditionVariable load_cv;	/* loads of this slot's objects, or a count,
								 * finished */
	pg_atomic_uint64 work_due_ns;	/* when a background worker is wanted */
	int			worker_pid;		/* 0 = none; protected by lock */
	pg_atomic_uint32 worker_runs;	/* that did all they had to */
	int64		trim_position;	/* last job id looked at by the trimming of
								 * history; the running worker's alone */
	/* job_deadline.h; all but the first are the running worker's alone */
	pg_atomic_uint64 deadline_low;	/* a TimestampTz: lowered to since the last
									 * walk began; DT_NOEND = not at all */
	TimestampTz deadline_at;	/* the mark: a start_before, */
	int64		deadline_id;	/* and a job with that */
	bool		deadline_walking;	/* a walk is under way */
	TimestampTz deadline_again; /* where to look again, DT_NOEND = nowhere, */
	int64		deadline_again_ns;	/* and when */
} QuotaSlot;

/* Providers one session may wait for. */
#define QUOTA_MAX_WAIT_PROVIDERS 16

/* A waiter's place in the list of one slot; under the slot's lock. */
typedef struct QuotaWaitPlace
{
	dlist_node	node;			/* in slot->waiters while linked */
	bool		linked;
	uint32		waiter;
} QuotaWaitPlace;

/* One for each backend.  See waiter.c; fields are the backend's own but for */
typedef struct QuotaWaiter
{
	pg_atomic_uint32 state;		/* WaiterState; set by who wakes it */
	pg_atomic_uint32 check;		/* raised by who drops an extension */
	Oid			database;
	Latch	   *latch;			/* set before state says that it waits */
	QuotaWaitPlace places[QUOTA_MAX_WAIT_PROVIDERS];
} QuotaWaiter;

/*
 * The commit of one backend, which writes xid and database without a lock; see
 * recount.c.
 */
typedef struct QuotaWriter
{
	TransactionId xid;			/* invalid = none */
	Oid			database;
	TransactionId seen;			/* shown by the snapshot of a count; under
								 * recount_lock */
	char		padding[PG_CACHE_LINE_SIZE - 3 * sizeof(uint32)];
} QuotaWriter;

/* Change counters, hashed by database and tenant; see change.c. */
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

/* A job that has finished; notify.h. */
typedef struct QuotaNotice
{
	Oid			database;		/* InvalidOid = done */
	int64		job;
	uint8		state;
	char		provider[QUOTA_NAME_LEN];
	char		tenant[QUOTA_NAME_LEN];
} QuotaNotice;

#define QUOTA_NOTICE_RING 4096

typedef struct QuotaShared
{
	LWLock	   *directory;		/* see LOCKING above */
	LWLock	   *events_lock;
	LWLock	   *notices_lock;
	LWLock	   *recount_lock;	/* see recount.c */

	uint8		secret[32];		/* key of all QuotaKeys */
	int64		crash_epoch;	/* random; rows born in it start full */
	pg_atomic_uint64 active_since_ns;	/* first decision of this crash epoch;
										 * 0 = none yet */
	pg_atomic_uint64 permit_serial;

	/* clock.c; writers hold the directory lock, readers none */
	pg_atomic_uint32 clock_version; /* clocks[clock_version % 2] counts */
	QuotaClock	clocks[2];
	TimestampTz steady_base_us; /* steady time minus the quota clock; fixed */

	QuotaTable	slot_table;
	QuotaTable	bucket_table;
	QuotaTable	tenant_table;
	QuotaTable	share_table;
	QuotaTable	flow_table;
	QuotaTable	line_table;
	uint32		permit_free;
	uint32		permits_used;
	uint32		permit_aliases; /* permits with an alias */

	/* events ring, under events_lock; absolute positions */
	uint64		event_head;
	uint64		event_tail;
	uint64		events_lost;

	/* notices ring, under notices_lock; the same */
	uint64		notice_head;
	uint64		notice_tail;

	Latch	   *launcher_latch; /* NULL = not running */
	QuotaGeneration generations[QUOTA_N_GENERATIONS];
	QuotaEvent	events[QUOTA_EVENT_RING];
	QuotaNotice notices[QUOTA_NOTICE_RING];
} QuotaShared;

extern PGDLLIMPORT QuotaShared *quota_shared;
extern PGDLLIMPORT QuotaSlot *quota_slots;
extern PGDLLIMPORT QuotaBucket *quota_buckets;
extern PGDLLIMPORT QuotaTenant *quota_tenants;
extern PGDLLIMPORT QuotaShare *quota_shares;
extern PGDLLIMPORT QuotaFlow *quota_flows;
extern PGDLLIMPORT QuotaLine *quota_lines;
extern PGDLLIMPORT QuotaPermit *quota_permits;
extern PGDLLIMPORT QuotaWaiter *quota_waiters;
extern PGDLLIMPORT QuotaWriter *quota_writers;	/* by backend */

/* shmem.c */
extern void quota_shmem_init(void);

/*
 * directory.c: find or create by key.  The caller holds the owner's lock and
 * not the directory's.  Creation returns QUOTA_NO_INDEX when the table is full.
 * A created object is zeroed except for its entry.
 */
extern uint32 quota_find_bucket(const QuotaKey *key, uint32 owner);
extern uint32 quota_create_bucket(const QuotaKey *key, uint32 owner);
extern uint32 quota_find_tenant(const QuotaKey *key, uint32 owner);
extern uint32 quota_create_tenant(const QuotaKey *key, uint32 owner);
extern uint32 quota_find_share(const QuotaKey *key, uint32 owner);
extern uint32 quota_create_share(const QuotaKey *key, uint32 owner);
extern uint32 quota_find_flow(const QuotaKey *key, uint32 owner);
extern uint32 quota_create_flow(const QuotaKey *key, uint32 owner);
extern uint32 quota_find_line(const QuotaKey *key, uint32 owner);
extern uint32 quota_create_line(const QuotaKey *key, uint32 owner);
extern void quota_remove_bucket(uint32 index);
extern void quota_remove_tenant(uint32 index);
extern void quota_remove_share(uint32 index);
extern void quota_remove_flow(uint32 index);
extern void quota_remove_line(uint32 index);
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

/* reports that a table is full; 53400, hint names the setting */
pg_noreturn extern void quota_table_full(const char *what, const char *setting, int size);

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
