
# Copyright (c) 2026, the quota authors

# G4: credits are exact under random work of many sessions: holds, calls, settling in full,
# in part, too much, again, too late, releases, refunds, grants, adjustments, keys, expiry,
# grants that expire, period roll-over, rollbacks and savepoints, sessions that are terminated, backends that
# are killed, crashes of the server.  After every round quota_audit() finds nothing, and a
# computation here, from the entries alone, agrees with the balances, with the open holds
# and with what the sessions have done.
#
# environment: QUOTA_CREDITS_OPS=N       about N operations instead of 3000
#              QUOTA_CREDITS_SEED=N

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;

my $ops = $ENV{QUOTA_CREDITS_OPS} // 3000;
my $seed = $ENV{QUOTA_CREDITS_SEED} // 1;
srand($seed);
note "seed $seed";

my $nsessions = 6;
my $chunk = 100;
my $node = new_node('credits', 'restart_after_crash' => 'on', 'log_statement' => 'none', 'log_min_messages' => 'warning');
my $main = session($node);
$main->query("SELECT quota_clock_set('2030-01-01 00:00:00+00')");
$main->query(q{
	INSERT INTO quota.tiers (tier) VALUES ('t');
	INSERT INTO quota.tenants (tenant, tier) SELECT 't' || n, 't' FROM generate_series(1, 4) n;
	INSERT INTO quota.providers (provider, lost_permit) VALUES ('p', 'charge'), ('q', 'refund');
	INSERT INTO quota.limits (provider, name, per, unit, kind, amount, period, settle_over, settle_late, permit_lifetime, external) VALUES
		('p', 'own', '{tenant}', 'credit', 'allowance', 400, '1 hour', 'debt', 'refuse', '30 s', false),
		('p', 'account', '{}', 'credit', 'allowance', 1000, '1 hour', 'debt', 'refuse', '30 s', false),
		('q', 'own', '{tenant}', 'credit', 'allowance', 300, '1 hour', 'cap', 'charge_now', '20 s', false),
		('q', 'refusing', '{}', 'credit', 'allowance', 700, '90 min', 'refuse', 'charge_now', '20 s', false),
		(NULL, 'everywhere', '{tenant}', 'credit', 'allowance', 600, '2 hours', 'debt', 'charge_now', '30 s', false);
	-- what sessions have done, written by the same transactions
	CREATE TABLE done (id bigserial PRIMARY KEY, op text, permit bigint, provider text, tenant text, amount bigint);
	CREATE UNIQUE INDEX ON done (op, permit) WHERE op IN ('hold', 'settle', 'late');
	CREATE INDEX ON done (permit);
	CREATE FUNCTION some_done() RETURNS bigint LANGUAGE sql AS
		'SELECT permit FROM done WHERE op = ''hold'' AND id >= random() * (SELECT max(id) FROM done) ORDER BY id LIMIT 1';
	CREATE FUNCTION some_open() RETURNS bigint LANGUAGE sql AS
		'SELECT permit FROM quota.holds ORDER BY random() LIMIT 1';
	CREATE FUNCTION step() RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		dice float := random();
		t text := 't' || 1 + (random() * 3)::int;
		p text := CASE WHEN random() < 0.5 THEN 'p' ELSE 'q' END;
		n int := 1 + (random() * 39)::int;
		k int := (random() * 30)::int;
		keyed boolean := random() < 0.15;
		h bigint;
		u jsonb;
		d quota_decision;
		expired boolean;
	BEGIN
		IF dice < 0.3 THEN
			IF keyed THEN
				d := quota_hold(t, p, 'credit', 5 + k, '25 s', key => 'k' || k);
			ELSE
				d := quota_hold(t, p, 'credit', n, ((5 + random() * 60)::int || ' s')::interval);
			END IF;
			IF d.admitted THEN
				INSERT INTO done (op, permit, provider, tenant, amount) VALUES ('hold', d.permit, p, t, NULL) ON CONFLICT DO NOTHING;
			END IF;
		ELSIF dice < 0.4 THEN
			d := quota_acquire(t, p, n => 1 + k % 4, units => jsonb_build_object('credit', n), partial => keyed);
			IF d.admitted THEN
				INSERT INTO done (op, permit, provider, tenant, amount) VALUES ('hold', d.permit, p, t, NULL);
			END IF;
		ELSIF dice < 0.68 THEN
			h := CASE WHEN random() < 0.75 THEN some_open() ELSE some_done() END;
			u := CASE WHEN random() < 0.6 THEN jsonb_build_object('credit', (random() * 45)::int) END;
			expired := EXISTS (SELECT FROM quota.ledger l WHERE l.permit = h AND l.kind IN ('expire', 'late'))
				OR EXISTS (SELECT FROM quota.holds o WHERE o.permit = h AND o.expires_at <= quota_clock());
			PERFORM quota_settle(h, billed => random() < 0.85, units => u);
			IF h IS NOT NULL THEN
				-- the clock may have moved in between
				INSERT INTO done (op, permit) VALUES (CASE WHEN EXISTS (SELECT FROM quota.ledger l WHERE l.permit = h AND l.kind = 'late')
					THEN 'late' ELSE 'settle' END, h) ON CONFLICT DO NOTHING;
			END IF;
		ELSIF dice < 0.76 THEN
			h := some_open();
			PERFORM quota_release(h, 1 + k % 3);
			-- of all calls, and too late: that is settling it late
			INSERT INTO done (op, permit) VALUES (CASE WHEN EXISTS (SELECT FROM quota.ledger l WHERE l.permit = h AND l.kind = 'late')
				THEN 'late' ELSE 'release' END, h) ON CONFLICT DO NOTHING;
		ELSIF dice < 0.86 THEN
			h := some_done();
			IF keyed THEN
				PERFORM quota_refund(h, 1, key => 'k' || k);
			ELSE
				PERFORM quota_refund(h, CASE WHEN random() < 0.6 THEN n END);
			END IF;
		ELSIF dice < 0.91 THEN
			IF keyed THEN
				PERFORM quota_grant(t, p, 'own', 5 + k, key => 'k' || k);
			ELSE
				PERFORM quota_grant(t, p, 'own', n, 'plain',
					expires_at => CASE WHEN random() < 0.7 THEN quota_clock() + random() * interval '4 min' END);
				INSERT INTO done (op, provider, tenant, amount) VALUES ('grant', p, t, n);
			END IF;
		ELSIF dice < 0.95 THEN
			PERFORM quota_adjust(t, NULL, 'everywhere', n - 20, 'plain');
			INSERT INTO done (op, tenant, amount) VALUES ('adjust', t, n - 20);
		ELSE
			PERFORM quota_extend(some_open(), '10 s');
		END IF;
		IF random() < 0.12 THEN
			RAISE EXCEPTION 'changed my mind' USING ERRCODE = 'P0001';
		END IF;
	END $$;
	CREATE PROCEDURE work(n int) LANGUAGE plpgsql AS $$
	BEGIN
		FOR i IN 1 .. n LOOP
			BEGIN
				PERFORM step();
			EXCEPTION WHEN OTHERS THEN
				IF SQLSTATE NOT IN ('55000', '55P03', '22023', '23505', '42704', '22004', '53400', 'P0001') THEN
					RAISE WARNING 'unexpected: % %', SQLSTATE, SQLERRM;
				END IF;
			END;
			IF random() < 0.35 THEN COMMIT; ELSIF random() < 0.3 THEN ROLLBACK; END IF;
		END LOOP;
		COMMIT;
	END $$;
});

my @sessions = map { session($node) } 1 .. $nsessions;

sub reopen_all
{
	my ($now) = @_;
	$_->kill_client for $main, @sessions;
	$main = session($node);
	$main->query("SELECT quota_clock_set('$now')");
	@sessions = map { session($node) } 1 .. $nsessions;
	return;
}

# ---- the independent computation ----

my @problems;

sub problem { push @problems, $_[0]; diag($_[0]); return }

# Everything is committed; lost holds are written, so that rows say all.
sub settle_world
{
	foreach my $i (1 .. 200)
	{
		last if $main->query('SELECT count(*) FROM quota.holds WHERE expires_at <= quota_clock()') eq '0';
		# the worker comes again after a while of the quota clock
		$main->query("SELECT quota_clock_advance('1 s')") if $i % 5 == 0;
		select undef, undef, undef, 0.1;
	}
	return;
}

# What is left of grants after what was charged at each instant: soonest to expire first.
# Returns the sum.
my ($n_grants, $n_expired) = (0, 0);
sub spend
{
	my ($grants, $charged) = @_;
	my $sum = 0;
	my @grants = sort { $a->{until} <=> $b->{until} } @{ $grants // [] };
	$_->{rest} = $_->{left} for @grants;
	foreach my $instant (sort { $a <=> $b } keys %{ $charged // {} })
	{
		my $units = $charged->{$instant};
		foreach my $g (grep { $_->{at} <= $instant && $instant < $_->{until} } @grants)
		{
			my $part = $g->{rest} < $units ? $g->{rest} : $units;
			$g->{rest} -= $part;
			$units -= $part;
		}
	}
	$sum += $_->{rest} for @grants;
	return $sum;
}

sub recompute
{
	my ($round) = @_;
	my (%used, %held, %permit, %bound);
	# the background worker may be at work: one snapshot for all rows
	$main->query('BEGIN ISOLATION LEVEL REPEATABLE READ');
	my $now = $main->query('SELECT (extract(epoch FROM quota_clock()) * 1000000)::bigint');
	my %open = map { split /\|/ } split /\n/, $main->query('SELECT permit, CASE WHEN refund AND expires_at <= quota_clock() THEN 2 ELSE 1 END FROM quota.holds');
	my @entries = map { [ split /\|/, $_, -1 ] } split /\n/, $main->query(q{
		SELECT l.account, coalesce(l.provider, ''), l.limit_name, coalesce(l.tenant, ''), l.kind, l.amount, l.held,
			coalesce(l.permit, 0), extract(epoch FROM date_trunc('second', l.charged_at))::bigint, coalesce(l.reason, ''),
			(extract(epoch FROM l.charged_at) * 1000000)::bigint, coalesce((extract(epoch FROM l.expires_at) * 1000000)::bigint, 0)
		FROM quota.ledger l ORDER BY id});

	# periods are whole hours from an anchor that all of them divide
	my %seconds = (own => 3600, account => 3600, refusing => 5400, everywhere => 7200);
	my %amount = ('p own' => 400, 'p account' => 1000, 'q own' => 300, 'q refusing' => 700, ' everywhere' => 600);
	my $anchor = 946684800;
	my (%grants, %adjusts, %expiring, %charged);
	foreach my $e (@entries)
	{
		my ($account, $provider, $limit, $tenant, $kind, $amount, $held, $permit, $at, $reason, $instant, $until) = @$e;
		my $period = int(($at - $anchor) / $seconds{$limit});
		my $bucket = "$account $period";

		$used{$bucket} += $amount;
		$held{$bucket} += $held;
		$bound{$bucket} //= $amount{"$provider $limit"};
		$grants{"$provider $tenant"} += -$amount if $kind eq 'grant' && $reason eq 'plain';
		$adjusts{$tenant} += $amount if $kind eq 'adjust';
		push @{ $expiring{$bucket} }, { at => $instant, until => $until, left => -$amount } if $until;
		$charged{$bucket}{$instant} += $amount if $permit || $amount > 0;
		# what may exceed the amount: debts
		$bound{$bucket} += $amount if ($kind eq 'adjust' || $kind eq 'late' || $kind eq 'settle') && $amount > 0;
		problem("round $round: entry of kind $kind moves $amount and $held") if
			$kind eq 'hold' ? $amount < 0 || $held != $amount
			: $kind eq 'release' ? $amount > 0 || $held != $amount
			: $kind eq 'settle' || $kind eq 'expire' ? $held > 0 || $amount < $held
			: $held != 0;
		next unless $permit;
		my $p = $permit{$permit}{$account} //= { map { $_ => 0 } qw(hold release settle expire late refund held spent n) };
		$p->{$kind}++;
		$p->{held} += $held;
		$p->{spent} += $amount;
		$p->{charged}{$kind} += $amount;
		problem("round $round: permit $permit: $kind before its hold") unless $p->{hold};
		problem("round $round: permit $permit: $kind after it was resolved")
			if ($kind eq 'release' || $kind eq 'hold') && $p->{settle} + $p->{expire} > 0;
	}
	foreach my $permit (keys %permit)
	{
		foreach my $account (keys %{ $permit{$permit} })
		{
			my $p = $permit{$permit}{$account};
			my $what = "round $round: permit $permit of $account";
			problem("$what is held $p->{hold} times") if $p->{hold} != 1;
			problem("$what is resolved $p->{settle} + $p->{expire} times and " . ($open{$permit} ? 'open' : 'not open'))
				if $p->{settle} + $p->{expire} != ($open{$permit} ? 0 : 1);
			problem("$what is late $p->{late} times") if $p->{late} > 1 || $p->{late} && !$p->{expire};
			problem("$what holds $p->{held} though it is over") if !$open{$permit} && $p->{held} != 0;
			problem("$what holds $p->{held}") if $open{$permit} && ($p->{held} < 0 || $p->{held} != $p->{spent});
			problem("$what has spent $p->{spent}") if $p->{spent} < 0;
		}
	}
	problem("round $round: hold $_ is open and has no entries") for grep { !$permit{$_} } keys %open;
	# without what is of grants that expire, whatever is left of them
	my %gone = map { $_ => spend($expiring{$_}, $charged{$_}) } keys %used;
	foreach my $bucket (keys %used)
	{
		my $most = $used{$bucket} + $gone{$bucket};
		problem("round $round: $bucket is used $most, which exceeds $bound{$bucket}") if $most > $bound{$bucket};
	}

	# what sessions have done is what entries say
	my %done;
	foreach my $line (split /\n/, $main->query('SELECT op, coalesce(permit, 0) FROM done'))
	{
		my ($op, $permit) = split /\|/, $line;
		$done{$op}{$permit}++ if $permit;
	}
	problem("round $round: a hold that was admitted is not there: $_") for grep { !$permit{$_} } keys %{ $done{hold} };
	problem("round $round: a hold is there that nobody was admitted for: $_") for grep { !$done{hold}{$_} } keys %permit;
	foreach my $permit (keys %permit)
	{
		my ($any) = values %{ $permit{$permit} };
		my $settled = $done{settle}{$permit} ? 1 : 0;
		my $late = $done{late}{$permit} ? 1 : 0;
		# to release all calls is to settle that nothing is billed
		problem("round $round: permit $permit was settled $settled times, entries say $any->{settle}")
			if $settled != $any->{settle} && !($any->{settle} == 1 && $done{release}{$permit});
		my $is_late = (grep { $_->{late} } values %{ $permit{$permit} }) ? 1 : 0;
		problem("round $round: permit $permit was settled late $late times, entries say $is_late") if $late != $is_late;
		problem("round $round: permit $permit was released " . ($done{release}{$permit} // 0) . " times, entries say $any->{release}")
			if ($done{release}{$permit} // 0) != $any->{release} && !$any->{settle};
	}
	my %sums = map { split /=/, $_, 2 } split /\n/,
		$main->query("SELECT provider || ' ' || tenant || '=' || sum(amount) FROM done WHERE op = 'grant' GROUP BY provider, tenant");
	problem("round $round: grants of $_: done " . ($sums{$_} // 0) . ', entries ' . ($grants{$_} // 0))
		for grep { ($sums{$_} // 0) != ($grants{$_} // 0) } keys %{ { %sums, %grants } };
	%sums = map { split /=/, $_, 2 } split /\n/, $main->query("SELECT tenant || '=' || sum(amount) FROM done WHERE op = 'adjust' GROUP BY tenant");
	problem("round $round: adjustments of $_: done " . ($sums{$_} // 0) . ', entries ' . ($adjusts{$_} // 0))
		for grep { ($sums{$_} // 0) != ($adjusts{$_} // 0) } keys %{ { %sums, %adjusts } };

	# balances are what entries say, less what lost holds return, and what has expired
	foreach my $e (grep { $_->[7] && ($open{ $_->[7] } // 0) == 2 } @entries)
	{
		my $bucket = "$e->[0] " . int(($e->[8] - $anchor) / $seconds{ $e->[2] });
		$used{$bucket} -= $e->[5];
		$charged{$bucket}{ $e->[10] } -= $e->[5];
		$held{$bucket} -= $e->[6];
	}
	foreach my $line (split /\n/, $main->query(q{
		SELECT DISTINCT l.account, b.used, b.held, b.limit_name, extract(epoch FROM b.period_start)::bigint, coalesce(b.limit_provider, ''),
			b.expiring, coalesce((extract(epoch FROM b.expires_at) * 1000000)::bigint, 0)
		FROM quota.tenants t, quota_balance(t.tenant) b
		JOIN quota.ledger l ON l.limit_name = b.limit_name AND l.provider IS NOT DISTINCT FROM b.limit_provider
		WHERE b.limit_name IN ('account', 'refusing') OR l.tenant = t.tenant}))
	{
		my ($account, $balance, $holds, $limit, $start, $provider, $next, $next_at) = split /\|/, $line;
		my $bucket = "$account " . int(($start - $anchor) / $seconds{$limit});
		spend($expiring{$bucket}, $charged{$bucket});
		my @grants = @{ $expiring{$bucket} // [] };
		$used{$bucket} += $_->{rest} for grep { $_->{until} <= $now } @grants;
		my ($soonest) = sort { $a <=> $b } map { $_->{until} } grep { $_->{until} > $now && $_->{rest} > 0 } @grants;
		$soonest //= 0;
		my $rest = 0;
		$rest += $_->{rest} for grep { $_->{until} == $soonest } @grants;
		problem("round $round: $provider $limit: $next expire at $next_at, entries say $rest at $soonest")
			if $next != $rest || $next_at != $soonest;
		$n_grants += @grants;
		$n_expired += grep { $_->{until} <= $now && $_->{rest} > 0 } @grants;
		problem("round $round: $provider $limit: used $balance, entries say " . ($used{$bucket} // 0)) if $balance != ($used{$bucket} // 0);
		problem("round $round: $provider $limit: held $holds, entries say " . ($held{$bucket} // 0)) if $holds != ($held{$bucket} // 0);
	}
	$main->query('COMMIT');
	return scalar @entries;
}

# ---- rounds ----

my ($done, $round, $entries, %how) = (0, 0, 0);
while ($done < $ops && @problems < 5)
{
	$round++;
	$_->query_async("SELECT setseed(" . (rand(2) - 1) . "); CALL work($chunk)") for @sessions;
	$done += $nsessions * $chunk;
	my $end = rand() < 0.2 ? (rand() < 0.5 ? 'kill -9' : 'crash') : rand() < 0.2 ? 'terminate' : 'none';
	$how{$end}++;
	my $now;
	for (1 .. 5 + rand(10))
	{
		$now = $main->query("SELECT quota_clock() FROM quota_clock_advance('" . int(rand(4000)) . " ms')");
		select undef, undef, undef, 0.02;
	}
	if ($end eq 'kill -9')
	{
		crash_backend($node, $sessions[ rand @sessions ]->pid);
		reopen_all($now);
	}
	elsif ($end eq 'crash')
	{
		$node->stop('immediate');
		$_->kill_client for $main, @sessions;
		$node->start;
		reopen_all($now);
	}
	elsif ($end eq 'terminate')
	{
		my $i = int rand @sessions;
		my $pid = $sessions[$i]->pid;
		$main->query("SELECT pg_terminate_backend($pid)");
		$_->_finish for grep { $_ != $sessions[$i] } @sessions;
		$sessions[$i]->kill_client;
		$node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $pid)");
		$sessions[$i] = session($node);
	}
	$_->_finish for grep { $end eq 'none' } @sessions;
	$main->query("SELECT quota_clock_advance('20 min')") if rand() < 0.15;
	next if $round % 3 && $done < $ops;
	settle_world();
	my $audit = $main->query("SELECT string_agg(a::text, ', ') FROM quota_audit() a");
	problem("round $round: audit: $audit") if $audit ne '';
	$entries = recompute($round);
}
# chance may have left none of a grant that expired: one that nobody spends
$main->query(q{
	SELECT quota_clock_set(date_trunc('hour', quota_clock()) + interval '1 hour');
	SELECT quota_grant('t1', 'p', 'own', 5, 'plain', expires_at => quota_clock() + interval '1 min');
	INSERT INTO done (op, provider, tenant, amount) VALUES ('grant', 'p', 't1', 5);
	SELECT quota_clock_advance('2 min')});
settle_world();
my $last = $main->query("SELECT string_agg(a::text, ', ') FROM quota_audit() a");
problem("the end: audit: $last") if $last ne '';
$entries = recompute('end');
is(join("\n", @problems), '', "$done operations in $round rounds: the audit and a recomputation from the entries find nothing");
cmp_ok($n_expired, '>', 0, "of $n_grants grants $n_expired had expired with something left");
note "$entries entries; rounds ended by " . join ', ', map { "$_ $how{$_}" } sort keys %how;
note $main->query("SELECT string_agg(kind || ' ' || n, ', ') FROM (SELECT kind, count(*) AS n FROM quota.ledger GROUP BY 1 ORDER BY 1) s");
$_->quit for $main, @sessions;
$node->stop;
unlike(slurp_file($node->logfile), qr/unexpected: |TRAP:|PANIC|XX\d\d\d:/, 'and nothing unexpected was logged');
done_testing();
