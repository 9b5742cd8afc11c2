# Copyright (c) 2026, the quota authors

# Everything at once: 64 clients insert, COPY, claim, complete, fail, extend, cancel,
# change the configuration and roll back, while backends are terminated and killed.
# Afterwards every job is accounted for, no cap was exceeded, nothing deadlocked, and
# shared memory says what the rows say.
#
# QUOTA_STRESS_SECONDS (default 12) is for how long; QUOTA_STRESS_SEED repeats what
# clients do, though not when they come to it.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use IPC::Run;
use QuotaTest;
use Time::HiRes qw(sleep time);

my $seconds = $ENV{QUOTA_STRESS_SECONDS} // 12;
my $seed = $ENV{QUOTA_STRESS_SEED} // int(rand(1_000_000));
my $clients = 64;
# clients whose backends end are gone: no round goes on until none is left
my $rounds = $seconds > 40 ? int($seconds / 10) : 4;
srand($seed);
note("seed $seed");

my $node = new_node('main', 'max_connections' => 100, 'restart_after_crash' => 'on',
	'deadlock_timeout' => '200ms', 'log_min_messages' => 'warning',
	'log_statement' => 'none');
my $rows = $node->basedir . '/rows';
append_to_file($rows, "t$_\tp1\tcopied\n") for 1 .. 10;

$node->safe_psql('postgres', <<"SQL");
INSERT INTO quota.tiers (tier, weight, max_queued) VALUES ('small', 1, 200), ('large', 5, NULL);
INSERT INTO quota.tenants (tenant, tier) SELECT 't' || n, CASE WHEN n % 3 = 0 THEN 'small' ELSE 'large' END FROM generate_series(0, 11) n;
INSERT INTO quota.providers (provider, safety, retry_base, retry_max) VALUES ('p0', 1, '5 ms', '50 ms'), ('p1', 1, '5 ms', '50 ms');
INSERT INTO quota.limits (provider, name, per, kind, amount) VALUES ('p0', 'at once', '{tenant}', 'concurrency', 4);
INSERT INTO quota.limits (provider, name, per, amount, period, burst, external) VALUES ('p1', 'calls', '{tenant}', 1000, '1 s', 1000, false);

-- what was committed: every job, every attempt, and what went wrong
CREATE TABLE submitted (id bigint PRIMARY KEY);
CREATE TABLE attempts (id bigint, attempt int, PRIMARY KEY (id, attempt));
CREATE TABLE errors (action text, state text, message text);
CREATE TABLE exceeded (tenant text, running bigint);
CREATE FUNCTION submitted() RETURNS trigger LANGUAGE plpgsql AS \$\$
BEGIN
	INSERT INTO submitted VALUES (NEW.id);
	RETURN NULL;
END \$\$;
CREATE TRIGGER submitted AFTER INSERT ON quota.jobs FOR EACH ROW EXECUTE FUNCTION submitted();

CREATE FUNCTION act(action text, r int) RETURNS void LANGUAGE plpgsql AS \$\$
DECLARE
	p text := 'p' || r % 2;
	t text := 't' || r / 2 % 12;
	job record;
BEGIN
	CASE action
	WHEN 'insert' THEN
		INSERT INTO quota.jobs (tenant, provider, endpoint, class, run_at, units)
		SELECT t, p, CASE WHEN n % 3 > 0 THEN 'e' || n % 3 END, (ARRAY['interactive', 'event', 'batch'])[1 + r % 3],
			CASE WHEN r % 7 = 0 THEN clock_timestamp() + n * interval '10 ms' END,
			CASE WHEN r % 5 = 0 THEN '{"request": 2}'::jsonb END
		FROM generate_series(1, 1 + r % 4) n;
	WHEN 'key' THEN
		PERFORM quota_enqueue(t, p, dedupe_key => 'key ' || r % 20);
	WHEN 'copy' THEN
		COPY quota.jobs (tenant, provider, endpoint) FROM '$rows';
	WHEN 'cancel' THEN
		PERFORM quota_cancel(id) FROM submitted TABLESAMPLE SYSTEM (5) LIMIT 1;
	WHEN 'config' THEN
		CASE r % 4
		WHEN 0 THEN UPDATE quota.tenants SET suspended = r / 4 % 4 = 0 WHERE tenant = t;
		WHEN 1 THEN UPDATE quota.tiers SET weight = 1 + r % 10 WHERE tier = 'large';
		WHEN 2 THEN UPDATE quota.limits SET amount = 500 + r % 1000 WHERE name = 'calls';
		WHEN 3 THEN UPDATE quota.tiers SET max_queued = 100 + r % 200 WHERE tier = 'small';
		END CASE;
	WHEN 'back' THEN
		INSERT INTO quota.jobs (tenant, provider) VALUES (t, p);
		PERFORM quota_complete(id, attempt) FROM quota_dequeue(p, 3);
		BEGIN
			PERFORM quota_dequeue(p, 1 + r % 10);
			INSERT INTO quota.jobs (tenant, provider) SELECT t, p FROM generate_series(1, 5);
			RAISE EXCEPTION USING ERRCODE = 'XX999';
		EXCEPTION WHEN SQLSTATE 'XX999' THEN
			NULL;
		END;
		RAISE EXCEPTION USING ERRCODE = 'XX999';
	WHEN 'look' THEN
		-- a batch counts once, a lease that is over or about to be not at all
		INSERT INTO exceeded SELECT tenant, count(DISTINCT COALESCE(batch, -job_id)) FROM quota.jobs JOIN quota.leases ON job_id = id
			WHERE provider = 'p0' AND jobs.state = 'running' AND ready_at > clock_timestamp() + interval '1 s' GROUP BY tenant HAVING count(DISTINCT COALESCE(batch, -job_id)) > 4;
	END CASE;
EXCEPTION WHEN OTHERS THEN
	INSERT INTO errors VALUES (action, SQLSTATE, SQLERRM);
END \$\$;

-- claims, and what becomes of the claims
CREATE FUNCTION claim(r int, OUT ids bigint[], OUT attempts int[]) LANGUAGE plpgsql AS \$\$
BEGIN
	WITH claimed AS MATERIALIZED (
		SELECT id, attempt FROM quota_dequeue('p' || r % 2, CASE WHEN r % 3 = 0 THEN 20 ELSE 1 END,
			lease => CASE WHEN r % 2 = 1 AND r % 11 = 0 THEN interval '100 ms' ELSE '60 s' END,
			same_endpoint => r % 9 = 0)
	), recorded AS (
		INSERT INTO attempts SELECT id, attempt FROM claimed
	)
	SELECT array_agg(id ORDER BY id), array_agg(attempt ORDER BY id) INTO ids, attempts FROM claimed;
EXCEPTION WHEN OTHERS THEN
	INSERT INTO errors VALUES ('claim', SQLSTATE, SQLERRM);
END \$\$;
CREATE FUNCTION finish(r int, ids bigint[], attempts int[]) RETURNS void LANGUAGE plpgsql AS \$\$
BEGIN
	CASE r % 8
	WHEN 0 THEN PERFORM quota_fail(id, attempt, 'no') FROM unnest(ids, attempts) AS c (id, attempt);
	WHEN 1 THEN PERFORM quota_fail(ids, attempts, ARRAY(SELECT 'no' FROM unnest(ids)), retry => r % 3 > 0);
	WHEN 2 THEN PERFORM quota_extend_job(ids, attempts, interval '70 s');
		PERFORM quota_complete(ids, attempts);
	WHEN 3 THEN PERFORM quota_complete(id, attempt) FROM unnest(ids, attempts) AS c (id, attempt);
	ELSE PERFORM quota_complete(ids, attempts);
	END CASE;
EXCEPTION WHEN OTHERS THEN
	INSERT INTO errors VALUES ('finish', SQLSTATE, SQLERRM);
END \$\$;
CREATE PROCEDURE work(r int) LANGUAGE plpgsql AS \$\$
DECLARE
	c record;
BEGIN
	c := claim(r);
	COMMIT;
	IF c.ids IS NOT NULL AND r % 50 > 0 THEN
		PERFORM pg_sleep(r % 10 / 1000.0);
		PERFORM finish(r / 6, c.ids, c.attempts);
	END IF;
END \$\$;
SQL

my %weights = (insert => 10, key => 3, copy => 2, cancel => 3, config => 1, back => 3, look => 1);
my @scripts;
for my $action (sort keys %weights)
{
	my $file = $node->basedir . "/$action.sql";
	append_to_file($file, "\\set r random(1, 1000000)\nSELECT act('$action', :r);\n");
	push @scripts, '-f', "$file\@$weights{$action}";
}
my $file = $node->basedir . '/work.sql';
append_to_file($file, "\\set r random(1, 1000000)\nCALL work(:r);\n");
push @scripts, '-f', "$file\@40";

sub backends
{
	return split /\n/, $node->safe_psql('postgres', <<'SQL');
SELECT pid FROM pg_stat_activity WHERE application_name = 'pgbench'
SQL
}

# Ends some backends one by one; in every second round the last one by a kill -9,
# which makes the server start anew.
my $ended = 0;
for my $round (1 .. $rounds)
{
	my $bench = IPC::Run::start(
		[
			$node->installed_command('pgbench'), '-n', '-c', $clients, '-j', 2,
			'-T', int($seconds / $rounds) + 1, "--random-seed=" . ($seed + $round),
			# a name of its own: the environment gives it this test's
			'-h', $node->host, '-p', $node->port, @scripts, 'dbname=postgres application_name=pgbench'
		],
		'>', \my $out, '2>', \my $err);
	my $end = time() + $seconds / $rounds;
	sleep(0.5);
	while (time() < $end - 0.5)
	{
		my @pids = backends();
		$ended += kill('TERM', $pids[ rand @pids ]) if @pids;
		sleep(0.3);
	}
	my @pids = backends();
	crash_backend($node, $pids[ rand @pids ]) if @pids && $round % 2 == 0;
	$bench->finish;
}

# Every client has ended; the workers of quota have not.
cmp_ok($ended, '>', $rounds, "backends were terminated: $ended");
is(scalar(() = slurp_file($node->logfile) =~ /terminated by signal 9/g), int($rounds / 2), 'and some killed');
is($node->safe_psql('postgres', <<'SQL'), '', 'no errors but those that are meant');
SELECT action, state, min(message), count(*) FROM errors
WHERE state NOT IN ('XX999',  -- rolled back on purpose
	'53Q00',                  -- too many jobs of the tenant
	'55000',                  -- stale lease
	'55P03')                  -- the job is in other hands
GROUP BY action, state ORDER BY action, state
SQL
is($node->safe_psql('postgres', 'SELECT * FROM exceeded LIMIT 5'), '', 'no cap was exceeded');
is($node->safe_psql('postgres', <<'SQL'), '0', 'every committed job is there, and no other');
SELECT count(*) FROM submitted FULL JOIN quota.jobs USING (id) WHERE submitted.id IS NULL OR jobs.id IS NULL
SQL

my $counts = <<'SQL';
WITH flows AS (
	SELECT provider, tenant, class, endpoint, depth, in_flight FROM quota.stat_flows WHERE depth <> 0 OR in_flight <> 0
), jobs AS (
	SELECT provider, tenant, class, endpoint, count(*) FILTER (WHERE state IN ('queued', 'scheduled')) AS depth,
		count(*) FILTER (WHERE state = 'running') AS in_flight
	FROM quota.jobs WHERE state IN ('queued', 'scheduled', 'running') GROUP BY 1, 2, 3, 4
)
SELECT 'flow', * FROM (TABLE flows EXCEPT TABLE jobs) AS f UNION ALL SELECT 'rows', * FROM (TABLE jobs EXCEPT TABLE flows) AS j
ORDER BY 2, 3, 4, 5, 1
SQL
$node->poll_query_until('postgres',
	'SELECT count(*) = 0 FROM quota.stat_flows WHERE depth IS NULL');
is($node->safe_psql('postgres', $counts), '', 'flows count what the rows say');
is($node->safe_psql('postgres', 'SELECT * FROM quota_audit()'), '', 'the audit finds nothing');

# What is left gets done: leases end, retries come due, nobody is suspended and limits
# are wide.
my $left = $node->safe_psql('postgres', "SELECT count(*) FROM quota.jobs WHERE state IN ('queued', 'scheduled', 'running')");
$node->safe_psql('postgres', <<'SQL');
UPDATE quota.tenants SET suspended = false;
UPDATE quota.limits SET amount = 1000000 WHERE name = 'at once';
UPDATE quota.limits SET amount = 1000000, burst = 1000000 WHERE name = 'calls';
SELECT quota_clock_set(clock_timestamp() + interval '1 hour');
SQL
for (1 .. 10000)
{
	my $done = $node->safe_psql('postgres', <<'SQL');
SELECT count(quota_complete(id, attempt)::text) FROM quota_dequeue(ARRAY['p0', 'p1'], 500);
SQL
	last if $done == 0 && $node->safe_psql('postgres', "SELECT count(*) FROM quota.jobs WHERE state IN ('queued', 'scheduled', 'running')") == 0;
	clock_advance($node, '1 s');
	last if $done == 0 && $_ > 300;
}
is($node->safe_psql('postgres', <<'SQL'), '', "every job came to its end ($left were left)");
SELECT state, count(*), min(id) FROM quota.jobs
WHERE NOT (state = 'succeeded' OR (state = 'failed' AND error IS NOT NULL) OR state = 'cancelled') OR finished_at IS NULL
GROUP BY state
SQL
is($node->safe_psql('postgres', $counts), '', 'and flows are empty');
is($node->safe_psql('postgres', "SELECT count(*) FROM quota.leases"), '0', 'no lease is left');
is($node->safe_psql('postgres', "SELECT count(*) FROM quota.dedupe"), '0', 'no key is left');
is($node->safe_psql('postgres', 'SELECT * FROM quota_audit()'), '', 'the audit finds nothing in the end');
cmp_ok($node->safe_psql('postgres', "SELECT count(*) FROM quota.jobs WHERE state = 'succeeded'"), '>', 100, 'work was done');

# Scenario 17: 8 sessions acknowledge overlapping sets in any order, while leases that
# have ended are claimed again, many are cancelled, and a tier changes.
$node->safe_psql('postgres', <<'SQL');
TRUNCATE errors;
SELECT quota_clock_set(NULL);
UPDATE quota.tiers SET max_queued = NULL;
CREATE FUNCTION sets(r int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	IF r % 8 < 5 THEN
		PERFORM quota_complete(array_agg(id), array_agg(attempt)) FROM (
			SELECT id, attempt FROM quota.jobs WHERE state = 'running' ORDER BY random() LIMIT 40) AS picked
		HAVING count(*) > 0;
	ELSIF r % 8 = 5 THEN
		PERFORM quota_cancel(id) FROM (
			SELECT id FROM quota.jobs WHERE state IN ('running', 'queued') ORDER BY random() LIMIT 20) AS picked;
	ELSIF r % 8 = 6 THEN
		PERFORM quota_dequeue('p1', 50, lease => '200 ms');
	ELSE
		UPDATE quota.tiers SET weight = 1 + r % 100 WHERE tier = 'large';
		INSERT INTO quota.jobs (tenant, provider) SELECT 't' || 1 + n % 2, 'p1' FROM generate_series(1, 60) n;
	END IF;
EXCEPTION WHEN OTHERS THEN
	INSERT INTO errors VALUES ('sets', SQLSTATE, SQLERRM);
END $$;
INSERT INTO quota.jobs (tenant, provider) SELECT 't' || 1 + n % 2, 'p1' FROM generate_series(1, 1000) n;
SQL
my $sets = $node->basedir . '/sets.sql';
append_to_file($sets, "\\set r random(1, 1000000)\nSELECT sets(:r);\n");
run_log([
	$node->installed_command('pgbench'), '-n', '-c', 8, '-j', 2, '-T', int($seconds / 6) + 1,
	"--random-seed=$seed", '-h', $node->host, '-p', $node->port, '-f', $sets, 'postgres'
]) or die 'pgbench failed';
is($node->safe_psql('postgres', <<'SQL'), '', 'overlapping sets: busy, stale or done, and nothing else');
SELECT state, min(message), count(*) FROM errors WHERE state NOT IN ('55000', '55P03') GROUP BY state
SQL
is($node->safe_psql('postgres', $counts), '', 'overlapping sets: flows count what the rows say');
is($node->safe_psql('postgres', 'SELECT * FROM quota_audit()'), '', 'overlapping sets: the audit finds nothing');
$node->stop;
my $log = slurp_file($node->logfile);
unlike($log, qr/deadlock detected/, 'no deadlock');
unlike($log, qr/PANIC|TRAP:/, 'no panic');
done_testing();
