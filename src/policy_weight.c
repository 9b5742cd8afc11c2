/*
 * policy_weight.c
 *		The weights of many tenants at once.
 *
 * A new weight of a tier concerns whoever has that tier, so the weights of all
 * tenants of a queue are read again.  To look up ten thousand tenants one by one
 * takes as long as some thousand claims; one pass over the table is much quicker,
 * unless it is far greater than what is asked for.
 */
#include "policy_cache.h"

#include "access/table.h"
#include "catalog.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

/* Where in the caller's array a tenant is. */
typedef struct Wanted
{
	char		name[QUOTA_NAME_LEN];	/* hash key */
	QuotaTenantWeight *weight;
} Wanted;

/* What the pass knows. */
typedef struct Pass
{
	const PolicyRules *rules;
	HTAB	   *wanted;
} Pass;

/* The weight that applies. */
static int64
effective(const PolicyRules *rules, const char *tier, int64 own)
{
	const PolicyTier *t;

	if (own > 0)
		return own;
	t = policy_find(rules->tiers, tier);
	return t ? t->weight_milli : 1000;
}

/* PolicyTenantReader */
static void
see_tenant(const char *tenant, const char *tier, int64 own, void *arg)
{
	Pass	   *pass = arg;
	Wanted	   *w = hash_search(pass->wanted, tenant, HASH_FIND, NULL);

	CHECK_FOR_INTERRUPTS();
	if (w)
		w->weight->weight_milli = effective(pass->rules, tier, own);
}

/* To look one tenant up takes about as long as to read a block. */
static bool
pass_is_quicker(int n)
{
	Relation	tenants = table_open(quota_relation(QUOTA_REL_TENANTS),
									 AccessShareLock);
	BlockNumber blocks = RelationGetNumberOfBlocks(tenants);

	table_close(tenants, AccessShareLock);
	return blocks < (BlockNumber) n;
}

/* Fills in all weights by one pass. */
static void
read_by_pass(QuotaTenantWeight *weights, int n)
{
	HASHCTL		ctl;
	Pass		pass;

	ctl.keysize = QUOTA_NAME_LEN;
	ctl.entrysize = sizeof(Wanted);
	ctl.hcxt = CurrentMemoryContext;
	pass.wanted = hash_create("quota weights", n, &ctl,
							  HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
	for (int i = 0; i < n; i++)
	{
		Wanted	   *w = hash_search(pass.wanted, weights[i].tenant, HASH_ENTER,
									NULL);

		w->weight = &weights[i];
		weights[i].weight_milli = 0;
	}
	pass.rules = policy_rules();
	policy_read_tenants(see_tenant, &pass);
	hash_destroy(pass.wanted);
}

/* See policy.h. */
void
quota_tenant_weights(QuotaTenantWeight *weights, int n)
{
	if (pass_is_quicker(n))
		read_by_pass(weights, n);
	else
		for (int i = 0; i < n; i++)
			weights[i].weight_milli = quota_tenant_weight(weights[i].tenant);
}
