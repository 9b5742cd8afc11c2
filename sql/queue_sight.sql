-- What waits, until when and why; how long all of it takes; how many workers help.
SET timezone = 'UTC';
SET statement_timeout = '30 s';
SELECT quota_clock_set('2026-04-02 00:00:00+00');

INSERT INTO quota.tiers (tier) VALUES ('sight');
INSERT INTO quota.tenants (tenant, tier) SELECT 'sight_' || x, 'sight' FROM unnest('{a,b,c,d,e}'::text[]) x;
INSERT INTO quota.providers (provider, safety)
	SELECT 'sight_' || x, 1 FROM unnest('{own,rate,slots,month,none,cost}'::text[]) x;
INSERT INTO quota.limits (provider, name, per, kind, amount, period, burst) VALUES
	('sight_own', 'each', '{tenant}', 'token_bucket', 60, '1 minute', 1),
	('sight_rate', 'all', '{}', 'token_bucket', 180, '1 minute', 3),
	('sight_month', 'credits', '{tenant}', 'allowance', 10, '1 month', NULL),
	('sight_cost', 'tokens', '{}', 'token_bucket', 1000, '1 s', 1000);
INSERT INTO quota.limits (provider, name, per, kind, amount, period, burst, unit)
	VALUES ('sight_cost', 'big', '{}', 'token_bucket', 100, '1 s', 100, 'token');
INSERT INTO quota.costs (provider, endpoint, unit, cost) VALUES ('sight_cost', NULL, 'token', 10), ('sight_cost', 'dear', 'token', 50);
INSERT INTO quota.limits (provider, name, per, kind, amount) VALUES ('sight_slots', 'places', '{}', 'concurrency', 2);

CREATE FUNCTION add(provider text, tenant text, n int = 1, run_at timestamptz = NULL, endpoint text = NULL) RETURNS void LANGUAGE sql AS
$$ INSERT INTO quota.jobs (tenant, provider, run_at, endpoint)
	SELECT 'sight_' || tenant, 'sight_' || provider, run_at, endpoint FROM generate_series(1, n) $$;
CREATE FUNCTION next_at(provider text) RETURNS TABLE (tenant text, class text, endpoint text,
	queued bigint, in_flight bigint, reason text, limit_name text, next_at timestamptz) LANGUAGE sql AS
$$ SELECT * FROM quota_next_at('sight_' || provider) ORDER BY tenant COLLATE "C", class COLLATE "C", endpoint COLLATE "C" $$;
CREATE FUNCTION work(provider text, n int = 1) RETURNS bigint LANGUAGE sql AS
$$ SELECT count(*) FROM quota_dequeue('sight_' || provider, n) $$;
CREATE FUNCTION finish(provider text) RETURNS bigint LANGUAGE sql AS
$$ SELECT count(quota_complete(id, attempt)::text) FROM quota.jobs j WHERE j.provider = 'sight_' || finish.provider AND state = 'running' $$;

-- next_at: each tenant's own reason
SELECT * FROM next_at('own');
SELECT add('own', 'a', 3), add('own', 'b'), add('own', 'c', 2, '2026-04-02 01:00+00'), add('own', 'd'), add('own', 'e', 1, NULL, 'x');
UPDATE quota.tenants SET suspended = true WHERE tenant = 'sight_d';
SELECT work('own', 2);
SELECT * FROM next_at('own');
SELECT work('own', 9);
SELECT * FROM next_at('own');
SELECT quota_clock_advance('300 ms');
SELECT * FROM next_at('own');
SELECT quota_clock_advance('700 ms');
SELECT * FROM next_at('own');
SELECT add('own', 'a', 1, NULL, 'x');
SELECT quota_clock_advance('1 hour');
SELECT * FROM next_at('own');
BEGIN READ ONLY;
SELECT count(*) FROM next_at('own');
SELECT quota_drain_time('sight_own');
SELECT quota_workers_needed('sight_own');
ROLLBACK;
-- one limit stops all
SELECT add('rate', 'a', 10), add('rate', 'b', 5);
SELECT * FROM next_at('rate');
SELECT work('rate', 99);
SELECT * FROM next_at('rate');
SELECT quota_clock_advance('100 ms');
SELECT * FROM next_at('rate');
SELECT add('slots', 'a', 7), add('slots', 'b');
SELECT work('slots', 99);
SELECT * FROM next_at('slots');
SELECT finish('slots');
SELECT * FROM next_at('slots');
SELECT add('month', 'a', 12), add('month', 'b', 35);
SELECT work('month', 99);
SELECT * FROM next_at('month');

-- drain_time: 12 jobs at 3/s, 0.3 tokens are there
SELECT quota_drain_time('sight_rate'), quota_drain_time('sight_rate', 3), quota_drain_time('sight_rate', 0);
SELECT quota_drain_time('sight_none'), quota_drain_time('sight_none', 1000);
-- nothing waits: three at once, the others one by one
SELECT finish('rate');
SELECT quota_clock_advance('1 hour');
SELECT count(quota_complete(id, attempt)::text) FROM quota_dequeue('sight_rate', 3);
SELECT quota_drain_time('sight_rate'), quota_drain_time('sight_rate', 1);
SELECT count(quota_cancel(id)) FROM quota.jobs WHERE provider = 'sight_rate' AND state = 'queued';
SELECT quota_drain_time('sight_rate'), quota_drain_time('sight_rate', 1), quota_drain_time('sight_rate', 10);
SELECT quota_clock_advance('1 s');
SELECT quota_drain_time('sight_rate', 3), quota_drain_time('sight_rate', 4);
-- allowances: a has none left for two, b needs three more months: May, June and July
SELECT quota_drain_time('sight_month');
-- by costs: 20 x 10 + 4 x 50 tokens at 100/s, 100 are there; 24 more like them
SELECT add('cost', 'a', 20), add('cost', 'b', 4, NULL, 'dear');
SELECT quota_drain_time('sight_cost'), quota_drain_time('sight_cost', 24);
SELECT add('cost', 'd', 100);
SELECT quota_drain_time('sight_cost');
UPDATE quota.tenants SET suspended = false WHERE tenant = 'sight_d';
SELECT quota_drain_time('sight_cost');
SELECT add('cost', 'c', 1, '2026-04-03 00:00+00');
SELECT quota_drain_time('sight_cost');
UPDATE quota.costs SET cost = 101 WHERE provider = 'sight_cost' AND endpoint = 'dear';
SELECT quota_drain_time('sight_cost');
UPDATE quota.costs SET cost = 50 WHERE provider = 'sight_cost' AND endpoint = 'dear';
UPDATE quota.limits SET amount = 0, burst = 100 WHERE provider = 'sight_cost' AND name = 'big';
SELECT quota_drain_time('sight_cost');
-- two places, 5 s each on average: of 4 jobs two begin at once, the last after 5 s
SELECT count(*) FROM quota_dequeue('sight_slots', 9);
SELECT quota_clock_advance('10 s');
SELECT finish('slots');
SELECT queued, in_flight FROM next_at('slots');
SELECT quota_drain_time('sight_slots');

-- workers_needed: 3 calls/s
SELECT quota_workers_needed('sight_none'), quota_workers_needed('sight_slots');
INSERT INTO quota.providers (provider, safety) VALUES ('sight_w', 1);
INSERT INTO quota.limits (provider, name, per, kind, amount, period, burst) VALUES
	('sight_w', 'rate', '{}', 'token_bucket', 3, '1 s', 1000);
SELECT quota_workers_needed('sight_w');
CREATE PROCEDURE attempts(n int, latency interval) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM add('w', 'a', n);
	COMMIT;
	PERFORM work('w', n);
	PERFORM quota_clock_advance(latency);
	PERFORM finish('w');
END $$;
CALL attempts(300, '0.6 s');
SELECT quota_workers_needed('sight_w');
CALL attempts(13, '2.5 s');
SELECT quota_workers_needed('sight_w'), quota_workers_needed('sight_w', 0.949), quota_workers_needed('sight_w', 1);
CALL attempts(1, '2.5 s');
SELECT quota_workers_needed('sight_w'), quota_workers_needed('sight_w', 0.9), quota_workers_needed('sight_w', 0.000001);
CALL attempts(256, '2.5 s');
SELECT quota_workers_needed('sight_w');
-- an attempt that fails counts, one that is lost does not
SELECT add('w', 'a');
SELECT work('w');
SELECT quota_clock_advance('50 s');
SELECT quota_fail(id, attempt, 'no', retry => false) FROM quota.jobs WHERE provider = 'sight_w' AND state = 'running';
SELECT quota_workers_needed('sight_w', 1);
-- no more than may be in flight; at double cost half of them
INSERT INTO quota.limits (provider, name, per, kind, amount) VALUES ('sight_w', 'places', '{}', 'concurrency', 5);
SELECT quota_workers_needed('sight_w');
DELETE FROM quota.limits WHERE provider = 'sight_w' AND name = 'places';
INSERT INTO quota.costs (provider, unit, cost) VALUES ('sight_w', 'request', 2);
SELECT quota_workers_needed('sight_w');
-- a step of the wall clock changes nothing
DELETE FROM quota.costs WHERE provider = 'sight_w';
SELECT add('w', 'a', 256);
SELECT count(*) FROM quota_dequeue('sight_w', 256);
SELECT quota_clock_set(quota_clock() - interval '1 hour');
SELECT quota_clock_advance('0.6 s');
SELECT finish('w');
SELECT quota_workers_needed('sight_w'), quota_workers_needed('sight_w', 1);

-- arguments
SELECT quota_next_at('sight_x');
SELECT quota_next_at(NULL);
SELECT quota_drain_time('sight_x');
SELECT quota_drain_time(NULL);
SELECT quota_drain_time('sight_own', -1);
SELECT quota_drain_time('sight_own', NULL);
SELECT quota_workers_needed('sight_x');
SELECT quota_workers_needed('sight_w', 0);
SELECT quota_workers_needed('sight_w', 1.01);
SELECT quota_workers_needed('sight_w', 'NaN');
SELECT quota_workers_needed('sight_w', NULL);

SELECT count(quota_cancel(id)) FROM quota.jobs WHERE provider LIKE 'sight%' AND state IN ('queued', 'scheduled');
DROP PROCEDURE attempts;
DROP FUNCTION add, next_at, work, finish;
