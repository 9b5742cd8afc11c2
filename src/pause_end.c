/*
 * pause_end.c
 *		What becomes of pauses when a transaction ends, and of what they kept.
 *
 * For the journal, which knows them by their place in the table and their id: an entry
 * that has another id by now is another pause.  For the locks see pause.c: an entry
 * changes under pause_lock, and who waits for its end is woken after that, under the
 * lock of one slot at a time.  Nothing here allocates or throws.
 */
#include "pause_table.h"

#include "asker.h"
#include "flow.h"
#include "journal.h"
#include "waiter.h"
#include "worker.h"

/* In one slot; its lock is held. */
static void
wake_slot(uint32 slot, const QuotaPause *gone)
{
	flow_unpark_paused(slot, gone->tenant, gone->endpoint);
	waiter_wake(slot);
	asker_call_roll(slot);
}

/* The lock is not held: what a pause kept may go on. */
static void
wake(const QuotaPause *gone)
{
	Oid			database = quota_slots[gone->database_slot].database;

	for (uint32 i = 0; i < (uint32) quota_max_providers; i++)
	{
		QuotaSlot  *slot = &quota_slots[i];

		if (gone->owner != gone->database_slot && i != gone->owner)
			continue;
		if (!slot->entry.used || slot->database != database)
			continue;
		quota_lock(&slot->lock);
		if (slot->entry.used && slot->database == database)
			wake_slot(i, gone);
		LWLockRelease(&slot->lock);
		across_tell();
	}
}

/* See pause.h. */
void
pause_undo_take(uint32 index, int64 id)
{
	QuotaPause	gone;
	bool		freed = false;

	LWLockAcquire(quota_shared->pause_lock, LW_EXCLUSIVE);
	if (quota_pauses[index].used && quota_pauses[index].id == id)
	{
		gone = quota_pauses[index];
		pause_free(index);
		freed = true;
	}
	LWLockRelease(quota_shared->pause_lock);
	if (freed)
		wake(&gone);
}

/* It is over at COMMIT, unless it was reported again; the lock is held. */
static bool
end_now(QuotaPause *p, uint64 version)
{
	if (p->version != version || pg_atomic_read_u64(&p->over_ns) != 0)
		return false;
	pg_atomic_write_u64(&p->over_ns, (uint64) Max(quota_now_ns(), 1));
	p->told = p->resumed = true;
	p->unwritten = false;
	return true;
}

/* See pause.h. */
void
pause_commit(uint32 index, int64 id, uint8 act, uint64 version)
{
	QuotaPause *p = &quota_pauses[index];
	QuotaPause	gone;
	bool		ended = false;

	LWLockAcquire(quota_shared->pause_lock, LW_EXCLUSIVE);
	if (p->used && p->id == id)
		switch ((PauseAct) act)
		{
			case PAUSE_TAKEN:
				p->open = false;
				quota_work_due(p->database_slot, quota_now_ns());
				break;
			case PAUSE_ENDED:
				ended = end_now(p, version);
				/* a row may have been written that the resume has not seen */
				quota_work_due(p->database_slot, quota_now_ns() +
							   (p->reported ? 0 : PAUSE_LINGER_NS));
				gone = *p;
				break;
			case PAUSE_WRITTEN:
				p->unwritten &= p->version != version;
				break;
			case PAUSE_TOLD:
				p->told |= p->version == version;
				break;
		}
	LWLockRelease(quota_shared->pause_lock);
	if (ended)
		wake(&gone);
}
