-- G2: all or nothing, and refusals are free.
SET timezone = 'UTC';
SELECT quota_clock_set('2026-01-01 00:00:00+00');

INSERT INTO quota.tiers (tier) VALUES ('g2');
INSERT INTO quota.tenants (tenant, tier) VALUES ('g2_a', 'g2'), ('g2_b', 'g2');
INSERT INTO quota.providers (provider, safety) VALUES ('g2', 1);
INSERT INTO quota.limits (provider, name, amount, period, burst, per) VALUES
	('g2', 'all', 10, '1 min', 10, '{}'),
	('g2', 'own', 5, '1 min', 5, '{tenant}'),
	('g2', 'search', 3, '1 min', 3, '{tenant}');
UPDATE quota.limits SET endpoint = 'search*' WHERE provider = 'g2' AND name = 'search';

-- a narrow limit that refuses leaves the broad one alone
SELECT (d).admitted, (d).limit_name
FROM (SELECT quota_acquire('g2_a', 'g2') AS d FROM generate_series(1, 8) OFFSET 0) s;
SELECT limit_name, level FROM quota_explain('g2_a', 'g2', 'search/contacts');
SELECT (quota_acquire('g2_b', 'g2', 'search/contacts')).admitted FROM generate_series(1, 4);
SELECT limit_name, kind, unit, bucket, needed, level, capacity, admits, reason, not_before, explanation
FROM quota_explain('g2_b', 'g2', 'search/contacts', n => 4);

-- every limit that said no is listed; the one that opens last names the refusal
SELECT admitted, reason, limit_name, not_before,
	jsonb_path_query_array(exhausted, '$[*].name') AS names
FROM quota_acquire('g2_a', 'g2', 'search/contacts', n => 3);

-- neither a refusal nor an admission by rate takes a transaction id or writes WAL

BEGIN;
SELECT admitted FROM quota_acquire('g2_b', 'g2');
SELECT admitted FROM quota_acquire('g2_a', 'g2');
SELECT pg_current_xact_id_if_assigned() IS NULL AS no_xid;
COMMIT;
-- WAL of this session alone
CREATE FUNCTION wal_bytes(query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, WAL, FORMAT JSON) ' || query INTO plan;
	RETURN plan -> 0 -> 'Plan' ->> 'WAL Bytes';
END $$;
CREATE TABLE written (i int);
SELECT wal_bytes('INSERT INTO written VALUES (1)') > 0 AS a_row_is_seen;
SELECT count(*) FILTER (WHERE (quota_acquire('g2_b', 'g2')).admitted) AS admitted, count(*) AS calls
FROM generate_series(1, 1000);
-- the least of three, as reading a catalog may tidy up a page; each with admissions
SELECT min(wal_bytes('SELECT quota_acquire(''g2_b'', ''g2''), quota_clock_advance(''1 s'') FROM generate_series(1, 100)')) AS wal
FROM generate_series(1, 3);
SELECT admitted > 20 AS admissions FROM quota.stat_buckets WHERE provider = 'g2' AND limit_name = 'all';
DROP TABLE written;
DROP FUNCTION wal_bytes;
