-- A gateway leases a batch of calls and gives back what it did not make.
SET timezone = 'UTC';
SELECT quota_clock_set('2026-03-01 00:00:00+00');

INSERT INTO quota.tiers (tier) VALUES ('lease');
INSERT INTO quota.tenants (tenant, tier) VALUES ('lease_a', 'lease'), ('lease_b', 'lease');
INSERT INTO quota.providers (provider, safety) VALUES ('lease', 1), ('lease_rate', 1), ('lease_part', 1);
INSERT INTO quota.limits (provider, name, per, kind, unit, amount, period, burst) VALUES
	('lease', 'rate', '{}', 'token_bucket', 'request', 3600, '1 hour', 100),
	('lease', 'tokens', '{}', 'token_bucket', 'token', 36000, '1 hour', 1000),
	('lease', 'flight', '{}', 'concurrency', 'request', 50, NULL, NULL),
	('lease', 'credits', '{tenant}', 'allowance', 'credit', 1000, '1 month', NULL),
	('lease_rate', 'rate', '{}', 'token_bucket', 'request', 60, '1 minute', 100);
UPDATE quota.limits SET settle_late = 'charge_now' WHERE provider = 'lease' AND name = 'credits';
INSERT INTO quota.costs (provider, unit, cost) VALUES ('lease', 'token', 10), ('lease', 'credit', 7);
CREATE VIEW lease_level AS
SELECT limit_name, capacity - level AS taken FROM quota_explain('lease_a', 'lease');
CREATE VIEW lease_entries AS
SELECT kind, amount, charged_at FROM quota.ledger WHERE provider = 'lease' ORDER BY id;

-- a lease on a plain rate: units '{}' asks for a permit
SELECT permit IS NULL AS none FROM quota_acquire('lease_a', 'lease_rate', n => 5) \gset
SELECT permit AS p, granted, remaining FROM quota_acquire('lease_a', 'lease_rate', n => 60, units => '{}') \gset
SELECT :'none' AS none, :granted AS granted, :remaining AS remaining;
-- less what has refilled: the last to be given back lack these 10 s
SELECT quota_clock_advance('10 s');
SELECT quota_release(:p, 30);
SELECT remaining + 1 AS free FROM quota_peek('lease_a', 'lease_rate');
SELECT quota_release(:p, 30);
SELECT remaining + 1 AS free FROM quota_peek('lease_a', 'lease_rate');
-- nothing is left of it
\set VERBOSITY sqlstate
SELECT quota_release(:p, 1);
SELECT quota_settle(:p);
\set VERBOSITY default

-- everything that a call takes: rates, calls in flight, credits
SELECT permit AS p FROM quota_acquire('lease_a', 'lease', n => 40) \gset
SELECT * FROM lease_level;
-- when the transaction commits
BEGIN;
SELECT quota_release(:p, 10);
SELECT quota_release(:p, 5);
SELECT * FROM lease_level;
SELECT calls FROM quota.holds WHERE provider = 'lease';
COMMIT;
SELECT * FROM lease_level;
SELECT used, held, remaining FROM quota_balance('lease_a', 'lease');
SELECT calls FROM quota.holds WHERE provider = 'lease';
SELECT * FROM quota_audit();
-- a rollback undoes it, a savepoint too
BEGIN;
SELECT quota_release(:p, 3);
SAVEPOINT s;
SELECT quota_release(:p, 20);
ROLLBACK TO s;
SELECT quota_release(:p, 2);
COMMIT;
SELECT * FROM lease_level;
BEGIN;
SELECT quota_release(:p, 19);
ROLLBACK;
BEGIN;
SAVEPOINT s;
SELECT quota_release(:p);
ROLLBACK TO s;
COMMIT;
SELECT * FROM lease_level;
-- more than is left, those given back by this transaction not counted twice
BEGIN;
SELECT quota_release(:p, 15);
SAVEPOINT s;
SELECT quota_release(:p, 6);
ROLLBACK TO s;
SELECT quota_release(:p, 0);
ROLLBACK TO s;
SELECT quota_release(:p, -1);
ROLLBACK;
SELECT * FROM lease_level;
-- settled with units of each call that is left: fewer tokens, more credits
SELECT quota_clock_advance('2 s');
SELECT * FROM lease_level;
SELECT quota_settle(:p, units => '{"token": 8, "credit": 9}');
SELECT * FROM lease_level;
SELECT used, held, remaining FROM quota_balance('lease_a', 'lease');
SELECT * FROM lease_entries;
SELECT * FROM quota_audit();

-- given back and settled, or given back to the last, in one transaction
SELECT permit AS p FROM quota_acquire('lease_b', 'lease', n => 10, units => '{"token": 20, "credit": 3}') \gset
BEGIN;
SELECT quota_release(:p, 4);
SELECT quota_settle(:p, units => '{"token": 30}');
COMMIT;
SELECT * FROM lease_level;
SELECT used, held FROM quota_balance('lease_b', 'lease');
SELECT permit AS p FROM quota_acquire('lease_b', 'lease', n => 10) \gset
BEGIN;
SELECT quota_release(:p, 4);
SELECT quota_release(:p, 6);
COMMIT;
SELECT * FROM lease_level;
SELECT used, held FROM quota_balance('lease_b', 'lease');
-- taken, given back in part and rolled back, or committed, in one transaction
BEGIN;
SELECT permit AS p FROM quota_acquire('lease_b', 'lease', n => 10) \gset
SELECT quota_release(:p, 4);
ROLLBACK;
SELECT * FROM lease_level;
BEGIN;
SELECT permit AS p FROM quota_acquire('lease_b', 'lease', n => 10) \gset
SELECT quota_release(:p, 4);
COMMIT;
SELECT * FROM lease_level;
SELECT used, held FROM quota_balance('lease_b', 'lease');
SELECT quota_settle(:p);
SELECT * FROM lease_level;
-- and settled for more than the estimate
BEGIN;
SELECT permit AS p FROM quota_acquire('lease_b', 'lease', n => 10) \gset
SELECT quota_release(:p, 4);
SELECT quota_settle(:p, units => '{"token": 15, "credit": 0}');
COMMIT;
SELECT * FROM lease_level;
SELECT used, held FROM quota_balance('lease_b', 'lease');
SELECT permit AS p FROM quota_acquire('lease_b', 'lease', n => 10) \gset
-- its lifetime is over between the release and the commit: concurrency is back already
BEGIN;
SELECT quota_release(:p, 2);
SELECT quota_clock_advance('1 min');
COMMIT;
SELECT used, held FROM quota_balance('lease_b', 'lease');
SELECT * FROM quota_audit();
-- or before the release: then it is over, and its credits stay spent
SELECT permit AS p FROM quota_acquire('lease_b', 'lease', n => 10) \gset
SELECT used, held FROM quota_balance('lease_b', 'lease');
BEGIN;
SELECT calls FROM quota.holds WHERE permit = :p FOR UPDATE;	-- so that no worker has
SELECT quota_clock_advance('1 min');
\set VERBOSITY sqlstate
SAVEPOINT s;
SELECT quota_release(:p, 4);
ROLLBACK TO s;
SELECT quota_release(:p, 10);
ROLLBACK TO s;
-- the same when nobody knows the permit any more but the row of its hold
SELECT count(*) FROM quota_balance('lease_b', 'lease');
SELECT quota_release(:p, 10);
\set VERBOSITY default
ROLLBACK;
SELECT used, held FROM quota_balance('lease_b', 'lease');
SELECT * FROM quota_audit();
-- what was leased in the last period does not come back in this one
SELECT quota_clock_advance(timestamptz '2026-03-31 23:59:50+00' - quota_clock());
SELECT permit AS p FROM quota_acquire('lease_b', 'lease', n => 10) \gset
SELECT quota_clock_advance('20 s');
SELECT permit AS q FROM quota_acquire('lease_b', 'lease', n => 2) \gset
SELECT quota_release(:p, 5);
SELECT used, held FROM quota_balance('lease_b', 'lease');
SELECT quota_settle(:p), quota_settle(:q);
SELECT used, held FROM quota_balance('lease_b', 'lease');
SELECT * FROM quota_audit();

-- partial: what fits over all limits, of any kind and unit
INSERT INTO quota.limits (provider, name, per, kind, unit, amount, period, burst) VALUES
	('lease_part', 'rate', '{}', 'token_bucket', 'request', 3600, '1 hour', 100),
	('lease_part', 'tokens', '{}', 'token_bucket', 'token', 3600, '1 hour', 100),
	('lease_part', 'flight', '{tenant}', 'concurrency', 'request', 9, NULL, NULL),
	('lease_part', 'credits', '{tenant}', 'allowance', 'credit', 40, '1 month', NULL);
SELECT granted, remaining FROM quota_peek('lease_a', 'lease_part', n => 20, partial => true);
SELECT granted, remaining FROM quota_peek('lease_a', 'lease_part', n => 20, units => '{"token": 15}', partial => true);
SELECT granted, remaining FROM quota_peek('lease_a', 'lease_part', n => 20, units => '{"token": 15, "credit": 9}', partial => true);
SELECT granted, remaining, permit AS p FROM quota_acquire('lease_a', 'lease_part', n => 20, units => '{"token": 15, "credit": 9}', partial => true) \gset part_
SELECT :part_granted AS granted, :part_remaining AS remaining;
SELECT limit_name, capacity - level AS taken FROM quota_explain('lease_a', 'lease_part', units => '{"token": 15, "credit": 9}');
-- not one fits: refused as one call is
SELECT admitted, granted, jsonb_path_query_array(exhausted, '$[*].name') FROM quota_acquire('lease_a', 'lease_part', n => 20, units => '{"token": 41, "credit": 9}', partial => true);
SELECT quota_release(:part_p, 3);
SELECT limit_name, capacity - level AS taken FROM quota_explain('lease_a', 'lease_part', units => '{"token": 15, "credit": 9}');
SELECT * FROM quota_audit();
SELECT quota_settle(:part_p);
-- other tests count holds: none is left, whether or not the worker has seen to it
DO $$
DECLARE
	hold bigint;
BEGIN
	FOR hold IN SELECT permit FROM quota.holds WHERE provider LIKE 'lease%' LOOP
		BEGIN
			PERFORM quota_settle(hold);
		EXCEPTION WHEN object_not_in_prerequisite_state OR lock_not_available THEN
		END;
	END LOOP;
END $$;
