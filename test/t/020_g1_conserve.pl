# Copyright (c) 2026, the quota authors

# G1 and G3 under load: whatever many sessions take, return, settle and roll
# back at the same time, what was admitted for good is what the buckets say was
# spent, and never more than they hold.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;

my $clients = 12;
my $node = new_node('main', 'max_connections' => 40);

sub value { return psql_value($node, $_[0]) }

clock_set($node, '2030-01-01 00:00:00+00');
$node->safe_psql(
	'postgres', q{
	INSERT INTO quota.tiers (tier) VALUES ('basic'), ('flying');
	UPDATE quota.tiers SET max_in_flight = 2 WHERE tier = 'flying';
	INSERT INTO quota.tenants (tenant, tier)
		SELECT 't' || i, 'basic' FROM generate_series(1, 4) i;
	INSERT INTO quota.tenants (tenant, tier)
		SELECT 'f' || i, 'flying' FROM generate_series(1, 4) i;
	-- first come, first served: what is left belongs to whoever asks
	INSERT INTO quota.providers (provider, safety, share_reserve)
		VALUES ('rate', 1, 0), ('slots', 1, 0), ('credits', 1, 0), ('hot', 1, 0), ('quick', 1, 0);

	INSERT INTO quota.limits (provider, name, amount, period, burst, per)
		VALUES ('rate', 'all', 1000, '1 s', 3000, '{}'),
			('rate', 'own', 500, '1 s', 1000, '{tenant}'),
			('hot', 'all', 1, '1 h', 10000000, '{}'),
			('quick', 'all', 10000, '1 s', 20, '{}');
	-- other kinds of rates, which hold the same as long as the clock stands
	INSERT INTO quota.limits (provider, name, kind, amount, period, burst)
		VALUES ('rate', 'paced', 'leaky_bucket', 3000, '1 s', 3000),
			('rate', 'window', 'fixed_window', 3000, '1 s', NULL),
			('rate', 'sliding', 'sliding_window', 3000, '1 s', NULL);
	INSERT INTO quota.limits (provider, name, kind, amount, permit_lifetime)
		VALUES ('slots', 'slots', 'concurrency', 5, '1 h'),
			('hot', 'slots', 'concurrency', 150, '1 h');
	UPDATE quota.limits SET endpoint = 'in flight' WHERE provider = 'hot' AND name = 'slots';
	INSERT INTO quota.limits (provider, name, kind, amount, period, per)
		VALUES ('credits', 'all', 'allowance', 1500, '1 month', '{}'),
			('credits', 'own', 'allowance', 500, '1 month', '{tenant}');

	-- What was admitted, between which readings of the clock.  A call that was
	-- settled went out, even if its transaction rolls back, so a sequence
	-- counts those.
	CREATE TABLE spent (tenant text, provider text, n bigint,
		before timestamptz, after timestamptz);
	CREATE SEQUENCE sent1 MINVALUE 0;
	CREATE SEQUENCE sent2 MINVALUE 0;
	CREATE SEQUENCE sent3 MINVALUE 0;
	CREATE SEQUENCE sent4 MINVALUE 0;
	SELECT setval('sent' || i, 0) FROM generate_series(1, 4) i;

	CREATE FUNCTION spend(tenant text, provider text, n int,
		partial boolean = false, units jsonb = NULL) RETURNS bigint
	LANGUAGE plpgsql AS $$
	DECLARE
		before timestamptz := quota_clock();
		d quota_decision;
	BEGIN
		d := quota_acquire(tenant, provider, n => n, partial => partial,
			units => units);
		IF d.admitted THEN
			INSERT INTO spent VALUES (tenant, provider, d.granted, before,
				quota_clock());
		END IF;
		RETURN d.permit;
	END $$;

	-- One statement that decides often, some of it in vain: nothing but
	-- decisions, so that sessions meet in them.
	CREATE FUNCTION hot(n int) RETURNS int LANGUAGE plpgsql AS $$
	DECLARE
		granted int := 0;
	BEGIN
		FOR i IN 1..n / 20 LOOP
			granted := granted + (SELECT sum((a.d).granted) FROM
				(SELECT quota_acquire('t1', 'hot') AS d FROM generate_series(1, 20) OFFSET 0) a);
			BEGIN
				PERFORM quota_acquire('t' || i % 4 + 1, 'hot', n => 3);
				RAISE no_data_found;
			EXCEPTION WHEN no_data_found THEN
			END;
		END LOOP;
		RETURN granted;
	END $$;
	CREATE FUNCTION hot_permits(n int) RETURNS int LANGUAGE plpgsql AS $$
	DECLARE
		permits bigint[];
		granted int := 0;
	BEGIN
		FOR i IN 1..n LOOP
			SELECT array_agg((a.d).permit) FILTER (WHERE (a.d).admitted) INTO permits FROM
				(SELECT quota_acquire('t2', 'hot', 'in flight') AS d FROM generate_series(1, 5) OFFSET 0) a;
			PERFORM quota_settle(p) FROM unnest(permits) p;
			granted := granted + coalesce(cardinality(permits), 0);
		END LOOP;
		RETURN granted;
	END $$;

	-- The row lock lasts to the end of the transaction, past what it gives
	-- back and takes: at no moment may the true number be above its maximum.
	CREATE TABLE flights (tenant text PRIMARY KEY, n int CHECK (n >= 0), most int,
		CONSTRAINT "too many in flight" CHECK (n <= most));
	INSERT INTO flights VALUES ('all', 0, 5), ('f1', 0, 2), ('f2', 0, 2),
		('f3', 0, 2), ('f4', 0, 2);
	CREATE TABLE flying (client int, permit bigint, tenant text);

	CREATE FUNCTION start(client int, tenant text) RETURNS boolean
	LANGUAGE plpgsql AS $$
	DECLARE
		d quota_decision := quota_acquire(tenant, 'slots');
	BEGIN
		IF d.admitted THEN
			UPDATE flights SET n = n + 1 WHERE flights.tenant = 'all';
			UPDATE flights SET n = n + 1 WHERE flights.tenant = start.tenant;
			INSERT INTO flying VALUES (client, d.permit, tenant);
		END IF;
		RETURN d.admitted;
	END $$;
	CREATE FUNCTION land(client int) RETURNS void
	LANGUAGE plpgsql AS $$
	DECLARE
		f flying;
	BEGIN
		FOR f IN DELETE FROM flying WHERE flying.client = land.client RETURNING * LOOP
			UPDATE flights SET n = n - 1 WHERE tenant = 'all';
			UPDATE flights SET n = n - 1 WHERE tenant = f.tenant;
			PERFORM quota_settle(f.permit);
		END LOOP;
	END $$;
});

my $prologue = '\set t random(1, 4)
\set n random(1, 4)
';
my %rate = (
	'one' => q{
		SELECT spend('t' || :t, 'rate', :n);},
	'partial' => q{
		SELECT spend('t' || :t, 'rate', :n * 3, true);},
	'rollback' => q{
		BEGIN;
		SELECT spend('t' || :t, 'rate', :n);
		SELECT spend('t' || :t, 'rate', 9, true);
		ROLLBACK;},
	'savepoint' => q{
		BEGIN;
		SELECT spend('t' || :t, 'rate', 1);
		SAVEPOINT s;
		SELECT spend('t' || :t, 'rate', 7);
		SAVEPOINT inner1;
		SELECT spend('t' || :t, 'rate', :n);
		RELEASE inner1;
		ROLLBACK TO s;
		SELECT spend('t' || :t, 'rate', :n);
		RELEASE s;
		COMMIT;},
	# measured units: the estimate was two each, one each was used
	'settle' => q{
		BEGIN;
		SELECT coalesce(spend('t' || :t, 'rate', :n, false, '{"request": 2}'), 0) AS p \gset
		COMMIT;
		SELECT CASE WHEN :p > 0 THEN quota_settle(:p, units => '{"request": 1}') END;},
	'unsent' => q{
		BEGIN;
		SELECT coalesce(permit, 0) AS p
		FROM quota_acquire('t' || :t, 'rate', n => :n, units => '{}') \gset
		SAVEPOINT s;
		SELECT CASE WHEN :p > 0 THEN quota_release(:p) END;
		ROLLBACK TO s;
		SELECT CASE WHEN :p > 0 THEN quota_release(:p) END;
		COMMIT;},
	'sent' => q{
		BEGIN;
		SELECT coalesce(permit, 0) AS p
		FROM quota_acquire('t' || :t, 'rate', units => '{"request": 1}') \gset
		SELECT CASE WHEN :p > 0 THEN nextval('sent' || :t) END;
		SELECT CASE WHEN :p > 0 THEN quota_settle(:p) END;
		ROLLBACK;});

my %credits = (
	'credits' => q{
		BEGIN;
		SELECT coalesce(spend('t' || :t, 'credits', :n), 0) AS p \gset
		COMMIT;
		SELECT CASE WHEN :p > 0 THEN quota_settle(:p) END;},
	'credits not billed' => q{
		BEGIN;
		SELECT coalesce(permit, 0) AS p FROM quota_acquire('t' || :t, 'credits', n => :n) \gset
		COMMIT;
		SELECT CASE WHEN :p > 0 THEN quota_settle(:p, billed => false) END;},
	'credits rolled back' => q{
		BEGIN;
		SELECT coalesce(spend('t' || :t, 'credits', :n), 0) AS p \gset
		SAVEPOINT s;
		SELECT CASE WHEN :p > 0 THEN quota_settle(:p) END;
		ROLLBACK;});
my %slots = (
	'fly' => q{
		SELECT start(:client_id, 'f' || :t);
		SELECT land(:client_id);},
	'fly within one' => q{
		BEGIN;
		SELECT start(:client_id, 'f' || :t);
		SELECT land(:client_id);
		COMMIT;},
	'never fly' => q{
		BEGIN;
		SELECT start(:client_id, 'f' || :t);
		SAVEPOINT s;
		SELECT land(:client_id);
		ROLLBACK TO s;
		ROLLBACK;},
	'land later' => q{
		BEGIN;
		SELECT start(:client_id, 'f' || :t);
		SAVEPOINT s;
		SELECT start(:client_id, 'f' || :t);
		ROLLBACK TO s;
		COMMIT;
		BEGIN;
		SELECT land(:client_id);
		ROLLBACK;
		SELECT land(:client_id);});

my %hot = (
	'hot' => q{
		BEGIN;
		SELECT hot(2000) AS granted \gset
		INSERT INTO spent VALUES ('t1', 'hot', :granted);
		COMMIT;},
	'hot and lost' => q{
		BEGIN;
		SELECT hot(500);
		ROLLBACK;},
	'hot permits' => q{
		BEGIN;
		SELECT hot_permits(10) AS granted \gset
		INSERT INTO spent VALUES ('t2', 'hot', :granted);
		COMMIT;});
# refilled within the transaction that then returns it
my %quick = (
	'quick' => q{
		SELECT spend('t' || :t, 'quick', :n * 5, true);},
	'quick and lost' => q{
		BEGIN;
		SELECT spend('t' || :t, 'quick', :n * 5, true);
		SELECT quota_clock_advance('2 ms');
		ROLLBACK;});

# all scripts side by side; pgbench names the failing command, if any
sub load
{
	my ($name, $transactions, %scripts) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my %files;
	foreach my $script (sort keys %scripts)
	{
		# each run makes files of its own
		my $file = "$name $script" =~ s/\W/_/gr;
		$files{$file} = $prologue . $scripts{$script} =~ s/\n\t+/\n/gr;
	}
	$node->pgbench("-n -c $clients -j 2 -t $transactions",
		0, [qr{processed: (\d+)/\1}], [qr{^(?!.*(?:ERROR|error:))}s],
		$name, \%files);
	return;
}

# level of a bucket, or ''
sub level
{
	my ($provider, $limit, $bucket) = @_;
	return value("SELECT level FROM quota.stat_buckets
		WHERE provider = '$provider' AND limit_name = '$limit'
			AND coalesce(tenant, '') = '$bucket'");
}

# what was admitted for good: of a tenant, or of all
my $sent = join(' UNION ALL ',
	map { "SELECT 't$_', last_value FROM sent$_" } 1 .. 4);

sub admitted
{
	my ($provider, $tenant) = @_;
	my $sent_too =
	  $provider eq 'rate'
	  ? "(SELECT sum(n) FROM ($sent) s (t, n) WHERE '$tenant' IN ('', t))"
	  : '0';
	return value("SELECT coalesce(sum(n), 0) + $sent_too FROM spent
		WHERE provider = '$provider' AND '$tenant' IN ('', tenant)");
}

# every bucket of a provider holds its capacity less what was admitted
sub is_conserved
{
	my ($provider, $name, $all, $own) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(level($provider, 'all', ''),
		$all - admitted($provider, ''), "$name: shared");
	if ($provider eq 'rate')
	{
		is(level($provider, $_, ''), level($provider, 'all', ''), "$name: $_")
		  foreach qw(paced window sliding);
	}
	is(level($provider, 'own', $_), $own - admitted($provider, $_), "$name: $_")
	  foreach map { "t$_" } 1 .. 4;
	is( value("SELECT count(*) FROM quota.stat_buckets WHERE busy AND provider = '$provider'"),
		'0', "$name: nothing is outstanding");
	return;
}

# ---- the clock stands still ----

load('rates, not exhausted', 20, %rate);
is_conserved('rate', 'half full', 3000, 1000);

load('rates', 150, %rate);
is_conserved('rate', 'at the end', 3000, 1000);
value("SELECT spend('t' || i, 'rate', 1000, true) FROM generate_series(1, 4) i");
is(level('rate', 'all', ''), '0', 'nothing is left');
is(admitted('rate', ''), '3000', 'exactly the capacity was admitted');

load('concurrency and credits', 150, %slots, %credits);
is(value("SELECT n FROM flights WHERE tenant = 'all'"),
	'0', 'all have landed');
is( value(
		"SELECT sum(used), bool_or(busy) FROM quota.stat_buckets WHERE provider = 'slots'"),
	'0|f',
	'and their places are free');
is(value('SELECT count(*) FROM quota.stat_permits'), '0', 'no permit is open');
is_conserved('credits', 'credits', 1500, 500);
is(value('SELECT * FROM quota_audit()'), '', 'the audit finds nothing');

# as many as there are places, and not one more
is( value("SELECT count(*) FILTER (WHERE (a.d).admitted) FROM (
		SELECT quota_acquire('f' || i % 4 + 1, 'slots') AS d
		FROM generate_series(1, 20) i OFFSET 0) a"),
	'5', 'all places can be taken');

# credits: what can be had is what is left
value("SELECT spend('t' || i, 'credits', 500, true) FROM generate_series(1, 4) i");
is(admitted('credits', ''), '1500', 'exactly the allowance was admitted');
is(value('SELECT * FROM quota_audit()'), '', 'still nothing');

# many decisions at the same moment
load('hot', 15, %hot);
is(level('hot', 'all', ''), 10000000 - admitted('hot', ''), 'hot: none is lost or counted twice');
is( value("SELECT used, busy FROM quota.stat_buckets WHERE provider = 'hot' AND limit_name = 'slots'"),
	'0|f', 'hot: all are over');
is(value('SELECT count(*) FROM quota.stat_permits WHERE provider = $$hot$$'),
	'0', 'hot: no permit is left');

# ---- later ----

clock_advance($node, '2 s');
load('rates after two seconds', 150, %rate);
value("SELECT spend('t' || i, 'rate', 1000, true) FROM generate_series(1, 4) i");
is(admitted('rate', ''), '5000', 'exactly what has refilled was admitted');

# ---- time goes on meanwhile ----

my $start = value('SELECT quota_clock()');
load('rates while time goes on',
	100, %rate, 'clock' => q{SELECT quota_clock_advance('5 ms');});
my $elapsed = value("SELECT extract(epoch FROM quota_clock() - '$start')");
cmp_ok($elapsed, '>', 0.1, 'the clock was moved');
cmp_ok(admitted('rate', ''), '<=', 5000 + 1000 * $elapsed,
	"no more than has refilled in $elapsed s");

# A bucket that is full again and again: what is returned to it had refilled
# meanwhile, and must not come twice.  Over every interval, by the readings of the
# clock around each decision, no more than it holds and what refills.
$start = value('SELECT quota_clock()');
load('while time goes on fast', 100, %quick);
is( value("
	WITH calls AS MATERIALIZED (
		SELECT before, after, sum(n) AS n FROM spent
		WHERE provider = 'quick' AND before >= '$start' GROUP BY 1, 2),
	a AS (SELECT DISTINCT before AS t FROM calls),
	b AS (SELECT DISTINCT after AS t FROM calls)
	SELECT count(*) FROM a JOIN b ON b.t >= a.t AND b.t < a.t + interval '100 ms'
	WHERE (SELECT sum(n) FROM calls WHERE before >= a.t AND after <= b.t)
		> 20 + 10000 * extract(epoch FROM b.t - a.t)"),
	'0', 'no more than it holds and what refills');

is(value('SELECT * FROM quota_audit()'), '', 'and in the end, nothing');

$node->stop;
done_testing();
