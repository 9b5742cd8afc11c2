-- G9: configuration changed while it is in use, for every kind of limit at once: what
-- was spent stays spent, and a change and its reverse gain nothing.
SET timezone = 'UTC';
SELECT quota_clock_set('2026-07-01 00:00:00+00');
INSERT INTO quota.tiers (tier) VALUES ('live'), ('live_gold');
INSERT INTO quota.tenants (tenant, tier) VALUES ('live_a', 'live'), ('live_b', 'live');
INSERT INTO quota.providers (provider, safety) VALUES ('live', 1);
-- 100, and one per second or all of them after 100; permits outlive the test
INSERT INTO quota.limits (provider, name, per, kind, amount, period, burst, permit_lifetime) VALUES
	('live', 'bucket', '{tenant}', 'token_bucket', 100, '100 s', NULL, '1 day'),
	('live', 'paced', '{tenant}', 'leaky_bucket', 100, '100 s', 100, '1 day'),
	('live', 'window', '{tenant}', 'fixed_window', 100, '100 s', NULL, '1 day'),
	('live', 'sliding', '{tenant}', 'sliding_window', 100, '100 s', NULL, '1 day'),
	('live', 'slots', '{tenant}', 'concurrency', 100, NULL, NULL, '1 day'),
	('live', 'month', '{tenant}', 'allowance', 100, '1 month', NULL, '1 day');
UPDATE quota.limits SET settle_late = 'charge_now' WHERE provider = 'live' AND name = 'month';
CREATE VIEW live AS
	SELECT limit_name, level, capacity FROM quota_explain('live_a', 'live') ORDER BY limit_name;
CREATE PROCEDURE live_amount(amount numeric) LANGUAGE sql AS
	'UPDATE quota.limits SET amount = $1,
		burst = CASE kind WHEN ''leaky_bucket'' THEN nullif($1, 0) END WHERE provider = ''live''';

-- raised: the difference at once; back: as before
SELECT granted, permit AS p FROM quota_acquire('live_a', 'live', n => 60) \gset
SELECT * FROM live;
CALL live_amount(150);
SELECT * FROM live;
CALL live_amount(100);
SELECT * FROM live;
-- cut: a token bucket is clamped, the others keep what was spent, is in flight or charged as a debt;
-- up and down gains nothing
CALL live_amount(50);
SELECT * FROM live;
SELECT reason, limit_name FROM quota_acquire('live_a', 'live');
CALL live_amount(100);
SELECT * FROM live;
CALL live_amount(10);
CALL live_amount(1000);
CALL live_amount(100);
SELECT * FROM live;
-- a cut lasts: its own rate refills, and what was forgiven is not counted twice
CALL live_amount(50);
SELECT quota_clock_advance('20 s');
SELECT * FROM live;
CALL live_amount(100);
SELECT * FROM live;

-- no limit, and a limit again: 60 more calls do not count meanwhile
CALL live_amount(NULL);
SELECT * FROM live;
SELECT granted, permit FROM quota_acquire('live_a', 'live', n => 60);
CALL live_amount(100);
SELECT * FROM live;
-- closed, for a while, and open again: nothing refills while it is closed
CALL live_amount(0);
SELECT * FROM live;
SELECT reason, limit_name, not_before, e->>'name' AS name, e->>'reason' AS says
FROM quota_acquire('live_a', 'live'), jsonb_array_elements(exhausted) AS e ORDER BY 4;
SELECT quota_clock_advance('10 s');
CALL live_amount(100);
SELECT * FROM live;

-- seats, tier, and overrides, each of them and back
UPDATE quota.limits SET per_seat = true WHERE provider = 'live';
SELECT * FROM live;
UPDATE quota.tenants SET seats = 3 WHERE tenant = 'live_a';
SELECT * FROM live;
UPDATE quota.tenants SET seats = 1 WHERE tenant = 'live_a';
SELECT * FROM live;
INSERT INTO quota.tier_limits (tier, provider, name, multiplier)
SELECT 'live_gold', provider, name, 2 FROM quota.limits WHERE provider = 'live';
UPDATE quota.tenants SET tier = 'live_gold' WHERE tenant = 'live_a';
SELECT * FROM live;
INSERT INTO quota.tenant_limits (tenant, provider, name, amount)
SELECT 'live_a', provider, name, 500 FROM quota.limits WHERE provider = 'live';
SELECT * FROM live;
UPDATE quota.tenant_limits SET amount = NULL, multiplier = 0.5 WHERE tenant = 'live_a';
SELECT * FROM live;
UPDATE quota.tenant_limits SET multiplier = NULL WHERE tenant = 'live_a';
SELECT * FROM live;
DELETE FROM quota.tenant_limits WHERE tenant = 'live_a';
SELECT * FROM live;
UPDATE quota.tenants SET tier = 'live' WHERE tenant = 'live_a';
SELECT * FROM live;
-- safety, of the provider's own rules
UPDATE quota.limits SET external = true, burst = CASE WHEN kind IN ('token_bucket', 'leaky_bucket') THEN 100 END
WHERE provider = 'live';
UPDATE quota.providers SET safety = 0.5 WHERE provider = 'live';
SELECT * FROM live;
UPDATE quota.providers SET safety = 1 WHERE provider = 'live';
SELECT * FROM live;
UPDATE quota.limits SET external = NULL, burst = CASE kind WHEN 'leaky_bucket' THEN 100 END WHERE provider = 'live';
SELECT * FROM live;

-- a longer period: the slower rate holds from now on; windows last as long as the period
-- in force at their end
UPDATE quota.limits SET period = '200 s' WHERE provider = 'live' AND period = '100 s';
SELECT quota_clock_advance('10 s');
SELECT * FROM live;
SELECT quota_clock_advance('60 s');
SELECT * FROM live;
UPDATE quota.limits SET period = '100 s' WHERE provider = 'live' AND period = '200 s';
SELECT * FROM live;
SELECT granted FROM quota_acquire('live_a', 'live', n => 30, "user" => 'again') AS a;

-- another unit: what was spent counts as so many of that; calls that cost none don't meet it
UPDATE quota.limits SET unit = 'token' WHERE provider = 'live' AND kind <> 'concurrency';
SELECT limit_name, admits, explanation FROM quota_explain('live_a', 'live') ORDER BY 1;
SELECT limit_name, level FROM quota_explain('live_a', 'live', units => '{"token": 1}') ORDER BY 1;
UPDATE quota.limits SET unit = 'request' WHERE provider = 'live';
SELECT * FROM live;
-- other endpoints
UPDATE quota.limits SET endpoint = '/x/*' WHERE provider = 'live';
SELECT * FROM live;
SELECT limit_name, level FROM quota_explain('live_a', 'live', '/x/1') ORDER BY 1;
UPDATE quota.limits SET endpoint = NULL WHERE provider = 'live';
SELECT * FROM live;
-- kept per something else, which has buckets of its own
UPDATE quota.limits SET per = '{tenant,user}' WHERE provider = 'live';
SELECT * FROM live;
SELECT limit_name, level FROM quota_explain('live_a', 'live', "user" => 'u') ORDER BY 1;
UPDATE quota.limits SET per = '{tenant}' WHERE provider = 'live';
SELECT * FROM live;
-- another kind has another bucket, and comes back to the old one
UPDATE quota.limits SET kind = 'concurrency', period = NULL WHERE provider = 'live' AND name = 'bucket';
SELECT * FROM live;
SELECT permit AS q FROM quota_acquire('live_a', 'live', n => 5) \gset
SELECT * FROM live;
UPDATE quota.limits SET kind = 'token_bucket', period = '100 s' WHERE provider = 'live' AND name = 'bucket';
SELECT * FROM live;
-- the permit of those 5 calls names the bucket that it charged
SELECT quota_settle(:q);
UPDATE quota.limits SET kind = 'concurrency', period = NULL WHERE provider = 'live' AND name = 'bucket';
SELECT * FROM live;
UPDATE quota.limits SET kind = 'token_bucket', period = '100 s' WHERE provider = 'live' AND name = 'bucket';
SELECT * FROM quota_audit();

-- deleted and inserted again: credits that are held keep their limit
CREATE TABLE live_limits AS SELECT * FROM quota.limits WHERE provider = 'live';
DELETE FROM quota.limits WHERE provider = 'live';
DELETE FROM quota.limits WHERE provider = 'live' AND name <> 'month';
SELECT * FROM live;
SELECT permit IS NULL AS nothing FROM quota_acquire('live_a', 'live', n => 40, units => '{"request": 0}');
INSERT INTO quota.limits SELECT * FROM live_limits WHERE name <> 'month';
SELECT * FROM live;
-- what is settled or released while the limit is gone is so when it is back
DELETE FROM quota.limits WHERE provider = 'live' AND name <> 'month';
SELECT quota_settle(:p, units => '{"request": 1}');
INSERT INTO quota.limits SELECT * FROM live_limits WHERE name <> 'month';
SELECT * FROM live;
SELECT limit_name, used FROM quota.stat_buckets WHERE provider = 'live' AND bucket = 'live_a' ORDER BY 1, 2;
SELECT * FROM quota_audit();
-- a permit taken under a limit that is gone ends as any other
SELECT permit AS p FROM quota_acquire('live_b', 'live', n => 7) \gset
SELECT quota_settle(:p);
SELECT permit AS p FROM quota_acquire('live_b', 'live', n => 7, units => '{"request": 0}') \gset
DELETE FROM quota.limits WHERE provider = 'live' AND name <> 'month';
SELECT quota_settle(permit) FROM quota.holds WHERE provider = 'live' AND tenant = 'live_a';
SELECT quota_clock_advance('1 day');
INSERT INTO quota.limits SELECT * FROM live_limits WHERE name <> 'month';
SELECT limit_name, level FROM quota_explain('live_b', 'live') ORDER BY 1;

-- so is the provider, once a worker has written down what was lost; its buckets and what is in
-- flight are found again
DO $$ BEGIN
	FOR i IN 1..6000 LOOP
		EXIT WHEN NOT EXISTS (SELECT FROM quota.holds WHERE provider = 'live');
		PERFORM pg_sleep(0.01);
	END LOOP;
END $$;
UPDATE quota.limits SET amount = NULL WHERE provider = 'live' AND name = 'month';
SELECT permit AS p FROM quota_acquire('live_a', 'live', n => 30) \gset
DELETE FROM quota.providers WHERE provider = 'live';
\set VERBOSITY sqlstate
SELECT quota_acquire('live_a', 'live');
\set VERBOSITY default
INSERT INTO quota.providers (provider, safety) VALUES ('live', 1);
SELECT * FROM live;
SELECT quota_settle(:p);
SELECT * FROM live;
SELECT * FROM quota_audit();

-- amounts: a daily budget of 30,000 x the plan's multiplier x seats is one row
INSERT INTO quota.tiers (tier) VALUES ('live_free'), ('live_pro');
INSERT INTO quota.tier_limits (tier, provider, name, multiplier) VALUES ('live_pro', 'amounts', 'budget', 2.5);
INSERT INTO quota.tenants (tenant, tier, seats) VALUES ('live_free_2', 'live_free', 2), ('live_pro_4', 'live_pro', 4),
	('live_own', 'live_pro', 1);
INSERT INTO quota.providers (provider) VALUES ('amounts');
INSERT INTO quota.limits (provider, name, per, unit, kind, amount, period, per_seat) VALUES
	('amounts', 'budget', '{tenant}', 'token', 'allowance', 30000, '1 day', true);
SELECT t, amount FROM unnest(ARRAY['live_free_2', 'live_pro_4']) AS t, quota_balance(t, 'amounts');
-- the provider's own rules: half the safety margin is the burst, at least 1; own ones have it all
INSERT INTO quota.limits (provider, name, per, amount, period, burst, external) VALUES
	('amounts', 'external 100/s', '{}', 100, '1 s', NULL, NULL),
	('amounts', 'external 5/min', '{}', 5, '1 min', NULL, NULL),
	('amounts', 'external burst 7', '{}', 100, '1 s', 7, NULL),
	('amounts', 'own 100/s', '{}', 100, '1 s', NULL, false),
	('amounts', 'per tenant', '{tenant}', 100, '1 s', NULL, NULL),
	('amounts', 'per tenant external', '{tenant}', 100, '1 s', NULL, true);
INSERT INTO quota.limits (provider, name, kind, amount) VALUES ('amounts', 'external slots', 'concurrency', 15);
SELECT limit_name, capacity FROM quota_explain('live_own', 'amounts') WHERE limit_name <> 'budget' ORDER BY 1;
-- refilled by 90 a second, not 100
SELECT granted FROM quota_acquire('live_own', 'amounts', n => 1);
SELECT quota_clock_advance('11.111111 ms');
SELECT level FROM quota_explain('live_own', 'amounts') WHERE limit_name = 'external 100/s';
SELECT quota_clock_advance('0.001 ms');
SELECT level FROM quota_explain('live_own', 'amounts') WHERE limit_name = 'external 100/s';
-- a tenant's row beats its tier's: amount, multiplier, burst; and a tenant may be exempt
INSERT INTO quota.tier_limits (tier, provider, name, amount, burst, multiplier) VALUES
	('live_pro', 'amounts', 'per tenant', 50, 60, 3);
SELECT capacity FROM quota_explain('live_own', 'amounts') WHERE limit_name = 'per tenant';
INSERT INTO quota.tenant_limits (tenant, provider, name, burst) VALUES ('live_own', 'amounts', 'per tenant', 9);
SELECT capacity FROM quota_explain('live_own', 'amounts') WHERE limit_name = 'per tenant';
UPDATE quota.tenant_limits SET burst = NULL, multiplier = 2 WHERE tenant = 'live_own';
SELECT quota_clock_advance('1 s');
SELECT granted FROM quota_acquire('live_own', 'amounts', n => 60, partial => true);
DELETE FROM quota.limits WHERE provider = 'amounts' AND name <> 'per tenant';
SELECT granted FROM quota_acquire('live_own', 'amounts', n => 60, partial => true);
-- 50 x 3 x 2 a second
SELECT quota_clock_advance('100 ms');
SELECT level, capacity FROM quota_explain('live_own', 'amounts');
UPDATE quota.tenant_limits SET multiplier = NULL WHERE tenant = 'live_own';
SELECT count(*) FROM quota_explain('live_own', 'amounts');
INSERT INTO quota.limits (provider, name, amount, period) VALUES ('amounts', 'shared', 1, '1 day');
INSERT INTO quota.tenant_limits (tenant, provider, name, amount) VALUES ('live_own', 'amounts', 'shared', 5);
INSERT INTO quota.tenant_limits (tenant, provider, name) VALUES ('live_own', 'amounts', 'shared');
SELECT granted FROM quota_acquire('live_own', 'amounts', n => 1000);
SELECT limit_name, level FROM quota_explain('live_a', 'amounts') ORDER BY 1;

DROP VIEW live;
DROP PROCEDURE live_amount;
DROP TABLE live_limits;
