# Copyright (c) 2026, the quota authors

# The launcher and its workers: they do what they should and are in nobody's
# way.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;

my $node = new_node('main', 'quota.max_providers' => 16);
my $launcher =
  "SELECT pid FROM pg_stat_activity WHERE backend_type = 'quota launcher'";

# One limit whose permits are lost after a minute; a lost permit is an event.
my $setup = q{
	INSERT INTO quota.tiers (tier) VALUES ('basic');
	INSERT INTO quota.tenants (tenant, tier) VALUES ('t', 'basic');
	INSERT INTO quota.providers (provider) VALUES ('p');
	INSERT INTO quota.limits (provider, name, kind, amount, per)
		VALUES ('p', 'slots', 'concurrency', 10, '{tenant}'),
			(NULL, 'slots everywhere', 'concurrency', 10, '{tenant}')};

sub lose_permit
{
	my ($database) = @_;

	$node->safe_psql($database, "SELECT quota_acquire('t', 'p')");
	clock_advance($node, '61 s');
	$node->safe_psql($database, "SELECT quota_peek('t', 'p')");
	return;
}

sub wait_for_event
{
	my ($database, $n) = @_;
	return $node->poll_query_until($database,
		"SELECT count(*) = $n FROM quota.events WHERE kind = 'lost_permit'");
}

$node->safe_psql('postgres', $setup);
clock_set($node, '2030-01-01 00:00:00+00');

# ---- events ----

lose_permit('postgres');
ok(wait_for_event('postgres', 1), 'a worker writes events');
is( psql_value($node, 'SELECT kind, provider, tenant FROM quota.events'),
	'lost_permit|p|t', 'with what they are about');
ok(wait_idle($node), 'and goes away');

# ---- a worker that cannot do its work ----

my $session = session($node);
$session->query('BEGIN; LOCK TABLE quota.events');
my $log = -s $node->logfile;
lose_permit('postgres');
ok( $node->wait_for_log(
		qr/lock timeout.*while writing events in the background/s, $log),
	'a worker does not wait for a lock for long');
$session->query('COMMIT');
ok(wait_for_event('postgres', 2), 'another one does it later');

# ---- the launcher ----

my $pid = psql_value($node, $launcher);
psql_value($node, "SELECT pg_terminate_backend($pid)");
ok( $node->poll_query_until(
		'postgres', "SELECT count(*) = 1 FROM ($launcher) AS l WHERE pid <> $pid"
	),
	'the launcher comes back');
lose_permit('postgres');
ok(wait_for_event('postgres', 3), 'and works');

# ---- databases ----

$node->safe_psql('postgres', 'CREATE DATABASE a');
$node->safe_psql('a', 'CREATE EXTENSION quota');
$node->safe_psql('a', $setup);
lose_permit('a');
ok(wait_for_event('a', 1), 'every database has its workers');
is(psql_value($node, 'SELECT count(*) FROM quota.events'),
	'3', 'and its events');

# more databases than there are slots, each with something in memory
foreach my $i (1 .. 20)
{
	$node->safe_psql('postgres', "CREATE DATABASE d$i TEMPLATE a");
	lose_permit("d$i");
	$node->safe_psql('postgres', "DROP DATABASE d$i");
}
pass('workers do not block CREATE DATABASE and DROP DATABASE');

# a worker that takes long is in nobody's way: here it deletes a job, and a trigger waits
$node->safe_psql('a', q{
	CREATE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(1000); RETURN NULL; END';
	CREATE TRIGGER slow AFTER DELETE ON quota.jobs FOR EACH ROW EXECUTE FUNCTION public.slow();
	INSERT INTO quota.jobs (tenant, provider) VALUES ('t', 'p');
	SELECT quota_cancel(id) FROM quota.jobs});
clock_advance($node, '8 days');
foreach my $command ('CREATE DATABASE b TEMPLATE a', 'ALTER DATABASE a RENAME TO c', 'DROP DATABASE c')
{
	$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity
		WHERE backend_type = 'quota worker' AND datname IN ('a', 'c') AND wait_event = 'PgSleep'})
	  or die 'no worker is busy';
	is($node->psql('postgres', $command), 0, "a busy worker makes way for $command");
}
$node->safe_psql('postgres', 'DROP DATABASE b');
$node->safe_psql('postgres', 'CREATE DATABASE a');
$node->safe_psql('a', 'CREATE EXTENSION quota');

# an extension that is created anew knows nothing of the old one
foreach my $i (1 .. 20)
{
	$node->safe_psql('a', 'DROP EXTENSION quota CASCADE');
	$node->safe_psql('a', 'CREATE EXTENSION quota');
	$node->safe_psql('a', $setup);
	$node->safe_psql('a', "SELECT quota_acquire('t', 'p')");
}
is( $node->safe_psql('a', 'SELECT count(*) FROM quota.stat_permits'),
	'1', 'an extension created anew knows nothing of the old one');

# ---- history ----

$node->safe_psql(
	'postgres', q{
	INSERT INTO quota.jobs (tenant, provider) SELECT 't', 'p' FROM generate_series(1, 5);
	SELECT quota_complete(id, attempt) FROM quota_dequeue('p', 4)});
clock_advance($node, '8 days');
ok( $node->poll_query_until(
		'postgres', 'SELECT count(*) = 0 FROM quota.events'),
	'old events are deleted');
ok( $node->poll_query_until(
		'postgres',
		q{SELECT array_agg(state) = '{queued}' FROM quota.jobs}),
	'jobs that finished long ago are deleted, no others');

$node->stop;

# ---- many databases ----

# Two workers at most, four databases that keep each of them busy for two seconds at a
# time, 100 times: a job there takes its time to be deleted, and then is not.
$node = new_node('many', 'quota.max_providers' => 16);
clock_set($node, '2030-01-01 00:00:00+00');
$node->safe_psql('postgres', $setup);
foreach my $name ('hog', 'other')
{
	$node->safe_psql('postgres', "CREATE DATABASE $name");
	$node->safe_psql($name, 'CREATE EXTENSION quota');
	$node->safe_psql($name, $setup);
}
$node->safe_psql('hog', q{
	CREATE SEQUENCE public.tries;
	CREATE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN PERFORM nextval($$public.tries$$); PERFORM pg_sleep(0.4); RAISE EXCEPTION $$not today$$; END';
	CREATE TRIGGER slow AFTER DELETE ON quota.jobs FOR EACH ROW EXECUTE FUNCTION public.slow()});
my @hogs = ('hog', map { "hog$_" } 1 .. 3);
$node->safe_psql('postgres', "CREATE DATABASE $_ TEMPLATE hog") foreach @hogs[ 1 .. 3 ];
$node->safe_psql($_, q{
	INSERT INTO quota.jobs (tenant, provider) SELECT 't', 'p' FROM generate_series(1, 500);
	SELECT count(quota_cancel(id)) FROM quota.jobs}) foreach @hogs, 'other';
clock_advance($node, '8 days');
$node->poll_query_until('other', 'SELECT count(*) = 0 FROM quota.jobs') or die 'not served';
my $tries = 0;
$tries += $node->safe_psql($_, 'SELECT last_value FROM public.tries') foreach @hogs;
cmp_ok($tries, '<', 120, 'databases are served in turn');

# after a crash, some of the databases with jobs get a place by themselves
$node->safe_psql('postgres', "CREATE DATABASE other$_ TEMPLATE other") foreach 1 .. 12;
$log = -s $node->logfile;
$node->stop('immediate');
$node->start;
ok( $node->wait_for_log(
		qr/quota does no background work in \d+ databases until somebody uses it there/, $log),
	'databases that get no background work are told of');
is($node->psql('postgres', "SELECT quota_acquire('t', 'p')"), 0, 'and who comes finds a place');
$node->stop('immediate');
done_testing();
