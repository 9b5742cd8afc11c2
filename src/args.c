/*
 * args.c
 *		Reading arguments of SQL functions, with the errors of error.h.
 */
#include "args.h"

#include "common/int.h"
#include "error.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#define MAX_INTERVAL_US (366 * USECS_PER_DAY)

/* See args.h. */
char *
quota_arg_text(FunctionCallInfo fcinfo, int i, const char *name, bool required)
{
	if (!PG_ARGISNULL(i))
		return text_to_cstring(PG_GETARG_TEXT_PP(i));
	if (required)
		quota_error_null(name);
	return NULL;
}

/* See args.h. */
char *
quota_arg_name(FunctionCallInfo fcinfo, int i, const char *name, bool required)
{
	text	   *value;
	char	   *copy;
	int			len;

	if (PG_ARGISNULL(i))
	{
		if (required)
			quota_error_null(name);
		return NULL;
	}
	value = PG_GETARG_TEXT_PP(i);
	len = (int) VARSIZE_ANY_EXHDR(value);
	if (len >= QUOTA_NAME_LEN)
		quota_error_too_long(name, len);
	copy = palloc(len + 1);
	memcpy(copy, VARDATA_ANY(value), len);
	copy[len] = '\0';
	return copy;
}

/* See args.h. */
void
quota_check_provider(const char *provider, const char *argument)
{
	if (strlen(provider) >= QUOTA_NAME_LEN)
		quota_error_too_long(argument, (int) strlen(provider));
	if (!quota_provider_exists(provider))
		quota_error_no_such("provider", provider);
}

/* See args.h. */
char *
quota_arg_provider(FunctionCallInfo fcinfo, int i)
{
	char	   *provider = quota_arg_text(fcinfo, i, "provider", true);

	quota_check_provider(provider, "provider");
	return provider;
}

/* See args.h. */
int32
quota_arg_int32(FunctionCallInfo fcinfo, int i, const char *name,
				int32 min, int32 max)
{
	int32		value;

	if (PG_ARGISNULL(i))
		quota_error_null(name);
	value = PG_GETARG_INT32(i);
	if (value < min || value > max)
		quota_error_range(name, value, min, max);
	return value;
}

/* See args.h. */
int64
quota_arg_int64(FunctionCallInfo fcinfo, int i, const char *name,
				int64 min, int64 max)
{
	int64		value;

	if (PG_ARGISNULL(i))
		quota_error_null(name);
	value = PG_GETARG_INT64(i);
	if (value < min || value > max)
		quota_error_range(name, value, min, max);
	return value;
}

/* See args.h. */
bool
quota_arg_bool(FunctionCallInfo fcinfo, int i, const char *name)
{
	if (PG_ARGISNULL(i))
		quota_error_null(name);
	return PG_GETARG_BOOL(i);
}

/* See args.h. */
QuotaUnits *
quota_arg_units(FunctionCallInfo fcinfo, int i)
{
	return PG_ARGISNULL(i) ? NULL : quota_units_parse(PG_GETARG_JSONB_P(i));
}

/* See args.h. */
int64
quota_arg_interval(FunctionCallInfo fcinfo, int i, const char *name)
{
	Interval   *value;
	int64		us;

	if (PG_ARGISNULL(i))
		quota_error_null(name);
	value = PG_GETARG_INTERVAL_P(i);
	if (value->month != 0 || pg_mul_s64_overflow(value->day, USECS_PER_DAY, &us) ||
		pg_add_s64_overflow(us, value->time, &us) ||
		us <= 0 || us > MAX_INTERVAL_US)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" is out of range", name),
				 errdetail("Allowed are positive intervals of at most 366 days, without months."),
				 errhint("Pass an interval such as '30 seconds'.")));
	return us * QUOTA_NS_PER_US;
}

/* See args.h. */
int
quota_arg_status(FunctionCallInfo fcinfo, int i)
{
	/* it comes from outside: any number will do */
	return PG_ARGISNULL(i) ? -1 : PG_GETARG_INT32(i);
}

/* See args.h. */
int64
quota_arg_latency(FunctionCallInfo fcinfo, int i)
{
	Interval   *value;

	if (PG_ARGISNULL(i))
		return -1;
	value = PG_GETARG_INTERVAL_P(i);
	/* no time at all is all right, too */
	if (value->month == 0 && value->day == 0 && value->time == 0)
		return 0;
	return quota_arg_interval(fcinfo, i, "latency") / QUOTA_NS_PER_US;
}

/* See args.h. */
QuotaArray
quota_arg_array(FunctionCallInfo fcinfo, int i, const char *name, Oid type,
				bool optional)
{
	QuotaArray	array = {0};
	int16		size;
	bool		by_value;
	char		align;

	if (PG_ARGISNULL(i))
	{
		if (!optional)
			quota_error_null(name);
		return array;
	}
	get_typlenbyvalalign(type, &size, &by_value, &align);
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(i), type, size, by_value, align,
					  &array.values, &array.nulls, &array.n);
	for (int k = 0; k < array.n && !optional; k++)
		if (array.nulls[k])
			quota_error_null(name);
	return array;
}
