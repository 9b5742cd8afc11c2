/*
 * reclaim.c
 *		Makes room in the fixed tables: what is idle and would be created again
 *		in the same state is forgotten (G13).
 *
 * A full meter, a concurrency bucket with nothing in flight, an allowance
 * (its rows know it) and an idle flow can go, if no journal record or permit pins
 * them.  Only the owner's lock is needed: pins are raised under it.
 *
 * KEYS WITHOUT END.  A tenant whose calls name a million users, one after the other,
 * is at its ceiling most of the time, and its users' buckets are full again after a
 * while.  A call that needs a place there makes some: a hand goes over the table, from
 * where the tenant's last such call left off, and forgets a batch of what is idle of
 * the tenant's own.  So a new bucket costs a look at a few places, which are about as
 * many as the table has for each idle bucket of the tenant; other tenants' buckets stay.
 *
 * When a whole round has found nothing idle, all of the tenant's buckets hold
 * something, and its calls for new ones are refused (53400) until the first of these
 * can be full by time alone, which the round has found out.  Until then a call looks
 * at a few only, for one that has got back what was taken.  Refusals are cheap thus,
 * and right but for the last: a bucket that becomes idle before its time, because
 * a transaction has ended, is found by one of the next calls, or after a second.
 *
 * After a change of rates a bucket must not be judged by the rules of its last decision
 * (rules.c).  One that is in the way gets those of today first; if it is another
 * database's, a worker there sees to that, and it keeps its place until then.
 *
 * The hand of all works in the same way for who finds the table full.
 */
#include "credit.h"
#include "floor.h"
#include "flow.h"
#include "learn.h"
#include "mark.h"
#include "miscadmin.h"
#include "permit.h"
#include "rules.h"
#include "shmem.h"
#include "worker.h"

/* Buckets that are forgotten at once, to make room for as many new ones. */
#define BATCH 64
/*
 * Buckets looked at when none will be idle by time alone, in case that one is
 * pinned no more or has got something back; and places passed by to find them.
 */
#define FEW 64
#define FEW_PLACES 4096
/* What is pinned, or stale, is looked at again after this. */
#define PINNED_NS QUOTA_NS_PER_S

/* All that keeps it is its row; it has been settled. */
static bool
is_kept_by_row(QuotaBucket *b)
{
	return b->mark.slow && b->mark.place.offset != 0 && meter_is_full(&b->meter) &&
		pg_atomic_read_u32(&b->pins) == 0;
}

/* Forgetting the bucket loses nothing; it is settled to now, unless it is stale. */
static bool
is_idle(QuotaBucket *b, int64 now_ns)
{
	if (pg_atomic_read_u32(&b->pins) > 0 || learn_needs(b, now_ns) ||
		 b->portions.waiting > 0)
		return false;
	if (quota_is_rate(b->kind))
	{
		rules_settle(b, now_ns, quota_wall_us());
		/* its row is the worker's to free, or, of this database, mark_free_rows()'s */
		return meter_is_full(&b->meter) && !is_kept_by_row(b);
	}
	if (b->kind == QUOTA_BREAKER)
	{
		breaker_settle(&b->breaker, now_ns);
		return breaker_is_idle(&b->breaker);
	}
	if (b->kind == QUOTA_CONCURRENCY)
		return b->used == 0 && b->unknown_until_ns <= now_ns;
	/* no row knows what calls have taken of a shadow, nor which grants were seen to expire */
	return b->load != QUOTA_LOAD_LOADING &&
		((b->shadow_used == 0 && b->grants == QUOTA_NO_INDEX) ||
		 quota_wall_us() >= b->period_end_us);
}

/* When it may be, not being so now: a time after now. */
static int64
idle_at(const QuotaBucket *b, int64 now_ns)
{
	int64		wait_ns = PINNED_NS;

	if (pg_atomic_read_u32((pg_atomic_uint32 *) &b->pins) > 0 ||
		b->portions.waiting > 0 || !rules_are_current(b))
		return now_ns + PINNED_NS;
	if (quota_is_rate(b->kind))
		wait_ns = b->capacity > 0 ? meter_wait(&b->meter, b->capacity, 1, 0)
			: QUOTA_NEVER;
	else if (b->kind == QUOTA_CONCURRENCY)
		wait_ns = b->unknown_until_ns - now_ns;
	wait_ns = Max(wait_ns, QUOTA_NS_PER_US);
	return wait_ns < QUOTA_NEVER - now_ns ? now_ns + wait_ns : QUOTA_NEVER;
}

/* See shmem.h. */
void
quota_drop_bucket(uint32 index)
{
	QuotaBucket *b = &quota_buckets[index];

	if (b->tenant != QUOTA_NO_INDEX)
	{
		pg_atomic_fetch_sub_u32(&quota_tenants[b->tenant].nbuckets, 1);
		pg_atomic_fetch_sub_u32(&quota_tenants[b->tenant].pins, 1);
	}
	floor_bucket_drop(b);
	credit_grants_drop(b);
	quota_remove_bucket(index);
}

/* Lost permits and idle flows of every slot. */
static int
reclaim_slots(void)
{
	int			freed = 0;

	for (uint32 i = 0; i < (uint32) quota_max_providers; i++)
	{
		QuotaSlot  *slot = &quota_slots[i];
		uint32		permits = quota_shared->permits_used;

		if (!slot->entry.used)
			continue;
		quota_lock(&slot->lock);
		if (slot->entry.used)
		{
			permit_expire(i, quota_now_ns());
			freed += flow_reclaim(i);
		}
		LWLockRelease(&slot->lock);
		across_tell();
		freed += quota_shared->permits_used < permits;
		CHECK_FOR_INTERRUPTS();
	}
	return freed;
}

/* How a look at one place ended. */
typedef enum Look
{
	LOOK_OTHER,					/* no bucket, or not one of the tenant's */
	LOOK_BUSY,
	LOOK_STALE,					/* busy by rules that may have changed */
	LOOK_FREED
} Look;

/* Which buckets a round is not to forget, and what it has found out. */
typedef struct Round
{
	const uint32 *keep;
	int			nkeep;
	int			looks[LOOK_FREED + 1];
	int64		idle_ns;		/* when the first may be idle */
	bool		rows;			/* some are kept by nothing but their rows */
	uint32		stale;			/* the slot of one that stayed stale, or QUOTA_NO_INDEX */
} Round;

/*
 * Forgets the bucket in this place if it is the tenant's and idle; else says when, and
 * whether its row keeps it.
 */
static Look
look(uint32 index, uint32 tenant, Round *round)
{
	QuotaBucket *b = &quota_buckets[index];
	uint32		owner = b->entry.owner;
	Look		result = LOOK_OTHER;
	int64		now_ns;

	for (int i = 0; i < round->nkeep; i++)
		if (round->keep[i] == index)
			return LOOK_OTHER;
	/* without a lock: who is looked for is not just being made */
	if (!b->entry.used || owner >= (uint32) quota_max_providers ||
		(tenant != QUOTA_NO_INDEX && b->tenant != tenant))
		return LOOK_OTHER;
	quota_lock(&quota_slots[owner].lock);
	if (quota_owned(&b->entry, owner) &&
		(tenant == QUOTA_NO_INDEX || b->tenant == tenant))
	{
		now_ns = quota_now_ns();
		result = is_idle(b, now_ns) ? LOOK_FREED
			: rules_are_current(b) ? LOOK_BUSY : LOOK_STALE;
		if (result == LOOK_FREED)
			quota_drop_bucket(index);
		else
		{
			round->idle_ns = Min(round->idle_ns, idle_at(b, now_ns));
			round->rows |= is_kept_by_row(b);
			if (result == LOOK_STALE)
				round->stale = owner;
		}
	}
	LWLockRelease(&quota_slots[owner].lock);
	round->looks[result]++;
	return result;
}

/* The same; one of this database gets the rules of today before. */
static void
look_renewed(uint32 index, uint32 tenant, Round *round)
{
	Round		before = *round;

	if (look(index, tenant, round) != LOOK_STALE || !rules_renew(index))
		return;
	*round = before;
	(void) look(index, tenant, round);
}

/* Of what stayed stale: its database is to see to it. */
static void
end_round(const Round *round)
{
	if (round->stale != QUOTA_NO_INDEX)
		rules_want_worker(round->stale);
}

/*
 * Forgets a batch of the tenant's idle buckets; false when none was found.  Says
 * whether some are kept by nothing but their rows.
 */
static bool
go_round(uint32 tenant, const uint32 *keep, int nkeep, bool *rows)
{
	QuotaHand  *hand = tenant == QUOTA_NO_INDEX ? &quota_shared->bucket_hand
		: &quota_tenants[tenant].hand;
	bool		few = quota_now_ns() < (int64) pg_atomic_read_u64(&hand->idle_ns);
	int			places = few ? Min(FEW_PLACES, quota_max_buckets) : quota_max_buckets;
	Round		round = {
		.keep = keep,.nkeep = nkeep,.idle_ns = QUOTA_NEVER,.stale = QUOTA_NO_INDEX
	};
	uint32		next = pg_atomic_read_u32(&hand->next);

	while (places-- > 0 && round.looks[LOOK_FREED] < BATCH &&
		   !(few && round.looks[LOOK_BUSY] + round.looks[LOOK_STALE] >= FEW))
	{
		next = next + 1 < (uint32) quota_max_buckets ? next + 1 : 0;
		look_renewed(next, tenant, &round);
		if (next % 1024 == 0)
			CHECK_FOR_INTERRUPTS();
	}
	pg_atomic_write_u32(&hand->next, next);
	if (!few && round.looks[LOOK_FREED] == 0)
		pg_atomic_write_u64(&hand->idle_ns, (uint64) round.idle_ns);
	end_round(&round);
	*rows |= round.rows;
	return round.looks[LOOK_FREED] > 0;
}

/* See shmem.h. */
bool
quota_reclaim_buckets(uint32 tenant, const uint32 *keep, int nkeep)
{
	bool		rows = false;

	if (go_round(tenant, keep, nkeep, &rows))
		return true;
	if (!rows)
		return false;
	mark_free_rows();
	return go_round(tenant, keep, nkeep, &rows);
}

/* All idle buckets. */
static int
reclaim_buckets(void)
{
	Round		round = {.idle_ns = QUOTA_NEVER,.stale = QUOTA_NO_INDEX};

	for (uint32 i = 0; i < (uint32) quota_max_buckets; i++)
	{
		(void) look(i, QUOTA_NO_INDEX, &round);
		CHECK_FOR_INTERRUPTS();
	}
	end_round(&round);
	return round.looks[LOOK_FREED];
}

/* Portions of tenants that are not active. */
static int
reclaim_portions(void)
{
	int			freed = 0;

	for (uint32 i = 0; i < (uint32) quota_max_portions(); i++)
	{
		QuotaEntry *entry = &quota_portions[i].entry;
		uint32		owner = entry->owner;

		if (!entry->used || owner >= (uint32) quota_max_providers)
			continue;
		quota_lock(&quota_slots[owner].lock);
		if (quota_owned(entry, owner))
			freed += floor_reclaim(i, quota_now_ns());
		LWLockRelease(&quota_slots[owner].lock);
		CHECK_FOR_INTERRUPTS();
	}
	return freed;
}

/* See shmem.h. */
bool
quota_reclaim(void)
{
	int			freed = quota_sweep_gone() ? 1 : 0;

	mark_free_rows();
	freed += reclaim_buckets();
	freed += reclaim_portions();
	return freed + reclaim_slots() > 0;
}
