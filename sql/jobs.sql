-- Jobs: enqueue, fair dequeue, lease, fence, retry, cancel.
-- Jobs are shown by payload; where messages name them, ids begin here.
SET timezone = 'UTC';
ALTER TABLE quota.jobs ALTER COLUMN id RESTART WITH 1000001;
SELECT quota_clock_set('2026-01-01 00:00:00+00');

INSERT INTO quota.tiers (tier, weight) VALUES ('jobs_1', 1), ('jobs_3', 3);
INSERT INTO quota.tenants (tenant, tier) VALUES
	('jobs_a', 'jobs_1'), ('jobs_b', 'jobs_1'), ('jobs_c', 'jobs_3'), ('jobs_d', 'jobs_1');
INSERT INTO quota.providers (provider, safety) VALUES ('jobs', 1), ('jobs2', 1);

CREATE VIEW claim AS
	SELECT payload #>> '{}' AS job, attempt, tenant, lease_until FROM quota_dequeue('jobs');
CREATE VIEW flows AS
	SELECT tenant, class, endpoint, state, reason, wake_at, depth, in_flight
	FROM quota.stat_flows WHERE provider = 'jobs' ORDER BY tenant COLLATE "C", class, endpoint;
CREATE VIEW jobs AS
	SELECT payload #>> '{}' AS job, state, attempt, error FROM quota.jobs
	WHERE provider = 'jobs' ORDER BY id;
-- names the running attempt of a job
CREATE FUNCTION lease(label text, OUT id bigint, OUT attempt int) LANGUAGE sql AS
$$ SELECT id, attempt FROM quota.jobs WHERE payload = to_jsonb(label) ORDER BY id DESC LIMIT 1 $$;

-- a backlog of one tenant does not keep another waiting
INSERT INTO quota.jobs (tenant, provider, payload)
	SELECT 'jobs_a', 'jobs', to_jsonb('a' || n) FROM generate_series(1, 4) n;
INSERT INTO quota.jobs (tenant, provider, payload) VALUES ('jobs_b', 'jobs', '"b1"');
SELECT * FROM flows;
SELECT job, attempt, lease_until FROM claim;
SELECT job, attempt, lease_until FROM claim;
SELECT payload, attempt, tenant, provider, endpoint, class, units, connection, lease_until, permit
FROM quota_dequeue('jobs', max_jobs => 10, worker => 'w', lease => '5 s');
SELECT * FROM claim;
SELECT * FROM flows;
SELECT * FROM jobs;

-- complete: once, and by the holder of the lease
SELECT quota_complete(id, attempt, '{"ok": true}') FROM lease('a1');
SELECT quota_complete(id, attempt) FROM lease('a1');
SELECT quota_complete(id, attempt + 1) FROM lease('a2');
SELECT quota_complete(9223372036854775807, 1);
SELECT quota_complete(array_agg(id), array_agg(attempt)) FROM (SELECT (lease(l)).* FROM unnest('{a2,a3,a4,b1}'::text[]) l) s;
SELECT payload, state, result, started_at, finished_at FROM quota.jobs WHERE provider = 'jobs' ORDER BY id;
SELECT * FROM flows;

-- what rolls back was never claimed; what is not committed cannot be claimed
INSERT INTO quota.jobs (tenant, provider, payload)
	SELECT 'jobs_a', 'jobs', to_jsonb('r' || n) FROM generate_series(1, 3) n;
BEGIN;
SELECT payload, attempt FROM quota_dequeue('jobs', 2);
ROLLBACK;
SELECT depth, in_flight FROM flows WHERE tenant = 'jobs_a';
BEGIN;
SAVEPOINT s;
SELECT payload, attempt FROM quota_dequeue('jobs', 3);
ROLLBACK TO s;
INSERT INTO quota.jobs (tenant, provider, payload) VALUES ('jobs_a', 'jobs', '"r4"');
SELECT payload, attempt FROM quota_dequeue('jobs', 3);
SELECT payload, attempt FROM quota_dequeue('jobs');
COMMIT;
-- claim and complete in one statement
SELECT payload, quota_complete(id, attempt) FROM quota_dequeue('jobs');
SELECT quota_complete(id, attempt) FROM quota.jobs WHERE state = 'running' AND provider = 'jobs';
-- complete one and claim the next in one statement: both or neither, and the former
-- also when there is no next one
INSERT INTO quota.jobs (tenant, provider, payload)
	SELECT 'jobs_a', 'jobs', to_jsonb('next' || n) FROM generate_series(1, 2) n;
SELECT job FROM claim;
BEGIN;
SELECT d.payload, d.attempt FROM quota_complete(id => (SELECT id FROM lease('next1')), attempt => 1) LEFT JOIN quota_dequeue('jobs') d ON true;
ROLLBACK;
SELECT d.payload, d.attempt FROM quota_complete(id => (SELECT id FROM lease('next1')), attempt => 2) LEFT JOIN quota_dequeue('jobs') d ON true;
SELECT payload, state, attempt FROM quota.jobs WHERE payload IN ('"next1"', '"next2"') ORDER BY payload;
SELECT d.payload, d.attempt FROM quota_complete(id => (SELECT id FROM lease('next1')), attempt => 1) LEFT JOIN quota_dequeue('jobs') d ON true;
SELECT payload, state, attempt FROM quota.jobs WHERE payload IN ('"next1"', '"next2"') ORDER BY payload;
SELECT d.payload, d.attempt FROM quota_complete(id => (SELECT id FROM lease('next2')), attempt => 1) LEFT JOIN quota_dequeue('jobs') d ON true;
SELECT payload, state, attempt FROM quota.jobs WHERE payload IN ('"next1"', '"next2"') ORDER BY payload;
BEGIN ISOLATION LEVEL SERIALIZABLE;
INSERT INTO quota.jobs (tenant, provider, payload) VALUES ('jobs_a', 'jobs', '"never"');
ROLLBACK;
SELECT * FROM flows;

-- a failed attempt comes back within the back-off, before the backlog it came from
INSERT INTO quota.jobs (tenant, provider, payload, max_attempts)
	SELECT 'jobs_a', 'jobs', to_jsonb('f' || n), 2 FROM generate_series(1, 2) n;
SELECT job FROM claim;
SELECT quota_fail(id, attempt, 'no luck', 500) FROM lease('f1');
SELECT payload, state, attempt, error, status FROM quota.jobs WHERE payload IN ('"f1"', '"f2"') ORDER BY payload;
SELECT quota_clock_advance('1 s');
SELECT job, attempt FROM claim;
SELECT quota_fail(id, attempt, 'no luck again') FROM lease('f1');
SELECT payload, state, attempt, error, status, finished_at FROM quota.jobs WHERE payload IN ('"f1"', '"f2"') ORDER BY payload;
-- never before Retry-After
SELECT job FROM claim;
SELECT quota_fail(id, attempt, 'slow down', headers => '{"Retry-After": "30"}') FROM lease('f2');
SELECT job FROM claim;
SELECT state, reason, wake_at FROM flows WHERE tenant = 'jobs_a';
SELECT quota_clock_advance('29 s');
SELECT job FROM claim;
SELECT quota_clock_advance('1 s');
SELECT job, attempt FROM claim;
SELECT quota_fail(id, attempt, 'hopeless', retry => false) FROM lease('f2');
INSERT INTO quota.jobs (tenant, provider, payload) VALUES ('jobs_a', 'jobs', '"f3"');
SELECT job FROM claim;
SELECT quota_fail(id, attempt, 'later', headers => '{"RETRY-after": ["90", "Thursday, 01-Jan-26 00:02:00 GMT", null], "x": ["retry-after", 1]}') FROM lease('f3');
SELECT job FROM claim;
SELECT state, reason, wake_at FROM flows WHERE tenant = 'jobs_a';
SELECT quota_cancel(id) FROM lease('f3');

-- an expired lease makes the job ready at once and has used an attempt
INSERT INTO quota.jobs (tenant, provider, payload, max_attempts) VALUES ('jobs_a', 'jobs', '"l1"', 2);
SELECT job, attempt FROM claim;
SELECT (quota_extend_job(id, attempt, '90 s')).lease_until FROM lease('l1');
SELECT (quota_extend_job(id, attempt, '1 s')).lease_until FROM lease('l1');
SELECT quota_clock_advance('89 s');
SELECT job FROM claim;
SELECT quota_clock_advance('1 s');
SELECT (quota_extend_job(id, attempt, '90 s')).lease_until FROM lease('l1');
SELECT quota_complete(id, attempt) FROM lease('l1');
SELECT job, attempt FROM claim;
SELECT quota_fail(id, 1, 'too late') FROM lease('l1');
SELECT quota_clock_advance('60 s');
SELECT job, attempt FROM claim;
SELECT * FROM jobs WHERE job = 'l1';

-- scheduled jobs
INSERT INTO quota.jobs (tenant, provider, payload, run_at) VALUES
	('jobs_a', 'jobs', '"s1"', quota_clock() + interval '1 h'),
	('jobs_a', 'jobs', '"s2"', quota_clock() - interval '1 h'),
	('jobs_a', 'jobs', '"s3"', 'infinity');
SELECT * FROM jobs WHERE job LIKE 's_';
SELECT job, quota_complete(id, c.attempt) FROM claim c, lease(job);
SELECT job FROM claim;
SELECT quota_clock_advance('1 h');
SELECT job FROM claim;
SELECT job FROM claim;
SELECT quota_complete(id, attempt) FROM quota.jobs WHERE state = 'running' AND payload = '"s1"';

-- cancel
SELECT quota_cancel(id) FROM lease('s3');
SELECT quota_cancel(id) FROM lease('s3');
INSERT INTO quota.jobs (tenant, provider, payload) VALUES ('jobs_a', 'jobs', '"c1"'), ('jobs_a', 'jobs', '"c2"');
SELECT quota_cancel(id) FROM lease('c1');
SELECT job FROM claim;
SELECT job FROM claim;
SELECT quota_cancel(id) FROM lease('c2');
SELECT quota_cancel(9223372036854775807);
DELETE FROM quota.jobs WHERE payload = '"c2"';
SELECT quota_complete(id, attempt) FROM lease('c2');
SELECT * FROM jobs WHERE job IN ('s3', 'c1', 'c2');
SELECT * FROM flows WHERE tenant = 'jobs_a';

-- dedupe keys are unique per provider among unfinished jobs
SELECT created FROM quota_enqueue('jobs_a', 'jobs', '"d1"', dedupe_key => 'k');
SELECT created, (SELECT payload FROM quota.jobs j WHERE j.id = e.id) FROM quota_enqueue('jobs_b', 'jobs', '"d2"', dedupe_key => 'k') e;
SELECT created FROM quota_enqueue('jobs_a', 'jobs2', '"d3"', dedupe_key => 'k');
INSERT INTO quota.jobs (tenant, provider, dedupe_key) VALUES ('jobs_a', 'jobs', 'k');
SELECT job FROM claim;
SELECT created FROM quota_enqueue('jobs_a', 'jobs', '"d4"', dedupe_key => 'k');
SELECT quota_complete(id, attempt) FROM lease('d1');
SELECT created FROM quota_enqueue('jobs_a', 'jobs', '"d4"', dedupe_key => 'k');
INSERT INTO quota.jobs (tenant, provider, dedupe_key) VALUES ('jobs_a', 'jobs', 'k') ON CONFLICT DO NOTHING;
DELETE FROM quota.jobs WHERE dedupe_key = 'k';
SELECT count(*) FROM quota.dedupe WHERE provider = 'jobs';
SELECT * FROM flows WHERE tenant = 'jobs_a';

-- what may be changed
INSERT INTO quota.jobs (tenant, provider, payload) VALUES ('jobs_a', 'jobs', '"u0"');
UPDATE quota.jobs SET payload = '"u1"' WHERE payload = '"u0"';
UPDATE quota.jobs SET state = 'failed' WHERE payload = '"u1"';
UPDATE quota.jobs SET tenant = 'jobs_b' WHERE payload = '"u1"';
UPDATE quota.jobs SET id = 1 WHERE payload = '"u1"';
UPDATE quota.jobs SET units = '{"x": -1}' WHERE payload = '"u1"';
TRUNCATE quota.jobs;
SELECT job, quota_complete(id, c.attempt) FROM claim c, lease(job);

-- what is refused
INSERT INTO quota.jobs (tenant, provider) VALUES ('jobs_nobody', 'jobs');
INSERT INTO quota.jobs (tenant, provider) VALUES ('jobs_a', 'jobs_none');
INSERT INTO quota.jobs (tenant, provider, class) VALUES ('jobs_a', 'jobs', 'jobs_none');
INSERT INTO quota.jobs (tenant, provider, units) VALUES ('jobs_a', 'jobs', '[1]');
INSERT INTO quota.jobs (tenant, provider, endpoint) VALUES ('jobs_a', 'jobs', repeat('x', 128));
SELECT * FROM quota_enqueue(NULL, 'jobs');
SELECT * FROM quota_enqueue('jobs_a', 'jobs', max_attempts => 0);
SELECT * FROM quota_dequeue(NULL);
SELECT * FROM quota_dequeue('jobs_none');
SELECT * FROM quota_dequeue('jobs', 0);
SELECT * FROM quota_dequeue('jobs', 1, lease => '0');
SELECT * FROM quota_dequeue('jobs', 1, lease => '25 h');
SELECT quota_fail(1, 1, NULL);
SELECT quota_complete('{1,2}'::bigint[], '{1}');
SELECT quota_complete('{1,NULL}'::bigint[], '{1,1}');
BEGIN READ ONLY;
SELECT * FROM quota_dequeue('jobs');
ROLLBACK;
SELECT quota.jobs_before_insert();

-- parameters without types, as drivers send them: names of arguments, or casts, tell the forms for one job and for many apart
PREPARE bare AS SELECT quota_complete($1, $2);
PREPARE bare AS SELECT quota_fail($1, $2, $3);
PREPARE bare AS SELECT quota_extend_job($1, $2, $3);
PREPARE complete AS SELECT quota_complete(id => $1, attempt => $2, result => $3);
PREPARE complete_cast AS SELECT quota_complete($1::bigint, $2);
PREPARE complete_many AS SELECT quota_complete(ids => $1, attempts => $2);
PREPARE fail AS SELECT quota_fail(id => $1, attempt => $2, error => $3, status => $4, headers => $5, billed => $6, retry => $7);
PREPARE fail_many AS SELECT quota_fail(ids => $1, attempts => $2, errors => $3);
PREPARE extend AS SELECT lease_until FROM quota_extend_job(id => $1, attempt => $2, by => $3);
PREPARE extend_many AS SELECT lease_until FROM quota_extend_job(ids => $1, attempts => $2, by => $3);
PREPARE dequeue AS SELECT payload FROM quota_dequeue(provider => $1, max_jobs => $2);
PREPARE dequeue_any AS SELECT payload FROM quota_dequeue(providers => $1, max_jobs => $2);
SELECT name, parameter_types FROM pg_prepared_statements ORDER BY name;
INSERT INTO quota.jobs (tenant, provider, payload) VALUES ('jobs_a', 'jobs', '"n1"'), ('jobs_a', 'jobs', '"n2"'), ('jobs_a', 'jobs', '"n3"');
EXECUTE dequeue('jobs', 2);
EXECUTE dequeue_any('{jobs}', 2);
SELECT id, attempt FROM lease('n1') \gset
EXECUTE extend(:id, :attempt, '90 s');
EXECUTE complete(:id, :attempt, '{"ok": true}');
SELECT id, attempt FROM lease('n2') \gset
EXECUTE fail(:id, :attempt, 'no', '500', '{}', 'false', 'false');
SELECT id, attempt FROM lease('n3') \gset
EXECUTE extend_many(array[:id], array[:attempt], '90 s');
EXECUTE complete_many(array[:id], array[:attempt]);
SELECT payload, state FROM quota.jobs WHERE payload <@ '["n1", "n2", "n3"]' ORDER BY id;
DEALLOCATE ALL;

-- classes by rank; a NULL class means event; of one tenant the oldest first
INSERT INTO quota.jobs (tenant, provider, payload, class) VALUES
	('jobs_a', 'jobs', '"k1"', 'batch'), ('jobs_a', 'jobs', '"k2"', NULL), ('jobs_a', 'jobs', '"k3"', 'interactive');
INSERT INTO quota.jobs (tenant, provider, payload, endpoint) VALUES
	('jobs_a', 'jobs', '"k4"', 'x'), ('jobs_a', 'jobs', '"k5"', 'y'), ('jobs_a', 'jobs', '"k6"', 'x');
SELECT payload, class, endpoint, quota_complete(id, attempt) FROM quota_dequeue('jobs', 10);

-- shares follow weights, also after a change, over the backlog that is there
INSERT INTO quota.jobs (tenant, provider, payload)
	SELECT t, 'jobs', to_jsonb(t) FROM unnest('{jobs_b,jobs_c}'::text[]) t, generate_series(1, 100);
SELECT tenant, count(*), count(quota_complete(id, attempt)::text) FROM quota_dequeue('jobs', 40) GROUP BY 1 ORDER BY 1;
UPDATE quota.tenants SET tier = 'jobs_1' WHERE tenant = 'jobs_c';
SELECT tenant, count(*), count(quota_complete(id, attempt)::text) FROM quota_dequeue('jobs', 40) GROUP BY 1 ORDER BY 1;
BEGIN;
UPDATE quota.tiers SET weight = 1000 WHERE tier = 'jobs_1';
SELECT * FROM quota_dequeue('jobs');
ROLLBACK;
BEGIN;
INSERT INTO quota.tenants (tenant, tier) VALUES ('jobs_e', 'jobs_1');
INSERT INTO quota.jobs (tenant, provider, payload) VALUES ('jobs_e', 'jobs', '"e1"');
SELECT tenant FROM quota_dequeue('jobs');
COMMIT;
-- a suspended tenant may enqueue, its jobs wait
UPDATE quota.tenants SET suspended = true WHERE tenant IN ('jobs_b', 'jobs_c');
INSERT INTO quota.jobs (tenant, provider, payload) VALUES ('jobs_b', 'jobs', '"b2"');
SELECT tenant, payload FROM quota_dequeue('jobs', 10);
SELECT tenant, state, reason, depth FROM flows WHERE tenant IN ('jobs_b', 'jobs_c');
UPDATE quota.tenants SET suspended = false WHERE tenant = 'jobs_c';
SELECT tenant, count(*) FROM quota_dequeue('jobs', 10) GROUP BY 1;
UPDATE quota.tenants SET suspended = false WHERE tenant = 'jobs_b';
DELETE FROM quota.jobs WHERE provider IN ('jobs', 'jobs2') AND state = 'queued';
SELECT quota_complete(id, attempt) FROM quota.jobs WHERE state = 'running' AND provider = 'jobs';
SELECT * FROM flows WHERE depth <> 0 OR in_flight <> 0;

-- limits: a claim is charged like a call; a job's own units decide for it
INSERT INTO quota.limits (provider, name, unit, kind, amount, period, per, burst) VALUES
	('jobs2', 'calls', 'request', 'token_bucket', 10, '1 s', '{}', 10),
	('jobs2', 'tokens', 'token', 'token_bucket', 100, '1 s', '{tenant}', 100),
	('jobs2', 'sessions', 'request', 'concurrency', 2, NULL, '{tenant}', NULL);
UPDATE quota.limits SET endpoint = 'chat' WHERE provider = 'jobs2' AND name = 'sessions';
INSERT INTO quota.jobs (tenant, provider, payload, units) VALUES
	('jobs_a', 'jobs2', '"t80"', '{"token": 80}'), ('jobs_a', 'jobs2', '"t30"', '{"token": 30}'),
	('jobs_a', 'jobs2', '"t1"', '{"token": 1}'), ('jobs_b', 'jobs2', '"t1000"', '{"token": 1000}');
SELECT payload, permit IS NOT NULL AS permit FROM quota_dequeue('jobs2', 10);
SELECT tenant, state, reason, wake_at - quota_clock() AS wait FROM quota.stat_flows WHERE provider = 'jobs2' AND depth > 0 ORDER BY 1;
SELECT limit_name, bucket, level FROM quota_explain('jobs_a', 'jobs2', units => '{"token": 1}') ORDER BY 1;
SELECT quota_clock_advance('100 ms');
SELECT payload FROM quota_dequeue('jobs2', 10);
-- measured units at the end
SELECT quota_complete(id, attempt, units => '{"token": 5}') FROM lease('t30');
SELECT limit_name, bucket, level FROM quota_explain('jobs_a', 'jobs2', units => '{"token": 1}') ORDER BY 1;
-- at most two in flight; a place that comes back is taken at once
SELECT quota_clock_advance('10 s');
INSERT INTO quota.jobs (tenant, provider, payload, endpoint)
	SELECT 'jobs_a', 'jobs2', to_jsonb('x' || n), 'chat' FROM generate_series(1, 4) n;
SELECT payload, permit IS NOT NULL AS permit FROM quota_dequeue('jobs2', 10);
SELECT reason FROM quota.stat_flows WHERE provider = 'jobs2' AND endpoint = 'chat';
SELECT quota_complete(id, attempt) FROM lease('x1');
SELECT payload FROM quota_dequeue('jobs2', 10);
SELECT quota_clock_advance('60 s');
SELECT payload, attempt FROM quota_dequeue('jobs2', 10);
SELECT limit_name, level, capacity FROM quota_explain('jobs_a', 'jobs2', 'chat') WHERE kind = 'concurrency';
SELECT quota_complete(id, attempt) FROM quota.jobs WHERE state = 'running' AND provider = 'jobs2';
SELECT limit_name, level, capacity FROM quota_explain('jobs_a', 'jobs2', 'chat') WHERE kind = 'concurrency';

-- a restore brings rows in any state: a dump has their flow
BEGIN;
INSERT INTO quota.jobs (tenant, provider) VALUES ('jobs_d', 'jobs') RETURNING flow AS f \gset
ROLLBACK;
BEGIN;
CREATE TEMP TABLE kept AS SELECT * FROM quota.jobs LIMIT 0;
INSERT INTO kept (id, tenant, provider, payload, class, state, attempt, max_attempts, run_at, dedupe_key, created_at, flow)
	SELECT 1000000000 + n, 'jobs_d', 'jobs', to_jsonb('z' || n), 'event', s, a, 5, r, d, '2025-12-31 00:00:00+00', :f
	FROM (VALUES (1, 'queued', 0, NULL, 'z'), (2, 'queued', 2, NULL, NULL), (3, 'running', 1, NULL, NULL),
		(4, 'scheduled', 0, timestamptz '2026-02-01 00:00:00+00', NULL), (5, 'succeeded', 1, NULL, 'z'), (6, 'cancelled', 0, NULL, NULL)) v(n, s, a, r, d);
INSERT INTO quota.jobs SELECT * FROM kept ORDER BY id DESC;
COMMIT;
SELECT dedupe_key FROM quota.dedupe WHERE provider = 'jobs';
SELECT * FROM jobs WHERE job LIKE 'z_';
SELECT depth, in_flight FROM flows WHERE tenant = 'jobs_d';
SELECT job, attempt FROM claim;
SELECT job, attempt FROM claim;
SELECT job, attempt FROM claim;
SELECT quota_clock_advance('60 s');
SELECT payload, attempt, quota_complete(id, attempt) FROM quota_dequeue('jobs', 10);
SELECT quota_cancel(id) FROM lease('z4');
SELECT * FROM flows WHERE depth <> 0 OR in_flight <> 0;
SELECT count(*) FROM quota.leases JOIN quota.jobs ON id = job_id WHERE provider LIKE 'jobs%';

DROP VIEW claim, flows, jobs;
DROP FUNCTION lease(text);
SELECT quota_clock_set(NULL);
