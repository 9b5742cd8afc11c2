/*
 * worker_chores.c
 *		What a background worker does in its database.
 *
 * Each chore is one short transaction, repeated while it says that it is wanted
 * at once, for a bounded time: DROP DATABASE waits 5 seconds for the connection to
 * end, the next worker being a pause away.  So a run shares out two seconds: every
 * chore has its turn, and may use what those before it have left.
 *
 * Every transaction first locks the extension in share mode, without waiting, and
 * looks whether it still is the one it works for.  DROP EXTENSION takes that lock
 * exclusively before it locks any table, so the two cannot deadlock, and a chore
 * never meets half of an extension.
 *
 * A chore that fails is reported, and the others go on; the launcher then waits
 * longer before it starts the next worker.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog.h"
#include "catalog/pg_extension.h"
#include "clock.h"
#include "commands/extension.h"
#include "config.h"
#include "credit.h"
#include "event.h"
#include "flow.h"
#include "job.h"
#include "job_deadline.h"
#include "job_lapse.h"
#include "mark.h"
#include "miscadmin.h"
#include "notify.h"
#include "pause.h"
#include "permit.h"
#include "pgstat.h"
#include "row_role.h"
#include "rules.h"
#include "seen.h"
#include "shed.h"
#include "storage/lock.h"
#include "trim.h"
#include "utils/inval.h"
#include "utils/snapmgr.h"
#include "worker.h"

#define EVENT_BATCH		100		/* rows in one transaction */

#define MAX_RUN_NS		(2 * QUOTA_NS_PER_S)	/* of all chores together */
#define BUSY_NS			(10 * QUOTA_NS_PER_S)	/* somebody alters the extension */
#define HOLDS_NS		(10 * QUOTA_NS_PER_S)
#define PERMITS_NS		(10 * QUOTA_NS_PER_S)

typedef enum Guard
{
	GUARD_OK,
	GUARD_BUSY,					/* being dropped or altered */
	GUARD_GONE
} Guard;

/* The run of one worker. */
typedef struct Run
{
	uint32		slot;			/* of the database */
	Oid			extension;
	int64		until_ns;		/* real time: end of the chore's turn */
	EventBatch	events;			/* written by the open transaction */
	SeenBatch	seen;			/* the same */
	NoticeBatch notices;		/* sent by it */
	LedgerWalks reached;		/* by it, if it has folded */
	bool		folded;
	CreditWalk	holds;
	bool		failed;			/* some chore did */
} Run;

/* Does some of its work; returns when it is wanted next on the quota clock. */
typedef int64 (*Chore) (Run *run);

/* ---- the chores ---- */

/* So that nobody need wait for it. */
static int64
load_queue(Run *run)
{
	(void) job_load_counts();
	return QUOTA_NEVER;
}

/* See job_deadline.h. */
static int64
fail_late_jobs(Run *run)
{
	return job_deadline_walk(run->slot, run->until_ns);
}

/* See shed.h. */
static int64
tell_shed(Run *run)
{
	return shed_tell(MyDatabaseId, quota_now_ns());
}

/* Moves events from the ring to the table. */
static int64
write_events(Run *run)
{
	QuotaEvent *events = palloc(EVENT_BATCH * sizeof(QuotaEvent));

	quota_events_copy(MyDatabaseId, events, EVENT_BATCH, &run->events);
	for (int i = 0; i < run->events.n; i++)
		event_insert(events[i].at_us, events[i].kind, events[i].provider,
					 events[i].tenant, events[i].detail);
	if (run->events.lost > 0)
		event_insert(quota_wall_us(), "events_lost", NULL, NULL,
					 psprintf(UINT64_FORMAT " events found no room",
							  run->events.lost));
	/* a new event calls a worker by itself */
	return run->events.n < EVENT_BATCH ? QUOTA_NEVER : quota_now_ns();
}

/* See seen.h. */
static int64
write_answers(Run *run)
{
	/* a new answer calls a worker by itself */
	return seen_write(&run->seen) ? quota_now_ns() : QUOTA_NEVER;
}

/* See notify.h. */
static int64
send_notices(Run *run)
{
	/* a new notice calls a worker by itself */
	return notify_send(&run->notices) ? quota_now_ns() : QUOTA_NEVER;
}

/* Ends holds whose permit was lost. */
static int64
expire_holds(Run *run)
{
	run->holds.until_ns = run->until_ns;
	credit_expire(&run->holds);
	if (!run->holds.over)
		return quota_now_ns();
	return config_any_row(QUOTA_REL_HOLDS) ? quota_now_ns() + HOLDS_NS : QUOTA_NEVER;
}

/* See ledger.h. */
static int64
fold_ledger(Run *run)
{
	run->folded = true;
	return ledger_fold(run->slot, &run->reached);
}

/* See job_lapse.h. */
static int64
end_lapsed_jobs(Run *run)
{
	return job_lapse_walk(run->until_ns);
}

/* Tells of permits whose lifetime is over even if nobody decides any more. */
static int64
expire_permits(Run *run)
{
	int64		now_ns = quota_now_ns();
	int64		next_ns = QUOTA_NEVER;

	for (uint32 i = 0; i < (uint32) quota_max_providers; i++)
	{
		QuotaSlot  *slot = &quota_slots[i];

		quota_lock(&slot->lock);
		if (slot->entry.used && slot->database == MyDatabaseId)
		{
			permit_expire(i, now_ns);
			if (!pairingheap_is_empty(&slot->permits))
				next_ns = now_ns + PERMITS_NS;
		}
		LWLockRelease(&slot->lock);
		across_tell();
	}
	return next_ns;
}

/* Before a table of shared memory is full, so that no decision has to do it. */
static int64
reclaim(Run *run)
{
	const QuotaTable *const tables[] = {
		&quota_shared->slot_table, &quota_shared->bucket_table,
		&quota_shared->tenant_table, &quota_shared->share_table,
		&quota_shared->flow_table
	};

	for (int i = 0; i < lengthof(tables); i++)
		if (tables[i]->n_used > tables[i]->size / 4 * 3)
		{
			(void) quota_reclaim();
			break;
		}
	return QUOTA_NEVER;
}

/* See trim.h. */
static int64
trim_finished(Run *run)
{
	return trim_jobs(&quota_slots[run->slot].trim_position, run->until_ns);
}

/* See trim.h. */
static int64
trim_old_events(Run *run)
{
	return trim_events(run->until_ns);
}

/* See trim.h. */
static int64
trim_answers(Run *run)
{
	return trim_feedback(run->until_ns);
}

/* See trim.h. */
static int64
trim_keys(Run *run)
{
	return trim_old_keys(run->until_ns);
}

/* See pause.h. */
static int64
keep_pauses(Run *run)
{
	return pause_chore(run->slot, run->until_ns);
}

/* See mark.h. */
static int64
keep_marks(Run *run)
{
	return mark_walk_buckets(run->slot, run->until_ns);
}

/* See rules.h. */
static int64
renew_rules(Run *run)
{
	return rules_chore(run->slot, run->until_ns);
}

static const struct
{
	Chore		chore;
	const char *what;
}			chores[] = {
	/* first: a crash forgets what has no row yet */
	{keep_pauses, "keeping pauses"},
	{load_queue, "loading the queue"},
	{fail_late_jobs, "failing jobs that were not started in time"},
	{end_lapsed_jobs, "ending cancelled jobs whose lease is over"},
	{expire_permits, "expiring permits"},
	{renew_rules, "applying changed rules"},
	{keep_marks, "logging ahead for slow limits"},
	{tell_shed, "telling of refused jobs"},
	{write_events, "writing events"},
	{write_answers, "writing answers of providers"},
	{send_notices, "telling of finished jobs"},
	{expire_holds, "expiring holds"},
	{fold_ledger, "folding the ledger"},
	{reclaim, "reclaiming memory"},
	{trim_old_events, "trimming events"},
	{trim_answers, "trimming answers of providers"},
	{trim_keys, "trimming keys of calls"},
	{trim_finished, "trimming jobs"},
};

/* ---- running them ---- */

/* Keeps the extension from being dropped until the transaction ends. */
static Guard
guard(Oid extension)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, ExtensionRelationId, extension, 0);
	if (LockAcquire(&tag, AccessShareLock, false, true) ==
		LOCKACQUIRE_NOT_AVAIL)
		return GUARD_BUSY;
	AcceptInvalidationMessages();
	return get_extension_oid("quota", true) == extension ? GUARD_OK : GUARD_GONE;
}

/* One transaction of a chore; false when the extension is gone. */
static bool
run_once(Run *run, int which, int64 *next_ns)
{
	Guard		state;

	memset(&run->events, 0, sizeof(run->events));
	memset(&run->seen, 0, sizeof(run->seen));
	run->notices.end = 0;
	run->folded = false;
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	state = guard(run->extension);
	if (state == GUARD_OK)
	{
		pgstat_report_activity(STATE_RUNNING, chores[which].what);
		PushActiveSnapshot(GetTransactionSnapshot());
		*next_ns = chores[which].chore(run);
		PopActiveSnapshot();
	}
	else
		*next_ns = quota_now_ns() + BUSY_NS;
	/* events of an extension that was replaced are left to the new one */
	if (state == GUARD_GONE && !OidIsValid(get_extension_oid("quota", true)))
	{
		quota_events_forget(MyDatabaseId);
		seen_forget(MyDatabaseId);
		notify_forget(MyDatabaseId);
	}
	CommitTransactionCommand();
	if (run->events.n > 0 || run->events.lost > 0)
		quota_events_done(MyDatabaseId, &run->events);
	if (run->seen.end > 0)
		seen_done(MyDatabaseId, &run->seen);
	if (run->notices.end > 0)
		notify_done(&run->notices);
	if (run->folded)
		ledger_fold_done(run->slot, &run->reached);
	pgstat_report_stat(true);
	pgstat_report_activity(STATE_IDLE, NULL);
	return state != GUARD_GONE;
}

/* errcontext callback */
static void
describe_chore(void *arg)
{
	errcontext("while %s in the background", chores[*(int *) arg].what);
}

/* The same, for a chore that may fail; then it is still wanted. */
static bool
run_guarded(Run *run, int which, int64 *next_ns)
{
	MemoryContext context = CurrentMemoryContext;
	volatile bool exists = true;
	ErrorContextCallback describe = {error_context_stack, describe_chore, &which};

	error_context_stack = &describe;
	PG_TRY();
	{
		exists = run_once(run, which, next_ns);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		HOLD_INTERRUPTS();
		EmitErrorReport();
		AbortCurrentTransaction();
		FlushErrorState();
		RESUME_INTERRUPTS();
		pgstat_report_activity(STATE_IDLE, NULL);
		run->failed = true;
		*next_ns = quota_now_ns();
	}
	PG_END_TRY();
	error_context_stack = describe.previous;
	MemoryContextSwitchTo(context);
	return exists;
}

/*
 * One chore, as often as it is wanted and time allows; false when the extension
 * is gone.
 */
static bool
run_chore(Run *run, int which, int64 *next_ns)
{
	bool		failed_before = run->failed;
	bool		exists;

	run->failed = false;
	do
	{
		CHECK_FOR_INTERRUPTS();
		exists = run_guarded(run, which, next_ns);
	} while (exists && !run->failed && *next_ns <= quota_now_ns() &&
			 quota_raw_ns() < run->until_ns);
	run->failed |= failed_before;
	return exists;
}

/* See worker.h. */
bool
quota_chores(uint32 database_slot, Oid extension, int64 *next_ns)
{
	Run			run = {.slot = database_slot,.extension = extension};
	int64		end_ns = quota_raw_ns() + MAX_RUN_NS;

	row_role_be_worker();
	*next_ns = QUOTA_NEVER;
	for (int i = 0; i < lengthof(chores); i++)
	{
		int64		now_ns = quota_raw_ns();
		int64		chore_ns;

		run.until_ns = now_ns + (end_ns - now_ns) / (lengthof(chores) - i);
		if (!run_chore(&run, i, &chore_ns))
		{
			quota_sweep(MyDatabaseId, extension);
			*next_ns = QUOTA_NEVER;
			return true;
		}
		*next_ns = Min(*next_ns, chore_ns);
	}
	return !run.failed;
}
