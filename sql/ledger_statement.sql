-- Statements, and what the audit finds in an account whose rows were changed behind
-- the extension's back.
SELECT quota_clock_set('2026-09-10 12:00:00+00');
SET timezone = 'UTC';
INSERT INTO quota.tiers (tier) VALUES ('stm');
INSERT INTO quota.tenants (tenant, tier) VALUES ('stm_a', 'stm'), ('stm_b', 'stm');
INSERT INTO quota.providers (provider) VALUES ('stm');
INSERT INTO quota.costs (provider, unit, cost) VALUES ('stm', 'credit', 10);
INSERT INTO quota.limits (provider, name, per, unit, kind, amount, period, external) VALUES
	('stm', 'own', '{tenant}', 'credit', 'allowance', 1000, '1 month', false),
	('stm', 'all', '{}', 'credit', 'allowance', 5000, '1 month', false);
\set ECHO none
\i test/lib/await.sql
\set ECHO all
CREATE PROCEDURE spend(who text, calls int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..calls LOOP
		PERFORM quota_settle((quota_acquire(who, 'stm')).permit);
	END LOOP;
END $$;
CREATE VIEW periods AS
	SELECT limit_name, tenant, period_start::date, opening, given, spent, held, closing, closed, burn_rate, hours_left
	FROM quota.statement_periods WHERE provider = 'stm' ORDER BY limit_name, tenant, period_start;

-- everything that can be on a statement; at once, so that the worker folds it at once
BEGIN;
SELECT permit AS p FROM quota_hold('stm_a', 'stm', 'credit', 300, '30 days') \gset
SELECT quota_settle(:p, units => '{"credit": 200}');
SELECT permit AS q FROM quota_hold('stm_a', 'stm', 'credit', 50, '30 days') \gset
SELECT quota_refund(:p, 20, 'sorry');
SELECT quota_grant('stm_a', 'stm', 'own', 500, 'welcome');
SELECT quota_adjust('stm_a', 'stm', 'own', 30, 'by phone');
CALL spend('stm_b', 1);
COMMIT;
CALL await($$count(*) = 3 FROM periods$$);
SELECT seq, kind, caller, amount, held, balance, reason FROM quota.statement WHERE tenant = 'stm_a' AND limit_name = 'own' ORDER BY seq;
SELECT seq, kind, caller, amount, held, balance, reason FROM quota.statement WHERE provider = 'stm' AND limit_name = 'all' ORDER BY seq;
SELECT * FROM periods;
-- what is not final has no number yet
BEGIN;
SELECT quota_settle(:q, units => '{"credit": 40}');
SELECT seq, kind, amount, held, balance FROM quota.statement WHERE tenant = 'stm_a' AND limit_name = 'own' ORDER BY seq OFFSET 5;
COMMIT;
-- at that rate: an hour later by what was spent since
SELECT quota_clock_advance('1 hour');
CALL spend('stm_a', 34);
CALL await($$count(*) >= 2 FROM quota.ledger_folds WHERE account IN (SELECT account FROM periods JOIN quota.statement_periods USING (limit_name) WHERE provider = 'stm' AND limit_name = 'own')$$);
SELECT * FROM periods WHERE tenant = 'stm_a';
-- the next month: the old one is closed, and so it stays, but for what comes late
SELECT quota_clock_set('2026-10-01 00:00:00+00');
CALL spend('stm_a', 1);
CALL await($$count(*) FILTER (WHERE closed) = 3 AND count(*) = 5 FROM periods$$);
SELECT quota_refund(:p, 5);
SELECT * FROM periods;
SELECT kind, balance, seq FROM quota.statement WHERE tenant = 'stm_a' AND limit_name = 'own' AND period_start = '2026-09-01' ORDER BY seq DESC NULLS FIRST LIMIT 2;

-- what is asked for is found without reading all accounts
CREATE FUNCTION indexes(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN ' || query LOOP
		RETURN NEXT substring(line FROM 'ledger_\w+_tenant');
	END LOOP;
END $$;
SET enable_seqscan = off;
SELECT DISTINCT indexes FROM indexes('SELECT * FROM quota.statement_periods WHERE tenant = ''stm_a''') WHERE indexes IS NOT NULL ORDER BY 1;
SELECT DISTINCT indexes FROM indexes('SELECT * FROM quota.statement WHERE tenant = ''stm_a''') WHERE indexes IS NOT NULL ORDER BY 1;
RESET enable_seqscan;
DROP FUNCTION indexes;

-- the audit, from entries and from running balances
CREATE FUNCTION audit(change text, "full" boolean = true) RETURNS TABLE
	(problem text, limit_name text, tenant text, detail text, expected bigint, actual bigint)
LANGUAGE plpgsql AS $$
BEGIN
	ALTER TABLE quota.ledger DISABLE TRIGGER USER;
	ALTER TABLE quota.ledger_periods DISABLE TRIGGER USER;
	EXECUTE change;
	RETURN QUERY SELECT a.problem, a.limit_name, a.tenant, a.detail, a.expected, a.actual
	FROM quota_audit("full") a WHERE a.problem <> 'counter differs' ORDER BY 1, 2, 3, 4;
	RAISE EXCEPTION USING ERRCODE = 'QT000';
EXCEPTION WHEN SQLSTATE 'QT000' THEN
	RETURN;
END $$;
CREATE VIEW own AS SELECT f.* FROM quota.ledger_folds f
	WHERE account = (SELECT account FROM quota.ledger WHERE provider = 'stm' AND limit_name = 'own' AND tenant = 'stm_a' LIMIT 1);
SELECT * FROM quota_audit();
SELECT * FROM quota_audit(false);
-- sequence
SELECT * FROM audit($$UPDATE quota.ledger_folds SET entries = entries + 1 WHERE (account, upto) IN (SELECT account, upto FROM own ORDER BY upto LIMIT 1)$$);
SELECT * FROM audit($$UPDATE quota.ledger_folds SET entries = entries + 1 WHERE (account, upto) IN (SELECT account, upto FROM own ORDER BY upto DESC LIMIT 1)$$, false);
-- an entry that is gone, or appears among those that were final
SELECT * FROM audit($$DELETE FROM quota.ledger WHERE provider = 'stm' AND kind = 'adjust'$$);
SELECT * FROM audit($$INSERT INTO quota.ledger (account, provider, limit_name, tenant, unit, kind, amount, charged_at, created_at, xid)
	SELECT account, provider, limit_name, tenant, unit, 'adjust', 7, charged_at, created_at, xid FROM quota.ledger WHERE provider = 'stm' AND kind = 'adjust'$$);
-- running balances: posted, held, given
SELECT * FROM audit($$UPDATE quota.ledger_folds SET posted = posted + 1 WHERE (account, upto) IN (SELECT account, upto FROM own ORDER BY upto DESC LIMIT 1)$$, false);
SELECT * FROM audit($$UPDATE quota.ledger_folds SET held = held + 1 WHERE (account, upto) IN (SELECT account, upto FROM own ORDER BY upto LIMIT 1)$$);
SELECT * FROM audit($$UPDATE quota.ledger_folds SET given = given + 1 WHERE (account, upto) IN (SELECT account, upto FROM own ORDER BY upto LIMIT 1)$$);
-- one that old ones are trusted for
SELECT count(*) FROM audit($$UPDATE quota.ledger_folds SET held = held + 1, posted = posted - 1 WHERE (account, upto) IN (SELECT account, upto FROM own ORDER BY upto LIMIT 1)$$, false);
-- accounts: one without its row, one that is said to be another's
SELECT * FROM audit($$DELETE FROM quota.ledger_accounts WHERE tenant = 'stm_a'$$, false);
SELECT * FROM audit($$UPDATE quota.ledger_accounts SET tenant = 'stm_b' WHERE tenant = 'stm_a'$$);
-- periods: two rows of one, one that is missing, one that is wrong
SELECT * FROM audit($$ALTER TABLE quota.ledger_periods DROP CONSTRAINT ledger_periods_pkey;
	INSERT INTO quota.ledger_periods SELECT * FROM quota.ledger_periods WHERE tenant = 'stm_b' AND provider = 'stm'$$);
SELECT * FROM audit($$UPDATE quota.ledger_periods SET period_start = '2027-01-01', period_end = '2027-02-01' WHERE tenant = 'stm_b' AND provider = 'stm'$$);
SELECT * FROM audit($$UPDATE quota.ledger_periods SET posted = posted + 1 WHERE tenant = 'stm_b' AND provider = 'stm'$$);
SELECT * FROM audit($$UPDATE quota.ledger_periods SET posted = posted - 1, held = held + 1 WHERE tenant = 'stm_b' AND provider = 'stm'$$);
SELECT * FROM audit($$UPDATE quota.ledger_periods SET given = given + 1 WHERE tenant = 'stm_b' AND provider = 'stm'$$);
-- one that lacks something that is folded
SELECT * FROM audit($$UPDATE quota.ledger_periods SET posted = 0, held = 0, given = 0, upto = '3' WHERE tenant = 'stm_b' AND provider = 'stm'$$);
-- holds: resolved twice, not at all, with another amount than they held, more refunded than spent
SELECT * FROM audit(format($$INSERT INTO quota.ledger (account, provider, limit_name, tenant, unit, kind, amount, held, permit, charged_at, created_at, xid)
	SELECT account, provider, limit_name, tenant, unit, kind, 0, 0, permit, charged_at, created_at, pg_current_xact_id() FROM quota.ledger WHERE permit = %s AND kind = 'settle' AND limit_name = 'own'$$, :q), false);
SELECT * FROM audit(format($$DELETE FROM quota.ledger WHERE permit = %s AND kind = 'settle' AND limit_name = 'own'$$, :p));
SELECT * FROM audit(format($$UPDATE quota.ledger SET held = held - 1 WHERE permit = %s AND kind = 'settle' AND limit_name = 'own'$$, :p));
SELECT * FROM audit(format($$UPDATE quota.ledger SET amount = -1000 WHERE permit = %s AND kind = 'refund' AND limit_name = 'own'$$, :p));
-- a hold that was admitted though it was not available: the allowance owes something,
-- and no debt explains it; but a debt does, a soft limit, and a lowered amount
CREATE FUNCTION held(n bigint, allowance bigint) RETURNS text LANGUAGE SQL AS $$
	SELECT format($q$INSERT INTO quota.ledger (account, provider, limit_name, tenant, unit, kind, amount, held, permit, charged_at, created_at, xid, period_start, allowance)
		SELECT account, provider, limit_name, tenant, unit, 'hold', %1$s, %1$s, 77, charged_at, created_at, pg_current_xact_id(), period_start, %2$L
		FROM quota.ledger WHERE kind = 'hold' AND limit_name = 'own' AND tenant = 'stm_a' AND period_start = '2026-09-01' LIMIT 1;
	INSERT INTO quota.holds SELECT permit, tenant, provider, NULL, 1, created_at, 'infinity' FROM quota.ledger WHERE permit = 77$q$, n, allowance)
$$;
SELECT allowance, sum(amount) FROM quota.ledger WHERE kind = 'hold' AND limit_name = 'own' AND tenant = 'stm_a' GROUP BY period_start, allowance ORDER BY period_start;
SELECT * FROM audit(held(1000, 1000));
SELECT * FROM audit(held(1000, NULL));
SELECT * FROM audit(held(1000, 2000));
SELECT * FROM audit($$DELETE FROM quota.ledger WHERE provider = 'stm' AND kind = 'grant'; $$ || held(600, 1000)) WHERE problem LIKE 'held%';
SELECT * FROM audit($$SELECT quota_adjust('stm_a', 'stm', 'own', 5000); UPDATE quota.limits SET amount = 1 WHERE provider = 'stm'$$);
-- one that was admitted from a grant that had expired, and one just before
CREATE FUNCTION expired(later interval) RETURNS text LANGUAGE SQL AS $$
	SELECT format($q$INSERT INTO quota.ledger (account, provider, limit_name, tenant, unit, kind, amount, charged_at, created_at, xid, expires_at)
		SELECT account, provider, limit_name, tenant, unit, 'grant', -500, charged_at, created_at, pg_current_xact_id(), charged_at + '1 hour'
		FROM quota.ledger WHERE kind = 'hold' AND limit_name = 'own' AND tenant = 'stm_b';
	INSERT INTO quota.ledger (account, provider, limit_name, tenant, unit, kind, amount, held, permit, charged_at, created_at, xid, period_start, allowance)
		SELECT account, provider, limit_name, tenant, unit, 'hold', 1200, 1200, 77, charged_at + %L::interval, created_at, pg_current_xact_id(), period_start, 1000
		FROM quota.ledger WHERE kind = 'hold' AND limit_name = 'own' AND tenant = 'stm_b';
	INSERT INTO quota.holds SELECT permit, tenant, provider, NULL, 1, created_at, 'infinity' FROM quota.ledger WHERE permit = 77$q$, later)
$$;
SELECT * FROM audit(expired('1 hour')) WHERE problem LIKE 'held%';
SELECT * FROM audit(expired('59 min 59.999999 s')) WHERE problem LIKE 'held%';
DROP FUNCTION expired;
-- an entry that does not sum to zero
SELECT * FROM audit(format($$ALTER TABLE quota.ledger DROP CONSTRAINT ledger_moves;
	UPDATE quota.ledger SET held = 0 WHERE permit = %s AND kind = 'hold' AND limit_name = 'own'$$, :p));
SELECT * FROM quota_audit();

-- rights
CREATE ROLE statement_user;
SET ROLE statement_user;
SELECT * FROM quota.statement;
SELECT * FROM quota.statement_periods;
RESET ROLE;
GRANT USAGE ON SCHEMA quota TO statement_user;
GRANT SELECT ON quota.statement, quota.statement_periods TO statement_user;
SET ROLE statement_user;
SELECT count(*) > 0 FROM quota.statement WHERE tenant = 'stm_a';
SELECT count(*) > 0 FROM quota.statement_periods WHERE tenant = 'stm_a';
RESET ROLE;
-- a view of one's own over them needs no right but to itself, and who may use no schema
-- but his own asks for amounts as everybody may, by quota_balance
REVOKE ALL ON quota.statement, quota.statement_periods FROM statement_user;
REVOKE ALL ON SCHEMA quota FROM statement_user;
CREATE VIEW mine AS SELECT limit_name, opening FROM quota.statement_periods WHERE tenant = 'stm_a' AND NOT closed;
GRANT SELECT ON mine TO statement_user;
SET ROLE statement_user;
SELECT * FROM mine;
SELECT quota.account_amount('00000000-0000-0000-0000-000000000001');
SELECT limit_name, amount FROM quota_balance('stm_a', 'stm') WHERE limit_name = 'own';
RESET ROLE;
DROP VIEW mine;
DROP OWNED BY statement_user;
DROP ROLE statement_user;
DROP VIEW periods, own;
DROP FUNCTION audit;
DROP FUNCTION held;
DROP PROCEDURE await;
DROP PROCEDURE spend;
