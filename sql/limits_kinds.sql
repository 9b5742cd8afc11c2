-- The kinds of rates: what each admits, when it opens again, what changes and
-- rollbacks do to it, and what jobs that wait for it see.
SET timezone = 'UTC';
SELECT quota_clock_set('2026-04-01 00:00:03+00');
INSERT INTO quota.tiers (tier) VALUES ('kinds');
INSERT INTO quota.tenants (tenant, tier) VALUES ('kinds', 'kinds');
INSERT INTO quota.providers (provider, safety) VALUES
	('leaky', 1), ('fixed', 1), ('sliding', 1), ('margin', 0.9);
CREATE VIEW kinds_buckets AS
	SELECT limit_name, kind, capacity, used, level, period_start, period_end
	FROM quota.stat_buckets WHERE provider IN ('leaky', 'fixed', 'sliding', 'margin') ORDER BY provider, limit_name;
-- true if one call fits at not_before and not a microsecond earlier; moves the clock
CREATE PROCEDURE kinds_opens(provider text, n int = 1)
LANGUAGE plpgsql AS $$
DECLARE
	opens timestamptz := (quota_peek('kinds', provider, n => n)).not_before;
	sooner boolean;
BEGIN
	PERFORM quota_clock_advance(opens - quota_clock() - '1 us');
	sooner := (quota_peek('kinds', provider, n => n)).admitted;
	PERFORM quota_clock_advance('1 us');
	RAISE NOTICE 'opens % %, %', opens, sooner, (quota_peek('kinds', provider, n => n)).admitted;
END
$$;

-- rules of the columns
\set VERBOSITY terse
INSERT INTO quota.limits (provider, name, kind, amount, period) VALUES ('fixed', 'x', 'rolling', 1, '1 s');
INSERT INTO quota.limits (provider, name, kind, amount, period, burst) VALUES ('fixed', 'x', 'fixed_window', 1, '1 s', 1);
INSERT INTO quota.limits (provider, name, kind, amount, period, burst) VALUES ('fixed', 'x', 'sliding_window', 1, '1 s', 1);
INSERT INTO quota.limits (provider, name, kind, amount, period, anchor) VALUES ('fixed', 'x', 'sliding_window', 1, '1 s', '2026-01-01');
INSERT INTO quota.limits (provider, name, kind, amount, period) VALUES ('fixed', 'x', 'fixed_window', 1, '1 month');
INSERT INTO quota.limits (provider, name, kind, amount) VALUES ('fixed', 'x', 'fixed_window', 1);
INSERT INTO quota.limits (provider, name, kind, amount, period) VALUES ('fixed', 'x', 'leaky_bucket', 0.123456789, '100 years');
\set VERBOSITY default

-- leaky_bucket: 60 a minute are one a second, never two at once
INSERT INTO quota.limits (provider, name, kind, amount, period) VALUES ('leaky', 'pace', 'leaky_bucket', 60, '1 min');
INSERT INTO quota.costs (provider, endpoint, unit, cost) VALUES ('leaky', 'dear', 'request', 5);
SELECT admitted, reason, remaining FROM quota_acquire('kinds', 'leaky');
SELECT admitted, reason, not_before FROM quota_acquire('kinds', 'leaky');
CALL kinds_opens('leaky');
SELECT admitted, reason, not_before FROM quota_acquire('kinds', 'leaky', n => 2);
SELECT granted, reason FROM quota_acquire('kinds', 'leaky', n => 2, partial => true);
SELECT admits, reason, explanation FROM quota_explain('kinds', 'leaky', n => 2);
-- a dear call goes when a call may, and those after it wait for as long as it is worth
CALL kinds_opens('leaky');
SELECT admitted, reason FROM quota_acquire('kinds', 'leaky', 'dear');
SELECT * FROM kinds_buckets;
SELECT admitted, not_before FROM quota_acquire('kinds', 'leaky');
SELECT admitted, reason, not_before FROM quota_acquire('kinds', 'leaky', units => '{"request": 61}');
SELECT explanation FROM quota_explain('kinds', 'leaky', units => '{"request": 61}');
-- rolled back it was never there; a burst lets calls be early, and toggling it gains nothing
BEGIN;
SELECT quota_clock_advance('5 s');
SELECT admitted FROM quota_acquire('kinds', 'leaky', 'dear');
ROLLBACK;
SELECT admitted FROM quota_acquire('kinds', 'leaky', 'dear');
UPDATE quota.limits SET burst = 3 WHERE provider = 'leaky';
SELECT level FROM quota_explain('kinds', 'leaky');
UPDATE quota.limits SET burst = NULL WHERE provider = 'leaky';
SELECT level FROM quota_explain('kinds', 'leaky');
UPDATE quota.limits SET burst = 3 WHERE provider = 'leaky';
SELECT quota_clock_advance('5 s');
SELECT granted, remaining FROM quota_acquire('kinds', 'leaky', n => 2);
-- a new rate acts from its commit, closed and open again
UPDATE quota.limits SET amount = 120 WHERE provider = 'leaky';
SELECT quota_clock_advance('0.5 s');
SELECT level FROM quota_explain('kinds', 'leaky');
UPDATE quota.limits SET amount = 0 WHERE provider = 'leaky';
SELECT admitted, reason, not_before FROM quota_acquire('kinds', 'leaky');
UPDATE quota.limits SET amount = 60 WHERE provider = 'leaky';
SELECT admitted FROM quota_acquire('kinds', 'leaky');

-- fixed_window: ten in each ten seconds of the clock
SELECT quota_clock_set('2026-04-01 00:01:03+00');
INSERT INTO quota.limits (provider, name, kind, amount, period) VALUES ('fixed', 'ten', 'fixed_window', 10, '10 s');
SELECT granted, remaining FROM quota_acquire('kinds', 'fixed', n => 8);
SELECT * FROM kinds_buckets WHERE limit_name = 'ten';
SELECT admitted, reason, not_before FROM quota_acquire('kinds', 'fixed', n => 3);
SELECT admitted, reason, not_before FROM quota_acquire('kinds', 'fixed', n => 11);
SELECT granted, remaining FROM quota_acquire('kinds', 'fixed', n => 3, partial => true);
CALL kinds_opens('fixed', 10);
SELECT granted FROM quota_acquire('kinds', 'fixed', n => 10);
-- the wall clock steps back in the window: no second one
SELECT quota_clock_set('2026-04-01 00:00:07+00');
SELECT admitted, not_before FROM quota_acquire('kinds', 'fixed');
SELECT quota_clock_advance('9999999 us');
SELECT admitted FROM quota_acquire('kinds', 'fixed');
SELECT quota_clock_advance('1 us');
-- the next one lasts to the second border, 13 s on
SELECT granted FROM quota_acquire('kinds', 'fixed', n => 10);
SELECT * FROM kinds_buckets WHERE limit_name = 'ten';
-- what is rolled back returns to its own window only
SELECT quota_clock_advance('13 s');
BEGIN;
SELECT granted FROM quota_acquire('kinds', 'fixed', n => 4);
SAVEPOINT s;
SELECT granted FROM quota_acquire('kinds', 'fixed', n => 6);
SELECT level FROM kinds_buckets WHERE limit_name = 'ten';
ROLLBACK TO s;
SELECT level FROM kinds_buckets WHERE limit_name = 'ten';
SAVEPOINT s;
SELECT granted FROM quota_acquire('kinds', 'fixed', n => 6);
SELECT quota_clock_advance('10 s');
RELEASE s;
SELECT granted FROM quota_acquire('kinds', 'fixed', n => 1);
ROLLBACK;
SELECT level FROM kinds_buckets WHERE limit_name = 'ten';
-- amounts keep what was taken, a period keeps the beginning of the window
SELECT granted FROM quota_acquire('kinds', 'fixed', n => 7);
UPDATE quota.limits SET amount = 5 WHERE provider = 'fixed';
SELECT level, not_before FROM quota_explain('kinds', 'fixed');
UPDATE quota.limits SET amount = 12 WHERE provider = 'fixed';
SELECT level FROM quota_explain('kinds', 'fixed');
UPDATE quota.limits SET period = '1 min' WHERE provider = 'fixed';
SELECT * FROM kinds_buckets WHERE limit_name = 'ten';
SELECT level, not_before FROM quota_explain('kinds', 'fixed', n => 6);
SELECT * FROM kinds_buckets WHERE limit_name = 'ten';
-- no limit, closed, and again: what was taken is still taken
UPDATE quota.limits SET amount = NULL WHERE provider = 'fixed';
SELECT granted FROM quota_acquire('kinds', 'fixed', n => 100);
UPDATE quota.limits SET amount = 0 WHERE provider = 'fixed';
SELECT reason, not_before FROM quota_acquire('kinds', 'fixed');
UPDATE quota.limits SET amount = 12 WHERE provider = 'fixed';
SELECT level FROM quota_explain('kinds', 'fixed');
-- an anchor: windows of a day from 05:30; the present one has to last a day first
UPDATE quota.limits SET period = '1 day', anchor = '2026-01-01 05:30:00+00' WHERE provider = 'fixed';
SELECT quota_clock_set('2026-04-02 05:29:59.999999+00');
SELECT granted, not_before FROM quota_acquire('kinds', 'fixed', n => 12);
SELECT level, period_start, period_end FROM kinds_buckets WHERE limit_name = 'ten';
SELECT quota_clock_advance('1 us');
SELECT granted FROM quota_acquire('kinds', 'fixed', n => 12);
SELECT not_before FROM quota_acquire('kinds', 'fixed');
-- safety applies to a limit of the provider's own, rounded down
INSERT INTO quota.limits (provider, name, kind, amount, period) VALUES
	('margin', 'fixed', 'fixed_window', 15, '1 min'), ('margin', 'sliding', 'sliding_window', 15, '1 min'),
	('margin', 'leaky', 'leaky_bucket', 15, '1 min');
SELECT limit_name, capacity, level FROM quota_explain('kinds', 'margin');

-- sliding_window: three in any minute
SELECT quota_clock_set('2026-04-03 00:00:00+00');
INSERT INTO quota.limits (provider, name, kind, amount, period) VALUES ('sliding', 'three', 'sliding_window', 3, '1 min');
SELECT granted, remaining FROM quota_acquire('kinds', 'sliding');
SELECT quota_clock_advance('20 s');
SELECT granted, remaining FROM quota_acquire('kinds', 'sliding', n => 2);
SELECT admitted, reason, not_before FROM quota_acquire('kinds', 'sliding');
SELECT admitted, reason, not_before FROM quota_acquire('kinds', 'sliding', n => 2);
SELECT admitted, reason, not_before FROM quota_acquire('kinds', 'sliding', n => 4);
CALL kinds_opens('sliding');
SELECT granted FROM quota_acquire('kinds', 'sliding');
CALL kinds_opens('sliding');
SELECT * FROM kinds_buckets WHERE limit_name = 'three';
-- rolled back it returns to its own instant
BEGIN;
SELECT granted FROM quota_acquire('kinds', 'sliding');
SELECT quota_clock_advance('1 s');
SAVEPOINT s;
SELECT granted FROM quota_acquire('kinds', 'sliding');
ROLLBACK TO s;
SELECT level FROM kinds_buckets WHERE limit_name = 'three';
ROLLBACK;
SELECT level FROM kinds_buckets WHERE limit_name = 'three';
-- also when several takes of one transaction have several instants
BEGIN;
SELECT granted FROM quota_acquire('kinds', 'sliding');
SELECT quota_clock_advance('1 s');
SELECT granted FROM quota_acquire('kinds', 'sliding');
ROLLBACK;
SELECT level FROM kinds_buckets WHERE limit_name = 'three';
SELECT granted FROM quota_acquire('kinds', 'sliding', n => 2);
CALL kinds_opens('sliding', 3);
SELECT granted FROM quota_acquire('kinds', 'sliding');
SELECT quota_clock_advance('20 s');
-- amounts keep what was taken, and so does a shorter period what is not over by it
UPDATE quota.limits SET amount = 1 WHERE provider = 'sliding';
SELECT level, not_before FROM quota_explain('kinds', 'sliding');
UPDATE quota.limits SET amount = 2, period = '10 s' WHERE provider = 'sliding';
SELECT level FROM quota_explain('kinds', 'sliding');
UPDATE quota.limits SET amount = 100, period = '1 min' WHERE provider = 'sliding';
SELECT granted FROM quota_acquire('kinds', 'sliding', n => 50);
-- of more than sixteen some come back late: 4 s of a minute
SELECT quota_clock_advance('4 s');
SELECT granted, remaining FROM quota_acquire('kinds', 'sliding', n => 30);
SELECT quota_clock_advance('1 us');
SELECT granted, remaining FROM quota_acquire('kinds', 'sliding', n => 20);
SELECT not_before FROM quota_acquire('kinds', 'sliding');
CALL kinds_opens('sliding');
SELECT level FROM kinds_buckets WHERE limit_name = 'three';

-- several that are refused: in a window all are told when it ends, in a sliding one
-- when there is room for those before as well; a refill of a burst of 1 is one call
SELECT quota_clock_set('2026-04-03 12:00:00+00');
INSERT INTO quota.limits (provider, name, kind, amount, period, endpoint) VALUES
	('fixed', 'herd', 'fixed_window', 3, '1 min', 'herd'), ('sliding', 'herd', 'sliding_window', 3, '1 min', 'herd'),
	('leaky', 'herd', 'leaky_bucket', 6, '1 min', 'herd');
DELETE FROM quota.limits WHERE provider IN ('fixed', 'sliding', 'leaky') AND endpoint IS NULL AND name <> 'three';
SELECT provider, (quota_acquire('kinds', provider, 'herd')).granted FROM unnest('{fixed,leaky,sliding}'::text[]) AS provider;
SELECT quota_clock_advance('10 s');
SELECT provider, (quota_acquire('kinds', provider, 'herd', n => CASE provider WHEN 'leaky' THEN 1 ELSE 2 END)).granted
FROM unnest('{fixed,leaky,sliding}'::text[]) AS provider;
SELECT provider, i, (quota_acquire('kinds', provider, 'herd')).not_before
FROM unnest('{fixed,leaky,sliding}'::text[]) AS provider, generate_series(1, 3) AS i ORDER BY 1, 2;
DELETE FROM quota.limits WHERE endpoint = 'herd';

-- another kind is another bucket: the first still has what was spent of it
UPDATE quota.limits SET kind = 'fixed_window' WHERE provider = 'sliding';
SELECT granted FROM quota_acquire('kinds', 'sliding', n => 100);
UPDATE quota.limits SET kind = 'sliding_window' WHERE provider = 'sliding';
SELECT level FROM quota_explain('kinds', 'sliding');

-- measured units: the estimate first; more is a debt, less returns while it counts
DELETE FROM quota.limits WHERE provider IN ('fixed', 'sliding', 'leaky');
INSERT INTO quota.limits (provider, name, kind, unit, amount, period, permit_lifetime) VALUES
	('fixed', 'tokens', 'fixed_window', 'token', 100, '1 min', '5 min'),
	('sliding', 'tokens', 'sliding_window', 'token', 100, '1 min', '5 min'),
	('leaky', 'tokens', 'leaky_bucket', 'token', 100, '100 s', '5 min');
SELECT quota_clock_set('2026-04-04 00:00:00+00');
SELECT provider, (quota_acquire('kinds', provider, units => '{"token": 30}')).permit AS permit
INTO TEMPORARY kinds_permits FROM unnest('{fixed,leaky,sliding}'::text[]) AS provider;
SELECT provider, (quota_peek('kinds', provider, units => '{"token": 80}')).not_before FROM kinds_permits;
SELECT limit_name, kind, used, level FROM kinds_buckets WHERE limit_name = 'tokens';
SELECT provider, quota_settle(permit, units => '{"token": 130}') FROM kinds_permits;
SELECT limit_name, kind, used, level FROM kinds_buckets WHERE limit_name = 'tokens';
SELECT provider, (quota_peek('kinds', provider, units => '{"token": 1}')).not_before FROM kinds_permits;
SELECT quota_clock_advance('130 s');
SELECT limit_name, kind, used, level FROM kinds_buckets WHERE limit_name = 'tokens';
UPDATE kinds_permits SET permit = (quota_acquire('kinds', provider, units => '{"token": 60}')).permit;
SELECT quota_clock_advance('1 s');
SELECT provider, quota_settle(permit, units => '{"token": 20}') FROM kinds_permits;
SELECT limit_name, kind, used, level FROM kinds_buckets WHERE limit_name = 'tokens';
-- what has ended does not return to what has begun since
SELECT quota_clock_set('2026-04-04 01:00:00+00');
UPDATE kinds_permits SET permit = (quota_acquire('kinds', provider, units => '{"token": 40}')).permit;
SELECT quota_clock_advance('1 min');
SELECT provider, (quota_acquire('kinds', provider, units => '{"token": 100}')).granted FROM kinds_permits;
SELECT limit_name, kind, used, level FROM kinds_buckets WHERE limit_name = 'tokens';
SELECT provider, quota_settle(permit, units => '{"token": 0}') FROM kinds_permits;
SELECT limit_name, kind, used, level FROM kinds_buckets WHERE limit_name = 'tokens';

-- jobs wait for every kind until it opens, and no longer
DELETE FROM quota.limits WHERE provider IN ('fixed', 'sliding', 'leaky');
INSERT INTO quota.limits (provider, name, kind, amount, period) VALUES
	('fixed', 'jobs', 'fixed_window', 2, '1 min'), ('sliding', 'jobs', 'sliding_window', 2, '1 min'),
	('leaky', 'jobs', 'leaky_bucket', 2, '1 min');
SELECT quota_clock_set('2026-04-05 00:00:20+00');
INSERT INTO quota.jobs (tenant, provider) SELECT 'kinds', provider
FROM unnest('{fixed,leaky,sliding}'::text[]) AS provider, generate_series(1, 5);
SELECT provider, quota_drain_time(provider) FROM unnest('{fixed,leaky,sliding}'::text[]) AS provider;
SELECT count(*) FROM quota_dequeue('fixed', max_jobs => 5);
SELECT count(*) FROM quota_dequeue('leaky', max_jobs => 5);
SELECT count(*) FROM quota_dequeue('sliding', max_jobs => 5);
SELECT provider, next_at, reason, limit_name
FROM unnest('{fixed,leaky,sliding}'::text[]) AS provider, quota_next_at(provider);
SELECT quota_clock_advance('29999999 us');
SELECT count(*) FROM quota_dequeue('leaky', max_jobs => 5);
SELECT quota_clock_advance('1 us');
SELECT count(*) FROM quota_dequeue('leaky', max_jobs => 5);
SELECT quota_clock_advance('9999999 us');
SELECT count(*) FROM quota_dequeue('fixed', max_jobs => 5);
SELECT quota_clock_advance('1 us');
SELECT count(*) FROM quota_dequeue('fixed', max_jobs => 5);
SELECT quota_clock_advance('19999999 us');
SELECT count(*) FROM quota_dequeue('sliding', max_jobs => 5);
SELECT quota_clock_advance('1 us');
SELECT count(*) FROM quota_dequeue('sliding', max_jobs => 5);
SELECT provider, quota_drain_time(provider) FROM unnest('{fixed,leaky,sliding}'::text[]) AS provider;

SELECT count(quota_cancel(id)) FROM quota.jobs WHERE tenant = 'kinds' AND state = 'queued';
DELETE FROM quota.costs WHERE provider = 'leaky';
DELETE FROM quota.limits WHERE provider IN ('leaky', 'fixed', 'sliding', 'margin');
DROP PROCEDURE kinds_opens;
DROP VIEW kinds_buckets;
SELECT quota_clock_set(NULL);
