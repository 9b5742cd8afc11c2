# Copyright (c) 2026, the quota authors

# Scenario 18, concurrency and order: a limit that nobody has used yet, locks taken in
# any order, a transaction that stays open.  Scenario 20, crash and leak: what becomes of
# permits and of what was spent when a session is killed.
#
# QUOTA_STRESS_SECONDS (default 3) is for how long locks are taken in either order.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use IPC::Run;
use QuotaTest;
use Time::HiRes qw(time);

my $node = new_node('main', 'max_connections' => 120, 'restart_after_crash' => 'on',
	'deadlock_timeout' => '100ms');
my @rates = ('token_bucket', 'leaky_bucket', 'fixed_window', 'sliding_window');

sub value { return psql_value($node, $_[0]) }
sub acquire { return value("SELECT reason FROM quota_acquire('t', '$_[0]')") }

clock_set($node, '2020-01-15 00:00:00+00');
$node->safe_psql('postgres', <<'SQL');
INSERT INTO quota.tiers (tier) VALUES ('basic');
INSERT INTO quota.tenants (tenant, tier) VALUES ('t', 'basic'), ('u', 'basic');
INSERT INTO quota.providers (provider, safety) SELECT p, 1
	FROM unnest('{token_bucket,leaky_bucket,fixed_window,sliding_window,concurrency,allowance,slots,A,B,open}'::text[]) p;
INSERT INTO quota.limits (provider, name, kind, amount, period, burst, permit_lifetime, external) VALUES
	('token_bucket', 'token', 'token_bucket', 10, '1 min', 10, '1 min', false),
	('leaky_bucket', 'leaky', 'leaky_bucket', 10, '1 min', 10, '1 min', false),
	('fixed_window', 'fixed', 'fixed_window', 10, '1 min', NULL, '1 min', false),
	('sliding_window', 'sliding', 'sliding_window', 10, '1 min', NULL, '1 min', false),
	('concurrency', 'at once', 'concurrency', 10, NULL, NULL, '1 day', false),
	('allowance', 'credits', 'allowance', 10, '1 day', NULL, '1 min', false),
	('slots', 'slots', 'concurrency', 5, NULL, NULL, '2 min', false),
	('A', 'slots', 'concurrency', 50, NULL, NULL, '1 min', false),
	('B', 'slots', 'concurrency', 50, NULL, NULL, '1 min', false),
	('A', 'rate', 'token_bucket', 1000000000, '1 s', NULL, '1 min', false),
	('B', 'rate', 'token_bucket', 1000000000, '1 s', NULL, '1 min', false),
	('open', 'window', 'fixed_window', 1000, '1 h', NULL, '1 min', false),
	(NULL, 'everywhere', 'token_bucket', 1000000000, '1 s', NULL, '1 min', false),
	('open', 'credits', 'allowance', 1000, '1 day', NULL, '1 min', false);
SQL

sub pgbench
{
	my ($script, @how) = @_;
	my $file = $node->basedir . '/script.sql';
	unlink $file;
	append_to_file($file, $script);
	my ($out, $err) = ('', '');
	my $ok = IPC::Run::run(
		[ $node->installed_command('pgbench'), '-n', '-j', 2, @how, '-h', $node->host, '-p', $node->port, '-f', $file, 'postgres' ],
		'>', \$out, '2>', \$err);
	return $ok ? $out : "failed: $err";
}

# ---- scenario 18 ----

# 100 sessions that have connected, and go at the same time
sub at_once
{
	my ($provider) = @_;
	value('DROP TABLE IF EXISTS got; CREATE TABLE got (reason text)');
	my $gate = session($node);
	$gate->query('SELECT pg_advisory_lock(18)');
	my $file = $node->basedir . "/cold_$provider.sql";
	append_to_file($file, "SELECT pg_advisory_lock_shared(18);\nINSERT INTO got SELECT reason FROM quota_acquire('t', '$provider');\n");
	my $bench = IPC::Run::start(
		[ $node->installed_command('pgbench'), '-n', '-c', 100, '-j', 2, '-t', 1, '-h', $node->host, '-p', $node->port, '-f', $file, 'postgres' ],
		'>', \my $out, '2>', \my $err);
	$node->poll_query_until('postgres', "SELECT count(*) = 100 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
	  or die 'not all sessions have come';
	$gate->query('SELECT pg_advisory_unlock(18)');
	$bench->finish or die $err;
	$gate->quit;
	return value("SELECT count(*), count(*) FILTER (WHERE reason = 'ok') FROM got");
}

is(at_once($_), '100|10', "18: a cold key, 100 sessions, room for ten: $_") foreach @rates, 'concurrency', 'allowance';

# locks in either order, those across providers with them
like(pgbench(<<'SQL', '-c', 16, '-T', $ENV{QUOTA_STRESS_SECONDS} // 3), qr/failed transactions: 0/, '18: A and B, B and A: no deadlock');
\set first random(0, 1)
BEGIN;
SELECT permit AS p FROM quota_acquire('t', CASE WHEN :first = 1 THEN 'A' ELSE 'B' END, units => '{"request": 1}') \gset
SELECT permit AS q FROM quota_acquire('t', CASE WHEN :first = 1 THEN 'B' ELSE 'A' END, units => '{"request": 1}') \gset
SELECT quota_settle(:p), quota_settle(:q);
COMMIT;
SQL
is(value("SELECT used, busy FROM quota.stat_buckets WHERE limit_name = 'slots' AND provider IN ('A', 'B')"), "0|f\n0|f",
	'18: and nothing is left in flight');

# An open transaction keeps nobody waiting: those who would wait for it are given up.
my $open = session($node);
$open->query("BEGIN; SELECT quota_acquire('t', 'open'), quota_acquire('t', 'A'); SELECT quota_settle(permit) FROM quota_acquire('t', 'open')");
$open->query_async('SELECT pg_sleep(3)');
wait_event($open, 'Timeout', 'PgSleep');
my $other = session($node, options => '-c lock_timeout=2s -c statement_timeout=2s');
is($other->query("SELECT count(*) FILTER (WHERE (d).admitted) FROM (SELECT quota_acquire('u', 'open') AS d FROM generate_series(1, 50) OFFSET 0) a"),
	'50', '18: a transaction open for 3 s: others acquire meanwhile');
is($other->query("SELECT quota_settle(permit) FROM quota_acquire('u', 'A')"), '', '18: and settle');
ok($open->is_busy, '18: while it is open');
$open->wait;
$open->query('COMMIT');
is(value("SELECT used FROM quota.stat_buckets WHERE limit_name = 'window'"), '52', '18: and each call counts');

# ---- scenario 20 ----

# a release is for once
my $permit = value("SELECT permit FROM quota_acquire('t', 'slots')");
is($other->query("SELECT quota_release($permit)"), '', '20: a release');
like($other->fails("SELECT quota_release($permit)"), qr/ERROR:  permit \d+ is not open/, '20: a second one is refused');
my $slots = "SELECT used FROM quota.stat_buckets WHERE provider = 'slots'";
is(value($slots), '0', '20: and does not count');
$other->query('BEGIN; SELECT permit FROM quota_acquire($$t$$, $$slots$$)');
like($other->fails("SELECT quota_release(permit), quota_release(permit) FROM quota.stat_permits WHERE provider = 'slots'"), qr/ERROR/,
	'20: nor within one transaction');
$other->query('ROLLBACK');
is(value($slots), '0', '20: the count is not below zero');

# the session of three permits ends: they come back when their lifetime ends, not before
sub session_of_three
{
	my ($end) = @_;
	my $session = session($node);
	$session->query("SELECT quota_acquire('t', 'slots') FROM generate_series(1, 3)");
	$end->($session);
	return $session;
}
session_of_three(sub { $_[0]->kill_backend; wait_gone($node, $_[0]->pid) });
is(value($slots), '3', '20: a session with three permits is terminated');
clock_advance($node, '119.999999 s');
is(value($slots), '3', '20: they are out a microsecond before their end');
clock_advance($node, '1 us');
is(value($slots), '0', '20: and back at it');

# what was spent, and then the crash
clock_advance($node, '1 day');
is(acquire($_), 'ok', "20: $_: a call before the crash") foreach @rates, 'allowance';
session_of_three(sub { crash_backend($node, $_[0]->pid) });
# the clock of rates has run from the start of the server to here: for less than this
clock_set($node, '2020-01-16 00:10:45+00');
my $since = value("SELECT extract(epoch FROM min(unknown_until) - quota_clock()) FROM quota.stat_buckets") || 'no bucket';
is($since, 'no bucket', '20: the crash has left nothing in memory');
is(acquire($_), 'rate_limited', "20: $_: what was spent is still spent, and what was not known counts as spent") foreach @rates;
is(acquire('allowance'), 'ok', '20: allowance: there is room');
is(value("SELECT used FROM quota.stat_buckets WHERE limit_name = 'credits' AND provider = 'allowance'"), '2', '20: and what was spent is still spent');
is(acquire('slots'), 'concurrency_limited', '20: permits of a session killed with -9 count');
my $left = value("SELECT trunc(extract(epoch FROM unknown_until - quota_clock()) * 1000000) FROM quota.stat_buckets WHERE provider = 'slots'");
cmp_ok($left, '<=', 120_000_000, '20: for their lifetime at most');
clock_advance($node, ($left - 1) . ' us');
is(acquire('slots'), 'concurrency_limited', '20: and not for less');
clock_advance($node, '2 us');    # what the view has cut off is less than one
is(value("SELECT count(*) FILTER (WHERE (d).admitted) FROM (SELECT quota_acquire('t', 'slots') AS d FROM generate_series(1, 6) OFFSET 0) a"), '5', '20: and then all are back');
clock_advance($node, '2 h');
is(acquire($_), 'ok', "20: $_: comes back") foreach @rates;
is(value('SELECT * FROM quota_audit()'), '', 'the audit finds nothing');
unlike(slurp_file($node->logfile), qr/deadlock detected/, 'and the server no deadlock');

$node->stop;
done_testing();
