-- Beside setup.sql: calls that meet one limit and ten, and what to compare with.
INSERT INTO quota.providers (provider) VALUES ('one'), ('ten');
INSERT INTO quota.limits (provider, name, amount, period, burst) VALUES ('one', 'account', 1000000000, '1 s', 1000000000);
INSERT INTO quota.limits (provider, name, per, amount, period, burst)
    SELECT 'ten', 'limit ' || i, CASE WHEN i % 2 = 0 THEN '{tenant}'::text[] ELSE '{tenant,endpoint}' END, 1000000000, '1 s', 1000000000
    FROM generate_series(1, 10) i;

-- Providers with the three limits of "open", one for each client.
INSERT INTO quota.providers (provider) SELECT i::text FROM generate_series(0, 31) i;
INSERT INTO quota.limits (provider, name, per, amount, period, burst)
    SELECT i::text, name, per, amount, period, burst FROM generate_series(0, 31) i, quota.limits WHERE provider = 'open';

-- The textbook token bucket in a row: one UPDATE decides, a refusal updates no row.
CREATE TABLE row_bucket (
    key text PRIMARY KEY,
    tokens double precision NOT NULL,
    refilled_at timestamptz NOT NULL,
    capacity double precision NOT NULL,
    rate double precision NOT NULL
) WITH (fillfactor = 10);
INSERT INTO row_bucket
    SELECT 'open' || name, 1e12, clock_timestamp(), 1e12, 1e-6 FROM unnest('{"", " 1", " 2", " 3"}'::text[]) name;
INSERT INTO row_bucket VALUES ('closed', 0, clock_timestamp(), 1, 1e-9);

-- The table of rate-limiter-flexible.
CREATE TABLE rlflx (key varchar(255) PRIMARY KEY, points integer NOT NULL DEFAULT 0, expire bigint) WITH (fillfactor = 10);
INSERT INTO rlflx VALUES ('open', 0, 9000000000000);
