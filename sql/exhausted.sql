-- What said no: the list in an answer is, byte for byte, the jsonb that the server makes
-- of its text, whatever names, numbers and instants are in it.
SET timezone = 'UTC';
SELECT quota_clock_set('2026-01-01 00:00:00+00');

-- providers of 1 to 9 limits, of all kinds, with names and units that JSON must escape
INSERT INTO quota.tiers (tier) VALUES ('exh');
INSERT INTO quota.tenants (tenant, tier) VALUES ('exh_a', 'exh');
INSERT INTO quota.providers (provider, safety) SELECT 'exh' || n, 1 FROM generate_series(1, 9) n;
INSERT INTO quota.limits (provider, name, unit, kind, amount, period, burst)
SELECT 'exh' || n,
    (ARRAY['plain', 'say "no"', E'back\\slash', E'new\nline\ttab', E'\x01\x1f\x7f', 'größe €', '𝄞 𝄢', repeat('"', 127), '{"name": "x"}'])[i] || '',
    CASE WHEN kind IN ('concurrency', 'retry') THEN 'request' ELSE (ARRAY['request', E'"\\"', repeat('ü', 60)])[1 + (n + i) % 3] END,
    kind, amount,
    CASE WHEN kind <> 'concurrency' THEN (ARRAY['1 s', '90 s', '1 day', '1 day', '100 years'])[1 + (n * 7 + i) % (CASE kind WHEN 'token_bucket' THEN 5 ELSE 3 END)]::interval END,
    CASE WHEN kind = 'token_bucket' THEN 1 + amount / 100 END
FROM generate_series(1, 9) n, generate_series(1, n) i,
    LATERAL (SELECT (ARRAY['token_bucket', 'leaky_bucket', 'fixed_window', 'sliding_window', 'concurrency', 'allowance'])[1 + (n + i) % 6]) k(kind),
    LATERAL (SELECT (ARRAY[1, 1000000000000000, 100000000, 1234567890, 10000, 9999, 3, 0])[1 + (n + i) % (6 + n / 5)]) a(amount);

-- refusals of any of them, at any time, shown in any time zone
DO $$
DECLARE
    zones text[] := ARRAY['UTC', 'Europe/Berlin', 'America/St_Johns', 'Asia/Kathmandu', 'Europe/Amsterdam', '<odd>-13:45', 'Pacific/Apia'];
    -- mostly back, which moves but the wall clock
    years int[] := ARRAY[2027, 2026, 2026, 2026, 1999, 1970, 1936, 1890, 1, -300];
    at timestamptz := quota_clock();
    ask jsonb;
    dear int;
    d quota_decision;
    lists int := 0;
    longest int := 0;
    nevers int := 0;
    paused int := 0;
BEGIN
    PERFORM setseed(0.25);
    FOR i IN 1..4000 LOOP
        PERFORM set_config('TimeZone', zones[1 + floor(random() * cardinality(zones))], true);
        IF i % 200 = 0 THEN
            PERFORM quota_resume('exh2'), quota_resume('exh2', endpoint => '/"a"');
            at := make_timestamptz(years[1 + (i - 1) / 400], 1 + floor(random() * 12)::int, 28, 23, 59, 50, 'UTC');
            PERFORM quota_clock_set(at);
        END IF;
        IF i % 400 = 0 THEN
            PERFORM quota_pause('exh2', reason => 'no end');
            PERFORM quota_pause('exh2', until => at + '1 hour', endpoint => '/"a"');
        END IF;
        -- with any number of digits behind the point, in some seconds more than once
        at := at + round(random() * 4e6 / power(10, i % 7)) * power(10, i % 7) * interval '1 us' / (1 + i % 3);
        PERFORM quota_clock_set(at);
        -- one call or many, that may fit when something has come back, or never
        dear := (10 ^ (random() * (i % 8))) * (random() < 0.3)::int;
        ask := jsonb_build_object('request', 1 + dear, E'"\\"', 1 + dear / 7, repeat('ü', 60), 1 + dear / 100);
        PERFORM quota_acquire('exh_a', 'exh' || 1 + i % 9, '/"a"', n => 1000, partial => true, units => ask);
        d := quota_peek('exh_a', 'exh' || 1 + i % 9, '/"a"', n => 1 + dear / 1000, units => ask);
        CONTINUE WHEN d.exhausted IS NULL;
        lists := lists + 1;
        longest := greatest(longest, jsonb_array_length(d.exhausted));
        nevers := nevers + (d.not_before IS NULL)::int;
        paused := paused + (d.reason = 'paused')::int;
        IF NOT record_image_eq(ROW(d.exhausted), ROW(d.exhausted::text::jsonb)) THEN
            RAISE EXCEPTION 'other bytes: %', d.exhausted;
        ELSIF EXISTS (SELECT FROM jsonb_array_elements(d.exhausted) e
            WHERE e->'not_before' <> coalesce(to_jsonb((e->>'not_before')::timestamptz), 'null')) THEN
            RAISE EXCEPTION 'another text of the instant: %', d.exhausted;
        ELSIF EXISTS (SELECT FROM jsonb_array_elements(d.exhausted) e JOIN quota.limits l ON l.name = e->>'name'
            WHERE l.provider = 'exh' || 1 + i % 9 AND (e->'amount', e->>'unit') IS DISTINCT FROM (to_jsonb(l.amount), l.unit)) THEN
            RAISE EXCEPTION 'another limit: %', d.exhausted;
        ELSIF d.not_before IS NOT NULL AND d.not_before IS DISTINCT FROM
            (SELECT max((e->>'not_before')::timestamptz) FROM jsonb_array_elements(d.exhausted) e) THEN
            RAISE EXCEPTION 'not at %: %', d.not_before, d.exhausted;
        END IF;
    END LOOP;
    ASSERT lists > 3000 AND longest > 4 AND nevers BETWEEN 500 AND 2000 AND paused > 200,
        format('lists %s, up to %s long, %s never, %s paused', lists, longest, nevers, paused);
END $$;
SELECT quota_resume('exh2'), quota_resume('exh2', endpoint => '/"a"');
SELECT quota_clock_set(NULL);
