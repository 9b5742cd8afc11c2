-- G3: the transaction is the authority.
SET timezone = 'UTC';
SELECT quota_clock_set('2026-01-01 00:00:00+00');

INSERT INTO quota.tiers (tier) VALUES ('g3');
INSERT INTO quota.tenants (tenant, tier) VALUES ('g3_a', 'g3'), ('g3_b', 'g3');
INSERT INTO quota.providers (provider, safety) VALUES ('g3', 1);
INSERT INTO quota.limits (provider, name, kind, amount, period, burst) VALUES
	('g3', 'rate', 'token_bucket', 100, '1 min', 100),
	('g3', 'flight', 'concurrency', 3, NULL, NULL);

CREATE VIEW g3_level AS
SELECT limit_name, level FROM quota_explain('g3_b', 'g3');

-- rollback, savepoint and exception block return everything
BEGIN;
SELECT admitted, permit IS NOT NULL AS permit FROM quota_acquire('g3_a', 'g3', n => 2);
SAVEPOINT one;
SELECT admitted FROM quota_acquire('g3_a', 'g3');
SELECT admitted, reason FROM quota_acquire('g3_a', 'g3');
ROLLBACK TO one;
SELECT * FROM g3_level;
DO $$
BEGIN
	PERFORM quota_acquire('g3_a', 'g3');
	RAISE division_by_zero;
EXCEPTION WHEN division_by_zero THEN
	NULL;
END $$;
SELECT * FROM g3_level;
SAVEPOINT two;
SELECT admitted FROM quota_acquire('g3_a', 'g3');
RELEASE two;
SELECT * FROM g3_level;
ROLLBACK;
SELECT * FROM g3_level;

-- what a transaction gives serves nobody before commit, itself included
SELECT permit FROM quota_acquire('g3_a', 'g3', n => 3) \gset
BEGIN;
SELECT quota_settle(:permit);
SELECT admitted, reason, not_before FROM quota_acquire('g3_a', 'g3');
ROLLBACK;
SELECT * FROM g3_level;
BEGIN;
SAVEPOINT s;
SELECT quota_settle(:permit);
ROLLBACK TO s;
SELECT quota_settle(:permit);
COMMIT;
SELECT * FROM g3_level;

-- a permit is settled once
\set VERBOSITY sqlstate
SELECT quota_settle(:permit);

-- taken and settled in one transaction that rolls back: the call went out, so its
-- rate token stays spent, and the concurrency returns
BEGIN;
SELECT permit FROM quota_acquire('g3_a', 'g3') \gset
SELECT quota_settle(:permit);
ROLLBACK;
SELECT * FROM g3_level;

-- never sent: everything returns
SELECT permit FROM quota_acquire('g3_a', 'g3', n => 2) \gset
SELECT * FROM g3_level;
SELECT quota_release(:permit);
SELECT * FROM g3_level;

-- a permit ends with its lifetime, and can be extended before
SELECT permit FROM quota_acquire('g3_a', 'g3', n => 3) \gset
SELECT quota_clock_advance('50 s');
SELECT quota_extend(:permit, '30 s');
SELECT quota_clock_advance('29.999999 s');
SELECT admitted, not_before FROM quota_acquire('g3_a', 'g3');
SELECT quota_clock_advance('1 us');
SELECT * FROM g3_level;
SELECT quota_settle(:permit);

-- cursors and portals
BEGIN;
DECLARE c CURSOR FOR SELECT (quota_acquire('g3_a', 'g3')).admitted FROM generate_series(1, 3);
FETCH 2 FROM c;
CLOSE c;
SELECT * FROM g3_level;
COMMIT;

BEGIN;
SELECT admitted FROM quota_acquire('g3_a', 'g3');
PREPARE TRANSACTION 'g3';
DROP VIEW g3_level;
