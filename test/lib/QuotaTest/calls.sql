/* Copyright (c) 2026, the quota authors
 *
 * What clients of test/t/050_g1_g3_kinds.pl do, and write down of it.  Times are
 * microseconds of the clock that stands still while nobody moves it; ticks put in order
 * what happens between.
 */
CREATE SEQUENCE tick;
CREATE FUNCTION now_us() RETURNS bigint LANGUAGE sql AS 'SELECT (extract(epoch FROM quota_clock()) * 1000000)::bigint';

-- id is the first tick of the call; tokens and credits are of each of the n
CREATE TABLE admitted (id bigint PRIMARY KEY, tick1 bigint, at0 bigint, at1 bigint, tenant text, provider text, endpoint text,
	"user" text, class text, n int, token int, credit int, permit bigint, xact xid8);
CREATE TABLE refused (id bigint, tick1 bigint, names text[]);
CREATE TABLE settled (id bigint, how text, token int, credit int);
CREATE TABLE ended (id bigint, tick bigint);
CREATE TABLE failed (id bigint, tick bigint, at bigint, state text);
CREATE TABLE mine (client int, id bigint);
CREATE INDEX ON mine (client);
CREATE TABLE instants (tick bigint, at bigint);
CREATE TABLE versions (name text, amount bigint, burst bigint, period bigint, binds boolean, refuses boolean,
	tick0 bigint, at0 bigint, tick1 bigint, at1 bigint);

-- what a settlement gives back comes with the end of its transaction, not before
CREATE FUNCTION ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO ended VALUES (NEW.id, nextval('tick'));
	RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER ended AFTER INSERT ON settled DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION ended();

CREATE FUNCTION ask(client int, r bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	a admitted;
	d quota_decision;
	units jsonb;
	measures boolean := r / 1000 % 3 > 0;
BEGIN
	a.provider := (ARRAY['b', 'l', 'f', 's', 'c', 'a', 'm', 'm'])[1 + r % 8];
	a.tenant := 't' || r / 8 % 3;
	a."user" := (ARRAY['u1', 'u2', NULL])[1 + r / 24 % 3];
	a.endpoint := (ARRAY['x1', 'x2', 'y', NULL])[1 + r / 72 % 4];
	a.class := (ARRAY['interactive', 'event', 'batch'])[1 + r / 288 % 3];
	a.n := (ARRAY[1, 1, 2, 4])[1 + r / 3000 % 4];
	a.token := CASE WHEN measures THEN 1 + r / 12000 % 5 ELSE 2 END;
	a.credit := CASE WHEN measures THEN 1 + r / 60000 % 3 ELSE 2 END;
	IF measures THEN
		units := jsonb_build_object('token', a.token, 'credit', a.credit);
	END IF;
	a.xact := pg_current_xact_id();
	a.id := nextval('tick');
	a.at0 := now_us();
	d := quota_acquire(a.tenant, a.provider, a.endpoint, a.n, units, a.class, a."user", partial => r / 7 % 2 = 0);
	a.at1 := now_us();
	a.tick1 := nextval('tick');
	a.n := d.granted;
	a.permit := d.permit;
	IF NOT d.admitted THEN
		INSERT INTO refused SELECT a.id, a.tick1, array_agg(e ->> 'name') FROM jsonb_array_elements(d.exhausted) e;
		RETURN;
	END IF;
	INSERT INTO admitted SELECT a.*;
	IF d.permit IS NOT NULL THEN
		INSERT INTO mine VALUES (client, a.id);
	END IF;
END $$;

-- The call is over: how, r says.  Rates keep what was settled in the transaction that
-- acquired it, even if that rolls back: the server's log knows.
CREATE FUNCTION over(call bigint, r bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	a admitted;
	s settled;
BEGIN
	SELECT * INTO STRICT a FROM admitted WHERE id = call;
	s.id := call;
	s.how := (ARRAY['settle', 'settle', 'less', 'less', 'more', 'release', 'not billed', 'extend'])[1 + r % 8];
	s.token := CASE s.how WHEN 'less' THEN a.token / 2 WHEN 'more' THEN a.token + 2 WHEN 'release' THEN 0 ELSE a.token END;
	s.credit := CASE s.how WHEN 'less' THEN a.credit / 2 WHEN 'more' THEN a.credit + 1 WHEN 'release' THEN 0 WHEN 'not billed' THEN 0 ELSE a.credit END;
	IF s.how = 'extend' THEN
		PERFORM quota_extend(a.permit, '1 s');
	END IF;
	IF s.how = 'release' THEN
		PERFORM quota_release(a.permit);
	ELSIF s.how IN ('less', 'more') THEN
		PERFORM quota_settle(a.permit, units => jsonb_build_object('token', s.token, 'credit', s.credit));
	ELSE
		PERFORM quota_settle(a.permit, billed => s.how <> 'not billed');
	END IF;
	-- one with credits that was settled before, for the same credits: nothing was done
	IF EXISTS (SELECT FROM quota.ledger WHERE permit = a.permit) AND NOT EXISTS (
		SELECT FROM quota.ledger WHERE permit = a.permit AND kind IN ('settle', 'release', 'late') AND xid = pg_current_xact_id())
	THEN
		INSERT INTO failed VALUES (call, nextval('tick'), now_us(), 'again');
		RETURN;
	END IF;
	INSERT INTO settled SELECT s.*;
	IF a.xact = pg_current_xact_id() AND s.how <> 'release' THEN
		RAISE LOG 'sent: %|', concat_ws('|', a.id, a.tenant, a.provider, coalesce(a.endpoint, ''), coalesce(a."user", ''), a.class, a.n, a.token, s.token);
	END IF;
EXCEPTION WHEN SQLSTATE '55000' OR SQLSTATE '55P03' THEN
	INSERT INTO failed VALUES (call, nextval('tick'), now_us(), SQLSTATE);
END $$;

CREATE FUNCTION finish(client int, r bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	call bigint;
BEGIN
	DELETE FROM mine WHERE ctid = (SELECT ctid FROM mine WHERE mine.client = finish.client ORDER BY random() LIMIT 1) RETURNING id INTO call;
	IF call IS NOT NULL AND r % 11 > 0 THEN    -- else it is forgotten
		PERFORM over(call, r / 11);
	END IF;
END $$;

-- somebody else's, who may be at it
CREATE FUNCTION steal(r bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	call bigint;
BEGIN
	SELECT id INTO call FROM mine OFFSET r % 5 LIMIT 1;
	IF call IS NOT NULL THEN
		PERFORM over(call, r / 5);
	END IF;
END $$;

CREATE FUNCTION often(client int, r bigint, n int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. n LOOP
		BEGIN
			PERFORM ask(client, r + i * 7919);
			PERFORM finish(client, r + i);
			IF i % 2 = 0 THEN
				RAISE no_data_found;
			END IF;
		EXCEPTION WHEN no_data_found THEN
		END;
	END LOOP;
END $$;

-- the clock, which nobody else moves
CREATE FUNCTION move(by interval) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	before bigint := nextval('tick');
BEGIN
	PERFORM quota_clock_advance(by);
	INSERT INTO instants VALUES (before, now_us());
END $$;

-- a limit changes, between these two readings of the clock
CREATE PROCEDURE change(what text, amount numeric, burst bigint, period interval, enforcement text) LANGUAGE plpgsql AS $$
DECLARE
	v versions;
BEGIN
	v.tick0 := nextval('tick');
	v.at0 := now_us();
	UPDATE quota.limits l SET amount = change.amount, burst = change.burst, period = change.period, enforcement = change.enforcement
	WHERE name = what;
	COMMIT;
	INSERT INTO versions SELECT what, l.amount, l.burst, extract(epoch FROM l.period) * 1000000,
		l.enforcement = 'hard' AND l.amount IS NOT NULL, l.enforcement = 'hard', v.tick0, v.at0, nextval('tick'), now_us()
	FROM quota.limits l WHERE name = what;
END $$;
