/*
 * permit.h
 *		The permit table.  The owner slot's lock is held unless said otherwise;
 *		nothing here allocates or throws.
 */
#ifndef QUOTA_PERMIT_H
#define QUOTA_PERMIT_H

#include "policy.h"
#include "shmem.h"

/* Initialises slot->permits of a new slot. */
extern void permit_slot_init(uint32 slot);
/* Initialises bucket->parts of a new bucket. */
extern void permit_bucket_init(QuotaBucket *bucket);

/* Frees permits whose lifetime is over.  First in every decision. */
extern void permit_expire(uint32 slot, int64 now_ns);
/* The same for what is in flight or held in one bucket. */
extern void permit_bucket_expire(uint32 bucket, int64 now_ns);
/* Takes everything off a bucket whose period has rolled over. */
extern void permit_bucket_roll(uint32 bucket);
extern int64 permit_bucket_first_end(const QuotaBucket *bucket);
/*
 * When so many units in flight of a concurrency bucket have ended, at the latest: exact
 * of up to 256 parts; QUOTA_NEVER when there are less.
 */
extern int64 permit_bucket_end_of(const QuotaBucket *bucket, int64 units);

/*
 * The last quarter of the table is free or in use by others, and the tenant has as many
 * permits at the provider as are still free: it gets no more for direct calls, so that
 * some stay free for others, however many providers it calls (G11, as examine.h).
 */
extern bool permit_has_part(uint32 tenant);

/*
 * A new OPEN permit without parts, in the journal's chain; QUOTA_NO_INDEX when
 * the table is full.
 */
extern uint32 permit_take(uint32 slot, uint32 tenant, int32 n,
						  int64 now_ns, int64 lifetime_ns, bool optional);
/* Charges amount of the term's bucket (settled to now) to the permit. */
extern void permit_add_part(uint32 permit, const QuotaTerm *term, uint32 bucket,
							uint32 portion, int64 amount);

/*
 * The permit with this id in this database: its index, and its owner's lock
 * taken; QUOTA_NO_INDEX, and no lock, when there is none.
 */
extern uint32 permit_lock(int64 id, Oid database, Oid extension);
extern void permit_unlock(uint32 index);
extern bool permit_is_known(int64 id);
extern bool permit_is_ours(uint32 index);
/*
 * Somebody settles it, another transaction gives back some of its calls, or it is not
 * out in the world yet.
 */
extern bool permit_is_taken(uint32 index);
/*
 * Another transaction has it, or has ended without having let go of it yet; no lock
 * held.  False for a permit that is not there.
 */
extern bool permit_is_busy(int64 id);

typedef enum PermitMark
{
	PERMIT_MARKED,
	PERMIT_BUSY,				/* another open transaction has it: 55P03 */
	PERMIT_OVER					/* its lifetime has ended */
} PermitMark;

/*
 * Marks for settling at commit: concurrency returns, all other parts stay as
 * charged until permit_set_final().
 */
extern PermitMark permit_mark(uint32 index, int64 now_ns);
/* A bucket it was charged to whose rules are not current (rules.c), or QUOTA_NO_INDEX. */
extern uint32 permit_stale_bucket(uint32 index);
/*
 * Units of a part that stay charged.  What exceeds the charge is taken at once, of
 * a rate as far as its bucket may be in debt (enforce.h), and returned by an abort
 * unless the call is of the same transaction; the caller has reserved one journal
 * record for it.
 */
extern void permit_set_final(uint32 index, int part, int64 final,
							 int64 now_ns);
/* The part is of an allowance that has entries for it. */
static inline bool
permit_is_credit(const QuotaPart *part)
{
	return part->kind == QUOTA_ALLOWANCE && !part->shadow;
}

/*
 * The permit has credits of this bucket; the second sets what of them stays charged,
 * of a permit that is marked by us, and wants a journal record to be reserved.  No lock
 * held.
 */
extern bool permit_has_credits(int64 id, const QuotaKey *bucket);
extern bool permit_set_credits(int64 id, const QuotaKey *bucket, int64 final);

/*
 * ---- permit_lease.c: some calls of a permit that covers several ----
 *
 * Calls that it covers still.
 */
static inline int32
permit_calls(const QuotaPermit *p)
{
	return p->is_batch ? 1 : p->n - p->giving;
}

/* Units that these have been charged of a part. */
static inline int64
permit_left(const QuotaPermit *p, const QuotaPart *part)
{
	return part->amount - part->each * p->giving;
}

/* An open transaction, not ours, gives back calls of it. */
extern bool permit_is_given_by_other(const QuotaPermit *p);
/*
 * Gives back n of its calls, fewer than all, when this transaction commits; the
 * caller has reserved one journal record.  PERMIT_MARKED: it will.
 */
extern PermitMark permit_give(uint32 index, int32 n, int64 now_ns);
extern void permit_commit_given(uint32 index, int32 n, int64 now_ns);
extern void permit_undo_given(uint32 index, int32 n);

/*
 * It ends at expires_ns from now on, and as before if this transaction rolls
 * back; the caller has reserved one journal record.  False when its lifetime has
 * ended.
 */
extern bool permit_extend(uint32 index, int64 expires_ns, int64 now_ns);

/*
 * ---- permit_batch.c: what the jobs of a batch hold together ----
 *
 * Makes a permit just taken one of a batch, without members yet.
 */
extern void permit_batch_start(uint32 index);
/* A job of the batch has been claimed. */
extern void permit_batch_join(uint32 index);
/* At commit: so many of its jobs have ended; the last one ends the permit. */
extern void permit_batch_leave(uint32 index, int32 n);
/* As permit_extend(), but it never ends sooner than any of its jobs' leases. */
extern bool permit_batch_extend(uint32 index, int64 expires_ns, int64 now_ns);

/* ---- leases ---- */

/*
 * The lease that the permit belongs to is over: when this transaction commits
 * concurrency returns, all else stays as charged; a hold is resolved as that of a
 * lost permit.  No lock held.
 */
extern void permit_end(int64 id);

/*
 * Something came back to the bucket: flows parked for it may run; those parked
 * later than the first "parkings", 0 = all.  If the bucket is of a database's slot
 * they are told by across_tell(), once the caller has let go of its locks.
 */
extern void permit_bucket_opened(uint32 bucket, uint64 parkings);

/* permit_end.c: commit and undo of taking, marking and extending. */
extern void permit_commit_taken(uint32 index);
extern void permit_undo_taken(uint32 index, uint64 parkings, int64 now_ns);
extern void permit_commit_marked(uint32 index, int64 now_ns);
extern void permit_undo_marked(uint32 index);
extern void permit_undo_extended(uint32 index, int64 after_ns,
								 int64 before_ns);

/* ---- restoring (permit_restore.c) ---- */

/* What rows of quota.leases say of a permit. */
typedef struct PermitRecord
{
	int64		id;
	int64		job;			/* 0 = it is of a batch, */
	int32		members;		/* of which so many jobs have not ended */
	bool		in_batch;		/* the batch's permit counts as in flight for it */
	int64		expires_ns;
} PermitRecord;

/*
 * Recreates the permit of a running job or a batch after a crash, in the queue's
 * load, and charges what the call has in flight.  Does nothing when the permit is
 * there (the state file has brought it), is over, or the call has no configuration.
 * No lock held; throws 53400.
 */
extern void permit_restore(const QuotaCall *call, const PermitRecord *record);
/* Links a permit read from the state file, whose fields are filled in. */
extern void permit_relink(uint32 index);

/* ---- between the permit*.c files ---- */

extern void permit_free(uint32 index);
extern void permit_free_if_over(uint32 index);
/* It has ended and was not settled: its credits return, if they do. */
extern void permit_lapsed(QuotaPermit *p);
extern void permit_shrink_part(QuotaPart *part, int64 n, int64 now_ns);

/* No open transaction has anything to do with it. */
static inline bool
permit_is_idle(const QuotaPermit *p)
{
	return !p->taken && !p->marked && p->giving == 0;
}

extern void permit_unlink(QuotaPermit *p, uint64 parkings, bool resolved);
extern void permit_end_loose(const QuotaPart *part, int64 n);
/* n units of the bucket's loose holds are resolved; overdue: of a lost one, as spent. */
extern void permit_loose_resolved(QuotaBucket *b, int64 n, bool overdue);
extern void permit_move_end(QuotaPermit *p, int64 expires_ns);
extern int64 permit_new_id(uint32 index);
extern void permit_start(uint32 index, int64 id, QuotaPermitState state,
						 uint32 slot, uint32 tenant, int64 now_ns,
						 int64 lifetime_ns);
/* Orders a part that is in flight or held in its bucket by the end of its permit. */
extern void permit_order_part(QuotaPart *part);
extern void permit_link_part(QuotaPart *part);

#endif							/* QUOTA_PERMIT_H */
