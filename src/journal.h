/*
 * journal.h
 *		What the open transaction took and will give: takes act at once and are
 *		returned by (sub)abort, gains act at commit (G3).
 *
 * Record before taking: journal_reserve() may allocate and throw, so it is
 * called before the lock; everything else here neither allocates nor throws and
 * is called with the owner slot's lock held unless it says otherwise.
 */
#ifndef QUOTA_JOURNAL_H
#define QUOTA_JOURNAL_H

#include "policy.h"
#include "shmem.h"

/* A position to undo back to, within one call of ours. */
typedef struct JournalMark
{
	int			nrecords;
	uint32		taken_head;
	uint64		parkings;		/* of the slot that is charged; set by the
								 * caller.  Flows parked before don't wait for
								 * what is undone; 0 = all flows may */
} JournalMark;

/* What flow_line_charge() did; serial 0 = nothing. */
typedef struct FlowLineCharge
{
	uint32		line;
	uint64		serial;			/* the line's */
	uint64		since_before;
	uint64		since_after;
	FairCharge	charge;
} FlowLineCharge;

/* A job claimed; enough to undo it. */
typedef struct JournalClaim
{
	int64		job;
	uint32		flow;
	bool		returned_lane;	/* came from quota.leases, else fresh */
	bool		was_running;	/* an expired lease: stays in flight */
	int64		due_ns;			/* returned lane: when it was due */
	TimestampTz place;			/* and ready_at of its row */
	int64		since_ns;		/* the job waits since then */
	FairCharge	charge;
	ClassCharge class_charge;
	FlowLineCharge line;
} JournalClaim;

/* What a flow will learn. Merged per flow and subtransaction. */
typedef struct JournalNote
{
	int64		lo;				/* fresh ids that may be ready: [lo, hi]; none
								 * when lo > hi */
	int64		hi;
	int64		depth;			/* added to flow->depth */
	int64		in_flight;		/* added to flow->in_flight */
	int64		due_ns;			/* a row of the returned lane is due then;
								 * QUOTA_NEVER = none */
	TimestampTz place;			/* its ready_at, or less; DT_NOBEGIN when that
								 * isn't known */
	bool		on_abort;		/* what was said also holds when rolled back */
	bool		gone;			/* and of the returned lane only then: else the
								 * row has left its place */
	int64		completed;		/* added to the tenant's completed jobs */
	int64		cost;			/* that jobs have cost more than was charged */
	int64		places;			/* queue places taken now; given up at either
								 * end, at COMMIT for unfinished jobs that the
								 * same note counts; see place.c */
} JournalNote;

extern void journal_reserve(int nrecords);	/* no lock held; may throw */
extern JournalMark journal_mark(void);
extern void journal_undo(JournalMark mark); /* no lock held */

/*
 * Takes n units of a meter, which the caller has settled.  Unless it is to be undone
 * alone, as what a claim takes, the record merges with that of an earlier take, where
 * it can.
 */
extern void journal_take(uint32 bucket, uint32 portion, int64 n, bool alone);
/* The same for n first attempts, which a retry budget counts. */
extern void journal_first(uint32 bucket, int64 n, bool alone);
/*
 * n probes of a breaker, that are out until then: to be given back by an abort, unless
 * their call has this permit (QUOTA_NO_INDEX = none) and was settled or answered.
 */
extern void journal_probe(uint32 bucket, uint32 permit, int64 n, int64 until_ns);

/* ---- journal_call.c: which call an answer is of ---- */

/* A direct call without a permit is about to be charged; no job. */
extern void journal_call_begin(void);
/* It was: it has these names, and took what was recorded since. */
extern void journal_call_end(const QuotaCallNames *names);
/*
 * The provider has answered a call: one of this transaction that agrees with these
 * names, if there is any, went out, so its rate tokens stay spent whatever becomes of
 * the transaction.  No lock held.
 */
extern void journal_call_answered(const QuotaCall *call);

/*
 * What fair_lead() is about to move the tag of the share by; it merges by a hint kept
 * by the caller.
 */
extern FairLead *journal_lead(uint32 share, uint32 *hint);
/*
 * As journal_take() for a shadow allowance, whose counter this raises.
 */
extern void journal_shadow(uint32 bucket, int64 n, bool alone);
/*
 * n > 0: taken now; n < 0: given at commit; 0: only pinned until the end.  at_us: the
 * instant that it counts at, DT_NOBEGIN for what no call, nor an adjustment, took.
 */
extern void journal_adjust(uint32 bucket, int64 n, int64 at_us);
/* The same for units of lost holds, given at commit. */
extern void journal_return_lapsed(uint32 bucket, int64 n, int64 at_us);
/* The same for those of the bucket's newest grant, which expires. */
extern void journal_grant(uint32 bucket, int64 n, int64 grant_us);
/* The newest of these resolves n units of a loose hold; overdue: they were lost, and
 * stay spent. */
extern void journal_resolve_loose(int64 n, bool overdue);
extern void journal_permit_taken(uint32 permit);
extern void journal_permit_marked(uint32 permit);
extern void journal_permit_spent(uint32 permit);	/* the call went out: its
													 * rate tokens stay spent */
/*
 * Counts the claim in its flow; job may be 0 until journal_claim_job().  The
 * records since the mark are what the decision of this claim took.
 */
extern void journal_claim(const JournalClaim *claim, JournalMark mark);
/* completes the newest claim; the last two as in a note */
extern void journal_claim_job(int64 job, bool returned_lane, bool was_running,
							  int64 due_ns, TimestampTz place, int64 since_ns);
extern void journal_claim_spent(int64 job); /* as journal_permit_spent */
extern void journal_note(uint32 flow, const JournalNote *note);
/* n of the queue places that this subtransaction took are not needed */
extern void journal_places_back(uint32 flow, int64 n);
/* n calls of the permit are given back when we commit */
extern void journal_permit_given(uint32 permit, int32 n);
/* The permit ended at before_ns until now; an abort makes it end then again. */
extern void journal_permit_extended(uint32 permit, int64 before_ns);

/*
 * A job of the batch with this permit has ended: it leaves when we commit.  No lock
 * needed; the caller has reserved one record.
 */
extern void journal_batch_left(int64 batch);

/*
 * The job of this flow is over; state as in a notice.  Told at commit; the flow's
 * slot lock is held.
 */
extern void journal_finished(uint32 flow, uint32 database_slot, int64 job,
							 uint8 state);

/* Deadlines of jobs are lowered for at these ends; job_deadline.h.  No lock. */
extern void journal_deadline(uint32 database_slot, TimestampTz start_before,
							 bool on_commit, bool on_abort);

/* A load in progress that must fall back to EMPTY if we fail. */
extern void journal_loading_bucket(uint32 bucket);
extern void journal_loading_queue(uint32 database_slot);
extern void journal_counting_queue(uint32 database_slot);
extern void journal_loaded(void);	/* the newest load or count succeeded; lock
									 * held */

/* What becomes of a pause at the end; act is a PauseAct.  pause_lock is held. */
extern void journal_pause(uint32 pause, int64 id, uint8 act, uint64 version);

extern bool journal_is_empty(void);
extern void journal_init(void); /* registers the transaction callbacks */

#endif							/* QUOTA_JOURNAL_H */
