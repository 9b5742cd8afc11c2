-- Estimate first, the true amount at settling: both directions, bounded, several units.
SET timezone = 'UTC';
SELECT quota_clock_set('2026-08-01 00:00:00+00');
INSERT INTO quota.tiers (tier) VALUES ('settle');
INSERT INTO quota.tenants (tenant, tier) VALUES ('settle_a', 'settle');
INSERT INTO quota.providers (provider, safety) VALUES ('settle', 1);
-- ten and one a second
INSERT INTO quota.limits (provider, name, unit, amount, period, burst) VALUES
	('settle', 'input', 'input_token', 1000, '100 s', 1000),
	('settle', 'output', 'output_token', 100, '100 s', 100),
	('settle', 'output_slow', 'output_token', 300, '1 h', 50);
CREATE VIEW settle AS SELECT limit_name, level FROM quota_explain('settle_a', 'settle',
	units => '{"input_token": 1, "output_token": 1, "credit": 1}') ORDER BY 1;

-- less returns, of a rate what has not refilled meanwhile, and not before the commit
SELECT permit AS p FROM quota_acquire('settle_a', 'settle',
	units => '{"input_token": 500, "output_token": 40}') \gset
SELECT * FROM settle;
SELECT quota_clock_advance('10 s');
BEGIN;
SELECT quota_settle(:p, units => '{"input_token": 300, "output_token": 35}');
SELECT * FROM settle;
COMMIT;
SELECT * FROM settle;
-- all that would return has refilled
SELECT permit AS p FROM quota_acquire('settle_a', 'settle',
	units => '{"input_token": 100, "output_token": 10}') \gset
SELECT quota_clock_advance('10 s');
SELECT * FROM settle;
SELECT quota_settle(:p, units => '{"input_token": 0, "output_token": 0}');
SELECT * FROM settle;

-- more is charged at once, without asking, and by every limit of the unit
SELECT quota_clock_advance('1 h');
SELECT permit AS p FROM quota_acquire('settle_a', 'settle',
	units => '{"input_token": 1000, "output_token": 1}') \gset
BEGIN;
SELECT quota_settle(:p, units => '{"input_token": 1600, "output_token": 120}');
SELECT * FROM settle;
ROLLBACK;
-- an aborted settle leaves what was charged, and the permit open
SELECT * FROM settle;
SELECT quota_settle(:p, units => '{"input_token": 1600, "output_token": 120}');
SELECT * FROM settle;
SELECT reason, limit_name, not_before FROM quota_acquire('settle_a', 'settle', units => '{"input_token": 1, "output_token": 1}');
-- the debt is paid by what refills
SELECT quota_clock_advance('20 s');
SELECT * FROM settle;
SELECT quota_clock_advance('40 s');
SELECT * FROM settle WHERE limit_name = 'input';
SELECT admitted FROM quota_peek('settle_a', 'settle', units => '{"input_token": 1}');
SELECT quota_clock_advance('0.1 s');
SELECT admitted FROM quota_peek('settle_a', 'settle', units => '{"input_token": 1}');

-- one wrong report keeps nobody out for longer than one period, or the burst's worth:
-- a limit owes at most its amount, or its burst if that is more
SELECT quota_clock_advance('2 h');
SELECT permit AS p FROM quota_acquire('settle_a', 'settle', units => '{"input_token": 10, "output_token": 1}') \gset
SELECT quota_settle(:p, units => '{"input_token": 1000000000, "output_token": 1000000000}');
SELECT * FROM settle;
SELECT limit_name, not_before - quota_clock() AS wait FROM quota_explain('settle_a', 'settle',
	units => '{"input_token": 1, "output_token": 1}') ORDER BY 1;
SELECT permit AS p FROM quota_acquire('settle_a', 'settle', units => '{"input_token": 0, "output_token": 0}') \gset
SELECT quota_settle(:p, units => '{"input_token": 1000000000, "output_token": 1}');
SELECT * FROM settle;
-- a burst above the amount
UPDATE quota.limits SET burst = 500 WHERE provider = 'settle' AND name = 'output';
SELECT quota_clock_advance('2 h');
SELECT permit AS p FROM quota_acquire('settle_a', 'settle', units => '{"output_token": 50}') \gset
SELECT quota_settle(:p, units => '{"output_token": 1000}');
SELECT * FROM settle WHERE limit_name = 'output';
UPDATE quota.limits SET burst = 100 WHERE provider = 'settle' AND name = 'output';
-- debt and a limit that is closed: it goes on owing
SELECT quota_clock_advance('2 h');
SELECT permit AS p FROM quota_acquire('settle_a', 'settle', units => '{"output_token": 50}') \gset
UPDATE quota.limits SET amount = 0, burst = NULL WHERE provider = 'settle' AND name = 'output';
SELECT level FROM settle WHERE limit_name = 'output';
SELECT quota_settle(:p, units => '{"output_token": 130}');
UPDATE quota.limits SET amount = 100, burst = 100 WHERE provider = 'settle' AND name = 'output';
SELECT level FROM settle WHERE limit_name = 'output';

-- permits of n calls: units are of one call
SELECT quota_clock_advance('2 h');
SELECT permit AS p, granted FROM quota_acquire('settle_a', 'settle', n => 10, units => '{"output_token": 2, "input_token": 20}') \gset
SELECT * FROM settle;
SELECT quota_settle(:p, units => '{"output_token": 3, "input_token": 15}');
SELECT * FROM settle;

-- what was not billed stays spent of a rate, corrected
SELECT permit AS p FROM quota_acquire('settle_a', 'settle', units => '{"output_token": 10}') \gset
SELECT quota_settle(:p, billed => false, units => '{"output_token": 4}');
SELECT level FROM settle WHERE limit_name = 'output';

-- acquired and settled in one transaction that rolls back: the call went out, with all it cost
SELECT quota_clock_advance('2 h');
BEGIN;
SELECT permit AS p FROM quota_acquire('settle_a', 'settle', units => '{"output_token": 10}') \gset
SAVEPOINT s;
SELECT quota_settle(:p, units => '{"output_token": 30}');
ROLLBACK TO s;
SELECT level FROM settle WHERE limit_name = 'output';
SELECT quota_settle(:p, units => '{"output_token": 30}');
SELECT level FROM settle WHERE limit_name = 'output';
ROLLBACK;
SELECT level FROM settle WHERE limit_name = 'output';
BEGIN;
SELECT permit AS p FROM quota_acquire('settle_a', 'settle', units => '{"output_token": 10}') \gset
SELECT quota_settle(:p, units => '{"output_token": 20}');
COMMIT;
SELECT level FROM settle WHERE limit_name = 'output';

-- other rates: less returns to the same window only, more is charged to the present one
INSERT INTO quota.providers (provider, safety) VALUES ('settle_rates', 1);
INSERT INTO quota.limits (provider, name, unit, kind, amount, period) VALUES
	('settle_rates', 'paced', 'token', 'leaky_bucket', 100, '100 s'),
	('settle_rates', 'sliding', 'token', 'sliding_window', 100, '100 s'),
	('settle_rates', 'window', 'token', 'fixed_window', 100, '100 s');
CREATE VIEW settle_rates AS
	SELECT limit_name, level FROM quota_explain('settle_a', 'settle_rates', units => '{"token": 1}') ORDER BY 1;
SELECT quota_clock_set('2026-08-03 00:00:00+00');
SELECT permit AS p FROM quota_acquire('settle_a', 'settle_rates', units => '{"token": 60}') \gset
SELECT quota_clock_advance('10 s');
SELECT quota_settle(:p, units => '{"token": 20}');
SELECT * FROM settle_rates;
SELECT permit AS p FROM quota_acquire('settle_a', 'settle_rates', units => '{"token": 0}') \gset
SELECT quota_clock_advance('20 s');
BEGIN;
SELECT quota_settle(:p, units => '{"token": 1000}');
SELECT * FROM settle_rates;
ROLLBACK;
SELECT * FROM settle_rates;
SELECT quota_settle(:p, units => '{"token": 1000}');
SELECT * FROM settle_rates;
SELECT quota_clock_advance('70 s');
SELECT * FROM settle_rates;
SELECT quota_clock_advance('30 s');
SELECT * FROM settle_rates;
SELECT quota_clock_advance('140 s');
SELECT permit AS p FROM quota_acquire('settle_a', 'settle_rates', units => '{"token": 90}') \gset
SELECT quota_clock_advance('50 s');
SELECT quota_settle(:p, units => '{"token": 10}');
SELECT * FROM settle_rates;
SELECT quota_clock_advance('1 h');
SELECT permit AS p FROM quota_acquire('settle_a', 'settle_rates', units => '{"token": 50}') \gset
SELECT quota_clock_advance('59 s');
SELECT quota_settle(:p, units => '{"token": 80}');
SELECT * FROM settle_rates;
DROP VIEW settle_rates;

-- a call that measured nothing and has a permit for other reasons: settling names the units
SELECT permit FROM quota_acquire('settle_a', 'settle');
INSERT INTO quota.limits (provider, name, kind, amount) VALUES ('settle', 'slots', 'concurrency', 5);
INSERT INTO quota.limits (provider, name, per, unit, kind, amount, period) VALUES
	('settle', 'credits', '{tenant}', 'credit', 'allowance', 1000, '1 month');
SELECT permit AS p FROM quota_acquire('settle_a', 'settle') \gset
-- writes nothing for that
SELECT count(*) FROM quota.holds WHERE provider = 'settle';
SELECT quota_settle(:p, units => '{"input_token": 77, "output_token": 7, "credit": 1, "other": 5}');
SELECT * FROM settle;
-- credits exactly, however much it is; of a call that measured, unknown ones too
SELECT permit AS p FROM quota_acquire('settle_a', 'settle', n => 2, units => '{"credit": 10}') \gset
BEGIN;
SELECT quota_settle(:p, units => '{"credit": 900, "input_token": 1}');
SELECT used, held, remaining FROM quota_balance('settle_a', 'settle');
ROLLBACK;
SELECT used, held, remaining FROM quota_balance('settle_a', 'settle');
SELECT quota_settle(:p, units => '{"credit": 900, "input_token": 1}');
SELECT used, held, remaining FROM quota_balance('settle_a', 'settle');
SELECT reason FROM quota_acquire('settle_a', 'settle', units => '{"credit": 1}');
SELECT permit AS p FROM quota_acquire('settle_a', 'settle', units => '{}') \gset
SELECT quota_settle(:p, units => '{"credit": 5}');
SELECT used, held, remaining FROM quota_balance('settle_a', 'settle');
SELECT * FROM quota_audit();

-- jobs: what the cost map or the job says, then what quota_complete says
SELECT quota_clock_advance('2 h');
INSERT INTO quota.jobs (tenant, provider, units) VALUES ('settle_a', 'settle', '{"output_token": 10}'), ('settle_a', 'settle', NULL);
SELECT id AS j1, attempt AS a1 FROM quota_dequeue('settle') \gset
SELECT id AS j2, attempt AS a2 FROM quota_dequeue('settle') \gset
SELECT level FROM settle WHERE limit_name = 'output';
SELECT quota_complete(:j1, :a1, units => '{"output_token": 30}');
SELECT quota_complete(:j2, :a2, units => '{"output_token": 4}');
SELECT level FROM settle WHERE limit_name = 'output';
SELECT * FROM quota_audit();
DROP VIEW settle;
