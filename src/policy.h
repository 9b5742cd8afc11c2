/*
 * policy.h
 *		What the configuration tables say about one call, compiled and cached in
 *		the backend.
 *
 * A plan is valid while the two change counters it was loaded under have not
 * moved: quota_plan_is_current(), two atomic reads, to be asked under the slot's
 * lock right before deciding.  A commit that changes configuration moves the
 * counters in its COMMIT callback, when its rows are visible and before its
 * COMMIT returns, so that a decision that starts later obeys (G9).  The loader
 * reads the counters first and takes a latest snapshot afterwards.
 */
#ifndef QUOTA_POLICY_H
#define QUOTA_POLICY_H

#include "quota.h"

#include "adaptive.h"
#include "breaker.h"
#include "calendar.h"
#include "meter.h"
#include "portion.h"
#include "stamp.h"
#include "utils/jsonb.h"

#define QUOTA_MAX_WARNINGS 8	/* fractions of an allowance that are told */

/* One limit that matches the call. */
typedef struct QuotaTerm
{
	QuotaKey	key;			/* of its bucket */
	uint32		slot;			/* provider's slot, or the database's for a
								 * limit across providers */
	uint32		bucket;			/* where it was last found; verify */
	uint8		kind;			/* QuotaKind */
	uint8		enforcement;	/* QuotaEnforcement */
	uint8		per;			/* ConfigPer bits */
	bool		named;			/* key, label and account go by the call's user,
								 * connection or resource: policy_bind() */
	bool		own;			/* the bucket is this tenant's alone */
	bool		external;		/* the provider's own rule */
	bool		wide;			/* every call to the provider meets it */
	bool		starts_full;	/* limit or tenant is younger than the crash */
	bool		slow;			/* takes long to refill: see mark.c */
	const char *name;
	const char *unit;
	uint64		unit_hash;		/* quota_unit_hash(unit) */
	const char *label;			/* of the bucket, for views */
	const char *pattern;		/* of endpoints; NULL = all, or one limit each */
	const char *of_account;		/* across providers: of this one; NULL = all */
	int64		cost;			/* units one call costs */
	int64		capacity;		/* burst, permits, or amount per period */
	int64		most_debt;		/* units the bucket may owe, of a rate; enforce.h */
	MeterRules	meter;			/* of a rate; with the same capacity */
	/* what headers tell of it: amount per period */
	int64		amount;
	int64		period_ns;		/* 0 = none, or the calendar's */
	/*
	 * The rate applies from here: from the last change of a row that takes part,
	 * or from a later deletion of one that did; when that was is only known for
	 * all limits of many tenants together.
	 */
	int64		changed_ns;
	int64		deleted_ns;		/* >= changed_ns */
	int64		lifetime_ns;	/* of permits */
	BreakerRules breaker;		/* of one */
	/*
	 * Adaptive: capacity, amount, reserve and the meter's rate and capacity are the part
	 * of these that is used, as of the last look at the bucket (learn.c).
	 */
	bool		adaptive;
	AdaptiveRules adaptation;
	int64		whole_capacity;
	int64		whole_amount;
	int64		whole_reserve;
	BucketRate	whole_rate;
	uint8		meant_by;		/* FeedbackScope of answers that mean such a limit */
	/* slow */
	int64		emptied_ns;		/* until then units may have been taken that no mark
								 * knows; PG_INT64_MIN = never */
	uint8		mark_id[16];	/* quota.marks.bucket */
	/* allowance */
	uint8		account[16];	/* quota.ledger.account */
	int			nwarnings;		/* fractions that are told, */
	int32		warn_milli[QUOTA_MAX_WARNINGS]; /* of 1000 */
	Calendar	calendar;
	/* a limit of a rate or concurrency that tenants share, each its portion: */
	bool		is_portioned;
	PortionRules portions;
	uint32		portion;		/* where this tenant's was last found; verify */
} QuotaTerm;

/* The limit has a say in the outcome. */
static inline bool
quota_term_binds(const QuotaTerm *term)
{
	return term->enforcement == QUOTA_HARD;
}

/* It only counts what it would have done. */
static inline bool
quota_term_is_shadow(const QuotaTerm *term)
{
	return term->enforcement == QUOTA_SHADOW;
}

/*
 * What a call is told apart by from others of its backend: hashes of the names it
 * gives, 0 = it does not.
 */
typedef struct QuotaCallNames
{
	uint32		provider;
	uint32		tenant;
	uint32		endpoint;
	uint32		class_name;
	uint32		user;
	uint32		connection;
	uint32		resource;
} QuotaCallNames;

typedef struct QuotaPlan
{
	/* what it was made for; NULL where not given */
	const char *tenant;
	const char *provider;
	const char *endpoint;
	const char *class_name;		/* never NULL */
	const char *account;		/* of the provider */

	QuotaStamp	stamp;			/* of the rows it was made of */
	bool		provisional;	/* may hold uncommitted changes of this very
								 * transaction: not for shared memory */

	Oid			extension;		/* whose slots these are */
	uint32		slot;			/* of the provider */
	uint32		database_slot;
	bool		across;			/* some term is of the database slot */
	bool		gives_permit;	/* some term wants calls to be settled */
	bool		lenient;		/* some term does not bind, or tells of its use */
	bool		budgets_retries;	/* some term is of QUOTA_RETRIES */
	bool		learns;			/* some term from how calls end */
	QuotaKey	tenant_key;		/* QUOTA_SPACE_TENANT */
	uint32		tenant_index;	/* where it was last found; verify */
	QuotaKey	share_key;
	uint32		share_index;	/* where it was last found; verify */
	uint64		shares_seen;	/* slot->shares_made at the last search for it */
	uint32		lead_hint;		/* of journal.c: where this share's record was */
	QuotaKey	flow_key;
	QuotaCallNames names;		/* but those of policy_bind() */
	bool		suspended;
	int64		weight_milli;
	int			rank;			/* of the class, lower first */
	int			headroom_milli; /* of the class, of 1000 */
	bool		fails_exhausted;	/* the class does not wait for another period */
	int64		max_lifetime_ns;	/* longest of any permit of the provider */
	const char *share_unit;		/* of the provider */
	int64		share_cost;		/* of one call in the share unit, >= 1 */
	int64		lease_ns;		/* default lease of a job */
	bool		lost_refunds;	/* a lost permit's credits return (default: no) */
	int			nnamed;			/* terms that are named */
	int			nterms;
	QuotaTerm	terms[FLEXIBLE_ARRAY_MEMBER];
} QuotaPlan;

/* What a caller asks for; strings in the caller's memory, NULL = not given. */
typedef struct QuotaCall
{
	const char *tenant;
	const char *provider;
	const char *endpoint;
	const char *class_name;
	const char *user;
	const char *connection;
	const char *resource;
} QuotaCall;

/*
 * The current plan, from the cache or loaded.  Throws 42704 for a tenant,
 * provider or class that does not exist (unless missing_ok: NULL), 55000
 * ("commit first") when this transaction changed what the plan depends on, and
 * 54000 when more than QUOTA_MAX_TERMS limits match.  Caller holds no lock.
 *
 * The plan stays allocated until the transaction ends, or until this backend
 * has made QUOTA_PLAN_GRACE more plans, whichever is first.
 */
#define QUOTA_PLAN_GRACE	4096
extern QuotaPlan *quota_plan(const QuotaCall *call, bool missing_ok);
extern bool quota_plan_is_current(const QuotaPlan *plan);

/*
 * The rules of one limit's buckets by the current configuration, for a tenant if it
 * is kept per tenant: what of a term the rate goes by, and what that was made of.
 * provider "" = across providers.  False: no such limit of that kind applies; then the
 * stamp alone is filled in.  May throw.
 */
extern bool quota_limit_rules(const char *provider, const char *limit_name,
							  QuotaKind kind, const char *tenant, QuotaTerm *term,
							  QuotaStamp *stamp);

/*
 * For what stays allowed after a change of configuration in the same
 * transaction (enqueue, settle, complete, ...): never says "commit first", but
 * the plan may be provisional.  NULL when the tenant, provider or class does
 * not exist.
 */
extern QuotaPlan *quota_plan_unchecked(const QuotaCall *call);

/*
 * From now on only what is committed counts, not the rows of this transaction;
 * returns what was the case before, to be restored also on error.  For what is
 * loaded for all sessions.
 */
extern bool quota_policy_committed(bool only);

/*
 * Keys of tenant, share and flow, from the plan's extension and names.  Throws
 * when out of memory.
 */
extern void quota_plan_identify(QuotaPlan *plan);
/* The same, from a plan in the cache if there is one of these names. */
extern void quota_plan_identify_known(QuotaPlan *plan);

/* Of a name, for QuotaCallNames; NULL = not given. */
extern uint32 quota_name_hash(const char *name);

/* The tenant's current weight times 1000, 0 when it has no row. */
extern int64 quota_tenant_weight(const char *tenant);

/* A tenant whose weight is asked for; 0 when it has no row. */
typedef struct QuotaTenantWeight
{
	const char *tenant;
	int64		weight_milli;
} QuotaTenantWeight;

/*
 * The current weights of many tenants, each named once, read together: by one pass
 * over the table when that is quicker than to look each of them up.
 */
extern void quota_tenant_weights(QuotaTenantWeight *weights, int n);

/* What the order of jobs goes by of a class's row. */
typedef struct QuotaClassRules
{
	int			rank;
	int			reserve_milli;	/* of 1000 */
	int64		max_wait_ns;	/* 0 = none */
} QuotaClassRules;

/* The current row of a class, false when it has none. */
extern bool quota_class_rules(const char *class_name, QuotaClassRules *rules);

/*
 * Is there such a row, for this transaction, now?  Also true while the whole
 * table is empty: a restore may fill it later.
 */
extern bool quota_tenant_exists(const char *tenant);
extern bool quota_provider_exists(const char *provider);

/* A call settled with more than was held of an allowance: quota.limits.settle_over. */
typedef enum SettleOver
{
	SETTLE_DEBT,
	SETTLE_CAP,
	SETTLE_REFUSE
} SettleOver;

/* What an allowance says of settling. */
typedef struct QuotaSettleRules
{
	SettleOver	over;
	bool		late_charges;
} QuotaSettleRules;

/* The rules of the limit now; of one that is gone the defaults.  provider may be NULL. */
extern QuotaSettleRules quota_settle_rules(const char *provider, const char *limit_name);

/* What the class of a job says, else its provider; policy_job.c. */
typedef struct QuotaJobPolicy
{
	int32		max_attempts;	/* of a job that does not say how many */
	int64		start_within_ns;	/* 0 = whenever */
	int64		retry_base_ns;	/* full jitter: random in (0, base * 2^attempt], */
	int64		retry_max_ns;	/* at most this */
} QuotaJobPolicy;

/*
 * Where NOTIFY tells of a provider's jobs that have finished, NULL = nowhere; good
 * until the configuration is asked again.  And whether any provider has one.
 */
extern const char *quota_notify_channel(const char *provider);
extern bool quota_notifies(void);

/* A breaker or an adaptive limit learns from how calls to the provider end. */
extern bool quota_learns(const char *provider);

/* Neither name need have a row.  May throw when out of memory. */
extern QuotaJobPolicy quota_job_policy(const char *provider,
									   const char *class_name);

/*
 * What the configuration says of a new job of these names, for this transaction.
 * The numbers say under what it was read; all zero = not yet.
 */
typedef struct QuotaJobRules
{
	uint64		serial;			/* 0 = good for this moment only */
	QuotaStamp	stamp;

	const char *missing;		/* "tenant", "provider" or "class" has no row,
								 * while others have; else NULL */
	QuotaJobPolicy policy;
	bool		bounded;		/* any of these is not -1 */
	/* most unfinished jobs; -1 = no limit */
	int32		tenant_most;	/* of the tenant at the provider */
	int32		provider_most;	/* of the provider */
	int32		class_most;		/* the same, when a job of this class comes */
} QuotaJobRules;

/* Each name is shorter than QUOTA_NAME_LEN.  Caller holds no lock. */
extern void quota_job_rules(const char *tenant, const char *provider,
							const char *class_name, QuotaJobRules *rules);
extern bool quota_job_rules_are_current(const QuotaJobRules *rules);

/* ---- units.c ---- */

/* Units a caller names by a jsonb {"unit": n}. */
typedef struct QuotaUnits
{
	int			n;
	struct
	{
		char		unit[QUOTA_NAME_LEN];
		int64		amount;
	}			u[QUOTA_MAX_TERMS];
} QuotaUnits;
extern int64 quota_units_of(const QuotaUnits *units, const char *unit);
extern QuotaUnits *quota_units_parse(Jsonb *json);
extern uint64 quota_unit_hash(const char *unit);

/* Changes of this transaction (change.c). */
extern void quota_change_before_commit(void);	/* may throw */
extern void quota_change_commit(void);	/* COMMIT callback: move counters */
extern void quota_change_abort(void);	/* ABORT callback */
extern void quota_change_subabort(SubTransactionId sub);
extern void quota_change_subcommit(SubTransactionId sub, SubTransactionId parent);
extern bool quota_change_pending(void);
/* 55000 unless it may decide for this tenant; NULL = for any (dequeue) */
extern void quota_change_check_decide(const char *tenant);

#endif							/* QUOTA_POLICY_H */
