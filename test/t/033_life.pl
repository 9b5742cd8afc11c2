# Copyright (c) 2026, the quota authors

# Lives of jobs through crashes, in the hands of others and of the background
# worker: start_before, cancelling, telling of what has finished, forgetting it.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;
use Time::HiRes qw(usleep);

my $setup = q{
	INSERT INTO quota.tiers (tier) VALUES ('basic');
	INSERT INTO quota.tenants (tenant, tier) VALUES ('t', 'basic'), ('u', 'basic');
	INSERT INTO quota.providers (provider, safety) VALUES ('p', 1);
	CREATE FUNCTION job(label text) RETURNS bigint LANGUAGE sql STABLE AS
	$$ SELECT id FROM quota.jobs WHERE payload = to_jsonb(label) ORDER BY id DESC LIMIT 1 $$;
	CREATE FUNCTION state(label text) RETURNS text LANGUAGE sql STABLE AS
	$$ SELECT state FROM quota.jobs WHERE id = job(label) $$;
};
my $claim = "SELECT payload #>> '{}' FROM quota_dequeue('p', lease => '1 h')";
my $node;

sub value
{
	my ($sql) = @_;
	return psql_value($node, $sql);
}

# A job that has to start within the interval.
sub add
{
	my ($label, $within, $tenant) = @_;
	$tenant //= 't';
	return "INSERT INTO quota.jobs (tenant, provider, payload, start_before)
		VALUES ('$tenant', 'p', to_jsonb('$label'::text), quota_clock() + '$within'::interval)";
}

sub until_is
{
	my ($sql, $expected, $name) = @_;
	ok($node->poll_query_until('postgres', $sql, $expected), $name)
	  or diag(value($sql));
	return;
}

sub failed
{
	my ($label, $name) = @_;
	until_is("SELECT state('$label')", 'failed', $name);
	return;
}

# ---- claims alone: no background worker ----

$node = new_node(
	'claims',
	'max_worker_processes' => 1,
	'max_logical_replication_workers' => 0);
$node->safe_psql('postgres', $setup);
clock_set($node, '2030-01-01 00:00:00+00');
value("INSERT INTO quota.jobs (tenant, provider, start_before)
	SELECT 't', 'p', quota_clock() + '1 min'::interval FROM generate_series(1, 250)");
value("INSERT INTO quota.jobs (tenant, provider, payload) VALUES ('t', 'p', '\"in time\"')");
clock_advance($node, '1 min');
my $late = "SELECT count(*) FROM quota.jobs WHERE state = 'failed' AND error LIKE 'not started before%'";
is(value($claim), '', 'a claim fails late jobs instead');
is(value($late), 100, 'so many in one call');
is(value($claim), '', 'the next goes on');
is(value($claim), 'in time', 'until a job is in time');
is(value($late), 250, 'with all that were late before it');
is(value('SELECT sum(depth) FROM quota.stat_flows'), 0, 'nothing is left in the queue');
value("SELECT quota_complete(job('in time'), 1)");

# rolled back with the claim that failed them
value(add('back', '1 min') . ';' . add('scheduled', '1 min'));
value("INSERT INTO quota.jobs (tenant, provider, payload, run_at, start_before)
	VALUES ('t', 'p', '\"scheduled\"', quota_clock() + '30 s'::interval, quota_clock() + '40 s'::interval)");
clock_advance($node, '1 min');
value("BEGIN; $claim; ROLLBACK");
is(value("SELECT string_agg(state, ' ' ORDER BY id) FROM quota.jobs WHERE payload IN ('\"back\"', '\"scheduled\"')"),
	'queued queued scheduled', 'jobs wait again when the claim that failed them rolls back');
is(value($claim), '', 'and are failed by the next');
is(value("SELECT string_agg(state, ' ' ORDER BY id) FROM quota.jobs WHERE payload IN ('\"back\"', '\"scheduled\"')"),
	'failed failed failed', 'all of them');

# ---- after a crash ----

value("INSERT INTO quota.jobs (tenant, provider, payload) VALUES ('u', 'p', '\"asked\"'), ('u', 'p', '\"asked too\"')");
is(value($claim), 'asked', 'a job runs');
is(value($claim), 'asked too', 'another one');
is(value("SELECT quota_cancel(job('asked')), quota_cancel(job('asked too'))"),
	'requested|requested', 'their workers are asked to stop');
value(add('crash', '1 h'));
crash($node);
is(value("SELECT cancel_requested FROM quota_extend_job(job('asked'), 1, '1 h')"),
	't', 'a request to cancel survives a crash');
is(value("SELECT quota_fail(job('asked'), 1, 'stopped')"), 'cancelled', 'and is obeyed');
clock_set($node, '2031-01-01 00:00:00+00');
is(value($claim), '', 'also when the lease runs out: nobody gets the job');
is(value("SELECT state('asked too'), state('crash')"), 'cancelled|failed',
	'it is cancelled, and a start_before that has survived is met');
is(value('SELECT sum(depth), sum(in_flight) FROM quota.stat_flows'), '0|0', 'nothing is left');
$node->stop;

# ---- a background worker ----

$node = new_node('worker');
$node->safe_psql('postgres', $setup);
clock_set($node, '2030-01-01 00:00:00+00');

# more than a chunk at one instant, of a flow that nothing is claimed from
value("INSERT INTO quota.limits (provider, name, kind, amount) VALUES ('p', 'none', 'concurrency', 0)");
value("INSERT INTO quota.jobs (tenant, provider, start_before)
	SELECT 't', 'p', '2030-01-01 00:01:00+00' FROM generate_series(1, 2500)");
value(add('far', '1 day'));
is(value($claim), '', 'a limit lets nothing run');
clock_advance($node, '1 min');
until_is($late, 2500, 'late jobs of a blocked flow fail without a claim');
is(value('SELECT sum(depth) FROM quota.stat_flows'), 1, 'and leave the queue');
value(add('past', '-1 h'));
failed('past', 'one that comes too late fails at once');
value('DELETE FROM quota.limits; DELETE FROM quota.jobs');

# rows in the hands of others while the worker comes by
my @cases = (
	[ 'inserted', undef, add('inserted', '1 min'), 'COMMIT' ],
	[ 'claimed', 1, $claim, 'ROLLBACK' ],
	[ 'half undone', 1, "SAVEPOINT s; SAVEPOINT r; $claim; RELEASE r", 'ROLLBACK TO s; COMMIT' ],
	[ 'cancelled', 1, q{SELECT quota_cancel(job('cancelled'))}, 'ROLLBACK' ],
	[ 'updated', 1, q{UPDATE quota.jobs SET connection = 'c' WHERE id = job('updated')}, 'COMMIT' ],
	[ 'update undone', 1, q{UPDATE quota.jobs SET connection = 'c' WHERE id = job('update undone')}, 'ROLLBACK' ],
	[ 'deleted', 1, q{DELETE FROM quota.jobs WHERE id = job('deleted')}, 'ROLLBACK' ],
	[ 'locked', 1, q{SELECT 1 FROM quota.jobs WHERE id = job('locked') FOR UPDATE}, 'COMMIT' ]);
foreach my $case (@cases)
{
	my ($label, $before, $action, $end) = @$case;
	my $holder = session($node);
	value(add($label, '1 min')) if $before;
	$holder->query("BEGIN; $action");
	# "after" is behind it in the order of the walk
	value(add("after $label", '61 s'));
	clock_advance($node, '2 min');
	failed("after $label", "$label: others are failed meanwhile");
	isnt(value("SELECT state('$label')"), 'failed', "$label: it is in other hands");
	$holder->query($end);
	clock_advance($node, '2 s');
	failed($label, "$label: it fails when it is let go");
	$holder->quit;
}

# one that somebody keeps from failing
$node->safe_psql(
	'postgres', q{
	CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		IF NEW.state = 'failed' AND OLD.payload = '"kept"' THEN
			RAISE 'not this one';
		END IF;
		RETURN NEW;
	END $$;
	CREATE TRIGGER keep BEFORE UPDATE ON quota.jobs FOR EACH ROW EXECUTE FUNCTION keep()});
value(add('first', '1 min') . ';' . add('kept', '1 min') . ';' . add('third', '2 min'));
clock_advance($node, '3 min');
failed('third', 'a job that a trigger keeps from failing is in nobody else\'s way');
is(value("SELECT state('first'), state('kept')"), 'failed|queued', 'though itself it waits');
value('DROP TRIGGER keep ON quota.jobs');
clock_advance($node, '10 s');
failed('kept', 'and is tried again');
# whose rights a condition has, nobody knows
value("CREATE TRIGGER keep BEFORE UPDATE ON quota.jobs FOR EACH ROW WHEN (OLD.payload IS NOT NULL) EXECUTE FUNCTION keep()");
value(add('refused', '1 min'));
clock_advance($node, '1 min');
until_is("SELECT count(*) > 0 FROM quota.events WHERE kind = 'deadline_refused'", 't',
	'where the worker may not write, it tells');
is(value("SELECT state('refused')"), 'queued', 'and leaves it');
is(value($claim), '', 'to a claim');
is(value("SELECT state('refused')"), 'failed', 'which may');
value('DROP TRIGGER keep ON quota.jobs');

# the wall clock is set forward, the other one not
value(add('far', '1 day'));
crash($node);
clock_set($node, '2031-01-01 00:00:00+00');
failed('far', 'a start_before outlives a crash');
is(value('SELECT * FROM quota_audit()'), '', 'all is well');

# ---- telling of what has finished ----

my $listener = session($node);
my $told = '';
$listener->query('LISTEN done; LISTEN "Other"');

# What was told, sorted; once it is so many.
sub told
{
	my ($n) = @_;
	for (my $i = 0; $i < 1000; $i++)
	{
		my @got;
		$told .= $listener->query('SELECT 1') . "\n";
		push @got, "$1 $2"
		  while $told =~ /notification "(\w+)" with payload "(.*)" received/g;
		if (@got >= $n)
		{
			$told = '';
			return join "\n", sort @got;
		}
		usleep(20_000);
	}
	return "only: $told";
}

sub notice
{
	my ($label, $state) = @_;
	return qq(done {"id": ) . value("SELECT job('$label')")
	  . qq(, "state": "$state", "provider": "p", "tenant": "t"});
}

value("INSERT INTO quota.jobs (tenant, provider, payload)
	SELECT 't', 'p', to_jsonb('n' || i) FROM generate_series(1, 6) i");
value("SELECT quota_complete(id, attempt) FROM quota_dequeue('p')");
value("UPDATE quota.providers SET notify_channel = 'done'");
value("SELECT quota_complete(id, attempt) FROM quota_dequeue('p')");
is(told(1), notice('n2', 'succeeded'), 'a success is told, with a channel only');
value("SELECT quota_fail(id, attempt, 'no') FROM quota_dequeue('p')");
value("BEGIN; SELECT quota_complete(id, attempt) FROM quota_dequeue('p'); ROLLBACK");
value("BEGIN; SAVEPOINT s; SELECT quota_cancel(job('n4')); ROLLBACK TO s; SELECT quota_cancel(job('n5')); COMMIT");
value("SELECT quota_fail(id, attempt, 'no', retry => false) FROM quota_dequeue('p')");
value(add('late', '-1 s'));
is( told(3),
	join("\n", sort(notice('n5', 'cancelled'), notice('n4', 'failed'), notice('late', 'failed'))),
	'so are what failed for good and what was cancelled; not a retry, nor what rolled back');
value(q{UPDATE quota.providers SET notify_channel = 'Other';
	INSERT INTO quota.tenants (tenant, tier) VALUES (E'q"\\\\\\n', 'basic');
	INSERT INTO quota.jobs (tenant, provider, payload) VALUES (E'q"\\\\\\n', 'p', '"n7"');});
value("SELECT quota_cancel(job('n7'))");
is(told(1), 'Other {"id": ' . value("SELECT job('n7')") . ', "state": "cancelled", "provider": "p", "tenant": "q\"\\\\\\n"}',
	'names are quoted, and a channel is one as it is written');

# more than there is room for; of two providers with one channel as many are lost
value("INSERT INTO quota.providers (provider) VALUES ('also \"p\"')");
value("UPDATE quota.providers SET notify_channel = 'done'");
value("INSERT INTO quota.jobs (tenant, provider, payload) SELECT 'u', 'p', '\"many\"' FROM generate_series(1, 4100)");
value("INSERT INTO quota.jobs (tenant, provider, payload) SELECT 'u', 'also \"p\"', '\"many\"' FROM generate_series(1, 4)");
value("SELECT count(quota_cancel(id)) FROM (SELECT id FROM quota.jobs WHERE payload = '\"many\"' ORDER BY id) j");
my @many = split /\n/, told(4098);
is(scalar(grep { /"state": "cancelled"/ } @many), 4096, 'what there is room for is told');
is_deeply(
	[ grep { /lost/ } @many ],
	[ 'done {"provider": "also \\"p\\"", "lost": 4}', 'done {"provider": "p", "lost": 4}' ],
	'and how many there was none for, of each provider');
value("UPDATE quota.providers SET notify_channel = NULL");
$listener->quit;
isnt($node->psql('postgres', "UPDATE quota.providers SET notify_channel = ''"), 0, 'a channel has a name');
$node->stop;

# ---- forgetting ----

$node = new_node('trim', 'quota.job_retention' => '10 s');
$node->safe_psql('postgres', $setup);
clock_set($node, '2030-01-01 00:00:00+00');
value("INSERT INTO quota.jobs (tenant, provider, payload) SELECT 't', 'p', to_jsonb('x' || i) FROM generate_series(1, 5) i");
value("SELECT quota_fail(id, attempt, 'no', retry => false) FROM quota_dequeue('p', 2)");
value("SELECT quota_cancel(job('x3')), quota_cancel(job('x4'))");
value('CREATE TABLE mine (job bigint REFERENCES quota.jobs)');
value("INSERT INTO mine VALUES (job('x1')), (job('x3'))");
clock_advance($node, '1 min');
until_is("SELECT string_agg(payload #>> '{}' || ' ' || jsonb_array_length(coalesce(history, '[]')), ', ' ORDER BY id) FROM quota.jobs",
	'x1 1, x3 1, x5 0', 'failed and cancelled jobs are forgotten, but what is referred to');
value('DROP TABLE mine');
clock_advance($node, '1 min');
until_is("SELECT string_agg(payload #>> '{}', ', ' ORDER BY id) FROM quota.jobs", 'x5', 'until it is no more');
$node->stop;

done_testing();
