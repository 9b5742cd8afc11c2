/* What happened, and what shared memory holds. */

CREATE TABLE quota.events (
	id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	at timestamptz NOT NULL,
	kind text NOT NULL,
	provider text,
	tenant text,
	detail text
) USING heap;
COMMENT ON TABLE quota.events IS
'What happened, kept as long as finished jobs (quota.job_retention) and at most 100000 rows. Changes of tenants are written by the transaction that makes them, all else by a background worker soon after the fact.';
COMMENT ON SEQUENCE quota.events_id_seq IS 'Numbers of events.';
COMMENT ON COLUMN quota.events.id IS 'Order in which events were written.';
COMMENT ON COLUMN quota.events.at IS 'When it happened.';
COMMENT ON COLUMN quota.events.kind IS
'tier_changed, suspended, resumed: a tenant was changed. pause, pause_ended: see quota.pauses; by hand written by the transaction that does it, others by a background worker. shed: jobs were refused because a queue was full; told at the first one, then once a minute for a tenant and provider, with how many there were and why the last one was; a crash loses those of the last minute. exhausted: an allowance refused a call for the first time in its period. soft_limit: a soft limit let a call through that it had no room for, for the first time in the period of an allowance, or since it recovered. budget_reached: a fraction in warn_at of an allowance has been used. breaker_opened, breaker_half_open, breaker_closed: a circuit breaker has changed. adapted: another part of an adaptive limit is used, and why. lost_permit: a permit was never settled before its lifetime ended. cancel_refused: jobs that were cancelled while they ran are not ended by the background worker when their lease is over, for the same reasons as trim_refused. trim_refused: finished jobs or events are not deleted by the background worker, see "Rights" in README.md. events_lost, answers_lost: events, or rows of quota.feedback, came faster than they could be written; detail says how many are missing. account_exhausted: a provider answered that nothing more is to be had before its contract is renewed; told once a minute for a provider, detail is its reason.';
COMMENT ON COLUMN quota.events.provider IS 'The provider concerned, if it is one.';
COMMENT ON COLUMN quota.events.tenant IS 'The tenant concerned, if it is one.';
COMMENT ON COLUMN quota.events.detail IS 'For people to read.';
CREATE FUNCTION quota.tenant_event() RETURNS trigger
	LANGUAGE C AS 'MODULE_PATHNAME', 'quota_tenant_event';
COMMENT ON FUNCTION quota.tenant_event() IS 'Keeps changes of tier and suspensions in quota.events.';
REVOKE ALL ON FUNCTION quota.tenant_event() FROM PUBLIC;
CREATE TRIGGER quota_event AFTER UPDATE OF tier, suspended ON quota.tenants
	FOR EACH ROW EXECUTE FUNCTION quota.tenant_event();
COMMENT ON TRIGGER quota_event ON quota.tenants IS 'Keeps changes of tier and suspensions in quota.events.';
SELECT pg_catalog.pg_extension_config_dump('quota.events', '');
SELECT pg_catalog.pg_extension_config_dump('quota.events_id_seq', '');

CREATE FUNCTION quota.stat_buckets_rows(
	OUT provider text,
	OUT limit_name text,
	OUT bucket text,
	OUT tenant text,
	OUT kind text,
	OUT capacity bigint,
	OUT used bigint,
	OUT level bigint,
	OUT held bigint,
	OUT period_start timestamptz,
	OUT period_end timestamptz,
	OUT unknown_until timestamptz,
	OUT admitted bigint,
	OUT refused bigint,
	OUT enforcement text,
	OUT would_refuse bigint,
	OUT busy boolean)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'quota_stat_buckets'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 1000;
COMMENT ON FUNCTION quota.stat_buckets_rows() IS
'Internal: rows of quota.stat_buckets.';

CREATE VIEW quota.stat_buckets AS
SELECT * FROM quota.stat_buckets_rows();
COMMENT ON VIEW quota.stat_buckets IS
'Buckets of this database in shared memory, as they are now. A bucket that is full and idle may be missing. Empty on a standby.';
COMMENT ON COLUMN quota.stat_buckets.provider IS
'NULL for a limit across providers or of an account.';
COMMENT ON COLUMN quota.stat_buckets.limit_name IS 'The limit this is a bucket of.';
COMMENT ON COLUMN quota.stat_buckets.bucket IS
'Whose bucket it is: the values of what the limit is per.';
COMMENT ON COLUMN quota.stat_buckets.tenant IS
'The tenant that has the bucket for itself; NULL when others share it.';
COMMENT ON COLUMN quota.stat_buckets.kind IS
'Kind of the limit.';
COMMENT ON COLUMN quota.stat_buckets.capacity IS
'Units, as of the last decision.';
COMMENT ON COLUMN quota.stat_buckets.used IS
'Units spent and not refilled; taken in this window, or in the last period of a sliding one; in flight; or charged in this period. NULL while an allowance has not been read from its rows.';
COMMENT ON COLUMN quota.stat_buckets.level IS 'Units left now; negative: a debt, of calls that cost more than was there or than was estimated.';
COMMENT ON COLUMN quota.stat_buckets.held IS
'Allowance: units of used that are held by open permits.';
COMMENT ON COLUMN quota.stat_buckets.period_start IS
'Allowance: the current period; NULL before its first call. fixed_window: when the window began.';
COMMENT ON COLUMN quota.stat_buckets.period_end IS
'Allowance, fixed_window: when the next period or window starts.';
COMMENT ON COLUMN quota.stat_buckets.unknown_until IS
'Concurrency, after a crash: what was in flight is unknown until then, so all of it counts as in flight.';
COMMENT ON COLUMN quota.stat_buckets.admitted IS
'Units admitted since the bucket is in memory.';
COMMENT ON COLUMN quota.stat_buckets.refused IS
'Calls this bucket refused since it is in memory.';
COMMENT ON COLUMN quota.stat_buckets.enforcement IS
'hard, soft or shadow, as of the last decision.';
COMMENT ON COLUMN quota.stat_buckets.would_refuse IS
'Calls that a soft or shadow limit would have refused, were it hard, since the bucket is in memory; a job counts each time it is looked at.';
COMMENT ON COLUMN quota.stat_buckets.busy IS
'An open transaction or permit may return something to it.';

CREATE FUNCTION quota.stat_shares_rows(
	OUT provider text,
	OUT limit_name text,
	OUT bucket text,
	OUT tenant text,
	OUT weight numeric,
	OUT share numeric,
	OUT in_flight bigint,
	OUT wants boolean)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'quota_stat_shares'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 1000;
COMMENT ON FUNCTION quota.stat_shares_rows() IS
'Internal: rows of quota.stat_shares.';

CREATE VIEW quota.stat_shares AS
SELECT * FROM quota.stat_shares_rows();
COMMENT ON VIEW quota.stat_shares IS
'Tenants that are active at limits which several share: who asked within the provider''s active_window, or has calls in flight. Empty on a standby.';
COMMENT ON COLUMN quota.stat_shares.provider IS 'The provider.';
COMMENT ON COLUMN quota.stat_shares.limit_name IS 'The limit that is shared out.';
COMMENT ON COLUMN quota.stat_shares.bucket IS
'Which of its buckets: the values of what the limit is per.';
COMMENT ON COLUMN quota.stat_shares.tenant IS 'The tenant.';
COMMENT ON COLUMN quota.stat_shares.weight IS
'Its weight when it asked last.';
COMMENT ON COLUMN quota.stat_shares.share IS
'Its part of the limit, 0 to 1, rounded to four decimals: its weight over those of all that are active.';
COMMENT ON COLUMN quota.stat_shares.in_flight IS
'Concurrency: units of its calls in flight; those from before a restart are not known. NULL for a rate.';
COMMENT ON COLUMN quota.stat_shares.wants IS
'It was refused when it asked last, and has not asked again.';

CREATE FUNCTION quota.stat_tenants_rows(
	OUT provider text,
	OUT tenant text,
	OUT weight numeric,
	OUT admitted bigint,
	OUT refused bigint,
	OUT refused_by_reason jsonb,
	OUT completed bigint,
	OUT unfinished bigint,
	OUT enqueuing bigint,
	OUT shed bigint,
	OUT buckets bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'quota_stat_tenants'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 1000;
COMMENT ON FUNCTION quota.stat_tenants_rows() IS
'Internal: rows of quota.stat_tenants.';

CREATE VIEW quota.stat_tenants AS
SELECT * FROM quota.stat_tenants_rows();
COMMENT ON VIEW quota.stat_tenants IS
'Tenants of this database at each provider they use, counted since they are in shared memory; a clean restart keeps the counts, a crash does not. Empty on a standby.';
COMMENT ON COLUMN quota.stat_tenants.provider IS 'The provider.';
COMMENT ON COLUMN quota.stat_tenants.tenant IS 'The tenant.';
COMMENT ON COLUMN quota.stat_tenants.weight IS
'Its weight when last looked at.';
COMMENT ON COLUMN quota.stat_tenants.admitted IS
'Calls admitted, direct ones and claimed jobs.';
COMMENT ON COLUMN quota.stat_tenants.refused IS 'Calls refused.';
COMMENT ON COLUMN quota.stat_tenants.refused_by_reason IS
'Calls refused, by the reason of the decision.';
COMMENT ON COLUMN quota.stat_tenants.completed IS 'Jobs completed.';
COMMENT ON COLUMN quota.stat_tenants.unfinished IS
'Jobs waiting or running, committed; 0 until the queue has been read after a start.';
COMMENT ON COLUMN quota.stat_tenants.enqueuing IS
'Places in the queue that open transactions have taken.';
COMMENT ON COLUMN quota.stat_tenants.shed IS
'Jobs refused because a queue was full, also in transactions that rolled back. Events of kind shed keep over a crash what was refused.';
COMMENT ON COLUMN quota.stat_tenants.buckets IS
'Buckets in shared memory it has for itself.';

CREATE FUNCTION quota.stat_flows_rows(
	OUT provider text,
	OUT tenant text,
	OUT class text,
	OUT endpoint text,
	OUT state text,
	OUT reason text,
	OUT wake_at timestamptz,
	OUT depth bigint,
	OUT in_flight bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'quota_stat_flows'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 1000;
COMMENT ON FUNCTION quota.stat_flows_rows() IS
'Internal: rows of quota.stat_flows.';

CREATE VIEW quota.stat_flows AS
SELECT * FROM quota.stat_flows_rows();
COMMENT ON VIEW quota.stat_flows IS
'Flows of this database: queued work of one tenant, class and endpoint, and why it is not running. Empty on a standby, and until the queue has been read after a start.';
COMMENT ON COLUMN quota.stat_flows.provider IS 'The provider.';
COMMENT ON COLUMN quota.stat_flows.tenant IS 'The tenant.';
COMMENT ON COLUMN quota.stat_flows.class IS 'The work class.';
COMMENT ON COLUMN quota.stat_flows.endpoint IS
'The endpoint; NULL for jobs that name none.';
COMMENT ON COLUMN quota.stat_flows.state IS
'ready: waits for a worker to ask, or for a limit that every job of the provider meets (quota_next_at tells which). parked: has work that cannot run now. idle: no ready work is known.';
COMMENT ON COLUMN quota.stat_flows.reason IS
'Why it is not ready: a reason of decisions, scheduled (only work for later), unconfigured (its tenant or provider has no row) or empty.';
COMMENT ON COLUMN quota.stat_flows.wake_at IS
'Parked: when it is looked at again; NULL = when something changes.';
COMMENT ON COLUMN quota.stat_flows.depth IS
'Jobs queued or scheduled; NULL for some seconds after a start, until a large queue is counted.';
COMMENT ON COLUMN quota.stat_flows.in_flight IS 'Jobs running; NULL like depth.';

CREATE FUNCTION quota.stat_permits_rows(
	OUT permit bigint,
	OUT provider text,
	OUT tenant text,
	OUT job bigint,
	OUT calls integer,
	OUT state text,
	OUT has_hold boolean,
	OUT expires_at timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'quota_stat_permits'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 1000;
COMMENT ON FUNCTION quota.stat_permits_rows() IS
'Internal: rows of quota.stat_permits.';

CREATE VIEW quota.stat_permits AS
SELECT * FROM quota.stat_permits_rows();
COMMENT ON VIEW quota.stat_permits IS
'Permits of this database that are not settled and whose lifetime is not over. Empty on a standby.';
COMMENT ON COLUMN quota.stat_permits.permit IS 'What quota_settle takes.';
COMMENT ON COLUMN quota.stat_permits.provider IS 'The provider.';
COMMENT ON COLUMN quota.stat_permits.tenant IS
'The tenant; NULL when it was restored after a crash.';
COMMENT ON COLUMN quota.stat_permits.job IS
'The job it is for; NULL for a direct call and for the permit of a batch.';
COMMENT ON COLUMN quota.stat_permits.calls IS 'Calls it covers; of the permit of a batch: its jobs that have not ended.';
COMMENT ON COLUMN quota.stat_permits.state IS
'open: taken by a transaction that has not committed. live. settling: a transaction that has not committed settles it.';
COMMENT ON COLUMN quota.stat_permits.has_hold IS
'Credits are held by it.';
COMMENT ON COLUMN quota.stat_permits.expires_at IS
'End of its lifetime.';

/* To see all tenants is for those who may monitor the server. */
REVOKE ALL ON FUNCTION
	quota.stat_buckets_rows(), quota.stat_shares_rows(), quota.stat_tenants_rows(),
	quota.stat_flows_rows(), quota.stat_permits_rows()
FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
	quota.stat_buckets_rows(), quota.stat_shares_rows(), quota.stat_tenants_rows(),
	quota.stat_flows_rows(), quota.stat_permits_rows()
TO pg_monitor;
GRANT USAGE ON SCHEMA quota TO pg_monitor;
GRANT SELECT ON
	quota.events, quota.stat_buckets, quota.stat_shares, quota.stat_tenants,
	quota.stat_flows, quota.stat_permits
TO pg_monitor;
