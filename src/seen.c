/*
 * seen.c
 *		The ring of answers that wait for a background worker to write them.
 *
 * As the ring of events (event.c), and under the same lock: position p is in place
 * p % QUOTA_SEEN_RING, [seen_tail, seen_head) are in use, all databases share it, and
 * an answer in its middle that is done has the database InvalidOid.  When it is full
 * the new answer is dropped and counted: what came first tells more.
 */
#include "seen.h"

#include "event.h"
#include "feedback.h"
#include "miscadmin.h"
#include "row_write.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"
#include "worker.h"

#define BATCH	50				/* rows in one transaction */

/* The place of a position; lock held. */
static inline QuotaSeen *
seen_at(uint64 position)
{
	return &quota_shared->seen[position % QUOTA_SEEN_RING];
}

/* See seen.h. */
void
seen_note(const QuotaSeen *answer)
{
	LWLockAcquire(quota_shared->events_lock, LW_EXCLUSIVE);
	if (quota_shared->seen_head - quota_shared->seen_tail == QUOTA_SEEN_RING)
		quota_shared->seen_lost++;
	else
		*seen_at(quota_shared->seen_head++) = *answer;
	LWLockRelease(quota_shared->events_lock);
	quota_worker_wake();
}

/* See seen.h. */
bool
seen_pending(Oid database)
{
	bool		found = false;

	LWLockAcquire(quota_shared->events_lock, LW_SHARED);
	for (uint64 i = quota_shared->seen_tail;
		 i < quota_shared->seen_head && !found; i++)
		found = seen_at(i)->database == database;
	LWLockRelease(quota_shared->events_lock);
	return found;
}

/* Copies up to BATCH answers of this database; says how many. */
static int
copy(Oid database, QuotaSeen *answers, SeenBatch *batch)
{
	int			n = 0;

	LWLockAcquire(quota_shared->events_lock, LW_SHARED);
	batch->end = quota_shared->seen_tail;
	batch->lost = quota_shared->seen_lost;
	while (batch->end < quota_shared->seen_head && n < BATCH)
	{
		const QuotaSeen *answer = seen_at(batch->end++);

		if (answer->database == database)
			answers[n++] = *answer;
	}
	LWLockRelease(quota_shared->events_lock);
	return n;
}

/* Marks this database's answers before "end" as done; lock held. */
static void
mark_done(Oid database, uint64 end)
{
	for (uint64 i = quota_shared->seen_tail; i < end; i++)
		if (seen_at(i)->database == database)
			seen_at(i)->database = InvalidOid;
	while (quota_shared->seen_tail < quota_shared->seen_head &&
		   seen_at(quota_shared->seen_tail)->database == InvalidOid)
		quota_shared->seen_tail++;
}

/* See seen.h. */
void
seen_done(Oid database, const SeenBatch *batch)
{
	LWLockAcquire(quota_shared->events_lock, LW_EXCLUSIVE);
	mark_done(database, batch->end);
	/* another database's worker may have told of them at the same time */
	quota_shared->seen_lost -= Min(batch->lost, quota_shared->seen_lost);
	LWLockRelease(quota_shared->events_lock);
}

/* See seen.h. */
void
seen_forget(Oid database)
{
	LWLockAcquire(quota_shared->events_lock, LW_EXCLUSIVE);
	mark_done(database, quota_shared->seen_head);
	LWLockRelease(quota_shared->events_lock);
}

/* ---- rows ---- */

/* "" stands for null too. */
static void
set_text(RowValues *row, int column, const char *value)
{
	row_set_text(row, column, value[0] ? value : NULL);
}

/* An interval of so many microseconds; negative: null. */
static void
set_interval(RowValues *row, int column, int64 us)
{
	Interval   *interval;

	if (us < 0)
		return;
	interval = palloc0(sizeof(Interval));
	interval->time = us;
	row_set(row, column, IntervalPGetDatum(interval));
}

/* Writes one row. */
static void
insert(RowTable *table, const QuotaSeen *answer)
{
	RowValues	row = row_values(table);

	row_set(&row, SEEN_AT, TimestampTzGetDatum(answer->at_us));
	set_text(&row, SEEN_PROVIDER, answer->provider);
	set_text(&row, SEEN_TENANT, answer->tenant);
	set_text(&row, SEEN_ENDPOINT, answer->endpoint);
	set_text(&row, SEEN_OUTCOME, feedback_class_name(answer->outcome));
	set_text(&row, SEEN_SCOPE, feedback_scope_name(answer->scope));
	if (answer->status >= 0)
		row_set(&row, SEEN_STATUS, Int32GetDatum(answer->status));
	set_text(&row, SEEN_REASON, answer->reason);
	set_interval(&row, SEEN_RETRY_AFTER, answer->retry_after_us);
	row_set(&row, SEEN_HEADERS,
			DirectFunctionCall1(jsonb_in, CStringGetDatum(answer->headers)));
	if (answer->in_flight >= 0)
		row_set(&row, SEEN_IN_FLIGHT, Int64GetDatum(answer->in_flight));
	if (answer->has_level)
		row_set(&row, SEEN_LEVEL, Int64GetDatum(answer->level));
	if (answer->attempt > 0)
		row_set(&row, SEEN_ATTEMPT, Int32GetDatum(answer->attempt));
	set_interval(&row, SEEN_LATENCY, answer->latency_us);
	row_fill_defaults(table, &row);
	row_insert(table, &row);
}

/* See seen.h. */
bool
seen_write(SeenBatch *batch)
{
	QuotaSeen  *answers = palloc(BATCH * sizeof(QuotaSeen));
	int			n = copy(MyDatabaseId, answers, batch);
	RowTable   *table;

	if (n == 0 && batch->lost == 0)
		return false;
	table = row_open(QUOTA_REL_FEEDBACK);
	for (int i = 0; i < n; i++)
		insert(table, &answers[i]);
	row_close(table);
	if (batch->lost > 0)
		event_insert(quota_wall_us(), "answers_lost", NULL, NULL,
					 psprintf(UINT64_FORMAT " answers found no room in quota.feedback",
							  batch->lost));
	return n == BATCH;
}
