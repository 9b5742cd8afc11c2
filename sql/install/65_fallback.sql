/* When the database is out of reach. */

CREATE FUNCTION quota_fallback(
	provider text,
	workers integer,
	OUT limit_name text,
	OUT endpoint text,
	OUT per text[],
	OUT unit text,
	OUT kind text,
	OUT amount bigint,
	OUT period interval)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'quota_fallback'
LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 5;
COMMENT ON FUNCTION quota_fallback(text, integer) IS
'What each of so many workers of a provider may do by itself while the database is out of reach, so that all of them together stay within the provider''s limits; to be asked and kept while it is there. One row for every hard limit that tenants share and that calls to the endpoint (a pattern, NULL = all) meet: amount units in any interval of period, for each value of per; concurrency: amount calls in flight, period NULL. Amounts are the effective ones (safety included), of adaptive limits the floor, divided by workers, and limits across providers by their providers too, rounded down: 0 = no call, with fewer workers there may be some. 0 as well for credits, which need the ledger. A worker begins one period after its last answer from the database, and goes on by the database one period after its last such call. Errors: 42704 provider does not exist; 22023 workers out of range; 22004 NULL.';
REVOKE ALL ON FUNCTION quota_fallback(text, integer) FROM PUBLIC;
