-- One call for many jobs claims what as many calls for one job would, in each flow in
-- their order, whatever it has read of a flow before it comes to it again. (What other sessions do
-- meanwhile: test/specs/queue_ahead.spec.)
SET timezone = 'UTC';
SELECT quota_clock_set('2026-01-01 00:00:00+00');
SELECT setseed(0.7);

INSERT INTO quota.tiers (tier) VALUES ('ahead');
INSERT INTO quota.tenants (tenant, tier) SELECT 'ahead_' || i, 'ahead' FROM generate_series(1, 100) i;
INSERT INTO quota.providers (provider) VALUES ('ahead_two'), ('ahead_many'), ('ahead_mixed'), ('ahead_own'), ('ahead_other');
-- flow by flow, the jobs in the order of their claims
CREATE FUNCTION ahead_by_flow(claimed bigint[]) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(jobs, '; ' ORDER BY flow) FROM (
		SELECT flow, string_agg(payload::text, ' ' ORDER BY n) AS jobs
		FROM unnest(claimed) WITH ORDINALITY c (id, n) JOIN quota.jobs USING (id) GROUP BY flow) f
$$;
-- what that many calls for one job claim, or one for all; it is given back
CREATE FUNCTION ahead_claims(p text, n int, at_once boolean) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	claimed bigint[] := '{}';
	one bigint;
BEGIN
	IF at_once THEN
		claimed := ARRAY(SELECT id FROM quota_dequeue(p, n));
	ELSE
		FOR i IN 1..n LOOP
			SELECT id INTO one FROM quota_dequeue(p);
			EXIT WHEN one IS NULL;
			claimed := claimed || one;
		END LOOP;
	END IF;
	RAISE EXCEPTION USING MESSAGE = 'back', DETAIL = ahead_by_flow(claimed);
EXCEPTION WHEN raise_exception THEN
	GET STACKED DIAGNOSTICS p = PG_EXCEPTION_DETAIL;
	RETURN p;
END $$;

-- retries go first, and the head that was read with them is still there
INSERT INTO quota.jobs (tenant, provider, payload) SELECT 'ahead_1', 'ahead_two', to_jsonb(i) FROM generate_series(1, 2) i;
SELECT count(*) FROM quota_dequeue('ahead_two', 2);
SELECT quota_fail(id, attempt, 'again') FROM quota.jobs WHERE provider = 'ahead_two' AND payload = '1';
SELECT quota_clock_advance('20 s');
SELECT quota_fail(id, attempt, 'again') FROM quota.jobs WHERE provider = 'ahead_two' AND payload = '2';
SELECT quota_clock_advance('1 h');
INSERT INTO quota.jobs (tenant, provider, payload) SELECT 'ahead_1', 'ahead_two', to_jsonb(i) FROM generate_series(3, 9) i;
SELECT ahead_claims('ahead_two', 8, true), ahead_claims('ahead_two', 8, false);
SELECT payload FROM quota_dequeue('ahead_two', 5);
SELECT payload FROM quota_dequeue('ahead_two', 5);

-- more flows than a call keeps lists of, and more jobs than a list has
INSERT INTO quota.jobs (tenant, provider, payload) SELECT 'ahead_' || 1 + i % 100, 'ahead_many', to_jsonb(i) FROM generate_series(1, 700) i;
INSERT INTO quota.jobs (tenant, provider, payload) SELECT 'ahead_7', 'ahead_many', to_jsonb(i) FROM generate_series(701, 820) i;
SELECT ahead_claims('ahead_many', 1000, true) = ahead_claims('ahead_many', 1000, false) AS same,
	array_length(string_to_array(ahead_claims('ahead_many', 1000, true), ' '), 1) AS many;

-- of all kinds: retries, late ones, costs and endpoints of their own, cancelled, changed
CREATE PROCEDURE ahead_mix(step int) LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO quota.jobs (tenant, provider, endpoint, class, payload, units, start_before)
	SELECT 'ahead_' || 1 + floor(random() * 5), 'ahead_mixed', CASE WHEN random() < 0.3 THEN 'x' END,
		CASE WHEN random() < 0.2 THEN 'interactive' END, to_jsonb(step * 1000 + i),
		CASE WHEN random() < 0.2 THEN '{"request": 3}'::jsonb END,
		CASE WHEN random() < 0.1 THEN '2026-01-01 01:00:10+00'::timestamptz + step * interval '20 s' END
	FROM generate_series(1, 60) i;
	PERFORM quota_cancel(id) FROM quota.jobs WHERE provider = 'ahead_mixed' AND state = 'queued' AND random() < 0.05;
	UPDATE quota.jobs SET payload = to_jsonb(payload::text::int + 500)
		WHERE provider = 'ahead_mixed' AND state = 'queued' AND payload::text::int % 1000 < 500 AND random() < 0.1;
	COMMIT;
	-- some are claimed, and come back
	PERFORM CASE WHEN random() < 0.5 THEN quota_fail(id, attempt, 'again')::text
		WHEN random() < 0.5 THEN quota_complete(id, attempt)::text END
		FROM quota_dequeue('ahead_mixed', 15);
	PERFORM quota_clock_advance('20 s');
END $$;
CREATE TABLE ahead_seen (step int, singly text, at_once text);
CREATE PROCEDURE ahead_compare(steps int) LANGUAGE plpgsql AS $$
BEGIN
	FOR step IN 1..steps LOOP
		CALL ahead_mix(step);
		COMMIT;
		INSERT INTO ahead_seen VALUES (step, ahead_claims('ahead_mixed', 1000, false), ahead_claims('ahead_mixed', 1000, true));
		COMMIT;
	END LOOP;
END $$;
CALL ahead_compare(12);
SELECT step FROM ahead_seen WHERE singly IS DISTINCT FROM at_once;
SELECT count(*), min(array_length(string_to_array(at_once, ' '), 1)) > 30 AS many FROM ahead_seen;

-- rows that the same transaction wrote are its own until it commits
BEGIN;
INSERT INTO quota.jobs (tenant, provider, payload) SELECT 'ahead_1', 'ahead_own', to_jsonb(i) FROM generate_series(1, 4) i;
SELECT payload FROM quota_dequeue('ahead_own', 5);
COMMIT;
BEGIN;
SAVEPOINT a;
SELECT string_agg(payload::text, ' ') FROM quota_dequeue('ahead_own', 3);
ROLLBACK TO a;
UPDATE quota.jobs SET payload = '22' WHERE provider = 'ahead_own' AND payload = '2';
SELECT string_agg(payload::text, ' ') FROM quota_dequeue('ahead_own', 2);
COMMIT;
-- several providers in one call, whose flows are searched in turn
INSERT INTO quota.jobs (tenant, provider, payload) SELECT 'ahead_2', 'ahead_other', to_jsonb(i) FROM generate_series(11, 14) i;
SELECT string_agg(payload::text, ' ') FROM quota_dequeue('{ahead_own,ahead_other}'::text[], 8);
