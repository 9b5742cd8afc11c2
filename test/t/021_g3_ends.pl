# Copyright (c) 2026, the quota authors

# G3: however a transaction ends, what it took is as if never taken and what it
# would have given is not given; meanwhile it keeps nobody waiting.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;

my $node = new_node('main');

sub value { return psql_value($node, $_[0]) }

clock_set($node, '2030-01-01 00:00:00+00');
$node->safe_psql(
	'postgres', q{
	INSERT INTO quota.tiers (tier, max_in_flight) VALUES ('basic', 1000);
	INSERT INTO quota.tenants (tenant, tier)
		VALUES ('t', 'basic'), ('u', 'basic');
	INSERT INTO quota.providers (provider, safety) VALUES ('p', 1), ('big', 1);
	INSERT INTO quota.costs (provider, unit, cost) VALUES ('p', 'credit', 10);
	INSERT INTO quota.limits (provider, name, amount, period, burst)
		VALUES ('p', 'rate', 1, '1 h', 200), ('big', 'rate', 1, '1 h', 100000);
	INSERT INTO quota.limits (provider, name, kind, amount)
		VALUES ('p', 'slots', 'concurrency', 100),
			(NULL, 'slots everywhere', 'concurrency', 500);
	INSERT INTO quota.limits (provider, name, kind, amount, period, per, unit)
		VALUES ('p', 'credits', 'allowance', 5000, '1 month', '{tenant}', 'credit');
	INSERT INTO quota.jobs (tenant, provider, payload)
		SELECT 't', 'p', to_jsonb('job ' || i) FROM generate_series(1, 20) i;
	INSERT INTO quota.jobs (tenant, provider, payload, run_at)
		VALUES ('t', 'p', '"later"', '2031-01-01');
	INSERT INTO quota.jobs (tenant, provider, payload) VALUES ('u', 'p', '"of u"');

	CREATE FUNCTION job(label text, OUT id bigint, OUT attempt int) LANGUAGE sql AS
		'SELECT id, attempt FROM quota.jobs WHERE payload = to_jsonb(label)';

	-- one permit and three leases that a transaction may work on
	CREATE TABLE mine (permit bigint);
	INSERT INTO mine SELECT permit FROM quota_acquire('t', 'p');
	SELECT count(*) FROM quota_dequeue('p', 4);
});
is( value(q{SELECT string_agg(payload #>> '{}', ', ' ORDER BY id)
		FROM quota.jobs WHERE state = 'running'}),
	'job 1, job 2, job 3, of u', 'the jobs to work on');

# all that is known anywhere, but for counters of what was tried
my $everything = q{
	SELECT provider, limit_name, tenant, used, level, held, busy
	FROM quota.stat_buckets WHERE used > 0 OR busy ORDER BY 1, 2, 3;
	SELECT provider, tenant, class, depth, in_flight, wake_at
	FROM quota.stat_flows ORDER BY 1, 2;
	SELECT permit, job, state, expires_at FROM quota.stat_permits ORDER BY 1;
	SELECT id, state, attempt, error, payload FROM quota.jobs ORDER BY 1;
	SELECT job_id, state, attempt, permit, ready_at FROM quota.leases ORDER BY 1;
	SELECT permit, expires_at FROM quota.holds ORDER BY 1;
	SELECT kind, amount, permit FROM quota.ledger ORDER BY id;
	SELECT * FROM quota_balance('t') ORDER BY 2;
	SELECT payload FROM quota_audit() a, LATERAL to_jsonb(a) payload};

# a transaction that takes and gives one of each
my $work = q{
	SELECT quota_acquire('t', 'p', n => 2);
	SELECT quota_acquire('u', 'p');
	SELECT quota_acquire('u', 'big', n => 7);
	SELECT quota_acquire('u', 'p', units => '{"credit": 30}');
	SELECT quota_hold('u', 'p', 'credit', 50);
	SAVEPOINT a;
	SELECT quota_acquire('t', 'p');
	SELECT quota_settle(permit) FROM mine;
	SAVEPOINT b;
	SELECT count(*) FROM quota_dequeue('p', 3);
	RELEASE b;
	SELECT quota_complete(id, attempt) FROM job('job 1');
	SAVEPOINT c;
	SELECT quota_fail(id, attempt, 'no') FROM job('job 2');
	ROLLBACK TO c;
	SELECT quota_fail(id, attempt, 'no', retry => false) FROM job('job 2');
	SELECT quota_extend_job(id, attempt, '1 h') FROM job('job 3');
	SELECT quota_cancel(id) FROM job('job 20');
	SELECT quota_cancel(id) FROM job('later');
	SELECT id FROM quota_enqueue('t', 'p', '"new"', dedupe_key => 'k');
	INSERT INTO quota.jobs (tenant, provider, class, run_at)
		SELECT 't', 'p', 'batch', now() + interval '1 year'
		FROM generate_series(1, 10);
	DELETE FROM quota.jobs WHERE payload = '"job 19"';
	SELECT quota_grant('t', 'p', 'credits', 500);
	SELECT quota_adjust('u', 'p', 'credits', 5)};

# a job flow of a class that was never used before exists from its first use
value(q{INSERT INTO quota.jobs (tenant, provider, class, run_at)
	VALUES ('t', 'p', 'batch', '2040-01-01')});
my $before = value($everything);

# compares two answers, and shows the lines that differ
sub same
{
	my ($got, $expected, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my %seen;
	$seen{$_}++ foreach split /\n/, $got;
	$seen{$_}-- foreach split /\n/, $expected;
	ok($got eq $expected, $name)
	  or diag(map { ($seen{$_} > 0 ? '+' : '-') . " $_\n" }
		  grep { $seen{$_} != 0 } sort keys %seen);
	return;
}

# Whoever is left of a session gives back before it is gone.
sub is_gone
{
	my ($session) = @_;
	return wait_gone($node, $session->pid);
}

sub sleeping
{
	my ($session) = @_;
	$session->query_async('SELECT pg_sleep(600)');
	return wait_event($session, 'Timeout', 'PgSleep');
}

# does the work, ends it, compares
sub ends
{
	my ($name, $end) = @_;
	my $session = session($node);

	$session->query("BEGIN; $work");
	my $level = value(
		"SELECT level FROM quota.stat_buckets WHERE provider = 'big' AND limit_name = 'rate'");
	is($level, 100000 - 7, "$name: takes act at once");
	$end->($session);
	same(value($everything), $before, "$name: everything is as before");
	return;
}

ends('ROLLBACK', sub { $_[0]->query('ROLLBACK'); $_[0]->quit });
ends(
	'an error',
	sub {
		# the savepoint would be all that an error takes back
		$_[0]->query('RELEASE a');
		like($_[0]->fails('SELECT 1 / 0'), qr/division by zero/, 'an error');
	});
ends(
	'a failing COMMIT',
	sub {
		my $session = shift;
		$session->query(q{CREATE TEMP TABLE twice (i int UNIQUE DEFERRABLE INITIALLY DEFERRED);
			INSERT INTO twice VALUES (1), (1)});
		like($session->fails('COMMIT'), qr/duplicate key/, 'a failing COMMIT');
	});
ends(
	'PREPARE TRANSACTION',
	sub {
		like($_[0]->fails("PREPARE TRANSACTION 'g3'"),
			qr/cannot PREPARE/, 'PREPARE TRANSACTION is refused');
	});
ends(
	'pg_cancel_backend',
	sub {
		my $session = shift;
		sleeping($session);
		value('SELECT pg_cancel_backend(' . $session->pid . ')');
		eval { $session->wait };
		like($@, qr/due to user request/, 'pg_cancel_backend');
		$session->query('ROLLBACK');
	});
ends(
	'statement_timeout',
	sub {
		my $session = shift;
		$session->query("RELEASE a; SET LOCAL statement_timeout = '10ms'");
		like($session->fails('SELECT pg_sleep(600)'),
			qr/due to statement timeout/, 'statement_timeout');
	});
ends(
	'pg_terminate_backend',
	sub {
		value('SELECT pg_terminate_backend(' . $_[0]->pid . ')');
		ok(is_gone($_[0]), 'pg_terminate_backend, idle in transaction');
	});
ends(
	'pg_terminate_backend while busy',
	sub {
		sleeping($_[0]);
		value('SELECT pg_terminate_backend(' . $_[0]->pid . ')');
		ok(is_gone($_[0]), 'pg_terminate_backend, in a query');
	});
ends(
	'idle_in_transaction_session_timeout',
	sub {
		my $log = -s $node->logfile;
		$_[0]->query("SET LOCAL idle_in_transaction_session_timeout = '10ms'");
		ok(is_gone($_[0]), 'idle_in_transaction_session_timeout');
		ok( $node->log_contains(
				qr/FATAL:  terminating connection due to idle-in-transaction timeout/,
				$log),
			'it was FATAL');
	});
ends(
	'the client leaves',
	sub {
		$_[0]->kill_client;
		ok(is_gone($_[0]), 'a client that leaves');
	});
ends(
	'the client leaves in a query',
	sub {
		$_[0]->query("SET client_connection_check_interval = '100ms'");
		sleeping($_[0]);
		$_[0]->kill_client;
		ok(is_gone($_[0]), 'a client that leaves in a query');
	});
ends('the client says goodbye', sub { $_[0]->quit });

# ---- what went out stays spent, whoever dies ----

my $rate =
  "SELECT level FROM quota.stat_buckets WHERE provider = 'p' AND limit_name = 'rate'";
my $level = value($rate);
{
	my $session = session($node);
	$session->query(q{BEGIN;
		SELECT quota_settle(permit) FROM quota_acquire('t', 'p');
		SELECT quota_complete(id, attempt) FROM quota_dequeue('p', 2);
		SELECT quota_release(permit) FROM quota_acquire('t', 'p');
		SELECT quota_acquire('t', 'p')});
	is(value($rate), $level - 5, 'all of it is taken');
	value('SELECT pg_terminate_backend(' . $session->pid . ')');
	is_gone($session);
}
is(value($rate), $level - 3,
	'calls that were settled or completed stay spent, others return');
same( value($everything) =~
	  s/^(p\|rate\|\|)(\d+)\|(\d+)/$1 . ($2 - 3) . '|' . ($3 + 3)/emr,
	$before, 'and nothing else');

# ---- an open transaction keeps nobody waiting ----

my $open = session($node);
$open->query("BEGIN; $work");
my $other = session($node);
# guards: the time a call waits for another transaction is not short but forever
$other->query("SET lock_timeout = '10s'; SET statement_timeout = '60s'");

sub free
{
	my ($name, $sql, $expected) = @_;
	is($other->fails($sql), '', "$name does not wait");
	is($other->{out}, $expected, "$name does what it should") if defined $expected;
	return;
}

free('acquire', "SELECT reason FROM quota_acquire('t', 'p')", 'ok');
free('acquire for a tenant with open holds', "SELECT reason FROM quota_acquire('u', 'p')", 'ok');
free('dequeue', q{SELECT payload #>> '{}' FROM quota_dequeue('p', 2)}, "job 7\njob 8");
free('dequeue and complete',
	q{SELECT payload #>> '{}', quota_complete(id, attempt)
		FROM quota_dequeue('p')}, 'job 9|');
free('enqueue', q{SELECT created FROM quota_enqueue('t', 'p', '"another"')}, 't');
free('enqueue of many', q{INSERT INTO quota.jobs (tenant, provider)
	SELECT 'u', 'p' FROM generate_series(1, 10)}, '');
free('settle', q{SELECT quota_settle(permit) FROM quota_acquire('t', 'p')}, '');
free('grant', q{SELECT quota_grant('t', 'p', 'credits', 1)}, '');
free('cancel', q{SELECT quota_cancel(id) FROM job('job 18')}, 'cancelled');
free('a change of configuration', q{UPDATE quota.tiers SET weight = 2}, '');
free('balance and views', q{SELECT count(*) > 0 FROM quota_balance('t');
	SELECT count(*) > 0 FROM quota.stat_flows}, "t\nt");
free('audit', 'SELECT * FROM quota_audit()', '');
like($other->fails('SELECT quota_settle(permit) FROM mine'),
	qr/ERROR/, 'a permit that is being settled is refused');
like(
	$other->fails("SELECT quota_complete(id, attempt) FROM job('job 1')"),
	qr/ERROR/, 'so is a lease that is being completed');
free('the whole queue', q{SELECT count(*) > 10 FROM quota_dequeue('p', 1000)}, 't');
$open->query('ROLLBACK');
free('what rolled back', q{SELECT string_agg(payload #>> '{}', ', ') FROM quota_dequeue('p', 1000)},
	'job 4, job 5, job 6, job 19, job 20');
free('the permit', 'SELECT quota_settle(permit) FROM mine', '');
free('the lease', "SELECT quota_complete(id, attempt) FROM job('job 1')", '');
$other->query(q{SELECT quota_complete(id, attempt) FROM quota.jobs WHERE state = 'running'});
$other->query('SELECT quota_settle(permit) FROM quota.stat_permits');
is(value('SELECT count(*) FROM quota.stat_buckets WHERE busy'),
	'0', 'nothing is outstanding');
is(value('SELECT count(*) FROM quota.holds'), '0', 'nor held');
is(value('SELECT * FROM quota_audit()'), '', 'the audit finds nothing');

# ---- nor does one that has locked rows of the queue by hand ----

value(q{INSERT INTO quota.jobs (tenant, provider, payload)
	SELECT 't', 'p', to_jsonb('row ' || i) FROM generate_series(1, 4) i});
is(value(q{SELECT payload #>> '{}' FROM quota_dequeue('p')}), 'row 1', 'one is running');
value(q{SELECT quota_fail(id, attempt, 'again') FROM quota_dequeue('p')});
clock_advance($node, '1 s');
$open->query(q{BEGIN;
	SELECT FROM quota.jobs WHERE payload IN ('"row 1"', '"row 2"', '"row 3"') FOR UPDATE;
	SELECT FROM quota.leases FOR UPDATE});
free('dequeue behind locked rows', q{SELECT payload #>> '{}' FROM quota_dequeue('p')}, 'row 4');
foreach my $call ("quota_complete(id, attempt)", "quota_extend_job(id, attempt, '1 h')", 'quota_cancel(id)')
{
	like($other->fails("SELECT $call FROM job('row 1')"),
		qr/ERROR:  job \d+ is locked by another transaction/, "$call is told at once");
}
$open->query('ROLLBACK');
clock_advance($node, '1 s');
free('what was locked', q{SELECT payload #>> '{}', attempt FROM quota_dequeue('p', 10)}, "row 2|2\nrow 3|1");
$other->query(q{SELECT quota_complete(id, attempt) FROM quota.jobs WHERE state = 'running'});

# ---- savepoints within savepoints ----

value(q{DELETE FROM quota.limits WHERE provider IS NULL;
	UPDATE quota.tiers SET max_in_flight = NULL});
my $big =
  "SELECT level FROM quota.stat_buckets WHERE provider = 'big' AND limit_name = 'rate'";
my $s = session($node);
$s->query(
	'BEGIN;' . join(';',
		map { "SAVEPOINT s$_; SELECT quota_acquire('t', 'big', n => $_);
			INSERT INTO quota.jobs (tenant, provider, payload) VALUES ('t', 'big', '$_')" } 1 .. 300));
my $left = 100000 - 150 * 301;
is(value($big), $left, '300 savepoints deep');
$s->query('ROLLBACK TO s201; RELEASE s150');
is(value($big), 100000 - 100 * 201, 'the inner hundred returned');
$s->query('ROLLBACK TO s101');
is(value($big), 100000 - 50 * 101, 'so did what was released into another');
$s->query("SELECT quota_acquire('t', 'big', n => 3); RELEASE s1; COMMIT");
is(value($big), 100000 - 50 * 101 - 3, 'and the others stay');
is(value(q{SELECT count(*), max(payload::int) FROM quota_dequeue('big', 1000)}),
	'100|100', 'of the jobs those of the outer hundred are there');
$level = value($big);

# ---- exception blocks in a loop ----

$s->query(q{
	CREATE FUNCTION loop(n int, keep boolean, call text) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		FOR i IN 1..n LOOP
			BEGIN
				EXECUTE call;
				IF NOT keep THEN
					RAISE no_data_found;
				END IF;
			EXCEPTION WHEN no_data_found THEN
			END;
		END LOOP;
	END $$});
$s->query(q{SELECT loop(10000, false, $$SELECT quota_acquire('t', 'big')$$)});
is(value($big), $level, 'ten thousand that failed took nothing');
$s->query(q{BEGIN; SELECT loop(10000, true, $$SELECT quota_acquire('t', 'big')$$)});
is(value($big), $level - 10000, 'ten thousand that did not');
$s->query('ROLLBACK');
is(value($big), $level, 'return with their transaction');
# more than there are places, for permits and for claims
value(q{INSERT INTO quota.jobs (tenant, provider, payload) VALUES ('u', 'p', '"often"')});
my $claims = value($rate);
$s->query(q{SELECT loop(2000, false, $$SELECT quota_settle(permit, billed => false) FROM quota_hold('t', 'p', 'credit', 4)$$)});
$s->query(q{SELECT loop(2000, false, $$SELECT quota_release(permit) FROM quota_acquire('t', 'p')$$)});
$s->query(q{SELECT loop(2000, false, $$SELECT quota_dequeue('p')$$)});
is(value($rate), $claims, 'nor did thousands of permits and claims');
is( value(q{SELECT in_flight, depth FROM quota.stat_flows WHERE tenant = 'u' AND provider = 'p'}),
	'0|1', 'the job waits');
is(value(q{SELECT payload, attempt, quota_complete(id, attempt) FROM quota_dequeue('p')}),
	'"often"|1|', 'for its first attempt');
is(value('SELECT count(*) FROM quota.holds'), '0', 'no hold is open');
is(value('SELECT * FROM quota_audit()'), '', 'the audit finds nothing');

# ---- a permit that is over stays over, whoever has its place now ----

value(q{
	CREATE TABLE old AS SELECT (a.d).permit FROM
		(SELECT quota_acquire('t', 'p') AS d FROM generate_series(1, 50) OFFSET 0) a;
	SELECT quota_settle(permit) FROM old;
	CREATE TABLE new AS SELECT (a.d).permit FROM
		(SELECT quota_acquire('u', 'p') AS d FROM generate_series(1, 50) OFFSET 0) a;
	CREATE FUNCTION state_of(permit bigint, billed boolean DEFAULT false) RETURNS text LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM quota_settle(permit, billed => billed);
		RETURN 'settled';
	EXCEPTION WHEN OTHERS THEN
		RETURN SQLSTATE;
	END $$});
is(value('SELECT DISTINCT state_of(permit) FROM old'), '55000', 'old permits are refused');
is(value('SELECT DISTINCT state_of(permit, true) FROM old'), 'settled', 'or told the same again');
is(value('SELECT DISTINCT state_of(permit) FROM new'), 'settled', 'and new ones not harmed');
is(value('SELECT count(*) FROM quota.stat_permits'), '0', 'all are over');

# ---- isolation levels of the caller ----

foreach my $level ('REPEATABLE READ', 'SERIALIZABLE')
{
	value(q{TRUNCATE mine; INSERT INTO quota.jobs (tenant, provider, payload)
		SELECT 't', 'p', to_jsonb(i) FROM generate_series(1, 9) i});
	my $one = session($node);
	my $two = session($node);

	# Both have a snapshot before either does anything.  Where a caller's own
	# reading of the queue would be a conflict, it is left out.
	foreach my $x ($one, $two)
	{
		$x->query("BEGIN ISOLATION LEVEL $level");
		$x->query('SELECT count(*) FROM '
			  . ($level eq 'SERIALIZABLE' ? 'mine' : 'quota.jobs j, quota.leases, quota.ledger'));
	}
	value(q{SELECT quota_complete(id, attempt) FROM quota_dequeue('p')});
	value(q{INSERT INTO mine SELECT permit FROM quota_acquire('t', 'p')});
	my $label = q{SELECT payload #>> '{}' FROM quota_dequeue('p')};
	is($one->query($label), '2', "$level: dequeue passes what others have done");
	is($two->query($label), '3', "$level: and what they are doing");
	value(q{SELECT quota_complete(id, attempt) FROM quota_dequeue('p')});
	is($one->query(q{SELECT payload #>> '{}', quota_complete(id, attempt) FROM quota_dequeue('p')}),
		'5|', "$level: dequeue and complete");
	is($two->query("SELECT reason, quota_settle(permit) FROM quota_acquire('t', 'p')"),
		'ok|', "$level: acquire and settle");
	# the permit is younger than the snapshot
	$one->query('SELECT quota_settle(' . value('SELECT permit FROM mine') . ')');
	$one->query(q{INSERT INTO quota.jobs (tenant, provider, payload) VALUES ('t', 'p', '"a"')});
	$two->query(q{INSERT INTO quota.jobs (tenant, provider, payload) VALUES ('t', 'p', '"b"')});
	is($one->fails('COMMIT'), '', "$level: one commits");
	is($two->query(q{SELECT payload #>> '{}', quota_complete(id, attempt) FROM quota_dequeue('p')}),
		'6|', "$level: the other goes on");
	is($two->fails('COMMIT'), '', "$level: and commits as well");
	# a lease from before the snapshot, whose row another one has extended since
	$one->query("BEGIN ISOLATION LEVEL $level");
	$one->query('SELECT count(*) FROM mine');
	my ($id) = split /\|/, value(q{SELECT quota.jobs.id FROM quota.jobs WHERE state = 'running' LIMIT 1});
	value("SELECT quota_extend_job($id, 1, '5 min')");
	is($one->query("SELECT quota_complete($id, 1)"), '', "$level: complete of a row that has changed");
	is($one->fails('COMMIT'), '', "$level: no serialization failure");
	value(q{SELECT quota_complete(id, attempt) FROM quota_dequeue('p', 100)});
	value(q{SELECT quota_complete(id, attempt) FROM quota.jobs WHERE state = 'running'});
}
is(value('SELECT * FROM quota_audit()'), '', 'in the end the audit finds nothing');

$node->stop;
done_testing();
