
# Copyright (c) 2026, the quota authors

=pod

=head1 NAME

QuotaTest::Ledger - an allowance, and the background worker that folds its ledger

=head1 SYNOPSIS

  use QuotaTest;
  use QuotaTest::Ledger;

  my $node = new_node('main');
  ledger_setup($node, 'u', 'v');
  $node->safe_psql('postgres', q{CALL spend('v', 100)});
  ok(folded($node), 'a worker folds');

=cut

package QuotaTest::Ledger;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use QuotaTest;

our @EXPORT = qw(ledger_setup folded worked);

=pod

=head1 FUNCTIONS

=over

=item ledger_setup($node, @tenants)

Stops the clock an hour before June 2026.  Gives each tenant, C<u> among them, a monthly
allowance of 100,000 credits for provider C<p>, of which a call costs 10, and makes a
procedure that makes and settles calls, C<spend(tenant, calls)>.

=cut

sub ledger_setup
{
	my ($node, @tenants) = @_;
	my $tenants = join(',', @tenants);

	clock_set($node, '2026-05-31 23:00:00+00');
	$node->safe_psql(
		'postgres', qq{
		INSERT INTO quota.tiers (tier) VALUES ('basic'), ('other');
		INSERT INTO quota.tenants (tenant, tier) SELECT t, 'basic' FROM unnest('{$tenants}'::text[]) t;
		INSERT INTO quota.providers (provider) VALUES ('p');
		INSERT INTO quota.costs (provider, unit, cost) VALUES ('p', 'credit', 10);
		INSERT INTO quota.limits (provider, name, per, unit, kind, amount, period, external)
			VALUES ('p', 'credits', '{tenant}', 'credit', 'allowance', 100000, '1 month', false);
		CREATE PROCEDURE spend(who text, calls int) LANGUAGE plpgsql AS \$\$
		BEGIN
			FOR i IN 1..calls LOOP
				PERFORM quota_settle((quota_acquire(who, 'p')).permit);
			END LOOP;
		END \$\$});
	return;
}

=pod

=item folded($node)

Waits until the worker has come to the end of the ledger; false if it does not.

=cut

sub folded
{
	my ($node) = @_;
	clock_advance($node, '10 s');
	return $node->poll_query_until('postgres',
		q{SELECT last_value = (SELECT max(id) FROM quota.ledger) FROM quota.ledger_folded});
}

=pod

=item worked($node)

Waits for a run of the worker that began after this call; false if there is none.  It
changes the tier of tenant C<u>, whose event that run has to write.

=back

=cut

sub worked
{
	my ($node) = @_;
	my $state = q{SELECT count(*) FROM quota.events WHERE kind = 'tier_changed'};
	my $n = psql_value($node, $state);
	$node->safe_psql('postgres',
		q{UPDATE quota.tenants SET tier = CASE tier WHEN 'basic' THEN 'other' ELSE 'basic' END WHERE tenant = 'u'});
	clock_advance($node, '10 s');
	return $node->poll_query_until('postgres', "SELECT ($state) > $n") && wait_idle($node);
}

1;
