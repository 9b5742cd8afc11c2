/* What is learned from calls and their answers. */

CREATE FUNCTION quota.stat_retries_rows(
	OUT provider text,
	OUT tenant text,
	OUT first_attempts bigint,
	OUT retries bigint,
	OUT share numeric,
	OUT left_over bigint,
	OUT refused bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'quota_stat_retries'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 1000;
COMMENT ON FUNCTION quota.stat_retries_rows() IS
'Internal: rows of quota.stat_retries.';

CREATE VIEW quota.stat_retries AS
SELECT * FROM quota.stat_retries_rows();
COMMENT ON VIEW quota.stat_retries IS
'Retry budgets (quota.providers.retry_share) of the providers and tenants of this database, as they are now. One that nobody has used for ten seconds may be missing. Empty on a standby.';
COMMENT ON COLUMN quota.stat_retries.provider IS 'The provider.';
COMMENT ON COLUMN quota.stat_retries.tenant IS 'The tenant whose budget it is; NULL for that of the provider.';
COMMENT ON COLUMN quota.stat_retries.first_attempts IS 'First attempts admitted in the last ten seconds: the present one and the nine before.';
COMMENT ON COLUMN quota.stat_retries.retries IS 'Retries admitted in them.';
COMMENT ON COLUMN quota.stat_retries.share IS 'Part of these calls that were retries, 0 to 1, rounded to four decimals; NULL without calls.';
COMMENT ON COLUMN quota.stat_retries.left_over IS 'Retries that are still in the budget now.';
COMMENT ON COLUMN quota.stat_retries.refused IS 'Retries the budget has refused since it is in memory.';

CREATE FUNCTION quota.stat_breakers_rows(
	OUT provider text,
	OUT breaker text,
	OUT state text,
	OUT since timestamptz,
	OUT open_until timestamptz,
	OUT probing integer,
	OUT calls bigint,
	OUT failures bigint,
	OUT admitted bigint,
	OUT refused bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'quota_stat_breakers'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 100;
COMMENT ON FUNCTION quota.stat_breakers_rows() IS
'Internal: rows of quota.stat_breakers.';

CREATE VIEW quota.stat_breakers AS
SELECT * FROM quota.stat_breakers_rows();
COMMENT ON VIEW quota.stat_breakers IS
'Circuit breakers (quota.breakers) that calls of this database have met, as they are now. One that is closed and has heard nothing within its window may be missing. Empty on a standby.';
COMMENT ON COLUMN quota.stat_breakers.provider IS 'The provider.';
COMMENT ON COLUMN quota.stat_breakers.breaker IS 'As decisions name it: "breaker" and the endpoint pattern.';
COMMENT ON COLUMN quota.stat_breakers.state IS 'closed: calls go on. open: none. half_open: probes.';
COMMENT ON COLUMN quota.stat_breakers.since IS 'When it came into this state, or was met first.';
COMMENT ON COLUMN quota.stat_breakers.open_until IS 'When probes may go; NULL unless open.';
COMMENT ON COLUMN quota.stat_breakers.probing IS 'Probes under way; NULL unless half_open.';
COMMENT ON COLUMN quota.stat_breakers.calls IS 'Calls in the window that have ended; half_open: probes that have.';
COMMENT ON COLUMN quota.stat_breakers.failures IS 'Of these: failed.';
COMMENT ON COLUMN quota.stat_breakers.admitted IS 'Calls it has admitted since it is in memory.';
COMMENT ON COLUMN quota.stat_breakers.refused IS 'Calls it has refused.';

CREATE FUNCTION quota.stat_adaptive_rows(
	OUT provider text,
	OUT limit_name text,
	OUT bucket text,
	OUT used_part numeric,
	OUT has_worked numeric,
	OUT has_not numeric,
	OUT changed_at timestamptz,
	OUT rests_until timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'quota_stat_adaptive'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 100;
COMMENT ON FUNCTION quota.stat_adaptive_rows() IS
'Internal: rows of quota.stat_adaptive.';

CREATE VIEW quota.stat_adaptive AS
SELECT * FROM quota.stat_adaptive_rows();
COMMENT ON VIEW quota.stat_adaptive IS
'Buckets of adaptive limits (quota.limits.adaptive) of this database, as of the last decision or answer: what part of the amount is used. Empty on a standby.';
COMMENT ON COLUMN quota.stat_adaptive.provider IS
'NULL for a limit across providers or of an account.';
COMMENT ON COLUMN quota.stat_adaptive.limit_name IS 'The limit this is a bucket of.';
COMMENT ON COLUMN quota.stat_adaptive.bucket IS
'Whose bucket it is: the values of what the limit is per.';
COMMENT ON COLUMN quota.stat_adaptive.used_part IS 'Part of the amount that is used, 0 to 1; quota.stat_buckets.capacity is what that comes to.';
COMMENT ON COLUMN quota.stat_adaptive.has_worked IS 'The highest part at which a window has passed without a sign that the provider limits, since the last one; NULL = none.';
COMMENT ON COLUMN quota.stat_adaptive.has_not IS 'The lowest part at which there was such a sign; NULL = none, or it has worked since.';
COMMENT ON COLUMN quota.stat_adaptive.changed_at IS 'When it changed last.';
COMMENT ON COLUMN quota.stat_adaptive.rests_until IS 'After a decrease: when it begins to watch again; NULL = it watches.';

/* To see all tenants is for those who may monitor the server. */
REVOKE ALL ON FUNCTION
	quota.stat_retries_rows(), quota.stat_breakers_rows(), quota.stat_adaptive_rows()
FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
	quota.stat_retries_rows(), quota.stat_breakers_rows(), quota.stat_adaptive_rows()
TO pg_monitor;
GRANT SELECT ON quota.stat_retries, quota.stat_breakers, quota.stat_adaptive TO pg_monitor;
