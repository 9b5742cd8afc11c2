-- Retry budgets: a share of the first attempts of the last ten seconds, and a floor,
-- of the provider and of each tenant.
SET timezone = 'UTC';
SELECT quota_clock_set('2026-05-01 00:00:00+00');

INSERT INTO quota.tiers (tier) VALUES ('retry');
INSERT INTO quota.tenants (tenant, tier) VALUES ('retry_a', 'retry'), ('retry_b', 'retry');
INSERT INTO quota.providers (provider, safety, retry_share, retry_floor) VALUES ('retry', 1, 0.2, 2);
INSERT INTO quota.limits (provider, name, amount, period, external)
	VALUES ('retry', 'rate', 1000, '1 s', false);

CREATE FUNCTION retry_again(tenant text, n int = 1, partial boolean = false,
	OUT granted int, OUT reason text, OUT limit_name text, OUT not_before timestamptz, OUT remaining bigint)
LANGUAGE sql AS $$
	SELECT granted, reason, limit_name, not_before, remaining
	FROM quota_acquire(retry_again.tenant, 'retry', n => retry_again.n, attempt => 2, partial => retry_again.partial) $$;
CREATE FUNCTION retry_firsts(tenant text, n int) RETURNS int LANGUAGE sql AS $$
	SELECT granted FROM quota_acquire(retry_firsts.tenant, 'retry', n => retry_firsts.n) $$;
CREATE VIEW retry_budgets AS
	SELECT tenant, first_attempts, retries, share, left_over, refused
	FROM quota.stat_retries WHERE provider = 'retry' ORDER BY tenant NULLS FIRST;
CREATE VIEW retry_rate AS
	SELECT used FROM quota.stat_buckets WHERE provider = 'retry' AND limit_name = 'rate';

-- without first attempts the floor is what there is; the refusal knows the instant
SELECT * FROM retry_again('retry_a');
SELECT quota_clock_advance('300 ms');
SELECT * FROM retry_again('retry_a');
SELECT * FROM retry_again('retry_a');
SELECT reason, limit_name, not_before, exhausted FROM quota_acquire('retry_a', 'retry', attempt => 7);
SELECT * FROM retry_budgets;
-- refused, it has taken nothing of other limits; admitted, it spends as any call
SELECT * FROM retry_rate;
-- first attempts go on, and bring their share
SELECT retry_firsts('retry_a', 9);
SELECT * FROM retry_again('retry_a');
SELECT retry_firsts('retry_a', 1);
SELECT * FROM retry_again('retry_a');
SELECT * FROM retry_again('retry_a');
SELECT * FROM retry_again('retry_a', 5, true);
-- the tenant's own budget: another one's retries spend the provider's
SELECT retry_firsts('retry_b', 100);
SELECT * FROM retry_again('retry_a');
SELECT * FROM retry_again('retry_b', 20);
SELECT * FROM retry_budgets;

-- what is rolled back was never made: neither retries nor first attempts
BEGIN;
SELECT granted FROM retry_again('retry_b', 2);
SELECT retry_firsts('retry_b', 50);
SAVEPOINT s;
SELECT retry_firsts('retry_b', 50);
SELECT * FROM retry_budgets;
ROLLBACK TO s;
SELECT * FROM retry_budgets;
ROLLBACK;
SELECT * FROM retry_budgets;

-- what was said of the instant is so
SELECT quota_clock_set('2026-05-01 00:00:09.999999+00');
SELECT * FROM retry_again('retry_a');
SELECT quota_clock_set('2026-05-01 00:00:10+00');
SELECT * FROM retry_again('retry_a');
SELECT * FROM retry_budgets;
SELECT quota_clock_advance('1 min');
SELECT * FROM retry_budgets;

-- more than the floor, only first attempts can bring
SELECT * FROM retry_again('retry_a', 3);
SELECT * FROM quota_peek('retry_a', 'retry', n => 3, attempt => 2);
SELECT retry_firsts('retry_a', 5);
SELECT reason FROM quota_peek('retry_a', 'retry', n => 3, attempt => 2);
SELECT limit_name, kind, unit, bucket, needed, level, capacity, admits, reason, explanation
FROM quota_explain('retry_a', 'retry', attempt => 2) ORDER BY limit_name;
SELECT limit_name, admits, explanation FROM quota_explain('retry_a', 'retry') ORDER BY limit_name;

-- a permit that is released gives its retry back
SELECT quota_clock_advance('1 min');
SELECT permit AS p FROM quota_acquire('retry_a', 'retry', n => 2, attempt => 2, units => '{}') \gset
SELECT reason FROM retry_again('retry_a');
SELECT quota_release(:p, 1);
SELECT reason FROM retry_again('retry_a');
SELECT reason FROM retry_again('retry_a');

-- a key asks for the same call, whichever attempt it is
SELECT quota_clock_advance('1 min');
SELECT reason FROM quota_acquire('retry_a', 'retry', key => 'k');
SELECT reason FROM quota_acquire('retry_a', 'retry', key => 'k', attempt => 2);
SELECT tenant, first_attempts, retries FROM retry_budgets;

-- configuration acts at once, and keeps what was counted
SELECT retry_firsts('retry_a', 9);
UPDATE quota.providers SET retry_share = 1 WHERE provider = 'retry';
SELECT granted, remaining FROM retry_again('retry_a', 1);
UPDATE quota.providers SET retry_share = 0, retry_floor = 1 WHERE provider = 'retry';
SELECT reason, not_before FROM retry_again('retry_a', 1);
SELECT reason, not_before FROM retry_again('retry_a', 2);
UPDATE quota.providers SET retry_share = NULL WHERE provider = 'retry';
SELECT granted FROM retry_again('retry_a', 100);
\set VERBOSITY terse
UPDATE quota.providers SET retry_share = 1.001 WHERE provider = 'retry';
UPDATE quota.providers SET retry_share = 0.0001 WHERE provider = 'retry';
UPDATE quota.providers SET retry_floor = 0 WHERE provider = 'retry';
INSERT INTO quota.limits (provider, name, amount, period) VALUES ('retry', 'retry_budget', 1, '1 s');
\set VERBOSITY default
SELECT * FROM quota_acquire('retry_a', 'retry', attempt => 0);
SELECT * FROM quota_acquire('retry_a', 'retry', attempt => NULL);

-- jobs: retries wait, first attempts of the same flow go on
SELECT quota_clock_advance('1 min');
INSERT INTO quota.providers (provider, safety, retry_share, retry_floor, retry_base, retry_max)
	VALUES ('retry_jobs', 1, 0.5, 1, '1 ms', '1 ms');
CREATE VIEW retry_claim AS
	SELECT CASE WHEN attempt > 1 THEN 'r' ELSE payload #>> '{}' END AS job, attempt
	FROM quota_dequeue('retry_jobs');
CREATE FUNCTION retry_fail(label text) RETURNS void LANGUAGE sql AS $$
	SELECT quota_fail(id, attempt, 'no') FROM quota.jobs
	WHERE provider = 'retry_jobs' AND payload = to_jsonb(label) AND state = 'running' $$;
CREATE VIEW retry_flow AS
	SELECT state, reason, wake_at, depth FROM quota.stat_flows WHERE provider = 'retry_jobs';
INSERT INTO quota.jobs (tenant, provider, payload)
	SELECT 'retry_a', 'retry_jobs', to_jsonb('j' || n) FROM generate_series(1, 3) n;
SELECT job FROM retry_claim;
SELECT job FROM retry_claim;
SELECT job FROM retry_claim;
SELECT quota_clock_advance('30 s');
SELECT retry_fail('j1'), retry_fail('j2'), retry_fail('j3');
SELECT quota_clock_advance('2 ms');
INSERT INTO quota.jobs (tenant, provider, payload)
	SELECT 'retry_a', 'retry_jobs', to_jsonb('k' || n) FROM generate_series(1, 3) n;
-- the floor lets one retry through; its flow goes on with what is new, of which two
-- bring another retry, which is looked for within a second
SELECT * FROM retry_claim;
SELECT * FROM retry_claim;
SELECT * FROM retry_claim;
SELECT * FROM retry_flow;
SELECT * FROM retry_claim;
SELECT * FROM retry_claim;
SELECT * FROM retry_flow;
SELECT quota_clock_advance('999.999 ms');
SELECT * FROM retry_claim;
SELECT quota_clock_advance('1 us');
SELECT * FROM retry_claim;
SELECT * FROM retry_flow;
SELECT tenant, first_attempts, retries, left_over FROM quota.stat_retries
WHERE provider = 'retry_jobs' ORDER BY tenant NULLS FIRST;
-- the last one waits until the seconds of the others are over
SELECT quota_next_at('retry_jobs');
SELECT quota_clock_advance('8 s');
SELECT * FROM retry_claim;
SELECT quota_clock_advance('1 s');
SELECT * FROM retry_claim;
SELECT * FROM retry_flow;
-- a claim that rolls back has made no retry
SELECT quota_clock_advance('1 min');
BEGIN;
SELECT job FROM retry_claim;
ROLLBACK;
SELECT retries FROM quota.stat_retries WHERE provider = 'retry_jobs';
SELECT job FROM retry_claim;
SELECT retries FROM quota.stat_retries WHERE provider = 'retry_jobs';

SELECT refused_by_reason FROM quota.stat_tenants WHERE tenant LIKE 'retry\_%' ORDER BY provider, tenant;
SELECT quota_clock_set(NULL);
