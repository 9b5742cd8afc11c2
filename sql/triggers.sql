-- Trigger functions of quota serve quota's own triggers and nobody else.
SELECT quota_clock_set('2026-01-01 00:00:00+00');
\set SHOW_CONTEXT never

-- nobody has been given them
SELECT p.oid::regprocedure AS executable_by_all
FROM pg_proc AS p
WHERE p.pronamespace = 'quota'::regnamespace
	AND p.prorettype = 'trigger'::regtype
	AND has_function_privilege('public', p.oid, 'EXECUTE')
ORDER BY 1;
CREATE ROLE triggers_user;
GRANT USAGE ON SCHEMA quota TO triggers_user;
GRANT CREATE ON SCHEMA public TO triggers_user;
SET ROLE triggers_user;
CREATE TABLE triggers_mine (a int);
CREATE TRIGGER t BEFORE INSERT ON triggers_mine FOR EACH ROW EXECUTE FUNCTION quota.jobs_before_insert();
RESET ROLE;
DROP TABLE triggers_mine;
REVOKE CREATE ON SCHEMA public FROM triggers_user;
REVOKE USAGE ON SCHEMA quota FROM triggers_user;
DROP ROLE triggers_user;

-- and whoever may attach them to another table gets an error, whatever its columns
CREATE FUNCTION try_trigger(look_like text, function text, shape text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE TABLE another (LIKE %s)', look_like);
	EXECUTE format('INSERT INTO another SELECT * FROM %s LIMIT 1', look_like);
	EXECUTE format('CREATE TRIGGER t %s ON another %s EXECUTE FUNCTION quota.%I()',
		split_part(shape, '/', 1), split_part(shape, '/', 2), function);
	CASE split_part(split_part(shape, '/', 1), ' ', 2)
		WHEN 'INSERT' THEN EXECUTE format('INSERT INTO another SELECT * FROM %s LIMIT 1', look_like);
		WHEN 'UPDATE' THEN EXECUTE format('UPDATE another SET %1$I = %1$I',
			(SELECT attname FROM pg_attribute WHERE attrelid = 'another'::regclass AND attnum = 1));
		WHEN 'DELETE' THEN DELETE FROM another;
		WHEN 'TRUNCATE' THEN TRUNCATE another;
	END CASE;
	RAISE EXCEPTION 'it was called';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
INSERT INTO quota.tiers (tier) VALUES ('trg');
INSERT INTO quota.tenants (tenant, tier) VALUES ('trg', 'trg');
INSERT INTO quota.providers (provider) VALUES ('trg');
INSERT INTO quota.limits (provider, name, unit, kind, amount, period) VALUES ('trg', 'credits', 'credit', 'allowance', 10, '1 day');
INSERT INTO quota.tenant_limits (tenant, provider, name) VALUES ('trg', 'trg', 'none');
INSERT INTO quota.jobs (tenant, provider, dedupe_key) VALUES ('trg', 'trg', 'key');
SELECT quota_grant(NULL, 'trg', 'credits', 1);
CREATE TABLE one (a int);
INSERT INTO one VALUES (1);
SELECT f, s, t, try_trigger(t, f, s) FROM (VALUES
	('jobs_before_insert', 'BEFORE INSERT/FOR EACH ROW', 'quota.jobs'),
	('jobs_after_insert', 'AFTER INSERT/FOR EACH ROW', 'quota.jobs'),
	('jobs_before_update', 'BEFORE UPDATE/FOR EACH ROW', 'quota.jobs'),
	('jobs_before_delete', 'BEFORE DELETE/FOR EACH ROW', 'quota.jobs'),
	('jobs_after_delete', 'AFTER DELETE/FOR EACH ROW', 'quota.jobs'),
	('jobs_truncate', 'BEFORE TRUNCATE/FOR EACH STATEMENT', 'quota.jobs'),
	('ledger_refuse', 'BEFORE UPDATE/FOR EACH ROW', 'quota.ledger'),
	('ledger_restored', 'AFTER INSERT/FOR EACH ROW', 'quota.ledger'),
	('ledger_stamp', 'BEFORE INSERT/FOR EACH ROW', 'quota.ledger'),
	('config_guard', 'BEFORE INSERT/FOR EACH ROW', 'quota.tiers'),
	('config_guard_delete', 'AFTER DELETE/FOR EACH STATEMENT', 'quota.tenants'),
	('config_stamp', 'BEFORE INSERT/FOR EACH ROW', 'quota.tenants'),
	('config_changed', 'AFTER DELETE/FOR EACH ROW', 'quota.tenant_limits'),
	('tenant_event', 'AFTER UPDATE/FOR EACH ROW', 'quota.tenants')) AS v (f, s, w),
	LATERAL (VALUES (v.w), ('one')) AS l (t)
ORDER BY f, t;

-- or to the right table at the wrong time
BEGIN;
CREATE TRIGGER a AFTER INSERT ON quota.jobs FOR EACH ROW EXECUTE FUNCTION quota.jobs_after_delete();
INSERT INTO quota.jobs (tenant, provider) VALUES ('trg', 'trg');
ROLLBACK;
BEGIN;
CREATE TRIGGER a BEFORE INSERT ON quota.jobs FOR EACH STATEMENT EXECUTE FUNCTION quota.jobs_before_insert();
INSERT INTO quota.jobs (tenant, provider) VALUES ('trg', 'trg');
ROLLBACK;
BEGIN;
CREATE TRIGGER a BEFORE DELETE ON quota.tenants FOR EACH ROW EXECUTE FUNCTION quota.tenant_event();
DELETE FROM quota.tenants WHERE tenant = 'trg';
ROLLBACK;

-- the job is still there, and nothing else happened
SELECT quota.stat_flows.depth FROM quota.stat_flows WHERE provider = 'trg';
SELECT count(*) FROM quota.dedupe WHERE provider = 'trg';
DELETE FROM quota.jobs WHERE provider = 'trg';
DELETE FROM quota.limits WHERE provider = 'trg';
DELETE FROM quota.tenant_limits WHERE tenant = 'trg';
DELETE FROM quota.providers WHERE provider = 'trg';
DELETE FROM quota.tenants WHERE tenant = 'trg';
DELETE FROM quota.tiers WHERE tier = 'trg';
DROP TABLE one;
DROP FUNCTION try_trigger;
