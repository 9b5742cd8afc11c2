# Copyright (c) 2026, the quota authors

# G14: the state of a circuit breaker and what an adaptive limit has learned outlive a
# clean restart; after a crash the breaker is closed and the limit begins anew.  And
# what one session reports holds for the next decision of all.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;

my $node = new_node('main');

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

$node->stop;
done_testing();
