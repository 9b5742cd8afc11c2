# Copyright (c) 2026, the quota authors

# An extension is dropped while a transaction is open that holds no lock on its
# tables but has something of its shared memory in the journal: that memory is not
# given away before the transaction has ended.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;

my $providers = 16;
my $node = new_node('main', 'quota.max_providers' => $providers);

# a tenant with jobs at provider 1, and other providers
sub set_up
{
	$node->safe_psql('postgres', qq{
		INSERT INTO quota.tiers (tier) VALUES ('basic');
		INSERT INTO quota.tenants (tenant, tier) VALUES ('t', 'basic');
		INSERT INTO quota.providers (provider, safety) SELECT 'p' || n, 1 FROM generate_series(1, $providers) n;
		INSERT INTO quota.jobs (tenant, provider) VALUES ('t', 'p1')});
	return;
}

# direct calls at so many providers, but not at the first; the error
sub call_all
{
	my ($n) = @_;
	my (undef, undef, $error) = $node->psql('postgres',
		"SELECT quota_acquire('t', 'p' || n) FROM generate_series(2, $n) n");
	return $error;
}

my $open = session($node);
set_up();

foreach my $end ('ROLLBACK', 'COMMIT')
{
	# no limit: all it takes is a lead in the order of jobs
	$open->query('BEGIN');
	is($open->query("SELECT admitted FROM quota_acquire('t', 'p1')"), 't', 'a direct call');
	$node->safe_psql('postgres', 'DROP EXTENSION quota; CREATE EXTENSION quota');
	set_up();
	# the places are the database's, those of 15 providers, and one of the dropped p1
	like(call_all($providers - 1), qr/no room for another provider/,
		'what the open transaction has taken stays');
	$open->query($end);
	is($open->query('SELECT 1'), '1', "$end after DROP EXTENSION");
	is(call_all($providers - 1), '', 'then there is room');
}
is(psql_value($node, "SELECT count(*) FROM quota_dequeue('p1')"), '1', 'jobs are claimed');
$node->stop;
done_testing();
