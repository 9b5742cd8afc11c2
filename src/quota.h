/*
 * quota.h
 *		What every file of the extension shares: limits of the code, names of
 *		outcomes, settings, and the first line of every SQL entry point.
 *
 * Times: *_ns is the quota clock (monotonic, nanoseconds, see clock.c), *_us
 * the wall clock (TimestampTz).  Amounts are int64 units.
 */
#ifndef QUOTA_H
#define QUOTA_H

#include "postgres.h"

#include "compat.h"
#include "datatype/timestamp.h"

/* ---- limits of the code, each named in the README ---- */

#define QUOTA_MAX_TERMS		12	/* limits that may match one call */
#define QUOTA_MAX_CLASSES	16	/* rows of quota.classes */
#define QUOTA_NAME_LEN		128 /* bytes of a tenant, endpoint, provider, class
								 * or limit name, terminator included */
#define QUOTA_LABEL_LEN		64	/* what views show of a bucket's key */
#define QUOTA_MAX_AMOUNT	INT64CONST(1000000000000000)	/* 1e15 units */
#define QUOTA_MAX_COST		INT64CONST(1000000000)	/* 1e9 units a call */
#define QUOTA_NS_PER_US		INT64CONST(1000)
#define QUOTA_NS_PER_S		INT64CONST(1000000000)
#define QUOTA_NO_INDEX		UINT32_MAX

/* "not before" and wake-up times that never come by themselves */
#define QUOTA_NEVER			PG_INT64_MAX

typedef enum QuotaReason
{
	QUOTA_OK,
	QUOTA_SOFT_LIMIT,			/* admitted beyond a limit that does not refuse */
	QUOTA_RATE_LIMITED,
	QUOTA_CONCURRENCY_LIMITED,
	QUOTA_QUOTA_EXHAUSTED,
	QUOTA_SUSPENDED,
	QUOTA_EXCEEDS_CAPACITY,
	QUOTA_SHARE_EXCEEDED,		/* others want their share */
	QUOTA_CLASS_RESERVED,		/* what is left is for other classes */
	QUOTA_RETRY_BUDGET,			/* too many calls are retries */
	QUOTA_PAUSED,				/* by hand, or as the provider asked for */
	QUOTA_BREAKER_OPEN,			/* a circuit breaker stops them */
	/* reasons only a flow can have */
	QUOTA_EMPTY,				/* no ready job */
	QUOTA_SCHEDULED,			/* only jobs whose time has not come */
	QUOTA_UNCONFIGURED			/* its tenant or provider has no row */
} QuotaReason;
#define QUOTA_N_REASONS (QUOTA_UNCONFIGURED + 1)

typedef enum QuotaKind
{
	/* of rates, in the order of MeterShape */
	QUOTA_TOKEN_BUCKET,
	QUOTA_LEAKY_BUCKET,
	QUOTA_FIXED_WINDOW,
	QUOTA_SLIDING_WINDOW,
	QUOTA_RETRIES,				/* no row's: what a provider says of retries */
	/* of others */
	QUOTA_CONCURRENCY,
	QUOTA_ALLOWANCE,
	QUOTA_BREAKER				/* a row of quota.breakers */
} QuotaKind;

/* Its buckets are meters (meter.h), of which takes return as tokens do. */
static inline bool
quota_is_rate(uint8 kind)
{
	return kind <= QUOTA_RETRIES;
}

/* What a limit does with a call it has no room for; see enforce.h */
typedef enum QuotaEnforcement
{
	QUOTA_HARD,
	QUOTA_SOFT,
	QUOTA_SHADOW
} QuotaEnforcement;

/* 128 bits of a keyed hash of what identifies a thing; see key.c */
typedef struct QuotaKey
{
	uint64		w[2];
} QuotaKey;

/* Microseconds, rounded up: who asks then does not ask too early. */
static inline int64
quota_us_up(int64 ns)
{
	return (ns + QUOTA_NS_PER_US - 1) / QUOTA_NS_PER_US;
}

/* Seconds, rounded up. */
static inline int64
quota_s_up(int64 ns)
{
	return ns / QUOTA_NS_PER_S + (ns % QUOTA_NS_PER_S > 0);
}

/* The same key. */
static inline bool
quota_key_equal(const QuotaKey *a, const QuotaKey *b)
{
	return a->w[0] == b->w[0] && a->w[1] == b->w[1];
}

/* Makes one key of two, in this order; both are as good as random. */
static inline void
quota_key_mix(QuotaKey *key, const QuotaKey *part)
{
	key->w[0] = (key->w[0] << 7 | key->w[0] >> 57) * UINT64CONST(0x9E3779B97F4A7C15)
		+ part->w[0];
	key->w[1] = (key->w[1] << 7 | key->w[1] >> 57) * UINT64CONST(0xC2B2AE3D27D4EB4F)
		+ part->w[1];
}

/* ---- settings (init.c) ---- */

extern PGDLLIMPORT int quota_max_providers;
extern PGDLLIMPORT int quota_max_tenants;
extern PGDLLIMPORT int quota_max_flows;
extern PGDLLIMPORT int quota_max_buckets;
extern PGDLLIMPORT int quota_max_permits;
extern PGDLLIMPORT int quota_job_retention;	/* seconds */
extern PGDLLIMPORT bool quota_testing;

/*
 * The first line of every SQL entry point: not preloaded -> 55000; absorbs
 * pending invalidations.  quota_enter_primary also refuses a standby (25006) and
 * parallel mode (25000), quota_enter_write a READ ONLY transaction (25006) as
 * well; both name "function".
 */
extern void quota_enter(void);
extern void quota_enter_primary(const char *function);
extern void quota_enter_write(const char *function);

/* ---- clock.c ---- */

/* An instant by all clocks there are, to be told from another one in any epoch. */
typedef struct ClockStamp
{
	char		boot[40];		/* which boot of the machine, "" = not known */
	int64		raw_ns;			/* CLOCK_MONOTONIC, means nothing elsewhere */
	int64		now_ns;			/* quota clock, of its crash epoch */
	TimestampTz real_us;		/* the machine's wall clock */
} ClockStamp;

extern int64 quota_now_ns(void);
extern TimestampTz quota_wall_us(void);
/* Both, in this order. */
extern int64 quota_now(TimestampTz *wall_us);

/*
 * Steady time: what rows store of the quota clock.  A TimestampTz that never
 * steps; a constant away from the quota clock as long as there is no crash.
 */
extern TimestampTz quota_steady_us(void);
extern TimestampTz quota_steady_of(int64 at_ns);
extern int64 quota_ns_of_steady(TimestampTz steady_us);

/* ---- name.c: names of enums, the same in SQL, views and messages ---- */

extern const char *quota_reason_name(QuotaReason reason);
extern const char *quota_kind_name(QuotaKind kind);
extern const char *quota_enforcement_name(QuotaEnforcement enforcement);

#endif							/* QUOTA_H */
