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
CREATE FUNCTION refusals() RETURNS bigint LANGUAGE sql AS
$$ SELECT sum(refused)::bigint FROM quota.stat_tenants WHERE provider = 'gates' $$;
CREATE FUNCTION claim(jobs int = 1) RETURNS TABLE (tenant text, endpoint text, job jsonb) LANGUAGE sql AS
$$ SELECT tenant, endpoint, payload FROM quota_dequeue('gates', jobs, lease => '1 day') $$;
CREATE PROCEDURE finish() LANGUAGE plpgsql AS $$
BEGIN
	PERFORM quota_complete(id, attempt) FROM quota.jobs WHERE provider = 'gates' AND state = 'running';
	PERFORM quota_cancel(id) FROM quota.jobs WHERE provider = 'gates' AND state IN ('queued', 'scheduled');
END $$;
-- asks once a second, n times; what was claimed, and the most refusals of one time
CREATE FUNCTION run(n int, OUT claimed bigint, OUT tenants bigint, OUT most_refusals bigint)
LANGUAGE plpgsql AS $$
DECLARE
	before bigint;
	got text[] = '{}';
BEGIN
	most_refusals = 0;
	FOR i IN 1 .. n LOOP
		PERFORM quota_clock_advance('1 s');
		before = refusals();
		got = got || ARRAY(SELECT c.tenant FROM claim(5) c);
		most_refusals = greatest(most_refusals, refusals() - before);
	END LOOP;
	claimed = cardinality(got);
	tenants = count(DISTINCT t) FROM unnest(got) t;
END $$;

-- 2,000 tenants behind one endpoint limit: each is refused once, then a token costs
-- a few refusals, whoever waits
INSERT INTO quota.jobs (tenant, provider, endpoint, class)
	SELECT 'gates_' || n, 'gates', '/search', 'batch' FROM generate_series(1, 2000) n, generate_series(1, 2);
SELECT count(*) FROM claim(5);
SELECT refusals() BETWEEN 2000 AND 2010 AS once_each;
SELECT * FROM run(20);
-- a wait that nobody asks in is one token of burst, and nobody is lost
SELECT quota_clock_advance('1 min');
SELECT * FROM run(20);
CALL finish();
