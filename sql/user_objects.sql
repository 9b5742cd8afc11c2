-- What users add to the tables of quota holds for what quota writes, from the moment it
-- is there: indexes, constraints and triggers, also for the second row that is written.
SELECT quota_clock_set('2026-01-01 00:00:00+00');
INSERT INTO quota.tiers (tier) VALUES ('ui');
INSERT INTO quota.tenants (tenant, tier) VALUES ('ui', 'ui');
INSERT INTO quota.providers (provider) VALUES ('ui');
INSERT INTO quota.limits (provider, name, per, unit, kind, amount, period, external)
	VALUES ('ui', 'credits', '{tenant}', 'credit', 'allowance', 1000, '1 month', false);

-- writes an entry, or says what refused it
CREATE FUNCTION ui_adjust(units bigint, reason text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM quota_adjust('ui', 'ui', 'credits', units, reason);
	RETURN 'written';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
SELECT ui_adjust(1, 'a');

-- of an expression, for some rows, in a session that has written before
CREATE UNIQUE INDEX ui_reason ON quota.ledger (upper(reason)) WHERE amount > 5 AND limit_name = 'credits';
SELECT ui_adjust(6, 'a');
SELECT ui_adjust(5, 'A');
SELECT ui_adjust(7, 'A');
SELECT ui_adjust(7, 'b');
DROP INDEX quota.ui_reason;
SELECT ui_adjust(7, 'A');

-- each role needs the right to call functions: those of the predicate always, those of
-- the expression for the rows that are in it
CREATE FUNCTION ui_in(amount bigint) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN amount = 9; END $$;
CREATE FUNCTION ui_key(reason text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN upper(reason); END $$;
CREATE INDEX ui_in ON quota.ledger (amount) WHERE ui_in(amount);
CREATE INDEX ui_key ON quota.ledger (ui_key(reason)) WHERE amount = 9;
CREATE ROLE ui_worker;
GRANT EXECUTE ON FUNCTION quota_adjust TO ui_worker;
REVOKE EXECUTE ON FUNCTION ui_in FROM PUBLIC;
SELECT ui_adjust(9, 'owner');
SET ROLE ui_worker;
SELECT ui_adjust(8, 'worker');
RESET ROLE;
GRANT EXECUTE ON FUNCTION ui_in TO PUBLIC;
REVOKE EXECUTE ON FUNCTION ui_key FROM PUBLIC;
SELECT ui_adjust(9, 'owner');
SET ROLE ui_worker;
SELECT ui_adjust(8, 'worker'), ui_adjust(9, 'worker');
RESET ROLE;
DROP OWNED BY ui_worker;
DROP ROLE ui_worker;
DROP INDEX quota.ui_in, quota.ui_key;

-- whose function writes entries itself, in the middle of its evaluation
CREATE FUNCTION ui_nested(reason text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
	IF reason = 'outer' THEN
		RETURN reason || ' ' || ui_adjust(10, 'inner');
	END IF;
	RETURN reason;
END $$;
CREATE UNIQUE INDEX ui_nested ON quota.ledger (reason) WHERE amount = 10 AND ui_nested(reason) IS NOT NULL;
SELECT ui_adjust(10, 'outer');
SELECT ui_adjust(10, 'inner');
DROP INDEX quota.ui_nested;

-- other access methods, which may keep something of a statement
CREATE INDEX ui_gin ON quota.ledger USING gin (to_tsvector('simple', reason));
CREATE INDEX ui_brin ON quota.ledger USING brin (charged_at);
CREATE INDEX ui_gist ON quota.ledger USING gist (to_tsvector('simple', reason));
CREATE INDEX ui_hash ON quota.ledger USING hash (reason);
SELECT ui_adjust(11, 'several access methods'), ui_adjust(11, 'again several');
SET enable_seqscan = off;
SELECT count(*) FROM quota.ledger WHERE to_tsvector('simple', reason) @@ 'several';
DROP INDEX quota.ui_gin;
SELECT count(*) FROM quota.ledger WHERE to_tsvector('simple', reason) @@ 'several';
SELECT count(*) FROM quota.ledger WHERE reason = 'again several';
RESET enable_seqscan;
DROP INDEX quota.ui_brin, quota.ui_gist, quota.ui_hash;

-- updates of other columns, one after the other
INSERT INTO quota.jobs (tenant, provider, payload) SELECT 'ui', 'ui', to_jsonb(n) FROM generate_series(1, 3) n;
CREATE UNIQUE INDEX ui_state ON quota.jobs ((payload->>0), state) WHERE state IN ('running', 'failed') AND provider = 'ui';
CREATE UNIQUE INDEX ui_attempt ON quota.leases (attempt) WHERE worker = 'ui' AND attempt > 1;
SELECT payload, attempt FROM quota_dequeue('ui', 3, 'ui');
SELECT count(quota_fail(id, attempt, 'no')) FROM quota.jobs WHERE provider = 'ui' AND payload <@ '[1, 2]';
SELECT quota_complete(id, attempt, '"result"') FROM quota.jobs WHERE provider = 'ui' AND state = 'running';
SELECT quota_clock_advance('1 hour');
SELECT attempt FROM quota_dequeue('ui', 1, 'ui');
\set VERBOSITY terse
SELECT attempt FROM quota_dequeue('ui', 1, 'ui');
\set VERBOSITY default
DROP INDEX quota.ui_attempt;
SELECT attempt FROM quota_dequeue('ui', 1, 'ui');
SET enable_seqscan = off;
SELECT payload, state FROM quota.jobs WHERE state IN ('running', 'failed') AND provider = 'ui' ORDER BY payload->>0;
RESET enable_seqscan;
SELECT quota_fail(id, attempt, 'no', retry => false) FROM quota.jobs WHERE provider = 'ui' AND state = 'running';
DROP INDEX quota.ui_state;
SELECT * FROM quota_audit();

-- whole rows and their types
CREATE FUNCTION ui_tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '% %', TG_OP, TG_ARGV[0]; RETURN NEW; END $$;
CREATE FUNCTION ui_whole(entry quota.ledger) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN entry.amount > 0; END $$;
CREATE TRIGGER ui_not_null AFTER INSERT ON quota.ledger FOR EACH ROW WHEN (NEW.* IS NOT NULL) EXECUTE FUNCTION ui_tell('not null');
CREATE TRIGGER ui_whole AFTER INSERT ON quota.ledger FOR EACH ROW WHEN (ui_whole(NEW)) EXECUTE FUNCTION ui_tell('whole');
CREATE INDEX ui_whole ON quota.ledger (amount) WHERE ui_whole(ledger);
ALTER TABLE quota.ledger ADD CONSTRAINT ui_whole CHECK (ui_whole(ledger) OR amount > -20) NOT VALID;
SELECT ui_adjust(12, 'first'), ui_adjust(12, 'second'), ui_adjust(-12, 'third'), ui_adjust(-20, 'fourth'), ui_adjust(12, 'fifth');
DROP TRIGGER ui_whole ON quota.ledger;
DROP TRIGGER ui_not_null ON quota.ledger;
ALTER TABLE quota.ledger DROP CONSTRAINT ui_whole;
DROP INDEX quota.ui_whole;
INSERT INTO quota.jobs (tenant, provider) SELECT 'ui', 'ui' FROM generate_series(1, 2);
CREATE TRIGGER ui_changed AFTER UPDATE ON quota.jobs FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION ui_tell('changed');
SELECT count(quota_complete(id, attempt)::text) FROM quota_dequeue('ui');
SELECT count(quota_complete(id, attempt)::text) FROM quota_dequeue('ui');
DROP TRIGGER ui_changed ON quota.jobs;

-- a function in SQL that fails in the middle, in a subtransaction
CREATE FUNCTION ui_even(amount bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	IF amount % 2 = 1 THEN
		RAISE 'odd';
	END IF;
	RAISE NOTICE 'seen';
	RETURN true;
END $$;
CREATE FUNCTION ui_steps(amount bigint) RETURNS boolean LANGUAGE sql AS $$ SELECT 1; SELECT ui_even(amount); SELECT true; $$;
ALTER TABLE quota.ledger ADD CONSTRAINT ui_steps CHECK (ui_steps(amount)) NOT VALID;
BEGIN;
SELECT quota_adjust('ui', 'ui', 'credits', 14, 'even');
SELECT ui_adjust(15, 'odd'), ui_adjust(16, 'even'), ui_adjust(17, 'odd'), ui_adjust(18, 'even');
COMMIT;
ALTER TABLE quota.ledger DROP CONSTRAINT ui_steps;

-- a condition that writes meanwhile: its entries are a stranger's
CREATE FUNCTION ui_sneak(entry quota.ledger) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	IF entry.reason <> 'sneaked' THEN
		INSERT INTO quota.ledger (account, provider, limit_name, tenant, unit, kind, amount, reason, charged_at, created_at)
		VALUES (entry.account, entry.provider, entry.limit_name, entry.tenant, entry.unit, 'adjust', -500, 'sneaked', entry.charged_at, entry.created_at);
	END IF;
	RETURN false;
END $$;
CREATE TRIGGER ui_sneak BEFORE INSERT ON quota.ledger FOR EACH ROW WHEN (ui_sneak(NEW)) EXECUTE FUNCTION ui_tell('sneak');
SELECT ui_adjust(20, 'before');
DROP TRIGGER ui_sneak ON quota.ledger;
CREATE TRIGGER ui_sneak AFTER INSERT ON quota.ledger FOR EACH ROW WHEN (ui_sneak(NEW)) EXECUTE FUNCTION ui_tell('sneak');
SELECT ui_adjust(20, 'after');
DROP TRIGGER ui_sneak ON quota.ledger;
SELECT count(*) FROM quota.ledger WHERE reason = 'sneaked';

-- which table it is, and what it is a partition of
ALTER TABLE quota.ledger ADD CONSTRAINT ui_table CHECK (tableoid = 'quota.ledger'::regclass) NOT VALID;
SELECT ui_adjust(22, 'here');
ALTER TABLE quota.ledger DROP CONSTRAINT ui_table;
CREATE TABLE ui_dedupe (LIKE quota.dedupe) PARTITION BY LIST (dedupe_key);
ALTER TABLE ui_dedupe ATTACH PARTITION quota.dedupe FOR VALUES IN ('one');
SELECT created FROM quota_enqueue('ui', 'ui', dedupe_key => 'one');
\set VERBOSITY terse
SELECT created FROM quota_enqueue('ui', 'ui', dedupe_key => 'two');
\set VERBOSITY default
ALTER TABLE ui_dedupe DETACH PARTITION quota.dedupe;
DROP TABLE ui_dedupe;
SELECT count(quota_cancel(id)) FROM quota.jobs WHERE provider = 'ui' AND state = 'queued';
SELECT * FROM quota_audit();

DELETE FROM quota.jobs WHERE provider = 'ui';
DROP FUNCTION ui_adjust, ui_in, ui_key, ui_nested, ui_tell, ui_whole, ui_even, ui_steps, ui_sneak;
