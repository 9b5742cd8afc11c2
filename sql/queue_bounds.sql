-- Bounded queues: how many unfinished jobs a tenant and a provider may have.
SET timezone = 'UTC';
SET statement_timeout = '60 s';
SELECT quota_clock_set('2026-05-01 00:00:00+00');

INSERT INTO quota.tiers (tier, max_queued) VALUES ('room_small', 3), ('room_free', NULL);
INSERT INTO quota.tenants (tenant, tier, max_queued) VALUES
	('room_a', 'room_small', NULL), ('room_b', 'room_small', 5), ('room_c', 'room_free', NULL), ('room_d', 'room_free', 0);
INSERT INTO quota.providers (provider, safety) VALUES ('room', 1), ('room_other', 1);

CREATE VIEW room AS
	SELECT provider, tenant, unfinished, enqueuing FROM quota.stat_tenants
	WHERE tenant LIKE 'room\_%' AND unfinished + enqueuing > 0 ORDER BY provider, tenant COLLATE "C";
-- the counts of all flows are what the rows say, and no place is open
CREATE VIEW drift AS
	SELECT provider, tenant, unfinished, enqueuing, rows
	FROM room FULL JOIN (SELECT provider, tenant, count(*) AS rows FROM quota.jobs
		WHERE tenant LIKE 'room\_%' AND state IN ('queued', 'scheduled', 'running') GROUP BY 1, 2) j USING (provider, tenant)
	WHERE (unfinished, enqueuing) IS DISTINCT FROM (coalesce(rows, 0), 0);
CREATE PROCEDURE empty() LANGUAGE plpgsql AS $$
BEGIN
	PERFORM quota_complete(id, attempt) FROM quota.jobs WHERE tenant LIKE 'room\_%' AND state = 'running';
	DELETE FROM quota.jobs WHERE tenant LIKE 'room\_%';
END $$;

-- INSERT: the one that is too many is refused, with reason and remedy
\set SHOW_CONTEXT never
INSERT INTO quota.jobs (tenant, provider) VALUES ('room_a', 'room'), ('room_a', 'room');
INSERT INTO quota.jobs (tenant, provider) VALUES ('room_a', 'room'), ('room_a', 'room');
\echo :SQLSTATE
SELECT * FROM room;
SELECT * FROM drift;
INSERT INTO quota.jobs (tenant, provider) VALUES ('room_a', 'room');
INSERT INTO quota.jobs (tenant, provider) VALUES ('room_a', 'room');
\echo :SQLSTATE
-- neither other tenants nor other providers are concerned; an override goes first; 0 lets none in
INSERT INTO quota.jobs (tenant, provider) VALUES ('room_a', 'room_other'), ('room_b', 'room'), ('room_c', 'room');
INSERT INTO quota.jobs (tenant, provider) SELECT 'room_b', 'room' FROM generate_series(1, 5);
\echo :SQLSTATE
INSERT INTO quota.jobs (tenant, provider) VALUES ('room_d', 'room');
\echo :SQLSTATE

-- quota_enqueue answers
SELECT created, reason, limit_name, not_before, id IS NULL AS no_id FROM quota_enqueue('room_a', 'room');
SELECT created, reason, limit_name, not_before, id IS NULL AS no_id FROM quota_enqueue('room_d', 'room');
SELECT created, reason, limit_name, not_before, id IS NULL AS no_id FROM quota_enqueue('room_a', 'room', dedupe_key => 'key');
SELECT created, reason FROM quota_enqueue('room_c', 'room', dedupe_key => 'key', "user" => 'u', connection => 'c', resource => 'r');
SELECT created, reason, id = (SELECT id FROM quota.jobs WHERE dedupe_key = 'key') AS same FROM quota_enqueue('room_a', 'room', dedupe_key => 'key');
SELECT "user", connection, resource, start_before FROM quota.jobs WHERE dedupe_key = 'key';
SELECT id FROM quota_enqueue('room_c', 'room', '"p"', 'e', 'batch', '{"token": 3}', '2026-05-01 12:00:00+00', '2026-05-02 00:00:00+00', 'k', 'u', 'c', 'r', 2) \gset
SELECT payload, endpoint, class, units, run_at, start_before, dedupe_key, "user", connection, resource, max_attempts FROM quota.jobs WHERE id = :id;
-- a refusal leaves nothing behind
BEGIN;
SELECT reason FROM quota_enqueue('room_a', 'room');
SELECT reason FROM quota_enqueue('room_a', 'room', dedupe_key => 'another');
SELECT pg_current_xact_id_if_assigned();
SELECT * FROM room WHERE enqueuing > 0;
COMMIT;
SELECT * FROM drift;
CALL empty();

-- a place taken counts at once, and comes back with the rollback it was taken in
BEGIN;
INSERT INTO quota.jobs (tenant, provider) VALUES ('room_a', 'room');
SAVEPOINT s;
INSERT INTO quota.jobs (tenant, provider) VALUES ('room_a', 'room'), ('room_a', 'room');
SELECT * FROM room WHERE enqueuing > 0;
SELECT reason FROM quota_enqueue('room_a', 'room');
ROLLBACK TO s;
SELECT * FROM room WHERE enqueuing > 0;
INSERT INTO quota.jobs (tenant, provider) VALUES ('room_a', 'room');
SAVEPOINT t;
INSERT INTO quota.jobs (tenant, provider) VALUES ('room_a', 'room'), ('room_a', 'room');
\echo :SQLSTATE
ROLLBACK TO t;
RELEASE t;
SELECT reason FROM quota_enqueue('room_a', 'room');
COMMIT;
SELECT * FROM room WHERE unfinished > 0;
-- what is given helps nobody before COMMIT
BEGIN;
DELETE FROM quota.jobs WHERE tenant = 'room_a';
SELECT reason FROM quota_enqueue('room_a', 'room');
COMMIT;
SELECT reason FROM quota_enqueue('room_a', 'room');
SELECT * FROM drift;

-- rows that are not written in the end: their places go back with the statement
INSERT INTO quota.jobs (tenant, provider) VALUES ('room_a', 'room') RETURNING id \gset
SELECT unfinished FROM room WHERE provider = 'room' AND tenant = 'room_a';
BEGIN;
INSERT INTO quota.jobs (id, tenant, provider) VALUES (:id, 'room_a', 'room') ON CONFLICT DO NOTHING;
SELECT * FROM room WHERE enqueuing > 0;
INSERT INTO quota.jobs (id, tenant, provider, payload) VALUES (:id, 'room_a', 'room', '1') ON CONFLICT (id) DO UPDATE SET payload = excluded.payload;
SELECT * FROM room WHERE enqueuing > 0;
INSERT INTO quota.jobs (id, tenant, provider) SELECT i, 'room_b', 'room' FROM unnest(ARRAY[:id, :id + 1000000, :id]) i ON CONFLICT DO NOTHING;
SELECT * FROM room WHERE enqueuing > 0;
INSERT INTO quota.jobs (tenant, provider) VALUES ('room_a', 'room');
COMMIT;
-- but it takes a place while it is tried
INSERT INTO quota.jobs (id, tenant, provider) VALUES (:id, 'room_a', 'room') ON CONFLICT DO NOTHING;
\echo :SQLSTATE
SELECT * FROM room WHERE unfinished > 0 AND provider = 'room';
SELECT * FROM drift;
CREATE FUNCTION skip_odd() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RETURN CASE WHEN new.id % 2 = 0 THEN new END;
END $$;
CREATE TRIGGER zzz_skip BEFORE INSERT ON quota.jobs FOR EACH ROW EXECUTE FUNCTION skip_odd();
CALL empty();
BEGIN;
INSERT INTO quota.jobs (id, tenant, provider) SELECT 2000000 + i, 'room_a', 'room' FROM generate_series(1, 3) i;
SELECT * FROM room WHERE enqueuing > 0;
INSERT INTO quota.jobs (id, tenant, provider) SELECT 2000000 + i, 'room_a', 'room' FROM generate_series(4, 5) i;
SELECT * FROM room WHERE enqueuing > 0;
COMMIT;
SELECT * FROM drift;
DROP TRIGGER zzz_skip ON quota.jobs;
CALL empty();

-- statements in statements: each gives back its own
CREATE FUNCTION show_room() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE NOTICE '%', (SELECT jsonb_agg(room) FROM room WHERE tenant = new.tenant);
	RETURN new;
END $$;
UPDATE quota.tenants SET max_queued = 6 WHERE tenant = 'room_b';
CREATE FUNCTION insert_more() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF new.payload = '"outer"' THEN
		INSERT INTO quota.jobs (id, tenant, provider, payload) VALUES (new.id + 100, 'room_b', 'room', '"inner"');
		INSERT INTO quota.jobs (id, tenant, provider, payload) VALUES (new.id + 100, 'room_b', 'room', '"inner"') ON CONFLICT DO NOTHING;
	END IF;
	RETURN new;
END $$;
CREATE TRIGGER a_before BEFORE INSERT ON quota.jobs FOR EACH ROW EXECUTE FUNCTION insert_more();
BEGIN;
INSERT INTO quota.jobs (id, tenant, provider, payload) VALUES (3000001, 'room_b', 'room', '"outer"'), (3000001, 'room_b', 'room', '"x"') ON CONFLICT DO NOTHING;
SELECT * FROM room WHERE enqueuing > 0;
COMMIT;
SELECT * FROM room WHERE unfinished > 0;
DROP TRIGGER a_before ON quota.jobs;
CREATE TRIGGER a_after AFTER INSERT ON quota.jobs FOR EACH ROW EXECUTE FUNCTION insert_more();
BEGIN;
INSERT INTO quota.jobs (id, tenant, provider, payload) VALUES (3000002, 'room_b', 'room', '"outer"'), (3000001, 'room_b', 'room', '"x"') ON CONFLICT DO NOTHING;
SELECT * FROM room WHERE enqueuing > 0;
COMMIT;
SELECT * FROM room WHERE unfinished > 0;
INSERT INTO quota.jobs (id, tenant, provider, payload) VALUES (3000003, 'room_a', 'room', '"outer"');
SELECT unfinished FROM room WHERE provider = 'room' AND tenant = 'room_b';
INSERT INTO quota.jobs (id, tenant, provider, payload) VALUES (3000004, 'room_a', 'room', '"outer"');
\echo :SQLSTATE
DROP TRIGGER a_after ON quota.jobs;
-- a row whose AFTER trigger has fired has one place, not two
CREATE TRIGGER zzz_after AFTER INSERT ON quota.jobs FOR EACH ROW EXECUTE FUNCTION show_room();
INSERT INTO quota.jobs (tenant, provider) VALUES ('room_b', 'room');
DROP TRIGGER zzz_after ON quota.jobs;
SELECT * FROM drift;
CALL empty();
-- a function in the statement writes jobs of the same flow while rows of it are pending
CREATE FUNCTION one_more(n int) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO quota.jobs (id, tenant, provider) VALUES (4000000 + n, 'room_b', 'room');
	INSERT INTO quota.jobs (id, tenant, provider) VALUES (4000000 + n, 'room_b', 'room') ON CONFLICT DO NOTHING;
	RETURN n;
END $$;
UPDATE quota.tenants SET max_queued = 5 WHERE tenant = 'room_b';
BEGIN;
INSERT INTO quota.jobs (tenant, provider, payload) SELECT 'room_b', 'room', to_jsonb(one_more(i)) FROM generate_series(1, 2) i;
SELECT * FROM room WHERE enqueuing > 0;
SELECT reason FROM quota_enqueue('room_b', 'room');
SELECT reason FROM quota_enqueue('room_b', 'room');
COMMIT;
SELECT * FROM drift;
CALL empty();
-- a block that catches the refusal keeps nothing of it
CREATE FUNCTION catch_full() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO quota.jobs (tenant, provider) SELECT 'room_a', 'room' FROM generate_series(1, 4);
	RETURN 'inserted';
EXCEPTION WHEN SQLSTATE '53Q00' THEN
	RETURN 'full';
END $$;
BEGIN;
INSERT INTO quota.jobs (tenant, provider) VALUES ('room_a', 'room');
SELECT catch_full();
SELECT * FROM room WHERE enqueuing > 0;
INSERT INTO quota.jobs (tenant, provider) VALUES ('room_a', 'room'), ('room_a', 'room');
COMMIT;
SELECT * FROM drift;

-- life of a job: it keeps its place until it is finished
SELECT unfinished FROM room WHERE tenant = 'room_a' AND provider = 'room';
SELECT count(*) FROM quota_dequeue('room', 2);
SELECT unfinished FROM room WHERE tenant = 'room_a' AND provider = 'room';
SELECT quota_fail(id, attempt, 'again') FROM quota.jobs WHERE state = 'running' AND tenant LIKE 'room\_%' ORDER BY id LIMIT 1;
SELECT quota_clock_advance('61 s');
SELECT unfinished FROM room WHERE tenant = 'room_a' AND provider = 'room';
SELECT reason FROM quota_enqueue('room_a', 'room');
SELECT count(*) FROM quota_dequeue('room', 2);
SELECT reason FROM quota_enqueue('room_a', 'room');
BEGIN;
SELECT quota_complete(id, attempt) FROM quota.jobs WHERE state = 'running' AND tenant LIKE 'room\_%' ORDER BY id LIMIT 1;
SELECT reason FROM quota_enqueue('room_a', 'room');
COMMIT;
SELECT reason FROM quota_enqueue('room_a', 'room');
SELECT quota_fail(id, attempt, 'no', retry => false) FROM quota.jobs WHERE state = 'running' AND tenant LIKE 'room\_%' ORDER BY id LIMIT 1;
SELECT reason FROM quota_enqueue('room_a', 'room');
SELECT quota_cancel(id) FROM quota.jobs WHERE state = 'queued' AND tenant = 'room_a' ORDER BY id LIMIT 1;
SELECT reason FROM quota_enqueue('room_a', 'room', run_at => '2027-01-01 00:00:00+00');
SELECT reason FROM quota_enqueue('room_a', 'room');
SELECT * FROM drift;
CALL empty();

-- the provider's queue, and the part of it that classes may fill: the lowest is refused first
UPDATE quota.providers SET max_queued = 20 WHERE provider = 'room';
INSERT INTO quota.jobs (tenant, provider, class) SELECT 'room_c', 'room', 'batch' FROM generate_series(1, 18);
SELECT class, created, reason, limit_name FROM unnest('{batch,event,interactive}'::text[]) class, quota_enqueue('room_c', 'room', class => class);
SELECT class, created, reason, limit_name FROM unnest('{batch,event,interactive}'::text[]) class, quota_enqueue('room_c', 'room', class => class);
INSERT INTO quota.jobs (tenant, provider, class) VALUES ('room_c', 'room', 'batch');
INSERT INTO quota.jobs (tenant, provider, class) VALUES ('room_b', 'room', 'interactive');
DELETE FROM quota.jobs WHERE id = (SELECT max(id) FROM quota.jobs WHERE tenant = 'room_c');
SELECT class, created, reason, limit_name FROM unnest('{batch,event,interactive}'::text[]) class, quota_enqueue('room_b', 'room', class => class);
INSERT INTO quota.jobs (tenant, provider) VALUES ('room_c', 'room_other');
SELECT * FROM drift;
-- bounds act at the next statement after COMMIT, up and down; in their own transaction at once
UPDATE quota.providers SET max_queued = 30 WHERE provider = 'room';
SELECT reason FROM quota_enqueue('room_c', 'room', class => 'batch');
UPDATE quota.providers SET max_queued = 10 WHERE provider = 'room';
SELECT reason, limit_name FROM quota_enqueue('room_c', 'room', class => 'interactive');
BEGIN;
UPDATE quota.providers SET max_queued = 22 WHERE provider = 'room';
SELECT reason FROM quota_enqueue('room_c', 'room', class => 'interactive');
ROLLBACK;
UPDATE quota.providers SET max_queued = NULL WHERE provider = 'room';
SELECT reason FROM quota_enqueue('room_c', 'room', class => 'batch');
UPDATE quota.classes SET max_fill = 0.5 WHERE class = 'interactive';
UPDATE quota.providers SET max_queued = 1 WHERE provider = 'room_other';
DELETE FROM quota.jobs WHERE provider = 'room_other';
SELECT reason FROM quota_enqueue('room_c', 'room_other', class => 'interactive');
SELECT reason, limit_name FROM quota_enqueue('room_c', 'room_other', class => 'interactive');
UPDATE quota.classes SET max_fill = 1 WHERE class = 'interactive';
CALL empty();
UPDATE quota.tenants SET max_queued = 1 WHERE tenant = 'room_c';
SELECT reason FROM quota_enqueue('room_c', 'room');
SELECT reason, limit_name FROM quota_enqueue('room_c', 'room');
UPDATE quota.tiers SET max_queued = 2 WHERE tier = 'room_free';
UPDATE quota.tenants SET max_queued = NULL WHERE tenant = 'room_c';
SELECT reason FROM quota_enqueue('room_c', 'room');
SELECT reason, limit_name FROM quota_enqueue('room_c', 'room');
-- jobs that were inserted while there was no bound count when there is one
UPDATE quota.tiers SET max_queued = NULL WHERE tier = 'room_free';
CALL empty();
BEGIN;
INSERT INTO quota.jobs (tenant, provider) SELECT 'room_c', 'room' FROM generate_series(1, 4);
SELECT * FROM room WHERE enqueuing > 0;
UPDATE quota.tenants SET max_queued = 5 WHERE tenant = 'room_c';
INSERT INTO quota.jobs (tenant, provider) VALUES ('room_c', 'room');
SELECT reason FROM quota_enqueue('room_c', 'room');
COMMIT;
SELECT * FROM drift;
CALL empty();

-- when to try again: the pace at which places have got free
INSERT INTO quota.tenants (tenant, tier, max_queued) VALUES ('room_pace', 'room_free', 4);
INSERT INTO quota.jobs (tenant, provider) SELECT 'room_pace', 'room' FROM generate_series(1, 4);
CREATE PROCEDURE work(n int, every interval) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. n LOOP
		PERFORM quota_clock_advance(every);
		PERFORM quota_complete(id, attempt) FROM quota_dequeue('room');
		COMMIT;
		INSERT INTO quota.jobs (tenant, provider) VALUES ('room_pace', 'room');
		COMMIT;
	END LOOP;
END $$;
SELECT quota_clock_set('2026-05-01 01:00:00+00');
SELECT not_before FROM quota_enqueue('room_pace', 'room');
CALL work(10, '20 s');
SELECT not_before FROM quota_enqueue('room_pace', 'room');
UPDATE quota.tenants SET max_queued = 2 WHERE tenant = 'room_pace';
SELECT not_before FROM quota_enqueue('room_pace', 'room');

-- what was shed is told once a minute, whatever becomes of the transaction
SELECT quota_clock_advance('1 hour');
BEGIN;
SELECT count(*) FROM generate_series(1, 5) i, quota_enqueue('room_pace', 'room', to_jsonb(i), class => 'batch');
ROLLBACK;
SELECT quota_clock_advance('59 s');
SELECT reason FROM quota_enqueue('room_pace', 'room');
SELECT quota_clock_advance('1 s');
SELECT reason FROM quota_enqueue('room_pace', 'room');
SELECT shed FROM quota.stat_tenants WHERE tenant = 'room_pace';

DROP FUNCTION skip_odd, show_room, insert_more, one_more, catch_full CASCADE;
CALL empty();
SELECT * FROM drift;
DROP VIEW drift, room;
DROP PROCEDURE empty, work;
