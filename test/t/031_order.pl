# Copyright (c) 2026, the quota authors

# G7 through SQL: a random life of a queue (caps, suspensions, new weights, claims
# that roll back, several open at a time), checked for every pair of tenants and
# every interval of committed claims; and a newcomer beside a great backlog.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;

my $node = new_node('main');
clock_set($node, '2030-01-01 00:00:00+00');
$node->safe_psql('postgres', q{INSERT INTO quota.tiers (tier) VALUES ('basic')});

# ---- 40,000 jobs at 3 a second against a newcomer's 3 ----

$node->safe_psql(
	'postgres', q{
	INSERT INTO quota.tenants (tenant, tier) VALUES ('big', 'basic'), ('new', 'basic');
	INSERT INTO quota.providers (provider, safety) VALUES ('import', 1);
	INSERT INTO quota.limits (provider, name, amount, period, burst) VALUES ('import', 'rate', 3, '1 s', 2);
	INSERT INTO quota.jobs (tenant, provider) SELECT 'big', 'import' FROM generate_series(1, 40000);
	CREATE TABLE served (at timestamptz, tenant text);
	CREATE PROCEDURE serve(seconds int) LANGUAGE plpgsql AS $$
	BEGIN
		FOR i IN 1..seconds * 10 LOOP
			PERFORM quota_clock_advance('100 ms');
			INSERT INTO served (at, tenant)
			SELECT c.lease_until - interval '60 s', c.tenant FROM quota_dequeue('import', 10) c,
				LATERAL (SELECT quota_complete(c.id, c.attempt)) f;
			COMMIT;
		END LOOP;
	END $$;
	CALL serve(20);
});
is(psql_value($node, 'SELECT count(*) BETWEEN 60 AND 62 FROM served'), 't', 'three a second');
$node->safe_psql(
	'postgres', q{
	TRUNCATE served;
	INSERT INTO quota.jobs (tenant, provider) SELECT 'new', 'import' FROM generate_series(1, 3);
	CALL serve(3);
});
is( psql_value($node, q{SELECT count(*), max(at) - '2030-01-01 00:00:20+00' <= '2.5 s' FROM served WHERE tenant = 'new'}),
	'3|t',
	'a newcomer has its three jobs done in seconds');

# ---- the life ----

my $ntenants = 8;
my @tenants = map { "t$_" } 1 .. $ntenants;
my @weights = (1, 2, 5, 10, 100);
my $dearest = 20;

$node->safe_psql(
	'postgres', qq{
	INSERT INTO quota.tenants (tenant, tier, weight) SELECT 't' || i, 'basic', 1 FROM generate_series(1, $ntenants) i;
	INSERT INTO quota.providers (provider, safety) VALUES ('life', 1);
});

my (%weight, %cap, %suspended, %in_flight, %value, %high, %low, %where);
my ($worst, $claims, $lost, @open, @free) = (0, 0, 0);

sub busy
{
	my ($t) = @_;
	return !$suspended{$t} && (!defined $cap{$t} || $in_flight{$t} < $cap{$t});
}

# comparisons with the tenant begin anew
sub reset_pairs
{
	my ($t) = @_;
	foreach my $other (@tenants)
	{
		$value{$_} = $high{$_} = $low{$_} = 0 for "$t $other", "$other $t";
	}
	return;
}

# what the code does may put the tenant into the order or take it out
sub watch
{
	my ($t, $code) = @_;
	my $before = busy($t);
	$code->();
	reset_pairs($t) if busy($t) != $before;
	return;
}

sub served
{
	my ($t, $cost) = @_;
	return unless busy($t);
	foreach my $other (grep { $_ ne $t && busy($_) } @tenants)
	{
		my ($ij, $ji) = ("$t $other", "$other $t");
		my $bound = $dearest / $weight{$t} + $dearest / $weight{$other};

		$value{$ij} += $cost / $weight{$t};
		$value{$ji} = -$value{$ij};
		$high{$ij} = $value{$ij} if $value{$ij} > $high{$ij};
		$low{$ji} = -$high{$ij};
		my $share = ($high{$ij} - $low{$ij}) / $bound;
		if ($share > $worst)
		{
			$worst = $share;
			$where{pair} = "$ij after $claims claims";
		}
	}
	return;
}

sub claim
{
	my $session = pop @free or return;
	$session->query('BEGIN');
	my ($t, $id, $attempt, $cost) = split /\|/,
	  $session->query(
		q{SELECT tenant, id, attempt, coalesce((units->>'request')::int, 1) FROM quota_dequeue('life')});
	if (!defined $t)
	{
		$session->query('ROLLBACK');
		push @free, $session;
		return;
	}
	watch($t, sub { $in_flight{$t}++ });
	push @open, { session => $session, tenant => $t, id => $id, attempt => $attempt, cost => $cost };
	return;
}

sub end_claim
{
	my $claim = splice(@open, int(rand(@open)), 1) or return;
	my $t = $claim->{tenant};
	if (rand() < 0.25)
	{
		$claim->{session}->query('ROLLBACK');
		watch($t, sub { $in_flight{$t}-- });
		$lost++;
	}
	else
	{
		$claim->{session}->query("SELECT quota_complete($claim->{id}, $claim->{attempt}); COMMIT");
		watch($t, sub { $in_flight{$t}-- });
		$claims++;
		served($t, $claim->{cost});
	}
	push @free, $claim->{session};
	return;
}

my $admin = session($node);

sub event
{
	my $t = $tenants[ int(rand(@tenants)) ];
	my $what = int(rand(40));
	if ($what < 2)
	{
		watch($t, sub { $suspended{$t} = !$suspended{$t} });
		$admin->query("UPDATE quota.tenants SET suspended = NOT suspended WHERE tenant = '$t'");
	}
	elsif ($what < 4)
	{
		$weight{$t} = $weights[ int(rand(@weights)) ];
		reset_pairs($t);
		$admin->query("UPDATE quota.tenants SET weight = $weight{$t} WHERE tenant = '$t'");
	}
	elsif ($what < 6)
	{
		my $new = int(rand(3)) || undef;
		watch($t, sub { $cap{$t} = $new });
		$admin->query("UPDATE quota.tenants SET max_in_flight = " . ($new // 'NULL') . " WHERE tenant = '$t'");
	}
	return;
}

foreach my $depth (1, 3)
{
	my $seed = 100 + $depth;
	srand($seed);
	$admin->query("UPDATE quota.tenants SET weight = 1, suspended = false, max_in_flight = NULL WHERE tenant ~ '^t[0-9]'");
	$admin->query("DELETE FROM quota.jobs WHERE provider = 'life' AND state = 'queued'");
	$admin->query(
		qq{INSERT INTO quota.jobs (tenant, provider, units)
		SELECT 't' || t, 'life', CASE WHEN (i * 7 + t * 3) % 4 > 0 THEN jsonb_build_object('request', (i * 31 + t * 17) % $dearest + 1) END
		FROM generate_series(1, $ntenants) t, generate_series(1, 600) i});
	%weight = map { $_ => 1 } @tenants;
	(%cap, %suspended) = ();
	%in_flight = map { $_ => 0 } @tenants;
	reset_pairs($_) for @tenants;
	$worst = $claims = $lost = 0;
	@free = map { session($node) } 1 .. $depth;
	while ($claims < 400)
	{
		claim();
		end_claim() if !@free || (@open && rand() < 0.3);
		event();
	}
	end_claim() while @open;
	$_->quit for @free;
	note("seed $seed: $claims claims, $lost rolled back, worst pair at "
		  . sprintf('%.2f', $worst) . " of the bound: $where{pair}");
	cmp_ok($worst, '<=', $depth + 1, "every pair and interval, $depth claims open");
	cmp_ok($worst, '>', 0.5, 'a bound that is met, not one far away');
}
is(psql_value($node, 'SELECT count(*) FROM quota_audit()'), '0', 'nothing drifted');

done_testing();
