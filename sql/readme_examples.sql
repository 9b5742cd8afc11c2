-- The README's examples, with their numbers, by the test clock.
SET timezone = 'UTC';
SELECT quota_clock_set('2026-07-01 00:00:00+00');
INSERT INTO quota.tiers (tier, weight) VALUES ('ex_starter', 1), ('ex_team', 4);

-- five calls a minute: a report endpoint, each tenant
INSERT INTO quota.tenants (tenant, tier) VALUES ('five_a', 'ex_starter'), ('five_b', 'ex_starter');
INSERT INTO quota.providers (provider) VALUES ('ex_five');
INSERT INTO quota.limits (provider, name, endpoint, per, amount, period)
VALUES ('ex_five', 'reports', '/reports/*', '{tenant}', 5, '1 minute');
SELECT (d).admitted, (d).remaining, (d).not_before
FROM (SELECT quota_acquire('five_a', 'ex_five', '/reports/sales') AS d FROM generate_series(1, 6) OFFSET 0) s;
-- another endpoint, another tenant
SELECT admitted FROM quota_acquire('five_a', 'ex_five', '/contacts');
SELECT admitted, remaining FROM quota_acquire('five_b', 'ex_five', '/reports/sales');
-- one more every twelve seconds
SELECT quota_clock_advance('12 s');
SELECT admitted, remaining FROM quota_acquire('five_a', 'ex_five', '/reports/sales');

-- 180 calls a minute documented by the provider: 162 a minute are used, in bursts of 9
INSERT INTO quota.tenants (tenant, tier) VALUES ('crm_a', 'ex_starter');
INSERT INTO quota.providers (provider) VALUES ('ex_crm');
INSERT INTO quota.limits (provider, name, amount, period) VALUES ('ex_crm', 'documented', 180, '1 minute');
SELECT limit_name, level, capacity FROM quota_explain('crm_a', 'ex_crm');
CREATE FUNCTION pg_temp.calls(seconds int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE admitted bigint := 0;
BEGIN
	FOR i IN 1 .. seconds * 10 LOOP
		admitted := admitted + (SELECT granted FROM quota_acquire('crm_a', 'ex_crm', n => 20, partial => true));
		PERFORM quota_clock_advance('100 ms');
	END LOOP;
	RETURN admitted;
END $$;
-- never more than 162 + 9 in any minute, and 162 in each one that follows
SELECT pg_temp.calls(60), pg_temp.calls(60), pg_temp.calls(60);

-- a pool of 1,000 calls a minute over 40 tenants: each may use all of it while others leave
-- it, and 25 a minute are its own; one that uses less saves up 2 to 4 times as much
INSERT INTO quota.tenants (tenant, tier) SELECT 'ex_pool_' || n, 'ex_starter' FROM generate_series(1, 40) n;
INSERT INTO quota.providers (provider, safety) VALUES ('ex_pool', 1);
INSERT INTO quota.limits (provider, name, amount, period, burst) VALUES ('ex_pool', 'pool', 1000, '1 minute', 250);
-- so many minutes of all but the last tenant asking every 120 ms, of that one twice a minute
CREATE FUNCTION pg_temp.pool(minutes int, tenants int) RETURNS TABLE (tenants_served bigint, fewest bigint, most bigint, total numeric)
LANGUAGE plpgsql AS $$
DECLARE got bigint[] := array_fill(0, ARRAY[40]);
BEGIN
	FOR step IN 1 .. minutes * 500 LOOP
		PERFORM quota_clock_advance('120 ms');
		FOR t IN 1 .. tenants LOOP
			got[t] := got[t] + (SELECT granted FROM quota_acquire('ex_pool_' || t, 'ex_pool', n => 1));
		END LOOP;
		IF tenants > 1 AND step % 250 = 0 THEN
			got[40] := got[40] + (SELECT granted FROM quota_acquire('ex_pool_40', 'ex_pool'));
		END IF;
	END LOOP;
	RETURN QUERY SELECT count(*), min(g), max(g), sum(g) FROM unnest(got[1:39]) g WHERE g > 0;
END $$;
-- alone: as much as it asks for, 500 a minute
SELECT * FROM pg_temp.pool(1, 1);
-- 39 that want more than there is, whoever asks first: 25 a minute each, and a part of
-- what the last one leaves
SELECT quota_clock_advance('5 minutes');
SELECT * FROM pg_temp.pool(1, 39);
SELECT * FROM pg_temp.pool(5, 39);
-- what the last one has saved up is there for it at once
SELECT granted FROM quota_acquire('ex_pool_40', 'ex_pool', n => 200, partial => true);
UPDATE quota.providers SET burst_multiplier = 4 WHERE provider = 'ex_pool';
SELECT * FROM pg_temp.pool(6, 39);
SELECT granted FROM quota_acquire('ex_pool_40', 'ex_pool', n => 200, partial => true);

-- 100 a second, with 1,000 jobs of one tenant before one of each of two others
INSERT INTO quota.tenants (tenant, tier) VALUES ('ex_import', 'ex_starter'), ('ex_small_1', 'ex_starter'), ('ex_small_2', 'ex_starter');
INSERT INTO quota.providers (provider, safety) VALUES ('ex_mail', 1);
INSERT INTO quota.limits (provider, name, amount, period, burst) VALUES ('ex_mail', 'rate', 100, '1 second', 1);
INSERT INTO quota.jobs (tenant, provider) SELECT 'ex_import', 'ex_mail' FROM generate_series(1, 1000);
INSERT INTO quota.jobs (tenant, provider) VALUES ('ex_small_1', 'ex_mail'), ('ex_small_2', 'ex_mail');
CREATE FUNCTION pg_temp.work(calls int) RETURNS TABLE (tenant text, jobs bigint) LANGUAGE plpgsql AS $$
DECLARE who text; done text[] := '{}';
BEGIN
	FOR i IN 1 .. calls LOOP
		SELECT j.tenant INTO who FROM quota_dequeue('ex_mail') j, quota_complete(j.id, j.attempt);
		done := done || who;
		PERFORM quota_clock_advance('10 ms');
	END LOOP;
	RETURN QUERY SELECT d, count(*) FROM unnest(done) d GROUP BY d ORDER BY d;
END $$;
SELECT * FROM pg_temp.work(4);
SELECT * FROM pg_temp.work(96);

-- a day's budget of 30,000 x the plan's multiplier x seats is one row
INSERT INTO quota.tenants (tenant, tier, seats) VALUES ('budget_s', 'ex_starter', 1), ('budget_t', 'ex_team', 3);
INSERT INTO quota.providers (provider) VALUES ('ex_ai');
INSERT INTO quota.limits (provider, name, per, kind, unit, amount, period, per_seat)
VALUES ('ex_ai', 'budget', '{tenant}', 'allowance', 'token', 30000, '1 day', true);
INSERT INTO quota.tier_limits (tier, provider, name, multiplier) VALUES ('ex_team', 'ex_ai', 'budget', 2.5);
SELECT tenant, capacity FROM quota.tenants, LATERAL quota_explain(tenant, 'ex_ai', units => '{"token": 1}')
WHERE tenant LIKE 'budget%' ORDER BY tenant;
UPDATE quota.tenants SET seats = 5 WHERE tenant = 'budget_t';
SELECT capacity FROM quota_explain('budget_t', 'ex_ai', units => '{"token": 1}');
UPDATE quota.tenants SET tier = 'ex_team' WHERE tenant = 'budget_s';
SELECT capacity FROM quota_explain('budget_s', 'ex_ai', units => '{"token": 1}');

-- three limits at once: requests, input tokens and output tokens a minute
INSERT INTO quota.tenants (tenant, tier) VALUES ('llm_a', 'ex_team');
INSERT INTO quota.providers (provider, safety) VALUES ('ex_llm', 1);
INSERT INTO quota.limits (provider, name, unit, amount, period, burst) VALUES
	('ex_llm', 'requests', 'request', 60, '1 minute', 60),
	('ex_llm', 'input', 'input_token', 40000, '1 minute', 40000),
	('ex_llm', 'output', 'output_token', 8000, '1 minute', 8000);
-- the estimate is charged, the true value settled: the answer was shorter
SELECT admitted, permit AS p FROM quota_acquire('llm_a', 'ex_llm', units => '{"input_token": 12000, "output_token": 4096}') \gset
SELECT quota_settle(:p, units => '{"input_token": 11873, "output_token": 512}');
SELECT limit_name, level FROM quota_explain('llm_a', 'ex_llm', units => '{"input_token": 1, "output_token": 1}') ORDER BY limit_name;
-- output tokens say no: nothing is charged, in none of the three
SELECT admitted, reason, limit_name, not_before FROM quota_acquire('llm_a', 'ex_llm', units => '{"input_token": 9000, "output_token": 7900}');
SELECT limit_name, level FROM quota_explain('llm_a', 'ex_llm', units => '{"input_token": 1, "output_token": 1}') ORDER BY limit_name;
