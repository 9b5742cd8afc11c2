-- Constraints and triggers that users add to quota.jobs hold for what quota
-- writes, from the moment they are there.
SELECT quota_clock_set('2026-01-01 00:00:00+00');
INSERT INTO quota.tiers (tier) VALUES ('jk');
INSERT INTO quota.tenants (tenant, tier) VALUES ('jk', 'jk');
INSERT INTO quota.providers (provider) VALUES ('jk');
INSERT INTO quota.jobs (tenant, provider, payload) SELECT 'jk', 'jk', to_jsonb(n) FROM generate_series(1, 7) n;

-- what a claim gives: the job, or what refused it
CREATE FUNCTION jk_claim() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	job text;
BEGIN
	SELECT payload INTO job FROM quota_dequeue('jk');
	RETURN job;
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
SELECT jk_claim();

-- a new constraint, in a session that has claimed before
ALTER TABLE quota.jobs ADD CONSTRAINT jk_state CHECK (provider <> 'jk' OR state <> 'running') NOT VALID;
SELECT jk_claim();
ALTER TABLE quota.jobs DROP CONSTRAINT jk_state;
SELECT jk_claim();

-- a function that changes: inlined and not
CREATE FUNCTION jk_good(job quota.jobs) RETURNS boolean IMMUTABLE LANGUAGE sql AS $$ SELECT job.attempt < 10 $$;
ALTER TABLE quota.jobs ADD CONSTRAINT jk_good CHECK (jk_good(jobs));
SELECT jk_claim();
CREATE OR REPLACE FUNCTION jk_good(job quota.jobs) RETURNS boolean IMMUTABLE LANGUAGE sql AS $$ SELECT job.attempt < 1 $$;
SELECT jk_claim();
CREATE OR REPLACE FUNCTION jk_good(job quota.jobs) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RETURN job.attempt < 10; END $$;
SELECT jk_claim();

-- each role needs the right to call it
REVOKE EXECUTE ON FUNCTION jk_good FROM PUBLIC;
CREATE ROLE jk_worker;
DO $$ BEGIN
	EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO jk_worker', (SELECT oid::regprocedure FROM pg_proc
		WHERE proname = 'quota_dequeue' AND proargtypes[0] = 'text'::regtype));
END $$;
SELECT jk_claim();
SET ROLE jk_worker;
SELECT jk_claim();
RESET ROLE;
DROP OWNED BY jk_worker;
DROP ROLE jk_worker;

-- a constraint whose function writes jobs itself, in the middle of its evaluation
ALTER TABLE quota.jobs DROP CONSTRAINT jk_good;
DROP FUNCTION jk_good;
CREATE FUNCTION jk_payload(job quota.jobs) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
	IF job.state = 'running' AND job.payload = '6' THEN
		PERFORM quota_dequeue('jk');
	END IF;
	RETURN job.payload;
END $$;
ALTER TABLE quota.jobs ADD CONSTRAINT jk_payload CHECK (payload = jk_payload(jobs));
SELECT jk_claim();
ALTER TABLE quota.jobs DROP CONSTRAINT jk_payload;
DROP FUNCTION jk_payload;
SELECT payload, state FROM quota.jobs WHERE provider = 'jk' ORDER BY id;

-- a constraint is evaluated when what it goes by is written: not that of the payload,
-- when a job is claimed; but then all that does not say what it goes by, or may not hold
INSERT INTO quota.jobs (tenant, provider, payload) VALUES ('jk', 'jk', '"told"');
CREATE FUNCTION jk_tell(what text, payload jsonb) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
	IF payload = '"told"' THEN
		RAISE NOTICE '%', what;
	END IF;
	RETURN true;
END $$;
CREATE FUNCTION jk_row(job quota.jobs) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN jk_tell('row', job.payload); END $$;
CREATE FUNCTION jk_ask(payload jsonb) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RETURN jk_tell('volatile', payload); END $$;
ALTER TABLE quota.jobs
	ADD CONSTRAINT jk_1 CHECK (jk_tell('payload', payload)),
	ADD CONSTRAINT jk_2 CHECK (jk_tell('payload and state ' || state, payload)),
	ADD CONSTRAINT jk_3 CHECK (jk_tell('payload, not valid', payload)) NOT VALID,
	ADD CONSTRAINT jk_4 CHECK (jk_row(jobs)),
	ADD CONSTRAINT jk_5 CHECK (jk_ask(payload));
SELECT jk_claim();
UPDATE quota.jobs SET payload = payload WHERE payload = '"told"';
ALTER TABLE quota.jobs DROP CONSTRAINT jk_1, DROP CONSTRAINT jk_2, DROP CONSTRAINT jk_3, DROP CONSTRAINT jk_4, DROP CONSTRAINT jk_5;
DROP FUNCTION jk_tell, jk_row, jk_ask;

-- a trigger that fires after ours may change what belongs to the user, no more
INSERT INTO quota.jobs (tenant, provider, payload) SELECT 'jk', 'jk', to_jsonb(n) FROM generate_series(8, 12) n;
CREATE FUNCTION jk_trigger() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_ARGV[0] = 'payload' THEN
		UPDATE quota.jobs SET payload = payload || '"seen"' WHERE id = NEW.id;
	ELSE
		UPDATE quota.jobs SET state = 'succeeded' WHERE id = NEW.id;
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER jk_state AFTER UPDATE OF state ON quota.jobs FOR EACH ROW WHEN (NEW.state = 'running') EXECUTE FUNCTION jk_trigger('state');
SELECT jk_claim();
DROP TRIGGER jk_state ON quota.jobs;
CREATE TRIGGER jk_payload AFTER UPDATE OF state ON quota.jobs FOR EACH ROW WHEN (NEW.state = 'running') EXECUTE FUNCTION jk_trigger('payload');
SELECT jk_claim();
DROP TRIGGER jk_payload ON quota.jobs;
-- ... and so may one before
CREATE FUNCTION jk_before() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	NEW.payload := NEW.payload || '"before"';
	IF NEW.payload @> '10' THEN
		NEW.class := 'batch';
	END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER jk_before BEFORE UPDATE OF state ON quota.jobs FOR EACH ROW EXECUTE FUNCTION jk_before();
SELECT jk_claim();
SELECT jk_claim();
DROP TRIGGER jk_before ON quota.jobs;
DROP FUNCTION jk_before;
SELECT payload, state FROM quota.jobs WHERE provider = 'jk' AND finished_at IS NULL AND (state = 'queued' OR payload @> '"seen"' OR payload @> '"before"') ORDER BY id;

SELECT count(quota_complete(id, attempt)::text) FROM quota.jobs WHERE provider = 'jk' AND state = 'running';
SELECT count(quota_cancel(id)) FROM quota.jobs WHERE provider = 'jk' AND state = 'queued';

-- one call sets other columns of one job than of the next one: what goes by them sees it
INSERT INTO quota.jobs (tenant, provider, payload) SELECT 'jk', 'jk', '"each"' FROM generate_series(1, 3);
SELECT array_agg(id ORDER BY id) AS ids FROM quota_dequeue('jk', 10) WHERE payload = '"each"' \gset
ALTER TABLE quota.jobs ADD CONSTRAINT jk_result CHECK (result <> '"no"');
\set VERBOSITY terse
SELECT quota_complete(:'ids', ARRAY[1, 1, 1], ARRAY[NULL, '"no"', NULL]::jsonb[]);
\set VERBOSITY default
ALTER TABLE quota.jobs DROP CONSTRAINT jk_result;
CREATE FUNCTION jk_told() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'result %', NEW.result; RETURN NULL; END $$;
CREATE TRIGGER jk_told AFTER UPDATE OF result ON quota.jobs FOR EACH ROW EXECUTE FUNCTION jk_told();
SELECT quota_complete(:'ids', ARRAY[1, 1, 1], ARRAY[NULL, '"yes"', NULL]::jsonb[]);
DROP TRIGGER jk_told ON quota.jobs;
DROP FUNCTION jk_told;

DELETE FROM quota.jobs WHERE provider = 'jk';
DELETE FROM quota.tenants WHERE tier = 'jk';
DELETE FROM quota.providers WHERE provider = 'jk';
DELETE FROM quota.tiers WHERE tier = 'jk';
DROP FUNCTION jk_claim, jk_trigger;
