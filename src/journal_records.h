/*
 * journal_records.h
 *		Between journal.c, journal_call.c and journal_note.c, which record, and
 *		journal_end.c and journal_record_end.c, which undo and commit: the records of
 *		the open transaction.
 */
#ifndef QUOTA_JOURNAL_RECORDS_H
#define QUOTA_JOURNAL_RECORDS_H

#include "journal.h"

typedef enum JournalRecordType
{
	RECORD_TAKE,				/* rate: units taken */
	RECORD_FIRST,				/* retry budget: first attempts counted */
	RECORD_CALL,				/* a direct call that nothing was told of yet */
	RECORD_ADJUST,				/* allowance: units taken now or given later */
	RECORD_SHADOW,				/* shadow allowance: units counted */
	RECORD_PROBE,				/* breaker: calls that try it */
	RECORD_LEAD,				/* a share's tag: moved by direct calls */
	RECORD_CLAIM,				/* a job */
	RECORD_EXTEND,				/* a permit's later end */
	RECORD_GIVE,				/* some calls of a permit, that are given back */
	RECORD_NOTE,				/* what a flow will learn */
	RECORD_LEAVE,				/* jobs that leave the permit of their batch */
	RECORD_FINISHED,			/* a job to be told of */
	RECORD_DEADLINE,			/* a job that should start in time */
	RECORD_PAUSE,				/* a pause, made, ended or written */
	RECORD_LOAD_BUCKET,			/* an allowance is LOADING by us */
	RECORD_LOAD_QUEUE,			/* a database's flows are LOADING by us */
	RECORD_COUNT_QUEUE			/* its jobs are being counted by us */
} JournalRecordType;

typedef struct JournalRecord
{
	uint8		type;
	bool		alone;			/* of a claim: no other take merges with it */
	SubTransactionId sub;
	uint32		object;			/* index of bucket, share, flow, slot, permit or
								 * pause; of RECORD_CALL a hash of its names */
	union
	{
		struct
		{
			MeterTake	take;
			int64		units;	/* taken in all, */
			int64		kept;	/* of them by calls that went out for sure: an abort
								 * does not return them */
			uint32		portion;	/* as of this one: pinned, or QUOTA_NO_INDEX */
		}			rate;		/* and of RECORD_FIRST */
		struct
		{
			int32		n;		/* alike, of which nothing was told */
			int32		ntakes; /* each of them took so many units of the records */
			int32		take[QUOTA_MAX_TERMS];	/* at these places */
			int64		units[QUOTA_MAX_TERMS];
			QuotaCallNames names;
		}			call;
		FairLead	lead;
		struct
		{
			int64		taken;
			int64		given;
			int64		lapsed;	/* of these: units of lost holds */
			int64		loose;	/* units of loose holds that are resolved, */
			bool		overdue;	/* as spent */
			int64		period_us;
			int64		at_us;	/* the instant charged; DT_NOBEGIN = of none */
			int64		grant_us;	/* the grant that is given, the same */
		}			adjust;
		struct
		{
			int64		n;
			int64		period_us;
		}			shadow;
		struct
		{
			int64		n;
			int64		until_ns;	/* given back then at the latest */
			int64		permit; /* id of the call's, or 0 */
		}			probe;
		struct
		{
			JournalClaim claim;
			int			ntakes; /* records right before this one that belong to
								 * the claim: of rates, first attempts, probes */
		}			c;
		struct
		{
			int64		id;		/* the permit may end before we do */
			int64		before_ns;	/* its end */
			int64		after_ns;
			Oid			extension;	/* for permit_lock() */
		}			extend;
		struct
		{
			int64		id;		/* the permit may end before we do */
			int32		n;
			Oid			extension;	/* for permit_lock() */
		}			leave;			/* and of RECORD_GIVE */
		JournalNote note;
		struct
		{
			int64		job;
			uint32		database_slot;
			uint8		state;
		}			finished;
		struct
		{
			TimestampTz start_before;
			bool		on_commit;
			bool		on_abort;
		}			deadline;
		struct
		{
			int64		id;		/* it may be another one by then */
			uint64		version;
			uint8		act;	/* PauseAct */
		}			pause;
	}			u;
} JournalRecord;

/* oldest first; the two chains run from the newest permit to the oldest */
extern JournalRecord *journal_records;
extern int	journal_nrecords;
extern uint32 journal_taken_head;
extern uint32 journal_marked_head;

/* ---- journal.c ---- */

/* A new record at the end, for which room was reserved. */
extern JournalRecord *journal_append(JournalRecordType type, uint32 object);

/* A record of the present subtransaction, of this type and object. */
extern bool journal_matches(int position, JournalRecordType type, uint32 object);

/*
 * The record claims the job, whose call went out: what it took of rates is not
 * returned any more.
 */
extern bool journal_spend_claim(int position, int64 job);

/* The transaction is over: nothing is recorded any more. */
extern void journal_clear(void);

/* ---- journal_call.c ---- */

/* n units were taken in the record at this place, by the call that is being charged. */
extern void journal_call_took(int position, int64 n);

/* ---- journal_record_end.c ---- */

/* As if it had not been recorded; parkings as in JournalMark. */
extern void journal_undo_record(JournalRecord *r, uint64 parkings);

/* It is final; what it gives counts from now on. */
extern void journal_commit_record(JournalRecord *r);

/* Of a note: the jobs that its queue places were for are counted now, by all notes. */
extern void journal_give_up_places(const JournalRecord *r);

/* Holds what protects a permit in one of our chains and its parts. */
extern void journal_lock_permit(uint32 index);

/* Lets go of the locks that these functions hold. */
extern void journal_unlock(void);

/* The server has released all locks before it calls us in an abort. */
extern void journal_forget_locks(void);

#endif							/* QUOTA_JOURNAL_RECORDS_H */
