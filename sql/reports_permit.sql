-- An answer that quota_settle is told lowers just the buckets its permit was charged in,
-- also those of the call's user, connection, resource and class, which it does not name.
SET timezone = 'UTC';
SELECT quota_clock_set('2026-05-03 12:00:00+00');
INSERT INTO quota.tiers (tier) VALUES ('rp');
INSERT INTO quota.tenants (tenant, tier) VALUES ('rp_a', 'rp');
INSERT INTO quota.providers (provider, safety) VALUES ('rp', 1);
INSERT INTO quota.limits (provider, name, per, kind, amount, period) VALUES
	('rp', 'user', '{user}', 'fixed_window', 100, '1 hour'),
	('rp', 'connection', '{connection}', 'fixed_window', 100, '2 hours'),
	('rp', 'resource', '{resource}', 'sliding_window', 100, '3 hours'),
	('rp', 'class', '{class}', 'fixed_window', 100, '4 hours'),
	('rp', 'all', '{}', 'fixed_window', 100, '1 day');
INSERT INTO quota.limits (provider, name, per, amount, period, burst, external, adaptive)
	VALUES ('rp', 'adaptive', '{user}', 1000, '1 min', 1000, true, true);
INSERT INTO quota.limits (name, per, kind, amount, period, external)
	VALUES ('rp across', '{user}', 'fixed_window', 100, '1 week', false);
INSERT INTO quota.answers (provider, header, means, limit_name) VALUES
	('rp', 'x-user', 'remaining', 'user'), ('rp', 'x-connection', 'remaining', 'connection'),
	('rp', 'x-resource', 'remaining', 'resource'), ('rp', 'x-class', 'remaining', 'class'),
	('rp', 'x-all', 'remaining', 'all'), ('rp', 'x-across', 'remaining', 'rp across');
CREATE VIEW rp_levels AS SELECT limit_name, bucket, level FROM quota.stat_buckets
	WHERE (provider = 'rp' OR limit_name = 'rp across') AND limit_name <> 'adaptive' ORDER BY limit_name, bucket;
CREATE FUNCTION rp_call(who text, class text) RETURNS bigint LANGUAGE sql AS $$
	SELECT permit FROM quota_acquire('rp_a', 'rp', 'e', units => '{}', class => rp_call.class,
		"user" => 'user ' || who, connection => 'connection ' || who, resource => 'resource ' || who) $$;

-- calls of two, and one that names nobody
SELECT rp_call('u', 'batch') AS u, rp_call('v', NULL) AS v \gset
SELECT permit FROM quota_acquire('rp_a', 'rp', 'e', units => '{}') \gset
SELECT * FROM rp_levels;
SELECT quota_settle(:u, status => 200, headers => '{"x-user": 11, "x-connection": 12, "x-resource": 13, "x-class": 14, "x-all": 15, "x-across": 16}');
SELECT * FROM rp_levels;
-- never raised; and a rollback does not undo it
BEGIN;
SELECT quota_settle(:v, status => 200, headers => '{"x-user": 5, "x-connection": 101}');
ROLLBACK;
SELECT * FROM rp_levels WHERE bucket LIKE '% v';
-- what follows from a 429, too
SELECT bucket, used_part FROM quota.stat_adaptive WHERE limit_name = 'adaptive' ORDER BY bucket;
SELECT quota_settle(:v, status => 429, headers => '{"Retry-After": "0"}');
SELECT bucket, used_part FROM quota.stat_adaptive WHERE limit_name = 'adaptive' ORDER BY bucket;
-- of a limit that is gone nothing is said
SELECT rp_call('u', 'batch') AS u \gset
DELETE FROM quota.limits WHERE provider = 'rp' AND name = 'connection';
SELECT quota_settle(:u, status => 200, headers => '{"x-user": 3, "x-connection": 3}');
SELECT * FROM rp_levels WHERE bucket LIKE '% u';
-- one without is of the tenant and endpoint
SELECT quota_settle(:permit, status => 200, headers => '{"x-user": 1, "x-class": 1, "x-all": 1}');
SELECT * FROM rp_levels;
DELETE FROM quota.limits WHERE name = 'rp across';
DELETE FROM quota.answers WHERE provider = 'rp';
