# Copyright (c) 2026, the quota authors

# A dump holds everything that must survive: what is restored from it goes on
# where the original was, and neither knows of the other.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;

my $node = new_node('main');
my $dump = PostgreSQL::Test::Utils::tempdir();

sub in
{
	my ($database, $sql) = @_;
	return $node->safe_psql($database, $sql);
}

# the SQLSTATE of a statement that fails
sub failure
{
	my ($database, $sql) = @_;
	my ($code, $out, $err) = $node->psql($database, $sql, extra_params => [ '-v', 'VERBOSITY=sqlstate' ]);
	return $err;
}

clock_set($node, '2030-01-01 12:00:00+00');
in('postgres', q{CREATE DATABASE app});
in( 'app', q{
	CREATE EXTENSION quota;

	INSERT INTO quota.classes VALUES ('nightly', 7);
	UPDATE quota.classes SET rank = 5 WHERE class = 'batch';
	INSERT INTO quota.tiers VALUES ('free', 0.5, 20), ('paid', 10, NULL);
	INSERT INTO quota.tenants (tenant, tier, seats, weight, max_in_flight, suspended)
		VALUES ('t', 'paid', 3, NULL, NULL, false), ('it''s "u"\\', 'free', 1, 2.125, 7, false),
			('gone', 'free', 1, NULL, NULL, true);
	INSERT INTO quota.providers (provider, account, safety, share_unit, retry_base, retry_max, lost_permit, lease)
		VALUES ('p', 'acc', 0.75, 'token', '10 s', '1 h', 'refund', '2 min'), ('q', NULL, 1, 'request', '1 s', '1 s', 'charge', '60 s');
	INSERT INTO quota.limits (provider, name, endpoint, per, unit, kind, amount, period, burst, anchor, per_seat)
		VALUES ('p', 'rate', 'chat*', '{tenant,user}', 'request', 'token_bucket', 100.5, '1 min', 40, NULL, true),
			('p', 'credits', NULL, '{tenant}', 'credit', 'allowance', 1000, '1 month', NULL, '2000-01-15 06:00+00', false),
			('q', 'slots', NULL, '{}', 'request', 'concurrency', 5, NULL, NULL, NULL, false),
			('q', 'rate', NULL, '{}', 'request', 'token_bucket', 1, '1 h', 10, NULL, false),
			(NULL, 'all', NULL, '{tenant}', 'request', 'concurrency', 50, NULL, NULL, NULL, false);
	INSERT INTO quota.tier_limits (tier, provider, name, amount, burst, multiplier)
		VALUES ('free', 'p', 'rate', 7, 3, NULL), ('paid', NULL, 'all', NULL, NULL, 2.5);
	INSERT INTO quota.tenant_limits (tenant, provider, name, amount, burst, multiplier)
		VALUES ('t', 'p', 'credits', 5000, NULL, NULL), ('t', 'p', 'rate', NULL, NULL, NULL);
	INSERT INTO quota.costs VALUES ('p', NULL, 'credit', 10), ('p', 'chat', 'token', 1000000000);
	INSERT INTO quota.answers VALUES ('p', 402, NULL, NULL, 'exhausted', 'account', NULL),
		(NULL, NULL, 'x-left', NULL, 'remaining', NULL, 'rate');

	-- jobs in every state; "j" names them
	INSERT INTO quota.jobs (tenant, provider, payload) VALUES ('t', 'q', '"succeeded"');
	SELECT quota_complete(id, attempt, '{"x": [1, null]}') FROM quota_dequeue('q');
	INSERT INTO quota.jobs (tenant, provider, payload, dedupe_key) VALUES ('t', 'q', '"failed"', 'done');
	SELECT quota_fail(id, attempt, E'line one\nline two\ttab', 503, retry => false) FROM quota_dequeue('q');
	INSERT INTO quota.jobs (tenant, provider, payload) VALUES ('t', 'q', '"retry"');
	SELECT quota_fail(id, attempt, 'again', headers => '{"retry-after": 30}') FROM quota_dequeue('q');
	INSERT INTO quota.jobs (tenant, provider, payload) VALUES ('t', 'q', '"cancelled"');
	SELECT quota_cancel(id) FROM quota.jobs WHERE payload = '"cancelled"';
	INSERT INTO quota.jobs (tenant, provider, payload) VALUES ('t', 'q', '"running"'), ('t', 'q', '"running on"');
	SELECT count(*) FROM quota_dequeue('q', 10, worker => 'w');
	INSERT INTO quota.jobs (tenant, provider, endpoint, class, payload, units, connection, dedupe_key, max_attempts)
		VALUES ('t', 'q', 'e', 'nightly', '"queued"', '{"request": 2}', 'c', 'key', 9),
			('it''s "u"\\', 'q', NULL, 'interactive', '"of u"', NULL, NULL, NULL, 1);
	INSERT INTO quota.jobs (tenant, provider, payload, run_at, dedupe_key)
		VALUES ('t', 'q', '"scheduled"', '2030-01-02 12:00+00', 'later'), ('t', 'q', '"never"', 'infinity', NULL);
	INSERT INTO quota.jobs (tenant, provider, payload) VALUES ('t', 'p', '"with credits"');
	SELECT count(*) FROM quota_dequeue('p', lease => '5 min');
	INSERT INTO quota.jobs (tenant, provider, payload) SELECT 't', 'q', to_jsonb(i) FROM generate_series(1, 1000) i;
	DELETE FROM quota.jobs WHERE payload > '900' AND payload <= '1000';

	-- entries of every kind, and a hold that stays open
	SELECT quota_settle(permit, units => '{"credit": 3}') FROM quota_acquire('t', 'p');
	SELECT quota_refund(permit, 2, 'sorry') FROM quota.ledger WHERE kind = 'settle' LIMIT 1;
	SELECT quota_grant('t', 'p', 'credits', 100, 'gift');
	SELECT quota_adjust('t', 'p', 'credits', 7);
	-- grants that expire: of the first one 50 are gone when the hold is lost
	SELECT quota_grant('t', 'p', 'credits', 90, expires_at => '2030-01-01 12:00:08+00');
	SELECT quota_settle(permit) FROM quota_hold('t', 'p', 'credit', 40);
	SELECT quota_grant('t', 'p', 'credits', 60, expires_at => '2030-01-10 00:00:00+00');
	SELECT permit FROM quota_hold('t', 'p', 'credit', 30, '10 s');
	-- a call with a key
	SELECT quota_acquire('it''s "u"\\', 'q', connection => 'c', key => 'a "key"');
	CREATE TABLE mine (job bigint REFERENCES quota.jobs, permit bigint);
	SELECT quota_clock_advance('11 s');
});
# the next decision notices that the hold was lost, a worker writes it down
in('app', q{SELECT quota_peek('t', 'p')});
ok( $node->poll_query_until(
		'app',
		'SELECT count(*) > 0 FROM quota.events HAVING (SELECT count(*) = 1 FROM quota.ledger WHERE kind = $$expire$$)'
	),
	'a hold was lost');
in('app', q{INSERT INTO mine SELECT (SELECT max(id) FROM quota.jobs), permit
	FROM quota_hold('t', 'p', 'credit', 40, '1 h')});
clock_advance($node, '10 s');
# its row has 20, or 50 when it was written after the hold was lost
ok($node->poll_query_until('app', 'SELECT count(*) = 1 FROM quota.ledger_expired'), 'a grant has expired');
is( in('app', 'SELECT string_agg(DISTINCT kind, $$ $$ ORDER BY kind) FROM quota.ledger'),
	'adjust expire grant hold refund settle',
	'entries of every kind');
is( in('app', 'SELECT string_agg(DISTINCT state, $$ $$ ORDER BY state) FROM quota.jobs'),
	'cancelled failed queued running scheduled succeeded',
	'jobs in every state');

# Everything in our tables, but for what quota keeps about this server (also
# quota.marks, quota.ledger_folds, quota.ledger_accounts), and what the leases of a restored database begin anew.
my $tables = in('app', q{SELECT relname FROM pg_class
	WHERE relnamespace = 'quota'::regnamespace AND relkind = 'r' AND relname NOT IN ('marks', 'ledger_folds', 'ledger_accounts') ORDER BY 1});

sub contents
{
	my ($database) = @_;
	my $all = '';
	foreach my $table (split /\n/, $tables)
	{
		my $new = $table eq 'leases' ? ",ready_at,permit,worker,original_at,claimed_at"
		  : $table eq 'ledger' ? ',xid' : $table eq 'ledger_periods' ? ',upto' : $table eq 'ledger_expired' ? ',upto,xid' : '';
		$all .= "$table:\n"
		  . in($database, "SELECT to_jsonb(t) - '{created_epoch,changed_epoch,changed_ns$new}'::text[]
				FROM quota.$table t ORDER BY 1") . "\n";
	}
	$all .= in($database, q{SELECT sequencename, last_value FROM pg_sequences
		WHERE schemaname = 'quota' AND sequencename <> 'ledger_folded' ORDER BY 1});
	return $all;
}

# What decisions follow from; "held" counts holds whose permits are in memory.
my $balance = q{SELECT b.t, limit_name, unit, amount, used, remaining, period_start, period_end, expiring, expires_at
	FROM unnest(ARRAY['t', 'it''s "u"\']) b (t), quota_balance(b.t, 'p') ORDER BY 1, 2;
	SELECT * FROM quota_audit()};

my $contents = contents('app');
my $balances = in('app', $balance);
like($balances, qr/^t\|credits\|credit\|5000\|-102\|5102\|/m, 'a balance to compare with');
my $memory = 'SELECT * FROM quota.stat_buckets ORDER BY 1, 2, 3; SELECT * FROM quota.stat_permits ORDER BY 1;
	SELECT * FROM quota.stat_flows ORDER BY 1, 2, 3, 4';
my $in_memory = in('app', $memory);

$node->command_ok([ 'pg_dump', '-f', "$dump/plain", $node->connstr('app') ], 'pg_dump');
$node->command_ok([ 'pg_dump', '-Fc', '-f', "$dump/custom", $node->connstr('app') ], 'pg_dump -Fc');
$node->command_ok([ 'pg_dump', '-Fd', '-j2', '-f', "$dump/directory", $node->connstr('app') ], 'pg_dump -Fd -j2');
$node->command_ok([ 'pg_dump', '-a', '-f', "$dump/data", $node->connstr('app') ], 'pg_dump -a');

in('postgres', "CREATE DATABASE $_") foreach qw(plain custom directory data);
in('data', 'CREATE EXTENSION quota; CREATE TABLE mine (job bigint REFERENCES quota.jobs, permit bigint)');
my %restore = (
	plain => [ qw(psql -Xq -v ON_ERROR_STOP=1 -f), "$dump/plain", '-d' ],
	custom => [ qw(pg_restore -e -j2), "$dump/custom", '-d' ],
	directory => [ qw(pg_restore -e -j2), "$dump/directory", '-d' ],
	data => [ qw(psql -Xq -v ON_ERROR_STOP=1 -f), "$dump/data", '-d' ]);

foreach my $to (sort keys %restore)
{
	$node->command_ok([ @{ $restore{$to} }, $node->connstr($to) ], "$to: restore");
	is(contents($to), $contents, "$to: all rows are there");
	is(in($to, $balance), $balances, "$to: balances and audit");
	is( in($to, 'SELECT sum(depth), sum(in_flight) FROM quota.stat_flows'),
		in('app', 'SELECT count(*) FILTER (WHERE state IN ($$queued$$, $$scheduled$$)),
			count(*) FILTER (WHERE state = $$running$$) FROM quota.jobs'),
		"$to: the queue knows them");
}
is(contents('app'), $contents, 'the original is as it was');
is(in('app', $memory), $in_memory, 'in memory too');

# ---- a restored database works ----

foreach my $db ('custom', 'data')
{
	is( in($db, q{SELECT count(*), count(quota_complete(id, attempt)::text) FROM quota_dequeue('q', 1)
			WHERE payload = '"of u"'}),
		'1|1', "$db: interactive goes first");
	is(in($db, q{SELECT payload, attempt FROM quota_dequeue('q', 1)}),
		'"retry"|2', "$db: a retry goes on with its next attempt");
	is(in($db, q{SELECT payload, attempt FROM quota_dequeue('q', 1)}),
		'1|1', "$db: the oldest after it");
	is(in($db, q{SELECT created, (SELECT payload FROM quota.jobs j WHERE j.id = e.id)
		FROM quota_enqueue('t', 'q', dedupe_key => 'key') e}),
		'f|"queued"', "$db: dedupe keys are known");
	is(in($db, q{SELECT created, id > (SELECT max(job) FROM mine) FROM quota_enqueue('t', 'q', '"new"', dedupe_key => 'done')}),
		't|t', "$db: those of finished jobs are free, ids go on");
	my $charged = q{SELECT limit_name, bucket, used, admitted FROM quota.stat_buckets WHERE provider = 'q' ORDER BY 1, 2};
	my $before = in($db, $charged);
	is(in($db, q{SELECT granted, reason, remaining, permit = (SELECT permit FROM quota.keys)
		FROM quota_acquire('it''s "u"\', 'q', connection => 'c', key => 'a "key"')}),
		in('app', 'SELECT granted, reason, remaining, true FROM quota.keys'), "$db: a call with a known key gets the answer it got");
	like(failure($db, q{SELECT quota_acquire('it''s "u"\', 'q', n => 2, connection => 'c', key => 'a "key"')}),
		qr/ERROR:  23505/, "$db: another one is refused");
	is(in($db, $charged), $before, "$db: neither is charged");
	is(in($db, q{SELECT quota_complete(id, attempt) FROM quota.jobs WHERE payload = '"running on"'}),
		'', "$db: who runs a job can still complete it");
	is(in($db, q{SELECT quota_settle(permit, units => '{"credit": 15}') FROM mine;
		SELECT count(*) FROM quota.holds JOIN mine USING (permit)}),
		"\n0", "$db: a hold can be settled");
	is(in($db, 'SELECT * FROM quota_audit()'), '', "$db: the audit finds nothing");
}
is(in('app', $memory), $in_memory, 'which nobody notices elsewhere');
is(in('app', $balance), $balances, 'nor does the ledger');

clock_advance($node, '61 s');
is( in('custom', q{SELECT string_agg(payload #>> '{}' || ' ' || attempt, ', ') FROM quota_dequeue('q', 4)}),
	'retry 3, running 2, 1 2, 2 1', 'leases end, oldest first');
is( in('custom', q{SELECT quota_complete(id, 2) FROM quota.jobs WHERE payload = '"running"'; SELECT 'ok'}),
	"\nok", 'and somebody else completes them');
clock_advance($node, '1 day');
in('custom', q{DELETE FROM quota.jobs WHERE state = 'queued' AND attempt = 0
	AND id NOT IN (SELECT job FROM mine)});
is( in('custom', q{SELECT count(*) FROM quota_dequeue('q', 5) WHERE payload = '"scheduled"'}),
	'1', 'what was scheduled comes due');
is(in('custom', 'SELECT * FROM quota_audit()'), '', 'the audit finds nothing');

# ---- databases do not mix ----

sub reasons
{
	my ($database) = @_;
	return in($database, q{SELECT string_agg((a.d).reason, ' ') FROM
		(SELECT quota_acquire('t', 'q', n => 4) AS d FROM generate_series(1, 2) OFFSET 0) a});
}
in('postgres', "CREATE DATABASE twin$_ TEMPLATE data") foreach 1, 2;
is(reasons("twin$_"), 'ok concurrency_limited', "twin $_ has limits of its own") foreach 1, 2;
in('twin1', q{UPDATE quota.limits SET amount = 100 WHERE name = 'slots'});
is(reasons('twin2'), 'concurrency_limited concurrency_limited', 'and a configuration');
my ($permit) = split /\n/, in('twin1', 'SELECT permit FROM quota.stat_permits WHERE job IS NULL');
isnt(scalar $node->psql('twin2', "SELECT quota_settle($permit)"), 0, 'and permits');

# ---- an extension that is created anew knows nothing ----

my $count = 'SELECT ' . join ' + ', map { "(SELECT count(*) FROM quota.$_)" }
  qw(jobs leases dedupe ledger holds events tenants stat_buckets stat_flows stat_permits);
in('twin1', 'BEGIN; DROP TABLE mine; DROP EXTENSION quota; ROLLBACK');
is(in('twin1', 'SELECT count(*) FROM quota.stat_permits WHERE job IS NULL'),
	'1', 'DROP EXTENSION that rolls back forgets nothing');
in('twin1', 'DROP TABLE mine; DROP EXTENSION quota');
is( in('twin1', q{SELECT count(*) FROM pg_namespace WHERE nspname = 'quota'}),
	'0', 'DROP EXTENSION leaves nothing');
in('twin1', 'CREATE EXTENSION quota');
is(in('twin1', $count), '0', 'and CREATE EXTENSION finds nothing');
is(in('twin1', 'SELECT count(*) FROM quota.classes'), '3', 'but what it brings');
in('twin1', q{
	INSERT INTO quota.tiers (tier) VALUES ('basic');
	INSERT INTO quota.tenants (tenant, tier) VALUES ('t', 'basic');
	INSERT INTO quota.providers (provider, safety) VALUES ('q', 1);
	INSERT INTO quota.limits (provider, name, amount, period, burst) VALUES ('q', 'rate', 1, '1 h', 8);
	INSERT INTO quota.limits (provider, name, kind, amount) VALUES ('q', 'slots', 'concurrency', 8)});
is(reasons('twin1'), 'ok ok', 'everything is there to be had');
is(reasons('twin2'), 'concurrency_limited concurrency_limited', 'here only');
in('postgres', 'DROP DATABASE twin2');
in('postgres', 'CREATE DATABASE twin2');
in('twin2', 'CREATE EXTENSION quota');
is(in('twin2', $count), '0', 'nor does a database of the same name');

# ---- in another schema ----

in('postgres', "CREATE DATABASE $_") foreach qw(elsewhere copy);
in('elsewhere', q{
	CREATE SCHEMA "My Schema";
	CREATE EXTENSION quota SCHEMA "My Schema";
	INSERT INTO quota.tiers (tier) VALUES ('basic');
	INSERT INTO quota.tenants (tenant, tier) VALUES ('t', 'basic');
	INSERT INTO quota.providers (provider) VALUES ('p');
	INSERT INTO quota.jobs (tenant, provider) VALUES ('t', 'p'), ('t', 'p');
	SELECT count(*) FROM "My Schema".quota_dequeue('p')});
$node->command_ok([ 'pg_dump', '-Fc', '-f', "$dump/elsewhere", $node->connstr('elsewhere') ], 'pg_dump elsewhere');
$node->command_ok([ qw(pg_restore -e -j2 -d), $node->connstr('copy'), "$dump/elsewhere" ], 'restore');
is(contents('copy'), contents('elsewhere'), 'elsewhere: all rows are there');
is(in('copy', q{SELECT count(*) FROM "My Schema".quota_dequeue('p', 10)}), '1', 'elsewhere: the queue works');

$node->stop;
done_testing();
