# Copyright (c) 2026, the quota authors

# A wall clock that goes forward and back closes periods early.  Whatever is charged in
# one after all, its row has that once the transaction has committed and is folded: by
# transactions that were open then, and by those that began later.  What the worker does
# is done again when its transaction fails and the server crashes.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;
use QuotaTest::Ledger;

my $node = new_node('main', 'restart_after_crash' => 'on');
sub value { return psql_value($node, $_[0]) }

ledger_setup($node, 'u' .. 'z');

sub rows
{
	my ($tenant) = @_;
	return value(qq{SELECT string_agg(to_char(period_start, 'Mon ') || posted || ' ' || held || ' ' || given, ', ' ORDER BY period_start)
		FROM quota.ledger_periods WHERE tenant = '$tenant'});
}

# The worker has come to that; now and then another process has a transaction open.
sub comes_to
{
	my ($tenant, $expected, $name) = @_;
	wait_until($name, sub { clock_advance($node, '10 s'); rows($tenant) eq $expected });
	return is(rows($tenant), $expected, $name);
}

my $versions = q{SELECT string_agg(tenant || xmin || ctid, ' ' ORDER BY tenant, period_start) FROM quota.ledger_periods};
my $audit = 'SELECT * FROM quota_audit()';

# ---- transactions that are open while a period is closed ----

clock_set($node, '2026-09-10 00:00:00+00');
$node->safe_psql('postgres', q{CALL spend('u', 1)});
ok(worked($node) && folded($node) && worked($node), 'the worker has seen September');

clock_set($node, '2026-06-15 00:00:00+00');
value(q{SELECT count(*) FROM unnest('{v,w,x}'::text[]) t, quota_balance(t, 'p')});
my $hold_up = session($node);
$hold_up->query('BEGIN; LOCK quota.ledger_folds IN SHARE MODE');
$node->safe_psql('postgres', q{CALL spend('x', 1)});
clock_set($node, '2026-07-31 23:59:59+00');
$node->safe_psql('postgres', q{CALL spend('v', 2); CALL spend('w', 70)});
my $session = session($node);
my $undo = session($node);
$session->query(q{BEGIN; SELECT quota_hold('w', 'p', 'credit', 10, '300 days'), quota_hold('x', 'p', 'credit', 20, '300 days');
	SAVEPOINT a; SELECT quota_hold('w', 'p', 'credit', 5), quota_hold('v', 'p', 'credit', 5); ROLLBACK TO a});
$undo->query(q{BEGIN; SELECT quota_hold('v', 'p', 'credit', 40), quota_hold('w', 'p', 'credit', 40)});
clock_set($node, '2026-08-01 00:00:00+00');
$node->safe_psql('postgres', q{CALL spend('w', 1); CALL spend('x', 1)});
clock_set($node, '2026-09-01 00:00:00+00');
$hold_up->query('COMMIT');
comes_to('v', 'Jul 20 0 0', 'the worker runs in September, July is closed');
is(rows('w'), 'Jul 700 0 0, Aug 0 0 0', 'and August, up to a transaction that is open');
is(rows('x'), 'Jun 10 0 0, Aug 0 0 0', 'though July has nothing else');
is(value($audit), '', 'the audit finds nothing');
my $before = value($versions);
$undo->query('ROLLBACK');
ok(worked($node), 'a transaction has rolled back');
is(value($versions), $before, 'no row is written');
$session->query('COMMIT');
is(value($audit), '', 'the audit finds nothing once the other has committed');
comes_to('w', 'Jul 700 10 0, Aug 10 0 0', 'when that is folded the rows have it, less what a savepoint undid');
is(rows('x'), 'Jun 10 0 0, Jul 0 20 0, Aug 10 0 0', 'there is one where there was none');
is(rows('v'), 'Jul 20 0 0', 'that of others is as it was');
is(value($audit), '', 'the audit finds nothing');
$before = value($versions);
ok(worked($node) && folded($node) && worked($node), 'the worker runs again');
is(value($versions), $before, 'and writes no row twice');
value(q{SELECT quota_settle(permit, units => '{"credit": 4}') FROM quota.holds WHERE tenant = 'w'});
ok(worked($node) && folded($node) && worked($node), 'a hold is settled');
is(rows('w'), 'Jul 700 10 0, Aug 10 0 0', 'the row of its period says that it was open');
is(value(q{SELECT spent || ' ' || held || ' ' || closing FROM quota.statement_periods WHERE tenant = 'w' AND period_start = '2026-07-01'}),
	'704 0 99296', 'its statement what became of it');

# ---- those that begin when it is closed ----

$node->safe_psql('postgres', q{CALL spend('y', 1)});
clock_set($node, '2026-10-02 00:00:00+00');
comes_to('y', 'Sep 10 0 0', 'September is closed');
clock_set($node, '2026-09-05 00:00:00+00');
$node->safe_psql('postgres', q{CALL spend('y', 2); SELECT quota_grant('y', 'p', 'credits', 500), quota_adjust('y', 'p', 'credits', 7)});
ok(folded($node), 'it goes on');
clock_set($node, '2026-10-03 00:00:00+00');
comes_to('y', 'Sep -463 0 493', 'its row has all of it');
is(value($audit), '', 'the audit finds nothing');

# ---- what the worker did is rolled back, and the server crashes ----

$hold_up->query('BEGIN; LOCK quota.ledger_accounts IN ACCESS EXCLUSIVE MODE');
clock_set($node, '2026-09-06 00:00:00+00');
my $log = -s $node->logfile;
$node->safe_psql('postgres', q{CALL spend('y', 3)});
wait_until('a failure', sub { clock_advance($node, '10 s'); slurp_file($node->logfile, $log) =~ /due to lock timeout/ });
is(rows('y'), 'Sep -463 0 493', 'what the worker did is rolled back');
crash($node);
clock_set($node, '2026-10-04 00:00:00+00');
is(value(q{SELECT used FROM quota_balance('v', 'p')}), '0', 'the extension is used');
comes_to('y', 'Sep -433 0 493', 'it is done again, once');
is(value($audit), '', 'the audit finds nothing');

# ---- an account fails ----

$node->safe_psql(
	'postgres', q{
	CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'made to fail'; END$$;
	CREATE TRIGGER fail AFTER UPDATE ON quota.ledger_periods FOR EACH ROW EXECUTE FUNCTION fail();
	ALTER TABLE quota.ledger_periods ENABLE ALWAYS TRIGGER fail});
clock_set($node, '2026-09-07 00:00:00+00');
$log = -s $node->logfile;
$node->safe_psql('postgres', q{CALL spend('y', 1)});
wait_until('a failure', sub { clock_advance($node, '10 s'); slurp_file($node->logfile, $log) =~ /WARNING:  could not fold/ });
is(rows('y'), 'Sep -433 0 493', 'its row is as it was');
value('DROP TRIGGER fail ON quota.ledger_periods');
clock_set($node, '2026-10-05 00:00:00+00');
$node->safe_psql('postgres', q{CALL spend('y', 1)});
comes_to('y', 'Sep -423 0 493', 'it is tried again with the next entries');
is(value($audit), '', 'the audit finds nothing');

$node->stop;
done_testing();
