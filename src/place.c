/*
 * place.c
 *		Places in bounded queues.
 *
 * At no instant are more jobs unfinished, as rows that are committed, than the
 * bounds allow: of a tenant at a provider (max_queued of the tenant or its tier),
 * of a provider (its max_queued), and of a provider when a job of some class comes
 * (its max_fill).  "Unfinished" is waiting or running, so retries and expired
 * leases change nothing.
 *
 * PROTOCOL
 *
 * Tenant and slot count what is unfinished and committed, and the places that
 * open transactions have taken (QuotaPlaces).  A place is to be had while
 * unfinished + open < bound, which is asked and taken in one section under the
 * slot's lock.  A place taken is in the journal (JournalNote.places): (sub)abort
 * gives it back; COMMIT first counts the jobs as unfinished, with all notes of the
 * transaction, and only then gives up the places.
 *
 *	Between the commit record and the callback the rows are visible and their
 *	places are still open; while jobs finish, or are deleted, the rows are gone
 *	before unfinished goes down.  So unfinished + open is never less than what any
 *	snapshot can show, whatever the order in which sessions get the lock.
 *
 * A bound that is lowered, or set while transactions are open, admits nobody until
 * the queue has come below it.  So that these transactions are counted then, every
 * row takes a place, bounded or not; where there is no bound, and for rows of a
 * dump, which are never refused, it is taken without being asked for, when the row
 * has been written.
 *
 * ROWS OF A STATEMENT
 *
 * With a bound, the BEFORE ROW trigger takes the place, so that a COPY stops at the
 * first row that has none.  Not every row for which that trigger fires is written:
 * ON CONFLICT and later triggers may prevent it.  So a place is pending until the
 * AFTER ROW trigger, which fires at the end of the statement, confirms it; what is
 * pending when the statement is over goes back.  Which of several rows of a flow a
 * place was taken for does not matter: they are counted.
 *
 * When a statement is over is told by its memory, not by a statement trigger:
 * AFTER STATEMENT triggers do not fire when a function stops fetching from INSERT
 * ... RETURNING, in logical replication, or for a single row written by us.  The
 * executor calls a BEFORE ROW trigger in its per-tuple context, a child of the
 * query's; when that is deleted, all triggers of the statement have fired.  What
 * its deletion misses, because the transaction or subtransaction ended before it,
 * the journal has settled by then: place_forget() takes such statements off the
 * list first.
 *
 * Statements nest, when a trigger of a user or a function in the statement writes
 * jobs too: the inner one has memory of its own and is over before the outer one
 * goes on.  The AFTER ROW trigger looks for a pending place from the innermost
 * statement outward.
 *
 *	If an inner statement confirmed a place that was pending for a row of an outer
 *	one, the outer row would find the inner one's: their sum is what counts, and
 *	each statement gives back only what nobody has confirmed.
 */
#include "place.h"

#include "access/xact.h"
#include "error.h"
#include "flow.h"
#include "shed.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

/* Rows of one flow that have a place and have not been written yet. */
typedef struct Pending
{
	uint32		flow;			/* QUOTA_NO_INDEX = none */
	uint32		n;
} Pending;

/* A statement that inserts rows; in the memory of its query. */
typedef struct Statement
{
	struct Statement *outer;
	MemoryContext context;
	SubTransactionId sub;
	bool		forgotten;
	uint32		size;			/* of pending, a power of 2 */
	uint32		used;
	Pending    *pending;		/* open addressing; entries stay */
	MemoryContextCallback callback;
} Statement;

#define FIRST_SIZE 16

static Statement *innermost;

/* A row that has its place before its statement begins. */
typedef struct Promise
{
	bool		given;
	uint32		flow;
} Promise;

static Promise promise;

/* ---- bounds ---- */

/* The bound is reached: fills in the refusal, whose wait is the longest so far. */
static bool
is_full(const QuotaPlaces *places, int32 most, int64 now_ns,
		PlaceRefusal *refusal)
{
	int64		over = places->unfinished + places->open - most;

	if (most < 0 || over < 0)
		return false;
	refusal->most = most;
	refusal->unfinished = places->unfinished;
	refusal->open = places->open;
	if (most == 0)
		refusal->wait_ns = QUOTA_NEVER;
	else
		refusal->wait_ns = Max(refusal->wait_ns,
							   pace_wait(&places->pace, over + 1, now_ns));
	return true;
}

/* Is there a place in the flow's queues?  Slot lock held. */
static bool
has_room(const QuotaFlow *flow, const QuotaJobRules *rules, int64 now_ns,
		 PlaceRefusal *refusal)
{
	const QuotaTenant *tenant = tenant_of(share_of(flow));
	const QuotaSlot *slot = slot_of(flow);

	memset(refusal, 0, sizeof(*refusal));
	refusal->provider_most = rules->provider_most;
	if (is_full(&slot->places, rules->provider_most, now_ns, refusal))
		refusal->limit_name = "provider";
	else if (is_full(&slot->places, rules->class_most, now_ns, refusal))
		refusal->limit_name = "class";
	/* this is the one to name, if there are several */
	if (is_full(&tenant->places, rules->tenant_most, now_ns, refusal))
		refusal->limit_name = "tenant";
	return refusal->limit_name == NULL;
}

/* ---- taking ---- */

/* Takes a place, or says why not.  No lock held; throws. */
static bool
take(KnownFlow *known, PlaceRefusal *refusal)
{
	const QuotaJobRules *rules = known_rules(known);
	JournalNote note = job_empty_note(false);
	int64		now_ns;
	uint32		flow;
	bool		room;

	note.places = 1;
	journal_reserve(1);
	flow = known_lock(known);
	now_ns = quota_now_ns();
	room = has_room(&quota_flows[flow], rules, now_ns, refusal);
	if (room)
		journal_note(flow, &note);
	else
		shed_note(flow, refusal, now_ns);
	LWLockRelease(&quota_slots[known->slot].lock);
	return room;
}

/* See place.h. */
bool
place_take(const JobNames *names, PlaceRefusal *refusal)
{
	KnownFlow  *known = known_flow_of(names);

	if (known_rules(known)->bounded && job_load_counts())
		known = known_flow_of(names);
	return take(known, refusal);
}

/* n places of a flow that we have pinned are not needed. */
static void
give_back(uint32 flow, uint32 n)
{
	LWLock	   *lock = &slot_of(&quota_flows[flow])->lock;

	quota_lock(lock);
	journal_places_back(flow, n);
	LWLockRelease(lock);
}

/* ---- refusals ---- */

/* See place.h. */
TimestampTz
place_not_before(const PlaceRefusal *refusal)
{
	return quota_wall_us() + quota_us_up(refusal->wait_ns);
}

/* Whose queue it is. */
static char *
whose(const JobNames *names, const PlaceRefusal *refusal)
{
	if (strcmp(refusal->limit_name, "tenant") == 0)
		return psprintf("tenant \"%s\" at provider \"%s\"", names->tenant,
						names->provider);
	if (strcmp(refusal->limit_name, "class") == 0)
		return psprintf("provider \"%s\" for class \"%s\"", names->provider,
						names->class_name);
	return psprintf("provider \"%s\"", names->provider);
}

/* What would help but waiting. */
static const char *
remedy(const PlaceRefusal *refusal)
{
	if (strcmp(refusal->limit_name, "tenant") == 0)
		return "raise max_queued of the tenant or of its tier";
	if (strcmp(refusal->limit_name, "class") == 0)
		return "raise max_queued of the provider or max_fill of the class";
	return "raise max_queued of the provider";
}

/* See place.h. */
void
place_error(const JobNames *names, const PlaceRefusal *refusal)
{
	bool		class = strcmp(refusal->limit_name, "class") == 0;
	char	   *counts = psprintf("Unfinished jobs: %lld; being enqueued: %lld; max_queued: %lld",
								  (long long) refusal->unfinished,
								  (long long) refusal->open,
								  (long long) (class ? refusal->provider_most
											   : refusal->most));

	ereport(ERROR,
			(errcode(QUOTA_ERRCODE_QUEUE_FULL),
			 errmsg("the queue of %s is full", whose(names, refusal)),
			 class
			 ? errdetail("%s, of which this class may fill %lld.", counts,
						 (long long) refusal->most)
			 : errdetail("%s.", counts),
			 refusal->wait_ns == QUOTA_NEVER
			 ? errhint("To let any in, %s.", remedy(refusal))
			 : errhint(refusal->open >= refusal->most
					   ? "Try again at %s with fewer jobs in a transaction, or %s."
					   : "Try again at %s, or %s.",
					   timestamptz_to_str(place_not_before(refusal)),
					   remedy(refusal))));
	pg_unreachable();
}

/* ---- statements ---- */

/* Where the flow is among the statement's, or would be. */
static Pending *
find_pending(const Statement *statement, uint32 flow)
{
	uint32		i = flow;

	for (;; i++)
	{
		Pending    *p = &statement->pending[i & (statement->size - 1)];

		if (p->flow == flow || p->flow == QUOTA_NO_INDEX)
			return p;
	}
}

/* An empty table.  Throws when out of memory, and has changed nothing then. */
static void
make_pending(Statement *statement, uint32 size)
{
	Pending    *pending = MemoryContextAlloc(statement->context,
											 size * sizeof(Pending));

	for (uint32 i = 0; i < size; i++)
	{
		pending[i].flow = QUOTA_NO_INDEX;
		pending[i].n = 0;
	}
	statement->pending = pending;
	statement->size = size;
	statement->used = 0;
}

/* Makes room for another flow. */
static void
grow(Statement *statement)
{
	Pending    *old = statement->pending;
	uint32		old_size = statement->size;

	if (statement->used < old_size / 2)
		return;
	make_pending(statement, old_size * 2);
	for (uint32 i = 0; i < old_size; i++)
	{
		if (old[i].n == 0)
			continue;
		*find_pending(statement, old[i].flow) = old[i];
		statement->used++;
	}
	pfree(old);
}

/* The statement is over, its memory is going: gives back what is pending. */
static void
statement_over(void *arg)
{
	Statement  *statement = arg;
	Statement **link = &innermost;

	if (statement->forgotten)
		return;
	while (*link != statement)
		link = &(*link)->outer;
	*link = statement->outer;
	for (uint32 i = 0; i < statement->size; i++)
		if (statement->pending[i].n > 0)
			give_back(statement->pending[i].flow, statement->pending[i].n);
}

/* The statement whose BEFORE ROW trigger is being called. */
static Statement *
this_statement(void)
{
	MemoryContext context = MemoryContextGetParent(CurrentMemoryContext);
	Statement  *statement = innermost;

	while (statement && statement->context != context)
		statement = statement->outer;
	if (statement)
		return statement;
	statement = MemoryContextAllocZero(context, sizeof(Statement));
	statement->context = context;
	statement->sub = GetCurrentSubTransactionId();
	make_pending(statement, FIRST_SIZE);
	statement->callback.func = statement_over;
	statement->callback.arg = statement;
	MemoryContextRegisterResetCallback(context, &statement->callback);
	statement->outer = innermost;
	innermost = statement;
	return statement;
}

/* See place.h. */
void
place_take_for_row(KnownFlow *known)
{
	Statement  *statement = this_statement();
	PlaceRefusal refusal;
	Pending    *pending;

	grow(statement);
	if (promise.given && known->identified && promise.flow == known->flow)
		promise.given = false;
	else if (!take(known, &refusal))
		place_error(&known->names, &refusal);
	pending = find_pending(statement, known->flow);
	if (pending->flow == QUOTA_NO_INDEX)
	{
		pending->flow = known->flow;
		statement->used++;
	}
	pending->n++;
}

/* See place.h. */
bool
place_confirm(uint32 flow)
{
	for (Statement *s = innermost; s; s = s->outer)
	{
		Pending    *pending = find_pending(s, flow);

		if (pending->n == 0)
			continue;
		pending->n--;
		return true;
	}
	return false;
}

/* See place.h. */
void
place_forget(SubTransactionId sub)
{
	while (innermost &&
		   (sub == InvalidSubTransactionId || innermost->sub == sub))
	{
		innermost->forgotten = true;
		innermost = innermost->outer;
	}
}

/* See place.h. */
void
place_insert(const JobNames *names, void (*insert) (void *arg), void *arg)
{
	Promise		outer = promise;	/* a trigger may have called us */

	promise.given = true;
	promise.flow = known_flow_of(names)->flow;
	PG_TRY();
	{
		insert(arg);
		/* a trigger has made it a job of another flow */
		if (promise.given)
			give_back(promise.flow, 1);
	}
	PG_FINALLY();
	{
		promise = outer;
	}
	PG_END_TRY();
}
