# Copyright (c) 2026, the quota authors

# Answers of providers over what ends sessions and servers: what they say acts on all
# sessions at once and stays, and what was seen is written later.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;

# no background worker can be started: what was seen waits in memory
my $node = new_node(
	'main',
	'max_worker_processes' => 1,
	'max_logical_replication_workers' => 0);

sub value
{
	my ($sql) = @_;
	return psql_value($node, $sql);
}

my $level = "SELECT remaining + 1 FROM quota_peek('a', 'p')";

$node->safe_psql(
	'postgres', q{
	INSERT INTO quota.tiers (tier) VALUES ('t');
	INSERT INTO quota.tenants (tenant, tier) VALUES ('a', 't'), ('b', 't');
	INSERT INTO quota.providers (provider, safety) VALUES ('p', 1);
	INSERT INTO quota.limits (provider, name, kind, amount, period, anchor)
		VALUES ('p', 'day', 'fixed_window', 1000, '1 day', quota_clock() - interval '1 hour')});
is(value("SELECT remaining FROM quota_acquire('a', 'p')"), 999, 'a call');

# ---- at once, for all, and no rollback or dying session undoes it ----

my $s = session($node);
$s->query('BEGIN');
$s->query(q{SELECT quota_report('p', 429, 'a', 'e', '{"X-RateLimit-Remaining": "600", "Retry-After": "7"}')});
is(value("SELECT remaining + 1 FROM quota_peek('b', 'p')"), 600, 'another session goes by it at once');
is(value('SELECT rate_limited FROM quota.stat_answers'), 1, 'it was counted');
$s->query('ROLLBACK');
is(value("SELECT remaining + 1 FROM quota_peek('b', 'p')"), 600, 'a rollback changes nothing');
$s->query('BEGIN');
$s->query(q{SELECT quota_report('p', 500, 'a', 'e', '{"X-RateLimit-Remaining": "500"}', reason => 'dying')});
$s->kill_backend;
wait_gone($node, $s->pid);
is(value("SELECT remaining + 1 FROM quota_peek('b', 'p')"), 500, 'nor does the end of the session');

# ---- 16 sessions say different things at the same time: the least counts ----

my @sessions = map { session($node) } 1 .. 16;
foreach my $i (1 .. 16)
{
	my $left = 400 + ($i * 7) % 16;
	$sessions[ $i - 1 ]->query_async(
		"SELECT count(quota_report('p', 200, 'a', headers => '{\"X-RateLimit-Remaining\": $left}')) FROM generate_series(1, 100)"
	);
}
$_->wait foreach @sessions;
is(value($level), 400, 'of answers at the same time the least counts');
is(value('SELECT success FROM quota.stat_answers'), 1600, 'and all are counted');

# ---- a clean restart: nothing is lost ----

is(value('SELECT count(*) FROM quota.feedback'), 0, 'nobody could write what was seen');
configure($node, 'max_worker_processes' => 8);
$node->restart;
is(value($level), 400, 'a clean restart keeps the level');
ok($node->poll_query_until('postgres', 'SELECT count(*) = 2 FROM quota.feedback'),
	'and what was seen, which is written then');
is( value('SELECT outcome, scope, status, reason, retry_after, headers, tenant, endpoint FROM quota.feedback ORDER BY id'),
	qq{rate_limited|tenant_endpoint|429||00:00:07|{"Retry-After": "7", "X-RateLimit-Remaining": "600"}|a|e\n}
	  . q{failure|call|500|dying||{"X-RateLimit-Remaining": "500"}|a|e},
	'both answers, though their transactions did not commit');

# ---- a crash: a slow limit knows what it was told, and may have a slice less ----

value(q{SELECT quota_report('p', 200, 'a', headers => '{"X-RateLimit-Remaining": "300"}')});
crash($node);
my $left = value($level);
ok($left <= 300 && $left >= 300 - 2 * 31, "after a crash a slow limit was not forgotten: $left");

done_testing();
