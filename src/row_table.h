/*
 * row_table.h
 *		What an open table is made of: between rows.c, which opens it, and
 *		row_write.c.
 */
#ifndef QUOTA_ROW_TABLE_H
#define QUOTA_ROW_TABLE_H

#include "rows.h"

#include "nodes/lockoptions.h"
#include "nodes/pg_list.h"

typedef struct RowWriter RowWriter;

struct RowTable
{
	MemoryContext context;		/* everything about the table is in here */
	QuotaRelation rel;
	Relation	relation;
	LockTupleMode lock_mode;
	List	   *slots;			/* handed out by row_slot() */
	List	   *scans;			/* of its indexes, those that have ended too */
	BlockNumber nblocks;		/* for row_at(), since the first; 0 = none yet */
	ItemPointerData written;	/* where the row written last is */
	RowWriter  *writer;			/* NULL until the first write */
	bool	   *updated;		/* columns the writer was made to update, as in
								 * RowValues; NULL = it was made for others */
};

/* Ends and frees the writer, if there is one. */
extern void row_writer_end(RowTable *table);

#endif							/* QUOTA_ROW_TABLE_H */
