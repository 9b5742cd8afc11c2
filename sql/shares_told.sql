-- When who is refused for the sake of others may ask again: asked then it is admitted, a
-- microsecond before it is not, if nobody else comes.
SET timezone = 'UTC';
SELECT quota_clock_set('2026-01-01 00:00:00+00');
INSERT INTO quota.tiers (tier) VALUES ('told');
INSERT INTO quota.tenants (tenant, tier) SELECT 'told_' || x, 'told' FROM unnest('{a,b,c}'::text[]) x;
INSERT INTO quota.providers (provider, safety) VALUES ('told', 1);
INSERT INTO quota.limits (provider, name, endpoint, kind, amount, period, burst)
SELECT 'told', k || ' ' || a, k || ' ' || a, k, a, '7 s', CASE k WHEN 'token_bucket' THEN least(a, 10) END
FROM unnest('{token_bucket,leaky_bucket,fixed_window,sliding_window}'::text[]) k, unnest('{1,4,10}'::int[]) a;

-- One drains the limit, another one is refused; then the first asks again and again
-- until it must leave something to the other, for two hundred steps at most.
CREATE FUNCTION told(endpoint text, class text DEFAULT 'event', n int DEFAULT 1,
	OUT reason text, OUT after interval, OUT before boolean, OUT "then" boolean)
LANGUAGE plpgsql AS $$
DECLARE
	d quota_decision;
BEGIN
	PERFORM quota_clock_advance('2 min 123457 us');
	FOR i IN 1 .. 100 LOOP
		EXIT WHEN NOT (quota_acquire('told_a', 'told', endpoint, class => class)).admitted;
	END LOOP;
	PERFORM quota_acquire('told_b', 'told', endpoint) WHERE class = 'event';
	FOR i IN 1 .. 200 LOOP
		d := quota_acquire('told_a', 'told', endpoint, n, class => class);
		EXIT WHEN d.reason IN ('share_exceeded', 'class_reserved');
		PERFORM quota_clock_advance('101 ms');
	END LOOP;
	d := quota_peek('told_a', 'told', endpoint, n, class => class);
	reason := d.reason;
	after := d.not_before - quota_clock();
	PERFORM quota_clock_advance(after - interval '1 us');
	before := (quota_peek('told_a', 'told', endpoint, n, class => class)).admitted;
	PERFORM quota_clock_advance('1 us');
	"then" := (quota_acquire('told_a', 'told', endpoint, n, class => class)).admitted;
END $$;
-- one after another, as the windows go on meanwhile
CREATE TEMPORARY VIEW told_limits AS
	SELECT endpoint, kind, amount FROM quota.limits WHERE provider = 'told' ORDER BY kind, amount OFFSET 0;
SELECT endpoint, t.* FROM told_limits, told(endpoint) t;
UPDATE quota.classes SET headroom = 0.25 WHERE class = 'batch';
SELECT endpoint, t.* FROM told_limits, told(endpoint, 'batch') t;
UPDATE quota.classes SET headroom = 0.1 WHERE class = 'batch';

-- One takes part of it, another one is refused while that lasts; so the first is over its
-- share with something left.
CREATE FUNCTION told_part(endpoint text, other int, taken int, refused int,
	OUT reason text, OUT after interval, OUT before boolean, OUT "then" boolean)
LANGUAGE plpgsql AS $$
DECLARE
	d quota_decision;
BEGIN
	PERFORM quota_clock_advance('3 min 123457 us');
	FOR i IN 1 .. 100 LOOP	-- early in a window
		d := quota_acquire('told_c', 'told', endpoint);
		EXIT WHEN NOT d.admitted;
	END LOOP;
	PERFORM quota_clock_advance(d.not_before - quota_clock() + '2 min 123457 us');
	IF endpoint LIKE 'fixed_window%' THEN
		FOR i IN 1 .. 100 LOOP
			d := quota_acquire('told_c', 'told', endpoint);
			EXIT WHEN NOT d.admitted;
		END LOOP;
		PERFORM quota_clock_advance(d.not_before - quota_clock() + '123457 us');
	END IF;
	FOR i IN 1 .. other LOOP
		PERFORM quota_acquire('told_b', 'told', endpoint);
	END LOOP;
	FOR i IN 1 .. taken LOOP
		PERFORM quota_acquire('told_a', 'told', endpoint);
	END LOOP;
	PERFORM quota_clock_advance('107 ms');
	PERFORM quota_acquire('told_b', 'told', endpoint, refused);
	FOR i IN 1 .. 200 LOOP
		d := quota_acquire('told_a', 'told', endpoint);
		EXIT WHEN d.reason = 'share_exceeded';
		PERFORM quota_clock_advance('101 ms');
	END LOOP;
	d := quota_peek('told_a', 'told', endpoint);
	reason := d.reason;
	after := d.not_before - quota_clock();
	PERFORM quota_clock_advance(after - interval '1 us');
	before := (quota_peek('told_a', 'told', endpoint)).admitted;
	PERFORM quota_clock_advance('1 us');
	"then" := (quota_acquire('told_a', 'told', endpoint)).admitted;
END $$;
SELECT endpoint, part, t.* FROM told_limits, unnest('{1,2,3}'::int[]) part,
	told_part(endpoint, 0, floor(amount * part / 4)::int, amount::int) t
WHERE kind <> 'leaky_bucket' AND amount > 1;
SELECT endpoint, t.* FROM told_limits, told_part(endpoint, 0, 1, 1) t WHERE kind = 'leaky_bucket' OR amount = 1;
-- the other one has taken more before, so that its claim is no sooner; with half of it
-- there again a share grows faster
SELECT part, t.* FROM unnest('{1,2,3,4}'::int[]) part, told_part('fixed_window 10', 5, part, 6) t;

-- Random calls of three tenants and two classes at limits of every kind, refused for their
-- own sake or that of others: asked when they are told they are admitted, and of rates a
-- microsecond before that they are not, if nobody else comes.
DELETE FROM quota.limits WHERE provider = 'told';
INSERT INTO quota.tenants (tenant, tier, weight) SELECT 'told_' || n, 'told', n FROM generate_series(1, 3) n;
INSERT INTO quota.limits (provider, name, endpoint, kind, amount, period, burst, permit_lifetime)
SELECT 'told', k || ' of ' || a, k || ' of ' || a, k, a, CASE WHEN k <> 'concurrency' THEN interval '3 s' END,
	CASE k WHEN 'token_bucket' THEN a END, '4 s'
FROM unnest('{token_bucket,leaky_bucket,fixed_window,sliding_window,concurrency}'::text[]) k, unnest('{2,5,12}'::int[]) a;
UPDATE quota.classes SET headroom = 0.25 WHERE class = 'batch';
CREATE TYPE told_counts AS (calls int, refused int, early int, late int);
-- so many calls; of those that are refused some come again when they are told
CREATE FUNCTION told_random(endpoint text, most int, calls int) RETURNS told_counts LANGUAGE plpgsql AS $$
DECLARE
	r told_counts := (calls, 0, 0, 0);
	d quota_decision;
	t text;
	c text;
	n int;
	told timestamptz;
BEGIN
	PERFORM setseed(0.5);
	FOR i IN 1 .. calls LOOP
		PERFORM quota_clock_advance(random() ^ 3 * interval '1 s');
		t := 'told_' || 1 + floor(random() * 3);
		c := CASE WHEN random() < 0.2 THEN 'batch' ELSE 'event' END;
		n := 1 + floor(random() ^ 4 * most);
		d := quota_acquire(t, 'told', endpoint, n, class => c);
		CONTINUE WHEN d.admitted OR random() < 0.7;
		told := (d.exhausted -> 0 ->> 'not_before')::timestamptz;
		CONTINUE WHEN told IS NULL;		-- never so many at once
		r.refused := r.refused + 1;
		PERFORM quota_clock_advance(told - quota_clock() - interval '1 us');
		r.late := r.late + (quota_peek(t, 'told', endpoint, n, class => c)).admitted::int;
		PERFORM quota_clock_advance('1 us');
		r.early := r.early + (NOT (quota_acquire(t, 'told', endpoint, n, class => c)).admitted)::int;
	END LOOP;
	RETURN r;
END $$;
SELECT endpoint, t.refused > 50 AS refused, t.early, CASE WHEN kind <> 'concurrency' THEN t.late END AS late
FROM told_limits, told_random(endpoint, amount::int, 1000) t;
UPDATE quota.classes SET headroom = 0.1 WHERE class = 'batch';
DELETE FROM quota.limits WHERE provider = 'told';
DELETE FROM quota.tenants WHERE tier = 'told';
DELETE FROM quota.tiers WHERE tier = 'told';
DELETE FROM quota.providers WHERE provider = 'told';
DROP FUNCTION told, told_part, told_random;
DROP TYPE told_counts;
DROP VIEW told_limits;
SELECT quota_clock_set(NULL);
