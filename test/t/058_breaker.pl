# Copyright (c) 2026, the quota authors

# G14: the state of a circuit breaker and what an adaptive limit has learned outlive a
# clean restart; after a crash the breaker is closed and the limit begins anew.  And
# what one session reports holds for the next decision of all.
#
# A half-open breaker does not stay in want of a probe whose session died: at once when
# its transaction had not committed, after probe_timeout when it had, and whatever
# becomes of its permit.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;

my $node = new_node('main', 'restart_after_crash' => 'on');

clock_set($node, '2030-01-01 00:00:00+00');
$node->safe_psql(
	'postgres', q{
	INSERT INTO quota.tiers (tier) VALUES ('t');
	INSERT INTO quota.tenants (tenant, tier) VALUES ('a', 't');
	INSERT INTO quota.providers (provider, safety) VALUES ('p', 1);
	INSERT INTO quota.breakers (provider, endpoint, min_calls, open_time, probes)
		VALUES ('p', '/sick', 2, '1 hour', 1);
	INSERT INTO quota.limits (provider, name, amount, period, adaptive)
		VALUES ('p', 'rate', 100, '1 s', true);
});

# the state, and whether it stops a call to the endpoint; a call that is looked at first
# makes both known
sub state
{
	my $stops = psql_value($node,
		q{SELECT reason = 'breaker_open' FROM quota_peek('a', 'p', '/sick')});
	return psql_value($node,
		'SELECT state, used_part FROM quota.stat_breakers, quota.stat_adaptive')
	  . "|$stops";
}

my $failures =
  q{SELECT quota_report('p', 500, 'a', '/sick'), quota_report('p', 500, 'a', '/sick')};

psql_value($node, q{SELECT reason FROM quota_acquire('a', 'p', '/sick')});
is(state(), 'closed|0.5000|f', 'in the beginning');

my $other = session($node);
$other->query(q{SELECT reason FROM quota_acquire('a', 'p', '/sick')});
$node->safe_psql('postgres', "BEGIN; $failures; ROLLBACK");
is($other->query(q{SELECT reason FROM quota_acquire('a', 'p', '/sick')}),
	'breaker_open',
	'what one session reports holds for the next decision of another, though it rolled back');
$other->quit;
psql_value($node, q{SELECT quota_report('p', 429, 'a', '/well')});
is(state(), 'open|0.3500|t', 'failures open it, a 429 takes a part of the limit');

$node->restart;
is(state(), 'open|0.3500|t', 'both outlive a clean restart');

$node->stop('immediate');
$node->start;
is(state(), 'closed|0.5000|f',
	'after a crash the breaker is closed, and the limit begins anew');

# ---- probes of sessions that die ----

$node->safe_psql(
	'postgres', q{
	INSERT INTO quota.tenants (tenant, tier) VALUES ('b', 't');
	INSERT INTO quota.providers (provider, safety) VALUES ('q', 1);
	INSERT INTO quota.breakers (provider, min_calls, open_time, probes, probe_timeout)
		VALUES ('q', 2, '10 s', 1, '1 min');
	INSERT INTO quota.limits (provider, name, kind, amount, permit_lifetime)
		VALUES ('q', 'flight', 'concurrency', 10, '20 s');
	INSERT INTO quota.jobs (tenant, provider) VALUES ('a', 'q'), ('b', 'q');
});
my $half_open = q{SELECT state, probing FROM quota.stat_breakers WHERE provider = 'q'};

# it has failed, and waits for a probe
sub half_open
{
	psql_value($node,
		q{SELECT quota_report('q', 500, 'a'), quota_report('q', 500, 'a')});
	clock_advance($node, '10 s');
	is(psql_value($node, q{SELECT reason FROM quota_peek('b', 'q')}), 'ok', 'a probe may go');
	return;
}

# a session that has made this its probe, in a transaction unless $committed
sub prober
{
	my ($call, $committed) = @_;
	my $s = session($node);
	$s->query('BEGIN') unless $committed;
	is($s->query($call), 1, 'a probe goes');
	is(psql_value($node, $half_open), 'half_open|1', 'it is under way');
	is(psql_value($node, q{SELECT reason FROM quota_acquire('b', 'q')}),
		'breaker_open', 'no other');
	return $s;
}

sub terminate
{
	my ($s) = @_;
	$s->kill_backend('TERM');
	wait_gone($node, $s->pid);
	return;
}

my %probes = (
	'a call' => q{SELECT granted FROM quota_acquire('a', 'q')},
	'a claim' => q{SELECT count(*) FROM quota_dequeue('q', 2)});
half_open();
foreach my $what (sort keys %probes)
{
	my $s = prober($probes{$what});
	my $waiter = session($node);
	$waiter->query_async("CALL quota_acquire_wait('b', 'q', timeout => '1 hour')");
	wait_event($waiter, 'Extension');
	terminate($s);
	my ($permit) = $waiter->wait =~ /^\(t,1,ok,,,\d*,(\d+),\)$/;
	ok($permit, "its session is terminated, $what: who waits goes instead");
	psql_value($node, "SELECT quota_settle($permit, status => 429, headers => '{\"Retry-After\": 0}')");
	is(psql_value($node, $half_open), 'half_open|0', 'which proves nothing: another may go');
}

# committed: nobody knows what became of it
my $committed = prober($probes{'a call'}, 1);
terminate($committed);
is(psql_value($node, q{SELECT reason, not_before - quota_clock() FROM quota_acquire('b', 'q')}),
	'breaker_open|00:01:00', 'committed, it may be under way');
clock_advance($node, '20 s');
is(psql_value($node, q{SELECT used FROM quota.stat_buckets WHERE provider = 'q' AND limit_name = 'flight'}),
	0, 'its permit is over,');
is(psql_value($node, q{SELECT reason, not_before - quota_clock() FROM quota_acquire('b', 'q')}),
	'breaker_open|00:00:40', 'which says nothing of the probe');
clock_advance($node, '39.999999 s');
is(psql_value($node, $half_open), 'half_open|1', 'nor does anything else');
clock_advance($node, '1 us');
is(psql_value($node, $half_open), 'half_open|0', 'until its time is over');

# one whose permit and time are over while its transaction is open takes nothing back
my $slow = prober($probes{'a call'});
clock_advance($node, '1 min');
my $next = prober($probes{'a call'});
terminate($slow);
is(psql_value($node, $half_open), 'half_open|1', 'the end of an overdue probe is not that of the next');
is(psql_value($node, q{SELECT reason FROM quota_acquire('b', 'q')}), 'breaker_open', 'which is still the only one');
terminate($next);
is(psql_value($node, $half_open), 'half_open|0', 'until it ends as well');

# killed: the server has restarted, and nothing is left of the probe, nor of the breaker
my $killed = prober($probes{'a call'});
crash_backend($node, $killed->pid);
# calls in flight are not known for the lifetime of a permit
clock_advance($node, '1 min');
is(psql_value($node, q{SELECT reason FROM quota_peek('b', 'q', n => 5)}),
	'ok', 'a killed session: calls go on');
is(psql_value($node, 'SELECT count(*) FROM quota_audit()'), 0, 'audit is empty');

$node->stop;
done_testing();
