# Copyright (c) 2026, the quota authors

# Grants that expire, through kill -9, restart, promotion and a wall clock that is set
# back: what is gone is gone at its instant, whether or not a background worker has
# written so, which it does once.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;
use QuotaTest::Ledger;

my $node = new_node('main', -init => { allows_streaming => 1 }, 'restart_after_crash' => 'on', 'autovacuum' => 'off');
clock_set($node, '2026-05-10 12:00:00+00');
$node->safe_psql(
	'postgres', q{
	INSERT INTO quota.tiers (tier) VALUES ('basic');
	INSERT INTO quota.tenants (tenant, tier) SELECT 't' || n, 'basic' FROM generate_series(1, 7) n;
	INSERT INTO quota.providers (provider) VALUES ('p');
	INSERT INTO quota.limits (provider, name, per, unit, kind, amount, period, settle_over, permit_lifetime, external)
		VALUES ('p', 'credits', '{tenant}', 'credit', 'allowance', 100, '1 month', 'debt', '10 hours', false)});

sub balance
{
	my ($tenant, $where) = @_;
	return psql_value($where // $node, "SELECT used, held, remaining, expiring FROM quota_balance('$tenant', 'p')");
}

sub grant
{
	my ($tenant, $amount, $at) = @_;
	return psql_value($node, "SELECT quota_grant('$tenant', 'p', 'credits', $amount, expires_at => '$at')");
}

my $rows = q{SELECT string_agg(l.tenant || ' ' || -l.amount || ' ' || x.amount, ', ' ORDER BY x.entry)
	FROM quota.ledger_expired x JOIN quota.ledger l ON l.id = x.entry};

# The worker has written so many rows, and comes back without writing more.
sub expired
{
	my ($n) = @_;
	clock_advance($node, '10 s');
	return $node->poll_query_until('postgres', "SELECT count(*) = $n FROM quota.ledger_expired");
}

sub healthy
{
	my ($what) = @_;
	return is(psql_value($node, 'SELECT * FROM quota_audit()'), '', "$what: the audit finds nothing");
}

# ---- a worker that can't write, and is killed ----

grant('t1', 50, '2026-05-10 13:00:00+00');
my $hold = psql_value($node, q{SELECT permit FROM quota_hold('t1', 'p', 'credit', 70, '10 hours')});
psql_value($node, q{SELECT quota_settle(permit) FROM quota_hold('t1', 'p', 'credit', 5)});
is(balance('t1'), '25|70|75|0', 'a hold draws on a grant that expires, and on the allowance');
grant('t2', 50, '2026-05-10 13:00:00+00');
psql_value($node, q{SELECT quota_settle(permit) FROM quota_hold('t2', 'p', 'credit', 20)});
grant('t2', 8, '2026-05-10 20:00:00+00');
is(balance('t2'), '-38|0|138|30', 'of another nothing else is used');

my $lock = session($node);
$lock->query('BEGIN; LOCK TABLE quota.ledger_expired IN EXCLUSIVE MODE');
clock_set($node, '2026-05-10 13:00:00+00');
is(balance('t1'), '25|70|75|0', 'what is held when it expires stays good');
is(balance('t2'), '-8|0|108|8', 'what is not used is gone, with no row about it');
is(psql_value($node, q{SELECT quota_release(permit) FROM quota_hold('t2', 'p', 'credit', 3)}), '',
	'nobody waits for the worker');
my $worker = q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'quota worker'
	AND wait_event_type = 'Lock' LIMIT 1};
# it gives up after a while, and comes again
wait_until(
	'a worker that waits for the table is killed',
	sub {
		clock_advance($node, '10 s');
		for (1 .. 20)
		{
			my $pid = psql_value($node, $worker);
			return 1 if $pid ne '' && eval { crash_backend($node, $pid); 1 };
			select undef, undef, undef, 0.05;
		}
		return 0;
	});
$lock->kill_client;
clock_set($node, '2026-05-10 14:00:00+00');
is(balance('t2'), '-8|0|108|8', 'after kill -9 of the worker it is gone as well');
is(balance('t1'), '25|70|75|0', 'and what was held is');
ok(expired(2), 'the next worker writes it');
is(psql_value($node, $rows), 't1 50 0, t2 50 30', 'of each grant what was left');
crash($node);
clock_set($node, '2026-05-10 15:00:00+00');
clock_advance($node, '10 s');
psql_value($node, q{SELECT quota_settle(permit) FROM quota_hold('t3', 'p', 'credit', 1)});
folded($node);
is(psql_value($node, $rows), 't1 50 0, t2 50 30', 'once, whatever crashes');
healthy('after crashes');

# ---- settling and refunding what was held before the crash ----

psql_value($node, "SELECT quota_settle($hold, units => '{\"credit\": 30}')");
is(balance('t1'), '0|0|100|0', 'of what returns, the part that was of the grant is gone');
psql_value($node, "SELECT quota_refund($hold, 30)");
is(balance('t1'), '0|0|100|0', 'all of what is refunded is');
healthy('settled and refunded');

# ---- the clock is set back over a restart ----

clock_set($node, '2026-05-10 20:00:00+00');
is(balance('t2'), '0|0|100|0', 'the second one of t2 has expired');
$lock = session($node);
$lock->query('BEGIN; LOCK TABLE quota.ledger_expired IN EXCLUSIVE MODE');
$lock->kill_client;
$node->restart;
clock_set($node, '2026-05-10 19:00:00+00');
is(balance('t2'), '0|0|100|0', 'what was seen to expire does not come back after a restart');
psql_value($node, q{SELECT quota_settle(permit) FROM quota_hold('t2', 'p', 'credit', 20)});
crash($node);
clock_set($node, '2026-05-10 19:00:00+00');
is(balance('t2'), '20|0|80|0', 'nor after a crash, if anything was used since');
clock_set($node, '2026-05-10 20:00:00+00');
ok(expired(3), 'its row is written');
crash($node);
clock_set($node, '2026-05-10 19:00:00+00');
is(balance('t2'), '20|0|80|0', 'or if there is a row');
clock_set($node, '2026-05-10 21:00:00+00');
healthy('clock set back');

# ---- a clean restart with a hold that stays open, before it expires ----

grant('t3', 50, '2026-05-10 22:00:00+00');
$hold = psql_value($node, q{SELECT permit FROM quota_hold('t3', 'p', 'credit', 30, '10 hours')});
is(balance('t3'), '-19|30|119|20', 'before the restart');
my @open = map {
	grant($_, 10, '2026-05-30 00:00:00+00');
	psql_value($node, qq{SELECT permit FROM quota_acquire('$_', 'p', n => 2, units => '{"credit": 3}')})
} qw(t6 t7);
$node->restart;
clock_set($node, '2026-05-10 21:00:00+00');
is(balance('t3'), '-19|30|119|20', 'and after it');
psql_value($node, "SELECT quota_settle($hold, billed => false)");
is(balance('t3'), '-49|0|149|50', 'a hold that was open then returns to its grant');
my $settles = session($node);
$settles->query("BEGIN; SELECT quota_settle($open[0], billed => false); SELECT quota_release($open[1], 1)");
is(balance($_), '-4|6|104|4', "$_: who settles first after a restart is in nobody's way") for qw(t6 t7);
$settles->query('COMMIT');
is(balance('t6'), '-10|0|110|10', 'at commit it returns');
is(balance('t7'), '-7|3|107|7', 'and so do calls that were given back');
healthy('restarted');

# ---- an old transaction delays the row, and nothing else ----

my $old = session($node);
$old->query(q{BEGIN; SELECT quota_hold('t3', 'p', 'credit', 10, '10 hours')});
clock_set($node, '2026-05-10 22:00:00+00');
is(balance('t3'), '1|10|99|0', 'what an open transaction holds is good when the grant expires');
clock_advance($node, '10 s');
psql_value($node, q{SELECT quota_settle(permit) FROM quota_hold('t4', 'p', 'credit', 1)});
clock_advance($node, '10 s');
is(psql_value($node, q{SELECT count(*) FROM quota.ledger_expired}), '3', 'there is no row as long as it is open');
$old->query('ROLLBACK');
is(balance('t3'), '1|0|99|0', 'rolled back it is gone');
ok(expired(4), 'then there is one');
is(psql_value($node, $rows), 't1 50 0, t2 50 30, t2 8 8, t3 50 50', 'with all of it');
healthy('an old transaction');

# ---- standby and promotion ----

$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;
grant('t5', 40, '2026-05-11 00:00:00+00');
psql_value($node, q{SELECT quota_settle(permit) FROM quota_hold('t5', 'p', 'credit', 15)});
$node->wait_for_catchup($standby);
is(psql_value($standby, q{SELECT g.amount - g.unspent FROM quota.ledger l, quota.account_grants(l.account, '2026-05-01', '2026-06-01', NULL) g
	WHERE l.id = g.entry AND tenant = 't5'}), '15', 'a standby knows what was spent of it');
is(psql_value($standby, q{SELECT string_agg(kind || ' ' || amount, ', ' ORDER BY seq) FROM quota.statement WHERE tenant = 't3' AND kind = 'expired'}),
	'expired -50', 'and has a statement');
my ($code, $out, $err) = $standby->psql('postgres', q{SELECT quota_grant('t5', 'p', 'credits', 1, expires_at => '2026-05-12')});
like($err, qr/cannot execute quota_grant/, 'and grants nothing');
$node->stop('immediate');
$standby->promote;
clock_set($standby, '2026-05-10 23:00:00+00');
is(balance('t5', $standby), '-25|0|125|25', 'promoted it goes on where the primary was');
is(balance('t2', $standby), '20|0|80|0', 'and what was gone is');
clock_set($standby, '2026-05-11 00:00:00+00');
is(balance('t5', $standby), '0|0|100|0', 'at its instant it expires there');
is(psql_value($standby, 'SELECT * FROM quota_audit()'), '', 'the audit finds nothing');
$standby->stop;
done_testing();
