-- Limits that several tenants share and not every call meets: who waits for one
-- stands in line, and one at a time may try (flow_gate.c, flow_line.c).
SET timezone = 'UTC';
SET statement_timeout = '60 s';
SELECT quota_clock_set('2026-04-01 00:00:00+00');

INSERT INTO quota.tiers (tier) VALUES ('gates');
INSERT INTO quota.tenants (tenant, tier) SELECT 'gates_' || n, 'gates' FROM generate_series(1, 2000) n;
INSERT INTO quota.providers (provider, safety) VALUES ('gates', 1);
INSERT INTO quota.limits (provider, name, endpoint, amount, period, burst, external)
	VALUES ('gates', 'search', '/search', 1, '1 s', 1, false);
CREATE FUNCTION gates_refusals() RETURNS bigint LANGUAGE sql AS
$$ SELECT sum(refused)::bigint FROM quota.stat_tenants WHERE provider = 'gates' $$;
CREATE FUNCTION gates_claim(jobs int = 1) RETURNS TABLE (tenant text, endpoint text, job jsonb) LANGUAGE sql AS
$$ SELECT tenant, endpoint, payload FROM quota_dequeue('gates', jobs, lease => '1 day') $$;
CREATE PROCEDURE gates_finish() LANGUAGE plpgsql AS $$
BEGIN
	PERFORM quota_complete(id, attempt) FROM quota.jobs WHERE provider = 'gates' AND state = 'running';
	PERFORM quota_cancel(id) FROM quota.jobs WHERE provider = 'gates' AND state IN ('queued', 'scheduled');
END $$;
-- asks once a second, n times; what was claimed, and the most refusals of one time
CREATE FUNCTION gates_run(n int, OUT claimed bigint, OUT tenants bigint, OUT most_refusals bigint)
LANGUAGE plpgsql AS $$
DECLARE
	before bigint;
	got text[] = '{}';
BEGIN
	most_refusals = 0;
	FOR i IN 1 .. n LOOP
		PERFORM quota_clock_advance('1 s');
		before = gates_refusals();
		got = got || ARRAY(SELECT c.tenant FROM gates_claim(5) c);
		most_refusals = greatest(most_refusals, gates_refusals() - before);
	END LOOP;
	claimed = cardinality(got);
	tenants = count(DISTINCT t) FROM unnest(got) t;
END $$;

-- 2,000 tenants behind one endpoint limit: each is refused once, then a token costs
-- a few refusals, whoever waits
INSERT INTO quota.jobs (tenant, provider, endpoint, class)
	SELECT 'gates_' || n, 'gates', '/search', 'batch' FROM generate_series(1, 2000) n, generate_series(1, 2);
SELECT count(*) FROM gates_claim(5);
SELECT gates_refusals() BETWEEN 2000 AND 2010 AS once_each;
SELECT * FROM gates_run(20);
-- a wait that nobody asks in is one token of burst, and nobody is lost
SELECT quota_clock_advance('1 min');
SELECT * FROM gates_run(20);
CALL gates_finish();

-- weights hold in the line, also while other work makes the time of the class fast;
-- and endpoints do not multiply a tenant's share
INSERT INTO quota.tenants (tenant, tier, weight) VALUES
	('gates_w1', 'gates', 1), ('gates_w2', 'gates', 2), ('gates_w3', 'gates', 3), ('gates_many', 'gates', 3), ('gates_free', 'gates', 1);
UPDATE quota.limits SET endpoint = '/search*' WHERE provider = 'gates';
INSERT INTO quota.jobs (tenant, provider, endpoint)
	SELECT w, 'gates', '/search' FROM unnest('{gates_w1,gates_w2,gates_w3}'::text[]) w, generate_series(1, 60);
INSERT INTO quota.jobs (tenant, provider, endpoint)
	SELECT 'gates_many', 'gates', '/search/' || n % 10 FROM generate_series(1, 60) n;
CREATE FUNCTION gates_shares(n int) RETURNS TABLE (tenant text, jobs bigint) LANGUAGE plpgsql AS $$
DECLARE
	got text[] = '{}';
BEGIN
	FOR i IN 1 .. n LOOP
		PERFORM quota_clock_advance('1 s');
		INSERT INTO quota.jobs (tenant, provider, endpoint) SELECT 'gates_free', 'gates', '/free' FROM generate_series(1, 20);
		got = got || ARRAY(SELECT c.tenant FROM gates_claim(25) c WHERE c.endpoint <> '/free');
	END LOOP;
	RETURN QUERY SELECT t, count(*) FROM unnest(got) t GROUP BY 1 ORDER BY 1;
END $$;
SELECT * FROM gates_claim(1);
SELECT * FROM gates_shares(45);
-- a new weight acts at once, on those that wait
UPDATE quota.tenants SET weight = 12 WHERE tenant = 'gates_w1';
SELECT * FROM gates_shares(40);
CALL gates_finish();

-- and reprices what the tenant was served there already
UPDATE quota.providers SET share_unit = 'token' WHERE provider = 'gates';
INSERT INTO quota.jobs (tenant, provider, endpoint, units)
	SELECT 'gates_' || 10 + n % 2, 'gates', '/search', jsonb_build_object('token', CASE n WHEN 2 THEN 1000 ELSE 1 END)
	FROM generate_series(1, 60) n;
CREATE FUNCTION gates_order(n int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	got text = '';
BEGIN
	FOR i IN 1 .. n LOOP
		PERFORM quota_clock_advance('1 s');
		got = got || (SELECT ' ' || substr(tenant, 7) FROM gates_claim(2));
	END LOOP;
	RETURN got;
END $$;
SELECT gates_order(8);
UPDATE quota.tenants SET weight = 1000 WHERE tenant = 'gates_10';
SELECT gates_order(8);
UPDATE quota.providers SET share_unit = 'request' WHERE provider = 'gates';
CALL gates_finish();

-- a claim that is rolled back has not served its tenant, in the line either
INSERT INTO quota.jobs (tenant, provider, endpoint)
	SELECT 'gates_' || 20 + n % 2, 'gates', '/search' FROM generate_series(1, 60) n;
SELECT gates_order(6);
BEGIN;
SELECT gates_order(1);
ROLLBACK;
BEGIN;
SELECT gates_order(1);
ROLLBACK;
BEGIN;
SELECT gates_order(1);
ROLLBACK;
BEGIN;
SELECT gates_order(1);
ROLLBACK;
SELECT gates_order(4);
CALL gates_finish();

-- a dear job waits for its units, and cheaper ones that come later do not take them;
-- one that costs more than there can be is in nobody's way
INSERT INTO quota.costs (provider, endpoint, unit, cost) VALUES
	('gates', '/search/dear', 'request', 5), ('gates', '/search/never', 'request', 9);
UPDATE quota.limits SET burst = 8 WHERE provider = 'gates';
SELECT quota_clock_advance('1 min');
INSERT INTO quota.jobs (tenant, provider, endpoint) SELECT 'gates_1', 'gates', '/search' FROM generate_series(1, 7);
SELECT count(*) FROM gates_claim(7);
INSERT INTO quota.jobs (tenant, provider, endpoint) VALUES
	('gates_2', 'gates', '/search/never'), ('gates_3', 'gates', '/search/dear'), ('gates_4', 'gates', '/search');
-- gates_3 is first by name, costs 5, and 1 is there
SELECT * FROM gates_claim(3);
INSERT INTO quota.jobs (tenant, provider, endpoint) VALUES ('gates_5', 'gates', '/search');
SELECT tenant, state, reason, wake_at FROM quota.stat_flows
	WHERE provider = 'gates' AND depth > 0 ORDER BY tenant;
SELECT quota_clock_advance('3 s');
SELECT * FROM gates_claim(3);
-- interactive work goes before it, though
INSERT INTO quota.jobs (tenant, provider, endpoint, class) VALUES ('gates_6', 'gates', '/search', 'interactive');
SELECT * FROM gates_claim(3);
SELECT quota_clock_advance('2 s');
SELECT * FROM gates_claim(3);
SELECT quota_clock_advance('2 s');
SELECT * FROM gates_claim(3);
-- when it is cancelled the next one need not wait for its units
INSERT INTO quota.jobs (tenant, provider, endpoint) VALUES ('gates_7', 'gates', '/search/dear');
SELECT quota_clock_advance('2 s');
SELECT * FROM gates_claim(3);
INSERT INTO quota.jobs (tenant, provider, endpoint) VALUES ('gates_8', 'gates', '/search');
SELECT * FROM gates_claim(3);
SELECT quota_cancel(id) FROM quota.jobs WHERE tenant = 'gates_7' AND state = 'queued';
SELECT * FROM gates_claim(3);
DELETE FROM quota.costs WHERE provider = 'gates';
CALL gates_finish();

-- nor does one of another line take what a dear one waits for, where they meet
INSERT INTO quota.costs (provider, endpoint, unit, cost) VALUES ('gates', '/search/dear', 'request', 5);
INSERT INTO quota.limits (provider, name, endpoint, amount, period, external)
	VALUES ('gates', 'dear too', '/search/dear', 1000, '1 s', false);
SELECT quota_clock_advance('1 min');
INSERT INTO quota.jobs (tenant, provider, endpoint) SELECT 'gates_30', 'gates', '/search' FROM generate_series(1, 7);
SELECT count(*) FROM gates_claim(7);
INSERT INTO quota.jobs (tenant, provider, endpoint) VALUES ('gates_31', 'gates', '/search/dear');
SELECT * FROM gates_claim(3);
INSERT INTO quota.jobs (tenant, provider, endpoint) VALUES ('gates_32', 'gates', '/search');
SELECT * FROM gates_claim(3);
SELECT quota_clock_advance('2 s');
SELECT * FROM gates_claim(3);
SELECT quota_clock_advance('2 s');
SELECT * FROM gates_claim(3);
SELECT quota_clock_advance('1 s');
SELECT * FROM gates_claim(3);
DELETE FROM quota.costs WHERE provider = 'gates';
DELETE FROM quota.limits WHERE provider = 'gates' AND name = 'dear too';
CALL gates_finish();

-- the same flows behind two limits, a rate and what may be in flight: they do not
-- wander from one to the other
UPDATE quota.limits SET burst = 1, amount = 2 WHERE provider = 'gates';
INSERT INTO quota.limits (provider, name, endpoint, kind, amount) VALUES ('gates', 'flights', '/search*', 'concurrency', 5);
INSERT INTO quota.jobs (tenant, provider, endpoint, class)
	SELECT 'gates_' || n, 'gates', '/search', 'batch' FROM generate_series(1, 500) n, generate_series(1, 2);
CREATE PROCEDURE gates_two_limits(n int, INOUT claimed bigint = 0, INOUT most_refusals bigint = 0)
LANGUAGE plpgsql AS $$
DECLARE
	before bigint;
BEGIN
	FOR i IN 1 .. n LOOP
		PERFORM quota_clock_advance('500 ms');
		-- now the one, now the other is short
		IF i % 20 >= 10 THEN
			PERFORM quota_complete(id, attempt) FROM quota.jobs WHERE provider = 'gates' AND state = 'running';
			COMMIT;
		END IF;
		before = gates_refusals();
		claimed = claimed + count(*) FROM gates_claim(5);
		most_refusals = greatest(most_refusals, gates_refusals() - before);
		COMMIT;
	END LOOP;
END $$;
SELECT count(*) FROM gates_claim(5);
CALL gates_two_limits(60);
CALL gates_finish();
DELETE FROM quota.limits WHERE provider = 'gates' AND name = 'flights';

-- who comes back by a rollback, and an event on the limit
UPDATE quota.limits SET kind = 'concurrency', amount = 1, period = NULL, burst = NULL WHERE provider = 'gates';
INSERT INTO quota.jobs (tenant, provider, endpoint) SELECT 'gates_' || n, 'gates', '/search' FROM generate_series(1, 3) n;
BEGIN;
SELECT * FROM gates_claim(3);
SAVEPOINT s;
SELECT quota_complete(id, attempt) FROM quota.jobs WHERE provider = 'gates' AND state = 'running';
SELECT * FROM gates_claim(3);
ROLLBACK;
SELECT * FROM gates_claim(3);
SELECT quota_complete(id, attempt) FROM quota.jobs WHERE provider = 'gates' AND state = 'running';
SELECT * FROM gates_claim(3);
SELECT count(quota_fail(id, attempt, 'no')) FROM quota.jobs WHERE provider = 'gates' AND state = 'running';
SELECT * FROM gates_claim(3);
SELECT quota_clock_advance('21 h');
SELECT count(*) FROM gates_claim(3);
CALL gates_finish();
DELETE FROM quota.limits WHERE provider = 'gates';

-- head-of-line freedom: a tenant's thousand limited endpoints do not hold up its others
INSERT INTO quota.limits (provider, name, endpoint, per, amount, period, external)
	VALUES ('gates', 'each', '/each/*', '{endpoint}', 1, '1 h', false);
INSERT INTO quota.jobs (tenant, provider, endpoint)
	SELECT 'gates_1', 'gates', '/each/' || n FROM generate_series(1, 1000) n, generate_series(1, 3);
SELECT count(*) FROM gates_claim(1000);
INSERT INTO quota.jobs (tenant, provider, endpoint) VALUES ('gates_1', 'gates', '/other');
SELECT * FROM gates_claim(5);
SELECT gates_refusals() AS before \gset
INSERT INTO quota.jobs (tenant, provider, endpoint) SELECT 'gates_1', 'gates', '/other' FROM generate_series(1, 100);
SELECT count(*) FROM gates_claim(100);
SELECT gates_refusals() - :before AS refusals;
-- and each opens by itself
SELECT quota_clock_advance('30 min');
SELECT count(*) FROM gates_claim(5);
SELECT quota_clock_advance('30 min');
SELECT count(*) FROM gates_claim(1000);
CALL gates_finish();
DELETE FROM quota.limits WHERE provider = 'gates';

-- scenario 7: a suspended tenant with a large backlog costs others nothing, and comes
-- back with a lead of one job at most
INSERT INTO quota.limits (provider, name, amount, period, burst, external) VALUES ('gates', 'all', 1000, '1 s', 1000, false);
INSERT INTO quota.jobs (tenant, provider, endpoint)
	SELECT 'gates_1', 'gates', '/e' || n % 50 FROM generate_series(1, 5000) n;
UPDATE quota.tenants SET suspended = true WHERE tenant = 'gates_1';
INSERT INTO quota.jobs (tenant, provider, endpoint) SELECT 'gates_2', 'gates', '/e' FROM generate_series(1, 500);
INSERT INTO quota.jobs (tenant, provider, endpoint) SELECT 'gates_3', 'gates', '/e' FROM generate_series(1, 500);
SELECT tenant, count(*) FROM gates_claim(100) GROUP BY 1 ORDER BY 1;
SELECT gates_refusals() AS before \gset
SELECT tenant, count(*) FROM gates_claim(300) GROUP BY 1 ORDER BY 1;
SELECT gates_refusals() - :before AS refusals;
UPDATE quota.tenants SET suspended = false WHERE tenant = 'gates_1';
SELECT string_agg(substr(tenant, 7), '') FROM gates_claim(12);
CALL gates_finish();
DELETE FROM quota.limits WHERE provider = 'gates';

-- scenario 8, as far as there are no pauses yet: everybody is stopped by an amount of
-- 0, and goes on with the first claim after it is back
INSERT INTO quota.limits (provider, name, endpoint, amount, period, burst, external)
	VALUES ('gates', 'search', '/search', 0, '1 s', NULL, false);
INSERT INTO quota.jobs (tenant, provider, endpoint)
	SELECT 'gates_' || n, 'gates', '/search' FROM generate_series(1, 100) n;
SELECT count(*) FROM gates_claim(100);
SELECT quota_clock_advance('1 h');
SELECT count(*) FROM gates_claim(100);
UPDATE quota.limits SET amount = 60, burst = 60 WHERE provider = 'gates';
SELECT quota_clock_advance('1 s');
SELECT count(*) FROM gates_claim(100);
SELECT quota_clock_advance('1 s');
SELECT count(*) FROM gates_claim(100);
CALL gates_finish();
DELETE FROM quota.limits WHERE provider = 'gates';

-- limits by what a job names: user, connection, resource
INSERT INTO quota.limits (provider, name, per, amount, period, burst, external) VALUES
	('gates', 'each user', '{user}', 1, '1 min', 1, false),
	('gates', 'each resource', '{resource,tenant}', 2, '1 min', 2, false);
INSERT INTO quota.jobs (tenant, provider, endpoint, payload, "user", resource) VALUES
	('gates_1', 'gates', 'a', '"ann 1"', 'ann', NULL),
	('gates_2', 'gates', 'a', '"ann 2"', 'ann', NULL),
	('gates_3', 'gates', 'a', '"bob"', 'bob', 'sheet'),
	('gates_4', 'gates', 'a', '"nobody"', NULL, NULL),
	('gates_5', 'gates', 'a', '"sheet 1"', NULL, 'sheet'),
	('gates_5', 'gates', 'a', '"sheet 2"', NULL, 'sheet'),
	('gates_5', 'gates', 'a', '"sheet 3"', NULL, 'sheet'),
	('gates_5', 'gates', 'b', '"other"', NULL, 'other');
SELECT tenant, payload, "user", resource FROM quota_dequeue('gates', 10, lease => '1 day');
SELECT limit_name, bucket, used, refused FROM quota.stat_buckets
	WHERE provider = 'gates' AND limit_name LIKE 'each %' AND refused > 0 ORDER BY limit_name;
SELECT quota_clock_advance('1 min');
SELECT tenant, payload, "user", resource FROM quota_dequeue('gates', 10, lease => '1 day');
CALL gates_finish();
DELETE FROM quota.limits WHERE provider = 'gates';

-- two limits, of which each job meets both, but the cost map one: two tenants do not
-- let each other go first for ever
INSERT INTO quota.limits (provider, name, endpoint, per, kind, amount) VALUES
	('gates', 'flights', 'a', '{}', 'concurrency', 2),
	('gates', 'each user', NULL, '{user}', 'concurrency', 1);
INSERT INTO quota.jobs (tenant, provider, endpoint, payload) SELECT 'gates_1', 'gates', 'a', to_jsonb(i) FROM generate_series(1, 3) i;
SELECT * FROM gates_claim(10);
CALL gates_finish();
INSERT INTO quota.jobs (tenant, provider, endpoint, payload, "user") VALUES ('gates_2', 'gates', 'a', '"ann 1"', 'ann');
SELECT * FROM gates_claim(10);
INSERT INTO quota.jobs (tenant, provider, endpoint, payload, "user") VALUES ('gates_3', 'gates', 'a', '"ann 2"', 'ann'), ('gates_4', 'gates', 'a', '"ann 3"', 'ann');
SELECT * FROM gates_claim(10);
SELECT quota_complete(id, attempt) FROM quota.jobs WHERE provider = 'gates' AND state = 'running';
SELECT * FROM gates_claim(10);
SELECT quota_complete(id, attempt) FROM quota.jobs WHERE provider = 'gates' AND state = 'running';
SELECT * FROM gates_claim(10);
CALL gates_finish();
DELETE FROM quota.limits WHERE provider = 'gates';
