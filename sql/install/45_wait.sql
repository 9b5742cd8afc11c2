-- Waiting for work, and what waits.
CREATE PROCEDURE quota_wait(provider text, timeout interval DEFAULT '1 minute')
	LANGUAGE C AS 'MODULE_PATHNAME', 'quota_wait';
COMMENT ON PROCEDURE quota_wait(text, interval) IS
'Returns when a job of the provider may be claimable, at once if one is, or after the timeout (real time, above 0, at most 366 days). One waiting session returns for each commit that enqueues, each release, refill, resume or change of configuration; call quota_dequeue then, and come back if it gives nothing. While it waits the session holds no snapshot and no lock, and can be cancelled at any moment. 25001 inside a transaction block or function: call it outside. 42704 for an unknown provider, 55000 when the extension is dropped meanwhile.';

CREATE PROCEDURE quota_wait(providers text[], timeout interval DEFAULT '1 minute')
	LANGUAGE C AS 'MODULE_PATHNAME', 'quota_wait_any';
COMMENT ON PROCEDURE quota_wait(text[], interval) IS
'The same for a job of any of 1 to 16 providers. 54000 for more.';

REVOKE ALL ON PROCEDURE quota_wait(text, interval), quota_wait(text[], interval)
	FROM PUBLIC;

CREATE FUNCTION quota_next_at(provider text)
	RETURNS TABLE (tenant text, class text, endpoint text, queued bigint,
		in_flight bigint, reason text, limit_name text, next_at timestamptz)
	LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'quota_next_at';
COMMENT ON FUNCTION quota_next_at(text) IS
'For every tenant, class and endpoint with jobs that wait (queued of them, retries and scheduled ones included): when the next one may be claimed, and why not now. reason is ok when its turn may be now (next_at is now), scheduled when all of them are for later, empty when those that are left are in the hands of open transactions, unconfigured when tenant, provider or class has no row, suspended, paused (limit_name says what is), or that of the limit limit_name. next_at is NULL where only an event helps: a resume, a finished job, a change of configuration, another one that goes first; it may be too early where a lease of one of these jobs, even of an attempt that is over, would have ended before. Jobs that were refused are known by what they cost; of others it is told what a call at the cost map would be. A job may have to wait for its turn after that. Works in READ ONLY transactions; 42704 for an unknown provider, 25006 on a standby.';

CREATE FUNCTION quota_drain_time(provider text, extra_jobs int DEFAULT 0)
	RETURNS interval
	LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'quota_drain_time';
COMMENT ON FUNCTION quota_drain_time(text, int) IS
'How long until all jobs that wait at the provider, and extra_jobs more (0 or more), have been claimed, if nothing else comes and there are always workers. Told from the limits: what the jobs cost by the cost map (units of their own do not count) is added up for every limit; a rate limit is through when it has refilled what is missing, a concurrency limit when places have been given back often enough (Little''s law: jobs x mean latency of the last 256 finished attempts / places; left out while nothing was measured), an allowance in as many periods of its calendar as it takes; the slowest one decides. Extra jobs cost like the average waiting job, or, if none waits, like a call to no endpoint. Where all jobs of a tenant, class and endpoint are for later, not before the first of them. Jobs of suspended tenants do not count; those that are paused begin when that ends (but for pauses of a connection). NULL when it never ends: amount 0, a pause without end, a job that costs more than the limit holds, a tenant without a row. Zero when nothing has to wait. 42704 for an unknown provider, 22023 for extra_jobs below 0, 25006 on a standby, 55000 after a change of configuration in the same transaction.';

CREATE FUNCTION quota_workers_needed(provider text, percentile numeric DEFAULT 0.95)
	RETURNS int
	LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'quota_workers_needed';
COMMENT ON FUNCTION quota_workers_needed(text, numeric) IS
'How many workers, with one job each, use up the provider''s rate: calls per second x seconds per call (Little''s law), rounded up. Calls per second are those of the narrowest rate limit that every call meets, at the cost of a call to no endpoint. Seconds per call are the given percentile (above 0, at most 1) of the last 256 attempts that were completed or failed since the server started, from claim to end: the least of them such that at least that part is no longer. At least 1, at most what the narrowest concurrency limit that every call meets allows. NULL when nothing was measured yet or no rate limit is met by every call. 42704 for an unknown provider, 22023 for a percentile out of range, 25006 on a standby.';

REVOKE ALL ON FUNCTION quota_next_at(text), quota_drain_time(text, int),
	quota_workers_needed(text, numeric) FROM PUBLIC;
