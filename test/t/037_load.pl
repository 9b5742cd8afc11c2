# Copyright (c) 2026, the quota authors

# G14: after a crash or a promotion the queue goes on from its rows.  A large one
# can be used before its jobs are counted (job_load.c), and what happens while they
# are is counted exactly once (recount.c).

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use IPC::Run;
use QuotaTest;

# who counts stops there in a test
my $hold = 'pg_advisory_lock(1903521652, 1668248942)';
my $release = 'pg_advisory_unlock(1903521652, 1668248942)';

# nobody counts but who is told to
my $node = new_node(
	'main',
	-init => { allows_streaming => 1 },
	'autovacuum' => 'off',
	'restart_after_crash' => 'on',
	'max_worker_processes' => 0);

sub value { return psql_value($node, $_[0]) }

$node->safe_psql(
	'postgres', q{
	INSERT INTO quota.tiers (tier) VALUES ('basic');
	INSERT INTO quota.tenants (tenant, tier)
		SELECT t, 'basic' FROM unnest('{history,passed,missing,later,capped,own,busy}'::text[]) t;
	INSERT INTO quota.providers (provider, safety) VALUES ('p', 1), ('q', 1), ('none', 1);
	INSERT INTO quota.limits (provider, name, kind, amount)
		VALUES ('q', 'slots', 'concurrency', 2);

	-- flows whose counts differ from what the rows say
	CREATE VIEW wrong AS
		WITH rows AS (
			SELECT provider, tenant, class,
				count(*) FILTER (WHERE state <> 'running') AS depth,
				count(*) FILTER (WHERE state = 'running') AS in_flight
			FROM quota.jobs WHERE finished_at IS NULL AND state IN ('queued', 'scheduled', 'running')
			GROUP BY 1, 2, 3)
		SELECT provider, tenant, class, r.depth AS jobs, f.depth, r.in_flight AS running, f.in_flight
		FROM rows r FULL JOIN quota.stat_flows f USING (provider, tenant, class)
		WHERE coalesce(r.depth, 0) IS DISTINCT FROM f.depth
			OR coalesce(r.in_flight, 0) IS DISTINCT FROM f.in_flight;

	CREATE FUNCTION enqueue(tenant text, provider text, n int) RETURNS void LANGUAGE sql AS $$
		INSERT INTO quota.jobs (tenant, provider, payload)
			SELECT $1, $2, to_jsonb(repeat('x', 1500)) FROM generate_series(1, n)
	$$;
	-- finished jobs, as from a dump
	CREATE FUNCTION finished(tenant text, provider text, n int) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		model quota.jobs;
	BEGIN
		INSERT INTO quota.jobs (tenant, provider) VALUES ($1, $2) RETURNING * INTO model;
		INSERT INTO quota.jobs (tenant, provider, payload, flow, state, attempt, finished_at)
			SELECT $1, $2, to_jsonb(repeat('x', 1500)), model.flow, 'succeeded', 1, now()
			FROM generate_series(1, n);
		DELETE FROM quota.jobs WHERE id = model.id;
	END $$});

# the server is killed, and nobody has used the queue since
sub crash
{
	$node->stop('immediate');
	$node->start;
	return;
}

# a session that counts, when it is allowed to
sub start_count
{
	my $counter = session($node, @_);
	$counter->query_async("SELECT count(*) FROM quota_dequeue('none')");
	wait_event($counter, 'Lock', 'advisory');
	return $counter;
}

sub stopper
{
	my $session = session($node);
	$session->query("SELECT $hold");
	return $session;
}

# ---- a small queue ----

value("SELECT enqueue('own', 'p', 3)");
value("SELECT id FROM quota_dequeue('p')");
crash();
value("SELECT count(*) FROM quota_dequeue('none')");
is(value('SELECT count(*) FROM wrong'), '0', 'a small queue is counted at once');
is(value("SELECT depth || ' ' || in_flight FROM quota.stat_flows"),
	'2 1', 'of a small queue, ready and running jobs');
value("DELETE FROM quota.jobs WHERE state = 'queued'");

# ---- a large one ----

value("SELECT finished('history', 'p', 4000), enqueue('history', 'p', 5)");
my $first = value(
	"SELECT min(id) FROM quota.jobs WHERE tenant = 'history' AND state = 'queued'");
# ready before others that are finished
value("SELECT finished('passed', 'p', 50), enqueue('passed', 'p', 1), finished('passed', 'p', 150), enqueue('passed', 'p', 3)");
my $passed = value(
	"SELECT min(id) FROM quota.jobs WHERE tenant = 'passed' AND state = 'queued'");
# ready before one that was cancelled, the last of its flow
value("SELECT enqueue('missing', 'p', 2)");
value("SELECT quota_cancel(max(id)) FROM quota.jobs WHERE tenant = 'missing'");
value("INSERT INTO quota.jobs (tenant, provider, run_at)
	VALUES ('later', 'p', now() + '1 day'), ('later', 'p', now() + '1 day')");
value("SELECT enqueue('capped', 'q', 5), enqueue('busy', 'p', 20)");
value("SELECT count(*) FROM quota_dequeue('q', 2, lease => '1 hour')");
crash();

my $stopper = stopper();

# open before the count
my %open;
my @claimed;
foreach my $name (qw(before commits rolls_back stays stays_back))
{
	my $session = $open{$name} = session($node);
	$session->query('BEGIN');
	$session->query("SELECT enqueue('busy', 'p', 2), enqueue('own', 'p', 1)");
	push @claimed, $session->query("SELECT id || ' ' || tenant FROM quota_dequeue('p')");
	like($claimed[-1], qr/^\d+ /, "$name: a claim does not wait for the count");
}
is( value(
		"SELECT count(*) FROM quota.jobs WHERE id = $first AND state = 'queued'"),
	'1', 'nothing is committed yet');
$open{before}->query('COMMIT');

my $counter = start_count();
is(value('SELECT count(*) > 0, count(depth), count(in_flight) FROM quota.stat_flows'),
	't|0|0', 'flows are there, and not counted');
$open{$_}->query('COMMIT') foreach qw(commits);
$open{$_}->query('ROLLBACK') foreach qw(rolls_back);

# what happens while others count
my $worker = session($node);
is( $worker->query("SELECT reason FROM quota_acquire('capped', 'q')"),
	'concurrency_limited', 'a limit of concurrency knows what is running');
my @ids = split /\n/,
  $worker->query("SELECT id || ' ' || tenant FROM quota_dequeue('p', 12)");
is(scalar(@ids), 12, 'jobs can be claimed');
push @claimed, @ids;
ok( (grep { $_ eq "$first history" } @claimed),
	'a flow goes on behind its history');
ok(!(grep { $_ eq "$passed passed" } @claimed), 'what was passed by is not seen yet');
@ids = map { /^(\d+)/ } @ids;
$worker->query("SELECT quota_complete($ids[0], 1), quota_fail($ids[1], 1, 'no')");
$worker->query("SELECT enqueue('busy', 'p', 3), enqueue('own', 'q', 2)");
$worker->query(
	"SELECT quota_cancel(max(id)) FROM quota.jobs WHERE tenant = 'busy' AND state = 'queued'");
$worker->query(
	"DELETE FROM quota.jobs WHERE id = (SELECT min(id) FROM quota.jobs WHERE tenant = 'later')");
$worker->query('BEGIN');
$worker->query("SELECT enqueue('busy', 'p', 1)");
$worker->query("SELECT id FROM quota_dequeue('p')");
$worker->query('ROLLBACK');

# who finds nothing waits for the count
my $empty = session($node);
$empty->query_async("SELECT count(*) FROM quota_dequeue('q')");
wait_event($empty, 'Extension');

$stopper->query("SELECT $release");
is($counter->wait, '0', 'the count ends');
is($empty->wait, '0', 'nothing more may run');
$open{$_}->query('COMMIT') foreach qw(stays);
$open{$_}->query('ROLLBACK') foreach qw(stays_back);
is(value('SELECT * FROM wrong'), '', 'counts are what the rows say');
is( value("SELECT depth FROM quota.stat_flows WHERE tenant = 'missing'"),
	'1', 'the count finds flows');

my $ready = value(
	"SELECT count(*) FROM quota.jobs WHERE provider = 'p' AND state = 'queued' AND attempt = 0");
@claimed = split /\n/, value("SELECT id FROM quota_dequeue('p', 1000) WHERE attempt = 1");
is(scalar(@claimed), $ready, 'every ready job is found');
ok( (grep { $_ == $passed } @claimed), 'also one that was passed by');
is(value('SELECT * FROM wrong'), '', 'counts are right at the end');

# ---- what may stop a count ----

crash();
$stopper = stopper();
value("SELECT enqueue('busy', 'p', 5)");
$counter = start_count();
value("SELECT enqueue('busy', 'p', 5)");
my $pid = $counter->pid;
value("SELECT pg_terminate_backend($pid)");
$node->poll_query_until('postgres',
	"SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid");
is(value('SELECT count(depth) FROM quota.stat_flows'),
	'0', 'a count that was ended has counted nothing');
value("SELECT enqueue('busy', 'p', 5)");
$counter = start_count();
value("SELECT enqueue('busy', 'p', 5)");
$stopper->query("SELECT $release");
$counter->wait;
is(value('SELECT * FROM wrong'), '', 'the next count does it');

done_testing();
