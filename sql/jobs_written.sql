-- Fresh jobs are noted by the condition of the AFTER INSERT trigger, which does not fire for them.
SELECT quota_clock_set('2026-01-01 00:00:00+00');
\set SHOW_CONTEXT never
INSERT INTO quota.tiers (tier) VALUES ('jw');
INSERT INTO quota.tenants (tenant, tier) VALUES ('jw', 'jw');
INSERT INTO quota.providers (provider) VALUES ('jw');
CREATE VIEW jw_state AS
	SELECT (SELECT count(*) FROM quota.jobs WHERE provider = 'jw') AS jobs,
		(SELECT sum(depth) FROM quota.stat_flows WHERE provider = 'jw') AS depth,
		(SELECT count(*) FROM quota.leases l JOIN quota.jobs j ON j.id = l.job_id WHERE provider = 'jw') AS leases,
		(SELECT count(*) FROM quota.dedupe WHERE provider = 'jw') AS keys;
CREATE FUNCTION jw_triggers(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) ' || statement LOOP
		IF line LIKE 'Trigger%' THEN RETURN NEXT line; END IF;
	END LOOP;
END $$;

-- it fires for those that need other rows: a lease, a key
SELECT * FROM jw_triggers($$INSERT INTO quota.jobs (tenant, provider, run_at, start_before, dedupe_key) VALUES
	('jw', 'jw', NULL, NULL, NULL), ('jw', 'jw', NULL, '2026-01-02 00:00:00+00', NULL),
	('jw', 'jw', '2026-01-01 01:00:00+00', NULL, NULL), ('jw', 'jw', NULL, NULL, 'a')$$);
SELECT * FROM jw_state;

-- and for all when another trigger may have changed the row
CREATE FUNCTION jw_key() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN new.dedupe_key := 'b'; RETURN new; END $$;
CREATE TRIGGER zzz_key BEFORE INSERT ON quota.jobs FOR EACH ROW EXECUTE FUNCTION jw_key();
INSERT INTO quota.jobs (tenant, provider) VALUES ('jw', 'jw');
DROP TRIGGER zzz_key ON quota.jobs;
SELECT * FROM jw_state;

-- also when the row before it had the same number
INSERT INTO quota.jobs (id, tenant, provider) VALUES (9000000, 'jw', 'jw');
DELETE FROM quota.jobs WHERE id = 9000000;
INSERT INTO quota.jobs (id, tenant, provider, dedupe_key) VALUES (9000000, 'jw', 'jw', 'c');
SELECT * FROM jw_state;

-- what is not written is not noted
INSERT INTO quota.jobs (id, tenant, provider) SELECT id, 'jw', 'jw' FROM quota.jobs WHERE provider = 'jw' ON CONFLICT DO NOTHING;
SELECT * FROM jw_state;

-- a constraint that inserts jobs of another flow between the trigger and the condition
CREATE FUNCTION jw_more(endpoint text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	IF endpoint = 'outer' THEN
		INSERT INTO quota.jobs (tenant, provider, endpoint) VALUES ('jw', 'jw', 'inner');
	END IF;
	RETURN true;
END $$;
ALTER TABLE quota.jobs ADD CONSTRAINT jw_more CHECK (jw_more(endpoint)) NOT VALID;
INSERT INTO quota.jobs (tenant, provider, endpoint) VALUES ('jw', 'jw', 'outer'), ('jw', 'jw', 'outer');
SELECT created FROM quota_enqueue('jw', 'jw', endpoint => 'outer');
ALTER TABLE quota.jobs DROP CONSTRAINT jw_more;
SELECT endpoint, depth FROM quota.stat_flows WHERE provider = 'jw' ORDER BY 1;
SELECT * FROM jw_state;

-- nobody else can call it: not a query, not the condition of a trigger on another table
SELECT quota.jobs_written('quota.jobs'::regclass, 1);
SELECT quota.jobs_written(tableoid, id) FROM quota.jobs WHERE provider = 'jw';
SELECT quota.jobs_written(a.tableoid, b.id) FROM quota.jobs a FULL JOIN quota.jobs b USING (id);
CREATE TABLE jw_mine (id bigint);
CREATE TRIGGER t AFTER INSERT ON jw_mine FOR EACH ROW
	WHEN (quota.jobs_written(NEW.tableoid, NEW.id)) EXECUTE FUNCTION jw_key();
INSERT INTO jw_mine VALUES (1);
DROP TABLE jw_mine;
-- not with another column than the number
CREATE TRIGGER t AFTER INSERT ON quota.jobs FOR EACH ROW
	WHEN (quota.jobs_written(NEW.tableoid, NEW.flow)) EXECUTE FUNCTION jw_key();
INSERT INTO quota.jobs (tenant, provider) VALUES ('jw', 'jw');
DROP TRIGGER t ON quota.jobs;

-- in other triggers of quota.jobs it notes nothing twice
SELECT * FROM jw_state;
CREATE TRIGGER a AFTER INSERT OR UPDATE ON quota.jobs FOR EACH ROW
	WHEN (quota.jobs_written(NEW.tableoid, NEW.id)) EXECUTE FUNCTION jw_key();
INSERT INTO quota.jobs (tenant, provider) VALUES ('jw', 'jw') RETURNING id AS last \gset
UPDATE quota.jobs SET payload = '1' WHERE id = :last;
DROP TRIGGER a ON quota.jobs;
SELECT * FROM jw_state;

DELETE FROM quota.jobs WHERE provider = 'jw';
SELECT * FROM jw_state;
DELETE FROM quota.providers WHERE provider = 'jw';
DELETE FROM quota.tenants WHERE tenant = 'jw';
DELETE FROM quota.tiers WHERE tier = 'jw';
DROP VIEW jw_state;
DROP FUNCTION jw_key, jw_more, jw_triggers;
