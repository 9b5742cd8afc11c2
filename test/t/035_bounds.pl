# Copyright (c) 2026, the quota authors

# Bounded queues under load (scenario 19), and their counts after everything that
# can end a session or the server: never more unfinished jobs than the bound, and
# never a place lost.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use IPC::Run;
use QuotaTest;

my $bound = 100;
my $sessions = 50;
my $rounds = 24;
my $node = new_node('main', 'max_connections' => 80, 'restart_after_crash' => 'on');

sub value { return psql_value($node, $_[0]) }

# jobs that fit, one at a time, until the queue says that it is full
sub fill
{
	return value(
		q{DO $$ BEGIN WHILE (SELECT created FROM quota_enqueue('hot', 'p', class => 'interactive')) LOOP COMMIT; END LOOP; END $$;
		SELECT count(*) FROM quota.jobs WHERE tenant = 'hot' AND state IN ('queued', 'scheduled', 'running')});
}

sub counts
{
	return value(
		q{SELECT unfinished, enqueuing FROM quota.stat_tenants WHERE tenant = 'hot' AND provider = 'p'});
}

$node->safe_psql(
	'postgres', qq{
	INSERT INTO quota.tiers (tier) VALUES ('basic');
	INSERT INTO quota.tenants (tenant, tier, max_queued)
		VALUES ('hot', 'basic', $bound), ('cold', 'basic', NULL);
	INSERT INTO quota.providers (provider) VALUES ('p');
	CREATE TABLE over (stop boolean);
	CREATE TABLE seen (most bigint, looks bigint);
	CREATE PROCEDURE watch() LANGUAGE plpgsql AS \$\$
	DECLARE
		most bigint = 0;
		looks bigint = 0;
	BEGIN
		WHILE NOT EXISTS (SELECT FROM over) LOOP
			SELECT greatest(most, count(*)) INTO most FROM quota.jobs
			WHERE tenant = 'hot' AND state IN ('queued', 'scheduled', 'running');
			looks := looks + 1;
			COMMIT;
		END LOOP;
		INSERT INTO seen VALUES (most, looks);
	END \$\$;
	CREATE PROCEDURE work(n int) LANGUAGE plpgsql AS \$\$
	BEGIN
		FOR i IN 1 .. n LOOP
			PERFORM quota_complete(id, attempt) FROM quota_dequeue('p', 3) WHERE tenant = 'hot' OR i % 4 = 0;
			COMMIT;
		END LOOP;
	END \$\$;
});

# ---- scenario 19: fifty sessions, every kind of insert ----

my $hot = "INSERT INTO quota.jobs (tenant, provider) VALUES ('hot', 'p')";
my @kinds = (
	"$hot;",
	"$hot, ('hot', 'p'), ('hot', 'p'), ('hot', 'p'), ('hot', 'p');",
	"COPY quota.jobs (tenant, provider, class) FROM STDIN;\n" . "hot\tp\tbatch\n" x 7 . "\\.",
	"BEGIN; $hot; SAVEPOINT s; $hot, ('hot', 'p'); ROLLBACK TO s; $hot; COMMIT;",
	"BEGIN; $hot, ('hot', 'p'), ('hot', 'p'), ('hot', 'p'); ROLLBACK;",
	"INSERT INTO quota.jobs (id, tenant, provider) SELECT 9000000 + n % 3, 'hot', 'p' FROM generate_series(1, 6) n ON CONFLICT DO NOTHING;",
	"SELECT reason FROM quota_enqueue('hot', 'p', dedupe_key => 'key');",
	"CALL work(3);");
my $watcher = session($node);
$watcher->query_async('CALL watch()');

my @psql;
for my $i (1 .. $sessions)
{
	my $script = "\\set VERBOSITY sqlstate\n";
	for my $k (1 .. $rounds)
	{
		$script .= $kinds[ ($i * 7 + $k * ($i % 3 + 1)) % @kinds ] . "\n";
		$script .= "INSERT INTO quota.jobs (tenant, provider) VALUES ('cold', 'p');\n" if $k % 4 == 0;
	}
	my $file = $node->basedir . "/session$i.sql";
	append_to_file($file, $script);
	my $out = '';
	push @psql,
	  { out => \$out, harness => IPC::Run::start([
			$node->installed_command('psql'), '-XAtq', '-d',
			$node->connstr('postgres'), '-f', $file ], '<', \undef, '>&', \$out) };
}
$_->{harness}->finish for @psql;
$node->safe_psql('postgres', 'INSERT INTO over VALUES (true)');
$watcher->wait;

my %errors;
foreach my $psql (@psql)
{
	$errors{$1}++ while ${ $psql->{out} } =~ /(?:ERROR|FATAL):\s+(\S+)/g;
}
# what the rest of a failed transaction says is nothing of ours
delete @errors{qw(25P02 3B001)};
is(join(' ', sort keys %errors), '53Q00', 'scenario 19: exactly one SQLSTATE');
cmp_ok($errors{'53Q00'} // 0, '>', 20, 'many were refused');
my ($most, $looks) = split /\|/, value('SELECT * FROM seen');
cmp_ok($most, '<=', $bound, 'scenario 19: committed rows never exceed the bound');
cmp_ok($most, '>', $bound * 0.9, 'they come near it');
cmp_ok($looks, '>', 100, 'somebody has looked often');
is(value("SELECT count(*) FROM quota.jobs WHERE tenant = 'cold'"),
	$sessions * int($rounds / 4), 'scenario 19: another tenant is not concerned');
is(fill(), $bound, 'no place is lost: it can be filled up to the bound');
is(counts(), "$bound|0", 'and is counted so');

# ---- sessions that end ----

value("DELETE FROM quota.jobs WHERE tenant = 'hot'");
is(counts(), '0|0', 'the queue is empty');
my $a = session($node);
my $b = session($node);
$a->query("BEGIN; INSERT INTO quota.jobs (tenant, provider) SELECT 'hot', 'p' FROM generate_series(1, 60)");
is($b->fails("BEGIN; INSERT INTO quota.jobs (tenant, provider) SELECT 'hot', 'p' FROM generate_series(1, 41)")
	=~ /Unfinished jobs: 0; being enqueued: 100; max_queued: 100/ ? 'full' : $b->notices,
	'full', 'places of open transactions count');
$b->query('ROLLBACK');
is(counts(), '0|60', 'those of the refused statement have come back');
$a->kill_backend('TERM');
$node->poll_query_until('postgres',
	"SELECT enqueuing = 0 FROM quota.stat_tenants WHERE tenant = 'hot'")
  or die 'places of a session that was terminated did not come back';
is(fill(), $bound, 'those of a terminated session have come back');

# a query is cancelled in the middle of its rows
value("DELETE FROM quota.jobs WHERE tenant = 'hot'");
value('CREATE TABLE gate (); CREATE FUNCTION pass(n int) RETURNS int LANGUAGE plpgsql AS
	$$ BEGIN IF n = 50 THEN LOCK TABLE gate; END IF; RETURN n; END $$');
$b->query('BEGIN; LOCK TABLE gate');
my $c = session($node);
$c->query_async("INSERT INTO quota.jobs (tenant, provider, payload) SELECT 'hot', 'p', to_jsonb(pass(n)) FROM generate_series(1, 60) n");
wait_event($c, 'Lock');
is(counts(), '0|49', 'rows take their places one by one');
$c->kill_backend('INT');
like(($c->_finish, $c->notices)[-1], qr/canceling statement/, 'cancelled');
is(counts(), '0|0', 'places of a cancelled statement come back');
$b->query('ROLLBACK');

# ---- a refused COPY stops at once ----

my $file = $node->basedir . '/million';
append_to_file($file, "hot\tp\n" x 1_000_000);
like($b->fails("COPY quota.jobs (tenant, provider) FROM '$file'"),
	qr/COPY jobs, line 101: /, 'a COPY of a million rows stops at the first that is refused');
is(counts(), '0|0', 'and leaves nothing');

# ---- restarts ----

$b->query("INSERT INTO quota.jobs (tenant, provider) SELECT 'hot', 'p' FROM generate_series(1, 40)");
$b->query("SELECT count(*) FROM quota_dequeue('p', 10)");
$b->quit;
$node->restart;
is(fill(), $bound, 'a clean restart keeps the counts');
is(counts(), "$bound|0", 'exactly');

value("DELETE FROM quota.jobs WHERE tenant = 'hot' AND state = 'queued'");
my $kept = value("SELECT count(*) FROM quota.jobs WHERE tenant = 'hot'");
$a = session($node);
$a->query("BEGIN; INSERT INTO quota.jobs (tenant, provider) SELECT 'hot', 'p' FROM generate_series(1, 60)");
crash_backend($node, $a->pid);
is(value("SELECT count(*) FROM quota.jobs WHERE tenant = 'hot'"), $kept, 'kill -9: what was open is gone');
is(fill(), $bound, 'kill -9: as many places as before');
is(counts(), "$bound|0", 'exactly');
is(value("SELECT kind || ' ' || (count(*) > 0) FROM quota.events WHERE kind = 'shed' AND tenant = 'hot' AND provider = 'p' GROUP BY kind"),
	'shed true', 'what was shed is kept');

# ---- a dump is restored, whatever the bounds ----

$node->safe_psql('postgres', "UPDATE quota.tenants SET max_queued = 30 WHERE tenant = 'hot'");
my $dump = $node->basedir . '/dump';
$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, $node->connstr('postgres') ], 'pg_dump');
$node->safe_psql('postgres', 'CREATE DATABASE restored');
$node->command_ok([ qw(pg_restore -e -j2 -d), $node->connstr('restored'), $dump ], 'restore');
is($node->safe_psql('restored',
		"SELECT unfinished, enqueuing FROM quota.stat_tenants WHERE tenant = 'hot'"),
	"$bound|0", 'a restore is not refused, and counts');
is($node->safe_psql('restored',
		"SELECT reason, limit_name FROM quota_enqueue('hot', 'p')"),
	'queue_full|tenant', 'after it the bound holds');

# rows that know their flow come from a dump, in whatever order its tables do
my $rows = $node->basedir . '/rows';
$node->safe_psql('restored', qq{
	COPY (SELECT * FROM quota.jobs WHERE tenant = 'hot' AND state = 'queued') TO '$rows';
	DELETE FROM quota.jobs WHERE tenant = 'hot' AND state = 'queued';
	COPY quota.jobs FROM '$rows';});
is($node->safe_psql('restored',
		"SELECT unfinished, enqueuing FROM quota.stat_tenants WHERE tenant = 'hot'"),
	"$bound|0", 'the same when the bound is there first');

# ---- what was shed is told at once, then once a minute ----

# the events, once there are so many
sub told
{
	my ($events) = @_;
	$node->poll_query_until('postgres',
		"SELECT count(*) >= $events FROM quota.events WHERE kind = 'shed' AND tenant = 'quiet'")
	  or die 'no event of what was shed';
	return value("SELECT at AT TIME ZONE 'UTC', provider, detail FROM quota.events WHERE kind = 'shed' AND tenant = 'quiet' ORDER BY id");
}

my $one = 'refused since the last such event';
clock_set($node, '2030-01-01 00:00:00+00');
value("INSERT INTO quota.tenants (tenant, tier, max_queued) VALUES ('quiet', 'basic', 0)");
value("SELECT reason FROM quota_enqueue('quiet', 'p', class => 'batch')");
my $told = "2030-01-01 00:00:00|p|class batch: limit of the tenant is 0; 1 $one";
is(told(1), $told, 'the first one is told at once');
wait_idle($node);
value("SELECT count(*) FROM generate_series(1, 4) i, quota_enqueue('quiet', 'p', to_jsonb(i), class => 'batch')");
clock_advance($node, '59 s');
is(value("BEGIN; SELECT reason FROM quota_enqueue('quiet', 'p'); ROLLBACK"), 'queue_full', 'refused in a transaction that rolls back');
is(told(1), $told, 'nothing more within a minute');
clock_advance($node, '1 s');
$told .= "\n2030-01-01 00:01:00|p|class event: limit of the tenant is 0; 5 $one";
is(told(2), $told, 'what nobody came after is told when the minute is over');
clock_advance($node, '60 s');
like((session($node)->fails("INSERT INTO quota.jobs (tenant, provider) VALUES ('quiet', 'p')")),
	qr/the queue of tenant "quiet" at provider "p" is full/, 'refused by an INSERT');
$told .= "\n2030-01-01 00:02:00|p|class event: limit of the tenant is 0; 1 $one";
is(told(3), $told, 'at once again after a quiet minute');
value("SELECT count(*) FROM generate_series(1, 2) i, quota_enqueue('quiet', 'p', to_jsonb(i), class => 'batch')");
clock_advance($node, '10 s');
$node->restart;
$told .= "\n2030-01-01 00:02:10|p|class batch: limit of the tenant is 0; 2 $one";
is(told(4), $told, 'a shutdown tells what is left');
is(value("SELECT shed FROM quota.stat_tenants WHERE tenant = 'quiet'"), 9, 'and keeps the count');

done_testing();
