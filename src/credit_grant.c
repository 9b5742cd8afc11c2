/*
 * credit_grant.c
 *		Grants that expire, in shared memory: what an allowance has of them, and what of
 *		that is gone.  expiring.h says what that means.
 *
 * PROTOCOL
 *
 * The rows stay the authority: what is gone follows from the grants of a period and
 * from what was charged in it, at which instants.  "used" of a bucket goes on to be
 * the sum of its entries, which know nothing of expiry.  Beside it "gone" are the units
 * of grants that have expired: free is what is neither used nor gone.  A row of
 * quota.ledger_expired, which a background worker writes, changes nothing here.
 *
 * A bucket has the grants of its period and, between the instants at which they begin
 * and expire, sums of what is charged.  Loading reads both from rows, while nothing of
 * the account is open.  From then on whatever changes used tells at which instant it
 * counts (credit_count): a permit's part and a record of the journal know it, and the
 * entry bears the same one.  So counters and rows agree whoever is at work; takes count
 * at once and what returns counts when it returns, as in used.
 *
 *	- An account's instants never go back: a charge bears that of the wall clock, or that
 *	  of the last charge if the clock has been set back since (seen_us); where there
 *	  are grants, of the last look.  So what was seen to expire has expired, and nothing
 *	  that comes later counts before it.
 *	- A grant's instant is later than that of every charge before it.  It divides time
 *	  from then on, but is given when its transaction commits: a call that is admitted in
 *	  between has been paid otherwise, or not at all, and is spent of it afterwards,
 *	  as the rows have it.  If it rolls back its sums go to the time before it.
 *	- gone is found out anew when the next grant expires, when one is given, and when
 *	  something returns that was charged before one expired (gone_next_us).  Where there
 *	  are no grants that is one comparison.
 *	- lapsed units (credit_lapse.c) are not spent of a grant.  They are noted for each
 *	  span; as less of them are known than there are, too much counts as spent, and
 *	  that never leaves more than there is: a unit more that is used takes one, and is at
 *	  most one less that is gone.
 *
 * They go with the period: a new one begins without.  A grant is therefore asked to
 * expire no later than its period ends.  Until then a bucket that has any is not
 * forgotten; a restart of the server loads it anew.
 */
#include "credit.h"

#include "access/xact.h"
#include "error.h"
#include "journal.h"
#include "utils/timestamp.h"

/* The grants of a bucket, newest first; how many. */
static int
gather(const QuotaBucket *b, Expiring *grants[EXPIRING_MAX])
{
	int			n = 0;

	for (uint32 i = b->grants; i != QUOTA_NO_INDEX; i = quota_grants[i].next)
		grants[n++] = &quota_grants[i].expiring;
	return n;
}

/* ---- what is charged ---- */

/* See credit.h. */
TimestampTz
credit_instant(QuotaBucket *b, TimestampTz wall_us)
{
	TimestampTz at_us = Max(Max(wall_us, b->seen_us), b->period_start_us);

	b->seen_us = Min(at_us, b->period_end_us - 1);
	return b->seen_us;
}

/* What is gone may not be what it was, as something counts at this instant. */
static void
touch(QuotaBucket *b, TimestampTz at_us)
{
	if (at_us < b->gone_until_us)
		b->gone_next_us = PG_INT64_MIN;
}

/* The span of the bucket that an instant is in; NULL = none. */
static ExpiringSpan *
span_of(const QuotaBucket *b, TimestampTz at_us)
{
	Expiring   *grants[EXPIRING_MAX];

	if (b->grants == QUOTA_NO_INDEX || at_us == DT_NOBEGIN)
		return NULL;
	return expiring_span(grants, gather(b, grants), at_us);
}

/* See credit.h. */
void
credit_count(QuotaBucket *b, TimestampTz at_us, int64 n)
{
	ExpiringSpan *span = span_of(b, at_us);

	b->used += n;
	if (span == NULL)
		return;
	span->spent += n;
	touch(b, at_us);
}

/* See credit.h. */
void
credit_count_lapsed(QuotaBucket *b, TimestampTz at_us, int64 n)
{
	ExpiringSpan *span = span_of(b, at_us);

	if (span == NULL)
		return;
	span->lapsed = Max(span->lapsed + n, 0);
	touch(b, at_us);
}

/* See credit.h. */
void
credit_clear_lapsed(QuotaBucket *b)
{
	for (uint32 i = b->grants; i != QUOTA_NO_INDEX; i = quota_grants[i].next)
	{
		quota_grants[i].expiring.from_at.lapsed = 0;
		quota_grants[i].expiring.from_until.lapsed = 0;
	}
	b->gone_next_us = PG_INT64_MIN;
}

/* ---- what is gone ---- */

/* See credit.h. */
int64
credit_grants_gone(const QuotaBucket *b, TimestampTz wall_us)
{
	Expiring   *grants[EXPIRING_MAX];
	int64		next_us;

	if (b->grants == QUOTA_NO_INDEX)
		return 0;
	return expiring_gone(grants, gather(b, grants), Max(wall_us, b->seen_us), &next_us);
}

/* See credit.h. */
void
credit_grants_look(QuotaBucket *b, TimestampTz wall_us)
{
	Expiring   *grants[EXPIRING_MAX];
	int			n;

	if (b->grants == QUOTA_NO_INDEX)
		return;
	(void) credit_instant(b, wall_us);
	if (b->seen_us < b->gone_next_us)
		return;
	n = gather(b, grants);
	b->gone = expiring_gone(grants, n, b->seen_us, &b->gone_next_us);
	b->gone_until_us = PG_INT64_MIN;
	for (int i = 0; i < n; i++)
		if (grants[i]->until_us <= b->seen_us)
			b->gone_until_us = Max(b->gone_until_us, grants[i]->until_us);
}

/* See credit.h. */
CreditExpiring
credit_grants_next(const QuotaBucket *b)
{
	CreditExpiring next = {.until_us = DT_NOEND};
	Expiring   *grants[EXPIRING_MAX];
	int64		left[EXPIRING_MAX];
	int			n;

	if (b->grants == QUOTA_NO_INDEX)
		return next;
	n = gather(b, grants);
	expiring_left(grants, n, left);
	for (int i = 0; i < n; i++)
	{
		if (grants[i]->until_us <= b->seen_us || grants[i]->until_us > next.until_us ||
			left[i] == 0)
			continue;
		if (grants[i]->until_us < next.until_us)
			next.units = 0;
		next.until_us = grants[i]->until_us;
		next.units += left[i];
	}
	return next;
}

/* ---- the grants of a bucket ---- */

/* A place in the table; QUOTA_NO_INDEX = it is full. */
static uint32
allocate(void)
{
	uint32		index;

	LWLockAcquire(quota_shared->directory, LW_EXCLUSIVE);
	index = quota_shared->grant_free;
	if (index != QUOTA_NO_INDEX)
		quota_shared->grant_free = quota_grants[index].next;
	LWLockRelease(quota_shared->directory);
	return index;
}

/* The reverse. */
static void
release(uint32 index)
{
	LWLockAcquire(quota_shared->directory, LW_EXCLUSIVE);
	quota_grants[index].next = quota_shared->grant_free;
	quota_shared->grant_free = index;
	LWLockRelease(quota_shared->directory);
}

/* See credit.h. */
bool
credit_grant_add(QuotaBucket *b, const Expiring *grant)
{
	uint32		index = allocate();

	if (index == QUOTA_NO_INDEX)
		return false;
	quota_grants[index].expiring = *grant;
	quota_grants[index].next = b->grants;
	b->grants = index;
	b->gone_next_us = PG_INT64_MIN;
	return true;
}

/* See credit.h. */
void
credit_grants_drop(QuotaBucket *b)
{
	while (b->grants != QUOTA_NO_INDEX)
	{
		uint32		index = b->grants;

		b->grants = quota_grants[index].next;
		release(index);
	}
	b->gone = 0;
	b->gone_until_us = PG_INT64_MIN;
	b->gone_next_us = PG_INT64_MIN;
}

/* The link that leads to the grant of that instant. */
static uint32 *
link_of(QuotaBucket *b, TimestampTz grant_us)
{
	uint32	   *link = &b->grants;

	while (*link != QUOTA_NO_INDEX &&
		   quota_grants[*link].expiring.at_us != grant_us)
		link = &quota_grants[*link].next;
	return link;
}

/* See credit.h. */
void
credit_grant_end(QuotaBucket *b, TimestampTz grant_us, bool commit)
{
	uint32	   *link = link_of(b, grant_us);
	Expiring   *grants[EXPIRING_MAX];
	uint32		index = *link;
	int			n;

	if (index == QUOTA_NO_INDEX)
		return;
	b->gone_next_us = PG_INT64_MIN;
	quota_grants[index].expiring.given = true;
	if (commit)
		return;
	*link = quota_grants[index].next;
	n = gather(b, grants);
	if (n < EXPIRING_MAX)
	{
		grants[n] = &quota_grants[index].expiring;
		expiring_remove_last(grants, n + 1);
	}
	release(index);
	if (b->grants == QUOTA_NO_INDEX)
		b->gone = 0;
}

/* ---- granting ---- */

typedef enum GrantOutcome
{
	GRANT_MADE,
	GRANT_OVER,					/* it would have expired already */
	GRANT_TOO_LONG,				/* the period ends before */
	GRANT_TOO_MANY,				/* of the account */
	GRANT_FULL,					/* the table */
	GRANT_RANGE
} GrantOutcome;

/* Makes a grant that is given at commit.  Lock held. */
static GrantOutcome
make_grant(uint32 bucket, Expiring *grant)
{
	QuotaBucket *b = &quota_buckets[bucket];
	Expiring   *grants[EXPIRING_MAX];

	grant->at_us = Max(Max(quota_wall_us(), b->seen_us + 1), b->period_start_us);
	if (grant->at_us >= grant->until_us)
		return GRANT_OVER;
	if (grant->until_us > b->period_end_us)
		return GRANT_TOO_LONG;
	if (gather(b, grants) == EXPIRING_MAX)
		return GRANT_TOO_MANY;
	if (credit_leaves_range(b, -grant->amount))
		return GRANT_RANGE;
	if (!credit_grant_add(b, grant))
		return GRANT_FULL;
	b->seen_us = grant->at_us;
	journal_grant(bucket, grant->amount, grant->at_us);
	return GRANT_MADE;
}

/* Says what is wrong; no lock held. */
static void
report(GrantOutcome outcome, const LedgerEntry *entry, TimestampTz until_us,
	   TimestampTz end_us)
{
	switch (outcome)
	{
		case GRANT_MADE:
			break;
		case GRANT_OVER:
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("argument \"expires_at\" is not in the future"),
					 errdetail("It is %s.", timestamptz_to_str(until_us)),
					 errhint("Pass a later instant, or leave it out for a grant that ends with the period.")));
			break;
		case GRANT_TOO_LONG:
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("argument \"expires_at\" is later than the end of the period"),
					 errdetail("The period of limit \"%s\" ends at %s, and what is left of it then is gone.",
							   entry->limit_name, timestamptz_to_str(end_us)),
					 errhint("Leave it out for a grant that ends with the period.")));
			break;
		case GRANT_TOO_MANY:
			ereport(ERROR,
					(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
					 errmsg("limit \"%s\" has too many grants that expire",
							entry->limit_name),
					 errdetail("An account can have %d of them in one period, those that have expired included.",
							   EXPIRING_MAX),
					 errhint("Give fewer and larger ones, or grants without expires_at.")));
			break;
		case GRANT_FULL:
			quota_table_full("grant", "quota.max_buckets", quota_max_grants());
			break;
		case GRANT_RANGE:
			credit_error_range(entry);
			break;
	}
}

/* See credit.h. */
void
credit_charge_grant(LedgerEntry *entry, const QuotaTerm *term)
{
	Expiring	grant = {.until_us = entry->expires_at,.amount = -entry->amount};
	GrantOutcome outcome;
	TimestampTz end_us;
	uint32		index;

	/* whoever waits for the transactions of an instant waits for a grant of then */
	(void) GetTopTransactionId();
	do
	{
		journal_reserve(2);
		index = credit_lock_ready(term);
		outcome = make_grant(index, &grant);
		end_us = quota_buckets[index].period_end_us;
		credit_unlock(index);
	} while (outcome == GRANT_FULL && quota_reclaim());
	report(outcome, entry, grant.until_us, end_us);
	entry->charged_at = grant.at_us;
}
