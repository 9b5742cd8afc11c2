/*
 * mark_page.c
 *		Rows of quota.marks on their pages.
 *
 * A row must be there for good before the call that needs it is answered, whatever
 * becomes of the caller's transaction, and without giving that one an id: as with
 * the value of a sequence.  So rows are made as a sequence makes its own: visible to
 * everybody and frozen from the first moment; and they are written in place ever
 * after.  All have the same length.  Every change of a page is one generic WAL
 * record, so crash recovery, standbys, base backups and pg_rewind know them.
 *
 * A row on its page is in mark_row.c, the table in mark_table.c, epochs in
 * mark_epoch.c.
 *
 * Rows are never deleted: a free one has an id of zeros and is used again.  Block 0
 * has the rows of epochs, which are made first; buckets get theirs in other blocks.
 *
 * What else may happen to the table:
 *	  VACUUM		finds live frozen rows only.  A page that it has marked all-visible
 *					stays so, as every row is visible to all.
 *	  VACUUM FULL	moves rows, in their order, so that buckets' may follow those of
 *					epochs in block 0.  It waits for whoever has the table open; a
 *					place is only believed if the row there has the id, and whoever
 *					finds another one reads the table again (a new file has a new
 *					number).
 *	  INSERT, UPDATE, DELETE, TRUNCATE
 *					are refused by a trigger.
 *	  SELECT FOR ... writes to the row's head, which nobody here writes to again.
 *	  ALTER TABLE	may give the table a new file in a transaction that can still roll
 *					back, or one that is not logged: then nothing is written (55000).
 *	  wal_level = minimal, in the transaction of CREATE EXTENSION: nothing is logged,
 *					the file is synchronized at commit; nobody else sees it before.
 *	  copies		a database made from this one as a template has its rows, which
 *					name the database they were written in.
 *
 * A crash may leave a new page that is all zero: it is made when next needed.
 *
 * LOCKS.  A row is written with its page locked exclusively, and what is written is
 * taken from shared memory in the meantime (MarkFill): so of two versions the newer
 * is the one that stays.  A slot's lock comes after the page's; nobody asks for a
 * page while holding a slot.
 *
 * Finding a row by its id means to read the table, so each backend keeps a list of
 * all that it has read once.  It need not learn of rows made since: whose bucket is
 * in shared memory, which says where.
 */
#include "postgres.h"

#include "mark_page.h"

#include "access/generic_xlog.h"
#include "access/htup_details.h"
#include "mark_row.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#define FIRST_BLOCK		(MARK_EPOCH_BLOCK + 1)

/* ---- all of them ---- */

/* Who wants to see the rows of buckets only. */
typedef struct BucketReader
{
	MarkReader	reader;
	void	   *arg;
} BucketReader;

/* MarkReader */
static void
read_bucket(const MarkRow *row, MarkPlace place, void *arg)
{
	const BucketReader *r = arg;

	if (!mark_is_epoch(row->id))
		r->reader(row, place, r->arg);
}

/* See mark_page.h. */
void
mark_walk(Relation rel, MarkReader reader, void *arg)
{
	BlockNumber n = RelationGetNumberOfBlocks(rel);
	BucketReader buckets = {reader, arg};

	for (BlockNumber block = 0; block < n; block++)
	{
		CHECK_FOR_INTERRUPTS();
		mark_walk_block(rel, block, read_bucket, &buckets);
	}
}

/* ---- finding by id ---- */

/* Where a row was. */
typedef struct Known
{
	uint8		id[MARK_ID_LEN];
	MarkPlace	place;
} Known;

static HTAB *known;
static Oid	known_table;
static Oid	known_file;			/* the file that was read */

/* MarkReader */
static void
know(const MarkRow *row, MarkPlace place, void *arg)
{
	Known	   *entry = hash_search(known, row->id, HASH_ENTER, NULL);

	entry->place = place;
}

/* Reads the table, unless it was read. */
static void
read_table(Relation rel)
{
	HASHCTL		control = {
		.keysize = MARK_ID_LEN,.entrysize = sizeof(Known)
	};

	if (known != NULL && known_table == RelationGetRelid(rel) &&
		known_file == rel->rd_rel->relfilenode)
		return;
	if (known != NULL)
		hash_destroy(known);
	known_file = InvalidOid;
	control.hcxt = TopMemoryContext;
	known = hash_create("quota marks", 64, &control,
						HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	mark_walk(rel, know, NULL);
	known_table = RelationGetRelid(rel);
	known_file = rel->rd_rel->relfilenode;
}

/* The block of that place, locked, if the row there has the id. */
static Buffer
lock_at(Relation rel, const uint8 *id, MarkPlace place, int mode)
{
	Buffer		buffer;

	if (place.offset == InvalidOffsetNumber ||
		place.block >= RelationGetNumberOfBlocks(rel))
		return InvalidBuffer;
	buffer = mark_lock_block(rel, place.block, mode);
	if (mark_row_is_at(rel, BufferGetPage(buffer), place.offset, id))
		return buffer;
	UnlockReleaseBuffer(buffer);
	return InvalidBuffer;
}

/* The block of the row with this id, wherever it is, locked; fills in the place. */
static Buffer
lock_known(Relation rel, const uint8 *id, MarkPlace *place, int mode)
{
	const Known *entry;

	read_table(rel);
	entry = hash_search(known, id, HASH_FIND, NULL);
	if (entry == NULL)
		return InvalidBuffer;
	*place = entry->place;
	return lock_at(rel, id, *place, mode);
}

/* The same, by the place it should be at, else wherever it is. */
static Buffer
lock_row(Relation rel, const uint8 *id, MarkPlace *place, int mode)
{
	Buffer		buffer = lock_at(rel, id, *place, mode);

	return BufferIsValid(buffer) ? buffer : lock_known(rel, id, place, mode);
}

/* See mark_page.h. */
bool
mark_find(Relation rel, const uint8 *id, MarkPlace *place, MarkRow *row)
{
	Buffer		buffer = lock_row(rel, id, place, BUFFER_LOCK_SHARE);

	if (!BufferIsValid(buffer))
		return false;
	mark_row_read(mark_row_at(rel, BufferGetPage(buffer), place->offset), row);
	UnlockReleaseBuffer(buffer);
	return true;
}

/* ---- room for more ---- */

static BlockNumber search_from = FIRST_BLOCK;	/* all before was full */

/* See mark_row.h. */
bool
mark_has_room(Relation rel, Page page, OffsetNumber *offset)
{
	*offset = InvalidOffsetNumber;
	if (PageIsNew(page))
		return true;
	for (OffsetNumber i = FirstOffsetNumber; i <= PageGetMaxOffsetNumber(page); i++)
		if (mark_row_is_at(rel, page, i, mark_no_id))
		{
			*offset = i;
			return true;
		}
	return PageGetFreeSpace(page) >= MAXALIGN(mark_row_length(rel));
}

/* See mark_row.h. */
Buffer
mark_extend(Relation rel)
{
	Buffer		buffer;

	LockRelationForExtension(rel, ExclusiveLock);
	buffer = ReadBufferExtended(rel, MAIN_FORKNUM, P_NEW, RBM_ZERO_AND_LOCK, NULL);
	UnlockRelationForExtension(rel, ExclusiveLock);
	return buffer;
}

/* How many go on a page. */
static int
rows_on_page(Relation rel)
{
	return (BLCKSZ - SizeOfPageHeaderData) /
		(MAXALIGN(mark_row_length(rel)) + sizeof(ItemIdData));
}

/* Blocks the table may have. */
static BlockNumber
most_blocks(Relation rel)
{
	int			per_page = rows_on_page(rel);

	return FIRST_BLOCK + (quota_max_buckets + per_page - 1) / per_page;
}

/* A block with room from "from" on, locked; InvalidBuffer when there is none. */
static Buffer
lock_room(Relation rel, BlockNumber from, MarkPlace *place)
{
	BlockNumber n = RelationGetNumberOfBlocks(rel);

	for (BlockNumber block = from; block < n; block++)
	{
		Buffer		buffer = mark_lock_block(rel, block, BUFFER_LOCK_EXCLUSIVE);

		if (mark_has_room(rel, BufferGetPage(buffer), &place->offset))
		{
			place->block = search_from = block;
			return buffer;
		}
		UnlockReleaseBuffer(buffer);
		CHECK_FOR_INTERRUPTS();
	}
	return InvalidBuffer;
}

/* The same, of a table that may grow; InvalidBuffer when it may not any more. */
static Buffer
lock_room_or_extend(Relation rel, MarkPlace *place)
{
	Buffer		buffer = lock_room(rel, search_from, place);

	if (!BufferIsValid(buffer) &&
		RelationGetNumberOfBlocks(rel) >= most_blocks(rel))
		return lock_room(rel, FIRST_BLOCK, place);
	while (!BufferIsValid(buffer))
	{
		buffer = mark_extend(rel);
		place->block = BufferGetBlockNumber(buffer);
		place->offset = InvalidOffsetNumber;
		if (place->block >= FIRST_BLOCK)
			break;
		UnlockReleaseBuffer(buffer);
		buffer = InvalidBuffer;
	}
	return buffer;
}

/* ---- writing ---- */

/* Puts a new row on the page's copy; returns where. */
static OffsetNumber
add(Page page, Buffer buffer, HeapTuple tuple)
{
	OffsetNumber offset;
	HeapTupleHeader row;

	if (PageIsNew(page))
		PageInit(page, BufferGetPageSize(buffer), 0);
	offset = PageAddItem(page, (Item) tuple->t_data, tuple->t_len,
						 InvalidOffsetNumber, false, true);
	if (offset == InvalidOffsetNumber)
		elog(ERROR, "no room on a page of quota.marks");
	row = (HeapTupleHeader) PageGetItem(page, PageGetItemId(page, offset));
	ItemPointerSet(&row->t_ctid, BufferGetBlockNumber(buffer), offset);
	return offset;
}

/* See mark_row.h. */
bool
mark_write_locked(Relation rel, Buffer buffer, MarkPlace *place, MarkFill fill,
			 void *arg, XLogRecPtr *lsn)
{
	GenericXLogState *state;
	HeapTuple	tuple;
	MarkRow		row;
	Page		page;
	bool		is_new = PageIsNew(BufferGetPage(buffer));

	memset(&row, 0, sizeof(row));
	if (!fill(&row, arg))
	{
		UnlockReleaseBuffer(buffer);
		return false;
	}
	tuple = mark_row_form(rel, &row);
	state = GenericXLogStart(rel);
	page = GenericXLogRegisterBuffer(state, buffer,
									 is_new ? GENERIC_XLOG_FULL_IMAGE : 0);
	if (place->offset == InvalidOffsetNumber)
		place->offset = add(page, buffer, tuple);
	else
	{
		HeapTupleHeader old = mark_row_at(rel, page, place->offset);

		memcpy((char *) old + old->t_hoff,
			   (char *) tuple->t_data + tuple->t_data->t_hoff,
			   tuple->t_len - tuple->t_data->t_hoff);
	}
	*lsn = GenericXLogFinish(state);
	UnlockReleaseBuffer(buffer);
	heap_freetuple(tuple);
	return true;
}

/* See mark_page.h. */
bool
mark_rewrite(Relation rel, const uint8 *id, MarkPlace place, MarkFill fill,
			 void *arg, XLogRecPtr *lsn)
{
	Buffer		buffer = lock_at(rel, id, place, BUFFER_LOCK_EXCLUSIVE);

	if (!BufferIsValid(buffer))
		return false;
	if (!mark_write_locked(rel, buffer, &place, fill, arg, lsn))
		return false;
	search_from = Max(Min(search_from, place.block), FIRST_BLOCK);
	return true;
}

/* See mark_page.h. */
MarkWritten
mark_write(Relation rel, const uint8 *id, MarkPlace *place, MarkFill fill,
		   void *arg, XLogRecPtr *lsn)
{
	Buffer		buffer = lock_row(rel, id, place, BUFFER_LOCK_EXCLUSIVE);

	if (!BufferIsValid(buffer))
		buffer = lock_room_or_extend(rel, place);
	if (!BufferIsValid(buffer))
		return MARK_NO_ROOM;
	return mark_write_locked(rel, buffer, place, fill, arg, lsn) ? MARK_WRITTEN
		: MARK_NOT_WANTED;
}
