
# Copyright (c) 2026, the quota authors

=pod

=head1 NAME

QuotaTest - servers and sessions for quota's TAP tests

=head1 SYNOPSIS

  use QuotaTest;

  my $node = new_node('main', 'quota.max_buckets' => 10);

  clock_advance($node, '10 s');
  is(psql_value($node, 'SELECT count(*) FROM quota.jobs'), 0, 'no jobs');

  my $a = session($node);
  $a->query('BEGIN');
  is($a->query("SELECT (quota_acquire('t', 'p')).admitted"), 't', 'admitted');

  my $b = session($node);
  $b->query_async('LOCK TABLE quota.jobs');    # does not wait for the answer
  wait_event($b, 'Lock');                      # until it is really waiting
  $a->quit;
  $b->wait;                                    # for the answer

  done_testing();

=head1 DESCRIPTION

Builds on the server's own PostgreSQL::Test::Cluster.  Loading QuotaTest also
loads it, PostgreSQL::Test::Utils and Test::More.  Nothing here sleeps for a
fixed time: every wait is for an event, and dies after the time that
PG_TEST_TIMEOUT_DEFAULT allows (180 s).

=cut

package QuotaTest;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use QuotaTest::Session;
use Test::More;

our @EXPORT = (
	qw(new_node configure crash crash_backend clock_advance clock_set psql_value
	  session wait_event wait_gone wait_idle wait_until),
	@PostgreSQL::Test::Utils::EXPORT,
	@Test::More::EXPORT);

# what every test server is configured with, found from this file's place
my $conf_file = __FILE__;
$conf_file =~ s{[^/]*$}{../quota.conf};

=pod

=head1 FUNCTIONS

=over

=item new_node($name, %conf)

Makes and starts a node with test/quota.conf and the given settings, and
creates the extension in its database C<postgres>.  Names that begin with a
dash are not settings:

  -init => { allows_streaming => 1 }   arguments of init()
  -start => 0                          neither start it nor create anything
  -extension => 0                      start it, but create nothing

=cut

sub new_node
{
	my ($name, %conf) = @_;
	my $init = delete $conf{-init} // {};
	my $start = delete $conf{-start} // 1;
	my $extension = delete $conf{-extension} // 1;

	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init(%$init);
	$node->append_conf('postgresql.conf', slurp_file($conf_file));
	configure($node, %conf);
	return $node unless $start;

	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION quota') if $extension;
	return $node;
}

=pod

=item configure($node, %conf)

Appends settings to a node's configuration; the caller reloads or restarts it.

=cut

sub configure
{
	my ($node, %conf) = @_;

	foreach my $setting (sort keys %conf)
	{
		my $value = $conf{$setting};
		$value =~ s/'/''/g;
		$node->append_conf('postgresql.conf', "$setting = '$value'");
	}
	return;
}

=pod

=item crash($node)

Stops the node at once, which is a crash, and starts it again.

=cut

sub crash
{
	my ($node) = @_;
	$node->stop('immediate');
	$node->start;
	return;
}

=pod

=item crash_backend($node, $pid)

Kills a process of the server as the kernel would, and waits until the server
has restarted.  The log tells when: a client that asks too early may be let in by
the server that is about to stop, or die of a broken pipe.

=cut

sub crash_backend
{
	my ($node, $pid) = @_;
	my $offset = -s $node->logfile;
	kill('KILL', $pid) or die "could not kill $pid: $!";
	wait_until(
		'restart of the server',
		sub {
			slurp_file($node->logfile, $offset) =~
			  /reinitializing.*ready to accept connections/s;
		});
	return;
}

=pod

=item clock_advance($node, $interval), clock_set($node, $timestamp)

Freezes both clocks of the server and moves them.

=cut

sub clock_advance
{
	my ($node, $interval) = @_;
	$node->safe_psql('postgres', "SELECT quota_clock_advance('$interval')");
	return;
}

sub clock_set
{
	my ($node, $timestamp) = @_;
	$node->safe_psql('postgres', "SELECT quota_clock_set('$timestamp')");
	return;
}

=pod

=item psql_value($node, $sql)

Runs C<$sql> in a session of its own in database C<postgres> and returns what
it prints: columns separated by "|", rows by newlines.  Dies on an error.

=cut

sub psql_value
{
	my ($node, $sql) = @_;
	return $node->safe_psql('postgres', $sql);
}

=pod

=item session($node, %options)

Opens a session and returns it, see L<QuotaTest::Session>.  Options: C<dbname>
(postgres), C<user> (whoever runs the test), C<options> (settings such as
C<-c work_mem=1MB>).

=cut

sub session
{
	return QuotaTest::Session->new(@_);
}

=pod

=item wait_event($session, $type, $event)

Waits until the session, which has an asynchronous query under way, waits for
an event of this type and, if given, of this name, as in pg_stat_activity.

=cut

sub wait_event
{
	my ($session, $type, $event) = @_;
	my $pid = $session->pid;
	my $condition = "wait_event_type = '$type'";
	$condition .= " AND wait_event = '$event'" if defined $event;

	$session->node->poll_query_until('postgres',
		"SELECT count(*) = 1 FROM pg_stat_activity WHERE pid = $pid AND $condition"
	  )
	  or die "session $pid never came to: $condition";
	return;
}

=pod

=item wait_gone($node, @pids)

Waits until these backends have ended, so that what they held is given back.

=cut

sub wait_gone
{
	my ($node, @pids) = @_;
	my $pids = join(', ', @pids);
	$node->poll_query_until('postgres',
		"SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid IN ($pids))")
	  or die "some backend of $pids does not end";
	return 1;
}

=pod

=item wait_idle($node)

Waits until no background worker is at work.

=cut

sub wait_idle
{
	my ($node) = @_;
	$node->poll_query_until('postgres',
		"SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'quota worker')")
	  or die 'a background worker stays';
	return 1;
}

=pod

=item wait_until($what, $condition)

Waits until the function says yes, as poll_query_until does without a server.

=back

=cut

sub wait_until
{
	my ($what, $condition) = @_;
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return if $condition->();
		select undef, undef, undef, 0.1;
	}
	die "timed out: $what";
}

1;
