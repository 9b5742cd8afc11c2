/*
 * report_permit.c
 *		The limits of a call that an answer names by its permit: see report.h.
 *
 * The plan of an answer is made of what is known of its call.  A permit tells provider,
 * tenant and endpoint, but not the class, user, connection or resource of its call; its
 * parts tell which buckets these led to.  So the plan's terms of limits that the permit
 * has been charged by become those of its own buckets, and what is missing is added.
 *
 * Only rates and concurrency are of use here: of the rest an answer says nothing.
 */
#include "report.h"

#include "catalog.h"
#include "miscadmin.h"
#include "permit.h"
#include "policy_cache.h"

/* One of the permit's buckets. */
typedef struct Charged
{
	QuotaKey	key;
	uint32		slot;
	uint32		bucket;
	QuotaKind	kind;
	char		limit_name[QUOTA_NAME_LEN];
} Charged;

/* Copies what an answer may tell of; how many. */
static int
read_parts(int64 permit, Charged *charged)
{
	uint32		index = permit_lock(permit, MyDatabaseId, quota_catalog()->extension);
	const QuotaPermit *p;
	int			n = 0;

	if (index == QUOTA_NO_INDEX)
		return 0;
	p = &quota_permits[index];
	for (int i = 0; i < p->nparts; i++)
	{
		const QuotaBucket *b = &quota_buckets[p->parts[i].bucket];

		if (b->kind == QUOTA_ALLOWANCE || b->kind == QUOTA_RETRIES)
			continue;
		charged[n].key = b->entry.key;
		charged[n].slot = b->entry.owner;
		charged[n].bucket = p->parts[i].bucket;
		charged[n].kind = (QuotaKind) b->kind;
		strlcpy(charged[n++].limit_name, b->limit_name, QUOTA_NAME_LEN);
	}
	permit_unlock(index);
	return n;
}

/* The limit of the bucket as it is now; NULL = it is gone. */
static const PolicyLimit *
limit_of(const QuotaPlan *plan, const Charged *c)
{
	const PolicyRules *rules = policy_rules();
	const PolicyProvider *p = policy_find(rules->providers, plan->provider);
	const List *limits = c->slot == plan->slot && p ? p->limits : rules->across;
	ListCell   *cell;

	foreach(cell, limits)
	{
		const PolicyLimit *limit = lfirst(cell);

		if (limit->kind == c->kind && strcmp(limit->name, c->limit_name) == 0)
			return limit;
	}
	return NULL;
}

/* The place of the limit's term, or of a new one; -1 = there is none. */
static int
place_of(const QuotaPlan *plan, const Charged *c)
{
	int			i = 0;

	while (i < plan->nterms && !(plan->terms[i].slot == c->slot &&
								 plan->terms[i].kind == c->kind &&
								 strcmp(plan->terms[i].name, c->limit_name) == 0))
		i++;
	return i < QUOTA_MAX_TERMS ? i : -1;
}

/* The plan's term of the limit becomes that of this bucket. */
static void
put(QuotaPlan *plan, const Charged *c, const PolicyLimit *limit)
{
	int			i = place_of(plan, c);
	QuotaTerm  *term;

	if (i < 0)
		return;
	term = &plan->terms[i];
	if (i == plan->nterms)
	{
		memset(term, 0, sizeof(*term));
		plan->nterms++;
		/* the rules may be read anew meanwhile */
		term->name = pstrdup(limit->name);
		term->unit = pstrdup(limit->unit);
		term->slot = c->slot;
		term->kind = (uint8) c->kind;
		term->enforcement = (uint8) limit->enforcement;
		term->external = limit->external;
		term->period_ns = limit->period_ns;
		term->adaptive = limit->adaptive;
		plan->learns |= limit->adaptive;
		plan->across |= c->slot == plan->database_slot;
	}
	term->key = c->key;
	term->bucket = c->bucket;
}

/* See report.h. */
QuotaPlan *
report_permit_plan(const QuotaPlan *plan, int64 permit)
{
	Charged		charged[QUOTA_MAX_TERMS];
	int			n = read_parts(permit, charged);
	QuotaPlan  *own = palloc(offsetof(QuotaPlan, terms) +
							 QUOTA_MAX_TERMS * sizeof(QuotaTerm));

	memcpy(own, plan, offsetof(QuotaPlan, terms) + plan->nterms * sizeof(QuotaTerm));
	for (int i = 0; i < n; i++)
	{
		const PolicyLimit *limit = limit_of(plan, &charged[i]);

		if (limit != NULL)
			put(own, &charged[i], limit);
	}
	return own;
}
