# Copyright (c) 2026, the quota authors

# G13: when a table of shared memory is full the answer is a clear error that names
# the setting, nothing is lost or leaked, and what becomes idle makes room again.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;

my $node = new_node('full',
	'quota.max_buckets' => 64, 'quota.max_permits' => 16,
	'quota.max_flows' => 16, 'quota.max_tenants' => 40);
clock_set($node, '2026-01-01 00:00:00+00');
$node->safe_psql('postgres', q(
	INSERT INTO quota.tiers (tier) VALUES ('t');
	INSERT INTO quota.tenants (tenant, tier) SELECT 'n' || i, 't' FROM generate_series(1, 60) i;
	INSERT INTO quota.providers (provider, safety) VALUES ('p', 1), ('q', 1), ('r', 1);
	INSERT INTO quota.limits (provider, name, kind, amount) VALUES ('p', 'flight', 'concurrency', 1000);
	INSERT INTO quota.limits (provider, name, amount, period, burst, per)
	VALUES ('q', 'rate', 10, '1 min', 10, '{tenant,user}'), ('r', 'rate', 10, '1 min', 10, '{tenant}');));

# runs until an error comes; its SQLSTATE and hint
sub first_error
{
	my ($sql) = @_;
	my ($ret, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$sql");
	my ($state) = $err =~ /ERROR:  (\w{5}):/;
	my ($hint) = $err =~ /HINT:  (.*)/;
	return ($state // 'none') . ' ' . ($hint // '');
}

like(first_error("SELECT count((quota_acquire('n1', 'p')).admitted) FROM generate_series(1, 17)"),
	qr/^53400 Settle calls that are over/, 'permits of one tenant');
is(psql_value($node, "SELECT count(*) FROM quota.stat_permits"), '0',
	'the failed transaction kept none');
is(psql_value($node, "SELECT count((quota_acquire('n1', 'p')).admitted) FROM generate_series(1, 12)"),
	'12', 'three quarters can be used by one');
is(psql_value($node, "SELECT count((quota_acquire('n' || i, 'p')).admitted) FROM generate_series(2, 5) i"),
	'4', 'and the rest by others');
like(first_error("SELECT quota_acquire('n6', 'p')"),
	qr/^53400 Raise quota.max_permits/, 'permits');
clock_advance($node, '61 s');
is(psql_value($node, "SELECT admitted FROM quota_acquire('n1', 'p')"), 't',
	'lost permits make room');

like(first_error("SELECT count((quota_acquire('n1', 'q', \"user\" => 'u' || i)).admitted) FROM generate_series(1, 60) i"),
	qr/^53400 Use fewer values of user/, 'buckets of one tenant');
is(psql_value($node, "SELECT admitted FROM quota_acquire('n2', 'r')"), 't',
	'another tenant has room');
like(first_error("SELECT count((quota_acquire('n' || i, 'r')).admitted) FROM generate_series(1, 60) i"),
	qr/^53400 Raise quota.max_(tenants|buckets)/, 'tenants or buckets');
clock_advance($node, '2 min');
is(psql_value($node, "SELECT admitted FROM quota_acquire('n50', 'r')"), 't',
	'idle ones make room');

like(first_error("INSERT INTO quota.jobs (tenant, provider, endpoint) SELECT 'n1', 'r', 'e' || i FROM generate_series(1, 17) i"),
	qr/^53400 Raise quota.max_flows/, 'flows');
is(psql_value($node, "SELECT count(*) FROM quota.jobs"), '0', 'no job was half enqueued');
$node->safe_psql('postgres', "INSERT INTO quota.jobs (tenant, provider, endpoint) SELECT 'n1', 'r', 'e' || i FROM generate_series(1, 5) i");
is(psql_value($node, "SELECT count(*) FROM quota_dequeue('r', 5)"), '5', 'others are claimed');

# a batch takes one permit for all its jobs, and one for each that is charged more: when
# there is room for the first of them only, neither is left behind
clock_advance($node, '2 min');
$node->safe_psql('postgres', q(
	INSERT INTO quota.providers (provider, safety) VALUES ('batch', 1);
	INSERT INTO quota.limits (provider, name, kind, amount, period, per) VALUES
		('batch', 'flight', 'concurrency', 1000, NULL, '{}'), ('batch', 'calls', 'allowance', 1000, '1 day', '{tenant}');
	INSERT INTO quota.jobs (tenant, provider) VALUES ('n1', 'batch');
	SELECT count((quota_acquire('n' || CASE WHEN i <= 12 THEN 1 ELSE i END, 'p')).admitted) FROM generate_series(1, 15) i));
clock_advance($node, '61 s');
is($node->safe_psql('postgres', q(BEGIN;
	SELECT count(*) FROM quota_dequeue('batch', 2, same_endpoint => true);
	SELECT count(*), count(job) FROM quota.stat_permits;
	COMMIT)), "1\n2|1", 'lost permits made room for both');

# limits that do not refuse take no place that others need, and bring no error
clock_advance($node, '2 min');
# a permit is free a moment after others see that its hold is gone
ok($node->poll_query_until('postgres', q(SELECT NOT EXISTS (SELECT FROM quota.holds)
	AND NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'quota worker'))),
	'lost holds are written off, which frees their permits');
$node->safe_psql('postgres', q(
	UPDATE quota.limits SET enforcement = 'soft', amount = 2 WHERE provider = 'p';
	INSERT INTO quota.providers (provider) VALUES ('s');
	INSERT INTO quota.limits (provider, name, kind, amount) VALUES ('s', 'flight', 'concurrency', 1000);));
is(psql_value($node, "SELECT string_agg(DISTINCT a, ' ') FROM (SELECT (quota_acquire('n1', 'p')).reason FROM generate_series(1, 40)) AS s (a)"),
	'ok soft_limit', 'a soft limit of calls in flight lets all through');
is(psql_value($node, "SELECT count(*) FROM quota.stat_permits WHERE provider = 'p'"), '12',
	'and leaves a quarter of the permits');
is(psql_value($node, "SELECT count((quota_acquire('n' || i, 's')).admitted) FROM generate_series(1, 4) i"), '4',
	'to others');
$node->safe_psql('postgres', "UPDATE quota.limits SET enforcement = 'shadow' WHERE provider = 'q'");
is(psql_value($node, "SELECT count((quota_acquire('n1', 'q', \"user\" => 'v' || i)).admitted) FROM generate_series(1, 60) i"),
	'60', 'a shadow that has no place for its bucket brings no error');
$node->safe_psql('postgres', q(
	INSERT INTO quota.limits (provider, name, amount, period, burst, per, enforcement)
	SELECT 'q', 'slow' || i, 10, '1 day', 10, '{tenant,user}', 'shadow' FROM generate_series(1, 2) i;));
is(psql_value($node, "SELECT count((quota_acquire('n1', 'q', \"user\" => 'w' || i)).admitted) FROM generate_series(1, 60) i"),
	'60', 'nor do two that are slow');

# what tenants have of limits that they share makes room as well
clock_advance($node, '2 min');
$node->safe_psql('postgres', q(
	INSERT INTO quota.providers (provider, safety) VALUES ('x', 1);
	INSERT INTO quota.limits (provider, name, amount, period, burst)
	SELECT 'x', 'rate' || i, 1000, '1 s', 1000 FROM generate_series(1, 3) i;));
for my $first (1, 31)
{
	is(psql_value($node, "SELECT count((quota_acquire('n' || i, 'x')).admitted) FROM generate_series($first, $first + 24) i"),
		'25', 'of 80 places for portions 75 are taken, by tenants from ' . $first);
	clock_advance($node, '2 min');
}
# when all are active there is none; nothing is charged, or left behind
like(first_error("SELECT count((quota_acquire('n' || i, 'x')).admitted) FROM generate_series(1, 27) i"),
	qr/^53400 Raise quota.max_tenants/, 'portions: 78 are active, three more are needed');
is(psql_value($node, "SELECT count(*) FROM quota.stat_shares WHERE provider = 'x'"), '78',
	'those that asked are active');
is(psql_value($node, "SELECT remaining FROM quota_peek('n1', 'x')"), '999', 'nothing was charged');
is(psql_value($node, "SELECT count((quota_acquire('n' || i, 'x')).admitted) FROM generate_series(1, 26) i"),
	'26', 'they go on');
clock_advance($node, '2 min');
is(psql_value($node, "SELECT count((quota_acquire('n' || i, 'x')).admitted) FROM generate_series(27, 52) i"),
	'26', 'when they are not active any more others have room');
is(psql_value($node, 'SELECT count(*) FROM quota_audit()'), '0', 'the audit is empty');
$node->stop;
done_testing();
