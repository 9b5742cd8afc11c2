# Copyright (c) 2026, the quota authors

# A job that was cancelled while it ran and whose worker died ends as cancelled when
# its lease is over, though nobody asks for a job.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;

my $node = new_node('main', 'restart_after_crash' => 'on');

sub value { return psql_value($node, $_[0]) }

$node->safe_psql(
	'postgres', q{
	INSERT INTO quota.tiers (tier, max_in_flight) VALUES ('basic', 5);
	INSERT INTO quota.tenants (tenant, tier, max_queued) VALUES ('t', 'basic', 1), ('u', 'basic', NULL);
	INSERT INTO quota.providers (provider, notify_channel, lease) VALUES ('p', 'done', '60 s');
	CREATE FUNCTION add(job text, tenant text = 'u') RETURNS bigint LANGUAGE sql AS
		$$ INSERT INTO quota.jobs (tenant, provider, payload) VALUES (tenant, 'p', to_jsonb(job)) RETURNING id $$;
	CREATE FUNCTION job(job text) RETURNS bigint LANGUAGE sql AS
		$$ SELECT id FROM quota.jobs WHERE payload = to_jsonb(job) $$;
});
clock_set($node, '2030-01-01 00:00:00+00');

# enqueues a job and claims it
sub running
{
	my ($job, $tenant) = @_;
	value("SELECT add('$job', '" . ($tenant // 'u') . "')");
	is(value("SELECT payload FROM quota_dequeue('p', worker => 'w')"), qq("$job"), "$job runs");
	return;
}

# once the job is in this state
sub comes_to
{
	my ($job, $state, $name) = @_;
	ok( $node->poll_query_until('postgres', "SELECT state = '$state' FROM quota.jobs WHERE id = job('$job')"),
		$name);
	return;
}

# ---- what the end is ----

my $listener = session($node);
$listener->query('LISTEN done');
running('a', 't');
wait_idle($node);
is(value("SELECT quota_cancel(job('a'))"), 'requested', 'it is asked for');
is(value("SELECT reason FROM quota_enqueue('t', 'p')"), 'queue_full', 'the job has its place');
clock_advance($node, '59 s');
is(value("SELECT state FROM quota.jobs WHERE id = job('a')"), 'running', 'as long as its lease lasts it runs');
clock_advance($node, '1 s');
comes_to('a', 'cancelled', 'and ends when that is over');
is( value("SELECT attempt, error, finished_at AT TIME ZONE 'UTC', history FROM quota.jobs WHERE id = job('a')"),
	'1|lease expired|2030-01-01 00:01:00|[{"at": "2030-01-01T00:01:00+00:00", "error": "lease expired", "state": "cancelled", "worker": "w", "attempt": 1}]',
	'its row says why');
is(value('SELECT count(*) FROM quota.leases'), 0, 'the lease is gone');
is(value("SELECT unfinished FROM quota.stat_tenants WHERE tenant = 't'"), 0, 'its place is free');
is(value("SELECT sum(depth), sum(in_flight) FROM quota.stat_flows"), '0|0', 'its flow is empty');
is(value("SELECT count(*) FROM quota.stat_permits"), 0, 'its permit has ended');
my $told = '';
wait_until('NOTIFY', sub { $told .= $listener->query('SELECT 1'); $told =~ /cancelled/ });
like($told, qr/{"id": \d+, "state": "cancelled", "provider": "p", "tenant": "t"}/, 'it is told');
ok($node->psql('postgres', "SELECT quota_complete(job('a'), 1)") != 0, 'the attempt is stale');
is(value("SELECT quota_requeue(job('a'))"), 't', 'it can be wanted again');
is(value("SELECT payload, attempt FROM quota_dequeue('p')"), '"a"|2', 'and runs again');
is(value("SELECT quota_complete(job('a'), 2)"), '', 'until it succeeds');

# ---- when the end is ----

running('longer');
value("SELECT quota_cancel(job('longer'))");
clock_advance($node, '30 s');
is(value("SELECT cancel_requested FROM quota_extend_job(job('longer'), 1, '60 s')"), 't', 'its worker lives');
running('open');
my $session = session($node);
$session->query("BEGIN; SELECT quota_cancel(job('open'))");
running('undone');
value("BEGIN; SELECT quota_cancel(job('undone')); ROLLBACK");
running('finished');
value("SELECT quota_cancel(job('finished')); SELECT quota_complete(job('finished'), 1)");
clock_advance($node, '59 s');
is(value("SELECT state FROM quota.jobs WHERE id = job('longer')"), 'running', 'a longer lease counts');
clock_advance($node, '1 s');
comes_to('longer', 'cancelled', 'until it is over too');
is(value("SELECT state FROM quota.jobs WHERE id = job('open')"), 'running', 'a request that has not committed is none');
$session->query('COMMIT');
clock_advance($node, '1 s');
comes_to('open', 'cancelled', 'and is one as soon as it has');
is(value("SELECT state FROM quota.jobs WHERE id = job('finished')"), 'succeeded', 'who completes it first has succeeded');
is(value("SELECT payload, attempt FROM quota_dequeue('p')"), '"undone"|2', 'one that was undone is none');

# ---- after a crash ----

value("SELECT quota_cancel(job('undone'))");
$node->stop('immediate');
$node->start;
clock_set($node, '2030-01-01 00:10:00+00');
comes_to('undone', 'cancelled', 'a crash forgets no request');

# ---- a trigger of a user ----

$node->safe_psql('postgres', q{
	CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION $$not today$$; END';
	CREATE TRIGGER keep AFTER UPDATE ON quota.jobs FOR EACH ROW EXECUTE FUNCTION keep();
	ALTER TABLE quota.jobs DISABLE TRIGGER keep;});
running('kept');
value("SELECT quota_cancel(job('kept'))");
value('ALTER TABLE quota.jobs ENABLE TRIGGER keep');
my $log = -s $node->logfile;
clock_advance($node, '60 s');
$node->wait_for_log(qr/could not be ended.*not today/s, $log);
value('DROP TRIGGER keep ON quota.jobs');
clock_advance($node, '10 s');
comes_to('kept', 'cancelled', 'what a trigger keeps from ending is tried again');
is(value('SELECT * FROM quota_audit()'), '', 'all is well');

$node->stop;
done_testing();
