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
SELECT * FROM quota_next_at('turns');
-- its own limit has room again: now it is waited for
SELECT quota_clock_advance('20 s');
SELECT admitted FROM quota_acquire('turns_c', 'turns', units => '{"request": 7}');
SELECT * FROM turns_claim();
SELECT * FROM quota_next_at('turns');
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
SELECT * FROM quota_next_at('turns');
