# Copyright (c) 2026, the quota authors

# Batches over crashes and restarts: the jobs of a batch hold one place in flight
# until the last of them has ended (G5, G6, G14).  Scenarios 13 (claims that are
# rolled back, cancelled, terminated leave nothing behind), 16 (no call claims more
# than it was asked for, no job twice) and 17 (no deadlock of overlapping calls).

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;

my $node = new_node('main', 'max_connections' => 80);
my $queued = 0;

sub value { return psql_value($node, $_[0]) }

# Adds jobs "1", "2", ...
sub enqueue
{
	my ($n) = @_;
	value("INSERT INTO quota.jobs (tenant, provider, payload)
		SELECT 't', 'p', to_jsonb(i) FROM generate_series($queued + 1, $queued + $n) i");
	$queued += $n;
	return;
}

# Ends running jobs for which the condition holds, and says how many.
sub complete
{
	my ($condition) = @_;
	return value("SELECT cardinality(array_positions(quota_complete(coalesce(array_agg(id), '{}'), coalesce(array_agg(attempt), '{}')), 'succeeded'))
		FROM quota.jobs WHERE state = 'running' AND $condition");
}

my $batch = q{SELECT count(*) FROM quota_dequeue('p', 4, lease => '1 h', same_endpoint => true)};
my $places = q{SELECT coalesce(string_agg(calls::text, ' ' ORDER BY calls), '') FROM quota.stat_permits WHERE job IS NULL};
my $used = q{SELECT sum(used) FROM quota.stat_buckets WHERE kind = 'concurrency'};

$node->safe_psql(
	'postgres', q{
	INSERT INTO quota.tiers (tier, max_in_flight) VALUES ('basic', 2);
	INSERT INTO quota.tenants (tenant, tier) VALUES ('t', 'basic');
	INSERT INTO quota.providers (provider, safety) VALUES ('p', 1);
	INSERT INTO quota.limits (provider, name, kind, amount) VALUES ('p', 'flight', 'concurrency', 2);
	INSERT INTO quota.limits (provider, name, kind, amount, period, per)
		VALUES ('p', 'credits', 'allowance', 1000000, '36000 days', '{tenant}');
});

# ---- restarts ----

my @ends = (
	[ 'kill -9' => sub { $node->kill9; } ],
	[ 'immediate stop' => sub { $node->stop('immediate') } ],
	[ 'clean restart' => sub { $node->stop('fast') } ]);

foreach my $end (@ends)
{
	my ($name, $stop) = @$end;
	enqueue(12);
	my $first = $queued - 11;
	is(value($batch), '4', "$name: a batch");
	is(value($batch), '4', "$name: another one");
	is(value($batch), '0', "$name: both places are taken");
	is(complete("payload::int = $first"), '1', "$name: one job ends before");
	my $open = session($node);
	$open->query("BEGIN; SELECT quota_complete(id, attempt) FROM quota.jobs WHERE payload #>> '{}' = ($first + 1)::text");
	my ($pid) = slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/;
	$stop->();
	$open->kill_client;
	# after kill -9 it is to be gone for the kernel too, and so are its children
	wait_until('end of the postmaster', sub { !kill 0, $pid });
	wait_until('start', sub { $node->start(fail_ok => 1) });
	is(value($batch), '0', "$name: both places are still taken");
	is(value($places), '3 4', "$name: each once, by jobs that have not ended");
	is(value($used), '4', "$name: in both limits");
	is(complete("payload::int BETWEEN $first + 1 AND $first + 2"), '2', "$name: two more end");
	is(value($batch), '0', "$name: the last one of the batch holds the place");
	is(complete("payload::int = $first + 3"), '1', "$name: it ends");
	is(value($places), '4', "$name: and the place is free");
	# direct calls that a crash has forgotten count for as long as one may last
	clock_advance($node, '61 s');
	is(value($batch), '4', "$name: for another batch");
	is(complete('true'), '8', "$name: all end");
	is(value($places), '', "$name: nothing is left");
	is(value($used), '0', "$name: nor in flight");
}

# ---- scenario 13: claims that come to nothing ----

enqueue(8);
my $counts = q{SELECT depth || ' ' || in_flight FROM quota.stat_flows};
my $credits = q{SELECT used FROM quota.stat_buckets WHERE kind = 'allowance'};
my $before = value($credits);
my $session = session($node);
$session->query("BEGIN; $batch; SAVEPOINT s; $batch");
is(value($used), '4', 'two batches that are not committed count');
is(value($counts), '0 8', 'so do their jobs');
$session->query('ROLLBACK TO s');
is(value($used), '2', 'a savepoint gives back one');
$session->query($batch);
$session->kill_backend;
wait_gone($node, $session->pid);
is(value($used), '0', 'terminated: nothing is in flight');
is(value($counts), '8 0', 'all jobs wait again');
is(value($credits), $before, 'credits are back');
$session = session($node);
$session->query_async("SET statement_timeout = '100 ms'; SELECT count(*), pg_sleep(60) FROM quota_dequeue('p', 4, same_endpoint => true)");
eval { $session->wait };
is(value($used), '0', 'cancelled: nothing is in flight');
is(value($counts), '8 0', 'all jobs wait again');
is(value("$places"), '', 'no permit is left');
is(value($batch), '4', 'and can be claimed');
complete('true');
value(q{SELECT count(quota_cancel(id)) FROM quota.jobs WHERE state = 'queued'});

# ---- scenarios 13, 16 and 17 with many sessions ----

value(
	q{
	UPDATE quota.tiers SET max_in_flight = 12;
	UPDATE quota.limits SET amount = 16 WHERE name = 'flight';
	INSERT INTO quota.tenants (tenant, tier) SELECT 'u' || i, 'basic' FROM generate_series(1, 5) i;
	CREATE TABLE claimed (id bigint, attempt int, PRIMARY KEY (id, attempt));
	CREATE TABLE ended (id bigint PRIMARY KEY);

	CREATE FUNCTION claim(same boolean, fails boolean) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		got bigint[];
	BEGIN
		INSERT INTO quota.jobs (tenant, provider, endpoint, payload)
			SELECT 'u' || (1 + random() * 4)::int, 'p', CASE WHEN random() < 0.3 THEN 'e' END, to_jsonb(i / 3)
			FROM generate_series(1, 6) i;
		WITH c AS (INSERT INTO claimed SELECT id, attempt FROM quota_dequeue('p', 10, lease => '1 h',
			same_endpoint => same, merge_equal => same) RETURNING id)
		SELECT array_agg(id) INTO got FROM c;
		IF cardinality(got) > 10 THEN
			RAISE EXCEPTION 'too many jobs: %', cardinality(got);
		END IF;
		IF fails THEN
			RAISE division_by_zero;
		END IF;
	END $$;

	-- in a subtransaction, which may come to nothing
	CREATE FUNCTION try_claim(same boolean, fails boolean) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM claim(same, fails);
	EXCEPTION WHEN division_by_zero THEN
	END $$;

	-- ends jobs that others end too
	CREATE FUNCTION ack(n int) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		ids bigint[];
		attempts int[];
		answers text[];
	BEGIN
		SELECT array_agg(id), array_agg(attempt) INTO ids, attempts FROM
			(SELECT id, attempt FROM quota.jobs WHERE state = 'running' ORDER BY random() LIMIT n) s;
		IF ids IS NULL THEN
			RETURN;
		END IF;
		IF random() < 0.3 THEN
			answers := quota_fail(ids, attempts, array_fill('no'::text, ARRAY[cardinality(ids)]), retry => false);
		ELSE
			answers := quota_complete(ids, attempts);
		END IF;
		INSERT INTO ended SELECT i FROM unnest(ids, answers) u (i, a) WHERE a NOT IN ('stale', 'busy');
	END $$;
});
my $log = -s $node->logfile;
my $script = PostgreSQL::Test::Utils::tempdir() . '/worker';
append_to_file($script, q{
\set same random(0, 1)
\set fails random(1, 10)
\set back random(1, 10)
BEGIN;
SELECT try_claim(:same = 1, :fails = 1);
\if :back <= 3
ROLLBACK;
\else
COMMIT;
\endif
BEGIN;
SELECT ack(20);
\if :back = 4
ROLLBACK;
\else
COMMIT;
\endif
});
my $out = `@{[ $node->installed_command('pgbench') ]} -n -c 64 -j 2 -t 15 -f $script '@{[ $node->connstr('postgres') ]}' 2>&1`;
is($?, 0, '64 clients: no error') or diag($out);
unlike(slurp_file($node->logfile, $log), qr/ERROR:|FATAL:|PANIC:/, 'no deadlock, no error in the log');
cmp_ok(value('SELECT count(*) FROM ended'), '>', 300, 'jobs were ended');
is( value(q{SELECT count(*) FROM quota.jobs j FULL JOIN claimed c USING (id)
		WHERE (j.attempt > 0) IS DISTINCT FROM (c.id IS NOT NULL) AND j.payload IS NOT NULL AND j.tenant <> 't'}),
	'0', 'what was claimed is what the jobs say');
is( value(q{SELECT count(*) FROM quota.jobs j LEFT JOIN ended e USING (id)
		WHERE tenant <> 't' AND (state IN ('succeeded', 'failed')) <> (e.id IS NOT NULL)}),
	'0', 'each job was ended once, by who was told so');
is( value(q{SELECT sum(depth) || ' ' || sum(in_flight) FROM quota.stat_flows WHERE tenant <> 't'}),
	value(q{SELECT count(*) FILTER (WHERE state = 'queued') || ' ' || count(*) FILTER (WHERE state = 'running')
		FROM quota.jobs WHERE tenant <> 't'}),
	'flows count as rows do');
is( value(q{SELECT coalesce(sum(calls), 0) FROM quota.stat_permits WHERE job IS NULL}),
	value('SELECT count(*) FROM quota.leases WHERE batch IS NOT NULL'),
	'batches have as many members as rows say');
is(value('SELECT count(*) FROM quota_audit()'), '0', 'and the audit finds nothing');
complete('true');
value(q{SELECT count(quota_cancel(id)) FROM quota.jobs WHERE state = 'queued'});
is(value($used), '0', 'nothing is left in flight');
is(value('SELECT count(*) FROM quota.stat_permits'), '0', 'no permit');
is(value('SELECT sum(depth) + sum(in_flight) FROM quota.stat_flows'), '0', 'no job');

# ---- ten thousand in one call ----

value(q{
	UPDATE quota.tiers SET max_in_flight = NULL;
	DELETE FROM quota.limits WHERE name = 'flight';
	INSERT INTO quota.jobs (tenant, provider) SELECT 't', 'p' FROM generate_series(1, 10000);
});
my $many = session($node);
$many->query(q{BEGIN; SELECT count(*) FROM generate_series(1, 10), LATERAL (SELECT count(*) FROM quota_dequeue('p', 1000)) s});
is( $many->query(q{SELECT count(*) FROM unnest((SELECT quota_complete(array_agg(id ORDER BY id % 97), array_agg(attempt))
		FROM quota.jobs WHERE state = 'running')) a WHERE a = 'succeeded'}),
	$many->query(q{SELECT count(*) FROM quota.jobs WHERE state = 'succeeded' AND payload IS NULL AND tenant = 't'}),
	'claimed and ended in one transaction');
$many->query('COMMIT');
is(value(q{SELECT sum(in_flight) FROM quota.stat_flows}), '0', 'nothing is in flight');
$many->quit;
$node->stop;

done_testing();
