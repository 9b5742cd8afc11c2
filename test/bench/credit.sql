-- One allowance that everybody draws on, and the textbook: a balance in a row, and an
-- entry for each change of it.
INSERT INTO quota.providers (provider, safety) VALUES ('credit', 1);
INSERT INTO quota.costs (provider, unit, cost) VALUES ('credit', 'credit', 10);
INSERT INTO quota.limits (provider, name, per, unit, kind, amount, period) VALUES
    ('credit', 'credits', '{tenant}', 'credit', 'allowance', 1000000000000, '1 month');

CREATE TABLE row_account (id int PRIMARY KEY, balance bigint NOT NULL) WITH (fillfactor = 10);
INSERT INTO row_account VALUES (1, 1000000000000);
CREATE TABLE row_entry (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account int NOT NULL,
    kind text NOT NULL,
    amount bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX ON row_entry (account, created_at);

-- A background worker has to look at the end of a pause, so it folds now and not within
-- 10 seconds.
CREATE PROCEDURE credit_wake() LANGUAGE plpgsql AS $$
BEGIN
    COMMIT;
    PERFORM quota_pause('credit', duration => '1 ms');
    COMMIT;
END $$;

-- Gives the account of 'tenant 2' so many entries, as if they had been written one by
-- one, and waits until the worker has folded them.
CREATE PROCEDURE credit_fill(entries bigint) LANGUAGE plpgsql AS $$
DECLARE
    present bigint = (SELECT count(*) FROM quota.ledger WHERE tenant = 'tenant 2');
BEGIN
    IF present = 0 THEN
        PERFORM quota_adjust('tenant 2', 'credit', 'credits', 0);
        present = 1;
    END IF;
    ALTER TABLE quota.ledger DISABLE TRIGGER USER;
    INSERT INTO quota.ledger (account, provider, limit_name, tenant, unit, kind, amount, charged_at, created_at, xid)
    SELECT l.account, l.provider, l.limit_name, l.tenant, l.unit, 'adjust', i % 3 - 1, l.charged_at, l.created_at,
        pg_current_xact_id()
    FROM (SELECT * FROM quota.ledger WHERE tenant = 'tenant 2' LIMIT 1) l,
        generate_series(present + 1, entries) i;
    ALTER TABLE quota.ledger ENABLE ALWAYS TRIGGER zz_quota_ledger_stamp;
    ALTER TABLE quota.ledger ENABLE ALWAYS TRIGGER ledger_final;
    ALTER TABLE quota.ledger ENABLE ALWAYS TRIGGER ledger_final_truncate;
    ALTER TABLE quota.ledger ENABLE ALWAYS TRIGGER ledger_restored;
    COMMIT;
    PERFORM quota_adjust('tenant 2', 'credit', 'credits', 0);
    CALL credit_wake();
    LOOP
        EXIT WHEN (SELECT max(f.entries) >= credit_fill.entries - 64 FROM quota.ledger_folds f
            WHERE account = (SELECT account FROM quota.ledger WHERE tenant = 'tenant 2' LIMIT 1));
        PERFORM pg_sleep(0.2);
        COMMIT;
    END LOOP;
END $$;

-- Milliseconds to read its balance into memory, a median; a new anchor makes that needed.
CREATE PROCEDURE credit_load(times int, INOUT ms numeric = NULL) LANGUAGE plpgsql AS $$
DECLARE
    took numeric[];
    start timestamptz;
BEGIN
    FOR i IN 1 .. times LOOP
        UPDATE quota.limits SET anchor = coalesce(anchor, '2000-01-01 00:00+00') + '1 month'
        WHERE provider = 'credit';
        COMMIT;
        PERFORM quota_balance('tenant 1', 'credit');	-- knows what was changed
        start = clock_timestamp();
        PERFORM quota_balance('tenant 2', 'credit');
        took = took || extract(epoch FROM clock_timestamp() - start) * 1000;
    END LOOP;
    ms = round((SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY t) FROM unnest(took) t)::numeric, 3);
END $$;

-- Gives each tenant an account with three entries for each round, folded.
CREATE PROCEDURE credit_tenants(rounds int) LANGUAGE plpgsql AS $$
DECLARE
    who text;
    n int = 0;
BEGIN
    FOR round IN 1 .. rounds LOOP
        FOR who IN SELECT tenant FROM quota.tenants LOOP
            PERFORM quota_settle(permit, units => '{"credit": 9}') FROM quota_acquire(who, 'credit');
            PERFORM quota_grant(who, 'credit', 'credits', 5);
            n = n + 1;
            IF n % 1000 = 0 THEN COMMIT; END IF;
        END LOOP;
        COMMIT;
    END LOOP;
    CALL credit_wake();
    LOOP
        EXIT WHEN (SELECT count(DISTINCT account) FROM quota.ledger_folds) = (SELECT count(DISTINCT account) FROM quota.ledger);
        PERFORM pg_sleep(0.2);
        COMMIT;
    END LOOP;
END $$;

-- The median of the milliseconds that a query takes.
CREATE PROCEDURE credit_time(times int, query text, INOUT ms numeric = NULL) LANGUAGE plpgsql AS $$
DECLARE
    took numeric[];
    start timestamptz;
BEGIN
    EXECUTE query;
    FOR i IN 1 .. times LOOP
        start = clock_timestamp();
        EXECUTE query;
        took = took || extract(epoch FROM clock_timestamp() - start) * 1000;
    END LOOP;
    ms = round((SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY t) FROM unnest(took) t)::numeric, 3);
END $$;
