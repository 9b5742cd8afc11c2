# Copyright (c) 2026, the quota authors

# The queue through the deaths of sessions and of the server, and in the hands of
# a background worker: marks of changed configuration, loading, whose rights
# triggers run with, what is not deleted.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;

my $timeout = $PostgreSQL::Test::Utils::timeout_default * 1000 / 3;

my $setup = q{
	INSERT INTO quota.tiers (tier) VALUES ('basic');
	INSERT INTO quota.tenants (tenant, tier) VALUES ('t', 'basic'), ('u', 'basic');
	INSERT INTO quota.providers (provider, safety) VALUES ('p', 1);
};

sub jobs
{
	my ($node, $tenant, $connection, @payloads) = @_;
	foreach my $payload (@payloads)
	{
		psql_value($node, "INSERT INTO quota.jobs (tenant, provider, connection, payload)
			VALUES ('$tenant', 'p', $connection, '$payload')");
	}
	return;
}

# no background worker: who comes first loads the queue
my $node = new_node(
	'main',
	'max_worker_processes' => 1,
	'max_logical_replication_workers' => 0);
my $claim = "SELECT payload FROM quota_dequeue('p', lease => '2 h')";

# As an administrator does; its client goes by itself.
sub end_backend
{
	my ($session) = @_;
	$session->kill_backend('TERM');
	return wait_gone($node, $session->pid);
}

$node->safe_psql('postgres', $setup);

# ---- marks of changed configuration ----

sub suspended
{
	my ($value) = @_;
	return psql_value($node, "UPDATE quota.tenants SET suspended = $value WHERE tenant = 't'");
}

jobs($node, 't', 'NULL', 1, 2);
suspended('true');
is(psql_value($node, $claim), '', 'a suspended tenant waits');
suspended('false');

my $owner = session($node);
$owner->query('BEGIN; LOCK TABLE quota.tenants IN ACCESS EXCLUSIVE MODE');
my $first = session($node);
$first->query_async($claim);
wait_event($first, 'Lock');
my $second = session($node);
$second->query_async($claim);
wait_event($second, 'Lock');
ok($second->is_busy, 'who picks while another session reads a change waits for it');
end_backend($first);
$owner->query('ROLLBACK');
is($second->wait, 1, 'and goes by it, though that session died');
is(psql_value($node, $claim), 2, 'as does whoever comes later');
$_->quit foreach ($owner, $second);

# everything at once, by a change that concerns everybody
jobs($node, 't', 'NULL', 3);
suspended('true');
is(psql_value($node, $claim), '', 'suspended again');
psql_value($node, "BEGIN; UPDATE quota.tenants SET suspended = false WHERE tenant = 't';
	INSERT INTO quota.tenants (tenant, tier) SELECT 'x' || i, 'basic' FROM generate_series(1, 1000) i; COMMIT");
$owner = session($node);
$owner->query('BEGIN; LOCK TABLE quota.tenants IN ACCESS EXCLUSIVE MODE');
$first = session($node);
$first->query_async($claim);
wait_event($first, 'Lock');
end_backend($first);
$owner->query('ROLLBACK');
$owner->quit;
is(psql_value($node, $claim), 3, 'nor does a change of many tenants get lost');

# ---- calls in flight after a crash ----

$node->safe_psql(
	'postgres', q{
	INSERT INTO quota.limits (provider, name, per, kind, amount)
		VALUES ('p', 'line', '{connection}', 'concurrency', 1)});
jobs($node, 'u', "'c'", 4, 5);
is(psql_value($node, $claim), 4, 'one job of the connection');
is(psql_value($node, $claim), '', 'and no more');
crash($node);
clock_advance($node, '3 min');
is(psql_value($node, $claim), '',
	'a job in flight before a crash still holds its connection');
psql_value($node, "SELECT quota_complete(id, attempt) FROM quota.jobs WHERE payload = '4'");
is(psql_value($node, $claim), 5, 'until it is complete');

jobs($node, 'u', "'c'", 8);
crash($node);
clock_advance($node, '3 min');
psql_value($node, q{
	BEGIN;
	DELETE FROM quota.limits;
	INSERT INTO quota.jobs (tenant, provider) VALUES ('t', 'p');
	ROLLBACK});
is(psql_value($node, $claim), '', 'whatever the session that loads has changed and not committed');

# ---- who loads the queue waits for nobody who waits for the load ----

foreach my $lock ('LOCK TABLE quota.tenants IN ACCESS EXCLUSIVE MODE',
	'ALTER TABLE quota.limits ALTER COLUMN amount DROP DEFAULT',
	'REINDEX INDEX quota.tenants_pkey',
	'LOCK TABLE quota.leases IN ACCESS EXCLUSIVE MODE')
{
	crash($node);
	$owner = session($node);
	$owner->query("BEGIN; $lock; SET statement_timeout = $timeout");
	$first = session($node);
	$first->query_async("SELECT quota_complete('{}'::bigint[], '{}')");
	wait_event($first, 'Lock');
	is($owner->fails("INSERT INTO quota.jobs (tenant, provider, payload) VALUES ('t', 'p', '6')"),
		'', "enqueue after: $lock");
	$owner->query('COMMIT');
	$first->wait;
	$_->quit foreach ($owner, $first);
}
psql_value($node, "SELECT quota_cancel(id) FROM quota.jobs WHERE payload = '6'");

# ---- a load sees no rows of its own transaction ----

$node->safe_psql(
	'postgres', q{
	CREATE TABLE audit (payload jsonb);
	CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS
	$$ BEGIN INSERT INTO audit VALUES (NEW.payload); RETURN NEW; END $$;
	CREATE TRIGGER audit BEFORE INSERT ON quota.jobs FOR EACH ROW EXECUTE FUNCTION audit()});
my $depth = "SELECT sum(depth) FROM quota.stat_flows WHERE tenant = 't'";
$node->restart;
psql_value($node, "INSERT INTO quota.jobs (tenant, provider, payload)
	SELECT 't', 'p', '7' FROM generate_series(1, 3)");
is(psql_value($node, $depth), 3, 'each row of the first statement counts once');
$node->restart;
psql_value($node, "BEGIN; INSERT INTO quota.jobs (tenant, provider, payload) VALUES ('t', 'p', '7'); ROLLBACK");
is(psql_value($node, $depth), 3, 'and none of one that rolls back');

# ---- nor does it lock what it reads ----

$node->restart;
my $serializable = session($node);
$serializable->query("BEGIN ISOLATION LEVEL SERIALIZABLE; $claim");
is( $serializable->query(
		"SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND mode = 'SIReadLock'
		 AND relation IN ('quota.jobs'::regclass, 'quota.leases'::regclass)"),
	0, 'loading takes no predicate lock on jobs');
$serializable->query('COMMIT');
$serializable->quit;
$node->stop;

# ---- history that is deleted in the background ----

$node = new_node('trim', 'quota.job_retention' => '10 s');
$node->safe_psql('postgres', $setup);
clock_set($node, '2030-01-01 00:00:00+00');

# Jobs that have finished, one for each payload; a minute later.
sub finished
{
	my @payloads = @_;
	jobs($node, 't', 'NULL', @payloads);
	psql_value($node, "SELECT quota_complete(id, attempt) FROM quota_dequeue('p', 100)");
	return;
}

# until these payloads are left of the finished jobs
sub left
{
	my ($expected, $name) = @_;
	my $query = "SELECT string_agg(payload::text, ' ' ORDER BY payload) FROM quota.jobs";

	clock_advance($node, '1 min');
	ok( $node->poll_query_until('postgres', "SELECT ($query) IS NOT DISTINCT FROM $expected"),
		$name)
	  or diag(psql_value($node, $query));
	return;
}

$node->safe_psql(
	'postgres', q{
	CREATE ROLE app LOGIN;
	CREATE ROLE other LOGIN;
	GRANT USAGE ON SCHEMA quota TO app, other;
	GRANT ALL ON ALL TABLES IN SCHEMA quota TO app, other;
	GRANT CREATE ON SCHEMA public TO app, other;
	CREATE TABLE seen (who text);
	GRANT ALL ON seen TO PUBLIC;

	CREATE TABLE keeps (job bigint REFERENCES quota.jobs);
	CREATE TABLE keeps_too (job bigint REFERENCES quota.jobs DEFERRABLE INITIALLY DEFERRED)});

finished(1 .. 5);
psql_value($node, "INSERT INTO keeps SELECT id FROM quota.jobs WHERE payload = '2';
	INSERT INTO keeps_too SELECT id FROM quota.jobs WHERE payload = '4'");
left("'2 4'", 'jobs that a foreign key keeps are in nobody else\'s way');
psql_value($node, 'DROP TABLE keeps, keeps_too');
left('NULL', 'and go when it lets them go');

my $app = session($node, user => 'app');
$app->query(q{
	CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		BEGIN
			EXECUTE 'ALTER ROLE app SUPERUSER';
		EXCEPTION WHEN OTHERS THEN NULL;
		END;
		INSERT INTO public.seen VALUES (current_user);
		RETURN OLD;
	END $$;
	CREATE TABLE follows (job bigint REFERENCES quota.jobs ON DELETE CASCADE);
	CREATE TRIGGER note AFTER DELETE ON follows FOR EACH ROW EXECUTE FUNCTION note()});
finished(1);
psql_value($node, 'INSERT INTO follows SELECT id FROM quota.jobs');
left('NULL', 'rows that follow a job go with it');
is(psql_value($node, 'SELECT who FROM seen'), 'app', 'and their triggers run as their owner');
$app->query('CREATE TRIGGER note BEFORE DELETE ON quota.jobs FOR EACH ROW EXECUTE FUNCTION note()');
finished(1);
left('NULL', 'so do triggers on the jobs');
is(psql_value($node, 'SELECT DISTINCT who FROM seen'), 'app', 'whose function\'s owner they run as');

# neither at the end of the transaction
$app->query(q{
	CREATE CONSTRAINT TRIGGER late AFTER DELETE ON follows DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW EXECUTE FUNCTION note()});
finished(1);
psql_value($node, 'INSERT INTO follows SELECT id FROM quota.jobs');
left('NULL', 'with a trigger that would wait');
is(psql_value($node, 'SELECT DISTINCT who FROM seen'), 'app', 'which does not wait');

# a second role's code
my $refused = "SELECT count(*) > 0 FROM quota.events WHERE kind = 'trim_refused'";
my $other = session($node, user => 'other');
$other->query(q{
	CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		IF OLD.payload = '3' THEN
			RAISE 'not this one';
		END IF;
		RETURN OLD;
	END $$;
	CREATE TRIGGER fail BEFORE DELETE ON quota.jobs FOR EACH ROW EXECUTE FUNCTION fail()});
is(psql_value($node, $refused), 'f', 'nothing was refused so far');
finished(1 .. 5);
clock_advance($node, '1 min');
ok($node->poll_query_until('postgres', $refused), 'code of several roles is not run');
is(psql_value($node, 'SELECT count(*) FROM quota.jobs'), 5, 'so the jobs stay');
psql_value($node, 'DROP TRIGGER note ON quota.jobs; DROP TABLE follows');
left("'3'", 'a job that a trigger keeps is in nobody else\'s way');
psql_value($node, 'DROP TRIGGER fail ON quota.jobs');
# arguments and conditions are of whoever made the trigger
$other->query(q{
	CREATE TRIGGER fail BEFORE DELETE ON quota.jobs FOR EACH ROW
		WHEN (OLD.payload IS NOT NULL) EXECUTE FUNCTION fail()});
psql_value($node, 'DELETE FROM quota.events');
clock_advance($node, '1 min');
ok($node->poll_query_until('postgres', $refused), 'nor a condition');
psql_value($node, 'DROP TRIGGER fail ON quota.jobs');
left('NULL', 'all is well that ends well');
is(psql_value($node, 'SELECT count(*) FROM pg_roles WHERE rolsuper AND rolname IN (\'app\', \'other\')'),
	0, 'nobody has become a superuser');

# events are written and deleted by the same rule
$app->query('CREATE TRIGGER note AFTER INSERT OR DELETE ON quota.events FOR EACH ROW EXECUTE FUNCTION note()');
psql_value($node, 'TRUNCATE seen');
psql_value($node, "INSERT INTO quota.limits (provider, name, kind, amount) VALUES ('p', 'slots', 'concurrency', 1);
	SELECT quota_acquire('t', 'p')");
clock_advance($node, '1 min');
psql_value($node, "SELECT quota_peek('t', 'p')");
ok($node->poll_query_until('postgres',
		"SELECT count(*) > 0 FROM quota.events WHERE kind = 'lost_permit'"),
	'an event is written');
clock_advance($node, '1 min');
ok($node->poll_query_until('postgres', 'SELECT count(*) = 0 FROM quota.events'), 'and deleted');
is(psql_value($node, 'SELECT DISTINCT who FROM seen'), 'app', 'as the owner of what that sets off');
$_->quit foreach ($app, $other);
$node->stop;

done_testing();
