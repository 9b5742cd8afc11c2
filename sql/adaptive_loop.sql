-- A closed loop: a provider that allows 100 calls a second halves that without a word.
-- Twenty workers call whenever they may, each call 30 to 70 ms; a refusal pauses all of
-- them for a second, as Retry-After or the provider's cooldown says.
SET timezone = 'UTC';
SET statement_timeout = '120 s';
SELECT quota_clock_set('2026-05-03 00:00:00+00');

INSERT INTO quota.tiers (tier) VALUES ('alo');
INSERT INTO quota.tenants (tenant, tier) SELECT 'alo_' || i, 'alo' FROM generate_series(0, 4) AS i;
INSERT INTO quota.providers (provider, safety, share_reserve, cooldown) VALUES ('alo', 1, 0, '1 s');
INSERT INTO quota.limits (provider, name, kind, amount, period, burst, adaptive, external) VALUES
	('alo', 'rate', 'token_bucket', 100, '1 s', 5, true, true),
	('alo', 'flight', 'concurrency', 20, NULL, NULL, false, false);
-- it means everybody, whoever calls
INSERT INTO quota.answers (provider, status, means, scope) VALUES ('alo', 429, 'rate_limited', 'provider');

CREATE TABLE alo_result (
	told text,					-- does a refusal tell a time: never or always
	in_flight int,				-- calls under way when the first refusal is told
	of_these int,				-- of these: refused
	later int,					-- refused that began later,
	decreases int,				-- for so many decreases after the first
	while_paused int,			-- admitted although all are paused
	reached int,				-- seconds after the drop until one in which 90 % of the new limit are used
	used numeric,				-- of the new limit, from ten seconds after the drop on,
	low numeric,				-- and parts of the amount
	high numeric);

-- The drop is after 15 of so many seconds.  Each step is a transaction: permits return
-- when the one that settles them commits.
CREATE PROCEDURE alo_run(told text, seconds int) LANGUAGE plpgsql AS $$
DECLARE
	r alo_result;
	workers constant int = 20;
	permits bigint[] = array_fill(NULL::bigint, ARRAY[workers]);
	began int[] = array_fill(0, ARRAY[workers]);
	ends int[] = array_fill(0, ARRAY[workers]);
	fine boolean[] = array_fill(true, ARRAY[workers]);
	hidden numeric = 100;
	tokens numeric = 10;
	first_told int;				-- the step
	paused_until int = 0;
	passed int[] = array_fill(0, ARRAY[seconds]);
	part numeric;
	before numeric = 1;
	d quota_decision;
BEGIN
	-- what was learned before is forgotten
	UPDATE quota.limits SET adaptive = false WHERE name = 'rate' AND provider = 'alo';
	COMMIT;
	PERFORM quota_clock_advance('1 minute');
	PERFORM quota_release((quota_acquire('alo_0', 'alo')).permit);
	UPDATE quota.limits SET adaptive = true WHERE name = 'rate' AND provider = 'alo';
	COMMIT;
	PERFORM setseed(0.4);
	r.told = told; r.of_these = 0; r.later = 0; r.decreases = 0; r.while_paused = 0; r.low = 1; r.high = 0;
	FOR step IN 1 .. seconds * 100 - 1 LOOP
		PERFORM quota_clock_advance('10 ms');
		IF step = 1500 THEN
			hidden = 50;
		END IF;
		tokens = least(tokens + hidden / 100, 10);
		FOR w IN 1 .. workers LOOP
			CONTINUE WHEN permits[w] IS NULL OR ends[w] > step;
			IF fine[w] THEN
				PERFORM quota_settle(permits[w], status => 200, latency => (step - began[w]) * interval '10 ms');
			ELSE
				PERFORM quota_settle(permits[w], status => 429, headers => CASE told WHEN 'always' THEN '{"Retry-After": "1"}'::jsonb END,
					latency => (step - began[w]) * interval '10 ms');
				paused_until = step + 100;
				IF first_told IS NULL THEN
					first_told = step;
					r.in_flight = workers - (SELECT count(*) FROM unnest(permits) AS p WHERE p IS NULL);
				END IF;
				IF began[w] < first_told THEN
					r.of_these = r.of_these + 1;
				ELSE
					r.later = r.later + 1;
				END IF;
			END IF;
			permits[w] = NULL;
		END LOOP;
		COMMIT;
		FOR w IN 1 .. workers LOOP
			CONTINUE WHEN permits[w] IS NOT NULL;
			SELECT * INTO d FROM quota_acquire('alo_' || w % 5, 'alo');
			EXIT WHEN NOT d.admitted;
			r.while_paused = r.while_paused + (step < paused_until)::int;
			permits[w] = d.permit;
			began[w] = step;
			ends[w] = step + 3 + (random() * 4)::int;
			fine[w] = tokens >= 1;
			IF fine[w] THEN
				tokens = tokens - 1;
				passed[step / 100 + 1] = passed[step / 100 + 1] + 1;
			END IF;
		END LOOP;
		COMMIT;
		CONTINUE WHEN step % 10 <> 0;
		SELECT used_part INTO part FROM quota.stat_adaptive WHERE provider = 'alo';
		r.decreases = r.decreases + coalesce(first_told < step - 10 AND part < before, false)::int;
		before = part;
		IF step >= 2500 THEN
			r.low = least(r.low, part);
			r.high = greatest(r.high, part);
		END IF;
	END LOOP;
	r.reached = (SELECT min(i) - 16 FROM generate_series(16, seconds) AS i WHERE passed[i] >= 45);
	r.used = (SELECT round(sum(passed[i]) / (50.0 * count(*)), 3) FROM generate_series(26, seconds) AS i);
	INSERT INTO alo_result SELECT r.*;
END $$;
CALL alo_run('never', 60);
CALL alo_run('always', 60);

-- The first refusal reaches everybody at the next decision: none is admitted while all
-- are paused.  There is at most one refusal for each call under way and for each
-- decrease, which is what was tried and did not work.  90 % of the new limit are used
-- within ten periods, and from then on, and the part that is used does not swing by more
-- than a tenth.
SELECT told, while_paused, of_these <= in_flight AND of_these + later <= in_flight + decreases AS few,
	reached <= 10 AS reached, used >= 0.9 AS used, low >= 0.45 AND high <= 0.55 AS steady
FROM alo_result;
SELECT quota_clock_set(NULL);
