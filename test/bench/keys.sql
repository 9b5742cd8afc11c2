-- What many keys meet: a limit for each user of a tenant, and one for each resource.
INSERT INTO quota.providers (provider, safety) VALUES ('keys', 1);
INSERT INTO quota.limits (provider, name, per, amount, period, burst) VALUES
    ('keys', 'user', '{tenant,user}', 1000000, '1 s', 1000000),
    ('keys', 'resource', '{tenant,resource}', 1000000, '1 s', 1000000);
-- So many decisions of one session, one after the other, for one key after the other or
-- for any; a hundred in a transaction.
CREATE PROCEDURE keys_run(decisions int, keys int, round_robin boolean) LANGUAGE plpgsql AS $$
DECLARE
    key text;
    refused int = 0;
BEGIN
    FOR i IN 1 .. decisions LOOP
        key = 'key ' || CASE WHEN round_robin THEN i % keys ELSE (random() * (keys - 1))::int END;
        IF NOT (quota_acquire('tenant 1', 'keys', 'search', "user" => key, resource => key)).admitted THEN
            refused = refused + 1;
        END IF;
        IF i % 100 = 0 THEN COMMIT; END IF;
    END LOOP;
    ASSERT refused = 0;
END $$;
CREATE TABLE row_bucket (
    key text PRIMARY KEY,
    tokens double precision NOT NULL,
    refilled_at timestamptz NOT NULL,
    capacity double precision NOT NULL,
    rate double precision NOT NULL
) WITH (fillfactor = 10);
INSERT INTO row_bucket SELECT 'key ' || i, 1e12, clock_timestamp(), 1e12, 1e-6 FROM generate_series(0, 9999) i;
