# Copyright (c) 2026, the quota authors

# G4, G14: a balance that is read from rows is right at once, whoever touches it first:
# its bucket was evicted while others took and gave, the server crashed, a standby was
# promoted, or the background worker was killed while it wrote a running balance or the
# row of a period.  held is what open holds hold, whether memory knows them or not.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;

my $config = q{
	INSERT INTO quota.tiers (tier) VALUES ('basic');
	INSERT INTO quota.tenants (tenant, tier) SELECT t, 'basic' FROM unnest('{t,u,other}'::text[]) t;
	INSERT INTO quota.tenants (tenant, tier) SELECT 'n' || i, 'basic' FROM generate_series(1, 40) i;
	INSERT INTO quota.providers (provider, lost_permit) VALUES ('p', 'charge'), ('r', 'refund');
	INSERT INTO quota.limits (provider, name, per, unit, kind, amount, period, external)
		SELECT p, 'credits', '{tenant}', 'credit', 'allowance', 1000, '100 years', false FROM unnest('{p,r}'::text[]) p;

	-- from the entries alone, as quota_balance() should say it
	CREATE VIEW sums AS
		SELECT l.provider, l.tenant, (1000 - sum(l.amount - l.held)) || ' ' || sum(l.held) || ' ' || (1000 - sum(l.amount)) AS said
		FROM quota.ledger l GROUP BY 1, 2;
	CREATE VIEW balances AS
		SELECT limit_provider AS provider, t AS tenant, posted || ' ' || held || ' ' || remaining AS said
		FROM unnest('{t,u}'::text[]) t, quota_balance(t);
	CREATE VIEW wrong AS
		SELECT provider, tenant, s.said AS entries, b.said AS balance FROM sums s JOIN balances b USING (provider, tenant)
		WHERE s.said <> b.said};

my $node = new_node('main', 'restart_after_crash' => 'on', 'quota.max_buckets' => 32, 'autovacuum' => 'off');
clock_set($node, '2030-01-01 00:00:00+00');
$node->safe_psql('postgres', $config);

sub value { return psql_value($node, $_[0]) }

# posted, held, remaining
sub balance
{
	my ($provider) = @_;
	return value("SELECT said FROM balances WHERE provider = '$provider' AND tenant = 't'");
}

sub sound
{
	my ($what) = @_;
	is(value("SELECT string_agg(w::text, ', ') FROM wrong w"), '', "$what: balances are what entries say");
	is(value("SELECT string_agg(a::text, ', ') FROM quota_audit() a"), '', "$what: the audit finds nothing");
	return;
}

sub crash_at
{
	my $now = value('SELECT quota_clock()');
	crash($node);
	clock_set($node, $now);
	return;
}

# ---- eviction ----

# Other accounts need all places; says whether the bucket is there all the same.
my $evict = q{SELECT count(*) FROM (SELECT count(*) FROM generate_series(1, 40) i, quota_balance('n' || i, 'p')) s};
my $there = q{SELECT count(*) FROM quota.stat_buckets WHERE provider = 'p' AND bucket LIKE '%t%' AND bucket NOT LIKE '%n%' AND bucket NOT LIKE '%other%'};

sub evict { value($evict); return value($there) }

my $s = session($node);
is(balance('p'), '1000 0 1000', 'nothing is used');
is(value($there), '1', 'the bucket is there');
is(evict(), '0', 'and is evicted');
my %ends = (COMMIT => [ '990 0 990', '997 0 997' ], ROLLBACK => [ '1000 0 1000', '990 0 990' ]);
foreach my $end ('ROLLBACK', 'COMMIT')
{
	$s->query("BEGIN; SELECT quota_settle(permit) FROM quota_hold('t', 'p', 'credit', 10)");
	is(evict(), '1', 'not while a transaction has taken something');
	$s->query($end);
	is(evict(), '0', "when it has ended with $end it is");
	is(balance('p'), $ends{$end}[0], 'and its balance is right');
}
foreach my $end ('ROLLBACK', 'COMMIT')
{
	$s->query("BEGIN; SELECT quota_grant('t', 'p', 'credits', 7)");
	is(evict(), '1', 'not while one gives something');
	$s->query($end);
	is(evict(), '0', "after $end it is");
	is(balance('p'), $ends{ $end }[1], 'and its balance is right');
}
my $p = $s->query("SELECT permit FROM quota_hold('t', 'p', 'credit', 50, '30 s')");
is(evict(), '1', 'not while a hold is open');
is(balance('p'), '997 50 947', 'which is held');
$s->query("SELECT quota_settle($p, units => '{\"credit\": 20}')");
is(evict(), '0', 'but when it is settled');
is(balance('p'), '977 0 977', 'and so is its balance');
sound('after evictions');

# everything at once: others take, settle, grant, roll back while it is evicted again and again
value(q{CREATE PROCEDURE work(n int) LANGUAGE plpgsql AS $$
	DECLARE
		d float;
	BEGIN
		FOR i IN 1 .. n LOOP
			d := random();
			IF d < 0.5 THEN PERFORM quota_settle(permit, units => jsonb_build_object('credit', (random() * 3)::int)) FROM quota_hold('t', 'p', 'credit', 2);
			ELSIF d < 0.7 THEN PERFORM quota_grant('t', 'p', 'credits', 1);
			ELSIF d < 0.9 THEN PERFORM quota_adjust('t', 'p', 'credits', (random() * 4)::int - 2);
			ELSE PERFORM quota_balance('t', 'p'); END IF;
			IF random() < 0.3 THEN ROLLBACK; ELSE COMMIT; END IF;
		END LOOP;
	END $$});
value(qq{CREATE PROCEDURE evict(n int, INOUT gone int = 0) LANGUAGE plpgsql AS \$\$
	BEGIN
		FOR turn IN 1 .. n LOOP
			PERFORM ($evict);
			gone := gone + ($there) - 1;
			COMMIT;
		END LOOP;
		gone := -gone;
	END \$\$});
my @workers = map { session($node) } 1 .. 3;
$_->query_async('CALL work(400)') for @workers;
$s->query_async('CALL evict(200)');
$_->wait for @workers;
my $evicted = $s->wait;
cmp_ok($evicted, '>', 0, "evicted $evicted times while three sessions work");
evict();
sound('then');

# ---- after a crash, before anything has loaded the account ----

$s->query("SELECT quota_adjust('t', 'p', 'credits', 400 - used::int) FROM quota_balance('t', 'p')");
my %hold;
foreach my $provider ('p', 'r')
{
	$hold{"$provider $_"} = $s->query("SELECT permit FROM quota_hold('t', '$provider', 'credit', $_, '1 h')") for 100, 30;
	$hold{"$provider 5"} = $s->query("SELECT permit FROM quota_hold('t', '$provider', 'credit', 5, '20 s')");
	my $q = $s->query("SELECT permit FROM quota_acquire('t', '$provider', n => 4, units => '{\"credit\": 3}')");
	$s->query("SELECT quota_release($q, 1)");
	$hold{"$provider 9"} = $q;
}
is(balance('p'), '600 144 456', 'posted and held before');
is(balance('r'), '1000 144 856', 'of both');
$s->quit;
crash_at();
is(balance('p'), '600 144 456', 'and after a crash');
is(balance('r'), '1000 144 856', 'of both');
sound('after a crash');
$s = session($node);
$s->query(qq{BEGIN; SELECT quota_settle($hold{'p 100'}, units => '{"credit": 70}'); SELECT quota_settle($hold{'r 30'}, units => '{"credit": 50}')});
is(balance('p'), '600 144 456', 'what a transaction settles counts when it has committed');
$s->query('ROLLBACK');
is(balance('p'), '600 144 456', 'not when it is rolled back');
$s->query(qq{SELECT quota_settle($hold{'p 100'}, units => '{"credit": 70}'), quota_settle($hold{'r 30'}, units => '{"credit": 50}')});
is(balance('p'), '530 44 486', 'then less is held');
is(balance('r'), '950 114 836', 'and posted, more than was held too');
$s->query("SELECT quota_release($hold{'r 9'}, 2)");
is(balance('r'), '950 108 842', 'some calls were never made');
$s->query("SELECT quota_settle($hold{'p 30'})");
is(balance('p'), '500 14 486', 'and some cost what was held');
sound('settled after the crash');
$s->query("BEGIN; SELECT permit FROM quota_hold('t', 'p', 'credit', 8)");
is(balance('p'), '500 22 478', 'what open transactions hold is held');
$s->query('ROLLBACK');
clock_advance($node, '61 s');
is(balance('r'), '950 100 850', 'what has expired and returns is neither');
wait_until('the worker', sub {
	clock_advance($node, '11 s');
	value('SELECT count(*) FROM quota.holds WHERE expires_at <= quota_clock()') eq '0'
});
is(balance('r'), '950 100 850', 'whether or not that is written');
is(balance('p'), '486 0 486', 'what stays spent is not held any more');
sound('expired');

# a clean restart: some holds end meanwhile
$hold{restart} = $s->query("SELECT permit FROM quota_hold('t', 'p', 'credit', 40, '1 h')");
$s->quit;
$node->restart;
is(balance('p'), '486 40 446', 'a clean restart changes nothing');
$s = session($node);
$s->query("SELECT quota_settle($hold{restart})");
is(balance('p'), '446 0 446', 'nor settling after it');
sound('restarted');
$s->quit;

# ---- the worker is killed while it writes ----

foreach my $table ('ledger_folds', 'ledger_periods')
{
	$node->safe_psql('postgres', qq{
		CREATE OR REPLACE FUNCTION stop_here() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS \$\$
		BEGIN
			PERFORM pg_advisory_xact_lock(64);
			RETURN NULL;
		END \$\$;
		CREATE TRIGGER stop_here AFTER INSERT ON quota.$table FOR EACH ROW EXECUTE FUNCTION stop_here();
		UPDATE quota.limits SET period = '1 month', anchor = NULL WHERE kind = 'allowance'});
	$s = session($node);
	$s->query('SELECT pg_advisory_lock(64)');
	value("SELECT count(quota_settle(permit)) FROM generate_series(1, 70) i, quota_hold(CASE i % 2 WHEN 0 THEN 't' ELSE 'u' END, 'p', 'credit', 1 + 0 * i)");
	value("SELECT permit FROM quota_hold('u', 'r', 'credit', 3, '100 days')");
	clock_advance($node, '32 days') if $table eq 'ledger_periods';
	my $rows = value("SELECT count(*) FROM quota.$table");
	my $worker;
	wait_until("a row of $table", sub {
		clock_advance($node, '11 s');
		$worker = value(q{SELECT coalesce(min(pid), 0) FROM pg_stat_activity WHERE backend_type = 'quota worker' AND wait_event = 'advisory'});
	});
	is(value("SELECT count(*) FROM quota.$table"), $rows, "$table: the worker has written a row, and not committed");
	my $now = value('SELECT quota_clock()');
	crash_backend($node, $worker);
	$s->kill_client;
	clock_set($node, $now);
	is(value("SELECT count(*) FROM quota.$table"), $rows, 'it is killed: the row is not there');
	is(value("SELECT string_agg(a::text, ', ') FROM quota_audit() a"), '', 'the audit finds nothing');
	$node->safe_psql('postgres', "DROP TRIGGER stop_here ON quota.$table");
	wait_until("rows of $table", sub {
		clock_advance($node, '11 s');
		value("SELECT count(*) FROM quota.$table") > $rows
	});
	is(value("SELECT string_agg(a::text, ', ') FROM quota_audit() a"), '', 'nor when it has been written');
	is(value(q{SELECT count(*) FROM quota.ledger_folds f WHERE f.entries <> (SELECT count(*) FROM quota.ledger l WHERE l.account = f.account AND l.xid < f.upto)}),
		'0', 'running balances count all entries');
	is(value(q{SELECT count(*) FROM quota.ledger_periods p WHERE NOT EXISTS (
			SELECT FROM quota.ledger l WHERE l.account = p.account AND l.charged_at >= p.period_start AND l.charged_at < p.period_end AND l.xid < p.upto
			HAVING sum(l.amount) = p.posted + p.held AND sum(l.held) = p.held)}),
		'0', 'and periods have what entries of theirs come to');
}

# ---- closing a period fails ----

value("SELECT count(quota_settle(permit)) FROM generate_series(1, 70) i, quota_hold('t', 'p', 'credit', 1 + 0 * i)");
my $folds = value('SELECT count(*) FROM quota.ledger_folds');
wait_until('folds', sub {
	clock_advance($node, '11 s');
	value('SELECT count(*) FROM quota.ledger_folds') > $folds
});
$node->safe_psql('postgres', q{
	CREATE FUNCTION fail_here() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not now'; END $$;
	CREATE TRIGGER fail_here AFTER INSERT ON quota.ledger_periods FOR EACH ROW EXECUTE FUNCTION fail_here()});
my $from = -s $node->logfile;
my $periods = value('SELECT count(*) FROM quota.ledger_periods');
clock_advance($node, '32 days');
wait_until('failure', sub {
	clock_advance($node, '11 s');
	slurp_file($node->logfile, $from) =~ /could not fold an account.*not now/s
});
$node->safe_psql('postgres', 'DROP FUNCTION fail_here CASCADE');
is(value('SELECT count(*) FROM quota.ledger_periods'), $periods, 'a period that could not be closed is open');
# nobody has touched the account
wait_until('periods', sub {
	clock_advance($node, '11 s');
	value('SELECT count(*) FROM quota.ledger_periods') > $periods
});
is(value("SELECT string_agg(a::text, ', ') FROM quota_audit() a"), '', 'it is closed later');

# ---- a restore brings a hold that is over before its entries ----

value(q{INSERT INTO quota.holds (permit, tenant, provider, calls, created_at, expires_at)
	SELECT 4711, 'other', 'p', 1, quota_clock() - interval '1 h', quota_clock() - interval '1 min'});
$from = -s $node->logfile;
wait_until('the worker', sub {
	clock_advance($node, '11 s');
	slurp_file($node->logfile, $from) =~ /WARNING:  could not resolve hold 4711/
});
is(value('SELECT count(*) FROM quota.holds WHERE permit = 4711'), '1', 'a hold without entries stays open');
value(q{INSERT INTO quota.ledger (account, provider, limit_name, tenant, unit, kind, amount, held, permit, charged_at, created_at, xid)
	SELECT '00000000-0000-0000-0000-000000004711', 'p', 'credits', 'other', 'credit', 'hold', 5, 5, permit, created_at, created_at, '1'
	FROM quota.holds WHERE permit = 4711});
wait_until('the worker', sub {
	clock_advance($node, '11 s');
	value('SELECT count(*) FROM quota.holds WHERE permit = 4711') eq '0'
});
is(value("SELECT string_agg(kind || ' ' || amount, ', ' ORDER BY id) FROM quota.ledger WHERE permit = 4711"), 'hold 5, expire 0', 'until they are there');
is(value("SELECT string_agg(a::text, ', ') FROM quota_audit() a"), '', 'and the audit finds nothing');
$node->stop;

# ---- promotion ----

my $primary = new_node('primary', -init => { allows_streaming => 1 }, 'autovacuum' => 'off', 'quota.max_buckets' => 64);
$primary->safe_psql('postgres', $config);
$primary->safe_psql('postgres', q{
	CREATE PROCEDURE touch(n int, INOUT admitted int = 0) LANGUAGE plpgsql AS $$
	BEGIN
		WHILE pg_is_in_recovery() LOOP
			COMMIT;
		END LOOP;
		-- one that began in recovery stays read only
		COMMIT;
		FOR i IN 1 .. n LOOP
			admitted := admitted + (quota_hold('t', 'p', 'credit', 10, '1 h')).granted;
			IF i % 5 = 0 THEN
				ROLLBACK;
				admitted := admitted - 1;
			END IF;
			COMMIT;
		END LOOP;
	END $$;
	SELECT quota_settle(permit) FROM quota_hold('t', 'p', 'credit', 300);
	SELECT quota_hold('t', 'p', 'credit', 100, '1 h')});
$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->start;
my @busy = map { session($primary) } 1 .. 2;
$busy[0]->query("BEGIN; SELECT quota_settle(permit) FROM quota_hold('t', 'p', 'credit', 200)");
$busy[1]->query("BEGIN; SELECT quota_grant('t', 'p', 'credits', 500)");
$primary->safe_psql('postgres', "SELECT quota_grant('t', 'p', 'credits', 50)");
$primary->wait_for_catchup($standby);
# first touches that wait for the end of recovery
my @first = map { session($standby) } 1 .. 4;
$_->query_async('CALL touch(40)') for @first;
my $reader = session($standby);
$reader->query_async("SELECT said FROM balances WHERE provider = 'p' AND tenant = 't'");
$standby->promote;
my $admitted = 0;
$admitted += $_->wait for @first;
$reader->_finish;
my ($posted, $held, $remaining) = split / /, $standby->safe_psql('postgres', "SELECT said FROM balances WHERE provider = 'p' AND tenant = 't'");
is($posted, 750, 'after a promotion a balance has what was committed');
is($held, 100 + 10 * $standby->safe_psql('postgres', 'SELECT count(*) - 1 FROM quota.holds'), 'open holds of before, and since');
is($remaining, $posted - $held, 'and that is all');
cmp_ok($remaining, '>=', 0, 'first touches never take too much');
cmp_ok($standby->safe_psql('postgres', "SELECT count(*) FROM quota_hold('t', 'p', 'credit', 10) WHERE NOT admitted"), '>=', $remaining < 10 ? 1 : 0, 'all of it can be had');
is($standby->safe_psql('postgres', "SELECT string_agg(w::text, ', ') FROM wrong w"), '', 'balances are what entries say');
is($standby->safe_psql('postgres', "SELECT string_agg(a::text, ', ') FROM quota_audit() a"), '', 'the audit finds nothing');
$_->kill_client for @busy, @first, $reader;
$standby->stop;
$primary->stop;
done_testing();
