/* Pauses: by hand, or as a provider's answer asked for; see src/pause.c. */

CREATE TABLE quota.pauses (
	id bigint PRIMARY KEY,
	account text,
	provider text,
	tenant text,
	endpoint text,
	connection text,
	limit_name text,
	since timestamptz NOT NULL,
	until timestamptz,
	lasts_until timestamptz,
	reason text,
	reported boolean NOT NULL DEFAULT false,
	set_by text,
	CONSTRAINT pauses_scope CHECK (CASE
		WHEN account IS NOT NULL THEN coalesce(provider, tenant, endpoint, connection, limit_name) IS NULL
		WHEN limit_name IS NOT NULL THEN coalesce(tenant, endpoint, connection) IS NULL
		ELSE provider IS NOT NULL END),
	CONSTRAINT pauses_account_length CHECK (pg_catalog.octet_length(account) OPERATOR(pg_catalog.>=) 1
		AND pg_catalog.octet_length(account) OPERATOR(pg_catalog.<=) 127),
	CONSTRAINT pauses_provider_length CHECK (pg_catalog.octet_length(provider) OPERATOR(pg_catalog.>=) 1
		AND pg_catalog.octet_length(provider) OPERATOR(pg_catalog.<=) 127),
	CONSTRAINT pauses_tenant_length CHECK (pg_catalog.octet_length(tenant) OPERATOR(pg_catalog.>=) 1
		AND pg_catalog.octet_length(tenant) OPERATOR(pg_catalog.<=) 127),
	CONSTRAINT pauses_endpoint_length CHECK (pg_catalog.octet_length(endpoint) OPERATOR(pg_catalog.>=) 1
		AND pg_catalog.octet_length(endpoint) OPERATOR(pg_catalog.<=) 127),
	CONSTRAINT pauses_connection_length CHECK (pg_catalog.octet_length(connection) OPERATOR(pg_catalog.>=) 1
		AND pg_catalog.octet_length(connection) OPERATOR(pg_catalog.<=) 127),
	CONSTRAINT pauses_limit_name_length CHECK (pg_catalog.octet_length(limit_name) OPERATOR(pg_catalog.>=) 1
		AND pg_catalog.octet_length(limit_name) OPERATOR(pg_catalog.<=) 127),
	CONSTRAINT pauses_until_range CHECK (pg_catalog.isfinite(until) AND pg_catalog.isfinite(lasts_until))
) USING heap;
COMMENT ON TABLE quota.pauses IS 'Pauses, so that they outlive a restart: one row for each quota_pause(), written by its transaction, and for each scope that a provider''s answer paused, written by a background worker about a second later. A pause holds until the one of its scope that ends last is over. DELETE ends a pause when it commits, as quota_resume() does; UPDATE and TRUNCATE are refused (0A000); INSERT is for restoring a dump. Rows of pauses that are over are deleted in the background after a minute.';
COMMENT ON COLUMN quota.pauses.id IS 'Random.';
COMMENT ON COLUMN quota.pauses.account IS 'All calls to the providers of this account; then no other name is given.';
COMMENT ON COLUMN quota.pauses.provider IS 'Calls to this provider; NULL for an account, and for a limit without a provider.';
COMMENT ON COLUMN quota.pauses.tenant IS 'Only those of this tenant.';
COMMENT ON COLUMN quota.pauses.endpoint IS 'Only those to this endpoint; * stands for any characters, as in quota.limits.endpoint.';
COMMENT ON COLUMN quota.pauses.connection IS 'Only those of this connection.';
COMMENT ON COLUMN quota.pauses.limit_name IS 'Only those that cost something of this limit.';
COMMENT ON COLUMN quota.pauses.since IS 'When it began.';
COMMENT ON COLUMN quota.pauses.until IS 'When it ends; NULL = when somebody ends it.';
COMMENT ON COLUMN quota.pauses.lasts_until IS 'Internal: when it ends by a clock that is never set, for a pause that was given as a duration; until is what that came to when it was written.';
COMMENT ON COLUMN quota.pauses.reason IS 'Why, for people to read; of a reported one from the answer that prolonged it last.';
COMMENT ON COLUMN quota.pauses.reported IS 'A provider''s answer asked for it; else it was made by hand.';
COMMENT ON COLUMN quota.pauses.set_by IS 'Database role that did it, or reported the answer.';
REVOKE ALL ON quota.pauses FROM PUBLIC;

CREATE FUNCTION quota.pauses_changed() RETURNS trigger
	LANGUAGE C AS 'MODULE_PATHNAME', 'quota_pauses_changed';
CREATE FUNCTION quota.pauses_guard() RETURNS trigger
	LANGUAGE C AS 'MODULE_PATHNAME', 'quota_pauses_guard';
COMMENT ON FUNCTION quota.pauses_changed() IS 'Begins a pause at once, and ends one at commit.';
COMMENT ON FUNCTION quota.pauses_guard() IS 'Refuses UPDATE and TRUNCATE of quota.pauses.';
REVOKE ALL ON FUNCTION quota.pauses_changed(), quota.pauses_guard() FROM PUBLIC;
CREATE TRIGGER quota_changed AFTER INSERT OR DELETE ON quota.pauses
	FOR EACH ROW EXECUTE FUNCTION quota.pauses_changed();
CREATE TRIGGER quota_guard BEFORE UPDATE ON quota.pauses
	FOR EACH ROW EXECUTE FUNCTION quota.pauses_guard();
CREATE TRIGGER quota_guard_truncate BEFORE TRUNCATE ON quota.pauses
	FOR EACH STATEMENT EXECUTE FUNCTION quota.pauses_guard();
ALTER TABLE quota.pauses
	ENABLE ALWAYS TRIGGER quota_changed,
	ENABLE ALWAYS TRIGGER quota_guard,
	ENABLE ALWAYS TRIGGER quota_guard_truncate;
COMMENT ON TRIGGER quota_changed ON quota.pauses IS 'Begins a pause at once, and ends one at commit.';
COMMENT ON TRIGGER quota_guard ON quota.pauses IS 'Refuses UPDATE.';
COMMENT ON TRIGGER quota_guard_truncate ON quota.pauses IS 'Refuses TRUNCATE.';
SELECT pg_catalog.pg_extension_config_dump('quota.pauses', '');

CREATE FUNCTION quota_pause(
	provider text DEFAULT NULL,
	until timestamptz DEFAULT NULL,
	duration interval DEFAULT NULL,
	tenant text DEFAULT NULL,
	endpoint text DEFAULT NULL,
	connection text DEFAULT NULL,
	limit_name text DEFAULT NULL,
	account text DEFAULT NULL,
	reason text DEFAULT NULL,
	shorten boolean DEFAULT false)
RETURNS bigint
LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'quota_pause';
COMMENT ON FUNCTION quota_pause(text, timestamptz, interval, text, text, text, text, text, text, boolean) IS
'Refuses calls with reason paused, and lets jobs wait: all calls to the provider, or only those of tenant, to endpoint (a name, or a pattern as in quota.limits), of connection, where several are given those that all are true of; calls that cost something of the limit limit_name (of provider; without one, across providers); or calls to all providers of account. Ends at until (wall clock), after duration (above 0, at most 366 days, whatever the wall clock does), or, when neither is given, by quota_resume(). Acts on the next decision of everybody, before COMMIT, and never was when the transaction or savepoint rolls back. Of pauses of one scope the one that ends last counts, so a shorter one shortens nothing; shorten => true ends the others, reported ones too, when it commits. When it is over, token and leaky buckets that count nothing but the paused calls and refill within a minute begin empty. Returns quota.pauses.id. reason: at most 127 bytes. Errors: 22023 names that do not go together, an until that is past, a duration out of range; 42704 provider, tenant, limit or account does not exist; 55P03 (shorten) another transaction, or a background worker, is changing a pause of this scope; 53400 too many pauses at once (an eighth of quota.max_tenants, at least 256); 25006 read-only.';

CREATE FUNCTION quota_resume(
	provider text DEFAULT NULL,
	tenant text DEFAULT NULL,
	endpoint text DEFAULT NULL,
	connection text DEFAULT NULL,
	limit_name text DEFAULT NULL,
	account text DEFAULT NULL)
RETURNS boolean
LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'quota_resume';
COMMENT ON FUNCTION quota_resume(text, text, text, text, text, text) IS
'Ends all pauses of exactly this scope, by hand and reported, when it commits; those of other scopes, and what is reported meanwhile, go on. Returns whether there was one. Errors: 22023 names that do not go together; 55P03 another transaction, or a background worker, is changing the same pause: try again; 25006 read-only.';
REVOKE ALL ON FUNCTION
	quota_pause(text, timestamptz, interval, text, text, text, text, text, text, boolean),
	quota_resume(text, text, text, text, text, text)
FROM PUBLIC;

CREATE FUNCTION quota.stat_pauses_rows(
	OUT scope text,
	OUT account text,
	OUT provider text,
	OUT tenant text,
	OUT endpoint text,
	OUT connection text,
	OUT limit_name text,
	OUT since timestamptz,
	OUT age interval,
	OUT until timestamptz,
	OUT reason text,
	OUT reported boolean,
	OUT set_by text,
	OUT committed boolean,
	OUT id bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'quota_stat_pauses'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 10;
COMMENT ON FUNCTION quota.stat_pauses_rows() IS
'Internal: rows of quota.stat_pauses.';

CREATE VIEW quota.stat_pauses AS
SELECT * FROM quota.stat_pauses_rows();
COMMENT ON VIEW quota.stat_pauses IS
'Pauses of this database that are in force, those of open transactions included. Empty on a standby.';
COMMENT ON COLUMN quota.stat_pauses.scope IS 'What is paused, in words, as limit_name of decisions says it.';
COMMENT ON COLUMN quota.stat_pauses.account IS 'As in quota.pauses, and so are the next columns.';
COMMENT ON COLUMN quota.stat_pauses.provider IS 'See account.';
COMMENT ON COLUMN quota.stat_pauses.tenant IS 'See account.';
COMMENT ON COLUMN quota.stat_pauses.endpoint IS 'See account.';
COMMENT ON COLUMN quota.stat_pauses.connection IS 'See account.';
COMMENT ON COLUMN quota.stat_pauses.limit_name IS 'See account.';
COMMENT ON COLUMN quota.stat_pauses.since IS 'When it began.';
COMMENT ON COLUMN quota.stat_pauses.age IS 'For how long it has been in force; since a restart of the server, if that was later.';
COMMENT ON COLUMN quota.stat_pauses.until IS 'When it ends; NULL = when somebody ends it.';
COMMENT ON COLUMN quota.stat_pauses.reason IS 'Why.';
COMMENT ON COLUMN quota.stat_pauses.reported IS 'A provider''s answer asked for it.';
COMMENT ON COLUMN quota.stat_pauses.set_by IS 'Database role that did it, or reported the answer.';
COMMENT ON COLUMN quota.stat_pauses.committed IS 'False: the transaction of quota_pause() is still open.';
COMMENT ON COLUMN quota.stat_pauses.id IS 'quota.pauses.id.';
REVOKE ALL ON FUNCTION quota.stat_pauses_rows() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION quota.stat_pauses_rows() TO pg_monitor;
GRANT SELECT ON quota.stat_pauses TO pg_monitor;
