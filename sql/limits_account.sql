-- Limits of an account: calls to all providers that belong to it count together.
SELECT quota_clock_set('2026-05-01 00:00:00+00');
SET timezone = 'UTC';
INSERT INTO quota.tiers (tier) VALUES ('acc');
INSERT INTO quota.tenants (tenant, tier) VALUES ('acc_t', 'acc'), ('acc_u', 'acc');
INSERT INTO quota.providers (provider, account) VALUES ('acc_key1', 'acc_org'), ('acc_key2', 'acc_org'),
	('acc_org', NULL), ('acc_other', NULL);
INSERT INTO quota.limits (account, name, kind, amount, period, burst, external) VALUES
	('acc_org', 'acc rate', 'token_bucket', 10, '1 minute', 10, false);
INSERT INTO quota.limits (account, name, kind, amount, period, external, per, permit_lifetime) VALUES
	('acc_org', 'acc day', 'allowance', 12, '1 day', false, '{tenant}', '1 hour'),
	('acc_nobody', 'acc no call', 'allowance', 0, '1 day', false, '{}', '1 hour');

-- one bucket and one allowance for the account's providers; another account has none
SELECT admitted, remaining FROM quota_acquire('acc_t', 'acc_key1', n => 4);
SELECT admitted, remaining FROM quota_acquire('acc_u', 'acc_key2', n => 5);
SELECT admitted, reason, limit_name FROM quota_acquire('acc_t', 'acc_key1', n => 2);
SELECT admitted, remaining FROM quota_acquire('acc_t', 'acc_org');
SELECT admitted, remaining FROM quota_acquire('acc_t', 'acc_other', n => 100);
SELECT limit_name, kind, bucket, capacity, level FROM quota_explain('acc_t', 'acc_key2');
SELECT limit_name FROM quota_explain('acc_t', 'acc_other');
SELECT limit_provider, limit_name, amount, used, held FROM quota_balance('acc_t') WHERE limit_name LIKE 'acc %';
SELECT limit_provider, limit_name, used FROM quota_balance('acc_t', 'acc_other');
SELECT count(*) AS entries, sum(amount) FROM quota.ledger WHERE limit_name = 'acc day' AND tenant = 'acc_t' AND provider IS NULL;
SELECT quota_clock_advance('1 minute');
SELECT admitted, reason, limit_name FROM quota_acquire('acc_t', 'acc_key2', n => 8);
SELECT quota_grant('acc_t', NULL, 'acc day', 2);
SELECT admitted, remaining FROM quota_acquire('acc_t', 'acc_key2', n => 8);

-- a provider that is moved counts where it belongs from the next decision on
UPDATE quota.providers SET account = 'acc_org' WHERE provider = 'acc_other';
SELECT admitted, reason, limit_name FROM quota_acquire('acc_u', 'acc_other', n => 3);
SELECT admitted, remaining FROM quota_acquire('acc_u', 'acc_other', n => 2);
UPDATE quota.providers SET account = NULL WHERE provider = 'acc_key1';
SELECT admitted, remaining FROM quota_acquire('acc_u', 'acc_key1', n => 100);
SELECT admitted FROM quota_acquire('acc_u', 'acc_key2');
-- not what another session has not committed, and nothing in the transaction itself
BEGIN;
UPDATE quota.providers SET account = NULL WHERE provider = 'acc_key2';
SELECT admitted FROM quota_acquire('acc_u', 'acc_key2');
ROLLBACK;
-- a limit that is given to another account keeps what was spent
UPDATE quota.limits SET account = 'acc_key1' WHERE name = 'acc rate';
SELECT admitted, remaining FROM quota_acquire('acc_u', 'acc_key2');
SELECT admitted, limit_name FROM quota_acquire('acc_u', 'acc_key1');
UPDATE quota.limits SET account = 'acc_org' WHERE name = 'acc rate';
SELECT * FROM quota_audit();

-- calls in flight, direct and of jobs, and their settling, over the account
DELETE FROM quota.limits WHERE name LIKE 'acc rate';
INSERT INTO quota.limits (account, name, kind, amount) VALUES ('acc_org', 'acc at once', 'concurrency', 2);
UPDATE quota.limits SET external = false WHERE name = 'acc at once';
INSERT INTO quota.jobs (tenant, provider) VALUES ('acc_u', 'acc_key2'), ('acc_u', 'acc_other');
SELECT admitted, permit AS p FROM quota_acquire('acc_u', 'acc_org') \gset
SELECT provider FROM quota_dequeue(ARRAY['acc_key2', 'acc_other'], 2);
SELECT admitted, reason, limit_name FROM quota_acquire('acc_u', 'acc_org');
SELECT quota_settle(:p);
SELECT provider FROM quota_dequeue(ARRAY['acc_key2', 'acc_other'], 2);
SELECT count(quota_complete(id, attempt)) FROM quota.jobs WHERE tenant = 'acc_u';
SELECT * FROM quota_audit();

-- overrides name it by provider NULL and its name
INSERT INTO quota.tenant_limits (tenant, name, amount) VALUES ('acc_t', 'acc day', 30);
SELECT limit_name, capacity FROM quota_explain('acc_t', 'acc_org') ORDER BY 1;
INSERT INTO quota.tier_limits (tier, name) VALUES ('acc', 'acc at once');
SELECT limit_name FROM quota_explain('acc_t', 'acc_org') ORDER BY 1;
\set VERBOSITY terse
INSERT INTO quota.tenant_limits (tenant, name, amount) VALUES ('acc_t', 'acc at once', 30);
-- so names of limits without a provider differ, whatever their accounts
INSERT INTO quota.limits (account, name, amount, period) VALUES ('acc_other', 'acc day', 1, '1 day');
INSERT INTO quota.limits (name, amount, period) VALUES ('acc day', 1, '1 day');
-- a provider's limit is of no account, and there is no safety without a provider
INSERT INTO quota.limits (provider, account, name, amount, period) VALUES ('acc_key1', 'acc_org', 'acc x', 1, '1 day');
INSERT INTO quota.limits (name, amount, period, external) VALUES ('acc x', 1, '1 day', true);
INSERT INTO quota.limits (account, name, amount, period) VALUES ('', 'acc x', 1, '1 day');
\set VERBOSITY default
DELETE FROM quota.tenant_limits WHERE tenant = 'acc_t';
DELETE FROM quota.tier_limits WHERE tier = 'acc';
DELETE FROM quota.limits WHERE name = 'acc at once';

-- safety: the lowest of the account's providers, of whichever the call is
UPDATE quota.providers SET safety = 0.8, account = 'acc_org' WHERE provider = 'acc_key1';
UPDATE quota.providers SET safety = 0.5 WHERE provider = 'acc_key2';
UPDATE quota.providers SET safety = 1, account = NULL WHERE provider IN ('acc_org', 'acc_other');
INSERT INTO quota.limits (account, name, kind, amount, period, burst) VALUES
	('acc_org', 'acc documented', 'token_bucket', 120, '1 minute', NULL);
SELECT limit_name, capacity FROM quota_explain('acc_t', 'acc_key1') WHERE limit_name = 'acc documented';
UPDATE quota.limits SET burst = 1000 WHERE name = 'acc documented';
-- 120 a minute at 0.5 are one a second
CREATE FUNCTION acc_level(OUT level bigint, OUT next_in interval) LANGUAGE SQL AS $$
	SELECT level, (quota_peek('acc_u', 'acc_key1', n => level::int + 1)).not_before - quota_clock()
	FROM quota_explain('acc_u', 'acc_key1') WHERE limit_name = 'acc documented' $$;
SELECT count(quota_settle(permit)) FROM quota.holds WHERE tenant LIKE 'acc%';
DELETE FROM quota.limits WHERE name = 'acc day';
SELECT admitted FROM quota_acquire('acc_u', 'acc_key1', n => 1000);
SELECT quota_clock_advance('10 s');
SELECT * FROM acc_level();
-- what raises it is not retroactive: more safety, the provider moved, the provider gone
SELECT quota_clock_advance('10 s');
UPDATE quota.providers SET safety = 1 WHERE provider = 'acc_key2';
SELECT * FROM acc_level();
SELECT quota_clock_advance('10 s');
SELECT * FROM acc_level();
SELECT quota_clock_advance('10 s');
UPDATE quota.providers SET account = 'acc_gone' WHERE provider = 'acc_key1';
UPDATE quota.providers SET account = 'acc_org' WHERE provider = 'acc_key1';
SELECT * FROM acc_level();
UPDATE quota.providers SET safety = 0.25 WHERE provider = 'acc_key2';
SELECT * FROM acc_level();
SELECT quota_clock_advance('10 s');
UPDATE quota.providers SET account = 'acc_gone' WHERE provider = 'acc_key2';
SELECT * FROM acc_level();
SELECT quota_clock_advance('10 s');
UPDATE quota.providers SET account = 'acc_org' WHERE provider = 'acc_key2';
SELECT * FROM acc_level();
SELECT quota_clock_advance('10 s');
DELETE FROM quota.providers WHERE provider = 'acc_key2';
SELECT * FROM acc_level();
SELECT quota_clock_advance('10 s');
INSERT INTO quota.providers (provider, account, safety) VALUES ('acc_key2', 'acc_org', 0.25);
SELECT * FROM acc_level();

-- a rate that is no fraction of 64-bit numbers is refused whichever row brings it about
\set VERBOSITY terse
UPDATE quota.limits SET amount = 0.333333333, period = '1 s' WHERE name = 'acc documented';
UPDATE quota.providers SET safety = 0.250001 WHERE provider = 'acc_key2';
INSERT INTO quota.providers (provider, safety) VALUES ('acc_key3', 0.240001);
UPDATE quota.providers SET account = 'acc_org' WHERE provider = 'acc_key3';
UPDATE quota.providers SET safety = 0.900001 WHERE provider = 'acc_key1';
\set VERBOSITY default

DROP FUNCTION acc_level;
DELETE FROM quota.jobs WHERE tenant = 'acc_u';
DELETE FROM quota.limits WHERE name LIKE 'acc %';
DELETE FROM quota.tenants WHERE tenant LIKE 'acc%';
DELETE FROM quota.providers WHERE provider LIKE 'acc%';
DELETE FROM quota.tiers WHERE tier = 'acc';
