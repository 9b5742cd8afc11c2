-- Allowances that warn, once per period and fraction, and classes that do not wait for
-- the next period.
SET timezone = 'UTC';
SELECT quota_clock_set('2028-05-01 00:00:00+00');
INSERT INTO quota.tiers (tier) VALUES ('g4e');
INSERT INTO quota.tenants (tenant, tier) VALUES ('g4e_a', 'g4e'), ('g4e_b', 'g4e');
INSERT INTO quota.providers (provider) VALUES ('g4e');
INSERT INTO quota.limits (provider, name, per, unit, kind, amount, period, enforcement, warn_at) VALUES
	('g4e', 'hard', '{tenant}', 'h', 'allowance', 1000, '1 day', 'hard', '{0.5,0.8,1}'),
	('g4e', 'soft', '{tenant}', 's', 'allowance', 100, '1 day', 'soft', '{0.333,1.5}'),
	('g4e', 'shadow', '{tenant}', 's', 'allowance', 10, '1 day', 'shadow', '{0.5}');
CREATE PROCEDURE g4e_told(n int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. 600 LOOP
		EXIT WHEN (SELECT count(*) FROM quota.events WHERE provider = 'g4e') >= n;
		COMMIT;
		PERFORM pg_sleep(0.05);
	END LOOP;
END $$;
-- one short of half, half, one short of 0.8; what settling reaches is told by the next call
SELECT count(quota_settle(permit)) FROM quota_hold('g4e_a', 'g4e', 'h', 499);
SELECT count(quota_settle(permit)) FROM quota_hold('g4e_a', 'g4e', 'h', 1);
SELECT count(quota_settle(permit, units => '{"h": 350}')) FROM quota_hold('g4e_a', 'g4e', 'h', 299);
SELECT count(quota_settle(permit, billed => false)) FROM quota_hold('g4e_a', 'g4e', 'h', 10);
-- back, and there again: told already
SELECT quota_adjust('g4e_a', 'g4e', 'hard', -500);
SELECT count(quota_settle(permit)) FROM quota_hold('g4e_a', 'g4e', 'h', 500);
-- another tenant reaches several at once; a soft one goes on
SELECT count(quota_settle(permit)) FROM quota_hold('g4e_b', 'g4e', 'h', 1000);
SELECT reason FROM quota_hold('g4e_b', 'g4e', 's', 33);
SELECT reason FROM quota_hold('g4e_b', 'g4e', 's', 1);
SELECT reason, limit_name FROM quota_hold('g4e_b', 'g4e', 's', 200);
CALL g4e_told(8);
SELECT kind, tenant, detail FROM quota.events WHERE provider = 'g4e' ORDER BY id;
-- the next period
SELECT quota_clock_advance('1 day');
SELECT count(quota_settle(permit)) FROM quota_hold('g4e_a', 'g4e', 'h', 500);
CALL g4e_told(12);
SELECT kind, tenant, detail FROM quota.events WHERE provider = 'g4e' AND kind = 'budget_reached' ORDER BY id OFFSET 7;
\set VERBOSITY terse
UPDATE quota.limits SET warn_at = '{0}' WHERE provider = 'g4e';
UPDATE quota.limits SET warn_at = '{0.5,NULL}' WHERE provider = 'g4e';
UPDATE quota.limits SET warn_at = '{1,2,3,4,5,6,7,8,9}' WHERE provider = 'g4e';
INSERT INTO quota.limits (provider, name, amount, period, warn_at) VALUES ('g4e', 'x', 1, '1 s', '{0.5}');
UPDATE quota.classes SET on_exhausted = 'nonsense';
\set VERBOSITY default

-- jobs of a class that fails: those that have credits run, the others fail with the reason;
-- those of other classes, and what is only held by others, wait
DELETE FROM quota.limits WHERE provider = 'g4e' AND name IN ('soft', 'shadow');
INSERT INTO quota.classes (class, rank, on_exhausted) VALUES ('g4e_fail', 2, 'fail');
INSERT INTO quota.costs (provider, endpoint, unit, cost) VALUES ('g4e', '/dear', 'h', 300);
SELECT quota_clock_advance('1 day');
INSERT INTO quota.jobs (tenant, provider, endpoint, class, payload) SELECT 'g4e_a', 'g4e', '/dear', c, to_jsonb(n)
	FROM generate_series(1, 4) n, unnest('{g4e_fail,batch}'::text[]) c ORDER BY c DESC, n;
CREATE VIEW g4e AS SELECT class, payload, state, error FROM quota.jobs WHERE provider = 'g4e' ORDER BY class COLLATE "C", payload;
SELECT class, payload FROM quota_dequeue('g4e', 3) ORDER BY 1, 2;
-- 900 are held: it may come back
SELECT class, payload FROM quota_dequeue('g4e', 3);
SELECT * FROM g4e;
SELECT quota_complete(id, attempt, units => '{"h": 300}') FROM quota.jobs WHERE provider = 'g4e' AND state = 'running';
-- 900 are spent, which is known when the first of the holds would have ended
SELECT quota_clock_advance('61 s');
SELECT class, payload FROM quota_dequeue('g4e', 3);
SELECT * FROM g4e;
-- waiting is told that there is something to do, once
INSERT INTO quota.jobs (tenant, provider, endpoint, class, payload) VALUES ('g4e_a', 'g4e', '/dear', 'g4e_fail', '5');
CALL quota_wait('g4e', '10 s');
SELECT class, payload FROM quota_dequeue('g4e');
SELECT * FROM g4e WHERE payload = '5';
-- units of its own; a job that fits runs
INSERT INTO quota.jobs (tenant, provider, class, payload, units) VALUES
	('g4e_a', 'g4e', 'g4e_fail', '6', '{"h": 101}'), ('g4e_a', 'g4e', 'g4e_fail', '7', '{"h": 100}');
SELECT class, payload FROM quota_dequeue('g4e', 5);
SELECT * FROM g4e WHERE payload IN ('6', '7');
-- calls are told at once
CALL quota_acquire_wait('g4e_a', 'g4e', '/dear', class => 'g4e_fail', timeout => '300 days');
-- the next period
SELECT quota_clock_advance('1 day');
SELECT class, payload FROM quota_dequeue('g4e', 9) ORDER BY 1, 2;
SELECT * FROM quota_audit();
SELECT count(quota_complete(id, attempt)) FROM quota.jobs WHERE provider = 'g4e' AND state = 'running';
SELECT count(quota_cancel(id)) FROM quota.jobs WHERE provider = 'g4e' AND state = 'queued';
DROP VIEW g4e;
DROP PROCEDURE g4e_told;
DELETE FROM quota.classes WHERE class = 'g4e_fail';
