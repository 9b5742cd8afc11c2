-- G12: durations follow a clock of their own, which never goes back.

SET timezone = 'UTC';
SELECT quota_clock_set('2030-01-01 00:00:00+00');
SELECT quota_clock();

-- it stands still
SELECT pg_sleep(0.01);
SELECT quota_clock();

-- and moves on demand
SELECT quota_clock_advance('1 day 00:00:00.000001');
SELECT quota_clock();

-- one token a second
INSERT INTO quota.tiers (tier) VALUES ('g12');
INSERT INTO quota.tenants (tenant, tier) VALUES ('g12_t', 'g12');
INSERT INTO quota.providers (provider, safety) VALUES ('g12_p', 1);
INSERT INTO quota.limits (provider, name, amount, period, burst)
	VALUES ('g12_p', 'rate', 1, '1 s', 10);
SELECT admitted, not_before FROM quota_acquire('g12_t', 'g12_p', n => 10);
SELECT admitted, not_before FROM quota_acquire('g12_t', 'g12_p');

-- a step back of the wall clock admits nothing and blocks nothing
SELECT quota_clock_set('2029-01-01 00:00:00+00');
SELECT admitted, not_before FROM quota_acquire('g12_t', 'g12_p');
SELECT quota_clock_advance('1 s');
SELECT quota_clock();
SELECT admitted, not_before FROM quota_acquire('g12_t', 'g12_p');
SELECT admitted, not_before FROM quota_acquire('g12_t', 'g12_p');

-- moving is not undone
BEGIN;
SELECT quota_clock_advance('1 s');
ROLLBACK;
SELECT quota_clock();

-- what cannot be
SELECT quota_clock_advance('-1 s');
SELECT quota_clock_advance('1 day -25 hours');
SELECT quota_clock_advance('1 month');
SELECT quota_clock_advance('200000 days');
SELECT quota_clock_advance('1000000000 days');
SELECT quota_clock_advance(NULL);
SELECT quota_clock_set('infinity');
SELECT quota_clock_set('294000-01-01 00:00:00+00');
SELECT quota_clock();

-- time runs again, from where it is
SELECT quota_clock_set(NULL);
SELECT abs(extract(epoch FROM quota_clock() - clock_timestamp())) < 60 AS is_real;
SELECT quota_clock() AS before \gset
SELECT pg_sleep(0.01);
SELECT quota_clock() > :'before' AS runs;

-- only for superusers, even if they let others
CREATE ROLE regress_quota_clock;
SET ROLE regress_quota_clock;
SELECT quota_clock() IS NOT NULL AS told;
SELECT quota_clock_set(NULL);
SELECT quota_clock_advance('1 s');
RESET ROLE;
GRANT EXECUTE ON FUNCTION quota_clock_set, quota_clock_advance TO regress_quota_clock;
SET ROLE regress_quota_clock;
SELECT quota_clock_set(NULL);
SELECT quota_clock_advance('1 s');
RESET ROLE;
DROP OWNED BY regress_quota_clock;
DROP ROLE regress_quota_clock;
