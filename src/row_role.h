/*
 * row_role.h
 *		As whom a background worker writes rows of our tables.
 */
#ifndef QUOTA_ROW_ROLE_H
#define QUOTA_ROW_ROLE_H

#include "catalog.h"

#include "nodes/nodes.h"
#include "utils/relcache.h"

/* This process is one of our workers, which nobody has called. */
extern void row_role_be_worker(void);

/*
 * False when this process may not insert into, update or delete from the table,
 * as that would run code of several roles.  The table is locked against new
 * triggers (ROW EXCLUSIVE).
 */
extern bool row_role_allows(Relation table, CmdType operation);

/*
 * Goes on as the role that such a write is for, until row_role_leave(); an abort
 * restores by itself.  Throws 42501 when it is not allowed.
 */
extern QuotaOwner row_role_enter(Relation table, CmdType operation);
extern void row_role_leave(QuotaOwner saved);

#endif							/* QUOTA_ROW_ROLE_H */
