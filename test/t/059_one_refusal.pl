# Copyright (c) 2026, the quota authors

# 50 sessions of one credential: the first refusal that one of them is told stops all of
# them at their next decision, though its transaction rolls back; and one that means a
# tenant stops that tenant.  While the transaction that reports it is still open too, and
# for jobs.  Real sessions, real answers, the test clock.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;

my $node = new_node('main', 'max_connections' => 80);
clock_set($node, '2030-01-01 00:00:00+00');
$node->safe_psql(
	'postgres', q{
	INSERT INTO quota.tiers (tier) VALUES ('t');
	INSERT INTO quota.tenants (tenant, tier) SELECT 'tenant_' || i, 't' FROM generate_series(0, 4) AS i;
	INSERT INTO quota.providers (provider, safety, cooldown, share_reserve) VALUES ('p', 1, '2 s', 0);
	INSERT INTO quota.limits (provider, name, kind, amount, period, burst, adaptive, external) VALUES
		('p', 'rate', 'token_bucket', 1000, '1 s', 1000, true, true),
		('p', 'flight', 'concurrency', 200, NULL, NULL, false, false);
	INSERT INTO quota.answers (provider, status, header, value, means, scope) VALUES
		('p', 429, 'x-scope', 'all', 'rate_limited', 'provider'),
		('q', 429, 'x-scope', 'all', 'rate_limited', 'provider'),
		('p', 429, 'x-scope', 'tenant', 'rate_limited', 'tenant')});

my @sessions = map { session($node) } 0 .. 49;

# what each of them is told, all asking at once; a permit where it is admitted
sub ask_all
{
	foreach my $i (0 .. 49)
	{
		my $tenant = 'tenant_' . $i % 5;
		$sessions[$i]->query_async(
			"SELECT reason, to_char(not_before, 'SS.MS'), permit FROM quota_acquire('$tenant', 'p')"
		);
	}
	return map { [ split /\|/, $_->wait =~ s/\n//r, -1 ] } @sessions;
}

sub reasons
{
	return join(' ', map { $_->[0] } @_);
}

# the calls of all sessions are under way when the first refusal comes
my @calls = ask_all();
is(reasons(@calls), join(' ', ('ok') x 50), 'all 50 call');
is(psql_value($node, 'SELECT used_part FROM quota.stat_adaptive'), '0.5000', 'by half of the limit');
$sessions[17]->query('BEGIN');
$sessions[17]->query(
	qq{SELECT quota_settle($calls[17][2], status => 429, headers => '{"X-Scope": "all"}', latency => '0')}
);
$sessions[17]->query('ROLLBACK');
my @told = ask_all();
is(reasons(@told), join(' ', ('paused') x 50), 'one refusal stops all at their next decision');
is(psql_value($node, 'SELECT used_part FROM quota.stat_adaptive'),
	'0.3500', 'and takes a part of the limit');

# those that were under way are refused as well, and that changes nothing
clock_advance($node, '50 ms');
foreach my $i (grep { $_ != 17 } 0 .. 49)
{
	$sessions[$i]->query(
		qq{SELECT quota_settle($calls[$i][2], status => 429, headers => '{"X-Scope": "all"}', latency => '50 ms')}
	);
}
is( psql_value(
		$node,
		"SELECT count(*), min(used_part) FROM quota.stat_adaptive, quota.stat_pauses"),
	'1|0.3500',
	'49 refusals of calls that were under way are one sign, and one pause');
is(psql_value($node, "SELECT rate_limited FROM quota.stat_answers WHERE provider = 'p'"),
	'50', 'all of them are counted');

# nobody is early; then they come one after the other, as the bucket fills
clock_advance($node, '1999 ms');
is(reasons(ask_all()), join(' ', ('paused') x 50), 'nobody is early');
clock_advance($node, '1 ms');
my @after = ask_all();
is((grep { $_->[0] eq 'ok' } @after), 0, 'at its end the bucket is empty');
clock_advance($node, '10 ms');
@after = ask_all();
is((grep { $_->[0] eq 'ok' } @after), 3, 'and 10 ms later it holds 3 calls, of 350 a second');

# one that means a tenant
clock_advance($node, '1 s');
@calls = ask_all();
is(reasons(@calls), join(' ', ('ok') x 50), 'all call');
$sessions[2]->query(
	qq{SELECT quota_settle($calls[2][2], status => 429, headers => '{"X-Scope": "tenant", "Retry-After": "3"}', latency => '0')}
);
@told = ask_all();
is( reasons(@told),
	join(' ', ('ok', 'ok', 'paused', 'ok', 'ok') x 10),
	'a refusal that means a tenant stops that tenant in all sessions');
is($told[7][1], '06.060', 'until it says');
is(psql_value($node, 'SELECT used_part FROM quota.stat_adaptive'),
	'0.3500', 'and takes nothing from the others');

# ---- jobs, and before the transaction that reports it has ended ----

$node->safe_psql(
	'postgres', q{
	INSERT INTO quota.providers (provider, safety, retry_base, retry_max) VALUES ('q', 1, '1 ms', '1 ms');
	INSERT INTO quota.jobs (tenant, provider) SELECT 'tenant_' || i % 5, 'q' FROM generate_series(1, 100) AS i});

# what a call and a claim of each of the others, all at once, come to
sub others_get
{
	my ($but) = @_;
	my @others = @sessions[ grep { $_ != $but } 0 .. 49 ];
	my %got;
	foreach my $sql (
		"SELECT reason, to_char(not_before, 'MI:SS.US') FROM quota_acquire('tenant_3', 'q')",
		q{SELECT count(*) || ' jobs' FROM quota_dequeue('q')})
	{
		$_->query_async($sql) foreach @others;
		$got{ $_->wait =~ s/\n//r }++ foreach @others;
	}
	return join(', ', map { "$got{$_} x $_" } sort keys %got);
}

clock_set($node, '2030-01-01 12:00:00+00');
is($sessions[8]->query(q{SELECT count(*) FROM quota_dequeue('q')}), 1, 'a job runs');
foreach my $end ('ROLLBACK', 'COMMIT')
{
	$sessions[8]->query('BEGIN');
	$sessions[8]->query(
		q{SELECT quota_fail(id, attempt, 'later', 429, '{"X-Scope": "all", "Retry-After": "30"}')
		FROM quota.jobs WHERE state = 'running'});
	my $until = $end eq 'ROLLBACK' ? '00:30' : '01:00';
	is(others_get(8), "49 x 0 jobs, 49 x paused|$until.000000",
		'its 429 stops all others at their next decision, before its transaction has ended');
	$sessions[8]->query($end);
	is(others_get(8), "49 x 0 jobs, 49 x paused|$until.000000", "and after $end");
	clock_advance($node, '29.999999 s');
	is(others_get(8), "49 x 0 jobs, 49 x paused|$until.000000", 'up to the time it said');
	clock_advance($node, '1 us');
	next if $end eq 'ROLLBACK';
	is(others_get(8), '49 x 1 jobs, 49 x ok|', 'and not longer');
}

$_->quit foreach @sessions;
$node->stop;
done_testing();
