-- quota.jobs without the triggers of quota, and the rows to load.
CREATE TABLE plain_copy (LIKE quota.jobs INCLUDING ALL) WITH (fillfactor = 70);
ALTER TABLE plain_copy ALTER created_at SET DEFAULT now(), ALTER flow SET DEFAULT 1, ALTER max_attempts SET DEFAULT 5;
CREATE TABLE source AS
    SELECT 'tenant ' || 1 + i % :tenants AS tenant, 'open' AS provider, 'search' AS endpoint, jsonb_build_object('contact', i) AS payload
    FROM generate_series(1, :jobs) i
    ORDER BY random();
