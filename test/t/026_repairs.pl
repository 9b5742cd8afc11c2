# Copyright (c) 2026, the quota authors

# What only a restart, a crash or a background worker shows: rates over a clean
# restart after a deletion, periods that do not come back, lost holds when buckets
# are few and some hold can't be resolved, lost events, how long a worker works,
# and restoring into a server that has not loaded the library.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;

my $node = new_node('main', 'restart_after_crash' => 'on',
	'log_min_messages' => 'debug1');

sub level
{
	my ($tenant) = @_;
	return psql_value($node,
		"SELECT level FROM quota_explain('$tenant', 'rate')");
}

$node->safe_psql(
	'postgres', q{
	INSERT INTO quota.tiers (tier) VALUES ('basic');
	INSERT INTO quota.tenants (tenant, tier) VALUES ('t', 'basic'), ('u', 'basic');
	INSERT INTO quota.providers (provider, safety, lost_permit)
		VALUES ('rate', 1, 'charge'), ('credits', 1, 'refund'), ('slots', 1, 'charge');
	INSERT INTO quota.costs VALUES ('credits', NULL, 'credit', 10);
	INSERT INTO quota.limits (provider, name, amount, period, burst, per)
		VALUES ('rate', 'rate', 600, '1 min', 600, '{tenant}');
	INSERT INTO quota.limits (provider, name, unit, kind, amount, period, per)
		VALUES ('credits', 'credits', 'credit', 'allowance', 1000, '1 month', '{tenant}');
	INSERT INTO quota.tenant_limits (tenant, provider, name, amount)
		VALUES ('t', 'rate', 'rate', 60);
});
clock_set($node, '2026-01-10 00:00:00+00');

# ---- a rate, G9 and G14 ----

psql_value($node, "SELECT quota_acquire('t', 'rate', n => 600)");
clock_advance($node, '1 min');
$node->safe_psql('postgres', 'DELETE FROM quota.tenant_limits');
$node->restart;
is(level('t'), '60', 'a clean restart knows since when a deleted override is gone');

# ---- a period, G12 ----

my $period = q{SELECT used, period_start::date FROM quota_balance('t', 'credits')};

clock_set($node, '2026-02-01 00:00:00+00');
psql_value($node, "SELECT quota_settle(permit) FROM quota_acquire('t', 'credits')");
is(psql_value($node, $period), '10|2026-02-01', 'a new period');
crash($node);
clock_set($node, '2026-01-31 00:00:00+00');
is(psql_value($node, $period), '10|2026-02-01',
	'does not go back to the old one with the clock, though loaded anew');
psql_value($node, "SELECT quota_settle(permit) FROM quota_acquire('t', 'credits')");
is(psql_value($node, $period), '20|2026-02-01', 'and goes on');
clock_set($node, '2026-03-01 00:00:00+00');
is(psql_value($node, $period), '0|2026-03-01', 'until its end');

# ---- lost holds ----

$node->safe_psql(
	'postgres', q{
	INSERT INTO quota.tenants (tenant, tier) SELECT 'h' || i, 'basic' FROM generate_series(1, 60) i;
	SELECT count(*) FROM generate_series(1, 60) i, quota_acquire('h' || i, 'credits');
	CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		IF NEW.tenant = 'h3' THEN
			RAISE 'no entry of h3';
		END IF;
		RETURN NEW;
	END $$;
	CREATE TRIGGER refuse BEFORE INSERT ON quota.ledger
		FOR EACH ROW EXECUTE FUNCTION refuse();
});
# with fewer buckets than there are lost holds
configure($node, 'quota.max_buckets' => 24);
$node->stop;
$node->start;
# the holds are over, their period is not
clock_advance($node, '60 days');
clock_set($node, '2026-03-01 01:00:00+00');
# the first use of a database calls its workers
psql_value($node, "SELECT quota_peek('t', 'rate')");
ok( $node->poll_query_until(
		'postgres', q{SELECT array_agg(tenant) = '{h3}' FROM quota.holds}),
	'lost holds are resolved, whatever their number, but one that fails');
is( psql_value(
		$node, q{SELECT count(*), sum(amount) FROM quota.ledger WHERE kind = 'expire'}),
	'59|-590', 'as the provider says');
$node->safe_psql('postgres', 'DROP TRIGGER refuse ON quota.ledger');
clock_advance($node, '10 s');
ok( $node->poll_query_until(
		'postgres', q{SELECT count(*) = 0 FROM quota.holds}),
	'which is tried again');
is(psql_value($node, 'SELECT count(*) FROM quota_audit()'),
	'0', 'the audit is empty');

# ---- how long a worker works ----

# every table that it needs is locked; a lost permit is an event to write
$node->safe_psql(
	'postgres', q{
	INSERT INTO quota.limits (provider, name, kind, amount)
		VALUES ('slots', 'slots', 'concurrency', 2000);
	INSERT INTO quota.jobs (tenant, provider) VALUES ('t', 'slots');
	SELECT quota_acquire('t', 'slots')});
my $session = session($node);
$session->query('BEGIN; LOCK TABLE quota.jobs, quota.events, quota.holds, quota.ledger');
my $log = -s $node->logfile;
clock_advance($node, '1 day');
$node->wait_for_log(qr/lock timeout.*while trimming jobs/s, $log);
$node->wait_for_log(qr/while trimming jobs.*"quota worker" .PID \d+. exited with exit code 0/s,
	$log);
my @times = worker_times($log);
cmp_ok($times[0], '<', 4, 'a worker is soon out of the way of DROP DATABASE');
$session->query('COMMIT');
$session->quit;

# Seconds that each worker in the log took, by the prefix "%m".
sub worker_times
{
	my ($offset) = @_;
	my (@began, @took);
	foreach my $line (split /\n/, slurp_file($node->logfile, $offset))
	{
		next unless $line =~ /^\S+ (\d+):(\d+):(\d+\.\d+) .*(starting background|exited with exit)/;
		my $at = $1 * 3600 + $2 * 60 + $3;
		next unless $line =~ /"quota worker/;
		if ($line =~ /starting background/) { push @began, $at; }
		elsif (@began) { push @took, $at - shift @began; }
	}
	return map { $_ < 0 ? $_ + 86400 : $_ } @took;
}

# ---- without the library ----

$node->stop;
configure($node, 'shared_preload_libraries' => '', 'quota.testing' => 'on');
$node->start;
foreach my $insert (
	q{INSERT INTO quota.tiers (tier) VALUES ('x')},
	q{INSERT INTO quota.jobs (tenant, provider) VALUES ('t', 'p')},
	q{INSERT INTO quota.ledger (account, limit_name, unit, kind, amount, charged_at, created_at)
		VALUES ('00000000-0000-0000-0000-000000000001', 'x', 'x', 'adjust', 1, now(), now())})
{
	my ($status, $out, $err) = $node->psql('postgres', $insert);
	like($err, qr/quota must be loaded at server start/,
		'without the library nothing is restored, and that is said');
}
$node->stop;

# ---- events that found no room ----

# All that is left of them in the end is their number: their database is gone,
# and positions begin anew.  There is no other database at first that tells.
$node = new_node('events', -extension => 0);
my $setup = q{
	CREATE EXTENSION quota;
	INSERT INTO quota.tiers (tier) VALUES ('basic');
	INSERT INTO quota.tenants (tenant, tier) VALUES ('t', 'basic');
	INSERT INTO quota.providers (provider) VALUES ('p');
	INSERT INTO quota.limits (provider, name, kind, amount) VALUES ('p', 'slots', 'concurrency', 2000)};
$node->safe_psql('postgres', 'CREATE DATABASE a');
$node->safe_psql('a', $setup);
$session = session($node, dbname => 'a');
$session->query('BEGIN; LOCK TABLE quota.events');
$node->safe_psql('a',
	"SELECT count(quota_acquire('t', 'p')) FROM generate_series(1, 1100)");
$node->safe_psql('a', "SELECT quota_clock_advance('61 s')");
$node->safe_psql('a', "SELECT quota_peek('t', 'p')");
$node->safe_psql('postgres', 'DROP DATABASE a WITH (FORCE)');
$node->restart;
# by the time it waits the launcher has forgotten what belonged to the database
$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity
	WHERE backend_type = 'quota launcher' AND wait_event_type = 'Extension'});
$node->restart;
$node->safe_psql('postgres', $setup);
foreach my $i (1 .. 3)
{
	psql_value($node, "SELECT quota_acquire('t', 'p')");
	clock_advance($node, '61 s');
	psql_value($node, "SELECT quota_peek('t', 'p')");
	$node->poll_query_until('postgres',
		"SELECT count(*) = $i FROM quota.events WHERE kind = 'lost_permit'");
}
is( psql_value(
		$node, "SELECT string_agg(detail, ',') FROM quota.events WHERE kind = 'events_lost'"),
	'76 events found no room',
	'events that found no room are told of once');
$node->stop;
done_testing();
