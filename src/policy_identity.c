/*
 * policy_identity.c
 *		What the things of a plan are known by: in shared memory, in the ledger, and
 *		in views; and the plan of a call bound to the names of another one.
 *
 * Two calls meet the same bucket when its limit is of the same provider (or across
 * providers), has the same name and kind, and they say the same for each word of its
 * "per".
 */
#include "policy_plan.h"

#include "common/hashfn.h"
#include "config.h"
#include "credit.h"
#include "key.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"

/* What the call says for the words of "per", in the order of ConfigPer. */
static void
per_values(const QuotaCall *call, const char *values[N_PER])
{
	values[0] = call->tenant;
	values[1] = call->user;
	values[2] = call->connection;
	values[3] = call->resource;
	values[4] = call->endpoint;
	values[5] = call->class_name;
}

/* Values joined by '/', cut to what views show: QUOTA_LABEL_LEN bytes. */
static void
make_label(int per, const char *const values[N_PER], char *out)
{
	char		label[(QUOTA_NAME_LEN + 1) * N_PER];
	char	   *end = label;
	int			len;

	for (int i = 0; i < N_PER; i++)
	{
		if ((per & (1 << i)) == 0)
			continue;
		if (end > label)
			*end++ = '/';
		if (values[i])
			end = stpcpy(end, values[i]);
	}
	len = pg_mbcliplen(label, end - label, QUOTA_LABEL_LEN - 1);
	memcpy(out, label, len);
	out[len] = '\0';
}

/* See policy_plan.h. */
void
policy_account(const char *provider, const char *limit_name, const char *tenant,
			   uint8 *id)
{
	const char *parts[2 + N_PER] = {provider, limit_name, tenant};

	quota_stable_hash(QUOTA_SPACE_ACCOUNT, lengthof(parts), parts, id);
}

/* See policy_plan.h. */
void
policy_identify(QuotaTerm *t, const QuotaCall *call, Oid extension,
				const char *provider, char *label)
{
	const char *values[N_PER];
	const char *parts[3 + N_PER];
	const char *stable[2 + N_PER];

	per_values(call, values);
	parts[0] = stable[0] = provider;
	parts[1] = stable[1] = t->name;
	parts[2] = quota_kind_name(t->kind);	/* another kind, another bucket */
	for (int i = 0; i < N_PER; i++)
		parts[3 + i] = stable[2 + i] = (t->per & (1 << i)) ? values[i] : NULL;

	if (t->kind == QUOTA_ALLOWANCE)
	{
		quota_stable_hash(QUOTA_SPACE_ACCOUNT, lengthof(stable), stable,
						  t->account);
		t->key = quota_account_key(MyDatabaseId, extension, t->account);
	}
	else
		t->key = quota_key(MyDatabaseId, extension, QUOTA_SPACE_BUCKET,
						   lengthof(parts), parts);
	if (t->slow)
		quota_stable_hash(QUOTA_SPACE_MARK, lengthof(parts), parts, t->mark_id);
	make_label(t->per, values, label);
	t->label = label;
}

/* See policy.h. */
uint32
quota_name_hash(const char *name)
{
	uint32		hash;

	if (name == NULL)
		return 0;
	hash = hash_bytes((const unsigned char *) name, (int) strlen(name));
	return hash > 0 ? hash : 1;
}

/* See policy.h. */
void
quota_plan_identify(QuotaPlan *plan)
{
	const char *parts[] = {plan->provider, plan->tenant, plan->class_name,
	plan->endpoint};

	plan->tenant_key = quota_key(MyDatabaseId, plan->extension,
								 QUOTA_SPACE_TENANT, 2, parts);
	plan->share_key = quota_key(MyDatabaseId, plan->extension,
								QUOTA_SPACE_SHARE, 3, parts);
	plan->flow_key = quota_key(MyDatabaseId, plan->extension,
							   QUOTA_SPACE_FLOW, 4, parts);
	memset(&plan->names, 0, sizeof(plan->names));
	plan->names.provider = quota_name_hash(plan->provider);
	plan->names.tenant = quota_name_hash(plan->tenant);
	plan->names.endpoint = quota_name_hash(plan->endpoint);
	plan->names.class_name = quota_name_hash(plan->class_name);
}

/* See policy_plan.h. */
QuotaPlan *
policy_bind(const QuotaPlan *plan, const QuotaCall *call, MemoryContext context)
{
	Size		size = offsetof(QuotaPlan, terms) + plan->nterms * sizeof(QuotaTerm);
	QuotaPlan  *bound = MemoryContextAlloc(context, size +
										   plan->nnamed * QUOTA_LABEL_LEN);
	char	   *label = (char *) bound + size;

	memcpy(bound, plan, size);
	for (int i = 0; i < bound->nterms; i++)
	{
		QuotaTerm  *t = &bound->terms[i];

		if (!t->named)
			continue;
		policy_identify(t, call, bound->extension, t->slot == bound->database_slot
				 ? NULL : bound->provider, label);
		t->bucket = QUOTA_NO_INDEX;
		label += QUOTA_LABEL_LEN;
	}
	return bound;
}
