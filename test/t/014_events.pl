# Copyright (c) 2026, the quota authors

# G16: what happened is kept: the first refusal of an allowance in its period,
# and a permit that nobody settled.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;

my $node = new_node('events');
clock_set($node, '2026-01-10 00:00:00+00');
$node->safe_psql('postgres', q(
	INSERT INTO quota.tiers (tier) VALUES ('t');
	INSERT INTO quota.tenants (tenant, tier) VALUES ('acme', 't');
	INSERT INTO quota.providers (provider) VALUES ('llm');
	INSERT INTO quota.costs (provider, unit, cost) VALUES ('llm', 'credit', 4);
	INSERT INTO quota.limits (provider, name, per, unit, kind, amount, period)
	VALUES ('llm', 'credits', '{tenant}', 'credit', 'allowance', 10, '1 month');));

sub events
{
	my ($kind) = @_;
	return "SELECT string_agg(concat_ws('|', provider, tenant, detail), ' ' ORDER BY id)"
	  . " FROM quota.events WHERE kind = '$kind'";
}

my $acquire = "SELECT reason FROM quota_acquire('acme', 'llm')";
is(psql_value($node, $acquire), 'ok', 'the first call is admitted');
is(psql_value($node, $acquire), 'ok', 'and the second');
is(psql_value($node, $acquire), 'quota_exhausted', 'the third is not') for 1 .. 3;
ok($node->poll_query_until('postgres', events('exhausted'),
		'llm|acme|limit credits: 4 needed, 2 of 10 left'),
	'exhaustion is told once a period');

clock_advance($node, '61 s');
is(psql_value($node, $acquire), 'quota_exhausted', 'a lost call stays charged');
ok($node->poll_query_until('postgres',
		"SELECT count(*) = 2 FROM quota.events WHERE kind = 'lost_permit'"),
	'both permits were lost');

clock_advance($node, '30 days');
is(psql_value($node, $acquire), 'ok', 'a new period admits again');
is(psql_value($node, 'SELECT count(*) FROM quota_audit()'), '0', 'the audit is empty');

# a soft limit that is crossed: an allowance once a period, others once until they
# have recovered, and again a minute later at the earliest
$node->safe_psql('postgres', q(
	INSERT INTO quota.providers (provider, safety) VALUES ('soft', 1);
	INSERT INTO quota.limits (provider, name, amount, period, burst, enforcement)
	VALUES ('soft', 'rate', 2, '10 s', 2, 'soft');
	INSERT INTO quota.limits (provider, name, kind, amount, enforcement)
	VALUES ('soft', 'slots', 'concurrency', 5, 'soft');
	UPDATE quota.limits SET enforcement = 'soft' WHERE provider = 'llm';));
my $soft = "SELECT (quota_acquire('acme', 'soft', n => 4)).reason";
is(psql_value($node, $acquire), 'ok', 'the allowance has room') for 1 .. 1;
is(psql_value($node, $acquire), 'soft_limit', 'and lets through') for 1 .. 3;
is(psql_value($node, $soft), 'soft_limit', 'so does the rate, which owes 2 then') for 1 .. 3;
clock_advance($node, '59 s');
is(psql_value($node, $soft), 'soft_limit', 'and when it is full again after less than a minute');
clock_advance($node, '1 s');
is(psql_value($node, $soft), 'soft_limit', 'and when it is not after a minute; but the first calls in flight have ended');
clock_advance($node, '30 s');
is(psql_value($node, $soft), 'soft_limit', 'and when it is');
ok($node->poll_query_until('postgres', events('soft_limit'),
		'llm|acme|limit credits: 4 needed, 2 of 10 left '
	  . 'soft|acme|limit rate: 4 needed, 2 of 2 left '
	  . 'soft|acme|limit slots: 4 needed, 1 of 5 left '
	  . 'soft|acme|limit slots: 4 needed, 1 of 5 left '
	  . 'soft|acme|limit rate: 4 needed, 2 of 2 left'),
	'each is told once')
  or diag psql_value($node, events('soft_limit'));
# retention is over for the others by then
clock_advance($node, '30 days');
is(psql_value($node, $acquire), 'ok', 'the allowance is new');
is(psql_value($node, $acquire), 'ok', 'and has');
is(psql_value($node, $acquire), 'soft_limit', 'the same again');
ok($node->poll_query_until('postgres', events('soft_limit'),
		'llm|acme|limit credits: 4 needed, 2 of 10 left'),
	'and tells it');
is(psql_value($node, 'SELECT count(*) FROM quota_audit()'), '0', 'a debt is no problem for the audit');

$node->stop;
done_testing();
