/*
 * policy_load.h
 *		What the configuration tables say, as the backend keeps it: the rules
 *		(all tables that concern everybody) and single tenants.
 */
#ifndef QUOTA_POLICY_LOAD_H
#define QUOTA_POLICY_LOAD_H

#include "policy.h"

#include "calendar_zone.h"
#include "feedback.h"
#include "nodes/pg_list.h"
#include "utils/hsearch.h"
#include "utils/numeric.h"

typedef struct PolicyLimit
{
	const char *provider;		/* NULL = across providers */
	const char *account;		/* across those of this one; NULL = all */
	const char *name;
	const char *endpoint;		/* pattern, NULL = all */
	int			per;			/* ConfigPer bits */
	const char *unit;
	QuotaKind	kind;
	Numeric		amount;			/* NULL = no limit */
	int64		period_ns;		/* of a rate */
	TimestampTz anchor_us;		/* fixed_window */
	CalendarRow calendar;		/* allowance */
	int64		burst;			/* -1 = not given */
	bool		per_seat;
	bool		external;
	Numeric		safety;			/* external; NULL = no provider is there */
	int64		safety_changed_ns;
	QuotaEnforcement enforcement;
	SettleOver	settle_over;
	bool		late_charges;	/* settle_late: calls that come late are charged */
	int			nwarnings;		/* warn_at: so many, of 1000 */
	int32		warn_milli[QUOTA_MAX_WARNINGS];
	bool		has_exempt;		/* some tenant or tier is exempt */
	int64		lifetime_ns;
	bool		adaptive;
	int32		adaptive_floor_milli;
	int32		adaptive_step_milli;
	bool		young;			/* than the last crash */
	int64		changed_ns;
	int64		remade_ns;		/* but for its making, PG_INT64_MIN = not */
} PolicyLimit;

typedef struct PolicyCost
{
	const char *endpoint;		/* NULL = all */
	const char *unit;
	int64		cost;
} PolicyCost;

/* A row of quota.answers. */
typedef struct PolicyAnswer
{
	const char *provider;		/* NULL = all */
	FeedbackRule rule;
} PolicyAnswer;

/* A row of quota.breakers. */
typedef struct PolicyBreaker
{
	const char *name;			/* that decisions tell */
	const char *endpoint;		/* pattern, NULL = all */
	BreakerRules rules;
} PolicyBreaker;

/* An override of one limit, of a tier or a tenant. */
typedef struct PolicyOverride
{
	const char *provider;		/* NULL = across providers */
	const char *name;
	Numeric		amount;			/* NULL = inherited */
	Numeric		multiplier;		/* NULL = 1 */
	int64		burst;			/* -1 = inherited */
	bool		exempt;			/* all three are NULL */
	int64		changed_ns;
} PolicyOverride;

typedef struct PolicyProvider
{
	char		name[QUOTA_NAME_LEN];	/* hash key */
	const char *account;		/* never NULL */
	Numeric		safety;
	const char *share_unit;
	int64		retry_base_ns;
	int64		retry_max_ns;
	int64		lease_ns;
	int32		max_queued;		/* -1 = none */
	int32		max_attempts;
	const char *notify_channel; /* NULL = none */
	int32		burst_milli;	/* burst_multiplier times 1000 */
	int32		share_reserve_milli;
	int64		active_window_ns;	/* 0 = by the period */
	int32		retry_share_milli;	/* retry_share times 1000, -1 = no budget */
	int32		retry_floor;
	int64		cooldown_ns;
	bool		lost_refunds;
	bool		young;
	int64		changed_ns;
	int64		remade_ns;
	List	   *limits;			/* of PolicyLimit */
	List	   *costs;			/* of PolicyCost */
	List	   *breakers;		/* of PolicyBreaker */
	bool		learns;			/* there is one, or an adaptive limit */
} PolicyProvider;

typedef struct PolicyTier
{
	char		name[QUOTA_NAME_LEN];	/* hash key */
	int64		weight_milli;
	int32		max_in_flight;	/* -1 = none */
	int32		max_queued;		/* -1 = none */
	List	   *overrides;		/* of PolicyOverride */
} PolicyTier;

typedef struct PolicyClass
{
	char		name[QUOTA_NAME_LEN];	/* hash key */
	int			rank;
	int32		reserve_milli;	/* reserve times 1000 */
	int32		max_fill_milli;
	int32		headroom_milli;
	bool		fails_exhausted;	/* on_exhausted */
	int64		max_wait_ns;	/* 0 = none, as for the next */
	int64		start_within_ns;
	int64		retry_base_ns;	/* 0 = the provider's, as for the next two */
	int64		retry_max_ns;
	int32		max_attempts;
} PolicyClass;

typedef struct PolicyRules
{
	Oid			extension;
	uint64		number;			/* global change counter */
	uint64		serial;			/* change_load_serial() */
	MemoryContext context;		/* all of it */
	HTAB	   *providers;
	HTAB	   *tiers;
	HTAB	   *classes;
	bool		notifies;		/* some provider has a notify_channel */
	bool		adaptive_across;	/* some limit of across is adaptive */
	List	   *across;			/* of PolicyLimit */
	List	   *answers;		/* of PolicyAnswer */
} PolicyRules;

/*
 * The content of a tenant; what identifies a cached one is in policy_cache.h.
 */
typedef struct PolicyTenant
{
	bool		exists;
	bool		suspended;
	bool		young;
	char		tier[QUOTA_NAME_LEN];
	int32		seats;
	int64		weight_milli;	/* -1 = the tier's */
	int32		max_in_flight;	/* -1 = the tier's */
	int32		max_queued;		/* -1 = the tier's */
	int64		changed_ns;
	int64		remade_ns;
	List	   *overrides;		/* of PolicyOverride */
	MemoryContext context;		/* of overrides; NULL when there are none */
} PolicyTenant;

/* See quota_policy_committed(). */
extern bool policy_committed_only;

/* Both read under a latest snapshot taken now; throw only when out of luck. */
extern PolicyRules *policy_load_rules(MemoryContext parent);
extern void policy_load_tenant(MemoryContext parent, const char *name,
							   PolicyTenant *tenant);

/* Gives every tenant, with its tier and its own weight (-1 = the tier's). */
typedef void (*PolicyTenantReader) (const char *tenant, const char *tier,
									int64 weight_milli, void *arg);
extern void policy_read_tenants(PolicyTenantReader reader, void *arg);

extern const PolicyOverride *policy_find_override(const List *overrides,
												  const PolicyLimit *limit);

#endif							/* QUOTA_POLICY_LOAD_H */
