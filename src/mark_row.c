/*
 * mark_row.c
 *		A row of quota.marks on its page: how it is made, found at a place, and read.
 *		What rows and pages are like is told in mark_page.c.
 */
#include "postgres.h"

#include "mark_row.h"

#include "access/htup_details.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

/* Columns of the table; none may be null. */
enum
{
	MARKS_BUCKET = 1,
	MARKS_AHEAD,
	MARKS_MARKED_AT,
	MARKS_IMAGE
};

const uint8 mark_no_id[MARK_ID_LEN];

/* See mark_row.h. */
HeapTuple
mark_row_form(Relation rel, const MarkRow *row)
{
	int32		image[(VARHDRSZ + sizeof(MarkImage)) / sizeof(int32)];
	bool		nulls[MARK_COLUMNS] = {0};
	Datum		values[MARK_COLUMNS];
	HeapTuple	tuple;

	SET_VARSIZE(image, sizeof(image));
	memcpy(VARDATA(image), &row->image, sizeof(MarkImage));
	values[MARKS_BUCKET - 1] = PointerGetDatum(row->id);
	values[MARKS_AHEAD - 1] = Int64GetDatum(row->ahead);
	values[MARKS_MARKED_AT - 1] = TimestampTzGetDatum(row->image.at.real_us);
	values[MARKS_IMAGE - 1] = PointerGetDatum(image);
	tuple = heap_form_tuple(RelationGetDescr(rel), values, nulls);

	HeapTupleHeaderSetXmin(tuple->t_data, FrozenTransactionId);
	HeapTupleHeaderSetXminFrozen(tuple->t_data);
	HeapTupleHeaderSetCmin(tuple->t_data, FirstCommandId);
	HeapTupleHeaderSetXmax(tuple->t_data, InvalidTransactionId);
	tuple->t_data->t_infomask |= HEAP_XMAX_INVALID;
	return tuple;
}

/* See mark_row.h. */
Size
mark_row_length(Relation rel)
{
	static Size length = 0;

	if (length == 0)
	{
		MarkRow		row;

		memset(&row, 0, sizeof(row));
		length = mark_row_form(rel, &row)->t_len;
	}
	return length;
}

/* See mark_row.h. */
HeapTupleHeader
mark_row_at(Relation rel, Page page, OffsetNumber offset)
{
	HeapTupleHeader row;
	ItemId		item;

	if (PageIsNew(page) || offset < FirstOffsetNumber ||
		offset > PageGetMaxOffsetNumber(page))
		return NULL;
	item = PageGetItemId(page, offset);
	if (!ItemIdIsNormal(item) || ItemIdGetLength(item) != mark_row_length(rel))
		return NULL;
	row = (HeapTupleHeader) PageGetItem(page, item);
	/* what somebody wrote or deleted by force is not a row any more */
	if (!HeapTupleHeaderXminFrozen(row) ||
		((row->t_infomask & HEAP_XMAX_INVALID) == 0 &&
		 !HEAP_XMAX_IS_LOCKED_ONLY(row->t_infomask)))
		return NULL;
	return row;
}

/* See mark_row.h. */
const uint8 *
mark_row_id(HeapTupleHeader row)
{
	return (const uint8 *) row + row->t_hoff;
}

/* See mark_row.h. */
bool
mark_row_is_at(Relation rel, Page page, OffsetNumber offset, const uint8 *id)
{
	HeapTupleHeader row = mark_row_at(rel, page, offset);

	return row != NULL && memcmp(mark_row_id(row), id, MARK_ID_LEN) == 0;
}

/* See mark_row.h. */
void
mark_row_read(HeapTupleHeader data, MarkRow *row)
{
	const char *at = (const char *) mark_row_id(data);

	/* uuid, bigint and timestamptz lie side by side; the image has a long head */
	memcpy(row->id, at, MARK_ID_LEN);
	memcpy(&row->ahead, at + MARK_ID_LEN, sizeof(int64));
	memcpy(&row->image, at + MARK_ID_LEN + 2 * sizeof(int64) + VARHDRSZ,
		   sizeof(MarkImage));
}

/* See mark_row.h. */
Buffer
mark_lock_block(Relation rel, BlockNumber block, int mode)
{
	Buffer		buffer = ReadBuffer(rel, block);

	LockBuffer(buffer, mode);
	return buffer;
}

/* See mark_row.h. */
void
mark_walk_block(Relation rel, BlockNumber block, MarkReader reader, void *arg)
{
	Buffer		buffer = mark_lock_block(rel, block, BUFFER_LOCK_SHARE);
	Page		page = BufferGetPage(buffer);
	int			n = PageIsNew(page) ? 0 : PageGetMaxOffsetNumber(page);
	MarkRow    *rows = palloc(sizeof(MarkRow) * (n + 1));
	MarkPlace  *places = palloc(sizeof(MarkPlace) * (n + 1));
	int			found = 0;

	for (OffsetNumber offset = FirstOffsetNumber; offset <= n; offset++)
	{
		HeapTupleHeader row = mark_row_at(rel, page, offset);

		if (row == NULL || memcmp(mark_row_id(row), mark_no_id, MARK_ID_LEN) == 0)
			continue;
		mark_row_read(row, &rows[found]);
		places[found].block = block;
		places[found++].offset = offset;
	}
	UnlockReleaseBuffer(buffer);
	for (int i = 0; i < found; i++)
		reader(&rows[i], places[i], arg);
	pfree(rows);
	pfree(places);
}
