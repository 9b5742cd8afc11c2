-- What a limit is counted per: every subset of tenant, user, connection, resource,
-- endpoint and class; patterns; several windows of a unit, several units in a call.
SELECT quota_clock_set('2026-06-01 00:00:00+00');
SET timezone = 'UTC';
INSERT INTO quota.tiers (tier) VALUES ('dim');
INSERT INTO quota.tenants (tenant, tier) VALUES ('dim_a', 'dim'), ('dim_b', 'dim');
INSERT INTO quota.providers (provider) VALUES ('dim');

-- For each of the 64 subsets a limit of one call: of 64 calls, which are all combinations
-- of two values each, it admits the first of those that agree in what it is kept per.
CREATE TABLE dim_calls AS
SELECT row_number() OVER () AS i,
	ARRAY['dim_' || tenant, 'user_' || u, 'conn_' || c, 'res_' || r, 'end_' || e, class] AS said
FROM unnest('{a,b}'::text[]) AS tenant, unnest('{a,b}'::text[]) AS u, unnest('{a,b}'::text[]) AS c,
	unnest('{a,b}'::text[]) AS r, unnest('{a,b}'::text[]) AS e, unnest('{event,batch}'::text[]) AS class;
CREATE TABLE dim_answers (per text[], i int, key text[], admitted boolean, buckets bigint);
CREATE PROCEDURE ask_all(mask int) LANGUAGE plpgsql AS $$
DECLARE
	words CONSTANT text[] := '{tenant,user,connection,resource,endpoint,class}';
	used text[] := ARRAY(SELECT words[j] FROM generate_series(1, 6) AS j WHERE (mask >> (j - 1)) & 1 = 1);
BEGIN
	INSERT INTO quota.limits (provider, name, per, amount, period, burst, external)
	VALUES ('dim', 'subset ' || mask, used, 1, '100 years', 1, false);
	COMMIT;
	INSERT INTO dim_answers
	SELECT used, i, ARRAY(SELECT said[j] FROM generate_series(1, 6) AS j WHERE (mask >> (j - 1)) & 1 = 1),
		(SELECT admitted FROM quota_acquire(said[1], 'dim', said[5], class => said[6], "user" => said[2],
			connection => said[3], resource => said[4]))
	FROM (SELECT * FROM dim_calls ORDER BY i) AS c;
	UPDATE dim_answers SET buckets = (SELECT count(*) FROM quota.stat_buckets WHERE limit_name = 'subset ' || mask)
	WHERE per = used;
	DELETE FROM quota.limits WHERE name = 'subset ' || mask;
END $$;
DO $$
BEGIN
	FOR mask IN 0..63 LOOP
		CALL ask_all(mask);
	END LOOP;
END $$;
SELECT cardinality(per) AS dimensions, count(DISTINCT per) AS subsets, count(*) AS calls,
	count(*) FILTER (WHERE admitted) AS admitted, min(buckets), max(buckets)
FROM dim_answers GROUP BY 1 ORDER BY 1;
SELECT count(*) AS wrong
FROM (SELECT *, row_number() OVER (PARTITION BY per, key ORDER BY i) = 1 AS first FROM dim_answers) AS a
WHERE admitted IS DISTINCT FROM first;

-- what a call does not name: no user, connection or resource, no such limit; no endpoint
-- is an endpoint like others, and no class is the class event
INSERT INTO quota.limits (provider, name, per, amount, period, external)
SELECT 'dim', 'per ' || w, ARRAY[w], 10, '1 day', false FROM unnest('{user,connection,resource,endpoint,class}'::text[]) AS w;
INSERT INTO quota.limits (provider, name, per, amount, period, external) VALUES
	('dim', 'per user and resource', '{resource,user}', 10, '1 day', false),
	('dim', 'per class and user', '{class,user}', 10, '1 day', false);
SELECT limit_name, bucket FROM quota_explain('dim_a', 'dim');
SELECT limit_name, bucket FROM quota_explain('dim_a', 'dim', "user" => 'ann');
SELECT limit_name, bucket FROM quota_explain('dim_a', 'dim', resource => 'doc');
SELECT limit_name, bucket FROM quota_explain('dim_a', 'dim', 'chat', class => 'batch', "user" => 'ann', connection => 'c', resource => 'doc');
SELECT admitted FROM quota_acquire('dim_a', 'dim', n => 10);
SELECT limit_name, bucket, level FROM quota_explain('dim_b', 'dim', class => 'event');
SELECT limit_name, bucket, level FROM quota_explain('dim_b', 'dim', 'chat', class => 'batch');
SELECT admitted, limit_name FROM quota_acquire('dim_b', 'dim', 'chat');
DELETE FROM quota.limits WHERE provider = 'dim';

-- keys are the values, not what views show of them
INSERT INTO quota.limits (provider, name, per, amount, period, burst, external) VALUES
	('dim', 'joined', '{user,connection}', 1, '1 day', 1, false);
SELECT admitted FROM quota_acquire('dim_a', 'dim', "user" => 'a/b', connection => 'c');
SELECT admitted FROM quota_acquire('dim_a', 'dim', "user" => 'a', connection => 'b/c');
SELECT admitted FROM quota_acquire('dim_a', 'dim', "user" => 'c', connection => 'a/b');
SELECT admitted FROM quota_acquire('dim_b', 'dim', "user" => 'a', connection => 'b/c');
SELECT bucket FROM quota.stat_buckets WHERE limit_name = 'joined' ORDER BY 1;
DELETE FROM quota.limits WHERE provider = 'dim';

-- endpoint patterns: one bucket for all that match, or one for each
INSERT INTO quota.limits (provider, name, endpoint, per, amount, period, burst, external) VALUES
	('dim', 'v1', 'v1/*', '{}', 3, '1 day', 3, false),
	('dim', 'v1 each', 'v1/*', '{endpoint}', 2, '1 day', 2, false),
	('dim', 'search', '*/search', '{tenant,endpoint}', 1, '1 day', 1, false);
SELECT limit_name, bucket FROM quota_explain('dim_a', 'dim', 'v1/search');
SELECT limit_name, bucket FROM quota_explain('dim_a', 'dim', 'v2/search');
SELECT limit_name, bucket FROM quota_explain('dim_a', 'dim', 'v2/chat');
SELECT limit_name, bucket FROM quota_explain('dim_a', 'dim');
SELECT admitted FROM quota_acquire('dim_a', 'dim', 'v1/chat', n => 2);
SELECT admitted, limit_name, jsonb_array_length(exhausted) AS said_no FROM quota_acquire('dim_a', 'dim', 'v1/chat', n => 2);
SELECT admitted FROM quota_acquire('dim_a', 'dim', 'v1/search');
SELECT admitted, limit_name, jsonb_array_length(exhausted) AS said_no FROM quota_acquire('dim_b', 'dim', 'v1/search');
SELECT admitted FROM quota_acquire('dim_a', 'dim', 'v2/search');
SELECT admitted FROM quota_acquire('dim_b', 'dim', 'v2/search');
SELECT admitted, limit_name FROM quota_acquire('dim_a', 'dim', 'v2/search');
DELETE FROM quota.limits WHERE provider = 'dim';

-- several windows of one unit: 2 a second, 5 a minute, 7 a day, all at once
INSERT INTO quota.limits (provider, name, amount, period, burst, kind, external) VALUES
	('dim', 'second', 2, '1 second', 2, 'token_bucket', false),
	('dim', 'minute', 5, '1 minute', 5, 'token_bucket', false),
	('dim', 'day', 7, '1 day', NULL, 'allowance', false);
UPDATE quota.limits SET permit_lifetime = '1 day' WHERE name = 'day' AND provider = 'dim';
CREATE FUNCTION ask(n int) RETURNS text LANGUAGE SQL AS $$
	SELECT CASE WHEN admitted THEN 'admitted, ' || remaining || ' left'
		ELSE limit_name || coalesce(' until ' || to_char(not_before, 'HH24:MI:SS'), ', ' || reason) END
	FROM quota_acquire('dim_a', 'dim', n => $1) $$;
SELECT ask(3);
SELECT ask(2);
SELECT ask(1);
SELECT quota_clock_advance('1 second');
SELECT ask(2);
SELECT quota_clock_advance('1 second');
SELECT ask(1), ask(1);
SELECT quota_clock_advance('1 minute');
SELECT ask(2), ask(1);
SELECT quota_clock_advance('1 minute');
SELECT ask(1);
SELECT limit_name, level FROM quota_explain('dim_a', 'dim');
DROP FUNCTION ask;
SELECT count(quota_settle(permit)) FROM quota.holds WHERE provider = 'dim';
DELETE FROM quota.limits WHERE provider = 'dim';

-- several units in one call, each with its own cost; all or nothing
INSERT INTO quota.costs (provider, endpoint, unit, cost) VALUES ('dim', NULL, 'input_token', 1000),
	('dim', 'big', 'input_token', 4000), ('dim', 'big', 'request', 2);
INSERT INTO quota.limits (provider, name, unit, amount, period, burst, external) VALUES
	('dim', 'requests', 'request', 10, '1 day', 10, false),
	('dim', 'input', 'input_token', 10000, '1 day', 10000, false),
	('dim', 'output', 'output_token', 2000, '1 day', 2000, false);
SELECT limit_name, needed FROM quota_explain('dim_a', 'dim', 'big', n => 2);
SELECT admitted, remaining FROM quota_acquire('dim_a', 'dim');
SELECT admitted, remaining FROM quota_acquire('dim_a', 'dim', 'big');
SELECT admitted FROM quota_acquire('dim_a', 'dim', units => '{"input_token": 500, "output_token": 1500}');
SELECT limit_name, level FROM quota_explain('dim_a', 'dim', units => '{"output_token": 1}');
SELECT admitted, limit_name, (SELECT jsonb_agg(jsonb_build_array(e->'name', e->'needed', e->'remaining')) FROM jsonb_array_elements(exhausted) AS e) AS said_no
FROM quota_acquire('dim_a', 'dim', n => 2, units => '{"input_token": 3000, "output_token": 300}');
SELECT limit_name, level FROM quota_explain('dim_a', 'dim', units => '{"output_token": 1}');
DELETE FROM quota.limits WHERE provider = 'dim';
DELETE FROM quota.costs WHERE provider = 'dim';
DROP PROCEDURE ask_all;
DROP TABLE dim_calls, dim_answers;
DELETE FROM quota.tenants WHERE tenant LIKE 'dim%';
DELETE FROM quota.providers WHERE provider = 'dim';
DELETE FROM quota.tiers WHERE tier = 'dim';
