# Copyright (c) 2026, the quota authors

# Rows of pauses that answers ask for: the background worker writes them, whoever resumes
# or prolongs the pause meanwhile, and they say what is in force after a crash.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;

my $node = new_node(
	'main',
	'restart_after_crash' => 'on',
	'timezone' => 'UTC',
	# events of 2020 are to be seen today
	'quota.job_retention' => '10000d');

sub value
{
	my ($sql) = @_;
	return psql_value($node, $sql);
}

# quota.pauses says so in the end
sub rows
{
	my ($what, $expected) = @_;
	my $rows = '';
	for (1 .. 600)
	{
		$rows = value(
			q{SELECT coalesce(string_agg(provider || ' ' || coalesce(to_char(until, 'HH24:MI:SS'), 'open'), ', ' ORDER BY provider), '') FROM quota.pauses}
		);
		last if $rows eq $expected;
		select undef, undef, undef, 0.1;
	}
	return is($rows, $expected, $what);
}

sub report
{
	my ($provider, $seconds) = @_;
	return
	  "SELECT quota_report('$provider', 429, headers => '{\"Retry-After\": $seconds}')";
}

# The worker waits in the middle of writing a row while this session holds the lock; not
# by waiting for it, as it would give up soon.
my $gate = session($node);

sub gate
{
	my ($closed) = @_;
	return $gate->query($closed ? 'SELECT pg_advisory_lock(1)' : 'SELECT pg_advisory_unlock(1)');
}

sub worker_waits
{
	wait_until(
		'the worker is writing the row',
		sub {
			value(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'quota worker' AND wait_event = 'PgSleep'}) eq '1';
		});
	return;
}

clock_set($node, '2030-01-01 12:00:00+00');
$node->safe_psql(
	'postgres', q{
	INSERT INTO quota.tiers (tier) VALUES ('t');
	INSERT INTO quota.tenants (tenant, tier) VALUES ('a', 't');
	INSERT INTO quota.providers (provider, safety) SELECT unnest(ARRAY['p', 'q', 'r']), 1;
	CREATE FUNCTION at_gate() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		WHILE NEW.reported AND NOT pg_try_advisory_xact_lock(1) LOOP
			PERFORM pg_sleep(0.02);
		END LOOP;
		RETURN NULL;
	END $$;
	CREATE TRIGGER zz_gate AFTER INSERT OR UPDATE ON quota.pauses FOR EACH ROW
		EXECUTE FUNCTION at_gate()});

# ---- a resume waits for the worker, and no longer ----

my ($resume, $other) = (session($node), session($node));
gate(1);
$other->query(report('p', 600));
worker_waits();
$resume->query_async("SELECT quota_resume('p')");
wait_event($resume, 'Lock');
$other->query('SET statement_timeout = 200');
like($other->fails("SELECT quota_resume('p')"), qr/statement timeout/, 'the wait can be cancelled');
$other->query('RESET statement_timeout');
is(value("SELECT reason FROM quota_peek('a', 'p')"), 'paused', 'nobody else waits');
gate(0);
is($resume->wait, 't', 'a resume waits for the worker that is writing the row');
is(value("SELECT reason FROM quota_peek('a', 'p')"), 'ok', 'and ends the pause');
rows('with its row', '');

# ---- a resume that commits when the worker has written the row meanwhile ----

value(report('p', 600));
rows('written', 'p 12:10:00');
value("SELECT quota_resume('p')");
# the worker, which has just run, comes a second later
$resume->query('BEGIN; ' . report('q', 600) . "; SELECT quota_resume('q')");
rows('a row that is written while its pause is being resumed', 'q 12:10:00');
is(value("SELECT reason FROM quota_peek('a', 'q')"), 'paused', 'the pause is in force');
$resume->query('COMMIT');
is(value("SELECT reason FROM quota_peek('a', 'q')"), 'ok', 'it is over');
rows('and its row goes, though its time is to come', '');

# ---- prolonged while the worker is writing ----

gate(1);
$other->query(report('r', 600));
worker_waits();
$other->query(report('r', 1200));
gate(0);
rows('a pause that was prolonged while its row was written is written again', 'r 12:20:00');
crash($node);
clock_set($node, '2030-01-01 12:15:00+00');
# the clocks before the crash and after it count nanoseconds from different instants
is(value("SELECT reason || to_char(not_before + '1 us', ' MI:SS') FROM quota_peek('a', 'r')"),
	'paused 20:00', 'after a crash it is as long as it was, to the microsecond');

# ---- the wall clock steps over an end, and no duration passes ----

clock_set($node, '2020-01-01 00:00:00+00');
value("SELECT quota_pause('q', until => '2021-01-01 00:00:00+00')");
value(report('p', 600));
rows('the worker knows when both end', 'p 00:10:00, q 00:00:00, r 12:20:00');
$node->safe_psql('postgres', "SELECT quota_clock_set(NULL); SELECT quota_clock_advance('0 s')");
is(value("SELECT reason FROM quota_peek('a', 'q')"), 'ok', 'who asks finds that one is over');
wait_until(
	'event of its end',
	sub {
		value(q{SELECT count(*) FROM quota.events WHERE kind = 'pause_ended' AND detail LIKE 'provider q, as its time%'}) eq '1';
	});
pass('and the worker tells it');

$node->stop;
done_testing();
