-- G16: what is in shared memory can be seen: by whom, why, until when.

SET timezone = 'UTC';
SELECT quota_clock_set('2026-01-10 00:00:00+00');
INSERT INTO quota.tiers (tier, weight) VALUES ('g16', 2.5);
INSERT INTO quota.tenants (tenant, tier) VALUES ('g16_a', 'g16'), ('g16_b', 'g16');
INSERT INTO quota.providers (provider, safety) VALUES ('g16', 1);
INSERT INTO quota.limits (provider, name, amount, period, burst)
	VALUES ('g16', 'rate', 1, '1 s', 10);
INSERT INTO quota.limits (provider, name, per, kind, amount)
	VALUES ('g16', 'slots', '{tenant}', 'concurrency', 2);
INSERT INTO quota.limits (provider, name, per, kind, amount, period)
	VALUES ('g16', 'credits', '{tenant}', 'allowance', 100, '1 month');

-- a provider nobody has called has no buckets
SELECT count(*) FROM quota.stat_buckets WHERE provider = 'g16';

SELECT reason FROM quota_acquire('g16_a', 'g16');
SELECT reason FROM quota_acquire('g16_a', 'g16');
SELECT reason FROM quota_acquire('g16_a', 'g16');
SELECT reason FROM quota_acquire('g16_b', 'g16', n => 1, units => '{"request": 11}');

SELECT limit_name, bucket, tenant, kind, capacity, used, level, held, busy
FROM quota.stat_buckets WHERE provider = 'g16' ORDER BY limit_name, bucket;
SELECT limit_name, period_start, period_end, admitted, refused, unknown_until
FROM quota.stat_buckets WHERE provider = 'g16' ORDER BY limit_name, bucket;
SELECT tenant, weight, admitted, refused, refused_by_reason, completed
FROM quota.stat_tenants WHERE provider = 'g16' ORDER BY tenant;
SELECT provider, tenant, job, calls, state, has_hold, expires_at
FROM quota.stat_permits WHERE provider = 'g16';

-- time is now, even if nobody has decided anything since
SELECT quota_clock_advance('2 s');
SELECT level FROM quota.stat_buckets WHERE provider = 'g16' AND limit_name = 'rate';
SELECT quota_clock_advance('58 s');
SELECT used, busy FROM quota.stat_buckets
WHERE provider = 'g16' AND limit_name = 'slots' AND tenant = 'g16_a';
SELECT count(*) FROM quota.stat_permits WHERE provider = 'g16';

-- the open transaction of this session is seen as well
BEGIN;
SELECT reason FROM quota_acquire('g16_a', 'g16');
SELECT state FROM quota.stat_permits WHERE provider = 'g16';
SELECT used, busy FROM quota.stat_buckets
WHERE provider = 'g16' AND limit_name = 'slots' AND tenant = 'g16_a';
ROLLBACK;
SELECT count(*) FROM quota.stat_permits WHERE provider = 'g16';

-- a new period has seen no call
SELECT quota_clock_advance('30 days');
SELECT capacity, used, level, period_start FROM quota.stat_buckets
WHERE provider = 'g16' AND limit_name = 'credits' AND tenant = 'g16_a';

-- jobs
INSERT INTO quota.jobs (tenant, provider, endpoint) VALUES ('g16_a', 'g16', 'x'), ('g16_a', 'g16', 'x');
SELECT tenant, class, endpoint, state, reason, wake_at, depth, in_flight
FROM quota.stat_flows WHERE provider = 'g16';
SELECT attempt, tenant, endpoint FROM quota_dequeue('g16');
SELECT tenant, class, endpoint, state, reason, wake_at, depth, in_flight
FROM quota.stat_flows WHERE provider = 'g16';
SELECT job IS NOT NULL AS of_job, state, expires_at FROM quota.stat_permits WHERE provider = 'g16';
SELECT quota_complete(id, 1) FROM quota.jobs WHERE provider = 'g16' AND state = 'running';
SELECT tenant, completed FROM quota.stat_tenants WHERE provider = 'g16' ORDER BY tenant;

-- what was done to a tenant is kept by the transaction that did it
INSERT INTO quota.tiers (tier, weight) VALUES ('g16_up', 5);
UPDATE quota.tenants SET tier = 'g16_up' WHERE tenant = 'g16_a';
UPDATE quota.tenants SET tier = 'g16_up' WHERE tenant = 'g16_a';
BEGIN;
UPDATE quota.tenants SET suspended = true WHERE tenant = 'g16_a';
ROLLBACK;
UPDATE quota.tenants SET suspended = true WHERE tenant = 'g16_b';
UPDATE quota.tenants SET suspended = false WHERE tenant = 'g16_b';
SELECT kind, tenant, detail FROM quota.events WHERE tenant LIKE 'g16%' AND provider IS NULL ORDER BY id;

-- who may look
CREATE ROLE regress_quota_nobody;
CREATE ROLE regress_quota_monitor IN ROLE pg_monitor;
SET ROLE regress_quota_nobody;
SELECT count(*) >= 0 FROM quota.stat_buckets;
RESET ROLE;
SET ROLE regress_quota_monitor;
SELECT count(*) > 0 AS seen FROM quota.stat_buckets;
SELECT count(*) > 0 AS seen FROM quota.stat_tenants;
SELECT count(*) > 0 AS seen FROM quota.stat_flows;
SELECT count(*) >= 0 AS seen FROM quota.stat_permits;
SELECT count(*) >= 0 AS seen FROM quota.events;
RESET ROLE;
DROP ROLE regress_quota_nobody, regress_quota_monitor;
SELECT quota_clock_set(NULL);

-- who may not see them may not call what they are made of either
SELECT p.oid::regprocedure AS executable_by_all
FROM pg_proc AS p
WHERE p.pronamespace = 'quota'::regnamespace AND has_function_privilege('public', p.oid, 'EXECUTE')
ORDER BY p.proname;
SELECT c.relname AS view, has_table_privilege('pg_monitor', c.oid, 'SELECT') AS to_monitor, has_table_privilege('public', c.oid, 'SELECT') AS to_all
FROM pg_class AS c
WHERE c.relnamespace = 'quota'::regnamespace AND c.relname LIKE 'stat\_%'
ORDER BY 1;
