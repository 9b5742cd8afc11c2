-- G4: settling with more than was held (settle_over), and too late (settle_late), as the
-- allowance says.
SET timezone = 'UTC';
SELECT quota_clock_set('2027-03-01 00:00:00+00');
INSERT INTO quota.tiers (tier) VALUES ('g4s');
INSERT INTO quota.tenants (tenant, tier) VALUES ('g4s_a', 'g4s');
INSERT INTO quota.providers (provider) VALUES ('g4s');
INSERT INTO quota.limits (provider, name, per, unit, kind, amount, period, settle_over, external) VALUES
	('g4s', 'debt', '{tenant}', 'd', 'allowance', 100, '1 month', DEFAULT, false),
	('g4s', 'cap', '{tenant}', 'c', 'allowance', 300, '1 month', 'cap', false),
	('g4s', 'refuse', '{tenant}', 'r', 'allowance', 100, '1 month', 'refuse', false),
	('g4s', 'all', '{}', 'r', 'allowance', 1000, '1 month', 'cap', false);
CREATE VIEW g4s AS SELECT limit_name, used, held, remaining FROM quota_balance('g4s_a', 'g4s') ORDER BY 1;
CREATE FUNCTION g4s_entries(p bigint) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(limit_name || ' ' || kind || ' ' || amount || ' ' || held, ', ' ORDER BY limit_name COLLATE "C", id)
	FROM quota.ledger WHERE permit = p $$;

-- more than was held: charged into debt, which blocks what comes next; or no more than that
SELECT permit AS p FROM quota_acquire('g4s_a', 'g4s', n => 2, units => '{"d": 40, "c": 40}') \gset
SELECT quota_settle(:p, units => '{"d": 60, "c": 60}');
SELECT g4s_entries(:p);
SELECT * FROM g4s;
SELECT reason FROM quota_hold('g4s_a', 'g4s', 'd', 1);
SELECT quota_grant('g4s_a', 'g4s', 'debt', 21);
SELECT reason FROM quota_hold('g4s_a', 'g4s', 'd', 1);
-- or refused as a whole: nothing is settled, and less can be
SELECT permit AS p FROM quota_acquire('g4s_a', 'g4s', units => '{"r": 10, "c": 5}') \gset
\set VERBOSITY terse
SELECT quota_settle(:p, units => '{"r": 11, "c": 6}');
\set VERBOSITY default
SELECT * FROM g4s;
SELECT quota_settle(:p, units => '{"r": 10, "c": 6}');
SELECT g4s_entries(:p);
-- again: the same is nothing new, anything else a conflict
SELECT quota_settle(:p, units => '{"r": 10, "c": 6}');
SELECT quota_settle(:p);
SELECT quota_settle(:p, units => '{"r": 10, "c": 5, "d": 0}');
\set VERBOSITY sqlstate
SELECT quota_settle(:p, units => '{"r": 9, "c": 6}');
SELECT quota_settle(:p, billed => false);
SELECT quota_release(:p);
\set VERBOSITY default
SELECT g4s_entries(:p);
-- it is the limit as it is when settling that says so
SELECT permit AS p FROM quota_hold('g4s_a', 'g4s', 'r', 10) \gset
UPDATE quota.limits SET settle_over = 'debt' WHERE provider = 'g4s' AND name = 'refuse';
SELECT quota_settle(:p, units => '{"r": 15}');
SELECT g4s_entries(:p);
UPDATE quota.limits SET settle_over = 'refuse' WHERE provider = 'g4s' AND name = 'refuse';
-- a failed call is not billed, whatever it reports
SELECT permit AS p FROM quota_hold('g4s_a', 'g4s', 'r', 10) \gset
SELECT quota_settle(:p, billed => false, units => '{"r": 15}');
SELECT g4s_entries(:p);
SELECT quota_release(:p);
SELECT quota_settle(:p, billed => false);
\set VERBOSITY sqlstate
SELECT quota_settle(:p);
\set VERBOSITY default
-- rolled back: nothing of it was
SELECT permit AS p FROM quota_acquire('g4s_a', 'g4s', units => '{"d": 1}') \gset
SELECT permit AS p FROM quota_acquire('g4s_a', 'g4s', units => '{"c": 2}') \gset
BEGIN;
SELECT quota_settle(:p, units => '{"c": 9}');
ROLLBACK;
SELECT quota_settle(:p, units => '{"c": 1}');
SELECT g4s_entries(:p);
SELECT * FROM quota_audit();

-- too late: refused unless all limits that the call has drawn on charge it
UPDATE quota.limits SET settle_late = 'charge_now' WHERE provider = 'g4s' AND name IN ('cap', 'refuse');
CREATE PROCEDURE g4s_lost() LANGUAGE plpgsql AS $$
BEGIN
	PERFORM quota_clock_advance('61 s');
	WHILE EXISTS (SELECT FROM quota.holds WHERE provider = 'g4s' AND expires_at <= quota_clock()) LOOP
		COMMIT;
		PERFORM pg_sleep(0.02);
	END LOOP;
END $$;
SELECT permit AS p FROM quota_acquire('g4s_a', 'g4s', units => '{"r": 10, "c": 5}') \gset
CALL g4s_lost();
\set VERBOSITY sqlstate
SELECT quota_settle(:p, units => '{"r": 7, "c": 6}');
\set VERBOSITY default
UPDATE quota.limits SET settle_late = 'charge_now' WHERE provider = 'g4s' AND name = 'all';
-- the worker has resolved it: it stayed charged, and is charged now what it used; once
SELECT quota_settle(:p, units => '{"r": 7, "c": 6}');
SELECT g4s_entries(:p);
SELECT quota_settle(:p, units => '{"r": 7, "c": 6}');
\set VERBOSITY sqlstate
SELECT quota_settle(:p, units => '{"r": 8, "c": 6}');
\set VERBOSITY default
-- of an account that is not charged late, and of which nothing was held, nothing is
UPDATE quota.limits SET settle_late = 'refuse' WHERE provider = 'g4s' AND name = 'all';
SELECT permit AS p FROM quota_acquire('g4s_a', 'g4s', units => '{"c": 5}') \gset
CALL g4s_lost();
SELECT quota_settle(:p, units => '{"d": 7, "c": 4}');
\set VERBOSITY sqlstate
SELECT quota_settle(:p, units => '{"d": 7, "c": 3}');
\set VERBOSITY default
SELECT g4s_entries(:p);
UPDATE quota.limits SET settle_late = 'charge_now' WHERE provider = 'g4s' AND name = 'all';
-- before a worker does: the same entries.  The lock keeps it from being first
UPDATE quota.providers SET lost_permit = 'refund' WHERE provider = 'g4s';
SELECT permit AS p FROM quota_acquire('g4s_a', 'g4s', n => 3, units => '{"c": 5}') \gset
SELECT used, held FROM g4s WHERE limit_name = 'cap';
BEGIN;
LOCK TABLE quota.holds IN EXCLUSIVE MODE;
SELECT quota_clock_advance('61 s');
SELECT used, held FROM g4s WHERE limit_name = 'cap';
SAVEPOINT s;
SELECT quota_settle(:p, units => '{"c": 4}');
SELECT used, held FROM g4s WHERE limit_name = 'cap';
ROLLBACK TO s;
SELECT used, held FROM g4s WHERE limit_name = 'cap';
SELECT quota_settle(:p, units => '{"c": 4}');
COMMIT;
SELECT used, held FROM g4s WHERE limit_name = 'cap';
SELECT g4s_entries(:p);
SELECT * FROM quota_audit();
-- after it: three calls, of which each took 6, but no more than was held
SELECT permit AS p FROM quota_acquire('g4s_a', 'g4s', n => 3, units => '{"c": 5}') \gset
SELECT quota_release(:p, 1);
CALL g4s_lost();
SELECT used, held FROM g4s WHERE limit_name = 'cap';
SELECT quota_settle(:p, units => '{"c": 6}');
SELECT used, held FROM g4s WHERE limit_name = 'cap';
SELECT g4s_entries(:p);
-- more than was held is refused late, too; a failed call is not billed; what was refunded is not
-- charged again
UPDATE quota.providers SET lost_permit = 'charge' WHERE provider = 'g4s';
SELECT permit AS p FROM quota_hold('g4s_a', 'g4s', 'r', 10) \gset
SELECT permit AS q FROM quota_hold('g4s_a', 'g4s', 'c', 10) \gset
CALL g4s_lost();
\set VERBOSITY terse
SELECT quota_settle(:p, units => '{"r": 11}');
\set VERBOSITY default
SELECT quota_settle(:p, billed => false);
SELECT g4s_entries(:p);
SELECT quota_refund(:q, 8);
SELECT quota_settle(:q, units => '{"c": 6}');
SELECT g4s_entries(:q);
SELECT * FROM g4s;
SELECT * FROM quota_audit();

-- nonsense
\set VERBOSITY terse
INSERT INTO quota.limits (provider, name, amount, period, settle_over) VALUES ('g4s', 'x', 1, '1 s', 'cap');
INSERT INTO quota.limits (provider, name, amount, period, settle_late) VALUES ('g4s', 'x', 1, '1 s', 'charge_now');
UPDATE quota.limits SET settle_over = 'nonsense' WHERE provider = 'g4s';
\set VERBOSITY default
DROP VIEW g4s;
DROP FUNCTION g4s_entries;
DROP PROCEDURE g4s_lost;
