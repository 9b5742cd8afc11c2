-- Limits that do not refuse: soft ones say so, shadows only count.
SET timezone = 'UTC';
SELECT quota_clock_set('2026-04-01 00:00:00+00');
INSERT INTO quota.tiers (tier) VALUES ('enforce');
INSERT INTO quota.tenants (tenant, tier) VALUES ('enforce_a', 'enforce'), ('enforce_b', 'enforce');
INSERT INTO quota.providers (provider, safety) VALUES
	('enforce', 1), ('enforce_flight', 1), ('enforce_credit', 1), ('enforce_jobs', 1);
CREATE VIEW enforce_buckets AS
	SELECT limit_name, enforcement, used, level, admitted, refused, would_refuse
	FROM quota.stat_buckets WHERE provider LIKE 'enforce%' ORDER BY provider, limit_name;

\set VERBOSITY terse
INSERT INTO quota.limits (provider, name, amount, period, enforcement) VALUES
	('enforce', 'rate', 10, '10 s', 'loose');
\set VERBOSITY default

-- a soft rate: what it lets through is a debt, and the decision says so
INSERT INTO quota.limits (provider, name, amount, period, burst, enforcement) VALUES
	('enforce', 'rate', 10, '10 s', 10, 'soft');
SELECT admitted, granted, reason, limit_name, remaining, permit FROM quota_acquire('enforce_a', 'enforce', n => 8);
SELECT * FROM quota_peek('enforce_a', 'enforce', n => 5);
SELECT admitted, granted, reason, limit_name, not_before, exhausted
FROM quota_acquire('enforce_a', 'enforce', n => 5);
SELECT * FROM enforce_buckets;
SELECT limit_name, level, enforcement, admits, reason, not_before, explanation
FROM quota_explain('enforce_a', 'enforce');
-- it recovers as if it had been hard and had waited
SELECT quota_clock_advance('3999 ms');
SELECT reason FROM quota_peek('enforce_a', 'enforce');
SELECT quota_clock_advance('1 ms');
SELECT reason FROM quota_peek('enforce_a', 'enforce');
SELECT reason FROM quota_peek('enforce_a', 'enforce', n => 2);
-- more than it ever holds, and as many as fit: a soft limit never refuses, so all do
SELECT granted, reason FROM quota_acquire('enforce_a', 'enforce', n => 11);
SELECT granted, reason FROM quota_acquire('enforce_a', 'enforce', n => 3, partial => true);
-- it owes one period at most, whatever it lets through
SELECT granted, reason FROM quota_acquire('enforce_a', 'enforce', n => 1000);
SELECT granted, reason FROM quota_acquire('enforce_a', 'enforce', n => 1000);
SELECT * FROM enforce_buckets;
SELECT not_before FROM quota_explain('enforce_a', 'enforce');
-- what was let through and rolled back is not owed; what was capped returns as charged
SELECT quota_clock_advance('15 s');
BEGIN;
SELECT reason FROM quota_acquire('enforce_a', 'enforce', n => 1000);
SELECT level FROM enforce_buckets;
ROLLBACK;
SELECT level FROM enforce_buckets;

-- hard, soft and shadow in turn: each acts on the next decision and keeps what was spent
SELECT reason FROM quota_acquire('enforce_a', 'enforce', n => 10);
UPDATE quota.limits SET enforcement = 'hard' WHERE provider = 'enforce';
SELECT admitted, reason, limit_name, not_before FROM quota_acquire('enforce_a', 'enforce');
UPDATE quota.limits SET enforcement = 'shadow' WHERE provider = 'enforce';
SELECT admitted, reason, limit_name, remaining FROM quota_acquire('enforce_a', 'enforce', n => 3);
SELECT * FROM enforce_buckets;
UPDATE quota.limits SET enforcement = 'soft' WHERE provider = 'enforce';
SELECT admitted, reason, limit_name FROM quota_acquire('enforce_a', 'enforce');
SELECT * FROM enforce_buckets;

-- a shadow plays its own part: it charges itself with what it would have admitted
UPDATE quota.limits SET enforcement = 'shadow' WHERE provider = 'enforce';
SELECT quota_clock_advance('1 min');
SELECT (quota_acquire('enforce_a', 'enforce')).reason, count(*) FROM generate_series(1, 25) GROUP BY 1;
SELECT permit FROM quota_peek('enforce_a', 'enforce');
SELECT * FROM enforce_buckets;
SELECT quota_clock_advance('2 s');
SELECT (quota_acquire('enforce_a', 'enforce')).reason, count(*) FROM generate_series(1, 5) GROUP BY 1;
SELECT * FROM enforce_buckets;
SELECT limit_name, level, enforcement, admits, reason, not_before, explanation
FROM quota_explain('enforce_a', 'enforce');
-- only with calls that others admit; those that others refuse it would have refused, too
INSERT INTO quota.limits (provider, name, amount, period, burst) VALUES ('enforce', 'door', 2, '1 hour', 2);
SELECT quota_clock_advance('1 min');
SELECT (quota_acquire('enforce_a', 'enforce')).reason, count(*) FROM generate_series(1, 5) GROUP BY 1 ORDER BY 1;
SELECT * FROM enforce_buckets;
SELECT reason, limit_name FROM quota_acquire('enforce_a', 'enforce', n => 20);
SELECT would_refuse FROM enforce_buckets WHERE limit_name = 'rate';
-- of two soft limits the one that opens last is named
UPDATE quota.limits SET enforcement = 'soft' WHERE provider = 'enforce';
SELECT reason, limit_name FROM quota_acquire('enforce_a', 'enforce', n => 9);
INSERT INTO quota.limits (provider, name, amount, period, burst, enforcement) VALUES
	('enforce', 'zone', 1, '1 day', 1, 'soft');
SELECT reason, limit_name FROM quota_acquire('enforce_a', 'enforce');
SELECT reason, limit_name FROM quota_acquire('enforce_a', 'enforce');
-- suspended and closed: a soft limit of 0 lets through, a suspended tenant is refused
UPDATE quota.limits SET amount = 0 WHERE provider = 'enforce' AND name = 'door';
SELECT reason, limit_name FROM quota_acquire('enforce_a', 'enforce');
UPDATE quota.tenants SET suspended = true WHERE tenant = 'enforce_a';
SELECT admitted, reason FROM quota_acquire('enforce_a', 'enforce');
UPDATE quota.tenants SET suspended = false WHERE tenant = 'enforce_a';

-- the other rates: what one lets through is owed until its window ends, until it is a period
-- old, and until it has leaked; never more than a period's amount
INSERT INTO quota.providers (provider, safety) VALUES ('enforce_rates', 1);
INSERT INTO quota.limits (provider, name, kind, amount, period, enforcement) VALUES
	('enforce_rates', 'paced', 'leaky_bucket', 10, '10 s', 'soft'),
	('enforce_rates', 'sliding', 'sliding_window', 10, '10 s', 'soft'),
	('enforce_rates', 'window', 'fixed_window', 10, '10 s', 'soft');
CREATE VIEW enforce_rates AS
	SELECT limit_name, level, reason, not_before - quota_clock() AS wait
	FROM quota_explain('enforce_a', 'enforce_rates') ORDER BY limit_name;
SELECT quota_clock_set('2026-04-01 01:00:00+00');
SELECT reason FROM quota_acquire('enforce_a', 'enforce_rates', n => 8);
SELECT quota_clock_advance('4 s');
SELECT reason FROM quota_acquire('enforce_a', 'enforce_rates', n => 4);
SELECT * FROM enforce_rates;
SELECT reason FROM quota_acquire('enforce_a', 'enforce_rates', n => 1000);
SELECT * FROM enforce_rates;
SELECT quota_clock_advance('6 s');
SELECT * FROM enforce_rates;
SELECT quota_clock_advance('4 s');
SELECT * FROM enforce_rates;
UPDATE quota.limits SET enforcement = 'shadow' WHERE provider = 'enforce_rates';
SELECT quota_clock_advance('16 s');
SELECT (quota_acquire('enforce_a', 'enforce_rates')).reason, count(*) FROM generate_series(1, 25) GROUP BY 1;
SELECT limit_name, used, level, would_refuse FROM quota.stat_buckets WHERE provider = 'enforce_rates' ORDER BY 1;
DROP VIEW enforce_rates;

-- calls in flight: a soft limit counts them all, a shadow those that have a permit
INSERT INTO quota.limits (provider, name, kind, amount, enforcement) VALUES
	('enforce_flight', 'slots', 'concurrency', 2, 'soft');
SELECT reason, permit IS NOT NULL AS permit FROM quota_acquire('enforce_a', 'enforce_flight', n => 2);
SELECT permit AS p, reason, limit_name FROM quota_acquire('enforce_a', 'enforce_flight', n => 2) \gset
SELECT :'reason', :'limit_name';
SELECT * FROM enforce_buckets WHERE limit_name = 'slots';
SELECT quota_settle(:p);
SELECT used FROM enforce_buckets WHERE limit_name = 'slots';
UPDATE quota.limits SET enforcement = 'shadow' WHERE provider = 'enforce_flight';
SELECT reason, permit FROM quota_acquire('enforce_a', 'enforce_flight');
SELECT quota_clock_advance('1 min');
SELECT reason, permit FROM quota_acquire('enforce_a', 'enforce_flight');
SELECT used, would_refuse FROM enforce_buckets WHERE limit_name = 'slots';
INSERT INTO quota.limits (provider, name, kind, amount, permit_lifetime) VALUES
	('enforce_flight', 'all', 'concurrency', 100, '10 s');
UPDATE quota.limits SET permit_lifetime = '1 hour' WHERE name = 'slots' AND provider = 'enforce_flight';
SELECT permit AS p FROM quota_acquire('enforce_a', 'enforce_flight') \gset
SELECT (quota_acquire('enforce_a', 'enforce_flight')).reason, count(*) FROM generate_series(1, 4) GROUP BY 1;
SELECT limit_name, used, would_refuse FROM enforce_buckets WHERE limit_name IN ('slots', 'all');
SELECT quota_settle(:p);
SELECT limit_name, used FROM enforce_buckets WHERE limit_name IN ('slots', 'all');
-- a shadow's lifetime is not that of the permit
SELECT quota_clock_advance('10 s');
SELECT admitted FROM quota_peek('enforce_a', 'enforce_flight');
SELECT limit_name, used FROM enforce_buckets WHERE limit_name IN ('slots', 'all');
SELECT * FROM quota_audit();

-- credits: a soft allowance goes into debt in the ledger, exactly
INSERT INTO quota.costs (provider, unit, cost) VALUES ('enforce_credit', 'credit', 40);
INSERT INTO quota.limits (provider, name, per, unit, kind, amount, period, enforcement) VALUES
	('enforce_credit', 'credits', '{tenant}', 'credit', 'allowance', 100, '1 month', 'soft');
SELECT (quota_acquire('enforce_a', 'enforce_credit')).reason FROM generate_series(1, 4);
SELECT amount, used, held, remaining FROM quota_balance('enforce_a', 'enforce_credit');
SELECT count(*), sum(amount) FROM quota.ledger WHERE provider = 'enforce_credit';
SELECT * FROM quota_audit();
SELECT quota_settle(permit, units => '{"credit": 50}') FROM quota.holds
WHERE provider = 'enforce_credit' ORDER BY permit LIMIT 1;
SELECT used, held, remaining FROM quota_balance('enforce_a', 'enforce_credit');
SELECT admitted, reason FROM quota_hold('enforce_a', 'enforce_credit', 'credit', 1000);
SELECT remaining FROM quota_balance('enforce_a', 'enforce_credit');
UPDATE quota.limits SET enforcement = 'hard' WHERE provider = 'enforce_credit';
SELECT admitted, reason, not_before FROM quota_acquire('enforce_a', 'enforce_credit');
SELECT count(quota_release(permit)) FROM quota.holds WHERE provider = 'enforce_credit';
SELECT used, held, remaining FROM quota_balance('enforce_a', 'enforce_credit');
-- its debt ends with the period
UPDATE quota.limits SET enforcement = 'soft' WHERE provider = 'enforce_credit';
SELECT reason FROM quota_acquire('enforce_a', 'enforce_credit', n => 3);
SELECT quota_clock_set('2026-05-01 00:00:00+00');
SELECT reason, remaining FROM quota_acquire('enforce_a', 'enforce_credit');
SELECT used, remaining FROM quota_balance('enforce_a', 'enforce_credit');
SELECT * FROM quota_audit();

-- a shadow allowance counts in memory, on top of what the ledger says
UPDATE quota.limits SET enforcement = 'shadow' WHERE provider = 'enforce_credit';
SELECT (quota_acquire('enforce_a', 'enforce_credit')).permit FROM generate_series(1, 3);
SELECT used, level, would_refuse FROM enforce_buckets WHERE limit_name = 'credits';
SELECT used, remaining FROM quota_balance('enforce_a', 'enforce_credit');
SELECT level, admits, reason, not_before, explanation FROM quota_explain('enforce_a', 'enforce_credit');
BEGIN;
SELECT reason FROM quota_acquire('enforce_a', 'enforce_credit', units => '{"credit": 20}');
SELECT used FROM enforce_buckets WHERE limit_name = 'credits';
SAVEPOINT s;
SELECT reason FROM quota_acquire('enforce_a', 'enforce_credit');
ROLLBACK;
SELECT used FROM enforce_buckets WHERE limit_name = 'credits';
UPDATE quota.costs SET cost = 2 WHERE provider = 'enforce_credit';
BEGIN;
SELECT (quota_acquire('enforce_a', 'enforce_credit')).reason FROM generate_series(1, 3);
SELECT used FROM enforce_buckets WHERE limit_name = 'credits';
ROLLBACK;
SELECT used FROM enforce_buckets WHERE limit_name = 'credits';
-- with a permit for other reasons it learns the true amount, both ways
SELECT permit AS p FROM quota_acquire('enforce_a', 'enforce_credit', units => '{"credit": 10}') \gset
SELECT quota_settle(:p, units => '{"credit": 4}');
SELECT used FROM enforce_buckets WHERE limit_name = 'credits';
SELECT permit AS p FROM quota_acquire('enforce_a', 'enforce_credit', units => '{"credit": 10}') \gset
BEGIN;
SELECT quota_settle(:p, units => '{"credit": 14}');
SELECT used FROM enforce_buckets WHERE limit_name = 'credits';
ROLLBACK;
SELECT used FROM enforce_buckets WHERE limit_name = 'credits';
SELECT quota_settle(:p, billed => false);
SELECT used FROM enforce_buckets WHERE limit_name = 'credits';
SELECT count(*) FROM quota.ledger WHERE provider = 'enforce_credit' AND kind <> 'expire';
SELECT * FROM quota_audit();
-- made hard it has what the ledger says
UPDATE quota.limits SET enforcement = 'hard' WHERE provider = 'enforce_credit';
SELECT reason, remaining FROM quota_peek('enforce_a', 'enforce_credit');
UPDATE quota.limits SET enforcement = 'shadow' WHERE provider = 'enforce_credit';
SELECT (quota_acquire('enforce_a', 'enforce_credit')).reason, count(*) FROM generate_series(1, 40) GROUP BY 1;
SELECT used, level, would_refuse FROM enforce_buckets WHERE limit_name = 'credits';
SELECT quota_clock_set('2026-06-01 00:00:00+00');
SELECT reason FROM quota_acquire('enforce_a', 'enforce_credit');
SELECT used, level FROM enforce_buckets WHERE limit_name = 'credits';
-- beside a hard one, whose permit it shares
INSERT INTO quota.limits (provider, name, per, unit, kind, amount, period) VALUES
	('enforce_credit', 'hard', '{}', 'credit', 'allowance', 1000, '1 month');
SELECT permit AS p FROM quota_acquire('enforce_b', 'enforce_credit', units => '{"credit": 10}') \gset
SELECT limit_name, used, level FROM quota.stat_buckets
WHERE provider = 'enforce_credit' AND bucket IN ('', 'enforce_b') ORDER BY 1;
SELECT quota_settle(:p, units => '{"credit": 17}');
SELECT limit_name, used, level FROM quota.stat_buckets
WHERE provider = 'enforce_credit' AND bucket IN ('', 'enforce_b') ORDER BY 1;
SELECT limit_name, kind, amount FROM quota.ledger WHERE tenant = 'enforce_b' ORDER BY id;
SELECT * FROM quota_audit();

-- jobs: neither parks a flow, stops the provider, or makes a line
INSERT INTO quota.limits (provider, name, amount, period, endpoint, enforcement) VALUES
	('enforce_jobs', 'rate', 1, '1 day', NULL, 'hard'),
	('enforce_jobs', 'rate_x', 1, '1 day', 'x', 'shadow');
INSERT INTO quota.limits (provider, name, kind, amount, enforcement) VALUES
	('enforce_jobs', 'slots', 'concurrency', 1, 'soft');
INSERT INTO quota.jobs (tenant, provider, endpoint)
SELECT tenant, 'enforce_jobs', endpoint
FROM (VALUES ('enforce_a'), ('enforce_b')) AS t (tenant), (VALUES ('x'), ('y')) AS e (endpoint),
	generate_series(1, 3);
SELECT count(*) FROM quota_dequeue('enforce_jobs', 100);
SELECT DISTINCT reason, limit_name, next_at FROM quota_next_at('enforce_jobs');
-- the provider was closed by its hard limit: soft, it is open at once
UPDATE quota.limits SET enforcement = 'soft' WHERE provider = 'enforce_jobs' AND name = 'rate';
SELECT DISTINCT reason, limit_name, next_at FROM quota_next_at('enforce_jobs');
SELECT count(*) FROM quota_dequeue('enforce_jobs', 5);
SELECT DISTINCT reason, limit_name, next_at FROM quota_next_at('enforce_jobs');
SELECT count(*) FROM quota_dequeue('enforce_jobs', 100);
SELECT state, count(*) FROM quota.stat_flows WHERE provider = 'enforce_jobs' GROUP BY state;
SELECT limit_name, enforcement, used, refused, would_refuse > 0 AS would_refuse FROM quota.stat_buckets
WHERE provider = 'enforce_jobs' ORDER BY limit_name;
-- nothing waits for them, so all that is queued drains at once
INSERT INTO quota.jobs (tenant, provider, endpoint)
SELECT 'enforce_a', 'enforce_jobs', 'x' FROM generate_series(1, 3);
SELECT quota_drain_time('enforce_jobs');
SELECT count(quota_complete(id, attempt)) FROM quota.jobs WHERE provider = 'enforce_jobs' AND state = 'running';
SELECT quota_workers_needed('enforce_jobs');
SELECT count(*) FROM quota_dequeue('enforce_jobs', 10);
-- a batch needs no permit for a shadow of calls in flight, and is not divided by one
INSERT INTO quota.limits (provider, name, per, kind, amount, enforcement) VALUES
	('enforce_jobs', 'user', '{user}', 'concurrency', 1, 'shadow');
UPDATE quota.limits SET enforcement = 'shadow' WHERE provider = 'enforce_jobs' AND name = 'slots';
INSERT INTO quota.jobs (tenant, provider, endpoint, "user")
SELECT 'enforce_a', 'enforce_jobs', 'x', 'u' || i FROM generate_series(1, 3) AS i;
SELECT count(*), count(permit) FROM quota_dequeue('enforce_jobs', 10, same_endpoint => true);
SELECT count(*) FROM quota.stat_permits WHERE provider = 'enforce_jobs' AND job IS NULL;
SELECT * FROM quota_audit();

SELECT quota_cancel(id) FROM quota.jobs WHERE provider = 'enforce_jobs' AND state = 'queued';
DROP VIEW enforce_buckets;
