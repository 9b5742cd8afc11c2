-- Every error a user can meet: SQLSTATE, message, detail and hint.
SET timezone = 'UTC';
SELECT quota_clock_set('2026-01-01 00:00:00+00');
INSERT INTO quota.tiers (tier) VALUES ('err');
INSERT INTO quota.tenants (tenant, tier) VALUES ('err_a', 'err');
INSERT INTO quota.providers (provider, safety) VALUES ('err', 1);
INSERT INTO quota.limits (provider, name, kind, amount) VALUES ('err', 'flight', 'concurrency', 1);
\set SHOW_CONTEXT never

-- what does not exist
SELECT quota_acquire('nobody', 'err');
\echo :SQLSTATE
SELECT quota_acquire('err_a', 'nowhere');
\echo :SQLSTATE
SELECT quota_acquire('err_a', 'err', class => 'none');
\echo :SQLSTATE
SELECT quota_complete(9223372036854775807, 1);
\echo :SQLSTATE
SELECT quota_settle(1);
\echo :SQLSTATE
SELECT quota_settle(-1);
\echo :SQLSTATE
SELECT quota_grant('err_a', 'err', 'none', 1);
\echo :SQLSTATE
INSERT INTO quota.jobs (tenant, provider) VALUES ('nobody', 'err');
\echo :SQLSTATE
INSERT INTO quota.jobs (tenant, provider) VALUES ('err_a', 'nowhere');
\echo :SQLSTATE
INSERT INTO quota.jobs (tenant, provider, class) VALUES ('err_a', 'err', 'none');
\echo :SQLSTATE

-- NULL where it has no meaning
SELECT quota_acquire(NULL, 'err');
\echo :SQLSTATE
SELECT quota_acquire('err_a', NULL);
\echo :SQLSTATE
SELECT quota_acquire('err_a', 'err', n => NULL);
\echo :SQLSTATE
SELECT quota_acquire('err_a', 'err', partial => NULL);
\echo :SQLSTATE
SELECT quota_settle(1, NULL);
\echo :SQLSTATE
SELECT quota_extend(1, NULL);
\echo :SQLSTATE
SELECT quota_dequeue(NULL);
\echo :SQLSTATE
SELECT quota_complete(NULL, 1);
\echo :SQLSTATE
SELECT quota_fail(1, NULL, 'x');
\echo :SQLSTATE

-- a new job has no history
INSERT INTO quota.jobs (tenant, provider, state) VALUES ('err_a', 'err', 'running');
\echo :SQLSTATE
INSERT INTO quota.jobs (tenant, provider, attempt) VALUES ('err_a', 'err', 3);
\echo :SQLSTATE

-- out of range, malformed
SELECT quota_acquire('err_a', 'err', n => 0);
\echo :SQLSTATE
SELECT quota_acquire('err_a', 'err', n => -1);
\echo :SQLSTATE
SELECT quota_acquire('err_a', 'err', n => 1000001);
\echo :SQLSTATE
SELECT quota_acquire('err_a', 'err', units => '[1]');
\echo :SQLSTATE
SELECT quota_acquire('err_a', 'err', units => '{"token": "x"}');
\echo :SQLSTATE
SELECT quota_acquire('err_a', 'err', units => '{"token": -1}');
\echo :SQLSTATE
SELECT quota_acquire('err_a', 'err', units => '{"token": 1.5}');
\echo :SQLSTATE
SELECT quota_acquire('err_a', 'err', units => '{"token": 1e30}');
\echo :SQLSTATE
SELECT quota_acquire('err_a', 'err', units => '{"": 1}');
\echo :SQLSTATE
SELECT quota_acquire(repeat('x', 128), 'err');
\echo :SQLSTATE
SELECT quota_dequeue('err', 0);
\echo :SQLSTATE
SELECT quota_extend(1, '-1 s');
\echo :SQLSTATE
SELECT quota_extend(1, '1 month');
\echo :SQLSTATE

-- a permit that another session has, or that is over, is not ours to settle
SELECT permit FROM quota_acquire('err_a', 'err') \gset
SELECT quota_extend(:permit, '1 hour');
\echo :SQLSTATE
SELECT quota_settle(:permit);
\echo :SQLSTATE

-- where deciding is not possible
BEGIN READ ONLY;
SELECT quota_acquire('err_a', 'err');
\echo :SQLSTATE
ROLLBACK;
BEGIN READ ONLY;
SELECT quota_dequeue('err');
\echo :SQLSTATE
ROLLBACK;
BEGIN;
UPDATE quota.limits SET amount = 2 WHERE provider = 'err';
SELECT quota_acquire('err_a', 'err');
\echo :SQLSTATE
ROLLBACK;
BEGIN;
UPDATE quota.tenants SET seats = 2 WHERE tenant = 'err_a';
SELECT quota_acquire('err_a', 'err');
\echo :SQLSTATE
ROLLBACK;
BEGIN;
UPDATE quota.tenants SET seats = 2 WHERE tenant = 'err_a';
SELECT quota_dequeue('err');
\echo :SQLSTATE
ROLLBACK;
BEGIN;
UPDATE quota.tenants SET seats = 2 WHERE tenant = 'err_a';
PREPARE TRANSACTION 'err';
\echo :SQLSTATE
BEGIN;
SELECT admitted FROM quota_acquire('err_a', 'err');
PREPARE TRANSACTION 'err';
\echo :SQLSTATE

-- more limits than one call may meet
INSERT INTO quota.limits (provider, name, amount, period)
SELECT 'err', 'many ' || i, 1000, '1 s' FROM generate_series(1, 12) AS i;
SELECT quota_acquire('err_a', 'err');
\echo :SQLSTATE
DELETE FROM quota.limits WHERE provider = 'err' AND name LIKE 'many%';

-- nothing was lost or leaked
SELECT limit_name, level, capacity FROM quota_explain('err_a', 'err');
SELECT * FROM quota_audit();
