/*
 * policy_plan.h
 *		Compiling a plan out of loaded rows.
 */
#ifndef QUOTA_POLICY_PLAN_H
#define QUOTA_POLICY_PLAN_H

#include "policy_load.h"

/* What a plan is made of. */
typedef struct PolicySource
{
	const QuotaCall *call;		/* class_name is not NULL */
	Oid			extension;
	const PolicyRules *rules;
	const PolicyProvider *provider;
	const PolicyTenant *tenant;
	const PolicyTier *tier;		/* NULL if it has no row */
	int			rank;
	int			headroom_milli;
	bool		fails_exhausted;
	uint32		slot;			/* of the provider */
	uint32		database_slot;
	int64		global_deleted_ns;	/* last deletions that may have changed a */
	int64		tenant_deleted_ns;	/* rate, by the two change counters */
} PolicySource;

/*
 * One chunk of memory in "context".  What says how current it is (numbers,
 * generations, provisional) is left to the caller.  Throws 54000.
 */
extern QuotaPlan *policy_compile(const PolicySource *source,
								 MemoryContext context);

/* ---- policy_term.c ---- */

/* All zero. */
extern void policy_init_term(QuotaTerm *term);

/*
 * A term with what it allows by the limit, and since when; nothing of what depends on
 * the call but for its tenant.  False: no limit.
 */
extern bool policy_fill_rules(QuotaTerm *term, const PolicySource *source,
							  const PolicyLimit *limit);

/*
 * Everything of a term but cost, capacity and rate.  Its label is palloc'd.  Throws
 * when out of memory.
 */
extern void policy_fill_term(QuotaTerm *term, const PolicySource *source,
							 const PolicyLimit *limit);

/* How tenants share it, where they do; the rest of the term is filled in. */
extern void policy_fill_portions(QuotaTerm *term, const PolicySource *source,
								 const PolicyLimit *limit);

/* ---- policy_identity.c ---- */

/*
 * Puts the keys of the term's bucket and ledger account, and its label, for which
 * there are QUOTA_LABEL_LEN bytes; provider NULL = its limit has none.  Throws when
 * out of memory.
 */
extern void policy_identify(QuotaTerm *term, const QuotaCall *call, Oid extension,
							const char *provider, char *label);
/*
 * The id of the account of an allowance kept by tenant, or, NULL, by nothing; provider
 * NULL = the limit has none.
 */
extern void policy_account(const char *provider, const char *limit_name,
						   const char *tenant, uint8 *id);

/* What a call names beside what its plan is kept by: ConfigPer bits. */
#define POLICY_NAMED (PER_USER | PER_CONNECTION | PER_RESOURCE)

/*
 * The plan for a call that differs from the one it was made or bound for in the names
 * of its user, connection and resource, all of which are given or not as there.  One
 * chunk, whose strings are the plan's.
 */
extern QuotaPlan *policy_bind(const QuotaPlan *plan, const QuotaCall *call,
							  MemoryContext context);

#endif							/* QUOTA_POLICY_PLAN_H */
