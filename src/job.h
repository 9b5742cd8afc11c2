/*
 * job.h
 *		What the files of the job queue share: columns of their tables, finding
 *		a job's rows and its flow.
 */
#ifndef QUOTA_JOB_H
#define QUOTA_JOB_H

#include "journal.h"
#include "row_write.h"

#include "fmgr.h"

/* Attribute numbers of quota.jobs */
enum JobColumn
{
	JOB_ID = 1,
	JOB_FLOW,
	JOB_CREATED_AT,
	JOB_ATTEMPT,
	JOB_MAX_ATTEMPTS,
	JOB_TENANT,
	JOB_PROVIDER,
	JOB_ENDPOINT,
	JOB_CLASS,
	JOB_PAYLOAD,
	JOB_UNITS,
	JOB_RUN_AT,
	JOB_START_BEFORE,
	JOB_DEDUPE_KEY,
	JOB_USER,
	JOB_CONNECTION,
	JOB_RESOURCE,
	JOB_STATE,
	JOB_STARTED_AT,
	JOB_FINISHED_AT,
	JOB_STATUS,
	JOB_RESULT,
	JOB_ERROR,
	JOB_HISTORY
};

/* Attribute numbers of quota.leases */
enum LeaseColumn
{
	LEASE_JOB_ID = 1,
	LEASE_FLOW,
	LEASE_READY_AT,
	LEASE_ORIGINAL_AT,
	LEASE_CLAIMED_AT,
	LEASE_ATTEMPT,
	LEASE_STATE,
	LEASE_CANCEL_REQUESTED,
	LEASE_PERMIT,
	LEASE_BATCH,
	LEASE_WORKER
};

/* Values of quota.leases.state */
#define LEASE_RUNNING	'r'		/* ready_at is steady time */
#define LEASE_RETRY		't'		/* steady time */
#define LEASE_SCHEDULED 's'		/* wall clock */

/* What a flow is the flow of. */
typedef struct JobNames
{
	char		tenant[QUOTA_NAME_LEN];
	char		provider[QUOTA_NAME_LEN];
	char		endpoint[QUOTA_NAME_LEN];	/* "" = none */
	char		class_name[QUOTA_NAME_LEN];
	int64		hash;			/* quota_flow_hash() of them */
} JobNames;

/* Lease of a job whose provider has no row (restored, not configured yet) */
#define JOB_DEFAULT_LEASE_NS (60 * QUOTA_NS_PER_S)

typedef enum JobFind
{
	JOB_FOUND,
	JOB_NONE,
	JOB_IN_PROGRESS				/* another transaction is writing it */
} JobFind;

/* A note that says nothing yet; on_abort: what it will say holds either way. */
static inline JournalNote
job_empty_note(bool on_abort)
{
	JournalNote note;

	memset(&note, 0, sizeof(note));
	note.lo = 1;				/* no ids: lo > hi */
	note.due_ns = QUOTA_NEVER;
	note.place = DT_NOBEGIN;
	note.on_abort = on_abort;
	return note;
}

/* ---- job_row.c ---- */

extern bool job_state_is(TupleTableSlot *job, const char *state);
extern bool job_is_fresh(TupleTableSlot *job);
extern void job_names_of(TupleTableSlot *job, JobNames *names);
extern QuotaCall job_call_of(const JobNames *names);
extern QuotaCall job_call_with_names(TupleTableSlot *job, const JobNames *names);
extern bool job_has_own_terms(TupleTableSlot *job);
extern bool job_has_names(TupleTableSlot *job, const JobNames *names);

extern JobFind job_find(RowTable *table, QuotaRelation pkey, int64 id,
						TupleTableSlot *slot);
pg_noreturn extern void job_error_running(int64 id);

extern void job_write(RowTable *jobs, TupleTableSlot *job,
					  const RowValues *change);
extern const RowValues *job_write_take(int64 id);

/* A job that is ready at a time and that nobody runs, or whose worker is unknown. */
typedef struct JobLease
{
	int64		id;
	int64		flow;
	int32		attempt;
	char		state;
	TimestampTz ready_at;
	TimestampTz original_at;
} JobLease;

extern void job_insert_lease(RowTable *leases, const JobLease *lease,
							 int64 now_ns, JournalNote *note);
extern int64 job_lease_arg(FunctionCallInfo fcinfo, int i, const char *name);

/* ---- job_flow.c ---- */

extern uint32 job_database_slot(void);
extern uint32 job_lock_flow(const JobNames *names, uint32 *slot);
/* Copies what names the flow; its slot's lock is held. */
extern void job_names_of_flow(uint32 flow, JobNames *names);
extern void job_note(const JobNames *names, const JournalNote *note);
extern void job_note_ended(const JobNames *names, const JournalNote *note,
						   int64 latency_ns);
extern int64 job_due_ns(char lease_state, TimestampTz ready_at, int64 now_ns,
						TimestampTz wall_us);

/* ---- job_load.c ---- */

/*
 * Makes sure that the flows of this database are in shared memory.  Every
 * function and trigger that writes quota.jobs or quota.leases calls this before
 * it writes.  No lock held; throws.
 */
extern void job_load(void);

/* ---- job_dequeue.c ---- */

/*
 * A job of the provider could be claimed now, but for rows that somebody has
 * locked.  What can't be claimed is parked, as by quota_dequeue().  After
 * job_load(); no lock held; throws.
 */
extern bool job_may_claim(const char *provider);

/* ---- job_count.c ---- */

/*
 * The same, and that the counts of unfinished jobs are right, and no flow with
 * ready jobs is missing.  After a start of the server this may take as long as
 * reading all of quota.jobs once.  True if they had to be counted: what was cached
 * of flows may be gone.
 */
extern bool job_load_counts(void);

#endif							/* QUOTA_JOB_H */
