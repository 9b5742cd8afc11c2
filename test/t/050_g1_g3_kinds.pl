# Copyright (c) 2026, the quota authors

# G1 and G3 for limits of every kind at once: sessions acquire, settle, release, forget,
# roll back, are cancelled and terminated and the server crashes, while an administrator
# changes what limits allow.  The clients write down what they were granted, and from
# that log alone follows that no limit gave more than it may, that each bucket counts
# exactly what was granted, and that nothing is left over once everybody has gone.
#
# QUOTA_KINDS_SECONDS (default 9) is for how long; QUOTA_KINDS_SEED repeats what
# everybody does, though not when they come to it.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use IPC::Run;
use List::Util qw(max min sum0);
use POSIX qw(ceil);
use QuotaTest;
use QuotaTest::Bounds;
use Time::HiRes qw(sleep time);

my $seconds = $ENV{QUOTA_KINDS_SECONDS} // 9;
my $seed = $ENV{QUOTA_KINDS_SEED} // int(rand(1_000_000));
my $clients = 16;
my $lifetime = 3_000_000;    # of every permit, us
srand($seed);
note("seed $seed");

# ---- the checker sees what is wrong ----

{
	my @always = (from => 0, to => 9e15, from_tick => 0, to_tick => 9e15, binds => 1, anchor => 0);
	my $rules = sub { [ { @always, amount => 2, burst => 2, period => 1000, @_ } ] };
	my $log = sub {
		my $tick = 0;
		return [ map { { at0 => $_, at1 => $_, tick0 => ++$tick, tick1 => ++$tick, units => 1, dear => 1, gone => $tick + 8 } } @_ ];
	};
	my @at = (0, 499, 500, 999, 1000, 1001, 1500, 1999, 2000);
	my $checker = QuotaTest::Bounds->new(\@at);
	my $counts = sub {
		my ($kind, $calls, @rules) = @_;
		return scalar(my @faults = $checker->faults($kind, $rules->(@rules), $log->(@$calls)));
	};

	foreach my $kind ('token_bucket', 'leaky_bucket')
	{
		is($counts->($kind, [ 0, 0, 500, 1000 ]), 0, "$kind: as much as there is");
		is($counts->($kind, [ 0, 0, 499 ]), 1, "$kind: too soon");
	}
	is($counts->('fixed_window', [ 999, 999, 1000, 1999 ]), 0, 'fixed_window: two in each');
	is($counts->('fixed_window', [ 1000, 1001, 1999 ]), 1, 'fixed_window: three in one');
	is($counts->('sliding_window', [ 0, 999, 1000, 1999 ]), 0, 'sliding_window: two within any period');
	is($counts->('sliding_window', [ 0, 499, 999 ]), 1, 'sliding_window: three');
	is($counts->('concurrency', [ 0, 0, 0 ], amount => 3), 0, 'concurrency: three at once');
	is($counts->('concurrency', [ 0, 0, 0 ]), 1, 'concurrency: one too many');
	is($counts->('concurrency', [ 0, 0, 0 ], binds => 0), 0, 'a limit that does not bind');
}

# ---- limits of every kind ----

my $node = new_node('main', 'max_connections' => 40, 'restart_after_crash' => 'on',
	'log_statement' => 'none', 'log_error_verbosity' => 'terse', 'log_min_error_statement' => 'panic');

$node->safe_psql('postgres', <<'SQL');
INSERT INTO quota.tiers (tier) VALUES ('basic');
INSERT INTO quota.tenants (tenant, tier) SELECT 't' || i, 'basic' FROM generate_series(0, 2) i;
INSERT INTO quota.providers (provider, safety) SELECT p, 1 FROM unnest('{b,l,f,s,c,a,m}'::text[]) p;
INSERT INTO quota.costs (provider, unit, cost) SELECT p, u, 2 FROM unnest('{b,l,f,s,c,a,m}'::text[]) p, unnest('{token,credit}'::text[]) u;
INSERT INTO quota.limits (provider, name, endpoint, per, kind, unit, amount, period, burst, enforcement, external) VALUES
	('b', 'b_all', NULL, '{}', 'token_bucket', 'token', 100, '1 s', 30, 'hard', false),
	('b', 'b_own', NULL, '{tenant}', 'token_bucket', 'request', 30, '1 s', 10, 'hard', NULL),
	('b', 'b_user', NULL, '{tenant,user}', 'token_bucket', 'request', 20, '1 s', 5, 'hard', NULL),
	('l', 'l_all', NULL, '{}', 'leaky_bucket', 'token', 100, '1 s', 4, 'hard', false),
	('l', 'l_own', NULL, '{tenant}', 'leaky_bucket', 'request', 30, '1 s', 3, 'hard', NULL),
	('f', 'f_all', NULL, '{}', 'fixed_window', 'request', 40, '700 ms', NULL, 'hard', false),
	('f', 'f_user', NULL, '{user}', 'fixed_window', 'token', 20, '300 ms', NULL, 'hard', false),
	('s', 's_all', NULL, '{}', 'sliding_window', 'request', 40, '1 s', NULL, 'hard', false),
	('s', 's_own', NULL, '{tenant}', 'sliding_window', 'token', 16, '400 ms', NULL, 'hard', NULL),
	('c', 'c_all', NULL, '{}', 'concurrency', 'request', 8, NULL, NULL, 'hard', false),
	('c', 'c_own', NULL, '{tenant}', 'concurrency', 'request', 4, NULL, NULL, 'hard', NULL),
	('c', 'c_user', NULL, '{tenant,user}', 'concurrency', 'request', 2, NULL, NULL, 'hard', NULL),
	('a', 'a_all', NULL, '{}', 'allowance', 'credit', 150, '5 s', NULL, 'hard', false),
	('a', 'a_own', NULL, '{tenant}', 'allowance', 'credit', 60, '3 s', NULL, 'hard', NULL),
	('m', 'm_bucket', NULL, '{class}', 'token_bucket', 'request', 60, '1 s', 20, 'hard', false),
	('m', 'm_fixed', NULL, '{}', 'fixed_window', 'token', 100, '500 ms', NULL, 'hard', false),
	('m', 'm_sliding', NULL, '{endpoint}', 'sliding_window', 'request', 16, '300 ms', NULL, 'hard', false),
	('m', 'm_flight', NULL, '{}', 'concurrency', 'request', 6, NULL, NULL, 'hard', false),
	('m', 'm_credit', NULL, '{tenant}', 'allowance', 'credit', 24, '4 s', NULL, 'hard', NULL),
	('m', 'm_soft', NULL, '{}', 'token_bucket', 'request', 100000, '1 h', 5, 'soft', false),
	('m', 'm_shadow', NULL, '{}', 'token_bucket', 'request', 5, '1 s', 5, 'shadow', false),
	('m', 'm_shadow_flight', NULL, '{}', 'concurrency', 'request', 2, NULL, NULL, 'shadow', false),
	(NULL, 'x_bucket', 'x*', '{tenant}', 'token_bucket', 'request', 60, '1 s', 15, 'hard', NULL),
	(NULL, 'x_flight', 'x*', '{user}', 'concurrency', 'request', 8, NULL, NULL, 'hard', NULL),
	(NULL, 'x_soft', 'x*', '{tenant}', 'allowance', 'credit', 20, '3 s', NULL, 'soft', NULL);
UPDATE quota.limits SET permit_lifetime = '3 s';
SQL

# ---- what clients do, and write down ----

$node->safe_psql('postgres', slurp_file(__FILE__ =~ s{t/[^/]*$}{lib/QuotaTest/calls.sql}r));

my %scripts = (
	'ask@8' => 'SELECT ask(:client_id, :r);',
	'finish@4' => 'SELECT finish(:client_id, :r);',
	'both@4' => "SELECT ask(:client_id, :r);\nSELECT finish(:client_id, :r);",
	'within one@3' => "BEGIN;\nSELECT ask(:client_id, :r);\nSELECT finish(:client_id, :s);\nSELECT ask(:client_id, :s);\nCOMMIT;",
	'rollback@2' => "BEGIN;\nSELECT ask(:client_id, :r);\nSELECT ask(:client_id, :s);\nSELECT finish(:client_id, :r);\nROLLBACK;",
	'savepoints@3' => "BEGIN;\nSELECT ask(:client_id, :r);\nSAVEPOINT a;\nSELECT ask(:client_id, :s);\nSELECT finish(:client_id, :r);\n"
	  . "SAVEPOINT b;\nSELECT ask(:client_id, :r + 1);\nRELEASE b;\nSELECT finish(:client_id, :s);\nROLLBACK TO a;\n"
	  . "SELECT ask(:client_id, :r + 2);\nSELECT finish(:client_id, :s);\nCOMMIT;",
	'slow@1' => "BEGIN;\nSELECT ask(:client_id, :r);\nSELECT finish(:client_id, :s);\n\\sleep 20 ms\nCOMMIT;",
	'slow rollback@1' => "BEGIN;\nSELECT finish(:client_id, :s);\nSELECT ask(:client_id, :r);\n\\sleep 20 ms\nROLLBACK;",
	'often@1' => 'SELECT often(:client_id, :r, 8);',
	'steal@1' => "BEGIN;\nSELECT steal(:r);\n\\sleep 2 ms\nCOMMIT;");
my @files;
foreach my $script (sort keys %scripts)
{
	my ($name, $weight) = split /@/, $script;
	my $file = $node->basedir . '/' . $name =~ s/ /_/gr . '.sql';
	append_to_file($file, "\\set r random(1, 1000000000)\n\\set s random(1, 1000000000)\n$scripts{$script}\n");
	push @files, '-f', "$file\@$weight";
}

# all clients, at work
sub clients
{
	my ($round, @how) = @_;
	my $bench = { out => '', err => '' };
	local $ENV{PGAPPNAME} = 'pgbench';
	$bench->{run} = IPC::Run::start(
		[
			$node->installed_command('pgbench'), '-n', '-c', $clients, '-j', 2, @how,
			"--random-seed=" . ($seed + $round), '-h', $node->host, '-p', $node->port, @files, 'postgres'
		],
		'>', \$bench->{out}, '2>', \$bench->{err});
	return $bench;
}

my $boss = session($node);
sub value { return psql_value($node, $_[0]) }

sub rows
{
	my ($sql) = @_;
	return map { [ split /\|/, $_, -1 ] } split /\n/, value($sql);
}

# ---- limits, as the checker and the administrator know them ----

my %limits;
$boss->query("SELECT quota_clock_set('2020-01-01 00:00:00+00'); SELECT move('0')");
foreach (rows(q{SELECT name, coalesce(provider, ''), coalesce(endpoint, ''), array_to_string(per, ' '), kind, unit, amount, coalesce(burst, 0),
		extract(epoch FROM period) * 1000000, enforcement, extract(epoch FROM timestamptz '2000-01-01 00:00:00+00') * 1000000 FROM quota.limits}))
{
	my %limit;
	@limit{qw(name provider endpoint per kind unit amount burst period enforcement anchor)} = @$_;
	$limits{ $limit{name} } = { %limit, per => [ split / /, $limit{per} ], period => 0 + ($limit{period} || 0) };
}

# The administrator makes the limit $times as large, and what else is given.
sub change
{
	my ($limit, $times, %to) = @_;
	my %new = (%$limit, %to);
	my $amount = defined $times ? int($new{amount} * $times) : 'NULL';
	my $burst = $new{burst} ? max(1, int($new{burst} * ($times // 1))) : 'NULL';
	my $period = $new{period} ? "'$new{period} us'" : 'NULL';
	$boss->query("CALL change('$new{name}', $amount, $burst, $period, '$new{enforcement}')");
	return;
}

# ---- the clock stands still: every bucket counts what was granted, and no more ----

change($_, $_->{kind} eq 'concurrency' ? 1 : 20) foreach grep { $_->{enforcement} eq 'hard' } values %limits;
change($_, 1) foreach grep { $_->{enforcement} ne 'hard' } values %limits;
clients(0, '-t', 120)->{run}->finish;

# What the log says of calls: rows by id.  Those of the server's log may have rolled back.
sub calls
{
	my %calls;
	my @columns = qw(id tick1 at0 at1 tenant provider endpoint user class n token credit permit);
	foreach (rows('SELECT ' . join(', ', map { "\"$_\"" } @columns) . ' FROM admitted'))
	{
		my %call = (request => 1, committed => 1);
		@call{@columns} = @$_;
		$calls{ $call{id} } = \%call;
	}
	foreach (slurp_file($node->logfile) =~ /sent: (.*)\|$/mg)
	{
		my %call = (request => 1, credit => 0);
		@call{qw(id tenant provider endpoint user class n token sent)} = split /\|/, $_, -1;
		my $known = $calls{ $call{id} } //= \%call;
		$known->{sent} = max($call{sent}, $known->{sent} // 0);
	}
	foreach (rows('SELECT id, how, token, credit, tick FROM settled LEFT JOIN ended USING (id)'))
	{
		my ($id, $how, $token, $credit, $tick) = @$_;
		push @{ $calls{$id}{settled} }, { how => $how, token => $token, credit => $credit, request => $how eq 'release' ? 0 : 1, tick => $tick };
	}
	return values %calls;
}

sub matches
{
	my ($limit, $call) = @_;
	my $endpoint = $limit->{endpoint} =~ s/\*/.*/r;
	return ($limit->{provider} eq '' || $limit->{provider} eq $call->{provider})
	  && ($endpoint eq '' || $call->{endpoint} =~ /^$endpoint$/)
	  && !grep { $_ eq 'user' && $call->{user} eq '' } @{ $limit->{per} };
}

# which bucket of the limit
sub label { my ($limit, $call) = @_; return join '/', map { $call->{$_} } @{ $limit->{per} } }

# Units that a bucket is charged with for the call, while nothing refills.  What exceeds
# the estimate and was settled where it was acquired stays charged, too, if only the
# settlement rolls back.
sub charged
{
	my ($limit, $call) = @_;
	my ($kind, $unit, $settled) = (@$limit{ 'kind', 'unit' }, $call->{settled});
	return $call->{committed} && !$settled ? $call->{n} : 0 if $kind eq 'concurrency';
	return $call->{n} * ($settled ? $settled->[0]{$unit} : $call->{committed} ? $call->{$unit} : 0) if $kind eq 'allowance';
	return $call->{n} * $settled->[0]{$unit} if $settled && $settled->[0]{how} =~ /^(less|more|release)$/;
	return 0 unless $call->{committed} || defined $call->{sent};
	return $call->{n} * ($unit eq 'token' ? max($call->{token}, $call->{sent} // 0) : 1);
}

sub counts_what_was_granted
{
	my ($name) = @_;
	my %used;
	my @calls = calls();
	foreach my $limit (grep { $_->{enforcement} ne 'shadow' } values %limits)
	{
		$used{"$limit->{name} " . label($limit, $_)} += charged($limit, $_) foreach grep { matches($limit, $_) } @calls;
	}
	my %counted = map { ("$_->[0] $_->[1]" => $_->[2]) } rows(q{SELECT limit_name, bucket, used FROM quota.stat_buckets WHERE enforcement <> 'shadow'});
	my @wrong = grep { ($counted{$_} // 0) != ($used{$_} // 0) } sort keys %{ { %counted, %used } };
	is(join(', ', map { sprintf '%s: %d, not %d', $_, $counted{$_} // 0, $used{$_} // 0 } @wrong),
		'', "$name: each of " . keys(%counted) . ' buckets counts what was granted of it');
	return;
}

counts_what_was_granted('the clock stands still');
is(value("SELECT limit_name, used FROM quota.stat_buckets WHERE enforcement = 'shadow' AND used > capacity"),
	'', 'what only counts was charged with no more than it would have admitted');
is(value('SELECT * FROM quota_audit()'), '', 'the audit finds nothing');

# ---- the clock moves, limits change, sessions end ----

my @backends = (0, 0);    # cancelled, terminated

sub disturb
{
	my $pids = $boss->query("SELECT pid FROM pg_stat_activity WHERE application_name = 'pgbench'");
	my @pids = split /\n/, $pids;
	return unless @pids;
	my $how = rand() < 0.7 ? 0 : 1;
	$backends[$how] += kill($how ? 'TERM' : 'INT', $pids[ rand @pids ]);
	return;
}

sub change_something
{
	my @names = sort keys %limits;
	my $limit = $limits{ $names[ rand @names ] };
	my $hard = $limit->{enforcement} eq 'hard';
	if (rand() < 0.1)
	{
		$boss->query("BEGIN; UPDATE quota.limits SET amount = 1000000 WHERE name = '$limit->{name}'; ROLLBACK");
		return;
	}
	my %to;
	$to{enforcement} = rand() < 0.7 ? 'hard' : rand() < 0.5 ? 'soft' : 'shadow' if $hard;
	# windows of two limits keep their length, so it is known where they begin
	$to{period} = $limit->{period} * 2 if rand() < 0.3 && $limit->{kind} =~ /bucket|sliding/ || rand() < 0.5 && $limit->{name} eq 'f_all';
	my $times = $hard ? (undef, 0, 0.5, 1, 1, 1, 1.5, 2)[ rand 8 ] : 1;
	change($limit, $times, %to);
	return;
}

# Clients work for a while, until they are killed, with the server or alone.
sub live
{
	my ($round, $duration, $crash) = @_;
	my $bench = clients($round, '-T', 3600);
	wait_until('clients at work', sub { value("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgbench'") > 0 });
	my $end = time() + $duration;
	my $next = time();
	my $i = 0;
	while (time() < $end)
	{
		$boss->query(sprintf "SELECT move('%d us')", rand() < 0.03 ? 400_000 : rand(30_000));
		change_something() if ++$i % 12 == 0;
		next if time() < $next;
		disturb();
		$next += $duration / 7;
	}
	if ($crash)
	{
		my ($before, $pid) = (time(), value("SELECT pid FROM pg_stat_activity WHERE application_name = 'pgbench' LIMIT 1"));
		crash_backend($node, $pid);
		# The clock of rates has run since the server started: by less than the log says.
		$boss = session($node);
		my $passed = ceil((time() - $before + 2) * 1e6);
		my $now = $passed + $boss->query('SELECT max(at) FROM instants');
		$boss->query("SELECT quota_clock_set(timestamptz 'epoch' + $now * interval '1 us');
			INSERT INTO instants VALUES (nextval('tick'), now_us())");
		die 'it took too long to stop the clock' if (time() - $before) * 1e6 > $passed;
	}
	$bench->{run}->kill_kill;
	$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'pgbench'")
	  or die 'clients are left';
	return;
}


# ---- the bounds, by what clients have written down ----

my @crashes;

# Up to which tick the call was in flight: to its settlement or its permit's end.
sub gone
{
	my ($call, $instants) = @_;
	my ($from, $to) = (0, scalar @$instants);
	while ($from < $to)
	{
		my $middle = int(($from + $to) / 2);
		if ($instants->[$middle][1] < $call->{at0} + $lifetime) { $from = $middle + 1 }
		else { $to = $middle }
	}
	my $end = $from < @$instants ? $instants->[$from][0] : 9e15;
	return min($end, map { $_->{tick} } @{ $call->{settled} // [] });
}

# Units of the limit that a call was granted and has kept.
sub kept
{
	my ($limit, $call) = @_;
	my ($kind, $unit) = @$limit{ 'kind', 'unit' };
	return $call->{n} if $kind eq 'concurrency';
	return $call->{n} * min($call->{$unit}, map { $_->{$unit} } @{ $call->{settled} // [] });
}

sub check_bounds
{
	my @instants = rows('SELECT tick, at FROM instants ORDER BY tick');
	my $checker = QuotaTest::Bounds->new([ map { $_->[1] } @instants ]);
	my @calls = grep { $_->{committed} } calls();
	my %versions;
	foreach (rows('SELECT name, amount, burst, period, binds, refuses, tick0, at0, tick1, at1 FROM versions ORDER BY tick0'))
	{
		my ($name, $amount, $burst, $period, $binds, $refuses, $tick0, $at0, $tick1, $at1) = @$_;
		my $before = $versions{$name} //= [];
		@{ $before->[-1] }{ 'to', 'to_tick' } = ($at1, $tick1) if @$before;
		push @$before, { from => $at0, to => 9e15, from_tick => $tick0, to_tick => 9e15, anchor => $limits{$name}{anchor},
			amount => $amount eq '' ? $QuotaTest::Bounds::unlimited : $amount, period => $period || 0,
			burst => $amount eq '' ? $QuotaTest::Bounds::unlimited : $amount ? $burst || 1 : 0,
			binds => $binds eq 't', refuses => $refuses eq 't' };
	}
	foreach my $call (@calls)
	{
		$call->{tick0} = $call->{id};
		$call->{gone} = gone($call, \@instants);
	}
	foreach my $limit (grep { $_->{enforcement} eq 'hard' } map { $limits{$_} } sort keys %limits)
	{
		my (%buckets, @faults);
		foreach my $call (grep { matches($limit, $_) } @calls)
		{
			my $units = kept($limit, $call) or next;
			push @{ $buckets{ label($limit, $call) } }, { %$call, units => $units, dear => $call->{ $limit->{unit} } };
		}
		foreach my $bucket (sort keys %buckets)
		{
			push @faults, map { "$bucket: $_" } $checker->faults($limit->{kind}, $versions{ $limit->{name} }, $buckets{$bucket});
		}
		is(join(', ', @faults), '', "$limit->{name} ($limit->{kind}) keeps its bound");
	}
	return (\%versions, \@calls);
}

# who refused, and might
sub check_refusals
{
	my ($versions) = @_;
	my (%refused, @wrong);
	foreach (rows(q{SELECT id, tick1, array_to_string(names, ' ') FROM refused}))
	{
		my ($tick0, $tick1, $names) = @$_;
		foreach my $name (split / /, $names)
		{
			$refused{$name}++;
			push @wrong, "$name at $tick0"
			  unless grep { $_->{refuses} && $_->{from_tick} <= $tick1 && $_->{to_tick} >= $tick0 } @{ $versions->{$name} };
		}
	}
	is(join(', ', grep { defined } @wrong[ 0 .. 3 ]), '', 'soft and shadow limits refused nothing');
	note('refusals: ' . join(', ', map { "$_ $refused{$_}" } sort keys %refused));
	is(join(', ', grep { $limits{$_}{enforcement} eq 'hard' && !$refused{$_} } sort keys %limits), '', 'each hard limit refused something');
	return;
}

# Whoever could not settle: it was over, or somebody else did.
sub check_permits
{
	my %calls = map { $_->{id} => $_ } @_;
	is(join(', ', grep { @{ $calls{$_}{settled} // [] } > 1 } sort keys %calls), '', 'nothing was settled twice');
	my @lost;
	foreach (rows("SELECT id, tick, at FROM failed WHERE state = '55000'"))
	{
		my ($id, $tick, $at) = @$_;
		my $call = $calls{$id} or next;
		push @lost, $id
		  unless $at >= $call->{at0} + $lifetime
		  || grep { $_->{tick} < $tick } @{ $call->{settled} // [] }
		  or grep { $_ > $call->{id} && $_ < $tick } @crashes;
	}
	is(join(', ', @lost), '', 'no permit was lost while its call was under way');
	return;
}

# everybody has gone, and enough time has passed for all there is to come back
sub is_as_new
{
	my ($name, $after) = @_;
	$boss->query("SELECT move('$after')");
	is(value('SELECT * FROM quota.stat_permits'), '', "$name: no permit is open");
	$node->poll_query_until('postgres', 'SELECT count(*) = 0 FROM quota.holds')
	  or die 'holds are left';
	is(value('SELECT limit_name, bucket, used, level, capacity, busy FROM quota.stat_buckets
		WHERE used <> 0 OR held <> 0 OR level <> capacity OR busy'), '', "$name: all buckets are full, and nothing is held");
	is(value('SELECT * FROM quota_audit()'), '', "$name: the audit finds nothing");
	return;
}

is_as_new('later', '1 day');
change($_, 1) foreach values %limits;
foreach my $round (1 .. 3)
{
	live($round, $seconds / 5);
	is(value('SELECT * FROM quota_audit()'), '', "round $round: the audit finds nothing");
}
live(4, $seconds / 5, 1);
push @crashes, value("SELECT nextval('tick')");
$boss->query("SELECT move('61 s')");    # what was in flight is unknown for a minute
change($_, 1) foreach values %limits;
live(5, $seconds / 5);
change($_, 1) foreach values %limits;    # a closed one would owe for ever
clients(6, '-t', 30)->{run}->finish;
is_as_new('in the end', '9 days');    # the clock of rates has begun anew

my ($versions, $calls) = check_bounds();
check_refusals($versions);
check_permits(@$calls);
cmp_ok(scalar(@$calls), '>', 1000, 'calls were admitted: ' . @$calls);
cmp_ok($backends[$_], '>', 0, ('cancelled', 'terminated')[$_] . ": $backends[$_]") foreach 0, 1;
cmp_ok(value("SELECT count(*) FROM versions"), '>', 2 * keys(%limits), 'limits were changed');

$node->stop;
done_testing();
