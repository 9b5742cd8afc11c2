# Copyright (c) 2026, the quota authors

# quota_audit() finds counts of unfinished jobs that differ from the rows, and takes
# nothing for that which open transactions do.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;

my $node = new_node('main', 'restart_after_crash' => 'on');

sub audit
{
	return psql_value($node,
		'SELECT problem, provider, tenant, detail, expected, actual FROM quota_audit() ORDER BY detail');
}

$node->safe_psql(
	'postgres', q{
	INSERT INTO quota.tiers (tier) VALUES ('basic');
	INSERT INTO quota.tenants (tenant, tier) VALUES ('t', 'basic'), ('u', 'basic');
	INSERT INTO quota.providers (provider) VALUES ('p');
	INSERT INTO quota.jobs (tenant, provider, endpoint) SELECT 't', 'p', 'e' FROM generate_series(1, 4);
	INSERT INTO quota.jobs (tenant, provider) SELECT 'u', 'p' FROM generate_series(1, 4)});
psql_value($node, "SELECT count(*) FROM quota_dequeue('p', 2)");
is(audit(), '', 'counts agree with rows');

my $session = session($node);
$session->query("BEGIN; SELECT count(*) FROM quota_dequeue('p', 2); SELECT quota_cancel(max(id)) FROM quota.jobs; INSERT INTO quota.jobs (tenant, provider) VALUES ('t', 'p')");
is(audit(), '', 'what is open is no difference');
is($session->query('SELECT count(*) FROM quota_audit()'), '0', 'not in the transaction itself either');
$session->query('COMMIT');
is(audit(), '', 'nor what has just committed');

# rows that go and come behind the extension's back
$node->safe_psql(
	'postgres', q{
	BEGIN;
	ALTER TABLE quota.jobs DISABLE TRIGGER ALL;
	DELETE FROM quota.jobs WHERE id = (SELECT max(id) FROM quota.jobs WHERE tenant = 't' AND endpoint = 'e' AND state = 'queued');
	UPDATE quota.jobs SET state = 'succeeded' WHERE id = (SELECT min(id) FROM quota.jobs WHERE tenant = 't' AND state = 'running');
	COMMIT});
like(
	audit(),
	qr/^counter differs\|p\|t\|jobs in flight differ from the rows; class "event", endpoint "e"\|1\|2\ncounter differs\|p\|t\|jobs that wait differ from the rows; class "event", endpoint "e"\|1\|2$/,
	'a difference is found');
$node->stop('immediate');
$node->start;
$node->poll_query_until('postgres', 'SELECT bool_and(depth IS NOT NULL) FROM quota.stat_flows');
is(audit(), '', 'counting anew mends it');

$node->stop;
done_testing();
