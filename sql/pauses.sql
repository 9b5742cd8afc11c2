-- Pauses: every scope, longer and shorter ones, ends that are exact, empty buckets behind
-- them, resuming, and what the queue does meanwhile.
SET timezone = 'UTC';
SELECT quota_clock_set('2026-05-01 00:00:00+00');
INSERT INTO quota.tiers (tier) VALUES ('pause');
INSERT INTO quota.tenants (tenant, tier) VALUES ('pause_a', 'pause'), ('pause_b', 'pause');
INSERT INTO quota.providers (provider, account, safety) VALUES
	('pause', 'pause_account', 1), ('pause_2', 'pause_account', 1), ('pause_3', NULL, 1);
INSERT INTO quota.limits (provider, name, endpoint, per, amount, period, burst, external) VALUES
	('pause', 'pool', NULL, '{}', 10, '1 s', 10, false),
	('pause', 'own', NULL, '{tenant}', 5, '1 s', 5, false),
	('pause', 'reports', '/reports/*', '{}', 1, '1 s', 2, false);
CREATE FUNCTION pause_asked(tenant text, provider text, endpoint text DEFAULT NULL,
	connection text DEFAULT NULL, OUT reason text, OUT limit_name text, OUT not_before timestamptz)
LANGUAGE sql AS 'SELECT d.reason, d.limit_name, d.not_before
	FROM quota_peek($1, $2, $3, connection => $4) AS d';
CREATE VIEW pauses_now AS
	SELECT scope, account, provider, tenant, endpoint, connection, limit_name, since, age, until, reason,
		reported, committed
	FROM quota.stat_pauses ORDER BY scope, until;

-- a provider: at once, for everybody; not_before is when an empty bucket has one call
SELECT quota_pause('pause', until => '2026-05-01 00:00:30+00', reason => 'maintenance') > 0 AS paused;
SELECT * FROM quota_acquire('pause_a', 'pause');
SELECT limit_name, kind, admits, reason, not_before, replace(explanation, current_user, 'ME') AS explanation
FROM quota_explain('pause_a', 'pause');
SELECT * FROM pause_asked('pause_b', 'pause', '/reports/daily');
SELECT * FROM pause_asked('pause_a', 'pause_2');
SELECT quota_clock_advance('10 s');
SELECT * FROM pauses_now;
SELECT quota_headers(d) FROM quota_acquire('pause_a', 'pause') AS d;
-- exact: at the very instant one call goes through, and no burst behind it
SELECT quota_clock_set('2026-05-01 00:00:29.999999+00');
SELECT * FROM pause_asked('pause_a', 'pause');
SELECT quota_clock_set('2026-05-01 00:00:30+00');
SELECT * FROM pause_asked('pause_a', 'pause');
SELECT quota_clock_set('2026-05-01 00:00:30.199999+00');
SELECT reason FROM quota_acquire('pause_a', 'pause');
SELECT quota_clock_set('2026-05-01 00:00:30.2+00');
SELECT reason FROM quota_acquire('pause_a', 'pause');
SELECT reason, limit_name, not_before FROM quota_acquire('pause_a', 'pause');
SELECT * FROM pauses_now;
-- the bucket fills up again from there, also when nobody asked in between
SELECT quota_clock_set('2026-05-01 00:00:30.7+00');
SELECT granted FROM quota_acquire('pause_b', 'pause', n => 10, partial => true);
SELECT quota_clock_set('2026-05-01 00:02:00+00');
SELECT granted FROM quota_acquire('pause_b', 'pause', n => 10, partial => true);

-- a leaky bucket, and a bucket whose capacity was lowered after more had been spent: both
-- begin empty as well, and refill
INSERT INTO quota.limits (provider, name, endpoint, kind, amount, period, burst) VALUES
	('pause_3', 'paced', '/paced', 'leaky_bucket', 10, '1 s', 5),
	('pause_3', 'cut', '/cut', 'token_bucket', 1, '1 s', 100);
SELECT granted FROM quota_acquire('pause_a', 'pause_3', '/cut', n => 100);
UPDATE quota.limits SET burst = 10 WHERE provider = 'pause_3' AND name = 'cut';
SELECT quota_clock_advance('20 s');
SELECT remaining FROM quota_peek('pause_a', 'pause_3', '/cut');
SELECT quota_pause('pause_3', duration => '10 s') > 0 AS paused;
SELECT e, a.* FROM unnest(ARRAY['/paced', '/cut']) AS e, pause_asked('pause_a', 'pause_3', e) AS a;
SELECT quota_clock_advance('10 s');
SELECT e, a.* FROM unnest(ARRAY['/paced', '/cut']) AS e, pause_asked('pause_a', 'pause_3', e) AS a;
SELECT quota_clock_advance('0.3 s');
SELECT granted FROM quota_acquire('pause_a', 'pause_3', '/paced', n => 5, partial => true);
SELECT quota_clock_advance('1.7 s');
SELECT granted FROM quota_acquire('pause_a', 'pause_3', '/cut', n => 10, partial => true);
SELECT quota_clock_advance('1 min');
SELECT remaining FROM quota_peek('pause_a', 'pause_3', '/paced');
SELECT remaining FROM quota_peek('pause_a', 'pause_3', '/cut');

-- callers are spread behind the end, by what the bucket lets through, none of them early
SELECT quota_clock_set('2026-05-01 00:10:00+00');
SELECT quota_pause('pause', duration => '10 s', tenant => 'pause_a') > 0 AS paused;
SELECT (quota_acquire('pause_a', 'pause')).not_before FROM generate_series(1, 7);

-- a tenant: others go on, the bucket they share is as it was
SELECT * FROM pause_asked('pause_b', 'pause');
SELECT quota_clock_advance('10 s');
SELECT granted FROM quota_acquire('pause_a', 'pause', n => 5, partial => true);
SELECT granted FROM quota_acquire('pause_b', 'pause', n => 5, partial => true);
SELECT quota_clock_advance('1 h');

-- an endpoint, a pattern, a tenant's endpoint, a connection
SELECT quota_pause('pause', endpoint => '/mail') > 0 AS paused;
SELECT quota_pause('pause', duration => '1 min', endpoint => '/reports/*') > 0 AS paused;
SELECT quota_pause('pause', duration => '2 min', tenant => 'pause_a', endpoint => '/files/*') > 0 AS paused;
SELECT quota_pause('pause', duration => '3 min', connection => 'c1') > 0 AS paused;
SELECT e AS endpoint, c AS connection, t AS tenant, a.*
FROM unnest(ARRAY['/mail', '/mail/x', '/reports/daily', '/files/1', NULL]) AS e,
	unnest(ARRAY['c1', 'c2']) AS c, unnest(ARRAY['pause_a', 'pause_b']) AS t,
	LATERAL pause_asked(t, 'pause', e, c) AS a
WHERE a.reason <> 'ok';
SELECT exhausted FROM quota_peek('pause_a', 'pause', '/files/1', connection => 'c1');
SELECT scope, until FROM pauses_now;
-- of the pattern's own limit the bucket is empty behind it, of the pool it is not
SELECT quota_clock_advance('1 min');
SELECT * FROM pause_asked('pause_b', 'pause', '/reports/daily');
SELECT granted FROM quota_acquire('pause_b', 'pause', n => 5, partial => true);
SELECT quota_resume('pause', endpoint => '/mail'), quota_resume('pause', connection => 'c1'),
	quota_resume('pause', tenant => 'pause_a', endpoint => '/files/*');
SELECT quota_resume('pause', endpoint => '/mail');
SELECT * FROM pause_asked('pause_a', 'pause', '/mail', 'c1');
SELECT count(*) FROM quota.pauses WHERE until IS NULL OR until > quota_clock();

-- a single limit: calls that cost nothing of it go on
INSERT INTO quota.costs (provider, endpoint, unit, cost) VALUES ('pause', '/free', 'request', 0);
SELECT quota_pause('pause', duration => '5 s', limit_name => 'own') > 0 AS paused;
SELECT * FROM pause_asked('pause_a', 'pause');
SELECT * FROM pause_asked('pause_a', 'pause', '/free');
SELECT quota_resume('pause', limit_name => 'own');
-- an account: all its providers; a limit across providers
SELECT quota_pause(account => 'pause_account', duration => '5 s') > 0 AS paused;
SELECT p, a.* FROM unnest(ARRAY['pause', 'pause_2', 'pause_3']) AS p, LATERAL pause_asked('pause_a', p) AS a;
SELECT quota_resume(account => 'pause_account');
INSERT INTO quota.limits (name, amount, period, burst) VALUES ('pause_across', 100, '1 s', 100);
SELECT quota_pause(limit_name => 'pause_across', duration => '5 s') > 0 AS paused;
SELECT p, a.* FROM unnest(ARRAY['pause', 'pause_2', 'pause_3']) AS p, LATERAL pause_asked('pause_a', p) AS a;
SELECT quota_resume(limit_name => 'pause_across');
DELETE FROM quota.limits WHERE name = 'pause_across';
SELECT quota_clock_advance('2 min');

-- overlapping: the one that ends last counts; shorter ones shorten nothing unless asked
SELECT quota_pause('pause', duration => '10 s') > 0 AS paused;
SELECT quota_pause('pause', duration => '20 s', tenant => 'pause_a') > 0 AS paused;
SELECT quota_pause('pause', duration => '5 s', tenant => 'pause_a') > 0 AS paused;
SELECT limit_name, not_before, jsonb_path_query_array(exhausted, '$[*].name') AS names
FROM quota_peek('pause_a', 'pause');
SELECT * FROM pause_asked('pause_b', 'pause');
SELECT quota_pause('pause', duration => '15 s', tenant => 'pause_a', shorten => true) > 0 AS paused;
SELECT * FROM pause_asked('pause_a', 'pause');
SELECT quota_resume('pause', tenant => 'pause_a');
SELECT * FROM pause_asked('pause_a', 'pause');
SELECT quota_resume('pause');
SELECT * FROM pauses_now;
-- what a limit says for longer than the pause is the limit's
SELECT quota_clock_advance('2 min');
UPDATE quota.limits SET amount = 1, period = '1 h', burst = 1 WHERE provider = 'pause' AND name = 'reports';
SELECT reason FROM quota_acquire('pause_a', 'pause', '/reports/daily');
SELECT quota_pause('pause', duration => '10 s') > 0 AS paused;
SELECT reason, limit_name, not_before, jsonb_path_query_array(exhausted, '$[*].name') AS names
FROM quota_peek('pause_a', 'pause', '/reports/daily');
SELECT reason, limit_name, not_before FROM quota_peek('pause_a', 'pause', n => 100);
-- a slow limit keeps what it has
SELECT quota_resume('pause');
SELECT quota_clock_advance('1 h');
SELECT quota_pause('pause', duration => '10 s', endpoint => '/reports/*') > 0 AS paused;
SELECT quota_clock_advance('10 s');
SELECT * FROM pause_asked('pause_a', 'pause', '/reports/daily');

-- takes act at once and are undone; gains wait for the commit
SELECT quota_clock_advance('2 min');
BEGIN;
SELECT quota_pause('pause', duration => '1 min') > 0 AS paused;
SELECT * FROM pause_asked('pause_a', 'pause');
SELECT scope, committed FROM pauses_now;
ROLLBACK;
SELECT * FROM pause_asked('pause_a', 'pause');
SELECT count(*) FROM quota.pauses WHERE until > quota_clock();
SELECT quota_pause('pause', duration => '1 min') > 0 AS paused;
BEGIN;
SAVEPOINT s;
SELECT quota_resume('pause');
SELECT reason FROM pause_asked('pause_a', 'pause');
ROLLBACK TO s;
SELECT quota_pause('pause', duration => '10 s', shorten => true) > 0 AS paused;
SELECT reason, not_before FROM pause_asked('pause_a', 'pause');
COMMIT;
SELECT reason, not_before FROM pause_asked('pause_a', 'pause');
BEGIN;
SELECT quota_pause('pause', tenant => 'pause_b') > 0 AS paused;
SELECT quota_resume('pause', tenant => 'pause_b');
COMMIT;
SELECT scope FROM pauses_now;
SELECT quota_resume('pause');

-- a duration does not heed the wall clock (the test clock moves both, so by the row)
SELECT quota_pause('pause', duration => '1 min') > 0 AS paused;
SELECT until - since, lasts_until IS NOT NULL AS lasts FROM quota.pauses WHERE until > quota_clock();
SELECT quota_resume('pause');

-- errors
\set VERBOSITY default
SELECT quota_pause();
SELECT quota_pause('pause', account => 'pause_account');
SELECT quota_pause('pause', limit_name => 'pool', tenant => 'pause_a');
SELECT quota_pause('pause', until => '2026-04-01', duration => '1 s');
SELECT quota_pause('pause', until => '2026-04-01');
SELECT quota_pause('pause', duration => '-1 s');
SELECT quota_pause('nobody');
SELECT quota_pause('pause', tenant => 'nobody');
SELECT quota_pause('pause', limit_name => 'nothing');
SELECT quota_pause(limit_name => 'pool');
SELECT quota_pause(account => 'nothing');
SELECT quota_pause('pause', reason => repeat('x', 128));
SELECT quota_pause('pause') > 0 AS paused;
UPDATE quota.pauses SET reason = 'other';
TRUNCATE quota.pauses;
BEGIN READ ONLY;
SELECT quota_pause('pause');
ROLLBACK;
BEGIN READ ONLY;
SELECT quota_resume('pause');
ROLLBACK;
BEGIN;
SELECT quota_resume('pause');
PREPARE TRANSACTION 'pause';
\set VERBOSITY default
-- DELETE is as good as resuming
DELETE FROM quota.pauses WHERE until IS NULL;
SELECT * FROM pause_asked('pause_a', 'pause');

-- the queue: nothing paused is claimed, all else is, in order; the end wakes what waits
SELECT quota_clock_advance('10 min');
INSERT INTO quota.jobs (tenant, provider, endpoint, payload)
SELECT t, 'pause', e, to_jsonb(n) FROM generate_series(1, 2) AS n,
	unnest(ARRAY['pause_a', 'pause_b']) AS t, unnest(ARRAY['/mail', '/files']) AS e;
SELECT quota_pause('pause', duration => '10 s', tenant => 'pause_a') > 0 AS paused;
SELECT quota_pause('pause', duration => '20 s', endpoint => '/mail') > 0 AS paused;
SELECT tenant, endpoint, payload FROM quota_dequeue('pause', 10);
SELECT tenant, endpoint, queued, reason, limit_name, next_at FROM quota_next_at('pause') ORDER BY 1, 2;
SELECT tenant, endpoint, state, reason, wake_at FROM quota.stat_flows WHERE provider = 'pause' ORDER BY 1, 2;
SELECT quota_drain_time('pause');
SELECT quota_clock_advance('10 s');
-- the tenant's bucket begins empty
SELECT tenant, endpoint, payload FROM quota_dequeue('pause', 10);
SELECT quota_clock_advance('200 ms');
SELECT tenant, endpoint, payload FROM quota_dequeue('pause', 10);
-- a resume wakes what its pause kept
SELECT quota_resume('pause', endpoint => '/mail');
SELECT tenant, endpoint, payload FROM quota_dequeue('pause', 10);
-- all of the provider: no flow is parked one by one
SELECT quota_pause('pause', duration => '1 min') > 0 AS paused;
SELECT tenant, endpoint, payload FROM quota_dequeue('pause', 10);
SELECT tenant, endpoint, queued, reason, limit_name, next_at FROM quota_next_at('pause') ORDER BY 1, 2;
SELECT tenant, endpoint, state FROM quota.stat_flows WHERE provider = 'pause' AND depth > 0 ORDER BY 1, 2;
SELECT quota_drain_time('pause');
SELECT quota_clock_advance('59.999999 s');
SELECT tenant, endpoint, payload FROM quota_dequeue('pause', 10);
SELECT quota_clock_advance('0.2 s');
SELECT tenant, endpoint, payload FROM quota_dequeue('pause', 10);
SELECT quota_clock_advance('0.000001 s');
SELECT tenant, endpoint, payload FROM quota_dequeue('pause', 10);
SELECT quota_clock_advance('10 s');
SELECT tenant, endpoint, payload FROM quota_dequeue('pause', 10);
-- of a connection: jobs of others go on only behind it, as in one flow all go in order
INSERT INTO quota.jobs (tenant, provider, endpoint, connection, payload) VALUES
	('pause_a', 'pause', '/mail', 'c1', '1'), ('pause_a', 'pause', '/mail', 'c2', '2'),
	('pause_b', 'pause', '/mail', 'c2', '3');
SELECT quota_pause('pause', connection => 'c1') > 0 AS paused;
SELECT tenant, connection, payload FROM quota_dequeue('pause', 10);
SELECT quota_resume('pause', connection => 'c1');
SELECT tenant, connection, payload FROM quota_dequeue('pause', 10);

-- a limit that tenants share is short as well, for longer: the job waits for both
INSERT INTO quota.limits (provider, name, endpoint, amount, period, burst) VALUES
	('pause_3', 'short', '/short', 1, '1 min', 1);
SELECT granted FROM quota_acquire('pause_b', 'pause_3', '/short');
INSERT INTO quota.jobs (tenant, provider, endpoint, payload) VALUES ('pause_a', 'pause_3', '/short', '1');
SELECT quota_pause('pause_3', duration => '10 s', endpoint => '/short') > 0 AS paused;
SELECT count(*) FROM quota_dequeue('pause_3', 1);
SELECT tenant, endpoint, queued, reason, limit_name FROM quota_next_at('pause_3');
SELECT quota_clock_advance('69.999999 s');
SELECT count(*) FROM quota_dequeue('pause_3', 1);
SELECT tenant, endpoint, queued, reason, limit_name FROM quota_next_at('pause_3');
SELECT quota_clock_advance('0.000001 s');
SELECT tenant, endpoint FROM quota_dequeue('pause_3', 1);

-- what calls were refused is counted, and both ends of every pause are events
SELECT tenant, refused_by_reason -> 'paused' AS paused FROM quota.stat_tenants WHERE provider = 'pause' ORDER BY 1;
SELECT kind, provider, tenant, replace(detail, current_user, 'ME') FROM quota.events
WHERE kind = 'pause' AND provider = 'pause' ORDER BY id LIMIT 3;
SELECT kind, provider, tenant, replace(detail, current_user, 'ME') FROM quota.events
WHERE kind = 'pause_ended' AND detail LIKE 'provider pause, resumed%' ORDER BY id LIMIT 2;

DELETE FROM quota.jobs WHERE provider = 'pause' AND state <> 'running';
DROP VIEW pauses_now;
DROP FUNCTION pause_asked;
