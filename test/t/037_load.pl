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
crash($node);
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
crash($node);

my $stopper = stopper();

# open before the count
my %open;
my @claimed;
my $claim;
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

crash($node);
$stopper = stopper();
value("SELECT enqueue('busy', 'p', 5)");
$counter = start_count();
value("SELECT enqueue('busy', 'p', 5)");
my $pid = $counter->pid;
value("SELECT pg_terminate_backend($pid)");
wait_gone($node, $pid);
is(value('SELECT count(depth) FROM quota.stat_flows'),
	'0', 'a count that was ended has counted nothing');
value("SELECT enqueue('busy', 'p', 5)");
$counter = start_count();
value("SELECT enqueue('busy', 'p', 5)");
$stopper->query("SELECT $release");
$counter->wait;
is(value('SELECT * FROM wrong'), '', 'the next count does it');

# ---- who counts ----

# a serializable transaction is not blamed for what it reads to count
crash($node);
$counter = session($node);
$counter->query('BEGIN ISOLATION LEVEL SERIALIZABLE');
$counter->query("SELECT count(*) FROM quota_dequeue('none')");
is( value(
		"SELECT count(*) FROM pg_locks WHERE mode = 'SIReadLock' AND relation IN ('quota.jobs'::regclass, 'quota.jobs_flow'::regclass, 'quota.leases'::regclass)"
	),
	'0', 'counting takes no predicate lock');
$counter->query('COMMIT');
is(value('SELECT * FROM wrong'), '', 'a serializable transaction counts');
$ready = value(
	"SELECT count(*) FROM quota.jobs WHERE provider = 'p' AND state = 'queued' AND attempt = 0");
is( value("SELECT count(*) FROM quota_dequeue('p', 1000) WHERE attempt = 1"),
	$ready, 'nothing ready was settled');

# one with an old snapshot, that has written jobs itself
foreach my $end (qw(COMMIT ROLLBACK))
{
	crash($node);
	$counter = session($node);
	$counter->query('BEGIN ISOLATION LEVEL REPEATABLE READ');
	$counter->query('SELECT 1');
	value("SELECT enqueue('busy', 'p', 4)");
	$counter->query("SELECT enqueue('own', 'p', 3)");
	$counter->query("SELECT quota_complete(id, attempt) FROM quota_dequeue('p', 2)");
	$counter->query("SELECT id FROM quota_dequeue('p')");
	$counter->query(
		"DELETE FROM quota.jobs WHERE id = (SELECT max(id) FROM quota.jobs WHERE tenant = 'own')");
	$counter->query("SELECT count(*) FROM quota_dequeue('none')");
	is(value('SELECT count(*) = count(depth) FROM quota.stat_flows'),
		't', 'a transaction that has written jobs counts');
	$counter->query($end);
	is(value('SELECT * FROM wrong'), '', "counts are right after its $end");
}

# whoever tells numbers counts first
foreach my $query ("SELECT sum(queued) FROM quota_next_at('p')",
	"SELECT quota_drain_time('p')")
{
	crash($node);
	value($query);
	is( value('SELECT count(*) > 0 AND count(*) = count(depth) FROM quota.stat_flows'),
		't', "$query counts");
}

# ---- commits while somebody takes the snapshot ----

value("SELECT finished('history', 'p', 12000)");
my $script = $node->basedir . '/load.pgbench';
append_to_file(
	$script, q{
INSERT INTO quota.jobs (tenant, provider) VALUES ('busy', 'p'), ('own', 'p');
SELECT quota_complete(id, attempt) FROM quota_dequeue('p');
SELECT count(quota_fail(id, attempt, 'again', retry => id % 2 = 0)) FROM quota_dequeue('p');
BEGIN;
INSERT INTO quota.jobs (tenant, provider) VALUES ('busy', 'p');
SELECT count(*) FROM quota_dequeue('p', 2);
ROLLBACK;
});

my $clients = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgbench'";

# waits until fifty more jobs have been committed
sub grows
{
	my $before = value('SELECT count(*) FROM quota.jobs');

	ok($node->poll_query_until('postgres', "SELECT count(*) > $before + 50 FROM quota.jobs"), shift);
}

foreach my $round (1 .. 3)
{
	crash($node);
	$stopper = stopper();
	my $load = IPC::Run::start(
		[
			$node->installed_command('pgbench'), '-n', '-c', '6', '-T', '600',
			# a name of its own: the environment gives it this test's
			'-f', $script, '-h', $node->host, '-p', $node->port, 'dbname=postgres application_name=pgbench'
		],
		'>', \my $out, '2>', \my $err);
	grows("round $round: the load runs");
	is(value($clients), '6', "round $round: and is known by its name");
	# behind the snapshot; others may have come there first
	$counter = session($node);
	$counter->query_async("SELECT count(*) FROM quota_dequeue('none')");
	ok($node->poll_query_until('postgres',
			"SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'advisory'"),
		"round $round: somebody counts");
	grows("round $round: and the load goes on");
	$stopper->query("SELECT $release");
	$counter->wait;
	$load->signal('TERM');
	$load->finish;
	is($err, '', "round $round: it has met no error");
	# else what they wrote last may be counted by nobody yet
	$node->poll_query_until('postgres', $clients, '0') or die 'clients are left';
	is(value('SELECT * FROM wrong'), '', "round $round: counts are right");
}

# ---- killed ----

# a limit of concurrency after a backend with claims was killed
value("SELECT quota_complete(id, attempt) FROM quota.jobs WHERE provider = 'q' AND state = 'running'");
clock_advance($node, '1 day');
value("SELECT enqueue('capped', 'q', 3)");
is(value("SELECT count(*) FROM quota_dequeue('q', 1, lease => '20 hours')"),
	'1', 'one place is taken');
my $victim = session($node);
$victim->query('BEGIN');
is($victim->query("SELECT count(*) FROM quota_dequeue('q')"),
	'1', 'the second place is taken by an open transaction');
$node->safe_psql('postgres', 'CHECKPOINT');
crash_backend($node, $victim->pid);
$claim = "SELECT count(*) FROM quota_dequeue('q', 5, lease => '20 hours')";
is(value($claim), '0', 'until permits are over that may be unknown, nothing runs');
clock_advance($node, '2 hours');
is(value($claim), '1', 'then there is one place: what was committed is in flight');
is(value('SELECT * FROM wrong'), '', 'counts are right then');

# who counts is killed
crash($node);
$stopper = stopper();
$counter = start_count();
crash_backend($node, $counter->pid);
value("SELECT count(*) FROM quota_dequeue('none')");
is(value('SELECT * FROM wrong'), '', 'a count that was killed is done again');

# ---- nobody asks ----

my $is_counted =
  'SELECT count(*) > 0 AND count(depth) = count(*) FROM quota.stat_flows';

configure($node, 'max_worker_processes' => 8);
crash($node);
ok($node->poll_query_until('postgres', $is_counted),
	'after a crash a worker loads and counts');
is(value('SELECT * FROM wrong'), '', 'it counts right');

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby);
is(psql_value($standby, 'SELECT count(*) FROM quota.stat_flows'),
	'0', 'a standby loads nothing');
$node->stop;
$standby->promote;
ok($standby->poll_query_until('postgres', $is_counted),
	'after a promotion a worker loads and counts');
is(psql_value($standby, 'SELECT * FROM wrong'), '', 'it counts right there too');

# ---- scenario 11: everything waits for its bucket, and the server restarts ----

clock_advance($standby, '0 s');
$standby->safe_psql(
	'postgres', q{
	INSERT INTO quota.providers (provider, safety) VALUES ('slow', 1);
	INSERT INTO quota.limits (provider, name, amount, period, burst)
		VALUES ('slow', 'rate', 10, '1 hour', 10);
	SELECT enqueue(t, 'slow', 13) FROM unnest('{busy,own,later}'::text[]) t});
$claim = "SELECT count(*) FROM quota_dequeue('slow', 100)";
is(psql_value($standby, $claim), '10', 'the first ten may run');
is(psql_value($standby, $claim), '0', 'the others wait');
foreach my $mode (qw(fast immediate))
{
	$standby->stop($mode);
	$standby->start;
	# a crash lets go of the frozen clock, and of what had refilled
	my @admitted = map {
		clock_advance($standby, $_);
		psql_value($standby, $claim)
	} ('0 s', '30 minutes', '30 minutes');
	is_deeply(\@admitted, [ 0, 5, 5 ],
		"scenario 11: after a stop ($mode) they run at the rate");
}

done_testing();
