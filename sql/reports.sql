-- What providers answer: rows that say what it means, what headers say is left, and
-- what is kept of it.
SET timezone = 'UTC';
SET intervalstyle = 'postgres';
SELECT quota_clock_set('2026-05-01 12:00:00+00');
INSERT INTO quota.tiers (tier) VALUES ('ans');
INSERT INTO quota.tenants (tenant, tier) VALUES ('ans_a', 'ans'), ('ans_b', 'ans');
INSERT INTO quota.providers (provider, safety) VALUES ('ans', 1);
INSERT INTO quota.limits (provider, name, kind, amount, period)
	VALUES ('ans', 'minute', 'fixed_window', 100, '1 min'), ('ans', 'day', 'fixed_window', 5000, '1 day');
INSERT INTO quota.limits (provider, name, unit, amount, period, burst)
	VALUES ('ans', 'tokens', 'input_token', 1000, '1 min', 1000);
INSERT INTO quota.limits (provider, name, per, amount, period)
	VALUES ('ans', 'own', '{tenant}', 80, '1 min');
INSERT INTO quota.limits (provider, name, kind, amount) VALUES ('ans', 'slots', 'concurrency', 900);
CREATE VIEW levels AS SELECT limit_name, bucket, level, admitted FROM quota.stat_buckets
	WHERE provider = 'ans' AND limit_name <> 'slots' ORDER BY limit_name, bucket;
-- waits for the background worker; the newest rows
CREATE FUNCTION seen(n int) RETURNS TABLE (tenant text, endpoint text, outcome text, scope text, status int,
	reason text, retry_after interval, headers jsonb, in_flight bigint, level bigint, attempt int, latency interval)
LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. 600 LOOP
		EXIT WHEN (SELECT count(*) FROM quota.feedback f WHERE f.provider LIKE 'ans%') >= n;
		PERFORM pg_sleep(0.1), pg_stat_clear_snapshot();
	END LOOP;
	RETURN QUERY SELECT f.tenant, f.endpoint, f.outcome, f.scope, f.status, f.reason, f.retry_after, f.headers,
		f.in_flight, f.level, f.attempt, f.latency FROM quota.feedback f WHERE f.provider LIKE 'ans%' ORDER BY id OFFSET 0;
	DELETE FROM quota.feedback;
END $$;

-- ends what answers have paused
CREATE FUNCTION resume() RETURNS bigint LANGUAGE sql AS
$$ SELECT count(quota_resume(provider, tenant, endpoint, connection, limit_name, account)) FROM quota.stat_pauses $$;
CREATE VIEW pauses AS SELECT scope, until - quota_clock() AS "for", reason FROM quota.stat_pauses ORDER BY scope;

-- ---- what standards say ----
SELECT status, quota_report('ans', status) FROM unnest(ARRAY[NULL, 0, 100, 200, 302, 402, 403, 404, 408, 429, 500, 503, 529, 599, 700, -5, 2147483647]) status;
SELECT * FROM quota.stat_answers WHERE provider LIKE 'ans%' ORDER BY 1;
SELECT outcome, scope, status, retry_after FROM seen(15);
-- a 429 that names nobody and no time pauses the provider for its cooldown; overload that names none pauses nothing
SELECT * FROM pauses;
SELECT resume();
SELECT quota_clock_advance('1 min');

-- ---- arguments ----
\set VERBOSITY sqlstate
SELECT quota_report(NULL);
SELECT quota_report('ans_none');
SELECT quota_report('ans', 200, 'ans_none');
SELECT quota_report('ans', 200, latency => '-1 s');
SELECT quota_report('ans', 200, latency => '1 month');
SELECT quota_report('ans', 200, attempt => 0);
SELECT quota_report('ans', 200, attempt => NULL);
SELECT quota_report('ans', 200, 'ans_a', repeat('e', 128));
BEGIN READ ONLY;
SELECT quota_report('ans', 200);
ROLLBACK;
\set VERBOSITY default

-- ---- headers without sense are no error, and counted ----
SELECT quota_report('ans', 200, 'ans_a', headers => h::jsonb) FROM (VALUES
	('{}'), ('[]'), ('[["Retry-After", "1"]]'), ('"Retry-After"'), ('null'), ('7'),
	('{"Retry-After": "soon", "RateLimit": "(", "X-RateLimit-Remaining": -1, "X-RateLimit-Limit": {"a": 1}, "x": "y"}'),
	('{"Retry-After": [], "X-RateLimit-Reset": ["then", null, [1]], "": ""}'),
	('{"X-RateLimit-Remaining": 1e400}')) v (h);
SELECT success, headers_ignored FROM quota.stat_answers WHERE provider = 'ans';
SELECT * FROM levels;

-- ---- what is left may only lower a bucket ----
SELECT reason, permit IS NOT NULL AS permit FROM quota_acquire('ans_a', 'ans', n => 10, units => '{"input_token": 5}');
SELECT * FROM levels;
-- more than we think: nothing changes
SELECT quota_report('ans', 200, 'ans_a', headers => '{"X-RateLimit-Limit": 100, "X-RateLimit-Remaining": 95}');
SELECT * FROM levels;
-- less: of several limits that one with the window, or the shortest; not the tenant's own
SELECT quota_report('ans', 200, 'ans_b', headers => '{"X-RateLimit-Limit": "100", "X-RateLimit-Remaining": "42"}');
SELECT * FROM levels;
SELECT quota_report('ans', 200, 'ans_a', headers => '{"X-RateLimit-Limit-Day": 5000, "X-RateLimit-Remaining-Day": "3000", "x-ratelimit-remaining-input-tokens": 400}');
SELECT * FROM levels;
-- it is as any other take: it refills, and the next window begins anew
SELECT quota_clock_advance('6 s');
SELECT level FROM levels WHERE limit_name IN ('tokens', 'minute');
-- a limit of another size says little
SELECT quota_report('ans', 200, 'ans_a', headers => '{"RateLimit": "\"day\";r=3", "RateLimit-Policy": "\"day\";q=10;w=60"}');
SELECT level FROM levels WHERE limit_name = 'day';
-- never a debt, whatever it says; and a tenant must be named
SELECT quota_report('ans', 200, 'ans_a', headers => '{"x-ratelimit-remaining": 0}');
SELECT quota_report('ans', 200, headers => '{"x-ratelimit-remaining-day": 0}');
SELECT level FROM levels WHERE limit_name IN ('minute', 'day');
SELECT reason, limit_name, not_before FROM quota_acquire('ans_b', 'ans');
SELECT quota_clock_advance('54 s');
SELECT reason FROM quota_acquire('ans_b', 'ans', n => 80);
-- after a change of the limit it refills by the new rate, whoever looks first
SELECT quota_report('ans', 200, 'ans_a', headers => '{"x-ratelimit-remaining-input-tokens": 0}');
UPDATE quota.limits SET amount = 10 WHERE provider = 'ans' AND name = 'tokens';
SELECT quota_clock_advance('30 s');
SELECT quota_report('ans', 200, 'ans_a', headers => '{"x-ratelimit-remaining-input-tokens": 999}');
SELECT level FROM levels WHERE limit_name = 'tokens';
UPDATE quota.limits SET amount = 1000 WHERE provider = 'ans' AND name = 'tokens';
-- it acts at once and a rollback does not undo it
SELECT quota_clock_advance('1 min');
BEGIN;
SAVEPOINT s;
SELECT quota_report('ans', 429, 'ans_a', headers => '{"x-ratelimit-remaining": 7}');
ROLLBACK TO s;
SELECT level FROM levels WHERE limit_name = 'minute';
ROLLBACK;
SELECT level FROM levels WHERE limit_name = 'minute';
SELECT reason FROM quota_peek('ans_a', 'ans');
SELECT resume();
SELECT quota_clock_advance('1 min');

-- ---- what was seen is kept, of a rolled back transaction too ----
SELECT outcome, scope, status, headers, in_flight, level FROM seen(1);
SELECT permit FROM quota_acquire('ans_a', 'ans', 'chat', n => 3) \gset
SELECT quota_report('ans', 429, 'ans_a', 'chat', '{"Retry-After": "30", "X-RateLimit-Remaining": 5, "Set-Cookie": "secret", "X-Req": "1"}',
	latency => '0.25 s', reason => 'slow "down"', attempt => 2);
SELECT quota_settle(:permit);
SELECT * FROM seen(1);
-- the next decision knows: the tenant's calls to this endpoint, no others
SELECT tenant, endpoint, (quota_peek(tenant, 'ans', endpoint)).reason
	FROM (VALUES ('ans_a', 'chat'), ('ans_a', 'mail'), ('ans_a', NULL), ('ans_b', 'chat')) v (tenant, endpoint);
SELECT * FROM pauses;
-- a shorter one changes nothing, a longer one does
SELECT quota_report('ans', 429, 'ans_a', 'chat', '{"Retry-After": "10"}');
SELECT * FROM pauses;
SELECT quota_report('ans', 429, 'ans_a', 'chat', '{"Retry-After": "0"}'), quota_report('ans', 429, 'ans_a', 'chat', '{"Retry-After": "40"}');
SELECT * FROM pauses;
SELECT count(*) FROM seen(3);
-- as much as fits
SELECT quota_report('ans', 500, reason => repeat('é', 100), headers => jsonb_build_object('x-ratelimit-reason', repeat('r', 600), 'retry-after', '1'));
SELECT octet_length(reason), headers FROM seen(1);

-- ---- rows say what standards don't ----
INSERT INTO quota.answers (provider, status, header, value, means, scope, limit_name) VALUES
	('ans', 402, NULL, NULL, 'exhausted', NULL, NULL),
	('ans', 403, 'x-ratelimit-remaining', '0', 'rate_limited', 'provider', NULL),
	('ans', NULL, 'x-why', NULL, 'reason', NULL, NULL),
	('ans', NULL, NULL, 'daily *', 'rate_limited', 'limit', 'day'),
	('ans', NULL, 'x-day-left', NULL, 'remaining', NULL, 'day'),
	(NULL, 418, NULL, NULL, 'overloaded', NULL, NULL);
SELECT quota_report('ans', 402, 'ans_a', reason => 'the card was declined');
SELECT quota_report('ans', 402, 'ans_a'), quota_report('ans', 403, 'ans_a', 'chat', '{"X-RateLimit-Remaining": "0"}'),
	quota_report('ans', 403, 'ans_a', 'chat', '{"X-RateLimit-Remaining": "1"}'),
	quota_report('ans', 429, 'ans_a', 'chat', '{"X-Why": "daily calls", "X-Day-Left": "12"}'),
	quota_report('ans', 418, 'ans_a', 'chat');
SELECT level FROM levels WHERE limit_name = 'day';
SELECT * FROM pauses;
SELECT outcome, scope, status, reason, headers FROM seen(6);
-- told once a minute
SELECT kind, provider, tenant, detail FROM quota.events WHERE kind = 'account_exhausted';
-- the next report obeys what is committed
UPDATE quota.answers SET means = 'rejected' WHERE status = 402;
SELECT quota_report('ans', 402);
BEGIN;
DELETE FROM quota.answers WHERE status = 418;
SELECT quota_report('ans', 418);
ROLLBACK;
SELECT quota_report('ans', 418);
SELECT count(*) FROM seen(3);
SELECT resume();

-- ---- the same by quota_settle, quota_complete and quota_fail ----
CREATE VIEW answers AS SELECT success, rate_limited, overloaded, failure FROM quota.stat_answers WHERE provider = 'ans';
SELECT quota_clock_advance('1 day');
SELECT * FROM answers;
SELECT permit FROM quota_acquire('ans_a', 'ans', 'chat') \gset
SELECT quota_settle(:permit, status => 429, headers => '{"X-RateLimit-Remaining": "50", "Retry-After": "2"}', latency => '3 ms');
SELECT level FROM levels WHERE limit_name = 'minute';
SELECT * FROM seen(1);
-- a rollback gives the permit back, not what the answer said
SELECT permit FROM quota_acquire('ans_a', 'ans') \gset
BEGIN;
SELECT quota_settle(:permit, status => 503, headers => '{"X-RateLimit-Remaining": "40"}');
ROLLBACK;
SELECT level FROM levels WHERE limit_name = 'minute';
SELECT endpoint, outcome, scope, in_flight FROM seen(1);
SELECT quota_settle(:permit);
-- nothing said, nothing counted; and of a call without a permit nothing is known
SELECT quota_settle(NULL, status => 500);
\set VERBOSITY sqlstate
SELECT quota_settle(:permit, status => 500);
SELECT quota_settle(NULL, status => 500, latency => '-1 s');
\set VERBOSITY default
SELECT * FROM answers;
INSERT INTO quota.jobs (tenant, provider, endpoint, connection, payload)
	SELECT 'ans_b', 'ans', 'jobs', 'c' || i, to_jsonb(i) FROM generate_series(1, 6) i;
CREATE TEMP VIEW claim AS SELECT id, attempt FROM quota_dequeue('ans') OFFSET 0;
SELECT quota_complete(id, attempt, headers => '{"X-RateLimit-Remaining": "30"}') FROM claim;
SELECT level FROM levels WHERE limit_name = 'minute';
SELECT quota_complete(id, attempt) FROM claim;
SELECT * FROM answers;
INSERT INTO quota.answers (provider, header, means) VALUES ('ans', 'x-wait', 'retry_after');
SELECT quota_fail(id, attempt, 'busy', 503, '{"X-Wait": "90s"}', latency => '1 s') FROM claim;
SELECT quota_clock_advance('89.9 s');
BEGIN;
SELECT payload FROM quota_dequeue('ans');
ROLLBACK;
SELECT quota_clock_advance('0.1 s');
BEGIN;
SELECT payload FROM quota_dequeue('ans');
ROLLBACK;
SELECT * FROM seen(1);
-- a failure pauses nobody, but says when to ask again: the job is not ready before then
SELECT quota_fail(id, attempt, 'broken', 500, '{"Retry-After": "120"}') FROM claim;
SELECT quota_fail(array_agg(id), array_agg(attempt), ARRAY['c', 'd'], ARRAY[500, 500], '{"Retry-After": "180"}')
	FROM quota_dequeue('ans', 2);
SELECT * FROM pauses;
BEGIN;
SELECT count(*) FROM quota_dequeue('ans', 10);
ROLLBACK;
SELECT quota_clock_advance('119.999999 s');
BEGIN;
SELECT count(*) FROM quota_dequeue('ans', 10);
ROLLBACK;
SELECT quota_clock_advance('1 us');
BEGIN;
SELECT count(*) FROM quota_dequeue('ans', 10);
ROLLBACK;
SELECT quota_clock_advance('60 s');
BEGIN;
SELECT count(*) FROM quota_dequeue('ans', 10);
ROLLBACK;
SELECT outcome, retry_after FROM seen(3);
-- without an answer none is taken in; of one by arrays, one
SELECT quota_fail(id, attempt, 'no', retry => false) FROM claim;
SELECT quota_fail(array_agg(id), array_agg(attempt), ARRAY['a', 'b'], ARRAY[429, 429], '{"X-RateLimit-Remaining": 3}', retry => false)
	FROM quota_dequeue('ans', 2);
SELECT endpoint, outcome, reason, attempt FROM seen(1);
SELECT * FROM answers;
-- that jobs succeeded is told where something is learned from it, by arrays too, and nowhere else
INSERT INTO quota.providers (provider) VALUES ('ans_learns'), ('ans_not');
INSERT INTO quota.breakers (provider) VALUES ('ans_learns');
INSERT INTO quota.jobs (tenant, provider) SELECT 'ans_a', p FROM unnest(ARRAY['ans_learns', 'ans_learns', 'ans_not']) p;
SELECT count(*) FROM quota_dequeue(ARRAY['ans_learns', 'ans_not'], 3);
SELECT quota_complete(array_agg(id ORDER BY id), array_agg(attempt)) FROM quota.jobs
	WHERE provider IN ('ans_learns', 'ans_not');
SELECT provider, success FROM quota.stat_answers WHERE provider IN ('ans_learns', 'ans_not') ORDER BY 1;
-- what goes wrong with an answer is no error: more limits than a call may meet
INSERT INTO quota.jobs (tenant, provider, payload) VALUES ('ans_a', 'ans', '"last"');
SELECT id, attempt FROM claim \gset
INSERT INTO quota.limits (provider, name, amount, period) SELECT 'ans', 'l' || i, 1000, '1 s' FROM generate_series(1, 12) i;
\set VERBOSITY terse
SELECT quota_fail(:id, :attempt, 'no', 429, retry => false);
\set VERBOSITY default
SELECT state FROM quota.jobs WHERE id = :id;
DELETE FROM quota.limits WHERE provider = 'ans' AND name LIKE 'l%';
DROP VIEW answers;

-- rows that make no sense
\set VERBOSITY terse
INSERT INTO quota.answers (provider, means) VALUES ('ans', 'success');
INSERT INTO quota.answers (provider, status, means) VALUES ('ans', 402, 'success');
INSERT INTO quota.answers (provider, status, means) VALUES ('ans', 1000, 'success');
INSERT INTO quota.answers (provider, status, means) VALUES ('ans', 401, 'unknown');
INSERT INTO quota.answers (provider, status, means) VALUES ('ans', 401, 'remaining');
INSERT INTO quota.answers (provider, status, header, means) VALUES ('ans', 401, 'X-Why', 'reason');
INSERT INTO quota.answers (provider, status, means, scope) VALUES ('ans', 401, 'failure', 'tenant');
INSERT INTO quota.answers (provider, status, means, scope) VALUES ('ans', 401, 'rate_limited', 'call');
INSERT INTO quota.answers (provider, status, means, scope) VALUES ('ans', 401, 'rate_limited', 'limit');
INSERT INTO quota.answers (provider, status, means, scope, limit_name) VALUES ('ans', 401, 'rate_limited', 'tenant', 'day');
INSERT INTO quota.answers (provider, header, means, limit_name) VALUES ('ans', 'x-a', 'reason', 'day');

DELETE FROM quota.answers;
SELECT resume();
DROP VIEW levels, pauses;
DROP FUNCTION resume();
DROP FUNCTION seen(int);
