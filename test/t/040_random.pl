
# Copyright (c) 2026, the quota authors

# Random work on the queue against a model: G3 (what is rolled back never was), G5
# (one holder), G6 (nothing lost), G8 (what may run does), caps and bounds, over
# restarts and crashes.  Each seed does some steps on a server of its own
# configuration; every few steps all transactions end and everything is compared:
# what shared memory counts, what the rows say, and what the sessions were told.
# At the end all limits open, and the queue drains.  With even seeds quota.jobs has
# triggers that write, delete and cancel jobs themselves.
#
# environment: QUOTA_RANDOM=N      N seeds instead of 2
#              QUOTA_RANDOM_SEED=N,... these seeds
#              QUOTA_RANDOM_STEPS=N

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;

my $steps = $ENV{QUOTA_RANDOM_STEPS} // 250;
my @seeds = defined $ENV{QUOTA_RANDOM_SEED} ? (split /,/, $ENV{QUOTA_RANDOM_SEED}) : (1 .. $ENV{QUOTA_RANDOM} // 2);
my $tenants = 5;
my @providers = ('p', 'q', 'r');
my @endpoints = ('/a', '/ab', '/b', '/c');
my @classes = ('interactive', 'event', 'batch');

# ready jobs, and those that share a flow
my $ready = q{
	SELECT j.*, coalesce(j.endpoint, '') AS e FROM quota.jobs j JOIN quota.tenants t USING (tenant)
		LEFT JOIN quota.leases l ON l.job_id = j.id
	WHERE j.state IN ('queued', 'scheduled') AND NOT t.suspended
		AND coalesce(l.ready_at, '-infinity') <= quota_clock()
		AND (j.attempt > 0 OR j.start_before IS NULL OR j.start_before > quota_clock())};

# What may run although a claim has just found nothing more: flows, of which
# every ready job would be admitted; a job that costs more than others may hold
# those back that meet the same limits.
my $left = qq{
	SELECT string_agg(format('%s %s %s %s', provider, tenant, class, e), ', ')
	FROM (SELECT provider, tenant, class, e FROM ($ready) j GROUP BY 1, 2, 3, 4
		HAVING bool_and((quota_peek(tenant, provider, endpoint, 1, units, class, "user", connection, resource)).admitted)) f
	WHERE NOT EXISTS (SELECT FROM ($ready) j WHERE j.provider = f.provider AND (j.units IS NOT NULL OR j.e = '/c'))};

# counts of shared memory that differ from the rows
my $counts = q{
	SELECT string_agg(format('%s %s %s %s: rows %s/%s counted %s/%s', provider, tenant, class, endpoint, r.d, r.f, s.d, s.f), ', ')
	FROM (SELECT provider, tenant, class, coalesce(endpoint, '') AS endpoint,
			count(*) FILTER (WHERE state IN ('queued', 'scheduled')) AS d, count(*) FILTER (WHERE state = 'running') AS f
		FROM quota.jobs GROUP BY 1, 2, 3, 4) r
	FULL JOIN (SELECT provider, tenant, class, coalesce(endpoint, '') AS endpoint, coalesce(depth, -1) AS d, coalesce(in_flight, -1) AS f
		FROM quota.stat_flows) s USING (provider, tenant, class, endpoint)
	WHERE (coalesce(r.d, 0), coalesce(r.f, 0)) <> (coalesce(s.d, 0), coalesce(s.f, 0))};
my $sums = q{
	SELECT string_agg(format('%s %s: rows %s counted %s, enqueuing %s', provider, tenant, r.n, s.n, s.e), ', ')
	FROM (SELECT provider, tenant, count(*) AS n FROM quota.jobs WHERE state IN ('queued', 'scheduled', 'running') GROUP BY 1, 2) r
	FULL JOIN (SELECT provider, tenant, unfinished AS n, enqueuing AS e FROM quota.stat_tenants) s USING (provider, tenant)
	WHERE coalesce(r.n, 0) <> coalesce(s.n, 0) OR s.e <> 0};

# caps and bounds by the rows; a batch is one call
my $live = q{(SELECT j.*, coalesce('b' || l.batch, 'j' || j.id) AS call FROM quota.leases l JOIN quota.jobs j ON j.id = l.job_id
	WHERE l.state = 'r' AND l.ready_at > quota_clock())};
my $caps = qq{
	SELECT string_agg(format('%s %s: %s', what, whose, n), ', ') FROM (
		SELECT 'tier' AS what, provider || ' ' || tenant AS whose, count(DISTINCT call) AS n, 3 AS most FROM $live j
			JOIN quota.tenants USING (tenant) WHERE tier = 'small' GROUP BY 2
		UNION ALL SELECT 'flights', provider, count(DISTINCT call), 8 FROM $live j WHERE provider = 'p' GROUP BY 2
		UNION ALL SELECT 'a flights', provider, count(DISTINCT call), 3 FROM $live j WHERE provider = 'p' AND endpoint LIKE '/a%' GROUP BY 2
		UNION ALL SELECT 'user', "user", count(DISTINCT call), 1 FROM $live j WHERE provider = 'p' AND "user" IS NOT NULL GROUP BY 2
		UNION ALL SELECT 'all', 'all', count(DISTINCT call), 14 FROM $live j
		UNION ALL SELECT 'queued of tenant', provider || ' ' || tenant, count(*), 20 FROM quota.jobs JOIN quota.tenants USING (tenant)
			WHERE tier = 'small' AND state IN ('queued', 'scheduled', 'running') GROUP BY 2
		UNION ALL SELECT 'queued', provider, count(*), 50 FROM quota.jobs
			WHERE provider = 'p' AND state IN ('queued', 'scheduled', 'running') GROUP BY 2) c
	WHERE n > most};

# rows that do not fit together
my $rows = q{
	SELECT string_agg(format('%s %s %s', j.id, j.state, l.state), ', ')
	FROM quota.jobs j FULL JOIN quota.leases l ON l.job_id = j.id
	WHERE j.id IS NULL OR (j.state = 'running') <> (l.state IS NOT DISTINCT FROM 'r') OR
		j.state IN ('succeeded', 'failed', 'cancelled') AND l.job_id IS NOT NULL OR
		j.attempt <> l.attempt OR j.state = 'scheduled' AND l.state <> 's'};
my $keys = q{
	SELECT string_agg(format('%s %s', d.dedupe_key, j.id), ', ') FROM quota.dedupe d FULL JOIN
		(SELECT * FROM quota.jobs WHERE dedupe_key IS NOT NULL AND state IN ('queued', 'scheduled', 'running')) j
		ON (d.provider, d.dedupe_key, d.job_id) = (j.provider, j.dedupe_key, j.id)
	WHERE d.job_id IS NULL OR j.id IS NULL};

my ($node, $main, @workers, @problems, $step, $seed, $now);
my %lease;    # id => [attempt, until]: committed claims that have not ended
my %ended;    # "id attempt" that have ended: among statements at the same time a
             # claim may be looked at after its end
my $crowded = 0;
my %seen;     # "id attempt" of committed claims
my @log;

sub pick { return $_[ rand @_ ] }
sub chance { return rand() < $_[0] }
sub tenant { return 't' . (1 + int(rand($tenants))) }

sub problem
{
	my ($text) = @_;
	push @problems, "step $step: $text";
	diag("seed $seed step $step: $text\n  " . join("\n  ", @log > 25 ? @log[ -25 .. -1 ] : @log));
	if (my ($id) = $text =~ /^leases: (\d+)/)
	{
		diag("all about $id:\n  " . join("\n  ", grep { /\b$id[|]/ || /^restart/ } @log));
	}
	return;
}

# ---- sessions: what they hold is known when they commit ----

sub open_worker
{
	my $s = session($node);
	$s->query('\set VERBOSITY verbose');
	$s->query("SET lock_timeout = '50 ms'");
	return { s => $s, open => 0, saved => undef, done => [] };
}

# The worker's backend has been told to end, and what it did is undone.
sub reopen
{
	my ($w) = @_;
	$node->poll_query_until('postgres', 'SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = ' . $w->{s}->pid . ')');
	$w->{s}->kill_client;
	$w->{s} = open_worker()->{s};
	return over($w);
}

# What a transaction did has happened.
sub committed
{
	my ($w) = @_;
	foreach my $d (@{ $w->{done} })
	{
		my ($what, $id, $attempt, $until) = @$d;
		if ($what eq 'claim' || $what eq 'whole')
		{
			problem("job $id: attempt $attempt was claimed twice") if $seen{"$id $attempt"}++;
			$lease{$id} = [ $attempt, $until ];
			delete $lease{$id} if $what eq 'whole' || $ended{"$id $attempt"};
		}
		elsif ($what eq 'extend')
		{
			# of statements at the same time, one may have ended that attempt and
			# another claimed the next, which is noted before
			$lease{$id}[1] = $until if $lease{$id} && $lease{$id}[0] == $attempt;
		}
		else
		{
			delete $lease{$id} if $lease{$id} && $lease{$id}[0] <= $attempt;
			$ended{"$id $attempt"} = 1;
		}
	}
	return over($w);
}

sub over
{
	my ($w) = @_;
	@$w{qw(open saved done)} = (0, undef, []);
	return;
}

sub finish
{
	my ($w) = @_;
	return unless $w->{open};
	my $dice = rand();
	if ($dice < 0.6)
	{
		my $error = run($w, 'COMMIT', 1);
		committed($w) if $error eq '';
	}
	elsif ($dice < 0.92) { run($w, 'ROLLBACK', 1) }
	else
	{
		push @log, 'terminate';
		$w->{s}->kill_backend;
		reopen($w);
	}
	return over($w);
}

# What a command did to the model's leases: lines "what id attempt until".
sub note_done
{
	my ($w, $out) = @_;
	my @done;

	push @log, "   " . join(' ', split /\n/, $out) if $out =~ /\|/;
	foreach my $line (grep { /^(claim|whole|extend|end)\|/ } split /\n/, $out)
	{
		my ($what, $id, $attempt, $until) = split /\|/, $line;
		if ($what eq 'claim' || $what eq 'whole')
		{
			foreach my $other (@workers)
			{
				problem("job $id is claimed by two open transactions")
				  if grep { ($_->[0] eq 'claim' || $_->[0] eq 'whole') && $_->[1] == $id && ($crowded ? $_->[2] == $attempt : $_->[2] >= $attempt) } @{ $other->{done} };
			}
			my $held = $lease{$id};
			problem("job $id: attempt $attempt claimed while $held->[0] runs until $held->[1], now $now")
			  if $held && $held->[1] > $now && !$crowded;
		}
		push @done, [ $what, $id, $attempt, $until ];
	}
	push @{ $w->{done} }, @done;
	return;
}

# Errors that work may meet.
my $expected = qr/ERROR:  (55000|55P03|53Q00|23505|42704|57014|40P01|40001|22012|P0001|21000|27000):/;

sub answered
{
	my ($w, $sql, $control) = @_;
	my $error = $w->{s}->notices =~ /(?:ERROR|FATAL|PANIC|WARNING|psql|connection)/ ? $w->{s}->notices : '';

	if ($error ne '')
	{
		push @log, "   $1" if $error =~ /((?:ERROR|FATAL|WARNING).*)/;
		problem("$sql\n$error") if $error !~ $expected;
		if ($w->{open} && !$control)
		{
			if (defined $w->{saved})
			{
				$w->{s}->query('ROLLBACK TO s');
				$#{ $w->{done} } = $w->{saved} - 1;
			}
			else
			{
				$w->{s}->query('ROLLBACK');
				over($w);
			}
		}
	}
	elsif (!$control)
	{
		note_done($w, $w->{s}{out});
		committed($w) unless $w->{open};
	}
	return $error;
}

sub run
{
	my ($w, $sql, $control) = @_;
	my ($n) = grep { $workers[$_] == $w } 0 .. $#workers;
	push @log, ($n // '-') . ": $sql";
	$w->{s}->fails($sql);
	return answered($w, $sql, $control);
}

# ---- actions ----

my $epoch = 'extract(epoch FROM lease_until)';
my $keys_used = 0;

sub enqueue
{
	my $n = chance(0.5) ? 1 : 1 + int(rand(8));
	my ($p, $e, $c) = (pick(@providers), pick(@endpoints), pick(@classes));
	my $t = tenant();
	$e = '/ab' if $e eq '/c' && $seed % 2;
	$e = chance(0.1) ? 'NULL' : "'$e'";
	my $units = $seed % 2 ? 'NULL' : chance(0.15) ? sprintf(q('{"request": %d}'), 1 + int(rand(4)))
	  : chance(0.1) ? sprintf(q('{"token": %d}'), 1 + int(rand(150))) : 'NULL';
	my $run_at = chance(0.2) ? sprintf("quota_clock() + '%d ms'", rand(4000)) : 'NULL';
	my $before = chance(0.1) ? sprintf("quota_clock() + '%d ms'", 1 + rand(9000)) : 'NULL';
	my $key = chance(0.15) ? "'k" . int(rand(8)) . "'" : 'NULL';
	my $user = chance(0.2) ? "'u" . int(rand(3)) . "'" : 'NULL';
	my $payload = chance(0.5) ? "'" . int(rand(3)) . "'" : 'NULL';

	return "SELECT reason FROM quota_enqueue('$t', '$p', $payload, $e, '$c', $units, $run_at, $before, $key, $user, max_attempts => "
	  . (1 + int(rand(5))) . ')' if chance(0.4);
	$n = 1 if $key ne 'NULL';
	my $conflict = chance(0.1) ? ' ON CONFLICT DO NOTHING' : '';
	my $mix = chance(0.2) ? "'t' || 1 + n % $tenants" : "'$t'";
	return "INSERT INTO quota.jobs (tenant, provider, endpoint, class, units, run_at, start_before, dedupe_key, \"user\", payload"
	  . ") SELECT $mix, '$p', $e, '$c', $units, $run_at, $before, $key, $user, $payload FROM generate_series(1, $n) n$conflict";
}

sub dequeue
{
	my $p = chance(0.2) ? "ARRAY['" . join("', '", sort { rand() <=> 0.5 } @providers) . "']" : "'" . pick(@providers) . "'";
	my $args = chance(0.3) ? ', same_endpoint => true' . (chance(0.5) ? ', merge_equal => true' : '') : '';
	my $ms = pick(500, 3000, 60000);
	my $max = pick(1, 1, 2, 5, 12);
	my $claim = "SELECT 'claim', id, attempt, $epoch FROM quota_dequeue($p, $max, 'w', '$ms ms'$args)";
	return $claim unless chance(0.1);
	# claim and end in one statement
	return "SELECT 'whole', id, attempt, $epoch, quota_complete(id, attempt) FROM quota_dequeue($p, $max)" if chance(0.5);
	return "SELECT 'claim', id, attempt, $epoch FROM quota_dequeue($p, $max, lease => '$ms ms') LIMIT $max";
}

# Running jobs, mostly what this session or others were told they hold.
sub some
{
	my ($n) = @_;
	return "(SELECT id, attempt FROM quota.jobs WHERE state = 'running' ORDER BY hashint8(id + " . int(rand(1000)) . ") LIMIT $n) j";
}

sub end_some
{
	my $dice = rand();
	my $many = 1 + int(rand(5));
	my $end = "SELECT 'end', id, attempt FROM (SELECT id, attempt, %s AS done FROM " . some(1) . ') x WHERE done IS NOT NULL';
	my $array = "SELECT 'end', u.id, u.attempt FROM (SELECT array_agg(id) AS ids, array_agg(attempt) AS attempts FROM "
	  . some($many) . ' HAVING count(*) > 0) a, LATERAL unnest(ids, attempts, %s) u (id, attempt, what)'
	  . " WHERE u.what NOT IN ('stale', 'busy')";
	my $units = chance(0.3) ? sprintf(q('{"request": %d, "token": %d}'), rand(5), rand(50)) : 'NULL';
	my $retry = chance(0.8) ? 'true' : 'false';
	my $billed = chance(0.3) ? 'true' : 'false';

	return sprintf($end, "quota_complete(id, attempt, units => $units)::text") if $dice < 0.3;
	return sprintf($end, "quota_fail(id, attempt, 'bad', retry => $retry, billed => $billed)") if $dice < 0.5;
	return sprintf($array, 'quota_complete(ids, attempts)') if $dice < 0.7;
	return sprintf($array, "quota_fail(ids, attempts, array_fill('bad'::text, array[cardinality(ids)]), retry => $retry, billed => $billed)")
	  if $dice < 0.85;
	return "SELECT 'extend', (l).id, (l).attempt, extract(epoch FROM (l).lease_until) FROM (SELECT quota_extend_job(id, attempt, '" . pick(1, 20) . " s') AS l FROM "
	  . some(1) . ' OFFSET 0) x' if $dice < 0.93;
	return "SELECT 'extend', l.id, l.attempt, extract(epoch FROM l.lease_until) FROM (SELECT array_agg(id) AS ids, array_agg(attempt) AS attempts FROM "
	  . some($many) . " HAVING count(*) > 0) a, LATERAL quota_extend_job(ids, attempts, '2 s') l WHERE l.lease_until IS NOT NULL";
}

sub other
{
	my $dice = rand();
	my $order = 'ORDER BY hashint8(id + ' . int(rand(1000)) . ')';

	return "SELECT CASE quota_cancel(id) WHEN 'cancelled' THEN 'end' END, id, attempt FROM (SELECT id, attempt FROM quota.jobs WHERE state IN ('queued', 'scheduled', 'running') $order LIMIT 1) j"
	  if $dice < 0.35;
	return "SELECT quota_requeue(id) FROM (SELECT id FROM quota.jobs WHERE state IN ('failed', 'cancelled') $order LIMIT 1) j" if $dice < 0.6;
	return "DELETE FROM quota.jobs WHERE id = ANY (ARRAY(SELECT id FROM quota.jobs WHERE state <> 'running' $order LIMIT " . pick(1, 1, 4) . '))'
	  if $dice < 0.75;
	return "SELECT admitted FROM quota_acquire('" . tenant() . "', '" . pick(@providers) . "', '" . pick(@endpoints) . "', class => '" . pick(@classes) . "')"
	  if $dice < 0.85;
	return "UPDATE quota.jobs SET payload = '9' WHERE id = ANY (ARRAY(SELECT id FROM quota.jobs WHERE state = 'queued' $order LIMIT 2))";
}

# Ways of writing rows that are not the usual ones.
sub odd
{
	my ($w) = @_;
	my ($t, $p, $n) = (tenant(), pick(@providers), 1 + int(rand(5)));
	my $order = 'ORDER BY hashint8(id + ' . int(rand(1000)) . ')';
	my $columns = '(tenant, provider, endpoint, payload, run_at, dedupe_key)';
	my $what = chance(0.5) ? pick(qw(b_null b_fail b_sub b_more b_wins b_cancel)) : pick(qw(a_delete a_cancel a_update a_more a_sub));
	my $row = "'$t', '$p', '" . pick('/a', '/b') . "', " . pick("'{\"odd\": \"$what\"}'", 'NULL') . ', '
	  . (chance(0.3) ? sprintf("quota_clock() + '%d ms'", rand(4000)) : 'NULL::timestamptz');
	my $key = chance(0.3) ? "'o' || n % 3" : 'NULL';
	my $rows = "SELECT $row, $key FROM generate_series(1, $n) n";
	my $insert = "INSERT INTO quota.jobs $columns $rows";
	my $some = "(SELECT id FROM quota.jobs WHERE state <> 'running' $order LIMIT 2)";
	my $cursor = 'c' . int(rand(1000000));

	return pick(
		$insert,
		"DO \$\$ BEGIN $insert; IF " . pick('true', 'false') . " THEN RAISE EXCEPTION 'no'; END IF; EXCEPTION WHEN raise_exception OR unique_violation OR sqlstate '53Q00' THEN $insert; END \$\$",
		"INSERT INTO quota.jobs $columns SELECT $row, nullif(repeat('', 1 / ($n - n)), '') FROM generate_series(1, $n) n",
		"INSERT INTO quota.jobs (id, tenant, provider, payload) SELECT greatest(j.id, n), '$t', '$p', '5' FROM generate_series(1, $n) n LEFT JOIN $some j ON true ON CONFLICT (id) DO UPDATE SET payload = '6'",
		"WITH d AS (DELETE FROM quota.jobs WHERE id IN $some RETURNING *) INSERT INTO quota.jobs (tenant, provider, endpoint, class, dedupe_key) SELECT tenant, provider, endpoint, class, dedupe_key FROM d",
		"WITH d AS (DELETE FROM quota.jobs WHERE id IN $some RETURNING *) INSERT INTO quota.jobs SELECT * FROM d",
		"WITH a AS ($insert RETURNING id), b AS ($insert RETURNING id) SELECT count(*) FROM a, b",
		"MERGE INTO quota.jobs j USING $some s ON s.id = j.id WHEN MATCHED AND j.state = 'queued' THEN DELETE WHEN MATCHED THEN UPDATE SET payload = '7'",
		"COPY quota.jobs (tenant, provider) FROM PROGRAM 'yes $t | head -$n | sed \"s/\$/\\\\t$p/" . pick('', '; 3s/^/x/') . "\"'",
		"SELECT quota_cancel(id), quota_requeue(id) FROM (SELECT id FROM quota.jobs WHERE state IN ('queued', 'scheduled') $order LIMIT 2) j",
		"SELECT count(quota_enqueue('$t', '$p', payload, dedupe_key => CASE n WHEN 2 THEN 'o1' END)) FROM (VALUES (1, '{\"odd\": \"$what\"}'::jsonb), (2, '1')) v (n, payload)",
		$w->{open} ? "DECLARE $cursor CURSOR FOR SELECT 'claim', id, attempt, $epoch FROM quota_dequeue('$p', $n); FETCH 1 FROM $cursor" : $insert);
}

sub act
{
	my ($w) = @_;
	my $dice = rand();

	if (!$w->{open} && chance(0.6))
	{
		run($w, 'BEGIN' . (chance(0.15) ? ' ISOLATION LEVEL REPEATABLE READ' : ''), 1);
		$w->{open} = 1;
	}
	if ($w->{open} && chance(0.15) && !defined $w->{saved})
	{
		run($w, 'SAVEPOINT s', 1);
		$w->{saved} = @{ $w->{done} };
	}
	if (defined $w->{saved} && chance(0.25))
	{
		if (chance(0.6))
		{
			run($w, 'ROLLBACK TO s', 1);
			$#{ $w->{done} } = $w->{saved} - 1;
		}
		run($w, 'RELEASE s', 1);
		$w->{saved} = undef;
	}
	run($w, chance(0.15) ? odd($w) : $dice < 0.3 ? enqueue() : $dice < 0.6 ? dequeue() : $dice < 0.85 ? end_some() : other());
	finish($w) if $w->{open} && chance(0.3);
	return;
}

# Statements of all sessions at the same time.
sub crowd
{
	my @sql;
	foreach my $i (0 .. $#workers)
	{
		my $w = $workers[$i];
		my $dice = rand();
		$sql[$i] = $dice < 0.2 ? enqueue() : $dice < 0.7 ? dequeue() : end_some();
		push @log, "$i (crowd): $sql[$i]";
		$w->{s}->query_async($sql[$i]);
	}
	my $victim = chance(0.4) ? pick(@workers) : undef;
	my $dies = $victim && $victim->{open} && chance(0.5);
	push @log, ($dies ? 'terminate' : 'cancel') if $victim;
	$victim->{s}->kill_backend($dies ? 'TERM' : 'INT') if $victim;
	if (chance(0.3))
	{
		main_query("SELECT quota_clock_advance('700 ms')");
		clock();
	}
	$_->{s}->_finish for @workers;
	reopen($victim) if $dies;
	$crowded = 1;
	# what an error undid others may have claimed since, and what was ended
	my @frees = map { $workers[$_]{s}->notices =~ /ERROR/ ? 2 : $sql[$_] =~ /'end'/ ? 1 : 0 } 0 .. $#workers;
	answered($workers[$_], $sql[$_]) for grep { !$dies || $workers[$_] != $victim } sort { $frees[$b] <=> $frees[$a] } 0 .. $#workers;
	$crowded = 0;
	return;
}

sub main_query
{
	my ($sql) = @_;
	push @log, "main: $sql";
	return $main->query($sql);
}

sub clock { $now = $main->query('SELECT extract(epoch FROM quota_clock())'); return }

sub world
{
	my $dice = rand();
	if ($dice < 0.6) { main_query("SELECT quota_clock_advance('" . (1 + int(rand(1500))) . " ms')") }
	elsif ($dice < 0.63) { main_query("SELECT quota_clock_advance('" . (1 + int(rand(200))) . " s')") }
	elsif ($dice < 0.75)
	{
		main_query('UPDATE quota.tenants SET weight = ' . pick('NULL', 1, 2, 7) . ', suspended = ' . pick('false', 'false', 'true')
			  . " WHERE tenant = '" . tenant() . "'");
	}
	elsif ($dice < 0.9)
	{
		main_query('UPDATE quota.limits SET amount = ' . pick(0, 1, 2, 5, 8, 20, 'NULL') . " WHERE name LIKE '%vary%' AND hashtext(name) % 2 = " . pick(-1, 0, 1));
	}
	elsif ($dice < 0.95) { main_query('UPDATE quota.classes SET rank = ' . pick(1, 2, 3) . ", max_wait = " . pick('NULL', "'2 s'") . " WHERE class = '" . pick(@classes) . "'") }
	else { main_query('UPDATE quota.tiers SET weight = ' . pick(1, 3, 9) . " WHERE tier = 'big'") }
	clock();
	return;
}

sub restart
{
	my ($how) = @_;
	push @log, "restart: $how";
	my $wall = $main->query('SELECT quota_clock()');
	if ($how eq 'immediate')
	{
		$node->stop('immediate');
		$_->kill_client for $main, map { $_->{s} } @workers;
	}
	else
	{
		$node->stop('fast');
		$_->kill_client for $main, map { $_->{s} } @workers;
	}
	over($_) for @workers;
	$node->start;
	$main = session($node);
	$main->query("SELECT quota_clock_set('$wall')");
	@workers = map { open_worker() } @workers;
	clock();
	return;
}

# ---- the checker ----

# The background worker is at work too: a difference counts when it stays.
sub settled
{
	my ($what, $sql, $before) = @_;
	my $found = '';
	for (1 .. 30)
	{
		$main->query($before) if $before;
		$found = $main->query($sql);
		return if $found eq '';
		select undef, undef, undef, 0.1;
	}
	return problem("$what: $found");
}

sub check
{
	finish($_) for @workers;
	foreach my $p (@providers)
	{
		my $w = { %{ $workers[0] }, open => 0, done => [] };
		run($w, "SELECT 'claim', id, attempt, $epoch FROM quota_dequeue('$p', 1000, 'checker', '" . pick(1, 5) . " s')") if chance(0.5);
	}
	settled('flows', $counts);
	settled('sums', $sums);
	settled('rows', $rows);
	settled('dedupe', $keys);
	settled('caps', $caps);
	settled('audit', "SELECT string_agg(a::text, ', ') FROM quota_audit() a");
	# what the sessions were told is what the rows say
	my $ids = join ',', map { "($_, $lease{$_}[0], $lease{$_}[1])" } grep { $lease{$_}[1] > $now } keys %lease;
	settled('leases', "SELECT string_agg(format('%s/%s', v.id, v.attempt), ', ') FROM (VALUES $ids) v (id, attempt, until)
		LEFT JOIN quota.leases l ON l.job_id = v.id AND l.attempt = v.attempt AND l.state = 'r' WHERE l.job_id IS NULL") if $ids ne '';
	if (chance(0.4))
	{
		my $claim = join ';', map { "SELECT 'claim', id, attempt, $epoch FROM quota_dequeue('$_', 1000, 'checker', '3 s')" } @providers;
		my $found;
		for (1 .. 5)
		{
			my $w = { %{ $workers[0] }, open => 0, done => [] };
			run($w, $claim);
			$found = $main->query($left);
			last if $found eq '';
			select undef, undef, undef, 0.1;
		}
		problem("left over: $found") if $found ne '';
	}
	return;
}

# Claims and completes for so many rounds; what is unfinished then.
sub rounds
{
	my ($n) = @_;
	my $unfinished;
	for (1 .. $n)
	{
		main_query("SELECT quota_clock_advance('1 h')");
		clock();
		for my $p (@providers)
		{
			run($workers[1], "SELECT 'claim', id, attempt, $epoch FROM quota_dequeue('$p', 1000)");
			main_query("SELECT quota_complete(array_agg(id), array_agg(attempt)) FROM quota.jobs WHERE provider = '$p' AND state = 'running' HAVING count(*) > 0");
		}
		%lease = ();
		$unfinished = $main->query("SELECT string_agg(format('%s %s %s %s %s', id, provider, tenant, endpoint, state), ', ') FROM quota.jobs WHERE state IN ('queued', 'scheduled', 'running')");
		last if $unfinished eq '';
	}
	return if $unfinished eq '';
	return problem("not drained: $unfinished\n" . $main->query('SELECT * FROM quota.stat_flows WHERE depth > 0'));
}

sub drain
{
	finish($_) for @workers;
	restart(pick('immediate', 'fast')) if chance(0.2);
	main_query("UPDATE quota.tenants SET suspended = false; UPDATE quota.limits SET amount = 5 WHERE name LIKE '%vary%'");
	# without dear jobs, limits that work need time only
	rounds(100) if $seed % 2;
	main_query('UPDATE quota.limits SET amount = NULL WHERE true; UPDATE quota.tiers SET max_in_flight = NULL');
	rounds(40);
	main_query("SELECT quota_clock_advance('1 h')");
	settled('permits', "SELECT string_agg(p::text, ', ') FROM quota.stat_permits p");
	settled('in flight', "SELECT string_agg(b::text, ', ') FROM quota.stat_buckets b WHERE kind = 'concurrency' AND used <> 0");
	settled('busy', "SELECT string_agg(b::text, ', ') FROM quota.stat_buckets b WHERE held <> 0 OR busy");
	settled('flows', $counts);
	settled('sums', $sums);
	settled('leases', "SELECT string_agg(l::text, ', ') FROM quota.leases l");
	settled('dedupe', "SELECT string_agg(l::text, ', ') FROM quota.dedupe l");
	settled('audit', "SELECT string_agg(a::text, ', ') FROM quota_audit() a");
	return;
}

# ---- seeds ----

foreach (@seeds)
{
	$seed = $_;
	srand($seed);
	@problems = @log = %lease = %seen = %ended = ();
	$step = 0;
	$node = new_node("seed$seed");
	$main = session($node);
	$main->query("SELECT quota_clock_set('2030-01-01 00:00:00+00')");
	$main->query(
		qq{
		INSERT INTO quota.tiers (tier, weight, max_in_flight, max_queued) VALUES ('small', 1, 3, 20), ('big', 4, NULL, NULL);
		INSERT INTO quota.tenants (tenant, tier) SELECT 't' || n, CASE WHEN n <= 2 THEN 'big' ELSE 'small' END FROM generate_series(1, $tenants) n;
		INSERT INTO quota.providers (provider, safety, max_queued, lease) VALUES ('p', 1, 50, '20 s'), ('q', 1, NULL, '5 s'), ('r', 1, 1000, '60 s');
		UPDATE quota.classes SET reserve = 0.2, max_wait = '3 s' WHERE class = 'batch';
		UPDATE quota.classes SET start_within = '30 s' WHERE class = 'interactive';
		INSERT INTO quota.costs (provider, endpoint, unit, cost) VALUES ('p', '/c', 'request', 2), ('p', '/ab', 'token', 10), ('r', '/a', 'token', 3);
		INSERT INTO quota.limits (provider, name, endpoint, per, unit, kind, amount, period, burst, external) VALUES
			(NULL, 'all', NULL, '{}', 'request', 'concurrency', 14, NULL, NULL, NULL),
			(NULL, 'all vary', NULL, '{tenant}', 'request', 'token_bucket', 20, '1 s', 20, NULL),
			('p', 'rate vary', NULL, '{}', 'request', 'token_bucket', 8, '1 s', 6, false),
			('p', 'flights', NULL, '{}', 'request', 'concurrency', 8, NULL, NULL, false),
			('p', 'a flights', '/a*', '{}', 'request', 'concurrency', 3, NULL, NULL, false),
			('p', 'user', NULL, '{user}', 'request', 'concurrency', 1, NULL, NULL, false),
			('p', 'tenant vary', NULL, '{tenant}', 'request', 'token_bucket', 4, '1 s', 4, false),
			('p', 'b vary', '/b', '{}', 'request', 'concurrency', 2, NULL, NULL, false),
			('q', 'wide vary', NULL, '{}', 'request', 'concurrency', 5, NULL, NULL, false),
			('q', 'class vary', '/[ab]', '{class}', 'request', 'token_bucket', 2, '1 s', 2, false),
			('q', 'user rate', NULL, '{user}', 'request', 'token_bucket', 1, '2 s', 1, false),
			('q', 'credits', NULL, '{tenant}', 'request', 'allowance', 60, '1 day', NULL, NULL),
			('r', 'tokens', NULL, '{tenant}', 'token', 'token_bucket', 40, '1 s', 100, false),
			('r', 'endpoint vary', NULL, '{endpoint}', 'request', 'token_bucket', 3, '1 s', 3, false)});
	$main->query(
		q{
		CREATE FUNCTION odd_before() RETURNS trigger LANGUAGE plpgsql AS $$
		DECLARE what text := CASE jsonb_typeof(NEW.payload) WHEN 'object' THEN NEW.payload->>'odd' END;
		BEGIN
			IF what = 'b_null' AND NEW.id % 2 = 0 THEN RETURN NULL; END IF;
			IF what = 'b_fail' AND NEW.id % 3 = 0 THEN RAISE EXCEPTION 'no'; END IF;
			IF what = 'b_sub' THEN
				BEGIN
					INSERT INTO quota.jobs (tenant, provider, endpoint) VALUES (NEW.tenant, NEW.provider, NEW.endpoint);
					RAISE EXCEPTION 'no';
				EXCEPTION WHEN raise_exception THEN NULL;
				END;
			ELSIF what = 'b_more' THEN INSERT INTO quota.jobs (tenant, provider, endpoint, run_at) VALUES (NEW.tenant, NEW.provider, NEW.endpoint, NEW.run_at);
			ELSIF what = 'b_wins' THEN DELETE FROM quota.jobs WHERE tenant = NEW.tenant AND payload = NEW.payload AND state IN ('queued', 'scheduled') AND id <> NEW.id;
			ELSIF what = 'b_cancel' THEN PERFORM quota_cancel(id) FROM quota.jobs WHERE tenant = NEW.tenant AND payload = NEW.payload AND state IN ('queued', 'scheduled') AND id <> NEW.id;
			END IF;
			RETURN NEW;
		END $$;
		CREATE FUNCTION odd_after() RETURNS trigger LANGUAGE plpgsql AS $$
		DECLARE what text := CASE jsonb_typeof(NEW.payload) WHEN 'object' THEN NEW.payload->>'odd' END;
		BEGIN
			IF what = 'a_delete' AND NEW.id % 2 = 0 THEN DELETE FROM quota.jobs WHERE id = NEW.id;
			ELSIF what = 'a_cancel' THEN PERFORM quota_cancel(NEW.id);
			ELSIF what = 'a_update' THEN UPDATE quota.jobs SET payload = '8' WHERE id = NEW.id;
			ELSIF what = 'a_more' THEN INSERT INTO quota.jobs (tenant, provider, endpoint, run_at) VALUES (NEW.tenant, NEW.provider, NEW.endpoint, NEW.run_at);
			ELSIF what = 'a_sub' THEN
				BEGIN
					INSERT INTO quota.jobs (tenant, provider, endpoint) VALUES (NEW.tenant, NEW.provider, NEW.endpoint);
					PERFORM quota_cancel(NEW.id);
					RAISE EXCEPTION 'no';
				EXCEPTION WHEN raise_exception THEN NULL;
				END;
			END IF;
			RETURN NULL;
		END $$;
		CREATE TRIGGER odd BEFORE INSERT ON quota.jobs FOR EACH ROW EXECUTE FUNCTION odd_before();
		CREATE TRIGGER odd_after AFTER INSERT ON quota.jobs FOR EACH ROW EXECUTE FUNCTION odd_after();
		CREATE TRIGGER zzz_odd_after AFTER INSERT ON quota.jobs FOR EACH ROW EXECUTE FUNCTION odd_after()}) if $seed % 2 == 0;
	@workers = map { open_worker() } 1 .. 4;
	clock();
	my $next_check = 10;
	foreach my $i (1 .. $steps)
	{
		$step = $i;
		world() if chance(0.3);
		if (chance($seed % 3 ? 0.06 : 0.4)) { crowd() }
		else { act(pick(@workers)) }
		if (chance(0.008)) { restart(pick('immediate', 'immediate', 'fast')) }
		if (--$next_check <= 0)
		{
			check();
			$next_check = 4 + int(rand(12));
		}
		last if @problems >= 2;
	}
	check();
	drain() if @problems < 2;
	is(join("\n", @problems), '', "seed $seed: $step steps, all is as the model says, and the queue drains");
	note 'jobs: ' . $main->query("SELECT string_agg(state || ' ' || n, ', ') FROM (SELECT state, count(*) AS n FROM quota.jobs GROUP BY 1) s");
	$_->{s}->quit for @workers;
	$main->quit;
	$node->stop;
	my $log = slurp_file($node->logfile);
	unlike($log, qr/TRAP:|PANIC|XX\d\d\d:|terminated by signal (?!9)/, "seed $seed: and nothing is broken");
	$node->clean_node;
}

done_testing();
