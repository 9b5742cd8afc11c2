/*
 * job_load.h
 *		Between the files that load and count a queue.
 */
#ifndef QUOTA_JOB_LOAD_H
#define QUOTA_JOB_LOAD_H

#include "job_sums.h"

#include "utils/relcache.h"

/* ---- job_load.c ---- */

/* Locks where long values of the table are. */
extern void load_lock_toast(Relation table);
/* Until nobody loads, or nobody counts, the queue any more. */
extern void load_wait(uint32 database_slot, bool counts);

/* ---- job_load_rows.c ---- */

/*
 * Tells the flows what the rows say, while nobody writes.  True when all jobs are
 * counted, false when only as much has been read as flows need to be usable.
 */
extern bool load_rows(Relation jobs, Relation leases);

#endif							/* QUOTA_JOB_LOAD_H */
