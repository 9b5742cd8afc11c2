# Copyright (c) 2026, the quota authors

# Shares of direct calls in many sessions: who waits in quota_acquire_wait() has its
# share beside those that ask again and again, for as long as it waits and no longer;
# nothing is admitted that the limit does not hold; what a restart leaves.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;

my $node = new_node('main', 'max_connections' => 60, 'restart_after_crash' => 'on');

clock_set($node, '2030-01-01 00:00:00+00');
$node->safe_psql(
	'postgres', q{
	INSERT INTO quota.tiers (tier) VALUES ('t');
	INSERT INTO quota.tenants (tenant, tier) SELECT x, 't' FROM unnest('{a,b,c,d}'::text[]) x;
	INSERT INTO quota.tenants (tenant, tier, weight) VALUES ('one', 't', 1), ('two', 't', 2), ('three', 't', 3);
	INSERT INTO quota.providers (provider, safety) SELECT x, 1 FROM unnest('{ten,single,flight,split,kept}'::text[]) x;
	INSERT INTO quota.limits (provider, name, kind, amount, period, burst) VALUES
		('ten', 'calls', 'token_bucket', 60, '1 minute', 10),
		('single', 'calls', 'token_bucket', 60, '1 minute', 1),
		('split', 'calls', 'token_bucket', 200, '1 s', 40),
		('flight', 'calls', 'concurrency', 3, NULL, NULL),
		('kept', 'calls', 'concurrency', 4, NULL, NULL);
});

my $main = session($node);

# the answer to a call: its reason; "what" of it instead
sub ask
{
	my ($tenant, $provider, $what) = @_;
	return $main->query('SELECT ' . ($what // 'reason') . " FROM quota_acquire('$tenant', '$provider')");
}

# a session that waits for n calls; it is asleep when we return
sub waiter
{
	my ($tenant, $provider, $n) = @_;
	my $s = session($node);
	$s->query_async("CALL quota_acquire_wait('$tenant', '$provider', n => " . ($n // 1) . ", timeout => '1 hour')");
	wait_event($s, 'Extension');
	return $s;
}

# which of the sessions have their answer, once so many have and the others sleep
sub done
{
	my ($n, @sessions) = @_;
	my $pids = join(',', map { $_->pid } @sessions);
	my $asleep = @sessions - $n;
	$node->poll_query_until('postgres', "SELECT count(*) = $asleep FROM pg_stat_activity
		WHERE pid IN ($pids) AND state = 'active' AND wait_event_type = 'Extension'")
	  or die "not $n have returned";
	# who is woken in vain has had its chance by now
	psql_value($node, 'SELECT 1') for 1 .. 5;
	return join(',', grep { !$sessions[$_]->is_busy } 0 .. $#sessions);
}

# the permit of an answer, which must be yes
sub permit
{
	my ($session) = @_;
	my $answer = $session->wait;
	$answer =~ /^\(t,\d+,ok,,,\d*,(\d*),\)$/ or die "not admitted: $answer";
	return $1;
}

# ---- a rate: others leave it what it waits for ----

$main->query("SELECT quota_acquire('a', 'ten', n => 10)");
my @w = (waiter('b', 'ten', 2));
foreach my $second (1 .. 2)
{
	clock_advance($node, '1 s');
	is(ask('a', 'ten'), 'share_exceeded', "second $second: others leave it what it waits for");
}
is(done(0, @w), '', 'which it does not have yet');
clock_advance($node, '1 s');
is(done(1, @w), '0', 'then it has it');

# ---- a limit that holds one call acts in time ----

my %got = (a => 0, b => 0, c => 0);
$main->query("SELECT quota_acquire('a', 'single')");
@w = (waiter('b', 'single'));
foreach my $second (1 .. 12)
{
	clock_advance($node, '1 s');
	for my $tenant ('a', 'c')
	{
		for (1 .. 3) { $got{$tenant}++ if ask($tenant, 'single') eq 'ok'; }
	}
	next if $w[0]->is_busy;
	permit($w[0]);
	$got{b}++;
	$w[0]->query_async("CALL quota_acquire_wait('b', 'single', timeout => '1 hour')");
	wait_event($w[0], 'Extension');
}
ok($got{$_} >= 3 && $got{$_} <= 5, "of 12 calls $_ had $got{$_}") foreach sort keys %got;

# ---- the end of a claim ----

sub wants_b
{
	return $main->query("SELECT wants FROM quota.stat_shares WHERE provider = 'single' AND tenant = 'b'");
}

foreach my $signal ('INT', 'TERM')
{
	my $what = $signal eq 'INT' ? 'cancelled' : 'terminated';

	@w = (waiter('b', 'single')) if $signal eq 'TERM';
	is(wants_b(), 't', 'who waits claims the next call');
	clock_advance($node, '2 min');
	done(1, @w);
	clock_advance($node, '500 ms');
	$w[0]->wait;
	@w = (waiter('b', 'single'));
	clock_advance($node, '499999 us');
	is(ask('a', 'single'), 'rate_limited', 'there is none yet');
	$w[0]->kill_backend($signal);
	$w[0]->_finish if $signal eq 'INT';
	wait_gone($node, $w[0]->pid) if $signal eq 'TERM';
	isnt(wants_b(), 't', "$what: it claims nothing any more");
	clock_advance($node, '1 us');
	is(ask('a', 'single'), 'ok', 'and others have that call');
}

# its time is over: a refusal like any other, which is heeded for the next refill
is(ask('a', 'single'), 'rate_limited', 'none is left');
like($main->query("CALL quota_acquire_wait('d', 'single', timeout => '1 ms')"), qr/^\(f,0,rate_limited/, 'timed out');
clock_advance($node, '1 s');
is(ask('a', 'single'), 'share_exceeded', 'so others leave it the next call');
is(ask('d', 'single'), 'ok', 'if it asks then');

# ---- calls in flight: a release serves who has least by weight ----

my @p = map { ask('a', 'flight', 'permit') } 1 .. 3;
@w = (waiter('b', 'flight'), waiter('b', 'flight'), waiter('c', 'flight'));
is(ask('a', 'flight'), 'concurrency_limited', 'a has all');
$main->query("SELECT quota_settle($p[0])");
is(done(1, @w), '0', 'one returns: to b, who came first');
is(ask('a', 'flight'), 'concurrency_limited', 'none is free');
$main->query("SELECT quota_settle($p[1])");
is(done(2, @w), '0,2', 'the next: to c, who has none, though another call of b came before');
$main->query("SELECT quota_settle($p[2])");
is(done(2, @w), '0,2', 'the last: a was refused, too, and has none now');
clock_advance($node, '1 s');
is(done(3, @w), '0,1,2', 'as it does not come, who waits has more than its share');
my @q = map { permit($_) } @w;
$main->query("SELECT quota_settle($_)") foreach @q;

# beside one that asks again and again
@p = map { ask('a', 'flight', 'permit') } 1 .. 3;
@w = (waiter('b', 'flight'));
clock_advance($node, '30 s');
$main->query("SELECT quota_settle($p[0])");
isnt(ask('a', 'flight'), 'ok', 'a place that one waits for is not taken away');
is(done(1, @w), '0', 'who waits has it, however long that was');
@w = (waiter('b', 'flight'), waiter('c', 'flight'));
$w[0]->kill_backend('TERM');
wait_gone($node, $w[0]->pid);
$main->query("SELECT quota_settle($p[1])");
is(done(1, $w[1]), '0', 'one that was terminated is passed by');

# ---- kill -9, restarts: shares begin anew, flights from before are nobody's ----

my @kept = map { ask('a', 'kept', 'permit') } 1 .. 4;
$node->restart;
$main = session($node);
is($main->query("SELECT count(*) FROM quota.stat_shares"), '0', 'a restart forgets shares');
is(ask('b', 'kept'), 'concurrency_limited', 'but not calls in flight');
$main->query("SELECT quota_settle($kept[0])");
is(ask('a', 'kept'), 'ok', 'which are in no share: a has as little as b');
$main->query("SELECT quota_settle($kept[1])");
is(ask('b', 'kept'), 'ok', 'and b');
is($main->query("SELECT string_agg(tenant || in_flight, ' ' ORDER BY tenant) FROM quota.stat_shares WHERE provider = 'kept'"),
	'a1 b1', 'what was in flight before is in no share');
$main->query("SELECT quota_settle($_)") foreach @kept[2, 3];
is($main->query("SELECT string_agg(tenant || in_flight, ' ' ORDER BY tenant) FROM quota.stat_shares WHERE provider = 'kept'"),
	'a1 b1', 'nor taken off any when it ends');

$main->query("SELECT quota_acquire('a', 'single')");
@w = (waiter('b', 'single'));
crash_backend($node, $w[0]->pid);
$main = session($node);
is($main->query("SELECT count(*) FROM quota.stat_shares"), '0', 'kill -9 of who claims: nothing is claimed');
clock_advance($node, '2 min');
is(ask('a', 'single'), 'ok', 'and others go on');

# ---- many sessions at once, some of which wait: no more than there is, by weight ----

# Each asks at least once between two steps of the clock; who waits is woken by it.
$main->query(q{
	CREATE TABLE calls (tenant text, n bigint, everything bigint);
	CREATE SEQUENCE asked_1; CREATE SEQUENCE asked_2; CREATE SEQUENCE asked_3;
	CREATE FUNCTION is_over() RETURNS boolean LANGUAGE sql AS $$ SELECT quota_clock() >= '2031-01-01 00:00:04+00' $$;
	-- the first second, in which they come, does not count in what each gets
	CREATE FUNCTION counts() RETURNS int LANGUAGE sql AS $$
		SELECT (NOT is_over() AND quota_clock() >= '2031-01-01 00:00:01+00')::int $$;
	CREATE PROCEDURE hammer(who text, counter regclass) LANGUAGE plpgsql AS $$
	DECLARE
		got bigint = 0;
		everything bigint = 0;
		granted int;
	BEGIN
		WHILE NOT is_over() LOOP
			FOR i IN 1 .. 4 LOOP
				granted = (quota_acquire(who, 'split')).granted;
				got = got + granted * counts();
				everything = everything + granted;
			END LOOP;
			COMMIT;
			PERFORM nextval(counter);
		END LOOP;
		INSERT INTO calls VALUES (who, got, everything);
	END $$;
	CREATE PROCEDURE patient(who text) LANGUAGE plpgsql AS $$
	DECLARE
		got bigint = 0;
		everything bigint = 0;
		d quota_decision;
	BEGIN
		WHILE NOT is_over() LOOP
			CALL quota_acquire_wait(who, 'split', timeout => '1 hour', decision => d);
			got = got + d.granted * counts();
			everything = everything + d.granted;
		END LOOP;
		INSERT INTO calls VALUES (who, got, everything);
	END $$;
	CREATE PROCEDURE tick(step interval) LANGUAGE plpgsql AS $$
	DECLARE
		seen bigint[] = ARRAY[0, 0, 0];
		now bigint[];
	BEGIN
		WHILE NOT is_over() LOOP
			PERFORM quota_clock_advance(step);
			SELECT array_agg(coalesce(pg_sequence_last_value(('asked_' || i)::regclass), 0) ORDER BY i)
				INTO seen FROM generate_series(1, 3) i;
			LOOP
				SELECT array_agg(coalesce(pg_sequence_last_value(('asked_' || i)::regclass), 0) ORDER BY i)
					INTO now FROM generate_series(1, 3) i;
				EXIT WHEN is_over() OR
					(now[1] > seen[1] + 1 AND now[2] > seen[2] + 1 AND now[3] > seen[3] + 1);
				PERFORM pg_sleep(0.0005);
			END LOOP;
			COMMIT;
		END LOOP;
	END $$});
clock_set($node, '2031-01-01 00:00:00+00');
my @s = map { session($node) } 1 .. 6;
$s[$_]->query_async("CALL hammer('" . (qw(one one two))[$_] . "', 'asked_" . ($_ + 1) . "')") for 0 .. 2;
$s[$_]->query_async("CALL patient('three')") for 3 .. 5;
$main->query("CALL tick('10 ms')");
# who waits still is served by what refills
while (grep { $_->is_busy } @s)
{
	clock_advance($node, '100 ms');
}
$_->wait foreach @s;
my %n = map { split /\|/ } split /\n/, $main->query('SELECT tenant, sum(n) FROM calls GROUP BY 1');
my ($all, $everything) = split /\|/, $main->query('SELECT sum(n), sum(everything) FROM calls');
my $possible = $main->query("SELECT 40 + floor(200 * extract(epoch FROM quota_clock() - '2031-01-01 00:00:00+00'))");
ok($everything <= $possible, "of $possible calls $everything were admitted, no more");
ok($all >= 3 * 200 * 0.95, "nothing is left unused: $all in three seconds");
ok(abs($n{$_->[0]} - $all * $_->[1] / 6) <= $all * $_->[1] / 6 * 0.05 + 3, "$_->[0]: $n{$_->[0]}, by its weight")
  foreach ['one', 1], ['two', 2], ['three', 3];

$_->quit foreach @s;
is(psql_value($node, 'SELECT count(*) FROM quota_audit()'), '0', 'the audit is empty');
$node->stop;
done_testing();
