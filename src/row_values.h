/*
 * row_values.h
 *		Columns of rows: those of a row that was read, and new values for one that
 *		is to be written.  Columns go by their attribute numbers.
 */
#ifndef QUOTA_ROW_VALUES_H
#define QUOTA_ROW_VALUES_H

#include "rows.h"

/* A column that is never null. */
extern int64 row_int64(TupleTableSlot *slot, int column);
extern int32 row_int32(TupleTableSlot *slot, int column);
extern char row_char(TupleTableSlot *slot, int column);
extern bool row_bool(TupleTableSlot *slot, int column);

/* 0 for null; also for times. */
extern int64 row_int64_or_0(TupleTableSlot *slot, int column);
/* In palloc'd memory; NULL for null. */
extern char *row_text(TupleTableSlot *slot, int column);
/* Compares a text, null being "", without copying it. */
extern bool row_text_is(TupleTableSlot *slot, int column, const char *expected);

/* New values for some columns of a row; those of the others are null. */
typedef struct RowValues
{
	Datum	   *values;
	bool	   *nulls;
	bool	   *given;			/* these */
} RowValues;

/* None yet, for a row of the table; columns that users have added included. */
extern RowValues row_values(RowTable *table);
extern void row_set(RowValues *row, int column, Datum value);
extern void row_set_null(RowValues *row, int column);
/* null for 0, and for NULL */
extern void row_set_nonzero(RowValues *row, int column, int64 value);
extern void row_set_text(RowValues *row, int column, const char *value);

#endif							/* QUOTA_ROW_VALUES_H */
