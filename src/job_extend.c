/*
 * job_extend.c
 *		quota_extend_job(): a running attempt keeps its lease, and its permit, for
 *		longer, and learns whether it is still wanted.
 */
#include "job_hold.h"

#include "access/htup_details.h"
#include "args.h"
#include "funcapi.h"
#include "job_batch.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(quota_extend_job);

/* The lease ends later, at a time that rows can hold; for scans: the note. */
static void
write_end(Held *h, int64 end_ns)
{
	JobChange	lease = job_change(h->leases);
	JournalNote note = job_empty_note(false);

	note.due_ns = end_ns;
	note.place = quota_steady_of(end_ns);
	job_set(&lease, LEASE_READY_AT, TimestampTzGetDatum(note.place));
	row_update(h->leases, h->lease, lease.values, lease.nulls, lease.replace);
	job_note(&h->names, &note);
}

/* A row of type quota_lease; the end is rounded up, as the claim's was. */
static Datum
lease_row(FunctionCallInfo fcinfo, int64 id, int32 attempt, int64 left_ns,
		  bool cancel_requested)
{
	TupleDesc	desc;
	Datum		values[4];
	bool		nulls[4] = {false};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	values[0] = Int64GetDatum(id);
	values[1] = Int32GetDatum(attempt);
	values[2] = TimestampTzGetDatum(quota_wall_us() +
									(left_ns + QUOTA_NS_PER_US - 1) / QUOTA_NS_PER_US);
	values[3] = BoolGetDatum(cancel_requested);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

/* quota_extend_job(id, attempt, by): see its COMMENT. */
Datum
quota_extend_job(PG_FUNCTION_ARGS)
{
	Held		h;
	int64		id;
	int32		attempt;
	int64		end_ns;
	bool		cancel_requested;

	quota_enter_write("quota_extend_job()");
	id = quota_arg_int64(fcinfo, 0, "id", PG_INT64_MIN, PG_INT64_MAX);
	attempt = quota_arg_int32(fcinfo, 1, "attempt", PG_INT32_MIN, PG_INT32_MAX);
	end_ns = job_lease_arg(fcinfo, 2, "by");
	held_open(&h);
	held_running(&h, id, attempt);

	cancel_requested = held_cancel_requested(&h);
	end_ns = Max(h.now_ns + end_ns,
				 quota_ns_of_steady(job_int64(h.lease, LEASE_READY_AT)));
	end_ns = quota_ns_of_steady(quota_steady_of(end_ns));
	batch_extend(h.lease, end_ns);
	write_end(&h, end_ns);
	held_close(&h);
	return lease_row(fcinfo, id, attempt, end_ns - h.now_ns, cancel_requested);
}
