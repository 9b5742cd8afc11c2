-- When who is refused for the sake of others may ask again: asked then it is admitted, a
-- microsecond before it is not, if nobody else comes.  For shares of a fixed window it is
-- told that at the latest.
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
	IF endpoint LIKE 'fixed_window%' THEN
		after := NULL;		-- where its window stands depends on what ran before
	END IF;
END $$;
SELECT endpoint, t.* FROM quota.limits l, told(endpoint) t
WHERE l.provider = 'told' AND kind <> 'fixed_window' ORDER BY kind, amount;
SELECT endpoint, t."then" FROM quota.limits l, told(endpoint) t
WHERE l.provider = 'told' AND kind = 'fixed_window' ORDER BY kind, amount;
UPDATE quota.classes SET headroom = 0.25 WHERE class = 'batch';
SELECT endpoint, t.* FROM quota.limits l, told(endpoint, 'batch') t WHERE l.provider = 'told' ORDER BY kind, amount;
UPDATE quota.classes SET headroom = 0.1 WHERE class = 'batch';
DELETE FROM quota.limits WHERE provider = 'told';
DELETE FROM quota.tenants WHERE tier = 'told';
DELETE FROM quota.tiers WHERE tier = 'told';
DELETE FROM quota.providers WHERE provider = 'told';
DROP FUNCTION told;
SELECT quota_clock_set(NULL);
