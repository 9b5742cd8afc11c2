-- Credits: holds, settling, refunds, grants, balances, periods, and the audit.
SELECT quota_clock_set('2026-03-31 12:00:00+00');
SET timezone = 'UTC';

INSERT INTO quota.tiers (tier) VALUES ('t');
INSERT INTO quota.tenants (tenant, tier) VALUES ('acme', 't'), ('bolt', 't');
INSERT INTO quota.providers (provider) VALUES ('llm'), ('mail');
INSERT INTO quota.costs (provider, endpoint, unit, cost) VALUES ('llm', NULL, 'credit', 10);
INSERT INTO quota.limits (provider, name, per, unit, kind, amount, period, external) VALUES
	('llm', 'credits', '{tenant}', 'credit', 'allowance', 100, '1 month', false),
	('llm', 'account', '{}', 'credit', 'allowance', 150, '1 month', false),
	(NULL, 'tokens', '{tenant}', 'token', 'allowance', 1000, '1 day', false);

CREATE VIEW entries AS
	SELECT provider, limit_name, tenant, unit, kind, amount, held, permit IS NOT NULL AS permit,
		charged_at, reason
	FROM quota.ledger
	WHERE provider IN ('llm', 'mail') OR limit_name = 'tokens'
	ORDER BY pg_catalog.min(id) OVER (PARTITION BY permit), limit_name, id;
CREATE FUNCTION balance(tenant text, provider text = NULL) RETURNS TABLE
	(limit_provider text, limit_name text, amount bigint, used bigint, held bigint, remaining bigint)
LANGUAGE SQL AS 'SELECT limit_provider, limit_name, amount, used, held, remaining
	FROM quota_balance($1, $2)
	WHERE limit_provider IN (''llm'', ''mail'') OR limit_name = ''tokens'' ORDER BY 1, 2';

-- a call holds its estimate at once, of every allowance it meets
SELECT admitted, granted, reason, remaining, permit IS NOT NULL AS permit
FROM quota_acquire('acme', 'llm');
SELECT * FROM balance('acme');
SELECT * FROM balance(NULL, 'llm');
SELECT limit_provider, limit_name, period_start, period_end FROM quota_balance('acme')
	WHERE limit_provider = 'llm' OR limit_name = 'tokens' ORDER BY 1, 2;

-- settled as estimated, once; saying so again changes nothing, saying otherwise is refused
-- (permit numbers in messages differ from run to run)
SELECT permit AS p FROM quota.holds WHERE tenant = 'acme' \gset
SELECT quota_settle(:p);
SELECT quota_settle(:p);
\set VERBOSITY sqlstate
SELECT quota_settle(:p, units => '{"credit": 9}');
\set VERBOSITY default
SELECT * FROM balance('acme', 'llm');

-- settled with less, with more, with more for two calls, and not billed
SELECT permit AS p FROM quota_acquire('acme', 'llm', units => '{"credit": 20}') \gset
SELECT quota_settle(:p, units => '{"credit": 5}');
SELECT permit AS p FROM quota_acquire('acme', 'llm') \gset
SELECT quota_settle(:p, units => '{"credit": 12}');
SELECT permit AS p FROM quota_acquire('acme', 'llm', n => 2) \gset
SELECT quota_settle(:p, units => '{"credit": 11}');
SELECT permit AS p FROM quota_acquire('acme', 'llm') \gset
SELECT quota_settle(:p, billed => false);
SELECT permit AS p FROM quota_acquire('acme', 'llm') \gset
SELECT quota_release(:p);
SELECT * FROM entries;
SELECT * FROM balance('acme', 'llm');
SELECT * FROM quota_audit();

-- hold and settle in one transaction; what rolls back was never there
BEGIN;
SELECT permit AS p FROM quota_acquire('acme', 'llm') \gset
SELECT * FROM balance('acme', 'llm');
SAVEPOINT s;
SELECT quota_settle(:p, units => '{"credit": 1}');
ROLLBACK TO s;
SELECT quota_settle(:p, units => '{"credit": 3}');
COMMIT;
BEGIN;
SELECT admitted FROM quota_acquire('acme', 'llm');
SELECT quota_grant('acme', 'llm', 'credits', 1000);
ROLLBACK;
SELECT * FROM balance('acme', 'llm');
SELECT count(*) FROM quota.holds WHERE tenant IN ('acme', 'bolt');

-- synchronous_commit is raised for the transaction that holds
SET synchronous_commit = off;
BEGIN;
SELECT permit AS p FROM quota_acquire('acme', 'llm') \gset
SHOW synchronous_commit;
COMMIT;
SHOW synchronous_commit;
RESET synchronous_commit;
SELECT quota_release(:p);

-- exhausted: the tenant's own, then the one all share
SELECT granted, permit AS p FROM quota_acquire('acme', 'llm', n => 8, partial => true) \gset
SELECT :granted AS granted;
SELECT admitted, reason, limit_name, not_before, exhausted->0->>'remaining' AS remaining
FROM quota_acquire('acme', 'llm', n => 4);
SELECT admitted, reason, limit_name FROM quota_acquire('bolt', 'llm', n => 9);
SELECT quota_settle(:p);

-- grants serve others at commit; adjusting spends at once
SELECT quota_grant('acme', 'llm', 'credits', 60, 'goodwill');
SELECT quota_grant(NULL, 'llm', 'account', 50);
SELECT quota_adjust('acme', NULL, 'tokens', 250, 'invoice');
SELECT quota_adjust('acme', NULL, 'tokens', -50);
SELECT * FROM balance('acme');
SELECT quota_grant('acme', 'llm', 'nosuch', 1);
SELECT quota_grant('nosuch', 'llm', 'credits', 1);
SELECT quota_grant('acme', 'nosuch', 'credits', 1);
SELECT quota_grant('acme', 'llm', 'credits', 0);

-- holds without a call ask allowances only
SELECT admitted, reason, limit_name, remaining FROM quota_hold('acme', 'llm', 'token', 900);
SELECT admitted, remaining, permit AS p FROM quota_hold('acme', 'llm', 'token', 300, '10 s') \gset
SELECT * FROM balance('acme', 'mail');
\set VERBOSITY sqlstate
SELECT quota_refund(:p);
\set VERBOSITY default
SELECT quota_settle(:p, units => '{"token": 250}');
SELECT admitted FROM quota_hold('acme', 'llm', 'nosuch', 1);

-- refunds: at most what was spent, in the period it was spent in
SELECT quota_refund(:p, 100, 'bad answer');
\set VERBOSITY terse
SELECT quota_refund(:p, 151);
\set VERBOSITY default
SELECT quota_refund(:p);
SELECT quota_refund(:p);
\set VERBOSITY terse
SELECT quota_refund(:p, 1);
\set VERBOSITY default
SELECT quota_refund(1);
\set VERBOSITY sqlstate
SELECT quota_refund(:p, 1, NULL, 'nosuch');
SELECT quota_refund(:p, NULL, NULL, 'nosuch');
\set VERBOSITY default
SELECT kind, amount, reason FROM quota.ledger WHERE permit = :p ORDER BY id;
SELECT * FROM balance('acme', 'mail');
SELECT * FROM quota_audit();

-- amounts that no counter could keep are refused
SELECT quota_hold('acme', 'llm', 'token', 1000000001);
SELECT count(quota_adjust('acme', NULL, 'tokens', 1000000000000000)) FROM generate_series(1, 5000);
SELECT count(quota_grant('acme', NULL, 'tokens', 1000000000000000)) FROM generate_series(1, 5000);
SELECT * FROM balance('acme', 'mail');

-- settling late is too late, by the clock: the lock keeps the background worker from
-- writing it off
BEGIN;
SELECT admitted, permit AS p FROM quota_hold('bolt', 'llm', 'token', 100, '10 s') \gset
SELECT used, held FROM balance('bolt', 'mail');
COMMIT;
BEGIN;
LOCK TABLE quota.holds IN EXCLUSIVE MODE;
SELECT quota_clock_advance('11 s');
SELECT used, held FROM balance('bolt', 'mail');
SAVEPOINT s;
\set VERBOSITY sqlstate
SELECT quota_settle(:p, units => '{"token": 70}');
ROLLBACK TO s;
SELECT quota_release(:p, 1);
ROLLBACK TO s;
\set VERBOSITY default
-- what a lost hold has spent can be refunded
SELECT quota_refund(:p, 30);
COMMIT;
SELECT used, held FROM balance('bolt', 'mail');
SELECT kind, amount FROM quota.ledger WHERE permit = :p ORDER BY id;

-- a lost hold stays charged, or returns where the provider says so
CREATE PROCEDURE await_worker() LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..600 LOOP
		EXIT WHEN NOT EXISTS (SELECT FROM quota.holds WHERE tenant = 'bolt');
		COMMIT;
		PERFORM pg_sleep(0.05);
	END LOOP;
END $$;
SELECT permit AS p FROM quota_hold('bolt', 'llm', 'token', 100, '10 s') \gset
SELECT quota_clock_advance('11 s');
CALL await_worker();
SELECT kind, amount FROM quota.ledger WHERE permit = :p ORDER BY id;
UPDATE quota.providers SET lost_permit = 'refund' WHERE provider = 'llm';
SELECT permit AS p FROM quota_hold('bolt', 'llm', 'token', 100, '10 s') \gset
SELECT quota_clock_advance('11 s');
CALL await_worker();
SELECT kind, amount FROM quota.ledger WHERE permit = :p ORDER BY id;
SELECT used, held FROM balance('bolt', 'mail');
DROP PROCEDURE await_worker;

-- periods: a new one begins with nothing used; what comes late counts in the old one
SELECT permit AS p FROM quota_hold('bolt', 'llm', 'token', 100, '1 day') \gset
SELECT quota_clock_advance('12 hours');
SELECT used, remaining, period_start, period_end FROM quota_balance('bolt', 'mail');
SELECT quota_settle(:p, units => '{"token": 10}');
SELECT used, remaining FROM balance('bolt', 'mail');
SELECT quota_refund(:p);
SELECT used, remaining FROM balance('bolt', 'mail');
SELECT limit_name, used, period_start, period_end FROM quota_balance('acme', 'llm') ORDER BY 1;
SELECT * FROM quota_audit();

-- an anchor on the 31st
UPDATE quota.limits SET anchor = '2026-01-31 06:00+00' WHERE name = 'credits';
SELECT limit_name, used, period_start, period_end FROM quota_balance('acme', 'llm') ORDER BY 1;
SELECT quota_clock_set('2026-04-30 06:00+00');
SELECT period_start, period_end FROM quota_balance('acme', 'llm') WHERE limit_name = 'credits';
SELECT * FROM quota_audit();

-- entries are final, and only a restore inserts them
UPDATE quota.ledger SET amount = 0;
DELETE FROM quota.ledger;
TRUNCATE quota.ledger;
INSERT INTO quota.ledger (account, limit_name, unit, kind, amount, charged_at, created_at)
SELECT account, limit_name, unit, 'grant', -1, charged_at, created_at
FROM quota.ledger WHERE limit_name = 'tokens' LIMIT 1;
INSERT INTO quota.ledger (account, provider, limit_name, unit, kind, amount, charged_at, created_at)
VALUES ('00000000-0000-0000-0000-000000000001', 'llm', 'old', 'credit', 'grant', -1, now(), now());
-- which bear the transaction of the restore, whatever they say
INSERT INTO quota.ledger (account, provider, limit_name, unit, kind, amount, charged_at, created_at, xid)
VALUES ('00000000-0000-0000-0000-000000000001', 'llm', 'old', 'credit', 'grant', -1, now(), now(), '9000000000000000')
RETURNING xid = pg_current_xact_id() AS stamped;

-- also for a trigger that fires while an entry is written
CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE TG_ARGV[0];
	RETURN NEW;
END $$;
CREATE TRIGGER meddle AFTER INSERT ON quota.ledger FOR EACH ROW WHEN (NEW.kind = 'hold')
	EXECUTE FUNCTION meddle('UPDATE quota.ledger SET reason = ''mine'' WHERE kind = ''hold''');
SELECT quota_hold('bolt', 'llm', 'token', 7);
DROP TRIGGER meddle ON quota.ledger;
CREATE TRIGGER meddle BEFORE INSERT ON quota.ledger FOR EACH ROW WHEN (NEW.kind = 'hold')
	EXECUTE FUNCTION meddle('DELETE FROM quota.ledger WHERE kind = ''hold''');
SELECT quota_hold('bolt', 'llm', 'token', 7);
DROP TRIGGER meddle ON quota.ledger;
CREATE TRIGGER meddle BEFORE INSERT ON quota.ledger FOR EACH ROW WHEN (NEW.kind = 'hold')
	EXECUTE FUNCTION meddle('INSERT INTO quota.ledger (account, provider, limit_name, unit, kind, amount, charged_at, created_at)
		SELECT account, provider, limit_name, unit, ''grant'', -1, charged_at, created_at FROM quota.ledger WHERE limit_name = ''tokens'' LIMIT 1');
SELECT quota_hold('bolt', 'llm', 'token', 7);
DROP TRIGGER meddle ON quota.ledger;
CREATE TRIGGER meddle AFTER INSERT ON quota.ledger FOR EACH ROW WHEN (NEW.kind = 'hold')
	EXECUTE FUNCTION meddle('INSERT INTO quota.ledger (account, provider, limit_name, unit, kind, amount, reason, charged_at, created_at, xid)
		VALUES (''00000000-0000-0000-0000-000000000001'', ''llm'', ''old'', ''credit'', ''grant'', -1, ''meddled'', now(), now(), ''9000000000000000'')');
SELECT quota_release(permit) FROM quota_hold('bolt', 'llm', 'token', 7);
DROP TRIGGER meddle ON quota.ledger;
DROP FUNCTION meddle();
SELECT bool_and(xid < pg_current_xact_id()) AS stamped FROM quota.ledger WHERE reason = 'meddled';

-- the audit finds what should never be
SELECT permit AS p FROM quota_hold('bolt', 'llm', 'token', 7, '1 day') \gset
BEGIN;
DELETE FROM quota.holds;
INSERT INTO quota.holds VALUES (42, 'acme', 'llm', NULL, 1, now(), now());
SELECT problem, limit_name, tenant, expected, actual FROM quota_audit() ORDER BY 1, 2, 3, 4, 5;
ROLLBACK;
SELECT quota_release(:p);
SELECT * FROM quota_audit();

-- and a counter that differs from its entries
ALTER TABLE quota.ledger DISABLE TRIGGER USER;
INSERT INTO quota.ledger (account, limit_name, unit, kind, amount, charged_at, created_at, reason, xid)
SELECT account, limit_name, unit, 'adjust', 5, charged_at, created_at, 'forged', xid
FROM quota.ledger WHERE permit = :p LIMIT 1;
SELECT problem, limit_name, expected, actual FROM quota_audit() WHERE problem = 'counter differs';
DELETE FROM quota.ledger WHERE reason = 'forged';
-- should the worker have folded it meanwhile: entries alone say what is right
DELETE FROM quota.ledger_folds;
-- and an entry that holds, or resolves, another amount than its hold
BEGIN;
UPDATE quota.ledger SET amount = amount + 1, held = held + 1 WHERE permit = :p AND kind = 'hold';
SELECT problem, limit_name, tenant, expected, actual FROM quota_audit() ORDER BY 1;
ROLLBACK;
\set VERBOSITY sqlstate
UPDATE quota.ledger SET held = 0 WHERE permit = :p AND kind = 'hold';
\set VERBOSITY default
BEGIN;
ALTER TABLE quota.ledger DROP CONSTRAINT ledger_moves;
UPDATE quota.ledger SET held = 8 WHERE permit = :p AND kind = 'hold';
UPDATE quota.ledger SET held = -8 WHERE permit = :p AND kind = 'settle';
SELECT problem, limit_name, tenant, detail FROM quota_audit();
ROLLBACK;
ALTER TABLE quota.ledger ENABLE ALWAYS TRIGGER zz_quota_ledger_stamp;
ALTER TABLE quota.ledger ENABLE ALWAYS TRIGGER ledger_final;
ALTER TABLE quota.ledger ENABLE ALWAYS TRIGGER ledger_final_truncate;
ALTER TABLE quota.ledger ENABLE ALWAYS TRIGGER ledger_restored;
SELECT * FROM quota_audit();

-- rights
CREATE ROLE credit_user;
SET ROLE credit_user;
SELECT quota_grant('acme', 'llm', 'credits', 1);
SELECT quota_adjust('acme', 'llm', 'credits', 1);
SELECT quota_refund(1);
SELECT * FROM quota_audit();
SELECT count(*) FROM quota.ledger;
SELECT permit AS p FROM quota_hold('bolt', 'llm', 'token', 1) \gset
SELECT quota_settle(:p);
SELECT used FROM quota_balance('bolt', 'mail');
RESET ROLE;
DROP ROLE credit_user;
DROP VIEW entries;
DROP FUNCTION balance;

-- a limit with open holds can't be deleted
SELECT permit AS p FROM quota_hold('bolt', 'llm', 'token', 1) \gset
DELETE FROM quota.limits WHERE provider IS NULL;
SELECT quota_settle(:p);

-- a limit across providers would meet the calls of other tests
DELETE FROM quota.limits WHERE provider IS NULL;
