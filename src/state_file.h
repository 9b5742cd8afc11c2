/*
 * state_file.h
 *		Format of the state file: between state.c and state_restore.c.
 */
#ifndef QUOTA_STATE_FILE_H
#define QUOTA_STATE_FILE_H

#include "access/xlogdefs.h"
#include "clock.h"
#include "pause_table.h"
#include "shmem.h"

/* Every record of an object starts with the index it had. */
typedef struct SavedSlot
{
	uint32		index;
	QuotaKey	key;
	Oid			database;
	Oid			extension;
	char		provider[QUOTA_NAME_LEN];
} SavedSlot;

typedef struct SavedTenant
{
	uint32		index;
	QuotaTenant tenant;
} SavedTenant;

typedef struct SavedBucket
{
	uint32		index;
	QuotaBucket bucket;
} SavedBucket;

typedef struct SavedPermit
{
	uint32		index;
	QuotaPermit permit;
} SavedPermit;

/* The kinds of records, in the order they are in the file. */
enum StateRecord
{
	SAVED_SLOTS,
	SAVED_TENANTS,
	SAVED_BUCKETS,
	SAVED_PERMITS,
	SAVED_EVENTS,
	SAVED_SEEN,
	SAVED_PAUSES,
	N_SAVED
};

/* The file: this, then all records, then the CRC of all that. */
typedef struct StateHeader
{
	int64		magic;
	uint32		major;			/* of the server */
	uint32		size[N_SAVED];	/* of one record */
	uint32		count[N_SAVED];
	uint64		system;			/* pg_control: system identifier */
	XLogRecPtr	checkpoint;		/* pg_control: the shutdown checkpoint */

	uint8		secret[sizeof(((QuotaShared *) NULL)->secret)];
	int64		crash_epoch;
	uint64		active_since_ns;
	ClockStamp	active_at;
	uint64		permit_serial;
	uint64		events_lost;
	uint64		seen_lost;
	uint64		number[QUOTA_N_GENERATIONS];	/* of the change counters, */
	uint64		deleted_ns[QUOTA_N_GENERATIONS];	/* and last deletions */
	QuotaClockSave clock;
} StateHeader;

/* The file in memory, and where its objects went. */
typedef struct State
{
	char	   *file;
	StateHeader *header;
	char	   *records[N_SAVED];
	/* old index -> new index */
	uint32	   *slots;
	uint32	   *tenants;
	uint32	   *buckets;
} State;

extern const uint32 state_record_size[N_SAVED];

/* Puts everything back; it was checked that it fits. */
extern void state_restore(State *state);

#endif							/* QUOTA_STATE_FILE_H */
