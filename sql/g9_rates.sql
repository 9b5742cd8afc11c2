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

DROP FUNCTION level;
DELETE FROM quota.tenant_limits WHERE provider = 'g9';
DELETE FROM quota.limits WHERE provider = 'g9';
DELETE FROM quota.providers WHERE provider = 'g9';
DELETE FROM quota.tenants WHERE tier = 'g9';
DELETE FROM quota.tiers WHERE tier LIKE 'g9%';
