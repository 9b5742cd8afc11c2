/*
 * journal_call.c
 *		Which call of the open transaction an answer is of.
 *
 * Rate tokens of a call stay spent once it is known that it went out, whatever
 * becomes of the transaction (G3).  quota_settle() names the call by its permit,
 * quota_complete() and quota_fail() by its job; quota_report() says only names.  By
 * this rule:
 *
 *	An answer is of one call that this very transaction was admitted, and that nothing
 *	was told of yet: one that agrees with every name the answer gives.  A name that it
 *	leaves out may be any, so then it may be of another one of several; those without
 *	a permit come before those with one, which can be settled.  Calls that were
 *	admitted together (n) are one: they all went out.
 *
 * If there is none, the answer is of a call of another transaction, whose tokens are
 * not in this journal.
 *
 *	direct, no permit	RECORD_CALL: its names, and how many units it took in which
 *						records.  Those are of the same subtransaction and older, so
 *						they are there as long as it is.  Calls that are alike share a
 *						record, so many of them take no more memory than one.
 *	job, no permit		RECORD_CLAIM, and the records before it
 *	with a permit		the chain of permits taken; what it took is in its parts
 *
 * Nothing here is shared, but permits, which are this transaction's own: nobody else
 * changes what is read here of them.
 */
#include "journal_records.h"

#include "common/hashfn.h"
#include "job.h"

/* Kinds of calls in turn find their record by this. */
#define CALL_HINTS 1024

static int	call_hints[CALL_HINTS];

/* What the call that is being charged has taken; of others nothing is kept. */
static bool charging;
static int	ntakes;
static int32 takes[QUOTA_MAX_TERMS];
static int64 units[QUOTA_MAX_TERMS];

/* See journal.h. */
void
journal_call_begin(void)
{
	charging = true;
	ntakes = 0;
}

/* See journal_records.h. */
void
journal_call_took(int position, int64 n)
{
	if (!charging)
		return;
	/* a call takes once for each of its terms */
	Assert(ntakes < QUOTA_MAX_TERMS);
	takes[ntakes] = position;
	units[ntakes++] = n;
}

/* The record is of calls like this one. */
static bool
is_alike(int position, uint32 hash, const QuotaCallNames *names)
{
	const JournalRecord *r = &journal_records[position];

	return journal_matches(position, RECORD_CALL, hash) &&
		r->u.call.ntakes == ntakes &&
		memcmp(r->u.call.take, takes, sizeof(takes[0]) * ntakes) == 0 &&
		memcmp(r->u.call.units, units, sizeof(units[0]) * ntakes) == 0 &&
		memcmp(&r->u.call.names, names, sizeof(*names)) == 0;
}

/* See journal.h. */
void
journal_call_end(const QuotaCallNames *names)
{
	uint32		hash;
	int		   *hint;
	JournalRecord *r;

	charging = false;
	if (ntakes == 0)
		return;
	hash = hash_bytes((const unsigned char *) names, sizeof(*names));
	hint = &call_hints[hash_combine(hash, (uint32) units[0]) % CALL_HINTS];
	if (is_alike(*hint, hash, names))
	{
		journal_records[*hint].u.call.n++;
		return;
	}
	*hint = journal_nrecords;
	r = journal_append(RECORD_CALL, hash);
	r->u.call.n = 1;
	r->u.call.ntakes = ntakes;
	memcpy(r->u.call.take, takes, sizeof(takes));
	memcpy(r->u.call.units, units, sizeof(units));
	r->u.call.names = *names;
}

/* What was told agrees with what there is. */
static bool
may_be(uint32 told, uint32 is)
{
	return told == 0 || told == is;
}

/* The call may be one of these. */
static bool
agrees(const QuotaCallNames *told, const QuotaCallNames *names)
{
	return told->provider == names->provider && may_be(told->tenant, names->tenant) &&
		may_be(told->endpoint, names->endpoint) &&
		may_be(told->class_name, names->class_name) &&
		may_be(told->user, names->user) &&
		may_be(told->connection, names->connection) &&
		may_be(told->resource, names->resource);
}

/* The same for names of which the rest is not known. */
static bool
agrees_with(const QuotaCallNames *told, const char *provider, const char *tenant,
			const char *endpoint, const char *class_name)
{
	QuotaCallNames names = *told;

	names.provider = quota_name_hash(provider);
	names.tenant = quota_name_hash(tenant);
	names.endpoint = endpoint[0] ? quota_name_hash(endpoint) : 0;
	if (class_name)
		names.class_name = quota_name_hash(class_name);
	return agrees(told, &names);
}

/* One call like this went out. */
static void
spend_call(JournalRecord *r)
{
	r->u.call.n--;
	for (int i = 0; i < r->u.call.ntakes; i++)
	{
		JournalRecord *take = &journal_records[r->u.call.take[i]];

		if (take->type == RECORD_TAKE)
			take->u.rate.kept += r->u.call.units[i];
		else if (take->type == RECORD_PROBE)
			take->u.probe.n = 0;
	}
}

/* The claim has something that may be spent for a call of these names. */
static bool
is_claim_of(const JournalRecord *r, const QuotaCallNames *told)
{
	JobNames	names;

	if (r->u.c.ntakes == 0)
		return false;
	job_names_of_flow(r->object, &names);
	return agrees_with(told, names.provider, names.tenant, names.endpoint,
					   names.class_name);
}

/* One without a permit; false when there is none. */
static bool
spend_newest(const QuotaCallNames *told)
{
	for (int i = journal_nrecords - 1; i >= 0; i--)
	{
		JournalRecord *r = &journal_records[i];

		if (r->type == RECORD_CALL && r->u.call.n > 0 && agrees(told, &r->u.call.names))
		{
			spend_call(r);
			return true;
		}
		if (r->type == RECORD_CLAIM && is_claim_of(r, told))
			return journal_spend_claim(i, r->u.c.claim.job);
	}
	return false;
}

/* Credits alone are a hold, and no call. */
static bool
is_of_call(const QuotaPermit *p)
{
	for (int i = 0; i < p->nparts; i++)
		if (p->parts[i].kind != QUOTA_ALLOWANCE)
			return true;
	return p->nparts == 0;
}

/* The newest with a permit, if there is one. */
static void
spend_permit(const QuotaCallNames *told)
{
	for (uint32 i = journal_taken_head; i != QUOTA_NO_INDEX;
		 i = quota_permits[i].taken_next)
	{
		QuotaPermit *p = &quota_permits[i];

		if (p->spent || p->tenant == QUOTA_NO_INDEX || !is_of_call(p) ||
			!agrees_with(told, quota_slots[p->owner].provider,
						 quota_tenants[p->tenant].name, p->endpoint, NULL))
			continue;
		journal_permit_spent(i);
		return;
	}
}

/* See journal.h. */
void
journal_call_answered(const QuotaCall *call)
{
	QuotaCallNames told;

	if (journal_is_empty())
		return;
	told.provider = quota_name_hash(call->provider);
	told.tenant = quota_name_hash(call->tenant);
	told.endpoint = quota_name_hash(call->endpoint);
	told.class_name = quota_name_hash(call->class_name);
	told.user = quota_name_hash(call->user);
	told.connection = quota_name_hash(call->connection);
	told.resource = quota_name_hash(call->resource);
	if (!spend_newest(&told))
		spend_permit(&told);
}
