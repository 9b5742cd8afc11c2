/*
 * mark_epoch.c
 *		Rows of quota.marks for the times between crashes: what the quota clock of one
 *		of them is by that of another (mark.c, TIME).  They are in block 0, which is
 *		theirs; when it is full the oldest makes room.
 */
#include "postgres.h"

#include "mark_page.h"

#include "access/table.h"
#include "catalog.h"
#include "catalog/pg_am.h"
#include "mark_row.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#define EPOCH_ZEROS		(MARK_ID_LEN - sizeof(int64))	/* its id begins with */

/* See mark_row.h. */
bool
mark_is_epoch(const uint8 *id)
{
	return memcmp(id, mark_no_id, EPOCH_ZEROS) == 0;
}

/* See mark_page.h. */
void
mark_epoch_id(int64 epoch, uint8 *id)
{
	memset(id, 0, MARK_ID_LEN);
	memcpy(id + MARK_ID_LEN - sizeof(epoch), &epoch, sizeof(epoch));
}

/* The oldest epoch of a locked page: it makes room for a newer one. */
static OffsetNumber
oldest_row(Relation rel, Page page)
{
	OffsetNumber oldest = FirstOffsetNumber;
	TimestampTz oldest_us = DT_NOEND;

	for (OffsetNumber i = FirstOffsetNumber; i <= PageGetMaxOffsetNumber(page); i++)
	{
		HeapTupleHeader data = mark_row_at(rel, page, i);
		MarkRow		row;

		if (data == NULL || !mark_is_epoch(mark_row_id(data)))
			continue;
		mark_row_read(data, &row);
		if (row.image.at.real_us < oldest_us)
		{
			oldest_us = row.image.at.real_us;
			oldest = i;
		}
	}
	return oldest;
}

/* Writes the row of the present epoch, in block 0, if it is not there. */
void
mark_write_epoch(Relation rel, MarkFill fill, void *arg)
{
	MarkPlace	place = {.block = MARK_EPOCH_BLOCK};
	uint8		id[MARK_ID_LEN];
	Buffer		buffer;
	Page		page;
	XLogRecPtr	lsn;

	mark_epoch_id(quota_shared->crash_epoch, id);
	if (RelationGetNumberOfBlocks(rel) == 0)
		UnlockReleaseBuffer(mark_extend(rel));
	buffer = mark_lock_block(rel, MARK_EPOCH_BLOCK, BUFFER_LOCK_EXCLUSIVE);
	page = BufferGetPage(buffer);
	for (OffsetNumber i = FirstOffsetNumber;
		 !PageIsNew(page) && i <= PageGetMaxOffsetNumber(page); i++)
		if (mark_row_is_at(rel, page, i, id))
		{
			UnlockReleaseBuffer(buffer);
			return;
		}
	if (!mark_has_room(rel, page, &place.offset))
		place.offset = oldest_row(rel, page);
	(void) mark_write_locked(rel, buffer, &place, fill, arg, &lsn);
}

/* What to look for among the rows of epochs. */
typedef struct EpochSearch
{
	uint8		id[MARK_ID_LEN];
	MarkRow    *row;
	bool		found;
} EpochSearch;

/* MarkReader */
static void
match_epoch(const MarkRow *row, MarkPlace place, void *arg)
{
	EpochSearch *search = arg;

	if (memcmp(row->id, search->id, MARK_ID_LEN) != 0)
		return;
	*search->row = *row;
	search->found = true;
}

/* Reads the row of an epoch; false when there is none.  Throws nothing of its own. */
bool
mark_find_epoch(int64 epoch, MarkRow *row)
{
	EpochSearch search = {.row = row};
	Oid			relid = quota_catalog()->relations[QUOTA_REL_MARKS];
	Relation	rel;

	/* while the install script runs */
	if (!OidIsValid(relid))
		return false;
	mark_epoch_id(epoch, search.id);
	rel = table_open(relid, AccessShareLock);
	if (rel->rd_rel->relam == HEAP_TABLE_AM_OID &&
		RelationGetNumberOfAttributes(rel) == MARK_COLUMNS &&
		RelationGetNumberOfBlocks(rel) > MARK_EPOCH_BLOCK)
		mark_walk_block(rel, MARK_EPOCH_BLOCK, match_epoch, &search);
	table_close(rel, AccessShareLock);
	return search.found;
}
