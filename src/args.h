/*
 * args.h
 *		Reading arguments of SQL functions.
 */
#ifndef QUOTA_ARGS_H
#define QUOTA_ARGS_H

#include "policy.h"

#include "fmgr.h"

/* C string of a text argument, NULL for NULL unless required (then 22004). */
extern char *quota_arg_text(FunctionCallInfo fcinfo, int i, const char *name,
							bool required);
/* The same for what is kept as a name: at most QUOTA_NAME_LEN - 1 bytes (22023). */
extern char *quota_arg_name(FunctionCallInfo fcinfo, int i, const char *name,
							bool required);
/* Name of a provider; throws 22004, and what follows. */
extern char *quota_arg_provider(FunctionCallInfo fcinfo, int i);
/* 22023 for a name that is too long, 42704 for one that has no row. */
extern void quota_check_provider(const char *provider, const char *argument);
/* NULL is 22004, out of range 22023 */
extern int32 quota_arg_int32(FunctionCallInfo fcinfo, int i, const char *name,
							 int32 min, int32 max);
extern int64 quota_arg_int64(FunctionCallInfo fcinfo, int i, const char *name,
							 int64 min, int64 max);
extern bool quota_arg_bool(FunctionCallInfo fcinfo, int i, const char *name);
/* NULL for NULL */
extern QuotaUnits *quota_arg_units(FunctionCallInfo fcinfo, int i);
/* nanoseconds of an interval without months; > 0, at most a year (22023) */
extern int64 quota_arg_interval(FunctionCallInfo fcinfo, int i,
								const char *name);

/* What a provider answered: NULL = -1. */
extern int	quota_arg_status(FunctionCallInfo fcinfo, int i);
/* How long it took, in microseconds: NULL = -1; out of range 22023. */
extern int64 quota_arg_latency(FunctionCallInfo fcinfo, int i);

/* An array argument, flattened. */
typedef struct QuotaArray
{
	int			n;
	Datum	   *values;
	bool	   *nulls;
} QuotaArray;

/*
 * Elements of this type (int4, int8, text or jsonb).  NULL, and NULL in it, is
 * 22004; optional: NULL is an array of no elements, and elements may be null.
 */
extern QuotaArray quota_arg_array(FunctionCallInfo fcinfo, int i,
								  const char *name, Oid type, bool optional);

#endif							/* QUOTA_ARGS_H */
