-- A session that ends the jobs it has claimed goes by where it left their rows; these
-- may be elsewhere by then, and others in their place.
-- In a database of its own: a table becomes short only when all are gone.
SELECT current_database() AS old \gset
CREATE DATABASE jobs_where;
\c jobs_where
SET client_min_messages = warning;
CREATE EXTENSION quota;
SELECT quota_clock_set('2026-01-01 00:00:00+00');
INSERT INTO quota.tiers (tier) VALUES ('jw');
INSERT INTO quota.tenants (tenant, tier) VALUES ('jw', 'jw');
INSERT INTO quota.providers (provider) VALUES ('jw');
CREATE TABLE jw_jobs AS WITH new AS (
	INSERT INTO quota.jobs (tenant, provider, payload) SELECT 'jw', 'jw', to_jsonb(n) FROM generate_series(1, 8) n RETURNING id, payload)
	SELECT id, payload::int AS n FROM new;
CREATE FUNCTION jw_complete(job int) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM quota_complete(id, 1, to_jsonb(n)) FROM jw_jobs WHERE n = job;
	RETURN 'succeeded';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE;
END $$;

-- a claim that is rolled back leaves nothing to end
BEGIN;
SELECT count(*) FROM quota_dequeue('jw', 8);
ROLLBACK;
SELECT jw_complete(1);
SELECT count(*) FROM quota_dequeue('jw', 8);

-- rows that have a new version
UPDATE quota.jobs SET payload = '20' WHERE provider = 'jw' AND payload = '2';
SELECT lease_until = '2026-01-01 02:00:00+00' AS extended FROM jw_jobs, quota_extend_job(id, 1, '2 hours') WHERE n = 4;
SELECT jw_complete(n) FROM generate_series(1, 3, 2) n;

-- all in other places, most in those of others
VACUUM FULL quota.leases, quota.jobs;
SELECT jw_complete(n) FROM generate_series(2, 5) n;
SELECT quota_complete(array_agg(id ORDER BY n), array_agg(1 ORDER BY n), array_agg(to_jsonb(n) ORDER BY n)) FROM jw_jobs WHERE n > 5;
SELECT payload, result, state FROM quota.jobs WHERE provider = 'jw' ORDER BY id;

-- no place at all: the table has become shorter
SELECT count(*) FROM quota.leases;
VACUUM FULL quota.leases;
SELECT jw_complete(n) FROM generate_series(1, 8, 7) n;

-- triggers on leases, that none are deleted without
INSERT INTO quota.jobs (tenant, provider) VALUES ('jw', 'jw');
SELECT id AS job FROM quota_dequeue('jw') \gset
CREATE FUNCTION jw_keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER jw_keep BEFORE DELETE ON quota.leases FOR EACH ROW EXECUTE FUNCTION jw_keep();
SELECT quota_complete(:job, 1);
DROP TRIGGER jw_keep ON quota.leases;
CREATE FUNCTION jw_pass() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN OLD; END $$;
CREATE TRIGGER jw_pass BEFORE DELETE ON quota.leases FOR EACH ROW EXECUTE FUNCTION jw_pass();
BEGIN;
SELECT quota_complete(:job, 1);
SELECT state, (SELECT count(*) FROM quota.leases) AS leases FROM quota.jobs WHERE id = :job;
ROLLBACK;
DROP TRIGGER jw_pass ON quota.leases;
CREATE FUNCTION jw_tell() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE WARNING 'a lease of attempt % is gone', old.attempt;
	RETURN NULL;
END $$;
CREATE TRIGGER jw_tell AFTER DELETE ON quota.leases FOR EACH ROW EXECUTE FUNCTION jw_tell();
SELECT quota_complete(:job, 1);
SELECT state, (SELECT count(*) FROM quota.leases) AS leases FROM quota.jobs WHERE id = :job;

\c :old
DROP DATABASE jobs_where;
