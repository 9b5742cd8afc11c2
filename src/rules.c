/*
 * rules.c
 *		By which rules the meter of a bucket goes, and how it learns of others without
 *		a decision.
 *
 * A decision brings the meters it looks at to now: by the rules of the decision before
 * up to the instant of the change, by its own from then on (G9).  Between decisions
 * others look at a meter, too: what an abort returns, who looks for room, the writer of
 * marks.  They don't know what rules there are now, and must not settle by those of
 * the last decision: where these gave back faster than today's, more would be there
 * than is (G1), and a settlement can't be undone.
 *
 * STALE.  So each bucket has the stamp of the rows its rules were made of.  Once a
 * counter in it has moved the bucket is stale: other rules may apply by now.  Nobody
 * but a decision settles a stale bucket.
 *
 *	- What returns to it, returns as of its last settlement.  Nothing was taken since,
 *	  so that is as if the taker had rolled back then: the bound's proof (bucket.c) asks
 *	  for no more.
 *	- It is full if it was at its last settlement: then it is, by whatever rules.  Only
 *	  such a one may be forgotten.
 *	- What is taken beyond an estimate must be taken now, so the bucket is renewed first.
 *
 * RENEWING.  rules_renew() does for one bucket what a decision would, but by its limit
 * and tenant instead of a call:
 *
 *	1. under the owner's lock: is it stale, whose is it, of which limit;
 *	2. without locks: reads the committed configuration, as ever (policy_cache.c), and
 *	   makes the limit's rules for that tenant of it;
 *	3. under the lock again: if the bucket is still there, and the stamp of what was
 *	   read is current, the rules apply.
 *
 * A change that commits between 2 and 3 makes the stamp stale: once more.  If the bucket
 * was forgotten and made anew in between, its rules are today's already, as those of
 * the stamp are.  Where no such limit applies any more nothing is limited: the bucket
 * keeps its rules, and gets the stamp only, so that it fills up and makes room.
 *
 * WHO RENEWS
 *
 *	- who needs room (reclaim.c), what is in the way and of his own database;
 *	- for other databases, which may have no user left, a background worker there: so
 *	  no bucket keeps its place for longer than it takes to fill up;
 *	- quota_settle(), as said above;
 *	- whoever changes rates, before he commits, all buckets that are stale by then.  So
 *	  of several changes each applies to a bucket for as long as it was in force, even
 *	  if nobody asks for the bucket in between: at most one change has happened to it,
 *	  and when that was its rows say (switch_ns()).  Only of two that commit at the same
 *	  time, each before it sees the other, may the earlier one be missed: then the rules
 *	  before it go on until the second.
 */
#include "rules.h"

#include "catalog.h"
#include "clock.h"
#include "learn.h"
#include "mark.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "worker.h"

/* Changes of configuration that one renewal may lose a race to. */
#define MAX_RACES 100

/* A stale bucket, and what says which rules it has. */
typedef struct Stale
{
	uint32		bucket;
	uint32		owner;
	QuotaKey	key;
	QuotaKind	kind;
	char		provider[QUOTA_NAME_LEN];	/* "" = across providers */
	char		limit_name[QUOTA_NAME_LEN];
	char		tenant[QUOTA_NAME_LEN]; /* who has its place, "" = nobody */
} Stale;

/* See rules.h. */
bool
rules_are_current(const QuotaBucket *b)
{
	return !quota_is_rate(b->kind) || quota_stamp_is_current(&b->rules);
}

/* See rules.h. */
void
rules_settle(QuotaBucket *b, int64 now_ns, TimestampTz wall_us)
{
	if (quota_is_rate(b->kind) && rules_are_current(b))
		meter_settle(&b->meter, now_ns, wall_us);
}

/*
 * When the term's rules replaced the meter's.  Where a deletion leaves that
 * open, the slower of the two rates is taken to have applied in between.
 */
static int64
switch_ns(const Meter *m, const QuotaTerm *term)
{
	return meter_is_slower(m, &term->meter) ? term->deleted_ns
		: term->changed_ns;
}

/* See rules.h. */
void
rules_apply(QuotaBucket *b, const QuotaTerm *term, const QuotaStamp *stamp,
			int64 now_ns, TimestampTz wall_us)
{
	if (likely(meter_goes_by(&b->meter, &term->meter)))
		meter_settle(&b->meter, now_ns, wall_us);
	else
		meter_configure(&b->meter, &term->meter, switch_ns(&b->meter, term), now_ns,
						wall_us);
	b->rules = *stamp;
	if (!term->own)
		b->rules.tenant = QUOTA_NO_INDEX;
}

/* ---- renewing ---- */

/* The slot is of this database and the extension there is. */
static bool
is_ours(uint32 slot)
{
	return quota_slots[slot].database == MyDatabaseId &&
		quota_slots[slot].extension == quota_catalog()->extension;
}

/* Step 1: false when it is not stale, or not ours. */
static bool
find_stale(uint32 bucket, Stale *s)
{
	QuotaBucket *b = &quota_buckets[bucket];
	QuotaSlot  *slot;
	bool		stale;

	s->bucket = bucket;
	s->owner = b->entry.owner;
	/* without a lock: a stamp that is just being written is one of today */
	if (!b->entry.used || s->owner >= (uint32) quota_max_providers ||
		!is_ours(s->owner) || rules_are_current(b))
		return false;
	slot = &quota_slots[s->owner];
	LWLockAcquire(&slot->lock, LW_SHARED);
	stale = quota_owned(&b->entry, s->owner) && slot->database == MyDatabaseId &&
		!rules_are_current(b);
	if (stale)
	{
		s->key = b->entry.key;
		s->kind = (QuotaKind) b->kind;
		strlcpy(s->provider, slot->provider, QUOTA_NAME_LEN);
		strlcpy(s->limit_name, b->limit_name, QUOTA_NAME_LEN);
		s->tenant[0] = '\0';
		if (b->tenant != QUOTA_NO_INDEX)
			strlcpy(s->tenant, quota_tenants[b->tenant].name, QUOTA_NAME_LEN);
	}
	LWLockRelease(&slot->lock);
	return stale;
}

/* Step 2: false when nothing limits it. */
static bool
read_rules(const Stale *s, QuotaTerm *term, QuotaStamp *stamp)
{
	bool		before = quota_policy_committed(quota_change_pending());
	bool		found = false;

	PG_TRY();
	{
		found = quota_limit_rules(s->provider, s->limit_name, s->kind, s->tenant,
								  term, stamp);
	}
	PG_FINALLY();
	{
		quota_policy_committed(before);
	}
	PG_END_TRY();
	return found;
}

/* Step 3: false when the configuration has changed meanwhile. */
static bool
apply(const Stale *s, bool found, QuotaTerm *term, const QuotaStamp *stamp)
{
	LWLock	   *lock = &quota_slots[s->owner].lock;
	QuotaBucket *b = &quota_buckets[s->bucket];
	bool		there;
	bool		current;

	quota_lock(lock);
	there = quota_bucket_is(s->bucket, s->owner, &s->key);
	current = quota_stamp_is_current(stamp);
	if (there && current && found)
	{
		learn_scale(b, term, 0);
		mark_renew(s->bucket, term);
		rules_apply(b, term, stamp, quota_now_ns(), quota_wall_us());
	}
	else if (there && current)
		b->rules = *stamp;
	LWLockRelease(lock);
	return !there || current;
}

/* See rules.h. */
bool
rules_renew(uint32 bucket)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "quota rules of a bucket",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(context);
	bool		done = false;
	Stale		s;

	for (int races = 0; !done && races < MAX_RACES && find_stale(bucket, &s); races++)
	{
		QuotaStamp	stamp;
		QuotaTerm	term;
		bool		found;

		CHECK_FOR_INTERRUPTS();
		found = read_rules(&s, &term, &stamp);
		done = apply(&s, found, &term, &stamp);
		MemoryContextReset(context);
	}
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(context);
	return done || rules_are_current(&quota_buckets[bucket]);
}

/* See rules.h. */
bool
rules_renew_all(int64 until_ns)
{
	uint32		reach = quota_shared->bucket_table.reach;

	for (uint32 i = 0; i < reach; i++)
	{
		if (!quota_buckets[i].entry.used || rules_are_current(&quota_buckets[i]))
			continue;
		if (quota_raw_ns() > until_ns)
			return false;
		(void) rules_renew(i);
	}
	return true;
}

/* See rules.h. */
void
rules_before_change(void)
{
	/* the extension may be gone, and its buckets with it */
	if (OidIsValid(quota_catalog_look()))
		(void) rules_renew_all(QUOTA_NEVER);
}

/* ---- other databases ---- */

/* See rules.h. */
void
rules_want_worker(uint32 slot)
{
	for (uint32 i = 0; i < (uint32) quota_max_providers; i++)
	{
		QuotaSlot  *database = &quota_slots[i];

		if (!database->entry.used || database->provider[0] != '\0' ||
			database->database != quota_slots[slot].database)
			continue;
		pg_atomic_write_u32(&database->rules_wanted, 1);
		quota_work_due(i, quota_now_ns());
	}
}

/* See rules.h. */
int64
rules_chore(uint32 database_slot, int64 until_ns)
{
	pg_atomic_uint32 *wanted = &quota_slots[database_slot].rules_wanted;

	if (pg_atomic_exchange_u32(wanted, 0) == 0)
		return QUOTA_NEVER;
	if (rules_renew_all(until_ns))
		return QUOTA_NEVER;
	pg_atomic_write_u32(wanted, 1);
	return quota_now_ns();
}
