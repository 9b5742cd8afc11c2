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
#include "access/table.h"
#include "catalog.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "commands/trigger.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "trigger.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(quota_marks_guard);

#define EPOCH_BLOCK		0
#define FIRST_BLOCK		1
#define EPOCH_ZEROS		(MARK_ID_LEN - sizeof(int64))	/* its id begins with */

/* Columns of the table; none may be null. */
enum
{
	MARKS_BUCKET = 1,
	MARKS_AHEAD,
	MARKS_MARKED_AT,
	MARKS_IMAGE,
	N_MARKS = MARKS_IMAGE
};

static const uint8 no_id[MARK_ID_LEN];

/* ---- the table ---- */

/* Throws when rows of ours would not be what they have to be. */
static Relation
check_table(Relation rel)
{
	if (rel->rd_rel->relam != HEAP_TABLE_AM_OID ||
		RelationGetNumberOfAttributes(rel) != N_MARKS)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("table \"quota.marks\" has been altered"),
				 errhint("It must be as CREATE EXTENSION has made it.")));
	if (rel->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT ||
		compat_has_new_file(rel))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("slow limits cannot be used while table \"quota.marks\" is being altered or is not logged"),
				 errhint("Commit first, or run ALTER TABLE quota.marks SET LOGGED.")));
	return rel;
}

/* See mark_page.h. */
Relation
mark_open(void)
{
	return check_table(table_open(quota_relation(QUOTA_REL_MARKS),
								  RowExclusiveLock));
}

/* See mark_page.h. */
Relation
mark_try_open(void)
{
	Oid			relid = quota_relation(QUOTA_REL_MARKS);

	if (!ConditionalLockRelationOid(relid, RowExclusiveLock))
		return NULL;
	return check_table(table_open(relid, NoLock));
}

/* What was written is for good: others need not wait for our transaction. */
void
mark_close(Relation rel)
{
	table_close(rel, RowExclusiveLock);
}

/* ---- rows ---- */

/* The row as a tuple: visible to everybody, whatever happens. */
static HeapTuple
form(Relation rel, const MarkRow *row)
{
	int32		image[(VARHDRSZ + sizeof(MarkImage)) / sizeof(int32)];
	bool		nulls[N_MARKS] = {0};
	Datum		values[N_MARKS];
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

/* The length of every row. */
static Size
row_length(Relation rel)
{
	static Size length = 0;

	if (length == 0)
	{
		MarkRow		row;

		memset(&row, 0, sizeof(row));
		length = form(rel, &row)->t_len;
	}
	return length;
}

/* How many go on a page. */
static int
rows_on_page(Relation rel)
{
	return (BLCKSZ - SizeOfPageHeaderData) /
		(MAXALIGN(row_length(rel)) + sizeof(ItemIdData));
}

/* The row at a place of a locked page; NULL when there is none of ours. */
static HeapTupleHeader
row_at(Relation rel, Page page, OffsetNumber offset)
{
	HeapTupleHeader row;
	ItemId		item;

	if (PageIsNew(page) || offset < FirstOffsetNumber ||
		offset > PageGetMaxOffsetNumber(page))
		return NULL;
	item = PageGetItemId(page, offset);
	if (!ItemIdIsNormal(item) || ItemIdGetLength(item) != row_length(rel))
		return NULL;
	row = (HeapTupleHeader) PageGetItem(page, item);
	/* what somebody wrote or deleted by force is not a row any more */
	if (!HeapTupleHeaderXminFrozen(row) ||
		((row->t_infomask & HEAP_XMAX_INVALID) == 0 &&
		 !HEAP_XMAX_IS_LOCKED_ONLY(row->t_infomask)))
		return NULL;
	return row;
}

/* Its id: the first column. */
static const uint8 *
row_id(HeapTupleHeader row)
{
	return (const uint8 *) row + row->t_hoff;
}

/* The row at a place of a locked page has this id. */
static bool
is_at(Relation rel, Page page, OffsetNumber offset, const uint8 *id)
{
	HeapTupleHeader row = row_at(rel, page, offset);

	return row != NULL && memcmp(row_id(row), id, MARK_ID_LEN) == 0;
}

/* Copies a row off its page. */
static void
read_row(HeapTupleHeader data, MarkRow *row)
{
	const char *at = (const char *) row_id(data);

	/* uuid, bigint and timestamptz lie side by side; the image has a long head */
	memcpy(row->id, at, MARK_ID_LEN);
	memcpy(&row->ahead, at + MARK_ID_LEN, sizeof(int64));
	memcpy(&row->image, at + MARK_ID_LEN + 2 * sizeof(int64) + VARHDRSZ,
		   sizeof(MarkImage));
}

/* A block, locked. */
static Buffer
lock_block(Relation rel, BlockNumber block, int mode)
{
	Buffer		buffer = ReadBuffer(rel, block);

	LockBuffer(buffer, mode);
	return buffer;
}

/* Shows the rows of one block that are not free. */
static void
walk_block(Relation rel, BlockNumber block, MarkReader reader, void *arg)
{
	Buffer		buffer = lock_block(rel, block, BUFFER_LOCK_SHARE);
	Page		page = BufferGetPage(buffer);
	int			n = PageIsNew(page) ? 0 : PageGetMaxOffsetNumber(page);
	MarkRow    *rows = palloc(sizeof(MarkRow) * (n + 1));
	MarkPlace  *places = palloc(sizeof(MarkPlace) * (n + 1));
	int			found = 0;

	for (OffsetNumber offset = FirstOffsetNumber; offset <= n; offset++)
	{
		HeapTupleHeader row = row_at(rel, page, offset);

		if (row == NULL || memcmp(row_id(row), no_id, MARK_ID_LEN) == 0)
			continue;
		read_row(row, &rows[found]);
		places[found].block = block;
		places[found++].offset = offset;
	}
	UnlockReleaseBuffer(buffer);
	for (int i = 0; i < found; i++)
		reader(&rows[i], places[i], arg);
	pfree(rows);
	pfree(places);
}

/* No hash of a bucket begins with so many zeros. */
static bool
is_epoch(const uint8 *id)
{
	return memcmp(id, no_id, EPOCH_ZEROS) == 0;
}

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

	if (!is_epoch(row->id))
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
		walk_block(rel, block, read_bucket, &buckets);
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
	buffer = lock_block(rel, place.block, mode);
	if (is_at(rel, BufferGetPage(buffer), place.offset, id))
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

/* See mark_page.h. */
bool
mark_find(Relation rel, const uint8 *id, MarkPlace *place, MarkRow *row)
{
	Buffer		buffer = lock_known(rel, id, place, BUFFER_LOCK_SHARE);

	if (!BufferIsValid(buffer))
		return false;
	read_row(row_at(rel, BufferGetPage(buffer), place->offset), row);
	UnlockReleaseBuffer(buffer);
	return true;
}

/* ---- room for more ---- */

static BlockNumber search_from = FIRST_BLOCK;	/* all before was full */

/* A free row of a locked page, or InvalidOffsetNumber for a new one; false: full. */
static bool
has_room(Relation rel, Page page, OffsetNumber *offset)
{
	*offset = InvalidOffsetNumber;
	if (PageIsNew(page))
		return true;
	for (OffsetNumber i = FirstOffsetNumber; i <= PageGetMaxOffsetNumber(page); i++)
		if (is_at(rel, page, i, no_id))
		{
			*offset = i;
			return true;
		}
	return PageGetFreeSpace(page) >= MAXALIGN(row_length(rel));
}

/* One more block, locked; all zero until something is written. */
static Buffer
extend(Relation rel)
{
	Buffer		buffer;

	LockRelationForExtension(rel, ExclusiveLock);
	buffer = ReadBufferExtended(rel, MAIN_FORKNUM, P_NEW, RBM_ZERO_AND_LOCK, NULL);
	UnlockRelationForExtension(rel, ExclusiveLock);
	return buffer;
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
		Buffer		buffer = lock_block(rel, block, BUFFER_LOCK_EXCLUSIVE);

		if (has_room(rel, BufferGetPage(buffer), &place->offset))
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
		buffer = extend(rel);
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

/*
 * Writes what fill() says to the place on this locked block, and lets go of that.
 * False when nothing was to be written.
 */
static bool
write_locked(Relation rel, Buffer buffer, MarkPlace *place, MarkFill fill,
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
	tuple = form(rel, &row);
	state = GenericXLogStart(rel);
	page = GenericXLogRegisterBuffer(state, buffer,
									 is_new ? GENERIC_XLOG_FULL_IMAGE : 0);
	if (place->offset == InvalidOffsetNumber)
		place->offset = add(page, buffer, tuple);
	else
	{
		HeapTupleHeader old = row_at(rel, page, place->offset);

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
	if (!write_locked(rel, buffer, &place, fill, arg, lsn))
		return false;
	search_from = Max(Min(search_from, place.block), FIRST_BLOCK);
	return true;
}

/* See mark_page.h. */
MarkWritten
mark_write(Relation rel, const uint8 *id, MarkPlace *place, MarkFill fill,
		   void *arg, XLogRecPtr *lsn)
{
	Buffer		buffer = lock_at(rel, id, *place, BUFFER_LOCK_EXCLUSIVE);

	if (!BufferIsValid(buffer))
		buffer = lock_known(rel, id, place, BUFFER_LOCK_EXCLUSIVE);
	if (!BufferIsValid(buffer))
		buffer = lock_room_or_extend(rel, place);
	if (!BufferIsValid(buffer))
		return MARK_NO_ROOM;
	return write_locked(rel, buffer, place, fill, arg, lsn) ? MARK_WRITTEN
		: MARK_NOT_WANTED;
}

/* ---- epochs ---- */

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
		HeapTupleHeader data = row_at(rel, page, i);
		MarkRow		row;

		if (data == NULL || !is_epoch(row_id(data)))
			continue;
		read_row(data, &row);
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
	MarkPlace	place = {.block = EPOCH_BLOCK};
	uint8		id[MARK_ID_LEN];
	Buffer		buffer;
	Page		page;
	XLogRecPtr	lsn;

	mark_epoch_id(quota_shared->crash_epoch, id);
	if (RelationGetNumberOfBlocks(rel) == 0)
		UnlockReleaseBuffer(extend(rel));
	buffer = lock_block(rel, EPOCH_BLOCK, BUFFER_LOCK_EXCLUSIVE);
	page = BufferGetPage(buffer);
	for (OffsetNumber i = FirstOffsetNumber;
		 !PageIsNew(page) && i <= PageGetMaxOffsetNumber(page); i++)
		if (is_at(rel, page, i, id))
		{
			UnlockReleaseBuffer(buffer);
			return;
		}
	if (!has_room(rel, page, &place.offset))
		place.offset = oldest_row(rel, page);
	(void) write_locked(rel, buffer, &place, fill, arg, &lsn);
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
		RelationGetNumberOfAttributes(rel) == N_MARKS &&
		RelationGetNumberOfBlocks(rel) > EPOCH_BLOCK)
		walk_block(rel, EPOCH_BLOCK, match_epoch, &search);
	table_close(rel, AccessShareLock);
	return search.found;
}

/* ---- the guard ---- */

/* BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE, for each statement. */
Datum
quota_marks_guard(PG_FUNCTION_ARGS)
{
	static const TriggerShape shape = {
		.function = "marks_guard",
		.tables = TRIGGER_TABLE(QUOTA_REL_MARKS),.before = true,
		.statement = TRIGGER_ON_INSERT | TRIGGER_ON_UPDATE | TRIGGER_ON_DELETE |
		TRIGGER_ON_TRUNCATE
	};

	(void) quota_trigger(fcinfo, &shape);
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot write to quota.marks"),
			 errdetail("It says what may be spent of slow limits, for the time after a crash."),
			 errhint("A row is used again once its bucket is full.")));
	return PointerGetDatum(NULL);
}
