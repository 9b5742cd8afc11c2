# Copyright (c) 2026, the quota authors

# G14, crash: what only shared memory knew is unknown, and that can only admit
# less; credits are as exact as their rows.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;

my $node = new_node('main', 'restart_after_crash' => 'on');

sub acquire
{
	my ($provider) = @_;
	return psql_value($node,
		"SELECT reason FROM quota_acquire('t', '$provider')");
}

# kills a backend as the kernel would, and waits until the server is back
sub kill_backend
{
	my $victim = session($node);

	$victim->query_async(
		"BEGIN; SELECT quota_acquire('t', 'credits'); SELECT pg_sleep(600)");
	wait_event($victim, 'Timeout', 'PgSleep');
	crash_backend($node, $victim->pid);
	return;
}

$node->safe_psql(
	'postgres', q{
	INSERT INTO quota.tiers (tier) VALUES ('basic');
	INSERT INTO quota.tenants (tenant, tier) VALUES ('t', 'basic');
	INSERT INTO quota.providers (provider, safety)
		VALUES ('rate', 1), ('slots', 1), ('credits', 1);
	INSERT INTO quota.limits (provider, name, amount, period, burst)
		VALUES ('rate', 'rate', 1, '1 min', 1);
	INSERT INTO quota.limits (provider, name, kind, amount, permit_lifetime)
		VALUES ('slots', 'slots', 'concurrency', 5, '1 min');
	INSERT INTO quota.limits (provider, name, kind, amount, period, per)
		VALUES ('credits', 'credits', 'allowance', 10, '1 month', '{tenant}');
	INSERT INTO quota.providers (provider, safety)
		VALUES ('window', 1), ('sliding', 1), ('pace', 1);
	INSERT INTO quota.limits (provider, name, kind, amount, period)
		VALUES ('window', 'window', 'fixed_window', 10, '1 min'),
			('sliding', 'sliding', 'sliding_window', 10, '1 min'),
			('pace', 'pace', 'leaky_bucket', 10, '1 min');
	INSERT INTO quota.costs (provider, endpoint, unit, cost)
		VALUES ('pace', 'dear', 'request', 5);
});
clock_set($node, '2020-01-15 00:00:00+00');
is(acquire($_), 'ok', "a call to $_") foreach qw(rate slots credits);
psql_value($node, "SELECT quota_settle((quota_acquire('t', 'credits')).permit)");

kill_backend();

# Stops the clock, in the period of the credits; to the past, as a step forward
# would be time to refill in.
clock_set($node, '2020-01-15 00:00:30+00');

is(acquire('rate'), 'rate_limited',
	'a rate holds what would have refilled since the crash');
is(acquire('slots'), 'concurrency_limited',
	'what was in flight counts until its lifetime ends');
is(acquire('credits'), 'ok', 'credits go on');
is(acquire('window'), 'rate_limited',
	'a window that may have begun before the crash is used up');
is(acquire('sliding'), 'rate_limited', 'a sliding one as well');
is(acquire('pace'), 'rate_limited',
	'of a leaky bucket the dearest call may just have gone');
is( psql_value(
		$node,
		"SELECT used FROM quota.stat_buckets WHERE limit_name = 'credits'"),
	'3',
	'from what was committed: the killed transaction took nothing');

$node->safe_psql(
	'postgres', q{
	INSERT INTO quota.providers (provider, safety) VALUES ('new', 1);
	INSERT INTO quota.limits (provider, name, amount, period, burst)
		VALUES ('new', 'new', 1, '1 min', 1)});
is(acquire('new'), 'ok', 'a limit created since the crash starts full');

clock_advance($node, '6 s');
is(acquire('pace'), 'rate_limited', 'the debt has not leaked yet');

# an immediate shutdown is a crash as well
$node->restart;
is(acquire('rate'), 'rate_limited', 'a clean restart later is exact');
clock_advance($node, '23.999999 s');
is(acquire('window'), 'rate_limited', 'the window lasts to its end');
is(acquire('sliding'), 'rate_limited', 'which is not that of the sliding one');
clock_advance($node, '0.000001 s');
is(acquire('window'), 'ok', 'the next window is whole');
is( psql_value(
		$node,
		"SELECT level FROM quota_explain('t', 'window')"),
	'9',
	'and counts');
is(acquire('pace'), 'ok', 'the debt has leaked');
clock_advance($node, '30 s');
is(acquire('sliding'), 'ok',
	'the sliding one counts from the first decision after the crash');
is(acquire('slots'), 'ok', 'lost permits are forgotten');
is(acquire('rate'), 'ok', 'a rate refills');
is(acquire('rate'), 'rate_limited', 'no faster than it should');
$node->safe_psql(
	'postgres', q{
	INSERT INTO quota.providers (provider) VALUES ('zoned');
	INSERT INTO quota.limits (provider, name, kind, amount, period, per, time_zone, permit_lifetime)
		VALUES ('zoned', 'zoned', 'allowance', 10, '1 day', '{tenant}', 'Asia/Tokyo', '1 day')});
my $permit = psql_value($node, "SELECT permit FROM quota_acquire('t', 'zoned')");
crash($node);
clock_set($node, '2020-01-15 00:00:00+00');
# settling finds the bucket's calendar by the limit's name
is( $node->safe_psql(
		'postgres',
		"BEGIN; SELECT quota_settle($permit, units => '{\"request\": 3}');
		SELECT period_start AT TIME ZONE 'Asia/Tokyo' FROM quota_balance('t', 'zoned'); COMMIT"),
	"\n2020-01-15 00:00:00",
	'after a crash an allowance is settled in the period of its time zone');
is(acquire('new'), 'rate_limited', 'what was new has become old');
is(acquire('slots'), 'concurrency_limited', 'permits are unknown again');

is( psql_value(
		$node,
		"SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'quota launcher'"
	),
	'1',
	'the launcher is back');

$node->stop;
done_testing();
