/*
 * job_written.c
 *		Noting a fresh job when its row has been written.
 *
 * BEFORE triggers can't do that: not every row for which they fire is written.  AFTER
 * ROW triggers can, but the server queues an event for each row, fetches the row
 * again at the end of the statement, and takes it apart; in a bulk load that is more
 * work than all that we do.  So it is done by the condition (WHEN) of our AFTER
 * trigger.  The server evaluates that right after it has written the row and its
 * entries in indexes, when nothing but an error can prevent it any more, and queues
 * the trigger only if it is true.  Rows that need more than a note (a lease, a dedupe
 * key), or that a later trigger may have changed, say true.
 *
 * The BEFORE trigger leaves here what is to be noted.  Between it and the condition
 * the row is checked and written, which may run functions of users that insert other
 * jobs, so what was left is recognized by the number of the job; when it is gone, the
 * trigger does all.
 *
 * Whoever inserts needs EXECUTE on a function that stands in a condition, so PUBLIC
 * has it.  It works only as what it is: called with columns of a row just written to
 * quota.jobs, which is no expression that a query can contain.
 */
#include "job_written.h"

#include "access/sysattr.h"
#include "catalog.h"
#include "error.h"
#include "job_deadline.h"
#include "nodes/primnodes.h"
#include "place.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(quota_jobs_written);

/* A row on its way into the table. */
typedef struct Expected
{
	KnownFlow  *known;			/* NULL = none is expected */
	bool		noted;
	bool		has_deadline;
	int64		id;
	int64		flow;
	TimestampTz start_before;
} Expected;

static Expected expected;

/* See job_written.h. */
void
job_written_none(void)
{
	expected.known = NULL;
}

/* See job_written.h. */
void
job_written_expect(const JobRow *row, KnownFlow *known)
{
	if (job_row_isnull(row, JOB_ID))
		return;
	expected.known = known;
	expected.noted = false;
	expected.id = job_row_int64(row, JOB_ID);
	expected.flow = known->names.hash;
	expected.has_deadline = !job_row_isnull(row, JOB_START_BEFORE);
	if (expected.has_deadline)
		expected.start_before =
			DatumGetTimestampTz(job_row_get(row, JOB_START_BEFORE));
}

/* See job_written.h.  Throws 53400 when a table is full. */
void
job_written_note(KnownFlow *known, JournalNote *note)
{
	uint32		flow;

	journal_reserve(1);
	flow = known_lock(known);
	note->places = place_confirm(flow) ? 0 : 1;
	journal_note(flow, note);
	LWLockRelease(&quota_slots[known->slot].lock);
}

/* The argument is this column of the row that a trigger's condition sees as NEW. */
static bool
is_new_column(const FuncExpr *call, int i, int column)
{
	const Var  *var = list_nth(call->args, i);

	return IsA(var, Var) && var->varno == OUTER_VAR && var->varattno == column;
}

/*
 * 39P01 unless it is called by the condition of a trigger, with columns of the row:
 * no other expression can name system columns of a row by OUTER_VAR.
 */
static void
check_caller(FunctionCallInfo fcinfo)
{
	static char checked;
	const FuncExpr *call = (FuncExpr *) fcinfo->flinfo->fn_expr;

	if (fcinfo->flinfo->fn_extra == &checked)
		return;
	quota_enter();
	if (call == NULL || !IsA(call, FuncExpr) || list_length(call->args) != 2 ||
		!is_new_column(call, 0, TableOidAttributeNumber) ||
		!is_new_column(call, 1, JOB_ID) ||
		PG_GETARG_OID(0) != quota_relation(QUOTA_REL_JOBS))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function quota.jobs_written() can be called only by its own trigger"),
				 errhint("It works for table quota.jobs alone.")));
	fcinfo->flinfo->fn_extra = &checked;
}

/*
 * Condition of the AFTER INSERT trigger, with tableoid and id of the row: true when
 * that is needed.
 */
Datum
quota_jobs_written(PG_FUNCTION_ARGS)
{
	JournalNote note = job_empty_note(false);

	check_caller(fcinfo);
	if (expected.known == NULL || expected.id != PG_GETARG_INT64(1) ||
		expected.known->names.hash != expected.flow)
		PG_RETURN_BOOL(true);
	if (expected.noted)
		PG_RETURN_BOOL(false);
	if (expected.has_deadline)
		job_deadline_note(expected.start_before, true, false);
	note.lo = note.hi = expected.id;
	note.depth = 1;
	job_written_note(expected.known, &note);
	expected.noted = true;
	PG_RETURN_BOOL(false);
}
