# Copyright (c) 2026, the quota authors

# G14 under load: 8 sessions take of slow limits of every kind, overtake their marks,
# roll back, and are killed with the server, again and again.  A call whose session was
# told of its admission, and that was not going to be rolled back, counts as made,
# whatever became of its transaction.  No crash may forget one, and none may cost a
# bucket more than a slice (1/32 of its capacity, rounded down) beyond what was in
# the middle of being taken or returned.
#
# What sessions are told is in the server's log, which no crash cuts off.  The write-ahead
# log is written by nobody but who needs it to be, so that what was not waited for is
# lost.
#
# QUOTA_STRESS_SECONDS (default 20) is for how long, about; QUOTA_STRESS_SEED repeats
# what clients do, though not when they come to it.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use IPC::Run;
use List::Util qw(max shuffle sum0);
use QuotaTest;
use Time::HiRes qw(sleep time);

my $seed = $ENV{QUOTA_STRESS_SEED} // int(rand(1_000_000));
my $rounds = max(6, int(($ENV{QUOTA_STRESS_SECONDS} // 20) / 2));
my $clients = 8;
my $begin = time();
srand($seed);
note("seed $seed");

my $node = new_node(
	'main', 'restart_after_crash' => 'on', 'log_error_verbosity' => 'terse',
	'wal_level' => 'minimal', 'max_wal_senders' => 0, 'synchronous_commit' => 'off',
	'wal_writer_delay' => '10s', 'wal_writer_flush_after' => '1GB', 'autovacuum' => 'off',
	'bgwriter_lru_maxpages' => 0, 'checkpoint_timeout' => '1h');

sub value { return psql_value($node, $_[0]) }

# Refill takes a day for a unit, so none comes while clocks stand; windows begin at a
# time that a multiple of ten minutes after the start is always far from.
my %period = (token_bucket => 86400, leaky_bucket => 86400);
$node->safe_psql('postgres', <<'SQL');
INSERT INTO quota.tiers (tier) VALUES ('basic');
INSERT INTO quota.tenants (tenant, tier) VALUES ('t0', 'basic'), ('t1', 'basic');
CREATE TABLE slow AS SELECT kind || ' ' || capacity AS provider, kind, capacity
	FROM unnest('{token_bucket,leaky_bucket,fixed_window,sliding_window}'::text[]) kind, unnest('{7,64,640}'::int[]) capacity;
INSERT INTO quota.providers (provider, safety) SELECT provider, 1 FROM slow;
INSERT INTO quota.limits (provider, name, per, kind, amount, period, burst, anchor)
	SELECT provider, provider, '{tenant}', kind,
		CASE WHEN kind ~ 'bucket' THEN 1 ELSE capacity END, CASE WHEN kind ~ 'bucket' OR capacity = 64 THEN '1 day' ELSE '1 h' END::interval,
		CASE WHEN kind ~ 'bucket' THEN capacity END, CASE WHEN kind ~ 'fixed' THEN now() - interval '5 min' END
	FROM slow;
CREATE FUNCTION take(r int, keep boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	p text := (SELECT provider FROM slow ORDER BY provider OFFSET r % 12 LIMIT 1);
	t text := 't' || r / 12 % 2;
	n int := 1 + r / 24 % 3;
	tx text := pg_backend_pid() || '|' || extract(epoch FROM now());
	d quota_decision;
BEGIN
	RAISE LOG 'mark|ask|%|% %|%|%', tx, p, t, keep, n;
	d := quota_acquire(t, p, n => n, partial => r / 72 % 4 = 0);
	RAISE LOG 'mark|got|%|% %|%|%', tx, p, t, keep, d.granted;
END $$;
SQL
my %capacity = map { split /\|/ } split /\n/, value("SELECT provider || ' ' || tenant, capacity FROM slow, quota.tenants");
my %kind = map { $_ => (split / /)[0] } keys %capacity;
$period{$_} = $kind{$_} =~ /bucket/ || $capacity{$_} == 64 ? 86400 : 3600 foreach keys %capacity;

sub levels
{
	return map { split /\|/ } split /\n/, value(
		"SELECT provider || ' ' || tenant, level FROM slow, quota.tenants, quota_explain(tenant, provider)");
}

# ---- what clients do ----

my %scripts = (
	'keep' => [ 'SELECT take(:r, true);', 4 ],
	'keep open' => [ "BEGIN;\nSELECT take(:r, true);\n\\sleep 10 ms\nSELECT take(:s, true);\n\\sleep 20 ms\nCOMMIT;", 4 ],
	'keep savepoint' => [ "BEGIN;\nSAVEPOINT a;\nSELECT take(:r, true);\nRELEASE a;\nSELECT take(:s, true);\n\\sleep 10 ms\nCOMMIT;", 2 ],
	'undo' => [ "BEGIN;\nSELECT take(:r, false);\nSELECT take(:s, false);\n\\sleep 5 ms\nROLLBACK;", 3 ],
	'undo savepoint' => [ "BEGIN;\nSELECT take(:r, true);\nSAVEPOINT a;\nSELECT take(:s, false);\nSAVEPOINT b;\n"
		  . "SELECT take(:r + 1, false);\nRELEASE b;\nROLLBACK TO a;\nSELECT take(:s + 1, true);\n\\sleep 10 ms\nCOMMIT;", 3 ]);
foreach my $name (keys %scripts)
{
	my $file = $node->basedir . '/' . $name =~ s/ /_/gr . '.sql';
	append_to_file($file, "\\set r random(1, 1000000)\n\\set s random(1, 1000000)\n$scripts{$name}[0]\n\\sleep 5 ms\n");
	push @{ $scripts{$name} }, $file;
}

sub clients
{
	my ($round, $undo) = @_;
	my @files = map { ('-f', "$scripts{$_}[2]\@$scripts{$_}[1]") } grep { $undo || !/undo/ } sort keys %scripts;
	return IPC::Run::start(
		[
			$node->installed_command('pgbench'), '-n', '-c', $clients, '-j', 1, '-T', 600, "--random-seed=" . ($seed + $round),
			'-h', $node->host, '-p', $node->port, @files, 'dbname=postgres application_name=pgbench'
		],
		'>', \my $out, '2>', \my $err);
}

sub pids { return split /\n/, value("SELECT pid FROM pg_stat_activity WHERE $_[0]") }

# Ends the server by force, in one way or another.
my %ways = (
	'a session' => sub {
		my @pids = pids("application_name = 'pgbench'");
		crash_backend($node, $pids[ rand @pids ]);
	},
	'a worker' => sub {
		my @pids;
		for (1 .. 20)
		{
			@pids = pids("backend_type = 'quota worker'");
			last if @pids && kill 0, $pids[0];
		}
		@pids = pids("backend_type = 'quota launcher'") unless @pids && kill 0, $pids[0];
		crash_backend($node, $pids[0]);
	},
	'the postmaster' => sub { crash($node) });

# ---- what they were told ----

my $offset = -s $node->logfile;

# Units of each bucket that were told since the last time, and at most so many as were in
# the middle of being taken or returned.
sub told
{
	my (%asked, %kept, %open);
	foreach (slurp_file($node->logfile, $offset) =~ /LOG:  mark\|(.*)$/mg)
	{
		my ($what, $pid, $tx, $bucket, $keep, $n) = split /\|/;
		my $mine = $asked{"$pid $tx"} //= { pid => $pid };
		if ($what eq 'ask') { $mine->{units}{$bucket} += $n; $mine->{last} = $n }
		elsif ($keep eq 't')
		{
			$kept{$bucket} += $n;
			$mine->{units}{$bucket} -= $mine->{last};
		}
		else { $mine->{units}{$bucket} += $n - $mine->{last} }
	}
	$offset = -s $node->logfile;
	# a session has one transaction open at a time
	foreach my $mine (values %asked)
	{
		$open{$_}{ $mine->{pid} } = max($open{$_}{ $mine->{pid} } // 0, $mine->{units}{$_}) foreach keys %{ $mine->{units} };
	}
	return (\%kept, { map { $_ => sum0(values %{ $open{$_} }) } keys %open });
}

# ---- rounds ----

# What a bucket holds at most, by what was told, and how much less it may be.
my %most = levels();
my %less = map { $_ => 0 } keys %most;
my (@moved, @kept, @wrong);
my ($taken, $overtaken, $lost) = (0, 0, 0);
my @how = map { shuffle(sort keys %ways) } 1 .. $rounds / 3 + 1;

# The clock stands; it is moved before some rounds, which brings something back.
sub move
{
	my ($round) = @_;
	my $by = $round % 3 == 0 ? 700 * 86400 : (0, 0, 600, 4200, 90000)[ rand 5 ];
	$moved[$round] = $by;
	return unless $by;
	my %before = levels();
	clock_advance($node, "$by s");
	my %after = levels();
	foreach (keys %after)
	{
		my $back = $after{$_} - $before{$_};
		push @wrong, "round $round: $_: $before{$_} became $after{$_}" if $back < 0;
		# the row does not know of it, unless it was written again
		$less{$_} += $back;
		$most{$_} += $back;
	}
	return;
}

for my $round (0 .. $rounds - 1)
{
	my $undo = $round % 2;
	clock_advance($node, '0 s');
	move($round);
	my $bench = clients($round, $undo);
	my $offset_before = $offset;
	wait_until('calls', sub { () = slurp_file($node->logfile, $offset_before) =~ /mark\|got/g; });
	sleep(0.4 + rand(0.8));
	$ways{ $how[$round] }->();
	clock_advance($node, '0 s');
	$bench->finish;

	my ($kept, $open) = told();
	$kept[$round] = $kept;
	foreach my $bucket (keys %capacity)
	{
		my $slice = int($capacity{$bucket} / 32);
		$taken += $kept->{$bucket} // 0;
		$overtaken++ if ($kept->{$bucket} // 0) > $slice;
		$most{$bucket} -= $kept->{$bucket} // 0;
		$less{$bucket} += $slice + ($open->{$bucket} // 0);
	}
	# some go on without anybody having looked, all sessions at once
	next if rand() < 0.3 && $round < $rounds - 1 && $how[ $round + 1 ] && ($round + 1) % 3;
	my %is = levels();
	foreach my $bucket (sort keys %is)
	{
		push @wrong, "round $round, $how[$round]: $bucket: $is{$bucket} left, not at most $most{$bucket}" if $is{$bucket} > $most{$bucket};
		push @wrong, "round $round, $how[$round]: $bucket: $is{$bucket} left of $most{$bucket}, more than $less{$bucket} are lost"
		  if $is{$bucket} < $most{$bucket} - $less{$bucket};
		$lost += $most{$bucket} - $is{$bucket};
		($most{$bucket}, $less{$bucket}) = ($is{$bucket}, 0);
	}
	my $audit = value('SELECT * FROM quota_audit()');
	push @wrong, "round $round: $audit" if $audit ne '';
}
is(join("\n", grep { defined } @wrong[ 0 .. 9 ]), '', 'no crash forgot a call, or cost more than it may');

# ---- the bounds, over all that was told, whatever the levels said ----

# The clock has moved by so much from the first of these rounds to the last; a crash
# may set it back, and what passes by itself is less than this.
sub passed { my ($from, $to) = @_; return sum0(@moved[ $from + 1 .. $to ]) + 300 }
my @beyond;
foreach my $bucket (sort keys %capacity)
{
	my ($kind, $capacity, $period) = ($kind{$bucket}, $capacity{$bucket}, $period{$bucket});
	for my $from (0 .. $rounds - 1)
	{
		for my $to ($from .. $rounds - 1)
		{
			my $d = passed($from, $to);
			my $sum = sum0(map { $_->{$bucket} // 0 } @kept[ $from .. $to ]);
			my $bound = $kind =~ /bucket/ ? $capacity + int($d / $period)
			  : $kind =~ /sliding/ ? ($d < $period ? $capacity : $sum)
			  : $capacity * (int($d / $period) + ($from == $to ? 1 : 2));
			push @beyond, "rounds $from to $to: $bucket: $sum, not $bound" if $sum > $bound;
		}
	}
}
is(join("\n", grep { defined } @beyond[ 0 .. 9 ]), '', 'no limit admitted more than its bound');
cmp_ok($taken, '>', 40 * $rounds, "units were taken: $taken");
cmp_ok($overtaken, '>', $rounds, "marks were overtaken: $overtaken");
note("lost in $rounds crashes: $lost");
cmp_ok(time() - $begin, '<', 300, 'the clock did not run for long') if $rounds <= 12;

$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|TRAP:/, 'no panic');
done_testing();
