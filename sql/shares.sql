-- Fair shares of limits that tenants share, for direct calls, and headroom of classes:
-- by the test clock, in steps of a millisecond.
SET timezone = 'UTC';
SELECT quota_clock_set('2026-01-01 00:00:00+00');
INSERT INTO quota.tiers (tier) VALUES ('shares');
INSERT INTO quota.providers (provider, safety) VALUES ('shares', 1);
INSERT INTO quota.limits (provider, name, amount, period, burst) VALUES ('shares', 'pool', 120, '1 s', 60);

CREATE PROCEDURE shares_tenants(weights numeric[]) LANGUAGE sql AS $$
	DELETE FROM quota.tenants WHERE tier = 'shares';
	INSERT INTO quota.tenants (tenant, tier, weight)
		SELECT 'shares_' || n, 'shares', weights[n] FROM generate_subscripts(weights, 1) n;
$$;

-- What each is granted a second from skip to ms: it wants so many calls a second
-- (NULL = any number) and asks up to so many times each millisecond.
CREATE FUNCTION shares_run(wants numeric[], asks int[], ms int, skip int)
	RETURNS numeric[] LANGUAGE plpgsql AS $$
DECLARE
	n int = array_length(wants, 1);
	got numeric[] = array_fill(0, ARRAY[n]);
	backlog numeric[] = array_fill(0, ARRAY[n]);
BEGIN
	/* nothing is saved up, or owed */
	PERFORM quota_clock_advance('1 min');
	FOR i IN 1 .. ms LOOP
		PERFORM quota_clock_advance('1 ms');
		FOR t IN 1 .. n LOOP
			backlog[t] = least(backlog[t] + wants[t] / 1000, wants[t]);
			FOR k IN 1 .. asks[t] LOOP
				EXIT WHEN backlog[t] < 1;
				IF (quota_acquire('shares_' || t, 'shares')).admitted THEN
					backlog[t] = backlog[t] - 1;
					got[t] = got[t] + (i > skip)::int;
				END IF;
			END LOOP;
		END LOOP;
	END LOOP;
	RETURN (SELECT array_agg(round(g * 1000 / (ms - skip), 1) ORDER BY o)
			FROM unnest(got) WITH ORDINALITY u (g, o));
END $$;

-- each within 5 % or one call a second of what is fair
CREATE FUNCTION shares_fair(got numeric[], fair numeric[]) RETURNS boolean LANGUAGE sql AS $$
	SELECT bool_and(abs(g - f) <= greatest(f * 0.05, 1)) FROM unnest(got, fair) u (g, f);
$$;

-- scenario 13 (Doorman): the numbers are wants and what is fair
CALL shares_tenants('{1,1,1}');
SELECT got, shares_fair(got, '{60,50,10}') FROM shares_run('{1000,50,10}', '{1,1,1}', 5000, 2000) got;
SELECT got, shares_fair(got, '{55,55,10}') FROM shares_run('{1000,60,10}', '{1,1,1}', 5000, 2000) got;
-- nor does it matter who asks more often
SELECT got, shares_fair(got, '{60,50,10}') FROM shares_run('{1000,50,10}', '{20,1,1}', 4000, 2000) got;
SELECT got, shares_fair(got, '{10,50,60}') FROM shares_run('{10,50,1000}', '{1,20,1}', 4000, 2000) got;
CALL shares_tenants('{6,4,2}');
SELECT got, shares_fair(got, '{60,40,20}') FROM shares_run('{NULL,NULL,NULL}', '{1,10,1}', 5000, 2000) got;
UPDATE quota.limits SET amount = 1000, burst = 100 WHERE name = 'pool';
CALL shares_tenants('{10,10,30}');
SELECT got, shares_fair(got, '{200,200,600}') FROM shares_run('{2000,500,700}', '{3,2,2}', 4000, 2000) got;

-- the current shares, and who wants more
SELECT limit_name, tenant, weight, share, in_flight FROM quota.stat_shares WHERE provider = 'shares' ORDER BY tenant;
-- an UPDATE of a weight acts at the tenant's next call
UPDATE quota.tenants SET weight = 30 WHERE tenant = 'shares_1';
SELECT (quota_acquire('shares_1', 'shares')).admitted;
SELECT tenant, weight, share FROM quota.stat_shares WHERE provider = 'shares' ORDER BY tenant;
SELECT got, shares_fair(got, '{429,143,429}') FROM shares_run('{NULL,NULL,NULL}', '{3,3,3}', 2000, 1000) got;

-- ten greedy ones of weights 1 to 4, one of which asks a hundred times as often: in
-- two seconds each has its share
UPDATE quota.limits SET amount = 100, burst = 50 WHERE name = 'pool';
CALL shares_tenants('{1,2,3,4,1,2,3,4,1,2}');
SELECT got, shares_fair(got, '{4.3,8.7,13.0,17.4,4.3,8.7,13.0,17.4,4.3,8.7}')
	FROM shares_run(array_fill(NULL::numeric, '{10}'), '{100,1,1,1,1,1,1,1,1,1}', 4000, 2000) got;
-- the next call of one that has not asked before is admitted, while they hammer; so
-- are some more of them
INSERT INTO quota.tenants (tenant, tier) SELECT 'shares_new_' || n, 'shares' FROM generate_series(1, 10) n;
SELECT n, (quota_acquire('shares_1', 'shares')).reason,
	(quota_acquire('shares_new_' || n, 'shares')).reason AS new FROM generate_series(1, 10) n;
-- what the refused one is told
SELECT admitted, reason, limit_name, remaining, not_before, exhausted FROM quota_acquire('shares_1', 'shares');
SELECT needed, level, capacity, admits, reason, explanation FROM quota_explain('shares_1', 'shares');
SELECT needed, level, capacity, admits, reason, explanation FROM quota_explain('shares_new_1', 'shares');
-- then it is admitted
DO $$
DECLARE
	d quota_decision = quota_peek('shares_1', 'shares');
BEGIN
	PERFORM quota_clock_advance(d.not_before - now) FROM quota_clock() now;
	RAISE NOTICE '% then', (quota_acquire('shares_1', 'shares')).reason;
END $$;

-- a lone tenant gets everything: the burst, and every call as it refills
SELECT quota_clock_advance('1 min');
SELECT granted, reason FROM quota_acquire('shares_1', 'shares', n => 50);
SELECT shares_run('{NULL}', '{1}', 2000, 1000);

-- a limit that holds one call acts in time: who wakes gets the next one
UPDATE quota.limits SET amount = 10, burst = 1 WHERE name = 'pool';
CALL shares_tenants('{1,1,2}');
SELECT got, shares_fair(got, '{2.5,2.5,5}') FROM shares_run('{NULL,NULL,NULL}', '{1,50,1}', 4000, 0) got;
INSERT INTO quota.tenants (tenant, tier) VALUES ('shares_4', 'shares');
SELECT string_agg((quota_acquire('shares_2', 'shares')).reason, ' ') AS "2", min((quota_acquire('shares_4', 'shares')).reason) AS "4" FROM generate_series(1, 3);
SELECT quota_clock_advance('100 ms');
SELECT string_agg((quota_acquire('shares_' || n, 'shares')).reason, ' ' ORDER BY n) AS "1 to 4" FROM generate_series(1, 4) n;

-- calls that are rolled back do not count for ever
UPDATE quota.limits SET amount = 100, burst = 50 WHERE name = 'pool';
CALL shares_tenants('{1,1}');
SELECT shares_run('{NULL,NULL}', '{1,1}', 1000, 0);
SELECT quota_clock_advance('300 ms');
BEGIN;
SELECT reason FROM quota_acquire('shares_1', 'shares', n => 15);
ROLLBACK;
SELECT count(*) FILTER (WHERE r1 = 'ok'), count(*) FILTER (WHERE r2 = 'ok') FROM (
	SELECT quota_clock_advance('10 ms'), (quota_acquire('shares_2', 'shares')).reason AS r2,
		(quota_acquire('shares_1', 'shares')).reason AS r1
	FROM generate_series(1, 40) OFFSET 0) s;

-- share_reserve 0: first come, first served
UPDATE quota.providers SET share_reserve = 0 WHERE provider = 'shares';
SELECT shares_run('{NULL,NULL}', '{10,1}', 1000, 500);
SELECT count(*) FROM quota.stat_shares WHERE provider = 'shares';
UPDATE quota.providers SET share_reserve = 0.5 WHERE provider = 'shares';

-- scenario 14: places in flight that were borrowed are given up as calls end
DELETE FROM quota.limits WHERE provider = 'shares';
INSERT INTO quota.limits (provider, name, kind, amount) VALUES ('shares', 'flights', 'concurrency', 10);
INSERT INTO quota.tenants (tenant, tier, weight) VALUES ('shares_live', 'shares', 7), ('shares_batch', 'shares', 3);
CREATE TABLE shares_permits (permit bigint, tenant text);
CREATE FUNCTION shares_fly(who text, n int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	d quota_decision;
	took bigint = 0;
BEGIN
	FOR i IN 1 .. n LOOP
		d = quota_acquire(who, 'shares');
		IF d.admitted THEN
			INSERT INTO shares_permits VALUES (d.permit, who);
			took = took + 1;
		END IF;
	END LOOP;
	RETURN took;
END $$;
CREATE PROCEDURE shares_land(who text, n int) LANGUAGE plpgsql AS $$
DECLARE
	p bigint;
BEGIN
	FOR p IN SELECT permit FROM shares_permits WHERE tenant = who LIMIT n LOOP
		PERFORM quota_settle(p);
		DELETE FROM shares_permits WHERE permit = p;
	END LOOP;
END $$;
SELECT shares_fly('shares_batch', 12);
SELECT shares_fly('shares_live', 7);
CALL shares_land('shares_batch', 4);
SELECT reason, not_before - now AS waits FROM quota_acquire('shares_batch', 'shares'), quota_clock() now;
SELECT shares_fly('shares_batch', 4), shares_fly('shares_live', 7);
CALL shares_land('shares_batch', 6);
SELECT shares_fly('shares_batch', 6), shares_fly('shares_live', 7);
SELECT shares_fly('shares_batch', 6), shares_fly('shares_live', 7);
SELECT tenant, weight, share, in_flight, wants FROM quota.stat_shares WHERE provider = 'shares' AND limit_name = 'flights' ORDER BY tenant;
SELECT explanation FROM quota_explain('shares_batch', 'shares');
-- never above 10; what is not wanted any more is lent out a second later
CALL shares_land('shares_live', 7);
SELECT shares_fly('shares_batch', 6);
SELECT quota_clock_advance('1 s');
SELECT shares_fly('shares_batch', 12);
-- a place taken and rolled back was never in flight
CALL shares_land('shares_batch', 10);
BEGIN;
SELECT shares_fly('shares_live', 3);
ROLLBACK;
SELECT tenant, in_flight FROM quota.stat_shares WHERE provider = 'shares' AND in_flight > 0;
-- of a lease of several, what is given back is not
SELECT permit AS p FROM quota_acquire('shares_live', 'shares', n => 5) \gset
SELECT quota_release(:p, 3);
SELECT tenant, in_flight FROM quota.stat_shares WHERE provider = 'shares' AND in_flight > 0;
SELECT quota_settle(:p);
SELECT tenant, in_flight FROM quota.stat_shares WHERE provider = 'shares' AND in_flight > 0;
DELETE FROM quota.limits WHERE provider = 'shares';

UPDATE quota.classes SET headroom = 0.1 WHERE class = 'batch';
-- class headroom: batch leaves a tenth, of limits that tenants share and of their own
CREATE FUNCTION shares_take(class text, n int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	took int = 0;
	d quota_decision;
BEGIN
	FOR i IN 1 .. n LOOP
		d = quota_acquire('shares_live', 'shares', class => class);
		EXIT WHEN NOT d.admitted;
		took = took + 1;
	END LOOP;
	RETURN format('%s, then %s of %s, %s', took, d.reason, d.limit_name, d.not_before);
END $$;
INSERT INTO quota.limits (provider, name, amount, period, burst) VALUES ('shares', 'pool', 1, '1 s', 20);
SELECT shares_take('batch', 20);
SELECT explanation FROM quota_explain('shares_live', 'shares', class => 'batch');
SELECT shares_take('interactive', 20);
-- batch again when there is room for the headroom and a call
SELECT not_before FROM quota_peek('shares_live', 'shares', class => 'batch');
SELECT quota_clock_advance('2.999999 s');
SELECT reason FROM quota_peek('shares_live', 'shares', class => 'batch');
SELECT quota_clock_advance('0.000001 s');
SELECT reason FROM quota_acquire('shares_live', 'shares', class => 'batch');
-- an idle limit always admits a call, however dear
SELECT quota_clock_advance('1 min');
SELECT reason FROM quota_peek('shares_live', 'shares', class => 'batch', n => 20);
UPDATE quota.limits SET per = '{tenant}' WHERE provider = 'shares';
SELECT shares_take('batch', 20);
SELECT shares_take('event', 20);
-- a limit that holds one call: batch waits a refill after interactive was refused
UPDATE quota.limits SET per = '{}', amount = 1, burst = 1 WHERE provider = 'shares';
SELECT quota_clock_advance('1 min');
SELECT shares_take('batch', 2);
SELECT quota_clock_advance('600 ms');
SELECT shares_take('interactive', 2);
SELECT quota_clock_advance('400 ms');
SELECT shares_take('batch', 2);
SELECT shares_take('interactive', 1);
-- places in flight
UPDATE quota.limits SET kind = 'concurrency', amount = 20, period = NULL, burst = NULL WHERE provider = 'shares';
SELECT shares_take('batch', 20);
SELECT shares_take('interactive', 20);
DELETE FROM quota.limits WHERE provider = 'shares';

-- jobs: those of batch wait until there is room, the others go on
INSERT INTO quota.limits (provider, name, amount, period, burst) VALUES ('shares', 'pool', 1, '1 s', 10);
INSERT INTO quota.jobs (tenant, provider, class) SELECT 'shares_live', 'shares', 'batch' FROM generate_series(1, 12);
SELECT count(*) FROM quota_dequeue('shares', 12);
SELECT tenant, class, state, reason, wake_at FROM quota.stat_flows WHERE provider = 'shares';
INSERT INTO quota.jobs (tenant, provider, class) VALUES ('shares_live', 'shares', 'interactive');
SELECT class FROM quota_dequeue('shares', 12);
SELECT quota_clock_advance('1.999999 s');
SELECT class FROM quota_dequeue('shares', 12);
SELECT quota_clock_advance('0.000001 s');
SELECT class FROM quota_dequeue('shares', 12);
-- what jobs took is part of their tenant's share; none is refused by that
SELECT tenant, share, in_flight, wants FROM quota.stat_shares WHERE provider = 'shares' AND in_flight IS NULL;

-- nonsense is refused
\set VERBOSITY terse
UPDATE quota.providers SET share_reserve = 1.1 WHERE provider = 'shares';
UPDATE quota.providers SET burst_multiplier = -1 WHERE provider = 'shares';
UPDATE quota.providers SET active_window = '61 s' WHERE provider = 'shares';
UPDATE quota.classes SET headroom = 1.1 WHERE class = 'event';
SELECT class, headroom FROM quota.classes ORDER BY rank;

\set VERBOSITY default
SELECT count(quota_complete(id, attempt)) FROM quota.jobs WHERE provider = 'shares' AND state = 'running';
SELECT count(quota_cancel(id)) FROM quota.jobs WHERE provider = 'shares' AND state = 'queued';
DELETE FROM quota.jobs WHERE provider = 'shares';
DELETE FROM quota.limits WHERE provider = 'shares';
DELETE FROM quota.tenants WHERE tier = 'shares';
DELETE FROM quota.tiers WHERE tier = 'shares';
DELETE FROM quota.providers WHERE provider = 'shares';
DROP PROCEDURE shares_tenants, shares_land;
DROP FUNCTION shares_run, shares_fair, shares_fly, shares_take;
DROP TABLE shares_permits;
SELECT quota_clock_set(NULL);
