# Copyright (c) 2026, the quota authors

# quota_acquire_wait(): who waits is admitted as soon as a limit allows it, in the
# order they came, and is in nobody's way (G10).  Keys: many sessions, one charge.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;

my $node = new_node('main', 'max_connections' => 90);

clock_set($node, '2030-01-01 00:00:00+00');
$node->safe_psql(
	'postgres', q{
	INSERT INTO quota.tiers (tier) VALUES ('basic'), ('better');
	INSERT INTO quota.tenants (tenant, tier) VALUES ('a', 'basic'), ('b', 'basic'), ('c', 'basic');
	INSERT INTO quota.providers (provider, safety)
		SELECT x, 1 FROM unnest('{slots,rate,own,tier,credit,wide1,wide2,two,keys,long,again}'::text[]) x;
	-- in the order they came; 052_shares.pl has those that share
	UPDATE quota.providers SET share_reserve = 0 WHERE provider IN ('slots', 'rate');
	UPDATE quota.providers SET retry_share = 0.5, retry_floor = 1 WHERE provider = 'again';
	INSERT INTO quota.limits (provider, name, per, kind, unit, amount, period, burst)
		VALUES ('rate', 'calls', '{}', 'token_bucket', 'request', 60, '1 minute', 5),
			('credit', 'budget', '{}', 'allowance', 'credit', 10, '1 month', NULL),
			('two', 'calls', '{}', 'token_bucket', 'request', 60, '1 minute', 1);
	INSERT INTO quota.costs (provider, unit, cost) VALUES ('credit', 'credit', 10);
	INSERT INTO quota.limits (provider, name, per, kind, unit, amount)
		VALUES ('slots', 'in flight', '{}', 'concurrency', 'request', 2),
			('own', 'in flight', '{tenant}', 'concurrency', 'request', 1),
			('tier', 'in flight', '{tenant}', 'concurrency', 'request', 1),
			('two', 'in flight', '{}', 'concurrency', 'request', 1),
			('keys', 'in flight', '{}', 'concurrency', 'request', 100),
			(NULL, 'wide', '{resource}', 'concurrency', 'request', 1);
	INSERT INTO quota.tier_limits (tier, provider, name, amount)
		VALUES ('better', 'tier', 'in flight', 3);
	INSERT INTO quota.limits (provider, name, kind, amount, permit_lifetime)
		VALUES ('long', 'in flight', 'concurrency', 10, '10 days');
});

my $main = session($node);

# a session that asks and waits; it is asleep when we return
sub asker
{
	my ($arguments, $timeout) = @_;
	my $s = session($node);
	$s->query_async("CALL quota_acquire_wait($arguments, timeout => '" . ($timeout // '1 hour') . "')");
	wait_event($s, 'Extension') if !defined $timeout;
	return $s;
}

# which of the sessions are done, once so many are; the others sleep
sub done
{
	my ($n, @sessions) = @_;
	my @pids = map { $_->pid } @sessions;
	my $pids = join(',', @pids);
	my $asleep = @sessions - $n;
	$node->poll_query_until('postgres', "SELECT count(*) = $asleep FROM pg_stat_activity
		WHERE pid IN ($pids) AND state = 'active' AND wait_event_type = 'Extension'")
	  or die "not $n have returned";
	# who is woken in vain has had its chance by now
	psql_value($node, 'SELECT 1') for 1 .. 5;
	return join(',', grep { !$sessions[$_]->is_busy } 0 .. $#sessions);
}

# the answer, which must be yes; its permit
sub permit
{
	my ($session) = @_;
	my $answer = $session->wait;
	$answer =~ /^\(t,\d+,ok,,,\d*,(\d*),\)$/ or die "not admitted: $answer";
	return $1;
}

sub take
{
	my ($arguments) = @_;
	my ($admitted, $permit) = split /\|/, $main->query("SELECT admitted, permit FROM quota_acquire($arguments)");
	die 'not admitted' if $admitted ne 't';
	return $permit;
}

# ---- calls in flight ----

my @p = (take("'a', 'slots'"), take("'b', 'slots'"));
my @w = map { asker("'$_', 'slots'") } qw(a b a c c a b a);
my $pids = join(',', map { $_->pid } @w);
is(psql_value($node, "SELECT count(*) FROM pg_stat_activity
		WHERE pid IN ($pids) AND backend_xmin IS NULL AND backend_xid IS NULL"),
	8, 'who waits has no snapshot and no transaction id');
is(psql_value($node, "SELECT count(*) FROM pg_locks WHERE pid IN ($pids) AND locktype <> 'virtualxid'"),
	0, 'and holds no lock');
$main->query("BEGIN; SELECT quota_settle($p[0])");
is(done(0, @w), '', 'what is not committed serves nobody');
$main->query('ROLLBACK');
is(done(0, @w), '', 'nor what is rolled back');
$main->query("SELECT quota_settle($p[0])");
is(done(1, @w), '0', 'a call ends: the first who came is admitted');
my $p0 = permit($w[0]);
is(psql_value($node, "SELECT quota_settle($p0)"), '', 'what it took is committed: others may settle it');
is(done(2, @w), '0,1', 'the next');
$main->query("BEGIN; SELECT quota_settle($p[1]), quota_settle(" . permit($w[1]) . '); COMMIT');
is(done(4, @w), '0,1,2,3', 'two calls end at once: two');
permit($w[$_]) for 2, 3;
clock_advance($node, '59999 ms');
is(done(4, @w), '0,1,2,3', 'no permit ends before its time');
clock_advance($node, '1 ms');
is(done(6, @w), '0,1,2,3,4,5', 'the lifetime of two calls is over: two');
$main->query("UPDATE quota.limits SET amount = 3 WHERE provider = 'slots'");
is(done(7, @w), '0,1,2,3,4,5,6', 'a limit is raised by one: one');
permit($w[$_]) for 4 .. 6;
my $taker = session($node);
clock_advance($node, '60 s');
permit($w[7]);
$taker->query("BEGIN; SELECT quota_acquire('a', 'slots', n => 2)");
my @late = map { asker("'a', 'slots'") } 1 .. 2;
$taker->query('ROLLBACK');
is(done(2, @late), '0,1', 'what rolls back returns at once, to as many as it serves');
permit($_) foreach @late;

# ---- time ----

take("'a', 'rate', n => 5");
@w = map { asker("'$_', 'rate'") } qw(a b c a);
clock_advance($node, '999999 us');
is(done(0, @w), '', 'no token before its time');
clock_advance($node, '1 us');
is(done(1, @w), '0', 'a refill: the first who came');
$w[1]->kill_backend('INT');
$w[1]->_finish;
like($w[1]->{err}, qr/canceling statement/, 'who waits can be cancelled');
clock_advance($node, '1 s');
is(done(2, @w[0, 2, 3]), '0,1', 'the next takes its place');
$w[3]->kill_backend('TERM');
wait_gone($node, $w[3]->pid);
@w = (asker("'a', 'rate', n => 5"), asker("'b', 'rate'"));
clock_advance($node, '4 s');
is(done(0, @w), '', 'a dear call is not overtaken by a cheap one');
clock_advance($node, '1 s');
is(done(1, @w), '0', 'and is admitted when there is enough');
clock_advance($node, '1 s');
is(done(2, @w), '0,1', 'then the cheap one');

# ---- several limits ----

my $two = take("'a', 'two'");
@w = (asker("'b', 'two'"));
clock_advance($node, '1 s');
is(done(0, @w), '', 'one of two limits opens: it waits for the other');
$main->query("SELECT quota_settle($two)");
is(done(1, @w), '0', 'both: it is admitted');
$two = permit($w[0]);
@w = (asker("'b', 'two'"));
$main->query("SELECT quota_settle($two)");
is(done(0, @w), '', 'the other one opens first: it waits for the first');
clock_advance($node, '1 s');
is(done(1, @w), '0', 'both: it is admitted');

my $wide = take("'a', 'wide1', resource => 'r'");
@w = (asker("'b', 'wide2', resource => 'r'"), asker("'c', 'wide1', resource => 'r'"));
$main->query("SELECT quota_settle($wide)");
is(done(1, @w), '0', 'a limit across providers: a call to another one ends');
$main->query('SELECT quota_settle(' . permit($w[0]) . ')');
is(done(2, @w), '0,1', 'and the first one again');

# ---- tenants: one that waits keeps no other away ----

take("'a', 'own'");
@w = (asker("'a', 'own'"), asker("'a', 'own'"));
take("'b', 'own'");
is(done(0, @w), '', 'a limit of its own keeps a tenant alone');
my $own = take("'a', 'tier'");
my @t = (asker("'a', 'tier'"), asker("'a', 'tier'"), asker("'a', 'tier'"));
$main->query("UPDATE quota.tenants SET tier = 'better' WHERE tenant = 'a'");
is(done(2, @t), '0,1', 'a better tier: as many as that allows');
$main->query("SELECT quota_settle($own)");
is(done(3, @t), '0,1,2', 'then the last');

# ---- credits ----

my $credit = take("'a', 'credit'");
@w = (asker("'b', 'credit'"), asker("'c', 'credit'"));
$main->query("SELECT quota_settle($credit, false)");
is(done(1, @w), '0', 'credits of a call that is not billed come back: one is admitted');
$main->query("SELECT quota_grant(NULL, 'credit', 'budget', 10)");
is(done(2, @w), '0,1', 'some are granted: the other');
push @w, asker("'c', 'credit'");
$main->query('SELECT quota_settle(' . permit($w[0]) . ')');
is(done(2, @w), '0,1', 'a call is billed, another one may not be: it waits');
$main->query('SELECT quota_settle(' . permit($w[1]) . ')');
is(done(3, @w), '0,1,2', 'that is billed too: no use in waiting any more');
like($w[2]->wait, qr/^\(f,0,quota_exhausted,budget/, 'as the answer says');
like($main->query("CALL quota_acquire_wait('a', 'credit', n => 2, timeout => '1 hour')"),
	qr/^\(f,0,exceeds_capacity/, 'never: at once');
like($main->query("CALL quota_acquire_wait('a', 'credit', timeout => '1 hour')"),
	qr/^\(f,0,quota_exhausted,budget,"2030-02-01 00:00:00\+00"/, 'not in this period: at once');

# ---- retries: what first attempts bring, while no time passes ----

take("'a', 'again', attempt => 2");
@w = (asker("'a', 'again', attempt => 2"), asker("'b', 'again', attempt => 2"));
take("'a', 'again'");
is(done(0, @w), '', 'the budget is empty: a first attempt goes on, of which half a retry comes');
take("'b', 'again'");
is(done(1, @w), '1', 'two bring one: to who waits for the budget of all');
$main->query('BEGIN');
take("'a', 'again', n => 2");
is(done(2, @w), '0,1', 'those of its own, before they commit: to who waits for its own as well');
$main->query('ROLLBACK');
is($main->query("SELECT reason FROM quota_acquire('c', 'again', attempt => 2)"), 'retry_budget', 'none is left');

# ---- its own time ----

take("'c', 'own'");
like(asker("'c', 'own'", '300 ms')->wait, qr/^\(f,0,concurrency_limited,"in flight"/,
	'the timeout is over: the refusal');
is(psql_value($node, "SELECT refused FROM quota.stat_tenants WHERE tenant = 'c' AND provider = 'own'"),
	'1', 'which counts once');

# ---- DROP EXTENSION ----

$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql(
	'other', q{
	CREATE EXTENSION quota;
	INSERT INTO quota.tiers (tier) VALUES ('x');
	INSERT INTO quota.tenants (tenant, tier) VALUES ('x', 'x');
	INSERT INTO quota.providers (provider) VALUES ('x');
	INSERT INTO quota.limits (provider, name, kind, amount) VALUES ('x', 'x', 'concurrency', 1);
	SELECT quota_acquire('x', 'x');
});
my $other = session($node, dbname => 'other');
$other->query_async("CALL quota_acquire_wait('x', 'x', timeout => '1 hour')");
wait_event($other, 'Extension');
$node->safe_psql('other', 'DROP EXTENSION quota CASCADE');
$other->_finish;
like($other->{err}, qr/extension "quota" does not exist/, 'who waits learns of DROP EXTENSION');

# ---- keys: 50 sessions with one key, one charge (scenario 17) ----

$main->query(q{
	CREATE FUNCTION keyed(key text) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE d quota_decision;
	BEGIN
		LOOP
			BEGIN
				SELECT * FROM quota_acquire('a', 'keys', n => 3, key => keyed.key) INTO d;
				RETURN d;
			EXCEPTION WHEN lock_not_available THEN
			END;
		END LOOP;
	END $$});
my @k = map { session($node) } 1 .. 50;
for my $round (1 .. 3)
{
	$_->query_async("SELECT keyed('k$round')") foreach @k;
	my %answers = map { $_->wait => 1 } @k;
	is(scalar(keys %answers), 1, "round $round: 50 sessions, one answer");
	like((keys %answers)[0], qr/^\(t,3,ok,/, 'which is yes');
	is(psql_value($node, "SELECT remaining FROM quota_peek('a', 'keys')"), 99 - 3 * $round, 'charged once');
}
$_->quit foreach @k;
is(psql_value($node, 'SELECT count(*) FROM quota_audit()'), '0', 'audit is empty');

# ---- keys end: not before job_retention, nor while the permit is open ----

$main->query("SELECT quota_acquire('b', 'long', key => 'long')");
clock_advance($node, '6 days 23 hours');
is(psql_value($node, 'SELECT count(*) FROM quota.keys'), '4', 'keys are kept');
clock_advance($node, '2 hours');
ok($node->poll_query_until('postgres', "SELECT string_agg(key, ',') = 'long' FROM quota.keys"),
	'old keys are forgotten in the background, but not that of an open permit');
is(psql_value($node, "SELECT admitted FROM quota_acquire('a', 'keys', key => 'k1')"), 't', 'and may be used anew');
clock_advance($node, '3 days');
ok($node->poll_query_until('postgres', "SELECT string_agg(key, ',') = 'k1' FROM quota.keys"),
	'which is forgotten when that is over');

$node->stop;
done_testing();
