-- G3: rate tokens of a call that was reported stay spent when the transaction that made
-- it rolls back, since it went out; those of all other calls return.
SET timezone = 'UTC';
SELECT quota_clock_set('2026-01-01 00:00:00+00');

INSERT INTO quota.tiers (tier) VALUES ('g3r');
INSERT INTO quota.tenants (tenant, tier) VALUES ('g3r_a', 'g3r'), ('g3r_b', 'g3r');
INSERT INTO quota.providers (provider, safety) VALUES ('g3r', 1), ('g3r_other', 1);
INSERT INTO quota.limits (provider, name, kind, amount, period, burst, external) VALUES
	('g3r', 'bucket', 'token_bucket', 100, '1 min', 100, false),
	('g3r', 'leaky', 'leaky_bucket', 100, '1 min', 100, false),
	('g3r', 'window', 'fixed_window', 100, '1 min', NULL, false),
	('g3r', 'sliding', 'sliding_window', 100, '1 min', NULL, false),
	('g3r_other', 'bucket', 'token_bucket', 100, '1 min', 100, false);
INSERT INTO quota.limits (provider, name, per, amount, period, burst, external)
	VALUES ('g3r', 'own', '{user}', 100, '1 min', 100, false);

CREATE VIEW g3r_spent AS
	SELECT coalesce(string_agg(limit_name || coalesce(' ' || bucket, '') || ' ' || used, ', ' ORDER BY limit_name, bucket), 'nothing') AS spent
	FROM quota.stat_buckets WHERE provider LIKE 'g3r%' AND used > 0;
CREATE FUNCTION g3r_call(tenant text = 'g3r_a', endpoint text = NULL, n int = 1, "user" text = NULL, class text = NULL,
	provider text = 'g3r', attempt int = 1)
RETURNS text LANGUAGE sql AS $$
	SELECT reason FROM quota_acquire(g3r_call.tenant, g3r_call.provider, g3r_call.endpoint, n => g3r_call.n,
		"user" => g3r_call."user", class => g3r_call.class, attempt => g3r_call.attempt) $$;
-- all that was spent is there again
CREATE PROCEDURE g3r_next() LANGUAGE sql AS $$ SELECT quota_clock_advance('2 min') $$;

-- one of two that are alike; whatever the answer was
BEGIN;
SELECT g3r_call(), g3r_call();
SELECT quota_report('g3r', 200, 'g3r_a');
ROLLBACK;
SELECT * FROM g3r_spent;
CALL g3r_next();
BEGIN;
SELECT g3r_call(), quota_report('g3r', 0, 'g3r_a'), g3r_call(), quota_report('g3r', 500, 'g3r_a'), g3r_call();
ROLLBACK;
SELECT * FROM g3r_spent;
CALL g3r_next();

-- the one of these names: tenant, endpoint, user and class
BEGIN;
SELECT g3r_call('g3r_a', 'e', 1), g3r_call('g3r_a', 'f', 2), g3r_call('g3r_b', 'e', 4),
	g3r_call('g3r_b', 'e', 8, 'u'), g3r_call('g3r_b', 'e', 16, 'v'), g3r_call('g3r_a', 'e', 32, class => 'interactive');
SAVEPOINT s;
SELECT quota_report('g3r', 200, 'g3r_a', 'f'), quota_report('g3r', 200, 'g3r_b', 'e', "user" => 'u');
ROLLBACK;
SELECT * FROM g3r_spent;
CALL g3r_next();
BEGIN;
SELECT g3r_call('g3r_a', 'e', 1), g3r_call('g3r_a', 'f', 2), g3r_call('g3r_a', 'e', 32, class => 'interactive');
SELECT quota_report('g3r', 200, 'g3r_a', 'e', class => 'interactive');
ROLLBACK;
SELECT * FROM g3r_spent;
CALL g3r_next();
-- one it doesn't give may be any
BEGIN;
SELECT g3r_call('g3r_a', 'e', 4, 'u');
SELECT quota_report('g3r', 200);
ROLLBACK;
SELECT * FROM g3r_spent;
CALL g3r_next();
-- none has all that it gives: it is of another transaction's call
BEGIN;
SELECT g3r_call('g3r_a', 'e', 1, 'u');
SELECT quota_report('g3r', 200, 'g3r_b'), quota_report('g3r', 200, 'g3r_a', 'f'), quota_report('g3r_other', 200),
	quota_report('g3r', 200, "user" => 'v'), quota_report('g3r', 200, class => 'batch'), quota_report('g3r', 200, connection => 'c');
ROLLBACK;
SELECT * FROM g3r_spent;
-- each is one call's: a second one changes nothing
BEGIN;
SELECT g3r_call(n => 3), g3r_call('g3r_b');
SELECT quota_report('g3r', 200, 'g3r_a'), quota_report('g3r', 200, 'g3r_a');
ROLLBACK;
SELECT * FROM g3r_spent;
CALL g3r_next();

-- savepoints: a report stays, a call that was taken back before it was reported does not
BEGIN;
SELECT g3r_call();
SAVEPOINT s;
SELECT quota_report('g3r', 200, 'g3r_a');
ROLLBACK TO s;
SELECT g3r_call(n => 2);
SELECT quota_report('g3r', 200, 'g3r_a');
ROLLBACK TO s;
SELECT * FROM g3r_spent;
SELECT g3r_call(n => 4);
ROLLBACK TO s;
SELECT quota_report('g3r', 200, 'g3r_a');
RELEASE s;
SAVEPOINT s;
SELECT g3r_call(n => 8);
RELEASE s;
SELECT quota_report('g3r', 200, 'g3r_a');
ROLLBACK;
SELECT * FROM g3r_spent;
CALL g3r_next();
DO $$
BEGIN
	PERFORM g3r_call(), quota_report('g3r', 200, 'g3r_a');
	RAISE division_by_zero;
EXCEPTION WHEN division_by_zero THEN
	NULL;
END $$;
SELECT * FROM g3r_spent;
CALL g3r_next();

-- what has refilled meanwhile has not stayed spent, and nothing returns twice
BEGIN;
SELECT g3r_call(n => 10), g3r_call(n => 10), quota_report('g3r', 200, 'g3r_a');
SELECT quota_clock_advance('3 s');
ROLLBACK;
SELECT * FROM g3r_spent;
CALL g3r_next();

-- many that are alike, in one statement
BEGIN;
SELECT count(g3r_call(provider => 'g3r_other')), count(*) FILTER (WHERE i % 4 = 0 AND quota_report('g3r_other', 200, 'g3r_a') IS NOT NULL) FROM generate_series(1, 40) AS i;
ROLLBACK;
SELECT * FROM g3r_spent;
CALL g3r_next();

-- retries stay in their budget; first attempts that roll back bring it nothing
UPDATE quota.providers SET retry_share = 0.5, retry_floor = 5 WHERE provider = 'g3r_other';
BEGIN;
SELECT count(g3r_call(provider => 'g3r_other')), count(g3r_call(provider => 'g3r_other', attempt => 2)) FROM generate_series(1, 3);
SELECT count(quota_report('g3r_other', 200, 'g3r_a')) FROM generate_series(1, 6);
ROLLBACK;
SELECT * FROM g3r_spent;
SELECT tenant, first_attempts, retries FROM quota.stat_retries WHERE provider = 'g3r_other' ORDER BY tenant NULLS FIRST;
CALL g3r_next();

-- with a permit: tokens stay, calls in flight end
INSERT INTO quota.limits (provider, name, kind, amount, external) VALUES ('g3r', 'flight', 'concurrency', 50, false);
BEGIN;
SELECT g3r_call('g3r_a', 'e', 1), g3r_call('g3r_b', 'e', 2), g3r_call('g3r_a', 'f', 4);
SELECT quota_report('g3r', 200, 'g3r_a', 'e'), quota_report('g3r', 200, 'g3r_a', 'e');
ROLLBACK;
SELECT * FROM g3r_spent;
CALL g3r_next();
DELETE FROM quota.limits WHERE provider = 'g3r' AND name = 'flight';
-- credits that are held are no call
INSERT INTO quota.limits (provider, name, per, unit, kind, amount, period) VALUES ('g3r', 'credits', '{tenant}', 'credit', 'allowance', 100, '1 day');
BEGIN;
SELECT permit IS NOT NULL AS permit FROM quota_acquire('g3r_a', 'g3r', n => 5, units => '{}');
SELECT permit IS NOT NULL AS held FROM quota_hold('g3r_a', 'g3r', 'credit', 7);
SELECT quota_report('g3r', 200, 'g3r_a');
ROLLBACK;
SELECT * FROM g3r_spent;
CALL g3r_next();
DELETE FROM quota.limits WHERE provider = 'g3r' AND name = 'credits';

-- jobs that were claimed
INSERT INTO quota.jobs (tenant, provider, endpoint) SELECT 'g3r_a', 'g3r', e FROM unnest('{e,e,f}'::text[]) AS e;
BEGIN;
SELECT count(*) FROM quota_dequeue('g3r', 3);
SELECT g3r_call('g3r_a', 'g', 5);
SELECT quota_report('g3r', 200, 'g3r_a', 'e');
ROLLBACK;
SELECT * FROM g3r_spent;
CALL g3r_next();
BEGIN;
SELECT count(*) FROM quota_dequeue('g3r', 3);
SELECT count(quota_report('g3r', 200, 'g3r_a', e)) FROM unnest('{e,e,e,f}'::text[]) AS e;
ROLLBACK;
SELECT * FROM g3r_spent;
DELETE FROM quota.jobs WHERE provider = 'g3r';
DROP VIEW g3r_spent;
DROP PROCEDURE g3r_next();
DROP FUNCTION g3r_call(text, text, int, text, text, text, int);
