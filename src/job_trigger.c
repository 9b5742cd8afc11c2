/*
 * job_trigger.c
 *		Triggers of quota.jobs: what makes a row in the table work in the queue.
 *
 * A job is in one of two lanes while it waits.  Fresh: state queued, attempt 0,
 * found by id.  Returned: it has a row in quota.leases that says when it is
 * ready; scheduled and retried jobs, and running ones, whose lease may end.
 * quota.leases and quota.dedupe follow from quota.jobs, so the insert trigger
 * makes their rows for whatever state a row arrives in: a restore fires it too.
 *
 * Flows learn of a job at COMMIT, by the journal.  Before a row is written the
 * queue must be loaded; see job_load.c for why.  Whoever changes or removes
 * a waiting row notes it before writing, also for the case of a rollback: a scan
 * may have passed the row while it was in our hands.
 *
 * Our own updates fire these triggers too; job_write_take() knows them.
 */
#include "job.h"

#include "access/htup_details.h"
#include "error.h"
#include "job_tuple.h"
#include "storage/proc.h"
#include "trigger.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/jsonb.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(quota_jobs_before_insert);
PG_FUNCTION_INFO_V1(quota_jobs_after_insert);
PG_FUNCTION_INFO_V1(quota_jobs_before_update);
PG_FUNCTION_INFO_V1(quota_jobs_before_delete);
PG_FUNCTION_INFO_V1(quota_jobs_after_delete);
PG_FUNCTION_INFO_V1(quota_jobs_truncate);

/* The trigger call; throws as quota_trigger() and quota_enter_write() do. */
static TriggerData *
trigger_data(FunctionCallInfo fcinfo, const char *function, bool before,
			 int row, int statement)
{
	TriggerShape shape = {
		.function = function,.tables = TRIGGER_TABLE(QUOTA_REL_JOBS),
		.before = before,.row = row,.statement = statement
	};
	TriggerData *data = quota_trigger(fcinfo, &shape);

	quota_enter_write("a change of quota.jobs");
	return data;
}

/* ---- insert ---- */

/*
 * 42704 for names without a row; not while their table is empty, since a restore
 * may load the jobs first.  Checked once for a run of equal names: until the
 * transaction ends or any configuration of it changes.
 */
static void
check_names(const JobNames *names)
{
	static JobNames checked;
	static LocalTransactionId checked_in = InvalidLocalTransactionId;
	LocalTransactionId current = QUOTA_LXID;

	if (checked_in == current && !quota_change_pending() &&
		checked.hash == names->hash &&
		memcmp(&checked, names, sizeof(checked)) == 0)
		return;
	if (!quota_tenant_exists(names->tenant))
		quota_error_no_such("tenant", names->tenant);
	if (!quota_provider_exists(names->provider))
		quota_error_no_such("provider", names->provider);
	if (!quota_class_exists(names->class_name))
		quota_error_no_such("class", names->class_name);
	checked = *names;
	checked_in = current;
}

/* A row that knows its flow is from a dump, whose tables come in any order. */
static bool
knows_flow(HeapTuple row, TupleDesc desc, const JobNames *names)
{
	return !heap_attisnull(row, JOB_FLOW, desc) &&
		job_tuple_int64(row, desc, JOB_FLOW) == names->hash;
}

/* 22023 for a new job that claims to have been worked on. */
static void
check_new(HeapTuple row, TupleDesc desc)
{
	if (job_tuple_standing(row, desc) == STANDING_FRESH &&
		heap_attisnull(row, JOB_HISTORY, desc))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("a new job must be queued, with attempt 0 and no history"),
			 errdetail("Other states come about only by working on it, or by restoring a dump."),
			 errhint("Leave out state, attempt and history; give run_at for a job that is to wait.")));
}

/* 22023 for measured units that could not be charged. */
static void
check_units(HeapTuple row, TupleDesc desc)
{
	bool		isnull;
	Datum		units = heap_getattr(row, JOB_UNITS, desc, &isnull);

	if (!isnull)
		pfree(quota_units_parse(DatumGetJsonbP(units)));
}

/* A queued job whose time has not come waits as scheduled. */
static bool
is_for_later(HeapTuple row, TupleDesc desc)
{
	bool		isnull;
	Datum		run_at = heap_getattr(row, JOB_RUN_AT, desc, &isnull);

	return !isnull && job_tuple_standing(row, desc) == STANDING_FRESH &&
		DatumGetTimestampTz(run_at) > quota_wall_us();
}

/* The column, or what "otherwise" says for null. */
static TimestampTz
time_of(HeapTuple row, TupleDesc desc, int column, TimestampTz otherwise)
{
	bool		isnull;
	Datum		value = heap_getattr(row, column, desc, &isnull);

	return isnull ? otherwise : DatumGetTimestampTz(value);
}

/*
 * What class and provider say of a job that does not; a row from a dump has it
 * already, or has lost its start_before for good.  Returns how many columns.
 */
static int
fill_policy(HeapTuple row, TupleDesc desc, const JobNames *names, bool dumped,
			int *columns, Datum *values)
{
	QuotaJobPolicy policy = quota_job_policy(names->provider,
											 names->class_name);
	int			n = 0;

	if (heap_attisnull(row, JOB_MAX_ATTEMPTS, desc))
	{
		columns[n] = JOB_MAX_ATTEMPTS;
		values[n++] = Int32GetDatum(policy.max_attempts);
	}
	if (!dumped && policy.start_within_ns > 0 &&
		heap_attisnull(row, JOB_START_BEFORE, desc))
	{
		TimestampTz created = time_of(row, desc, JOB_CREATED_AT, quota_wall_us());
		TimestampTz from = Max(created, time_of(row, desc, JOB_RUN_AT, created));

		columns[n] = JOB_START_BEFORE;
		values[n++] = TimestampTzGetDatum(TIMESTAMP_NOT_FINITE(from) ? from :
										  from + policy.start_within_ns /
										  QUOTA_NS_PER_US);
	}
	return n;
}

/* BEFORE INSERT: checks the row, fills in what it leaves out. */
Datum
quota_jobs_before_insert(PG_FUNCTION_ARGS)
{
	TriggerData *data = trigger_data(fcinfo, "jobs_before_insert", true,
									 TRIGGER_ON_INSERT, 0);
	TupleDesc	desc = RelationGetDescr(data->tg_relation);
	HeapTuple	row = data->tg_trigtuple;
	JobNames	names;
	char		name[QUOTA_NAME_LEN];
	bool		dumped;
	int			columns[6];
	Datum		values[6];
	bool		nulls[6] = {false};
	int			n = 0;

	job_load();
	job_tuple_names(row, desc, &names);
	job_tuple_name(row, desc, JOB_USER, "user", name);
	job_tuple_name(row, desc, JOB_CONNECTION, "connection", name);
	job_tuple_name(row, desc, JOB_RESOURCE, "resource", name);
	dumped = knows_flow(row, desc, &names);
	if (!dumped)
	{
		check_names(&names);
		check_new(row, desc);
	}
	check_units(row, desc);

	columns[n] = JOB_FLOW;
	values[n++] = Int64GetDatum(names.hash);
	if (heap_attisnull(row, JOB_CLASS, desc))
	{
		columns[n] = JOB_CLASS;
		values[n++] = CStringGetTextDatum(names.class_name);
	}
	if (heap_attisnull(row, JOB_CREATED_AT, desc))
	{
		columns[n] = JOB_CREATED_AT;
		values[n++] = TimestampTzGetDatum(quota_wall_us());
	}
	if (is_for_later(row, desc))
	{
		columns[n] = JOB_STATE;
		values[n++] = CStringGetTextDatum("scheduled");
	}
	n += fill_policy(row, desc, &names, dumped, columns + n, values + n);
	return PointerGetDatum(heap_modify_tuple_by_cols(row, desc, n, columns,
													 values, nulls));
}

/* The row of quota.leases for a job that did not come as a fresh one. */
static void
insert_lease(HeapTuple row, TupleDesc desc, Standing standing,
			 JournalNote *note)
{
	RowTable   *leases = row_open(QUOTA_REL_LEASES);
	JobChange	lease = job_change(leases);
	int64		now_ns = quota_now_ns();
	TimestampTz wall_us = quota_wall_us();
	TimestampTz ready_at = quota_steady_of(now_ns);
	Datum		original = heap_getattr(row, JOB_CREATED_AT, desc,
										&lease.nulls[LEASE_ORIGINAL_AT - 1]);
	char		state = LEASE_RETRY;
	bool		isnull;

	if (standing == STANDING_RUNNING)
	{
		/* restored: its worker may still be at it */
		state = LEASE_RUNNING;
		ready_at += JOB_DEFAULT_LEASE_NS / QUOTA_NS_PER_US;
	}
	else if (standing == STANDING_SCHEDULED)
	{
		Datum		run_at = heap_getattr(row, JOB_RUN_AT, desc, &isnull);

		state = LEASE_SCHEDULED;
		ready_at = isnull ? wall_us : DatumGetTimestampTz(run_at);
		original = TimestampTzGetDatum(ready_at);
	}
	job_set(&lease, LEASE_JOB_ID, heap_getattr(row, JOB_ID, desc, &isnull));
	job_set(&lease, LEASE_FLOW, heap_getattr(row, JOB_FLOW, desc, &isnull));
	job_set(&lease, LEASE_READY_AT, TimestampTzGetDatum(ready_at));
	job_set(&lease, LEASE_STATE, CharGetDatum(state));
	job_set(&lease, LEASE_ATTEMPT, heap_getattr(row, JOB_ATTEMPT, desc, &isnull));
	job_set(&lease, LEASE_ORIGINAL_AT, original);
	job_set(&lease, LEASE_CANCEL_REQUESTED, BoolGetDatum(false));
	row_insert(leases, lease.values, lease.nulls);
	row_close(leases);
	note->place = ready_at;
	note->due_ns = job_due_ns(state, ready_at, now_ns, wall_us);
}

/* Throws 23505 when an unfinished job of the provider has the key. */
static void
insert_key(HeapTuple row, TupleDesc desc)
{
	RowTable   *dedupe = row_open(QUOTA_REL_DEDUPE);
	JobChange	key = job_change(dedupe);
	bool		isnull;

	job_set(&key, DEDUPE_PROVIDER, heap_getattr(row, JOB_PROVIDER, desc, &isnull));
	job_set(&key, DEDUPE_KEY, heap_getattr(row, JOB_DEDUPE_KEY, desc, &isnull));
	job_set(&key, DEDUPE_JOB_ID, heap_getattr(row, JOB_ID, desc, &isnull));
	row_insert(dedupe, key.values, key.nulls);
	row_close(dedupe);
}

/* AFTER INSERT: the flow learns of it at commit. */
Datum
quota_jobs_after_insert(PG_FUNCTION_ARGS)
{
	TriggerData *data = trigger_data(fcinfo, "jobs_after_insert", false,
									 TRIGGER_ON_INSERT, 0);
	TupleDesc	desc = RelationGetDescr(data->tg_relation);
	HeapTuple	row = data->tg_trigtuple;
	Standing	standing = job_tuple_standing(row, desc);
	int64		id = job_tuple_int64(row, desc, JOB_ID);
	JournalNote note = job_empty_note(false);
	JobNames	names;

	if (standing == STANDING_OVER)
		return PointerGetDatum(NULL);
	job_tuple_names(row, desc, &names);
	if (names.hash != job_tuple_int64(row, desc, JOB_FLOW))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("a later trigger changed whose job %lld is",
						(long long) id),
				 errhint("Triggers that change tenant, provider, endpoint or class must fire before \"zz_quota_before_insert\".")));

	if (standing == STANDING_FRESH)
		note.lo = note.hi = id;
	else
		insert_lease(row, desc, standing, &note);
	if (standing == STANDING_RUNNING)
		note.in_flight = 1;
	else
		note.depth = 1;
	if (!heap_attisnull(row, JOB_DEDUPE_KEY, desc))
		insert_key(row, desc);
	job_note(&names, &note);
	return PointerGetDatum(NULL);
}

/* ---- update and delete by users ---- */

/* What a scan may have missed while the row was in our hands. */
static void
note_touched(HeapTuple row, TupleDesc desc)
{
	int64		id = job_tuple_int64(row, desc, JOB_ID);
	JournalNote note = job_empty_note(true);
	JobNames	names;

	if (job_tuple_standing(row, desc) == STANDING_FRESH)
		note.lo = note.hi = id;
	else
		note.due_ns = quota_now_ns();
	job_tuple_names(row, desc, &names);
	job_load();
	job_note(&names, &note);
}

/* Columns that quota keeps, and how a user gets what an UPDATE would do. */
static const struct
{
	int			column;
	const char *hint;
}			kept[] =
{
	{JOB_ID, "Insert a new job instead."},
	{JOB_TENANT, "Cancel the job and insert a new one."},
	{JOB_PROVIDER, "Cancel the job and insert a new one."},
	{JOB_ENDPOINT, "Cancel the job and insert a new one."},
	{JOB_CLASS, "Cancel the job and insert a new one."},
	{JOB_RUN_AT, "Cancel the job and insert a new one."},
	{JOB_START_BEFORE, "Cancel the job and insert a new one."},
	{JOB_DEDUPE_KEY, "Cancel the job and insert a new one."},
	{JOB_STATE, "Use quota_complete, quota_fail or quota_cancel."},
	{JOB_ATTEMPT, "Use quota_dequeue and quota_fail."},
	{JOB_HISTORY, "quota keeps it; note what you want to remember in a table of your own."},
	{JOB_FLOW, "It follows from tenant, provider, endpoint and class."},
};

/* The column is not as it was, or as a change of ours wants it. */
static bool
column_changed(HeapTuple old, const JobChange *ours, HeapTuple new,
			   TupleDesc desc, int column)
{
	Form_pg_attribute attribute = TupleDescAttr(desc, column - 1);
	bool		replaced = ours && ours->replace[column - 1];
	bool		old_null;
	bool		new_null;
	Datum		old_value = heap_getattr(old, column, desc, &old_null);
	Datum		new_value = heap_getattr(new, column, desc, &new_null);

	if (replaced)
	{
		old_value = ours->values[column - 1];
		old_null = ours->nulls[column - 1];
	}
	if (old_null || new_null)
		return old_null != new_null;
	return !datum_image_eq(old_value, new_value, attribute->attbyval,
						   attribute->attlen);
}

/* 0A000 when somebody changes a column that quota keeps. */
static void
check_kept(HeapTuple old, const JobChange *ours, HeapTuple new, TupleDesc desc)
{
	for (int i = 0; i < lengthof(kept); i++)
	{
		if (!column_changed(old, ours, new, desc, kept[i].column))
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot change column \"%s\" of quota.jobs",
						NameStr(TupleDescAttr(desc, kept[i].column - 1)->attname)),
				 errhint("%s", kept[i].hint)));
	}
}

/* BEFORE UPDATE: only what quota doesn't depend on may be changed. */
Datum
quota_jobs_before_update(PG_FUNCTION_ARGS)
{
	TriggerData *data = trigger_data(fcinfo, "jobs_before_update", true,
									 TRIGGER_ON_UPDATE, 0);
	TupleDesc	desc = RelationGetDescr(data->tg_relation);
	HeapTuple	old = data->tg_trigtuple;
	HeapTuple	new = data->tg_newtuple;
	const JobChange *ours = job_write_take(job_tuple_int64(old, desc, JOB_ID));

	check_kept(old, ours, new, desc);
	check_units(new, desc);
	if (ours == NULL && job_tuple_standing(old, desc) != STANDING_OVER)
		note_touched(old, desc);
	return PointerGetDatum(new);
}

/* BEFORE DELETE: a running job is somebody's. */
Datum
quota_jobs_before_delete(PG_FUNCTION_ARGS)
{
	TriggerData *data = trigger_data(fcinfo, "jobs_before_delete", true,
									 TRIGGER_ON_DELETE, 0);
	TupleDesc	desc = RelationGetDescr(data->tg_relation);
	HeapTuple	row = data->tg_trigtuple;
	Standing	standing = job_tuple_standing(row, desc);

	if (standing == STANDING_RUNNING)
		job_error_running(job_tuple_int64(row, desc, JOB_ID));
	if (standing != STANDING_OVER)
		note_touched(row, desc);
	return PointerGetDatum(row);
}

/* Removes the row of quota.leases; 55P03 when it is in somebody's hands. */
static void
delete_lease(int64 id)
{
	RowTable   *leases = row_open(QUOTA_REL_LEASES);
	TupleTableSlot *slot = row_slot(leases);

	switch (job_find(leases, QUOTA_REL_LEASES_PKEY, id, slot))
	{
		case JOB_FOUND:
			if (row_lock(leases, slot) != ROW_LOCKED)
				quota_error_job_busy(id);
			row_delete(leases, slot);
			break;
		case JOB_IN_PROGRESS:
			quota_error_job_busy(id);
			break;
		case JOB_NONE:
			break;
	}
	row_close(leases);
}

/* AFTER DELETE: nothing waits any more. */
Datum
quota_jobs_after_delete(PG_FUNCTION_ARGS)
{
	TriggerData *data = trigger_data(fcinfo, "jobs_after_delete", false,
									 TRIGGER_ON_DELETE, 0);
	Relation	jobs = data->tg_relation;
	TupleDesc	desc = RelationGetDescr(jobs);
	HeapTuple	row = data->tg_trigtuple;
	Standing	standing = job_tuple_standing(row, desc);
	int64		id = job_tuple_int64(row, desc, JOB_ID);
	JournalNote note = job_empty_note(false);
	JobNames	names;

	if (standing == STANDING_OVER)
		return PointerGetDatum(NULL);
	job_tuple_names(row, desc, &names);
	job_load();
	note.depth = -1;
	if (standing != STANDING_FRESH)
		delete_lease(id);
	if (!heap_attisnull(row, JOB_DEDUPE_KEY, desc))
	{
		TupleTableSlot *slot = MakeSingleTupleTableSlot(desc, &TTSOpsHeapTuple);

		ExecStoreHeapTuple(row, slot, false);
		job_forget_key(slot);
		ExecDropSingleTupleTableSlot(slot);
	}
	job_note(&names, &note);
	return PointerGetDatum(NULL);
}

/* BEFORE TRUNCATE: it would pass by every trigger. */
Datum
quota_jobs_truncate(PG_FUNCTION_ARGS)
{
	trigger_data(fcinfo, "jobs_truncate", true, 0, TRIGGER_ON_TRUNCATE);
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot truncate quota.jobs"),
			 errhint("Use DELETE.")));
	return PointerGetDatum(NULL);
}
