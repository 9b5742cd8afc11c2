/*
 * job_where.c
 *		Where the rows of jobs are that this session has claimed; see job_where.h.
 *
 * Who claims a job mostly ends it, in the same session.  To find its two rows by
 * their indexes again is a good part of that work, so a claim leaves here where they
 * are.  It is a guess: whoever goes by it looks whether the row there is the job's
 * (row_at()), and else asks the indexes.  So nothing has to be taken back when a claim
 * is rolled back, when rows move, or when the extension is made anew.
 *
 * A job's place is its number modulo the size; what stood there is forgotten.
 */
#include "job_where.h"

/* As many as one call may claim, and some. */
#define N_KNOWN 2048

static JobWhere known[N_KNOWN];

/* The place of this job. */
static JobWhere *
place_of(int64 id)
{
	return &known[(uint64) id % N_KNOWN];
}

/* See job_where.h. */
void
where_claimed(int64 id, ItemPointerData job, ItemPointerData lease)
{
	*place_of(id) = (JobWhere) {.id = id,.job = job,.lease = lease};
}

/* See job_where.h. */
const JobWhere *
where_is(int64 id)
{
	const JobWhere *where = place_of(id);

	return where->id == id ? where : NULL;
}
