/*
 * permit_batch.c
 *		The permit that the jobs of one batch hold together: it counts once in
 *		every concurrency limit for as long as any of them is under way.
 *
 * WHAT IT HOLDS
 *
 * A batch permit has the concurrency parts of one call, and "n" is the number of
 * its members: jobs whose attempt has not ended.  Rate and credits are not its
 * business; each job that needs it has a permit of its own for those.  Which jobs
 * are members is said by quota.leases.batch, which is what survives a crash.
 *
 * LIFE
 *
 * It is taken in the decision of the batch's first job, and is in the taking
 * transaction's chain like any permit.  A batch is claimed within one call, thus
 * within one subtransaction: that one's abort undoes the permit as a whole, so
 * members that join need no record of their own.  One joins under the lock, once
 * its row is locked; a candidate that is lost before has not joined.  When the
 * first job itself is lost its decision is undone, and this permit with it.
 *
 * A member leaves when its attempt has ended: completed, failed, cancelled, or its
 * lease ran out and somebody claims or buries the job.  Each of these writes the
 * row in quota.leases that it has locked, so a member leaves once, whoever ends
 * it.  Leaving is a gain: a record in the journal, which counts at commit and is
 * forgotten by an abort.  The last one out ends the permit.
 *
 * WHAT COULD BREAK IT
 *
 * - Several sessions end members at once: each takes the lock at its commit and
 *	 lowers n by its own; whoever brings it to 0 ends the permit.
 * - A member is ended by a session that saw the claim committed before the claimer
 *	 had run its callback: n is right already, as members have joined before commit;
 *	 if that was the last one the permit becomes EXPIRED, and the claimer, whose
 *	 chain leads through it, frees it.
 * - The claiming transaction itself ends members, all of them perhaps: the same,
 *	 as records commit before the chain of taken permits.
 * - Its lifetime is over before the members have left (the worker died): it is
 *	 freed by permit_expire() like any permit, and who leaves later finds none.  An
 *	 id is never given twice, so nobody leaves a stranger's batch.
 * - It is settled or released by hand: freed, as above.  If that transaction is
 *	 open when the last member leaves, the permit becomes EXPIRED, and what settles
 *	 it frees it, whichever way it ends.
 *
 * HOW LONG IT LIVES
 *
 * As long as the longest lease of its members: extending one of them moves the end
 * if that is later, at once, and a rollback moves it back.  But meanwhile another
 * session may have asked for an end that was not later, and so has moved nothing:
 * the end does not go back behind that ("asked_ns").  Who has moved the end himself
 * need not leave such a mark for what he asks next, as subtransactions nest: what
 * undoes the move undoes that too.  So an end is never before that of a committed or
 * open extension; it is later than the longest lease only when several sessions have
 * extended members and rolled that back.
 *
 * Full permit table: the first job's decision finds no place, and is an error as
 * for any call (53400).  A later job that needs a permit of its own and finds no
 * place ends the batch.
 */
#include "permit.h"

#include "miscadmin.h"

/* See permit.h. */
void
permit_batch_start(uint32 index)
{
	QuotaPermit *p = &quota_permits[index];

	p->is_batch = true;
	p->n = 0;
	p->asked_ns = p->expires_ns;
	p->extender_pid = 0;
}

/* See permit.h. */
void
permit_batch_join(uint32 index)
{
	quota_permits[index].n++;
}

/* See permit.h. */
void
permit_batch_leave(uint32 index, int32 n)
{
	QuotaPermit *p = &quota_permits[index];

	if (!p->is_batch || p->state == QUOTA_PERMIT_EXPIRED)
		return;
	p->n -= n;
	if (p->n > 0)
		return;
	permit_unlink(p, 0, true);
	if (p->taken || p->marked)
		p->state = QUOTA_PERMIT_EXPIRED;
	else
		permit_free(index);
}

/* See permit.h. */
bool
permit_batch_extend(uint32 index, int64 expires_ns, int64 now_ns)
{
	QuotaPermit *p = &quota_permits[index];

	if (expires_ns > p->expires_ns)
	{
		p->extender_pid = MyProcPid;
		return permit_extend(index, expires_ns, now_ns);
	}
	/* what we have moved ourselves goes back together with what we ask now */
	if (p->extender_pid != MyProcPid)
		p->asked_ns = Max(p->asked_ns, expires_ns);
	return p->state != QUOTA_PERMIT_EXPIRED && p->expires_ns > now_ns;
}
