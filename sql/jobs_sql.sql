-- Plain SQL on quota.jobs: what works, what is refused, and what triggers, foreign
-- keys and row security of users have to say.
SET timezone = 'UTC';
SET statement_timeout = '60 s';
SELECT quota_clock_set('2026-06-01 00:00:00+00');
INSERT INTO quota.tiers (tier) VALUES ('sql');
INSERT INTO quota.tenants (tenant, tier, max_queued) VALUES ('sql_a', 'sql', NULL), ('sql_b', 'sql', 2);
INSERT INTO quota.providers (provider, safety) VALUES ('sql', 1);
CREATE VIEW claim AS
	SELECT tenant, payload, units, "user", connection FROM quota_dequeue('sql');
CREATE VIEW jobs AS
	SELECT tenant, payload, state FROM quota.jobs WHERE tenant LIKE 'sql\_%' ORDER BY id;
CREATE PROCEDURE finish() LANGUAGE plpgsql AS $$
BEGIN
	PERFORM quota_complete(id, attempt) FROM quota.jobs WHERE tenant LIKE 'sql\_%' AND state = 'running';
	DELETE FROM quota.jobs WHERE tenant LIKE 'sql\_%';
END $$;

-- UPDATE: what the worker gets may change while the job waits, who and where it is may not
INSERT INTO quota.jobs (id, tenant, provider, payload) VALUES (7000011, 'sql_a', 'sql', '1'), (7000012, 'sql_a', 'sql', '2'), (7000013, 'sql_a', 'sql', '3');
UPDATE quota.jobs SET payload = '"new"', units = '{"token": 5}', "user" = 'u', connection = 'c', resource = 'r', max_attempts = 1
	WHERE tenant = 'sql_a' AND payload = '1';
UPDATE quota.jobs SET class = 'batch' WHERE tenant = 'sql_a';
UPDATE quota.jobs SET tenant = 'sql_b' WHERE tenant = 'sql_a';
UPDATE quota.jobs SET provider = 'other' WHERE tenant = 'sql_a';
UPDATE quota.jobs SET endpoint = 'e' WHERE tenant = 'sql_a';
UPDATE quota.jobs SET run_at = now() WHERE tenant = 'sql_a';
UPDATE quota.jobs SET start_before = now() WHERE tenant = 'sql_a';
UPDATE quota.jobs SET dedupe_key = 'k' WHERE tenant = 'sql_a';
UPDATE quota.jobs SET state = 'succeeded' WHERE tenant = 'sql_a';
UPDATE quota.jobs SET attempt = 3 WHERE tenant = 'sql_a';
UPDATE quota.jobs SET flow = 3 WHERE tenant = 'sql_a';
UPDATE quota.jobs SET history = '[]' WHERE tenant = 'sql_a';
UPDATE quota.jobs SET units = '{"token": "many"}' WHERE tenant = 'sql_a';
\set VERBOSITY terse
UPDATE quota.jobs SET max_attempts = 0 WHERE tenant = 'sql_a';
\set VERBOSITY default
-- names that no decision could go by
UPDATE quota.jobs SET "user" = repeat('x', 128) WHERE tenant = 'sql_a';
UPDATE quota.jobs SET connection = repeat('x', 128) WHERE tenant = 'sql_a';
UPDATE quota.jobs SET resource = repeat('x', 128) WHERE tenant = 'sql_a';
-- no change is a change of nothing
UPDATE quota.jobs SET tenant = tenant, state = state WHERE tenant = 'sql_a';
SELECT * FROM claim;
SELECT * FROM claim;
-- a running job's too; its worker has what it was given
UPDATE quota.jobs SET payload = '"late"' WHERE tenant = 'sql_a' AND payload = '2';
SELECT * FROM jobs;

-- DELETE: of a job that waits or is over; TRUNCATE never
DELETE FROM quota.jobs WHERE id = 7000011;
DELETE FROM quota.jobs WHERE tenant = 'sql_a' AND state = 'queued';
SELECT * FROM claim;
TRUNCATE quota.jobs;
TRUNCATE quota.jobs CASCADE;
SELECT count(*) FROM (SELECT quota_complete(id, attempt) FROM quota.jobs WHERE tenant = 'sql_a' AND state = 'running') c;
UPDATE quota.jobs SET result = '"mine"' WHERE tenant = 'sql_a' AND state = 'succeeded';
SELECT payload, result FROM quota.jobs WHERE tenant = 'sql_a' ORDER BY id;
DELETE FROM quota.jobs WHERE tenant = 'sql_a';
SELECT depth, in_flight FROM quota.stat_flows WHERE tenant = 'sql_a' AND depth + in_flight > 0;

-- MERGE inserts, and is refused, as INSERT is
MERGE INTO quota.jobs j USING generate_series(1, 2) n ON j.tenant = 'sql_b' AND j.payload = to_jsonb(n)
	WHEN MATCHED THEN UPDATE SET payload = '"again"'
	WHEN NOT MATCHED THEN INSERT (tenant, provider, payload) VALUES ('sql_b', 'sql', to_jsonb(n));
MERGE INTO quota.jobs j USING generate_series(2, 3) n ON j.tenant = 'sql_b' AND j.payload = to_jsonb(n)
	WHEN MATCHED THEN UPDATE SET payload = '"again"'
	WHEN NOT MATCHED THEN INSERT (tenant, provider, payload) VALUES ('sql_b', 'sql', to_jsonb(n));
SELECT * FROM jobs;
-- a CTE that writes twice takes and gives back like two statements
DELETE FROM quota.jobs WHERE tenant = 'sql_b';
WITH one AS (INSERT INTO quota.jobs (tenant, provider, payload) VALUES ('sql_b', 'sql', '1') RETURNING id),
	two AS (INSERT INTO quota.jobs (id, tenant, provider, payload) VALUES (7000001, 'sql_b', 'sql', '2') RETURNING id)
	SELECT count(*) FROM one, two;
SELECT unfinished, enqueuing FROM quota.stat_tenants WHERE tenant = 'sql_b';
CALL finish();

-- triggers of users: one that comes before ours may say whose job it is, none that comes later
CREATE FUNCTION redirect() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	new.tenant = 'sql_b';
	RETURN new;
END $$;
CREATE TRIGGER redirect BEFORE INSERT ON quota.jobs FOR EACH ROW WHEN (new.payload = '"redirect"') EXECUTE FUNCTION redirect();
INSERT INTO quota.jobs (tenant, provider, payload) VALUES ('sql_a', 'sql', '"redirect"');
SELECT created, reason FROM quota_enqueue('sql_a', 'sql', '"redirect"');
SELECT created, reason FROM quota_enqueue('sql_a', 'sql', '"redirect"');
SELECT created, reason FROM quota_enqueue('sql_b', 'sql', '"redirect"');
SELECT tenant, unfinished, enqueuing FROM quota.stat_tenants WHERE tenant LIKE 'sql\_%' AND unfinished + enqueuing > 0;
-- the place it was promised goes back
UPDATE quota.tenants SET max_queued = 5 WHERE tenant IN ('sql_a', 'sql_b');
BEGIN;
SELECT created, reason FROM quota_enqueue('sql_a', 'sql', '"redirect"');
SELECT tenant, unfinished, enqueuing FROM quota.stat_tenants WHERE tenant LIKE 'sql\_%' AND unfinished + enqueuing > 0;
COMMIT;
SELECT tenant, unfinished, enqueuing FROM quota.stat_tenants WHERE tenant LIKE 'sql\_%' AND unfinished + enqueuing > 0;
DROP TRIGGER redirect ON quota.jobs;
CREATE TRIGGER zzz_redirect BEFORE INSERT ON quota.jobs FOR EACH ROW EXECUTE FUNCTION redirect();
INSERT INTO quota.jobs (id, tenant, provider, payload) VALUES (7000002, 'sql_a', 'sql', '1');
INSERT INTO quota.jobs (tenant, provider, payload) VALUES ('sql_b', 'sql', '1');
DROP TRIGGER zzz_redirect ON quota.jobs;
CALL finish();

-- foreign keys: a job that is referred to stays, or what refers to it goes along
CREATE TABLE refers (job bigint REFERENCES quota.jobs);
CREATE TABLE follows (job bigint REFERENCES quota.jobs ON DELETE CASCADE);
INSERT INTO quota.jobs (id, tenant, provider, payload) VALUES (7000003, 'sql_a', 'sql', '1') RETURNING id \gset
INSERT INTO refers VALUES (:id);
DELETE FROM quota.jobs WHERE id = :id;
SELECT * FROM claim;
SELECT quota_complete(:id, 1);
DELETE FROM refers;
INSERT INTO follows VALUES (:id);
DELETE FROM quota.jobs WHERE id = :id;
SELECT count(*) FROM follows;
-- and one that is not there can't be referred to
INSERT INTO refers VALUES (:id);
-- in the order in which a background worker that forgets old jobs locks them
BEGIN;
LOCK TABLE quota.jobs;
DROP TABLE refers, follows;
COMMIT;

-- row security: it holds for SQL, not for the functions; whoever may call them acts for any tenant
CREATE ROLE sql_app;
GRANT USAGE ON SCHEMA quota TO sql_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON quota.jobs TO sql_app;
GRANT SELECT ON claim, jobs TO sql_app;
GRANT EXECUTE ON FUNCTION quota_enqueue, quota_dequeue(text, int, text, interval, boolean, boolean), quota_complete(bigint, int, jsonb, jsonb, jsonb, interval), quota_cancel TO sql_app;
ALTER TABLE quota.jobs ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON quota.jobs USING (tenant = 'sql_a');
SET ROLE sql_app;
INSERT INTO quota.jobs (tenant, provider, payload) VALUES ('sql_a', 'sql', '"a"');
INSERT INTO quota.jobs (tenant, provider, payload) VALUES ('sql_b', 'sql', '"b"');
SELECT created FROM quota_enqueue('sql_b', 'sql', '"b"');
SELECT tenant, payload FROM quota.jobs WHERE provider = 'sql' ORDER BY id;
UPDATE quota.jobs SET payload = '"x"' WHERE payload = '"b"';
DELETE FROM quota.jobs WHERE payload = '"b"';
SELECT tenant, payload FROM quota_dequeue('sql', 5) ORDER BY 1;
SELECT count(*) FROM quota.jobs WHERE provider = 'sql' AND state = 'running';
RESET ROLE;
SELECT * FROM jobs;
SELECT id FROM quota.jobs WHERE tenant = 'sql_b' AND provider = 'sql' AND state = 'running' \gset
SET ROLE sql_app;
SELECT quota_complete(:id, 1);
RESET ROLE;
SELECT * FROM jobs;
-- FORCE makes no difference to that
ALTER TABLE quota.jobs FORCE ROW LEVEL SECURITY;
SET ROLE sql_app;
SELECT created FROM quota_enqueue('sql_b', 'sql', '"b2"');
SELECT tenant, payload FROM quota_dequeue('sql', 5) ORDER BY 1;
RESET ROLE;
ALTER TABLE quota.jobs NO FORCE ROW LEVEL SECURITY;
ALTER TABLE quota.jobs DISABLE ROW LEVEL SECURITY;
DROP POLICY own ON quota.jobs;
DROP OWNED BY sql_app;
DROP ROLE sql_app;
CALL finish();
DROP FUNCTION redirect;
SELECT tenant, unfinished, enqueuing FROM quota.stat_tenants WHERE tenant LIKE 'sql\_%' AND unfinished + enqueuing > 0;
DROP VIEW claim, jobs;
DROP PROCEDURE finish;
