
# Copyright (c) 2026, the quota authors

# G13, G11: limits per user or resource with keys without end.  A tenant at its ceiling
# makes room from its own idle full buckets; what holds anything stays, other tenants
# have room, and only when everything holds something is a new key refused.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;

# the ceiling is an eighth: 32
my $node = new_node('keys', 'quota.max_buckets' => 256);
clock_set($node, '2030-01-01 00:00:00+00');
$node->safe_psql('postgres', q(
	INSERT INTO quota.tiers (tier) VALUES ('t');
	INSERT INTO quota.tenants (tenant, tier) SELECT x, 't' FROM unnest('{a,b}'::text[]) x;
	INSERT INTO quota.tenants (tenant, tier) SELECT 'n' || i, 't' FROM generate_series(1, 20) i;
	INSERT INTO quota.providers (provider, safety) VALUES ('p', 1);
	INSERT INTO quota.limits (provider, name, per, unit, kind, amount, period, burst, enforcement) VALUES
		('p', 'fast', '{tenant,user}', 'request', 'token_bucket', 10, '10 s', 10, 'hard'),
		(NULL, 'fast across', '{tenant,user}', 'request', 'token_bucket', 20, '10 s', 20, 'hard'),
		('p', 'slow', '{tenant,resource}', 'request', 'token_bucket', 2, '1 day', 2, 'hard'),
		('p', 'flights', '{tenant,connection}', 'request', 'concurrency', 1, NULL, NULL, 'hard'),
		('p', 'watched', '{tenant,connection}', 'request', 'allowance', 5, '1 day', NULL, 'shadow');
	UPDATE quota.limits SET permit_lifetime = '1 h' WHERE name = 'flights';
));
my $s = session($node);
$s->query('\set VERBOSITY verbose');
my $other = session($node);

sub acquire
{
	my ($tenant, $what, $session) = @_;
	return "SELECT admitted FROM quota_acquire('$tenant', 'p', $what)";
}

sub buckets { return $s->query("SELECT buckets FROM quota.stat_tenants WHERE tenant = '$_[0]'") }

# ---- one after the other, more than there are places in the table ----

$s->query(acquire('b', q("user" => 'b')));
$s->query(acquire('a', q(resource => 'r'))) for 1 .. 2;
$s->query(acquire('a', q("connection" => 'c')));
$s->query(q(SELECT quota_settle(permit) FROM quota_acquire('a', 'p', "connection" => 'settled')));
is($s->query(acquire('a', q(resource => 'r'))) . $s->query(acquire('a', q("connection" => 'c'))), 'ff', 'a resource and a connection have all they may have');

my %answers;
my $most = 0;
foreach my $i (1 .. 100)
{
	$answers{ $s->query("SELECT string_agg(DISTINCT admitted::text, ' ')
		FROM generate_series(1, 10) n, quota_acquire('a', 'p', \"user\" => 'u' || n + 10 * $i)") }++;
	my $n = buckets('a');
	$most = $n if $n > $most;
	clock_advance($node, '1 s');
}
is(join(' ', %answers), 'true 100', 'a thousand users one after the other: each is admitted');
cmp_ok($most, '<=', 32, 'within the ceiling');
is($s->query(acquire('a', q(resource => 'r'))) . $s->query(acquire('a', q("connection" => 'c'))), 'ff', 'what others have is kept: the resource and the connection still have it');
is($s->query("SELECT string_agg(bucket || ' ' || used, ', ' ORDER BY bucket) FROM quota.stat_buckets WHERE limit_name = 'watched'"),
	'a/c 1, a/settled 1', 'so is what a shadow has counted, and no row, also of calls that are over');
$s->query("SELECT admitted FROM quota_acquire('a', 'p', n => 10, \"user\" => 'u1')");
is($s->query("SELECT string_agg(DISTINCT admitted::text, ' ') FROM generate_series(2, 11) n, quota_acquire('a', 'p', \"user\" => 'u' || n)")
	. $s->query("SELECT admitted FROM quota_acquire('a', 'p', \"user\" => 'u1')"),
	'truef', 'a user who comes back has a full bucket, and what he has spent is spent');

# ---- after a change of rates buckets are judged by the rules of today (G1, G9) ----

clock_advance($node, '2 days');
$s->query(acquire('a', q(n => 10, "user" => 'spent')));
$s->query(q(UPDATE quota.limits SET period = '50 s' WHERE name LIKE 'fast%'));
clock_advance($node, '26 s');
is($s->query("SELECT string_agg(DISTINCT admitted::text, ' ')
		FROM generate_series(1, 15) n, quota_acquire('a', 'p', n => 10, \"user\" => 'w' || n)"),
	'true', 'others have used up what they may');
$s->fails(acquire('a', q(n => 10, "user" => 'another')));
like($s->notices, qr/53400/, 'there is no room by the slower rules, as there was by the old ones');
is($s->query(q(SELECT level FROM quota_explain('a', 'p', "user" => 'spent') WHERE limit_name = 'fast')),
	'5', 'what was spent is not forgotten: it comes back one in five seconds');
$s->query(q(UPDATE quota.limits SET period = '10 s' WHERE name = 'fast'));
clock_advance($node, '4799999 us');
$s->fails(acquire('a', q(n => 10, "user" => 'another')));
like($s->notices, qr/53400/, 'a change that made it faster: no room a microsecond before the first is full again');
clock_advance($node, '1 us');
is($s->query(acquire('a', q(n => 10, "user" => 'another'))), 't', 'then there is');

# rules change while all buckets are out of use; of what is limited no more each makes room
clock_advance($node, '1 day');
$s->query("SELECT count(*) FROM generate_series(1, 16) n, quota_acquire('a', 'p', n => 10, \"user\" => 'x' || n)");
$s->query(q(UPDATE quota.limits SET period = '20 s' WHERE name LIKE 'fast%'; UPDATE quota.limits SET amount = NULL WHERE name = 'fast'));
clock_advance($node, '10 s');
is($s->query("SELECT string_agg(DISTINCT admitted::text, ' ') FROM generate_series(1, 16) n, quota_acquire('a', 'p', \"user\" => 'y' || n)"),
	'true', 'a limit that is gone keeps no places');
$s->query(q(UPDATE quota.limits SET period = '10 s', amount = CASE name WHEN 'fast' THEN 10 ELSE 20 END WHERE name LIKE 'fast%'));

# ---- everything holds something ----

clock_advance($node, '1 day');
clock_advance($node, '1 day');
my ($n, $error) = (0, '');
while ($error eq '' && $n < 100)
{
	$s->fails(acquire('a', "resource => 'v" . ++$n . "'"));
	$error = $s->notices;
}
is($n, 33, 'so many resources, of which each has used one of two a day, as the ceiling says');
like($error, qr/53400: no room for another bucket of tenant "a"/, 'another is refused');
is($s->query(acquire('a', q(resource => 'v1'))), 't', 'but not a call that needs no new bucket');
is($s->query("SELECT count(*) FILTER (WHERE admitted) FROM generate_series(1, 12) n, quota_acquire('b', 'p', \"user\" => 'b' || n)"),
	'12', 'other tenants have room');

# they are full again by time, to the microsecond
clock_advance($node, '43199.999999 s');
$s->fails(acquire('a', q(resource => 'late')));
like($s->notices, qr/53400/, 'a microsecond before the first is full again there is no room');
clock_advance($node, '1 us');
is($s->query(acquire('a', q(resource => 'late'))), 't', 'then there is');

# ---- what an open transaction has taken is not forgotten, and what it gives back is found ----

clock_advance($node, '2 days');
$other->query('BEGIN');
$other->query("SELECT count(*) FROM generate_series(1, 31) n, quota_acquire('a', 'p', resource => 'o' || n)");
$s->query(acquire('a', q(resource => 'mine')));
$s->fails(acquire('a', q(resource => 'mine too')));
like($s->notices, qr/53400/, 'an open transaction has the places');
$other->query('ROLLBACK');
is($s->query(acquire('a', q(resource => 'mine too'))), 't', 'it rolls back: at once there is room');

# ---- the table fills up by many tenants: idle buckets of others make room ----

clock_advance($node, '2 days');
my $errors = 0;
foreach my $tenant (map { "n$_" } 1 .. 20)
{
	foreach my $i (1 .. 12)
	{
		$s->fails(acquire($tenant, "\"user\" => 'u$i'"));
		$errors++ if $s->notices =~ /ERROR/;
	}
	clock_advance($node, '1 s');
}
is($errors, 0, '20 tenants with 24 buckets each, one after the other, in 256 places');
is($s->query('SELECT * FROM quota_audit()'), '', 'and all is as it should be');

# ---- the memory of a session does not grow with the users ----

my $memory = q(SELECT sum(total_bytes) FROM pg_backend_memory_contexts WHERE name LIKE 'quota plan%');
my $loop = q(DO $$ BEGIN FOR i IN %d .. %d LOOP
		PERFORM quota_acquire('a', 'p', "user" => 'u' || i);
		IF i %% 5 = 0 THEN PERFORM quota_clock_advance('1 s'); COMMIT; END IF;
	END LOOP; END $$);
$s->query(sprintf $loop, 1, 100);
my $before = $s->query($memory);
$s->query(sprintf $loop, 101, 20000);
cmp_ok($s->query($memory), '<=', $before + 100_000, '20,000 users take no memory of the session');

done_testing();
