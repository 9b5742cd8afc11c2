/*
 * audit.c
 *		quota_audit(): what should never be: entries that contradict each other,
 *		and shared counters that differ from what they count.  Empty = healthy.
 *
 * Entries are compared by the SQL function quota.audit_entries(), under one
 * snapshot.  Counters are compared while others work, so what is open must be
 * told from what is wrong:
 *
 *	- a concurrency counter and its parts change together under one lock;
 *	- an allowance is compared only while nothing is pinned, so every entry that
 *	  its counter knows is committed.  It is noted before the list of accounts is
 *	  read (so all of its entries are visible by then), and must be unchanged
 *	  after its entries were summed.  A difference counts only if it is there
 *	  several times in a row.
 *
 * Counts of jobs: audit_queue.c.  Slow limits: mark_audit.c.
 */
#include "audit.h"

#include "args.h"
#include "credit.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/uuid.h"

PG_FUNCTION_INFO_V1(quota_audit);

/* A difference must be seen so many times. */
#define AUDIT_TRIES 3

/* A bucket as it was under its lock. */
typedef struct Counter
{
	uint32		bucket;
	uint32		slot;
	QuotaKey	key;
	uint8		kind;
	bool		settled;		/* READY and nothing pinned */
	int64		used;
	int64		held;
	int64		loose;
	int64		linked;			/* sum of the parts in flight or held */
	bool		lapses;			/* lost holds count as not spent of grants */
	int64		gone;			/* of those that had expired at */
	int64		seen_us;
	int64		start_us;
	int64		end_us;
} Counter;

typedef struct Account
{
	QuotaKey	key;
	uint8		account[QUOTA_ACCOUNT_LEN];
} Account;

/* ---- reading counters ---- */

/* The node after this one, in some order that meets all; NULL at the end. */
static const pairingheap_node *
next_node(const pairingheap_node *node)
{
	if (node->first_child)
		return node->first_child;
	while (node && node->next_sibling == NULL)
	{
		/* up: the first of the siblings knows the parent */
		while (node->prev_or_parent &&
			   node->prev_or_parent->first_child != node)
			node = node->prev_or_parent;
		node = node->prev_or_parent;
	}
	return node ? node->next_sibling : NULL;
}

/* Units of all linked parts; lock held. */
static int64
sum_of_parts(const QuotaBucket *b)
{
	const pairingheap_node *node = b->parts.ph_root;
	int64		sum = 0;

	for (; node != NULL; node = next_node(node))
		sum += pairingheap_const_container(QuotaPart, node, node)->amount;
	return sum;
}

/* Lock held. */
static void
read_counter(uint32 index, Counter *c)
{
	QuotaBucket *b = &quota_buckets[index];

	c->bucket = index;
	c->slot = b->entry.owner;
	c->key = b->entry.key;
	c->kind = b->kind;
	c->settled = b->load == QUOTA_LOAD_READY &&
		pg_atomic_read_u32(&b->pins) == 0;
	c->used = b->used;
	c->held = b->held;
	c->loose = b->loose;
	c->linked = quota_is_rate(b->kind) ? 0 : sum_of_parts(b);
	c->lapses = b->lapsed > 0;
	c->gone = credit_grants_gone(b, b->seen_us);
	c->seen_us = b->seen_us;
	c->start_us = b->period_start_us;
	c->end_us = b->period_end_us;
}

/* All counters of this database; how many. */
static int
read_counters(Counter *counters)
{
	int			n = 0;

	for (uint32 s = 0; s < (uint32) quota_max_providers; s++)
	{
		QuotaSlot  *slot = &quota_slots[s];

		LWLockAcquire(&slot->lock, LW_SHARED);
		if (slot->entry.used && slot->database == MyDatabaseId &&
			slot->extension == quota_catalog()->extension)
		{
			for (uint32 i = 0; i < (uint32) quota_max_buckets; i++)
				if (quota_buckets[i].entry.used &&
					quota_buckets[i].entry.owner == s &&
					n < quota_max_buckets)
					read_counter(i, &counters[n++]);
		}
		LWLockRelease(&slot->lock);
		CHECK_FOR_INTERRUPTS();
	}
	return n;
}

/* Reads the counter again; false when it changed or is gone. */
static bool
unchanged(const Counter *c)
{
	Counter		now;
	bool		there;

	LWLockAcquire(&quota_slots[c->slot].lock, LW_SHARED);
	there = quota_bucket_is(c->bucket, c->slot, &c->key);
	if (there)
		read_counter(c->bucket, &now);
	LWLockRelease(&quota_slots[c->slot].lock);
	return there && now.settled && now.used == c->used && now.loose == c->loose &&
		now.gone == c->gone && now.seen_us == c->seen_us &&
		now.start_us == c->start_us && now.end_us == c->end_us;
}

/* ---- reporting ---- */

/* One row about a counter, unless the bucket is gone by now. */
static void
report(ReturnSetInfo *result, const char *problem, const Counter *c,
	   const char *detail, int64 expected, int64 actual)
{
	Datum		values[N_AUDIT] = {0};
	bool		nulls[N_AUDIT] = {false};
	char		provider[QUOTA_NAME_LEN];
	char		limit_name[QUOTA_NAME_LEN];
	char		label[QUOTA_LABEL_LEN];
	bool		there;

	LWLockAcquire(&quota_slots[c->slot].lock, LW_SHARED);
	there = quota_bucket_is(c->bucket, c->slot, &c->key);
	if (there)
	{
		strlcpy(provider, quota_slots[c->slot].provider, sizeof(provider));
		strlcpy(limit_name, quota_buckets[c->bucket].limit_name,
				sizeof(limit_name));
		strlcpy(label, quota_buckets[c->bucket].label, sizeof(label));
	}
	LWLockRelease(&quota_slots[c->slot].lock);
	if (!there)
		return;
	values[AUDIT_PROBLEM] = CStringGetTextDatum(problem);
	nulls[AUDIT_PROVIDER] = provider[0] == '\0';
	values[AUDIT_PROVIDER] = CStringGetTextDatum(provider);
	values[AUDIT_LIMIT_NAME] = CStringGetTextDatum(limit_name);
	nulls[AUDIT_TENANT] = true;
	nulls[AUDIT_PERMIT] = true;
	values[AUDIT_DETAIL] = CStringGetTextDatum(psprintf("%s; key \"%s\"",
														detail, label));
	values[AUDIT_EXPECTED] = Int64GetDatum(expected);
	values[AUDIT_ACTUAL] = Int64GetDatum(actual);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/* ---- checks ---- */

/* Compares a counter with the parts it counts. */
static void
check_parts(ReturnSetInfo *result, const Counter *c)
{
	if (c->kind == QUOTA_CONCURRENCY && c->used != c->linked)
		report(result, "counter differs", c,
			   "units in flight differ from those of open permits",
			   c->linked, c->used);
	if (c->kind == QUOTA_ALLOWANCE && c->held != c->linked)
		report(result, "counter differs", c,
			   "units held differ from those of open permits",
			   c->linked, c->held);
}

/* Compares a settled allowance with its entries; account NULL: it has none. */
static void
check_entries(ReturnSetInfo *result, Counter *c, const Account *account,
			  bool full)
{
	LedgerSum	sum = {0};

	for (int i = 0; i < AUDIT_TRIES; i++)
	{
		bool		open = false;

		CHECK_FOR_INTERRUPTS();
		if (account)
			sum = full ?
				ledger_sum_entries(account->account, c->start_us, c->end_us, &open) :
				ledger_sum(account->account, c->start_us, c->end_us,
						   LEDGER_ALL_XIDS, &open);
		if (open || (sum.used == c->used && sum.held == c->loose) || !unchanged(c))
			return;
	}
	if (sum.used != c->used)
		report(result, "counter differs", c,
			   "units used differ from the entries of the period", sum.used, c->used);
	if (sum.held != c->loose)
		report(result, "counter differs", c,
			   "units held differ from the entries of the period", sum.held, c->loose);
}

/* Compares what is gone of its grants with its entries. */
static void
check_grants(ReturnSetInfo *result, Counter *c, const Account *account)
{
	int64		gone = 0;

	for (int i = 0; i < AUDIT_TRIES; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (account)
			gone = ledger_grants_gone(ledger_grants(account->account, c->start_us,
													c->end_us, LEDGER_ALL_XIDS),
									  c->seen_us);
		if (gone == c->gone || !unchanged(c))
			return;
	}
	report(result, "counter differs", c,
		   "units of expired grants differ from what entries leave of them", gone, c->gone);
}

/* Accounts of the ledger by the key of their bucket. */
static HTAB *
read_accounts(void)
{
	HASHCTL		ctl;
	HTAB	   *accounts;

	ctl.keysize = sizeof(QuotaKey);
	ctl.entrysize = sizeof(Account);
	ctl.hcxt = CurrentMemoryContext;
	accounts = hash_create("quota accounts", 1024, &ctl,
						   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	PushActiveSnapshot(GetLatestSnapshot());
	SPI_connect();
	/* from one to the next in the index, not through all entries */
	if (SPI_execute("WITH RECURSIVE a AS ("
					"(SELECT account FROM quota.ledger ORDER BY account LIMIT 1)"
					" UNION ALL SELECT (SELECT l.account FROM quota.ledger AS l"
					" WHERE l.account OPERATOR(pg_catalog.>) a.account"
					" ORDER BY l.account LIMIT 1) FROM a WHERE a.account IS NOT NULL)"
					" SELECT account FROM a WHERE account IS NOT NULL", true,
					0) != SPI_OK_SELECT)
		elog(ERROR, "could not read quota.ledger");
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		bool		isnull;
		pg_uuid_t  *uuid = DatumGetUUIDP(SPI_getbinval(SPI_tuptable->vals[i],
													   SPI_tuptable->tupdesc, 1,
													   &isnull));
		QuotaKey	key = quota_account_key(MyDatabaseId,
											quota_catalog()->extension,
											uuid->data);
		Account    *account = hash_search(accounts, &key, HASH_ENTER, NULL);

		memcpy(account->account, uuid->data, QUOTA_ACCOUNT_LEN);
	}
	SPI_finish();
	PopActiveSnapshot();
	return accounts;
}

/* All counters of this database. */
static void
check_counters(ReturnSetInfo *result, bool full)
{
	Counter    *counters = MemoryContextAllocHuge(CurrentMemoryContext,
												  sizeof(Counter) *
												  (Size) quota_max_buckets);
	int			n = read_counters(counters);
	HTAB	   *accounts = read_accounts();

	for (int i = 0; i < n; i++)
	{
		Counter    *c = &counters[i];

		check_parts(result, c);
		if (c->kind == QUOTA_ALLOWANCE && c->settled)
		{
			const Account *account = hash_search(accounts, &c->key, HASH_FIND, NULL);

			check_entries(result, c, account, full);
			if (!c->lapses)
				check_grants(result, c, account);
		}
	}
	hash_destroy(accounts);
	pfree(counters);
}

/* What quota.audit_entries() and quota.audit_folds() find. */
static void
check_ledger(ReturnSetInfo *result, bool full)
{
	Oid			types[] = {BOOLOID};
	Datum		values[] = {BoolGetDatum(full)};

	SPI_connect();
	if (SPI_execute_with_args("SELECT * FROM quota.audit_entries($1)"
							  " UNION ALL SELECT * FROM quota.audit_folds($1)",
							  1, types, values, NULL, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not audit the ledger");
	for (uint64 i = 0; i < SPI_processed; i++)
		tuplestore_puttuple(result->setResult, SPI_tuptable->vals[i]);
	SPI_finish();
}

/* quota_audit(): see its COMMENT. */
Datum
quota_audit(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	QuotaOwner	caller;
	bool		full;

	quota_enter();
	full = quota_arg_bool(fcinfo, 0, "full");
	InitMaterializedSRF(fcinfo, 0);
	caller = quota_become_owner();
	check_ledger(result, full);
	if (!RecoveryInProgress())	/* no shared state on a standby */
	{
		check_counters(result, full);
		audit_queue(result);
		audit_marks(result);
	}
	quota_become_caller(caller);
	return (Datum) 0;
}
