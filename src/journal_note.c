/*
 * journal_note.c
 *		Records of what others will learn at the end of the transaction: flows of
 *		their jobs and places, batches of jobs that leave them, background workers
 *		of finished jobs and deadlines.
 *
 * They are many where a statement touches many jobs, so they merge: one for each
 * flow, batch or kind of deadline and subtransaction, as long as hints find it.
 * Hints are positions that may be wrong: journal_matches() tells, and a hint that is
 * lost costs a record.  The protocol is told in journal.c.
 */
#include "journal_records.h"

#include "access/xact.h"
#include "catalog.h"
#include "flow.h"

/*
 * Notes of many flows in turn find their record by this; those for either end of
 * the transaction and those for COMMIT alone take turns, so each has its own.
 */
#define NOTE_HINTS 16384

static int	note_hints[NOTE_HINTS][2];
static int	deadline_hints[2][2];

/* Jobs of many batches in turn find the record of theirs by this. */
#define LEAVE_HINTS 256

static int	leave_hints[LEAVE_HINTS];

/* Two notes for one flow become one. */
static void
merge_note(JournalNote *into, const JournalNote *note)
{
	if (note->lo <= note->hi)
	{
		bool		none = into->lo > into->hi;

		into->lo = none ? note->lo : Min(into->lo, note->lo);
		into->hi = none ? note->hi : Max(into->hi, note->hi);
	}
	into->depth += note->depth;
	into->in_flight += note->in_flight;
	into->completed += note->completed;
	into->cost += note->cost;
	into->places += note->places;
	if (note->due_ns == QUOTA_NEVER)
		return;
	into->place = into->due_ns == QUOTA_NEVER ? note->place
		: Min(into->place, note->place);
	into->due_ns = Min(into->due_ns, note->due_ns);
}

/* See journal.h. */
void
journal_note(uint32 flow, const JournalNote *note)
{
	int		   *hint = &note_hints[flow % NOTE_HINTS][note->on_abort];

	if (note->places != 0)
		flow_add_places(&quota_flows[flow], note->places);
	if (journal_matches(*hint, RECORD_NOTE, flow) &&
		journal_records[*hint].u.note.on_abort == note->on_abort &&
		journal_records[*hint].u.note.gone == note->gone)
	{
		merge_note(&journal_records[*hint].u.note, note);
		return;
	}
	*hint = journal_nrecords;
	journal_append(RECORD_NOTE, flow)->u.note = *note;
	pg_atomic_fetch_add_u32(&quota_flows[flow].pins, 1);
}

/* Takes up to n places off the record; how many. */
static int64
places_back(int position, uint32 flow, int64 n)
{
	if (n == 0 || !journal_matches(position, RECORD_NOTE, flow))
		return 0;
	n = Min(n, journal_records[position].u.note.places);
	journal_records[position].u.note.places -= n;
	return n;
}

/* See journal.h.  The record is the flow's newest, unless others have its hint. */
void
journal_places_back(uint32 flow, int64 n)
{
	int64		left = n - places_back(note_hints[flow % NOTE_HINTS][false], flow, n);

	for (int i = journal_nrecords - 1; i >= 0 && left > 0; i--)
		left -= places_back(i, flow, left);
	flow_add_places(&quota_flows[flow], left - n);
}

/* See journal.h. */
void
journal_finished(uint32 flow, uint32 database_slot, int64 job, uint8 state)
{
	JournalRecord *r = journal_append(RECORD_FINISHED, flow);

	r->u.finished.job = job;
	r->u.finished.database_slot = database_slot;
	r->u.finished.state = state;
	pg_atomic_fetch_add_u32(&quota_flows[flow].pins, 1);
}

/* See journal.h. */
void
journal_deadline(uint32 database_slot, TimestampTz start_before,
				 bool on_commit, bool on_abort)
{
	int		   *hint = &deadline_hints[on_commit][on_abort];
	JournalRecord *r;

	if (journal_matches(*hint, RECORD_DEADLINE, database_slot) &&
		journal_records[*hint].u.deadline.on_commit == on_commit &&
		journal_records[*hint].u.deadline.on_abort == on_abort)
	{
		r = &journal_records[*hint];
		r->u.deadline.start_before = Min(r->u.deadline.start_before, start_before);
		return;
	}
	*hint = journal_nrecords;
	r = journal_append(RECORD_DEADLINE, database_slot);
	r->u.deadline.start_before = start_before;
	r->u.deadline.on_commit = on_commit;
	r->u.deadline.on_abort = on_abort;
}

/* See journal.h. */
void
journal_batch_left(int64 batch)
{
	uint32		tag = (uint32) (batch & ((1 << QUOTA_PERMIT_INDEX_BITS) - 1));
	int		   *hint = &leave_hints[tag % LEAVE_HINTS];
	JournalRecord *r;

	if (journal_matches(*hint, RECORD_LEAVE, tag) &&
		journal_records[*hint].u.leave.id == batch)
	{
		journal_records[*hint].u.leave.n++;
		return;
	}
	*hint = journal_nrecords;
	r = journal_append(RECORD_LEAVE, tag);
	r->u.leave.id = batch;
	r->u.leave.n = 1;
	r->u.leave.extension = quota_catalog()->extension;
}

/* See journal.h. */
void
journal_pause(uint32 pause, int64 id, uint8 act, uint64 version)
{
	JournalRecord *r = journal_append(RECORD_PAUSE, pause);

	r->u.pause.id = id;
	r->u.pause.act = act;
	r->u.pause.version = version;
}
