-- Scenarios of rate limiters and ledgers, by the test clock: those of one session.
-- Others have files of their own: carried remainders (2, unit tests), shares (13, 14),
-- keys (17), races (18), calendars (19), crashes (20).
SET timezone = 'UTC';
SELECT quota_clock_set('2026-06-01 00:00:00+00');

INSERT INTO quota.tiers (tier) VALUES ('scenario');
INSERT INTO quota.tenants (tenant, tier) VALUES ('scenario_a', 'scenario'), ('scenario_b', 'scenario');

-- asks n times for calls of one tenant, and says each time: admitted or the reason,
-- what remains, and seconds from now until asking again can succeed
CREATE FUNCTION scenario_ask(tenant text, provider text, n int DEFAULT 1, times int DEFAULT 1,
	units jsonb DEFAULT NULL, "user" text DEFAULT NULL)
RETURNS TABLE (says text, remaining bigint, wait numeric)
LANGUAGE sql AS $$
	SELECT CASE WHEN (d).admitted THEN 'ok' ELSE (d).reason END, (d).remaining,
		extract(epoch FROM (d).not_before - quota_clock())
	FROM (SELECT quota_acquire(tenant, provider, n => n, units => units, "user" => "user") AS d
		FROM generate_series(1, times) OFFSET 0) s $$;

-- scenario 1, the GCRA table: capacity 5, one per second, starts full
INSERT INTO quota.providers (provider, safety) VALUES ('sc_gcra', 1);
INSERT INTO quota.limits (provider, name, amount, period, burst) VALUES ('sc_gcra', 'rate', 1, '1 s', 5);
SELECT * FROM scenario_ask('scenario_a', 'sc_gcra', 6);
SELECT * FROM scenario_ask('scenario_a', 'sc_gcra', times => 6);
SELECT quota_clock_advance('3 s');
SELECT * FROM scenario_ask('scenario_a', 'sc_gcra');
SELECT quota_clock_advance('100 ms');
SELECT * FROM scenario_ask('scenario_a', 'sc_gcra');
-- full 3.9 s later, and not before
SELECT extract(epoch FROM not_before - quota_clock()) AS full_in
FROM quota_peek('scenario_a', 'sc_gcra', n => 5);
SELECT quota_clock_advance('900 ms');
SELECT * FROM scenario_ask('scenario_a', 'sc_gcra');
SELECT quota_clock_advance('4 s');
SELECT * FROM scenario_ask('scenario_a', 'sc_gcra');
SELECT quota_clock_advance('1.5 s');
SELECT * FROM scenario_ask('scenario_a', 'sc_gcra');
SELECT extract(epoch FROM not_before - quota_clock()) AS full_in
FROM quota_peek('scenario_a', 'sc_gcra', n => 5);
SELECT remaining + 1 AS level FROM quota_peek('scenario_a', 'sc_gcra');
SELECT * FROM scenario_ask('scenario_a', 'sc_gcra', 2);
SELECT * FROM scenario_ask('scenario_a', 'sc_gcra', 5);

-- scenario 3, waiting times: 10 per 100 us, 4 left, 7 wanted; of two limits the longer one
INSERT INTO quota.providers (provider, safety) VALUES ('sc_waits', 1);
INSERT INTO quota.limits (provider, name, amount, period, burst) VALUES ('sc_waits', 'quick', 10, '100 us', 10);
SELECT * FROM scenario_ask('scenario_a', 'sc_waits', 6);
SELECT * FROM scenario_ask('scenario_a', 'sc_waits', 7);
INSERT INTO quota.limits (provider, name, amount, period, burst) VALUES ('sc_waits', 'slow', 2, '100 us', 10);
SELECT quota_clock_advance('1 s');
SELECT * FROM scenario_ask('scenario_a', 'sc_waits', 6);
SELECT limit_name, extract(epoch FROM not_before - quota_clock()) AS wait,
	jsonb_path_query_array(exhausted, '$[*].name') AS exhausted
FROM quota_peek('scenario_a', 'sc_waits', n => 7);

-- scenario 4, a part of a token counts: empty, 0.2 s later it takes 0.8 s more, to the microsecond
INSERT INTO quota.providers (provider, safety) VALUES ('sc_partial', 1);
INSERT INTO quota.limits (provider, name, amount, period, burst) VALUES ('sc_partial', 'rate', 1, '1 s', 1);
SELECT says FROM scenario_ask('scenario_a', 'sc_partial');
SELECT quota_clock_advance('200 ms');
SELECT * FROM scenario_ask('scenario_a', 'sc_partial');
SELECT quota_clock_advance('799999 us');
SELECT admitted FROM quota_peek('scenario_a', 'sc_partial');
SELECT quota_clock_advance('1 us');
SELECT says FROM scenario_ask('scenario_a', 'sc_partial');

-- scenario 5, the clock goes back; ten years idle at a billion per second
INSERT INTO quota.providers (provider, safety) VALUES ('sc_idle', 1);
INSERT INTO quota.limits (provider, name, amount, period, burst) VALUES ('sc_idle', 'rate', 1000000000, '1 s', 1000000000);
SELECT says, count(*) FROM scenario_ask('scenario_a', 'sc_idle', 1000000, 1001) GROUP BY says ORDER BY says;
SELECT quota_clock_set(quota_clock() - interval '1 us');
SELECT remaining FROM quota_peek('scenario_a', 'sc_idle');
SELECT quota_clock_advance('1 us');
SELECT remaining + 1 AS level FROM quota_peek('scenario_a', 'sc_idle');
SELECT quota_clock_advance('3652 days');
SELECT remaining + 1 AS level FROM quota_peek('scenario_a', 'sc_idle');

-- scenario 6, extremes: 1 per day with a burst of 200,000; 8,000/s; 1,000 per 60 s; 1 per 30 days
INSERT INTO quota.providers (provider, safety) SELECT 'x' || n, 1 FROM generate_series(1, 4) n;
INSERT INTO quota.limits (provider, name, amount, period, burst) VALUES
	('x1', 'rate', 1, '1 day', 200000), ('x2', 'rate', 8000, '1 s', 8000),
	('x3', 'rate', 1000, '60 s', 1000), ('x4', 'rate', 1, '30 days', 1);
SELECT provider, a.* FROM quota.providers, LATERAL scenario_ask('scenario_a', provider, 1, 3) a
WHERE provider ~ '^x\d$' ORDER BY provider, remaining DESC, says;
SELECT * FROM scenario_ask('scenario_a', 'x1', 199997) UNION ALL SELECT * FROM scenario_ask('scenario_a', 'x1');
SELECT * FROM scenario_ask('scenario_a', 'x2', 7997) UNION ALL SELECT * FROM scenario_ask('scenario_a', 'x2');
SELECT * FROM scenario_ask('scenario_a', 'x3', 997) UNION ALL SELECT * FROM scenario_ask('scenario_a', 'x3');

-- scenario 7, zero and negative
INSERT INTO quota.providers (provider, safety) VALUES ('sc_zero', 1);
INSERT INTO quota.limits (provider, name, unit, amount, period, burst) VALUES ('sc_zero', 'closed', 'request', 0, '1 s', NULL);
SELECT * FROM scenario_ask('scenario_a', 'sc_zero');
-- what refills in a year does not count here, but three are there
UPDATE quota.limits SET amount = 1, period = '1 year', burst = 3 WHERE provider = 'sc_zero' AND name = 'closed';
SELECT says FROM scenario_ask('scenario_a', 'sc_zero', times => 4);
SELECT admitted FROM quota_acquire('scenario_a', 'sc_zero', n => -1);
SELECT admitted FROM quota_acquire('scenario_a', 'sc_zero', units => '{"request": -1}');
-- a call that costs nothing is admitted, and changes nothing
SELECT admitted, permit IS NOT NULL AS permit FROM quota_acquire('scenario_a', 'sc_zero', units => '{"request": 0}');
SELECT level, used, admitted, refused FROM quota.stat_buckets WHERE provider = 'sc_zero';

-- scenario 8, a refusal leaves no mark: 2 left, 1,000 calls of cost 5
INSERT INTO quota.providers (provider, safety) VALUES ('sc_deny', 1);
INSERT INTO quota.limits (provider, name, amount, period, burst) VALUES ('sc_deny', 'rate', 1, '1 h', 7);
SELECT says, remaining FROM scenario_ask('scenario_a', 'sc_deny', 5);
SELECT pg_current_xact_id_if_assigned() IS NULL AS no_xid, says, count(*)
FROM scenario_ask('scenario_a', 'sc_deny', 5, 1000) GROUP BY says;
SELECT remaining + 1 AS level FROM quota_peek('scenario_a', 'sc_deny');
SELECT says, remaining FROM scenario_ask('scenario_a', 'sc_deny', 2);

-- scenario 9, all or nothing: a user has 5, the organisation 10
INSERT INTO quota.providers (provider, safety) VALUES ('sc_both', 1);
INSERT INTO quota.limits (provider, name, per, amount, period, burst) VALUES
	('sc_both', 'org', '{}', 10, '1 h', 10), ('sc_both', 'user', '{user}', 5, '1 h', 5);
SELECT says, count(*) FROM scenario_ask('scenario_a', 'sc_both', 1, 8, "user" => 'A') GROUP BY says ORDER BY says;
SELECT limit_name, level FROM quota_explain('scenario_a', 'sc_both', "user" => 'A') ORDER BY limit_name;
SELECT says, count(*) FROM scenario_ask('scenario_a', 'sc_both', 1, 8, "user" => 'B') GROUP BY says ORDER BY says;
SELECT limit_name, jsonb_path_query_array(exhausted, '$[*].name') AS exhausted
FROM quota_acquire('scenario_a', 'sc_both', "user" => 'A');

-- scenario 10, each unit has a cost of its own; the estimate is settled
INSERT INTO quota.providers (provider, safety) VALUES ('sc_units', 1);
INSERT INTO quota.limits (provider, name, unit, amount, period, burst) VALUES
	('sc_units', 'requests', 'request', 100, '1 h', 100), ('sc_units', 'tokens', 'token', 1000, '1 h', 1000);
SELECT admitted, permit AS p FROM quota_acquire('scenario_a', 'sc_units', units => '{"token": 900}') \gset
SELECT admitted, limit_name FROM quota_acquire('scenario_a', 'sc_units', units => '{"token": 200}');
SELECT limit_name, level FROM quota_explain('scenario_a', 'sc_units', units => '{"token": 1}') ORDER BY limit_name;
SELECT quota_settle(:p, units => '{"token": 400}');
SELECT limit_name, level FROM quota_explain('scenario_a', 'sc_units', units => '{"token": 1}') ORDER BY limit_name;

-- scenario 11, what was spent stays spent: 40 of 100 left; to 200, to 20, and back
INSERT INTO quota.providers (provider, safety) VALUES ('sc_change', 1);
INSERT INTO quota.limits (provider, name, amount, period, burst) VALUES ('sc_change', 'rate', 100, '1 day', 100);
SELECT says, remaining FROM scenario_ask('scenario_a', 'sc_change', 60, 1);
UPDATE quota.limits SET amount = 200, burst = 200 WHERE provider = 'sc_change' AND name = 'rate';
SELECT level FROM quota_explain('scenario_a', 'sc_change');
UPDATE quota.limits SET amount = 20, burst = 20 WHERE provider = 'sc_change' AND name = 'rate';
SELECT level FROM quota_explain('scenario_a', 'sc_change');
UPDATE quota.limits SET amount = 100, burst = 100 WHERE provider = 'sc_change' AND name = 'rate';
SELECT level FROM quota_explain('scenario_a', 'sc_change');
-- 100, 100, 10, 10, 200 and a call at each: the spent ones count, clamped to what fits
INSERT INTO quota.limits (provider, name, unit, amount, period, burst) VALUES ('sc_change', 'steps', 'step', 100, '1 day', 100);
PREPARE steps_left AS
SELECT level FROM quota_explain('scenario_a', 'sc_change', units => '{"step": 1, "request": 0}') WHERE limit_name = 'steps';
SELECT says FROM scenario_ask('scenario_a', 'sc_change', 1, 2, '{"step": 1, "request": 0}');
EXECUTE steps_left;
UPDATE quota.limits SET amount = 10, burst = 10 WHERE provider = 'sc_change' AND name = 'steps';
SELECT says FROM scenario_ask('scenario_a', 'sc_change', 1, 2, '{"step": 1, "request": 0}');
EXECUTE steps_left;
UPDATE quota.limits SET amount = 200, burst = 200 WHERE provider = 'sc_change' AND name = 'steps';
SELECT says FROM scenario_ask('scenario_a', 'sc_change', 1, 1, '{"step": 1, "request": 0}');
EXECUTE steps_left;

-- scenario 12, a refund names its call, and counts once; in another period it helps that one
INSERT INTO quota.providers (provider, safety) VALUES ('sc_refund', 1);
INSERT INTO quota.limits (provider, name, per, kind, unit, amount, period) VALUES
	('sc_refund', 'credits', '{tenant}', 'allowance', 'request', 2, '1 day');
UPDATE quota.limits SET permit_lifetime = '2 days' WHERE provider = 'sc_refund';
SELECT permit AS p FROM quota_acquire('scenario_a', 'sc_refund') \gset
SELECT quota_release(:p);
\set VERBOSITY sqlstate
SELECT quota_release(:p);
\set VERBOSITY default
SELECT used, held, remaining FROM quota_balance('scenario_a', 'sc_refund');
SELECT permit AS p FROM quota_acquire('scenario_a', 'sc_refund') \gset
SELECT quota_clock_advance('1 day');
SELECT quota_settle(:p, billed => false);
SELECT used, held, remaining FROM quota_balance('scenario_a', 'sc_refund');

-- scenario 15, two phases: hold 123, settle 100, again, give back, settle more
INSERT INTO quota.providers (provider, safety) VALUES ('sc_phases', 1);
INSERT INTO quota.limits (provider, name, per, kind, unit, amount, period) VALUES
	('sc_phases', 'credits', '{tenant}', 'allowance', 'credit', 1000, '1 month');
SELECT permit AS p FROM quota_acquire('scenario_a', 'sc_phases', units => '{"credit": 123}') \gset
SELECT used, held, remaining FROM quota_balance('scenario_a', 'sc_phases');
SELECT quota_settle(:p, units => '{"credit": 100}');
SELECT used, held, remaining FROM quota_balance('scenario_a', 'sc_phases');
\set VERBOSITY sqlstate
SELECT quota_settle(:p, units => '{"credit": 100}');
SELECT quota_release(:p);
\set VERBOSITY default
UPDATE quota.limits SET amount = 100 WHERE provider = 'sc_phases' AND name = 'credits';
SELECT permit AS p FROM quota_acquire('scenario_b', 'sc_phases', units => '{"credit": 70}') \gset
SELECT quota_settle(:p);
SELECT admitted, reason, exhausted->0->'remaining' AS available
FROM quota_acquire('scenario_b', 'sc_phases', units => '{"credit": 50}');

-- scenario 16, a hold of 60 s can be settled until it ends
SELECT permit AS p FROM quota_acquire('scenario_b', 'sc_phases', units => '{"credit": 20}') \gset
SELECT quota_clock_advance('59.999 s');
SELECT used, held, remaining FROM quota_balance('scenario_b', 'sc_phases');
SELECT quota_settle(:p, units => '{"credit": 5}');
SELECT used, held, remaining FROM quota_balance('scenario_b', 'sc_phases');
SELECT * FROM quota_audit();
