/*
 * job_written.h
 *		Fresh jobs are noted when their rows have been written, without an event in
 *		the queue of AFTER triggers; see job_written.c.
 */
#ifndef QUOTA_JOB_WRITTEN_H
#define QUOTA_JOB_WRITTEN_H

#include "job_tuple.h"

/*
 * BEFORE INSERT: the trigger begins; and it ends with this row, which nobody will
 * change any more, and which needs no more than to be noted.
 */
extern void job_written_none(void);
extern void job_written_expect(const JobRow *row, KnownFlow *known);

/* The flow learns of the job at commit, and has its place until then. */
extern void job_written_note(KnownFlow *known, JournalNote *note);

#endif							/* QUOTA_JOB_WRITTEN_H */
