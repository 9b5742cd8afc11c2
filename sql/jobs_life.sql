-- Jobs: what rolls back with a transaction, whose rights triggers run with, and
-- what rows may say of themselves.
SET timezone = 'UTC';
ALTER TABLE quota.jobs ALTER COLUMN id RESTART WITH 1100001;
SELECT quota_clock_set('2026-02-01 00:00:00+00');

INSERT INTO quota.tiers (tier) VALUES ('life');
INSERT INTO quota.tenants (tenant, tier) VALUES ('life_a', 'life'), ('life_b', 'life');
INSERT INTO quota.providers (provider, safety) VALUES ('life', 1);
INSERT INTO quota.limits (provider, name, per, kind, amount)
	VALUES ('life', 'calls', '{tenant}', 'concurrency', 1);

CREATE VIEW claim AS SELECT payload #>> '{}' AS job, attempt FROM quota_dequeue('life');
CREATE VIEW flows AS
	SELECT tenant, state, reason, wake_at, depth, in_flight
	FROM quota.stat_flows WHERE provider = 'life' ORDER BY tenant COLLATE "C";
CREATE VIEW permits AS
	SELECT tenant, job IS NOT NULL AS of_job, expires_at FROM quota.stat_permits WHERE provider = 'life';
CREATE FUNCTION running(OUT id bigint, OUT attempt int, OUT permit bigint) LANGUAGE sql AS
$$ SELECT j.id, j.attempt, l.permit FROM quota.jobs j JOIN quota.leases l ON l.job_id = j.id
	WHERE j.provider = 'life' AND j.state = 'running' ORDER BY j.id DESC LIMIT 1 $$;

-- a longer lease that rolls back leaves neither lease nor permit longer
INSERT INTO quota.jobs (tenant, provider, payload) VALUES ('life_a', 'life', '"e1"'), ('life_a', 'life', '"e2"');
SELECT * FROM claim;
SELECT * FROM permits;
BEGIN;
SELECT (quota_extend_job(id, attempt, '23 h')).lease_until FROM running();
SELECT * FROM permits;
SELECT * FROM claim;
SELECT state, reason, wake_at FROM flows;
ROLLBACK;
SELECT * FROM permits;
SELECT state, reason, wake_at FROM flows;
-- so with savepoints: back to what was before each
BEGIN;
SELECT (quota_extend_job(id, attempt, '2 min')).lease_until FROM running();
SELECT (quota_extend_job(id, attempt, '3 min')).lease_until FROM running();
SAVEPOINT s;
SELECT (quota_extend_job(id, attempt, '1 h')).lease_until FROM running();
SELECT (quota_extend_job(id, attempt, '2 h')).lease_until FROM running();
SELECT * FROM permits;
ROLLBACK TO s;
SELECT * FROM permits;
ROLLBACK;
SELECT * FROM permits;
-- what commits stays
BEGIN;
SELECT (quota_extend_job(id, attempt, '90 s')).lease_until FROM running();
COMMIT;
SELECT * FROM permits;
-- the same of a permit
SELECT quota_clock_advance('30 s');
BEGIN;
SELECT quota_extend(permit, '1 min') FROM quota_acquire('life_b', 'life');
ROLLBACK;
SELECT permit FROM quota_acquire('life_b', 'life') \gset
SELECT quota_clock_advance('30 s');
BEGIN;
SELECT quota_extend(:permit, '1 min');
ROLLBACK;
SELECT * FROM permits ORDER BY of_job;
SELECT quota_clock_advance('30 s');
SELECT * FROM permits;
SELECT * FROM claim;
SELECT quota_complete(id, attempt) FROM running();
SELECT * FROM claim;
SELECT quota_complete(id, attempt) FROM running();

-- cancelling a job whose lease is over ends what its permit still holds
INSERT INTO quota.jobs (tenant, provider, payload) VALUES ('life_a', 'life', '"x1"'), ('life_a', 'life', '"x2"');
SELECT * FROM claim;
SELECT quota_clock_advance('30 s');
SELECT quota_extend(permit, '1 min') FROM running();
SELECT quota_clock_advance('30 s');
SELECT * FROM permits;
SELECT * FROM claim;
BEGIN;
SELECT quota_cancel(id) FROM running();
SELECT * FROM permits;
ROLLBACK;
SELECT * FROM permits;
SELECT quota_cancel(id) FROM running();
SELECT * FROM permits;
SELECT * FROM claim;
SELECT quota_complete(id, attempt) FROM running();

-- completing many makes no more of the journal than completing one
INSERT INTO quota.jobs (tenant, provider) SELECT 'life_b', 'life' FROM generate_series(1, 3000);
DELETE FROM quota.limits WHERE provider = 'life';
SELECT count(*) FROM (SELECT quota_dequeue('life', 1000) FROM generate_series(1, 3)) s;
BEGIN;
SELECT used_bytes AS before FROM pg_backend_memory_contexts WHERE name = 'TopMemoryContext' \gset
SELECT count(quota_complete(ids, attempts)::text) FROM
	(SELECT array_agg(id) AS ids, array_agg(attempt) AS attempts FROM quota.jobs
	 WHERE provider = 'life' AND state = 'running') s;
SELECT used_bytes - :before < 100000 AS small FROM pg_backend_memory_contexts WHERE name = 'TopMemoryContext';
COMMIT;
SELECT depth, in_flight FROM flows WHERE tenant = 'life_b';
DELETE FROM quota.jobs WHERE tenant = 'life_b';

-- a trigger's own UPDATE of the job is a user's, also inside of ours
CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.state = 'running' THEN
		UPDATE quota.jobs SET state = 'queued', attempt = 0 WHERE id = NEW.id;
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER meddle AFTER UPDATE ON quota.jobs FOR EACH ROW EXECUTE FUNCTION meddle();
INSERT INTO quota.jobs (tenant, provider, payload) VALUES ('life_a', 'life', '"m1"');
SELECT * FROM claim;
DROP TRIGGER meddle ON quota.jobs;
-- nor may it change what we write
CREATE FUNCTION meddle_before() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	NEW.attempt := 0;
	RETURN NEW;
END $$;
CREATE TRIGGER meddle BEFORE UPDATE ON quota.jobs FOR EACH ROW EXECUTE FUNCTION meddle_before();
SELECT * FROM claim;
DROP TRIGGER meddle ON quota.jobs;
-- what else it does works: here, another job of ours within
CREATE OR REPLACE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.state = 'running' THEN
		PERFORM quota_cancel(id) FROM quota.jobs WHERE payload = '"m2"' AND state = 'queued';
		NEW.error := 'seen';
	END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER meddle BEFORE UPDATE ON quota.jobs FOR EACH ROW EXECUTE FUNCTION meddle();
INSERT INTO quota.jobs (tenant, provider, payload) VALUES ('life_a', 'life', '"m2"');
SELECT * FROM claim;
SELECT payload, state, attempt, error FROM quota.jobs WHERE tenant = 'life_a' AND payload::text LIKE '"m%' ORDER BY id;
SELECT quota_complete(id, attempt) FROM running();
DROP TRIGGER meddle ON quota.jobs;
DROP FUNCTION meddle(), meddle_before();
SELECT * FROM flows;

-- only a row with the right flow is taken for one from a dump
INSERT INTO quota.jobs (tenant, provider, flow) VALUES ('life_none', 'life', 0);
INSERT INTO quota.jobs (tenant, provider, flow) VALUES ('life_a', 'life_none', 0);
INSERT INTO quota.jobs (tenant, provider, class, flow) VALUES ('life_a', 'life', 'none', 0);
INSERT INTO quota.tenants (tenant, tier) VALUES ('life_late', 'life');
INSERT INTO quota.jobs (tenant, provider, payload) VALUES ('life_late', 'life', '"u1"') RETURNING flow \gset
DELETE FROM quota.jobs WHERE tenant = 'life_late';
DELETE FROM quota.tenants WHERE tenant = 'life_late';
INSERT INTO quota.jobs (tenant, provider, payload, flow) VALUES ('life_late', 'life', '"u1"', :flow);
SELECT * FROM claim;
SELECT state, reason, depth FROM flows WHERE tenant = 'life_late';

-- a tenant that only this transaction sees is nobody's yet
BEGIN;
INSERT INTO quota.tenants (tenant, tier, weight) VALUES ('life_late', 'life', 5);
INSERT INTO quota.jobs (tenant, provider, payload) VALUES ('life_a', 'life', '"u2"');
SELECT * FROM claim;
SELECT weight FROM quota.stat_tenants WHERE tenant = 'life_late' AND provider = 'life';
ROLLBACK;
SELECT weight FROM quota.stat_tenants WHERE tenant = 'life_late' AND provider = 'life';
SELECT * FROM claim;
INSERT INTO quota.tenants (tenant, tier, weight) VALUES ('life_late', 'life', 5);
SELECT * FROM claim;
SELECT weight FROM quota.stat_tenants WHERE tenant = 'life_late' AND provider = 'life';
SELECT quota_complete(id, attempt) FROM running();

-- triggers on our tables run as the caller, whatever he may not do himself
CREATE ROLE regress_quota_app;
GRANT USAGE ON SCHEMA quota TO regress_quota_app;
GRANT TRIGGER ON quota.jobs, quota.events, quota.ledger, quota.holds TO regress_quota_app;
GRANT SELECT, UPDATE ON quota.tenants TO regress_quota_app;
GRANT EXECUTE ON FUNCTION quota_enqueue, quota_dequeue(text, int, text, interval, boolean, boolean), quota_complete(bigint, int, jsonb, jsonb, jsonb, interval),
	quota_grant TO regress_quota_app;
GRANT CREATE ON SCHEMA public TO regress_quota_app;
INSERT INTO quota.limits (provider, name, per, unit, kind, amount, period)
	VALUES ('life', 'credits', '{tenant}', 'request', 'allowance', 100, '1 month');
SET ROLE regress_quota_app;
CREATE FUNCTION public.who() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE NOTICE '% on % as %', TG_OP, TG_TABLE_NAME, current_user;
	RETURN NULL;
END $$;
CREATE TRIGGER who AFTER INSERT OR UPDATE OR DELETE ON quota.jobs FOR EACH ROW EXECUTE FUNCTION public.who();
CREATE TRIGGER who AFTER INSERT OR DELETE ON quota.events FOR EACH ROW EXECUTE FUNCTION public.who();
CREATE TRIGGER who AFTER INSERT ON quota.ledger FOR EACH ROW EXECUTE FUNCTION public.who();
CREATE TRIGGER who AFTER INSERT OR UPDATE OR DELETE ON quota.holds FOR EACH ROW EXECUTE FUNCTION public.who();
SELECT created FROM quota_enqueue('life_a', 'life', '"w1"', max_attempts => 2);
SELECT created FROM quota_enqueue('life_a', 'life', '"w2"', dedupe_key => 'w');
INSERT INTO quota.jobs (tenant, provider) VALUES ('life_a', 'life');
SELECT id AS job, attempt FROM quota_dequeue('life') \gset
SELECT quota_complete(:job, :attempt);
SELECT quota_grant('life_a', 'life', 'credits', 5);
UPDATE quota.tenants SET suspended = true WHERE tenant = 'life_b';
RESET ROLE;
SELECT payload, class, state, attempt, max_attempts, created_at FROM quota.jobs WHERE payload::text LIKE '"w%' ORDER BY id;
DROP TRIGGER who ON quota.jobs;
DROP TRIGGER who ON quota.events;
DROP TRIGGER who ON quota.ledger;
DROP TRIGGER who ON quota.holds;
DROP FUNCTION public.who();
DROP OWNED BY regress_quota_app;
DROP ROLE regress_quota_app;

-- defaults of the table hold for quota_enqueue too
ALTER TABLE quota.jobs ADD COLUMN origin text DEFAULT 'here', ALTER COLUMN max_attempts SET DEFAULT 3;
SELECT created FROM quota_enqueue('life_a', 'life', '"o1"');
SELECT origin, max_attempts FROM quota.jobs WHERE payload = '"o1"';
ALTER TABLE quota.jobs DROP COLUMN origin, ALTER COLUMN max_attempts DROP DEFAULT;

-- leave nothing that other tests meet
SELECT count(quota_cancel(id)) FROM quota.jobs WHERE provider = 'life' AND state = 'queued';
DELETE FROM quota.jobs WHERE provider = 'life';
DELETE FROM quota.limits WHERE provider = 'life';
DROP VIEW claim, flows, permits;
DROP FUNCTION running;
SELECT quota_clock_set(NULL);
