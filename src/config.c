/*
 * config.c
 *		Reading rows of the configuration tables directly, under a snapshot of
 *		the reader's choice: neither rights and row security of the caller, nor
 *		the planner, nor the search path, nor SPI have a part in it.
 *
 * In a SERIALIZABLE transaction these reads take predicate locks as any other: a
 * scan that takes none sees no single point in time, and could miss a limit that
 * is just being changed.  The table locks end with the scan.
 */
#include "config.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_type.h"
#include "mark.h"
#include "shmem.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

/* See config.h.  Throws when the extension is not there. */
void
config_scan_begin(ConfigScan *scan, QuotaRelation rel, QuotaRelation index,
				  const char *key, Snapshot snapshot)
{
	bool		indexed = index != QUOTA_N_RELATIONS;
	ScanKeyData scan_key;
	int			natts;

	scan->rel = table_open(quota_relation(rel), AccessShareLock);
	scan->tuple = NULL;
	natts = RelationGetNumberOfAttributes(scan->rel);
	scan->values = palloc(natts * sizeof(Datum));
	scan->nulls = palloc(natts * sizeof(bool));
	if (key)
		ScanKeyEntryInitialize(&scan_key, 0, 1, BTEqualStrategyNumber,
							   InvalidOid,
							   TupleDescAttr(RelationGetDescr(scan->rel), 0)->attcollation,
							   F_TEXTEQ, CStringGetTextDatum(key));
	scan->scan = systable_beginscan(scan->rel,
									indexed ? quota_relation(index) : InvalidOid,
									indexed, snapshot, key ? 1 : 0, &scan_key);
}

/* Moves to the next row.  False at the end. */
bool
config_scan_next(ConfigScan *scan)
{
	scan->tuple = systable_getnext(scan->scan);
	if (scan->tuple == NULL)
		return false;
	heap_deform_tuple(scan->tuple, RelationGetDescr(scan->rel), scan->values,
					  scan->nulls);
	return true;
}

/* Closes what config_scan_begin() opened. */
void
config_scan_end(ConfigScan *scan)
{
	systable_endscan(scan->scan);
	table_close(scan->rel, AccessShareLock);
	pfree(scan->values);
	pfree(scan->nulls);
}

/* See config.h. */
void
config_decode(ConfigScan *scan, TupleDesc desc, HeapTuple row)
{
	scan->values = palloc(desc->natts * sizeof(Datum));
	scan->nulls = palloc(desc->natts * sizeof(bool));
	heap_deform_tuple(row, desc, scan->values, scan->nulls);
}

/* See config.h. */
char *
config_text(const ConfigScan *scan, int column)
{
	if (scan->nulls[column - 1])
		return NULL;
	return TextDatumGetCString(scan->values[column - 1]);
}

/* See config.h. */
Numeric
config_numeric(const ConfigScan *scan, int column)
{
	if (scan->nulls[column - 1])
		return NULL;
	return DatumGetNumericCopy(scan->values[column - 1]);
}

/* See config.h. */
int32
config_int32(const ConfigScan *scan, int column, int32 otherwise)
{
	return scan->nulls[column - 1] ? otherwise
		: DatumGetInt32(scan->values[column - 1]);
}

/* See config.h. */
int64
config_int64(const ConfigScan *scan, int column, int64 otherwise)
{
	return scan->nulls[column - 1] ? otherwise
		: DatumGetInt64(scan->values[column - 1]);
}

/* See config.h. */
bool
config_bool(const ConfigScan *scan, int column, bool otherwise)
{
	return scan->nulls[column - 1] ? otherwise
		: DatumGetBool(scan->values[column - 1]);
}

/*
 * A duration; a month counts 30 days.  The tables' constraints keep it between
 * 0 and 100 years, which fit.  0 for a null.
 */
int64
config_interval_ns(const ConfigScan *scan, int column)
{
	Interval   *span;
	int64		days;

	if (scan->nulls[column - 1])
		return 0;
	span = DatumGetIntervalP(scan->values[column - 1]);
	days = (int64) span->month * DAYS_PER_MONTH + span->day;
	return (days * USECS_PER_DAY + span->time) * QUOTA_NS_PER_US;
}

/* The bits of an array of words such as '{tenant,endpoint}'. */
static int
per_mask(Datum array)
{
	static const char *const words[N_PER] = {
		"tenant", "user", "connection", "resource", "endpoint", "class"
	};
	Datum	   *elements;
	bool	   *nulls;
	int			n;
	int			mask = 0;

	deconstruct_array(DatumGetArrayTypeP(array), TEXTOID, -1, false,
					  TYPALIGN_INT, &elements, &nulls, &n);
	for (int i = 0; i < n; i++)
	{
		char	   *word = nulls[i] ? NULL : TextDatumGetCString(elements[i]);

		for (int j = 0; word && j < N_PER; j++)
		{
			if (strcmp(word, words[j]) == 0)
				mask |= 1 << j;
		}
	}
	return mask;
}

/* See config.h. */
int
config_per(const ConfigScan *scan, int column)
{
	return scan->nulls[column - 1] ? 0
		: per_mask(scan->values[column - 1]);
}

/* See config.h. */
bool
config_is_young(const ConfigScan *scan, int epoch_column)
{
	return config_int64(scan, epoch_column, 0) == quota_shared->crash_epoch;
}

/* See config.h: the column after epoch_column, of that epoch. */
int64
config_changed_ns(const ConfigScan *scan, int epoch_column)
{
	int64		ns = config_int64(scan, epoch_column + 1, 0);

	return mark_instant(config_int64(scan, epoch_column, 0), ns < 0 ? -ns : ns);
}

/* See config.h. */
int64
config_remade_ns(const ConfigScan *scan, int epoch_column)
{
	return config_int64(scan, epoch_column + 1, 0) < 0 ? PG_INT64_MIN
		: config_changed_ns(scan, epoch_column);
}

/* Does the table have any row now? */
bool
config_any_row(QuotaRelation rel)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	ConfigScan	scan;
	bool		found;

	config_scan_begin(&scan, rel, QUOTA_N_RELATIONS, NULL, snapshot);
	found = config_scan_next(&scan);
	config_scan_end(&scan);
	UnregisterSnapshot(snapshot);
	return found;
}

/* See config.h. */
bool
config_same_name(const char *a, const char *b)
{
	if (a == NULL || b == NULL)
		return a == b;
	return strcmp(a, b) == 0;
}

/* See config.h. */
bool
config_exempts(HeapTuple row, TupleDesc desc)
{
	return heap_attisnull(row, OVERRIDES_AMOUNT, desc) &&
		heap_attisnull(row, OVERRIDES_BURST, desc) &&
		heap_attisnull(row, OVERRIDES_MULTIPLIER, desc);
}
