# Copyright (c) 2026, the quota authors

# quota_wait(): exactly one waiter returns for each event, none is forgotten,
# and a waiter is in nobody's way (G10).

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;

my $node = new_node('main', 'max_connections' => 60);

clock_set($node, '2030-01-01 00:00:00+00');
$node->safe_psql(
	'postgres', q{
	INSERT INTO quota.tiers (tier) VALUES ('basic'), ('better');
	INSERT INTO quota.tenants (tenant, tier) VALUES ('a', 'basic'), ('b', 'basic');
	INSERT INTO quota.providers (provider, safety)
		SELECT x, 1 FROM unnest('{free,rate,slots,own,both,tier,x,y,due,due2}'::text[]) x;
	INSERT INTO quota.limits (provider, name, per, kind, amount, period, burst)
		VALUES ('rate', 'calls', '{}', 'token_bucket', 60, '1 minute', 1),
			('both', 'calls', '{}', 'token_bucket', 60, '1 minute', 1);
	INSERT INTO quota.limits (provider, name, per, kind, amount)
		VALUES ('slots', 'in flight', '{}', 'concurrency', 1),
			('both', 'in flight', '{}', 'concurrency', 2),
			('own', 'in flight', '{tenant}', 'concurrency', 1),
			('tier', 'in flight', '{tenant}', 'concurrency', 0);
	INSERT INTO quota.tier_limits (tier, provider, name, amount)
		VALUES ('better', 'tier', 'in flight', 5);
});

my $main = session($node);

# commits so many jobs of the tenant
sub enqueue
{
	my ($provider, $n, $tenant) = @_;
	$n //= 1;
	$tenant //= 'a';
	return $main->query("INSERT INTO quota.jobs (tenant, provider)
		SELECT '$tenant', '$provider' FROM generate_series(1, $n)");
}

# how many of the sessions sleep in quota_wait()
sub asleep
{
	my $pids = join(',', map { $_->pid } @_);
	return psql_value($node, "SELECT count(*) FROM pg_stat_activity
		WHERE pid IN ($pids) AND state = 'active' AND wait_event_type = 'Extension'");
}

# so many sessions that wait for the provider and then claim one job, and
# complete it, where that would wake nobody
sub workers
{
	my ($n, $provider, $options) = @_;
	my $claimed = $provider =~ /slots|own/ ? '*' : 'quota_complete(id, attempt)::text';
	my @workers = map { session($node, options => $options // '') } 1 .. $n;
	foreach my $worker (@workers)
	{
		$worker->query_async("CALL quota_wait('$provider', '1 hour');
			SELECT 'claimed ' || count($claimed) FROM quota_dequeue('$provider');");
		wait_event($worker, 'Extension');
	}
	return @workers;
}

# what those said that are done, once so many are; the others still sleep
sub done
{
	my ($workers, $n) = @_;
	my $asleep = @$workers - $n;
	my $rounds = 0;
	while ((my $left = asleep(@$workers)) > $asleep)
	{
		die "$left waiters are asleep instead of $asleep" if ++$rounds > 1000;
	}
	# who is woken in vain has had its chance by now
	psql_value($node, 'SELECT 1') for 1 .. 5;
	my @said = map { $_->wait } grep { !$_->is_busy } @$workers;
	@$workers = grep { $_->{pending} } @$workers;
	return join(', ', @said);
}

# ends those that still sleep; says how many there were
sub dismiss
{
	my @workers = @_;
	$_->kill_backend('INT') foreach @workers;
	my $cancelled = grep { $_->_finish; $_->{err} =~ /canceling statement/ } @workers;
	$_->quit foreach @workers;
	return $cancelled;
}

# ---- one event, one waiter ----

my @w = workers(32, 'free');
my $pids = join(',', map { $_->pid } @w);
is(psql_value($node, "SELECT count(*) FROM pg_stat_activity
		WHERE pid IN ($pids) AND backend_xmin IS NULL AND backend_xid IS NULL"),
	32, 'waiters have no snapshot and no transaction id');
is(psql_value($node, "SELECT count(*) FROM pg_locks WHERE pid IN ($pids) AND locktype <> 'virtualxid'"),
	0, 'waiters hold no lock');
$main->query('BEGIN');
enqueue('free', 3);
$main->query('ROLLBACK');
is(asleep(@w), 32, 'what is rolled back wakes nobody');
enqueue('free');
is(done(\@w, 1), 'claimed 1', '32 waiters, one enqueue: one returns');
enqueue('free') for 1 .. 3;
is(done(\@w, 3), 'claimed 1, claimed 1, claimed 1', 'three commits: three return');
enqueue('free', 10);
is(done(\@w, 10), join(', ', ('claimed 1') x 10),
	'ten jobs in one commit: each who claims wakes the next, ten return');
$main->query("INSERT INTO quota.jobs (tenant, provider, endpoint)
	SELECT t, 'free', e FROM unnest('{a,b}'::text[]) t, unnest('{x,y}'::text[]) e");
is(done(\@w, 4), join(', ', ('claimed 1') x 4), 'jobs of four flows in one commit: four');
is(dismiss(@w), 14, 'the others have slept all the time and can be cancelled');

@w = workers(3, 'rate');
enqueue('rate', 5);
is(done(\@w, 1), 'claimed 1', 'a limit for all with one token: one returns');
clock_advance($node, '999 ms');
is(asleep(@w), 2, 'nobody before the refill');
clock_advance($node, '1 ms');
is(done(\@w, 1), 'claimed 1', 'a refill: one');
clock_advance($node, '1 s');
is(done(\@w, 1), 'claimed 1', 'the next refill: one');
@w = workers(2, 'rate');
enqueue('rate', 5);
is(asleep(@w), 2, 'jobs behind others that wait for a refill wake nobody');
is(dismiss(@w), 2, '');

foreach my $provider (qw(slots own))
{
	enqueue($provider, 3);
	$main->query("SELECT FROM quota_dequeue('$provider')");
	@w = workers(2, $provider);
	$main->query("SELECT quota_complete(id, attempt) FROM quota.jobs
		WHERE provider = '$provider' AND state = 'running'");
	is(done(\@w, 1), 'claimed 1', "$provider: a release: one");
	$main->query("BEGIN; SELECT quota_complete(id, attempt) FROM quota.jobs
		WHERE provider = '$provider' AND state = 'running'; ROLLBACK");
	is(asleep(@w), 1, 'but not one that is rolled back');
	clock_advance($node, '1 minute');
	is(done(\@w, 1), 'claimed 1', "$provider: a lease that ends: one");
}

enqueue('both', 3);
$main->query("SELECT FROM quota_dequeue('both', 2)");
@w = workers(2, 'both');
$main->query("SELECT quota_complete(id, attempt) FROM quota.jobs
	WHERE provider = 'both' AND state = 'running'");
is(asleep(@w), 2, 'a release, while only the rate is short: nobody');
clock_advance($node, '1 s');
is(done(\@w, 1), 'claimed 1', 'but a refill: one');
clock_advance($node, '1 s');
is(done(\@w, 1), 'claimed 1', 'and the next: one');

$main->query("UPDATE quota.tenants SET suspended = true WHERE tenant = 'b'");
enqueue('x', 2, 'b');
@w = workers(3, 'x');
$main->query("UPDATE quota.tenants SET suspended = false WHERE tenant = 'b'");
is(done(\@w, 2), 'claimed 1, claimed 1', 'a resume of a tenant with two jobs: two');
is(dismiss(@w), 1, '');
enqueue('tier', 1);
@w = workers(2, 'tier');
$main->query("UPDATE quota.tenants SET tier = 'better' WHERE tenant = 'a'");
is(done(\@w, 1), 'claimed 1', 'a change of tier: one');
is(dismiss(@w), 1, '');

# ---- a finish and an enqueue at the same time (scenario 10) ----

# one of "own" is running; both transactions in every order, a waiter all the time
$main->query("SELECT quota_cancel(id) FROM quota.jobs WHERE provider = 'own' AND state = 'queued'");
$main->query('CREATE PROCEDURE work(provider text) LANGUAGE plpgsql AS $$
	BEGIN
		LOOP
			CALL quota_wait(provider, \'1 hour\');
			PERFORM FROM quota_dequeue(provider);
			EXIT WHEN FOUND;
			COMMIT;
		END LOOP;
	END $$');
my $finish = session($node);
my $add = session($node);
foreach my $order ('f fc e ec', 'e ec f fc', 'f e fc ec', 'f e ec fc', 'e f fc ec', 'e f ec fc')
{
	my %step = (
		f => sub { $finish->query("BEGIN; SELECT count(quota_complete(id, attempt)::text)
			FROM quota.jobs WHERE provider = 'own' AND state = 'running'") },
		fc => sub { $finish->query('COMMIT') },
		e => sub { $add->query("BEGIN; INSERT INTO quota.jobs (tenant, provider) VALUES ('a', 'own')") },
		ec => sub { $add->query('COMMIT') });
	my $worker = session($node);
	$worker->query_async("CALL work('own')");
	wait_event($worker, 'Extension');
	$step{$_}->() foreach split / /, $order;
	is($worker->wait, '', "$order: the waiter gets the next job");
	$worker->quit;
}

# ---- several providers ----

my $both = "CALL quota_wait('{x,y}'::text[], '1 hour');
	SELECT string_agg(provider || quota_complete(id, attempt)::text, '')
	FROM quota_dequeue('{x,y}'::text[]);";
@w = map { session($node) } 1 .. 3;
foreach my $waiter (@w)
{
	$waiter->query_async($both);
	wait_event($waiter, 'Extension');
}
enqueue('y');
is(done(\@w, 1), 'y', 'a waiter for two providers is woken by the second');
$main->query("INSERT INTO quota.jobs (tenant, provider) VALUES ('a', 'x')");
is(done(\@w, 1), 'x', 'or by the first');
is(dismiss(@w), 1, '');

# ---- who was woken does not come ----

# waits, and does not claim
my $first = session($node);
$first->query_async("CALL quota_wait('free', '1 hour')");
wait_event($first, 'Extension');
@w = workers(1, 'free');
kill('STOP', $first->pid) or die;
enqueue('free');
$first->kill_backend('INT');
kill('CONT', $first->pid) or die;
is($w[0]->wait, 'claimed 1', 'woken and cancelled: the next is woken');
$first->_finish;

my $idle = session($node);
$idle->query_async("CALL quota_wait('free', '1 hour')");
wait_event($idle, 'Extension');
@w = workers(1, 'free');
enqueue('free');
is($w[0]->wait, 'claimed 1', 'woken but idle: the next is woken a second later');
$idle->wait;

# ---- who watches the clock ----

psql_value($node, 'SELECT quota_clock_set(NULL)');
# a job that is for later; nothing else is to come at that provider
sub enqueue_later
{
	my ($provider) = @_;
	return $main->query("INSERT INTO quota.jobs (tenant, provider, run_at)
		VALUES ('a', '$provider', clock_timestamp() + interval '1 s')");
}
@w = workers(1, 'due');
enqueue_later('due');
is($w[0]->wait, 'claimed 1', 'a job comes due that was not there when the wait began');
@w = workers(1, 'due2');
my $newest = session($node);
$newest->query_async("CALL quota_wait('due2', '1 hour')");
wait_event($newest, 'Extension');
enqueue_later('due2');
$newest->kill_backend('INT');
$newest->_finish;
is($w[0]->wait, 'claimed 1', 'the newest waiter watched the clock and is gone: the other one returns');
$main->query("SELECT FROM quota_dequeue('rate')");
is( $main->query("CALL quota_wait('rate', '1 hour'); SELECT count(*) FROM quota_dequeue('rate')"),
	1, 'a refill in real time');
@w = workers(1, 'free');
enqueue('free');
is($w[0]->wait, 'claimed 1', 'and an enqueue');
my $t = session($node);
is($t->query("CALL quota_wait('free', '10 ms')"), '', 'the timeout ends a wait');

# ---- ends ----

# that timer also wakes whoever sleeps, so nobody else has it
@w = workers(3, 'free', '-c client_connection_check_interval=100ms');
$w[0]->kill_backend('TERM');
$w[1]->kill_client;
wait_gone($node, $w[0]->pid, $w[1]->pid);
pass('terminated, and the client killed: both sessions have ended');
enqueue('free');
is($w[2]->wait, 'claimed 1', 'the third goes on');
like($t->fails("SET statement_timeout = '50 ms'; CALL quota_wait('free')"),
	qr/canceling statement due to statement timeout/, 'statement_timeout');

$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', "CREATE EXTENSION quota; INSERT INTO quota.providers (provider) VALUES ('p')");
my $gone = session($node, dbname => 'other');
$gone->query_async("CALL quota_wait('p', '1 hour')");
wait_event($gone, 'Extension');
$node->safe_psql('other', 'DROP EXTENSION quota');
$gone->_finish;
like($gone->{err}, qr/extension "quota" does not exist in this database/,
	'DROP EXTENSION waits for no waiter, and ends it');
$node->safe_psql('other', "CREATE EXTENSION quota; INSERT INTO quota.providers (provider) VALUES ('p')");
$gone->query_async("CALL quota_wait('p', '1 hour')");
wait_event($gone, 'Extension');
$node->safe_psql('postgres', 'DROP DATABASE other WITH (FORCE)');
ok(1, 'DROP DATABASE ends it too');

@w = workers(1, 'free');
my $pid = $w[0]->pid;
$node->stop('fast');
ok(!kill(0, $pid), 'a fast shutdown does not wait for it');
done_testing();
