/* What became of allowances: by period and entry by entry. */

CREATE FUNCTION quota.account_amount(account uuid) RETURNS bigint
AS 'MODULE_PATHNAME', 'quota_account_amount'
LANGUAGE C STABLE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION quota.account_amount(uuid) IS 'Internal: what the allowance of an account of the ledger is now; NULL if there is none any more, and on a standby.';

-- No WITH: what a reader asks for gets through subqueries to the accounts.
CREATE VIEW quota.statement_periods AS
SELECT b.account, b.provider, b.limit_name, b.tenant, b.unit, b.period_start, b.period_end,
	b.amount AS opening, b.given, b.spent, b.held, b.closing,
	false AS closed, b.burn_rate,
	CASE WHEN b.closing OPERATOR(pg_catalog.<=) 0 THEN 0
		WHEN b.burn_rate OPERATOR(pg_catalog.>) 0 THEN pg_catalog.round(b.closing OPERATOR(pg_catalog./) b.burn_rate, 3) END AS hours_left,
	b.expired
FROM (
	SELECT c.*, c.amount OPERATOR(pg_catalog.+) c.given OPERATOR(pg_catalog.-) c.spent OPERATOR(pg_catalog.-) c.held OPERATOR(pg_catalog.-) c.expired AS closing,
		CASE WHEN c.now OPERATOR(pg_catalog.>=) (c.before OPERATOR(pg_catalog.+) '1 minute'::interval) AND c.now OPERATOR(pg_catalog.<) c.period_end
			THEN pg_catalog.round((c.spent OPERATOR(pg_catalog.+) c.held OPERATOR(pg_catalog.-) c.spent_before) OPERATOR(pg_catalog.*) 3600::numeric
				OPERATOR(pg_catalog./) pg_catalog.extract('epoch', c.now OPERATOR(pg_catalog.-) c.before), 3)
			END AS burn_rate
	FROM (
		SELECT a.account, a.provider, a.limit_name, a.tenant, l.unit,
			n.period_start, n.period_end, quota_clock() AS now,
			quota.account_amount(a.account) AS amount,
			n.given OPERATOR(pg_catalog.+) t.given AS given,
			n.posted OPERATOR(pg_catalog.+) n.given OPERATOR(pg_catalog.+) t.spent AS spent,
			n.held OPERATOR(pg_catalog.+) t.held AS held,
			x.units AS expired,
			coalesce(o.posted OPERATOR(pg_catalog.+) o.given OPERATOR(pg_catalog.+) o.held, 0) AS spent_before,
			coalesce(o.charged_at, n.period_start) AS before
		FROM quota.ledger_accounts AS a
		CROSS JOIN LATERAL (
			SELECT f.*
			FROM quota.ledger_folds AS f WHERE f.account OPERATOR(pg_catalog.=) a.account
			ORDER BY f.upto DESC LIMIT 1) AS n
		CROSS JOIN LATERAL (
			SELECT e.unit
			FROM quota.ledger AS e WHERE e.account OPERATOR(pg_catalog.=) a.account
			ORDER BY e.charged_at DESC LIMIT 1) AS l
		CROSS JOIN LATERAL (
			SELECT coalesce(pg_catalog.sum(OPERATOR(pg_catalog.-) e.amount) FILTER (WHERE e.permit IS NULL), 0)::bigint AS given,
				coalesce(pg_catalog.sum(e.amount OPERATOR(pg_catalog.-) e.held) FILTER (WHERE e.permit IS NOT NULL), 0)::bigint AS spent,
				coalesce(pg_catalog.sum(e.held), 0)::bigint AS held
			FROM quota.ledger AS e
			WHERE e.account OPERATOR(pg_catalog.=) n.account AND e.xid OPERATOR(pg_catalog.>=) n.upto
				AND e.charged_at OPERATOR(pg_catalog.>=) n.period_start AND e.charged_at OPERATOR(pg_catalog.<) n.period_end) AS t
		CROSS JOIN LATERAL (
			SELECT coalesce(pg_catalog.sum(g.unspent), 0)::bigint AS units
			FROM quota.account_grants(n.account, n.period_start, n.period_end, NULL) AS g
			WHERE g.expires_at OPERATOR(pg_catalog.<=) quota_clock() AND g.expires_at OPERATOR(pg_catalog.<) n.period_end) AS x
		LEFT JOIN LATERAL (
			SELECT f.charged_at, f.posted, f.given, f.held
			FROM quota.ledger_folds AS f
			WHERE f.account OPERATOR(pg_catalog.=) n.account AND f.period_start OPERATOR(pg_catalog.=) n.period_start
				AND f.charged_at OPERATOR(pg_catalog.<=) (quota_clock() OPERATOR(pg_catalog.-) '1 hour'::interval)
			ORDER BY f.upto DESC LIMIT 1) AS o ON true
		WHERE NOT EXISTS (
			SELECT FROM quota.ledger_periods AS p
			WHERE p.account OPERATOR(pg_catalog.=) n.account AND p.period_start OPERATOR(pg_catalog.>=) n.period_start)) AS c) AS b
UNION ALL
SELECT p.account, p.provider, p.limit_name, p.tenant, p.unit, p.period_start, p.period_end,
	p.amount, p.given OPERATOR(pg_catalog.+) g.given, p.posted OPERATOR(pg_catalog.+) p.given OPERATOR(pg_catalog.+) g.spent, p.held OPERATOR(pg_catalog.+) g.held,
	p.amount OPERATOR(pg_catalog.-) p.posted OPERATOR(pg_catalog.-) p.held OPERATOR(pg_catalog.-) g.used OPERATOR(pg_catalog.-) x.units,
	true, NULL, NULL, x.units
FROM quota.ledger_periods AS p
CROSS JOIN LATERAL (
	SELECT coalesce(pg_catalog.sum(e.amount), 0)::bigint AS used,
		coalesce(pg_catalog.sum(OPERATOR(pg_catalog.-) e.amount) FILTER (WHERE e.permit IS NULL), 0)::bigint AS given,
		coalesce(pg_catalog.sum(e.amount OPERATOR(pg_catalog.-) e.held) FILTER (WHERE e.permit IS NOT NULL), 0)::bigint AS spent,
		coalesce(pg_catalog.sum(e.held), 0)::bigint AS held
	FROM quota.ledger AS e
	WHERE e.account OPERATOR(pg_catalog.=) p.account AND e.xid OPERATOR(pg_catalog.>=) p.upto
		AND e.charged_at OPERATOR(pg_catalog.>=) p.period_start AND e.charged_at OPERATOR(pg_catalog.<) p.period_end) AS g
CROSS JOIN LATERAL (
	SELECT coalesce(pg_catalog.sum(g.unspent), 0)::bigint AS units
	FROM quota.account_grants(p.account, p.period_start, p.period_end, NULL) AS g
	WHERE g.expires_at OPERATOR(pg_catalog.<) p.period_end) AS x;

CREATE VIEW quota.statement AS
SELECT p.provider, p.limit_name, p.tenant, p.unit, p.period_start, p.period_end, p.closed,
	CASE WHEN e.xid OPERATOR(pg_catalog.<) pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot())
		THEN pg_catalog.row_number() OVER w END AS seq,
	e.charged_at, e.created_at, e.kind, e.tenant AS caller, e.permit, e.job, e.reason,
	OPERATOR(pg_catalog.-) e.amount AS amount, e.held,
	p.opening OPERATOR(pg_catalog.-) pg_catalog.sum(e.amount) OVER w AS balance
FROM quota.statement_periods AS p
CROSS JOIN LATERAL (
	SELECT l.xid, l.id, l.charged_at, l.created_at, l.kind, l.tenant, l.permit, l.job, l.reason, l.amount, l.held
	FROM quota.ledger AS l
	WHERE l.account OPERATOR(pg_catalog.=) p.account
		AND l.charged_at OPERATOR(pg_catalog.>=) p.period_start AND l.charged_at OPERATOR(pg_catalog.<) p.period_end
	UNION ALL
	SELECT x.xid, g.entry, g.expires_at, x.created_at, 'expired', NULL, NULL, NULL, NULL, x.amount, 0
	FROM quota.account_grants(p.account, p.period_start, p.period_end, NULL) AS g
	JOIN quota.ledger_expired AS x ON x.entry OPERATOR(pg_catalog.=) g.entry
	UNION ALL
	SELECT NULL, g.entry, g.expires_at, g.expires_at, 'expired', NULL, NULL, NULL, NULL,
		g.unspent OPERATOR(pg_catalog.-) coalesce(x.amount, 0), 0
	FROM quota.account_grants(p.account, p.period_start, p.period_end, NULL) AS g
	LEFT JOIN quota.ledger_expired AS x ON x.entry OPERATOR(pg_catalog.=) g.entry
	WHERE g.expires_at OPERATOR(pg_catalog.<) p.period_end
		AND (p.closed OR g.expires_at OPERATOR(pg_catalog.<=) quota_clock())
		AND g.unspent OPERATOR(pg_catalog.<>) coalesce(x.amount, 0)) AS e
WINDOW w AS (PARTITION BY p.tenant, p.provider, p.limit_name, p.account, p.period_start
	ORDER BY e.xid NULLS LAST, e.id);

COMMENT ON VIEW quota.statement_periods IS
'What became of each allowance, for each of its periods that had entries: opening + given - spent - held - expired = closing, all committed entries included. A period shows once a background worker has folded its first entries, some ten seconds after them, and none of a limit that was deleted before. Name the tenant in WHERE: then only its accounts are read.';
COMMENT ON COLUMN quota.statement_periods.account IS 'As in quota.ledger.';
COMMENT ON COLUMN quota.statement_periods.provider IS 'NULL for a limit across providers or of an account.';
COMMENT ON COLUMN quota.statement_periods.limit_name IS 'Name of the limit.';
COMMENT ON COLUMN quota.statement_periods.tenant IS 'Whose allowance it is; NULL = tenants share it.';
COMMENT ON COLUMN quota.statement_periods.unit IS 'Unit of all amounts.';
COMMENT ON COLUMN quota.statement_periods.period_start IS 'First instant of the period.';
COMMENT ON COLUMN quota.statement_periods.period_end IS 'First instant after it.';
COMMENT ON COLUMN quota.statement_periods.opening IS 'The allowance: as it is now, or of a closed period as it was when that was closed. NULL = there is none any more.';
COMMENT ON COLUMN quota.statement_periods.given IS 'Grants and adjustments; negative: they took more than they gave.';
COMMENT ON COLUMN quota.statement_periods.spent IS 'By calls, less refunds.';
COMMENT ON COLUMN quota.statement_periods.held IS 'By open holds of committed transactions, also those that have expired and are not written off yet.';
COMMENT ON COLUMN quota.statement_periods.closing IS 'What is left now, or was not used when the period was over and has lapsed; negative = debt.';
COMMENT ON COLUMN quota.statement_periods.closed IS 'The period is over and its roll-over row written.';
COMMENT ON COLUMN quota.statement_periods.burn_rate IS 'Units an hour that calls spend: spent + held now, less the same at the newest running balance (quota.ledger_folds) that is an hour old or older, or else nothing at the start of the period; divided by the time between. Three decimals; NULL in the first minute, and when the period is over.';
COMMENT ON COLUMN quota.statement_periods.hours_left IS 'closing / burn_rate: in how many hours it is empty if calls go on like that. 0 = it is empty, NULL = not at all. The period may end before.';
COMMENT ON COLUMN quota.statement_periods.expired IS 'Units of grants that have expired, as far as they had not been spent.';
COMMENT ON VIEW quota.statement IS
'Entries of each allowance and period in order, with what was left after each; as quota.statement_periods, some ten seconds after the first entry of a period. Name tenant, provider, limit_name or period_start in WHERE: then only the entries of those are read.';
COMMENT ON COLUMN quota.statement.provider IS 'NULL for a limit across providers or of an account.';
COMMENT ON COLUMN quota.statement.limit_name IS 'Name of the limit.';
COMMENT ON COLUMN quota.statement.tenant IS 'Whose allowance it is; NULL = tenants share it.';
COMMENT ON COLUMN quota.statement.unit IS 'Unit of all amounts.';
COMMENT ON COLUMN quota.statement.period_start IS 'First instant of the period.';
COMMENT ON COLUMN quota.statement.period_end IS 'First instant after it.';
COMMENT ON COLUMN quota.statement.closed IS 'The period is over and its roll-over row written.';
COMMENT ON COLUMN quota.statement.seq IS 'Number of the entry in the period, from 1 and without gaps. NULL of what is not written, and as long as a transaction is open that may add an entry before it.';
COMMENT ON COLUMN quota.statement.charged_at IS 'As in quota.ledger.';
COMMENT ON COLUMN quota.statement.created_at IS 'As in quota.ledger.';
COMMENT ON COLUMN quota.statement.kind IS 'As in quota.ledger; expired: what was left of a grant when it did (charged_at). Without seq: a background worker has not written that yet, or what calls of before it have given back since, less what they have used more.';
COMMENT ON COLUMN quota.statement.caller IS 'Tenant of the call; NULL for an entry by hand that names none.';
COMMENT ON COLUMN quota.statement.permit IS 'As in quota.ledger.';
COMMENT ON COLUMN quota.statement.job IS 'As in quota.ledger.';
COMMENT ON COLUMN quota.statement.reason IS 'As in quota.ledger.';
COMMENT ON COLUMN quota.statement.amount IS 'Units by which the entry changes what is available.';
COMMENT ON COLUMN quota.statement.held IS 'Units by which it changes what open holds hold.';
COMMENT ON COLUMN quota.statement.balance IS 'What was available after it: opening and the amounts so far. Of the allowance as opening of quota.statement_periods says.';

GRANT SELECT ON quota.statement, quota.statement_periods TO pg_monitor;
