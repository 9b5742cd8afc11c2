/*
 * config_warn.c
 *		Fractions of an allowance at which it warns: quota.limits.warn_at.
 */
#include "config_warn.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"

/* See config_warn.h. */
int
config_warn_at(const ConfigScan *scan, int column, int32 *milli)
{
	Datum	   *elements;
	bool	   *nulls;
	int			n;

	if (scan->nulls[column - 1])
		return 0;
	deconstruct_array(DatumGetArrayTypeP(scan->values[column - 1]), NUMERICOID, -1,
					  false, TYPALIGN_INT, &elements, &nulls, &n);
	n = Min(n, QUOTA_MAX_WARNINGS);
	for (int i = 0; i < n; i++)
	{
		Datum		times = DirectFunctionCall2(numeric_mul, elements[i],
												DirectFunctionCall1(int4_numeric,
																	Int32GetDatum(1000)));

		milli[i] = DatumGetInt32(DirectFunctionCall1(numeric_int4, times));
	}
	return n;
}
