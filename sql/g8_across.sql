-- G8: flows that wait for a limit across providers run as soon as it has room, whatever
-- brings that about (flow_across.c).  The clock stands still: nothing is found by looking
-- again.  045_g8_across.pl has sessions that wait, g8_across.spec interleavings.
SET timezone = 'UTC';
SET statement_timeout = '60 s';
SELECT quota_clock_set('2026-05-01 00:00:00+00');

INSERT INTO quota.tiers (tier) VALUES ('across');
INSERT INTO quota.tenants (tenant, tier) VALUES ('across_a', 'across'), ('across_b', 'across');
INSERT INTO quota.tenants (tenant, tier) SELECT 'across_' || n, 'across' FROM generate_series(1, 300) n;
INSERT INTO quota.providers (provider, safety) SELECT 'across_' || p, 1 FROM unnest('{p,q,r}'::text[]) p;
CREATE FUNCTION across_claim(p text, n int = 1, lease interval = '1 day') RETURNS SETOF text LANGUAGE sql AS
$$ SELECT tenant FROM quota_dequeue('across_' || p, n, CASE WHEN lease < '1 day' THEN 'dies' END, lease) $$;
CREATE FUNCTION across_add(p text, n int = 1) RETURNS void LANGUAGE sql AS
$$ INSERT INTO quota.jobs (tenant, provider, endpoint) SELECT 'across_a', 'across_' || p, '/x' FROM generate_series(1, n) $$;
CREATE FUNCTION across_finish() RETURNS bigint LANGUAGE sql AS
$$ SELECT count(quota_complete(j.id, j.attempt)::text) FROM quota.jobs j JOIN quota.leases l ON l.job_id = j.id
	WHERE provider LIKE 'across%' AND j.state = 'running' AND l.worker IS NULL $$;
CREATE FUNCTION across_refusals() RETURNS bigint LANGUAGE sql AS
$$ SELECT sum(refused)::bigint FROM quota.stat_tenants WHERE provider LIKE 'across%' $$;

-- One place for all providers; a job at p has it, and one at q and r waits: as one that
-- is each call's, or that of some endpoints, or the tenant's own
CREATE PROCEDURE across_shape(shape text) LANGUAGE plpgsql AS $$
DECLARE
	got text;
BEGIN
	UPDATE quota.limits SET endpoint = CASE WHEN shape = 'shared' THEN '/x*' END,
		per = CASE WHEN shape = 'own' THEN '{tenant}' ELSE '{}' END::text[], amount = 1
	WHERE provider IS NULL AND name = 'across';
END $$;
INSERT INTO quota.limits (provider, name, kind, amount) VALUES (NULL, 'across', 'concurrency', 1);
-- who gets the place when the holder's claim or end commits or rolls back, and when time
-- alone ends its lease
CREATE FUNCTION across_clear() RETURNS bigint LANGUAGE sql AS
$$ SELECT across_finish() + count(quota_cancel(id)) FROM quota.jobs WHERE provider LIKE 'across%' AND state IN ('queued', 'running') $$;
CREATE PROCEDURE across_ends(INOUT story text) LANGUAGE plpgsql AS $$
DECLARE
	step text;
BEGIN
	story = '';
	FOREACH step IN ARRAY '{complete,roll back,expire,raise}'::text[] LOOP
		PERFORM across_add('p'), across_add('q'), across_add('r');
		COMMIT;
		PERFORM across_claim('p', lease => CASE step WHEN 'expire' THEN interval '10 s' ELSE '1 day' END);
		IF step <> 'roll back' THEN COMMIT; END IF;
		-- a refusal is not undone, so that both are parked
		story = story || format('%s: %s %s', step, (SELECT count(*) FROM across_claim('q')), (SELECT count(*) FROM across_claim('r')));
		IF step = 'roll back' THEN ROLLBACK;
		ELSIF step = 'complete' THEN PERFORM across_finish();
		ELSIF step = 'expire' THEN PERFORM quota_clock_advance('10 s');
		ELSE UPDATE quota.limits SET amount = 3 WHERE provider IS NULL AND name = 'across';
		END IF;
		COMMIT;
		story = story || format(' then %s', (SELECT count(*) FROM across_claim('q')));
		COMMIT;
		story = story || format(' %s', (SELECT count(*) FROM across_claim('r')));
		PERFORM across_finish();
		COMMIT;
		story = story || format(' then %s; ', (SELECT count(*) FROM across_claim('r')));
		PERFORM across_clear();
		UPDATE quota.limits SET amount = 1 WHERE provider IS NULL AND name = 'across';
		COMMIT;
	END LOOP;
END $$;
CALL across_shape('wide');
CALL across_ends(NULL);
CALL across_shape('shared');
CALL across_ends(NULL);
CALL across_shape('own');
CALL across_ends(NULL);

-- one transaction has to do with many limits
INSERT INTO quota.jobs (tenant, provider, endpoint)
	SELECT 'across_' || n, 'across_' || p, '/x' FROM generate_series(1, 40) n, unnest('{p,q}'::text[]) p;
BEGIN;
SELECT count(*) FROM across_claim('p', 50);
SELECT count(*) FROM across_claim('q', 50);
ROLLBACK;
SELECT count(*) FROM across_claim('q', 50);
SELECT count(*) FROM across_claim('p', 50);
SELECT across_clear();

-- a permit of a direct call: settled, released, and its lifetime over
CALL across_shape('shared');
SELECT across_add('q');
SELECT permit AS permit FROM quota_acquire('across_b', 'across_p', '/x') \gset
SELECT across_claim('q');
SELECT quota_settle(:permit);
SELECT across_claim('q');
SELECT across_finish();
SELECT across_add('q');
SELECT permit AS permit FROM quota_acquire('across_b', 'across_p', '/x') \gset
SELECT across_claim('q');
SELECT quota_release(:permit);
SELECT across_claim('q');
SELECT across_finish();
SELECT across_add('q');
SELECT permit AS permit FROM quota_acquire('across_b', 'across_p', '/x') \gset
SELECT across_claim('q');
SELECT quota_clock_advance('59.999999 s');
SELECT across_claim('q');
SELECT quota_clock_advance('1 us');
SELECT across_claim('q');
SELECT across_finish();
-- the limit is deleted, and closed and opened again
SELECT across_add('q', 2);
SELECT permit AS permit FROM quota_acquire('across_b', 'across_p', '/x') \gset
SELECT across_claim('q');
DELETE FROM quota.limits WHERE provider IS NULL AND name = 'across';
SELECT across_claim('q');
SELECT across_finish(), quota_settle(:permit);
INSERT INTO quota.limits (provider, name, endpoint, kind, amount) VALUES (NULL, 'across', '/x*', 'concurrency', 0);
SELECT across_claim('q');
UPDATE quota.limits SET amount = 1 WHERE provider IS NULL AND name = 'across';
SELECT across_claim('q');
SELECT across_finish();

-- a rate: it opens by time, exactly, and when what was taken is rolled back
DELETE FROM quota.limits WHERE provider IS NULL AND name = 'across';
INSERT INTO quota.limits (provider, name, endpoint, amount, period, burst) VALUES (NULL, 'across_rate', '/x*', 1, '4 s', 1);
SELECT across_add('p'), across_add('q');
BEGIN;
SELECT across_claim('p');
SELECT across_claim('q');
ROLLBACK;
SELECT across_claim('q');
SELECT across_claim('p');
SELECT quota_clock_advance('3.999999 s');
SELECT across_claim('p');
SELECT quota_clock_advance('1 us');
SELECT across_claim('p');
SELECT across_finish();

-- one rollback gives back to more limits than are remembered: all who wait look again
SELECT across_clear();
UPDATE quota.limits SET per = '{tenant}' WHERE provider IS NULL AND name = 'across_rate';
INSERT INTO quota.jobs (tenant, provider, endpoint) SELECT 'across_' || n, 'across_p', '/x' FROM generate_series(1, 40) n;
BEGIN;
SELECT count(*) FROM generate_series(1, 40) n WHERE (quota_acquire('across_' || n, 'across_r', '/x')).admitted;
SELECT count(*) FROM across_claim('p', 50);
ROLLBACK;
SELECT count(*) FROM across_claim('p', 50);
SELECT across_clear();
UPDATE quota.limits SET per = '{}' WHERE provider IS NULL AND name = 'across_rate';

-- hundreds of tenants wait at three providers: a token costs a refusal or two at each
-- provider that is asked for, whoever waits, and none is lost
INSERT INTO quota.jobs (tenant, provider, endpoint)
	SELECT 'across_' || n, 'across_' || p, '/x' FROM generate_series(1, 300) n, unnest('{p,q,r}'::text[]) p;
SELECT count(*) AS none FROM unnest('{p,q,r}'::text[]) p, across_claim(p, 10);
SELECT count(*) AS parked FROM quota.stat_flows WHERE provider LIKE 'across%' AND state = 'parked';
CREATE FUNCTION across_run(n int, OUT p bigint, OUT q bigint, OUT r bigint, OUT most_refusals bigint) LANGUAGE plpgsql AS $$
DECLARE
	before bigint;
BEGIN
	p = 0; q = 0; r = 0; most_refusals = 0;
	FOR i IN 0 .. n - 1 LOOP
		PERFORM quota_clock_advance('4 s');
		before = across_refusals();
		-- workers of the three come first in turns
		FOR k IN i .. i + 2 LOOP
			IF k % 3 = 0 THEN p = p + (SELECT count(*) FROM across_claim('p', 5));
			ELSIF k % 3 = 1 THEN q = q + (SELECT count(*) FROM across_claim('q', 5));
			ELSE r = r + (SELECT count(*) FROM across_claim('r', 5));
			END IF;
		END LOOP;
		most_refusals = greatest(most_refusals, across_refusals() - before);
	END LOOP;
END $$;
SELECT * FROM across_run(30);
-- of each provider the tenants that waited, one after the other
SELECT provider, count(DISTINCT tenant) FROM quota.jobs WHERE provider LIKE 'across%' AND state = 'running' AND endpoint = '/x' GROUP BY 1 ORDER BY 1;
-- who asks alone has everything
SELECT quota_clock_advance('4 s');
SELECT count(*) FROM across_claim('q', 5);
SELECT quota_clock_advance('4 s');
SELECT count(*) FROM across_claim('q', 5);

-- a try for a job that is too dear gives back what it took for the others of its flow:
-- that frees nobody who was refused before, or two providers would free each other
SELECT across_clear();
UPDATE quota.limits SET amount = 3, burst = 3 WHERE provider IS NULL AND name = 'across_rate';
SELECT quota_clock_advance('1 h');
SELECT admitted FROM quota_acquire('across_b', 'across_p', '/x', 2);
INSERT INTO quota.jobs (tenant, provider, endpoint, units)
	SELECT 'across_a', 'across_' || p, '/x', '{"request": 3}' FROM unnest('{p,q,r}'::text[]) p;
SELECT count(*) FROM unnest('{p,q,r}'::text[]) p, across_claim(p);
SELECT across_refusals() AS before \gset
SELECT count(*) FROM generate_series(1, 5), unnest('{p,q,r}'::text[]) p, across_claim(p);
SELECT across_refusals() - :before AS more_refusals;
SELECT provider, state, reason, wake_at FROM quota.stat_flows WHERE provider LIKE 'across%' AND depth > 0 ORDER BY 1;
SELECT quota_clock_advance('3 s');
SELECT across_claim('r');

SELECT across_clear();
SELECT * FROM quota_audit();
DELETE FROM quota.limits WHERE provider IS NULL AND name LIKE 'across%';
DROP PROCEDURE across_shape, across_ends;
DROP FUNCTION across_claim, across_add, across_finish, across_clear, across_refusals, across_run;
