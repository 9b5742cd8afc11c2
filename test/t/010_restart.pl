# Copyright (c) 2026, the quota authors

# G14, clean restart: it resumes exactly, and only where that is safe.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;

my $node = new_node('main');
my $file = $node->data_dir . '/pg_stat/quota.stat';

my $state = q{
	SELECT provider, limit_name, bucket, tenant, kind, capacity, used, level,
		held, period_start, period_end, unknown_until, admitted, refused, busy
	FROM quota.stat_buckets ORDER BY 1, 2, 3;
	SELECT * FROM quota.stat_tenants ORDER BY 1, 2;
	SELECT * FROM quota.stat_permits ORDER BY 1};

sub level
{
	my ($limit) = @_;
	return psql_value($node,
		"SELECT level FROM quota.stat_buckets WHERE limit_name = '$limit'");
}

# takes a token; what it says is not of interest
sub spend
{
	my ($n) = @_;
	return psql_value($node,
		"SELECT (quota_acquire('t', 'p', n => $n)).admitted");
}

clock_set($node, '2030-01-01 00:00:00+00');
$node->safe_psql(
	'postgres', q{
	INSERT INTO quota.tiers (tier) VALUES ('basic');
	INSERT INTO quota.tenants (tenant, tier) VALUES ('t', 'basic');
	INSERT INTO quota.providers (provider, safety) VALUES ('p', 1), ('q', 1);
	INSERT INTO quota.limits (provider, name, amount, period, burst)
		VALUES ('p', 'rate', 1, '1 s', 100), ('q', 'rate of q', 1, '1 s', 100);
	INSERT INTO quota.limits (provider, name, kind, amount, per, permit_lifetime)
		VALUES ('q', 'slots', 'concurrency', 50, '{}', '10 min'),
			(NULL, 'slots everywhere', 'concurrency', 1000, '{tenant}', '10 min');
	INSERT INTO quota.limits (provider, name, kind, amount, period, per)
		VALUES ('q', 'credits', 'allowance', 1000, '1 month', '{tenant}');
	INSERT INTO quota.providers (provider, safety) VALUES ('kinds', 1);
	INSERT INTO quota.limits (provider, name, kind, amount, period)
		VALUES ('kinds', 'pace', 'leaky_bucket', 60, '1 min'),
			('kinds', 'window', 'fixed_window', 100, '1 min'),
			('kinds', 'sliding', 'sliding_window', 100, '1 min');
});

# ---- what was known is known again ----

is(spend(60), 't', 'spends');
psql_value($node,
	q{SELECT (quota_acquire('t', 'kinds', units => '{"request": 7}')).admitted});
is(spend(60), 'f', 'and is refused');
my $permit =
  psql_value($node, "SELECT (quota_acquire('t', 'q', n => 3)).permit");
psql_value($node, "SELECT (quota_acquire('t', 'q')).permit");

my $before = psql_value($node, $state);
$node->restart;
is(psql_value($node, $state), $before, 'a clean restart changes nothing');
ok(!-e $file, 'the state file is gone while the server runs');

psql_value($node, "SELECT quota_settle($permit)");
is( psql_value(
		$node,
		"SELECT used FROM quota.stat_buckets WHERE limit_name = 'slots'"),
	'1',
	'a permit from before can be settled');

clock_advance($node, '10 s');
$before = psql_value($node, $state);
$node->restart;
is(psql_value($node, $state), $before, 'so does a second one');
is(level('rate'), '50', 'refilled by what passed');

# time passes while the server is down
psql_value($node, 'SELECT quota_clock_set(NULL)');
my $used = psql_value($node,
	"SELECT used FROM quota.stat_buckets WHERE limit_name = 'rate'");
$node->restart;
cmp_ok(
	psql_value(
		$node, "SELECT used FROM quota.stat_buckets WHERE limit_name = 'rate'"),
	'<=', $used, 'time runs on over a restart');

# ---- what cannot be continued is not ----

sub starts_unknown
{
	my ($what, $why) = @_;
	my $log = -s $node->logfile;

	$node->start;
	ok($node->log_contains(qr/ignoring state file .*: $why/, $log),
		"$what: said in the log");
	is(psql_value($node, 'SELECT count(*) FROM quota.stat_buckets'),
		'0', "$what: nothing is restored");
	is(spend(90), 'f', "$what: the rate starts drained");
	ok(!-e $file, "$what: the file is not used later either");
	return;
}

clock_set($node, '2031-01-01 00:00:00+00');
spend(1);
$node->stop;
ok(-e $file, 'the state file is there while the server is down');
open my $fh, '+<:raw', $file or die "$file: $!";
seek $fh, 500, 0;
print {$fh} "damage";
close $fh or die "$file: $!";
starts_unknown('damaged', 'it is damaged');

$node->stop;
truncate $file, 10 or die "$file: $!";
starts_unknown('cut off', 'it is damaged');

$node->stop;
my $copy = slurp_file($file);
$node->start;
spend(1);
$node->stop;
open $fh, '>:raw', $file or die "$file: $!";
print {$fh} $copy;
close $fh or die "$file: $!";
starts_unknown('of an earlier shutdown', 'the server has run since');

$node->stop;
configure($node, 'quota.max_buckets' => 64);
$node->start;
is(psql_value($node, 'SELECT count(*) > 0 FROM quota.stat_buckets'),
	't', 'a smaller table is no reason to forget what fits');

# an immediate shutdown may have cut anything short
$node->stop('immediate');
ok(!-e $file, 'an immediate shutdown leaves no state file');
$node->start;
is(psql_value($node, 'SELECT count(*) FROM quota.stat_buckets'),
	'0', 'and the next start knows nothing');

# ---- permits beyond a lowered quota.max_permits ----

psql_value($node,
	"SELECT count(quota_acquire('t', 'q')) FROM generate_series(1, 20)");
clock_set($node, '2032-01-01 00:00:00+00');
psql_value($node,
	"SELECT count(quota_acquire('t', 'q')) FROM generate_series(1, 20)");
is(psql_value($node, 'SELECT count(*) FROM quota.stat_permits'),
	'20', 'twenty permits are open');
configure($node, 'quota.max_permits' => 16);
$node->restart;
is(psql_value($node, 'SELECT count(*) FROM quota.stat_permits'),
	'16', 'sixteen have a place');
is(psql_value($node, "SELECT (quota_acquire('t', 'q')).reason"),
	'concurrency_limited', 'the others count until they would have ended');
clock_advance($node, '11 min');
is(psql_value($node, "SELECT (quota_acquire('t', 'q')).admitted"),
	't', 'and no longer');

$node->stop;
done_testing();
