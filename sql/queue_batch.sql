-- Batches: several providers in one call, array forms with an answer per item,
-- jobs of one flow under one permit, equal payloads.
SET timezone = 'UTC';
SELECT quota_clock_set('2026-05-01 00:00:00+00');
INSERT INTO quota.tiers (tier) VALUES ('qb');
INSERT INTO quota.tenants (tenant, tier) VALUES ('qb_a', 'qb'), ('qb_b', 'qb');
INSERT INTO quota.providers (provider, safety) VALUES ('qb_1', 1), ('qb_2', 1), ('qb_3', 1);
\set SHOW_CONTEXT never

---- several providers: one job of each in turn, in the order given ----
INSERT INTO quota.jobs (tenant, provider, payload)
	SELECT 'qb_a', 'qb_1', to_jsonb('x' || i) FROM generate_series(1, 4) i
	UNION ALL SELECT 'qb_a', 'qb_3', to_jsonb('z' || i) FROM generate_series(1, 2) i;
SELECT provider, payload FROM quota_dequeue(ARRAY['qb_3', 'qb_2', 'qb_1'], 3);
SELECT provider, payload FROM quota_dequeue('{qb_1,qb_2,qb_3}'::text[], 10);
SELECT count(*) FROM quota_dequeue('{qb_1,qb_2,qb_3}'::text[], 10);
-- and a limit of one keeps no job of another back
INSERT INTO quota.limits (provider, name, amount, period, burst, kind)
	VALUES ('qb_1', 'slow', 1, '1 hour', 1, 'token_bucket');
INSERT INTO quota.jobs (tenant, provider, payload)
	SELECT 'qb_a', 'qb_' || p, to_jsonb(p || ' ' || i) FROM generate_series(1, 3) i, generate_series(1, 2) p;
SELECT provider, payload FROM quota_dequeue('{qb_1,qb_2}'::text[], 10);
DELETE FROM quota.limits WHERE provider = 'qb_1';
SELECT provider, payload FROM quota_dequeue('{qb_1}'::text[], 10);
-- what can't be meant
SELECT * FROM quota_dequeue('{}'::text[]);
\echo :SQLSTATE
SELECT * FROM quota_dequeue('{qb_1,NULL}'::text[]);
\echo :SQLSTATE
SELECT * FROM quota_dequeue(NULL::text[]);
\echo :SQLSTATE
SELECT * FROM quota_dequeue('{qb_1,qb_2,qb_1}'::text[]);
\echo :SQLSTATE
SELECT * FROM quota_dequeue('{qb_1,qb_none}'::text[]);
\echo :SQLSTATE
SELECT * FROM quota_dequeue('{qb_1}'::text[], 1001);
\echo :SQLSTATE

---- array forms: an answer for each, in the order of the arrays ----
CREATE VIEW running AS
	SELECT id, attempt, payload #>> '{}' AS job FROM quota.jobs
	WHERE provider LIKE 'qb\_%' AND state = 'running';
SELECT job FROM running ORDER BY id;
SELECT quota_complete(array_agg(id ORDER BY job DESC), array_agg(attempt ORDER BY job DESC),
	array_agg(CASE job WHEN 'x1' THEN NULL ELSE to_jsonb('did ' || job) END ORDER BY job DESC))
FROM running WHERE job ~ '^x';
SELECT payload, state, result FROM quota.jobs WHERE provider = 'qb_1' AND payload::text ~ 'x' ORDER BY id;
-- a stale item is no error, nor is the second of two equal ones, nor an unknown job
SELECT quota_complete(ids || ids || 9223372036854775806, attempts || (attempts[1] + 1) || attempts[2:] || 1)
FROM (SELECT array_agg(id ORDER BY id) AS ids, array_agg(attempt ORDER BY id) AS attempts FROM running WHERE job ~ '^z') s;
SELECT quota_complete('{}'::bigint[], '{}');
-- fail: each with its error and status
SELECT quota_fail(array_agg(id ORDER BY id) || 1::bigint, array_agg(attempt ORDER BY id) || 9,
	array_agg('no ' || job ORDER BY id) || ''::text,
	array_agg(CASE job WHEN '1 1' THEN 429 END ORDER BY id) || 500)
FROM running WHERE job ~ ' 1';
SELECT payload, state, error, status FROM quota.jobs WHERE provider LIKE 'qb\_%' AND error IS NOT NULL ORDER BY id;
SELECT quota_fail(array_agg(id ORDER BY id), array_agg(attempt ORDER BY id), array_agg('gone'::text), retry => false)
FROM running;
SELECT state, count(*) FROM quota.jobs WHERE provider LIKE 'qb\_%' GROUP BY 1 ORDER BY 1;
-- what can't be meant
SELECT quota_complete('{1}'::bigint[], '{1,2}');
\echo :SQLSTATE
SELECT quota_complete('{1}'::bigint[], '{1}', '{}');
\echo :SQLSTATE
SELECT quota_complete('{1}'::bigint[], '{1}', units => '{NULL,NULL}');
\echo :SQLSTATE
SELECT quota_complete(NULL::bigint[], '{1}');
\echo :SQLSTATE
SELECT quota_complete('{1}'::bigint[], '{NULL}');
\echo :SQLSTATE
SELECT quota_fail('{1}'::bigint[], '{1}', '{NULL}');
\echo :SQLSTATE
SELECT quota_fail('{1}'::bigint[], '{1}', '{a,b}');
\echo :SQLSTATE
SELECT quota_fail('{1}'::bigint[], '{1}', '{a}', '{1,2}');
\echo :SQLSTATE

---- one batch: rate and credits per item, concurrency once ----
DELETE FROM quota.jobs WHERE provider LIKE 'qb\_%' AND state <> 'running';
INSERT INTO quota.providers (provider, safety) VALUES ('qb', 1);
INSERT INTO quota.limits (provider, name, kind, amount, per) VALUES
	('qb', 'flight', 'concurrency', 3, '{}'),
	('qb', 'own flight', 'concurrency', 2, '{tenant}');
INSERT INTO quota.limits (provider, name, amount, period, burst, per, unit, kind) VALUES
	('qb', 'rate', 60, '1 minute', 10, '{tenant}', 'request', 'token_bucket');
INSERT INTO quota.limits (provider, name, amount, period, per, unit, kind) VALUES
	('qb', 'credits', 100, '1 month', '{tenant}', 'credit', 'allowance');
INSERT INTO quota.costs (provider, unit, cost) VALUES ('qb', 'credit', 2);
CREATE VIEW flight AS
	SELECT limit_name, bucket, used FROM quota.stat_buckets WHERE provider = 'qb' ORDER BY 1, 2;
CREATE FUNCTION batch(max_jobs int, equal boolean DEFAULT false) RETURNS TABLE (job text, same_as text)
BEGIN ATOMIC
	SELECT d.payload #>> '{}', (SELECT s.payload #>> '{}' FROM quota.jobs s WHERE s.id = d.same_as)
	FROM quota_dequeue('qb', max_jobs, same_endpoint => true, merge_equal => equal) d;
END;
-- ends all that runs or waits
CREATE PROCEDURE quota_batch_finish()
LANGUAGE plpgsql AS $$ BEGIN
	PERFORM quota_complete(array_agg(id), array_agg(attempt)) FROM quota.jobs WHERE provider ~ '^qb' AND state = 'running' HAVING count(*) > 0;
	PERFORM quota_cancel(id) FROM quota.jobs WHERE provider ~ '^qb' AND state IN ('queued', 'scheduled', 'running');
END $$;
-- jobs of two flows, mixed: a batch is of one, oldest first
INSERT INTO quota.jobs (tenant, provider, endpoint, payload)
	SELECT 'qb_a', 'qb', CASE WHEN i % 2 = 0 THEN 'even' ELSE 'odd' END, to_jsonb('a' || i) FROM generate_series(1, 12) i;
SELECT * FROM batch(4);
SELECT * FROM flight;
SELECT p.calls, j.payload AS job, p.has_hold, p.tenant
FROM quota.stat_permits p LEFT JOIN quota.jobs j ON j.id = p.job WHERE p.provider = 'qb' ORDER BY j.id NULLS FIRST;
SELECT count(DISTINCT batch), count(permit), count(*)
FROM quota.leases l JOIN quota.jobs j ON j.id = l.job_id WHERE j.provider = 'qb';
-- rate allows 6 more of 10; own flight one more batch
SELECT * FROM batch(200);
SELECT * FROM batch(200);
SELECT * FROM flight;

-- its last job to end releases the place, whatever way they end
CREATE FUNCTION running_of(name text) RETURNS TABLE (id bigint, attempt int)
BEGIN ATOMIC SELECT id, attempt FROM quota.jobs WHERE provider = 'qb' AND payload #>> '{}' = name AND state = 'running'; END;
SELECT quota_complete(id, attempt) FROM running_of('a1');
SELECT quota_fail(id, attempt, 'no', retry => false) FROM running_of('a3');
SELECT quota_fail(id, attempt, 'again') FROM running_of('a5');
SELECT * FROM flight;
SELECT calls FROM quota.stat_permits WHERE provider = 'qb' AND job IS NULL ORDER BY 1;
-- what was refused by the provider has its credits back
SELECT quota_complete(array_agg(id), array_agg(attempt)) FROM running_of('a7');
SELECT * FROM flight;
-- a rollback leaves nobody; nor does the end of a member twice
BEGIN;
SELECT quota_complete(array_agg(id), array_agg(attempt)) FROM quota.jobs WHERE provider = 'qb' AND state = 'running';
ROLLBACK;
SELECT calls FROM quota.stat_permits WHERE provider = 'qb' AND job IS NULL;
SELECT * FROM flight;
BEGIN;
SELECT quota_complete(id, attempt) FROM running_of('a2');
SAVEPOINT s;
SELECT quota_fail(id, attempt, 'no') FROM running_of('a4');
ROLLBACK TO s;
SELECT quota_complete(array_agg(id), array_agg(attempt)) FROM running_of('a6');
COMMIT;
SELECT calls FROM quota.stat_permits WHERE provider = 'qb' AND job IS NULL;

-- extending one extends the place of all, and a rollback takes that back
SELECT quota_clock_advance('30 s');
CREATE VIEW places AS SELECT calls, expires_at FROM quota.stat_permits WHERE provider = 'qb' AND job IS NULL;
SELECT * FROM places;
BEGIN;
SELECT (quota_extend_job(id, attempt, '2 min')).lease_until FROM running_of('a4');
SELECT * FROM places;
ROLLBACK;
SELECT * FROM places;
SELECT (quota_extend_job(id, attempt, '90 s')).lease_until FROM running_of('a4');
SELECT * FROM places;
-- members whose leases are over leave when their jobs are claimed again
SELECT quota_clock_advance('31 s');
SELECT * FROM places;
UPDATE quota.limits SET amount = 3 WHERE provider = 'qb' AND name = 'own flight';
SELECT * FROM batch(200);
SELECT * FROM batch(200);
SELECT * FROM places ORDER BY expires_at, calls;
SELECT * FROM flight;
-- the last one is lost: the place is free when its lease ends, and an event says so
SELECT quota_clock_advance('59 s');
SELECT * FROM places ORDER BY expires_at, calls;
SELECT quota_clock_advance('1 s');
SELECT * FROM flight;
-- all of them are claimed again, by the order they became ready in
SELECT * FROM batch(200);
SELECT * FROM batch(200);
SELECT * FROM flight;

-- a batch that is rolled back, as a whole or to a savepoint
BEGIN;
SELECT quota_complete(array_agg(id), array_agg(attempt)) FROM quota.jobs WHERE provider = 'qb' AND state = 'running';
COMMIT;
DELETE FROM quota.jobs WHERE provider = 'qb';
INSERT INTO quota.jobs (tenant, provider, payload) SELECT 'qb_a', 'qb', to_jsonb('r' || i) FROM generate_series(1, 9) i;
SELECT quota_clock_advance('60 s');
CREATE VIEW counts AS SELECT depth, in_flight FROM quota.stat_flows WHERE provider = 'qb' AND endpoint IS NULL;
SELECT * FROM flight;
BEGIN;
SELECT * FROM batch(2);
SAVEPOINT s;
SELECT * FROM batch(3);
SELECT * FROM flight;
SELECT * FROM counts;
ROLLBACK TO s;
SELECT * FROM flight;
SELECT * FROM counts;
SELECT * FROM batch(1);
ROLLBACK;
SELECT * FROM flight;
SELECT * FROM counts;
SELECT * FROM places;
-- claimed and completed in one transaction, and in one statement
BEGIN;
SELECT * FROM batch(2);
SELECT quota_complete(array_agg(id), array_agg(attempt)) FROM quota.jobs WHERE provider = 'qb' AND state = 'running';
SELECT * FROM places;
COMMIT;
SELECT * FROM places;
SELECT quota_complete(array_agg(id), array_agg(attempt)) FROM quota_dequeue('qb', 3, same_endpoint => true);
SELECT * FROM places;
-- in part: the rest holds the place
BEGIN;
SELECT * FROM batch(2);
SELECT quota_complete(id, attempt) FROM running_of('r6');
COMMIT;
SELECT * FROM places;
SELECT quota_complete(id, attempt) FROM running_of('r7');
SELECT * FROM places;
SELECT * FROM flight;

---- rate and credits allow k: the batch has k; none: none ----
CALL quota_batch_finish();
INSERT INTO quota.jobs (tenant, provider, payload, units)
	SELECT 'qb_a', 'qb', to_jsonb('k' || i), CASE i WHEN 3 THEN '{"request": 4}'::jsonb WHEN 4 THEN '{"credit": 9}' END
	FROM generate_series(1, 12) i;
SELECT quota_clock_advance('1 min');
-- requests: 1 + 1 + 4 + 1 + 1 + 1 + 1 of 10
SELECT * FROM batch(200);
SELECT limit_name, used FROM flight WHERE limit_name = 'rate';
SELECT * FROM batch(200);
SELECT quota_clock_advance('2 s');
SELECT * FROM batch(200);
SELECT * FROM places ORDER BY calls;
-- credits for two more, then for none
SELECT quota_complete(array_agg(id), array_agg(attempt)) FROM quota.jobs WHERE provider = 'qb' AND state = 'running';
SELECT quota_clock_advance('1 min');
SELECT used + 4 AS used FROM flight WHERE limit_name = 'credits' \gset
UPDATE quota.limits SET amount = :used WHERE provider = 'qb' AND name = 'credits';
SELECT * FROM batch(200);
SELECT * FROM batch(200);
SELECT count(*) FROM places;
SELECT reason FROM quota.stat_flows WHERE provider = 'qb' AND endpoint IS NULL;
UPDATE quota.limits SET amount = 1000 WHERE provider = 'qb' AND name = 'credits';

---- a batch ends before a job that counts in other places than its first ----
CALL quota_batch_finish();
INSERT INTO quota.limits (provider, name, kind, amount, per) VALUES ('qb', 'line', 'concurrency', 1, '{connection}');
INSERT INTO quota.jobs (tenant, provider, payload, connection)
	SELECT 'qb_a', 'qb', to_jsonb('c' || i), CASE WHEN i > 5 THEN NULL WHEN i % 4 = 3 THEN 'two' ELSE 'one' END
	FROM generate_series(1, 6) i;
SELECT quota_clock_advance('1 min');
SELECT * FROM batch(200);
SELECT * FROM batch(200);
SELECT * FROM batch(200);
SELECT quota_complete(array_agg(id), array_agg(attempt)) FROM running_of('c1');
SELECT quota_complete(array_agg(id), array_agg(attempt)) FROM running_of('c2');
SELECT * FROM batch(200);
SELECT * FROM batch(200);
DELETE FROM quota.limits WHERE provider = 'qb' AND name = 'line';

---- equal payloads ride along ----
CALL quota_batch_finish();
INSERT INTO quota.jobs (tenant, provider, payload, "user") VALUES
	('qb_a', 'qb', '{"q": 1, "n": 1}', NULL), ('qb_a', 'qb', '{"q": 2}', NULL), ('qb_a', 'qb', '{"n": 1.0, "q": 1}', NULL),
	('qb_a', 'qb', NULL, NULL), ('qb_a', 'qb', NULL, NULL), ('qb_a', 'qb', '{"q": 2}', 'u'), ('qb_a', 'qb', '{"q": 2}', NULL),
	('qb_a', 'qb', '{"q": 1}', NULL), ('qb_a', 'qb', '{"q": 1, "n": 1}', NULL);
SELECT quota_clock_advance('1 min');
SELECT used AS before FROM flight WHERE limit_name = 'credits' \gset
BEGIN;
SELECT d.payload, d."user", d.permit IS NOT NULL AS charged, s.payload AS same_as, d.same_as < d.id AS older
FROM quota_dequeue('qb', 8, same_endpoint => true, merge_equal => true) d LEFT JOIN quota.jobs s ON s.id = d.same_as ORDER BY d.id;
SELECT * FROM places;
SELECT * FROM counts;
SELECT limit_name, used - CASE limit_name WHEN 'credits' THEN :before ELSE 0 END AS used FROM flight;
ROLLBACK;
SELECT * FROM counts;
SELECT limit_name, used - CASE limit_name WHEN 'credits' THEN :before ELSE 0 END AS used FROM flight;
-- without asking each is charged; with: each is finished by itself
SELECT count(permit), count(same_as) FROM quota_dequeue('qb', 3, same_endpoint => true);
SELECT quota_complete(array_agg(id), array_agg(attempt)) FROM quota_dequeue('qb', 200, same_endpoint => true, merge_equal => true);
SELECT * FROM places;
SELECT * FROM quota_dequeue('qb', 201, same_endpoint => true);
\echo :SQLSTATE
SELECT * FROM quota_dequeue('qb', 200, merge_equal => true);
\echo :SQLSTATE
SELECT * FROM quota_dequeue('qb', same_endpoint => NULL);
\echo :SQLSTATE

---- several providers: one batch, of the first that has any ----
CALL quota_batch_finish();
INSERT INTO quota.jobs (tenant, provider, payload)
	SELECT 'qb_a', 'qb_' || p, to_jsonb(p || ' ' || i) FROM generate_series(1, 2) i, generate_series(2, 3) p;
SELECT payload FROM quota_dequeue('{qb_1,qb_3,qb_2}'::text[], 10, same_endpoint => true);
SELECT count(DISTINCT batch) FROM quota.leases l JOIN quota.jobs j ON j.id = l.job_id WHERE j.provider = 'qb_3';

---- whatever the isolation of the caller ----
INSERT INTO quota.jobs (tenant, provider, payload) SELECT 'qb_a', 'qb', to_jsonb('i' || i) FROM generate_series(1, 8) i;
SELECT quota_clock_advance('1 min');
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) FROM quota.jobs WHERE provider = 'qb' AND state = 'queued';
SELECT quota_complete(array_agg(id), array_agg(attempt)) FROM quota_dequeue('qb', 3, same_endpoint => true);
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM quota.jobs WHERE provider = 'qb' AND state = 'queued';
SELECT quota_fail(array_agg(id), array_agg(attempt), array_agg('no'::text), retry => false) FROM quota_dequeue('qb', 3, same_endpoint => true);
COMMIT;
SELECT count(*) FROM places;

---- extending many ----
SELECT * FROM batch(2);
SELECT quota_clock_advance('20 s');
SELECT e.lease_until, e.cancel_requested, j.payload FROM
	(SELECT array_agg(id ORDER BY id DESC) AS ids, array_agg(attempt ORDER BY id DESC) AS attempts
	 FROM quota.jobs WHERE provider = 'qb' AND state = 'running') s,
	quota_extend_job(ids || ids[1], attempts || 7, '1 min') WITH ORDINALITY e
	JOIN quota.jobs j ON j.id = e.id ORDER BY e.ordinality;
SELECT * FROM places;
BEGIN;
SELECT count(*) FROM (SELECT array_agg(id) AS ids, array_agg(attempt) AS attempts
	FROM quota.jobs WHERE provider = 'qb' AND state = 'running') s, quota_extend_job(ids, attempts, '10 min');
SELECT * FROM places;
ROLLBACK;
SELECT * FROM places;
SELECT quota_extend_job('{1}'::bigint[], '{1,2}', '1 s');
\echo :SQLSTATE
SELECT count(*) FROM quota_extend_job('{}'::bigint[], '{}', '1 s');

---- a batch passes over a job that has no attempt left, and buries it ----
CALL quota_batch_finish();
INSERT INTO quota.jobs (tenant, provider, payload, max_attempts) SELECT 'qb_a', 'qb', to_jsonb('w' || i), i FROM generate_series(1, 3) i;
SELECT quota_clock_advance('1 min');
SELECT * FROM batch(3);
SELECT quota_clock_advance('1 min');
SELECT * FROM batch(3);
SELECT payload, state, attempt FROM quota.jobs WHERE payload #>> '{}' ~ '^w' ORDER BY id;
SELECT * FROM places;

---- a batch is one dear job in the fair order ----
CALL quota_batch_finish();
UPDATE quota.limits SET amount = NULL WHERE provider = 'qb';
INSERT INTO quota.jobs (tenant, provider, payload)
	SELECT t, 'qb', to_jsonb(right(t, 1) || i) FROM unnest('{qb_a,qb_b}'::text[]) t, generate_series(1, 30) i;
CREATE FUNCTION turns(max_jobs int) RETURNS text
BEGIN ATOMIC
	SELECT (min(tenant) = max(tenant))::text || ' ' || min(tenant) || ' ' || count(*) FROM quota_dequeue('qb', max_jobs, same_endpoint => true);
END;
-- ten of one, then ten of the other; one of each in turn once both have had as much
SELECT turns(10) AS first, turns(4) AS then_4, turns(4) AS then_8, turns(4) AS then_12, turns(1) AS one_1, turns(1) AS one_2, turns(1) AS one_3;
CALL quota_batch_finish();
DELETE FROM quota.jobs WHERE provider ~ '^qb';
