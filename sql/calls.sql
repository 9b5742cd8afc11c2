-- The call itself: headers, keys, leases, waiting.
SET timezone = 'UTC';
SELECT quota_clock_set('2026-03-01 00:00:00+00');

INSERT INTO quota.tiers (tier) VALUES ('calls');
INSERT INTO quota.tenants (tenant, tier) VALUES ('calls_a', 'calls'), ('calls_b', 'calls');
INSERT INTO quota.providers (provider, safety) VALUES ('calls_h', 1), ('calls_free', 1);
INSERT INTO quota.limits (provider, name, per, kind, unit, amount, period, burst) VALUES
	('calls_h', 'rate', '{}', 'token_bucket', 'request', 100, '1500 ms', 2),
	('calls_h', 'tokens "in"\ü', '{}', 'token_bucket', 'input_token', 6000, '1 minute', 600),
	('calls_h', 'flight', '{}', 'concurrency', 'request', 3, NULL, NULL),
	('calls_h', 'budget', '{tenant}', 'allowance', 'credit', 1000, '1 month', NULL),
	('calls_h', 'huge', '{}', 'token_bucket', 'huge', 1e15, '1 hour', NULL);
INSERT INTO quota.costs (provider, endpoint, unit, cost) VALUES
	('calls_h', 'fill', 'input_token', 600), ('calls_h', 'dear', 'credit', 400);

-- admitted: further calls; nothing when there is no limit
SELECT admitted, quota_headers(d) FROM quota_acquire('calls_a', 'calls_free') d;
SELECT permit AS p1, quota_headers(d) FROM quota_acquire('calls_a', 'calls_h', 'fill') d \gset first_
SELECT :'first_quota_headers';
SELECT quota_clock_advance('1 s');
-- refused by several limits at once: all of them, seconds rounded up
SELECT quota_headers(d), reason, exhausted FROM quota_acquire('calls_a', 'calls_h', 'dear', n => 3, units => '{"input_token": 150}') d;
SELECT quota_headers(d) FROM quota_acquire('calls_a', 'calls_h', units => '{"input_token": 300, "huge": 1000}') d;
SELECT quota_headers(d) FROM quota_peek('calls_b', 'calls_h', n => 2, units => '{"huge": 1000000000}') d;
-- never before it helps, whenever it is called: never negative
SELECT quota_headers(d) FROM (SELECT (p.d).* FROM (SELECT quota_peek('calls_a', 'calls_h', units => '{"input_token": 101}') d) p) d;
CREATE TEMP TABLE kept AS SELECT quota_peek('calls_a', 'calls_h', units => '{"input_token": 300}') AS d;
SELECT (d).not_before, quota_headers(d) FROM kept;
SELECT quota_clock_advance('999999 us');
SELECT quota_headers(d) FROM kept;
SELECT quota_clock_advance('2 us');
SELECT quota_headers(d) FROM kept;
-- waiting does not help: no Retry-After, no t
SELECT reason, not_before, quota_headers(d) FROM quota_acquire('calls_b', 'calls_h', 'dear', n => 3) d;
SELECT reason, quota_headers(d) FROM quota_acquire('calls_a', 'calls_h', n => 4) d;
UPDATE quota.tenants SET suspended = true WHERE tenant = 'calls_b';
SELECT reason, quota_headers(d) FROM quota_acquire('calls_b', 'calls_h') d;
UPDATE quota.tenants SET suspended = false WHERE tenant = 'calls_b';
-- limits of one name: the one that opens last
INSERT INTO quota.limits (provider, name, amount, period, burst) VALUES (NULL, 'rate', 1, '1 hour', 1);
SELECT admitted FROM quota_acquire('calls_a', 'calls_free');
SELECT quota_headers(d) FROM quota_acquire('calls_b', 'calls_free') d;
SELECT quota_headers(d) FROM quota_acquire('calls_b', 'calls_h', n => 3) d;
DELETE FROM quota.limits WHERE provider IS NULL;
-- it needs no right and no search path
SET search_path = pg_catalog;
SELECT public.quota_headers(NULL), public.quota_headers(ROW(true, 1, 'ok', NULL, NULL, 7, NULL, NULL)::public.quota_decision);
RESET search_path;
SELECT quota_release(:first_p1);

-- ---- key: the same answer, charged once ----
SELECT quota_clock_advance('1 hour');
INSERT INTO quota.providers (provider, safety) VALUES ('calls_k', 1);
INSERT INTO quota.limits (provider, name, kind, amount, period, burst) VALUES
	('calls_k', 'rate', 'token_bucket', 3600, '1 hour', 10),
	('calls_k', 'flight', 'concurrency', 8, NULL, NULL);
SELECT * FROM quota_acquire('calls_a', 'calls_k', n => 3, key => 'one') \gset k1_
SELECT :k1_granted AS granted, :'k1_reason' AS reason, :k1_remaining AS remaining;
SELECT admitted, granted, reason, limit_name, not_before, remaining, permit = :k1_permit AS same_permit, exhausted
FROM quota_acquire('calls_a', 'calls_k', n => 3, key => 'one');
SELECT remaining FROM quota_peek('calls_a', 'calls_k');
-- a key is the tenant's and the provider's
SELECT granted, remaining FROM quota_acquire('calls_b', 'calls_k', key => 'one');
SELECT admitted, remaining FROM quota_acquire('calls_a', 'calls_free', key => 'one');
-- another call with it
SELECT quota_acquire('calls_a', 'calls_k', n => 2, key => 'one');
\set VERBOSITY sqlstate
SELECT quota_acquire('calls_a', 'calls_k', 'e', n => 3, key => 'one');
\set VERBOSITY default
SELECT quota_acquire('calls_a', 'calls_k', 'e', n => 3, key => 'one');
SELECT quota_acquire('calls_a', 'calls_k', n => 3, units => '{"token": 1}', key => 'one');
SELECT quota_acquire('calls_a', 'calls_k', n => 3, class => 'batch', key => 'one');
SELECT quota_acquire('calls_a', 'calls_k', n => 3, "user" => 'u', key => 'one');
SELECT quota_acquire('calls_a', 'calls_k', n => 3, connection => 'c', key => 'one');
SELECT quota_acquire('calls_a', 'calls_k', n => 3, resource => 'r', key => 'one');
SELECT quota_acquire('calls_a', 'calls_k', n => 3, partial => true, key => 'one');
-- units are the same in any order
SELECT granted FROM quota_acquire('calls_a', 'calls_k', units => '{"a": 1, "b": 2}', key => 'units');
SELECT granted FROM quota_acquire('calls_a', 'calls_k', units => '{"b":2, "a":1}', key => 'units');
SELECT granted FROM quota_acquire('calls_a', 'calls_k', units => '{"b": 2, "a": 2}', key => 'units');
-- a use that is rolled back leaves it free, savepoints too
SELECT remaining FROM quota_peek('calls_a', 'calls_k');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT remaining FROM quota_acquire('calls_a', 'calls_k', key => 'tried');
SAVEPOINT s;
SELECT remaining FROM quota_acquire('calls_a', 'calls_k', n => 2, key => 'tried');
ROLLBACK TO s;
SELECT remaining FROM quota_acquire('calls_a', 'calls_k', key => 'inner');
ROLLBACK TO s;
SELECT remaining FROM quota_acquire('calls_a', 'calls_k', n => 2, key => 'inner');
SELECT remaining FROM quota_acquire('calls_a', 'calls_k', n => 2, key => 'inner');
ROLLBACK;
SELECT remaining FROM quota_peek('calls_a', 'calls_k');
SELECT remaining FROM quota_acquire('calls_a', 'calls_k', n => 2, key => 'tried');
-- what is refused may be asked again
SELECT admitted, reason FROM quota_acquire('calls_a', 'calls_k', n => 7, key => 'later');
SELECT quota_release(:k1_permit);
SELECT admitted, reason FROM quota_acquire('calls_a', 'calls_k', n => 3, key => 'later');
-- nothing of a refusal is left: no row, no lock, no transaction id
BEGIN;
SELECT admitted FROM quota_acquire('calls_a', 'calls_k', n => 7, key => 'none');
SELECT pg_current_xact_id_if_assigned(), count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory';
COMMIT;
SELECT operation, tenant, provider, key, arguments, granted, permit IS NOT NULL AS permit, created_at FROM quota.keys ORDER BY 1, 2, 3, 4;
-- none, and one that is too long
SELECT quota_acquire('calls_a', 'calls_k', key => '');
SELECT quota_acquire('calls_a', 'calls_k', key => repeat('x', 1025));
BEGIN;
SELECT granted FROM quota_acquire('calls_a', 'calls_k', key => repeat('x', 1024));
ROLLBACK;
BEGIN READ ONLY;
SELECT quota_acquire('calls_a', 'calls_k', key => 'one');
ROLLBACK;

-- ---- not_before: exact, and spread over those refused (scenarios 3, 4) ----
INSERT INTO quota.providers (provider, safety) VALUES ('calls_n', 1);
INSERT INTO quota.limits (provider, name, endpoint, kind, unit, amount, period, burst, permit_lifetime) VALUES
	('calls_n', 'third', 'rate', 'token_bucket', 'request', 3, '1 s', 1, '60 s'),
	('calls_n', 'slow', 'two', 'token_bucket', 'request', 7, '1 minute', 2, '60 s'),
	('calls_n', 'tokens', 'two', 'token_bucket', 'token', 1000, '1 hour', 1000, '60 s'),
	('calls_n', 'flight', 'flight', 'concurrency', 'request', 1, NULL, NULL, '7 s'),
	('calls_n', 'credits', 'credit', 'allowance', 'call', 1, '1 day', NULL, '60 s');
-- takes all there is, is refused, and asks a microsecond before it is told to, and then
CREATE FUNCTION is_exact(endpoint text, n int DEFAULT 1, units jsonb DEFAULT NULL,
	OUT reason text, OUT after interval, OUT before boolean, OUT "then" boolean)
LANGUAGE plpgsql AS $$
DECLARE d quota_decision;
BEGIN
	WHILE (quota_peek('calls_a', 'calls_n', endpoint, n, units)).admitted LOOP
		PERFORM quota_acquire('calls_a', 'calls_n', endpoint, n, units);
	END LOOP;
	d := quota_acquire('calls_a', 'calls_n', endpoint, n, units);
	reason := d.reason;
	after := d.not_before - quota_clock();
	ASSERT d.not_before = (quota_peek('calls_a', 'calls_n', endpoint, n, units)).not_before;
	ASSERT d.not_before = (SELECT max(e.not_before) FROM quota_explain('calls_a', 'calls_n', endpoint, n, units) e);
	PERFORM quota_clock_advance(after - interval '1 us');
	before := (quota_peek('calls_a', 'calls_n', endpoint, n, units)).admitted;
	PERFORM quota_clock_advance('1 us');
	"then" := (quota_acquire('calls_a', 'calls_n', endpoint, n, units)).admitted;
END $$;
SELECT * FROM is_exact('rate');
SELECT * FROM is_exact('two');
SELECT * FROM is_exact('two', 2, '{"token": 300}');
SELECT * FROM is_exact('two', 1, '{"token": 900}');
SELECT * FROM is_exact('flight');
BEGIN;
SELECT quota_adjust('calls_a', 'calls_n', 'credits', 1, endpoint => 'credit');
SELECT * FROM is_exact('credit', 1, '{"call": 1}');
ROLLBACK;

-- each next one a call's refill later, for one refill of the capacity
SELECT quota_clock_set('2026-03-01 12:00:00+00');
INSERT INTO quota.limits (provider, name, endpoint, amount, period, burst) VALUES
	('calls_n', 'five', 'spread', 60, '1 minute', 5);
SELECT admitted FROM quota_acquire('calls_a', 'calls_n', 'spread', n => 5);
SELECT (quota_acquire('calls_a', 'calls_n', 'spread')).not_before - quota_clock() AS after FROM generate_series(1, 7);
-- dear calls
SELECT (quota_acquire('calls_a', 'calls_n', 'spread', n => 2)).not_before - quota_clock() AS after FROM generate_series(1, 4);
-- whom nobody waits with: peek, explain, and the list of limits
SELECT p.not_before - quota_clock() AS peek, e.not_before - quota_clock() AS explain
FROM quota_peek('calls_a', 'calls_n', 'spread') p, quota_explain('calls_a', 'calls_n', 'spread') e;
SELECT not_before - quota_clock() AS after, (exhausted->0->>'not_before')::timestamptz - quota_clock() AS exact
FROM quota_acquire('calls_a', 'calls_n', 'spread');
-- told to be later they find room too; an admission begins anew
SELECT quota_clock_advance('1 s');
SELECT admitted FROM quota_acquire('calls_a', 'calls_n', 'spread');
SELECT (quota_acquire('calls_a', 'calls_n', 'spread')).not_before - quota_clock() AS after FROM generate_series(1, 2);
-- so does room that nobody has used
SELECT quota_clock_advance('1 s');
SELECT (quota_acquire('calls_a', 'calls_n', 'spread', n => 2)).not_before - quota_clock() AS after FROM generate_series(1, 2);
-- a call dearer than a refill of all that is there: exact
SELECT reason, not_before FROM quota_acquire('calls_a', 'calls_n', 'spread', n => 6);
DROP FUNCTION is_exact;

-- ---- quota_acquire_wait: 043_calls.pl has those that wait ----
SET statement_timeout = '30 s';
INSERT INTO quota.providers (provider, safety) VALUES ('calls_w', 1);
INSERT INTO quota.limits (provider, name, kind, amount, period, burst) VALUES
	('calls_w', 'rate', 'token_bucket', 60, '1 hour', 1);
CALL quota_acquire_wait('calls_a', 'calls_w');
-- at once, as waiting does not help: opens too late, never, suspended
CALL quota_acquire_wait('calls_a', 'calls_w', timeout => '59 s');
CALL quota_acquire_wait('calls_a', 'calls_w', n => 2, timeout => '1 day');
UPDATE quota.tenants SET suspended = true WHERE tenant = 'calls_b';
CALL quota_acquire_wait('calls_b', 'calls_w', timeout => '1 day');
-- a refusal counts once
SELECT tenant, admitted, refused FROM quota.stat_tenants WHERE provider = 'calls_w' ORDER BY 1;
-- from a block, with a variable; a key; what was taken is committed
SELECT quota_clock_advance('1 min');
DO $$
DECLARE d quota_decision;
BEGIN
	CALL quota_acquire_wait('calls_a', 'calls_w', key => 'w', timeout => '1 s', decision => d);
	RAISE NOTICE '%', d;
	RAISE EXCEPTION 'later';
END $$;
CALL quota_acquire_wait('calls_a', 'calls_w', key => 'w');
CALL quota_acquire_wait('calls_a', 'calls_w', key => 'w', n => 2);
SELECT remaining FROM quota_peek('calls_a', 'calls_w');
-- not in a transaction; arguments
BEGIN;
CALL quota_acquire_wait('calls_a', 'calls_w');
ROLLBACK;
CALL quota_acquire_wait('calls_a', 'calls_w', timeout => '0 s');
CALL quota_acquire_wait('calls_a', 'calls_w', timeout => NULL);
CALL quota_acquire_wait('nobody', 'calls_w');
SET default_transaction_read_only = on;
CALL quota_acquire_wait('calls_a', 'calls_w');
RESET default_transaction_read_only;
RESET statement_timeout;

DELETE FROM quota.limits WHERE provider LIKE 'calls%';
DELETE FROM quota.costs WHERE provider LIKE 'calls%';
DELETE FROM quota.providers WHERE provider LIKE 'calls%';
DELETE FROM quota.tenants WHERE tenant LIKE 'calls%';
DELETE FROM quota.tiers WHERE tier = 'calls';
DELETE FROM quota.keys;
