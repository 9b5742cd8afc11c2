
# Copyright (c) 2026, the quota authors

=pod

=head1 NAME

QuotaTest::Bounds - does a log of admissions keep the bounds of limits? (G1)

=head1 SYNOPSIS

  my $history = QuotaTest::Bounds->new(\@instants);
  print $history->faults($kind, \@versions, \@calls);

=head1 DESCRIPTION

Knows nothing but the log: when which calls were admitted and what they cost, and
which rules were in force when.  The bounds are those that the comment of
quota.limits.kind states; where rules changed, the highest amount or burst in force
counts, and the shortest period.

Times are microseconds of a clock that stands still but for the given instants
(ascending), and ticks, which are counted by whoever writes to the log, so that the
order of two entries is known wherever one had ended before the other began.

A version of a limit: from, to (clock) and from_tick, to_tick: when it may have been
in force at most; amount (of one without: $unlimited), burst (capacity of token and
leaky buckets), period, anchor (us); binds: it was hard, and had an amount.

A call: at0, at1 and tick0, tick1, between which it was admitted; units, that it was
granted and kept; dear: units of one of its calls; of concurrency: gone, a tick up to
which it was in flight at least.  What is returned because less was used counts as
never admitted; what was used beyond the estimate, nobody was asked for.

=cut

package QuotaTest::Bounds;

use strict;
use warnings FATAL => 'all';

use List::Util qw(max min sum0);

# A call that was under way for longer than so many instants is left out: that can
# only make a sum smaller.
my $spread = 8;

# More than is ever asked for, and little enough to be added up.
our $unlimited = 1e9;

# Rates are added up in floating point, which is wrong by much less than this.
my $grain = 0.001;

sub new
{
	my ($class, $instants) = @_;
	my %index;
	@index{@$instants} = 0 .. $#$instants;
	return bless { instants => $instants, index => \%index }, $class;
}

# What calls of one bucket do against the bound of its kind: a text for each fault,
# at most a few.
sub faults
{
	my ($self, $kind, $versions, $calls) = @_;
	my @bound = grep { _binds($versions, $_) } @$calls;
	return () unless @bound;
	my %check = (
		token_bucket => \&_rate,
		leaky_bucket => \&_rate,
		fixed_window => \&_windows,
		sliding_window => \&_sliding,
		concurrency => \&_in_flight,
		allowance => \&_windows);
	my @faults = $check{$kind}->($self, $versions, \@bound, $kind);
	return @faults > 3 ? (@faults[ 0 .. 2 ], '...') : @faults;
}

# Whether the limit could have refused the call, whenever exactly it was decided.
sub _binds
{
	my ($versions, $call) = @_;
	my @met = grep { $_->{from_tick} <= $call->{tick1} && $_->{to_tick} >= $call->{tick0} } @$versions;
	return @met && !grep { !$_->{binds} } @met;
}

# The versions that may have been in force between two times.
sub _between
{
	my ($versions, $from, $to) = @_;
	return grep { $_->{from} <= $to && $_->{to} >= $from } @$versions;
}

# ---- token_bucket, leaky_bucket: in any interval rate x length + burst ----

# For each instant what the highest rates in force have added up to, and the highest
# burst in force since the instant before, and at this one.
sub _refill
{
	my ($self, $versions) = @_;
	my $at = $self->{instants};
	my @edges = sort { $a <=> $b } map { ($_->{from}, $_->{to}) } @$versions;
	my (@refill, @burst, @here);
	my $sum = 0;
	for my $i (0 .. $#$at)
	{
		my $before = $at->[ $i ? $i - 1 : 0 ];
		my @cuts = ($before, (grep { $_ > $before && $_ < $at->[$i] } @edges), $at->[$i]);
		for my $c (1 .. $#cuts)
		{
			my ($from, $to) = @cuts[ $c - 1, $c ];
			my @rates = map { $_->{amount} / $_->{period} }
			  grep { $_->{from} < $to && $_->{to} > $from } @$versions;
			$sum += ($to - $from) * max(0, @rates);
		}
		push @refill, $sum;
		push @burst, max(0, map { $_->{burst} } _between($versions, $before, $at->[$i]));
		push @here, max(0, map { $_->{burst} } _between($versions, $at->[$i], $at->[$i]));
	}
	return (\@refill, \@burst, \@here);
}

# Once for each burst that was in force, over the stretches with no higher one.  The
# most over all intervals that end at one instant follows from the most before;
# intervals that began a few instants ago are kept apart, for calls that were under
# way when the clock moved.
sub _rate
{
	my ($self, $versions, $calls, $kind) = @_;
	my ($at, $index) = @$self{ 'instants', 'index' };
	my ($refill, $burst, $here) = @{ $versions->[0]{refill} //= [ _refill($self, $versions) ] };
	my $dearest = $kind eq 'leaky_bucket' ? max(map { $_->{dear} } @$calls) : 0;
	my (%starts, %ends, %bursts, @faults);

	foreach my $call (@$calls)
	{
		my ($p, $q) = @$index{ $call->{at0}, $call->{at1} };
		next if $q - $p > $spread;
		$starts{$p} = 1;
		push @{ $ends{$q} }, [ $p, $call->{units} ];
	}
	$bursts{ $_->{burst} } = 1 foreach @$versions;
	my @visited = sort { $a <=> $b } keys %{ { %starts, map { $_ => 1 } keys %ends } };

	foreach my $most (sort { $a <=> $b } keys %bursts)
	{
		my $bound = max($most, $dearest);
		my ($last, $old, @recent) = (-1, -1e18);
		foreach my $j (@visited)
		{
			# an interval over a higher burst is another one's
			($old, @recent) = (-1e18) if max(@$burst[ $last + 1 .. $j ]) > $most;
			$last = $j;
			next if $here->[$j] > $most;
			while (@recent && $recent[0][0] < $j - $spread)
			{
				$old = max($old, (shift @recent)->[1]);
			}
			push @recent, [ $j, $refill->[$j] ];
			foreach my $call (@{ $ends{$j} // [] })
			{
				my ($p, $units) = @$call;
				$old += $units;
				$_->[1] += $units foreach grep { $_->[0] <= $p } @recent;
			}
			my $sum = max($old, map { $_->[1] } @recent) - $refill->[$j];
			push @faults, "$sum units more than refilled up to $at->[$j], burst $bound"
			  if $sum > $bound + $grain;
		}
	}
	return @faults;
}

# ---- sliding_window: in any interval of a period, amount ----

# Units of calls within $period from each instant on, compared with $times the
# highest amount, where no shorter period was in force.
sub _within
{
	my ($self, $versions, $calls, $period, $times) = @_;
	my ($at, $index) = @$self{ 'instants', 'index' };
	my (%starts, %ends, @faults);
	foreach my $call (@$calls)
	{
		my ($p, $q) = @$index{ $call->{at0}, $call->{at1} };
		push @{ $starts{$p} }, [ $q, $call->{units} ];
		push @{ $ends{$q} }, [ $p, $call->{units} ];
	}
	my ($sum, $end) = (0, 0);
	foreach my $start (sort { $a <=> $b } keys %starts)
	{
		# what began before is taken off below, as far as it has ended by here
		for (; $end < @$at && $at->[$end] < $at->[$start] + $period; $end++)
		{
			$sum += $_->[1] foreach grep { $_->[0] >= $start } @{ $ends{$end} // [] };
		}
		my @met = _between($versions, $at->[$start], $at->[ $end - 1 ]);
		my $most = $times * max(0, map { $_->{amount} } @met);
		push @faults, "$sum units within $period us from $at->[$start], not $most"
		  if $sum > $most && !grep { $_->{period} < $period } @met;
		$sum -= $_->[1] foreach grep { $_->[0] < $end } @{ $starts{$start} };
	}
	return @faults;
}

sub _sliding
{
	my ($self, $versions, $calls) = @_;
	my %periods = map { $_->{period} => 1 } grep { $_->{binds} } @$versions;
	return map { $self->_within($versions, $calls, $_, 1) } sort keys %periods;
}

# ---- fixed_window, allowance: in each window, amount ----

# If the period has changed, windows may begin anywhere, but last a period at least:
# an interval shorter than that touches two.
sub _windows
{
	my ($self, $versions, $calls) = @_;
	my %periods = map { $_->{period} => 1 } @$versions;
	my ($period, $anchor) = @{ $versions->[0] }{ 'period', 'anchor' };
	return map { $self->_within($versions, $calls, $_, 2) } sort keys %periods if keys %periods > 1;

	my %sum;
	foreach my $call (@$calls)
	{
		my ($p, $q) = map { int(($_ - $anchor) / $period) } @$call{ 'at0', 'at1' };
		$sum{$p} += $call->{units} if $p == $q;
	}
	my @faults;
	foreach my $window (sort { $a <=> $b } keys %sum)
	{
		my $from = $anchor + $window * $period;
		my $most = max(0, map { $_->{amount} } _between($versions, $from, $from + $period));
		push @faults, "$sum{$window} units in the window from $from, not $most"
		  if $sum{$window} > $most;
	}
	return @faults;
}

# ---- concurrency: at no time more than amount ----

# Of those in flight after a call was admitted, the last one was admitted while the
# others were; so their number is within what was in force then.
sub _in_flight
{
	my ($self, $versions, $calls) = @_;
	my (@flying, @faults);
	foreach my $call (sort { $a->{tick1} <=> $b->{tick1} } @$calls)
	{
		@flying = grep { $_->{gone} > $call->{tick1} } @flying;
		next if $call->{gone} <= $call->{tick1};
		push @flying, $call;
		my $last = max(map { $_->{tick0} } @flying);
		my $most = max(0, map { $_->{amount} }
			  grep { $_->{binds} && $_->{from_tick} <= $call->{tick1} && $_->{to_tick} >= $last } @$versions);
		my $n = sum0(map { $_->{units} } @flying);
		push @faults, "$n calls in flight at tick $call->{tick1}, not $most" if $n > $most;
	}
	return @faults;
}

1;
