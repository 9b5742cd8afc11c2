-- quota_wait(): arguments, and where it may be called. 036_wait.pl has waiters.
SET timezone = 'UTC';
SET statement_timeout = '30 s';
SELECT quota_clock_set('2026-04-01 00:00:00+00');

INSERT INTO quota.tiers (tier) VALUES ('wait');
INSERT INTO quota.tenants (tenant, tier) VALUES ('wait_a', 'wait'), ('wait_b', 'wait');
INSERT INTO quota.providers (provider, safety) SELECT 'wait_' || n, 1 FROM generate_series(1, 17) n;

-- at once, because something may be claimed
INSERT INTO quota.jobs (tenant, provider) VALUES ('wait_a', 'wait_1');
CALL quota_wait('wait_1');
CALL quota_wait(ARRAY['wait_2', 'wait_1', 'wait_2'], '1 day');
SELECT count(quota_complete(id, attempt)::text) FROM quota_dequeue('wait_1');
-- because the time is over
CALL quota_wait('wait_1', '1 ms');
CALL quota_wait(ARRAY['wait_2', 'wait_1', 'wait_2'], '1 ms');
-- from a procedure that is no function
DO $$ BEGIN CALL quota_wait('wait_1', '1 ms'); END $$;

-- a transaction must not wait
BEGIN;
CALL quota_wait('wait_1', '1 ms');
ROLLBACK;
CREATE FUNCTION waits() RETURNS void LANGUAGE plpgsql AS $$ BEGIN CALL quota_wait('wait_1', '1 ms'); END $$;
SELECT waits();
DROP FUNCTION waits;
DO $$ BEGIN CALL quota_wait('wait_1', '1 ms'); EXCEPTION WHEN division_by_zero THEN END $$;

-- arguments
CALL quota_wait(NULL::text);
CALL quota_wait('wait_1', NULL);
CALL quota_wait('wait_1', '0 s');
CALL quota_wait('wait_1', '-1 s');
CALL quota_wait('wait_1', '1 month');
CALL quota_wait('wait_none');
CALL quota_wait(repeat('x', 200));
CALL quota_wait(NULL::text[]);
CALL quota_wait('{}'::text[]);
CALL quota_wait('{wait_1,NULL}'::text[]);
CALL quota_wait('{wait_1,wait_none}'::text[]);
SELECT array_agg(provider) AS many FROM quota.providers WHERE provider LIKE 'wait\_%' \gset
CALL quota_wait(:'many'::text[]);
\set VERBOSITY sqlstate
CALL quota_wait(:'many'::text[]);
CALL quota_wait('{}'::text[]);
BEGIN;
CALL quota_wait('wait_1', '1 ms');
ROLLBACK;
\set VERBOSITY default

-- what waits for others, is locked or is not there yet is nothing to claim
INSERT INTO quota.jobs (tenant, provider, run_at) VALUES ('wait_a', 'wait_1', '2026-04-01 00:01+00');
UPDATE quota.tenants SET suspended = true WHERE tenant = 'wait_b';
INSERT INTO quota.jobs (tenant, provider) VALUES ('wait_b', 'wait_1');
CALL quota_wait('wait_1', '1 ms');
SELECT count(*) FROM quota_dequeue('wait_1');

CREATE ROLE wait_user;
SET ROLE wait_user;
CALL quota_wait('wait_1', '1 ms');
RESET ROLE;
GRANT EXECUTE ON PROCEDURE quota_wait(text, interval) TO wait_user;
SET ROLE wait_user;
CALL quota_wait('wait_1', '1 ms');
RESET ROLE;
REVOKE EXECUTE ON PROCEDURE quota_wait(text, interval) FROM wait_user;
DROP ROLE wait_user;

SELECT count(quota_cancel(id)) FROM quota.jobs WHERE provider = 'wait_1' AND state IN ('queued', 'scheduled');
DELETE FROM quota.jobs WHERE provider = 'wait_1';
DELETE FROM quota.tenants WHERE tier = 'wait';
DELETE FROM quota.providers WHERE provider LIKE 'wait%';
DELETE FROM quota.tiers WHERE tier = 'wait';
