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

extern void flow_set_weight(uint32 slot, uint32 tenant, int64 weight_milli);
extern void flow_set_rank(uint32 slot, int class_index, int rank);

/*
 * Forgets idle flows, shares without flows whose place in the order is over,
 * and tenants nobody names; returns how many objects.
 */
extern int	flow_reclaim(uint32 slot);

/* ---- flow_order.c: whose turn it is ---- */

/* Makes ready what time has made ready; to be called before picking. */
extern void flow_wake(uint32 slot, int64 now_ns);
/* The flow whose turn it is, QUOTA_NO_INDEX when none is READY. */
extern uint32 flow_pick(uint32 slot);
extern FairCharge flow_charge(uint32 flow, int64 cost);
/*
 * Takes a flow that was just picked out of the order until wake_ns or an
 * event. For refusals decided since the pick without releasing the lock; after
 * a scan use flow_scan_blocked().
 */
extern void flow_park(uint32 flow, QuotaReason reason, int64 wake_ns);
/* An event: flows of the tenant / of the slot that wait for one are READY. */
extern void flow_unpark_tenant(uint32 slot, uint32 tenant);
extern void flow_unpark_all(uint32 slot);

/* ---- flow_position.c: where its next job may be ---- */

/*
 * One search of a flow.  Between begin and outcome no lock is held; the
 * caller's claim record pins the flow.
 */
typedef struct FlowScan
{
	uint32		flow;
	int64		now_ns;			/* when it began */
	bool		look_returned;	/* a row of the returned lane may be due */
	PositionScan position;		/* see position_ranges() */
} FlowScan;

/* Rows to look at before telling flow_scan_passed(). */
#define FLOW_SCAN_CHUNK 1000

/*
 * Begins a search.  Index scans over position_ranges() begin afterwards: one
 * begun before may have read a page that has changed since.
 */
extern void flow_scan_begin(uint32 flow, int64 now_ns, FlowScan *scan);

/* No lock: a ready fresh row that somebody has locked; go on behind it. */
static inline void
flow_scan_skip(FlowScan *scan, int64 id)
{
	position_skip(&scan->position, id);
}

/*
 * All that is due in the returned lane was looked at.  next_due_ns: of the
 * first row left there that nobody is writing, QUOTA_NEVER = none.  Before the
 * outcome.
 */
extern void flow_scan_returned(const FlowScan *scan, int64 next_due_ns);

/*
 * Outcomes; one of them ends the search.
 *
 * passed: it looked at every unsettled fresh id up to id, and none is ready
 * but what it skipped.  Either the caller stops here, or it goes on with new
 * ranges and new index scans of the fresh lane; what it has learned of the
 * returned lane stays good.
 */
extern void flow_scan_passed(FlowScan *scan, int64 id);
/* It claimed the fresh job id, after looking at everything before. */
extern void flow_scan_claimed(const FlowScan *scan, int64 id);
/*
 * It found the head, which limits don't allow; id is the first ready fresh
 * job, 0 when it did not look.  False when something was raised meanwhile that
 * may be another head: then the flow stays READY.
 */
extern bool flow_scan_blocked(const FlowScan *scan, int64 id,
							  QuotaReason reason, int64 wake_ns);
/*
 * It looked at all ids and found nothing ready but what it skipped; last_id is
 * the greatest id it saw, 0 = none.
 */
extern void flow_scan_empty(const FlowScan *scan, int64 last_id);

/* ---- called by the journal ---- */

extern void flow_apply_note(uint32 flow, const JournalNote *note,
							bool committed, int64 now_ns);
/* a claim, its job not known yet; then its job; then the undo of both */
extern void flow_apply_claim(const JournalClaim *claim);
extern void flow_apply_claim_job(const JournalClaim *claim);
extern void flow_apply_unclaim(const JournalClaim *claim, int64 now_ns);

/* ---- between the flow*.c files ---- */

extern int	flow_compare_shares(const pairingheap_node *a,
								const pairingheap_node *b, void *arg);
extern int	flow_compare_flows(const pairingheap_node *a,
							   const pairingheap_node *b, void *arg);
extern int	flow_compare_timers(const pairingheap_node *a,
								const pairingheap_node *b, void *arg);
extern void flow_share_unlink(QuotaShare *share);
extern void flow_share_relink(QuotaShare *share);
extern void flow_set_timer(QuotaFlow *flow, int64 wake_ns);
extern void flow_set_ready(QuotaFlow *flow);
extern void flow_set_waiting(QuotaFlow *flow, int64 wake_ns);
extern void flow_resift(QuotaFlow *flow);

#endif							/* QUOTA_FLOW_H */
