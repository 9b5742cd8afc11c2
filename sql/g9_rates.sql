-- G9: a new rate is never retroactive; where a deletion leaves open when it began,
-- the slower one is taken.
SELECT quota_clock_set('2026-01-01 00:00:00+00');
INSERT INTO quota.tiers (tier) VALUES ('g9'), ('g9_other');
INSERT INTO quota.tenants (tenant, tier) VALUES ('g9_a', 'g9'), ('g9_b', 'g9');
INSERT INTO quota.providers (provider) VALUES ('g9');
INSERT INTO quota.limits (provider, name, amount, period, burst, per) VALUES
	('g9', 'rate', 600, '1 min', 600, '{tenant}');
CREATE FUNCTION level(tenant text) RETURNS bigint LANGUAGE SQL AS
	'SELECT e.level FROM quota_explain($1, ''g9'') AS e';

-- a lower rate holds from its change on, whatever is deleted elsewhere later
INSERT INTO quota.tier_limits (tier, provider, name, multiplier) VALUES ('g9_other', 'g9', 'rate', 2);
INSERT INTO quota.tenant_limits (tenant, provider, name, multiplier) VALUES ('g9_b', 'g9', 'rate', 2);
SELECT granted FROM quota_acquire('g9_a', 'g9', n => 600);
UPDATE quota.limits SET amount = 60 WHERE provider = 'g9';
SELECT quota_clock_advance('1 min');
DELETE FROM quota.tier_limits WHERE tier = 'g9_other';
SELECT level('g9_a');

-- a higher rate holds from the deletion of the override on that kept it low
SELECT granted FROM quota_acquire('g9_a', 'g9', n => 60);
INSERT INTO quota.tenant_limits (tenant, provider, name, amount) VALUES ('g9_a', 'g9', 'rate', 6);
SELECT quota_clock_advance('1 min');
DELETE FROM quota.tenant_limits WHERE tenant = 'g9_a';
SELECT level('g9_a');
SELECT quota_clock_advance('1 min');
SELECT level('g9_a');

-- a lower rate by a deletion: it is not known since when, so since the last call
SELECT granted FROM quota_acquire('g9_a', 'g9', n => 66);
INSERT INTO quota.tenant_limits (tenant, provider, name, amount) VALUES ('g9_a', 'g9', 'rate', 600);
SELECT level('g9_a');
SELECT quota_clock_advance('1 s');
DELETE FROM quota.tenant_limits WHERE tenant = 'g9_a';
SELECT level('g9_a');

-- several changes with no call in between: each holds for as long as it was in force,
-- what is rolled back never does
UPDATE quota.limits SET amount = 600 WHERE provider = 'g9';
SELECT granted FROM quota_acquire('g9_a', 'g9', n => 600, partial => true);
UPDATE quota.limits SET amount = 60 WHERE provider = 'g9';
SELECT quota_clock_advance('1 min');
BEGIN;
UPDATE quota.limits SET amount = 6000 WHERE provider = 'g9';
ROLLBACK;
UPDATE quota.limits SET amount = 6 WHERE provider = 'g9';
SELECT quota_clock_advance('1 min');
INSERT INTO quota.tenant_limits (tenant, provider, name, multiplier) VALUES ('g9_a', 'g9', 'rate', 2);
SELECT quota_clock_advance('1 min');
UPDATE quota.tenants SET tier = 'g9_other' WHERE tenant = 'g9_a';
DELETE FROM quota.tenant_limits WHERE tenant = 'g9_a';
UPDATE quota.limits SET amount = 600 WHERE provider = 'g9';
SELECT quota_clock_advance('1 s');
SELECT level('g9_a') AS "60 + 6 + 12 + 10";

-- a limit that is gone for a while limits nobody meanwhile
SELECT granted FROM quota_acquire('g9_a', 'g9', n => 600, partial => true);
UPDATE quota.limits SET amount = NULL WHERE provider = 'g9';
SELECT granted FROM quota_acquire('g9_a', 'g9', n => 10000);
SELECT quota_clock_advance('1 s');
UPDATE quota.limits SET amount = 60 WHERE provider = 'g9';
SELECT quota_clock_advance('1 s');
SELECT level('g9_a');

-- what is charged beyond the estimate is charged by the rules of today
UPDATE quota.limits SET amount = 600 WHERE provider = 'g9';
SELECT quota_clock_advance('1 min');
SELECT permit FROM quota_acquire('g9_a', 'g9', units => '{"request": 600}') \gset
UPDATE quota.limits SET amount = 60 WHERE provider = 'g9';
SELECT quota_clock_advance('10 s');
SELECT quota_settle(:permit, units => '{"request": 601}');
SELECT level('g9_a') AS "10 - 1";

DROP FUNCTION level;
DELETE FROM quota.tenant_limits WHERE provider = 'g9';
DELETE FROM quota.limits WHERE provider = 'g9';
DELETE FROM quota.providers WHERE provider = 'g9';
DELETE FROM quota.tenants WHERE tier LIKE 'g9%';
DELETE FROM quota.tiers WHERE tier LIKE 'g9%';
