# Copyright (c) 2026, the quota authors

# G1, G13: the table of buckets is full of those of another database, whose rates have
# changed since.  None is forgotten by rules that apply no more, and a background worker
# sees to it that all make room once they are full by the rules there are.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;

my $node = new_node('rules', 'quota.max_buckets' => 64);
clock_set($node, '2030-01-01 00:00:00+00');
my $setup = q(
	INSERT INTO quota.tiers (tier) VALUES ('t');
	INSERT INTO quota.tenants (tenant, tier) SELECT 'n' || i, 't' FROM generate_series(1, 6) i;
	INSERT INTO quota.providers (provider, safety) VALUES ('p', 1);
	INSERT INTO quota.limits (provider, name, per, amount, period, burst) VALUES ('p', 'rate', '{tenant,user}', 10, '10 s', 10););
$node->safe_psql('postgres', $setup);
$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', "CREATE EXTENSION quota; $setup");

# every place of the table, of the other database
sub fill
{
	$node->safe_psql('other', q(DO $$ BEGIN FOR i IN 1 .. 72 LOOP
		BEGIN PERFORM quota_acquire('n' || 1 + i % 6, 'p', n => 10, "user" => 'u' || i);
		EXCEPTION WHEN configuration_limit_exceeded THEN NULL; END; COMMIT;
	END LOOP; END $$));
	return $node->safe_psql('other', 'SELECT count(*), sum(level) FROM quota.stat_buckets');
}

# a call that needs a place: t, or the SQLSTATE
sub ask
{
	my ($user) = @_;
	my ($ret, $out, $err) = $node->psql('postgres', "\\set VERBOSITY sqlstate\nSELECT admitted FROM quota_acquire('n1', 'p', \"user\" => '$user')");
	return $ret == 0 ? $out : $err =~ /(\w{5})\s*$/ ? $1 : $err;
}

is(fill(), '64|0', 'the other database has used up all that 64 buckets hold');
$node->safe_psql('other', "UPDATE quota.limits SET period = '50 s'");
clock_advance($node, '30 s');
is(ask('a'), '53400', 'there is no room by the slower rules, as there was by the old ones');
wait_until('a worker sees to it that the slower ones apply',
	sub { $node->safe_psql('other', 'SELECT sum(level) FROM quota.stat_buckets') eq 64 * 6 });
is(ask('a'), '53400', 'there is no room yet');
clock_advance($node, '19.999999 s');
is(ask('a'), '53400', 'nor a microsecond before they are full');
clock_advance($node, '1 us');
is(ask('a'), 't', 'then there is');

clock_advance($node, '1 min');
is(fill(), '64|0', 'once more');
$node->safe_psql('other', "UPDATE quota.limits SET period = '20 s'");
clock_advance($node, '1 min');
wait_until('what is full by rules that nobody has applied yet makes room, too',
	sub { ask('b') eq 't' });
clock_advance($node, '1 min');
is(fill(), '64|0', 'and again');
$node->restart;
clock_advance($node, '1 min');
is(ask('c'), 't', 'after a restart nothing has changed');
is($node->safe_psql('postgres', 'SELECT * FROM quota_audit()'), '', 'and all is as it should be');
$node->stop;
done_testing();
