-- quota.jobs without the triggers of quota, and the rows to load.  What the triggers
-- fill in has a default here; flow, which an index is on, can be loaded too.
CREATE TABLE plain_copy (LIKE quota.jobs INCLUDING ALL);
ALTER TABLE plain_copy ALTER created_at SET DEFAULT now(), ALTER flow SET DEFAULT 1, ALTER max_attempts SET DEFAULT 5;
DO $$
BEGIN
    EXECUTE format('ALTER TABLE plain_copy SET (fillfactor = %s)', (
        SELECT option_value FROM pg_class, pg_options_to_table(reloptions)
        WHERE oid = 'quota.jobs'::regclass AND option_name = 'fillfactor'));
END $$;
CREATE TABLE source AS
    SELECT 'tenant ' || 1 + i % :tenants AS tenant, 'open' AS provider, 'search' AS endpoint, jsonb_build_object('contact', i) AS payload,
        hashtextextended('tenant ' || 1 + i % :tenants, 0) AS flow
    FROM generate_series(1, :jobs) i
    ORDER BY random();
