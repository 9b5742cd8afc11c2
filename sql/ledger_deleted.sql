-- An allowance that is deleted keeps its entries; the same limit, inserted again, finds
-- its accounts with what was spent, held and granted, whatever was written meanwhile.
SELECT quota_clock_set('2027-03-10 12:00:00+00');
SET timezone = 'UTC';
INSERT INTO quota.tiers (tier) VALUES ('del');
INSERT INTO quota.tenants (tenant, tier) VALUES ('del_a', 'del'), ('del_b', 'del');
INSERT INTO quota.providers (provider) VALUES ('del');
INSERT INTO quota.limits (provider, name, per, unit, kind, amount, period, external) VALUES
	('del', 'own', '{tenant}', 'credit', 'allowance', 100, '1 month', false);
CREATE TEMP TABLE kept AS SELECT * FROM quota.limits WHERE provider = 'del';
CREATE PROCEDURE make_again(changed text = NULL) LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO quota.limits SELECT * FROM kept;
	IF changed IS NOT NULL THEN
		EXECUTE 'UPDATE quota.limits SET ' || changed || ' WHERE provider = ''del''';
	END IF;
END $$;
CREATE FUNCTION balances() RETURNS TABLE (tenant text, unit text, amount bigint, used bigint, held bigint, remaining bigint, period_start date)
LANGUAGE SQL AS $$SELECT t, b.unit, b.amount, b.used, b.held, b.remaining, b.period_start::date
	FROM unnest('{del_a,del_b}'::text[]) t, quota_balance(t, 'del') b ORDER BY 1$$;
\set ECHO none
\i test/lib/await.sql
\set ECHO all

-- spent, given back, granted until an instant
SELECT permit AS p FROM quota_hold('del_a', 'del', 'credit', 30) \gset
SELECT quota_settle(:p);
SELECT quota_grant('del_a', 'del', 'own', 20, expires_at => '2027-03-20 00:00:00+00');
SELECT permit AS q FROM quota_hold('del_b', 'del', 'credit', 7) \gset
SELECT * FROM balances();
CALL await($$count(*) = 2 FROM quota.statement_periods WHERE provider = 'del'$$);

-- not while something is held
DELETE FROM quota.limits WHERE provider = 'del';
SELECT quota_settle(:q);

-- deleted: there is no such allowance, and its statement says so
DELETE FROM quota.limits WHERE provider = 'del';
SELECT * FROM balances();
SELECT admitted, reason FROM quota_acquire('del_a', 'del', units => '{"credit": 1000}');
SELECT quota_grant('del_a', 'del', 'own', 1);
SELECT tenant, limit_name, opening, given, spent, held, closing FROM quota.statement_periods WHERE provider = 'del' ORDER BY tenant;
-- what was spent of it can be refunded
SELECT quota_refund(:p, 5);
SELECT * FROM quota_audit();
-- made again
CALL make_again();
SELECT * FROM balances();
SELECT admitted, reason FROM quota_hold('del_a', 'del', 'credit', 96);
SELECT tenant, opening, given, spent, held, closing FROM quota.statement_periods WHERE provider = 'del' ORDER BY tenant;

-- within a transaction, and rolled back
BEGIN;
DELETE FROM quota.limits WHERE provider = 'del';
CALL make_again('amount = 60');
COMMIT;
SELECT * FROM balances();
BEGIN;
DELETE FROM quota.limits WHERE provider = 'del';
ROLLBACK;
SELECT * FROM balances();

-- over the end of the grant, and read from rows: another anchor, then the old one
DELETE FROM quota.limits WHERE provider = 'del';
SELECT quota_clock_set('2027-03-20 00:00:00+00');
CALL make_again('anchor = ''2027-01-05 00:00+00''');
SELECT * FROM balances();
UPDATE quota.limits SET anchor = NULL WHERE provider = 'del';
SELECT * FROM balances();
SELECT * FROM quota_audit();

-- in the next period nothing is used; a refund of the old one stays in it
DELETE FROM quota.limits WHERE provider = 'del';
SELECT quota_clock_set('2027-04-01 00:00:00+00');
SELECT quota_refund(:p, 5);
CALL make_again();
SELECT * FROM balances();
SELECT permit AS p FROM quota_hold('del_a', 'del', 'credit', 3) \gset
SELECT quota_settle(:p);
CALL await($$EXISTS (SELECT FROM quota.ledger_periods WHERE tenant = 'del_a' AND period_start = '2027-03-01')$$);
SELECT tenant, period_start, opening, given, spent, held, expired, closing, closed FROM quota.statement_periods WHERE provider = 'del' ORDER BY tenant, period_start;

-- another unit counts as so many of it; kept by something else it is another account
DELETE FROM quota.limits WHERE provider = 'del';
CALL make_again('unit = ''token''');
SELECT * FROM balances();
DELETE FROM quota.limits WHERE provider = 'del';
CALL make_again('per = ''{}''');
SELECT * FROM balances();
SELECT * FROM quota_audit();
-- each account stays whose it was, of the tenant or of all, whatever the limit is kept by
SELECT permit AS p FROM quota_hold('del_a', 'del', 'credit', 40) \gset
SELECT quota_settle(:p);
CALL await($$EXISTS (SELECT FROM quota.ledger_accounts WHERE provider = 'del' AND tenant IS NULL)$$);
CREATE VIEW periods AS SELECT tenant, period_start::date, opening, spent, closing, closed
	FROM quota.statement_periods WHERE provider = 'del' AND period_start >= '2027-04-01' ORDER BY tenant, period_start;
SELECT * FROM periods;
UPDATE quota.limits SET per = '{user}', amount = 77 WHERE provider = 'del';
SELECT * FROM periods;
UPDATE quota.limits SET per = '{tenant}' WHERE provider = 'del';
SELECT quota_clock_set('2027-05-01 00:00:00+00');
SELECT quota_adjust('del_a', 'del', 'own', 1, 'the tenant''s');
UPDATE quota.limits SET per = '{}' WHERE provider = 'del';
SELECT quota_adjust('del_a', 'del', 'own', 1, 'that of all');
CALL await($$count(*) = 2 FROM quota.ledger_periods WHERE provider = 'del' AND period_start = '2027-04-01'$$);
SELECT * FROM periods;
SELECT * FROM quota_audit();
DROP VIEW periods;

DELETE FROM quota.limits WHERE provider = 'del';
DROP TABLE kept;
DROP PROCEDURE await, make_again;
DROP FUNCTION balances;
