-- Grants that expire: what of them is spent, what is gone and when, and who says so.
SELECT quota_clock_set('2026-05-10 12:00:00+00');
SET timezone = 'UTC';
INSERT INTO quota.tiers (tier) VALUES ('exp');
INSERT INTO quota.tenants (tenant, tier) SELECT 'exp_' || n, 'exp' FROM unnest('{a,b,c,d,e,f,g,h,i,j,k,m,n,o,p}'::text[]) n;
INSERT INTO quota.providers (provider, lost_permit) VALUES ('exp', 'charge'), ('expr', 'refund');
INSERT INTO quota.limits (provider, name, per, unit, kind, amount, period, settle_over, settle_late, permit_lifetime, external) VALUES
	('exp', 'own', '{tenant}', 'credit', 'allowance', 100, '1 month', 'debt', 'charge_now', '1 hour', false),
	('expr', 'own', '{tenant}', 'credit', 'allowance', 100, '1 month', 'debt', 'charge_now', '1 hour', false);
CREATE FUNCTION exp_bal(t text, p text DEFAULT 'exp') RETURNS TABLE (used bigint, held bigint, remaining bigint, expiring bigint, expires_at timestamptz)
LANGUAGE SQL AS $$SELECT b.used, b.held, b.remaining, b.expiring, b.expires_at FROM quota_balance(t, p) b$$;
CREATE FUNCTION exp_spend(t text, n bigint, p text DEFAULT 'exp') RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
	d quota_decision := quota_hold(t, p, 'credit', n);
BEGIN
	IF NOT d.admitted THEN
		RAISE WARNING 'refused: % of %', n, t;
	END IF;
	PERFORM quota_settle(d.permit);
	RETURN d.permit;
END $$;
\set ECHO none
\i test/lib/await.sql
\set ECHO all

-- what is not spent at its instant is gone: the grant is spent before the allowance
SELECT quota_grant('exp_a', 'exp', 'own', 50, 'a gift', expires_at => '2026-05-10 13:00:00+00');
SELECT * FROM exp_bal('exp_a');
SELECT exp_spend('exp_a', 20) > 0 AS spent;
SELECT * FROM exp_bal('exp_a');
SELECT quota_clock_set('2026-05-10 12:59:59.999999+00');
SELECT * FROM exp_bal('exp_a');
SELECT quota_clock_set('2026-05-10 13:00:00+00');
SELECT * FROM exp_bal('exp_a');
SELECT admitted, reason, remaining, not_before FROM quota_hold('exp_a', 'exp', 'credit', 101);
SELECT exp_spend('exp_a', 100) > 0 AS spent;
SELECT admitted, reason, remaining, not_before FROM quota_hold('exp_a', 'exp', 'credit', 1);
SELECT * FROM quota_audit();

-- all of it was spent: nothing expires
SELECT quota_grant('exp_b', 'exp', 'own', 50, expires_at => '2026-05-10 14:00:00+00');
SELECT exp_spend('exp_b', 120) > 0 AS spent;
SELECT * FROM exp_bal('exp_b');
SELECT quota_clock_set('2026-05-10 14:00:00+00');
SELECT * FROM exp_bal('exp_b');

-- what was used before it was given is not spent of it, at the very instant neither
SELECT exp_spend('exp_c', 80) > 0 AS spent;
SELECT quota_grant('exp_c', 'exp', 'own', 50, expires_at => '2026-05-10 15:00:00+00');
SELECT * FROM exp_bal('exp_c');
SELECT quota_clock_set('2026-05-10 15:00:00+00');
SELECT * FROM exp_bal('exp_c');

-- of several the one that expires soonest is spent first; those of one instant go together
SELECT quota_grant('exp_d', 'exp', 'own', 10, expires_at => '2026-05-10 18:00:00+00');
SELECT quota_grant('exp_d', 'exp', 'own', 20, expires_at => '2026-05-10 16:00:00+00');
SELECT quota_grant('exp_d', 'exp', 'own', 30, expires_at => '2026-05-10 17:00:00+00');
SELECT quota_grant('exp_d', 'exp', 'own', 5, expires_at => '2026-05-10 17:00:00+00');
SELECT quota_grant('exp_d', 'exp', 'own', 7);
SELECT * FROM exp_bal('exp_d');
SELECT exp_spend('exp_d', 25) > 0 AS spent;
SELECT * FROM exp_bal('exp_d');
SELECT quota_clock_set('2026-05-10 16:00:00+00');
SELECT * FROM exp_bal('exp_d');
SELECT quota_clock_set('2026-05-10 17:00:00+00');
SELECT * FROM exp_bal('exp_d');
SELECT exp_spend('exp_d', 4) > 0 AS spent;
SELECT quota_clock_set('2026-05-10 18:00:00+00');
SELECT * FROM exp_bal('exp_d');
SELECT * FROM quota_audit();

-- credits that are held when it expires stay good; what comes back then is gone as far
-- as it was of the grant
SELECT quota_grant('exp_e', 'exp', 'own', 50, expires_at => '2026-05-10 18:30:00+00');
SELECT permit AS e1 FROM quota_hold('exp_e', 'exp', 'credit', 30) \gset
SELECT permit AS e2 FROM quota_hold('exp_e', 'exp', 'credit', 60) \gset
SELECT * FROM exp_bal('exp_e');
SELECT quota_clock_set('2026-05-10 18:30:00+00');
SELECT * FROM exp_bal('exp_e');
SELECT quota_settle(:e1, units => '{"credit": 30}');
SELECT * FROM exp_bal('exp_e');
SELECT quota_settle(:e2, units => '{"credit": 15}'); -- 45 return: 40 of the allowance, 5 of the grant
SELECT * FROM exp_bal('exp_e');
SELECT quota_refund(:e1, 10);
SELECT * FROM exp_bal('exp_e');
SELECT * FROM quota_audit();

-- what a call of before turns out to have used more is spent of it as well
SELECT quota_grant('exp_f', 'exp', 'own', 50, expires_at => '2026-05-10 18:45:00+00');
SELECT permit AS f1 FROM quota_hold('exp_f', 'exp', 'credit', 10) \gset
SELECT quota_clock_set('2026-05-10 18:45:00+00');
SELECT * FROM exp_bal('exp_f');
SELECT quota_settle(:f1, units => '{"credit": 45}');
SELECT * FROM exp_bal('exp_f');
SELECT quota_adjust('exp_f', 'exp', 'own', 3);
SELECT * FROM exp_bal('exp_f');
SELECT * FROM quota_audit();

-- an unused call gives nothing back; a release and a lost hold are the same
SELECT quota_grant('exp_g', 'expr', 'own', 50, expires_at => '2026-05-10 19:00:00+00');
SELECT permit AS g1 FROM quota_hold('exp_g', 'expr', 'credit', 20) \gset
SELECT permit AS g2 FROM quota_hold('exp_g', 'expr', 'credit', 20) \gset
SELECT permit AS g3 FROM quota_hold('exp_g', 'expr', 'credit', 20) \gset
SELECT quota_clock_set('2026-05-10 19:00:00+00');
SELECT * FROM exp_bal('exp_g', 'expr');
SELECT quota_settle(:g1, billed => false); -- 10 were of the allowance
SELECT * FROM exp_bal('exp_g', 'expr');
SELECT quota_release(:g2);
SELECT * FROM exp_bal('exp_g', 'expr');
SELECT quota_clock_set('2026-05-10 19:46:00+00'); -- g3 is lost
SELECT * FROM exp_bal('exp_g', 'expr');
CALL await('NOT EXISTS (SELECT FROM quota.holds WHERE permit = ' || :g3 || ')');
SELECT * FROM exp_bal('exp_g', 'expr');
SELECT quota_settle(:g3, units => '{"credit": 15}'); -- too late, and charged
SELECT * FROM exp_bal('exp_g', 'expr');
SELECT * FROM quota_audit();

-- a debt is not paid by a grant that expires
SELECT quota_adjust('exp_h', 'exp', 'own', 130);
SELECT quota_grant('exp_h', 'exp', 'own', 100, expires_at => '2026-05-10 20:00:00+00');
SELECT exp_spend('exp_h', 60) > 0 AS spent;
SELECT * FROM exp_bal('exp_h');
SELECT quota_clock_set('2026-05-10 20:00:00+00');
SELECT * FROM exp_bal('exp_h');

-- rolled back it was never there; in a savepoint neither
BEGIN;
SELECT quota_grant('exp_i', 'exp', 'own', 50, expires_at => '2026-05-10 21:00:00+00');
SELECT * FROM exp_bal('exp_i');
ROLLBACK;
SELECT * FROM exp_bal('exp_i');
BEGIN;
SELECT exp_spend('exp_i', 10) > 0 AS spent;
SAVEPOINT s;
SELECT quota_grant('exp_i', 'exp', 'own', 50, expires_at => '2026-05-10 21:00:00+00');
SELECT exp_spend('exp_i', 10) > 0 AS spent;
ROLLBACK TO s;
SELECT quota_grant('exp_i', 'exp', 'own', 40, expires_at => '2026-05-10 21:00:00+00');
SELECT exp_spend('exp_i', 10) > 0 AS spent;
COMMIT;
SELECT * FROM exp_bal('exp_i');
SELECT quota_clock_set('2026-05-10 21:00:00+00');
SELECT * FROM exp_bal('exp_i');
SELECT * FROM quota_audit();

-- a wall clock that is set back brings nothing back, nor does it divide time anew
SELECT quota_clock_set('2026-05-10 20:30:00+00');
SELECT * FROM exp_bal('exp_i');
SELECT exp_spend('exp_i', 5) > 0 AS spent;
SELECT * FROM exp_bal('exp_i');
SELECT quota_grant('exp_i', 'exp', 'own', 40, expires_at => '2026-05-10 20:45:00+00');
SELECT quota_grant('exp_i', 'exp', 'own', 40, expires_at => '2026-05-10 21:00:01+00');
SELECT * FROM exp_bal('exp_i');
SELECT quota_clock_set('2026-05-10 21:00:01+00');
SELECT * FROM exp_bal('exp_i');
SELECT count(*) FROM quota.ledger WHERE tenant = 'exp_i' AND charged_at < '2026-05-10 21:00:00+00' AND created_at < '2026-05-10 20:59:00+00'
	AND kind = 'hold' AND amount = 5;
SELECT * FROM quota_audit();

-- no later than the period's end: at that instant it is like any other grant
SELECT quota_grant('exp_j', 'exp', 'own', 50, expires_at => '2026-06-01 00:00:00.000001+00');
SELECT quota_grant('exp_j', 'exp', 'own', 50, expires_at => 'infinity');
SELECT quota_grant('exp_j', 'exp', 'own', 50, expires_at => '2026-05-10 21:00:01+00');
SELECT quota_grant('exp_j', 'exp', 'own', 50, expires_at => '2000-01-01 00:00:00+00');
SELECT quota_grant('exp_j', 'exp', 'own', 50, expires_at => '-infinity');
SELECT quota_grant('exp_j', 'exp', 'own', 50, expires_at => '2026-06-01 00:00:00+00');
SELECT * FROM exp_bal('exp_j');

-- the key of a grant stands for its expiry, too
SELECT quota_grant('exp_k', 'exp', 'own', 50, key => 'k1', expires_at => '2026-05-11 00:00:00+00');
SELECT quota_grant('exp_k', 'exp', 'own', 50, key => 'k1', expires_at => '2026-05-11 02:00:00+02');
SELECT quota_grant('exp_k', 'exp', 'own', 50, key => 'k1', expires_at => '2026-05-11 01:00:00+00');
SELECT quota_grant('exp_k', 'exp', 'own', 50, key => 'k1');
SELECT * FROM exp_bal('exp_k');

-- at most 64 of an account in one period, those that have expired included
DO $$
BEGIN
	FOR i IN 1 .. 64 LOOP
		PERFORM quota_grant('exp_m', 'exp', 'own', 1, expires_at => '2026-05-11 00:00:00+00'::timestamptz + i * interval '1 s');
	END LOOP;
END $$;
SELECT quota_grant('exp_m', 'exp', 'own', 1, expires_at => '2026-05-12 00:00:00+00');
SELECT quota_clock_set('2026-05-11 00:00:30+00');
SELECT quota_grant('exp_m', 'exp', 'own', 1, expires_at => '2026-05-12 00:00:00+00');
SELECT quota_grant('exp_m', 'exp', 'own', 1);
SELECT * FROM exp_bal('exp_m');
BEGIN;
SELECT quota_grant('exp_n', 'exp', 'own', 1, expires_at => '2026-05-12 00:00:00+00');
ROLLBACK;

-- the worker writes what has expired of each, once
SELECT quota_grant('exp_o', 'exp', 'own', 50, 'gift', expires_at => '2026-05-11 01:00:00+00');
SELECT exp_spend('exp_o', 20) AS o1 \gset
SELECT permit AS o2 FROM quota_hold('exp_o', 'exp', 'credit', 10) \gset
SELECT quota_clock_set('2026-05-11 01:00:00+00');
SELECT kind, amount, balance, seq FROM quota.statement WHERE tenant = 'exp_o';
CALL await('EXISTS (SELECT FROM quota.ledger_expired JOIN quota.ledger l ON l.id = entry WHERE tenant = ''exp_o'')');
SELECT kind, charged_at, amount, balance, seq FROM quota.statement WHERE tenant = 'exp_o';
SELECT given, spent, held, expired, closing, closed FROM quota.statement_periods WHERE tenant = 'exp_o';
-- what comes later is told beside it
SELECT quota_settle(:o2, units => '{"credit": 4}');
SELECT quota_refund(:o1, 5);
SELECT kind, charged_at, amount, balance, seq FROM quota.statement WHERE tenant = 'exp_o';
SELECT given, spent, held, expired, closing, closed FROM quota.statement_periods WHERE tenant = 'exp_o';
SELECT * FROM exp_bal('exp_o');
-- (whether that of exp_g knows what was settled late depends on when)
SELECT tenant, l.amount, x.amount AS expired, x.expires_at, x.period_start, x.period_end
FROM quota.ledger_expired x JOIN quota.ledger l ON l.id = x.entry WHERE tenant NOT IN ('exp_g', 'exp_m') ORDER BY x.expires_at, entry;
SELECT count(*), sum(x.amount) FROM quota.ledger_expired x JOIN quota.ledger l ON l.id = x.entry WHERE tenant = 'exp_m';
SELECT * FROM quota_audit();

-- with the next period everything of the old one is over, and the row of it knows
SELECT quota_grant('exp_p', 'exp', 'own', 30, expires_at => '2026-05-20 00:00:00+00');
SELECT quota_grant('exp_p', 'exp', 'own', 30, expires_at => '2026-06-01 00:00:00+00');
SELECT exp_spend('exp_p', 10) > 0 AS spent;
SELECT quota_clock_set('2026-06-01 00:00:00+00');
SELECT * FROM exp_bal('exp_p');
CALL await('EXISTS (SELECT FROM quota.ledger_periods WHERE tenant = ''exp_p'')');
SELECT amount, posted, held, given, expired FROM quota.ledger_periods WHERE tenant = 'exp_p';
SELECT given, spent, held, expired, closing, closed FROM quota.statement_periods WHERE tenant = 'exp_p';
SELECT kind, charged_at, amount, balance FROM quota.statement WHERE tenant = 'exp_p' ORDER BY seq;
SELECT * FROM quota_audit();
SELECT * FROM quota_audit(false);

-- rows are final, and a wrong one is found
UPDATE quota.ledger_expired SET amount = 0;
DELETE FROM quota.ledger_expired;
TRUNCATE quota.ledger_expired;
BEGIN;
ALTER TABLE quota.ledger_expired DISABLE TRIGGER USER;
UPDATE quota.ledger_expired SET amount = amount + 1 WHERE entry = (SELECT id FROM quota.ledger WHERE tenant = 'exp_o' AND kind = 'grant');
INSERT INTO quota.ledger_expired SELECT 9999999, account, period_start, period_end, expires_at, 1, upto, created_at, xid
	FROM quota.ledger_expired WHERE entry = (SELECT id FROM quota.ledger WHERE tenant = 'exp_o' AND kind = 'grant');
ALTER TABLE quota.ledger_periods DISABLE TRIGGER USER;
UPDATE quota.ledger_periods SET expired = expired - 1 WHERE tenant = 'exp_p';
SELECT problem, limit_name, tenant, regexp_replace(detail, 'entry \d+', 'entry N') AS detail, expected, actual FROM quota_audit() ORDER BY problem, actual;
ROLLBACK;
\set VERBOSITY terse
INSERT INTO quota.ledger (account, provider, limit_name, unit, kind, amount, charged_at, created_at, expires_at)
	VALUES (gen_random_uuid(), 'exp', 'own', 'credit', 'adjust', 1, '2026-05-01', '2026-05-01', '2026-05-02');
INSERT INTO quota.ledger (account, provider, limit_name, unit, kind, amount, charged_at, created_at, expires_at)
	VALUES (gen_random_uuid(), 'exp', 'own', 'credit', 'grant', -1, '2026-05-02', '2026-05-02', '2026-05-02');
DROP FUNCTION exp_bal, exp_spend;
DROP PROCEDURE await;
