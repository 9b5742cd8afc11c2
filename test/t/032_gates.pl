# Copyright (c) 2026, the quota authors

# G8 with limits that several tenants share: whoever waits in line, whatever is
# rolled back, cancelled or completed meanwhile, a claim finds a job whenever one may
# run. And scenario 9: a cap holds exactly, also when lower ids commit late.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;

my $node = new_node('main', 'max_connections' => 50);
my $main = session($node);

# ---- the model: a job is due to run if no limit refuses a call like it ----

my $steps = 400;
my @seeds = defined $ENV{QUOTA_GATES_SEED} ? ($ENV{QUOTA_GATES_SEED}) : (1 .. 4);
my $tenants = 6;
my @endpoints = ('/a', '/ab', '/b', '/bc', '/ac', '/x');

$main->query("SELECT quota_clock_set('2030-01-01 00:00:00+00')");
$main->query(
	qq{
	INSERT INTO quota.tiers (tier) VALUES ('basic');
	INSERT INTO quota.tenants (tenant, tier, weight)
		SELECT 't' || n, 'basic', n FROM generate_series(1, $tenants) n;
	INSERT INTO quota.providers (provider, safety) VALUES ('p', 1);
	INSERT INTO quota.limits (provider, name, endpoint, per, kind, amount, period, burst, external) VALUES
		('p', 'a rate', '/a*', '{}', 'token_bucket', 3, '1 s', 3, false),
		('p', 'a flights', '/a', '{}', 'concurrency', 4, NULL, NULL, false),
		('p', 'b flights', '/b*', '{}', 'concurrency', 2, NULL, NULL, false),
		('p', 'c rate', '/*c', '{}', 'token_bucket', 1, '1 s', 2, false),
		('p', 'class rate', '/[ab]', '{class}', 'token_bucket', 2, '1 s', 2, false),
		('p', 'tenant rate', NULL, '{tenant}', 'token_bucket', 4, '1 s', 4, false);
	CREATE VIEW may_run AS
		SELECT DISTINCT j.tenant, j.endpoint, j.class
		FROM quota.jobs j JOIN quota.tenants t USING (tenant)
		WHERE j.provider = 'p' AND j.state = 'queued' AND NOT t.suspended});

# what a session of the test holds: ids that it claimed or cancelled
my %held;

# a random id of those in the state
sub some_job
{
	my ($session, $state) = @_;
	return $session->query(
		"SELECT id FROM quota.jobs WHERE provider = 'p' AND state = '$state'
		 ORDER BY hashint8(id + " . int(rand(1000)) . ") LIMIT 1");
}

# one step of a session that works in transactions and savepoints
sub step
{
	my ($n, $s) = @_;
	my $h = $held{$n} //= { open => 0, saved => undef, ids => [] };
	my $dice = int(rand(10));

	if (!$h->{open})
	{
		$s->query('BEGIN');
		$h->{open} = 1;
	}
	if ($dice < 4)
	{
		my $ids = $s->query("SELECT id FROM quota_dequeue('p', " . (1 + int(rand(4))) . ", lease => '1 h')");
		push @{ $h->{ids} }, split /\n/, $ids;
	}
	elsif ($dice < 5)
	{
		my $id = some_job($s, 'queued');
		if ($id ne '' && $s->fails("SELECT quota_cancel($id)") eq '')
		{
			push @{ $h->{ids} }, $id;
		}
		# an error ends everything that was not saved
		elsif ($s->query("SELECT 1") eq '1') { }
	}
	elsif ($dice < 6 && !defined $h->{saved})
	{
		$s->query('SAVEPOINT s');
		$h->{saved} = @{ $h->{ids} };
	}
	elsif ($dice < 8 && defined $h->{saved})
	{
		$s->query('ROLLBACK TO s; RELEASE s');
		$#{ $h->{ids} } = $h->{saved} - 1;
		$h->{saved} = undef;
	}
	elsif ($dice < 9)
	{
		$s->query(rand() < 0.5 ? 'COMMIT' : 'ROLLBACK');
		$held{$n} = undef;
	}
	return;
}

# one step of the world
sub change
{
	my $dice = int(rand(12));
	my $tenant = 't' . (1 + int(rand($tenants)));

	if ($dice < 3)
	{
		my $endpoint = $endpoints[ rand @endpoints ];
		my $class = rand() < 0.3 ? 'interactive' : 'batch';
		$main->query(
			"INSERT INTO quota.jobs (tenant, provider, endpoint, class)
			 SELECT '$tenant', 'p', '$endpoint', '$class' FROM generate_series(1, 1 + " . int(rand(5)) . ')');
	}
	elsif ($dice < 6)
	{
		$main->query("SELECT quota_clock_advance('" . (1 + int(rand(900))) . " ms')");
	}
	elsif ($dice < 9)
	{
		my $id = some_job($main, 'running');
		$main->fails("SELECT quota_complete(id, attempt) FROM quota.jobs WHERE id = $id") if $id ne '';
	}
	elsif ($dice < 10)
	{
		my $id = some_job($main, 'running');
		$main->fails("SELECT quota_extend_job(id, attempt, '2 h') FROM quota.jobs WHERE id = $id") if $id ne '';
	}
	elsif ($dice < 11)
	{
		$main->query("UPDATE quota.tenants SET weight = 1 + " . int(rand(9)) . ", suspended = random() < 0.1 WHERE tenant = '$tenant'");
	}
	else
	{
		$main->query("SELECT (quota_acquire('$tenant', 'p', '/ac')).admitted");
	}
	return;
}

# Claims all that can be claimed; what may run all the same.
sub left_over
{
	my @ids = map { $_ ? @{ $_->{ids} } : () } values %held;
	my $ids = join ',', @ids, 0;

	$main->query("SELECT count(*) FROM quota_dequeue('p', 1000, lease => '1 h')");
	return $main->query(
		"SELECT string_agg(format('%s %s %s', tenant, endpoint, class), ', ') FROM
			(SELECT DISTINCT tenant, endpoint, class FROM quota.jobs JOIN quota.tenants t USING (tenant)
			 WHERE provider = 'p' AND state = 'queued' AND id <> ALL ('{$ids}')) f
		 WHERE (quota_peek(tenant, 'p', endpoint, class => class)).admitted");
}

foreach my $seed (@seeds)
{
	my @workers = map { session($node) } 1 .. 3;
	my @lost;

	srand($seed);
	foreach my $i (1 .. $steps)
	{
		my $n = int(rand(@workers));

		change();
		eval { step($n, $workers[$n]); 1 } or do
		{
			# the transaction failed: its work is undone
			$workers[$n]->query('ROLLBACK');
			$held{$n} = undef;
		};
		my $left = left_over();
		push @lost, "step $i: $left" if $left ne '';
		last if @lost >= 3;
	}
	is("@lost", '', "seed $seed: after each of $steps steps a claim leaves nothing that may run");
	$_->quit for @workers;
	%held = ();
	is(left_over(), '', 'nor when all sessions have ended');
	$main->query(
		q{SELECT count(quota_complete(id, attempt)) FROM quota.jobs WHERE provider = 'p' AND state = 'running';
		  SELECT count(quota_cancel(id)) FROM quota.jobs WHERE provider = 'p' AND state = 'queued';
		  UPDATE quota.tenants SET suspended = false;
		  SELECT quota_clock_advance('1 min')});
	is( $main->query(
			"SELECT count(*) FROM quota.stat_buckets WHERE provider = 'p' AND kind = 'concurrency' AND used > 0"),
		0,
		'nothing is in flight any more');
}
is($main->query('SELECT count(*) FROM quota_audit()'), 0, 'the audit is empty');

# ---- jobs that cost more, or say themselves what: nobody is forgotten ----

$main->query(
	q{INSERT INTO quota.costs (provider, endpoint, unit, cost) VALUES ('p', '/ac', 'request', 2);
	UPDATE quota.limits SET burst = 4 WHERE provider = 'p' AND kind = 'token_bucket'});
foreach my $seed (@seeds)
{
	my @workers = map { session($node) } 1 .. 3;

	srand($seed);
	foreach my $i (1 .. $steps / 2)
	{
		my $n = int(rand(@workers));

		$main->query(
			"INSERT INTO quota.jobs (tenant, provider, endpoint, class, units, \"user\")
			 SELECT 't' || 1 + n % $tenants, 'p', '/' || substr('abacbc', 1 + n % 4, 1 + n % 2), 'event',
				CASE WHEN n % 3 = 0 THEN jsonb_build_object('request', 1 + n % 4) END,
				CASE WHEN n % 5 = 0 THEN 'u' || n % 2 END
			 FROM (VALUES (" . int(rand(1000)) . ')) v (n)');
		change();
		eval { step($n, $workers[$n]); 1 } or do
		{
			$workers[$n]->query('ROLLBACK');
			$held{$n} = undef;
		};
		$main->query("SELECT count(*) FROM quota_dequeue('p', 5, lease => '1 h')");
	}
	$_->quit for @workers;
	%held = ();
	$main->query('UPDATE quota.tenants SET suspended = false');
	my $rounds = 0;
	while ($main->query("SELECT count(*) FROM quota.jobs WHERE provider = 'p' AND state IN ('queued', 'running')") > 0 &&
		$rounds++ < 1000)
	{
		$main->query(
			q{SELECT quota_clock_advance('1 s');
			SELECT count(quota_complete(id, attempt)) FROM quota.jobs WHERE provider = 'p' AND state = 'running'});
		$main->query("SELECT count(*) FROM quota_dequeue('p', 100, lease => '1 h')");
	}
	cmp_ok($rounds, '<', 1000, "seed $seed: all jobs, dear and cheap, have run after $rounds seconds");
}

# ---- sessions at the same time ----

my $worker = $node->basedir . '/worker.sql';
append_to_file(
	$worker, q{\set r random(1, 10)
BEGIN;
SELECT coalesce(string_agg(id::text, ','), '') AS ids, coalesce(string_agg(attempt::text, ','), '') AS attempts
	FROM quota_dequeue('p', 3, lease => '1 h') \gset
\if :r <= 3
ROLLBACK;
\else
COMMIT;
SELECT quota_complete('{:ids}'::bigint[], '{:attempts}'::int[]);
\endif
SELECT quota_clock_advance('50 ms');
});
$main->query(
	q{DELETE FROM quota.costs WHERE provider = 'p';
	INSERT INTO quota.jobs (tenant, provider, endpoint, class)
		SELECT 't' || 1 + n % 6, 'p', (ARRAY['/a', '/ab', '/b', '/bc', '/ac', '/x'])[1 + n % 6], 'event'
		FROM generate_series(1, 3000) n});
run_log([
	$node->installed_command('pgbench'), '-n', '-c', '12', '-j', '2', '-t', '60', '-f', $worker,
	'-h', $node->host, '-p', $node->port, 'postgres'
]) or die 'pgbench failed';
%held = ();
is(left_over(), '', 'after 12 sessions at the same time nothing is left that may run');
cmp_ok($main->query("SELECT count(*) FROM quota.jobs WHERE provider = 'p' AND endpoint <> '/x' AND state = 'succeeded'"),
	'>', 100, 'and they did run');
$main->query(
	q{SELECT count(quota_complete(id, attempt)) FROM quota.jobs WHERE provider = 'p' AND state = 'running';
	SELECT count(quota_cancel(id)) FROM quota.jobs WHERE provider = 'p' AND state = 'queued'});

# ---- sessions that die with the turn of a line in their hands ----

$main->query(
	q{INSERT INTO quota.providers (provider, safety) VALUES ('turn', 1);
	INSERT INTO quota.limits (provider, name, endpoint, kind, amount, external)
		VALUES ('turn', 'one', '/one', 'concurrency', 1, false);
	INSERT INTO quota.jobs (tenant, provider, endpoint)
		SELECT 't' || n, 'turn', '/one' FROM generate_series(1, 4) n});
my $holder = session($node);
$main->query("SELECT tenant FROM quota_dequeue('turn')");
$main->query("SELECT tenant FROM quota_dequeue('turn')");
$main->query("SELECT quota_complete(id, attempt) FROM quota.jobs WHERE provider = 'turn' AND state = 'running'");
$holder->query('BEGIN');
is($holder->query("SELECT tenant FROM quota_dequeue('turn')"), 't2', 'a session has the turn');
is($main->query("SELECT tenant FROM quota_dequeue('turn')"), '', 'nobody else runs');
$holder->kill_backend;
wait_gone($node, $holder->pid);
is($main->query("SELECT count(*) FROM quota_dequeue('turn')"), 1, 'it dies: somebody else has it');
$main->query("SELECT quota_complete(id, attempt) FROM quota.jobs WHERE provider = 'turn' AND state = 'running'");

# an error in the middle of a claim: the rows of quota.leases cannot be written
$main->query(
	q{ALTER TABLE quota.leases ADD CONSTRAINT no_more CHECK (worker <> 'broken');});
my $broken = session($node);
like($broken->fails("SELECT tenant FROM quota_dequeue('turn', worker => 'broken')"),
	qr/no_more/, 'the claim of who has the turn fails');
is($main->query("SELECT count(*) FROM quota_dequeue('turn')"), 1, 'somebody has it');
$main->query("SELECT quota_complete(id, attempt) FROM quota.jobs WHERE provider = 'turn' AND state = 'running'");

# a restart forgets who waits, and loses nobody
$main->query("SELECT tenant FROM quota_dequeue('turn')");
$main->query("SELECT tenant FROM quota_dequeue('turn')");
$main->quit;
$node->restart;
$main = session($node);
is($main->query("SELECT tenant FROM quota_dequeue('turn')"), '', 'after a restart the place is still taken');
$main->query("SELECT quota_complete(id, attempt) FROM quota.jobs WHERE provider = 'turn' AND state = 'running'");
is( $main->query(
		q{SELECT count(*) FROM quota.jobs WHERE provider = 'turn' AND state = 'queued'}),
	0, 'all four have run');

# ---- scenario 9: cap 2, lower ids commit after higher ids run, 32 claimers ----

$main->query(
	q{INSERT INTO quota.providers (provider, safety) VALUES ('cap', 1);
	INSERT INTO quota.limits (provider, name, endpoint, kind, amount, external)
		VALUES ('cap', 'two', '/cap', 'concurrency', 2, false)});
my @claimers = map { session($node) } 1 .. 32;
my $late = session($node);
my (@wrong, $short);
my $rounds = 15;
$short = 0;

foreach my $round (1 .. $rounds)
{
	# ids of the late ones are lower than those of the others
	$late->query('BEGIN');
	$late->query(
		"INSERT INTO quota.jobs (tenant, provider, endpoint, payload)
		 SELECT 't' || n % 4 + 1, 'cap', '/cap', '\"late\"' FROM generate_series(1, 2) n");
	$main->query(
		"INSERT INTO quota.jobs (tenant, provider, endpoint, payload)
		 SELECT 't' || n % 4 + 1, 'cap', '/cap', '\"early\"' FROM generate_series(1, 2) n");
	foreach my $when ('early', 'late')
	{
		$late->query('COMMIT') if $when eq 'late';
		$_->query_async("SELECT count(*) FROM quota_dequeue('cap')") for @claimers;
		my $got = 0;
		$got += $_->wait for @claimers;
		$short++ if $got < 2;
		# two may have lost a race against each other; nobody is left out for good
		$got += $main->query("SELECT count(*) FROM quota_dequeue('cap', 5)");
		push @wrong, "round $round $when: $got" if $got != 2;
		my $running = $main->query("SELECT count(*) FROM quota.jobs WHERE provider = 'cap' AND state = 'running'");
		push @wrong, "round $round $when: $running in flight" if $running != 2;
		$main->query("SELECT count(quota_complete(id, attempt)) FROM quota.jobs WHERE provider = 'cap' AND state = 'running'");
	}
}
is("@wrong", '', "scenario 9: two in flight, never more, never fewer, in $rounds rounds of 32 claimers");
note "rounds in which the 32 alone got fewer than two: $short";
is( $main->query("SELECT count(*) FROM quota.jobs WHERE provider = 'cap' AND state <> 'succeeded'"),
	0, 'all of them ran, early or late');
$_->quit for @claimers;

# ---- no place for a line: flows wait one by one ----

my $small = new_node('small', 'quota.max_flows' => 16);
my $one = session($small);
$one->query("SELECT quota_clock_set('2030-01-01 00:00:00+00')");
$one->query(
	q{INSERT INTO quota.tiers (tier) VALUES ('basic');
	INSERT INTO quota.tenants (tenant, tier) SELECT 't' || n, 'basic' FROM generate_series(1, 2) n;
	INSERT INTO quota.providers (provider, safety) VALUES ('users', 1), ('p', 1);
	INSERT INTO quota.limits (provider, name, endpoint, per, amount, period, burst, external) VALUES
		('users', 'user', NULL, '{user}', 1, '1 s', 1, false), ('p', 'slow', '/slow', '{}', 1, '1 s', 1, false);
	INSERT INTO quota.jobs (tenant, provider, "user") SELECT 't1', 'users', 'u' || n / 2 FROM generate_series(0, 39) n});
# each user's second job waits in a line of its own, until the table is full
for (1 .. 20)
{
	$one->query(
		q{SELECT count(quota_complete(id, attempt)) FROM quota_dequeue('users', 10);
		SELECT quota_clock_advance('1 s')});
}
$one->query("INSERT INTO quota.jobs (tenant, provider, endpoint) SELECT 't' || n % 2 + 1, 'p', '/slow' FROM generate_series(1, 6) n");
my $ran = '';
for (1 .. 6)
{
	$ran .= $one->query("SELECT string_agg(tenant, '+') FROM quota_dequeue('p', 10)") . ' ';
	$one->query("SELECT quota_clock_advance('1 s')");
}
is($ran, 't1 t2 t1 t2 t1 t2 ', 'without a line each is woken when the limit opens');

done_testing();
