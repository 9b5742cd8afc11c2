-- Configuration: what the tables refuse, what deciding makes of them.
SET timezone = 'UTC';
SELECT quota_clock_set('2026-01-01 00:00:00+00');
INSERT INTO quota.tiers (tier, weight, max_in_flight) VALUES ('cfg_free', 1, 2), ('cfg_pro', 10.5, NULL);
INSERT INTO quota.tenants (tenant, tier) VALUES ('cfg_a', 'cfg_free');
INSERT INTO quota.tenants (tenant, tier, seats) VALUES ('cfg_b', 'cfg_pro', 3);
INSERT INTO quota.providers (provider) VALUES ('cfg');

-- nonsense is refused by name
\set VERBOSITY terse
INSERT INTO quota.tiers (tier) VALUES ('');
INSERT INTO quota.tiers (tier) VALUES (repeat('x', 128));
INSERT INTO quota.tiers (tier, weight) VALUES ('cfg', 0);
INSERT INTO quota.tiers (tier, weight) VALUES ('cfg', 1.0001);
INSERT INTO quota.tiers (tier, weight) VALUES ('cfg', 'NaN');
INSERT INTO quota.tiers (tier, max_in_flight) VALUES ('cfg', -1);
INSERT INTO quota.tenants (tenant, tier, seats) VALUES ('cfg', 'cfg_free', 0);
INSERT INTO quota.tenants (tenant, tier) VALUES ('cfg', 'cfg_gold');
UPDATE quota.tenants SET tier = 'cfg_gold' WHERE tenant = 'cfg_a';
INSERT INTO quota.providers (provider, safety) VALUES ('cfg2', 0);
INSERT INTO quota.providers (provider, safety) VALUES ('cfg2', 1.01);
INSERT INTO quota.providers (provider, retry_max) VALUES ('cfg2', '1 ms');
INSERT INTO quota.providers (provider, lost_permit) VALUES ('cfg2', 'forget');
INSERT INTO quota.providers (provider, lease) VALUES ('cfg2', '0');
INSERT INTO quota.providers (provider, lease) VALUES ('cfg2', '24 hours 1 us');
INSERT INTO quota.limits (provider, name, amount) VALUES ('cfg', 'x', 1);
INSERT INTO quota.limits (provider, name, amount, period) VALUES ('cfg', 'x', 1, '-1 s');
INSERT INTO quota.limits (provider, name, amount, period) VALUES ('cfg', 'x', -1, '1 s');
INSERT INTO quota.limits (provider, name, amount, period) VALUES ('cfg', 'x', 'Infinity', '1 s');
INSERT INTO quota.limits (provider, name, amount, period) VALUES ('cfg', 'max_in_flight', 1, '1 s');
INSERT INTO quota.limits (provider, name, amount, period, kind) VALUES ('cfg', 'x', 1, '1 s', 'sieve');
INSERT INTO quota.limits (provider, name, amount, period, kind) VALUES ('cfg', 'x', 1, '1 s', 'concurrency');
INSERT INTO quota.limits (provider, name, amount, unit, kind) VALUES ('cfg', 'x', 1, 'credit', 'concurrency');
INSERT INTO quota.limits (provider, name, amount, period, kind) VALUES ('cfg', 'x', 1, '1 month 1 day', 'allowance');
INSERT INTO quota.limits (provider, name, amount, period, kind, burst) VALUES ('cfg', 'x', 1, '1 day', 'allowance', 2);
INSERT INTO quota.limits (provider, name, amount, period, kind, anchor) VALUES ('cfg', 'x', 1, '1 day', 'allowance', 'infinity');
INSERT INTO quota.limits (provider, name, amount, period, burst) VALUES ('cfg', 'x', 1, '1 s', 0);
INSERT INTO quota.limits (provider, name, amount, period, per) VALUES ('cfg', 'x', 1, '1 s', '{tenant,planet}');
INSERT INTO quota.limits (provider, name, amount, period, per) VALUES ('cfg', 'x', 1, '1 s', '{tenant,NULL}');
INSERT INTO quota.limits (provider, name, amount, period, per_seat) VALUES ('cfg', 'x', 1, '1 s', true);
INSERT INTO quota.limits (name, amount, period, external) VALUES ('x', 1, '1 s', true);
INSERT INTO quota.limits (provider, name, amount, period, permit_lifetime) VALUES ('cfg', 'x', 1, '1 s', '0');
INSERT INTO quota.tier_limits (tier, name, multiplier) VALUES ('cfg_pro', 'x', 0);
INSERT INTO quota.tenant_limits (tenant, name, amount) VALUES ('cfg_a', 'x', -1);
INSERT INTO quota.costs VALUES ('cfg', NULL, 'request', -1);
INSERT INTO quota.costs VALUES ('cfg', NULL, 'request', 1000000001);
BEGIN;
INSERT INTO quota.limits (name, amount, period) VALUES ('cfg', 1, '1 s');
INSERT INTO quota.limits (name, amount, period) VALUES ('cfg', 1, '1 s');
ROLLBACK;
\set VERBOSITY default

-- names stay
UPDATE quota.tenants SET tenant = 'cfg_z' WHERE tenant = 'cfg_a';
UPDATE quota.providers SET provider = 'cfg_z' WHERE provider = 'cfg';
UPDATE quota.tiers SET tier = 'cfg_z' WHERE tier = 'cfg_free';
UPDATE quota.classes SET class = 'cfg_z' WHERE class = 'event';

-- shipped classes: an INSERT updates, and they can't be deleted
BEGIN;
INSERT INTO quota.classes (class, rank, reserve, max_fill, headroom) VALUES ('batch', 3, 0.05, 0.9, 0.1);
INSERT INTO quota.classes (class, rank) VALUES ('event', 7), ('cfg', 4);
SELECT * FROM quota.classes ORDER BY rank;
INSERT INTO quota.classes (class, rank) VALUES ('cfg', 5);
ROLLBACK;
DELETE FROM quota.classes WHERE class = 'event';
TRUNCATE quota.classes;
BEGIN;
INSERT INTO quota.classes SELECT 'cfg' || i, i FROM generate_series(1, 20) i;
ROLLBACK;

-- what is in use can't be deleted
INSERT INTO quota.jobs (tenant, provider) VALUES ('cfg_a', 'cfg');
DELETE FROM quota.tenants WHERE tenant LIKE 'cfg%';
DELETE FROM quota.providers WHERE provider = 'cfg';
DELETE FROM quota.tiers WHERE tier LIKE 'cfg%';
DELETE FROM quota.tenants WHERE tenant = 'cfg_nobody';
SELECT id FROM quota.jobs WHERE tenant = 'cfg_a' \gset
SELECT quota_cancel(:id);
BEGIN;
DELETE FROM quota.tenants WHERE tenant = 'cfg_a';
ROLLBACK;

-- capacities: safety, burst, seats, what an external limit keeps back
INSERT INTO quota.limits (provider, name, amount, period, burst, per, external, per_seat) VALUES
	('cfg', 'all', 100, '1 min', NULL, '{}', NULL, false),
	('cfg', 'all internal', 100, '1 min', NULL, '{}', false, false),
	('cfg', 'burst', 100, '1 min', 40, '{}', NULL, false),
	('cfg', 'none', NULL, '1 min', NULL, '{tenant}', NULL, false),
	('cfg', 'seats', 7.5, '1 min', NULL, '{tenant}', NULL, true),
	('cfg', 'small', 0.5, '1 min', NULL, '{}', NULL, false),
	('cfg', 'user', 9, '1 min', NULL, '{tenant,user}', NULL, false);
INSERT INTO quota.limits (provider, name, amount, kind) VALUES ('cfg', 'at once', 25, 'concurrency');
SELECT limit_name, kind, bucket, capacity FROM quota_explain('cfg_a', 'cfg', "user" => 'ann');
SELECT limit_name, kind, bucket, capacity FROM quota_explain('cfg_b', 'cfg');
UPDATE quota.providers SET safety = 1 WHERE provider = 'cfg';
SELECT limit_name, capacity FROM quota_explain('cfg_b', 'cfg');
UPDATE quota.tenants SET max_in_flight = 4 WHERE tenant = 'cfg_b';
SELECT limit_name, capacity FROM quota_explain('cfg_b', 'cfg') WHERE limit_name = 'max_in_flight';

-- a shared limit is the same for all, but for who is exempt
INSERT INTO quota.tenant_limits (tenant, provider, name, amount) VALUES ('cfg_b', 'cfg', 'all', 7);
INSERT INTO quota.tier_limits (tier, provider, name, multiplier) VALUES ('cfg_pro', 'cfg', 'burst', 7);
INSERT INTO quota.tenant_limits (tenant, provider, name) VALUES ('cfg_b', 'cfg', 'all');
INSERT INTO quota.tier_limits (tier, provider, name) VALUES ('cfg_pro', 'cfg', 'burst');
SELECT limit_name FROM quota_explain('cfg_b', 'cfg');
DELETE FROM quota.tenant_limits WHERE tenant = 'cfg_b';
DELETE FROM quota.tier_limits WHERE tier = 'cfg_pro';
DELETE FROM quota.limits WHERE provider = 'cfg';

-- overrides: the more specific row replaces, or multiplies what it finds
INSERT INTO quota.limits (provider, name, amount, period, per) VALUES ('cfg', 'rate', 10, '1 min', '{tenant}');
CREATE FUNCTION pg_temp.per_minute(tenant text, OUT capacity bigint, OUT a_minute numeric) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM quota_clock_advance('1 day');
	SELECT e.capacity INTO capacity FROM quota_explain(tenant, 'cfg') e WHERE limit_name = 'rate';
	IF capacity IS NULL THEN
		RETURN;
	END IF;
	PERFORM quota_acquire(tenant, 'cfg', n => capacity::int);
	SELECT round(60 / extract(epoch FROM not_before - quota_clock()), 3) INTO a_minute
	FROM quota_peek(tenant, 'cfg');
END $$;
UPDATE quota.tenants SET max_in_flight = NULL WHERE tenant = 'cfg_b';
SELECT * FROM pg_temp.per_minute('cfg_b');
INSERT INTO quota.tier_limits (tier, provider, name, multiplier) VALUES ('cfg_pro', 'cfg', 'rate', 2.5);
SELECT * FROM pg_temp.per_minute('cfg_b');
INSERT INTO quota.tenant_limits (tenant, provider, name, multiplier) VALUES ('cfg_b', 'cfg', 'rate', 2);
SELECT * FROM pg_temp.per_minute('cfg_b');
UPDATE quota.tenant_limits SET amount = 12 WHERE tenant = 'cfg_b';
SELECT * FROM pg_temp.per_minute('cfg_b');
UPDATE quota.tenant_limits SET burst = 5, multiplier = NULL WHERE tenant = 'cfg_b';
SELECT * FROM pg_temp.per_minute('cfg_b');
UPDATE quota.tenant_limits SET amount = NULL WHERE tenant = 'cfg_b';
SELECT * FROM pg_temp.per_minute('cfg_b');
UPDATE quota.tier_limits SET multiplier = NULL WHERE tier = 'cfg_pro';
SELECT * FROM pg_temp.per_minute('cfg_b');
UPDATE quota.tenant_limits SET amount = 6, burst = NULL WHERE tenant = 'cfg_b';
SELECT * FROM pg_temp.per_minute('cfg_b');
DELETE FROM quota.tenant_limits WHERE tenant = 'cfg_b';
DELETE FROM quota.tier_limits WHERE tier = 'cfg_pro';

-- 0 is closed
UPDATE quota.limits SET amount = 0 WHERE provider = 'cfg';
SELECT admitted, reason, limit_name, not_before FROM quota_acquire('cfg_b', 'cfg');

-- which limits match: endpoint patterns, and what the call names
DELETE FROM quota.limits WHERE provider = 'cfg';
INSERT INTO quota.limits (provider, name, amount, period, endpoint, per) VALUES
	('cfg', 'all', 100, '1 s', NULL, '{endpoint}'),
	('cfg', 'any', 100, '1 s', '*', '{}'),
	('cfg', 'chat', 100, '1 s', 'v1/chat', '{class}'),
	('cfg', 'v1', 100, '1 s', 'v1/*', '{}'),
	('cfg', 'connection', 100, '1 s', NULL, '{connection,resource}'),
	(NULL, 'cfg across', 100, '1 s', 'v1/*', '{user}');
SELECT limit_name, bucket FROM quota_explain('cfg_b', 'cfg');
SELECT limit_name, bucket FROM quota_explain('cfg_b', 'cfg', 'v1/chat', class => 'batch', "user" => 'ann');
SELECT limit_name, bucket FROM quota_explain('cfg_b', 'cfg', 'v2', connection => 'c', resource => 'r');
DELETE FROM quota.limits WHERE provider = 'cfg' OR name LIKE 'cfg%';

-- costs: of the endpoint, else of all, else 1 request and nothing else
INSERT INTO quota.limits (provider, name, unit, amount, period) VALUES
	('cfg', 'requests', 'request', 1000, '1 s'), ('cfg', 'tokens', 'token', 1000, '1 s');
INSERT INTO quota.costs VALUES ('cfg', NULL, 'token', 5), ('cfg', 'big', 'token', 50),
	('cfg', 'free', 'token', 0), ('cfg', 'free', 'request', 0);
SELECT limit_name, needed FROM quota_explain('cfg_b', 'cfg', n => 2);
SELECT limit_name, needed FROM quota_explain('cfg_b', 'cfg', 'big');
SELECT limit_name, needed FROM quota_explain('cfg_b', 'cfg', 'free');
SELECT limit_name, needed FROM quota_explain('cfg_b', 'cfg', 'big', units => '{"token": 7}');

-- more limits than one call can be checked against
INSERT INTO quota.limits (provider, name, amount, period) SELECT 'cfg', 'n' || i, 1, '1 s' FROM generate_series(1, 12) i;
SELECT * FROM quota_explain('cfg_b', 'cfg');

-- columns that somebody adds are in nobody's way
ALTER TABLE quota.limits ADD COLUMN cfg_note text DEFAULT 'mine', ADD COLUMN cfg_more int;
ALTER TABLE quota.tenants ADD COLUMN cfg_note text;
DELETE FROM quota.limits WHERE provider = 'cfg' AND name LIKE 'n%';
SELECT limit_name, needed FROM quota_explain('cfg_b', 'cfg');
ALTER TABLE quota.limits DROP COLUMN cfg_note, DROP COLUMN cfg_more;
ALTER TABLE quota.tenants DROP COLUMN cfg_note;
SELECT limit_name, needed FROM quota_explain('cfg_b', 'cfg');

-- a rate that is no fraction of 64-bit numbers is refused wherever it is given
INSERT INTO quota.limits (provider, name, amount, period) VALUES ('cfg', 'x', 0.333333333, '1 month');
UPDATE quota.limits SET amount = 1.000000001, period = '1 day' WHERE provider = 'cfg' AND name = 'tokens';
\set VERBOSITY terse
INSERT INTO quota.limits (provider, name, amount, period, per) VALUES ('cfg', 'x', 0.333333333, '1 s', '{tenant}');
UPDATE quota.limits SET external = true, period = '1 min' WHERE provider = 'cfg' AND name = 'x';
UPDATE quota.limits SET external = true WHERE provider = 'cfg' AND name = 'x';
UPDATE quota.providers SET safety = 0.900001 WHERE provider = 'cfg';
UPDATE quota.limits SET external = NULL WHERE provider = 'cfg' AND name = 'x';
UPDATE quota.providers SET safety = 0.900001 WHERE provider = 'cfg';
INSERT INTO quota.tenant_limits (tenant, provider, name, multiplier) VALUES ('cfg_b', 'cfg', 'x', 1.000001);
INSERT INTO quota.tier_limits (tier, provider, name, amount, multiplier) VALUES ('cfg_pro', 'cfg', 'x', 0.111111111, 0.5);
\set VERBOSITY default
DELETE FROM quota.tier_limits WHERE tier = 'cfg_pro';

-- a class's retry_base that a provider's retry_max would cut off is refused, whichever comes last
UPDATE quota.providers SET retry_max = '1 day' WHERE provider NOT LIKE 'cfg%';
INSERT INTO quota.providers (provider, retry_max) VALUES ('cfg_slow', '20 min');
INSERT INTO quota.classes (class, rank, retry_base) VALUES ('cfg_long', 9, '6 min');
\set VERBOSITY terse
UPDATE quota.classes SET retry_base = '301 s' WHERE class = 'batch';
INSERT INTO quota.classes (class, rank, retry_base) VALUES ('batch', 3, '301 s');
INSERT INTO quota.classes (class, rank, retry_base) VALUES ('cfg_long', 9, '5 min');
UPDATE quota.classes SET retry_base = '301 s' WHERE class = 'cfg_long';
UPDATE quota.providers SET retry_max = '299 s' WHERE provider = 'cfg';
INSERT INTO quota.providers (provider, retry_max) VALUES ('cfg_fast', '1 min');
-- unless the class has a retry_max of its own
UPDATE quota.classes SET retry_base = '301 s', retry_max = '301 s' WHERE class = 'cfg_long';
INSERT INTO quota.providers (provider, retry_max) VALUES ('cfg_fast', '1 min');
UPDATE quota.classes SET retry_max = NULL WHERE class = 'cfg_long';
\set VERBOSITY default
SELECT class, retry_base, retry_max FROM quota.classes WHERE class LIKE 'cfg%';
DELETE FROM quota.classes WHERE class = 'cfg_long';

-- no such thing
SELECT quota_peek('cfg_nobody', 'cfg');
SELECT quota_peek('cfg_b', 'cfg_none');
SELECT quota_peek('cfg_b', 'cfg', class => 'cfg_none');
SELECT quota_peek(repeat('x', 128), 'cfg');

DELETE FROM quota.jobs WHERE tenant LIKE 'cfg%';
DELETE FROM quota.limits WHERE provider = 'cfg';
DELETE FROM quota.costs WHERE provider = 'cfg';
DELETE FROM quota.tenants WHERE tenant LIKE 'cfg%';
DELETE FROM quota.providers WHERE provider LIKE 'cfg%';
DELETE FROM quota.tiers WHERE tier LIKE 'cfg%';
