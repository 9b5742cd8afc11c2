# Copyright (c) 2026, the quota authors

# Pauses over the ends of servers and sessions: restart, crash, dump, promotion; steps of
# the wall clock; many sessions; a full table; what the background worker does of them.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;

my $node = new_node(
	'primary',
	-init => { allows_streaming => 1 },
	'restart_after_crash' => 'on',
	'autovacuum' => 'off',
	'max_connections' => 100,
	'timezone' => 'UTC');

# reason and not_before of a call
sub asked
{
	my ($on, $provider, $database) = @_;
	return $on->safe_psql($database // 'postgres',
		"SELECT reason, to_char(not_before, 'HH24:MI:SS.MS') FROM quota_peek('t', '$provider')"
	);
}

$node->safe_psql(
	'postgres', q{
	INSERT INTO quota.tiers (tier) VALUES ('basic');
	INSERT INTO quota.tenants (tenant, tier) VALUES ('t', 'basic');
	INSERT INTO quota.providers (provider) SELECT unnest(ARRAY['until', 'lasts', 'open', 'undone', 'free', 'full', 'idle']);
	INSERT INTO quota.limits (provider, name, amount, period, burst, external)
		VALUES ('idle', 'rate', 10, '1 min', 10, false)});
clock_set($node, '2030-01-01 12:00:00+00');
$node->safe_psql(
	'postgres', q{
	SELECT quota_pause('until', until => '2030-01-01 13:00:00+00', reason => 'because');
	SELECT quota_pause('lasts', duration => '2 hours');
	SELECT quota_pause('open')});
my @all = qw(until lasts open undone free);

sub all_paused
{
	my ($what, $on) = @_;
	$on //= $node;
	is( join(' ', map { asked($on, $_) } @all),
		'paused|13:00:00.000 paused|14:00:00.000 paused| ok| ok|',
		"pauses $what");
	return;
}
all_paused('hold');

# ---- everybody's next decision ----

my @sessions = map { session($node) } 1 .. 50;
my $call = "SELECT reason FROM quota_acquire('t', 'free')";
is( join(' ', map { $_->query($call) } @sessions),
	join(' ', ('ok') x 50),
	'50 sessions call');
$sessions[7]->query("BEGIN; SELECT quota_pause('free')");
is( join(' ', map { $_->query($call) } @sessions),
	join(' ', ('paused') x 50),
	'a pause of one reaches all at their next decision');
$sessions[7]->query('ROLLBACK');
is( join(' ', map { $_->query($call) } @sessions),
	join(' ', ('ok') x 50),
	'and so does its end');

# ---- who waits ----

my $waiter = session($node);
$sessions[0]->query("SELECT quota_pause('free', duration => '1 hour')");
$waiter->query_async("CALL quota_acquire_wait('t', 'free', timeout => '2 hours')");
wait_event($waiter, 'Extension');
$sessions[0]->query("SELECT quota_resume('free')");
like($waiter->wait, qr/^\(t,1,ok/, 'a session that waits for its end is woken by a resume');
$sessions[0]->query(
	"INSERT INTO quota.jobs (tenant, provider) VALUES ('t', 'free'); SELECT quota_pause('free', duration => '10 minutes')"
);
$waiter->query_async("CALL quota_wait('free', '2 hours')");
wait_event($waiter, 'Extension');
clock_advance($node, '10 minutes');
$waiter->wait;
is($waiter->query("SELECT count(*) FROM quota_dequeue('free')"),
	'1', 'one that waits for a job by the end of a pause');
clock_set($node, '2030-01-01 12:00:00+00');
is(asked($node, 'lasts'), 'paused|13:50:00.000',
	'a duration does not heed that the wall clock was set back');
is(asked($node, 'until'), 'paused|13:00:00.000', 'an instant does');
$_->quit foreach @sessions, $waiter;
$node->safe_psql('postgres',
	"SELECT quota_pause('lasts', until => '2030-01-01 14:00:00+00', shorten => true)");
all_paused('are as they were');

# ---- restarts ----

$node->safe_psql('postgres', "SELECT quota_pause('idle')");
$node->safe_psql('postgres', "SELECT quota_resume('idle')");
$node->restart;
is( psql_value($node, "SELECT reason FROM quota_peek('t', 'idle', n => 10)"),
	'rate_limited',
	'a bucket that a pause has left empty is so after a restart');
clock_set($node, '2030-01-01 12:10:00+00');
all_paused('outlive a restart');
crash($node);
clock_set($node, '2030-01-01 12:20:00+00');
all_paused('outlive a crash');
my $victim = session($node);
$victim->query_async("BEGIN; SELECT quota_pause('undone'), pg_sleep(600)");
wait_event($victim, 'Timeout', 'PgSleep');
is(asked($node, 'undone'), 'paused|', 'one that has not committed holds');
crash_backend($node, $victim->pid);
clock_set($node, '2030-01-01 12:30:00+00');
all_paused('outlive the death of a session, but for its own');

# ---- a dump ----

my $file = PostgreSQL::Test::Utils::tempdir() . '/dump';
$node->command_ok([ 'pg_dump', '-Fc', '-f', $file, $node->connstr('postgres') ],
	'a dump');
$node->safe_psql('postgres', 'CREATE DATABASE copy');
$node->command_ok([ 'pg_restore', '-d', $node->connstr('copy'), $file ], 'is restored');
is( join(' ', map { asked($node, $_, 'copy') } @all),
	'paused|13:00:00.000 paused|14:00:00.000 paused| ok| ok|',
	'pauses are restored');
$node->safe_psql('copy', "SELECT quota_resume('open')");
is(asked($node, 'open', 'copy'), 'ok|', 'and resumed there');
all_paused('of the original go on');
# ids are alike in both; here no worker can tell that a pause is over
my $other = session($node, dbname => 'copy');
$other->query('BEGIN; LOCK TABLE quota.pauses IN EXCLUSIVE MODE');

# ---- promotion ----

$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby);
is(psql_value($standby, 'SELECT count(*) FROM quota.stat_pauses'),
	'0', 'on a standby nothing is in force');
like(
	session($standby)->fails("SELECT quota_pause('free')"),
	qr/cannot execute quota_pause\(\)/,
	'nor can be paused');
$standby->promote;
clock_set($standby, '2030-01-01 12:40:00+00');
all_paused('outlive a promotion', $standby);
$standby->stop;

# ---- ends, steps of the clock, and the worker ----

clock_set($node, '2030-01-01 13:00:00+00');
is(asked($node, 'until'), 'ok|', 'it ends at its instant');
clock_set($node, '2030-01-01 12:59:00+00');
is(asked($node, 'until'), 'ok|', 'and does not come back with the wall clock');
wait_until(
	'event of the end',
	sub {
		psql_value($node,
			"SELECT count(*) FROM quota.events WHERE kind = 'pause_ended' AND provider = 'until'"
		) eq '1';
	});
clock_set($node, '2030-01-01 13:01:00+00');
wait_until(
	'deletion of its row, whatever has become of its copy',
	sub { psql_value($node, "SELECT count(*) FROM quota.pauses WHERE provider = 'until'") eq '0' }
);
$other->quit;
$node->safe_psql('postgres', 'DROP DATABASE copy');
$node->stop;
$node->start;
clock_set($node, '2030-01-01 15:00:00+00');
is(asked($node, 'lasts'), 'ok|', 'one may end while the server is down');

# ---- no room ----

my ($out, $err);
$node->stop;
configure($node, 'quota.max_tenants' => 256);
$node->start;
clock_set($node, '2030-01-01 15:00:00+00');
psql_value($node, 'SELECT quota_resume(\'open\')');
$node->safe_psql('postgres',
	"SELECT quota_pause('full', connection => 'c' || i) FROM generate_series(1, 250) AS i");
(undef, $out, $err) = $node->psql('postgres',
	"SELECT quota_pause('full', connection => 'd' || i) FROM generate_series(1, 250) AS i");
like($err, qr/no room|full/, 'a full table is an error');
is(psql_value($node, "SELECT count(*) FROM quota.stat_pauses"), '250',
	'which leaves nothing behind');
is( psql_value(
		$node,
		"SELECT count(*) FROM quota_peek('t', 'full', connection => 'c250') WHERE reason = 'paused'"),
	'1', 'all that were accepted hold');
$node->safe_psql('postgres', "SELECT quota_pause('full')");
is(asked($node, 'full'), 'paused|', 'there is still room to pause the provider');
$node->safe_psql('postgres', "DELETE FROM quota.pauses WHERE provider = 'full'");
is(asked($node, 'full'), 'ok|', 'all of them end together');
clock_advance($node, '1 min');
$node->safe_psql('postgres',
	"SELECT quota_pause('full', connection => 'd' || i) FROM generate_series(1, 250) AS i");
is(psql_value($node, "SELECT count(*) FROM quota.stat_pauses"), '250',
	'and make room for others');

# ---- reported pauses of one tenant, at many endpoints ----

$node->safe_psql('postgres', "DELETE FROM quota.pauses WHERE provider = 'full'");
clock_advance($node, '1 min');
$node->safe_psql('postgres',
	"INSERT INTO quota.tenants (tenant, tier) VALUES ('other', 'basic');
	 SELECT quota_report('full', 429, 't', '/' || i, '{\"Retry-After\": \"60\"}') FROM generate_series(1, 300) AS i");
is( psql_value(
		$node,
		q{SELECT reason FROM quota_peek('t', 'full', '/new')
		  UNION ALL SELECT reason FROM quota_peek('other', 'full', '/1')}),
	"paused\nok", 'one tenant that fills half of the table is paused itself, nobody else');
$node->safe_psql('postgres',
	q{SELECT quota_report('free', 429, 'other', '/a', '{"Retry-After": "60"}')});
is( psql_value(
		$node,
		q{SELECT reason FROM quota_peek('other', 'free', '/a')
		  UNION ALL SELECT reason FROM quota_peek('other', 'free', '/b')
		  UNION ALL SELECT reason FROM quota_peek('t', 'free', '/a')}),
	"paused\nok\nok", 'and the pauses of others stay as narrow as they are');
$node->safe_psql('postgres',
	"SELECT quota_report('idle', 503, NULL, '/' || i, '{\"Retry-After\": \"60\"}') FROM generate_series(1, 300) AS i");
is( psql_value(
		$node,
		q{SELECT reason FROM quota_peek('other', 'idle', '/new')
		  UNION ALL SELECT reason FROM quota_peek('other', 'free', '/b')}),
	"paused\nok", 'an overloaded provider has a part of its own');
$node->stop;
done_testing();
