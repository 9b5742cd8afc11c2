/*
 * notify.c
 *		Notices of finished jobs: see notify.h.
 */
#include "notify.h"

#include "catalog.h"
#include "commands/async.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/json.h"
#include "utils/memutils.h"

#define BATCH 200				/* notices in one transaction */

/* Final states, by the number that a notice has. */
static const char *const states[] = {"succeeded", "failed", "cancelled"};

/* ---- telling ---- */

/* See notify.h. */
void
notify_note(TupleTableSlot *job, const char *state)
{
	uint8		number = 0;
	uint32		database_slot;
	uint32		slot;
	uint32		flow;
	JobNames	names;

	if (!quota_notifies())
		return;
	job_names_of(job, &names);
	if (quota_notify_channel(names.provider) == NULL)
		return;
	while (strcmp(states[number], state) != 0)
		number++;
	database_slot = job_database_slot();
	journal_reserve(1);
	flow = job_lock_flow(&names, &slot);
	journal_finished(flow, database_slot, row_int64(job, JOB_ID), number);
	LWLockRelease(&quota_slots[slot].lock);
}

/* The place of a position; lock held. */
static inline QuotaNotice *
notice_at(uint64 position)
{
	return &quota_shared->notices[position % QUOTA_NOTICE_RING];
}

/* See notify.h. */
void
notify_push(uint32 flow, int64 job, uint8 state)
{
	const QuotaShare *share = share_of(&quota_flows[flow]);
	QuotaSlot  *slot = slot_of(&quota_flows[flow]);

	LWLockAcquire(quota_shared->notices_lock, LW_EXCLUSIVE);
	if (quota_shared->notice_head - quota_shared->notice_tail == QUOTA_NOTICE_RING)
		slot->notices_lost++;
	else
	{
		QuotaNotice *notice = notice_at(quota_shared->notice_head);

		notice->database = slot->database;
		notice->job = job;
		notice->state = state;
		strlcpy(notice->provider, slot->provider, QUOTA_NAME_LEN);
		strlcpy(notice->tenant, tenant_of(share)->name, QUOTA_NAME_LEN);
		quota_shared->notice_head++;
	}
	LWLockRelease(quota_shared->notices_lock);
}

/* ---- the worker ---- */

/* Copies up to BATCH notices of this database. */
static QuotaNotice *
copy_notices(NoticeBatch *batch)
{
	QuotaNotice *notices = palloc(BATCH * sizeof(QuotaNotice));

	batch->n = 0;
	LWLockAcquire(quota_shared->notices_lock, LW_SHARED);
	batch->end = quota_shared->notice_tail;
	while (batch->end < quota_shared->notice_head && batch->n < BATCH)
	{
		const QuotaNotice *notice = notice_at(batch->end++);

		if (notice->database == MyDatabaseId)
			notices[batch->n++] = *notice;
	}
	LWLockRelease(quota_shared->notices_lock);
	return notices;
}

/* Sends one notice, if its provider still has a channel. */
static void
send(const QuotaNotice *notice)
{
	const char *channel = quota_notify_channel(notice->provider);
	StringInfoData payload;

	if (channel == NULL)
		return;
	initStringInfo(&payload);
	appendStringInfo(&payload, "{\"id\": " INT64_FORMAT ", \"state\": \"%s\", \"provider\": ",
					 notice->job, states[notice->state]);
	escape_json(&payload, notice->provider);
	appendStringInfoString(&payload, ", \"tenant\": ");
	escape_json(&payload, notice->tenant);
	appendStringInfoChar(&payload, '}');
	Async_Notify(channel, payload.data);
	pfree(payload.data);
}

/* How many notices of the slot, a provider of this database, were lost; its name. */
static int64
count_lost(uint32 index, char provider[QUOTA_NAME_LEN])
{
	QuotaSlot  *slot = &quota_slots[index];
	int64		lost = 0;

	LWLockAcquire(&slot->lock, LW_SHARED);
	if (slot->entry.used && slot->database == MyDatabaseId)
	{
		lost = slot->notices_lost;
		strlcpy(provider, slot->provider, QUOTA_NAME_LEN);
	}
	LWLockRelease(&slot->lock);
	return lost;
}

/*
 * Tells how many notices of one provider were lost.  It is named: the server makes
 * one of equal notifications, and providers may share a channel.
 */
static void
send_count(const char *channel, const char *provider, int64 lost)
{
	StringInfoData payload;

	initStringInfo(&payload);
	appendStringInfoString(&payload, "{\"provider\": ");
	escape_json(&payload, provider);
	appendStringInfo(&payload, ", \"lost\": " INT64_FORMAT "}", lost);
	Async_Notify(channel, payload.data);
	pfree(payload.data);
}

/* Tells how many notices of each provider were lost. */
static void
send_lost(NoticeBatch *batch)
{
	for (uint32 i = 0; i < (uint32) quota_max_providers; i++)
	{
		char		provider[QUOTA_NAME_LEN];
		const char *channel;

		batch->lost[i] = count_lost(i, provider);
		if (batch->lost[i] == 0)
			continue;
		channel = quota_notify_channel(provider);
		if (channel)
			send_count(channel, provider, batch->lost[i]);
	}
}

/* See notify.h. */
bool
notify_send(NoticeBatch *batch)
{
	QuotaNotice *notices = copy_notices(batch);

	if (batch->lost == NULL)
		batch->lost = MemoryContextAllocHuge(TopMemoryContext,
											 quota_max_providers * sizeof(int64));
	for (int i = 0; i < batch->n; i++)
		send(&notices[i]);
	pfree(notices);
	send_lost(batch);
	return batch->n == BATCH;
}

/* Marks this database's notices before "end" as done; lock held. */
static void
mark_done(Oid database, uint64 end)
{
	for (uint64 i = quota_shared->notice_tail; i < end; i++)
		if (notice_at(i)->database == database)
			notice_at(i)->database = InvalidOid;
	while (quota_shared->notice_tail < quota_shared->notice_head &&
		   notice_at(quota_shared->notice_tail)->database == InvalidOid)
		quota_shared->notice_tail++;
}

/* See notify.h. */
void
notify_done(const NoticeBatch *batch)
{
	LWLockAcquire(quota_shared->notices_lock, LW_EXCLUSIVE);
	mark_done(MyDatabaseId, batch->end);
	LWLockRelease(quota_shared->notices_lock);
	for (uint32 i = 0; i < (uint32) quota_max_providers; i++)
	{
		QuotaSlot  *slot = &quota_slots[i];

		if (batch->lost[i] == 0)
			continue;
		quota_lock(&slot->lock);
		if (slot->entry.used && slot->database == MyDatabaseId)
			slot->notices_lost -= Min(batch->lost[i], slot->notices_lost);
		LWLockRelease(&slot->lock);
	}
}

/* See notify.h. */
void
notify_forget(Oid database)
{
	LWLockAcquire(quota_shared->notices_lock, LW_EXCLUSIVE);
	mark_done(database, quota_shared->notice_head);
	LWLockRelease(quota_shared->notices_lock);
}
