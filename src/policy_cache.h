/*
 * policy_cache.h
 *		Between policy.c, which makes plans, and policy_cache.c, which keeps what
 *		they are made of.
 */
#ifndef QUOTA_POLICY_CACHE_H
#define QUOTA_POLICY_CACHE_H

#include "policy_load.h"

/* A tenant, and what it is valid under. */
typedef struct CachedTenant
{
	char		name[QUOTA_NAME_LEN];	/* hash key */
	uint64		global_number;
	uint64		number;
	uint64		serial;			/* 0 = not loaded */
	PolicyTenant tenant;
} CachedTenant;

/* The current rules; valid until the next call. */
extern const PolicyRules *policy_rules(void);
/* The current state of a tenant; valid until the next call. */
extern const CachedTenant *policy_tenant(const PolicyRules *rules,
										 const char *name);
/* Looks a name up in one of the hash tables of the rules; NULL = not there. */
extern const void *policy_find(HTAB *table, const char *name);

/* Serial of this transaction's rows, if they count. */
extern uint64 policy_serial(void);

#endif							/* QUOTA_POLICY_CACHE_H */
