/*
 * config.h
 *		Reading rows of the configuration tables.  The column numbers must agree
 *		with sql/install/10_config.sql; later versions add columns at the end.
 */
#ifndef QUOTA_CONFIG_H
#define QUOTA_CONFIG_H

#include "catalog.h"

#include "access/genam.h"
#include "utils/numeric.h"
#include "utils/relcache.h"
#include "utils/snapshot.h"

enum
{
	TIERS_TIER = 1,
	TIERS_WEIGHT,
	TIERS_MAX_IN_FLIGHT,
	TIERS_MAX_QUEUED
};

enum
{
	TENANTS_TENANT = 1,
	TENANTS_TIER,
	TENANTS_SEATS,
	TENANTS_WEIGHT,
	TENANTS_MAX_IN_FLIGHT,
	TENANTS_MAX_QUEUED,
	TENANTS_SUSPENDED,
	TENANTS_CREATED_EPOCH,
	TENANTS_CHANGED_EPOCH,
	TENANTS_CHANGED_NS
};

enum
{
	PROVIDERS_PROVIDER = 1,
	PROVIDERS_ACCOUNT,
	PROVIDERS_SAFETY,
	PROVIDERS_SHARE_UNIT,
	PROVIDERS_MAX_QUEUED,
	PROVIDERS_MAX_ATTEMPTS,
	PROVIDERS_RETRY_BASE,
	PROVIDERS_RETRY_MAX,
	PROVIDERS_LOST_PERMIT,
	PROVIDERS_LEASE,
	PROVIDERS_NOTIFY_CHANNEL,
	PROVIDERS_BURST_MULTIPLIER,
	PROVIDERS_SHARE_RESERVE,
	PROVIDERS_ACTIVE_WINDOW,
	PROVIDERS_RETRY_SHARE,
	PROVIDERS_RETRY_FLOOR,
	PROVIDERS_COOLDOWN,
	PROVIDERS_CREATED_EPOCH,
	PROVIDERS_CHANGED_EPOCH,
	PROVIDERS_CHANGED_NS
};

enum
{
	CLASSES_CLASS = 1,
	CLASSES_RANK,
	CLASSES_RESERVE,
	CLASSES_MAX_WAIT,
	CLASSES_START_WITHIN,
	CLASSES_MAX_FILL,
	CLASSES_MAX_ATTEMPTS,
	CLASSES_RETRY_BASE,
	CLASSES_RETRY_MAX,
	CLASSES_HEADROOM,
	CLASSES_ON_EXHAUSTED,
	N_CLASSES_COLUMNS = CLASSES_ON_EXHAUSTED
};

enum
{
	LIMITS_PROVIDER = 1,
	LIMITS_NAME,
	LIMITS_ACCOUNT,
	LIMITS_ENDPOINT,
	LIMITS_PER,
	LIMITS_UNIT,
	LIMITS_KIND,
	LIMITS_AMOUNT,
	LIMITS_PERIOD,
	LIMITS_BURST,
	LIMITS_ANCHOR,
	LIMITS_TIME_ZONE,
	LIMITS_PER_SEAT,
	LIMITS_EXTERNAL,
	LIMITS_ENFORCEMENT,
	LIMITS_PERMIT_LIFETIME,
	LIMITS_SETTLE_OVER,
	LIMITS_SETTLE_LATE,
	LIMITS_WARN_AT,
	LIMITS_ADAPTIVE,
	LIMITS_ADAPTIVE_FLOOR,
	LIMITS_ADAPTIVE_STEP,
	LIMITS_CREATED_EPOCH,
	LIMITS_CHANGED_EPOCH,
	LIMITS_CHANGED_NS
};

/* quota.tier_limits and quota.tenant_limits; the first is tier or tenant */
enum
{
	OVERRIDES_OWNER = 1,
	OVERRIDES_PROVIDER,
	OVERRIDES_NAME,
	OVERRIDES_AMOUNT,
	OVERRIDES_BURST,
	OVERRIDES_MULTIPLIER,
	OVERRIDES_CHANGED_EPOCH,
	OVERRIDES_CHANGED_NS
};

enum
{
	COSTS_PROVIDER = 1,
	COSTS_ENDPOINT,
	COSTS_UNIT,
	COSTS_COST
};

enum
{
	BREAKERS_PROVIDER = 1,
	BREAKERS_ENDPOINT,
	BREAKERS_FAILURE_RATIO,
	BREAKERS_MIN_CALLS,
	BREAKERS_WINDOW_TIME,
	BREAKERS_WINDOW_CALLS,
	BREAKERS_OPEN_TIME,
	BREAKERS_PROBES,
	BREAKERS_PROBE_TIMEOUT
};

/* The tables above, as TriggerShape.tables. */
#define CONFIG_TABLES \
	(TRIGGER_TABLE(QUOTA_REL_TIERS) | TRIGGER_TABLE(QUOTA_REL_TENANTS) | \
	 TRIGGER_TABLE(QUOTA_REL_PROVIDERS) | TRIGGER_TABLE(QUOTA_REL_CLASSES) | \
	 TRIGGER_TABLE(QUOTA_REL_LIMITS) | TRIGGER_TABLE(QUOTA_REL_TIER_LIMITS) | \
	 TRIGGER_TABLE(QUOTA_REL_TENANT_LIMITS) | TRIGGER_TABLE(QUOTA_REL_COSTS) | \
	 TRIGGER_TABLE(QUOTA_REL_ANSWERS) | \
	 TRIGGER_TABLE(QUOTA_REL_BREAKERS))

/* Words of quota.limits.per, as bits, in the order of parts of a bucket's key */
typedef enum ConfigPer
{
	PER_TENANT = 1,
	PER_USER = 2,
	PER_CONNECTION = 4,
	PER_RESOURCE = 8,
	PER_ENDPOINT = 16,
	PER_CLASS = 32
} ConfigPer;
#define N_PER 6

/* An open scan and its current row. */
typedef struct ConfigScan
{
	Relation	rel;
	SysScanDesc scan;
	HeapTuple	tuple;
	Datum	   *values;			/* of its columns, whoever added them */
	bool	   *nulls;
} ConfigScan;

/*
 * Rows of a table under a snapshot: all of them (index QUOTA_N_RELATIONS), all
 * in an index (key NULL), or those whose first index column equals key, which
 * must be column 1 of the table.  Takes no right of the caller into account.
 */
extern void config_scan_begin(ConfigScan *scan, QuotaRelation rel,
							  QuotaRelation index, const char *key,
							  Snapshot snapshot);
extern bool config_scan_next(ConfigScan *scan);
extern void config_scan_end(ConfigScan *scan);

/* One row that is at hand, for the functions below: values and nulls alone. */
extern void config_decode(ConfigScan *scan, TupleDesc desc, HeapTuple row);

/*
 * Columns of the current row by number, copied to the current memory context;
 * NULL or what "otherwise" says for a null.
 */
extern char *config_text(const ConfigScan *scan, int column);
extern Numeric config_numeric(const ConfigScan *scan, int column);
extern int32 config_int32(const ConfigScan *scan, int column, int32 otherwise);
extern int64 config_int64(const ConfigScan *scan, int column, int64 otherwise);
extern bool config_bool(const ConfigScan *scan, int column, bool otherwise);
extern int64 config_interval_ns(const ConfigScan *scan, int column);
extern int	config_per(const ConfigScan *scan, int column);

/* The row is younger than the last crash. */
extern bool config_is_young(const ConfigScan *scan, int epoch_column);
/*
 * Quota clock of the last change, or later when it was before the last crash; and of
 * the last one that was not the row's making, PG_INT64_MIN = none.  May throw.
 */
extern int64 config_changed_ns(const ConfigScan *scan, int epoch_column);
extern int64 config_remade_ns(const ConfigScan *scan, int epoch_column);

/* The table has a row, for who starts to look now. */
extern bool config_any_row(QuotaRelation rel);

/* Equal, where NULL equals only NULL? */
extern bool config_same_name(const char *a, const char *b);

/* The row of quota.tier_limits or quota.tenant_limits exempts from the limit. */
extern bool config_exempts(HeapTuple row, TupleDesc desc);

#endif							/* QUOTA_CONFIG_H */
