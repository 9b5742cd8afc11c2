
# Copyright (c) 2026, the quota authors

# Scenario 16: a hold that has expired counts as returned, or spent, by the clock alone:
# no background worker runs.  Between settling and taking what has returned exactly one
# wins.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;

my $node = new_node('expiry', 'restart_after_crash' => 'on');
my $launcher;

# No worker is started any more; one that is at work ends first.
sub stop_workers
{
	$launcher = psql_value($node, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'quota launcher'");
	kill 'STOP', $launcher or die "could not stop the launcher: $!";
	wait_idle($node);
	return;
}

sub start_workers { kill 'CONT', $launcher; return }

my $start = '2030-01-01 00:00:00+00';
clock_set($node, $start);
$node->safe_psql('postgres', q{
	INSERT INTO quota.tiers (tier) VALUES ('t');
	INSERT INTO quota.tenants (tenant, tier) VALUES ('a', 't'), ('b', 't');
	INSERT INTO quota.providers (provider, lost_permit) VALUES ('returns', 'refund'), ('spends', 'charge');
	INSERT INTO quota.limits (provider, name, per, unit, kind, amount, period, external) SELECT
		p, 'credits', '{tenant}', 'credit', 'allowance', 100, '1 day', false FROM unnest('{returns,spends}'::text[]) p;
	INSERT INTO quota.limits (provider, name, unit, kind, amount, period) VALUES
		(NULL, 'everywhere', 'credit', 'allowance', 1000, '1 day');
});
stop_workers();
my ($s, $other) = (session($node), session($node));

sub hold
{
	my ($session, $provider, $amount, $lifetime) = @_;
	return $session->query("SELECT permit FROM quota_hold('a', '$provider', 'credit', $amount, '$lifetime')");
}

# remaining and held of the tenant's own, used of the one for all
sub balance
{
	my ($provider) = @_;
	return $s->query("SELECT string_agg(concat_ws(' ', remaining, held), ', ' ORDER BY limit_name) FROM quota_balance('a', '$provider')");
}

sub settle
{
	my ($session, $permit, $credits) = @_;
	$session->fails("SELECT quota_settle($permit, units => '{\"credit\": $credits}')");
	my $error = $session->notices =~ /ERROR:  (.*)/ ? $1 : '';
	$error =~ s/\d{5,}/N/;
	return $error;
}

sub entries { return $s->query("SELECT string_agg(kind || ' ' || amount, ', ' ORDER BY id) FROM quota.ledger WHERE permit = $_[0] AND limit_name = 'credits'") }

# ---- 60 s: at 59.999 it can be settled, at 60 it is over ----

my $p = hold($s, 'returns', 80, '60 s');
my $q = hold($s, 'returns', 10, '60 s');
clock_advance($node, '59.999 s');
is(balance('returns'), '10 90, 910 90', 'open holds are held');
is(settle($s, $q, 4), '', 'at 59.999 s a hold can be settled');
is($s->query("SELECT reason FROM quota_hold('a', 'returns', 'credit', 17)"), 'quota_exhausted', 'and what is held is refused to others');
clock_advance($node, '1 ms');
is(balance('returns'), '96 0, 996 0', 'at 60 s the balance includes what was held');
is(settle($s, $p, 80), 'permit N has expired', 'and the hold cannot be settled');
like($s->notices, qr/Its credits have returned/, 'as it has returned');
is(entries($p), 'hold 80', 'nobody has written that');
my $all = hold($s, 'returns', 96, '1 h');
isnt($all, '', 'it can be held again at once, to the last credit');
is($s->query("SELECT reason FROM quota_hold('a', 'returns', 'credit', 1)"), 'quota_exhausted', 'and no more');

$p = hold($s, 'spends', 80, '60 s');
clock_advance($node, '60 s');
is(balance('spends'), '20 0, 820 96', 'where a lost call is charged it stays spent');
is(settle($s, $p, 1), 'permit N has expired', 'and cannot be settled either');
like($s->notices, qr/Its credits stay spent/, 'as it says');
$s->fails("SELECT quota_release($p)");
like($s->notices, qr/has expired/, 'nor released');
is($s->query("SELECT quota_refund($p, 5)"), '', 'but refunded');
is(entries($p), 'hold 80, expire 0, refund -5', 'which writes it off first');

# ---- a refusal reads what has expired; what is asked without need of it does not ----

clock_advance($node, '1 day');
$p = hold($s, 'returns', 60, '60 s');
my $p2 = hold($s, 'returns', 30, '90 s');
$s->query("SELECT quota_extend($p, '60 s')");
clock_advance($node, '30 s');
$s->query("SELECT quota_extend($p, '60 s')");
clock_advance($node, '59.999999 s');
is($s->query("SELECT reason FROM quota_hold('a', 'returns', 'credit', 11)"), 'quota_exhausted', 'an extended hold is held');
is($s->query("SELECT round(extract(epoch FROM not_before - quota_clock()) * 1000000) FROM quota_peek('a', 'returns', units => '{\"credit\": 11}')"),
	'1', 'until a microsecond later, as it says');
clock_advance($node, '1 us');
isnt(hold($s, 'returns', 100, '60 s'), '', 'then both return');

# ---- exactly one wins: settling in an open transaction, and the end meanwhile ----

clock_advance($node, '1 day');
foreach my $end ('COMMIT', 'ROLLBACK')
{
	$p = hold($s, 'returns', 70, '60 s');
	clock_advance($node, '59 s');
	$other->query('BEGIN');
	is(settle($other, $p, 70), '', 'a session settles in time,');
	clock_advance($node, '2 s');
	is($s->query("SELECT reason FROM quota_hold('a', 'returns', 'credit', 50)"), 'quota_exhausted', 'so another one is refused, though the time is over,');
	$other->query($end);
	my $got = hold($s, 'returns', 50, '1 s');
	is($got ne '' ? 'it returns' : 'it is spent', $end eq 'COMMIT' ? 'it is spent' : 'it returns', "and after its $end:");
	clock_advance($node, '1 day');
}

# ---- the same by the rows, when nothing is in memory: evicted, restarted, crashed ----

$p = hold($s, 'returns', 70, '60 s');
$q = hold($s, 'returns', 20, '1 h');
$_->quit for $s, $other;
start_workers();
my $now = psql_value($node, 'SELECT quota_clock()');
crash($node);
clock_set($node, $now);
stop_workers();
($s, $other) = (session($node), session($node));
is(balance('returns'), '10 90, 910 90', 'after a crash both are held still');
is($s->query("SELECT reason FROM quota_hold('a', 'returns', 'credit', 11)"), 'quota_exhausted', 'and refused to others');
clock_advance($node, '61 s');
is(settle($s, $p, 70), 'permit N has expired', 'the one that has expired');
isnt(hold($s, 'returns', 80, '30 min'), '', 'has returned,');
is($s->query("SELECT reason FROM quota_hold('a', 'returns', 'credit', 1)"), 'quota_exhausted', 'no more');
is(settle($s, $q, 15), '', 'and the other one can be settled');
is(balance('returns'), '5 80, 905 80', 'exactly');
is($s->query("SELECT string_agg(a::text, ', ') FROM quota_audit() a"), '', 'the audit finds nothing');
start_workers();
wait_until('the worker', sub { clock_advance($node, '11 s'); $s->query("SELECT count(*) FROM quota.holds WHERE permit = $p") eq '0' });
is(balance('returns'), '5 80, 905 80', 'the worker writes it, and that changes nothing');
is(entries($p), 'hold 70, expire -70', 'in the rows');
is($s->query("SELECT string_agg(a::text, ', ') FROM quota_audit() a"), '', 'the audit finds nothing');

# ---- races at the edge: settle, or take what returns; workers run too ----

clock_advance($node, '2 days');
my ($settled, $returned, $wrong) = (0, 0, '');
my @takers = map { session($node) } 1 .. 2;
my $settler = session($node);
my $clock = session($node);
foreach my $round (1 .. 60)
{
	$p = hold($s, 'returns', 100, '60 s');
	clock_advance($node, '59.999999 s');
	$settler->query_async("SELECT quota_settle($p)");
	$clock->query_async("SELECT quota_clock_advance('1 us')");
	$_->query_async("SELECT count(permit) FROM generate_series(1, 40) i, quota_hold('a', 'returns', 'credit', 100 + 0 * i, '1 h')") for @takers;
	$_->_finish for $settler, $clock, @takers;
	my $won = $settler->notices =~ /ERROR/ ? 0 : 1;
	my $took = $takers[0]{out} + $takers[1]{out};
	# who asked before the end may have been refused, so that nobody takes it
	$took = 1 if !$won && !$took && hold($s, 'returns', 100, '1 h') ne '';
	$wrong .= "round $round: settled $won, taken $took\n" if $won + $took != 1;
	$won ? $settled++ : $returned++;
	clock_advance($node, '1 day');
}
is($wrong, '', 'of settling and taking exactly one succeeds');
note "settled $settled times, returned $returned times";
is($s->query("SELECT string_agg(a::text, ', ') FROM quota_audit() a"), '', 'the audit finds nothing');

$_->quit for $s, $other, $settler, $clock, @takers;
$node->stop;
done_testing();
