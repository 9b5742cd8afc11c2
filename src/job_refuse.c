/*
 * job_refuse.c
 *		What becomes of a flow whose turn it is and that may not: it is parked, or
 *		stops everybody.  Part of job_turn.c.
 *
 * Nothing is written down of a refusal but in shared memory, and no rollback undoes
 * it: it is as true for others.  So it is found, and the flow parked, in one section
 * under the slot's lock, in which the flow is the one whose turn it is or, after a
 * search, its head still the job that was refused (flow_scan_refused()).
 */
#include "job_refuse.h"

#include "catalog.h"
#include "change.h"
#include "flow_gate.h"

/* The wall clock, which calendars follow, may step: look again after this. */
#define CALENDAR_RECHECK_NS (60 * QUOTA_NS_PER_S)
/* A flow without configuration is looked at again after this. */
#define UNCONFIGURED_RECHECK_NS (10 * QUOTA_NS_PER_S)

/* ---- for want of configuration ---- */

/* The counters that move when rows change which the flow's plan is made from. */
typedef struct Counters
{
	uint32		global;
	uint32		tenant;
} Counters;

/* No lock held. */
static Counters
counters_of(const Claimer *c)
{
	Oid			extension = quota_catalog()->extension;
	Counters	counters;

	counters.global = change_global_generation(extension);
	counters.tenant = change_tenant_generation(extension, c->names.tenant);
	return counters;
}

/* So often they have moved. */
static uint64
count_changes(const Counters *counters)
{
	return change_count(counters->global) + change_count(counters->tenant);
}

/*
 * See job_refuse.h.  A commit that brings the row moves a counter, and frees parked
 * flows later; so a flow is parked only by who finds under the lock that no counter
 * has moved since before he looked.
 */
Step
turn_unconfigured(Claimer *c)
{
	QuotaSlot  *slot = &quota_slots[c->slot];
	Counters	counters = counters_of(c);
	uint64		before = count_changes(&counters);
	FlowTurn	turn;
	bool		same;

	pg_memory_barrier();
	if (turn_plan_of_flow(c) != NULL)
		return STEP_RACED;
	quota_lock(&slot->lock);
	same = turn_is_still(c, quota_now_ns(), &turn) &&
		count_changes(&counters) == before;
	if (same)
		flow_park(c->flow, QUOTA_UNCONFIGURED, QUOTA_NO_INDEX,
				  quota_now_ns() + UNCONFIGURED_RECHECK_NS);
	LWLockRelease(&slot->lock);
	return same ? STEP_LEFT : STEP_RACED;
}

/* ---- by limits; locks held ---- */

/* Parks the flow for what keeps it for longest; see flow_gate.c. */
static void
park(const Claimer *c)
{
	const QuotaVerdict *v = &c->verdict;
	FlowRefusal refusal;

	refusal.reason = v->reason;
	refusal.bucket = v->limiting < 0 ? QUOTA_NO_INDEX
		: c->plan->terms[v->limiting].bucket;
	refusal.opens_ns = v->opens_ns;
	refusal.look_ns = flow_scan_look_ns(&c->scan);
	refusal.own_line = v->own_line;
	/* what never fits must not go first in a line */
	if (v->shared && (v->behind || v->opens_ns != QUOTA_NEVER))
		flow_park_in_line(c->flow, &v->line_key, &refusal);
	else
		flow_park(c->flow, v->reason, refusal.bucket,
				  Min(v->wake_ns, refusal.look_ns));
}

/* Closes the slot for what every call meets; see flow_close.c. */
static void
close_slot(const Claimer *c)
{
	const QuotaVerdict *v = &c->verdict;
	const QuotaTerm *term = v->limiting < 0 ? NULL : &c->plan->terms[v->limiting];

	quota_flows[c->flow].reason = v->reason;
	flow_close(c->flow, v->reason, term == NULL || v->nexhausted > 1 ? QUOTA_NO_INDEX
			   : term->bucket, v->across, v->wake_ns, term ? term->name : "");
}

/* See job_refuse.h. */
Step
turn_refused(Claimer *c, bool first)
{
	QuotaVerdict *v = &c->verdict;

	if (!first &&
		!flow_scan_refused(&c->scan, c->lanes.fresh_id,
						   !c->lanes.returned && !turn_has_own_terms(c)))
		return STEP_RACED;
	if (!first)
		flow_scan_seen(&c->scan, turn_since(c));
	if (v->stops_all)
	{
		close_slot(c);
		return STEP_NOTHING;
	}
	if (v->reason == QUOTA_QUOTA_EXHAUSTED)
		v->wake_ns = Min(v->wake_ns, c->now_ns + CALENDAR_RECHECK_NS);
	park(c);
	return STEP_LEFT;
}
