
# Copyright (c) 2026, the quota authors

# G8: who waits in quota_wait() at one provider is woken by what comes back to a limit
# across providers at another one, once for each event, with the clock standing still.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;

my $node = new_node('main');

clock_set($node, '2030-01-01 00:00:00+00');
$node->safe_psql(
	'postgres', q{
	INSERT INTO quota.tiers (tier) VALUES ('basic');
	INSERT INTO quota.tenants (tenant, tier) SELECT x, 'basic' FROM unnest('{a,b}'::text[]) x;
	INSERT INTO quota.providers (provider, safety) SELECT x, 1 FROM unnest('{p,q,r}'::text[]) x;
	INSERT INTO quota.limits (provider, name, endpoint, per, kind, amount, period, burst) VALUES
		(NULL, 'wide', NULL, '{}', 'concurrency', 0, NULL, NULL),
		(NULL, 'shared', '/x*', '{}', 'concurrency', 0, NULL, NULL),
		(NULL, 'own', NULL, '{tenant}', 'concurrency', 0, NULL, NULL),
		(NULL, 'rate', '/x*', '{}', 'token_bucket', 0, '4 s', 1),
		(NULL, 'credits', NULL, '{tenant}', 'allowance', 0, '1 day', NULL);
});

my $main = session($node);
my $other = session($node);

# the only limit that is in force: this one, of so much
sub only
{
	my ($name, $amount) = @_;
	$main->query("UPDATE quota.limits SET amount = CASE WHEN name = '$name' THEN $amount END WHERE provider IS NULL");
	return;
}

my $claim = "SELECT count(*) FROM quota_dequeue('%s', 1, lease => '%s')";
my $complete = q{SELECT count(quota_complete(id, attempt)::text) FROM quota.jobs WHERE state = 'running' AND provider = 'p'};

sub claims { my ($session, $provider, $lease) = @_; return $session->query(sprintf $claim, $provider, $lease // '1 day') }

# One session waits at q and one at r, each with a job of its own, while a job at p has
# what there is.  What those say that the event has woken, and who claims when they do.
sub woken_by
{
	my ($event, $lease, $begin) = @_;
	$main->query("DELETE FROM quota.jobs; INSERT INTO quota.jobs (tenant, provider, endpoint)
		SELECT 'a', x, '/x' FROM unnest('{p,q,r}'::text[]) x");
	$other->query('BEGIN') if $begin;
	die 'nothing to have' if claims($other, 'p', $lease) ne '1';
	my @waiters = map { session($node) } 1 .. 2;
	foreach my $i (0, 1)
	{
		my $provider = ('q', 'r')[$i];
		die 'there is some left' if claims($main, $provider) ne '0';
		$waiters[$i]->query_async("CALL quota_wait('$provider', '1 hour')");
		wait_event($waiters[$i], 'Extension');
	}
	$event->();
	$_->wait for @waiters;
	my @got = map { claims($main, $_) } ('q', 'r');
	# that takes the place and gives it back: to the other
	$main->query(q{SELECT count(quota_complete(id, attempt)::text) FROM quota.jobs WHERE state = 'running' AND provider <> 'p'});
	push @got, claims($main, 'r');
	# of which the lease may have ended
	$main->query(q{SELECT quota_complete(array_agg(id), array_agg(attempt)) FROM quota.jobs WHERE state = 'running' HAVING count(*) > 0;
		SELECT count(quota_cancel(id)) FROM quota.jobs WHERE state IN ('queued', 'running')});
	$_->quit for @waiters;
	return join ' ', @got;
}

foreach my $name ('wide', 'shared', 'own')
{
	only($name, 1);
	is(woken_by(sub { $other->query($complete) }), '1 0 1', "$name: a job at another provider completes");
	is(woken_by(sub { $other->query('ROLLBACK') }, undef, 1), '1 0 1', "$name: its claim is rolled back");
	is(woken_by(sub { $other->kill_backend; $other->kill_client; $other = session($node) }, undef, 1),
		'1 0 1', "$name: its session ends");
	is(woken_by(sub { clock_advance($node, '10 s') }, '10 s'), '1 0 1', "$name: its lease ends");
	is(woken_by(sub { only($name, 2) }), '1 0 1', "$name: the amount is raised");
	only($name, 1);
	is(woken_by(sub { $main->query("UPDATE quota.limits SET amount = NULL WHERE name = '$name'") }),
		'1 1 0', "$name: the limit is lifted");
}

only('rate', 1);
is(woken_by(sub { clock_advance($node, '4 s') }), '1 0 0', 'rate: it refills');
clock_advance($node, '4 s');
is(woken_by(sub { $other->query('ROLLBACK') }, undef, 1), '1 0 0', 'rate: what was taken is rolled back');

only('credits', 1);
is(woken_by(sub { $main->query("SELECT quota_grant('a', NULL, 'credits', 1)") }), '1 0 0', 'allowance: more is granted');
clock_advance($node, '1 day');
is(woken_by(sub { $other->query("SELECT count(quota_fail(id, attempt, 'no', retry => false)) FROM quota.jobs WHERE state = 'running'") }),
	'1 0 0', 'allowance: what was held comes back');

# ---- one event, one waiter of each provider ----

only('shared', 1);
$main->query("DELETE FROM quota.jobs; INSERT INTO quota.jobs (tenant, provider, endpoint)
	SELECT 'a', x, '/x' FROM unnest('{p,q}'::text[]) x, generate_series(1, 3)");
claims($main, 'p');
claims($main, 'q');
my @waiters = map { session($node) } 1 .. 3;
foreach my $waiter (@waiters)
{
	$waiter->query_async("CALL quota_wait('q', '1 hour')");
	wait_event($waiter, 'Extension');
}
$main->query($complete);
$waiters[0]->wait;
psql_value($node, 'SELECT 1') for 1 .. 5;
is(join(' ', map { $_->is_busy ? 'waits' : 'comes' } @waiters), 'comes waits waits', 'of three sessions that wait one is woken');

# ---- the provider of who waits goes, and the extension ----

$_->kill_backend for @waiters;
$main->query(q{SELECT count(quota_complete(id, attempt)::text) FROM quota.jobs WHERE state = 'running'});
claims($main, 'p');
is(claims($main, 'q'), '0', 'a flow at q waits');
$main->query(q{SELECT count(quota_cancel(id)) FROM quota.jobs WHERE provider = 'q';
	DELETE FROM quota.jobs WHERE provider = 'q'; DELETE FROM quota.providers WHERE provider = 'q'});
$main->query($complete);
is(claims($main, 'p'), '1', 'its provider is deleted: what comes back to the limit is nobody\'s');
$main->query(q{SELECT count(quota_complete(id, attempt)::text) FROM quota.jobs WHERE state = 'running'});
is($main->query('SELECT * FROM quota_audit()'), '', 'and all is as it should be');

done_testing();
