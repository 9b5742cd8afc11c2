/*
 * job_many.c
 *		Calls for many jobs: their arguments, and reading rows in the order of ids.
 */
#include "job_many.h"

#include "catalog/pg_type.h"
#include "job_where.h"
#include "utils/memutils.h"

/* qsort comparator: the order of locking. */
static int
compare_items(const void *a, const void *b)
{
	const ManyItem *x = a;
	const ManyItem *y = b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	if (x->attempt != y->attempt)
		return x->attempt < y->attempt ? -1 : 1;
	return x->place < y->place ? -1 : x->place > y->place;
}

/* Ids with at most so many others between them are close. */
#define CLOSE_IDS 8
/* So many are worth a walk. */
#define MIN_WALK 4

/* See job_many.h. */
void
many_read_ahead(const ManyItem *items, int n, int i, Held *h, int *until)
{
	int			last = i;

	if (i < *until || where_is(items[i].id))
		return;
	while (last + 1 < n &&
		   (uint64) items[last + 1].id - (uint64) items[last].id <= CLOSE_IDS)
		last++;
	if (last - i + 1 >= MIN_WALK)
		held_walk(h, items[i].id, items[last].id);
	*until = last + 1;
}

/* See job_many.h. */
void
many_check_length(const QuotaArray *array, const char *name, int n)
{
	if (array->n == n)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
			 errmsg("arguments \"ids\" and \"%s\" must have the same number of elements",
					name),
			 errdetail("They have %d and %d.", n, array->n),
			 errhint("Build them from the same rows, as with array_agg().")));
}

/* See job_many.h. */
QuotaArray
many_optional(FunctionCallInfo fcinfo, int i, const char *name, Oid type,
			  int n)
{
	QuotaArray	array = quota_arg_array(fcinfo, i, name, type, true);

	if (!PG_ARGISNULL(i))
		many_check_length(&array, name, n);
	return array;
}

/* See job_many.h. */
ManyItem *
many_read(FunctionCallInfo fcinfo, int *n)
{
	QuotaArray	ids = quota_arg_array(fcinfo, 0, "ids", INT8OID, false);
	QuotaArray	attempts = quota_arg_array(fcinfo, 1, "attempts", INT4OID, false);
	ManyItem   *items;

	many_check_length(&attempts, "attempts", ids.n);
	items = MemoryContextAllocHuge(CurrentMemoryContext,
								   sizeof(ManyItem) * (Size) Max(ids.n, 1));
	for (int i = 0; i < ids.n; i++)
	{
		items[i].id = DatumGetInt64(ids.values[i]);
		items[i].attempt = DatumGetInt32(attempts.values[i]);
		items[i].place = i;
	}
	qsort(items, ids.n, sizeof(ManyItem), compare_items);
	*n = ids.n;
	return items;
}
