/*
 * permit_lease.c
 *		Giving back some of the calls that one permit covers, as a gateway does that
 *		took a batch of calls and has not made them all.
 *
 * WHAT A CALL IS
 *
 * Every part of a permit has been charged the same for each of its n calls
 * (part.each).  They were never made: concurrency, credits and rate tokens return,
 * these less what has come back by itself meanwhile.
 *
 * LIFE
 *
 * Giving back is a gain, so until the transaction commits nothing changes but
 * "giving", the calls that will go, and "giver_pid", whose transaction that is.  A
 * record in the journal (id and number) applies it at commit, before permits that
 * the transaction settles; an abort takes the number back.  What else is done with
 * the permit meanwhile counts with the calls that are left (permit_left()), and only
 * the same transaction may do it: for others the permit is busy, as if it was being
 * settled.  To give back all that is left is to release the permit, which is
 * settling it with nothing kept.
 *
 * If its lifetime ends meanwhile it is EXPIRED and waits for the giver, like one
 * that is being settled: concurrency has returned then, the rest returns at commit.
 */
#include "permit.h"

#include "journal.h"
#include "miscadmin.h"

/* See permit.h. */
bool
permit_is_given_by_other(const QuotaPermit *p)
{
	return p->giving > 0 && p->giver_pid != MyProcPid;
}

/* See permit.h. */
PermitMark
permit_give(uint32 index, int32 n, int64 now_ns)
{
	QuotaPermit *p = &quota_permits[index];

	if (permit_is_taken(index))
		return PERMIT_BUSY;
	if (p->state == QUOTA_PERMIT_EXPIRED || p->expires_ns <= now_ns)
		return PERMIT_OVER;
	p->giving += n;
	p->giver_pid = MyProcPid;
	journal_permit_given(index, n);
	return PERMIT_MARKED;
}

/* See permit.h. */
void
permit_undo_given(uint32 index, int32 n)
{
	quota_permits[index].giving -= n;
	permit_free_if_over(index);
}

/* See permit.h. */
void
permit_commit_given(uint32 index, int32 n, int64 now_ns)
{
	QuotaPermit *p = &quota_permits[index];

	for (int i = 0; i < p->nparts; i++)
		permit_shrink_part(&p->parts[i], p->parts[i].each * n, now_ns);
	p->n -= n;
	p->giving -= n;
	permit_free_if_over(index);
}
