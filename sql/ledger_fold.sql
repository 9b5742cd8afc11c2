-- Running balances and the end of periods, written by a background worker.
SELECT quota_clock_set('2026-05-10 12:00:00+00');
SET timezone = 'UTC';
INSERT INTO quota.tiers (tier) VALUES ('fold');
INSERT INTO quota.tenants (tenant, tier) VALUES ('fold_a', 'fold'), ('fold_b', 'fold'), ('fold_c', 'fold');
INSERT INTO quota.providers (provider) VALUES ('fold');
INSERT INTO quota.costs (provider, unit, cost) VALUES ('fold', 'credit', 10);
INSERT INTO quota.limits (provider, name, per, unit, kind, amount, period, external) VALUES
	('fold', 'own', '{tenant}', 'credit', 'allowance', 5000, '1 month', false),
	('fold', 'all', '{}', 'credit', 'allowance', 100000, '1 day', false);

CREATE VIEW folds AS
	SELECT limit_name, CASE limit_name WHEN 'own' THEN tenant END AS tenant, entries, charged_at, period_start, posted, held,
		row_number() OVER (PARTITION BY account ORDER BY upto) AS fold
	FROM quota.ledger_folds JOIN (SELECT DISTINCT ON (account) account, limit_name, tenant
		FROM quota.ledger WHERE provider = 'fold') l USING (account)
	ORDER BY 1, 2, upto;
CREATE VIEW periods AS
	SELECT limit_name, tenant, period_start, period_end, unit, amount, posted, held
	FROM quota.ledger_periods WHERE provider = 'fold' ORDER BY 1, 2, 3;
CREATE FUNCTION balances() RETURNS TABLE (tenant text, limit_name text, used bigint, held bigint)
LANGUAGE SQL AS $$SELECT t, b.limit_name, b.used, b.held
	FROM unnest('{fold_a,fold_b}'::text[]) t, quota_balance(t, 'fold') b ORDER BY 1, 2$$;
\set ECHO none
\i test/lib/await.sql
\set ECHO all

CREATE PROCEDURE spend(who text, calls int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..calls LOOP
		PERFORM quota_settle((quota_acquire(who, 'fold')).permit);
	END LOOP;
END $$;

-- the first entries of a period are folded at once, others when there are 64
CALL spend('fold_a', 3);
CALL await('count(*) = 2 FROM folds');
SELECT * FROM folds;
SELECT permit AS p FROM quota_acquire('fold_a', 'fold', units => '{"credit": 7}') \gset
CALL await('(SELECT last_value FROM quota.ledger_folded) = (SELECT max(id) FROM quota.ledger)');
SELECT count(*) FROM folds;
CALL spend('fold_a', 40);
CALL await('count(*) = 4 FROM folds');
SELECT * FROM folds;
SELECT * FROM balances();

-- a balance is loaded from a fold and the entries that are not in it: what is false
-- in a fold is believed
SELECT quota_settle(:p);
CALL spend('fold_a', 5);
CREATE PROCEDURE reload() LANGUAGE SQL AS $$
	UPDATE quota.limits SET anchor = coalesce(anchor, '2000-01-01 00:00+00') + '1 day' WHERE provider = 'fold' AND name = 'all';
	UPDATE quota.limits SET anchor = coalesce(anchor, '2000-01-01 00:00+00') + '1 month' WHERE provider = 'fold' AND name = 'own'
$$;
CALL reload();
SELECT * FROM balances();
UPDATE quota.ledger_folds f SET posted = f.posted + 1000 FROM folds v WHERE v.limit_name = 'own' AND v.entries = f.entries;
CALL reload();
SELECT * FROM balances();
-- and from entries alone where there is none, or another calendar
UPDATE quota.limits SET anchor = '2026-01-10 00:00+00' WHERE provider = 'fold' AND name = 'own';
SELECT * FROM balances();
UPDATE quota.limits SET anchor = NULL WHERE provider = 'fold' AND name = 'own';
DELETE FROM quota.ledger_folds;
CALL reload();
SELECT * FROM balances();
SELECT * FROM quota_audit();

-- a period that is over is closed, whether or not its account is used again, and a
-- hold stays in the period it was opened in
SELECT permit AS p FROM quota_hold('fold_a', 'fold', 'credit', 33, '30 days') \gset
SELECT permit AS q FROM quota_hold('fold_b', 'fold', 'credit', 44, '30 days') \gset
CALL await('count(*) = 3 FROM folds');
SELECT quota_clock_set('2026-05-31 23:59:30+00');
CALL spend('fold_a', 1);
CALL await('count(*) > 3 FROM folds');
SELECT quota_clock_set('2026-06-01 00:00:00+00');
CALL spend('fold_a', 1);
SELECT * FROM balances();
CALL await('count(*) = 4 FROM periods');
SELECT * FROM periods;
SELECT quota_settle(:p, units => '{"credit": 3}'), quota_settle(:q);
SELECT * FROM balances();
CALL await('(SELECT last_value FROM quota.ledger_folded) = (SELECT max(id) FROM quota.ledger)');
SELECT count(*) FROM periods;
SELECT * FROM quota_audit();
-- a worker that has slept closes everything it finds, periods without entries excepted
SELECT quota_clock_set('2026-06-20 12:00:00+00');
CALL spend('fold_b', 1);
SELECT quota_clock_set('2026-08-05 12:00:00+00');
CALL spend('fold_b', 1);
CALL await('count(*) = 8 FROM periods');
SELECT * FROM periods;
-- another calendar: its first period begins where the last one has ended
UPDATE quota.limits SET anchor = '2026-01-15 00:00+00' WHERE provider = 'fold' AND name = 'own';
SELECT quota_clock_set('2026-08-15 12:00:00+00');
CALL spend('fold_b', 1);
CALL await('count(*) > 9 FROM periods');
SELECT * FROM periods WHERE limit_name = 'own' AND period_end > '2026-08-01';

-- a limit that is deleted has no calendar any more: what is over of it is closed when it
-- has been made again, and used; not while a hold is open
SELECT permit AS p FROM quota_hold('fold_b', 'fold', 'credit', 5) \gset
\set VERBOSITY terse
DELETE FROM quota.limits WHERE provider = 'fold' AND name = 'own';
\set VERBOSITY default
SELECT quota_settle(:p);
CREATE TEMP TABLE kept AS SELECT * FROM quota.limits WHERE provider = 'fold' AND name = 'own';
DELETE FROM quota.limits WHERE provider = 'fold' AND name = 'own';
SELECT quota_clock_set('2026-09-20 12:00:00+00');
CALL spend('fold_b', 1);
CALL await($$count(*) > 0 FROM periods WHERE limit_name = 'all' AND period_start = '2026-08-15'$$);
SELECT count(*) FROM periods WHERE limit_name = 'own' AND period_end > '2026-08-15';
SELECT * FROM quota_audit();
INSERT INTO quota.limits SELECT * FROM kept;
CALL spend('fold_b', 1);
CALL await($$count(*) > 0 FROM periods WHERE limit_name = 'own' AND period_end > '2026-08-15'$$);
SELECT * FROM periods WHERE limit_name = 'own' AND period_end > '2026-08-15';
SELECT * FROM quota_audit();

-- rows are final, and without the worker nobody misses them
UPDATE quota.ledger_periods SET amount = 0;
DELETE FROM quota.ledger_periods;
TRUNCATE quota.ledger_periods;
-- one that is restored knows no transactions
BEGIN;
INSERT INTO quota.ledger_periods SELECT '00000000-0000-0000-0000-000000000001', period_start, period_end, provider,
	limit_name, tenant, unit, amount, posted, held, given, upto, created_at FROM quota.ledger_periods LIMIT 1
RETURNING upto;
ROLLBACK;
-- and there is one for each period of an account
\set VERBOSITY sqlstate
INSERT INTO quota.ledger_periods SELECT * FROM quota.ledger_periods LIMIT 1;
\set VERBOSITY default

DROP TABLE kept;
DROP VIEW folds, periods;
DROP FUNCTION balances;
DROP PROCEDURE await;
DROP PROCEDURE spend;
DROP PROCEDURE reload;
