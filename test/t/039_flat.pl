# Copyright (c) 2026, the quota authors

# A claim reads as many pages whatever else there is: a large backlog, rows that an
# old snapshot keeps, wrong statistics, retries that come due at once. Pages are
# counted, not time, so this is exact enough to be asserted.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;

my $node = new_node('main', 'autovacuum' => 'off');
my $s = session($node);

clock_set($node, '2026-01-01 00:00:00+00');
$s->query(<<'SQL');
INSERT INTO quota.tiers (tier) VALUES ('flat');
INSERT INTO quota.tenants (tenant, tier) SELECT 'flat ' || n, 'flat' FROM generate_series(1, 10) n;
INSERT INTO quota.providers (provider, retry_base, retry_max) SELECT 'p' || n, '1 ms', '1 ms' FROM generate_series(1, 12) n;

-- claims and completes so many jobs, each in a transaction of its own: pages per job
CREATE PROCEDURE flat_work(provider text, jobs int, INOUT pages numeric DEFAULT 0) LANGUAGE plpgsql AS $$
DECLARE
	plan json;
	n int := 0;
BEGIN
	FOR i IN 1..jobs LOOP
		EXECUTE format('EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)
			SELECT quota_complete(id, attempt) FROM quota_dequeue(%L)', provider) INTO plan;
		COMMIT;
		pages := pages + (plan->0->'Plan'->>'Shared Hit Blocks')::int + (plan->0->'Plan'->>'Shared Read Blocks')::int;
		n := n + (plan->0->'Plan'->>'Actual Rows')::numeric::int;
	END LOOP;
	IF n <> jobs THEN
		RAISE EXCEPTION '% jobs, not %', n, jobs;
	END IF;
	pages := round(pages / n, 1);
END $$;
CREATE FUNCTION flat_add(provider text, tenant int, jobs int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO quota.jobs (tenant, provider) SELECT 'flat ' || tenant, provider FROM generate_series(1, jobs) $$;
SQL

sub pages
{
	my ($provider, $jobs) = @_;
	return $s->query("CALL flat_work('$provider', $jobs)");
}

# Within a tenth, and a page for a level more of some index.
sub same
{
	my ($before, $after, $what) = @_;
	return ok($after <= 1.1 * $before + 4, "$what: $after pages per job, $before before");
}

# Scenario 1: a flood, and one job of somebody else.
$s->query("SELECT flat_add('p1', 1, 1000)");
pages('p1', 50);
my $few = pages('p1', 200);
$s->query("SELECT flat_add('p1', 1, 60000)");
same($few, pages('p1', 200), 'many jobs of one tenant');
$s->query("SELECT flat_add('p1', n, 10) FROM generate_series(3, 6) n");
pages('p1', 20);
$s->query("SELECT flat_add('p1', 2, 1)");
my $turn = $s->query(<<'SQL');
WITH claims AS MATERIALIZED (SELECT tenant, row_number() OVER () AS turn FROM quota_dequeue('p1', 10, lease => '1 day'))
SELECT turn FROM claims WHERE tenant = 'flat 2'
SQL
cmp_ok($turn, '<=', 6, 'a job of a newcomer waits for one job of each other tenant');

# Scenario 7: a suspended tenant's backlog.
$s->query("SELECT flat_add('p2', 2, 2000)");
pages('p2', 50);
$few = pages('p2', 200);
$s->query("SELECT flat_add('p2', 7, 30000)");
$s->query("UPDATE quota.tenants SET suspended = true WHERE tenant = 'flat 7'");
same($few, pages('p2', 200), 'many jobs of a suspended tenant');

# Scenario 14: an old snapshot keeps every row.
my $old = session($node);
$old->query('BEGIN ISOLATION LEVEL REPEATABLE READ');
$old->query('SELECT count(*) FROM quota.jobs');
$s->query("SELECT flat_add('p3', 1, 8000)");
pages('p3', 50);
$few = pages('p3', 200);
$s->query(<<'SQL') for 1 .. 6;
SELECT count(quota_complete(id, attempt)) FROM quota_dequeue('p3', 1000)
SQL
same($few, pages('p3', 200), 'a snapshot is held, and 6000 jobs were done');

# ... while some fail: what ran lately stands behind what is due.
$s->query("SELECT flat_add('p4', 1, 9000)");
sub fail_some
{
	clock_advance($node, '10 ms');
	$s->query(<<'SQL');
SELECT quota_fail(id, attempt, 'no') FROM quota_dequeue('p4')
SQL
	clock_advance($node, '10 ms');
	return pages('p4', 2);
}
fail_some() for 1 .. 3;
$few = 0;
$few += fail_some() for 1 .. 10;
for (1 .. 60)
{
	$s->query("SELECT count(quota_complete(id, attempt)) FROM quota_dequeue('p4', 100)");
	clock_advance($node, '100 ms');
}
my $many = 0;
$many += fail_some() for 1 .. 10;
same($few / 10, $many / 10, 'a snapshot is held, jobs fail, and 6000 were done');

# Retries that are due at the same microsecond, under the same snapshot.
$s->query("SELECT flat_add('p5', 1, 4000)");
$s->query("SELECT count(quota_fail(id, attempt, 'no', headers => '{\"retry-after\": 5}')) FROM quota_dequeue('p5', 1000)") for 1 .. 4;
$s->query("SELECT flat_add('p5', 1, 1)");
clock_advance($node, '5 s');
clock_advance($node, '1 s');
pages('p5', 50);
$few = pages('p5', 200);
$s->query("SELECT count(quota_complete(id, attempt)) FROM quota_dequeue('p5', 1000)") for 1 .. 3;
same($few, pages('p5', 200), 'retries that are due at once, the last ones');

# ... and in one transaction.
$s->query(<<'SQL');
INSERT INTO quota.jobs (tenant, provider, run_at) SELECT 'flat 1', 'p6', '2026-01-02' FROM generate_series(1, 4000);
SELECT quota_clock_set('2026-01-02 00:00:01');
CREATE FUNCTION flat_pages(jobs int) RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE format('EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM quota_dequeue(''p6'', %s)', jobs) INTO plan;
	RETURN round(((plan->0->'Plan'->>'Shared Hit Blocks')::numeric + (plan->0->'Plan'->>'Shared Read Blocks')::numeric) / jobs, 1);
END $$;
SQL
$few = $s->query("BEGIN; SELECT flat_pages(100)");
$s->query("SELECT flat_pages(1000)") for 1 .. 3;
same($few, $s->query("SELECT flat_pages(100)"), 'scheduled jobs of one time in one transaction');
$s->query('COMMIT');
$old->quit;

# One commit an hour late, far below the position.
my $late = session($node);
$late->query("BEGIN; SELECT flat_add('p7', 1, 1)");
$s->query("SELECT flat_add('p7', 1, 5000)");
pages('p7', 50);
$few = pages('p7', 100);
$s->query("SELECT count(quota_complete(id, attempt)) FROM quota_dequeue('p7', 1000)") for 1 .. 3;
$late->query('COMMIT');
is($s->query("SELECT id <= (SELECT min(id) FROM quota.jobs WHERE provider = 'p7' AND state = 'queued') FROM quota_dequeue('p7')"),
	't', 'the late job is the oldest');
same($few, pages('p7', 100), 'a commit an hour late');

# Scenario 15: statistics from when the tables were empty, and from when they were
# full.
$s->query('DELETE FROM quota.jobs WHERE state = \'queued\'');
$s->query('VACUUM quota.jobs');
$s->query('ANALYZE');
$s->query("SELECT flat_add('p8', 1, 1000)");
pages('p8', 50);
$few = pages('p8', 100);
$s->query("SELECT flat_add('p9', 1, 30000)");
same($few, pages('p9', 150), 'statistics of empty tables');
$s->query('ANALYZE');
$s->query("DELETE FROM quota.jobs WHERE state = 'queued'");
$s->query("SELECT flat_add('p10', 1, 1000)");
same($few, pages('p10', 150), 'statistics of full tables');

is($s->query('SELECT count(*) FROM quota_audit()'), 0, 'the audit finds nothing');
$s->quit;
$node->stop;
done_testing();
