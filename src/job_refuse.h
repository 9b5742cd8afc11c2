/*
 * job_refuse.h
 *		A flow whose turn it is and that may not: between job_turn.c and
 *		job_refuse.c.
 */
#ifndef QUOTA_JOB_REFUSE_H
#define QUOTA_JOB_REFUSE_H

#include "job_turn.h"

/*
 * The decision was no, and that for the head, whatever it costs; locks held.
 * "first": it was made right after the pick, else for the candidate of a search.
 */
extern Step turn_refused(Claimer *c, bool first);

/*
 * The flow's tenant, provider or class had no row: parks the flow if that is still
 * so.  No lock held; throws.
 */
extern Step turn_unconfigured(Claimer *c);

/* ---- job_turn.c ---- */

/* It still is the turn of the flow that was picked; slot lock held. */
extern bool turn_is_still(const Claimer *c, int64 now_ns, FlowTurn *turn);

/*
 * The plan of the flow's calls by what all its jobs name; NULL when its tenant,
 * provider or class has no row, or none that others see.  No lock held; throws.
 */
extern QuotaPlan *turn_plan_of_flow(const Claimer *c);

#endif							/* QUOTA_JOB_REFUSE_H */
