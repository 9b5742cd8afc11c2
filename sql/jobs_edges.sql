-- Jobs at the edge: values that no queue would ever see but from a mistake or a dump,
-- and rows that are changed within the statement that inserts them.
SET timezone = 'UTC';
SET statement_timeout = '60 s';
SELECT quota_clock_set('2026-06-01 00:00:00+00');
INSERT INTO quota.tiers (tier) VALUES ('edge');
INSERT INTO quota.tenants (tenant, tier, max_queued) VALUES ('edge', 'edge', 20);
INSERT INTO quota.providers (provider, safety) VALUES ('edge', 1);
INSERT INTO quota.classes (class, rank, start_within) VALUES ('edge', 2, '1 day');
-- rows of quota.leases and quota.dedupe that no job belongs to, and counts that are wrong
CREATE VIEW problems AS
	SELECT 'lease' AS what, count(*) AS n FROM quota.leases WHERE job_id NOT IN (SELECT id FROM quota.jobs WHERE state NOT IN ('succeeded', 'failed', 'cancelled')) HAVING count(*) > 0
	UNION ALL SELECT 'key', count(*) FROM quota.dedupe WHERE job_id NOT IN (SELECT id FROM quota.jobs WHERE state NOT IN ('succeeded', 'failed', 'cancelled')) HAVING count(*) > 0
	UNION ALL SELECT 'count', unfinished - (SELECT count(*) FROM quota.jobs WHERE tenant = 'edge' AND state IN ('queued', 'scheduled', 'running'))
		FROM quota.stat_tenants WHERE tenant = 'edge' AND
		(unfinished <> (SELECT count(*) FROM quota.jobs WHERE tenant = 'edge' AND state IN ('queued', 'scheduled', 'running')) OR enqueuing <> 0);

-- a deadline that could not be read back is none
INSERT INTO quota.jobs (tenant, provider, class, run_at) VALUES ('edge', 'edge', 'edge', '294276-12-31 23:00:00+00') RETURNING start_before, state;
INSERT INTO quota.jobs (tenant, provider, class, run_at) VALUES ('edge', 'edge', 'edge', '294276-12-30 23:00:00+00') RETURNING start_before;
INSERT INTO quota.jobs (tenant, provider, class, created_at) VALUES ('edge', 'edge', 'edge', '-infinity'), ('edge', 'edge', 'edge', 'infinity') RETURNING start_before;
SELECT count(start_before::text::timestamptz) FROM quota.jobs WHERE tenant = 'edge';
DELETE FROM quota.jobs WHERE tenant = 'edge';

-- a dedupe key is what fits into an index
INSERT INTO quota.jobs (tenant, provider, dedupe_key) VALUES ('edge', 'edge', repeat('x', 1025));
SELECT reason FROM quota_enqueue('edge', 'edge', dedupe_key => repeat('x', 100000));
SELECT reason FROM quota_enqueue('edge', 'edge', dedupe_key => (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 32) i));
DELETE FROM quota.jobs WHERE tenant = 'edge';
SELECT * FROM problems;

-- a job that a claim could not count would stop the queue
INSERT INTO quota.jobs (tenant, provider) VALUES ('edge', 'edge') RETURNING flow \gset
DELETE FROM quota.jobs WHERE tenant = 'edge';
INSERT INTO quota.jobs (tenant, provider, attempt, flow) VALUES ('edge', 'edge', 2147483647, :flow);
INSERT INTO quota.jobs (tenant, provider, attempt, flow) VALUES ('edge', 'edge', 1000000001, :flow);
INSERT INTO quota.jobs (tenant, provider, attempt, flow) VALUES ('edge', 'edge', 1000000000, :flow);
SELECT attempt, quota_fail(id, attempt, 'no') FROM quota_dequeue('edge');
SELECT attempt, state FROM quota.jobs WHERE tenant = 'edge';
DELETE FROM quota.jobs WHERE tenant = 'edge';

-- the newest one wins: a trigger takes out earlier jobs, of the same statement too
CREATE FUNCTION newest_wins() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_ARGV[0] = 'delete' THEN
		DELETE FROM quota.jobs WHERE tenant = NEW.tenant AND state IN ('queued', 'scheduled') AND id <> NEW.id;
	ELSE
		PERFORM quota_cancel(id) FROM quota.jobs WHERE tenant = NEW.tenant AND state IN ('queued', 'scheduled') AND id <> NEW.id;
	END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER newest_wins BEFORE INSERT ON quota.jobs FOR EACH ROW EXECUTE FUNCTION newest_wins('delete');
INSERT INTO quota.jobs (tenant, provider, payload, run_at, dedupe_key)
	VALUES ('edge', 'edge', '1', NULL, 'k'), ('edge', 'edge', '2', quota_clock() + '1 day', 'l'), ('edge', 'edge', '3', NULL, 'k'), ('edge', 'edge', '4', NULL, 'l');
SELECT payload, state FROM quota.jobs WHERE tenant = 'edge' ORDER BY id;
SELECT * FROM problems;
DROP TRIGGER newest_wins ON quota.jobs;
CREATE TRIGGER newest_wins BEFORE INSERT ON quota.jobs FOR EACH ROW EXECUTE FUNCTION newest_wins('cancel');
INSERT INTO quota.jobs (tenant, provider, payload, run_at, dedupe_key)
	VALUES ('edge', 'edge', '5', NULL, 'k'), ('edge', 'edge', '6', quota_clock() + '1 day', 'l'), ('edge', 'edge', '7', NULL, 'k');
SELECT payload, state FROM quota.jobs WHERE tenant = 'edge' ORDER BY id;
SELECT * FROM problems;
SELECT reason FROM quota_enqueue('edge', 'edge', '8', dedupe_key => 'k');
SELECT payload FROM quota_dequeue('edge', 10);
DROP TRIGGER newest_wins ON quota.jobs;
-- the same by a trigger that comes after the row, before quota's; what it only changes stays a job
CREATE FUNCTION not_wanted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.payload = '"delete"' THEN
		DELETE FROM quota.jobs WHERE id = NEW.id;
	ELSIF NEW.payload = '"cancel"' THEN
		PERFORM quota_cancel(NEW.id);
	ELSE
		UPDATE quota.jobs SET payload = '"changed"' WHERE id = NEW.id;
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER a_not_wanted AFTER INSERT ON quota.jobs FOR EACH ROW EXECUTE FUNCTION not_wanted();
INSERT INTO quota.jobs (tenant, provider, payload, run_at, dedupe_key)
	VALUES ('edge', 'edge', '"delete"', NULL, 'a'), ('edge', 'edge', '"delete"', 'infinity', 'b'), ('edge', 'edge', '"cancel"', NULL, 'c'),
	('edge', 'edge', '"cancel"', 'infinity', 'd'), ('edge', 'edge', '"keep"', NULL, 'e'), ('edge', 'edge', '"keep"', 'infinity', 'f');
SELECT payload, state, dedupe_key FROM quota.jobs WHERE tenant = 'edge' AND dedupe_key BETWEEN 'a' AND 'f' ORDER BY dedupe_key;
SELECT * FROM problems;
DROP TRIGGER a_not_wanted ON quota.jobs;
SELECT payload FROM quota_dequeue('edge', 10);
BEGIN;
CREATE TRIGGER a_not_wanted AFTER INSERT ON quota.jobs FOR EACH ROW EXECUTE FUNCTION not_wanted();
INSERT INTO quota.jobs (tenant, provider, payload) VALUES ('edge', 'edge', '"cancel"'), ('edge', 'edge', '"delete"');
ROLLBACK;
SELECT * FROM problems;

SELECT count(*) FROM (SELECT quota_complete(id, attempt) FROM quota.jobs WHERE tenant = 'edge' AND state = 'running') c;
DROP FUNCTION newest_wins, not_wanted;
DROP VIEW problems;
DELETE FROM quota.jobs WHERE tenant = 'edge';
DELETE FROM quota.providers WHERE provider = 'edge';
DELETE FROM quota.tenants WHERE tenant = 'edge';
DELETE FROM quota.tiers WHERE tier = 'edge';
DELETE FROM quota.classes WHERE class = 'edge';
