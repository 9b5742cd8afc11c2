-- Calendars of allowances (G12, limits.md scenario 19): periods in a time zone's local
-- time, whatever clocks do there.
SELECT quota_clock_set('2020-01-01 00:00:00+00');
SET timezone = 'UTC';
INSERT INTO quota.tiers (tier) VALUES ('cal');
INSERT INTO quota.tenants (tenant, tier) VALUES ('cal', 'cal');
INSERT INTO quota.providers (provider) VALUES ('cal');

-- Periods of an allowance that is new, from the one of the first time on: of each the
-- start and the end in local time, how many hours it has, and at which times a call
-- that is refused a microsecond before its end is admitted at its end.
CREATE PROCEDURE periods(zone text, period interval, anchor timestamptz, first timestamptz, n int)
LANGUAGE plpgsql AS $$
DECLARE
	i int;
	b record;
	early record;
	late record;
BEGIN
	DELETE FROM quota.limits WHERE provider = 'cal';
	COMMIT;
	INSERT INTO quota.limits (provider, name, per, kind, amount, period, anchor, time_zone, external)
	VALUES ('cal', 'x' || pg_catalog.nextval('cal_names'), '{tenant}', 'allowance', 1, $2, $3, $1, false);
	COMMIT;
	PERFORM quota_clock_set($4);
	FOR i IN 1..$5 LOOP
		SELECT * INTO b FROM quota_balance('cal', 'cal');
		PERFORM quota_settle(permit) FROM quota_acquire('cal', 'cal');
		PERFORM quota_clock_set(b.period_end - interval '1 us');
		SELECT * INTO early FROM quota_acquire('cal', 'cal');
		PERFORM quota_clock_set(b.period_end);
		SELECT * INTO late FROM quota_peek('cal', 'cal');
		RAISE NOTICE '% to %, % h%', b.period_start AT TIME ZONE coalesce($1, 'UTC'),
			b.period_end AT TIME ZONE coalesce($1, 'UTC'),
			trim_scale(extract(epoch FROM b.period_end - b.period_start) / 3600),
			CASE WHEN early.admitted OR early.not_before <> b.period_end OR NOT late.admitted
				THEN ', wrong: ' || early || ', ' || late ELSE '' END;
	END LOOP;
END $$;
CREATE SEQUENCE cal_names;
\set VERBOSITY terse

-- months from the 31st: the last day of short months, and back to the 31st
CALL periods(NULL, '1 month', '2023-01-31 00:00+00', '2023-01-31 00:00+00', 15);
-- from a leap day, by years and by quarters
CALL periods(NULL, '1 year', '2024-02-29 12:00+00', '2027-12-31+00', 3);
CALL periods(NULL, '3 months', '2023-11-30 00:00+00', '2023-11-30+00', 3);
-- before the anchor
CALL periods(NULL, '1 month', '2030-01-31 00:00+00', '2028-01-31 00:00+00', 3);

-- a day of 23 and one of 25 hours: one reset each
CALL periods('Europe/Paris', '1 day', NULL, '2024-03-30 12:00+00', 4);
CALL periods('Europe/Paris', '1 day', NULL, '2024-10-26 12:00+00', 3);
CALL periods('America/New_York', '1 day', NULL, '2024-03-09 12:00+00', 3);
CALL periods('America/New_York', '1 day', NULL, '2024-11-02 12:00+00', 3);
CALL periods('Australia/Lord_Howe', '1 day', NULL, '2024-04-06 00:00+00', 3);
CALL periods('Australia/Lord_Howe', '1 day', NULL, '2024-10-05 00:00+00', 3);
CALL periods('Asia/Kathmandu', '1 day', NULL, '2024-03-09 12:00+00', 1);
-- a reset at 02:30, which one day skips and another has twice: the first instant after
-- the gap, and the first of the two
CALL periods('Europe/Paris', '1 day', '2024-01-01 02:30 Europe/Paris', '2024-03-30 12:00+00', 3);
CALL periods('Europe/Paris', '1 day', '2024-01-01 02:30 Europe/Paris', '2024-10-26 12:00+00', 3);
CALL periods('America/New_York', '1 day', '2024-01-01 02:30 America/New_York', '2024-03-09 12:00+00', 3);
CALL periods('Australia/Lord_Howe', '1 day', '2024-01-01 02:15 Australia/Lord_Howe', '2024-10-05 00:00+00', 3);
-- clocks that change at midnight: no midnight at all, and two (the day goes on for the
-- hour that comes again)
CALL periods('Africa/Cairo', '1 day', NULL, '2010-04-29 12:00+00', 3);
CALL periods('Africa/Cairo', '1 day', NULL, '2010-09-29 12:00+00', 3);
CALL periods('Asia/Beirut', '1 day', NULL, '2022-03-26 00:00+00', 3);
CALL periods('Asia/Beirut', '1 day', NULL, '2022-10-29 00:00+00', 3);
CALL periods('America/Sao_Paulo', '1 month', '2018-09-04 00:00 America/Sao_Paulo', '2018-10-10 00:00+00', 2);
-- 2011-12-30 did not take place in Apia: a reset less, none at the same instant twice
CALL periods('Pacific/Apia', '1 day', NULL, '2011-12-29 00:00+00', 4);
CALL periods('Pacific/Apia', '1 day', '2011-12-25 12:00 Pacific/Apia', '2011-12-29 00:00+00', 4);
CALL periods('Pacific/Apia', '1 month', '2011-10-30 00:00 Pacific/Apia', '2011-12-10 00:00+00', 3);
-- weeks start on the anchor's weekday, at midnight there
CALL periods('America/New_York', '1 week', '2024-01-01 00:00 America/New_York', '2024-03-08 12:00+00', 3);
CALL periods('Asia/Kathmandu', '1 month', NULL, '2024-02-10 12:00+00', 2);
-- hours, minutes and seconds pass, whatever clocks show
CALL periods('Europe/Paris', '24 hours', '2024-01-01 00:00 Europe/Paris', '2024-03-30 12:00+00', 3);
CALL periods('Europe/Paris', '6 hours', NULL, '2024-03-30 22:00+00', 3);
CALL periods(NULL, '90 minutes', '2024-01-01 00:00+00', '2024-01-01 04:00+00', 2);
-- names as SET timezone takes them
CALL periods('europe/paris', '1 day', NULL, '2024-03-30 12:00+00', 1);
CALL periods('<+07>-7', '1 day', NULL, '2024-03-30 12:00+00', 1);
DROP PROCEDURE periods;
DELETE FROM quota.limits WHERE provider = 'cal';

-- what is no calendar is refused
\set VERBOSITY default
INSERT INTO quota.limits (provider, name, kind, amount, period) VALUES ('cal', 'x', 'allowance', 1, '1 month 1 day');
INSERT INTO quota.limits (provider, name, kind, amount, period) VALUES ('cal', 'x', 'allowance', 1, '1 day 12 hours');
INSERT INTO quota.limits (provider, name, kind, amount, period, time_zone) VALUES ('cal', 'x', 'allowance', 1, '1 day', 'Mars/Olympus');
\set VERBOSITY terse
INSERT INTO quota.limits (provider, name, kind, amount, period, time_zone) VALUES ('cal', 'x', 'allowance', 1, '1 day', '');
INSERT INTO quota.limits (provider, name, kind, amount, period, time_zone) VALUES ('cal', 'x', 'allowance', 1, '1 day', '../UTC');
INSERT INTO quota.limits (provider, name, kind, amount, period, time_zone) VALUES ('cal', 'x', 'allowance', 1, '1 day', repeat('x', 300));
INSERT INTO quota.limits (provider, name, kind, amount, period) VALUES ('cal', 'x', 'allowance', 1, '-1 month 40 days');
INSERT INTO quota.limits (provider, name, kind, amount, period) VALUES ('cal', 'x', 'allowance', 1, '-1 day');
INSERT INTO quota.limits (provider, name, amount, period, time_zone) VALUES ('cal', 'x', 1, '1 day', 'UTC');
INSERT INTO quota.limits (provider, name, kind, amount, period) VALUES ('cal', 'x', 'allowance', 1, '1 day');
UPDATE quota.limits SET time_zone = 'Europe/Pariss' WHERE provider = 'cal';
UPDATE quota.limits SET period = '1 day 1 us' WHERE provider = 'cal';
DELETE FROM quota.limits WHERE provider = 'cal';
\set VERBOSITY default

-- a server whose time zone data lost the name says so where the limit is met
INSERT INTO quota.limits (provider, name, kind, amount, period, endpoint) VALUES ('cal', 'lost', 'allowance', 9, '1 day', 'a');
ALTER TABLE quota.limits DISABLE TRIGGER quota_guard;
UPDATE quota.limits SET time_zone = 'Mars/Olympus' WHERE name = 'lost';
ALTER TABLE quota.limits ENABLE ALWAYS TRIGGER quota_guard;
SELECT admitted FROM quota_acquire('cal', 'cal', 'a');
SELECT quota_grant(NULL, 'cal', 'lost', 1, NULL, 'a');
SELECT admitted FROM quota_acquire('cal', 'cal', 'b');
UPDATE quota.limits SET time_zone = 'Asia/Tokyo' WHERE name = 'lost';
SELECT admitted, permit AS p FROM quota_acquire('cal', 'cal', 'a') \gset
SELECT :'admitted' AS admitted, quota_settle(:p);
DELETE FROM quota.limits WHERE provider = 'cal';

-- another time zone, anchor or period acts at once, by what the ledger has of the
-- period that it makes of now
SELECT quota_clock_set('2024-07-01 20:00:00+00');
INSERT INTO quota.limits (provider, name, kind, amount, period, time_zone, external, permit_lifetime)
VALUES ('cal', 'moves', 'allowance', 100, '1 day', 'America/New_York', false, '1 day');
CREATE PROCEDURE spend(n int) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM quota_settle(permit) FROM quota_acquire('cal', 'cal', n => $1);
END $$;
CREATE VIEW cal_balance AS SELECT used, held, period_start, period_end FROM quota_balance('cal', 'cal');
CALL spend(1);
SELECT quota_clock_advance('3 hours');
CALL spend(10);
SELECT * FROM cal_balance;
UPDATE quota.limits SET time_zone = 'Europe/Paris' WHERE name = 'moves';
SELECT * FROM cal_balance;
UPDATE quota.limits SET time_zone = NULL WHERE name = 'moves';
SELECT * FROM cal_balance;
UPDATE quota.limits SET anchor = '2024-01-01 22:00+00' WHERE name = 'moves';
SELECT * FROM cal_balance;
UPDATE quota.limits SET period = '1 month', time_zone = 'Asia/Tokyo', anchor = NULL WHERE name = 'moves';
SELECT * FROM cal_balance;
UPDATE quota.limits SET period = '2 hours', time_zone = NULL WHERE name = 'moves';
SELECT * FROM cal_balance;
SELECT * FROM quota_audit();

-- but while a call holds a charge, only when the period that holds it is over; what is
-- settled later counts where the hold did, by whatever calendar
SELECT permit AS p FROM quota_acquire('cal', 'cal', n => 20) \gset
UPDATE quota.limits SET period = '1 day', time_zone = 'Europe/Paris' WHERE name = 'moves';
SELECT * FROM cal_balance;
SELECT quota_clock_set('2024-07-01 23:59:59.999999+00');
SELECT * FROM cal_balance;
SELECT quota_clock_set('2024-07-02 00:00:00+00');
SELECT * FROM cal_balance;
CALL spend(5);
SELECT quota_settle(:p, units => '{"request": 2}');
SELECT * FROM cal_balance;
SELECT kind, amount, charged_at FROM quota.ledger WHERE permit = :p ORDER BY id;
SELECT * FROM quota_audit();
-- with nothing held any more: all of the day in Paris, which began at 22:00 UTC
UPDATE quota.limits SET time_zone = 'Europe/Rome' WHERE name = 'moves';
SELECT * FROM cal_balance;
SELECT quota_refund(:p);
SELECT * FROM cal_balance;
SELECT * FROM quota_audit();

-- no period comes back: neither when the wall clock is set back, nor when the counter
-- has to be loaded meanwhile
SELECT quota_clock_set('2024-07-03 21:59:59+00');
SELECT * FROM cal_balance;
SELECT quota_clock_advance('1 second');
CALL spend(7);
SELECT quota_clock_set('2024-07-03 20:00:00+00');
SELECT * FROM cal_balance;
CALL spend(1);
UPDATE quota.limits SET time_zone = 'Europe/Paris' WHERE name = 'moves';
SELECT * FROM cal_balance;
SELECT * FROM quota_audit();
DROP PROCEDURE spend;
DROP VIEW cal_balance;
DELETE FROM quota.limits WHERE provider = 'cal';
DROP SEQUENCE cal_names;
DELETE FROM quota.tenants WHERE tenant = 'cal';
DELETE FROM quota.providers WHERE provider = 'cal';
DELETE FROM quota.tiers WHERE tier = 'cal';
