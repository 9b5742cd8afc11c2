/*
 * view.h
 *		Tables of what shared memory holds of this database; see view.c.
 */
#ifndef QUOTA_VIEW_H
#define QUOTA_VIEW_H

#include "quota.h"

#include "fmgr.h"
#include "nodes/execnodes.h"
#include "shmem.h"

#define VIEW_MAX_COLUMNS 20

/* A table in the making. */
typedef struct View
{
	ReturnSetInfo *result;
	Oid			extension;
	int64		now_ns;
	TimestampTz wall_us;
	/* the row in the making */
	int			n;
	Datum		values[VIEW_MAX_COLUMNS];
	bool		nulls[VIEW_MAX_COLUMNS];
} View;

/* False when it stays empty.  Throws as every function does that is not ready. */
extern bool view_begin(View *view, FunctionCallInfo fcinfo);

/* ---- the next column of the row ---- */

extern void view_put(View *view, Datum value, bool isnull);
extern void view_put_int64(View *view, int64 value);
/* The value has so many decimals. */
extern void view_put_fraction(View *view, int64 value, int decimals);
extern void view_put_text(View *view, const char *value);	/* "" means NULL */
extern void view_put_null(View *view);
/* An instant of the quota clock, as the wall clock will show it; QUOTA_NEVER: null */
extern void view_put_instant(View *view, int64 at_ns);

/* Adds the row to the table and begins the next one. */
extern void view_put_row(View *view);

/* ---- objects ---- */

/* Is the slot one of this database's extension?  Its lock may be held or not. */
extern bool view_slot_is_ours(const View *view, uint32 slot);

/* Locks the owner of an object and returns it, if both are ours; else NULL. */
extern QuotaSlot *view_lock_owner(const View *view, const QuotaEntry *entry,
								  LWLockMode mode);

#endif							/* QUOTA_VIEW_H */
