-- Batches: several providers in one call, array forms with an answer per item,
-- jobs of one flow under one permit, equal payloads.
SET timezone = 'UTC';
SELECT quota_clock_set('2026-05-01 00:00:00+00');
INSERT INTO quota.tiers (tier) VALUES ('qb');
INSERT INTO quota.tenants (tenant, tier) VALUES ('qb_a', 'qb'), ('qb_b', 'qb');
INSERT INTO quota.providers (provider, safety) VALUES ('qb_1', 1), ('qb_2', 1), ('qb_3', 1);
\set SHOW_CONTEXT never

---- several providers: one job of each in turn, in the order given ----
INSERT INTO quota.jobs (tenant, provider, payload)
	SELECT 'qb_a', 'qb_1', to_jsonb('x' || i) FROM generate_series(1, 4) i
	UNION ALL SELECT 'qb_a', 'qb_3', to_jsonb('z' || i) FROM generate_series(1, 2) i;
SELECT provider, payload FROM quota_dequeue(ARRAY['qb_3', 'qb_2', 'qb_1'], 3);
SELECT provider, payload FROM quota_dequeue('{qb_1,qb_2,qb_3}'::text[], 10);
SELECT count(*) FROM quota_dequeue('{qb_1,qb_2,qb_3}'::text[], 10);
-- and a limit of one keeps no job of another back
INSERT INTO quota.limits (provider, name, amount, period, burst, kind)
	VALUES ('qb_1', 'slow', 1, '1 hour', 1, 'token_bucket');
INSERT INTO quota.jobs (tenant, provider, payload)
	SELECT 'qb_a', 'qb_' || p, to_jsonb(p || ' ' || i) FROM generate_series(1, 3) i, generate_series(1, 2) p;
SELECT provider, payload FROM quota_dequeue('{qb_1,qb_2}'::text[], 10);
DELETE FROM quota.limits WHERE provider = 'qb_1';
SELECT provider, payload FROM quota_dequeue('{qb_1}'::text[], 10);
-- what can't be meant
SELECT * FROM quota_dequeue('{}'::text[]);
\echo :SQLSTATE
SELECT * FROM quota_dequeue('{qb_1,NULL}'::text[]);
\echo :SQLSTATE
SELECT * FROM quota_dequeue(NULL::text[]);
\echo :SQLSTATE
SELECT * FROM quota_dequeue('{qb_1,qb_2,qb_1}'::text[]);
\echo :SQLSTATE
SELECT * FROM quota_dequeue('{qb_1,qb_none}'::text[]);
\echo :SQLSTATE
SELECT * FROM quota_dequeue('{qb_1}'::text[], 1001);
\echo :SQLSTATE

---- array forms: an answer for each, in the order of the arrays ----
CREATE VIEW running AS
	SELECT id, attempt, payload #>> '{}' AS job FROM quota.jobs
	WHERE provider LIKE 'qb\_%' AND state = 'running';
SELECT job FROM running ORDER BY id;
SELECT quota_complete(array_agg(id ORDER BY job DESC), array_agg(attempt ORDER BY job DESC),
	array_agg(CASE job WHEN 'x1' THEN NULL ELSE to_jsonb('did ' || job) END ORDER BY job DESC))
FROM running WHERE job ~ '^x';
SELECT payload, state, result FROM quota.jobs WHERE provider = 'qb_1' AND payload::text ~ 'x' ORDER BY id;
-- a stale item is no error, nor is the second of two equal ones, nor an unknown job
SELECT quota_complete(ids || ids || 9223372036854775806, attempts || (attempts[1] + 1) || attempts[2:] || 1)
FROM (SELECT array_agg(id ORDER BY id) AS ids, array_agg(attempt ORDER BY id) AS attempts FROM running WHERE job ~ '^z') s;
SELECT quota_complete('{}'::bigint[], '{}');
-- fail: each with its error and status
SELECT quota_fail(array_agg(id ORDER BY id) || 1::bigint, array_agg(attempt ORDER BY id) || 9,
	array_agg('no ' || job ORDER BY id) || ''::text,
	array_agg(CASE job WHEN '1 1' THEN 429 END ORDER BY id) || 500)
FROM running WHERE job ~ ' 1';
SELECT payload, state, error, status FROM quota.jobs WHERE provider LIKE 'qb\_%' AND error IS NOT NULL ORDER BY id;
SELECT quota_fail(array_agg(id ORDER BY id), array_agg(attempt ORDER BY id), array_agg('gone'::text), retry => false)
FROM running;
SELECT state, count(*) FROM quota.jobs WHERE provider LIKE 'qb\_%' GROUP BY 1 ORDER BY 1;
-- what can't be meant
SELECT quota_complete('{1}'::bigint[], '{1,2}');
\echo :SQLSTATE
SELECT quota_complete('{1}'::bigint[], '{1}', '{}');
\echo :SQLSTATE
SELECT quota_complete('{1}'::bigint[], '{1}', units => '{NULL,NULL}');
\echo :SQLSTATE
SELECT quota_complete(NULL::bigint[], '{1}');
\echo :SQLSTATE
SELECT quota_complete('{1}'::bigint[], '{NULL}');
\echo :SQLSTATE
SELECT quota_fail('{1}'::bigint[], '{1}', '{NULL}');
\echo :SQLSTATE
SELECT quota_fail('{1}'::bigint[], '{1}', '{a,b}');
\echo :SQLSTATE
SELECT quota_fail('{1}'::bigint[], '{1}', '{a}', '{1,2}');
\echo :SQLSTATE
