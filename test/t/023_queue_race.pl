# Copyright (c) 2026, the quota authors

# G8 under load: many workers ask at the same time, the head of a flow costs
# most of what its tenant has, the jobs behind it cost little. A worker that is
# refused for a head which another one is just claiming must not leave the flow
# waiting for that head.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;

my $trials = 30;
my $clients = 8;
my $node = new_node('main', 'max_connections' => 20);

clock_set($node, '2030-01-01 00:00:00+00');
$node->safe_psql(
	'postgres', qq{
	INSERT INTO quota.tiers (tier) VALUES ('basic');
	INSERT INTO quota.tenants (tenant, tier)
		SELECT 't' || i, 'basic' FROM generate_series(1, $trials) i;
	INSERT INTO quota.tenants (tenant, tier) VALUES ('two', 'basic');
	INSERT INTO quota.providers (provider, safety) VALUES ('p', 1);
	INSERT INTO quota.limits (provider, name, per, unit, amount, period)
		VALUES ('p', 'tokens', '{tenant}', 'token', 100, '1 day');
});

my $worker = $node->basedir . '/worker.sql';
append_to_file($worker, "SELECT * FROM quota_dequeue('p');\n");

# so many claims by each client
sub work
{
	my ($n) = @_;
	run_log([
		$node->installed_command('pgbench'), '-n', '-c', $clients, '-j', '2',
		'-t', $n, '-f', $worker, '-h', $node->host, '-p', $node->port, 'postgres'
	]) or die 'pgbench failed';
	return;
}

my @left;
for my $trial (1 .. $trials)
{
	$node->safe_psql(
		'postgres', qq{
		INSERT INTO quota.jobs (tenant, provider, units)
		SELECT 't$trial', 'p', jsonb_build_object('token', CASE n WHEN 1 THEN 60 ELSE 1 END)
		FROM generate_series(1, 60) n});
	work(10);
	# calls may find nothing while the head is being claimed, but not for good
	$node->safe_psql('postgres', "SELECT count(*) FROM quota_dequeue('p', 100)");
	my $claimed = psql_value($node,
		"SELECT count(*) FROM quota.jobs WHERE tenant = 't$trial' AND state = 'running'");
	push @left, "t$trial: $claimed" if $claimed != 41;
	$node->safe_psql('postgres',
		"SELECT quota_cancel(id) FROM quota.jobs WHERE tenant = 't$trial' AND state = 'queued'");
}
is("@left", '', 'all that fits was claimed, whoever was refused meanwhile');

# what two flows take to find that they can't run frees neither of them for long
$node->safe_psql(
	'postgres', q{
	INSERT INTO quota.limits (provider, name, per, unit, amount, period)
		VALUES ('p', 'requests', '{tenant}', 'request', 1000, '1 day');
	INSERT INTO quota.jobs (tenant, provider, endpoint, units)
		VALUES ('two', 'p', 'x', '{"token": 500}'), ('two', 'p', 'y', '{"token": 500}')});
work(20);
my $refused = psql_value($node,
	"SELECT refused FROM quota.stat_tenants WHERE tenant = 'two'");
cmp_ok($refused, '<', 1000, 'a few refusals of two flows in 160 calls');

done_testing();
