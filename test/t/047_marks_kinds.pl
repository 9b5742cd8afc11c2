# Copyright (c) 2026, the quota authors

# G14, slow limits of every kind: what is there right after a crash, and when the rest
# comes back, to the microsecond.  What passes meanwhile is real time, which is
# measured; by how much a test has moved the clock does not survive a crash.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;
use Time::HiRes qw(time);

my $node = new_node('main', 'restart_after_crash' => 'on');
my ($second, $hour) = (1_000_000, 3_600_000_000);

sub value { return psql_value($node, $_[0]) }

sub acquire
{
	my ($provider, $n, $endpoint) = @_;
	my $at = defined $endpoint ? ", endpoint => '$endpoint'" : '';
	return value("SELECT reason FROM quota_acquire('t', '$provider', n => $n$at)");
}

sub level
{
	my ($provider) = @_;
	return value("SELECT level FROM quota_explain('t', '$provider')");
}

# microseconds until n calls would be admitted
sub opens_in
{
	my ($provider, $n) = @_;
	return value("SELECT (extract(epoch FROM not_before - quota_clock()) * 1000000)::bigint
		FROM quota_peek('t', '$provider', n => $n)");
}

# When a crash began, as the row that counts was written before it.
my $before;

# a crash, after which the clock stands, at a time in the past that is a step of the wall clock
sub crash_now
{
	crash($node);
	clock_set($node, '2020-01-01 06:00:00+00');
	return;
}

# n calls were to be admitted after $was microseconds, and are as much sooner as has passed
sub is_nearer
{
	my ($provider, $n, $was, $what) = @_;
	my $is = opens_in($provider, $n);
	my $passed = (time() - $before) * $second;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok($is <= $was && $is >= $was - $passed, $what)
	  or diag("in $is us, before the crash in $was; $passed have passed");
	return;
}

# n calls are admitted when they should be, and not before; n + 1 are not
sub opens_exactly
{
	my ($provider, $n, $what) = @_;
	my $us = opens_in($provider, $n);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	clock_advance($node, ($us - 1) . ' us');
	is(acquire($provider, $n), 'rate_limited', "$what: not a microsecond earlier");
	clock_advance($node, '1 us');
	is(acquire($provider, $n), 'ok', "$what: but then");
	return;
}

$node->safe_psql('postgres', q{
	INSERT INTO quota.tiers (tier) VALUES ('basic');
	INSERT INTO quota.tenants (tenant, tier) VALUES ('t', 'basic');
	INSERT INTO quota.providers (provider, safety)
		SELECT p, 1 FROM unnest('{fixed,fixed_large,sliding,sliding_large,paced,paced_large,held,plain}'::text[]) p;
	INSERT INTO quota.limits (provider, name, per, kind, amount, period, burst) VALUES
		('fixed', 'fixed', '{tenant}', 'fixed_window', 10, '1 day', NULL),
		('fixed_large', 'fixed', '{tenant}', 'fixed_window', 320, '1 day', NULL),
		('sliding', 'sliding', '{tenant}', 'sliding_window', 10, '1 h', NULL),
		('sliding_large', 'sliding', '{tenant}', 'sliding_window', 320, '1 h', NULL),
		('paced', 'paced', '{tenant}', 'leaky_bucket', 24, '1 day', 1),
		('paced_large', 'paced', '{tenant}', 'leaky_bucket', 64, '1 day', 64),
		('held', 'fixed', '{tenant}', 'fixed_window', 10, '1 day', NULL),
		('held', 'credits', '{tenant}', 'allowance', 100, '1 month', NULL),
		('plain', 'fixed', '{tenant}', 'fixed_window', 10, '1 day', NULL);
	INSERT INTO quota.costs (provider, endpoint, unit, cost) VALUES ('paced', 'dear', 'request', 5)});
# to the past, which only moves the wall clock
clock_set($node, '2020-01-01 06:00:00+00');

# ---- fixed windows ----

$before = time();
is(acquire('fixed', 4), 'ok', 'fixed window: 4 of 10');
is(acquire('fixed_large', 100), 'ok', 'fixed window: 100 of 320');
is(acquire('fixed_large', 5), 'ok', 'and 5 that were logged ahead');
is(opens_in('fixed', 7), 18 * $hour, 'it ends at midnight');
crash_now();
is(level('fixed'), 6, 'fixed window, after the crash: what was left');
is(level('fixed_large'), 320 - 100 - 10, 'of a large one, without the slice that was logged ahead');
is(acquire('fixed', 7), 'rate_limited', 'no more than that');
is_nearer('fixed', 7, 18 * $hour, 'it ends when it would have');
is(acquire('fixed', 6), 'ok', 'but as much');
opens_exactly('fixed', 10, 'the next window is whole');
is(acquire('fixed', 1), 'rate_limited', 'and no larger');
cmp_ok(opens_in('fixed', 1), '>=', 24 * $hour, 'it lasts a day');
cmp_ok(opens_in('fixed', 1), '<=', 48 * $hour, 'or two, as the wall clock was set back');
# whose row was written a moment later
clock_advance($node, '10 s');
is(level('fixed_large'), 320, 'that of the large one too');

# ---- sliding windows ----

is(acquire('sliding', 3), 'ok', 'sliding window: 3 of 10');
is(acquire('sliding_large', 100), 'ok', 'sliding window: 100 of 320');
clock_advance($node, '20 min');
$before = time();
is(acquire('sliding', 4), 'ok', '4 more after 20 minutes');
is(acquire('sliding_large', 50), 'ok', '50 more after 20 minutes');
is(acquire('sliding_large', 5), 'ok', 'and 5 that were logged ahead');
is(opens_in('sliding', 4), 2 / 3 * $hour, 'the first come back 40 minutes later');
crash_now();
is(level('sliding'), 3, 'sliding window, after the crash: what was left');
is(level('sliding_large'), 320 - 150 - 10, 'of a large one, without the slice that was logged ahead');
is_nearer('sliding', 4, 2 / 3 * $hour, 'the first come back when they would have');
is_nearer('sliding_large', 171, 2 / 3 * $hour, 'those of the large one too');
opens_exactly('sliding', 6, 'the first are back');
is(level('sliding'), 0, 'and no others');
is(opens_in('sliding', 4), 1 / 3 * $hour, 'the second come back 20 minutes after those');
opens_exactly('sliding', 4, 'the second are back');
is(level('sliding'), 0, 'and no others');
is(opens_in('sliding', 6), 2 / 3 * $hour, 'what was taken since counts for an hour');
# the slice counts from the restart, soon after the second take
clock_advance($node, '1 min');
is(level('sliding_large'), 320, 'an hour after the crash nothing is lost of the large one');

# ---- leaky buckets ----

$before = time();
is(acquire('paced', 1, 'dear'), 'ok', 'leaky bucket: a call that costs 5 hours');
is(acquire('paced_large', 20), 'ok', 'leaky bucket: 20 of 64');
is(acquire('paced_large', 1), 'ok', 'and one that was logged ahead');
is(opens_in('paced', 1), 5 * $hour, 'the next call may go after 5 hours');
crash_now();
is(level('paced'), -4, 'leaky bucket, after the crash: the debt is known');
is(level('paced_large'), 64 - 20 - 2, 'a large one, without the slice that was logged ahead');
is_nearer('paced', 1, 5 * $hour, 'the next call may go when it might have');
is_nearer('paced_large', 43, 1350 * $second, 'and another one of the large one when it has leaked');
opens_exactly('paced', 1, 'the debt has leaked');
is(opens_in('paced', 1), $hour, 'and calls are paced as ever');
opens_exactly('paced_large', 64, 'all has leaked');

# ---- a lease that is given back after the crash ----

my $held = value(q{SELECT permit FROM quota_acquire('t', 'held', n => 4)});
my $plain = value(q{SELECT permit FROM quota_acquire('t', 'plain', n => 4, units => '{}')});
value("SELECT quota_release($held, 1), quota_release($plain, 1)");
is(value("SELECT level FROM quota_explain('t', 'held') ORDER BY limit_name"), "97\n7", 'three of four calls are out, one was given back');
is(level('plain'), 7, 'without credits, too');
crash_now();
my $credits = q{SELECT used FROM quota_balance('t', 'held')};
my $rates = q{SELECT provider, level FROM quota.providers, quota_explain('t', provider)
	WHERE provider IN ('held', 'plain') AND limit_name = 'fixed' ORDER BY 1};
my $left = value($rates);
like($left, qr/^held\|[67]\nplain\|[67]$/, 'after the crash calls are spent, those given back perhaps, as they were to be told first');
is(value($credits), '3', 'credits are spent for the three');
is(value("SELECT quota_release($held, 1)"), '', 'one of them is given back');
is(value($credits), '2', 'which returns its credits');
like(session($node)->fails("SELECT quota_release($held, 3)"), qr/ERROR:  argument "n" is out of range\nDETAIL:  The value is 3, allowed are 1 to 2/, 'three are not left');
is(value("SELECT quota_release($held)"), '', 'the others are given back');
is(value($credits), '0', 'nothing is spent any more');
like(session($node)->fails("SELECT quota_release($held, 1)"), qr/ERROR:  permit \d+ is not open/, 'there are no more');
like(session($node)->fails("SELECT quota_release($plain, 1)"), qr/ERROR:  permit \d+ is not open/, 'a permit without credits is forgotten');
is(value($rates), $left, 'and units of rates stay spent');
is(value('SELECT * FROM quota_audit()'), '', 'the audit finds nothing');

$node->stop;
done_testing();
