# Copyright (c) 2026, the quota authors

# G15: a standby decides nothing.  G14: after its promotion it knows only rows.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;

my $primary = new_node(
	'primary',
	-init => { allows_streaming => 1 },
	'autovacuum' => 'off');
$primary->safe_psql(
	'postgres', q{
	INSERT INTO quota.tiers (tier) VALUES ('basic');
	INSERT INTO quota.tenants (tenant, tier) VALUES ('t', 'basic');
	INSERT INTO quota.providers (provider, safety) VALUES ('p', 1), ('q', 1), ('slow', 1), ('unused', 1);
	INSERT INTO quota.limits (provider, name, amount, period, burst)
		VALUES ('p', 'rate', 1, '1 min', 1), ('slow', 'slow', 1000, '30 days', 1000),
			('slow', 'day', 10, '10 days', 10), ('unused', 'unused', 1, '1 day', 1);
	INSERT INTO quota.limits (provider, name, kind, amount, period, per)
		VALUES ('q', 'credits', 'allowance', 10, '1 month', '{tenant}')});
psql_value($primary, "SELECT quota_acquire('t', 'p')");
psql_value($primary, "SELECT quota_acquire('t', 'q', n => 4)");

# from a stopped server: its state file comes along
$primary->stop;
$primary->backup_fs_cold('cold');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'cold', has_streaming => 1);
$primary->start;
$standby->start;
$primary->wait_for_catchup($standby);

ok( !-e $standby->data_dir . '/pg_stat/quota.stat',
	'a standby does not keep the state file of its primary');
my $session = session($standby);
foreach my $call (
	"quota_acquire('t', 'p')", "quota_settle(1)",
	"quota_release(1)", "quota_extend(1, '1 s')")
{
	like(
		$session->fails("SELECT $call"),
		qr/ERROR:  cannot execute .* (?:during recovery|in a read-only transaction)/,
		"$call is refused");
}
is(psql_value($standby, "SELECT count(*) FROM quota.$_"),
	'0', "$_ is empty")
  foreach qw(stat_buckets stat_tenants stat_flows stat_permits);
is(psql_value($standby, 'SELECT count(*) FROM quota.limits'),
	'5', 'tables can be read');
my $launcher =
  "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'quota launcher'";
is(psql_value($standby, $launcher), '0', 'no launcher runs');

# ---- promotion ----

# what is left of the slow limits: logged ahead, and that has been replayed
psql_value($primary, "SELECT quota_acquire('t', 'slow', n => 6)");
psql_value($primary,
	"BEGIN; SELECT quota_acquire('t', 'slow', n => 2); ROLLBACK");
psql_value($primary, "SELECT quota_acquire('t', 'slow', n => 3)");
$primary->wait_for_catchup($standby);
$standby->promote;
is(psql_value($standby, "SELECT reason FROM quota_acquire('t', 'p')"),
	'rate_limited', 'a rate starts drained');
is( psql_value(
		$standby,
		"SELECT reason, remaining FROM quota_acquire('t', 'q', n => 6)"),
	'ok|0',
	'credits are exact');
is(psql_value($standby, "SELECT reason FROM quota_acquire('t', 'slow', n => 2)"),
	'rate_limited', 'a slow limit knows that 9 of 10 are gone');
is(psql_value($standby, "SELECT reason FROM quota_acquire('t', 'slow')"),
	'ok', 'and that one is left');
is( psql_value(
		$standby, q{
		SELECT level BETWEEN 1000 - 10 - 1000 / 32 AND 1000 - 10
		FROM quota.stat_buckets WHERE limit_name = 'slow'}),
	't',
	'a larger one has lost a slice at most');
is(psql_value($standby, "SELECT reason FROM quota_acquire('t', 'unused')"),
	'ok', 'one that was not used is full');
ok( $standby->poll_query_until(
		'postgres', $launcher, '1'),
	'the launcher runs');

$standby->stop;
$primary->stop;
done_testing();
