
# Copyright (c) 2026, the quota authors

# One account, 30,000 jobs of 20 credits of one tenant against 50 jobs of 2 of another
# that come later: the small tenant is served at once, and nobody exceeds its slice of the
# account's credits, with several workers at the same time.
#
# environment: QUOTA_SLICE_JOBS=30000    jobs of the large tenant instead of 3000

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;
use Time::HiRes qw(time);

my $jobs = $ENV{QUOTA_SLICE_JOBS} // 3000;
# two thirds of its jobs fit the slice of the large tenant
my $slice = int($jobs * 20 * 2 / 3);
my $account = $slice + 200;
my $node = new_node('slices', 'log_statement' => 'none');
clock_set($node, '2030-01-01 00:00:00+00');
$node->safe_psql('postgres', qq{
	INSERT INTO quota.tiers (tier) VALUES ('t');
	INSERT INTO quota.tenants (tenant, tier) VALUES ('large', 't'), ('small', 't');
	INSERT INTO quota.providers (provider, account, share_unit, safety) VALUES ('key1', 'acc', 'credit', 1), ('key2', 'acc', 'credit', 1);
	INSERT INTO quota.costs (provider, endpoint, unit, cost) SELECT p, e, 'credit', c
		FROM unnest('{key1,key2}'::text[]) p, (VALUES ('/dear', 20), ('/cheap', 2)) v (e, c);
	INSERT INTO quota.limits (provider, name, account, per, unit, kind, amount, period, external) VALUES
		(NULL, 'account', 'acc', '{}', 'credit', 'allowance', $account, '1 day', false),
		(NULL, 'slice', 'acc', '{tenant}', 'credit', 'allowance', $slice, '1 day', false);
	INSERT INTO quota.tenant_limits (tenant, provider, name, amount) VALUES ('small', NULL, 'slice', 150);
	INSERT INTO quota.jobs (tenant, provider, endpoint) SELECT 'large', 'key1', '/dear' FROM generate_series(1, $jobs);
	CREATE TABLE claimed (n serial, tenant text);
	CREATE PROCEDURE run(most int) LANGUAGE plpgsql AS \$\$
	DECLARE j record;
	BEGIN
		FOR i IN 1 .. most LOOP
			SELECT * INTO j FROM quota_dequeue('key1');
			EXIT WHEN j.id IS NULL;
			INSERT INTO claimed (tenant) VALUES (j.tenant);
			COMMIT;
			PERFORM quota_complete(j.id, j.attempt);
			COMMIT;
		END LOOP;
	END \$\$;
	-- looks so often; the most that was used of the slices and of the account
	CREATE FUNCTION most(looks int, OUT large bigint, OUT small bigint, OUT account bigint) LANGUAGE plpgsql AS \$\$
	BEGIN
		FOR i IN 1 .. looks LOOP
			large := greatest(large, (SELECT used FROM quota_balance('large') WHERE limit_name = 'slice'));
			small := greatest(small, (SELECT used FROM quota_balance('small') WHERE limit_name = 'slice'));
			account := greatest(account, (SELECT used FROM quota_balance('large') WHERE limit_name = 'account'));
		END LOOP;
	END \$\$;
});
my $start = time;
my @workers = map { session($node) } 1 .. 4;
my $watch = session($node);

sub used { return $watch->query("SELECT coalesce((SELECT used FROM quota_balance('$_[0]') WHERE limit_name = '$_[1]'), 0)") }

# the large tenant has been at it for a while
$_->query_async('CALL run(25)') for @workers;
$_->wait for @workers;
is($watch->query("SELECT count(*) FROM claimed WHERE tenant = 'large'"), 100, 'the large tenant has the provider for itself');
$watch->query("INSERT INTO quota.jobs (tenant, provider, endpoint) SELECT 'small', 'key1', '/cheap' FROM generate_series(1, 50)");
$watch->query('TRUNCATE claimed RESTART IDENTITY');
# one worker, as the order in which several note their claims is not that of the claims
$workers[0]->query('CALL run(64)');
is($watch->query("SELECT count(*) FROM claimed WHERE tenant = 'small'"), '50', 'the small tenant is served at once: 50 jobs within the next 64');
$watch->query("INSERT INTO quota.jobs (tenant, provider, endpoint) SELECT 'small', 'key1', '/cheap' FROM generate_series(1, 25)");
$_->query_async('CALL run(100000)') for @workers;
my $over = '';
my $looks = 0;
while (grep { $_->is_busy } @workers)
{
	my ($l, $s, $a) = split /\|/, $watch->query('SELECT * FROM most(20)');
	$over .= "$l $s $a\n" if $l > $slice || $s > 150 || $a > $account;
	$looks += 20;
}
$_->wait for @workers;
is($over, '', 'no slice, and not the account, is exceeded at any time');
cmp_ok($looks, '>', 5, "of $looks looks");
is($watch->query("SELECT count(*) FROM quota.jobs WHERE tenant = 'small' AND state = 'succeeded'"), '75', 'all of it');
is(used('small', 'slice'), '150', 'and is charged for it');
is(used('large', 'slice'), int($slice / 20) * 20, 'the large tenant uses its slice to the last job that fits,');
is(used('large', 'account'), int($slice / 20) * 20 + 150, 'together they use so much of the account,');
is($watch->query("SELECT count(*) FROM quota.jobs WHERE tenant = 'large' AND state = 'queued'"), $jobs - int($slice / 20), 'and the rest waits');
is($watch->query("SELECT reason FROM quota.stat_flows WHERE tenant = 'large'"), 'quota_exhausted', 'for want of credits');
is($watch->query("SELECT sum(amount) FROM quota.ledger WHERE limit_name = 'account'"), int($slice / 20) * 20 + 150, 'entries say the same');
is($watch->query('SELECT count(*) FROM quota_audit()'), '0', 'the audit is empty');
note sprintf '%d jobs in %.1f s', $watch->query('SELECT count(*) FROM claimed'), time - $start;

# a new day
clock_advance($node, '1 day');
$_->query_async('CALL run(100000)') for @workers;
$_->wait for @workers;
is($watch->query("SELECT count(*) FROM quota.jobs WHERE state <> 'succeeded'"), '0', 'the next period serves the rest');
is($watch->query('SELECT count(*) FROM quota_audit()'), '0', 'the audit is empty');
$_->quit for @workers, $watch;
$node->stop;
done_testing();
