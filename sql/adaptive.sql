-- Adaptive limits: how much of an amount is used follows what the provider says.
SET timezone = 'UTC';
SET statement_timeout = '60 s';
SELECT quota_clock_set('2026-05-03 00:00:00+00');

INSERT INTO quota.tiers (tier) VALUES ('adp');
INSERT INTO quota.tenants (tenant, tier) VALUES ('adp_a', 'adp'), ('adp_b', 'adp');
INSERT INTO quota.providers (provider, safety, share_reserve, cooldown) VALUES ('adp', 1, 0, '1 us');
INSERT INTO quota.limits (provider, name, amount, period, burst, adaptive) VALUES
	('adp', 'rate', 20, '1 s', 20, true);

CREATE VIEW adp_state AS
	SELECT limit_name, bucket, used_part, has_worked, has_not, changed_at
	FROM quota.stat_adaptive WHERE provider = 'adp' ORDER BY 1, 2;
CREATE FUNCTION adp_ask(n int = 1, tenant text = 'adp_a', OUT granted int, OUT reason text, OUT not_before timestamptz, OUT remaining bigint)
LANGUAGE sql AS $$
	SELECT granted, reason, not_before, remaining FROM quota_acquire(adp_ask.tenant, 'adp', n => adp_ask.n) $$;
CREATE FUNCTION adp_limited(latency interval = '0', tenant text = 'adp_a') RETURNS text LANGUAGE sql AS $$
	SELECT quota_report('adp', 429, adp_limited.tenant, latency => adp_limited.latency) $$;

-- it begins with half of rate and burst, and rises when more is wanted
SELECT * FROM adp_ask(10);
SELECT * FROM adp_ask(1);
SELECT capacity, used FROM quota.stat_buckets WHERE provider = 'adp';
SELECT quota_clock_advance('1 s');
SELECT * FROM adp_ask(11);
SELECT * FROM adp_ask(1);
SELECT * FROM adp_state;
SELECT quota_clock_advance('1 s');
SELECT * FROM adp_ask(12);
-- nothing was wanted
SELECT quota_clock_advance('1 s');
SELECT * FROM adp_ask(12);
SELECT * FROM adp_state;
-- more than is used, but not than there is: nobody knows when
SELECT * FROM adp_ask(20);
SELECT * FROM adp_ask(21);
-- the provider limits: back to what had worked, and from nothing; once for all
-- answers to calls from before, whatever becomes of the transaction
BEGIN;
SELECT adp_limited();
ROLLBACK;
SELECT * FROM adp_state;
SELECT granted, reason, not_before FROM adp_ask();
SELECT quota_clock_advance('90 ms');
SELECT adp_limited('100 ms'), adp_limited('80 ms');
SELECT * FROM adp_state;
-- and again: by a part
SELECT quota_clock_advance('1 s');
SELECT adp_limited('500 ms');
SELECT adp_limited('0');
SELECT * FROM adp_state;
SELECT quota_clock_advance('200 ms');
SELECT adp_limited('0');
SELECT * FROM adp_state;
-- what it says of the call alone, or of a narrower limit, is left out
INSERT INTO quota.limits (provider, name, per, amount, period, adaptive, adaptive_floor) VALUES
	('adp', 'each', '{tenant}', 1000, '1 s', true, 0.2);
SELECT quota_clock_advance('1 s');
SELECT reason FROM adp_ask();
SELECT reason FROM adp_ask(tenant => 'adp_b');
SELECT adp_limited('0', 'adp_b');
SELECT * FROM adp_state;
-- where a row says whom it means, neither a wider limit nor a narrower one
INSERT INTO quota.answers (provider, status, value, means, scope) VALUES
	('adp', 429, 'tenant', 'rate_limited', 'tenant'), ('adp', 429, 'all', 'rate_limited', 'provider');
UPDATE quota.limits SET adaptive = name = 'rate' WHERE provider = 'adp';
SELECT quota_clock_advance('1 s');
SELECT reason FROM adp_ask();
SELECT quota_report('adp', 429, 'adp_a', latency => '0', reason => 'tenant');
SELECT * FROM adp_state;
UPDATE quota.limits SET adaptive = true WHERE provider = 'adp';
SELECT quota_clock_advance('1 s');
SELECT reason FROM adp_ask();
SELECT reason FROM adp_ask(tenant => 'adp_b');
SELECT quota_report('adp', 429, 'adp_a', latency => '0', reason => 'tenant');
SELECT * FROM adp_state;
SELECT quota_clock_advance('1 s');
SELECT quota_report('adp', 429, 'adp_a', latency => '0', reason => 'all');
SELECT * FROM adp_state;
-- never below the floor
DO $$ BEGIN FOR i IN 1 .. 20 LOOP
	PERFORM quota_clock_advance('200 ms');
	PERFORM adp_limited('0', 'adp_b');
END LOOP; END $$;
SELECT used_part FROM adp_state WHERE bucket = 'adp_b';
-- not adaptive any more: all of it
UPDATE quota.limits SET adaptive = false WHERE provider = 'adp';
SELECT quota_clock_advance('1 s');
SELECT * FROM adp_ask(20);
SELECT * FROM adp_state;
CREATE PROCEDURE adp_events() LANGUAGE plpgsql AS $$
DECLARE
	e record;
BEGIN
	WHILE (SELECT count(*) FROM quota.events WHERE provider = 'adp' AND kind = 'adapted') < 10 LOOP
		PERFORM pg_sleep(0.05);
		COMMIT;
	END LOOP;
	FOR e IN SELECT * FROM quota.events WHERE provider = 'adp' AND kind = 'adapted' ORDER BY id LOOP
		RAISE NOTICE '% % %: %', e.at, e.tenant, e.kind, e.detail;
	END LOOP;
END $$;
CALL adp_events();

-- calls in flight follow overload and latency
INSERT INTO quota.providers (provider, safety, share_reserve, cooldown) VALUES ('adp_f', 1, 0, '1 us');
INSERT INTO quota.limits (provider, name, kind, amount, adaptive) VALUES ('adp_f', 'flight', 'concurrency', 40, true);
CREATE FUNCTION adp_fly(n int, OUT granted int, OUT reason text, OUT remaining bigint) LANGUAGE sql AS $$
	SELECT granted, reason, remaining FROM quota_acquire('adp_a', 'adp_f', n => adp_fly.n, partial => true) $$;
CREATE FUNCTION adp_well(latency interval) RETURNS bigint LANGUAGE sql AS $$
	SELECT count(quota_report('adp_f', 200, 'adp_a', latency => adp_well.latency)) FROM generate_series(1, 20) $$;
CREATE VIEW adp_flight AS
	SELECT used_part, has_worked, has_not FROM quota.stat_adaptive WHERE provider = 'adp_f';
SELECT * FROM adp_fly(100);
SELECT * FROM adp_fly(1);
SELECT adp_well('100 ms');
SELECT quota_clock_advance('1 s');
SELECT * FROM adp_fly(100);
SELECT * FROM adp_flight;
SELECT adp_well('400 ms');
SELECT quota_clock_advance('1 s');
SELECT * FROM adp_fly(1);
SELECT * FROM adp_flight;
SELECT quota_clock_advance('1 s');
SELECT quota_report('adp_f', 503, 'adp_a', latency => '10 ms');
SELECT * FROM adp_flight;

-- nonsense
\set VERBOSITY terse
UPDATE quota.limits SET adaptive_floor = 0 WHERE provider = 'adp';
UPDATE quota.limits SET adaptive_step = 1.5 WHERE provider = 'adp';
INSERT INTO quota.limits (provider, name, kind, amount, period, adaptive) VALUES ('adp', 'credits', 'allowance', 1, '1 month', true);
\set VERBOSITY default
SELECT quota_clock_set(NULL);
