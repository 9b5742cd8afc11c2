-- G8: who keeps others waiting, and who must not.
SET timezone = 'UTC';
SET statement_timeout = '60 s';
SELECT quota_clock_set('2026-04-01 00:00:00+00');
INSERT INTO quota.tiers (tier) VALUES ('turns');
INSERT INTO quota.tenants (tenant, tier) VALUES ('turns_a', 'turns'), ('turns_b', 'turns'), ('turns_c', 'turns');

-- A dear job waits for a limit that every call meets, and nobody overtakes it; but
-- not while its tenant's own limit, or one of its endpoint, keeps it from running.
INSERT INTO quota.providers (provider, safety) VALUES ('turns', 1);
INSERT INTO quota.limits (provider, name, endpoint, per, unit, amount, period, burst, external) VALUES
	('turns', 'all', NULL, '{}', 'request', 10, '10 s', 10, false),
	('turns', 'own', NULL, '{tenant}', 'credit', 1, '20 s', 1, false),
	('turns', 'search', '/search', '{}', 'credit', 1, '20 s', 1, false);
CREATE FUNCTION turns_claim(provider text = 'turns', jobs int = 5) RETURNS TABLE (tenant text, endpoint text, jobs bigint)
LANGUAGE sql AS
$$ SELECT tenant, endpoint, count(*) FROM quota_dequeue($1, $2, lease => '1 day') GROUP BY 1, 2 ORDER BY 1, 2 $$;
SELECT admitted FROM quota_acquire('turns_a', 'turns', units => '{"request": 7, "credit": 1}');
INSERT INTO quota.jobs (tenant, provider, units) VALUES
	('turns_a', 'turns', '{"request": 8, "credit": 1}'), ('turns_b', 'turns', '{"request": 1}'),
	('turns_b', 'turns', '{"request": 1}');
SELECT * FROM turns_claim(jobs => 1);
SELECT * FROM quota_next_at('turns') ORDER BY tenant, endpoint;
-- its own limit has room again: now it is waited for
SELECT quota_clock_advance('20 s');
SELECT admitted FROM quota_acquire('turns_c', 'turns', units => '{"request": 7}');
SELECT * FROM turns_claim();
SELECT * FROM quota_next_at('turns') ORDER BY tenant, endpoint;
SELECT quota_clock_advance('5 s');
SELECT * FROM turns_claim();
-- the same of a limit that tenants share
SELECT quota_cancel(id) FROM quota.jobs WHERE provider = 'turns' AND state = 'queued';
SELECT quota_clock_advance('20 s');
SELECT admitted FROM quota_acquire('turns_c', 'turns', '/search', units => '{"request": 7, "credit": 1}');
INSERT INTO quota.tenants (tenant, tier) VALUES ('turns_new_1', 'turns'), ('turns_new_2', 'turns');
INSERT INTO quota.jobs (tenant, provider, endpoint, units) VALUES
	('turns_new_1', 'turns', '/search', '{"request": 8, "credit": 1}'), ('turns_new_2', 'turns', NULL, '{"request": 1}');
SELECT * FROM turns_claim();
SELECT * FROM quota_next_at('turns') ORDER BY tenant, endpoint;

-- Nor does a tenant that waits first for a limit which several share, once that has
-- room, while it is not going to use it: b and c are served alike, as far as x goes.
INSERT INTO quota.providers (provider, safety, share_unit) VALUES ('turns_x', 1, 'token');
INSERT INTO quota.limits (provider, name, endpoint, per, amount, period, burst, external) VALUES
	('turns_x', 'x', '/x', '{}', 10, '10 s', 10, false),
	('turns_x', 'y', '/y', '{tenant}', 1000, '10 s', 1000, false);
CREATE PROCEDURE turns_add(tenant text, endpoint text, token int, jobs int) LANGUAGE sql AS
$$ INSERT INTO quota.jobs (tenant, provider, endpoint, units)
	SELECT $1, 'turns_x', $2, jsonb_build_object('request', 1, 'token', $3) FROM generate_series(1, $4) $$;
-- because a dear job has put it far ahead of others
SELECT admitted FROM quota_acquire('turns_c', 'turns_x', '/x', n => 10);
CALL turns_add('turns_a', '/x', 1, 1);
CALL turns_add('turns_b', '/x', 1, 11);
SELECT * FROM turns_claim('turns_x');
CALL turns_add('turns_a', '/y', 1000, 1);
SELECT * FROM turns_claim('turns_x', 1);
CALL turns_add('turns_c', '/y', 1, 2000);
SELECT quota_clock_advance('10 s');
SELECT * FROM turns_claim('turns_x', 20);
SELECT * FROM quota_next_at('turns_x') ORDER BY tenant, endpoint;
-- when it is its turn again it finds what there is
SELECT quota_clock_advance('2 s');
SELECT * FROM turns_claim('turns_x', 1000);
SELECT * FROM turns_claim('turns_x', 50);
-- because its tenant has older work, which goes first
UPDATE quota.providers SET share_unit = 'request' WHERE provider = 'turns_x';
DO $$ BEGIN PERFORM quota_cancel(id) FROM quota.jobs WHERE provider = 'turns_x' AND state = 'queued'; END $$;
SELECT quota_clock_advance('10 s');
SELECT admitted FROM quota_acquire('turns_c', 'turns_x', '/x', n => 10);
SELECT admitted FROM quota_acquire('turns_a', 'turns_x', '/y', n => 1000);
INSERT INTO quota.tenants (tenant, tier) VALUES ('turns_d', 'turns');
CALL turns_add('turns_a', '/y', 1, 200);
CALL turns_add('turns_a', '/x', 1, 1);
CALL turns_add('turns_d', '/x', 1, 20);
SELECT * FROM turns_claim('turns_x');
SELECT quota_clock_advance('10 s');
SELECT * FROM turns_claim('turns_x', 30);
