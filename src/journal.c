/*
 * journal.c
 *		The transaction's journal: what it took from shared counters, and what it
 *		will give.
 *
 * PROTOCOL
 *
 * Takes act at once: journal_take(), journal_claim(), journal_permit_taken(),
 * journal_permit_extended() and journal_adjust(n > 0) are called under the owner
 * slot's lock in the same section that changes the counter, so there is no moment
 * at which a counter is charged and nobody would return it.  Room was made before
 * by journal_reserve(), the only function here that allocates.
 *
 * A record belongs to the subtransaction that made it.  Subtransactions nest, so
 * the records of the innermost open one are always a suffix of the array:
 * ABORT_SUB pops and undoes while the newest record is of the aborted
 * subtransaction, COMMIT_SUB relabels that suffix with the parent.  The two
 * chains of permits (taken, marked) run through the permit table from the
 * newest to the oldest and obey the same rule; they need no memory here.
 *
 * Gains act at commit: marks, notes and negative adjustments do nothing until
 * XACT_EVENT_COMMIT, when the commit record is durable and the rows are
 * visible, and are forgotten by (sub)abort.  PRE_COMMIT would be too early: the
 * transaction may still fail.  A backend that dies runs the ABORT callback on
 * its way out; one that is killed takes the whole of shared memory with it.
 *
 * Every object a record names is pinned by the record, so its index stays good
 * and a return can't reach a stranger; but for a database's slot, of which nothing
 * is lost that its successor would not look for anyway.  Pins are atomic: dropping
 * one needs no lock.  A permit that was extended may end before the transaction
 * does; it is found again by its id.
 *
 * What is only told at the end is recorded by journal_note.c; the callbacks are in
 * journal_end.c.
 */
#include "journal_records.h"

#include "access/xact.h"
#include "catalog.h"
#include "credit.h"
#include "floor.h"
#include "flow.h"
#include "mark.h"
#include "utils/memutils.h"

/* Takes of many buckets in turn, of different users for example, find theirs by this. */
#define TAKE_HINTS 16384

JournalRecord *journal_records;
int			journal_nrecords;
static int	max_records;
uint32		journal_taken_head = QUOTA_NO_INDEX;
uint32		journal_marked_head = QUOTA_NO_INDEX;
static int	take_hints[TAKE_HINTS];
static int	claim_hint;			/* the claim whose job was finished last */
static int *claim_places;		/* max_records hints by job id: its claim */

/* Above this many, memory is given back when the transaction ends. */
#define KEEP_RECORDS 1024

/* Where the claim of the job is, unless another one's hint took the place. */
static int *
claim_place(int64 job)
{
	return &claim_places[job & (max_records - 1)];
}

/* The hints for another number of records, which is a power of two. */
static void
resize_claim_places(int size)
{
	int		   *places = MemoryContextAllocHuge(TopMemoryContext,
												sizeof(int) * (Size) size);

	if (claim_places)
		pfree(claim_places);
	claim_places = places;
	memset(claim_places, -1, sizeof(int) * (Size) size);
	max_records = size;
	for (int i = 0; i < journal_nrecords; i++)
		if (journal_records[i].type == RECORD_CLAIM)
			*claim_place(journal_records[i].u.c.claim.job) = i;
}

/* Makes room for n more records.  No lock held; throws when out of memory. */
void
journal_reserve(int n)
{
	int			needed = journal_nrecords + n;
	int			size = Max(max_records, 64);

	mark_reserve(n);
	if (needed <= max_records)
		return;
	while (size < needed)
		size *= 2;
	if (journal_records == NULL)
		journal_records = MemoryContextAllocHuge(TopMemoryContext,
										 sizeof(JournalRecord) * (Size) size);
	else
		journal_records = repalloc_huge(journal_records,
										sizeof(JournalRecord) * (Size) size);
	resize_claim_places(size);
}

/* See journal_records.h. */
JournalRecord *
journal_append(JournalRecordType type, uint32 object)
{
	JournalRecord *r = &journal_records[journal_nrecords++];

	/* an overrun would lose takes; nothing milder is allowed under a lock */
	if (unlikely(journal_nrecords > max_records))
		elog(PANIC, "quota journal has no room");
	r->type = type;
	r->sub = GetCurrentSubTransactionId();
	r->object = object;
	return r;
}

/* See journal_records.h. */
bool
journal_matches(int position, JournalRecordType type, uint32 object)
{
	return position >= 0 && position < journal_nrecords &&
		journal_records[position].type == type &&
		journal_records[position].object == object &&
		journal_records[position].sub == GetCurrentSubTransactionId();
}

/* Where an undo of the present call would stop. */
JournalMark
journal_mark(void)
{
	JournalMark mark = {journal_nrecords, journal_taken_head, 0};

	return mark;
}

/* True when neither takes nor gains are outstanding. */
bool
journal_is_empty(void)
{
	return journal_nrecords == 0 && journal_taken_head == QUOTA_NO_INDEX &&
		journal_marked_head == QUOTA_NO_INDEX;
}

/* Where the position of the record of this bucket, and this portion of it, is kept. */
static int *
take_hint(uint32 bucket, uint32 portion)
{
	return &take_hints[(bucket + portion * 2654435761u) % TAKE_HINTS];
}

/* The record that one of the bucket may merge with; NULL when there is none. */
static JournalRecord *
find_take(JournalRecordType type, uint32 bucket, uint32 portion, bool alone)
{
	int			position = *take_hint(bucket, portion);

	return !alone && journal_matches(position, type, bucket) &&
		!journal_records[position].alone ? &journal_records[position] : NULL;
}

/* A new one. */
static JournalRecord *
append_take(JournalRecordType type, uint32 bucket, uint32 portion, bool alone)
{
	JournalRecord *r;

	if (!alone)
		*take_hint(bucket, portion) = journal_nrecords;
	r = journal_append(type, bucket);
	r->alone = alone;
	memset(&r->u, 0, sizeof(r->u));
	pg_atomic_fetch_add_u32(&quota_buckets[bucket].pins, 1);
	return r;
}

/* The record for what is about to be taken of a meter, or counted by it. */
static JournalRecord *
get_take(JournalRecordType type, uint32 bucket, uint32 portion, bool alone)
{
	JournalRecord *r = find_take(type, bucket, portion, alone);

	if (r != NULL && r->u.rate.portion == portion &&
		meter_take_joins(&quota_buckets[bucket].meter, &r->u.rate.take))
		return r;
	r = append_take(type, bucket, portion, alone);
	r->u.rate.portion = portion;
	floor_pin(portion);
	return r;
}

/* See journal.h. */
void
journal_take(uint32 bucket, uint32 portion, int64 n, bool alone)
{
	QuotaBucket *b = &quota_buckets[bucket];
	JournalRecord *r = get_take(RECORD_TAKE, bucket, portion, alone);

	meter_take(&b->meter, &r->u.rate.take, n);
	r->u.rate.units += n;
	mark_take(bucket, n);
	journal_call_took((int) (r - journal_records), n);
}

/* See journal.h. */
void
journal_first(uint32 bucket, int64 n, bool alone)
{
	JournalRecord *r = get_take(RECORD_FIRST, bucket, QUOTA_NO_INDEX, alone);

	meter_first(&quota_buckets[bucket].meter, &r->u.rate.take, n);
}

/* See journal.h. */
void
journal_probe(uint32 bucket, uint32 permit, int64 n, int64 until_ns)
{
	JournalRecord *r = journal_append(RECORD_PROBE, bucket);

	pg_atomic_fetch_add_u32(&quota_buckets[bucket].pins, 1);
	r->u.probe.n = n;
	r->u.probe.until_ns = until_ns;
	r->u.probe.permit = permit == QUOTA_NO_INDEX ? 0 : quota_permits[permit].id;
	journal_call_took(journal_nrecords - 1, n);
}

/* See journal.h. */
FairLead *
journal_lead(uint32 share, uint32 *hint)
{
	JournalRecord *r;

	if (journal_matches((int) *hint, RECORD_LEAD, share))
		return &journal_records[*hint].u.lead;
	*hint = (uint32) journal_nrecords;
	r = journal_append(RECORD_LEAD, share);
	memset(&r->u.lead, 0, sizeof(r->u.lead));
	pg_atomic_fetch_add_u32(&quota_shares[share].pins, 1);
	return &r->u.lead;
}

/* See journal.h.  At most what a limit can have, whatever calls were settled with. */
void
journal_shadow(uint32 bucket, int64 n, bool alone)
{
	QuotaBucket *b = &quota_buckets[bucket];
	JournalRecord *r = find_take(RECORD_SHADOW, bucket, QUOTA_NO_INDEX, alone);

	n = Min(n, Max(QUOTA_MAX_AMOUNT - b->shadow_used, 0));
	if (r == NULL || r->u.shadow.period_us != b->period_start_us)
	{
		r = append_take(RECORD_SHADOW, bucket, QUOTA_NO_INDEX, alone);
		r->u.shadow.period_us = b->period_start_us;
	}
	r->u.shadow.n += n;
	b->shadow_used += n;
}

/* See journal.h; applies a positive n to the bucket itself. */
void
journal_adjust(uint32 bucket, int64 n, int64 at_us)
{
	QuotaBucket *b = &quota_buckets[bucket];
	JournalRecord *r = journal_append(RECORD_ADJUST, bucket);

	pg_atomic_fetch_add_u32(&b->pins, 1);
	memset(&r->u.adjust, 0, sizeof(r->u.adjust));
	r->u.adjust.taken = Max(n, 0);
	r->u.adjust.given = Max(-n, 0);
	r->u.adjust.period_us = b->period_start_us;
	r->u.adjust.at_us = at_us;
	r->u.adjust.grant_us = DT_NOBEGIN;
	credit_count(b, at_us, r->u.adjust.taken);
	b->giving += r->u.adjust.given;
}

/* See journal.h. */
void
journal_return_lapsed(uint32 bucket, int64 n, int64 at_us)
{
	journal_adjust(bucket, -n, at_us);
	journal_records[journal_nrecords - 1].u.adjust.lapsed = n;
}

/* See journal.h. */
void
journal_resolve_loose(int64 n, bool overdue)
{
	journal_records[journal_nrecords - 1].u.adjust.loose = n;
	journal_records[journal_nrecords - 1].u.adjust.overdue = overdue;
}

/* See journal.h. */
void
journal_grant(uint32 bucket, int64 n, int64 grant_us)
{
	journal_adjust(bucket, -n, DT_NOBEGIN);
	journal_records[journal_nrecords - 1].u.adjust.grant_us = grant_us;
}

/* See journal.h; counts the claim in its flow. */
void
journal_claim(const JournalClaim *claim, JournalMark mark)
{
	int			ntakes = journal_nrecords - mark.nrecords;
	JournalRecord *r = journal_append(RECORD_CLAIM, claim->flow);

	r->u.c.claim = *claim;
	r->u.c.ntakes = ntakes;
	pg_atomic_fetch_add_u32(&quota_flows[claim->flow].pins, 1);
	flow_apply_claim(claim);
}

/* The newest claim has got its job. */
void
journal_claim_job(int64 job, bool returned_lane, bool was_running,
				  int64 due_ns, TimestampTz place, int64 since_ns)
{
	JournalClaim *claim;
	int			i = journal_nrecords - 1;

	while (journal_records[i].type != RECORD_CLAIM)
		i--;
	claim = &journal_records[i].u.c.claim;
	claim->job = job;
	claim->returned_lane = returned_lane;
	claim->was_running = was_running;
	claim->due_ns = due_ns;
	claim->place = place;
	claim->since_ns = since_ns;
	*claim_place(job) = i;
	flow_apply_claim_job(claim);
}

/* See journal_records.h.  A probe stays out as well. */
bool
journal_spend_claim(int position, int64 job)
{
	JournalRecord *r;

	if (position < 0 || position >= journal_nrecords)
		return false;
	r = &journal_records[position];
	if (r->type != RECORD_CLAIM || r->u.c.claim.job != job)
		return false;
	for (int k = 1; k <= r->u.c.ntakes; k++)
	{
		if (r[-k].type == RECORD_PROBE)
			r[-k].u.probe.n = 0;
		else if (r[-k].type == RECORD_TAKE || r[-k].type == RECORD_FIRST)
		{
			memset(&r[-k].u.rate.take, 0, sizeof(MeterTake));
			r[-k].u.rate.units = 0;
		}
	}
	r->u.c.ntakes = 0;
	claim_hint = position;
	return true;
}

/*
 * The call of a job claimed by this transaction went out: its rate tokens stay
 * spent whatever becomes of the transaction.  When its hint was lost to another
 * job's: jobs are finished about in the order they were claimed in, or against it,
 * so the search goes both ways from the last.
 */
void
journal_claim_spent(int64 job)
{
	if (max_records == 0 || journal_spend_claim(*claim_place(job), job))
		return;
	if (claim_hint >= journal_nrecords)
		claim_hint = journal_nrecords - 1;
	for (int k = 0; k < journal_nrecords; k++)
		if (journal_spend_claim(claim_hint + k, job) ||
			journal_spend_claim(claim_hint - k, job))
			return;
}

/* The newest record extended the permit to this end. */
static bool
was_extended(uint32 permit, int64 end_ns)
{
	const JournalRecord *r;

	if (!journal_matches(journal_nrecords - 1, RECORD_EXTEND, permit))
		return false;
	r = &journal_records[journal_nrecords - 1];
	return r->u.extend.id == quota_permits[permit].id &&
		r->u.extend.after_ns == end_ns;
}

/* See journal.h.  Extending again and again needs one record. */
void
journal_permit_extended(uint32 permit, int64 before_ns)
{
	const QuotaPermit *p = &quota_permits[permit];

	if (!was_extended(permit, before_ns))
	{
		JournalRecord *r = journal_append(RECORD_EXTEND, permit);

		r->u.extend.id = p->id;
		r->u.extend.extension = quota_slots[p->owner].extension;
		r->u.extend.before_ns = before_ns;
	}
	journal_records[journal_nrecords - 1].u.extend.after_ns = p->expires_ns;
}

/* See journal.h. */
void
journal_permit_given(uint32 permit, int32 n)
{
	JournalRecord *r = journal_append(RECORD_GIVE, permit);

	r->u.leave.id = quota_permits[permit].id;
	r->u.leave.n = n;
	r->u.leave.extension = quota_slots[quota_permits[permit].owner].extension;
}

/* The permit was just taken by this transaction. */
void
journal_permit_taken(uint32 permit)
{
	quota_permits[permit].taken_sub = GetCurrentSubTransactionId();
	quota_permits[permit].taken_next = journal_taken_head;
	journal_taken_head = permit;
}

/* The permit will be settled when this transaction commits. */
void
journal_permit_marked(uint32 permit)
{
	quota_permits[permit].marked_sub = GetCurrentSubTransactionId();
	quota_permits[permit].marked_next = journal_marked_head;
	journal_marked_head = permit;
}

/* See journal.h; meant for permits of this transaction, harmless for others. */
void
journal_permit_spent(uint32 permit)
{
	quota_permits[permit].spent = true;
}

/* The bucket is LOADING by us. */
void
journal_loading_bucket(uint32 bucket)
{
	journal_append(RECORD_LOAD_BUCKET, bucket);
	pg_atomic_fetch_add_u32(&quota_buckets[bucket].pins, 1);
}

/* The database's flows are LOADING by us. */
void
journal_loading_queue(uint32 database_slot)
{
	journal_append(RECORD_LOAD_QUEUE, database_slot);
}

/* The database's jobs are being counted by us. */
void
journal_counting_queue(uint32 database_slot)
{
	journal_append(RECORD_COUNT_QUEUE, database_slot);
}

/* The newest load or count succeeded; its record must not undo it. */
void
journal_loaded(void)
{
	int			i = journal_nrecords - 1;

	while (journal_records[i].type != RECORD_LOAD_BUCKET &&
		   journal_records[i].type != RECORD_LOAD_QUEUE &&
		   journal_records[i].type != RECORD_COUNT_QUEUE)
		i--;
	if (journal_records[i].type == RECORD_LOAD_BUCKET)
		pg_atomic_fetch_sub_u32(&quota_buckets[journal_records[i].object].pins, 1);
	memmove(&journal_records[i], &journal_records[i + 1],
			sizeof(JournalRecord) * (Size) (journal_nrecords - 1 - i));
	journal_nrecords--;
}

/* Keeps a small array for the next transaction, frees a large one. */
void
journal_clear(void)
{
	journal_nrecords = 0;
	if (max_records <= KEEP_RECORDS)
		return;
	pfree(journal_records);
	pfree(claim_places);
	journal_records = NULL;
	claim_places = NULL;
	max_records = 0;
}
