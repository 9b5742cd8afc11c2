/*
 * flow_across.c
 *		How flows learn that a limit across providers has room again.
 *
 * The bucket of such a limit is of the database's slot, and flows of any provider's
 * slot may wait for it, each at a far gate of its own slot (gate.c); the slot itself
 * may be closed by it (flow_close.c).  An event on the bucket happens under the lock of
 * the database's slot, often with one provider's lock held too, and no other
 * provider's may be taken then (shmem.h).  So it is noted by the backend, and told,
 * slot by slot, as soon as the backend has let go of its locks.
 *
 * PROTOCOL
 *
 *	Parking	A decision that is to park a flow for the bucket, or to close its slot, has
 *			both locks: what it decided by, and that somebody waits
 *			(quota_far_waits[slot] > 0), is one section under the database's lock.
 *	Event	across_note(), in the section under the database's lock that changes the
 *			bucket.  It allocates nothing: notes have a fixed place; of more than
 *			there is room for only that there were some is known, and all that wait
 *			for anything across providers look again.
 *	Telling	across_tell(), with no lock held: by whoever released the database's lock,
 *			or a provider's under which permits may have expired, before it does
 *			anything that can fail.  It takes the locks of the slots in which somebody
 *			waits, one at a time.
 *
 * By time, each gate opens by itself (gate_set_time()), in every slot: refills and
 * ends of permits need nobody to tell of them.  What is new in the configuration
 * frees all flows of all slots (job_refresh.c).
 *
 * WHAT CANNOT GO WRONG
 *
 * - A release between a decision and its parking: the release comes before the
 *	 decision under the database's lock, which sees it; or after, and then who
 *	 releases sees quota_far_waits of that slot.
 * - Between note and telling nothing can happen to the backend: no allocation, error
 *	 or interrupt is in between.  One that is killed takes all of shared memory along.
 * - The flow has been freed, or its slot removed, when it is told: a gate is looked
 *	 for by the bucket's key under the slot's lock, and is not there.  A note names the
 *	 bucket by its key too: it may be forgotten and its place taken meanwhile.
 * - The flow is parked between note and telling, having decided after the event: it is
 *	 freed for nothing, once.
 * - An event that undoes what a call has just taken frees, in every slot, only who
 *	 was refused since ("parkings", see flow_gate.c): parkings are numbered over all
 *	 slots, and numbers of flows that wait for the database's buckets are drawn under
 *	 its lock.  A number that was read before that lock was taken is less.
 * - Telling tells others of one's own slot as well: its own flow was parked after the
 *	 undo that is told of, or is not freed by its number.
 *
 * WHO GETS IT.  An event gives the turn to one flow of each line and provider that
 * wait there, as workers of one provider can't take jobs of another: holding the
 * others back would leave a unit unused whenever nobody asks for that provider.
 * Who of them asks first has it, and the others stand in line again, first.  So within a
 * provider the lines are fair; between providers whose workers both ask, each has what
 * it comes first for, and a dear job can wait for as long as cheaper ones of other
 * providers take each unit that comes back.
 */
#include "flow_gate.h"

#include "waiter.h"

/* An event on a bucket that others have to be told of. */
typedef struct Note
{
	QuotaKey	key;
	uint32		bucket;
	Oid			database;
	Oid			extension;
	uint64		parkings;
} Note;

#define MAX_NOTES 16

static Note notes[MAX_NOTES];
static int	n_notes = 0;
static bool lost = false;		/* there were more */

/* Are notes to be told? */
bool		across_noted = false;

/* See flow.h. */
void
across_note(uint32 bucket, uint64 parkings)
{
	const QuotaBucket *b = &quota_buckets[bucket];
	int			i = 0;

	across_noted = true;
	while (i < n_notes && !(notes[i].bucket == bucket &&
							quota_key_equal(&notes[i].key, &b->entry.key)))
		i++;
	if (i < n_notes)
	{
		notes[i].parkings = Min(notes[i].parkings, parkings);
		return;
	}
	if (i == MAX_NOTES)
	{
		lost = true;
		return;
	}
	notes[i].key = b->entry.key;
	notes[i].bucket = bucket;
	notes[i].database = slot_of(b)->database;
	notes[i].extension = slot_of(b)->extension;
	notes[i].parkings = parkings;
	n_notes++;
}

/* Tells who waits in the slot of one note; slot lock held. */
static void
tell_note(uint32 slot, const Note *note)
{
	QuotaGate  *gate;

	if (quota_slots[slot].database != note->database ||
		quota_slots[slot].extension != note->extension)
		return;
	gate = gate_find_far(&note->key, slot);
	if (gate)
		flow_gate_opened(gate, note->parkings);
	flow_open_since(slot, note->bucket, note->parkings);
}

/* Tells who waits in the slot. */
static void
tell_slot(uint32 slot)
{
	QuotaSlot  *s = &quota_slots[slot];

	quota_lock(&s->lock);
	if (s->entry.used)
	{
		waiter_together(true);
		for (int i = 0; i < n_notes; i++)
			tell_note(slot, &notes[i]);
		waiter_together(false);
		if (lost)
		{
			flow_unpark_all(slot);
			if (s->closed.across)
				flow_open_since(slot, QUOTA_NO_INDEX, 0);
		}
	}
	LWLockRelease(&s->lock);
}

/* See flow.h. */
void
across_tell_noted(void)
{
	for (uint32 i = 0; i < (uint32) quota_max_providers; i++)
		if (pg_atomic_read_u32(&quota_far_waits[i]) > 0)
			tell_slot(i);
	n_notes = 0;
	lost = across_noted = false;
}
