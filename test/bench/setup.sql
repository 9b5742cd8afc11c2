-- What the measured calls meet: two providers with three matching limits each.
CREATE EXTENSION quota;

INSERT INTO quota.tiers (tier) VALUES ('standard');
INSERT INTO quota.tenants (tenant, tier)
    SELECT 'tenant ' || i, 'standard' FROM generate_series(1, :tenants) i;
INSERT INTO quota.providers (provider) VALUES ('open'), ('closed');

-- "open" always has room, "closed" never: its account limit let one call through, long ago.
INSERT INTO quota.limits (provider, name, per, amount, period, burst)
    SELECT provider, name, per, amount, '1 s', 1000000000
    FROM (VALUES ('open'), ('closed')) p (provider),
        (VALUES ('account', '{}'::text[], 1000000000),
                ('tenant', '{tenant}', 500000000),
                ('endpoint', '{tenant,endpoint}', 500000000)) l (name, per, amount);
UPDATE quota.limits SET amount = 1, period = '100 years', burst = 1
    WHERE provider = 'closed' AND name = 'account';
SELECT admitted FROM quota_acquire('tenant 1', 'closed', 'search') \gset
