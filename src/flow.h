/*
 * flow.h
 *		Flows in shared memory: which one goes next, and where its next job may
 *		be.  All functions are called with the owner slot's lock held unless
 *		they say otherwise, never allocate and never throw.
 */
#ifndef QUOTA_FLOW_H
#define QUOTA_FLOW_H

#include "journal.h"
#include "position.h"
#include "shmem.h"

/* ---- flow.c: finding, weights, room ---- */

/* An empty slot: no classes, empty heaps.  Its objects must be gone. */
extern void flow_slot_init(uint32 slot);

/*
 * Finds or creates tenant, share and flow; hash is quota.jobs.flow.
 * QUOTA_NO_INDEX when a table is full.  A tenant or class that is new is
 * marked stale, so that its weight or rank is read before it is picked.
 */
extern uint32 flow_get(uint32 slot, const QuotaPlan *plan, int64 hash);
/* Is there a place for the plan's class?  Why flow_get() may have failed. */
extern bool flow_has_class_room(uint32 slot, const QuotaPlan *plan);

/*
 * Adds to what is known of its jobs: ready or scheduled ones, and claimed ones.
 * The sums of unfinished jobs of its tenant and provider follow; all changes of
 * these counts come through here.
 */
extern void flow_count(QuotaFlow *flow, int64 depth, int64 in_flight);
/* What is known becomes this; nothing has happened. */
extern void flow_set_count(QuotaFlow *flow, int64 depth, int64 in_flight);

/* Queue places that open transactions have taken for its jobs: n more or less. */
extern void flow_add_places(QuotaFlow *flow, int64 n);

extern void flow_set_weight(uint32 tenant, int64 weight_milli);
extern void flow_set_class(uint32 slot, int class_index,
						   const QuotaClassRules *rules);

/*
 * Forgets idle flows, once their queue is counted, shares without flows whose place
 * in the order is over, classes without shares, and tenants nobody names; returns how
 * many objects.
 */
extern int	flow_reclaim(uint32 slot);

/* ---- flow_order.c: whose turn it is ---- */

/* How a flow was picked. */
typedef struct FlowTurn
{
	ClassWhy	why;
	bool		look;			/* not to be claimed from: somebody has to say by
								 * flow_scan_seen() how old its head is */
} FlowTurn;

/*
 * The flow whose turn it is, QUOTA_NO_INDEX when none is READY.  Unless the caller
 * may look, classes whose age is only guessed don't count as old.
 */
extern uint32 flow_pick(uint32 slot, int64 now_ns, bool may_look,
						FlowTurn *turn);
/*
 * A job of claim->flow, picked for this reason, is charged; fills in the claim.
 * "more": another job of the batch that was charged last, for the same turn.
 */
extern void flow_charge(JournalClaim *claim, int64 cost, ClassWhy why,
						bool more);

/* since_ns of a flow of which nothing is known */
#define FLOW_SINCE_UNKNOWN	PG_INT64_MIN
/*
 * The flow's oldest job waits since then; "seen": that of its head, by who has
 * found that to be its head; else as far as one can know.
 */
extern void flow_set_since(QuotaFlow *flow, int64 since_ns, bool seen);

/* ---- flow_direct.c: calls beside the queue, and costs known late ---- */

/*
 * A direct call of this cost was admitted; the locks of the plan are held, and one
 * record was reserved in the journal.
 */
extern void flow_direct(QuotaPlan *plan, int64 cost);
extern void flow_apply_unlead(uint32 share, const FairLead *lead);
/* A job of the flow has cost so much more than it was charged; negative: less. */
extern void flow_correct(QuotaFlow *flow, int64 difference);

/* ---- flow_park.c: flows that can't run ---- */

/*
 * To be called before picking: accounts for the time that has passed.  Permits end,
 * and what time has made ready is READY; flows with a timer after wake_ns, now_ns or
 * before it, stay as they are.
 */
extern void flow_pass_time(uint32 slot, int64 now_ns, TimestampTz wall_us,
						   int64 wake_ns);
/*
 * Takes a flow that was refused out of the order until wake_ns or an event. For
 * refusals decided since the pick without releasing the lock, and of a head that
 * still is one: see flow_scan_refused() and flow_head_is_plain().
 */
extern void flow_park(uint32 flow, QuotaReason reason, uint32 bucket,
					  int64 wake_ns);
/* Blocked flows of the tenant / of the slot are READY, whatever they wait for. */
extern void flow_unpark_tenant(uint32 tenant);
extern void flow_unpark_all(uint32 slot);
/*
 * Those of the tenant and of endpoints of the pattern ("" = of all) that a pause has
 * blocked; and the slot is open if one has closed it.
 */
extern void flow_unpark_paused(uint32 slot, const char *tenant, const char *endpoint);

/* The number of the last parking of all slots. */
static inline uint64
flow_parkings(void)
{
	return pg_atomic_read_u64(&quota_shared->parkings);
}

/* The number of a new one. */
static inline uint64
flow_next_parking(void)
{
	return pg_atomic_fetch_add_u64(&quota_shared->parkings, 1) + 1;
}

/* The first time at which anything of the slot that waits is looked at. */
extern int64 flow_first_wake_ns(const QuotaSlot *slot);

/* ---- flow_close.c: may anything be claimed? ---- */

/*
 * A limit that every call meets stops the flow whose turn it is, and so all,
 * until then or an event: on this bucket, or QUOTA_NO_INDEX, on any such limit's;
 * across: one that is short is of the database's slot, whose lock is held too.
 */
extern void flow_close(uint32 flow, QuotaReason reason, uint32 bucket,
					   bool across, int64 until_ns, const char *limit_name);
/* Nothing does any more, or who asks has to find out. */
extern void flow_open(uint32 slot);
/* An event on the bucket, for what was closed after so many parkings. */
extern void flow_open_since(uint32 slot, uint32 bucket, uint64 parkings);
/* The one whose turn it is is stopped, and so are all that are READY. */
extern bool flow_all_stopped(uint32 slot, int64 now_ns);
/* A claim is worth trying; flow_pass_time() was called for now. */
extern bool flow_may_claim(uint32 slot, int64 now_ns);
/* When time alone may change that; QUOTA_NEVER. */
extern int64 flow_next_ns(uint32 slot);

/* ---- flow_across.c: limits across providers ---- */

/*
 * Something of a bucket of the database's slot, whose lock is held, has come back; who
 * waits for it learns it by across_tell(), but for what was parked before "parkings".
 */
extern void across_note(uint32 bucket, uint64 parkings);

extern PGDLLIMPORT bool across_noted;
extern void across_tell_noted(void);

/*
 * To be called after the release of a database's slot's lock, or of one under which
 * permits may have expired, before anything can fail.  No lock of a slot held;
 * doesn't throw.
 */
static inline void
across_tell(void)
{
	if (across_noted)
		across_tell_noted();
}

/* ---- flow_position.c: where its next job may be ---- */

/*
 * One search of a flow.  Between begin and outcome no lock is held; the
 * caller's claim record pins the flow.
 */
typedef struct FlowScan
{
	uint32		flow;
	int64		now_ns;			/* when it began */
	uint64		moves;			/* the flow's, then */
	bool		look_returned;	/* a row of the returned lane may be due */
	PositionScan position;		/* see position_ranges() and place */

	/* kept by who searches the returned lane */
	bool		returned_done;	/* all that is due was looked at */
	int64		next_due_ns;	/* the first due time of what was left there,
								 * but for rows that somebody is writing */
	TimestampTz place;			/* nothing was left before this ready_at, */
	int64		place_id;		/* nor with it, before this job */
	int64		retries_ns;		/* retries were left until then, their budget
								 * being empty; 0 = not */
} FlowScan;

/* Rows to look at before telling flow_scan_passed(). */
#define FLOW_SCAN_CHUNK 1000

/*
 * Begins a search.  Index scans over position_ranges() begin afterwards: one
 * begun before may have read a page that has changed since.
 */
extern void flow_scan_begin(uint32 flow, int64 now_ns, FlowScan *scan);

/* The least fresh id raised since that epoch, or less. */
extern int64 flow_scan_raised(uint32 flow, uint64 epoch);

/* No lock: a ready fresh row that somebody has locked; go on behind it. */
static inline void
flow_scan_skip(FlowScan *scan, int64 id)
{
	position_skip(&scan->position, id);
}

/*
 * It looked at every unsettled fresh id up to id, and none is ready but what it
 * skipped.  It goes on with new ranges and new index scans of the fresh lane.
 */
extern void flow_scan_passed(FlowScan *scan, int64 id);

/*
 * Outcomes; one of them ends the search.
 *
 * taken: it claims (or buries) the fresh job id, after looking at everything
 * before; 0 = a job of the returned lane.
 */
extern void flow_scan_taken(const FlowScan *scan, int64 id);
/*
 * It found the head, which limits don't allow; fresh is the first ready fresh
 * job, the head or not, POSITION_NONE = there is none; plain: it is the head and
 * costs what the cost map says.  False when there may be another head by now;
 * else the caller may park the flow, until flow_scan_look_ns() at most.
 */
extern bool flow_scan_refused(const FlowScan *scan, int64 fresh, bool plain);
extern int64 flow_scan_look_ns(const FlowScan *scan);
/*
 * It found the head, which waits since then.  False when there may be another head
 * by now.  Ends the search only when that is all it was for.
 */
extern bool flow_scan_seen(const FlowScan *scan, int64 since_ns);
/* It has done enough: the flow goes on at wake_ns. */
extern void flow_scan_rested(const FlowScan *scan, int64 wake_ns);
/*
 * It looked at all ids and found nothing ready but what it skipped; last_id is
 * the greatest id it saw, 0 = none.
 */
extern void flow_scan_empty(const FlowScan *scan, int64 last_id);

/*
 * Its head still is the one refused last, a job that costs what the cost map
 * says; else one has to look.
 */
extern bool flow_head_is_plain(uint32 flow, int64 now_ns);

/* ---- flow_recount.c: before everything is known ---- */

/*
 * The flows of a database can be used; no lock needed.  Its jobs, or those of a
 * provider's slot, are counted: counts of flows are right; neither ever ends.
 */
extern bool flow_queue_is_usable(uint32 database_slot);
extern bool flow_queue_is_counted(uint32 slot);

/* It has just been made. */
extern void flow_mark_new(uint32 flow);
/* Nothing is known of it: everything may be ready, something be due at due_ns. */
extern void flow_raise_all(uint32 flow, int64 due_ns, int64 now_ns);

/* n claims more, or less, belong to open transactions. */
extern void flow_count_claim(QuotaFlow *flow, int n);
/* flow_count() for what the transaction whose callback this is has committed. */
extern void flow_count_committed(QuotaFlow *flow, int64 depth, int64 in_flight);

/* What the rows say of a flow. */
typedef struct FlowRows
{
	int64		depth;
	int64		in_flight;
	int64		lowest;			/* fresh ids; POSITION_NONE = there is none */
	int64		highest;
	int64		due_ns;			/* in the returned lane; QUOTA_NEVER = nothing */
	bool		known;			/* the flow was there before, with this epoch */
	uint64		epoch;
} FlowRows;

/* Before the snapshot of a count; returns the flow's epoch. */
extern uint64 flow_recount_begin(uint32 flow);
/* What the count found, no id in the table being above upto. */
extern void flow_recount_end(uint32 flow, const FlowRows *rows, int64 upto,
							 int64 now_ns);
extern bool flow_was_recounted(uint32 flow);

/* May the search begin with a guess?  No lock needed.  Then: it starts at id. */
extern bool flow_may_guess(const FlowScan *scan);
extern void flow_scan_guess(FlowScan *scan, int64 id);

/* ---- called by the journal ---- */

extern void flow_apply_note(uint32 flow, const JournalNote *note,
							bool committed, int64 now_ns);
/* a claim, its job not known yet; then its job; then the undo of both, or commit */
extern void flow_apply_claim(const JournalClaim *claim);
extern void flow_apply_claim_job(const JournalClaim *claim);
extern void flow_apply_unclaim(const JournalClaim *claim, int64 now_ns);
extern void flow_apply_claimed(const JournalClaim *claim);

/* ---- between the flow*.c files ---- */

/*
 * The wall clock, which scheduled jobs follow, may have been set: looks at flows
 * that wait for something.
 */
extern void flow_follow_wall(uint32 slot, int64 now_ns, TimestampTz wall_us);
extern int	flow_compare_shares(const pairingheap_node *a,
								const pairingheap_node *b, void *arg);
extern int	flow_compare_flows(const pairingheap_node *a,
							   const pairingheap_node *b, void *arg);
extern int	flow_compare_timers(const pairingheap_node *a,
								const pairingheap_node *b, void *arg);
extern int	flow_compare_ages(const pairingheap_node *a,
							  const pairingheap_node *b, void *arg);
extern void flow_share_unlink(QuotaShare *share);
extern void flow_share_relink(QuotaShare *share);
extern void flow_share_update(QuotaShare *share);
extern void flow_leave_state(QuotaFlow *flow);
extern void flow_park_leave(QuotaFlow *flow);
extern void flow_set_timer(QuotaFlow *flow, int64 wake_ns);
extern void flow_reopen(const QuotaFlow *flow);
extern void flow_set_ready(QuotaFlow *flow);
extern void flow_set_waiting(QuotaFlow *flow, int64 wake_ns);
extern void flow_resift(QuotaFlow *flow);

#endif							/* QUOTA_FLOW_H */
