-- G7: whose turn it is: reserves, ageing and rank between classes; direct calls and
-- corrected costs between tenants. One session and the test clock, so the order of
-- claims is exact. (Between tenants by weight: g7_fair.sql.)
SET timezone = 'UTC';
SELECT quota_clock_set('2026-01-01 00:00:00+00');

INSERT INTO quota.tiers (tier, weight) VALUES ('order', 1);
INSERT INTO quota.tenants (tenant, tier) VALUES ('order_a', 'order'), ('order_b', 'order'), ('order_c', 'order');
INSERT INTO quota.classes (class, rank) VALUES ('high', 1), ('same', 1), ('low', 5), ('lowest', 6);
CREATE TABLE served (n int GENERATED ALWAYS AS IDENTITY, at timestamptz, tenant text, class text,
	cost int, age interval, label text);
CREATE PROCEDURE serve(provider text, claims int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..claims LOOP
		INSERT INTO served (at, tenant, class, cost, age, label)
		SELECT c.lease_until - interval '60 s', c.tenant, c.class, coalesce(c.units->>'request', '1')::int,
			c.lease_until - interval '60 s' - j.created_at, c.payload #>> '{}'
		FROM quota_dequeue(provider) c, LATERAL (SELECT quota_complete(c.id, c.attempt)) f,
			LATERAL (SELECT * FROM quota.jobs WHERE id = c.id) j;
		COMMIT;
	END LOOP;
END $$;

-- ---- reserves ----

-- together they are 1 at most
UPDATE quota.classes SET reserve = 0.951 WHERE class = 'low';
UPDATE quota.classes SET reserve = CASE class WHEN 'low' THEN 0.95 ELSE 0.05 END WHERE class IN ('low', 'batch');
INSERT INTO quota.classes (class, rank, reserve) VALUES ('order_more', 7, 0.001);
-- the sum after the statement counts, not that on the way
UPDATE quota.classes SET reserve = CASE class WHEN 'low' THEN 0.05 ELSE 0.95 END WHERE class IN ('low', 'lowest', 'batch')
	AND class <> 'batch';
UPDATE quota.classes SET reserve = 0.5 WHERE class IN ('low', 'lowest', 'batch');
-- as a dump is restored: the row of a shipped class is updated
COPY quota.classes (class, rank, reserve, max_fill) FROM stdin;
interactive	1	0.05	1
batch	3	0	0.9
\.
INSERT INTO quota.classes (class, rank, reserve, max_fill) VALUES ('batch', 3, 0.01, 0.9);
SELECT class, rank, reserve FROM quota.classes WHERE reserve > 0 ORDER BY 1;
UPDATE quota.classes SET reserve = CASE class WHEN 'batch' THEN 0.05 ELSE 0 END;

-- a floor, and no extra: a tenth is what it gets
INSERT INTO quota.providers (provider, safety) VALUES ('order_floor', 1), ('order_age', 1), ('order_old', 1),
	('order_equal', 1), ('order_lost', 1);
UPDATE quota.classes SET reserve = 0.1 WHERE class = 'low';
INSERT INTO quota.jobs (tenant, provider, class)
	SELECT 'order_a', 'order_floor', c FROM unnest('{high,low}'::text[]) c, generate_series(1, 300);
CALL serve('order_floor', 200);
SELECT (n - 1) / 10 AS ten, count(*) FILTER (WHERE class = 'low') AS low FROM served GROUP BY 1 HAVING count(*) FILTER (WHERE class = 'low') <> 1;
SELECT class, count(*) FROM served GROUP BY 1 ORDER BY 1;
-- who ran alone is not punished, who was away has saved up nothing
DELETE FROM quota.jobs WHERE provider = 'order_floor' AND class = 'high' AND state = 'queued';
CALL serve('order_floor', 100);
INSERT INTO quota.jobs (tenant, provider, class) SELECT 'order_a', 'order_floor', 'high' FROM generate_series(1, 300);
TRUNCATE served RESTART IDENTITY;
CALL serve('order_floor', 30);
SELECT string_agg(n::text, ' ' ORDER BY n) AS low FROM served WHERE class = 'low';
DELETE FROM quota.jobs WHERE provider = 'order_floor' AND class = 'low' AND state = 'queued';
CALL serve('order_floor', 100);
INSERT INTO quota.jobs (tenant, provider, class) SELECT 'order_a', 'order_floor', 'low' FROM generate_series(1, 50);
TRUNCATE served RESTART IDENTITY;
CALL serve('order_floor', 30);
SELECT string_agg(n::text, ' ' ORDER BY n) AS low FROM served WHERE class = 'low';
-- of cost, not of jobs
DELETE FROM quota.jobs WHERE provider = 'order_floor' AND state = 'queued';
INSERT INTO quota.jobs (tenant, provider, class, units)
	SELECT 'order_a', 'order_floor', c, CASE c WHEN 'high' THEN '{"request": 18}' ELSE '{"request": 1}' END::jsonb
	FROM unnest('{high,low}'::text[]) c, generate_series(1, 300);
TRUNCATE served RESTART IDENTITY;
CALL serve('order_floor', 300);
SELECT round(sum(cost) FILTER (WHERE class = 'low') / sum(cost)::numeric, 2) AS low FROM served;
-- a new reserve acts with the next claim, an uncommitted one not at all
BEGIN;
UPDATE quota.classes SET reserve = 0 WHERE class = 'low';
ROLLBACK;
UPDATE quota.classes SET reserve = 0.5 WHERE class = 'low';
TRUNCATE served RESTART IDENTITY;
CALL serve('order_floor', 100);
SELECT round(sum(cost) FILTER (WHERE class = 'low') / sum(cost)::numeric, 1) AS low FROM served;
-- a claim that rolls back counts for nothing: the class gets its part of what stays
UPDATE quota.classes SET reserve = 0.1 WHERE class = 'low';
INSERT INTO quota.jobs (tenant, provider, class)
	SELECT 'order_a', 'order_lost', c FROM unnest('{high,low}'::text[]) c, generate_series(1, 300);
TRUNCATE served RESTART IDENTITY;
DO $$
BEGIN
	FOR i IN 1..200 LOOP
		PERFORM quota_dequeue('order_lost', 3);
		ROLLBACK;
		CALL serve('order_lost', 1);
	END LOOP;
END $$;
SELECT class, count(*) FROM served GROUP BY 1 ORDER BY 1;

-- ---- equal ranks share by cost ----

INSERT INTO quota.jobs (tenant, provider, class, units)
	SELECT 'order_a', 'order_equal', c, CASE c WHEN 'high' THEN '{"request": 3}' ELSE '{"request": 1}' END::jsonb
	FROM unnest('{high,same}'::text[]) c, generate_series(1, 300);
TRUNCATE served RESTART IDENTITY;
CALL serve('order_equal', 200);
SELECT class, sum(cost) FROM served GROUP BY 1 ORDER BY 1;

-- ---- scenario 20: reserve and ageing really fire ----

-- ten jobs a second may run, twelve of a high class arrive
INSERT INTO quota.limits (provider, name, amount, period, burst)
	SELECT p, 'rate', 10, '1 s', 1 FROM unnest('{order_age,order_old}'::text[]) p;
CREATE PROCEDURE flood(provider text, seconds int, low_each interval) LANGUAGE plpgsql AS $$
DECLARE
	steps int := seconds * 10;
	every int := extract(epoch FROM low_each) * 10;
BEGIN
	FOR i IN 1..steps LOOP
		INSERT INTO quota.jobs (tenant, provider, class)
		SELECT 'order_a', provider, 'high' FROM generate_series(1, CASE WHEN i % 5 = 0 THEN 2 ELSE 1 END);
		IF i % every = 0 THEN
			INSERT INTO quota.jobs (tenant, provider, class) VALUES ('order_b', provider, 'low');
		END IF;
		COMMIT;
		PERFORM quota_clock_advance('100 ms');
		CALL serve(provider, 2);
	END LOOP;
END $$;
CREATE VIEW windows AS
	SELECT (n - 1) / 100 AS ten_seconds, count(*), count(*) FILTER (WHERE class = 'low') AS low,
		max(age) FILTER (WHERE class = 'low') AS oldest, min(age) FILTER (WHERE class = 'low') AS youngest
	FROM served GROUP BY 1 ORDER BY 1;

UPDATE quota.classes SET reserve = 0.05, max_wait = '30 s' WHERE class = 'low';
INSERT INTO quota.jobs (tenant, provider, class) SELECT 'order_b', 'order_age', 'low' FROM generate_series(1, 5);
TRUNCATE served RESTART IDENTITY;
CALL flood('order_age', 100, '2 s');
SELECT count(*), count(*) FILTER (WHERE class = 'high') >= 750 AS high_keeps_its_part, min(low), max(low),
	max(oldest) <= '30.1 s' AS in_time FROM windows, LATERAL (SELECT class FROM served WHERE (n - 1) / 100 = ten_seconds) s;

-- without a reserve: a job is served when it has waited 30 seconds, neither before
-- nor more than five dispatches later
UPDATE quota.classes SET reserve = 0 WHERE class = 'low';
DELETE FROM quota.jobs WHERE provider = 'order_age' AND state = 'queued';
TRUNCATE served RESTART IDENTITY;
CALL flood('order_age', 100, '1.7 s');
SELECT count(*), min(age) >= '30 s' AS no_sooner, max(age) <= '30.5 s' AS in_time FROM served WHERE class = 'low';

-- a flood of old work gets one fifth, and its oldest first
DELETE FROM quota.jobs WHERE provider = 'order_age' AND state = 'queued';
INSERT INTO quota.jobs (tenant, provider, class) SELECT 'order_b', 'order_age', 'low' FROM generate_series(1, 300);
TRUNCATE served RESTART IDENTITY;
CALL flood('order_age', 70, '10 s');
SELECT ten_seconds, count, low FROM windows;
-- G7 within the class: tenants take turns, however old their jobs are
INSERT INTO quota.jobs (tenant, provider, class) SELECT 'order_c', 'order_age', 'low' FROM generate_series(1, 30);
TRUNCATE served RESTART IDENTITY;
CALL flood('order_age', 20, '10 s');
SELECT tenant, count(*) FROM served WHERE class = 'low' GROUP BY 1 ORDER BY 1;
-- it has an end with the promise
UPDATE quota.classes SET max_wait = NULL WHERE class = 'low';
TRUNCATE served RESTART IDENTITY;
CALL flood('order_age', 5, '10 s');
SELECT class, count(*) FROM served GROUP BY 1 ORDER BY 1;
DELETE FROM quota.jobs WHERE provider = 'order_age' AND state = 'queued';

-- ---- what counts as old ----

UPDATE quota.classes SET max_wait = '30 s' WHERE class = 'low';
-- the old job is cancelled: the next one is younger and waits
INSERT INTO quota.jobs (tenant, provider, class, payload) VALUES ('order_b', 'order_old', 'low', '"cancelled"');
CALL flood('order_old', 25, '1 h');
INSERT INTO quota.jobs (tenant, provider, class, payload) VALUES ('order_b', 'order_old', 'low', '"next"');
CALL flood('order_old', 4, '1 h');
SELECT quota_cancel(id) FROM quota.jobs WHERE payload = '"cancelled"';
TRUNCATE served RESTART IDENTITY;
CALL flood('order_old', 40, '1 h');
SELECT label, age FROM served WHERE class = 'low';
-- so is one that has been rolled back: as old as before
INSERT INTO quota.jobs (tenant, provider, class, payload) VALUES ('order_b', 'order_old', 'low', '"again"');
CALL flood('order_old', 29, '1 h');
DELETE FROM quota.jobs WHERE provider = 'order_old' AND class = 'high' AND state = 'queued';
SELECT quota_clock_advance('100 ms');
BEGIN;
SELECT payload FROM quota_dequeue('order_old');
ROLLBACK;
TRUNCATE served RESTART IDENTITY;
CALL flood('order_old', 10, '1 h');
SELECT label, age FROM served WHERE class = 'low';
-- a retry is as old as its job
INSERT INTO quota.jobs (tenant, provider, class, payload) VALUES ('order_b', 'order_old', 'low', '"retry"');
DELETE FROM quota.jobs WHERE provider = 'order_old' AND class = 'high' AND state = 'queued';
SELECT quota_clock_advance('1 s');
SELECT payload, quota_fail(id, attempt, 'later', headers => '{"Retry-After": "20"}') FROM quota_dequeue('order_old');
TRUNCATE served RESTART IDENTITY;
CALL flood('order_old', 40, '1 h');
SELECT label, age >= '30 s' AND age <= '31 s' AS in_time FROM served WHERE class = 'low';
-- a scheduled job waits since it was to run
INSERT INTO quota.jobs (tenant, provider, class, payload, run_at)
	SELECT 'order_b', 'order_old', 'low', '"scheduled"', max(at) + interval '20 s' FROM served;
TRUNCATE served RESTART IDENTITY;
CALL flood('order_old', 60, '1 h');
SELECT s.label, s.at - j.run_at BETWEEN '30 s' AND '31 s' AS in_time
FROM served s, quota.jobs j WHERE s.class = 'low' AND j.payload = '"scheduled"';

-- ---- direct calls count ----

INSERT INTO quota.providers (provider, safety) VALUES ('order_direct', 1), ('order_cost', 1);
INSERT INTO quota.limits (provider, name, amount, period, burst) VALUES ('order_direct', 'rate', 1000000, '1 s', 1000000);
INSERT INTO quota.jobs (tenant, provider)
	SELECT t, 'order_direct' FROM unnest('{order_a,order_b,order_c}'::text[]) t, generate_series(1, 1000);
-- sixty direct calls of b, then sixty that are rolled back
CREATE PROCEDURE call_and_serve(lost boolean) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..300 LOOP
		IF i % 5 = 0 THEN
			PERFORM quota_acquire('order_b', 'order_direct');
			IF lost THEN
				ROLLBACK;
			ELSE
				COMMIT;
			END IF;
		END IF;
		CALL serve('order_direct', 1);
	END LOOP;
END $$;
TRUNCATE served RESTART IDENTITY;
CALL call_and_serve(false);
SELECT tenant, count(*) FROM served GROUP BY 1 ORDER BY 1;
TRUNCATE served RESTART IDENTITY;
CALL call_and_serve(true);
SELECT tenant, count(*) FROM served GROUP BY 1 ORDER BY 1;
-- a savepoint too; the calls before it stay
TRUNCATE served RESTART IDENTITY;
DO $$
BEGIN
	FOR i IN 1..300 LOOP
		BEGIN
			PERFORM quota_acquire('order_b', 'order_direct');
			RAISE division_by_zero;
		EXCEPTION WHEN division_by_zero THEN
		END;
		INSERT INTO served (tenant) SELECT tenant FROM quota_dequeue('order_direct');
	END LOOP;
END $$;
SELECT tenant, count(*) FROM served GROUP BY 1 ORDER BY 1;
SELECT count(quota_complete(id, attempt)::text) FROM quota.jobs WHERE provider = 'order_direct' AND state = 'running';
-- a thousand of them are no more than one job: it is served in the second round
SELECT count((quota_acquire('order_b', 'order_direct')).admitted) FROM generate_series(1, 1000);
TRUNCATE served RESTART IDENTITY;
CALL serve('order_direct', 6);
SELECT count(*) FILTER (WHERE tenant = 'order_b') >= 1 AS served FROM served;
-- of another class they are no business of this one
TRUNCATE served RESTART IDENTITY;
DO $$
BEGIN
	FOR i IN 1..300 LOOP
		PERFORM quota_acquire('order_b', 'order_direct', class => 'interactive');
		CALL serve('order_direct', 1);
	END LOOP;
END $$;
SELECT tenant, count(*) FROM served GROUP BY 1 ORDER BY 1;
DROP PROCEDURE call_and_serve;

-- ---- costs known when the job is done ----

-- all are charged 10; those of a cost 30, those of b 5, and so they share
INSERT INTO quota.costs (provider, endpoint, unit, cost) VALUES ('order_cost', NULL, 'request', 10);
INSERT INTO quota.jobs (tenant, provider)
	SELECT t, 'order_cost' FROM unnest('{order_a,order_b}'::text[]) t, generate_series(1, 600);
CREATE PROCEDURE serve_at_cost(claims int, lost boolean = false) LANGUAGE plpgsql AS $$
DECLARE
	c quota_job;
BEGIN
	FOR i IN 1..claims LOOP
		SELECT * INTO c FROM quota_dequeue('order_cost');
		COMMIT;
		IF lost THEN
			PERFORM quota_complete(c.id, c.attempt, units => '{"request": 1000000}');
			ROLLBACK;
			PERFORM quota_complete(c.id, c.attempt);
		ELSE
			PERFORM quota_complete(c.id, c.attempt, units => jsonb_build_object('request', CASE c.tenant WHEN 'order_a' THEN 30 ELSE 5 END));
		END IF;
		INSERT INTO served (tenant, cost) VALUES (c.tenant, CASE c.tenant WHEN 'order_a' THEN 30 ELSE 5 END);
		COMMIT;
	END LOOP;
END $$;
TRUNCATE served RESTART IDENTITY;
CALL serve_at_cost(350);
SELECT tenant, count(*), sum(cost) FROM served GROUP BY 1 ORDER BY 1;
SELECT abs(sum(CASE tenant WHEN 'order_a' THEN cost ELSE -cost END)) <= 35 AS fair FROM served;
-- not before it is committed
TRUNCATE served RESTART IDENTITY;
CALL serve_at_cost(100, true);
SELECT tenant, count(*) BETWEEN 48 AND 52 AS half FROM served GROUP BY 1 ORDER BY 1;
DROP PROCEDURE serve_at_cost;

-- ---- a greater weight makes up for nothing ----

INSERT INTO quota.providers (provider, safety) VALUES ('order_weigh', 1);
INSERT INTO quota.jobs (tenant, provider, units) VALUES ('order_a', 'order_weigh', '{"request": 1000}');
INSERT INTO quota.jobs (tenant, provider) SELECT 'order_a', 'order_weigh' FROM generate_series(1, 100);
INSERT INTO quota.jobs (tenant, provider) SELECT 'order_b', 'order_weigh' FROM generate_series(1, 1000);
CALL serve('order_weigh', 900);
UPDATE quota.tenants SET weight = 2 WHERE tenant = 'order_a';
TRUNCATE served RESTART IDENTITY;
CALL serve('order_weigh', 30);
SELECT tenant, count(*) BETWEEN 9 AND 21 AS by_weight FROM served GROUP BY 1 ORDER BY 1;

SELECT * FROM quota_audit();
DROP VIEW windows;
DROP PROCEDURE serve, flood;
DROP TABLE served;
DELETE FROM quota.jobs WHERE provider LIKE 'order%' AND state IN ('queued', 'scheduled');
DELETE FROM quota.classes WHERE class IN ('high', 'same', 'low', 'lowest');
SELECT quota_clock_set(NULL);
