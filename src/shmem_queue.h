/*
 * shmem_queue.h
 *		What the queue keeps in shared memory: tenants, shares, flows and lines, the
 *		sessions that wait, and what they are told.  See shmem.h for who may touch it.
 */
#ifndef QUOTA_SHMEM_QUEUE_H
#define QUOTA_SHMEM_QUEUE_H

#include "shmem_limit.h"

#include "class_order.h"
#include "fair.h"
#include "pace.h"
#include "position.h"
#include "storage/latch.h"

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
	pg_atomic_uint32 npermits;	/* of pins, those of permits */
	pg_atomic_uint32 nbuckets;	/* bucket places charged to it (G11 ceiling), */
	QuotaHand	hand;			/* and where those that are idle are looked for */
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
	uint32		shed_class;		/* of the last one untold, by index, and the */
	int64		shed_most;		/* bound that it met, */
	char		shed_limit[16]; /* whose is this; see shed.h */
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
	dlist_node	bucket_node;	/* in the gate's lines when closed */
	uint32		closer;			/* the flow that did it, */
	uint64		closed;			/* and its parking */
	dlist_node	idle_node;		/* in slot->idle_lines when idle: */
	bool		idle;			/* nobody waits, nobody's turn, not closed */
	pairingheap waiters;		/* PARKED flows, who goes first on top; but
								 * those whose share is ahead of its class: */
	pairingheap ahead;			/* as well, who goes first of them on top */
	FairClock	clock;			/* virtual time of this line */
} QuotaLine;

/* How a share stands in a line that it has waited in. */
typedef struct QuotaStanding
{
	uint32		line;			/* if the serial is this one's */
	uint32		nwaiting;		/* flows of the share that wait there */
	bool		has_turn;		/* one of them is the line's holder */
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
	uint32		nahead;			/* its flows that are in some line->ahead; */
	fair_time	ahead_high;		/* no line_tag of them is above */
	FairTag		tag;			/* place in the fair order */
	bool		queued;			/* node is in slot->classes[].heap */
	pairingheap_node node;
	pairingheap flows;			/* READY flows, oldest head first */
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
	bool		listed;			/* bucket_node is in the list of its gate */
	dlist_node	bucket_node;
	uint32		line;			/* it waits there or, READY, is its holder;
								 * QUOTA_NO_INDEX = neither */
	bool		waiting;		/* node is in line->waiters, or line->ahead, by: */
	bool		ahead;
	fair_time	line_start;		/* the share's standing, as last seen, */
	fair_time	line_tag;		/* and when ahead its tag's start; */
	uint64		line_since;

	Position	position;		/* where its next job may be */
	/* the job that was refused last; see flow_position.c */
	int64		head;			/* what is raised up to this id may go before
								 * it; 0 = no job was refused */
	bool		head_plain;		/* it was this fresh job, which costs what the
								 * cost map says; */
	uint64		head_epoch;		/* as of this epoch of the position */
	uint64		moves;			/* times that its head was taken away */
	int64		retries_ns;		/* until then its retries are left, as their
								 * budget was empty; 0 = never */
	uint64		parking;		/* blocked: number of its parking */
	int64		depth;			/* ready or scheduled jobs, committed */
	int64		in_flight;		/* claimed jobs, committed or open */
	uint64		counted;		/* times that either was changed; audit_queue.c */
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
	uint32		bucket;			/* the only one that is short; QUOTA_NO_INDEX =
								 * there are several */
	bool		across;			/* one of them is of the database's slot */
	char		limit_name[QUOTA_NAME_LEN];
} QuotaClosed;

/* Providers one session may wait for. */
#define QUOTA_MAX_WAIT_PROVIDERS 16

/* A waiter's place in the list of one slot; under the slot's lock. */
typedef struct QuotaWaitPlace
{
	dlist_node	node;			/* in slot->waiters while linked */
	bool		linked;
	uint32		waiter;
} QuotaWaitPlace;

/*
 * One for each backend, whose own all fields but the first two are; see waiter.c,
 * and for the last ones, which are protected by the lock of the slot where it asks,
 * asker.c.
 */
typedef struct QuotaWaiter
{
	pg_atomic_uint32 state;		/* WaiterState; set by who wakes it */
	pg_atomic_uint32 check;		/* raised by who drops an extension */
	Oid			database;
	Latch	   *latch;			/* set before state says that it waits */
	QuotaWaitPlace places[QUOTA_MAX_WAIT_PROVIDERS];
	uint32		asks_slot;		/* its own: where it may stand, else
								 * QUOTA_NO_INDEX */
	bool		asks;			/* it stands in slot->askers, */
	bool		in_line;		/* and after those who came before */
	bool		called;			/* it has to answer a roll-call, */
	bool		answering;		/* and is about to */
	bool		told;			/* something came back, which others are asking
								 * for; */
	bool		asking;			/* or it */
	uint32		asks_bucket;	/* the bucket that has refused it */
	uint32		asks_portion;	/* of which this is its tenant's, or QUOTA_NO_INDEX */
	int64		asks_units;
	dlist_node	asker_node;
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

#endif							/* QUOTA_SHMEM_QUEUE_H */
