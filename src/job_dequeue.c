/*
 * job_dequeue.c
 *		quota_dequeue(): jobs of one provider, or of several in turn; or one batch.
 */
#include "job_claim.h"

#include "args.h"
#include "catalog.h"
#include "catalog/pg_type.h"
#include "job_batch.h"
#include "mark.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "waiter.h"

PG_FUNCTION_INFO_V1(quota_dequeue);
PG_FUNCTION_INFO_V1(quota_dequeue_providers);

/* Most jobs of one call: what it claims stays locked until it has returned. */
#define MAX_JOBS 1000

/* The providers of one call; each has a claimer, and all share tables and slots. */
typedef struct Dequeue
{
	int			n;
	Claimer    *claimers;
	bool	   *empty;			/* found to have nothing that may run */
	int32		max_jobs;
	bool		same_endpoint;
} Dequeue;

/* ---- arguments ---- */

/* 22023 */
static void
error_providers(const char *problem, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("argument \"providers\" %s", problem),
			 detail ? errdetail("%s", detail) : 0,
			 errhint("Name one provider or more, each once.")));
}

/* Checks one name.  Throws 22023, 42704. */
static void
check_provider(const Dequeue *d, int i, const char *argument)
{
	const char *name = d->claimers[i].provider;

	quota_check_provider(name, argument);
	for (int k = 0; k < i; k++)
		if (strcmp(d->claimers[k].provider, name) == 0)
			error_providers("names a provider twice",
							psprintf("It is \"%s\".", name));
}

/* The providers named by the array.  Throws 22004, 22023. */
static void
read_array(FunctionCallInfo fcinfo, Dequeue *d)
{
	QuotaArray	names = quota_arg_array(fcinfo, 0, "providers", TEXTOID, false);

	d->n = names.n;
	if (d->n == 0)
		error_providers("is empty", NULL);
	if (d->n > quota_max_providers)
		error_providers("has too many elements",
						psprintf("It has %d, more than quota.max_providers (%d).",
								 d->n, quota_max_providers));
	d->claimers = palloc0(sizeof(Claimer) * d->n);
	for (int i = 0; i < d->n; i++)
		d->claimers[i].provider = TextDatumGetCString(names.values[i]);
}

/* The first argument: a name or an array of names. */
static void
read_providers(FunctionCallInfo fcinfo, Dequeue *d, bool many)
{
	if (many)
		read_array(fcinfo, d);
	else
	{
		d->n = 1;
		d->claimers = palloc0(sizeof(Claimer));
		d->claimers[0].provider = quota_arg_text(fcinfo, 0, "provider", true);
	}
	d->empty = palloc0(sizeof(bool) * d->n);
	for (int i = 0; i < d->n; i++)
		check_provider(d, i, many ? "providers" : "provider");
}

/* 22023 */
static void
error_merge_equal(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("argument \"merge_equal\" needs \"same_endpoint\""),
			 errdetail("Equal payloads are found within a batch."),
			 errhint("Pass same_endpoint => true too.")));
}

/* Reads the arguments.  Throws 22004, 22023, 42704. */
static void
read_arguments(FunctionCallInfo fcinfo, Dequeue *d, bool many)
{
	int64		lease_ns = 0;
	bool		merge_equal;

	read_providers(fcinfo, d, many);
	d->same_endpoint = quota_arg_bool(fcinfo, 4, "same_endpoint");
	merge_equal = quota_arg_bool(fcinfo, 5, "merge_equal");
	if (merge_equal && !d->same_endpoint)
		error_merge_equal();
	d->max_jobs = quota_arg_int32(fcinfo, 1, "max_jobs", 1,
								  d->same_endpoint ? QUOTA_MAX_BATCH : MAX_JOBS);
	if (!PG_ARGISNULL(3))
		lease_ns = job_lease_arg(fcinfo, 3, "lease");
	for (int i = 0; i < d->n; i++)
	{
		Claimer    *c = &d->claimers[i];

		c->asleep_ns = QUOTA_NEVER;
		c->has_worker = !PG_ARGISNULL(2);
		if (c->has_worker)
			c->worker = PG_GETARG_DATUM(2);
		c->asked_lease_ns = lease_ns;
		c->merge_equal = merge_equal;
		c->out = (ReturnSetInfo *) fcinfo->resultinfo;
	}
}

/* ---- the call ---- */

/* Opens the tables for all claimers. */
static void
open_tables(Dequeue *d)
{
	RowTable   *jobs = row_open(QUOTA_REL_JOBS);
	RowTable   *leases = row_open(QUOTA_REL_LEASES);
	JobLanes	lanes;

	memset(&lanes, 0, sizeof(lanes));
	lanes_init(&lanes, jobs, leases);
	if (d->max_jobs > 1)
		lanes_read_ahead(&lanes);
	for (int i = 0; i < d->n; i++)
	{
		Claimer    *c = &d->claimers[i];

		c->slot = quota_slot(MyDatabaseId, quota_catalog()->extension,
							 c->provider);
		c->jobs = jobs;
		c->leases = leases;
		c->lanes = lanes;
	}
}

/* Closes them; row locks stay until the transaction ends. */
static void
close_tables(Dequeue *d)
{
	row_close(d->claimers[0].leases);
	row_close(d->claimers[0].jobs);
}

/*
 * One job of each provider in turn, until there are max_jobs or none has any.  A
 * provider that had none is not asked again.  Returns how many.
 */
static int
claim_in_turn(Dequeue *d, MemoryContext context)
{
	int			claimed = 0;
	int			n_empty = 0;

	for (int i = 0; claimed < d->max_jobs && n_empty < d->n; i = (i + 1) % d->n)
	{
		if (d->empty[i])
			continue;
		d->empty[i] = !claim_one(&d->claimers[i], context);
		if (d->empty[i])
			n_empty++;
		else
			claimed++;
	}
	return claimed;
}

/* One batch, of the first provider that has any. */
static bool
claim_one_batch(Dequeue *d, MemoryContext context)
{
	MemoryContext batch_context = AllocSetContextCreate(CurrentMemoryContext,
														"quota batch",
														ALLOCSET_SMALL_SIZES);
	bool		claimed = false;

	for (int i = 0; i < d->n && !claimed; i++)
	{
		d->claimers[i].batch_context = batch_context;
		claimed = claim_batch(&d->claimers[i], d->max_jobs, context);
		d->empty[i] = !claimed;
	}
	MemoryContextDelete(batch_context);
	return claimed;
}

/* What the call asks for; false when nothing can run. */
static bool
claim_any(Dequeue *d, MemoryContext context)
{
	return d->same_endpoint ? claim_one_batch(d, context)
		: claim_in_turn(d, context) > 0;
}

/*
 * Sessions that wait for more are woken if something is left that they may
 * claim.  A provider that has waiters is searched for that, unless it was found
 * empty just now.
 */
static void
wake_next(Dequeue *d, MemoryContext context)
{
	for (int i = 0; i < d->n; i++)
		if (!d->empty[i] && waiter_is_there(d->claimers[i].slot))
			claim_look(&d->claimers[i], context);
	waiter_release(true);
}

/* The call; many: its first argument is an array. */
static void
dequeue(FunctionCallInfo fcinfo, bool many)
{
	Dequeue		d;
	MemoryContext context;

	quota_enter_write("quota_dequeue()");
	InitMaterializedSRF(fcinfo, 0);
	memset(&d, 0, sizeof(d));
	read_arguments(fcinfo, &d, many);
	quota_change_check_decide(NULL);
	job_load();

	open_tables(&d);
	context = AllocSetContextCreate(CurrentMemoryContext, "quota claim",
									ALLOCSET_DEFAULT_SIZES);
	for (int i = 0; i < d.n; i++)
		waiter_hold_for(d.claimers[i].slot);
	if (!claim_any(&d, context) && job_load_counts())
	{
		/* there may have been jobs that were not known */
		memset(d.empty, 0, sizeof(bool) * d.n);
		(void) claim_any(&d, context);
	}
	wake_next(&d, context);
	MemoryContextDelete(context);
	close_tables(&d);
	mark_secure();
}

/* See job.h. */
bool
job_may_claim(const char *provider)
{
	Claimer		claimer;
	Dequeue		d;
	MemoryContext context;
	bool		found;

	memset(&d, 0, sizeof(d));
	d.n = 1;
	d.claimers = &claimer;
	memset(&claimer, 0, sizeof(claimer));
	claimer.provider = provider;
	claimer.asleep_ns = QUOTA_NEVER;
	open_tables(&d);
	context = AllocSetContextCreate(CurrentMemoryContext, "quota look",
									ALLOCSET_DEFAULT_SIZES);
	found = claim_look(&claimer, context);
	MemoryContextDelete(context);
	close_tables(&d);
	return found;
}

/* quota_dequeue(provider, ...): see its COMMENT. */
Datum
quota_dequeue(PG_FUNCTION_ARGS)
{
	dequeue(fcinfo, false);
	return (Datum) 0;
}

/* quota_dequeue(providers, ...): see its COMMENT. */
Datum
quota_dequeue_providers(PG_FUNCTION_ARGS)
{
	dequeue(fcinfo, true);
	return (Datum) 0;
}
