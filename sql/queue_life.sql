-- Lives of jobs: how often and when they are tried, what happened to them, when
-- they are too late, cancelled, wanted again.
SET timezone = 'UTC';
SET statement_timeout = '60 s';
SELECT quota_clock_set('2026-05-01 00:00:00+00');

INSERT INTO quota.tiers (tier) VALUES ('ql');
INSERT INTO quota.tenants (tenant, tier) VALUES ('ql_a', 'ql'), ('ql_b', 'ql');
INSERT INTO quota.providers (provider, safety, max_attempts, retry_base, retry_max)
	VALUES ('ql', 1, 4, '2 s', '10 s');
INSERT INTO quota.classes (class, rank, max_attempts, retry_base, retry_max, start_within) VALUES
	('ql_own', 5, 2, '8 s', '30 s', '10 min'), ('ql_max', 6, NULL, NULL, '3 s', NULL);

CREATE FUNCTION add(job text, tenant text = 'ql_a', class text = NULL, start_before interval = NULL, run_at interval = NULL)
	RETURNS void LANGUAGE sql AS
$$ INSERT INTO quota.jobs (tenant, provider, class, payload, start_before, run_at)
	VALUES (tenant, 'ql', class, to_jsonb(job), quota_clock() + start_before, quota_clock() + run_at) $$;
CREATE FUNCTION job(label text) RETURNS bigint LANGUAGE sql STABLE AS
$$ SELECT id FROM quota.jobs WHERE provider = 'ql' AND payload = to_jsonb(label) $$;
CREATE VIEW claim AS
	SELECT payload #>> '{}' AS job, attempt FROM quota_dequeue('ql', worker => 'w');
CREATE VIEW jobs AS
	SELECT payload #>> '{}' AS job, state, attempt, max_attempts AS max, error, finished_at IS NOT NULL AS over
	FROM quota.jobs WHERE provider = 'ql' ORDER BY id;
CREATE FUNCTION history(label text) RETURNS SETOF text LANGUAGE sql STABLE AS
$$ SELECT e::text FROM quota.jobs j, jsonb_array_elements(j.history) WITH ORDINALITY h (e, n) WHERE j.id = job(label) ORDER BY n $$;
CREATE VIEW flows AS
	SELECT tenant, class, state, depth, in_flight FROM quota.stat_flows WHERE provider = 'ql' ORDER BY tenant, class;

-- ---- how often and when ----

-- of the job, else its class, else its provider
SELECT add('provider'), add('class', class => 'ql_own');
INSERT INTO quota.jobs (tenant, provider, class, payload, max_attempts) VALUES ('ql_a', 'ql', 'ql_own', '"job"', 7);
SELECT job, max FROM jobs;
UPDATE quota.providers SET max_attempts = 9 WHERE provider = 'ql';
SELECT created FROM quota_enqueue('ql_a', 'ql', '"later"');
SELECT job, max FROM jobs WHERE job IN ('provider', 'later');
\set VERBOSITY terse
INSERT INTO quota.jobs (tenant, provider, max_attempts) VALUES ('ql_a', 'ql', 0);
\set VERBOSITY default
DELETE FROM quota.jobs WHERE provider = 'ql';
UPDATE quota.providers SET max_attempts = 4 WHERE provider = 'ql';

-- back-off with full jitter: 401 jobs, the same attempt of each fails
SELECT add('x');
SELECT job FROM claim;
SELECT ready_at - quota_clock() - '60 s'::interval AS steady_ahead FROM quota.leases WHERE job_id = job('x') \gset
SELECT quota_complete(id, attempt) FROM quota.jobs WHERE id = job('x');
CREATE TABLE delays (class text, attempt int, retry_after int, d numeric);
CREATE PROCEDURE delays(class text, attempts int, steady_ahead interval, retry_after int = NULL) LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO quota.jobs (tenant, provider, class, max_attempts)
		SELECT 'ql_b', 'ql', delays.class, 1000 FROM generate_series(1, 401);
	COMMIT;
	FOR i IN 1 .. attempts LOOP
		PERFORM quota_fail(id, attempt, 'no', headers => jsonb_build_object('Retry-After', retry_after))
			FROM quota_dequeue('ql', 401);
		COMMIT;
		INSERT INTO delays SELECT delays.class, i, delays.retry_after, extract(epoch FROM ready_at - quota_clock() - steady_ahead)
			FROM quota.leases JOIN quota.jobs j ON j.id = job_id WHERE j.provider = 'ql';
		PERFORM quota_clock_advance('1 h');
	END LOOP;
	PERFORM quota_complete(id, attempt) FROM quota_dequeue('ql', 401);
	DELETE FROM quota.jobs WHERE provider = 'ql';
END $$;
CALL delays('event', 5, :'steady_ahead');
CALL delays('ql_own', 3, :'steady_ahead');
CALL delays('ql_max', 2, :'steady_ahead');
CALL delays('event', 1, :'steady_ahead', 20);
-- base 2 s, at most 10 s; of the class: 8 s and 30 s; 3 s and the provider's base;
-- and never before Retry-After
SELECT class, attempt, retry_after, count(*), min(d) > 0 AS above_zero, ceil(max(d)) AS within,
	avg(d) / ceil(max(d)) BETWEEN 0.4 AND 0.6 AS mean, min(d) * 4 < max(d) AS spread
	FROM delays GROUP BY 1, 2, 3 ORDER BY 3 DESC, 1, 2;
DROP TABLE delays;
DROP PROCEDURE delays;

-- ---- what happened ----

INSERT INTO quota.jobs (tenant, provider, payload, history) VALUES ('ql_a', 'ql', '"h0"', '[]');
SELECT add('h1'), add('h2');
SELECT * FROM claim;
SELECT * FROM claim;
SELECT quota_complete(id, attempt) FROM quota.jobs WHERE id = job('h2');
SELECT history FROM quota.jobs WHERE provider = 'ql';
SELECT quota_fail(id, attempt, 'broken', status => 503) FROM quota.jobs WHERE id = job('h1');
SELECT quota_clock_advance('10 s');
SELECT * FROM claim;
-- its lease expires, and the job is claimed again; then nobody may claim it again
SELECT quota_clock_advance('60 s');
SELECT payload, attempt FROM quota_dequeue('ql');
SELECT quota_clock_advance('60 s');
SELECT * FROM claim;
SELECT quota_clock_advance('60 s');
SELECT * FROM claim;
SELECT * FROM jobs;
SELECT * FROM history('h1');
UPDATE quota.jobs SET history = NULL WHERE id = job('h1');
-- the newest 50 entries, the first 1000 bytes of an error
INSERT INTO quota.jobs (tenant, provider, payload, max_attempts) VALUES ('ql_a', 'ql', '"many"', 100);
DO $$
BEGIN
	FOR i IN 1 .. 60 LOOP
		PERFORM quota_fail(id, attempt, repeat('ä', 600)) FROM quota_dequeue('ql');
		PERFORM quota_clock_advance('10 s');
		COMMIT;
	END LOOP;
END $$;
SELECT jsonb_array_length(history) AS entries, history -> 0 -> 'attempt' AS oldest, history -> -1 -> 'attempt' AS newest,
	octet_length(history -> -1 ->> 'error') AS bytes, octet_length(error) AS error
	FROM quota.jobs WHERE id = job('many');
DELETE FROM quota.jobs WHERE provider = 'ql';

-- ---- cancelled ----

-- at once while it waits: fresh, scheduled, for a retry
SELECT add('c1'), add('c2', run_at => '1 h'), add('c3');
SELECT quota_cancel(job('c1'));
SELECT quota_cancel(job('c2'));
SELECT * FROM claim;
SELECT quota_fail(job('c3'), 1, 'no');
SELECT quota_cancel(job('c3'));
SELECT quota_cancel(job('c3'));
SELECT * FROM jobs;
SELECT * FROM history('c3');
SELECT * FROM claim;
-- a running one is asked for, its worker told
SELECT add('c4');
SELECT attempt, cancel_requested FROM quota_dequeue('ql', worker => 'w');
SELECT lease_until, cancel_requested FROM quota_extend_job(job('c4'), 1, '1 min');
SELECT quota_cancel(job('c4'));
SELECT quota_cancel(job('c4'));
SELECT state FROM jobs WHERE job = 'c4';
SELECT * FROM claim;
SELECT attempt, lease_until, cancel_requested FROM quota_extend_job(job('c4'), 1, '2 min');
SELECT quota_fail(job('c4'), 1, 'stopped', status => 499);
SELECT quota_cancel(job('c4'));
SELECT * FROM history('c4');
-- so is the last attempt, and one that is not to be tried again
SELECT add('c5', class => 'ql_own');
SELECT * FROM claim;
SELECT quota_cancel(job('c5'));
SELECT quota_fail(job('c5'), 1, 'no', retry => false);
-- what is done is done
SELECT add('c6');
SELECT * FROM claim;
SELECT quota_cancel(job('c6'));
SELECT quota_complete(job('c6'), 1);
SELECT quota_cancel(job('c6'));
-- a lease that runs out: no new attempt, though some are left
SELECT add('c7'), add('c8');
SELECT * FROM claim;
SELECT quota_cancel(job('c7'));
SELECT quota_clock_advance('60 s');
SELECT * FROM claim;
SELECT * FROM history('c7');
-- that is what quota_cancel says by itself
SELECT quota_cancel(job('c8'));
SELECT quota_clock_advance('60 s');
SELECT quota_cancel(job('c8'));
SELECT * FROM jobs;
SELECT * FROM flows WHERE depth <> 0 OR in_flight <> 0;
SELECT quota_cancel(9223372036854775807);
SELECT quota_cancel(NULL);
-- the request rolls back with its transaction
SELECT add('c9');
SELECT * FROM claim;
BEGIN;
SAVEPOINT s;
SELECT quota_cancel(job('c9'));
ROLLBACK TO s;
COMMIT;
SELECT cancel_requested FROM quota_extend_job(job('c9'), 1, '1 min');
SELECT quota_complete(job('c9'), 1);
DELETE FROM quota.jobs WHERE provider = 'ql';

-- ---- too late ----

-- a background worker may be faster than the claim; both do the same
CREATE PROCEDURE until_over(label text) LANGUAGE plpgsql AS $$
BEGIN
	WHILE (SELECT finished_at IS NULL FROM quota.jobs WHERE id = job(label)) LOOP
		PERFORM pg_sleep(0.01);
		COMMIT;
	END LOOP;
END $$;
SELECT add('d1', start_before => '1 min'), add('d2', start_before => '1 min'), add('d3', start_before => '1 h'), add('d4');
INSERT INTO quota.jobs (tenant, provider, payload, start_before, dedupe_key)
	VALUES ('ql_a', 'ql', '"d5"', quota_clock() + '1 min'::interval, 'd');
SELECT add('d6', start_before => '2 min', run_at => '1 h');
SELECT * FROM claim;
SELECT quota_fail(job('d1'), 1, 'no');
SELECT quota_clock_advance('59999 ms');
SELECT state FROM jobs WHERE job IN ('d2', 'd5');
SELECT quota_clock_advance('1 ms');
SELECT * FROM claim;
SELECT * FROM claim;
CALL until_over('d5');
SELECT created FROM quota_enqueue('ql_a', 'ql', dedupe_key => 'd');
SELECT quota_clock_advance('1 min');
CALL until_over('d6');
SELECT * FROM jobs;
SELECT * FROM history('d2');
SELECT * FROM history('d6');
-- past when it is inserted
SELECT add('d7', start_before => '-1 s');
CALL until_over('d7');
SELECT state, error FROM jobs WHERE job = 'd7';
-- no claim comes by: the tenant is suspended
UPDATE quota.tenants SET suspended = true WHERE tenant = 'ql_b';
SELECT add('d8', 'ql_b', start_before => '1 min'), add('d9', 'ql_b');
SELECT quota_clock_advance('1 min');
CALL until_over('d8');
SELECT state FROM jobs WHERE job IN ('d8', 'd9');
UPDATE quota.tenants SET suspended = false WHERE tenant = 'ql_b';
-- of the class, from run_at or the creation
SELECT add('e1', class => 'ql_own'), add('e2', class => 'ql_own', run_at => '1 h'), add('e3', class => 'ql_own', run_at => '-1 h'),
	add('e4', class => 'ql_own', start_before => '2 min'), add('e5');
SELECT payload, start_before - quota_clock() AS within FROM quota.jobs WHERE payload::text LIKE '"e%' ORDER BY id;
UPDATE quota.jobs SET start_before = 'infinity' WHERE id = job('e1');
SELECT quota_clock_advance('2 h');
CALL until_over('e1');
CALL until_over('e2');
CALL until_over('e3');
CALL until_over('e4');
SELECT job, state, error FROM jobs WHERE job LIKE 'e%';
-- never too late, and always
INSERT INTO quota.jobs (tenant, provider, payload, start_before) VALUES ('ql_a', 'ql', '"e6"', 'infinity'), ('ql_a', 'ql', '"e7"', '-infinity');
CALL until_over('e7');
SELECT job, state, error FROM jobs WHERE job IN ('e6', 'e7');
SELECT count(quota_complete(id, attempt)::text) FROM quota_dequeue('ql', 100);
SELECT * FROM flows WHERE depth <> 0 OR in_flight <> 0;
DELETE FROM quota.jobs WHERE provider = 'ql';

-- ---- wanted again ----

SELECT add('r1'), add('r2'), add('r3');
SELECT * FROM claim;
SELECT quota_fail(job('r1'), 1, 'no', retry => false);
SELECT quota_cancel(job('r2'));
SELECT * FROM claim;
SELECT quota_complete(job('r3'), 1);
SELECT quota_requeue(job('r3'));
-- behind what has been waiting; one that was never started has its old place
SELECT add('r4');
SELECT quota_clock_advance('1 s');
SELECT quota_requeue(job('r1'), 1), quota_requeue(job('r2'));
SELECT quota_requeue(job('r1'));
SELECT * FROM jobs;
SELECT * FROM claim;
SELECT * FROM claim;
SELECT * FROM claim;
SELECT * FROM claim;
SELECT * FROM flows;
-- attempts go on to be counted: the old one stays stale
\set VERBOSITY sqlstate
SELECT quota_complete(job('r1'), 1);
SELECT quota_requeue(job('r1'));
\set VERBOSITY default
SELECT quota_fail(job('r1'), 2, 'no');
SELECT quota_requeue(job('r1'), 3);
SELECT job, state, attempt, max, over FROM jobs WHERE job = 'r1';
SELECT * FROM history('r1');
SELECT * FROM claim;
SELECT quota_complete(id, attempt) FROM quota.jobs WHERE state = 'running' AND provider = 'ql';
-- not before its run_at; no more start_before
SELECT add('r5', run_at => '1 h'), add('r6', class => 'ql_own');
SELECT quota_cancel(job('r5'));
SELECT quota_clock_advance('10 min');
CALL until_over('r6');
SELECT quota_requeue(job('r5')), quota_requeue(job('r6'));
SELECT payload, state, max_attempts, start_before FROM quota.jobs WHERE id IN (job('r5'), job('r6')) ORDER BY id;
SELECT * FROM claim;
SELECT * FROM claim;
SELECT quota_clock_advance('50 min');
SELECT * FROM claim;
SELECT * FROM claim;
-- its key
SELECT created FROM quota_enqueue('ql_a', 'ql', '"r7"', dedupe_key => 'r');
SELECT quota_cancel(job('r7'));
SELECT created FROM quota_enqueue('ql_a', 'ql', '"r8"', dedupe_key => 'r');
\set VERBOSITY terse
SELECT quota_requeue(job('r7'));
\set VERBOSITY default
SELECT quota_cancel(job('r8'));
SELECT quota_requeue(job('r7'));
SELECT created, id = job('r7') AS it FROM quota_enqueue('ql_a', 'ql', dedupe_key => 'r');
-- a place in a bounded queue
SELECT add('r10');
SELECT quota_cancel(job('r10'));
UPDATE quota.tenants SET max_queued = 3 WHERE tenant = 'ql_a';
SELECT depth, in_flight FROM flows WHERE depth > 0 OR in_flight > 0;
\set VERBOSITY terse
SELECT quota_requeue(job('r10'));
UPDATE quota.tenants SET max_queued = 4 WHERE tenant = 'ql_a';
SELECT quota_requeue(job('r10'));
UPDATE quota.tenants SET max_queued = NULL WHERE tenant = 'ql_a';
-- nothing of it when it is rolled back
SELECT add('r9');
SELECT quota_cancel(job('r9'));
BEGIN;
SELECT quota_requeue(job('r9'));
ROLLBACK;
SELECT state FROM jobs WHERE job = 'r9';
SELECT quota_requeue(9223372036854775807);
SELECT quota_requeue(NULL);
SELECT quota_requeue(job('r9'), 0);
SELECT quota_requeue(job('r9'), 2147483647);
SELECT max FROM jobs WHERE job = 'r9';
\set VERBOSITY default
-- all of a tenant that failed
SELECT count(quota_complete(id, attempt)::text) FROM quota_dequeue('ql', 100);
SELECT add('s' || n, 'ql_b') FROM generate_series(1, 3) n;
SELECT quota_fail(id, attempt, 'no', retry => false) FROM quota_dequeue('ql', 2);
SELECT count(*) FILTER (WHERE quota_requeue(id)) FROM quota.jobs WHERE tenant = 'ql_b' AND state = 'failed';
SELECT job, state, attempt FROM jobs WHERE job LIKE 's%';
SELECT count(quota_complete(id, attempt)::text) FROM quota_dequeue('ql', 100);
SELECT quota_complete(id, attempt) FROM quota.jobs WHERE state = 'running' AND provider = 'ql';
SELECT * FROM flows WHERE depth <> 0 OR in_flight <> 0;
DELETE FROM quota.jobs WHERE provider = 'ql';

-- ---- the fence (scenario 18): a worker whose lease is over changes nothing ----

INSERT INTO quota.limits (provider, name, per, kind, amount) VALUES ('ql', 'slots', '{tenant}', 'concurrency', 1);
INSERT INTO quota.limits (provider, name, per, kind, amount, period) VALUES ('ql', 'credits', '{tenant}', 'allowance', 100, '1 month');
SELECT add('f1');
SELECT * FROM claim;
SELECT quota_clock_advance('60 s');
SELECT payload #>> '{}' AS job, attempt FROM quota_dequeue('ql', worker => 'second');
CREATE VIEW fence AS
	SELECT to_jsonb(j) AS job, (SELECT jsonb_agg(l) FROM quota.leases l WHERE l.job_id = j.id) AS lease,
		(SELECT jsonb_agg(used ORDER BY limit_name, bucket) FROM quota.stat_buckets b WHERE provider = 'ql') AS used,
		(SELECT jsonb_agg(p ORDER BY permit) FROM quota.stat_permits p WHERE provider = 'ql') AS permits,
		(SELECT jsonb_agg(h) FROM quota.holds h JOIN quota.leases l USING (permit) WHERE l.job_id = j.id) AS holds, (SELECT jsonb_agg(f) FROM flows f) AS flows
	FROM quota.jobs j WHERE id = job('f1');
CREATE TABLE before AS SELECT * FROM fence;
\set VERBOSITY sqlstate
SELECT quota_complete(job('f1'), 1);
SELECT quota_complete(job('f1'), 1, '"result"', '{"request": 9}');
SELECT quota_extend_job(job('f1'), 1, '1 h');
SELECT quota_fail(job('f1'), 1, 'no', headers => '{"retry-after": 5}');
SELECT quota_fail(job('f1'), 1, 'no', billed => true, retry => false);
\set VERBOSITY default
SELECT quota_complete(ARRAY[job('f1')], ARRAY[1]), quota_fail(ARRAY[job('f1')], ARRAY[1], ARRAY['no']);
SELECT quota_requeue(job('f1'));
SELECT * FROM fence EXCEPT SELECT * FROM before;
SELECT limit_name, used FROM quota.stat_buckets WHERE provider = 'ql' AND bucket LIKE '%ql_a%' ORDER BY 1;
-- to cancel the job is not the attempt's to say: the one that runs is told
SELECT quota_cancel(job('f1'));
SELECT cancel_requested FROM quota_extend_job(job('f1'), 2, '1 min');
SELECT quota_complete(job('f1'), 2);
SELECT state, result FROM quota.jobs WHERE id = job('f1');
DROP VIEW fence;
DROP TABLE before;
DELETE FROM quota.jobs WHERE provider = 'ql';
-- the hold of the lost attempt is ended in the background
SELECT quota_clock_advance('1 min');
DO $$
BEGIN
	WHILE EXISTS (SELECT FROM quota.holds h JOIN quota.tenants t USING (tenant) WHERE tier = 'ql') LOOP
		PERFORM pg_sleep(0.01);
		COMMIT;
	END LOOP;
END $$;
DELETE FROM quota.limits WHERE provider = 'ql';

DELETE FROM quota.classes WHERE class LIKE 'ql%';
DELETE FROM quota.tenants WHERE tier = 'ql';
DELETE FROM quota.providers WHERE provider = 'ql';
DELETE FROM quota.tiers WHERE tier = 'ql';
DROP VIEW claim, jobs, flows;
DROP FUNCTION add, job, history;
DROP PROCEDURE until_over;
SELECT * FROM quota_audit();
SELECT quota_clock_set(NULL);
