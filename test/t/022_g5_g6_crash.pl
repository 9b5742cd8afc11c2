# Copyright (c) 2026, the quota authors

# G5: a job has one holder.  G6: a job is not lost, whatever is killed while
# workers are at it.  G4: neither are credits.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use IPC::Run;
use QuotaTest;

my $node = new_node(
	'main',
	'restart_after_crash' => 'on',
	'max_connections' => 40);
my $njobs = 0;
my $per_phase = 1500;
my $phase = 0;
my $long;

sub value { return psql_value($node, $_[0]) }

$node->safe_psql(
	'postgres', q{
	INSERT INTO quota.tiers (tier) VALUES ('basic');
	INSERT INTO quota.tenants (tenant, tier)
		VALUES ('t0', 'basic'), ('t1', 'basic'), ('t2', 'basic');
	INSERT INTO quota.providers (provider, safety) VALUES ('p', 1);
	INSERT INTO quota.limits (provider, name, amount, period, burst)
		VALUES ('p', 'rate', 10000, '1 s', 100000);
	INSERT INTO quota.limits (provider, name, kind, amount)
		VALUES ('p', 'slots', 'concurrency', 8);
	INSERT INTO quota.limits (provider, name, kind, amount, period)
		VALUES ('p', 'credits', 'allowance', 1000000, '36000 days');

	CREATE TABLE phase AS SELECT 0 AS n;
	CREATE TABLE claimed (id bigint, attempt int, phase int, PRIMARY KEY (id, attempt));
	CREATE TABLE retried (id bigint, attempt int, PRIMARY KEY (id, attempt));
	CREATE TABLE finished (id bigint PRIMARY KEY, attempt int, state text);

	CREATE FUNCTION claim(OUT id bigint, OUT attempt int) LANGUAGE plpgsql AS $$
	BEGIN
		INSERT INTO claimed SELECT j.id, j.attempt, p.n FROM quota_dequeue('p') j, phase p
		RETURNING claimed.id, claimed.attempt INTO id, attempt;
		IF (SELECT count(*) FROM quota.leases WHERE state = 'r' AND ready_at > quota_clock()) > (SELECT amount FROM quota.limits WHERE name = 'slots') THEN
			RAISE 'too many in flight';
		END IF;
		id := coalesce(id, 0);
		attempt := coalesce(attempt, 0);
	END $$;
	CREATE FUNCTION finish(id bigint, attempt int) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		CASE
			WHEN id % 10 = 0 THEN
				INSERT INTO finished VALUES (id, attempt, 'failed');
				PERFORM quota_fail(id, attempt, 'hopeless', retry => false);
			WHEN id % 10 = 1 AND attempt = 1 THEN
				INSERT INTO retried VALUES (id, attempt);
				PERFORM quota_fail(id, attempt, 'try again');
			ELSE
				INSERT INTO finished VALUES (id, attempt, 'succeeded');
				PERFORM quota_complete(id, attempt);
		END CASE;
	END $$;

	-- what a worker is told that believes in a lease that is over
	CREATE FUNCTION stale(id bigint, attempt int) RETURNS text LANGUAGE plpgsql AS $f$
	DECLARE
		told text := '';
		call text;
		answer text;
	BEGIN
		FOREACH call IN ARRAY ARRAY['quota_complete($1, $2)', 'quota_fail($1, $2, $$no$$)',
			'quota_fail($1, $2, $$no$$, retry => false)', 'quota_extend_job($1, $2, $$1 h$$)',
			'quota_complete(ARRAY[$1], ARRAY[$2])', 'quota_fail(ARRAY[$1], ARRAY[$2], ARRAY[$$no$$])']
		LOOP
			BEGIN
				EXECUTE 'SELECT ' || call INTO answer USING id, attempt;
				told := told || CASE answer WHEN '{stale}' THEN 'stale' ELSE call || ' worked' END || ' ';
			EXCEPTION WHEN OTHERS THEN
				told := told || SQLSTATE || ' ';
			END;
		END LOOP;
		RETURN rtrim(told);
	END $f$;
});
my $refused = join ' ', ('55000') x 4, ('stale') x 2;

# ---- workers ----

my $script = PostgreSQL::Test::Utils::tempdir() . '/worker';
append_to_file($script, q{SELECT id, attempt FROM claim() \gset
\if :id > 0
SELECT finish(:id, :attempt);
\endif
});

# Enough to do, and eight workers until the server leaves them.
sub workers
{
	value('UPDATE phase SET n = ' . ++$phase);
	# by the last digit: 0 fails for good, 1 fails once, 2 has one attempt only
	value("INSERT INTO quota.jobs (id, tenant, provider, max_attempts)
		SELECT i, 't' || i % 3, 'p', CASE i % 10 WHEN 2 THEN 1 ELSE 20 END
		FROM generate_series($njobs + 1, $njobs + $per_phase) i");
	$njobs += $per_phase;
	my %run = (out => '');
	$run{pgbench} = IPC::Run::start(
		[
			$node->installed_command('pgbench'), qw(-n -c 8 -j 2 -T 600 -f),
			$script, $node->connstr('postgres')
		],
		'<', \undef, '>', \$run{out}, '2>&1',
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	# they have done something and are at it
	$node->poll_query_until('postgres',
		"SELECT count(*) > 60 FROM claimed WHERE phase = $phase")
	  or die "no work is done in phase $phase: $run{out}";
	$run{pgbench}->pump_nb;
	die "workers stopped in phase $phase: $run{out}" unless $run{pgbench}->pumpable;
	return \%run;
}

sub pid_of
{
	my ($condition) = @_;
	return value("SELECT pid FROM pg_stat_activity WHERE $condition LIMIT 1");
}

sub is_sound
{
	my ($what) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(value('SELECT count(*) FROM quota.jobs'), $njobs, "$what: all jobs are there");
	is( value('SELECT count(*) FROM quota.jobs j FULL JOIN finished f USING (id)
			WHERE j.state IS DISTINCT FROM f.state
				AND (f.id IS NOT NULL OR (j.state IN ($$succeeded$$, $$failed$$) AND j.error IS NULL))'),
		'0', "$what: finished is who was finished, or failed with a reason");
	is( value('SELECT count(*) FROM quota.jobs j
			LEFT JOIN (SELECT id, max(attempt) AS attempt FROM claimed GROUP BY 1) c USING (id)
			WHERE j.attempt <> coalesce(c.attempt, 0)'),
		'0', "$what: every attempt was given to somebody");
	is( value('SELECT count(*) FROM claimed a JOIN claimed b
			ON a.id = b.id AND a.attempt = b.attempt - 1 AND a.phase = b.phase
			WHERE (a.id, a.attempt) NOT IN (SELECT id, attempt FROM retried)'),
		'0', "$what: nobody lost a lease before its end");
	is( value('SELECT count(*) FROM quota.jobs j FULL JOIN quota.leases l ON l.job_id = j.id
			WHERE (j.state = $$running$$) <> (l.state IS NOT NULL AND l.state = $$r$$)
				OR (l.job_id IS NULL AND j.state = $$queued$$ AND j.attempt > 0)
				OR j.attempt <> l.attempt OR j.id IS NULL'),
		'0', "$what: leases agree with jobs");
	is(value('SELECT * FROM quota_audit()'), '', "$what: the audit finds nothing");
	return;
}

# After a crash the clock runs again and the moved time is lost; each time it is
# stopped further ahead, where the leases from before are over and refilled is
# what can be.
sub later { return clock_advance($node, $phase + 1 . '0 min') }

# leases that are open end now
sub leases_end
{
	clock_advance($node, '61 s');
	value('UPDATE phase SET n = ' . ++$phase);
	return;
}

# does what can be done
sub drain
{
	my $unfinished = 'SELECT count(*) FROM quota.jobs WHERE state IN ($$queued$$, $$running$$)'
	  . " AND id <> $long";

	for (1 .. 10)
	{
		my $left = value($unfinished);
		return if $left == 0;
		leases_end();
		$node->pgbench('-n -c 8 -j 2 -t ' . (int($left / 8) + 10),
			0, [qr/processed/], [qr/^$/], 'more is done', undef, '-f', $script);
	}
	die 'the queue is not drained';
}

# ---- many at the same jobs ----

# All of them are retries of one flow, so that everybody meets everybody, and some
# claims take a while to be committed.  Who holds a lease is in nobody's way and
# nobody in theirs.
$njobs = 4000;
my $flow = value("BEGIN; INSERT INTO quota.jobs (tenant, provider) VALUES ('t0', 'p')
	RETURNING flow; ROLLBACK");
value("INSERT INTO quota.jobs (id, tenant, provider, attempt, flow)
	SELECT i, 't0', 'p', 1, $flow FROM generate_series(1, $njobs) i;
	INSERT INTO claimed SELECT i, 1, 0 FROM generate_series(1, $njobs) i;
	INSERT INTO retried SELECT i, 1 FROM generate_series(1, $njobs) i;
	UPDATE quota.limits SET amount = 50 WHERE name = 'slots'");
later();
append_to_file("$script.slow", q{BEGIN;
SELECT id, attempt FROM claim() \gset
SELECT pg_sleep(0.01);
COMMIT;
\if :id > 0
SELECT finish(:id, :attempt);
\endif
});
$node->pgbench('-n -c 16 -j 2 -t ' . $njobs / 16,
	0, [qr/processed/], [qr/^$/], 'jobs that all want', undef,
	'-f', "$script\@20", '-f', "$script.slow\@1");
is_sound('jobs that all want');
value("UPDATE quota.limits SET amount = 8 WHERE name = 'slots'");

# ---- processes that die ----

# One job whose worker needs the whole time, and lives.
$long = ++$njobs;
value("INSERT INTO quota.jobs (id, tenant, provider) VALUES ($long, 't0', 'p');
	INSERT INTO claimed SELECT id, attempt, 0 FROM quota_dequeue('p', lease => '20 h')");

foreach my $end (
	[
		'kill -9 of a worker' => sub {
			crash_backend($node, pid_of("query ~ '^SELECT (id, attempt FROM claim|finish)'"));
		}
	],
	[
		'kill -9 of the launcher' => sub {
			crash_backend($node, pid_of("backend_type = 'quota launcher'"));
		}
	],
	[
		'kill -9 of the postmaster' => sub {
			my ($run) = @_;
			my ($pid) = slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/;
			$node->kill9;
			# it is to be gone for the kernel too, and so are its children
			wait_until('end of the postmaster', sub { !kill 0, $pid });
			$run->{pgbench}->finish;
			wait_until('start', sub { $node->start(fail_ok => 1) });
		}
	],
	[
		'immediate stop' => sub {
			$node->stop('immediate');
			$node->start;
		}
	],
	[
		'fast stop' => sub {
			$node->stop('fast');
			$node->start;
		}
	],
  )
{
	my ($what, $do) = @$end;

	later();
	my $run = workers();
	$do->($run);
	$run->{pgbench}->finish;
	unlike($run->{out}, qr/ERROR:/, "$what: workers were told nothing wrong");
	is_sound($what);
}

# ---- the fence ----

# one that goes first, whatever else is ready
later();
my $id = ++$njobs;
value("INSERT INTO quota.jobs (id, tenant, provider, class)
	VALUES ($id, 't0', 'p', 'interactive')");
is(value('SELECT * FROM claim()'), "$id|1", 'an attempt');
cmp_ok(value('SELECT count(*) FROM quota.leases WHERE state = $$r$$'),
	'>', 1, 'leases from before the crashes are open');
# whoever lost its lease in a crash is refused, also before somebody takes over
is( value('SELECT DISTINCT stale(c.id, c.attempt) FROM claimed c
		LEFT JOIN finished f USING (id) WHERE f.id IS NULL
			AND (c.id, c.attempt) NOT IN (SELECT id, attempt FROM retried)
			AND c.id NOT IN (' . "$id, $long)"),
	$refused, 'lost attempts are refused');
leases_end();
is(value("SELECT stale($id, 1)"), $refused, 'so is one after its lease');
is(value('SELECT * FROM claim()'), "$id|2", 'the next one');
my $job = "SELECT j, l FROM quota.jobs j JOIN quota.leases l ON l.job_id = j.id WHERE j.id = $id";
my $before = value($job);
is(value("SELECT stale($id, 1)"), $refused, 'and when another one has it');
is(value($job), $before, 'which changes nothing');
is(value("SELECT quota_extend_job($id, 2, '1 s') IS NOT NULL"),
	't', 'who has it can go on');
value("SELECT finish($id, 2)");

# ---- in the end ----

drain();
is( value('SELECT job, used FROM quota.stat_permits, quota.stat_buckets WHERE limit_name = $$slots$$'),
	"$long|1", 'the long one is all that is in flight');
value("INSERT INTO finished VALUES ($long, 1, 'succeeded'); SELECT quota_complete($long, 1)");
is_sound('drained');
is( value('SELECT count(*) FROM quota.jobs WHERE id % 10 <> 2
		AND state <> CASE id % 10 WHEN 0 THEN $$failed$$ ELSE $$succeeded$$ END'),
	'0', 'every job has succeeded, or failed if it should');
is( value('SELECT count(*) FROM quota.jobs WHERE id % 10 = 2
		AND CASE state WHEN $$failed$$ THEN error IS NULL ELSE state <> $$succeeded$$ END'),
	'0', 'those with one attempt succeeded or say why not');
my $jobs = value('SELECT * FROM quota.jobs ORDER BY id');
is(value('SELECT DISTINCT stale(id, attempt) FROM claimed WHERE id % 7 = 1'),
	$refused, 'all attempts are over');
is(value('SELECT * FROM quota.jobs ORDER BY id'), $jobs, 'and change nothing');
is(value('SELECT count(*) FROM quota.leases'), '0', 'no lease is left');

# an attempt costs a credit, unless it failed; a lost one stays charged
clock_advance($node, '10 min');
ok( $node->poll_query_until(
		'postgres', 'SELECT count(*) = 0 FROM quota.holds'),
	'lost holds are written off');
is( value("SELECT used, held FROM quota_balance('t1')"),
	value('SELECT (SELECT count(*) FROM claimed) - (SELECT count(*) FROM retried)
		- (SELECT count(*) FROM finished WHERE state = $$failed$$), 0'),
	'credits are exact');
is( value('SELECT sum(used) FROM quota.stat_buckets WHERE kind = $$concurrency$$'),
	'0', 'nothing is in flight');
is( value('SELECT sum(depth), sum(in_flight) FROM quota.stat_flows'),
	'0|0', 'nor waiting');
is(value('SELECT * FROM quota_audit()'), '', 'the audit finds nothing');

$node->stop;
done_testing();
