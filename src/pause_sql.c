/*
 * pause_sql.c
 *		quota_pause() and quota_resume(): pauses by hand.  Both write rows, whose
 *		triggers do the rest (pause_row.c).
 */
#include "pause_table.h"

#include "args.h"
#include "error.h"
#include "event.h"
#include "journal.h"
#include "miscadmin.h"
#include "policy_cache.h"
#include "row_write.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(quota_pause);
PG_FUNCTION_INFO_V1(quota_resume);

/* Arguments of quota_pause(); those of quota_resume() are ARG_TENANT ... */
enum
{
	ARG_PROVIDER,
	ARG_UNTIL,
	ARG_DURATION,
	ARG_SCOPE,
	ARG_REASON = ARG_SCOPE + 5,
	ARG_SHORTEN
};
enum
{
	RESUME_PROVIDER,
	RESUME_SCOPE
};

/* ---- arguments ---- */

/* 22023 */
static void
error_scope(const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("scope of a pause is not valid"),
			 errdetail("%s", detail),
			 errhint("Name an account alone, a limit (with its provider, if it has one), or a provider and any of tenant, endpoint and connection.")));
}

/* Reads tenant, endpoint, connection, limit_name and account from there on. */
static PauseScope
read_scope(FunctionCallInfo fcinfo, int first)
{
	PauseScope	s;

	s.provider = quota_arg_name(fcinfo, ARG_PROVIDER, "provider", false);
	s.tenant = quota_arg_name(fcinfo, first, "tenant", false);
	s.endpoint = quota_arg_name(fcinfo, first + 1, "endpoint", false);
	s.connection = quota_arg_name(fcinfo, first + 2, "connection", false);
	s.limit_name = quota_arg_name(fcinfo, first + 3, "limit_name", false);
	s.account = quota_arg_name(fcinfo, first + 4, "account", false);
	if (s.account && (s.provider || s.limit_name || s.tenant || s.endpoint || s.connection))
		error_scope("An account is named, and something else.");
	if (s.limit_name && (s.tenant || s.endpoint || s.connection))
		error_scope("A limit is named, and tenant, endpoint or connection.");
	if (!s.account && !s.limit_name && !s.provider)
		error_scope("Neither account, limit nor provider is named.");
	return s;
}

/* A list of limits has one of this name. */
static bool
has_limit(const List *limits, const char *name)
{
	ListCell   *lc;

	foreach(lc, limits)
		if (strcmp(((const PolicyLimit *) lfirst(lc))->name, name) == 0)
			return true;
	return false;
}

/* Some provider is of the account. */
static bool
has_account(const PolicyRules *rules, const char *account)
{
	HASH_SEQ_STATUS status;
	const PolicyProvider *p;

	hash_seq_init(&status, rules->providers);
	while ((p = hash_seq_search(&status)) != NULL)
		if (strcmp(p->account, account) == 0)
		{
			hash_seq_term(&status);
			return true;
		}
	return false;
}

/* What is named is there.  42704 */
static void
check_scope(const PauseScope *s)
{
	const PolicyRules *rules;
	const PolicyProvider *p;

	if (s->provider)
		quota_check_provider(s->provider, "provider");
	if (s->tenant && !quota_tenant_exists(s->tenant))
		quota_error_no_such("tenant", s->tenant);
	rules = policy_rules();
	p = s->provider ? policy_find(rules->providers, s->provider) : NULL;
	if (s->limit_name && !has_limit(p ? p->limits : rules->across, s->limit_name))
		quota_error_no_such("limit", s->limit_name);
	if (s->account && !has_account(rules, s->account))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("account \"%s\" does not exist", s->account),
				 errhint("Name one that a provider belongs to, see quota.providers.account.")));
}

/* When it is to end.  22023 */
static PauseEnd
read_end(FunctionCallInfo fcinfo)
{
	TimestampTz until_us;

	if (!PG_ARGISNULL(ARG_UNTIL) && !PG_ARGISNULL(ARG_DURATION))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a pause ends once"),
				 errdetail("Both \"until\" and \"duration\" are given."),
				 errhint("Pass one of them, or none for a pause that quota_resume() ends.")));
	if (!PG_ARGISNULL(ARG_DURATION))
		return pause_for(quota_arg_interval(fcinfo, ARG_DURATION, "duration"));
	if (PG_ARGISNULL(ARG_UNTIL))
		return pause_open_ended();
	until_us = PG_GETARG_TIMESTAMPTZ(ARG_UNTIL);
	if (until_us <= quota_wall_us())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"until\" is not in the future"),
				 errdetail("It is %s.", timestamptz_to_str(until_us)),
				 errhint("To end a pause use quota_resume().")));
	return pause_until(until_us);
}

/* ---- rows ---- */

/* The row is of exactly this scope. */
static bool
row_is_of(TupleTableSlot *row, const PauseScope *s)
{
	return row_text_is(row, PAUSES_ACCOUNT, s->account ? s->account : "") &&
		row_text_is(row, PAUSES_PROVIDER, s->provider ? s->provider : "") &&
		row_text_is(row, PAUSES_TENANT, s->tenant ? s->tenant : "") &&
		row_text_is(row, PAUSES_ENDPOINT, s->endpoint ? s->endpoint : "") &&
		row_text_is(row, PAUSES_CONNECTION, s->connection ? s->connection : "") &&
		row_text_is(row, PAUSES_LIMIT_NAME, s->limit_name ? s->limit_name : "");
}

/* 55P03 */
static void
error_busy(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("another transaction is changing the same pause"),
			 errdetail("It has not committed yet."),
			 errhint("Try again when it has.")));
}

/* Somebody has made the pause, and not committed yet. */
static bool
is_open(const PauseScope *scope, int64 id)
{
	PausePlace	place = pause_place(scope);
	uint32		index;
	bool		open;

	LWLockAcquire(quota_shared->pause_lock, LW_SHARED);
	index = pause_find(&place, id);
	open = index == QUOTA_NO_INDEX || quota_pauses[index].open;
	LWLockRelease(quota_shared->pause_lock);
	return open;
}

/* Deletes the rows of the scope; whether there was any. */
static bool
delete_rows(const PauseScope *scope)
{
	RowTable   *pauses = row_open(QUOTA_REL_PAUSES);
	TupleTableSlot *slot = row_slot(pauses);
	RowScan    *scan = row_scan_begin(pauses, QUOTA_REL_PAUSES_PKEY, 0, NULL);
	bool		in_progress;
	bool		found = false;

	row_will_delete(pauses);
	while (row_scan_next(scan, slot, &in_progress))
	{
		if (!row_is_of(slot, scope))
			continue;
		/* one that is being inserted is not there yet */
		if (in_progress && is_open(scope, row_int64(slot, PAUSES_ID)))
			continue;
		if (in_progress || row_lock(pauses, slot) != ROW_LOCKED)
			error_busy();
		row_delete(pauses, slot);
		found = true;
	}
	row_scan_end(scan);
	row_close(pauses);
	return found;
}

/* A reported pause of the scope, written or not, ends with us; whether there is one. */
static bool
end_reported(const PauseScope *scope)
{
	PausePlace	place = pause_place(scope);
	int64		now_ns = quota_now_ns();
	TimestampTz wall_us = quota_wall_us();
	bool		found = false;

	/* there is one of a scope at most */
	journal_reserve(1);
	LWLockAcquire(quota_shared->pause_lock, LW_EXCLUSIVE);
	for (uint32 i = pause_first(&place); i != QUOTA_NO_INDEX; i = quota_pauses[i].chain)
	{
		QuotaPause *p = &quota_pauses[i];

		if (found || !p->reported || !pause_is_of(p, &place) ||
			!pause_is_on(p, now_ns, wall_us))
			continue;
		journal_pause(i, p->id, PAUSE_ENDED, p->version);
		found = true;
	}
	LWLockRelease(quota_shared->pause_lock);
	return found;
}

/* All pauses of the scope end with us; whether there was any. */
static bool
end_all(const PauseScope *scope)
{
	bool		found;

	pause_rows_lock(false);
	found = end_reported(scope);
	found |= delete_rows(scope);
	pause_rows_unlock();
	return found;
}

/* Inserts the row of a new pause; its id. */
static int64
insert_row(const PauseScope *s, PauseEnd end, const char *reason, TimestampTz until_us)
{
	RowTable   *pauses = row_open(QUOTA_REL_PAUSES);
	RowValues	row = row_values(pauses);
	int64		id = pause_new_id();

	row_set(&row, PAUSES_ID, Int64GetDatum(id));
	row_set_text(&row, PAUSES_ACCOUNT, s->account);
	row_set_text(&row, PAUSES_PROVIDER, s->provider);
	row_set_text(&row, PAUSES_TENANT, s->tenant);
	row_set_text(&row, PAUSES_ENDPOINT, s->endpoint);
	row_set_text(&row, PAUSES_CONNECTION, s->connection);
	row_set_text(&row, PAUSES_LIMIT_NAME, s->limit_name);
	row_set(&row, PAUSES_SINCE, TimestampTzGetDatum(quota_wall_us()));
	if (until_us != DT_NOEND)
		row_set(&row, PAUSES_UNTIL, TimestampTzGetDatum(until_us));
	if (end.lasts)
		row_set(&row, PAUSES_LASTS_UNTIL, TimestampTzGetDatum(end.at_us));
	row_set_text(&row, PAUSES_REASON, reason);
	row_set(&row, PAUSES_REPORTED, BoolGetDatum(false));
	row_set_text(&row, PAUSES_SET_BY, GetUserNameFromId(GetUserId(), false));
	row_insert(pauses, &row);
	row_close(pauses);
	return id;
}

/* Writes the event: until when, or that it is over, and why. */
static void
tell(const char *kind, const PauseScope *s, const char *when, const char *reason)
{
	StringInfoData words;
	const struct
	{
		const char *what;
		const char *name;
	}			parts[] = {
		{"account", s->account}, {"limit", s->limit_name}, {"tenant", s->tenant},
		{"endpoint", s->endpoint}, {"connection", s->connection},
		{"provider", s->limit_name || s->tenant || s->endpoint || s->connection
			? NULL : s->provider}
	};

	initStringInfo(&words);
	for (int i = 0; i < lengthof(parts); i++)
		if (parts[i].name)
			appendStringInfo(&words, "%s %s, ", parts[i].what, parts[i].name);
	appendStringInfo(&words, "%s, by %s", when, GetUserNameFromId(GetUserId(), false));
	if (reason)
		appendStringInfo(&words, ": %s", reason);
	event_insert(quota_wall_us(), kind, s->provider, s->tenant, words.data);
}

/* quota_pause(provider, until, duration, ...): see its COMMENT. */
Datum
quota_pause(PG_FUNCTION_ARGS)
{
	PauseScope	scope;
	PauseEnd	end;
	const char *reason;
	TimestampTz until_us;
	int64		id;

	quota_enter_write("quota_pause()");
	scope = read_scope(fcinfo, ARG_SCOPE);
	reason = quota_arg_name(fcinfo, ARG_REASON, "reason", false);
	check_scope(&scope);
	end = read_end(fcinfo);
	until_us = end.lasts && end.at_us != DT_NOEND
		? quota_wall_us() + (end.at_us - quota_steady_us()) : end.at_us;
	pause_load();
	if (quota_arg_bool(fcinfo, ARG_SHORTEN, "shorten"))
		(void) end_all(&scope);
	id = insert_row(&scope, end, reason, until_us);
	tell("pause", &scope, psprintf("until %s", until_us == DT_NOEND
								   ? "it is resumed" : timestamptz_to_str(until_us)),
		 reason);
	PG_RETURN_INT64(id);
}

/* quota_resume(provider, ...): see its COMMENT. */
Datum
quota_resume(PG_FUNCTION_ARGS)
{
	PauseScope	scope;
	bool		found;

	quota_enter_write("quota_resume()");
	scope = read_scope(fcinfo, RESUME_SCOPE);
	pause_load();
	found = end_all(&scope);
	if (found)
		tell("pause_ended", &scope, "resumed", NULL);
	PG_RETURN_BOOL(found);
}
