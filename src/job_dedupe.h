/*
 * job_dedupe.h
 *		Dedupe keys of unfinished jobs: rows of quota.dedupe.  As rows.h, all throw
 *		and wait for nobody, unless they say otherwise.
 */
#ifndef QUOTA_JOB_DEDUPE_H
#define QUOTA_JOB_DEDUPE_H

#include "postgres.h"

/* The unfinished job of the provider with this key; false = none (yet). */
extern bool dedupe_find(Datum provider, Datum key, int64 *id);

/*
 * The job has the key now.  Throws 23505 when another unfinished one of the provider
 * has it; waits for an open transaction that has just used it.
 */
extern void dedupe_take(Datum provider, Datum key, int64 id);

/* The job has it no more.  Throws 55P03 when somebody has locked it. */
extern void dedupe_forget(Datum provider, Datum key, int64 id);

#endif							/* QUOTA_JOB_DEDUPE_H */
