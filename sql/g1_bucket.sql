-- G1: never too much. Token buckets by the test clock.
SET timezone = 'UTC';
SELECT quota_clock_set('2026-01-01 00:00:00+00');

INSERT INTO quota.tiers (tier) VALUES ('g1');
INSERT INTO quota.tenants (tenant, tier) VALUES ('g1_a', 'g1'), ('g1_b', 'g1');
INSERT INTO quota.providers (provider, safety) VALUES ('g1', 1);
INSERT INTO quota.limits (provider, name, amount, period, burst)
VALUES ('g1', 'rate', 1, '1 s', 5);

-- the table of the GCRA literature: capacity 5, one per second, starts full
SELECT admitted, reason, not_before FROM quota_acquire('g1_a', 'g1', n => 6);
SELECT (d).admitted, (d).remaining
FROM (SELECT quota_acquire('g1_a', 'g1') AS d FROM generate_series(1, 5) OFFSET 0) s;
SELECT admitted, reason, limit_name, not_before, remaining, exhausted FROM quota_acquire('g1_a', 'g1');
SELECT quota_clock_advance('999999 us');
SELECT admitted FROM quota_acquire('g1_a', 'g1');
SELECT quota_clock_advance('1 us');
SELECT admitted, remaining FROM quota_acquire('g1_a', 'g1');
SELECT quota_clock_advance('3.5 s');
SELECT admitted, remaining FROM quota_acquire('g1_a', 'g1', n => 2);
SELECT not_before FROM quota_peek('g1_b', 'g1', n => 5);
SELECT quota_clock_advance('1 day');
SELECT granted, remaining FROM quota_acquire('g1_b', 'g1', n => 9, partial => true);
SELECT granted, reason FROM quota_acquire('g1_b', 'g1', n => 9, partial => true);

-- a rollback returns what was taken, at once
SELECT quota_clock_advance('1 min');
BEGIN;
SELECT granted, remaining FROM quota_acquire('g1_a', 'g1', n => 5);
ROLLBACK;
SELECT remaining FROM quota_peek('g1_a', 'g1');

-- take, refill, take, abort, take: what has refilled is not returned twice
BEGIN;
SELECT granted FROM quota_acquire('g1_a', 'g1', n => 5);
SELECT quota_clock_advance('3 s');
SAVEPOINT s;
SELECT granted FROM quota_acquire('g1_a', 'g1', n => 3);
ROLLBACK TO s;
SELECT remaining FROM quota_peek('g1_a', 'g1', n => 1);
ROLLBACK;
SELECT remaining FROM quota_peek('g1_a', 'g1', n => 1);
SELECT granted FROM quota_acquire('g1_a', 'g1', n => 5);
BEGIN;
SELECT quota_clock_advance('5 s');
SELECT granted FROM quota_acquire('g1_a', 'g1', n => 5);
SELECT quota_clock_advance('5 s');
ROLLBACK;
SELECT remaining FROM quota_peek('g1_a', 'g1');

-- steps of the wall clock admit nothing extra and block nothing (G12)
SELECT granted FROM quota_acquire('g1_a', 'g1', n => 5);
SELECT quota_clock_set(quota_clock() - interval '1 hour');
SELECT admitted FROM quota_acquire('g1_a', 'g1');
SELECT quota_clock_advance('1 s');
SELECT admitted FROM quota_acquire('g1_a', 'g1');

-- half a million calls in one statement
UPDATE quota.limits SET amount = 1000000, burst = 1000000 WHERE provider = 'g1' AND name = 'rate';
SELECT quota_clock_advance('1 day');
SELECT count(*) FROM generate_series(1, 500000) WHERE (quota_acquire('g1_a', 'g1')).admitted;
SELECT remaining FROM quota_peek('g1_a', 'g1');

-- amount 0 is closed, NULL is no limit
UPDATE quota.limits SET amount = 0 WHERE provider = 'g1' AND name = 'rate';
SELECT admitted, reason, not_before, remaining FROM quota_acquire('g1_a', 'g1');
UPDATE quota.limits SET amount = NULL, burst = NULL WHERE provider = 'g1' AND name = 'rate';
SELECT admitted, reason, remaining FROM quota_acquire('g1_a', 'g1');
