/*
 * flow_list.h
 *		The flows of one provider in which jobs wait, copied out of shared memory.
 */
#ifndef QUOTA_FLOW_LIST_H
#define QUOTA_FLOW_LIST_H

#include "policy.h"
#include "shmem.h"

/* One flow, as it was when it was copied. */
typedef struct FlowInfo
{
	char		tenant[QUOTA_NAME_LEN];
	char		class_name[QUOTA_NAME_LEN];
	char		endpoint[QUOTA_NAME_LEN];	/* "" = none */
	int64		depth;			/* jobs that wait, above 0 */
	int64		in_flight;
	uint8		state;			/* QuotaFlowState */
	uint8		reason;			/* QuotaReason; QUOTA_OK: nothing is known to
								 * keep it */
	bool		blocked;		/* by the reason, else by the lack of ready jobs */
	int64		at_ns;			/* when that may end, QUOTA_NEVER = by an event */
	char		limit_name[QUOTA_NAME_LEN]; /* "" = no limit keeps it */
} FlowInfo;

typedef struct FlowList
{
	int			n;
	FlowInfo   *flow;
	int64		now_ns;
	TimestampTz wall_us;
} FlowList;

/*
 * The flows of the slot, each consistent in itself; time has been accounted for up
 * to list->now_ns.  In the current memory context.  No lock held; throws.
 */
extern void flow_list(uint32 slot, FlowList *list);

/* The call that its jobs make; it refers to the info. */
extern QuotaCall flow_info_call(const FlowInfo *info, const char *provider);

#endif							/* QUOTA_FLOW_LIST_H */
