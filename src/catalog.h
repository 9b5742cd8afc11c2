/*
 * catalog.h
 *		Where our own objects are: OIDs of the extension, its owner, tables and
 *		indexes of schema "quota", looked up once per backend and forgotten on
 *		any relcache invalidation of one of them (DROP and CREATE EXTENSION).
 */
#ifndef QUOTA_CATALOG_H
#define QUOTA_CATALOG_H

#include "quota.h"

typedef enum QuotaRelation
{
	QUOTA_REL_TIERS,
	QUOTA_REL_TENANTS,
	QUOTA_REL_TENANTS_PKEY,		/* (tenant) */
	QUOTA_REL_PROVIDERS,
	QUOTA_REL_CLASSES,
	QUOTA_REL_LIMITS,
	QUOTA_REL_TIER_LIMITS,
	QUOTA_REL_TENANT_LIMITS,
	QUOTA_REL_TENANT_LIMITS_KEY,	/* (tenant, provider, name) */
	QUOTA_REL_TENANT_LIMITS_EXEMPT, /* (name, provider) where exempt */
	QUOTA_REL_TIERS_PKEY,		/* (tier) */
	QUOTA_REL_COSTS,
	QUOTA_REL_ANSWERS,
	QUOTA_REL_KEYS,
	QUOTA_REL_KEYS_PKEY,	/* (tenant, provider, key) */
	QUOTA_REL_KEYS_CREATED, /* (created_at) */
	QUOTA_REL_BREAKERS,
	QUOTA_REL_JOBS,
	QUOTA_REL_JOBS_PKEY,		/* (id) */
	QUOTA_REL_JOBS_FLOW,		/* (flow, id) */
	QUOTA_REL_JOBS_DEADLINE,	/* (start_before, id) where that is given */
	QUOTA_REL_LEASES,
	QUOTA_REL_LEASES_PKEY,		/* (job_id) */
	QUOTA_REL_LEASES_DUE,		/* (flow, ready_at, job_id) */
	QUOTA_REL_LEASES_CANCEL,	/* (ready_at, job_id) where cancel_requested */
	QUOTA_REL_DEDUPE,
	QUOTA_REL_DEDUPE_PKEY,		/* (provider, dedupe_key) */
	QUOTA_REL_LEDGER,
	QUOTA_REL_LEDGER_ACCOUNT,	/* (account, charged_at) INCLUDE (amount) */
	QUOTA_REL_LEDGER_PKEY,		/* (id) */
	QUOTA_REL_LEDGER_PERMIT,	/* (permit) */
	QUOTA_REL_LEDGER_ORDER,		/* (account, xid) */
	QUOTA_REL_LEDGER_EXPIRING,	/* (account, charged_at) where it expires */
	QUOTA_REL_ACCOUNTS,
	QUOTA_REL_ACCOUNTS_PKEY,	/* (account) */
	QUOTA_REL_EXPIRED,
	QUOTA_REL_EXPIRED_PKEY,		/* (entry) */
	QUOTA_REL_FOLDED,			/* a sequence */
	QUOTA_REL_FOLDS,
	QUOTA_REL_FOLDS_PKEY,		/* (account, upto) */
	QUOTA_REL_PERIODS,
	QUOTA_REL_PERIODS_PKEY,		/* (account, period_start) */
	QUOTA_REL_HOLDS,
	QUOTA_REL_HOLDS_PKEY,		/* (permit) */
	QUOTA_REL_HOLDS_REFUND,		/* (expires_at) where refund */
	QUOTA_REL_EVENTS,
	QUOTA_REL_EVENTS_PKEY,		/* (id) */
	QUOTA_REL_FEEDBACK,
	QUOTA_REL_FEEDBACK_PKEY,	/* (id) */
	QUOTA_REL_MARKS,
	QUOTA_REL_PAUSES,
	QUOTA_REL_PAUSES_PKEY,		/* (id) */
	QUOTA_N_RELATIONS
} QuotaRelation;

#define QUOTA_N_IDLE_TRIGGERS 4

typedef struct QuotaCatalog
{
	Oid			extension;
	Oid			owner;			/* of the extension; our rows are read as
								 * this role */
	Oid			relations[QUOTA_N_RELATIONS];
	/* trigger functions that look at what others write, and let pass what we write */
	Oid			idle_triggers[QUOTA_N_IDLE_TRIGGERS];
} QuotaCatalog;

/* Throws 55000 when the extension does not exist in this database. */
extern const QuotaCatalog *quota_catalog(void);
/* ... and when it has no such relation. */
extern Oid	quota_relation(QuotaRelation rel);

/* Called once per backend; registers the relcache callback. */
extern void quota_catalog_init(void);

/* Moves with every invalidation of one of our relations in this backend. */
extern uint64 quota_catalog_age(void);

/*
 * Which extension is there now, InvalidOid = none: a look of its own, that also
 * sees a DROP whose callbacks are still running.  Leaves no snapshot.
 */
extern Oid	quota_catalog_look(void);

/*
 * Read as the extension's owner, so that callers need no rights on our tables
 * and row security of theirs does not apply; an abort restores by itself.  Never
 * around a write, which runs triggers of users; rows.h needs no rights anyway.
 */
typedef struct QuotaOwner
{
	Oid			user;
	int			context;
} QuotaOwner;
extern QuotaOwner quota_become_owner(void);
extern void quota_become_caller(QuotaOwner saved);

#endif							/* QUOTA_CATALOG_H */
