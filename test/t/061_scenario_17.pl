
# Copyright (c) 2026, the quota authors

# Scenario 17: 50 sessions send the same key: one charge, 50 equal answers.  Settling the
# same permit is done once, too.

use strict;
use warnings FATAL => 'all';
use lib 'test/lib';
use QuotaTest;

my $node = new_node('keys', 'max_connections' => 70);
clock_set($node, '2030-01-01 00:00:00+00');
$node->safe_psql('postgres', q{
	INSERT INTO quota.tiers (tier) VALUES ('t');
	INSERT INTO quota.tenants (tenant, tier) VALUES ('a', 't');
	INSERT INTO quota.providers (provider) VALUES ('p');
	INSERT INTO quota.limits (provider, name, per, unit, kind, amount, period) VALUES
		('p', 'credits', '{tenant}', 'credit', 'allowance', 1000, '1 day');
	-- asks again for as long as somebody else is at it
	CREATE FUNCTION until_done(command text) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE answer text;
	BEGIN
		LOOP
			BEGIN
				EXECUTE command INTO answer;
				RETURN coalesce(answer, 'done');
			EXCEPTION WHEN lock_not_available THEN
			END;
		END LOOP;
	END $$;
});
my @sessions = map { session($node) } 1 .. 50;

sub all_of
{
	my ($sql) = @_;
	my %answers;
	$sql =~ s/'/''/g;
	$_->query_async("SELECT until_done('$sql')") for @sessions;
	$answers{ $_->wait }++ for @sessions;
	return join ', ', map { "$_ x $answers{$_}" } sort keys %answers;
}

sub used { return psql_value($node, "SELECT used, held FROM quota_balance('a', 'p')") }

foreach my $round (1 .. 3)
{
	my $day = $round - 1;
	like(all_of("SELECT permit FROM quota_hold('a', 'p', 'credit', 30, key => 'h$round')"), qr/^\d+ x 50$/, 'hold: one answer');
	is(used(), '30|30', 'one hold');
	my $permit = psql_value($node, 'SELECT permit FROM quota.holds');
	is(all_of("SELECT quota_settle($permit, units => '{\"credit\": 25}')::text"), ' x 50', 'settle: all succeed');
	is(used(), '25|0', 'one settlement');
	is(all_of("SELECT quota_refund($permit, 5, key => 'r$round')::text"), ' x 50', 'refund: all succeed');
	is(used(), '20|0', 'one refund');
	is(all_of("SELECT quota_grant('a', 'p', 'credits', 7, key => 'g$round')::text"), ' x 50', 'grant: all succeed');
	is(used(), '13|0', 'one grant');
	is(all_of("SELECT quota_adjust('a', 'p', 'credits', 3, key => 'a$round')::text"), ' x 50', 'adjust: all succeed');
	is(used(), '16|0', 'one adjustment');
	clock_advance($node, '1 day');
}
is(psql_value($node, 'SELECT count(*), count(DISTINCT key) FROM quota.keys'), '12|12', 'a row for each key');
is(psql_value($node, 'SELECT kind, count(*) FROM quota.ledger GROUP BY 1 ORDER BY 1'), "adjust|3\ngrant|3\nhold|3\nrefund|3\nsettle|3", 'an entry for each operation');

# another amount is a conflict; what was rolled back is free
my $s = $sessions[0];
$s->query('\set VERBOSITY verbose');
$s->fails("SELECT quota_hold('a', 'p', 'credit', 31, key => 'h3')");
like($s->notices, qr/23505: key "h3" was used for another call\n.*Argument "amount" was 30 and is 31 now/, 'the same key with another amount');
$s->query('BEGIN');
$s->query("SELECT quota_hold('a', 'p', 'credit', 40, key => 'free')");
$s->query('ROLLBACK');
is($s->query("SELECT admitted FROM quota_hold('a', 'p', 'credit', 50, key => 'free')"), 't', 'a key that was rolled back is free');
is(used(), '50|50', 'and only that is held');
is(psql_value($node, 'SELECT count(*) FROM quota_audit()'), '0', 'the audit is empty');

$_->quit for @sessions;
$node->stop;
done_testing();
