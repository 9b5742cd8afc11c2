-- Providers of 1, 3 and 10 matching limits: of "open..." there always is, of "closed..." never.
CREATE EXTENSION quota;
INSERT INTO quota.tiers (tier) VALUES ('standard');
INSERT INTO quota.tenants (tenant, tier) VALUES ('tenant 1', 'standard');
INSERT INTO quota.providers (provider)
    SELECT kind || n FROM unnest(ARRAY['open', 'closed']) kind, unnest(ARRAY[1, 3, 10]) n;
INSERT INTO quota.limits (provider, name, per, amount, period, burst)
    SELECT kind || n, 'limit ' || i,
        CASE WHEN i = 1 THEN '{}' WHEN i % 2 = 0 THEN '{tenant}' ELSE '{tenant,endpoint}' END::text[],
        1000000000, '1 s', 1000000000
    FROM unnest(ARRAY['open', 'closed']) kind, unnest(ARRAY[1, 3, 10]) n, generate_series(1, n) i;
UPDATE quota.limits SET amount = 1, period = '100 years', burst = 1
    WHERE provider LIKE 'closed%' AND name = 'limit 1';
SELECT count(*) FROM unnest(ARRAY[1, 3, 10]) n, quota_acquire('tenant 1', 'closed' || n, 'search');

-- The same and a limit of calls in flight, which gives a permit to settle.
INSERT INTO quota.providers (provider) VALUES ('flight');
INSERT INTO quota.limits (provider, name, per, kind, amount, period, burst) VALUES
    ('flight', 'account', '{}', 'token_bucket', 1000000000, '1 s', 1000000000),
    ('flight', 'tenant', '{tenant}', 'token_bucket', 1000000000, '1 s', 1000000000),
    ('flight', 'calls', '{}', 'concurrency', 1000000, NULL, NULL);
