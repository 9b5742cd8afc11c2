-- Circuit breakers: too many failures stop an endpoint's calls, and probes find out
-- whether it is back.
SET timezone = 'UTC';
SET statement_timeout = '60 s';
SELECT quota_clock_set('2026-05-02 00:00:00+00');

INSERT INTO quota.tiers (tier) VALUES ('brk');
INSERT INTO quota.tenants (tenant, tier) VALUES ('brk_a', 'brk'), ('brk_b', 'brk');
INSERT INTO quota.providers (provider, safety) VALUES ('brk', 1);
INSERT INTO quota.limits (provider, name, amount, period, external)
	VALUES ('brk', 'rate', 1000, '1 s', false);
INSERT INTO quota.breakers (provider, endpoint, min_calls, window_time, open_time, probes, probe_timeout)
	VALUES ('brk', '/chat*', 4, '10 s', '5 s', 2, '30 s');

CREATE FUNCTION brk_ask(tenant text, endpoint text = '/chat', n int = 1,
	OUT granted int, OUT reason text, OUT limit_name text, OUT not_before timestamptz, OUT remaining bigint)
LANGUAGE sql AS $$
	SELECT granted, reason, limit_name, not_before, remaining
	FROM quota_acquire(brk_ask.tenant, 'brk', brk_ask.endpoint, n => brk_ask.n) $$;
-- n answers of this status
CREATE FUNCTION brk_ends(status int, n int = 1, latency interval = NULL, endpoint text = '/chat') RETURNS text
LANGUAGE sql AS $$
	SELECT max(quota_report('brk', brk_ends.status, 'brk_a', brk_ends.endpoint, latency => brk_ends.latency))
	FROM generate_series(1, brk_ends.n) $$;
CREATE VIEW brk_state AS
	SELECT breaker, state, since, open_until, probing, calls, failures, admitted, refused
	FROM quota.stat_breakers WHERE provider = 'brk' ORDER BY 1;
-- the background worker writes them
CREATE PROCEDURE brk_events(n int) LANGUAGE plpgsql AS $$
DECLARE
	e record;
BEGIN
	WHILE (SELECT count(*) FROM quota.events WHERE provider = 'brk' AND kind LIKE 'breaker%') < n LOOP
		PERFORM pg_sleep(0.05);
		COMMIT;
	END LOOP;
	FOR e IN SELECT * FROM quota.events WHERE provider = 'brk' AND kind LIKE 'breaker%' ORDER BY id LOOP
		RAISE NOTICE '% %: %', e.at, e.kind, e.detail;
	END LOOP;
END $$;

-- closed: failures below the ratio, or of another endpoint, don't open it; what the
-- provider rejects or limits is no failure
SELECT * FROM brk_ask('brk_a');
SELECT brk_ends(200), brk_ends(400, 3), brk_ends(500, 3);
SELECT brk_ends(500, 9, endpoint => '/other'), brk_ends(429, 9, endpoint => '/chat/limited');
SELECT * FROM brk_state;
SELECT * FROM brk_ask('brk_a');
-- at the ratio it opens, for all tenants and that dependency only
BEGIN;
SELECT brk_ends(500);
ROLLBACK;
SELECT * FROM brk_state;
SELECT * FROM brk_ask('brk_a');
SELECT * FROM brk_ask('brk_b', '/chat/7');
SELECT * FROM brk_ask('brk_b', '/other');
SELECT * FROM brk_ask('brk_b', NULL);
SELECT exhausted FROM quota_acquire('brk_a', 'brk', '/chat');
SELECT limit_name, kind, bucket, level, capacity, admits, reason, not_before, explanation
FROM quota_explain('brk_a', 'brk', '/chat') ORDER BY 1;
-- a refusal has taken nothing
SELECT used FROM quota.stat_buckets WHERE provider = 'brk' AND limit_name = 'rate';

-- half open: as many probes as it says
SELECT quota_clock_advance('4.999999 s');
SELECT reason FROM brk_ask('brk_a');
SELECT quota_clock_advance('1 us');
SELECT * FROM quota_peek('brk_a', 'brk', '/chat', n => 3, partial => true);
SELECT * FROM brk_ask('brk_a', n => 3);
BEGIN;
SELECT * FROM brk_ask('brk_b');
SAVEPOINT s;
SELECT * FROM brk_ask('brk_b');
SELECT * FROM brk_ask('brk_b');
SELECT * FROM brk_state;
-- a probe that rolls back was never sent
ROLLBACK TO s;
SELECT * FROM brk_ask('brk_b');
ROLLBACK;
SELECT * FROM brk_ask('brk_a');
SELECT * FROM brk_ask('brk_a');
SELECT * FROM brk_ask('brk_a');
-- late answers of calls from before say nothing
SELECT brk_ends(500, 9, '1 s');
SELECT * FROM brk_state;
-- a failure of two opens it again
SELECT quota_clock_advance('1 s');
SELECT brk_ends(500, 1, '1 s');
SELECT * FROM brk_state;
SELECT * FROM brk_ask('brk_a');

-- probes of which nobody reports are given back
SELECT quota_clock_advance('5 s');
SELECT reason FROM brk_ask('brk_a', n => 2);
SELECT reason, not_before FROM brk_ask('brk_a');
SELECT quota_clock_advance('30 s');
SELECT * FROM brk_ask('brk_a', n => 2);
-- and when all succeed it is closed
SELECT brk_ends(200);
SELECT * FROM brk_ask('brk_a');
SELECT * FROM brk_state;
SELECT brk_ends(200);
SELECT * FROM brk_state;
SELECT * FROM brk_ask('brk_a', n => 100);
CALL brk_events(5);

-- its row may change at any time
SELECT brk_ends(500, 4);
SELECT state FROM brk_state;
UPDATE quota.breakers SET open_time = '1 s' WHERE provider = 'brk';
SELECT reason, not_before FROM brk_ask('brk_a');
BEGIN;
DELETE FROM quota.breakers WHERE provider = 'brk';
SELECT brk_ends(200);
ROLLBACK;
SELECT reason FROM brk_ask('brk_a');
DELETE FROM quota.breakers WHERE provider = 'brk';
SELECT reason FROM brk_ask('brk_a');
\set VERBOSITY terse
INSERT INTO quota.breakers (provider, failure_ratio) VALUES ('brk', 0);
INSERT INTO quota.breakers (provider, probes) VALUES ('brk', 11);
INSERT INTO quota.breakers (provider, window_calls) VALUES ('brk', 19);
INSERT INTO quota.breakers (provider, endpoint) VALUES ('brk', ''), ('brk', repeat('x', 120));
INSERT INTO quota.breakers (provider) VALUES ('brk'), ('brk');
\set VERBOSITY default

-- jobs: the provider's own breaker stops all of them, an endpoint's its own; probes go
-- by the order of jobs
INSERT INTO quota.providers (provider, safety) VALUES ('brk_jobs', 1);
INSERT INTO quota.breakers (provider, endpoint, min_calls, open_time, probes) VALUES
	('brk_jobs', '/sick', 2, '10 s', 1);
INSERT INTO quota.jobs (tenant, provider, endpoint, payload)
	SELECT t, 'brk_jobs', e, to_jsonb(t || e || n)
	FROM unnest('{brk_a,brk_b}'::text[]) t, unnest('{/sick,/well}'::text[]) e, generate_series(1, 3) n;
CREATE FUNCTION brk_claim(jobs int = 1) RETURNS TABLE (job text) LANGUAGE sql AS
$$ SELECT payload #>> '{}' FROM quota_dequeue('brk_jobs', jobs) $$;
CREATE VIEW brk_flows AS
	SELECT tenant, endpoint, state, reason, wake_at, depth FROM quota.stat_flows
	WHERE provider = 'brk_jobs' ORDER BY 1, 2;
SELECT quota_report('brk_jobs', 500, 'brk_a', '/sick'), quota_report('brk_jobs', 500, 'brk_b', '/sick');
SELECT * FROM brk_claim(3);
SELECT * FROM brk_claim(10);
SELECT * FROM brk_flows;
SELECT quota_clock_advance('10 s');
SELECT * FROM brk_claim(10);
SELECT * FROM brk_claim(10);
SELECT * FROM brk_flows;
-- the probe succeeds: all may go
SELECT quota_report('brk_jobs', 200, 'brk_a', '/sick');
SELECT * FROM brk_claim(1);
SELECT quota_report('brk_jobs', 500, 'brk_a', '/sick'), quota_report('brk_jobs', 500, 'brk_b', '/sick');
SELECT * FROM brk_claim(10);
UPDATE quota.breakers SET endpoint = NULL WHERE provider = 'brk_jobs';
INSERT INTO quota.jobs (tenant, provider, endpoint, payload)
	SELECT 'brk_b', 'brk_jobs', e, to_jsonb(e || ' again') FROM unnest('{/sick,/well}'::text[]) e;
SELECT quota_report('brk_jobs', 500, 'brk_a'), quota_report('brk_jobs', 500, 'brk_b', '/well');
SELECT * FROM brk_claim(10);
SELECT * FROM quota_next_at('brk_jobs');
SELECT quota_clock_advance('9.9 s');
SELECT * FROM brk_claim(10);
SELECT quota_clock_advance('0.1 s');
SELECT count(*) FROM brk_claim(10);
SELECT count(*) FROM brk_claim(10);
SELECT quota_report('brk_jobs', 200);
SELECT count(*) > 0 FROM brk_claim(10);
SELECT quota_clock_set(NULL);
