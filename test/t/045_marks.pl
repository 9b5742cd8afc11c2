# Copyright (c) 2026, the quota authors

# G14, slow limits: after a crash they go on where they were, by what was logged
# ahead; G2: within what was logged a decision writes nothing.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;

my $node = new_node('main', 'restart_after_crash' => 'on');

sub acquire
{
	my ($provider, $n) = @_;
	return psql_value($node, sprintf(
		"SELECT reason FROM quota_acquire('t', '%s', n => %d)",
		$provider, $n // 1));
}

sub level
{
	my ($limit) = @_;
	return psql_value($node,
		"SELECT level FROM quota.stat_buckets WHERE limit_name = '$limit'");
}

# kills a backend as the kernel would, and waits until the server is back
sub kill_backend
{
	my $victim = session($node);

	$victim->query_async('SELECT pg_sleep(600)');
	wait_event($victim, 'Timeout', 'PgSleep');
	crash_backend($node, $victim->pid);
	return;
}

# what an acquire of n writes of the log, and whether it takes a transaction id
sub writes
{
	my ($session, $n) = @_;
	my $plan = $session->query(
		"EXPLAIN (ANALYZE, WAL, COSTS OFF, TIMING OFF, SUMMARY OFF)
		SELECT quota_acquire('t', 'month', n => $n)");
	my $xid = $session->query('SELECT pg_current_xact_id_if_assigned()');
	return ($plan =~ /WAL: records=(\d+)/ ? "$1 records" : 'nothing')
	  . ($xid eq '' ? '' : ', an id');
}

# waits until the background worker has written a row again
sub wait_for_worker
{
	my ($since) = @_;
	$node->poll_query_until('postgres',
		"SELECT max(marked_at) > '$since' FROM quota.marks")
	  or die 'no row is written';
	return;
}

$node->safe_psql(
	'postgres', q{
	INSERT INTO quota.tiers (tier) VALUES ('basic');
	INSERT INTO quota.tenants (tenant, tier) VALUES ('t', 'basic'), ('u', 'basic');
	INSERT INTO quota.providers (provider, safety)
		VALUES ('day', 1), ('month', 1), ('unused', 1), ('fast', 1), ('mixed', 1);
	INSERT INTO quota.limits (provider, name, amount, period, per)
		VALUES ('day', 'day', 1, '1 day', '{tenant}'),
			('month', 'month', 1000, '30 days', '{tenant}'),
			('unused', 'unused', 1, '1 day', '{tenant}'),
			('fast', 'fast', 60, '1 min', '{tenant}')});

# ---- 1 per day ----

is(acquire('day'), 'ok', 'one a day');
is(acquire('day'), 'rate_limited', 'no second one');
kill_backend();
is(acquire('day'), 'rate_limited', 'nor after a crash');
is( psql_value($node, q{
		SELECT not_before - quota_clock() BETWEEN '23:50' AND '24:00'
		FROM quota_acquire('t', 'day')}),
	't',
	'until a day after the first');
is(acquire('unused'), 'ok', 'what nobody had used is full after a crash');
clock_advance($node, '23:50:00');
is(acquire('day'), 'rate_limited', 'the day is not over');
clock_advance($node, '00:10:00');
is(acquire('day'), 'ok', 'now it is');
is(acquire('fast'), 'ok', 'a limit that is not slow');
psql_value($node, 'SELECT quota_clock_set(NULL)');

# ---- 1,000 per month ----

is(acquire('month', 300), 'ok', 'takes 300 of 1000');
kill_backend();
acquire('month');
my $level = level('month');
cmp_ok($level, '<=', 700, 'none of the 300 is there again');
cmp_ok($level, '>=', 700 - 1000 / 32 - 1, 'at most a slice is lost');
is(acquire('month', 9), 'ok', 'a call that the mark covers');
kill_backend();
acquire('month');
cmp_ok(level('month'), '<=', $level - 10, 'is not forgotten');
$level = level('month');
my $left = $level;
for my $i (1 .. 5)
{
	kill_backend();
	acquire('month');
	$level = level('month');
	cmp_ok($level, '<', $left, "crash $i: no more than before");
	cmp_ok($level, '>=', $left - 1000 / 32 - 2, "crash $i: a slice less");
	$left = $level;
}
is(acquire('month', $level + 1), 'rate_limited', 'more than is left');
is(acquire('month', $level), 'ok', 'all that is left');
kill_backend();
is(acquire('month'), 'rate_limited', 'nothing is left');


# ---- G2: what is logged ahead costs nothing ----

$node->safe_psql('postgres',
	"UPDATE quota.limits SET amount = 10000, burst = 10000 WHERE name = 'month'");
is(acquire('month', 100), 'ok', 'an upgrade');
my $session = session($node);
$session->query('BEGIN');
is(writes($session, 313), '1 records', 'a call that overtakes the mark writes it');
is(writes($session, 100), 'nothing', 'the next ones write nothing');
is(writes($session, 50), 'nothing', 'as long as they do not overtake it');
is(writes($session, 163), '1 records', 'one that does writes it');
is(writes($session, 20000), 'nothing', 'a refusal writes nothing');
$session->query('COMMIT');
$session->quit;

# ---- the worker logs ahead, and takes back what was returned ----

my $now = psql_value($node, 'SELECT clock_timestamp()');
acquire('month', 200);
wait_for_worker($now);
$session = session($node);
is(writes($session, 300), 'nothing', 'the worker has logged ahead');
$session->quit;

$level = level('month');
$session = session($node);
$session->query("BEGIN; SELECT quota_acquire('t', 'month', n => 2000)");
$now = $session->query('SELECT clock_timestamp()');
$session->query('ROLLBACK');
$session->quit;
is(level('month'), $level, 'what is rolled back returns');
wait_for_worker($now);
kill_backend();
acquire('month');
cmp_ok(level('month'), '>=', $level - 10000 / 32 - 2,
	'and is not lost by a crash');

# an open transaction dies with the server; its units count, as it may have told
psql_value($node, "UPDATE quota.limits SET amount = 1, period = '1 hour' WHERE name = 'unused'");
clock_advance($node, '25 hours');
psql_value($node, 'SELECT quota_clock_set(NULL)');
$session = session($node);
$session->query("BEGIN; SELECT quota_acquire('t', 'unused')");
kill_backend();
is(acquire('unused'), 'rate_limited', 'a call whose transaction a crash has cut off');
is(acquire('unused'), 'rate_limited', 'asked twice');

# ---- a clean restart is exact ----

acquire('month', 7);
$level = level('month');
$node->restart;
is(level('month'), $level, 'a clean restart loses nothing');
crash($node);
acquire('month');
cmp_ok(level('month'), '<', $level, 'nor does a crash after it admit more');

# ---- configuration ----

# from fast to slow: nothing was marked while it was fast
psql_value($node, "UPDATE quota.limits SET burst = 1, amount = 1, period = '1 s' WHERE name = 'fast'");
clock_advance($node, '1 hour');
is(acquire('fast'), 'ok', 'a fast limit');
psql_value($node,
	"UPDATE quota.limits SET period = '1 day' WHERE name = 'fast'");
is(acquire('fast'), 'rate_limited', 'becomes slow');
psql_value($node, 'SELECT quota_clock_set(NULL)');
crash($node);
is(acquire('fast'), 'rate_limited', 'and is known to be drained');
clock_advance($node, '1 day');
is(acquire('fast'), 'ok', 'for a day');
psql_value($node, 'SELECT quota_clock_set(NULL)');

# deleted and made again under the same name: what was spent stays spent
$node->safe_psql(
	'postgres', q{
	DELETE FROM quota.limits WHERE name = 'fast';
	INSERT INTO quota.limits (provider, name, amount, period, per)
		VALUES ('fast', 'fast', 1, '1 day', '{tenant}')});
crash($node);
is(acquire('fast'), 'rate_limited', 'a limit made again after it was spent');

# The same, but it was fast when it was spent, so no row knows of that; one that was
# not used is new.
$node->safe_psql(
	'postgres', q{
	INSERT INTO quota.providers (provider, safety) VALUES ('again', 1), ('anew', 1), ('back', 1);
	INSERT INTO quota.limits (provider, name, amount, period, per, burst)
		SELECT p, p, 1, '1 s', '{tenant}', 1 FROM unnest('{again,anew}'::text[]) p;
	SELECT quota_clock_advance('0 s')});
is(acquire('again'), 'ok', 'a fast limit is drained');
$node->safe_psql(
	'postgres', q{
	DELETE FROM quota.limits WHERE provider IN ('again', 'anew');
	INSERT INTO quota.limits (provider, name, amount, period, per, burst)
		SELECT p, p, 1, '1 day', '{tenant}', 1 FROM unnest('{again,anew}'::text[]) p});
crash($node);
is(acquire('again'), 'rate_limited', 'and made again as a slow one: a crash does not fill it');
is(acquire('anew'), 'ok', 'one made again that nobody had used is full');

# slow, fast and slow again: while there is a row it knows of what is taken
$node->safe_psql(
	'postgres', q{
	INSERT INTO quota.limits (provider, name, amount, period, per)
		VALUES ('back', 'back', 10, '1 day', '{tenant}');
	SELECT quota_clock_advance('0 s')});
is(acquire('back', 5), 'ok', 'half of a slow limit');
psql_value($node, "UPDATE quota.limits SET period = '1 s' WHERE name = 'back'");
is(acquire('back', 5), 'ok', 'the other half while it is fast');
psql_value($node, "UPDATE quota.limits SET period = '1 day' WHERE name = 'back'");
crash($node);
is(acquire('back'), 'rate_limited', 'it is slow again: all of it is spent after a crash');

# Other rules that nobody takes anything by are written down when a refusal has met
# them, as they may be gone without a trace.
$node->safe_psql(
	'postgres', q{
	INSERT INTO quota.providers (provider, safety) VALUES ('met', 1);
	INSERT INTO quota.limits (provider, name, amount, period, per)
		VALUES ('met', 'met', 24, '1 day', '{tenant}')});
is(acquire('met', 24), 'ok', 'all of a limit');
my ($met, $marked) = split /\|/, psql_value($node,
	'SELECT bucket, marked_at FROM quota.marks ORDER BY marked_at DESC LIMIT 1');
psql_value($node, "INSERT INTO quota.tenant_limits (tenant, provider, name, amount) VALUES ('t', 'met', 'met', 1)");
is(acquire('met'), 'rate_limited', 'an override that makes it slower is met by a refusal');
$node->poll_query_until('postgres',
	"SELECT marked_at > '$marked' FROM quota.marks WHERE bucket = '$met'")
  or die 'its row is not written again';
psql_value($node, "DELETE FROM quota.tenant_limits WHERE provider = 'met'");

# The same when nobody has met them: what did not refill by an override that came and went
# does not come back by a crash, be it one before or one after.
my $override = q{
	INSERT INTO quota.tenant_limits (tenant, provider, name, amount) VALUES ('t', 'unmet', 'unmet', 1);
	SELECT quota_clock_advance('6000 s');
	DELETE FROM quota.tenant_limits WHERE provider = 'unmet'};
$node->safe_psql(
	'postgres', q{
	INSERT INTO quota.providers (provider, safety) VALUES ('unmet', 1);
	INSERT INTO quota.limits (provider, name, amount, period, per)
		VALUES ('unmet', 'unmet', 24, '2 hours', '{tenant}');
	SELECT quota_clock_advance('0 s')});
is(acquire('unmet', 24), 'ok', 'all of another one');
($met, $marked) = split /\|/, psql_value($node,
	'SELECT bucket, marked_at FROM quota.marks ORDER BY marked_at DESC LIMIT 1');
$node->safe_psql('postgres', $override);
is(acquire('unmet'), 'rate_limited', 'it refills slowly while an override says so');
is(psql_value($node, 'SELECT * FROM quota_audit()'), '', 'and its row says no other');
$node->poll_query_until('postgres',
	"SELECT marked_at > '$marked' FROM quota.marks WHERE bucket = '$met'")
  or die 'its row is not written again';
is(psql_value($node, 'SELECT * FROM quota_audit()'), '', 'nor when it is written again');
psql_value($node, 'SELECT quota_clock_set(NULL)');
crash($node);
$node->safe_psql('postgres', "SELECT quota_clock_advance('0 s'); $override");
is( psql_value($node, "SELECT level FROM quota_explain('t', 'unmet')"),
	'0', 'nor after a crash, by an override of which it never knew');
clock_advance($node, '5 min');
is(acquire('unmet'), 'ok', 'from then on by its own rate');
psql_value($node, 'SELECT quota_clock_set(NULL)');

# an override that is deleted leaves no trace
$node->safe_psql(
	'postgres', q{
	INSERT INTO quota.limits (provider, name, amount, period, per)
		VALUES ('mixed', 'mixed', 1, '1 day', '{tenant}');
	INSERT INTO quota.tenant_limits (tenant, provider, name, amount, burst)
		VALUES ('t', 'mixed', 'mixed', 8640000, 1)});
is(acquire('mixed'), 'ok', 'much for one tenant');
psql_value($node, 'DELETE FROM quota.tenant_limits');
crash($node);
is(acquire('mixed'), 'rate_limited', 'until that is taken back');
is( psql_value($node, "SELECT reason FROM quota_acquire('u', 'mixed')"),
	'ok', 'another tenant has not used it');

# ---- the table ----

foreach my $command (
	'DELETE FROM quota.marks',
	'TRUNCATE quota.marks',
	"UPDATE quota.marks SET ahead = 0",
	"INSERT INTO quota.marks VALUES (gen_random_uuid(), 0, now(), '')")
{
	like(session($node)->fails($command),
		qr/ERROR:  cannot write to quota.marks/, "refused: $command");
}
psql_value($node, 'BEGIN; SELECT * FROM quota.marks FOR UPDATE; COMMIT');
acquire('month', 400);
$level = level('month');
my $rows = psql_value($node,
	'SELECT count(*), count(DISTINCT bucket) FROM quota.marks');
psql_value($node, 'VACUUM FULL quota.marks');
acquire('month', 400);
psql_value($node, 'VACUUM (FREEZE, DISABLE_PAGE_SKIPPING) quota.marks');
is( psql_value(
		$node, 'SELECT count(*), count(DISTINCT bucket) FROM quota.marks'),
	$rows,
	'VACUUM FULL moves rows, nobody loses his');
crash($node);
acquire('month');
cmp_ok(level('month'), '<', $level - 400, 'and they are found after a crash');
like(
	session($node)->fails(
		"BEGIN; ALTER TABLE quota.marks SET UNLOGGED; SELECT quota_acquire('t', 'month', n => 400)"
	),
	qr/ERROR:  slow limits cannot be used/,
	'nothing is promised by a table that is not logged');

# ---- two sessions read one row ----

# Only one of them makes the bucket; what the other has read is of no other bucket.
$node->safe_psql(
	'postgres', q{
	INSERT INTO quota.providers (provider, safety) VALUES ('both', 1), ('one', 1), ('two', 1), ('rest', 1);
	INSERT INTO quota.limits (provider, name, amount, period, per)
		SELECT p, p, 10, '1 day', '{tenant}' FROM unnest('{both,one,two,rest}'::text[]) p});
is(acquire('both', 1), 'ok', 'a little of one limit');
is(acquire($_, 9), 'ok', "most of $_") foreach qw(one two);
crash($node);
my $locker = session($node);
my %reader = map { $_ => session($node) } qw(one two);
# what else of the table is read once
$_->query("SELECT quota_peek('t', 'rest')") foreach values %reader;
$locker->query('BEGIN; LOCK TABLE quota.marks IN ACCESS EXCLUSIVE MODE');
foreach my $reader (values %reader)
{
	$reader->query_async("SELECT level FROM quota_explain('t', 'both')");
	wait_event($reader, 'Lock', 'relation');
}
$locker->query('COMMIT');
foreach my $name (sort keys %reader)
{
	is($reader{$name}->wait, '9', "$name: the limit that both read of");
	is($reader{$name}->query("SELECT level FROM quota_explain('t', '$name')"),
		'1', 'another one says what its own row says');
}

# ---- quota_audit() ----

# the table as it was before a call, as a file that was restored by mistake
my $audit = 'SELECT * FROM quota_audit()';
is(psql_value($node, $audit), '', 'the audit finds nothing');
$node->safe_psql(
	'postgres', q{
	INSERT INTO quota.providers (provider, safety) VALUES ('kept', 1);
	INSERT INTO quota.limits (provider, name, amount, period, per)
		VALUES ('kept', 'kept', 1000, '30 days', '{tenant}')});
acquire('kept', 100);
my $file = $node->data_dir . '/' . psql_value($node, "SELECT pg_relation_filepath('quota.marks')");
$node->stop;
my $old = slurp_file($file);
$node->start;
acquire('kept', 400);
is(psql_value($node, $audit), '', 'nor after a clean restart');
$node->stop;
unlink $file;
append_to_file($file, $old);
$node->start;
is(psql_value($node, $audit),
	'mark says too much is left|kept|kept|||units left, and by quota.marks after a crash; key "t"|500|869',
	'but that a row is too old');
acquire('kept', 32);
is(psql_value($node, $audit), '', 'until it is written again');

# a row that was deleted by force
$node->safe_psql('postgres', q{
	ALTER TABLE quota.marks DISABLE TRIGGER quota_guard;
	DELETE FROM quota.marks WHERE marked_at = (SELECT max(marked_at) FROM quota.marks);
	ALTER TABLE quota.marks ENABLE ALWAYS TRIGGER quota_guard});
is(psql_value($node, $audit),
	'mark is missing|kept|kept|||rows of quota.marks that say what is spent; key "t"|1|0',
	'a row that is missing is found');
acquire('kept', 32);
is(psql_value($node, $audit), '', 'and written anew');

# rows are free again when their buckets are full
psql_value($node, "SELECT quota_clock_advance('100 days')");
$node->poll_query_until('postgres',
	"SELECT count(*) = 0 FROM quota.marks WHERE bucket > '00000001-0000-0000-0000-000000000000'")
  or die 'some row is not freed';
ok(1, 'rows of full buckets are freed');
psql_value($node, 'SELECT quota_clock_set(NULL)');
# which is not waited for to be on disk
psql_value($node, 'CHECKPOINT');
crash($node);
is(acquire('day'), 'ok', 'and full they are after a crash');

$node->stop;
done_testing();
