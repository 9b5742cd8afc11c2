-- :jobs ready jobs of the plain queue.
INSERT INTO plain_jobs (tenant, provider, endpoint, payload)
    SELECT 'tenant ' || 1 + i % :tenants, 'open', 'search', jsonb_build_object('contact', i)
    FROM generate_series(1, :jobs) i
    ORDER BY random();
