# Copyright (c) 2026, the quota authors

# What the README shows in SQL runs as printed, in a new database.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;

my $readme = slurp_file('README.md');
my ($sql) = $readme =~ /## Quick start.*?```sql\n(.*?)```/s;
ok($sql, 'the README has a quick start');

my $node = new_node('readme', -extension => 0);
my ($ret, $out, $err) = $node->psql('postgres', $sql, on_error_stop => 1);
is($ret, 0, 'it runs without an error') or diag($err);
like($out, qr/^t\|1\|ok\|/m, 'the first call is admitted');
is($node->safe_psql('postgres',
		"SELECT string_agg(state, ',' ORDER BY state) FROM quota.jobs"),
	'queued,succeeded', 'one of the two jobs was claimed and completed');
my @more = $readme =~ /```sql\n(.*?)```/gs;
shift @more;
cmp_ok(scalar @more, '>=', 3, 'the README has more examples');
foreach my $example (@more)
{
	($ret, $out, $err) = $node->psql('postgres', $example, on_error_stop => 1);
	is($ret, 0, 'it runs without an error: ' . $example =~ s/\n.*//sr) or diag($err);
}
# what a worker is granted is all that its loop needs
$node->safe_psql('postgres', 'CREATE ROLE worker LOGIN');
$node->safe_psql('postgres', $_) foreach $readme =~ /`(GRANT EXECUTE ON [^`]* TO worker)`/g;
($ret, $out, $err) = $node->psql('postgres', q{
	CALL quota_wait('crm', '1 s');
	SELECT quota_complete(id, attempt) FROM quota_dequeue('crm');
	SELECT quota_fail(ids => '{}', attempts => '{}', errors => '{}')},
	extra_params => [ '-U', 'worker' ]);
like($err, qr/permission denied for function quota_fail/, 'a worker has the rights of the README, and no others');
unlike($err, qr/quota_(wait|dequeue|complete)/, 'its loop runs');

is($node->safe_psql('postgres', 'SELECT count(*) FROM quota_audit()'),
	'0', 'the audit is empty');
$node->stop;
done_testing();
