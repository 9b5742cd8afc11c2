/*
 * permit_end.c
 *		What becomes of a permit when the transaction that took, extended or
 *		settled it ends.  Called by the journal with the locks held, as told in
 *		permit.c; nothing here allocates or throws.
 */
#include "permit.h"

#include "credit.h"
#include "floor.h"
#include "mark.h"
#include "rules.h"

/* See permit.h. */
void
permit_lapsed(QuotaPermit *p)
{
	for (int i = 0; p->refunds && i < p->nparts; i++)
	{
		if (!permit_is_credit(&p->parts[i]))
			continue;
		credit_look_again(&quota_buckets[p->parts[i].bucket], p->ended);
		permit_bucket_opened(p->parts[i].bucket, 0);
	}
}

/* Nobody needs it any more, if it is over. */
void
permit_free_if_over(uint32 index)
{
	QuotaPermit *p = &quota_permits[index];

	if (p->state != QUOTA_PERMIT_EXPIRED || !permit_is_idle(p))
		return;
	permit_lapsed(p);
	permit_free(index);
}

/* The permit is out in the world. */
void
permit_commit_taken(uint32 index)
{
	QuotaPermit *p = &quota_permits[index];

	p->taken = false;
	if (p->state == QUOTA_PERMIT_OPEN)
		p->state = QUOTA_PERMIT_LIVE;
	else
		permit_free_if_over(index);
}

/* Returns amount - kept of a part that is not concurrency. */
static void
return_part(QuotaPart *part, int64 kept, uint64 parkings, int64 now_ns)
{
	QuotaBucket *b = &quota_buckets[part->bucket];
	int64		n = part->amount - kept;

	if (n <= 0)
		return;
	if (quota_is_rate(part->kind))
	{
		rules_settle(b, now_ns, quota_wall_us());
		mark_return(part->bucket, &part->take, n);
		floor_returned(part->portion, n);
	}
	else if (part->kind == QUOTA_ALLOWANCE && credit_is_current(b, part->charged_us))
	{
		if (part->shadow)
			b->shadow_used = Max(b->shadow_used - n, 0);
		else
			credit_count(b, part->charged_us, -n);
	}
	permit_bucket_opened(part->bucket, parkings);
}

/* n units of a part return, those that are in flight or held too. */
void
permit_shrink_part(QuotaPart *part, int64 n, int64 now_ns)
{
	QuotaBucket *b = &quota_buckets[part->bucket];

	if (part->kind == QUOTA_CONCURRENCY)
	{
		if (part->linked && n > 0)
		{
			b->used -= n;
			floor_landed(part->portion, n);
			permit_bucket_opened(part->bucket, 0);
		}
	}
	else
	{
		if (part->linked)
			b->held -= n;
		else
			permit_end_loose(part, n);
		return_part(part, part->amount - n, 0, now_ns);
	}
	part->amount -= n;
}

/* Everything returns, as if never taken; rate tokens unless they were spent. */
void
permit_undo_taken(uint32 index, uint64 parkings, int64 now_ns)
{
	QuotaPermit *p = &quota_permits[index];

	permit_unlink(p, parkings, true);
	for (int i = 0; i < p->nparts; i++)
		if (!p->spent || !quota_is_rate(p->parts[i].kind))
			return_part(&p->parts[i], 0, parkings, now_ns);
	permit_free(index);
}

/*
 * It ends at before_ns again, unless it is over or somebody else has extended it
 * since; that of a batch not before what else was asked for.
 */
void
permit_undo_extended(uint32 index, int64 after_ns, int64 before_ns)
{
	QuotaPermit *p = &quota_permits[index];

	if (p->state == QUOTA_PERMIT_EXPIRED || p->expires_ns != after_ns)
		return;
	p->extender_pid = 0;
	permit_move_end(p, p->is_batch ? Max(before_ns, p->asked_ns) : before_ns);
	/* who waits for the later end may look earlier */
	for (int i = 0; i < p->nparts; i++)
		if (p->parts[i].linked)
			permit_bucket_opened(p->parts[i].bucket, 0);
}

/* The settling transaction committed. */
void
permit_commit_marked(uint32 index, int64 now_ns)
{
	QuotaPermit *p = &quota_permits[index];

	permit_unlink(p, 0, !p->ended);
	for (int i = 0; i < p->nparts; i++)
		return_part(&p->parts[i], p->parts[i].final, 0, now_ns);
	if (p->ended)
		permit_lapsed(p);
	permit_free(index);
}

/* It did not. */
void
permit_undo_marked(uint32 index)
{
	QuotaPermit *p = &quota_permits[index];

	p->marked = false;
	p->ended = false;
	permit_free_if_over(index);
}
