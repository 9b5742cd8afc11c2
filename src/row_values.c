/*
 * row_values.c
 *		Columns of rows; see row_values.h.  No lock of shared memory is held.
 */
#include "row_values.h"

#include "utils/builtins.h"
#include "utils/rel.h"

/* ---- of a row that was read ---- */

/* See row_values.h. */
int64
row_int64(TupleTableSlot *slot, int column)
{
	bool		isnull;

	return DatumGetInt64(slot_getattr(slot, column, &isnull));
}

/* See row_values.h. */
int32
row_int32(TupleTableSlot *slot, int column)
{
	bool		isnull;

	return DatumGetInt32(slot_getattr(slot, column, &isnull));
}

/* See row_values.h. */
char
row_char(TupleTableSlot *slot, int column)
{
	bool		isnull;

	return DatumGetChar(slot_getattr(slot, column, &isnull));
}

/* See row_values.h. */
bool
row_bool(TupleTableSlot *slot, int column)
{
	bool		isnull;

	return DatumGetBool(slot_getattr(slot, column, &isnull));
}

/* See row_values.h. */
int64
row_int64_or_0(TupleTableSlot *slot, int column)
{
	bool		isnull;
	Datum		value = slot_getattr(slot, column, &isnull);

	return isnull ? 0 : DatumGetInt64(value);
}

/* See row_values.h. */
char *
row_text(TupleTableSlot *slot, int column)
{
	bool		isnull;
	Datum		value = slot_getattr(slot, column, &isnull);

	return isnull ? NULL : TextDatumGetCString(value);
}

/* See row_values.h. */
bool
row_text_is(TupleTableSlot *slot, int column, const char *expected)
{
	bool		isnull;
	Datum		value = slot_getattr(slot, column, &isnull);
	text	   *t;
	bool		same;

	if (isnull)
		return expected[0] == '\0';
	t = DatumGetTextPP(value);
	same = VARSIZE_ANY_EXHDR(t) == strlen(expected) &&
		memcmp(VARDATA_ANY(t), expected, strlen(expected)) == 0;
	if ((Pointer) t != DatumGetPointer(value))
		pfree(t);
	return same;
}

/* ---- of a row to be written ---- */

/* See row_values.h. */
RowValues
row_values(RowTable *table)
{
	int			natts = RelationGetNumberOfAttributes(row_relation(table));
	RowValues	row;

	/* one piece of memory: it is done for every write */
	row.values = palloc((sizeof(Datum) + 2 * sizeof(bool)) * natts);
	row.nulls = (bool *) (row.values + natts);
	row.given = row.nulls + natts;
	memset(row.values, 0, sizeof(Datum) * natts);
	memset(row.nulls, true, sizeof(bool) * natts);
	memset(row.given, false, sizeof(bool) * natts);
	return row;
}

/* See row_values.h. */
void
row_set(RowValues *row, int column, Datum value)
{
	row->values[column - 1] = value;
	row->nulls[column - 1] = false;
	row->given[column - 1] = true;
}

/* See row_values.h. */
void
row_set_null(RowValues *row, int column)
{
	row->values[column - 1] = (Datum) 0;
	row->nulls[column - 1] = true;
	row->given[column - 1] = true;
}

/* See row_values.h. */
void
row_set_nonzero(RowValues *row, int column, int64 value)
{
	if (value != 0)
		row_set(row, column, Int64GetDatum(value));
	else
		row_set_null(row, column);
}

/* See row_values.h. */
void
row_set_text(RowValues *row, int column, const char *value)
{
	if (value)
		row_set(row, column, CStringGetTextDatum(value));
	else
		row_set_null(row, column);
}
