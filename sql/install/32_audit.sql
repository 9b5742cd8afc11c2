/* quota_audit(): what should never be. */

CREATE FUNCTION quota.audit_entries(
	"full" boolean,
	OUT problem text,
	OUT provider text,
	OUT limit_name text,
	OUT tenant text,
	OUT permit bigint,
	OUT detail text,
	OUT expected bigint,
	OUT actual bigint)
RETURNS SETOF record
LANGUAGE SQL STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
	WITH newest AS (
		SELECT f.account, pg_catalog.max(f.upto) AS upto
		FROM quota.ledger_folds AS f
		WHERE NOT audit_entries."full"
		GROUP BY f.account
	), permits AS (
		SELECT l.permit FROM quota.ledger AS l
		WHERE audit_entries."full" AND l.permit IS NOT NULL
		UNION
		SELECT l.permit FROM newest AS n JOIN quota.ledger AS l
			ON l.account OPERATOR(pg_catalog.=) n.account
			AND l.xid OPERATOR(pg_catalog.>=) n.upto
		WHERE l.permit IS NOT NULL
		UNION
		SELECT h.permit FROM quota.holds AS h
	), parts AS (
		SELECT l.permit, l.account,
			pg_catalog.min(l.provider) AS provider,
			pg_catalog.min(l.limit_name) AS limit_name,
			pg_catalog.min(l.tenant) AS tenant,
			pg_catalog.count(*) FILTER (WHERE l.kind OPERATOR(pg_catalog.=) 'hold') AS holds,
			pg_catalog.count(*) FILTER (WHERE l.kind OPERATOR(pg_catalog.=) ANY (ARRAY['settle', 'expire'])) AS resolved,
			pg_catalog.sum(l.amount)::bigint AS spent,
			pg_catalog.sum(l.held)::bigint AS held
		FROM permits AS p JOIN quota.ledger AS l
			ON l.permit OPERATOR(pg_catalog.=) p.permit
		GROUP BY l.permit, l.account
	), judged AS (
		SELECT p.*, h.permit IS NOT NULL AS open,
			(SELECT coalesce(pg_catalog.sum(l.amount), 0)::bigint
				FROM quota.ledger AS l
				WHERE l.permit OPERATOR(pg_catalog.=) h.permit
					AND l.account OPERATOR(pg_catalog.=) p.account
					AND l.created_at OPERATOR(pg_catalog.=) h.created_at
					AND l.kind OPERATOR(pg_catalog.=) ANY (ARRAY['hold', 'release'])) AS open_held
		FROM parts AS p LEFT JOIN quota.holds AS h
			ON h.permit OPERATOR(pg_catalog.=) p.permit
	), taken AS (
		SELECT l.account, l.period_start,
			pg_catalog.min(l.provider) AS provider,
			pg_catalog.min(l.limit_name) AS limit_name,
			pg_catalog.min(l.tenant) AS tenant,
			pg_catalog.sum(l.amount) AS held,
			pg_catalog.max(l.charged_at) AS until,
			coalesce(pg_catalog.lead(l.period_start) OVER (PARTITION BY l.account
				ORDER BY l.period_start), 'infinity') AS next_start,
			CASE WHEN pg_catalog.bool_and(l.allowance IS NOT NULL)
				THEN pg_catalog.max(l.allowance) END AS allowance
		FROM quota.ledger AS l
		WHERE audit_entries."full" AND l.kind OPERATOR(pg_catalog.=) 'hold'
		GROUP BY l.account, l.period_start
	), returning_holds AS (
		SELECT l.account, pg_catalog.sum(l.amount) AS held
		FROM quota.holds AS h JOIN quota.ledger AS l
			ON l.permit OPERATOR(pg_catalog.=) h.permit
				AND l.created_at OPERATOR(pg_catalog.=) h.created_at
				AND l.kind OPERATOR(pg_catalog.=) ANY (ARRAY['hold', 'release'])
		WHERE audit_entries."full" AND h.refund
		GROUP BY l.account
	)
	SELECT 'hold resolved wrongly', provider, limit_name, tenant, permit,
		CASE WHEN open THEN 'the hold is open' ELSE 'the hold is not open' END
			OPERATOR(pg_catalog.||) '; entries that resolve it are counted',
		CASE WHEN open THEN holds OPERATOR(pg_catalog.-) 1 ELSE holds END,
		resolved
	FROM judged
	WHERE resolved OPERATOR(pg_catalog.<>)
		CASE WHEN open THEN holds OPERATOR(pg_catalog.-) 1 ELSE holds END
	UNION ALL
	SELECT 'refunded more than spent', provider, limit_name, tenant, permit,
		'what the permit spent after refunds', 0, spent
	FROM judged
	WHERE spent OPERATOR(pg_catalog.<) 0
	UNION ALL
	SELECT 'units held differ', provider, limit_name, tenant, permit,
		'what entries hold, and the hold if it is open', open_held, held
	FROM judged
	WHERE held OPERATOR(pg_catalog.<>) open_held
	UNION ALL
	-- a hold was admitted though it was not available: debts (settled, late, adjusted)
	-- may go below, holds may not; what returns if it is lost may have returned already
	SELECT 'held more than available', t.provider, t.limit_name, t.tenant, NULL,
		'holds of the period that starts at ' OPERATOR(pg_catalog.||) t.period_start
			OPERATOR(pg_catalog.||) ', less what was given and not gone by the last of them', t.allowance,
		(t.held OPERATOR(pg_catalog.+) g.given OPERATOR(pg_catalog.+) x.gone)::bigint
	FROM taken AS t
	LEFT JOIN returning_holds AS r
		ON r.account OPERATOR(pg_catalog.=) t.account
	CROSS JOIN LATERAL (
		SELECT coalesce(pg_catalog.sum(l.amount), 0) AS given
		FROM quota.ledger AS l
		WHERE l.account OPERATOR(pg_catalog.=) t.account
			AND l.charged_at OPERATOR(pg_catalog.>=) t.period_start
			AND (l.charged_at OPERATOR(pg_catalog.<=) t.until
				OR l.charged_at OPERATOR(pg_catalog.<) t.next_start)
			AND l.amount OPERATOR(pg_catalog.<) 0) AS g
	CROSS JOIN LATERAL (
		SELECT coalesce(pg_catalog.sum(e.unspent), 0) AS gone
		FROM quota.account_grants(t.account, t.period_start,
			t.until OPERATOR(pg_catalog.+) '1 microsecond'::interval, NULL) AS e
		WHERE e.expires_at OPERATOR(pg_catalog.<=) t.until) AS x
	WHERE (t.held OPERATOR(pg_catalog.+) g.given OPERATOR(pg_catalog.+) x.gone OPERATOR(pg_catalog.-) coalesce(r.held, 0))
		OPERATOR(pg_catalog.>) t.allowance
	UNION ALL
	SELECT 'entry moves wrongly', l.provider, l.limit_name, l.tenant, l.permit,
		'amount and held are not those of kind ' OPERATOR(pg_catalog.||) l.kind, NULL, NULL
	FROM quota.ledger AS l
	WHERE audit_entries."full" AND NOT quota.ledger_entry_moves(l.kind, l.amount, l.held)
	UNION ALL
	SELECT 'hold without entries', h.provider, NULL, h.tenant, h.permit,
		'no entry of kind hold bears its permit and created_at', 1, 0
	FROM quota.holds AS h
	WHERE NOT EXISTS (
		SELECT FROM quota.ledger AS l
		WHERE l.permit OPERATOR(pg_catalog.=) h.permit
			AND l.kind OPERATOR(pg_catalog.=) 'hold'
			AND l.created_at OPERATOR(pg_catalog.=) h.created_at)
$$;
COMMENT ON FUNCTION quota.audit_entries(boolean) IS 'Internal: the part of quota_audit that compares entries and holds.';
REVOKE ALL ON FUNCTION quota.audit_entries(boolean) FROM PUBLIC;

CREATE FUNCTION quota.audit_folds(
	"full" boolean,
	OUT problem text,
	OUT provider text,
	OUT limit_name text,
	OUT tenant text,
	OUT permit bigint,
	OUT detail text,
	OUT expected bigint,
	OUT actual bigint)
RETURNS SETOF record
LANGUAGE SQL STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
	WITH chained AS (
		SELECT f.*, coalesce(pg_catalog.lag(f.upto) OVER w, '0'::xid8) AS since,
			coalesce(pg_catalog.lag(f.entries) OVER w, 0) AS had,
			pg_catalog.lag(f.posted) OVER w AS posted_before,
			pg_catalog.lag(f.held) OVER w AS held_before,
			pg_catalog.lag(f.given) OVER w AS given_before,
			coalesce(pg_catalog.lag(f.period_start) OVER w OPERATOR(pg_catalog.=) f.period_start
				AND pg_catalog.lag(f.period_end) OVER w OPERATOR(pg_catalog.=) f.period_end, false) AS goes_on,
			pg_catalog.lead(f.upto) OVER w IS NULL AS newest
		FROM quota.ledger_folds AS f
		WINDOW w AS (PARTITION BY f.account ORDER BY f.upto)
	), counted AS (
		SELECT c.account, c.entries, c.had OPERATOR(pg_catalog.+) e.n AS entries_due,
			c.posted, CASE WHEN c.goes_on THEN c.posted_before OPERATOR(pg_catalog.+) e.posted ELSE a.posted END AS posted_due,
			c.held, CASE WHEN c.goes_on THEN c.held_before OPERATOR(pg_catalog.+) e.held ELSE a.held END AS held_due,
			c.given, CASE WHEN c.goes_on THEN c.given_before OPERATOR(pg_catalog.+) e.given ELSE a.given END AS given_due
		FROM chained AS c
		CROSS JOIN LATERAL (
			SELECT pg_catalog.count(*) AS n,
				coalesce(pg_catalog.sum(l.amount OPERATOR(pg_catalog.-) l.held) FILTER (WHERE l.charged_at OPERATOR(pg_catalog.>=) c.period_start
					AND l.charged_at OPERATOR(pg_catalog.<) c.period_end), 0) AS posted,
				coalesce(pg_catalog.sum(l.held) FILTER (WHERE l.charged_at OPERATOR(pg_catalog.>=) c.period_start
					AND l.charged_at OPERATOR(pg_catalog.<) c.period_end), 0) AS held,
				coalesce(pg_catalog.sum(OPERATOR(pg_catalog.-) l.amount) FILTER (WHERE l.charged_at OPERATOR(pg_catalog.>=) c.period_start
					AND l.charged_at OPERATOR(pg_catalog.<) c.period_end AND l.permit IS NULL), 0) AS given
			FROM quota.ledger AS l
			WHERE l.account OPERATOR(pg_catalog.=) c.account AND l.xid OPERATOR(pg_catalog.>=) c.since AND l.xid OPERATOR(pg_catalog.<) c.upto) AS e
		CROSS JOIN LATERAL (
			SELECT coalesce(pg_catalog.sum(l.amount OPERATOR(pg_catalog.-) l.held), 0) AS posted,
				coalesce(pg_catalog.sum(l.held), 0) AS held,
				coalesce(pg_catalog.sum(OPERATOR(pg_catalog.-) l.amount) FILTER (WHERE l.permit IS NULL), 0) AS given
			FROM quota.ledger AS l
			WHERE NOT c.goes_on AND l.account OPERATOR(pg_catalog.=) c.account AND l.xid OPERATOR(pg_catalog.<) c.upto
				AND l.charged_at OPERATOR(pg_catalog.>=) c.period_start AND l.charged_at OPERATOR(pg_catalog.<) c.period_end) AS a
		WHERE audit_folds."full" OR c.newest
	), newest AS (
		SELECT f.account, pg_catalog.max(f.upto) AS upto
		FROM quota.ledger_folds AS f
		GROUP BY f.account
	), ends AS (
		SELECT p.*, coalesce(pg_catalog.lag(p.period_end) OVER (PARTITION BY p.account
			ORDER BY p.period_start, p.period_end), '-infinity') AS ended
		FROM quota.ledger_periods AS p
	), found AS (
		SELECT c.account, 'running balance differs' AS problem,
			'number of the last entry' AS detail, c.entries_due AS expected, c.entries AS actual
		FROM counted AS c WHERE c.entries OPERATOR(pg_catalog.<>) c.entries_due
		UNION ALL
		SELECT c.account, 'running balance differs', 'units posted', c.posted_due, c.posted
		FROM counted AS c WHERE c.posted OPERATOR(pg_catalog.<>) c.posted_due
		UNION ALL
		SELECT c.account, 'running balance differs', 'units held', c.held_due, c.held
		FROM counted AS c WHERE c.held OPERATOR(pg_catalog.<>) c.held_due
		UNION ALL
		SELECT c.account, 'running balance differs', 'units given', c.given_due, c.given
		FROM counted AS c WHERE c.given OPERATOR(pg_catalog.<>) c.given_due
		UNION ALL
		SELECT c.account, 'account differs', 'whose it is, in quota.ledger_accounts', NULL, NULL
		FROM chained AS c
		WHERE c.newest AND NOT EXISTS (
			SELECT FROM quota.ledger_accounts AS a JOIN quota.ledger AS l
				ON l.account OPERATOR(pg_catalog.=) a.account
					AND l.limit_name OPERATOR(pg_catalog.=) a.limit_name
					AND l.provider IS NOT DISTINCT FROM a.provider
					AND (a.tenant IS NULL OR l.tenant OPERATOR(pg_catalog.=) a.tenant)
			WHERE a.account OPERATOR(pg_catalog.=) c.account)
		UNION ALL
		SELECT e.account, 'periods overlap', 'one that starts at ' OPERATOR(pg_catalog.||) e.period_start, NULL, NULL
		FROM ends AS e WHERE e.ended OPERATOR(pg_catalog.>) e.period_start
		UNION ALL
		SELECT e.account, 'period not closed', 'one that ends by ' OPERATOR(pg_catalog.||) e.period_start, 1, 0
		FROM ends AS e JOIN newest AS f ON f.account OPERATOR(pg_catalog.=) e.account
		WHERE e.ended OPERATOR(pg_catalog.<>) e.period_start AND EXISTS (
			SELECT FROM quota.ledger AS l
			WHERE l.account OPERATOR(pg_catalog.=) e.account AND l.charged_at OPERATOR(pg_catalog.>=) e.ended
				AND l.charged_at OPERATOR(pg_catalog.<) e.period_start AND l.xid OPERATOR(pg_catalog.<) f.upto)
		UNION ALL
		SELECT p.account, 'closed period differs', v.what OPERATOR(pg_catalog.||) ' in the one that starts at ' OPERATOR(pg_catalog.||) p.period_start,
			v.due, v.told
		FROM quota.ledger_periods AS p
		LEFT JOIN newest AS f ON f.account OPERATOR(pg_catalog.=) p.account
		CROSS JOIN LATERAL (
			SELECT coalesce(pg_catalog.sum(l.amount), 0) AS used, coalesce(pg_catalog.sum(l.held), 0) AS held,
				coalesce(pg_catalog.sum(OPERATOR(pg_catalog.-) l.amount) FILTER (WHERE l.permit IS NULL), 0) AS given
			FROM quota.ledger AS l
			WHERE l.account OPERATOR(pg_catalog.=) p.account AND l.charged_at OPERATOR(pg_catalog.>=) p.period_start
				AND l.charged_at OPERATOR(pg_catalog.<) p.period_end AND l.xid OPERATOR(pg_catalog.<) p.upto) AS s
		-- folded, and the row lacks it
		CROSS JOIN LATERAL (
			SELECT pg_catalog.count(*) AS n
			FROM quota.ledger AS l
			WHERE l.account OPERATOR(pg_catalog.=) p.account
				AND l.xid OPERATOR(pg_catalog.>=) p.upto AND l.xid OPERATOR(pg_catalog.<) f.upto
				AND l.charged_at OPERATOR(pg_catalog.>=) p.period_start AND l.charged_at OPERATOR(pg_catalog.<) p.period_end
				AND l.kind OPERATOR(pg_catalog.=) ANY (ARRAY['hold', 'grant', 'adjust'])) AS a
		CROSS JOIN LATERAL (VALUES
			('units used', s.used, p.posted OPERATOR(pg_catalog.+) p.held),
			('units held', s.held, p.held),
			('units given', s.given, p.given),
			('entries that charge it and came after it', 0, a.n)) AS v(what, due, told)
		WHERE audit_folds."full" AND p.upto IS NOT NULL AND v.due OPERATOR(pg_catalog.<>) v.told
		UNION ALL
		SELECT p.account, 'closed period differs', 'units expired in the one that starts at ' OPERATOR(pg_catalog.||) p.period_start,
			s.expired, p.expired
		FROM quota.ledger_periods AS p
		CROSS JOIN LATERAL (
			SELECT coalesce(pg_catalog.sum(g.unspent), 0) AS expired
			FROM quota.account_grants(p.account, p.period_start, p.period_end, p.upto) AS g
			WHERE g.expires_at OPERATOR(pg_catalog.<) p.period_end) AS s
		WHERE audit_folds."full" AND p.upto IS NOT NULL AND s.expired OPERATOR(pg_catalog.<>) p.expired
		UNION ALL
		SELECT x.account, 'expired grant differs', 'units of entry ' OPERATOR(pg_catalog.||) x.entry,
			g.unspent, x.amount
		FROM quota.ledger_expired AS x
		LEFT JOIN LATERAL quota.account_grants(x.account, x.period_start, x.period_end, x.upto) AS g
			ON g.entry OPERATOR(pg_catalog.=) x.entry AND g.expires_at OPERATOR(pg_catalog.=) x.expires_at
		WHERE audit_folds."full" AND CASE WHEN x.upto IS NULL THEN g.entry IS NULL
			ELSE g.unspent IS DISTINCT FROM x.amount END
	)
	SELECT f.problem, l.provider, l.limit_name, l.tenant, NULL::bigint,
		f.detail, f.expected::bigint, f.actual
	FROM found AS f
	LEFT JOIN LATERAL (
		SELECT e.provider, e.limit_name, e.tenant
		FROM quota.ledger AS e WHERE e.account OPERATOR(pg_catalog.=) f.account LIMIT 1) AS l ON true
$$;
COMMENT ON FUNCTION quota.audit_folds(boolean) IS 'Internal: the part of quota_audit that compares what was derived from entries with them.';
REVOKE ALL ON FUNCTION quota.audit_folds(boolean) FROM PUBLIC;

CREATE FUNCTION quota_audit(
	"full" boolean DEFAULT true,
	OUT problem text,
	OUT provider text,
	OUT limit_name text,
	OUT tenant text,
	OUT permit bigint,
	OUT detail text,
	OUT expected bigint,
	OUT actual bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'quota_audit'
LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10;
COMMENT ON FUNCTION quota_audit(boolean) IS
'What should never be: holds resolved twice or not at all, or resolved as another amount than they held, or admitted though they were not available (an allowance owes something only by what was settled beyond a hold, settled late or adjusted, by a soft limit, or by a change of its amount), refunds above what was spent, entries that do not sum to zero, running balances (quota.ledger_folds) that are not the one before with the entries between, or leave a number out, accounts of them that are not said to be whose they are (quota.ledger_accounts), periods that overlap, were not closed, or whose row differs from their entries (quota.ledger_periods), grants of which another amount is said to have expired (quota.ledger_expired) than entries leave, and shared counters that differ from the rows or permits they count: credits, calls in flight, jobs that wait or run; and limits that take more than 60 seconds to refill of which quota.marks would leave more after a crash than there is. Empty = healthy. Reads the whole ledger and all jobs; with full false only what is newer than the newest running balance of each account, that balance with the one before it, and open holds: it trusts older ones. Counters in use by open transactions are not compared.';
REVOKE ALL ON FUNCTION quota_audit(boolean) FROM PUBLIC;
