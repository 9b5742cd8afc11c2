-- The queue's order: what blocks a flow, and what sets it free again.
-- G7, G8: whatever may run is found, whatever may not is in nobody's way.
SET timezone = 'UTC';
SET statement_timeout = '30 s';
SELECT quota_clock_set('2026-04-01 00:00:00+00');

INSERT INTO quota.tiers (tier) VALUES ('queue');
INSERT INTO quota.tenants (tenant, tier) SELECT 'queue_' || n, 'queue' FROM generate_series(1, 9) n;
INSERT INTO quota.providers (provider, safety) VALUES ('queue', 1);
INSERT INTO quota.limits (provider, name, per, unit, amount, period)
	VALUES ('queue', 'tokens', '{tenant}', 'token', 100, '1 day');

CREATE VIEW claim AS
	SELECT payload #>> '{}' AS job FROM quota_dequeue('queue');
CREATE VIEW flows AS
	SELECT tenant, endpoint, state, reason, wake_at, depth
	FROM quota.stat_flows WHERE provider = 'queue' ORDER BY tenant COLLATE "C", endpoint;
CREATE FUNCTION add(tenant text, job text, n int = NULL, endpoint text = NULL, class text = NULL, unit text = 'token')
	RETURNS void LANGUAGE sql AS
$$ INSERT INTO quota.jobs (tenant, provider, endpoint, class, payload, units)
	VALUES (tenant, 'queue', endpoint, class, to_jsonb(job), CASE WHEN n >= 0 THEN jsonb_build_object(unit, n) END) $$;
CREATE FUNCTION job(label text) RETURNS bigint LANGUAGE sql STABLE AS
$$ SELECT id FROM quota.jobs WHERE provider = 'queue' AND payload = to_jsonb(label) $$;
-- ends whatever is there
CREATE PROCEDURE finish() LANGUAGE plpgsql AS $$
BEGIN
	PERFORM quota_complete(id, attempt) FROM quota.jobs WHERE provider = 'queue' AND state = 'running';
	PERFORM quota_cancel(id) FROM quota.jobs WHERE provider = 'queue' AND state IN ('queued', 'scheduled');
END $$;

-- jobs behind a head that is too dear: until it is cancelled, deleted, cheaper
SELECT add('queue_1', 'dear', 500), add('queue_1', 'cheap', 1);
SELECT * FROM claim;
SELECT * FROM flows;
SELECT quota_cancel(job('dear'));
SELECT * FROM claim;
SELECT add('queue_2', 'dear2', 500), add('queue_2', 'cheap2', 1);
SELECT * FROM claim;
DELETE FROM quota.jobs WHERE id = job('dear2');
SELECT * FROM claim;
SELECT add('queue_3', 'dear3', 500), add('queue_3', 'cheap3', 1);
SELECT * FROM claim;
UPDATE quota.jobs SET units = '{"token": 2}' WHERE id = job('dear3');
SELECT * FROM claim;
SELECT * FROM claim;
-- what comes behind it changes nothing; nor does what does not commit
SELECT add('queue_4', 'dear4', 500);
SELECT * FROM claim;
SELECT add('queue_4', 'cheap4', 1);
BEGIN;
SELECT quota_cancel(job('dear4'));
ROLLBACK;
SELECT state, reason, depth FROM flows WHERE tenant = 'queue_4';
SELECT * FROM claim;
SELECT quota_cancel(job('dear4'));
SELECT * FROM claim;
-- the head is a retry
SELECT add('queue_5', 'again', 60), add('queue_5', 'behind', 1);
SELECT * FROM claim;
SELECT quota_fail(id, attempt, 'no') FROM quota.jobs WHERE id = job('again');
SELECT quota_clock_advance('1 s');
SELECT * FROM claim;
SELECT state, reason FROM flows WHERE tenant = 'queue_5';
SELECT quota_cancel(job('again'));
SELECT * FROM claim;
CALL finish();

-- two flows that can't run don't free each other by trying
INSERT INTO quota.limits (provider, name, per, amount, period)
	VALUES ('queue', 'requests', '{tenant}', 1000, '1 min');
SELECT add('queue_6', 'x', 500, 'x'), add('queue_6', 'y', 500, 'y');
SELECT * FROM claim;
SELECT * FROM claim;
SELECT refused FROM quota.stat_tenants WHERE provider = 'queue' AND tenant = 'queue_6';
DELETE FROM quota.limits WHERE provider = 'queue' AND name = 'requests';
CALL finish();

-- a job costs what its units say, whatever the cost map says
INSERT INTO quota.costs (provider, unit, cost) VALUES ('queue', 'token', 500);
SELECT add('queue_7', 'small', 5), add('queue_7', 'by the map'), add('queue_7', 'last', 5);
SELECT * FROM claim;
SELECT * FROM claim;
SELECT state, reason, wake_at FROM flows WHERE tenant = 'queue_7';
SELECT refused FROM quota.stat_tenants WHERE provider = 'queue' AND tenant = 'queue_7';
UPDATE quota.costs SET cost = 50 WHERE provider = 'queue';
SELECT * FROM claim;
SELECT add('queue_7', 'no room', 46), add('queue_7', 'never seen', 1);
SELECT * FROM claim;
SELECT * FROM claim;
SELECT state, reason, wake_at FROM flows WHERE tenant = 'queue_7';
CALL finish();
-- the same when the limit is one that every call meets
DELETE FROM quota.costs WHERE provider = 'queue';
INSERT INTO quota.limits (provider, name, amount, period, external) VALUES ('queue', 'all', 100, '1 day', false);
INSERT INTO quota.costs (provider, unit, cost) VALUES ('queue', 'request', 500);
SELECT add('queue_8', 'small8', 60, unit => 'request');
SELECT * FROM claim;
UPDATE quota.costs SET cost = 50 WHERE provider = 'queue';
SELECT add('queue_8', 'small8b', 30, unit => 'request');
SELECT * FROM claim;
-- one that is short for the head, but will not stay so, keeps everybody back
SELECT add('queue_9', 'wide9', 11, unit => 'request'), add('queue_8', 'wide8', 1, unit => 'request');
SELECT * FROM claim;
SELECT * FROM claim;
SELECT quota_cancel(job('wide9'));
SELECT * FROM claim;
CALL finish();
DELETE FROM quota.costs WHERE provider = 'queue';
DELETE FROM quota.limits WHERE provider = 'queue' AND name = 'all';

-- an event of a limit that every call meets wakes who waits for it
INSERT INTO quota.limits (provider, name, unit, kind, amount, period)
	VALUES ('queue', 'credits', 'request', 'allowance', 1, '1 month');
SELECT add('queue_1', 'c' || n) FROM generate_series(1, 3) n;
SELECT * FROM claim;
SELECT * FROM claim;
SELECT state, reason FROM flows WHERE tenant = 'queue_1';
SELECT quota_grant(NULL, 'queue', 'credits', 1);
SELECT * FROM claim;
SELECT * FROM claim;
CALL finish();
DELETE FROM quota.limits WHERE provider = 'queue' AND name = 'credits';

-- a job that costs nothing in the share unit is one job of its tenant's all the same
SELECT add('queue_1', 'paid' || n) FROM generate_series(1, 3) n;
INSERT INTO quota.jobs (tenant, provider, payload, units)
	SELECT 'queue_2', 'queue', to_jsonb('free' || n), '{"request": 0}' FROM generate_series(1, 3) n;
SELECT payload FROM quota_dequeue('queue', 4);
CALL finish();

-- scheduled jobs have their own time, and nobody looks before
INSERT INTO quota.jobs (tenant, provider, payload, run_at) VALUES ('queue_3', 'queue', '"later"', '2026-04-01 05:00+00');
SELECT * FROM claim;
SELECT quota_clock_advance('2 min');
SELECT * FROM claim;
SELECT state, reason, wake_at FROM flows WHERE tenant = 'queue_3';
SELECT quota_cancel(job('later'));
-- unless the wall clock is set
SELECT quota_clock_set('2020-01-01 00:00+00');
INSERT INTO quota.jobs (tenant, provider, payload, run_at) VALUES ('queue_3', 'queue', '"sooner"', '2020-01-01 05:00+00');
SELECT * FROM claim;
SELECT state, reason FROM flows WHERE tenant = 'queue_3';
SELECT quota_clock_set(NULL);
SELECT * FROM claim;
CALL finish();
SELECT quota_clock_set('2026-04-02 00:00:00+00');

-- a call buries some of the attempts that were the last, and serves others
INSERT INTO quota.jobs (tenant, provider, payload, max_attempts)
	SELECT 'queue_4', 'queue', '"worn"', 1 FROM generate_series(1, 250);
SELECT count(*) FROM quota_dequeue('queue', 1000);
SELECT quota_clock_advance('2 min');
SELECT add('queue_5', 'urgent'), add('queue_4', 'fresh');
SELECT count(*) FROM quota_dequeue('queue', 2);
SELECT state, count(*) FROM quota.jobs WHERE tenant = 'queue_4' AND payload = '"worn"' GROUP BY 1 ORDER BY 1;
SELECT * FROM claim;
SELECT state, count(*) FROM quota.jobs WHERE tenant = 'queue_4' AND payload = '"worn"' GROUP BY 1 ORDER BY 1;
SELECT * FROM claim;
SELECT state, error, count(*) FROM quota.jobs WHERE tenant = 'queue_4' AND payload = '"worn"' GROUP BY 1, 2 ORDER BY 1, 2;
SELECT in_flight FROM quota.stat_flows WHERE tenant = 'queue_4';
CALL finish();

-- classes come and go
DO $$
BEGIN
	FOR i IN 1..40 LOOP
		INSERT INTO quota.classes (class, rank) VALUES ('queue_c' || i, 9);
		PERFORM add('queue_6', 'class' || i, NULL, NULL, 'queue_c' || i);
		PERFORM quota_cancel(job('class' || i));
		COMMIT;
		DELETE FROM quota.classes WHERE class = 'queue_c' || i;
	END LOOP;
END $$;
INSERT INTO quota.classes (class, rank) SELECT 'queue_c' || n, 9 FROM generate_series(1, 13) n;
SELECT add('queue_6', class, NULL, NULL, class) FROM quota.classes WHERE class LIKE 'queue%';
SELECT count(quota_complete(id, attempt)::text) FROM quota_dequeue('queue', 20);
DELETE FROM quota.jobs WHERE class = 'queue_c1';
DELETE FROM quota.classes WHERE class = 'queue_c1';
INSERT INTO quota.classes (class, rank) VALUES ('queue_new', 9);
SELECT add('queue_6', 'new', NULL, NULL, 'queue_new');
SELECT * FROM claim;
CALL finish();

-- ids end before what stands for none
\set VERBOSITY terse
INSERT INTO quota.jobs (id, tenant, provider) VALUES (9223372036854775807, 'queue_1', 'queue');

DELETE FROM quota.jobs WHERE provider = 'queue';
DELETE FROM quota.classes WHERE class LIKE 'queue%';
DELETE FROM quota.limits WHERE provider = 'queue';
DELETE FROM quota.tenants WHERE tier = 'queue';
DELETE FROM quota.providers WHERE provider = 'queue';
DELETE FROM quota.tiers WHERE tier = 'queue';
DROP VIEW claim, flows;
DROP FUNCTION add, job;
DROP PROCEDURE finish;
SELECT quota_clock_set(NULL);
