# Copyright (c) 2026, the quota authors

# Folding the ledger, and closing its periods, wait for open transactions, and nobody
# waits for them; what is loaded from folds after a restart or crash is what all
# entries come to.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;
use QuotaTest::Ledger;

my $node = new_node('main', 'restart_after_crash' => 'on');
ledger_setup($node, 't', 'u');

sub balances
{
	return psql_value($node, q{SELECT string_agg(t || ' ' || used || ' ' || held, ', ' ORDER BY t)
		FROM unnest('{t,u}'::text[]) t, quota_balance(t, 'p')});
}

my $folds = q{SELECT count(*), max(entries) FROM quota.ledger_folds};
my $periods = q{SELECT string_agg(tenant || ' ' || period_start::date || ' ' || posted || ' ' || held, ', ' ORDER BY tenant, period_start)
	FROM quota.ledger_periods};

$node->safe_psql('postgres', q{CALL spend('t', 100)});
ok(folded($node), 'a worker folds');
is(psql_value($node, $folds), '1|200', 'all there is');

# ---- an open transaction ----

my $session = session($node);
$session->query(q{BEGIN; SELECT quota_hold('t', 'p', 'credit', 10, '30 days')});
$node->safe_psql('postgres', q{CALL spend('t', 50)});
ok(worked($node), 'the worker runs');
is(psql_value($node, $folds), '1|200', 'nothing is folded while a transaction is open that is older');

clock_set($node, '2026-06-01 00:00:00+00');
$node->safe_psql('postgres', q{CALL spend('u', 1)});
ok(worked($node), 'the worker runs when the month has begun');
is(psql_value($node, $periods), '', 'nor is a period closed in which it took something');
is(balances(), 't 0 0, u 10 0', 'while all others are in the next one');
is(psql_value($node, q{SELECT admitted FROM quota_acquire('t', 'p', units => '{"credit": 100000}')}),
	't', 'and have all of it');
is(psql_value($node, 'SELECT * FROM quota_audit()'), '', 'the audit finds nothing');
$session->query('COMMIT');
ok(worked($node), 'when it has ended');
ok(folded($node), 'entries are folded');
is(psql_value($node, $periods), 't 2026-05-01 1500 10', 'and the period is closed, with its hold');
is(balances(), 't 100000 100000, u 10 0', 'balances are what they were');

# ---- nobody needs the worker ----

$session->query('BEGIN; LOCK TABLE quota.ledger_periods IN EXCLUSIVE MODE');
clock_set($node, '2026-07-01 00:00:00+00');
is(balances(), 't 0 0, u 0 0', 'a period begins without its row');
$node->safe_psql('postgres', q{CALL spend('u', 2)});
is(balances(), 't 0 0, u 20 0', 'and is used');
$session->query('COMMIT');
ok(worked($node), 'once the worker can');
$node->poll_query_until('postgres', 'SELECT count(*) = 3 FROM quota.ledger_periods');
is(psql_value($node, $periods), 't 2026-05-01 1500 10, t 2026-06-01 100000 0, u 2026-06-01 10 0',
	'it closes what is over');

# ---- restart and crash ----

$node->safe_psql('postgres', q{CALL spend('t', 500)});
ok(folded($node), 'folded');
$node->safe_psql('postgres', q{CALL spend('t', 7)});
my $before = balances();
is($before, 't 5070 0, u 20 0', 'a balance of folded and other entries');
my $position = psql_value($node, 'SELECT last_value FROM quota.ledger_folded');
$node->restart;
is(balances(), $before, 'is the same after a restart');
crash($node);
clock_set($node, '2026-07-02 00:00:00+00');
is(balances(), $before, 'and after a crash');
ok(psql_value($node, 'SELECT last_value FROM quota.ledger_folded') >= $position,
	'the worker goes on where it was');
is(psql_value($node, 'SELECT * FROM quota_audit()'), '', 'the audit finds nothing');

# folds are read, and are as good as entries
sub read_of
{
	my ($table) = @_;
	return psql_value($node, "SELECT coalesce(idx_tup_fetch, 0) FROM pg_stat_user_tables WHERE relid = '$table'::regclass");
}
crash($node);
clock_set($node, '2026-07-02 00:00:00+00');
my $had = read_of('quota.ledger');
is(balances(), $before, 'loading again');
my $took = 0;
$node->poll_query_until('postgres', "SELECT idx_tup_fetch > 0 FROM pg_stat_user_tables WHERE relid = 'quota.ledger_folds'::regclass");
$took = read_of('quota.ledger') - $had;
cmp_ok($took, '<', 100, "reads few of 1,300 entries ($took)");

$node->stop;
done_testing();
