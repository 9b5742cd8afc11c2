-- Permits: what they count, and what settling changes.
SET timezone = 'UTC';
SELECT quota_clock_set('2026-03-01 00:00:00+00');

INSERT INTO quota.tiers (tier) VALUES ('permit');
INSERT INTO quota.tenants (tenant, tier) VALUES ('permit_a', 'permit');
INSERT INTO quota.providers (provider, safety) VALUES ('permit', 1);
INSERT INTO quota.limits (provider, name, kind, unit, amount, period, burst) VALUES
	('permit', 'tokens', 'token_bucket', 'token', 1000, '1 hour', 1000),
	('permit', 'flight', 'concurrency', 'request', 2, NULL, NULL);
CREATE VIEW permit_level AS
SELECT limit_name, level FROM quota_explain('permit_a', 'permit', units => '{"token": 1}');

-- a call in flight is one call, whatever units it names
SELECT permit AS p FROM quota_acquire('permit_a', 'permit', units => '{"request": 0}') \gset
SELECT level FROM permit_level WHERE limit_name = 'flight';
SELECT quota_settle(:p);

-- estimate first, true amount at settling, less and more, for n calls
SELECT permit AS p FROM quota_acquire('permit_a', 'permit', n => 2, units => '{"token": 300}') \gset
SELECT * FROM permit_level;
SELECT quota_settle(:p, units => '{"token": 100}');
SELECT * FROM permit_level;
SELECT permit AS p FROM quota_acquire('permit_a', 'permit', units => '{"token": 10}') \gset
SELECT quota_settle(:p, units => '{"token": 900}');
SELECT * FROM permit_level;
SELECT reason, not_before FROM quota_acquire('permit_a', 'permit', units => '{"token": 1}');
SELECT quota_clock_advance('1 hour');

-- unknown before the call, charged afterwards; a rollback takes it back
SELECT permit AS p FROM quota_acquire('permit_a', 'permit', units => '{}') \gset
BEGIN;
SELECT quota_settle(:p, units => '{"token": 250}');
SELECT * FROM permit_level;
ROLLBACK;
SELECT * FROM permit_level;
SELECT quota_settle(:p, units => '{"token": 250}');
SELECT * FROM permit_level;

-- acquired and settled for less in one transaction
SELECT quota_clock_advance('1 hour');
BEGIN;
SELECT permit AS p FROM quota_acquire('permit_a', 'permit', units => '{"token": 500}') \gset
SELECT quota_settle(:p, units => '{"token": 200}');
COMMIT;
SELECT * FROM permit_level;

-- a limit that now counts another unit does not confuse open permits
INSERT INTO quota.limits (provider, name, per, kind, unit, amount, period)
VALUES ('permit', 'credits', '{tenant}', 'allowance', 'token', 1000, '1 month');
SELECT permit AS p FROM quota_acquire('permit_a', 'permit', units => '{"token": 50}') \gset
UPDATE quota.limits SET unit = 'credit' WHERE provider = 'permit' AND name = 'credits';
SELECT quota_settle(:p, units => '{"token": 20, "credit": 7}');
SELECT permit AS p FROM quota_acquire('permit_a', 'permit', units => '{"credit": 5}') \gset
SELECT quota_settle(:p, units => '{"credit": 3}');
SELECT unit, used, held, remaining FROM quota_balance('permit_a', 'permit');
SELECT * FROM quota_audit();

-- a hold that spans the turn of the period belongs to the old one
SELECT permit AS p FROM quota_acquire('permit_a', 'permit', units => '{"credit": 8}') \gset
SELECT quota_clock_set('2026-03-31 23:59:30+00');
SELECT permit AS p FROM quota_acquire('permit_a', 'permit', units => '{"credit": 100}') \gset
SELECT used, held, period_end FROM quota_balance('permit_a', 'permit');
SELECT quota_clock_advance('31 s');
SELECT used, held, remaining, period_end FROM quota_balance('permit_a', 'permit');
SELECT quota_settle(:p, units => '{"credit": 60}');
SELECT used, held, remaining FROM quota_balance('permit_a', 'permit');
SELECT * FROM quota_audit();

-- many in flight that end one after the other: when so many have ended is exact of up to
-- 256 of them, and told at the latest of more, as if all had to
INSERT INTO quota.providers (provider, safety) VALUES ('permit_many', 1);
INSERT INTO quota.limits (provider, name, per, kind, amount, external, permit_lifetime) VALUES
	('permit_many', 'flight', '{}', 'concurrency', 300, false, '1 minute');
CREATE PROCEDURE take_many(k int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..k LOOP
		PERFORM quota_acquire('permit_a', 'permit_many');
		PERFORM quota_clock_advance('1 ms');
	END LOOP;
END $$;
SELECT quota_clock() AS began \gset
CALL take_many(250);
SELECT n, not_before - :'began' AS told FROM unnest('{51,52,299,300,301}'::int[]) n, quota_acquire('permit_a', 'permit_many', n => n);
CALL take_many(50);
SELECT n, not_before - :'began' >= '1 minute'::interval + n * interval '1 ms' - interval '1 ms' AS late_enough, not_before - :'began' <= '1 minute 299 ms' AS not_too_late
FROM unnest('{1,2,255,299,300}'::int[]) n, quota_acquire('permit_a', 'permit_many', n => n);
-- one that was extended ends last
SELECT max(permit) AS p FROM quota.stat_permits WHERE provider = 'permit_many' \gset
SELECT quota_extend(:p, '1 minute');
SELECT not_before - :'began' AS told FROM quota_acquire('permit_a', 'permit_many', n => 300);
SELECT quota_clock_set(:'began'::timestamptz + '2 minutes');
SELECT admitted FROM quota_acquire('permit_a', 'permit_many', n => 300);
DROP PROCEDURE take_many;

-- a call that has nothing to settle
SELECT quota_settle(NULL);
SELECT quota_release(NULL);
BEGIN READ ONLY;
SELECT admitted FROM quota_peek('permit_a', 'permit');
ROLLBACK;

-- out of all proportion
\set VERBOSITY sqlstate
SELECT permit AS p FROM quota_acquire('permit_a', 'permit') \gset
SELECT quota_extend(:p, '213503983 days');
SELECT quota_settle(:p);
DROP VIEW permit_level;
