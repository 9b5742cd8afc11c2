# Copyright (c) 2026, the quota authors

# G14 of limits that do not refuse: a restart keeps debts and what shadows counted, a
# crash leaves soft rates drained and forgets what shadow allowances had in memory.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;

my $node = new_node('enforce');
clock_set($node, '2026-01-10 00:00:00+00');
$node->safe_psql('postgres', q(
	INSERT INTO quota.tiers (tier) VALUES ('t');
	INSERT INTO quota.tenants (tenant, tier) VALUES ('a', 't');
	INSERT INTO quota.providers (provider, safety) VALUES ('p', 1);
	INSERT INTO quota.limits (provider, name, per, kind, amount, period, permit_lifetime, enforcement) VALUES
		('p', 'rate', '{tenant}', 'token_bucket', 10, '1 minute', '1 h', 'soft'),
		('p', 'credits', '{tenant}', 'allowance', 10, '1 month', '1 h', 'soft'),
		('p', 'slots', '{tenant}', 'concurrency', 10, NULL, '1 h', 'soft'),
		('p', 'rate_shadow', '{tenant}', 'token_bucket', 20, '1 minute', '1 h', 'shadow'),
		('p', 'credits_shadow', '{tenant}', 'allowance', 20, '1 month', '1 h', 'shadow'),
		('p', 'slots_shadow', '{tenant}', 'concurrency', 20, NULL, '1 h', 'shadow')));

my $levels = q(SELECT string_agg(limit_name || ' ' || level, ', ' ORDER BY limit_name) FROM quota_explain('a', 'p'));
my $would = q(SELECT string_agg(limit_name || ' ' || would_refuse, ', ' ORDER BY limit_name)
	FROM quota.stat_buckets WHERE would_refuse > 0);
my $permit = psql_value($node, q(SELECT permit FROM quota_acquire('a', 'p', units => '{"request": 15}')));
is(psql_value($node, q(SELECT reason FROM quota_acquire('a', 'p', units => '{"request": 6}'))), 'soft_limit', 'a debt');
my $before = 'credits -11, credits_shadow 5, rate -10, rate_shadow 5, slots 8, slots_shadow 18';
my $refused = 'credits 2, credits_shadow 1, rate 2, rate_shadow 1';
is(psql_value($node, $levels), $before, 'levels');
is(psql_value($node, $would), $refused, 'counts');

$node->restart;
is(psql_value($node, $levels), $before, 'a restart keeps levels');
is(psql_value($node, $would), $refused, 'and counts');
is(psql_value($node, 'SELECT count(*) FROM quota_audit()'), '0', 'the audit is empty');
$node->safe_psql('postgres', "SELECT quota_settle($permit, units => '{\"request\": 10}')");
is(psql_value($node, $levels),
	'credits -6, credits_shadow 10, rate -5, rate_shadow 10, slots 9, slots_shadow 19',
	'and what permits were charged');
is(psql_value($node, 'SELECT count(*) FROM quota_audit()'), '0', 'the audit is empty');

# what is in flight is unknown for an hour; the clock runs again, so credits are of a new month
crash($node);
is(psql_value($node, $levels),
	'credits 10, credits_shadow 20, rate 0, rate_shadow 0, slots 0, slots_shadow 0',
	'a crash leaves rates drained');
is(psql_value($node, q(SELECT reason FROM quota_acquire('a', 'p'))), 'soft_limit', 'and refuses nothing');
is(psql_value($node, 'SELECT count(*) FROM quota_audit()'), '0', 'the audit is empty');
$node->stop;
done_testing();
