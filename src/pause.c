/*
 * pause.c
 *		Pauses in shared memory: the table, and when they are in force.  How they end
 *		with a transaction is in pause_end.c.
 *
 * A pause is an entry of a fixed table.  Its row in quota.pauses has the same id, and
 * is what survives: memory is filled from the rows once after a start (pause_row.c).
 *
 * WHO WRITES
 *
 *	by hand		quota_pause() and quota_resume(), or SQL on the table, write rows in
 *				their transaction.  A pause takes: the row's trigger makes its entry at
 *				once, "open" until COMMIT; an abort frees it and wakes what it kept.  A
 *				resume gives: the entry is over at COMMIT, and the row is gone then.
 *	reported	pause_report() makes or prolongs an entry at once, for good: one for
 *				each scope.  A background worker writes the row; what it has not
 *				written when the server crashes, in about a second, is lost.  A clean
 *				shutdown keeps the table itself (state.c).
 *
 * Entries of one scope lie beside each other, and the one that ends last counts: so
 * none is shortened by another one, and a rollback takes back just its own.
 *
 * LOCKS
 *
 * Everything here is protected by quota_shared->pause_lock, to the right of the slots'
 * locks.  A decision has its slots' locks and takes this one shared, and only if its
 * provider or database has pauses at all (QuotaSlot.pauses, an atomic counter of the
 * slot that owns them): so a pause holds for every decision that begins after
 * it was made, in whatever provider's slot, and nobody has to hold the locks of several.
 * Who waits for a pause's end (flows, sessions) is woken after the entry has
 * changed, without this lock, under the lock of each slot in turn: who asks before
 * that is refused no more, who parks after it was refused before, under the slot's
 * lock, and so is found.
 *
 * TIME.  An end "until" is an instant of the wall clock, an end after a time one of
 * steady time; both are predicates.  Whoever finds that a pause is over latches that
 * (over_ns), so that it does not come back when the wall clock is set back.  When the
 * wall clock was set forward over its end, it counts as over since it was last seen in
 * force, not since before that.  The background worker reckons when it will be wanted by
 * the clocks of its run, so whoever finds the end calls it.
 *
 * AFTER THE END a pause stays for PAUSE_LINGER_NS: decisions empty the buckets that
 * lie in its scope to what has refilled since (pause_decide.c).
 *
 * INTERLEAVINGS
 *
 *	report, resume		a resume ends what there was when it was called: a report of
 *						the same scope since then has moved the version and stays.  Its
 *						row is written anew.
 *	resume, abort		nothing was changed but the row.
 *	pause, rollback to a savepoint, report in it
 *						the reported entry is another one, and stays.
 *	load, delete		who deletes a row has the rows loaded first, so its COMMIT
 *						finds the entry.
 *	load, insert		the inserter's trigger makes the entry; the loader passes ids
 *						that are there.
 *	worker, resume		The worker has pause_rows_lock() to itself while it writes, until
 *						its COMMIT, and a resume takes it shared while it deletes, so
 *						one waits for the other, a moment, and sees what it has done.
 *						The worker may still write the row of a reported pause between a
 *						resume and its COMMIT.  The entry is over then; the worker, which
 *						the COMMIT calls, finds the row of a pause that is over before
 *						its end, and deletes it.  If the server crashes before that, the
 *						pause is there again.
 *	table full			entries that have been over long enough make room; then a pause
 *						by hand fails (53400), and a reported one becomes one of the next
 *						wider scope.  The last places are for providers and accounts,
 *						one for each.  From half full on a reported one becomes wider as
 *						well when its tenant has an eighth of the table, so that one
 *						tenant's many endpoints can't widen the pauses of others.
 */
#include "pause_table.h"

#include "common/hashfn.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "worker.h"

/* ---- the table ---- */

/* See pause_table.h. */
int
pause_narrow_places(void)
{
	return Max(256, quota_max_tenants / 8);
}

/* See pause_table.h. */
int
pause_places(void)
{
	return pause_narrow_places() + 2 * quota_max_providers;
}

/* See pause_table.h. */
int
pause_heads(void)
{
	int			n = 256;

	while (n < pause_places())
		n *= 2;
	return n;
}

/* See pause.h; the tables are zero. */
void
pause_shmem_init(void)
{
	int			n = pause_places();
	uint64		serial;

	if (!pg_strong_random(&serial, sizeof(serial)))
		elog(FATAL, "could not generate random numbers");
	pg_atomic_init_u64(&quota_shared->pause_serial, serial);
	for (int i = 0; i < pause_heads(); i++)
		quota_pause_heads[i] = QUOTA_NO_INDEX;
	for (int i = 0; i < n; i++)
	{
		pg_atomic_init_u64(&quota_pauses[i].seen_ns, 0);
		pg_atomic_init_u64(&quota_pauses[i].over_ns, 0);
		quota_pauses[i].chain = i + 1 < n ? (uint32) i + 1 : QUOTA_NO_INDEX;
	}
	quota_shared->pause_free = 0;
}

/* An endpoint that stands for several. */
static bool
is_pattern(const char *endpoint)
{
	return strchr(endpoint, '*') != NULL;
}

/* One part of a hash. */
static uint32
add_hash(uint32 hash, const char *name)
{
	return hash_combine(hash, hash_bytes((const unsigned char *) name,
										 (int) strlen(name)));
}

/* The head of its chain; patterns are in that of no endpoint. */
static uint32 *
head_of(const PausePlace *place)
{
	uint32		hash = hash_combine(murmurhash32(place->owner), (uint32) place->of);

	hash = add_hash(hash, place->subject);
	hash = add_hash(hash, place->tenant);
	hash = add_hash(hash, is_pattern(place->endpoint) ? "" : place->endpoint);
	hash = add_hash(hash, place->connection);
	return &quota_pause_heads[hash & (pause_heads() - 1)];
}

/* The place that it has. */
static PausePlace
place_of(const QuotaPause *p)
{
	PausePlace	place = {p->of, p->owner, p->database_slot, p->subject,
	p->tenant, p->endpoint, p->connection};

	return place;
}

/* See pause_table.h. */
uint32
pause_first(const PausePlace *place)
{
	return *head_of(place);
}

/* See pause_table.h. */
bool
pause_is_of(const QuotaPause *p, const PausePlace *place)
{
	return p->owner == place->owner && p->of == place->of &&
		strcmp(p->subject, place->subject) == 0 &&
		strcmp(p->tenant, place->tenant) == 0 &&
		strcmp(p->endpoint, place->endpoint) == 0 &&
		strcmp(p->connection, place->connection) == 0;
}

/* See pause_table.h. */
uint32
pause_find(const PausePlace *place, int64 id)
{
	uint32		index = pause_first(place);

	while (index != QUOTA_NO_INDEX && quota_pauses[index].id != id)
		index = quota_pauses[index].chain;
	return index;
}

/* NULL becomes "". */
static const char *
or_empty(const char *name)
{
	return name ? name : "";
}

/* See pause_table.h. */
PausePlace
pause_place(const PauseScope *scope)
{
	Oid			extension = quota_catalog()->extension;
	PausePlace	place;

	place.database_slot = quota_slot(MyDatabaseId, extension, "");
	place.of = scope->account ? PAUSE_OF_ACCOUNT
		: scope->limit_name ? PAUSE_OF_LIMIT : PAUSE_OF_CALLS;
	place.owner = scope->account || scope->provider == NULL ? place.database_slot
		: quota_slot(MyDatabaseId, extension, scope->provider);
	place.subject = or_empty(scope->account ? scope->account : scope->limit_name);
	place.tenant = or_empty(scope->tenant);
	place.endpoint = or_empty(scope->endpoint);
	place.connection = or_empty(scope->connection);
	return place;
}

/* See pause_table.h. */
void
pause_free(uint32 index)
{
	QuotaPause *p = &quota_pauses[index];
	PausePlace	place = place_of(p);
	uint32	   *link = head_of(&place);

	while (*link != index)
		link = &quota_pauses[*link].chain;
	*link = p->chain;
	p->used = false;
	p->chain = quota_shared->pause_free;
	quota_shared->pause_free = index;
	quota_shared->pauses_used--;
	pg_atomic_fetch_sub_u32(&quota_slots[p->owner].pauses, 1);
}

/* It is over, and nothing depends on it any more. */
static bool
is_forgettable(const QuotaPause *p, int64 now_ns)
{
	int64		over_ns = (int64) pg_atomic_read_u64((pg_atomic_uint64 *) &p->over_ns);

	return p->used && !p->open && over_ns != 0 && now_ns - over_ns >= PAUSE_LINGER_NS;
}

/* Frees all that may be forgotten. */
static void
make_room(int64 now_ns)
{
	TimestampTz wall_us = quota_wall_us();

	for (uint32 i = 0; i < (uint32) pause_places(); i++)
		if (quota_pauses[i].used && !pause_is_on(&quota_pauses[i], now_ns, wall_us) &&
			is_forgettable(&quota_pauses[i], now_ns))
			pause_free(i);
}

/* See pause_table.h. */
uint32
pause_make(const PausePlace *place, int64 now_ns)
{
	bool		whole = place->of == PAUSE_OF_ACCOUNT ||
		(place->of == PAUSE_OF_CALLS && !place->tenant[0] && !place->endpoint[0] &&
		 !place->connection[0]);
	int			most = whole ? pause_places() : pause_narrow_places();
	uint32	   *head = head_of(place);
	uint32		index;
	QuotaPause *p;

	if (quota_shared->pauses_used >= most)
		make_room(now_ns);
	if (quota_shared->pauses_used >= most)
		return QUOTA_NO_INDEX;
	index = quota_shared->pause_free;
	p = &quota_pauses[index];
	quota_shared->pause_free = p->chain;
	quota_shared->pauses_used++;
	p->used = true;
	p->open = p->reported = p->unwritten = p->told = p->resumed = false;
	p->of = place->of;
	p->owner = place->owner;
	p->database_slot = place->database_slot;
	p->version = 0;
	p->since_ns = now_ns;
	pg_atomic_write_u64(&p->seen_ns, (uint64) now_ns);
	pg_atomic_write_u64(&p->over_ns, 0);
	strlcpy(p->subject, place->subject, QUOTA_NAME_LEN);
	strlcpy(p->tenant, place->tenant, QUOTA_NAME_LEN);
	strlcpy(p->endpoint, place->endpoint, QUOTA_NAME_LEN);
	strlcpy(p->connection, place->connection, QUOTA_NAME_LEN);
	p->chain = *head;
	*head = index;
	pg_atomic_fetch_add_u32(&quota_slots[p->owner].pauses, 1);
	return index;
}

/* See pause_table.h.  There is room, unless the table has become smaller: see state.c. */
void
pause_restore(const QuotaPause *saved)
{
	PausePlace	place = place_of(saved);
	QuotaPause *head = &quota_pauses[quota_shared->pause_free];
	uint32		next = head->chain;
	uint32	   *chain = head_of(&place);

	*head = *saved;
	pg_atomic_init_u64(&head->seen_ns,
					   pg_atomic_read_u64((pg_atomic_uint64 *) &saved->seen_ns));
	pg_atomic_init_u64(&head->over_ns,
					   pg_atomic_read_u64((pg_atomic_uint64 *) &saved->over_ns));
	head->chain = *chain;
	*chain = quota_shared->pause_free;
	quota_shared->pause_free = next;
	quota_shared->pauses_used++;
	pg_atomic_fetch_add_u32(&quota_slots[head->owner].pauses, 1);
}

/* See pause_table.h. */
int64
pause_new_id(void)
{
	return (int64) (pg_atomic_fetch_add_u64(&quota_shared->pause_serial, 1) &
					PG_INT64_MAX);
}

/* See pause_table.h. */
void
pause_copy(char *target, const char *source)
{
	int			length = source == NULL ? 0
		: pg_mbcliplen(source, (int) strlen(source), QUOTA_NAME_LEN - 1);

	memcpy(target, or_empty(source), length);
	target[length] = '\0';
}

/* See pause.h. */
void
pause_sweep(uint32 slot)
{
	LWLockAcquire(quota_shared->pause_lock, LW_EXCLUSIVE);
	for (uint32 i = 0; i < (uint32) pause_places(); i++)
		if (quota_pauses[i].used && quota_pauses[i].owner == slot)
			pause_free(i);
	LWLockRelease(quota_shared->pause_lock);
}

/* ---- time ---- */

/* When it ends by the quota clock, had nobody seen it over yet. */
static int64
scheduled_end_ns(const QuotaPause *p, int64 now_ns, TimestampTz wall_us)
{
	int64		left_us;

	if (p->end.at_us == DT_NOEND)
		return QUOTA_NEVER;
	if (p->end.lasts)
		return quota_ns_of_steady(p->end.at_us);
	left_us = Min(p->end.at_us - wall_us, (QUOTA_NEVER - 1 - now_ns) / QUOTA_NS_PER_US);
	left_us = Max(left_us, -(now_ns / QUOTA_NS_PER_US));
	return now_ns + left_us * QUOTA_NS_PER_US;
}

/* See pause_table.h. */
bool
pause_is_on(QuotaPause *p, int64 now_ns, TimestampTz wall_us)
{
	uint64		none = 0;
	int64		end_ns;

	if (pg_atomic_read_u64(&p->over_ns) != 0)
		return false;
	end_ns = scheduled_end_ns(p, now_ns, wall_us);
	if (end_ns > now_ns)
	{
		pg_atomic_write_u64(&p->seen_ns, (uint64) now_ns);
		return true;
	}
	end_ns = Max(end_ns, (int64) pg_atomic_read_u64(&p->seen_ns));
	if (pg_atomic_compare_exchange_u64(&p->over_ns, &none, (uint64) Max(end_ns, 1)) &&
		MyBackendType != B_BG_WORKER)
		quota_work_due(p->database_slot, now_ns);
	return false;
}

/* See pause_table.h. */
int64
pause_end_ns(const QuotaPause *p, int64 now_ns, TimestampTz wall_us)
{
	int64		over_ns = (int64) pg_atomic_read_u64((pg_atomic_uint64 *) &p->over_ns);

	return over_ns != 0 ? over_ns : scheduled_end_ns(p, now_ns, wall_us);
}

/* See pause_table.h. */
TimestampTz
pause_end_us(const QuotaPause *p, int64 now_ns, TimestampTz wall_us)
{
	if (p->end.at_us == DT_NOEND || !p->end.lasts)
		return p->end.at_us;
	return wall_us + quota_us_up(scheduled_end_ns(p, now_ns, wall_us) - now_ns);
}

/* ---- words ---- */

/* Adds a name that is given. */
static void
add_words(char *buffer, const char *what, const char *name)
{
	size_t		length = strlen(buffer);

	if (name[0])
		snprintf(buffer + length, PAUSE_SCOPE_LEN - length, "%s%s %s",
				 length > 0 ? ", " : "", what, name);
}

/* See pause_table.h. */
void
pause_words(const QuotaPause *p, char *buffer)
{
	buffer[0] = '\0';
	if (p->of != PAUSE_OF_CALLS)
		add_words(buffer, p->of == PAUSE_OF_LIMIT ? "limit" : "account", p->subject);
	add_words(buffer, "tenant", p->tenant);
	add_words(buffer, "endpoint", p->endpoint);
	add_words(buffer, "connection", p->connection);
	if (buffer[0] == '\0')
		add_words(buffer, "provider", quota_slots[p->owner].provider);
}
