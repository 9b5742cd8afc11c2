/*
 * error.c
 *		The errors of error.h: SQLSTATE, one factual line, detail with values,
 *		hint with the remedy.  sql/errors.sql shows them.
 */
#include "error.h"

#include "shmem.h"

/* 55000: the library was not preloaded */
void
quota_error_not_loaded(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("quota must be loaded at server start"),
			 errhint("Add \"quota\" to shared_preload_libraries and restart the server.")));
	pg_unreachable();
}

/* 55000: shared library without its SQL objects */
void
quota_error_no_extension(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("extension \"quota\" does not exist in this database"),
			 errhint("Run CREATE EXTENSION quota.")));
	pg_unreachable();
}

/* 22004 */
void
quota_error_null(const char *argument)
{
	ereport(ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			 errmsg("argument \"%s\" must not be null", argument),
			 errhint("Pass a value.")));
	pg_unreachable();
}

/* 42704 */
void
quota_error_no_such(const char *kind, const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("%s \"%s\" does not exist", kind, name),
			 strcmp(kind, "job") == 0
			 ? errhint("Finished jobs are removed after quota.job_retention.")
			 : strcmp(kind, "class") == 0
			 ? errhint("Insert it into quota.classes first.")
			 : errhint("Insert it into quota.%ss first.", kind)));
	pg_unreachable();
}

/* 22023 */
void
quota_error_range(const char *argument, int64 value, int64 min, int64 max)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("argument \"%s\" is out of range", argument),
			 errdetail("The value is %lld, allowed are %lld to %lld.",
					   (long long) value, (long long) min, (long long) max),
			 errhint("Pass a value within that range.")));
	pg_unreachable();
}

/* 22023 */
void
quota_error_units(const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("argument \"units\" is malformed"),
			 errdetail("%s", detail),
			 errhint("Pass an object of unit names and whole numbers, such as {\"input_token\": 1200}.")));
	pg_unreachable();
}

/* 22023 */
void
quota_error_too_long(const char *argument, int length)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("argument \"%s\" is too long", argument),
			 errdetail("It has %d bytes, at most %d are allowed.",
					   length, QUOTA_NAME_LEN - 1),
			 errhint("Use a shorter name, such as an id.")));
	pg_unreachable();
}

/* 55000: a decision after an uncommitted change of what it depends on */
void
quota_error_commit_first(const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot decide by uncommitted changes of %s", what),
			 errdetail("Shared counters serve every session, and others do not see these changes yet."),
			 errhint("Commit first.")));
	pg_unreachable();
}

/* 0A000 */
void
quota_error_prepare(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot PREPARE a transaction that has used quota"),
			 errdetail("What it took is returned, or becomes final, when this session's transaction ends."),
			 errhint("Use COMMIT, or call quota outside the prepared transaction.")));
	pg_unreachable();
}

/* 54000 */
void
quota_error_too_many_terms(const char *tenant, const char *provider)
{
	ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("too many limits match one call"),
			 errdetail("More than %d limits match a call of tenant \"%s\" to provider \"%s\".",
					   QUOTA_MAX_TERMS, tenant, provider),
			 errhint("Use fewer limits, or narrower endpoint patterns.")));
	pg_unreachable();
}

/* 55000 */
void
quota_error_permit(int64 permit)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("permit %lld is not open", (long long) permit),
			 errdetail("It was settled or released, or its lifetime has ended."),
			 errhint("Settle within the permit lifetime, or call quota_extend in time.")));
	pg_unreachable();
}

/* 55000: refund says what has become of its credits */
void
quota_error_permit_expired(int64 permit, bool refund)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("permit %lld has expired", (long long) permit),
			 errdetail(refund ? "Its credits have returned." : "Its credits stay spent."),
			 errhint("Settle within the permit lifetime, or call quota_extend in time.")));
	pg_unreachable();
}

/* 55P03 */
void
quota_error_permit_busy(int64 permit)
{
	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("permit %lld is being settled", (long long) permit),
			 errdetail("A transaction that has not ended, perhaps this one, settles, releases or refunds it."),
			 errhint("Retry when that transaction has ended.")));
	pg_unreachable();
}

/* 55000 */
void
quota_error_stale_lease(int64 job, int attempt)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("stale lease: attempt %d of job %lld is not running",
					attempt, (long long) job),
			 errdetail("Its lease has ended, or the job is finished or claimed by a later attempt."),
			 errhint("Ask for a longer lease, or call quota_extend_job in time.")));
	pg_unreachable();
}

/* 55P03 */
void
quota_error_job_busy(int64 job)
{
	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("job %lld is locked by another transaction",
					(long long) job),
			 errhint("Retry when that transaction has ended.")));
	pg_unreachable();
}

/* 53400 */
void
quota_table_full(const char *what, const char *setting, int size)
{
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("no room for another %s", what),
			 errdetail("All %d places are in use.", size),
			 errhint("Raise %s and restart the server.", setting)));
	pg_unreachable();
}

/* 53400 */
void
quota_error_tenant_buckets(const char *tenant, int ceiling)
{
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("no room for another bucket of tenant \"%s\"", tenant),
			 errdetail("A tenant may use an eighth of quota.max_buckets (%d) at one provider, and no more than are free.",
					   ceiling),
			 errhint("Use fewer values of user, connection or resource, or raise quota.max_buckets.")));
	pg_unreachable();
}

/* 53400 */
void
quota_error_tenant_permits(const char *tenant)
{
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("no room for another permit of tenant \"%s\"", tenant),
			 errdetail("Of the last quarter of %d places a tenant gets none while it has as many at one provider as are free.",
					   quota_max_permits),
			 errhint("Settle calls that are over, or raise quota.max_permits.")));
	pg_unreachable();
}

/* 55000: the zone was known where and when the row was written */
void
quota_error_no_zone(const char *limit_name, const char *zone)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("time zone \"%s\" of limit \"%s\" is not known to this server",
					zone, limit_name),
			 errhint("Install time zone data that has it, or give quota.limits.time_zone one of the names in pg_timezone_names.")));
	pg_unreachable();
}

/* 25001 */
void
quota_error_in_transaction(const char *procedure)
{
	ereport(ERROR,
			(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
			 errmsg("%s cannot run inside a transaction block", procedure),
			 errdetail("While it waits it must hold neither a snapshot nor a lock."),
			 errhint("Call it outside a transaction block, not from a function.")));
	pg_unreachable();
}
