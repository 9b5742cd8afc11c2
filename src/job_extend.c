/*
 * job_extend.c
 *		quota_extend_job(): a running attempt keeps its lease, and its permit, for
 *		longer, and learns whether it is still wanted.
 */
#include "job_held.h"

#include "access/htup_details.h"
#include "args.h"
#include "funcapi.h"
#include "job_batch.h"
#include "job_many.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(quota_extend_job);
PG_FUNCTION_INFO_V1(quota_extend_job_array);

/* The lease ends later, at a time that rows can hold; for scans: the note. */
static void
write_end(Held *h, int64 end_ns)
{
	RowValues	lease = row_values(h->leases);
	JournalNote note = job_empty_note(false);

	note.due_ns = end_ns;
	note.place = quota_steady_of(end_ns);
	row_set(&lease, LEASE_READY_AT, TimestampTzGetDatum(note.place));
	row_update(h->leases, h->lease, &lease);
	job_note(&h->names, &note);
}

/* What quota_extend_job() says of one attempt. */
typedef struct Extended
{
	int64		id;
	int32		attempt;
	HeldOutcome outcome;
	int64		left_ns;		/* running: until the lease ends */
	bool		cancel_requested;
} Extended;

/* The held attempt goes on until "by" from now, or longer if it may anyway. */
static void
extend(Held *h, int64 by_ns, Extended *answer)
{
	int64		end_ns = Max(h->now_ns + by_ns,
							 quota_ns_of_steady(row_int64(h->lease, LEASE_READY_AT)));

	end_ns = quota_ns_of_steady(quota_steady_of(end_ns));
	answer->cancel_requested = held_cancel_requested(h);
	batch_extend(h->lease, end_ns);
	write_end(h, end_ns);
	answer->left_ns = end_ns - h->now_ns;
}

/* Columns of quota_lease; the end is rounded up, as the claim's was. */
static void
lease_values(const Extended *answer, Datum values[4], bool nulls[4])
{
	bool		running = answer->outcome == HELD_RUNNING;

	memset(nulls, false, sizeof(bool) * 4);
	values[0] = Int64GetDatum(answer->id);
	values[1] = Int32GetDatum(answer->attempt);
	values[2] = TimestampTzGetDatum(quota_wall_us() +
									quota_us_up(answer->left_ns));
	values[3] = BoolGetDatum(answer->cancel_requested);
	nulls[2] = nulls[3] = !running;
}

/* quota_extend_job(id, attempt, by): see its COMMENT. */
Datum
quota_extend_job(PG_FUNCTION_ARGS)
{
	Held		h;
	Extended	answer = {0};
	int64		by_ns;
	TupleDesc	desc;
	Datum		values[4];
	bool		nulls[4];

	quota_enter_write("quota_extend_job()");
	answer.id = quota_arg_int64(fcinfo, 0, "id", PG_INT64_MIN, PG_INT64_MAX);
	answer.attempt = quota_arg_int32(fcinfo, 1, "attempt", PG_INT32_MIN, PG_INT32_MAX);
	by_ns = job_lease_arg(fcinfo, 2, "by");
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	held_open(&h);
	held_running(&h, answer.id, answer.attempt);
	extend(&h, by_ns, &answer);
	held_close(&h);
	lease_values(&answer, values, nulls);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

/* ---- many ---- */

/* Extends what can be; the answers are in the order of the arrays. */
static Extended *
extend_all(const ManyItem *items, int n, int64 by_ns)
{
	Extended   *answers = MemoryContextAllocHuge(CurrentMemoryContext,
												 sizeof(Extended) * (Size) Max(n, 1));
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext context = AllocSetContextCreate(caller, "quota extend",
												  ALLOCSET_DEFAULT_SIZES);
	Held		h;
	int			read_until = 0;

	held_open(&h);
	for (int i = 0; i < n; i++)
	{
		Extended   *answer = &answers[items[i].place];

		CHECK_FOR_INTERRUPTS();
		MemoryContextSwitchTo(context);
		memset(answer, 0, sizeof(*answer));
		many_read_ahead(items, n, i, &h, &read_until);
		answer->id = items[i].id;
		answer->attempt = items[i].attempt;
		answer->outcome = held_try_running(&h, items[i].id, items[i].attempt);
		if (answer->outcome == HELD_RUNNING)
			extend(&h, by_ns, answer);
		MemoryContextSwitchTo(caller);
		MemoryContextReset(context);
	}
	held_close(&h);
	MemoryContextDelete(context);
	return answers;
}

/* quota_extend_job(ids, attempts, by): see its COMMENT. */
Datum
quota_extend_job_array(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *out = (ReturnSetInfo *) fcinfo->resultinfo;
	int			n;
	ManyItem   *items;
	Extended   *answers;

	quota_enter_write("quota_extend_job()");
	InitMaterializedSRF(fcinfo, 0);
	items = many_read(fcinfo, &n);
	answers = extend_all(items, n, job_lease_arg(fcinfo, 2, "by"));
	for (int i = 0; i < n; i++)
	{
		Datum		values[4];
		bool		nulls[4];

		if (answers[i].outcome == HELD_BUSY)
			continue;
		lease_values(&answers[i], values, nulls);
		tuplestore_putvalues(out->setResult, out->setDesc, values, nulls);
	}
	return (Datum) 0;
}
