/*
 * mark_audit.c
 *		The part of quota_audit() that looks after slow limits: what would be left of
 *		each after a crash now, by its row in quota.marks, must not be more than there
 *		is.
 *
 * Others work meanwhile.  A bucket's row is read and compared with the bucket under
 * the lock that whoever writes the row takes, so it stays as it is.  Units taken that
 * it does not cover were told to nobody yet (mark.c), so they are left out; if
 * nobody has the bucket in use there are none.
 *
 * Not compared is a row of an earlier epoch, by which its bucket was filled and of
 * which nothing was taken since, and one that was written under other rules, which
 * the worker is about to write again.
 */
#include "audit.h"

#include "catalog.h"
#include "mark_write.h"
#include "miscadmin.h"
#include "utils/builtins.h"

/* A slow bucket, and what is wrong with its row. */
typedef struct Marked
{
	uint32		bucket;
	uint32		owner;
	QuotaKey	key;
	uint8		id[MARK_ID_LEN];
	MarkPlace	place;
	int64		left;			/* units */
	int64		said;			/* units that the row says are left */
	char		provider[QUOTA_NAME_LEN];
	char		limit_name[QUOTA_NAME_LEN];
	char		label[QUOTA_LABEL_LEN];
} Marked;

/* It is a bucket of this database that has a row; its slot's lock is held. */
static bool
has_row(const QuotaBucket *b, uint32 owner)
{
	return quota_owned(&b->entry, owner) &&
		quota_slots[owner].database == MyDatabaseId &&
		quota_slots[owner].extension == quota_catalog()->extension &&
		b->mark.slow && b->mark.place.offset != 0;
}

/* Fills in what the bucket in this place is; false when it has no row. */
static bool
look(uint32 index, Marked *m)
{
	const QuotaBucket *b = &quota_buckets[index];
	LWLock	   *lock;
	bool		ours;

	m->bucket = index;
	m->owner = b->entry.owner;
	if (!b->entry.used || !b->mark.slow || m->owner >= (uint32) quota_max_providers)
		return false;
	lock = &quota_slots[m->owner].lock;
	LWLockAcquire(lock, LW_SHARED);
	ours = has_row(b, m->owner);
	if (ours)
	{
		m->key = b->entry.key;
		memcpy(m->id, b->mark.id, MARK_ID_LEN);
		m->place = b->mark.place;
		strlcpy(m->provider, quota_slots[m->owner].provider, sizeof(m->provider));
		strlcpy(m->limit_name, b->limit_name, sizeof(m->limit_name));
		strlcpy(m->label, b->label, sizeof(m->label));
	}
	LWLockRelease(lock);
	return ours;
}

/* Units of the bucket that nobody was told of yet; its slot's lock is held. */
static int64
untold(const QuotaBucket *b)
{
	if (pg_atomic_read_u32((pg_atomic_uint32 *) &b->pins) == 0)
		return 0;
	return Max(b->mark.taken - b->mark.covered, 0);
}

/* Compares the bucket with its row; false: no fault is found. */
static bool
says_more(Marked *m, const MarkRow *row)
{
	const QuotaBucket *b = &quota_buckets[m->bucket];
	LWLock	   *lock = &quota_slots[m->owner].lock;
	bool		more = false;

	LWLockAcquire(lock, LW_SHARED);
	if (quota_bucket_is(m->bucket, m->owner, &m->key) && has_row(b, m->owner) &&
		row->image.epoch == quota_shared->crash_epoch &&
		b->mark.changes == b->mark.marked_changes)
	{
		int64		now_ns = quota_now_ns();
		TimestampTz wall_us = quota_wall_us();
		Meter		meter = b->meter;
		Meter		said;

		meter_settle(&meter, now_ns, wall_us);
		mark_says(row, &said, now_ns, wall_us);
		m->left = meter_level(&meter);
		m->said = meter_level(&said);
		more = m->said > m->left + meter_late(&meter) + untold(b);
	}
	LWLockRelease(lock);
	return more;
}

/* One row of the result. */
static void
report(ReturnSetInfo *result, const Marked *m, const char *problem,
	   const char *detail, int64 expected, int64 actual)
{
	Datum		values[N_AUDIT] = {0};
	bool		nulls[N_AUDIT] = {false};

	values[AUDIT_PROBLEM] = CStringGetTextDatum(problem);
	nulls[AUDIT_PROVIDER] = m->provider[0] == '\0';
	values[AUDIT_PROVIDER] = CStringGetTextDatum(m->provider);
	values[AUDIT_LIMIT_NAME] = CStringGetTextDatum(m->limit_name);
	nulls[AUDIT_TENANT] = true;
	nulls[AUDIT_PERMIT] = true;
	values[AUDIT_DETAIL] = CStringGetTextDatum(psprintf("%s; key \"%s\"", detail,
														m->label));
	values[AUDIT_EXPECTED] = Int64GetDatum(expected);
	values[AUDIT_ACTUAL] = Int64GetDatum(actual);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/* Checks one bucket that has had a row. */
static void
check(ReturnSetInfo *result, Relation rel, Marked *m)
{
	MarkRow		row;
	LOCKTAG		tag;
	bool		found;
	bool		more = false;

	mark_lock_bucket(rel, m->bucket, &tag);
	/* it may have been freed before we came */
	if (!look(m->bucket, m))
	{
		LockRelease(&tag, ExclusiveLock, false);
		return;
	}
	found = mark_find(rel, m->id, &m->place, &row);
	if (found)
		more = says_more(m, &row);
	LockRelease(&tag, ExclusiveLock, false);
	if (!found)
		report(result, m, "mark is missing",
			   "rows of quota.marks that say what is spent", 1, 0);
	else if (more)
		report(result, m, "mark says too much is left",
			   "units left, and by quota.marks after a crash", m->left, m->said);
}

/* See audit.h. */
void
audit_marks(ReturnSetInfo *result)
{
	Relation	rel = NULL;

	for (uint32 i = 0; i < (uint32) quota_max_buckets; i++)
	{
		Marked		m;

		if (!look(i, &m))
			continue;
		CHECK_FOR_INTERRUPTS();
		if (rel == NULL)
			rel = mark_open();
		check(result, rel, &m);
	}
	if (rel != NULL)
		mark_close(rel);
}
