/*
 * job_trigger.c
 *		Triggers of quota.jobs for what users change or delete; for new rows see
 *		job_insert.c.
 *
 * Whoever changes or removes a waiting row notes it before writing, also for the
 * case of a rollback: a scan may have passed the row while it was in our hands.
 *
 * Our own updates fire these triggers too; job_write_take() knows them.
 */
#include "job.h"

#include "error.h"
#include "job_deadline.h"
#include "job_dedupe.h"
#include "job_tuple.h"
#include "trigger.h"
#include "utils/datum.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

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

/* What a scan may have missed while the row was in our hands. */
static void
note_touched(const JobRow *row)
{
	int64		id = job_row_int64(row, JOB_ID);
	JournalNote note = job_empty_note(true);

	if (job_row_standing(row) == STANDING_FRESH)
		note.lo = note.hi = id;
	else
		note.due_ns = quota_now_ns();
	job_load();
	job_note(&job_row_flow(row)->names, &note);
	if (!job_row_isnull(row, JOB_START_BEFORE))
		job_deadline_note(DatumGetTimestampTz(job_row_get(row, JOB_START_BEFORE)),
						  true, true);
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
column_changed(const JobRow *old, const RowValues *ours, const JobRow *new,
			   int column)
{
	Form_pg_attribute attribute = TupleDescAttr(old->desc, column - 1);
	bool		replaced = ours && ours->given[column - 1];
	Datum		old_value = replaced ? ours->values[column - 1] :
		job_row_get(old, column);
	bool		old_null = replaced ? ours->nulls[column - 1] :
		job_row_isnull(old, column);

	if (old_null || job_row_isnull(new, column))
		return old_null != job_row_isnull(new, column);
	return !datum_image_eq(old_value, job_row_get(new, column),
						   attribute->attbyval, attribute->attlen);
}

/* 0A000 when somebody changes a column that quota keeps. */
static void
check_kept(const JobRow *old, const RowValues *ours, const JobRow *new)
{
	for (int i = 0; i < lengthof(kept); i++)
	{
		if (!column_changed(old, ours, new, kept[i].column))
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot change column \"%s\" of quota.jobs",
						NameStr(TupleDescAttr(old->desc, kept[i].column - 1)->attname)),
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
	JobRow		before;
	JobRow		after;
	const RowValues *ours;

	job_row_read(&before, old, desc);
	job_row_read(&after, new, desc);
	ours = job_write_take(job_row_int64(&before, JOB_ID));
	check_kept(&before, ours, &after);
	job_row_check(&after);
	if (ours == NULL && job_row_standing(&before) != STANDING_OVER)
		note_touched(&before);
	return PointerGetDatum(new);
}

/* BEFORE DELETE: a running job is somebody's. */
Datum
quota_jobs_before_delete(PG_FUNCTION_ARGS)
{
	TriggerData *data = trigger_data(fcinfo, "jobs_before_delete", true,
									 TRIGGER_ON_DELETE, 0);
	TupleDesc	desc = RelationGetDescr(data->tg_relation);
	JobRow		row;
	Standing	standing;

	job_row_read(&row, data->tg_trigtuple, desc);
	standing = job_row_standing(&row);
	if (standing == STANDING_RUNNING)
		job_error_running(job_row_int64(&row, JOB_ID));
	if (standing != STANDING_OVER)
		note_touched(&row);
	return PointerGetDatum(data->tg_trigtuple);
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
	TupleDesc	desc = RelationGetDescr(data->tg_relation);
	JobRow		row;
	Standing	standing;
	JournalNote note = job_empty_note(false);

	job_row_read(&row, data->tg_trigtuple, desc);
	standing = job_row_standing(&row);
	if (standing == STANDING_OVER)
		return PointerGetDatum(NULL);
	job_load();
	note.depth = -1;
	if (standing != STANDING_FRESH)
		delete_lease(job_row_int64(&row, JOB_ID));
	if (!job_row_isnull(&row, JOB_DEDUPE_KEY))
		dedupe_forget(job_row_get(&row, JOB_PROVIDER),
					  job_row_get(&row, JOB_DEDUPE_KEY),
					  job_row_int64(&row, JOB_ID));
	job_note(&job_row_flow(&row)->names, &note);
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
