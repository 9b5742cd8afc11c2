/*
 * flow_gate.h
 *		Flows that wait for limits which several tenants share: lines, and the
 *		buckets at which lines are closed.  All functions are called with the
 *		provider slot's lock held, never allocate and never throw.
 */
#ifndef QUOTA_FLOW_GATE_H
#define QUOTA_FLOW_GATE_H

#include "flow.h"

/* ---- flow_gate.c: who may try, and when ---- */

/*
 * For a decision of a flow that meets shared buckets: does somebody else go first
 * in its own line, or in another line that is closed at this bucket?
 */
extern bool flow_line_is_before(uint32 line, uint32 flow);
extern bool flow_gate_is_before(uint32 bucket, uint32 line, uint32 flow);

/*
 * As flow_park(), for a flow that shared buckets refuse; key is its line's.
 * opens_ns: when the bucket opens for it, QUOTA_NEVER when another line goes first
 * there; own_line: somebody in its own line goes first.  It is looked at again at
 * look_ns whatever the bucket does.
 */
typedef struct FlowRefusal
{
	QuotaReason reason;
	uint32		bucket;			/* the one that opens last */
	int64		opens_ns;
	int64		look_ns;
	bool		own_line;
} FlowRefusal;

extern void flow_park_in_line(uint32 flow, const QuotaKey *key,
							  const FlowRefusal *refusal);

/*
 * The share was served, by a job or beside the order: where one of its flows has the
 * turn, the next one has it, if somebody waits.
 */
extern void flow_gate_served(QuotaShare *share);
/* A job of the flow is dispatched: the same, and its own turn is over anyway. */
extern void flow_gate_charged(uint32 flow);

/*
 * Something of the gate's bucket has come back: who is parked for it may try, but
 * for flows that parked before "parkings" when all that waits did.
 */
extern void flow_gate_opened(QuotaGate *gate, uint64 parkings);
/* The gates whose time has come. */
extern void flow_gates_wake(uint32 slot, int64 now_ns);
/* When the flow, PARKED, is looked at again by itself; QUOTA_NEVER = not. */
extern int64 flow_opens_ns(const QuotaFlow *flow);

extern void flow_gate_slot_init(uint32 slot);

/* who goes first in the line may be another one */
extern void flow_line_recheck(uint32 line);
/* called when a flow leaves its state, before that is changed */
extern void flow_gate_leave(QuotaFlow *flow);
/* a flow that stands in no line is parked for the bucket */
extern void flow_wait_for(QuotaFlow *flow, uint32 bucket);

/* ---- gate.c: who waits for a bucket, in one slot ---- */

extern void gate_slot_init(uint32 slot);
extern void gate_bucket_init(QuotaBucket *bucket);

/* The slot's gate of the bucket; NULL: nobody waits there. */
extern QuotaGate *gate_find(uint32 bucket, uint32 slot);
/* The same of a bucket of the database's slot, by its key. */
extern QuotaGate *gate_find_far(const QuotaKey *key, uint32 slot);
/* Made if need be, for somebody to wait; the bucket owner's lock is held too. */
extern QuotaGate *gate_get(uint32 bucket, uint32 slot);
/* Somebody waits there no more, perhaps the last. */
extern void gate_drop(QuotaGate *gate);
/* It opens by time at the earlier of this and what was said before; or not. */
extern void gate_set_time(QuotaGate *gate, int64 opens_ns);
extern void gate_clear_time(QuotaGate *gate);
/* Somebody waits for the bucket, which stays where it is; its owner's lock is held. */
extern void gate_pin(uint32 bucket);
/* The reverse, for which that lock isn't needed. */
extern void gate_unpin(uint32 bucket);

/* ---- flow_line.c: the order in a line ---- */

/* QUOTA_NO_INDEX: there is none, or no place for one. */
extern uint32 flow_line_get(uint32 slot, const QuotaKey *key, uint32 class_index);
extern void flow_line_add(QuotaFlow *flow, uint32 line);
extern void flow_line_remove(QuotaFlow *flow);
/* The flow, which waits no more, has the turn; QUOTA_NO_INDEX: the holder has it no
 * longer. */
extern void flow_line_set_holder(uint32 line, uint32 holder);
/* Who goes first of those that wait; NULL = nobody waits. */
extern QuotaFlow *flow_line_first(uint32 line);
/* Does a go before b, neither of which need wait? */
extern bool flow_line_precedes(uint32 line, const QuotaFlow *a, const QuotaFlow *b);

/*
 * A job of the flow, which meets the line's limits, is dispatched, or more jobs of
 * the batch that was dispatched last; its undo.
 */
extern FlowLineCharge flow_line_charge(uint32 flow, const QuotaKey *key,
									   int64 cost, bool more);
extern void flow_line_undo(uint32 flow, const FlowLineCharge *charge);
/* The start of the share's tag may be less than it was. */
extern void flow_line_fell(QuotaShare *share);
/* The tenant's weight has changed. */
extern void flow_line_reweigh(uint32 tenant);
/* Whether the line is idle may have changed. */
extern void flow_line_update(uint32 line);
/* Forgets idle lines; how many. */
extern int	flow_line_reclaim(uint32 slot);

/* ---- flow_standing.c: where shares stand in lines ---- */

typedef struct Stand
{
	fair_time	start;
	uint64		since;
} Stand;

/* Later stands are greater. */
extern int	standing_compare(fair_time start_a, uint64 since_a,
							 fair_time start_b, uint64 since_b);
/* The share's standing in the line; NULL = none. */
extern QuotaStanding *standing_find(QuotaShare *share, uint32 line);
/* The line of the share's standing i; QUOTA_NO_INDEX = it has none. */
extern uint32 standing_line(const QuotaShare *share, int i);
/* The share's standing, made if need be and brought to the line's time. */
extern QuotaStanding *standing_join(QuotaShare *share, uint32 line);
/* Its tag follows the share's weight. */
extern void standing_reprice(QuotaStanding *s, const QuotaShare *share);
/* Where the share stands, or would if it came to the line now. */
extern Stand standing_now(QuotaShare *share, uint32 line);

#endif							/* QUOTA_FLOW_GATE_H */
