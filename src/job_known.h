/*
 * job_known.h
 *		Flows that this session has met: what follows from the names of a job, kept
 *		so that a bulk load need not work it out for every row.
 */
#ifndef QUOTA_JOB_KNOWN_H
#define QUOTA_JOB_KNOWN_H

#include "job.h"
#include "policy.h"

/* A name as a row has it, without a terminator; length 0 = none. */
typedef struct NamePart
{
	const char *bytes;
	int			length;			/* below QUOTA_NAME_LEN */
} NamePart;

/* The names of a job, in this order. */
enum
{
	PART_TENANT,
	PART_PROVIDER,
	PART_ENDPOINT,
	PART_CLASS,					/* never none */
	N_PARTS
};

typedef struct KnownFlow
{
	JobNames	names;
	bool		met;			/* the place in the cache is filled */
	uint32		name_hash;		/* of names, for the cache */
	QuotaJobRules rules;		/* see known_rules() */

	/* where it is in shared memory; see known_lock() */
	bool		identified;
	Oid			extension;
	uint32		database_slot;
	uint32		slot;
	QuotaKey	slot_key;
	uint32		flow;			/* verify */
	QuotaPlan	plan;			/* names and keys only */
} KnownFlow;

/*
 * The flow of these names.  Good until the next call of either of these two.
 * Throws when out of memory.
 */
extern KnownFlow *known_flow(const NamePart parts[N_PARTS]);
extern KnownFlow *known_flow_of(const JobNames *names);

/* What the configuration says of it now, rows of this transaction included. */
extern const QuotaJobRules *known_rules(KnownFlow *known);

/*
 * Its index in shared memory, created when it is new; the lock of known->slot is
 * held on return.  Throws 53400 when a table is full.
 */
extern uint32 known_lock(KnownFlow *known);

#endif							/* QUOTA_JOB_KNOWN_H */
