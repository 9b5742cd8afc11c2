/*
 * job_batch.c
 *		Batches: jobs of one flow that go to the provider in one call.
 *
 * WHAT A BATCH IS
 *
 * Jobs of one tenant, class and endpoint, oldest first, claimed by one call of
 * quota_dequeue(same_endpoint => true).  Its first job is claimed like any other,
 * in the fair order.  The others follow from the same flow without a turn of their
 * own: each is searched first and then decided, for rate and credits alone, as the
 * batch holds its place in flight by one permit (permit_batch.c).  What they cost is
 * added to the charge of the first, so that to other tenants the batch is one dear
 * job.
 *
 * A batch ends when it has as many jobs as were asked for, when no further job of
 * the flow is ready or allowed, and before a job that would count in another
 * concurrency bucket than its first one: that of another connection, say.  The
 * permit of the batch does not count there.
 *
 * COALESCING.  Within a batch, jobs that make the very same call (payload, user,
 * connection and resource are equal) need only one: the others ride on it.  A
 * rider is claimed, leased and finished like any job, counts as an attempt and in
 * flight, but is charged nothing.  Only calls of this batch are compared, so what
 * has to be remembered is bounded by its size.
 */
#include "job_batch.h"

#include "catalog.h"
#include "miscadmin.h"
#include "permit.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"

/* A call that jobs of the batch may ride on. */
typedef struct BatchCall
{
	int64		job;
	uint32		hash;			/* of the payload */
	Jsonb	   *payload;
	char	   *others[3];		/* user, connection, resource; NULL = none */
} BatchCall;

/* The batch being claimed; in c->batch_context. */
struct BatchState
{
	int			nkeys;			/* of the concurrency buckets it counts in */
	QuotaKey	keys[QUOTA_MAX_TERMS];
	int			ncalls;
	BatchCall	calls[QUOTA_MAX_BATCH];
};

/* ---- concurrency ---- */

/* Keys of the buckets of concurrency that a call of the plan counts in. */
static int
concurrency_keys(const QuotaPlan *plan, QuotaKey *keys)
{
	int			n = 0;

	/* terms have the same order in every plan */
	for (int i = 0; i < plan->nterms; i++)
		if (plan->terms[i].kind == QUOTA_CONCURRENCY &&
			!quota_term_is_shadow(&plan->terms[i]))
			keys[n++] = plan->terms[i].key;
	return n;
}

/* See job_batch.h. */
void
batch_begin(Claimer *c)
{
	MemoryContextReset(c->batch_context);
	c->batch_state = MemoryContextAllocZero(c->batch_context,
											sizeof(BatchState));
	c->batch_state->nkeys = concurrency_keys(c->plan, c->batch_state->keys);
}

/* See job_batch.h. */
bool
batch_fits(const Claimer *c, const QuotaPlan *plan)
{
	QuotaKey	keys[QUOTA_MAX_TERMS];
	int			n = concurrency_keys(plan, keys);

	if (n != c->batch_state->nkeys)
		return false;
	for (int i = 0; i < n; i++)
		if (!quota_key_equal(&keys[i], &c->batch_state->keys[i]))
			return false;
	return true;
}

/* ---- equal calls ---- */

/* What the candidate's call is; false when it has no payload to compare. */
static bool
read_call(const Claimer *c, BatchCall *call)
{
	static const int columns[] = {JOB_USER, JOB_CONNECTION, JOB_RESOURCE};
	bool		isnull;
	Datum		payload = slot_getattr(c->lanes.job, JOB_PAYLOAD, &isnull);

	if (isnull)
		return false;
	call->job = c->lanes.id;
	call->payload = DatumGetJsonbPCopy(payload);
	call->hash = DatumGetUInt32(DirectFunctionCall1(jsonb_hash,
													JsonbPGetDatum(call->payload)));
	for (int i = 0; i < lengthof(columns); i++)
		call->others[i] = row_text(c->lanes.job, columns[i]);
	return true;
}

/* NULL equals NULL. */
static bool
text_equal(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

/* One answer of the provider serves both. */
static bool
call_equal(const BatchCall *a, const BatchCall *b)
{
	if (a->hash != b->hash ||
		compareJsonbContainers(&a->payload->root, &b->payload->root) != 0)
		return false;
	for (int i = 0; i < lengthof(a->others); i++)
		if (!text_equal(a->others[i], b->others[i]))
			return false;
	return true;
}

/* See job_batch.h. */
int64
batch_find_twin(const Claimer *c)
{
	BatchCall	call;

	if (!c->merge_equal || c->role != QUOTA_BATCH_NEXT || !read_call(c, &call))
		return 0;
	for (int i = 0; i < c->batch_state->ncalls; i++)
		if (call_equal(&call, &c->batch_state->calls[i]))
			return c->batch_state->calls[i].job;
	return 0;
}

/* See job_batch.h. */
void
batch_add_call(Claimer *c)
{
	BatchState *state = c->batch_state;
	MemoryContext old = MemoryContextSwitchTo(c->batch_context);

	if (c->merge_equal && read_call(c, &state->calls[state->ncalls]))
		state->ncalls++;
	MemoryContextSwitchTo(old);
}

/* ---- ends of attempts ---- */

/* See job_batch.h. */
void
batch_leave(TupleTableSlot *lease)
{
	int64		batch = row_int64_or_0(lease, LEASE_BATCH);

	if (batch == 0)
		return;
	journal_reserve(1);
	journal_batch_left(batch);
}

/* See job_batch.h. */
void
batch_end_lost(TupleTableSlot *lease)
{
	int64		permit = row_int64_or_0(lease, LEASE_PERMIT);

	if (permit != 0)
		permit_end(permit);
	batch_leave(lease);
}

/* Extends one permit, if it is still there. */
static void
extend_permit(int64 permit, int64 expires_ns,
			  bool (*extend) (uint32 index, int64 expires_ns, int64 now_ns))
{
	uint32		index;

	if (permit == 0)
		return;
	journal_reserve(1);
	index = permit_lock(permit, MyDatabaseId, quota_catalog()->extension);
	if (index == QUOTA_NO_INDEX)
		return;
	extend(index, expires_ns, quota_now_ns());
	permit_unlock(index);
}

/* See job_batch.h. */
void
batch_extend(TupleTableSlot *lease, int64 expires_ns)
{
	extend_permit(row_int64_or_0(lease, LEASE_PERMIT), expires_ns, permit_extend);
	extend_permit(row_int64_or_0(lease, LEASE_BATCH), expires_ns,
				  permit_batch_extend);
}

/* ---- loading ---- */

/* A batch, as rows of quota.leases tell of it. */
typedef struct BatchSum
{
	PermitRecord permit;		/* hash key: its id; ends with the last lease */
	QuotaCall	call;			/* of its first job met */
} BatchSum;

/* See job_batch.h. */
HTAB *
batch_load_begin(void)
{
	HASHCTL		control;

	control.keysize = sizeof(int64);
	control.entrysize = sizeof(BatchSum);
	control.hcxt = CurrentMemoryContext;
	return hash_create("quota batches", 64, &control,
					   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

/* See job_batch.h.  A member whose lease is over still has to leave. */
void
batch_load_add(HTAB *batches, TupleTableSlot *lease, const QuotaCall *call)
{
	int64		id = row_int64_or_0(lease, LEASE_BATCH);
	int64		expires_ns = quota_ns_of_steady(row_int64(lease, LEASE_READY_AT));
	bool		found;
	BatchSum   *sum;

	if (id == 0)
		return;
	sum = hash_search(batches, &id, HASH_ENTER, &found);
	if (!found)
	{
		sum->permit = (PermitRecord) {.id = id,.expires_ns = expires_ns};
		sum->call = *call;
	}
	sum->permit.members++;
	sum->permit.expires_ns = Max(sum->permit.expires_ns, expires_ns);
}

/* See job_batch.h. */
void
batch_load_end(HTAB *batches)
{
	HASH_SEQ_STATUS status;
	BatchSum   *sum;

	hash_seq_init(&status, batches);
	while ((sum = hash_seq_search(&status)) != NULL)
		permit_restore(&sum->call, &sum->permit);
}
