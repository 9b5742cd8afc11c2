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

/* To see all tenants is for those who may monitor the server. */
REVOKE ALL ON FUNCTION quota.stat_retries_rows() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION quota.stat_retries_rows() TO pg_monitor;
GRANT SELECT ON quota.stat_retries TO pg_monitor;
