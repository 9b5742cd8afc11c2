-- Grants and periods that are over at one instant and get no row, more of them than the
-- worker looks at in one transaction: those behind them get theirs.
SELECT quota_clock_set('2026-05-10 12:00:00+00');
SET timezone = 'UTC';
INSERT INTO quota.tiers (tier) VALUES ('once');
INSERT INTO quota.tenants (tenant, tier) SELECT 'once_' || n, 'once' FROM generate_series(1, 510) n;
INSERT INTO quota.providers (provider) VALUES ('once');
INSERT INTO quota.limits (provider, name, per, unit, kind, amount, period, external) VALUES
	('once', 'kept', '{tenant}', 'credit', 'allowance', 100, '1 month', false),
	('once', 'gone', '{tenant}', 'token', 'allowance', 100, '1 month', false);
\set ECHO none
\i test/lib/await.sql
\set ECHO all

-- grants that end with their period, and one that ends in the next
SELECT count(quota_grant('once_' || n, 'once', 'kept', 5, expires_at => '2026-06-01 00:00:00+00')) FROM generate_series(1, 505) n;
SELECT quota_clock_set('2026-06-01 00:00:00+00');
SELECT quota_grant('once_506', 'once', 'kept', 7, expires_at => '2026-06-02 00:00:00+00');
SELECT quota_clock_set('2026-06-02 00:00:00+00');
CALL await('EXISTS (SELECT FROM quota.ledger_expired JOIN quota.ledger l ON l.id = entry WHERE tenant = ''once_506'')');
SELECT l.tenant, x.amount FROM quota.ledger_expired x JOIN quota.ledger l ON l.id = x.entry WHERE l.provider = 'once';

-- periods of a limit that has been deleted, and of one that has not
SELECT count(quota_grant('once_' || n, 'once', 'gone', 5)) FROM generate_series(1, 505) n;
CALL await('505 = (SELECT count(DISTINCT account) FROM quota.ledger_folds JOIN quota.ledger l USING (account) WHERE l.provider = ''once'' AND l.limit_name = ''gone'')');
DELETE FROM quota.limits WHERE provider = 'once' AND name = 'gone';
SELECT quota_clock_set('2026-07-01 00:00:00+00');
SELECT quota_grant('once_507', 'once', 'kept', 7);
CALL await('EXISTS (SELECT FROM quota.ledger_folds JOIN quota.ledger l USING (account) WHERE tenant = ''once_507'')');
SELECT quota_clock_set('2026-08-01 00:00:00+00');
CALL await('EXISTS (SELECT FROM quota.ledger_periods WHERE tenant = ''once_507'')');
SELECT limit_name, count(*), min(period_start), max(period_start) FROM quota.ledger_periods WHERE provider = 'once' GROUP BY limit_name;
SELECT * FROM quota_audit();
DROP PROCEDURE await;
