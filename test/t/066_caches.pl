
# Copyright (c) 2026, the quota authors

# What calls read of the server's caches may be thrown away at every look at a catalog,
# as other sessions' DDL and VACUUM do it now and then: with debug_discard_caches, which
# only a server with assertions has, at each of them.  Answers are the same.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;

my $node = new_node('main');
if (psql_value($node, q{SELECT max_val FROM pg_settings WHERE name = 'debug_discard_caches'}) eq '0')
{
	$node->stop;
	plan skip_all => 'the server was built without assertions';
}

clock_set($node, '2026-01-01 00:00:00+00');
$node->safe_psql(
	'postgres', q{
	INSERT INTO quota.tiers (tier) VALUES ('x');
	INSERT INTO quota.tenants (tenant, tier) VALUES ('t', 'x');
	INSERT INTO quota.providers (provider, safety) VALUES ('p', 1);
	INSERT INTO quota.costs (provider, unit, cost) VALUES ('p', 'credit', 10);
	INSERT INTO quota.limits (provider, name, per, unit, kind, amount, period, external) VALUES
		('p', 'rate', '{tenant}', 'request', 'token_bucket', 1000, '1 s', false),
		('p', 'flight', '{tenant}', 'request', 'concurrency', 100, NULL, false),
		('p', 'credits', '{tenant}', 'credit', 'allowance', 100000, '1 month', false);
	CREATE FUNCTION pass() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN coalesce(NEW, OLD); END$$});

# all that writes rows, once
sub calls
{
	my ($discard) = @_;
	return psql_value(
		$node, qq{
		SET debug_discard_caches = $discard;
		SELECT admitted FROM quota_acquire('t', 'p', key => 'k' || clock_timestamp());
		SELECT quota_settle((quota_acquire('t', 'p')).permit, units => '{"credit": 7}');
		SELECT quota_release((quota_hold('t', 'p', 'credit', 5)).permit);
		SELECT quota_grant('t', 'p', 'credits', 50, expires_at => '2026-01-02 00:00:00+00');
		SELECT quota_adjust('t', 'p', 'credits', 3);
		SELECT count(quota_enqueue('t', 'p', dedupe_key => 'd' || i)) FROM generate_series(1, 8) i;
		SELECT quota_complete(id, attempt) FROM quota_dequeue('p');
		SELECT quota_complete(array_agg(id), array_agg(attempt)) FROM quota_dequeue('p', 3);
		SELECT (quota_extend_job(id, attempt, '90 s')).lease_until IS NOT NULL FROM quota_dequeue('p');
		SELECT quota_fail(id, attempt, 'no', retry => false) FROM quota.jobs WHERE state = 'running';
		SELECT quota_fail(id, attempt, 'later') FROM quota_dequeue('p');
		SELECT d.attempt FROM quota_adjust('t', 'p', 'credits', 0) LEFT JOIN quota_dequeue('p') d ON true;
		SELECT quota_cancel(id) FROM quota.jobs WHERE state IN ('queued', 'scheduled') ORDER BY id;
		SELECT quota_complete(id, attempt) FROM quota.jobs WHERE state = 'running';
		SELECT count(*) FROM quota_audit();});
}

my $expected = calls(0);
is(calls(1), $expected, 'the same answers when caches are discarded');

$node->safe_psql('postgres', qq{
	CREATE TRIGGER pass_before BEFORE INSERT OR UPDATE OR DELETE ON $_ FOR EACH ROW EXECUTE FUNCTION pass();
	CREATE TRIGGER pass_after AFTER INSERT OR UPDATE OR DELETE ON $_ FOR EACH ROW EXECUTE FUNCTION pass()})
  for qw(quota.jobs quota.leases quota.holds quota.ledger quota.keys quota.dedupe);
$node->safe_psql(
	'postgres', q{
	CREATE INDEX ON quota.ledger (upper(limit_name)) WHERE abs(amount) > 5;
	CREATE INDEX ON quota.leases (abs(attempt)) WHERE abs(attempt) > 0;
	CREATE INDEX ON quota.jobs (upper(state)) WHERE abs(attempt) > 0});
is(calls(1), $expected, 'and when there are triggers and indexes of users');

$node->stop;
done_testing();
