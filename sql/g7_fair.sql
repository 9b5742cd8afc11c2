-- G7: fair. G8: work conserving. Everything is decided by one session, so the
-- order of claims is exact.
SET timezone = 'UTC';
SELECT quota_clock_set('2026-01-01 00:00:00+00');

INSERT INTO quota.tiers (tier, weight) VALUES ('g7_1', 1), ('g7_2', 2), ('g7_4', 4);

-- what was served in which order; one claim per transaction
CREATE TABLE served (n int GENERATED ALWAYS AS IDENTITY, tenant text, class text, cost int, label text);
CREATE PROCEDURE serve(provider text, claims int, lost int = 0) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..claims LOOP
		-- "lost" of ten claims roll back
		FOR j IN 1..CASE WHEN i % 10 < lost THEN 2 ELSE 1 END LOOP
			INSERT INTO served (tenant, class, cost, label)
			SELECT c.tenant, c.class, coalesce(c.units->>'request', c.endpoint, '1')::int,
				(c.payload #>> '{}') || coalesce(quota_complete(c.id, c.attempt)::text, '')
			FROM quota_dequeue(provider) c;
			IF j = 1 AND i % 10 < lost THEN
				ROLLBACK;
			END IF;
		END LOOP;
		COMMIT;
	END LOOP;
END $$;

-- Between two tenants busy all the time, over every interval, the difference of
-- what they were served by weight: prefix sums from one end of the interval to
-- the other. Pairs for which it exceeds "factor" times the bound.
CREATE FUNCTION unfair(factor int = 1) RETURNS TABLE (a text, b text, difference numeric, bound numeric)
LANGUAGE sql AS $$
	WITH w AS (
		SELECT t.tenant, coalesce(t.weight, r.weight) AS weight, s.dearest
		FROM (SELECT tenant, max(cost) AS dearest FROM served GROUP BY 1) s
			JOIN quota.tenants t USING (tenant) JOIN quota.tiers r USING (tier)
	), pairs AS (
		SELECT a.tenant AS a, b.tenant AS b, a.weight AS wa, b.weight AS wb,
			a.dearest / a.weight + b.dearest / b.weight AS bound
		FROM w a JOIN w b ON a.tenant < b.tenant
	), prefix AS (
		SELECT a, b, bound, sum(CASE tenant WHEN a THEN cost / wa WHEN b THEN -cost / wb END)
			OVER (PARTITION BY a, b ORDER BY n) AS d
		FROM pairs JOIN served ON tenant IN (a, b)
	)
	SELECT a, b, greatest(max(d), 0) - least(min(d), 0), bound FROM prefix
	GROUP BY a, b, bound
	HAVING greatest(max(d), 0) - least(min(d), 0) > factor * bound + 1e-9
$$;

-- ---- weights ----

INSERT INTO quota.tenants (tenant, tier) VALUES ('g7_a', 'g7_1'), ('g7_b', 'g7_2'), ('g7_c', 'g7_4');
INSERT INTO quota.providers (provider, safety) VALUES ('g7', 1), ('g7_cost', 1), ('g7_flood', 1),
	('g7_tier', 1), ('g7_come', 1), ('g7_rank', 1), ('g7_cap', 1);
INSERT INTO quota.jobs (tenant, provider)
	SELECT t, 'g7' FROM unnest('{g7_a,g7_b,g7_c}'::text[]) t, generate_series(1, 4500);
CALL serve('g7', 7000);
SELECT s.tenant, count(*) BETWEEN 990 * r.weight AND 1010 * r.weight AS share
FROM served s JOIN quota.tenants t USING (tenant) JOIN quota.tiers r USING (tier)
GROUP BY s.tenant, r.weight ORDER BY 1;
SELECT count(*) FROM served;
SELECT * FROM unfair();
-- what was given to one that has drained goes to the others
CALL serve('g7', 1000);
SELECT count(*) FROM served;

-- ---- many tenants, weights from 1 to 100, costs from 1 to 34 ----

TRUNCATE served RESTART IDENTITY;
INSERT INTO quota.tenants (tenant, tier, weight)
	SELECT 'g7_w' || i, 'g7_1', (ARRAY[1, 2, 5, 10, 100])[i % 5 + 1] FROM generate_series(1, 20) i;
INSERT INTO quota.costs (provider, endpoint, unit, cost)
	SELECT 'g7_cost', c, 'request', c FROM unnest('{1,2,3,5,34}'::int[]) c;
-- some have measured units instead
INSERT INTO quota.jobs (tenant, provider, endpoint, units)
	SELECT 'g7_w' || t, 'g7_cost', (ARRAY[1, 2, 3, 5, 34])[(t * 7 + i * i * 31 + i / 3) % 5 + 1],
		CASE WHEN i % 7 = 0 THEN jsonb_build_object('request', i % 11 + 1) END
	FROM generate_series(1, 20) t, generate_series(1, CASE t % 5 WHEN 4 THEN 1000 ELSE 200 END) i;
CALL serve('g7_cost', 2000);
SELECT count(*), count(DISTINCT tenant) AS tenants, count(DISTINCT cost) AS costs FROM served;
SELECT * FROM unfair();
-- a bound that is met, not one far away
SELECT max(difference / bound) > 0.5 AS near FROM unfair(0);
-- claims that roll back, one open at a time
TRUNCATE served RESTART IDENTITY;
CALL serve('g7_cost', 1000, 3);
SELECT * FROM unfair(2);

-- ---- one hundred thousand jobs of one tenant, then one each of 99 ----

TRUNCATE served RESTART IDENTITY;
INSERT INTO quota.tenants (tenant, tier) SELECT 'g7_f' || i, 'g7_1' FROM generate_series(0, 99) i;
INSERT INTO quota.jobs (tenant, provider) SELECT 'g7_f0', 'g7_flood' FROM generate_series(1, 100000);
CALL serve('g7_flood', 50);
INSERT INTO quota.jobs (tenant, provider) SELECT 'g7_f' || i, 'g7_flood' FROM generate_series(1, 99) i;
CALL serve('g7_flood', 200);
SELECT count(DISTINCT tenant) AS served, max(n) <= 50 + 101 AS soon FROM served WHERE tenant <> 'g7_f0';
SELECT count(*) FROM served WHERE tenant = 'g7_f0';

-- ---- a new weight reprices the backlog ----

INSERT INTO quota.tiers (tier) VALUES ('g7_up');
INSERT INTO quota.tenants (tenant, tier) VALUES ('g7_up', 'g7_up'), ('g7_same', 'g7_1');
INSERT INTO quota.costs (provider, endpoint, unit, cost) VALUES ('g7_tier', '1000', 'request', 1000);
INSERT INTO quota.jobs (tenant, provider)
	SELECT t, 'g7_tier' FROM unnest('{g7_up,g7_same}'::text[]) t, generate_series(1, 1600);
TRUNCATE served RESTART IDENTITY;
CALL serve('g7_tier', 1000);
SELECT tenant, count(*) FROM served GROUP BY 1 ORDER BY 1;
TRUNCATE served RESTART IDENTITY;
UPDATE quota.tiers SET weight = 100 WHERE tier = 'g7_up';
CALL serve('g7_tier', 1010);
SELECT tenant, count(*) BETWEEN 990 AND 1010 AS most, count(*) BETWEEN 9 AND 11 AS few
FROM served GROUP BY 1 ORDER BY 1;
-- nothing before it is committed, nothing when it rolls back
TRUNCATE served RESTART IDENTITY;
BEGIN;
UPDATE quota.tiers SET weight = 0.001 WHERE tier = 'g7_up';
ROLLBACK;
CALL serve('g7_tier', 10);
SELECT count(*) >= 9 AS most FROM served WHERE tenant = 'g7_up';
-- a debt of 1000 is worth 10 at a hundred times the weight
UPDATE quota.tiers SET weight = 1 WHERE tier = 'g7_up';
DELETE FROM quota.jobs WHERE provider = 'g7_tier' AND state = 'queued';
INSERT INTO quota.jobs (tenant, provider, endpoint, payload) VALUES ('g7_up', 'g7_tier', '1000', '"dear"');
INSERT INTO quota.jobs (tenant, provider) SELECT 'g7_same', 'g7_tier' FROM generate_series(1, 50);
TRUNCATE served RESTART IDENTITY;
CALL serve('g7_tier', 3);
SELECT count(*) FROM served WHERE label = 'dear';
INSERT INTO quota.jobs (tenant, provider) SELECT 'g7_up', 'g7_tier' FROM generate_series(1, 50);
TRUNCATE served RESTART IDENTITY;
CALL serve('g7_tier', 20);
SELECT count(*) AS paying FROM served WHERE tenant = 'g7_up';
UPDATE quota.tiers SET weight = 100 WHERE tier = 'g7_up';
TRUNCATE served RESTART IDENTITY;
CALL serve('g7_tier', 11);
SELECT min(n) <= 11 AS back FROM served WHERE tenant = 'g7_up';
DELETE FROM quota.jobs WHERE provider = 'g7_tier' AND state = 'queued';

-- ---- tenants that come and go ----

-- five drain and come again before every call; none gains or loses by it
INSERT INTO quota.tenants (tenant, tier) SELECT 'g7_d' || i, 'g7_1' FROM generate_series(0, 9) i;
INSERT INTO quota.jobs (tenant, provider) SELECT 'g7_d0', 'g7_come' FROM generate_series(1, 200);
TRUNCATE served RESTART IDENTITY;
DO $$
BEGIN
	FOR i IN 1..120 LOOP
		INSERT INTO quota.jobs (tenant, provider)
		SELECT 'g7_d' || t, 'g7_come' FROM generate_series(1, 5) t
		WHERE i = 1 OR 'g7_d' || t IN (SELECT tenant FROM served ORDER BY n DESC LIMIT 5);
		COMMIT;
		INSERT INTO served (tenant) SELECT c.tenant FROM quota_dequeue('g7_come', 5) c;
		COMMIT;
	END LOOP;
END $$;
SELECT tenant, count(*) BETWEEN 99 AND 101 AS share FROM served GROUP BY 1 ORDER BY 1;
SELECT count(quota_complete(id, attempt)::text) FROM quota.jobs WHERE provider = 'g7_come' AND state = 'running';
DELETE FROM quota.jobs WHERE provider = 'g7_come' AND state = 'queued';

-- nor does one that drains with every job keep from paying for it
INSERT INTO quota.costs (provider, endpoint, unit, cost) VALUES ('g7_come', '9', 'request', 9);
INSERT INTO quota.jobs (tenant, provider) SELECT 'g7_d0', 'g7_come' FROM generate_series(1, 400);
CREATE PROCEDURE come_and_go(t text, e text, claims int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..claims LOOP
		INSERT INTO quota.jobs (tenant, provider, endpoint)
		SELECT t, 'g7_come', e
		WHERE i = 1 OR t = (SELECT tenant FROM served ORDER BY n DESC LIMIT 1);
		COMMIT;
		CALL serve('g7_come', 1);
	END LOOP;
END $$;
TRUNCATE served RESTART IDENTITY;
CALL come_and_go('g7_d6', NULL, 200);
SELECT tenant, count(*) FROM served GROUP BY 1 ORDER BY 1;
TRUNCATE served RESTART IDENTITY;
DELETE FROM quota.jobs WHERE tenant = 'g7_d6' AND state = 'queued';
CALL come_and_go('g7_d7', '9', 200);
SELECT tenant, count(*), sum(cost) FROM served GROUP BY 1 ORDER BY 1;
SELECT * FROM unfair();
DELETE FROM quota.jobs WHERE provider = 'g7_come' AND state = 'queued';
DROP PROCEDURE come_and_go;

-- one with only future work keeps no place; one that is new gets its share at once
INSERT INTO quota.jobs (tenant, provider, run_at) SELECT 'g7_d9', 'g7_come', '2026-02-01' FROM generate_series(1, 10);
INSERT INTO quota.jobs (tenant, provider)
	SELECT 'g7_d' || t, 'g7_come' FROM generate_series(1, 4) t, generate_series(1, 200);
TRUNCATE served RESTART IDENTITY;
CALL serve('g7_come', 100);
SELECT tenant, count(*) FROM served GROUP BY 1 ORDER BY 1;
INSERT INTO quota.jobs (tenant, provider) SELECT 'g7_d8', 'g7_come' FROM generate_series(1, 200);
TRUNCATE served RESTART IDENTITY;
CALL serve('g7_come', 20);
SELECT count(*) BETWEEN 3 AND 5 AS share, min(n) <= 5 AS soon FROM served WHERE tenant = 'g7_d8';

-- suspended: parked, nobody else notices; back with its share, not with more
UPDATE quota.tenants SET suspended = true WHERE tenant = 'g7_d1';
TRUNCATE served RESTART IDENTITY;
CALL serve('g7_come', 120);
SELECT tenant, count(*) FROM served GROUP BY 1 ORDER BY 1;
SELECT state, reason, depth > 0 AS waiting FROM quota.stat_flows WHERE provider = 'g7_come' AND tenant = 'g7_d1';
UPDATE quota.tenants SET suspended = false WHERE tenant = 'g7_d1';
TRUNCATE served RESTART IDENTITY;
CALL serve('g7_come', 100);
SELECT * FROM unfair();
SELECT max(row) AS in_a_row FROM (
	SELECT count(*) AS row FROM (
		SELECT tenant, n - row_number() OVER (PARTITION BY tenant ORDER BY n) AS run FROM served) r
	WHERE tenant = 'g7_d1' GROUP BY run) s;
SELECT count(*) AS share FROM served WHERE tenant = 'g7_d1';
DELETE FROM quota.jobs WHERE provider = 'g7_come' AND state IN ('queued', 'scheduled');

-- ---- between classes rank decides, oldest first within a flow ----
-- (reserves and ageing: queue_order.sql)

UPDATE quota.classes SET reserve = 0 WHERE class = 'batch';
INSERT INTO quota.jobs (tenant, provider, class, payload)
	SELECT t, 'g7_rank', c, to_jsonb(i)
	FROM generate_series(1, 3) i, unnest('{batch,event,interactive}'::text[]) c,
		unnest('{g7_a,g7_b}'::text[]) t;
TRUNCATE served RESTART IDENTITY;
CALL serve('g7_rank', 3);
INSERT INTO quota.jobs (tenant, provider, class, payload) VALUES ('g7_c', 'g7_rank', 'interactive', '9');
CALL serve('g7_rank', 8);
SELECT string_agg(class, ' ' ORDER BY n) FROM served;
SELECT tenant, class, string_agg(label, ' ' ORDER BY n) FROM served GROUP BY 1, 2 ORDER BY 1, 2;
-- a new rank counts for what waits
UPDATE quota.classes SET rank = 1 WHERE class = 'batch';
UPDATE quota.classes SET rank = 3 WHERE class = 'interactive';
TRUNCATE served RESTART IDENTITY;
INSERT INTO quota.jobs (tenant, provider, class) VALUES ('g7_a', 'g7_rank', 'interactive');
CALL serve('g7_rank', 20);
SELECT string_agg(class, ' ' ORDER BY n) FROM served;
UPDATE quota.classes SET rank = 1 WHERE class = 'interactive';
UPDATE quota.classes SET rank = 3, reserve = 0.05 WHERE class = 'batch';

-- ---- what may not run does not keep others from running (G8) ----

CREATE VIEW claims AS
	SELECT tenant, count(*) FROM quota_dequeue('g7_cap', 10) GROUP BY 1 ORDER BY 1;
CREATE PROCEDURE finish(t text, n int) LANGUAGE sql AS $$
	SELECT quota_complete(id, attempt) FROM (SELECT id, attempt FROM quota.jobs
		WHERE provider = 'g7_cap' AND tenant = t AND state = 'running' ORDER BY id LIMIT n) s $$;
INSERT INTO quota.tiers (tier, max_in_flight) VALUES ('g7_two', 2);
INSERT INTO quota.tenants (tenant, tier, max_in_flight)
	VALUES ('g7_k1', 'g7_two', NULL), ('g7_k2', 'g7_two', 3), ('g7_k3', 'g7_1', NULL);
INSERT INTO quota.jobs (tenant, provider)
	SELECT t, 'g7_cap' FROM unnest('{g7_k1,g7_k2,g7_k3}'::text[]) t, generate_series(1, 30);
-- caps are kept, and the rest is for those without
SELECT * FROM claims;
SELECT tenant, in_flight, reason FROM quota.stat_flows WHERE provider = 'g7_cap' ORDER BY 1;
SELECT * FROM claims;
-- a place that comes back is used by the next claim
CALL finish('g7_k1', 1);
SELECT tenant FROM quota_dequeue('g7_cap');
CALL finish('g7_k1', 2);
CALL finish('g7_k2', 1);
SELECT * FROM claims;
-- a new cap acts at once
UPDATE quota.tenants SET max_in_flight = 0 WHERE tenant = 'g7_k2';
CALL finish('g7_k2', 3);
CALL finish('g7_k1', 2);
SELECT * FROM claims;
UPDATE quota.tiers SET max_in_flight = NULL WHERE tier = 'g7_two';
UPDATE quota.tenants SET max_in_flight = NULL WHERE tenant = 'g7_k2';
SELECT * FROM claims;
CALL finish('g7_k1', 30);
CALL finish('g7_k2', 30);
CALL finish('g7_k3', 30);

-- every token is used as soon as it is there, by whoever may use it
INSERT INTO quota.limits (provider, name, amount, period, burst, per) VALUES
	('g7_cap', 'all', 10, '1 s', 6, '{}'), ('g7_cap', 'own', 2, '1 s', 1, '{tenant}');
INSERT INTO quota.tenant_limits (tenant, provider, name) VALUES ('g7_k3', 'g7_cap', 'own');
DELETE FROM quota.jobs WHERE provider = 'g7_cap' AND state = 'queued';
INSERT INTO quota.jobs (tenant, provider)
	SELECT t, 'g7_cap' FROM unnest('{g7_k1,g7_k2,g7_k3}'::text[]) t, generate_series(1, 30);
SELECT * FROM claims;
DO $$
BEGIN
	TRUNCATE served RESTART IDENTITY;
	FOR i IN 1..20 LOOP
		PERFORM quota_clock_advance('100 ms');
		INSERT INTO served (tenant, cost) SELECT tenant, i FROM quota_dequeue('g7_cap', 10);
		COMMIT;
	END LOOP;
END $$;
SELECT count(*), count(DISTINCT cost) AS times FROM served;
SELECT tenant, count(*) FROM served GROUP BY 1 ORDER BY 1;
-- an idle tenant's share is lent out
DELETE FROM quota.jobs WHERE provider = 'g7_cap' AND tenant = 'g7_k3' AND state = 'queued';
SELECT quota_clock_advance('10 s');
SELECT * FROM claims;
SELECT tenant, state, reason FROM quota.stat_flows WHERE provider = 'g7_cap' ORDER BY 1;

CALL finish('g7_k1', 30);
CALL finish('g7_k2', 30);
CALL finish('g7_k3', 30);
SELECT * FROM quota_audit();

DROP VIEW claims;
DROP PROCEDURE serve, finish;
DROP FUNCTION unfair;
DROP TABLE served;
DELETE FROM quota.jobs WHERE provider LIKE 'g7%' AND state IN ('queued', 'scheduled');
SELECT quota_clock_set(NULL);
